"""What somebody was about to say, in a real browser: kept until it was sent, and told when it comes too late."""

import asyncio
import json
import re

import pytest
from playwright.async_api import Route, expect

from orchestrator.core.task import facts
from tests.harness.processes import prompt
from tests.story.harness import Computer, Server, facts_of, final, tool
from tests.web.browser.seats import PHONE, Seat, Seats
from tests.web.browser.test_approving import PROGRAM, waiting, write

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def focused(seat: Seat) -> str:
    """What has the focus, by its words."""
    return str(await seat.page.evaluate("document.activeElement.textContent"))


@pytest.mark.deep
async def test_an_edit_outlives_a_reload_and_an_ended_sign_in(server: Server, pc: Computer, seats: Seats) -> None:
    """Also what was changed beside the text; who was signed out is told, and nothing of it was carried out."""
    api = server.api()
    task_id = await api.submit(write(), final(), computers=(pc.name,))
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}")
    dialog = seat.page.get_by_role("dialog")
    box = dialog.get_by_role("textbox").first
    await seat.request().get_by_role("button", name="Edit").click()
    await seat.button("Edit all arguments").click()
    await box.fill(json.dumps({"path": "other.lua", "content": "print('\x1b')\n"}))
    await expect(seat.button("Edit the text")).to_be_disabled()
    await box.fill(json.dumps({"path": "other.lua", "content": PROGRAM}))
    await seat.button("Edit the text").click()
    await box.fill(PROGRAM.replace("north", "south"))
    await seat.page.reload()
    await seat.request().get_by_role("button", name="Edit").click()
    await expect(box).to_have_value(PROGRAM.replace("north", "south"))
    await expect(dialog.locator("figure", has_text="path")).to_contain_text("other.lua")
    await seat.context.clear_cookies()
    await seat.button("Approve as edited").click()
    await expect(seat.page.get_by_text("You were signed out. Sign in again to go on")).to_be_visible()
    await seat.check_access("a sign-in that ended")
    await seat.sign_in(str(api.token))
    assert "you were not signed in any more" in await seat.told("refused")
    await seat.request().get_by_role("button", name="Edit").click()
    await seat.button("Approve as edited").click()
    assert "edited and approved by you" in await seat.told("done")
    recorded = await api.first(task_id, "decision_recorded")
    assert recorded.decisions[0].args == {"path": "other.lua", "content": PROGRAM.replace("north", "south")}
    assert await seat.page.evaluate("Object.keys(sessionStorage)") == []


@pytest.mark.deep
async def test_an_answer_and_a_reason_are_kept_until_they_are_sent(server: Server, pc: Computer, seats: Seats) -> None:
    """Over a reload and over looking at something else; then nothing of them is left."""
    api = server.api()
    asking = await api.submit(tool("ask_user", question="Which wall?"), final())
    asked = await api.first(asking, "question_asked")
    place = f"approvals/{await waiting(api, await api.submit(write(), final(), computers=(pc.name,)))}"
    seat = await seats.open(place)
    await seat.request().get_by_role("button", name="Reject").click()
    await seat.page.get_by_label("Reason").fill("Not that wall.")
    await seat.page.keyboard.press("Escape")
    await seat.go(f"approvals/{asked.question_id}")
    await seat.page.get_by_label("Your answer").fill("The north one.")
    await seat.go(place)
    await seat.page.reload()
    await seat.request().get_by_role("button", name="Reject").click()
    await expect(seat.page.get_by_label("Reason")).to_have_value("Not that wall.")
    await seat.page.get_by_role("dialog").get_by_role("button", name="Reject").click()
    await seat.told("done")
    await seat.go(f"approvals/{asked.question_id}")
    await expect(seat.page.get_by_label("Your answer")).to_have_value("The north one.")
    await seat.button("Answer").click()
    await seat.told("done")
    (answered,) = facts_of(await api.journal(asking), facts.QuestionAnswered)
    assert answered.answer == "The north one."
    assert await seat.page.evaluate("Object.keys(sessionStorage)") == []


@pytest.mark.deep
async def test_who_edits_is_told_at_once_that_another_decided(server: Server, pc: Computer, seats: Seats) -> None:
    """And that the server went away; the text stays."""
    rita = await server.person("rita", "reviewer")
    request_id = await waiting(rita, await server.api().submit(write(), final(), computers=(pc.name,)))
    seat = await seats.open(f"approvals/{request_id}")
    await seat.request().get_by_role("button", name="Edit").click()
    dialog = seat.page.get_by_role("dialog")
    await dialog.get_by_role("textbox").first.fill("print('mine')\n")
    server.kill()
    await expect(dialog.get_by_role("status").last).to_contain_text("The server is away.")
    server.start()
    await expect(dialog.get_by_role("status").last).to_be_empty()
    await rita.resume(request_id, "approve")
    await expect(dialog.get_by_role("status").last).to_contain_text("Decided elsewhere: approved by rita.")
    await expect(dialog.get_by_role("textbox").first).to_have_value("print('mine')\n")
    await seat.check_access("an edit that comes too late")


@pytest.mark.deep
async def test_the_focus_goes_to_what_was_said(server: Server, pc: Computer, seats: Seats) -> None:
    """After a decision, and back to its button after a dialog; a key that means nothing does nothing."""
    api = server.api()
    seat = await seats.open(f"approvals/{await waiting(api, await api.submit(write(), final(), computers=(pc.name,)))}")
    await expect(seat.request()).to_be_visible()
    for key, name in (("r", "Reject"), ("e", "Edit")):
        await seat.page.keyboard.press(key)
        await expect(seat.page.get_by_role("dialog")).to_be_visible()
        await seat.page.keyboard.press("Escape")
        await expect(seat.page.get_by_role("dialog")).to_have_count(0)
        await expect(seat.button(name)).to_be_focused()
    for key in ('"', "\\"):
        await seat.page.keyboard.press(key)
    await seat.page.keyboard.press("a")
    await seat.told("done")
    await expect(seat.button("Approve")).to_have_count(0)
    assert (await focused(seat)).startswith("Done: approved by you.")


@pytest.mark.deep
async def test_a_lost_task_is_sent_again_and_counts_once(server: Server, seats: Seats) -> None:
    """It is said that nobody knows; the words stay over a reload, and the form with them."""
    seat = await seats.open("tasks")
    lost = [True]

    async def lose(route: Route) -> None:
        if route.request.method == "POST" and lost.pop():
            await route.fetch()
            await route.abort()
        else:
            await route.continue_()

    await seat.button("New task").click()
    await seat.page.get_by_label("What is to be done?").fill(json.dumps([final()]))
    await seat.page.reload()
    await expect(seat.page.get_by_label("What is to be done?")).to_have_value(json.dumps([final()]))
    await seat.page.route("**/v1/tasks", lose)
    await seat.button("Begin").click()
    await expect(seat.page.get_by_role("alert")).to_contain_text("Not delivered: the server did not answer")
    lost.append(False)
    await seat.button("Send it again").click()
    await expect(seat.page.locator(".task-head")).to_be_visible()
    assert len((await server.api().ok("GET", "/v1/tasks"))["tasks"]) == 1


@pytest.mark.deep
async def test_what_is_not_there_leads_to_what_is(server: Server, seats: Seats) -> None:
    """A task, a computer or a view; a name that is there is told, and a token is closed only by its button."""
    seat = await seats.open("constructor")
    await expect(seat.page.get_by_text("There is no such view")).to_be_visible()
    await seat.go("computers/none")
    await seat.page.get_by_role("link", name="All computers").click()
    await seat.go("tasks/t-none")
    await seat.page.get_by_role("link", name="All tasks").click()
    await expect(seat.page.get_by_role("heading", name="Tasks")).to_be_visible()
    await seat.go("people")
    await seat.button("Add somebody").click()
    await seat.page.get_by_label(re.compile("^Name")).fill("admin")
    await expect(seat.page.get_by_text("admin is here already")).to_be_visible()
    await seat.page.get_by_label(re.compile("^Name")).fill("rita")
    await seat.button("Make the token").click()
    await expect(seat.button("I have it")).to_be_visible()
    for _ in range(3):
        await seat.page.keyboard.press("Escape")
    await expect(seat.button("I have it")).to_be_visible()


@pytest.mark.deep
async def test_a_task_s_page_says_what_became_of_each_decision(server: Server, pc: Computer, seats: Seats) -> None:
    """Done; too late, with who was first; not delivered, to be sent again; also where the next request stands there."""
    rita = await server.person("rita", "reviewer")
    script = [write(f"{name}.lua") for name in "abc"]
    task_id = await server.api().submit(*script, final(), computers=(pc.name,), on_reject="continue")
    seat = await seats.open(f"tasks/{task_id}")
    first = seat.request().get_by_role("button", name="Approve", exact=True)
    await first.click()
    await expect(seat.request()).to_contain_text("b.lua")
    await expect(seat.page.locator(".said")).to_have_text("Done: approved by you.")
    held = asyncio.get_running_loop().create_future()

    async def hold(route: Route) -> None:
        await held
        await route.continue_()

    await seat.page.route("**/v1/resume/**", hold)
    await first.click()
    await rita.resume(await waiting(rita, task_id, 2), "reject")
    await expect(seat.request()).to_contain_text("c.lua")
    held.set_result(None)
    await expect(seat.page.locator(".said")).to_contain_text("Too late: it was rejected by rita")
    await seat.check_access("a task where another was first")
    await seat.page.unroute("**/v1/resume/**")

    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await seat.page.route("**/v1/resume/**", lose)
    await first.click()
    await expect(seat.page.locator(".end")).to_contain_text("Completed")
    await expect(seat.page.locator(".said")).to_contain_text("Not delivered")
    await seat.page.unroute("**/v1/resume/**")
    await seat.button("Send it again").click()
    await expect(seat.page.locator(".said")).to_have_text("Done: approved by you.")
    assert [pc.read(f"{name}.lua") is not None for name in "abc"] == [True, False, True]


@pytest.mark.deep
async def test_a_request_that_is_over_says_what_became_of_it(server: Server, pc: Computer, seats: Seats) -> None:
    """To who comes late, with its task; and one that is for others says so."""
    api = server.api()
    task_id = await api.submit(write(), final(), computers=(pc.name,))
    request_id = await waiting(api, task_id)
    otto = await server.person("otto", "viewer")
    other = await seats.open(f"approvals/{request_id}", token=otto.token)
    await expect(other.page.get_by_text("It waits for a decision of")).to_be_visible()
    await api.resume(request_id, "approve")
    seat = await seats.open(f"approvals/{request_id}")
    await expect(seat.page.get_by_text("It does not wait any more: it was approved by admin")).to_be_visible()
    await seat.page.get_by_role("link", name="See the task").click()
    await expect(seat.page.locator(".task-head")).to_be_visible()


@pytest.mark.deep
async def test_where_one_stands_is_said_by_the_title_and_the_focus(server: Server, pc: Computer, seats: Seats) -> None:
    """A view that is opened has the focus, what is done gives it back, and each page has a title of its own."""
    api = server.api()
    task_id = await api.submit(tool("ask_user", question="Which wall?"), final())
    await api.first(task_id, "question_asked")
    seat = await seats.open("tasks")
    await seat.page.locator(".rows a").click()
    await expect(seat.page).to_have_title(re.compile(r"^\(1\) Paused \u00b7 \[.* \u00b7 Tasks \u00b7 cc-orchestrator$"))
    await expect(seat.page.locator("#main")).to_be_focused()
    await seat.go("tasks")
    await seat.button("New task").click()
    await seat.button("Close").click()
    await expect(seat.button("New task")).to_be_focused()
    await seat.go(f"computers/{pc.name}")
    await expect(seat.page).to_have_title(f"(1) {pc.name} \u00b7 Computers \u00b7 cc-orchestrator")
    await seat.button("Back up now").click()
    await expect(seat.page.get_by_role("region", name="Backups")).to_contain_text("just now by admin")
    await expect(seat.button("Back up now")).to_be_focused()
    await seat.button("Type here").click()
    await seat.page.keyboard.press("Escape")
    await expect(seat.button("Type here")).to_be_focused()


@pytest.mark.deep
async def test_a_line_to_type_outlives_a_reload(server: Server, seats: Seats) -> None:
    """Until another is wanted; and who may submit nothing has no form for it."""
    await server.computer_token("c" * 64)
    seat = await seats.open("pairing", size=PHONE)
    await seat.button("Make the line").click()
    line = await seat.page.locator(".pairing code").inner_text()
    await seat.page.reload()
    await expect(seat.page.locator(".pairing code")).to_have_text(line)
    await seat.button("Pair another computer").click()
    await expect(seat.button("Make the line")).to_be_visible()
    await seat.go("policy/try")
    await expect(seat.page.get_by_label("On which computer?").locator("option")).to_have_count(2)
    assert await seat.page.evaluate("document.documentElement.scrollWidth") == PHONE[0], "wider than the phone"
    rita = await server.person("rita", "reviewer")
    other = await seats.open("tasks?new=1", token=rita.token)
    await expect(other.page.get_by_text("No task yet")).to_be_visible()
    await expect(other.page.get_by_label("What is to be done?")).to_have_count(0)


@pytest.mark.deep
async def test_what_was_approved_and_is_stale_is_said_to_be_asked_anew(
    server: Server, pc: Computer, seats: Seats
) -> None:
    """In the queue and on the task's page; there is the way to the request that stands for it now."""
    api = server.api()
    task_id = await api.submit(write(), final(), computers=(pc.name,))
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}")
    await expect(seat.request()).to_be_visible()
    pc.write("build.lua", b"print('a player was here')\n")
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    await expect(seat.page.get_by_text("It did not run as it was shown")).to_be_visible()
    await seat.page.get_by_role("link", name="Show it").click()
    await expect(seat.request(await waiting(api, task_id, 2)).locator("tr.del")).to_contain_text("a player was here")
    await seat.go(f"tasks/{task_id}")
    pc.write("build.lua", b"print('and again')\n")
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    await expect(seat.page.locator(".said")).to_contain_text("It is asked again.")
    await expect(seat.request(await waiting(api, task_id, 3)).locator("tr.del")).to_contain_text("and again")


@pytest.mark.deep
async def test_a_refused_edit_is_there_to_be_mended(server: Server, pc: Computer, seats: Seats) -> None:
    """With the words that were sent; and blanks that a change is about can be seen."""
    api = server.api()
    pc.write("build.lua", b"if x then\n\tprint(1)  \nend\n")
    content = "if x then\n    print(1)\nend\n"
    task_id = await api.submit(write(content=content), final(), computers=(pc.name,))
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}")
    await expect(seat.request().locator("tr.del .blanks")).to_have_count(2)
    await expect(seat.request().locator("tr.add .blanks")).to_have_count(0)
    await seat.check_access("a change of blanks")
    await seat.request().get_by_role("button", name="Edit").click()
    await seat.button("Edit all arguments").click()
    box = seat.page.get_by_role("dialog").get_by_role("textbox").first
    await box.fill(json.dumps({"content": "print(3)\n"}))
    await seat.button("Approve as edited").click()
    assert "Not carried out" in await seat.told("refused")
    await seat.request().get_by_role("button", name="Edit").click()
    await expect(box).to_have_value(json.dumps({"content": "print(3)\n"}))


@pytest.mark.deep
async def test_a_call_that_nobody_was_asked_about_does_not_wait(server: Server, pc: Computer, seats: Seats) -> None:
    """Its computer is away, so nobody is asked yet; canceled, it did not run. The audit finds it by the shown name."""
    api = server.api()
    pc.kill()
    task_id = await api.submit(write(), final(), computers=(pc.name,))
    seat = await seats.open(f"tasks/{task_id}")
    badge = seat.page.locator(".tool[data-call] .badge")
    await expect(badge).to_have_text("about to be asked")
    await seat.button("Cancel").click()
    await seat.button("Cancel the task").click()
    await expect(badge).to_have_text("not run")
    await seat.go("audit")
    await seat.page.get_by_label("What", exact=True).fill("Task ended")
    await seat.button("Show").click()
    await expect(seat.page.locator(".audit li")).to_have_count(1)
    await expect(seat.page.get_by_label("What", exact=True)).to_have_value("Task ended")


@pytest.mark.deep
async def test_a_refused_check_stands_beside_the_checks(server: Server, pc: Computer, seats: Seats) -> None:
    """What was typed stays, over a reload too; the corrected task has its checks, and waits for its model."""
    seat = await seats.open("tasks?new=1", size=(320, 800))
    page, checks = seat.page, seat.page.get_by_label("What has to hold at the end?")
    await checks.fill("runs farm.lua\nworks well")
    await page.reload()
    await expect(checks).to_have_value("runs farm.lua\nworks well")
    await page.get_by_label("What is to be done?").fill(prompt(final(success=False)))
    await page.get_by_role("checkbox", name=re.compile(pc.name)).check()
    await page.get_by_text("Model and session").click()
    await page.get_by_label("Wait for the model server").check()
    await seat.button("Begin").click()
    await expect(checks).to_have_accessible_description(re.compile("The check 'works well' cannot be read"))
    await expect(page.get_by_role("alert")).to_have_count(1)
    await page.get_by_text("The forms of a check").click()
    await seat.check_access("a refused check")
    assert await page.evaluate("document.documentElement.scrollWidth") == 320, "wider than the phone"
    await checks.fill("runs farm.lua\n\n  file farm.lua exists ")
    await seat.button("Begin").click()
    await expect(page.locator(".end")).to_be_visible()
    (only,) = (await server.api().ok("GET", "/v1/tasks"))["tasks"]
    task = await server.api().task(only["task_id"])
    assert [one["check"] for one in task["checks"]] == ["runs farm.lua", "file farm.lua exists"]
    assert task["wait_for_model"] is True
