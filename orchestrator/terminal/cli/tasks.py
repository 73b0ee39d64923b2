"""The commands about tasks that are there: look, watch, answer, stop."""

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import program, reaching
from orchestrator.terminal.cli.common import (
    RECONNECT_S,
    AsJson,
    DataDir,
    Detach,
    Reconnect,
    TaskId,
    Url,
    as_task,
    client_of,
    is_alone,
    print_json,
)
from orchestrator.terminal.cli.follow import follow, join, leave, tell_leftovers

if TYPE_CHECKING:
    from orchestrator.client import Client

# -- What the command line shows of a rehearsal once its task is over --------------------

_POLL_S: Final = 0.2
"""Between two looks whether the copy was compared: it takes about a second."""
_LINE_CHARS: Final = 2000
"""Characters of one line of a diff."""
_OVER: Final = frozenset({"nothing", "asked", "not_applied"})


def show_rehearsal(client: "Client", task_id: str, *, as_json: bool, diffs: bool, patience_s: float) -> str | None:
    """Print what a rehearsal that is over came to; the task that asks for all of it, or None.

    ``diffs``: each whole; where a person is asked next they see them there. Raises ServerUnreachable.
    """
    shown = _came_to(client, task_id, patience_s)
    if as_json:
        print_json({"rehearsal": shown})
    else:
        for line in lines_of(shown, diffs=diffs):
            typer.echo(line)
    applied_by: str | None = shown["applied_by"]
    return applied_by


def _came_to(client: "Client", task_id: str, patience_s: float) -> dict[str, Any]:
    from orchestrator.client import ServerUnreachable

    until = time.monotonic() + patience_s
    while True:
        try:
            shown: dict[str, Any] = client.request("GET", f"/v1/tasks/{task_id}/rehearsal")
        except ServerUnreachable:
            if time.monotonic() > until:
                raise
        else:
            if shown["state"] in _OVER:
                return shown
            until = time.monotonic() + patience_s
        time.sleep(_POLL_S)


def lines_of(shown: dict[str, Any], *, diffs: bool) -> list[str]:
    """The result of a rehearsal, as lines for a person."""
    from orchestrator.core.text.visible import one_line, visible

    told = shown["message"] or "It is not over yet."
    lines = [f"[REHEARSAL] {one_line(told, limit=1000)}"]
    lines += [f"not in the copy: {one_line(path)}  ({one_line(why)})" for path, why in shown["left_out"].items()]
    for one in shown["changes"]:
        lines.append(f"{_word(one):8} {one_line(one['place'])}")
        if diffs and one["binary"]:
            lines.append(f"  {one['binary']}")
        if diffs and one["diff"]:
            lines += [f"  {visible(line, limit=_LINE_CHARS)}" for line in one["diff"].rstrip("\n").split("\n")]
            lines += ["  … and more"] if one["cut"] else []
    more = shown["changed"] - len(shown["changes"])
    return lines + ([f"and {more} more"] if more > 0 else [])


def _word(one: dict[str, Any]) -> str:
    if one["before"] == "absent":
        return "new"
    return "removed" if one["after"] == "absent" else "changed"


# -- The command that shows what a rehearsal came to, and asks for it where that was left open


def rehearsal(
    task_id: TaskId,
    apply: Annotated[
        bool, typer.Option("--apply", help="Ask for all of it, also where the rehearsal failed or was canceled.")
    ] = False,
    detach: Detach = False,
    as_json: AsJson = False,
    reconnect: Reconnect = RECONNECT_S,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Show what a rehearsal changed in its copy.

    With --apply a task asks for all of it at once, and is followed.
    """
    if detach and not apply:
        raise InvalidRequest("--detach is for the task that applies a rehearsal.", remedy="Say --apply too.")
    with client_of(url, data_dir) as client:
        endpoint = f"/v1/tasks/{task_id}/rehearsal"
        if apply:
            where = reaching(url, data_dir)
            before = client.request("GET", f"/v1/tasks/{task_id}").get("applied") or {}
            applied = client.request("POST", endpoint, {})
            if before.get("open") and before["task_id"] == applied["task_id"]:
                told = f"{task_id} is already {before['told']}."
                join(client, applied["task_id"], told, as_json, reconnect, where, detach=detach)
                return
            if detach:
                leave(applied, as_json, where)
                return
            follow(client, applied["task_id"], as_json, reconnect, where)
        shown = client.request("GET", endpoint)
    if as_json:
        print_json(shown)
        return
    for line in lines_of(shown, diffs=True):
        typer.echo(line)
    outcome = shown.get("outcome")
    if outcome and outcome["open"]:
        watch = f"{program()} tasks watch {outcome['task_id']}{reaching(url, data_dir)}"
        typer.echo(f"{one_line(outcome['told'], limit=600)}:  {watch}")


# -- The commands about tasks that are there: look, watch, answer, stop ------------------

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
    rows = []
    for task in found:
        status, why = _standing(task)
        about = fitted(one_line(task["prompt"], limit=1000), 100)
        names = one_line(",".join(task["computers"])) or "-"
        why = ", ".join(filter(None, (why, "pinned" if task.get("pinned") else "")))
        rows.append((task["task_id"], status, why, names, age(task["created_at"]), about))
    if not rows:
        typer.echo("There are no tasks." if status is None else f"There are no tasks that are {status}.", err=True)
        return
    head = ("TASK", "STATUS", "REASON", "COMPUTERS", "AGE", "PROMPT")
    for line in table(head, rows, columns=Screen.of().columns):
        typer.echo(line)


@tasks_app.command()
def watch(
    task_id: TaskId,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each item and notification as one line of JSON.")
    ] = False,
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
    from orchestrator.terminal.review.request_view import diff_lines

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
            # The line of the call has the beginning of a text: the diff that a person saw is the text, once.
            for diff in _diffs(item.fact):
                for shown in diff_lines(diff):
                    typer.echo(shown.text)
            if item.version >= task["version"]:
                break


def _diffs(fact: Any) -> list[str]:
    """The changes of files that a request shows to people."""
    if fact.kind != "review_requested":
        return []
    return [one.observed.diff for one in fact.calls if one.observed is not None and one.observed.diff]


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
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Your words, or the number of a choice.")],
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Answer a task's question."""
    if not text.strip():
        raise InvalidRequest("The answer is empty.", remedy="Type the answer behind the task, in quotes.")
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


def _standing(task: dict[str, Any]) -> tuple[str, str]:
    """The status of a task in a word, and why it has it; docs/glossary.md has the words."""
    from orchestrator.core.text.visible import one_line

    reason = task.get("status_reason") or ""
    if reason == "unverified":
        return "Unverified", ""
    return task["status"], "outcome unknown: a person has to look" if reason == "outcome_unknown" else one_line(reason)


def _by_now(task: dict[str, Any]) -> dict[str, str]:
    """The outcome of the tasks that a task's log only begins."""
    begun = [*(task.get("undo") or {}).get("outcomes", []), *filter(None, [task.get("applied")])]
    return {one["task_id"]: one["told"] for one in begun}


def _details(task: dict[str, Any], where: str) -> list[str]:
    from orchestrator.core.text.visible import one_line
    from orchestrator.terminal.changes_left import how
    from orchestrator.terminal.output import counted, elapsed

    most = task["max_steps"]
    limits = [f"{task['steps']} of {counted(most, 'step')}" if most else counted(task["steps"], "step")]
    if task.get("tokens"):
        tokens = counted(task["tokens"], "token")
        limits.append(tokens + (f" of {task['max_tokens']}" if task.get("max_tokens") else ""))
    if task.get("active_s"):
        most = f" of {elapsed(task['max_wall_s'])}" if task.get("max_wall_s") else ""
        limits.append(f"{elapsed(task['active_s'])}{most} of work")
    status, why = _standing(task)
    reason = f" ({why})" if why else ""
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
        f"status    {status}{reason}",
        f"for       {one_line(task['user_id'])}{at}, session {one_line(task['session_id'])}",
        f"computers {one_line(', '.join(task['computers'])) or 'none'}",
        f"model     {one_line(task['model'])}",
        f"used      {', '.join(limits)}",
        *rehearsed,
        *undo,
        f"prompt    {one_line(task['prompt'], limit=2000)}",
        *(["kept      it is pinned"] if task.get("pinned") else []),
    ]


@tasks_app.command()
def pin(task_id: TaskId, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Keep a task and those that it builds on: no retention removes them."""
    _pinned(task_id, "pin", as_json, url, data_dir)


@tasks_app.command()
def unpin(task_id: TaskId, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Keep a task no longer than others."""
    _pinned(task_id, "unpin", as_json, url, data_dir)


def _pinned(task_id: str, verb: str, as_json: bool, url: str | None, data_dir: Any) -> None:
    with client_of(url, data_dir) as client:
        done = client.request("POST", f"/v1/tasks/{task_id}/{verb}")
    if as_json:
        print_json(done)
    else:
        typer.echo(f"task {done['task_id']} is {'pinned' if done['pinned'] else 'not pinned'}")
