r"""A request, or a question, as pages for a screen of the game: all that a decision is about, to the last character.

Theory. The first column says where a row comes from. Letters are ours. A blank, ``+``, ``-``, ``@`` and ``\`` begin a
row of a text of the world, and ``>`` goes on with the row above it. So no text of the world looks like a line of ours,
and a wrapped row of a diff does not look like two. A character that the game's charset lacks is an escape, as are those
that hide: two texts that differ never look the same.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final

from orchestrator.core.approval.approval import HitlResponse, RequestedCallView, TeamView
from orchestrator.core.policy import RiskLevel
from orchestrator.core.policy.tool_args import ALL_TOOL_ARGS
from orchestrator.core.text.patch import unified_diff
from orchestrator.core.text.visible import visible

LEAST_COLUMNS, LEAST_ROWS = 20, 8
MOST_COLUMNS, MOST_ROWS = 164, 81
"""The largest monitor of the game, at its smallest letters."""
MOST_PAGES: Final = 200
"""Nobody reads more pages in the game: what is longer is cut there, and not approved there."""
_AROUND: Final = 2
"""Rows of a screen that are not a page's: the title above it, the keys below it."""
_IN_THE_DIFF: Final = frozenset({"content", "old", "new"})
_GRAVE: Final = frozenset({RiskLevel.HIGH, RiskLevel.CRITICAL, RiskLevel.UNKNOWN})
_SIGNS: Final = {"+": "added", "-": "removed", "@": "hunk"}


@dataclass(frozen=True)
class Row:
    """One row of a screen: ``text added removed hunk title alarm``."""

    kind: str
    text: str

    def form(self) -> dict[str, str]:
        """The form as it travels."""
        return {"is": self.kind, "text": self.text}


@dataclass(frozen=True)
class Pages:
    """What is shown of one request."""

    pages: tuple[tuple[Row, ...], ...]
    whole: bool
    """Whether nothing of it was cut."""


def paged(rows: Iterable[Row], columns: int, height: int) -> Pages:
    """These rows on pages of a screen; ``columns`` and ``height`` are those of the whole screen."""
    room = height - _AROUND
    most = room * MOST_PAGES
    wrapped = list(islice((part for row in rows for part in _wrapped(row, columns)), most + 1))
    pages = tuple(tuple(wrapped[start : start + room]) for start in range(0, min(len(wrapped), most), room))
    return Pages(pages, len(wrapped) <= most)


def request_rows(request: HitlResponse, now: datetime) -> Iterator[Row]:
    """All of a request that its decision is about."""
    yield from _ours("risk", request.risk.value, "alarm" if request.risk in _GRAVE else "title")
    roles = f" ({', '.join(request.requester_roles)})" if request.requester_roles else ""
    where = f" at {request.asked_at}" if request.asked_at else ""
    yield from _ours("asks", f"{request.requester}{roles}{where}")
    yield from _told("task", request.goal)
    if request.explanation:
        yield from _told("model says" if "explanation" in request.informational else "why", request.explanation)
    if request.expires_at is not None:
        minutes = max(0, int((request.expires_at - now).total_seconds()) // 60)
        yield from _ours("expires", f"in {minutes} min" if minutes < 120 else f"in {minutes // 60} h")
    yield from _team(request.team)
    if request.redacted:
        yield Row("alarm", "secrets are [redacted]; what runs has them")
    for number, call in enumerate(request.tool_calls, 1):
        several = f" {number} of {len(request.tool_calls)}" if len(request.tool_calls) > 1 else ""
        yield from _call(call, several)
    for sibling in request.context:
        yield from _told("not asked", f"{sibling.tool} {_text_of(sibling.args)}: {sibling.state.value}")


def _team(team: TeamView | None) -> Iterator[Row]:
    """The people of a request: who approved it, who looks at it, and what they say."""
    if team is None:
        return
    if team.progress:
        yield from _ours("approved", team.progress)
    if team.claimed_by:
        yield from _ours("claimed by", team.claimed_by)
    for comment in team.comments:
        yield from _told(f"{comment.by} says", comment.text)


def question_rows(question: str, options: Iterable[str], goal: str, who: str) -> Iterator[Row]:
    """A question of the model, with its choices."""
    yield from _ours("asks", who)
    yield from _told("task", goal)
    yield from _told("question", question)
    for number, option in enumerate(options, 1):
        yield from _ours(str(number), option)


def call_title(call: RequestedCallView) -> str:
    """A call on one row of a list: its tool, its computer and its path or command."""
    what = next((str(call.args[name]) for name in ("path", "command") if name in call.args), "")
    return _shown(f"{call.tool} {call.computer or 'server'}: {what}").replace("\n", "\\n")


def _call(call: RequestedCallView, several: str) -> Iterator[Row]:
    yield from _ours(f"call{several}", call.tool, "title")
    yield from _ours("computer", call.computer or "none: on the server")
    seen, observed = call.observed, call.observed.diff
    declared = [name for name in getattr(ALL_TOOL_ARGS.get(call.tool), "model_fields", ()) if name in call.args]
    for name in dict.fromkeys((*declared, *call.args)):
        if not (observed and name in _IN_THE_DIFF):
            yield from _told(name if name in declared else f"argument {name}", _text_of(call.args[name]))
    if seen.program is not None:
        yield from _ours("program", seen.program)
    if seen.source is not None:
        yield from _told("source", seen.source)
    for path, state in seen.state.items():
        yield from _ours("found", f"{path or '/'} {state[:12] if len(state) == 64 else state}")
    if observed:
        yield from _diff(observed)
    if seen.note:
        yield from _told("note", seen.note)
    if call.original_args is not None:
        yield Row("title", f"edited by {_shown(call.edited_by or 'a person')}:")
        yield from _edited(call.original_args, call.args)
    yield from _ours("rule", f"{', '.join(call.evaluation.matched_rules) or 'none'} ({call.evaluation.reason})")
    if call.truncated:
        yield Row("alarm", "CUT: not all of it is shown here")


def _edited(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Row]:
    """What a person changed of the arguments."""
    for name in dict.fromkeys((*before, *after)):
        old, new = (_text_of(some[name]) if name in some else "" for some in (before, after))
        if old != new:
            yield from _diff(unified_diff(old, new, name))


def _diff(diff: str) -> Iterator[Row]:
    for number, line in enumerate(_shown(diff).removesuffix("\n").split("\n")):
        # Each begins with a sign of its own; only an odd one could look like a line of ours.
        text = line if line[:1] in ("+", "-", "@", " ", "\\", "") else f" {line}"
        is_name = number < 2 and line.startswith(("--- ", "+++ "))
        yield Row("title" if is_name else _SIGNS.get(line[:1], "text"), text)


def _ours(name: str, value: str, kind: str = "text") -> Iterator[Row]:
    """A name and a value on one row."""
    yield Row(kind, _shown(f"{name}: {value}").replace("\n", "\\n"))


def _told(name: str, text: str) -> Iterator[Row]:
    """A text of the world: behind its name, or below it where it has several rows."""
    shown = _shown(text).split("\n")
    name = _shown(name).replace("\n", "\\n")
    if len(shown) == 1:
        yield Row("text", f"{name}: {shown[0]}")
        return
    yield Row("title", f"{name}:")
    yield from (Row("text", f" {line}") for line in shown)


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shown(text: str) -> str:
    """The text in letters that the game has; all others are escapes, and so is a tab."""
    safe = visible(text).replace("\t", "\\t")
    return "".join(char if char < "\u0100" else f"\\u{{{ord(char):x}}}" for char in safe)


def _wrapped(row: Row, columns: int) -> Iterator[Row]:
    """A row in parts that fit; those after the first begin with ``>``."""
    yield Row(row.kind, row.text[:columns])
    for start in range(columns, len(row.text), columns - 1):
        yield Row(row.kind, f">{row.text[start : start + columns - 1]}")
