"""The choices of a question: which ones a model may give, and which one an answer means."""

from typing import Any

import pytest

from orchestrator.core.errors import InvalidRequest, ReplyRefused
from orchestrator.core.reply.response import canonical_args
from orchestrator.core.task import facts
from orchestrator.core.task.choices import MAX_CHARS, MAX_CHOICES, chosen, how_to_answer, numbered
from orchestrator.core.task.commands import Answer, decide
from orchestrator.core.task.facts import QuestionId
from orchestrator.core.task.transcript import Transcript
from tests.core.journal import Journal
from tests.core.persons import done, real, shown

FARMS = ("the wheat farm", "the cactus farm", "12 blocks away")


def given(*options: Any) -> list[str]:
    """The choices as they are kept."""
    kept: list[str] = canonical_args("ask_user", {"question": "Which?", "options": list(options)})["options"]
    return kept


def test_a_question_takes_short_choices_of_one_line_each() -> None:
    assert given(" the\n wheat  farm ", "cactus") == ["the wheat farm", "cactus"]
    assert given(*(f"number {place}" for place in range(MAX_CHOICES)), *())[-1] == f"number {MAX_CHOICES - 1}"
    assert given("x" * MAX_CHARS) == ["x" * MAX_CHARS]
    assert given("1", "2", "10") == ["1", "2", "10"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([f"number {place}" for place in range(MAX_CHOICES + 1)], "at most 6"),
        (["x" * (MAX_CHARS + 1)], "at most 80 characters"),
        (["wheat", " \n "], "an option is empty"),
        (["wheat", "\u200b \u3164\u202e"], "an option is empty"),
        (["wheat", "Wheat "], "two options are the same"),
        (["5", "3", "1"], "an option is the number of another one"),
        ([3, 5], "must be text"),
        ("wheat", "a list"),
    ],
)
def test_choices_that_nobody_could_tell_apart_are_refused(options: Any, words: str) -> None:
    """The model is told what is wrong; the person is asked nothing."""
    with pytest.raises(ReplyRefused, match=words):
        canonical_args("ask_user", {"question": "Which?", "options": options})


def test_a_question_without_choices_is_the_call_that_it_was() -> None:
    """The digest of a call without choices is as before, so older nodes and journals agree."""
    assert canonical_args("ask_user", {"question": "Which?", "options": []}) == {"question": "Which?"}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("2", FARMS[1]),
        (" 3 \n", FARMS[2]),
        ("4", "4"),
        ("0", "0"),
        ("22", "22"),
        ("2 of them", "2 of them"),
        ("\N{ARABIC-INDIC DIGIT TWO}", "\N{ARABIC-INDIC DIGIT TWO}"),
        ("the wheat farm", "the wheat farm"),
    ],
)
def test_a_number_in_range_means_its_choice_and_all_else_is_the_answer(typed: str, meant: str) -> None:
    assert chosen(typed, FARMS) == meant
    assert chosen(typed, ()) == typed


def test_an_answer_that_shows_nothing_is_refused() -> None:
    """The question stays open, whichever way the answer came; the person is told what to type."""
    story = asking(*FARMS)
    for nothing in ("", " \n", "\u200b\ufeff"):
        with pytest.raises(InvalidRequest, match=r"The answer is empty. Answer in words, or with the number"):
            decide(story.task, Answer(question_id=QuestionId("u1"), answer=nothing))
    assert decide(story.task, Answer(question_id=QuestionId("u1"), answer="\u200b1"))


def test_a_person_is_shown_the_numbers_and_told_what_to_type() -> None:
    assert numbered("Which?", FARMS[:2]) == "Which?\n  1. the wheat farm\n  2. the cactus farm"
    assert numbered("Which?", ()) == "Which?"
    assert how_to_answer(FARMS) == "1 to 3 picks a choice, or use your own words"
    assert how_to_answer(FARMS[:1]) == "1 picks it, or use your own words"
    assert how_to_answer(()) == ""


def asking(*options: str) -> Journal:
    """A task with an open question."""
    story = Journal()
    args: dict[str, Any] = {"question": "Which?", **({"options": list(options)} if options else {})}
    story.proposed([real("a", "ask_user", computer=None, **args)], "allow")
    story.question("a")
    return story


def test_D20_the_model_gets_the_text_of_the_choice() -> None:
    """The number is what the person typed; the journal and the model have the words."""
    story = asking(*FARMS)
    made = decide(story.task, Answer(question_id=QuestionId("u1"), answer="2"))
    assert made == (facts.QuestionAnswered(question_id=QuestionId("u1"), answer=FARMS[1]),)
    plain = asking()
    assert decide(plain.task, Answer(question_id=QuestionId("u1"), answer="2")) == (
        facts.QuestionAnswered(question_id=QuestionId("u1"), answer="2"),
    )


def test_D20_a_number_in_place_of_the_result_means_the_choice_too() -> None:
    """A question that waits for approval may be answered at once."""
    story = shown(real("c1", "ask_user", computer=None, question="Which?", options=list(FARMS)))
    done(story, decisions=[{"call_id": "c1", "action": "respond", "answer": "1"}])
    assert story.task.turns[-1].calls[0].text == FARMS[0]


def test_the_log_shows_the_choices_below_the_question() -> None:
    story = Journal()
    fact = facts.QuestionAsked(
        question_id=QuestionId("u1"), call_id=facts.CallId("a"), question="Which?", options=FARMS[:2]
    )
    story.proposed([real("a", "ask_user", computer=None, question="Which?", options=list(FARMS[:2]))], "allow")
    story.add(fact)
    assert Transcript().lines(story.items[-1]) == ["[QUESTION] Which?\n  1. the wheat farm\n  2. the cactus farm"]
