"""Requests in the terminal UI: shown as the console reviewer shows them, and decided by keys."""

import asyncio
import re
from pathlib import Path

import pytest

from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import SettledCall
from orchestrator.terminal.review.edit import decision
from orchestrator.terminal.review.request_view import describe
from orchestrator.terminal.tui import app
from orchestrator.terminal.tui.approvals import Approvals
from orchestrator.terminal.tui.dialogs import Choose
from orchestrator.terminal.tui.typing import JUST_COME
from tests.harness.support import NEW, WRITE, Disk, Listening, StubClient, call, dialed, final, says
from tests.harness.whole_server import connected, running
from tests.terminal.tui.driving import NARROW, WIDE, Seat, asked, at_work, seated, waiting

LONG = "-- a line of a long program\n" * 700


def page_of(seat: Seat) -> list[str]:
    """The lines of the page of requests."""
    return [line.text for line in seat.app.query_one(Approvals).page.lines]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_a_request_is_shown_whole_and_approved(tmp_path: Path, size: tuple[int, int]) -> None:
    """A new request appears by itself, line for line as the console shows it; `a` and `y` let it run."""
    async with at_work(tmp_path, says(WRITE), final(), size=size) as fixture:
        seat = fixture.seat
        await seat.sees("Nothing waits for you.")
        request = await waiting(fixture.server)
        await seat.sees("[2 Approvals(1)]", "cc_write on computer 3", "+print('new')", "digest")
        assert page_of(seat) == describe(request)
        await seat.asks("a", "Let it run, exactly as it stands on the screen?")
        assert not fixture.disk.done
        await seat.asks("y", "Carried out: approved by you", "Nothing waits for you.")
        await fixture.over(request)
        assert fixture.disk.files == {"a.lua": NEW}


async def test_the_time_that_is_left_is_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of an open request does not go on showing the time of its first look."""
    monkeypatch.setattr(app, "_AGES_S", 0.1)
    rule = '[[rules]]\nid = "a"\neffect = "ask"\ntools = ["cc_write"]\n'
    asks = f"[requests]\nexpires_s = {{ low = 55, medium = 55, high = 55, critical = 55 }}\n\n{rule}"
    (tmp_path / "policy.toml").write_text(asks, "utf-8")
    async with at_work(tmp_path, says(WRITE), final()) as fixture:
        await waiting(fixture.server)
        left = re.compile(r"expires in \d+ s\b")
        await fixture.seat.until(lambda: left.search(fixture.seat.text) is not None, "seconds")
        (first,) = left.findall(fixture.seat.text)
        await fixture.seat.until(lambda: left.findall(fixture.seat.text) != [first], "another time")


async def test_a_key_is_never_for_a_request_that_has_just_come(tmp_path: Path) -> None:
    """Keys that are typed ahead decide about what stood on the screen then, and nothing about what comes next."""
    names = ("a.lua", "b.lua", "c.lua")
    replies = [says(call("cc_write", path=name, content=NEW.decode())) for name in names]
    async with at_work(tmp_path, *replies, *[final()] * 3, size=WIDE) as fixture:
        seat = fixture.seat
        for _ in replies:
            await waiting(fixture.server)
        await seat.sees("[2 Approvals(3)]", "a.lua")
        await seat.until(seat.was_readable, "readable")
        await seat.burst("ayayay")
        await seat.sees("[2 Approvals(2)]")
        await seat.press("escape", "1")
        await seat.burst("2ay")
        await seat.sees("[2 Approvals(2)]", JUST_COME)
        await seat.press("asterisk")
        await seat.press("s")
        await seat.sees("2 requests, one decision")
        await seat.press("escape")
        seat.app._said.clear()
        await seat.burst("say")
        await seat.until(lambda: any(JUST_COME in one for one in seat.app._said), "told")
        assert "Let these 2 requests run" not in seat.text
        await seat.press("escape")
        await seat.until(lambda: len(fixture.disk.done) == 1, "the first was written")
        assert set(fixture.disk.files) == {"a.lua"}
        assert len((await fixture.server.ask("GET", "/v1/requests")).json()["requests"]) == 2


async def test_a_request_that_has_just_come_is_neither_claimed_nor_escalated(tmp_path: Path) -> None:
    """Keys that were typed before it was on the screen for long enough do nothing but say so."""
    async with asked(tmp_path, says(WRITE), final()) as (fixture, _):
        seat = fixture.seat
        for key in "lnu":
            await seat.press("1")
            seat.app._said.clear()
            await seat.burst(f"2{key}y")
            await seat.until(lambda: any(JUST_COME in one for one in seat.app._said), "told")
        (request,) = (await fixture.server.ask("GET", "/v1/requests")).json()["requests"]
        assert request.get("team") is None


async def test_reviewers_claim_comment_and_escalate(tmp_path: Path) -> None:
    """Another reviewer sees who looks at it and what was said; an escalation asks first, and takes it from both."""
    async with (
        running(tmp_path, model=Listening(says(WRITE), final())) as server,
        connected(server, "3", Disk()),
    ):
        bob, eve = await server.person("bob", "reviewer"), await server.person("eve", "reviewer")
        async with seated(server, bob, WIDE) as one, seated(server, eve, WIDE) as other:
            await waiting(server, token=await server.person("sam"))
            for seat in (one, other):
                await seat.press("2")
                await seat.sees("+print('new')", "l claim  n comment  u escalate")
            await one.asks("l", "It is yours for 10 minutes", "bob looks at it (")
            await other.sees("bob looks at it (")
            await other.asks("l", "Not carried out: bob looks at the request until")
            await other.asks("n", "What do you say to the next reviewer")
            await other.type("Is the chest empty?")
            await other.asks("enter", "Your comment stands at the request.", "eve says: Is the chest empty?")
            await one.sees("eve says: Is the chest empty?")
            await one.asks("l", "Nobody claims it any more")
            await other.until(lambda: "bob looks at it (" not in other.text, "released")
            await one.asks("u", "Give it to the people who come next?", "no longer decide it")
            await one.asks("escape", "a approve")
            await one.asks("u", "Give it to the people who come next?")
            await one.asks("y", "it went to the people who come next", "CLOSED: escalated to admins")
            await other.sees("CLOSED: escalated to admins")
            (request,) = (await server.ask("GET", "/v1/requests")).json()["requests"]
            assert request["team"]["escalated_to"] == "role:admin"


async def test_an_admin_gives_back_the_claim_of_somebody_else(tmp_path: Path) -> None:
    """`l` releases what anybody claimed, and then claims it for the admin."""
    async with asked(tmp_path, says(WRITE), final(), approvers="role:reviewer") as (fixture, request):
        seat, server = fixture.seat, fixture.server
        bob = await server.person("bob", "reviewer")
        claimed = await server.ask("POST", f"/v1/requests/{request.request_id}/claim", {}, token=bob)
        assert claimed.status_code == 200
        await seat.sees("bob looks at it (")
        await seat.asks("l", "Nobody claims it any more")
        await seat.until(lambda: "bob looks at it (" not in seat.text, "released")
        await seat.asks("l", "It is yours for 10 minutes", "admin looks at it (")


async def test_what_is_edited_here_runs(tmp_path: Path) -> None:
    """`i` opens the text; what was changed is shown as a diff before it is approved."""
    async with asked(tmp_path, says(WRITE), final()) as (fixture, request):
        seat = fixture.seat
        await seat.asks("i", "Edit content")
        await seat.press("x")
        await seat.asks("escape", "Esc once more drops what you wrote.")
        await seat.asks("escape", "Unchanged: nothing was decided.")
        await seat.asks("i", "Edit content")
        await seat.press("ctrl+home")
        await seat.type("-- [b]mine[/b] ")
        await seat.asks("ctrl+s", "Approve it like this?", "+-- [b]mine[/b] print('new')", "-print('new')")
        await seat.asks("y", "Why? The model is told")
        await seat.asks("escape", "Nothing was decided.")
        await seat.asks("i", "Edit content", "-- [b]mine[/b] ")
        await seat.asks("ctrl+s", "Approve it like this?")
        await seat.asks("y", "Why? The model is told")
        await seat.type("it needs a head")
        await seat.asks("enter", "Carried out: edited and approved by you")
        await fixture.over(request)
        assert fixture.disk.files == {"a.lua": b"-- [b]mine[/b] " + NEW}
        assert 'A person (admin) edited this call before it ran. Their reason: "it needs a head".' in fixture.model.told


@pytest.mark.deep
async def test_what_is_no_json_is_kept_for_the_next_edit(tmp_path: Path) -> None:
    """A slip in the arguments loses nothing; a field whose request is closed says that, and not `unchanged`."""
    run = says(call("cc_run_program", path="a.lua", args=["1"]))
    async with asked(tmp_path, run, final(success=False), disk=Disk({"a.lua": NEW}), sees="args") as (fixture, request):
        seat = fixture.seat
        await seat.asks("i", "Edit the arguments, as JSON")
        await seat.press("ctrl+home")
        await seat.type("-- mine ")
        await seat.asks("ctrl+s", "That is not JSON", "Your text is kept for the next edit.")
        await seat.asks("i", "Edit the arguments", "-- mine {")
        assert (await fixture.server.ask("POST", request.rejection_url)).status_code == 200
        await seat.sees("Decided elsewhere: rejected by admin.")
        assert "Unchanged" not in seat.text


@pytest.mark.deep
async def test_a_rejection_says_why_and_what_then(tmp_path: Path) -> None:
    """`r` asks for the reason and for what the task does; Escape takes it back."""
    async with asked(tmp_path, says(WRITE), final(success=False)) as (fixture, request):
        seat = fixture.seat
        await seat.asks("r", "Reject it. Why?")
        await seat.press("escape")
        await seat.asks("r", "Reject it. Why?")
        await seat.type("use lib q")
        await seat.asks("enter", "Carried out: rejected by you")
        await fixture.over(request)
        assert "use lib q" in fixture.model.told


async def test_a_response_stands_in_for_the_result(tmp_path: Path) -> None:
    """`p` tells the model a text; nothing runs."""
    async with asked(tmp_path, says(WRITE), final(success=False)) as (fixture, request):
        seat = fixture.seat
        await seat.asks("p", "What is the model told")
        await seat.type("not today")
        await seat.asks("enter", "Carried out: answered by you in its place")
        await fixture.over(request)
        assert "not today" in fixture.model.told
        assert not fixture.disk.done


@pytest.mark.deep
async def test_each_call_is_decided_by_itself(tmp_path: Path) -> None:
    """With several calls the keys are about all, or about the one that was chosen."""
    other = call("cc_write", path="b.lua", content=NEW.decode())
    async with asked(tmp_path, says(WRITE, other), final(), sees="all 2 calls") as (fixture, request):
        seat = fixture.seat
        await seat.asks("e", "Choose one call first")
        await seat.press("full_stop", "full_stop")
        await seat.sees("call 2 of 2")
        await seat.asks("r", "Reject it. Why?")
        await seat.asks("enter", "Carried out: rejected by you")
        await seat.until(lambda: "[2/2]" not in "\n".join(page_of(seat)), "one call is left")
        await seat.agrees("a", "Let it run", "Carried out: approved by you")
        await fixture.over(request)
        assert list(fixture.disk.files) == ["a.lua"]


async def test_what_is_cut_is_fetched_whole_before_it_is_approved(tmp_path: Path) -> None:
    """A long text is cut on the socket: then only `w`, which shows all of it, leads to an approval."""
    write = call("cc_write", path="a.lua", content=LONG)
    async with asked(tmp_path, says(write), final(), sees="w whole") as (fixture, request):
        seat = fixture.seat
        await seat.asks("a", "Not all of it was shown")
        await seat.asks("w", "This is all of it.")
        assert sum("a line of a long program" in line for line in page_of(seat)) == 700
        await seat.asks("a", "Let it run, though not all of it was on the screen?", "rows below")
        await seat.press("enter")
        await seat.sees("Let it run")
        await seat.asks("y", "Carried out: approved by you")
        await fixture.over(request)
        assert fixture.disk.files["a.lua"] == LONG.encode()


async def test_who_was_first_is_said(tmp_path: Path) -> None:
    """A dialog about a request ends when somebody else decides it; a decision that came too late says who was first."""
    async with asked(tmp_path, says(WRITE), final(), approvers="role:reviewer") as (fixture, request):
        seat, server = fixture.seat, fixture.server
        bob = await server.person("bob", "reviewer")
        await seat.asks("a", "Let it run")
        assert (await server.ask("POST", request.approval_url, token=bob)).status_code == 202
        await seat.sees("Decided elsewhere: approved by bob.", "CLOSED: approved by bob")
        assert "Let it run" not in seat.text
        await seat.press("a")
        assert "Let it run" not in seat.text
        late = await seat.app.reviews.decide(request, decision(request, "reject", on_reject="cancel"))
        assert late is False
        await seat.sees("Too late: bob approved it")


@pytest.mark.deep
async def test_two_screens_decide_at_once(tmp_path: Path) -> None:
    """Both press `y`: one of them is told that it was carried out, the other one who was first."""
    disk = Disk()
    async with (
        running(tmp_path, model=Listening(says(WRITE), final()), approvers="role:reviewer") as server,
        connected(server, "3", disk),
    ):
        bob, carol = await server.person("bob", "reviewer"), await server.person("carol", "reviewer")
        async with seated(server, bob) as one, seated(server, carol) as other:
            request = await waiting(server)
            for seat in (one, other):
                await seat.press("2")
                await seat.sees("+print('new')")
            resume = decision(request, "approve")
            taken = await asyncio.gather(
                one.app.reviews.decide(request, resume), other.app.reviews.decide(request, resume)
            )
            assert sorted(taken) == [False, True]
            first, late = (one, other) if taken[0] else (other, one)
            await first.sees("Carried out: approved by you")
            await late.sees(f"{'bob' if taken[0] else 'carol'} approved it")
        await server.until(request.task_id, "task_ended")
        assert disk.done == ["fs_write a.lua"]


async def test_a_standing_approval_is_shown_before_it_is_given(tmp_path: Path) -> None:
    """`g` says what would run without asking from now on; the next call like it is not asked about."""
    again = says(call("cc_write", path="a.lua", content=NEW.decode()))
    async with asked(tmp_path, says(WRITE), again, final(), disk=Disk({"a.lua": b""})) as (fixture, request):
        seat = fixture.seat
        await seat.asks("g", "Approve it, and from now on without asking:")
        await seat.asks("2", "This will run from now on without asking:")
        await seat.asks("y", "Carried out: approved by you")
        await fixture.over(request)
        (grant,) = (await fixture.server.ask("GET", "/v1/grants")).json()["grants"]
        assert (grant["paths"], grant["any_content"], grant["max_uses"]) == (["a.lua"], False, None)


@pytest.mark.deep
async def test_a_standing_approval_is_made_wider(tmp_path: Path) -> None:
    """`W` asks for paths, text, hours and times; what cannot be is said, and what comes of it is shown first."""
    other = says(call("cc_write", path="lib/b.lua", content="print('other')\n"))
    async with asked(tmp_path, says(WRITE), other, final()) as (fixture, request):
        seat = fixture.seat
        await seat.asks("g", "Approve it, and from now on without asking:", "W as 3, but wider")
        await seat.asks("W", "How far does it reach?", "exactly a.lua", "any text (content)", "at most 168")
        await seat.type("lib/*, *.lua")
        await seat.asks("escape", "Esc once more drops what you wrote.", "How far does it reach?")
        await seat.press("tab", "space", "tab")
        await seat.type("soon")
        await seat.asks("enter", "That cannot be granted: 'soon' is not a number of hours.")
        await seat.press("ctrl+u")
        await seat.type("2")
        await seat.press("tab")
        await seat.type("3")
        shown = ("paths like: lib/*", "paths like: *.lua", "content: any text", "at most 3 times", "for 2 h")
        await seat.asks("enter", "Approve this call and grant that?", *shown)
        await seat.asks("y", "Carried out: approved by you")
        await fixture.over(request)
        assert set(fixture.disk.files) == {"a.lua", "lib/b.lua"}
        (grant,) = (await fixture.server.ask("GET", "/v1/grants")).json()["grants"]
        assert (grant["scope"], grant["any_content"], grant["max_uses"], grant["uses"]) == ("session", True, 3, 1)
        assert grant["paths"] == ["lib/*", "*.lua"]


@pytest.mark.deep
async def test_an_unknown_outcome_is_told_by_who_looked(tmp_path: Path) -> None:
    """A program was cut off: `i` shows all of it, `d` says that it was carried out, and nothing else is offered."""
    model, disk = Listening(says(call("cc_run_program", path="a.lua")), final(success=False)), Disk({"a.lua": NEW})
    async with running(tmp_path, model=model) as server, seated(server) as seat:
        token = await server.computer("3")
        async with dialed(server.url, token) as client:
            await client.greet()
            cut_off = asyncio.create_task(cut_off_at_a_run(client, disk))
            task_id = await server.submit()
            await seat.press("2")
            await seat.sees("cc_run_program on computer 3")
            await seat.press("a")
            await seat.sees("Let it run")
            await seat.press("y")
            await cut_off
        async with dialed(server.url, token) as client:
            await client.greet(boot="boot-2")
            settle, _ = await client.hear("settle")
            calls = [SettledCall(call_id=one, state="interrupted") for one in settle.call_ids]
            await client.settled(settle.number, *calls)
            serving = asyncio.create_task(client.serve(disk))
            await seat.sees("A person has to look", "c check again, d mark done, f mark failed, t retry, i details")
            await seat.press("a")
            await seat.sees("That is not said of this request")
            await seat.press("i")
            await seat.sees("All of it: digests, hashes, rules", "outcome_unknown")
            await seat.press("escape")
            await seat.agrees("d", "It was carried out: tell the model so?", "Carried out: marked as done by you")
            await server.until(task_id, "task_ended")
            await client.socket.close()
            await serving
        assert "admin looked and says that it was done" in model.told


async def cut_off_at_a_run(client: StubClient, disk: Disk) -> None:
    """Answer what is looked at, and vanish once a program was begun."""
    while True:
        message, body = await client.hear()
        if isinstance(message, wire.Call):
            await client.send(wire.Ack(journal_seq=2, call_id=message.call_id))
            if message.method == "run_program":
                await client.socket.close()
                return
            await client.result(message.call_id, disk.perform(message.method, message.params, body))


async def test_a_question_whose_request_is_closed_as_it_opens_goes_away(tmp_path: Path) -> None:
    """Whoever was first: it closes, says why, and the screen goes on."""
    async with at_work(tmp_path) as fixture:
        seat = fixture.seat
        seat.app.push_screen(Choose("Let it run?", [], [("y", "yes")], about="r-gone"))
        seat.app._overtaken("r-gone", "Somebody was first.")
        await seat.sees("Somebody was first.", "Nothing waits for you.")
        assert "Let it run?" not in seat.text
