"""The doors to screens: who looks at a computer, live, and what is typed there from outside.

A picture is shown as it stands there, to people with a token: what somebody sees who stands before the computer. Who
types is the person who paired it, or an admin; that is written down before anything goes out.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import lru_cache
from typing import Final, Protocol

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response

from orchestrator.computers.hub import CannotType, Gone, Hidden, Mirror, Seen, Sight, TooManyWatch, Watcher
from orchestrator.core.errors import Forbidden, InvalidRequest, OrchestratorError
from orchestrator.core.ports import Identity
from orchestrator.core.task.budget import Budget
from orchestrator.core.task.system_facts import KeysSent
from orchestrator.core.text.charset import as_cells
from orchestrator.core.text.redact import redact_text
from orchestrator.core.wire.identity import frozen_remedy, frozen_sentence
from orchestrator.core.wire.key_events import of_keys, of_text
from orchestrator.core.wire.picture import Row
from orchestrator.core.wire.wire import ComputerId, from_wire
from orchestrator.engine.tasks import person
from orchestrator.runtime.logs import SALT
from orchestrator.web.bodies import KeysBody
from orchestrator.web.computers import ComputerDoors, RefusingComputers
from orchestrator.web.events import EventStream
from orchestrator.web.requests import read_body

TERMINAL: Final = "terminal"
SILENCE_S: Final = 5.0
"""How often a stream says that it lives where nothing changes: who looks at a screen wonders sooner."""
KEYS_IN_S: Final = 4.0
KEYS_AT_ONCE: Final = 40.0
"""Times that one person types at one computer: who types fast sends several keys at once."""
_MAX_BUDGETS: Final = 1000
_KEPT: Final = 16
"""Events that are kept for others who look at the same screen in that moment; the largest has 100 kB."""
_MAX_NAME_CHARS: Final = 64


class TooManyKeys(OrchestratorError):
    """Somebody types faster than a person."""

    code = "too_many_keys"
    http_status = 429


class MirroringComputers(RefusingComputers, Protocol):
    """The hub, as these doors need it."""

    mirror: Mirror


class ScreenDoors(ComputerDoors):
    """``/v1/computers/{name}/screen``, ``/screens`` and ``/keys``."""

    computers: MirroringComputers
    remote_keys: str
    """``owner`` or ``off``."""
    budgets: dict[tuple[str, str], Budget]

    async def screens(self, request: Request) -> Response:
        """``GET /v1/computers/{name}/screens``: what can be watched of it."""
        await self.who(request)
        name = (await self._known(request)).computer
        found = await self.computers.mirror.screens(name)
        shown = [
            {"of": TERMINAL if one.of is None else from_wire(one.of), "width": one.width, "height": one.height}
            for one in found
        ]
        return JSONResponse({"screens": shown})

    async def screen(self, request: HTTPConnection) -> EventStream:
        """``GET /v1/computers/{name}/screen``: its picture, and what changes, as events."""
        identity = await self.who(request)
        name = (await self._known(request)).computer
        of = request.query_params.get("of") or TERMINAL
        if len(of) > _MAX_NAME_CHARS:
            raise InvalidRequest(f"No screen has a name of {len(of)} characters.", remedy="/screens lists them.")
        of = "" if of == TERMINAL else of
        self.computers.mirror.must_have_room(name, of)
        return self.stream(identity, lambda over: self._pictures(name, of, over))

    async def keys(self, request: Request) -> Response:
        """``POST /v1/computers/{name}/keys``: type there, once."""
        identity = await self.who(request)
        record = await self._known(request)
        body = await read_body(request, KeysBody)
        if (body.text is None) == (body.keys is None):
            raise InvalidRequest("Either text is typed or keys are.", remedy="Send one of `text` and `keys`.")
        strokes = of_keys(body.keys or ()) if body.text is None else of_text(body.text)
        await self._must_type(identity, record.computer)
        if record.frozen is not None:
            raise CannotType(frozen_sentence(record.frozen), remedy=frozen_remedy(record.frozen))
        self.computers.mirror.must_take_keys(record.computer)
        self._spend(identity, record.computer)
        text = redact_text(body.text or "", salt=SALT)
        fact = KeysSent(computer=record.computer, text=text, keys=body.keys or ())
        await self.service.record(fact, person(identity))
        typed = await self.computers.mirror.type(record.computer, strokes)
        return JSONResponse({"delivered": typed.delivered, "message": typed.message})

    async def _must_type(self, identity: Identity, computer: ComputerId) -> None:
        """Raises Forbidden unless somebody may type there: an admin, or whoever paired it as it is paired now."""
        if self.remote_keys == "off":
            raise Forbidden(
                "Nobody types at computers from outside here.", remedy="The setting `remote_keys` allows it."
            )
        rows = await self.service.store.list_tokens()
        owners = {row.owner for row in rows if row.kind == "computer" and row.name == computer and not row.revoked}
        if "admin" not in identity.roles and owners != {identity.name}:
            raise Forbidden(
                f"{identity.name} may not type at computer {computer}.",
                remedy="Only who paired it, or an admin, may: ask one of them, or pair it anew.",
            )

    def _spend(self, identity: Identity, computer: ComputerId) -> None:
        """Raises TooManyKeys."""
        key, now = (identity.name, computer), time.monotonic()
        budget = self.budgets.pop(key, None) or Budget(KEYS_IN_S, KEYS_AT_ONCE, now)
        self.budgets[key] = budget
        if len(self.budgets) > _MAX_BUDGETS:
            del self.budgets[next(iter(self.budgets))]
        if not budget.takes(1, now):
            raise TooManyKeys("That is faster than a person types.", remedy="Send several keys at once.")

    async def _pictures(self, computer: ComputerId, of: str, over: asyncio.Event) -> AsyncGenerator[bytes, None]:
        """The events of one watcher, until the reader goes, may not look any more, or the orchestrator closes.

        Where the last room went to somebody else meanwhile it ends at once, and the reader comes again and is told.
        """
        with suppress(TooManyWatch), self.computers.mirror.watching(computer, of) as watcher:
            ending = asyncio.create_task(_end(watcher, over))
            try:
                yield b": watching\n\n"
                while not watcher.is_over:
                    sight = await watcher.next(SILENCE_S)
                    yield b": still here\n\n" if sight is None else await _event(of or TERMINAL, sight)
            finally:
                ending.cancel()
                await asyncio.gather(ending, return_exceptions=True)


async def _end(watcher: Watcher, over: asyncio.Event) -> None:
    await over.wait()
    watcher.end()


async def _event(of: str, sight: Sight) -> bytes:
    """What a watcher is told, as an event. Pictures of the same moment are made one at a time."""
    # Whoever watches many screens lets others have their turn.
    await asyncio.sleep(0)
    match sight:
        case Seen():
            return _picture_event(of, sight)
        case Hidden():
            return _said("unreadable", {"of": of, "message": sight.message})
        case Gone():
            return _said("away", {"of": of})


@lru_cache(maxsize=_KEPT)
def _picture_event(of: str, sight: Seen) -> bytes:
    """A picture as an event; made once for all who see the same."""
    return _said("picture", _picture(of, sight))


def _said(kind: str, data: dict[str, object]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def _picture(of: str, sight: Seen) -> dict[str, object]:
    shown, whole = sight.shown, sight.rows is None
    rows = [
        _row(number, row)
        for number, row in enumerate(shown.rows, 1)
        if row is not None and (sight.rows is None or number in sight.rows)
    ]
    picture: dict[str, object] = {"of": of, "whole": whole, "width": shown.width, "height": shown.height}
    picture |= {"x": shown.x, "y": shown.y, "blink": shown.blink, "palette": shown.palette, "rows": rows}
    return picture


def _row(number: int, row: Row) -> dict[str, object]:
    return {"y": number, "text": list(as_cells(row.text)), "fg": row.fg, "bg": row.bg}
