"""The head of a large terminal: the server and the person, and counts of what there is, as it changes."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.text import Text
from textual.widgets import Static

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.tui.lines_view import begin, fitted, name_of
from orchestrator.terminal.tui.reviews import Reviews
from orchestrator.terminal.tui.states import Tone, style_of

_CALM_S: Final = 0.5
"""Between two readings."""
_MOST: Final = 500
"""Tasks that are counted, the newest."""


@dataclass
class Counts:
    """The counted things; None: the server has not told yet."""

    connected: int | None = None
    computers: int = 0
    frozen: int = 0
    running: int = 0
    queued: int = 0


def counts_of(computers: Sequence[Mapping[str, Any]], tasks: Sequence[Mapping[str, Any]]) -> Counts:
    """Count them."""
    states = Counter(one["state"] for one in computers)
    statuses = Counter(one["status"] for one in tasks)
    return Counts(states["online"], len(computers), states["frozen"], statuses["Running"], statuses["Queued"])


class Header(Static):
    """Two lines: who and where, and the counts."""

    def __init__(self, reviews: Reviews) -> None:
        super().__init__("", markup=False, id="header")
        self._reviews = reviews
        self._hello: Mapping[str, Any] = {}
        self._counts = Counts()
        self._again = asyncio.Event()
        self._connection = ""

    def on_mount(self) -> None:
        begin(self, self._read_again)

    def on_resize(self) -> None:
        self.draw(self._connection)

    def greeted(self, hello: Mapping[str, Any]) -> None:
        """The server has said who listens; an older one says less."""
        self._hello = hello

    def changed(self) -> None:
        """Count again, soon."""
        self._again.set()

    async def _read_again(self) -> None:
        while True:
            await self._again.wait()
            self._again.clear()
            try:
                computers = await self._reviews.live.ask("GET", "/v1/computers")
                tasks = await self._reviews.live.ask("GET", "/v1/tasks", limit=_MOST)
            except OrchestratorError:
                # The first line says so.
                pass
            else:
                self._counts = counts_of(computers["computers"], tasks["tasks"])
                self.draw(self._connection)
            await asyncio.sleep(_CALM_S)

    def draw(self, connection: str) -> None:
        """Draw both lines; ``connection``: how it stands, as a sentence."""
        self._connection = connection
        columns = self.size.width - 2
        if columns < 1:
            return
        text = self._first(columns)
        text.append("\n")
        text.append_text(self._second())
        self.update(text)

    def _first(self, columns: int) -> Text:
        roles = ", ".join(str(one) for one in self._hello.get("roles") or ())
        who = f"{name_of(str(self._hello['name']))} ({one_line(roles) or 'no role'})" if "name" in self._hello else ""
        model = f"model {name_of(str(self._hello['model']))}" if self._hello.get("model") else ""
        right = "   ".join(one for one in (who, model) if one)
        left = fitted(self._connection, max(1, columns - len(right) - 20))
        text = Text("cc-orchestrator  ", "bold")
        text.append(left, "bold reverse" if self._reviews.why_away and self._reviews.was_there else "")
        text.append(" " * max(3, columns - text.cell_len - len(right)))
        text.append(right)
        return text

    def _second(self) -> Text:
        counts, reviews = self._counts, self._reviews
        text = Text("")
        requests = len(reviews.requests) + len(reviews.odd)
        if counts.connected is not None:
            self._count(text, "Computers", ((f"● {counts.connected}/{counts.computers}", "online", "good"),))
            if counts.frozen:
                self._count(text, "", ((f"! {counts.frozen}", "frozen", "bad"),))
        waits: list[tuple[str, str, Tone]] = [(f"◆ {requests}", "waiting for you", "waits")]
        if reviews.others:
            waits.append((f"◆ {reviews.others}", "for others", "quiet"))
        self._count(
            text,
            "Tasks",
            (
                (f"▶ {counts.running}", "running", "busy"),
                *waits,
                (f"… {counts.queued}", "queued", "quiet"),
            ),
        )
        self._count(text, "Questions", ((f"? {len(reviews.questions)}", "open", "waits"),))
        return text

    def _count(self, text: Text, title: str, ones: Sequence[tuple[str, str, Tone]]) -> None:
        if title:
            text.append(f"{'    ' if text else ''}{title}", "bold")
        for figure, word, tone in ones:
            none = figure.split()[1].startswith("0")
            style = style_of("quiet" if none else tone, dark=self.app.current_theme.dark)
            text.append("  ")
            text.append(f"{figure} {word}", style)
