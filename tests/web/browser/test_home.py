"""The first view in a real browser: computers with their screens, tasks over time, figures, and the next step."""

import re
from typing import Any

import pytest
from playwright.async_api import Route, WebSocket, expect

from orchestrator.core.wire.picture import DEFAULT_PALETTE
from tests.story.harness import Server, final
from tests.story.test_screens import PAINT, computer
from tests.web.browser.seats import PHONE, Seats
from tests.web.browser.test_approving import waiting, write
from tests.web.browser.test_computers import becomes
from tests.web.test_page import FIRST_VIEW_BYTES

pytestmark = pytest.mark.asyncio(loop_scope="session")

SENT = """Object.fromEntries(["navigation", "resource"].flatMap((type) => performance.getEntriesByType(type))
  .filter(({ name }) => !name.includes("/v1/"))
  .map((one) => [one.name.replace(/.*[/]console[/](@[0-9a-f]+[/])?/, ""), one.encodedBodySize]))"""
"""The bytes of each file of the page as they came, without the answers of the server."""
COME = """performance.getEntriesByType("resource").filter((one) => one.name.endsWith("js") && one.transferSize)
  .map((one) => one.name)"""
"""The modules that came over the line, not from the browser's cache."""


@pytest.mark.deep
async def test_the_first_view_shows_computers_tasks_and_figures(server: Server, seats: Seats, tmp_path: Any) -> None:
    """Nothing yet: the next step. Then a live picture, what waits and where to answer, its times, and how it ended.

    The library of the figures is fetched when they are shown. A screen is watched while its tile is in sight.
    """
    api = server.api()
    seat = await seats.open("", size=PHONE)
    await expect(seat.page.get_by_role("heading", name="No computer is connected yet")).to_be_visible()
    assert not [one for one in seat.requests if "uplot" in one]
    watched: list[WebSocket] = []
    seat.page.on("websocket", lambda one: watched.append(one) if "/screen?" in one.url else None)
    async with computer(tmp_path, server, api, "--family=advanced", paint=PAINT) as (name, player):
        tile = seat.page.locator(".tile", has_text=name)
        await expect(tile).to_contain_text("Online")
        await expect(tile).to_contain_text("No task")
        await player.do("type paint")
        # The right half of the last sign in row 15 is white.
        await becomes(seat, 8.75, 15.5, DEFAULT_PALETTE[0])
        task_id = await api.submit(write("a.lua"), final(success=False), computers=(name,))
        request_id = await waiting(api, task_id)
        await expect(tile).to_contain_text("waits for you")
        await expect(tile.locator(".at-work")).to_have_attribute("href", f"#/approvals/{request_id}")
        row = seat.page.get_by_role("list", name="Tasks over time").get_by_role("link")
        await expect(row).to_contain_text("Paused")
        await expect(row.locator(".does-waiting")).to_have_count(1)
        await api.resume(request_id, "approve")
        await expect(row).to_contain_text("Failed")
        await expect(tile).to_contain_text("No task")
        figure = seat.page.locator("figure", has_text="Tasks that ended")
        async with watched[-1].expect_event("close"):
            await figure.scroll_into_view_if_needed()
        await expect(figure.locator("canvas")).to_be_visible()
        await expect(figure.locator("td", has_text="1")).to_have_count(1)
        assert [one for one in seat.requests if "uplot.mjs" in one]
        await seat.check_access("home")
        assert await seat.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        async with seat.page.expect_websocket(lambda one: "/screen?" in one.url) as again:
            await tile.scroll_into_view_if_needed()
        async with (await again.value).expect_event("close"):
            await seat.go("tasks")
        await expect(seat.page).to_have_title(re.compile("Tasks"))


async def test_a_view_is_fetched_when_it_is_opened(seats: Seats) -> None:
    """The first view takes at most 60 kB. Another brings what the page names for it, each module once."""
    seat = await seats.open("", fresh=True)
    await expect(seat.page.get_by_role("heading", name="No computer is connected yet")).to_be_visible()
    sent = await seat.page.evaluate(SENT)
    assert {"console.css", "app.js", "views/home.js"} <= set(sent)
    assert not {"views/approvals.js", "views/task.js", "screen/font.js", "vendor/highlight/core.min.js"} & set(sent)
    assert sum(sent.values()) <= FIRST_VIEW_BYTES
    named = await seat.page.locator('meta[name="later"][content^="views/approvals.js "]').get_attribute("content")
    await seat.go("approvals")
    await expect(seat.page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    assert (await seat.page.evaluate(SENT)).keys() - sent.keys() == set((named or "").split())
    come = await seat.page.evaluate(COME)
    assert len(come) == len(set(come))


async def test_a_view_that_did_not_come_is_fetched_by_another_try(seats: Seats) -> None:
    """Also where a module that it imports was lost: a browser would remember that it could not be imported."""
    seat = await seats.open("", fresh=True)
    await expect(seat.page.get_by_role("heading", name="No computer is connected yet")).to_be_visible()
    await seat.page.route("**/views/request.js", lambda route: route.abort(), times=1)
    await seat.go("approvals")
    await expect(seat.page.get_by_text("could not be fetched")).to_be_visible()
    await seat.button("Try again").click()
    await expect(seat.page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()


async def test_many_computers_at_one_place_share_a_few_names(server: Server, seats: Seats) -> None:
    """The map names the first two and counts the others; nothing stands outside of it, nor makes a phone wider."""
    await server.computer_token("far-away")
    seat = await seats.open("tasks", size=PHONE)

    async def crowded(route: Route) -> None:
        answer = await route.fetch()
        (far,) = (await answer.json())["computers"]
        at = {"x": 120, "y": 64, "z": -300, "at": "2030-01-01T00:00:00Z"}
        many = [{**far, "computer": f"t{n}", "position": at, "fuel": 2**53 - 1} for n in range(99)]
        far["position"] = {**at, "x": 29_999_984, "z": -29_999_984}
        await route.fulfill(json={"computers": [far, *many]})

    await seat.page.route("**/v1/computers", crowded)
    await seat.go("")
    names = seat.page.locator(".map .spot-name")
    await expect(names).to_have_text(["far-away", "+97 more", "t0", "t1"])
    await expect(seat.page.locator(".map .spot")).to_have_count(100)
    await expect(seat.page.get_by_role("link", name="+97 more: all computers")).to_have_attribute("href", "#/computers")
    room = await seat.page.locator(".map").bounding_box()
    assert room is not None
    for name in await names.all():
        box = await name.bounding_box()
        assert box is not None
        assert room["x"] <= box["x"]
        assert box["x"] + box["width"] <= room["x"] + room["width"]
        assert box["y"] >= room["y"]
    fuel = seat.page.locator(".tile .fuel").first
    assert await fuel.evaluate("(one) => one.scrollWidth <= one.closest('.tile').clientWidth")
    assert await seat.page.locator(".tile-look").nth(1).evaluate("(one) => one.scrollWidth <= one.clientWidth")
