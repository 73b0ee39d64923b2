"""The modules of the reader one by one: what the scanner repairs, what it costs, and what stands around an object."""

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.errors import ReplyRefused
from orchestrator.core.reply.objects import Finder
from orchestrator.core.reply.response import MAX_REPLY_CHARS, ToolRequest, read_reply
from orchestrator.core.reply.scanner import MAX_DEPTH, Scanner

REPLY = '{"kind": "tool", "explanation": "e", "tool_call": {"tool": "cc_read", "args": {"path": "startup.lua"}}}'

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**17), 10**17)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


def outcome(text: str) -> Any:
    """What the scanner makes of a text, or the sentence that refuses it."""
    try:
        return Scanner(text).value(0)
    except ReplyRefused as refused:
        return refused.message


@given(JSON, st.sampled_from([None, 1, 4]), st.booleans())
def test_the_scanner_reads_json_as_everybody_does(value: Any, indent: int | None, escape: bool) -> None:
    """What needs no repair is read like ``json.loads`` reads it, to the last character."""
    text = json.dumps(value, indent=indent, ensure_ascii=escape)
    assert Scanner(text + " and so on").value(0) == (json.loads(text), len(text))


@given(JSON)
def test_the_scanner_reads_what_python_writes(value: Any) -> None:
    """A Python literal is read where its strings need no escape that JSON does not know."""
    text = repr(value)
    read = outcome(text)
    if isinstance(read, str):
        assert "\\x" in text or "\\u" in text or "\\U" in text or "\\u" in ascii(text)
    else:
        assert read == (value, len(text))


@given(JSON, st.data())
def test_the_scanner_completes_nothing(value: Any, data: st.DataObject) -> None:
    """No proper beginning of a list is read as one."""
    text = json.dumps([value])
    cut = data.draw(st.integers(0, len(text) - 1))
    assert isinstance(outcome(text[:cut]), str)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        (" \ufeff[ ]", []),
        ("[1,]", [1]),
        ("{'a': 1,}", {"a": 1}),
        ("{a: 1, $b_2: 2}", {"a": 1, "$b_2": 2}),
        ("[True, False, None, true, false, null]", [True, False, None, True, False, None]),
        ("[1, // one\n2, # two\n/* three */ 3]", [1, 2, 3]),
        ("['it\\'s', \"it's\", 'a \"b\"', \"\\'\"]", ["it's", "it's", 'a "b"', "'"]),
        ('["a\n\tb\r\n\x00"]', ["a\n\tb\r\n\x00"]),
        ('["\\u0041\\ud83d\\ude00\\/\\b\\f"]', ["A\U0001f600/\b\f"]),
        ("[-0.5e-3, 0, -12, 1E5]", [-0.0005, 0, -12, 100000.0]),
        ('["# no comment", "// none"]', ["# no comment", "// none"]),
        ('{// "one"\n"a": /* it\'s "two" */ [ # "three"\n1]}', {"a": [1]}),
        ('{// 5"\n}', {}),
        ('{"a" /* of a */ : /* 1 */ 1 /* done */ , /* and */ }', {"a": 1}),
    ],
)
def test_a_repair_loses_nothing(text: str, value: Any) -> None:
    """Each repair has one reading."""
    assert outcome(text) == (value, len(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "incomplete"),
        ("{", "incomplete"),
        ("[1", "incomplete"),
        ("[1, ", "incomplete"),
        ('{"a"', "incomplete"),
        ('{"a":', "incomplete"),
        ('{"a": "b', "begins at line 1, column 7 never ends"),
        ('["\\', "incomplete"),
        ("[tru", "incomplete"),
        ("[1\n```", "incomplete"),
        ("[,]", "value belongs"),
        ("{,}", "key in quotes"),
        ("[1,,]", "value belongs"),
        ('["a" "b"]', "unescaped quote"),
        ("[1 2]", "a comma or a closing bracket"),
        ('{"a" 1}', "colon after the key 'a'"),
        ("{1: 2}", "key in quotes"),
        ("[1}", "closing bracket"),
        ('["a"}', "closing bracket"),
        ("[01]", "value belongs"),
        ("[1.]", "value belongs"),
        ("[0x10]", "value belongs"),
        ("[1a]", "value belongs"),
        ("[+1]", "value belongs"),
        ("[TRUE]", "value belongs"),
        ("[...]", "placeholders"),
        ("{…}", "placeholders"),
        ('["\\x41"]', "backslash"),
        ('["\\u12"]', "backslash"),
        ('["\\ud800"]', "surrogate"),
        ('["\\ude00\\ud83d"]', "surrogate"),
        ("{'a': 1, \"a\": 1}", "'a' twice"),
        ("{a: 1, 'a': 1}", "'a' twice"),
        ("[NaN]", "NaN"),
        ("[-Infinity]", "-Infinity"),
        ("[1e999]", "too large"),
        ("[1234567890123456789]", "18 digits"),
        ('["a" // "b"\n]', "comment"),
        ("['a', # it's\n]", "comment"),
        ('["a",\n1, # "b"\n]', "line 2, column 4"),
        ('["a"# b\n]', "unescaped quote"),
        ('["a"/* b */]', "unescaped quote"),
        ("[" * (MAX_DEPTH + 1), "deeper"),
    ],
)
def test_what_has_two_readings_or_none_is_refused(text: str, words: str) -> None:
    """Nothing is guessed, and the sentence says what is wrong."""
    sentence = outcome(text)
    assert isinstance(sentence, str)
    assert words in sentence
    assert len(sentence) < 320


def test_a_comment_may_have_the_quote_that_the_strings_have_not() -> None:
    """An apostrophe in a comment says nothing among strings in double quotes."""
    assert outcome('["a", // it\'s\n]') == (["a"], len('["a", // it\'s\n]'))


def test_the_work_is_counted() -> None:
    """Each value and each gap is a step, and so is each thing that the finder stops at."""
    finder = Finder(f"a {{b}} {REPLY}")
    assert finder.steps == 1
    finder.run()
    assert 10 < finder.steps < 2 * len(REPLY)


def test_a_place_is_told_as_an_editor_tells_it() -> None:
    """Lines and columns count from 1, in the text of the reply."""
    with pytest.raises(ReplyRefused, match="line 3, column 15"):
        read_reply('So:\n{"kind": "tool",\n  "tool_call" 5}')


@pytest.mark.parametrize(
    ("text", "found", "words"),
    [
        (REPLY, 1, ""),
        (f"a {REPLY} b {REPLY} c", 2, "a  b  c"),
        (f"```json\n{REPLY}\n```", 1, "json"),
        (f"```lua\nlocal t = {{}}\n```\n{REPLY}", 1, "lua"),
        (f"<think>{{</think>{REPLY}", 1, ""),
        ("t = {1, {2}}", 0, "t = 1, 2"),
        ('[{"a": 1}] [1]', 1, "[1]"),
        ("no", 0, "no"),
    ],
)
def test_what_stands_around_is_told_apart(text: str, found: int, words: str) -> None:
    """Objects are counted, the rest is words; thoughts and programs are neither."""
    finder = Finder(text)
    assert len(finder.run()) == found
    assert "".join(finder.words.split()).replace(":", "") == "".join(words.split())


# -- what it costs ------------------------------------------------------------------------

UNITS = [
    "{", "}", "[", "]", '"', "'", "\\", "`", "<", ">", "\n", "\r", " ", "#", "*", "9", "a", "é",
    '{"', "{a:", "{'a':", '{"a":', "[{", "{}", "[]", "{ ", "\n>", "\n ", "\\u", '\\"', "//", "/*", "/**/", "{//\n",
    "```\n", "```json\n", "```lua\n", "~~~", "<think>", "</think>", "<think></think>", "<think ", "[THINK]",
    "```lua\nx\n", "```lua\nx 'kind':\n", "```lua\nx\n~~~\n", "```a\nx\n```\n",
    "{/*</think>", "{'</think>", '{"</think>"', "}</think>",
    "<tool_call>", "</tool_call>", "<function=a>", "<function=a></function>", "<parameter=b>", "<|", "TOOL RESULT ",
    "<|channel|>analysis", "<|channel|>final<|message|>", "<|START_THINKING|>", "<|END_THINKING|>", "\n</think>\n",
    "\u25c1think\u25b7", "<channel|>", "{1}", " {x = 1}", "\n{ ", "cc_read(", "functions.cc_read({", "TOOL_RESULT ",
    "Program ", "Wrote 1 bytes ", "[end of data", "<|a|>", "```lua\n\"}\n```\n", "<think>{a</think>x",
    '{"a"}', '{"a",', "`}`", " }", '"x": ', '"x": {}', ", a", "// \"\n", "</function>", "</parameter>", "<|think|>",
    "<scratch_pad>", "<a_b_c_", "</plan>\n", "```think\n", "<output>", "wait for TOOL_RESULT to ", "*\n",
    "tool", "example ", "{'a':1}", "'kind':", "{\"a\":1,\"a\":1}",
]  # fmt: skip
FRAMES = {
    "alone": "%s",
    "behind a reply": REPLY + "\n%s",
    "before a reply": "x %s\n" + REPLY,
    "in a string": "{'kind': 'final', 'success': True, 'message': '%s'}",
    "in an object": "{'kind': 'final', %s 'success': True}",
    "in thoughts": "<think>%s</think>" + REPLY,
    "in a program": "```lua\nx %s\n```\n" + REPLY,
    "in a tag": "<function=cc_read><parameter=path>%s</parameter></function>",
    "in arguments": '{"tool": "cc_read", "args": "{\'path\': %s"}',
}
SMALL, LARGE = 8_000, 64_000


def read_or_refused(text: str) -> Any:
    """The reply or the sentence that refuses it."""
    try:
        return read_reply(text)
    except ReplyRefused as refused:
        return refused.message


def spent(text: str) -> float:
    """Seconds of this process that one reply takes."""
    before = time.process_time()
    read_or_refused(text)
    return time.process_time() - before


@pytest.mark.deep
@pytest.mark.parametrize("unit", UNITS)
def test_time_is_linear(unit: str) -> None:
    """Eight times the text takes about eight times the time, wherever it stands: a square would take 64 times.

    Both are measured here and now, side by side, and what takes next to nothing is not compared.
    """
    for frame, around in FRAMES.items():
        ratios: list[float] = []
        while not ratios or ratios[-1] > 25:
            small, large = (spent(around.replace("%s", unit * (size // len(unit)))) for size in (SMALL, LARGE))
            ratios.append(large / max(small, 0.001))
            assert len(ratios) < 5, f"{unit!r} {frame}: eight times the text took {ratios} times the time"


@pytest.mark.uncounted
@pytest.mark.thinned(3)
@pytest.mark.parametrize("unit", UNITS)
def test_the_work_is_bounded_by_the_text(unit: str) -> None:
    """The steps of the finder and of its scanner are counted: never more than two for each character."""
    for around in FRAMES.values():
        text = around.replace("%s", unit * (20_000 // len(unit)))
        finder = Finder(text)
        with contextlib.suppress(ReplyRefused):
            finder.run()
        assert 0 < finder.steps <= 2 * len(text)


@pytest.mark.parametrize("size", [10_000, 100_000, MAX_REPLY_CHARS * 3 // 4])
def test_a_large_program_is_read_whole(size: int) -> None:
    """As much as a reply may hold, in a fence, with its line breaks as they are."""
    program = ('print("line\\n")\n' * (size // 15))[: size - 1] + " "
    content = program.replace("\\", "\\\\").replace('"', '\\"')
    read = read_reply(f'So:\n```json\n{{"tool": "cc_write", "args": {{"path": "a.lua", "content": "{content}"}}}}\n```')
    assert isinstance(read, ToolRequest)
    assert read.calls[0].args == {"path": "a.lua", "content": program}
