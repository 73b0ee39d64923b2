"""The moves that are possible now, each with its weight and its name."""

from collections.abc import Callable, Iterator
from functools import partial

from orchestrator.core.task.states import Phase
from tests.explorer.net import Net
from tests.explorer.setting import NODES, Setting

FAULTS = ("power", "cut", "crash", "stall", "person", "time", "reject", "cancel", "backup")
CUTS = (*range(1, 15), *(3, 4, 5, 8, 9) * 2)
"""Before which change of the disk within one event the power goes: more often while a program runs, and
between the two moves of a swap, which are changes 7 and 8 of a write, or 8 and 9 of the first one."""
STRIDES = ((1, 2, 5, 200), (2, 10, 60), (20, 500))
"""Callbacks of a server that run in one move: from every single await to whole exchanges."""
AMONG_NODES = ("lose", "drain", "drop", "store")
"""The faults that there are among several nodes only."""
TROUBLES = ("away", "lost", "lost", "late")
"""What befalls an append: see ``node._Opened``."""

Move = tuple[float, str, Callable[[], None]]


class Moves:
    """What may happen next; each schedule has its own mix of troubles, so that every mix is tried."""

    def __init__(self, setting: Setting) -> None:
        self._rng = setting.rng
        self._setting = setting
        self._temper = {fault: self._rng.choice((0.0, 0.3, 1.0, 3.0)) for fault in FAULTS}
        self._strides = self._rng.choice(STRIDES)
        if setting.net is not None:
            self._temper |= {fault: self._rng.choice((0.0, 0.3, 1.0, 3.0)) for fault in AMONG_NODES}

    def choose(self) -> tuple[str, Callable[[], None]]:
        """One of the possible moves."""
        moves = [move for moves in self._all() for move in moves if move[0] > 0]
        _, name, act = self._rng.choices(moves, weights=[move[0] for move in moves])[0]
        return name, act

    def _all(self) -> tuple[Iterator[Move], ...]:
        alone = (self._network(), self._games(), self._servers(), self._people(), self._troubles())
        return alone if self._setting.net is None else (*alone, self._among_nodes(self._setting.net))

    def _tension(self) -> float:
        """Troubles come more often while a run is under way: elsewhere little can go wrong."""
        return 4 if any(run.outcome is None for run in self._setting.ledger.runs.values()) else 1

    def _network(self) -> Iterator[Move]:
        setting = self._setting
        for computer in setting.computers:
            for place, wire in enumerate(computer.wires):
                name = f"{computer.name}#{place}"
                if wire.to_client:
                    yield 6, f"to-client {name}", partial(computer.deliver, wire)
                if wire.to_server:
                    yield 6, f"to-server {name}", partial(setting.to_server, wire)
                if wire.client_open and wire.server_open and not wire.broken:
                    yield 0.04 * self._tension() * self._temper["cut"], f"cut {name}", wire.cut
                    if computer.late and wire.boot == computer.boots:
                        yield 0.5, f"late {name}", partial(computer.bring_late, wire)
            for url in computer.dials:
                for node in setting.fronts or (None,):
                    to = f" {node.name}" if node is not None and setting.net is not None else ""
                    yield 6, f"connect {computer.name}{to}", partial(setting.connect, computer, url, node)

    def _games(self) -> Iterator[Move]:
        setting, power = self._setting, self._temper["power"]
        for computer in setting.computers:
            name, change = computer.name, self._rng.choice(CUTS)
            if not computer.on:
                yield 3, f"boot {name}", computer.boot
                yield 0.3 * power, f"boot-cut {name} {change}", partial(computer.boot, change)
                continue
            known, backup = name in setting.backups, self._temper["backup"]
            # Seldom a second one: an old one tells more.
            yield (
                (0.005 if known else 0.05) * self._tension() * backup,
                f"back-up {name}",
                partial(setting.back_up, computer),
            )
            if known:
                yield 0.03 * self._tension() * backup, f"put-back {name}", partial(setting.put_back, computer)
            yield 0.03 * self._tension() * power, f"power-off {name}", computer.power_off
            if computer.waiting:
                cut = 4 if computer.tense else 0.05
                yield 8, f"event {name}", computer.step
                yield cut * power, f"event-cut {name} {change}", partial(computer.step, change)

    def _servers(self) -> Iterator[Move]:
        setting, count = self._setting, self._rng.choice(self._strides)
        if not setting.fronts:
            yield 4, "start", setting.start
        for node in (*setting.fronts, *setting.leaving):
            if not node.loop.idle():
                yield 12, f"server {node.name} {count}", partial(setting.step, node, count)
        for node in setting.stalled:
            if not node.loop.idle():
                yield 3, f"zombie {node.name} {count}", partial(setting.step, node, count)

    def _people(self) -> Iterator[Move]:
        setting = self._setting
        if not setting.fronts:
            return
        for name in setting.frozen():
            yield 2, f"release {name}", partial(setting.release, name)
        for task_id, task in setting.ledger.tasks.items():
            if task.request is not None:
                key = (task.request.request_id, len(task.request.call_ids))
                verb = self._verb(task.request.reason)
                weight = 0.3 if key in setting.answered else 4
                yield weight, f"decide {task.model} {verb}", partial(setting.decide, task, verb)
            if task.phase is not Phase.ENDED:
                yield 0.02 * self._temper["cancel"], f"cancel {task.model}", partial(setting.cancel, task_id)
            elif setting.undos_left:
                yield 1, f"undo {task.model}", partial(setting.undo, task_id)

    def _verb(self, reason: str) -> str:
        if reason == "outcome_unknown":
            return self._rng.choice(("check", "mark_done", "mark_failed", "retry", "retry"))
        return "reject" if self._rng.random() < 0.1 * self._temper["reject"] else "approve"

    def _troubles(self) -> Iterator[Move]:
        setting, telling = self._setting, self._setting.telling_places()
        for node in setting.fronts:
            often = 0.03 * self._tension()
            yield often * self._temper["crash"], f"crash {node.name}", partial(setting.crash, node)
            yield often * self._temper["stall"], f"stall {node.name}", partial(setting.stall, node)
        for node in setting.stalled:
            yield 0.1, f"bury {node.name}", partial(setting.kill, node)
        seconds = self._rng.choice((1, 6, 15, 31, 50))
        # While such a letter is on its way its asker may give it up, which takes some seconds without a word.
        hurry = 5 if setting.net is not None and any(letter.tells for letter in setting.net.letters) else 1
        yield hurry * (0.1 + 0.4 * self._temper["time"]), f"time {seconds}", partial(setting.pass_time, seconds)
        name, path = self._rng.choice(telling or setting.plan.watched)
        data = f"-- a person wrote {self._rng.randrange(1000)}\n".encode() if self._rng.random() < 0.7 else None
        weight = (2 if telling else 0.15) * self._temper["person"]
        yield weight, f"person {name} {path} {data!r}", partial(setting.edit, name, path, data)

    def _among_nodes(self, net: Net) -> Iterator[Move]:
        setting, often = self._setting, 0.03 * self._tension()
        if 0 < len(setting.fronts) < NODES:
            yield 1, "start", setting.start
        for node in setting.stalled:
            yield 0.2, f"wake {node.name}", partial(setting.wake, node)
        for node in setting.fronts:
            within_s = self._rng.choice((0.0, 0.0, 20.0))
            act = partial(setting.drain, node, within_s)
            yield often * self._temper["drain"], f"drain {node.name} {within_s:g}", act
            if len(node.store.troubles) < 2:
                trouble = self._rng.choice(TROUBLES)
                act = partial(node.store.troubles.append, trouble)
                yield 2 * often * self._temper["store"], f"store {node.name} {trouble}", act
        for node in (*setting.fronts, *setting.leaving, *setting.stalled):
            if node.store.held:
                yield 3, f"commit {node.name}", node.store.let_answer
        yield from self._under_way(net, often * self._temper["lose"])
        for computer in setting.computers:
            for place, wire in enumerate(computer.wires):
                if wire.client_open and wire.server_open and not wire.broken:
                    yield often * self._temper["drop"], f"drop {computer.name}#{place}", wire.drop

    def _under_way(self, net: Net, often: float) -> Iterator[Move]:
        for way in net.ways():
            name = f"{way[0].name}>{way[1].name}"
            yield 4, f"hints {name}", partial(net.bring_hints, way)
            yield often, f"lose hints {name}", partial(net.lose_hints, way)
        for letter in net.letters:
            # One of a call that changes something may be on its way for long: what is settled meanwhile holds.
            slow, lost = (0.5, 0.5 * self._temper["lose"]) if letter.tells else (4, 2 * often)
            yield slow, letter.name, partial(net.bring, letter)
            yield lost, f"lose {letter.name}", partial(net.lose, letter)
            if letter.kind == "request":
                yield 2 * often, f"back {letter.name}", partial(net.give_back, letter)
