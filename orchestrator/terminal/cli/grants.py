"""Standing approvals on the command line: which there are, and taking one back."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from orchestrator.core.text.visible import one_line
from orchestrator.terminal.cli.common import AsJson, DataDir, Url, as_segment, client_of, moment, print_json

grants_app = typer.Typer(no_args_is_help=True, help="Standing approvals: list them, revoke one.")


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
    """List the standing approvals.

    What each allows without asking, for whose tasks, until when, and who gave it.
    """
    from orchestrator.terminal.output import Screen, table

    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/grants", **({"session_id": session} if session else {}))["grants"]
    found = [one for one in found if everything or one["usable"]]
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("There are no standing approvals." if everything else _NONE, err=True)
        return
    rows = [_row(one) for one in found]
    for line in table(("GRANT", "STATE", "FOR", "UNTIL", "USES", "BY", "ALLOWS"), rows, columns=Screen.of().columns):
        typer.echo(line)


@grants_app.command("revoke", epilog="Example: cc-orchestrator grants revoke g-…")
def grants_revoke(
    grant_id: Annotated[
        str, typer.Argument(metavar="GRANT", help="Its id, as `grants list` shows it.", callback=as_segment)
    ],
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Take a standing approval back.

    What has not begun to run asks again; what runs goes on.
    """
    with client_of(url, data_dir) as client:
        answer = client.request("DELETE", f"/v1/grants/{grant_id}")
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"revoked {grant_id}" if answer["revoked"] else f"{grant_id} was revoked before")


_NONE = "No standing approval can be used now; --all shows those that ended, too."


def _row(grant: Mapping[str, Any]) -> tuple[str, ...]:
    from orchestrator.terminal.console.grant_lines import allows

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
