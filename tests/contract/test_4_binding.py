"""Binding and staleness: a decision is on exactly what was shown, and what runs is exactly that."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.policy import BUILT_IN_CATALOG, RUNNERS
from orchestrator.core.task import facts
from orchestrator.testing import ManualClock
from orchestrator.testing.stub_programs import StubPeripheral
from tests.contract.parts import (
    CHANGING,
    LOOKING,
    LOOKS,
    RUNNING,
    WRITE,
    Playing,
    calls_of,
    changes_in,
    digest_of,
    policy,
    rule,
    sha256,
)
from tests.harness.support import call, dialed, hello, says
from tests.harness.whole_server import Installation, Opened
from tests.story.harness import Server as Process
from tests.story.harness import computer, tool
from tests.story.proxy import Frame, proxy

RUN = call("cc_run_program", path="hello.lua")


async def _shown_anew(server: Opened, task_id: str, request: dict[str, Any], code: str) -> dict[str, Any]:
    """The new request after an approval did not hold for the reason ``code``."""
    ended = await server.item(task_id, "request_ended")
    assert (ended["fact"]["end"], ended["fact"]["code"]) == ("stale", code), ended
    again = await server.request(task_id, after=ended["version"])
    assert again["request_id"] != request["request_id"]
    return again


# -- B1 ----------------------------------------------------------------------------------


async def test_b1_the_digests_are_over_what_they_say(installation: Installation) -> None:
    """call_digest: tool, version, arguments, computer; action_digest: that, user, what was found, verdict, rules."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        (shown,) = request["tool_calls"]
        (proposed,) = await server.items(task_id, "calls_proposed")
        assert isinstance(proposed.fact, facts.CallsProposed)
        (made,) = proposed.fact.calls
        version = BUILT_IN_CATALOG["cc_write"].version
        called = digest_of({"tool": "cc_write", "version": version, "args": WRITE["args"], "computer": "3"})
        assert made.call_digest == called
        assert shown["observed"]["state"] == {"a.lua": sha256(b"old\n")}
        content = {
            "call": called,
            "user": "admin",
            "observed": shown["observed"]["state"],
            "effect": "ask",
            "risk": shown["evaluation"]["risk"],
            "rules": shown["evaluation"]["rules_digest"],
            "identity": shown["observed"]["identity"],
        }
        assert shown["action_digest"] == request["action_digest"] == digest_of(content)


async def test_b1_another_digest_decides_nothing(installation: Installation) -> None:
    """A digest that was not shown is 409, in both forms; without one the decision binds to the stored digest."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        (shown,) = request["tool_calls"]
        other = sha256("another")
        assert (await server.decide(request, "approve", expected_digest=other)).status_code == 409
        one = {"call_id": shown["call_id"], "action": "approve", "expected_digest": other}
        assert (await server.decide(request, decisions=[one])).status_code == 409
        del one["expected_digest"]
        seen = {"If-Match": f'"{other}"'}
        assert (await server.decide(request, "approve", headers=seen)).status_code == 409
        assert (await server.decide(request, decisions=[one], headers=seen)).status_code == 409
        # What the header says is not made good by what the body says.
        right = {"expected_digest": shown["action_digest"]}
        assert (await server.decide(request, "approve", headers=seen, **right)).status_code == 409
        assert (await server.decide(request, decisions=[{**one, **right}], headers=seen)).status_code == 409
        assert (await server.request(task_id))["request_id"] == request["request_id"]
        assert not await server.items(task_id, "decision_recorded")
        assert (await server.decide(request, "approve")).status_code == 202
        decided = (await server.item(task_id, "decision_recorded"))["fact"]["decisions"][0]
        assert decided["action_digest"] == shown["action_digest"]
        started = await server.item(task_id, "tool_started")
        assert started["fact"]["action_digest"] == shown["action_digest"]


async def test_b1_the_policys_version_is_recorded_and_not_hashed(installation: Installation) -> None:
    """A neutral edit of the policy changes its version and no digest: the approval still holds."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        neutral = rule("nobody", "ask", ["cc_shell"], computers=["elsewhere"])
        changed = await server.change_policy(policy(LOOKING, CHANGING, RUNNING, neutral))
        assert changed["policy_version"] != request["policy_version"]
        answer = await server.decide(request, "approve", headers={"If-Match": f'"{request["action_digest"]}"'})
        assert answer.status_code == 202, answer.text
        await server.ended(task_id)
        assert server.stub.disk.file("a.lua") == b"print('new')\n"
        decided = await server.item(task_id, "decision_recorded")
        assert decided["fact"]["policy_version"] == changed["policy_version"]


# -- B2 ----------------------------------------------------------------------------------


async def test_b2_what_is_about_to_run_is_hashed_again(installation: Installation) -> None:
    """The rule behind an approval changed before it ran: `digest_mismatch`, nothing ran, it is shown anew."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        await installation.hang_up()
        assert (await server.decide(request, "approve")).status_code == 202
        stricter = {**CHANGING, "risk": "high"}
        await server.change_policy(policy(LOOKING, stricter, RUNNING))
        calls = calls_of(server.stub)
        await installation.dial()
        again = await _shown_anew(server, task_id, request, "digest_mismatch")
        assert again["risk"] == "high"
        assert again["action_digest"] != request["action_digest"]
        assert changes_in(calls) == []
        assert server.stub.disk.file("a.lua") == b"old\n"


# -- B3 ----------------------------------------------------------------------------------

GUARDED = rule("guarded", "ask", ["cc_run_program", "cc_shell"], programs=["danger.lua"], risk="critical")
ELSEWHERE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "write": (WRITE, {"path": "new/b.lua", "content": "print('x')\n"}),
    "write over": (WRITE, {"path": "hello.lua", "content": "print('x')\n"}),
    "edit": (call("cc_edit", path="a.lua", old="old", new="x"), {"path": "hello.lua", "old": "hello", "new": "x"}),
    "move": (call("cc_move", path="a.lua", to="y.lua"), {"path": "a.lua", "to": "z.lua"}),
    "move back": (call("cc_move", path="a.lua", to="y.lua"), {"path": "hello.lua", "to": "y.lua"}),
    "mkdir": (call("cc_mkdir", path="d"), {"path": "e"}),
    "delete": (call("cc_delete", path="a.lua"), {"path": "hello.lua"}),
    "run": (RUN, {"path": "danger.lua"}),
    "shell": (call("cc_shell", command="hello"), {"command": "danger"}),
    "shell in a shell": (call("cc_shell", command="hello"), {"command": "shell danger"}),
    "other words": (call("cc_shell", command="hello"), {"command": "hello 2"}),
}
"""Edits that touch another path or run another command, by the tool."""


def test_v1_each_tool_that_touches_paths_or_runs_is_edited() -> None:
    """The table below has every tool of the catalog that a model may call and that has a path or runs a program."""
    on_computers = {
        name
        for name, spec in BUILT_IN_CATALOG.items()
        if spec.governance.mutates
        and spec.plugin == "cc"
        and spec.judged_as is None
        and (spec.path_args or name in RUNNERS)
    }
    assert {made["tool"] for made, _ in ELSEWHERE.values()} == on_computers


@pytest.mark.thinned(4)
@pytest.mark.parametrize("kind", ELSEWHERE)
async def test_v1_an_edit_of_something_else_is_shown_first(installation: Installation, kind: str) -> None:
    """Another path, also an empty one, or another program: nothing runs until the new request is approved."""
    made, args = ELSEWHERE[kind]
    async with installation.open(Playing(says(made)), policy=policy(LOOKING, CHANGING, RUNNING, GUARDED)) as server:
        for program in ("danger.lua", "shell.lua"):
            server.stub.disk.put(program, b"print('it runs')\n")
        calls = calls_of(server.stub)
        task_id, request = await server.asked()
        edit = {"call_id": request["tool_calls"][0]["call_id"], "action": "edit", "args": args}
        assert (await server.decide(request, decisions=[edit])).status_code == 202
        again = await _shown_anew(server, task_id, request, "edited_target")
        (shown,) = again["tool_calls"]
        assert args.items() <= shown["args"].items()
        assert (again["risk"] == "critical") == ("danger" in str(args))
        assert changes_in(calls) == []
        assert not await server.items(task_id, "tool_started")


async def test_v1_an_edit_with_a_program_that_does_not_parse_is_shown_with_its_fault(
    installation: Installation,
) -> None:
    """A person wrote it: the model is not told of it in the person's place, and the fault stands in the new request."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        args = {"path": "b.lua", "content": "print('x'\n"}
        edit = {"call_id": request["tool_calls"][0]["call_id"], "action": "edit", "args": args}
        assert (await server.decide(request, decisions=[edit])).status_code == 202
        again = await _shown_anew(server, task_id, request, "edited_target")
        (shown,) = again["tool_calls"]
        assert "It does not parse yet: b.lua:2: ')' expected" in shown["observed"]["note"]
        assert (await server.decide(again, "approve")).status_code == 202
        await server.item(task_id, "tool_finished")
        assert server.stub.disk.file("b.lua") == b"print('x'\n"


@pytest.mark.thinned(3)
@pytest.mark.parametrize("changed", [{"name": "right"}, {"method": "clear"}, {"args": ["right", 64]}], ids=str)
async def test_v1_an_edit_that_does_something_else_to_a_peripheral_is_shown_first(
    installation: Installation, changed: dict[str, Any]
) -> None:
    """The request says what the peripheral of this name is, so another one is looked at; so are other arguments."""
    called: list[str] = []

    def noting(name: str) -> Any:
        return lambda *_: called.append(name)

    made = call("cc_peripheral_call", name="left", method="push", args=["right", 1])
    sides = {
        side: StubPeripheral((kind,), {one: noting(f"{side} {one}") for one in ("push", "clear")})
        for side, kind in (("left", "chest"), ("right", "monitor"))
    }
    asking = rule("peripherals", "ask", ["cc_peripheral_call"])
    async with installation.open(Playing(says(made)), policy=policy(LOOKING, asking)) as server:
        await server.connect("3", peripherals=sides, computer_id=3)
        task_id, request = await server.asked()
        args = {**made["args"], **changed}
        edit = {"call_id": request["tool_calls"][0]["call_id"], "action": "edit", "args": args}
        assert (await server.decide(request, decisions=[edit])).status_code == 202
        again = await _shown_anew(server, task_id, request, "edited_target")
        (shown,) = again["tool_calls"]
        assert shown["args"] == args
        assert ("monitor" in shown["observed"]["note"]) == ("name" in changed)
        assert called == []
        await server.decide(again, "approve")
        await server.ended(task_id)
        assert called == [f"{args['name']} {args['method']}"]


@pytest.mark.parametrize("there", [b"somebody's\n", None], ids=["edited", "deleted"])
async def test_b3_a_file_that_changed_since_is_not_written(installation: Installation, there: bytes | None) -> None:
    """The stored hash is of what the diff was made from; where the file differs, nothing runs and it is shown anew."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        assert request["tool_calls"][0]["observed"]["state"] == {"a.lua": sha256(b"old\n")}
        if there is None:
            del server.stub.disk.nodes["a.lua"]
        else:
            server.stub.disk.put("a.lua", there)
        await server.decide(request, "approve")
        finished = await server.item(task_id, "tool_finished")
        assert (finished["fact"]["ok"], finished["fact"]["code"]) == (False, "stale")
        again = await server.request(task_id, after=finished["version"])
        assert again["request_id"] != request["request_id"]
        observed = again["tool_calls"][0]["observed"]
        assert observed["state"] == {"a.lua": "absent" if there is None else sha256(there)}
        assert ("-somebody's" in observed["diff"]) == (there is not None)
        assert server.stub.disk.nodes.get("a.lua") == there


async def test_b3_absent_is_a_state_too(installation: Installation) -> None:
    """A new file is bound to its absence: one that appeared meanwhile is not overwritten."""
    write = call("cc_write", path="new.lua", content="print('x')\n")
    async with installation.open(Playing(says(write)), policy=policy()) as server:
        task_id, request = await server.asked()
        assert request["tool_calls"][0]["observed"]["state"] == {"new.lua": "absent"}
        server.stub.disk.put("new.lua", b"mine\n")
        await server.decide(request, "approve")
        finished = await server.item(task_id, "tool_finished")
        assert finished["fact"]["code"] == "stale"
        assert server.stub.disk.file("new.lua") == b"mine\n"


# -- B4 ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings(
    # asyncio forgets a connection that the kernel hands to a server which is closing: the proxy of this process.
    "ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning"
)
async def test_b4_the_hash_is_checked_where_the_file_is_written(tmp_path: Path) -> None:
    """The file changes while the write is on its way: the real client compares and writes in one call, and refuses.

    A server process and the real client; its store is SQLite, as no other outlives a process.
    """
    server = Process(tmp_path / "home")
    server.start()
    frames: list[Frame] = []
    try:
        async with proxy(server.port) as line, computer(server, tmp_path, line.url) as pc:

            async def meddle(frame: Frame) -> None:
                if frame.message.type == "call" and frame.message.method not in LOOKS:
                    pc.write("f.lua", b"theirs\n")
                    frames.append(frame)

            line.before = meddle
            pc.write("f.lua", b"mine\n")
            pc.boot()
            api = server.api()
            task_id = await api.submit(
                tool("cc_write", path="f.lua", content="print('wanted')\n"), computers=(pc.name,)
            )
            first = await api.first(task_id, "review_requested")
            await api.resume(first.request_id, "approve")
            finished = await api.first(task_id, "tool_finished")
            assert (finished.ok, finished.code) == (False, "stale")
            assert pc.read("f.lua") == b"theirs\n"
            (frame,) = frames
            assert frame.message.method == "fs_write"
            assert frame.message.params["if_hash"] == sha256(b"mine\n")
            assert frame.message.body.total == len(b"print('wanted')\n"), "they come with the hash that they replace"
            second = await api.first(task_id, "review_requested", 2)
            assert second.calls[0].observed.state == {"f.lua": sha256(b"theirs\n")}
    finally:
        await server.close()
        server.kill()


# -- B5, B6, B7: time and place --------------------------------------------------------------


async def test_b5_an_approval_waits_for_its_computer_and_no_longer_than_it_is_valid(installation: Installation) -> None:
    """Offline it is `approved_waiting_target`; after 15 minutes it is expired, and shown anew once it is back."""
    async with installation.open(Playing(says(WRITE)), policy=policy(), clock=ManualClock()) as server:
        task_id, request = await server.asked()
        await installation.hang_up()
        await server.decide(request, "approve")
        (waiting,) = (await server.task(task_id))["calls"]
        assert waiting["state"] == "approved_waiting_target"
        server.advance(899)
        assert not await server.items(task_id, "request_ended")
        server.advance(2)
        ended = await server.item(task_id, "request_ended")
        assert (ended["fact"]["end"], ended["fact"]["code"]) == ("expired", "approval_expired")
        calls = calls_of(server.stub)
        await installation.dial()
        again = await server.request(task_id, after=ended["version"])
        assert again["request_id"] != request["request_id"]
        assert changes_in(calls) == []
        assert not await server.items(task_id, "tool_started")


@pytest.mark.parametrize("what", ["token", "computer_id"])
async def test_b6_another_computer_of_the_same_name_is_not_the_one(installation: Installation, what: str) -> None:
    """Approved, and then another computer goes by this name: the approval is stale, and nothing runs there."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        await installation.hang_up()
        await server.decide(request, "approve")
        stub = server.stub
        if what == "token":
            vars(stub)["_token"] = await server.computer("3")
        else:
            vars(stub)["_computer_id"] = 77
            # One of another id is not let in at all, until a person says that this is meant: with the same token it is
            # a copy, with another one nobody can tell.
            first, second = vars(stub)["_token"], await server.computer("3")
            vars(stub)["_token"] = second
            for token, code in ((first, "copied"), (second, "frozen")):
                async with dialed(server.url, token) as other:
                    await other.send(hello(computer_id=77))
                    assert (await other.hear("refused"))[0].code == code
            assert (await server.ask("POST", "/v1/computers/3/release")).json()["released"]
        calls = calls_of(stub)
        await installation.dial()
        await _shown_anew(server, task_id, request, "computer_changed")
        assert changes_in(calls) == []


async def test_b6_a_reboot_is_not_another_computer(installation: Installation) -> None:
    """The same computer after a reboot: the approval holds."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        await installation.hang_up()
        await server.decide(request, "approve")
        vars(server.stub)["_boot"] = "another-boot"
        await installation.dial()
        await server.ended(task_id)
        assert server.stub.disk.file("a.lua") == b"print('new')\n"


async def test_b7_how_long_an_approval_holds_is_not_how_long_people_may_think(installation: Installation) -> None:
    """Approved just before its deadline: the approval outlives the deadline, for as long as approvals are valid."""
    requests = {"expires_s": {"medium": 100}, "approval_valid_s": 300}
    async with installation.open(Playing(says(WRITE)), policy=policy(requests=requests), clock=ManualClock()) as server:
        task_id, request = await server.asked()
        await installation.hang_up()
        server.advance(99)
        await server.decide(request, "approve")
        server.advance(290)
        decided = facts.DecisionRecorded.model_validate((await server.item(task_id, "decision_recorded"))["fact"])
        at = (await server.items(task_id, "decision_recorded"))[0].at
        assert decided.valid_until is not None
        assert (decided.valid_until - at).total_seconds() == 300
        await installation.dial()
        await server.ended(task_id)
        assert server.stub.disk.file("a.lua") == b"print('new')\n"


# -- B8, B9 --------------------------------------------------------------------------------


async def test_b8_a_tool_of_another_version_is_another_call(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool was upgraded while the task was paused: what was approved is stale, and is shown anew."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        old = BUILT_IN_CATALOG["cc_write"]
        # What a new release of the program does to its catalog.
        monkeypatch.setitem(BUILT_IN_CATALOG, "cc_write", old._replace(version=old.version + 1))
        await server.decide(request, "approve")
        again = await _shown_anew(server, task_id, request, "digest_mismatch")
        assert again["action_digest"] != request["action_digest"]
        assert server.stub.disk.file("a.lua") == b"old\n"
        await server.decide(again, "approve")
        await server.ended(task_id)
        assert server.stub.disk.file("a.lua") == b"print('new')\n"


async def test_b9_a_run_is_bound_to_the_programs_bytes(installation: Installation) -> None:
    """What runs is the text that was shown: a program with the same name and other bytes is shown anew."""
    async with installation.open(Playing(says(RUN)), policy=policy()) as server:
        task_id, request = await server.asked()
        (shown,) = request["tool_calls"]
        assert shown["observed"]["program"] == "hello.lua"
        assert shown["observed"]["state"] == {"hello.lua": sha256(b"print('hello')\n")}
        server.stub.disk.put("hello.lua", b"print('other')\n")
        calls = calls_of(server.stub)
        await server.decide(request, "approve")
        finished = await server.item(task_id, "tool_finished")
        assert finished["fact"]["code"] == "stale"
        (sent,) = (one for one in calls if one.method == "run_program")
        assert sent.params["if_hash"] == sha256(b"print('hello')\n")
        again = await server.request(task_id, after=finished["version"])
        await server.decide(again, "approve")
        await server.ended(task_id)
        done = (await server.items(task_id, "tool_finished"))[-1].fact
        assert isinstance(done, facts.ToolFinished)
        assert "other" in done.text
