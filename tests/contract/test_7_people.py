"""Reviewers, identity, rights: who may decide, and how we know who it is."""

import json
from typing import Any

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.contract.parts import WRITE, Playing, policy
from tests.harness.support import call, says
from tests.harness.whole_server import Installation, Opened

SECOND = call("cc_write", path="b.lua", content="print('new b')\n")
THIRD = call("cc_delete", path="hello.lua")


async def waits(server: Opened, request: dict[str, Any]) -> None:
    """The request is open, and nothing was decided."""
    task = await server.task(request["task_id"])
    assert (task["status"], task["request"]["request_id"]) == ("Paused", request["request_id"])
    assert await server.items(request["task_id"], "decision_recorded", "request_ended") == []


async def test_r1_who_decides_is_said_by_the_token_alone(installation: Installation) -> None:
    """R1: a body that names somebody is refused, a header is not heard, and the audit has the token's name."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        sam = await server.person("sam", "submitter", "reviewer")
        task_id, request = await server.asked(token=sam)
        for name in ("by", "user", "user_id", "actor", "approver", "identity"):
            answer = await server.decide(request, "approve", token=sam, **{name: "admin"})  # type: ignore[arg-type]
            assert answer.status_code == 422, (name, answer.text)
        await waits(server, request)
        kim = await server.person("kim", "viewer")
        posing = {"X-User": "sam", "X-Forwarded-User": "sam", "From": "sam", "Remote-User": "sam"}
        assert (await server.decide(request, "approve", token=kim, headers=posing)).status_code == 403
        assert (await server.decide(request, "approve", token=sam, headers={"X-User": "admin"})).status_code == 202
        await server.ended(task_id)
        (decided,) = await server.items(task_id, "decision_recorded")
        assert (decided.actor.kind, decided.actor.id, decided.actor.auth) == ("person", "sam", "token")


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("approvers", "may"),
    [
        ("requester", {"bob", "admin"}),
        ("not_requester", {"bob", "admin"}),
        ("role:reviewer", {"bob", "admin"}),
        ("role:admin", {"admin"}),
        ("role:submitter", {"sam", "admin"}),
    ],
)
async def test_r2_who_may_approve_is_a_setting(installation: Installation, approvers: str, may: set[str]) -> None:
    """R2: of a submitter's task reviewers decide, or anybody else, or a role; the others are refused with 403."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), approvers=approvers) as server:
        people = {
            "sam": await server.person("sam"),
            "kim": await server.person("kim", "viewer"),
            "bob": await server.person("bob", "reviewer"),
            "admin": server.admin,
        }
        task_id, request = await server.asked(token=people["sam"])
        for name in sorted(people.keys() - may):
            assert (await server.decide(request, "approve", token=people[name])).status_code == 403, name
        await waits(server, request)
        (decider, *others) = sorted(may)
        assert (await server.decide(request, "approve", token=people[decider])).status_code == 202
        for name in others:
            assert (await server.decide(request, "reject", token=people[name])).status_code == 409, name
        await server.ended(task_id)
        (decided,) = await server.facts(task_id, "decision_recorded")
        assert decided.self_approved is (decider == "sam")


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("approvers", "may"),
    [("requester", {"bob", "admin"}), ("not_requester", {"bob", "admin"}), ("role:admin", {"admin"})],
)
async def test_r2_of_a_programs_task_people_decide(installation: Installation, approvers: str, may: set[str]) -> None:
    """R2, R3: no program decides, and no submitter: with `requester` those may who review."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), approvers=approvers) as server:
        await server.person("mia", "reviewer")
        robot = await server.agent("robot", "submitter", owner="mia")
        people = {
            "sue": await server.person("sue", "viewer", "submitter"),
            "bob": await server.person("bob", "reviewer"),
            "admin": server.admin,
        }
        task_id, request = await server.asked(token=robot)
        for name in sorted(people.keys() - may):
            for action in ("approve", "reject"):
                assert (await server.decide(request, action, token=people[name])).status_code == 403, name
        assert (await server.decide(request, "approve", token=robot)).status_code == 403
        await waits(server, request)
        decider = people[min(may)]
        async with server.reviewing(decider) as reviewer:
            (shown,) = (await reviewer.hear("snapshot"))["requests"]
            assert shown["request_id"] == request["request_id"]
        assert (await server.decide(request, "approve", token=decider)).status_code == 202
        await server.ended(task_id)
        (decided,) = await server.facts(task_id, "decision_recorded")
        assert decided.self_approved is False


async def test_r2_a_submitter_approves_nothing_of_their_own(installation: Installation) -> None:
    """R2: by every endpoint the submitter is told who decides; their answer to a question counts."""
    model = Playing(says(call("ask_user", question="Which?")), says(WRITE))
    async with installation.open(model, policy=policy()) as server:
        sam = await server.person("sam", "submitter")
        bob = await server.person("bob", "reviewer")
        async with server.reviewing(sam) as mine, server.reviewing(bob) as theirs:
            assert (await mine.hear("snapshot"))["requests"] == (await theirs.hear("snapshot"))["requests"] == []
            task_id = await server.submit(token=sam)
            asked = (await mine.hear("question_opened"))["question"]
            answer = {"question_id": asked["question_id"], "answer": "a.lua"}
            assert (await server.ask("POST", f"/v1/tasks/{task_id}/answer", answer, token=sam)).status_code == 200
            await theirs.hear("question_opened")
            opened = await theirs.hear("question_closed", "request_opened")
            if opened["type"] == "question_closed":
                opened = await theirs.hear("request_opened")
            request = opened["request"]
            refused = await mine.decide(request["request_id"], action="approve")
            assert refused["code"] == "forbidden"
        async with server.reviewing(sam) as again:
            snapshot = await again.hear("snapshot")
            assert (snapshot["requests"], snapshot["questions"], snapshot["others"]) == ([], [], 1)
        one = {"call_id": request["tool_calls"][0]["call_id"]}
        answers = [
            await server.decide(request, "approve", token=sam),
            await server.ask("POST", request["approval_url"], {}, token=sam),
            await server.decide(request, decisions=[one | {"action": "approve"}], token=sam),
            await server.decide(request, decisions=[one | {"action": "edit", "args": WRITE["args"]}], token=sam),
            await server.decide(request, decisions=[one | {"action": "respond", "answer": "done"}], token=sam),
            await server.ask("POST", f"/v1/requests/{request['request_id']}/extend", {"seconds": 9000}, token=sam),
        ]
        assert [one.status_code for one in answers] == [403] * 6
        said = {answer.json()["error"]["remedy"] for answer in answers} | {refused["remedy"]}
        assert said == {"This is decided by a reviewer or an admin."}
        await waits(server, request)
        assert (await server.decide(request, "reject", token=sam)).status_code == 200
        assert (await server.ended(task_id))["status"] == "Canceled"


@pytest.mark.thinned(2)
@pytest.mark.parametrize("approvers", ["not_requester", "role:admin"])
async def test_r2_the_person_who_asked_answers_whoever_approves(installation: Installation, approvers: str) -> None:
    """R2: a question is no approval; the socket tells it to them, and their answer counts. Others do not answer it."""
    model = Playing(says(call("ask_user", question="Which?")), says(WRITE))
    async with installation.open(model, policy=policy(), approvers=approvers) as server:
        sam, sue = await server.person("sam", "submitter"), await server.person("sue", "submitter")
        async with server.reviewing(sam) as mine:
            await mine.hear("snapshot")
            task_id = await server.submit(token=sam)
            asked = (await mine.hear("question_opened"))["question"]
            answer = {"question_id": asked["question_id"], "answer": "a.lua"}
            assert (await server.ask("POST", f"/v1/tasks/{task_id}/answer", answer, token=sue)).status_code == 404
            assert (await server.ask("POST", f"/v1/tasks/{task_id}/answer", answer, token=sam)).status_code == 200
        request = await server.request(task_id)
        assert (await server.decide(request, "approve", token=sam)).status_code == 403


async def test_r2_a_reviewer_decides_their_own_and_no_other_reviewer_does(installation: Installation) -> None:
    """R2: with `requester` a reviewer or an admin decides their own task; others are told who does."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        bob, eve = await server.person("bob", "submitter", "reviewer"), await server.person("eve", "admin")
        task_id, request = await server.asked(token=bob)
        refused = await server.decide(request, "approve", token=eve)
        assert (refused.status_code, refused.json()["error"]["remedy"]) == (403, "This is decided by bob.")
        assert (await server.decide(request, "approve", token=bob)).status_code == 202
        await server.ended(task_id)


@pytest.mark.parametrize(
    ("approvers", "says_of_sam", "says_of_bob"),
    [
        (
            "requester",
            "sam may submit tasks; a reviewer or an admin decides what they ask.",
            "bob may submit tasks, decide what these and the tasks of submitters and programs ask and read the whole "
            "audit.",
        ),
        (
            "role:admin",
            "sam may submit tasks; somebody with the role admin decides what they ask.",
            "bob may submit tasks and read the whole audit; somebody with the role admin decides what they ask.",
        ),
    ],
)
async def test_r2_who_makes_a_token_is_told_what_it_may_do(
    installation: Installation, approvers: str, says_of_sam: str, says_of_bob: str
) -> None:
    """R2: one sentence, by the setting of the server that answers."""
    async with installation.open(Playing(), policy=policy(), approvers=approvers) as server:
        for name, roles, said in (("sam", ["submitter"], says_of_sam), ("bob", ["submitter", "reviewer"], says_of_bob)):
            made = await server.ask("POST", "/v1/tokens", {"kind": "person", "name": name, "roles": roles})
            assert made.json()["may"] == said


@pytest.mark.thinned(2)
@pytest.mark.parametrize("how", ["reject", "withdraw", "cancel"])
async def test_r2_whoever_may_not_approve_their_own_may_still_say_no(installation: Installation, how: str) -> None:
    """R2: with not_requester, self-approval is 403; self-reject, self-withdraw and self-cancel stay allowed."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), approvers="not_requester") as server:
        bob = await server.person("bob", "submitter", "reviewer")
        task_id, request = await server.asked(token=bob)
        answers = [await server.decide(request, "approve", token=bob)]
        for action, more in (("edit", {"args": WRITE["args"]}), ("respond", {"answer": "done"})):
            one = {"call_id": request["tool_calls"][0]["call_id"], "action": action, **more}
            answers.append(await server.decide(request, decisions=[one], token=bob))
        assert [one.status_code for one in answers] == [403] * 3
        await waits(server, request)
        path = {
            "reject": request["rejection_url"],
            "withdraw": f"/v1/requests/{request['request_id']}/withdraw",
            "cancel": f"/v1/tasks/{task_id}/cancel",
        }[how]
        assert (await server.ask("POST", path, {}, token=bob)).status_code == 200
        task = await server.ended(task_id)
        assert task["status"] == ("Completed" if how == "withdraw" else "Canceled")
        assert server.stub.disk.file("a.lua") == b"old\n"


async def test_r2_a_programs_task_counts_as_its_owners(installation: Installation) -> None:
    """R2: who holds a program's token is not the second pair of eyes; by default the owner is who made the token."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), approvers="not_requester") as server:
        bob, eve = await server.person("bob", "reviewer"), await server.person("eve", "reviewer")
        robot = await server.agent("robot", "submitter", owner="bob")
        task_id, request = await server.asked(token=robot)
        refused = await server.decide(request, "approve", token=bob)
        assert refused.status_code == 403
        told = refused.json()["error"]
        assert told["message"] == "bob may not decide for this task, because a program of theirs submitted it."
        assert told["remedy"] == "This is decided by a reviewer or an admin, but not bob."
        async with server.reviewing(bob) as mine, server.reviewing(eve) as theirs:
            assert (await mine.hear("snapshot"))["requests"] == []
            assert len((await theirs.hear("snapshot"))["requests"]) == 1
        assert (await server.decide(request, "approve", token=eve)).status_code == 202
        await server.ended(task_id)
        _, second = await server.asked(token=await server.agent("drone"))
        assert (await server.decide(second, "approve")).status_code == 403, "the admin made it"
        assert (await server.decide(second, "reject", token=server.admin)).status_code == 200
        listed = (await server.ask("GET", "/v1/tokens")).json()["tokens"]
        shown = {one["name"]: (one["owner"], one["roles"]) for one in listed if one["kind"] == "agent"}
        assert shown == {"robot": ("bob", ["submitter"]), "drone": ("admin", ["submitter"])}
        verified = (await server.ask("GET", "/v1/audit/verify")).json()
        assert verified["faults"] == []


async def test_r1_a_name_that_looks_like_another_is_refused(installation: Installation) -> None:
    """R1: names of people and programs are distinguished by reading; the same name is one more token of the same."""
    async with installation.open(Playing(), policy=policy()) as server:
        await server.person("rita", "reviewer")
        await server.person("rita", "reviewer")
        for kind in ("person", "agent"):
            for name, why in (
                ("rit\u0430", "two scripts"),
                ("r1ta", "looks like"),
                ("Rita", "looks like 'rita'"),
            ):
                body = {"kind": kind, "name": name, "roles": ["submitter"]}
                answer = await server.ask("POST", "/v1/tokens", body)
                assert (answer.status_code, why in answer.text) == (422, True), (name, answer.text)
        await server.agent("crossy")
        for kind, name in (("person", "crossy"), ("person", "Crossy"), ("agent", "rita"), ("person", "system")):
            answer = await server.ask("POST", "/v1/tokens", {"kind": kind, "name": name, "roles": ["submitter"]})
            assert (answer.status_code, "taken" in answer.text or "not free" in answer.text) == (422, True), name
        unknown = {"kind": "agent", "name": "robot", "owner": "nobody"}
        assert (await server.ask("POST", "/v1/tokens", unknown)).status_code == 422
        owned = {"kind": "person", "name": "sam", "roles": ["submitter"], "owner": "rita"}
        assert (await server.ask("POST", "/v1/tokens", owned)).status_code == 422


async def test_r1_a_program_ends_with_its_owner(installation: Installation) -> None:
    """R1: its tasks count as its owner's, and nobody owns it any more."""
    async with installation.open(Playing(), policy=policy()) as server:
        await server.person("suse", "submitter")
        hers, admins = await server.agent("crossy", owner="suse"), await server.agent("robot")
        assert (await server.ask("DELETE", "/v1/tokens/person/suse")).json() == {"revoked": 1}
        body = {"prompt": "fix my farm", "computers": ["3"]}
        assert (await server.ask("POST", "/v1/tasks", body, token=hers)).status_code == 401
        assert (await server.ask("POST", "/v1/tasks", body, token=admins)).status_code == 201
        revoked = await server.system_items("token_revoked")
        assert [one.fact.name for one in revoked] == ["crossy", "suse"]  # type: ignore[union-attr]


async def test_r2_a_second_token_has_the_rights_of_the_first(installation: Installation) -> None:
    """R2: a second token with other roles or another owner is refused, and one with the same is given."""
    async with installation.open(Playing(), policy=policy()) as server:
        await server.person("suse")

        async def add(kind: str, name: str, *roles: str, **more: Any) -> tuple[int, str]:
            body = {"kind": kind, "name": name, "roles": roles, **more}
            answer = await server.ask("POST", "/v1/tokens", body)
            return answer.status_code, answer.text

        assert (await add("person", "twice", "submitter"))[0] == 201
        assert (await add("agent", "robot", "submitter", owner="suse"))[0] == 201
        for kind, name, refused in (
            ("person", "twice", {"roles": ("admin",)}),
            ("person", "twice", {"roles": ("submitter", "reviewer")}),
            ("agent", "robot", {"roles": ()}),
            ("agent", "robot", {"roles": ("submitter",)}),
        ):
            status, text = await add(kind, name, *refused["roles"])
            assert (status, f"{name} has a token already, with the roles submitter" in text) == (422, True)
            assert f"people revoke {name}{' --agent' if kind == 'agent' else ''}` first" in text
        assert "and the owner suse" in text
        for kind, name, more in (("person", "twice", {}), ("agent", "robot", {"owner": "suse"})):
            assert (await add(kind, name, "submitter", **more))[0] == 201
            assert (await server.ask("DELETE", f"/v1/tokens/{kind}/{name}")).json() == {"revoked": 2}
        assert (await add("person", "twice", "admin"))[0] == 201


@pytest.mark.parametrize("approvers", ["requester", "role:submitter"])
async def test_r3_an_agent_never_decides(installation: Installation, approvers: str) -> None:
    """R3: its token opens no endpoint that decides, also on its own task and with the role; it gets no other role."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), approvers=approvers) as server:
        person = await server.person("rob")
        robot = await server.agent("robot", "submitter", owner="rob")
        _, request = await server.asked(token=person)
        call_id, request_id = request["tool_calls"][0]["call_id"], request["request_id"]
        named = {"requests": [{"request_id": request_id, "resume": {"action": "approve"}}]}
        each = {"decisions": [{"call_id": call_id, "action": "approve"}]}
        endpoints: list[tuple[str, dict[str, Any]]] = [
            (f"/v1/resume/{request_id}", {"action": "approve"}),
            (f"/v1/resume/{request_id}", each),
            (request["approval_url"], {}),
            (request["rejection_url"], {}),
            ("/v1/decisions", named),
            (f"/v1/requests/{request_id}/extend", {"seconds": 100_000}),
            (f"/v1/requests/{request_id}/withdraw", {}),
        ]
        for path, body in endpoints:
            answer = await server.ask("POST", path, body, token=robot)
            status = [one["http_status"] for one in answer.json().get("decisions", [])] or [answer.status_code]
            assert status == [403], (path, answer.text)
        with pytest.raises(InvalidStatus) as denied:
            async with server.reviewing(robot):
                pass
        assert denied.value.response.status_code == 401
        await waits(server, request)
        for role in ("reviewer", "admin"):
            made = await server.ask("POST", "/v1/tokens", {"kind": "agent", "name": "more", "roles": [role]})
            assert made.status_code == 422, role


async def test_r5_a_right_that_was_taken_away_meanwhile_is_gone(installation: Installation) -> None:
    """R5: between opening and deciding the role is revoked: 403 at both endpoints; the old token is worth nothing."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), approvers="role:reviewer") as server:
        bob, eve = await server.person("bob", "reviewer"), await server.person("eve", "reviewer")
        _, request = await server.asked()
        async with server.reviewing(bob) as reviewer:
            assert len((await reviewer.hear("snapshot"))["requests"]) == 1
            assert (await server.ask("DELETE", "/v1/tokens/person/bob")).status_code == 200
            with pytest.raises(ConnectionClosed):
                await reviewer.decide(request["request_id"], action="approve")
        async with server.reviewing(eve) as reviewer:
            assert len((await reviewer.hear("snapshot"))["requests"]) == 1
            # As another process on the same store does it: nobody tells the socket.
            assert await server.store.revoke_tokens("person", "eve") == 1
            failed = await reviewer.decide(request["request_id"], action="approve")
            assert (failed["type"], failed["code"]) == ("failed", "unauthenticated")
        assert (await server.decide(request, "approve", token=bob)).status_code == 401
        less = await server.person("bob", "viewer")
        assert (await server.decide(request, "approve", token=less)).status_code == 403
        async with server.reviewing(less) as reviewer:
            assert (await reviewer.hear("snapshot"))["requests"] == []
            failed = await reviewer.decide(request["request_id"], action="approve")
            assert (failed["type"], failed["code"]) == ("failed", "forbidden")
        await waits(server, request)


async def test_r6_a_reviewer_who_goes_away_takes_nothing_along(installation: Installation) -> None:
    """R6: the request stays pending, and another reviewer sees it and decides it."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), approvers="role:reviewer") as server:
        bob, eve = await server.person("bob", "reviewer"), await server.person("eve", "reviewer")
        task_id, request = await server.asked()
        async with server.reviewing(bob) as reviewer:
            (shown,) = (await reviewer.hear("snapshot"))["requests"]
            await reviewer.socket.send('{"type": "decide", "ref": "r", "request_id": ')
            reviewer.socket.transport.abort()
        await waits(server, request)
        async with server.reviewing(eve) as reviewer:
            (again,) = (await reviewer.hear("snapshot"))["requests"]
            assert again == shown
            done = await reviewer.decide(shown["request_id"], action="approve")
            assert done["type"] == "done"
        await server.ended(task_id)
        assert server.stub.disk.file("a.lua") == b"print('new')\n"


async def test_r7_a_reviewer_gets_a_snapshot_and_then_every_change(installation: Installation) -> None:
    """R7: after each connect all that waits, then what opens and closes, numbered from 1 without a gap."""
    model = Playing(says(WRITE), for_prompt={"b": [says(SECOND)], "c": [says(THIRD)]})
    async with installation.open(model, policy=policy()) as server:
        _, first = await server.asked()
        async with server.reviewing() as reviewer:
            assert [one["request_id"] for one in (await reviewer.hear("snapshot"))["requests"]] == [first["request_id"]]
        # Nobody is connected while one is closed and two are opened.
        await server.decide(first, "reject")
        _, second = await server.asked(prompt="b")
        _, third = await server.asked(prompt="c")
        async with server.reviewing() as reviewer:
            snapshot = await reviewer.hear("snapshot")
            assert [one["request_id"] for one in snapshot["requests"]] == [second["request_id"], third["request_id"]]
            assert snapshot["seq"] == 1
            await server.decide(second, "reject")
            closed = await reviewer.hear("request_closed")
            assert (closed["request_id"], closed["how"]) == (second["request_id"], "rejected by admin")
            _, fourth = await server.asked()
            opened = await reviewer.hear("request_opened")
            assert opened["request"]["request_id"] == fourth["request_id"]
            assert opened["request"]["action_digest"] == fourth["action_digest"]
            assert reviewer.seq == 3


async def test_r9_a_link_decides_nothing_and_opens_nothing_without_a_login(installation: Installation) -> None:
    """R9: GET never decides; without a token the request is not shown, and what a link carries is no authority."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        _, request = await server.asked()
        links = [request["approval_url"], request["rejection_url"], f"/v1/resume/{request['request_id']}"]
        for link in links:
            for query in ("", f"?token={server.admin}&action=approve"):
                for method in ("GET", "HEAD"):
                    looked = await server.ask(method, link + query)
                    assert looked.status_code == 405, (method, link, looked.text)
                sent: httpx2.Response = await server.http.post(link + query, json={})
                assert sent.status_code == 401, (link, sent.text)
        looked = await server.http.get(f"/v1/requests/{request['request_id']}?token={server.admin}")
        assert looked.status_code == 401
        assert WRITE["args"]["content"] not in json.dumps(looked.json())
        await waits(server, request)
