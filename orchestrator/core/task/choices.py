"""The choices that a question of a model may offer: their rules, their numbers, and the choice that an answer means.

A person answers with the number of a choice or in their own words. A number in range always means the choice. So
choices that are such numbers themselves, in another order, are refused: nobody could say which one was meant.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import without_hidden

MAX_CHOICES: Final = 6
"""A screen of the game shows as many below their question."""
MAX_CHARS: Final = 80
"""Characters of one choice: a line of a terminal."""
_NUMBER: Final = re.compile(f"[1-{MAX_CHOICES}]", re.ASCII)


def checked(options: Sequence[str]) -> list[str]:
    """The choices, each on one line. Raises ValueError where one shows nothing, equals another, or is its number."""
    shown = [" ".join(one.split()) for one in options]
    if not all(map(without_hidden, shown)):
        raise ValueError("an option is empty")
    if len(set(map(str.casefold, shown))) < len(shown):
        raise ValueError("two options are the same")
    if any(place_of(one, shown) not in (None, place) for place, one in enumerate(shown)):
        raise ValueError("an option is the number of another one; write it in words")
    return shown


def options_of(args: Mapping[str, Any]) -> tuple[str, ...]:
    """The choices in the arguments of a question; empty: it offers none."""
    return tuple(map(str, args.get("options") or ()))


def place_of(answer: str, options: Sequence[str]) -> int | None:
    """The place of the choice, from 0, whose number is the whole answer; None: it is in the person's own words."""
    said = answer.strip()
    return int(said) - 1 if _NUMBER.fullmatch(said) and int(said) <= len(options) else None


def chosen(answer: str, options: Sequence[str]) -> str:
    """The text that the model gets: that of the choice whose number was typed, else the answer as it is.

    Raises InvalidRequest where the answer shows nothing.
    """
    if not without_hidden(answer):
        raise InvalidRequest("The answer is empty.", remedy="Answer in words, or with the number of a choice.")
    place = place_of(answer, options)
    return answer if place is None else options[place]


def numbered(question: str, options: Sequence[str]) -> str:
    """A question with its choices below it, a line each."""
    return "\n".join([question, *(f"  {number}. {one}" for number, one in enumerate(options, 1))])


def how_to_answer(options: Sequence[str]) -> str:
    """What a person may type, as a short sentence without its end; empty: anything."""
    most = len(options)
    which = f"1 to {most} picks a choice" if most > 1 else "1 picks it"
    return f"{which}, or use your own words" if most else ""
