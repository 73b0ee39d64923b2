"""The audit as people read it: one line for each item.

A line is made of plain JSON, as an endpoint gives an item out, so that a client needs no model of a fact that it does
not know yet. Text from people and programs is shown in it as visible text on one line.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from orchestrator.core.text.visible import one_line

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_PREFIX: Final = 12
"""Characters of a digest in a line: enough to distinguish any two of one server."""
_VALUE_CHARS: Final = 80
_LINE_CHARS: Final = 600


def audit_line(item: Mapping[str, Any]) -> str:
    """One item in one line: when, where, who, what."""
    actor, fact = _map(item.get("actor")), _map(item.get("fact"))
    who = " ".join(str(part) for part in (actor.get("kind"), actor.get("id")) if part)
    how = f" by {actor['auth']}" if actor.get("auth") else ""
    where = f"{item.get('task_id', '?')}#{item.get('version', '?')}"
    line = f"{_when(item.get('at'))}  {where}  {who}{how}  {_told(fact)}"
    return one_line(line, limit=_LINE_CHARS)


def fact_line(fact: Mapping[str, Any]) -> str:
    """The event, in one line: its kind, and what is told of it."""
    return one_line(_told(fact), limit=_LINE_CHARS)


def story_lines(story: Mapping[str, Any]) -> list[str]:
    """A call's story, the most telling first: the call, the person or rule that let it run, the result."""
    lines = [
        f"{story.get('stream')}#{story.get('version')}  call {story.get('call_id')}  {story.get('tool')}"
        f"  computer {story.get('computer') or '-'}  asked for by {story.get('requester')}"
        f"  args {_shown(story.get('args'))}"
    ]
    lines += [f"  bytes: {one.get('role')} at {one.get('path')}" for one in _maps(story.get("matches"))]
    for one in _maps(story.get("approvals")):
        by = _map(one.get("by"))
        own = ", their own task" if one.get("self_approved") else ""
        place = f" for {one['behalf']}" if one.get("behalf") else ""
        void = "  void: the call was edited after it" if one.get("void") else ""
        under = f" under {one['grant_id']}" if one.get("grant_id") else ""
        lines.append(
            f"  {_when(one.get('at'))}  {one.get('how')} by {by.get('kind')} {by.get('id')}{place}{own}{under}"
            f"  policy {one.get('policy_version') or '?'}  digest {_shown(one.get('action_digest') or '-')}{void}"
        )
    for one in _maps(story.get("refusals")):
        by = _map(one.get("by"))
        lines.append(
            f"  {_when(one.get('at'))}  {one.get('how')} by {by.get('kind')} {by.get('id')}: {one.get('reason')}"
        )
    for one in _maps(story.get("runs")):
        code = f" ({one['code']})" if one.get("code") else ""
        after = f"  after {_shown(one['after'])}" if one.get("after") else ""
        lines.append(f"  {_when(one.get('at'))}  run {one.get('run_id')}: {one.get('outcome')}{code}{after}")
    if not story.get("runs"):
        lines.append("  it never ran")
    return [one_line(line, limit=_LINE_CHARS) for line in lines]


def _told(fact: Mapping[str, Any]) -> str:
    kind = str(fact.get("kind", "?"))
    rest = "  ".join(_DESCRIBED.get(kind, _fields)(fact))
    return f"{kind}  {rest}".rstrip()


def _fields(fact: Mapping[str, Any]) -> list[str]:
    """Every field that says something, in the order of the model."""
    return [
        f"{name} {_shown(value)}"
        for name, value in fact.items()
        if name != "kind" and value not in (None, "", [], {}, False)
    ]


def _proposed(fact: Mapping[str, Any]) -> list[str]:
    verdicts = _maps(fact.get("evaluations"))
    parts = []
    for at, call in enumerate(_maps(fact.get("calls"))):
        verdict = verdicts[at] if at < len(verdicts) else {}
        where = f" on {call['computer']}" if call.get("computer") else ""
        parts.append(
            f"{call.get('call_id')} {call.get('tool')}{where} {_shown(call.get('args'))}: {verdict.get('effect')}"
            f", risk {verdict.get('risk')}, policy {_shown(verdict.get('policy_version'))}"
        )
    return parts


def _calls_shown(fact: Mapping[str, Any]) -> list[str]:
    plain = {name: value for name, value in fact.items() if name != "calls"}
    shown = [f"{one.get('call_id')} digest {_shown(one.get('action_digest'))}" for one in _maps(fact.get("calls"))]
    return [*_fields(plain), *shown]


def _decided(fact: Mapping[str, Any]) -> list[str]:
    parts = [f"request {fact.get('request_id')}"]
    for one in _maps(fact.get("decisions")):
        under = f" under {one['grant_id']}" if one.get("grant_id") else ""
        why = f" because {_shown(one['reason'])}" if one.get("reason") else ""
        what = f" to {_shown(one['args'])}" if one.get("args") else ""
        parts.append(
            f"{one.get('action')} {one.get('call_id')}{under}{what} digest {_shown(one.get('action_digest'))}{why}"
        )
    plain = {name: value for name, value in fact.items() if name not in ("request_id", "decisions", "grants")}
    given = [f"grants {one.get('grant_id')} ({one.get('scope')})" for one in _maps(fact.get("grants"))]
    return [*parts, *given, *_fields(plain)]


_DESCRIBED: Final = {
    "calls_proposed": _proposed,
    "review_requested": _calls_shown,
    "review_noted": _calls_shown,
    "decision_recorded": _decided,
}
"""The kinds whose fields alone would not tell it; of any other all fields are shown."""


def _shown(value: Any) -> str:
    """A value in a line: a digest by its first letters, a text as it is, all else as JSON; cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = _DIGEST.sub(lambda found: found.group()[:_PREFIX] + "…", text)
    return text if len(text) <= _VALUE_CHARS else text[:_VALUE_CHARS] + "…"


def _when(at: Any) -> str:
    """A time of an item to the second; a text that is not a time stays as it came."""
    try:
        moment = datetime.fromisoformat(str(at))
    except ValueError:
        return str(at)
    # The items' times are aware; of one that is not nothing is known but what it says.
    return f"{(moment if moment.tzinfo is None else moment.astimezone(UTC)):%Y-%m-%d %H:%M:%SZ}"


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [_map(one) for one in value] if isinstance(value, list) else []
