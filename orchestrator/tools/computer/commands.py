"""How a tool asks its computer: one command, waited for as long as its bytes may take, errors as sentences."""

from collections.abc import Mapping
from typing import Any, Final

from orchestrator.core.errors import ComputerFailed, ToolFailed
from orchestrator.core.ports import CallResult
from orchestrator.core.text.paths import canonical_path
from orchestrator.core.wire.wire import MAX_WHOLE_BYTES
from orchestrator.tools.deps import CCAgentDeps, CommandChannel, call_cc_command
from orchestrator.tools.stub import StubComputer
from orchestrator.tools.text import shown_name

SLOWEST_BYTES_PER_S: Final = 20_000
"""A body on a server that lags: one frame of 48 KiB in 2.4 s."""
_ANSWER_S: Final = 60.0
READ_WAIT_S: Final = _ANSWER_S + MAX_WHOLE_BYTES / SLOWEST_BYTES_PER_S
"""For an answer whose size is not known before."""
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
    """The bytes of a file; None: there is none. Raises ToolFailed when it is no file or too large."""
    try:
        return (await call_cc_command(channel_of(deps), "fs_read", {"path": name}, wait_s=READ_WAIT_S)).body
    except ComputerFailed as error:
        if error.reason == "not_found":
            return None
        raise ToolFailed(sentence(error, shown)) from error


def name_of(path: str) -> str:
    """The canonical path of a file on the computer.

    Raises ToolFailed for a name that the game would change, UnsafePath.

    Slashes, ``.`` and ``..`` only spell a path in another way; what the game drops from a name would
    make it another file than the one that was meant.
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
    """A path as the model wrote it and, where the computer reads it otherwise, what it is there."""
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
"""Each error code of a computer as the model is told it; the same table stands in docs/protocol.md."""


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
