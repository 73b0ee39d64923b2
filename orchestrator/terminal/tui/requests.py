"""A request in few words: its row in the list, the keys that it takes, and what is asked before one of them counts."""

from collections.abc import Iterator
from typing import Final

from orchestrator.core.approval.approval import HitlResponse, RequestedCallView
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.review.channel import OddRequest, others_wait
from orchestrator.terminal.review.edit import Choices
from orchestrator.terminal.review.request_view import Line, short, time_left
from orchestrator.terminal.tui.lines_view import now
from orchestrator.terminal.tui.row_list import Entry

ASKS: Final = {
    "approve": "Let it run, exactly as it stands on the screen?",
    "check": "Ask the computer once more?",
    "mark_done": "It was carried out: tell the model so?",
    "mark_failed": "It was not carried out: tell the model that it failed?",
    "retry": "Ask for it anew, as a new call with a new approval?",
}
"""What is asked before a word is sent."""


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


def entry_of(request: HitlResponse, *, closed: bool = False, ticked: bool | None = None) -> Entry:
    """A request as a row of the list; ``ticked`` None: none is."""
    left = "closed" if closed else "-" if request.expires_at is None else time_left(request.expires_at, now())
    mark = "" if ticked is None else f"[{'x' if ticked else ' '}] "
    by = one_line(str(request.requester), limit=30)
    return Entry(request.request_id, (f"{mark}{request.risk}", left, by, in_short(request)))


def odd_entry_of(odd: OddRequest) -> Entry:
    """A request that this program cannot read as a row of the list."""
    return Entry(odd.request_id, ("?", "?", "?", "A request that this program cannot read: Enter shows all of it"))


def in_short(request: HitlResponse) -> str:
    """A request on one line: what of it is asked."""
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
