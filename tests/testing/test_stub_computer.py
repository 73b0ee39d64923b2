"""The stub computer against the real hub, over a real loopback socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import count
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from orchestrator.computers.hub import Hidden, Seen, Typed
from orchestrator.core.errors import CallLost, CallVoid, ComputerFailed
from orchestrator.core.ports import CallResult
from orchestrator.core.wire import wire
from orchestrator.core.wire.picture import Row
from orchestrator.core.wire.screen_messages import of_text
from orchestrator.core.wire.wire import RunId, sha256_hex
from orchestrator.testing import stub_computer, stub_programs
from orchestrator.testing.stub_computer import StubComputer
from orchestrator.testing.stub_programs import StubScreen
from tests.harness.hub_server import FARM, HubServer, hub_server
from tests.harness.support import StubClient, dialed
from tests.waiting import HANG_S, within

ABSENT = "absent"
FILES = {
    "startup.lua": b"print('hello')\n",
    "farm/main.lua": b"print(\"a\")\nprint('b')\n",
    "farm/notes": b"x\ny wheat\n",
}
LARGE = bytes(range(256)) * 2400
"""Thirteen frames: more than the window."""
NUMBERS = count(1000)


@pytest.fixture
async def server() -> AsyncIterator[HubServer]:
    async with hub_server() as opened:
        yield opened


def stub(server: HubServer, **more: Any) -> AbstractAsyncContextManager[StubComputer]:
    """A stub that is welcome."""
    return server.stub(**{"files": FILES, "computer_id": 7, "label": "grün", **more})


def calling(
    server: HubServer, method: str, params: Mapping[str, Any], body: bytes | None = None, **more: Any
) -> "asyncio.Task[CallResult]":
    """A call under way."""
    number = next(NUMBERS)
    run_id = RunId(more.pop("run_id", f"r{number}"))
    return server.calling(run_id, number=more.pop("number", number), method=method, params=params, body=body, **more)


async def do(server: HubServer, method: str, body: bytes | None = None, /, **params: Any) -> CallResult:
    """A call that succeeds."""
    return await within(calling(server, method, params, body))


async def fails(
    server: HubServer, code: str, method: str, body: bytes | None = None, /, **params: Any
) -> ComputerFailed:
    """A call that the computer answers with an error of this code."""
    with pytest.raises(ComputerFailed) as caught:
        await do(server, method, body, **params)
    assert caught.value.reason == code, caught.value
    return caught.value


def line(path: str, data: bytes | None) -> bytes:
    """A line of the manifest of a directory."""
    kind, sha256 = ("directory", "-") if data is None else ("file", sha256_hex(data))
    return f"{path}\0{kind}\0{sha256}\n".encode()


# -- files -------------------------------------------------------------------------------


async def test_a_stub_introduces_itself(server: HubServer) -> None:
    """Its id, label and family are those that it was made with."""
    async with stub(server, family="turtle"):
        info = server.hub.info(FARM)
        assert info is not None
        assert (info.online, info.label, info.computer_id, info.family) == (True, "grün", 7, "turtle")
        told = await do(server, "info")
        assert told.data["capacity"] == 1_000_000
        assert told.data["free"] == 1_000_000 - 4 * 500
        assert (told.data["fuel"], told.data["label"], told.body) == (-1, "grün", b"[]")
        assert {"uptime_s", "day", "time"} <= set(told.data)
        assert (await do(server, "label", name="farm 7")).data == {"before": "grün"}
        assert (await do(server, "label")).data == {"before": "farm 7"}
        assert (info := server.hub.info(FARM)) is not None
        assert info.label == "farm 7"


async def test_names_of_the_host_that_the_game_cannot_reach(server: HubServer) -> None:
    """As the client does it: in no list, counted, and their directory stays as it is."""
    async with stub(server) as farm:
        for path in ("a:b", "farm/c|d/x", "../out", "farm/ e"):
            farm.disk.put(path, b"odd")
        assert (await do(server, "fs_list", path="")).data == {
            "count": 2,
            "unreachable": 2,
            "unreachable_names": "..\na:b",
        }
        told = {"unreachable": 2, "unreachable_names": " e\nc|d"}
        looked = await do(server, "fs_stat", path="farm")
        assert told.items() <= looked.data.items()
        assert b"odd" not in looked.body
        found = await do(server, "fs_find", path="farm", pattern="**", max=9)
        assert found.data == {"count": 2, "cut": False, **told}
        await fails(server, "unreachable", "fs_delete", path="farm", if_hash=looked.data["sha256"])
        assert farm.disk.nodes["farm/c|d/x"] == b"odd"


async def test_looking(server: HubServer) -> None:
    """Lists, reads and stats answer as docs/protocol.md says, the manifest of a directory included."""
    async with stub(server):
        listed = await do(server, "fs_list", path="")
        assert listed.data == {"count": 2}
        assert json.loads(listed.body) == [
            {"name": "farm", "dir": True, "size": 0},
            {"name": "startup.lua", "dir": False, "size": 15},
        ]
        assert (await do(server, "fs_list", path="farm")).data == {"count": 2}
        read = await do(server, "fs_read", path="farm/notes")
        assert read.body == FILES["farm/notes"]
        assert read.data == {"size": 10, "sha256": sha256_hex(read.body)}
        directory = await do(server, "fs_stat", path="farm")
        manifest = line("main.lua", FILES["farm/main.lua"]) + line("notes", FILES["farm/notes"])
        assert (directory.body, directory.data["sha256"]) == (manifest, sha256_hex(manifest))
        assert (directory.data["kind"], directory.data["read_only"]) == ("directory", False)
        assert (await do(server, "fs_stat", path="no")).data["sha256"] == ABSENT
        by_word = await do(server, "fs_stat", command="farm/main")
        assert (by_word.data["path"], by_word.data["kind"]) == ("farm/main.lua", "file")
        wrong: list[tuple[str, str, dict[str, Any]]] = [
            ("not_found", "fs_list", {"path": "no"}),
            ("not_a_directory", "fs_list", {"path": "startup.lua"}),
            ("not_found", "fs_read", {"path": "no"}),
            ("is_directory", "fs_read", {"path": "farm"}),
            ("not_found", "fs_stat", {"command": "no"}),
            ("bad_params", "fs_stat", {}),
            ("bad_params", "fs_read", {"path": 5}),
            ("bad_params", "fs_read", {"path": "a", "x": 1}),
            ("bad_path", "fs_read", {"path": ".."}),
            ("access_denied", "fs_read", {"path": ".cc-orchestrator/journal.a"}),
        ]
        for code, method, params in wrong:
            await fails(server, code, method, **params)
        assert (await fails(server, "bad_path", "fs_read", path="/a")).data == {"becomes": "a"}
        await fails(server, "bad_params", "fs_read", b"body", path="farm/notes")


async def test_finding(server: HubServer) -> None:
    """A glob below a directory, the bytes that a file must have with their lines, and the cut said."""
    async with stub(server):
        found = await do(server, "fs_find", path="", pattern="**", max=2)
        assert found.data == {"count": 4, "cut": True}
        assert [one["path"] for one in json.loads(found.body)] == ["farm", "farm/main.lua"]
        found = await do(server, "fs_find", path="farm", pattern="*", max=10, contains="wheat")
        assert found.data == {"count": 1, "cut": False}
        lines = [{"line": 2, "text": "y wheat"}]
        assert json.loads(found.body) == [{"path": "farm/notes", "dir": False, "size": 10, "lines": lines}]
        await fails(server, "bad_params", "fs_find", path="", pattern="*", max=0)
        await fails(server, "not_a_directory", "fs_find", path="startup.lua", pattern="*", max=1)


async def test_changing(server: HubServer) -> None:
    """Writes, edits, deletes, moves and new directories, each only where what is expected is found."""
    async with stub(server) as computer:
        old = sha256_hex(FILES["startup.lua"])
        wrote = await do(server, "fs_write", b"new", path="startup.lua", if_hash=old)
        new = sha256_hex(b"new")
        assert wrote.data == {"size": 3, "sha256": new, "before": old}
        stale = await fails(server, "stale", "fs_write", b"x", path="startup.lua", if_hash=old)
        assert stale.data == {"actual": new}
        edited = await do(server, "fs_edit", b"ne" + b"no", path="startup.lua", if_hash=new, old_size=2)
        assert edited.data["sha256"] == sha256_hex(b"now")
        now = edited.data["sha256"]
        none = await fails(server, "no_match", "fs_edit", b"zz", path="startup.lua", if_hash=now, old_size=2)
        assert none.data == {"count": 0}
        await do(server, "fs_write", b"aaa", path="deep/er/f", if_hash=ABSENT)
        three = sha256_hex(b"aaa")
        twice = await fails(server, "several_matches", "fs_edit", b"aa", path="deep/er/f", if_hash=three, old_size=2)
        assert twice.data == {"count": 2}
        directory = (await do(server, "fs_stat", path="deep")).data["sha256"]
        moved = await do(server, "fs_move", path="deep", if_hash=directory, to="else/where", if_to=ABSENT)
        assert moved.data == {"before": directory}
        assert (await do(server, "fs_read", path="else/where/er/f")).body == b"aaa"
        assert (await do(server, "fs_delete", path="startup.lua", if_hash=now)).data == {"before": now}
        await do(server, "fs_mkdir", path="a/b/c", if_hash=ABSENT)
        assert computer.disk.kind("a/b") == "directory"
        for code, method, body, params in [
            ("exists", "fs_mkdir", None, {"path": "a/b", "if_hash": ABSENT}),
            ("exists", "fs_move", None, {"path": "else/where/er/f", "if_hash": three, "to": "a", "if_to": ABSENT}),
            ("bad_params", "fs_move", None, {"path": "a", "if_hash": ABSENT, "to": "x", "if_to": three}),
            ("not_found", "fs_delete", None, {"path": "no", "if_hash": ABSENT}),
            ("bad_params", "fs_write", None, {"path": "x", "if_hash": ABSENT}),
            ("bad_params", "fs_write", b"x", {"path": "x", "if_hash": "no"}),
            ("access_denied", "fs_delete", None, {"path": "", "if_hash": ABSENT}),
        ]:
            await fails(server, code, method, body, **params)
        in_the_way = await fails(server, "not_a_directory", "fs_write", b"x", path="farm/notes/x/y", if_hash=ABSENT)
        assert in_the_way.data == {"file": "farm/notes"}
        whole = (await do(server, "fs_stat", path="a")).data["sha256"]
        await fails(server, "bad_path", "fs_move", path="a", if_hash=whole, to="a/b/d", if_to=ABSENT)
        await fails(server, "is_directory", "fs_write", b"x", path="a", if_hash=whole)


async def test_what_replaces_another_kind_says_so_and_finds_it(server: HubServer) -> None:
    """A file takes the place of a directory and all in it, a directory that of a file; as in the game."""
    async with stub(server, files={"d/x": b"1", "f": b"2", "e": b""}):
        tree = (await do(server, "fs_stat", path="d")).data["sha256"]
        file, empty = sha256_hex(b"2"), sha256_hex(b"")
        await fails(server, "bad_params", "fs_write", b"n", path="d", if_hash=tree, replaces="file")
        await fails(server, "bad_params", "fs_write", b"n", path="d", if_hash=tree, replaces="tree")
        await fails(server, "stale", "fs_write", b"n", path="d", if_hash=empty, replaces="directory")
        await fails(server, "stale", "fs_write", b"n", path="e", if_hash=empty, replaces="directory")
        await fails(server, "bad_params", "fs_mkdir", path="f", if_hash=file, replaces="directory")
        await fails(server, "bad_params", "fs_mkdir", path="f", if_hash=file)
        await do(server, "fs_write", b"n", path="d", if_hash=tree, replaces="directory")
        await do(server, "fs_mkdir", path="f", if_hash=file, replaces="file")
        assert (await do(server, "fs_read", path="d")).body == b"n"
        await fails(server, "not_found", "fs_read", path="d/x")
        assert (await do(server, "fs_stat", path="f")).data["kind"] == "directory"


async def test_a_full_disk_says_what_is_missing(server: HubServer) -> None:
    """The old and the new have to fit side by side; an entry costs at least 500 bytes."""
    async with stub(server, files={"big": b"x" * 600_000}):
        big = sha256_hex(b"x" * 600_000)
        full = await fails(server, "no_space_for_safe_write", "fs_write", b"y" * 500_000, path="big", if_hash=big)
        assert full.data == {"missing": 100_000, "biggest": "600000 big"}
        await do(server, "fs_write", b"y" * 399_000, path="small", if_hash=ABSENT)
        await do(server, "fs_write", b"", path="empty", if_hash=ABSENT)
        full = await fails(server, "no_space_for_safe_write", "fs_mkdir", path="d/e", if_hash=ABSENT)
        assert full.data == {"missing": 500, "biggest": "600000 big\n399000 small\n0 empty"}


async def test_large_files_travel_in_parts_both_ways(server: HubServer) -> None:
    """600 kB to the computer and back, with small calls in between."""
    async with stub(server) as computer:
        writing = calling(server, "fs_write", {"path": "large", "if_hash": ABSENT}, LARGE)
        assert (await do(server, "fs_read", path="farm/notes")).body == FILES["farm/notes"]
        assert (await writing).data["sha256"] == sha256_hex(LARGE)
        reading = [calling(server, "fs_read", {"path": "large"}) for _ in range(3)]
        assert (await do(server, "fs_read", path="farm/notes")).body == FILES["farm/notes"]
        for read in await asyncio.gather(*reading):
            assert read.body == LARGE
        assert computer.disk.file("large") == LARGE


# -- programs ----------------------------------------------------------------------------


def run_of(path: str, data: bytes, **more: Any) -> dict[str, Any]:
    """The parameters of a run."""
    return {"path": path, "if_hash": sha256_hex(data), "timeout_s": 60, **more}


async def test_programs_that_print(server: HubServer) -> None:
    """Lines of `print` are output, by path and by word; anything else is an error that says why."""
    async with stub(server, files={**FILES, "odd.lua": b"-- a comment\nprint(1 + 1)\n"}):
        parts: list[tuple[int, bytes]] = []
        params = run_of("farm/main.lua", FILES["farm/main.lua"])
        ran = await calling(server, "run_program", params, b"[]", on_output=lambda *part: parts.append(part))
        assert (ran.body, ran.data["ended"], ran.data["output"]) == (b"a\nb\n", "returned", 4)
        assert parts == [(0, b"a\n")]
        by_word = await do(server, "shell", b'["startup","x"]', **run_of("startup.lua", FILES["startup.lua"]))
        assert by_word.body == b"hello\n"
        other = await fails(server, "stale", "shell", b'["farm/main"]', **run_of("startup.lua", FILES["startup.lua"]))
        assert other.data["path"] == "farm/main.lua"
        odd = await fails(server, "program_error", "run_program", **run_of("odd.lua", b"-- a comment\nprint(1 + 1)\n"))
        assert "runs no Lua" in odd.message
        assert "line 2" in odd.message
        assert (odd.data["ended"], odd.body) == ("error", odd.message.encode())
        await fails(server, "stale", "run_program", **run_of("startup.lua", b"other"))
        await fails(server, "not_found", "run_program", **run_of("no", b""))
        await fails(server, "bad_params", "run_program", b"{}", **run_of("startup.lua", FILES["startup.lua"]))
        await fails(server, "bad_params", "run_program", b"[", **run_of("startup.lua", FILES["startup.lua"]))
        await fails(server, "bad_params", "shell", b"[]", **run_of("startup.lua", FILES["startup.lua"]))
        await fails(server, "bad_params", "run_program", path="startup.lua", if_hash=ABSENT, timeout_s=5)


async def test_python_callables_are_programs(server: HubServer) -> None:
    """They get the arguments; what they answer is output, what they raise is the program's error."""

    def divide(words: list[str]) -> str:
        return str(int(words[0]) // int(words[1]))

    async with stub(server, programs={"divide.lua": divide}):
        sha256 = (await do(server, "fs_stat", command="divide")).data["sha256"]
        params = {"path": "divide.lua", "if_hash": sha256, "timeout_s": 5}
        assert (await do(server, "run_program", b'["6","3"]', **params)).body == b"2"
        error = await fails(server, "program_error", "run_program", b'["1","0"]', **params)
        assert error.message.startswith("ZeroDivisionError")


class Heard:
    """What a listener to output heard, and when it heard all that a test waits for."""

    def __init__(self, wanted: bytes) -> None:
        self._wanted = wanted
        self._parts: dict[int, bytes] = {}
        self.all = asyncio.Event()

    def __call__(self, offset: int, data: bytes) -> None:
        self._parts[offset] = data
        if b"".join(self._parts.values()) == self._wanted:
            self.all.set()


async def test_a_program_that_sleeps_can_be_seen_and_terminated(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output is told as it comes, its screen shows it, and `terminate` ends it with its own result."""
    monkeypatch.setattr(stub_programs, "HINT_EVERY_S", 0.01)
    source = b"print('first')\nprint('second')\nsleep(3600)\n"
    async with stub(server, files={"long.lua": source}):
        heard = Heard(b"first\nsecond\n")
        running = calling(
            server, "run_program", run_of("long.lua", source, timeout_s=7200), run_id="long", on_output=heard
        )
        await within(heard.all.wait())
        screen = await do(server, "screen", run="long")
        assert [row["text"].rstrip() for row in json.loads(screen.body)] == ["first", "second"]
        assert (screen.data["width"], screen.data["y"]) == (51, 3)
        assert (await do(server, "terminate", run="long")).data == {"state": "stopping"}
        with pytest.raises(ComputerFailed) as caught:
            await running
        assert (caught.value.reason, caught.value.data["ended"]) == ("terminated", "terminated")
        assert caught.value.body == b"first\nsecond\n"
        assert (await do(server, "terminate", run="long")).data == {"state": "not_running"}
        await fails(server, "not_running", "screen", run="long")
        assert (await do(server, "screen")).body == b"[]"


async def test_a_program_has_its_time(server: HubServer) -> None:
    """What sleeps past its time is `timed_out`; what is quicker returns."""
    async with stub(server, files={"nap.lua": b"sleep(2)", "wink.lua": b"os.sleep(0.01)\n"}):
        napped = calling(server, "run_program", run_of("nap.lua", b"sleep(2)", timeout_s=1))
        assert (await do(server, "run_program", **run_of("wink.lua", b"os.sleep(0.01)\n"))).data["ended"] == "returned"
        with pytest.raises(ComputerFailed) as caught:
            await napped
        assert caught.value.reason == "timed_out"


# -- once --------------------------------------------------------------------------------


async def test_calls_below_the_fence_and_over_the_limit_never_run(server: HubServer) -> None:
    """`welcome` and `settle` raise the fence; nine open calls are one too many; 64 outcomes not acknowledged too."""
    async with stub(server, files={"long.lua": b"sleep(3600)"}):
        with pytest.raises(CallVoid) as void:
            await calling(server, "fs_read", {"path": "long.lua"}, number=0)
        assert void.value.reason == "below_fence"
        for _ in range(wire.MAX_UNACKNOWLEDGED):
            await do(server, "fs_stat", path="long.lua")
        with pytest.raises(CallVoid) as void:
            await do(server, "fs_stat", path="long.lua")
        assert void.value.reason == "busy"


async def test_settle_after_a_lost_connection(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are still in memory, large ones come before `settled`; programs go on; what never came is void."""
    monkeypatch.setattr(stub_computer, "FIRST_DELAY_S", 0.01)
    server.journal.open_runs = {RunId("c1"), RunId("c2"), RunId("c3")}
    source, heard = b"print('on')\nsleep(3600)", Heard(b"on\n")
    async with stub(server, files={"large": LARGE, "long.lua": source}) as computer:
        for run_id, path in (("c1", "large"), ("c2", "long.lua")):
            await calling(server, "fs_read", {"path": path}, run_id=run_id)
        running = calling(server, "run_program", run_of("long.lua", source), run_id="c3", on_output=heard)
        await within(heard.all.wait())
        await server.hub.close()
        with pytest.raises(CallLost):
            await running
        await within(server.journal.arrivals.get())
        ids = [RunId(one) for one in ("c1", "c2", "c4")]
        settled = await server.hub.settle(FARM, run_ids=ids, number=next(NUMBERS))
        assert [settled[one].call.state for one in ids] == ["finished", "finished", "void"]
        assert settled[ids[0]].result == CallResult({"size": len(LARGE), "sha256": sha256_hex(LARGE)}, LARGE)
        settling = asyncio.create_task(server.hub.settle(FARM, run_ids=[RunId("c3")], number=next(NUMBERS)))
        await do(server, "terminate", run="c3")
        assert isinstance((await settling)[RunId("c3")].result, ComputerFailed)
        server.hub.acknowledge(FARM, RunId("c1"), next(NUMBERS))
        forgotten = await server.hub.settle(FARM, run_ids=[RunId("c1")], number=next(NUMBERS))
        assert forgotten[RunId("c1")].call.state == "void"
        assert set(computer.calls.entries) >= {RunId("c2"), RunId("c3")}


async def test_a_settled_change_names_its_hash(server: HubServer) -> None:
    """What the journal keeps of a change is its outcome and the hash after it; of a failure, the code."""
    async with stub(server):
        await calling(server, "fs_write", {"path": "a", "if_hash": ABSENT}, b"x", run_id="c1")
        with pytest.raises(ComputerFailed):
            await calling(server, "fs_write", {"path": "a", "if_hash": ABSENT}, b"x", run_id="c2")
        settled = await server.hub.settle(FARM, run_ids=[RunId("c1"), RunId("c2")], number=next(NUMBERS))
        one, two = settled[RunId("c1")].call, settled[RunId("c2")].call
        assert (one.ok, one.sha256) == (True, sha256_hex(b"x"))
        assert (two.ok, two.code) == (False, "stale")


# -- frames by hand ----------------------------------------------------------------------


@asynccontextmanager
async def by_hand() -> AsyncIterator[tuple[StubComputer, StubClient]]:
    """A stub that dials a server spoken by hand, after its hello."""
    accepted: asyncio.Queue[ServerConnection] = asyncio.Queue()
    over = asyncio.Event()

    async def handle(connection: ServerConnection) -> None:
        accepted.put_nowait(connection)
        await over.wait()

    async with serve(handle, "127.0.0.1", 0, compression=None, ping_interval=None) as listening:
        port = next(iter(listening.sockets)).getsockname()[1]
        computer = StubComputer(f"ws://127.0.0.1:{port}/computer", "token", files=FILES)
        running = asyncio.create_task(computer.run())
        try:
            peer = StubClient(await within(accepted.get()))  # type: ignore[arg-type]
            await peer.hear("hello")
            yield computer, peer
        finally:
            over.set()
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def call(call_id: str, body: bytes | None = None, **changes: Any) -> wire.Call:
    """A call that writes a file, or reads one."""
    method, params = ("fs_read", {"path": "farm/notes"})
    if body is not None:
        method, params = "fs_write", {"path": "new", "if_hash": ABSENT}
    described = None if body is None else wire.whole(body).model_copy(update=changes)
    return wire.Call(call_id=call_id, task="t", number=50, method=method, params=params, body=described)


async def test_broken_frames_are_answered(server: HubServer) -> None:
    """Text, garbage, what comes before welcome, a broken body and a gap: each with `error`, and the stub goes on."""
    del server
    async with by_hand() as (_, peer):
        await peer.send(call("c1"))
        assert (await peer.hear("error"))[0].code == "not_welcomed"
        await peer.send(wire.Welcome(number=40, computer="farm"))
        await peer.socket.send("text")
        await peer.socket.send(b"garbage")
        await peer.send(wire.Pong(journal_seq=1, n=1))
        await peer.send(call("c1", b"abc", sha256="0" * 64), b"abc")
        codes = [(await peer.hear("error"))[0] for _ in range(4)]
        assert [one.code for one in codes] == ["bad_frame"] * 4
        assert codes[3].call_id == "c1"
        size = wire.MAX_BODY_BYTES
        await peer.send(call("c2", LARGE), LARGE[:size])
        skipped = wire.Chunk(call_id="c2", body=wire.whole(LARGE).model_copy(update={"offset": 2 * size}))
        await peer.send(skipped, LARGE[2 * size : 3 * size])
        answers = [(await peer.hear())[0] for _ in range(3)]
        assert [one.type for one in answers] == ["chunk_ack", "chunk_ack", "error"]
        assert answers[2].call_id == "c2"
        await peer.send(skipped, LARGE[2 * size : 3 * size])
        assert (await peer.hear("chunk_ack"))[0].offset == 3 * size
        await peer.send(wire.Ping(n=3))
        assert (await peer.hear("pong"))[0].n == 3


async def test_a_call_is_run_once(server: HubServer) -> None:
    """The same call again is answered with its result again; a settled half call is dropped."""
    del server
    async with by_hand() as (computer, peer):
        await peer.send(wire.Welcome(number=40, computer="farm"))
        for _ in range(2):
            await peer.send(call("c1", b"abc"), b"abc")
        kinds = [(await peer.hear())[0] for _ in range(3)]
        assert [one.type for one in kinds] == ["ack", "result", "result"]
        assert all(one.ok for one in kinds[1:])
        await peer.send(call("c2", LARGE), LARGE[: wire.MAX_BODY_BYTES])
        await peer.hear("chunk_ack")
        await peer.send(wire.Settle(number=60, call_ids=("c2",)))
        settled, body = await peer.hear("settled")
        assert (settled.number, wire.decode_settled(body)[0].state) == (60, "void")
        await peer.send(wire.Settle(number=61, call_ids=("c1",)))
        assert (await peer.hear("result"))[0].call_id == "c1"
        assert wire.decode_settled((await peer.hear("settled"))[1])[0].state == "finished"
        assert computer.disk.file("new") == b"abc"


async def test_a_refusal_is_heard(server: HubServer) -> None:
    """A stub that is refused knows it, and is not welcome."""
    del server
    async with by_hand() as (computer, peer):
        await peer.send(wire.Refused(code="protocol_too_old", message="no", remedy="update"))
        await peer.send(wire.Ping(n=1))
        await peer.hear("pong")
        assert computer.refused
        assert not computer.welcomed.is_set()


async def test_a_running_call_is_not_forgotten(server: HubServer) -> None:
    """`result_ack` for a program that runs is complained about; the run is acknowledged again, not begun again."""
    del server
    async with by_hand() as (computer, peer):
        computer.disk.put("long.lua", b"sleep(3600)")
        await peer.send(wire.Welcome(number=40, computer="farm"))
        params = run_of("long.lua", b"sleep(3600)")
        run = wire.Call(call_id="c1", task="t", number=50, method="run_program", params=params)
        for _ in range(2):
            await peer.send(run)
            await peer.hear("ack")
        await peer.send(wire.ResultAck(call_id="c1", number=51))
        complaint, _ = await peer.hear("error")
        assert (complaint.code, complaint.call_id) == ("not_forgotten", "c1")
        await peer.send(wire.Settle(number=60, call_ids=("c1",)))
        assert wire.decode_settled((await peer.hear("settled"))[1])[0].state == "running"


async def test_a_server_that_hung_up_is_dialed_again(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaced by another connection, the stub comes back and replaces that one."""
    monkeypatch.setattr(stub_computer, "FIRST_DELAY_S", 0.01)
    async with stub(server) as computer:
        async with dialed(server.url) as other:
            await other.greet()
            assert (await other.closed())[0] == 1008
        await within(computer.welcomed.wait())


# -- its terminal ------------------------------------------------------------------------


async def test_its_terminal_is_seen_as_it_is_drawn(server: HubServer) -> None:
    """Whole, in as many frames as it takes, then row by row; of the largest screen that there is."""
    async with stub(server) as computer:
        screen = computer.screen = StubScreen(wire.MAX_COLUMNS, wire.MAX_ROWS)
        for number in range(1, wire.MAX_ROWS + 1):
            screen.rows[number] = Row(b"x" * 162, ("0e" * 81), ("f1" * 81))
        watched = [screen.is_watched]
        with server.hub.mirror.watching(FARM) as watcher:
            seen = await within(watcher.next(HANG_S))
            assert isinstance(seen, Seen)
            assert seen.shown.rows == tuple(screen.rows.values())
            watched.append(screen.is_watched)
            screen.draw(7, b"drawn", "a", "b")
            seen = await within(watcher.next(HANG_S))
            assert isinstance(seen, Seen)
            assert seen.rows == frozenset({7})
            assert seen.shown.rows[6] == Row(b"drawn".ljust(162), "a" * 162, "b" * 162)
        with server.hub.mirror.watching(FARM, "left") as watcher:
            assert isinstance(await within(watcher.next(HANG_S)), Hidden)
        (found,) = await within(server.hub.mirror.screens(FARM))
        assert (found.of, found.width, found.height) == (None, 162, 81)
        assert [*watched, screen.is_watched] == [False, True, False]


async def test_what_is_typed_at_it_is_kept(server: HubServer) -> None:
    """In order; or nothing of it, and why."""
    async with stub(server) as computer:
        assert await within(server.hub.mirror.type(FARM, of_text("ls\n"))) == Typed(delivered=True)
        computer.screen.refuses = "No."
        assert await within(server.hub.mirror.type(FARM, of_text("x"))) == Typed(False, "No.")
        assert computer.screen.typed == [{"paste": "ls"}, {"key": "enter"}]
