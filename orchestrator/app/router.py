"""The router before the cells: it tells each computer where its cell is, and keeps nothing.

Theory. The token of a computer names its cell, so the router needs no store: any number of routers may run, and each
answers alike. A computer that dials cells is told the place and comes to the router again only when its cell does not
answer. For an older client the frames are passed on; only the first answer of the cell is read, which may send the
computer to another cell. Tokens are not judged here: the cell does that.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from orchestrator.app.serving import listen, must_be_safe, port_server, signals
from orchestrator.computers.hub.hub import COMPUTER_PATH
from orchestrator.core.errors import FrameRefused, OrchestratorError, Unauthenticated
from orchestrator.core.wire import wire
from orchestrator.core.wire.cells import MOVED, route_of
from orchestrator.runtime.cells import CellRow, Cells, CellsFile
from orchestrator.runtime.settings import Settings
from orchestrator.web.auth import bearer_of
from orchestrator.web.errors import error_form
from orchestrator.web.peers import RESERVE, raise_file_limit, room_for
from orchestrator.web.sockets import StarletteSocket, accepted

logger = logging.getLogger(__name__)

MAX_HOPS: Final = 4
"""Cells that send a computer on, one after the other, before it is told that it is not found."""
_DIAL_S: Final = 10.0
_METHODS: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


class CellAway(OrchestratorError):
    """The cell of a computer does not answer."""

    code = "cell_away"
    http_status = 503


class Router:
    """The endpoints of the router."""

    def __init__(self, cells: Callable[[], Cells]) -> None:
        self._cells = cells

    def app(self) -> Starlette:
        """The application."""
        routes = [
            Route("/healthz", self.health),
            Route("/cells", self.listed),
            Route("/cell/{name}{path:path}", self.to_cell, methods=_METHODS),
            WebSocketRoute(COMPUTER_PATH, self.computer),
            Route("/{path:path}", self.elsewhere, methods=_METHODS),
        ]
        return Starlette(routes=routes, exception_handlers={OrchestratorError: _explained})

    async def health(self, request: Request) -> Response:
        """``GET /healthz``: it can show the way."""
        del request
        return JSONResponse({"ok": True, "cells": len(self._cells().rows)})

    async def listed(self, request: Request) -> Response:
        """``GET /cells``: the names of all cells, and where each is."""
        del request
        cells = self._cells()
        found = [{"cell": row.name, "url": row.url} for _, row in sorted(cells.rows.items())]
        return JSONResponse({"default": cells.default, "cells": found})

    async def to_cell(self, request: Request) -> Response:
        """``/cell/NAME/…``: the same path at that cell. Raises NotFound."""
        return _redirect(request, self._cells().must(request.path_params["name"]), request.path_params["path"] or "/")

    async def elsewhere(self, request: Request) -> Response:
        """All other paths: the same one at the cell that the token names, else at the default cell. Raises NotFound."""
        return _redirect(request, self._cells().must(_asked(request)), "/" + request.path_params["path"])

    async def computer(self, websocket: WebSocket) -> None:
        """``/computer``: the place of its cell, or for an older client the cell itself."""
        token = bearer_of(websocket.headers.get("authorization"))
        try:
            if not token:
                raise Unauthenticated("Nobody said who is asking.", remedy="Send the computer's token as a bearer.")
            row = self._cells().must(_asked(websocket))
        except OrchestratorError as error:
            await websocket.send_denial_response(JSONResponse(error_form(error), status_code=error.http_status))
            return
        offers = websocket.scope.get("subprotocols", [])
        await websocket.accept(wire.COMPUTER_SUBPROTOCOL if wire.COMPUTER_SUBPROTOCOL in offers else None)
        socket = accepted(websocket)
        why = "a cell was named"
        try:
            async with asyncio.timeout(wire.HELLO_WITHIN_S):
                first = await socket.receive()
            if first is not None:
                await self._show(socket, _hello(first), row, token)
        except (FrameRefused, TimeoutError, OSError) as error:
            why = str(error) or "no hello came"
        finally:
            await socket.close(1008, why[:100])

    async def _show(self, socket: StarletteSocket, hello: wire.Hello, row: CellRow, token: str) -> None:
        if wire.CELLS in hello.capabilities:
            said = f"This computer is served by the cell {row.name}."
            await socket.send(wire.encode(wire.Refused(code=MOVED, message=said, cell=row.place)))
            return
        try:
            await self._passed_on(socket, hello, row.place, token)
        except CellAway as error:
            refused = wire.Refused(code=error.code, message=error.message, remedy=error.remedy)
            await socket.send(wire.encode(refused))

    async def _passed_on(self, socket: StarletteSocket, hello: wire.Hello, place: wire.Cell, token: str) -> None:
        """Both ends of an older client's connection, until one of them is over. Raises CellAway, OSError."""
        asking = hello.model_copy(update={"capabilities": (*hello.capabilities, wire.CELLS)})
        for _ in range(MAX_HOPS):
            async with contextlib.AsyncExitStack() as stack:
                cell = await stack.enter_async_context(_dialled(place, token))
                try:
                    await cell.send(wire.encode(asking))
                    answer = await cell.recv(decode=False)
                except ConnectionClosed as error:
                    raise CellAway(f"The cell {place.name} closed: {error}.", remedy="It is dialled again.") from None
                message = _read(answer)
                if isinstance(message, wire.Refused) and message.cell is not None:
                    row = self._cells().of(message.cell.name)
                    # Only to a cell of the file: the token goes to nobody else.
                    place = message.cell if row is None else row.place
                    if row is None:
                        break
                    continue
                if isinstance(message, wire.Welcome):
                    answer = wire.encode(message.model_copy(update={"cell": None}))
                await socket.send(answer)
                await _pumped(socket, cell)
                return
        raise CellAway(
            f"This computer is sent to the cell {place.name}, and is not found there.",
            remedy="An admin looks at `cc-orchestrator cells list`.",
        )


def _asked(connection: HTTPConnection) -> str:
    """The cell that the token of a request names; empty: none."""
    return route_of(bearer_of(connection.headers.get("authorization"))).cell


def _redirect(request: Request, row: CellRow, path: str) -> Response:
    query = f"?{request.url.query}" if request.url.query else ""
    # The path was decoded; it is encoded again, and cannot name another host behind the cell's own address.
    return RedirectResponse(f"{row.url}/{path.lstrip('/')}{query}", status_code=307)


async def _explained(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, OrchestratorError)
    return JSONResponse(error_form(error), status_code=error.http_status)


def _hello(frame: bytes | str) -> wire.Hello:
    """The first frame of a computer. Raises FrameRefused."""
    message = _read(frame)
    if not isinstance(message, wire.Hello):
        raise FrameRefused("The first message is not a hello.")
    return message


def _read(frame: bytes | str) -> BaseModel:
    """A frame of either side. Raises FrameRefused."""
    if isinstance(frame, str):
        raise FrameRefused("A frame must be binary.")
    message: BaseModel = wire.decode_any(frame)[0]
    return message


@contextlib.asynccontextmanager
async def _dialled(place: wire.Cell, token: str) -> Any:
    """The computers' channel of a cell. Raises CellAway."""
    remedy = "It is dialled again by itself; an admin looks at the cell."
    try:
        cell = await connect(
            place.url,
            additional_headers={"Authorization": f"Bearer {token}"},
            subprotocols=[wire.COMPUTER_SUBPROTOCOL],  # type: ignore[list-item]
            compression=None,
            ping_interval=None,
            max_size=wire.MAX_FRAME_BYTES,
            open_timeout=_DIAL_S,
            proxy=None,
        )
    except InvalidStatus as error:
        raise CellAway(
            f"The cell {place.name} answers {error.response.status_code}.",
            remedy="If it is 401, pair this computer again.",
        ) from None
    except (OSError, TimeoutError, WebSocketException) as error:
        raise CellAway(f"The cell {place.name} does not answer: {error}.", remedy=remedy) from None
    try:
        yield cell
    finally:
        await cell.close()


async def _pumped(socket: StarletteSocket, cell: ClientConnection) -> None:
    """Pass frames on, both ways, until one side is over."""

    async def up() -> None:
        while (frame := await socket.receive()) is not None:
            await cell.send(frame)

    async def down() -> None:
        async for frame in cell:
            await socket.send(frame)

    ways = [asyncio.create_task(up()), asyncio.create_task(down())]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        # A side that is gone ends its way with an error, which says no more than that.
        await asyncio.gather(*ways, return_exceptions=True)


async def route(path: Path, settings: Settings, ready: Callable[[str], None]) -> None:
    """Route until SIGINT or SIGTERM; ``ready`` is told the URL once the port listens. Raises InvalidRequest."""
    must_be_safe(settings)
    cells = CellsFile(path)
    files = raise_file_limit()
    with contextlib.closing(listen(settings)) as listener:
        host, port = listener.getsockname()[:2]
        most = room_for(files)
        server = port_server(Router(cells.now).app(), settings.proxies, most, max(files - most, RESERVE))
        stop, _ = signals()
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        server.stop()
        await serving
