"""Every tool has one whole record: a part that is missing fails here, by the name of the tool."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import FrameRefused, OrchestratorError
from orchestrator.core.model_view.rows import rest_of
from orchestrator.core.policy import (
    BUILT_IN_CATALOG,
    MIXED,
    Effect,
    FunctionCall,
    PolicyContext,
    ToolSpec,
    default_policy,
    evaluate,
    load_policy,
)
from orchestrator.core.policy.tool_args import ALL_TOOL_ARGS, OnComputer
from orchestrator.core.reply.response import TOOL_ARGS
from orchestrator.core.reply.schema import reply_schema
from orchestrator.core.wire import wire
from orchestrator.core.wire.link import ComputerLink
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.tools.registry import TOOL_REGISTRY, Tool
from orchestrator.tools.workspace import DirectoryWorkspace
from tests import ROOT

EACH = pytest.mark.parametrize("spec", BUILT_IN_CATALOG.values(), ids=lambda spec: spec.name)
OF_MODELS = pytest.mark.parametrize("spec", [BUILT_IN_CATALOG[name] for name in TOOL_ARGS], ids=lambda spec: spec.name)
ASKS_NO_COMPUTER = {"cc_docs"}
HELLO: Mapping[str, Any] = {
    "protocol": 1,
    "computer_id": 1,
    "host": "x",
    "family": "computer",
    "boot": "b",
    "client": "c",
}


def greeted(*capabilities: str) -> ComputerLink:
    """A link to a computer that is welcome and can do this."""
    link = ComputerLink(0)
    seen: Mapping[str, Any] = {"highest": 0, "journal_seq": 0, "capabilities": capabilities}
    link.receive(wire.encode(wire.Hello(**HELLO, **seen)), 0)
    link.welcome(number=1, computer="1")
    return link


def test_the_registry_and_the_records_are_of_the_same_tools() -> None:
    """What is derived has each tool once, in the order of the records."""
    assert list(TOOL_REGISTRY) == list(BUILT_IN_CATALOG) == list(ALL_TOOL_ARGS)
    assert set(ALL_TOOL_ARGS) - set(TOOL_ARGS) == {"cc_restore", "local_restore"}
    assert len(set(ALL_TOOL_ARGS.values())) == len(ALL_TOOL_ARGS)


@EACH
def test_a_record_says_what_a_call_takes(spec: ToolSpec) -> None:
    """A model with a sentence for the prompt, and arguments of its own in each part that names some."""
    model = ALL_TOOL_ARGS[spec.name]
    fields = set(model.model_fields)
    assert (model.__doc__ or "").strip().endswith((".", "1"))
    assert issubclass(model, OnComputer) is (spec.plugin == "cc")
    assert spec.plugin == (spec.name.partition("_")[0] if spec.name.startswith(("cc_", "local_")) else "people")
    assert {*spec.path_args, *spec.text_args, *filter(None, [spec.edits])} <= fields
    assert ("path" in fields) is ("path" in spec.path_args)
    model.model_validate(dict(spec.example))
    assert spec.example or not fields - {"computer"}, "an example is missing"


@EACH
def test_a_record_says_what_a_person_decides_and_what_an_undo_does(spec: ToolSpec) -> None:
    """What changes something asks, shows a reviewer what it touches, and is taken back or says why not."""
    tool = TOOL_REGISTRY[spec.name]
    assert spec.governance.mutates is spec.governance.requires_hitl is (spec.recovery != "pure")
    assert (tool.observe is not None) is spec.governance.mutates, "what a reviewer is shown"
    assert bool(spec.undo) is (spec.recovery == "once" and not spec.runs), "what an undo says"
    assert not spec.undo or spec.undo.endswith(".")
    assert (tool.settle is not None) is (tool.left is not None) is (spec.plugin == "local" and spec.changes_files)
    assert spec.name in MIXED or not spec.mixed
    assert rest_of(spec.name).how == spec.rest


@EACH
def test_a_function_is_bound_to_its_record(spec: ToolSpec) -> None:
    """It has the name of the tool and a sentence."""
    tool: Tool = TOOL_REGISTRY[spec.name]
    assert (tool.name, tool.spec, tool.plugin, tool.recovery) == (spec.name, spec, spec.plugin, spec.recovery)
    assert getattr(tool.function, "__name__", "") == spec.name
    assert tool.function.__doc__


@OF_MODELS
def test_the_shipped_policy_speaks_of_each_tool(spec: ToolSpec) -> None:
    """Looks are allowed; what changes something asks, and a mixed call asks unless a rule says that it reads."""
    context = PolicyContext(computer="3", family="turtle") if spec.plugin == "cc" else PolicyContext()
    assert any(spec.name in rule.tools for rule in default_policy().rules)
    verdict = evaluate(FunctionCall(tool=spec.name, args=dict(spec.example)), context=context)
    reads = spec.mixed and verdict.effect is Effect.ALLOW
    assert verdict.effect is (Effect.ASK if spec.governance.mutates and not reads else Effect.ALLOW)
    if spec.rule:
        (rule,) = load_policy(spec.rule).rules
        assert rule.tools == (spec.name,)
        assert bool(rule.reads) is spec.mixed
        assert tomllib.loads(spec.rule)["rules"][0]["reason"]


@EACH
def test_an_older_client_is_not_sent_what_it_does_not_know(spec: ToolSpec) -> None:
    """A record names its methods, and each one that is later than the first ones needs its capability."""
    assert bool(spec.methods) is (spec.plugin == "cc" and spec.name not in ASKS_NO_COMPUTER)
    for number, method in enumerate(spec.methods):
        call: dict[str, Any] = {"run_id": f"c{number}.1", "task_id": "t", "number": 2, "method": method, "params": {}}
        greeted(method).call(**call)
        if method not in wire.FIRST_METHODS:
            with pytest.raises(FrameRefused, match="too old for this: it was not sent"):
                greeted("chunks").call(**call)


@OF_MODELS
async def test_stub_mode_answers_each_tool(spec: ToolSpec, tmp_path: Path) -> None:
    """Without a computer: the answer to the example and what a reviewer is shown, or a refusal of its own."""
    if spec.edits == "patch":
        return  # its example is empty, so that a person writes the patch
    files = {"startup.lua": "print('hello')\n", "a.lua": "x", "old.lua": "x"}
    workspace = DirectoryWorkspace(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    deps = CCAgentDeps(mode="stub", file_cache=files, workspace=workspace)
    tool = TOOL_REGISTRY[spec.name]
    try:
        if tool.observe is not None:
            await tool.observe(deps, **spec.example)
        assert await tool(deps, **spec.example)
    except OrchestratorError as error:
        pytest.fail(f"stub mode does not answer {spec.name}: {error}")


def test_what_models_and_the_page_are_told_has_each_tool() -> None:
    """The schema of a reply and the list of the page derive from the records."""
    schema = reply_schema()
    assert [call["properties"]["tool"]["const"] for call in schema["anyOf"][0]["properties"]["tool_call"]["anyOf"]] == [
        *TOOL_ARGS
    ]
    page = (ROOT / "orchestrator/web/console/lib/tools.js").read_text("utf-8")
    assert re.findall(r"^  (\w+): \{$", page, re.MULTILINE) == list(TOOL_ARGS)
