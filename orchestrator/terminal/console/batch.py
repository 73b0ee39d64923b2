"""Requests in a list, and one decision on several that are named: each is printed in full first.

What is decided is what was printed: the ids that were named, with the digests that stood there, and
nothing that comes later (promise D4).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.client import Client, ServerRefused
from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.task.facts import OnReject
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.console.channel import UNREADABLE, carried_out, odd_lines, parted, refused, said_of
from orchestrator.terminal.console.console import Console
from orchestrator.terminal.console.decision import decision
from orchestrator.terminal.console.lines import Line
from orchestrator.terminal.console.request_view import short, time_left

_AT_ONCE = 100
"""So many requests the server takes in one call."""
_GOAL_CHARS = 200


@dataclass(frozen=True)
class Outcome:
    """What became of one request."""

    request_id: str
    carried_out: bool
    said: str


def listed(console: Console, requests: Sequence[HitlResponse]) -> Iterator[Line]:
    """What waits, each call on a line."""
    now = console.now()
    for request in requests:
        left = "" if request.expires_at is None else f" ─ {_expires(request, console)}"
        what = " ─ outcome unknown: look, then say" if request.reason == "outcome_unknown" else ""
        yield Line(f"{one_line(request.request_id)} ─ risk: {request.risk.value}{what}{left}", "title")
        asked = time_left(now, request.created_at)
        since = "" if asked == "no time" else f" {asked} ago"
        goal = one_line(request.goal, limit=_GOAL_CHARS)
        where = f" at computer {one_line(request.asked_at)} in the game" if request.asked_at else ""
        yield Line(f"  asked by {one_line(request.requester)}{where}{since}: {goal}", prose=True)
        for call in request.tool_calls:
            yield Line(f"  {short(call)}", prose=True)


def decide_named(
    client: Client,
    console: Console,
    ids: Sequence[str],
    action: Literal["approve", "reject"],
    *,
    reason: str = "",
    on_reject: OnReject | None = None,
    sure: bool = False,
) -> list[Outcome] | None:
    """Print each request whole, ask once unless ``sure``, and decide them; None: the person said no.

    Raises ServerUnreachable, and ServerRefused where it takes none of them.
    """
    outcomes: dict[str, Outcome] = {}
    shown: list[HitlResponse] = []
    for request_id in dict.fromkeys(ids):
        try:
            good, odd = parted([client.request("GET", f"/v1/requests/{request_id}")])
        except ServerRefused as error:
            outcomes[request_id] = Outcome(request_id, False, _refused(error, console))
            continue
        for one in odd:
            console.write(odd_lines(one))
            outcomes[request_id] = Outcome(request_id, False, UNREADABLE)
        for request in good:
            shown.append(request)
            console.show(request)
    if shown and not sure and not console.agrees(f"{action.capitalize()} {_counted(len(shown))}?"):
        return None
    for at in range(0, len(shown), _AT_ONCE):
        some = shown[at : at + _AT_ONCE]
        bodies = [_body(request, action, reason, on_reject) for request in some]
        answers = client.request("POST", "/v1/decisions", {"requests": bodies})["decisions"]
        for request, answer in zip(some, answers, strict=True):
            outcomes[request.request_id] = _outcome(request, action, answer, console)
    return [outcomes[request_id] for request_id in dict.fromkeys(ids)]


def _body(request: HitlResponse, action: Any, reason: str, on_reject: OnReject | None) -> dict[str, Any]:
    resume = decision(request, action, reason, on_reject=on_reject)
    return {
        "request_id": request.request_id,
        "resume": resume.model_dump(mode="json", exclude_none=True, exclude_defaults=True),
    }


def _outcome(request: HitlResponse, action: Any, answer: dict[str, Any], console: Console) -> Outcome:
    request_id = request.request_id
    error = answer.get("error")
    if error is None:
        said = said_of(decision(request, action))
        return Outcome(request_id, True, carried_out(said, str(answer["task_id"]), str(answer["status"])))
    details = error.get("details") or {}
    said = refused(str(error["code"]), str(error["message"]), str(error["remedy"]), details, now=console.now())
    return Outcome(request_id, False, said)


def _refused(error: ServerRefused, console: Console) -> str:
    return refused(error.reason, error.message, error.remedy, {}, now=console.now())


def _expires(request: HitlResponse, console: Console) -> str:
    assert request.expires_at is not None, "it was asked for"
    left = time_left(request.expires_at, console.now())
    return "expired" if left == "no time" else f"expires in {left}"


def _counted(count: int) -> str:
    return "this request" if count == 1 else f"these {count} requests"
