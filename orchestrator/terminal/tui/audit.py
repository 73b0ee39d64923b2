"""The audit: the newest events first, with filters, and a verification."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from textual.binding import Binding

from orchestrator.client import ServerUnreachable
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.output import counted
from orchestrator.terminal.review.request_view import Line
from orchestrator.terminal.tui.audit_words import computer_of, field_lines, kind_of, named, told
from orchestrator.terminal.tui.dialogs import Ask, Boxes, Field, Filled, Form, Show
from orchestrator.terminal.tui.lines_view import begin, moment, now
from orchestrator.terminal.tui.row_list import Entry, Pane

# -- Items of the audit and its verification, as lines for a person; and the questions that narrow it down

SYSTEM: Final = "system"
"""The stream of what belongs to no task."""
_FIELDS: Final = (
    Field("task", "Task (its id)", most=100),
    Field("by", "By whom (a person, a computer or a program)", most=200),
    Field("kind", "What (such as Decided, Call finished, Token made)", most=60),
    Field("since", "Since (2026-11-20 or 2026-11-20T18:00, of UTC)", most=40),
    Field("request", "Request (its id)", most=100),
)
_OUTSIDE: Final = "only what belongs to no task: tokens, sign-ins, the policy, computers"


def filters(present: Mapping[str, str]) -> Form:
    """Asks what is wanted."""
    shown = dict(present) | ({"kind": named(present["kind"])} if "kind" in present else {})
    fields = [one._replace(value=shown.get(one.name, "")) for one in _FIELDS]
    outside = Boxes("outside", "AND?", [(SYSTEM, _OUTSIDE)], [SYSTEM] if present.get(SYSTEM) else [])
    return Form("Only what fits all of it (empty: everything)", [*fields, outside], wrong=_wrong)


def query_of(filled: Filled) -> dict[str, str]:
    """The typed filters, as the endpoint takes them."""
    query = {name: value for name, value in filled.lines.items() if value}
    if "kind" in query:
        query["kind"] = kind_of(query["kind"])
    return query | ({SYSTEM: "1"} if filled.ticked["outside"] else {})


def told_of(query: Mapping[str, str]) -> str:
    """The filters, in words; empty: none."""
    words = {"task": "task {}", "by": "by {}", "kind": "{}", "since": "since {}", "request": "request {}"}
    shown = {name: named(value) if name == "kind" else value for name, value in query.items()}
    wanted = [says.format(one_line(shown[name], limit=60)) for name, says in words.items() if name in shown]
    return ", ".join([*wanted, *(["what belongs to no task"] if SYSTEM in query else [])])


def entry_of(item: Mapping[str, Any]) -> Entry:
    """An item as a row: when, by whom, where, and what happened."""
    fact = item["fact"]
    task = "" if item["task_id"] == SYSTEM else one_line(item["task_id"], limit=14)
    where = " ".join(part for part in (task, one_line(computer_of(fact), limit=13)) if part) or "-"
    cells = (_clock(item["at"]), one_line(_person(item), limit=24), where, told(fact))
    return Entry(f"{item['task_id']} {item['version']}", cells)


def item_lines(item: Mapping[str, Any]) -> Iterator[Line]:
    """An item whole."""
    fact, actor = dict(item["fact"]), item["actor"]
    stream = "what belongs to no task" if item["task_id"] == SYSTEM else f"task {item['task_id']}"
    auth = f" ({one_line(actor['auth'])})" if actor.get("auth") else ""
    yield Line(f"── {told(fact)}", "title", prose=True)
    yield Line(f"  by      {one_line(_who(item))}{auth}")
    yield Line(f"  at      {moment(item['at'])} ({one_line(item['at'])})", prose=True)
    yield Line(f"  where   {one_line(stream)}, item {item['version']}", prose=True)
    if computer := computer_of(fact):
        yield Line(f"  on      computer {one_line(computer)}")
    yield Line(f"  kind    {one_line(fact.pop('kind', '?'))}")
    yield Line(f"  hash    {one_line(str(item.get('hash')))}")
    yield Line(f"  after   {one_line(str(item.get('prev_hash') or 'nothing'))}")
    if item.get("redacted"):
        yield Line("Secrets were taken out, so the hash does not hold for what is shown.", "warning", prose=True)
    if fact:
        yield Line("")
        yield Line("All of it", "title")
        yield from field_lines(fact)


def _clock(at: str) -> str:
    """A time of today to the second, an older one with its day."""
    then = datetime.fromisoformat(at).astimezone()
    return f"{then:%H:%M:%S}" if then.date() == now().astimezone().date() else f"{then:%Y-%m-%d %H:%M}"


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


def _person(item: Mapping[str, Any]) -> str:
    """Who it was, in one word: people and programs have names, and the system is one."""
    kind, name = item["actor"].get("kind"), item["actor"].get("id")
    return str(kind if kind == "system" or not name else name)


def _wrong(filled: Filled) -> str:
    if filled.ticked["outside"] and (filled.lines["task"] or filled.lines["request"]):
        return "Facts without a task have no task and no request: choose one of the filters."
    since = filled.lines["since"]
    try:
        datetime.fromisoformat(since or "2026-11-20")
    except ValueError:
        return f"{one_line(since)!r} is not a time: say it like 2026-11-20 or 2026-11-20T18:00."
    return ""


# -- The audit: what happened, the newest first, narrowed down as one likes; and whether it is as it was written

_CALM_S: Final = 1.0
"""Between two readings."""
_PAGE: Final = 50
_ASK_EVERY_S: Final = 2
"""How soon the server says how far a verification is."""


class Audit(Pane):
    """The newest items of all streams that this person may read."""

    name_of = "audit"
    title = "Audit"
    head = ("TIME", "WHO", "WHERE", "WHAT")
    empty = "There is nothing."
    reads = True
    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("f", "filter", show=False),
        Binding("x", "everything", show=False),
        Binding("slash", "search", show=False),
        Binding("l", "older", show=False),
        Binding("v", "verify", show=False),
        Binding("o", "task", show=False),
    ]
    keys: ClassVar[Sequence[tuple[str, str]]] = (
        ("f", "filter"),
        ("x", "everything"),
        ("l", "older"),
        ("v", "verify it all"),
        ("o", "its task"),
        ("/", "only with a word"),
        ("Enter", "open"),
    )

    def __init__(self, desk: Any) -> None:
        super().__init__(desk)
        self._items: dict[str, Mapping[str, Any]] = {}
        self._query: dict[str, str] = {}
        self._search = ""
        self._next: str | None = None
        """Where what is older goes on; None: there is no more."""
        self._again = asyncio.Event()

    def on_mount(self) -> None:
        begin(self, self._read_again)

    def changed(self) -> None:
        """Read what came since, soon."""
        self._again.set()

    async def _read_again(self) -> None:
        """Whenever something changed, and not more often than one can look."""
        while True:
            await self._again.wait()
            self._again.clear()
            await self._read(self._query)
            await asyncio.sleep(_CALM_S)

    async def _read(self, query: Mapping[str, str], *, older: bool = False) -> None:
        after = {"after": self._next} if older and self._next else {}
        try:
            found = await self.desk.live.ask("GET", "/v1/audit", order="newest", limit=_PAGE, **query, **after)
        except ServerUnreachable:
            return
        except OrchestratorError as refused:
            self.desk.tell(str(refused))
            if query and query is self._query:
                # Each refusal is written down: a page that was refused is not asked for again and again.
                self._want({})
            return
        if query is not self._query:
            return
        new = {f"{one['task_id']} {one['version']}": one for one in found["items"]}
        if older or not self._items or not new.keys() & self._items.keys():
            # Where nothing of it was known, the items in between are not known either: it begins again.
            self._items = {**self._items, **new} if older else new
            self._next = found["next"]
        else:
            self._items |= new
        self._fill()

    def _fill(self) -> None:
        newest = sorted(self._items.values(), key=lambda one: (one["at"], one["version"]), reverse=True)
        word = self._search.casefold()
        entries = [entry_of(one) for one in newest]
        self.fill([one for one in entries if any(word in text.casefold() for text in (one.key, *one.cells))])
        wanted = told_of(self._query)
        only = f"Only {wanted}" if wanted else "Everything"
        shown = f"{only}{f', with {self._search!r}' if word else ''}"
        self.rows.empty = f"{shown}: there is nothing. x shows everything." if wanted or word else self.empty
        rest = "l reads older ones" if self._next else "that is all"
        self.label(f"{shown}: {counted(len(self._items), 'item')}, the newest first; {rest}")

    def chosen(self, key: str | None) -> None:
        """Show an item."""
        item = self._items.get(key or "")
        self.page.show([] if item is None else item_lines(item))

    # -- what is wanted ------------------------------------------------------------------

    def action_filter(self) -> None:
        """Narrow it down."""
        begin(self, self._filter)

    async def _filter(self) -> None:
        filled = await self.app.push_screen_wait(filters(self._query))
        if filled is not None:
            self._want(query_of(filled))

    def action_everything(self) -> None:
        """No filter, and no word."""
        self._search = ""
        self._want({})

    def _want(self, query: dict[str, str]) -> None:
        self._query, self._items, self._next = query, {}, None
        self.label("It is being read…")
        begin(self, self._read, query, in_place_of="list")

    def action_search(self) -> None:
        """Only lines with a word, of those that were read."""
        begin(self, self._ask_search)

    async def _ask_search(self) -> None:
        found = await self.app.push_screen_wait(Ask("Only lines with this in them (empty: all)", value=self._search))
        if found is not None:
            self._search = found
            self._fill()

    def action_older(self) -> None:
        """Read on."""
        if self._next is None:
            self.desk.tell("That is all: there is nothing older.")
        else:
            begin(self, self._older, in_place_of="list")

    async def _older(self) -> None:
        await self._read(self._query, older=True)

    # -- what is done --------------------------------------------------------------------

    def action_task(self) -> None:
        """Show the task that the item is of."""
        task_id = (self.rows.chosen or "").partition(" ")[0]
        if task_id in ("", SYSTEM):
            self.desk.tell("It belongs to no task.")
        else:
            self.desk.go("tasks", task_id)

    def action_verify(self) -> None:
        """Compare every item with its chain."""
        begin(self, self._verify, in_place_of="verify")

    async def _verify(self) -> None:
        self.desk.tell("Everything is being compared…")
        while True:
            found = await self.desk.ask_long("GET", f"/v1/audit/verify?wait_s={_ASK_EVERY_S}")
            if found is None:
                return
            if "faults" in found:
                break
            self.desk.tell(f"{found['done']} of {counted(found['of'], 'stream')} are compared…")
        lines = list(verification_lines(found))
        self.desk.tell(one_line(lines[0].text))
        await self.app.push_screen_wait(Show("Is every item as it was written, and is no item missing?", lines))
