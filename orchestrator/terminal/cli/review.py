"""What `review` does: the prompt, the list, and one decision on requests that are named."""

import asyncio
from dataclasses import asdict
from typing import Any, Literal

import typer

from orchestrator.client import Client
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.cli.common import as_segment, print_json
from orchestrator.terminal.console import Console, InputEnded, ReviewLoop
from orchestrator.terminal.console import batch as several
from orchestrator.terminal.console.channel import odd_lines, parted


def action_of(
    requests: list[str] | None, listing: bool, approve: bool, reject: bool, as_json: bool
) -> Literal["approve", "reject"] | None:
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
    console.write(several.listed(console, good))
    for one in odd:
        console.write(odd_lines(one))
    if not found:
        typer.echo("Nothing waits for a person.", err=True)


def decide_named(
    client: Client, requests: list[str], action: Literal["approve", "reject"], as_json: bool, then: dict[str, Any]
) -> int:
    """Decide the named requests; the exit code."""
    console = Console.of_terminal()
    if as_json:
        # The document alone goes to standard output.
        console.say = lambda line: typer.echo(line, err=True)
    if (console.ask is None or as_json) and not then["sure"]:
        raise InvalidRequest("Nobody can be asked whether to.", remedy="Say --yes if it is meant, or use a terminal.")
    outcomes = several.decide_named(client, console, [str(as_segment(one)) for one in requests], action, **then)
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
