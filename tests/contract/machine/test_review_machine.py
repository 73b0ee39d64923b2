"""Thousands of interleavings of all that can happen to a request for review: no promise may break in any of them.

Nothing runs that was not allowed, or approved with the same digest; a call has one terminal decision; an
approval pays for one execution; no request is lost. What ran is what the computers themselves say.
"""

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from orchestrator.core import task as tasks
from orchestrator.core.audit_check import Standing, standing_of
from orchestrator.core.facts import RequestId, TaskId
from orchestrator.core.grants import GrantSpec
from orchestrator.core.items import AgentTaskItem
from orchestrator.ports import SYSTEM_STREAM, Identity
from tests.contract.machine import drawn
from tests.contract.machine.computers import FAULTS
from tests.contract.machine.ledger import Ledger
from tests.contract.machine.node import ALICE, BOB, CAROL, FARM, MINE, ROBOT, Killed, Node, store_url
from tests.contract.machine.people import People
from tests.contract.machine.sheets import SHEETS

_Found = TypeVar("_Found")
MOST_TASKS = 3
ROUNDS = 80
"""In which all is decided at the end: the longest script has three steps of four calls, each asked about thrice."""
PEOPLE = st.sampled_from([BOB, CAROL, BOB, CAROL, BOB, CAROL, ALICE, ROBOT])
ANY = st.integers(0, 7)
MEDDLING = st.lists(st.tuples(drawn.PLACES, drawn.MEDDLERS, st.sampled_from(SHEETS)), max_size=3)


class ReviewMachine(RuleBasedStateMachine):
    """One node, its people, its computers, and the ledger."""

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

    # -- what the model and the people do ------------------------------------------------

    @initialize(script=drawn.SCRIPTS, sheet=st.sampled_from(SHEETS))
    def begins(self, script: Any, sheet: Any) -> None:
        """A node with a policy and one task."""
        self._do(self.node.reload(sheet))
        self._do(self._submit(script, "s1"))

    @precondition(lambda self: len(self.tasks) < MOST_TASKS)
    @rule(script=drawn.SCRIPTS, session=st.sampled_from(["s1", "s2"]))
    def submit(self, script: Any, session: str) -> None:
        """One task more."""
        self._do(self._submit(script, session))

    @rule(turns=st.integers(1, 4))
    def act(self, turns: int) -> None:
        """The actors go on."""
        self._do(self._act(turns))

    @rule(meddling=MEDDLING, turns=st.integers(1, 4))
    def act_and_meddle(self, meddling: Any, turns: int) -> None:
        """The actors go on, and something comes in between."""
        self._act_and_meddle(meddling, turns)

    @rule(by=PEOPLE, which=ANY, verb=drawn.VERBS, unknown=drawn.UNKNOWN_VERBS, spec=drawn.GRANTS)
    def decide(self, by: Identity, which: int, verb: str, unknown: str, spec: GrantSpec) -> None:
        """A person says something to a request, open or not."""
        request_id = self._some_request(which)
        if request_id is not None:
            self._do(self.people.decide(by, request_id, verb, unknown, spec))

    @rule(which=ANY, verb=drawn.VERBS, spec=drawn.GRANTS, meddling=MEDDLING, fault=st.sampled_from(("", *FAULTS)))
    def decide_and_act(self, which: int, verb: str, spec: GrantSpec, meddling: Any, fault: str) -> None:
        """The actors go on until somebody is asked, who decides; what then runs meets whatever comes."""
        self._do(self._act(3))
        request_id = self._some_request(which)
        if request_id is not None:
            self._do(self.people.decide(CAROL, request_id, verb, "retry", spec))
        if fault:
            self.node.computers.faults.append(fault)
        self._act_and_meddle(meddling, 3)

    @rule(
        script=st.lists(st.lists(drawn.WRITE, min_size=1, max_size=3), min_size=2, max_size=4),
        which=ANY,
        spec=drawn.GRANTS,
        meddling=st.one_of(MEDDLING, st.just([("before tool_started", "revoke", SHEETS[0])])),
    )
    def remember_and_act(self, script: Any, which: int, spec: GrantSpec, meddling: Any) -> None:
        """A person allows more than the one call; the same kind of call comes again and again."""
        if len(self.tasks) < MOST_TASKS:
            self._do(self._submit(script, "s1"))
        self._do(self._act(4))
        request_id = self._some_request(which)
        if request_id is not None:
            self._do(self.people.decide(CAROL, request_id, "remember", "check", spec))
        self._act_and_meddle(meddling, 3)

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

    @rule(which=ANY, verbs=st.tuples(drawn.VERBS, drawn.VERBS), unknown=drawn.UNKNOWN_VERBS, spec=drawn.GRANTS)
    def race(self, which: int, verbs: tuple[str, str], unknown: str, spec: GrantSpec) -> None:
        """Two people say something in the same moment."""
        request_id = self._some_request(which)
        if request_id is not None:
            self._do(self.people.race(request_id, verbs, unknown, spec))

    @rule(by=PEOPLE, which=ANY, how=st.sampled_from(["extend", "withdraw", "renew", "look", "cancel"]))
    def around(self, by: Identity, which: int, how: str) -> None:
        """More time, taken back, asked again, looked at; or the task is stopped."""
        lapsed = [one for one in self.tasks if how == "renew" and self.ledger.accounts[one].lapsed]
        task_id = (lapsed or self.tasks)[which % len(lapsed or self.tasks)]
        self._do(self.people.around(by, task_id, self._some_request(which), how))

    @rule(by=PEOPLE, which=ANY)
    def answer(self, by: Identity, which: int) -> None:
        """A person answers a question."""
        self._do(self.people.answer(by, self.tasks[which % len(self.tasks)]))

    @rule()
    def revoke(self) -> None:
        """A standing approval is taken back."""
        self._do(self.people.revoke())

    # -- what the world does -------------------------------------------------------------

    @rule(sheet=st.sampled_from(SHEETS))
    def reload(self, sheet: Any) -> None:
        """Another policy."""
        self._do(self.node.reload(sheet))

    @rule()
    def restart(self) -> None:
        """The process ends between two turns; every request is found by its id."""
        self._do(self._restart())

    @rule(seconds=drawn.SECONDS)
    def time_goes_on(self, seconds: float) -> None:
        """Nobody does anything."""
        self.node.clock.advance(seconds)

    @rule(computer=st.sampled_from([FARM, MINE]), how=st.sampled_from(["drop", "back", "back", "another"]))
    def computer_comes_and_goes(self, computer: Any, how: str) -> None:
        """The line is cut; the computer, or another one in its name, is back."""
        if how == "drop":
            self._do(self.node.drop(computer))
        else:
            identity = f"another {self.node.clock.now():%H%M%S}" if how == "another" else ""
            self._do(self.node.reconnect(computer, identity))

    @rule(fault=st.sampled_from(FAULTS))
    def something_will_go_wrong(self, fault: str) -> None:
        """The next run that changes something meets it."""
        self.node.computers.faults.append(fault)

    @rule(computer=st.sampled_from([FARM, MINE]), path=st.sampled_from(["a.lua", "c.lua", "run.lua"]))
    def player_edits(self, computer: Any, path: str) -> None:
        """Somebody in the game changes a file."""
        self._player(computer, path)

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
            elif task.phase is tasks.Phase.ANSWERING:
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


class ReviewMachineOnDisk(ReviewMachine):
    """The same over SQLite, closed and opened again at each restart."""

    on_disk = True
    seen: ClassVar[Counter[str]] = Counter()


EXPECTED = {
    *("approve", "reject", "edit", "respond", "repeated", "extend", "withdraw", "renew", "cancel", "revoke"),
    *("request_ended expired", "request_ended stale", "request_ended superseded", "request_ended canceled"),
    *("review_noted released", "review_noted grant_used", "review_noted reminded", "approval_expired"),
    *("tool_settled void", "tool_settled finished", "tool_settled interrupted", "question_answered"),
    *("task_ended Completed", "task_ended Canceled", "task_ended Failed", "digest_mismatch", "computer_changed"),
    *("mark_done", "mark_failed", "check", "retry", "grant_void", "refused: not_pending", "refused: forbidden"),
    *("meddled: kill", "meddled: take over", "meddled: drop", "meddled: approve", "meddled: reload"),
}
"""What the runs have to have met: what never happens is not proved."""


def _run(machine: type[ReviewMachine], examples: int, *, steps: int = 30) -> Counter[str]:
    machine.seen.clear()
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
    )
    run_state_machine_as_test(machine, settings=chosen)
    return machine.seen


@pytest.mark.timeout(300)
def test_no_interleaving_breaks_a_promise() -> None:
    """Three hundred runs of thirty steps over the store in memory."""
    _run(ReviewMachine, 300)


@pytest.mark.timeout(300)
def test_no_interleaving_breaks_a_promise_on_disk() -> None:
    """Some over SQLite, where every restart reads a file."""
    _run(ReviewMachineOnDisk, 30)


@pytest.mark.deep
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("machine", "examples"), [(ReviewMachine, 4_000), (ReviewMachineOnDisk, 400)])
def test_thousands_of_interleavings_break_no_promise(machine: type[ReviewMachine], examples: int) -> None:
    """Thousands of them, which meet everything that there is."""
    seen = _run(machine, examples)
    assert set(seen) >= EXPECTED, sorted(EXPECTED - set(seen))
