"""A review machine at work: what its rules do, what always holds, and how everything comes to its end."""

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from orchestrator.core.approval.grants import GrantSpec
from orchestrator.core.audit.check import Standing, standing_of
from orchestrator.core.ports import SYSTEM_STREAM, Identity
from orchestrator.core.task import states
from orchestrator.core.task.facts import RequestId, TaskId
from orchestrator.core.task.items import AgentTaskItem
from tests.contract.machine.ledger import Ledger
from tests.contract.machine.node import ALICE, BOB, FARM, MINE, Killed, Node, store_url
from tests.contract.machine.people import People

_Found = TypeVar("_Found")
ROUNDS = 80
"""In which all is decided at the end: the longest script has four steps of four calls, each asked about thrice."""


class Running(RuleBasedStateMachine):
    """One node, its people, its computers, and the ledger; the rules are for who inherits it."""

    on_disk: ClassVar[bool] = False
    seen: ClassVar[Counter[str]] = Counter()
    """What happened in all runs: what never happens is not proved."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._directory = tempfile.TemporaryDirectory() if self.on_disk else None
        self.node = Node(store_url(Path(self._directory.name) if self._directory else None))
        self.ledger = Ledger()
        self.people = People(self.node, self.ledger, self.seen)
        self.tasks: list[TaskId] = []
        self.journals: dict[TaskId, list[AgentTaskItem]] = {}
        self.broken = False
        """Whether a promise was broken: then nothing more is asked of this run."""

    def _all_decided(self, by: Identity, verb: str, unknown: str, spec: GrantSpec | None = None) -> None:
        """Say it to everything that waits."""
        for request_id in self._open_requests():
            self._do(self.people.decide(by, request_id, verb, unknown, spec or GrantSpec(scope="call")))

    def _act_and_meddle(self, meddling: Any, turns: int) -> None:
        for place, what, sheet in meddling:
            self.node.meddlers[place] = self._meddler(what, sheet)
        self._do(self._act(turns))
        self.node.meddlers.clear()

    def _meddler(self, what: str, sheet: Any) -> Callable[[], Awaitable[None]]:
        async def meddler() -> None:
            self.seen[f"meddled: {what}"] += 1
            await self._meddle(what, sheet)

        return meddler

    # -- how -----------------------------------------------------------------------------

    async def _submit(self, script: Any, session: str) -> None:
        task = await self.node.service.submit(
            json.dumps(script), user=ALICE, computers=(FARM, MINE), model="script", session_id=session
        )
        self.tasks.append(task.task_id)

    async def _act(self, turns: int) -> None:
        for _ in range(turns):
            if await self.node.act() is None:
                return

    async def _meddle(self, what: str, sheet: Any) -> None:
        match what:
            case "kill":
                raise Killed
            case "drop":
                await self.node.drop(FARM)
            case "cancel":
                await self.people.around(ALICE, self.tasks[0], None, "cancel")
            case "take over":
                await self.node.take_over()
            case "reload":
                await self.node.reload(sheet)
            case "revoke":
                await self.people.revoke()
            case "approve":
                for request_id in self._open_requests():
                    await self.people.decide(
                        BOB, request_id, "approve", "mark_done", GrantSpec(scope="call"), sure=False
                    )
            case "player":
                self._player(FARM, "a.lua")
            case _:
                self.node.clock.advance(45 if what == "late" else 1_000)

    def _player(self, computer: Any, path: str) -> None:
        stamp = f"-- {self.node.clock.now():%H:%M:%S} old\n"
        self.node.computers.all[computer].disk.put(path, stamp.encode())

    async def _restart(self) -> None:
        before = {request_id: task_id for task_id, request_id in self._open_of_tasks()}
        await self.node.restart()
        for request_id, task_id in before.items():
            found = await self.node.store.load_by_request_id(request_id)
            assert found is not None, f"request {request_id} was lost with a restart"
            assert found.task_id == task_id, f"request {request_id} was lost with a restart"

    # -- what always holds ---------------------------------------------------------------

    def _do(self, coroutine: Coroutine[Any, Any, _Found]) -> _Found:
        self.node.in_force, self.broken = {self.node.sheet}, True
        found = self._loop.run_until_complete(coroutine)
        self._loop.run_until_complete(self._check())
        self.broken = False
        return found

    async def _check(self) -> None:
        self.ledger.heard(self.node.computers.deeds)
        changed: list[TaskId] = []
        for task_id in self.tasks:
            journal = self.journals.setdefault(task_id, [])
            new = await self.node.raw.read(task_id, len(journal))
            if new:
                changed.append(task_id)
                journal.extend(new)
                self.seen.update(_words(new))
                self.ledger.take(task_id, new, self.node.sheets_at[task_id])
        self.ledger.weigh()
        if changed:
            standing = await self._standing()
            for task_id in changed:
                self.ledger.audit(self.journals[task_id], standing)
            await self._no_request_is_lost()

    async def _standing(self) -> Standing:
        everything = [item for journal in self.journals.values() for item in journal]
        return standing_of([*everything, *await self.node.raw.read(TaskId(SYSTEM_STREAM))])

    async def _no_request_is_lost(self) -> None:
        """What is listed is what waits, call by call."""
        listed = {
            one.request_id: {call.call_id for call in one.tool_calls} for one in await self.node.service.pending()
        }
        waiting = {
            request_id: set(calls)
            for account in self.ledger.accounts.values()
            for request_id, calls in account.waiting.items()
        }
        assert listed == waiting

    def _open_of_tasks(self) -> list[tuple[TaskId, RequestId]]:
        return [
            (task_id, RequestId(one))
            for task_id in self.tasks
            if task_id in self.ledger.accounts
            for one in self.ledger.accounts[task_id].waiting
        ]

    def _open_requests(self) -> list[RequestId]:
        return [request_id for _, request_id in self._open_of_tasks()]

    def _lapsed(self) -> list[TaskId]:
        """The tasks whose request nobody answered in time."""
        return [one for one in self.tasks if one in self.ledger.accounts and self.ledger.accounts[one].lapsed]

    def _some_request(self, which: int) -> RequestId | None:
        """Mostly an open one; sometimes one that was closed."""
        known = self._open_requests() * 3
        for account in self.ledger.accounts.values():
            known.extend(RequestId(one) for one in account.deadlines if one not in account.waiting)
        return known[which % len(known)] if known else None

    # -- the end -------------------------------------------------------------------------

    def teardown(self) -> None:
        """Everything is decided and delivered: each task ends."""
        try:
            if not self.broken:
                self._finish()
        finally:
            self._loop.run_until_complete(self.node.close())
            self._loop.close()
            if self._directory is not None:
                self._directory.cleanup()

    def _finish(self) -> None:
        self.node.meddlers.clear()
        self.node.computers.faults.clear()
        for computer in (FARM, MINE):
            self._do(self.node.reconnect(computer))
        for _ in range(ROUNDS):
            if self._do(self._one_round()):
                break
        self._do(self._all_is_over())

    async def _one_round(self) -> bool:
        """All that is due is done, then all that waits is decided; whether everything has ended."""
        while await self.node.act() is not None:
            pass
        await self._check()
        left = [one for one in [await self.node.service.load(task_id) for task_id in self.tasks] if one.ended is None]
        for task in left:
            if task.request is not None:
                verb = "mark_done" if task.request.reason == "outcome_unknown" else "approve"
                await self.people.decide(
                    BOB, task.request.request_id, verb, "mark_done", GrantSpec(scope="call"), sure=False
                )
            elif task.lapsed is not None:
                await self.node.service.renew(task.lapsed, ALICE)
            elif task.phase is states.Phase.ANSWERING:
                await self.people.answer(BOB, task.task_id)
            else:
                due = await self.node.store.next_due()
                assert due is not None, f"task {task.task_id} is {task.status.value} and nothing will bring it on"
        self.node.clock.advance(2)
        return not left

    async def _all_is_over(self) -> None:
        for task_id in self.tasks:
            task = await self.node.service.load(task_id)
            assert task.ended is not None, f"{task_id} never ended: {task.status.value} {task.status_reason}"
            assert not task.open_runs, "a bracket was never closed"
        for computer in (FARM, MINE):
            assert await self.node.store.claimant(computer) is None, "a claim stayed behind"


def _words(items: Sequence[AgentTaskItem]) -> list[str]:
    """What happened, in words that the tests ask for."""
    found = []
    for item in items:
        fact: Any = item.fact
        more = {"request_ended": "end", "review_noted": "what", "tool_settled": "state", "task_ended": "status"}
        name = more.get(fact.kind)
        found.append(f"{fact.kind} {getattr(fact, name)}" if name else fact.kind)
        if fact.kind == "request_ended" and fact.code:
            found.append(fact.code)
    return found
