"""How a tool asks its computer: one command, waited for as long as its bytes may take, errors as sentences."""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar

from orchestrator.core.errors import ComputerFailed, ToolFailed
from orchestrator.core.model_view.cuts import counts_up, is_numbered
from orchestrator.core.ports import CallResult
from orchestrator.core.text.paths import canonical_path
from orchestrator.core.wire.wire import MAX_WHOLE_BYTES
from orchestrator.tools.deps import CCAgentDeps, CommandChannel, call_cc_command, shown_name
from orchestrator.tools.lua import Finding, Flag, check_lua, unknown_names
from orchestrator.tools.reference import Version, names_for, version_of
from orchestrator.tools.stub import StubComputer

# -- Names that the game lists and cannot reach: put on the disk from the host, they become others, or lead to
# nothing

_SHOWN: Final = 5
_UNNAMED: Final = "?"
"""Stands for a name that is not told: no name that the game reaches has it."""


@dataclass(frozen=True)
class Unreachable:
    """A computer's report of such names below a path; a computer may say anything."""

    count: int = 0
    names: tuple[str, ...] = ()
    """The first of them, as byte strings, relative to the path.

    A name that is not text of one line has placeholders instead.
    """

    @property
    def why(self) -> str:
        """Why nothing is known of them, as a sentence that each of the names gets."""
        more = self.count - len(self.names)
        return f"The game cannot reach this name{f', nor {more} more there' if more else ''}."

    @property
    def told(self) -> str:
        """How many they are and the first ones, for the model; empty: there are none."""
        if not self.count:
            return ""
        names = ", ".join(map(shown_name, self.names[:_SHOWN]))
        more = self.count - min(len(self.names), _SHOWN)
        which = f"{names} and {more} more" if more else names
        return f"(and {self.count} {'name' if self.count == 1 else 'names'} that the game cannot reach: {which})"


def unreachable_in(data: Mapping[str, Any]) -> Unreachable:
    """What the answer to a look says of them; it names none where there is none."""
    count, lines = data.get("unreachable", 0), data.get("unreachable_names", "")
    if not isinstance(count, int) or not isinstance(lines, str) or count < 1:
        return Unreachable()
    names = tuple(line for line in lines.split("\n") if _is_path(line))[:count]
    return Unreachable(count, names or (_UNNAMED,))


def _is_path(line: str) -> bool:
    parts = line.split("/")
    return not {"", ".", ".."} & set(parts) and not any(one == "\0" or one > "\xff" for one in line)


# -- Lua that is about to be written: it has to parse, and names that the computer does not have are told
#
# Under a grammar an unescaped quote in a reply gives no broken JSON but a program that is cut at that quote (models.md,
# section 0). So a program of the model's that does not parse never comes before a person. A person's edit of it is
# theirs: the fault is shown beside the request and the result, and nothing is refused.

_MAX_FLAGS: Final = 3
_STARTUP: Final = re.compile(r"(?:disk[0-9]*/)?startup(?:/[^/.]+)?")
"""What the game runs at boot whatever its suffix: the startup file, and each file in the directory of that name."""
_NUMBERS: Final = (
    "Each line begins with its number, as cc_read shows it. If the numbers do not belong in the file, write it without."
)
_AT_ONCE: Final = 20_000
"""Characters that are looked through on the event loop: ten milliseconds at the worst."""

_KEPT: Final = 8
"""Programs whose faults are kept: the same text is read for the request, and again when the call runs."""

_T = TypeVar("_T")


def is_lua(name: str) -> bool:
    """Whether a file is a program by its canonical name: ``.lua``, or what is run at boot without it."""
    folded = name.casefold()
    return folded.endswith(".lua") or _STARTUP.fullmatch(folded) is not None


async def must_parse(deps: CCAgentDeps, name: str, after: str, *, before: str | None = None) -> None:
    """Raises ToolFailed with line and message where a program does not parse.

    ``before`` is what an edit starts from (None: the whole text is new): one that did not parse may be fixed
    step by step.
    """
    if deps.by_person or not is_lua(name):
        return
    version = version_of(deps.host)
    finding = await _away(after, lambda: first_fault(after, version, name))
    if finding is None:
        return
    if before is not None and await _away(before, lambda: check_lua(before, version=version)) is not None:
        return
    if is_numbered(after):
        raise ToolFailed(
            "Each line begins with a line number as cc_read shows it, such as '1| '. These are not part of a program.",
            remedy="Nothing was written. Send it without the numbers.",
        )
    raise ToolFailed(f"This is not Lua that runs: {finding.sentence}", remedy="Nothing was written. Send it fixed.")


async def doubts(deps: CCAgentDeps, name: str, after: str) -> str:
    """The likely faults of a program that is written all the same; empty: none are seen."""
    if not is_lua(name):
        return _NUMBERS if counts_up(after) else ""
    version = version_of(deps.host)
    finding = await _away(after, lambda: first_fault(after, version, name))
    if finding is not None:
        return f"It does not parse yet: {finding.sentence}"
    flags = await _away(after, lambda: _flags(after, version, deps.family))
    shown = " ".join(flag.sentence for flag in flags[:_MAX_FLAGS])
    return f"{shown} And {len(flags) - _MAX_FLAGS} more names." if len(flags) > _MAX_FLAGS else shown


@lru_cache(maxsize=_KEPT)
def first_fault(text: str, version: Version | None, name: str) -> Finding | None:
    """The first syntax error of a program; None: it parses."""
    return check_lua(text, version=version, name=name)


@lru_cache(maxsize=_KEPT)
def _flags(text: str, version: Version | None, family: str) -> list[Flag]:
    return unknown_names(text, names_for(version, family or None), version=version)


async def _away(text: str, look: Callable[[], _T]) -> _T:
    """What a look at a text says; a long one is looked through away from the event loop."""
    return look() if len(text) < _AT_ONCE else await asyncio.to_thread(look)


# -- How a tool asks its computer: one command, waited for as long as its bytes may take, errors as sentences

SLOWEST_BYTES_PER_S: Final = 20_000
"""A body on a server that lags: one frame of 48 KiB in 2.4 s."""
_ANSWER_S: Final = 60.0
READ_WAIT_S: Final = _ANSWER_S + MAX_WHOLE_BYTES / SLOWEST_BYTES_PER_S
"""Seconds for an answer whose size is not known before."""
_MAX_BIGGEST: Final = 5
_NOT_FOR_THE_MODEL: Final = frozenset({"stale", "outcome_unknown"})
"""Codes that decide what becomes of the call, and not only what the model is told."""


def channel_of(deps: CCAgentDeps) -> CommandChannel | None:
    """The way to the computer; in stub mode to the dictionary that plays one."""
    return StubComputer(deps.file_cache) if deps.mode == "stub" else deps.ws_client


async def ask(
    deps: CCAgentDeps,
    method: str,
    params: Mapping[str, Any],
    shown: str,
    body: bytes | None = None,
    *,
    wait_s: float | None = None,
) -> CallResult:
    """One command; ``shown`` is the path as the model wrote it. ``wait_s`` None: what the body's size needs.

    Raises ToolFailed with a sentence for the model; ComputerFailed where the actor has to know (``stale``,
    ``outcome_unknown``); ComputerAway, CallVoid, CallLost.
    """
    if wait_s is None:
        wait_s = _ANSWER_S + len(body or b"") / SLOWEST_BYTES_PER_S
    try:
        return await call_cc_command(channel_of(deps), method, params, body, wait_s)
    except ComputerFailed as error:
        if error.reason in _NOT_FOR_THE_MODEL:
            raise
        raise ToolFailed(sentence(error, shown)) from error


async def read_bytes(deps: CCAgentDeps, name: str, shown: str) -> bytes | None:
    """The bytes of a file; None: there is none. Raises ToolFailed when it is not a file or too large."""
    try:
        return (await call_cc_command(channel_of(deps), "fs_read", {"path": name}, wait_s=READ_WAIT_S)).body
    except ComputerFailed as error:
        if error.reason == "not_found":
            return None
        raise ToolFailed(sentence(error, shown)) from error


def name_of(path: str) -> str:
    """The canonical path of a file on the computer.

    Raises ToolFailed for a name that the game would change, UnsafePath.

    Slashes, ``.`` and ``..`` only spell a path in another way; a character that the game drops from a name would make
    it another file.
    """
    name = canonical_path(path)
    spelled: list[str] = []
    for part in path.replace("\\", "/").split("/"):
        if part == "..":
            spelled = spelled[:-1]
        elif part not in ("", "."):
            spelled.append(part)
    if not name and spelled:
        raise ToolFailed(f"ComputerCraft would leave no name of {path!r}.", remedy="Choose another name.")
    if "/".join(spelled) != name:
        raise ToolFailed(
            f"ComputerCraft would silently change the name {path!r} to {name!r}.",
            remedy=f"Use {name!r} if that is what you mean, or choose another name.",
        )
    return name


def changed_name(path: str) -> str:
    """The canonical path of what is to be changed. Raises as :func:`name_of`, and ToolFailed for the root."""
    name = name_of(path)
    if not name:
        raise ToolFailed("The root directory itself cannot be changed.", remedy="Name something in it.")
    return name


def named(path: str, name: str) -> str:
    """A path as the model wrote it and, where the computer reads it otherwise, the path there."""
    return path if path.strip("/") == name else f"{path} (which the computer calls {name})"


SENTENCES: Final[Mapping[str, str]] = {
    "stale": "{shown} is not what it was when it was looked at. Read it again.",
    "not_found": "There is no {shown} on the computer.",
    "is_directory": "{shown} is a directory.",
    "not_a_directory": "{file} is a file, not a directory.",
    "access_denied": "The computer does not give access to {shown}.",
    "read_only": "{shown} is read-only.",
    "no_space_for_safe_write": "{disk} has no room to change {shown} safely: {missing} bytes are missing. "
    "Nothing was changed.{biggest}",
    "bad_path": "ComputerCraft would silently change the name {shown} to {becomes!r}. Choose another name.",
    "unreachable": "In {shown} is a name that the game cannot reach: {name}. What it is of cannot be kept, so {shown} "
    "stays as it is. A person with access to the files of the world can rename it there.",
    "too_large": "{shown} is larger than the {limit} bytes that can be sent at once.",
    "exists": "Something is in the new place already. Choose another name, or move it away first.",
    "no_match": "The text to replace is not in {shown}. Read the file again and copy it exactly.",
    "several_matches": "The text to replace occurs {count} times in {shown}. Give more of the lines around it.",
    "not_running": "There is nothing to see of {shown}: {message}",
    "no_such_peripheral": "There is no peripheral {shown} at the computer. cc_info lists them.",
    "no_such_method": "The peripheral has no method {shown}. cc_info lists them.",
    "peripheral_error": "{shown} failed: {message}",
    "program_error": "{shown} ended with an error: {message}",
    "timed_out": "{shown} was stopped after its time was over: {message}",
    "terminated": "{shown} was told to end: {message}",
    "abandoned": "{shown} ignored that it was told to end, and was left: {message}",
    "unknown_method": "The client on this computer is too old for this command. Its user can update it.",
    "bad_params": "The client on this computer does not take this command so: {message} Its user can update it.",
    "not_done": "{shown} was not changed: the computer restarted before.",
    "outcome_unknown": "Whether {shown} was changed is not known.",
    "internal": "The client on the computer met a defect: {message}",
}
"""Each error code of a computer as the model is told it; the same table is in docs/protocol.md."""


def sentence(error: ComputerFailed, shown: str) -> str:
    """What a computer's error code means, for the model."""
    known = SENTENCES.get(error.reason)
    if known is None:
        return f"{error.message} ({error.reason})"
    return known.format(
        shown=shown,
        file=shown_name(str(error.data["file"])) if "file" in error.data else shown,
        message=error.message,
        disk=_disk(error.data.get("mount")),
        missing=error.data.get("missing", "some"),
        biggest=_biggest(error.data.get("biggest")),
        becomes=error.data.get("becomes", "another"),
        name=shown_name(str(error.data.get("name", "?"))),
        count=error.data.get("count", "several"),
        limit=MAX_WHOLE_BYTES,
    )


def _disk(mount: Any) -> str:
    """The disk that is full; a computer names one only when it is not its own."""
    return f"The disk {shown_name(str(mount))}" if mount else "The computer's disk"


def _biggest(lines: Any) -> str:
    """The biggest files of a full disk, which the computer names as ``SIZE PATH``, a line each."""
    named_files = [line.partition(" ") for line in str(lines or "").split("\n") if " " in line]
    if not named_files:
        return ""
    listed = ", ".join(f"{shown_name(path)} ({size} bytes)" for size, _, path in named_files[:_MAX_BIGGEST])
    return f" The biggest files there: {listed}. Delete or shorten what is not needed."
