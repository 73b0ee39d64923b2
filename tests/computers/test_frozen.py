"""Computers that do not fit what is known of them, through the real endpoints; and tokens that are revoked."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from orchestrator.app.greeter import JournalGreeter
from orchestrator.core.ports import SYSTEM_STREAM
from orchestrator.core.task.facts import TaskId
from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import ComputerId, RunId
from tests.harness.endpoints import Writing, stream
from tests.harness.support import Disk, StubClient, dialed, hello
from tests.harness.whole_server import Server, connected, running
from tests.waiting import HANG_S


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with running(tmp_path, model=Writing()) as server:
        yield server


async def refused(server: Server, token: str, **changes: Any) -> wire.Refused:
    """What a computer hears that is turned away."""
    async with dialed(server.url, token) as client:
        await client.send(hello(**changes))
        message, _ = await client.hear("refused")
        assert (await client.closed())[0] == 1008
        assert isinstance(message, wire.Refused)
        return message


async def known(server: Server, token: str, journal_seq: int = 9, **changes: Any) -> int:
    """A computer came, named its journal and went; the number it was welcomed with."""
    async with dialed(server.url, token) as client:
        number = (await client.greet(journal_seq=journal_seq, **changes)).number
        await client.send(wire.Pong(journal_seq=journal_seq, n=1))
        await client.socket.send(b"no frame")
        await client.hear("error")
    return number


async def shown(server: Server, name: str = "farm") -> dict[str, Any]:
    answer = await server.ask("GET", f"/v1/computers/{name}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def system_facts(server: Server, kind: str) -> list[Any]:
    items = await server.orchestrator.store.read(TaskId(SYSTEM_STREAM))
    return [item for item in items if item.fact.kind == kind]


async def test_a_disk_that_was_put_back_freezes_until_an_admin_releases(tmp_path: Path) -> None:
    """It is noticed after a restart of the orchestrator, stays frozen over restarts, and is shown with both sides."""
    settings: dict[str, Any] = {"model": Writing(), "store": f"sqlite:///{tmp_path / 'o.db'}"}
    async with running(tmp_path, **settings) as server:
        token = await server.computer("farm")
        bob = await server.person("bob", "submitter", "reviewer")
        await known(server, token)
    async with running(tmp_path, **settings) as server:
        message = await refused(server, token, boot="boot-2", journal_seq=6, found_seq=5)
        assert message.code == "frozen"
        assert "its disk was put back" in message.message
        assert "`cc-orchestrator computers release farm`" in message.remedy
    async with running(tmp_path, **settings) as server:
        # Even one that fits: a person decides.
        assert (await refused(server, token, journal_seq=20, found_seq=20)).message == message.message
        found = await shown(server)
        listed = (await server.ask("GET", "/v1/computers")).json()["computers"]
        assert (found["state"], found["online"], found["frozen"]["reason"]) == ("frozen", False, "disk_restored")
        assert [one["frozen"] for one in listed if one["computer"] == "farm"] == [found["frozen"]]
        assert found["frozen"]["facts"] == {"heard": 9, "number": 1, "found_seq": 5, "highest": 0}
        assert [one["boot"] for one in found["frozen"]["sides"]] == ["boot-1", "boot-2"]
        assert found["frozen"]["sides"][1]["peer"] == "127.0.0.1"
        answer = await server.ask("POST", "/v1/computers/farm/release", token=bob)
        assert (answer.status_code, (await shown(server))["state"]) == (403, "frozen")
        assert (await server.ask("POST", "/v1/computers/farm/release")).json() == {"computer": "farm", "released": True}
        assert (await server.ask("POST", "/v1/computers/farm/release")).json()["released"] is False
        found = await shown(server)
        assert (found["state"], found["frozen"], found["released"]) == ("away", None, True)
    async with running(tmp_path, **settings) as server:
        assert await known(server, token, journal_seq=6, found_seq=5) == 3
        assert (await shown(server))["released"] is False
        await known(server, token, journal_seq=8, found_seq=6)
        (frozen,) = await system_facts(server, "computer_frozen")
        (released,) = await system_facts(server, "computer_released")
        assert (frozen.fact.computer, frozen.actor.kind) == ("farm", "computer")
        assert (released.fact.by, released.fact.number, released.actor.id) == ("admin", 2, "admin")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"found_seq": 0}, "journal_lost"),
        ({"highest": 50}, "store_restored"),
    ],
)
async def test_every_sign_freezes_and_every_freeze_can_be_resolved(
    server: Server, changes: dict[str, Any], reason: str
) -> None:
    """A lost journal, a store that is behind, a token from another id: released, the next that dials is welcome."""
    token = await server.computer("farm")
    await known(server, token)
    assert (await refused(server, token, **changes)).code == "frozen"
    assert (await shown(server))["frozen"]["reason"] == reason
    await server.ask("POST", "/v1/computers/farm/release")
    number = await known(server, token, **changes)
    assert number > changes.get("highest", 0)
    # And it stays: what it is now is what is known.
    await known(server, token, journal_seq=12, **{**changes, "found_seq": None})
    assert (await shown(server))["state"] == "away"


async def paired(server: Server, name: str, computer_id: int, was: str = "") -> dict[str, Any]:
    """What a computer gets for a code; ``was``: the token that is in its folder."""
    code = (await server.ask("POST", "/v1/pairings", {"computer": name} if name else {})).json()["code"]
    body = {"code": code, "computer_id": computer_id, **({"token": was} if was else {})}
    answer = await server.ask("POST", "/v1/pair", body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_copied_folder_is_turned_away_and_the_genuine_computer_goes_on(server: Server) -> None:
    """The one with the id that was paired keeps its session; the copy hears why, is written down, and is shown."""
    token = (await paired(server, "farm", 3))["token"]
    async with dialed(server.url, token) as genuine:
        number = (await genuine.greet(computer_id=3)).number
        for boot in ("copy-1", "copy-1", "copy-2"):
            message = await refused(server, token, computer_id=4, boot=boot)
            assert message.code == "copied"
            assert "token of computer farm" in message.message
            assert "number 3" in message.message
            assert "number 4" in message.message
            assert "`cc-orchestrator pair`" in str(message.remedy)
        found = await shown(server)
        assert (found["state"], found["frozen"], found["last"]["computer_id"]) == ("online", None, 3)
        # The very session that it had.
        await genuine.send(wire.Pong(journal_seq=2, n=1))
    await known(server, token, computer_id=3)
    assert (await shown(server))["last"]["boot"] == "boot-1"
    assert number == 1
    refusals = [item.fact for item in await system_facts(server, "attempt_refused") if item.fact.code == "copied"]
    assert [(one.door, one.status) for one in refusals] == [("WEBSOCKET /computer", 403)]
    assert "number 4" in refusals[0].detail
    seen = (await server.ask("GET", "/v1/doctor")).json()
    assert {one["computer"] for one in seen["refused"] if one["code"] == "copied"} == {"farm"}


async def test_a_copy_that_comes_first_is_turned_away_too(tmp_path: Path) -> None:
    """The genuine one is that which typed the code, also when it was never there, and over a restart."""
    settings: dict[str, Any] = {"model": Writing(), "store": f"sqlite:///{tmp_path / 'o.db'}"}
    async with running(tmp_path, **settings) as server:
        token = (await paired(server, "farm", 3))["token"]
        assert (await refused(server, token, computer_id=4)).code == "copied"
    async with running(tmp_path, **settings) as server:
        assert (await refused(server, token, computer_id=4)).code == "copied"
        await known(server, token, computer_id=3)
        assert (await refused(server, token, computer_id=4)).code == "copied"


async def test_a_copy_gets_a_name_of_its_own_and_the_genuine_token_stays_good(server: Server) -> None:
    """A copy sends the copied token with a code of no name: it does not become the computer that it was copied from."""
    token = (await paired(server, "farm", 3))["token"]
    await known(server, token, computer_id=3)
    copy = await paired(server, "", 4, was=token)
    assert copy["computer"] == "4"
    await known(server, copy["token"], computer_id=4)
    await known(server, token, computer_id=3)
    # A disk that was moved on purpose gets the name by a code with the name.
    moved = await paired(server, "farm", 5, was=token)
    await known(server, moved["token"], computer_id=5)
    assert (await shown(server))["last"]["computer_id"] == 5
    again = await paired(server, "", 5, was=moved["token"])
    assert again["computer"] == "farm", "who is paired again stays who it is"


async def test_a_frozen_computer_that_was_released_may_have_another_id(server: Server) -> None:
    """A person said that whoever dials next is the computer."""
    token = (await paired(server, "farm", 3))["token"]
    await known(server, token, computer_id=3)
    assert (await refused(server, token, computer_id=3, found_seq=0)).code == "frozen"
    await server.ask("POST", "/v1/computers/farm/release")
    await known(server, token, computer_id=4, found_seq=0)
    assert (await refused(server, token, computer_id=3)).code == "copied"


async def test_a_copied_world_is_frozen_for_both_and_the_next_that_dials_stays(server: Server) -> None:
    """Both are turned away while both live; after the release whoever dials next is welcome."""
    token = await server.computer("farm")
    async with dialed(server.url, token) as first, dialed(server.url, token) as second:
        await first.greet()
        await second.send(hello(boot="boot-2", label="copy"))
        while (message := (await first.hear())[0]).type != "ping":
            pass
        await first.send(wire.Pong(journal_seq=2, n=message.n))
        for one in (first, second):
            assert (await one.hear("refused"))[0].code == "frozen"
    frozen = (await shown(server))["frozen"]
    assert frozen["reason"] == "two_computers"
    assert [(one["boot"], one["label"]) for one in frozen["sides"]] == [("boot-1", "farm"), ("boot-2", "copy")]
    assert "pair it anew" in frozen["remedy"]
    await server.ask("POST", "/v1/computers/farm/release")
    await known(server, token, boot="boot-2")


async def test_pairing_anew_is_a_decision_too(server: Server) -> None:
    """A new token in place of a revoked one: whoever has it is the computer, with whatever journal."""
    token = await server.computer("farm")
    await known(server, token)
    spare = await server.computer("farm")
    assert (await refused(server, spare, computer_id=8)).code == "frozen", "the first token is still good"
    await server.ask("POST", "/v1/computers/farm/release")
    await known(server, token)
    await server.ask("DELETE", "/v1/tokens/computer/farm")
    await known(server, await server.computer("farm"), computer_id=8, found_seq=0)


async def test_a_task_waits_for_a_frozen_computer_and_goes_on_after_the_release(server: Server) -> None:
    """Its status says what it waits for; nothing is sent there; the release and the next dial let it go on."""
    token = await server.computer("3")
    await known(server, token)
    await refused(server, token, found_seq=1)
    task_id = await server.submit()
    await server.until(task_id, "calls_proposed")
    told = (await server.ask("GET", f"/v1/tasks/{task_id}")).json()
    assert told["status_reason"] == "waiting for computer 3, which is frozen until a person releases it"
    await server.ask("POST", "/v1/computers/3/release")
    disk = Disk()
    async with connected(server, "3", disk, token):
        request = await server.paused(task_id)
        await server.ask("POST", request["approval_url"])
        assert (await server.until(task_id, "task_ended"))["status"] == "Completed"


async def test_what_was_open_when_a_computer_was_put_back_is_unknown(server: Server) -> None:
    """The write was sent, the disk was put back: its "never ran" proves nothing, and a person is asked."""
    token = await server.computer("3")
    async with dialed(server.url, token) as client:
        await client.greet(journal_seq=20)
        task_id = await server.submit()
        look, _ = await client.hear("call")
        await client.result(look.call_id, Disk({"a.lua": b"old\n"}).perform("fs_read", {"path": "a.lua"}, None))
        request = await server.paused(task_id)
        await server.ask("POST", request["approval_url"])
        while (message := (await client.hear())[0]).type != "call" or message.method != "fs_write":
            if message.type == "call":
                outcome = Disk({"a.lua": b"old\n"}).perform(message.method, message.params, None)
                await client.result(message.call_id, outcome)
    assert (await refused(server, token, boot="boot-2", found_seq=1)).code == "frozen"
    await server.ask("POST", "/v1/computers/3/release")
    async with dialed(server.url, token) as client:
        await client.greet(boot="boot-2", found_seq=1)
        serving = asyncio.create_task(client.serve(Disk({"a.lua": b"old\n"})))
        async with asyncio.timeout(HANG_S):
            async for block in _events(server, task_id):
                if '"outcome_unknown"' in block:
                    break
        task = (await server.ask("GET", f"/v1/tasks/{task_id}")).json()
        assert (task["status"], task["status_reason"]) == ("Paused", "outcome_unknown")
        await client.socket.close()
        await serving


async def _events(server: Server, task_id: str) -> AsyncIterator[str]:
    async with stream(server, task_id) as blocks:
        async for block in blocks:
            yield block


async def test_a_computer_nobody_knows_is_told(server: Server) -> None:
    """Looking at it and releasing it are both 404."""
    for method, path in (("GET", "/v1/computers/none"), ("POST", "/v1/computers/none/release")):
        answer = await server.ask(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


# -- revoked tokens ----------------------------------------------------------------------


async def _closed(client: StubClient) -> None:
    async with asyncio.timeout(HANG_S):
        while True:
            try:
                await client.socket.recv()
            except Exception:  # noqa: BLE001 - whatever ends it
                break
    assert (client.socket.close_code, client.socket.close_reason) == (1008, "the token was revoked")


@pytest.mark.parametrize("way", ["endpoint", "store", "pairing"])
async def test_a_revoked_token_drops_the_socket_within_a_second(server: Server, way: str) -> None:
    """By the endpoint, by a new pairing, or by a write into the store: the connection and its session end."""
    token, other = await server.computer("farm"), await server.computer("mine")
    async with dialed(server.url, token) as client, dialed(server.url, other) as stays:
        await client.greet()
        await stays.greet()
        if way == "endpoint":
            await server.ask("DELETE", "/v1/tokens/computer/farm")
        elif way == "store":
            await server.orchestrator.store.revoke_tokens("computer", "farm")
        else:
            code = (await server.ask("POST", "/v1/pairings", {"computer": "farm"})).json()["code"]
            await server.http.post("/v1/pair", json={"code": code, "computer_id": 3})
        await _closed(client)
        states = {
            one["computer"]: one["online"] for one in (await server.ask("GET", "/v1/computers")).json()["computers"]
        }
        assert states.get("farm", False) is False
        assert states["mine"] is True


async def test_a_token_revoked_while_its_computer_dials_is_noticed(server: Server) -> None:
    """The socket was opened after the last look: it is looked at all the same, and a person's too."""
    tokens = [await server.computer(f"pc{number}") for number in range(3)]
    for token in tokens:
        async with dialed(server.url, token) as client:
            await client.greet()
            await server.orchestrator.store.revoke_tokens("computer", f"pc{tokens.index(token)}")
            await _closed(client)


# -- refused handshakes ------------------------------------------------------------------


async def test_refused_handshakes_are_remembered(server: Server) -> None:
    """The last hundred of them: when, from where, whose, and why."""
    token = await server.computer("farm")
    gone = await server.computer("gone")
    await server.ask("DELETE", "/v1/tokens/computer/gone")
    for wrong in ("nonsense", gone, server.admin):
        with pytest.raises(InvalidStatus):
            async with dialed(server.url, wrong):
                pass
    with pytest.raises(InvalidStatus) as denied:
        await connect(
            f"{server.url.replace('http', 'ws', 1)}/computer",
            additional_headers={"Authorization": f"Bearer {token}"},
            subprotocols=[Subprotocol("chat.v1")],
            proxy=None,
        )
    assert denied.value.response.status_code == 400
    page = await server.http.get("/computer")
    assert (page.status_code, page.json()["error"]["code"]) == (426, "not_a_websocket")
    await refused(server, token, protocol=0)
    await refused(server, token, host="ComputerCraft 1.90.0 (x)")
    last = server.orchestrator.hub.refusals.last()
    assert [(one.code, one.computer) for one in last] == [
        ("mod_too_old", "farm"),
        ("protocol_too_old", "farm"),
        ("not_a_websocket", ""),
        ("bad_subprotocol", "farm"),
        ("unauthenticated", ""),
        ("revoked", "gone"),
        ("unauthenticated", ""),
    ]
    assert {one.path for one in last} == {"/computer"}
    assert {one.peer for one in last} == {"127.0.0.1"}
    assert all(one.message.endswith(".") for one in last)
    for _ in range(101):
        await server.http.get("/computer")
    assert len(server.orchestrator.hub.refusals.last()) == 100


async def test_no_run_of_a_computer_that_moves_in_this_moment_is_closed(tmp_path: Path) -> None:
    """Its tasks are in the other cell, which asks for their outcomes: here no task holds its claim any more."""
    async with running(tmp_path) as server:
        await server.computer("farm")
        greeter = JournalGreeter(server.orchestrator.service)
        run = RunId("r-1")
        assert await greeter.closed_runs(ComputerId("farm"), [run]) == [run]
        await server.orchestrator.store.depart_computers([ComputerId("farm")], "west", "wss://west/computer")
        assert await greeter.closed_runs(ComputerId("farm"), [run]) == []
