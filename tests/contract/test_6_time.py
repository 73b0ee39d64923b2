"""Timeouts and reminders: silence never approves, and is never taken for a no."""

import asyncio
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from orchestrator.core.errors import OrchestratorError
from orchestrator.testing import ManualClock
from tests.contract.parts import LOOKING, WRITE, Gated, Playing, policy, rule
from tests.harness.support import call, final, says
from tests.harness.whole_server import Installation
from tests.waiting import within

SHORT = {"expires_s": {"low": 60, "medium": 60, "high": 60, "critical": 60}}


def _seconds(request: dict[str, Any]) -> float:
    """How long people have for a request, as it says."""
    made, ends = (datetime.fromisoformat(request[name]) for name in ("created_at", "expires_at"))
    return (ends - made).total_seconds()


# -- O1 ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("risk", "seconds"), [("medium", 500), ("high", 50), ("critical", 5)])
async def test_o1_each_request_has_a_deadline_by_its_risk(installation: Installation, risk: str, seconds: int) -> None:
    """How long people have is what the policy says for the risk; what nobody answered did not run."""
    requests = {"expires_s": {"medium": 500, "high": 50, "critical": 5}, "on_timeout": "continue"}
    changing = rule("changing", "ask", ["cc_write"], risk=risk)
    async with installation.open(
        Playing(says(WRITE)), policy=policy(LOOKING, changing, requests=requests), clock=ManualClock()
    ) as server:
        task_id, request = await server.asked()
        assert (request["risk"], _seconds(request)) == (risk, seconds)
        server.advance(seconds - 1)
        assert (await server.task(task_id))["status"] == "Paused"
        server.advance(1)
        await server.ended(task_id)
        assert server.stub.disk.file("a.lua") == b"old\n"
        assert not await server.items(task_id, "tool_started", "decision_recorded")


@pytest.mark.parametrize("requests", [{"on_timeout": "approve"}, {"approve_on_timeout": True}])
async def test_o1_nothing_approves_on_timeout(installation: Installation, requests: dict[str, Any]) -> None:
    """There is no such setting: a policy that names one is refused, and nothing starts."""
    with pytest.raises(OrchestratorError, match="timeout"):
        async with installation.open(Playing(), policy=policy(requests=requests)):
            pass


# -- O2, O3 --------------------------------------------------------------------------------


async def test_o2_expiry_is_nobodys_answer(installation: Installation) -> None:
    """It is recorded as `expired` by the system; the model hears that nobody answered, not that a person said no."""
    model = Playing(says(WRITE))
    requests = {**SHORT, "on_timeout": "continue"}
    async with installation.open(model, policy=policy(requests=requests), clock=ManualClock()) as server:
        task_id, request = await server.asked()
        server.advance(60)
        await server.ended(task_id)
        (ended,) = await server.items(task_id, "request_ended")
        assert (ended.actor.kind, ended.fact.end) == ("system", "expired")  # type: ignore[union-attr]
        assert "Nobody answered" in model.told
        assert "denied" not in model.told
        assert "A person rejected" not in model.told
        late = await server.decide(request, "approve")
        assert (late.status_code, late.json()["error"]["code"]) == (409, "expired")


@pytest.mark.parametrize(
    ("then", "status", "asked"), [("continue", "Failed", 2), ("cancel", "Canceled", 1), ("stay_paused", "Paused", 1)]
)
async def test_o3_what_expiry_does_to_the_task_is_the_policys(
    installation: Installation, then: str, status: str, asked: int
) -> None:
    """The model is told and goes on, or the task ends, or it waits until somebody asks again."""
    model = Playing(says(WRITE), final("cannot", success=False))
    requests = {**SHORT, "on_timeout": then}
    async with installation.open(model, policy=policy(requests=requests), clock=ManualClock()) as server:
        task_id, request = await server.asked()
        assert request["on_timeout"] == then
        server.advance(60)
        ended = await server.item(task_id, "request_ended")
        assert ended["fact"]["then"] == then
        if then != "stay_paused":
            await server.ended(task_id)
        task = await server.task(task_id)
        assert (task["status"], len(model.asked)) == (status, asked)
        if then == "stay_paused":
            assert task["lapsed_request"] == request["request_id"]
            renewed = await server.ask("POST", f"/v1/requests/{request['request_id']}/renew")
            assert renewed.status_code == 200
            again = await server.request(task_id, after=ended["version"])
            assert again["request_id"] != request["request_id"]
            await server.decide(again, "approve")
            await server.ended(task_id)
        written = b"print('new')\n" if then == "stay_paused" else b"old\n"
        assert server.stub.disk.file("a.lua") == written


# -- O4 ----------------------------------------------------------------------------------


async def test_o4_a_reminder_comes_before_the_end_and_people_may_take_more_time(installation: Installation) -> None:
    """Who reviews is reminded before the deadline; an extension moves it; both are items, the second by its person."""
    requests = {**SHORT, "remind_before_s": 20}
    async with (
        installation.open(Playing(says(WRITE)), policy=policy(requests=requests), clock=ManualClock()) as server,
        server.reviewing() as reviewer,
    ):
        await reviewer.hear("snapshot")
        task_id, request = await server.asked()
        await reviewer.hear("request_opened")
        server.advance(40)
        reminded = await server.item(task_id, "review_noted", where=lambda fact: fact["what"] == "reminded")
        assert reminded["actor"]["kind"] == "system"
        assert datetime.fromisoformat(request["expires_at"]) - datetime.fromisoformat(reminded["at"]) == timedelta(
            seconds=20
        )
        heard = await reviewer.hear("request_reminded")
        assert heard["request_id"] == request["request_id"]
        longer = await server.ask("POST", f"/v1/requests/{request['request_id']}/extend", {"seconds": 300})
        assert longer.status_code == 200
        extended = await server.item(task_id, "review_noted", where=lambda fact: fact["what"] == "extended")
        assert (extended["actor"]["kind"], extended["actor"]["id"]) == ("person", "admin")
        assert extended["version"] > reminded["version"]
        server.advance(100)
        assert (await server.decide(request, "approve")).status_code == 202
        await server.ended(task_id)
        assert server.stub.disk.file("a.lua") == b"print('new')\n"


# -- O5 ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("down", "status"), [(59, "Paused"), (60, "Completed")])
async def test_o5_deadlines_outlive_a_restart(kept_installation: Installation, down: int, status: str) -> None:
    """A deadline is a stored time in UTC: one that passed while nothing ran has its effect at the start.

    On SQLite only, as the restart needs a file.
    """
    requests = {**SHORT, "on_timeout": "continue"}
    clock = ManualClock()
    async with kept_installation.open(Playing(says(WRITE)), policy=policy(requests=requests), clock=clock) as server:
        task_id, request = await server.asked()
        assert request["expires_at"].endswith("Z")
    clock.advance(down)
    async with kept_installation.open(Playing(says(WRITE))) as server:
        if status == "Completed":
            await server.ended(task_id)
            assert not await server.items(task_id, "decision_recorded")
        else:
            assert (await server.request(task_id))["expires_at"] == request["expires_at"]
            assert (await server.decide(request, "approve")).status_code == 202
            await server.ended(task_id)
        assert (await server.task(task_id))["status"] == "Completed"


async def test_o5_an_approval_that_ended_while_nothing_ran_does_not_run_late(kept_installation: Installation) -> None:
    """Approved with the computer away, and started again after its time: it is shown anew.

    On SQLite only, as the restart needs a file.
    """
    clock = ManualClock()
    async with kept_installation.open(Playing(says(WRITE)), policy=policy(), clock=clock) as server:
        task_id, request = await server.asked()
        await kept_installation.hang_up()
        await server.decide(request, "approve")
    clock.advance(900)
    async with kept_installation.open(Playing(says(WRITE))) as server:
        ended = await server.item(task_id, "request_ended")
        assert (ended["fact"]["end"], ended["fact"]["code"]) == ("expired", "approval_expired")
        again = await server.request(task_id, after=ended["version"])
        assert again["request_id"] != request["request_id"]
        assert server.stub.disk.file("a.lua") == b"old\n"


# -- O6 ----------------------------------------------------------------------------------


async def test_o6_waiting_for_a_person_costs_the_task_nothing(installation: Installation) -> None:
    """Hours of waiting are not counted against its time, its tokens or its steps."""
    ask = call("ask_user", question="Which?")
    limits = {"max_wall_s": 30, "max_tokens": 20_000, "max_steps": 3}
    async with installation.open(Playing(says(WRITE), says(ask)), policy=policy(), clock=ManualClock()) as server:
        task_id, request = await server.asked(**limits)
        server.advance(20_000)
        assert (await server.decide(request, "approve")).status_code == 202
        question = (await server.until(task_id, "question_asked"))["question"]
        server.advance(20_000)
        body = {"question_id": question["question_id"], "answer": "left"}
        assert (await server.ask("POST", f"/v1/tasks/{task_id}/answer", body)).status_code == 200
        task = await server.ended(task_id)
        assert (task["status"], task["steps"], task["tokens"]) == ("Completed", 3, 0)
        assert task["active_s"] < 30


# -- O7 ----------------------------------------------------------------------------------


async def test_o7_at_the_very_deadline_it_is_too_late(installation: Installation) -> None:
    """At the deadline itself a decision is refused, whether or not the expiry was recorded."""
    async with installation.open(Playing(says(WRITE)), policy=policy(requests=SHORT), clock=ManualClock()) as server:
        task_id, request = await server.asked()
        assert installation.clock is not None
        installation.clock.advance(60)
        late = await server.decide(request, "approve")
        assert (late.status_code, late.json()["error"]["code"]) == (409, "expired")
        assert not await server.items(task_id, "decision_recorded")


@pytest.mark.parametrize("winner", ["decision_recorded", "request_ended"])
async def test_o7_of_decision_and_expiry_one_wins(installation: Installation, winner: str) -> None:
    """Both are about to be recorded at the same version: the first that is counts, and the other is decided anew."""
    loser = "request_ended" if winner == "decision_recorded" else "decision_recorded"
    gates: list[Gated] = []

    def gated(store: Any) -> Any:
        gates.append(Gated(store, winner, loser))
        return cast("Any", gates[0])

    async with installation.open(
        Playing(says(WRITE)), policy=policy(requests=SHORT), clock=ManualClock(), wrap_store=gated
    ) as server:
        (gate,) = gates
        task_id, request = await server.asked()
        deciding = asyncio.create_task(server.decide(request, "approve"))
        await within(gate.reached["decision_recorded"].wait())
        server.advance(60)
        await within(gate.reached["request_ended"].wait())
        gate.go[winner].set()
        await server.item(task_id, winner)
        gate.go[loser].set()
        answer = await deciding
        if winner == "decision_recorded":
            assert answer.status_code == 202
            await server.ended(task_id)
            assert server.stub.disk.file("a.lua") == b"print('new')\n"
        else:
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "expired")
            assert server.stub.disk.file("a.lua") == b"old\n"
        assert not await server.items(task_id, loser)
