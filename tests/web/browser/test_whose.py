"""Whose words a page shows, in a real browser: who signs in in another's tab sees nothing of theirs."""

import pytest
from playwright.async_api import expect

from tests.story.harness import Server
from tests.web.browser.seats import Seats

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = "the vault's code is 4711"


@pytest.mark.deep
async def test_what_one_typed_is_not_shown_to_the_next(server: Server, seats: Seats) -> None:
    """A task that was begun, and a line to type, wait for who made them; signing out drops them in each tab."""
    ann, rita = await server.person("ann", "admin", "submitter"), await server.person("rita", "admin", "submitter")
    seat = await seats.open("tasks", token=ann.token)
    await seat.button("New task").click()
    prompt = seat.page.get_by_label("What is to be done?")
    await prompt.fill(SECRET)
    await seat.go("pairing")
    await seat.button("Make the line").click()
    line = await seat.page.locator(".pairing code").inner_text()
    await seat.context.clear_cookies()
    await seat.page.reload()
    await seat.sign_in(str(rita.token))
    await expect(seat.button("Make the line")).to_be_visible()
    await seat.go("tasks?new=1")
    await expect(prompt).to_have_value("")
    await seat.context.clear_cookies()
    await seat.page.reload()
    await seat.sign_in(str(ann.token))
    await expect(prompt).to_have_value(SECRET)
    await seat.go("pairing")
    await expect(seat.page.locator(".pairing code")).to_have_text(line)
    other = await seat.context.new_page()
    await other.goto(seat.page.url)
    await other.get_by_role("button", name="Sign out").click()
    await expect(seat.page.get_by_label("Your token")).to_be_visible()
    await expect(seat.page.get_by_text("what you typed is kept")).to_have_count(0)
    assert await seat.page.evaluate("Object.keys(sessionStorage)") == []


@pytest.mark.deep
async def test_a_tab_that_slept_over_a_change_of_person_begins_anew(server: Server, seats: Seats) -> None:
    """What the first had begun there is not the second's, who signed in in another tab of the same browser."""
    rita = await server.person("rita", "submitter")
    seat = await seats.open("tasks?new=1")
    prompt = seat.page.get_by_label("What is to be done?")
    await prompt.fill(SECRET)
    await seat.context.set_offline(True)
    await expect(seat.page.locator(".connection.away")).to_be_visible()
    other = await seat.context.request.post(
        f"{server.url}/v1/session", data={"token": rita.token}, headers={"Origin": server.url}
    )
    assert other.status == 201
    await seat.context.set_offline(False)
    await expect(seat.page.locator(".who")).to_contain_text("rita")
    await expect(seat.page.locator(".connection.live")).to_be_visible()
    await expect(prompt).to_have_value("")
