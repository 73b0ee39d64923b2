"""Audit: the items are the record, chained, complete, and written together with what they record."""

import asyncio
import hashlib
import hmac
import json
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.audit.chain import SYSTEM_STREAM
from orchestrator.core.errors import StoreBusy
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import Draft
from orchestrator.core.task.system_facts import PolicyLoaded
from orchestrator.core.wire.wire import SettledCall
from orchestrator.testing import ManualClock
from tests.contract.parts import (
    CHANGING,
    LOOKING,
    RUNNING,
    WRITE,
    Gated,
    Playing,
    by_hand,
    calls_of,
    changes_in,
    digest_of,
    policy,
    rule,
    sha256,
)
from tests.core.audited import Trail, made
from tests.harness.commands import cli
from tests.harness.support import call, says
from tests.harness.whole_server import Installation, Opened
from tests.waiting import within

SECRET = "hunter2hunter2"
SIBLING = call("cc_write", path="b.lua", content="print('new')\n")
RUN = call("cc_run_program", path="hello.lua")
OLD = {"a.lua": b"old\n", "hello.lua": b"print('hello')\n"}


async def _audit(server: Opened, token: str | None = None, **query: str) -> dict[str, Any]:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    answer = await server.ask("GET", f"/v1/audit?limit=1000&{asked}", token=token)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


# -- A1 ----------------------------------------------------------------------------------


async def test_a1_what_happens_to_a_request_is_an_item_of_its_task(installation: Installation) -> None:
    """Created, put before somebody, looked at, decided, edited, stale, started, finished, under a grant: all of it."""
    model = Playing(says(WRITE), says(SIBLING), says(WRITE))
    async with installation.open(model, policy=policy()) as server, server.reviewing() as reviewer:
        await reviewer.hear("snapshot")
        task_id, request = await server.asked()
        await server.item(task_id, "review_noted", where=lambda fact: fact["what"] == "notified")
        server.stub.disk.put("a.lua", b"theirs\n")
        await server.decide(request, "approve")
        stale = await server.item(task_id, "tool_finished")
        again = await server.request(task_id, after=stale["version"])
        edit = {"call_id": again["tool_calls"][0]["call_id"], "action": "edit"}
        edit["args"] = {"path": "a.lua", "content": "print('edited')\n"}
        await server.decide(again, decisions=[edit])
        done = await server.item(task_id, "tool_finished", after=stale["version"])
        third = await server.request(task_id, after=done["version"])
        spec = {"scope": "session", "paths": ["*.lua"]}
        one = {"call_id": third["tool_calls"][0]["call_id"], "action": "approve", "remember": spec}
        await server.decide(third, decisions=[one])
        await server.ended(task_id)
        items = (await _audit(server, task=task_id))["items"]
        whats = {one["fact"]["what"] for one in items if one["fact"]["kind"] == "review_noted"}
        assert {"notified", "viewed", "grant_used"} <= whats
        actions = [
            d["action"] for o in items if o["fact"]["kind"] == "decision_recorded" for d in o["fact"]["decisions"]
        ]
        assert actions == ["approve", "edit", "approve"]
        finished = [one["fact"]["code"] for one in items if one["fact"]["kind"] == "tool_finished"]
        assert finished == ["stale", None, None, None]
        assert [one["version"] for one in items] == list(range(1, len(items) + 1))
        assert {one["task_id"] for one in items} == {task_id}


async def test_a1_all_who_look_at_once_are_recorded(installation: Installation) -> None:
    """Several people look at a request in the same moment: each of them is an item, once."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), approvers="role:reviewer") as server:
        names = [f"rita{number}" for number in range(5)]
        tokens = [await server.person(name, "reviewer") for name in names]
        task_id = await server.submit()
        raised = await server.item(task_id, "review_requested")
        path = f"/v1/requests/{raised['fact']['request_id']}"
        answers = await asyncio.gather(*(server.ask("GET", path, token=one) for one in (*tokens, *tokens)))
        assert {one.status_code for one in answers} == {200}
        assert sorted(one.actor.id for one in await server.items(task_id, "review_noted")) == names


async def test_a1_what_ends_a_request_undecided_is_an_item_too(installation: Installation) -> None:
    """Expired, superseded by a policy, canceled: each by whom it was; an outcome that nobody knows as well."""
    requests = {"expires_s": {"medium": 60}, "on_timeout": "continue"}
    async with installation.open(Playing(says(WRITE)), policy=policy(requests=requests), clock=ManualClock()) as server:
        expired, _ = await server.asked()
        server.advance(60)
        await server.ended(expired)
        canceled, _ = await server.asked()
        await server.ask("POST", f"/v1/tasks/{canceled}/cancel", {"reason": "enough"})
        denied, _ = await server.asked()
        no = rule("no", "deny", ["cc_write"], reason="Not now.")
        await server.change_policy(policy(LOOKING, CHANGING, RUNNING, no, requests=requests))
        await server.ended(denied)
        ends = {}
        for task_id in (expired, canceled, denied):
            (one,) = [o for o in (await _audit(server, task=task_id))["items"] if o["fact"]["kind"] == "request_ended"]
            ends[one["fact"]["end"]] = one["actor"]["kind"]
        assert ends == {"expired": "system", "canceled": "person", "superseded": "system"}


async def test_a1_an_unknown_outcome_is_an_item(installation: Installation) -> None:
    """Nobody knows whether it ran: that is recorded as what it is."""
    async with installation.open(Playing(says(RUN)), policy=policy(), computer=False) as server:
        token = await server.computer("3")
        async with by_hand(server, token) as hand:
            task_id = await server.submit()
            hearing = asyncio.create_task(hand.call("run_program", files=OLD))
            request = await server.request(task_id)
            await server.decide(request, "approve")
            sent = await hearing
        again = {"boot": "boot-2", "highest": sent.number, "journal_seq": 9, "calls": (sent.call_id,)}
        async with by_hand(server, token, **again) as hand:
            settle = await hand.settle()
            await hand.client.settled(settle.number, SettledCall(call_id=sent.call_id, state="interrupted"))
            settled = await server.item(task_id, "tool_settled")
            assert (settled["fact"]["state"], settled["fact"]["run_id"]) == ("interrupted", sent.call_id)
            assert settled["actor"] == {"kind": "computer", "id": "3", "auth": ""}


async def test_a1_what_belongs_to_no_task_is_in_the_nodes_own_stream(installation: Installation) -> None:
    """Policies, tokens and grants given and taken back, what is configured, and who was refused."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), approvers="role:reviewer") as server:
        sam = await server.person("sam")
        task_id, request = await server.asked()
        assert (await server.decide(request, "approve", token="nonsense")).status_code == 401
        assert (await server.decide(request, "approve", token=sam)).status_code == 404
        one = {"call_id": request["tool_calls"][0]["call_id"], "action": "approve", "remember": {"scope": "session"}}
        assert (await server.decide(request, decisions=[one])).status_code == 202
        await server.ended(task_id)
        assert (await server.decide(request, "reject")).status_code == 409
        (grant,) = (await server.ask("GET", "/v1/grants")).json()["grants"]
        await server.ask("DELETE", f"/v1/grants/{grant['grant_id']}")
        await server.change_policy(policy(LOOKING, CHANGING))
        await server.change_policy("nonsense")
        await server.ask("DELETE", "/v1/tokens/person/sam")
        items = (await _audit(server, system="1"))["items"]
        assert {one["task_id"] for one in items} == {SYSTEM_STREAM}
        kinds = {one["fact"]["kind"] for one in items}
        wanted = {"node_started", "policy_loaded", "policy_refused", "token_issued", "token_revoked", "grant_revoked"}
        assert wanted | {"attempt_refused"} <= kinds
        (started,) = [one["fact"] for one in items if one["fact"]["kind"] == "node_started"]
        assert started["settings"]["approvers"] == "role:reviewer"
        refused = [(one["actor"]["id"], one["fact"]) for one in items if one["fact"]["kind"] == "attempt_refused"]
        assert [(who, fact["status"], fact["request_id"]) for who, fact in refused] == [
            ("", 401, request["request_id"]),
            ("sam", 404, request["request_id"]),
            ("admin", 409, request["request_id"]),
        ]


# -- A2 ----------------------------------------------------------------------------------


async def test_a2_each_item_says_who_when_and_what_and_is_chained(installation: Installation) -> None:
    """Version, UTC time, actor with how it was proved, ids, digests, policy; the chain, computed here anew."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        await server.decide(request, "approve", reason="looks right")
        await server.ended(task_id)
        items = (await _audit(server, task=task_id, whole="1"))["items"]
        before = "0" * 64
        for version, item in enumerate(items, start=1):
            assert (item["version"], item["task_id"], item["prev_hash"]) == (version, task_id, before)
            at = datetime.fromisoformat(item["at"])
            assert at.utcoffset() == timedelta(0)
            content = {name: value for name, value in item.items() if name not in ("hash", "prev_hash")}
            text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
            assert item["hash"] == sha256(before + text), "hash = sha256(prev_hash || canonical(item))"
            before = item["hash"]
        decided = next(one for one in items if one["fact"]["kind"] == "decision_recorded")
        assert decided["actor"] == {"kind": "person", "id": "admin", "auth": "token"}
        fact = decided["fact"]
        assert (fact["request_id"], fact["policy_version"]) == (request["request_id"], request["policy_version"])
        (one,) = fact["decisions"]
        (shown,) = request["tool_calls"]
        assert (one["call_id"], one["action_digest"]) == (shown["call_id"], shown["action_digest"])
        assert one["reason"] == "looks right"


async def test_a2_a_signed_checkpoint_lists_all_heads(installation: Installation) -> None:
    """When the node stops it signs the heads of all streams; the signature is that of the key beside the file."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, _ = await server.asked()
        (*_, last) = await server.items(task_id)
        task_head = [last.version, last.hash]
    checkpoint = json.loads((installation.directory / "audit.checkpoint").read_text("utf-8"))
    key = bytes.fromhex((installation.directory / "audit.key").read_text("ascii").strip())
    assert set(checkpoint["streams"]) == {task_id, SYSTEM_STREAM}
    assert checkpoint["streams"][task_id] == task_head
    signed = {name: value for name, value in checkpoint.items() if name != "hmac"}
    text = json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    assert checkpoint["hmac"] == hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


# -- A3 ----------------------------------------------------------------------------------

_CUT = (
    "DELETE FROM items WHERE task_id = '{task}' AND version = {last}",
    "UPDATE tasks SET version = {last} - 1, head_hash = '{before}' WHERE task_id = '{task}'",
)
TAMPERINGS = {
    "edit": ("UPDATE items SET data = replace(data, 'fix my farm', 'fix my roof') WHERE task_id = '{task}'",),
    "deletion": ("DELETE FROM items WHERE task_id = '{task}' AND version = 3",),
    "reordering": (
        "UPDATE items SET version = 1003 WHERE task_id = '{task}' AND version = 3",
        "UPDATE items SET version = 3 WHERE task_id = '{task}' AND version = 4",
        "UPDATE items SET version = 4 WHERE task_id = '{task}' AND version = 1003",
    ),
    "cut": _CUT,
    "whole task": ("DELETE FROM items WHERE task_id = '{task}'", "DELETE FROM tasks WHERE task_id = '{task}'"),
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("how", [*TAMPERINGS, "nothing"])
async def test_a3_verify_finds_what_was_changed(kept_installation: Installation, how: str) -> None:
    """An edit, a deletion, a reordering, a tail cut off together with its row, a task taken out: each is found.

    On SQLite only: what is in memory nobody can change from outside.
    """
    async with kept_installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        await server.decide(request, "approve")
        await server.ended(task_id)
        (*_, before, last) = await server.items(task_id)
    with closing(sqlite3.connect(kept_installation.directory / "orchestrator.db")) as database, database:
        for statement in TAMPERINGS.get(how, ()):
            database.execute(statement.format(task=task_id, last=last.version, before=before.hash))
    async with kept_installation.open(Playing(), computer=False) as server:
        found = (await server.ask("GET", "/v1/audit/verify")).json()
        assert found["checkpoint_at"] is not None
        # What it shows beside the task is that a request is known that nobody raised.
        assert {one["stream"] for one in found["faults"]} - {""} == (set() if how == "nothing" else {task_id})
        assert bool(found["faults"]) == (how != "nothing")


# -- A4 ----------------------------------------------------------------------------------


class Failing(Gated):
    """A store that cannot write one kind of fact."""

    def __init__(self, store: Any, kind: str) -> None:
        super().__init__(store)
        self.kind = kind
        self.refused = asyncio.Event()

    async def append(self, task_id: Any, version: int, drafts: Any, **more: Any) -> Any:
        if any(draft.fact.kind == self.kind for draft in drafts):
            self.refused.set()
            raise StoreBusy("The disk is full.")
        return await super().append(task_id, version, drafts, **more)


@pytest.mark.parametrize("kind", ["decision_recorded", "tool_started"])
async def test_a4_what_cannot_be_recorded_does_not_happen(installation: Installation, kind: str) -> None:
    """A decision or a start whose item cannot be written: the computer hears nothing, and nobody is told otherwise."""
    failing: list[Failing] = []

    def full(store: Any) -> Any:
        failing.append(Failing(store, kind))
        return failing[0]

    async with installation.open(Playing(says(WRITE)), policy=policy(), clock=ManualClock(), wrap_store=full) as server:
        calls = calls_of(server.stub)
        task_id, request = await server.asked()
        await within(failing[0].parked.wait())
        failing[0].parked.clear()
        answer = await server.decide(request, "approve")
        if kind == "decision_recorded":
            assert answer.status_code == 503
            assert (await server.request(task_id))["request_id"] == request["request_id"]
        else:
            assert answer.status_code == 202
            for _ in range(2):
                # It is tried again, and nothing is sent meanwhile.
                await within(failing[0].refused.wait())
                failing[0].refused.clear()
        assert changes_in(calls) == []
        failing[0].kind = ""
        if kind == "decision_recorded":
            assert (await server.decide(request, "approve")).status_code == 202
        else:
            server.advance(60)
        await server.ended(task_id)
        assert changes_in(calls) == ["fs_write"]


@pytest.mark.parametrize("what", ["token", "grant"])
async def test_a4_the_item_and_the_change_are_one_transaction(kept_installation: Installation, what: str) -> None:
    """Where the system stream cannot be written a token is not made and a grant not taken back.

    On SQLite only: the write is made to fail inside the database.
    """
    async with kept_installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked(session_id="evening")
        one = {"call_id": request["tool_calls"][0]["call_id"], "action": "approve", "remember": {"scope": "session"}}
        await server.decide(request, decisions=[one])
        await server.ended(task_id)
        (grant,) = (await server.ask("GET", "/v1/grants")).json()["grants"]
        with closing(sqlite3.connect(kept_installation.directory / "orchestrator.db")) as database, database:
            database.execute(
                "CREATE TRIGGER full BEFORE INSERT ON items WHEN NEW.task_id = 'system' "
                "BEGIN SELECT RAISE(ABORT, 'no room'); END"
            )
        if what == "token":
            answer = await server.ask("POST", "/v1/tokens", {"kind": "person", "name": "sam", "roles": ["reviewer"]})
        else:
            answer = await server.ask("DELETE", f"/v1/grants/{grant['grant_id']}")
        with closing(sqlite3.connect(kept_installation.directory / "orchestrator.db")) as database, database:
            database.execute("DROP TRIGGER full")
        assert answer.status_code >= 500
        names = [one["name"] for one in (await server.ask("GET", "/v1/tokens")).json()["tokens"]]
        assert "sam" not in names
        (still,) = (await server.ask("GET", "/v1/grants")).json()["grants"]
        assert (still["revoked"], still["usable"]) == (False, True)


# -- A5, A6 --------------------------------------------------------------------------------


async def test_a5_the_log_alone_says_who_approved_exactly_these_bytes(installation: Installation) -> None:
    """By their sha256: by whom, when, under which policy, bound to what, and what then happened."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), approvers="role:reviewer") as server:
        rita = await server.person("rita", "reviewer")
        task_id, request = await server.asked()
        await server.decide(request, "approve", token=rita)
        await server.ended(task_id)
        found = (await _audit(server, sha256=sha256(b"print('new')\n")))["stories"]
        (story,) = found
        (approval,) = story["approvals"]
        (decided,) = await server.items(task_id, "decision_recorded")
        assert (approval["by"]["id"], approval["how"]) == ("rita", "approve")
        assert datetime.fromisoformat(approval["at"]) == decided.at
        assert approval["policy_version"] == request["policy_version"]
        assert approval["action_digest"] == request["tool_calls"][0]["action_digest"]
        (run,) = story["runs"]
        assert (run["outcome"], run["before"], run["after"]) == (
            "done",
            {"a.lua": sha256(b"old\n")},
            {"a.lua": sha256(b"print('new')\n")},
        )
        assert (await _audit(server, sha256=sha256(b"never")))["stories"] == []
        loaded = [one.fact for one in await server.system_items("policy_loaded")]
        (fact,) = [one for one in loaded if isinstance(one, PolicyLoaded)]
        assert fact.policy_version == approval["policy_version"]
        assert await server.store.get_blob(fact.sha256) == installation.policy_path.read_bytes(), (
            "and what that policy was"
        )


async def _findings(server: Opened, task_id: str) -> set[tuple[str, str]]:
    answer = (await server.ask("GET", f"/v1/audit/check?task={task_id}")).json()
    return {(one["what"], one["level"]) for one in answer["findings"]}


async def test_a6_what_was_approved_and_never_ran_is_reported(installation: Installation) -> None:
    """Approved while the computer was away, then canceled: the check says so; a task in order has no finding."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), approvers="role:reviewer") as server:
        rita = await server.person("rita", "reviewer")
        good, request = await server.asked()
        await server.decide(request, "approve", token=rita)
        await server.ended(good)
        assert await _findings(server, good) == set()
        server.stub.disk.put("a.lua", b"old\n")
        unused, request = await server.asked()
        await installation.hang_up()
        await server.decide(request, "approve", token=rita)
        await server.ask("POST", f"/v1/tasks/{unused}/cancel")
        assert await _findings(server, unused) == {("approved_not_executed", "notice")}


async def test_a6_what_ran_and_was_not_approved_is_reported(installation: Installation) -> None:
    """A journal in which a call ran that nobody had approved, which this program would never write."""
    wanted = made("c1")
    trail = Trail(wanted, task_id=TaskId("t-forged")).requested(wanted).started(wanted).finished(wanted).ended()
    drafts = [Draft(item_id=one.item_id, at=one.at, actor=one.actor, fact=one.fact) for one in trail.items]
    async with installation.open(Playing(), policy=policy()) as server:
        await server.store.create(TaskId("t-forged"), drafts)
        assert ("executed_unapproved", "violation") in await _findings(server, "t-forged")


async def test_a6_what_somebody_did_with_rights_that_no_item_gives_is_reported(tmp_path: Path) -> None:
    """The row of a token gets other roles, is used, and is put back: the acts stay, and the check names each."""
    installation = Installation(tmp_path / "data")

    def roles(*given: str) -> None:
        with closing(sqlite3.connect(installation.directory / "orchestrator.db", timeout=30)) as database, database:
            database.execute("UPDATE tokens SET roles = ? WHERE name = 'sam'", (json.dumps(given),))

    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        sam = await server.person("sam", "submitter")
        task_id, request = await server.asked(token=sam)
        roles("submitter", "reviewer", "admin")
        await server.decide(request, "approve", token=sam)
        await server.ask("POST", "/v1/tokens", {"kind": "person", "name": "mallory", "roles": ["admin"]}, token=sam)
        applied = await server.ask("POST", "/v1/policy", {"policy": policy(LOOKING)}, token=sam)
        assert applied.status_code == 200, applied.text
        await server.ask("DELETE", "/v1/tokens/person/mallory", token=sam)
        roles("submitter")
        await server.ended(task_id)
        found = (await server.ask("GET", "/v1/audit/check")).json()["findings"]
        acts = [one["detail"].split(",")[0] for one in found if one["what"] == "without_right"]
        assert sorted(acts) == [
            "sam caused decision_recorded",
            "sam caused policy_loaded",
            "sam caused token_issued",
            "sam caused token_revoked",
        ]
        assert {one["level"] for one in found if one["what"] == "without_right"} == {"violation"}
        assert ("without_right", "violation") in await _findings(server, task_id)


# -- A8 ----------------------------------------------------------------------------------


async def test_a8_views_of_the_audit_are_redacted_and_items_are_not(installation: Installation, tmp_path: Path) -> None:
    """Items keep the call as it runs and are hashed so; a view says that it was redacted; the whole is for admins."""
    write = call("cc_write", path="a.lua", content=f'password = "{SECRET}"\n')
    async with installation.open(Playing(says(write)), policy=policy()) as server:
        rita = await server.person("rita", "reviewer")
        task_id, request = await server.asked()
        await server.decide(request, "approve")
        await server.ended(task_id)
        shown = await _audit(server, token=rita, task=task_id)
        assert shown["redacted"] is True
        assert SECRET not in json.dumps(shown)
        marked = {one["fact"]["kind"] for one in shown["items"] if one["redacted"]}
        assert "calls_proposed" in marked
        whole = await server.ask("GET", f"/v1/audit?task={task_id}&whole=1", token=rita)
        assert whole.status_code == 403
        kept = await _audit(server, task=task_id, whole="1")
        assert (kept["redacted"], SECRET in json.dumps(kept)) == (False, True)
        (proposed,) = await server.items(task_id, "calls_proposed")
        assert isinstance(proposed.fact, facts.CallsProposed)
        (one,) = proposed.fact.calls
        assert one.args == write["args"]
        content = {"tool": "cc_write", "version": 1, "args": write["args"], "computer": "3"}
        assert one.call_digest == digest_of(content)
        (tmp_path / "home").mkdir()
        access = {"CC_ORCHESTRATOR_URL": server.url, "CC_ORCHESTRATOR_TOKEN": server.admin}
        done = await asyncio.to_thread(cli, tmp_path / "home", "audit", "export", task_id, **access)
        head = json.loads(done.stdout.splitlines()[0])
        assert head["redacted"] is True, head
        assert SECRET not in done.stdout
