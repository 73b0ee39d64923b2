"""The views of the page in a real browser: policy, audit, people, pairing, the first one, and what axe says of each."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from tests.harness.commands import CLI, process_of
from tests.harness.player import playing
from tests.story.harness import Computer, Server, final, play
from tests.story.test_screens import computer
from tests.web.browser.seats import DESKTOP, PHONE, Seat, Seats
from tests.web.browser.test_approving import waiting, write
from tests.web.browser.test_computers import frozen

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEAM_POLICY = """rules = []
[requests]
approvals = 2
[roles.tutor]
may = ["view", "submit", "decide"]
max_risk = "medium"
computers = ["turtle-*"]
paths = ["farm/**"]
[[approvals]]
when = { tools = ["cc_write"], risks = ["low", "medium"] }
steps = [{ by = "group:heads", count = 2 }, { by = "role:admin" }]
escalate_after_s = 3600
escalate_to = "person:zoe"
"""
SPAN = re.compile(r"^(?:< 1|\d+) s$")


@pytest.mark.deep
async def test_the_policy_is_read_tried_and_loud_when_broken(server: Server, pc: Computer, seats: Seats) -> None:
    """Rules in words, a verdict with the rules that made it, the alert of a file that cannot be loaded."""
    seat = await seats.open("policy")
    rule = seat.page.locator(".rule", has_text="boot-files")
    await expect(rule).to_contain_text("It runs at every boot of the computer.")
    await expect(rule).to_contain_text("high risk")
    await seat.page.get_by_role("link", name="Try a call").click()
    await seat.page.get_by_label("Arguments, as JSON").fill('{"path": "startup.lua", ')
    await expect(seat.page.locator(".wrong")).to_contain_text("This is not JSON")
    await expect(seat.button("What does it say?")).to_be_disabled()
    await seat.page.get_by_label("Arguments, as JSON").fill('{"path": "startup.lua", "content": "<b>"}')
    await seat.page.get_by_label("On which computer?").select_option(pc.name)
    await seat.button("What does it say?").click()
    verdict = seat.page.get_by_role("region", name="The verdict")
    await expect(verdict).to_contain_text("A person would be asked first.")
    await expect(verdict).to_contain_text("One person has to approve it: somebody who may decide.")
    await expect(verdict.locator(".rule b")).to_have_text(["changing", "boot-files"])
    await verdict.get_by_text("that did not match").click()
    await expect(verdict.locator("li", has_text="command-computers")).to_contain_text("the kind of computer is another")
    await seat.page.get_by_label("Tool").fill("cc_nothing")
    await seat.button("What does it say?").click()
    await expect(verdict).to_contain_text("It would be denied.")
    file = server.home / "policy.toml"
    whole = file.read_text("utf-8")
    file.write_text(f"{whole}\n[[rules]]\nid = '<i>odd'\n", "utf-8")
    await seat.go("policy")
    await seat.button("Load the file now").click()
    await expect(seat.page.get_by_role("alert")).to_contain_text("The active policy stays active.")
    file.write_text(whole, "utf-8")
    await seat.button("Load the file now").click()
    await expect(seat.page.get_by_role("alert")).to_have_count(0)


async def test_the_policy_tells_who_has_to_approve_and_its_own_roles(server: Server, seats: Seats) -> None:
    """The people of each table in their order, which calls it is about, what comes after a time; limits of roles."""
    await server.api().ok("POST", "/v1/policy", {"policy": TEAM_POLICY})
    seat = await seats.open("policy")
    await expect(seat.page.get_by_role("region", name="In force")).to_contain_text("2 people, at least")
    (table,) = await seat.page.get_by_role("list", name="Approvals").get_by_role("listitem").all_inner_texts()
    assert list(filter(None, table.splitlines())) == [
        "2 people in the group heads, then somebody with the role admin",
        *("cc_write", "where the risk is low, medium", "after 60 min it goes to zoe"),
    ]
    (role,) = await seat.page.get_by_role("list", name="Roles").get_by_role("listitem").all_inner_texts()
    assert list(filter(None, role.splitlines())) == [
        *("tutor", "may look, submit tasks, decide", "decides up to medium risk"),
        *("decides on computers turtle-*", "decides where every path is in farm/**"),
    ]
    await seat.check_access("a policy for several people")


@pytest.mark.deep
async def test_a_standing_approval_is_taken_back(server: Server, pc: Computer, seats: Seats) -> None:
    """It is told how far it reaches; taken back, the next call asks again."""
    api = server.api()
    task_id = await api.submit(write("a.lua"), write("b.lua"), final(), computers=(pc.name,))
    remember = {"scope": "session", "paths": ["*.lua"], "any_content": True}
    (call,) = (await api.ok("GET", f"/v1/requests/{await waiting(api, task_id)}"))["tool_calls"]
    decision = {"call_id": call["call_id"], "action": "approve", "remember": remember}
    await api.ok("POST", f"/v1/resume/{await waiting(api, task_id)}", {"decisions": [decision]})
    await api.first(task_id, "task_ended")
    seat = await seats.open("policy/grants")
    row = seat.page.locator(".rule")
    await expect(row).to_have_count(1)
    await expect(row).to_contain_text("*.lua")
    await expect(row).to_contain_text("In force")
    await seat.button("Take it back\u2026").click()
    await seat.button("Take it back", exact=True).click()
    await expect(row).to_contain_text("Taken back")
    (grant,) = (await api.ok("GET", "/v1/grants"))["grants"]
    assert (grant["revoked"], grant["uses"]) == (True, 1)


@pytest.mark.deep
async def test_the_audit_is_narrowed_down_read_and_verified(server: Server, pc: Computer, seats: Seats) -> None:
    """The newest first, page by page; details on demand; secrets are marked; the answer of a verification in words."""
    api = server.api()
    secret = "password = 'hunter2hunter2'\n"
    task_id = await api.submit(write("a.lua", secret), final(), computers=(pc.name,))
    await play(api, task_id)
    for number in range(60):
        await server.computer_token(f"m{number}")
    seat = await seats.open("audit")
    items = seat.page.locator(".audit > li")
    await expect(items).to_have_count(50)
    await expect(items.filter(has_text="Token made").first).to_contain_text("computer m59")
    await seat.button("Older").click()
    await expect(items.filter(has_text="computer m0")).to_have_count(1)
    await seat.page.get_by_label("Task", exact=True).fill(task_id)
    await seat.page.get_by_label("What", exact=True).fill("calls_proposed")
    await seat.button("Show").click()
    await expect(items).to_have_count(1)
    await expect(items).to_contain_text(f"cc_write on {pc.name} a.lua")
    assert f"task={task_id}" in seat.page.url
    await _by_person_and_time(seat)
    await items.locator("summary").click()
    await expect(items.locator("pre")).to_contain_text('"tool": "cc_write"')
    await expect(items.locator(".badge", has_text="redacted")).to_be_visible()
    await expect(items.locator("pre .secret").first).to_contain_text("[redacted ")
    assert "hunter2" not in await items.inner_text()
    await seat.page.get_by_role("link", name="Everything").click()
    await seat.page.get_by_label("Only what belongs to no task", exact=False).check()
    await seat.page.get_by_label("What", exact=True).fill("node_started")
    await seat.button("Show").click()
    await expect(items).to_have_count(1)
    await seat.button("Verify it all").click()
    said = seat.page.get_by_role("region", name="Verify")
    await expect(said).to_contain_text("Nothing was changed.")
    with closing(sqlite3.connect(server.home / "orchestrator.db")) as database, database:
        database.execute("UPDATE items SET data = replace(data, 'a.lua', '<b>.x') WHERE task_id = ?", (task_id,))
    await seat.button("Verify it all").click()
    await expect(said).to_contain_text("not as written.")
    await expect(said.locator("li", has_text="edited").first).to_contain_text(task_id)
    otto = await server.person("otto", "submitter")
    other = await seats.open("audit", token=otto.token)
    await expect(other.page.get_by_text("You see what was done for your own tasks.")).to_be_visible()
    await expect(other.button("Verify it all")).to_have_count(0)


@pytest.mark.deep
async def test_a_long_verification_says_how_far_it_is_and_can_be_canceled(server: Server, seats: Seats) -> None:
    """As a store with much in it answers; who cancels no longer asks, and may begin again."""
    seat, far = await seats.open("audit"), 3
    asked: list[str] = []

    async def slow(route: Route) -> None:
        asked.append(route.request.url)
        if far:
            await route.fulfill(status=202, json={"done": far, "of": 10})
        else:
            await route.continue_()

    await seat.page.route("**/v1/audit/verify*", slow)
    said = seat.page.get_by_role("region", name="Verify")
    await seat.button("Verify it all").click()
    await expect(said).to_contain_text("3 of 10 streams")
    await expect(said.get_by_role("progressbar")).to_have_attribute("max", "10")
    await seat.button("Cancel").click()
    await expect(said.get_by_role("progressbar")).to_have_count(0)
    await expect(said).not_to_contain_text("streams")
    count, far = len(asked), 0
    await expect(seat.button("Verify it all")).to_be_enabled()
    await seat.button("Verify it all").click()
    await expect(said).to_contain_text("Nothing was changed.")
    assert len(asked) == count + 1


@pytest.mark.deep
async def test_figures_tell_how_people_decide(server: Server, pc: Computer, seats: Seats) -> None:
    """By rule and by person, one step from the audit, also on a phone; only for those who may read all of it."""
    api = server.api()
    ann = await server.person("ann", "reviewer")
    for number, (by, action) in enumerate(((api, "approve"), (ann, "reject"))):
        task_id = await api.submit(write(f"{number}.lua"), final(), computers=(pc.name,))
        await by.resume(await waiting(api, task_id), action)
    seat = await seats.open("audit", size=PHONE)
    await seat.page.get_by_role("link", name="How people decide").click()
    cells = seat.page.get_by_role("table", name="By rule").locator("tbody tr")
    await expect(cells).to_have_count(2)
    for row, name in zip(await cells.all(), ("changing", "all calls"), strict=True):
        await expect(row.locator("th, td")).to_have_text([name, "2", "1 (50%)", "0", SPAN, SPAN])
    people = seat.page.get_by_role("table", name="By person").locator("tbody tr")
    await expect(people.locator("th")).to_have_text(["admin", "ann"])
    await expect(people.locator("td:nth-child(3)")).to_have_text(["0 (0%)", "1 (100%)"])
    await expect(seat.page.locator("#app > nav [aria-current=page]")).to_contain_text("Audit")
    assert await seat.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await seat.check_access("figures of decisions")
    otto = await server.person("otto", "submitter")
    other = await seats.open("audit", token=otto.token)
    await expect(other.page.get_by_text("You see what was done for your own tasks.")).to_be_visible()
    await expect(other.page.get_by_role("link", name="How people decide")).to_have_count(0)
    await other.go("audit/decisions")
    await expect(other.page.get_by_text("People who may read the audit see this.")).to_be_visible()
    assert not [one for one in other.requests if "analytics" in one]


async def _by_person_and_time(seat: Seat) -> None:
    for name, nobodys in (("By", "nobody"), ("Since", "2999-01-01")):
        field = seat.page.get_by_label(name, exact=True)
        await field.fill(nobodys)
        await seat.button("Show").click()
        await expect(seat.page.get_by_text("Nothing of that kind")).to_be_visible()
        await field.fill("")
        await seat.button("Show").click()
        await expect(seat.page.locator(".audit > li")).to_have_count(1)


async def pasted(seat: Seat) -> str:
    """What a person would paste now: the page itself may not read it."""
    other = await seat.context.new_page()
    await other.set_content("<textarea autofocus></textarea>")
    await other.locator("textarea").press("Control+V")
    text = await other.locator("textarea").input_value()
    await other.close()
    return text


@pytest.mark.deep
async def test_somebody_is_added_and_revoked(server: Server, seats: Seats) -> None:
    """The token is shown once, can be copied, and works; revoked it ends at once; others see why they cannot."""
    seat = await seats.open("people", permissions=["clipboard-write"])
    await seat.button("Add somebody").click()
    await seat.page.get_by_label("Name").fill("rita")
    await seat.page.get_by_role("checkbox", name="reviewer Decides").check()
    await seat.button("Make the token").click()
    await seat.button("Copy the token").click()
    await expect(seat.page.get_by_text("Copied")).to_be_visible()
    token = await pasted(seat)
    await seat.button("I have it").click()
    row = seat.page.locator(".holder", has_text="rita")
    await expect(row).to_contain_text("reviewer")
    assert token not in await seat.page.content()
    rita = await seats.open("people", token=token)
    await expect(rita.page.get_by_text("Who else may come in, only admins see and change")).to_be_visible()
    await server.api().ok("POST", "/v1/away", {"person": "rita", "to": "admin", "seconds": 7200})
    await seat.page.reload()
    await expect(row).to_contain_text("away, admin decides for them for ")
    await row.get_by_role("button", name="Revoke rita").click()
    await expect(seat.page.get_by_role("dialog")).to_contain_text("Every token of theirs ends at once")
    await seat.button("Revoke", exact=True).click()
    await expect(row).to_have_count(0)
    await expect(rita.page.get_by_label("Your token")).to_be_visible()
    await seat.button("Revoke admin").click()
    await expect(seat.page.get_by_role("dialog")).to_contain_text("This is you.")


async def test_the_page_says_that_only_a_script_answers(chromium: Browser, tmp_path: Path) -> None:
    """With the commands that change it; closed, the banner stays away in this tab."""
    nowhere = dict.fromkeys(("OLLAMA_HOST", "OPENAI_BASE_URL"), "http://127.0.0.1:9")
    command = [*CLI, "serve", "--port", "0", "--data-dir", str(tmp_path / "d")]
    with process_of(command, tmp_path, tmp_path / "d", **nowhere) as served:
        page = await chromium.new_page()
        await page.goto(served.url)
        await page.get_by_label("Your token").fill((tmp_path / "d" / "admin.token").read_text().strip())
        await page.keyboard.press("Enter")
        banner = page.get_by_role("status").filter(has_text="No model is chosen")
        await expect(banner).to_contain_text("ollama pull qwen2.5-coder:7b")
        await expect(banner).to_contain_text("cc-orchestrator serve --choose-model")
        await banner.get_by_role("button", name="Close").click()
        await expect(banner).to_have_count(0)
        async with page.expect_response("**/v1/models"):
            await page.reload()
        await expect(page.get_by_role("heading", name="Home", exact=True)).to_be_visible()
        await expect(banner).to_have_count(0)
        await page.close()


async def test_a_newcomer_pairs_a_computer(server: Server, seats: Seats, tmp_path: Path) -> None:
    """From nothing: the next step is told, the line is copied and typed in the game, and the page says that it came."""
    seat = await seats.open("computers", permissions=["clipboard-write"])
    begin = seat.page.get_by_role("region", name="How to begin")
    await expect(begin).to_contain_text("cc-orchestrator simulate")
    await expect(begin).to_contain_text("scripted:hello")
    await begin.get_by_role("link", name="Pair a computer").click()
    await seat.page.get_by_label("Its name here").fill("farm")
    await seat.button("Make the line").click()
    await expect(seat.page.get_by_text("expires in 14 min")).to_be_visible()
    await seat.button("Copy the line").click()
    line = await pasted(seat)
    assert line.startswith(f"wget run {server.url}/install ")
    await seat.page.get_by_text("It does not work?").click()
    await expect(seat.page.locator(".hints pre")).to_contain_text(f"port = {server.port}")
    await server.api(None).refused(401, "POST", "/v1/pair", {"code": "AAAA-AAAA", "computer_id": 7})
    await expect(seat.page.get_by_text("A computer at 127.0.0.1 was turned away")).to_be_visible()
    async with playing(tmp_path / "disk", "--family", "advanced") as player:
        await player.type(line)
        await expect(seat.page.get_by_role("status").filter(has_text="farm is connected!")).to_be_visible()
        await seat.page.get_by_role("link", name="Look at it").click()
        # At once, without a restart: what the installer said stands there, and the shell waits for a line.
        await expect(seat.page.locator(".screen.live")).to_be_visible()
        await expect(seat.page.locator(".screen .sr pre")).to_contain_text(
            re.compile("This is computer farm.*> *$", re.S)
        )


@pytest.mark.deep
async def test_axe_has_nothing_to_say(server: Server, seats: Seats, tmp_path: Path) -> None:
    """On every view of the page, wide and on a phone, and in its dialogs."""
    seat = await seats.open("computers")
    await expect(seat.page.locator(".start")).to_be_visible()
    await seat.check_access("nothing connected")
    await frozen(server, "twin")
    async with computer(tmp_path, server, server.api(), "--peripheral=left=monitor") as (name, _):
        for place, there in (
            ("computers", ".computer-card"),
            (f"computers/{name}", ".screen.live canvas"),
            ("computers/twin", ".side-card"),
            ("policy", ".rule"),
            ("policy/grants", ".empty"),
            ("people", ".holder"),
        ):
            await seat.go(place)
            await expect(seat.page.locator(there).first).to_be_visible()
            await seat.check_access(place)
        await seat.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        await _of_a_computer(seat, name)
        await _opened(seat)


async def _of_a_computer(seat: Seat, name: str) -> None:
    await seat.go(f"computers/{name}")
    await seat.button("Type here").click()
    await seat.check_access("typing")
    await seat.page.keyboard.press("Escape")
    await seat.page.get_by_text("A line and special keys").click()
    await seat.button("As text").click()
    await seat.check_access("a screen as text")


async def _opened(seat: Seat) -> None:
    await seat.go("policy/try")
    await seat.button("What does it say?").click()
    await expect(seat.page.locator(".verdict")).to_be_visible()
    await seat.check_access("a dry run")
    await seat.go("audit")
    await seat.button("Verify it all").click()
    await seat.page.locator(".audit summary").first.click()
    await expect(seat.page.locator(".verify .note")).to_be_visible()
    await seat.check_access("the audit, opened")
    await seat.go("people")
    await seat.button("Add somebody").click()
    await seat.check_access("adding somebody")
    await seat.page.get_by_label("Name").fill("rita")
    await seat.button("Make the token").click()
    await expect(seat.button("I have it")).to_be_visible()
    await seat.check_access("a token")
    await seat.button("I have it").click()
    await seat.go("pairing")
    await seat.button("Make the line").click()
    await seat.page.get_by_text("It does not work?").click()
    await seat.check_access("a line to type")


async def test_what_is_narrow_is_not_cut_or_squeezed(server: Server, seats: Seats) -> None:
    """On a phone all filters of tasks are in sight, and names of views keep apart; elsewhere no value is a column."""
    seat = await seats.open("tasks")
    await seat.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    await expect(seat.page.get_by_role("link", name="Canceled")).to_be_in_viewport(ratio=1)
    await seat.page.goto(f"{server.url}/#/approvals")
    await expect(seat.page.locator("#app > nav a[aria-current]")).to_contain_text("Approvals")
    assert await seat.page.evaluate(GAP_OF_NAMES) >= 8
    await seat.page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
    await seat.page.goto(f"{server.url}/#/policy")
    value = seat.page.locator(".in-force dd", has_text="masked for hosted models")
    await expect(value).to_be_visible()
    box = await value.bounding_box()
    assert box is not None
    assert box["height"] < 30


GAP_OF_NAMES = """() => {
  const boxes = [...document.querySelectorAll("#app > nav a span:not(.sr):not(.count)")].map((one) => {
    const range = document.createRange();
    range.selectNodeContents(one);
    return range.getBoundingClientRect();
  });
  return Math.min(...boxes.slice(1).map((box, at) => box.left - boxes[at].right));
}"""
"""The smallest gap between two names in the bar of views, in CSS pixels."""
