"""The endpoints to the policy and to grants: what is in force, what it would say, what stands."""

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.core.approval.grants import GrantState
from orchestrator.core.approval.presentation import reviews
from orchestrator.core.errors import Forbidden, NotFound
from orchestrator.core.policy import FunctionCall, Policy, PolicyContext, explain
from orchestrator.core.ports import Identity
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.system_facts import GrantId, GrantRevoked
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.tasks import person
from orchestrator.history.policy_store import PolicyKeeper
from orchestrator.runtime.policy_file import load_with_plugins
from orchestrator.web.answers.base import GrantTakenBack, Reloaded
from orchestrator.web.auth import must_have
from orchestrator.web.base import Room
from orchestrator.web.bodies import DryRunBody, EmptyBody, PolicyBody, read_body
from orchestrator.web.errors import without_secrets


class PolicyEndpoints(Room):
    """``/v1/policy`` and ``/v1/grants``."""

    policy: PolicyKeeper
    context_of: Callable[[ComputerId], PolicyContext]
    """What is known of a computer now."""

    async def show_policy(self, request: Request) -> Response:
        """``GET /v1/policy``: what is in force; ``alert``: why this node's file is not, or why it judges nothing."""
        await self.who(request, agents=True)
        present = self.policy.policy
        return JSONResponse(
            {
                "policy_version": present.version,
                "source": self.policy.source,
                "alert": self.policy.alert,
                "mode": present.mode,
                "policy": present.model_dump(mode="json", by_alias=True),
            }
        )

    async def reload_policy(self, request: Request) -> Reloaded:
        """``POST /v1/policy/reload``: look at the file now; it is looked at each second anyway."""
        must_have(await self.who(request), "admin")
        await read_body(request, EmptyBody)
        alert = await self.policy.reload()
        return Reloaded(policy_version=self.policy.policy.version, alert=alert)

    async def apply_policy(self, request: Request) -> Reloaded:
        """``POST /v1/policy``: put a policy into force on all nodes; one that cannot be loaded changes nothing."""
        identity = await self.who(request)
        must_have(identity, "admin")
        body = await read_body(request, PolicyBody)
        await self.policy.apply(body.policy, person(identity))
        return Reloaded(policy_version=self.policy.policy.version, alert=self.policy.alert)

    async def dry_run(self, request: Request) -> Response:
        """``POST /v1/policy/dry-run``: the verdict on a call, and why; nothing runs (promise P19).

        ``policy``: the text of a policy to try instead of the one in force.
        """
        await self.who(request, agents=True)
        body = await read_body(request, DryRunBody)
        policy, custom = self.policy.policy, self.policy.custom
        if body.policy is not None:
            policy, custom = await asyncio.to_thread(load_with_plugins, body.policy, source="the policy that was sent")
        explained = explain(
            FunctionCall(tool=body.tool, args=body.args), policy=policy, context=self._context(body), custom=custom
        )
        return JSONResponse({**explained.decision.model_dump(mode="json"), **_because(explained, policy)})

    def _context(self, body: DryRunBody) -> PolicyContext:
        known = self.context_of(ComputerId(body.computer)) if body.computer else PolicyContext()
        said = body.model_dump(include={"computer", "family", "label", "program", "roles", "plan"}, exclude_none=True)
        if body.label is not None:
            said["former_labels"] = ()
        return known.model_copy(update=said)

    async def grants(self, request: Request) -> Response:
        """``GET /v1/grants?session_id=``: the grants of one's own tasks; a reviewer sees all."""
        identity = await self.who(request, agents=True)
        rows = await self.service.store.list_grants(session_id=request.query_params.get("session_id"))
        mine = [row for row in rows if _concerns(identity, row)]
        now = self.service.clock.now()
        shown = [
            {
                **row.grant.model_dump(mode="json"),
                "uses": row.uses,
                "revoked": row.revoked,
                "usable": row.usable(now) and await self._goes_on(row),
            }
            for row in mine
        ]
        return JSONResponse({"grants": await without_secrets(shown)})

    async def _goes_on(self, row: GrantState) -> bool:
        """Whether a grant can still be used: one for a task ends with it."""
        if row.grant.scope == "session":
            return True
        task = await self.service.store.load(TaskId(row.grant.task_id))
        return task is not None and task.ended is None

    async def revoke_grant(self, request: Request) -> GrantTakenBack:
        """``DELETE /v1/grants/{id}``: from now on; what is running is not stopped."""
        identity = await self.who(request)
        grant_id = GrantId(request.path_params["grant_id"])
        rows = await self.service.store.list_grants()
        row = next((one for one in rows if one.grant.grant_id == grant_id), None)
        if row is None:
            raise NotFound("There is no such grant.", remedy="`cc-orchestrator grants list` shows them.")
        if not _concerns(identity, row):
            raise Forbidden(
                "Only who gave a grant, whose tasks it covers, or a reviewer revokes it.", remedy="Ask one of them."
            )
        note = self.service.draft(GrantRevoked(grant_id=grant_id), person(identity))
        revoked = await self.service.store.revoke_grant(grant_id, note=note)
        return GrantTakenBack(grant_id=grant_id, revoked=revoked)


def _concerns(identity: Identity, row: GrantState) -> bool:
    own = identity.name in (row.grant.user_id, row.grant.granted_by)
    return own or reviews(identity.roles)


def _because(explained: Any, policy: Policy) -> dict[str, Any]:
    told = explained.model_dump(mode="json", exclude={"decision"})
    return {**told, "policy_version": policy.version}
