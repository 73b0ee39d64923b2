"""The text right before and right behind an object, which decides whether the object is the reply."""

import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from pydantic import BaseModel, ValidationError

from orchestrator.core.reply.scanner import SHOWN_CHARS, key_twice, name, place, refuse

# -- Placeholders of the prompt that came back as if they were an answer -----------------

_FORM: Final = re.compile(r"\.\.\.|\u2026|<[A-Za-z][A-Za-z _/-]{0,40}>|\{[A-Za-z_. ]{0,40}\}|\[(?:\.\.\.|\u2026)\]")
_CONTENT: Final = re.compile(r"\.\.\.|\u2026|<[^<>]{0,40}(?:content|code|text|program|your)[^<>]{0,40}>", re.IGNORECASE)
"""A whole content that is a single tag may be meant, such as ``<html>``."""
_SIGNS: Final = (".", "\u2026", "<", "{", "[")
"""How those begin: most values need no closer look."""
_TOOLS: Final = frozenset({"NAME", "TOOL", "TOOL_NAME", "tool_name", "toolName", "your_tool", "the_tool"})
_TYPE: Final = frozenset({"string", "str"})
_TYPES: Final = {"tool": _TOOLS, "content": frozenset[str](), "message": frozenset({"string", "for the user"})}
"""The other words of the form, by where they stand; of any other argument it is its type."""
_MEANT: Final = frozenset({"contains", "old", "new", "input", "args", "patch"})
"""Arguments in which three dots may be meant: they are Lua."""


def no_echo(reply: dict[str, Any]) -> None:
    """Refuse a reply whose values are those of the form, not of an answer.

    ``reply`` is spelled as ours and not yet validated. Raises ReplyRefused.
    """
    for where, value in _values(reply):
        if isinstance(value, str) and _is_placeholder(where, value):
            refuse(
                f"Your reply repeats the form: {name(where)} is {value!r}, a placeholder. Send one JSON object with "
                "the real values of your next step."
            )


def _values(reply: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if reply.get("kind") == "final":
        yield "message", reply.get("message")
        return
    for call in calls_of(reply):
        if isinstance(call, dict):
            yield "tool", call.get("tool")
            args = call.get("args")
            yield from args.items() if isinstance(args, dict) else ()


def calls_of(reply: dict[str, Any]) -> list[Any]:
    """The calls of a reply that is spelled as ours and not yet validated, whatever they are."""
    calls = reply.get("tool_calls") or [reply.get("tool_call")]
    return calls if isinstance(calls, list) else []


def _is_placeholder(where: str, value: str) -> bool:
    if where in _MEANT or len(value) > SHOWN_CHARS:
        return False
    if where == "query" and not value.startswith("<"):
        return False  # to look up string, or three dots, is to look up Lua
    if value.startswith(_SIGNS):
        return (_CONTENT if where == "content" else _FORM).fullmatch(value) is not None
    return value in _TYPES.get(where, _TYPE)


# -- What a reply has that says nothing: blanks around names, truth values as texts, empty fields of the other
# kind
#
# A model that fills in a flat form sends every field of it: ``"success": false, "message": ""`` beside a call,
# ``"tool_call": {"tool": "", "args": {}}`` beside a final result. Such a field is left out only where it is
# empty. A field that says something stays, so that the contradiction is refused.

BLANKS: Final = " \t\r\n\v\f"
"""Characters that may be around a name and mean nothing.

A sign that nobody sees is not a blank: it makes another name.
"""
_TRUTHS: Final = {"true": True, "false": False}
_NO_TOOL: Final = frozenset({"none", "null"})
"""Names of no tool, beside a final result."""
_FINAL: Final = frozenset({"success", "message", "details", "final", "final_result", "final_answer"})
_MAX_WHOLE: Final = 2**53
"""Up to here a float holds every whole number exactly."""


def named(value: dict[str, Any]) -> dict[str, Any]:
    """The object without blanks around its keys. Raises ReplyRefused where that makes two keys one."""
    found: dict[str, Any] = {}
    for key, one in value.items():
        name = key.strip(BLANKS)
        if name in found:
            key_twice(name)
        found[name] = one
    return found


def truth(value: Any) -> Any:
    """The truth value that a text spells; any other value stays what it is."""
    return _TRUTHS.get(value.strip(BLANKS).lower(), value) if isinstance(value, str) else value


def is_empty(value: Any) -> bool:
    """Whether a value says nothing at any depth: a null, a blank text, or a list or object of nothing else."""
    if isinstance(value, str):
        return not value.strip(BLANKS)
    if isinstance(value, dict):
        return all(is_empty(one) for one in value.values())
    return value is None or (isinstance(value, list) and all(is_empty(one) for one in value))


def is_no_call(value: Any) -> bool:
    """Whether a value names no tool and has no arguments, as ``{"tool": "none", "args": {}}``."""
    if isinstance(value, dict):
        return is_empty([one for one in value.values() if not _names_none(one)])
    return is_empty(value) or _names_none(value)


def _names_none(value: Any) -> bool:
    return isinstance(value, str) and value.strip(BLANKS).lower() in _NO_TOOL


def without_final(reply: dict[str, Any]) -> dict[str, Any]:
    """A call without the empty fields of a final result; as it is when one of them says something."""
    if not is_no_final(reply):
        return reply
    return {key: value for key, value in reply.items() if key not in _FINAL}


def is_no_final(reply: dict[str, Any]) -> bool:
    """Whether the fields of a final result, as far as there are any, say nothing: success is false, the rest empty."""
    return all(_says_no_final(key, reply[key]) for key in _FINAL & reply.keys())


def _says_no_final(key: str, value: Any) -> bool:
    if key == "success":
        return truth(value) is False or is_empty(value)
    if isinstance(value, dict) and "success" in value and key != "details":
        return is_no_final(value)
    return is_empty(value)


def fitted(args: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """The arguments as their tool may take them, where nothing is lost.

    No blanks are around their names, ``1.0`` is 1, and what must be true or false may be spelled as a text. A
    null for an argument that may be left out says nothing. Raises ReplyRefused where two names become one.
    """
    said = {key: value for key, value in named(args).items() if not (value is None and _has_default(model, key))}
    said = {key: int(value) if _is_whole(value) else value for key, value in said.items()}
    spelled = _not_bool(said, model)
    return {key: truth(value) if key in spelled else value for key, value in said.items()}


def _has_default(model: type[BaseModel], key: str) -> bool:
    field = model.model_fields.get(key)
    return field is not None and not field.is_required()


def _not_bool(args: dict[str, Any], model: type[BaseModel]) -> set[Any]:
    """The names of the arguments that must be true or false and are something else."""
    try:
        model.model_validate(args)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        return {one["loc"][0] for one in found if one["type"] == "bool_type"}
    return set()


def _is_whole(value: object) -> bool:
    return isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_WHOLE


# -- The words around the objects of a reply: what in them makes a reading doubtful ------

_CUT: Final = re.compile(r"<[|/]?[a-z_=|/]*\Z", re.IGNORECASE)
_INVENTED: Final = re.compile(
    r"tool[_ -]{0,3}(?:call[_ -])?(?:result|response|output)s?[*_`\"]{0,4}\s*[:=\]>]|^\W{0,9}+tool[_ ]result"
    r"|<\|?(?:tool_response|tool_result|tool_output|function_results?|function_response|observation|ipython)\b"
    r"|^[ \t*#>]{0,9}+observation\**\s*:|\[end of data\b",
    re.IGNORECASE | re.MULTILINE,
)
_TURN: Final = re.compile(
    r"^[\s*#>`\[]{0,9}+(?:(?:(?:the|expected|actual|sample|program|program's|command|function|shell|execution|console"
    r"|terminal|call|api|return) ){0,2}(?:results?|outputs?|response)|return value|stdout|stderr"
    r"|user|human|system|tool)\]?\**\s?:|<(?:output|results?|response|stdout|stderr|console|terminal)\b[^<>\n]{0,60}>|<\|(?:im_start|start_header_id|user|system)|\[INST\]|<start_of_turn>",
    re.IGNORECASE | re.MULTILINE,
)
"""The beginning of a turn that is not the model's to write."""
_SAID: Final = r"\b(?:Program|Command)\b[^\n]{0,200} executed successfully|\bWrote [0-9]{1,9} bytes to\b"
_BEFORE: Final = re.compile(rf"TOOL_RESULT|{_SAID}|(?i:</(?:output|results?|stdout|stderr|console|terminal)\s*>)")
_BEHIND: Final = re.compile(rf"TOOL_RESULT(?!\.?\Z)|{_SAID}")
"""How results of this project read: before a final or behind a call they were made up.

A model that asks for the TOOL_RESULT with its last word has not made it up.
"""
_ASKED: Final = re.compile(
    r"\b(?:(?:wait|waiting) for|await|awaiting|provide(?: me(?: with)?)?|send(?: me)?) (?:(?:the|its|your|a) )?"
    r"TOOL_RESULT(?=(?: (?:before|so|to|and then|first)\b|[,.]? ?\Z))"
)
"""Nor has who says that he waits for it."""
_QUOTE: Final = re.compile(r"\"|(?<!\w)'|'(?!\w)")
"""No apostrophe inside a word."""
_PROGRAM: Final = re.compile(rf"{_QUOTE.pattern}|=")
_AROUND: Final = re.compile(
    r"(?:\s|>|</?s>|<\|[a-z_]{1,30}\|>|(?:json[5cl]?|javascript|js|text|txt|plaintext):)*", re.I
)
"""What frames a reply and says nothing: blanks, the language of a fence, the tokens of a template."""

_CALL: Final = frozenset({"tool", "tool_call", "tool_calls", "name", "function", "function_call"})
"""Keys of an object that is surely a call."""


def has_quote(words: str) -> bool:
    """Whether there is a quote in prose, such as the end of a string that ended too early leaves."""
    return _QUOTE.search(words) is not None


def like_program(words: str) -> bool:
    """Whether words between thoughts and a reply may be the rest of a program, by a quote or a ``=``."""
    return _PROGRAM.search(words) is not None


def only_frame(words: str) -> bool:
    """Whether the words say nothing: they frame a reply."""
    return _AROUND.fullmatch(words) is not None


def judge(before: str, behind: str, values: list[Any]) -> None:
    """Refuse what is cut behind the objects, and results and turns that the model made up.

    ``values`` are the objects as they were read. Raises ReplyRefused.
    """
    words = f"{before}\n{behind}"
    if _CUT.search(words[-40:]):
        incomplete()
    told = values and not _is_call(values) and _BEFORE.search(before)
    foretold = values and not _is_final(values) and _BEHIND.search(_ASKED.sub("", behind))
    if told or foretold or _INVENTED.search(words) or _TURN.search(behind):
        refuse(
            "Your reply has a tool result or a turn that you made up. Send one call, then stop: the real result "
            "comes back as TOOL_RESULT."
        )


def incomplete() -> NoReturn:
    """Refuse a reply that announces more than it has."""
    refuse("Your reply is incomplete: it ends behind a tag or a fence. Send the whole JSON object again.")


def _is_final(values: list[Any]) -> bool:
    return all(isinstance(value, dict) and "success" in value and not _calls(value) for value in values)


def _is_call(values: list[Any]) -> bool:
    return all(isinstance(value, dict) and _calls(value) for value in values)


def _calls(value: dict[str, Any]) -> bool:
    """Whether an object is surely a call: a field of that kind that is empty says nothing."""
    return any(key in _CALL and not is_no_call(one) for key, one in value.items())


# -- The text right before and right behind an object, which decides whether the object is the reply

_FOLLOWS: Final = re.compile(r"\s*([,:\])}])|[ \t]*([\"'=])")
_ASIDE: Final = re.compile(r",[ \t]+[a-z](?:[^\"'`{}\[\]<>:=\\]|(?<=\w)'(?=\w))*\Z", re.IGNORECASE)
"""A comma and prose up to the end of the text: without a quote or a bracket nothing that was begun can end in it."""
_LEADS: Final = re.compile(r"[\"']\s*:\s*\Z")
_PROSE_LEADS: Final = re.compile(r"[^\s{,\[\\\"'`>]\s*([\"'])[^\"'\\\n]{1,60}\1\s*:\s*\Z")
"""A quoted word of a sentence, such as the name of a file; a key would be behind a brace or a comma,
or where the reply begins: behind a fence or the tag that ends thoughts."""
_EXAMPLE: Final = re.compile(
    r"(?:\bexample\s*[0-9]?|\bfor instance|\be\.g\.)\s*[:,]?\**\s*(?:[`~]{3,}\w*\s*)?\Z", re.IGNORECASE
)
_LOOK_BACK: Final = 80
"""Characters before an object that tell whether it is there as a value or as an example."""
_CLOSERS: Final = r"(?:\s*[}\]])+"
_FRAME: Final = r"(?:\s|[`~]{3,}|</?s>|<\|?/?[a-z_]{1,30}\|?>)*"
_SURPLUS: Final = re.compile(
    rf"{_CLOSERS}(?=\s*<[|/]{{1,2}}(?:tool_call|function|invoke)\b"
    rf"|{_FRAME}(?:(?<=\n)[^\W\d_](?:[^\"'`{{}}\[\]<>:=\\()]|(?<=\w)'(?=\w))*)?\Z)",
    re.IGNORECASE,
)
"""Closing brackets too many, then the tag that ends a call, or only a frame and prose on lines of its own up to the end
of the text. A quote that ended a string too early would leave another quote behind them."""
SURPLUS_ONLY: Final = re.compile(rf"{_CLOSERS}\s*\Z")
_FRAMED: Final = re.compile(r"(?:^|\n)[ \t>]*(?:`{3,}|~{3,})\w*\Z|(?:>|\[TOOL_CALLS\])\Z")
_LETTER: Final = re.compile(r"[^\W\d_]")
_STRINGS: Final = re.compile(r'\{[ \t]*"[^"\\\n]*"(?:[ \t]*,[ \t]*"[^"\\\n]*")*[ \t]*,?[ \t]*\}')


def led(text: str, at: int) -> bool:
    """Whether a quoted word and a colon lead to the object at ``at``, as in a sentence.

    Raises ReplyRefused when the object stands as a text, as the value of a key, or as an example.
    """
    before = text[max(0, at - _LOOK_BACK) : at]
    if before.endswith(('"', "'")):
        refuse("Your reply is JSON inside quotes. Send the JSON object itself, without quotes around it.")
    leads = _LEADS.search(before) is not None
    if leads and _PROSE_LEADS.search(before) is None:
        _no_beginning()
    if _EXAMPLE.search(before):
        refuse("The JSON object of your reply is called an example. Send one JSON object with your real next step.")
    if text[at + 1 : at + _LOOK_BACK].lstrip().startswith(("\\", "\u201c", "\u201d")):
        refuse('Your reply is JSON with its quotes escaped or curly. Send the JSON object with plain " quotes.')
    return leads


def whole(value: Any) -> None:
    """Refuse a value behind a quoted word and a colon that does not say by its kind that it is all of the reply."""
    if not (isinstance(value, dict) and "kind" in value):
        _no_beginning()


def _no_beginning() -> NoReturn:
    refuse(
        "The JSON object of your reply stands behind a key, as if the beginning were missing. Send the whole object "
        "again, from its {."
    )


def followed(text: str, end: int) -> None:
    """Refuse an object behind which something stands that would go on with it."""
    follows = _FOLLOWS.match(text, end)
    if follows is not None and _ASIDE.match(text, end) is None:
        refuse(
            f"Behind the JSON object of your reply stands {follows.group().strip()!r}, at {place(text, end)}. "
            r"Send one JSON object and nothing behind it; inside a string write \" for a quote."
        )


def past_surplus(text: str, begin: int, end: int, value: Any, *, tagged: bool) -> int:
    """The place behind closing brackets that are too many behind an object, or its ``end`` when they are doubtful.

    They are doubtful where the object may be the inside of a larger one whose beginning is missing. That is not so
    where its kind says that it is a whole reply, or where a tag (``tagged``) or a fence is before it.
    """
    found = _SURPLUS.match(text, end)
    if found is None or not isinstance(value, dict):
        return end
    keys = {key.strip(BLANKS) for key in value}
    before = text[max(0, begin - _LOOK_BACK) : begin].strip(BLANKS)
    if "kind" in keys:
        sure = not before or _LETTER.search(before) is not None
    else:
        framed = tagged or _FRAMED.search(before) is not None or (not before and "name" in keys)
        sure = framed and "]" not in found.group()
    return found.end() if sure else end


def past_strings(text: str, at: int) -> int:
    """The place behind a Lua table of plain strings on one line, which is not JSON; ``at`` when there is none."""
    found = _STRINGS.match(text, at)
    return found.end() if found is not None else at


def begins_line(text: str, at: int) -> bool:
    """Whether only blanks are before a place on its line; on the first line it is not asked."""
    return text[max(0, at - _LOOK_BACK) : at].rstrip(" \t").endswith("\n")


def in_ticks(text: str, begin: int, end: int) -> bool:
    """Whether these braces stand alone between backticks, as prose names them."""
    return text[max(0, begin - 1) : begin] == text[end : end + 1] == "`"
