"""What the items of the audit are called, and one line about each: the words of the page."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from orchestrator.core.text.visible import one_line, visible
from orchestrator.terminal.output import counted
from orchestrator.terminal.review.request_view import Line

KINDS: Final[Mapping[str, str]] = {
    "task_submitted": "Task submitted",
    "model_asked": "Model asked",
    "model_replied": "Model replied",
    "model_awaited": "Model server waited for",
    "checks_begun": "Checks begun",
    "checks_judged": "Checks judged",
    "reply_refused": "Reply refused",
    "calls_proposed": "Calls proposed",
    "review_requested": "Approval asked for",
    "decision_recorded": "Decided",
    "request_ended": "Request ended",
    "review_noted": "Review noted",
    "tool_started": "Call started",
    "tool_finished": "Call finished",
    "tool_settled": "Call settled",
    "question_asked": "Question asked",
    "question_answered": "Question answered",
    "status_sent": "Status sent",
    "cancel_requested": "Cancel asked for",
    "limit_reached": "Limit reached",
    "work_failed": "Failed, tried again",
    "work_frozen": "Frozen",
    "task_ended": "Task ended",
    "undo_submitted": "Undo submitted",
    "task_pinned": "Task kept",
    "task_unpinned": "Task not kept",
    "rehearsal_ended": "Rehearsal ended",
    "node_started": "Server started",
    "node_stopped": "Server stopped",
    "policy_loaded": "Policy loaded",
    "policy_refused": "Policy refused",
    "token_issued": "Token made",
    "token_revoked": "Token revoked",
    "signed_in": "Signed in",
    "signed_out": "Signed out",
    "grant_revoked": "Grant taken back",
    "attempt_refused": "Attempt refused",
    "checkpoint_made": "Checkpoint made",
    "computer_frozen": "Computer frozen",
    "computer_labelled": "Computer labelled",
    "computer_released": "Computer released",
    "computers_arrived": "Computers came from another cell",
    "computer_welcomed": "Computer connected",
    "agreed": "Agreed between nodes",
    "computer_backed_up": "Backup made",
    "backup_removed": "Backup removed",
    "directory_changed": "Group or owner changed",
    "keys_sent": "Keys typed",
    "task_pruned": "Task pruned",
}
"""The name of each kind of item."""
_MOST: Final = 300
_LONG: Final = 64
_NAME: Final = 20
"""Columns of a field's name."""
_HASH: Final = re.compile(r"[0-9a-f]{24,}")
_ENDS: Final = {
    "expired": "nobody answered in time",
    "superseded": "no longer asked about",
    "stale": "what it was about changed",
    "canceled": "canceled",
}

Fact = Mapping[str, Any]


def kind_of(name: str) -> str:
    """The kind that people call so, in whatever letters; another name stays as it is."""
    return next((kind for kind, told in KINDS.items() if told.casefold() == name.strip().casefold()), name.strip())


def named(kind: str) -> str:
    """The name of a kind; one that this program does not know stays as it is."""
    return KINDS.get(kind, one_line(kind).replace("_", " "))


def told(fact: Fact) -> str:
    """The event in one line; it never fails: a kind of a newer server is told by its plain fields."""
    try:
        said = _TOLD.get(str(fact.get("kind")), _plain)(fact)
    except (KeyError, TypeError, AttributeError, ValueError):
        said = _plain(fact)
    name = named(str(fact.get("kind", "?")))
    return one_line(f"{name}: {said}" if said else name, limit=_MOST)


def computer_of(fact: Fact) -> str:
    """The computer of an item; empty: it names none, or several."""
    calls = fact.get("calls")
    named_ones = {fact.get("computer")} | {one.get("computer") for one in calls or () if isinstance(one, Mapping)}
    named_ones |= set(fact.get("computers") or ())
    found = [str(one) for one in named_ones if one]
    return found[0] if len(found) == 1 else ""


def _calls(fact: Fact) -> str:
    verdicts = fact.get("evaluations") or []
    return ", ".join(_call(call, verdicts[at] if at < len(verdicts) else {}) for at, call in enumerate(fact["calls"]))


def _call(call: Fact, verdict: Fact) -> str:
    args = call.get("args") or {}
    where = f" on {call['computer']}" if call.get("computer") else ""
    on = args.get("path") or args.get("command") or ""
    effect = f" → {verdict['effect']}" if verdict else ""
    return f"{call.get('tool') or call.get('call_id') or ''}{where} {on}".strip() + effect


def _decided(fact: Fact) -> str:
    each = (f"{one['action']}{' (' + one['reason'] + ')' if one.get('reason') else ''}" for one in fact["decisions"])
    return ", ".join([*each, str(fact["request_id"])])


def _holder(fact: Fact) -> str:
    roles = f": {', '.join(filter(None, fact['roles']))}" if fact.get("roles") else ""
    return f"{fact['holder_kind']} {fact['name']}{roles}"


def _refused(fact: Fact) -> str:
    more = f" (and {fact['more']} more)" if fact.get("more") else ""
    return f"{fact['door']}: {fact.get('detail') or fact['code']}{more}"


def _replied(fact: Fact) -> str:
    used, reason = fact["usage"], fact.get("done_reason")
    ended = f", ended by {reason}" if reason != "stop" else ""
    return f"{counted(used['input_tokens'], 'token')} read, {used['output_tokens']} written{ended}"


def _joined(*parts: Any) -> str:
    return ": ".join(str(one) for one in parts if one)


_TOLD: Final[Mapping[str, Callable[[Fact], str]]] = {
    "task_submitted": lambda fact: str(fact.get("prompt") or ""),
    "calls_proposed": _calls,
    "review_requested": lambda fact: f"{fact['risk']} risk, {fact['request_id']}",
    "decision_recorded": _decided,
    "token_issued": _holder,
    "token_revoked": _holder,
    "attempt_refused": _refused,
    "signed_in": lambda fact: f"from {fact['peer']}" if fact.get("peer") else "",
    "directory_changed": lambda fact: f"{fact['about']} {fact['name']}{'' if fact.get('value') else ' removed'}",
    "keys_sent": lambda fact: f"{fact['computer']}: {fact.get('text') or ' '.join(fact.get('keys') or ())}",
    "request_ended": lambda fact: _joined(_ENDS.get(fact["end"], fact["end"]), fact.get("reason")),
    "review_noted": lambda fact: str(fact.get("what") or "").replace("_", " "),
    "limit_reached": lambda fact: _joined(str(fact.get("limit") or "").replace("_", " "), fact.get("detail")),
    "work_frozen": lambda fact: f"by {fact['by']}" + (f": {fact['reason']}" if fact.get("reason") else ""),
    "work_failed": lambda fact: f"{fact['effect']}, {fact['count']} of {fact['most']}: {fact['reason']}",
    "model_asked": lambda fact: f"attempt {fact['attempt']}" if fact.get("attempt", 1) > 1 else "",
    "model_awaited": lambda fact: f"{fact['server']}: {fact['why']}",
    "model_replied": _replied,
    "tool_settled": lambda fact: _joined(fact.get("state"), fact.get("text") or fact.get("reason")),
    "task_ended": lambda fact: ", ".join(
        one for one in (fact.get("status"), fact.get("reason"), fact.get("message")) if isinstance(one, str) and one
    ),
}


def _plain(fact: Fact) -> str:
    """The first few of its plain fields; ids and digests tell nobody anything."""
    said = []
    for name, value in fact.items():
        text = value if isinstance(value, str) else str(value) if type(value) in (int, float) else ""
        if name == "kind" or name.endswith("_id") or not text or len(text) >= 4 * _LONG or _HASH.fullmatch(text):
            continue
        said.append(f"{name.replace('_', ' ')} {text[:_LONG]}")
    return ", ".join(said[:4])


# -- An item whole -----------------------------------------------------------------------


def field_lines(value: Any, name: str = "", depth: int = 1) -> Iterator[Line]:
    """Every field of an item: its name, its value, and below them those of its parts."""
    lead = "  " * depth
    title = f"{lead}{one_line(name).replace('_', ' ')}"
    if isinstance(value, Mapping) and value:
        if name:
            yield Line(title)
        for key, part in value.items():
            yield from field_lines(part, str(key), depth + bool(name))
    elif isinstance(value, list) and value and not all(isinstance(one, str | int | float) for one in value):
        for number, part in enumerate(value, start=1):
            yield from field_lines(part, f"{name} {number} of {len(value)}", depth)
    else:
        yield from _plain_lines(title, value, lead)


def _plain_lines(title: str, value: Any, lead: str) -> Iterator[Line]:
    if value in (None, "", [], {}):
        text = "-"
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, list):
        text = ", ".join(str(one) for one in value)
    else:
        text = value if isinstance(value, str) else json.dumps(value)
    first, *more = visible(text).split("\n")
    if not more:
        yield Line(f"{title:<{_NAME}}  {first}")
        return
    yield Line(title)
    for one in (first, *more):
        yield Line(f"{lead}│ {one}")
