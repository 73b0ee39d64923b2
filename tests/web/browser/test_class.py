"""The view of a class in a real browser: twenty people on one screen, and a brake for each."""

import pytest
from playwright.async_api import expect

from tests.story.harness import Computer, Server, final, tool
from tests.web.browser.seats import DESKTOP, PHONE, Seats

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEACHERS_DESK = (1440, 900)
POINTS = [306, 171]
"""Of a computer's screen."""
IS_READABLE = """([width, height]) => {
  const box = document.querySelector(".class-tiles canvas").getBoundingClientRect();
  return box.width >= width && box.height >= height;
}"""
PEOPLE = [f"student-{number:02}" for number in range(1, 21)]


@pytest.mark.deep
async def test_twenty_people_are_on_one_screen_and_are_frozen(server: Server, pc: Computer, seats: Seats) -> None:
    """All tiles are in sight; one shows its question; one is frozen, then all; a phone has them below one another."""
    api = server.api()
    tokens = {}
    for name in (*PEOPLE, "tom"):
        roles = ["admin", "reviewer"] if name == "tom" else ["submitter"]
        made = await api.ok("POST", "/v1/tokens", {"kind": "person", "name": name, "roles": roles})
        tokens[name] = made["token"]
    await api.ok("POST", "/v1/groups/class-7b", {"add_people": [*PEOPLE, "tom"], "add_computers": [pc.name]})
    await api.ok("POST", f"/v1/computers/{pc.name}/owner", {"person": PEOPLE[0]})
    asks = tool("ask_user", question="Which chest?")
    await server.api(tokens[PEOPLE[0]]).submit(asks, final(), computers=(pc.name,))
    seat = await seats.open("home", token=tokens["tom"], size=TEACHERS_DESK)
    await seat.page.get_by_role("link", name="Class class-7b").click()
    tiles = seat.page.get_by_role("list", name="People").get_by_role("listitem")
    await expect(tiles).to_have_count(20)
    first = tiles.filter(has_text=PEOPLE[0])
    await expect(first).to_contain_text("Which chest?")
    bottom = await seat.page.evaluate(
        "Math.max(...[...document.querySelectorAll('.tile')].map((one) => one.getBoundingClientRect().bottom))"
    )
    assert bottom <= TEACHERS_DESK[1]
    await seat.check_access("class")

    await seat.page.get_by_placeholder("Why? They read it").fill("we talk")
    await seat.button(f"Freeze {PEOPLE[0]}").click()
    await expect(first.locator(".badge.bad")).to_have_text("Frozen")
    rows = (await api.ok("GET", "/v1/tasks"))["tasks"]
    assert [one["status_reason"] for one in rows] == ["Frozen by tom: we talk"]
    await seat.button(f"Unfreeze {PEOPLE[0]}").click()
    await expect(seat.page.locator(".badge.bad")).to_have_count(0)
    await seat.button("Freeze all").click()
    await expect(seat.page.locator(".badge.bad")).to_have_count(20)
    await seat.button("Unfreeze all").click()
    await expect(seat.page.locator(".badge.bad")).to_have_count(0)

    await seat.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert await seat.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_a_teacher_reaches_readable_screens_and_a_student_reads_why_there_are_none(
    server: Server, pc: Computer, seats: Seats
) -> None:
    """On a phone and on a desk each point of a screen is a pixel; a tile leads to the whole screen."""
    api = server.api()
    tom, ann = await server.person("tom", "admin"), await server.person("ann", "submitter")
    await api.ok("POST", "/v1/groups/class-7b", {"add_people": ["tom", "ann"]})
    await api.ok("POST", f"/v1/computers/{pc.name}/owner", {"person": "ann"})
    seat = await seats.open("home", token=tom.token, size=PHONE)
    await seat.page.get_by_role("link", name="Class class-7b").click()
    screen = seat.page.locator(".class-tiles canvas")
    await expect(screen).to_be_visible()
    for width, height in (PHONE, DESKTOP):
        await seat.page.set_viewport_size({"width": width, "height": height})
        assert await seat.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await seat.page.wait_for_function(IS_READABLE, arg=POINTS)
    large = seat.button("Large screens")
    await large.click()
    await seat.page.reload()
    await expect(large).to_have_attribute("aria-pressed", "false")
    await seat.page.get_by_role("link", name="The screen of ann").click()
    await expect(seat.page.get_by_role("heading", name=pc.name)).to_be_visible()
    student = await seats.open("home", token=ann.token)
    await expect(student.page.get_by_role("heading", name="Home")).to_be_visible()
    await expect(student.page.get_by_role("link", name="Class class-7b")).to_have_count(0)
    await student.go("class/class-7b")
    await expect(student.page.locator(".empty")).to_contain_text("Only a teacher sees a class")
    await seat.go("class/class-7c")
    await expect(seat.page.locator(".empty")).to_contain_text("There is no such group")
    await api.ok("POST", "/v1/groups/class-7b", {"remove_people": ["ann"]})
    await seat.go("class/class-7b")
    await expect(seat.page.locator(".empty")).to_contain_text("Nobody else is in this group")
