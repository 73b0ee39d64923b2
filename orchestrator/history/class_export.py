"""What the people of a group did, one page and one JSON document for each, in one archive.

Everything is read from the journals, and every secret is a marker. What a request showed, such as a diff, is told as it
was shown then.
"""

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any, Final

from orchestrator.core.errors import InvalidDecision, JournalBroken, NewerSchema
from orchestrator.core.ports import Store, TaskRow
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.task import AgentTask
from orchestrator.core.task.timeline import Doing, Timeline
from orchestrator.core.text.redact import redact
from orchestrator.core.text.visible import visible

MOST_TASKS: Final = 1000
"""The newest tasks of each person that an export has."""
_MINUTE: Final = "%Y-%m-%d %H:%M"


async def archive(
    store: Store, group: str, people: Mapping[str, frozenset[str]], *, since: datetime | None, now: datetime
) -> bytes:
    """A zip with ``NAME.json`` and ``NAME.html`` of each person, and an index. ``people``: each with their users.

    ``since``: only tasks that came in from then on; None: all of them, up to MOST_TASKS of each.
    """
    told = {name: await _person(store, name, users, since=since, now=now) for name, users in sorted(people.items())}
    return await asyncio.to_thread(_zipped, group, told, now)


async def _person(
    store: Store, name: str, users: frozenset[str], *, since: datetime | None, now: datetime
) -> dict[str, Any]:
    rows = await store.list_tasks(users=users, limit=MOST_TASKS)
    tasks = [one async for one in _tasks([row for row in rows if since is None or row.created_at >= since], store, now)]
    seconds: dict[str, float] = {}
    for one in tasks:
        for doing, spent in one["seconds"].items():
            seconds[doing] = seconds.get(doing, 0.0) + spent
    whole = {"tasks": len(tasks), "tokens": sum(one["tokens"] for one in tasks), "seconds": seconds}
    return {"name": name, "total": whole, "tasks": tasks}


async def _tasks(rows: Sequence[TaskRow], store: Store, now: datetime) -> AsyncIterator[dict[str, Any]]:
    """The tasks, the oldest first; of one that cannot be read only that it cannot."""
    for row in reversed(rows):
        head = {"task_id": row.task_id, "created_at": row.created_at.isoformat(), "seconds": {}, "tokens": 0}
        try:
            yield await asyncio.to_thread(task_told, row.task_id, await store.read(row.task_id), now)
        except (NewerSchema, JournalBroken, InvalidDecision):
            yield {**head, "prompt": "", "status": "unreadable", "calls": [], "questions": [], "messages": []}


def task_told(task_id: facts.TaskId, items: Sequence[AgentTaskItem], now: datetime) -> dict[str, Any]:
    """One task as an export has it, without secrets."""
    timeline = Timeline(AgentTask(task_id))
    timeline.take(items)
    task, calls, questions = timeline.task, _Calls(), _Questions()
    messages: list[dict[str, str]] = []
    for item in items:
        calls.take(item)
        questions.take(item)
        if isinstance(item.fact, facts.StatusSent):
            messages.append({"at": item.at.isoformat(), "text": item.fact.message})
    ended = task.ended
    told: dict[str, Any] = {
        "task_id": task_id,
        "created_at": items[0].at.isoformat(),
        "ended_at": timeline.ended_at.isoformat() if timeline.ended_at is not None else None,
        "prompt": task.prompt,
        "computers": list(task.computers),
        "status": ended.status if ended is not None else task.status.value,
        "status_reason": task.status_reason,
        "result": ended.message if ended is not None else "",
        "steps": task.steps,
        "tokens": task.tokens + task.uncounted,
        "seconds": _seconds(timeline, now),
        "calls": calls.told,
        "questions": questions.told,
        "messages": messages,
    }
    clean = redact(told, salt=task.tag)
    assert isinstance(clean, dict)
    return clean


def _seconds(timeline: Timeline, now: datetime) -> dict[Doing, float]:
    """How long the task did what."""
    found: dict[Doing, float] = {}
    for one in timeline.segments:
        until = one.until or timeline.ended_at or now
        spent = max(0.0, (until - one.since).total_seconds())
        found[one.doing] = round(found.get(one.doing, 0.0) + spent, 1)
    return found


class _Calls:
    """The calls that change something or that people saw, with what became of each."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self._by_id: dict[str, dict[str, Any]] = {}

    def take(self, item: AgentTaskItem) -> None:
        """The next item of the task."""
        match item.fact:
            case facts.CallsProposed() as fact:
                for call, verdict in zip(fact.calls, fact.evaluations, strict=True):
                    made: dict[str, Any] = {
                        "at": item.at.isoformat(),
                        "tool": call.tool,
                        "computer": call.computer,
                        "args": call.args,
                        "policy": verdict.effect.value,
                        "why": fact.explanation,
                        "diff": None,
                        "decisions": [],
                        "outcome": "denied" if verdict.effect == "deny" else "",
                    }
                    self.told.append(made)
                    self._by_id[call.call_id] = made
            case facts.ReviewRequested() as fact:
                for shown in fact.calls:
                    self._of(shown.call_id)["diff"] = shown.observed.diff
            case facts.DecisionRecorded() as fact:
                for one in fact.decisions:
                    said = {"by": item.actor.id, "action": one.action, "reason": one.reason, "at": item.at.isoformat()}
                    self._of(one.call_id).setdefault("decisions", []).append(said)
            case facts.RequestEnded() as fact:
                for call_id in fact.call_ids:
                    self._of(call_id)["outcome"] = f"not run: {fact.reason}"
            case facts.ToolFinished() as fact:
                self._of(fact.call_id)["outcome"] = "done" if fact.ok else f"failed: {fact.text}"
            case facts.ToolSettled() as fact if fact.state != "void":
                self._of(fact.call_id)["outcome"] = "done" if fact.ok else f"{fact.state}: {fact.text or fact.reason}"
            case _:
                pass

    def _of(self, call_id: str) -> dict[str, Any]:
        return self._by_id.setdefault(call_id, {})


class _Questions:
    """What the model asked its user, and the answers."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self._by_id: dict[str, dict[str, Any]] = {}

    def take(self, item: AgentTaskItem) -> None:
        """The next item of the task."""
        match item.fact:
            case facts.QuestionAsked() as fact:
                asked = {"at": item.at.isoformat(), "question": fact.question, "options": list(fact.options)}
                self._by_id[fact.question_id] = {**asked, "answer": None, "answered_at": None, "by": None}
                self.told.append(self._by_id[fact.question_id])
            case facts.QuestionAnswered() as fact if fact.question_id in self._by_id:
                answered = {"answer": fact.answer, "answered_at": item.at.isoformat(), "by": item.actor.id}
                self._by_id[fact.question_id].update(answered)
            case _:
                pass


# -- the archive -------------------------------------------------------------------------


def _zipped(group: str, told: Mapping[str, dict[str, Any]], now: datetime) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as out:
        for name, one in told.items():
            out.writestr(f"{group}/{name}.json", json.dumps(one, indent=2, ensure_ascii=False))
            out.writestr(f"{group}/{name}.html", page_of(one))
        whole = {
            "group": group,
            "made_at": now.isoformat(),
            "people": {name: one["total"] for name, one in told.items()},
        }
        out.writestr(f"{group}/index.json", json.dumps(whole, indent=2, ensure_ascii=False))
        out.writestr(f"{group}/index.html", _index(group, told, now))
    return made.getvalue()


_STYLE: Final = (
    "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#1a1a1a;background:#fff}"
    "pre{background:#f4f4f4;padding:.6em;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.2em 1em .2em 0}"
    "section{border-top:1px solid #ccc;margin-top:2em}.muted{color:#555}"
)


def _document(title: str, parts: Iterable[str]) -> str:
    # No script and nothing from elsewhere: the text of models and people is only text here.
    policy = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    head = f"<meta charset='utf-8'>{policy}<title>{_text(title)}</title><style>{_STYLE}</style>"
    return (
        f"<!doctype html><html lang='en'><head>{head}</head><body><h1>{_text(title)}</h1>{''.join(parts)}</body></html>"
    )


def _index(group: str, told: Mapping[str, dict[str, Any]], now: datetime) -> str:
    rows = "".join(
        f"<tr><td><a href='{escape(name, quote=True)}.html'>{_text(name)}</a></td><td>{one['total']['tasks']}</td>"
        f"<td>{_time(one['total']['seconds'])}</td><td>{one['total']['tokens']:,}</td></tr>"
        for name, one in told.items()
    )
    table = f"<table><tr><th>Person</th><th>Tasks</th><th>Time</th><th>Tokens</th></tr>{rows}</table>"
    return _document(f"Group {group}", [f"<p class='muted'>As of {now:{_MINUTE}} UTC</p>", table])


def page_of(one: Mapping[str, Any]) -> str:
    """The page of one person."""
    total = one["total"]
    head = f"<p>{total['tasks']} tasks, {_time(total['seconds'])}, {total['tokens']:,} tokens</p>"
    return _document(one["name"], [head, *map(_section, one["tasks"])])


def _section(task: Mapping[str, Any]) -> str:
    parts = [f"<section><h2>{_text(task['prompt'] or task['task_id'])}</h2>"]
    facts_of = [task["status"], str(task.get("status_reason", "")), _when(task["created_at"]), _time(task["seconds"])]
    parts.append(f"<p class='muted'>{_text(' · '.join(filter(None, facts_of)))}</p>")
    if task.get("result"):
        parts.append(f"<p>{_text(task['result'])}</p>")
    for asked in task["questions"]:
        answer = asked["answer"] if asked["answer"] is not None else "no answer"
        parts.append(f"<p><b>Question:</b> {_text(asked['question'])}<br><b>Answer:</b> {_text(answer)}</p>")
    # What it asked and was answered stands above.
    asked = {one["question"] for one in task["questions"]}
    parts += [
        _call(one) for one in task["calls"] if one["tool"] != "ask_user" or one["args"].get("question") not in asked
    ]
    return "".join([*parts, "</section>"])


def _call(call: Mapping[str, Any]) -> str:
    where = f" on {call['computer']}" if call["computer"] else ""
    named = next((call["args"][one] for one in ("path", "command", "question") if call["args"].get(one)), "")
    head = f"<h3>{_text(call['tool'])} {_text(str(named))}{_text(where)}</h3>"
    said = [call["outcome"], *map(_decision, call["decisions"])]
    text = call["diff"] or call["args"].get("content") or ""
    shown = f"<pre>{_text(str(text))}</pre>" if text else ""
    return f"{head}<p class='muted'>{_text(' · '.join(filter(None, said)))}</p>{shown}"


def _decision(one: Mapping[str, Any]) -> str:
    reason = f": {one['reason']}" if one["reason"] else ""
    return f"{one['action']} by {one['by']}{reason}"


def _text(text: str) -> str:
    return escape(visible(text))


def _when(text: str) -> str:
    return f"{datetime.fromisoformat(text):{_MINUTE}} UTC"


def _time(seconds: Mapping[str, float]) -> str:
    said = {"thinking": "model", "running": "programs", "waiting": "waiting for people"}
    shown = [f"{seconds[name] / 60:.1f} min {words}" for name, words in said.items() if seconds.get(name)]
    return ", ".join(shown) or "no time"
