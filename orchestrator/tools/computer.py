"""The ``cc_*`` tools: one command each, and what a reviewer is shown before it.

A function makes exactly one call with an effect, so that one bracket in the journal stands for
one frame. What it must find there travels with it (``if_hash``): the computer compares and
acts in one step.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.core.errors import ComputerFailed, ToolFailed
from orchestrator.core.facts import Observed
from orchestrator.core.patch import unified_diff
from orchestrator.core.paths import canonical_path
from orchestrator.core.wire import MAX_BODY_BYTES, sha256_hex
from orchestrator.ports import CallResult
from orchestrator.tools.deps import ABSENT, CCAgentDeps, Encoding, call_cc_command

RUN_TIMEOUT_S = 60
"""How long a program may run: long enough for a turtle's errand, short enough to wait for."""
_ANSWER_GRACE_S = 30.0
"""Lag and the client's three tries to terminate, on top of the program's own time."""
MAX_RESULT_CHARS = 12_000
"""What of an output the model is told: about 4,000 tokens, head and tail."""


async def cc_read(deps: CCAgentDeps, *, path: str) -> str:
    """The text of a file on the computer."""
    name = canonical_path(path)
    if deps.mode == "stub":
        return deps.file_cache.setdefault(name, f"-- Stub content for {path}\n")
    result = await _call(deps, "fs_read", {"path": name}, path)
    return capped(decode_text(result.body))


async def cc_write(deps: CCAgentDeps, *, path: str, content: str) -> str:
    """Write a file on the computer, whole; the old bytes stay unless they are the expected ones."""
    name = canonical_path(path)
    if deps.mode == "stub":
        deps.file_cache[name] = content
        return f"Wrote {len(content.encode())} bytes to {path}"
    if deps.expected is None or deps.encoding is None:
        observed = await observe_write(deps, path=path, content=content)
        expected, encoding = observed.state[name], observed.encoding
    else:
        expected, encoding = _expected_of(deps, name), deps.encoding
    body = content.encode(encoding)
    _must_fit(body)
    await _call(deps, "fs_write", {"path": name, "if_hash": expected}, path, body)
    return f"Wrote {len(body)} bytes to {path}"


async def cc_list(deps: CCAgentDeps, *, path: str) -> str:
    """The entries of a directory on the computer, one a line."""
    name = canonical_path(path)
    if deps.mode == "stub":
        return _stub_listing(deps, name)
    result = await _call(deps, "fs_list", {"path": name}, path)
    return capped("\n".join(_entries(result.body))) or "(empty)"


async def cc_delete(deps: CCAgentDeps, *, path: str) -> str:
    """Delete a file or directory on the computer, if it is still the expected one."""
    name = canonical_path(path)
    if deps.mode == "stub":
        if deps.file_cache.pop(name, None) is None:
            raise ToolFailed(f"There is no {path}.")
        return f"Deleted {path}"
    expected = await _expected(deps, name)
    if expected == ABSENT:
        raise ToolFailed(f"There is no {path} on the computer.")
    await _call(deps, "fs_delete", {"path": name, "if_hash": expected}, path)
    return f"Deleted {path}"


async def cc_run_program(deps: CCAgentDeps, *, path: str, args: Sequence[str] = ()) -> str:
    """Run a program on the computer, the very bytes that were expected, and see its output."""
    if deps.mode == "stub":
        return f"Program {path} executed successfully.\nOutput:\n[stub: the program was not run]"
    program, sha256 = await _program(deps, "/" + canonical_path(path), path)
    params = {"path": program, "if_hash": sha256, "timeout_s": RUN_TIMEOUT_S}
    result = await _run(deps, "run_program", params, list(args), f"Program {path}")
    return f"Program {path} executed successfully.\nOutput:\n{result}"


async def cc_shell(deps: CCAgentDeps, *, command: str) -> str:
    """Run one command line of the computer's shell and see its output."""
    if deps.mode == "stub":
        return f"Command {command} executed successfully.\nOutput:\n[stub: the command was not run]"
    words = split_command(command)
    program, sha256 = await _program(deps, words[0], words[0])
    params = {"path": program, "if_hash": sha256, "timeout_s": RUN_TIMEOUT_S}
    result = await _run(deps, "shell", params, words, f"Command {command}")
    return f"Command {command} executed successfully.\nOutput:\n{result}"


# -- what a reviewer is shown ------------------------------------------------------------


async def observe_write(deps: CCAgentDeps, *, path: str, content: str) -> Observed:
    """What is there now, and the unified diff to what would be."""
    name = canonical_path(path)
    if deps.mode == "stub":
        before = deps.file_cache.get(name)
        found = ABSENT if before is None else sha256_hex(before.encode())
        return Observed(state={name: found}, diff=unified_diff(before, content, name))
    _must_fit(content.encode())
    old = await _old_bytes(deps, name, path)
    if old is None:
        return Observed(state={name: ABSENT}, diff=unified_diff(None, content, name), note="A new file.")
    diff = unified_diff(decode_text(old), content, name)
    notes = [] if diff else ["The file has this very text already."]
    encoding: Encoding = "utf-8"
    if not _is_utf8(old):
        encoding = "latin-1" if _is_latin1(content) else "utf-8"
        notes.append(f"The file is latin-1; it is written as {encoding}.")
    return Observed(state={name: sha256_hex(old)}, diff=diff, encoding=encoding, note=" ".join(notes))


async def observe_delete(deps: CCAgentDeps, *, path: str) -> Observed:
    """What would be deleted."""
    name = canonical_path(path)
    if deps.mode == "stub":
        before = deps.file_cache.get(name)
        return Observed(state={name: ABSENT if before is None else sha256_hex(before.encode())})
    stat = (await _call(deps, "fs_stat", {"path": name}, path)).data
    match stat.get("kind"):
        case "file":
            note = f"A file of {stat.get('size', 0)} bytes."
        case "directory":
            note = f"A directory with all that is in it:\n{await cc_list(deps, path=path)}"
        case _:
            raise ToolFailed(f"There is no {path} on the computer.")
    return Observed(state={name: str(stat.get("sha256", ABSENT))}, note=note)


async def observe_run(deps: CCAgentDeps, *, path: str, args: Sequence[str] = ()) -> Observed:
    """The program as the computer resolves it, and the hash of its bytes."""
    del args
    return await _observe_program(deps, "/" + canonical_path(path))


async def observe_shell(deps: CCAgentDeps, *, command: str) -> Observed:
    """The program that the first word resolves to, and the hash of its bytes."""
    return await _observe_program(deps, split_command(command)[0])


async def _observe_program(deps: CCAgentDeps, name: str) -> Observed:
    if deps.mode == "stub":
        return Observed(state={name: ABSENT}, program=name, note="Stub mode: nothing is run.")
    try:
        stat = (await call_cc_command(deps.ws_client, "fs_stat", {"command": name})).data
    except ComputerFailed as error:
        if error.reason != "not_found":
            raise ToolFailed(_sentence(error, name)) from error
        stat = {}
    if stat.get("kind") != "file":
        return Observed(state={canonical_path(name): ABSENT}, note=f"The computer finds no program {name} now.")
    program = str(stat["path"])
    note = f"Only the {stat.get('size', 0)} bytes of {program} are bound; what it loads by require or dofile is not."
    return Observed(state={program: str(stat["sha256"])}, program=program, note=note)


# -- inside ------------------------------------------------------------------------------


async def _call(
    deps: CCAgentDeps, method: str, params: Mapping[str, Any], shown: str, body: bytes | None = None
) -> CallResult:
    try:
        return await call_cc_command(deps.ws_client, method, params, body)
    except ComputerFailed as error:
        if error.reason == "stale":
            raise
        raise ToolFailed(_sentence(error, shown)) from error


async def _run(deps: CCAgentDeps, method: str, params: Mapping[str, Any], words: list[str], what: str) -> str:
    body = json.dumps([_wire_word(word) for word in words]).encode()
    try:
        result = await call_cc_command(deps.ws_client, method, params, body, params["timeout_s"] + _ANSWER_GRACE_S)
    except ComputerFailed as error:
        if error.reason == "stale":
            raise
        output = capped(decode_text(error.body))
        shown = f"\nOutput:\n{output}" if output else ""
        raise ToolFailed(f"{what} failed ({error.reason}): {error.message}{shown}") from error
    cut = result.data.get("cut") or 0
    note = f"\n[{cut} bytes of output were left out on the computer]" if cut else ""
    return capped(decode_text(result.body)) + note


async def _expected(deps: CCAgentDeps, name: str) -> str:
    if deps.expected is not None:
        return _expected_of(deps, name)
    stat = await _call(deps, "fs_stat", {"path": name}, name)
    return str(stat.data.get("sha256", ABSENT))


def _expected_of(deps: CCAgentDeps, name: str) -> str:
    expected = (deps.expected or {}).get(name)
    if expected is None:
        raise ToolFailed(f"Nothing is known of {name}; look at it first.")
    return expected


async def _program(deps: CCAgentDeps, command: str, shown: str) -> tuple[str, str]:
    if deps.expected is not None:
        program, sha256 = next(iter(deps.expected.items()), ("", ABSENT))
    else:
        observed = await _observe_program(deps, command)
        program, sha256 = next(iter(observed.state.items()))
    if sha256 == ABSENT:
        raise ToolFailed(f"The computer finds no program {shown}.", remedy="Write it first, or list the directory.")
    return program, sha256


async def _old_bytes(deps: CCAgentDeps, name: str, shown: str) -> bytes | None:
    try:
        return (await call_cc_command(deps.ws_client, "fs_read", {"path": name})).body
    except ComputerFailed as error:
        if error.reason == "not_found":
            return None
        raise ToolFailed(_sentence(error, shown)) from error


def split_command(command: str) -> list[str]:
    """The words of a command line as the CC shell splits them: on blanks, and ``"`` groups.

    Raises ToolFailed for an empty line.
    """
    words: list[str] = []
    for number, part in enumerate((command + " ").split('"')):
        if number % 2:
            words.append(part)
        else:
            words.extend(part.split())
    if not words:
        raise ToolFailed("The command is empty.")
    return words


def decode_text(data: bytes) -> str:
    """Bytes of a computer as text: UTF-8 when valid, else latin-1."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def capped(text: str) -> str:
    """Text as the model is told it: head and tail, with the cut visible."""
    if len(text) <= MAX_RESULT_CHARS:
        return text
    half = MAX_RESULT_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def _must_fit(body: bytes) -> None:
    if len(body) > MAX_BODY_BYTES:
        raise ToolFailed(
            f"The content has {len(body)} bytes; this version sends at most {MAX_BODY_BYTES} in one write.",
            remedy="Split the program into several files.",
        )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_latin1(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


def _wire_word(word: str) -> str:
    return word.encode().decode("latin-1")


def _text(name: str) -> str:
    try:
        return name.encode("latin-1").decode()
    except (UnicodeDecodeError, UnicodeEncodeError):
        return name


def _entries(body: bytes) -> list[str]:
    """The lines of a listing. Raises ToolFailed when the computer sent something else."""
    try:
        listed: list[dict[str, Any]] = list(json.loads(body or b"[]", strict=False))
        return [f"{_text(one['name'])}/" if one["dir"] else f"{_text(one['name'])}  {one['size']}" for one in listed]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ToolFailed("The listing that the computer sent cannot be read.") from error


def _stub_listing(deps: CCAgentDeps, name: str) -> str:
    prefix = f"{name}/" if name else ""
    below = sorted({path[len(prefix) :].split("/")[0] for path in deps.file_cache if path.startswith(prefix)})
    return "\n".join(below) or "(empty)"


def _sentence(error: ComputerFailed, shown: str) -> str:
    known = {
        "not_found": f"There is no {shown} on the computer.",
        "is_directory": f"{shown} is a directory.",
        "not_a_directory": f"{shown} is not a directory.",
        "read_only": f"{shown} is read-only.",
        "access_denied": f"The computer does not give access to {shown}.",
        "too_large": f"{shown} is larger than the {MAX_BODY_BYTES} bytes that this version reads at once.",
        "no_space_for_safe_write": f"The computer's disk has no room to change {shown} safely: "
        f"{error.data.get('missing', 'some')} bytes are missing. Nothing was changed.",
        "bad_path": f"ComputerCraft would silently change the name {shown} to "
        f"{error.data.get('becomes', 'another')!r}.",
    }
    return known.get(error.reason, f"{error.message} ({error.reason})")
