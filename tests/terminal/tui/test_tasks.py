"""Tasks, questions and the rest of the terminal UI on a screen in memory, against a real server."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters.models.scripted import ScriptedModel
from orchestrator.core.text.visible import visible
from orchestrator.terminal.tui.screen import Picture
from orchestrator.terminal.tui.tasks import Tasks
from orchestrator.testing.stub_computer import StubComputer
from tests.harness.support import NEW, WRITE, Disk, Listening, call, dialed, final, says, stubs_connected
from tests.harness.whole_server import connected, running
from tests.terminal.tui.between import another_version
from tests.terminal.tui.driving import WIDE, Seat, seated, seated_at

ASK = call("ask_user", question="Left or right?")
NASTY = "[red]r[/] [@click=app.quit]q[/] \x1b[31mansi\x1b[0m \u202ebidi \x07"
LABEL = "[b]l[/b]\x9b31m[@click=app.quit]"
"""What a terminal, this library and a reader may be fooled with."""


def shows_nothing_raw(seat: Seat) -> None:
    """No control or bidi character stands on the screen, and no style came out of markup."""
    assert not set(seat.text) & {"\x1b", "\x9b", "\u202e", "\x07"}
    for strip in seat.app.screen._compositor.render_strips():
        assert not any("@click" in (segment.style.meta if segment.style else {}) for segment in strip)


async def test_a_task_is_submitted_watched_and_undone(tmp_path: Path) -> None:
    """`n` writes a task and picks a computer; its steps are shown as they happen; `u` shows what an undo would do."""
    disk = Disk()
    async with (
        running(tmp_path, model=Listening(says(WRITE), final("all is well"))) as server,
        connected(server, "3", disk),
        seated(server) as seat,
    ):
        await seat.sees("There are no tasks. n submits one.")
        await seat.press("n")
        await seat.sees("A new task", "[x] 3", "[ ] it may only look")
        await seat.press("ctrl+s")
        await seat.sees("Say what to do, above.")
        await seat.type("write it")
        await seat.press("ctrl+s")
        await seat.sees("is submitted", "write it", "[TOOL] cc_write", "+print('new')", "Paused, for approval")
        await seat.press("o")
        await seat.sees("[2 Approvals(1)]", "A person has to decide")
        await seat.press("a")
        await seat.sees("Let it run")
        await seat.press("y")
        await seat.sees("Carried out")
        await seat.press("1")
        await seat.sees("[TOOL_RESULT] Wrote 13 bytes", "[FINAL] Success=True, Message=all is well", "2 steps")
        await seat.press("u")
        await seat.sees("Put back what the task changed?", "remove    3:a.lua")
        await seat.press("y")
        await seat.sees("puts it back.")
        assert len((await server.ask("GET", "/v1/tasks")).json()["tasks"]) == 2


async def test_a_question_is_answered(tmp_path: Path) -> None:
    """A question appears by itself, is answered where the questions are, and closes."""
    model = Listening(says(ASK), final(success=False))
    async with running(tmp_path, model=model) as server, seated(server) as seat:
        await seat.press("3")
        await seat.sees("No task asks anything.")
        task_id = await server.submit(())
        await seat.sees("[3 Questions(1)]", "the model asks: Left or right?")
        await seat.press("a")
        await seat.sees("Your answer")
        await seat.type("the ")
        # Over a slow line arrow keys come apart: each begins like Escape, and none drops what was written.
        for _ in range(2):
            await seat.asks("escape", "Esc once more drops what you wrote.")
            await seat.press("l")
            await seat.until(lambda: "once more" not in seat.text, "that who writes on drops nothing")
            await seat.press("backspace")
        await seat.type("left one")
        await seat.press("ctrl+s")
        await seat.sees("Carried out: answered by you", "No task asks anything.")
        await server.until(task_id, "task_ended")
        assert "the left one" in model.told


@pytest.mark.deep
async def test_a_task_is_canceled_with_a_reason(tmp_path: Path) -> None:
    """`c` asks why; a task that has ended is not canceled again."""
    async with (
        running(tmp_path, model=Listening(says(ASK))) as server,
        seated(server, size=WIDE) as seat,
    ):
        task_id = await server.submit(())
        await seat.sees("Paused, for an answer")
        await seat.press("c")
        await seat.sees("Cancel t-")
        await seat.type("enough")
        await seat.press("enter")
        await seat.sees(f"Task {task_id} is canceled", "> - Canceled")
        await seat.press("c")
        await seat.sees("It has ended already")
        audit = (await server.ask("GET", f"/v1/audit?task={task_id}&kind=cancel_requested")).json()["items"]
        assert audit[0]["fact"]["reason"] == "enough"


@pytest.mark.deep
async def test_the_time_of_a_task_counts_from_its_beginning(tmp_path: Path) -> None:
    """A task that began a day ago, by the server's clock, has run for a day when it is opened, and goes on."""
    today = datetime.now(UTC)
    tomorrow = {f"{today:%d %b %Y}": f"{today + timedelta(days=1):%d %b %Y}"}
    async with running(tmp_path, model=Listening(says(ASK))) as server:
        await server.until(await server.submit(()), "question_asked")
        async with another_version(server.url, told=tomorrow) as url, seated_at(url, server.admin) as seat:
            await seat.sees("waiting for an answer (step 1 of", ", 24:00:0")
            await seat.until(lambda: not re.search(r", 24:00:0[01]\)", seat.text), "it counts")


@pytest.mark.deep
async def test_many_tasks_are_listed_and_filtered(tmp_path: Path) -> None:
    """The list holds them all, moves at once, and keeps what is chosen while it changes."""
    async with (
        running(tmp_path, model=ScriptedModel([final()])) as server,
        seated(server) as seat,
    ):
        tasks = [await server.submit((), prompt=f"number {number}") for number in range(120)]
        pane = seat.app.query_one(Tasks)
        await seat.until(lambda: len(pane.rows.entries) == 120, "all of them")
        await seat.press("end")
        await seat.sees("> ", "number 0")
        assert pane.rows.chosen == tasks[0]
        newer = await server.submit((), prompt="the newest")
        await seat.until(lambda: pane.rows.entries[0].key == newer, "the newest first")
        assert pane.rows.chosen == tasks[0]
        await seat.press("slash")
        await seat.sees("Only tasks with this in them")
        await seat.type("number 11")
        await seat.press("enter")
        await seat.until(lambda: len(pane.rows.entries) == 11, "eleven")
        await seat.press("f", "f")
        await seat.sees("Filter: waiting, with 'number 11': none.")


@pytest.mark.deep
async def test_hostile_text_shows_as_text(tmp_path: Path) -> None:
    """Markup, escapes and bidi in prompts, labels, paths, explanations, output and questions are characters."""
    disk = Disk({"[@click=app.quit]x[/].lua": NEW}, output=NASTY.encode())
    path = "[@click=app.quit]x[/].lua"
    model = Listening(
        says(call("cc_write", path=path, content=f"-- {NASTY}\n"), explanation=NASTY),
        says(call("cc_run_program", path=path), explanation=NASTY),
        says(call("ask_user", question=NASTY)),
        final(NASTY),
    )
    shown = visible(NASTY)
    async with running(tmp_path, model=model) as server, seated(server, size=(200, 39)) as seat:
        token = await server.computer("3")
        async with dialed(server.url, token) as client:
            await client.greet(label=LABEL)

            serving = asyncio.create_task(client.serve(disk))
            await seat.press("4")
            await seat.sees(f"label    {visible(LABEL)}")
            shows_nothing_raw(seat)
            task_id = await server.submit(prompt=NASTY)
            await seat.press("2")
            for wanted in (f"│ +-- {shown}", f"│ -- {shown}"):
                await seat.sees("[@click=app.quit]x[/].lua", f"written by the model: {shown}", wanted)
                shows_nothing_raw(seat)
                await seat.press("a")
                await seat.sees("Let it run", "[@click=app.quit]x[/].lua")
                shows_nothing_raw(seat)
                await seat.press("y")
                await seat.sees("Carried out")
                await seat.press("2")
            await seat.press("3")
            await seat.sees("[red]r[/]", "\\u{1b}[31mansi")
            await seat.press("a")
            await seat.sees("Your answer")
            shows_nothing_raw(seat)
            await seat.press("x", "ctrl+s")
            await seat.sees("Carried out")
            for part in "1456":
                await seat.press(part)
                await seat.pilot.pause(0.1)
                shows_nothing_raw(seat)
            await server.until(task_id, "task_ended")
            await seat.press("1")
            await seat.sees(f"Message={shown}"[:60], "Output:")
            shows_nothing_raw(seat)
            await client.socket.close()
            await serving


@pytest.mark.deep
async def test_who_is_no_admin_is_refused_once(tmp_path: Path) -> None:
    """People and the versions of clients are told to admins only: it is said, and not asked for again and again."""
    async with running(tmp_path, model=Listening(final())) as server, connected(server, "3", Disk()):
        bob = await server.person("bob", "submitter")
        async with seated(server, bob) as seat:
            for _ in range(2):
                await seat.press("7")
                await seat.sees("Only admins are told")
                await seat.press("4")
                await seat.sees("Online", "runs     ComputerCraft")
            assert "client " not in seat.text
            await seat.asks("7", "Only admins are told")
            await seat.asks("x", "This needs the role admin: ask an admin.")
        found = (await server.ask("GET", "/v1/audit?system=1&kind=attempt_refused")).json()["items"]
        assert sorted(one["fact"]["door"] for one in found) == ["GET /v1/doctor", "GET /v1/tokens"]


async def test_every_part_says_something(tmp_path: Path) -> None:
    """Computers, policy, audit and people are shown; the help names every key."""
    async with (
        running(tmp_path, model=Listening(final())) as server,
        connected(server, "3", Disk()),
        seated(server) as seat,
    ):
        await seat.press("4")
        await seat.sees("> 3 ", "Online", "Advanced computer", "client   0.1.0")
        await seat.press("5")
        await seat.sees("changing", "ask", "── Rule 1: looking")
        await seat.press("6")
        await seat.sees("admin", "Token made")
        await seat.press("7")
        await seat.sees("computer", "admin", "good")
        await seat.press("question_mark")
        await seat.sees("Keys", "light or dark")
        await seat.press("escape")
        await seat.pilot.resize_terminal(*WIDE)
        await seat.sees("[7 People]")
        await seat.pilot.resize_terminal(40, 12)
        await seat.press("q")


def picture(**more: Any) -> dict[str, Any]:
    """An event of a screen of three cells."""
    event = {"of": "terminal", "whole": True, "width": 3, "height": 2, "x": 1, "y": 1, "blink": True}
    rows = [{"y": 1, "text": ["a", "\x1b", "世"], "fg": "0e1", "bg": "fff"}]
    return {**event, "palette": ["#f0f0f0"] * 14 + ["#cc4c4c", "#111111"], "rows": rows, **more}


async def test_a_picture_is_drawn_cell_by_cell(tmp_path: Path) -> None:
    """A screen's cells have their colours and one column each; what would move the cursor is no character of it."""
    async with running(tmp_path, model=Listening(final())) as server, seated(server) as seat:
        await seat.press("4")
        seat.app.query_one("#computers").add_class("-screen")
        shown = seat.app.query_one("#computers Picture", Picture)
        await seat.until(lambda: shown.size.width > 0, "it is there")
        shown.take("picture", picture())
        first = list(shown.render_line(0))
        assert "".join(one.text for one in first).rstrip() == "a??"
        assert first[1].style is not None
        assert first[1].style.color is not None
        assert first[1].style.color.name == "#cc4c4c"
        shown.take("picture", picture(whole=False, rows=[{"y": 2, "text": list("xyz"), "fg": "000", "bg": "eee"}]))
        assert shown.render_line(1).text.rstrip() == "xyz"
        assert shown.render_line(0).text.rstrip() == "a??"
        shown.take("away", {"of": "terminal"})
        assert "The computer is away" in shown.render_line(0).text


@pytest.mark.deep
async def test_a_screen_is_watched_and_typed_at(tmp_path: Path) -> None:
    """`s` shows a computer's screen as it changes, hostile text as characters; `t` types there, and that is audited."""
    async with running(tmp_path, model=Listening(final())) as server, seated(server) as seat:
        computer = StubComputer(server.url, await server.computer("farm"))
        async with stubs_connected(computer):
            await seat.press("4")
            await seat.sees("Online", "farm: s shows its screen")
            await seat.press("s")
            await seat.sees("farm: its screen")
            computer.screen.draw(2, b"[red]x[/]\x1b[31m \x03", "e", "1")
            await seat.sees("[red]x[/]\u2190[31m \u2665")
            shows_nothing_raw(seat)
            await seat.press("o")
            await seat.sees("It has no other screen.")
            await seat.press("t")
            await seat.sees("Type at farm")
            await seat.type("dance")
            await seat.press("enter")
            await seat.sees("Typed.")
            found = (await server.ask("GET", "/v1/audit?system=1&kind=keys_sent&whole=1")).json()["items"]
            assert len(found) == 2
        await seat.sees("The computer is away")
        await seat.press("escape")
        await seat.sees("farm: s shows its screen")


@pytest.mark.deep
async def test_a_refused_task_stays_to_be_changed(tmp_path: Path) -> None:
    """A check that cannot be read is said beside the checks; nothing that was typed is lost, and it is sent again."""
    async with (
        running(tmp_path, model=Listening(final(success=False))) as server,
        connected(server, "3", Disk()),
        seated(server) as seat,
    ):
        await seat.asks("n", "A new task", "[x] 3")
        await seat.type("look around")
        await seat.press("tab", "tab", "down", "down", "space", "tab")
        await seat.sees("[x] it waits for the model server", "One check per line")
        await seat.type("runs farm.lua\nworks well")
        await seat.asks("ctrl+s", "The check 'works well' cannot be read", "Type one of: runs PROGRAM", "look around")
        await seat.press(*["backspace"] * len("works well"))
        await seat.type("  file farm.lua exists\n\n")
        await seat.asks("ctrl+s", "is submitted")
        (only,) = (await server.ask("GET", "/v1/tasks")).json()["tasks"]
        task = (await server.ask("GET", f"/v1/tasks/{only['task_id']}")).json()
        assert [check["check"] for check in task["checks"]] == ["runs farm.lua", "file farm.lua exists"]
        assert task["wait_for_model"] is True
