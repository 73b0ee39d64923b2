"""Endpoints that might see only the computers or tasks of their own node: each is asked at another node."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from orchestrator.adapters.bus import LocalBus
from orchestrator.adapters.store import open_store
from orchestrator.core.task.items import SYSTEM, Draft, ItemId
from orchestrator.core.task.rehearsal import is_copy
from orchestrator.core.task.system_facts import DirectoryChanged, FreezeValue
from orchestrator.core.wire import wire
from orchestrator.engine.directory import LOOK_EVERY_S, DirectoryKeeper
from orchestrator.runtime.clock import SystemClock
from orchestrator.testing.stub_computer import StubComputer
from tests.computers.nodes.several import Several, several, until
from tests.computers.test_transfers import FILES, gated, transfers
from tests.harness.screening import events, stub, told
from tests.harness.support import Listening, call, dialed, final, hello, says
from tests.harness.whole_server import Server
from tests.runtime.test_metrics import scraped
from tests.waiting import HANG_S, within
from tests.web.test_class import Slow
from tests.web.test_in_game import ASKS, WRITES, Player, allowing, left, player, tasks_of, texts

WAYS = pytest.mark.parametrize(("here", "there"), [("alpha", "beta"), ("beta", "alpha")])


def only(nodes: Several, name: str) -> None:
    """Have no other node work on tasks."""
    for one, server in nodes.nodes.items():
        if one != name:
            server.orchestrator.workers.may_act = lambda: False


@asynccontextmanager
async def farm(nodes: Several, name: str) -> AsyncIterator[StubComputer]:
    """A computer at a node, of which every node knows."""
    async with stub(nodes[name], await nodes[name].computer("farm")) as computer:
        await until(lambda: nodes.everywhere("farm"))
        yield computer


@asynccontextmanager
async def somebody(nodes: Several, name: str) -> AsyncIterator[Player]:
    """Somebody at a computer of a node, of which every node knows."""
    async with player(nodes[name], await nodes[name].computer("3"), capabilities=("desk", wire.UNDO)) as one:
        await until(nodes.everywhere)
        yield one


async def ok(server: Server, method: str, path: str, body: Any = None) -> Any:
    """The answer of an endpoint that refuses nothing."""
    answer = await server.ask(method, path, body)
    assert answer.is_success, answer.text
    return answer.json()


# -- in the game -------------------------------------------------------------------------


@pytest.mark.thinned(2)
@WAYS
async def test_who_asks_in_the_game_is_told_of_a_task_that_another_node_runs(
    tmp_path: Path, here: str, there: str
) -> None:
    """Its lines, the news of its question, the answer, and the end; another is stopped."""
    model = Listening(ASKS, final("all is well"), ASKS)
    async with several(tmp_path, "alpha", "beta", model=model) as nodes, somebody(nodes, here) as one:
        only(nodes, there)
        desk = await one.send("ask", "where is it")
        await one.until(desk, "ask")
        _, news = await one.hear(wire.NEWS)
        assert [row["question"] for row in news] == ["Which farm?"]
        _, rows = await one.ask("tasks")
        assert [row["why"] for row in rows] == ["waiting for an answer"]
        await one.ask("answer", "the one by the river")
        assert texts(await one.until(desk, "good"), "good") == ["Done. The model says: all is well"]
        assert (await one.hear(wire.NEWS))[1] == []
        desk = await one.send("ask", "and now")
        told = (await one.hear(desk))[0]
        await nodes[there].until(str(told.task), "question_asked")
        assert (await one.ask("stop"))[0].task == told.task
        while not told.done:
            told, _ = await one.hear(desk)
        assert (await nodes[there].until(str(told.task), "task_ended"))["status"] == "Canceled"


@pytest.mark.thinned(2)
@WAYS
async def test_an_undo_in_the_game_is_done_by_another_node(tmp_path: Path, here: str, there: str) -> None:
    """What a failed task changed is said, put back, and seen to its end."""
    model, policy = Listening(WRITES, final("no", success=False)), allowing(tmp_path)
    async with several(tmp_path, "alpha", "beta", model=model, policy=policy) as nodes, somebody(nodes, here) as one:
        only(nodes, there)
        assert "It had changed farm.lua." in (await left(one, await one.send("ask", "fix")))[-1]
        assert one.disk.files == {"farm.lua": b"print(1)"}
        assert "Done: 1 put back." in texts(await one.until(await one.send("undo"), "good"), "good")
        assert one.disk.files == {"farm.lua": b"print(0)"}
        undo, task = await tasks_of(nodes[there])
        assert (await ok(nodes[there], "GET", f"/v1/tasks/{undo['task_id']}"))["undoes"] == task["task_id"]


# -- backups and undo --------------------------------------------------------------------


@pytest.mark.thinned(2)
@WAYS
async def test_a_computer_is_backed_up_put_back_and_that_undone_through_another_node(
    tmp_path: Path, here: str, there: str
) -> None:
    """Each with its preview; what the task changed is told there too."""
    async with several(tmp_path, "alpha", "beta", policy=allowing(tmp_path)) as nodes, farm(nodes, here) as computer:
        only(nodes, there)
        asked, disk = nodes[there], computer.disk
        disk.put("a.lua", b"one")
        made = await ok(asked, "POST", "/v1/computers/farm/backups", {"note": "first"})
        assert (made["files"], made["bytes"]) == (1, 3)
        listed = await ok(nodes[here], "GET", "/v1/computers/farm/backups")
        assert [one["backup_id"] for one in listed["backups"]] == [made["backup_id"]]
        disk.put("a.lua", b"two")
        preview = await ok(asked, "POST", "/v1/computers/farm/restore", {"dry_run": True})
        assert [one["path"] for one in preview["places"]] == ["a.lua"]
        task_id = (await ok(asked, "POST", "/v1/computers/farm/restore", {}))["task_id"]
        assert (await asked.until(task_id, "task_ended"))["status"] == "Completed"
        assert disk.nodes["a.lua"] == b"one"
        for name in nodes.nodes:
            changed = await ok(nodes[name], "GET", f"/v1/tasks/{task_id}/changes")
            assert [(one["path"], one["computer"]) for one in changed["changes"]] == [("a.lua", "farm")]
        preview = await ok(asked, "POST", f"/v1/tasks/{task_id}/undo", {"dry_run": True})
        assert [(one["path"], one["verdict"]) for one in preview["places"]] == [("a.lua", "restore")]
        undo = (await ok(asked, "POST", f"/v1/tasks/{task_id}/undo", {}))["task_id"]
        assert (await asked.until(undo, "task_ended"))["status"] == "Completed"
        assert disk.nodes["a.lua"] == b"two"


@pytest.mark.deep
async def test_a_rehearsal_of_a_computer_of_one_node_has_its_copy_at_another(tmp_path: Path) -> None:
    """Begun and seen through at beta, worked on by alpha; the real computer is left as it is until it is applied."""
    model = Listening(says(call("cc_write", path="a.lua", content="print(2)")), final("tried"))
    async with several(tmp_path, "alpha", "beta", model=model, rehearsals=1) as nodes, farm(nodes, "alpha") as computer:
        only(nodes, "alpha")
        computer.disk.put("a.lua", b"one")
        beta = nodes["beta"]
        await beta.orchestrator.rehearsals.open(f"{beta.url.replace('http', 'ws')}/computer")
        task_id = await beta.submit(["farm"], rehearse=True)
        await nodes["alpha"].until(task_id, "tool_started")
        copies = {name: [one for one in _held(nodes, name) if is_copy(one)] for name in nodes.nodes}
        assert (copies["alpha"], len(copies["beta"])) == ([], 1)
        changes = await rehearsed(nodes["alpha"], task_id)
        assert computer.disk.nodes["a.lua"] == b"one"
        assert (changes["state"], [one["path"] for one in changes["changes"]]) == ("asked", ["a.lua"])
        request = await beta.paused(changes["applied_by"])
        await ok(beta, "POST", request["approval_url"])
        assert (await beta.until(changes["applied_by"], "task_ended"))["status"] == "Completed"
        assert computer.disk.nodes["a.lua"] == b"print(2)"


async def rehearsed(server: Server, task_id: str) -> dict[str, Any]:
    """What a rehearsal came to, once its copy was looked at."""
    async with asyncio.timeout(HANG_S):
        while True:
            found: dict[str, Any] = await ok(server, "GET", f"/v1/tasks/{task_id}/rehearsal")
            if found["state"] not in ("going_on", "ending"):
                return found
            await asyncio.sleep(0.02)


def _held(nodes: Several, name: str) -> list[wire.ComputerId]:
    """The computers that came to a node itself."""
    return [one.computer for one in nodes[name].orchestrator.hub.list_computers()]


@pytest.mark.thinned(2)
@WAYS
async def test_how_far_a_backup_has_come_is_seen_at_every_node(tmp_path: Path, here: str, there: str) -> None:
    """As long as it goes on, and where a node does not answer those of the others."""
    async with several(tmp_path, "alpha", "beta") as nodes, gated(nodes[here]) as computer:
        await until(lambda: nodes.online(there))
        making = asyncio.create_task(ok(nodes[there], "POST", "/v1/computers/3/backups", {}))
        await within(computer.asked.wait())
        ((row,), (same,)) = [await transfers(server) for server in nodes.nodes.values()]
        assert (row["what"], row["computer"], row) == ("backup", "3", same)
        nodes[there].orchestrator.node.serving.ops.pop("transfers")
        assert await transfers(nodes[here]) == []
        assert await transfers(nodes[there]) == [row]
        for _ in FILES:
            computer.gate.release()
        await within(making)
        assert await transfers(nodes[there]) == []


# -- people ------------------------------------------------------------------------------


@pytest.mark.thinned(2)
@WAYS
async def test_who_answers_second_at_another_node_hears_who_was_first(tmp_path: Path, here: str, there: str) -> None:
    """Also when the task has gone on, and when it was canceled unanswered."""
    async with several(tmp_path, "alpha", "beta", model=Listening(ASKS, ASKS, ASKS), approvers="role:admin") as nodes:
        ann = await nodes[here].person("ann", "admin")
        task_id = await nodes[here].submit([])
        path = f"/v1/tasks/{task_id}/answer"
        first = (await nodes[here].until(task_id, "question_asked"))["question"]["question_id"]
        answered = await nodes[here].ask("POST", path, {"question_id": first, "answer": "wheat"}, token=ann)
        assert answered.status_code == 200
        second = await asked_again(nodes[there], task_id, first)
        error = await refused(nodes[there], path, first)
        assert error["message"].startswith("The question was answered already, by ann at ")
        assert (error["code"], error["details"]["decided_by"]) == ("not_pending", "ann")
        await ok(nodes[here], "POST", f"/v1/tasks/{task_id}/cancel", {})
        assert (await refused(nodes[there], path, first))["message"] == error["message"]
        assert "nobody had answered" in (await refused(nodes[there], path, second))["message"]


async def asked_again(server: Server, task_id: str, before: str) -> str:
    """The id of the question after one that was answered."""
    async with asyncio.timeout(HANG_S):
        while True:
            question = (await ok(server, "GET", f"/v1/tasks/{task_id}"))["question"]
            if question is not None and question["question_id"] != before:
                return str(question["question_id"])
            await asyncio.sleep(0.02)


async def refused(server: Server, path: str, question_id: str) -> dict[str, Any]:
    """Why an answer comes too late."""
    answer = await server.ask("POST", path, {"question_id": question_id, "answer": "barley"})
    assert answer.status_code == 409, answer.text
    error: dict[str, Any] = answer.json()["error"]
    return error


# -- computers ---------------------------------------------------------------------------


async def shown(nodes: Several) -> dict[str, Any]:
    """The state of computer 3, and the other node that has it, as each node says it of one and in the list."""
    found: dict[str, Any] = {}
    for name, server in nodes.nodes.items():
        one = await ok(server, "GET", "/v1/computers/3")
        (row,) = (await ok(server, "GET", "/v1/computers"))["computers"]
        assert {key: one[key] for key in row} == row
        found[name] = (one["state"], one["online"], one["node"], one["label"])
    return found


@pytest.mark.thinned(2)
@WAYS
async def test_a_computer_is_listed_frozen_and_released_at_every_node(tmp_path: Path, here: str, there: str) -> None:
    """Two live with one identity at two nodes: both nodes say that it is frozen; either releases it."""
    async with several(tmp_path, "alpha", "beta") as nodes:
        token = await nodes[there].computer("3")
        async with dialed(nodes[here].url, token) as first:
            await first.greet()
            await until(lambda: nodes.online(there))
            assert await shown(nodes) == {
                here: ("online", True, None, "farm"),
                there: ("online", True, here, "farm"),
            }
            async with dialed(nodes[there].url, token) as second:
                await second.send(hello(boot="boot-2", label="copy"))
                while (message := (await first.hear())[0]).type != "ping":
                    pass
                await first.send(wire.Pong(journal_seq=2, n=message.n))
                for one in (first, second):
                    assert (await one.hear("refused"))[0].code == "frozen"
        await until(nodes.nowhere)
        assert {state[:3] for state in (await shown(nodes)).values()} == {("frozen", False, None)}
        assert (await ok(nodes[there], "POST", "/v1/computers/3/release"))["released"] is True
        assert {state[:3] for state in (await shown(nodes)).values()} == {("away", False, None)}
        async with dialed(nodes[here].url, token) as client:
            await client.greet(boot="boot-2")
            await until(lambda: nodes.online(there))
            assert {name: state[:3] for name, state in (await shown(nodes)).items()} == {
                here: ("online", True, None),
                there: ("online", True, here),
            }


# -- what an operator sees ---------------------------------------------------------------


@pytest.mark.thinned(2)
@WAYS
async def test_a_label_is_confirmed_at_another_node(tmp_path: Path, here: str, there: str) -> None:
    """The node with the computer judges by the label of now alone, as soon as the other one has answered."""
    async with (
        several(tmp_path, "alpha", "beta") as nodes,
        dialed(nodes[here].url, await nodes[there].computer("3")) as client,
    ):
        await client.greet()
        await until(lambda: nodes.online(there))
        await client.send(wire.Label(journal_seq=0, n=1, label="reactor"))
        await client.hear("label_kept")
        for server in nodes.nodes.values():
            assert (await ok(server, "GET", "/v1/computers/3"))["former_labels"] == ["farm"]
        done = await ok(nodes[there], "POST", "/v1/computers/3/confirm-label", {"label": "reactor"})
        assert done["confirmed"] is True
        for server in nodes.nodes.values():
            assert (await ok(server, "GET", "/v1/computers/3"))["former_labels"] == []


async def test_the_figures_of_sockets_are_a_node_s_own_and_those_of_the_store_the_same_at_each(tmp_path: Path) -> None:
    """Add up the computers that are online, and take the greatest of what waits."""
    async with several(tmp_path, "alpha", "beta", model=Listening(ASKS)) as nodes, farm(nodes, "alpha"):
        only(nodes, "beta")
        await nodes["beta"].until(await nodes["alpha"].submit([]), "question_asked")
        alpha, beta = [await scraped(nodes[name]) for name in ("alpha", "beta")]
        assert (alpha["computers_online{}"], beta["computers_online{}"]) == (1, 0)
        for name in ("computers_known{}", "tasks{Paused}", "questions_open{}"):
            assert (alpha[name], beta[name]) == (1, 1), name
        assert "items_appended_total{question_asked}" not in alpha
        assert beta["items_appended_total{question_asked}"] == 1


async def test_a_node_tells_whom_it_turned_away_itself(tmp_path: Path) -> None:
    """The other knows nothing of it: each is asked by its own address."""
    async with several(tmp_path, "alpha", "beta") as nodes:
        with pytest.raises(InvalidStatus):
            async with dialed(nodes["alpha"].url, "nobody's"):
                pass
        turned_away = {name: (await ok(nodes[name], "GET", "/v1/doctor"))["refused"] for name in nodes.nodes}
        assert [one["path"] for one in turned_away["alpha"]] == ["/computer"]
        assert turned_away["beta"] == []


# -- revoked tokens ----------------------------------------------------------------------


@pytest.mark.thinned(2)
@WAYS
async def test_a_computer_s_token_that_is_revoked_ends_its_connection_at_another_node(
    tmp_path: Path, here: str, there: str
) -> None:
    async with (
        several(tmp_path, "alpha", "beta") as nodes,
        dialed(nodes[here].url, await nodes[here].computer("3")) as client,
    ):
        await client.greet()
        await ok(nodes[there], "DELETE", "/v1/tokens/computer/3")
        async with asyncio.timeout(HANG_S):
            assert await client.closed() == (1008, "the token was revoked")


@pytest.mark.thinned(2)
@WAYS
async def test_who_is_revoked_sees_nothing_more_at_another_node(tmp_path: Path, here: str, there: str) -> None:
    """The reviewers' socket and a stream of events end; what is asked next is refused at once."""
    async with several(tmp_path, "alpha", "beta", model=Listening(ASKS)) as nodes:
        task_id = await nodes[here].submit([])
        token = await nodes[here].person("ann", "reviewer")
        await nodes[here].until(task_id, "question_asked")
        async with (
            nodes[here].reviewing(token) as reviewer,
            events(nodes[here], token, f"/v1/tasks/{task_id}/events") as stream,
        ):
            await reviewer.hear("snapshot")
            assert (await told(stream))[0] == "task_submitted"
            await ok(nodes[there], "DELETE", "/v1/tokens/person/ann")
            assert (await nodes[here].ask("GET", "/v1/requests", token=token)).status_code == 401
            async with asyncio.timeout(HANG_S):
                await reviewer.socket.wait_closed()
                async for _ in stream:
                    pass
            assert (reviewer.socket.close_code, reviewer.socket.close_reason) == (1008, "the token was revoked")


# -- freezes -----------------------------------------------------------------------------


@pytest.mark.thinned(2)
@WAYS
async def test_a_freeze_at_one_node_stops_what_another_does(tmp_path: Path, here: str, there: str) -> None:
    """The task goes on once the person is free, whoever ends the freeze."""
    model = Slow()
    async with several(tmp_path, "alpha", "beta", model=model) as nodes:
        only(nodes, there)
        task_id = await nodes[here].submit([], token=await nodes[here].person("ann"), prompt="of ann")
        await within(model.begun.wait())
        await ok(nodes[here], "POST", "/v1/freeze", {"person": "ann"})
        frozen = await nodes[there].until(task_id, "work_frozen")
        assert frozen["status_reason"] == "Frozen by admin"
        model.answers.set()
        await nodes[here].until(await nodes[here].submit([]), "task_ended")
        assert model.asked.count("of ann") == 1
        await ok(nodes[there], "POST", "/v1/unfreeze", {"person": "ann"})
        assert (await nodes[here].until(task_id, "task_ended"))["status"] == "Completed"


async def test_a_freeze_whose_notification_was_lost_is_seen_all_the_same(postgres_schema_url: str) -> None:
    """Each node looks by itself, and more often than once a second."""
    assert LOOK_EVERY_S < 1
    async with AsyncExitStack() as closing:
        here, there = (open_store(postgres_schema_url, clock=SystemClock()) for _ in range(2))
        closing.push_async_callback(here.close)
        closing.push_async_callback(there.close)
        keeper, changed = DirectoryKeeper(there), asyncio.Event()
        await keeper.load()
        keeper.listen(changed.set)
        keeping = asyncio.create_task(keeper.keep(LocalBus()))
        value = FreezeValue(by="admin", at=datetime(2030, 1, 1, tzinfo=UTC))
        fact = DirectoryChanged(about="freeze", name="ann", value=value)
        draft = Draft(item_id=ItemId("i-1"), at=value.at, actor=SYSTEM, fact=fact)
        await here.set_entry(draft, expected=0)
        await within(changed.wait())
        assert str(keeper.present.frozen("ann")) == "Frozen by admin"
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
