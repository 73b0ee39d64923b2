"""Computers and models that break the rules: a clear error each, and everybody else lives."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from orchestrator.core.task import facts
from orchestrator.core.wire import wire
from tests.story.harness import (
    Computer,
    Server,
    check_laws,
    computer,
    dial_computer,
    ended,
    facts_of,
    final,
    play,
    tool,
    tools,
)
from tests.waiting import HANG_S


@dataclass
class Puppet:
    """A computer that is played by hand: it has a valid token and no manners."""

    name: str
    socket: ClientConnection

    async def say(self, message: Any, body: bytes = b"") -> None:
        await self.socket.send(wire.encode(message, body))

    async def hear(self, kind: str) -> Any:
        """The next message of a kind."""
        async with asyncio.timeout(HANG_S):
            while True:
                data = await self.socket.recv()
                assert isinstance(data, bytes)
                message, _ = wire.decode_any(data)
                if message.type == kind:
                    return message

    async def hello(self, **more: Any) -> None:
        await self.say(_hello(**more))
        await self.hear("welcome")


def _hello(**more: Any) -> wire.Hello:
    known: dict[str, Any] = {
        "protocol": 1,
        "computer_id": 66,
        "host": "ComputerCraft 1.113.1 (Minecraft 1.20.1)",
        "family": "computer",
        "boot": "b",
        "client": "puppet",
        "highest": 0,
        "journal_seq": 1,
    }
    return wire.Hello(**(known | more))


@contextlib.asynccontextmanager
async def _puppet(server: Server) -> AsyncIterator[Puppet]:
    name = server.new_name()
    async with dial_computer(server.url, await server.computer_token(name)) as socket:
        yield Puppet(name, socket)


@contextlib.asynccontextmanager
async def _bystander(server: Server, tmp: Path) -> AsyncIterator[Computer]:
    """Another computer, which must still work when the hostile one has done its worst."""
    async with computer(server, tmp) as pc:
        pc.boot()
        yield pc
        api = server.api()
        write = tool("cc_write", path="alive.lua", content="print('alive')")
        items = await play(api, await api.submit(write, final(), computers=(pc.name,)))
        check_laws(items)
        assert pc.read("alive.lua") == b"print('alive')"


RESULT = wire.Result(journal_seq=1, call_id="nobody.1", ok=True, data={})
BROKEN: dict[str, bytes | str] = {
    "empty": b"",
    "garbage": bytes(range(256)),
    "no-newline": b'{"type":"pong","journal_seq":1,"n":1}',
    "not-json": b"{{{\n",
    "not-an-object": b"[]\n",
    "unknown-type": b'{"type":"obey"}\n',
    "a-message-of-the-server": wire.encode(wire.Ping(n=1)),
    "extra-field": b'{"type":"pong","journal_seq":1,"n":1,"x":1}\n',
    "wrong-type": b'{"type":"pong","journal_seq":"1","n":1}\n',
    "not-ascii": '{"type":"error","code":"é","message":""}\n'.encode(),
    "body-nobody-named": b'{"type":"pong","journal_seq":1,"n":1}\nmore',
    "body-that-lies": wire.encode(
        wire.Result(journal_seq=1, call_id="c.1", ok=True, data={}, body=wire.whole(b"true")), b"true"
    ).replace(b"\ntrue", b"\nlies"),
    "header-too-long": b'{"type":"error","code":"' + b"x" * 5000 + b'","message":""}\n',
    "deep": b"[" * 4000 + b"\n",
    "text": wire.encode(wire.Pong(journal_seq=1, n=1)).decode(),
}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("greeted", [False, True], ids=["before-hello", "after-hello"])
async def test_broken_frames_are_answered_and_the_connection_goes_on(
    server: Server, tmp_path: Path, *, greeted: bool
) -> None:
    """Each of fifteen kinds of broken frame gets an ``error`` that says what is wrong; the connection still works."""
    assert len(BROKEN) < 16
    async with _bystander(server, tmp_path), _puppet(server) as puppet:
        if greeted:
            await puppet.hello()
        for name, frame in BROKEN.items():
            await puppet.socket.send(frame)
            error = await puppet.hear("error")
            assert error.code == "bad_frame", name
            assert error.message, name
        if not greeted:
            await puppet.hello()
        assert (await server.api().ok("GET", "/v1/computers"))["computers"]


async def test_too_many_broken_frames_end_that_connection_only(server: Server, tmp_path: Path) -> None:
    """The seventeenth broken frame closes the connection with 1008."""
    async with _bystander(server, tmp_path), _puppet(server) as puppet:
        await puppet.hello()
        for _ in range(17):
            await puppet.socket.send(b"garbage")
            assert (await puppet.hear("error")).code == "bad_frame"
        with pytest.raises(ConnectionClosed):
            await puppet.hear("nothing")
        assert puppet.socket.close_code == 1008


@pytest.mark.thinned(3)
@pytest.mark.parametrize("size", [60_000, 200_000, 3_000_000])
async def test_an_oversized_frame_ends_that_connection_only(server: Server, tmp_path: Path, size: int) -> None:
    """A frame over the limit closes the connection that sent it; one a little too large is told why first."""
    async with _bystander(server, tmp_path), _puppet(server) as puppet:
        await puppet.hello()
        with contextlib.suppress(ConnectionClosed):
            await puppet.socket.send(b"x" * size)
        if size < 100_000:
            assert (await puppet.hear("error")).code == "frame_too_large"
        with pytest.raises(ConnectionClosed):
            await puppet.hear("nothing")
        assert puppet.socket.close_code in (1008, 1009)


async def test_messages_out_of_order_are_answered_with_an_error(server: Server, tmp_path: Path) -> None:
    """A result before hello, and a second hello, are out of order; both sides go on."""
    async with _bystander(server, tmp_path), _puppet(server) as puppet:
        for early in (RESULT, wire.Ack(journal_seq=1, call_id="c.1"), wire.Pong(journal_seq=1, n=1)):
            await puppet.say(early)
            assert (await puppet.hear("error")).code == "out_of_order"
        await puppet.hello()
        await puppet.say(_hello())
        assert (await puppet.hear("error")).code == "out_of_order"


async def test_outcomes_of_calls_that_nobody_made_mean_nothing(server: Server, tmp_path: Path) -> None:
    """A result, a refusal or a settled list for unknown ids changes nothing and hurts nobody."""
    body = json.dumps([{"call_id": "nobody.1", "state": "finished", "ok": True}]).encode()
    async with _bystander(server, tmp_path), _puppet(server) as puppet:
        await puppet.hello(calls=("nobody.1", "nobody.2"))
        assert {(await puppet.hear("result_ack")).call_id for _ in range(2)} == {"nobody.1", "nobody.2"}
        await puppet.say(RESULT)
        await puppet.say(wire.CallRefused(journal_seq=1, call_id="nobody.1", code="busy"))
        await puppet.say(wire.Settled(journal_seq=1, number=1, body=wire.whole(body)), body)
        await puppet.socket.send(b"still there?")
        assert (await puppet.hear("error")).code == "bad_frame"


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    "body", [b"not json", b"[]", b'[{"call_id":"other.1","state":"void"}]', b'[{"call_id":"x","state":"perhaps"}]']
)
async def test_a_settled_body_that_lies_settles_nothing(server: Server, tmp_path: Path, body: bytes) -> None:
    """A settle is believed only when it names each run that was asked for; else it is asked again."""
    api = server.api()
    async with _bystander(server, tmp_path):
        token = await server.computer_token(name := server.new_name())
        task_id = await api.submit(tool("cc_read", path="a"), final(), computers=(name,))
        async with dial_computer(server.url, token) as socket:
            puppet = Puppet(name, socket)
            await puppet.hello()
            first = await puppet.hear("call")
            run_id = first.call_id
        async with dial_computer(server.url, token) as socket:
            puppet = Puppet(name, socket)
            await puppet.hello(calls=(run_id,), highest=first.number)
            settle = await puppet.hear("settle")
            assert settle.call_ids == (run_id,)
            await puppet.say(wire.Settled(journal_seq=1, number=settle.number, body=wire.whole(body)), body)
            if body[:1] != b"[" or b"perhaps" in body:
                await puppet.hear("error")
            else:
                again = await puppet.hear("settle")
                assert again.number > settle.number
                settle = again
            honest = json.dumps([{"call_id": run_id, "state": "void"}]).encode()
            await puppet.say(wire.Settled(journal_seq=1, number=settle.number, body=wire.whole(honest)), honest)
            call = await puppet.hear("call")
            assert call.call_id != run_id
            text = b"the file"
            result = wire.Result(journal_seq=1, call_id=call.call_id, ok=True, data={"size": 8}, body=wire.whole(text))
            await puppet.say(result, text)
            items = await api.journal(task_id)
            check_laws(items)
            assert [one.state for one in facts_of(items, facts.ToolSettled)] == ["void"]


async def test_a_computer_that_never_answers_costs_only_its_own_task(server: Server, tmp_path: Path) -> None:
    """A task on a silent computer waits; canceling it works, and the bystander never noticed."""
    api = server.api()
    async with _bystander(server, tmp_path), _puppet(server) as puppet:
        await puppet.hello()
        task_id = await api.submit(tool("cc_read", path="a"), final(), computers=(puppet.name,))
        await puppet.hear("call")
        assert (await api.ok("POST", f"/v1/tasks/{task_id}/cancel", {}))["status"] == "Canceled"


async def test_an_old_mod_and_another_protocol_are_refused_with_a_remedy(server: Server) -> None:
    """Who cannot be served is told what to do."""
    for more, code in (
        ({"host": "ComputerCraft 1.89.2 (Minecraft 1.12.2)"}, "mod_too_old"),
        ({"protocol": 2}, "protocol_too_new"),
        ({"protocol": 0}, "protocol_too_old"),
    ):
        async with _puppet(server) as puppet:
            await puppet.say(_hello(**more))
            refused = await puppet.hear("refused")
            assert refused.code == code
            assert refused.remedy


@pytest.mark.deep
async def test_a_token_that_was_revoked_is_refused_at_the_handshake(server: Server) -> None:
    """401 with the JSON error of all endpoints, for no token, a person's token and a revoked one."""
    name = server.new_name()
    revoked = await server.computer_token(name)
    await server.api().ok("DELETE", f"/v1/tokens/computer/{name}")
    for token in (None, "nonsense", server.api().token, revoked):
        with pytest.raises(InvalidStatus) as refused:
            async with dial_computer(server.url, token):
                pass
        assert refused.value.response.status_code == 401
        error = json.loads(refused.value.response.body or b"")["error"]
        assert error["code"] == "unauthenticated"
        assert error["message"]


# -- models ------------------------------------------------------------------------------


async def _ended(server: Server, pc: Computer, *script: Any) -> tuple[facts.TaskEnded, list[Any]]:
    api = server.api()
    items = await play(api, await api.submit(*script, computers=(pc.name,)))
    check_laws(items)
    return ended(items), items


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    "reply",
    [
        tool("cc_write", path="f"),
        tool("cc_write", path=1, content="x"),
        tool("cc_read", path="f", force=True),
        tool("cc_read", path="f", computer="of-somebody-else"),
        tools(*[tool("cc_read", path=f"f{number}") for number in range(5)]),
        "I will write the file now.",
        '{"kind": "tool", "tool_call": {"tool": "cc_read", "args": {"path": "f"}}',
        '{"kind": "final", "message": "no success"}',
        '{"kind": "final", "success": true, "success": false, "message": "twice"}',
        "[" * 100,
        "",
    ],
    ids=lambda reply: (reply if isinstance(reply, str) else json.dumps(reply))[:40] or "empty",
)
async def test_a_reply_without_a_single_reading_is_refused_and_told_why(
    server: Server, tmp_path: Path, reply: Any
) -> None:
    """Wrong arguments, foreign computers and broken JSON touch nothing; the third in a row ends it."""
    async with computer(server, tmp_path) as pc:
        end, items = await _ended(server, pc, reply, reply, reply)
        assert (end.status, end.status_reason) == ("Failed", "model_output")
        refused = facts_of(items, facts.ReplyRefused)
        assert len(refused) == 3
        assert all(one.reason for one in refused)
        assert not facts_of(items, facts.CallsProposed)
        end, items = await _ended(server, pc, reply, reply, final())
        assert end.status == "Completed", "two slips are forgiven"


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    "call",
    [
        tool("cc_format_disk", path="/"),
        tool("cc_write", path="/rom/programs/ls.lua", content="x"),
        tool("cc_write", path="ROM/x", content="x"),
        tool("cc_delete", path="rom/"),
        tool("cc_read", path=".cc-orchestrator/connection"),
        tool("cc_read", path="a/../.cc-orchestrator/connection"),
        tool("cc_read", path="\\.cc-orchestrator\\connection"),
        tool("cc_write", path=".CC-orchestrator/journal.a", content="x"),
    ],
    ids=lambda call: f"{call['tool_call']['tool']}-{call['tool_call']['args']['path']}".replace("/", "|"),
)
async def test_what_the_policy_denies_reaches_no_person_and_no_computer(
    server: Server, tmp_path: Path, call: Any
) -> None:
    """A denied call is never asked and never sent; the model is told that it was denied by policy."""
    async with computer(server, tmp_path) as pc:
        async with asyncio.timeout(HANG_S):
            end, items = await _ended(server, pc, call, final())
        assert end.status == "Completed"
        (proposed,) = facts_of(items, facts.CallsProposed)
        assert proposed.evaluations[0].effect == "deny"
        assert not facts_of(items, facts.ReviewRequested)
        assert not facts_of(items, facts.ToolStarted)


@pytest.mark.deep
async def test_the_step_limit_ends_a_model_that_never_ends(server: Server) -> None:
    """A task has as many steps as it was given, and then failed."""
    api = server.api()
    items = await api.journal(await api.submit(*[tool("send_status", message=str(n)) for n in range(9)], max_steps=3))
    assert (ended(items).status, ended(items).status_reason) == ("Failed", "max_steps")
    assert len(facts_of(items, facts.ModelReplied)) == 3


@pytest.mark.deep
async def test_one_bad_call_does_not_lose_its_siblings(server: Server, tmp_path: Path) -> None:
    """Of four calls in one reply each has its own result: denied, failed, read and written."""
    async with computer(server, tmp_path) as pc:
        pc.write("here.txt", b"here\n")
        pc.boot()
        end, items = await _ended(
            server,
            pc,
            tools(
                tool("cc_delete", path="rom/x"),
                tool("cc_read", path="nowhere"),
                tool("cc_read", path="here.txt"),
                tool("cc_write", path="f", content="x"),
            ),
            final(),
        )
        assert end.status == "Completed"
        finished = facts_of(items, facts.ToolFinished)
        assert sorted((one.ok, one.text.split(".")[0]) for one in finished) == [
            (False, "There is no nowhere on the computer"),
            (True, "1| here"),
            (True, "Wrote 1 bytes to f"),
        ]


async def test_a_program_of_a_task_types_no_command(server: Server, tmp_path: Path) -> None:
    """An approved program cannot begin or answer tasks as the person who paired the computer: only a player can."""
    api = server.api()
    async with computer(server, tmp_path) as one:
        one.write("p.lua", b"os.queueEvent('cc_orchestrator_ask', 'n1', 'ask', 'dig')\n")
        one.boot()
        task_id = await api.submit(tool("cc_run_program", path="p.lua"), final(success=False), computers=(one.name,))
        items = await play(api, task_id)
        (ran,) = facts_of(items, facts.ToolFinished)
        assert "only a player can" in ran.text
        here = [row for row in (await api.ok("GET", "/v1/tasks"))["tasks"] if one.name in row["computers"]]
        assert [row["task_id"] for row in here] == [task_id]
