"""Foreign spellings of a reply brought into ours, where they have exactly one reading.

A spelling that is not known here is left as it is, so that the strict models refuse it by its name:
nothing that the model wrote is dropped, except what says nothing (a null for what may be left out, the
id of a call, the role of the speaker).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from orchestrator.core.reply.scanner import MAX_CALLS, SHOWN_CHARS, kind_of, refuse, shown
from orchestrator.core.reply.surroundings import BLANKS, is_empty, is_no_call, is_no_final, named, truth, without_final

Tools = Mapping[str, type[BaseModel]]
Loader = Callable[[str], Any]

_TOOL_WORDS: Final = frozenset([
    "tool", "toolcall", "toolcalls", "toolrequest", "tooluse", "function", "functioncall", "functioncalls", "call",
    "calls", "action", "request", "tools", "batch", "toolbatch",
])  # fmt: skip
_FINAL_WORDS: Final = frozenset(["final", "finalresult", "finalanswer", "finalresponse", "finish", "finished", "done"])
"""Not ``result``: that is what a tool result would be called that the model made up."""
_WRAPPERS: Final = {
    **dict.fromkeys(["response", "reply", "result", "output", "answer", "data", "json", "agentresponse", "value"], ""),
    **dict.fromkeys(["toolrequest"], "tool"),
    **dict.fromkeys(["final", "finalresult", "finalanswer"], "final"),
}
"""Keys that may hold the whole reply, and the kind that they tell; empty: none."""
_CALLS: Final = frozenset([
    "tool_call", "tool_calls", "toolCall", "toolCalls", "function_call", "function_calls", "functionCall", "call",
    "calls",
])  # fmt: skip
_CALLED: Final = _CALLS | {"tool", "function", "action", "tools", "actions"}
"""Keys that may hold a call as an object, or several as a list."""
_NAMES: Final = frozenset(["tool", "name", "function", "tool_name", "toolName", "function_name", "action"])
_ARGS: Final = frozenset(["args", "arguments", "parameters", "params", "input"])
_WHY: Final = frozenset(["thought", "thoughts", "thinking", "reasoning", "rationale", "reason"])
_OPTIONAL: Final = _CALLED | _NAMES | {
    "explanation", "risk", "details", "success", "message", "content", "kind", "final", "final_result", "final_answer",
}  # fmt: skip
"""A null for one of these says nothing."""
_PREFIXED: Final = re.compile(r"(?:functions?|tools?|default_api)[.:/]([A-Za-z0-9_-]+)")
_SCHEMA: Final = frozenset(["$schema", "$defs", "properties", "anyOf", "oneOf", "additionalProperties"])
_MAX_WRAPS: Final = 3
_NO_KIND: Final = (
    'Your reply has no kind. Send {"kind": "tool", ...} with a tool_call, or {"kind": "final", ...} with success and '
    "message."
)
_NO_CALL: Final = (
    'Your reply has kind "tool" but no call: give either tool_call or tool_calls. If you are done, send kind "final" '
    "with success and message."
)
SAME_TWICE: Final = "Your reply has the same call twice. Send it once, or several different ones in tool_calls."
CALL_AND_FINAL: Final = (
    "Your reply is a call and a final result in one. Send only the call now, and the final result when you have seen "
    "what it did."
)


def native(value: Any, tools: Tools, load: Loader, wraps: int = 0) -> dict[str, Any]:
    """The reply as we spell it, not yet validated. ``load`` reads arguments that came as a text.

    Raises ReplyRefused when the value is not a reply, or a call and a final result in one.
    """
    if isinstance(value, list):
        return _listed(value, tools, load, wraps)
    if not isinstance(value, dict):
        refuse(f"Your reply is a JSON {kind_of(value)}, not an object. Send one JSON object with a kind.")
    said = {key: one for key, one in named(value).items() if not _left_out(key, one)}
    reply = _spoken({key: _held(key, one, load) for key, one in said.items()})
    kind = _kind(reply, tools)
    reply = _without_fillers(reply, kind)
    inner = _unwrapped(reply, kind)
    if inner is not None and wraps < _MAX_WRAPS:
        if not (kind or inner[0]) and inner[1].keys() & {"kind", "type", "success"} == {"success"}:
            refuse(_NO_KIND)  # it may be the result of a call, made up
        return _inside(native(inner[1], tools, load, wraps + 1), reply, kind or inner[0])
    return _flat(reply, kind, tools, load)


def _listed(calls: list[Any], tools: Tools, load: Loader, wraps: int) -> dict[str, Any]:
    if not calls or not all(isinstance(call, dict) for call in calls):
        refuse("Your reply is a JSON list, not an object. Send one JSON object with a kind.")
    if len(calls) == 1 and wraps < _MAX_WRAPS:
        return native(calls[0], tools, load, wraps + 1)
    calls = [named(call) for call in calls]
    if any("success" in call for call in calls):
        refuse(CALL_AND_FINAL)
    if len(calls) > MAX_CALLS:
        refuse(f"Your reply is a list of {len(calls)} calls. Send at most {MAX_CALLS} at once, in tool_calls.")
    if any(isinstance(call.get("tool_call"), dict) for call in calls):
        return _gathered([native(call, tools, load, _MAX_WRAPS) for call in calls])
    return {"kind": "tool", "tool_calls": [_call(call, tools, load) for call in calls]}


def _gathered(requests: list[dict[str, Any]]) -> dict[str, Any]:
    """A list of whole requests is one batch, explained by what each of them says."""
    if any(request.keys() - {"explanation"} != {"kind", "tool_call"} for request in requests):
        refuse("Your reply is a list of requests. Send one JSON object with all the calls in its tool_calls.")
    whys = [request.get("explanation", "") for request in requests]
    if not all(isinstance(why, str) for why in whys):
        refuse("Your reply does not fit: explanation must be text.")
    calls = [request["tool_call"] for request in requests]
    if any(call in calls[:at] for at, call in enumerate(calls)):
        refuse(SAME_TWICE)
    return {"kind": "tool", "explanation": "\n".join(why for why in dict.fromkeys(whys) if why), "tool_calls": calls}


def _left_out(key: str, value: Any) -> bool:
    return (value is None and key in _OPTIONAL) or (key in ("details", "risk") and _is_blank(value))


def _is_blank(value: Any) -> bool:
    return value is None or value == [] or (isinstance(value, str) and is_empty(value))


def _spoken(reply: dict[str, Any]) -> dict[str, Any]:
    """The reply without the frame of a chat message, its text as the explanation."""
    spoken = reply.get("role") == "assistant"
    rest = {key: value for key, value in reply.items() if not (spoken and key == "role")}
    if rest.get("content") == "":
        del rest["content"]
    elif spoken and isinstance(rest.get("content"), str) and "explanation" not in rest:
        rest["explanation"] = rest.pop("content")
    return rest


def _letters(word: str) -> str:
    return re.sub("[^a-z]", "", word.lower()) if len(word) <= SHOWN_CHARS else ""


def _word(value: Any) -> str:
    """The kind that a word tells; empty: none."""
    letters = _letters(value) if isinstance(value, str) else ""
    return "tool" if letters in _TOOL_WORDS else "final" if letters in _FINAL_WORDS else ""


def _kind(reply: dict[str, Any], tools: Tools) -> str:
    """The kind of a reply, which is taken out of it; empty: it does not tell."""
    kind = ""
    if "kind" in reply:
        written = reply.pop("kind")
        kind = _word(written)
        if not kind and _names_call(_tool_name(written, tools), reply, tools):
            kind = "tool"
        if not kind:
            refuse(f'Your reply has kind {shown(written)}. The kind is "tool" or "final".')
    told = _word(reply.get("type"))
    if told and kind in ("", told):
        del reply["type"]
        kind = told
    return kind


def _names_call(name: Any, reply: dict[str, Any], tools: Tools) -> bool:
    """Whether the kind is the name of the tool that the reply calls; it is added to arguments that stand alone."""
    if not isinstance(name, str) or name not in tools:
        return False
    call = reply.get("tool_call")
    if isinstance(call, dict):
        return bool(_tool_name(call.get("tool"), tools) == name)
    if _NAMES & reply.keys() or len(_ARGS & reply.keys()) != 1:
        return False
    reply["tool"] = name
    return True


def _unwrapped(reply: dict[str, Any], kind: str) -> tuple[str, Any] | None:
    """What the one key of a wrapper holds, and the kind that it tells; None: there is none."""
    rest = [key for key in reply if key != "explanation"]
    if len(rest) != 1 or not isinstance(reply[rest[0]], dict):
        return None
    told = _WRAPPERS.get(_letters(rest[0]))
    if told is None or (told and kind and told != kind):
        return None
    return told, reply[rest[0]]


def _inside(inner: dict[str, Any], outer: dict[str, Any], kind: str) -> dict[str, Any]:
    if kind and inner["kind"] != kind:
        refuse(f"Your reply says {kind} and holds another kind of reply. Send one flat JSON object.")
    if "explanation" not in outer:
        return inner
    if "explanation" in inner:
        refuse("Your reply has two explanations, one inside the other. Send one flat JSON object.")
    return {**inner, "explanation": outer["explanation"]}


def _held(key: str, value: Any, load: Loader) -> Any:
    """A call that came as the text of an object is that; the name of a tool stays what it is."""
    return load(value) if key == "tool_call" and isinstance(value, str) and value.lstrip().startswith("{") else value


def _without_fillers(reply: dict[str, Any], kind: str) -> dict[str, Any]:
    """The reply without the empty fields that say nothing, such as those of a call beside a final result."""
    nothing = is_no_call if kind == "final" else is_empty
    names_none = all(nothing(reply[key]) for key in reply.keys() & _NAMES)
    said = {key: value for key, value in reply.items() if not (key in _NAMES | _CALLED | _CALLS and nothing(value))}
    if names_none:
        said = {key: value for key, value in said.items() if not (key in _ARGS and is_empty(value))}
    if not kind and len(said) < len(reply) and not said.keys() & (_NAMES | _CALLED | _CALLS) and is_no_final(said):
        refuse(_NO_KIND)  # every field is empty, so that it may be either
    return said


def _flat(reply: dict[str, Any], kind: str, tools: Tools, load: Loader) -> dict[str, Any]:
    holders = [key for key in reply if key in _CALLED and isinstance(reply[key], dict | list)]
    names = [key for key in reply if key in _NAMES | _CALLS and isinstance(reply[key], str)]
    flat = bool(names) and (names[0] == "tool" or bool(_ARGS & reply.keys()) or _is_tool(reply, names[0], tools))
    calls = bool(holders) or flat
    if calls and kind != "final":
        reply = without_final(reply)
    final = "success" in reply
    if calls and (final or kind == "final"):
        refuse(CALL_AND_FINAL)
    if not kind and not calls and not final and "message" not in reply:
        if _SCHEMA & reply.keys():
            refuse("Your reply is the schema, not an answer. Send one JSON object that fits it, with real values.")
        refuse(_NO_KIND)
    if kind == "tool" and not reply.keys() & (_NAMES | _CALLED | _CALLS | _ARGS):
        refuse(_NO_CALL)
    _explain(reply)
    if not calls:
        said = {"success": truth(reply["success"])} if final else {}
        return {"kind": kind or "final", **reply, **said}
    if len(holders) + flat > 1:
        refuse("Your reply does not fit: give either tool_call or tool_calls, and each call once.")
    return {"kind": "tool", **_requested(reply, holders, tools, load)}


def _is_tool(reply: dict[str, Any], key: str, tools: Tools) -> bool:
    return key in _NAMES and _tool_name(reply[key], tools) in tools


def _explain(reply: dict[str, Any]) -> None:
    """A thought beside the reply is its explanation, where it has none."""
    whys = [key for key in reply if key in _WHY and isinstance(reply[key], str)]
    if len(whys) == 1 and "explanation" not in reply:
        reply["explanation"] = reply.pop(whys[0])


def _requested(reply: dict[str, Any], holders: list[str], tools: Tools, load: Loader) -> dict[str, Any]:
    if not holders:
        own = reply.keys() & (_NAMES | _CALLS | _ARGS | {"id"})
        call = _call({key: reply.pop(key) for key in list(reply) if key in own}, tools, load)
        _all_inside(call.get("tool"), reply, tools)
        return {**reply, "tool_call": call}
    if holders[0] == "function":
        reply.pop("id", None)
    held = reply.pop(holders[0])
    if not isinstance(held, list):
        return _lifted(reply, _call(held, tools, load))
    calls = [_call(call, tools, load) for call in held]
    return _lifted(reply, calls[0]) if len(calls) == 1 else {**reply, "tool_calls": calls}


def _lifted(reply: dict[str, Any], call: Any) -> dict[str, Any]:
    """A single call that explains itself explains the request, where nothing else does."""
    if isinstance(call, dict) and isinstance(call.get("explanation"), str) and "explanation" not in reply:
        reply = {**reply, "explanation": call["explanation"]}
        call = {key: value for key, value in call.items() if key != "explanation"}
    return {**reply, "tool_call": call}


def _call(call: Any, tools: Tools, load: Loader, wraps: int = 0) -> Any:
    """One call as we spell it, or as it came when its spelling is not known."""
    if not isinstance(call, dict):
        return call
    rest = {key: value for key, value in named(call).items() if not _says_nothing(key, value)}
    if len(rest) == 1:
        key, value = next(iter(rest.items()))
        if key in _CALLED and isinstance(value, dict) and wraps < _MAX_WRAPS:
            return _call(value, tools, load, wraps + 1)
        if key in tools and isinstance(value, dict):
            return {"tool": key, "args": value}
    names = [key for key in rest if key in _NAMES | _CALLS]
    args = [key for key in rest if key in _ARGS]
    if len(names) != 1 or len(args) > 1:
        return rest
    ours: dict[str, Any] = {"tool": _tool_name(rest.pop(names[0]), tools)}
    if args:
        ours["args"] = _arguments(rest.pop(args[0]), load)
    _all_inside(ours["tool"], rest, tools)
    return {**ours, **rest}


def _all_inside(tool: Any, rest: dict[str, Any], tools: Tools) -> None:
    """Refuse arguments that are beside ``args``, by their real fault: they are known, but not there."""
    model = tools.get(tool) if isinstance(tool, str) else None
    if model is not None and (beside := sorted(rest.keys() & model.model_fields.keys() - {"explanation"})):
        refuse(f"Arguments of {tool} stand outside of its args: {', '.join(beside)}. Put them inside args.")


def _says_nothing(key: str, value: Any) -> bool:
    if key in ("id", "call_id") or (value is None and key not in _ARGS):
        return value is None or isinstance(value, str)
    return key in ("type", "kind") and _word(value) == "tool"


def _tool_name(name: Any, tools: Tools) -> Any:
    """The name without blanks and without the namespace that a template puts before it, if that is a known name."""
    if not isinstance(name, str) or name in tools:
        return name
    bare = name[:200].strip(BLANKS)
    prefixed = _PREFIXED.fullmatch(bare)
    ours = bare if prefixed is None else prefixed.group(1)
    return ours if ours in tools else name


def _arguments(args: Any, load: Loader) -> Any:
    """Arguments that came as the text of an object are that object; arguments that say nothing count as left out."""
    return load(args) if isinstance(args, str) and args.lstrip().startswith("{") else {} if _is_blank(args) else args
