"""Plugins of the policy: real entry points of a package on the path, and every way in which one can be wrong."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.core.errors import PolicyInvalid
from orchestrator.core.policy import Effect, FunctionCall, PolicyContext, evaluate
from orchestrator.runtime.policy_file import GROUP, load_plugins, load_with_plugins

MODULE = """
from orchestrator.core.policy import CustomVerdict, Effect

def night(call, context):
    if call.tool == "cc_delete":
        return CustomVerdict(effect=Effect.DENY, reason="Not at night.")

number = 5
"""
ENTRY_POINTS = f"""[{GROUP}]
night = nightly_rules:night
number = nightly_rules:number
gone = nightly_rules:gone
broken = nightly_rules_that_are_not_there:night
twice = nightly_rules:night

[{GROUP}.other]
else = nightly_rules:night
"""
POLICY = """custom = ["night"]
rules = [{ id = "a", effect = "allow", tools = ["*"] }]
examples = [{ call = { tool = "cc_delete", args = { path = "a" } }, expect = "deny" }]
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two installed packages, as an installer leaves them: one with plugins, one with a name that is taken."""
    for name, points in (("nightly", ENTRY_POINTS), ("rival", f"[{GROUP}]\ntwice = rival_rules:night\n")):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
        (info / "entry_points.txt").write_text(points, "utf-8")
    (tmp_path / "nightly_rules.py").write_text(MODULE, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield
    sys.modules.pop("nightly_rules", None)


def test_p12_a_policy_names_plugins_and_they_are_loaded_with_it() -> None:
    """The examples are checked with them, and evaluate takes them as they come."""
    policy, custom = load_with_plugins(POLICY)
    assert [one.name for one in custom] == ["night"]
    context = PolicyContext(computer="3", family="computer")
    delete = FunctionCall(tool="cc_delete", args={"path": "a"})
    judged = evaluate(delete, policy=policy, context=context, custom=custom)
    assert (judged.effect, judged.reason, judged.matched_rules) == (Effect.DENY, "Not at night.", ("a", "custom:night"))
    write = FunctionCall(tool="cc_write", args={"path": "a", "content": ""})
    assert evaluate(write, policy=policy, context=context, custom=custom).effect is Effect.ALLOW


def test_a_policy_without_plugins_has_none() -> None:
    """Nothing is looked for, and a name that stands twice is loaded once."""
    assert load_with_plugins("rules = []")[1] == ()
    assert len(load_plugins(["night", "night"])) == 1


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nigth", "my.toml: there is no plugin 'nigth'; installed are: broken, gone, night, number, twice."),
        ("else", "my.toml: there is no plugin 'else'"),
        ("number", "my.toml: the plugin 'number' (nightly_rules:number) is not a function."),
        ("gone", "my.toml: the plugin 'gone' (nightly_rules:gone) cannot be loaded: "),
        ("broken", "my.toml: the plugin 'broken' (nightly_rules_that_are_not_there:night) cannot be loaded: No module"),
        ("twice", "my.toml: two plugins are called 'twice': nightly_rules:night and rival_rules:night."),
    ],
)
def test_p9_a_plugin_that_cannot_be_used_refuses_the_policy(name: str, sentence: str) -> None:
    """File, plugin and reason, before anything is judged without it."""
    with pytest.raises(PolicyInvalid) as refused:
        load_with_plugins(POLICY.replace("night", name), source="my.toml")
    assert sentence in refused.value.message
    assert refused.value.remedy
