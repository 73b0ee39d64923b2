"""Several people review one request on a whole server: over REST, on the reviewers' socket, and as time passes."""

from typing import Any

import pytest

from orchestrator.core.audit.check import check
from orchestrator.core.audit.rights import RightsBook
from orchestrator.testing import ManualClock
from tests.contract.parts import EVERYTHING, WRITE, Playing, calls_of, changes_in, policy
from tests.harness.support import call, final, says
from tests.harness.whole_server import Installation, Opened

TUTOR = {"tutor": {"may": ["view", "decide"]}}
STEPS = [{"steps": [{"by": "role:tutor"}, {"by": "role:admin"}], "when": {"paths": ["a.lua"]}}]


async def team_of(server: Opened, request: dict[str, Any]) -> dict[str, Any]:
    """The people of an open request, as anybody sees them."""
    answer = await server.ask("GET", f"/v1/requests/{request['request_id']}")
    return dict(answer.json()["team"])


async def does(server: Opened, request: dict[str, Any], what: str, token: str, **body: Any) -> Any:
    """What somebody does beside deciding."""
    return await server.ask("POST", f"/v1/requests/{request['request_id']}/{what}", body, token=token)


async def in_order(server: Opened, task_id: str) -> None:
    """The audit finds nothing, with everybody's rights looked up."""
    book = RightsBook()
    for item in await server.system_items():
        book.take(item)
    found = check(await server.items(task_id), rights=book)
    assert [one.detail for one in found if one.level == "violation"] == []


async def test_d22_two_people_approve_before_it_runs(installation: Installation) -> None:
    """The first approval is shown to everybody on the socket; the second one runs it, once."""
    async with installation.open(Playing(says(WRITE), final()), policy=policy(requests={"approvals": 2})) as server:
        bob, eve = await server.person("bob", "reviewer"), await server.person("eve", "reviewer")
        sent = calls_of(server.stub)
        async with server.reviewing(eve) as reviewer:
            await reviewer.hear("snapshot")
            task_id, request = await server.asked(token=await server.person("sam"))
            assert (await reviewer.hear("request_opened"))["request"]["team"]["progress"] == "0 of 2"
            answer = await server.decide(request, "approve", token=bob)
            assert (answer.status_code, answer.json()["status"]) == (202, "Paused")
            frame = await reviewer.hear("request_opened")
            assert frame["request"]["team"]["progress"] == "1 of 2: bob"
            assert (await server.decide(request, "approve", token=bob)).status_code == 200
            assert changes_in(sent) == []
            assert (await reviewer.decide(request["request_id"], action="approve"))["type"] == "done"
            assert (await server.ended(task_id))["status"] == "Completed"
        assert changes_in(sent) == ["fs_write"]
        late = await server.decide(request, "approve", token=server.admin)
        assert (late.status_code, late.json()["error"]["details"]["decided_by"]) == (409, "eve")
        await in_order(server, task_id)


async def test_d22_the_steps_of_a_workflow_come_in_order(installation: Installation) -> None:
    """A tutor, then an admin; each is refused while it is not their turn, and another path asks for nobody."""
    other = call("cc_write", path="b.lua", content="print('b')")
    text = policy(approvals=STEPS, roles=TUTOR)
    async with installation.open(Playing(says(WRITE), says(other), final()), policy=text) as server:
        tom, ann = await server.person("tom", "tutor"), await server.person("ann", "admin")
        rob = await server.person("rob", "reviewer")
        tried = await server.dry_run("cc_write", {"path": "a.lua", "content": ""}, computer="3")
        said = "2 people have to approve it: somebody with the role tutor, then somebody with the role admin."
        assert (tried["approval"]["need"], tried["approval"]["told"]) == (2, said)
        assert [one["by"] for one in tried["approval"]["steps"]] == ["role:tutor", "role:admin"]
        assert (await server.dry_run("cc_write", {"path": "b.lua", "content": ""}))["approval"]["need"] == 1
        task_id, request = await server.asked(token=await server.person("sam"))
        for token in (ann, rob):
            answer = await server.decide(request, "approve", token=token)
            assert (answer.status_code, "somebody with the role tutor" in answer.text) == (403, True)
        assert (await server.decide(request, "approve", token=tom)).status_code == 202
        assert (await team_of(server, request))["waits_for"] == "somebody with the role admin"
        assert (await server.decide(request, "approve", token=rob)).status_code == 403
        assert (await server.decide(request, "approve", token=ann)).status_code == 202
        after = await server.request(task_id, after=await server.version_of(request))
        assert "team" not in after
        assert (await server.decide(after, "approve", token=rob)).status_code == 202
        await server.ended(task_id)
        await in_order(server, task_id)


async def test_d22_who_is_needed_last_is_not_taken_first(installation: Installation) -> None:
    """A reviewer whom a later step names leaves the first one to others, and is told why; then both approve."""
    text = policy(approvals=[{"steps": [{"by": "role:reviewer"}, {"by": "person:ann"}]}])
    async with installation.open(Playing(says(WRITE), final()), policy=text) as server:
        ann, rob = await server.person("ann", "reviewer"), await server.person("rob", "reviewer")
        task_id, request = await server.asked(token=await server.person("sam"))
        answer = await server.decide(request, "approve", token=ann)
        assert (answer.status_code, answer.json()["error"]["remedy"]) == (
            403,
            "This is decided by somebody with the role reviewer, but not ann, whose approval a later step needs.",
        )
        assert (await server.decide(request, "approve", token=rob)).status_code == 202
        assert (await server.decide(request, "approve", token=ann)).status_code == 202
        await server.ended(task_id)
        await in_order(server, task_id)


async def test_d22_a_policy_that_asks_for_more_people_than_there_are_is_told(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    """At the start, at a reload, in what is in force and in a dry run; no more once there are enough."""
    text = policy(approvals=[{"steps": [{"by": "role:admin", "count": 2}]}])
    said = "2 people with the role admin have to approve, and only admin may."
    async with installation.open(Playing(), policy=text) as server:
        assert said in caplog.text
        told = await server.change_policy(policy(requests={"approvals": 2}))
        assert told["warnings"] == ["2 people who may decide have to approve, and only admin may."]
        assert (await server.change_policy(text))["warnings"] == [said]
        rob = await server.person("rob", "reviewer")
        assert (await server.ask("GET", "/v1/policy")).json()["warnings"] == [said]
        assert "warnings" not in (await server.ask("GET", "/v1/policy", token=await server.person("sam"))).json()
        tried = {"tool": "cc_write", "args": {"path": "a.lua", "content": ""}}
        for token, knows in ((rob, True), (await server.person("sue"), False)):
            shown = (await server.ask("POST", "/v1/policy/dry-run", tried, token=token)).json()["approval"]["told"]
            assert shown.endswith(said) is knows
        await server.person("ann", "admin")
        assert "warnings" not in (await server.ask("GET", "/v1/policy")).json()


async def test_d22_what_was_asked_for_is_fixed(installation: Installation) -> None:
    """A policy that comes later changes nothing of a request that waits: not to fewer people, not to more."""
    async with installation.open(Playing(says(WRITE), final()), policy=policy(requests={"approvals": 2})) as server:
        task_id, request = await server.asked()
        await server.change_policy(policy(*EVERYTHING))
        await server.decide(request, "approve")
        assert (await team_of(server, request))["progress"] == "1 of 2: admin"
        assert (await server.decide(request, "approve", token=await server.person("bob", "reviewer"))).is_success
        await server.ended(task_id)


async def test_d22_a_grant_of_one_person_is_none_for_two(installation: Installation) -> None:
    """What somebody had remembered while one approval was enough asks again once two are needed."""
    twice = Playing(says(WRITE), says(call("cc_write", path="a.lua", content="print('more')")), final())
    async with installation.open(twice, policy=policy()) as server:
        task_id, request = await server.asked()
        (shown,) = request["tool_calls"]
        remember = {"scope": "task", "any_content": True}
        one = {"call_id": shown["call_id"], "action": "approve", "remember": remember}
        await server.change_policy(policy(requests={"approvals": 2}))
        assert (await server.decide(request, decisions=[one])).status_code == 202
        again = await server.request(task_id, after=await server.version_of(request))
        assert again["team"]["progress"] == "0 of 2"


async def test_r6_a_claim_and_a_comment_are_seen_by_the_others(installation: Installation) -> None:
    """409 names who looks at it, until it is given back or ten minutes are over; an admin decides all the same."""
    async with installation.open(Playing(says(WRITE), final()), policy=policy(), clock=ManualClock()) as server:
        bob, eve = await server.person("bob", "reviewer"), await server.person("eve", "reviewer")
        sam = await server.person("sam")
        async with server.reviewing(eve) as reviewer:
            await reviewer.hear("snapshot")
            task_id, request = await server.asked(token=sam)
            await reviewer.hear("request_opened")
            assert (await does(server, request, "claim", bob)).status_code == 200
            assert (await reviewer.hear("request_opened"))["request"]["team"]["claimed_by"] == "bob"
            refused = await reviewer.decide(request["request_id"], action="approve")
            assert (refused["code"], refused["details"]["claimed_by"]) == ("not_pending", "bob")
            assert (await does(server, request, "claim", eve)).json()["error"]["details"]["claimed_by"] == "bob"
            assert (await does(server, request, "release", eve)).status_code == 403
            assert (await does(server, request, "claim", sam)).status_code == 403
            for token, text in ((bob, "Is the chest empty?"), (sam, "It is.")):
                assert (await does(server, request, "comment", token, text=text)).status_code == 200
                comments = (await reviewer.hear("request_opened"))["request"]["team"]["comments"]
                assert comments[-1]["text"] == text
            server.advance(600)
            assert (await reviewer.decide(request["request_id"], action="approve"))["type"] == "done"
        await server.ended(task_id)
        await in_order(server, task_id)


@pytest.mark.parametrize("how", ["revoke", "freeze"])
async def test_r6_a_claim_ends_with_its_holder(installation: Installation, how: str) -> None:
    """At once: the others decide, and a page shows no claim. Somebody else's claim stays, a frozen one makes none."""
    two = Playing(says(WRITE), says(WRITE))
    async with installation.open(two, policy=policy()) as server:
        bob, eve = await server.person("bob", "reviewer"), await server.person("eve", "reviewer")
        sam = await server.person("sam")
        async with server.reviewing(eve) as reviewer:
            await reviewer.hear("snapshot")
            task_id, request = await server.asked(token=sam)
            await reviewer.hear("request_opened")
            assert (await does(server, request, "claim", bob)).is_success
            assert (await reviewer.hear("request_opened"))["request"]["team"]["claimed_by"] == "bob"
            _, other = await server.asked(token=sam)
            assert (await does(server, other, "claim", eve)).is_success
            if how == "revoke":
                assert (await server.ask("DELETE", "/v1/tokens/person/bob")).is_success
            else:
                assert (await server.ask("POST", "/v1/freeze", {"person": "bob"})).is_success
                assert (await does(server, request, "claim", bob)).json()["error"]["code"] == "frozen"
            frame: dict[str, Any] = {"request": {}}
            while frame["request"].get("request_id") != request["request_id"] or "team" in frame["request"]:
                frame = await reviewer.hear("request_opened")
        assert (await team_of(server, other))["claimed_by"] == "eve"
        assert (await server.decide(request, "approve", token=eve)).status_code == 202
        await in_order(server, task_id)


async def test_r6_a_claim_given_back_or_overruled(installation: Installation) -> None:
    """By its owner, and by an admin, who needs no release."""
    two = Playing(says(WRITE), says(call("cc_write", path="b.lua", content="print('b')")), final())
    async with installation.open(two, policy=policy()) as server:
        bob, eve = await server.person("bob", "reviewer"), await server.person("eve", "reviewer")
        task_id, request = await server.asked(token=await server.person("sam"))
        assert (await does(server, request, "claim", bob)).is_success
        assert (await server.decide(request, "approve", token=eve)).status_code == 409
        assert (await does(server, request, "release", bob)).is_success
        assert (await server.decide(request, "approve", token=eve)).status_code == 202
        after = await server.request(task_id, after=await server.version_of(request))
        assert (await does(server, after, "claim", bob)).is_success
        assert (await server.decide(after, "approve")).status_code == 202
        await server.ended(task_id)
        await in_order(server, task_id)


@pytest.mark.parametrize("by_itself", [False, True])
async def test_d21_an_escalated_request_is_no_longer_the_former_groups(
    installation: Installation, by_itself: bool
) -> None:
    """It keeps its id and gets a new deadline; on the socket it closes for the one and opens for the other."""
    text = policy(approvals=[{"steps": [{"by": "role:tutor"}], "escalate_after_s": 60}], roles=TUTOR)
    async with installation.open(Playing(says(WRITE), final()), policy=text, clock=ManualClock()) as server:
        tom, ann = await server.person("tom", "tutor"), await server.person("ann", "admin")
        async with server.reviewing(tom) as former, server.reviewing(ann) as later:
            assert (await former.hear("snapshot"))["requests"] == []
            assert (await later.hear("snapshot"))["requests"] == []
            task_id, request = await server.asked(token=await server.person("sam"))
            await former.hear("request_opened")
            server.advance(60 if by_itself else 30)
            if not by_itself:
                assert (await does(server, request, "escalate", tom)).status_code == 200
            closed = await former.hear("request_closed")
            assert (closed["request_id"], closed["how"]) == (request["request_id"], "escalated to admins")
            opened = (await later.hear("request_opened"))["request"]
            assert opened["request_id"] == request["request_id"]
            assert opened["expires_at"] > request["expires_at"]
            for verb in ("approve", "reject"):
                assert (await server.decide(request, verb, token=tom)).status_code == 403
            assert (await does(server, request, "escalate", ann)).status_code == 409
            assert (await later.decide(request["request_id"], action="approve"))["type"] == "done"
        await server.ended(task_id)
        await in_order(server, task_id)


async def test_a_delegate_decides_while_somebody_is_away(installation: Installation) -> None:
    """Said by the person or an admin, for a time; the audit shows both names."""
    text = policy(approvals=[{"steps": [{"by": "person:bob"}]}])
    async with installation.open(Playing(says(WRITE), final()), policy=text, clock=ManualClock()) as server:
        bob, eve = await server.person("bob", "reviewer"), await server.person("eve", "submitter")
        task_id, request = await server.asked(token=await server.person("sam"))
        assert (await server.decide(request, "approve", token=eve)).status_code == 404
        away = {"to": "eve", "seconds": 3600}
        assert (await server.ask("POST", "/v1/away", {**away, "person": "bob"}, token=eve)).status_code == 403
        for body, status in (({**away, "to": "bob"}, 422), ({**away, "to": "nobody"}, 404), (away, 200)):
            assert (await server.ask("POST", "/v1/away", body, token=bob)).status_code == status
        server.advance(3600)
        assert (await server.decide(request, "approve", token=eve)).status_code == 404
        told = await server.ask("POST", "/v1/away", {**away, "person": "bob", "seconds": 7200})
        assert (told.status_code, told.json()["to"]) == (200, "eve")
        for _ in range(2):
            assert (await server.ask("POST", "/v1/away", {}, token=bob)).json()["to"] is None
        assert (await server.decide(request, "approve", token=eve)).status_code == 404
        assert (await server.ask("GET", "/v1/requests", token=eve)).json()["requests"] == []
        assert (await server.ask("POST", "/v1/away", away, token=bob)).status_code == 200
        (listed,) = (await server.ask("GET", "/v1/requests", token=eve)).json()["requests"]
        assert listed["request_id"] == request["request_id"]
        assert [one["task_id"] for one in (await server.ask("GET", "/v1/tasks", token=eve)).json()["tasks"]] == [
            task_id
        ]
        waits = await server.request(task_id)
        assert (await server.decide(waits, "approve", token=eve)).status_code == 202
        (recorded,) = await server.items(task_id, "decision_recorded")
        assert (recorded.actor.id, recorded.fact.behalf) == ("eve", "bob")  # type: ignore[union-attr]
        await server.ended(task_id)
        await in_order(server, task_id)


async def test_r4_a_limited_role_decides_and_grants_only_what_it_covers(installation: Installation) -> None:
    """By path: another file is refused, an edit that moves there too, and a grant that was widened ends there."""
    limited = {"tutor": {"may": ["view", "decide"], "paths": ["a.lua", "c.lua"]}}
    other = call("cc_write", path="b.lua", content="print('b')")
    model = Playing(says(WRITE), says(other), final())
    async with installation.open(model, policy=policy(roles=limited)) as server:
        tom, rob = await server.person("tom", "tutor"), await server.person("rob", "reviewer")
        task_id, request = await server.asked(token=await server.person("sam"))
        (shown,) = request["tool_calls"]
        one = {"call_id": shown["call_id"], "action": "edit", "args": {**shown["args"], "path": "b.lua"}}
        assert (await server.decide(request, decisions=[one], token=tom)).status_code == 403
        remember = {"scope": "task", "any_content": True, "paths": ["**"]}
        one = {"call_id": shown["call_id"], "action": "approve", "remember": remember}
        assert (await server.decide(request, decisions=[one], token=tom)).status_code == 202
        after = await server.request(task_id, after=await server.version_of(request))
        answer = await server.decide(after, "approve", token=tom)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
        assert (await server.decide(after, "approve", token=rob)).status_code == 202
        await server.ended(task_id)
        await in_order(server, task_id)
