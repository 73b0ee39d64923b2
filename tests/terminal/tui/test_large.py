"""The terminal UI on terminals of all sizes: what stands where, its words and its colours."""

import json
import re
from pathlib import Path

import pytest
from rich.color import Color
from textual.color import Color as Shade
from textual.widgets import Input

from orchestrator.terminal.tui import states
from orchestrator.terminal.tui.audit_words import KINDS, computer_of, field_lines, kind_of, told
from orchestrator.terminal.tui.policy import Policy
from orchestrator.terminal.tui.screen import Beside
from orchestrator.terminal.tui.tasks import Tasks
from tests import ROOT
from tests.harness.commands import paused, talking
from tests.harness.support import WRITE, Disk, Listening, dialed, final, says
from tests.harness.whole_server import connected, running
from tests.terminal.tui.driving import NARROW, WIDE, asked, seated
from tests.terminal.tui.test_keys import shown
from tests.terminal.tui.test_on_a_terminal import Sight, looking

MIDDLE = (120, 40)
PAGE = ROOT / "orchestrator" / "web" / "console"


def row_with(rows: list[str], wanted: str) -> str:
    """The first row in which this stands."""
    return next(row for row in rows if wanted in row)


def test_what_stands_on_the_screen_at_each_size(tmp_path: Path) -> None:
    """List above page at 80x24; beside it from 120 columns on. Keys typed fast keep their meaning."""
    with talking(tmp_path, tmp_path / "data") as server:
        paused(server)
        with looking(server, tmp_path, WIDE) as sight:
            sight.sees("admin (admin, reviewer, submitter)", "◆ 1 waiting for you", "▶ 0 running", "… 0 queued")
            sight.sees("● 0/0 online", "? 0 open", "+new")
            rows = sight.screen.display
            assert rows[0].startswith(" cc-orchestrator  connected to http://127.0.0.1:")
            assert "[1 Tasks] 2 Approvals(1)" in rows[2]
            assert row_with(rows, "> ◆ Paused, for approval").count("│") == 1, "list and page; it has no computer"
            assert rows[-1].startswith(" ? keys  q leave  n new task")
            sight.resize(*MIDDLE)
            sight.until(lambda: sight.screen.display[39].startswith(" ? keys"), "the middle size")
            sight.until(lambda: row_of(sight, "STATUS").count("│") == 1 and "+new" in sight.text, "list and page")
            sight.until(lambda: "◆ 1 waiting for you" in sight.screen.display[1], "the counts")
            sight.resize(*NARROW)
            sight.until(lambda: sight.screen.display[0].startswith("[1 Tasks]") and "+new" in sight.text, "the small")
            sight.sees("waiting: 1 request, 0 questions; connected to")
            sight.type("/cancel me\r")
            sight.sees("with 'cancel me': none")
            sight.type("5g")
            sight.sees("No grant: everything")
            sight.type("\x1b")
            sight.until(lambda: "No grant: everything" not in sight.text, "closed")
            sight.type("q")


def row_of(sight: Sight, wanted: str) -> str:
    """The row of a terminal in which this stands; empty: there is none."""
    return next((row for row in sight.screen.display if wanted in row), "")


@pytest.mark.deep
def test_list_page_and_screen_stand_side_by_side(tmp_path: Path) -> None:
    """At 200x50, of a computer that runs the real client; narrower, its screen goes and the rest stays."""
    with talking(tmp_path, tmp_path / "data") as server:
        simulated = server.start("simulate", "--count", "1")
        try:
            with looking(server, tmp_path, WIDE) as sight:
                sight.type("4")
                sight.sees("● 1/1 online", "> sim-1", "Computer sim-1: its screen, live", "CraftOS")
                rows = sight.screen.display
                assert row_with(rows, "COMPUTER  STATE").count("│") == 2, "list, page and screen"
                assert re.match(r"> sim-1 +● Online +Advanced computer", row_with(rows, "> sim-1"))
                assert "╭" in rows[4]
                assert "╰" in rows[24], "51x19 have room in the frame"
                sight.resize(*MIDDLE)
                sight.until(
                    lambda: "Computer sim-1: its screen" not in sight.text and "> sim-1" in sight.text, "no screen"
                )
                sight.type("q")
        finally:
            simulated.terminate()
            simulated.communicate()


async def test_the_screen_beside_is_watched_only_while_it_is_shown(tmp_path: Path) -> None:
    """It follows what is chosen; another part, or too small a terminal, ends it at the computer itself."""
    async with (
        running(tmp_path, model=Listening(final())) as server,
        dialed(server.url, await server.computer("farm")) as client,
        seated(server, size=WIDE) as seat,
    ):
        await client.greet(capabilities=("mirror",))
        beside = seat.app.query_one(Beside)
        await seat.press("4")
        number = await shown(client, None, "its own")
        await seat.sees("Computer farm: its screen, live", "its own", "● Online", "● 1/1 online")
        await seat.press("5")
        ended, _ = await client.hear("watch")
        while (ended.watch, ended.lease_s) != (number, 0):
            ended, _ = await client.hear("watch")
        assert beside.watches is None
        assert not beside.display
        await seat.press("4")
        number = await shown(client, None, "once more")
        await seat.sees("once more")
        await seat.pilot.resize_terminal(*NARROW)
        ended, _ = await client.hear("watch")
        while (ended.watch, ended.lease_s) != (number, 0):
            ended, _ = await client.hear("watch")
        assert beside.watches is None


async def test_another_size_keeps_what_is_chosen_focused_and_typed(tmp_path: Path) -> None:
    """Through all sizes and back."""
    async with asked(tmp_path, says(WRITE), final(), size=WIDE) as (fixture, _):
        seat = fixture.seat
        await seat.asks("r", "Reject it. Why?", "> reject and tell the model")
        await seat.type("not like this")
        await seat.press("down")
        for size in (MIDDLE, NARROW, WIDE):
            await seat.pilot.resize_terminal(*size)
            await seat.sees("not like this", "> reject and cancel the task")
            assert isinstance(seat.app.focused, Input)
        await seat.press("escape", "escape", "tab")
        page, chosen = seat.app.focused, seat.app.pane.rows.chosen
        for size in (MIDDLE, NARROW, WIDE):
            await seat.pilot.resize_terminal(*size)
            await seat.sees("+print('new')")
            assert seat.app.focused is page
            assert seat.app.pane.rows.chosen == chosen


async def test_a_key_typed_at_once_is_for_the_part_that_was_chosen(tmp_path: Path) -> None:
    """`5` and `g` in one stroke show the grants: the part has the keys before the next one is looked at."""
    async with running(tmp_path, model=Listening(final())) as server, seated(server) as seat:
        seat.app.action_part("policy")
        assert isinstance(seat.app.pane, Policy)
        assert seat.app.focused is seat.app.pane.rows


async def test_the_audit_reads_like_a_diary(tmp_path: Path) -> None:
    """One line an entry in the words of the page; all of it beside, with names and no JSON."""
    async with (
        running(tmp_path, model=Listening(says(WRITE), final())) as server,
        connected(server, "3", Disk()),
        seated(server, size=WIDE) as seat,
    ):
        task_id = await server.submit()
        await server.paused(task_id)
        await seat.press("6")
        text = await seat.sees("Calls proposed: cc_write on 3 a.lua → ask", "Approval asked for: medium risk")
        row = row_with(text.splitlines(), "Task submitted: ")
        assert re.match(rf"[> ] \d\d:\d\d:\d\d  admin +{task_id} 3 +Task submitted: ", row)
        assert "{" not in text
        await seat.press("2")
        await seat.sees("+print('new')")
        assert isinstance(seat.app.query_one(Tasks), Tasks)


def test_the_words_are_those_of_the_page() -> None:
    """States of tasks and of computers, kinds of items and of computers."""
    ui, computers, auditing = (
        (PAGE / name).read_text("utf-8") for name in ("lib/ui.js", "lib/computers.js", "views/auditing.js")
    )
    assert words(ui, "STATUS") == {status: states.word_of(status) for status in words(ui, "STATUS")}
    assert words(auditing, "KINDS") == KINDS
    assert words(computers, "FAMILIES") == {one: states.family_of(one) for one in words(computers, "FAMILIES")}
    said = dict(re.findall(r'(\w+): \["(\w+)"', computers))
    assert {name: states.computer_state(name)[0].split()[1] for name in said} == said


def words(script: str, name: str) -> dict[str, str]:
    """A table of words in a module of the page."""
    body = re.search(rf"const {name} = {{(.*?)}};", script, re.DOTALL)
    assert body is not None
    return dict(re.findall(r'(\w+): "([^"]*)"', body.group(1)))


@pytest.mark.parametrize("dark", [True, False])
def test_each_colour_can_be_read(dark: bool) -> None:
    """4.5 to 1 on the ground of both looks and on the bars; and every state has a word beside."""
    grounds = ("#121212", "#1e1e1e", "#242f38") if dark else ("#e0e0e0", "#d8d8d8", "#d0d0d0")
    for tone in ("busy", "waits", "good", "bad", "odd", "quiet"):
        color = states.style_of(tone, dark=dark).color
        assert isinstance(color, Color)
        front = Shade.parse(color.name)
        for ground in grounds:
            assert contrast(front, Shade.parse(ground)) >= 4.5, (tone, ground)


def contrast(one: Shade, other: Shade) -> float:
    """As WCAG has it."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(shade: Shade) -> float:
    """The relative luminance, from 0 to 1."""
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in shade.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_state_is_a_sign_a_word_and_its_reason() -> None:
    """A success that nothing supports is not called one."""
    task = {"status": "Completed", "status_reason": "unverified", "pinned": True}
    assert states.task_state(task) == ("? Unverified, kept", "odd")
    assert states.task_state({**task, "status": "Paused", "status_reason": "waiting for an answer"})[0].startswith(
        "◆ Paused, for an answer"
    )
    assert (
        states.task_state({**task, "status": "Failed", "status_reason": "max_steps"})[0] == "✗ Failed, max_steps, kept"
    )


def test_an_item_of_a_newer_server_is_told_by_its_plain_fields() -> None:
    """And one that is not as it should be is told, too; nothing of an item is left out on its page."""
    assert told({"kind": "moon_rose", "phase": "full", "moon_id": "m", "sha": "a" * 64}) == "moon rose: phase full"
    assert told({"kind": "decision_recorded", "decisions": None, "note": "odd"}) == "Decided: note odd"
    assert kind_of("task ENDED") == "task_ended"
    assert computer_of({"calls": [{"computer": "a"}, {"computer": "b"}]}) == ""
    fact = {"args": {"text": "one\ntwo", "deep": [{"a": None}, {"b": True}]}, "roles": ["x", "y"], "count": 3}
    lines = "\n".join(line.text for line in field_lines(fact))
    for wanted in ("│ one", "│ two", "deep 2 of 2", "yes", "x, y", "count"):
        assert wanted in lines
    assert json.dumps(fact) not in lines
