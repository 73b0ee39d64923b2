"""Grants: never wider than what was shown, never for ever, never over a no."""

from typing import Any

import pytest

from orchestrator.core.approval.grants import MAX_SESSION_S, SESSION_S
from orchestrator.testing import ManualClock
from tests.contract.parts import EVERYTHING, LOOKING, RUNNING, WRITE, Gated, Playing, calls_of, changes_in, policy, rule
from tests.harness.support import call, says
from tests.harness.whole_server import Installation, Opened
from tests.waiting import within

OTHER = call("cc_write", path="a.lua", content="print('other')\n")
SIBLING = call("cc_write", path="b.lua", content="print('new')\n")
RUN = call("cc_run_program", path="hello.lua")


async def _granted(server: Opened, request: dict[str, Any], place: int = 0, **spec: Any) -> dict[str, Any]:
    """Approve a call of a request and remember it; the grant."""
    one = {"call_id": request["tool_calls"][place]["call_id"], "action": "approve", "remember": spec}
    answer = await server.decide(request, decisions=[one])
    assert answer.status_code == 202, answer.text
    return (await _grants(server))[-1]


async def _grants(server: Opened) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await server.ask("GET", "/v1/grants")).json()["grants"]
    return listed


async def _asks_again(server: Opened, task_id: str) -> dict[str, Any]:
    """The second request of a task."""
    (first, *_) = await server.items(task_id, "review_requested")
    return await server.request(task_id, after=first.version)


async def _runs_unasked(server: Opened, task_id: str, grant: dict[str, Any], writes: int = 2) -> None:
    """The task ends without a second request, and its last change ran under the grant."""
    assert (await server.ended(task_id))["status"] == "Completed"
    started = await server.items(task_id, "tool_started")
    assert len(started) == writes
    assert started[-1].fact.grant_id == grant["grant_id"]  # type: ignore[union-attr]
    assert len(await server.items(task_id, "review_requested")) == 1


# -- G1 ----------------------------------------------------------------------------------


async def test_g1_once_is_once(installation: Installation) -> None:
    """What is approved without more is approved this once: the same call is asked about again."""
    async with installation.open(Playing(says(WRITE), says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        await server.decide(request, "approve")
        await _asks_again(server, task_id)
        assert await _grants(server) == []


@pytest.mark.parametrize(("second", "asks"), [(WRITE, False), (OTHER, True)], ids=["same", "another"])
async def test_g1_this_very_call_for_the_task(installation: Installation, second: dict[str, Any], asks: bool) -> None:
    """Scope `call`: the same digest again in this task, and nothing else."""
    async with installation.open(Playing(says(WRITE), says(second)), policy=policy()) as server:
        task_id, request = await server.asked()
        grant = await _granted(server, request, scope="call")
        if asks:
            await _asks_again(server, task_id)
        else:
            await _runs_unasked(server, task_id, grant)
        elsewhere = await server.submit(session_id=request["session_id"])
        assert (await server.request(elsewhere))["task_id"] == elsewhere


async def test_g1_a_pattern_for_the_task(installation: Installation) -> None:
    """Scope `task`: calls of the tool that fit the pattern, in this task; another task asks."""
    async with installation.open(Playing(says(WRITE), says(OTHER)), policy=policy()) as server:
        task_id, request = await server.asked()
        grant = await _granted(server, request, scope="task", any_content=True)
        await _runs_unasked(server, task_id, grant)
        elsewhere = await server.submit(session_id=request["session_id"])
        assert (await server.request(elsewhere))["task_id"] == elsewhere


async def test_g1_a_pattern_for_the_session_ends_with_time(installation: Installation) -> None:
    """Scope `session`: other tasks of the session too, until it expires; another session asks."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), clock=ManualClock()) as server:
        task_id, request = await server.asked(session_id="evening")
        grant = await _granted(server, request, scope="session", expires_s=3600)
        await server.ended(task_id)
        again = await server.submit(session_id="evening")
        assert (await server.ended(again))["status"] == "Completed"
        assert not await server.items(again, "review_requested")
        elsewhere = await server.submit(session_id="another")
        stopped = await server.request(elsewhere)
        await server.decide(stopped, "reject")
        server.advance(3600)
        late = await server.submit(session_id="evening")
        await server.request(late)
        (listed,) = await _grants(server)
        assert (listed["grant_id"], listed["usable"]) == (grant["grant_id"], False)


async def test_g1_nothing_is_for_ever(installation: Installation) -> None:
    """A prompt takes no scope without an end: no such word, no session of more than a week, and one ends by itself."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), clock=ManualClock()) as server:
        _, request = await server.asked()
        (shown,) = request["tool_calls"]
        for spec in ({"scope": "forever"}, {"scope": "session", "expires_s": MAX_SESSION_S + 1}, {"scope": "policy"}):
            one = {"call_id": shown["call_id"], "action": "approve", "remember": spec}
            assert (await server.decide(request, decisions=[one])).status_code == 422
        grant = await _granted(server, request, scope="session")
        assert installation.clock is not None
        installation.clock.advance(SESSION_S)
        assert (await _grants(server))[0]["usable"] is False
        assert grant["expires_at"] is not None


# -- G2, G3 --------------------------------------------------------------------------------


async def test_g2_a_grant_is_shown_first_and_is_no_wider_than_its_call(installation: Installation) -> None:
    """The request shows the paths it would cover; unwidened it covers those, with that text, on that computer."""
    other = call("cc_write", path="b.lua", content="print('new')\n")
    async with installation.open(Playing(says(WRITE), says(other)), policy=policy()) as server:
        task_id, request = await server.asked()
        assert request["tool_calls"][0]["grant_paths"] == ["a.lua"]
        grant = await _granted(server, request, scope="task")
        assert (grant["tool"], grant["computer"]) == ("cc_write", "3")
        assert (grant["paths"], grant["any_content"]) == (["a.lua"], False)
        assert grant["args"] == {"content": "print('new')\n"}
        again = await _asks_again(server, task_id)
        assert again["tool_calls"][0]["args"]["path"] == "b.lua"


async def test_g2_unwidened_another_text_is_asked_about(installation: Installation) -> None:
    """The same path with another text is not what was shown."""
    async with installation.open(Playing(says(WRITE), says(OTHER)), policy=policy()) as server:
        task_id, request = await server.asked()
        await _granted(server, request, scope="task")
        await _asks_again(server, task_id)


async def test_g3_a_command_is_granted_with_all_its_parts(installation: Installation) -> None:
    """A grant of a command line covers that line: other words after the program are asked about."""
    first, more = call("cc_shell", command="hello one"), call("cc_shell", command="hello one two")
    async with installation.open(Playing(says(first), says(first), says(more)), policy=policy()) as server:
        task_id, request = await server.asked()
        grant = await _granted(server, request, scope="task")
        assert grant["args"] == {"command": "hello one"}
        again = await _asks_again(server, task_id)
        assert again["tool_calls"][0]["args"] == {"command": "hello one two"}
        assert len(await server.items(task_id, "tool_started")) == 2


# -- G4, G5 --------------------------------------------------------------------------------


async def test_g4_siblings_that_match_are_released_and_that_is_recorded(installation: Installation) -> None:
    """Of the calls that wait beside it, those that the grant covers are approved by it, under its id; others wait."""
    third = call("cc_write", path="c.lua", content="print('new')\n")
    async with installation.open(Playing(says(WRITE, SIBLING, third)), policy=policy()) as server:
        task_id, request = await server.asked()
        grant = await _granted(server, request, scope="task", paths=["a.lua", "b.lua"])
        (decided,) = await server.items(task_id, "decision_recorded")
        ids = [one["call_id"] for one in request["tool_calls"]]
        by = {one.call_id: one.grant_id for one in decided.fact.decisions}  # type: ignore[union-attr]
        assert by == {ids[0]: None, ids[1]: grant["grant_id"]}
        left = (await server.ask("GET", f"/v1/requests/{request['request_id']}")).json()
        assert [one["call_id"] for one in left["tool_calls"]] == ids[2:]
        await server.decide(left, "approve")
        await server.ended(task_id)
        started = await server.items(task_id, "tool_started")
        assert [one.fact.grant_id for one in started] == [None, grant["grant_id"], None]  # type: ignore[union-attr]


@pytest.mark.parametrize("stricter", ["deny", "critical"])
async def test_g5_a_no_and_what_is_critical_ignore_grants(installation: Installation, stricter: str) -> None:
    """A call that a grant covers is denied where a rule says so, and asked about at critical risk."""
    model = Playing(says(RUN), says(WRITE), says(WRITE))
    async with installation.open(model, policy=policy()) as server:
        task_id, request = await server.asked()
        await server.decide(request, "approve")
        second = await _asks_again(server, task_id)
        await _granted(server, second, scope="session")
        await server.ended(task_id)
        no = rule("no", "deny", ["cc_write"], reason="Not here.")
        grave = rule("changing", "ask", ["cc_write"], risk="critical")
        await server.change_policy(policy(LOOKING, RUNNING, no if stricter == "deny" else grave))
        calls = calls_of(server.stub)
        model.script = [says(WRITE)]
        again = await server.submit(session_id=request["session_id"])
        if stricter == "deny":
            await server.ended(again)
            assert "Not here." in model.told
        else:
            asked = await server.request(again)
            assert asked["risk"] == "critical"
            one = {"call_id": asked["tool_calls"][0]["call_id"], "action": "approve", "remember": {"scope": "task"}}
            assert (await server.decide(asked, decisions=[one])).status_code == 409
        assert changes_in(calls) == []


@pytest.mark.parametrize("how", ["risk", "path", "argument"])
async def test_g5_a_grant_releases_no_more_than_it_was_given_at(installation: Installation, how: str) -> None:
    """A pattern does not cover a higher risk, nor a path that a rule names which did not match the first call."""
    guard = {
        "risk": rule("grave", "ask", ["cc_write"], risk="high", args=[{"pointer": "/content", "regex": "new b"}]),
        "path": rule("guarded", "ask", ["cc_write"], paths=["b*"]),
        "argument": rule("guarded", "ask", ["cc_write"], args=[{"pointer": "/path", "regex": "b.lua"}]),
    }[how]
    second = call("cc_write", path="b.lua", content="print('new b')\n")
    model = Playing(says(WRITE), says(second), says(call("cc_write", path="c.lua", content="print('c')\n")))
    async with installation.open(model, policy=policy(*EVERYTHING, guard)) as server:
        task_id, request = await server.asked()
        grant = await _granted(server, request, scope="task", paths=["**"], any_content=True)
        again = await _asks_again(server, task_id)
        assert again["tool_calls"][0]["args"] == second["args"]
        await server.decide(again, "approve")
        await server.ended(task_id)
        started = await server.items(task_id, "tool_started")
        assert [one.fact.grant_id for one in started] == [None, None, grant["grant_id"]]  # type: ignore[union-attr]


# -- G6 ----------------------------------------------------------------------------------


async def test_g6_a_grant_outlives_a_restart(kept_installation: Installation) -> None:
    """It is listed after a restart, and stands in. On SQLite only, as the restart needs a file."""
    async with kept_installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked(session_id="evening")
        grant = await _granted(server, request, scope="session")
        await server.ended(task_id)
    async with kept_installation.open(Playing(says(WRITE))) as server:
        (listed,) = await _grants(server)
        assert (listed["grant_id"], listed["usable"], listed["uses"]) == (grant["grant_id"], True, 0)
        again = await server.submit(session_id="evening")
        assert (await server.ended(again))["status"] == "Completed"
        assert (await _grants(server))[0]["uses"] == 1


async def test_g6_a_revoked_grant_stands_in_no_more(installation: Installation) -> None:
    """Revoked after it stood in and before the call started: the call does not run, and a person is asked."""
    gates: list[Gated] = []

    def gated(store: Any) -> Any:
        gates.append(Gated(store, "tool_started"))
        return gates[0]

    async with installation.open(Playing(says(WRITE)), policy=policy(), wrap_store=gated) as server:
        (gate,) = gates
        gate.go["tool_started"].set()
        task_id, request = await server.asked(session_id="evening")
        grant = await _granted(server, request, scope="session")
        await server.ended(task_id)
        gate.go["tool_started"].clear()
        gate.reached["tool_started"].clear()
        calls = calls_of(server.stub)
        again = await server.submit(session_id="evening")
        await within(gate.reached["tool_started"].wait())
        (used,) = await server.items(again, "review_noted")
        assert used.fact.grant_id == grant["grant_id"]  # type: ignore[union-attr]
        assert (await server.ask("DELETE", f"/v1/grants/{grant['grant_id']}")).json()["revoked"] is True
        gate.go["tool_started"].set()
        await server.request(again)
        (ended,) = await server.items(again, "request_ended")
        assert ended.fact.code == "grant_void"  # type: ignore[union-attr]
        assert changes_in(calls) == []
        (revoked,) = await server.system_items("grant_revoked")
        assert revoked.fact.grant_id == grant["grant_id"]  # type: ignore[union-attr]
        (listed,) = await _grants(server)
        assert (listed["revoked"], listed["usable"]) == (True, False)


# -- G7, G8 --------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", [False, True], ids=["same", "changed"])
async def test_g7_a_grant_of_a_program_is_of_its_bytes(installation: Installation, *, changed: bool) -> None:
    """As long as the file stays the same it runs unasked; with other bytes it is asked about."""
    model = Playing(says(RUN))
    async with installation.open(model, policy=policy()) as server:
        task_id, request = await server.asked(session_id="evening")
        await _granted(server, request, scope="session")
        await server.ended(task_id)
        if changed:
            server.stub.disk.put("hello.lua", b"print('other')\n")
        again = await server.submit(session_id="evening")
        if changed:
            await server.request(again)
            assert not await server.items(again, "tool_started")
        else:
            await server.ended(again)
            assert not await server.items(again, "review_requested")


async def test_g8_a_grant_may_be_for_so_many_uses(installation: Installation) -> None:
    """With two uses the third call is asked about."""
    async with installation.open(Playing(*[says(WRITE)] * 4), policy=policy()) as server:
        task_id, request = await server.asked()
        await _granted(server, request, scope="call", max_uses=2)
        await _asks_again(server, task_id)
        assert len(await server.items(task_id, "tool_started")) == 3
        (listed,) = await _grants(server)
        assert (listed["uses"], listed["usable"]) == (2, False)


# -- the giver ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "then", ["revoked", "revoked, and a submitter now", "revoked, and a reviewer now", "still a reviewer"]
)
async def test_a_grant_stands_only_while_its_giver_may_decide(installation: Installation, then: str) -> None:
    """A reviewer remembered an approval for a submitter's session; what became of the reviewer is asked at each use."""
    async with installation.open(Playing(says(WRITE), for_prompt={"again": [says(WRITE)]}), policy=policy()) as server:
        sam, rob = await server.person("sam", "submitter"), await server.person("rob", "reviewer")
        task_id = await server.submit(token=sam)
        request = await server.request(task_id)
        one = {"call_id": request["tool_calls"][0]["call_id"], "action": "approve", "remember": {"scope": "session"}}
        assert (await server.decide(request, decisions=[one], token=rob)).status_code == 202
        await server.ended(task_id)
        server.stub.disk.put("a.lua", b"old\n")
        if then.startswith("revoked"):
            assert (await server.ask("DELETE", "/v1/tokens/person/rob")).status_code == 200
        if then.endswith("submitter now"):
            await server.person("rob", "submitter")
        if then.endswith("reviewer now"):
            await server.person("rob", "reviewer")
        second = await server.submit(prompt="again", session_id=request["session_id"], token=sam)
        if then == "still a reviewer":
            await server.ended(second)
            assert not await server.items(second, "review_requested")
        else:
            assert (await server.request(second))["task_id"] == second
            assert not await server.items(second, "tool_started")


@pytest.mark.parametrize("approvers", ["requester", "not_requester"])
async def test_a_grant_for_ones_own_task_ends_when_four_eyes_are_set(
    kept_installation: Installation, approvers: str
) -> None:
    """An admin remembered their own approval for the session; after a restart the setting decides whether it counts."""
    model = Playing(says(WRITE), for_prompt={"again": [says(WRITE)]})
    async with kept_installation.open(model, policy=policy()) as server:
        task_id, request = await server.asked(session_id="evening")
        await _granted(server, request, scope="session", any_content=True)
        await server.ended(task_id)
    async with kept_installation.open(model, approvers=approvers) as server:
        server.stub.disk.put("a.lua", b"old\n")
        second = await server.submit(prompt="again", session_id="evening")
        if approvers == "requester":
            await server.ended(second)
            assert not await server.items(second, "review_requested")
        else:
            refused = await server.decide(await server.request(second), "approve")
            assert (refused.status_code, refused.json()["error"]["message"]) == (
                403,
                "admin may not decide for this task, because they submitted it.",
            )
            assert "but not admin" in refused.json()["error"]["remedy"]
            assert not await server.items(second, "tool_started")


async def test_a_rule_that_came_later_asks_although_a_grant_stands(installation: Installation) -> None:
    """By a computer, at the same risk: the grant was given without it."""
    async with installation.open(Playing(says(WRITE), for_prompt={"again": [says(WRITE)]}), policy=policy()) as server:
        task_id, request = await server.asked()
        await _granted(server, request, scope="session", any_content=True)
        await server.ended(task_id)
        later = rule("this one", "ask", ["cc_write"], computers=["3"], reason="Look at it.")
        await server.change_policy(policy(*EVERYTHING, later))
        second = await server.submit(prompt="again", session_id=request["session_id"])
        (asked,) = (await server.request(second))["tool_calls"]
        assert "this one" in asked["evaluation"]["matched_rules"]
