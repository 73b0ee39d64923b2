"""Computers that try to reach the server, for a person who has to find out why one does not."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from orchestrator.core.errors import NotFound
from orchestrator.core.text.visible import one_line
from orchestrator.core.values import told_apart
from orchestrator.core.wire.identity import ComputerRecord
from orchestrator.core.wire.wire import ComputerId
from orchestrator.history.policy_store import PolicyKeeper
from orchestrator.runtime.settings import DEMO_CHANGE, DEMO_SAYS
from orchestrator.web.answers.base import (
    Checkup,
    InstallerRow,
    LineRow,
    ModelsAnswer,
    ModelServerRow,
    RefusedRow,
    SeenComputer,
)
from orchestrator.web.answers.tasks import ComputerAnswer
from orchestrator.web.base import Room
from orchestrator.web.computers import RefusingComputers, computer_answer, remember
from orchestrator.web.errors import error_form
from orchestrator.web.install import Visits, client_offered

SHOWN: Final = 30
"""Notes of a kind that are told at once: the latest ones matter."""


@dataclass(frozen=True)
class About:
    """The start settings of this orchestrator that matter to a person who cannot reach it or its model."""

    version: str = ""
    data_dir: str = ""
    host: str = ""
    """The address that it listens on."""
    public_url: str = ""
    """Where the computers in the game reach it; empty: the address that they used."""
    cell: str = ""
    """The name of its cell; empty: there is one cell."""
    router: str = ""
    """Where computers find their cell; empty: they dial this server."""
    model: str = ""
    only_demo: bool = False
    """Whether that is the demo's script because nobody chose a model."""
    ollama_url: str = ""
    model_url: str = ""
    """Where a server speaks OpenAI's API; empty: none is set."""
    num_ctx: int = 0
    alerts: tuple[str, ...] = ()
    """What is wrong on this node, as sentences."""


NOWHERE: Final = About()


async def no_servers() -> Sequence[ModelServerRow]:
    """No model server is known."""
    return ()


class ModelEndpoints(Room):
    """``/v1/models``."""

    about: About
    list_models: Callable[[], Awaitable[Sequence[ModelServerRow]]]

    async def models(self, request: Request) -> ModelsAnswer:
        """``GET /v1/models``."""
        await self.who(request, agents=True)
        servers = await self.list_models() if request.query_params.get("look") == "1" else ()
        demo = self.about.only_demo
        return ModelsAnswer(
            model=self.about.model,
            banner=DEMO_SAYS if demo else "",
            change=list(DEMO_CHANGE) if demo else [],
            servers=list(servers),
        )


class DoctorEndpoints(Room):
    """``/v1/doctor``, and paths that are not an endpoint."""

    computers: RefusingComputers
    public_url: str
    visits: Visits
    about: About
    policy: PolicyKeeper
    unsent: Callable[[], Sequence[str]]
    """The parts of the audit that do not leave the host, as sentences."""
    nodes: Callable[[], dict[str, Any]]

    async def doctor(self, request: Request) -> Checkup:
        """``GET /v1/doctor``: what was seen; nothing is judged here."""
        self.authorizer.must(await self.who(request), "everything")
        offer, refused = client_offered(), self.computers.refusals.last()[:SHOWN]
        alerts = (
            *self.about.alerts,
            *self.nodes()["alerts"],
            self.policy.alert,
            *self._clocks(),
            *self.unsent(),
            *self.service.alerts(),
        )
        return Checkup.made_from(
            self.about,
            port=request.scope["server"][1],
            public_url=self.public_url,
            client_version=offer.version,
            client_sha256=offer.sha256,
            alerts=[one for one in alerts if one],
            refused=[RefusedRow.made_from(one, path=one.path[:200], computer=one.computer or None) for one in refused],
            installers=[InstallerRow.made_from(one) for one in self.visits.last()[:SHOWN]],
            lines=await self._lines(),
            computers=await self._computers(),
        )

    def _clocks(self) -> list[str]:
        """The fault of each node's clock; empty texts: no fault."""
        return [told_apart(one_line(one["name"]), one["clock_ahead_s"]) for one in self.nodes()["nodes"]]

    async def nowhere(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket to a path that is not a channel: told so, and remembered."""
        websocket = WebSocket(scope, receive, send)
        error = NotFound("There is no channel at this path.", remedy="Computers dial /computer, reviewers /reviewer.")
        remember(self.computers.refusals, self.service.clock.now(), websocket, error)
        await websocket.send_denial_response(JSONResponse(error_form(error), status_code=error.http_status))

    async def _lines(self) -> list[LineRow]:
        """The codes that nobody has used, lapsed ones too, the newest first."""
        rows = [one for one in await self.service.store.list_tokens() if one.kind == "pairing" and not one.revoked]
        made = sorted(((one.created_at, one.roles[0]) for one in rows if one.created_at is not None), reverse=True)
        return [LineRow(at=at.isoformat(), computer=computer or None) for at, computer in made[:SHOWN]]

    async def _computers(self) -> list[SeenComputer]:
        records = {one.computer: one for one in await self.service.store.list_computers()}
        names = [ComputerId(name) for name in await self.computer_names()]
        found = await self.computers.look(names)
        seen = [
            computer_answer(found.get(name), records.get(name) or ComputerRecord(name), "", ComputerAnswer)
            for name in names
        ]
        return [
            SeenComputer.made_from(
                one,
                message=one.frozen.message if one.frozen is not None else "",
                remedy=one.frozen.remedy if one.frozen is not None else "",
            )
            for one in seen
        ]
