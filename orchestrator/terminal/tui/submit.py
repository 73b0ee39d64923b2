"""A new task: what to do, on which computers, how carefully, what has to hold at the end, and within which limits."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Static, TextArea

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.tui.background import begin
from orchestrator.terminal.tui.dialogs import Dialog, text_field
from orchestrator.terminal.tui.shared import Desk, why_not
from orchestrator.terminal.tui.submit_more import body_of, more_form
from orchestrator.terminal.tui.ticks import Ticks

_OPTIONS: Final = (
    ("read_only", ("it may only look",)),
    ("rehearse", ("it works on a copy first, and asks once for all of it",)),
    ("wait_for_model", ("it waits for the model server as long as it takes",)),
)
_CHECKS: Final = "What has to hold at the end? One check per line, such as: runs farm.lua"


class Submit(Dialog[Mapping[str, Any]]):
    """Asks for a task and submits it; the answer of the server. What the server refuses stays here to be changed."""

    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("ctrl+s,f2", "take", show=False, priority=True),
        Binding("ctrl+o,f3", "more", show=False, priority=True),
    ]
    keys = "Ctrl+S (or F2) submits   Tab goes on   Space picks   Ctrl+O model, session, limits   Esc nothing"

    def __init__(self, desk: Desk, computers: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("A new task: what shall be done?")
        self._desk = desk
        self._computers = sorted(computers, key=lambda one: not one["online"])
        self._more: Mapping[str, str] = {}
        self._sent: tuple[Mapping[str, Any], str] = ({}, "")
        """What was sent last, and its key: the same task sent again begins no second one."""

    def inside(self) -> ComposeResult:
        yield text_field(id="prompt")
        with VerticalScroll(classes="form", can_focus=False):
            online = [one["computer"] for one in self._computers if one["online"]]
            yield Ticks(
                ("ON WHICH COMPUTERS?", "STATE", "KIND", "LABEL"),
                [(one["computer"], _cells(one)) for one in self._computers],
                ticked=online if len(online) == 1 else (),
                empty="There are none yet: connect one with `cc-orchestrator pair`.",
                id="computers-to-pick",
            )
            yield Ticks(("AND?",), _OPTIONS, id="options")
            yield Static(_CHECKS, markup=False, classes="label", id="checks-label")
            yield text_field(id="checks")

    def on_mount(self) -> None:
        self.query_one("#prompt", TextArea).focus()

    def action_more(self) -> None:
        """Its model, its session and its limits."""
        begin(self, self._ask_more, in_place_of="more")

    async def _ask_more(self) -> None:
        filled = await self.app.push_screen_wait(more_form(self._more))
        if filled is not None:
            self._more = filled.lines
            said = ", ".join(f"{name} {value}" for name, value in body_of(filled.lines).items())
            self._say(one_line(said) or "As the server has it.")

    def written(self) -> bool:
        return any(area.text for area in self.query(TextArea))

    def action_take(self) -> None:
        """Submit it, if there is something to do."""
        body = self._body()
        wrong = "" if body["prompt"].strip() else "Say what to do, above."
        if "rehearse" in body and len(body["computers"]) != 1:
            wrong = wrong or "A rehearsal works on a copy of one computer: pick one."
        if wrong:
            self._say(wrong)
            return
        begin(self, self._send, body, in_place_of="send")

    def _body(self) -> dict[str, Any]:
        lines = (line.strip() for line in self.query_one("#checks", TextArea).text.splitlines())
        checks = [line for line in lines if line]
        return {
            "prompt": self.query_one("#prompt", TextArea).text,
            "computers": self.query_one("#computers-to-pick", Ticks).ticked,
            **dict.fromkeys(self.query_one("#options", Ticks).ticked, True),
            **({"checks": checks} if checks else {}),
            **body_of(self._more),
        }

    async def _send(self, body: Mapping[str, Any]) -> None:
        said, key = self._sent
        self._sent = (body, key if body == said else uuid4().hex)
        self._say("Submitting…")
        try:
            answer = await self._desk.live.ask("POST", "/v1/tasks", {**body, "idempotency_key": self._sent[1]})
        except OrchestratorError as error:
            if error.details.get("field") == "checks":
                self._say("")
                self._say_of_checks(str(error))
                self.query_one("#checks", TextArea).focus()
            else:
                self._say(why_not("POST", error))
            return
        self.dismiss(answer)

    def _say(self, sentence: str) -> None:
        """Say it above the keys, and nothing beside the checks."""
        shown = one_line(sentence, limit=2000)
        self.query_one(".dialog-keys", Static).update(f"{shown}\n{self.keys}" if shown else self.keys)
        self._say_of_checks("")

    def _say_of_checks(self, sentence: str) -> None:
        """Say what is wrong beside the checks; empty: nothing is."""
        label = self.query_one("#checks-label", Static)
        label.update(one_line(sentence, limit=2000) or _CHECKS)
        label.set_class(bool(sentence), "-wrong")


def _cells(computer: Mapping[str, Any]) -> tuple[str, ...]:
    named = (computer["computer"], computer["state"], computer.get("family") or "-", computer.get("label") or "-")
    return tuple(one_line(one, limit=60) for one in named)
