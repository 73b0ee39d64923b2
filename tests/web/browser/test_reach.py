"""What has the focus can be seen, in windows of every size: nothing stands over it."""

import pytest
from playwright.async_api import expect

from tests.story.harness import Computer, Server, final, tool, tools
from tests.web.browser.seats import DESKTOP, PHONE, Seats
from tests.web.browser.test_approving import waiting, write

pytestmark = pytest.mark.asyncio(loop_scope="session")

ZOOMED = (320, 256)
"""1280 by 1024 at 400 % (WCAG 2.2, 1.4.10)."""
LIMIT = 80

_FOCUSED = """() => {
    const one = document.activeElement;
    if (one === document.body) return null;
    const box = one.getClientRects()[0] ?? one.getBoundingClientRect();
    const [x, y] = [box.left + Math.min(box.width / 2, 20), box.top + Math.min(box.height / 2, 12)];
    const there = document.elementFromPoint(x, y);
    const told = `${one.tagName} ${one.getAttribute("aria-label") ?? one.textContent}`.slice(0, 60);
    return { told, seen: Boolean(there && (one.contains(there) || there.contains(one))) };
}"""


@pytest.mark.deep
@pytest.mark.parametrize("size", [*(pytest.param(size, marks=pytest.mark.deep) for size in (DESKTOP, PHONE)), ZOOMED])
async def test_nothing_covers_what_has_the_focus(
    server: Server, pc: Computer, seats: Seats, size: tuple[int, int]
) -> None:
    """Tab goes through a request of two calls and comes to its end; each stop lies open (WCAG 2.2, 2.4.11)."""
    api = server.api()
    task_id = await api.submit(tools(write("a.lua"), write("b.lua")), final(), computers=(pc.name,))
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}", size=size)
    await expect(seat.request()).to_be_visible()
    told: list[str] = []
    for _ in range(LIMIT):
        await seat.page.keyboard.press("Tab")
        focused = await seat.page.evaluate(_FOCUSED)
        if focused is None:
            break
        assert focused["seen"], f"{focused['told']} is covered, after {told}"
        told.append(focused["told"])
    assert sum("Approve" in one for one in told) >= 3
    assert len(told) < LIMIT


@pytest.mark.deep
async def test_the_keyboard_scrolls_what_is_longer_than_its_room(server: Server, pc: Computer, seats: Seats) -> None:
    """A long result takes the focus and has a name, a short one is no stop on the way; axe agrees."""
    (pc.disk / "long.txt").write_text("a line of it\n" * 200)
    (pc.disk / "short.txt").write_text("one")
    api = server.api()
    reads = [tool("cc_read", path=path) for path in ("long.txt", "short.txt")]
    task_id = await api.submit(*reads, final(), computers=(pc.name,))
    await api.journal(task_id)
    seat = await seats.open(f"tasks/{task_id}")
    await seat.page.locator("summary", has_text="Result").first.click()
    await expect(seat.page.get_by_role("group", name="Result")).to_have_count(1)
    await expect(seat.page.locator("pre.text", has_text="one")).not_to_have_attribute("tabindex", "0")
    await seat.check_access("a long result")
