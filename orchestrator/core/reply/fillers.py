"""What a reply has that says nothing: blanks around names, truth values as texts, empty fields of the other kind.

A model that fills in a flat form sends every field of it: ``"success": false, "message": ""`` beside a call,
``"tool_call": {"tool": "", "args": {}}`` beside a final result. Such a field is left out only where it is empty. A
field that says something stays, so that the contradiction is refused.
"""

from typing import Any, Final

from pydantic import BaseModel, ValidationError

from orchestrator.core.reply.values import key_twice

BLANKS: Final = " \t\r\n\v\f"
"""What may stand around a name and says nothing. A sign that nobody sees is no blank: it makes another name."""
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

    No blanks stand around their names, ``1.0`` is 1, and what must be true or false may be spelled as a text. A
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
