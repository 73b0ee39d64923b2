"""The endpoints to the policy, to grants and to decisions."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from orchestrator.core.approval.approval import HitlResponse, ResumeRequest
from orchestrator.core.approval.command import closed_request
from orchestrator.core.approval.grants import GrantState
from orchestrator.core.approval.people import NO_GROUP
from orchestrator.core.approval.presentation import LIST_CHARS, hitl_response, progress_of
from orchestrator.core.approval.workflow import Workflow
from orchestrator.core.errors import Forbidden, InvalidRequest, NotFound, OrchestratorError
from orchestrator.core.policy import FunctionCall, PolicyContext, explain
from orchestrator.core.ports import Identity
from orchestrator.core.task.facts import RequestId, TaskId
from orchestrator.core.task.states import Phase
from orchestrator.core.task.system_facts import GrantId, GrantRevoked
from orchestrator.core.task.task import AgentTask
from orchestrator.core.text.visible import one_line
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.tasks import final_result, person, show
from orchestrator.history.policy_store import PolicyKeeper
from orchestrator.runtime.policy_file import load_with_plugins
from orchestrator.web.answers.base import (
    DryRun,
    GrantAnswer,
    Grants,
    GrantTakenBack,
    PolicyInForceAnswer,
    Reloaded,
)
from orchestrator.web.answers.tasks import (
    DecidedList,
    DecisionRefused,
    DecisionTaken,
    NextRequest,
    Requests,
    TaskDecided,
    TaskOverAnswer,
    TaskShort,
)
from orchestrator.web.base import Room, as_json, no_person
from orchestrator.web.bodies import (
    CommentBody,
    DecisionsBody,
    DryRunBody,
    EmptyBody,
    ExtendBody,
    PolicyBody,
    QuickDecision,
    actions,
    key_of,
    read_body,
    read_number,
    request_id_of,
)
from orchestrator.web.errors import problem, redacted
from orchestrator.web.peers import Attempts

# -- The endpoints to the policy and to grants: what is in force, what it would say, what stands


class PolicyEndpoints(Room):
    """``/v1/policy`` and ``/v1/grants``."""

    policy: PolicyKeeper
    context_of: Callable[[ComputerId], Awaitable[PolicyContext]]
    """The known facts of a computer now."""
    trying: asyncio.Lock
    """Held by the dry run that works."""

    async def show_policy(self, request: Request) -> PolicyInForceAnswer:
        """``GET /v1/policy``: what is in force; ``alert``: why this node's file is not, or why it judges nothing."""
        identity = await self.who(request, agents=True)
        present = self.policy.policy
        admin = "everything" in self.authorizer.holder(identity).rights
        return PolicyInForceAnswer.made_from(
            self.policy,
            policy_version=present.version,
            mode=present.mode,
            text=self.policy.text if admin else None,
            warnings=self.authorizer.too_few(present) if admin else (),
        )

    async def reload_policy(self, request: Request) -> Reloaded:
        """``POST /v1/policy/reload``: look at the file now; it is looked at each second anyway."""
        self.authorizer.must(await self.who(request), "everything")
        await read_body(request, EmptyBody)
        return self._reloaded(await self.policy.reload())

    async def apply_policy(self, request: Request) -> Reloaded:
        """``POST /v1/policy``: put a policy into force on all nodes; one that cannot be loaded changes nothing."""
        identity = await self.who(request)
        self.authorizer.must(identity, "everything")
        body = await read_body(request, PolicyBody)
        await self.policy.apply(body.policy, person(identity))
        return self._reloaded(self.policy.alert)

    def _reloaded(self, alert: str) -> Reloaded:
        present = self.policy.policy
        return Reloaded(policy_version=present.version, alert=alert, warnings=self.authorizer.too_few(present))

    async def dry_run(self, request: Request) -> DryRun:
        """``POST /v1/policy/dry-run``: the verdict on a call, and why; nothing runs (promise P19).

        ``policy``: the text of a policy to try instead of the active one, for reviewers and admins: its rules may take
        long. One dry run works at a time, beside the event loop.
        """
        identity = await self.who(request, agents=True)
        body = await read_body(request, DryRunBody)
        if body.policy is not None:
            self.authorizer.must(identity, "audit")
        policy, custom = self.policy.policy, self.policy.custom
        if body.policy is not None:
            policy, custom = await asyncio.to_thread(load_with_plugins, body.policy, source="the policy that was sent")
        call, context = FunctionCall(tool=body.tool, args=body.args), await self._context(body, identity)
        async with self.trying:
            explained = await asyncio.to_thread(explain, call, policy=policy, context=context, custom=custom)
        told = {**dict(explained.decision), "policy_version": policy.version}
        because = {name: getattr(explained, name) for name in ("plan", "rules", "custom")}
        approval = explained.approval
        if approval is not None and "audit" in self.authorizer.holder(identity).rights:
            lacks = self.authorizer.too_few(policy, Workflow(steps=approval.steps))
            approval = approval.model_copy(update={"told": " ".join((approval.told, *lacks))})
        return DryRun(**told, **because, approval=approval)

    async def _context(self, body: DryRunBody, by: Identity) -> PolicyContext:
        """The facts around a call. Raises NotFound for a person out of reach."""
        known = await self.context_of(ComputerId(body.computer)) if body.computer else PolicyContext()
        fields = {"computer", "family", "label", "program", "roles", "user", "groups", "plan"}
        said = body.model_dump(include=fields, exclude_none=True)
        if body.label is not None:
            said["former_labels"] = ()
        return known.model_copy(update={**self._of_person(body, by), **said})

    def _of_person(self, body: DryRunBody, by: Identity) -> dict[str, Any]:
        """The names that rules for people look at, as they are now; none where no requester is named."""
        if body.user is None:
            return {}
        present = self.service.directory.present
        if body.user not in present.people or not self.authorizer.sees_user(by, body.user):
            raise no_person(body.user)
        return {
            "roles": tuple(sorted(present.roles.get(body.user, ()))),
            "groups": tuple(sorted(present.groups_of(body.user) - {NO_GROUP})),
            "owners": present.owners_of(ComputerId(body.computer)) if body.computer else (),
        }

    async def grants(self, request: Request) -> Grants:
        """``GET /v1/grants?session_id=``: the grants of one's own tasks; a reviewer sees all."""
        identity = await self.who(request, agents=True)
        rows = await self.service.store.list_grants(session_id=request.query_params.get("session_id"))
        mine = [row for row in rows if self._concerns(identity, row)]
        now = self.service.clock.now()
        shown = [
            GrantAnswer(
                **dict(row.grant),
                uses=row.uses,
                revoked=row.revoked,
                usable=row.usable(now) and await self._goes_on(row),
            )
            for row in mine
        ]
        return await redacted(Grants(grants=shown))

    async def _goes_on(self, row: GrantState) -> bool:
        """Whether a grant can still be used: one for a task ends with it."""
        if row.grant.scope == "session":
            return True
        task = await self.service.store.load(TaskId(row.grant.task_id))
        return task is not None and task.ended is None

    async def revoke_grant(self, request: Request) -> GrantTakenBack:
        """``DELETE /v1/grants/{id}``: from now on; a running call is not stopped."""
        identity = await self.who(request)
        grant_id = GrantId(request.path_params["grant_id"])
        rows = await self.service.store.list_grants()
        row = next((one for one in rows if one.grant.grant_id == grant_id), None)
        if row is None:
            raise NotFound(
                f"There is no grant {one_line(grant_id)}.", remedy="`cc-orchestrator grants list` shows them."
            )
        if not self._concerns(identity, row):
            raise Forbidden(
                "Only the person who gave a grant, the person whose tasks it covers, or a reviewer can revoke it.",
                remedy="Ask one of them.",
            )
        note = self.service.draft(GrantRevoked(grant_id=grant_id), person(identity))
        revoked = await self.service.store.revoke_grant(grant_id, note=note)
        return GrantTakenBack(grant_id=grant_id, revoked=revoked)

    def _concerns(self, identity: Identity, row: GrantState) -> bool:
        own = identity.name in (row.grant.user_id, row.grant.granted_by)
        return own or self.authorizer.sees_user(identity, row.grant.user_id)


# -- The endpoints to decisions: what waits for a person, and what the person says -------


class DecisionEndpoints(Room):
    """``/v1/requests``, ``/v1/decisions``, ``/v1/resume``, ``/v1/approve`` and ``/v1/reject``."""

    attempts: Attempts

    async def requests(self, request: Request) -> Requests:
        """``GET /v1/requests``: what waits for a person, long texts cut."""
        identity = await self.who(request, agents=True)
        tasks = [one for one in await self.service.reviewing() if self.authorizer.sees_user(identity, one.user_id)]
        shown = [await show(one, max_chars=LIST_CHARS) for one in tasks]
        return Requests(requests=sorted(shown, key=lambda one: one.created_at))

    async def request(self, request: Request) -> HitlResponse:
        """``GET /v1/requests/{id}``: the whole of it; 409 once it is closed."""
        identity = await self.who(request, agents=True)
        request_id = request_id_of(request)
        task = await self.service.for_request(request_id)
        if task.request is None or task.request.request_id != request_id:
            raise closed_request(task, request_id)
        if identity.kind == "person":
            await self.service.noted(task, "viewed", identity)
        return hitl_response(task)

    async def extend(self, request: Request) -> TaskShort:
        """``POST /v1/requests/{id}/extend``: more time."""
        identity = await self.who(request)
        body = await read_body(request, ExtendBody)
        until = self.service.clock.now() + timedelta(seconds=body.seconds)
        return TaskShort.made_from(await self.service.extend(request_id_of(request), until, identity))

    async def claim(self, request: Request) -> TaskShort:
        """``POST /v1/requests/{id}/claim``: the others see who looks at it, and wait."""
        identity = await self.who(request)
        await read_body(request, EmptyBody)
        return TaskShort.made_from(await self.service.claim(request_id_of(request), identity))

    async def release(self, request: Request) -> TaskShort:
        """``POST /v1/requests/{id}/release``: others decide it again."""
        identity = await self.who(request)
        await read_body(request, EmptyBody)
        return TaskShort.made_from(await self.service.unclaim(request_id_of(request), identity))

    async def comment(self, request: Request) -> TaskShort:
        """``POST /v1/requests/{id}/comment``: a word to the next reviewer."""
        identity = await self.who(request)
        body = await read_body(request, CommentBody)
        return TaskShort.made_from(await self.service.comment(request_id_of(request), body.text, identity))

    async def escalate(self, request: Request) -> TaskShort:
        """``POST /v1/requests/{id}/escalate``: it goes to the people who come next."""
        identity = await self.who(request)
        await read_body(request, EmptyBody)
        return TaskShort.made_from(await self.service.escalate(request_id_of(request), identity))

    async def withdraw(self, request: Request) -> TaskShort:
        """``POST /v1/requests/{id}/withdraw``: its calls do not run, and the model is told."""
        identity = await self.who(request)
        await read_body(request, EmptyBody)
        return TaskShort.made_from(await self.service.withdraw(request_id_of(request), identity))

    async def renew(self, request: Request) -> TaskShort:
        """``POST /v1/requests/{id}/renew``: ask again for what nobody answered in time."""
        identity = await self.who(request)
        await read_body(request, EmptyBody)
        return TaskShort.made_from(await self.service.renew(request_id_of(request), identity))

    async def decisions(self, request: Request) -> DecidedList:
        """``POST /v1/decisions``: several requests, each by itself; 200 with what became of each."""
        identity = await self.who(request)
        body = await read_body(request, DecisionsBody)
        answers: list[DecisionTaken | DecisionRefused] = []
        for one in body.requests:
            try:
                decided = await self.service.decide(one.request_id, one.resume, identity)
            except OrchestratorError as error:
                await self.attempts.refused(request, identity, error, request_id=one.request_id)
                answers.append(DecisionRefused.made_from(error, request_id=one.request_id, error=problem(error)))
            else:
                far = progress_of(decided.task, one.request_id)
                taken = {"request_id": one.request_id, "progress": far, "http_status": 200}
                answers.append(DecisionTaken.made_from(decided.task, **taken))
        return DecidedList(decisions=answers)

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
            return as_json(_decided(decided.task, request_id), 200)
        if not wait_s:
            return as_json(_decided(decided.task, request_id), 202)
        task = await self._settled(decided.task.task_id, wait_s, request_id)
        status = 200 if task.phase is Phase.ENDED or task.request else 202
        return as_json(await redacted(_outcome(task, request_id)), status)

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


def _decided(task: AgentTask, request_id: RequestId) -> TaskDecided:
    return TaskDecided.made_from(task, progress=progress_of(task, request_id))


def _outcome(task: AgentTask, request_id: RequestId) -> TaskShort | NextRequest:
    """The task after a decision: its end, its next request, or its present step."""
    if (final := final_result(task)) is not None:
        return TaskOverAnswer.made_from(final, task_id=task.task_id, status=task.status)
    if task.request is not None:
        return NextRequest(**dict(hitl_response(task)), status=task.status)
    return _decided(task, request_id)


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
    """The digest that body and header say was seen: two that differ cannot both be it, and fit nothing."""
    return {"expected_digest": digest if said in (None, digest) else f"{said} and {digest}"}
