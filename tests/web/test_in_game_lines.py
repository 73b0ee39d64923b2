"""What of a task is shown on a computer's screen: short lines in the game's letters, from every kind of item."""

import json

import pytest

from orchestrator.core.task import facts
from orchestrator.core.task.facts import CANNOT_BE_KNOWN
from orchestrator.core.undo.wanted import Restoration
from orchestrator.web.in_game.commands import ASKS_A_MINUTE, WITHIN_S, Limits, Rate
from orchestrator.web.in_game.lines import Narrator, as_body, in_game
from tests.core.journal import Journal, call, decision, verdict


async def told(story: Journal) -> list[tuple[str, str]]:
    """The lines of a whole journal, after what was submitted."""
    narrator = Narrator("bob")
    lines = [line for item in story.items for line in await narrator.lines(item)]
    return [(line.kind, line.text) for line in lines[1:]]


async def test_a_step_from_the_model_to_its_result() -> None:
    """What it says, what it calls, who decides and what came of it; long arguments by their length."""
    story = Journal()
    story.proposed([call("c1", path="farm.lua", content="x" * 100, append=True)], "ask")
    story.reviewed("c1")
    story.decided(decision("c1"))
    story.started("c1")
    story.finished("c1", text="\n".join(f"row {n}" for n in range(20)))
    assert await told(story) == [
        ("say", "I look first."),
        ("tool", "cc_write farm.lua, append: true, content: 100 characters"),
        ("wait", "cc_write waits for approval by bob (risk: medium), outside the game."),
        ("note", "alice: approve cc_write"),
        ("out", "row 0\nrow 1\nrow 2\nrow 3\n... 14 rows ...\nrow 18\nrow 19"),
    ]


async def test_what_an_undo_does_is_said_to_be_planned_and_for_whom() -> None:
    """No model says it."""
    story = Journal()
    story.submitted(restores=Restoration(task_id="t0"))
    restore = call("c1", "cc_restore", path="farm.lua", to="absent")
    story.add(facts.CallsProposed(explanation="1 removed.", calls=(restore,), evaluations=(verdict("allow"),)))
    assert await told(story) == [
        ("note", "Planned by the orchestrator for alice: 1 removed."),
        ("tool", "cc_restore farm.lua, to: absent"),
    ]


async def test_what_goes_on_is_said_below() -> None:
    """The model thinks, a tool runs, it goes on; nothing while a person is waited for, or at the end."""
    story, narrator, doing = Journal(), Narrator("bob"), []
    story.proposed([call("c1")], "ask")
    story.reviewed("c1")
    story.decided(decision("c1"))
    story.started("c1")
    story.finished("c1")
    story.ended()
    for item in story.items:
        await narrator.lines(item)
        doing.append(narrator.doing)
    assert doing == [
        "waiting for its turn",
        "the model thinks (step 1 of 20)",
        "going on",
        "going on",
        "",
        "going on",
        "running cc_write",
        "running cc_write",
        "",
    ]


async def test_what_is_denied_or_unknown_is_said() -> None:
    """A verdict against it, and a call of which nobody knows what became of it."""
    story = Journal()
    story.proposed([call("c1"), call("c2")], "deny", "allow")
    story.started("c2")
    story.settled("c2", "unknown", reason="It rebooted.")
    story.reviewed("c2", reason="outcome_unknown")
    lines = await told(story)
    assert ("bad", "Denied by policy: a rule says so") in lines
    assert ("wait", "cc_write: unknown. It rebooted.") in lines
    assert lines[-1] == ("wait", "Nobody knows what became of cc_write: bob has to look, outside the game.")
    asked = story.items[-1].fact
    assert isinstance(asked, facts.ReviewRequested)
    found = asked.calls[0].observed.model_copy(update={"note": CANNOT_BE_KNOWN})
    again = asked.model_copy(update={"calls": (asked.calls[0].model_copy(update={"observed": found}),)})
    (line,) = await Narrator("bob").lines(story.sealed(again))
    assert line.text.startswith("It cannot be known what became of c2: bob looks, and marks or retries it")


@pytest.mark.parametrize(
    ("status", "reason", "verified", "line"),
    [
        ("Completed", "final", True, ("good", "Done. The model says: it runs")),
        ("Completed", "applied", None, ("good", "Done: it runs")),
        (
            "Completed", "unverified", False,
            ("bad", "Unverified, because the journal does not support it. The model says: it runs"),
        ),
        ("Failed", "final", None, ("bad", "Failed. The model says: it runs")),
        ("Failed", "max_steps", None, ("bad", "Failed: it runs")),
    ],
)  # fmt: skip
async def test_the_end(status: str, reason: str, verified: bool | None, line: tuple[str, str]) -> None:
    """A success that the journal does not support is shown as none; the model's own sentence is marked as that."""
    story = Journal()
    story.submitted()
    story.ended(status, reason, message="it runs", verified=verified)
    assert await told(story) == [line]
    shown = facts.Finding(not_run=("a.lua",))
    story = Journal()
    story.submitted()
    story.ended(status, reason, message="it runs", verified=verified, finding=shown)
    assert (await told(story))[:2] == [
        ("note", "What the journal shows:"),
        ("note", "not run since it was changed: a.lua"),
    ]


async def test_a_limit_is_told_once() -> None:
    """With the end that it means: a screen of the game is small."""
    story = Journal()
    story.submitted()
    story.add(facts.LimitReached(limit="max_steps", detail="Too far."))
    story.ended("Failed", "max_steps", message="Too far.")
    assert await told(story) == [("bad", "Failed: Too far.")]


async def test_secrets_and_hidden_signs_are_not_shown_however_long_the_text() -> None:
    """Also what is looked through away from the event loop; other alphabets become question marks."""
    story = Journal()
    story.proposed([call("c1")], "allow")
    story.started("c1")
    secret = "ghp_" + "a1B2" * 9
    story.finished("c1", text=f"{secret} \x1b[2J \N{SNOWMAN}\t{'word ' * 10_000}")
    (line,) = [text for kind, text in await told(story) if kind == "out"]
    assert secret[:10] not in line
    assert "\\u{1b}[2J ? word" in line
    assert len(line) <= 300


def test_a_body_is_ascii_and_one_letter_is_one_byte() -> None:
    """As the client's own JSON reads it."""
    assert as_body([{"is": "say", "text": in_game("caf\xe9 \u20ac")}]) == b'[{"is":"say","text":"caf\\u00e9 ?"}]'
    assert json.loads(as_body(["\n"])) == ["\n"]


def test_signs_of_print_are_shown_as_they_are_typed() -> None:
    """Models write them, and the game's charset lacks them."""
    assert in_game("\u201cGr\xfcn\u201d \u2013 ok\u2026 \u2192 don\u2019t") == '"Gr\xfcn" - ok... -> don\'t'


def test_a_rate_is_for_each_computer_and_comes_back() -> None:
    """So many in a minute; the rest is told how long to wait, and asking again costs nothing."""
    limits = Limits()
    assert [limits.wait_s("3", "ask", float(n)) for n in range(ASKS_A_MINUTE)] == [0.0] * ASKS_A_MINUTE
    assert limits.wait_s("3", "ask", 10.0) == limits.wait_s("3", "ask", 10.0) == WITHIN_S - 10.0
    assert limits.wait_s("3", "tasks", 10.0) == limits.wait_s("4", "ask", 10.0) == 0.0
    assert limits.wait_s("3", "ask", WITHIN_S) == 0.0


def test_a_rate_remembers_so_many_computers_and_no_more() -> None:
    """The one that asked longest ago makes room."""
    rate = Rate(1)
    for number in range(10_001):
        assert rate.wait_s(str(number), 1.0) == 0.0
    assert rate.wait_s("10000", 1.0) == WITHIN_S
    assert rate.wait_s("0", 1.0) == 0.0


async def test_a_success_that_has_to_be_shown_is_told_in_few_words() -> None:
    """What the model is told is for the model."""
    story = Journal()
    story.submitted()
    story.asked()
    story.replied()
    story.add(facts.ReplyRefused(reason="You say success, but nothing was changed or run.", because="unproven"))
    assert (await told(story))[-1] == ("note", "It says that it is done, and is asked to show it.")
