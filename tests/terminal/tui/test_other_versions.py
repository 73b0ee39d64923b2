"""The terminal UI and the console reviewer at a server of another version: nothing is hidden, nothing is guessed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.client import Client
from orchestrator.core.errors import FrameRefused
from orchestrator.core.task.items import SCHEMA_VERSION
from orchestrator.core.wire import review
from orchestrator.terminal.cli.review import decide_named, list_waiting
from orchestrator.terminal.console.loop import ReviewLoop
from orchestrator.terminal.review.channel import OddRequest, OddRequests, messages_of, odd_lines
from orchestrator.terminal.review.request_view import Line
from orchestrator.terminal.tui.approvals import Approvals
from tests.harness.asked import console, request, shown
from tests.harness.support import WRITE, Disk, Listening, dialed, final, says
from tests.harness.whole_server import connected, running
from tests.terminal.tui.between import another_version
from tests.terminal.tui.driving import Seat, asked, seated_at, waiting
from tests.waiting import within

NEWER = {'"on_reject":': '"on_refuse":'}
"""A field of requests has another name."""


def plain(lines: list[Line]) -> list[str]:
    """Their text."""
    return [line.text for line in lines]


@pytest.mark.deep
async def test_a_request_that_cannot_be_read_is_shown_whole_and_not_decided(tmp_path: Path) -> None:
    """It counts, stands there as the JSON that came, takes no key, and goes when it is decided elsewhere."""
    disk = Disk()
    async with (
        running(tmp_path, model=Listening(says(WRITE), final())) as server,
        connected(server, "3", disk),
        another_version(server.url, told=NEWER) as url,
        seated_at(url, server.admin) as seat,
    ):
        one = await waiting(server)
        await seat.press("2")
        await seat.sees("[2 Approvals(1)]", "A request that this program cannot read", "waiting: 1 request")
        raw = json.loads(one.model_dump_json().replace('"on_reject":', '"on_refuse":'))
        page = plain(seat.app.query_one(Approvals).page.lines)
        assert page == plain(odd_lines(OddRequest(one.request_id, raw)))
        assert any('"on_refuse": "cancel"' in line for line in page)
        assert any('"content": "print(\'new\')\\n"' in line for line in page)
        for key in ("a", "r", "e", "i", "p", "g", "s", "x", "d", "w"):
            await seat.press(key)
            assert len(seat.app.screen_stack) == 1
        await seat.asks("a", "This program cannot read it: nothing is decided about it.")
        assert (await server.ask("POST", one.approval_url)).status_code == 202
        await seat.sees("Nothing waits for you.")
        await server.until(one.task_id, "task_ended")


@pytest.mark.deep
async def test_the_console_shows_what_it_cannot_read_and_counts_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`review` writes the whole JSON, decides nothing about it, and does not say that nothing waits.

    So do `review --list` and `review --approve`.
    """
    here, said, _ = console()
    disk = Disk()
    async with (
        running(tmp_path, model=Listening(says(WRITE), final())) as server,
        connected(server, "3", disk),
        another_version(server.url, told=NEWER) as url,
    ):
        one = await waiting(server)
        client = Client(url, server.admin)
        try:
            loop = ReviewLoop(client, here)
            await within(loop.run(until_empty=True))
            named = await asyncio.to_thread(decide_named, client, here, [one.request_id], "approve", sure=True)
            await asyncio.to_thread(list_waiting, client, False)
        finally:
            client.close()
        assert loop.undecided == 1
    text = "\n".join(said)
    assert text.count(f"A request that this program cannot read ─ {one.request_id}") == 2
    assert '"on_refuse": "cancel"' in text
    assert "Nothing waits" not in text
    assert named is not None
    assert (named[0].carried_out, "nothing is decided about it here" in named[0].said) == (False, True)
    assert '"on_refuse": "cancel"' in capsys.readouterr().out
    assert not disk.done


async def test_a_task_of_a_newer_server_is_said_to_be_newer(tmp_path: Path) -> None:
    """Its log cannot be read: that is a sentence, and the rest goes on."""
    newer = {f'"schema": {SCHEMA_VERSION}': '"schema": 9'}
    async with running(tmp_path, model=Listening(final())) as server:
        await server.until(await server.submit(()), "task_ended")
        async with another_version(server.url, told=newer) as url, seated_at(url, server.admin) as seat:
            await seat.sees("An item has schema 9; this version reads up to", "Unverified")


@pytest.mark.deep
async def test_pictures_that_a_computer_does_not_have_are_said(tmp_path: Path) -> None:
    """Its client is named in place of a picture."""
    async with (
        running(tmp_path, model=Listening(final())) as server,
        dialed(server.url, await server.computer("3")) as old,
    ):
        await old.greet()
        async with seated_at(server.url, server.admin) as seat:
            await seat.press("4")
            await seat.sees("3: s shows its screen")
            await seat.press("s")
            await seat.sees("The client on this computer")
            await seat.press("escape")
            await seat.sees("3: s shows its screen")


def frame(**more: Any) -> dict[str, Any]:
    """A snapshot with two requests."""
    two = [request(shown()).model_dump(mode="json"), request(shown()).model_dump(mode="json")]
    return {"type": "snapshot", "seq": 1, "requests": two, "questions": [], **more}


def test_what_a_newer_server_says_more_is_left_out_but_not_of_a_request() -> None:
    """Of a frame the rest is read; a request that is not read whole is handed on; no message at all is refused."""
    newer = frame(weather="fine")
    newer["requests"][0]["quorum"] = 2
    odd, snapshot = messages_of(json.dumps(newer))
    assert isinstance(snapshot, review.Snapshot)
    assert len(snapshot.requests) == 1
    assert odd == OddRequests((OddRequest(newer["requests"][0]["request_id"], newer["requests"][0]),), anew=True)
    opened = {"type": "request_opened", "seq": 2, "request": newer["requests"][0]}
    assert messages_of(json.dumps(opened)) == [OddRequests(odd.requests, anew=False)]
    (read,) = messages_of(json.dumps({**opened, "request": newer["requests"][1], "more": 1}))
    assert isinstance(read, review.RequestOpened)
    assert messages_of('{"type": "weather", "seq": 3}') == []
    for broken in ("[]", "{", json.dumps({"type": "done", "seq": "no"})):
        with pytest.raises(FrameRefused):
            messages_of(broken)


@pytest.mark.deep
@pytest.mark.parametrize("broken", ["args", "observed"])
async def test_what_cannot_be_drawn_is_shown_as_it_came(tmp_path: Path, broken: str) -> None:
    """A fault of the drawing leaves the list, the page and the dialogs alive, and shows the raw request (V5)."""
    async with asked(tmp_path, says(WRITE), final()) as (fixture, one):
        odd = one.tool_calls[0].model_copy(update={broken: None})
        fixture.seat.app.reviews.requests[one.request_id] = one.model_copy(update={"tool_calls": (odd,)})
        await redrawn(fixture.seat)
        await fixture.seat.sees("could not be drawn")
        assert any(one.request_id in line for line in plain(fixture.seat.app.query_one(Approvals).page.lines))
        await fixture.seat.press("a")
        await fixture.seat.sees("Let it run")


async def redrawn(seat: Seat) -> None:
    """Draw the request that is shown anew."""
    pane = seat.app.query_one(Approvals)
    pane.chosen(pane.rows.chosen)
    pane.changed()
    await seat.pilot.pause()
