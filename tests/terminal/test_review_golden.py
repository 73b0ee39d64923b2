"""The golden messages of the reviewer channel: what version 0.6.0 and each one since said is still read."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.wire import review
from tests.harness.golden_review import EXAMPLES, FROM_REVIEWER, GOLDEN, TO_REVIEWER

FILES = sorted(GOLDEN.rglob("*.json"))
PRESENT = sorted(GOLDEN.glob("*.json"))
RELEASES = ("0.6",)


def named(path: Path) -> str:
    """A file as its place below the directory."""
    return str(path.relative_to(GOLDEN))


def types(messages: tuple[type[Any], ...]) -> set[str]:
    """The types of some messages."""
    return {one.model_fields["type"].default for one in messages}


def decoded(path: Path) -> Any:
    """The message of a file, read as its receiver reads it."""
    text = path.read_text("utf-8")
    of_reviewers = json.loads(text)["type"] in types(FROM_REVIEWER)
    return review.decode_from_reviewer(text) if of_reviewers else review.decode_to_reviewer(text)


def holds(part: Any, whole: Any) -> bool:
    """Whether everything of ``part`` stands in ``whole``, which may have more fields."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and holds(one, whole[name]) for name, one in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) == len(whole) and all(map(holds, part, whole))
    return bool(part == whole)


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_golden_message_is_read_with_all_that_it_says(path: Path) -> None:
    """Nothing of it is lost or read as something else; what is newer has a default."""
    said = json.loads(path.read_text("utf-8"))
    assert holds(said, json.loads(decoded(path).model_dump_json()))


def test_every_message_has_its_golden_file() -> None:
    """Of each type one, and no file of a type that is not there."""
    assert {path.stem for path in PRESENT} == types(TO_REVIEWER) | types(FROM_REVIEWER)
    assert {path.parent.name for path in FILES} == {GOLDEN.name, *RELEASES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.type)
def test_a_golden_file_is_the_message_that_was_written(example: Any) -> None:
    """The file says what its example says, so that no field was renamed and no default changed under it."""
    assert decoded(GOLDEN / f"{example.type}.json") == example


def test_the_golden_messages_name_every_field() -> None:
    """Each optional field of what is shown and of what is decided has a value in some golden message."""
    requests = [one for message in EXAMPLES if isinstance(message, review.Snapshot) for one in message.requests]
    (decide,) = [message for message in EXAMPLES if isinstance(message, review.DecideRequest)]
    groups: list[list[Any]] = [
        requests,
        [call for one in requests for call in one.tool_calls],
        [call.observed for one in requests for call in one.tool_calls],
        list(decide.resume.decisions or ()),
        [one.remember for one in decide.resume.decisions or () if one.remember is not None],
    ]
    for models in groups:
        fields = type(models[0]).model_fields
        bare = [
            name for name, field in fields.items() if all(getattr(one, name) == field.get_default() for one in models)
        ]
        constants = {"message", "informational"}
        assert not set(bare) - constants, f"{type(models[0]).__name__}: {bare}"
