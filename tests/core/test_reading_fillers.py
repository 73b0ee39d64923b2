"""What a reply has that says nothing: every repair, in every place, with every fault that must not pass because of it.

The cases are products of the two tables below, not a list: a form of reply with its reading, and a repair with
the contradiction that looks like it.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from orchestrator.core.errors import ReplyRefused
from orchestrator.core.reply.response import FinalResult, ToolRequest, read_reply
from orchestrator.core.reply.surroundings import is_empty, is_no_call, is_no_final, truth

Value = dict[str, Any]
READ: Value = {"tool": "cc_read", "args": {"path": "a.lua"}}
WRITE: Value = {"tool": "cc_write", "args": {"path": "a.lua", "content": 'print("}}]")\n-- true\n'}}
CALLS: dict[str, Value] = {
    "ours": {"kind": "tool", "explanation": "e", "tool_call": READ},
    "program": {"kind": "tool", "explanation": "e", "tool_call": WRITE},
    "batch": {"kind": "tool", "explanation": "e", "tool_calls": [READ, WRITE]},
    "flat": {"kind": "tool", "explanation": "e", **READ},
    "native": {"kind": "tool", "explanation": "e", "name": "cc_read", "arguments": {"path": "a.lua"}},
    "function": {"kind": "tool", "explanation": "e", "function": {"name": "cc_read", "arguments": {"path": "a.lua"}}},
    "text": {"kind": "tool", "explanation": "e", "name": "cc_read", "arguments": '{"path": "a.lua"}'},
}
FINALS: dict[str, Value] = {
    "good": {"kind": "final", "explanation": "e", "success": True, "message": "m"},
    "bad": {"kind": "final", "explanation": "e", "success": False, "message": "m", "details": {"line": 3}},
}
FORMS = {**CALLS, **FINALS}

CALL_FILLERS: list[Value] = [
    {"success": False}, {"success": None}, {"success": "false"}, {"success": ""},
    {"message": ""}, {"message": " \n"}, {"message": None},
    {"details": {}}, {"details": None}, {"success": False, "message": "", "details": {}}, {"final": None},
    {"final_result": {"success": False, "message": ""}}, {"final": {}}, {"function_call": None}, {"risk": None},
]  # fmt: skip
"""Beside a call."""
CALL_CONTRADICTIONS: list[Value] = [
    {"success": True}, {"success": "true"}, {"success": 0}, {"success": [False]}, {"message": "Done."},
    {"details": {"a": 1}}, {"success": False, "message": "Done."},
    {"success": True, "message": ""}, {"success": False, "details": {"a": 0}},
    {"final": {"success": True, "message": ""}}, {"final_result": {"success": False, "message": "no"}},
    {"final": {"success": False, "message": "", "details": {"a": False}}}, {"final": "done"},
]  # fmt: skip
FINAL_FILLERS: list[Value] = [
    {"tool_call": None}, {"tool_call": {}}, {"tool_call": ""}, {"tool_calls": []}, {"tool_calls": None},
    {"tool_call": {"tool": "", "args": {}}}, {"tool_call": {"tool": None, "args": None}}, {"tool": "", "args": {}},
    {"tool_call": {"tool": "none", "args": {}}}, {"tool_call": "null"}, {"tool": None, "args": None},
    {"tool_calls": [{"tool": " ", "args": {"path": ""}}]}, {"function": {"name": "", "arguments": ""}},
    {"name": "", "arguments": ""}, {"risk": None},
]  # fmt: skip
"""Beside a final result."""
FINAL_CONTRADICTIONS: list[Value] = [
    {"tool_call": READ}, {"tool_calls": [READ]}, {"tool": "cc_read", "args": {"path": "a"}}, {"tool": "cc_info"},
    {"tool_call": {"tool": "", "args": {"path": "a"}}}, {"tool_call": {"tool": "cc_info", "args": {}}}, {"risk": "low"},
    {"tool_call": {"args": {"n": 0}}}, {"tool_call": {"args": {"x": False}}}, {"tool_calls": [{}, READ]},
    {"args": {"path": "a"}}, {"name": "cc_info", "arguments": {}}, {"tool_call": "cc_read"}, {"tool_call": 0},
]  # fmt: skip


def reading(text: str, finish_reason: str = "stop") -> ToolRequest | FinalResult | str:
    """What a reply is read as; text: the sentence that refuses it."""
    try:
        return read_reply(text, finish_reason=finish_reason)
    except ReplyRefused as refused:
        return refused.message


def both_ends(value: Value, more: Value) -> Iterator[str]:
    """The object with these fields before its own and behind them."""
    own = {key: one for key, one in value.items() if key not in more}
    yield json.dumps({**more, **own})
    yield json.dumps({**own, **more})


# -- fields of the other kind -------------------------------------------------------------


@pytest.mark.parametrize("form", CALLS)
def test_empty_fields_of_a_final_result_say_nothing_beside_a_call(form: str) -> None:
    """Alone and together, before the call and behind it, with a kind and without."""
    value, meant = CALLS[form], reading(json.dumps(CALLS[form]))
    assert isinstance(meant, ToolRequest)
    for more in CALL_FILLERS:
        for text in both_ends(value, more):
            assert reading(text) == meant, text
            without = json.dumps({key: one for key, one in json.loads(text).items() if key != "kind"})
            assert reading(without) == meant, without


@pytest.mark.parametrize("form", CALLS)
def test_a_field_of_a_final_result_that_says_something_is_a_contradiction(form: str) -> None:
    """Beside a call none of them is passed over, nor any part of them."""
    for more in CALL_CONTRADICTIONS:
        for text in both_ends(CALLS[form], more):
            assert isinstance(reading(text), str), text
            as_final = text.replace('"kind": "tool"', '"kind": "final"')
            assert isinstance(reading(as_final), str), as_final


@pytest.mark.parametrize("form", FINALS)
def test_empty_fields_of_a_call_say_nothing_beside_a_final_result(form: str) -> None:
    """In each spelling in which models send them."""
    value, meant = FINALS[form], reading(json.dumps(FINALS[form]))
    assert isinstance(meant, FinalResult)
    for more in FINAL_FILLERS:
        for text in both_ends(value, more):
            assert reading(text) == meant, text


@pytest.mark.parametrize("form", FINALS)
def test_a_field_of_a_call_that_says_something_is_a_contradiction(form: str) -> None:
    """A name alone, arguments alone, and one call among empty ones."""
    for more in FINAL_CONTRADICTIONS:
        for text in both_ends(FINALS[form], more):
            assert isinstance(reading(text), str), text


def test_a_reply_of_nothing_but_empty_fields_is_refused() -> None:
    """Neither kind is said, so neither is taken."""
    empty: list[Value] = [{"tool_call": {}}, {"tool_call": {"tool": "", "args": {}}}, {"tool_calls": []}]
    for more in empty:
        assert "has no kind" in str(reading(json.dumps({**more, "success": False, "message": ""})))
        assert "no call" in str(reading(json.dumps({**more, "kind": "tool", "success": False, "message": ""})))
        assert "no call" in str(reading(json.dumps({**more, "kind": "tool", "success": True, "message": "m"})))
    said = {"tool_call": {"tool": "none", "args": {}}, "success": True, "message": "m"}
    assert isinstance(reading(json.dumps({"kind": "final", **said})), FinalResult)
    assert isinstance(reading(json.dumps(said)), str)
    assert isinstance(reading(json.dumps({"kind": "tool", **said})), str)


def test_what_says_nothing_is_told_at_any_depth() -> None:
    """Nulls, blanks and what holds nothing else; a number, a truth value and a word say something."""
    for nothing in (None, "", " \n", {}, [], {"a": None}, [{"b": [""]}]):
        assert is_empty(nothing)
        assert is_no_call(nothing)
    for something in (0, False, "x", [0], {"a": {"b": [False]}}):
        assert not is_empty(something)
        assert not is_no_call(something)
    assert is_no_call({"tool": "None"})
    assert not is_no_call({"tool": "none", "args": {"path": "a"}})
    assert is_no_final({"success": "false", "final": {"success": None, "message": ""}})
    assert not is_no_final({"details": {"success": False}})
    assert [truth(one) for one in ("true", " False ", "yes", 1)] == [True, False, "yes", 1]


@pytest.mark.parametrize("word", ["Program a.lua executed successfully", "Wrote 5 bytes to a.lua"])
def test_a_made_up_result_is_seen_beside_a_filled_in_form(word: str) -> None:
    """The empty fields of a call make no call of a final result, nor those of a final result one of a call."""
    final = json.dumps({**FINALS["good"], "tool_call": {"tool": "", "args": {}}})
    call = json.dumps({**CALLS["ours"], "success": False, "message": ""})
    assert "made up" in str(reading(f"{word}\n{final}"))
    assert "made up" in str(reading(f"{call}\n{word}"))
    assert isinstance(reading(call), ToolRequest)
    assert isinstance(reading(final), FinalResult)


# -- closing brackets ---------------------------------------------------------------------

FRAMES = ["%s", "%s\n", "```json\n%s\n```", "I look first.\n%s", "<think>\nhm\n</think>\n%s", "%s<|im_end|>"]
SURPLUS = ["}", "}}}", "]", "}]}", "\n  }\n}", " } "]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("form", FORMS)
def test_closing_brackets_too_many_say_nothing(form: str, frame: str) -> None:
    """However many and of which kind, in every frame; words may follow, and nothing that a program could hold."""
    text = json.dumps(FORMS[form])
    meant = reading(text)
    assert not isinstance(meant, str)
    for surplus in SURPLUS:
        assert reading(frame % (text + surplus)) == meant, surplus
    assert (
        reading(frame.partition("%s")[0].replace("```json\n", "") + f"{text}}}\nI wait for what it's saying.") == meant
    )
    for rest in ('}"', "}'", "},", '}, "b": 1}', "}{", "} t[1]", "} f(x)", "} a = b", "}\n{}", "}\\", "}: 1", "}\n[]"):
        assert isinstance(reading(frame % (text + rest)), str), rest


@pytest.mark.parametrize("form", FORMS)
def test_brackets_that_close_in_the_middle_are_no_surplus(form: str) -> None:
    """What follows them would be lost."""
    text = json.dumps(FORMS[form])
    for at, mark in enumerate(text):
        if mark in ",:":
            assert isinstance(reading(text[:at] + "}" + text[at:]), str) or text[:at].count('"') % 2 == 1


@pytest.mark.parametrize("text", ['{"tool": "cc_read", "args": {"path": "a"}}', '{"success": true, "message": "m"}'])
def test_the_inside_of_an_object_whose_beginning_is_missing_is_not_taken(text: str) -> None:
    """Without a kind nothing says that it is all; a fence or a tag before it does."""
    assert isinstance(reading(text), ToolRequest | FinalResult)
    assert "stands '}'" in str(reading(text + "}"))
    assert isinstance(reading(f"```json\n{text}}}\n```"), ToolRequest | FinalResult)
    for before in ("x: ", ", ", '"x": ', "So: "):
        assert isinstance(reading(f"{before}{text}}}"), str)
    assert isinstance(reading(f"```json\n{text}}}]\n```"), str)
    assert isinstance(reading(f"[{text}]]"), str)


# -- blanks around names ------------------------------------------------------------------

PADS: list[Callable[[str], str]] = [
    lambda name: f" {name}",
    lambda name: f"{name} ",
    lambda name: f"\n{name}\t",
    lambda name: f"\r\n {name}\v\f",
]


def padded(value: Any, pad: Callable[[str], str], *, inner: bool) -> Any:
    """The value with blanks around its keys, outside of details; ``inner``: not of the outermost object."""
    if isinstance(value, list):
        return [padded(one, pad, inner=False) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key if inner else pad(key): one if key == "details" else padded(one, pad, inner=False)
        for key, one in value.items()
    }


@pytest.mark.parametrize("form", FORMS)
def test_blanks_around_names_say_nothing(form: str) -> None:
    """Around every key that is ours, around the kind and around the names of tools; a value keeps its blanks."""
    value, meant = FORMS[form], reading(json.dumps(FORMS[form]))
    for pad in PADS:
        for inner in (True, False):
            text = json.dumps(padded(value, pad, inner=inner))
            assert reading(text) == meant, text
            named = text.replace('"cc_read"', json.dumps(pad("cc_read"))).replace('"tool"', json.dumps(pad("tool")))
            assert reading(named) == meant, named


@pytest.mark.parametrize("form", FORMS)
def test_two_keys_that_blanks_tell_apart_are_one_key_twice(form: str) -> None:
    """Whichever key it is, and whatever the second one says."""
    for key, one in FORMS[form].items():
        for second in (one, "x", None):
            text = json.dumps({**FORMS[form], f"{key} ": second})
            assert f"{key!r} twice" in str(reading(text)), text


def test_blanks_inside_names_and_of_unknown_names_stay() -> None:
    """They are other names."""
    for tool in ("cc _read", "c c_read", " cc_fly ", "cc_read\u200b", "\ufeffcc_read", "cc_read\u00a0"):
        assert "such tool" in str(reading(json.dumps({"kind": "tool", "tool_call": {"tool": tool, "args": {}}})))
    for key in ("pa th", "", " path x"):
        text = json.dumps({"kind": "tool", "tool_call": {"tool": "cc_read", "args": {"path": "a", key: "b"}}})
        assert "is not known" in str(reading(text))


# -- truth values and nulls of arguments ---------------------------------------------------


class Bakes(BaseModel):
    """A tool of somebody's own with arguments of every kind that matters here."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    hot: bool
    quick: bool | None = None
    count: int = 1
    word: str = ""


def baked(**args: Any) -> Value | str:
    """The canonical arguments of a call of it, or the sentence that refuses it."""
    text = json.dumps({"kind": "tool", "tool_call": {"tool": "bake", "args": args}})
    try:
        request = read_reply(text, tools={"bake": Bakes})
    except ReplyRefused as refused:
        return refused.message
    assert isinstance(request, ToolRequest)
    return request.calls[0].args


def test_a_truth_value_of_an_argument_may_be_a_text() -> None:
    """Where only true or false is taken; where a text is taken it stays one."""
    assert baked(hot="true") == {"hot": True}
    assert baked(hot=" False", quick="True") == {"hot": False, "quick": True}
    assert baked(hot=True, word="true") == {"hot": True, "word": "true"}
    assert baked(hot=True, count=2.0, quick=None) == {"hot": True, "count": 2}
    assert baked(hot="false", count=None, word=None) == {"hot": False}
    for wrong in ("yes", "1", "", 1, 0, "truely", ["true"], None):
        assert "hot must be true or false" in str(baked(hot=wrong)), wrong
    assert "count must be a whole number" in str(baked(hot="true", count="1"))
    assert "is not known" in str(baked(hot="true", cold="true"))


def test_a_truth_value_of_success_may_be_a_text() -> None:
    """Only the words themselves; everything else has more than one reading."""
    for text, meant in (("true", True), ("false", False), ("True", True), ("False ", False), ("TRUE", True)):
        read = reading(json.dumps({"kind": "final", "success": text, "message": "m"}))
        assert isinstance(read, FinalResult)
        assert read.success is meant
    for wrong in ("yes", "no", "TRUE?", "1", "", "not true", "true or false", "done", 1, 0, [True], {"a": True}):
        assert "success" in str(reading(json.dumps({"kind": "final", "success": wrong, "message": "m"})))


# -- faults beside repairs ----------------------------------------------------------------


def repaired(form: str) -> Iterator[str]:
    """One form with every repair at once, and in some frames."""
    value = FORMS[form]
    more = CALL_FILLERS[8] if form in CALLS else FINAL_FILLERS[5]
    text = json.dumps(
        padded({**{key: one for key, one in more.items() if key not in value}, **value}, PADS[1], inner=False)
    )
    text = text.replace("true", '"true"', 1) if form == "good" else text
    for frame in FRAMES[:4]:
        yield frame % f"{text}}}]"


@pytest.mark.parametrize("form", FORMS)
def test_repairs_add_up_and_no_fault_passes_with_them(form: str) -> None:
    """Whole it has its reading; cut anywhere, doubled, contradicted or not at its end it has none, or the same."""
    meant = reading(json.dumps(FORMS[form]))
    other = json.dumps({"kind": "tool", "tool_call": {"tool": "cc_delete", "args": {"path": "a"}}})
    for text in repaired(form):
        assert reading(text) == meant, text
        for reason in ("length", "aborted", "load"):
            assert isinstance(reading(text, reason), str)
        for at in range(0, len(text), 3):
            cut = reading(text[:at])
            assert isinstance(cut, str) or cut == meant, text[:at]
        for behind in (
            f"\n{other}",
            '\n{"kind": "final", "success": false, "message": "n"}',
            "\n{",
            '\n"}}',
            "\nTOOL_RESULT: x",
        ):
            assert isinstance(reading(text + behind), str), behind
        twice = text.replace('"explanation ": "e"', '"explanation ": "e", "explanation": "e"')
        assert "twice" in str(reading(twice))
        quote = text.replace('"explanation ": "e"', '"explanation ": "e"x"')
        assert isinstance(reading(quote), str)
        thought = reading(f"<think>{text}")
        assert isinstance(thought, str)


# -- the reason that is said --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Thoughts or blanks used up all of it."),
        (" \n", "Thoughts or blanks used up all of it."),
        ("<think>\nI have to look at", "end of its thoughts"),
        ("<|channel|>analysis<|message|>We need", "end of its thoughts"),
        ('<think>hm</think>\n{"kind": "to', "Only 12 characters of it are an answer: the limit is small, or thoughts"),
        ("<think>" + "hm " * 2000 + '</think>{"kind"', "Only 7 characters of it are an answer"),
        ('{"kind":' + "\n" * 5000, "Only 8 characters of it are an answer: the limit is small, or thoughts or blanks"),
        ("</think>", "Only 8 characters"),
        ("<think/>x", "Only 9 characters"),
        ('{"kind": "tool", "tool_call": {"to', "Only 34 characters"),
        ('{"kind": "tool", "explanation": "' + "a" * 2000, "Send a shorter one, for example a smaller file or step."),
    ],
)
def test_a_cut_reply_is_told_the_real_reason(text: str, words: str) -> None:
    """Only a long reply is asked to be shorter."""
    sentence = reading(text, "length")
    assert isinstance(sentence, str)
    assert sentence.startswith("Your reply was cut off at the length limit. ")
    assert words in sentence
    assert ("shorter" in sentence) == ("a" * 2000 in text)


def test_an_incomplete_reply_is_asked_for_smaller_steps_only_if_it_was_long() -> None:
    """A stop in the middle of a short one is no matter of its length."""
    for text in ('{"kind": "tool"', '{"kind": "tool", "explanation": "a'):
        for before in ("", f"<think>{'hm ' * 2000}</think>\n", "I look at it. " * 200):
            assert str(reading(before + text)).endswith("Send the whole reply again.")
        assert str(reading(f"{text[:-1]}{' ' * 2000}{text[-1]}")).endswith("in smaller steps.")
