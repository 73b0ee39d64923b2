"""The requests that wait for this person, each exactly as the console reviewer shows it, and decided by a key."""

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.binding import Binding

from orchestrator.core.approval.approval import HitlResponse, RequestedCallView
from orchestrator.core.wire import review
from orchestrator.terminal.review.channel import closed_meanwhile, odd_lines, reminded, same
from orchestrator.terminal.review.edit import MAX_REASON_CHARS, MOST_TOGETHER, Choices, Refusal, an_hour_more
from orchestrator.terminal.review.request_view import Line, details, holder_of, page
from orchestrator.terminal.tui.batch import Together
from orchestrator.terminal.tui.decision import (
    Deciding,
    entry_of,
    in_short,
    left_of,
    nothing_waits,
    odd_entry_of,
    words_of,
)
from orchestrator.terminal.tui.dialogs import Ask, Choose, Show
from orchestrator.terminal.tui.lines_view import begin, now
from orchestrator.terminal.tui.row_list import Pane
from orchestrator.terminal.tui.typing import JUST_COME

if TYPE_CHECKING:
    from orchestrator.terminal.tui.reviews import Reviews
    from orchestrator.terminal.tui.row_list import Pane

# -- Which requests are decided together: those that are ticked in the list --------------


class Picking:
    """The ticks of one pane, and what they are for."""

    def __init__(self, pane: "Pane", deciding: Deciding) -> None:
        self._pane, self._deciding = pane, deciding
        self._keys: set[str] = set()

    @property
    def _reviews(self) -> "Reviews":
        return self._pane.desk.reviews

    def ticked(self, key: str) -> bool | None:
        """Whether a request is ticked; None: none is."""
        self._keys &= set(self._reviews.requests)
        return key in self._keys if self._keys else None

    def turn(self, key: str | None) -> None:
        """Tick one of them, or take its tick away."""
        if key in self._reviews.requests:
            self._keys ^= {key}

    def turn_all(self) -> None:
        """Tick all of them, or none."""
        everything = set(self._reviews.requests)
        self._keys = set() if self._keys >= everything else everything

    def asked(self) -> list[HitlResponse]:
        """The requests that are decided together; empty, with the reason: none can be."""
        found = [one for key, one in self._reviews.requests.items() if key in self._keys]
        said = ""
        if not found:
            said = "Tick those that you want to decide together: Space one, * all."
        elif len(found) > MOST_TOGETHER:
            said = f"At most {MOST_TOGETHER} are decided together."
        elif any("approve" not in one.allowed_decisions for one in found):
            said = "One of them is of an unknown outcome: that is decided by itself."
        if said:
            self._pane.desk.tell(said)
        return [] if said else found

    async def decide(self, asked: Sequence[HitlResponse]) -> None:
        """Show them, nothing of them cut, until the person leaves them."""
        whole = []
        for one in asked:
            cut = any(call.truncated for call in one.tool_calls)
            found = await self._reviews.whole(one.request_id) if cut else one
            if found is None:
                return
            whole.append(found)
        await self._pane.app.push_screen_wait(Together(self._pane, self._deciding, whole))
        self._pane.changed()


# -- The requests that wait for this person, each exactly as the console reviewer shows it, and decided by a key


_REFUSED: Final[Mapping[Refusal, str]] = {
    "never": "That is not said of this request; the line above it has the keys.",
    "cut": "Not all of it was shown: w shows the whole, then it can be approved.",
    "several": "Choose one call first, with , and . (comma and full stop).",
}


class Approvals(Pane):
    """The open requests, the oldest first."""

    name_of = "approvals"
    title = "Approvals"
    head = ("RISK", "LEFT", "BY", "WHAT")
    empty = "Nothing waits for you. New requests appear here by themselves."
    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("a", "say('approve')", show=False),
        Binding("e", "edit('editor')", show=False),
        Binding("i", "edit_or_info", show=False),
        Binding("r", "reject", show=False),
        Binding("p", "respond", show=False),
        Binding("g", "grant", show=False),
        Binding("c", "say('check')", show=False),
        Binding("d", "details_or_done", show=False),
        Binding("f", "say('mark_failed')", show=False),
        Binding("t", "say('retry')", show=False),
        Binding("w", "whole", show=False),
        Binding("x", "extend", show=False),
        Binding("comma,left_square_bracket", "choose(-1)", show=False),
        Binding("full_stop,right_square_bracket", "choose(1)", show=False),
        Binding("l", "team('claim')", show=False),
        Binding("n", "team('comment')", show=False),
        Binding("u", "team('escalate')", show=False),
        Binding("v", "watch", show=False),
        Binding("space", "tick", show=False),
        Binding("asterisk", "tick_all", show=False),
        Binding("s", "several", show=False),
    ]
    keys: ClassVar[Sequence[tuple[str, str]]] = (
        ("a", "approve"),
        ("e", "edit in your editor"),
        ("i", "edit here"),
        ("r", "reject"),
        ("p", "respond"),
        ("g", "grant"),
        ("w", "whole"),
        ("x", "an hour more"),
        ("d", "details"),
        (", .", "one call"),
        ("l", "claim, or release"),
        ("n", "comment"),
        ("u", "escalate"),
        ("v", "its task"),
        ("Space *", "tick it, or all"),
        ("s", "those that are ticked, together"),
        ("c d f t", "of an unknown outcome: check, done, failed, retry; i has the details"),
    )
    hinted = (
        *(("Enter", "open"), ("Space", "tick"), ("s", "together"), ("g", "grant"), ("x", "an hour more")),
        *((", .", "one call"), ("v", "its task"), ("l", "claim"), ("n", "comment"), ("u", "escalate")),
    )

    def __init__(self, desk: Any) -> None:
        super().__init__(desk)
        self._shown: HitlResponse | None = None
        """The request on the page, and the calls that keys apply to."""
        self._how = ""
        """Why it is closed; empty: it is open."""
        self._since = 0.0
        """The time.monotonic at which what is shown came on the screen."""
        self._left = ""
        """The time that people have, as the page says it."""
        self._one: int | None = None
        """The call that keys are about; None: all."""
        self._deciding = Deciding(self)
        self._picking = Picking(self, self._deciding)

    @property
    def count(self) -> int | None:
        return len(self.desk.reviews.requests) + len(self.desk.reviews.odd)

    @property
    def computer(self) -> str | None:
        """See Pane."""
        shown = self._shown
        named = (call.computer for call in shown.tool_calls) if shown is not None else ()
        return next((one for one in named if one), None)

    def is_mine(self, request_id: str) -> bool:
        """Whether the person here decides, or decided, this request."""
        return request_id in self._deciding.mine

    # -- what is shown -------------------------------------------------------------------

    def entered(self) -> None:
        """It is on the screen now, and was not before."""
        self._since = time.monotonic()
        super().entered()

    def heard(self, message: Any) -> None:
        """The reviewers' socket told something."""
        shown = self._shown
        if isinstance(message, review.RequestClosed) and shown is not None:
            if message.request_id == shown.request_id:
                self._was_closed(message.how)
        elif isinstance(message, review.Snapshot) and shown is not None and not self._how:
            if shown.request_id not in self.desk.reviews.requests:
                self._was_closed("while there was no connection")
        elif isinstance(message, review.RequestReminded):
            self.desk.tell(reminded(message, now()))
        self.changed()

    def _was_closed(self, how: str) -> None:
        if self._shown is not None and self._shown.request_id in self._deciding.mine:
            # Its own person decided it, and is told so: the next one may come.
            self._shown = None
        else:
            self._how = how
            self._draw()

    def changed(self) -> None:
        """Draw the list, and the page where its request is another now."""
        present = self.desk.reviews.requests
        shown = self._shown
        entries = [entry_of(one, ticked=self._picking.ticked(key)) for key, one in present.items()]
        entries += [odd_entry_of(one) for one in self.desk.reviews.odd.values()]
        if shown is not None and self._how and self.rows.chosen == shown.request_id:
            # It stays until the person moves on: the call that a key is about never changes under one's hands.
            at = min(self.rows.at, len(entries))
            entries.insert(at, entry_of(shown, closed=True))
        self.fill(entries)
        if shown is None:
            self._draw()
            return
        now_open = present.get(shown.request_id)
        if now_open is None or self._how:
            return
        if not same(shown, now_open):
            if shown.request_id not in self._deciding.mine:
                self.desk.tell("A request has changed; this is how it is now.")
            self.chosen(shown.request_id)
        elif (shown.expires_at, shown.team, self._left) != (now_open.expires_at, now_open.team, left_of(shown)):
            self._shown = shown.model_copy(update={"expires_at": now_open.expires_at, "team": now_open.team})
            self._draw(stay=True)

    def action_back(self) -> None:
        """Go back to the list; a closed request is done with."""
        super().action_back()
        if self._how:
            self._shown, self._how = None, ""
            self.changed()

    def chosen(self, key: str | None) -> None:
        """Show a request."""
        closed, before = self._shown if self._how else None, self._shown
        found = self.desk.reviews.requests.get(key or "")
        if found is None and closed is not None and closed.request_id == key:
            return
        self._shown, self._how, self._one = found, "", None
        if found is not None and (before is None or not same(before, found)):
            self._since = time.monotonic()
        self._draw()
        if closed is not None:
            self.call_later(self.changed)

    def _draw(self, *, stay: bool = False) -> None:
        shown = self._shown
        odd = self.desk.reviews.odd.get(self.rows.chosen or "")
        if shown is None:
            self.page.show(odd_lines(odd) if odd is not None else nothing_waits(self.desk.reviews.others))
            self.label("This program cannot read it, and decides nothing about it" if odd is not None else "")
            return
        self._left = left_of(shown)
        closed = [Line(f"── {closed_meanwhile(self._how)} ── Nothing can be decided here any more.", "warning", True)]
        self.page.show([*(closed if self._how else []), *page(shown, now=now())], stay=stay or bool(self._how))
        self._label()

    def _label(self) -> None:
        shown = self._shown
        assert shown is not None
        if self._how:
            self.label(f"CLOSED: {self._how}")
            return
        count = len(shown.tool_calls)
        about = f"call {self._one + 1} of {count}" if self._one is not None else f"all {count} calls"
        which = f"{about} (, .): " if count > 1 else ""
        words = ", ".join(f"{key} {word}" for key, word in words_of(self._choices()))
        self.label(f"{which}{words}")

    def _choices(self) -> Choices:
        """The decisions that keys can make on the calls that they are about."""
        assert self._shown is not None
        choices = Choices(self._shown)
        choices.chosen = self._one
        return choices

    def _calls(self) -> tuple[RequestedCallView, ...]:
        return self._choices().calls

    def _ready(self, word: str = "") -> HitlResponse | None:
        """The request, where the key of now can say this of it; else None, and said why. Empty: it is no decision."""
        shown = self._shown
        if shown is None:
            odd = self.rows.chosen in self.desk.reviews.odd
            self.desk.tell("This program cannot read it: nothing is decided about it." if odd else "Nothing is chosen.")
        elif self._how:
            self.desk.tell(closed_meanwhile(self._how))
        else:
            refusal = self._choices().refusal(word) if word else None
            if refusal is None and not self.desk.too_early(self._since):
                return shown
            self.desk.tell(JUST_COME if refusal is None else _REFUSED[refusal])
        return None

    # -- what is decided -----------------------------------------------------------------

    def action_say(self, word: str) -> None:
        """Say one word of it, once that is confirmed."""
        self._begin(word, self._deciding.say, word)

    def action_reject(self) -> None:
        """It does not run: say why, and what the task does then."""
        self._begin("reject", self._deciding.reject)

    def action_respond(self) -> None:
        """It does not run: the model is told a text in place of a result."""
        self._begin("respond", self._deciding.respond)

    def action_grant(self) -> None:
        """Approve it, and what is like it from now on."""
        self._begin("remember", self._deciding.grant)

    def action_edit_or_info(self) -> None:
        """Edit it here; of an unknown outcome, where d marks it as done, all details."""
        if self._shown is not None and self._shown.reason == "outcome_unknown":
            self._details()
        else:
            self.action_edit("here")

    def action_edit(self, where: str) -> None:
        """Change it, and approve what was written."""
        self._begin("edit", self._deciding.edit, where)

    def _begin(self, word: str, ask: Callable[..., Coroutine[Any, Any, None]], *how: str) -> None:
        shown = self._ready(word)
        if shown is not None:
            begin(self, ask, *how, shown, self._calls())

    # -- what the reviewers tell each other -----------------------------------------------

    def action_team(self, what: str) -> None:
        """Claim or release it, comment on it, or escalate it."""
        shown = self._ready()
        if shown is not None:
            begin(self, {"claim": self._claim, "comment": self._comment, "escalate": self._escalate}[what], shown)

    async def _claim(self, shown: HitlResponse) -> None:
        await self.desk.learn_me()
        holder = holder_of(shown, now())
        if holder and (holder == self.desk.me.get("name") or self.desk.may("everything")):
            await self._post(shown, "release", {}, "Nobody claims it any more: others decide it again.")
        else:
            await self._post(shown, "claim", {}, "It is yours for 10 minutes; l gives it back.")

    async def _comment(self, shown: HitlResponse) -> None:
        title = "What do you say to the next reviewer, or to the person who asked?"
        text = await self.app.push_screen_wait(Ask(title, most=MAX_REASON_CHARS, about=shown.request_id))
        if text:
            await self._post(shown, "comment", {"text": text}, "Your comment stands at the request.")

    async def _escalate(self, shown: HitlResponse) -> None:
        title = "Give it to the people who come next?"
        told = "Its time begins again, and those who reviewed it before no longer decide it."
        lines = [Line(f"  {in_short(shown)}", "call"), Line(f"  {told}", prose=True)]
        if await self.app.push_screen_wait(Choose(title, lines, [("y", "yes")], about=shown.request_id, enter="y")):
            await self._post(shown, "escalate", {}, "Carried out: it went to the people who come next.")

    async def _post(self, shown: HitlResponse, what: str, body: Mapping[str, str], done: str) -> None:
        if await self.desk.ask("POST", f"/v1/requests/{shown.request_id}/{what}", body) is not None:
            self.desk.tell(done)

    # -- several together ----------------------------------------------------------------

    def action_tick(self) -> None:
        """Take what is chosen together with others, or not any more."""
        self._picking.turn(self.rows.chosen)
        self.changed()
        self.rows.action_move(1)

    def action_tick_all(self) -> None:
        """Tick all of them, or none."""
        self._picking.turn_all()
        self.changed()

    def action_several(self) -> None:
        """Show those that are ticked, each whole, for one decision."""
        asked = self._picking.asked()
        if asked:
            begin(self, self._picking.decide, asked)

    # -- what is only looked at ----------------------------------------------------------

    def action_choose(self, by: int) -> None:
        """Keys apply to the next call, or to all of them."""
        shown = self._shown
        if shown is None or len(shown.tool_calls) < 2:
            return
        count = len(shown.tool_calls)
        at = ((-1 if self._one is None else self._one) + by + 1) % (count + 1) - 1
        self._one = None if at < 0 else at
        start = f"  [{at + 1}/{count}] "
        self.page.show_line(
            0
            if at < 0
            else next((number for number, line in enumerate(self.page.lines) if line.text.startswith(start)), 0)
        )
        self._label()

    def action_details_or_done(self) -> None:
        """All of it as JSON; of an unknown outcome: it was carried out."""
        if self._shown is not None and self._shown.reason == "outcome_unknown":
            self.action_say("mark_done")
        else:
            self._details()

    def _details(self) -> None:
        if self._shown is not None:
            self.app.push_screen(Show("All of it: digests, hashes, rules", details(self._shown, self._calls())))

    def action_whole(self) -> None:
        """Fetch what was cut, and show all of it."""
        if self._shown is not None and not self._how:
            begin(self, self._whole, self._shown)

    async def _whole(self, shown: HitlResponse) -> None:
        whole = await self.desk.reviews.whole(shown.request_id)
        if whole is None or self._shown is not shown:
            return
        self._shown, self._one, self._since = whole, None, time.monotonic()
        self._draw()
        self.desk.tell("This is all of it.")

    def action_extend(self) -> None:
        """An hour more before it expires."""
        shown = self._shown
        if shown is None or shown.expires_at is None:
            self.desk.tell("It does not expire.")
        elif not self._how:
            begin(self, self._extend, shown)

    async def _extend(self, shown: HitlResponse) -> None:
        assert shown.expires_at is not None
        body = {"seconds": an_hour_more(shown.expires_at, now())}
        if await self.desk.ask("POST", f"/v1/requests/{shown.request_id}/extend", body) is not None:
            self.desk.tell("It expires an hour later.")

    def action_watch(self) -> None:
        """Show its task."""
        if self._shown is not None:
            self.desk.go("tasks", self._shown.task_id)
