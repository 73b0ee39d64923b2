"""How a schedule ends: quietly, with everything delivered and approved; and what must be true then."""

from collections.abc import Callable

from orchestrator.core.task.items import verify_chain
from orchestrator.core.task.task import AgentTask
from tests.explorer.computer import Computer
from tests.explorer.ledger import SWAP
from tests.explorer.net import Letter
from tests.explorer.setting import Setting
from tests.explorer.undos import UndoJudge

MAX_ROUNDS = 400
"""Rounds in which all that is under way arrives, before a task counts as stuck; a dozen is usual."""
MAX_ONWARD = 3_000
"""Callbacks on the way to a letter."""
MAX_STEPS = 20_000
"""Callbacks in one round, before the server counts as running in a circle; some hundreds are usual."""
QUIET_S, QUIET_ROUNDS = 13, 3
"""Time between two rounds in which nothing came, and how many of them end it: longer together than a lease,
one longer than a client waits before it dials."""


class Violation(AssertionError):
    """A promise was broken: the sentences, and the moves that lead there."""


class Ending:
    """The quiet end of a schedule and its verdict."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def quiet(self, *, stalled: bool) -> None:
        """Everything comes to rest; then all computers connect anew."""
        self.rest(stalled=stalled)
        self._setting.cut_all()
        self._settle_down()

    def rest(self, *, stalled: bool) -> None:
        """Everything arrives, everything is on, every request is approved.

        ``stalled``: a generation was stopped in this schedule. If it woke it may have put a task to sleep
        until a computer comes that had long come to its successor. Where there is no word between them,
        the computers connect anew first.
        """
        setting = self._setting
        for node in list(setting.stalled):
            setting.kill(node)
        setting.start_all()
        for node in setting.nodes:
            node.store.troubles.clear()
        if stalled and setting.net is None:
            setting.cut_all()
        self._settle_down()

    def check(self) -> None:
        """Raises Violation when something happened that may never happen."""
        ledger = self._setting.ledger
        ledger.look(self._setting.computers)
        if ledger.broken:
            raise Violation("\n".join(ledger.broken))

    def round(self, *, decide: bool = True, most: int = MAX_STEPS) -> bool:
        """Let all that can happen happen once, the servers for ``most`` callbacks (0: none); False: nothing could."""
        setting, busy = self._setting, False
        setting.let_answer()
        for computer in setting.computers:
            if not computer.on:
                computer.boot()
            for url in list(computer.dials):
                setting.connect(computer, url, setting.present())
            while computer.waiting:
                computer.step()
                busy = busy or bool(computer.dials)
        for wire in list(setting.wires()):
            busy = True
            while wire.to_client:
                wire.computer.deliver(wire)
            while wire.to_server:
                setting.to_server(wire)
        for name in setting.frozen() if decide else ():
            busy = True
            setting.release(name)
        for task in setting.ledger.tasks.values():
            if decide and task.request is not None:
                busy = True
                setting.decide(task, self._verb(task.request.reason))
        if most and not setting.run_nodes(most):
            raise Violation("the server does not come to rest")
        self.check()
        return busy

    def onward(self, reached: Callable[[Letter], bool]) -> Letter | None:
        """Everything goes on, callback by callback, up to a letter, which stays on its way; None: it never came."""
        setting, net = self._setting, self._setting.net
        assert net is not None, "letters are among several nodes only"
        for _ in range(MAX_ONWARD):
            for node in setting.fronts:
                setting.step(node, 1)
            for letter in list(net.letters):
                if reached(letter):
                    return letter
                net.bring(letter)
            if all(node.loop.idle() for node in setting.fronts) and not net.letters and not self.round(most=0):
                return None
        return None

    def _settle_down(self) -> None:
        idle = 0
        for _ in range(MAX_ROUNDS):
            if self.round():
                continue
            idle = idle + 1 if self._setting.all_over() and not self._setting.waits() else 0
            if idle == QUIET_ROUNDS:
                return
            self._pass_time()
        tasks = self._setting.ledger.tasks.values()
        raise Violation("stuck: " + "; ".join(f"{task.model} is {task.phase.value}: {_states(task)}" for task in tasks))

    def _pass_time(self) -> None:
        """Time goes on; among several nodes second by second, or each took the others for dead."""
        setting = self._setting
        if setting.net is None:
            setting.pass_time(QUIET_S)
            return
        for _ in range(QUIET_S):
            setting.pass_time(1)
            setting.run_nodes(MAX_STEPS)

    def _verb(self, reason: str) -> str:
        if reason == "outcome_unknown":
            return self._setting.rng.choice(("mark_done", "mark_failed", "retry"))
        return "approve"

    # -- the verdict ---------------------------------------------------------------------

    def verdict(self) -> int:
        """What must be true of journals, claims and disks once all is over; how many places were put back.

        Raises Violation.
        """
        setting, ledger = self._setting, self._setting.ledger
        for (task_id,) in setting.rows("SELECT task_id FROM tasks"):
            if verify_chain(setting.items(task_id)) is not None:
                ledger.wrong(f"the hash chain of {task_id} is broken")
        for name, task_id in setting.rows("SELECT computer, task FROM computers WHERE task IS NOT NULL"):
            ledger.wrong(f"computer {name} is still claimed by {task_id}")
        for call_id, task_id in ledger.unknown.items():
            ended = ledger.tasks[task_id].ended
            if ended is None or ended.status != "Canceled":
                ledger.wrong(f"nobody was asked about {call_id}, whose outcome is unknown")
        judge = UndoJudge(setting)
        put_back = sum(judge.judge(task) for task in ledger.tasks.values())
        for computer in setting.computers:
            self._left_on(computer)
        self.check()
        return put_back

    def _left_on(self, computer: Computer) -> None:
        ledger = self._setting.ledger
        kept = ledger.slot_of(computer).entries
        if kept:
            ledger.wrong(f"computer {computer.name} still keeps {kept}")
        for path in computer.names():
            run = ledger.runs.get(path.removeprefix(SWAP).rpartition(".")[0])
            may_stay = run is not None and (run.outcome == "unknown" or run.rolled)
            if path.startswith(SWAP) and not may_stay:
                ledger.wrong(f"computer {computer.name} still has {path}")


def _states(task: AgentTask) -> str:
    return ", ".join(f"{record.call.tool} {record.state.value}" for record in task.calls)
