"""Programs that are watched, at the limits: a slow computer, many bytes, an approval that ends, a line that is lost."""

import asyncio
from typing import Any

import pytest

from orchestrator.client import Client
from orchestrator.core.undo.plan import Listing
from orchestrator.core.wire.wire import SettledCall
from orchestrator.engine.actor import programs
from orchestrator.terminal.changes_left import left_behind
from orchestrator.testing import ManualClock
from tests.contract.parts import ByHand, Playing, by_hand, policy, sha256
from tests.contract.test_10_tampering import tamper
from tests.harness.support import call, final, says
from tests.harness.whole_server import Installation, Opened

RUN = call("cc_run_program", path="work.lua")
FILES = {"work.lua": b"print('work')\n", "a": b"a", "b": b"bb", "c": b"ccc"}
STATES = {path: sha256(data) for path, data in FILES.items()}


async def worked(
    installation: Installation, *, more: dict[str, bytes] | None = None, **settings: Any
) -> tuple[Any, Any, dict[str, Any]]:
    """A program that changes two files was run: how it began, how it ended, and what the task changed."""

    def work(_: list[str]) -> str:
        disk = installation.stubs["3"].disk
        disk.put("a", b"A")
        disk.put("c", b"C")
        return "worked"

    async with installation.open(
        Playing(says(RUN)), files={**FILES, **(more or {})}, programs={"work.lua": work}, **settings
    ) as server:
        task_id, request = await server.asked()
        await server.decide(request, "approve")
        await server.ended(task_id)
        (started,) = await server.facts(task_id, "tool_started")
        (finished,) = await server.facts(task_id, "tool_finished")
        assert finished.ok
        told = (await server.ask("GET", f"/v1/tasks/{task_id}/changes")).json()
        assert (await server.ask("GET", "/v1/audit/verify")).json()["faults"] == []
        return started.watched, finished, told


async def test_a_computer_that_is_too_slow_holds_up_no_program(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it changed is not known then, and that is said with the reason."""
    monkeypatch.setattr(programs, "WITHIN_S", 0.0)
    before, finished, told = await worked(installation)
    assert (before.listing, before.why) == ("", "The computer took too long.")
    assert finished.watched is None
    assert told["changes"] == []
    assert told["cannot_be_undone"][0]["what"].endswith(
        "Nobody could look before at the files that are watched: The computer took too long."
    )
    assert told["unseen"] == told["cannot_be_undone"]
    assert finished.text.endswith(
        "Which files it changed is not known, and cannot be put back: nobody could look before it was started at the "
        "files that are watched: The computer took too long."
    )


async def test_who_the_task_was_of_is_told_that_nobody_knows(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its end is followed, where it is shown, and where its undo is offered; also when it ended well."""
    monkeypatch.setattr(programs, "WITHIN_S", 0.0)
    script = Playing(says(RUN), final())
    async with installation.open(
        script, policy=policy(), files=FILES, programs={"work.lua": lambda _: "done"}
    ) as server:
        task_id, request = await server.asked()
        await server.decide(request, "approve")
        await server.ended(task_id)
        offer = (await server.task(task_id))["undo"]
        assert (offer["changes"], offer["unseen"]) == (0, 1)
        client = Client(server.url, server.admin)
        lines = await asyncio.to_thread(left_behind, client, task_id, succeeded=True)
        assert lines == await asyncio.to_thread(left_behind, client, task_id)
        assert await asyncio.to_thread(left_behind, client, "t-none") == []
        client.close()
        (line,) = lines
        assert line.startswith("No undo puts back what its cc_run_program on 3 in step 1 changed: A program ran: ")
        assert line.endswith("The computer took too long.")


async def test_what_the_game_cannot_reach_is_told_with_what_changed(installation: Installation) -> None:
    before, finished, told = await worked(installation, more={"x:y": b"odd"})
    assert finished.watched.changed == ("a", "c")
    assert before.why == finished.watched.why == "The game cannot reach this name."
    assert finished.text.endswith("changed: a, c. What it did to x:y is not known: The game cannot reach this name.")
    assert [one["path"] for one in told["changes"]] == ["a", "c"]
    assert told["unseen"] == []


async def test_what_is_too_much_is_listed_and_not_kept(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first bytes are kept; of the rest it is known that it changed, and said that it cannot be put back."""
    monkeypatch.setattr(programs, "MAX_NEW_BYTES", 1)
    monkeypatch.setattr("orchestrator.tools.computer.listings._AT_ONCE", 1)
    before, finished, told = await worked(installation)
    assert before.gaps
    assert finished.watched.changed == ("a", "c")
    assert [one["path"] for one in told["changes"]] == ["a"]
    assert told["cannot_be_undone"][-1]["what"] == (
        "It changed c, whose bytes were not kept: More than 1 bytes there were not kept yet."
    )


async def test_where_nothing_is_watched_nothing_is_looked_at(installation: Installation) -> None:
    before, finished, told = await worked(installation, policy=policy(watch=[]))
    assert (before, finished.watched) == (None, None)
    assert told["changes"] == []
    assert told["cannot_be_undone"][0]["what"].endswith("is not known.")


async def test_the_bytes_from_before_have_to_be_there(kept_installation: Installation) -> None:
    """Only the lines of what was watched name them."""
    await worked(kept_installation)
    tamper(kept_installation.directory, f"DELETE FROM blobs WHERE sha256 = '{sha256(FILES['b'])}'")
    async with kept_installation.open(Playing(), computer=False) as server:
        faults = (await server.ask("GET", "/v1/audit/verify")).json()["faults"]
        assert [one["what"] for one in faults] == ["blob"]
        assert "a file of the watched files before a program ran is not in the store" in faults[0]["detail"]


# -- by hand -----------------------------------------------------------------------------------


async def tell_all(hand: ByHand, files: dict[str, bytes]) -> None:
    """Answer a look at all that is on the computer."""
    look = await hand.call("fs_stat", files=files)
    while look.params.get("path") != "":
        await hand._look(look, files)
        look = await hand.call("fs_stat", files=files)
    lines = Listing({path: sha256(data) for path, data in files.items()}).lines
    await hand.ok(look, {"kind": "directory", "path": "", "size": 0, "sha256": sha256(lines)}, lines)


async def approved(server: Opened, hand: ByHand) -> str:
    """A task whose program a person just approved."""
    task_id = await server.submit()
    raised = asyncio.create_task(server.request(task_id))
    for _ in range(2):
        look = await hand.call("fs_stat", "fs_read", files=FILES)
        await hand._look(look, FILES)
    await server.decide(await raised, "approve")
    return task_id


async def test_an_approval_that_ends_while_the_files_are_looked_at_starts_nothing(installation: Installation) -> None:
    requests = {"approval_valid_s": 60}
    clock = ManualClock()
    async with (
        installation.open(Playing(says(RUN)), policy=policy(requests=requests), computer=False, clock=clock) as server,
        by_hand(server, await server.computer("3")) as hand,
    ):
        task_id = await approved(server, hand)
        look = await hand.call("fs_stat")
        assert look.params["path"] == ""
        clock.advance(61)
        await hand.failed(look, "access_denied")
        over = await server.item(task_id, "request_ended")
        assert over["fact"]["code"] == "approval_expired"
        assert await server.items(task_id, "tool_started") == []


async def test_a_look_that_fails_afterwards_is_told(installation: Installation) -> None:
    async with installation.open(Playing(says(RUN)), policy=policy(), computer=False) as server:
        async with by_hand(server, await server.computer("3")) as hand:
            task_id = await approved(server, hand)
            await tell_all(hand, FILES)
            run = await hand.call("run_program", files=FILES)
            await hand.ok(run, {"ended": "returned", "path": "work.lua", "output": 0, "cut": 0})
            await hand.failed(await hand.call("fs_stat"), "internal")
            finished = await server.item(task_id, "tool_finished")
            assert "nobody could look afterwards at the files that are watched: " in finished["fact"]["text"]
        told = (await server.ask("GET", f"/v1/tasks/{task_id}/changes")).json()
        assert len(told["unseen"]) == 1


async def test_a_line_that_is_lost_before_the_look_afterwards_is_settled_first(installation: Installation) -> None:
    """The program had ended. What differs when the computer is back may be anybody's."""
    async with installation.open(Playing(says(RUN)), policy=policy(), computer=False) as server:
        token = await server.computer("3")
        async with by_hand(server, token) as hand:
            task_id = await approved(server, hand)
            await tell_all(hand, FILES)
            run = await hand.call("run_program", files=FILES)
            await hand.ok(run, {"ended": "returned", "path": "work.lua", "output": 0, "cut": 0})
            look = await hand.call("fs_stat")
            assert look.params["path"] == ""
        assert await server.items(task_id, "tool_finished") == []
        again = {"boot": "boot-2", "highest": look.number, "journal_seq": 9, "calls": (run.call_id,)}
        async with by_hand(server, token, **again) as hand:
            settle = await hand.settle()
            await hand.client.settled(settle.number, SettledCall(call_id=run.call_id, state="finished", ok=True))
            await tell_all(hand, {**FILES, "a": b"changed"})
            settled = await server.item(task_id, "tool_settled")
            assert settled["fact"]["text"].endswith("Since it was started, these files changed: a.")
        told = (await server.ask("GET", f"/v1/tasks/{task_id}/changes")).json()
        assert [(one["path"], one["after"]) for one in told["changes"]] == [("a", None)]
