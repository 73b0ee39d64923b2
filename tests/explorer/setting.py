"""Everything a schedule moves: two computers, the generations of a server, the wires and the clock."""

import random
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.adapters.store import sql
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.adapters.store.sqlite_thread import drive
from orchestrator.core.approval.approval import ResumeRequest
from orchestrator.core.errors import BeingUndone, InvalidDecision, InvalidRequest, NotPending, TaskEnded
from orchestrator.core.ports import Identity
from orchestrator.core.task.facts import RequestId, TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.states import Phase
from orchestrator.core.task.system_facts import ComputerReleased
from orchestrator.core.task.task import AgentTask
from orchestrator.core.undo.wanted import OnConflict, Restoration
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.tasks import person
from tests.explorer.computer import Computer, Wire
from tests.explorer.ledger import Backup, Ledger
from tests.explorer.net import Net
from tests.explorer.node import PEOPLE, Clock, Node
from tests.explorer.plan import COMPUTERS, make_plan

CHOICES: tuple[OnConflict, ...] = ("keep", "keep", "restore", "beside")
"""What an undo makes of places that somebody changed since."""
AFRESH = 0.5
"""Of those who ask for an undo where somebody has: they have a key of their own."""
NODES = 2
"""How many nodes there are where there are several; one that was stopped and wakes is one more."""


class Blobs(Mapping[str, bytes]):
    """The bytes that a store keeps, by their hash, as they are at each look."""

    def __init__(self, storage: InMemoryPersistenceManager) -> None:
        self._cursor = storage._cursor

    def __getitem__(self, sha256: str) -> bytes:
        rows = self._cursor.execute("SELECT content FROM blobs WHERE sha256 = ?", (sha256,)).fetchall()
        if not rows:
            raise KeyError(sha256)
        return bytes(rows[0][0])

    def __iter__(self) -> Iterator[str]:
        return (name for (name,) in self._cursor.execute("SELECT sha256 FROM blobs").fetchall())

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Setting:
    """The parts, and what can be done to them; each of these is one move."""

    def __init__(self, rng: random.Random, ledger: Ledger, *, several: bool = False) -> None:
        self.net = Net() if several else None
        """What lies between several nodes; None: there is one server at a time."""
        self.rng = rng
        self.ledger = ledger
        self.plan = make_plan(rng)
        self.clock = Clock()
        self.storage = InMemoryPersistenceManager(clock=self.clock)
        ledger.kept = Blobs(self.storage)
        self.computers = [Computer(name, place, ledger, self.plan.files[name]) for place, name in enumerate(COMPUTERS)]
        for computer in self.computers:
            computer.boot()
        for name, path in self.plan.watched:
            ledger.holds[name, path] = self.computer(name).get(path)
        self.nodes: list[Node] = []
        self.fronts: list[Node] = []
        """The generations that take connections: none while the server is down, one, or several nodes."""
        self.leaving: list[Node] = []
        """Nodes that hand over what they have, and then stop."""
        self.stalled: list[Node] = []
        """Generations that were stopped and may go on beside their successor."""
        self.backups: dict[str, Backup] = {}
        """The last backup of each computer's disk."""
        self.answered: set[tuple[RequestId, int]] = set()
        """Requests somebody answered, and how many of their calls were open then."""
        self.undos: dict[TaskId, list[tuple[Identity, Restoration]]] = {}
        """What people asked to be taken back; the place in the list is the key of each."""
        self.undos_left = 0
        """How often somebody will yet ask for an undo in the walk."""

    def computer(self, name: str) -> Computer:
        """The computer of a name."""
        return next(computer for computer in self.computers if computer.name == name)

    def items(self, stream: TaskId) -> list[AgentTaskItem]:
        """The journal of a task at this moment."""
        return drive(self.storage._cursor, sql.read(stream))

    def rows(self, statement: str, *parameters: str) -> list[tuple[Any, ...]]:
        """What the store answers at this moment."""
        return self.storage._cursor.execute(statement, parameters).fetchall()

    def wires(self) -> Iterator[Wire]:
        """The connections on which something is under way."""
        for computer in self.computers:
            yield from (wire for wire in computer.wires if wire.to_client or wire.to_server)

    def all_over(self) -> bool:
        """Whether every task has ended and no run of it is open."""
        return all(task.phase is Phase.ENDED and not task.open_runs for task in self.ledger.tasks.values())

    def waits(self) -> bool:
        """Whether a node waits for an answer that may be lost, which takes it some minutes."""
        return self.net is not None and any(node.waits for node in self.net.nodes)

    def telling_places(self) -> list[tuple[str, str]]:
        """Where an edit tells most: the file was moved aside as the power went, or a call is about to look at it."""
        runs = [run for run in self.ledger.runs.values() if run.outcome is None and run.path and not run.done]
        half_done = [run for run in runs if run.aside is not None]
        coming = [run for run in runs if run.run_id not in self.ledger.begun[run.call.computer or ""]]
        return [(run.call.computer or "", run.path) for run in half_done * 3 + coming]

    # -- the server ----------------------------------------------------------------------

    def present(self) -> Node:
        """A generation that takes connections; of several whichever the load balancer gives."""
        return self.fronts[0] if len(self.fronts) == 1 else self.rng.choice(self.fronts)

    def start(self) -> None:
        """A new generation."""
        name, scripts, ledger = f"node{len(self.nodes) + 1}", self.plan.scripts, self.ledger
        node = Node(name, self.storage, self.clock, scripts, ledger.journaled, ledger.wrong, self.net)
        self.fronts.append(node)
        self.nodes.append(node)

    def start_all(self) -> None:
        """As many nodes as there should be."""
        while len(self.fronts) < (1 if self.net is None else NODES):
            self.start()

    def crash(self, node: Node) -> None:
        """The process dies."""
        self.fronts.remove(node)
        node.crash()

    def stall(self, node: Node) -> None:
        """The process is stopped; its connections stay, and some day it goes on. One server alone has a successor."""
        self.fronts.remove(node)
        self.stalled.append(node)
        if self.net is None:
            self.start()

    def wake(self, node: Node) -> None:
        """A stopped process goes on as if nothing had been."""
        self.stalled.remove(node)
        self.fronts.append(node)

    def drain(self, node: Node, within_s: float) -> None:
        """The process is told to stop: it takes no more connections, and hands over what it has."""
        self.fronts.remove(node)
        self.leaving.append(node)
        node.spawn(node.leave(within_s))

    def kill(self, node: Node) -> None:
        """A stopped process dies."""
        self.stalled.remove(node)
        node.crash()

    def step(self, node: Node, count: int) -> None:
        """Let a generation run some callbacks."""
        for _ in range(count):
            if not node.loop.step():
                break
        if node.left and node in self.leaving:
            self.leaving.remove(node)
            node.crash()

    def run_nodes(self, most: int) -> bool:
        """Let all that live run, and all they say come, until nothing is left; False: after so many there is."""
        for _ in range(most):
            for node in (*self.fronts, *self.leaving):
                self.step(node, most)
                if not node.loop.idle():
                    return False
            if self.net is None or not self.net.bring_all():
                return True
        return False

    # -- the network and time ------------------------------------------------------------

    def connect(self, computer: Computer, url: bytes, node: Node | None) -> None:
        """A dialed connection is made, or refused when the server is down."""
        if node is None:
            computer.refused(url)
        else:
            node.accept(computer.connected(url))

    def to_server(self, wire: Wire) -> None:
        """The next frame reaches the server."""
        frame = wire.to_server.popleft()
        if wire.receive is not None:
            wire.receive(frame)

    def cut_all(self) -> None:
        """Cut every cable."""
        for computer in self.computers:
            for wire in computer.wires:
                wire.cut()

    def pass_time(self, seconds: float) -> None:
        """Time goes on, everywhere: timers and leases fall due."""
        self.clock.seconds += seconds
        for computer in self.computers:
            computer.pass_time(seconds)

    def let_answer(self) -> None:
        """What stores hold back comes; an append that has begun may yet be held, so once does not do."""
        for node in self.nodes:
            while node.store.held:
                node.store.let_answer()

    # -- backups -------------------------------------------------------------------------

    def back_up(self, computer: Computer) -> None:
        """Somebody makes a backup."""
        self.backups[computer.name] = self.ledger.back_up(computer)

    def put_back(self, computer: Computer) -> None:
        """The power goes, and the backup takes the place of the disk."""
        computer.power_off()
        backup = self.backups[computer.name]
        heard = self.rows("SELECT heard FROM computers WHERE computer = ?", computer.name)
        self.ledger.put_back(computer, backup, heard[0][0] if heard else 0)
        computer.put_back(backup.contents)

    def frozen(self) -> list[ComputerId]:
        """The computers that wait for a person."""
        return [name for (name,) in self.rows("SELECT computer FROM computers WHERE frozen IS NOT NULL")]

    def release(self, name: ComputerId) -> None:
        """A person lets a frozen computer come back."""
        front, by = self.present(), self.rng.choice(PEOPLE)
        note = front.service.draft(ComputerReleased(computer=name, by=by.name), person(by))
        front.spawn(front.store.release_computer(note))

    # -- people --------------------------------------------------------------------------

    def afar(self) -> Node:
        """The node with the fewest computers: what begins there has to ask others for them."""
        return min(self.fronts, key=lambda node: sum(node.hub.here(ComputerId(name)) for name in COMPUTERS))

    def submit(self, front: Node | None = None) -> None:
        """Both tasks come in, wherever the load balancer says if it is not said here."""
        front = front or self.present()
        for task in self.plan.scripts:
            submitted = front.service.submit(
                f"do {task}",
                user=PEOPLE[0],
                computers=[ComputerId(name) for name in COMPUTERS],
                model=task,
                on_reject="continue",
            )
            front.spawn(submitted)
        while len(self.ledger.tasks) < len(self.plan.scripts):
            front.loop.step()

    def decide(self, task: AgentTask, verb: Any) -> None:
        """Somebody decides the open request of a task; the decision may come too late."""
        request = task.request
        if request is None:
            return
        self.answered.add((request.request_id, len(request.call_ids)))
        front, by = self.present(), self.rng.choice(PEOPLE)
        resume = ResumeRequest(action=verb, on_reject="continue")
        front.spawn(front.service.decide(request.request_id, resume, by), NotPending, InvalidDecision)

    def cancel(self, task_id: TaskId) -> None:
        """Somebody cancels a task."""
        front = self.present()
        front.spawn(front.service.cancel(task_id, PEOPLE[0]), TaskEnded)

    def undo(self, task_id: TaskId) -> None:
        """Somebody asks for an undo; or asks again, as one does who has heard no answer."""
        front, asked = self.present(), self.undos.setdefault(task_id, [])
        self.undos_left -= 1
        if not asked or self.rng.random() < AFRESH:
            wanted = Restoration(task_id=task_id, on_conflict=self.rng.choice(CHOICES))
            asked.append((self.rng.choice(PEOPLE), wanted))
        place = self.rng.randrange(len(asked))
        by, wanted = asked[place]
        # Where it changed nothing there is nothing to put back; one that wants the same may go on.
        front.spawn(front.undoing.submit(wanted, by, key=f"{task_id} {place}"), InvalidRequest, BeingUndone)

    def edit(self, name: str, path: str, data: bytes | None) -> None:
        """A person writes or deletes a file in the game, or on the disk of a computer that is off.

        A program stays one, with another last line.
        """
        computer = self.computer(name)
        if data is not None:
            data = self.plan.programs.get((name, path), b"") + data
        computer.remove(path)
        if data is not None:
            computer.put(path, data)
        self.ledger.person(computer, path, data)
