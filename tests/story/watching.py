"""Who looks at a computer's screen through the public endpoint, as a page does."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.story.harness import Api
from tests.waiting import HANG_S


@dataclass
class Onlooker:
    """What one stream of a screen has told."""

    width: int = 0
    height: int = 0
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    palette: list[str] = field(default_factory=list)
    cursor: tuple[int, int, bool] = (0, 0, False)
    trouble: str = ""
    """``away``, the sentence of what is unreadable, or empty."""
    events: list[str] = field(default_factory=list)
    """The kinds of what came, a whole picture as ``whole``."""
    is_over: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def text(self) -> str:
        """What stands there, row by row."""
        return "\n".join("".join(self.rows[y]["text"]).rstrip() for y in sorted(self.rows))

    def find(self, text: str) -> dict[str, Any]:
        """The row with this text."""
        return next(row for row in self.rows.values() if text in "".join(row["text"]))

    async def until(self, what: str | Callable[["Onlooker"], bool]) -> None:
        """Wait until a text is there, or something holds."""
        holds = (lambda one: not one.trouble and what in one.text) if isinstance(what, str) else what
        try:
            async with asyncio.timeout(HANG_S):
                while not holds(self):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{what!r} never came; {self.trouble or self.text!r}") from None

    def take(self, kind: str, data: dict[str, Any]) -> None:
        """One event."""
        if kind == "picture":
            self._draw(data)
        else:
            self.trouble = data.get("message", kind)
        self.events.append("whole" if data.get("whole") else kind)
        self._changed.set()

    def _draw(self, data: dict[str, Any]) -> None:
        if data["whole"]:
            self.rows.clear()
            assert [row["y"] for row in data["rows"]] == list(range(1, data["height"] + 1))
        else:
            # A part of a picture changes no size.
            assert (data["width"], data["height"]) == (self.width, self.height)
        self.width, self.height, self.trouble = data["width"], data["height"], ""
        for row in data["rows"]:
            assert len(row["text"]) == len(row["fg"]) == len(row["bg"]) == data["width"]
            self.rows[row["y"]] = row
        self.palette, self.cursor = data["palette"], (data["x"], data["y"], data["blink"])

    async def follow(self, api: Api, computer: str, of: str) -> None:
        """Take what comes until the stream ends."""
        path = f"/v1/computers/{computer}/screen"
        with contextlib.suppress(Exception):
            async with api.http.stream("GET", path, params={"of": of}) as response:
                assert response.status_code == 200, response
                kind = ""
                async for line in response.aiter_lines():
                    if line.startswith("event: "):
                        kind = line.removeprefix("event: ")
                    elif line.startswith("data: "):
                        self.take(kind, json.loads(line.removeprefix("data: ")))
        self.is_over = True
        self._changed.set()


@contextlib.asynccontextmanager
async def looking(api: Api, computer: str, of: str = "terminal") -> AsyncIterator[Onlooker]:
    """An open stream."""
    one = Onlooker()
    following = asyncio.create_task(one.follow(api, computer, of))
    try:
        yield one
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
