"""The words of states, as the page of the server has them, each with a sign and a colour of its kind.

Theory. A word always says it; the sign and the colour only help to find it. Each colour stands on the background of the
dark and of the light look with a contrast of at least 4.5 to 1.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from rich.style import Style as RichStyle

from orchestrator.core.text.visible import one_line

Tone = Literal["", "busy", "waits", "good", "bad", "odd", "quiet"]

_COLORS: Final[Mapping[Tone, tuple[str, str]]] = {
    "busy": ("#6cb6ff", "#0a4f9e"),
    "waits": ("#f2c14e", "#704400"),
    "good": ("#7fd88f", "#0b5a26"),
    "bad": ("#ff8c82", "#a8071a"),
    "odd": ("#e2a6ff", "#741a99"),
    "quiet": ("#a8a8a8", "#525252"),
}
"""Of the dark look, and of the light one."""


def style_of(tone: Tone, *, dark: bool) -> RichStyle:
    """The colour of a tone."""
    return RichStyle(color=_COLORS[tone][0 if dark else 1]) if tone else RichStyle()


# -- Tasks -------------------------------------------------------------------------------

_TASKS: Final[Mapping[str, tuple[str, str, Tone]]] = {
    "Queued": ("…", "Queued", "quiet"),
    "Running": ("▶", "Running", "busy"),
    "Paused": ("◆", "Paused", "waits"),
    "Completed": ("✓", "Completed", "good"),
    "Failed": ("✗", "Failed", "bad"),
    "Canceled": ("-", "Canceled", "quiet"),
    "Unverified": ("?", "Unverified", "odd"),
}
"""The sign, the word and the tone of each status."""


def status_of(task: Mapping[str, Any]) -> str:
    """The status of a task as it is said: a success that the journal does not support does not count as one."""
    return "Unverified" if (task["status"], task["status_reason"]) == ("Completed", "unverified") else task["status"]


def word_of(status: str) -> str:
    """A status in the word of the page."""
    return _TASKS[status][1] if status in _TASKS else one_line(status)


def task_state(task: Mapping[str, Any]) -> tuple[str, Tone]:
    """The state of a task: sign, word and reason; and its tone."""
    status = status_of(task)
    sign, word, tone = _TASKS.get(status, (" ", one_line(status), ""))
    reason = one_line(task["status_reason"])
    if status == "Unverified" or reason == "final":
        reason = ""
    if reason.startswith("waiting "):
        said = f"{word}, {reason.removeprefix('waiting ') if word == 'Paused' else reason}"
    else:
        said = f"{word}{', ' if reason else ''}{reason}"
    return f"{sign} {said}{', kept' if task['pinned'] else ''}", tone


# -- Computers ---------------------------------------------------------------------------

_COMPUTERS: Final[Mapping[str, tuple[str, str, Tone]]] = {
    "online": ("●", "Online", "good"),
    "away": ("○", "Away", "quiet"),
    "frozen": ("!", "Frozen", "bad"),
}
_FAMILIES: Final[Mapping[str, str]] = {
    "computer": "Computer",
    "advanced": "Advanced computer",
    "turtle": "Turtle",
    "pocket": "Pocket computer",
    "command": "Command computer",
}


def computer_state(state: str) -> tuple[str, Tone]:
    """The state of a computer: sign and word; and its tone."""
    sign, word, tone = _COMPUTERS.get(state, (" ", one_line(state), ""))
    return f"{sign} {word}", tone


def family_of(family: str | None) -> str:
    """The kind of a computer, in the words of the page."""
    return _FAMILIES.get(family or "", one_line(family or "-", limit=20))


# -- Requests ----------------------------------------------------------------------------

_RISKS: Final[Mapping[str, Tone]] = {"low": "good", "medium": "waits", "high": "bad", "critical": "bad"}


def risk_tone(risk: str) -> Tone:
    """The tone of a risk."""
    return _RISKS.get(risk, "odd")
