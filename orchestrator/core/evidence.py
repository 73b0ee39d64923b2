"""Whether the journal bears out a success that a model claims: small models say "done" and nothing was written.

Theory. A few things are kept of the finished steps. An **effect** is a change or a run that succeeded; it stands until
a change or a run fails, is denied or rejected, also one of the same reply. A **sight** is anything else that
succeeded: what was read, listed, or answered by the user; a program that only lists is one. A **gap** is a look that
failed; contents that were seen after it close it, but not for a file that the task names: that one has to be seen.

A task that asks for something to be done needs an effect, and one on the file that it says is to be changed; one that
only asks for knowledge needs a sight, and so does a task that may only look: there the message is the result, so it
has to say something, and nothing of a change that never was. With an open gap there is no success at all. What a task
asks for and what a message claims is read off their words (claims.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from orchestrator.core.call_states import CallState
from orchestrator.core.claims import asks_only, claims_change, named_targets, says_nothing
from orchestrator.core.facts import ToolCall
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.response import FinalResult

_SHOWN_CHARS: Final = 160
_NO_SIGHT: Final = frozenset({"send_status"})
_NO_CLOSURE: Final = frozenset({"cc_list", "ask_user", "cc_docs", "cc_info", "cc_screen"})
_NOTHING_FOUND: Final = "[0 "
"""How the result of a search begins that found nothing."""
_LISTING: Final = frozenset(
    {"ls", "list", "dir", "type", "id", "help", "about", "programs", "apis", "time", "drives", "motd"}
)
"""Programs of the game that only show something."""


@dataclass(frozen=True)
class Evidence:
    """What the finished steps of a task show."""

    effect: bool = False
    """A change or a run succeeded, and none failed after it."""
    sight: bool = False
    """Something was looked at, or the user was asked."""
    failure: str = ""
    """The last change or run that failed, while nothing made up for it; empty: there is none."""
    gap: str = ""
    """The last look that failed, while nothing made up for it; empty: there is none."""
    unseen: tuple[str, ...] = ()
    """The paths that could not be read, and were neither read nor changed since."""
    touched: tuple[str, ...] = ()
    """What the changes and runs were about that succeeded: paths, command lines, what changed while one ran."""
    denied: bool = False
    """The policy denied a change or a run, and none succeeded after it."""


NOTHING: Final = Evidence()
"""Of a task without a finished step."""


class Over(Protocol):
    """A call that is over, as the fold keeps it."""

    @property
    def call(self) -> ToolCall:
        """The call."""

    @property
    def state(self) -> CallState:
        """How it ended."""

    @property
    def ok(self) -> bool | None:
        """Whether it succeeded."""

    @property
    def result(self) -> str | None:
        """What the model was told."""

    @property
    def mutates(self) -> bool:
        """Whether it changes or runs something."""

    @property
    def changed(self) -> tuple[str, ...]:
        """Paths that changed while it ran, where it was watched."""


def after(evidence: Evidence, calls: Iterable[Over]) -> Evidence:
    """The evidence once these calls of one step are over, in the order of the reply."""
    done: set[str] = set()
    failed: dict[str, str] = {}
    for record in calls:
        if record.state is CallState.DENIED and record.call.call_digest in done:
            # The same call stood twice in the reply, and the first one counted.
            continue
        evidence = _after(evidence, record)
        if record.ok:
            done.add(record.call.call_digest)
            failed.pop(_path(record), None)
        elif record.state in _FAILURES and record.call.tool in BUILT_IN_CATALOG and _changes(record):
            failed[_path(record)] = _named(record)
    if failed:
        # What succeeded beside it does not make up for it.
        evidence = replace(evidence, effect=False, failure=[*failed.values()][-1])
    return evidence


def _after(evidence: Evidence, record: Over) -> Evidence:
    tool = record.call.tool
    if tool not in BUILT_IN_CATALOG or tool in _NO_SIGHT:
        return evidence
    if not _changes(record):
        return _seen(evidence, record)
    if record.state is CallState.ANSWERED:
        # What a person gave instead of a result changed nothing.
        return evidence
    if not record.ok:
        denied = evidence.denied or record.state is CallState.DENIED
        return replace(evidence, effect=False, failure=_named(record), denied=denied)
    about = [*(str(record.call.args[name]) for name in _ABOUT if record.call.args.get(name)), *record.changed]
    left = tuple(one for one in evidence.unseen if one not in about)
    touched = (*evidence.touched, *(one for one in about if one not in evidence.touched))
    return replace(evidence, effect=True, failure="", gap="", denied=False, unseen=left, touched=touched)


_FAILURES: Final = frozenset({CallState.FAILED, CallState.DENIED, CallState.SUPERSEDED})
"""Ends of a call that nothing beside it makes up for; what a person rejected they know of."""
_ABOUT: Final = ("path", "to", "command", "args")
"""Arguments that say what a change or a run is about."""


def _seen(evidence: Evidence, record: Over) -> Evidence:
    path = _path(record)
    others = tuple(one for one in evidence.unseen if one != path)
    if not record.ok:
        return replace(evidence, gap=_named(record), unseen=(*others, path) if path else others)
    closes = record.call.tool not in _NO_CLOSURE and not (record.result or "").startswith(_NOTHING_FOUND)
    return replace(evidence, sight=True, gap="" if closes else evidence.gap, unseen=others)


def _path(record: Over) -> str:
    return str(record.call.args.get("path", ""))


def _changes(record: Over) -> bool:
    """Whether a call changes or runs something; a listing program is only looked at."""
    named = str(record.call.args.get("command") or "") if record.call.tool == "cc_shell" else ""
    word = named.split()[0].rpartition("/")[2].removesuffix(".lua") if named.split() else ""
    return record.mutates and word not in _LISTING


def _named(record: Over) -> str:
    said = (record.result or "").strip().partition("\n")[0][:_SHOWN_CHARS].rstrip()
    return f"{record.call.tool}: {said}{'' if said.endswith(('.', '!', '?')) else '.'}"


def doubt(evidence: Evidence, final: FinalResult, *, prompt: str, read_only: bool) -> str | None:
    """What a claimed success lacks, as a sentence for the model; None: the journal bears it out."""
    if evidence.gap:
        return f"You say success, but this failed and nothing made up for it: {evidence.gap} {_OTHERWISE}"
    unseen = next((path for path in evidence.unseen if path.lower() in prompt.lower()), None)
    if unseen is not None:
        return f"You say success, but {unseen} could not be read. {_OTHERWISE}"
    asks = asks_only(prompt)
    if read_only and evidence.denied and not asks:
        return f"You say success, but you may only look, and a change was denied. {_OTHERWISE}"
    if read_only or asks:
        return _unanswered(evidence, final)
    if evidence.effect:
        return _untouched(evidence, prompt)
    if evidence.failure:
        return f"You say success, but the last change or run failed: {evidence.failure} {_OTHERWISE}"
    return f"You say success, but nothing was changed or run. Do what the task asks for first. {_OTHERWISE}"


def _untouched(evidence: Evidence, prompt: str) -> str | None:
    """What is missing where the task says which file is to be changed, and another one was."""
    targets = named_targets(prompt)
    if not targets or any(name.lower() in one.lower() for name in targets for one in evidence.touched):
        return None
    return f"You say success, but {targets[0]} was not changed. {_OTHERWISE}"


def _unanswered(evidence: Evidence, final: FinalResult) -> str | None:
    if not evidence.sight and not evidence.effect:
        return f"You say success, but you have looked at nothing. Look at what your answer rests on. {_OTHERWISE}"
    if not evidence.effect and (claims_change(final.message) or claims_change(final.explanation)):
        return f"You say that you changed something, but nothing was changed or run. Say what you found. {_OTHERWISE}"
    if says_nothing(final.message) and says_nothing(final.explanation) and not final.details:
        return f"You say success, but your message has no answer in it. Say what you found. {_OTHERWISE}"
    return None


_OTHERWISE: Final = "If it cannot be done, send a final with success false that says why."
