"""The console reviewer: what it shows, and its loop over a real server."""

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from orchestrator.client import Client, ServerRefused, ServerUnreachable
from orchestrator.core.approval.approval import DECISIONS, HitlResponse
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.task.facts import Observed, TaskId
from orchestrator.core.wire import review
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.terminal.cli.review import listed
from orchestrator.terminal.console import Console
from orchestrator.terminal.console.loop import ReviewLoop
from orchestrator.terminal.review.request_view import describe
from tests.harness.asked import OLD, console, request, shown
from tests.harness.support import NEW, WRITE, Disk, Listening, call, final, says
from tests.harness.whole_server import Server, connected, running
from tests.waiting import HANG_S, within

HOSTILE = "\x1b[2J\x1b[1Agood\r\u202egnp\u200b\u2066\x07\x9b\u00ad\u3164\U000e0041"
"""Clears the screen, goes up a line, back to its start, turns the direction, hides."""
ESCAPED = "\\u{1b}[2J\\u{1b}[1Agood\\u{d}\\u{202e}gnp\\u{200b}\\u{2066}\\u{7}\\u{9b}\\u{ad}\\u{3164}\\u{e0041}"


# -- describe ----------------------------------------------------------------------------


def test_it_shows_all_that_a_decision_is_about() -> None:
    """What runs, where, its diff and hash, who wants it and why, and the verdict are all shown (V1)."""
    text = "\n".join(describe(request()))
    for wanted in (
        "A person has to decide",
        "risk: high",
        "task t-1",
        "asked by alice: fix my farm",
        "written by the model: I mend the loop.",
        "cc_write on computer 3",
        "path: /farm.lua",
        f"found: farm.lua {OLD[:12]}",
        "│ -old",
        "│ +new",
        "note: A note.",
        "rule: changing, boot-files (A change of files is shown to a person first.)",
        f"risk: high, digest {sha256_hex(b'c1')[:12]}",
    ):
        assert wanted in text


def test_it_shows_at_which_computer_in_the_game_it_was_asked() -> None:
    """Whoever typed there need not be the requester: the reviewer sees where it was, made safe to show."""
    text = "\n".join(describe(request(asked_at="3\x1b")))
    assert "asked by alice at computer 3\\u{1b} in the game: fix my farm" in text


def test_it_shows_the_resolved_program_and_its_arguments() -> None:
    """A run shows the program that the computer resolved, its hash, and every argument in full."""
    source = "print('hi')\nprint('\x1b[2J')\n"
    observed = Observed(state={"rom/x.lua": "a" * 64}, program="rom/x.lua", source=source, note="Only this is bound.")
    args = {"path": "x", "args": ["one", "two words"]}
    text = "\n".join(describe(request(shown("cc_run_program", args, observed))))
    for wanted in ('args: ["one", "two words"]', "program: rom/x.lua", f"found: rom/x.lua {'a' * 12}", "path: x"):
        assert wanted in text
    assert "  │ print('hi')\n  │ print('\\u{1b}[2J')\n" in text


def test_it_shows_content_where_there_is_no_diff() -> None:
    """A write that could not be looked at, or whose text is there already, shows its content line by line."""
    for diff in (None, ""):
        observed = Observed(state={}, diff=diff, note="It could not be looked at.")
        lines = describe(request(shown(args={"path": "a", "content": "one\ntwo\n"}, observed=observed)))
        at = lines.index("  content:")
        assert lines[at + 1 : at + 3] == ["  │ one", "  │ two"]


def test_it_shows_the_arguments_in_the_order_of_their_tool() -> None:
    """Where something is written comes before what, whatever order the journal keeps them in."""
    args = {"content": "one\ntwo\n", "path": "a"}
    lines = describe(request(shown(args=args, observed=Observed(state={}))))
    assert lines.index("  path: a") < lines.index("  content:")


def test_it_shows_every_call_of_the_request() -> None:
    """A request for several calls shows each in full."""
    lines = describe(request(shown(), shown("local_write", {"path": "plan.txt", "content": "x"}, call_id="c2")))
    assert "  [1/2] cc_write on computer 3" in lines
    assert "  [2/2] local_write on this host" in lines


def test_an_unknown_outcome_has_another_title() -> None:
    """A request about an outcome that nobody knows says so."""
    lines = describe(request(reason="outcome_unknown", allowed_decisions=DECISIONS["outcome_unknown"]))
    assert lines[0].startswith("── A person has to look ─")
    unknown, usual = request(reason="outcome_unknown", allowed_decisions=DECISIONS["outcome_unknown"]), request()
    titles = [line.text for line in listed(Console(say=lambda _: None), [unknown, usual]) if line.style == "title"]
    assert ["outcome unknown" in title for title in titles] == [True, False]


@pytest.mark.parametrize(
    "hostile",
    [
        request(goal=HOSTILE),
        request(explanation=HOSTILE),
        request(requester=HOSTILE),
        request(shown(args={"path": HOSTILE, "content": "x"})),
        request(shown(observed=Observed(state={HOSTILE: "absent"}))),
        request(shown(observed=Observed(state={}, diff=f"+{HOSTILE}\n"))),
        request(shown(observed=Observed(state={}, note=HOSTILE))),
        request(shown("cc_run_program", {"path": "x"}, Observed(state={}, program=HOSTILE))),
        request(shown("cc_run_program", {"path": "x", "args": [HOSTILE]}, Observed(state={}))),
        request(shown("cc_shell", {"command": HOSTILE}, Observed(state={}))),
        request(shown(reason=HOSTILE)),
        request(shown(args={"path": "x", "content": f"one\n{HOSTILE}\n"}, observed=Observed(state={}))),
    ],
)
def test_hostile_text_is_shown_as_escapes(hostile: HitlResponse) -> None:
    """Wherever text of the world stands, what moves the cursor, turns direction or hides is a visible escape (V2)."""
    text = "\n".join(describe(hostile))
    assert ESCAPED in text
    assert not [char for char in text if char in HOSTILE and not (char.isascii() and char.isprintable())]


@pytest.mark.parametrize(
    "forged",
    [
        request(goal="x\n  rule: none"),
        request(explanation="x\n  rule: none"),
        request(requester="x\n  rule: none"),
        request(shown(args={"path": "x\n  rule: none", "content": "x"})),
        request(shown(observed=Observed(state={"x\n  rule: none": "absent"}))),
        request(shown(observed=Observed(state={}, note="x\n  rule: none"))),
        request(shown(observed=Observed(state={}, diff="+x\n  rule: none\n"))),
        request(shown("cc_shell", {"command": "x\n  rule: none"}, Observed(state={}, program="x\n  rule: none"))),
        request(shown(reason="x)\n  rule: none")),
    ],
)
def test_no_text_can_forge_a_line_of_the_view(forged: HitlResponse) -> None:
    """Line breaks in the world's text never begin a line that looks like the console's own."""
    lines = [line for line in describe(forged) if line.startswith("  rule:")]
    assert len(lines) == 1
    assert lines[0].startswith("  rule: changing, boot-files (")
    assert not any("\n" in line for line in describe(forged))


def test_what_looks_like_an_escape_stays_what_it_is() -> None:
    """In a list of arguments a backslash of the text is told from the backslash of an escape."""
    args = {"path": "x", "args": ["\\u001b", "\x00\x1b\b\f\r", "a\nb"]}
    text = "\n".join(describe(request(shown("cc_run_program", args, Observed(state={})))))
    assert r'args: ["\\u001b", "\u{0}\u{1b}\u{8}\u{c}\u{d}", "a\nb"]' in text


def test_the_goal_of_a_task_is_told_once() -> None:
    """A second request of one task names the goal by its beginning only; what would run is shown whole each time."""
    seen, said, _ = console()
    long = "fix my farm " * 20
    for task_id in ("t-1", "t-1", "t-2"):
        seen.show(request(goal=long, task_id=TaskId(task_id)))
    asked_by = [line.removeprefix("  asked by alice: ") for line in said if "asked by" in line]
    assert asked_by[0] == asked_by[2] == long
    assert asked_by[1] == f"{long[:60]} [… {len(long) - 60} characters more]"
    assert sum("│ +new" in line for line in said) == 3


def test_nothing_that_would_run_is_cut() -> None:
    """A long path, program, argument or content is shown to its last character (V3)."""
    long = "/".join(["d" * 49] * 9) + "/end"
    content = "\n".join(f"line {number}" for number in range(2000))
    write = shown(args={"path": long, "content": content}, observed=Observed(state={long: "absent"}))
    run = shown("cc_shell", {"command": "x " * 3000 + "end"}, Observed(state={}, program=long))
    lines = describe(request(write, run))
    assert f"  path: {long}" in lines
    assert f"  found: {long} absent" in lines
    assert f"  program: {long}" in lines
    assert "  │ line 1999" in lines
    assert any(line.startswith("  command: ") and line.endswith("x end") for line in lines)


def test_color_marks_the_diff_and_nothing_else() -> None:
    """With color, added lines are green and removed ones red; without it no escape is written at all."""
    said: list[str] = []
    Console(say=said.append, color=True).show(request())
    assert "\x1b[32m  │ +new\x1b[0m" in said
    assert "\x1b[31m  │ -old\x1b[0m" in said
    plain: list[str] = []
    Console(say=plain.append).show(request())
    assert "\x1b" not in "".join(plain)


# -- the loop over a real server ---------------------------------------------------------


async def reviewed(server: Server, *answers: str, token: str | None = None) -> tuple[list[str], list[str]]:
    """Run the loop until nothing waits; what was said and asked."""
    here, said, asked = console(*answers)
    client = Client(server.url, token or server.admin)
    try:
        await within(ReviewLoop(client, here).run(until_empty=True))
    finally:
        client.close()
    return said, asked


async def test_a_person_approves_at_the_prompt(tmp_path: Path) -> None:
    """What waits is shown whole, `a` approves it, and the very bytes of the diff are written."""
    disk = Disk({"a.lua": b"old\n"})
    async with running(tmp_path, model=Listening(says(WRITE), final())) as server, connected(server, "3", disk):
        task_id = await server.submit()
        await server.paused(task_id)
        said, asked = await reviewed(server, "x", "a")
        assert (await server.until(task_id, "task_ended"))["status"] == "Completed"
    assert "  │ -old" in said
    assert "  │ +print('new')" in said
    assert f"Carried out: approved by you; task {task_id} is Running." in said
    assert len(asked) == 2
    assert disk.files == {"a.lua": NEW}


async def test_a_person_rejects_leaves_and_answers(tmp_path: Path) -> None:
    """Leaving decides nothing, rejecting ends the task, and a question takes what is typed."""
    disk = Disk()
    replies = Listening(says(WRITE), says(call("ask_user", question="left\n\x1b[2Jor right?")), final("left it is"))
    async with running(tmp_path, model=replies, workers=1) as server, connected(server, "3", disk):
        first = await server.submit()
        await server.paused(first)
        await reviewed(server, "l")
        assert (await server.ask("GET", f"/v1/tasks/{first}")).json()["status"] == "Paused"
        await reviewed(server, "r", "no", "s")
        task = await server.until(first, "task_ended")
        assert (task["status"], task["status_reason"]) == ("Canceled", "rejected")
        second = await server.submit([], prompt="Which of the two?")
        await server.until(second, "question_asked")
        said, _ = await reviewed(server, "the left one")
        assert (await server.until(second, "task_ended"))["result"]["message"] == "left it is"
    assert "  │ left" in said
    assert "  │ \\u{1b}[2Jor right?" in said
    assert replies.told.startswith("TOOL_RESULT: the left one")
    assert disk.done == []


async def test_the_loop_says_when_nothing_waits(tmp_path: Path) -> None:
    """Somebody for whom nothing waits is told so."""
    async with running(tmp_path) as server:
        said, _ = await reviewed(server)
    assert said == ["Nothing waits for you. New requests appear here; Ctrl-C leaves."]


async def test_a_reviewer_hears_that_others_are_waited_for(tmp_path: Path) -> None:
    """Where who asked decides, a reviewer does not look in vain for what there is to review."""
    async with running(tmp_path, model=Listening(says(WRITE))) as server, connected(server, "3", Disk()):
        await server.paused(await server.submit())
        for role, told in (("reviewer", True), ("submitter", False)):
            token = await server.person(f"a-{role}", role)
            said, _ = await reviewed(server, token=token)
            assert any(line.startswith("Waiting for other people: 1.") for line in said) is told


async def test_a_decision_that_came_too_late_is_said(tmp_path: Path) -> None:
    """Decided elsewhere while the prompt stood open: the person hears that it was not carried out, and why."""
    disk = Disk()
    async with running(tmp_path, model=Listening(says(WRITE), final())) as server, connected(server, "3", disk):
        pending = await server.paused(await server.submit())
        loop = asyncio.get_running_loop()

        def rejected_meanwhile(prompt: str) -> str:
            del prompt
            asking = server.ask("POST", pending["rejection_url"])
            asyncio.run_coroutine_threadsafe(asking, loop).result(HANG_S)
            return "a"

        said: list[str] = []
        client = Client(server.url, server.admin)
        here = Console(say=said.append, ask=rejected_meanwhile)
        await within(ReviewLoop(client, here).run(until_empty=True))
        client.close()
        assert disk.done == []
    assert said[-1].startswith("Too late: admin rejected it")


async def test_a_wrong_token_and_a_dead_server_are_sentences(tmp_path: Path) -> None:
    """A refused handshake carries the server's words; where nothing listens the remedy says what to start."""
    async with running(tmp_path) as server:
        with pytest.raises(ServerRefused, match="not known or was revoked") as refused:
            await reviewed(server, token="nonsense")
        assert (refused.value.status, refused.value.reason) == (401, "unauthenticated")
        url = server.url
    client = Client(url, "x")
    with pytest.raises(ServerUnreachable, match="cc-orchestrator serve"):
        await ReviewLoop(client, Console()).run()
    client.close()


@pytest.mark.parametrize("clean", [True, False])
async def test_a_server_that_goes_away_is_a_sentence(clean: bool) -> None:
    """When the connection ends under the reviewer, by a restart or a crash, they get a sentence, not a traceback."""
    ends: Sequence[int] = (1012,)

    async def snapshot_then_gone(socket: ServerConnection) -> None:
        await socket.send(review.Snapshot(seq=1, requests=()).model_dump_json())
        if clean:
            await socket.close(ends[0])
        else:
            socket.transport.abort()

    async with serve(snapshot_then_gone, "127.0.0.1", 0, compression=None) as listening:
        port = next(iter(listening.sockets)).getsockname()[1]
        client = Client(f"http://127.0.0.1:{port}", "x")
        with pytest.raises(ServerUnreachable):
            await within(ReviewLoop(client, Console(say=lambda _: None)).run())
        client.close()


@pytest.mark.parametrize(
    ("url", "token", "words"),
    [
        ("http://[::1", "x", "is not an address of a server"),
        ("http://", "x", "is not an address of a server"),
        ("nonsense", "x", "is not an address of a server"),
        ("ftp://127.0.0.1", "x", "is not an address of a server"),
        ("http://127.0.0.1:9", "grün", "characters that no token has"),
        ("http://127.0.0.1:9", "a\nb", "characters that no token has"),
    ],
)
def test_an_address_or_a_token_that_cannot_be_one_is_refused_here(url: str, token: str, words: str) -> None:
    """What cannot be an address or a token never reaches the network: it is a sentence with what to do."""
    with pytest.raises(InvalidRequest, match=words) as refused:
        Client(url, token)
    assert refused.value.remedy


@pytest.mark.parametrize(("scheme", "mode"), [("https", ssl.CERT_REQUIRED), ("http", ssl.CERT_NONE)])
def test_a_server_behind_tls_has_to_prove_who_it_is(scheme: str, mode: ssl.VerifyMode) -> None:
    """The authorities are left out for an address without TLS only."""
    client = Client(f"{scheme}://127.0.0.1:9", "x")
    transport: Any = client._http._transport
    assert transport._pool._ssl_context.verify_mode is mode
    client.close()
