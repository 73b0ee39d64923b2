"""The console in a real browser: what waits is shown whole, decided as it is shown, and who decided is told."""

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Route, expect

from orchestrator.core.task import facts
from tests.harness.processes import prompt
from tests.story.harness import Api, Computer, Server, facts_of, final, tool, tools
from tests.waiting import HANG_S
from tests.web.browser.seats import HIDE, PHONE, Seat, Seats

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROGRAM = "local wall = 'north'\nprint('built ' .. wall)\n"
TURNS_UNTIL_SHOWN = """async () => {
  let turns = 0, isListed = false;
  while (!document.querySelector(".queue a")) {
    if (isListed) turns += 1;
    else isListed = (await (await fetch("/v1/requests")).json()).requests.length > 0;
    await new Promise((done) => setTimeout(done, 50));
  }
  return turns;
}"""

PRESS_AT_ONCE = """([selector, text]) => { window.pressed = new Promise((done) => {
  let since = 0;
  new MutationObserver((_, watch) => {
    const button = document.querySelector(selector);
    if (since && !button) return done(0);
    if (!button || !document.querySelector("main").textContent.includes(text)) return;
    since ||= performance.now();
    if (button.disabled || button.ariaDisabled === "true") return button.click();
    watch.disconnect();
    done(performance.now() - since);
  }).observe(document, { attributes: true, childList: true, subtree: true });
}); }"""
"""Presses a button once it is there with a text; the milliseconds until a press counts, or 0: one did."""
MOMENT_MS = 490.0
"""The page waits for 500; a browser's clock is a little rounded."""


def write(path: str = "build.lua", content: str = PROGRAM) -> dict[str, object]:
    """A reply that writes a file, which the policy asks about."""
    return tool("cc_write", path=path, content=content)


async def waiting(api: Api, task_id: str, place: int = 1) -> str:
    """The id of a task's request."""
    return str((await api.first(task_id, "review_requested", place)).request_id)


async def began(pc: Computer) -> None:
    """Once the program on the computer has made its directory."""
    async with asyncio.timeout(HANG_S):
        while not (pc.disk / "began").exists():  # noqa: ASYNC110 - a simulated computer's disk tells nobody
            await asyncio.sleep(0.02)


async def test_submit_approve_and_it_ran(server: Server, pc: Computer, seats: Seats) -> None:
    """From the form to the output of the program, without a word of the terminal."""
    seat = await seats.open()
    await seat.button("New task").click()
    script = [write(), tool("cc_run_program", path="build.lua", args=[]), final()]
    await seat.page.get_by_label("What is to be done?").fill(prompt(*script))
    await seat.page.get_by_role("checkbox", name=re.compile(pc.name)).check()
    await seat.button("Begin").click()
    for done in ("cc_write", "cc_run_program"):
        await expect(seat.request().locator("code.tool")).to_have_text(done)
        await seat.request().get_by_role("button", name="Approve", exact=True).click()
    await expect(seat.page.locator(".end")).to_contain_text("Completed")
    await expect(seat.page.locator(".steps")).to_contain_text("built north")
    await expect(seat.page.locator(".steps tr.add").first).to_contain_text("local wall = 'north'")
    assert pc.read("build.lua") == PROGRAM.encode()
    (only,) = (await server.api().ok("GET", "/v1/tasks"))["tasks"]
    assert only["computers"] == [pc.name]
    head = seat.page.locator(".task-head")
    await expect(head.locator(".facts")).to_contain_text(re.compile(r"Tokens\d.*Active time\d+\.?\d* s"))
    await seat.button("Keep it").click()
    await expect(head).to_contain_text("kept")


@pytest.mark.deep
async def test_how_carefully_is_chosen_and_nothing_is_begun_twice(server: Server, pc: Computer, seats: Seats) -> None:
    """Only to look, or on a copy; what was typed outlives a reload, and a lost answer begins no second task."""
    api = server.api()
    seat = await seats.open("tasks?new=1")
    await seat.page.get_by_label("What is to be done?").fill(prompt(final(success=False)))
    await seat.page.get_by_role("radio", name="Only look").check()
    await seat.page.reload()
    await expect(seat.page.get_by_role("radio", name="Only look")).to_be_checked()

    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await seat.page.route("**/v1/tasks", lose, times=1)
    await seat.button("Begin").click()
    await seat.button("Send it again").click()
    await expect(seat.page.locator(".task-head")).to_contain_text("only looks")
    await seat.go("tasks?new=1")
    await seat.page.get_by_label("What is to be done?").fill(prompt(final(success=False)))
    await seat.page.get_by_role("radio", name="Rehearse").check()
    await expect(seat.button("Begin")).to_be_disabled()
    await seat.page.get_by_role("radio", name=re.compile(pc.name)).check()
    await seat.button("Begin").click()
    await expect(seat.page.locator(".task-head")).to_contain_text(f"rehearses on a copy of {pc.name}")
    begun = [await api.task(one["task_id"]) for one in (await api.ok("GET", "/v1/tasks"))["tasks"]]
    assert [(one["read_only"], one["rehearses"]) for one in begun] == [(False, pc.name), (True, None)]


async def test_a_request_shows_the_exact_action(server: Server, pc: Computer, seats: Seats, *, timed: bool) -> None:
    """Tool, computer, path, the diff with Lua's colours, who asked, the rule and why, on a phone; it is confirmed."""
    api = server.api()
    seat = await seats.open("approvals", size=PHONE)
    await expect(seat.page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    task_id = await api.submit(write(), final(), computers=(pc.name,))
    # The queue is told, nobody reloads: within a second of when the endpoint has it, counted in turns of the page.
    turns = await seat.page.evaluate(TURNS_UNTIL_SHOWN)
    assert turns * 0.05 < 1 or not timed
    await expect(seat.page).to_have_title(re.compile(r"^\(1\) Approvals"))
    await seat.page.locator(".queue a").click()
    shown = seat.request()
    # Not in what is folded, where all of it stands as JSON.
    for place, part in (
        ("header", "medium risk"),
        (".goal", "cc_write"),
        ("blockquote", "I call cc_write."),
        (".call", f"cc_write on computer {pc.name}"),
        (".call .arg", "build.lua"),
        (".call .diff", "local wall = 'north'"),
        (".call .found", "nothing there yet"),
        (".about", "asked by admin"),
        (".call .why", "A change of files is shown to a person"),
    ):
        await expect(shown.locator(place)).to_contain_text(part)
    # Ids, digests and names of rules are folded, and a key opens them.
    rules = shown.locator(".details .facts > div", has=seat.page.get_by_text("Rules", exact=True))
    await expect(rules).to_be_hidden()
    await shown.get_by_text("Details", exact=True).focus()
    await seat.page.keyboard.press("Enter")
    await expect(rules).to_be_visible()
    await expect(rules).to_contain_text("changing")
    assert await shown.locator("tr.add .hl-keyword").first.inner_text() == "local"
    width = await seat.page.evaluate("document.documentElement.scrollWidth")
    assert width == PHONE[0], "the page is wider than the phone"
    (listed,) = (await api.ok("GET", "/v1/requests"))["requests"]
    async with seat.page.expect_request("**/v1/resume/**") as sent:
        await shown.get_by_role("button", name="Approve", exact=True).click()
    assert "Done: approved by you." in await seat.told("done")
    # What is decided is named by its digest, so that it can be about nothing else.
    body = json.loads((await sent.value).post_data or "")
    named = [(one["call_id"], one["expected_digest"]) for one in body["decisions"]]
    assert named == [(one["call_id"], one["action_digest"]) for one in listed["tool_calls"]]
    await expect(seat.page.locator("#app > nav .count")).to_have_count(0)
    decided = facts_of(await api.journal(task_id), facts.DecisionRecorded)
    assert [one.action for one in decided[0].decisions] == ["approve"]


async def test_an_edit_in_place_is_what_runs(server: Server, pc: Computer, seats: Seats) -> None:
    """The change is shown as a diff before it is approved, and the journal has both."""
    api = server.api()
    task_id = await api.submit(write(), final(), computers=(pc.name,))
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}")
    await seat.request().get_by_role("button", name="Edit").click()
    dialog = seat.page.get_by_role("dialog")
    await expect(dialog.get_by_role("button", name="Approve as edited")).to_be_disabled()
    await dialog.get_by_role("textbox").first.fill(PROGRAM.replace("north", "south"))
    await expect(dialog.locator("tr.add")).to_contain_text("local wall = 'south'")
    await expect(dialog.locator("tr.del")).to_contain_text("local wall = 'north'")
    await dialog.get_by_role("button", name="Side by side").click()
    beside = dialog.locator("table.split tr", has_text="local wall = 'north'")
    await expect(beside.locator("td.half.add")).to_contain_text("local wall = 'south'")
    await dialog.get_by_label("Reason").fill("south is where the chest is")
    await dialog.get_by_role("button", name="Approve as edited").click()
    assert "edited and approved by you" in await seat.told("done")
    items = await api.journal(task_id)
    assert pc.read("build.lua") == PROGRAM.replace("north", "south").encode()
    (recorded,) = facts_of(items, facts.DecisionRecorded)
    assert (recorded.decisions[0].action, recorded.decisions[0].reason) == ("edit", "south is where the chest is")


async def test_the_next_request_is_there_before_the_server_has_answered(
    server: Server, pc: Computer, seats: Seats
) -> None:
    """What is on its way is said at once, and the focus is at the next one, which has to be shown for its moment."""
    api = server.api()
    tasks = [await api.submit(write(name), final(), computers=(pc.name,)) for name in ("a.lua", "b.lua")]
    ids = [await waiting(api, task_id) for task_id in tasks]
    seat = await seats.open(f"approvals/{ids[0]}")
    answers = asyncio.get_running_loop().create_future()

    async def hold(route: Route) -> None:
        await answers
        await route.continue_()

    await seat.page.route("**/v1/resume/**", hold)
    await expect(seat.request(ids[0])).to_be_visible()
    await seat.page.keyboard.press("a")
    sending = seat.page.locator(".decided [data-outcome]")
    await expect(sending).to_contain_text("cc_write a.lua")
    await expect(sending).to_contain_text("Sending")
    await expect(seat.page.locator(f'[data-id="{ids[0]}"] .badge', has_text="sending")).to_be_visible()
    await expect(seat.page.get_by_role("heading", name="May this run?")).to_be_focused()
    await expect(seat.request(ids[1])).to_be_visible()
    await seat.page.keyboard.press("a")
    await expect(seat.request(ids[1]).locator('[data-key="a"]')).to_have_text("Sending\u2026")
    answers.set_result(None)
    await expect(seat.page.locator('[data-outcome="done"]')).to_have_count(2)
    await seat.check_access("a decision above the next request")
    for task_id in tasks:
        assert len(facts_of(await api.journal(task_id), facts.DecisionRecorded)) == 1


@pytest.mark.deep
async def test_a_rejection_has_a_reason_and_says_what_then(server: Server, pc: Computer, seats: Seats) -> None:
    """The task goes on, and the model is told why."""
    api = server.api()
    task_id = await api.submit(write(), final(success=False), computers=(pc.name,))
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}")
    await seat.request().get_by_role("button", name="Reject").click()
    await seat.page.get_by_label("Reason").fill("Not that wall.")
    await expect(seat.page.get_by_role("radio", name="Reject and tell the model")).to_be_checked()
    await seat.button("Reject and tell").click()
    assert "Done: rejected by you." in await seat.told("done")
    items = await api.journal(task_id)
    (recorded,) = facts_of(items, facts.DecisionRecorded)
    assert (recorded.decisions[0].reason, recorded.decisions[0].on_reject) == ("Not that wall.", "continue")
    assert pc.read("build.lua") is None
    await seat.go(f"tasks/{task_id}")
    await expect(seat.page.locator(".steps")).to_contain_text("Reason: Not that wall.")


@pytest.mark.deep
async def test_of_two_browsers_the_second_is_told_who_decided(server: Server, pc: Computer, seats: Seats) -> None:
    """One whose click was on its way, and one who only looked."""
    rita, rob, eve = [await server.person(name, "reviewer") for name in ("rita", "rob", "eve")]
    task_id = await server.api().submit(write(), final(), computers=(pc.name,))
    place = f"approvals/{await waiting(server.api(), task_id)}"
    first, second, third = [await seats.open(place, token=one.token) for one in (rita, rob, eve)]
    boss = await seats.open("approvals", token=(await server.person("boss", "admin")).token)
    await expect(boss.page.get_by_text("1 request waits for somebody else.")).to_be_visible()
    held = asyncio.get_running_loop().create_future()

    async def hold(route: Route) -> None:
        await held
        await route.continue_()

    await second.page.route("**/v1/resume/**", hold)
    await expect(third.request()).to_be_visible()
    await second.request().get_by_role("button", name="Approve", exact=True).click()
    await first.request().get_by_role("button", name="Approve", exact=True).click()
    assert "Done: approved by you." in await first.told("done")
    await expect(third.page.locator(".request .bar")).to_contain_text("Decided elsewhere: approved by rita.")
    await expect(third.button("Approve")).to_have_count(0)
    held.set_result(None)
    assert re.search(r"Too late: it was approved by rita", await second.told("refused"))
    decided = facts_of(await server.api().journal(task_id), facts.DecisionRecorded)
    assert len(decided) == 1


async def test_the_first_of_two_approvals_is_told_as_counted(server: Server, pc: Computer, seats: Seats) -> None:
    """Only after the last one it is told as done."""
    file = server.home / "policy.toml"
    whole = file.read_text("utf-8")
    file.write_text(f"{whole}\n[requests]\napprovals = 2\n", "utf-8")
    api = server.api()
    await api.ok("POST", "/v1/policy/reload", {})
    try:
        task_id = await api.submit(write(), final(), computers=(pc.name,))
        place = f"approvals/{await waiting(api, task_id)}"
        ann, bob = [
            await seats.open(place, token=(await server.person(one, "reviewer")).token) for one in ("ann", "bob")
        ]
        await ann.request().get_by_role("button", name="Edit").click()
        dialog = ann.page.get_by_role("dialog")
        await dialog.get_by_role("textbox").first.fill("print('shorter')\n")
        await dialog.get_by_role("button", name="Approve as edited").click()
        assert "Counted: edited and approved by you. Approved so far: 1 of 2: ann" in await ann.told("done")
        await bob.request().get_by_role("button", name="Approve", exact=True).click()
        assert "Done: approved by you." in await bob.told("done")
        await api.journal(task_id)
        assert pc.read("build.lua") == b"print('shorter')\n"
    finally:
        file.write_text(whole, "utf-8")
        await api.ok("POST", "/v1/policy/reload", {})


async def test_what_is_cut_is_approved_only_whole(server: Server, pc: Computer, seats: Seats) -> None:
    """No button and no key approves it before; then it is approved by the digest of the whole."""
    api = server.api()
    long = "".join(f"print('line {number} of a long program')\n" for number in range(1000))
    task_id = await api.submit(write(content=long), final(), computers=(pc.name,))
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}")
    approve = seat.request().get_by_role("button", name="Approve", exact=True)
    await expect(seat.request()).to_contain_text("Cut: not all of this call is shown")
    await expect(approve).to_have_attribute("aria-disabled", "true")
    await seat.page.keyboard.press("a")
    await approve.click(force=True)
    await expect(seat.page.locator("[data-outcome]")).to_have_count(0)
    await seat.button("Show the whole").click()
    await expect(approve).to_have_attribute("aria-disabled", "false")
    await expect(seat.request().locator(".call .diff")).to_contain_text("line 999 of a long program")
    await approve.click()
    await seat.told("done")
    await api.journal(task_id)
    assert pc.read("build.lua") == long.encode()


async def test_what_was_just_fetched_whole_is_not_approved_at_once(server: Server, pc: Computer, seats: Seats) -> None:
    """A press that was meant for the short text is none for the long one: it has to be on the page for its moment."""
    api = server.api()
    long = "".join(f"print('line {number} of a long program')\n" for number in range(1000))
    task_id = await api.submit(write(content=long), final(), computers=(pc.name,))
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}")
    await expect(seat.request()).to_be_visible()
    await seat.page.evaluate(PRESS_AT_ONCE, ['.request > .bar [data-key="a"]', "line 999 of a long program"])
    await seat.button("Show the whole").click()
    assert await seat.page.evaluate("window.pressed") >= MOMENT_MS
    await expect(seat.page.locator("[data-outcome]")).to_have_count(0)
    assert not [one for one in seat.requests if "/v1/resume/" in one]
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    await seat.told("done")


async def test_a_choice_is_not_picked_the_moment_it_appears(server: Server, seats: Seats) -> None:
    """A press that was meant for the thing before it is none for a choice; after its moment the choice is picked."""
    api = server.api()
    seat = await seats.open("approvals")
    await expect(seat.page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    await seat.page.evaluate(PRESS_AT_ONCE, [".choices button", "Which wall?"])
    task_id = await api.submit(tool("ask_user", question="Which wall?", options=["north", "south"]), final())
    await api.first(task_id, "question_asked")
    await seat.page.locator(".queue a").click()
    assert await seat.page.evaluate("window.pressed") >= MOMENT_MS
    await expect(seat.page.locator("[data-outcome]")).to_have_count(0)
    await seat.button("2. south").click()
    await seat.told("done")
    (answered,) = facts_of(await api.journal(task_id), facts.QuestionAnswered)
    assert answered.answer == "south"


@pytest.mark.deep
async def test_what_is_folded_is_approved_only_opened(server: Server, pc: Computer, seats: Seats) -> None:
    """Alone and among several: no key and no button approves it before; what was not delivered counts once."""
    api = server.api()
    lines = "--\n" * 1300
    tasks = [await api.submit(write(name, text), final(), computers=(pc.name,)) for name, text in
             (("a.lua", lines), ("b.lua", PROGRAM))]  # fmt: skip
    ids = [await waiting(api, task_id) for task_id in tasks]
    seat = await seats.open(f"approvals/{ids[0]}")
    approve = seat.request(ids[0]).get_by_role("button", name="Approve", exact=True)
    await expect(seat.request(ids[0])).to_contain_text("open the rest of each text first")
    await seat.page.keyboard.press("a")
    await approve.click(force=True)
    await expect(seat.page.locator("[data-outcome]")).to_have_count(0)
    await seat.button(re.compile("Show the other"), exact=False).click()
    await expect(approve).to_have_attribute("aria-disabled", "false")
    await seat.button("Several").click()
    for box in await seat.page.locator(".queue input").all():
        await box.check()
    await seat.button("Look at 2 together").click()
    await expect(seat.page.get_by_text("Not all of each is shown yet.")).to_be_visible()
    await expect(seat.button("Approve these 2")).to_be_disabled()
    await seat.button(re.compile("Show the other"), exact=False).click()
    await seat.page.route("**/v1/decisions", lambda route: route.abort(), times=1)
    await seat.button("Approve these 2").click()
    assert "Not delivered" in await seat.told("unsent")
    await seat.button("Send it again").first.click()
    await expect(seat.page.locator('[data-outcome="done"]')).to_have_count(2)
    for task_id in tasks:
        assert len(facts_of(await api.journal(task_id), facts.DecisionRecorded)) == 1
    assert pc.read("a.lua") == lines.encode()


@pytest.mark.deep
async def test_what_was_cut_and_opened_is_opened_anew_once_it_is_whole(
    server: Server, pc: Computer, seats: Seats
) -> None:
    """The lines of the part count for nothing; while the others still come nothing approves them."""
    api = server.api()
    task_id = await api.submit(write(content="-- 345678\n" * 4_000), final(), computers=(pc.name,))
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}")
    approve = seat.request().get_by_role("button", name="Approve", exact=True)
    await seat.button(re.compile("Show the other"), exact=False).click()
    await expect(seat.button(re.compile("the other"), exact=False)).to_have_count(0)
    # From here on it draws nothing, so that what comes does not come to its end.
    await seat.page.evaluate("window.requestAnimationFrame = () => 0")
    await seat.button("Show the whole").click()
    await expect(seat.button(re.compile("the other"), exact=False)).to_be_visible()
    await expect(seat.page.locator(".request[data-settled='true']")).to_be_visible()
    await expect(seat.request()).to_contain_text("open the rest of each text first")
    await approve.click(force=True)
    await seat.page.keyboard.press("a")
    await expect(seat.page.locator("[data-outcome]")).to_have_count(0)


@pytest.mark.deep
async def test_what_came_just_now_is_not_approved(server: Server, pc: Computer, seats: Seats) -> None:
    """For half a second after it is shown neither a click nor a key that was meant for something else counts."""
    api = server.api()
    seat = await seats.open("approvals", fresh=True)
    clock = seat.page.clock
    await clock.install()
    await seat.page.reload()
    await expect(seat.page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    await clock.pause_at(datetime.now(UTC) + timedelta(minutes=1))
    task_id = await api.submit(write(), final(), computers=(pc.name,))
    await waiting(api, task_id)
    approve = seat.button("Approve")
    async with asyncio.timeout(HANG_S):
        # The page draws by its clock.
        while await seat.page.locator('[data-key="a"]').count() == 0:
            await clock.run_for(20)
    await clock.run_for(400)
    await approve.click(force=True)
    await seat.page.keyboard.press("a")
    await clock.run_for(20)
    await expect(approve).to_have_attribute("aria-disabled", "true")
    await expect(seat.page.locator("[data-outcome]")).to_have_count(0)
    await clock.run_for(200)
    await expect(approve).to_have_attribute("aria-disabled", "false")
    await seat.page.keyboard.press("a")
    await clock.resume()
    assert "Done: approved by you." in await seat.told("done")


@pytest.mark.deep
async def test_an_answer_in_its_place_is_what_the_model_is_told(server: Server, pc: Computer, seats: Seats) -> None:
    """Every argument stood there; nothing runs."""
    api = server.api()
    pc.write("a.lua", b"1")
    script = (tool("cc_move", path="a.lua", to="b.lua"), final(success=False))
    task_id = await api.submit(*script, computers=(pc.name,))
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}")
    for name, value in (("path", "a.lua"), ("to", "b.lua")):
        await expect(seat.request().locator(".arg", has_text=name).locator("code").first).to_have_text(value)
    await seat.request().get_by_role("button", name="Respond").click()
    await seat.page.get_by_label("What it is told").fill("I moved it myself.")
    await seat.button("Send", exact=True).click()
    assert "answered by you in its place" in await seat.told("done")
    (recorded,) = facts_of(await api.journal(task_id), facts.DecisionRecorded)
    assert (recorded.decisions[0].action, recorded.decisions[0].answer) == ("respond", "I moved it myself.")
    assert pc.read("b.lua") is None


@pytest.mark.deep
async def test_each_call_of_a_request_has_its_own_decision(server: Server, pc: Computer, seats: Seats) -> None:
    """One is rejected, the other approved; the request stays until the last."""
    api = server.api()
    task_id = await api.submit(
        tools(write("a.lua"), write("b.lua")), final(), computers=(pc.name,), on_reject="continue"
    )
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}")
    await expect(seat.button("Approve all 2")).to_be_visible()
    await seat.page.locator(".call").nth(0).get_by_role("button", name="Reject").click()
    await seat.page.get_by_role("dialog").get_by_role("button", name="Reject").click()
    await seat.told("done")
    await expect(seat.page.locator(".call")).to_have_count(1)
    await expect(seat.request()).to_contain_text("b.lua")
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    await api.journal(task_id)
    assert (pc.read("a.lua"), pc.read("b.lua")) == (None, PROGRAM.encode())


async def two_together(api: Api, pc: Computer, seats: Seats) -> tuple[Seat, list[str]]:
    """Two requests to write, looked at together; the tasks that they are of."""
    tasks = [await api.submit(write(f"{name}.lua"), final(), computers=(pc.name,)) for name in "ab"]
    for task_id in tasks:
        await waiting(api, task_id)
    seat = await seats.open("approvals")
    await seat.button("Several").click()
    for box in await seat.page.locator(".queue input").all():
        await box.check()
    await seat.button("Look at 2 together").click()
    return seat, tasks


@pytest.mark.deep
async def test_several_requests_are_decided_together_each_shown(server: Server, pc: Computer, seats: Seats) -> None:
    """Exactly those that were looked at, with one note: what comes later waits."""
    api = server.api()
    seat, first = await two_together(api, pc, seats)
    later = await api.submit(write("c.lua"), final(), computers=(pc.name,))
    await waiting(api, later)
    await expect(seat.page.locator("#app > nav .count")).to_contain_text("3")
    await expect(seat.page.locator(".together .request")).to_have_count(2)
    await seat.check_access("several together")
    await seat.page.get_by_label("One note for all of these").fill("Well done.")
    await seat.button("Approve these 2").click()
    await expect(seat.page.locator('[data-outcome="done"]')).to_have_count(2)
    for task_id in first:
        (recorded,) = facts_of(await api.journal(task_id), facts.DecisionRecorded)
        assert [(one.action, one.reason) for one in recorded.decisions] == [("approve", "Well done.")]
    assert [pc.read(f"{name}.lua") is not None for name in "abc"] == [True, True, False]
    assert (await api.task(later))["status"] == "Paused"


@pytest.mark.deep
async def test_several_requests_are_rejected_together(server: Server, pc: Computer, seats: Seats) -> None:
    """With one reason, which each of them gets."""
    api = server.api()
    seat, tasks = await two_together(api, pc, seats)
    await seat.button("Reject these 2").click()
    await seat.page.get_by_label("Reason").fill("Not today.")
    await seat.page.get_by_role("dialog").get_by_role("button", name="Reject and tell").click()
    await expect(seat.page.locator('[data-outcome="done"]')).to_have_count(2)
    for task_id in tasks:
        (recorded,) = facts_of(await api.journal(task_id), facts.DecisionRecorded)
        assert [(one.action, one.reason) for one in recorded.decisions] == [("reject", "Not today.")]
    assert (pc.read("a.lua"), pc.read("b.lua")) == (None, None)


@pytest.mark.deep
async def test_a_question_is_answered_in_the_queue(server: Server, seats: Seats) -> None:
    """The answer goes to the model, and the question goes away."""
    api = server.api()
    task_id = await api.submit(tool("ask_user", question="Which wall?"), final())
    await api.first(task_id, "question_asked")
    seat = await seats.open("approvals")
    await expect(seat.page.locator(".detail")).to_contain_text("Which wall?")
    await seat.page.get_by_label("Your answer").fill("The north one.")
    await seat.button("Answer").click()
    assert "Done: answered by you." in await seat.told("done")
    (answered,) = facts_of(await api.journal(task_id), facts.QuestionAnswered)
    assert answered.answer == "The north one."


@pytest.mark.deep
async def test_a_choice_is_picked_by_its_button_and_the_model_gets_its_text(server: Server, seats: Seats) -> None:
    """Also a choice of which the page is shown a marker: the button sends its number."""
    api = server.api()
    choices = ["<b>north</b>", "password=hunter2swordfish9", "neither of them"]
    task_id = await api.submit(tool("ask_user", question="Which wall?", options=choices), final())
    await api.first(task_id, "question_asked")
    seat = await seats.open("approvals")
    buttons = seat.page.get_by_role("list", name="Choices").get_by_role("button")
    await expect(buttons).to_have_count(3)
    await expect(buttons.first).to_have_text("1. <b>north</b>")
    await expect(buttons.nth(1)).to_contain_text("[redacted ")
    await expect(seat.page.get_by_label("Or your own words")).to_be_visible()
    await buttons.nth(1).click()
    assert "Done: answered by you." in await seat.told("done")
    assert "hunter2" not in await seat.page.inner_text("body")
    (answered,) = facts_of(await api.journal(task_id), facts.QuestionAnswered)
    assert answered.answer.startswith("password=[redacted ")


@pytest.mark.deep
async def test_what_nobody_knows_is_looked_at_and_said(server: Server, pc: Computer, seats: Seats) -> None:
    """A program whose computer died: check, done, not done and anew are what is offered, and no approval."""
    api = server.api()
    pc.write("long.lua", b"fs.makeDir('began') os.pullEvent('never')\n")
    task_id = await api.submit(tool("cc_run_program", path="long.lua", args=[]), final(), computers=(pc.name,))
    await api.resume(await waiting(api, task_id), "approve")
    await api.first(task_id, "tool_started")
    await began(pc)
    pc.kill()
    pc.boot()
    seat = await seats.open(f"approvals/{await waiting(api, task_id, 2)}")
    await expect(seat.page.get_by_role("heading", name="Nobody knows whether this ran")).to_be_visible()
    buttons = [await one.inner_text() for one in await seat.page.locator(".bar .actions > button:visible").all()]
    assert buttons[:4] == ["Check again", "It was done", "It was not done", "Ask anew"]
    await seat.button("It was not done").click()
    assert "Done: marked as failed by you." in await seat.told("done")
    decided = facts_of(await api.journal(task_id), facts.DecisionRecorded)
    assert decided[-1].decisions[0].action == "mark_failed"


@pytest.mark.deep
async def test_a_standing_approval_says_how_far_it_reaches(server: Server, pc: Computer, seats: Seats) -> None:
    """Any text at one path, in this task: the second write asks nobody, and the deadline can be moved before."""
    api = server.api()
    task_id = await api.submit(write(), write(content="print(2)\n"), final(), computers=(pc.name,))
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}")
    await expect(seat.request()).to_be_visible()
    (before,) = (await api.ok("GET", "/v1/requests"))["requests"]
    await seat.button("An hour more").click()
    await api.first(task_id, "review_noted", 2)
    (after,) = (await api.ok("GET", "/v1/requests"))["requests"]
    expires = [datetime.fromisoformat(one["expires_at"]) for one in (before, after)]
    assert expires[1] - expires[0] > timedelta(minutes=59)
    await expect(seat.request()).to_be_visible()
    await seat.page.keyboard.press("g")
    dialog = seat.page.get_by_role("dialog")
    await dialog.get_by_role("radio", name="these paths, in this task").check()
    await dialog.get_by_role("checkbox", name="With any text").check()
    await expect(dialog).to_contain_text("content: any text")
    await dialog.get_by_role("button", name="Approve and remember").click()
    await seat.told("done")
    await api.journal(task_id)
    assert pc.read("build.lua") == b"print(2)\n"


async def test_an_approval_by_keyboard_alone(server: Server, pc: Computer, seats: Seats) -> None:
    """Signing in, going there, moving, reading the help and deciding; a key of another view does nothing."""
    api = server.api()
    made, ids = [], []
    for name in "ab":
        made.append(await api.submit(write(f"{name}.lua"), final(), computers=(pc.name,)))
        ids.append(await waiting(api, made[-1]))
    seat = await seats.open(token=None)
    keyboard = seat.page.keyboard
    await expect(seat.page.get_by_label("Your token")).to_be_focused()
    await keyboard.type(str(api.token))
    await keyboard.press("Enter")
    await expect(seat.page.locator("#app > nav .count")).to_contain_text("2")
    await keyboard.press("a")
    for _ in range(12):
        await keyboard.press("Tab")
        if await seat.page.evaluate("document.activeElement.textContent.startsWith('Approvals')"):
            break
    await keyboard.press("Enter")
    await expect(seat.request(ids[0])).to_be_visible()
    await keyboard.press("?")
    await expect(seat.page.get_by_role("dialog")).to_contain_text("approve what is shown")
    await keyboard.press("a")
    await keyboard.press("Escape")
    await keyboard.press("j")
    await expect(seat.request(ids[1])).to_be_visible()
    await keyboard.press("a")
    # The next one is there by itself.
    await expect(seat.request(ids[0])).to_be_visible()
    await keyboard.press("r")
    await expect(seat.page.get_by_label("Reason")).to_be_focused()
    await keyboard.type("No.")
    await keyboard.press("Enter")
    await expect(seat.page.locator('.request [data-outcome="done"]')).to_contain_text("rejected by you")
    ends = [(await api.journal(task_id))[-1].fact for task_id in made]
    assert [getattr(one, "status", None) for one in ends] == ["Completed", "Completed"]
    (said,) = facts_of(await api.journal(made[0]), facts.DecisionRecorded)
    assert (said.decisions[0].reason, said.decisions[0].on_reject) == ("No.", "continue")


@pytest.mark.deep
async def test_notifications_are_asked_for_only_by_a_click(server: Server, seats: Seats) -> None:
    """Nothing asks by itself; the button does, and is gone once somebody answered."""
    seat = await seats.open(token=None, fresh=True)
    await seat.context.add_init_script(
        "window.asked = 0; class Shown { static permission = 'default';"
        "static async requestPermission() { window.asked++; return 'denied'; } } window.Notification = Shown;"
    )
    await seat.page.reload()
    await seat.sign_in(str(server.api().token))
    await seat.go("approvals")
    await seat.button("Notifications").click()
    await expect(seat.button("Notify me")).to_be_visible()
    assert await seat.page.evaluate("window.asked") == 0
    await seat.button("Notify me").click()
    await expect(seat.button("Notify me")).to_have_count(0)
    assert await seat.page.evaluate("window.asked") == 1


@pytest.mark.deep
async def test_a_notification_comes_while_one_looks_elsewhere_and_leads_there(server: Server, seats: Seats) -> None:
    """None while the page is looked at; each thing is told once."""
    api = server.api()
    seat = await seats.open(token=None, fresh=True)
    await seat.context.add_init_script(
        "window.shown = []; class Shown { static permission = 'granted';"
        "constructor(title) { window.shown.push(this); this.title = title; } close() {} } window.Notification = Shown;"
    )
    await seat.page.reload()
    await seat.sign_in(str(api.token))
    for count, is_hidden in enumerate((False, True), 1):
        await seat.page.evaluate(HIDE, is_hidden)
        task_id = await api.submit(tool("ask_user", question="Which wall?"), final())
        asked = await api.first(task_id, "question_asked")
        await expect(seat.page.locator("#app > nav .count")).to_contain_text(str(count))
        titles = await seat.page.evaluate("window.shown.map((one) => one.title)")
        assert titles == (["A task asks something"] if is_hidden else [])
    await seat.page.evaluate(HIDE, False)
    await seat.page.evaluate("window.shown[0].onclick()")
    await expect(seat.page.locator(f'[data-question="{asked.question_id}"]')).to_be_visible()


async def test_the_next_reviewer_is_shown_the_edit_and_its_requester_who_decides(
    server: Server, pc: Computer, seats: Seats
) -> None:
    """The edited text stands first and runs; the model's is below. The requester reads who decides, and how many."""
    api = server.api()
    two = '[[approvals]]\nwhen = { tools = ["cc_write"] }\nsteps = [{ by = "role:reviewer", count = 2 }]\n'
    policy = (server.home / "policy.toml").read_text("utf-8")
    await api.ok("POST", "/v1/policy", {"policy": f"{policy}\n{two}"})
    sam, bob, eve = [
        await server.person(name, role)
        for name, role in (("sam", "submitter"), ("bob", "reviewer"), ("eve", "reviewer"))
    ]
    await api.ok("POST", f"/v1/computers/{pc.name}/owner", {"person": "sam"})
    task_id = await sam.submit(write(), final(), computers=(pc.name,))
    request_id = await waiting(api, task_id)
    (call,) = (await bob.ok("GET", f"/v1/requests/{request_id}"))["tool_calls"]
    args = {**call["args"], "content": PROGRAM.replace("north", "south")}
    edit = {"call_id": call["call_id"], "action": "edit", "args": args}
    await bob.ok("POST", f"/v1/resume/{request_id}", {"decisions": [edit]})
    requester = await seats.open(f"tasks/{task_id}", token=sam.token)
    for place, shown in ((f"tasks/{task_id}", ".note.warn"), (f"approvals/{request_id}", ".detail .note")):
        await requester.go(place)
        said = requester.page.locator(shown, has_text="It waits for a decision of somebody with the role reviewer.")
        await expect(said).to_contain_text("2 people have to approve it. Approved 1 of 2: bob")
        await expect(said).to_contain_text("The request expires in")
    await requester.go(f"tasks/{task_id}")
    step = requester.page.locator(".steps .tool")
    await expect(step).to_contain_text("Edited by bob")
    await expect(step.locator("tr.add")).to_have_count(1)
    await expect(step.locator("tr.add")).to_contain_text("local wall = 'south'")
    seat = await seats.open(f"approvals/{request_id}", token=eve.token)
    await expect(seat.request().locator(".call")).to_contain_text("Edited by bob.")
    decided, changed = (seat.request().locator(".diff").nth(place) for place in range(2))
    await expect(decided).to_contain_text("local wall = 'south'")
    await expect(decided).not_to_contain_text("north")
    await expect(changed).to_contain_text(re.compile("north.*south", re.DOTALL))
    await seat.check_access("an edited request")
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    assert "approved by you" in await seat.told("done")
    await api.first(task_id, "task_ended")
    assert pc.read("build.lua") == args["content"].encode()


async def test_reviewers_share_a_request(server: Server, pc: Computer, seats: Seats) -> None:
    """Who looks at it and what they say is there at once; what is claimed by another is not decided, and says so."""
    api = server.api()
    task_id = await api.submit(write(), final(), computers=(pc.name,))
    request_id = await waiting(api, task_id)
    bob = await server.person("bob", "reviewer")
    bobs = server.api(bob.token)
    await bobs.ok("POST", f"/v1/requests/{request_id}/claim", {})
    await bobs.ok("POST", f"/v1/requests/{request_id}/comment", {"text": "Is the <b>chest</b> empty?"})
    seat = await seats.open(f"approvals/{request_id}")
    team = seat.request().locator(".team")
    await expect(team).to_contain_text("bob looks at it, and others wait. The claim expires in")
    await expect(team.locator(".comments")).to_contain_text("Is the <b>chest</b> empty?")
    await team.get_by_text("Claim, comment, escalate").click()
    await team.get_by_role("button", name="Release").click()
    await expect(team.get_by_role("button", name="Claim")).to_be_visible()
    await team.get_by_role("button", name="Claim").click()
    await expect(team).to_contain_text("You look at it")
    await team.get_by_label("To the next reviewer").fill("It is.")
    await team.get_by_role("button", name="Comment").click()
    await expect(team.locator(".comments li")).to_have_count(2)
    await team.get_by_role("button", name="Escalate").click()
    await expect(team).to_contain_text("Escalated: somebody with the role admin decides it.")
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    assert "approved by you" in await seat.told("done")
