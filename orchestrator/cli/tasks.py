"""The commands about tasks: run, look, watch, decide, answer, stop."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from orchestrator.cli.common import (
    AsJson,
    DataDir,
    Detach,
    Reconnect,
    Url,
    as_task,
    client_of,
    is_alone,
    print_json,
    seconds,
    warn_of_variables,
)
from orchestrator.cli.transferring import watched
from orchestrator.core.errors import InvalidRequest
from orchestrator.program import reaching

if TYPE_CHECKING:
    from orchestrator.client import Client

tasks_app = typer.Typer(invoke_without_command=True, help="List tasks, or look at one.")
RECONNECT_S = 90.0
_TOLD_CHARS = 600
"""The longest sentence about another task that is shown."""

TaskId = Annotated[str, typer.Argument(metavar="TASK", help="The task's id, as `tasks` lists it.", callback=as_task)]


def run(  # noqa: PLR0913, PLR0917 - one parameter for each flag
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="PROMPT", help="What to do; `-` reads it from standard input. None, on a terminal: a prompt."
        ),
    ] = None,
    computer: Annotated[
        list[str] | None, typer.Option("--computer", help="A computer to work on; may be repeated.")
    ] = None,
    session: Annotated[str, typer.Option(help="Continue this session: the task knows its earlier results.")] = "",
    model: Annotated[str, typer.Option(help="Such as ollama:qwen2.5-coder. Default: the server's.")] = "",
    max_steps: Annotated[int | None, typer.Option(min=1, max=1000, help="Replies of the model at most.")] = None,
    max_wall: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Working time at most, such as 90 (seconds), 10m or 1h30m; a week at most, 0: no limit.",
        ),
    ] = "",
    max_tokens: Annotated[
        int | None, typer.Option(min=0, max=100_000_000, help="Tokens in and out at most; 0: no limit.")
    ] = None,
    priority: Annotated[
        int, typer.Option(min=-100, max=100, help="Of the tasks that wait, the higher goes first.")
    ] = 0,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="It may only look: whatever changes something is denied.")
    ] = False,
    rehearse: Annotated[
        bool,
        typer.Option(
            "--rehearse", help="Work on a copy of the computer's files, show what changed, and ask once for all of it."
        ),
    ] = False,
    on_reject: Annotated[
        Literal["cancel", "continue"] | None,
        typer.Option(help="What a rejection does to the task. Default: as the policy says, else cancel."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each item and hint as one line of JSON.")] = False,
    detach: Detach = False,
    reconnect: Reconnect = RECONNECT_S,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Submit a task and follow it; Ctrl-C leaves it running."""
    from orchestrator.core.visible import one_line

    if prompt is None:
        if on_reject is not None:
            remedy = 'Say it: cc-orchestrator run "…" --on-reject continue'
            raise InvalidRequest("--on-reject is for one task, and none is named.", remedy=remedy)
        if rehearse:
            remedy = 'Say it: cc-orchestrator run "…" --rehearse'
            raise InvalidRequest("--rehearse is for one task, and none is named.", remedy=remedy)
        raise typer.Exit(_interactive(url, data_dir, computer or [], model, session, read_only))
    wanted = sys.stdin.read() if prompt == "-" else prompt
    if not wanted.strip():
        raise InvalidRequest("The task is empty.", remedy='Say what to do: cc-orchestrator run "…"')
    body: dict[str, Any] = {
        "prompt": wanted,
        "computers": computer or [],
        "model": model,
        "session_id": session,
        "priority": priority,
        "max_steps": max_steps,
        "max_wall_s": seconds(max_wall) if max_wall else None,
        "max_tokens": max_tokens,
        "read_only": read_only or None,
        "rehearse": rehearse or None,
        "on_reject": on_reject,
    }
    with client_of(url, data_dir) as client:
        if session and client.is_new(session):
            typer.echo(f"session {one_line(session)} is new: nothing earlier is told to the model", err=True)
        if not detach:
            # Imported before the task begins: what the model says meanwhile is a hint, and told to nobody twice.
            import orchestrator.following  # noqa: F401
        body = {name: value for name, value in body.items() if value is not None}
        with watched(client, "rehearsal", (computer or [""])[0], as_json=as_json) if rehearse else nullcontext():
            task = client.submit(body, patience_s=reconnect)
        if detach:
            print_json(task) if as_json else typer.echo(f"task {task['task_id']}")
            return
        follow(client, task["task_id"], as_json, reconnect, reaching(url, data_dir), rehearses=rehearse)


@tasks_app.callback()
def tasks(
    context: typer.Context,
    status: Annotated[str | None, typer.Option(help="Only these: Queued, Running, Paused, Completed …")] = None,
    limit: Annotated[int, typer.Option(help="So many at most, the newest first.", min=1, max=1000)] = 100,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """List the newest tasks; `tasks watch` and `tasks show` look at one."""
    if not is_alone(context):
        return
    from orchestrator.core.visible import one_line
    from orchestrator.rendering import Screen, age, fitted, table

    query: dict[str, Any] = {"limit": limit, **({"status": status} if status else {})}
    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/tasks", **query)["tasks"]
    if as_json:
        print_json(found)
        return
    rows = [
        (
            task["task_id"],
            task["status"],
            one_line(", ".join(filter(None, (task.get("status_reason"), "pinned" if task.get("pinned") else "")))),
            one_line(",".join(task["computers"])) or "-",
            age(task["created_at"]),
            fitted(one_line(task["prompt"], limit=1000), 100),
        )
        for task in found
    ]
    if not rows:
        typer.echo("There are no tasks." if status is None else f"There are no tasks that are {status}.", err=True)
        return
    head = ("TASK", "STATUS", "REASON", "COMPUTERS", "AGE", "PROMPT")
    for line in table(head, rows, columns=Screen.of().columns):
        typer.echo(line)


@tasks_app.command()
def watch(
    task_id: TaskId,
    as_json: Annotated[bool, typer.Option("--json", help="Print each item and hint as one line of JSON.")] = False,
    reconnect: Reconnect = RECONNECT_S,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Follow a task from its beginning.

    It shows what `run` shows, and asks what `run` asks; Ctrl-C leaves the task running.
    """
    with client_of(url, data_dir) as client:
        task = client.request("GET", f"/v1/tasks/{task_id}")
        rehearses = task.get("rehearses") is not None
        follow(client, task_id, as_json, reconnect, reaching(url, data_dir), rehearses=rehearses)


@tasks_app.command()
def show(task_id: TaskId, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Print a task.

    Its details, what happened so far, and its result.
    """
    from orchestrator.core.transcript import Transcript
    from orchestrator.core.visible import block

    with client_of(url, data_dir) as client:
        task = client.request("GET", f"/v1/tasks/{task_id}")
        if as_json:
            print_json(task)
            return
        for line in _details(task, reaching(url, data_dir)):
            typer.echo(line)
        transcript = Transcript(_by_now(task))
        for item in client.events(task_id):
            for line in transcript.lines(item):
                typer.echo(block(line))
            if item.version >= task["version"]:
                break


def cancel(
    task_id: TaskId,
    reason: Annotated[str, typer.Option(help="Why; it is kept with the task.")] = "",
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Stop a task.

    What it had changed by then is named, and how it is put back.
    """
    with client_of(url, data_dir) as client:
        task = client.request("POST", f"/v1/tasks/{task_id}/cancel", {"reason": reason})
        if as_json:
            print_json(task)
            return
        typer.echo(f"task {task['task_id']} is {task['status']}")
        _tell_leftovers(client, task_id, reaching(url, data_dir))


def stop(
    task_id: Annotated[
        str | None, typer.Argument(metavar="TASK", help="A task, as `cancel`.", callback=as_task)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Stop every task that you may stop.")] = False,
    reason: Annotated[str, typer.Option(help="Why; it is kept with the tasks.")] = "",
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Stop a task, or with --all everything at once."""
    if (task_id is None) is not everything:
        raise InvalidRequest("Say what to stop.", remedy="Name a task, or say --all.")
    if task_id is not None:
        cancel(task_id, reason, as_json, url, data_dir)
        return
    with client_of(url, data_dir) as client:
        answer = client.request("POST", "/v1/stop", {"reason": reason})
        if as_json:
            print_json(answer)
            return
        for stopped in answer["stopped"]:
            typer.echo(f"stopped {stopped}")
            _tell_leftovers(client, stopped, reaching(url, data_dir))
    if not answer["stopped"]:
        typer.echo("Nothing was running.", err=True)


def answer(
    task_id: TaskId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer.")],
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Answer a task's question."""
    with client_of(url, data_dir) as client:
        question = client.request("GET", f"/v1/tasks/{task_id}")["question"]
        if question is None:
            raise InvalidRequest(
                "The task asks nothing now: its question was answered already, or it has ended.",
                remedy=f"See `cc-orchestrator tasks show {task_id}`.",
            )
        body = {"question_id": question["question_id"], "answer": text}
        task = client.request("POST", f"/v1/tasks/{task_id}/answer", body)
    print_json(task) if as_json else typer.echo(f"task {task['task_id']} is {task['status']}")


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
        typer.Option(help="What a rejection does to the task. Default: as it was submitted."),
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
    from orchestrator.cli.reviewing import action_of, decide_named, list_waiting, review_all

    action = action_of(requests, listing, approve, reject, as_json)
    with client_of(url, data_dir) as client:
        if listing:
            list_waiting(client, as_json)
        elif action is not None:
            then = {"reason": reason, "on_reject": on_reject if reject else None, "sure": yes}
            raise typer.Exit(decide_named(client, requests or [], action, as_json, then))
        else:
            raise typer.Exit(review_all(client, reconnect))


def _interactive(
    url: str | None, data_dir: Path | None, computers: list[str], model: str, session: str, read_only: bool
) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidRequest(
            "There is no prompt, and no terminal to ask for one.",
            remedy='Say it: cc-orchestrator run "…", or pipe it to `run -`.',
        )
    from orchestrator.interactive import run_task_interactive

    warn_of_variables()
    return run_task_interactive(
        url=url, data_dir=data_dir, computers=computers, model=model, session_id=session, read_only=read_only
    )


def follow(
    client: "Client", task_id: str, as_json: bool, patience_s: float, where: str, *, rehearses: bool = False
) -> None:
    """Follow a task and exit as it ended; after a rehearsal, that which asks for all of it."""
    from orchestrator.following import Follower
    from orchestrator.program import program
    from orchestrator.progress import JsonLines, Progress, View
    from orchestrator.rendering import Screen

    screen = Screen.of()
    view: View = Progress(screen, client.clock.now)
    if as_json:
        view = JsonLines(sys.stdout, lambda text: typer.echo(text, err=True))
    else:
        screen.line(f"task {task_id}")
    asked = screen if screen.grows and not as_json and sys.stdin.isatty() else None
    try:
        ended = Follower(client, view, screen=asked, patience_s=patience_s).follow(task_id)
    except KeyboardInterrupt:
        screen.close()
        name = program()
        for line in (
            "\nYou left; the task goes on.",
            f"  watch it:  {name} tasks watch {task_id}{where}",
            f"  stop it:   {name} cancel {task_id}{where}",
        ):
            typer.echo(line, err=True)
        raise typer.Exit(130) from None
    finally:
        screen.close()
    succeeded = ended.status == "Completed" and ended.verified is not False
    if rehearses:
        from orchestrator.cli.rehearsed import show_rehearsal

        applied_by = show_rehearsal(client, task_id, as_json=as_json, diffs=asked is None, patience_s=patience_s)
        if applied_by is not None:
            follow(client, applied_by, as_json, patience_s, where)
    if succeeded:
        if not as_json and not rehearses:
            _tell_unknown(client, task_id)
        raise typer.Exit(0)
    if not as_json and not rehearses:
        _tell_leftovers(client, task_id, where)
    raise typer.Exit(1)


def join(
    client: "Client", task_id: str, told: str, as_json: bool, patience_s: float, where: str, *, detach: bool
) -> None:
    """Say that a task which does what is wanted goes on already, and follow that one, or leave it."""
    from orchestrator.core.visible import one_line

    typer.echo(one_line(told, limit=_TOLD_CHARS), err=True)
    if not detach:
        follow(client, task_id, as_json, patience_s, where)
        return
    task = client.request("GET", f"/v1/tasks/{task_id}")
    short = {"task_id": task["task_id"], "status": task["status"]}
    leave(short, as_json, where, asks=task["request"] is not None)


def leave(task: dict[str, Any], as_json: bool, where: str, *, asks: bool = True) -> None:
    """Print a task that is not followed, and how it is watched and, where it ``asks`` or will, decided."""
    from orchestrator.program import program

    if as_json:
        print_json(task)
        return
    name = program()
    typer.echo(f"task {task['task_id']}")
    typer.echo(f"  watch it:     {name} tasks watch {task['task_id']}{where}", err=True)
    if asks:
        typer.echo(f"  approve it:   {name} review{where}", err=True)


def _tell_leftovers(client: "Client", task_id: str, where: str) -> None:
    from orchestrator.leftovers import left_behind

    for line in left_behind(client, task_id, where):
        typer.echo(line, err=True)


def _tell_unknown(client: "Client", task_id: str) -> None:
    from orchestrator.leftovers import not_known

    for line in not_known(client, task_id):
        typer.echo(line, err=True)


def _by_now(task: dict[str, Any]) -> dict[str, str]:
    """What became of the tasks that a task's log only begins."""
    begun = [*(task.get("undo") or {}).get("outcomes", []), *filter(None, [task.get("applied")])]
    return {one["task_id"]: one["told"] for one in begun}


def _details(task: dict[str, Any], where: str) -> list[str]:
    from orchestrator.core.visible import one_line
    from orchestrator.leftovers import how
    from orchestrator.rendering import counted, elapsed

    limits = [f"{task['steps']} of {counted(task['max_steps'], 'step')}"]
    if task.get("tokens"):
        tokens = counted(task["tokens"], "token")
        limits.append(tokens + (f" of {task['max_tokens']}" if task.get("max_tokens") else ""))
    if task.get("active_s"):
        most = f" of {elapsed(task['max_wall_s'])}" if task.get("max_wall_s") else ""
        limits.append(f"{elapsed(task['active_s'])}{most} of work")
    reason = f" ({one_line(task['status_reason'])})" if task["status_reason"] else ""
    at = f" at computer {one_line(task['asked_at'])} in the game" if task.get("asked_at") else ""
    offer = task.get("undo") or {}
    changed = counted(offer.get("changes", 0), "place")
    undo = [f"changed   {changed}; {how(offer, task['task_id'], where)}"] if offer.get("changes") else []
    unseen = offer.get("unseen", 0)
    undo += [f"not known what {counted(unseen, 'program')} changed; no undo puts that back"] if unseen else []
    applied = task.get("applied")
    became = f"; {one_line(applied['told'], limit=600)}" if applied else ""
    rehearsed = [f"rehearsed on a copy of {one_line(task['rehearses'])}{became}"] if task.get("rehearses") else []
    return [
        f"task      {task['task_id']}",
        f"status    {task['status']}{reason}",
        f"for       {one_line(task['user_id'])}{at}, session {one_line(task['session_id'])}",
        f"computers {one_line(', '.join(task['computers'])) or 'none'}",
        f"model     {one_line(task['model'])}",
        f"used      {', '.join(limits)}",
        *rehearsed,
        *undo,
        f"prompt    {one_line(task['prompt'], limit=2000)}",
        *(["kept      it is pinned"] if task.get("pinned") else []),
    ]
