"""A model server that goes away in the middle of a task: the task waits, holds nothing, and goes on by itself."""

import asyncio
import io
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from orchestrator.adapters.models import OllamaOptions, as_chat_model
from orchestrator.core.errors import ModelFailed
from orchestrator.core.ports import ModelReply
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.states import Phase, TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.engine.task_status import waits_for
from orchestrator.engine.workers import LEASE_S
from orchestrator.terminal.output import Screen
from orchestrator.terminal.progress import Progress
from orchestrator.web.in_game.lines import Narrator
from tests.engine.test_actor import ALICE, CANNOT, FARM, Bench, rules
from tests.harness.ollama_server import OllamaServer, Persona, breaks, falls_silent, ollama, plays, refuses
from tests.harness.support import WRITE, Listening, says

SERVER = "http://127.0.0.1:11434"
GONE = ModelFailed(f"Ollama is not running at {SERVER}.", remedy="Start it with `ollama serve`.", server=SERVER)
READ = says({"tool": "cc_read", "args": {"path": "a.lua"}})


class Watched(Listening):
    """A model whose server says whether it answers; ``looks`` counts how often that was asked."""

    def __init__(self, *script: Any, up: bool = False) -> None:
        super().__init__(*script)
        self.up = up
        self.looks = 0

    async def answers(self) -> bool:
        self.looks += 1
        return self.up


async def pass_time(bench: Bench, seconds: float) -> AgentTask:
    """Let so much time pass, in which the task is acted for whenever it is due; the task then."""
    until = bench.clock.now() + timedelta(seconds=seconds)
    task = None
    while (due := await bench.store.next_due()) is not None and due <= until:
        bench.clock.advance(max(0.0, (due - bench.clock.now()).total_seconds()))
        task = await bench.act()
        if task.phase is Phase.ENDED:
            break
    bench.clock.advance(max(0.0, (until - bench.clock.now()).total_seconds()))
    assert task is not None, "nothing was due"
    return task


async def test_a_task_waits_for_its_model_server_and_goes_on_by_itself() -> None:
    """It holds no computer and no lease meanwhile, and the journal has one wait, however often it was looked for."""
    model = Watched(says(WRITE), GONE, CANNOT)
    bench = Bench(model, policy=rules())
    task_id = await bench.submit()
    task = await bench.act()
    assert (task.phase, task.status) == (Phase.WAITING, TaskStatus.RUNNING)
    assert await waits_for(task, bench.store, bench.world) == f"waiting for the model server at {SERVER}"
    assert await bench.store.claimant(FARM) is None
    assert (await pass_time(bench, 60)).phase is Phase.WAITING
    assert model.looks > 10
    model.up = True
    ended = await pass_time(bench, 5)
    assert (ended.status_reason, ended.ended and ended.ended.message) == ("final", CANNOT["message"])
    assert (await bench.kinds(task_id)).count("model_awaited") == 1
    assert [one.attempt for one in await bench.happened(task_id, "model_asked")] == [1, 1, 2]
    assert len(model.asked) == 3
    assert model.asked[1] == model.asked[2]


async def test_another_task_uses_the_computer_meanwhile() -> None:
    """What waits for its model has no claim: the other task writes, and ends."""
    model = Watched(says(WRITE), GONE)
    bench = Bench(model, policy=rules())
    await bench.submit()
    assert (await bench.act()).phase is Phase.WAITING
    bench.model = Listening(says(WRITE), CANNOT)
    other = await bench.submit(prompt="the other one")
    assert (await bench.act()).task_id == other
    assert len(bench.disk.done) == 2


async def test_another_node_goes_on_waiting_and_knows_until_when() -> None:
    """Nothing of the wait is in memory: killed in the middle of it, the task ends at the same time elsewhere."""
    model = Watched(GONE)
    bench = Bench(model)
    await bench.submit()
    first = await bench.act()
    assert first.awaited is not None
    bench.clock.advance(1)
    assert await bench.store.lease("a node that is killed", LEASE_S) is not None
    bench.clock.advance(LEASE_S + 1)
    bench.service.model_wait_s = 5.0
    ended = await pass_time(bench, 100)
    assert ended.status_reason == "model_failed"
    assert ended.updated_at == first.awaited.until


async def test_a_server_that_stays_away_ends_the_task_with_a_sentence() -> None:
    """Which server, how long, why, and what to type; and its time did not count as work."""
    model = Watched(GONE)
    bench = Bench(model)
    task_id = await bench.submit(max_wall_s=30.0)
    await bench.act()
    ended = await pass_time(bench, 200)
    assert (ended.status, ended.status_reason) == (TaskStatus.FAILED, "model_failed")
    assert ended.ended is not None
    assert ended.ended.message == (
        f"The model server at {SERVER} could not be reached for 120 s, and the task ended. "
        f"Ollama is not running at {SERVER}. Start it with `ollama serve`. "
        "Then run the task again; with `run --wait-for-model` it waits without an end."
    )
    assert ended.active_s == 0
    assert ended.created_at is not None
    assert ended.updated_at == ended.created_at + timedelta(seconds=120)
    assert len(await bench.happened(task_id, "model_asked")) == 1


async def test_a_task_may_wait_without_an_end() -> None:
    """After a day it still waits, and goes on within seconds."""
    model = Watched(GONE, CANNOT)
    bench = Bench(model)
    await bench.submit(wait_for_model=True)
    task = await bench.act()
    assert task.awaited is not None
    assert task.awaited.until is None
    bench.clock.advance(86_400)
    assert (await bench.act()).phase is Phase.WAITING
    model.up = True
    assert (await pass_time(bench, 5)).status_reason == "final"


async def test_a_task_that_waits_is_canceled_at_once() -> None:
    """Nobody has to look for the server first."""
    bench = Bench(Watched(GONE))
    task_id = await bench.submit(wait_for_model=True)
    await bench.act()
    task = await bench.service.cancel(task_id, ALICE)
    assert (task.status, task.phase) == (TaskStatus.CANCELED, Phase.ENDED)


async def test_a_cancel_ends_the_look_for_the_server() -> None:
    """Also one that hangs: the worker is free at once."""
    looking = asyncio.Event()

    class Hanging(Watched):
        async def answers(self) -> bool:
            looking.set()
            await asyncio.Event().wait()
            return True

    bench = Bench(Hanging(GONE))
    task_id = await bench.submit()
    await bench.act()
    bench.clock.advance(1)
    acting = asyncio.create_task(bench.act())
    await looking.wait()
    await bench.service.cancel(task_id, ALICE)
    assert (await acting).status is TaskStatus.CANCELED


async def test_a_server_that_comes_and_goes_is_asked_less_and_less_often() -> None:
    """Its waits count together, so it is not waited for without end, and the journal stays short."""
    model = Watched(*[GONE] * 50, up=True)
    bench = Bench(model)
    task_id = await bench.submit()
    await bench.act()
    ended = await pass_time(bench, 500)
    assert ended.status_reason == "model_failed"
    assert ended.updated_at is not None
    asked = [item.at for item in await bench.journal(task_id) if item.fact.kind == "model_asked"]
    apart = [(after - before).total_seconds() for before, after in pairwise(asked)]
    assert apart == [1, 2, 4, 8, 16, 32, 57]


async def test_a_model_without_a_sign_of_life_is_asked_anew() -> None:
    """A model that somebody else wrote, whose error names its server: it goes on with the first request that works."""
    model = Listening(GONE, GONE, GONE, GONE, GONE, CANNOT)
    bench = Bench(model)
    await bench.submit()
    await bench.act()
    assert (await pass_time(bench, 40)).status_reason == "final"
    assert len(model.asked) == 6


@pytest.mark.parametrize("answers", [["a script"], RuntimeError("It is broken."), asyncio.CancelledError()])
async def test_a_model_that_cannot_say_whether_its_server_answers_is_asked_anew(answers: Any) -> None:
    """A model is anybody's code, and so is its window: only the request tells then, and the task does not hang."""

    class Odd(Listening):
        async def fails(self) -> Any:
            raise answers if isinstance(answers, BaseException) else RuntimeError

    model = Odd(GONE, CANNOT)
    model.answers = answers if isinstance(answers, list) else model.fails  # type: ignore[attr-defined]
    model.window = model.fails  # type: ignore[method-assign]
    bench = Bench(model)
    await bench.submit()
    assert (await bench.act()).phase is Phase.WAITING
    assert (await pass_time(bench, 5)).status_reason == "final"


async def test_a_failure_of_another_kind_has_its_three_attempts_after_a_wait() -> None:
    """What did not reach the server is no attempt; then the same failure three times ends the task."""
    model = Watched(ModelFailed("no"), GONE, *[ModelFailed("no")] * 3, up=True)
    bench = Bench(model)
    task_id = await bench.submit()
    await bench.act()
    ended = await pass_time(bench, 60)
    assert ended.ended is not None
    assert ended.ended.message == "no"
    assert [one.attempt for one in await bench.happened(task_id, "model_asked")] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("lasting", [True, False])
async def test_without_a_wait_it_fails_as_any_other(lasting: bool) -> None:
    """With 0 nothing is waited for; and what lasts is never waited for."""
    bench = Bench(Listening(*[ModelFailed("gone", server="" if lasting else SERVER, lasting=lasting)] * 3))
    bench.service.model_wait_s = 120.0 if lasting else 0.0
    task_id = await bench.submit()
    await bench.act()
    task = await (bench.service.load(task_id) if lasting else pass_time(bench, 10))
    assert task.status_reason == "model_failed"
    assert len(await bench.happened(task_id, "model_asked")) == (1 if lasting else 3)
    assert not await bench.happened(task_id, "model_awaited")


async def test_the_limit_of_time_still_ends_a_task_after_a_wait() -> None:
    """Only the waiting does not count: what it had used before is used."""
    model = Watched(says(WRITE), GONE)
    bench = Bench(model, policy=rules())

    async def slow(*_: Any, **__: Any) -> ModelReply:
        bench.clock.advance(40)
        raise GONE

    await bench.submit(max_wall_s=30.0)
    model.reply = slow  # type: ignore[method-assign]
    assert (await bench.act()).phase is Phase.WAITING
    assert (await pass_time(bench, 5)).status_reason == "max_wall_s"


# -- how it is shown -----------------------------------------------------------------------


async def test_every_surface_says_what_is_waited_for() -> None:
    """The status line and the log of a terminal, and a player's screen; then that the model thinks again."""
    model = Watched(GONE, CANNOT)
    bench = Bench(model)
    task_id = await bench.submit()
    await bench.act()
    out, narrator = io.StringIO(), Narrator("alice")
    progress = Progress(Screen(out), bench.clock.now)
    items = await bench.journal(task_id)
    lines = [line.text for item in items for line in await shown(item, progress, narrator)]
    assert progress.status().startswith(f"waiting for the model server at {SERVER} (step 1 of 20")
    assert narrator.doing == "waiting for the model server"
    sentence = (
        f"Waiting for the model server at {SERVER}, for 120 s at most. Ollama is not running at {SERVER}. "
        "Start it with `ollama serve`."
    )
    assert f"[WAITING] {sentence}\n" in out.getvalue()
    assert sentence in lines
    model.up = True
    await pass_time(bench, 5)
    (asked, *_) = [one for one in (await bench.journal(task_id))[len(items) :] if one.fact.kind == "model_asked"]
    await shown(asked, progress, narrator)
    assert progress.status().startswith("the model thinks (step 1 of 20")
    assert narrator.doing == "the model thinks (step 1 of 20)"


async def shown(item: AgentTaskItem, progress: Progress, narrator: Narrator) -> Sequence[Any]:
    """An item at a terminal, and its lines in the game."""
    progress.item(item)
    return await narrator.lines(item)


# -- a real server -------------------------------------------------------------------------


def model_of(server: OllamaServer, **options: Any) -> Any:
    return as_chat_model("ollama:tiny:1b", OllamaOptions(url=server.url, **options))


async def test_ollama_stopped_in_the_middle_of_a_task_and_started_again() -> None:
    """Over real HTTP: refused for a minute, then there again on the same port, and the task completes."""
    script = (READ, says(WRITE), CANNOT)
    async with AsyncExitStack() as running:
        server = await running.enter_async_context(ollama(plays(*script)))
        bench = Bench(model_of(server), policy=rules())
        task_id = await bench.submit()
        bench.store.after["tool_started"] = running.aclose
        assert (await bench.act()).phase is Phase.WAITING
        assert (await pass_time(bench, 60)).phase is Phase.WAITING
    async with ollama(plays(*script), port=int(server.url.rpartition(":")[2])) as again:
        ended = await pass_time(bench, 5)
        assert len(again.asked) == 2
    assert ended.status_reason == "final"
    (wait,) = await bench.happened(task_id, "model_awaited")
    assert isinstance(wait, facts.ModelAwaited)
    assert (wait.server, wait.why) == (
        server.url,
        f"Ollama is not running at {server.url}. Start it with `ollama serve`, or say where it listens: OLLAMA_HOST or "
        "--ollama-url.",
    )


@pytest.mark.parametrize(
    "away",
    [
        breaks('{"kind"'),
        refuses(502, b"<html>Bad Gateway</html>", "text/html"),
        refuses(503, {"error": "server busy, please try again.  maximum pending requests exceeded"}),
        refuses(504, b""),
    ],
    ids=["reset", "502", "503", "504"],
)
async def test_what_says_nothing_of_the_request_is_waited_for(away: Persona) -> None:
    """A connection that breaks, and what a proxy says that has nobody behind it."""
    async with ollama(away, plays(CANNOT)) as server:
        bench = Bench(model_of(server))
        task_id = await bench.submit()
        assert (await bench.act()).phase is Phase.WAITING
        assert (await pass_time(bench, 5)).status_reason == "final"
        (wait,) = await bench.happened(task_id, "model_awaited")
        assert wait.server == server.url


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "unauthorized"), (404, "model 'tiny:1b' not found"), (400, "invalid options")],
)
async def test_what_lasts_is_asked_once(status: int, said: str) -> None:
    """A model that is not there, no key, a request that is not taken: nothing is waited for."""
    async with ollama(refuses(status, {"error": said})) as server:
        bench = Bench(model_of(server))
        await bench.submit()
        task = await bench.act()
        assert task.status_reason == "model_failed"
        assert len(server.asked) == 1


async def test_a_server_that_says_nothing_at_all_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hangs is waited for; one that is only slow with this request has its attempts."""
    monkeypatch.setattr("orchestrator.adapters.models.ollama_server._ALIVE_S", 0.05)

    async def hangs(wire: Any) -> None:
        await wire.left.wait()

    for hidden, phase in (({}, Phase.ASKED), ({"/api/version": hangs}, Phase.WAITING)):
        async with ollama(hangs) as server:
            server.hidden.update(hidden)
            bench = Bench(model_of(server, first_token_s=0.05, fact_s=0.05))
            await bench.submit()
            assert (await bench.act()).phase is phase


async def test_a_host_that_swallows_everything_holds_up_one_worker_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tasks wait for it: one looks, and after a look in vain nobody does for a while."""
    monkeypatch.setattr("orchestrator.adapters.models.ollama_server._ALIVE_S", 0.05)
    for quiet, paths in ((1e6, 1), (0.0, 2)):
        monkeypatch.setattr("orchestrator.adapters.models.ollama_server._QUIET", quiet)
        async with ollama(plays(CANNOT)) as server:
            server.hidden = {"/api/version": falls_silent()}
            model = model_of(server)
            assert await asyncio.gather(*(model.answers() for _ in range(4))) == [False] * 4
            server.hidden = {}
            # It is back, which nobody notices before the time is over.
            assert await model.answers() is (not quiet)
            assert server.paths == ["/api/version"] * paths
