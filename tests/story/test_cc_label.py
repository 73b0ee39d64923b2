"""``cc_label`` on the real client: it reads and sets, an older client is refused, and rules by label hold."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.policy import FunctionCall, PolicyContext, evaluate
from orchestrator.core.task import facts
from orchestrator.core.undo.touches import changes
from orchestrator.tools.deps import CCAgentDeps
from tests.harness.hub_server import HubServer, hub_server, observed, use
from tests.story.harness import Server, check_laws, ended, facts_of, final, tool
from tests.story.harness import computer as in_a_story
from tests.story.test_labels import guarded, labels, writes
from tests.tools.test_lua_tools import computer

__all__ = ["guarded"]
CONTEXT = PolicyContext(computer="3", family="turtle")


@pytest.fixture
async def server() -> AsyncIterator[HubServer]:
    async with hub_server() as opened:
        yield opened


async def test_the_label_is_read_and_set(server: HubServer, tmp_path: Path) -> None:
    """Its old one is told to the reviewer and in the result."""
    (tmp_path / "disk").mkdir()
    async with computer(server, tmp_path / "disk") as deps:
        assert await use("cc_label", deps) == "The label is none."
        seen = await observed("cc_label", deps, label="farm")
        assert seen.note == "The label is none. It becomes 'farm'; rules by label then look at both."
        assert await use("cc_label", deps, label="farm") == "The label was none and is 'farm' now."
        assert await use("cc_label", deps, label="x" * 32) == f"The label was 'farm' and is '{'x' * 32}' now."
        assert await use("cc_label", deps) == f"The label is '{'x' * 32}'."


async def test_stub_mode_has_no_label() -> None:
    deps = CCAgentDeps(mode="stub")
    assert "stub" in await use("cc_label", deps, label="farm")


@pytest.mark.parametrize(
    ("args", "plan", "effect"),
    [({}, False, "allow"), ({}, True, "allow"), ({"label": "farm"}, False, "ask"), ({"label": "farm"}, True, "deny")],
)
def test_reading_is_free_and_setting_asks(args: dict[str, Any], plan: bool, effect: str) -> None:
    context = CONTEXT.model_copy(update={"plan": plan})
    assert evaluate(FunctionCall(tool="cc_label", args=args), context=context).effect == effect


async def test_a_label_that_a_call_sets_counts_from_the_next_call_on(guarded: Server, tmp_path: Path) -> None:
    """Also once it is taken back; an undo says that the label stays."""
    api = guarded.api()
    async with in_a_story(guarded, tmp_path) as one:
        one.boot("--label=farm")
        calls = [tool("cc_label", label=label) for label in ("reactor 8", "farm")]
        assert "reactor" in await writes(api, one, *calls)
        assert one.read("late.txt") is None
        assert await labels(api, one.name) == ("farm", ["reactor 8"])
        items = await api.journal(await api.submit(calls[1], final(), computers=(one.name,)))
        check_laws(items)
        assert ended(items)
        (done,) = facts_of(items, facts.ToolFinished)
        assert done.text == "The label was 'farm' and is 'farm' now."
        (kept,) = changes(items, {}).untold
        assert kept.what.endswith("the result of the call names the old one.")
