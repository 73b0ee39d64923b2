"""The commands about tasks that are there: look, watch, answer, stop."""

from typing import Annotated, Any

import typer

from orchestrator.core.errors import InvalidRequest
from orchestrator.runtime.program import reaching
from orchestrator.terminal.cli.common import (
    RECONNECT_S,
    AsJson,
    DataDir,
    Reconnect,
    TaskId,
    Url,
    as_task,
    client_of,
    is_alone,
    print_json,
)
from orchestrator.terminal.cli.follow import follow, tell_leftovers

tasks_app = typer.Typer(invoke_without_command=True, help="List tasks, or look at one.")


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
    from orchestrator.core.text.visible import one_line
    from orchestrator.terminal.output import Screen, age, fitted, table

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
    from orchestrator.core.task.transcript import Transcript
    from orchestrator.core.text.visible import block

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
        tell_leftovers(client, task_id, reaching(url, data_dir))


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
            tell_leftovers(client, stopped, reaching(url, data_dir))
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


def _by_now(task: dict[str, Any]) -> dict[str, str]:
    """What became of the tasks that a task's log only begins."""
    begun = [*(task.get("undo") or {}).get("outcomes", []), *filter(None, [task.get("applied")])]
    return {one["task_id"]: one["told"] for one in begun}


def _details(task: dict[str, Any], where: str) -> list[str]:
    from orchestrator.core.text.visible import one_line
    from orchestrator.terminal.changes_left import how
    from orchestrator.terminal.output import counted, elapsed

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
