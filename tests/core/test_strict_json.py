"""Keys that stand twice are found at any depth, however they are written."""

import json
import time

import pytest

from orchestrator.core.reply.scanner import doubled_key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"action": "approve", "action": "reject"}', "action"),
        ('{"action": "approve", "\\u0061ction": "approve"}', "action"),
        ('{"a": [{"b": 1}, {"b": 1, "c": 2, "b": null}]}', "b"),
        ('{"a": {"": 1, "": 2}, "a": 3}', ""),
        ('[{"a": 1}, {"a": 2}]', None),
        ('{"a": {"a": {"a": 1}}, "b": {"a": 1}}', None),
        ('{"a": 1, "A": 2}', None),
        ('"a"', None),
        (b'{"caf\xc3\xa9": 1, "caf\\u00e9": 2}', "caf\u00e9"),
    ],
)
def test_a_doubled_key_is_found(text: str | bytes, key: str | None) -> None:
    """In objects, in lists, under escapes; the same key of two objects is none."""
    assert doubled_key(text) == key


def test_looking_takes_no_time() -> None:
    """Numbers are not made, and many keys are not compared each with each."""
    # The processor's time: others may be at work on it.
    begun = time.process_time()
    assert doubled_key("[" + "9" * 500_000 + ", 1e999, NaN]") is None
    assert doubled_key(json.dumps({str(number): 0 for number in range(60_000)})) is None
    assert time.process_time() - begun < 2
