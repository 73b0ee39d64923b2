"""The door to what is being read from computers."""

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.transfers import Transfers
from orchestrator.web.base import Room


class TransferDoors(Room):
    """``/v1/transfers``."""

    transfers: Transfers

    async def list_transfers(self, request: Request) -> Response:
        """``GET /v1/transfers``."""
        await self.who(request, agents=True)
        rows = [{**asdict(one), "began_at": one.began_at.isoformat()} for one in self.transfers.now()]
        return JSONResponse({"transfers": rows})
