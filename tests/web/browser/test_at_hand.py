"""What one needs stays at hand, in a real browser: where one was, what was known, and what could not be seen."""

import asyncio
import re

import pytest
from playwright.async_api import Page, Route, expect

from tests.story.harness import Computer, Server, final, tools
from tests.web.browser.seats import PHONE, Seats
from tests.web.browser.test_approving import waiting, write

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.deep]

LONG = "print('" + "a very long line that goes on " * 8 + "')\n"


async def covered(page: Page) -> list[str]:
    """Texts of a diff that run out of their own column."""
    found: list[str] = await page.evaluate(
        """() => [...document.querySelectorAll("table.split .txt")]
          .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)"""
    )
    return found


async def test_two_columns_never_stand_on_one_another(server: Server, pc: Computer, seats: Seats) -> None:
    """Also where long lines are not wrapped otherwise; and a phone has one, whatever was chosen before."""
    api = server.api()
    pc.write("build.lua", LONG.encode())
    task_id = await api.submit(write(content=LONG.replace("goes", "went")), final(), computers=(pc.name,))
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}")
    await seat.button("Wrap").click()
    await seat.button("Side by side").click()
    await expect(seat.page.locator("table.split tr")).to_have_count(2)
    assert await covered(seat.page) == []
    await seat.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    await expect(seat.page.locator("table.split")).to_have_count(0)
    await expect(seat.request().locator("tr.add")).to_contain_text("went on")


async def test_the_queue_stays_as_it_was(server: Server, pc: Computer, seats: Seats) -> None:
    """Looking at another request neither scrolls it away nor drops what was ticked; its risk is that of its row."""
    api = server.api()
    rows = 14
    for number in range(rows):
        await waiting(api, await api.submit(write(f"n{number}.lua"), final(), computers=(pc.name,)))
    mixed = tools(write("x.lua"), write("startup.lua"))
    await waiting(api, await api.submit(mixed, final(), computers=(pc.name,)))
    seat = await seats.open("approvals")
    row = seat.page.locator(".queue a")
    await expect(row).to_have_count(rows + 1)
    await expect(row.last).to_contain_text("startup.lua")
    await row.nth(rows - 2).click()
    await expect(row.nth(rows - 2)).to_have_attribute("aria-current", "true")
    assert await seat.page.locator(".side").evaluate("(side) => side.scrollTop") > 0
    await seat.page.keyboard.press("j")
    await seat.page.keyboard.press("j")
    await expect(row.last).to_have_attribute("aria-current", "true")
    await expect(row.last).to_be_in_viewport(ratio=1)
    await expect(seat.page.get_by_role("heading", name="May this run?")).to_be_in_viewport(ratio=1)
    await seat.page.reload()
    await expect(row.last).to_be_in_viewport(ratio=1)
    await expect(seat.page.get_by_role("heading", name="May this run?")).to_be_in_viewport(ratio=1)
    await seat.button("Several").click()
    for number in (0, 1):
        await seat.page.locator(".queue input").nth(number).check()
    await seat.button("Look at 2 together").click()
    await expect(seat.page.get_by_role("heading", name="2 requests, one decision")).to_be_visible()
    await row.nth(3).click()
    await expect(seat.request()).to_contain_text("n3.lua")
    await expect(seat.page.locator(".queue input:checked")).to_have_count(2)


async def test_what_came_while_nobody_looked_is_told(server: Server, pc: Computer, seats: Seats) -> None:
    """A request by a line that is read aloud; a decision that failed by one that leads back to it."""
    api = server.api()
    seat = await seats.open("people")
    request_id = await waiting(api, await api.submit(write(), final(), computers=(pc.name,)))
    heard = seat.page.get_by_role("status").filter(has_text="A request waits")
    await expect(heard).to_have_text(
        f"A request waits: cc_write build.lua on {pc.name}, medium risk. 1 decision in all."
    )
    gone = asyncio.Event()

    async def lose(route: Route) -> None:
        await gone.wait()
        await route.abort()

    await seat.page.route("**/v1/resume/*", lose)
    await seat.go(f"approvals/{request_id}")
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    await seat.go("people")
    await expect(seat.page.locator("h1", has_text="People")).to_be_visible()
    gone.set()
    told = seat.page.get_by_role("alert").filter(has_text="Not delivered")
    await expect(told).to_be_visible()
    await seat.check_access("a decision that failed elsewhere")
    await told.get_by_role("link").click()
    await expect(seat.button("Send it again")).to_be_visible()
    await expect(told).to_have_count(1)
    await expect(seat.page.locator(".queue .badge", has_text="not delivered")).to_be_visible()
    await seat.go("people")
    await expect(seat.page.locator("h1", has_text="People")).to_be_visible()
    await expect(told).to_have_count(0)


async def test_what_was_read_stands_there_while_the_server_is_away(server: Server, seats: Seats) -> None:
    """Also of a view that one comes back to; nothing is asked for twice, and nobody else sees it."""
    await server.person("rita", "reviewer")
    seat = await seats.open("people")
    rita = seat.page.locator(".holder", has_text="rita")
    await expect(rita).to_be_visible()
    await seat.go("tasks")
    await expect(seat.page.get_by_text("No task yet")).to_be_visible()
    server.kill()
    await expect(seat.page.locator(".banner")).to_contain_text("The server is away")
    await seat.go("people")
    await expect(rita).to_be_visible()
    await expect(seat.button("Try again")).to_have_count(0)


async def test_what_waits_next_on_a_task_is_in_sight(server: Server, pc: Computer, seats: Seats) -> None:
    """On a phone, after each decision; and from the head of the page it is one press away."""
    api = server.api()
    long = "".join(f"print({number})\n" for number in range(80))
    task_id = await api.submit(*[write(f"{name}.lua", long) for name in "abc"], final(), computers=(pc.name,))
    seat = await seats.open(f"tasks/{task_id}", size=PHONE)
    for place in (1, 2):
        request = seat.request(await waiting(api, task_id, place))
        await request.get_by_role("button", name="Approve", exact=True).click()
        then = seat.request(await waiting(api, task_id, place + 1))
        await expect(then.get_by_role("heading", name="May this run?")).to_be_in_viewport()
    await seat.page.evaluate("scrollTo(0, 0)")
    await expect(then.get_by_role("heading", name="May this run?")).not_to_be_in_viewport()
    await seat.button("Show what waits for you").click()
    await expect(then.get_by_role("heading", name="May this run?")).to_be_in_viewport()


async def test_a_success_that_nothing_bears_out_has_a_badge(server: Server, pc: Computer, seats: Seats) -> None:
    """In the list, also after more happened to it, and on its page; and a task that only looks says why."""
    api = server.api()
    claim = {**final(), "message": "I wrote build.lua and ran it: it works."}
    task_id = await api.submit(claim, claim)
    await api.journal(task_id)
    looks = await api.submit(write(), final(success=False), computers=(pc.name,), read_only=True)
    await api.journal(looks)
    seat = await seats.open("tasks")
    row = seat.page.locator(".rows a", has_text="it works")
    await expect(row.locator(".badge")).to_have_text("Unverified")
    for way in ("pin", "unpin") * 2:
        await api.ok("POST", f"/v1/tasks/{task_id}/{way}")
    await seat.page.reload()
    await expect(row.locator(".badge")).to_have_text("Unverified")
    await row.click()
    await expect(seat.page.locator(".task-head .badge")).to_have_text("Unverified")
    await expect(seat.page.locator(".end .badge")).to_have_text("Unverified")
    await seat.check_access("a success that nothing bears out")
    await seat.go(f"tasks/{looks}")
    await expect(seat.page.locator(".steps")).to_contain_text("whatever changes something is denied.")
    await expect(seat.page.locator(".steps")).not_to_contain_text("plan_mode")


async def test_a_computer_is_found_among_many(server: Server, seats: Seats) -> None:
    """By a field and in the order of numbers; a long goal can be folded again, and is no long heading."""
    for number in range(1, 12):
        await server.computer_token(f"comp{number}")
    api = server.api()
    seat = await seats.open("tasks?new=1")
    names = seat.page.locator(".computers b")
    assert (await names.all_inner_texts())[:3] == ["comp1", "comp2", "comp3"]
    await seat.page.get_by_role("checkbox", name="comp3").check()
    await seat.page.get_by_label("Find a computer").fill("COMP11")
    await expect(names).to_have_text(["comp3", "comp11"])
    await seat.check_access("a computer found among many")
    goal = str((await api.ok("POST", "/v1/tasks", {"prompt": "build a wall " * 60}))["task_id"])
    await seat.go(f"tasks/{goal}")
    heading = seat.page.locator("h1.prompt")
    await expect(heading).to_contain_text("…")
    await seat.page.get_by_text("Show all of it").click()
    await expect(seat.page.locator(".task-head details p")).to_be_visible()
    assert len(await heading.inner_text()) < 300
    await seat.page.get_by_text("Show all of it").click()
    await expect(seat.page.locator(".task-head details p")).to_be_hidden()


async def test_what_cannot_be_named_or_found_is_told(server: Server, seats: Seats) -> None:
    """Names that an address would lose, parts and pages that are not, a day that is none, and an odd address."""
    api = server.api()
    for name in (".", ".."):
        for path, body in (
            ("/v1/tokens", {"kind": "person", "name": name, "roles": ["submitter"]}),
            ("/v1/tokens", {"kind": "agent", "name": name, "roles": []}),
            ("/v1/tokens", {"kind": "computer", "name": name, "roles": []}),
            ("/v1/pairings", {"computer": name}),
        ):
            assert "a way in an address" in (await api.refused(422, "POST", path, body))["message"]
    seat = await seats.open("policy/nonsense")
    await expect(seat.page.get_by_text("There is no such part")).to_be_visible()
    await expect(seat.page.get_by_role("list", name="Rules")).to_be_visible()
    await seat.go("tasks?page=3")
    await expect(seat.page.get_by_text("No task yet")).to_be_visible()
    await seat.go("tasks?page=3&after=1:t-none")
    await expect(seat.page.get_by_text("There are no older ones")).to_be_visible()
    await expect(seat.page.get_by_text("151 to 200")).to_have_count(0)
    await seat.go("tasks/a%2Fb")
    await expect(seat.page.get_by_text("There is nothing at this address.")).to_be_visible()
    await seat.go("audit?since=yesterday")
    await expect(seat.page.get_by_role("alert").filter(has_text="since")).to_be_visible()
    await expect(seat.page.get_by_label("Since")).to_have_value("")


async def test_a_day_begins_where_the_reader_is(server: Server, seats: Seats) -> None:
    """The audit of a day by the reader's clock; a verdict is read aloud; and a list is where it was on the way back."""
    api = server.api()
    for _ in range(40):
        await api.submit(final())
    seat = await seats.open("policy/try", timezone_id="Pacific/Kiritimati")
    await seat.button("What does it say?").click()
    await expect(seat.page.get_by_role("status").filter(has_text="A person would be asked first. ")).to_have_count(1)
    await seat.go("audit?since=2026-02-03")
    await expect(seat.page.get_by_label("Since")).to_have_value("2026-02-03")
    await expect(seat.page.locator(".rows.audit")).to_be_visible()
    asked = [url for url in seat.requests if "since=" in url and "/v1/audit" in url]
    assert [re.sub(".*since=", "", url) for url in asked] == ["2026-02-02T10%3A00%3A00.000Z"]
    await seat.go("tasks")
    row = seat.page.locator(".rows a").nth(35)
    await row.scroll_into_view_if_needed()
    before = await seat.page.evaluate("scrollY")
    assert before > 0
    await row.click()
    await expect(seat.page.locator(".task-head")).to_be_visible()
    await seat.page.go_back()
    await expect(row).to_be_in_viewport()
    assert await seat.page.evaluate("scrollY") == before


async def test_a_text_is_copied_without_a_clipboard(server: Server, seats: Seats) -> None:
    """The old way, as by plain http from another machine; and where that is refused it is selected."""
    seat = await seats.open("pairing")
    await seat.page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    await seat.button("Make the line").click()
    line = await seat.page.locator(".pairing code").inner_text()
    await seat.page.evaluate("document.addEventListener('copy', () => { window.copied = String(getSelection()); })")
    await seat.button("Copy the line").click()
    await expect(seat.page.get_by_text("Copied")).to_be_visible()
    assert await seat.page.evaluate("window.copied") == line
    await seat.page.evaluate("document.execCommand = () => false; getSelection().removeAllRanges()")
    await seat.button("Copy the line").click()
    await expect(seat.page.get_by_text("It is selected: copy it")).to_be_visible()
    assert await seat.page.evaluate("String(getSelection())") == line
