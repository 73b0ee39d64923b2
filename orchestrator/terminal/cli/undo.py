"""The command that takes back what a task changed."""

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from orchestrator.core.errors import BeingUndone, InvalidRequest
from orchestrator.core.text.paths import spelled, unspelled
from orchestrator.runtime.program import reaching
from orchestrator.terminal.cli.common import (
    RECONNECT_S,
    AsJson,
    DataDir,
    Detach,
    Reconnect,
    TaskId,
    Url,
    client_of,
    print_json,
    quoted,
)
from orchestrator.terminal.cli.follow import follow, join, leave
from orchestrator.terminal.cli.transfer import watched

if TYPE_CHECKING:
    from orchestrator.client import Client

_CHOICES: Final = ("keep", "restore", "beside")


def undo(  # noqa: PLR0913, PLR0917 - one parameter for each flag
    task_id: TaskId,
    step: Annotated[int | None, typer.Option(min=1, help="Only what this step of the task changed.")] = None,
    path: Annotated[
        list[str] | None, typer.Option("--path", help="Only this path and what is below it; may be repeated.")
    ] = None,
    on_conflict: Annotated[
        Literal["keep", "restore", "beside"],
        typer.Option(help="What somebody changed since: keep it, restore the old, or put the old file beside it."),
    ] = "keep",
    choose: Annotated[
        list[str] | None,
        typer.Option("--choose", metavar="PLACE=CHOICE", help="The same of one place, such as farm:a.lua=restore."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    detach: Detach = False,
    as_json: AsJson = False,
    reconnect: Reconnect = RECONNECT_S,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Put back what a task changed.

    Shows what would be done; the undo is then a task of its own: it waits for approval, and for computers that are
    away, and can be undone itself. What somebody changed since stays, unless you say otherwise.
    """
    from orchestrator.terminal.console.undo_lines import told

    paths = [spelled(one) for one in path or []]
    body: dict[str, Any] = {"paths": paths, "on_conflict": on_conflict, "choices": _choices(choose or [])}
    if step is not None:
        body["step"] = step
    with client_of(url, data_dir) as client:
        door = f"/v1/tasks/{task_id}/undo"
        with watched(client, None, task_id, as_json=as_json):
            preview = client.request_long("POST", door, {**body, "dry_run": True})
        _must_be_there(body["choices"], preview)
        if dry_run and as_json:
            print_json(preview)
            return
        if not as_json:
            for line in told(preview) or [_nothing(task_id, narrowed=step is not None)]:
                typer.echo(line)
        if not dry_run:
            _begin(client, door, body, as_json, reconnect, reaching(url, data_dir), detach=detach)


def _begin(
    client: "Client", door: str, body: dict[str, Any], as_json: bool, patience_s: float, where: str, *, detach: bool
) -> None:
    """Submit the undo and follow it; where one of the same task goes on already, that one."""
    from orchestrator.client import ServerRefused

    try:
        submitted = client.request("POST", door, body)
    except ServerRefused as refused:
        going = refused.details.get("task_id")
        if refused.reason != BeingUndone.code or not going:
            raise
        join(client, str(going), refused.message, as_json, patience_s, where, detach=detach)
        return
    if detach:
        leave(submitted, as_json, where)
        return
    follow(client, submitted["task_id"], as_json, patience_s, where)


def _nothing(task_id: str, *, narrowed: bool) -> str:
    return f"{task_id} changed no files{' in that step' if narrowed else ''}."


def _must_be_there(choices: dict[str, str], preview: dict[str, Any]) -> None:
    """Raises InvalidRequest for a choice about a place that the undo does not touch."""
    places = {one["place"] for one in preview["places"]}
    odd = next((place for place in choices if place not in places), None)
    # What is not heard yet may bring more places.
    if odd is not None and not preview.get("not_heard"):
        from orchestrator.core.undo.near import near

        remedy = f"Name a place as --dry-run does: farm:startup.lua. {near(odd, sorted(places))}".rstrip()
        raise InvalidRequest(f"The undo touches no {quoted(odd)}.", remedy=remedy)


def _choices(chosen: list[str]) -> dict[str, str]:
    """Raises InvalidRequest for what is not PLACE=CHOICE."""
    choices = {}
    for one in chosen:
        place, _, choice = one.rpartition("=")
        if not place or choice not in _CHOICES:
            raise InvalidRequest(f"{one!r} chooses nothing.", remedy=f"Say PLACE={'|'.join(_CHOICES)}.")
        choices[spelled(unspelled(place))] = choice
    return choices
