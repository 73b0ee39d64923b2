"""The doors by which a computer in the game joins: a code for a person to type, the installer, the client."""

import logging
import re
from functools import cache
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from orchestrator.core.errors import InvalidRequest
from orchestrator.web.auth import must_have
from orchestrator.web.base import Room
from orchestrator.web.forms import PairBody, PairingBody
from orchestrator.web.pairing import Pairings
from orchestrator.web.reading import read_body

logger = logging.getLogger(__name__)

_HOST: Final = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
"""What may stand in a Host header; it is written into Lua between quotes."""


class InstallDoors(Room):
    """``/v1/pairings``, ``/v1/pair``, ``/install`` and ``/client.lua``."""

    pairings: Pairings
    public_url: str
    """Where the computers in the game reach this server; empty: the address that they used."""

    async def make_pairing(self, request: Request) -> Response:
        """``POST /v1/pairings``: a code, and the line to type on the computer."""
        must_have(await self.who(request), "admin")
        body = await read_body(request, PairingBody)
        pairing = await self.pairings.make(body.computer or "", body.label or "", self.service.clock.now())
        url = self.public_url or _listening(request)
        content = {
            "code": pairing.code,
            "expires_at": pairing.expires_at.isoformat(),
            "computer": body.computer or None,
            "line": f"wget run {url}/install {pairing.code}",
            "url": url,
        }
        return JSONResponse(content, status_code=201)

    async def pair(self, request: Request) -> Response:
        """``POST /v1/pair``: the code becomes the computer's token, once; no other token is needed."""
        body = await read_body(request, PairBody)
        url = self.public_url or _asked_for(request)
        peer = request.client.host if request.client else ""
        paired = await self.pairings.use(
            body.code, computer_id=body.computer_id, peer=peer, at=self.service.clock.now()
        )
        logger.info("computer %s was paired from %s", paired.computer, peer)
        if paired.replaced:
            await self.sockets.hang_up("computer", paired.computer)
        socket = "ws" + url.removeprefix("http") + "/computer"
        return JSONResponse(
            {
                "token": paired.token,
                "computer": paired.computer,
                "label": paired.label,
                "url": socket,
            }
        )

    async def install(self, request: Request) -> Response:
        """``GET /install``: the installer, a Lua program that knows this server's address."""
        url = self.public_url or _asked_for(request)
        text = _lua("orchestrator.web", "install.lua")
        size = len(_lua("cc_client", "client.lua").encode())
        return _plain(text.replace("@SERVER@", url).replace("@CLIENT_BYTES@", str(size)))

    async def client(self, request: Request) -> Response:
        """``GET /client.lua``: the client, one file."""
        del request
        return _plain(_lua("cc_client", "client.lua"))


@cache
def _lua(package: str, name: str) -> str:
    """A Lua file that came with the packages."""
    return files(package).joinpath(name).read_text("utf-8")


def _plain(text: str) -> Response:
    return PlainTextResponse(text, headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})


def _asked_for(request: Request) -> str:
    """The server's address as the one who asks wrote it. Raises InvalidRequest."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        raise InvalidRequest(
            "The Host header names no address.", remedy="Use the address that `cc-orchestrator pair` prints."
        )
    return f"{request.url.scheme}://{host}"


def _listening(request: Request) -> str:
    """The server's address at which this very request came in."""
    host, port = request.scope["server"]
    return f"{request.url.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
