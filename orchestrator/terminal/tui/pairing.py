"""Pairing a computer: the line to type there, how long it works, what was seen of the attempt, and that it came."""

import asyncio
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from orchestrator.client import ServerUnreachable
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.output import elapsed
from orchestrator.terminal.review.request_view import Line
from orchestrator.terminal.tui.dialogs import Dialog, Field, Form
from orchestrator.terminal.tui.lines_view import Desk, LinesView, begin, name_of

_LOOK_S: Final = 0.5
_CLOCKS: Final = timedelta(seconds=3)
"""Seconds by which this machine's idea of the server's time may be wrong."""
_HTTPS_PORT, _HTTP_PORT = 443, 80

Tokens = dict[str, str]
"""The tokens of computers: each with its time, and the computer's name."""


async def pair(desk: Desk, push: Any) -> None:
    """Make a code, and show its line until the person leaves it; ``push`` shows a dialog and waits."""
    filled = await push(
        Form(
            "Pair a computer",
            [
                Field("computer", "Its name here (empty: its id in the game)", most=64),
                Field("label", "Its label, if it has none (may be empty)", most=32),
            ],
        )
    )
    if filled is None:
        return
    before = await tokens(desk)
    since = desk.live.client.clock.now() - _CLOCKS
    body = {name: value for name, value in filled.lines.items() if value}
    made = await desk.ask("POST", "/v1/pairings", body) if before is not None else None
    if made is not None and before is not None:
        await push(Pairing(desk, made, before, since))


async def tokens(desk: Desk) -> Tokens | None:
    """The good tokens; None, with the reason: nobody can tell."""
    found = await desk.ask("GET", "/v1/tokens")
    return None if found is None else _tokens_of(found)


def _tokens_of(found: Mapping[str, Any]) -> Tokens:
    good = [one for one in found["tokens"] if one["kind"] == "computer" and not one["revoked"]]
    return {f"{one['name']} {one['created_at']}": str(one["name"]) for one in good}


class Pairing(Dialog[None]):
    """Shows the line, and looks until the computer is there."""

    keys = "Esc leaves (the line goes on working)"

    def __init__(self, desk: Desk, made: Mapping[str, Any], before: Tokens, since: datetime) -> None:
        super().__init__("On the computer in the game, type:")
        self._desk, self._made, self._before, self._since = desk, made, before, since
        self._computer: Mapping[str, Any] | None = None
        self._doctor: Mapping[str, Any] = {}

    def inside(self) -> Any:
        yield LinesView(id="dialog-lines")

    def on_mount(self) -> None:
        self.query_one(LinesView).focus()
        self._draw()
        begin(self, self._watch)

    async def _watch(self) -> None:
        """Look, until it is connected."""
        while self._computer is None or not self._computer["online"]:
            try:
                await self._look()
            except ServerUnreachable:
                # The next look tells.
                pass
            except OrchestratorError as error:
                self.query_one(LinesView).add([Line(one_line(str(error), limit=500), "alarm", prose=True)])
                return
            self._draw()
            if self._computer is None or not self._computer["online"]:
                await asyncio.sleep(_LOOK_S)
        self._desk.tell(f"Computer {name_of(self._computer['computer'])} is connected.")

    async def _look(self) -> None:
        live = self._desk.live
        now = _tokens_of(await live.ask("GET", "/v1/tokens"))
        fresh = [name for key, name in now.items() if key not in self._before]
        wanted = self._made["computer"]
        paired = next((name for name in fresh if wanted in (None, name)), None)
        if paired is not None:
            listed = (await live.ask("GET", "/v1/computers"))["computers"]
            self._computer = next((one for one in listed if one["computer"] == paired), None)
        self._doctor = await live.ask("GET", "/v1/doctor")

    def _draw(self) -> None:
        self.query_one(LinesView).show(self._lines(), stay=True)

    def _lines(self) -> Iterator[Line]:
        yield Line("")
        yield Line(one_line(self._made["line"], limit=500), "call")
        yield Line("")
        if warning := self._made.get("warning"):
            yield Line(one_line(warning, limit=500), "alarm", prose=True)
            yield Line("")
        left = (datetime.fromisoformat(self._made["expires_at"]) - self._desk.live.client.clock.now()).total_seconds()
        if self._computer is not None:
            name = name_of(self._computer["computer"])
            if self._computer["online"]:
                yield Line(f"{name} is connected!", "title")
            else:
                yield Line(f"{name} is paired. It connects as soon as its client has started…", "title", prose=True)
            return
        yield Line(f"It works once, for {elapsed(left)} more." if left > 0 else "It has lapsed: make another.")
        yield Line("Waiting for the computer…", "title")
        yield from self._seen()
        yield Line("")
        yield from _hints(self._made["url"])

    def _seen(self) -> Iterator[Line]:
        """The attempts that the server saw since the line was made."""
        refused = next(
            (one for one in self._doctor.get("refused", ()) if one["path"] == "/v1/pair" and self._is_new(one)), None
        )
        fetched = next(
            (one for one in self._doctor.get("installers", ()) if not one["paired"] and self._is_new(one)), None
        )
        if refused is not None:
            said = f"{refused['message']} {refused['remedy']}"
            yield Line(
                f"A computer at {one_line(refused['peer'])} was turned away: {one_line(said, limit=500)}",
                "alarm",
                prose=True,
            )
        elif fetched is not None:
            yield Line(f"A computer at {one_line(fetched['peer'])} fetched the installer.", prose=True)

    def _is_new(self, one: Mapping[str, Any]) -> bool:
        return datetime.fromisoformat(one["at"]) >= self._since


def _hints(url: str) -> Iterator[Line]:
    """The most frequent faults."""
    there = urlsplit(url)
    host, port = there.hostname or "", there.port or (_HTTPS_PORT if there.scheme == "https" else _HTTP_PORT)
    yield Line("It does not work?", "title")
    yield Line(
        "Domain not permitted: the mod refuses private addresses until a rule allows them. Into "
        "computercraft-server.toml of the world, before the rule for $private, then restart the world:",
        prose=True,
    )
    yield Line(f'  [[http.rules]] host = "{one_line(host)}" port = {port} action = "allow"', prose=True)
    yield Line(f"The Minecraft server dials, not your own machine: it has to reach {one_line(host)}.", prose=True)
    yield Line("No such program wget: HTTP is turned off in the mod's settings (http.enabled).", prose=True)
    yield Line("`cc-orchestrator doctor` says what the server saw.", prose=True)
