"""The command `review`: the prompt, the list, and one decision on named requests.

What is decided by name is what was printed: the ids that were named, with the digests that were there, and nothing
that comes later (promise D4).
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Literal, TypeAlias

import typer

from orchestrator.client import Client, ServerRefused
from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.task.facts import OnReject
from orchestrator.core.text.visible import one_line
from orchestrator.core.values import immutable
from orchestrator.terminal.cli.common import id_of, print_json
from orchestrator.terminal.console import Console, InputEnded
from orchestrator.terminal.review.channel import (
    UNREADABLE,
    body_of,
    done_of,
    odd_lines,
    parted,
    refused,
    said_of,
    taken,
    these,
)
from orchestrator.terminal.review.edit import MOST_TOGETHER, decision
from orchestrator.terminal.review.request_view import Line, short, time_left, told_team

Word: TypeAlias = Literal["approve", "reject"]


def action_of(requests: list[str] | None, listing: bool, approve: bool, reject: bool, as_json: bool) -> Word | None:
    """What is said of the named requests; None: nothing by name. Raises InvalidRequest for what makes no sense."""
    if listing + approve + reject > 1:
        raise InvalidRequest("--list, --approve and --reject are three commands.", remedy="Say one of them.")
    if (approve or reject) is not bool(requests):
        raise InvalidRequest(
            "It is not said which requests, or what becomes of them.",
            remedy="Say: review --approve REQUEST, with ids that `review --list` shows.",
        )
    if as_json and not (listing or approve or reject):
        raise InvalidRequest("--json is for --list, --approve and --reject.", remedy="Say one of them.")
    return "approve" if approve else "reject" if reject else None


def list_waiting(client: Client, as_json: bool) -> None:
    """Print what waits."""
    found = client.request("GET", "/v1/requests")["requests"]
    if as_json:
        print_json(found)
        return
    console = Console.of_terminal()
    good, odd = parted(found)
    console.write(listed(console, good))
    for one in odd:
        console.write(odd_lines(one))
    if not found:
        typer.echo("Nothing waits for a person.", err=True)


_as_request = id_of("request", "review --list")


def decide_and_print(client: Client, requests: list[str], action: Word, as_json: bool, then: dict[str, Any]) -> int:
    """Decide the named requests; the exit code."""
    console = Console.of_terminal()
    if as_json:
        # The document alone goes to standard output.
        console.say = lambda line: typer.echo(line, err=True)
    if (console.ask is None or as_json) and not then["sure"]:
        raise InvalidRequest(
            "This needs a yes, and there is no terminal to ask at.",
            remedy="Say --yes if it is meant, or use a terminal.",
        )
    outcomes = decide_named(client, console, [str(_as_request(one)) for one in requests], action, **then)
    if outcomes is None:
        typer.echo("Nothing was decided.", err=True)
        return 1
    if as_json:
        print_json([asdict(one) for one in outcomes])
    else:
        for one in outcomes:
            console.tell(f"{one_line(one.request_id)}: {one.said}")
    return 0 if all(one.carried_out for one in outcomes) else 1


def review_all(client: Client, patience_s: float) -> int:
    """Review at the terminal until the person leaves; the exit code. ``patience_s``: as for the loop."""
    import asyncio

    from orchestrator.terminal.console.loop import ReviewLoop

    console = Console.of_terminal()
    loop = ReviewLoop(client, console)
    code = 0
    try:
        asyncio.run(loop.run(until_empty=console.ask is None, patience_s=patience_s))
    except InputEnded:
        code = 1
    except KeyboardInterrupt:
        code = 130
    if loop.undecided and console.ask is None:
        typer.echo(f"There is no terminal: nothing was decided, {_still_waiting(loop.undecided)}.", err=True)
        code = 1
    elif code:
        typer.echo(f"\nYou left: nothing more was decided; {_still_waiting(loop.undecided)}.", err=True)
        code = code if loop.undecided else 0
    return code


def _still_waiting(count: int) -> str:
    return {0: "nothing waits", 1: "1 still waits"}.get(count, f"{count} still wait")


# -- Requests in a list, and one decision on several that are named: each is printed in full first

_GOAL_CHARS = 200
NOT_THERE = 404
"""The HTTP status of a request that there never was."""


@immutable
class Outcome:
    """The outcome of one request."""

    request_id: str
    carried_out: bool
    said: str


def listed(console: Console, requests: Sequence[HitlResponse]) -> Iterator[Line]:
    """The open requests, each call on a line."""
    now = console.now()
    for request in requests:
        left = "" if request.expires_at is None else f" ─ {_expires(request, console)}"
        team = told_team(request, now)
        left += f" ─ {team}" if team else ""
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
    action: Word,
    *,
    reason: str = "",
    on_reject: OnReject | None = None,
    sure: bool = False,
) -> list[Outcome] | None:
    """Print each request whole, ask once unless ``sure``, and decide them; None: the person said no.

    Raises ServerUnreachable, and ServerRefused where it takes none of them, or there is no such request.
    """
    outcomes: dict[str, Outcome] = {}
    shown: list[HitlResponse] = []
    for request_id in dict.fromkeys(ids):
        try:
            good, odd = parted([client.request("GET", f"/v1/requests/{request_id}")])
        except ServerRefused as error:
            outcomes[request_id] = Outcome(request_id, False, _refused(error, console))
            if error.status == NOT_THERE and len(ids) == 1:
                raise
            continue
        for one in odd:
            console.write(odd_lines(one))
            outcomes[request_id] = Outcome(request_id, False, UNREADABLE)
        for request in good:
            shown.append(request)
            console.show(request)
    if shown and not sure and not console.agrees(f"{action.capitalize()} {these(len(shown))}?"):
        return None
    for at in range(0, len(shown), MOST_TOGETHER):
        some = shown[at : at + MOST_TOGETHER]
        bodies = [_body(request, action, reason, on_reject) for request in some]
        answers = client.request("POST", "/v1/decisions", {"requests": bodies})["decisions"]
        for request, answer in zip(some, answers, strict=True):
            outcomes[request.request_id] = _outcome(request, action, answer, console)
    return [outcomes[request_id] for request_id in dict.fromkeys(ids)]


def _body(request: HitlResponse, action: Word, reason: str, on_reject: OnReject | None) -> dict[str, Any]:
    resume = decision(request, action, reason, on_reject=on_reject)
    return {"request_id": request.request_id, "resume": body_of(resume)}


def _outcome(request: HitlResponse, action: Word, answer: dict[str, Any], console: Console) -> Outcome:
    request_id = request.request_id
    error = answer.get("error")
    if error is None:
        return Outcome(request_id, True, taken(said_of(decision(request, action)), done_of(request_id, answer)))
    details = error.get("details") or {}
    said = refused(str(error["code"]), str(error["message"]), str(error["remedy"]), details, now=console.now())
    return Outcome(request_id, False, said)


def _refused(error: ServerRefused, console: Console) -> str:
    return refused(error.reason, error.message, error.remedy, {}, now=console.now())


def _expires(request: HitlResponse, console: Console) -> str:
    assert request.expires_at is not None, "it was asked for"
    left = time_left(request.expires_at, console.now())
    return "expired" if left == "no time" else f"expires in {left}"
