"""The tasks: a list that is live, and the log of the one that is chosen as it happens."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Final

from textual.binding import Binding

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.task.facts import TaskId
from orchestrator.core.text.visible import one_line, visible
from orchestrator.core.wire.review import OpenQuestion
from orchestrator.terminal.console.lines import Line
from orchestrator.terminal.tui.background import begin
from orchestrator.terminal.tui.dialogs import Ask, Write
from orchestrator.terminal.tui.pane import Pane
from orchestrator.terminal.tui.rehearsal import look_at_rehearsal
from orchestrator.terminal.tui.submit import Submit
from orchestrator.terminal.tui.task_log import TaskLog
from orchestrator.terminal.tui.task_rows import entry_of, fits, summary
from orchestrator.terminal.tui.undo import undo

_MOST: Final = 500
"""Tasks in the list: the newest."""
_CALM_S: Final = 0.3
"""Between two readings of the list, and before the log of a chosen task is opened: one may only be passing by."""
_DRAW_S: Final = 0.1
_FILTERS: Final[Sequence[tuple[str, frozenset[str]]]] = (
    ("all", frozenset()),
    ("under way", frozenset({"Queued", "Running", "Paused"})),
    ("waiting", frozenset({"Paused"})),
    ("failed or canceled", frozenset({"Failed", "Canceled"})),
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
        ("h", "what it rehearsed, and ask for it"),
        ("p", "keep it, or no longer"),
        ("r", "ask anew what lapsed"),
        ("f", "filter"),
        ("/", "search"),
    )

    def __init__(self, desk: Any) -> None:
        super().__init__(desk)
        self._tasks: list[Mapping[str, Any]] = []
        self._filter = 0
        self._search = ""
        self._wanted: str | None = None
        """A task to choose once it is in the list."""
        self._log: TaskLog | None = None
        self._again = asyncio.Event()

    def on_mount(self) -> None:
        begin(self, self._read_again)
        self.set_interval(_DRAW_S, self._flush)
        self.set_interval(1.0, self._tick)

    # -- the list ------------------------------------------------------------------------

    def changed(self) -> None:
        """Read the list anew, soon."""
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
            self.desk.tell(
                f"Task {answer['task_id']} is {answer['status']}. u shows what it changed, and puts it back."
            )

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
        """Ask again what nobody answered in time."""
        task = self._chosen_task()
        if task is not None:
            begin(self, self._renew, task["task_id"])

    async def _renew(self, task_id: str) -> None:
        found = await self.desk.ask("GET", f"/v1/tasks/{task_id}")
        if found is None:
            return
        lapsed = found["lapsed_request"]
        if not lapsed or found["status"] in _ENDED:
            self.desk.tell("No request of it lapsed: there is nothing to ask anew.")
        elif await self.desk.ask("POST", f"/v1/requests/{lapsed}/renew", {}) is not None:
            self.desk.tell("Carried out: it is asked anew.")

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
        )
        lines = [Line(one, prose=True) for one in visible(question.question).splitlines()]
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
