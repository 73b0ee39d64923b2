"""How one finished step is told to the model: whole, in brief, or as one line.

What comes from the world is fenced as data with the task's tag, in each of the three. A result that is
long for the window is cut as :mod:`orchestrator.core.model_view.cuts` says. A step in brief, and one that is a line,
keep the tool, its arguments and what came of it (:mod:`orchestrator.core.model_view.rows`).
"""

import json
from enum import IntEnum
from typing import Any, Final

from orchestrator.core.model_view.cuts import cut
from orchestrator.core.model_view.rows import row
from orchestrator.core.task.repeats import nudge
from orchestrator.core.task.task import StepCall, Turn

_LONG_STRING: Final = 200
_FIRST_LINE: Final = 160
_ROW_CHARS: Final = 160
_LEAST_CHARS: Final = 300
_REFUSED_CHARS: Final = 1500
"""Of a reply that could not be used: enough to see what is wrong with it, and no task ends by its length."""


class Detail(IntEnum):
    """How much of a step is told."""

    ROW = 0
    BRIEF = 1
    WHOLE = 2


def told_refused(reply: str, detail: Detail, chars: int | None = None) -> str:
    """A reply that was refused: its head and its tail, at most so many characters; it may be of any length.

    ``chars``: what the window leaves for the results of a step, None: any number.
    """
    most = _LONG_STRING if detail is Detail.BRIEF else max(_LEAST_CHARS, min(_REFUSED_CHARS, chars or _REFUSED_CHARS))
    if len(reply) <= most:
        return reply
    head, tail = most * 2 // 3, most // 3
    return f"{reply[:head]}\n[{len(reply) - head - tail} characters are left out]\n{reply[-tail:]}"


def told_reply(reply: str, detail: Detail) -> str:
    """The model's own reply: as it came, or with its long strings left out."""
    if detail is Detail.WHOLE or len(reply) <= _LONG_STRING:
        return reply
    try:
        value = json.loads(reply)
    except (ValueError, RecursionError):
        return f"{reply[:_LONG_STRING]} [{len(reply) - _LONG_STRING} more characters are left out]"
    return json.dumps(_without_long(value), ensure_ascii=False)


def _without_long(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONG_STRING:
        return f"[{len(value)} characters are left out]"
    if isinstance(value, dict):
        return {key: _without_long(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_long(one) for one in value]
    return value


def told_results(turn: Turn, tag: str, detail: Detail = Detail.WHOLE, chars: int | None = None) -> str:
    """What came back; ``chars``: at most so many for all results together, None: all."""
    if turn.refused is not None:
        said = turn.refused if turn.unproven else f"Your reply could not be used. {turn.refused}"
        return "\n".join((said, _fenced(turn, tag, detail, chars))) if turn.calls else said
    return "\n".join(part for part in (_fenced(turn, tag, detail, chars), nudge(turn.repeats), turn.warning) if part)


def _fenced(turn: Turn, tag: str, detail: Detail, chars: int | None) -> str:
    """The results as data, between their heads and the task's tag."""
    end = f"[end of data {tag}]"
    share = None if chars is None else max(_LEAST_CHARS, chars // max(1, len(turn.calls)))
    texts = [_brief(call) if detail is Detail.BRIEF else _whole(call, share) for call in turn.calls]
    if len(texts) == 1:
        return f"TOOL_RESULT: {texts[0]}\n{end}"
    return "\n".join(
        f"TOOL_RESULT: [{number} {call.tool}] {text}\n{end}"
        for number, (call, text) in enumerate(zip(turn.calls, texts, strict=True), start=1)
    )


def told_rows(turn: Turn) -> list[str]:
    """A line for each result of a step; a reply that was refused says that."""
    if turn.refused is not None:
        return [f"- a reply was refused: {turn.refused[:_ROW_CHARS]}"]
    return [f"- {row(call)}" for call in turn.calls]


def _brief(call: StepCall) -> str:
    """A short result as it came, else what came of the call."""
    if len(call.text) <= _FIRST_LINE and "\n" not in call.text.strip():
        return call.text.strip()
    return f"{call.came} [the {len(call.text)} characters that were shown then are left out]"


def _whole(call: StepCall, chars: int | None) -> str:
    return call.text if chars is None else cut(call.text, chars, call.rest)
