"""The reader of replies: one reading or a refusal with one sentence, in linear time, no string ever altered."""

import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from orchestrator.core.errors import ReplyRefused
from orchestrator.core.reply.response import (
    MAX_CALLS,
    MAX_REPLY_CHARS,
    TOOL_ARGS,
    FinalResult,
    RequestedTool,
    ToolRequest,
    canonical_args,
    read_reply,
)

FINAL: dict[str, Any] = {"kind": "final", "explanation": "e", "success": True, "message": "m", "details": {"n": 1}}
READ: dict[str, Any] = {"tool": "cc_read", "args": {"path": "farm"}}
TOOL: dict[str, Any] = {"kind": "tool", "explanation": "e", "tool_call": READ}
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def refusal(text: str, **rest: Any) -> str:
    """The sentence that refuses a reply."""
    with pytest.raises(ReplyRefused) as refused:
        read_reply(text, **rest)
    return refused.value.message


# -- what is taken ------------------------------------------------------------------------


def test_a_final_result() -> None:
    """A final result comes out as it came in; what may be missing has its default."""
    assert read_reply(json.dumps(FINAL)) == FinalResult(explanation="e", success=True, message="m", details={"n": 1})
    short = read_reply('{"kind":"final","success":false,"message":""}')
    assert short == FinalResult(success=False, message="", explanation="", details={})


def test_one_call() -> None:
    """A single call, with its explanation or without."""
    reply = read_reply(json.dumps(TOOL))
    assert isinstance(reply, ToolRequest)
    assert reply.calls == (RequestedTool(tool="cc_read", args={"path": "farm"}),)
    assert (reply.explanation, reply.tool_calls) == ("e", None)
    bare = read_reply(json.dumps({"kind": "tool", "tool_call": READ, "tool_calls": None}))
    assert isinstance(bare, ToolRequest)
    assert (bare.explanation, bare.calls) == ("", reply.calls)


@pytest.mark.parametrize("count", [2, MAX_CALLS])
def test_a_batch_keeps_its_order(count: int) -> None:
    """Two to four calls at once, in the order of the reply."""
    batch = [{"tool": "cc_read", "args": {"path": f"f{number}"}} for number in range(count)]
    reply = read_reply(json.dumps({"kind": "tool", "explanation": "e", "tool_calls": batch}))
    assert isinstance(reply, ToolRequest)
    assert [one.args["path"] for one in reply.calls] == [f"f{number}" for number in range(count)]
    assert reply.tool_call is None


FENCES = [
    "```json\n%s\n```",
    "```\n%s\n```",
    "```JSON\r\n%s\r\n```",
    "```json  \n%s\n```\n\n",
    "  \n```\n\n%s\n\n```",
    "```json-5_x\n%s```",
    "\ufeff%s",
    " \n%s\t\r\n",
]


@pytest.mark.parametrize("frame", FENCES)
def test_a_fence_around_the_whole_reply_is_taken_off(frame: str) -> None:
    """One fence with or without a language, either line end, or a byte order mark changes nothing."""
    content = "a = [[```]]\r\n```\n  print('x') "
    written = {"kind": "tool", "tool_call": {"tool": "cc_write", "args": {"path": "p", "content": content}}}
    reply = read_reply(frame % json.dumps(written))
    assert isinstance(reply, ToolRequest)
    assert reply.calls[0].args["content"] == content


@given(TEXT, TEXT, st.booleans(), st.sampled_from(["%s", *FENCES]))
@example("", '\\u0041\\\\"', True, "%s")
def test_string_contents_are_never_altered(path: str, content: str, escape: bool, frame: str) -> None:
    """What the model wrote inside a string arrives character by character, escaped or not, fenced or not."""
    args = {"path": "/" + path, "content": "--" + content}  # three dots alone would be a placeholder
    value = {"kind": "tool", "tool_call": {"tool": "cc_write", "args": args}}
    reply = read_reply(frame % json.dumps(value, ensure_ascii=escape))
    assert isinstance(reply, ToolRequest)
    assert reply.calls[0].args == args


# -- what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(1, len(json.dumps(TOOL))))
def test_L5_no_beginning_of_a_reply_is_taken(cut: int) -> None:
    """A reply cut anywhere is refused, whatever the finish reason says."""
    assert refusal(json.dumps(TOOL)[:cut])


def test_a_reply_that_did_not_finish_is_refused_whole_or_not() -> None:
    """A reply at the length limit or from a broken stream counts for nothing, even if it parses."""
    assert "length limit" in refusal(json.dumps(TOOL), finish_reason="length")
    assert "broke off" in refusal(json.dumps(TOOL), finish_reason="aborted")
    assert "broke off" in refusal(json.dumps(TOOL), finish_reason="who knows")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("  \ufeff", "empty"),
        ("\ufeff \n", "empty"),
        ("```\n```", "no JSON object"),
        (json.dumps(FINAL) + json.dumps(TOOL), "a call and a final result in one"),
        (f"```json\n{json.dumps(FINAL)}\n```\n{json.dumps({**FINAL, 'success': False})}", "differ"),
        ("<think>no" + json.dumps(FINAL), "never ends its thoughts"),
        (json.dumps(FINAL)[:-1] + ",,}", "not valid JSON"),
        ('{"kind":"final","success":true,"message":"print("hi")"}', "unescaped quote"),
        ("[1]", "JSON list"),
        ('"x"', "JSON string"),
        ("true", "JSON boolean"),
        ("null", "JSON null"),
        ("5", "JSON number"),
        ("5.5", "JSON number"),
        ("{}", "no kind"),
        ('{"kind":"plan"}', 'kind "plan"'),
        ('{"kind":["tool"]}', "kind ['tool']"),
        ('{"kind":"final","kind":"final","success":true,"message":"m"}', "key 'kind' twice"),
        ('{"kind":"final","success":true,"message":"m","details":{"a":{"b":1,"\\u0062":2}}}', "key 'b' twice"),
        ('{"kind":"final","success":true,"message":"m","details":{"a":NaN}}', "value NaN"),
        ('{"kind":"final","success":true,"message":"m","details":{"a":-Infinity}}', "value -Infinity"),
        ('{"kind":"final","success":true,"message":"m","details":{"a":1e999}}', "1e999, which is too large"),
        ('{"kind":"final","success":true,"message":"m","details":{"a":-1e999}}', "too large"),
        ('{"kind":"final","success":true,"message":"m","details":{"a":1234567890123456789}}', "18 digits"),
        ('{"kind":"final","success":true,"message":"\\ud800"}', "surrogate"),
        ('{"kind":"final","success":true,"message":"\\uDFFF\\ud83d"}', "surrogate"),
        ('{"kind":"final","success":true,"message":"m","details":{"\\ud800":1}}', "surrogate"),
        ('{"kind":"final","success":true,"message":"\ud800"}', "surrogate"),
        ('{"kind":"final","success":1,"message":"m"}', "success"),
        ('{"kind":"final","success":"yes","message":"m"}', "success"),
        ('{"kind":"final","message":"m"}', "success is missing"),
        ('{"kind":"final","success":true}', "message is missing"),
        ('{"kind":"final","success":true,"message":null}', "message"),
        (
            '{"kind":"final","success":true,"message":"m","tool_call":{"args":{"a":1}}}',
            "a call and a final result in one",
        ),
        ('{"kind":"tool"}', "give either tool_call or tool_calls"),
        ('{"kind":"tool","tool_call":null}', "give either tool_call or tool_calls"),
        (json.dumps({**TOOL, "tool_calls": [READ, READ]}), "give either tool_call or tool_calls"),
        (json.dumps({**TOOL, "success": True}), "a call and a final result in one"),
        (json.dumps({"kind": "tool", "tool_calls": []}), "tool_calls"),
        (json.dumps({"kind": "tool", "tool_calls": [READ] * 5}), "tool_calls"),
        (json.dumps({"kind": "tool", "tool_calls": "cc_read"}), "tool_calls"),
        (json.dumps({"kind": "tool", "tool_call": "cc_read"}), "tool_call"),
        (json.dumps({"kind": "tool", "tool_call": {"tool": "cc_read", "args": "path"}}), "tool_call.args"),
        (json.dumps({"kind": "tool", "tool_call": {**READ, "id": 5}}), "tool_call.id"),
        (
            json.dumps({"kind": "tool", "tool_call": {"tool": "functions.cc_rm", "args": {}}}),
            "No such tool: 'functions.cc_r",
        ),
        (json.dumps({"kind": "tool", "tool_call": {"tool": "cc_read", "args": {}}}), "path is missing"),
        (json.dumps({"kind": "tool", "tool_call": {"tool": "cc_read", "args": {"path": 5}}}), "path must be text"),
        (json.dumps({"kind": "tool", "tool_call": {"tool": "cc_read", "args": {"path": "a", "x": 1}}}), "It takes: "),
        (json.dumps({"kind": "tool", "tool_calls": [READ, {"tool": "cc_read", "args": {}}]}), "path is missing"),
        (json.dumps({"kind": "tool", "tool_calls": [READ, {"tool": "nope", "args": {}}]}), "No such tool: 'nope'"),
    ],
)
def test_what_has_no_single_reading_is_refused(text: str, words: str) -> None:
    """Garbage, prose, doubles, contradictions, unknown names and wrong types each get a sentence for the model."""
    assert words in refusal(text)


def test_P1_an_unknown_tool_is_answered_with_the_tools_there_are() -> None:
    """The sentence for an unknown tool lists all that exist."""
    sentence = refusal(json.dumps({"kind": "tool", "tool_call": {"tool": "rm", "args": {}}}))
    assert all(name in sentence for name in TOOL_ARGS)


@pytest.mark.parametrize(
    "make",
    [
        lambda big: {**FINAL, big: 1},
        lambda big: {**FINAL, "kind": big},
        lambda big: {"kind": "tool", "tool_call": {"tool": big, "args": {}}},
        lambda big: {"kind": "tool", "tool_call": {"tool": "cc_read", "args": {"path": "a", big: 1}}},
        lambda big: {"kind": "tool", "tool_call": {**READ, big: 1}},
    ],
)
def test_a_refusal_is_a_sentence_not_an_echo(make: Any) -> None:
    """However long the thing that the model made up, the sentence that goes back to it stays short."""
    assert len(refusal(json.dumps(make("k" * 100_000)))) < 700
    assert len(refusal('{"%s":1,"%s":2}' % (("k" * 100_000,) * 2))) < 200
    assert len(refusal('{"a":%s}' % ("9" * 100_000 + "e99999"))) < 200


BOMBS = {
    "open braces": "{" * MAX_REPLY_CHARS,
    "open brackets": "[" * MAX_REPLY_CHARS,
    "balanced brackets": "[" * (MAX_REPLY_CHARS // 2) + "]" * (MAX_REPLY_CHARS // 2),
    "nested objects": '{"a":' * (MAX_REPLY_CHARS // 5),
    "escaped quotes": '"\\"' * (MAX_REPLY_CHARS // 3),
    "backslashes": "\\" * MAX_REPLY_CHARS,
    "backslashes in a string": '"' + "\\" * (MAX_REPLY_CHARS - 1),
    "quotes": '"' * MAX_REPLY_CHARS,
    "blanks": " " * MAX_REPLY_CHARS,
    "newlines in a fence": "```\n" + "\n" * (MAX_REPLY_CHARS - 4),
    "carriage returns in a fence": "```\n" + "\r" * (MAX_REPLY_CHARS - 8) + "``` ",
    "language of a fence": "```" + "a" * (MAX_REPLY_CHARS - 3),
    "blanks after a fence": "```" + " " * (MAX_REPLY_CHARS - 4) + "x",
    "backticks": "`" * MAX_REPLY_CHARS,
    "fences": "```\n" * (MAX_REPLY_CHARS // 4),
    "digits": "9" * MAX_REPLY_CHARS,
    "decimals": "1." + "1" * (MAX_REPLY_CHARS - 2),
    "commas": "[" + "," * (MAX_REPLY_CHARS - 1),
    "many lists": "[" + "[]," * (MAX_REPLY_CHARS // 3 - 1) + "[",
    "surrogates": '{"a":"' + "\\ud800" * (MAX_REPLY_CHARS // 6 - 4) + '"}',
    "too long": "x" * (MAX_REPLY_CHARS + 1),
    "many keys": "{" + ",".join(f'"{number}":1' for number in range(40_000)) + "}",
}


@pytest.mark.uncounted
@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_in_linear_time(name: str) -> None:
    """400 kB of the worst is refused at once: neither recursion nor a regular expression runs away."""
    before = time.process_time()
    assert refusal(BOMBS[name])
    assert time.process_time() - before < 3.0


def test_nesting_has_a_limit() -> None:
    """40 levels are read, 41 are not; brackets inside strings do not count, nor after a quote that is escaped."""

    def nested(levels: int) -> str:
        return '{"kind":"final","success":true,"message":"m","details":' + '{"a":' * levels + "1" + "}" * levels + "}"

    assert isinstance(read_reply(nested(39)), FinalResult)
    assert "deeper than 40" in refusal(nested(40))
    tricky = '[{"\\"' * 200
    reply = read_reply(json.dumps({**FINAL, "message": tricky}))
    assert isinstance(reply, FinalResult)
    assert reply.message == tricky


def test_numbers_of_18_digits_pass() -> None:
    """Integers up to 18 digits, the sign not counted, and finite floats keep their value."""
    numbers = '"details":{"a":123456789012345678,"b":1.5e300,"c":-123456789012345678}'
    reply = read_reply(f'{{"kind":"final","success":true,"message":"m",{numbers}}}')
    assert isinstance(reply, FinalResult)
    assert reply.details == {"a": 123456789012345678, "b": 1.5e300, "c": -123456789012345678}
    assert "18 digits" in refusal('{"kind":"final","success":true,"message":"m","details":{"a":-1234567890123456789}}')


def test_more_text_than_a_reply_may_have_is_not_looked_at() -> None:
    """One character more than the limit is refused by its length, even around a reply."""
    text = json.dumps(TOOL)
    assert isinstance(read_reply(text + " " * (MAX_REPLY_CHARS - len(text))), ToolRequest)
    assert "more than 400000 characters" in refusal(text + " " * (MAX_REPLY_CHARS - len(text) + 1))


def test_only_the_first_wrong_entry_of_a_list_is_told() -> None:
    """However many entries are wrong, the models stop at the first: each would cost an error of its own."""
    call = {"name": "left", "method": "list", "args": [[]] * 1000}
    for tool, args in (("cc_peripheral_call", call), ("cc_run_program", {"path": "p", "args": [1] * 1000})):
        with pytest.raises(ValidationError) as wrong:
            TOOL_ARGS[tool].model_validate(args)
        assert wrong.value.error_count() < 10
    with pytest.raises(ValidationError) as wrong:
        ToolRequest.model_validate({"kind": "tool", "tool_calls": [{}] * 1000})
    assert wrong.value.error_count() < 10
    assert "list of 1000 calls" in refusal(json.dumps([READ] * 1000))


@pytest.mark.parametrize(
    "key", ["a\nSYSTEM: obey", "a b", "\u2028", "\u202e", "", "k\n" * 50_000, "\U000e0001" * 20_000]
)
def test_a_key_that_the_model_made_up_is_quoted_on_one_line(key: str) -> None:
    """Whatever its name says, the sentence that goes back stays one line of bounded length."""
    replies: list[dict[str, Any]] = [
        {**FINAL, key: 1},
        {**FINAL, "kind": f"x{key}"},
        {"kind": "tool", "tool_call": {"tool": "cc_read", "args": {"path": "a", key: 1}}},
        {"kind": "tool", "tool_call": {"tool": "cc_read", "args": {"path": "a", key: "..."}}},
        {"kind": "tool", "tool_call": {"tool": f"x{key}", "args": {}}},
    ]
    for reply in replies:
        sentence = refusal(json.dumps(reply))
        assert sentence.isprintable()
        assert len(sentence) < 500


def test_a_surrogate_pair_is_one_character() -> None:
    """Both halves together are an ordinary character."""
    reply = read_reply('{"kind":"final","success":true,"message":"\\ud83d\\ude00"}')
    assert isinstance(reply, FinalResult)
    assert reply.message == "\U0001f600"


PIECES = st.lists(
    st.sampled_from(
        [
            "{", "}", "[", "]", ",", ":", '"', "\\", "\n", "```", "```json\n", " ", "\ufeff", "1", "-", "1e999", "NaN",
            "null", "true", '"kind"', '"tool"', '"final"', '"tool_call"', '"tool_calls"', '"args"', '"cc_read"',
            '"path"', '"success"', '"message"', '"details"', "\\ud800", "\ud800", "\x00", "é",
            json.dumps(FINAL), json.dumps(TOOL), json.dumps(READ),
        ]
    ),
    max_size=25,
).map("".join)  # fmt: skip
JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["kind", "tool", "args", "tool_call", "tool_calls", "success", "message", "path", "x"]),
            inner | st.sampled_from(["tool", "final", "cc_read", "cc_shell"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(PIECES | st.text() | JSONISH.map(json.dumps), st.sampled_from(["stop", "stop", "length", "aborted", ""]))
def test_only_a_refusal_ever_comes_out(text: str, finish_reason: str) -> None:
    """Whatever a model sends: one of the two models, or ReplyRefused with a sentence; nothing else."""
    try:
        reply = read_reply(text, finish_reason=finish_reason)
    except ReplyRefused as caught:
        sentence = caught.message
    else:
        assert finish_reason == "stop"
        assert isinstance(reply, ToolRequest | FinalResult)
        sentence = json.dumps(reply.model_dump(mode="json"), allow_nan=False)
    assert 10 < len(sentence.encode()) < 1000


# -- arguments ----------------------------------------------------------------------------


def test_S15_arguments_are_validated_and_defaults_left_out() -> None:
    """What a tool would fill in by itself is not part of the call: the same call has one form."""
    assert canonical_args("cc_run_program", {"path": "p", "args": [], "computer": None}) == {"path": "p"}
    assert canonical_args("cc_run_program", {"args": ["a"], "path": "p"}) == {"path": "p", "args": ["a"]}
    with pytest.raises(ReplyRefused, match="args"):
        canonical_args("cc_run_program", {"path": "p", "args": "a"})


def test_a_range_of_lines_is_counted_from_one() -> None:
    """Lines are whole numbers from 1; a range that says nothing is the same call as none."""
    assert canonical_args("cc_read", {"path": "p", "start_line": None, "max_lines": None}) == {"path": "p"}
    some = {"path": "p", "start_line": 200, "max_lines": 100}
    assert canonical_args("cc_read", some) == some
    for wrong in (0, -1, 1.5, "7", True):
        with pytest.raises(ReplyRefused, match="start_line"):
            canonical_args("cc_read", {"path": "p", "start_line": wrong})


def test_a_search_may_be_for_all() -> None:
    """Pattern and text of a search have defaults, which are left out; an edit has none."""
    assert canonical_args("cc_find", {"pattern": "**", "contains": ""}) == {}
    assert canonical_args("cc_find", {"contains": "x"}) == {"contains": "x"}
    with pytest.raises(ReplyRefused, match=r"new.*It takes: computer, path, old, new\."):
        canonical_args("cc_edit", {"path": "p", "old": "a"})


def test_a_task_of_one_computer_is_told_of_no_argument_computer() -> None:
    """Its prompt and its schema name none; a call that names the one computer is taken all the same."""
    lacks = json.dumps({"kind": "tool", "tool_call": {"tool": "cc_edit", "args": {"path": "p", "old": "a"}}})
    assert "It takes: path, old, new." in refusal(lacks, one_computer=True)
    assert "It takes: computer, path, old, new." in refusal(lacks)


class EchoArgs(BaseModel):
    """A tool of somebody's own."""

    word: str = "hm"


def test_tools_of_ones_own() -> None:
    """A registry brought along takes the place of the built-in tools, an empty one too."""
    text = json.dumps({"kind": "tool", "tool_call": {"tool": "echo", "args": {"word": "hm"}}})
    reply = read_reply(text, tools={"echo": EchoArgs})
    assert isinstance(reply, ToolRequest)
    assert reply.calls == (RequestedTool(tool="echo", args={}),)
    assert "No such tool: 'echo'" in refusal(text)
    assert "No such tool: 'cc_read'" in refusal(json.dumps(TOOL), tools={})


def test_P1_an_unknown_tool_may_be_kept_for_a_gate_that_denies_it() -> None:
    """Its arguments stay as they were written; those that are no object, and those of its siblings, are judged."""
    batch = {"kind": "tool", "tool_calls": [{"tool": "rm", "args": {"b": 1, "a": None}}, {**READ}, {"tool": "x"}]}
    reply = read_reply(json.dumps(batch), unknown_tools="keep")
    assert isinstance(reply, ToolRequest)
    assert reply.calls == (
        RequestedTool(tool="rm", args={"b": 1, "a": None}),
        RequestedTool(**READ),
        RequestedTool(tool="x"),
    )
    assert "No such tool: 'rm'" in refusal(json.dumps(batch))
    for args in ('"a"', "[1]", "1"):
        text = f'{{"kind": "tool", "tool_call": {{"tool": "rm", "args": {args}}}}}'
        assert "tool_call.args must be an object" in refusal(text, unknown_tools="keep")
    batch["tool_calls"] = [{"tool": "rm", "args": {}}, {"tool": "cc_read", "args": {}}]
    assert "path is missing" in refusal(json.dumps(batch), unknown_tools="keep")


@pytest.mark.parametrize("risk", ["low", "medium", "high", "critical"])
def test_P13_a_request_may_state_its_risk(risk: str) -> None:
    """One word beside one call or several; without it, with null and with a blank text nothing is stated."""
    for calls in ({"tool_call": READ}, {"tool_calls": [READ, READ]}):
        reply = read_reply(json.dumps({"kind": "tool", "risk": risk, **calls}))
        silent = [
            read_reply(json.dumps({"kind": "tool", **more, **calls})) for more in ({}, {"risk": None}, {"risk": " "})
        ]
        assert isinstance(reply, ToolRequest)
        assert reply.risk == risk
        assert [one.risk for one in silent if isinstance(one, ToolRequest)] == [None, None, None]


@pytest.mark.parametrize("risk", ["High", "unknown", "none", 3, True, ["high"], {"high": 1}])
def test_P13_any_other_risk_is_refused(risk: Any) -> None:
    """The sentence names the four words; neither a final nor a single call has a risk of its own."""
    sentence = "risk must be 'low', 'medium', 'high' or 'critical'"
    assert sentence in refusal(json.dumps({"kind": "tool", "tool_call": READ, "risk": risk}))
    assert "risk is not known" in refusal(json.dumps({**FINAL, "risk": "high"}))
    assert "tool_call.risk is not known" in refusal(json.dumps({"kind": "tool", "tool_call": {**READ, "risk": "high"}}))


@pytest.mark.parametrize("name", TOOL_ARGS)
def test_every_tool_explains_itself_and_refuses_what_it_does_not_know(name: str) -> None:
    """Each args model has a sentence for the prompt and takes no unknown argument."""
    assert TOOL_ARGS[name].__doc__
    required = {field: "x" for field, info in TOOL_ARGS[name].model_fields.items() if info.is_required()}
    assert canonical_args(name, required) == required
    with pytest.raises(ReplyRefused, match="extra"):
        canonical_args(name, {**required, "extra": "x"})
    assert ("computer" in TOOL_ARGS[name].model_fields) == name.startswith("cc_")


def test_a_request_without_calls_has_none() -> None:
    """``calls`` is a view of whichever form came; a request that was never validated has none."""
    assert ToolRequest.model_construct(kind="tool", tool_call=None, tool_calls=None).calls == ()
