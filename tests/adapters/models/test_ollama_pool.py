"""Several Ollama servers, each with its limit: who is asked next and where, over real HTTP."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from orchestrator.adapters.models import OllamaOptions, Pool
from orchestrator.adapters.models import pool as pooling
from orchestrator.adapters.models.ollama import OllamaModel
from orchestrator.adapters.models.options import Endpoint
from orchestrator.core.errors import ModelFailed
from orchestrator.core.ports import ChatMessage, ModelReply
from tests.harness.ollama_server import OllamaServer, Persona, breaks, gives_up, holds, ollama, refuses, says
from tests.waiting import HANG_S, within

BUSY = refuses(503, {"error": "server busy, please try again.  maximum pending requests exceeded"})


def view(text: str) -> list[ChatMessage]:
    """A conversation that is known by its text."""
    return [ChatMessage("system", "rules"), ChatMessage("user", text)]


def served(server: OllamaServer) -> list[str]:
    """The conversations that a server was asked to go on with, in order."""
    return [asked["messages"][-1]["content"] for asked in server.asked]


async def turned(holds_now: Callable[[], bool]) -> None:
    """Let everybody else have their turn until this holds; far sooner than the deadline."""
    async with asyncio.timeout(HANG_S):
        while True:
            if holds_now():
                return
            await asyncio.sleep(0)


class Pooled:
    """Some servers, and a model that they all have."""

    def __init__(self, servers: Sequence[OllamaServer], limits: Sequence[int]) -> None:
        endpoints = [Endpoint(server.url, limit) for server, limit in zip(servers, limits, strict=True)]
        self.servers = servers
        self.pool = Pool(endpoints)
        options = OllamaOptions(url=",".join(one.url for one in endpoints), first_token_s=HANG_S)
        self.model = OllamaModel("tiny:1b", options, self.pool)

    def ask(self, text: str = "task", user: str = "", affinity: str = "") -> "asyncio.Task[ModelReply]":
        """A request that is under way."""
        return asyncio.create_task(self.model.reply(view(text), user=user, affinity=affinity))

    async def until(self, waiting: int, busy: Sequence[int]) -> None:
        """Wait until so many requests wait, and each server answers so many; far sooner than the deadline."""
        await turned(lambda: (self.pool.waiting, [one.busy for one in self.servers]) == (waiting, list(busy)))


@asynccontextmanager
async def pooled(*personas: Persona, limits: Sequence[int] | None = None) -> AsyncIterator[Pooled]:
    """One server for each persona, each with limit 1 unless the test says otherwise."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ollama(persona)) for persona in personas]
        yield Pooled(servers, limits or [1] * len(servers))


# -- limits --------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3])
async def test_the_limit_of_a_server_is_exact(limit: int) -> None:
    """Of fifty requests at once exactly so many are under way at any time, and all are answered."""
    gate = asyncio.Event()
    async with pooled(holds(gate), limits=[limit]) as there:
        asking = [there.ask(str(number)) for number in range(50)]
        await there.until(50 - limit, [limit])
        gate.set()
        replies = await within(asyncio.gather(*asking))
    (server,) = there.servers
    assert [reply.text for reply in replies] == ["{}"] * 50
    assert server.busiest == limit
    assert server.paths.count("/api/show") == 1
    assert (there.pool.waiting, there.pool.busy(server.url)) == (0, 0)


async def test_two_models_share_the_limit_of_their_server() -> None:
    """The limit is the server's, whichever model is asked for."""
    gate = asyncio.Event()
    async with pooled(holds(gate)) as there:
        other = OllamaModel("other:1b", OllamaOptions(url=there.servers[0].url), there.pool)
        asking = [there.ask(), asyncio.create_task(other.reply(view("other")))]
        await there.until(1, [1])
        gate.set()
        await within(asyncio.gather(*asking))
    assert there.servers[0].busiest == 1


async def test_the_least_busy_server_is_asked() -> None:
    """Busy is who uses the larger share of its limit: of limits 2 and 4 the second takes two of the first three."""
    gate = asyncio.Event()
    async with pooled(holds(gate), holds(gate), limits=[2, 4]) as there:
        asking = []
        for busy in ([1, 0], [1, 1], [1, 2], [2, 2], [2, 3], [2, 4]):
            asking.append(there.ask())
            await there.until(0, busy)
        asking.append(there.ask())
        await there.until(1, [2, 4])
        gate.set()
        await within(asyncio.gather(*asking))


async def test_of_idle_servers_the_one_that_rested_longest_is_asked() -> None:
    """One request after the other goes round."""
    async with pooled(says("{}"), says("{}"), says("{}")) as there:
        for number in range(7):
            await there.ask(str(number))
    assert [served(server) for server in there.servers] == [["0", "3", "6"], ["1", "4"], ["2", "5"]]


# -- in turn -------------------------------------------------------------------------------


async def test_users_are_served_in_turn_and_each_in_its_order() -> None:
    """Who has asked five times does not keep waiting who has asked twice, and later."""
    gate = asyncio.Event()
    async with pooled(holds(gate)) as there:
        asking = [there.ask("first", user="alice")]
        await there.until(0, [1])
        for text, user in (*((f"a{one}", "alice") for one in range(4)), ("b0", "bob"), ("b1", "bob"), ("c0", "carol")):
            asking.append(there.ask(text, user=user))
            await there.until(len(asking) - 1, [1])
        gate.set()
        await within(asyncio.gather(*asking))
    assert served(there.servers[0]) == ["first", "a0", "b0", "c0", "a1", "b1", "a2", "a3"]


async def test_who_waits_for_another_server_holds_nobody_up() -> None:
    """A request for a model that only a full server has stands first in line, and the next one passes it."""
    gate = asyncio.Event()
    async with pooled(holds(gate), says("{}")) as there:
        full, idle = there.servers
        only = OllamaModel("only:1b", OllamaOptions(url=f"{full.url},{idle.url}"), there.pool)
        idle.listed = {"models": [{"name": "tiny:1b"}]}
        asking = [asyncio.create_task(only.reply(view(str(number)), user="alice")) for number in range(2)]
        await there.until(1, [1, 0])
        assert (await within(there.ask("passes", user="alice"))).text == "{}"
        gate.set()
        await within(asyncio.gather(*asking))
    assert served(idle) == ["passes"]


async def test_a_request_that_is_canceled_leaves_the_line() -> None:
    """It is never sent, and the one behind it is next."""
    gate = asyncio.Event()
    async with pooled(holds(gate)) as there:
        first = there.ask("first")
        await there.until(0, [1])
        second, third = there.ask("second"), there.ask("third")
        await there.until(2, [1])
        second.cancel()
        await there.until(1, [1])
        gate.set()
        await within(asyncio.gather(first, third))
    assert second.cancelled()
    assert served(there.servers[0]) == ["first", "third"]


async def test_a_request_that_is_canceled_while_it_is_answered_gives_its_place_back() -> None:
    """The next one gets it, once the connection is closed."""
    never, began = asyncio.Event(), asyncio.Event()
    async with pooled(holds(never, began=began)) as there:
        first, second = there.ask("first"), there.ask("second")
        await within(began.wait())
        await there.until(1, [1])
        there.servers[0].personas.extend([says("{}")])
        first.cancel()
        there.servers[0].personas.popleft()
        assert (await within(second)).text == "{}"
    assert first.cancelled()


async def test_a_place_that_comes_with_the_cancellation_is_not_lost() -> None:
    """Given and canceled in one moment: the place goes to the next."""
    pool = Pool([Endpoint("http://one")])
    entered = asyncio.Event()

    async def use() -> None:
        async with pool.place(["http://one"]):
            entered.set()

    async with pool.place(["http://one"]):
        waiting = asyncio.create_task(use())
        await turned(lambda: pool.waiting == 1)
    # It has its place now, and has not run since.
    assert pool.busy("http://one") == 1
    waiting.cancel()
    next_one = asyncio.create_task(use())
    await within(next_one)
    assert waiting.cancelled()
    assert (pool.busy("http://one"), pool.waiting, entered.is_set()) == (0, 0, True)


# -- affinity ------------------------------------------------------------------------------


async def test_a_conversation_goes_on_where_it_was() -> None:
    """The server that has read its beginning is asked again, though another has been idle longer."""
    async with pooled(says("{}"), says("{}")) as there:
        for number in range(3):
            await there.ask(f"a{number}", affinity="task-a")
        await there.ask("b0", affinity="task-b")
        await there.ask("a3", affinity="task-a")
        await there.ask("b1", affinity="task-b")
    assert [served(server) for server in there.servers] == [["a0", "a1", "a2", "a3"], ["b0", "b1"]]


async def test_a_conversation_does_not_wait_for_its_server() -> None:
    """Where that one is full and another is not, a warm cache is not worth the wait."""
    gate = asyncio.Event()
    async with pooled(says("{}"), says("{}")) as there:
        await there.ask("a0", affinity="task-a")
        there.servers[0].personas[0] = holds(gate)
        held = there.ask("a1", affinity="task-a")
        await there.until(0, [1, 0])
        await within(there.ask("a2", affinity="task-a"))
        gate.set()
        await held
    assert [served(server) for server in there.servers] == [["a0", "a1"], ["a2"]]


async def test_only_so_many_conversations_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was heard of longest ago is forgotten, and goes wherever there is room."""
    monkeypatch.setattr(pooling, "_REMEMBERED", 1)
    async with pooled(says("{}"), says("{}")) as there:
        for text in ("a0", "b0", "a1"):
            await there.ask(text, affinity=f"task-{text[0]}")
        await there.ask("b1", affinity="task-b")
    assert [served(server) for server in there.servers] == [["a0", "a1"], ["b0", "b1"]]
    assert len(there.pool._last) == 1


# -- failures ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failing",
    [
        BUSY,
        breaks(""),
        gives_up("", "an odd error"),
        refuses(500, {"error": "model runner has unexpectedly stopped"}),
        refuses(401, {"error": "unauthorized"}),
        refuses(404, {"error": "model 'tiny:1b' not found"}),
        refuses(200, b"<html></html>\n", "text/html"),
        says("", "load"),
    ],
    ids=["busy", "breaks", "an error line", "crashed", "not signed in", "not there", "not Ollama", "only loaded"],
)
async def test_another_server_answers_for_one_that_fails(failing: Persona, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is asked again elsewhere, and the next ones go there without asking the first, which rests."""
    monkeypatch.setattr(pooling, "FIRST_REST_S", 60.0)
    async with pooled(failing, says("{}")) as there:
        assert [(await there.ask(text)).text for text in ("first", "second", "third")] == ["{}"] * 3
    assert [served(server) for server in there.servers] == [["first"], ["first", "second", "third"]]


async def test_a_server_that_is_down_is_left_out() -> None:
    """Nobody listens there: the others answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        down = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with ollama(says("{}")) as server:
        model = OllamaModel("tiny:1b", OllamaOptions(url=f"{down},{server.url}"))
        for _ in range(3):
            assert (await model.reply(view("task"))).text == "{}"


async def test_a_server_without_the_model_is_not_asked() -> None:
    """It is known before a request is sent; a moment later it is not even asked for the model again."""
    async with pooled(says("{}"), says("{}")) as there:
        lacking, having = there.servers
        lacking.listed = {"models": [{"name": "other"}]}
        for _ in range(3):
            await there.ask()
    assert (len(lacking.asked), len(having.asked), lacking.paths.count("/api/show")) == (0, 3, 1)


async def test_what_was_streamed_is_not_streamed_again() -> None:
    """Once some of a reply was told, its failure is the request's, and no other server is asked."""
    told: list[str] = []
    async with pooled(gives_up("half a", "an odd error"), says("{}")) as there:
        with pytest.raises(ModelFailed, match="gave up in the middle of a reply: an odd error"):
            await there.model.reply(view("task"), on_text=told.append)
    assert "".join(told) == "half a"
    assert there.servers[1].asked == []


async def test_a_request_that_is_wrong_is_wrong_everywhere() -> None:
    """What one server refuses because of the request itself is not tried at the next."""
    too_long = refuses(400, {"error": "request (9 tokens) exceeds the available context size (4 tokens)"})
    async with pooled(too_long, says("{}")) as there:
        with pytest.raises(ModelFailed, match="does not fit the model's window"):
            await there.ask()
    assert there.servers[1].asked == []


async def test_when_all_fail_it_is_said_of_each() -> None:
    """Each server's reason, once, and what to do; the next request asks all of them anew."""
    async with pooled(BUSY, refuses(401, {"error": "unauthorized"})) as there:
        with pytest.raises(ModelFailed) as failed:
            await there.ask()
        assert failed.value.message == (
            "None of 2 Ollama servers gave a reply: "
            f"Ollama at {there.servers[0].url} is busy: server busy, please try again. maximum pending requests "
            "exceeded. Ollama may not use 'tiny:1b': nobody is signed in."
        )
        assert not failed.value.lasting
        with pytest.raises(ModelFailed):
            await there.ask()
        assert [len(one.asked) for one in there.servers] == [2, 2]


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_what_most_servers_lack_is_what_is_mended(place: int) -> None:
    """One is down and two do not have the model: each is named, and the remedy is to get it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        down = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with ollama(says("{}"), models=("other",)) as one, ollama(says("{}"), models=("another",)) as other:
        urls = [one.url, other.url]
        urls.insert(place, down)
        with pytest.raises(ModelFailed) as failed:
            await OllamaModel("tiny:1b", OllamaOptions(url=",".join(urls))).reply(view("task"))
    assert failed.value.message.startswith("None of 3 Ollama servers gave a reply: ")
    assert f"Ollama is not running at {down}." in failed.value.message
    # It may have the model once it is back, so a task waits for it.
    assert (failed.value.server, failed.value.lasting) == (down, False)
    for server in (one, other):
        assert f"Ollama at {server.url} has no model 'tiny:1b'." in failed.value.message
    assert failed.value.remedy.startswith(f"Run `cc-orchestrator models pull tiny:1b --ollama-url {one.url}`.")


async def test_a_server_that_has_rested_takes_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the other is full, a request waits for the end of the rest, and no longer."""
    monkeypatch.setattr(pooling, "FIRST_REST_S", 0.3)
    gate = asyncio.Event()
    async with pooled(BUSY, holds(gate)) as there:
        first = there.ask("first")
        await there.until(0, [0, 1])
        there.servers[0].personas[0] = says("{}")
        assert (await within(there.ask("second"))).text == "{}"
        assert served(there.servers[0]) == ["first", "second"]
        gate.set()
        await first


async def test_the_rest_grows_and_ends_with_an_answer() -> None:
    """1 s, 2, 4 … a minute at most; a server that has answered is as good as any."""
    pool, url = Pool([Endpoint("http://one")]), "http://one"
    rests = []
    for _ in range(8):
        pool.rest(url)
        rests.append(round(pool.rests_s(url)))
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60]
    pool.well(url)
    assert pool.rests_s(url) == 0
    pool.rest(url)
    assert round(pool.rests_s(url)) == 1


async def test_the_only_server_is_asked_though_it_failed_a_moment_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rest is for where there is another one."""
    monkeypatch.setattr(pooling, "FIRST_REST_S", 60.0)
    async with pooled(BUSY) as there:
        with pytest.raises(ModelFailed, match="is busy"):
            await there.ask()
        there.servers[0].personas[0] = says("{}")
        assert (await within(there.ask())).text == "{}"


async def test_a_wait_for_a_place_is_not_part_of_the_time_of_a_reply() -> None:
    """`whole_s` is for the reply: who had to wait longer than that for its turn is answered all the same."""
    gate = asyncio.Event()
    async with pooled(holds(gate)) as there:
        options: dict[str, Any] = {"url": there.servers[0].url, "whole_s": 0.5}
        patient = OllamaModel("tiny:1b", OllamaOptions(**options), there.pool)
        first = there.ask("first")
        await there.until(0, [1])
        second = asyncio.create_task(patient.reply(view("second")))
        await there.until(1, [1])
        loop = asyncio.get_running_loop()
        waited = loop.create_future()
        loop.call_later(0.8, waited.set_result, None)
        await waited
        gate.set()
        assert (await within(second)).text == "{}"
        await first
