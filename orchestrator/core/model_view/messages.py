"""What was wrong with a value or with replies, in words for the person who can change it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from orchestrator.core.text.redact import redact_text
from orchestrator.core.text.visible import one_line

CUT_OFF: Final = "Your reply was cut off at the length limit."
"""How the sentence begins that refuses a reply for it."""
_SHOWN_CHARS: Final = 200
_UNREAD_CHARS: Final = 2_000
"""So much of a reply is searched for secrets: more than is shown, so that none is cut in two."""

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


def unread(refused: Sequence[str], last: str, *, num_predict: int, salt: str) -> str:
    """Why replies in a row could not be read, what came, and what to try, for the person whose task ends so.

    ``refused`` are the sentences that the model was told, ``last`` is the text of the last reply. ``num_predict`` is
    the limit of a reply in tokens; 0: the model has one of its own. Secrets of the text are redacted with ``salt``.
    """
    cut = all(one.startswith(CUT_OFF) for one in refused)
    parts = [f"{len(refused)} replies in a row could not be read."]
    if cut:
        most = f"num_predict {num_predict}" if num_predict else "the length limit of the model"
        parts.append(f"They were {'' if last.strip() else 'empty, and '}cut off at {most}.")
    # Before what is long: a screen in the game cuts the text.
    parts.append(_to_try(last, is_cut=cut, has_window=num_predict > 0))
    if last.strip():
        shown = one_line(redact_text(last[:_UNREAD_CHARS], salt=salt)[:_SHOWN_CHARS])
        more = f" (and {len(last) - _SHOWN_CHARS} characters more)" if len(last) > _SHOWN_CHARS else ""
        parts.append(f"The last one was `{shown}`{more}.")
        if not cut:
            parts.append(f"It was refused with: {refused[-1]}")
    elif not cut:
        parts.append("The last one was empty.")
    return " ".join(parts)


def _to_try(last: str, *, is_cut: bool, has_window: bool) -> str:
    if is_cut and not last.strip():
        return 'The model used up all of it on its thoughts. Set think = "off", or raise the limit.'
    if is_cut:
        limits = "Raise num_predict, and num_ctx with it" if has_window else "Raise that limit"
        return f'{limits}; for a model that thinks, set think = "off".'
    window = "a larger num_ctx" if has_window else "a larger window"
    return f'Try another model, {window}, or another value of think ("auto" or "off").'
