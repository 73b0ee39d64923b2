"""The one reply of a text, spelled as ours and not yet validated."""

import json
import re
from typing import Any, Final, NoReturn

from orchestrator.core.errors import ReplyRefused
from orchestrator.core.reply import surroundings as standing
from orchestrator.core.reply import values
from orchestrator.core.reply.echoes import calls_of, no_echo
from orchestrator.core.reply.objects import Finder, Found
from orchestrator.core.reply.scanner import Scanner
from orchestrator.core.reply.shapes import CALL_AND_FINAL, SAME_TWICE, Tools, native
from orchestrator.core.reply.values import refuse

_ESCAPED: Final = re.compile(r"\{\s*\\(?:\"|n\s*\\?)")
"""How an object begins that was escaped as if it stood in a string."""

_PARENS: Final = re.compile(
    r"(?:<\|python_tag\|>)?\s*(?P<room>(?:functions?|tools?|default_api)\.)?(?P<name>[A-Za-z0-9_-]{1,60})\(\s*(?=\{)"
)
"""A call as in a program, with an object as what it gets."""
_PARENS_END: Final = re.compile(r"(?:\s*[}\]])*\s*\)\s*;?\s*(?:<\|[a-z_]{1,30}\|>)?\Z")


def reply_in(text: str, tools: Tools) -> dict[str, Any]:
    """The one reply of a text.

    ``text`` is stripped and not empty. Raises ReplyRefused when there is none, or more than one.
    """
    if values.has_surrogates(text):
        values.half_character()
    try:
        value = values.strict(text)
    except ValueError:
        if _ESCAPED.match(text) and text.endswith("}"):
            reply = native(_unescaped(f'"{text}"'), tools, load)
        elif (call := _PARENS.match(text)) and (call.group("room") or call.group("name") in tools):
            reply = native(_parens(text, call), tools, load)
        else:
            reply = _chosen(Finder(text), tools)
    else:
        wrapped = isinstance(value, str) and value.lstrip().startswith("{")
        reply = native(load(value) if wrapped else value, tools, load)
    no_echo(reply)
    return reply


def load(text: str) -> Any:
    """The one value of a text that has nothing else, repaired where nothing is lost.

    Closing brackets too many behind it are passed over. Raises ReplyRefused when it is incomplete, wrong, or
    followed by more.
    """
    return _value(text, surplus=True)


def _value(text: str, *, surplus: bool = False) -> Any:
    try:
        return values.strict(text)
    except ValueError:
        scanner = Scanner(text)
        value, end = scanner.value(0)
        if scanner.gap(end) != len(text) and not (surplus and standing.SURPLUS_ONLY.match(text, end)):
            refuse("A string in your reply has more than one JSON object in it. Send the object itself, not as a text.")
        return value


def _unescaped(literal: str) -> Any:
    try:
        text = json.loads(literal, strict=False)
    except ValueError:
        refuse('Your reply is JSON with its quotes escaped. Send the JSON object itself, with plain " quotes.')
    if values.has_surrogates(text):
        values.half_character()
    return _value(text)


def _parens(text: str, call: re.Match[str]) -> dict[str, Any]:
    """The call that is the whole text, from its name to the parenthesis that closes."""
    args, end = Scanner(text).value(call.end())
    if _PARENS_END.match(text, end) is None:
        refuse(
            "Your reply is a call with more than one JSON object in it, or without its end. Send the call as one JSON "
            "object, with all its arguments in args."
        )
    return {"tool": call.group("name"), "args": args}


def _chosen(finder: Finder, tools: Tools) -> dict[str, Any]:
    found = finder.run()
    if not found:
        _nothing(finder)
    if len(found) > 1 and all(one.mark for one in found):
        return _batch(found, tools)
    if len(found) == 1:
        return native(found[0].value, tools, load)
    replies = _replies(found, tools)
    if len({_asked(reply) for reply in replies}) > 1:
        kinds = {reply["kind"] for reply in replies}
        refuse(
            CALL_AND_FINAL
            if len(kinds) > 1
            else "Your reply has several JSON objects that differ. Send one: several calls go into its tool_calls."
        )
    return replies[0]


def _replies(found: list[Found], tools: Tools) -> list[dict[str, Any]]:
    """The replies among several objects; what else there is only says once more what a call of theirs gets."""
    replies, others = [], []
    for one in found:
        try:
            replies.append(native(one.value, tools, load))
        except ReplyRefused:
            others.append(one.value)
    said = {_text(call.get("args")) for reply in replies for call in calls_of(reply) if isinstance(call, dict)}
    if any(_text(value) not in said for value in others):
        # It is not passed over: it may be a result that was made up, or what should have been the reply.
        refuse("Your reply has several JSON objects, and one of them is no reply. Send only one JSON object.")
    return replies


def _batch(found: list[Found], tools: Tools) -> dict[str, Any]:
    """Calls in tags of their own, side by side, are one batch."""
    replies = [native(one.value, tools, load) for one in found]
    if any(reply["kind"] == "final" for reply in replies):
        refuse(CALL_AND_FINAL)
    if any(reply.keys() != {"kind", "tool_call"} for reply in replies):
        refuse("Your reply has several requests. Send one JSON object with all the calls in its tool_calls.")
    calls = [reply["tool_call"] for reply in replies]
    if len({_text(call) for call in calls}) < len(calls):
        refuse(SAME_TWICE)
    return {"kind": "tool", "tool_calls": calls}


def _asked(reply: dict[str, Any]) -> str:
    """What a reply asks for: why, in other words, is no other request."""
    return _text({key: one for key, one in reply.items() if key != "explanation" or not isinstance(one, str)})


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _nothing(finder: Finder) -> NoReturn:
    if finder.thought and not finder.code and not finder.words.strip():
        refuse("Your reply has only thoughts. Send the JSON object behind them.")
    refuse(
        "Your reply has no JSON object. Send one, such as a request for a tool; a program goes into the content of a "
        "call, prose into explanation or message."
    )
