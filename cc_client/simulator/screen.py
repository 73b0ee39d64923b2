"""The computer's screen as a person sees it, shown to whoever runs the simulator."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

Say = Callable[[str], None]


@dataclass
class Screen:
    """The newest picture of the terminal.

    Args:
        say: Prints a line on the simulator's standard output; None: nobody looks there.
        log: Keeps each new row; None: nobody does.
        file: Holds the whole screen after each change; None: no file does.
    """

    say: Say | None = None
    log: Say | None = None
    file: Path | None = None
    blink: bool = False
    cursor: tuple[int, int] = (1, 1)
    rows: list[str] = field(default_factory=list)
    _seen: list[str] = field(default_factory=list)
    """The rows that were shown last."""
    _waiting: list[tuple[str, "asyncio.Future[None]"]] = field(default_factory=list)

    def show(self, text: bytes, x: int, y: int, blink: bool) -> None:
        """The picture after the computer has had its turn."""
        self.rows = [_readable(row) for row in text.decode("latin-1").split("\n")]
        self.cursor, self.blink = (int(x), int(y)), bool(blink)

    def settle(self) -> None:
        """The computer waits now: what it has drawn is what the player sees."""
        if self.rows == self._seen:
            return
        before, self._seen = self._seen, self.rows
        for number, row in news(before, self.rows) if self.say or self.log else ():
            if self.say is not None:
                self.say(f"screen {number}: {row}")
            if self.log is not None:
                self.log(row)
        if self.file is not None:
            self._write(self.file)
        for wanted, future in self._waiting:
            if not future.done() and self.has(wanted):
                future.set_result(None)

    def has(self, text: str) -> bool:
        """Whether a text is on the screen, also where it runs from one row into the next."""
        words = " ".join(" ".join(self._seen).split())
        return any(text in seen for seen in ("\n".join(self._seen), "".join(self._seen), words))

    async def wait_for(self, text: str) -> None:
        """Return when a text is on the screen."""
        if self.has(text):
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((text, future))
        try:
            await future
        finally:
            self._waiting.remove((text, future))

    def told(self) -> dict[str, object]:
        """Rows, cursor and whether it blinks."""
        return {"rows": self.rows, "cursor": self.cursor, "blink": self.blink}

    def _write(self, file: Path) -> None:
        # In one step: who reads it sees one picture or the other.
        temporary = file.with_name(file.name + ".new")
        temporary.write_text("\n".join(self.rows) + "\n", "utf-8")
        temporary.replace(file)


def news(before: list[str], after: list[str]) -> list[tuple[int, str]]:
    """The rows that are new, numbered from 1; what has only scrolled up is not."""

    def alike(shift: int) -> int:
        return sum(1 for old, new in zip(before[shift:], after, strict=False) if old and old == new)

    shift = max(range(max(1, len(before))), key=lambda rows: (alike(rows), -rows))
    shifted = before[shift:] + [""] * shift
    shifted += [""] * (len(after) - len(shifted))
    return [(n, row) for n, (row, old) in enumerate(zip(after, shifted, strict=False), 1) if row and row != old]


def _readable(row: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in row).rstrip()
