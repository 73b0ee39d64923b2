"""Which requests are decided together: those that are ticked in the list."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.core.approval.approval import HitlResponse
from orchestrator.terminal.tui.batch import MOST, Together
from orchestrator.terminal.tui.decision import Deciding

if TYPE_CHECKING:
    from orchestrator.terminal.tui.pane import Pane
    from orchestrator.terminal.tui.reviews import Reviews


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
        """What is decided together; empty, and said why: nothing can be."""
        found = [one for key, one in self._reviews.requests.items() if key in self._keys]
        said = ""
        if not found:
            said = "Tick those that you want to decide together: Space one, * all."
        elif len(found) > MOST:
            said = f"At most {MOST} are decided together."
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
