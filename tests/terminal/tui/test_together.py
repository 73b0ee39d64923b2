"""Several requests decided together in the terminal UI: each was shown, and what became of each is said."""

from pathlib import Path

import pytest

from orchestrator.terminal.tui.batch import Together
from tests.harness.support import NEW, call, final, says
from tests.terminal.tui.driving import Seat, TuiFixture, at_work, waiting

NAMES = ("a.lua", "b.lua", "c.lua")
REPLIES = [says(call("cc_write", path=name, content=NEW.decode())) for name in NAMES]


async def three(fixture: TuiFixture) -> list[str]:
    """Three tasks that wait, the oldest first; the ids of their requests."""
    return [(await waiting(fixture.server)).request_id for _ in NAMES]


async def read_to_the_end(seat: Seat) -> None:
    """Scroll until all of it was on the screen."""
    while "Space goes on" in seat.text:
        await seat.press("space")
        await seat.pilot.pause()


async def test_several_are_shown_whole_and_decided_together(tmp_path: Path) -> None:
    """Not before all of each was on the screen; each is told done, or who was first."""
    replies = [*REPLIES, *[final()] * 3]
    async with at_work(tmp_path, *replies, approvers="role:reviewer") as fixture:
        seat, server = fixture.seat, fixture.server
        bob = await server.person("bob", "reviewer")
        ids = await three(fixture)
        await seat.sees("[2 Approvals(3)]")
        await seat.asks("s", "Tick those that you want to decide together")
        await seat.asks("asterisk", "[x] ")
        await seat.asks("s", "3 requests, one decision", "══ 1 of 3", "Space goes on")
        await seat.press("end")
        await seat.asks("a", "Not all of it was on the screen yet")
        await seat.press("home")
        await read_to_the_end(seat)
        await seat.sees("a approve these 3", "c.lua")
        assert (await server.ask("POST", f"/v1/approve/{ids[1]}", token=bob)).status_code == 202
        await seat.sees("2/3  cc_write on computer 3: b.lua", "Decided elsewhere: approved by bob.")
        await seat.asks("a", "Let these 2 requests run", "a.lua", "c.lua")
        await seat.press("y")
        await seat.sees("1/3  cc_write", "Carried out: approved by you", "None of these waits any more")
        await seat.until(lambda: len(fixture.disk.done) == 3, "all were written")
        await seat.asks("escape", "Nothing waits for you.")


@pytest.mark.deep
async def test_those_that_are_ticked_are_rejected_and_one_is_too_late(tmp_path: Path) -> None:
    """Space ticks one; a rejection needs no reading; one that somebody decides meanwhile is told as too late."""
    replies = [*REPLIES, *[final(success=False)] * 3]
    async with at_work(tmp_path, *replies, approvers="role:reviewer") as fixture:
        seat, server = fixture.seat, fixture.server
        bob = await server.person("bob", "reviewer")
        ids = await three(fixture)
        await seat.sees("[2 Approvals(3)]")
        await seat.press("home", "space", "space")
        await seat.asks("s", "2 requests, one decision")
        await seat.asks("r", "Reject these 2 requests. Why?")
        await seat.type("not now")
        await seat.sees("> reject and tell the model")
        together = next(one for one in seat.app.screen_stack if isinstance(one, Together))
        assert (await server.ask("POST", f"/v1/reject/{ids[0]}", token=bob)).status_code == 200
        await seat.press("enter")
        await seat.sees("2/2  cc_write on computer 3: b.lua", "Carried out: rejected by you")
        assert together.became[ids[0]].endswith(("rejected by bob.", "bob rejected it."))
        await seat.press("escape")
        await seat.sees("[2 Approvals(1)]")
        assert not fixture.disk.done


@pytest.mark.deep
async def test_without_a_connection_nothing_is_delivered(tmp_path: Path) -> None:
    """Each is told as not delivered, stays, and is decided there once there is a connection."""
    replies = [*REPLIES, *[final()] * 3]
    async with at_work(tmp_path, *replies) as fixture:
        seat = fixture.seat
        await three(fixture)
        await seat.sees("[2 Approvals(3)]")
        await seat.press("asterisk")
        await seat.asks("s", "3 requests, one decision")
        await read_to_the_end(seat)
        await seat.asks("a", "Let these 3 requests run")
        socket, seat.app.reviews._socket = seat.app.reviews._socket, None
        await seat.press("y")
        await seat.sees("1/3  cc_write", "3/3", "Not delivered: there is no connection.")
        await seat.sees("a approve these 3   r reject these 3")
        seat.app.reviews._socket = socket
        await seat.asks("escape", "[2 Approvals(3)]", "[x] ")
        await seat.asks("s", "3 requests, one decision")
        await read_to_the_end(seat)
        await seat.asks("a", "Let these 3 requests run")
        seat.app.reviews._socket = None
        await seat.asks("y", "Not delivered: there is no connection.", "a approve these 3")
        assert not fixture.disk.done
        seat.app.reviews._socket = socket
        await seat.agrees("a", "Let these 3 requests run", "Carried out: approved by you", "None of these waits")
        await seat.until(lambda: len(fixture.disk.done) == 3, "all were written")
