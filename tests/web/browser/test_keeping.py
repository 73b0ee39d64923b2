"""What is kept, in a real browser: what a rehearsal came to, backups that are put back, and what is being read."""

import asyncio
import re

import pytest
from playwright.async_api import Page, expect

from tests.computers.test_transfers import FILES, Gated
from tests.harness.processes import prompt
from tests.harness.support import dialed
from tests.story.harness import Computer, Server, final, tool
from tests.story.test_rehearsal import came_to, rehearsed, there
from tests.waiting import within
from tests.web.browser.seats import DESKTOP, PHONE, Seat, Seats
from tests.web.browser.test_approving import waiting, write
from tests.web.browser.test_page import HOSTILE, SHOWN

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def looked_at(seat: Seat, of: str) -> None:
    """Wide and on a phone: axe has nothing to say, and nothing is wider than the phone."""
    await _checked(seat, of, DESKTOP[0])
    await _checked(seat, of, PHONE[0])
    await seat.page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})


async def _checked(seat: Seat, of: str, width: int) -> None:
    await seat.page.set_viewport_size({"width": width, "height": DESKTOP[1]})
    # So high that the navigation of a phone covers no button.
    height = await seat.page.evaluate("document.documentElement.scrollHeight")
    await seat.page.set_viewport_size({"width": width, "height": height + 100})
    await seat.check_access(f"{of}, {width} wide")
    assert await _wide(seat.page) == width, f"{of} is wider than the page"


async def _wide(page: Page) -> int:
    return int(await page.evaluate("document.documentElement.scrollWidth"))


@pytest.mark.deep
async def test_a_rehearsal_shows_what_it_changed_and_is_applied(server: Server, pc: Computer, seats: Seats) -> None:
    """Each place with its diff as text; the task that asks for it is a click away, and what became of it is said."""
    api = server.api()
    pc.write("startup.lua", b"print('mine')\n")
    await there(api, pc)
    script = (
        write("startup.lua", f"print([[{HOSTILE}]])\n"),
        write("lib/new.lua", "return 1\n"),
        tool("cc_move", path="lib/new.lua", to="lib/other.lua"),
    )
    items, shown = await rehearsed(api, pc, *script, final())
    task_id = items[0].task_id
    seat = await seats.open(f"tasks/{task_id}")
    came = seat.page.get_by_role("region", name="What it came to")
    await expect(came).to_contain_text(f"being applied by {shown['applied_by']}")
    changes = came.get_by_role("list", name="Places it changed")
    await expect(changes.locator("li", has_text="startup.lua").locator("tr.add")).to_contain_text(SHOWN)
    await expect(changes.locator("li", has_text="startup.lua").locator("tr.del")).to_contain_text("print('mine')")
    await expect(changes.locator("li", has_text="lib/other.lua").locator(".badge")).to_have_text("new")
    await expect(seat.button("Apply this to the real computer\u2026")).to_have_count(0)
    await looked_at(seat, "a rehearsal")
    await came.get_by_role("link", name="The task that asks for it").click()
    await _approved(seat)
    assert pc.read("lib/other.lua") == b"return 1\n"
    changed = seat.page.get_by_role("region", name="What it changed")
    await expect(changed.locator("li", has_text="lib/other.lua").locator(".badge")).to_have_text("new")
    await seat.go(f"tasks/{task_id}")
    await expect(came).to_contain_text(f"applied by {shown['applied_by']} (Completed")
    assert await seat.page.evaluate("window.pwned") is None


@pytest.mark.deep
async def test_a_failed_rehearsal_is_applied_only_when_somebody_asks(
    server: Server, pc: Computer, seats: Seats
) -> None:
    """The button leads to the task that asks; canceled, that is said, and it can be asked for anew."""
    api = server.api()
    await there(api, pc)
    items, _ = await rehearsed(api, pc, write("a.lua", "print(1)\n"), final(success=False))
    otto = await server.person("otto", "viewer")
    other = await seats.open(f"tasks/{items[0].task_id}", token=otto.token)
    await expect(other.page.get_by_text("It failed, so nothing is applied")).to_be_visible()
    await expect(other.button("Apply this to the real computer\u2026")).to_have_count(0)
    seat = await seats.open(f"tasks/{items[0].task_id}")
    await seat.button("Apply this to the real computer\u2026").click()
    await seat.check_access("the dialog that applies a rehearsal")
    await seat.button("Not now").click()
    await seat.button("Apply this to the real computer\u2026").click()
    await seat.button("Ask for all of it").click()
    await expect(seat.request()).to_contain_text("a.lua")
    await seat.button("Cancel").click()
    await seat.button("Cancel the task").click()
    await expect(seat.page.locator(".end")).to_contain_text("Canceled")
    await seat.go(f"tasks/{items[0].task_id}")
    await expect(seat.page.get_by_role("region", name="What it came to")).to_contain_text("was canceled")
    await seat.button("Apply this to the real computer\u2026").click()
    await seat.button("Ask for all of it").click()
    await _approved(seat)
    assert pc.read("a.lua") == b"print(1)\n"
    assert (await came_to(api, items[0].task_id))["outcome"]["did"]


async def test_how_a_task_ended_stands_first_and_no_diff_twice(server: Server, pc: Computer, seats: Seats) -> None:
    """A diff stands with the decision while that waits, then in its step with the edit and why; the end leads there."""
    api = server.api()
    task_id = await api.submit(
        write("a.lua", "print(1)\n"), write("b.lua", "print(2)\n"), final(), computers=(pc.name,)
    )
    seat = await seats.open(f"tasks/{task_id}")
    await expect(seat.request().locator(".diff")).to_have_count(1)
    await expect(seat.page.locator(".diff")).to_have_count(1)
    await expect(seat.page.locator(".step").first).to_contain_text("It is shown with the decision below.")
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    await seat.page.locator(f'[data-request="{await waiting(api, task_id, 2)}"][data-settled="true"]').wait_for()
    await seat.button("Edit").click()
    await seat.page.get_by_role("textbox").first.fill("print(3)\n")
    await seat.page.get_by_label("Reason").fill("three is more")
    await seat.button("Approve as edited").click()
    end, step = seat.page.locator(".end"), seat.page.locator(".step")
    await expect(end).to_contain_text("Completed")
    await expect(end.get_by_role("button", name="Undo 2 changes")).to_be_visible()
    above, below = await end.bounding_box(), await step.first.bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] + above["height"] <= below["y"]
    changed = end.get_by_role("list", name="Places it changed")
    await expect(changed.locator("li", has_text="a.lua")).to_contain_text("new +1 \u22120")
    await expect(end.locator(".diff")).to_have_count(0)
    await expect(step.nth(0).locator("tr.add")).to_have_text(re.compile("print\\(1\\)$"))
    await expect(step.nth(1)).to_contain_text("Edited by admin: three is more")
    await expect(step.nth(1).locator("tr.add")).to_have_text(re.compile("print\\(3\\)$"))
    await expect(seat.page.locator(".diff:visible")).to_have_count(2)
    await changed.locator("li", has_text="b.lua").get_by_role("button", name="Show step 2").click()
    await expect(step.nth(1)).to_be_focused()
    await looked_at(seat, "how a task ended")


@pytest.mark.deep
async def test_a_backup_is_looked_into_and_put_back(server: Server, pc: Computer, seats: Seats) -> None:
    """One path of it, then all of it: what that would do is shown before, and its task asks as any does."""
    pc.write("a.lua", b"print('old')\n")
    pc.write("lib/b.lua", b"return 'old'\n")
    await there(server.api(), pc)
    seat = await seats.open(f"computers/{pc.name}")
    backups = seat.page.get_by_role("region", name="Backups")
    await seat.button("Back up now").click()
    await expect(backups).to_contain_text("just now by admin")
    pc.write("a.lua", b"print('new')\n")
    pc.write("lib/b.lua", b"return 'new'\n")
    pc.write("since.lua", b"print('since')\n")
    await _look_into(seat)
    dialog = seat.page.get_by_role("dialog")
    await dialog.get_by_role("radio", name="Only some paths").check()
    await expect(seat.button("See what that would do")).to_be_disabled()
    await dialog.get_by_role("checkbox", name="lib directory").check()
    await seat.button("See what that would do").click()
    planned = dialog.get_by_role("group", name="What it would do")
    await expect(planned).to_contain_text("It acts at 1 place.")
    await expect(planned).to_contain_text(f"{pc.name}:lib/b.lua")
    await looked_at(seat, "a backup")
    await seat.button("Put it back").click()
    await _approved(seat)
    assert [pc.read(name) for name in ("lib/b.lua", "a.lua")] == [b"return 'old'\n", b"print('new')\n"]
    await seat.go(f"computers/{pc.name}")
    await _look_into(seat)
    await seat.button("See what that would do").click()
    await expect(planned).to_contain_text("1 came since and stays.")
    await dialog.get_by_role("checkbox", name="Also remove what came since").check()
    await expect(planned).to_have_count(0)
    await seat.button("See what that would do").click()
    await expect(planned.locator("li", has_text="since.lua")).to_contain_text("is removed")
    await seat.button("Put it back").click()
    await _approved(seat)
    assert [pc.read(name) for name in ("a.lua", "since.lua")] == [b"print('old')\n", None]


async def _approved(seat: Seat) -> None:
    """All that is asked for, as one decision, and it is done."""
    await seat.request().get_by_role("button", name=re.compile(r"^Approve( all \d)?$")).last.click()
    await expect(seat.page.locator(".end")).to_contain_text("Completed")


async def _look_into(seat: Seat) -> None:
    await seat.button(re.compile("^Look into b-"), exact=False).click()
    await expect(seat.page.get_by_role("dialog")).to_contain_text("What is put back?")


@pytest.mark.deep
async def test_what_is_being_read_has_a_bar(server: Server, seats: Seats) -> None:
    """A backup at its computer and in the frame, a rehearsal where it is begun; and nothing when it is over."""
    async with dialed(server.url, await server.computer_token("3")) as client:
        await client.greet()
        computer = Gated(client)
        serving = asyncio.create_task(computer.serve())
        seat = await seats.open("computers/3")
        bars = seat.page.get_by_role("progressbar")
        own = seat.page.locator("main").get_by_role("progressbar", name="Reading 3 for a backup")
        await expect(seat.button("Back up now")).to_be_enabled()
        await expect(bars).to_have_count(0)
        await seat.button("Back up now").click()
        await within(computer.asked.wait())
        await expect(own).to_have_attribute("aria-valuetext", "0 of 3 files, 0 bytes")
        computer.gate.release()
        await expect(own).to_have_attribute("aria-valuetext", re.compile("^1 of 3 files"))
        await expect(seat.page.locator(".top").get_by_role("progressbar")).to_be_visible()
        await looked_at(seat, "a transfer")
        await seat.go("tasks")
        await seat.page.locator(".top").get_by_role("link", name="Reading 3 for a backup").click()
        await expect(own).to_be_visible()
        for _ in FILES:
            computer.gate.release()
        await expect(seat.page.get_by_role("region", name="Backups")).to_contain_text("just now by admin")
        await expect(bars).to_have_count(0)
        await client.socket.close()
        await serving


@pytest.mark.deep
async def test_the_copy_for_a_rehearsal_has_a_bar_where_it_is_begun(server: Server, seats: Seats) -> None:
    """In the form, until the task is there."""
    async with dialed(server.url, await server.computer_token("3")) as client:
        await client.greet()
        computer = Gated(client)
        serving = asyncio.create_task(computer.serve())
        seat = await seats.open("tasks?new=1")
        await seat.page.get_by_label("What is to be done?").fill(prompt(final()))
        await seat.page.get_by_role("radio", name="Rehearse").check()
        await seat.page.get_by_role("radio", name=re.compile("^3")).check()
        await seat.button("Begin").click()
        await within(computer.asked.wait())
        bar = seat.page.locator("main").get_by_role("progressbar", name="Reading 3 for a rehearsal")
        await expect(bar).to_have_attribute("aria-valuetext", "0 of 3 files, 0 bytes")
        await seat.check_access("the copy for a rehearsal")
        for _ in FILES:
            computer.gate.release()
        await expect(seat.page.locator(".task-head")).to_contain_text("rehearses on a copy of 3")
        await expect(seat.page.get_by_role("progressbar")).to_have_count(0)
        await client.socket.close()
        await serving
