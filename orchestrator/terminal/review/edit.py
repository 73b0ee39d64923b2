"""A call's arguments in the person's own editor: the new text, and its differences.

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from pydantic import ValidationError

from orchestrator.core.approval.approval import CallDecision, HitlResponse, RequestedCallView, ResumeRequest
from orchestrator.core.approval.grants import SESSION_S, GrantScope, GrantSpec, fixed_args
from orchestrator.core.policy import BUILT_IN_CATALOG, RUNNERS, RiskLevel
from orchestrator.core.task.facts import CallId, DecisionAction, OnReject, RequestId
from orchestrator.core.text.visible import one_line, visible
from orchestrator.terminal.review.request_view import HASH_CHARS, Line, as_json, changes, field

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
    """Arguments as they were typed. Raises EditorFailed with the place where they are not a JSON object."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise EditorFailed(f"{twice!r} is there twice.")
        return dict(pairs)

    def never(name: str) -> Any:
        raise EditorFailed(f"{name} is not a JSON value.")

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=never)
    except json.JSONDecodeError as error:
        raise EditorFailed(f"That is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.") from None
    except (RecursionError, ValueError):
        raise EditorFailed("That JSON cannot be read.") from None
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
    """A person's changes of a call's arguments; empty: none."""
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


# -- The words that decide a request: their keys, the reasons against each, and the decision that it makes
#
# Theory. A decision carries the digests of the calls that were shown, so that it can be about nothing else; a call that
# was cut is not approved before it was shown whole (promise V3). A grant says how far it reaches before it is given
# (promises G1, G2).

MOST_TOGETHER: Final = 100
"""Requests that the server decides in one call, and that are looked at together."""
MAX_REASON_CHARS: Final = 2000
"""Characters of a reason for a decision."""
THEN: Final[Mapping[str, OnReject]] = {"c": "continue", "s": "cancel"}
"""The effects of a rejection on a task, by key."""
_KEYS: Final[Mapping[str, str]] = {
    "approve": "a",
    "edit": "e",
    "reject": "r",
    "respond": "p",
    "remember": "g",
    "check": "c",
    "mark_done": "d",
    "mark_failed": "f",
    "retry": "t",
    "whole": "w",
    "details": "d",
    "extend": "x",
}
"""The key of each word, in the order in which they are offered."""
_UNKNOWN_DETAILS: Final = "i"
"""The key of the details where ``d`` marks a call as done."""
_ONE_CALL: Final = frozenset({"edit", "respond", "remember"})
"""Words about one call only."""
_RUNS: Final = frozenset({"approve", "edit", "remember"})
_HOUR_S: Final = 3600.0
_LONGEST_S: Final = 31_536_000.0
"""A year: what the server takes."""

# -- The words of a request --------------------------------------------------------------

Refusal: TypeAlias = Literal["never", "cut", "several"]
"""Why a word cannot be said: it is not said of this request, its call was cut, or it is about one call."""


class Choices:
    """The words for a request as it was shown: for all its calls, or for the one that is chosen."""

    def __init__(self, request: HitlResponse) -> None:
        self.request = request
        self.chosen: int | None = None
        """The call that words are about, from 0; None: all."""

    @property
    def calls(self) -> tuple[RequestedCallView, ...]:
        """The calls that the words are about."""
        calls = self.request.tool_calls
        return calls if self.chosen is None else (calls[self.chosen],)

    def words(self) -> list[str]:
        """All words that can be said now; those that decide come first."""
        cut = any(call.truncated for call in self.calls)
        looks = {"whole": cut, "details": True, "extend": self.request.expires_at is not None}
        return [word for word in _KEYS if (looks[word] if word in looks else self.refusal(word) is None)]

    def key(self, word: str) -> str:
        """The key of a word."""
        return _UNKNOWN_DETAILS if word == "details" and self.is_unknown else _KEYS[word]

    @property
    def is_unknown(self) -> bool:
        """Whether it is about calls of which nobody knows whether they ran."""
        return self.request.reason == "outcome_unknown"

    def refusal(self, word: str) -> Refusal | None:
        """Why a word that decides cannot be said now; None: it can."""
        if ("approve" if word == "remember" else word) not in self.request.allowed_decisions:
            return "never"
        if word in _RUNS and any(call.truncated for call in self.calls):
            return "cut"
        return "several" if word in _ONE_CALL and len(self.calls) > 1 else None

    def decision(self, word: Any, reason: str = "", **more: Any) -> ResumeRequest:
        """The word as a decision on the calls that it is about."""
        return decision(self.request, word, reason, calls=self.calls, **more)


def decision(
    request: HitlResponse,
    action: DecisionAction,
    reason: str = "",
    *,
    calls: Iterable[RequestedCallView] | None = None,
    **more: Any,
) -> ResumeRequest:
    """One action for every call of a request, or for these, each bound to the digest that was shown."""
    return ResumeRequest(
        decisions=tuple(
            CallDecision(
                call_id=call.call_id,
                action=action,
                reason=reason,
                # A call that was cut has none; then the server binds it to the stored call, and approves nothing.
                expected_digest=call.action_digest or None,
                **more,
            )
            for call in (request.tool_calls if calls is None else calls)
        )
    )


def an_hour_more(until: datetime, now: datetime) -> float:
    """Seconds from now to an hour after a deadline."""
    return min(max(0.0, (until - now).total_seconds()) + _HOUR_S, _LONGEST_S)


# -- Approve and remember: how far a grant reaches is said before it is given ------------

Number = TypeVar("Number", int, float)
SCOPES: Final[Mapping[str, GrantScope]] = {"1": "call", "2": "task", "3": "session"}
"""How far a grant reaches, by key."""


def never_granted(call: RequestedCallView) -> str:
    """Why no grant can be given for calls like this one; empty: it can."""
    critical = call.evaluation.risk is RiskLevel.CRITICAL or call.tool not in BUILT_IN_CATALOG
    return "A critical call is decided each time: approve it this once." if critical else ""


def scope_lines(call: RequestedCallView) -> list[Line]:
    """The scopes that a grant may have, each with its key."""
    pattern = "these paths" if call.grant_paths else "calls like it"
    return [
        Line("  1  this very call, again in this task", prose=True),
        Line(f"  2  {pattern}, in this task", prose=True),
        Line(f"  3  {pattern}, in this session for some hours", prose=True),
    ]


def spec_of(
    scope: GrantScope, *, globs: str = "", any_content: bool = False, hours: str = "", uses: str = ""
) -> GrantSpec:
    """A grant as it was typed; an empty field is not widened. Raises ValueError with the fault."""
    reach: dict[str, Any] = {"any_content": any_content}
    if globs.strip():
        reach["paths"] = tuple(globs.replace(",", " ").split())
    if hours.strip():
        reach["expires_s"] = _number(float, hours, "hours") * _HOUR_S
    if uses.strip():
        reach["max_uses"] = _number(int, uses, "times")
    try:
        return GrantSpec(scope=scope, **reach)
    except ValidationError as error:
        raise ValueError(error.errors(include_url=False)[0]["msg"]) from None


def pattern_lines(request: HitlResponse, call: RequestedCallView, spec: GrantSpec) -> list[Line]:
    """Exactly what a grant would cover."""
    where = f"on computer {one_line(call.computer)}" if call.computer else "on this host"
    lines = [
        Line("  This will run from now on without asking:", "warning"),
        Line(f"  {one_line(call.tool)} {where}", "call"),
        *(_pattern(call, spec) if spec.scope != "call" else [_same_call(call)]),
    ]
    if call.tool in RUNNERS:
        lines.append(Line("  only as long as the program's file stays the same"))
    if spec.max_uses is not None:
        lines.append(Line(f"  at most {'once' if spec.max_uses == 1 else f'{spec.max_uses} times'}"))
    hours = (spec.expires_s or SESSION_S) / _HOUR_S
    requester = one_line(request.requester)
    session = f"every task of {requester} in session {one_line(request.session_id)}, for {hours:g} h"
    ends = "until it ends" if spec.expires_s is None else f"for {hours:g} h, unless it ends before"
    return [
        *lines,
        Line(f"  in: {session if spec.scope == 'session' else f'task {one_line(request.task_id)}, {ends}'}"),
        Line("  never what the policy denies, and nothing at critical risk", prose=True),
    ]


def _number(kind: Callable[[str], Number], text: str, of: str) -> Number:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{text[:20]!r} is not a number of {of}") from None


def _pattern(call: RequestedCallView, spec: GrantSpec) -> list[Line]:
    paths = spec.paths or call.grant_paths
    lines = [line for path in paths for line in field("path" if spec.paths is None else "paths like", path)]
    texts = texts_of(call)
    if texts:
        lines.append(Line(f"  {' and '.join(texts)}: {'any text' if spec.any_content else 'exactly as above'}"))
    for name, value in fixed_args(call.tool, call.args, any_content=True).items():
        lines.extend(field(name, value if isinstance(value, str) else as_json(value)))
    return lines


def _same_call(call: RequestedCallView) -> Line:
    return Line(f"  exactly this call, with digest {one_line(call.action_digest[:HASH_CHARS])}")


def texts_of(call: RequestedCallView) -> list[str]:
    """The arguments whose text a pattern may leave open."""
    tight, loose = (fixed_args(call.tool, call.args, any_content=left_open) for left_open in (False, True))
    return [name for name in tight if name not in loose]
