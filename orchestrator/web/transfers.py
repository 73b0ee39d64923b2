"""The door to what is being read from computers."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.web.base import Room


class TransferDoors(Room):
    """``/v1/transfers``."""

    transfers: Callable[[], Awaitable[list[dict[str, Any]]]]
    """Those of all nodes, the oldest first."""

    async def list_transfers(self, request: Request) -> Response:
        """``GET /v1/transfers``."""
        await self.who(request, agents=True)
        return JSONResponse({"transfers": await self.transfers()})
