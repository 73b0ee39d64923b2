"""A request as a person sees it before deciding: every call whole, all text of the world made visible.

Theory. What a decision is bound to is shown to the last character or is said to be cut; then it
cannot be approved here (promises V1, V3). What cannot be drawn is shown as it came: a request is never
hidden by a fault of its drawing (promise V5).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from orchestrator.core.approval.approval import HitlResponse, RequestedCallView, SiblingView
from orchestrator.core.policy import RiskLevel
from orchestrator.core.policy.catalog import ALL_TOOL_ARGS
from orchestrator.core.task.facts import OnTimeout
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.review.lines import (
    BAR,
    WHOLE,
    Line,
    Style,
    as_json,
    bar,
    block,
    changes,
    diff_lines,
    field,
    text_of,
)

HASH_CHARS: Final = 12
"""Of a hash or a digest on the page; the details have all of it."""
_IN_THE_DIFF: Final = frozenset({"content", "old", "new"})
"""Arguments that the diff shows, where there is one."""
_GOAL_CHARS: Final = 500
_GOAL_AGAIN_CHARS: Final = 60
"""Of a task's goal, where it was shown before."""
_EXPLANATION_CHARS: Final = 1000
_RESULT_CHARS: Final = 200
"""Of what a sibling gave: it is context, and the details have all that came."""
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_THEN: Final[Mapping[OnTimeout, str]] = {
    "stay_paused": "the task waits",
    "continue": "the task goes on without it",
    "cancel": "the task is canceled",
}
_GRAVE: Final = frozenset({RiskLevel.HIGH, RiskLevel.CRITICAL, RiskLevel.UNKNOWN})


def describe(request: HitlResponse, *, again: bool = False, now: datetime | None = None) -> list[str]:
    """A request as lines of safe text: nothing that would run is cut, nothing can move the cursor.

    ``again``: another request of its task was shown before, so that of the goal only the beginning is.
    ``now`` None: the time of this machine.
    """
    return [line.text for line in page(request, again=again, now=now)]


def page(request: HitlResponse, *, again: bool = False, now: datetime | None = None) -> list[Line]:
    """As :func:`describe`, with how each line looks. It never fails: what cannot be drawn is shown as it came."""
    try:
        return [*_head(request, again, now or datetime.now(UTC)), *_calls(request.tool_calls)]
    except Exception:  # noqa: BLE001 - a fault of the drawing hides no request
        return as_it_came(request)


def details(request: HitlResponse, calls: Iterable[RequestedCallView]) -> list[Line]:
    """All that is known of some calls of a request as JSON: whole arguments, digests, hashes and rules."""
    try:
        about = request.model_dump(mode="json", exclude={"tool_calls"})
        value = {**about, "tool_calls": [call.model_dump(mode="json") for call in calls]}
        return block(as_json(value, indent=2))
    except Exception:  # noqa: BLE001 - as above
        return as_it_came(request)


def as_it_came(request: HitlResponse) -> list[Line]:
    """A request as plain JSON in ASCII, for when nothing better can be made of it."""
    try:
        data: Any = request.model_dump(mode="json", warnings=False)
        text = json.dumps(data, indent=2, default=ascii)
    except Exception:  # noqa: BLE001 - then as Python has it
        text = ascii(request)
    return [
        Line("── A request that could not be drawn: this is all of it, as it came", "alarm"),
        *(bar(line) for line in text.replace("\x7f", "\\u007f").split("\n")),
    ]


def short(call: RequestedCallView) -> str:
    """A call on one line, for lists: what, where, on what, and how much of it changes."""
    what = _named(call.tool, call.computer)
    first = next((text_of(call.args[name]) for name in ("path", "command") if name in call.args), "")
    lines = (call.observed.diff or "").split("\n")[2:]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    # Of a diff that was cut, the lines that are left are counted.
    size = f" ({'at least ' if call.truncated else ''}+{added} -{removed})" if added or removed else ""
    return f"{what}{': ' if first else ''}{one_line(first, limit=100)}{size}"


def time_left(until: datetime, now: datetime) -> str:
    """How long there is until a time: ``59 min``; ``no time`` when it is over."""
    seconds = int((until - now).total_seconds())
    if seconds <= 0:
        return "no time"
    for unit, size, least in (("d", 86_400, 2 * 86_400), ("h", 3600, 2 * 3600), ("min", 60, 60)):
        if seconds >= least:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _head(request: HitlResponse, again: bool, now: datetime) -> Iterator[Line]:
    title = "A person has to look" if request.reason == "outcome_unknown" else "A person has to decide"
    style: Style = "alarm" if request.risk in _GRAVE else "title"
    yield Line(f"── {title} ─ risk: {request.risk.value} ─ task {one_line(request.task_id)}", style)
    goal = one_line(request.goal, limit=_GOAL_AGAIN_CHARS if again else _GOAL_CHARS)
    roles = f" ({', '.join(map(one_line, request.requester_roles))})" if request.requester_roles else ""
    where = f" at computer {one_line(request.asked_at)} in the game" if request.asked_at else ""
    yield Line(f"  asked by {one_line(request.requester)}{roles}{where}: {goal}", prose=True)
    if request.explanation:
        said = one_line(request.explanation, limit=_EXPLANATION_CHARS)
        # What is not named there is the orchestrator's own word, and says so itself.
        by_model = "explanation" in request.informational
        yield Line(f"  {'written by the model: ' if by_model else ''}{said}", prose=True)
    if request.expires_at is not None:
        left = time_left(request.expires_at, now)
        when = "has expired" if left == "no time" else f"expires in {left}"
        yield Line(f"  {when}; then {_THEN[request.on_timeout]}")
    if request.redacted:
        yield Line("  secrets stand here as [redacted …]: what runs has them", "warning")
    if request.context:
        yield Line("  also in this step, not asked about:")
        for sibling in request.context:
            yield from _sibling(sibling)


def _sibling(sibling: SiblingView) -> Iterator[Line]:
    call = f"{_named(sibling.tool, sibling.computer)} {one_line(as_json(sibling.args), limit=_RESULT_CHARS)}"
    gave = "" if sibling.result is None else f": {one_line(sibling.result, limit=_RESULT_CHARS)}"
    for text in (call, f"  {sibling.state.value}{gave}"):
        yield Line(BAR + text, prose=True)


def _calls(calls: tuple[RequestedCallView, ...]) -> Iterator[Line]:
    for number, call in enumerate(calls, start=1):
        yield from _call(call, f"[{number}/{len(calls)}] " if len(calls) > 1 else "")


def _call(call: RequestedCallView, number: str) -> Iterator[Line]:
    yield Line(f"  {number}{_named(call.tool, call.computer)}", "call")
    yield from _arguments(call)
    observed = call.observed
    if observed.program is not None:
        yield Line(f"  program: {one_line(observed.program, limit=WHOLE)}")
    if observed.source is not None:
        yield from block(observed.source)
    for path, state in observed.state.items():
        kind = "directory " if path in observed.directories else ""
        found = state[:HASH_CHARS] if _HASH.fullmatch(state) else one_line(state, limit=WHOLE)
        yield Line(f"  found: {one_line(path, limit=WHOLE) or '/'} {kind}{found}")
    if observed.diff:
        yield from diff_lines(observed.diff)
    if observed.note:
        yield from field("note", observed.note, prose=True)
    if call.original_args is not None:
        yield Line("  a person edited it; this is what they changed of what had been asked for:")
        yield from changes(call.original_args, call.args)
    yield from _verdict(call)


def _arguments(call: RequestedCallView) -> Iterator[Line]:
    """All arguments, those of the tool first and in its order; what the diff shows only there."""
    model = ALL_TOOL_ARGS.get(call.tool)
    declared = [name for name in model.model_fields if name in call.args] if model else []
    for name in dict.fromkeys((*declared, *call.args)):
        if name in _IN_THE_DIFF and call.observed.diff:
            continue
        yield from field(name if name in declared else f"argument {name}", text_of(call.args[name]))


def _verdict(call: RequestedCallView) -> Iterator[Line]:
    verdict = call.evaluation
    rules = one_line(", ".join(verdict.matched_rules), limit=WHOLE) or "none"
    yield Line(f"  rule: {rules} ({one_line(verdict.reason, limit=WHOLE)})", prose=True)
    if call.truncated:
        yield Line(f"  risk: {verdict.risk.value}", "alarm" if verdict.risk in _GRAVE else "")
        yield Line("  CUT: not all of this call is shown, so it cannot be approved yet", "alarm")
        return
    digest = f", digest {one_line(call.action_digest[:HASH_CHARS])}"
    yield Line(f"  risk: {verdict.risk.value}{digest}", "alarm" if verdict.risk in _GRAVE else "")


def _named(tool: str, computer: str | None) -> str:
    where = f"on computer {one_line(computer)}" if computer else "on this host"
    return f"{one_line(tool)} {where}"
