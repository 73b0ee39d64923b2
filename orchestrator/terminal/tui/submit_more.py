"""What more can be said about a new task: its model, its session and its limits."""

from collections.abc import Mapping
from typing import Any, Final

from orchestrator.terminal.tui.forms import Field, Filled, Form

_FIELDS: Final = (
    Field("model", "Model (empty: the server's)", most=200),
    Field("session_id", "Session (joins earlier tasks of yours)", most=100),
    Field("max_steps", "At most so many steps (1 to 1000; empty: as the server has it)", most=4),
    Field("max_minutes", "At most so many minutes of work (0: no limit; empty: as the server has it)", most=5),
    Field("max_tokens", "At most so many tokens (0: no limit; empty: as the server has it)", most=9),
)
_MOST: Final = {"max_steps": (1, 1000), "max_minutes": (0, 10_080), "max_tokens": (0, 100_000_000)}


def more_form(present: Mapping[str, str]) -> Form:
    """Asks for it; ``present``: what was said before."""
    return Form("More about the task", [one._replace(value=present.get(one.name, "")) for one in _FIELDS], wrong=_wrong)


def body_of(lines: Mapping[str, str]) -> dict[str, Any]:
    """What was written there, as the door takes it."""
    body: dict[str, Any] = {name: lines[name] for name in ("model", "session_id") if lines.get(name)}
    for name in ("max_steps", "max_tokens"):
        if lines.get(name):
            body[name] = int(lines[name])
    if lines.get("max_minutes"):
        body["max_wall_s"] = int(lines["max_minutes"]) * 60.0
    return body


def _wrong(filled: Filled) -> str:
    for name, (least, most) in _MOST.items():
        value = filled.lines[name]
        if value and not (value.isascii() and value.isdigit() and least <= int(value) <= most):
            return f"{value!r} is no number from {least} to {most}."
    return ""
