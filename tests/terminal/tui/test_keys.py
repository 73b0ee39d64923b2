"""The keys of the terminal UI that its page in the docs names, each seen to do what it says there."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.ports import ChatMessage, ModelReply
from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import SettledCall
from orchestrator.terminal.review.edit import decision
from orchestrator.terminal.review.request_view import BAR, Line
from orchestrator.terminal.tui.lines_view import rows_of
from tests.harness.support import NEW, WRITE, Disk, Listening, StubClient, call, dialed, final, says
from tests.harness.whole_server import Server, connected, running
from tests.terminal.tui.driving import WIDE, Seat, seated, waiting
from tests.terminal.tui.test_approvals import cut_off_at_a_run

SAID = "Another tab is in front."


def test_a_broken_line_goes_on_behind_a_bar_of_its_own() -> None:
    """So that no part of a text of the world looks like a line of ours, and nothing of it is lost."""
    text = "cc_write on computer 3 " * 9
    first, *more = rows_of(Line(BAR + text), 40)
    assert first.text.startswith(BAR)
    assert len(more) > 3
    assert all(row.text.startswith("  ┊ ") for row in more)
    assert first.text.removeprefix(BAR) + "".join(row.text.removeprefix("  ┊ ") for row in more) == text


@pytest.mark.deep
async def test_a_request_is_given_time_and_looked_at_from_all_sides(tmp_path: Path) -> None:
    """An hour more, its page alone and the list again, everything as JSON, its task; what was said; another look."""
    async with (
        running(tmp_path, model=Listening(says(WRITE), final())) as server,
        connected(server, "3", Disk()),
        seated(server) as seat,
    ):
        before = await waiting(server)
        await seat.press("2")
        await seat.sees("+print('new')", "RISK    LEFT")
        await seat.press("enter")
        await seat.until(lambda: "RISK    LEFT" not in seat.text, "the page alone")
        await seat.press("escape")
        await seat.sees("RISK    LEFT", "+print('new')")
        await seat.press("x")
        await seat.sees("It expires an hour later.")
        (after,) = (await server.ask("GET", "/v1/requests")).json()["requests"]
        assert before.expires_at is not None
        later = type(before).model_validate(after).expires_at
        assert later is not None
        assert (later - before.expires_at).total_seconds() > 3500
        await seat.press("d")
        await seat.sees("All of it: digests, hashes, rules")
        await seat.press("escape", "m")
        await seat.sees("What was said, the last first", "It expires an hour later.")
        await seat.press("escape", "ctrl+t")
        assert seat.app.theme == "textual-light"
        await seat.press("v")
        await seat.sees("[1 Tasks]", "[REVIEW] cc_write")
        (shown_call,) = before.tool_calls
        other = before.model_copy(update={"tool_calls": (shown_call.model_copy(update={"action_digest": "0" * 64}),)})
        assert not await seat.app.reviews.decide(other, decision(other, "approve"))
        await seat.sees("It has changed, so nothing was sent.")


@pytest.mark.deep
async def test_the_audit_grows_while_it_is_looked_at(tmp_path: Path) -> None:
    """What happens stands there without a key."""
    async with running(tmp_path, model=Listening(final(success=False))) as server, seated(server) as seat:
        await seat.press("6")
        await seat.sees("Token made")
        assert "Task submitted" not in seat.text
        await server.submit(())
        await seat.sees("Task submitted", "Task ended")


@pytest.mark.deep
async def test_what_somebody_changed_since_is_put_back_only_when_that_is_chosen(tmp_path: Path) -> None:
    """`o` shows what would be done then, and begins nothing yet."""
    disk = Disk({"a.lua": b"old"})
    async with (
        running(tmp_path, model=Listening(says(WRITE), final("all is well"))) as server,
        connected(server, "3", disk),
        seated(server, size=WIDE) as seat,
    ):
        request = await waiting(server)
        await server.ask("POST", request.approval_url)
        await server.until(request.task_id, "task_ended")
        disk.files["a.lua"] = b"mine"
        await seat.sees("Completed")
        await seat.press("u")
        await seat.sees("Put back what the task changed?", "KEEP", "o restore what somebody changed since")
        await seat.press("o")
        await seat.sees("put back  3:a.lua")
        assert len((await server.ask("GET", "/v1/tasks")).json()["tasks"]) == 1
        await seat.press("y")
        await seat.sees("puts it back.")
        undo = (await server.ask("GET", "/v1/tasks")).json()["tasks"][0]["task_id"]
        assert "old" in json.dumps((await server.paused(undo))["tool_calls"])


class Halting(Listening):
    """A model that tells its last reply, and ends it when it may."""

    def __init__(self, *script: Any) -> None:
        super().__init__(*script)
        self.may = asyncio.Event()

    async def reply(
        self, messages: Sequence[ChatMessage], *, on_text: Callable[[str], None] | None = None, **more: Any
    ) -> ModelReply:
        """The next reply."""
        reply = await super().reply(messages, **more)
        if not self.script and on_text is not None:
            on_text(reply.text[:-1])
            on_text(reply.text[-1:])
            await self.may.wait()
        return reply


async def test_what_the_model_writes_is_seen_as_it_comes(tmp_path: Path) -> None:
    """Its explanation stands on the page before the reply is whole, and once when it is."""
    asks = says(call("ask_user", question="Go on?"))
    model = Halting(asks, final(success=False))
    async with running(tmp_path, model=model) as server, seated(server, size=WIDE) as seat:
        task_id = await server.submit(())
        await seat.sees("[QUESTION]", "Go on?")
        await seat.press("a")
        await seat.sees("Your answer")
        await seat.type("yes")
        await seat.press("ctrl+s")
        await seat.sees("[EXPLANATION] that was it")
        assert "[FINAL]" not in seat.text
        model.may.set()
        await server.until(task_id, "task_ended")
        assert (await seat.sees("[FINAL]")).count("that was it") == 1


async def shown(client: StubClient, of: str | None, row: str) -> int:
    """Answer the next watch of this screen with a picture; its number."""
    watch, _ = await client.hear("watch")
    while watch.of != of or watch.lease_s == 0:
        watch, _ = await client.hear("watch")
    body = bytes([1, len(row)]) + row.encode() + bytes([1, 20, 0x0F])
    picture = wire.Picture(
        journal_seq=2, watch=watch.watch, n=1, whole=True, width=20, height=1, x=1, y=1, blink=False,
        body=wire.whole(body),
    )  # fmt: skip
    await client.send(picture, body)
    return int(watch.watch)


@pytest.mark.deep
async def test_a_monitor_is_looked_at_and_what_is_not_typed_is_said(tmp_path: Path) -> None:
    """`o` shows the next screen; `t` says why nothing was typed; who leaves the picture watches no more."""
    async with (
        running(tmp_path, model=Listening(final())) as server,
        seated(server) as seat,
        dialed(server.url, await server.computer("farm")) as client,
    ):
        await client.greet(capabilities=("mirror", "keys"))
        await seat.press("4")
        await seat.sees("Online", "farm: s shows its screen")
        await seat.press("s")
        await shown(client, None, "its own")
        await seat.sees("its own", "farm: its screen")
        await seat.press("o")
        look, _ = await client.hear("look")
        screens = json.dumps([{"width": 20, "height": 1}, {"of": "left", "width": 20, "height": 1}]).encode()
        await client.send(wire.Screens(journal_seq=2, look=look.look, body=wire.whole(screens)), screens)
        number = await shown(client, "left", "a monitor")
        await seat.sees("a monitor", "farm: its monitor left")
        await seat.press("t")
        await seat.sees("Type at farm")
        await seat.type("x")
        await seat.press("enter")
        for stroke in ({"char": "x"}, {"key": "enter"}):
            keys, body = await client.hear()
            while not isinstance(keys, wire.Keys):
                keys, body = await client.hear()
            assert json.loads(body) == [stroke]
            said: dict[str, Any] = (
                {"ok": True} if "char" in stroke else {"ok": False, "code": "other_tab", "message": SAID}
            )
            await client.send(wire.Keyed(journal_seq=2, keys=keys.keys, **said))
        await seat.sees(SAID)
        await seat.press("escape")
        await seat.sees("farm: s shows its screen")
        ended, _ = await client.hear("watch")
        while (ended.watch, ended.lease_s) != (number, 0):
            ended, _ = await client.hear("watch")


async def test_every_word_about_an_unknown_outcome_has_its_key(tmp_path: Path) -> None:
    """`c` and `t` ask first and are taken back, `f` says that it failed."""
    model, disk = Listening(says(call("cc_run_program", path="a.lua")), final(success=False)), Disk({"a.lua": NEW})
    async with running(tmp_path, model=model) as server, seated(server) as seat:
        task_id = await cut_off(server, disk, seat)
        for key, asks in (("c", "Ask the computer once more?"), ("t", "Ask for it again, as a new call")):
            await seat.press(key)
            await seat.sees(asks)
            await seat.press("escape")
        asked = "It was not carried out: tell the model that it failed?"
        await seat.agrees("f", asked, "Carried out: marked as failed by you")
        await server.until(task_id, "task_ended")
    assert "admin looked and says that it was not done" in model.told


async def cut_off(server: Server, disk: Disk, seat: Seat) -> str:
    """A task whose program was cut off, so that nobody knows what became of it; its id."""
    token = await server.computer("3")
    async with dialed(server.url, token) as client:
        await client.greet()
        cutting = asyncio.create_task(cut_off_at_a_run(client, disk))
        request = await waiting(server)
        await server.ask("POST", request.approval_url)
        await cutting
    async with dialed(server.url, token) as client:
        await client.greet(boot="boot-2")
        settle, _ = await client.hear("settle")
        calls = [SettledCall(call_id=one, state="interrupted") for one in settle.call_ids]
        await client.settled(settle.number, *calls)
        serving = asyncio.create_task(client.serve(disk))
        await seat.press("2")
        await seat.sees("CLOSED: approved by admin", "UNKNOWN OUTCOME")
        await seat.press("down")
        await seat.sees("A person has to look")
        await client.socket.close()
        await serving
    return request.task_id
