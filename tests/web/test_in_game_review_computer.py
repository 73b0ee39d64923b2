"""`cc review` in the game: the real Lua client on simulated computers of three sizes, against the real server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cc_client.simulator.hardware import SIZES
from tests.harness.simulating import Player, playing
from tests.harness.support import Disk, Listening, call, final, says
from tests.harness.whole_server import Server, connected, running
from tests.waiting import HANG_S
from tests.web.test_in_game_computer import computer
from tests.web.test_in_game_review import BY_PIN, PAIRED, PIN, allowing, reviewer, writes

ASKS = says(call("ask_user", question="Which farm?", options=["wheat", "cactus"]))
LONG = says(call("cc_write", path="farm.lua", content=f"print('{'x' * 70}')\n" + "print(1)\n" * 20))


@asynccontextmanager
async def reviewing(
    directory: Path,
    *script: Any,
    family: str = "advanced",
    typed: str = "cc review ann",
    review: str = BY_PIN,
    options: tuple[str, ...] = (),
    beside: str = "",
) -> AsyncIterator[tuple[Server, Player, str]]:
    """A task of bob that waits, and somebody at the lectern who types a command; ``beside``: a program there."""
    policy, model = allowing(directory, review), Listening(*script, *[final()] * 9)
    async with running(directory / "server", policy=policy, model=model) as server:
        await reviewer(server)
        bob = await server.person("bob")
        async with connected(server, "3", Disk({"farm.lua": b"print('old')\n"})):
            task = await server.submit(token=bob)
            await server.until(task, "review_requested", "question_asked")
            disk = computer(directory, server.url, await server.computer("lectern-1"))
            (disk / "beside.lua").write_text(beside, "utf-8")
            await server.ask("POST", "/v1/computers/lectern-1/owner", {"person": "ann"})
            async with playing(disk, f"--family={family}", f"--type={typed}", *options) as player:
                yield server, player, task


async def see(player: Player, text: str) -> str:
    """The screen as soon as a text is on it, also where it runs from one row into the next."""
    rows: list[str] = []
    try:
        async with asyncio.timeout(HANG_S):
            while not any(text in seen for seen in ("\n".join(rows), "".join(rows), " ".join(" ".join(rows).split()))):
                rows = (await player.do("screen"))["rows"]
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{text!r} never came; the screen has:\n" + "\n".join(rows)) from None
    return "\n".join(rows).rstrip()


async def press(player: Player, *names: str) -> None:
    """Press keys, one after the other."""
    for name in names:
        await player.do(f"key {name}")


async def opened(player: Player) -> None:
    """Type the PIN, and see the list."""
    await see(player, "[Enter] sends")
    await press(player, *PIN, "enter")
    await see(player, "[U]pdate [Q]uit")


async def decisions(server: Server, task: str) -> list[dict[str, Any]]:
    """What people decided in a task."""
    found = (await server.ask("GET", f"/v1/audit?task={task}&kind=decision_recorded")).json()["items"]
    return [{**one["fact"]["decisions"][0], "actor": one["actor"]} for one in found]


BUTTONS = {
    51: ("[N]ext [R]eject [L]ist", "[N]ext [B]ack [R]eject [L]ist", "[B]ack [A]pprove [R]eject [L]ist"),
    39: ("[N]ext [R]eject [L]ist", "[N]ext [B]ack [R]eject [L]ist", "[B]ack [A]pprove [R]eject [L]ist"),
    26: ("[N]ext [R]eject [L]ist", "[N]ext [B] [R]eject [L]ist", "[B] [A]pprove [R]eject [L]"),
}
"""The keys that are told on the first page, on one between and on the last, by the columns of the screen."""


def wrapped(text: str, columns: int) -> list[str]:
    """The rows of a text on a screen."""
    return [text[:columns], *(f">{text[at : at + columns - 1]}" for at in range(columns, len(text), columns - 1))]


@pytest.mark.parametrize("family", ["advanced", "computer", "turtle", "advanced-turtle", "pocket", "advanced-pocket"])
async def test_a_request_is_read_and_approved_on_every_screen(tmp_path: Path, family: str) -> None:
    """Row by row as it should be, no row wider than the screen, the keys below; the audit says who and how."""
    columns, height = SIZES[family]
    head = ["risk: medium", "asks: bob (submitter)", "task: fix my farm", "model says: because", "expires: in 23 h"]
    call_rows = ["call: cc_write", "computer: 3", "path: farm.lua", "found: farm.lua 22204d125514"]
    diff = ["--- a/farm.lua", "+++ b/farm.lua", "@@ -1 +1,21 @@", "-print('old')", f"+print('{'x' * 70}')"]
    texts = [*head, *call_rows, *diff, *["+print(1)"] * 20, "rule: asks (Rule asks.)"]
    wanted = [part for text in texts for part in wrapped(text, columns)]
    has_tabs = family.startswith("advanced")
    room = height - 2 - has_tabs
    pages = [wanted[start : start + room] for start in range(0, len(wanted), room)]
    async with reviewing(tmp_path, LONG, family=family) as (server, player, task):
        await opened(player)
        listed = (await player.do("screen"))["rows"][has_tabs:]
        assert listed[:2] == ["1 wait: type a number", "1 medium cc_write 3: farm.lua"[:columns]]
        await press(player, "1")
        for number, page in enumerate(pages, 1):
            await see(player, f"{number}/{len(pages)} cc_write 3: farm.lua"[:columns])
            place = 0 if number == 1 else 2 if number == len(pages) else 1
            buttons = BUTTONS[columns][place]
            seen = await see(player, buttons)
            blank = [""] * (room - len(page))
            assert seen.split("\n")[has_tabs + 1 :] == [*page, *blank, buttons]
            await press(player, "n" if number < len(pages) else "a")
        seen = await see(player, "[Y]es [X] no")
        assert seen.split("\n")[-2] == "Approve all of it?"
        await press(player, "y")
        await see(player, "Approved. Nothing waits for ann.")
        (decided,) = await decisions(server, task)
        assert (decided["action"], decided["actor"]["auth"]) == ("approve", "pin@lectern-1")
        await server.until(task, "task_ended")


async def test_a_pin_is_stars_on_the_screen_and_a_wrong_one_is_asked_for_again(tmp_path: Path) -> None:
    """Also for people who watch the screen from outside; Tab leaves."""
    async with reviewing(tmp_path, writes(), family="turtle") as (_, player, _):
        await see(player, "Type the PIN of ann.")
        await press(player, *"135790")
        assert "> ******" in await see(player, "> ******")
        await press(player, "enter")
        await see(player, "This is not the PIN of ann. Type it again.")
        await press(player, *"48", "backspace", "8")
        assert "135" not in await see(player, "> **")
        await press(player, "tab")
        seen = await see(player, ">\n")
        assert "PIN" not in seen


async def test_a_request_is_rejected_with_a_reason(tmp_path: Path) -> None:
    """Typed below the page that shows it; with Tab nothing is decided."""
    async with reviewing(tmp_path, writes(60), typed="cc review", review=PAIRED.replace("pocket-*", "*")) as (
        server,
        player,
        task,
    ):
        await see(player, "[U]pdate [Q]uit")
        await press(player, "1")
        await see(player, "[N]ext [R]eject [L]ist")
        await press(player, "r")
        await see(player, "Why? Or nothing.")
        await press(player, "x", "tab")
        await see(player, "[N]ext [R]eject [L]ist")
        await press(player, "r")
        await see(player, "Why? Or nothing.")
        await press(player, *"not\xe4", "enter")
        await see(player, "Rejected. Nothing waits for ann.")
        (decided,) = await decisions(server, task)
        assert (decided["reason"], decided["actor"]["auth"]) == ("not\xe4", "paired@lectern-1")


async def test_a_question_is_answered(tmp_path: Path) -> None:
    """Its choices stand below it; an empty answer is none."""
    async with reviewing(tmp_path, ASKS, family="pocket") as (server, player, task):
        await opened(player)
        await press(player, "1")
        seen = await see(player, "[A]nswer [L]ist")
        assert seen.split("\n")[1:6] == [
            "asks: bob",
            "task: fix my farm",
            "question: Which farm?",
            "1: wheat",
            "2: cactus",
        ]
        await press(player, "a")
        await see(player, "The answer:")
        await press(player, "enter")
        await see(player, "[A]nswer [L]ist")
        await press(player, "a")
        await see(player, "The answer:")
        await press(player, "2", "enter")
        await see(player, "Answered. Nothing waits for ann.")
        items = (await server.ask("GET", f"/v1/audit?task={task}&kind=question_answered")).json()["items"]
        assert items[0]["fact"]["answer"] == "cactus"


async def test_a_monitor_is_touched(tmp_path: Path) -> None:
    """The PIN by its digits, the entry by its row, the keys by their words; no key is needed."""
    monitor = "top=monitor,width=24,height=10"
    async with reviewing(tmp_path, writes(60), typed="cc review ann on top", options=(f"--peripheral={monitor}",)) as (
        server,
        player,
        task,
    ):

        async def shows(text: str) -> list[str]:
            seen: list[str] = []
            async with asyncio.timeout(HANG_S):
                while not any(text in row for row in seen):
                    seen = await player.do("monitor top")
                    await asyncio.sleep(0.02)
            assert all(len(row) <= 48 for row in seen)
            return seen

        async def touch(text: str) -> None:
            seen = await shows(text)
            row = next(number for number, one in enumerate(seen, 1) if text in one)
            await player.do(f"touch top {seen[row - 1].index(text) + 1} {row}")

        seen = await shows("[Enter] sends")
        digits = next(number for number, row in enumerate(seen, 1) if row == "1 2 3 4 5 6 7 8 9 0")
        for digit in PIN:
            await player.do(f"touch top {seen[digits - 1].index(digit) + 1} {digits}")
        assert PIN not in "\n".join(await shows("> ******"))
        await touch("[Enter]")
        await touch("1 medium cc_write")
        number = 1
        while not any("pprove" in row for row in await shows(f"{number}/")):
            await touch("[N]ext")
            number += 1
        await touch("[A]pprove")
        await touch("[X]")
        await touch("[A]pprove")
        await touch("[Y]es")
        await see(player, "Approved. Nothing waits for ann.")
        assert [one["action"] for one in await decisions(server, task)] == ["approve"]
        assert not any(await player.do("monitor top"))


async def test_what_cannot_be_used_is_said(tmp_path: Path) -> None:
    """A monitor that is not there, one that is too small, a policy that allows nothing."""
    small = ("--peripheral=top=monitor,width=7,height=5",)
    typed = "cc review ann on left"
    async with reviewing(tmp_path, writes(), typed=typed, options=small, review=BY_PIN.replace("lectern*", "no")) as (
        _,
        player,
        _,
    ):
        await see(player, "There is no monitor left at this computer.")
        await player.do("type cc review ann on top")
        await see(player, "The screen has 14 x 10 letters; 20 x 8 are needed.")
        await player.do("type cc review ann")
        await see(player, "The policy allows no review at this computer. An admin sets `in_game_review`.")


async def test_keys_that_were_pressed_before_a_question_decide_nothing(tmp_path: Path) -> None:
    """They are gone when their row is drawn, however late that is."""
    async with reviewing(
        tmp_path, writes(), family="computer", typed="cc review", review=PAIRED.replace("pocket-*", "*")
    ) as (server, player, task):
        await see(player, "[U]pdate [Q]uit")
        await player.do("latency 400")
        await press(player, "1", *"ayayay")
        await see(player, "[A]pprove")
        assert "[Y]es" not in await see(player, "1/1")
        assert await decisions(server, task) == []


async def test_a_reboot_in_the_middle_decides_nothing(tmp_path: Path) -> None:
    """Also at the last question; the next review asks for the PIN again."""
    async with reviewing(tmp_path, writes(), family="computer") as (server, player, task):
        await opened(player)
        await press(player, "1")
        await see(player, "[A]pprove")
        await press(player, "a")
        await see(player, "[Y]es")
        await player.do("reboot")
        await player.do("type cc review ann")
        await opened(player)
        assert await decisions(server, task) == []


async def test_a_lost_connection_ends_a_review(tmp_path: Path) -> None:
    """The player reads so; nothing was decided."""
    async with reviewing(tmp_path, writes(60)) as (server, player, task):
        await opened(player)
        await press(player, "1")
        await see(player, "[N]ext")
        await player.do("cut")
        await press(player, "n")
        await see(player, "`cc review`")
        assert await decisions(server, task) == []


async def test_a_screen_of_another_size_is_read_from_the_first_page(tmp_path: Path) -> None:
    """The pages were made for the size that it had."""
    async with reviewing(tmp_path, writes(60), family="turtle") as (server, player, task):
        await opened(player)
        await press(player, "1")
        await see(player, "1/7 cc_write")
        await press(player, "n")
        await see(player, "2/7 cc_write")
        await player.do("event term_resize")
        await see(player, "1/7 cc_write")
        assert await decisions(server, task) == []


async def test_ctrl_t_leaves_the_screen_empty(tmp_path: Path) -> None:
    """Nothing of the request stays on it."""
    async with reviewing(tmp_path, writes()) as (_, player, _):
        await opened(player)
        await press(player, "1")
        await see(player, "[R]eject")
        await player.do("terminate")
        assert "farm" not in await see(player, ">")


async def test_nobody_types_from_outside_while_somebody_reviews(tmp_path: Path) -> None:
    """The keys would count as that person's."""
    async with reviewing(tmp_path, writes(), typed="cc review", review=PAIRED.replace("pocket-*", "*")) as (
        server,
        player,
        task,
    ):
        await see(player, "[U]pdate [Q]uit")
        sent = await server.ask("POST", "/v1/computers/lectern-1/keys", {"text": "1"})
        assert "Somebody reviews at this computer" in sent.text
        await press(player, "q")
        await see(player, ">")
        sent = await server.ask("POST", "/v1/computers/lectern-1/keys", {"text": "1"})
        assert "Somebody reviews" not in sent.text
        assert await decisions(server, task) == []


ANYWHERE = PAIRED.replace("pocket-*", "*")
"""A review without a PIN."""
MONITOR = ("--peripheral=top=monitor,width=24,height=10",)


async def on_monitor(player: Player, text: str) -> list[str]:
    """The rows of the monitor as soon as a text is on it and its keys are drawn."""
    rows: list[str] = []
    async with asyncio.timeout(HANG_S):
        while not (any(text in row for row in rows) and "[" in rows[-1]):
            rows = await player.do("monitor top")
            await asyncio.sleep(0.02)
    return rows


async def test_a_page_for_another_size_is_not_shown(tmp_path: Path) -> None:
    """The monitor shrinks while the page is on its way, and nothing says so; then somebody takes it away."""
    beside = """parallel.waitForAny(function()
        while true do
            os.pullEvent("shrink")
            peripheral.call("top", "setTextScale", 1)
        end
    end, function() shell.run("cc review on top") end)"""
    async with reviewing(tmp_path, writes(), typed="beside", review=ANYWHERE, options=MONITOR, beside=beside) as (
        server,
        player,
        task,
    ):
        await on_monitor(player, "1 medium cc_write")
        await player.do("latency 400")
        await press(player, "1")
        await player.do("event shrink")
        rows = await on_monitor(player, "1/")
        assert len(rows) == 10
        assert rows[-1] == "[N]ext [R]eject [L]ist"
        await player.do("detach top")
        await see(player, "The monitor top is gone.")
        assert await decisions(server, task) == []


async def test_colours_that_a_program_left_hide_nothing(tmp_path: Path) -> None:
    """They are as the game begins with them, and afterwards as they were."""
    beside = """local m = peripheral.wrap("top")
    m.setBackgroundColour(colors.white)
    m.setTextColour(colors.black)
    m.setPaletteColour(colors.lime, 0, 0, 0)
    local function note(name)
        local file = fs.open(name, "w")
        local _, green = m.getPaletteColour(colors.lime)
        file.write(("%d %d %.1f"):format(m.getBackgroundColour(), m.getTextColour(), green))
        file.close()
    end
    parallel.waitForAny(function()
        while true do
            os.pullEvent("look")
            note("/during")
        end
    end, function() shell.run("cc review on top") end)
    note("/after")
    print("noted")"""
    async with reviewing(tmp_path, writes(), typed="beside", review=ANYWHERE, options=MONITOR, beside=beside) as (
        _,
        player,
        _,
    ):
        await on_monitor(player, "1 medium cc_write")
        await player.do("event look")
        await press(player, "q")
        await see(player, "noted")
        assert (tmp_path / "disk" / "during").read_text() == "32768 1 0.8"
        assert (tmp_path / "disk" / "after").read_text() == "32768 1 0.0"


async def test_keys_count_also_where_the_queue_was_full(tmp_path: Path) -> None:
    """A program fills it just before each answer, so what the review queues then is dropped."""
    beside = """parallel.waitForAny(function()
        while true do
            local _, _, _, is_last = os.pullEvent("cc_orchestrator_told")
            for _ = 1, is_last and 256 or 0 do
                os.queueEvent("noise")
            end
        end
    end, function() shell.run("cc review") end)"""
    async with reviewing(tmp_path, writes(60), typed="beside", review=ANYWHERE, beside=beside) as (_, player, _):
        await see(player, "[U]pdate [Q]uit")
        await press(player, "1")
        await see(player, "1/")
        await see(player, "[N]ext")
        await press(player, "n")
        await see(player, "2/")


async def test_an_answer_that_was_lost_here_is_not_waited_for(tmp_path: Path) -> None:
    """A program swallows it, as a full queue does; the 15 seconds are over at once."""
    beside = """local start = os.startTimer
    os.startTimer = function(seconds)
        return start(seconds == 15 and 0.1 or seconds)
    end
    local review, filter = coroutine.create(function()
        shell.run("cc review")
    end)
    local event = {}
    while coroutine.status(review) ~= "dead" do
        local is_lost = event[1] == "cc_orchestrator_told" and event[4]
        if not is_lost and (filter == nil or filter == event[1]) then
            _, filter = coroutine.resume(review, table.unpack(event))
        end
        event = { os.pullEventRaw() }
    end"""
    async with reviewing(tmp_path, writes(), typed="beside", review=ANYWHERE, beside=beside) as (server, player, task):
        await see(player, "The answer was lost at this computer: `cc review` shows what still waits.")
        assert await decisions(server, task) == []
