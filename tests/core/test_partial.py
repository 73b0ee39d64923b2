"""What can be shown of a reply that is still coming."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.reply.response import PartialReply, Shown

TEXT = st.text(max_size=40)
NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT | st.just("message"), inner, max_size=3),
    max_leaves=8,
)
REPLIES = st.fixed_dictionaries(
    {"kind": st.sampled_from(["tool", "final"])},
    optional={"explanation": TEXT, "message": TEXT, "tool_call": NESTED, "details": NESTED, "success": st.booleans()},
)
PROSE = st.text(st.characters(exclude_characters="{<", exclude_categories=["Cs"]), max_size=20)


def told(parts: Sequence[str]) -> dict[Shown, str]:
    """All that is told of a reply that comes in these parts."""
    scanner, shown = PartialReply(), dict[Shown, str]()
    for part in parts:
        for key, delta in scanner.feed(part):
            shown[key] = shown.get(key, "") + delta
    return shown


def expected(reply: dict[str, Any]) -> dict[str, str]:
    """What a reader of the whole reply would show: strings only, and none that is empty."""
    return {key: reply[key] for key in ("explanation", "message") if reply.get(key)}


def split(text: str, cuts: Sequence[int]) -> list[str]:
    """The text cut at these places, taken modulo its length."""
    places = sorted({cut % (len(text) + 1) for cut in cuts})
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@given(REPLIES, st.lists(st.integers(0, 10_000), max_size=12), st.booleans(), PROSE, st.sampled_from([None, 1]))
def test_any_cutting_of_a_reply_tells_what_a_reader_of_the_whole_would(
    reply: dict[str, Any], cuts: list[int], ascii_only: bool, prose: str, indent: int | None
) -> None:
    """However the network cuts a reply, the parts add up to the decoded strings at its top."""
    text = prose + json.dumps(reply, ensure_ascii=ascii_only, indent=indent)
    assert told(split(text, cuts)) == expected(reply)


@given(REPLIES)
def test_one_character_at_a_time_tells_the_same(reply: dict[str, Any]) -> None:
    """The finest cutting, which no random one reaches for sure."""
    assert told(list(json.dumps(reply))) == expected(reply)


@given(st.text(st.sampled_from('{}[]",:\\ubdD83cCeE0</think>a\ud83d\ude00'), max_size=60), st.lists(st.integers(0, 60)))
def test_nonsense_never_raises_and_is_told_the_same_however_it_is_cut(text: str, cuts: list[int]) -> None:
    """Whatever a model says, the scanner goes on, its output is text, and the cutting does not show."""
    whole = told([text])
    assert told(split(text, cuts)) == whole
    for shown in whole.values():
        shown.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", {}),
        ("I cannot do that.", {}),
        ('```json\n{"explanation": "why"}\n```', {"explanation": "why"}),
        ('<think>{"explanation": "hm"}</think>\n{"explanation": "why"}', {"explanation": "why"}),
        ('<think>{"explanation": "never closed"}', {}),
        ('Use {} or {braces}: {"message": "done"}', {"message": "done"}),
        ('{"explanation": "one"}{"explanation": "two"}', {"explanation": "one"}),
        ('[{"explanation": "in a list"}]', {"explanation": "in a list"}),
        ('{"tool_call": {"args": {"message": "inside", "explanation": "too"}}}', {}),
        ('{"details": ["message", "explanation"], "message": "x"}', {"message": "x"}),
        ('{"message": {"message": "deep"}, "explanation": null}', {}),
        ('{"kind": "message", "message": "cut of', {"message": "cut of"}),
        ('{"messages": "a longer key", "explanation of it": "too", "m": ""}', {}),
        (r'{"\u006dessage": "an escaped key"}', {"message": "an escaped key"}),
        (r'{"message": "a\n\t\"b\"\\ \/\b\f\r"}', {"message": 'a\n\t"b"\\ /\b\f\r'}),
        (r'{"message": "\u00e9\ud83d\ude00"}', {"message": "é😀"}),
        ('{"message": "a raw\nline"}', {"message": "a raw\nline"}),
        (r'{"message": "it\'s"}', {"message": "it's"}),
        (r'{"message": "half \ud83d and \ude00."}', {"message": "half \ufffd and \ufffd."}),
        (r'{"message": "\ud83d\n"}', {"message": "\ufffd\n"}),
        ('{"message": "\ud83d"}', {"message": "\ufffd"}),
        (r'{"message": "\uzz"}', {"message": "uzz"}),
        (r'{"message": "\u00', {}),
    ],
)
def test_what_is_shown_of_what(text: str, shown: dict[str, str]) -> None:
    """Strings directly below the reply's object, decoded; nothing before it, inside it or after it."""
    assert told([text]) == shown
    assert told(list(text)) == shown


def test_deltas_come_as_soon_as_they_are_whole() -> None:
    """Text is told with the part that brings it, an escape with the part that ends it."""
    scanner = PartialReply()
    assert scanner.feed('{"explanation": "I lo') == [("explanation", "I lo")]
    assert scanner.feed("ok") == [("explanation", "ok")]
    assert scanner.feed("\\u00") == []
    assert scanner.feed('e9", "message": "a') == [("explanation", "é"), ("message", "a")]
    assert scanner.feed("\\ud83d") == []
    assert scanner.feed("\\ude0") == []
    assert scanner.feed("0") == [("message", "😀")]


@pytest.mark.uncounted
def test_a_long_reply_is_looked_at_once() -> None:
    """Hundreds of thousands of parts, with an escape held back in every third, are a matter of a second."""
    text = '{"tool_call": {"content": "' + "x" * 100_000 + '"}, "message": "' + "\\n" * 100_000 + '"}'
    assert told(list(text)) == {"message": "\n" * 100_000}
    assert told([text]) == {"message": "\n" * 100_000}
