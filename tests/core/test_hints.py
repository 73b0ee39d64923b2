"""Rules with the effect ``hint``: what counts as an attempt of the user."""

import pytest

from orchestrator.core.policy import Effect, RiskLevel, check_for_intervention, evaluate, load_policy
from orchestrator.core.task import facts
from orchestrator.core.task.hints import NO_HINTS
from orchestrator.core.wire.wire import ComputerId
from tests.core.journal import Journal, call, requested
from tests.core.policies import write

FARM, MINE = ComputerId("farm"), ComputerId("mine")
HINTS = 'rules = []\n[[rules]]\nid = "h"\neffect = "hint"\ntools = ["cc_write"]\n'


def test_hint_is_stricter_than_ask_and_weaker_than_deny() -> None:
    """And a program that asks whether a person has to decide hears yes."""
    asks = '[[rules]]\nid = "a"\neffect = "ask"\ntools = ["cc_write"]\n'
    denies = asks.replace("ask", "deny").replace('"a"', '"d"')
    hints = HINTS.removeprefix("rules = []\n")
    assert evaluate(write(), policy=load_policy(hints + asks)).effect is Effect.HINT
    assert evaluate(write(), policy=load_policy(hints + denies)).effect is Effect.DENY
    assert check_for_intervention(write(), policy=load_policy(hints))
    assert not check_for_intervention(write(), policy=load_policy(denies))


def test_a_file_that_somebody_else_changed_is_released() -> None:
    """The first explanation counts; a file of that name on another computer is another one."""
    explained = NO_HINTS.after_explaining(FARM, {"a.lua": "1"}).after_explaining(FARM, {"a.lua": "2", "b.lua": "1"})
    assert not NO_HINTS.releases(FARM, {"a.lua": "1"})
    assert not explained.releases(FARM, {"a.lua": "1"})
    assert explained.releases(FARM, {"a.lua": "2"})
    assert explained.releases(FARM, {"b.lua": "1", "a.lua": "3"})
    assert not explained.releases(MINE, {"a.lua": "2"})
    assert not explained.releases(FARM, {})
    assert explained.after_trying(FARM, {"a.lua": "2"}).releases(FARM, {"a.lua": "1"})


def test_what_the_model_changed_is_no_attempt_of_its_user() -> None:
    """What was explained there counts no more; what the user has tried stays released."""
    explained = NO_HINTS.after_explaining(FARM, {"a.lua": "1"})
    assert not explained.after_changing(FARM).releases(FARM, {"a.lua": "2"})
    assert explained.after_changing(MINE) is explained
    assert explained.after_trying(FARM, {"a.lua": "2"}).after_changing(FARM).releases(FARM, {"a.lua": "9"})


@pytest.mark.parametrize(("tool", "kept"), [("cc_read", True), ("cc_run_program", False)])
def test_the_journal_keeps_account_of_it(tool: str, kept: bool) -> None:
    """From the end of a call to the next look, also where another call ran in between."""
    story = Journal()
    story.proposed([call("c1", path="a.lua", computer="farm")], "hint")
    ended = facts.RequestEnded(
        request_id=None,
        end="superseded",
        call_ids=(facts.CallId("c1"),),
        reason="try",
        code="hint",
        seen={"a.lua": "1"},
    )
    story.add(ended)
    assert story.task.hints.releases(FARM, {"a.lua": "2"})
    story.proposed([call("c2", tool, path="b.lua", computer="farm")], "allow")
    story.started("c2")
    story.finished("c2")
    assert story.task.hints.releases(FARM, {"a.lua": "2"}) is kept
    story.proposed([call("c3", path="a.lua", computer="farm")], "hint")
    asked = facts.ReviewRequested(
        request_id=facts.RequestId("q"),
        reason="approval",
        calls=(requested("c3", effect="hint"),),
        risk=RiskLevel.MEDIUM,
        policy_version="v1",
    )
    story.add(asked)
    assert story.task.hints.tried
