"""The hub over real WebSockets, with a computer spoken by hand at the other end."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orchestrator.computers.hub import session as hub_session
from orchestrator.computers.hub import socket
from orchestrator.computers.hub.known_computers import Rival, Yielded
from orchestrator.computers.hub.socket import PAUSED_AFTER_S, GameClock, Wait
from orchestrator.core.errors import CallLost, CallVoid, ComputerAway, ComputerFailed, FrameRefused, StoreAway
from orchestrator.core.ports import CallResult
from orchestrator.core.task.system_facts import ComputerFrozen
from orchestrator.core.wire import wire
from orchestrator.core.wire.identity import Heard
from orchestrator.core.wire.link import MAX_COMPLAINTS
from orchestrator.core.wire.wire import RunId, SettledCall
from tests.harness.hub_server import FARM, RUN, HubServer, failed, hub_server
from tests.harness.support import StubClient, dialed, hello
from tests.waiting import HANG_S, within


@pytest.fixture(params=[False, True], ids=["any-socket", "direct"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[HubServer]:
    async with hub_server(direct=request.param) as opened:
        yield opened


# -- hello -------------------------------------------------------------------------------


async def test_hello_is_answered_with_a_number_above_all_that_was_seen(server: HubServer) -> None:
    """Welcome carries a newly allotted number, above the highest that the computer has seen, and its name here."""
    server.journal.last = 3
    async with server.computer(highest=41) as client:
        del client
        assert server.journal.last == 42
    async with dialed(server.url) as again:
        welcome = await again.greet(highest=7)
        assert (welcome.number, welcome.computer, welcome.silence_s) == (43, "farm", 100)


async def test_a_computer_that_said_hello_is_known(server: HubServer) -> None:
    """What a computer said of itself is listed, as text, online and after it has gone."""
    assert server.hub.info(FARM) is None
    assert server.hub.list_computers() == []
    async with server.computer(label="gr\u00c3\u00bcn", computer_id=7, family="turtle"):
        (info,) = server.hub.list_computers()
        assert (info.computer, info.online, info.label, info.computer_id) == (FARM, True, "grün", 7)
        assert (info.family, info.host) == ("turtle", "ComputerCraft 1.113.1 (Minecraft 1.20.1)")


@pytest.mark.parametrize(
    ("changes", "code", "remedy"),
    [
        ({"protocol": 0}, "protocol_too_old", "Install the client again from this orchestrator."),
        ({"protocol": 2}, "protocol_too_new", "Update the orchestrator."),
        ({"host": "ComputerCraft 1.94.0 (Minecraft 1.16.4)"}, "mod_too_old", "Update the mod to 1.95"),
        ({"host": "ComputerCraft 1.9 (Minecraft 1.12)"}, "mod_too_old", "Update the mod to 1.95"),
    ],
)
async def test_what_is_too_old_or_too_new_is_refused_with_a_remedy(
    server: HubServer, changes: dict[str, Any], code: str, remedy: str
) -> None:
    """A client of another protocol, or of a mod before 1.95, is refused with code and remedy, and is not online."""
    async with dialed(server.url) as client:
        await client.send(hello(**changes))
        refused, _ = await client.hear("refused")
        assert refused.code == code
        assert refused.message
        assert refused.remedy.startswith(remedy)
        await client.closed()
    assert not server.online()
    assert server.journal.last == 0


@pytest.mark.parametrize("host", ["ComputerCraft 1.95.0 (Minecraft 1.16.5)", "ComputerCraft 2.0 (x)", "Recrafted", ""])
async def test_what_is_new_enough_or_of_unknown_kind_is_welcome(server: HubServer, host: str) -> None:
    """1.95 is welcome, and so is a host whose version nobody can read."""
    async with dialed(server.url) as client:
        await client.greet(host=host)


async def test_a_second_hello_is_out_of_order_and_changes_nothing(server: HubServer) -> None:
    """A computer that says hello twice is told so, keeps its session, and its calls go on."""
    async with server.computer() as client:
        call = server.calling()
        await client.hear("call")
        await client.send(hello(computer_id=99))
        complaint, _ = await client.hear("error")
        assert complaint.code == "out_of_order"
        await client.result(RUN, CallResult(body=b"x"))
        assert (await call).body == b"x"
        info = server.hub.info(FARM)
        assert info is not None
        assert info.computer_id == 3


async def test_nothing_is_heard_before_hello(server: HubServer) -> None:
    """A result, a pong or a settled before hello is out of order, and the connection lives to say hello."""
    async with dialed(server.url) as client:
        await client.send(wire.Pong(journal_seq=1, n=1))
        complaint, _ = await client.hear("error")
        assert complaint.code == "out_of_order"
        await client.greet()


async def test_old_outcomes_are_acknowledged_at_hello_with_rising_numbers(server: HubServer) -> None:
    """Ids in a computer's journal that nobody waits for are acknowledged at once; open ones are not."""
    server.journal.open_runs = {RunId("c2.1")}
    async with dialed(server.url) as client:
        welcome = await client.greet(calls=("c1.1", "c2.1", "c3.1"))
        first, _ = await client.hear("result_ack")
        second, _ = await client.hear("result_ack")
        assert [first.call_id, second.call_id] == ["c1.1", "c3.1"]
        assert welcome.number < first.number < second.number


async def test_a_newer_connection_replaces_the_older(server: HubServer) -> None:
    """A second connection of one computer ends the first with 1008 and its waits with CallLost; calls use the new."""
    async with server.computer() as old, dialed(server.url) as new:
        lost = server.calling()
        await old.hear("call")
        await new.greet()
        assert await old.closed() == (1008, "replaced by a newer connection")
        await failed(lost, CallLost)
        fresh = server.calling(RunId("c2.1"))
        message, _ = await new.hear("call")
        assert message.call_id == "c2.1"
        await new.result("c2.1", CallResult(body=b"new"))
        assert (await fresh).body == b"new"
        assert server.online()


async def test_the_end_of_a_replaced_session_does_not_take_the_new_one_away(server: HubServer) -> None:
    """When the replaced connection finally ends, the computer stays online and its calls go on."""
    async with dialed(server.url) as old:
        await old.greet()
        async with dialed(server.url) as new:
            await new.greet()
            call = server.calling()
            await new.hear("call")
            await old.closed()
            await new.result(RUN, CallResult(body=b"still here"))
            assert (await call).body == b"still here"
            assert server.online()


async def test_of_two_connections_the_one_that_dialed_later_stays(server: HubServer) -> None:
    """A connection that dialed first and says hello last is itself the one that ends: it may be long dead."""
    async with dialed(server.url) as first, dialed(server.url) as second:
        await second.greet()
        await first.send(hello(computer_id=99))
        assert await first.closed() == (1008, "replaced by a newer connection")
        call = server.calling()
        await second.hear("call")
        await second.result(RUN, CallResult())
        await call
        info = server.hub.info(FARM)
        assert info is not None
        assert (info.online, info.computer_id) == (True, 3)


# -- calls -------------------------------------------------------------------------------


async def test_a_call_is_one_frame_and_its_result_the_answer(server: HubServer) -> None:
    """A call carries id, task, number, method, params and body; after ack and result it answers with data and body."""
    async with server.computer() as client:
        call = server.calling(method="fs_write", params={"path": "a", "if_hash": "absent"}, body=b"new")
        message, body = await client.hear("call")
        assert (message.call_id, message.task, message.number, message.method) == (RUN, "t-1", 9, "fs_write")
        assert (message.params, body) == ({"path": "a", "if_hash": "absent"}, b"new")
        await client.send(wire.Ack(journal_seq=2, call_id=RUN))
        await client.result(RUN, CallResult({"size": 3, "name": "gr\u00c3\u00bcn", "old": True}, b"bytes\x00\xff"))
        assert await call == CallResult({"size": 3, "name": "grün", "old": True}, b"bytes\x00\xff")


async def test_an_error_of_the_computer_is_computer_failed(server: HubServer) -> None:
    """A result that is not ok raises ComputerFailed with code, message as text, data and body."""
    async with server.computer() as client:
        call = server.calling()
        await client.hear("call")
        body = b"output"
        result = wire.Result(
            journal_seq=3,
            call_id=RUN,
            ok=False,
            code="program_error",
            message="gr\u00c3\u00bcn",
            data={"ended": "error"},
            body=wire.whole(body),
        )
        await client.send(result, body)
        error = await failed(call, ComputerFailed)
        assert isinstance(error, ComputerFailed)
        assert (error.reason, error.message, error.data, error.body) == (
            "program_error",
            "grün",
            {"ended": "error"},
            body,
        )


async def test_an_error_without_words_still_says_something(server: HubServer) -> None:
    """A result that is neither ok nor explained is an internal error with a message."""
    async with server.computer() as client:
        call = server.calling()
        await client.hear("call")
        await client.send(wire.Result(journal_seq=3, call_id=RUN, ok=False))
        error = await failed(call, ComputerFailed)
        assert str(error) == "The computer answered internal."


@pytest.mark.parametrize("code", ["below_fence", "busy", "journal_failed"])
async def test_a_refused_call_is_void(server: HubServer, code: str) -> None:
    """`call_refused` means that it never ran and never will: CallVoid, with the reason."""
    async with server.computer() as client:
        call = server.calling()
        await client.hear("call")
        await client.send(wire.CallRefused(journal_seq=3, call_id=RUN, code=code, message="no"))
        error = await failed(call, CallVoid)
        assert isinstance(error, CallVoid)
        assert (error.reason, error.message) == (code, "no")


async def test_a_drop_in_the_middle_is_call_lost(server: HubServer) -> None:
    """When the connection ends before the result, only a settle can tell: CallLost, and the computer is away."""
    async with server.computer() as client:
        call = server.calling()
        await client.hear("call")
        await client.send(wire.Ack(journal_seq=2, call_id=RUN))
        await client.socket.close()
        error = await failed(call, CallLost)
        assert "ended: the computer hung up" in str(error)
    assert not server.online()
    await failed(server.calling(), ComputerAway)
    await failed(server.settling(), ComputerAway)


async def test_an_aborted_connection_is_call_lost_too(server: HubServer) -> None:
    """A connection that dies without a close frame ends its calls as well."""
    async with server.computer() as client:
        call = server.calling()
        await client.hear("call")
        client.socket.transport.abort()
        await failed(call, CallLost)


async def test_a_wait_has_an_end(server: HubServer) -> None:
    """A call that gets no answer within its wait is CallLost; a result that comes later disturbs nothing."""
    async with server.computer() as client:
        call = server.calling(wait_s=0.01)
        await client.hear("call")
        error = await failed(call, CallLost)
        assert str(error).startswith("Computer farm did not answer within")
        await client.result(RUN, CallResult(body=b"late"))
        again = server.calling(RunId("c1.2"))
        await client.hear("call")
        await client.result("c1.2", CallResult(body=b"in time"))
        assert (await again).body == b"in time"


async def test_the_ninth_call_waits_for_room(server: HubServer) -> None:
    """A computer gets at most eight open calls; the ninth is written when one has ended, in turn."""
    async with server.computer() as client:
        calls = [server.calling(RunId(f"c{number}.1")) for number in range(wire.MAX_OPEN_CALLS + 1)]
        heard = [(await client.hear("call"))[0].call_id for _ in range(wire.MAX_OPEN_CALLS)]
        assert heard == [f"c{number}.1" for number in range(8)]
        server.hub.acknowledge(FARM, RunId("marker"), 1)
        await client.hear("result_ack")
        await client.result("c3.1", CallResult())
        ninth, _ = await client.hear("call")
        assert ninth.call_id == "c8.1"
        for number in {*range(9)} - {3}:
            await client.result(f"c{number}.1", CallResult())
        await within(asyncio.gather(*calls))


async def test_a_call_that_waits_for_room_is_not_written_after_the_session(server: HubServer) -> None:
    """When the session ends, a call that had not been written yet was never sent: ComputerAway, not CallLost."""
    async with server.computer() as client:
        calls = [server.calling(RunId(f"c{number}.1")) for number in range(9)]
        for _ in range(8):
            await client.hear("call")
        await client.socket.close()
        for call in calls[:8]:
            await failed(call, CallLost)
        await failed(calls[8], ComputerAway)


async def test_a_call_too_large_for_a_frame_is_never_written(server: HubServer) -> None:
    """A call whose header or body is over the limit raises FrameRefused, and the session goes on."""
    async with server.computer() as client:
        await failed(server.calling(params={"path": "x" * 5000}), FrameRefused)
        await failed(server.calling(body=b"x" * (wire.MAX_BODY_BYTES + 1)), FrameRefused)
        call = server.calling(RunId("c2.1"))
        message, _ = await client.hear("call")
        assert message.call_id == "c2.1"
        await client.result("c2.1", CallResult())
        await call


async def test_a_complaint_about_a_call_ends_its_wait(server: HubServer) -> None:
    """An `error` of the computer that names a call ends its wait as lost; one that names none changes nothing."""
    async with server.computer() as client:
        call = server.calling()
        await client.hear("call")
        await client.send(wire.Complaint(journal_seq=3, code="bad_frame", message="odd"))
        await client.send(wire.Complaint(journal_seq=3, code="bad_frame", message="unreadable", call_id=RUN))
        error = await failed(call, CallLost)
        assert str(error) == "Computer farm: unreadable"


async def test_results_that_nobody_waits_for_are_dropped(server: HubServer) -> None:
    """A result, a refusal or a settled of unknown ids changes nothing, twice the same result neither."""
    async with server.computer() as client:
        call = server.calling()
        await client.hear("call")
        await client.result("nobody", CallResult(body=b"?"))
        await client.send(wire.CallRefused(journal_seq=3, call_id="nobody", code="busy"))
        await client.settled(77)
        await client.result(RUN, CallResult(body=b"first"))
        await client.result(RUN, CallResult(body=b"second"))
        assert (await call).body == b"first"


# -- broken frames -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\n",
        b"{}\n",
        b'{"type":"nonsense"}\n',
        b'{"type":"pong","n":1,"journal_seq":1}',
        b'{"type":"pong","n":1,"journal_seq":1}\nbody that nobody named',
        b'{"type":"pong","n":-1,"journal_seq":1}\n',
        b'{"type":"pong","n":1.5,"journal_seq":1}\n',
        '{"type":"pong","n":1,"journal_seq":1,"x":"ü"}\n'.encode(),
        b'{"type":"welcome","number":1,"computer":"x"}\n',
        b"[" * 4000 + b"\n",
        b"x" * 5000,
        "text, not bytes",
    ],
)
async def test_a_broken_frame_is_answered_and_the_connection_lives(server: HubServer, frame: bytes | str) -> None:
    """Garbage gets an `error` that says how it is broken; the calls of the session go on."""
    async with server.computer() as client:
        call = server.calling()
        await client.hear("call")
        await client.socket.send(frame)
        complaint, _ = await client.hear("error")
        assert complaint.code == "bad_frame"
        assert complaint.message
        await client.result(RUN, CallResult(body=b"x"))
        assert (await call).body == b"x"


async def test_a_frame_that_is_too_large_ends_the_connection(server: HubServer) -> None:
    """A frame over the limit is said to be and the connection is closed with 1008."""
    async with server.computer() as client:
        await client.socket.send(b"x" * (wire.MAX_FRAME_BYTES + 1))
        complaint, _ = await client.hear("error")
        assert complaint.code == "frame_too_large"
        code, reason = await client.closed()
        assert (code, reason[:15]) == (1008, "Too many broken")


async def test_too_many_broken_frames_end_the_connection(server: HubServer) -> None:
    """After sixteen complaints the next broken frame ends the session, and its calls with it."""
    async with server.computer() as client:
        call = server.calling()
        await client.hear("call")
        for _ in range(MAX_COMPLAINTS + 1):
            await client.socket.send(b"garbage")
            await client.hear("error")
        assert (await client.closed())[0] == 1008
        await failed(call, CallLost)
    assert not server.online()


# -- time --------------------------------------------------------------------------------


async def test_a_wait_for_a_program_counts_the_time_of_its_game() -> None:
    """Where the game stands still the wait goes on; what the game has had counts, also where it lags."""
    game = GameClock()
    wait = Wait(FARM, 5.0, game=game)
    assert not game.tell(1000, 0.0)
    wait.began_ms = 1000
    assert not game.tell(1000, PAUSED_AFTER_S - 0.1)
    assert game.tell(1000, PAUSED_AFTER_S)
    assert not game.tell(1000, PAUSED_AFTER_S + 1)
    assert game.paused
    wait.overdue(100.0)
    assert (wait.due, wait.future.done()) == (105.0, False)
    assert not game.tell(4000, 104.0)
    wait.overdue(105.0)
    assert (wait.due, wait.future.done()) == (107.0, False)
    game.tell(6000, 106.0)
    wait.overdue(107.0)
    assert isinstance(wait.future.exception(), CallLost)


async def test_a_wait_ends_by_the_clock_where_no_game_tells_the_time() -> None:
    """An older client names no time of its game."""
    wait = Wait(FARM, 5.0, game=GameClock())
    wait.overdue(100.0)
    assert isinstance(wait.future.exception(), CallLost)


async def test_an_idle_computer_is_pinged_and_a_silent_one_given_up(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pings come one after the other; without an answer the connection ends, and the calls on it."""
    monkeypatch.setattr(wire, "PING_EVERY_S", 0.2)
    monkeypatch.setattr(wire, "SILENCE_S", 1.0)
    async with server.computer() as client:
        for number in (1, 2):
            ping, _ = await client.hear("ping")
            assert ping.n == number
            await client.send(wire.Pong(journal_seq=1, n=ping.n))
        call = server.calling()
        error = await failed(call, CallLost)
        assert "said nothing for 1 s" in str(error)
        assert (await client.closed())[0] == 1008
    assert not server.online()


async def test_who_says_no_hello_is_hung_up_on(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger holds no socket for long."""
    monkeypatch.setattr(wire, "HELLO_WITHIN_S", 0.1)
    async with dialed(server.url) as client:
        assert (await client.closed())[0] == 1008


# -- settle ------------------------------------------------------------------------------


async def test_settle_hears_the_result_that_was_missed(server: HubServer) -> None:
    """A finished run whose result is sent again before `settled` is finished, with its very result."""
    async with server.computer() as client:
        settling = server.settling()
        message, _ = await client.hear("settle")
        assert (message.number, message.call_ids) == (20, (RUN,))
        await client.result(RUN, CallResult({"size": 1}, b"x"))
        await client.settled(20, SettledCall(call_id=RUN, state="finished", ok=True))
        settled = (await settling)[RUN]
        assert (settled.call.state, settled.call.ok) == ("finished", True)
        assert settled.result == CallResult({"size": 1}, b"x")


async def test_settle_of_a_failed_run_has_its_error(server: HubServer) -> None:
    """A run that failed is finished and not ok, with the error as it was."""
    async with server.computer() as client:
        settling = server.settling()
        await client.hear("settle")
        await client.result(RUN, ComputerFailed("stale", "changed", {"actual": "absent"}))
        await client.settled(20, SettledCall(call_id=RUN, state="finished", ok=False, code="stale"))
        settled = (await settling)[RUN]
        assert settled.call.ok is False
        assert isinstance(settled.result, ComputerFailed)
        assert (settled.result.reason, settled.result.data) == ("stale", {"actual": "absent"})


@pytest.mark.parametrize("state", ["void", "interrupted", "unknown", "finished"])
async def test_settle_takes_the_journals_word(server: HubServer, state: Any) -> None:
    """Void, interrupted, unknown, and finished without a body are answered at once, without a result."""
    async with server.computer() as client:
        settling = server.settling()
        await client.hear("settle")
        await client.settled(20, SettledCall(call_id=RUN, state=state))
        settled = (await settling)[RUN]
        assert (settled.call.state, settled.result) == (state, None)


async def test_settle_waits_for_what_still_runs(server: HubServer) -> None:
    """A running call is waited for: its result, when it comes, is the settlement."""
    async with server.computer() as client:
        settling = server.settling()
        await client.hear("settle")
        await client.settled(20, SettledCall(call_id=RUN, state="running"))
        await client.result(RUN, CallResult(body=b"at last"))
        settled = (await settling)[RUN]
        assert (settled.call.state, settled.call.ok) == ("finished", True)
        assert settled.result == CallResult(body=b"at last")


async def test_settle_tells_what_a_program_writes_and_that_its_game_is_paused(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the call did for which nobody waits any more."""
    monkeypatch.setattr(wire, "RUN_PING_EVERY_S", 0.25)
    monkeypatch.setattr(socket, "PAUSED_AFTER_S", 0.0)
    parts: list[tuple[int, bytes]] = []
    async with server.computer(capabilities=(wire.CLOCK,)) as client:
        told = {RUN: lambda *part: parts.append(part)}
        settling = asyncio.create_task(server.hub.settle(FARM, run_ids=(RUN,), number=20, on_output=told))
        await client.hear("settle")
        await client.settled(20, SettledCall(call_id=RUN, state="running"))
        wrote = wire.Body(offset=7, total=9, sha256=wire.sha256_hex(b"hi"))
        await client.send(wire.Output(journal_seq=3, call_id=RUN, body=wrote), b"hi")
        for _ in range(2):
            ping, _ = await client.hear("ping")
            await client.send(wire.Pong(journal_seq=3, n=ping.n, clock_ms=50))
        await client.result(RUN, CallResult(body=b"at last"))
        assert (await within(settling))[RUN].result == CallResult(body=b"at last")
    assert parts == [(7, b"hi"), (9, b"")]


async def test_fuel_and_place_are_known_as_they_were_told_last(server: HubServer) -> None:
    """The place with the time at which the computer knew it."""
    async with server.computer(capabilities=(wire.WHERE,)) as client:
        info = server.hub.info(FARM)
        assert info is not None
        assert (info.fuel, info.place, info.placed_at) == (None, None, None)
        await client.send(wire.Pong(journal_seq=3, n=1, fuel=740, fuel_limit=20_000, at=(12, 64, -30), at_age_s=3600))
        await client.socket.send(b"no frame")
        await client.hear("error")
        info = server.hub.info(FARM)
        assert info is not None
        assert (info.fuel, info.fuel_limit, info.place) == (740, 20_000, (12, 64, -30))
        assert info.placed_at is not None
        assert info.placed_at < datetime.now(UTC) - timedelta(seconds=3599)


async def test_settle_of_several_runs_answers_each(server: HubServer) -> None:
    """One settle asks for all ids in one frame and answers each by its own state."""
    ids = [RunId(f"c{number}.1") for number in range(3)]
    async with server.computer() as client:
        settling = server.settling(*ids)
        message, _ = await client.hear("settle")
        assert message.call_ids == tuple(ids)
        await client.result(ids[2], CallResult(body=b"two"))
        states = [("c2.1", "finished"), ("c0.1", "void"), ("c1.1", "interrupted")]
        answers = [SettledCall.model_validate({"call_id": one, "state": state}) for one, state in states]
        await client.settled(20, *answers)
        settled = await settling
        assert [settled[one].call.state for one in ids] == ["void", "interrupted", "finished"]
        assert settled[ids[2]].result == CallResult(body=b"two")


async def test_an_id_that_settle_leaves_out_is_not_settled(server: HubServer) -> None:
    """A computer that does not answer for an id has settled nothing: CallLost, ask again."""
    async with server.computer() as client:
        settling = server.settling(RunId("c1.1"), RunId("c2.1"))
        await client.hear("settle")
        await client.settled(20, SettledCall(call_id="c1.1", state="void"))
        error = await failed(settling, CallLost)
        assert "did not say what became of c2.1" in str(error)


async def test_an_answer_to_another_settle_is_not_taken(server: HubServer) -> None:
    """`settled` is matched by its number: one of an older settle answers nothing."""
    async with server.computer() as client:
        settling = server.settling(number=21)
        await client.hear("settle")
        await client.settled(20, SettledCall(call_id=RUN, state="void"))
        await client.settled(21, SettledCall(call_id=RUN, state="interrupted"))
        assert (await settling)[RUN].call.state == "interrupted"


@pytest.mark.parametrize("after_settled", [False, True])
async def test_a_drop_while_settling_is_call_lost(server: HubServer, after_settled: bool) -> None:
    """When the session ends before everything is known, nothing is settled."""
    async with server.computer() as client:
        settling = server.settling()
        await client.hear("settle")
        if after_settled:
            await client.settled(20, SettledCall(call_id=RUN, state="running"))
        await client.socket.close()
        await failed(settling, CallLost)


async def test_an_unreadable_settled_is_answered_with_an_error(server: HubServer) -> None:
    """A `settled` whose body is no list of calls is complained about, and a good one still counts."""
    async with server.computer() as client:
        settling = server.settling()
        await client.hear("settle")
        bad = b'[{"call_id": "c1.1", "state": "perhaps"}]'
        await client.send(wire.Settled(journal_seq=4, number=20, body=wire.whole(bad)), bad)
        complaint, _ = await client.hear("error")
        assert complaint.code == "bad_frame"
        await client.settled(20, SettledCall(call_id=RUN, state="void"))
        assert (await settling)[RUN].call.state == "void"


# -- bodies in parts ---------------------------------------------------------------------

PART = wire.MAX_BODY_BYTES
LARGE = bytes(range(256)) * (PART // 256) * 11 + b"tail"


async def frames(client: StubClient, count: int, run_id: str = RUN) -> bytes:
    """The bodies of the next frames, which all have to be of one call in parts."""
    parts = []
    for _ in range(count):
        message, body = await client.hear()
        assert (message.type, message.call_id) in {("call", run_id), ("chunk", run_id)}
        parts.append(body)
    return b"".join(parts)


async def took(client: StubClient, run_id: str = RUN, count: int = 1) -> None:
    """Acknowledge frames of a call in parts."""
    for _ in range(count):
        await client.send(wire.ChunkAck(journal_seq=2, call_id=run_id, offset=1))


async def answered_in_parts(client: StubClient, body: bytes, **changes: Any) -> None:
    """Send a result in parts, without a look at what comes back."""
    described = wire.whole(body).model_copy(update=changes)
    await client.send(wire.Result(journal_seq=3, call_id=RUN, ok=True, body=described), body[:PART])
    for offset in range(PART, len(body), PART):
        part = described.model_copy(update={"offset": offset})
        await client.send(wire.Chunk(journal_seq=3, call_id=RUN, body=part), body[offset : offset + PART])


async def test_a_large_call_goes_on_when_the_window_opens_and_its_time_counts_from_the_last_frame(
    server: HubServer,
) -> None:
    """Eight frames, then one for each acknowledgement; a small call overtakes; the wait begins with the last frame."""
    async with server.computer(capabilities=("chunks",)) as client:
        large = server.calling(method="fs_write", body=LARGE, wait_s=1.0)
        got = await frames(client, wire.WINDOW_FRAMES)
        small = server.calling(RunId("c2.1"), wait_s=1.1)
        message, _ = await client.hear("call")
        assert message.call_id == "c2.1"
        await failed(small, CallLost)
        assert not large.done()
        await took(client, count=4)
        got += await frames(client, 4)
        assert got == LARGE
        await client.result(RUN, CallResult({"size": len(LARGE)}))
        assert (await large).data == {"size": len(LARGE)}


async def test_a_transfer_without_progress_is_lost_and_the_next_call_goes_on(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A computer that acknowledges nothing holds no call up for ever; what is left of the body is not sent."""
    monkeypatch.setattr(hub_session, "STALL_S", 0.05)
    async with server.computer(capabilities=("chunks",)) as client:
        large = server.calling(method="fs_write", body=LARGE)
        await frames(client, wire.WINDOW_FRAMES)
        assert "took no part of the call" in str(await failed(large, CallLost))
        await took(client, count=wire.WINDOW_FRAMES)
        call = server.calling(RunId("c2.1"))
        message, _ = await client.hear("call")
        assert message.call_id == "c2.1"
        await client.result("c2.1", CallResult())
        await call


async def test_of_a_call_that_nobody_waits_for_no_more_is_sent(server: HubServer) -> None:
    """Canceled in the middle of its transfer: the next call in parts uses the window as it is freed."""
    async with server.computer(capabilities=("chunks",)) as client:
        large = server.calling(method="fs_write", body=LARGE)
        await frames(client, wire.WINDOW_FRAMES)
        large.cancel()
        await asyncio.wait([large])
        second = server.calling(RunId("c2.1"), method="fs_write", body=LARGE)
        await took(client, count=wire.WINDOW_FRAMES)
        got = await frames(client, wire.WINDOW_FRAMES, "c2.1")
        await took(client, "c2.1", 4)
        got += await frames(client, 4, "c2.1")
        assert got == LARGE
        await client.result("c2.1", CallResult())
        await second


async def test_a_large_answer_is_put_together(server: HubServer) -> None:
    """Each frame of it is acknowledged, and the call answers with all of it."""
    async with server.computer(capabilities=("chunks",)) as client:
        call = server.calling()
        await client.hear("call")
        await answered_in_parts(client, LARGE)
        assert (await call).body == LARGE
        offsets = [(await client.hear("chunk_ack"))[0].offset for _ in range(12)]
        assert offsets == [*range(PART, len(LARGE), PART), len(LARGE)]


async def test_a_large_answer_that_is_broken_is_call_lost(server: HubServer) -> None:
    """Its wait ends, so that a settle asks again, and the computer hears which call it was."""
    async with server.computer(capabilities=("chunks",)) as client:
        call = server.calling()
        await client.hear("call")
        await answered_in_parts(client, LARGE[: PART + 1], sha256="0" * 64)
        error = await failed(call, CallLost)
        assert "does not have the sha256" in str(error)
        heard = [(await client.hear())[0] for _ in range(3)]
        assert [(one.type, one.call_id) for one in heard] == [("chunk_ack", RUN), ("chunk_ack", RUN), ("error", RUN)]


async def test_settle_waits_for_an_answer_that_has_half_come(server: HubServer) -> None:
    """`settled` overtakes the parts of a result; what has begun to come is waited for."""
    async with server.computer(capabilities=("chunks",)) as client:
        settling = server.settling()
        await client.hear("settle")
        body = LARGE[: PART + 1]
        described = wire.whole(body)
        await client.send(wire.Result(journal_seq=3, call_id=RUN, ok=True, body=described), body[:PART])
        await client.settled(20, SettledCall(call_id=RUN, state="finished", ok=True))
        part = described.model_copy(update={"offset": PART})
        await client.send(wire.Chunk(journal_seq=3, call_id=RUN, body=part), body[PART:])
        assert (await settling)[RUN].result == CallResult(body=body)


# -- output ------------------------------------------------------------------------------


async def wrote(client: StubClient, offset: int, data: bytes, run_id: str = RUN) -> None:
    """What a program wrote."""
    body = wire.Body(offset=offset, total=offset + len(data), sha256=wire.sha256_hex(data))
    await client.send(wire.Output(journal_seq=3, call_id=run_id, body=body), data)


async def test_output_is_told_as_it_comes(server: HubServer) -> None:
    """Where each part begins and its bytes; that of a run that nobody waits for changes nothing."""
    parts: list[tuple[int, bytes]] = []
    async with server.computer() as client:
        call = server.calling(on_output=lambda offset, data: parts.append((offset, data)))
        await client.hear("call")
        await wrote(client, 0, b"one\n")
        await wrote(client, 5, b"x", "nobody")
        await wrote(client, 9, b"two\n")
        await client.result(RUN, CallResult(body=b"all"))
        assert (await call).body == b"all"
    assert parts == [(0, b"one\n"), (9, b"two\n")]


@pytest.mark.parametrize("how", ["raises", "dawdles"])
async def test_a_bad_listener_hears_no_more_and_hurts_nobody(
    server: HubServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """A listener that raises, or holds up the hub, is told nothing more; the call ends as ever."""
    monkeypatch.setattr(socket, "SLOW_HINT_S", 0.01)
    heard = []

    def listen(offset: int, data: bytes) -> None:
        heard.append((offset, data))
        if how == "raises":
            raise ValueError("the screen broke")
        time.sleep(0.05)

    async with server.computer() as client:
        call = server.calling(on_output=listen)
        await client.hear("call")
        with caplog.at_level(logging.WARNING):
            await wrote(client, 0, b"one")
            await wrote(client, 3, b"two")
            await client.result(RUN, CallResult(body=b"all"))
            assert (await call).body == b"all"
    assert heard == [(0, b"one")]
    assert "hears no more" in caplog.text


# -- acknowledging and closing -----------------------------------------------------------


async def test_acknowledgements_are_written_in_order(server: HubServer) -> None:
    """`result_ack` carries the id and the number allotted with it; for a computer that is away it is dropped."""
    server.hub.acknowledge(FARM, RUN, 1)
    async with server.computer() as client:
        for number in (5, 6, 7):
            server.hub.acknowledge(FARM, RunId(f"c{number}.1"), number)
        heard = [(await client.hear("result_ack"))[0] for _ in range(3)]
        assert [(one.call_id, one.number) for one in heard] == [("c5.1", 5), ("c6.1", 6), ("c7.1", 7)]


async def test_closing_the_hub_ends_every_session(server: HubServer) -> None:
    """A clean stop closes the sockets with 1001 and ends what waits."""
    async with server.computer() as client:
        call = server.calling()
        await client.hear("call")
        await server.hub.close()
        assert await client.closed() == (1001, "the orchestrator stops")
        await failed(call, CallLost)
        await failed(server.calling(), ComputerAway)


async def test_what_a_computer_named_last_is_kept_when_it_has_gone(server: HubServer) -> None:
    """The highest `journal_seq` of a session is known while it lasts, told to the journal at its end, and once."""
    for named, told in ((6, 6), (9, 9), (4, 9)):
        server.journal.told.clear()
        async with dialed(server.url) as client:
            await client.greet(journal_seq=50)
            await client.send(wire.Pong(journal_seq=named, n=1))
            await client.socket.send(b"no frame")
            await client.hear("error")
            assert server.hub.heard(FARM).journal_seq == told
        await _gone(server)
        assert server.journal.told == ({} if named == 4 else {FARM: told})
    await server.hub.close()


async def test_what_was_heard_goes_with_a_hello_and_is_forgotten_by_one_that_begins_anew(server: HubServer) -> None:
    """The journal is asked with what this node has heard; after a release it counts no more."""
    async with server.computer() as client:
        await client.send(wire.Pong(journal_seq=7, n=1))
    await _gone(server)
    server.journal.fresh = True
    async with server.computer():
        assert server.journal.last_heard == Heard(7, "boot-1")
        assert server.hub.heard(FARM).journal_seq == 0
    server.journal.fresh = False
    await _gone(server)
    async with server.computer():
        assert server.journal.last_heard.journal_seq == 0


async def test_a_frozen_computer_is_refused_with_a_remedy_and_remembered(server: HubServer) -> None:
    """It hears why and what to do, is not online, its calls wait, and the refusal can be looked up."""
    server.journal.frozen = ComputerFrozen(computer=FARM, reason="disk_restored")
    async with dialed(server.url) as client:
        await client.send(hello())
        refused, _ = await client.hear("refused")
        assert refused.code == "frozen"
        assert "its disk was put back" in refused.message
        assert "cc-orchestrator computers release farm" in refused.remedy
        await client.closed()
    assert not server.online()
    await failed(server.calling(), ComputerAway)
    (kept,) = server.hub.refusals.last()
    assert (kept.code, kept.computer, kept.path, kept.message) == ("frozen", "farm", "/computer", refused.message)


async def test_a_computer_that_came_to_another_node_is_let_go_before_that_is_answered(server: HubServer) -> None:
    """Its call is lost by then, and what was heard of it goes along; one that came here later stays."""
    async with server.computer() as client:
        known = server.hub.known.hello(FARM)
        call = server.calling()
        await client.hear("call")
        await client.send(wire.Result(journal_seq=7, call_id=RUN, ok=True))
        await within(call)
        call = server.calling(RunId("call-8"))
        await client.hear("call")
        older = Rival(FARM, known.computer_id, known.boot, age_s=3600.0)
        assert await server.hub.yield_to(older) == Yielded(newer=True)
        assert server.online()
        yielded = await server.hub.yield_to(Rival(FARM, known.computer_id, known.boot, age_s=0.0))
        assert not server.online()
        assert (yielded.newer, yielded.lives, yielded.heard.journal_seq) == (False, False, 7)
        await failed(call, CallLost)
        await client.closed()


async def test_two_computers_that_live_with_one_identity_are_both_turned_away(server: HubServer) -> None:
    """Another boot comes while the first answers: both hear `frozen`, and what waited on the first is lost."""
    async with server.computer() as first, dialed(server.url) as second:
        call = server.calling()
        await first.hear("call")
        await second.send(hello(boot="boot-2"))
        ping, _ = await first.hear("ping")
        await first.send(wire.Pong(journal_seq=2, n=ping.n))
        for one in (first, second):
            refused, _ = await one.hear("refused")
            assert refused.code == "frozen"
            assert "two computers live" in refused.message
            assert (await one.closed())[0] == 1008
        await failed(call, CallLost)
        assert [one.hello.boot for one in server.journal.visitors] == ["boot-1", "boot-2"]
    assert not server.online()


async def test_a_reboot_whose_old_connection_still_hangs_is_welcome_after_a_moment(server: HubServer) -> None:
    """The old connection does not answer, whatever else still comes from it, and the new one replaces it."""
    async with server.computer() as old, dialed(server.url) as new:
        await new.send(hello(boot="boot-2"))
        ping, _ = await old.hear("ping")
        await old.send(wire.Pong(journal_seq=2, n=ping.n + 7))
        await old.send(wire.Ack(journal_seq=2, call_id="c9.9"))
        await new.hear("welcome")
        assert await old.closed() == (1008, "replaced by a newer connection")
        assert server.online()
    assert server.journal.frozen is None


async def test_an_old_connection_that_ends_while_it_is_asked_is_replaced_at_once(server: HubServer) -> None:
    """The end of the old connection is an answer too."""
    async with server.computer() as old, dialed(server.url) as new:
        await new.send(hello(boot="boot-2"))
        await old.hear("ping")
        await old.socket.close()
        await new.hear("welcome")
    assert server.journal.frozen is None


async def test_the_same_boot_and_another_id_are_not_asked_about(server: HubServer) -> None:
    """A reconnect replaces at once; of another id the journal is asked, which knows more."""
    async with server.computer() as old:
        for changes in ({}, {"computer_id": 9, "boot": "boot-9"}):
            async with dialed(server.url) as new:
                await new.greet(**changes)
                await new.send(wire.Pong(journal_seq=1, n=0))
        assert (await old.closed())[0] == 1008
    assert server.journal.frozen is None


async def _gone(server: HubServer) -> None:
    """Until the hub has noted that nobody is connected, and the journal was told."""
    async with asyncio.timeout(HANG_S):
        while server.online() or server.hub.known.keeping:  # noqa: ASYNC110 - nobody tells that somebody has gone
            await asyncio.sleep(0.005)


async def test_where_the_journal_is_away_a_computer_is_turned_away_and_let_in_when_it_is_back(
    server: HubServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Before its welcome or after it; in one line of the log however often it dials, and without a traceback."""
    away = StoreAway("The database cannot be reached.", remedy="Wait a moment.")
    server.journal.failure = away
    for _ in range(2):
        async with dialed(server.url) as client:
            await client.send(hello())
            refused, _ = await client.hear("refused")
            assert (refused.code, refused.message) == ("store_away", "The database cannot be reached.")
            assert (await client.closed())[0] == 1008
    server.journal.failure, server.journal.fails_late = None, away
    async with dialed(server.url) as client:
        await client.greet()
        await client.hear("refused")
        await client.closed()
        assert not server.hub.here(FARM)
    server.journal.fails_late = None
    async with server.computer():
        assert server.hub.here(FARM)
    told = [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]
    assert [record.getMessage() for record in told] == [f"no computer can be greeted now: {away}"]
    assert told[0].exc_info is None
