"""The doors to decisions: what waits for a person, and what the person says."""

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.core.approval import ResumeRequest
from orchestrator.core.errors import NotPending
from orchestrator.core.facts import RequestId, TaskId
from orchestrator.core.task import AgentTask, Phase
from orchestrator.ports import Identity
from orchestrator.tasks import hitl_response
from orchestrator.web.base import Room
from orchestrator.web.forms import QuickDecision, outcome_form, short_form
from orchestrator.web.reading import actions, read_body, read_number, request_id_of


class DecisionDoors(Room):
    """``/v1/requests``, ``/v1/resume``, ``/v1/approve`` and ``/v1/reject``."""

    async def requests(self, request: Request) -> Response:
        """``GET /v1/requests``: what waits for a person."""
        await self.who(request)
        pending = await self.service.pending()
        return JSONResponse({"requests": [one.model_dump(mode="json") for one in pending]})

    async def request(self, request: Request) -> Response:
        """``GET /v1/requests/{id}``; 409 once it is closed."""
        await self.who(request)
        request_id = request_id_of(request)
        task = await self.service.for_request(request_id)
        if task.request is None or task.request.request_id != request_id:
            raise NotPending("The request is no longer open.", remedy=f"Look at task {task.task_id}.")
        return JSONResponse(hitl_response(task).model_dump(mode="json"))

    async def resume(self, request: Request) -> Response:
        """``POST /v1/resume/{request_id}``."""
        identity = await self.who(request)
        return await self._decide(request, identity, await read_body(request, ResumeRequest))

    async def approve(self, request: Request) -> Response:
        """``POST /v1/approve/{request_id}``."""
        return await self._quick(request, "approve")

    async def reject(self, request: Request) -> Response:
        """``POST /v1/reject/{request_id}``."""
        return await self._quick(request, "reject")

    async def _quick(self, request: Request, action: str) -> Response:
        identity = await self.who(request)
        quick = await read_body(request, QuickDecision)
        resume = ResumeRequest.model_validate({"action": action, **quick.model_dump()})
        return await self._decide(request, identity, resume)

    async def _decide(self, request: Request, identity: Identity, resume: ResumeRequest) -> Response:
        request_id = request_id_of(request)
        wait_s = read_number(request, "wait_s", 0.0, 0.0, 60.0)
        key = request.headers.get("idempotency-key", "")[:200]
        if key and not resume.idempotency_key:
            resume = resume.model_copy(update={"idempotency_key": key})
        decided = await self.service.decide(request_id, resume, identity)
        if not any(one == "approve" for one in actions(resume)) or (decided.repeated and not wait_s):
            return JSONResponse(short_form(decided.task))
        if not wait_s:
            return JSONResponse(short_form(decided.task), status_code=202)
        task = await self._settled(decided.task.task_id, wait_s, request_id)
        return JSONResponse(outcome_form(task), status_code=200 if task.phase is Phase.ENDED or task.request else 202)

    async def _settled(self, task_id: TaskId, wait_s: float, past: RequestId) -> AgentTask:
        """The task once it settled, or as it stands when the time is over or the orchestrator closes."""
        waiting = asyncio.create_task(self.service.until_settled(task_id, wait_s, past=past))
        closing = asyncio.create_task(self.closing.wait())
        try:
            await asyncio.wait((waiting, closing), return_when=asyncio.FIRST_COMPLETED)
            return await waiting if waiting.done() else await self.service.load(task_id)
        finally:
            waiting.cancel()
            closing.cancel()
