"""The terminal UI while its server is killed and started again: it comes back by itself."""

import asyncio
import signal
from pathlib import Path

import pytest

from orchestrator.terminal.review.edit import decision
from tests.harness.commands import paused, talking
from tests.harness.support import Listening, final
from tests.harness.whole_server import running
from tests.terminal.tui.driving import seated_at


@pytest.mark.deep
async def test_the_server_is_killed_and_comes_back(tmp_path: Path) -> None:
    """It is said, a decision meanwhile is not delivered; once it is back what waited waits, and is decided."""
    data = tmp_path / "data"
    with talking(tmp_path, data) as server:
        task_id = await asyncio.to_thread(paused, server)
        token = (data / "admin.token").read_text("utf-8").strip()
        async with seated_at(server.url, token) as seat:
            await seat.press("2")
            await seat.sees("plan.txt", "+new")
            server.process.kill()
            await seat.sees("NOT CONNECTED", "The connection is lost")
            (request,) = seat.app.reviews.requests.values()
            await seat.press("a")
            await seat.sees("Let it run")
            await seat.press("y")
            await seat.sees("Not delivered: there is no connection.")
            with talking(tmp_path, data, server.port):
                await seat.sees("The connection is back.", "waiting: 1 request")
                await seat.press("1")
                await seat.sees(task_id, "[REVIEW] local_write waits for approval", "+new")
                await seat.press("o")
                await seat.press("a")
                await seat.sees("Let it run")
                await seat.press("y")
                await seat.sees("Carried out: approved by you")
                await seat.press("1")
                await seat.sees("[FINAL] Success=True", "Completed")
    assert request.task_id == task_id


@pytest.mark.deep
async def test_a_list_that_was_opened_meanwhile_is_read_when_it_is_back(tmp_path: Path) -> None:
    """Grants that nobody could tell are told by themselves once the connection stands again."""
    data = tmp_path / "data"
    with talking(tmp_path, data) as server:
        token = (data / "admin.token").read_text("utf-8").strip()
        async with seated_at(server.url, token) as seat:
            await seat.asks("5", "── Rule 1: looking")
            server.process.kill()
            await seat.sees("NOT CONNECTED", "The connection is lost")
            await seat.asks("g", "Grants: they never cover", "Nobody has told yet.")
            with talking(tmp_path, data, server.port):
                await seat.sees("No grant: everything that the policy asks about")


@pytest.mark.deep
async def test_what_becomes_of_what_was_sent_is_said_where_its_list_was_left(tmp_path: Path) -> None:
    """A grant is taken back while the server stands still, and its list is left before the answer."""
    data = tmp_path / "data"
    with talking(tmp_path, data) as server:
        await asyncio.to_thread(paused, server)
        token = (data / "admin.token").read_text("utf-8").strip()
        async with seated_at(server.url, token) as seat:
            await seat.press("2")
            await seat.sees("plan.txt", "+new")
            await seat.asks("g", "Approve it, and from now on without asking:")
            await seat.agrees("3", "Approve this call and grant that?", "Carried out: approved by you")
            await seat.asks("5", "── Rule 1: looking")
            await seat.asks("g", "in force", "calls like it, in its session")
            await seat.asks("x", "Take it back?")
            server.process.send_signal(signal.SIGSTOP)
            await seat.asks("y", "Sent, and not confirmed yet.")
            await seat.asks("escape", "g grants")
            server.process.send_signal(signal.SIGCONT)
            await seat.sees("Carried out: it is taken back.")


async def test_a_decision_on_its_way_is_sent_again_and_counts_once(tmp_path: Path) -> None:
    """The server is stopped when the decision is sent and killed before it answers: it is sent again to the next."""
    data = tmp_path / "data"
    with talking(tmp_path, data) as server:
        task_id = await asyncio.to_thread(paused, server)
        token = (data / "admin.token").read_text("utf-8").strip()
        async with seated_at(server.url, token) as seat:
            await seat.until(lambda: bool(seat.app.reviews.requests), "a request")
            (request,) = seat.app.reviews.requests.values()
            server.process.send_signal(signal.SIGSTOP)
            deciding = asyncio.create_task(seat.app.reviews.decide(request, decision(request, "approve")))
            await seat.until(lambda: seat.app.reviews.unheard == 1, "sent")
            await seat.pilot.pause(0.1)
            server.process.kill()
            await seat.sees("NOT CONNECTED")
            assert not deciding.done()
            with talking(tmp_path, data, server.port):
                assert await deciding
                await seat.sees("Carried out: approved by you")
                await seat.press("1")
                await seat.sees(task_id, "[FINAL] Success=True")


async def test_a_token_that_is_revoked_ends_the_dialing(tmp_path: Path) -> None:
    """Whose token is revoked is told so, and not that the server is looked for; what nobody told is not `none`."""
    async with running(tmp_path, model=Listening(final())) as server:
        bob = await server.person("bob", "reviewer")
        async with seated_at(server.url, bob) as seat:
            assert (await server.ask("DELETE", "/v1/tokens/person/bob")).status_code == 200
            await seat.sees("signed out: The server ended it: the token was revoked.")
            await seat.press("4")
            await seat.sees("Nobody has told yet.")
            assert "it is looked for" not in seat.text
