"""The computers: connected or not, their work, and a live picture of their screens where the server has one."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding

from orchestrator.client import ServerRefused, ServerUnreachable
from orchestrator.core.text.visible import one_line, visible
from orchestrator.terminal.review.request_view import Line
from orchestrator.terminal.tui.backups import Backups
from orchestrator.terminal.tui.dialogs import Ask, Choose
from orchestrator.terminal.tui.lines_view import begin, name_of, segment
from orchestrator.terminal.tui.pairing import pair
from orchestrator.terminal.tui.row_list import Entry, Pane
from orchestrator.terminal.tui.screen import TERMINAL, Picture, computer_lines, watch_into
from orchestrator.terminal.tui.states import computer_state, family_of, task_state

# -- The computers: who is here, what they do, and a live picture of their screens where the server has one

_CALM_S: Final = 0.3
_MOST_TYPED: Final = 512
"""Characters that are typed at once."""


class Computers(Pane):
    """All computers that have a token."""

    name_of = "computers"
    title = "Computers"
    head = ("COMPUTER", "STATE", "KIND", "LABEL", "TASK")
    empty = "There are no computers yet. p has the line that connects one."
    reads = True
    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("s", "screen", show=False),
        Binding("o", "other_screen", show=False),
        Binding("t", "type", show=False),
        Binding("v", "watch", show=False),
        Binding("p", "pair", show=False),
        Binding("b", "backups", show=False),
        Binding("r", "release", show=False),
    ]
    keys: ClassVar[Sequence[tuple[str, str]]] = (
        ("s", "its screen, live"),
        ("b", "its backups"),
        ("p", "pair one"),
        ("t", "type a line there"),
        ("r", "release a frozen one"),
        ("o", "its next monitor"),
        ("v", "its task"),
        ("Enter", "open"),
    )

    def __init__(self, desk: Any) -> None:
        super().__init__(desk)
        self._tasks: dict[str, Mapping[str, Any]] = {}
        """The task that is under way, by computer."""
        self._clients: dict[str, str] = {}
        """The version of the client, by computer; only admins are told."""
        self._may_know = True
        """Whether the server has not refused to tell them yet."""
        self._shown = ""
        """The computer that the page is about."""
        self._of = TERMINAL
        """The screen that is shown, of those that the computer has."""

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield Picture()

    def changed(self) -> None:
        """Read the list again."""
        begin(self, self._read, in_place_of="list")

    async def _read(self) -> None:
        await asyncio.sleep(_CALM_S)
        found = await self.desk.ask("GET", "/v1/computers")
        tasks = await self.desk.ask("GET", "/v1/tasks", limit=200)
        if found is None or tasks is None:
            return
        under_way = [one for one in tasks["tasks"] if one["status"] in ("Running", "Paused")]
        self._tasks = {name: one for one in under_way for name in one["computers"]}
        await self._read_clients()
        self.fill([self._entry(one) for one in found["computers"]])
        if self.rows.chosen is not None and not self.has_class("-screen"):
            self.chosen(self.rows.chosen)

    async def _read_clients(self) -> None:
        if not self._may_know:
            return
        try:
            seen = (await self.desk.live.ask("GET", "/v1/doctor"))["computers"]
            self._clients = {one["computer"]: one["client"] for one in seen}
        except ServerRefused:
            # Each refusal is written down: it is not asked for again.
            self._may_know = False
        except ServerUnreachable:
            return

    def _entry(self, one: Mapping[str, Any]) -> Entry:
        task = self._tasks.get(one["computer"])
        state, tone = computer_state(one["state"])
        cells = (
            one_line(one["computer"], limit=40),
            state,
            family_of(one.get("family")),
            one_line(one.get("label") or "-", limit=40),
            f"{task_state(task)[0]}: {one_line(task['prompt'], limit=100)}" if task else "-",
        )
        return Entry(one["computer"], cells, tone, 1)

    @property
    def computer(self) -> str | None:
        """See Pane; none while the picture has the whole of it."""
        return None if self.has_class("-screen") else self.rows.chosen

    # -- one of them ---------------------------------------------------------------------

    def chosen(self, key: str | None) -> None:
        """Show what is known of a computer."""
        self._leave_screen()
        self._label_of(key)
        if key is None:
            self.page.show([])
        else:
            begin(self, self._look, key, in_place_of="look")

    def _label_of(self, key: str | None) -> None:
        self.label(f"{one_line(key, limit=40)}: s shows its screen, b its backups" if key else "")

    async def _look(self, name: str) -> None:
        found = await self.desk.ask("GET", f"/v1/computers/{segment(name)}")
        if found is not None and self.rows.chosen == name:
            client, task = self._clients.get(name, ""), self._tasks.get(name)
            self.page.show(computer_lines(found, client, task), stay=name == self._shown)
            self._shown = name
            if found["frozen"] and not self.has_class("-screen"):
                self.label(f"{one_line(name, limit=40)} is FROZEN: r lets it come back, after a look at both sides")

    def action_watch(self) -> None:
        """Show the task that is under way there."""
        task = self._tasks.get(self.rows.chosen or "")
        if task is None:
            self.desk.tell("No task is under way there.")
        else:
            self.desk.go("tasks", task["task_id"])

    # -- pairing, backups, and what is frozen ---------------------------------------------

    def action_pair(self) -> None:
        """Make the line that pairs a computer."""
        begin(self, self._pair)

    async def _pair(self) -> None:
        await pair(self.desk, self.app.push_screen_wait)
        self.changed()

    def action_backups(self) -> None:
        """Its backups."""
        if self.rows.chosen is not None:
            begin(self, self._backups, self.rows.chosen)

    async def _backups(self, name: str) -> None:
        backups = Backups(self, name)
        task_id = await self.app.push_screen_wait(backups)
        if task_id is not None:
            self.desk.go("tasks", task_id)
            self.desk.tell(backups.begun)

    def action_release(self) -> None:
        """Let a frozen computer come back."""
        name = self.rows.chosen
        if name is not None:
            begin(self, self._release, name)

    async def _release(self, name: str) -> None:
        found = await self.desk.ask("GET", f"/v1/computers/{segment(name)}")
        if found is None:
            return
        if not found["frozen"]:
            self.desk.tell(f"Computer {name_of(name)} is not frozen.")
            return
        title = f"Let {name_of(name)} come back? Whichever of them dials next is it from then on."
        lines = [*computer_lines(found), Line("Calls that were under way there are shown as unknown.", prose=True)]
        if not await self.app.push_screen_wait(Choose(title, lines, [("y", "let it come back")])):
            return
        done = await self.desk.ask("POST", f"/v1/computers/{segment(name)}/release")
        if done is not None:
            freed = f"Carried out: {name_of(name)} is released: the one that dials next is it."
            self.desk.tell(freed if done["released"] else f"Too late: {name_of(name)} was not frozen any more.")
            self.changed()

    # -- its screen ----------------------------------------------------------------------

    def action_screen(self) -> None:
        """Show its screen, or what is known of it again."""
        name = self.rows.chosen
        if self.has_class("-screen"):
            self._leave_screen()
        elif name is not None:
            self.add_class("-screen")
            self._show_screen(name, TERMINAL)

    def _show_screen(self, name: str, of: str) -> None:
        self._of = of
        self.query_one(Picture).begin()
        self.query_one(Picture).focus()
        begin(self, self._watch_screen, name, of, in_place_of="screen")

    def action_other_screen(self) -> None:
        """Show the next of its screens: its monitors, and its own again."""
        name = self.rows.chosen
        if name is not None and self.has_class("-screen"):
            begin(self, self._next_screen, name, in_place_of="look")

    async def _next_screen(self, name: str) -> None:
        found = await self.desk.ask("GET", f"/v1/computers/{segment(name)}/screens")
        if found is None:
            return
        screens = [str(one["of"]) for one in found["screens"]] or [TERMINAL]
        at = screens.index(self._of) if self._of in screens else -1
        if len(screens) == 1:
            self.desk.tell("It has no other screen.")
        elif self.rows.chosen == name and self.has_class("-screen"):
            self._show_screen(name, screens[(at + 1) % len(screens)])

    def action_type(self) -> None:
        """Type a line at the computer, as a player there would."""
        if self.rows.chosen is not None:
            begin(self, self._type, self.rows.chosen)

    async def _type(self, name: str) -> None:
        title = f"Type at {one_line(name, limit=40)}, and press Enter there. No policy is asked."
        text = await self.app.push_screen_wait(Ask(title, most=_MOST_TYPED))
        if text is None:
            return
        endpoint = f"/v1/computers/{segment(name)}/keys"
        typed: Mapping[str, Any] | None = {"delivered": True}
        for body in [*([{"text": text}] if text else []), {"keys": ["enter"]}]:
            typed = await self.desk.ask("POST", endpoint, body)
            if typed is None or not typed["delivered"]:
                break
        if typed is not None:
            self.desk.tell("Typed." if typed["delivered"] else str(typed["message"]))

    def action_back(self) -> None:
        """The list and its page again."""
        self._leave_screen()
        super().action_back()

    def _leave_screen(self) -> None:
        if self.has_class("-screen"):
            self.remove_class("-screen")
            self.workers.cancel_group(self, "screen")
            self._label_of(self.rows.chosen)
            self.take_focus()

    async def _watch_screen(self, name: str, of: str) -> None:
        picture = self.query_one(Picture)
        which = "its screen" if of == TERMINAL else f"its monitor {one_line(of, limit=40)}"
        self.label(f"{one_line(name, limit=40)}: {which}; o the next, t types, s or Esc leaves it")
        try:
            await watch_into(picture, self.desk.live, name, of)
        except ServerRefused as refused:
            picture.note(visible(str(refused)))
