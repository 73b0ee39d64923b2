"""What pydantic found wrong, in words for the person who wrote the value."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

_WORDS: Final = {
    "missing": "is missing",
    "extra_forbidden": "is not known",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "path_type": "must be a path",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "json_invalid": "is not JSON",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
}
"""By the type of the error; a type that is not here keeps the words of pydantic."""


def plain(error: ValidationError, whole: str) -> str:
    """The first thing that is wrong, without the full stop: what it is about, and what it must be.

    ``whole`` names the value when the fault is not in one of its fields.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    return said_of(first, ".".join(str(part) for part in first["loc"]) or whole)


def said_of(fault: Mapping[str, Any], where: str) -> str:
    """One fault of pydantic's list, without the full stop; ``where`` names the value, empty: the sentence does."""
    words = _WORDS.get(fault["type"])
    if words is None:
        sentence = str(fault["msg"]).removeprefix("Value error, ").rstrip(".")
        return f"{where}: {sentence}" if where else sentence
    return f"{where or 'It'} {words.format_map(fault.get('ctx', {}))}"
