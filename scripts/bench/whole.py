"""A whole step: a model server over HTTP, the gate, the journal, a call to a computer; and the same while people watch.

The server is a process of its own, and its CPU time is judged. Model server, computers and watchers are other
processes. Eight tasks go on at once, each at a computer of its own. Beside it stand the least that keeps the promise
of a durable step, which is two bare commits, and pydantic-ai's loop, which keeps nothing and talks to nobody.

Other frameworks take the same steps where they are installed: eight tasks at once in one process, with the same model
server over HTTP, and what they have for durability on SQLite. They have no gate, and read the file in their own memory.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from bench import peers
from bench.measure import Asked, Line, Worker, in_turns, middle
from bench.peers import FILE_LINES

BAR_MS: Final = {"SQLite": 4.0, "PostgreSQL": 5.0}
FLAT_BAR: Final = 1.2
"""A step of the longest task, by a step of the shortest."""
WATCHED_BAR: Final = 1.3
"""A step with many watchers, by a step with one."""
MOST_READS: Final = 999
"""A task may have 1,000 replies, and the last one is its end."""
WARM_STEPS: Final = 3
FLOOR: Final = "two bare commits"
PEERS: Final = (
    ("LangGraph, SQLite saver", "step_langgraph"),
    ("OpenAI Agents SDK", "step_openai_agents"),
)


class Stage:
    """The processes of a whole step, to be used as a context: ``run`` measures."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._tasks = asked.scale.whole.tasks
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            begin = stack.enter_context
            self._client = begin(Worker("whole_client", lines=FILE_LINES))
            self._server = begin(
                Worker(
                    "whole_server",
                    directory=self._asked.directory / "whole",
                    store=self._asked.store,
                    tasks=self._tasks,
                    model_url=self._client.ask(do="url")["url"],
                )
            )
            told = self._server.ask(do="port")
            self.pid: int = told["pid"]
            self._url = f"http://127.0.0.1:{told['port']}"
            computers = begin(Worker("stub_client", port=told["port"], times=FILE_LINES))
            computers.ask(tokens=self._server.ask(do="computers", count=self._tasks)["tokens"])
            self._watchers = begin(Worker("watchers", port=told["port"]))
            (self._token,) = self._people(1)
            self.run(WARM_STEPS)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, at)

    def run(self, steps: int) -> dict[str, float]:
        """Milliseconds of one step, over tasks of so many steps: CPU of the server, and wall."""
        reads = min(steps, MOST_READS)
        before = self._server.ask(do="cpu")["cpu_s"]
        ran = self._client.ask(do="tasks", tasks=self._tasks, reads=reads, server=self._url, token=self._token)
        after = self._server.ask(do="over", task_ids=ran["task_ids"])["cpu_s"]
        each = 1e3 / (reads * self._tasks)
        return {
            "cpu": (after - before) * each,
            "wall": ran["wall_s"] * each,
            "connections": ran["connections"] / (reads * self._tasks),
        }

    def watched(self, watchers: list[str], steps: int) -> dict[str, float]:
        """As ``run``, while people with these tokens watch."""
        self._watchers.ask(tokens=watchers)
        return self.run(steps)

    def watchers(self, count: int) -> list[str]:
        """Tokens of so many people who will watch."""
        return self._people(count)

    def _people(self, count: int) -> list[str]:
        tokens: list[str] = self._server.ask(do="people", count=count)["tokens"]
        return tokens


def lines(asked: Asked) -> Iterator[Line]:
    """The step at each length, the floor and the peer beside it, and the step with watchers."""
    floor = partial(_line, beside=_floor(asked), what_beside=FLOOR)
    with Stage(asked) as stage:
        turns = _lengths(asked, stage)
        for steps, told in turns.items():
            yield floor(f"a step of {steps}", told, bar=BAR_MS[_store(asked)], note=_note(told))
        short, longest = min(turns), max(turns)
        yield _line(
            f"a step of {longest}",
            turns[longest],
            beside=middle(turns[short], "cpu"),
            what_beside=f"a step of {short}",
            judged="ratio",
            bar=FLAT_BAR,
        )
        yield from _watched(asked, stage)
    yield from _peers(asked, {steps: middle(told, "cpu") for steps, told in turns.items()})


Turns = list[dict[str, Any]]


def _store(asked: Asked) -> str:
    return "PostgreSQL" if asked.store else "SQLite"


def _line(what: str, told: Turns, **more: Any) -> Line:
    return Line("whole", what, "ms", middle(told, "cpu"), wall=middle(told, "wall"), **{"judged": "value", **more})


def _note(told: Turns) -> str:
    return f"({middle(told, 'connections'):.2f} connections to the model)"


def _lengths(asked: Asked, stage: Stage) -> dict[int, Turns]:
    """What the turns said of each length; the longest takes minutes and has only one."""
    told: dict[int, Turns] = {steps: [] for steps in asked.scale.whole.steps}
    for turn in range(asked.scale.whole.turns):
        for steps, mine in told.items():
            if turn == 0 or steps <= MOST_READS:
                mine.append(stage.run(steps))
    return told


def _watched(asked: Asked, stage: Stage) -> Iterator[Line]:
    whole = asked.scale.whole
    tokens = stage.watchers(max(whole.watchers))
    asks: list[Callable[[], dict[str, Any]]] = [
        partial(stage.watched, tokens[:count], whole.watched_steps) for count in whole.watchers
    ]
    told = dict(zip(whole.watchers, in_turns(whole.turns, *asks), strict=True))
    one = told.pop(1)
    yield _line("a step, 1 watcher", one, judged="nothing")
    for count, turns in told.items():
        many = {"beside": middle(one, "cpu"), "what_beside": "with 1 watcher", "judged": "ratio", "bar": WATCHED_BAR}
        yield _line(f"a step, {count} watchers", turns, **many)


def _floor(asked: Asked) -> float:
    """Milliseconds of two commits with one row each, and nothing around them."""
    whole, where = asked.scale.whole, asked.directory / "whole-floor"
    count = whole.steps[1] * whole.tasks
    if asked.store:
        with Worker("postgres_worker", kind="rows", url=asked.store) as rows:
            told = in_turns(whole.turns, partial(rows.ask, tasks=1, each=count))
    else:
        with Worker("step_worker", kind="flush", directory=where) as flush:
            told = in_turns(whole.turns, partial(flush.ask, steps=count, tasks=1))
    return 2 * middle(told[0], "cpu") / 1e3


def _peers(asked: Asked, ours: dict[int, float]) -> Iterator[Line]:
    """Once: it is an order of magnitude, and is in no bar."""
    beside = partial(_line, what_beside="ours", judged="nothing")
    with Worker("step_pydantic_ai", kind="bare") as worker:
        for steps in asked.scale.whole.peer_steps:
            told = worker.ask(steps=steps, tasks=max(1, 100 // steps))
            yield beside(f"a step of {steps}, pydantic-ai's loop", [_ms(told)], beside=ours[steps])
    # They have no store on PostgreSQL here.
    for name, module in PEERS if peers.python() and not asked.store else ():
        for steps, told in peer(asked, module, asked.scale.whole.peer_steps).items():
            yield beside(f"a step of {steps}, {name}", [_ms(told)], beside=ours[steps])


def peer(asked: Asked, module: str, lengths: Sequence[int]) -> dict[int, dict[str, float]]:
    """Microseconds of a step of another framework, over tasks of these lengths."""
    with (
        Worker("whole_client", lines=FILE_LINES) as model,
        Worker(
            module,
            python=peers.python(),
            kind="whole",
            directory=asked.directory / module,
            model_url=model.ask(do="url")["url"],
        ) as worker,
    ):

        def run(steps: int) -> dict[str, float]:
            names = model.ask(do="expect", tasks=asked.scale.whole.tasks, reads=steps)["names"]
            return worker.ask(steps=steps, names=names)

        run(WARM_STEPS)
        return {steps: run(steps) for steps in lengths}


def _ms(told: dict[str, float]) -> dict[str, float]:
    return {key: us / 1e3 for key, us in told.items()}
