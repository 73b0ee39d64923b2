"""The people of the machine: what they say to requests, and what they hold against the answer at once."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from orchestrator.core.approval.approval import CallDecision, CallState, HitlResponse, ResumeRequest
from orchestrator.core.approval.grants import SESSION_S, GrantSpec
from orchestrator.core.approval.people import Unseen
from orchestrator.core.errors import Forbidden, NotPending, OrchestratorError
from orchestrator.core.ports import Identity
from orchestrator.core.task.facts import RequestedCall, RequestId, TaskId
from orchestrator.core.task.system_facts import GrantId, GrantRevoked
from orchestrator.engine.tasks import person, show
from tests.contract.machine.ledger import Given, Ledger, Said, own_args
from tests.contract.machine.node import ALICE, BOB, CAROL, ROBOT, Node
from tests.contract.machine.sheets import CHANGES


@dataclass
class People:
    """Alice, who wants something; Bob and Carol, who decide; a robot, which may not."""

    node: Node
    ledger: Ledger
    seen: Counter[str]

    async def decide(
        self, by: Identity, request_id: RequestId, verb: str, unknown: str, spec: GrantSpec, *, sure: bool = True
    ) -> Said | None:
        """The decision, if it was taken as a new one. ``sure``: nobody can have come before."""
        task = await self.node.service.for_request(request_id)
        is_open = task.request is not None and task.request.request_id == request_id
        shown = await show(task) if is_open else None
        resume, grants = self._resume(shown, verb, unknown, spec)
        said = self._said(by, request_id, resume, shown, grants)
        plain = shown is not None and (resume.action is not None and resume.expected_digest is None)
        try:
            decided = await self.node.service.decide(request_id, resume, by)
        except OrchestratorError as error:
            self.seen[f"refused: {error.code}"] += 1
            may = by in (BOB, CAROL) or (by is ALICE and resume.action == "reject")
            late = shown is not None and shown.expires_at is not None and self.node.clock.now() >= shown.expires_at
            # The computer was asked twice what became of it, and no more.
            spent = shown is not None and shown.reason == "outcome_unknown" and "check" not in shown.allowed_decisions
            self._refused(error, sound=sure and plain and may and not late and not spent, may=may)
            self._names_who_was_first(request_id, error)
            return None
        assert by in (BOB, CAROL) or (by is ALICE and _only_rejects(resume)), f"{by.name} decided"
        assert resume.expected_digest is None or decided.repeated, "decided on something else than was shown"
        if decided.repeated:
            self.seen["repeated"] += 1
            return None
        assert shown is not None or not sure, "a request that was closed took a decision"
        for one, _ in said.verbs.values():
            self.seen[one] += 1
        if verb in ("edit elsewhere", "edit over") and any(args for _, args in said.verbs.values()):
            self.seen[verb] += 1
        self.ledger.said.append(said)
        return said

    def _refused(self, error: OrchestratorError, *, sound: bool, may: bool) -> None:
        assert not sound, f"a sound decision was refused: {error}"
        assert may or isinstance(error, (Forbidden, Unseen)), f"who may not decide is told so, not {error}"

    def _names_who_was_first(self, request_id: RequestId, error: OrchestratorError) -> None:
        """Whoever comes after a decision on the whole is told whose it was (D7)."""
        if not isinstance(error, NotPending) or "decided_by" not in error.details:
            return
        first = [one.by for one in self.ledger.said if one.request_id == request_id]
        named = error.details["decided_by"]
        if first and error.details["how"].endswith(f"by {named}"):
            assert named == first[-1], f"{named} is named, and {first[-1]} decided"

    def _resume(
        self, shown: HitlResponse | None, verb: str, unknown: str, spec: GrantSpec
    ) -> tuple[ResumeRequest, tuple[Given, ...]]:
        """What is sent, and the grants that come with it."""
        if shown is None:
            return ResumeRequest(action="reject" if verb.startswith("reject") else "approve"), ()
        if shown.reason == "outcome_unknown":
            return ResumeRequest.model_validate({"action": unknown}), ()
        if verb in ("approve", "reject"):
            return ResumeRequest.model_validate({"action": verb}), ()
        if verb == "reject on":
            return ResumeRequest(action="reject", on_reject="continue"), ()
        if verb == "wrong digest":
            return ResumeRequest(action="approve", expected_digest="0" * 64), ()
        first, *others = shown.tool_calls
        args, decisions = own_args(first.args), []
        grants: tuple[Given, ...] = ()
        match verb:
            case "edit" | "edit elsewhere" | "edit over" if first.tool == "cc_write":
                # One place is free, the other mostly holds a file that nobody was shown.
                over = "b.lua" if args["path"] != "b.lua" else "a.lua"
                place = {"edit": args["path"], "edit elsewhere": "d.lua", "edit over": over}[verb]
                new = {"content": "-- of a person\n", "path": place}
                decisions.append(CallDecision(call_id=first.call_id, action="edit", args={**first.args, **new}))
            case "respond":
                decisions.append(CallDecision(call_id=first.call_id, action="respond", answer="It is so."))
            case "remember":
                spec = spec if first.tool in CHANGES else spec.model_copy(update={"paths": None})
                decisions.append(
                    CallDecision(
                        call_id=first.call_id,
                        action="approve",
                        remember=spec,
                        expected_digest=first.action_digest,
                    )
                )
                lasts_s = spec.expires_s or (SESSION_S if spec.scope == "session" else None)
                until = None if lasts_s is None else self.node.clock.now() + timedelta(seconds=lasts_s)
                grants = (
                    Given(
                        task_id=shown.task_id,
                        session_id=shown.session_id,
                        scope=spec.scope,
                        paths=spec.paths,
                        any_content=spec.any_content,
                        max_uses=spec.max_uses,
                        until=until,
                        tool=first.tool,
                        computer=first.computer,
                        args=args,
                        state=first.observed.state,
                    ),
                )
            case _:
                decisions.append(CallDecision(call_id=first.call_id, action="approve"))
        if verb == "mixed":
            for one in others:
                decisions.append(CallDecision(call_id=one.call_id, action="reject", on_reject="continue"))
        return ResumeRequest(decisions=tuple(decisions)), grants

    def _said(
        self,
        by: Identity,
        request_id: RequestId,
        resume: ResumeRequest,
        shown: HitlResponse | None,
        grants: tuple[Given, ...],
    ) -> Said:
        calls = shown.tool_calls if shown is not None else ()
        if resume.decisions is None:
            verbs: dict[str, Any] = {one.call_id: (resume.action, None) for one in calls}
        else:
            verbs = {
                one.call_id: (one.action, None if one.args is None else own_args(one.args)) for one in resume.decisions
            }
        now = self.node.clock.now()
        requested = {
            str(one.call_id): RequestedCall(
                call_id=one.call_id,
                observed=one.observed,
                evaluation=one.evaluation,
                action_digest=one.action_digest,
            )
            for one in calls
        }
        until = now + timedelta(seconds=self.node.sheet.valid_for_s)
        return Said(request_id, by.name, now, until, verbs, requested, grants, whole=resume.action is not None)

    async def race(self, request_id: RequestId, verbs: tuple[str, str], unknown: str, spec: GrantSpec) -> None:
        """Two say something in the same moment."""
        said = await asyncio.gather(
            self.decide(BOB, request_id, verbs[0], unknown, spec, sure=False),
            self.decide(CAROL, request_id, verbs[1], unknown, spec, sure=False),
        )
        won = [one for one in said if one is not None]
        if len(won) == 2:
            both_whole = won[0].whole and won[1].whole
            alike = not (won[0].whole or won[1].whole) and set(won[0].verbs) & set(won[1].verbs)
            assert not both_whole, "both decided the whole of it"
            assert not alike, "both decided the same call"

    async def around(self, by: Identity, task_id: TaskId, request_id: RequestId | None, how: str) -> None:
        """More time, taken back, asked again, looked at; or the task is stopped."""
        service = self.node.service
        task = await service.load(task_id)
        try:
            match how:
                case "cancel":
                    await service.cancel(task_id, by)
                case "look":
                    await service.noted(task, "viewed", by)
                case "extend" if task.request is not None:
                    later = (task.request.expires_at or self.node.clock.now()) + timedelta(seconds=500)
                    await service.extend(task.request.request_id, later, by)
                case "withdraw" if request_id is not None:
                    await service.withdraw(request_id, by)
                case "renew" if task.lapsed is not None:
                    await service.renew(task.lapsed, by)
                case _:
                    return
        except OrchestratorError as error:
            self.seen[f"refused: {error.code}"] += 1
        else:
            self.seen[how] += 1
            assert by is not ROBOT or how == "look"
            assert by is ALICE or how not in ("cancel", "withdraw")

    async def answer(self, by: Identity, task_id: TaskId) -> None:
        """The answer to the open question of a task, if there is one."""
        task = await self.node.service.load(task_id)
        asked = next((one.question_id for one in task.calls if one.state is CallState.ASKING), None)
        if asked is None:
            return
        try:
            await self.node.service.answer(task_id, asked, "This one.", by)
        except OrchestratorError:
            refused = True
        else:
            refused = False
        assert refused == (by is ROBOT or task.ended is not None), f"{by.name} answers: {refused=}"

    async def revoke(self) -> None:
        """Take the oldest grant back that still stands."""
        for grant_id, given in self.ledger.given.items():
            if given.revoked_at is None:
                note = self.node.service.draft(GrantRevoked(grant_id=GrantId(grant_id)), person(BOB))
                await self.node.raw.revoke_grant(GrantId(grant_id), note=note)
                tasks = [TaskId(one) for one in self.ledger.accounts]
                given.revoked_at = {one: (await self.node.service.load(one)).version for one in tasks}
                self.seen["revoke"] += 1
                return


def _only_rejects(resume: ResumeRequest) -> bool:
    if resume.action is not None:
        return resume.action == "reject"
    return all(one.action == "reject" for one in resume.decisions or ())
