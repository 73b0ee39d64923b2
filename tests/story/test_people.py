"""People at the endpoints: who may decide, who was first, what a decision does to the task."""

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus

from orchestrator.core.task import facts
from tests.story.harness import (
    Api,
    Computer,
    Server,
    approve,
    check_laws,
    computer,
    decoded,
    ended,
    facts_of,
    final,
    kinds,
    play,
    tool,
    tools,
)
from tests.waiting import HANG_S

WRITE = tool("local_write", path="note.txt", content="a note\n")
"""A call that asks and needs no computer."""


async def _asked(api: Api, *script: Any, **more: Any) -> tuple[str, dict[str, Any]]:
    """A task that waits for a person: its id and its request."""
    task_id = await api.submit(*(script or (WRITE, final())), **more)
    requested = await api.first(task_id, "review_requested")
    return task_id, await api.ok("GET", f"/v1/requests/{requested.request_id}")


# -- the matrix --------------------------------------------------------------------------


@pytest.mark.thinned(2)
@pytest.mark.parametrize("endpoint", ["resume", "approve", "reject"])
async def test_the_endpoints_of_a_decision_refuse_in_one_order(server: Server, endpoint: str) -> None:
    """401 before 422 before 404 before 403 before 409, each in the one form, and nothing is decided by it."""
    api = server.api()
    stranger = await server.person(f"stranger-{endpoint}", "submitter", "reviewer")
    task_id, request = await _asked(api)
    good: dict[str, Any] = {"action": "approve"} if endpoint == "resume" else {}
    path, nowhere = f"/v1/{endpoint}/{request['request_id']}", f"/v1/{endpoint}/nobody-asked-this"
    for anonymous in (server.api(None), server.api("nonsense")):
        assert (await anonymous.refused(401, "POST", path, {"action": "obey"}))["code"] == "unauthenticated"
    computers_token = await server.computer_token(server.new_name())
    await server.api(computers_token).refused(401, "POST", path, good)
    bodies: tuple[Any, ...] = (
        {"action": "obey"},
        {"decisions": []},
        {"expected_digest": 7},
        {"surprise": True},
        [],
        "approve",
    )
    for bad in bodies:
        await stranger.refused(422, "POST", nowhere, bad)
    assert (await stranger.refused(404, "POST", nowhere, good))["code"] == "not_found"
    assert (await stranger.refused(403, "POST", path, good))["code"] == "forbidden"
    await stranger.refused(403, "POST", path, good | {"expected_digest": "of something else"})
    assert (await api.refused(409, "POST", path, good | {"expected_digest": "of something else"}))["code"] == (
        "invalid_decision"
    )
    assert (await api.call("GET", path)).status_code == 405
    assert (await api.task(task_id))["status"] == "Paused"
    await api.resume(request["request_id"], "approve" if endpoint == "reject" else "reject")
    error = await api.refused(409, "POST", path, good)
    assert error["code"] == "not_pending"
    assert "by admin" in error["message"], "the one who comes too late is told who decided"
    await stranger.refused(403, "POST", path, good)


@pytest.mark.deep
async def test_a_resume_body_has_exactly_one_form(server: Server) -> None:
    """Neither, both, a call twice, a call of another request and a verb that does not fit: nothing is applied."""
    api = server.api()
    task_id, request = await _asked(api)
    path, call_id = f"/v1/resume/{request['request_id']}", request["tool_calls"][0]["call_id"]
    one = {"call_id": call_id, "action": "approve"}
    await api.refused(422, "POST", path, {})
    await api.refused(422, "POST", path, {"action": "approve", "decisions": [one]})
    await api.refused(409, "POST", path, {"decisions": [one, one]})
    await api.refused(409, "POST", path, {"decisions": [one, {"call_id": "c-other", "action": "approve"}]})
    for verb in ("check", "mark_done", "mark_failed", "retry"):
        await api.refused(409, "POST", path, {"action": verb})
    assert kinds(await _so_far(api, task_id))[-1] == "review_requested"
    await api.resume(request["request_id"], "reject")


async def _so_far(api: Api, task_id: str) -> list[Any]:
    version = (await api.task(task_id))["version"]
    items: list[Any] = []
    async for item in api.items(task_id):
        items.append(item)
        if item.version >= version:
            break
    return items


# -- races -------------------------------------------------------------------------------


@pytest.mark.deep
async def test_of_two_people_who_decide_at_once_one_wins_and_the_other_is_told_who(tmp_path: Path) -> None:
    """Ten rounds of approve against approve and against reject: one decision each, and the winner's word is kept."""
    server = Server(tmp_path / "home", approvers="role:reviewer")
    server.start()
    try:
        people = [await server.person(name, "reviewer") for name in ("ann", "bob")]
        for number in range(10):
            second = "approve" if number % 2 else "reject"
            task_id, request = await _asked(server.api())
            path = f"/v1/resume/{request['request_id']}"
            answers = await asyncio.gather(
                people[number % 2].call("POST", path, {"action": "approve"}),
                people[1 - number % 2].call("POST", path, {"action": second}),
            )
            codes = sorted(answer.status_code for answer in answers)
            assert codes in ([200, 409], [202, 409]), [answer.text for answer in answers]
            items = await server.api().journal(task_id)
            check_laws(items)
            (decision,) = facts_of(items, facts.DecisionRecorded)
            winner = next(item.actor.id for item in items if item.fact is decision)
            (loser,) = [answer for answer in answers if answer.status_code == 409]
            assert f"by {winner}" in loser.json()["error"]["message"]
            wanted = "Completed" if decision.decisions[0].action == "approve" else "Canceled"
            assert ended(items).status == wanted
            assert bool(facts_of(items, facts.ToolStarted)) == (wanted == "Completed")
    finally:
        await server.close()
        server.kill()


@pytest.mark.deep
async def test_the_same_decision_again_is_the_same_decision(server: Server) -> None:
    """A double click, and a retry with its key, answer 200 and do nothing; another decision is 409."""
    api = server.api()
    task_id, request = await _asked(api)
    path = f"/v1/resume/{request['request_id']}"
    body = {"action": "approve", "idempotency_key": "k1"}
    answers = await asyncio.gather(*(api.call("POST", path, body) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 200, 202]
    items = await api.journal(task_id)
    assert len(facts_of(items, facts.DecisionRecorded)) == len(facts_of(items, facts.ToolStarted)) == 1
    assert (await api.call("POST", path, body)).status_code == 200
    await api.refused(409, "POST", path, {"action": "reject"})


# -- what a decision does ----------------------------------------------------------------


@pytest.mark.deep
async def test_reject_cancels_the_task_and_the_model_is_not_asked_again(server: Server) -> None:
    """The seeds' reject: Canceled, with the reason, nothing ran."""
    api = server.api()
    task_id, request = await _asked(api)
    answer = await api.ok("POST", f"/v1/reject/{request['request_id']}", {"reason": "not on my watch"})
    assert answer["status"] == "Canceled"
    items = await api.journal(task_id)
    check_laws(items)
    assert "not on my watch" in ended(items).message
    assert kinds(items).count("model_asked") == 1
    assert not facts_of(items, facts.ToolStarted)


@pytest.mark.deep
async def test_reject_and_continue_tells_the_model_why_and_the_same_call_is_not_asked_again(server: Server) -> None:
    """The loop goes on with the person's words as data; the very same call is then denied without a question."""
    api = server.api()
    task_id, request = await _asked(api, WRITE, WRITE, final(), on_reject="continue")
    answer = await api.ok("POST", f"/v1/reject/{request['request_id']}", {"reason": "the file is mine"})
    assert answer["status"] == "Running"
    items = await api.journal(task_id)
    check_laws(items)
    assert ended(items).status == "Completed"
    assert len(facts_of(items, facts.ReviewRequested)) == 1
    first, second = facts_of(items, facts.CallsProposed)
    assert (first.evaluations[0].effect, second.evaluations[0].effect) == ("ask", "deny")
    assert not facts_of(items, facts.ToolStarted)


async def test_a_request_is_decided_call_by_call_and_runs_when_all_are_decided(server: Server, tmp_path: Path) -> None:
    """Decided calls are recorded at once, the task stays Paused until the last one, then each does what was said."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.boot()
        writes = tools(*(tool("cc_write", path=f"f{number}", content=str(number)) for number in range(3)))
        task_id, request = await _asked(api, writes, final(), computers=(pc.name,))
        path = f"/v1/resume/{request['request_id']}"
        first, second, third = (call["call_id"] for call in request["tool_calls"])
        await api.ok("POST", path, {"decisions": [{"call_id": second, "action": "approve"}]})
        shown = await api.task(task_id)
        assert shown["status"] == "Paused"
        assert [call["call_id"] for call in shown["request"]["tool_calls"]] == [first, third]
        assert pc.read("f1") is None, "nothing runs before its siblings are decided"
        await api.refused(409, "POST", path, {"decisions": [{"call_id": second, "action": "reject"}]})
        decisions = [
            {"call_id": first, "action": "reject", "on_reject": "continue", "reason": "no"},
            {"call_id": third, "action": "approve"},
        ]
        await api.ok("POST", path, {"decisions": decisions})
        items = await api.journal(task_id)
        check_laws(items)
        assert ended(items).status == "Completed"
        assert [pc.read(f"f{number}") for number in range(3)] == [None, b"1", b"2"]


@pytest.mark.deep
async def test_approve_with_wait_answers_what_came_of_it(server: Server) -> None:
    """``wait_s`` answers the next request, or the final result; without it 202 at once."""
    api = server.api()
    other = tool("local_write", path="second.txt", content="2")
    _, request = await _asked(api, WRITE, other, final())
    answer = await api.call("POST", f"/v1/approve/{request['request_id']}", {}, wait_s=20)
    following = answer.json()
    assert (answer.status_code, following["status"]) == (200, "Paused")
    assert following["tool_calls"][0]["args"]["path"] == "second.txt"
    assert following["message"] == "Human intervention required."
    assert following["approval_url"] == f"/v1/approve/{following['request_id']}"
    answer = await api.call("POST", following["approval_url"], {}, wait_s=20)
    assert answer.status_code == 200
    assert (
        answer.json().items() >= {"kind": "final", "success": True, "message": "Done.", "status": "Completed"}.items()
    )
    await api.refused(422, "POST", following["approval_url"], {}, wait_s="for ever")


@pytest.mark.deep
async def test_a_question_is_answered_once_and_the_model_gets_the_answer(server: Server) -> None:
    """ask_user pauses the task; the first answer counts; only who may decide answers."""
    api = server.api()
    task_id = await api.submit(tool("ask_user", question="Which colour?"), final())
    asked = await api.first(task_id, "question_asked")
    shown = await api.task(task_id)
    assert (shown["status"], shown["question"]["question"]) == ("Paused", "Which colour?")
    path, body = f"/v1/tasks/{task_id}/answer", {"question_id": asked.question_id, "answer": "green"}
    stranger = await server.person("stranger-answers", "submitter")
    await stranger.refused(404, "POST", path, body)
    await api.refused(404, "POST", path, body | {"question_id": "none"})
    await api.refused(422, "POST", path, {"answer": "green"})
    answers = await asyncio.gather(*(api.call("POST", path, body) for _ in range(3)))
    assert [answer.status_code for answer in answers].count(200) == 1
    items = await api.journal(task_id)
    check_laws(items)
    assert [one.answer for one in facts_of(items, facts.QuestionAnswered)] == ["green"]
    assert ended(items).status == "Completed"


@pytest.mark.deep
async def test_a_canceled_task_takes_its_request_with_it(server: Server) -> None:
    """Cancel while paused: Canceled, the request closed in the same moment, later decisions and cancels 409."""
    api = server.api()
    task_id, request = await _asked(api)
    stranger = await server.person("stranger-cancels", "submitter")
    await stranger.refused(404, "POST", f"/v1/tasks/{task_id}/cancel", {})
    assert (await api.ok("POST", f"/v1/tasks/{task_id}/cancel", {"reason": "changed my mind"}))["status"] == "Canceled"
    await api.refused(409, "POST", f"/v1/approve/{request['request_id']}", {})
    await api.refused(409, "POST", f"/v1/tasks/{task_id}/cancel", {})
    items = await api.journal(task_id)
    check_laws(items)
    assert kinds(items)[-3:] == ["cancel_requested", "request_ended", "task_ended"]
    assert not facts_of(items, facts.ToolStarted)
    assert request["request_id"] not in str(await api.ok("GET", "/v1/requests"))


async def test_a_task_canceled_while_its_program_runs_records_the_outcome(server: Server, tmp_path: Path) -> None:
    """The running call's outcome is recorded after the end of the task, and the computer is free again."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write("p.lua", b"fs.open('started', 'w').close() os.pullEvent('go')")
        pc.write("go.lua", b"os.queueEvent('go')")
        pc.boot()
        task_id, request = await _asked(api, tool("cc_run_program", path="p.lua"), final(), computers=(pc.name,))
        await api.resume(request["request_id"], "approve")
        await api.first(task_id, "tool_started")
        await api.ok("POST", f"/v1/tasks/{task_id}/cancel", {})
        pc.kill()
        pc.boot()
        items = await api.journal(task_id)
        check_laws(items)
        assert ended(items).status == "Canceled"
        assert kinds(items)[-1] in ("tool_finished", "tool_settled")
        follow = await play(api, await api.submit(tool("cc_list", path=""), final(), computers=(pc.name,)))
        assert ended(follow).status == "Completed"


# -- the reviewers' socket ---------------------------------------------------------------


class Socket:
    """A reviewer's connection, whose frames must be numbered without a gap."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.seq = 0

    async def hear(self, kind: str, **wanted: Any) -> dict[str, Any]:
        """The next message of a kind with these fields."""
        async with asyncio.timeout(HANG_S):
            while True:
                message = decoded(await self._socket.recv())
                self.seq += 1
                assert message["seq"] == self.seq
                if message["type"] == kind and message.items() >= wanted.items():
                    return message

    async def say(self, text: str | bytes | dict[str, Any]) -> None:
        await self._socket.send(json.dumps(text) if isinstance(text, dict) else text)


async def test_the_reviewers_socket_shows_all_that_waits_then_each_change_and_takes_decisions(server: Server) -> None:
    """Snapshot, opened, closed, questions; decisions with a ref; refusals do not end the connection."""
    boss = await server.person("boss", "submitter", "reviewer")
    task_id, first = await _asked(boss)
    async with boss.reviewer() as one, boss.reviewer() as two:
        ann, bob = Socket(one), Socket(two)
        for each in (ann, bob):
            snapshot = await each.hear("snapshot")
            assert [request["request_id"] for request in snapshot["requests"]] == [first["request_id"]]
        other = await boss.submit(tool("ask_user", question="Why?"), final())
        question = (await ann.hear("question_opened"))["question"]
        assert (question["task_id"], question["question"]) == (other, "Why?")
        decide = {"type": "decide", "ref": "r1", "request_id": first["request_id"]}
        for broken in ("{", b"binary", {"type": "obey", "ref": "x"}, decide | {"resume": {}}, "x" * 70_000):
            await ann.say(broken)
            assert (await ann.hear("failed"))["code"] == "bad_frame"
        await ann.say(decide | {"resume": {"action": "approve", "expected_digest": "another"}})
        assert (await ann.hear("failed", ref="r1"))["code"] == "invalid_decision"
        await ann.say(decide | {"resume": {"action": "approve", "expected_digest": first["action_digest"]}})
        assert (await ann.hear("done", ref="r1"))["task_id"] == task_id
        closed = await bob.hear("request_closed", request_id=first["request_id"])
        assert closed["how"] == "approved by boss"
        await bob.say(decide | {"resume": {"action": "reject"}})
        refused = await bob.hear("failed", ref="r1")
        assert refused["code"] == "not_pending"
        assert "approved by boss" in refused["message"]
        answer = {"type": "answer", "ref": "r2", "task_id": other, "question_id": question["question_id"]}
        await bob.say(answer | {"answer": "Because."})
        await bob.hear("done", ref="r2")
        await ann.hear("question_closed", question_id=question["question_id"])
    for one_of_them in (task_id, other):
        assert ended(await boss.journal(one_of_them)).status == "Completed"


@pytest.mark.deep
async def test_the_reviewers_socket_shows_nobody_what_is_not_theirs(server: Server) -> None:
    """By the default rule only a requester who reviews sees and decides; without a person's token nobody does."""
    owner = await server.person("owner", "submitter", "reviewer")
    other = await server.person("other", "submitter", "reviewer", "admin")
    _, request = await _asked(owner)
    async with other.reviewer() as connection:
        socket = Socket(connection)
        shown = (await socket.hear("snapshot"))["requests"]
        assert request["request_id"] not in [one["request_id"] for one in shown]
        await socket.say(
            {"type": "decide", "ref": "r", "request_id": request["request_id"], "resume": {"action": "approve"}}
        )
        assert (await socket.hear("failed", ref="r"))["code"] == "forbidden"
    token = await server.computer_token(server.new_name())
    for shut in (server.api(None), server.api(token)):
        with pytest.raises(InvalidStatus) as refused:
            async with shut.reviewer():
                pass
        assert refused.value.response.status_code == 401
    await owner.resume(request["request_id"], "reject")


# -- computers come and go ---------------------------------------------------------------


async def test_a_task_for_a_computer_that_is_away_parks_and_completes_when_it_comes(
    server: Server, tmp_path: Path
) -> None:
    """Nothing is lost and nothing is asked while the computer is away; not there for the run either."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        write = tool("cc_write", path="f", content="x")
        task_id = await api.submit(write, final(), computers=(pc.name,))
        await api.first(task_id, "calls_proposed")
        assert (await api.task(task_id))["status"] == "Running"
        pc.boot()
        requested = await api.first(task_id, "review_requested")
        pc.kill()
        await api.resume(requested.request_id, "approve")
        pc.boot()
        items = await api.journal(task_id)
        check_laws(items)
        assert ended(items).status == "Completed"
        assert pc.read("f") == b"x"
        await api.refused(422, "POST", "/v1/tasks", {"prompt": "[]", "computers": ["nobody"]})


async def test_calls_of_two_tasks_on_one_computer_never_overlap(server: Server, tmp_path: Path) -> None:
    """Four tasks run a program that would see another of its kind at work: each finds itself alone."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.write(
            "p.lua", b"if fs.exists('busy') then error('overlap') end fs.makeDir('busy') sleep(0.3) fs.delete('busy')"
        )
        pc.boot()
        run = (tool("cc_run_program", path="p.lua"), tool("cc_run_program", path="p.lua", args=["2"]), final())
        task_ids = [await api.submit(*run, computers=(pc.name,)) for _ in range(4)]
        journals = await asyncio.gather(*(play(api, task_id, approve) for task_id in task_ids))
        spans: list[tuple[Any, Any]] = []
        for items in journals:
            check_laws(items)
            assert all(one.ok for one in facts_of(items, facts.ToolFinished))
            at = {item.fact.kind: item.at for item in items if item.fact.kind in ("tool_started", "tool_finished")}
            spans.append((at["tool_started"], at["tool_finished"]))
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))


async def test_a_paused_task_does_not_hold_its_computer(server: Server, tmp_path: Path) -> None:
    """While one task waits for a person, another works on the same computer."""
    api = server.api()
    async with computer(server, tmp_path) as pc:
        pc.boot()
        waiting, request = await _asked(api, tool("cc_write", path="a", content="a"), final(), computers=(pc.name,))
        items = await play(api, await api.submit(*_write("b"), computers=(pc.name,)))
        assert ended(items).status == "Completed"
        await api.resume(request["request_id"], "approve")
        assert ended(await api.journal(waiting)).status == "Completed"
        assert (pc.read("a"), pc.read("b")) == (b"a", b"b")


def _write(path: str) -> tuple[Any, ...]:
    return tool("cc_write", path=path, content=path), final()


async def test_two_computers_of_one_task_are_told_apart(server: Server, tmp_path: Path) -> None:
    """With two computers each call names its own; a call that names none is refused with their names."""
    api = server.api()
    async with computer(server, tmp_path) as one, computer(server, tmp_path) as two:
        for pc in (one, two):
            pc.boot()
        script = (
            tool("cc_write", path="f", content="nowhere"),
            tools(*(tool("cc_write", path="f", content=pc.name, computer=pc.name) for pc in (one, two))),
            final(),
        )
        items = await play(api, await api.submit(*script, computers=(one.name, two.name)))
        check_laws(items)
        (refused,) = facts_of(items, facts.ReplyRefused)
        assert one.name in refused.reason
        assert two.name in refused.reason
        assert (_read(one), _read(two)) == (one.name, two.name)


def _read(pc: Computer) -> str:
    return (pc.read("f") or b"").decode()
