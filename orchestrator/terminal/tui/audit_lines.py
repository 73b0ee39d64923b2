"""Items of the audit and its verification, as lines for a person; and the questions that narrow it down."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from orchestrator.core.audit.presentation import fact_line
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.console.lines import Line, as_json, block
from orchestrator.terminal.output import age, counted
from orchestrator.terminal.tui.formats import moment
from orchestrator.terminal.tui.forms import Boxes, Field, Filled, Form
from orchestrator.terminal.tui.row_list import Entry

SYSTEM: Final = "system"
"""The stream of what belongs to no task."""
_FIELDS: Final = (
    Field("task", "Task (its id)", most=100),
    Field("by", "By whom (a person, a computer or a program)", most=200),
    Field("kind", "Kind (such as decision_recorded, tool_finished, token_issued)", most=60),
    Field("since", "Since (2026-11-20 or 2026-11-20T18:00, of UTC)", most=40),
    Field("request", "Request (its id)", most=100),
)
_OUTSIDE: Final = "only what belongs to no task: tokens, sign-ins, the policy, computers"


def filters(present: Mapping[str, str]) -> Form:
    """Asks what is wanted."""
    fields = [one._replace(value=present.get(one.name, "")) for one in _FIELDS]
    outside = Boxes("outside", "AND?", [(SYSTEM, _OUTSIDE)], [SYSTEM] if present.get(SYSTEM) else [])
    return Form("Only what fits all of it (empty: everything)", [*fields, outside], wrong=_wrong)


def query_of(filled: Filled) -> dict[str, str]:
    """What was written there, as the door takes it."""
    query = {name: value for name, value in filled.lines.items() if value}
    return query | ({SYSTEM: "1"} if filled.ticked["outside"] else {})


def told_of(query: Mapping[str, str]) -> str:
    """What is wanted, in words; empty: everything."""
    words = {"task": "task {}", "by": "by {}", "kind": "{}", "since": "since {}", "request": "request {}"}
    told = [says.format(one_line(query[name], limit=60)) for name, says in words.items() if name in query]
    return ", ".join([*told, *(["what belongs to no task"] if SYSTEM in query else [])])


def entry_of(item: Mapping[str, Any]) -> Entry:
    """An item as a row."""
    cells = (age(item["at"]), one_line(_who(item), limit=40), fact_line(item["fact"]))
    return Entry(f"{item['task_id']} {item['version']}", cells)


def item_lines(item: Mapping[str, Any]) -> Iterator[Line]:
    """An item whole."""
    fact, actor = dict(item["fact"]), item["actor"]
    stream = "what belongs to no task" if item["task_id"] == SYSTEM else f"task {item['task_id']}"
    auth = f" ({one_line(actor['auth'])})" if actor.get("auth") else ""
    yield Line(f"── {one_line(fact.pop('kind', '?'))}", "title")
    yield Line(f"  by      {one_line(_who(item))}{auth}")
    yield Line(f"  at      {moment(item['at'])} ({one_line(item['at'])})", prose=True)
    yield Line(f"  where   {one_line(stream)}, item {item['version']}", prose=True)
    yield Line(f"  hash    {one_line(str(item.get('hash')))}")
    yield Line(f"  after   {one_line(str(item.get('prev_hash') or 'nothing'))}")
    if item.get("redacted"):
        yield Line("Secrets were taken out, so the hash does not hold for what is shown.", "warning", prose=True)
    yield from block(as_json(fact, indent=2))


def verification_lines(found: Mapping[str, Any]) -> Iterator[Line]:
    """Whether the audit is as it was written."""
    faults = found["faults"]
    things = "1 thing is" if len(faults) == 1 else f"{len(faults)} things are"
    yield Line(f"{things} not as written." if faults else "Nothing was changed.", "alarm" if faults else "title")
    at = found["checkpoint_at"]
    against = f"and with the checkpoint of {moment(at)}" if at else "and there is no checkpoint yet"
    amount = f"{counted(found['items'], 'item')} in {counted(found['streams'], 'stream')}"
    yield Line(f"{amount} were compared with their chains, {against}.", prose=True)
    if not found["full"]:
        noted = f"{counted(found['noted'], 'stream')} are as they were verified last, and were not read again"
        yield Line(f"{noted}; `cc-orchestrator audit verify --full` reads all.", "warning", prose=True)
    for one in faults:
        where = f" ({one_line(one['stream'])} {one['version'] or ''})" if one.get("stream") else ""
        yield Line(f"  {one_line(one['what'])}: {one_line(one['detail'], limit=600)}{where}", "alarm", prose=True)
    yield Line("")
    yield Line("The digest over all heads, to be kept elsewhere and compared:", prose=True)
    yield Line(f"  {one_line(found['heads_sha256'])}")


def _who(item: Mapping[str, Any]) -> str:
    return " ".join(str(part) for part in (item["actor"].get("kind"), item["actor"].get("id")) if part)


def _wrong(filled: Filled) -> str:
    if filled.ticked["outside"] and (filled.lines["task"] or filled.lines["request"]):
        return "What belongs to no task is of no task and no request: one of them."
    since = filled.lines["since"]
    try:
        datetime.fromisoformat(since or "2026-11-20")
    except ValueError:
        return f"{one_line(since)!r} is no time: say it like 2026-11-20 or 2026-11-20T18:00."
    return ""
