"""A call's arguments in the person's own editor: what they wrote, and what it changes.

The editor gets a file of its own in a directory that only this user can read, and both are gone
afterwards. What is opened is the view without its secrets; a marker that stays is the secret again.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from orchestrator.core.approval.approval import HitlResponse, RequestedCallView
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.task.facts import CallId, RequestId
from orchestrator.core.text.visible import visible
from orchestrator.terminal.review.lines import Line, changes

# -- An editor in the foreground of the terminal, so that its keys are its own: Ctrl-C in it does not end the
# review


def run_editor(command: list[str]) -> int:
    """Run it to its end; its exit code, negative for a signal. Raises OSError where it cannot be started."""
    if os.name == "nt" or not _owns_terminal():
        return subprocess.run(command, check=False).returncode
    terminal = sys.stdin.fileno()
    own = os.getpgrp()
    with _unstopped():
        process = os.posix_spawnp(
            command[0], command, os.environ, setpgroup=0, setsigmask=(), setsigdef=(signal.SIGPIPE,)
        )
        try:
            os.tcsetpgrp(terminal, process)
            _go_on(process)
            return _ended(process)
        finally:
            with suppress(OSError):
                os.tcsetpgrp(terminal, own)


def _owns_terminal() -> bool:
    """Whether this program is in the foreground of the terminal that it reads from."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


def _ended(process: int) -> int:
    while True:
        _, status = os.waitpid(process, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return os.waitstatus_to_exitcode(status)
        # Nobody could bring it back to the foreground: Ctrl-Z does nothing here.
        _go_on(process)


def _go_on(process: int) -> None:
    """It may have touched the terminal before that was its own, and was stopped for it."""
    with suppress(OSError):
        os.killpg(process, signal.SIGCONT)


@contextmanager
def _unstopped() -> Iterator[None]:
    """The thread may set the foreground while it is in the background itself."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- A call's arguments in the person's own editor: what they wrote, and what it changes

_ENDINGS: Final[Mapping[str, str]] = {"patch": ".diff", "command": ".txt"}
_ODD: Final = re.compile(r"[^\x00-\x7f]")
_ENDING: Final = re.compile(r"\.[A-Za-z0-9]{1,8}\Z")


class EditorFailed(Exception):
    """Nothing usable came back from the editor; the message says why."""


def editor_command(environ: Mapping[str, str], *, windows: bool = os.name == "nt") -> list[str]:
    """The editor and its options: VISUAL, EDITOR, or what every system has. Raises EditorFailed."""
    for name in ("VISUAL", "EDITOR"):
        if wanted := environ.get(name, "").strip():
            try:
                return shlex.split(wanted, posix=not windows)
            except ValueError:
                raise EditorFailed(f"{name} is {wanted!r}, and its quotes do not match.") from None
    return ["notepad" if windows else "vi"]


def edited_text(text: str, ending: str = ".txt") -> str:
    """The text as the person left it. Raises EditorFailed.

    A line break that the editor put after a last line without one is not theirs, and is taken off again.
    """
    command = editor_command(os.environ)
    with tempfile.TemporaryDirectory(prefix="cc-orchestrator-") as private:
        path = Path(private) / f"edit{ending}"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123 - its mode
            file.write(text.encode("utf-8", "surrogatepass"))
        try:
            code = run_editor([*command, str(path)])
        except (OSError, subprocess.SubprocessError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise EditorFailed(f"{command[0]!r} cannot be started: {why}. Set EDITOR to another.") from None
        if code:
            raise EditorFailed(f"{command[0]!r} ended with code {code}.")
        try:
            found = path.read_bytes().decode("utf-8")
        except OSError as error:
            raise EditorFailed(f"The file is gone: {error.strerror}.") from None
        except UnicodeDecodeError as error:
            raise EditorFailed(f"The file is not UTF-8 at byte {error.start}.") from None
    return found.removesuffix("\n") if found.endswith("\n") and not text.endswith("\n") else found


def parsed(text: str) -> dict[str, Any]:
    """Arguments as they were typed. Raises EditorFailed with where they are no JSON object."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise EditorFailed(f"{twice!r} stands there twice.")
        return dict(pairs)

    def never(name: str) -> Any:
        raise EditorFailed(f"{name} is no value of JSON.")

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=never)
    except json.JSONDecodeError as error:
        raise EditorFailed(f"That is no JSON: {error.msg} at line {error.lineno}, column {error.colno}.") from None
    except (RecursionError, ValueError):
        raise EditorFailed("That is no JSON that anybody can read.") from None
    if not isinstance(value, dict):
        raise EditorFailed("That is JSON, but no object with the arguments by their names.")
    return value


def text_argument(tool: str, args: Mapping[str, Any]) -> str | None:
    """The name of the argument that is a text to edit by itself; None: there is none."""
    spec = BUILT_IN_CATALOG.get(tool)
    name = spec.edits if spec is not None else ""
    return name if name and isinstance(args.get(name), str) else None


def args_as_json(args: dict[str, Any]) -> str:
    """The arguments as JSON, in which what no editor would show is an escape."""
    text = json.dumps(args, indent=2, ensure_ascii=False) + "\n"
    return _ODD.sub(lambda odd: odd[0] if visible(odd[0]) == odd[0] else json.dumps(odd[0])[1:-1], text)


def ending_of(name: str, args: Mapping[str, Any]) -> str:
    """The ending of the file, from which editors guess the language."""
    found = _ENDING.search(str(args.get("path", "")))
    return _ENDINGS.get(name) or (found.group() if found else ".txt")


def changed_lines(call: RequestedCallView, args: Mapping[str, Any]) -> list[Line]:
    """What a person changed of a call's arguments; empty: nothing."""
    differs = changes(call.args, args)
    return [Line("  what you changed:"), *differs] if differs else []


class Drafts:
    """Edited arguments that were not taken yet: the next edit begins with them."""

    def __init__(self) -> None:
        self._kept: dict[tuple[RequestId, CallId], dict[str, Any]] = {}

    def begin(self, request: HitlResponse, call: RequestedCallView) -> dict[str, Any]:
        """The arguments to begin with."""
        return dict(self._kept.get((request.request_id, call.call_id), call.args))

    def keep(self, request: HitlResponse, call: RequestedCallView, args: dict[str, Any]) -> None:
        """Keep the arguments that a person wrote."""
        self._kept[request.request_id, call.call_id] = args

    def drop(self, request: HitlResponse, call: RequestedCallView) -> None:
        """Drop an edit that the person gave up."""
        self._kept.pop((request.request_id, call.call_id), None)

    def forget(self, request_id: str) -> None:
        """Drop all edits of a request that was decided."""
        self._kept = {key: args for key, args in self._kept.items() if key[0] != request_id}
