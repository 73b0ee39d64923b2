"""The instructions that stand before every task: a text with places that are filled in for each.

The text is a person's to change; what it must have is what the machine relies on: the tools, the
computers, and the tag of the task that fences what comes from the world as data.
"""

from dataclasses import dataclass
from string import Template
from typing import Final

from orchestrator.core.errors import InvalidRequest

PLACES: Final = ("tools", "computers", "tag", "policy")
"""What is filled in, each written with a dollar sign before it."""
_NEEDED: Final = ("tools", "computers", "tag")
MAX_CHARS: Final = 20_000
"""More would leave a small window no room for a task."""


@dataclass(frozen=True)
class Prompt:
    """A text that was checked, and the version under which requests record it."""

    text: str
    version: str

    def filled(self, *, tools: str, computers: str, tag: str, policy: str) -> str:
        """The instructions of one task."""
        places = {"tools": tools, "computers": computers, "tag": tag, "policy": policy}
        return Template(self.text).substitute(places).rstrip()


def read_prompt(text: str, version: str) -> Prompt:
    """The prompt that a text is. Raises InvalidRequest, with the line where that can be told."""
    if len(text) > MAX_CHARS:
        raise InvalidRequest(
            f"The prompt has {len(text)} characters; {MAX_CHARS} are the most.",
            remedy="Shorten it: it is sent each time.",
        )
    places = set[str]()
    for number, line in enumerate(text.splitlines(), 1):
        for found in Template.pattern.finditer(line):
            name = found.group("named") or found.group("braced")
            _check_place(name, found.group("invalid") is not None, number)
            places.add(name or "")
    missing = [name for name in _NEEDED if name not in places]
    if missing:
        wanted = " and ".join(f"${name}" for name in missing)
        raise InvalidRequest(
            f"The prompt has no place for {wanted}.", remedy="Put it in: without it the model could not work."
        )
    # Last unless the text says where: the engine's cache of all before it outlives a change of the policy.
    return Prompt(text if "policy" in places else f"{text.rstrip()}\n$policy", version)


def _check_place(name: str | None, is_invalid: bool, number: int) -> None:
    if is_invalid or (name is not None and name not in PLACES):
        what = f"the unknown place ${name}" if name else "a single $"
        known = ", ".join(f"${one}" for one in PLACES)
        raise InvalidRequest(
            f"Line {number} of the prompt has {what}.", remedy=f"Places are {known}; write $$ for a dollar sign."
        )
