"""The corpus: raw replies of small models, each with the reading that it deserves.

One file per failure mode in ``tests/golden/replies``. A case has an ``id``, the ``text``, a
``finish_reason`` where it is not ``stop``, and either ``reply``, the canonical request or result, or
``refused``, which the sentence for the model must contain. The files are for ever: what was once
deserved stays so.
"""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orchestrator.core.reply.response import FinalResult, ReplyRefused, ToolRequest, read_reply
from tests import TESTS

REPLIES = TESTS / "golden" / "replies"
MODES = {
    file.stem: {case["id"]: case for case in json.loads(file.read_text("ascii"))}
    for file in sorted(REPLIES.glob("*.json"))
}
CASES = [pytest.param(case, id=f"{mode}-{name}") for mode, cases in MODES.items() for name, case in cases.items()]
TAKEN = [case for cases in MODES.values() for case in cases.values() if "reply" in case]
MAX_SENTENCE = 400


def reading(text: str, finish_reason: str = "stop") -> ToolRequest | FinalResult | str:
    """What a reply is read as; text: the sentence that refuses it."""
    try:
        return read_reply(text, finish_reason=finish_reason)
    except ReplyRefused as refused:
        return refused.message


def deserved(case: dict[str, Any]) -> ToolRequest | FinalResult:
    """The reading of a case that has one."""
    model = FinalResult if case["reply"]["kind"] == "final" else ToolRequest
    return model.model_validate(case["reply"])


@pytest.mark.parametrize("case", CASES)
def test_a_reply_gets_the_reading_that_it_deserves(case: dict[str, Any]) -> None:
    """Nothing is accepted that does not deserve it, nothing lost that does, and each refusal says why."""
    read = reading(case["text"], case.get("finish_reason", "stop"))
    if "reply" in case:
        assert read == deserved(case)
    else:
        assert isinstance(read, str)
        assert case["refused"] in read
        assert 20 < len(read) <= MAX_SENTENCE


def test_the_corpus_is_as_large_as_it_claims() -> None:
    """Every failure mode has its file, and no case is there twice."""
    assert set(MODES) == {
        "plain", "fences", "prose", "thoughts", "template", "shapes", "repairs", "endings", "invented", "echoes",
        "second_look", "third_look", "fourth_look", "fillers",
    }  # fmt: skip
    texts = [(case["text"], case.get("finish_reason")) for cases in MODES.values() for case in cases.values()]
    assert len(texts) > 1100
    assert len(TAKEN) > 420
    doubled = {text for text in texts if texts.count(text) > 1}
    assert not doubled


def _cut(number: int, case: dict[str, Any]) -> Any:
    """One reply to cut everywhere; a longer one takes as many readings as it has characters, twice."""
    return pytest.param(case, id=str(number), marks=[pytest.mark.deep] if len(case["text"]) > 150 else [])


@pytest.mark.thinned(4)
@pytest.mark.uncounted
@pytest.mark.parametrize("case", [_cut(number, case) for number, case in enumerate(TAKEN)])
def test_what_is_left_of_a_reply_is_never_another(case: dict[str, Any]) -> None:
    """Cut at either end, a reply is what it was or refused.

    Nobody sees that a batch in tags lost whole calls, or that the brackets behind a whole request inside of another
    object closed that object: behind a request of its own, closing brackets that are too many say nothing.
    """
    text, whole = case["text"], deserved(case)
    if len(text) > 700 or text.count("<tool_call>") > 1 or text.count("<function=") > 1:
        return
    for at in range(len(text)):
        begun, rest = reading(text[:at]), reading(text[at:])
        assert isinstance(begun, str) or begun == whole, text[:at]
        assert isinstance(rest, str) or rest == whole or text[at:].lstrip().startswith('{"kind"'), text[at:]


# -- whatever comes -----------------------------------------------------------------------

TEXTS = [case["text"] for cases in MODES.values() for case in cases.values() if len(case["text"]) < 3000]
PIECES = [
    "{", "}", "[", "]", ",", ":", '"', "'", "\\", "\n", "\r\n", "`", "```", "```json\n", "~~~", "<think>", "</think>",
    "<tool_call>", "</tool_call>", "<function=cc_read>", "</function>", "<parameter=path>", "</parameter>", "//", "/*",
    "*/", "#", "...", "\ufeff", "\x00", "\ud800", "\\ud800", "\\u0041", "TOOL_RESULT: ok", "NaN", "1e999", "null",
    "True", '"kind"', '"final"', '"tool"', '"args"', "{}", "[]", "-", "0", "9" * 30, "=", "(", ")", "[TOOL_CALLS]",
    "[THINK]", "\n</think>\n", "<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "<|START_THINKING|>",
    "<|END_THINKING|>", "```lua\n", "functions.cc_read(", "{1}", "Wrote 5 bytes to a", "[end of data x]",
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A reply of the corpus with a few parts gone, doubled, put elsewhere, or taken from another reply."""
    text: str = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = draw(st.integers(begin, min(len(text), begin + 40)))
        other = draw(st.sampled_from(TEXTS))
        cut = draw(st.integers(0, len(other)))
        put = draw(st.sampled_from(["", text[begin:end] * 2, other[cut : cut + 60], *PIECES]))
        text = text[:begin] + put + text[end:]
    return text


@given(mutated() | st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text())
def test_nothing_but_a_refusal_comes_out(text: str) -> None:
    """No text makes the reader fail in another way than with one bounded sentence; what it takes can be sent."""
    read = reading(text)
    if isinstance(read, str):
        assert 20 < len(read) <= 700
    else:
        json.dumps(read.model_dump(mode="json"), allow_nan=False, ensure_ascii=False).encode()


LUA = [
    "print(", ")", '"', '"', "'", "[[", "]]", "{", "}", "}}}", ",", ":", " ", "\\n", "\n", "#", "//", "/*", "*/", "--",
    "x", "=", "1", '\\"', "\\\\", '","', '"}"', "```", "# x\n", "path", "content", "start_line",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(LUA), min_size=1, max_size=9).map("".join),
    st.booleans(),
    st.sampled_from(["%s", "```json\n%s\n```", "So:\n%s\nok"]),
)
def test_a_program_is_taken_whole_or_not_at_all(lua: str, first: bool, frame: str) -> None:
    """However its quotes are left unescaped, no part of a program is taken for all of it."""
    bare = lua.replace("\\\\", "").replace('\\"', "").replace("\\n", "")
    assume("\\" not in bare)
    args = f'"content":"{lua}","path":"a.lua"' if first else f'"path":"a.lua","content":"{lua}"'
    read = reading(frame % f'{{"kind":"tool","tool_call":{{"tool":"cc_write","args":{{{args}}}}}}}')
    if '"' in bare:
        assert isinstance(read, str)
    else:
        assert isinstance(read, ToolRequest)
        meant = lua.replace("\\\\", "\0").replace('\\"', '"').replace("\\n", "\n").replace("\0", "\\")
        assert read.calls[0].args == {"path": "a.lua", "content": meant}


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from("\"'"))
def test_what_stands_raw_in_a_string_stays_as_it_is(content: str, quote: str) -> None:
    """Line breaks, tabs and every other character that was not escaped arrive as they are."""
    content = "--" + content  # three dots alone would be a placeholder
    escaped = content.replace("\\", "\\\\").replace(quote, "\\" + quote)
    text = "{'kind': 'tool', 'tool_call': {'tool': 'cc_write', 'args': {'path': 'p', 'content': %s%s%s}}}"
    read = reading(text % (quote, escaped, quote))
    assert isinstance(read, ToolRequest)
    assert read.calls[0].args == {"path": "p", "content": content}
