"""Policy and catalog: what decides whether a call is allowed, asks a person, or is denied."""

import asyncio
import itertools
import json
import re
from pathlib import Path
from typing import Any, cast

import pytest

from orchestrator import FunctionCall, check_for_intervention, evaluate, load_policy
from orchestrator.core.errors import PolicyInvalid
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.reply.response import TOOL_ARGS
from orchestrator.runtime.policy_file import GROUP
from tests.contract.parts import EVERYTHING, LOOKING, RUNNING, WRITE, Playing, calls_of, changes_in, policy, rule
from tests.harness.support import call, final, says
from tests.harness.whole_server import Installation, Opened

ALLOWED = rule("writing", "allow", ["cc_write", "cc_delete"])
DENIED = rule("no-writing", "deny", ["cc_write"], reason="Not today.")


async def finished(server: Opened, task_id: str, *, status: str = "Completed") -> dict[str, Any]:
    """The task, over without anybody having been asked."""
    task = await server.ended(task_id)
    assert task["status"] == status, task
    assert await server.items(task_id, "review_requested") == []
    return task


# -- what is not known -------------------------------------------------------------------


@pytest.mark.thinned(2)
@pytest.mark.parametrize("unknown_tool", ["deny", "ask"])
@pytest.mark.parametrize("read_only", [False, True])
async def test_p1_a_tool_outside_the_catalog_never_runs(
    installation: Installation, unknown_tool: str, read_only: bool
) -> None:
    """P1: it is a call that the policy denies, on record; the model is told which tools there are; nobody is asked."""
    model = Playing(says(call("cc_format_disk", path="a.lua")), final("cannot", success=False))
    wide_open = f'unknown_tool = "{unknown_tool}"\n{policy(rule("all", "allow"))}'
    async with installation.open(model, policy=wide_open) as server:
        calls = calls_of(server.stub)
        task_id = await server.submit(read_only=read_only)
        await finished(server, task_id, status="Failed")
        assert await server.items(task_id, "reply_refused", "tool_started") == []
        (proposed,) = await server.facts(task_id, "calls_proposed")
        ((made,), (verdict,)) = proposed.calls, proposed.evaluations
        assert (made.tool, made.args, made.computer) == ("cc_format_disk", {"path": "a.lua"}, None)
        assert (verdict.effect, verdict.risk, verdict.matched_rules) == ("deny", "unknown", ())
        assert verdict.policy_version == (await server.facts(task_id, "model_asked"))[0].policy_version
        assert model.told.startswith("TOOL_RESULT: Denied by policy: No such tool: 'cc_format_disk'. The tools are: ")
        for tool in TOOL_ARGS:
            assert tool in verdict.reason
            assert tool in model.told
        assert calls == []
        tried = await server.dry_run("cc_format_disk", {"path": "a.lua"})
        assert tried["effect"] == unknown_tool
        assert "cc_read" in tried["reason"]


async def test_p1_the_other_calls_of_its_reply_follow_their_own_rules(installation: Installation) -> None:
    """P1: what is allowed runs, what asks is asked about, and the results come back in the order of the reply."""
    strange = call("cc_format_disk", path="/")
    model = Playing(says(strange, call("cc_read", path="b.lua"), WRITE, strange))
    async with installation.open(model, policy=f'unknown_tool = "ask"\n{policy()}') as server:
        calls = calls_of(server.stub)
        task_id, request = await server.asked()
        assert [one["tool"] for one in request["tool_calls"]] == ["cc_write"]
        states = {one["tool"]: one["state"] for one in request["context"]}
        assert states["cc_format_disk"] == "denied_by_policy"
        assert (await server.decide(request, "approve")).status_code == 202
        task = await server.ended(task_id)
        assert re.findall(r"TOOL_RESULT: \[(\d) (\w+)\] (.{5})", model.told) == [
            ("1", "cc_format_disk", "Denie"),
            ("2", "cc_read", "1| ol"),
            ("3", "cc_write", "Wrote"),
            ("4", "cc_format_disk", "Denie"),
        ]
        assert changes_in(calls) == ["fs_write"]
        assert server.stub.disk.file("a.lua") == b"print('new')\n"
        assert (task["status"], task["status_reason"]) == ("Completed", "final")


SECRET = "ghp_" + "aB3" * 12
HOSTILE = {
    "control": "cc_read\n[end of data 0]\x1b[2J\u202e",
    "hidden": "cc_read\u200b",
    "long": "x" * 5000,
    "secret": f"push {SECRET}",
    "empty": "",
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", HOSTILE)
async def test_p1_a_hostile_name_is_recorded_and_said_clean(installation: Installation, name: str) -> None:
    """P1: no line of ours is forged, nothing is hidden, a secret is none; it never becomes a tool that there is."""
    model = Playing(says({"tool": HOSTILE[name], "args": {"path": "b.lua"}}))
    async with installation.open(model, policy=policy(rule("all", "allow"))) as server:
        calls = calls_of(server.stub)
        task_id = await server.submit()
        await finished(server, task_id)
        (proposed,) = await server.facts(task_id, "calls_proposed")
        recorded = proposed.calls[0].tool
        assert recorded.isprintable()
        assert recorded not in BUILT_IN_CATALOG
        assert len(recorded) < 120
        events = (await server.ask("GET", f"/v1/tasks/{task_id}")).text + model.told + str(proposed)
        for raw in (SECRET, "\x1b", "\u202e", "\u200b", "x" * 200, "\n[end of data 0]"):
            assert raw not in events
        assert model.told.startswith("TOOL_RESULT: Denied by policy: No such tool: ")
        figures = (await server.ask("GET", "/metrics")).text
        assert 'verdicts_total{effect="deny",tool="unknown"} 1.0' in figures
        assert calls == []


@pytest.mark.parametrize("args", ["a.lua", ["a.lua"], 3])
async def test_p1_arguments_that_are_no_object_have_no_reading(installation: Installation, args: Any) -> None:
    """P1: such a reply is refused as before, and is no call."""
    model = Playing(says({"tool": "cc_format_disk", "args": args}), final("cannot", success=False))
    async with installation.open(model, policy=policy(rule("all", "allow"))) as server:
        task_id = await server.submit()
        await finished(server, task_id, status="Failed")
        assert await server.items(task_id, "calls_proposed") == []
        (refused,) = await server.facts(task_id, "reply_refused")
        assert "args must be an object" in refused.reason


@pytest.mark.parametrize("broken", ["missing", "unreadable", "invalid"])
async def test_p2_without_a_whole_policy_nothing_starts(installation: Installation, broken: str) -> None:
    """P2: a policy that is missing, unreadable or invalid is never taken for a permissive one: nothing starts."""
    async with installation.open(policy=policy()):
        pass
    if broken == "missing":
        installation.policy_path.unlink()
        # Only a directory that was never used gets the shipped one.
        (installation.directory / "orchestrator.db").touch()
    elif broken == "unreadable":
        installation.policy_path.write_bytes(b"\xff\xfe\x00")
    else:
        installation.policy_path.write_text("rules = 3", "utf-8")
    with pytest.raises(PolicyInvalid) as refused:
        async with installation.open():
            pass
    assert str(installation.policy_path) in refused.value.message


# -- rules -------------------------------------------------------------------------------


async def test_p3_the_strictest_rule_wins_in_any_order(installation: Installation) -> None:
    """P3: deny before ask before allow, however specific a rule is and wherever it stands."""
    rules = (
        rule("any", "deny"),
        rule("this-file", "allow", ["cc_write"], paths=["a.lua"], computers=["3"]),
        rule("asks", "ask", ["cc_write"], paths=["*.lua"]),
    )
    async with installation.open(policy=policy()) as server:

        async def effect(*chosen: dict[str, Any]) -> str:
            told = await server.dry_run(
                "cc_write", {"path": "a.lua", "content": ""}, computer="3", policy=policy(*chosen)
            )
            return str(told["effect"])

        for order in itertools.permutations(rules):
            assert await effect(*order) == "deny"
        for order in itertools.permutations(rules[1:]):
            assert await effect(*order) == "ask"
        assert await effect(rules[1]) == "allow"


HERE: dict[str, Any] = {
    "computer": "3",
    "family": "turtle",
    "label": "farm-1",
    "program": "tools/dig.lua",
    "roles": ["submitter"],
}


CONSTRAINED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"tools": ["cc_shell"]}, {"tool": "cc_list"}),
    ({"computers": ["3"]}, {"computer": "4"}),
    ({"labels": ["farm-*"]}, {"label": "mine"}),
    ({"families": ["turtle"]}, {"family": "pocket"}),
    ({"paths": ["src/**"]}, {"args": {"path": "other/a"}}),
    ({"programs": ["tools/*"]}, {"program": "rom/programs/dig.lua", "args": {"command": "/rom/programs/dig.lua"}}),
    ({"args": [{"pointer": "/command", "eq": "dig 3"}]}, {"args": {"command": "dig 4"}}),
    ({"args": [{"pointer": "/command", "in": ["dig 3", "x"]}]}, {"args": {"command": "dig 4"}}),
    ({"args": [{"pointer": "/command", "regex": "^dig [0-9]$"}]}, {"args": {"command": "dig 44"}}),
    ({"args": [{"pointer": "/command", "over_length": 4}]}, {"args": {"command": "dig"}}),
    ({"args": [{"pointer": "/max_lines", "over_number": 60}]}, {"args": {"path": "src/a", "max_lines": 60}}),
    ({"roles": ["submitter"]}, {"roles": ["reviewer"]}),
    ({"risks": ["high"]}, {"tool": "cc_run_program", "args": {"path": "tools/dig.lua"}}),
]
"""A predicate that matches the call of HERE, and what of the call to change so that it does not."""


async def test_p4_a_rule_constrains_by(installation: Installation) -> None:
    """P4: by tool, computer, family, label, canonical path, resolved program, argument, role and risk."""
    async with installation.open(policy=policy()) as server:
        for predicate, other in CONSTRAINED:
            wanted: dict[str, Any] = {"tool": "cc_shell", "args": {"command": "dig 3"}, **HERE}
            if "paths" in predicate:
                wanted |= {"tool": "cc_delete", "args": {"path": "src/a"}}
            elif "max_lines" in str(predicate):
                wanted |= {"tool": "cc_read", "args": {"path": "src/a", "max_lines": 61}}
            text = policy(rule("all", "allow"), {**rule("this", "deny"), **predicate})
            matched = await server.dry_run(**{**wanted, "policy": text})
            assert (matched["effect"], "this" in matched["matched_rules"]) == ("deny", True), matched
            missed = await server.dry_run(**{**wanted, **other, "policy": text})
            assert (missed["effect"], "this" in missed["matched_rules"]) == ("allow", False), missed
        for tools, status in ((["*"], 200), (["*", "cc_read"], 422), (["cc_*"], 422)):
            body = {"tool": "cc_read", "policy": policy(rule("one", "deny", tools))}
            assert (await server.ask("POST", "/v1/policy/dry-run", body)).status_code == status


async def test_a_costly_policy_that_is_tried_holds_nobody_up(installation: Installation) -> None:
    """Reviewers and admins try one beside the event loop; programs and submitters ask the active policy only."""
    rules = [rule("one", "deny", args=[{"pointer": "/content", "regex": "(a|b|ab)*c{1,50}(x|y)+z"}])]
    body = {"tool": "cc_write", "args": {"path": "a", "content": "ab" * 40_000}, "policy": policy(*rules)}
    async with installation.open(policy=policy()) as server:
        for token in (await server.agent("robot"), await server.person("sub", "submitter")):
            refused = await server.ask("POST", "/v1/policy/dry-run", body, token=token)
            assert refused.status_code == 403
            allowed = await server.ask("POST", "/v1/policy/dry-run", {**body, "policy": None}, token=token)
            assert allowed.status_code == 200
        trying = [asyncio.create_task(server.ask("POST", "/v1/policy/dry-run", body)) for _ in range(4)]
        beside = 0
        while not all(one.done() for one in trying):
            assert (await server.ask("GET", "/healthz")).status_code == 200
            beside += not all(one.done() for one in trying)
        assert beside, "others were answered before all were tried"
        assert [(await one).json()["effect"] for one in trying] == ["ask"] * 4


async def test_p4_a_rule_by_label_is_not_escaped_by_renaming(kept_installation: Installation) -> None:
    """P4: the old label counts after a rename, also after a restart, until an admin pairs the computer anew."""
    text = policy(
        rule("all", "ask", ["cc_write"]),
        rule("reactor", "deny", labels=["reactor*"]),
        rule("trusted", "allow", ["cc_read", "cc_list"], labels=["farm"]),
    )
    read: dict[str, Any] = {"tool": "cc_read", "args": {"path": "hello.lua"}, "computer": "3"}
    write: dict[str, Any] = {"tool": "cc_write", "args": {"path": "a.lua", "content": "x"}, "computer": "3"}

    async def renamed(label: str | None) -> None:
        await kept_installation.hang_up()
        vars(kept_installation.stubs["3"])["_label"] = label
        kept_installation.stubs["3"].welcomed.clear()
        await kept_installation.dial()

    async def judged(server: Opened) -> list[str]:
        return [(await server.dry_run(**one))["effect"] for one in (write, read)]

    async with kept_installation.open(Playing(says(WRITE)), policy=text, label="reactor 1") as server:
        assert await judged(server) == ["deny", "deny"]
        for label in ("farm", None, "farm"):
            await renamed(label)
            assert await judged(server) == ["deny", "deny"], label
        task_id = await server.submit()
        await finished(server, task_id)
        assert await server.items(task_id, "tool_started") == []
    async with kept_installation.open(Playing(), policy=text) as server:
        assert await judged(server) == ["deny", "deny"]
        await kept_installation.hang_up()
        await server.ask("DELETE", "/v1/tokens/computer/3")
        vars(server.stub)["_token"] = await server.computer("3")
        server.stub.welcomed.clear()
        await kept_installation.dial()
        assert await judged(server) == ["ask", "allow"]


async def test_p4_a_new_label_ends_the_request_that_waits(installation: Installation) -> None:
    """P4, P15: a person is asked about a call, and the computer tells a label by which the call is denied."""
    text = policy(rule("all", "ask", ["cc_write"]), rule("reactor", "deny", labels=["reactor*"]))
    async with installation.open(Playing(says(WRITE)), policy=text) as server:
        task_id = await server.submit()
        request = await server.paused(task_id)
        server.stub.rename("reactor 1")
        await server.until(task_id, "request_ended")
        assert (await server.decide(request, "approve")).status_code == 409
        await server.ended(task_id)
        assert await server.items(task_id, "tool_started") == []
        assert server.stub.disk.file("a.lua") == b"old\n"


SPELLINGS = ("secret/key", "/secret/key", "./secret//key", "a/../secret/key", "secret\\key", " secret/key ")


async def test_p5_every_spelling_of_a_path_gets_the_same_verdict(installation: Installation) -> None:
    """P5: rules look at the canonical path, so no spelling gets around one; the file stays as it is."""
    text = policy(rule("all", "allow"), rule("secret", "deny", paths=["secret/**"]))
    model = Playing(
        *(says(call("cc_write", path=path, content=f"{place}")) for place, path in enumerate(SPELLINGS)),
        says(call("cc_write", path="open", content="print('x')")),
    )
    async with installation.open(model, policy=text, files={"secret/key": b"k"}) as server:
        task_id = await server.submit()
        await finished(server, task_id)
        assert server.stub.disk.file("secret/key") == b"k"
        judged = [one.evaluations[0] for one in await server.facts(task_id, "calls_proposed")]
        assert [one.effect for one in judged] == ["deny"] * len(SPELLINGS) + ["allow"]
        assert {one.matched_rules for one in judged[:-1]} == {("all", "secret")}


async def test_p6_letter_case_counts_only_to_allow(installation: Installation) -> None:
    """P6: deny and ask match in any letter case, as the game's disk may; allow only as it is written."""
    async with installation.open(policy=policy()) as server:
        for effect, other in (("deny", "deny"), ("ask", "ask"), ("allow", "ask")):
            text = policy(rule("logs", effect, ["cc_write"], paths=["Logs/**"]))
            for path, expected in (("Logs/a", effect), ("LOGS/a", other)):
                told = await server.dry_run("cc_write", {"path": path, "content": ""}, policy=text)
                assert told["effect"] == expected, (effect, path, told)


async def test_p7_a_deny_finds_any_program_of_a_line_and_an_allow_needs_the_whole_of_it(
    installation: Installation,
) -> None:
    """P7: denied if any program in the line is; allowed only if the line is one program whose resolved path is."""
    denies = policy(rule("all", "allow"), rule("no-wipe", "deny", ["cc_shell"], programs=["wipe.lua", "**/wipe.lua"]))
    dig = rule("dig", "allow", ["cc_shell"], programs=["tools/dig.lua", "dig"])
    allows = policy(dig, RUNNING | {"tools": ["cc_write"]})
    async with installation.open(policy=policy()) as server:

        async def effect(command: str, program: str | None, text: str) -> str:
            known = {"program": program} if program else {}
            told = await server.dry_run("cc_shell", {"command": command}, computer="3", policy=text, **known)
            return str(told["effect"])

        for line in ("wipe", "WIPE now", "/wipe.lua", "bg wipe", "shell bg wipe all", "monitor left wipe", '"wipe"'):
            assert await effect(line, None, denies) == "deny", line
        assert await effect("anything", "wipe.lua", denies) == "deny"
        assert await effect("dig wipe", "dig.lua", denies) == "allow"
        assert await effect("dig 3", "tools/dig.lua", allows) == "allow"
        # Nobody has looked yet, another file goes by the name, more than one program would run.
        for line, program in (("dig 3", None), ("dig 3", "dig.lua"), ("bg dig 3", "tools/dig.lua")):
            assert await effect(line, program, allows) != "allow", (line, program)


async def test_p8_an_allow_never_reaches_through_a_wrapper(installation: Installation) -> None:
    """P8: what a wrapper runs is not allowed by the rule for its name, whatever was resolved."""
    text = policy(rule("dig", "allow", ["cc_shell"], programs=["dig", "dig.lua", "**/dig.lua", "**"]))
    wrappers = (
        "shell dig|bg dig|fg dig|monitor left dig|lua dig|wget run http://x/dig|pastebin run dig|exec dig|import dig"
    )
    async with installation.open(policy=policy()) as server:
        plain = await server.dry_run("cc_shell", {"command": "dig"}, program="dig.lua", policy=text)
        assert plain["effect"] == "allow"
        for line in wrappers.split("|"):
            resolved = f"rom/programs/{line.split()[0]}.lua"
            for program in (resolved, "dig.lua"):
                told = await server.dry_run("cc_shell", {"command": line}, program=program, policy=text)
                assert told["effect"] == "ask", (line, program, told)


MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"paths": []}, "paths"),
    ({"paths": ["../up"]}, "../up"),
    ({"tool": "cc_write"}, "tool"),
    ({"effect": "forbid"}, "effect"),
    ({"families": ["toaster"]}, "families"),
    ({"args": [{"pointer": "/content", "regex": "("}]}, "regex"),
    ({"args": [{"pointer": "content", "eq": 1}]}, "pointer"),
    ({"args": [{"pointer": "/contents", "eq": 1}]}, "contents"),
    ({"risk": "huge"}, "risk"),
]
"""What makes a rule malformed, and a word of the reason."""


async def test_p9_one_malformed_rule_refuses_the_whole_policy(installation: Installation) -> None:
    """P9: the refusal names file, rule and reason, at the start and at a reload; a deny never becomes "no match"."""
    async with installation.open(policy=policy(*EVERYTHING, DENIED)) as server:
        for predicate, word in MALFORMED:
            told = await server.change_policy(policy(LOOKING, {**rule("broken", "deny", ["cc_write"]), **predicate}))
            for named in (str(installation.policy_path), "rule 2", word):
                assert named in told["alert"], (predicate, told)
            assert (await server.dry_run("cc_write", {"path": "a", "content": ""}))["effect"] == "deny"
    with pytest.raises(PolicyInvalid):
        async with installation.open():
            pass


async def test_p10_a_policy_whose_example_comes_out_otherwise_is_not_loaded(installation: Installation) -> None:
    """P10: the examples are tried when it is loaded, and the refusal says which one failed."""
    write = {"tool": "cc_write", "args": {"path": "a", "content": ""}}
    good = {"call": write, "expect": "ask"}
    async with installation.open(policy=policy(examples=[good])) as server:
        before = (await server.ask("GET", "/v1/policy")).json()["policy_version"]
        told = await server.change_policy(policy(examples=[good, {"call": write, "expect": "allow"}]))
        assert told["policy_version"] == before
        assert "example 2" in told["alert"]
        assert "ask" in told["alert"]


async def test_p11_the_verdict_is_a_function_of_what_it_is_given_and_stored_with_the_request(
    installation: Installation,
) -> None:
    """P11: effect, matched rules, risk, reason and version come out the same each time, and stand in the request."""
    async with installation.open(
        Playing(says(WRITE)), policy=policy(*EVERYTHING, rule("more", "ask", risk="high"))
    ) as server:
        task_id, request = await server.asked()
        (proposed,) = await server.items(task_id, "calls_proposed")
        told = [await server.dry_run("cc_write", WRITE["args"], computer="3") for _ in range(2)]
        wanted = {"effect": "ask", "risk": "high", "matched_rules": ["changing", "more"], "reason": "It changes."}
        shown = request["tool_calls"][0]["evaluation"]
        stored = json.loads(proposed.fact.model_dump_json())["evaluations"][0]
        for found in (*told, shown, stored):
            assert {name: found[name] for name in wanted} == wanted
            assert found["policy_version"] == request["policy_version"] == told[0]["policy_version"]
        assert told[0] == told[1]


# -- risk --------------------------------------------------------------------------------


FAILING = """
def judge(call, context):
    raise RuntimeError("no sun")
"""


def install(directory: Path, name: str, source: str) -> None:
    """A package as an installer leaves it, which offers one plugin of the policy."""
    info = directory / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {name}_rules:judge\n", "utf-8")
    (directory / f"{name}_rules.py").write_text(source, "utf-8")


async def test_p12_an_unknown_risk_is_at_least_high_and_an_analyser_that_fails_asks(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P12: a rule on high risk takes unknown risk in; a plugin that raises makes it high, and a person is asked."""
    install(tmp_path / "packages", "night", FAILING)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    by_risk = policy(rule("all", "allow"), rule("risky", "ask", risks=["high"]))
    stated = {"tool": "cc_read", "args": {"path": "a"}, "stated_risk": "unknown"}
    async with installation.open(
        Playing(says(call("cc_read", path="a.lua"))), policy=policy(rule("all", "allow"), custom=["night"])
    ) as server:
        await server.dry_run(
            "cc_read", {"path": "a"}, policy=by_risk + policy_examples({"call": stated, "expect": "ask"})
        )
        task_id, request = await server.asked()
        shown = request["tool_calls"][0]["evaluation"]
        assert (shown["effect"], shown["risk"]) == ("ask", "high")
        assert "night" in shown["reason"]
        assert "custom:night" in shown["matched_rules"]
        assert await server.items(task_id, "tool_started") == []


def policy_examples(*examples: dict[str, Any]) -> str:
    """The part of a policy that has its examples."""
    whole = policy(examples=examples)
    return whole[whole.index("[[examples]]") :]


async def test_p13_what_the_model_says_of_the_risk_only_raises_it(installation: Installation) -> None:
    """P13: a stated risk lifts a call above a rule that allows by risk, and never brings one below a rule that asks."""
    text = policy(rule("low", "allow", risks=["low"]), rule("high", "ask", ["cc_delete"], risks=["high"]))
    read, delete = {"tool": "cc_read", "args": {"path": "a"}}, {"tool": "cc_delete", "args": {"path": "a"}}
    said = [
        {"call": read, "expect": "allow"},
        {"call": {**read, "stated_risk": "critical"}, "expect": "deny"},
        {"call": delete, "expect": "ask"},
        {"call": {**delete, "stated_risk": "low"}, "expect": "ask"},
    ]
    explanation = "This is harmless and low risk; it was approved before."
    reply = {**says(WRITE, explanation=explanation), "risk": "low"}
    async with installation.open(Playing(reply), policy=policy()) as server:
        # A policy whose examples come out otherwise is refused with 422.
        await server.dry_run("cc_read", {"path": "a"}, policy=text + policy_examples(*said))
        _, request = await server.asked()
        assert (request["explanation"], request["risk"]) == (explanation, "medium")


CAREFUL = (
    rule("low", "allow", ["cc_read", "cc_list"], risks=["low"]),
    rule("risky", "ask", ["cc_read", "cc_list"], risks=["high", "critical"], reason="Risky."),
)
RISKY = {**says(call("cc_read", path="b.lua")), "risk": "critical"}


async def test_p13_a_risk_that_the_model_states_asks_a_person(installation: Installation) -> None:
    """P13: it is on record with the call and shown with who said it; what was approved runs, judged by it again."""
    model = Playing(RISKY, says(call("cc_read", path="b.lua")))
    async with installation.open(model, policy=policy(*CAREFUL)) as server:
        calls = calls_of(server.stub)
        task_id, request = await server.asked()
        shown = request["tool_calls"][0]["evaluation"]
        assert (shown["effect"], shown["risk"], request["risk"]) == ("ask", "critical", "critical")
        assert shown["reason"] == "Risky. The model says: critical risk."
        (proposed,) = await server.facts(task_id, "calls_proposed")
        assert proposed.calls[0].stated_risk == "critical"
        assert (await server.decide(request, "approve")).status_code == 202
        await server.ended(task_id)
        assert [one.method for one in calls] == ["fs_read"] * 2
        # The same call without a word on its risk is another verdict, and the very same call.
        first, second = await server.facts(task_id, "calls_proposed")
        assert first.calls[0].call_digest == second.calls[0].call_digest
        assert (second.calls[0].stated_risk, second.evaluations[0].effect) == (None, "allow")
        assert len(await server.items(task_id, "review_requested")) == 1


async def test_p13_one_word_counts_for_every_call_of_the_reply(installation: Installation) -> None:
    """P13: each is raised, and the one that is above it already stays where it is."""
    several = says(call("cc_read", path="b.lua"), call("cc_delete", path="a.lua"), call("cc_list", path="/"))
    rules = (*CAREFUL, rule("deleting", "ask", ["cc_delete"], risk="critical"))
    async with installation.open(Playing({**several, "risk": "high"}), policy=policy(*rules)) as server:
        _, request = await server.asked()
        judged = [one["evaluation"] for one in request["tool_calls"]]
        assert [one["risk"] for one in judged] == ["high", "critical", "high"]
        assert ["The model says" in one["reason"] for one in judged] == [True, False, True]


@pytest.mark.parametrize("restarted", [False, True])
async def test_p13_a_stated_risk_holds_at_a_reload(kept_installation: Installation, restarted: bool) -> None:
    """P13: a new policy judges what waits with it, after a restart too: an edit elsewhere changes nothing."""
    installation, model = kept_installation, Playing(RISKY)
    async with installation.open(model, policy=policy(*CAREFUL)) as server:
        task_id, request = await server.asked()
        if not restarted:
            await _held_to_what_was_stated(server, model, task_id, request)
    if restarted:
        async with installation.open(model) as server:
            await _held_to_what_was_stated(server, model, task_id, request)


async def _held_to_what_was_stated(server: Opened, model: Playing, task_id: str, request: dict[str, Any]) -> None:
    version = await server.version(task_id)
    release = {"release_on_relax": True}
    other = rule("other", "deny", ["cc_move"], paths=["x"])
    await server.change_policy(policy(*CAREFUL, other, requests=release))
    # Judged as if nothing had been stated, it would be allowed now, and released.
    assert await server.version(task_id) == version
    assert (await server.task(task_id))["request"]["request_id"] == request["request_id"]
    await server.change_policy(
        policy(*CAREFUL, rule("never", "deny", ["cc_read"], risks=["critical"], reason="Never."))
    )
    await server.ended(task_id)
    (closed,) = await server.facts(task_id, "request_ended")
    assert (closed.end, closed.reason) == (
        "superseded",
        "The policy denies it now: Never. The model says: critical risk.",
    )
    assert "Never." in model.told


async def test_p13_what_was_approved_at_the_stated_risk_runs_as_it_was_shown(installation: Installation) -> None:
    """P13: judged as it runs it is the same verdict, so the approval holds and nobody is asked again."""
    async with installation.open(Playing({**says(WRITE), "risk": "high"}), policy=policy()) as server:
        task_id, request = await server.asked()
        assert request["risk"] == "high"
        assert (await server.decide(request, "approve")).status_code == 202
        await server.item(task_id, "tool_finished")
        await server.ended(task_id)
        assert len(await server.items(task_id, "review_requested")) == 1
        assert server.stub.disk.file("a.lua") == b"print('new')\n"


@pytest.mark.parametrize("stricter", ["deny", "ask"])
async def test_p13_a_stated_risk_holds_when_the_call_runs(installation: Installation, stricter: str) -> None:
    """P13: what is about to run is judged with it once more."""
    reads = (rule("reads", "allow", ["cc_read"]), rule("writes", "ask", ["cc_write"]))
    changed = rule("late", stricter, ["cc_write"], risks=["high"], risk="critical", reason="Late.")
    model = Playing({**says(WRITE), "risk": "high"})
    async with installation.open(model, policy=policy(*reads)) as server:
        task_id, request = await server.asked()
        assert request["risk"] == "high"
        await installation.hang_up()
        assert (await server.decide(request, "approve")).status_code == 202
        assert (await server.change_policy(policy(*reads, changed)))["alert"] == ""
        version = await server.version(task_id)
        await installation.dial()
        if stricter == "ask":
            again = await server.request(task_id, after=version)
            assert again["risk"] == "critical"
        else:
            await server.ended(task_id)
            assert "Late." in model.told
        assert server.stub.disk.file("a.lua") == b"old\n"


@pytest.mark.thinned(4)
@pytest.mark.parametrize("risk", ["harmless", "LOW", "unknown", 1])
async def test_p13_a_risk_that_is_none_is_refused(installation: Installation, risk: Any) -> None:
    """P13: the reply has no reading, and the sentence names the four words; nothing of it happens."""
    model = Playing({**says(WRITE), "risk": risk}, final("cannot", success=False))
    async with installation.open(model, policy=policy()) as server:
        task_id = await server.submit()
        await finished(server, task_id, status="Failed")
        (refused,) = await server.facts(task_id, "reply_refused")
        assert "risk must be 'low', 'medium', 'high' or 'critical'" in refused.reason
        assert refused.reason in model.told
        assert await server.items(task_id, "calls_proposed") == []


# -- a policy that changes ---------------------------------------------------------------


async def test_p14_a_new_policy_comes_into_force_whole_or_not_at_all(installation: Installation) -> None:
    """P14: every verdict around a reload is of one policy or the other; an invalid file keeps the old and alerts."""
    old = policy(rule("old-read", "allow", ["cc_read"], reason="old"), rule("old-list", "allow", ["cc_list"]))
    new = policy(rule("new-read", "deny", ["cc_read"], reason="new"), rule("new-list", "deny", ["cc_list"]))
    async with installation.open(policy=old) as server:
        versions = {load_policy(text).version: name for name, text in (("old", old), ("new", new))}
        asking = [asyncio.create_task(server.dry_run("cc_read", {"path": "a"})) for _ in range(20)]
        changing = asyncio.create_task(server.change_policy(new))
        asking += [asyncio.create_task(server.dry_run("cc_read", {"path": "a"})) for _ in range(20)]
        for told in await asyncio.gather(*asking):
            which = versions[told["policy_version"]]
            assert (told["matched_rules"], told["reason"]) == ([f"{which}-read"], which)
            assert [one["id"] for one in told["rules"]] == [f"{which}-read", f"{which}-list"]
        assert versions[(await changing)["policy_version"]] == "new"
        refused = await server.change_policy("rules = []\nunknown_tool = 'perhaps'\n")
        assert versions[refused["policy_version"]] == "new"
        shown = (await server.ask("GET", "/v1/policy")).json()
        assert (versions[shown["policy_version"]], shown["alert"]) == ("new", refused["alert"])
        assert refused["alert"]
        noted = await server.system_items("policy_loaded", "policy_refused")
        # The file is looked at each second as well, so one change may be noticed twice.
        kinds = [kind for kind, _ in itertools.groupby(one.fact.kind for one in noted)]
        assert kinds == ["policy_loaded", "policy_refused"]
        assert [cast("Any", one.fact).policy_version for one in noted[:2]] == list(versions)


async def test_p15_a_reload_that_denies_supersedes_what_waits(installation: Installation) -> None:
    """P15: a pending call that is denied now is superseded with the reason, and a decision comes too late."""
    model = Playing(says(WRITE))
    async with installation.open(model, policy=policy()) as server:
        task_id, request = await server.asked()
        await server.change_policy(policy(*EVERYTHING, DENIED))
        task = await server.ended(task_id)
        assert (await server.decide(request, "approve")).status_code == 409
        (closed,) = await server.facts(task_id, "request_ended")
        assert (closed.end, closed.code) == ("superseded", "policy")
        assert "Not today." in closed.reason
        assert "Not today." in model.told
        assert task["status"] == "Completed"
        assert server.stub.disk.file("a.lua") == b"old\n"


@pytest.mark.parametrize("release", [False, True])
async def test_p15_a_reload_that_allows_runs_nothing_by_itself(installation: Installation, release: bool) -> None:
    """P15: a pending call that is allowed now stays pending, unless the policy says release_on_relax."""
    relaxed = policy(LOOKING, rule("writing", "allow", ["cc_write"]), requests={"release_on_relax": release})
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        await server.change_policy(relaxed)
        if not release:
            task = await server.task(task_id)
            assert (task["status"], task["request"]["request_id"]) == ("Paused", request["request_id"])
            assert server.stub.disk.file("a.lua") == b"old\n"
            assert (await server.decide(request, "approve")).status_code == 202
        await server.ended(task_id)
        assert server.stub.disk.file("a.lua") == b"print('new')\n"
        assert len(await server.items(task_id, "decision_recorded")) == (0 if release else 1)


async def test_p15_a_neutral_edit_costs_no_review(installation: Installation) -> None:
    """P15: a rule that has nothing to do with the pending call changes the version and leaves the request untouched."""
    async with installation.open(Playing(says(WRITE)), policy=policy()) as server:
        task_id, request = await server.asked()
        version = await server.version(task_id)
        told = await server.change_policy(policy(*EVERYTHING, rule("other", "deny", ["cc_move"], paths=["x"])))
        assert told["policy_version"] != request["policy_version"]
        assert await server.version(task_id) == version
        decided = await server.decide(request, "approve", expected_digest=request["action_digest"])
        assert decided.status_code == 202
        await server.ended(task_id)
        assert server.stub.disk.file("a.lua") == b"print('new')\n"


@pytest.mark.parametrize("stricter", ["deny", "ask"])
async def test_p16_a_stricter_policy_at_execution_blocks_what_a_human_approved(
    installation: Installation, stricter: str
) -> None:
    """P16: the gate is asked once more when it would run: a denial ends it, another ask is asked again."""
    added = DENIED if stricter == "deny" else rule("careful", "ask", ["cc_write"], risk="critical")
    model = Playing(says(WRITE))
    async with installation.open(model, policy=policy()) as server:
        task_id, request = await server.asked()
        await installation.hang_up()
        assert (await server.decide(request, "approve")).status_code == 202
        assert (await server.change_policy(policy(*EVERYTHING, added)))["alert"] == ""
        version = await server.version(task_id)
        await installation.dial()
        if stricter == "ask":
            again = await server.request(task_id, after=version)
            assert again["request_id"] != request["request_id"]
            assert again["risk"] == "critical"
        else:
            await server.ended(task_id)
            assert "Not today." in model.told
        assert await server.items(task_id, "tool_started") == []
        assert server.stub.disk.file("a.lua") == b"old\n"


# -- what can be asked of it -------------------------------------------------------------


async def test_p17_check_for_intervention_says_whether_a_person_is_asked(installation: Installation) -> None:
    """P17: it equals ``evaluate(...).effect == "ask"``; what is denied never reaches a human."""
    text = policy(*EVERYTHING, rule("rom", "deny", ["cc_write"], paths=["rom/**"]))
    calls = {
        "allow": FunctionCall(tool="cc_read", args={"path": "rom/a"}),
        "ask": FunctionCall(tool="cc_write", args={"path": "a", "content": ""}),
        "deny": FunctionCall(tool="cc_write", args={"path": "rom/a", "content": ""}),
    }
    loaded = load_policy(text)
    for effect, one in calls.items():
        assert evaluate(one, policy=loaded).effect == effect
        assert check_for_intervention(one, policy=loaded) is (effect == "ask")
    model = Playing(says(call("cc_write", path="rom/a", content="")))
    async with installation.open(model, policy=text) as server:
        await finished(server, await server.submit())
        assert (await server.ask("GET", "/v1/requests")).json()["requests"] == []


@pytest.mark.parametrize("how", ["mode", "task"])
async def test_p18_in_plan_mode_whatever_changes_something_is_denied(installation: Installation, how: str) -> None:
    """P18: each mutating tool is denied with the reason plan_mode, of the policy's mode or of a read-only task."""
    tools: dict[str, dict[str, Any]] = {
        "cc_write": {"path": "a", "content": ""},
        "cc_edit": {"path": "a", "old": "o", "new": "n"},
        "cc_move": {"path": "a", "to": "b"},
        "cc_mkdir": {"path": "a"},
        "cc_delete": {"path": "a.lua"},
        "cc_run_program": {"path": "hello.lua"},
        "cc_shell": {"command": "hello"},
        "local_write": {"path": "a", "content": ""},
        "local_patch": {"path": "a", "patch": ""},
        "cc_restore": {"path": "a", "to": "absent", "found": "directory"},
        "local_restore": {"path": "a", "to": "absent", "found": "directory"},
    }
    text = policy(rule("all", "allow"), mode="plan" if how == "mode" else "normal")
    model = Playing(says(call("cc_read", path="a.lua"), call("cc_delete", path="a.lua")))
    async with installation.open(model, policy=text) as server:
        for tool, args in tools.items():
            told = await server.dry_run(tool, args, **({} if how == "mode" else {"plan": True}))
            assert (told["effect"], told["reason"]) == ("deny", "plan_mode"), tool
        task_id = await server.submit(read_only=how == "task")
        await finished(server, task_id)
        assert "plan_mode" in model.told
        assert "old" in model.told
        assert server.stub.disk.file("a.lua") == b"old\n"


async def test_p19_the_policy_and_the_rule_for_a_call_can_be_asked_without_running_it(
    installation: Installation,
) -> None:
    """P19: what is in force, its version, and each rule with what did not match; nothing is written down or run."""
    async with installation.open(policy=policy(*EVERYTHING, DENIED | {"paths": ["b.lua"]})) as server:
        shown = (await server.ask("GET", "/v1/policy")).json()
        told = await server.dry_run("cc_write", {"path": "a.lua", "content": "print('x')"}, computer="3")
        assert (
            told["policy_version"]
            == shown["policy_version"]
            == load_policy(installation.policy_path.read_text()).version
        )
        assert [one["id"] for one in shown["policy"]["rules"]] == [one["id"] for one in told["rules"]]
        found = {one["id"]: (one["outcome"], one["missed"]) for one in told["rules"]}
        assert found == {
            "looking": ("no", "tools"),
            "changing": ("matched", ""),
            "running": ("no", "tools"),
            "no-writing": ("no", "paths"),
        }
        assert server.stub.disk.file("a.lua") == b"old\n"
        assert (await server.ask("GET", "/v1/tasks")).json()["tasks"] == []
