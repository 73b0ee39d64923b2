"""Computers that try to reach the server, for a person who has to find out why one does not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from orchestrator.core.errors import NotFound
from orchestrator.core.text.visible import one_line
from orchestrator.core.values import told_apart
from orchestrator.core.wire.identity import ComputerRecord
from orchestrator.core.wire.wire import ComputerId
from orchestrator.history.policy_store import PolicyKeeper
from orchestrator.web.auth import must_have
from orchestrator.web.base import Room
from orchestrator.web.bodies import computer_form
from orchestrator.web.computers import RefusingComputers, remember
from orchestrator.web.errors import error_form
from orchestrator.web.install import Visits, client_offered

SHOWN: Final = 30
"""What is told at once of a kind: what matters is what happened last."""


@dataclass(frozen=True)
class About:
    """What this orchestrator was started with, as far as it matters to who cannot reach it or its model."""

    version: str = ""
    data_dir: str = ""
    host: str = ""
    """The address that it listens on."""
    public_url: str = ""
    """Where the computers in the game reach it; empty: the address that they used."""
    model: str = ""
    ollama_url: str = ""
    model_url: str = ""
    """Where a server speaks OpenAI's API; empty: none is set."""
    num_ctx: int = 0
    alerts: tuple[str, ...] = ()
    """What is wrong on this node, as sentences."""


NOWHERE: Final = About()


class DoctorEndpoints(Room):
    """``/v1/doctor``, and what is no endpoint at all."""

    computers: RefusingComputers
    public_url: str
    visits: Visits
    about: About
    policy: PolicyKeeper
    unsent: Callable[[], Sequence[str]]
    """What of the audit does not leave the host, as sentences."""
    nodes: Callable[[], dict[str, Any]]

    async def doctor(self, request: Request) -> Response:
        """``GET /v1/doctor``: what was seen; nothing is judged here."""
        must_have(await self.who(request), "admin")
        about, offer = self.about, client_offered()
        refused = [
            {
                "at": one.at.isoformat(),
                "peer": one.peer,
                "path": one.path[:200],
                "code": one.code,
                "message": one.message,
                "remedy": one.remedy,
                "computer": one.computer or None,
            }
            for one in self.computers.refusals.last()[:SHOWN]
        ]
        installers = [
            {"at": one.at.isoformat(), "peer": one.peer, "paired": one.paired} for one in self.visits.last()[:SHOWN]
        ]
        return JSONResponse(
            {
                "version": about.version,
                "data_dir": about.data_dir,
                "host": about.host,
                "port": request.scope["server"][1],
                "public_url": self.public_url,
                "model": about.model,
                "ollama_url": about.ollama_url,
                "model_url": about.model_url,
                "num_ctx": about.num_ctx,
                "client_version": offer.version,
                "client_sha256": offer.sha256,
                "alerts": [
                    one
                    for one in (
                        *about.alerts,
                        *self.nodes()["alerts"],
                        self.policy.alert,
                        *self._clocks(),
                        *self.unsent(),
                        *self.service.alerts(),
                    )
                    if one
                ],
                "refused": refused,
                "installers": installers,
                "lines": await self._lines(),
                "computers": await self._computers(),
            }
        )

    def _clocks(self) -> list[str]:
        """Of each node what is wrong with its clock; empty texts: nothing."""
        return [told_apart(one_line(one["name"]), one["clock_ahead_s"]) for one in self.nodes()["nodes"]]

    async def nowhere(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket to a path that is no channel: told so, and remembered."""
        websocket = WebSocket(scope, receive, send)
        error = NotFound("There is no channel at this path.", remedy="Computers dial /computer, reviewers /reviewer.")
        remember(self.computers.refusals, self.service.clock.now(), websocket, error)
        await websocket.send_denial_response(JSONResponse(error_form(error), status_code=error.http_status))

    async def _lines(self) -> list[dict[str, Any]]:
        """The codes that nobody has used, lapsed ones too, the newest first."""
        rows = [one for one in await self.service.store.list_tokens() if one.kind == "pairing" and not one.revoked]
        made = sorted(((one.created_at, one.roles[0]) for one in rows if one.created_at is not None), reverse=True)
        return [{"at": at.isoformat(), "computer": computer or None} for at, computer in made[:SHOWN]]

    async def _computers(self) -> list[dict[str, Any]]:
        records = {one.computer: one for one in await self.service.store.list_computers()}
        rows = []
        for name in map(ComputerId, await self.computer_names()):
            form = computer_form(self.computers, records.get(name) or ComputerRecord(name))
            info, frozen = self.computers.info(name), form["frozen"] or {}
            rows.append(
                {
                    "computer": name,
                    "state": form["state"],
                    "client": info.client if info is not None else "",
                    "message": frozen.get("message", ""),
                    "remedy": frozen.get("remedy", ""),
                }
            )
        return rows
