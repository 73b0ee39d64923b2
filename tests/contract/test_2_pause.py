"""Pause and persist: what a task that waits for a person is, holds, and survives."""

import asyncio
import contextlib
import os
import re
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from websockets.exceptions import WebSocketException

from orchestrator import CCAgentDeps, HitlInterventionRequired, TaskStatus, execute_task_with_agent
from orchestrator.adapters.store import open_store
from orchestrator.core.errors import Conflict, NewerSchema
from orchestrator.core.ports import Store
from orchestrator.core.task.facts import CancelRequested, RequestId
from orchestrator.core.task.items import SYSTEM
from orchestrator.testing import ManualClock
from orchestrator.testing.stub_computer import StubComputer
from tests import TESTS
from tests.contract.parts import LOOKING, WRITE, Playing, calls_of, changes_in, policy, rule
from tests.harness.processes import start_server
from tests.harness.support import call, says, stubs_connected
from tests.harness.whole_server import FILES, Installation, reviewing
from tests.waiting import HANG_S, within

READ = call("cc_read", path="b.lua")
OTHER = call("cc_write", path="b.lua", content="print('allowed')\n")
DELETE = call("cc_delete", path="hello.lua")
OLD_STORE = TESTS / "golden" / "store" / "schema_7.sql"


def siblings(mode: str | None = None) -> str:
    """A policy by which b.lua may be written unseen, and nothing else; None: it does not say what siblings do."""
    return policy(
        LOOKING,
        rule("a", "ask", ["cc_write", "cc_delete"], paths=["a.lua", "hello.lua"]),
        rule("b", "allow", ["cc_write"], paths=["b.lua"]),
        requests={"siblings": mode} if mode else None,
    )


class Watched:
    """A store that tells, before each append, which kinds of items it is about to write."""

    def __init__(self, store: Store, told: Callable[[list[str]], None]) -> None:
        self._store = store
        self._told = told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, task_id: Any, version: int, drafts: Any, **more: Any) -> Any:
        self._told([one.fact.kind for one in drafts])
        return await self._store.append(task_id, version, drafts, **more)


# -- the pause ---------------------------------------------------------------------------


async def test_s1_the_pause_carries_all_calls_of_the_step(installation: Installation) -> None:
    """S1: HitlInterventionRequired holds every call of a step of which one asks, and the task is Paused."""
    step = says(READ, WRITE, DELETE)
    tools = ["cc_read", "cc_write", "cc_delete"]
    with pytest.raises(HitlInterventionRequired) as raised:
        await execute_task_with_agent("fix it", CCAgentDeps(mode="stub"), model=Playing(step))
    assert [one.function_name for one in raised.value.function_calls] == tools
    assert raised.value.task is not None
    assert raised.value.task.status is TaskStatus.PAUSED
    async with installation.open(Playing(step), policy=policy()) as server:
        task_id, request = await server.asked()
        task = await server.task(task_id)
        assert task["status"] == "Paused"
        assert [one["tool"] for one in task["calls"]] == tools
        assert [one["tool"] for one in request["tool_calls"]] == tools[1:]
        assert [one["tool"] for one in request["context"]] == tools[:1]


async def test_s2_the_step_is_durable_before_anything_of_it_runs(installation: Installation) -> None:
    """S2: state, history and every call are written in one transaction, and only then a call is sent."""
    written: list[tuple[list[str], int]] = []

    def told(kinds: list[str]) -> None:
        written.append((kinds, installation.stubs["3"].calls.highest if "3" in installation.stubs else 0))

    async with installation.open(
        Playing(says(READ, OTHER)),
        policy=siblings(),
        wrap_store=lambda store: cast("Store", Watched(store, told)),
    ) as server:
        heard_before = server.stub.calls.highest
        task_id = await server.submit()
        await server.ended(task_id)
        (first,) = [one for one in written if "calls_proposed" in one[0]]
        assert "model_replied" in first[0]
        (proposed,) = await server.facts(task_id, "calls_proposed")
        assert len(proposed.calls) == len(proposed.evaluations) == 2
        assert first[1] == heard_before, "a call was sent before the step was written"
        assert server.stub.calls.highest > heard_before
        at = [version for version, one in enumerate(await server.items(task_id)) if one.fact.kind == "tool_started"]
        kinds = [one.fact.kind for one in await server.items(task_id)]
        assert kinds.index("calls_proposed") < at[0]


@pytest.mark.parametrize(
    ("mode", "read", "written"), [(None, True, False), ("hold", False, False), ("run_safe", True, True)]
)
async def test_s3_what_the_siblings_of_a_call_that_asks_do(
    installation: Installation, mode: str | None, read: bool, written: bool
) -> None:
    """S3: by default reads run at once and changes wait; `hold` and `run_safe` are settings; the mode is recorded."""
    async with installation.open(Playing(says(READ, OTHER, WRITE)), policy=siblings(mode)) as server:
        task_id, request = await server.asked()
        states = [one["state"] for one in (await server.task(task_id))["calls"]]
        assert states == ["executed" if read else "allowed", "executed" if written else "allowed", "pending"]
        assert server.stub.disk.file("b.lua") == (b"print('allowed')\n" if written else FILES["b.lua"])
        (proposed,) = await server.facts(task_id, "calls_proposed")
        assert proposed.siblings == (mode or "reads")
        await server.decide(request, "approve")
        await server.ended(task_id)
        assert server.stub.disk.file("b.lua") == b"print('allowed')\n"


async def test_s4_a_sibling_that_ran_is_not_run_again_and_is_shown(installation: Installation) -> None:
    """S4: its result stands beside the request as context, and on resume it is not executed once more."""
    ran: list[list[str]] = []

    def count(words: list[str]) -> str:
        ran.append(words)
        return f"run {len(ran)}\n"

    text = policy(
        rule("run", "allow", ["cc_run_program"], programs=["count.lua"]),
        rule("ask", "ask", ["cc_write"]),
        requests={"siblings": "run_safe"},
    )
    step = says(call("cc_run_program", path="count.lua"), WRITE)
    async with installation.open(Playing(step), policy=text, programs={"count.lua": count}) as server:
        task_id = await server.submit()
        await server.item(task_id, "tool_finished")
        request = await server.request(task_id)
        (sibling,) = request["context"]
        assert (sibling["tool"], sibling["state"]) == ("cc_run_program", "executed")
        assert "run 1" in sibling["result"]
        await server.decide(request, "approve")
        await server.ended(task_id)
        assert len(ran) == 1
        (proposed,) = await server.facts(task_id, "calls_proposed")
        begun = [one.call_id for one in await server.facts(task_id, "tool_started")]
        assert begun == [one.call_id for one in proposed.calls]


async def test_s5_results_keep_the_order_of_the_calls(installation: Installation) -> None:
    """S5: whoever is decided first, the model is told in the order in which it asked, each under its call."""
    model = Playing(says(WRITE, READ, DELETE))
    async with installation.open(model, policy=policy(requests={"partial": "at_once"})) as server:
        task_id, request = await server.asked()
        write, delete = (one["call_id"] for one in request["tool_calls"])
        await server.decide(request, decisions=[{"call_id": delete, "action": "approve"}])
        await server.item(task_id, "tool_finished", where=lambda fact: fact["call_id"] == delete)
        await server.decide(request, decisions=[{"call_id": write, "action": "approve"}])
        await server.ended(task_id)
        assert re.findall(r"\[(\d) (cc_\w+)\]", model.told) == [("1", "cc_write"), ("2", "cc_read"), ("3", "cc_delete")]
        finished = [one.call_id for one in await server.facts(task_id, "tool_finished")]
        assert finished.index(delete) < finished.index(write)


async def test_s6_each_pause_has_an_id_of_its_own(installation: Installation) -> None:
    """S6: unguessable, 128 bits or more; an earlier one answers 409 and does nothing to the later."""
    again = call("cc_write", path="b.lua", content="print('second')\n")
    async with installation.open(Playing(says(WRITE, DELETE), says(again)), policy=policy()) as server:
        task_id, first = await server.asked()
        await server.decide(first, "approve")
        second = await server.request(task_id, after=await server.version_of(first))
        assert first["request_id"] != second["request_id"]
        for one in (first, second):
            # 64 characters to choose from are 6 bits each; a command must not take an id for a flag.
            assert re.fullmatch(r"r-[\w-]{22,}", one["request_id"])
        calls = [one["call_id"] for one in (*first["tool_calls"], *second["tool_calls"])]
        assert len(set(calls)) == len(calls) == 3
        for action in ("reject", "approve"):
            late = await server.decide(first, action, idempotency_key="another")
            assert late.status_code == (409 if action == "reject" else 200)
        task = await server.task(task_id)
        assert (task["status"], task["request"]["request_id"]) == ("Paused", second["request_id"])
        assert server.stub.disk.file("b.lua") == FILES["b.lua"]


# -- restarts ----------------------------------------------------------------------------


async def test_s7_a_request_finds_its_task_after_a_restart(kept_installation: Installation) -> None:
    """S7: a new store on the same file finds the task by the request's id; it is decided and goes on."""
    model = Playing(says(WRITE))
    async with kept_installation.open(model, policy=policy()) as server:
        task_id, request = await server.asked()
    store = open_store(f"sqlite:///{kept_installation.directory / 'orchestrator.db'}", clock=ManualClock())
    try:
        found = await store.load_by_request_id(RequestId(request["request_id"]))
        assert found is not None
        assert (found.task_id, found.status) == (task_id, TaskStatus.PAUSED)
        assert await store.load_by_request_id(RequestId("nobody")) is None
    finally:
        await store.close()
    async with kept_installation.open(model) as server:
        assert (await server.decide(request, "approve")).status_code == 202
        assert (await server.ended(task_id))["status"] == "Completed"
        assert server.stub.disk.file("a.lua") == b"print('new')\n"


class Dying(Watched):
    """A store whose process is killed before or after it first writes an item of a kind."""

    def __init__(self, store: Store, kind: str, side: str) -> None:
        super().__init__(store, lambda _: None)
        self._kind = kind
        self._side = side

    async def append(self, task_id: Any, version: int, drafts: Any, **more: Any) -> Any:
        here = self._kind in {one.fact.kind for one in drafts}
        if here and self._side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        items = await super().append(task_id, version, drafts, **more)
        if here and self._side == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return items


async def approving(url: str, admin: str) -> None:
    """Approve each request that is shown, until the connection is over."""
    with contextlib.suppress(WebSocketException, OSError):
        async with reviewing(url, admin) as reviewer:
            while True:
                frame = await reviewer.hear()
                shown = frame.get("requests", []) + ([frame["request"]] if "request" in frame else [])
                for request in shown:
                    assert request["reason"] == "approval"
                    resume = {"action": "approve"}
                    await reviewer.say(type="decide", ref="r", request_id=request["request_id"], resume=resume)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "death",
    [
        ("review_requested", "before"),
        ("review_requested", "after"),
        ("decision_recorded", "after"),
        ("tool_started", "after"),
        ("tool_finished", "before"),
        ("tool_finished", "after"),
    ],
    ids="-".join,
)
async def test_s8_after_kill_9_anywhere_the_task_finishes(tmp_path: Path, death: tuple[str, str]) -> None:
    """S8: killed around the pause, the approval, the execution or the result, it goes on after a restart, done once.

    SQLite only: the store in memory dies with its process.
    """
    home = tmp_path / "data"
    home.mkdir()
    (home / "policy.toml").write_text(policy(), "utf-8")
    model = Playing(says(WRITE))
    dying = cast("Any", partial(Dying, kind=death[0], side=death[1]))
    process, url = start_server(home, wrap_store=dying, model=model)
    try:
        admin = (home / "admin.token").read_text().strip()
        headers = {"Authorization": f"Bearer {admin}"}
        async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=HANG_S, headers=headers) as http:
            made = await http.post("/v1/tokens", json={"kind": "computer", "name": "3"})
            stub = StubComputer(url, made.json()["token"], files=FILES)
            heard = calls_of(stub)
            async with stubs_connected(stub):
                submitted = await http.post("/v1/tasks", json={"prompt": "fix it", "computers": ["3"]})
                task_id = submitted.json()["task_id"]
                await within(asyncio.gather(approving(url, admin), process.gone()))
            process, url = start_server(home, int(url.rpartition(":")[2]), model=model)
            async with stubs_connected(stub), asyncio.timeout(HANG_S):
                deciding = asyncio.create_task(approving(url, admin))
                async with http.stream("GET", f"/v1/tasks/{task_id}/events?hints=0") as events:
                    kinds = [line async for line in events.aiter_lines() if line.startswith("event: ")]
                task = (await http.get(f"/v1/tasks/{task_id}")).json()
                deciding.cancel()
                await asyncio.gather(deciding, return_exceptions=True)
    finally:
        process.kill()
    assert task["status"] == "Completed", task
    assert kinds[-1] == "event: task_ended"
    assert kinds.count("event: decision_recorded") == 1
    assert changes_in(heard) == ["fs_write"]
    assert stub.disk.file("a.lua") == b"print('new')\n"


async def test_s9_after_a_restart_what_waits_is_announced_once_under_its_ids(kept_installation: Installation) -> None:
    """S9: every pending request is listed and shown again to reviewers, once each, with the ids that it had."""
    model = Playing(says(WRITE), for_prompt={"other": [says(DELETE)]})
    async with kept_installation.open(model, policy=policy()) as server:
        first = (await server.asked())[1]["request_id"]
        task_id, second = await server.asked(prompt="other")
        ids = [first, second["request_id"]]
    async with kept_installation.open(model) as server, server.reviewing() as reviewer:
        snapshot = await reviewer.hear("snapshot")
        assert [one["request_id"] for one in snapshot["requests"]] == ids
        listed = (await server.ask("GET", "/v1/requests")).json()["requests"]
        assert [one["request_id"] for one in listed] == ids
        await server.ask("POST", f"/v1/tasks/{task_id}/cancel")
        closed = await reviewer.hear()
        assert (closed["type"], closed["request_id"]) == ("request_closed", ids[1]), "it was announced twice"


# -- the store ---------------------------------------------------------------------------


async def test_s10_a_loaded_task_is_a_copy(installation: Installation) -> None:
    """S10: whatever is done to a loaded task, what is stored and what runs is as it was."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        loaded: Any = await server.store.load(task_id)  # type: ignore[arg-type]
        for change in (
            lambda: setattr(loaded, "status_reason", "mine"),
            lambda: setattr(loaded.calls[0], "state", "approved"),
            lambda: loaded.calls[0].call.args.update(content="print('evil')\n"),
            lambda: loaded.calls[0].observed.state.update({"a.lua": "0" * 64}),
        ):
            # Whether it is refused or touches a copy only is the store's affair.
            with contextlib.suppress(Exception):
                change()
        again: Any = await server.store.load(task_id)  # type: ignore[arg-type]
        assert again.calls[0].call.args["content"] == "print('new')\n"
        assert again.calls[0].observed.state != {"a.lua": "0" * 64}
        assert (await server.ask("GET", f"/v1/requests/{request['request_id']}")).json() == request
        await server.decide(request, "approve")
        await server.ended(task_id)
        assert server.stub.disk.file("a.lua") == b"print('new')\n"


async def test_s11_a_stale_writer_gets_a_conflict(installation: Installation) -> None:
    """S11: whoever appends after an older version is refused, and nothing of theirs or of the others' is lost."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        service = server.orchestrator.service
        stale = await service.load(task_id)  # type: ignore[arg-type]
        await server.decide(request, "approve")
        await server.ended(task_id)
        before = await server.items(task_id)
        draft = service.draft(CancelRequested(reason="late"), SYSTEM)
        with pytest.raises(Conflict):
            await service.append(stale, [draft])
        assert await server.items(task_id) == before


async def test_s12_a_paused_task_holds_nothing(installation: Installation) -> None:
    """S12: with one worker and one computer, another task works there while the first waits for a person."""
    model = Playing(says(WRITE), for_prompt={"other": [says(OTHER)]})
    async with installation.open(model, policy=siblings(), workers=1) as server:
        task_id, request = await server.asked()
        assert await server.store.claimant("3") is None  # type: ignore[arg-type]
        other = await server.ended(await server.submit(prompt="other"))
        assert other["status"] == "Completed"
        assert server.stub.disk.file("b.lua") == b"print('allowed')\n"
        assert (await server.task(task_id))["request"]["request_id"] == request["request_id"]


async def test_s13_a_store_of_an_older_version_is_brought_forward(kept_installation: Installation) -> None:
    """S13: a pause that an earlier release recorded is shown and decided. SQLite only: it is a file of that release."""
    kept_installation.directory.mkdir()
    with closing(sqlite3.connect(kept_installation.directory / "orchestrator.db")) as connection:
        connection.executescript(OLD_STORE.read_text("utf-8"))
    async with kept_installation.open(Playing(), policy=policy(rule("all", "allow")), computer=False) as server:
        alice = await server.person("alice", "reviewer")
        request = (await server.ask("GET", "/v1/requests/r1", token=alice)).json()
        assert (request["task_id"], request["requester"]) == ("t1", "alice")
        assert (await server.decide(request, "reject", token=alice)).status_code == 200
        assert (await server.task("t1"))["status"] == "Canceled"


@pytest.mark.parametrize("what", ["item", "tables"])
async def test_s13_a_newer_version_is_refused_clearly(kept_installation: Installation, what: str) -> None:
    """S13: an item or a store of a newer version says so instead of being misread. SQLite only, as above."""
    model = Playing(says(WRITE))
    async with kept_installation.open(model, policy=policy()) as server:
        task_id, _ = await server.asked()
    with closing(sqlite3.connect(kept_installation.directory / "orchestrator.db")) as connection:
        if what == "item":
            connection.execute("""UPDATE items SET data = replace(data, '"schema":1', '"schema":99')""")
        else:
            connection.execute("UPDATE meta SET value = '99'")
        connection.commit()
    with pytest.raises(NewerSchema) as refused:
        async with kept_installation.open(model, computer=False) as server:
            await server.store.load(task_id)  # type: ignore[arg-type]
    assert "99" in refused.value.message
    assert refused.value.remedy


async def test_s14_time_never_removes_a_paused_task(installation: Installation) -> None:
    """S14: ten years on it is still there, still Paused, and goes on when somebody comes."""
    text = policy(requests={"expires_s": {"medium": 3600}, "remind_before_s": 0})
    async with installation.open(Playing(says(WRITE)), policy=text, clock=ManualClock()) as server:
        task_id, request = await server.asked()
        version = await server.version(task_id)
        server.advance(10 * 365 * 24 * 3600)
        await server.item(task_id, "request_ended", after=version)
        task = await server.task(task_id)
        assert (task["status"], task["lapsed_request"]) == ("Paused", request["request_id"])
        renewed = await server.ask("POST", f"/v1/requests/{request['request_id']}/renew", {})
        assert renewed.status_code == 200
        again = await server.request(task_id, after=version)
        await server.decide(again, "approve")
        assert (await server.ended(task_id))["status"] == "Completed"


# -- what nobody needs to be asked about ---------------------------------------------------


async def test_s15_a_call_that_cannot_work_goes_back_to_the_model(installation: Installation) -> None:
    """S15: arguments that do not fit, and a change that cannot be made, are told before any human is asked."""
    wrong: list[dict[str, Any]] = [
        call("cc_write", path="a.lua"),
        call("cc_write", path="a.lua", content=5),
        call("cc_write", path="a.lua", content="print('x')", mode="append"),
    ]
    missing = call("cc_edit", path="a.lua", old="not there", new="x")
    model = Playing(says(wrong[0]), says(wrong[1]), says(missing), says(wrong[2]), says(WRITE))
    async with installation.open(model, policy=policy()) as server:
        task_id, request = await server.asked()
        assert request["tool_calls"][0]["args"] == WRITE["args"]
        assert len(await server.items(task_id, "review_requested")) == 1
        assert len(await server.items(task_id, "reply_refused")) == len(wrong)
        told = "\n".join(message.content for message in model.asked[-1])
        for word in ("content", "mode", "not there"):
            assert word in told


async def test_s16_the_same_call_does_not_ask_twice(installation: Installation) -> None:
    """S16: a call that is identical to one that is pending raises no second request and is not run for itself."""
    model = Playing(says(WRITE, WRITE, call("cc_write", path="/x/../a.lua", content="print('new')\n")))
    async with installation.open(model, policy=policy()) as server:
        task_id, request = await server.asked()
        assert len(request["tool_calls"]) == 1
        assert [one["state"] for one in (await server.task(task_id))["calls"]] == ["pending", *["denied_by_policy"] * 2]
        await server.decide(request, "approve")
        await server.ended(task_id)
        assert len(await server.items(task_id, "review_requested")) == 1
        assert len(await server.items(task_id, "tool_started")) == 1
        assert "twice" in model.told
