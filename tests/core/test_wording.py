"""What was wrong with a value or with replies, in words for a person, without the words of pydantic."""

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator

from orchestrator.core.errors import plain
from orchestrator.core.model_view.prompt import unread


class Inner(BaseModel):
    """A part."""

    deep: int = 0


class Form(BaseModel):
    """One field of each kind."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=3)
    count: int = Field(default=1, ge=1, le=9)
    share: float = Field(default=0.5, gt=0, lt=1, allow_inf_nan=False)
    sure: bool = True
    where: Path = Path("x")
    words: tuple[str, ...] = Field(default=("a",), min_length=1, max_length=2)
    table: dict[str, int] = {}
    inner: Inner = Inner()
    side: Literal["left", "right"] = "left"
    at: AwareDatetime | None = None

    @field_validator("name")
    @classmethod
    def _no_x(cls, value: str) -> str:
        if value == "x":
            raise ValueError("x is taken.")
        return value


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({}, "name is missing"),
        ({"nope": 1}, "nope is not known"),
        ({"name": 3}, "name must be text"),
        ({"name": ""}, "name must not be empty"),
        ({"name": "long"}, "name must have at most 3 characters"),
        ({"name": "x"}, "name: x is taken"),
        ({"count": "many"}, "count must be a whole number"),
        ({"count": 1.5}, "count must be a whole number"),
        ({"count": []}, "count must be a whole number"),
        ({"count": 0}, "count must be at least 1"),
        ({"count": 10}, "count must be at most 9"),
        ({"share": "much"}, "share must be a number"),
        ({"share": []}, "share must be a number"),
        ({"share": float("nan")}, "share must be a finite number"),
        ({"share": 0}, "share must be more than 0.0"),
        ({"share": 1}, "share must be less than 1.0"),
        ({"sure": "perhaps"}, "sure must be true or false"),
        ({"sure": []}, "sure must be true or false"),
        ({"where": 1}, "where must be a path"),
        ({"words": 1}, "words must be a list"),
        ({"words": []}, "words must not be empty"),
        ({"words": ["a", "b", "c"]}, "words must have at most 2 entries"),
        ({"words": [1]}, "words.0 must be text"),
        ({"table": 1}, "table must be an object"),
        ({"inner": 1}, "inner must be an object"),
        ({"inner": {"deep": "x"}}, "inner.deep must be a whole number"),
        ({"side": "up"}, "side must be 'left' or 'right'"),
        ({"at": "2026-01-01T00:00:00"}, "at: Input should have timezone info"),
    ],
)
def test_each_fault_is_told_in_our_words(wrong: dict[str, Any], sentence: str) -> None:
    """The field and what it must be; only what we have no words for keeps those of pydantic."""
    values = wrong if wrong == {} or "nope" in wrong else {"name": "a", **wrong}
    with pytest.raises(ValidationError) as refused:
        Form.model_validate({"name": "a", **values} if "nope" in wrong else values)
    assert plain(refused.value, "The form") == sentence


@pytest.mark.parametrize(("text", "sentence"), [("{", "The form is not JSON"), ("[]", "The form must be an object")])
def test_a_fault_of_the_whole_names_the_whole(text: str, sentence: str) -> None:
    """What is wrong in no field is told of the value itself."""
    with pytest.raises(ValidationError) as refused:
        Form.model_validate_json(text)
    assert plain(refused.value, "The form") == sentence


# -- replies that could not be read -------------------------------------------------------

CUT = "Your reply was cut off at the length limit. Send a shorter one."
NO_JSON = "Your reply has no JSON object."


@pytest.mark.parametrize(
    ("refused", "last", "num_predict", "told"),
    [
        (
            [NO_JSON] * 3,
            "I cannot help.",
            2048,
            "3 replies in a row could not be read. Try another model, a larger num_ctx, or another value of think "
            '("auto" or "off"). The last one was `I cannot help.`. It was refused with: Your reply has no JSON object.',
        ),
        (
            [CUT, NO_JSON],
            " \n",
            0,
            "2 replies in a row could not be read. Try another model, a larger window, or another value of think "
            '("auto" or "off"). The last one was empty.',
        ),
        (
            [CUT] * 3,
            '{"kind": ',
            64,
            "3 replies in a row could not be read. They were cut off at num_predict 64. Raise num_predict, and num_ctx "
            'with it; for a model that thinks, set think = "off". The last one was `{"kind": `.',
        ),
        (
            [CUT],
            "",
            0,
            "1 replies in a row could not be read. They were empty, and cut off at the length limit of the model. The "
            'model used up all of it on its thoughts. Set think = "off", or raise the limit.',
        ),
        (
            [CUT],
            "{",
            0,
            "1 replies in a row could not be read. They were cut off at the length limit of the model. Raise that "
            'limit; for a model that thinks, set think = "off". The last one was `{`.',
        ),
    ],
)
def test_the_end_says_what_came_and_what_to_try(refused: list[str], last: str, num_predict: int, told: str) -> None:
    """The reason, the beginning of the last reply, and what helps against that reason."""
    assert unread(refused, last, num_predict=num_predict, salt="s") == told


def test_what_came_is_short_visible_and_without_secrets() -> None:
    """Its first 200 characters on one line; what hides is an escape, and a secret is a marker."""
    said = unread([NO_JSON], "a\n\u202eb" + "c" * 500, num_predict=0, salt="s")
    assert f"`a\\n\\u{{202e}}b{'c' * 196}` (and 304 characters more)." in said
    secret = "ghp_" + "Ab3" * 12
    assert secret not in unread([NO_JSON], f"token {secret}", num_predict=0, salt="s")
    assert secret[:10] not in unread([NO_JSON], "x" * 190 + f" {secret}", num_predict=0, salt="s")
