"""Grants: what runs without asking because somebody said so, how far that reaches, and taking it back."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from textual.binding import Binding

from orchestrator.core.text.visible import one_line
from orchestrator.terminal.console.lines import Line, allows, as_json, block
from orchestrator.terminal.tui.dialogs import Choose
from orchestrator.terminal.tui.full_list import Listing
from orchestrator.terminal.tui.lines_view import moment, segment
from orchestrator.terminal.tui.row_list import Entry
from orchestrator.terminal.tui.shared import Desk, begin

_SCOPES: Final = {
    "call": "this very call, in its task",
    "task": "calls like it, in its task",
    "session": "calls like it, in its session",
}


class Grants(Listing):
    """All that this person is told of; those that can be used come first."""

    head = ("STATE", "BY", "FOR", "USES", "ALLOWS")
    empty = "No grant: everything that the policy asks about is asked each time."
    keys = "x takes it back   v its task   Tab the page   Esc leaves"
    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("x", "take_back", show=False),
        Binding("v", "watch", show=False),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__("Grants: they never cover what the policy denies, nor what is critical.", desk)
        self._grants: dict[str, Mapping[str, Any]] = {}

    def read(self) -> None:
        """See Listing."""
        begin(self, self._read, in_place_of="list")

    async def _read(self) -> None:
        found = await self.ask("GET", "/v1/grants")
        if found is None:
            return
        newest = sorted(found["grants"], key=lambda one: str(one["created_at"]), reverse=True)
        self._grants = {one["grant_id"]: one for one in sorted(newest, key=lambda one: not one["usable"])}
        self.rows.show([_entry(one) for one in self._grants.values()])
        self.chosen(self.rows.chosen)

    def chosen(self, key: str | None) -> None:
        """Show a grant."""
        grant = self._grants.get(key or "")
        self.page.show([] if grant is None else lines_of(grant))

    def action_watch(self) -> None:
        """Show the task that it was given in."""
        grant = self._grants.get(self.rows.chosen or "")
        if grant is not None:
            self.dismiss(grant["task_id"])

    def action_take_back(self) -> None:
        """Take the chosen one back."""
        grant = self._grants.get(self.rows.chosen or "")
        if grant is not None and grant["usable"]:
            # It goes on where this is left, and what became of it is said there.
            begin(self.app, self._take_back, grant)
        elif grant is not None:
            self.show_news("It is not in force any more: there is nothing to take back.")

    async def _take_back(self, grant: Mapping[str, Any]) -> None:
        lines = [*lines_of(grant), Line("What has not begun to run asks again; what runs goes on.", prose=True)]
        if not await self.app.push_screen_wait(Choose("Take it back?", lines, [("y", "take it back")], enter="y")):
            return
        answer = await self.ask("DELETE", f"/v1/grants/{segment(grant['grant_id'])}")
        if answer is not None:
            self.read_again()
            self.say("Carried out: it is taken back." if answer["revoked"] else "Too late: it was taken back before.")


def lines_of(grant: Mapping[str, Any]) -> Iterator[Line]:
    """A grant whole, in words."""
    most = f" of {grant['max_uses']}" if grant["max_uses"] is not None else ""
    in_what = f"session {grant['session_id']}" if grant["scope"] == "session" else f"task {grant['task_id']}"
    until = moment(grant["expires_at"]) or "its task ends"
    yield Line(f"── {_state(grant)}: {one_line(allows(grant), limit=2000)}", "title", prose=True)
    yield Line(f"  covers   {_SCOPES.get(grant['scope'], one_line(grant['scope']))}")
    yield Line(f"  of       {one_line(grant['user_id'])}, in {one_line(in_what)}")
    yield Line(f"  given    by {one_line(grant['granted_by'])}, {moment(grant['created_at'])}; until {until}")
    yield Line(f"  used     {grant['uses']}{most}")
    if grant["args"]:
        yield Line("  exactly these arguments:")
        yield from block(as_json(grant["args"], indent=2))


def _state(grant: Mapping[str, Any]) -> str:
    return "taken back" if grant["revoked"] else "in force" if grant["usable"] else "over"


def _entry(grant: Mapping[str, Any]) -> Entry:
    most = f"/{grant['max_uses']}" if grant["max_uses"] is not None else ""
    cells = (_state(grant), grant["granted_by"], grant["user_id"], f"{grant['uses']}{most}", allows(grant))
    return Entry(grant["grant_id"], tuple(one_line(one, limit=300) for one in cells))
