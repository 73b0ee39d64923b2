"""The console over a real server: edits, answers, parts of a batch, refusals, and who was first."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from orchestrator.client import Client
from orchestrator.core.approval.approval import ResumeRequest
from orchestrator.core.errors import FrameRefused
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.task import AgentTask
from orchestrator.core.undo.messages import TaskChange, UndoOffer
from orchestrator.core.undo.telling import outcome_of
from orchestrator.core.wire import review
from orchestrator.terminal.console.loop import ReviewLoop
from orchestrator.terminal.review.channel import OPEN_ENDED, closed_meanwhile, done_of, refused, said_of, taken
from tests.harness.asked import NOW, console, request
from tests.harness.support import NEW, WRITE, Disk, Listening, call, final, says
from tests.harness.whole_server import Server, connected, running
from tests.waiting import HANG_S, within

PROMPT = "[h]elp > "


async def reviewed(server: Server, *answers: str) -> list[str]:
    """Run the loop until nothing waits; what was said."""
    here, said, _ = console(*answers)
    client = Client(server.url, server.admin)
    try:
        await within(ReviewLoop(client, here).run(until_empty=True))
    finally:
        client.close()
    return said


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> Path:
    """Make this line of shell the editor of the file $1."""
    script = tmp_path / "editor"
    script.write_text(f'#!/bin/sh\ncp "$1" "{tmp_path}/seen"\n{line}\n')
    script.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(script))
    return tmp_path / "seen"


# -- edits -------------------------------------------------------------------------------


async def test_what_was_edited_is_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of the editor is written, and the person hears that it was theirs (D16, D19)."""
    editor(tmp_path, monkeypatch, 'echo "print(1)" > "$1"')
    disk = Disk({"a.lua": b"old\n"})
    async with running(tmp_path, model=Listening(says(WRITE), final())) as server, connected(server, "3", disk):
        task_id = await server.submit()
        await server.paused(task_id)
        said = await reviewed(server, "e", "n", "y")
        assert (await server.until(task_id, "task_ended"))["status"] == "Completed"
    assert disk.files == {"a.lua": b"print(1)\n"}
    assert f"Carried out: edited and approved by you; task {task_id} is Running." in said


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"path": 7}', "Not carried out: The arguments of cc_write do not fit: "),
        ('{"path": "rom/a.lua"}', "Not carried out: The policy denies the edited call: "),
        ('{"path": "a.lua", "computer": "4"}', "Not carried out: An edit keeps the computer, which is 3."),
    ],
)
async def test_an_edit_that_is_refused_stays_open_with_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, why: str
) -> None:
    """The server's words are shown, the request is asked for again, and the editor has what was written (D16, D17)."""
    line = f'case "$1" in *.json) echo \'{arguments}\' > "$1";; *) echo "-- mine" >> "$1";; esac'
    seen = editor(tmp_path, monkeypatch, line)
    disk = Disk({"a.lua": b"old\n"})
    async with running(tmp_path, model=Listening(says(WRITE), final())) as server, connected(server, "3", disk):
        await server.paused(await server.submit())
        said = await reviewed(server, "e", "y", "y", "e", "n", "n", "l")
    assert any(line.startswith(why) for line in said), "\n".join(said)[-1500:]
    assert seen.read_text() == f"{NEW.decode()}-- mine\n"
    assert sum(line == "  │ -old" for line in said) == 2, "it was shown again"
    assert disk.done == []


@pytest.mark.deep
async def test_an_edit_too_large_for_the_socket_takes_the_other_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large file is edited as a small one is."""
    editor(tmp_path, monkeypatch, 'head -c 100000 /dev/zero | tr "\\0" x > "$1"')
    write = call("local_write", path="a.txt", content="new\n")
    async with running(tmp_path, model=Listening(says(write), final())) as server:
        task_id = await server.submit([])
        await server.paused(task_id)
        said = await reviewed(server, "e", "n", "y")
        await server.until(task_id, "task_ended")
    # The editor leaves the last line without its end.
    assert (tmp_path / "workspace" / "a.txt").read_text() == "x" * 100_000
    assert any(line.startswith("Carried out: edited and approved by you") for line in said)


async def test_a_long_call_is_cut_fetched_and_approved(tmp_path: Path) -> None:
    """What the socket cuts cannot be approved before [w] showed all of it; then it can (V3)."""
    content = "".join(f"no = {number}\n" for number in range(5000))
    disk = Disk()
    write = call("cc_write", path="a.lua", content=content)
    async with running(tmp_path, model=Listening(says(write), final())) as server, connected(server, "3", disk):
        task_id = await server.submit()
        await server.paused(task_id)
        said = await reviewed(server, "a", "w", "a")
        assert (await server.until(task_id, "task_ended"))["status"] == "Completed"
    assert disk.files["a.lua"] == content.encode()
    cut = said.index("Not all of it was shown: [w] shows the whole, then it can be approved.")
    assert "  │ +no = 2500" not in said[:cut]
    assert "  │ +no = 2500" in said[cut:]


async def test_secrets_are_hidden_and_run_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the page nor the editor has the secret; the file that is written has it (V4)."""
    seen = editor(tmp_path, monkeypatch, 'echo "-- mine" >> "$1"')
    secret = "ghp_" + "k3Jd92mZx81QpLw7" * 2 + "aB4x"
    write = call("cc_write", path="a.lua", content=f"token = '{secret}'\n")
    disk = Disk()
    async with running(tmp_path, model=Listening(says(write), final())) as server, connected(server, "3", disk):
        task_id = await server.submit()
        await server.paused(task_id)
        said = await reviewed(server, "e", "n", "y")
        await server.until(task_id, "task_ended")
    assert disk.files["a.lua"] == f"token = '{secret}'\n-- mine\n".encode()
    assert secret not in "\n".join(said) + seen.read_text()
    assert "  secrets stand here as [redacted …]: what runs has them" in said


# -- answers, parts, grants --------------------------------------------------------------


async def test_the_model_is_told_what_a_person_answers_in_its_place(tmp_path: Path) -> None:
    """[p] runs nothing, and the text is the result (D20)."""
    replies, disk = Listening(says(WRITE), final("not done", success=False)), Disk()
    async with running(tmp_path, model=replies) as server, connected(server, "3", disk):
        task_id = await server.submit()
        await server.paused(task_id)
        said = await reviewed(server, "p", "it is there already")
        await server.until(task_id, "task_ended")
    assert "it is there already" in replies.told
    assert disk.done == []
    assert any(line.startswith("Carried out: answered by you in its place") for line in said)


async def test_a_rejected_task_goes_on_if_the_person_says_so(tmp_path: Path) -> None:
    """[c] after the reason tells the model, who then ends the task itself (D13)."""
    replies, disk = Listening(says(WRITE), final("then not", success=False)), Disk()
    async with running(tmp_path, model=replies) as server, connected(server, "3", disk):
        task_id = await server.submit()
        await server.paused(task_id)
        await reviewed(server, "r", "not today", "c")
        task = await server.until(task_id, "task_ended")
    assert task["result"]["message"].endswith("then not")
    assert "not today" in replies.told


async def test_one_call_of_a_batch_is_decided_and_the_other_asked_for_again(tmp_path: Path) -> None:
    """The rest of the request comes back by itself, and both run once all is decided (D5)."""
    other = call("cc_write", path="b.lua", content="print(2)\n")
    disk = Disk()
    async with running(tmp_path, model=Listening(says(WRITE, other), final())) as server, connected(server, "3", disk):
        task_id = await server.submit()
        await server.paused(task_id)
        said = await reviewed(server, "2", "a", "a")
        await server.until(task_id, "task_ended")
    assert disk.files == {"a.lua": NEW, "b.lua": b"print(2)\n"}
    assert "  [2/2] cc_write on computer 3" in said
    assert sum(line.startswith("Carried out: approved by you") for line in said) == 2


async def test_what_was_remembered_is_not_asked_again(tmp_path: Path) -> None:
    """A grant for a path with any text lets the next write of this task through (G1)."""
    again = call("cc_write", path="a.lua", content="print('newer')\n")
    disk = Disk({"a.lua": b"old\n"})
    replies = Listening(says(WRITE), says(again), final())
    async with running(tmp_path, model=replies) as server, connected(server, "3", disk):
        task_id = await server.submit()
        await server.paused(task_id)
        said = await reviewed(server, "g", "2", "", "y", "y")
        assert (await server.until(task_id, "task_ended"))["status"] == "Completed"
    assert disk.files == {"a.lua": b"print('newer')\n"}
    assert "  path: a.lua" in said
    assert "  content: any text" in said


# -- what became of it -------------------------------------------------------------------


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("code", "details", "sentence"),
    [
        (
            "not_pending",
            {"decided_by": "bob", "how": "rejected by bob", "at": "2030-01-01T11:59:57+00:00"},
            "Too late: bob rejected it 3 s ago.",
        ),
        ("not_pending", {"decided_by": "bob", "how": "rejected by bob"}, "Too late: bob rejected it."),
        ("not_pending", {"decided_by": "orchestrator", "how": "superseded"}, "Too late: it was superseded."),
        ("not_pending", {"how": "x\x1b by \n", "at": "soon"}, "Too late: it was x\\u{1b} by \\n."),
        ("not_pending", {}, "Not carried out: No. Look."),
        ("expired", {}, "Too late: nobody answered it in time, and it has expired. Look."),
        ("forbidden", {"decided_by": None}, "Not carried out: No. Look."),
    ],
)
def test_a_refusal_says_who_was_first(code: str, details: dict[str, Any], sentence: str) -> None:
    """Too late, in words: by whom, how long ago, or that nobody was in time (D7, D9)."""
    assert refused(code, "No.", "Look.", details, now=NOW) == sentence


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("rejected by bob", "Decided elsewhere: rejected by bob."),
        ("canceled", "It was closed: canceled."),
        ("expired", "Nobody answered it in time: it has expired."),
        ("x\x1b", "It was closed: x\\u{1b}."),
    ],
)
def test_what_was_closed_meanwhile_says_how(how: str, sentence: str) -> None:
    """By a person, by a cancel, or by the clock (O2)."""
    assert closed_meanwhile(how) == sentence


def test_what_was_decided_in_several_ways_is_only_decided() -> None:
    """One sentence for one verb, and none made up for a mixture."""
    one, other = {"call_id": "c1", "action": "approve"}, {"call_id": "c2", "action": "reject"}
    assert said_of(ResumeRequest.model_validate({"decisions": [one, other]})) == "decided by you"
    assert said_of(ResumeRequest(action="retry")) == "asked for again by you"


def test_an_approval_that_waits_for_others_is_not_told_as_carried_out() -> None:
    """Also where the endpoint took it, as for a long edit; an older server tells no progress."""
    answer = {"task_id": "t-1", "status": "Paused", "progress": "1 of 2: ann; next: somebody who may decide"}
    said = "Counted: approved by you. Approved so far: 1 of 2: ann; next: somebody who may decide."
    assert taken("approved by you", done_of("r-1", answer)) == said
    del answer["progress"]
    assert taken("approved by you", done_of("r-1", answer)) == "Carried out: approved by you; task t-1 is Paused."


async def test_a_frame_that_the_server_cannot_read_is_told_and_asked_for_again(tmp_path: Path) -> None:
    """A refusal without a name is of what was sent last: the console waits for nothing that never comes."""
    heard: list[Any] = []

    async def deaf(socket: ServerConnection) -> None:
        asked_about = request()
        await socket.send(review.Snapshot(seq=1, requests=(asked_about,)).model_dump_json())
        heard.append(await socket.recv())
        await socket.send(review.Failed(seq=2, code="bad_frame", message="No.").model_dump_json())
        await socket.wait_closed()

    here, said, _ = console("a", "l")
    async with serve(deaf, "127.0.0.1", 0, compression=None) as listening:
        client = Client(f"http://127.0.0.1:{next(iter(listening.sockets)).getsockname()[1]}", "x")
        await within(ReviewLoop(client, here).run(until_empty=True))
        client.close()
    assert len(heard) == 1
    assert "Not carried out: No." in said


async def test_a_decision_after_a_frame_that_the_console_cannot_read_waits_for_no_answer() -> None:
    """The person types at the very moment when the console stops reading: it ends with the reason."""
    asked = threading.Event()

    async def broken(socket: ServerConnection) -> None:
        await socket.send(review.Snapshot(seq=1, requests=(request(),)).model_dump_json())
        await asyncio.to_thread(asked.wait, HANG_S)
        await socket.send("[]")
        await socket.wait_closed()

    here, said, _ = console()

    def typed(_: str) -> str:
        asked.set()
        while not here.overtaken():
            time.sleep(0.01)
        return "a"

    here.ask = typed
    async with serve(broken, "127.0.0.1", 0, compression=None) as listening:
        client = Client(f"http://127.0.0.1:{next(iter(listening.sockets)).getsockname()[1]}", "x")
        with pytest.raises(FrameRefused, match="The server sent"):
            await within(ReviewLoop(client, here).run())
        client.close()
    assert said[-1] == OPEN_ENDED


async def test_a_task_that_left_something_is_told_with_what_becomes_of_it(tmp_path: Path) -> None:
    """Before the next thing is asked: the first places, and how they are put back or by which task."""
    offers = [
        UndoOffer(changes=1, automatic=False, tasks=()),
        UndoOffer(changes=5, automatic=True, tasks=()),
        UndoOffer(changes=5, automatic=True, tasks=("t-undo",)),
        UndoOffer(changes=1, automatic=False, tasks=("t-undo",), outcome=outcome_of(AgentTask(TaskId("t-undo")))),
        UndoOffer(changes=5, automatic=False, tasks=(), unknown=2),
        UndoOffer(changes=1, automatic=False, tasks=(), unseen=1),
        UndoOffer(changes=0, automatic=False, tasks=(), unseen=1),
    ]

    async def telling(socket: ServerConnection) -> None:
        await socket.send(review.Snapshot(seq=1, requests=(request(),)).model_dump_json())
        await socket.recv()
        for seq, offer in enumerate(offers, start=2):
            places = tuple(
                TaskChange(place=f"3:{name}", computer="3", path=name, step=1, before="absent", after=None)
                for name in "abcde"[: offer.changes]
            )
            over = review.TaskOver(
                seq=seq, task_id=TaskId("t-1"), status="Failed", goal="g", message="m", changes=places, undo=offer
            )
            await socket.send(over.model_dump_json())
        await socket.send(
            review.Done(seq=5, ref=request().request_id, task_id=TaskId("t-2"), status="Running").model_dump_json()
        )
        await socket.wait_closed()

    here, said, _ = console("a")
    async with serve(telling, "127.0.0.1", 0, compression=None) as listening:
        client = Client(f"http://127.0.0.1:{next(iter(listening.sockets)).getsockname()[1]}", "x")
        await within(ReviewLoop(client, here).run(until_empty=True))
        client.close()
    assert [line for line in said if line.startswith("Task t-1")] == [
        "Task t-1 is Failed and had changed 3:a. It is put back with: cc-orchestrator undo t-1",
        "Task t-1 is Failed and had changed 3:a, 3:b, 3:c and 2 more; it is put back, as the policy says.",
        "Task t-1 is Failed and had changed 3:a, 3:b, 3:c and 2 more; task t-undo was begun to put it back.",
        "Task t-1 is Failed and had changed 3:a; being taken back by t-undo (Queued).",
        "Task t-1 is Failed and had changed 3:a, 3:b, 3:c and 2 more; of 2 nobody knows whether it did: an undo keeps "
        "those without --on-conflict restore. It is put back with: cc-orchestrator undo t-1",
        "Task t-1 is Failed and had changed 3:a. It is put back with: cc-orchestrator undo t-1. And changes by its "
        "programs are not known, and no undo puts them back.",
        "Task t-1 is Failed; changes by its programs are not known, and no undo puts them back.",
    ]
