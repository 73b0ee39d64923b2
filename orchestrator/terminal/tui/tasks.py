"""The tasks: a list that is live, and the log of the one that is chosen as it happens."""

import asyncio
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Final

from textual.binding import Binding
from textual.widget import Widget

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.task.facts import TaskId
from orchestrator.core.text.visible import one_line, visible
from orchestrator.core.wire.review import OpenQuestion
from orchestrator.terminal.output import age, counted, elapsed
from orchestrator.terminal.review.channel import whole
from orchestrator.terminal.review.request_view import Line, diff_lines, told
from orchestrator.terminal.tui.dialogs import Ask, Choose, Write
from orchestrator.terminal.tui.lines_view import Desk, begin
from orchestrator.terminal.tui.people import freeze_or_unfreeze
from orchestrator.terminal.tui.row_list import Entry, Pane
from orchestrator.terminal.tui.states import status_of, task_state, word_of
from orchestrator.terminal.tui.submit import Submit, TaskLog

# -- A task as a row of the list, and in one line once it has ended ----------------------


def fits(task: Mapping[str, Any], statuses: frozenset[str], word: str) -> bool:
    """Whether a task is one of those that are wanted: by its status, and by a word in small letters."""
    texts = (task["task_id"], task["prompt"], task["user_id"], *task["computers"])
    return (not statuses or status_of(task) in statuses) and (not word or any(word in one.casefold() for one in texts))


def entry_of(task: Mapping[str, Any]) -> Entry:
    """A task as a row."""
    state, tone = task_state(task)
    computers = one_line(",".join(task["computers"]), limit=60) or "-"
    cells = (state, computers, age(task["created_at"]), one_line(task["prompt"], limit=300))
    return Entry(task["task_id"], cells, tone)


def summary(task: Mapping[str, Any]) -> str:
    """The usage of a task, once it has ended."""
    used = [counted(task["steps"], "step"), counted(task["tokens"], "token"), f"{elapsed(task['active_s'])} of work"]
    unverified = (task["result"] or {}).get("verified") is False and task["status"] == "Completed"
    return f"{task['task_id']}  {word_of('Unverified' if unverified else task['status'])} ({', '.join(used)})"


# -- Putting back what a task changed, after a look at what that would do ----------------


async def undo(widget: Widget, desk: Desk, task_id: str) -> str | None:
    """Show it, and begin it if the person says so; the task that puts it back, or None."""
    endpoint = f"/v1/tasks/{task_id}/undo"
    on_conflict = "keep"
    while True:
        preview = await desk.ask("POST", endpoint, {"on_conflict": on_conflict, "dry_run": True})
        if preview is None:
            return None
        lines = [Line(f"  {visible(one)}") for one in told(preview)]
        if not lines:
            desk.tell("It changed no files.")
            return None
        choices = [("y", "put it back")]
        if any(one["verdict"] == "conflict" for one in preview["places"]):
            choices += [("o", "restore what somebody changed since, too"), ("b", "put the old beside it")]
        title = "Put back what the task changed? It is a task of its own, and waits for approval."
        said = await widget.app.push_screen_wait(Choose(title, lines, choices, enter="y"))
        if said in ("o", "b"):
            on_conflict = "restore" if said == "o" else "beside"
            continue
        break
    if said is None:
        return None
    body = {"on_conflict": on_conflict, "idempotency_key": uuid.uuid4().hex}
    answer = await desk.ask("POST", endpoint, body)
    if answer is None:
        return None
    desk.tell(f"Task {answer['task_id']} puts it back.")
    return str(answer["task_id"])


# -- What a rehearsal changed in its copy, as diffs, and asking for all of it ------------


async def look_at_rehearsal(widget: Widget, desk: Desk, task_id: str) -> str | None:
    """Show it, and ask for it if the person says so; the task to look at then, or None."""
    endpoint = f"/v1/tasks/{task_id}/rehearsal"
    shown = await desk.ask("GET", endpoint)
    if shown is None:
        return None
    outcome, choices = shown["outcome"], []
    if shown["changed"] and shown["state"] in ("asked", "not_applied") and not (outcome and outcome["open"]):
        choices.append(("y", "ask for all of it"))
    if shown["applied_by"]:
        choices.append(("o", "the task that asks for it"))
    said = await widget.app.push_screen_wait(Choose("The rehearsal", list(rehearsal_lines(shown)), choices))
    if said == "o":
        return str(shown["applied_by"])
    if said is None:
        return None
    answer = await desk.ask("POST", endpoint, {})
    if answer is None:
        return None
    desk.tell(f"Task {answer['task_id']} asks for all of it at once, and waits for approval.")
    return str(answer["task_id"])


def rehearsal_lines(shown: Mapping[str, Any]) -> Iterator[Line]:
    """The result of a rehearsal: a sentence, and each place with its diff."""
    message = one_line(shown["message"] or "It is not over yet.", limit=1000)
    yield Line(message, "title", prose=True)
    outcome = shown["outcome"]
    if outcome and outcome["open"]:
        yield Line(f"{one_line(outcome['told'], limit=600)}.", prose=True)
    for path, why in shown["left_out"].items():
        yield Line(f"not in the copy: {one_line(path)} ({one_line(why)})", "warning", prose=True)
    if shown["changed"]:
        yield Line(f"{counted(shown['changed'], 'place')} in the copy of computer {one_line(shown['computer'])}:")
    for one in shown["changes"]:
        yield Line("")
        yield Line(f"{_word(one)} {one_line(one['place'], limit=500)}", "call")
        if one["binary"]:
            yield Line(f"  {one_line(one['binary'])}", prose=True)
        yield from diff_lines(one["diff"] or "")
        if one["cut"]:
            yield Line("  … and more: its request has all of it", prose=True)
    more = shown["changed"] - len(shown["changes"])
    if more > 0:
        yield Line(f"and {more} more")


def _word(one: Mapping[str, Any]) -> str:
    if one["before"] == "absent":
        return "new"
    return "removed" if one["after"] == "absent" else "changed"


# -- The tasks: a list that is live, and the log of the one that is chosen as it happens

_MOST: Final = 500
"""Tasks in the list: the newest."""
_CALM_S: Final = 0.3
"""Between two readings of the list, and before the log of a chosen task is opened: one may only be passing by."""
_DRAW_S: Final = 0.1
_FILTERS: Final[Sequence[tuple[str, frozenset[str]]]] = (
    ("all", frozenset()),
    ("under way", frozenset({"Queued", "Running", "Paused"})),
    ("waiting", frozenset({"Paused"})),
    ("failed, unverified or canceled", frozenset({"Failed", "Unverified", "Canceled"})),
    ("completed", frozenset({"Completed"})),
)
_ENDED: Final = frozenset({"Completed", "Failed", "Canceled"})


class Tasks(Pane):
    """The newest tasks first."""

    name_of = "tasks"
    title = "Tasks"
    head = ("STATUS", "COMPUTERS", "AGE", "PROMPT")
    empty = "There are no tasks. n submits one."
    reads = True
    follows = True
    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("n", "submit", show=False),
        Binding("c", "cancel", show=False),
        Binding("u", "undo", show=False),
        Binding("a", "answer", show=False),
        Binding("o", "request", show=False),
        Binding("h", "rehearsal", show=False),
        Binding("p", "pin", show=False),
        Binding("r", "renew", show=False),
        Binding("z", "freeze", show=False),
        Binding("f", "filter", show=False),
        Binding("slash", "search", show=False),
    ]
    keys: ClassVar[Sequence[tuple[str, str]]] = (
        ("n", "new task"),
        ("Enter", "open"),
        ("c", "cancel"),
        ("u", "undo"),
        ("a", "answer"),
        ("o", "its request"),
        ("z", "freeze or unfreeze its person"),
        ("h", "what it rehearsed, and ask for it"),
        ("p", "keep it, or no longer"),
        ("r", "ask again for the lapsed request"),
        ("f", "filter"),
        ("/", "search"),
    )

    def offered(self) -> Sequence[tuple[str, str]]:
        """See Pane."""
        return [one for one in self.keys if one[0] != "z" or self.desk.may("freeze")]

    def __init__(self, desk: Any) -> None:
        super().__init__(desk)
        self._tasks: list[Mapping[str, Any]] = []
        self._filter = 0
        self._search = ""
        self._wanted: str | None = None
        """A task to choose once it is in the list."""
        self._log: TaskLog | None = None
        self._again = asyncio.Event()

    @property
    def computer(self) -> str | None:
        """See Pane."""
        return self.computer_of(self.rows.chosen)

    def computer_of(self, task_id: str | None) -> str | None:
        """The first computer of a task; None: it has none, or is not in the list."""
        found = next((one for one in self._tasks if one["task_id"] == task_id), None)
        return found["computers"][0] if found and found["computers"] else None

    def on_mount(self) -> None:
        begin(self, self._read_again)
        self.set_interval(_DRAW_S, self._flush)
        self.set_interval(1.0, self._tick)

    # -- the list ------------------------------------------------------------------------

    def changed(self) -> None:
        """Read the list again, soon."""
        self._again.set()

    async def _read_again(self) -> None:
        """Whenever something changed, and not more often than one can look."""
        while True:
            await self._again.wait()
            self._again.clear()
            found = await self.desk.ask("GET", "/v1/tasks", limit=_MOST)
            if found is not None:
                self._tasks = found["tasks"]
                self._fill()
            await asyncio.sleep(_CALM_S)

    def _fill(self) -> None:
        name, statuses = _FILTERS[self._filter]
        word = self._search.casefold()
        self.fill([entry_of(one) for one in self._tasks if fits(one, statuses, word)])
        shown = f"Filter: {name}" + (f", with {one_line(self._search)!r}" if word else "")
        self.rows.empty = self.empty if name == "all" and not word else f"{shown}: none. f and / change it."
        if self._wanted is not None and self.rows.choose(self._wanted):
            self._wanted = None

    def choose(self, task_id: str) -> None:
        """Show this task, whatever the filter was."""
        self._filter, self._search, self._wanted = 0, "", task_id
        self._fill()
        self.changed()

    def action_filter(self) -> None:
        """The next filter."""
        self._filter = (self._filter + 1) % len(_FILTERS)
        self.desk.tell(f"Tasks: {_FILTERS[self._filter][0]}.")
        self._fill()

    def action_search(self) -> None:
        """Only those with a word."""
        begin(self, self._ask_search)

    async def _ask_search(self) -> None:
        found = await self.app.push_screen_wait(Ask("Only tasks with this in them (empty: all)", value=self._search))
        if found is not None:
            self._search = found
            self._fill()

    # -- the log -------------------------------------------------------------------------

    def chosen(self, key: str | None) -> None:
        """Follow the task that is chosen."""
        self._log = None
        self.page.show([])
        self.label("")
        if key is not None:
            begin(self, self._follow, key, in_place_of="follow")

    async def _follow(self, task_id: str) -> None:
        await asyncio.sleep(_CALM_S)
        log = self._log = TaskLog(lambda status: self.label(f"{task_id}  {status}"), self.desk.live.client.clock.now)
        try:
            events = self.desk.live.follow(task_id)
            async with aclosing(events):
                async for event in events:
                    log.take(event)
        except OrchestratorError as error:
            # Refused, or told in a form that is newer than this program.
            self.page.show([Line(visible(str(error)), "warning", prose=True)])
            return
        found = await self.desk.ask("GET", f"/v1/tasks/{task_id}")
        if found is not None:
            self.label(summary(found))

    def _flush(self) -> None:
        if self._log is not None and self._log.screen.flush(self.page):
            self._log.tick()

    def _tick(self) -> None:
        if self._log is not None and self.page.lines:
            self._log.tick()

    # -- what is done --------------------------------------------------------------------

    def _chosen_task(self) -> Mapping[str, Any] | None:
        """The task that is chosen; None, and said: there is none."""
        key = self.rows.chosen
        found = next((one for one in self._tasks if one["task_id"] == key), None)
        if found is None:
            self.desk.tell("No task is chosen.")
        return found

    def action_submit(self) -> None:
        """A new task."""
        begin(self, self._submit)

    async def _submit(self) -> None:
        found = await self.desk.ask("GET", "/v1/computers")
        if found is None:
            return
        answer = await self.app.push_screen_wait(Submit(self.desk, found["computers"]))
        if answer is not None:
            self.desk.tell(f"Task {answer['task_id']} is submitted.")
            self.choose(answer["task_id"])

    def action_cancel(self) -> None:
        """Stop the task that is chosen."""
        task = self._chosen_task()
        if task is not None and task["status"] in _ENDED:
            self.desk.tell("It has ended already; u puts back what it changed.")
        elif task is not None:
            begin(self, self._cancel, task)

    async def _cancel(self, task: Mapping[str, Any]) -> None:
        title = f"Cancel {task['task_id']}. Why? (may be empty)"
        reason = await self.app.push_screen_wait(Ask(title, most=2000))
        if reason is None:
            return
        answer = await self.desk.ask("POST", f"/v1/tasks/{task['task_id']}/cancel", {"reason": reason})
        if answer is not None:
            became = word_of(answer["status"]).lower()
            self.desk.tell(f"Task {answer['task_id']} is {became}. u shows what it changed, and puts it back.")

    def action_undo(self) -> None:
        """Put back what the task changed, after a look at what that would do."""
        task = self._chosen_task()
        if task is not None:
            begin(self, self._undo, task["task_id"])

    async def _undo(self, task_id: str) -> None:
        self._go_on(await undo(self, self.desk, task_id))

    def _go_on(self, task_id: str | None) -> None:
        if task_id is not None:
            self.choose(task_id)

    def action_rehearsal(self) -> None:
        """Show what a rehearsal changed in its copy, and ask for it."""
        task = self._chosen_task()
        if task is not None:
            begin(self, self._rehearsal, task["task_id"])

    async def _rehearsal(self, task_id: str) -> None:
        self._go_on(await look_at_rehearsal(self, self.desk, task_id))

    def action_pin(self) -> None:
        """Keep the task whatever the retention says, or no longer than others."""
        task = self._chosen_task()
        if task is not None:
            begin(self, self._pin, task)

    async def _pin(self, task: Mapping[str, Any]) -> None:
        word = "unpin" if task["pinned"] else "pin"
        answer = await self.desk.ask("POST", f"/v1/tasks/{task['task_id']}/{word}", {})
        if answer is not None:
            kept = "is kept, whatever the retention says: p takes that back."
            self.desk.tell(f"Task {task['task_id']} {kept if answer['pinned'] else 'is kept no longer than others.'}")
            self.changed()

    def action_renew(self) -> None:
        """Ask again for the request that nobody answered in time."""
        task = self._chosen_task()
        if task is not None:
            begin(self, self._renew, task["task_id"])

    async def _renew(self, task_id: str) -> None:
        found = await self.desk.ask("GET", f"/v1/tasks/{task_id}")
        if found is None:
            return
        lapsed = found["lapsed_request"]
        if not lapsed or found["status"] in _ENDED:
            self.desk.tell("No request of it lapsed: there is nothing to ask again.")
        elif await self.desk.ask("POST", f"/v1/requests/{lapsed}/renew", {}) is not None:
            self.desk.tell("Carried out: it is asked again.")

    def action_freeze(self) -> None:
        """Freeze the person of the task, or let this person go on."""
        task = self._chosen_task()
        if task is not None:
            begin(self, freeze_or_unfreeze, self, self.desk, task["task_id"])

    def action_answer(self) -> None:
        """Answer what the task asks."""
        task = self._chosen_task()
        if task is not None:
            begin(self, self._answer, task["task_id"])

    async def _answer(self, task_id: str) -> None:
        found = await self.desk.ask("GET", f"/v1/tasks/{task_id}")
        if found is None:
            return
        asked = found["question"]
        if asked is None:
            self.desk.tell("The task asks nothing now.")
            return
        question = OpenQuestion(
            task_id=TaskId(task_id),
            question_id=asked["question_id"],
            question=asked["question"] or "",
            goal=found["prompt"],
            options=tuple(asked.get("options", ())),
        )
        lines = [Line(one, prose=True) for one in visible(whole(question)).splitlines()]
        answer = await self.app.push_screen_wait(Write("Your answer", lines=lines, about=question.question_id))
        if answer and answer.strip():
            await self.desk.reviews.answer(question, answer.strip()[:20_000])

    def action_request(self) -> None:
        """Show the request that the task waits for."""
        task = self._chosen_task()
        if task is None:
            return
        requests = self.desk.reviews.requests.values()
        found = next((one.request_id for one in requests if one.task_id == task["task_id"]), None)
        if found is None:
            self.desk.tell("It waits for no decision of yours.")
        else:
            self.desk.go("approvals", found)
