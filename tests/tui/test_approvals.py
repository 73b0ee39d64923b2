"""Requests in the terminal UI: shown as the console reviewer shows them, and decided by keys."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from orchestrator.console import describe
from orchestrator.console.deciding import decision
from orchestrator.core.approval import HitlResponse
from orchestrator.tui.approvals import Approvals
from tests.shell.support import NEW, WRITE, Disk, Listening, Server, call, connected, final, running, says
from tests.tui.driving import NARROW, WIDE, Seat, seated

LONG = "-- a line of a long program\n" * 700


async def waiting(server: Server, **more: Any) -> HitlResponse:
    """A new request that waits for a person."""
    return HitlResponse.model_validate(await server.paused(await server.submit(**more)))


def page_of(seat: Seat) -> list[str]:
    """The lines of the page of requests."""
    return [line.text for line in seat.app.query_one(Approvals).page.lines]


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_a_request_is_shown_whole_and_approved(tmp_path: Path, size: tuple[int, int]) -> None:
    """A new request appears by itself, line for line as the console shows it; `a` and `y` let it run."""
    disk = Disk()
    async with (
        running(tmp_path, model=Listening(says(WRITE), final())) as server,
        connected(server, "3", disk),
        seated(server, size=size) as seat,
    ):
        await seat.press("2")
        await seat.sees("Nothing waits for you.")
        request = await waiting(server)
        await seat.sees("[2 Approvals(1)]", "cc_write on computer 3", "+print('new')", "digest")
        assert page_of(seat) == describe(request)
        await seat.press("a")
        await seat.sees("Let it run, exactly as it stands on the screen?")
        assert not disk.done
        await seat.press("y")
        await seat.sees("Carried out: approved by you", "Nothing waits for you.")
        await server.until(request.task_id, "task_ended")
        assert disk.files == {"a.lua": NEW}


async def test_what_is_edited_here_runs(tmp_path: Path) -> None:
    """`i` opens the text; what was changed is shown as a diff before it is approved."""
    disk = Disk()
    async with (
        running(tmp_path, model=Listening(says(WRITE), final())) as server,
        connected(server, "3", disk),
        seated(server) as seat,
    ):
        request = await waiting(server)
        await seat.press("2")
        await seat.sees("+print('new')")
        await seat.press("i")
        await seat.sees("Edit content")
        await seat.press("x", "escape")
        await seat.sees("Unchanged: nothing was decided.")
        await seat.press("i")
        await seat.sees("Edit content")
        await seat.press("ctrl+home")
        await seat.type("-- [b]mine[/b] ")
        await seat.press("ctrl+s")
        await seat.sees("Approve it like this?", "+-- [b]mine[/b] print('new')", "-print('new')")
        await seat.press("y")
        await seat.sees("Carried out: edited and approved by you")
        await server.until(request.task_id, "task_ended")
        assert disk.files == {"a.lua": b"-- [b]mine[/b] " + NEW}


async def test_a_rejection_says_why_and_what_then(tmp_path: Path) -> None:
    """`r` asks for the reason and for what the task does; Escape takes it back."""
    model = Listening(says(WRITE), final(success=False))
    async with (
        running(tmp_path, model=model) as server,
        connected(server, "3", Disk()),
        seated(server) as seat,
    ):
        request = await waiting(server)
        await seat.press("2")
        await seat.sees("+print('new')")
        await seat.press("r")
        await seat.sees("Reject it. Why?")
        await seat.press("escape")
        await seat.press("r")
        await seat.sees("Reject it. Why?")
        await seat.type("use lib q")
        await seat.press("enter")
        await seat.sees("And the task?")
        await seat.press("c")
        await seat.sees("Carried out: rejected by you")
        await server.until(request.task_id, "task_ended")
        assert "use lib q" in model.told


async def test_a_response_stands_in_for_the_result(tmp_path: Path) -> None:
    """`p` tells the model a text; nothing runs."""
    model, disk = Listening(says(WRITE), final(success=False)), Disk()
    async with running(tmp_path, model=model) as server, connected(server, "3", disk), seated(server) as seat:
        request = await waiting(server)
        await seat.press("2")
        await seat.sees("+print('new')")
        await seat.press("p")
        await seat.sees("What is the model told")
        await seat.type("not today")
        await seat.press("enter")
        await seat.sees("Carried out: answered by you in its place")
        await server.until(request.task_id, "task_ended")
        assert "not today" in model.told
        assert not disk.done


async def test_each_call_is_decided_by_itself(tmp_path: Path) -> None:
    """With several calls the keys are about all, or about the one that was chosen."""
    disk = Disk()
    other = call("cc_write", path="b.lua", content=NEW.decode())
    async with (
        running(tmp_path, model=Listening(says(WRITE, other), final())) as server,
        connected(server, "3", disk),
        seated(server) as seat,
    ):
        request = await waiting(server)
        await seat.press("2")
        await seat.sees("all 2 calls")
        await seat.press("e")
        await seat.sees("Choose one call first")
        await seat.press("full_stop", "full_stop")
        await seat.sees("call 2 of 2")
        await seat.press("r")
        await seat.sees("Reject it. Why?")
        await seat.press("enter")
        await seat.sees("And the task?")
        await seat.press("c")
        await seat.sees("Carried out: rejected by you")
        await seat.until(lambda: "[2/2]" not in "\n".join(page_of(seat)), "one call is left")
        await seat.press("a")
        await seat.sees("Let it run")
        await seat.press("enter")
        await seat.sees("Carried out: approved by you")
        await server.until(request.task_id, "task_ended")
        assert list(disk.files) == ["a.lua"]


async def test_what_is_cut_is_fetched_whole_before_it_is_approved(tmp_path: Path) -> None:
    """A long text is cut on the socket: then only `w`, which shows all of it, leads to an approval."""
    disk = Disk()
    write = call("cc_write", path="a.lua", content=LONG)
    async with (
        running(tmp_path, model=Listening(says(write), final())) as server,
        connected(server, "3", disk),
        seated(server) as seat,
    ):
        request = await waiting(server)
        await seat.press("2")
        await seat.sees("w whole")
        await seat.press("a")
        await seat.sees("Not all of it was shown")
        await seat.press("w")
        await seat.sees("This is all of it.")
        assert sum("a line of a long program" in line for line in page_of(seat)) == 700
        await seat.press("a")
        await seat.sees("Let it run", "rows below were not on the screen yet")
        await seat.press("y")
        await seat.sees("Carried out: approved by you")
        await server.until(request.task_id, "task_ended")
        assert disk.files["a.lua"] == LONG.encode()


async def test_who_was_first_is_said(tmp_path: Path) -> None:
    """A dialog about a request ends when somebody else decides it; a decision that came too late says who was first."""
    async with (
        running(tmp_path, model=Listening(says(WRITE), final()), approvers="role:reviewer") as server,
        connected(server, "3", Disk()),
        seated(server) as seat,
    ):
        bob = await server.person("bob", "reviewer")
        request = await waiting(server)
        await seat.press("2")
        await seat.sees("+print('new')")
        await seat.press("a")
        await seat.sees("Let it run")
        assert (await server.ask("POST", request.approval_url, token=bob)).status_code == 202
        await seat.sees("Decided elsewhere: approved by bob.", "CLOSED: approved by bob")
        assert "Let it run" not in seat.text
        await seat.press("a")
        assert "Let it run" not in seat.text
        late = await seat.app.reviews.decide(request, decision(request, "reject", on_reject="cancel"))
        assert late is False
        await seat.sees("Too late: bob approved it")


async def test_two_screens_decide_at_once(tmp_path: Path) -> None:
    """Both press `y`: one of them is told that it was carried out, the other one who was first."""
    disk = Disk()
    async with (
        running(tmp_path, model=Listening(says(WRITE), final()), approvers="role:reviewer") as server,
        connected(server, "3", disk),
    ):
        bob, carol = await server.person("bob", "reviewer"), await server.person("carol", "reviewer")
        async with seated(server, bob) as one, seated(server, carol) as other:
            request = await waiting(server)
            for seat in (one, other):
                await seat.press("2")
                await seat.sees("+print('new')")
            resume = decision(request, "approve")
            taken = await asyncio.gather(
                one.app.reviews.decide(request, resume), other.app.reviews.decide(request, resume)
            )
            assert sorted(taken) == [False, True]
            first, late = (one, other) if taken[0] else (other, one)
            await first.sees("Carried out: approved by you")
            await late.sees(f"{'bob' if taken[0] else 'carol'} approved it")
        await server.until(request.task_id, "task_ended")
        assert disk.done == ["fs_write a.lua"]


async def test_a_standing_approval_is_shown_before_it_is_given(tmp_path: Path) -> None:
    """`g` says what would run without asking from now on; the next call like it is not asked about."""
    disk = Disk({"a.lua": b""})
    model = Listening(says(WRITE), says(call("cc_write", path="a.lua", content=NEW.decode())), final())
    async with running(tmp_path, model=model) as server, connected(server, "3", disk), seated(server) as seat:
        request = await waiting(server)
        await seat.press("2")
        await seat.sees("a.lua")
        await seat.press("g")
        await seat.sees("Approve it, and from now on without asking:")
        await seat.press("2")
        await seat.sees("This will run from now on without asking:")
        await seat.press("y")
        await seat.sees("Carried out: approved by you")
        await server.until(request.task_id, "task_ended")
        assert len((await server.ask("GET", "/v1/grants")).json()["grants"]) == 1
