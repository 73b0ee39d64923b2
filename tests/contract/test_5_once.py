"""Execute exactly once: recorded before it is done, sent once, and declared unknown where nobody can say."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from orchestrator.core.task import facts
from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import SettledCall
from orchestrator.testing import ManualClock
from orchestrator.tools.deps import MAX_RESULT_CHARS
from tests.contract.parts import WRITE, ByHand, Gated, Playing, by_hand, calls_of, changes_in, policy, sha256
from tests.harness.processes import start_computer
from tests.harness.support import call, says
from tests.harness.whole_server import Installation, Opened
from tests.waiting import within

OLD = {"a.lua": b"old\n", "hello.lua": b"print('hello')\n"}
RUN = call("cc_run_program", path="hello.lua")
READ = call("cc_read", path="a.lua")


async def _approved(server: Opened, hand: ByHand, *methods: str) -> tuple[str, wire.Call]:
    """A task whose one change was approved, and the call as the computer got it; it has not answered."""
    task_id = await server.submit()
    hearing = asyncio.create_task(hand.call(*methods, files=OLD))
    request = await server.request(task_id)
    assert (await server.decide(request, "approve")).status_code == 202
    return task_id, await within(hearing)


# -- E1 ----------------------------------------------------------------------------------


async def test_e1_a_call_is_recorded_before_it_is_sent_and_by_one_winner(installation: Installation) -> None:
    """When the computer hears the call its start is durable; of many approvals one sends it."""
    async with (
        installation.open(Playing(says(WRITE)), policy=policy(), computer=False) as server,
        by_hand(server, await server.computer("3")) as hand,
    ):
        task_id = await server.submit()
        hearing = asyncio.create_task(hand.call("fs_write", files=OLD))
        request = await server.request(task_id)
        answers = await asyncio.gather(*(server.decide(request, "approve") for _ in range(5)))
        assert {one.status_code for one in answers} <= {200, 202}
        sent = await within(hearing)
        (started,) = await server.items(task_id, "tool_started")
        assert isinstance(started.fact, facts.ToolStarted)
        assert (started.fact.run_id, started.fact.number) == (sent.call_id, sent.number)
        assert [one["state"] for one in (await server.task(task_id))["calls"]] == ["executing"]
        await hand.ok(sent, {"size": 13, "sha256": sha256(b"print('new')\n"), "before": sha256(b"old\n")})
        await server.ended(task_id)
        assert [one.method for one in hand.seen if isinstance(one, wire.Call)].count("fs_write") == 1


# -- E2 ----------------------------------------------------------------------------------


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("wanted", "method", "said", "becomes"),
    [
        (WRITE, "fs_write", {"state": "finished", "ok": True}, "done"),
        (WRITE, "fs_write", {"state": "void"}, "again"),
        (WRITE, "fs_write", {"state": "unknown", "sha256": sha256(b"print('new')\n")}, "unknown"),
        (READ, "fs_read", {"state": "interrupted"}, "again"),
        (RUN, "run_program", {"state": "interrupted"}, "unknown"),
        (RUN, "run_program", {"state": "void"}, "again"),
    ],
    ids=["write-finished", "write-void", "write-unknown", "read-interrupted", "run-interrupted", "run-void"],
)
async def test_e2_what_was_executing_is_settled_first(
    kept_installation: Installation, wanted: dict[str, Any], method: str, said: dict[str, Any], becomes: str
) -> None:
    """After a restart the task waits for its computer and asks it; what it says decides, and no hash does.

    On SQLite only, as the restart needs a file.
    """
    model = Playing(says(wanted))
    async with kept_installation.open(model, policy=policy(), computer=False) as server:
        token = await server.computer("3")
        async with by_hand(server, token) as hand:
            if method == "fs_read":
                task_id = await server.submit()
                sent = await hand.call(method)
            else:
                task_id, sent = await _approved(server, hand, method)
    async with kept_installation.open(model, computer=False) as server:
        assert [one["state"] for one in (await server.task(task_id))["calls"]] == ["executing"]
        again = {"boot": "boot-2", "highest": sent.number, "journal_seq": 9, "calls": (sent.call_id,)}
        async with by_hand(server, token, **again) as hand:
            settle = await hand.settle()
            assert settle.call_ids == (sent.call_id,)
            assert settle.number > sent.number
            await hand.client.settled(settle.number, SettledCall(call_id=sent.call_id, **said))
            requests = len(await server.items(task_id, "review_requested"))
            if becomes == "again":
                second = await hand.call(method, files=OLD if method != "fs_read" else {})
                assert second.call_id != sent.call_id
                assert second.number > settle.number
                assert len(await server.items(task_id, "review_requested")) == requests
                return
            hearing = asyncio.create_task(hand.call("nothing", files=OLD))
            if becomes == "done":
                await server.ended(task_id)
            else:
                raised = await server.item(task_id, "review_requested", where=lambda fact: fact["reason"] != "approval")
                assert raised["fact"]["reason"] == "outcome_unknown"
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
            assert method not in [one.method for one in hand.seen if isinstance(one, wire.Call)]


# -- E3 ----------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _unknown(server: Opened) -> AsyncIterator[tuple[str, dict[str, Any], ByHand]]:
    """A program of which nobody knows whether it ran: the computer restarted while it did."""
    token = await server.computer("3")
    async with by_hand(server, token) as hand:
        task_id, sent = await _approved(server, hand, "run_program")
    again = {"boot": "boot-2", "highest": sent.number, "journal_seq": 9, "calls": (sent.call_id,)}
    async with by_hand(server, token, **again) as hand:
        settle = await hand.settle()
        await hand.client.settled(settle.number, SettledCall(call_id=sent.call_id, state="interrupted"))
        looking = asyncio.create_task(hand.call("run_program", files=OLD))
        raised = await server.item(task_id, "review_requested", where=lambda fact: fact["reason"] == "outcome_unknown")
        request = (await server.ask("GET", f"/v1/requests/{raised['fact']['request_id']}")).json()
        try:
            yield task_id, request, hand
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


@pytest.mark.parametrize("verb", ["mark_done", "mark_failed"])
async def test_e3_what_is_unknown_waits_for_a_person_who_says(installation: Installation, verb: str) -> None:
    """The task pauses; it takes check, mark done, mark failed and retry; the model hears `unknown`, never `failed`."""
    model = Playing(says(RUN))
    async with (
        installation.open(model, policy=policy(), computer=False) as server,
        _unknown(server) as (task_id, request, _),
    ):
        assert (await server.task(task_id))["status"] == "Paused"
        assert request["allowed_decisions"] == ["check", "mark_done", "mark_failed", "retry"]
        for other in ("approve", "reject"):
            assert (await server.decide(request, other)).status_code == 409
        assert len(model.asked) == 1
        assert (await server.decide(request, verb)).status_code == 200
        await server.ended(task_id)
        assert "unknown" in model.told
        assert "failed" not in model.told.lower()


async def test_e3_a_check_looks_again_and_a_retry_is_a_new_call_that_is_asked_for(installation: Installation) -> None:
    """Check shows what is there now in a new request; retry has a new call id, and runs only when it is approved."""
    async with (
        installation.open(Playing(says(RUN)), policy=policy(), computer=False) as server,
        _unknown(server) as (task_id, request, hand),
    ):
        assert (await server.decide(request, "check")).status_code == 200
        version = (await server.item(task_id, "decision_recorded", where=_says("check")))["version"]
        checked = await server.request(task_id, after=version)
        assert (checked["reason"], checked["request_id"] != request["request_id"]) == ("outcome_unknown", True)
        assert (await server.decide(checked, "retry")).status_code == 200
        version = (await server.item(task_id, "decision_recorded", where=_says("retry")))["version"]
        asked = await server.request(task_id, after=version)
        assert asked["reason"] == "approval"
        (before,), (after,) = request["tool_calls"], asked["tool_calls"]
        assert after["call_id"] != before["call_id"]
        assert "run_program" not in [one.method for one in hand.seen if isinstance(one, wire.Call)]
        await server.decide(asked, "approve")
        started = await server.item(task_id, "tool_started", after=asked_at(await server.items(task_id)))
        assert started["fact"]["call_id"] == after["call_id"]


def _says(verb: str) -> Any:
    return lambda fact: fact["decisions"][0]["action"] == verb


def asked_at(items: list[Any]) -> int:
    """The version of the last request."""
    return max(int(one.version) for one in items if one.fact.kind == "review_requested")


# -- E4 ----------------------------------------------------------------------------------


async def test_e4_the_client_runs_an_id_once_and_nothing_below_its_fence(tmp_path: Path) -> None:
    """The real client is sent the same id twice, and a number below its fence: one run, one refusal; then it goes on.

    The orchestrator is spoken by hand, because it never does either; so there is no store.
    """
    log = "local log = fs.open('ran.log', 'a') log.write('ran\\n') log.close()"
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "p.lua").write_text(log, "utf-8")
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def orchestrator(socket: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                data = await socket.recv()
                assert isinstance(data, bytes)
                message, _ = wire.decode_any(data)
                if isinstance(message, wire.Hello):
                    await socket.send(wire.encode(wire.Welcome(number=10, computer="3")))
                    for call_id, number in (("c1.1", 11), ("c1.1", 11), ("c2.1", 9), ("c3.1", 12)):
                        await socket.send(_run_frame(call_id, number, sha256(log)))
                elif isinstance(message, wire.Result | wire.CallRefused):
                    heard.put_nowait(message)

    protocols = [Subprotocol(wire.COMPUTER_SUBPROTOCOL)]
    async with serve(orchestrator, "127.0.0.1", 0, subprotocols=protocols, compression=None) as listening:
        port = next(iter(listening.sockets)).getsockname()[1]
        process = start_computer(disk, f"ws://127.0.0.1:{port}/computer", "token")
        try:
            answers: dict[str, Any] = {}
            while set(answers) != {"c1.1", "c2.1", "c3.1"}:
                one = await within(heard.get())
                answers[one.call_id] = one
        finally:
            process.kill()
    assert isinstance(answers["c2.1"], wire.CallRefused)
    assert answers["c2.1"].code == "below_fence"
    assert [answers[one].ok for one in ("c1.1", "c3.1")] == [True, True]
    assert (disk / "ran.log").read_text("utf-8") == "ran\nran\n"


def _run_frame(call_id: str, number: int, if_hash: str) -> bytes:
    params = {"path": "p.lua", "if_hash": if_hash, "timeout_s": 5}
    body = json.dumps([]).encode()
    wanted = wire.Call(
        call_id=call_id, task="t", number=number, method="run_program", params=params, body=wire.whole(body)
    )
    return wire.encode(wanted, body)


# -- E5 ----------------------------------------------------------------------------------


async def test_e5_a_drop_after_sending_asks_and_does_not_send_again(installation: Installation) -> None:
    """The line broke before the answer: after it is back the computer is asked by call id, before anything else."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), computer=False) as server:
        token = await server.computer("3")
        async with by_hand(server, token) as hand:
            task_id, sent = await _approved(server, hand, "fs_write")
        async with by_hand(server, token, highest=sent.number, journal_seq=9, calls=(sent.call_id,)) as hand:
            settle = await hand.settle()
            assert settle.call_ids == (sent.call_id,)
            await hand.ok(sent, {"size": 13, "sha256": sha256(b"print('new')\n"), "before": sha256(b"old\n")})
            await hand.client.settled(settle.number, SettledCall(call_id=sent.call_id, state="finished", ok=True))
            await server.ended(task_id)
            assert not [one for one in hand.seen if isinstance(one, wire.Call)]
            assert len(await server.items(task_id, "tool_started")) == 1


# -- E6, E7, E8 ------------------------------------------------------------------------------


async def test_e6_a_call_that_fails_takes_no_sibling_with_it(installation: Installation) -> None:
    """Of four calls two fail: the model is told all four results, in the order in which it made the calls."""
    bad, worse = call("cc_read", path="nowhere.lua"), call("cc_delete", path="b.lua")
    model = Playing(says(bad, READ, worse, WRITE))
    async with installation.open(model, policy=policy()) as server:
        task_id, request = await server.asked()
        await server.decide(request, "approve")
        await server.ended(task_id)
        parts = model.told.split("TOOL_RESULT: ")[1:]
        assert [one.split("]")[0] for one in parts] == ["[1 cc_read", "[2 cc_read", "[3 cc_delete", "[4 cc_write"]
        assert "nowhere.lua" in parts[0]
        assert "old" in parts[1]
        assert "Wrote 13 bytes" in parts[3]


async def test_e7_a_cancelled_wait_leaves_nothing_executing(installation: Installation) -> None:
    """What waits for a call's answer is cancelled under it: its one worker goes on, and the run is settled."""
    gates: list[Gated] = []

    def watched(store: Any) -> Any:
        gates.append(Gated(store))
        return gates[0]

    async with (
        installation.open(
            Playing(says(WRITE)), policy=policy(), computer=False, clock=ManualClock(), workers=1, wrap_store=watched
        ) as server,
        by_hand(server, await server.computer("3")) as hand,
    ):
        task_id, sent = await _approved(server, hand, "fs_write")
        gates[0].parked.clear()
        (acting,) = (one for one in asyncio.all_tasks() if "TaskActor.run" in repr(one.get_coro()))
        acting.cancel()
        await within(gates[0].parked.wait())
        server.advance(60)
        settle = await hand.settle()
        await hand.ok(sent, {"size": 13, "sha256": sha256(b"print('new')\n"), "before": sha256(b"old\n")})
        await hand.client.settled(settle.number, SettledCall(call_id=sent.call_id, state="finished", ok=True))
        assert (await server.ended(task_id))["status"] == "Completed"
        assert [one["state"] for one in (await server.task(task_id))["calls"]] == []


async def test_e7_a_model_that_is_cancelled_takes_no_worker_with_it(installation: Installation) -> None:
    """A model whose own wait was cancelled ends no worker: the next task is served by the same one."""

    class Cancelled(Playing):
        async def reply(self, messages: Any, **options: Any) -> Any:
            if messages[1].content == "bad":
                raise asyncio.CancelledError
            return await super().reply(messages, **options)

    async with installation.open(Cancelled(), policy=policy(), workers=1) as server:
        bad = await server.submit(prompt="bad")
        await server.item(bad, "model_asked")
        good = await server.submit(prompt="good")
        assert (await server.ended(good))["status"] == "Completed"


async def test_e7_a_task_that_is_canceled_while_a_call_runs_records_its_outcome(installation: Installation) -> None:
    """Canceled while the computer was at it: the outcome is recorded when it comes, and nothing stays executing."""
    async with (
        installation.open(Playing(says(WRITE)), policy=policy(), computer=False) as server,
        by_hand(server, await server.computer("3")) as hand,
    ):
        task_id, sent = await _approved(server, hand, "fs_write")
        assert (await server.ask("POST", f"/v1/tasks/{task_id}/cancel")).status_code == 200
        await hand.ok(sent, {"size": 13, "sha256": sha256(b"print('new')\n"), "before": sha256(b"old\n")})
        outcome = await server.item(task_id, "tool_finished")
        assert outcome["fact"]["ok"]
        task = await server.task(task_id)
        assert task["status"] == "Canceled"
        assert "executing" not in [one["state"] for one in task["calls"]]


async def test_e8_output_is_capped_and_the_model_sees_that(installation: Installation) -> None:
    """Of a long output the model gets head and tail, and between them how much was left out."""
    model = Playing(says(RUN))
    shout = {"hello.lua": lambda _: "a" * 50_000 + "b" * 50_000}
    async with installation.open(model, policy=policy(), programs=shout) as server:
        calls = calls_of(server.stub)
        task_id, request = await server.asked()
        await server.decide(request, "approve")
        await server.ended(task_id)
        assert changes_in(calls) == ["run_program"]
        assert len(model.told) < MAX_RESULT_CHARS + 500
        assert "aaa" in model.told
        assert "bbb" in model.told
        assert "characters left out" in model.told
