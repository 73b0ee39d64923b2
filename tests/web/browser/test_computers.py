"""Computers in a real browser: their screens live in 16 colours, keys that reach a program, and who is there."""

import asyncio
import contextlib
import re
from typing import Any

import pytest
from playwright.async_api import Locator, WebSocket, expect

from orchestrator.core.text.visible import CHARSET
from orchestrator.core.wire.picture import DEFAULT_PALETTE
from tests.harness.support import dialed
from tests.story.harness import Api, Computer, Server, final, tool
from tests.story.test_screens import ASKS, MONITOR, PAINT, computer
from tests.waiting import HANG_S
from tests.web.browser.seats import HIDE, PHONE, Seat, Seats

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE = '<img src=x onerror="window.pwned=1">\u202e\x1b[31m'
SHOWN = '<img src=x onerror="window.pwned=1">\\u{202e}\\u{1b}[31m'
PRINTS = 'term.clear() term.setCursorPos(1, 1) print("<script>window.pwned=1</script>\\27[31m")\n'
PIXEL = """(canvas, [across, down, columns, rows]) => {
  const x = Math.floor((across * canvas.width) / columns), y = Math.floor((down * canvas.height) / rows);
  const copy = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, -x, -y);
  const data = copy.getImageData(0, 0, 1, 1).data;
  return "#" + [...data].slice(0, 3).map((one) => one.toString(16).padStart(2, "0")).join("");
}"""


def text_of(seat: Seat) -> Locator:
    """What a reader of the screen's text is told."""
    return seat.page.locator(".screen .sr pre")


async def pixel(seat: Seat, across: float, down: float, size: tuple[int, int] = (51, 18)) -> str:
    """The colour of the screen at a place in cells from the upper left."""
    return str(await seat.page.locator("canvas").evaluate(PIXEL, [across, down, *size]))


async def becomes(seat: Seat, across: float, down: float, colour: str) -> None:
    """Wait until the screen has a colour there."""
    async with asyncio.timeout(HANG_S):
        while await pixel(seat, across, down) != colour:  # noqa: ASYNC110 - a canvas tells nobody
            await asyncio.sleep(0.05)


@pytest.mark.deep
async def test_a_terminal_is_seen_live_in_16_colours(server: Server, seats: Seats, tmp_path: Any) -> None:
    """Each colour in front and behind, blocks joined to the edge, the text; a monitor; nothing while hidden."""
    api = server.api()
    options = ("--family=advanced", "--peripheral=left=monitor")
    async with computer(tmp_path, server, api, *options, paint=PAINT, draw=MONITOR) as (name, player):
        seat = await seats.open(f"computers/{name}")
        watched: list[WebSocket] = []
        seat.page.on("websocket", lambda one: watched.append(one) if "/screen?" in one.url else None)
        await expect(text_of(seat)).to_contain_text(">")
        await player.do("type paint")
        await expect(text_of(seat)).to_contain_text("row 15")
        await expect(text_of(seat)).to_contain_text("painted")
        palette = [DEFAULT_PALETTE[0], "#ff0080", *DEFAULT_PALETTE[2:]]
        for row in range(16):
            half = len(f"row {row} ") + 1
            # The picture may come in two: what is written last is painted last.
            await becomes(seat, half + 0.75, row + 0.5, palette[15 - row])
            assert await pixel(seat, half + 0.25, row + 0.5) == palette[row]
            assert await pixel(seat, half + 0.02, row + 0.02) == palette[row]
        shape = await seat.page.locator("canvas").evaluate("(one) => one.width / 51 / (one.height / 18)")
        assert shape == pytest.approx(6 / 9, abs=0.04)
        await seat.button("As text").click()
        await expect(seat.page.locator(".screen-text")).to_contain_text("row 7")
        await seat.button("As text").click()
        await seat.button("Monitor left").click()
        await expect(seat.page.get_by_text("18 by 12 characters")).to_be_visible()
        await player.do("type draw")
        await expect(text_of(seat)).to_contain_text("redirected")
        await _open_only_while_seen(seat, watched)


async def _open_only_while_seen(seat: Seat, watched: list[WebSocket]) -> None:
    count = len(watched)
    async with watched[-1].expect_event("close"):
        await seat.page.evaluate(HIDE, True)
    assert len(watched) == count
    async with seat.page.expect_websocket(lambda one: "/screen?" in one.url) as again:
        await seat.page.evaluate(HIDE, False)
    await (await again.value).wait_for_event("framereceived")
    await expect(seat.page.locator(".screen.live")).to_be_visible()
    async with watched[-1].expect_event("close"):
        await seat.go("computers")


async def test_every_character_of_the_game_is_drawn(seats: Seats) -> None:
    """In cells of 6 by 9 points: none is missing or looks like another, and a point is a whole number of pixels."""
    seat = await seats.open()
    told = await seat.page.evaluate(
        """async (chars) => { const { glyphOf } = await import("/console/screen/font.js");
        const { scaleOf } = await import("/console/screen/paint.js");
        const size = { width: 51, height: 19 };
        return { drawn: chars.map((char) => glyphOf(char).join(" ")),
          scales: [[918, 900, 1], [358, 500, 3], [300, 500, 1]].map((room) => scaleOf(size, ...room)) }; }""",
        list(CHARSET),
    )
    blank = " ".join("0" * 9)
    drawn = {char: rows for char, rows in zip(CHARSET, told["drawn"], strict=True) if rows != blank}
    assert set(CHARSET) - set(drawn) == {" "}
    assert len(set(drawn.values())) == len(drawn)
    assert max(int(row).bit_length() for rows in drawn.values() for row in rows.split()) == 6
    assert told["scales"][:2] == [3, 3]
    assert told["scales"][2] == pytest.approx(300 / 306)


@pytest.mark.deep
async def test_a_hidden_page_lets_go_of_its_streams(server: Server, pc: Computer, seats: Seats) -> None:
    """The screen's after a second, the hints' after 20, and no sooner; what waits is told meanwhile; all come back."""
    seat = await seats.open(f"computers/{pc.name}", fresh=True)
    await seat.page.clock.install()
    async with (
        seat.page.expect_websocket(lambda one: "/screen?" in one.url) as screening,
        seat.page.expect_websocket(lambda one: "/v1/watch" in one.url) as hinting,
    ):
        await seat.page.reload()
    screen, hints = await screening.value, await hinting.value
    await expect(seat.page.locator(".screen.live")).to_be_visible()
    asked: list[str] = []
    seat.page.on("request", lambda one: asked.append(one.url))
    await seat.page.evaluate(HIDE, True)
    async with screen.expect_event("close"):
        await seat.page.clock.fast_forward(1000)
    await seat.page.clock.fast_forward(9000)
    await server.api().submit(tool("ask_user", question="Which?"), final())
    await expect(seat.page).to_have_title(re.compile(r"^\(1\)"))
    assert not hints.is_closed()
    async with hints.expect_event("close"):
        await seat.page.clock.fast_forward(10_000)
    await expect(seat.page.locator(".connection.live")).to_be_visible()
    hidden = len(asked)
    assert not [one for one in asked if "/v1/transfers" in one]
    async with (
        seat.page.expect_websocket(lambda one: "/screen?" in one.url),
        seat.page.expect_websocket(lambda one: "/v1/watch" in one.url),
    ):
        await seat.page.evaluate(HIDE, False)
    await expect(seat.page.locator(".screen.live")).to_be_visible()
    assert [one for one in asked[hidden:] if "/v1/transfers" in one]


@pytest.mark.deep
async def test_keys_reach_a_program_in_their_order(server: Server, seats: Seats, tmp_path: Any) -> None:
    """Typed fast, pasted, by the buttons of a phone; the mode is easily left; others are told who may."""
    api = server.api()
    async with computer(tmp_path, server, api, asks=ASKS) as (name, _):
        seat = await seats.open(f"computers/{name}")
        await expect(text_of(seat)).to_contain_text(">")
        await seat.button("Type here").click()
        await expect(seat.page.get_by_text(f"Your keys go to {name}")).to_be_visible()
        await expect(seat.page.locator(".screen")).to_have_css("outline-style", "solid")
        await seat.page.keyboard.type("asks\n")
        await expect(text_of(seat)).to_contain_text("name?")
        await seat.page.keyboard.type("the quick brown fox jumps over it, gr\u00fcn")
        for key in ("Home", "ArrowRight", "ArrowRight", "ArrowRight", "Delete"):
            await seat.page.keyboard.press(key)
        await seat.page.keyboard.insert_text("-\u4e2d-")
        await expect(seat.page.locator(".told")).to_contain_text(re.compile("left out|Delivered"))
        await seat.page.keyboard.press("Enter")
        await expect(text_of(seat)).to_contain_text("hello <the--quick brown fox jumps over it, gr\u00fcn>")
        await expect(seat.page.locator(".told")).to_have_text("Delivered")
        for key in ("Escape", "Control+]", "Shift+Tab"):
            await seat.page.keyboard.press(key)
            await expect(seat.button("Type here")).to_be_visible()
            await seat.button("Type here").click()
            await expect(seat.page.get_by_text(f"Your keys go to {name}")).to_be_visible()
        await seat.page.keyboard.press("Escape")
        await seat.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        await seat.page.get_by_text("A line and special keys").click()
        await seat.page.get_by_label(f"A line to type at {name}").fill("asks")
        await seat.button("Send").click()
        await seat.page.get_by_label(f"A line to type at {name}").fill("phone")
        await expect(text_of(seat)).to_contain_text(re.compile(r"name\? *$", re.MULTILINE))
        await seat.button("Send").click()
        await expect(text_of(seat)).to_contain_text("hello <phone>")
        await seat.page.get_by_label(f"A line to type at {name}").fill("asks")
        await seat.button("Send").click()
        await expect(text_of(seat)).to_contain_text(re.compile(r"name\? *$", re.MULTILINE))
        await seat.button("Terminate the program: Ctrl+T").click()
        await expect(text_of(seat)).to_contain_text("Terminated")
        width = await seat.page.evaluate("document.documentElement.scrollWidth")
        assert width == PHONE[0], "the page is wider than the phone"
        sent = (await api.ok("GET", "/v1/audit", system=1, kind="keys_sent"))["items"]
        assert "".join("".join(one["fact"]["keys"]) for one in sent).startswith("asksenterthe quick")
        otto = await server.person("otto", "submitter")
        other = await seats.open(f"computers/{name}", token=otto.token)
        await expect(text_of(other)).to_contain_text("Terminated")
        await expect(other.button("Type here")).to_be_disabled()
        await expect(other.page.get_by_text("Only admin, who paired it, or an admin may type here.")).to_be_visible()


@pytest.mark.deep
async def test_what_was_not_delivered_is_said(server: Server, seats: Seats, tmp_path: Any) -> None:
    """A computer that goes away is covered and comes back whole; so is a killed server, and nothing is sent again."""
    api = server.api()
    async with computer(tmp_path, server, api, paint=PAINT) as (name, player):
        seat = await seats.open(f"computers/{name}")
        await expect(text_of(seat)).to_contain_text(">")
        await seat.button("Type here").click()
        server.kill()
        await seat.page.keyboard.type("paint")
        await expect(seat.page.locator(".told")).to_contain_text("Nobody knows whether it was delivered.")
        await expect(seat.page.locator(".screen .cover")).to_contain_text("The server is away")
        server.start()
        await expect(seat.page.locator(".screen.live")).to_be_visible()
        await seat.button("Type here").click()
        await seat.page.keyboard.type("paint\n")
        await expect(text_of(seat)).to_contain_text("painted")
        await becomes(seat, 20, 1.5, "#111111")
        await player.do("off")
        await expect(seat.page.locator(".screen .cover")).to_contain_text(re.compile("Away for .* s"))
        await expect(seat.page.locator(".head .badge", has_text="Away")).to_be_visible()
        await expect(seat.button("Type here")).to_be_disabled()


@pytest.mark.deep
async def test_fifty_computers_are_a_quick_list(server: Server, seats: Seats) -> None:
    """One that comes is seen by itself, hostile labels are text, the task at work is a link, and any can be found."""
    api = server.api()
    tokens = {f"m{number}": await server.computer_token(f"m{number}") for number in range(50)}
    task_id = await api.submit(tool("ask_user", question="Which?"), final(), computers=("m7",))
    await api.first(task_id, "question_asked")
    seat = await seats.open("computers")
    cards = seat.page.locator(".computer-card")
    await expect(cards).to_have_count(50)
    assert await seat.page.evaluate("document.querySelectorAll('*').length") < 1000
    async with dialed(server.url, tokens["m31"]) as client:
        await client.greet(label=HOSTILE.encode().decode("latin-1"))
        await expect(cards.first).to_contain_text("m31")
        await expect(cards.first).to_contain_text("Online")
        await expect(cards.first).to_contain_text("<img src=x")
        await seat.page.get_by_label("Find a computer").fill("M31")
        await expect(cards).to_have_count(1)
        await seat.go("computers/m31")
        await expect(seat.page.locator(".facts").first).to_contain_text("<img src=x")
    await expect(seat.page.locator(".facts").first).to_contain_text("Here last")
    await seat.go("computers")
    await seat.page.get_by_label("Find a computer").fill("")
    await expect(
        seat.page.locator(".computer-card", has_text="m7").get_by_role("link", name="Paused")
    ).to_have_attribute("href", f"#/tasks/{task_id}")
    assert await seat.page.evaluate("window.pwned") is None


@pytest.mark.deep
async def test_hostile_output_is_a_picture_and_text(server: Server, seats: Seats, tmp_path: Any) -> None:
    """What a program prints is drawn, and told to readers, as characters; a backup is made and listed."""
    async with computer(tmp_path, server, server.api(), prints=PRINTS) as (name, player):
        seat = await seats.open(f"computers/{name}")
        await expect(text_of(seat)).to_contain_text(">")
        await player.do("type prints")
        await expect(text_of(seat)).to_contain_text("<script>window.pwned=1</script>\u2190[31m")
        assert await seat.page.evaluate("window.pwned") is None
        assert await seat.page.locator("main script").count() == 0
        await seat.button("Back up now").click()
        await expect(seat.page.get_by_role("region", name="Backups")).to_contain_text("just now by admin")


async def frozen(server: Server, name: str) -> None:
    """Two computers come with a token each, and both tokens are of one name."""
    token = await server.computer_token(name)
    async with dialed(server.url, token) as one:
        await one.greet(computer_id=3)
    async with dialed(server.url, await server.computer_token(name)) as other:
        with contextlib.suppress(AssertionError):
            await other.greet(computer_id=9, boot="another")
        await other.closed()


@pytest.mark.deep
async def test_a_frozen_computer_is_released_by_an_admin(server: Server, seats: Seats) -> None:
    """Both sides are shown; a reviewer is told who may; it is asked once more before."""
    await frozen(server, "twin")
    rita = await server.person("rita", "reviewer")
    other = await seats.open("computers/twin", token=rita.token)
    await expect(other.page.get_by_text("An admin can let it come back.")).to_be_visible()
    seat = await seats.open("computers")
    await seat.page.get_by_role("link", name=re.compile("^Frozen")).click()
    await seat.page.locator(".computer-card").click()
    sides = seat.page.locator(".side-card")
    await expect(sides.nth(0)).to_contain_text("Id in the game3")
    await expect(sides.nth(1)).to_contain_text("Id in the game9")
    await seat.button("Let it come back\u2026").click()
    await seat.button("Not now").click()
    assert (await _state(server.api(), "twin")) == "frozen"
    await seat.button("Let it come back\u2026").click()
    await seat.button("Let it come back", exact=True).click()
    await expect(seat.page.get_by_text("It may come back")).to_be_visible()
    assert (await _state(server.api(), "twin")) == "away"


async def _state(api: Api, name: str) -> str:
    return str((await api.ok("GET", f"/v1/computers/{name}"))["state"])
