"""Notifications: which facts are told to people elsewhere, when, and in which words.

Theory. Where there is any rule, a store writes a row into its outbox in the transaction of each item for which
:func:`notable` says a kind. What a message says is made from the items when it is sent, so a row has nothing that could
be wrong. The sentence of a message has only names; the texts of a task come with it where the rule says ``details``,
with their secrets masked.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Final

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.task.facts import Fact, QuestionAsked, ReviewNoted, ReviewRequested, TaskEnded
from orchestrator.core.task.states import CallState
from orchestrator.core.task.system_facts import ComputerFrozen, Notable
from orchestrator.core.task.task import AgentTask
from orchestrator.core.text.visible import cut, one_line
from orchestrator.core.values import immutable
from orchestrator.core.wire.identity import frozen_sentence

if TYPE_CHECKING:
    from orchestrator.core.approval.approval import HitlResponse

# -- which facts are told, and when --------------------------------------------------------

PAUSES_S: Final = (10, 60, 300, 1800, 7200, 21600)
"""The seconds between attempts; after one more than these a delivery is dead."""


def notable(fact: Fact) -> Notable | None:
    """What people can be told of this fact; None: nothing."""
    match fact:
        case ReviewRequested():
            return "waits_for_you"
        case ReviewNoted(what="reminded"):
            return "waits_for_you"
        case QuestionAsked():
            return "question"
        case TaskEnded():
            return "failed" if fact.status == "Failed" or fact.verified is False else "finished"
        case ComputerFrozen():
            return "frozen"
        case _:
            return None


def next_attempt(attempts: int, now: datetime) -> datetime | None:
    """When a delivery that failed so many times is tried again; None: never."""
    return now + timedelta(seconds=PAUSES_S[attempts - 1]) if attempts <= len(PAUSES_S) else None


def time_of(text: str) -> time:
    """A time of day as ``HH:MM``. Raises InvalidRequest."""
    if re.fullmatch("(?:[01][0-9]|2[0-3]):[0-5][0-9]", text) is None:
        raise InvalidRequest(f"{text[:20]!r} is no time of day.", remedy="Write it as HH:MM, such as 22:00.")
    return time(int(text[:2]), int(text[3:]))


def quiet_until(now: datetime, begin: str, end: str) -> datetime | None:
    """When the quiet hours end in which ``now`` is, in its time zone; None: it is in none. Empty texts: there are none.

    Hours that end before they begin go over midnight.
    """
    if not begin:
        return None
    first, last = time_of(begin), time_of(end)
    at = now.time()
    within = first <= at < last if first <= last else at >= first or at < last
    if not within:
        return None
    day = now.date() if at < last else now.date() + timedelta(days=1)
    return datetime.combine(day, last, now.tzinfo)


# -- what a message says ---------------------------------------------------------------------

_MOST_DETAILS: Final = 3000
"""Characters of the details of one event: several services cut a message at 4000."""
_MOST_TEXT: Final = 1000
_MOST_LISTED: Final = 20
"""Events that a grouped message tells; of the others it tells how many."""


@immutable
class Told:
    """One event, as people are told of it."""

    kind: Notable
    text: str
    """One sentence or two, on one line."""
    route: str
    """The place on the page, such as ``#/tasks/t1``."""
    details: str = ""
    """Texts of the task, with their secrets masked; empty: the rule asks for none."""


def told_of_task(task: AgentTask, fact: Fact, kind: Notable, *, details: bool) -> Told:
    """What a fact of this task tells; ``task``: as it is now."""
    match fact:
        case (
            ReviewRequested(request_id=str(waits))
            | ReviewNoted(request_id=str(waits))
            | QuestionAsked(question_id=str(waits))
        ):
            route = f"#/approvals/{_quoted(waits)}"
        case _:
            route = f"#/tasks/{_quoted(task.task_id)}"
    return Told(kind, _sentence(task, fact), route, _details(task, fact) if details else "")


def told_of_computer(fact: ComputerFrozen) -> Told:
    """What a frozen computer tells; its facts are no text of anybody."""
    return Told("frozen", one_line(frozen_sentence(fact)), f"#/computers/{_quoted(fact.computer)}")


def _quoted(name: str) -> str:
    """A name as a part of an address."""
    return "".join(one if re.fullmatch("[A-Za-z0-9._-]", one) else f"%{one.encode().hex('%')}" for one in name)


def _view(task: AgentTask, max_chars: int | None = None) -> "HitlResponse":
    # The stores need of this module only the kinds that are notable; the views come with all patterns of secrets.
    from orchestrator.core.approval.presentation import hitl_response

    return hitl_response(task, max_chars=max_chars)


def _sentence(task: AgentTask, fact: Fact) -> str:
    whose = f"A task of {one_line(task.user_id, limit=64)}"
    match fact:
        case ReviewRequested() | ReviewNoted():
            if task.request is None or task.request.request_id != fact.request_id:
                return f"{whose} asked for a decision, and waits for it no more."
            return f"{whose} waits for a decision: {_calls(task)}."
        case QuestionAsked():
            asking = [one.question_id for one in task.calls if one.state is CallState.ASKING]
            still = fact.question_id in asking
            return f"{whose} has a question." if still else f"{whose} had a question, and waits for no answer any more."
        case TaskEnded(status="Canceled"):
            return f"{whose} was canceled."
        case TaskEnded(verified=False):
            return f"{whose} ended, and the journal does not support the success that it claims."
        case TaskEnded(status="Failed"):
            return f"{whose} failed."
        case _:
            return f"{whose} is finished."


def _calls(task: AgentTask) -> str:
    view = _view(task)
    named = [f"{one.tool} on {one.computer}" if one.computer else one.tool for one in view.tool_calls]
    listed = ", ".join(one_line(one, limit=80) for one in named[:3])
    return f"{listed}{f' and {len(named) - 3} more' if len(named) > 3 else ''} (risk: {view.risk.value})"


def _details(task: AgentTask, fact: Fact) -> str:
    parts = [f"Task: {_masked(task, task.prompt)}"]
    match fact:
        case ReviewRequested() | ReviewNoted() if task.request is not None:
            for one in _view(task, _MOST_TEXT).tool_calls:
                args = json.dumps(one.args, ensure_ascii=False)
                parts += [f"{one.tool}: {one.observed.diff or cut(args, _MOST_TEXT)[0]}"]
        case QuestionAsked():
            parts += [f"Question: {_masked(task, fact.question)}"]
        case TaskEnded():
            parts += [f"Result: {_masked(task, fact.message or fact.status_reason)}"]
    return cut("\n".join(parts), _MOST_DETAILS)[0]


def _masked(task: AgentTask, text: str) -> str:
    from orchestrator.core.text.redact import redact_text

    # Masked before it is cut: half of a secret would not be found.
    return cut(redact_text(text, salt=task.tag), _MOST_TEXT)[0]


def grouped(told: Sequence[Told], page: str) -> str:
    """The whole message about some events, as plain text; ``page``: the address of the page."""
    listed = told[:_MOST_LISTED]
    lines = [f"{one.text} {page}/{one.route}" + (f"\n{one.details}" if one.details else "") for one in listed]
    if len(told) > 1:
        lines = [f"{len(told)} events came in your quiet hours:", *lines]
    if len(told) > len(listed):
        lines += [f"{len(told) - len(listed)} more are on {page}/"]
    return "\n".join(lines)


def message_id(notices: Sequence[str]) -> str:
    """The id of a message about these deliveries; of another try of it, it is the same."""
    return f"msg_{hashlib.sha256(' '.join(sorted(notices)).encode()).hexdigest()[:32]}"
