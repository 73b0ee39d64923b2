"""A list of which any number of rows can be ticked, as ``[x]``."""

from collections.abc import Iterable, Sequence

from textual.binding import Binding

from orchestrator.terminal.tui.row_list import Entry, RowList


class Ticks(RowList):
    """Rows to tick with the space bar."""

    BINDINGS = [Binding("space,x", "tick", show=False)]  # noqa: RUF012 - as the library has it

    def __init__(
        self,
        head: Sequence[str],
        rows: Sequence[tuple[str, tuple[str, ...]]],
        *,
        ticked: Iterable[str] = (),
        empty: str = "",
        id: str | None = None,
    ) -> None:
        super().__init__((f"    {head[0]}", *head[1:]), empty=empty, id=id)
        self._choices = rows
        self._ticked = set(ticked)

    @property
    def ticked(self) -> list[str]:
        """The keys of what is ticked, in the order of the rows."""
        return [key for key, _ in self._choices if key in self._ticked]

    def offer(self, rows: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        """Other rows in place of these; none of them is ticked."""
        self._choices, self._ticked = rows, set()
        self._mark()

    def on_mount(self) -> None:
        self._mark()

    def action_tick(self) -> None:
        """Tick the row, or take its tick away."""
        if self.chosen is not None:
            self._ticked ^= {self.chosen}
            self._mark()

    def _mark(self) -> None:
        self.show(
            [
                Entry(key, (f"[{'x' if key in self._ticked else ' '}] {cells[0]}", *cells[1:]))
                for key, cells in self._choices
            ]
        )
