"""Thousands of interleavings of all that can happen to a request for review: no promise may break in any of them.

Nothing runs that was not allowed, or approved with the same digest; a call has one terminal decision; an
approval pays for one execution; no request is lost. What ran is what the computers themselves say.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from orchestrator.core.approval.grants import GrantSpec
from orchestrator.core.ports import Identity
from tests.contract.machine import drawn
from tests.contract.machine.computers import FAULTS
from tests.contract.machine.node import ALICE, BOB, CAROL, FARM, MINE, ROBOT
from tests.contract.machine.running import Running
from tests.contract.machine.sheets import SHEETS

MOST_TASKS = 3
PEOPLE = st.sampled_from([BOB, CAROL, BOB, CAROL, BOB, CAROL, ALICE, ROBOT])
ANY = st.integers(0, 7)
MEDDLING = st.lists(st.tuples(drawn.PLACES, drawn.MEDDLERS, st.sampled_from(SHEETS)), max_size=3)


class ReviewMachine(Running):
    """What people, computers and policies may do, in any order."""

    seen: ClassVar[Counter[str]] = Counter()

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

    @rule(which=ANY, verbs=st.tuples(drawn.VERBS, drawn.VERBS), unknown=drawn.UNKNOWN_VERBS, spec=drawn.GRANTS)
    def race(self, which: int, verbs: tuple[str, str], unknown: str, spec: GrantSpec) -> None:
        """Two people say something in the same moment."""
        request_id = self._some_request(which)
        if request_id is not None:
            self._do(self.people.race(request_id, verbs, unknown, spec))

    @rule(by=PEOPLE, which=ANY, how=drawn.AROUND)
    def around(self, by: Identity, which: int, how: str) -> None:
        """More time, taken back, asked again, looked at; or the task is stopped. Mostly by one who may."""
        by = ALICE if how == "withdraw" and by is not ROBOT else by
        wanted = {"renew": self._lapsed(), "extend": [one for one, _ in self._open_of_tasks()]}.get(how)
        task_id = (wanted or self.tasks)[which % len(wanted or self.tasks)]
        self._do(self.people.around(by, task_id, self._some_request(which), how))

    @rule(which=ANY, how=st.sampled_from(["withdraw", "extend", "cancel"]))
    def ask_and_take_back(self, which: int, how: str) -> None:
        """The actors go on until somebody is asked; then it is put off or taken back."""
        self._do(self._act(3))
        waiting = self._open_of_tasks()
        if waiting:
            task_id, request_id = waiting[which % len(waiting)]
            self._do(self.people.around(CAROL if how == "extend" else ALICE, task_id, request_id, how))
            self._do(self._act(2))

    @rule(by=st.sampled_from([ALICE, BOB]), meddling=MEDDLING)
    def nobody_answers_and_somebody_asks_again(self, by: Identity, meddling: Any) -> None:
        """People are reminded, a deadline passes, and the request is asked for anew."""
        self._do(self._act(3))
        self.node.clock.advance(3_580)
        self._do(self._act(2))
        self.node.clock.advance(30)
        self._act_and_meddle(meddling, 2)
        for task_id in self._lapsed():
            self._do(self.people.around(by, task_id, None, "renew"))
        self._do(self._act(1))

    @rule(
        run=drawn.RUN,
        fault=st.sampled_from(["reboot before", "reboot after"]),
        verbs=drawn.TWO_UNKNOWN_VERBS,
        meddling=MEDDLING,
    )
    def nobody_knows(self, run: Any, fault: str, verbs: Sequence[str], meddling: Any) -> None:
        """A program runs, the computer restarts under it, and a person says what is to be thought of it; then again."""
        if len(self.tasks) < MOST_TASKS:
            self._do(self._submit([[run], [run]], "s2"))
        for unknown in verbs:
            self._do(self._act(4))
            self.node.computers.faults.appendleft(fault)
            self._all_decided(BOB, "approve", unknown)
            self._act_and_meddle(meddling, 4)
            self._all_decided(CAROL, "approve", unknown)
        self._do(self._act(2))

    @rule(script=st.lists(st.lists(drawn.CALLS, min_size=1, max_size=2), min_size=3, max_size=3), verb=drawn.REFUSALS)
    def say_no_and_no_again(self, script: Any, verb: str) -> None:
        """A person lets nothing through, or says something instead, until the model gives up or is given up."""
        if len(self.tasks) < MOST_TASKS:
            self._do(self._submit(script, "s1"))
        for _ in range(3):
            self._do(self._act(4))
            self._all_decided(BOB, verb, "mark_done")
        self._do(self._act(2))

    @rule(write=drawn.WRITE, verb=drawn.EDITS, meddling=MEDDLING, spec=drawn.GRANTS)
    def edit_and_act(self, write: Any, verb: str, meddling: Any, spec: GrantSpec) -> None:
        """A person has something else written, here or in a place that nobody has looked at."""
        if len(self.tasks) < MOST_TASKS:
            self._do(self._submit([[write]], "s1"))
        self._do(self._act(4))
        self._all_decided(CAROL, verb, "check", spec)
        self._act_and_meddle(meddling, 3)

    @rule(by=PEOPLE, which=ANY)
    def answer(self, by: Identity, which: int) -> None:
        """A person answers a question."""
        self._do(self.people.answer(by, self.tasks[which % len(self.tasks)]))

    @rule()
    def revoke(self) -> None:
        """A grant is taken back."""
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
    *("edit elsewhere", "edit over", "edited_target"),
    *("meddled: kill", "meddled: take over", "meddled: drop", "meddled: approve", "meddled: reload"),
}
"""What the runs have to have met: what never happens is not proved."""
MOST_MISSED = 5
"""Of 47, in hundreds of runs: none or one, as a rule; which of them it is, is chance."""


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


def test_no_interleaving_breaks_a_promise() -> None:
    """Some runs of thirty steps over the store in memory. They meet most of what there is: how much is chance."""
    seen = _run(ReviewMachine, 9)
    missed = EXPECTED - set(seen)
    assert len(missed) <= len(EXPECTED) // 2, sorted(missed)


@pytest.mark.deep
def test_no_interleaving_breaks_a_promise_on_disk() -> None:
    """Some over SQLite, where every restart reads a file."""
    _run(ReviewMachineOnDisk, 4)


@pytest.mark.deep
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    ("machine", "examples", "missed"), [(ReviewMachine, 4_000, 0), (ReviewMachineOnDisk, 400, MOST_MISSED)]
)
def test_thousands_of_interleavings_break_no_promise(machine: type[ReviewMachine], examples: int, missed: int) -> None:
    """Thousands of them, which meet everything that there is, and hundreds on disk."""
    seen = _run(machine, examples)
    assert len(EXPECTED - set(seen)) <= missed, sorted(EXPECTED - set(seen))
