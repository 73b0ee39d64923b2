"""The endpoints to decisions: what waits for a person, and what the person says."""

import asyncio
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.core.approval.approval import ResumeRequest
from orchestrator.core.approval.command import closed_request
from orchestrator.core.approval.presentation import LIST_CHARS, hitl_response
from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.core.ports import Identity
from orchestrator.core.task.facts import RequestId, TaskId
from orchestrator.core.task.states import Phase
from orchestrator.core.task.task import AgentTask
from orchestrator.web.base import Room
from orchestrator.web.bodies import (
    DecisionsBody,
    EmptyBody,
    ExtendBody,
    QuickDecision,
    actions,
    key_of,
    outcome_form,
    read_body,
    read_number,
    request_id_of,
    short_form,
)
from orchestrator.web.errors import error_form, without_secrets
from orchestrator.web.peers import Attempts


class DecisionEndpoints(Room):
    """``/v1/requests``, ``/v1/decisions``, ``/v1/resume``, ``/v1/approve`` and ``/v1/reject``."""

    attempts: Attempts

    async def requests(self, request: Request) -> Response:
        """``GET /v1/requests``: what waits for a person, long texts cut."""
        await self.who(request, agents=True)
        pending = await self.service.pending(max_chars=LIST_CHARS)
        return JSONResponse({"requests": [one.model_dump(mode="json") for one in pending]})

    async def request(self, request: Request) -> Response:
        """``GET /v1/requests/{id}``: the whole of it; 409 once it is closed."""
        identity = await self.who(request, agents=True)
        request_id = request_id_of(request)
        task = await self.service.for_request(request_id)
        if task.request is None or task.request.request_id != request_id:
            raise closed_request(task, request_id)
        if identity.kind == "person":
            await self.service.noted(task, "viewed", identity)
        return JSONResponse(hitl_response(task).model_dump(mode="json"))

    async def extend(self, request: Request) -> Response:
        """``POST /v1/requests/{id}/extend``: more time."""
        identity = await self.who(request)
        body = await read_body(request, ExtendBody)
        until = self.service.clock.now() + timedelta(seconds=body.seconds)
        return JSONResponse(short_form(await self.service.extend(request_id_of(request), until, identity)))

    async def withdraw(self, request: Request) -> Response:
        """``POST /v1/requests/{id}/withdraw``: its calls do not run, and the model is told."""
        identity = await self.who(request)
        await read_body(request, EmptyBody)
        return JSONResponse(short_form(await self.service.withdraw(request_id_of(request), identity)))

    async def renew(self, request: Request) -> Response:
        """``POST /v1/requests/{id}/renew``: ask again for what nobody answered in time."""
        identity = await self.who(request)
        await read_body(request, EmptyBody)
        return JSONResponse(short_form(await self.service.renew(request_id_of(request), identity)))

    async def decisions(self, request: Request) -> Response:
        """``POST /v1/decisions``: several requests, each by itself; 200 with what became of each."""
        identity = await self.who(request)
        body = await read_body(request, DecisionsBody)
        answers = []
        for one in body.requests:
            try:
                decided = await self.service.decide(one.request_id, one.resume, identity)
            except OrchestratorError as error:
                await self.attempts.refused(request, identity, error, request_id=one.request_id)
                answers.append({"request_id": one.request_id, "http_status": error.http_status, **error_form(error)})
            else:
                answers.append({"request_id": one.request_id, "http_status": 200, **short_form(decided.task)})
        return JSONResponse({"decisions": answers})

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
        resume = resume.model_copy(update={"idempotency_key": key_of(request, resume.idempotency_key)})
        if digest := request.headers.get("if-match", "").strip().strip('"'):
            resume = _bound_to(resume, digest[:200])
        decided = await self.service.decide(request_id, resume, identity)
        if not any(one in ("approve", "edit", "respond") for one in actions(resume)) or (
            decided.repeated and not wait_s
        ):
            return JSONResponse(short_form(decided.task))
        if not wait_s:
            return JSONResponse(short_form(decided.task), status_code=202)
        task = await self._settled(decided.task.task_id, wait_s, request_id)
        shown = await without_secrets(outcome_form(task))
        return JSONResponse(shown, status_code=200 if task.phase is Phase.ENDED or task.request else 202)

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


def _bound_to(resume: ResumeRequest, digest: str) -> ResumeRequest:
    """The decision bound to what ``If-Match`` says was seen (promise B1).

    Raises InvalidRequest where it could be about any of several calls.
    """
    if resume.decisions is None:
        return resume.model_copy(update=_both(resume.expected_digest, digest))
    if len(resume.decisions) > 1:
        raise InvalidRequest(
            "If-Match names one digest, and there are several decisions.", remedy="Send expected_digest with each."
        )
    (one,) = resume.decisions
    bound = one.model_copy(update=_both(one.expected_digest, digest))
    return resume.model_copy(update={"decisions": (bound,)})


def _both(said: str | None, digest: str) -> dict[str, str]:
    """What body and header say was seen: two that differ cannot both be it, and fit nothing."""
    return {"expected_digest": digest if said in (None, digest) else f"{said} and {digest}"}
