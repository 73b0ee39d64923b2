"""The endpoints to computers: their list, frozen ones with the reason, and their release."""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final, Protocol, TypeVar

from pydantic import BaseModel
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket

from orchestrator.computers.hub import Admission, CannotType, Gone, Hidden, Mirror, Seen, Sight, TooManyWatch, Watcher
from orchestrator.computers.hub.known_computers import Refusals, Refused, frozen_refusal
from orchestrator.computers.nodes.seats import Found
from orchestrator.core.errors import Conflict, Forbidden, InvalidRequest, OrchestratorError, Unauthenticated
from orchestrator.core.ports import ComputerInfo, Computers, Identity
from orchestrator.core.task.limits import Budget
from orchestrator.core.task.system_facts import ComputerLabelled, ComputerReleased, KeysSent
from orchestrator.core.text.redact import redact_text
from orchestrator.core.text.visible import as_cells
from orchestrator.core.wire.cells import MOVED
from orchestrator.core.wire.identity import ComputerRecord, frozen_remedy, frozen_sentence
from orchestrator.core.wire.link import ComputerLink
from orchestrator.core.wire.screen_messages import of_keys, of_text
from orchestrator.core.wire.wire import COMPUTER_SUBPROTOCOL, HELLO_WITHIN_S, ComputerId, from_wire
from orchestrator.engine.tasks import person
from orchestrator.runtime.logs import SALT
from orchestrator.web.answers.base import (
    AwayEvent,
    HiddenEvent,
    KeysTyped,
    PictureEvent,
    PictureRow,
    ScreenList,
    ScreenRow,
)
from orchestrator.web.answers.tasks import (
    SAID,
    ComputerAnswer,
    ComputerFreed,
    ComputerList,
    ComputerLong,
    FrozenAnswer,
    LabelDone,
    NodeList,
    Position,
)
from orchestrator.web.auth import bearer_of, token_hash
from orchestrator.web.base import Room, no_computer
from orchestrator.web.bodies import MAX_OPEN_BYTES, KeysBody, LabelBody, offered, read_body
from orchestrator.web.errors import error_form
from orchestrator.web.events import EventStream
from orchestrator.web.sockets import accepted

# -- The endpoints to computers: who is there, which are frozen and why, and letting one come back


_NUMBER: Final = re.compile(r"([0-9]{1,18})")


def _in_order(named: tuple[str, str]) -> list[str | int]:
    """As people count: sim-2 comes before sim-10."""
    return [int(part) if place % 2 else part.lower() for place, part in enumerate(_NUMBER.split(named[0]))]


class NotASocket(OrchestratorError):
    """The computers' channel was asked for as a page."""

    code = "not_a_websocket"
    http_status = 426


class WrongSubprotocol(InvalidRequest):
    """A socket was offered that speaks something else."""

    code = "bad_subprotocol"
    http_status = 400


class TokenWasRevoked(Unauthenticated):
    """A computer's token that was good once; the computer itself hears only that it is not."""

    code = "revoked"


_Computer = TypeVar("_Computer", bound=ComputerAnswer)


class RefusingComputers(Computers, Protocol):
    """The hub, as the endpoints need it that tell whom it turned away."""

    refusals: Refusals
    admission: Admission

    async def look(self, computers: Collection[ComputerId]) -> Mapping[ComputerId, Found]:
        """What is known of computers now; of one that no node has welcomed nothing. Raises StoreAway."""

    async def confirm_label(self, computer: ComputerId, label: str) -> None:
        """An admin confirmed a computer's label, and the store knows it."""


def computer_answer(
    found: Found | None, record: ComputerRecord, owner: str, of: type[_Computer], **others: Any
) -> _Computer:
    """A computer as it is now; one that never said hello says nothing of itself."""
    info, node = (None, "") if found is None else found
    online = info is not None and info.online
    seen = record.known.at if record.known is not None else None
    if info is not None and info.left_at is not None:
        seen = info.left_at
    return of(
        computer=record.computer,
        online=online,
        state="frozen" if record.frozen is not None else "online" if online else "away",
        frozen=_frozen(record),
        owner=owner or None,
        seen_at=None if online else seen,
        node=node or None,
        **({} if info is None else {name: getattr(info, name) for name in SAID} | {"position": _position(info)}),
        **others,
    )


def _position(info: ComputerInfo) -> Position | None:
    if info.place is None or info.placed_at is None:
        return None
    x, y, z = info.place
    return Position(x=x, y=y, z=z, at=info.placed_at)


def _frozen(record: ComputerRecord) -> FrozenAnswer | None:
    fact = record.frozen
    if fact is None:
        return None
    message, remedy = frozen_sentence(fact), frozen_remedy(fact)
    return FrozenAnswer.made_from(fact, since=record.frozen_at, message=message, remedy=remedy)


class ComputerEndpoints(Room):
    """``/v1/computers``, and the clients that are turned away at ``/computer``."""

    computers: RefusingComputers
    nodes: Callable[[], dict[str, Any]]
    """The nodes that are heard now, this one first, and what is wrong with that."""

    async def list_computers(self, request: Request) -> ComputerList:
        """``GET /v1/computers``: all that have a token, connected or not."""
        identity = await self.who(request, agents=True)
        records = {one.computer: one for one in await self.service.store.list_computers()}
        reaches = self.authorizer.reaches
        owners = {name: one for name, one in (await self.computer_owners()).items() if reaches(identity, name)}
        found = await self.computers.look(list(owners))
        shown = [
            self._told(found.get(name), records.get(name) or ComputerRecord(name), owner, ComputerAnswer)
            for name, owner in sorted(owners.items(), key=_in_order)
        ]
        return ComputerList(computers=shown)

    async def computer(self, request: Request) -> ComputerLong:
        """``GET /v1/computers/{name}``: one with both sides of what froze it."""
        await self.who(request, agents=True)
        record = await self._known(request)
        owner = (await self.computer_owners()).get(record.computer, "")
        more = {"last": record.known, "released": record.released}
        found = await self.computers.look([record.computer])
        return self._told(found.get(record.computer), record, owner, ComputerLong, **more)

    def _told(
        self, found: Found | None, record: ComputerRecord, owner: str, of: type[_Computer], **more: Any
    ) -> _Computer:
        belongs_to = self.authorizer.directory().owners.get(record.computer)
        told = None if belongs_to is None else str(belongs_to)
        return computer_answer(found, record, owner, of, belongs_to=told, **more)

    async def release_computer(self, request: Request) -> ComputerFreed:
        """``POST /v1/computers/{name}/release``: the next connection with its token is the computer."""
        identity = await self.who(request)
        self.authorizer.must(identity, "everything")
        name = (await self._known(request)).computer
        released = ComputerReleased(computer=name, by=identity.name)
        done = await self.service.store.release_computer(self.service.draft(released, person(identity)))
        self.service.bus.publish("computers", {"computer": name})
        return ComputerFreed(computer=name, released=done)

    async def confirm_label(self, request: Request) -> LabelDone:
        """``POST /v1/computers/{name}/confirm-label``: the label of now is the only one that rules look at."""
        identity = await self.who(request)
        self.authorizer.must(identity, "everything")
        record = await self._known(request)
        body = await read_body(request, LabelBody, MAX_OPEN_BYTES)
        name = record.computer
        found = (await self.computers.look([name])).get(name)
        now = (found.info.label or "") if found is not None else record.known.label if record.known is not None else ""
        if now != body.label:
            remedy = f"Look at it with `cc-orchestrator computers show {name}`, then confirm the label of now."
            raise Conflict(f"The label of computer {name} is {now[:64]!r} now.", remedy=remedy)
        fact = ComputerLabelled(computer=name, label=now, by=identity.name)
        done = await self.service.store.label_computer(self.service.draft(fact, person(identity)))
        await self.computers.confirm_label(name, now)
        self.service.bus.publish("computers", {"computer": name})
        return LabelDone(computer=name, label=now, confirmed=done)

    async def list_nodes(self, request: Request) -> NodeList:
        """``GET /v1/nodes``: the nodes that are heard now, this one first."""
        await self.who(request, agents=True)
        return NodeList(**self.nodes(), connected=self.service.bus.connected)

    async def _known(self, request: HTTPConnection) -> ComputerRecord:
        """The stored facts of the computer that the path names. Raises NotFound."""
        name = ComputerId(request.path_params["name"])
        record = await self.service.store.computer(name)
        if record.number == 0 and record.frozen is None and not await self.has_computer(name):
            raise no_computer(name)
        return record

    # -- the channel ---------------------------------------------------------------------

    async def no_socket(self, request: Request) -> Response:
        """``GET /computer`` without an upgrade: this is not a page."""
        error = NotASocket(
            "This is the computers' channel, a WebSocket; it is not a page.",
            remedy="Connect a computer with `cc-orchestrator pair`; a proxy in between has to pass upgrades on.",
        )
        self._remember(request, error)
        return JSONResponse(error_form(error), status_code=error.http_status, headers={"Upgrade": "websocket"})

    async def speaks(self, websocket: WebSocket, identity: Identity) -> bool:
        """Whether a socket may speak our protocol; one that offers only others is refused."""
        offers = websocket.scope.get("subprotocols", [])
        if not offers or COMPUTER_SUBPROTOCOL in offers:
            return True
        error = WrongSubprotocol(
            f"This channel speaks {COMPUTER_SUBPROTOCOL}, not {', '.join(offers)[:80]}.",
            remedy="Install the client again from this orchestrator.",
        )
        self._remember(websocket, error, identity.name)
        await websocket.send_denial_response(JSONResponse(error_form(error), status_code=error.http_status))
        return False

    async def shown_the_way(self, websocket: WebSocket) -> bool:
        """Tell a computer that moved to another cell where that is; its token is worth nothing else here."""
        token = bearer_of(websocket.headers.get("authorization"))
        row = await self.service.store.find_token(token_hash(token)) if token else None
        if row is None or row.kind != "computer":
            return False
        fact = (await self.service.store.computer(ComputerId(row.name))).frozen
        if fact is None or fact.reason != MOVED:
            return False
        await websocket.accept(offered(websocket, COMPUTER_SUBPROTOCOL))
        socket, link = accepted(websocket), ComputerLink(0.0)
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(HELLO_WITHIN_S):
                hello = await socket.receive()
            link.receive(hello or b"", 0.0)
            link.refuse(**frozen_refusal(fact)._asdict())
            while (frame := link.next_frame()) is not None:
                await socket.send(frame)
        await socket.close(1008, "this computer is in another cell")
        return True

    async def turned_away(self, websocket: WebSocket, error: OrchestratorError) -> None:
        """Remember a handshake that was refused, with whose token it was if that is known."""
        _, _, token = websocket.headers.get("authorization", "").partition(" ")
        row = await self.service.store.find_token(token_hash(token.strip())) if token.strip() else None
        if row is None or row.kind != "computer":
            self._remember(websocket, error)
        elif not row.revoked:
            self._remember(websocket, error, row.name)
        else:
            revoked = TokenWasRevoked(
                f"The token of computer {row.name} was revoked.",
                remedy=f"Pair it again: `cc-orchestrator pair {row.name}`, and type the line there.",
            )
            self._remember(websocket, revoked, row.name)

    def _remember(self, connection: HTTPConnection, error: OrchestratorError, computer: str = "") -> None:
        remember(self.computers.refusals, self.service.clock.now(), connection, error, computer)


def remember(
    refusals: Refusals, at: datetime, connection: HTTPConnection, error: OrchestratorError, computer: str = ""
) -> None:
    """Keep what somebody was told at an endpoint who may be a computer that cannot come in."""
    path = connection.url.path
    refusals.add(Refused(at, peer_of(connection), path, error.code, error.message, computer, error.remedy))


def peer_of(connection: HTTPConnection) -> str:
    """The address that a connection comes from.

    Empty: it is not known, or a proxy says something that is not an address.
    """
    said = connection.client.host if connection.client is not None else ""
    try:
        # The text behind a % is whatever its sender likes.
        return str(ip_address(said.partition("%")[0]))
    except ValueError:
        return ""


# -- The endpoints to screens: who looks at a computer, live, and what is typed there from outside
#
# A picture is shown as it is on the computer, to people with a token: it is the screen that a person sees who stands
# before the computer. Only the person who paired it, or an admin, may type; that is written down before anything goes
# out.

TERMINAL: Final = "terminal"
SILENCE_S: Final = 5.0
"""Seconds between two signs of life where nothing changes: a person who looks at a screen wonders sooner."""
KEYS_IN_S: Final = 4.0
KEYS_AT_ONCE: Final = 40.0
"""Times that one person types at one computer: a fast typist sends several keys at once."""
_MAX_BUDGETS: Final = 1000
_KEPT: Final = 16
"""Events that are kept for others who look at the same screen in that moment; the largest has 100 kB."""
_MAX_NAME_CHARS: Final = 64


class TooManyKeys(OrchestratorError):
    """Somebody types faster than a person."""

    code = "too_many_keys"
    http_status = 429


class MirroringComputers(RefusingComputers, Protocol):
    """The hub, as these endpoints need it."""

    mirror: Mirror


class ScreenEndpoints(ComputerEndpoints):
    """``/v1/computers/{name}/screen``, ``/screens`` and ``/keys``."""

    computers: MirroringComputers
    remote_keys: str
    """``owner`` or ``off``."""
    budgets: dict[tuple[str, str], Budget]

    async def screens(self, request: Request) -> ScreenList:
        """``GET /v1/computers/{name}/screens``: what can be watched of it."""
        await self.who(request)
        name = (await self._known(request)).computer
        async with self.computers.pinned([name]):
            found = await self.computers.mirror.screens(name)
        shown = [ScreenRow.made_from(one, of=TERMINAL if one.of is None else from_wire(one.of)) for one in found]
        return ScreenList(screens=shown)

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

    async def keys(self, request: Request) -> KeysTyped:
        """``POST /v1/computers/{name}/keys``: type there, once."""
        identity = await self.who(request)
        record = await self._known(request)
        body = await read_body(request, KeysBody)
        if (body.text is None) == (body.keys is None):
            raise InvalidRequest("A request types either text or keys.", remedy="Send one of `text` and `keys`.")
        strokes = of_keys(body.keys or ()) if body.text is None else of_text(body.text)
        await self._must_type(identity, record.computer)
        self.service.must_be_free(identity.name, "types at no computer")
        if record.frozen is not None:
            raise CannotType(frozen_sentence(record.frozen), remedy=frozen_remedy(record.frozen))
        async with self.computers.pinned([record.computer]):
            return await self._typed(identity, record, body, strokes)

    async def _typed(
        self, identity: Identity, record: ComputerRecord, body: KeysBody, strokes: list[dict[str, str | bool]]
    ) -> KeysTyped:
        self.computers.mirror.must_take_keys(record.computer)
        self._spend(identity, record.computer)
        text = redact_text(body.text or "", salt=SALT)
        fact = KeysSent(computer=record.computer, text=text, keys=body.keys or ())
        await self.service.record(fact, person(identity))
        typed = await self.computers.mirror.type(record.computer, strokes)
        return KeysTyped.made_from(typed)

    async def _must_type(self, identity: Identity, computer: ComputerId) -> None:
        """Raises Forbidden unless somebody may type there: an admin, or the person who paired it last."""
        if self.remote_keys == "off":
            raise Forbidden(
                "Nobody types at computers from outside here.", remedy="The setting `remote_keys` allows it."
            )
        rows = await self.service.store.list_tokens()
        paired = {row.owner for row in rows if row.kind == "computer" and row.name == computer and not row.revoked}
        owners = {self.authorizer.owner_of(computer, one) for one in paired}
        if "admin" not in identity.roles and owners != {identity.name}:
            raise Forbidden(
                f"{identity.name} may not type at computer {computer}.",
                remedy="Only the person who paired it, or an admin, may do this: ask one of them, or pair it again.",
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
        async with self.computers.pinned([computer]):
            with suppress(TooManyWatch), self.computers.mirror.watching(computer, of) as watcher:
                async for event in self._watched(watcher, of, over):
                    yield event

    async def _watched(self, watcher: Watcher, of: str, over: asyncio.Event) -> AsyncGenerator[bytes, None]:
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
    """The event for a watcher. Pictures of the same moment are made one at a time."""
    # A person who watches many screens leaves the others their turn.
    await asyncio.sleep(0)
    match sight:
        case Seen():
            return _picture_event(of, sight)
        case Hidden():
            return _said("unreadable", HiddenEvent(of=of, message=sight.message))
        case Gone():
            return _said("away", AwayEvent(of=of))


@lru_cache(maxsize=_KEPT)
def _picture_event(of: str, sight: Seen) -> bytes:
    """A picture as an event; made once for all who see the same."""
    return _said("picture", _picture(of, sight))


def _said(kind: str, data: BaseModel) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data.model_dump(mode='json'), separators=(',', ':'))}\n\n".encode()


def _picture(of: str, sight: Seen) -> PictureEvent:
    rows = [
        PictureRow.made_from(row, y=number, text=list(as_cells(row.text)))
        for number, row in enumerate(sight.shown.rows, 1)
        if row is not None and (sight.rows is None or number in sight.rows)
    ]
    return PictureEvent.made_from(sight.shown, of=of, whole=sight.rows is None, rows=rows)
