"""A task that goes round without getting on: it is warned, and then ended with its reason.

Theory. Four kinds of going round can be told from the finished calls:

- **States**: what the task has changed is as it was before, again and again (A, B, A, B; a file that is written and
  deleted; one that is moved there and back). A state is the set of paths that differ from what they were before the
  task, with their hashes. A state that was never there before begins the count again, so a file may go back and forth
  while others change; but not where nothing is looked at or run in between, as with files that are only written and
  deleted.
- **Growth**: one tool gives the same result to one call after another, and only its arguments grow.
- **Failures**: one call after another fails, whatever it is. A computer that is busy or away is not a failure of the
  task, so waiting for it counts as nothing.
- **Messages**: steps that only tell the user how it goes.

Memory and time per call are bounded, however long the task is.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.task.facts import ToolCall
from orchestrator.core.task.states import CallState
from orchestrator.core.values import changed, immutable, sha256_hex

RETURNS: Final = 3
"""Returns to earlier states in a row that end a task; it is warned at the one before."""
GROWTH: Final = 6
FAILURES: Final = 8
MESSAGES: Final = 6
_WARN_BEFORE: Final = 3
"""How much earlier than the end a task is warned of the three limits above."""

_PATHS: Final = 256
_STATES: Final = 64
_ARGS: Final = 16
_ARG_CHARS: Final = 200
_DIGEST_CHARS: Final = 16
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_PASSING: Final = frozenset(
    {"busy", "refused", "computer_away", "call_void", "call_lost", "request_lost", "interrupted"}
)
"""Codes of failures of the computer or its connection, not of the task."""
_CHANGES: Final = frozenset(spec.name for spec in BUILT_IN_CATALOG.values() if spec.changes_files and not spec.planned)
"""Tools that change files and show nothing."""
_NAMING: Final = frozenset({"path", "to", "name", "method", "old"})
"""Arguments that name a thing: another one is another thing, however it is numbered."""
_SILENT: Final = frozenset(spec.name for spec in BUILT_IN_CATALOG.values() if spec.shows == "nothing")
"""Tools that say nothing of whether a task gets on."""


class Call(Protocol):
    """A call that is over, as the fold keeps it."""

    @property
    def call(self) -> ToolCall:
        """The call."""

    @property
    def state(self) -> CallState:
        """How the call ended."""

    @property
    def ok(self) -> bool | None:
        """Whether it succeeded; None: it never ran."""

    @property
    def result(self) -> str | None:
        """The result that the model was told."""

    @property
    def code(self) -> str | None:
        """The code of a failure."""

    @property
    def mutates(self) -> bool:
        """Whether the call changes or runs something."""

    @property
    def changed(self) -> tuple[str, ...]:
        """Paths that changed while it ran, where it was watched."""

    @property
    def before(self) -> Mapping[str, str] | None:
        """Each path that it touches with its hash before; None: it never ran."""

    @property
    def after(self) -> Mapping[str, str]:
        """Each path that it changed with its hash afterwards."""


class Path(NamedTuple):
    """A path that the task changed; ``first`` is its hash before the task."""

    name: str
    first: str
    now: str


@immutable
class Growth:
    """Calls of one tool in a row with one result and growing arguments."""

    tool: str
    args: tuple[tuple[str, str], ...]
    """The arguments of the last call, each as a text that is cut."""
    result: str
    count: int


@immutable
class Rounds:
    """The signs in the finished steps of a task that goes round."""

    paths: tuple[Path, ...] = ()
    """The paths that the task changed, the one changed last at the end."""
    state: str = ""
    """The digest of what differs now; empty: nothing."""
    seen: tuple[str, ...] = ("",)
    """The digests of earlier states, the one seen last at the end."""
    returns: int = 0
    """Returns to one of them since a state was new."""
    blind: int = 0
    """Returns to one of them since something was looked at or run."""
    growth: Growth | None = None
    failures: int = 0
    messages: int = 0
    warned: bool = False
    """Whether the model was warned before the last step: one long reply ends no task unheard."""


AT_FIRST: Final = Rounds()
"""Of a task without a finished step."""


def after(rounds: Rounds, calls: Iterable[Call]) -> Rounds:
    """The counts once these calls of one step are over."""
    calls, warned = tuple(calls), bool(warning(rounds))
    only_tells = all(one.call.tool in _SILENT for one in calls)
    for one in calls:
        if one.call.tool not in _SILENT:
            rounds = _after_call(rounds, one)
    return changed(rounds, messages=rounds.messages + 1 if only_tells else 0, warned=warned)


def is_passing(one: Call) -> bool:
    """Whether a call failed because its computer was busy or away: another try may well succeed."""
    return one.ok is False and one.code in _PASSING


def result_digest(one: Call) -> str:
    """A short digest of what a call came to."""
    return sha256_hex(f"{one.ok} {one.result}".encode("utf-8", "replace"))[:_DIGEST_CHARS]


def reason(rounds: Rounds) -> str | None:
    """Why a task that goes round is ended, as a sentence; None: it goes on."""
    if not rounds.warned:
        return None
    if _returns(rounds) >= RETURNS:
        return f"The task went round: {RETURNS} times in a row, what it had changed was again as it had been before."
    if rounds.growth is not None and rounds.growth.count >= GROWTH:
        growth = rounds.growth
        return (
            f"The task went round: {growth.count} calls of {growth.tool} with growing arguments gave the same result."
        )
    if rounds.failures >= FAILURES:
        return f"The task did not get on: {rounds.failures} calls in a row failed."
    if rounds.messages >= MESSAGES:
        return f"The task did not get on: its last {rounds.messages} steps only sent messages to the user."
    return None


def warning(rounds: Rounds) -> str:
    """The warning for the model before the limit is reached; empty: none."""
    growth = rounds.growth
    if _returns(rounds) >= RETURNS - 1:
        return _warned("What you have changed is again as it was before, more than once.", "The next time")
    if growth is not None and growth.count >= GROWTH - _WARN_BEFORE:
        return _warned(
            f"{growth.count} calls of {growth.tool} gave the same result, only with other arguments.",
            f"At {GROWTH} of them",
        )
    if rounds.failures >= FAILURES - _WARN_BEFORE:
        return _warned(f"Your last {rounds.failures} calls failed.", f"At {FAILURES} in a row")
    if rounds.messages >= MESSAGES - _WARN_BEFORE:
        return _warned(f"Your last {rounds.messages} steps only sent messages.", f"At {MESSAGES} in a row")
    return ""


def _warned(what: str, when: str) -> str:
    return (
        f"{what} {when} the task ends. Try another way, or send a final with success false that says what is missing."
    )


def _returns(rounds: Rounds) -> int:
    return max(rounds.returns, rounds.blind)


def _after_call(rounds: Rounds, one: Call) -> Rounds:
    if one.ok is None or is_passing(one):
        return rounds
    looks = one.call.tool not in _CHANGES
    rounds = changed(rounds, growth=_grown(rounds.growth, one) if looks else None, blind=0 if looks else rounds.blind)
    if not one.ok:
        counts = one.state in (CallState.FAILED, CallState.SUPERSEDED, CallState.DENIED)
        return changed(rounds, failures=rounds.failures + counts)
    rounds = changed(rounds, failures=0)
    if one.changed:
        # A program changed files, and nobody knows their hashes here: this state was never there before.
        return changed(rounds, seen=(rounds.state,), returns=0)
    return _moved(rounds, one) if one.after else rounds


# -- states -------------------------------------------------------------------------------


def _moved(rounds: Rounds, one: Call) -> Rounds:
    """The changes of the task, once this call has changed something."""
    paths = {path.name: path for path in rounds.paths}
    before = one.before or {}
    for name, now in one.after.items():
        key = f"{one.call.computer or ''}:{name}"
        known = paths.pop(key, None)
        paths[key] = Path(key, known.first if known is not None else before.get(name, ""), now)
    kept = tuple(paths.values())[-_PATHS:]
    state = _state(kept)
    if state == rounds.state:
        return changed(rounds, paths=kept)
    is_new = state not in rounds.seen
    seen = (*(one for one in rounds.seen if one != state), state)[-_STATES:]
    returns = 0 if is_new else rounds.returns + 1
    return changed(rounds, paths=kept, state=state, seen=seen, returns=returns, blind=rounds.blind + (not is_new))


def _state(paths: Iterable[Path]) -> str:
    """A digest of what differs from what was there before the task; empty: nothing does."""
    differs = sorted((path.name, path.now) for path in paths if path.now != path.first)
    return hashlib.sha256(json.dumps(differs).encode()).hexdigest()[:_DIGEST_CHARS] if differs else ""


# -- growth -------------------------------------------------------------------------------


def _grown(growth: Growth | None, one: Call) -> Growth:
    """The calls in a row with this one at their end."""
    args = tuple((key, _text(value)) for key, value in sorted(one.call.args.items())[:_ARGS])
    result = _result(one)
    goes_on = growth is not None and (growth.tool, growth.result) == (one.call.tool, result)
    count = growth.count + 1 if growth is not None and goes_on and _grew(dict(growth.args), dict(args)) else 1
    return Growth(one.call.tool, args, result, count)


def _text(value: Any) -> str:
    """An argument as a text of bounded length, which a longer one begins with."""
    if type(value) is int:
        text = str(value)
    else:
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str).rstrip("]}")
    return f"{text[:_ARG_CHARS]}\n{len(text)}"


def _result(one: Call) -> str:
    """A digest of the result, without the arguments that its first line names."""
    first, _, rest = (one.result or "").partition("\n")
    for value in sorted((str(value) for value in one.call.args.values()), key=len, reverse=True):
        if 0 < len(value) <= _ARG_CHARS:
            first = first.replace(value, "…")
    return sha256_hex(f"{one.call.computer} {one.ok} {first}\n{rest}".encode("utf-8", "replace"))[:_DIGEST_CHARS]


def _grew(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether the new arguments are the old ones, some of them larger or longer, and none otherwise different."""
    if not old.keys() <= new.keys():
        return False
    others = [key for key in new if old.get(key) != new[key]]
    return bool(others) and all(
        key not in old or (key not in _NAMING and _is_larger(old[key], new[key])) for key in others
    )


def _is_larger(old: str, new: str) -> bool:
    """Whether a text goes on where the other ends, or is the same with larger numbers in it."""
    (old, _, old_size), (new, _, new_size) = old.rpartition("\n"), new.rpartition("\n")
    if int(new_size) > int(old_size) and new.startswith(old):
        return True
    if _NUMBER.sub("0", old) != _NUMBER.sub("0", new):
        return False
    pairs = list(zip(map(int, _NUMBER.findall(old)), map(int, _NUMBER.findall(new)), strict=True))
    return all(one <= other for one, other in pairs) and any(one < other for one, other in pairs)
