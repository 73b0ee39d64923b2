"""The commands on requests: review, more time, withdrawal, a new request, and figures of decisions."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import typer

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.cli.common import (
    RECONNECT_S,
    AsJson,
    DataDir,
    Reconnect,
    Url,
    client_of,
    id_of,
    moment,
    print_json,
    seconds,
)

# -- What becomes of a request: the review, and beside a decision more time, taking it back, asking again

requests_app = typer.Typer(
    no_args_is_help=True, help="Requests: claim, comment, escalate, extend, withdraw, renew, stats."
)

RequestId = Annotated[
    str,
    typer.Argument(
        metavar="REQUEST", help="Its id, as `review --list` shows it.", callback=id_of("request", "review --list")
    ),
]


@requests_app.command("extend", epilog="Example: cc-orchestrator requests extend REQUEST --for 1h")
def extend(
    request_id: RequestId,
    span: Annotated[
        str, typer.Option("--for", metavar="TIME", help="From now on, such as 90 (seconds), 30m or 1h; a week at most.")
    ],
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Give people more time to answer a request."""
    answer = _post(request_id, "extend", {"seconds": seconds(span)}, as_json, url, data_dir)
    if not as_json:
        typer.echo(
            f"request {request_id} waits {span.strip()} from now on; task {answer['task_id']} is {answer['status']}"
        )


@requests_app.command("withdraw", epilog="Example: cc-orchestrator requests withdraw REQUEST")
def withdraw(request_id: RequestId, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Take a request back.

    Its calls do not run, and the model is told. For who submitted the task, and for admins.
    """
    answer = _post(request_id, "withdraw", {}, as_json, url, data_dir)
    if not as_json:
        typer.echo(f"request {request_id} was taken back; task {answer['task_id']} is {answer['status']}")


@requests_app.command("claim", epilog="Example: cc-orchestrator requests claim REQUEST")
def claim(request_id: RequestId, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Say that you look at a request.

    For ten minutes the others see that, and nobody else but an admin decides it. To claim it again gives ten more.
    """
    _post(request_id, "claim", {}, as_json, url, data_dir)
    if not as_json:
        typer.echo(f"request {request_id} is yours for 10 minutes; `requests release {request_id}` gives it back")


@requests_app.command("release", epilog="Example: cc-orchestrator requests release REQUEST")
def release(request_id: RequestId, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Give a claim back, so that others decide.

    An admin gives back everybody's.
    """
    _post(request_id, "release", {}, as_json, url, data_dir)
    if not as_json:
        typer.echo(f"request {request_id} is nobody's; others decide it again")


@requests_app.command("comment", epilog='Example: cc-orchestrator requests comment REQUEST "Is the chest empty?"')
def comment(
    request_id: RequestId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="For the next reviewer; 2000 characters at most.")],
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Say something to the next reviewer; the request still waits."""
    if not text.strip():
        raise InvalidRequest("A comment needs at least one character.", remedy='Say it like "Is the chest empty?".')
    _post(request_id, "comment", {"text": text}, as_json, url, data_dir)
    if not as_json:
        typer.echo(f"said at request {request_id}")


@requests_app.command("escalate", epilog="Example: cc-orchestrator requests escalate REQUEST")
def escalate(request_id: RequestId, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Give a request to the people who come next.

    These are the people whom the policy names, else the admins. It keeps its id, its time begins again, and those who
    reviewed it before no longer decide it.
    """
    _post(request_id, "escalate", {}, as_json, url, data_dir)
    if not as_json:
        typer.echo(f"request {request_id} went to the people who come next")


@requests_app.command("renew", epilog="Example: cc-orchestrator requests renew REQUEST")
def renew(request_id: RequestId, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Ask again for what nobody answered in time.

    `tasks show TASK --json` names such a request as `lapsed_request`.
    """
    answer = _post(request_id, "renew", {}, as_json, url, data_dir)
    if not as_json:
        typer.echo(f"task {answer['task_id']} asks again, in a new request; see `cc-orchestrator review`")


@requests_app.command("stats", epilog="Example: cc-orchestrator requests stats --days 7")
def stats(
    days: Annotated[
        float, typer.Option(metavar="DAYS", min=0.01, max=366, help="Of the last so many days; 366 at most.")
    ] = 30,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Show how fast people decide, and how much they reject.

    In all, and by rule, tool and person.

    For those who may read the audit. MEDIAN and 95% are times to the decision, as m:ss: half of the calls, and 95 of
    100, were decided within them. The share of REJECTED is of the calls that people decided.
    """
    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/analytics", days=f"{days:g}")
    if as_json:
        print_json(found)
        return
    since = f"since {moment(found['since'])}"
    if found["all"]["calls"]:
        typer.echo(f"How the calls ended that waited for people, {since}:")
        _print_figures("", [found["all"]])
        for head in ("rule", "tool", "person"):
            _print_figures(head, found[f"by_{head}"])
    else:
        typer.echo(f"No call that waited for people ended {since}. `--days` looks further back.", err=True)
    if found["left_out"]:
        typer.echo(f"Tasks with a journal that is too long or unreadable, left out: {found['left_out']}", err=True)


def _print_figures(head: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """One table of figures; the name comes last, so a narrow terminal cuts no figure."""
    from orchestrator.terminal.output import Screen, elapsed, table

    def row(one: Mapping[str, Any]) -> tuple[str, ...]:
        decided = one["approved"] + one["rejected"] + one["answered"]
        share = f" ({one['rejected'] / decided:.0%})" if decided else ""
        times = ("-" if one[name] is None else elapsed(one[name]) for name in ("median_s", "p95_s"))
        ends = (str(one[name]) for name in ("answered", "expired", "dropped"))
        return (
            str(one["calls"]),
            str(one["approved"]),
            f"{one['rejected']}{share}",
            *ends,
            *times,
            one_line(one["name"]),
        )

    heads = ("CALLS", "APPROVED", "REJECTED", "ANSWERED", "EXPIRED", "DROPPED", "MEDIAN", "95%", head.upper())
    lines = table(heads, [row(one) for one in rows], columns=Screen.of().columns) if rows else []
    for line in lines and ["", *lines]:
        typer.echo(line)


def review(  # noqa: PLR0913, PLR0917 - one parameter for each flag
    requests: Annotated[
        list[str] | None,
        typer.Argument(metavar="REQUEST", help="With --approve or --reject: those that are meant."),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Only show what waits.")] = False,
    approve: Annotated[bool, typer.Option("--approve", help="Approve the named requests.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="Reject the named requests.")] = False,
    reason: Annotated[str, typer.Option(help="Why; with --reject the model may be told.")] = "",
    on_reject: Annotated[
        Literal["cancel", "continue"] | None,
        typer.Option(help="The effect of a rejection on the task. Default: as it was submitted."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether to; it prints them all the same.")] = False,
    as_json: AsJson = False,
    reconnect: Reconnect = RECONNECT_S,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Decide what waits for a person, here in the terminal.

    Named requests are printed in full and decided at once; it ends with 1 when one of them was not carried out.
    Without a terminal and without names it shows what waits and decides nothing, and ends with 1 if something does.
    """
    from orchestrator.terminal.cli.review import action_of, decide_and_print, list_waiting, review_all

    action = action_of(requests, listing, approve, reject, as_json)
    with client_of(url, data_dir) as client:
        if listing:
            list_waiting(client, as_json)
        elif action is not None:
            then = {"reason": reason, "on_reject": on_reject if reject else None, "sure": yes}
            raise typer.Exit(decide_and_print(client, requests or [], action, as_json, then))
        else:
            raise typer.Exit(review_all(client, reconnect))


def _post(request_id: str, what: str, body: dict[str, Any], as_json: bool, *where: Any) -> Any:
    with client_of(*where) as client:
        answer = client.request("POST", f"/v1/requests/{request_id}/{what}", body)
    if as_json:
        print_json(answer)
    return answer


# -- Grants on the command line: which there are, and taking one back --------

grants_app = typer.Typer(no_args_is_help=True, help="Grants: list them, revoke one.")


@grants_app.command("list", epilog="Example: cc-orchestrator grants list --session castle")
def grants_list(
    session: Annotated[str | None, typer.Option(help="Only those of this session.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that ended, were used up or were revoked.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """List the grants.

    The calls that each allows without asking, the tasks, the end, and the person who gave it.
    """
    from orchestrator.terminal.output import Screen, table

    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/grants", **({"session_id": session} if session else {}))["grants"]
    found = [one for one in found if everything or one["usable"]]
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("There are no grants." if everything else _NONE, err=True)
        return
    rows = [_row(one) for one in found]
    for line in table(("GRANT", "STATE", "FOR", "UNTIL", "USES", "BY", "ALLOWS"), rows, columns=Screen.of().columns):
        typer.echo(line)


@grants_app.command("revoke", epilog="Example: cc-orchestrator grants revoke g-…")
def grants_revoke(
    grant_id: Annotated[
        str,
        typer.Argument(
            metavar="GRANT", help="Its id, as `grants list` shows it.", callback=id_of("grant", "grants list")
        ),
    ],
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Take a grant back.

    Calls that have not begun to run ask again; running calls go on.
    """
    with client_of(url, data_dir) as client:
        answer = client.request("DELETE", f"/v1/grants/{grant_id}")
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"revoked {grant_id}" if answer["revoked"] else f"{grant_id} was revoked before")


_NONE = "No grant can be used now; --all shows those that ended, too."


def _row(grant: Mapping[str, Any]) -> tuple[str, ...]:
    from orchestrator.terminal.review.request_view import allows

    of = grant["session_id"] if grant["scope"] == "session" else grant["task_id"]
    most = f" of {grant['max_uses']}" if grant["max_uses"] is not None else ""
    return (
        one_line(grant["grant_id"]),
        "revoked" if grant["revoked"] else "good" if grant["usable"] else "over",
        one_line(f"{grant['user_id']} in {of}"),
        moment(grant["expires_at"]) or "the task's end",
        f"{grant['uses']}{most}",
        one_line(grant["granted_by"]),
        one_line(allows(grant), limit=1000),
    )
