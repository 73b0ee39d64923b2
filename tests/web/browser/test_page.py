"""The console's page in a real browser: signing in, restarts, hostile text, many tasks, and what axe has to say."""

import asyncio
import re
import sys
import unicodedata
from pathlib import Path

import pytest
from playwright.async_api import expect

from orchestrator.core.task import facts
from orchestrator.core.text.visible import visible
from tests.story.harness import Api, Computer, Server, facts_of, final, play, tool
from tests.web.browser.seats import PHONE, Seat, Seats
from tests.web.browser.test_approving import began, waiting, write

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>\x1b[31m\u202e\u200bcafe\u0301'
NAME = "a&lt;b&gt;'x.lua"
"""The game allows no sharper one; a page that made markup of it would show another."""
GROUND = "getComputedStyle(document.documentElement).getPropertyValue('--ground')"
SHOWN = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>\\u{1b}[31m\\u{202e}\\u{200b}cafe\u0301'


async def test_signing_in_keeps_the_place_and_lasts(server: Server, seats: Seats) -> None:
    """A wrong token is told as a sentence; the place is kept over the sign-in and a reload; signing out lasts.

    A page that is loaded again asks for no module, and a revoked token leads to the sign-in.
    """
    seat = await seats.open("tasks?status=Failed", token=None)
    await seat.page.get_by_label("Your token").fill("wrong")
    await seat.button("Sign in").click()
    await expect(seat.page.get_by_role("alert")).to_contain_text("token")
    await seat.sign_in(str(server.api().token))
    await expect(seat.page.get_by_text("None of these")).to_be_visible()
    assert seat.page.url.endswith("#/tasks?status=Failed")
    await seat.page.reload()
    await expect(seat.page.get_by_text("None of these")).to_be_visible()
    # A browser keeps the modules; of the first time none waits for the one that imports it.
    sent = "performance.getEntriesByType('resource').filter((one) => one.transferSize).map((one) => one.name)"
    assert [url for url in await seat.page.evaluate(sent) if "/console/" in url] == []
    await seat.page.keyboard.press("Tab")
    await expect(seat.page.get_by_role("link", name="To the content")).to_be_focused()
    await seat.page.keyboard.press("Enter")
    await expect(seat.page.locator("main")).to_be_focused()
    looks = []
    for said in ("system", "light", "dark"):
        await seat.button(f"Look: {said}. Change").click()
        looks.append(await seat.page.evaluate(GROUND))
    assert looks[0] == looks[2] != looks[1]
    await seat.button("Sign out").click()
    await expect(seat.page.get_by_label("Your token")).to_be_visible()
    await seat.page.reload()
    await expect(seat.page.get_by_label("Your token")).to_be_visible()
    assert await seat.context.cookies() == []
    # A token that is revoked leads there too, by itself, while the page is only looked at.
    await seat.sign_in(str((await server.person("rita", "reviewer")).token))
    await server.api().ok("DELETE", "/v1/tokens/person/rita")
    await expect(seat.page.get_by_label("Your token")).to_be_visible()


@pytest.mark.deep
async def test_the_page_outlives_its_server(server: Server, pc: Computer, seats: Seats) -> None:
    """Killed, it is said so quietly; a decision is not delivered, and counts once when the server is back."""
    api = server.api()
    task_id = await api.submit(write(), final(), computers=(pc.name,))
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}")
    await expect(seat.request()).to_be_visible()
    server.kill()
    await expect(seat.page.locator(".banner")).to_contain_text("The server is away")
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    assert "Not delivered" in await seat.told("unsent")
    server.start()
    await expect(seat.page.locator(".connection.live")).to_be_visible()
    await expect(seat.page.locator(".banner")).to_have_count(0)
    await seat.button("Send it again").click()
    assert "Done: approved by you." in await seat.told("done")
    items = await api.journal(task_id)
    assert len(facts_of(items, facts.DecisionRecorded)) == 1
    await seat.go("tasks")
    await expect(seat.page.locator(".rows")).to_contain_text("Completed")


@pytest.mark.deep
async def test_a_line_that_is_dead_without_a_word_is_noticed(server: Server, seats: Seats) -> None:
    """The browser's network goes; or the server stands still: nobody closes anything, and nothing comes."""
    seat = await seats.open(fresh=True)
    away, live = seat.page.locator(".connection.away"), seat.page.locator(".connection.live")
    await seat.context.set_offline(True)
    await expect(away).to_be_visible()
    await seat.context.set_offline(False)
    await expect(live).to_be_visible()
    await seat.page.clock.install()
    await seat.page.reload()
    await expect(live).to_be_visible()
    asked: list[str] = []
    seat.page.on("request", lambda request: asked.append(request.url))
    with server.still():
        await seat.page.clock.run_for(10_500)
        await expect(live).to_be_visible()
        async with asyncio.timeout(seats.within_ms / 1000):
            while not any(url.endswith("/healthz") for url in asked):
                await seat.page.clock.run_for(100)
        await seat.page.clock.run_for(5_000)
        await expect(away).to_be_visible()
    await seat.page.clock.resume()
    await expect(live).to_be_visible()


@pytest.mark.deep
async def test_many_windows_side_by_side_all_go_on(server: Server, pc: Computer, seats: Seats) -> None:
    """A browser opens six connections to a server for all of them together; streams are none of these."""
    api = server.api()
    task_id = await api.submit(write(), final(), computers=(pc.name,))
    await waiting(api, task_id)
    seat = await seats.open(f"tasks/{task_id}")
    for _ in range(6):
        page = await seat.context.new_page()
        await page.goto(f"{server.url}/#/tasks/{task_id}")
        await expect(page.locator(".connection.live")).to_be_visible()
        await expect(page.get_by_role("region", name="A decision")).to_be_visible()
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    assert "Done: approved by you." in await seat.told("done")
    await expect(page.locator('[data-status="Completed"]')).to_be_visible()


@pytest.mark.deep
async def test_a_task_is_followed_over_a_restart_and_a_reload(server: Server, pc: Computer, seats: Seats) -> None:
    """What was seen stays, nothing comes twice, and the end is told."""
    api = server.api()
    script = (write("a.lua"), write("b.lua"), write("c.lua"), final())
    task_id = await api.submit(*script, computers=(pc.name,))
    seat = await seats.open(f"tasks/{task_id}")
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    await expect(seat.page.locator(".step")).to_have_count(2)
    server.kill()
    server.start()
    await expect(seat.page.locator(".connection.live")).to_be_visible()
    await expect(seat.request()).to_contain_text("b.lua")
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    await expect(seat.page.locator(".step")).to_have_count(3)
    await seat.page.reload()
    await expect(seat.request()).to_contain_text("c.lua")
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    await expect(seat.page.locator(".end")).to_contain_text("Completed")
    await expect(seat.page.locator(".tool[data-call]")).to_have_count(3)


@pytest.mark.deep
async def test_hostile_text_is_text(server: Server, pc: Computer, seats: Seats) -> None:
    """In goals, names of files, diffs, programs, output, questions and reasons: it is shown, and nothing of it runs."""
    api = server.api()
    program = f"print([[{HOSTILE}]])\n"
    script = (
        write(NAME, program),
        tool("cc_run_program", path=NAME, args=[]),
        tool("ask_user", question=HOSTILE),
        final(),
    )
    task_id = await api.submit(*script, computers=(pc.name,), session_id="<i>s")
    seat = await seats.open(f"approvals/{await waiting(api, task_id)}")
    await expect(seat.request().locator("tr.add").first).to_contain_text(SHOWN)
    await expect(seat.request().locator("tr.add .escape").first).to_have_text("\\u{1b}")
    await expect(seat.request().locator(".call .arg").first).to_contain_text(NAME)
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    await seat.go(f"approvals/{await waiting(api, task_id, 2)}")
    await expect(seat.request().locator(".call")).to_contain_text("The program as it stands there")
    await expect(seat.request().locator(".call > .note")).to_contain_text("what it loads by require or dofile is not")
    await seat.button("Edit").click()
    await expect(seat.page.get_by_role("dialog").get_by_role("textbox").first).to_be_focused()
    await seat.page.keyboard.press("Escape")
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    await api.first(task_id, "question_asked")
    await seat.go(f"tasks/{task_id}")
    await expect(seat.page.locator(".waits")).to_contain_text(SHOWN)
    await seat.page.get_by_label("Your answer").fill(HOSTILE)
    await seat.button("Answer").click()
    await expect(seat.page.locator(".end")).to_contain_text("Completed")
    await expect(seat.page.locator(".steps")).to_contain_text("<script>window.pwned=1</script>")
    await seat.go("tasks")
    await expect(seat.page.locator(".rows")).to_contain_text("<img src=x")
    assert await seat.page.evaluate("window.pwned") is None
    assert await seat.page.locator("main img, main script").count() == 0


@pytest.mark.deep
@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.deep)])
async def test_every_character_is_shown_as_everywhere_else(server: Server, seats: Seats, step: int) -> None:
    """Unicode, alone and behind a letter, and runs of marks: what Python's ``visible`` says, this page says.

    Its beginning, where the controls and the marks of most scripts are, and each ``step``-th character of the rest.
    """
    seat = await seats.open()
    codes = [*range(0x3000), *range(0x3000, sys.maxunicode + 1, step)]
    told = await seat.page.evaluate(
        """async (codes) => { const { visible, oneLine } = await import("/console/lib/text.js");
        // For each character a digit: 1 where it is an escape alone, 2 more where it is one behind a letter.
        const escaped = [];
        for (const code of codes) {
          const char = String.fromCodePoint(code);
          const shown = "\\\\u{" + code.toString(16) + "}";
          escaped.push((visible(char) === shown) + 2 * (visible("a" + char) === "a" + shown));
        }
        const marks = "e" + "\\u0301".repeat(6) + "\\n\\u0301x\\u{1F468}\\u200D\\u{1F469}";
        return { escaped: escaped.join(""), marks: visible(marks),
          line: oneLine("a\\nb\\tc\\u202e" + "x".repeat(300), 20) }; }""",
        codes,
    )
    # Chromium may know letters that are not assigned yet for Python.
    pairs = zip(codes, told["escaped"], strict=True)
    known = (pair for pair in pairs if unicodedata.category(chr(pair[0])) != "Cn")
    wrong = [hex(code) for code, shown in known if shown != _escaped(chr(code))]
    # A mark until Unicode 14, a part of a letter since.
    assert set(wrong) <= {"0x1171e"}
    marks = f"e{chr(0x301) * 6}\n{chr(0x301)}x{chr(0x1F468)}{chr(0x200D)}{chr(0x1F469)}"
    assert told["marks"] == visible(marks)
    assert told["line"] == "a\\nb\\tc\\u{202e}" + "x" * 14 + " [… 286 characters more]"


def _escaped(char: str) -> str:
    return str((visible(char) != char) + 2 * (visible(f"a{char}") != f"a{char}"))


@pytest.mark.deep
async def test_a_hundred_and_fifty_tasks_are_pages_of_them(server: Server, seats: Seats) -> None:
    """What is on the page is bounded, the oldest can be reached, and a change comes by itself."""
    api = server.api()
    for number in range(150):
        await api.submit(final(success=number % 2 == 0))
    seat = await seats.open("tasks")
    await expect(seat.page.locator(".rows li")).to_have_count(50)
    nodes = await seat.page.evaluate("document.querySelectorAll('*').length")
    assert nodes < 800, f"{nodes} elements on the page"
    for _ in range(2):
        await seat.page.get_by_role("link", name="Older").click()
    await expect(seat.page.get_by_text("101 to 150")).to_be_visible()
    await expect(seat.page.get_by_role("link", name="Older")).to_have_count(0)
    await expect(seat.page.locator(".rows li")).to_have_count(50)
    await seat.page.get_by_role("link", name="Newer").click()
    await expect(seat.page.get_by_text("51 to 100")).to_be_visible()
    await seat.page.get_by_role("link", name="Failed", exact=True).click()
    await expect(seat.page.locator(".rows .status-Failed")).to_have_count(50)
    await seat.go("tasks")
    question = await api.submit(tool("ask_user", question="Still there?"), final())
    await expect(seat.page.locator(f'.rows a[href="#/tasks/{question}"]')).to_contain_text("Paused")


@pytest.mark.deep
async def test_cancel_asks_first(server: Server, seats: Seats) -> None:
    """The dialog can be left; then the task is canceled with the reason."""
    api = server.api()
    task_id = await api.submit(tool("ask_user", question="Which?"), final())
    await api.first(task_id, "question_asked")
    seat = await seats.open(f"tasks/{task_id}")
    await seat.button("Cancel").click()
    await seat.button("Let it go on").click()
    await expect(seat.button("Cancel")).to_be_focused()
    assert (await api.task(task_id))["status"] == "Paused"
    await seat.button("Cancel").click()
    await seat.page.get_by_label("Reason").fill("Enough.")
    await seat.button("Cancel the task").click()
    await expect(seat.page.locator(".task-head")).to_contain_text("Canceled")
    (wish,) = facts_of(await api.journal(task_id), facts.CancelRequested)
    assert wish.reason == "Enough."


@pytest.mark.deep
async def test_a_running_program_is_watched(server: Server, pc: Computer, seats: Seats) -> None:
    """Its output is there before it has ended."""
    api = server.api()
    pc.write("slow.lua", b"print('first words') sleep(1) fs.makeDir('began') os.pullEvent('never')\n")
    task_id = await api.submit(tool("cc_run_program", path="slow.lua", args=[]), final(), computers=(pc.name,))
    seat = await seats.open(f"tasks/{task_id}")
    await seat.request().get_by_role("button", name="Approve", exact=True).click()
    await began(pc)
    await expect(seat.page.get_by_role("group", name="Output")).to_contain_text("first words")
    await expect(seat.page.locator(".tool[data-call]")).to_contain_text("running")


@pytest.mark.deep
async def test_what_the_model_writes_is_seen_as_it_comes(server: Server, seats: Seats, tmp_path: Path) -> None:
    """Its explanation stands there before the reply is whole; then the item is in its place, and once."""
    api = server.api()
    said = tmp_path / "said"
    task_id = await api.submit(tool("ask_user", question="Go on?"), {**final(success=False), "until": str(said)})
    asked = await api.first(task_id, "question_asked")
    seat = await seats.open(f"tasks/{task_id}")
    await expect(seat.page.locator(".waits")).to_contain_text("Go on?")
    await api.ok("POST", f"/v1/tasks/{task_id}/answer", {"question_id": asked.question_id, "answer": "Yes."})
    step = seat.page.locator(".step").last
    await expect(step).to_contain_text("That was it.")
    await expect(step.locator(".caret")).to_be_visible()
    said.touch()
    await expect(seat.page.locator(".end")).to_contain_text("Failed")
    await expect(seat.page.locator(".steps").get_by_text("That was it.")).to_have_count(1)
    await expect(seat.page.locator(".caret")).to_have_count(0)


@pytest.mark.deep
async def test_an_undo_is_previewed_and_chosen(server: Server, pc: Computer, seats: Seats) -> None:
    """A place that a player changed since stays, unless the person says otherwise; then it is a task of its own."""
    api = server.api()
    pc.write("a.lua", b"print('old')\n")
    task_id = await api.submit(write("a.lua"), write("b.lua"), final(), computers=(pc.name,))
    await play(api, task_id)
    pc.write("a.lua", b"print('mine')\n")
    seat = await seats.open(f"tasks/{task_id}")
    await seat.button("Undo 2 changes").click()
    places = seat.page.locator(".places")
    await expect(places.locator("li", has_text="a.lua")).to_contain_text("was changed since")
    await expect(places.locator("li", has_text="b.lua")).to_contain_text("is removed")
    await places.get_by_label("What then?").select_option("restore")
    await seat.button("Begin the undo").click()
    await expect(seat.page.locator(".task-head")).to_contain_text(f"takes back {task_id}")
    await seat.button("Approve all 2").click()
    await expect(seat.page.locator(".end")).to_contain_text("Completed")
    assert (pc.read("a.lua"), pc.read("b.lua")) == (b"print('old')\n", None)


async def test_what_was_taken_back_is_not_offered_again(server: Server, pc: Computer, seats: Seats) -> None:
    """Its page says which task did it, and how its changes come again; once they are back, it offers the undo anew."""
    api = server.api()
    task_id = await api.submit(write("a.lua"), final(), computers=(pc.name,))
    await play(api, task_id)
    seat = await seats.open(f"tasks/{task_id}")
    offer = seat.page.get_by_role("button", name="Undo 1 change")
    await expect(offer).to_be_visible()
    undo = (await api.ok("POST", f"/v1/tasks/{task_id}/undo", {}))["task_id"]
    await expect(seat.page.locator(".end")).to_contain_text(f"being taken back by {undo}")
    await play(api, undo)
    await expect(seat.page.locator(".end")).to_contain_text("To have its changes again, undo that task.")
    await expect(seat.page.locator(".end")).to_contain_text(f"taken back by {undo}")
    await expect(offer).to_have_count(0)
    await play(api, (await api.ok("POST", f"/v1/tasks/{undo}/undo", {}))["task_id"])
    await seat.page.reload()
    await expect(offer).to_be_visible()


async def test_a_question_that_was_answered_says_so(server: Server, seats: Seats) -> None:
    """While its task goes on, and after it ended."""
    api = server.api()
    task_id = await api.submit(tool("ask_user", question="Which wall?"), tool("ask_user", question="Sure?"), final())
    seat = await seats.open(f"tasks/{task_id}")
    badges = seat.page.locator(".tool .badge")
    for at in range(2):
        await expect(badges.nth(at)).to_have_text("asks a person")
        question = (await api.ok("GET", f"/v1/tasks/{task_id}"))["question"]["question_id"]
        await api.ok("POST", f"/v1/tasks/{task_id}/answer", {"question_id": question, "answer": "yes"})
        await expect(badges.nth(at)).to_have_text("answered")
    await expect(seat.page.locator(".end")).to_be_visible()
    await expect(badges).to_have_text(["answered", "answered"])


@pytest.mark.deep
async def test_what_a_task_left_behind_is_told_beside_the_queue(server: Server, pc: Computer, seats: Seats) -> None:
    """One that failed after a change is named, until something takes it back."""
    api = server.api()
    task_id = await api.submit(write("a.lua"), final(success=False), computers=(pc.name,))
    await play(api, task_id)
    seat = await seats.open("approvals")
    await expect(seat.page.locator(".behind")).to_contain_text(f"1 change: {pc.name}:a.lua")
    await api.ok("POST", f"/v1/tasks/{task_id}/undo", {})
    await expect(seat.page.locator(".behind")).to_have_count(0)


async def test_axe_has_nothing_to_say(server: Server, pc: Computer, seats: Seats) -> None:
    """On every view, with things in it and without, on a phone and wide, and in each dialog."""
    api = server.api()
    seat = await seats.open(token=None)
    await expect(seat.page.get_by_label("Your token")).to_be_visible()
    await seat.check_access("sign-in")
    await seat.sign_in(str(api.token))
    await expect(seat.page.get_by_text("No task yet")).to_be_visible()
    await seat.check_access("no task")
    await _empty(seat)
    done = await api.submit(write("a.lua"), write("a.lua", "print(2)\n"), final(success=False), computers=(pc.name,))
    await play(api, done)
    asked = await api.submit(write("b.lua", "print('\x1b\u202e')\n"), final(), computers=(pc.name,))
    request_id = await waiting(api, asked)
    question = await api.submit(tool("ask_user", question="Which wall?"), final())
    await api.first(question, "question_asked")
    await _with_things(seat, api, done, request_id, question)
    await seat.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    for place, there in (
        ("tasks", ".rows li"),
        (f"tasks/{done}", ".step"),
        (f"approvals/{request_id}", '[data-settled="true"]'),
    ):
        await seat.go(place)
        await expect(seat.page.locator(there).first).to_be_visible()
        await seat.check_access(f"{place} on a phone")


async def _empty(seat: Seat) -> None:
    for name in ("approvals", "computers", "policy", "audit", "people"):
        await seat.go(name)
        await expect(seat.page.get_by_role("heading", level=1)).to_have_text(name.capitalize())
    await seat.check_access("a view that is elsewhere")
    await seat.go("approvals")
    await expect(seat.page.get_by_text("Nothing waits for you")).to_be_visible()
    await seat.check_access("nothing waits")


async def _with_things(seat: Seat, api: Api, done: str, request_id: str, question: str) -> None:
    dialog = seat.page.get_by_role("dialog")
    await seat.go(f"approvals/{request_id}")
    await expect(seat.request()).to_be_visible()
    await seat.check_access("a request")
    await seat.button("Side by side").click()
    await seat.check_access("a diff side by side")
    for key in "ergh?":
        await seat.page.keyboard.press(key)
        if key == "h":
            continue
        await expect(dialog).to_be_visible()
        await seat.check_access(f"the dialog of {key}")
        await seat.page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
    await seat.go(f"tasks/{done}")
    await expect(seat.page.locator(".end")).to_be_visible()
    await seat.check_access("a task")
    await seat.button(re.compile("^Undo"), exact=False).click()
    await expect(seat.page.locator(".places")).to_be_visible()
    await seat.check_access("an undo")
    await seat.page.keyboard.press("Escape")
    await seat.go(f"tasks/{question}")
    await expect(seat.page.locator(".waits")).to_be_visible()
    await seat.check_access("a question")
    await seat.go("tasks")
    await seat.button("New task").click()
    await expect(seat.page.locator(".computers")).to_be_visible()
    await seat.check_access("a new task")
