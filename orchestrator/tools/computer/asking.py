"""How a tool asks its computer: one command, waited for as long as its bytes may take, errors as sentences."""

from collections.abc import Mapping
from typing import Any, Final

from orchestrator.core.errors import ComputerFailed, ToolFailed
from orchestrator.core.paths import canonical_path
from orchestrator.core.wire import MAX_WHOLE_BYTES
from orchestrator.ports import CallResult
from orchestrator.tools.deps import CCAgentDeps, CommandChannel, call_cc_command
from orchestrator.tools.stub import StubComputer

SLOWEST_BYTES_PER_S: Final = 20_000
"""A body on a server that lags: one frame of 48 KiB in 2.4 s."""
_ANSWER_S: Final = 60.0
READ_WAIT_S: Final = _ANSWER_S + MAX_WHOLE_BYTES / SLOWEST_BYTES_PER_S
"""For an answer whose size is not known before."""
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


def changed_name(path: str) -> str:
    """The canonical path of what is to be changed. Raises ToolFailed for the root, UnsafePath."""
    name = canonical_path(path)
    if not name:
        raise ToolFailed("The root directory itself cannot be changed.", remedy="Name something in it.")
    return name


def named(path: str, name: str) -> str:
    """A path as the model wrote it and, where the computer reads it otherwise, what it is there."""
    return path if path.strip("/") == name else f"{path} (which the computer calls {name})"


def sentence(error: ComputerFailed, shown: str) -> str:
    """What a computer's error code means, for the model."""
    known = {
        "not_found": f"There is no {shown} on the computer.",
        "is_directory": f"{shown} is a directory.",
        "not_a_directory": f"{shown} is not a directory.",
        "read_only": f"{shown} is read-only.",
        "access_denied": f"The computer does not give access to {shown}.",
        "too_large": f"{shown} is larger than the {MAX_WHOLE_BYTES} bytes that can be sent at once.",
        "exists": "Something is in the new place already. Choose another name, or move it away first.",
        "no_match": f"The text to replace is not in {shown}. Read the file again and copy it exactly.",
        "several_matches": f"The text to replace occurs {error.data.get('count', 'several')} times in {shown}. "
        "Give more of the lines around it.",
        "not_running": f"{shown} is not running any more.",
        "no_space_for_safe_write": f"The computer's disk has no room to change {shown} safely: "
        f"{error.data.get('missing', 'some')} bytes are missing. Nothing was changed.",
        "bad_path": f"ComputerCraft would silently change the name {shown} to "
        f"{error.data.get('becomes', 'another')!r}.",
        "unknown_method": "The client on this computer is too old for this command. Its user can update it.",
    }
    return known.get(error.reason, f"{error.message} ({error.reason})")
