"""What may never happen, looked at while it happens: each append and each change of a disk is judged.

The ledger folds the journals as they grow, follows every run from its bracket to the files that
it touches, and keeps what every watched path has to hold. ``broken`` collects the sentences.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, TaskId
from orchestrator.core.task.fold import evolve
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.task import AgentTask
from orchestrator.core.undo.touches import DIRECTORY
from orchestrator.core.wire.wire import sha256_hex
from tests.explorer.computer import OWN, Computer
from tests.explorer.slots import Slot, read_slot

SWAP = f"{OWN}/swap/"
CHANGES = ("cc_write", "cc_delete", "cc_restore")
RUNS = ("cc_run_program", "cc_shell")


@dataclass
class Run:
    """One started run: what it may do, what it did, what the journal says of it."""

    run_id: str
    task_id: TaskId
    call: facts.ToolCall
    number: int
    before: dict[str, str]
    asked: bool
    """Whether it stands on a person's approval."""
    old: bytes | None = None
    """What a restoration puts back; None: it removes, makes a directory, or it is none."""
    whole_directory: bool = False
    """Whether a restoration makes or removes a directory, of which the ledger does not know what is in it."""
    outcome: str | None = None
    """``ok``, ``failed``, ``void``, ``interrupted`` or ``unknown``; None: the bracket is open."""
    aside: bytes | None = None
    """What it moved aside."""
    done: int = 0
    rolled: bool = False
    """Whether its computer's disk was put back since it was started: what it did there may be gone."""
    proves_nothing: bool = False
    """Whether it was done, was put back, and the computer's own "never ran" may not be believed."""

    @property
    def path(self) -> str:
        """The one path it touches."""
        return next(iter(self.before), "")

    @property
    def proposed(self) -> bytes | None:
        """The bytes it writes; None: it deletes."""
        if self.call.tool == "cc_restore":
            return self.old
        content = self.call.args.get("content")
        return content.encode() if isinstance(content, str) else None

    @property
    def removes(self) -> bool:
        """Whether what it moves aside is all that it does."""
        return self.proposed is None and self.call.args.get("to") != DIRECTORY


@dataclass
class Backup:
    """A computer's disk at some moment, and what the ledger knew of it then."""

    contents: dict[str, bytes | None]
    seq: int
    """Of the client's journal in it."""
    holds: dict[tuple[str, str], bytes | None]
    slots: dict[str, Slot]
    begun: set[str]
    lines: dict[tuple[str, str], list[str]]
    runs: dict[str, tuple[bytes | None, int]]


@dataclass
class Ledger:
    """Journals, disks and what they have to say of each other."""

    broken: list[str] = field(default_factory=list)
    kept: Mapping[str, bytes] = field(default_factory=dict)
    """The bytes that the store keeps, by their hash."""
    tasks: dict[TaskId, AgentTask] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    holds: dict[tuple[str, str], bytes | None] = field(default_factory=dict)
    """(computer, path) to what has to be there."""
    approvals: Counter[CallId] = field(default_factory=Counter)
    retries: dict[CallId, CallId] = field(default_factory=dict)
    """Call id of a retry to the call it retries."""
    unknown: dict[CallId, TaskId] = field(default_factory=dict)
    """Calls whose outcome is unknown and of which no person was asked yet."""
    lines: defaultdict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    """(computer, log) to the runs that appended its lines."""
    begun: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Computer to every id that its client ever started."""
    slots: defaultdict[str, dict[str, Slot]] = field(default_factory=lambda: defaultdict(dict))
    changed_by: defaultdict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    """(computer, path) to whoever changed it: tasks, and ``person``."""
    rolled: set[str] = field(default_factory=set)
    """The computers whose disk was put back."""
    silent: set[str] = field(default_factory=set)
    """Hashes of what people wrote: run as a program it leaves no line."""

    def wrong(self, sentence: str) -> None:
        """Something happened that may never happen."""
        self.broken.append(sentence)

    # -- the journals --------------------------------------------------------------------

    def journaled(self, task_id: TaskId, items: Sequence[AgentTaskItem]) -> None:
        """Items became durable, or a repeated append answered those that were."""
        for item in items:
            task = self.tasks.get(task_id) or AgentTask(task_id=task_id)
            if item.version == task.version + 1:
                self._judge(task, item)
                self.tasks[task_id] = evolve(task, item)

    def _judge(self, task: AgentTask, item: AgentTaskItem) -> None:
        match item.fact:
            case facts.ToolStarted():
                self._started(task, item.fact)
            case facts.ToolFinished():
                outcome = "ok" if item.fact.ok else "failed"
                self._outcome(item.fact.run_id, outcome, refused=item.fact.code in ("stale", "refused"))
            case facts.ToolSettled():
                state = item.fact.state if item.fact.state != "finished" else "ok" if item.fact.ok else "failed"
                self._outcome(item.fact.run_id, state, refused=item.fact.reason == "stale")
            case facts.DecisionRecorded():
                for decision in item.fact.decisions:
                    self.approvals[decision.call_id] += decision.action == "approve"
                    if decision.retry_as is not None:
                        self.retries[decision.retry_as] = decision.call_id
            case facts.ReviewRequested() if item.fact.reason == "outcome_unknown":
                for shown in item.fact.calls:
                    self.unknown.pop(shown.call_id, None)

    def _started(self, task: AgentTask, fact: facts.ToolStarted) -> None:
        record = task.call(fact.call_id)
        assert record is not None
        earlier = [run for run in self.runs.values() if run.call.call_id == fact.call_id]
        if fact.run_id in self.runs:
            self.wrong(f"run id {fact.run_id} was started twice")
        if any(run.outcome is None for run in earlier):
            self.wrong(f"{fact.run_id} was started while another run of its call was open")
        used = sum(run.outcome != "void" for run in earlier)
        if record.mutates and self.approvals[fact.call_id] <= used:
            self.wrong(f"{fact.run_id} stands on no approval that is left ({self.approvals[fact.call_id]} given)")
        if record.mutates and record.action_digest != fact.action_digest:
            self.wrong(f"{fact.run_id} is not what was approved")
        for run in self.runs.values():
            if run.outcome is None and run.call.computer == fact.computer and run.task_id != task.task_id:
                self.wrong(f"{fact.run_id} overlaps {run.run_id} of another task on computer {fact.computer}")
        self.runs[fact.run_id] = Run(
            fact.run_id,
            task.task_id,
            record.call,
            fact.number,
            dict(fact.before),
            record.mutates,
            self.kept.get(str(record.call.args.get("to"))),
            record.call.tool == "cc_restore" and bool(fact.directories or record.call.args["to"] == DIRECTORY),
        )

    def _outcome(self, run_id: str, outcome: str, *, refused: bool) -> None:
        run = self.runs[run_id]
        if run.outcome is not None:
            return
        run.outcome = outcome
        if run.call.tool not in CHANGES + RUNS:
            return
        if run.proves_nothing and outcome == "void":
            self.wrong(f"{run_id} was done, the disk was put back, and the journal says that it never ran")
        if run.rolled and outcome in ("ok", "failed", "void"):
            return
        if run.call.tool in RUNS and run.before.get(run.path) in self.silent:
            return
        if outcome == "ok" and run.done != 1:
            self.wrong(f"the journal says that {run_id} was done, but it was done {run.done} times")
        if outcome == "void" and run.done:
            self.wrong(f"the journal says that {run_id} never ran, but it did")
        if outcome == "failed" and run.done and (refused or run.call.tool in CHANGES):
            self.wrong(f"the journal says that {run_id} failed, but it was done")
        if outcome == "unknown" or (outcome == "interrupted" and run.asked):
            self.unknown[run.call.call_id] = run.task_id

    # -- the disks -----------------------------------------------------------------------

    def wrote(self, computer: Computer, path: str, data: bytes) -> None:
        """A file was written whole; the client's journal is read as it becomes durable."""
        if path.startswith(f"{OWN}/journal."):
            self._slot(computer, path, read_slot(data))

    def _slot(self, computer: Computer, path: str, slot: Slot) -> None:
        known = self.slots[computer.name]
        newest = self.slot_of(computer)
        for run_id, number in slot.open_runs.items():
            if run_id in newest.entries:
                continue
            if run_id in self.begun[computer.name]:
                self.wrong(f"{run_id} was started twice on computer {computer.name}")
            if number < slot.fence:
                self.wrong(f"{run_id} with number {number} was started below the fence {slot.fence}")
            self.begun[computer.name].add(run_id)
        tasks = {self.runs[run_id].task_id for run_id in slot.open_runs if run_id in self.runs}
        if len(tasks) > 1:
            self.wrong(f"calls of {len(tasks)} tasks are open on computer {computer.name}: {slot.open_runs}")
        if slot.fence < newest.fence:
            self.wrong(f"the fence of computer {computer.name} fell from {newest.fence} to {slot.fence}")
        known[path] = slot

    def slot_of(self, computer: Computer) -> Slot:
        """The newest slot."""
        return max(self.slots[computer.name].values(), key=lambda slot: slot.seq, default=Slot())

    def appended(self, computer: Computer, path: str, data: bytes) -> None:
        """A program ran: its line is there."""
        program = path.removesuffix(".log")
        mine = [
            run
            for run_id in self.slot_of(computer).open_runs
            if (run := self.runs.get(run_id)) is not None
            and run.call.computer == computer.name
            and run.call.tool in RUNS
            and run.path == program
        ]
        self.holds[computer.name, path] = (self.holds.get((computer.name, path)) or b"") + data
        if len(mine) != 1:
            self.wrong(f"{program} ran on computer {computer.name} with {len(mine)} started records")
            return
        if sha256_hex(self.holds.get((computer.name, program)) or b"") != mine[0].before[program]:
            self.wrong(f"{mine[0].run_id} ran other bytes of {program} than those that were approved")
        self._effect(mine[0])
        self.changed_by[computer.name, path].add(mine[0].task_id)
        self.lines[computer.name, path].append(mine[0].run_id)
        self._ran_again(mine[0], self.lines[computer.name, path])

    def _ran_again(self, run: Run, ran: list[str]) -> None:
        asked = sum(self._origin(retry) == self._origin(run.call.call_id) for retry in self.retries)
        if len(ran) > 1 + asked:
            self.wrong(f"{run.path} ran {len(ran)} times ({ran}) after {asked} retries")

    def _origin(self, call_id: CallId) -> CallId:
        while call_id in self.retries:
            call_id = self.retries[call_id]
        return call_id

    def _effect(self, run: Run) -> None:
        run.done += 1
        if run.rolled:
            # What was half done in the disk that was put back is brought to its end at boot, as at every boot.
            return
        if run.done > 1:
            self.wrong(f"{run.run_id} was done {run.done} times")
        if run.outcome not in (None, "unknown", "interrupted"):
            self.wrong(f"{run.run_id} was done after the journal said {run.outcome}")

    def moved(self, computer: Computer, source: str, to: str, data: bytes) -> None:
        """A file was moved: into or out of the swap files of a run."""
        if to.startswith(SWAP) and to.endswith(".old"):
            run = self._of_swap(computer, to, source)
            if run is not None:
                self._aside(computer, run, source)
        elif source.startswith(SWAP) and source.endswith(".new"):
            run = self._of_swap(computer, source, to)
            if run is not None:
                self._placed(computer, run, to, data)
        elif source.startswith(SWAP):
            run = self._of_swap(computer, source, to)
            if run is not None:
                run.done -= run.removes
                if not run.whole_directory:
                    self.holds[computer.name, to], run.aside = run.aside, None

    def _of_swap(self, computer: Computer, swap: str, path: str) -> Run | None:
        run_id = swap.removeprefix(SWAP).rpartition(".")[0]
        run = self.runs.get(run_id)
        if run is None or run.call.computer != computer.name or run.path != path:
            self.wrong(f"{path} of computer {computer.name} was changed by {run_id}, which may not")
            return None
        if run_id not in self.slot_of(computer).open_runs:
            self.wrong(f"{run_id} changed {path} without a started record")
        self.changed_by[computer.name, path].add(run.task_id)
        return run

    def _aside(self, computer: Computer, run: Run, path: str) -> None:
        if run.whole_directory:
            self._directory(computer, run, path, done=run.removes)
            return
        found = self.holds.get((computer.name, path))
        if found is None or sha256_hex(found) != run.before[path]:
            self.wrong(f"{run.run_id} took away {found!r} at {path}, which is not what was approved")
        self.holds[computer.name, path], run.aside = None, found
        if run.removes:
            self._effect(run)

    def _placed(self, computer: Computer, run: Run, path: str, data: bytes) -> None:
        if run.whole_directory:
            self._directory(computer, run, path, done=True)
            return
        if data != run.proposed:
            self.wrong(f"{run.run_id} wrote other bytes to {path} than those that were proposed")
        taken = self.holds.get((computer.name, path))
        if taken is not None:
            self.wrong(f"{run.run_id} overwrote {taken!r}, with which somebody had taken its place at {path}")
        if run.aside is None and run.before[path] != "absent":
            self.wrong(f"{run.run_id} replaced {path} as if nothing had been there")
        self.holds[computer.name, path] = data
        self._directories_above(computer, path)
        self._effect(run)

    def _directories_above(self, computer: Computer, path: str) -> None:
        """Something is in a place: what was absent or a file on the way to it is a directory, watched no longer."""
        for name, known in list(self.holds):
            if name == computer.name and path.startswith(f"{known}/"):
                del self.holds[name, known]

    def _directory(self, computer: Computer, run: Run, path: str, *, done: bool) -> None:
        """A directory was made or taken away whole: what is in it is watched no longer."""
        for name, known in list(self.holds):
            if name == computer.name and f"{known}/".startswith(f"{path}/"):
                del self.holds[name, known]
        if done:
            self._effect(run)

    def person(self, computer: Computer, path: str, data: bytes | None) -> None:
        """A person changed a file, which anybody may; in the place of a directory, what was in it is gone."""
        self.changed_by[computer.name, path].add("person")
        for name, known in self.holds:
            if name == computer.name and known.startswith(f"{path}/"):
                self.holds[name, known] = None
        self.holds[computer.name, path] = data
        if data is not None:
            self.silent.add(sha256_hex(data))
            self._directories_above(computer, path)

    def back_up(self, computer: Computer) -> Backup:
        """Somebody makes a backup of a computer's disk, or of the world with it."""
        name = computer.name
        runs = {one.run_id: (one.aside, one.done) for one in self.runs.values() if one.call.computer == name}
        return Backup(
            computer.contents(),
            self.slot_of(computer).seq,
            {key: data for key, data in self.holds.items() if key[0] == name},
            dict(self.slots[name]),
            set(self.begun[name]),
            {key: list(ran) for key, ran in self.lines.items() if key[0] == name},
            runs,
        )

    def put_back(self, computer: Computer, backup: Backup, heard: int) -> None:
        """The backup takes the place of the disk; ``heard``: the journal that the store has heard of."""
        name = computer.name
        self.rolled.add(name)
        for key in [key for key in (*self.holds, *self.lines) if key[0] == name]:
            self.holds.pop(key, None)
            self.lines.pop(key, None)
        self.holds |= backup.holds
        self.lines |= {key: list(ran) for key, ran in backup.lines.items()}
        self.slots[name], self.begun[name] = dict(backup.slots), set(backup.begun)
        for run in self.runs.values():
            if run.call.computer == name:
                noticed = heard > backup.seq and run.call.tool in CHANGES + RUNS
                run.proves_nothing = run.proves_nothing or (noticed and run.outcome is None and run.done > 0)
                run.aside, run.done = backup.runs.get(run.run_id, (None, 0))
                run.rolled = True

    def look(self, computers: Sequence[Computer]) -> None:
        """Compare every watched path with what has to be there."""
        for computer in computers:
            for (name, path), data in self.holds.items():
                if name == computer.name and computer.get(path) != data:
                    self.wrong(f"{path} of computer {name} holds {computer.get(path)!r} instead of {data!r}")
            if computer.stopped is not None:
                self.wrong(f"the client of computer {computer.name} has stopped: {computer.stopped}")
