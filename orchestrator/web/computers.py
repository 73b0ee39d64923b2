"""The doors to computers: who is there, which are frozen and why, and letting one come back."""

from collections.abc import Callable
from datetime import datetime
from ipaddress import ip_address
from typing import Any, Protocol

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket

from orchestrator.computers.hub.refusals import Refusals, Refused
from orchestrator.core.errors import Conflict, InvalidRequest, NotFound, OrchestratorError, Unauthenticated
from orchestrator.core.ports import Computers, Identity
from orchestrator.core.task.system_facts import ComputerLabelled, ComputerReleased
from orchestrator.core.wire.identity import ComputerRecord
from orchestrator.core.wire.wire import COMPUTER_SUBPROTOCOL, ComputerId
from orchestrator.engine.tasks import person
from orchestrator.web.auth import must_have, token_hash
from orchestrator.web.base import Room
from orchestrator.web.bodies import LabelBody, computer_form
from orchestrator.web.errors import error_form
from orchestrator.web.requests import MAX_OPEN_BYTES, read_body


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


class RefusingComputers(Computers, Protocol):
    """The hub, as the doors need it that tell whom it turned away."""

    refusals: Refusals

    def node_of(self, computer: ComputerId) -> str:
        """The name of the other node that has a computer now; empty: none has, or this one."""

    async def confirm_label(self, computer: ComputerId, label: str) -> None:
        """An admin confirmed a computer's label, and the store knows it."""


class ComputerDoors(Room):
    """``/v1/computers``, and who is turned away at ``/computer``."""

    computers: RefusingComputers
    nodes: Callable[[], dict[str, Any]]
    """The nodes that are heard now, this one first, and what is wrong with that."""

    async def list_computers(self, request: Request) -> Response:
        """``GET /v1/computers``: all that have a token, connected or not."""
        await self.who(request, agents=True)
        records = {one.computer: one for one in await self.service.store.list_computers()}
        shown = [
            self._form(records.get(name) or ComputerRecord(name), owner)
            for name, owner in sorted((await self.computer_owners()).items())
        ]
        return JSONResponse({"computers": shown})

    async def computer(self, request: Request) -> Response:
        """``GET /v1/computers/{name}``: one with both sides of what froze it."""
        await self.who(request, agents=True)
        record = await self._known(request)
        owner = (await self.computer_owners()).get(record.computer, "")
        last = record.known.model_dump(mode="json") if record.known is not None else None
        return JSONResponse({**self._form(record, owner), "last": last, "released": record.released})

    async def release_computer(self, request: Request) -> Response:
        """``POST /v1/computers/{name}/release``: whoever dials next is the computer."""
        identity = await self.who(request)
        must_have(identity, "admin")
        name = (await self._known(request)).computer
        released = ComputerReleased(computer=name, by=identity.name)
        done = await self.service.store.release_computer(self.service.draft(released, person(identity)))
        self.service.bus.publish("computers", {"computer": name})
        return JSONResponse({"computer": name, "released": done})

    async def confirm_label(self, request: Request) -> Response:
        """``POST /v1/computers/{name}/confirm-label``: the label of now is the only one that rules look at."""
        identity = await self.who(request)
        must_have(identity, "admin")
        record = await self._known(request)
        body = await read_body(request, LabelBody, MAX_OPEN_BYTES)
        name, info = record.computer, self.computers.info(record.computer)
        now = (info.label or "") if info is not None else record.known.label if record.known is not None else ""
        if now != body.label:
            remedy = f"Look at it with `cc-orchestrator computers show {name}`, then confirm the label of now."
            raise Conflict(f"The label of computer {name} is {now[:64]!r} now.", remedy=remedy)
        fact = ComputerLabelled(computer=name, label=now, by=identity.name)
        done = await self.service.store.label_computer(self.service.draft(fact, person(identity)))
        await self.computers.confirm_label(name, now)
        self.service.bus.publish("computers", {"computer": name})
        return JSONResponse({"computer": name, "label": now, "confirmed": done})

    async def list_nodes(self, request: Request) -> Response:
        """``GET /v1/nodes``: the nodes that are heard now, this one first."""
        await self.who(request, agents=True)
        return JSONResponse({**self.nodes(), "connected": self.service.bus.connected})

    def _form(self, record: ComputerRecord, owner: str) -> dict[str, Any]:
        node = self.computers.node_of(record.computer)
        return {**computer_form(self.computers, record, owner), "node": node or None}

    async def _known(self, request: HTTPConnection) -> ComputerRecord:
        """What is kept of the computer that the path names. Raises NotFound."""
        name = ComputerId(request.path_params["name"])
        record = await self.service.store.computer(name)
        if record.number == 0 and record.frozen is None and name not in await self.computer_names():
            raise NotFound(f"There is no computer {name[:64]!r}.", remedy="`cc-orchestrator computers` lists them.")
        return record

    # -- the channel ---------------------------------------------------------------------

    async def no_socket(self, request: Request) -> Response:
        """``GET /computer`` without an upgrade: this is no page."""
        error = NotASocket(
            "This is the computers' channel, a WebSocket; it is no page.",
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
    """Keep what somebody was told at a door who may be a computer that cannot come in."""
    path = connection.url.path
    refusals.add(Refused(at, peer_of(connection), path, error.code, error.message, computer, error.remedy))


def peer_of(connection: HTTPConnection) -> str:
    """The address that a connection comes from; empty: it is not known, or a proxy says what is none."""
    said = connection.client.host if connection.client is not None else ""
    try:
        # What is behind a % is whatever its sender likes.
        return str(ip_address(said.partition("%")[0]))
    except ValueError:
        return ""
