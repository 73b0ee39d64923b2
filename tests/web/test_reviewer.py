"""The reviewers' socket on a real server: what it tells, whom, and what it takes."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from orchestrator.core.wire.review import MAX_REVIEW_FRAME_CHARS, REVIEWER_SUBPROTOCOL_1_1
from tests.harness.endpoints import ByPrompt
from tests.harness.support import Disk, call
from tests.harness.whole_server import Reviewer, Server, connected, running
from tests.waiting import within

WRITE = call("cc_write", path="a.lua", content="print('new')\n")
ASK = call("ask_user", question="Which one?")


MODEL = ByPrompt(
    {
        "write": (WRITE,),
        "ask": (ASK,),
        "two": (WRITE, call("cc_write", path="b", content="2")),
        "fail": (WRITE,),
    }
)


@pytest.fixture
async def disk() -> Disk:
    return Disk({"a.lua": b"old\n"})


@pytest.fixture
async def server(tmp_path: Path, disk: Disk) -> AsyncIterator[Server]:
    """A server with computer 3."""
    async with running(tmp_path, model=MODEL) as server, connected(server, "3", disk):
        yield server


async def ended(server: Server, task_id: str) -> str:
    return str((await server.until(task_id, "task_ended"))["status"])


# -- who -------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["", "nonsense", "computer"])
async def test_the_endpoint_wants_a_persons_token(server: Server, token: str) -> None:
    """Without a token, with an unknown one or a computer's, the handshake is refused with 401 in the one form."""
    with pytest.raises(InvalidStatus) as denied:
        async with server.reviewing(await server.computer("9") if token == "computer" else token):
            pass
    assert denied.value.response.status_code == 401
    assert json.loads(denied.value.response.body or b"")["error"]["code"] == "unauthenticated"


async def test_other_peoples_tasks_are_not_shown(server: Server) -> None:
    """A reviewer sees, in the snapshot and after it, only what they may decide."""
    sam = await server.person("sam")
    before = await server.submit(prompt="write")
    await server.paused(before)
    async with server.reviewing(sam) as reviewer:
        snapshot = await reviewer.hear("snapshot")
        assert (snapshot["requests"], snapshot["questions"]) == ([], [])
        foreign = await server.submit([], prompt="ask")
        await server.until(foreign, "question_asked")
        mine = await server.submit([], prompt="ask", token=sam)
        opened = await reviewer.hear("question_opened")
        assert opened["question"]["task_id"] == mine


async def test_what_may_not_be_decided_is_refused_over_the_socket_too(server: Server) -> None:
    """A decision on another's request, or an answer to another's question, is `failed` with forbidden."""
    sam = await server.person("sam", "viewer")
    request = await server.paused(await server.submit(prompt="write"))
    asking = await server.submit([], prompt="ask")
    question = (await server.until(asking, "question_asked"))["question"]
    async with server.reviewing(sam) as reviewer:
        await reviewer.hear("snapshot")
        await reviewer.send_decision(request)
        assert (await reviewer.hear("failed"))["code"] == "forbidden"
        await reviewer.say(
            type="answer", ref="a", task_id=asking, question_id=question["question_id"], answer="the left"
        )
        assert (await reviewer.hear("failed"))["code"] == "forbidden"
    assert (await server.ask("GET", f"/v1/requests/{request['request_id']}")).json() == request


async def test_a_revoked_reviewer_is_cut_off(server: Server) -> None:
    """A reviewer whose token is revoked is disconnected at once; others stay."""
    sam = await server.person("sam", "reviewer")
    async with server.reviewing(sam) as revoked, server.reviewing() as other:
        await revoked.hear("snapshot")
        await other.hear("snapshot")
        await server.ask("DELETE", "/v1/tokens/person/sam")
        await within(revoked.socket.wait_closed())
        assert (revoked.socket.close_code, revoked.socket.close_reason) == (1008, "the token was revoked")
        await server.submit(prompt="write")
        await other.hear("request_opened")


async def test_a_right_that_went_meanwhile_decides_nothing(server: Server, disk: Disk) -> None:
    """Revoked at another node: before the socket is closed for it, a decision over it is refused (R5)."""
    sam = await server.person("sam", "submitter", "reviewer")
    task_id = await server.submit(prompt="write", token=sam)
    request = await server.paused(task_id)
    async with server.reviewing(sam) as reviewer:
        await reviewer.hear("snapshot")
        await server.orchestrator.store.revoke_tokens("person", "sam")
        await reviewer.send_decision(request)
        assert (await reviewer.hear("failed"))["code"] == "unauthenticated"
    assert (await server.ask("GET", f"/v1/tasks/{task_id}")).json()["status"] == "Paused"
    assert disk.done == []


# -- telling -----------------------------------------------------------------------------


async def test_the_snapshot_has_all_that_waits_oldest_first(server: Server) -> None:
    """On connecting comes one snapshot with every open request, as the endpoints give it, and every open question."""
    first = await server.paused(await server.submit(prompt="write"))
    second = await server.paused(await server.submit(prompt="two"))
    asking = await server.submit([], prompt="ask")
    await server.until(asking, "question_asked")
    async with server.reviewing() as reviewer:
        snapshot = await reviewer.hear("snapshot")
        assert snapshot["requests"] == [first, second]
        (question,) = snapshot["questions"]
        assert (question["task_id"], question["question"], question["goal"]) == (asking, "Which one?", "ask")


async def test_a_request_opens_and_closes_for_everyone_who_looks(server: Server, disk: Disk) -> None:
    """Every reviewer hears a new request whole, and how it was closed, whoever decided it and wherever."""
    async with server.reviewing() as one, server.reviewing() as other:
        for reviewer in (one, other):
            assert (await reviewer.hear("snapshot"))["requests"] == []
        request = await server.paused(await server.submit(prompt="write"))
        for reviewer in (one, other):
            assert (await reviewer.hear("request_opened"))["request"] == request
        await server.ask("POST", request["approval_url"])
        for reviewer in (one, other):
            closed = await reviewer.hear("request_closed")
            assert (closed["request_id"], closed["how"]) == (request["request_id"], "approved by admin")
    assert await ended(server, request["task_id"]) == "Completed"
    assert disk.done == ["fs_write a.lua"]


async def test_a_task_that_was_pruned_meanwhile_ends_no_connection(server: Server) -> None:
    async with server.reviewing() as reviewer:
        await reviewer.hear("snapshot")
        server.orchestrator.service.bus.publish("tasks", {"task_id": "t-pruned"})
        await server.submit(prompt="write")
        assert await reviewer.hear("request_opened")


async def test_a_cancel_closes_the_request(server: Server) -> None:
    """Canceling the task closes its request for the reviewers, who hear that it was canceled."""
    async with server.reviewing() as reviewer:
        await reviewer.hear("snapshot")
        task_id = await server.submit(prompt="write")
        opened = await reviewer.hear("request_opened")
        await server.ask("POST", f"/v1/tasks/{task_id}/cancel")
        closed = await reviewer.hear("request_closed")
        assert (closed["request_id"], closed["how"]) == (opened["request"]["request_id"], "canceled")


async def test_a_request_that_changed_is_shown_again(server: Server) -> None:
    """Deciding one of two calls shows the same request again with the one that is left."""
    async with server.reviewing() as reviewer:
        await reviewer.hear("snapshot")
        task_id = await server.submit(prompt="two")
        request = (await reviewer.hear("request_opened"))["request"]
        first, second = request["tool_calls"]
        half = {"decisions": [{"call_id": first["call_id"], "action": "approve"}]}
        await server.ask("POST", f"/v1/resume/{request['request_id']}", half)
        again = (await reviewer.hear("request_opened"))["request"]
        assert again["request_id"] == request["request_id"]
        assert [one["call_id"] for one in again["tool_calls"]] == [second["call_id"]]
        await server.ask("POST", f"/v1/tasks/{task_id}/cancel")
        await reviewer.hear("request_closed")


async def test_a_stale_request_is_closed_and_a_new_one_opened(server: Server, disk: Disk) -> None:
    """Approved, then changed on the computer: the reviewer hears the approval, then a new request with a new diff."""
    async with server.reviewing() as reviewer:
        await reviewer.hear("snapshot")
        await server.submit(prompt="write")
        request = (await reviewer.hear("request_opened"))["request"]
        disk.files["a.lua"] = b"somebody's\n"
        await server.ask("POST", request["approval_url"])
        assert (await reviewer.hear("request_closed"))["how"] == "approved by admin"
        again = (await reviewer.hear("request_opened"))["request"]
        assert again["request_id"] != request["request_id"]
        assert "-somebody's" in again["tool_calls"][0]["observed"]["diff"]
    assert disk.files == {"a.lua": b"somebody's\n"}


async def test_a_question_opens_and_closes(server: Server) -> None:
    """A question is told when it is asked and when it is answered, wherever that was."""
    async with server.reviewing() as reviewer:
        await reviewer.hear("snapshot")
        task_id = await server.submit([], prompt="ask")
        question = (await reviewer.hear("question_opened"))["question"]
        body = {"question_id": question["question_id"], "answer": "left"}
        await server.ask("POST", f"/v1/tasks/{task_id}/answer", body)
        assert (await reviewer.hear("question_closed"))["question_id"] == question["question_id"]


# -- taking ------------------------------------------------------------------------------


async def test_a_decision_is_done_under_its_ref(server: Server, disk: Disk) -> None:
    """A decision over the socket is carried out and answered by its ref; the request closes."""
    async with server.reviewing() as reviewer:
        await reviewer.hear("snapshot")
        task_id = await server.submit(prompt="write")
        request = (await reviewer.hear("request_opened"))["request"]
        (shown,) = request["tool_calls"]
        decisions = [{"call_id": shown["call_id"], "action": "approve", "expected_digest": shown["action_digest"]}]
        await reviewer.send_decision(request, "mine", decisions=decisions)
        both = await reviewer.either("done", "request_closed")
        assert (both["done"]["ref"], both["done"]["task_id"]) == ("mine", task_id)
        assert both["request_closed"]["how"] == "approved by admin"
    assert await ended(server, task_id) == "Completed"
    assert disk.done == ["fs_write a.lua"]


async def test_the_first_of_two_approvals_is_told_as_counted(tmp_path: Path, disk: Disk) -> None:
    """Over the socket and over REST, alone and with others; the last one is told as any other decision."""
    policy = tmp_path / "two.toml"
    policy.write_text('[requests]\napprovals = 2\n[[rules]]\nid = "asks"\neffect = "ask"\ntools = ["cc_write"]\n')
    async with running(tmp_path, model=MODEL, policy=policy) as server, connected(server, "3", disk):
        ann, bob = [await server.person(name, "reviewer") for name in ("ann", "bob")]
        request = await server.paused(await server.submit(prompt="write"))
        async with server.reviewing(ann) as reviewer:
            await reviewer.hear("snapshot")
            await reviewer.send_decision(request)
            done = (await reviewer.either("done", "request_opened"))["done"]
            assert (done["status"], done["progress"]) == ("Paused", "1 of 2: ann")
        (again,) = await decided(server, request, ann)
        assert (again["status"], again["progress"]) == ("Paused", done["progress"])
        (last,) = await decided(server, request, bob)
        assert (last["status"], last["progress"]) == ("Running", "")
        assert await ended(server, request["task_id"]) == "Completed"


async def decided(server: Server, request: dict[str, Any], token: str) -> list[dict[str, Any]]:
    """What the endpoint of several decisions answers to an approval of one request."""
    one = {"request_id": request["request_id"], "resume": {"action": "approve"}}
    answer = await server.ask("POST", "/v1/decisions", {"requests": [one]}, token=token)
    decisions: list[dict[str, Any]] = answer.json()["decisions"]
    return decisions


async def test_a_rejection_over_the_socket_ends_the_task(server: Server, disk: Disk) -> None:
    """Rejecting answers with the status that the task then has, and nothing was touched."""
    async with server.reviewing() as reviewer:
        await reviewer.hear("snapshot")
        task_id = await server.submit(prompt="write")
        request = (await reviewer.hear("request_opened"))["request"]
        await reviewer.send_decision(request, action="reject", reason="no")
        both = await reviewer.either("done", "request_closed")
        assert both["done"]["status"] == "Canceled"
        assert both["request_closed"]["how"] == "rejected by admin"
    assert await ended(server, task_id) == "Canceled"
    assert disk.done == []


async def test_an_answer_over_the_socket_goes_to_the_model(server: Server) -> None:
    """Answering is carried out once; a second answer is `failed` under its own ref."""
    async with server.reviewing() as reviewer:
        await reviewer.hear("snapshot")
        task_id = await server.submit([], prompt="ask")
        question = (await reviewer.hear("question_opened"))["question"]
        answer = {"type": "answer", "task_id": task_id, "question_id": question["question_id"], "answer": "left"}
        await reviewer.say(**{**answer, "answer": " "}, ref="a-0")
        failed = await reviewer.hear("failed")
        assert (failed["ref"], failed["code"], failed["message"]) == ("a-0", "invalid_request", "The answer is empty.")
        await reviewer.say(**answer, ref="a-1")
        both = await reviewer.either("done", "question_closed")
        assert both["done"]["ref"] == "a-1"
        assert await ended(server, task_id) == "Completed"
        await reviewer.say(**answer, ref="a-2")
        failed = await reviewer.hear("failed")
        assert (failed["ref"], failed["code"]) == ("a-2", "not_pending")
        assert "answered already, by admin at" in failed["message"]


async def test_a_decision_that_does_not_hold_is_failed_under_its_ref(server: Server, disk: Disk) -> None:
    """A wrong digest, an unknown request and a closed one are refused by ref with a code, and decide nothing."""
    async with server.reviewing() as reviewer:
        await reviewer.hear("snapshot")
        await server.submit(prompt="write")
        request = (await reviewer.hear("request_opened"))["request"]
        await reviewer.send_decision(request, "wrong", action="approve", expected_digest="0" * 64)
        failed = await reviewer.hear("failed")
        assert (failed["ref"], failed["code"]) == ("wrong", "invalid_decision")
        assert failed["remedy"]
        await reviewer.send_decision({"request_id": "x" * 24}, "unknown")
        failed = await reviewer.hear("failed")
        assert (failed["ref"], failed["code"]) == ("unknown", "not_found")
        assert disk.done == []
        await reviewer.send_decision(request, "no", action="reject")
        await reviewer.either("done", "request_closed")
        await reviewer.send_decision(request, "late")
        failed = await reviewer.hear("failed")
        assert (failed["ref"], failed["code"]) == ("late", "not_pending")
        assert "rejected by admin" in failed["message"]


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "no json",
        "[]",
        "{}",
        '{"type": "nonsense"}',
        '{"type": "decide", "ref": "r"}',
        '{"type": "decide", "ref": "r", "request_id": "x", "resume": {}}',
        '{"type": "decide", "ref": "r", "request_id": "x", "resume": {"action": "approve"}, "by": "eve"}',
        '{"type": "decide", "ref": "r", "request_id": "x", "resume": {"action": "approve", "action": "reject"}}',
        '{"type": "snapshot", "seq": 1, "requests": []}',
        b'{"type": "decide"}',
        "[" * 5000,
        "x" * (MAX_REVIEW_FRAME_CHARS + 1),
    ],
)
async def test_garbage_is_answered_and_the_connection_lives(server: Server, frame: str | bytes) -> None:
    """A frame that cannot be read, binary ones included, is `failed` with bad_frame; the reviewer goes on."""
    async with server.reviewing() as reviewer:
        await reviewer.hear("snapshot")
        await reviewer.socket.send(frame)
        failed = await reviewer.hear("failed")
        assert (failed["code"], failed["ref"]) == ("bad_frame", None)
        assert failed["message"]
        await reviewer.send_decision({"request_id": "x" * 24}, "after")
        assert (await reviewer.hear("failed"))["ref"] == "after"


async def test_a_stopping_server_ends_the_connection(tmp_path: Path) -> None:
    """When the server stops, the reviewer's connection is closed by it."""
    async with running(tmp_path, model=MODEL) as server:
        cm = server.reviewing()
        reviewer = await cm.__aenter__()
        await reviewer.hear("snapshot")
    await within(reviewer.socket.wait_closed())
    assert reviewer.socket.close_code == 1012
    await cm.__aexit__(None, None, None)


# -- undo --------------------------------------------------------------------------------


async def changed(server: Server, prompt: str = "write") -> str:
    """A task that was allowed to change a.lua."""
    task_id = await server.submit(prompt=prompt)
    request = await server.paused(task_id)
    answer = await server.ask("POST", request["approval_url"])
    assert answer.is_success, answer.text
    return task_id


async def test_an_undo_is_previewed_and_begun_over_the_socket(server: Server, disk: Disk) -> None:
    """The preview is that of REST; the undo is a task that passes the gate, and `done` names it."""
    task_id = await changed(server)
    assert await ended(server, task_id) == "Completed"
    over_rest = await server.ask("POST", f"/v1/tasks/{task_id}/undo", {"dry_run": True})
    async with server.reviewing() as reviewer:
        await reviewer.hear("snapshot")
        await reviewer.say(type="undo", ref="look", task_id=task_id, undo={"dry_run": True})
        told = await reviewer.hear("undo_preview")
        preview = {key: told[key] for key in ("task_id", "places", "cannot_be_undone", "not_heard")}
        assert (told["ref"], told["left_out"], preview) == ("look", 0, over_rest.json())
        assert [one["verdict"] for one in told["places"]] == ["restore"]
        assert len((await server.ask("GET", "/v1/tasks")).json()["tasks"]) == 1
        await reviewer.say(type="undo", ref="do", task_id=task_id)
        both = await reviewer.either("done", "request_opened")
        request = both["request_opened"]["request"]
        assert (both["done"]["ref"], both["done"]["task_id"]) == ("do", request["task_id"])
        assert [one["tool"] for one in request["tool_calls"]] == ["cc_restore"]
        await reviewer.send_decision(request)
        await reviewer.either("done", "request_closed")
        assert await ended(server, request["task_id"]) == "Completed"
    assert disk.files == {"a.lua": b"old\n"}
    shown = (await server.ask("GET", f"/v1/tasks/{task_id}")).json()["undo"]
    assert (shown["changes"], shown["automatic"], shown["tasks"]) == (1, False, [request["task_id"]])
    assert shown["outcome"]["told"] == f"taken back by {request['task_id']} (Completed: 1 put back)"


async def test_an_undo_that_is_sent_again_is_the_first(server: Server) -> None:
    """After a dropped socket, with the same key: one task; the same key of somebody else or over REST, too."""
    task_id = await changed(server)
    await ended(server, task_id)
    said = {"type": "undo", "task_id": task_id, "undo": {"idempotency_key": "mine"}}
    begun = []
    for ref in ("one", "two"):
        async with server.reviewing() as reviewer:
            await reviewer.hear("snapshot")
            await reviewer.say(**said, ref=ref)
            while (message := json.loads(await within(reviewer.socket.recv())))["type"] != "done":
                pass
            begun.append(message["task_id"])
    assert begun[0] == begun[1]
    undo = f"/v1/tasks/{task_id}/undo"
    for again in (
        await server.ask("POST", undo, {"idempotency_key": "mine"}),
        await server.ask("POST", undo, **{"Idempotency-Key": "mine"}),
    ):
        assert (again.status_code, again.json()["task_id"]) == (201, begun[0])
    other = await server.ask("POST", f"/v1/tasks/{task_id}/undo", {"idempotency_key": "mine", "step": 1})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "invalid_decision")
    assert other.json()["error"]["details"] == {"used_for": begun[0]}
    boss = await server.person("boss", "admin")
    theirs = await server.ask("POST", undo, {"idempotency_key": "mine"}, token=boss)
    assert (theirs.status_code, theirs.json()["error"]["code"]) == (409, "being_undone")
    part = await server.ask("POST", undo, {"idempotency_key": "mine", "step": 1}, token=boss)
    assert part.json()["task_id"] != begun[0]


async def test_an_undo_that_goes_on_is_named_to_who_wants_the_same(server: Server) -> None:
    """Over the socket, without a key: failed under the ref, with the task that does it."""
    task_id = await changed(server)
    await ended(server, task_id)
    async with server.reviewing() as reviewer:
        await reviewer.hear("snapshot")
        await reviewer.say(type="undo", ref="one", task_id=task_id)
        undo = (await reviewer.either("done", "request_opened"))["done"]["task_id"]
        await reviewer.say(type="undo", ref="two", task_id=task_id)
        failed = await reviewer.hear("failed")
        assert (failed["ref"], failed["code"], failed["details"]) == ("two", "being_undone", {"task_id": undo})
        assert f"already being taken back by {undo} (waiting for approval)" in failed["message"]
        assert f"`cc-orchestrator tasks watch {undo}`" in failed["remedy"]
        await reviewer.say(type="undo", ref="look", task_id=task_id, undo={"dry_run": True})
        assert (await reviewer.hear("undo_preview"))["places"]


async def test_an_undo_over_the_socket_takes_the_rights_of_rest(server: Server) -> None:
    """Somebody else's task, one that goes on, and one that nobody knows: failed under the ref."""
    sam = await server.person("sam", "reviewer", "submitter")
    task_id = await changed(server)
    await ended(server, task_id)
    going = await server.submit([], prompt="ask")
    await server.until(going, "question_asked")
    async with server.reviewing(sam) as reviewer:
        await reviewer.hear("snapshot")
        for dry_run in (True, False):
            await reviewer.say(type="undo", ref="r", task_id=task_id, undo={"dry_run": dry_run})
            failed = await reviewer.hear("failed")
            assert (failed["ref"], failed["code"]) == ("r", "forbidden")
    async with server.reviewing() as reviewer:
        await reviewer.hear("snapshot")
        for named, code in ((going, "invalid_request"), ("t-none", "not_found")):
            await reviewer.say(type="undo", ref="r", task_id=named, undo={})
            assert (await reviewer.hear("failed"))["code"] == code
        await reviewer.say(type="undo", ref="r", task_id=task_id, undo={"paths": ["../x"]})
        assert (await reviewer.hear("failed"))["code"] == "unsafe_path"
        await reviewer.say(type="undo", ref="r", task_id=task_id, undo={"stepp": 1})
        assert (await reviewer.hear("failed"))["code"] == "bad_frame"


async def test_a_task_that_is_over_and_left_changes_is_told_to_who_takes_it(server: Server) -> None:
    """Failed after a write: its owner hears what it changed, then by which task it is undone; others hear nothing."""
    sam = await server.person("sam", "reviewer", "submitter")
    async with (
        server.reviewing(speaks=REVIEWER_SUBPROTOCOL_1_1) as owner,
        server.reviewing() as older,
        server.reviewing(sam, speaks=REVIEWER_SUBPROTOCOL_1_1) as stranger,
    ):
        for one in (owner, older, stranger):
            await one.hear("snapshot")
        task_id = await changed(server, "fail")
        over = await heard(owner, "task_over")
        assert (over["task_id"], over["status"], over["message"], over["goal"]) == (
            task_id,
            "Failed",
            "it does not run",
            "fail",
        )
        assert [one["place"] for one in over["changes"]] == ["3:a.lua"]
        nothing: dict[str, Any] = {"unknown": 0, "unseen": 0, "outcome": None, "outcomes": []}
        assert (over["left_out"], over["undo"]) == (0, {"changes": 1, "automatic": False, "tasks": [], **nothing})
        undo = (await server.ask("POST", f"/v1/tasks/{task_id}/undo", {})).json()["task_id"]
        taking = (await heard(owner, "task_over"))["undo"]
        assert (taking["tasks"], taking["outcome"]["open"]) == ([undo], True)
        await older.hear("request_opened")
        await older.hear("request_closed")
        assert (await older.hear("request_opened"))["request"]["task_id"] == undo
        await server.submit([], prompt="ask", token=sam)
        await stranger.hear("question_opened")


async def test_who_comes_later_is_told_of_what_was_over_by_then(server: Server) -> None:
    """After the snapshot, to its owner and in 1.1 only; once an undo has begun, nobody who comes is told."""
    sam = await server.person("sam", "reviewer", "submitter")
    task_id = await changed(server, "fail")
    assert await ended(server, task_id) == "Failed"
    async with (
        server.reviewing(speaks=REVIEWER_SUBPROTOCOL_1_1) as owner,
        server.reviewing() as older,
        server.reviewing(sam, speaks=REVIEWER_SUBPROTOCOL_1_1) as stranger,
    ):
        for one in (owner, older, stranger):
            await one.hear("snapshot")
        assert (await owner.hear("task_over"))["task_id"] == task_id
        undo = (await server.ask("POST", f"/v1/tasks/{task_id}/undo", {})).json()["task_id"]
        assert (await heard(owner, "task_over"))["undo"]["tasks"] == [undo]
        await older.hear("request_opened")
        await server.submit([], prompt="ask", token=sam)
        await stranger.hear("question_opened")
    async with server.reviewing(speaks=REVIEWER_SUBPROTOCOL_1_1) as later:
        await later.hear("snapshot")
        await server.submit([], prompt="ask")
        await later.hear("question_opened")


async def heard(reviewer: Reviewer, kind: str) -> dict[str, Any]:
    """The next frame of a kind, whatever comes before it."""
    while True:
        message: dict[str, Any] = json.loads(await within(reviewer.socket.recv()))
        reviewer.seq += 1
        assert message["seq"] == reviewer.seq
        if message["type"] == kind:
            return message
