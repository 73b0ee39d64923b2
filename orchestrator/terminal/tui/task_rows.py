"""A task as a row of the list, and in one line once it has ended."""

from collections.abc import Mapping
from typing import Any

from orchestrator.core.text.visible import one_line
from orchestrator.terminal.output import age, counted, elapsed
from orchestrator.terminal.tui.row_list import Entry


def fits(task: Mapping[str, Any], statuses: frozenset[str], word: str) -> bool:
    """Whether a task is one of those that are wanted: by its status, and by a word in small letters."""
    texts = (task["task_id"], task["prompt"], task["user_id"], *task["computers"])
    return (not statuses or task["status"] in statuses) and (not word or any(word in one.casefold() for one in texts))


def entry_of(task: Mapping[str, Any]) -> Entry:
    """A task as a row."""
    reason = one_line(task["status_reason"]).removeprefix("waiting ")
    kept = ", kept" if task["pinned"] else ""
    status = f"{task['status']}{', ' if reason else ''}{reason}{kept}"
    computers = one_line(",".join(task["computers"]), limit=60) or "-"
    cells = (status, computers, age(task["created_at"]), one_line(task["prompt"], limit=300))
    return Entry(task["task_id"], cells)


def summary(task: Mapping[str, Any]) -> str:
    """What a task has used, once it has ended."""
    used = [counted(task["steps"], "step"), counted(task["tokens"], "token"), f"{elapsed(task['active_s'])} of work"]
    unverified = ", UNVERIFIED" if (task["result"] or {}).get("verified") is False else ""
    return f"{task['task_id']}  {task['status']}{unverified} ({', '.join(used)})"
