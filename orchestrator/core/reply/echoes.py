"""Placeholders of the prompt that came back as if they were an answer."""

import re
from collections.abc import Iterator
from typing import Any, Final

from orchestrator.core.reply.values import SHOWN_CHARS, name, refuse

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
