"""What pydantic found wrong is told without the words of pydantic."""

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator

from orchestrator.core.wording import plain


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
        ({"name": ""}, "name must have at least 1 characters"),
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
        ({"words": []}, "words must have at least 1 entries"),
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
