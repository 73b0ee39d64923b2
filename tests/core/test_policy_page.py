"""docs/policy.md says what a policy file is: its examples load, and it names every key that there is."""

import re
from typing import Any, get_args

import pytest

from orchestrator.core.approval.workflow import Step
from orchestrator.core.policy import (
    CustomPolicy,
    Effect,
    ExampleCall,
    Expiry,
    Family,
    FunctionCall,
    Policy,
    PolicyRule,
    RequestRules,
    RiskLevel,
    evaluate,
    load_policy,
)
from orchestrator.core.policy.approvals import ApprovalRule, When
from orchestrator.core.policy.command_line import ALIASES
from orchestrator.core.policy.match import MAX_TEXT_CHARS
from orchestrator.core.policy.rules import ArgRule
from tests import ROOT

PAGE = (ROOT / "docs" / "policy.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", blocks("toml"), ids=lambda block: block.splitlines()[0])
def test_p10_every_example_of_the_page_loads(block: str) -> None:
    """As it stands there; a block about settings alone has no rules."""
    assert load_policy(block if "[[rules]]" in block else f"rules = []\n{block}", source="docs/policy.md")


def test_the_page_names_every_key() -> None:
    """Of a file, a rule, a test, a request and an example."""
    keys: set[str] = {"pointer", "in"}
    for model in (Policy, PolicyRule, ArgRule, RequestRules, Expiry, ExampleCall, ApprovalRule, When, Step):
        keys |= {field.alias or name for name, field in model.model_fields.items()}
    keys -= {"rules", "examples", "call", "requests"}
    assert not {key for key in keys if not re.search(rf"[`({{\[ ]{key}\b[^\n]*", PAGE) and f"\n{key} =" not in PAGE}
    for known in (*get_args(Family), *RiskLevel, *Effect, *ALIASES):
        assert f"`{known}`" in PAGE, known
    assert f"{MAX_TEXT_CHARS:,} characters" in PAGE


def test_the_defaults_of_the_page_are_the_ones_of_the_code() -> None:
    """The table of requests has each default, and the block shows them."""
    told = dict(re.findall(r"^\| `([a-z_]+)` \| `?([a-z0-9_]+)`? \| ", PAGE, flags=re.MULTILINE))
    for name, value in RequestRules().model_dump(by_alias=True, exclude={"expiry", "on_reject"}).items():
        assert told[name] == str(value).lower(), name
    (block,) = [one for one in blocks("toml") if one.startswith("[requests]")]
    shown = load_policy(f"rules = []\n{block}").requests
    assert shown.model_copy(update={"on_reject": None, "expiry": RequestRules().expiry}) == RequestRules()
    assert all(shown.expires_s(risk) == RequestRules().expires_s(risk) for risk in RiskLevel)


def test_the_plugin_of_the_page_works() -> None:
    """It asks for what it is about, and is silent otherwise."""
    (source,) = blocks("python")
    names: dict[str, Any] = {}
    exec(source, names)
    custom = [CustomPolicy("web-watch", names["judge"])]
    rules = load_policy('rules = [{ id = "a", effect = "allow", tools = ["*"] }]')
    for content, effect in (("http.get('x')", Effect.ASK), ("print()", Effect.ALLOW)):
        call = FunctionCall(tool="cc_write", args={"path": "a", "content": content})
        assert evaluate(call, policy=rules, custom=custom).effect is effect
