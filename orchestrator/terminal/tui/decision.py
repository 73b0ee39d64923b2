"""What is decided of one request by keys: each is asked once more, and carries the digests of what was shown."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from textual.app import App

from orchestrator.core.approval.approval import HitlResponse, RequestedCallView, ResumeRequest
from orchestrator.core.task.facts import OnReject
from orchestrator.terminal.console.decision import MAX_ANSWER_CHARS, decision
from orchestrator.terminal.console.edit import MAX_REASON_CHARS
from orchestrator.terminal.console.lines import Line
from orchestrator.terminal.output import counted
from orchestrator.terminal.tui.dialogs import Ask, Choose
from orchestrator.terminal.tui.edit import Editing
from orchestrator.terminal.tui.grant import ask_grant
from orchestrator.terminal.tui.requests import ASKS, call_in_short
from orchestrator.terminal.tui.reviews import Outcome

if TYPE_CHECKING:
    from orchestrator.terminal.tui.pane import Pane

_CALM: Final = frozenset({"low", "medium"})
Calls = Sequence[RequestedCallView]


class Deciding:
    """Asks the person of one pane, and sends what they say."""

    def __init__(self, pane: "Pane") -> None:
        self._pane = pane
        self._editing = Editing(pane)
        self.mine: set[str] = set()
        """Requests that are being decided here, and those that were."""

    async def say(self, word: Any, shown: HitlResponse, calls: Calls) -> None:
        """Say one word of it, once that is confirmed."""
        lines = [Line(f"  {call_in_short(call)}", "call") for call in calls]
        lines.append(Line(f"  risk: {shown.risk.value}", "" if shown.risk.value in _CALM else "alarm"))
        unseen = self._pane.page.unseen
        title, enter = ASKS[word], "y"
        if word == "approve" and unseen:
            title, enter = "Let it run, though not all of it was on the screen?", ""
            lines.append(
                Line(f"  {counted(unseen, 'row')} below: Esc, Enter and Space show them.", "warning", prose=True)
            )
        if await self._ask(Choose(title, lines, [("y", "yes")], about=shown.request_id, enter=enter)):
            await self.decide(shown, decision(shown, word, calls=calls))

    async def reject(self, shown: HitlResponse, calls: Calls) -> None:
        """It does not run: say why, and what the task does then."""
        said = await ask_rejection(self._pane.app, "Reject it. Why? (may be empty)", shown)
        if said is not None:
            reason, on_reject = said
            await self.decide(shown, decision(shown, "reject", reason, calls=calls, on_reject=on_reject))

    async def respond(self, shown: HitlResponse, calls: Calls) -> None:
        """It does not run: the model is told a text in place of a result."""
        title = "It does not run. What is the model told in place of a result?"
        answer = await self._ask(Ask(title, most=MAX_ANSWER_CHARS, about=shown.request_id))
        if answer:
            await self.decide(shown, decision(shown, "respond", calls=calls, answer=answer))

    async def grant(self, shown: HitlResponse, calls: Calls) -> None:
        """Approve it, and what is like it from now on."""
        (call,) = calls
        spec = await ask_grant(self._pane, shown, call)
        if spec is None:
            self._pane.desk.tell("Nothing was decided.")
            return
        await self.decide(shown, decision(shown, "approve", calls=(call,), remember=spec))

    async def edit(self, where: str, shown: HitlResponse, calls: Calls) -> None:
        """Change it, and approve what was written."""
        (call,) = calls
        edited = await self._editing.edited(shown, call, here=where == "here")
        if edited is None:
            return
        args, reason = edited
        if await self.decide(shown, decision(shown, "edit", reason, calls=(call,), args=args)):
            self._editing.forget(shown)

    async def decide(self, shown: HitlResponse, resume: ResumeRequest) -> bool:
        """Send it, and say what became of it; whether it was taken."""
        outcome = await self.settle(shown, resume)
        self._pane.desk.tell(outcome.said)
        return outcome.taken

    async def settle(self, shown: HitlResponse, resume: ResumeRequest) -> Outcome:
        """Send it; what became of it."""
        self.mine.add(shown.request_id)
        outcome = await self._pane.desk.reviews.settle(shown, resume)
        if not outcome.taken:
            self.mine.discard(shown.request_id)
        return outcome

    async def _ask(self, dialog: Any) -> Any:
        return await self._pane.app.push_screen_wait(dialog)


async def ask_rejection(
    app: App[Any], title: str, request: HitlResponse, *, about: str | None = None
) -> tuple[str, OnReject] | None:
    """Why something does not run, and what its task does then; None: it was taken back.

    ``about``: what the questions are about; None: the request.
    """
    about = request.request_id if about is None else about
    reason = await app.push_screen_wait(Ask(title, most=MAX_REASON_CHARS, about=about))
    if reason is None:
        return None
    then = await app.push_screen_wait(
        Choose(
            "It does not run. And the task?",
            [Line("  c  it goes on: the model is told that you rejected it, and why"), Line("  s  it stops")],
            [("c", "continue"), ("s", "stop")],
            about=about,
            enter="c" if request.on_reject == "continue" else "s",
        )
    )
    return None if then is None else (reason, "continue" if then == "c" else "cancel")
