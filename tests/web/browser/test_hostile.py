"""Addresses and texts that mean harm, in every view: they show as text, or as nothing, and the page stands."""

from typing import Final

import pytest
from playwright.async_api import expect

from orchestrator.core.wire.wire import to_wire
from tests.harness.support import dialed
from tests.story.harness import Computer, Server, final, tool
from tests.web.browser.seats import Seat, Seats

pytestmark = pytest.mark.asyncio(loop_scope="session")

MARKUP: Final = "\"'><img src=x onerror=window.pwned=1><script>window.pwned=1</script>{{7*7}}"
HOSTILE: Final = f"{MARKUP}\u202e\x1b[31m\x00 javascript:window.pwned=1"
IN_A_PART: Final = "%3Cimg%20src%3Dx%20onerror%3Dwindow.pwned%3D1%3E"
PLACES: Final = (
    *(
        "constructor",
        "__proto__",
        "toString/x",
        "hasOwnProperty",
        "%",
        "%E0%A4%A",
        IN_A_PART,
        "//evil.example",
        "javascript:1",
    ),
    *(f"{view}/{IN_A_PART}" for view in ("tasks", "approvals", "computers", "policy", "audit")),
    *("computers?state=constructor", f"computers?state={IN_A_PART}", f"tasks?status={IN_A_PART}", "tasks?page=-1"),
    *("policy/constructor", f"audit?task={IN_A_PART}&by={IN_A_PART}&kind=__proto__"),
)


async def stands(seat: Seat, place: str) -> None:
    """The page is there, and has no element that a text made."""
    await seat.go(place)
    await expect(seat.page.get_by_role("navigation", name="Views")).to_be_visible()
    await expect(seat.page.locator("main .loading")).to_have_count(0)
    assert await seat.page.locator("main img, main script, main iframe, main [style]").count() == 0, place
    assert await seat.page.locator("main a[href]:not([href^='#/']):not([href^='https://ollama.com'])").count() == 0, (
        place
    )
    assert await seat.page.evaluate("window.pwned") is None, place


@pytest.mark.deep
async def test_no_address_breaks_the_page(server: Server, seats: Seats) -> None:
    """Whoever is sent a link to their own console sees the console."""
    seat = await seats.open()
    for place in PLACES:
        await stands(seat, place)


async def test_no_text_becomes_part_of_a_page(server: Server, pc: Computer, seats: Seats) -> None:
    """Goals, reasons, answers, notes, labels, versions: whoever may write one, in each view and in all of the audit."""
    api = server.api()
    script = (tool("cc_write", path="a.txt", content=HOSTILE), tool("ask_user", question=HOSTILE), final())
    task_id = await api.submit(*script, computers=(pc.name,), session_id=HOSTILE[:100])

    token = await server.computer_token("evil")
    async with dialed(server.url, token) as client:
        await client.greet(label=to_wire(HOSTILE), host=to_wire(HOSTILE), client=to_wire(MARKUP)[:60])
        request_id = (await api.first(task_id, "review_requested")).request_id
        seat = await seats.open(f"approvals/{request_id}")
        await expect(seat.request()).to_contain_text("window.pwned=1")
        await api.resume(request_id, "reject", reason=HOSTILE, on_reject="continue")
        asked = await api.first(task_id, "question_asked")
        for place in ("approvals", f"tasks/{task_id}", "tasks", "computers", "computers/evil"):
            await stands(seat, place)
        await expect(seat.page.locator("main")).to_contain_text("<img src=x onerror=window.pwned=1>")
        answer = {"question_id": asked.question_id, "answer": HOSTILE}
        await api.ok("POST", f"/v1/tasks/{task_id}/answer", answer)
        await api.first(task_id, "task_ended")
        for place in (f"tasks/{task_id}", "people", "pairing", "policy", "policy/grants", "audit"):
            await stands(seat, place)
        for item in await seat.page.locator(".audit > li summary").all():
            await item.click()
        await expect(seat.page.locator(".audit pre").first).to_be_visible()
        assert await seat.page.locator("main img, main script").count() == 0
        assert await seat.page.evaluate("window.pwned") is None
