"""Several nodes as one: calls find the computer, it may move between them, and nobody does anything twice."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.computers.nodes.node import LOST
from orchestrator.computers.nodes.server import settled_told
from orchestrator.core.errors import CallLost, CallVoid, ComputerAway, ComputerFailed, InvalidRequest
from orchestrator.core.ports import Answer, CallResult, Settlement
from orchestrator.core.wire import wire
from orchestrator.core.wire.identity import NOTHING_HEARD
from orchestrator.core.wire.wire import ComputerId, RunId
from tests.computers.nodes.several import Several, several, until
from tests.harness.commands import cli
from tests.harness.support import WRITE, Disk, Listening, StubClient, dialed, final, hello, says
from tests.harness.whole_server import Server, connected
from tests.nats_servers import NatsServer
from tests.waiting import HANG_S, within

FARM = ComputerId("3")
RUN = RunId("c1.1")


@pytest.fixture(scope="module")
def nats_server() -> Iterator[NatsServer]:
    """A real bus, for the tests that want one."""
    with NatsServer() as server:
        yield server


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Several]:
    async with several(tmp_path, "alpha", "beta") as nodes:
        yield nodes


@asynccontextmanager
async def at(nodes: Several, name: str, token: str, **changes: Any) -> AsyncIterator[StubClient]:
    """A computer that was welcomed at a node, and of which every node has heard."""
    async with dialed(nodes[name].url, token) as client:
        await client.greet(**changes)
        await until(nodes.everywhere)
        yield client


def calling(server: Server, run_id: RunId = RUN, *, number: int = 1000, **more: Any) -> "asyncio.Task[CallResult]":
    """A call of a node, under way."""
    fleet = server.orchestrator.node.fleet
    values: dict[str, Any] = {"method": "fs_read", "params": {"path": "a"}, **more}
    return asyncio.create_task(fleet.call(FARM, run_id=run_id, task_id="t-1", number=number, **values))


def settling(server: Server, number: int = 2000, **more: Any) -> "asyncio.Task[dict[RunId, Settlement]]":
    """A settle of a node, under way."""
    return asyncio.create_task(server.orchestrator.node.fleet.settle(FARM, run_ids=(RUN,), number=number, **more))


async def failed(task: "asyncio.Task[Any]", kind: type[Exception]) -> Any:
    """The error that something ends with."""
    with pytest.raises(kind) as raised:
        await within(task)
    return raised.value


# -- calls -------------------------------------------------------------------------------


async def test_a_call_finds_the_computer_at_another_node(two: Several) -> None:
    """Its body goes there, the result comes back with its bytes, and what the program writes is heard on the way."""
    parts: list[tuple[int, bytes]] = []
    fleet = two["alpha"].orchestrator.node.fleet
    async with at(two, "beta", await two["beta"].computer("3")) as client, fleet.pinned([FARM]):
        sent = bytes(range(256)) * 10
        call = calling(two["alpha"], method="run_program", body=sent, on_output=lambda *part: parts.append(part))
        asked, body = await client.hear("call")
        assert (asked.call_id, asked.number, asked.method, body) == (RUN, 1000, "run_program", sent)
        wrote = wire.Body(offset=7, total=9, sha256=wire.sha256_hex(b"\xff\n"))
        await client.send(wire.Output(journal_seq=3, call_id=RUN, body=wrote), b"\xff\n")
        await client.result(RUN, CallResult({"ended": "returned"}, sent))
        assert await within(call) == CallResult({"ended": "returned"}, sent)
        assert parts == [(7, b"\xff\n")]
        assert fleet.heard(FARM) == (3, "boot-1")
        fleet.acknowledge(FARM, RUN, 1001)
        ack, _ = await client.hear("result_ack")
        assert (ack.call_id, ack.number) == (RUN, 1001)


async def test_what_a_computer_answers_with_an_error_is_the_same_error_at_the_other_node(two: Several) -> None:
    """Reason, sentence, data and body of a failure come through; a call that was refused unrun is void."""
    async with at(two, "beta", await two["beta"].computer("3")) as client:
        call = calling(two["alpha"])
        await client.hear("call")
        await client.result(RUN, ComputerFailed("stale", "It is something else.", {"actual": "absent"}))
        error = await failed(call, ComputerFailed)
        assert (error.reason, error.message, error.data) == ("stale", "It is something else.", {"actual": "absent"})
        call = calling(two["alpha"], RunId("c2.1"))
        await client.hear("call")
        await client.send(wire.CallRefused(journal_seq=4, call_id="c2.1", code="busy", message="Too much to do."))
        void = await failed(call, CallVoid)
        assert (void.reason, void.message) == ("busy", "Too much to do.")


async def test_a_session_that_ends_at_another_node_loses_the_call_and_no_node_makes_it_again(two: Several) -> None:
    """Only a settle can tell; a computer that is nowhere is away, and is still known."""
    token = await two["beta"].computer("3")
    async with at(two, "beta", token) as client:
        call = calling(two["alpha"])
        await client.hear("call")
        await client.socket.close()
        await failed(call, CallLost)
    await until(lambda: two.offline("alpha"))
    await failed(calling(two["alpha"]), ComputerAway)
    info = (await two["alpha"].orchestrator.node.fleet.look([FARM]))[FARM].info
    assert (info.online, info.label, info.left_at is not None) == (False, "farm", True)


async def test_a_program_is_waited_for_at_another_node_while_its_game_is_paused(
    two: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its limit is time of the game, so no time of the clock ends the wait for the other node's answer."""
    monkeypatch.setattr(wire, "RUN_PING_EVERY_S", 0.25)
    monkeypatch.setattr("orchestrator.computers.nodes.fleet.SLACK_S", 0.0)
    async with at(two, "beta", await two["beta"].computer("3"), capabilities=(wire.CLOCK,)) as client:
        call = calling(two["alpha"], method="run_program", params={"timeout_s": 1}, wait_s=1.5)
        await client.hear("call")
        # So many pings take longer than the wait: the time of the game stands still.
        for _ in range(8):
            ping, _ = await client.hear("ping")
            await client.send(wire.Pong(journal_seq=3, n=ping.n, clock_ms=50))
        await client.result(RUN, CallResult({"ended": "returned"}))
        assert await within(call) == CallResult({"ended": "returned"})


async def test_where_the_named_node_has_not_the_computer_the_next_that_is_named_is_asked(two: Several) -> None:
    """It left without that being heard: nothing was written, it counts as away, and the call fails as away."""
    fleet = two["alpha"].orchestrator.node.fleet
    async with at(two, "beta", await two["beta"].computer("3")) as client, fleet.pinned([FARM]):
        two.lines["beta"].lost += ["nodes.computers", "nodes.beat"]
        await client.socket.close()
        await until(lambda: two.offline("beta"))
        known = fleet.info(FARM)
        assert known is not None
        assert known.online
        await failed(calling(two["alpha"]), ComputerAway)
        known = fleet.info(FARM)
        assert known is not None
        assert not known.online


async def test_a_computer_that_could_not_be_asked_for_a_moment_is_there_again_without_its_doing(two: Several) -> None:
    """The bus was away, and the computer stayed where it was: nobody there has anything to tell, so it is asked."""
    async with at(two, "beta", await two["beta"].computer("3")) as client:
        two.lines["alpha"].disconnected = True
        await failed(calling(two["alpha"]), ComputerAway)
        assert await two.offline("alpha")
        two.lines["alpha"].disconnected = False
        await until(lambda: two.online("alpha"))
        call = calling(two["alpha"])
        await client.hear("call")
        await client.result(RUN, CallResult({"size": 1}))
        assert (await within(call)).data == {"size": 1}


async def test_a_settle_finds_the_computer_at_another_node(two: Several) -> None:
    """What its journal says comes back, with the result where it is still in memory."""
    async with at(two, "beta", await two["beta"].computer("3")) as client:
        parts: list[tuple[int, bytes]] = []
        settle = settling(two["alpha"], on_output={RUN: lambda *part: parts.append(part)})
        asked, _ = await client.hear("settle")
        assert (asked.number, list(asked.call_ids)) == (2000, [RUN])
        wrote = wire.Body(offset=7, total=10, sha256=wire.sha256_hex(b"hi\n"))
        await client.send(wire.Output(journal_seq=3, call_id=RUN, body=wrote), b"hi\n")
        await client.result(RUN, CallResult({"size": 3}, b"abc"))
        await client.settled(2000, wire.SettledCall(call_id=RUN, state="finished", ok=True))
        settled = (await within(settle))[RUN]
        assert (settled.call.state, settled.result) == ("finished", CallResult({"size": 3}, b"abc"))
        assert parts == [(7, b"hi\n")]


async def test_a_run_of_which_the_other_node_says_nothing_is_not_settled(two: Several) -> None:
    """Such as where its version answers otherwise: what became of the run is not known."""

    async def silent(_payload: Mapping[str, Any], _body: bytes) -> Answer:
        return settled_told({}, NOTHING_HEARD)

    async with at(two, "beta", await two["beta"].computer("3")):
        two["beta"].orchestrator.node.serving.ops["settle"] = silent
        lost = await failed(settling(two["alpha"]), CallLost)
    assert RUN in lost.message


async def test_an_op_that_a_node_does_not_know_is_refused_in_a_sentence(two: Several) -> None:
    """Two versions run side by side during an upgrade."""
    alpha, beta = (two[name].orchestrator.node for name in ("alpha", "beta"))
    answer = await alpha.fleet.request(beta.presence.node, {"op": "dance"}, within_s=HANG_S)
    failure = answer.payload["failure"]
    assert (failure["kind"], failure["reason"]) == ("void", "unknown_op")
    assert "does not know 'dance'" in failure["message"]


async def test_a_node_that_is_not_heard_any_more_loses_the_calls_that_wait_on_it(two: Several) -> None:
    """It is dead to the others after five seconds, and its computers are away."""
    async with at(two, "beta", await two["beta"].computer("3")) as client:
        call = calling(two["alpha"])
        await client.hear("call")
        two.lines["beta"].cut = True
        await failed(call, CallLost)
        assert await two.offline("alpha")
        assert [one["name"] for one in two["alpha"].orchestrator.node.nodes()] == ["alpha"]


# -- a computer that moves ---------------------------------------------------------------


async def test_a_computer_that_comes_to_another_node_leaves_the_first(two: Several) -> None:
    """The newer connection counts; what the first had heard is kept before the second welcomes it."""
    token = await two["alpha"].computer("3")
    async with at(two, "alpha", token) as old:
        call = calling(two["beta"])
        await old.hear("call")
        await old.send(wire.Pong(journal_seq=40, n=1))
        async with dialed(two["beta"].url, token) as new:
            await new.greet()
            assert await old.closed() == (1008, "replaced by a newer connection")
            assert (await two.store.computer(FARM)).heard == 40
            await failed(call, CallLost)
            await until(lambda: _at_beta(two))
            assert await two.node_of("beta") == ""


async def test_two_that_live_with_one_identity_at_two_nodes_are_both_turned_away(two: Several) -> None:
    """Another boot comes while the first still answers: both are frozen, at both nodes."""
    token = await two["alpha"].computer("3")
    async with at(two, "alpha", token) as first:
        answering = asyncio.create_task(first.serve(Disk()))
        async with dialed(two["beta"].url, token) as second:
            await second.send(hello(boot="boot-2"))
            refused, _ = await second.hear("refused")
            assert refused.code == "frozen"
            await within(answering)
            await until(lambda: two.offline("beta"))
    frozen = (await two.store.computer(FARM)).frozen
    assert frozen is not None
    assert frozen.reason == "two_computers"


async def test_a_boot_that_does_not_answer_at_the_other_node_is_replaced(two: Several) -> None:
    """It rebooted and came to another node: its old connection is dead."""
    token = await two["alpha"].computer("3")
    async with at(two, "alpha", token), dialed(two["beta"].url, token) as second:
        await second.greet(boot="boot-2")
        await until(lambda: _at_beta(two))
    assert (await two.store.computer(FARM)).frozen is None


async def test_a_node_that_is_stopped_holds_nobody_up_and_lets_go_when_it_wakes(two: Several) -> None:
    """The other node asks it for two seconds, then goes on; awake again, it hears of the later welcome."""
    token = await two["alpha"].computer("3")
    async with at(two, "alpha", token) as old, dialed(two["beta"].url, token) as new:
        two.lines["alpha"].cut = True
        await new.greet()
        assert two["alpha"].orchestrator.hub.here(FARM)
        two.lines["alpha"].cut = False
        assert await old.closed() == (1008, "replaced by a newer connection")
        assert two["beta"].orchestrator.hub.here(FARM)


async def test_where_two_nodes_welcome_at_once_the_later_welcome_counts(two: Several) -> None:
    """Neither knew of the other: who hears of a higher number drops its own session."""
    token = await two["alpha"].computer("3")
    two.lines["alpha"].lost += ["nodes.computers", "nodes.beat"]
    async with dialed(two["alpha"].url, token) as old, dialed(two["beta"].url, token) as new:
        await old.greet()
        await new.greet()
        assert await old.closed() == (1008, "replaced by a newer connection")
        assert two["beta"].orchestrator.hub.here(FARM)


# -- tasks -------------------------------------------------------------------------------


async def test_a_call_is_settled_at_the_node_to_which_its_computer_moved(tmp_path: Path) -> None:
    """The connection ends in the middle; at the other node the computer says that it was done: it is done once."""
    model = Listening(says(WRITE), final())
    disk = Disk({"a.lua": b"old\n"})
    async with several(tmp_path, "alpha", "beta", model=model) as nodes:
        token = await nodes["alpha"].computer("3")
        async with dialed(nodes["alpha"].url, token) as old:
            await old.greet()
            task_id = await nodes["beta"].submit()
            looking = asyncio.create_task(_served_until_write(old, disk))
            request = await nodes["beta"].paused(task_id)
            await nodes["beta"].ask("POST", f"/v1/approve/{request['request_id']}")
            asked, body = await within(looking)
            result = disk.perform(asked.method, asked.params, body)
            await old.socket.close()
        async with dialed(nodes["beta"].url, token) as new:
            await new.greet(calls=(asked.call_id,), highest=asked.number, journal_seq=2)
            settle, _ = await new.hear("settle")
            assert list(settle.call_ids) == [asked.call_id]
            await new.result(asked.call_id, result)
            await new.settled(settle.number, wire.SettledCall(call_id=asked.call_id, state="finished", ok=True))
            serving = asyncio.create_task(new.serve(disk))
            task = await nodes["alpha"].until(task_id, "task_ended")
            await new.socket.close()
            await serving
    assert task["status"] == "Completed"
    assert disk.done == ["fs_write a.lua"]


async def _at_beta(two: Several) -> bool:
    """Whether alpha finds the computer at beta."""
    return await two.node_of("alpha") == "beta"


async def _served_until_write(client: StubClient, disk: Disk) -> tuple[Any, bytes]:
    """Answer looks until a write comes, which is not answered."""
    while True:
        message, body = await client.hear()
        if isinstance(message, wire.Call):
            if message.method == "fs_write":
                return message, body
            await client.send(wire.Ack(journal_seq=2, call_id=message.call_id))
            await client.result(message.call_id, disk.perform(message.method, message.params, body))


async def test_a_decision_at_one_node_is_carried_out_whichever_has_task_and_computer(tmp_path: Path) -> None:
    """Submitted at one, shown and approved at another, done on a computer of a third."""
    disk = Disk()
    model = Listening(says(WRITE), final())
    async with several(tmp_path, "alpha", "beta", "gamma", model=model) as nodes, connected(nodes["gamma"], "3", disk):
        task_id = await nodes["alpha"].submit()
        await nodes["alpha"].paused(task_id)
        (request,) = (await nodes["beta"].ask("GET", "/v1/requests")).json()["requests"]
        await nodes["beta"].ask("POST", f"/v1/approve/{request['request_id']}")
        task = await nodes["beta"].until(task_id, "task_ended")
    assert task["status"] == "Completed"
    assert disk.done == ["fs_write a.lua"]


async def test_it_is_the_same_over_a_real_bus(tmp_path: Path, nats_server: NatsServer) -> None:
    """A call with a body, output, what is refused, a move between nodes, and a whole task, over NATS."""
    disk, long, parts = Disk({"a.lua": b"old\n"}), bytes(range(256)) * 800, []
    model = Listening(says(WRITE), final())
    async with several(tmp_path, "alpha", "beta", model=model, url=nats_server.url) as nodes:
        token = await nodes["alpha"].computer("3")
        async with at(nodes, "alpha", token) as old:
            call = calling(nodes["beta"], method="run_program", on_output=lambda *part: parts.append(part))
            await old.hear("call")
            wrote = wire.Body(offset=0, total=3, sha256=wire.sha256_hex(b"abc"))
            await old.send(wire.Output(journal_seq=3, call_id=RUN, body=wrote), b"abc")
            await old.result(RUN, CallResult({}, long[:40_000]))
            assert (await within(call)).body == long[:40_000]
            assert parts == [(0, b"abc")]
            # More than a client takes that knows no parts: what refuses it refuses it here, too.
            await failed(calling(nodes["beta"], RunId("c2.1"), method="fs_write", body=long), InvalidRequest)
            call = calling(nodes["beta"], RunId("c3.1"), method="fs_write", body=long[:40_000])
            assert (await old.hear("call"))[1] == long[:40_000]
            async with connected(nodes["beta"], "3", disk, token):
                assert await old.closed() == (1008, "replaced by a newer connection")
                await failed(call, CallLost)
                task_id = await nodes["alpha"].submit()
                request = await nodes["beta"].paused(task_id)
                await nodes["alpha"].ask("POST", f"/v1/approve/{request['request_id']}")
                assert (await nodes["alpha"].until(task_id, "task_ended"))["status"] == "Completed"
    assert disk.done == ["fs_write a.lua"]


# -- what people see ---------------------------------------------------------------------


async def test_a_node_that_lost_the_bus_says_so(tmp_path: Path) -> None:
    """`nodes` and `doctor` of that node tell the cause, at once; the other is not concerned."""
    async with several(tmp_path, "alpha", "beta") as nodes:
        assert (await nodes["alpha"].ask("GET", "/v1/nodes")).json()["alerts"] == []
        nodes.lines["alpha"].cut = True
        for path in ("/v1/nodes", "/v1/doctor"):
            assert (await nodes["alpha"].ask("GET", path)).json()["alerts"] == [LOST]
            assert (await nodes["beta"].ask("GET", path)).json()["alerts"] == []
        options = ("--url", nodes["alpha"].url, "--data-dir", str(tmp_path))
        shown = await asyncio.to_thread(cli, tmp_path, "nodes", *options)
        assert (shown.returncode, shown.stderr) == (0, f"{LOST}\n")


async def test_every_node_lists_all_computers_and_all_nodes(tmp_path: Path) -> None:
    """Where a computer is, seen from each; `nodes` on the command line says the same."""
    async with several(tmp_path, "alpha", "beta") as nodes, at(nodes, "beta", await nodes["alpha"].computer("3")):
        listed = [(await nodes[name].ask("GET", "/v1/computers")).json()["computers"][0] for name in ("alpha", "beta")]
        assert [(one["online"], one["label"], one["node"]) for one in listed] == [
            (True, "farm", "beta"),
            (True, "farm", None),
        ]
        found = (await nodes["alpha"].ask("GET", "/v1/nodes")).json()
        assert found["connected"]
        assert [(one["name"], one["computers"], one["here"]) for one in found["nodes"]] == [
            ("alpha", 0, True),
            ("beta", 1, False),
        ]
        options = ("--url", nodes["beta"].url, "--data-dir", str(tmp_path))
        shown = await asyncio.to_thread(cli, tmp_path, "nodes", *options)
        assert shown.returncode == 0, shown.stderr
        assert [line.split()[0] for line in shown.stdout.splitlines()] == ["NODE", "beta", "alpha"]
        assert (await nodes["alpha"].ask("GET", "/v1/nodes", token="wrong")).status_code == 401


async def test_a_node_that_stops_says_goodbye(tmp_path: Path) -> None:
    """The others know at once, and its id is another one at the next start."""
    async with several(tmp_path, "alpha", "beta") as nodes:
        node = nodes["beta"].orchestrator.node
        await node.close()
        assert [one["name"] for one in nodes["alpha"].orchestrator.node.nodes()] == ["alpha"]
