"""The decision on one request by keys: each is confirmed once, and carries the digests of the shown texts."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Input, Static

from orchestrator.core.approval.approval import HitlResponse, RequestedCallView, ResumeRequest
from orchestrator.core.approval.grants import MAX_SESSION_S, SESSION_S, GrantScope, GrantSpec
from orchestrator.core.task.facts import OnReject
from orchestrator.core.text.visible import one_line, visible
from orchestrator.terminal.output import counted
from orchestrator.terminal.review.channel import MAX_ANSWER_CHARS, OddRequest, others_wait
from orchestrator.terminal.review.edit import (
    MAX_REASON_CHARS,
    SCOPES,
    Choices,
    Drafts,
    EditorFailed,
    args_as_json,
    changed_lines,
    decision,
    edited_text,
    ending_of,
    never_granted,
    parsed,
    pattern_lines,
    scope_lines,
    spec_of,
    text_argument,
    texts_of,
)
from orchestrator.terminal.review.request_view import Line, short, time_left
from orchestrator.terminal.tui.dialogs import Ask, Choose, Dialog, Ticks, Write, line_field
from orchestrator.terminal.tui.lines_view import now
from orchestrator.terminal.tui.reviews import Outcome
from orchestrator.terminal.tui.row_list import Entry, Pane
from orchestrator.terminal.tui.states import risk_tone

if TYPE_CHECKING:
    from orchestrator.terminal.tui.lines_view import Desk
    from orchestrator.terminal.tui.row_list import Pane

# -- A request in few words: its row in the list, the keys that it takes, and what is asked before one of them
# counts

ASKS: Final = {
    "approve": "Let it run, exactly as it stands on the screen?",
    "check": "Ask the computer once more?",
    "mark_done": "It was carried out: tell the model so?",
    "mark_failed": "It was not carried out: tell the model that it failed?",
    "retry": "Ask for it again, as a new call with a new approval?",
}
"""The question before a word is sent."""


_NAMES: Final = {
    "check": "check again",
    "mark_done": "mark done",
    "mark_failed": "mark failed",
    "remember": "grant",
    "extend": "longer",
}
"""How a word is named beside its key, where that is another."""


def words_of(choices: Choices) -> Iterator[tuple[str, str]]:
    """Each key, and what it says now; the details come last."""
    for word in sorted(choices.words(), key=lambda one: one == "details"):
        yield choices.key(word), _NAMES.get(word, word)
        if word == "edit":
            yield "i", "here"


def left_of(request: HitlResponse) -> str:
    """How long people have for a request, in words."""
    return "-" if request.expires_at is None else time_left(request.expires_at, now())


def entry_of(request: HitlResponse, *, closed: bool = False, ticked: bool | None = None) -> Entry:
    """A request as a row of the list; ``ticked`` None: none is."""
    left = "closed" if closed else left_of(request)
    mark = "" if ticked is None else f"[{'x' if ticked else ' '}] "
    by = one_line(str(request.requester), limit=30)
    return Entry(request.request_id, (f"{mark}{request.risk}", left, by, in_short(request)), risk_tone(request.risk))


def odd_entry_of(odd: OddRequest) -> Entry:
    """A request that this program cannot read as a row of the list."""
    return Entry(odd.request_id, ("?", "?", "?", "A request that this program cannot read: Enter shows all of it"))


def in_short(request: HitlResponse) -> str:
    """A request on one line: its calls."""
    count = len(request.tool_calls)
    more = f"{count} calls: " if count > 1 else ""
    what = "UNKNOWN OUTCOME " if request.reason == "outcome_unknown" else ""
    return f"{what}{more}{call_in_short(request.tool_calls[0]) if request.tool_calls else ''}"


def call_in_short(call: RequestedCallView) -> str:
    """A call on one line; it never fails: a fault of the drawing hides no request (promise V5)."""
    try:
        return short(call)
    except Exception:  # noqa: BLE001 - as said
        return "a call that could not be drawn: the page has all of it"


def nothing_waits(others: int) -> list[Line]:
    """The page while nothing waits for this person."""
    if not others:
        return []
    return [Line(others_wait(others), prose=True)]


# -- A call's arguments changed by the person: in their own editor, the screen set aside, or in a field right here


class Editing:
    """Edits calls for one pane, and keeps what was not taken: the next edit begins with it."""

    def __init__(self, pane: Pane) -> None:
        self._pane = pane
        self._kept = Drafts()
        self._drafts: dict[tuple[str, str], str] = {}
        """The text that was written as JSON and is not JSON."""

    @property
    def _desk(self) -> "Desk":
        return self._pane.desk

    async def edited(
        self, request: HitlResponse, call: RequestedCallView, *, here: bool
    ) -> tuple[dict[str, Any], str] | None:
        """All arguments as the person wants them, and why; None: they changed nothing, or dropped it."""
        key = (request.request_id, call.call_id)
        args = self._kept.begin(request, call)
        while True:
            try:
                args = await self._once(request, key, call.tool, args, here)
            except EditorFailed as error:
                kept = " Your text is kept for the next edit." if key in self._drafts else ""
                self._desk.tell(f"{error} Nothing was decided.{kept}")
                return None
            if request.request_id not in self._desk.reviews.requests:
                # A dialog was taken back then, and has said why.
                if not here:
                    self._desk.tell("It was closed in the meantime: nothing was sent.")
                return None
            differs = changed_lines(call, args)
            if not differs:
                self._desk.tell("Unchanged: nothing was decided.")
                return None
            self._kept.keep(request, call, args)
            said = await self._pane.app.push_screen_wait(
                Choose(
                    "Approve it like this?",
                    differs,
                    [("y", "yes"), ("e", "edit again"), ("n", "no, drop it")],
                    about=request.request_id,
                )
            )
            if said == "e":
                continue
            if said == "n":
                self._kept.drop(request, call)
            reason = await self._why(request) if said == "y" else None
            if reason is None:
                self._desk.tell("Nothing was decided.")
                return None
            return args, reason

    def forget(self, request: HitlResponse) -> None:
        """It was taken."""
        self._kept.forget(request.request_id)

    async def _why(self, request: HitlResponse) -> str | None:
        """Why it was edited, empty where the person does not say; None: they took the edit back."""
        title = "Why? The model is told (may be empty)."
        return await self._pane.app.push_screen_wait(Ask(title, most=MAX_REASON_CHARS, about=request.request_id))

    async def _once(
        self, request: HitlResponse, key: tuple[str, str], tool: str, args: dict[str, Any], here: bool
    ) -> dict[str, Any]:
        """The arguments after one round. Raises EditorFailed."""
        name = text_argument(tool, args)
        written = self._drafts.pop(key, args_as_json(args)) if name is None else args[name]
        ending = ".json" if name is None else ending_of(name, args)
        new = await (self._here(request, name, written) if here else self._in_editor(written, ending))
        if name is not None:
            return {**args, name: new}
        try:
            return parsed(new)
        except EditorFailed:
            self._drafts[key] = new
            raise

    async def _here(self, request: HitlResponse, name: str | None, text: str) -> str:
        if visible(text) != text or "\t" in text:
            raise EditorFailed("It has characters that a field would not show as they are: e opens your editor.")
        what = name or "the arguments, as JSON"
        found = await self._pane.app.push_screen_wait(Write(f"Edit {what}", text=text, about=request.request_id))
        return text if found is None else found

    async def _in_editor(self, text: str, ending: str) -> str:
        app = self._pane.app
        failure: BaseException | None = None
        try:
            # Messages that come now are drawn when the editor has ended.
            with app.suspend(), app.batch_update():
                # What leaves this block as an exception leaves the screen set aside: the library takes it back else.
                try:
                    text = await _in_thread(lambda: edited_text(text, ending))
                except BaseException as error:  # noqa: BLE001 - raised again below
                    failure = error
        except SuspendNotSupported:
            raise EditorFailed("This terminal cannot be lent to an editor: i edits here.") from None
        if failure is not None:
            raise failure
        return text


async def _in_thread(work: Callable[[], str]) -> str:
    """The result of a thread of its own, which nobody waits for when the program ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str] = loop.create_future()

    def settle(result: str | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result or "")

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            loop.call_soon_threadsafe(settle, None, error)
        else:
            loop.call_soon_threadsafe(settle, result, None)

    threading.Thread(target=run, name="editor", daemon=True).start()
    return await done


# -- Approve and remember: how far a grant reaches is said before it is given

_HOUR_S: Final = 3600


class Reach(Dialog[GrantSpec]):
    """Asks how far a pattern reaches; nothing is wider than the call unless somebody makes it so."""

    BINDINGS = [Binding("ctrl+s,f2,enter", "take", show=False, priority=True)]  # noqa: RUF012 - as the library has it
    keys = "Enter goes on   Tab the next field   Space ticks   Esc nothing"

    def __init__(self, request: HitlResponse, call: RequestedCallView, scope: GrantScope) -> None:
        super().__init__("How far does it reach?", about=request.request_id)
        self._call, self._scope = call, scope

    def inside(self) -> ComposeResult:
        if self._call.grant_paths:
            of_call = ", ".join(one_line(path) for path in self._call.grant_paths)
            yield from line_field("globs", f"Other paths, as globs (empty: exactly {of_call})")
        if texts := texts_of(self._call):
            what = f"any text ({', '.join(texts)}), not only this one"
            yield Ticks(("WITH?",), [("any", (what,))], id="content")
        usual = f"{SESSION_S // _HOUR_S}" if self._scope == "session" else "until the task ends"
        yield from line_field("hours", f"For how many hours (empty: {usual}; at most {MAX_SESSION_S // _HOUR_S})")
        yield from line_field("uses", "At most how many times (empty: as often as it fits)")

    def written(self) -> bool:
        return any(one.value for one in self.query(Input))

    def action_take(self) -> None:
        """The edit is finished; if it cannot be used, the reason is said."""
        typed = {one.id: one.value for one in self.query(Input) if one.id is not None}
        any_content = any(ticks.ticked for ticks in self.query(Ticks))
        try:
            spec = spec_of(self._scope, any_content=any_content, **typed)
        except ValueError as error:
            said = one_line(f"That cannot be granted: {error}.", limit=300)
            self.query_one(".dialog-keys", Static).update(f"{said}   Esc nothing")
            return
        self.dismiss(spec)


async def ask_grant(widget: Widget, request: HitlResponse, call: RequestedCallView) -> GrantSpec | None:
    """The grant that the person wants, shown and agreed to; None: none."""
    app, about = widget.app, request.request_id
    if never := never_granted(call):
        await app.push_screen_wait(Choose(never, (), [], about=about))
        return None
    lines = [
        *scope_lines(call),
        Line("  w  as 2, and W as 3, but wider: other paths, any text, for how long, how often", prose=True),
    ]
    choices = [("1", "call"), ("2", "task"), ("3", "session"), ("w", "task, wider"), ("W", "session, wider")]
    picked = await app.push_screen_wait(
        Choose("Approve it, and from now on without asking:", lines, choices, about=about)
    )
    if picked is None:
        return None
    spec: Any = spec_of(SCOPES[{"w": "2", "W": "3"}.get(picked, picked)])
    if picked in "wW":
        spec = await app.push_screen_wait(Reach(request, call, spec.scope))
        if spec is None:
            return None
    title = "Approve this call and grant that?"
    agreed = await app.push_screen_wait(Choose(title, pattern_lines(request, call, spec), [("y", "yes")], about=about))
    return spec if agreed else None


# -- What is decided of one request by keys: each is asked once more, and carries the digests of what was shown

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

    ``about``: the subject of the questions; None: the request.
    """
    about = request.request_id if about is None else about
    return await app.push_screen_wait(Reject(title, about))


class Reject(Dialog[tuple[str, OnReject]]):
    """Asks for the reason, and below it for the effect on the task: Enter sends what is chosen there."""

    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("up", "choose(0)", show=False, priority=True),
        Binding("down", "choose(1)", show=False, priority=True),
    ]
    keys = "Enter sends it   ↑ ↓ choose   Esc nothing"

    def __init__(self, title: str, about: str) -> None:
        super().__init__(title, about=about)
        self._then = 0

    def inside(self) -> ComposeResult:
        line = Input(max_length=MAX_REASON_CHARS)
        line.cursor_blink = False
        yield line
        yield Static("And the task?", markup=False, classes="label")
        yield Static(self._choices(), markup=False, id="then")

    def written(self) -> bool:
        return bool(self.query_one(Input).value)

    def _choices(self) -> str:
        return "\n".join(f"{'>' if at == self._then else ' '} {says}" for at, (_, says) in enumerate(_THEN))

    def action_choose(self, at: int) -> None:
        """The task goes on, or not."""
        self._then = at
        self.query_one("#then", Static).update(self._choices())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss((event.value.strip(), _THEN[self._then][0]))


_THEN: Final[Sequence[tuple[OnReject, str]]] = (
    ("continue", "reject and tell the model: the task goes on, and the model reads the reason"),
    ("cancel", "reject and cancel the task: nothing more of it runs"),
)
"""The effects of a rejection on its task; the first is chosen before anybody chooses."""
