"""The computers: who is here, what they do, and a live picture of their screens where the server has one."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Final
from urllib.parse import quote

from textual.app import ComposeResult
from textual.binding import Binding

from orchestrator.client import Back, Lost, ServerRefused
from orchestrator.console.lines import Line
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.visible import one_line, visible
from orchestrator.live import as_object
from orchestrator.rendering import age
from orchestrator.tui.pane import Pane
from orchestrator.tui.picture import Picture
from orchestrator.tui.row_list import Entry
from orchestrator.tui.working import begin

_CALM_S: Final = 0.3
_NO_SUCH_DOOR: Final = 404


class Computers(Pane):
    """All computers that have a token."""

    name_of = "computers"
    title = "Computers"
    head = ("COMPUTER", "STATE", "KIND", "LABEL", "TASK")
    empty = "There are no computers yet. Connect one with `cc-orchestrator pair`."
    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("s", "screen", show=False),
        Binding("v", "watch", show=False),
    ]
    keys: ClassVar[Sequence[tuple[str, str]]] = (("s", "its screen, live"), ("Enter", "open"), ("v", "its task"))

    def __init__(self, desk: Any) -> None:
        super().__init__(desk)
        self._tasks: dict[str, Mapping[str, Any]] = {}
        """By computer, the task that is under way there."""
        self._clients: dict[str, str] = {}
        """By computer, the version of its client; only admins are told."""

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield Picture()

    def changed(self) -> None:
        """Read the list anew."""
        begin(self, self._read, in_place_of="list")

    async def _read(self) -> None:
        await asyncio.sleep(_CALM_S)
        found = await self.desk.ask("GET", "/v1/computers")
        tasks = await self.desk.ask("GET", "/v1/tasks", limit=200)
        if found is None or tasks is None:
            return
        under_way = [one for one in tasks["tasks"] if one["status"] in ("Running", "Paused")]
        self._tasks = {name: one for one in under_way for name in one["computers"]}
        try:
            seen = (await self.desk.live.ask("GET", "/v1/doctor"))["computers"]
            self._clients = {one["computer"]: one["client"] for one in seen}
        except OrchestratorError:
            # Only admins are told.
            self._clients = {}
        self.fill([self._entry(one) for one in found["computers"]])
        if self.rows.chosen is not None and not self.has_class("-screen"):
            self.chosen(self.rows.chosen)

    def _entry(self, one: Mapping[str, Any]) -> Entry:
        task = self._tasks.get(one["computer"])
        cells = (
            one_line(one["computer"], limit=40),
            one["state"].upper() if one["state"] == "frozen" else one["state"],
            one_line(one.get("family") or "-", limit=20),
            one_line(one.get("label") or "-", limit=40),
            f"{task['status']}: {one_line(task['prompt'], limit=100)}" if task else "-",
        )
        return Entry(one["computer"], cells)

    # -- one of them ---------------------------------------------------------------------

    def chosen(self, key: str | None) -> None:
        """Show what is known of a computer."""
        self._leave_screen()
        self.label(f"{one_line(key, limit=40)}: s shows its screen" if key else "")
        if key is None:
            self.page.show([])
        else:
            begin(self, self._look, key, in_place_of="look")

    async def _look(self, name: str) -> None:
        found = await self.desk.ask("GET", f"/v1/computers/{quote(name, safe='')}")
        if found is not None and self.rows.chosen == name:
            self.page.show(self._lines(found))

    def _lines(self, found: Mapping[str, Any]) -> Iterator[Line]:
        released = ", released and not back yet" if found["released"] else ""
        yield Line(f"── Computer {one_line(found['computer'])}", "title")
        yield Line(f"  state    {found['state']}{released}")
        client = self._clients.get(found["computer"], "")
        named = (("kind", found.get("family")), ("label", found.get("label")), ("runs", found.get("host")))
        for name, value in (*named, ("client", client)):
            if value:
                yield Line(f"  {name:8} {one_line(value)}")
        if found["last"]:
            came = found["last"]
            peer = f" from {one_line(came['peer'])}" if came["peer"] else ""
            yield Line(f"  came     {age(came['at'])} ago{peer}, as id {came['computer_id']}")
        task = self._tasks.get(found["computer"])
        if task is not None:
            yield Line(f"  task     {task['task_id']} {task['status']}: {one_line(task['prompt'])}", prose=True)
        frozen = found["frozen"]
        if frozen:
            yield Line(f"  FROZEN   {one_line(frozen['message'], limit=1000)}", "alarm", prose=True)
            yield Line(f"  to do    {one_line(frozen['remedy'], limit=1000)}", prose=True)

    def action_watch(self) -> None:
        """Show the task that is under way there."""
        task = self._tasks.get(self.rows.chosen or "")
        if task is None:
            self.desk.tell("No task is under way there.")
        else:
            self.desk.go("tasks", task["task_id"])

    # -- its screen ----------------------------------------------------------------------

    def action_screen(self) -> None:
        """Show its screen, or what is known of it again."""
        name = self.rows.chosen
        if self.has_class("-screen"):
            self._leave_screen()
        elif name is not None:
            self.add_class("-screen")
            self.query_one(Picture).begin()
            self.query_one(Picture).focus()
            begin(self, self._watch_screen, name, in_place_of="screen")

    def action_back(self) -> None:
        """The list and its page again."""
        self._leave_screen()
        super().action_back()

    def _leave_screen(self) -> None:
        if self.has_class("-screen"):
            self.remove_class("-screen")
            self.workers.cancel_group(self, "screen")
            self.take_focus()

    async def _watch_screen(self, name: str) -> None:
        picture = self.query_one(Picture)
        self.label(f"{one_line(name, limit=40)}: its screen; s or Esc leaves it")
        try:
            told = self.desk.live.hear(f"/v1/computers/{quote(name, safe='')}/screen")
            async with aclosing(told):
                async for one in told:
                    if isinstance(one, Lost | Back):
                        picture.note("" if isinstance(one, Back) else "The server went away; it is looked for.")
                        continue
                    picture.take(one[0], as_object(one[1]))
        except ServerRefused as refused:
            missing = refused.status == _NO_SUCH_DOOR and refused.message.startswith("GET ")
            why = "This server has no pictures of screens: it is older than this program." if missing else str(refused)
            picture.note(visible(why))
