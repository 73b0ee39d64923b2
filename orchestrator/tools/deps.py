"""The context of a tool: the mode, the computer's channel, the workspace; and bytes of a computer as text."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol

from orchestrator.core.errors import NotFound, ToolFailed, Unreadable
from orchestrator.core.evidence.checks import NO_PROGRAM
from orchestrator.core.model_view.cuts import NO_REST, Rest, cut, numbered
from orchestrator.core.model_view.rows import rest_of_file
from orchestrator.core.ports import CallResult, Workspace
from orchestrator.core.task.facts import Ran
from orchestrator.core.text.binary import in_one_line, is_binary
from orchestrator.core.text.patch import unified_diff
from orchestrator.core.wire.wire import RunId, to_wire

# -- What a tool works with: the mode, the computer's channel, the workspace -------------

ABSENT = "absent"
"""Stands for the hash of a file that is not there."""

Encoding = Literal["utf-8", "latin-1"]


class NoProgram(ToolFailed):
    """The program that was to run is not there."""

    code = NO_PROGRAM


class ProgramFailed(ToolFailed):
    """A program ran and did not end well; ``ran`` says which bytes ran and how they ended."""

    def __init__(self, message: str, ran: Ran) -> None:
        super().__init__(message)
        self.ran = ran


class CommandChannel(Protocol):
    """The way to one computer for one call."""

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        """Send a command and wait for its outcome. Raises what ``Computers.call`` raises."""


@dataclass
class CCAgentDeps:
    """The dependencies of the tools of one task. ``mode="stub"`` needs no other field."""

    mode: Literal["stub", "live"] = "live"
    ws_client: CommandChannel | None = None
    """The computer's channel; None in stub mode."""
    file_cache: dict[str, str] = field(default_factory=dict)
    """The files in stub mode: canonical path to content."""
    workspace: Workspace | None = None
    """Where ``local_*`` works; None: every ``local_*`` is refused."""
    computer: str | None = None
    """The computer's name; None in stub mode: ``stub``."""
    host: str = ""
    """What the computer says it runs on, such as ``ComputerCraft 1.116.1 (Minecraft 1.21.1)``; empty: not known."""
    family: str = ""
    """Its kind, as its hello has it; empty: not known."""
    expected: Mapping[str, str] | None = None
    """The state that the call must find: path to sha256 or ``absent``. None: look first, then act."""
    encoding: Encoding | None = None
    """How a write encodes; None: as the file that is there is encoded."""
    by_person: bool = False
    """Whether a person edited the call: a program in it that does not parse is shown with its fault, not refused."""
    noted: str = ""
    """The note of the look before the call."""
    run_id: RunId | None = None
    """The run that a bracket names; None: the call has no bracket."""
    timeout_s: float | None = None
    """Seconds that a program may run; None: the tools' own limit."""
    keep: Callable[[bytes], Awaitable[None]] | None = None
    """Keeps bytes that a change will replace, by their sha256, before it is shown; None: nobody wants them."""
    fetch: Callable[[str], Awaitable[bytes]] | None = None
    """The bytes of an earlier state by their sha256; raises NotFound. None: nothing is kept."""
    after: dict[str, str] = field(default_factory=dict)
    """The state that the call left, told by the tool: path to sha256 or ``absent``."""
    ran: Ran | None = None
    """The program that the call ran, told by the tool; None: it ran none that ended well."""


async def earlier_bytes(deps: CCAgentDeps, path: str, sha256: str) -> bytes:
    """The bytes of an earlier state. Raises ToolFailed when the store does not have them, or not whole."""
    try:
        if deps.fetch is not None:
            return await deps.fetch(sha256)
    except Unreadable as damaged:
        raise ToolFailed(f"The earlier bytes of {path} are damaged in the store.", remedy=damaged.remedy) from damaged
    except NotFound:
        pass
    raise ToolFailed(f"The earlier bytes of {path} are not in the store.")


async def call_cc_command(
    ws_client: CommandChannel | None,
    method: str,
    params: Mapping[str, Any],
    body: bytes | None = None,
    wait_s: float = 60.0,
) -> CallResult:
    """One command on a computer: text in ``params`` is sent as the bytes of its UTF-8, escaped bytes as themselves.

    Raises ToolFailed without a channel; ComputerAway, CallVoid, CallLost, ComputerFailed.
    """
    if ws_client is None:
        raise ToolFailed("There is no computer to send this to.", remedy="Use mode='stub', or connect one.")
    encoded = {key: byte_string(value) if isinstance(value, str) else value for key, value in params.items()}
    return await ws_client.call(method, encoded, body, wait_s)


def byte_string(text: str) -> str:
    """Text as a byte string of the header; a byte that stands escaped (``surrogateescape``) is itself."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    except UnicodeEncodeError:
        return to_wire(text)


# -- Bytes of a computer as text and back, and how much of a text the model is told ------

MAX_RESULT_CHARS: Final = 12_000
"""Characters of an output for the model: about 4,000 tokens, head and tail."""
_FIRST_BYTES: Final = 32
"""Bytes shown of a file that is not text: enough to tell what it is."""


def decode_text(data: bytes) -> str:
    """Bytes of a computer as text: UTF-8 when valid, else latin-1."""
    return data.decode(encoding_of(data))


def encoding_of(data: bytes) -> Encoding:
    """How the bytes of a file are read as text: UTF-8 when valid, else latin-1."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def fits_latin1(text: str) -> bool:
    """Whether latin-1 has every character of the text."""
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


def wire_word(word: str) -> str:
    """A word of an argument list as a byte string: each byte of its UTF-8 as one character."""
    return word.encode().decode("latin-1")


def shown_name(name: str) -> str:
    """A byte string of a computer, such as a file's name, as text."""
    try:
        return name.encode("latin-1").decode()
    except (UnicodeDecodeError, UnicodeEncodeError):
        return name


def shown_part(part: str) -> str:
    """A byte string that was cut out of a file, as text: a character that was cut through is left out."""
    start = next((at for at in range(min(4, len(part))) if not "\x80" <= part[at] <= "\xbf"), 0)
    for end in range(len(part), max(len(part) - 4, 0), -1):
        half = part[end:]
        if half and half[0] < "\xc0":
            continue
        try:
            return part[start:end].encode("latin-1").decode()
        except (UnicodeDecodeError, UnicodeEncodeError):
            continue
    return part


def capped(text: str, rest: Rest = NO_REST) -> str:
    """Text as the model is told it: head and tail, and between them the lines that are left out."""
    return cut(text, MAX_RESULT_CHARS, rest)


def numbered_lines(data: bytes, path: str, start: int | None = None, most: int | None = None) -> str:
    """A file as the model is told it: each line with its number, and a line about what the lines do not show.

    ``start`` is the first line that is wanted, ``most`` how many; None: from the first, to the last. ``path`` is as
    the model wrote it. Raises ToolFailed where the file has no line ``start``.
    """
    if not data:
        return "[the file is empty]"
    if is_binary(path, data):
        return f"[not text: {len(data)} bytes, the first are {data[:_FIRST_BYTES].hex(' ')}]"
    text = decode_text(data)
    lines = text.split("\n")
    is_ended = not lines[-1]
    if is_ended:
        lines.pop()
    first = start or 1
    if first > len(lines):
        count = "one line" if len(lines) == 1 else f"{len(lines)} lines"
        raise ToolFailed(f"{path} has only {count}.", remedy="Give a lower start_line.")
    last = len(lines) if most is None else min(len(lines), first - 1 + most)
    shown = lines[first - 1 : last]
    notes = [] if start is None and most is None else [f"lines {first}-{last} of {len(lines)}"]
    returns = text.count("\r\n") if "\r" in text else 0
    if returns and returns == len(lines) - (not is_ended):
        notes.append("each line ends with \\r\\n")
        shown = [line.removesuffix("\r") for line in shown]
    elif returns:
        notes.append("lines that end with \\r\\n show the \\r")
    if last == len(lines) and not is_ended:
        notes.append("the last line has no line end")
    header = f"[{'; '.join(notes)}]" if notes else ""
    rest = rest_of_file(path, paged=start is not None)
    return numbered(shown, first, MAX_RESULT_CHARS, rest, header=header)


# -- How a change of a file is shown: as a diff where it is text, and in one line what is binary


class Change(NamedTuple):
    """What happens to the bytes of a file."""

    diff: str | None
    """The diff of all text in it, with the binary files left out; None: there is none."""
    binary: str
    """The state before and after, with the whole hashes, where one of them is binary; empty: neither is."""


def change_of(path: str, before: bytes | None, after: bytes | None, *, typed: str | None = None) -> Change:
    """A change of a file as a person sees it; None: there is no file.

    ``typed``: ``after`` as text, where it is known how to read it: then it is shown, whatever it is.
    """
    if before is None and after is None:
        return Change(None, "")
    hides_old = before is not None and is_binary(path, before)
    hides_new = typed is None and after is not None and is_binary(path, after)
    binary = f"{in_one_line(path, before)} -> {in_one_line(path, after)}" if hides_old or hides_new else ""
    if binary and (before is None or hides_old) and (after is None or hides_new):
        return Change(None, binary)
    # A binary file is left out as if it were empty, so that all text that there is can be read.
    old = None if before is None else "" if hides_old else decode_text(before)
    new = typed if typed is not None or after is None else "" if hides_new else decode_text(after)
    return Change(unified_diff(old, new, path), binary)
