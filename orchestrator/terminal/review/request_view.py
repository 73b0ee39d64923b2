"""A request as a person sees it before deciding: every call whole, all text of the world made visible.

Theory. The text that a decision is bound to is shown to the last character or is said to be cut; then it cannot be
approved here (promises V1, V3). A request that cannot be drawn is shown as it came: a fault of its drawing never hides
it (promise V5).
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from orchestrator.core.text.visible import one_line, visible

if TYPE_CHECKING:
    # Commands that show only what an undo or a backup does have no request.
    from orchestrator.core.approval.approval import HitlResponse, RequestedCallView, SiblingView
    from orchestrator.core.task.facts import OnTimeout

# -- Lines of safe text: what every page of the console is made of, and how a terminal shows them

Style = Literal["", "title", "alarm", "call", "file", "hunk", "added", "removed", "warning"]

BAR: Final = "  │ "
"""Begins every line of a text that the world wrote, so that none of its lines looks like one of ours."""
WHOLE: Final = 100_000_000
"""Longer than any text: the text that a decision is about is never cut here."""

_PLAIN: Final = "\x1b[0m"
_COLORS: Final[Mapping[Style, str]] = {
    "title": "\x1b[1m",
    "alarm": "\x1b[1;31m",
    "call": "\x1b[1m",
    "file": "\x1b[1m",
    "hunk": "\x1b[36m",
    "added": "\x1b[32m",
    "removed": "\x1b[31m",
    "warning": "\x1b[33m",
}
_HANGING: Final = 6
"""Blanks before the second and further lines of what was wrapped."""
_LEAST_COLUMNS: Final = 20
_PIECE: Final = re.compile(r"\S+\s*|\s+")
_JSON_ESCAPE: Final = re.compile(r"\\(?:u00([01][0-9a-f])|(.))")
_JSON_LETTERS: Final = {"b": "8", "f": "c", "r": "d"}
"""Escapes of JSON that have a letter of their own, and their code; a line break and a tab are \\n and \\t here too."""


class Line(NamedTuple):
    """One line; nothing in it moves the cursor."""

    text: str
    style: Style = ""
    prose: bool = False
    """Whether a terminal may break it at blanks; a text that runs is never broken."""


def bar(text: str, style: Style = "") -> Line:
    """One line of a text of the world."""
    return Line(BAR + text, style)


def block(text: str) -> list[Line]:
    """A whole text of the world, line by line."""
    return [bar(line) for line in visible(text).splitlines()]


def field(name: str, text: str, *, prose: bool = False) -> list[Line]:
    """A name and its text: on one line, or below each other."""
    shown = visible(text).splitlines() or [""]
    if len(shown) == 1:
        return [Line(f"  {one_line(name)}: {shown[0]}", prose=prose)]
    return [Line(f"  {one_line(name)}:"), *(bar(line) for line in shown)]


def diff_lines(diff: str) -> Iterator[Line]:
    """A unified diff, its lines styled by what they say."""
    for number, line in enumerate(visible(diff).splitlines()):
        yield bar(line, "file" if number < 2 and line.startswith(("--- ", "+++ ")) else _style_of(line))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Line]:
    """The differences between two sets of arguments, each argument as a diff of its own."""
    lines: list[Line] = []
    for name in dict.fromkeys((*before, *after)):
        given = [some[name] for some in (before, after) if name in some]
        # A number and its digits differ, though they look alike.
        shown: Callable[[Any], str] = str if all(isinstance(value, str) for value in given) else as_json
        old, new = (shown(some[name]) if name in some else None for some in (before, after))
        if old != new:
            lines.extend([Line(f"  {one_line(name)}:"), *_change(old, new)])
    return lines


def _change(old: str | None, new: str | None) -> Iterator[Line]:
    if "\n" in f"{old}{new}":
        # Few requests show a difference that is made here.
        from orchestrator.core.text.patch import unified_diff

        # Its first two lines name files, and there is none.
        yield from list(diff_lines(unified_diff(old or "", new or "", "")))[2:]
        return
    if old is not None:
        yield bar(f"-{visible(old)}", "removed")
    if new is not None:
        yield bar(f"+{visible(new)}", "added")


def text_of(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON, its control characters in the one form in which all are shown."""

    def shown(found: re.Match[str]) -> str:
        code = found[1] or _JSON_LETTERS.get(found[2])
        return found[0] if code is None else f"\\u{{{int(code, 16):x}}}"

    return _JSON_ESCAPE.sub(shown, json.dumps(value, ensure_ascii=False, indent=indent))


def on_screen(line: Line, *, color: bool, columns: int | None) -> list[str]:
    """A line as a terminal shows it: wrapped where it may be, and in color where there is any.

    Whatever made the line, no control character gets past here but those of our colors.
    """
    safe = visible(line.text).replace("\n", "\\n")
    parts = _wrapped(safe, columns) if line.prose and columns is not None else [safe]
    paint = _COLORS.get(line.style) if color else None
    return [f"{paint}{part}{_PLAIN}" for part in parts] if paint else parts


def _style_of(line: str) -> Style:
    styles: dict[str, Style] = {"+": "added", "-": "removed", "@": "hunk"}
    return styles.get(line[:1], "")


def _wrapped(text: str, columns: int) -> list[str]:
    """A line in parts of so many columns, broken after blanks; every character of it stays."""
    if columns < _LEAST_COLUMNS:
        return [text]
    lead = text[: len(text) - len(text.lstrip(" "))]
    parts, taken = [lead], len(lead)
    for piece in _PIECE.findall(text[len(lead) :]):
        if taken + _width(piece) > columns and parts[-1].strip():
            parts.append(" " * _HANGING)
            taken = _HANGING
        parts[-1] += piece
        taken += _width(piece)
    return parts


def _width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
        for char in text
    )


# -- What an undo, or putting a backup back, would do, as lines for a person -------------

_DOES: Final = {
    "restore": "put back",
    "remove": "remove",
    "conflict": "KEEP",
    "nothing": "as it was",
    "away": "wait for",
}
_WHY: Final = frozenset({"conflict", "away"})


def told(preview: Mapping[str, Any]) -> list[str]:
    """A preview as lines for a person."""
    lines = []
    for one in preview["places"]:
        why = f"  ({one['why']})" if one["why"] and one["verdict"] in _WHY else ""
        lines.append(f"{_DOES[one['verdict']]:<10}{one_line(one['place'])}{why}")
    limits = preview["cannot_be_undone"]
    lines += [f"cannot be undone: step {one['step']}, {one['tool']}: {one['what']}" for one in limits]
    waited = preview.get("not_heard", [])
    lines += [f"wait for  step {one['step']}, {one['tool']}{_on(one)}: {one['what']}" for one in waited]
    return lines


def restore_told(preview: Mapping[str, Any]) -> Iterator[str]:
    """The effect of putting a backup back, as lines for a person."""
    yield f"from {preview['backup_id']}:"
    changing = [one for one in preview["places"] if one["verdict"] != "nothing"]
    if changing:
        yield from told({"places": changing, "cannot_be_undone": []})
    same = len(preview["places"]) - len(changing)
    if same:
        yield "1 is as it was." if same == 1 else f"{same} are as they were."
    since = preview["came_since"]
    if since is None:
        yield "The computer is away: its present state is not known."
    elif since and not preview["exact"]:
        yield f"{since} came since and stay."


def _on(one: Mapping[str, Any]) -> str:
    return f" on {one_line(one['computer'])}" if one["computer"] else ""


# -- Grants in words: what one allows without asking -------------------------

_TEXTS: Final = ("content", "old", "new", "patch")
"""Arguments that are the text of a change: too long to be shown, so only said to be fixed."""


def allows(grant: Mapping[str, Any]) -> str:
    """The calls that it covers, in one line that is not safe to look at yet; a call has to fit all of it."""
    parts = [", ".join(grant["paths"])] if grant["paths"] else []
    args = grant["args"]
    parts += [f"{name} {json.dumps(args[name])}" for name in sorted(args) if name not in _TEXTS]
    if grant["scope"] == "call":
        parts.append("only this very call")
    elif grant["any_content"]:
        parts.append("any text")
    elif any(name in args for name in _TEXTS):
        parts.append("the very same text")
    if grant["files"]:
        parts.append(f"while {' and '.join(sorted(grant['files']))} stays as it was")
    where = f" on {grant['computer']}" if grant["computer"] else ""
    return f"{grant['tool']}{where}{': ' if parts else ''}{'; '.join(parts)}"


# -- A request as a person sees it before deciding: every call whole, all text of the world made visible

HASH_CHARS: Final = 12
"""Characters of a hash or a digest on the page; the details have all of it."""
_IN_THE_DIFF: Final = frozenset({"content", "old", "new"})
"""Arguments that the diff shows, where there is one."""
_GOAL_CHARS: Final = 500
_GOAL_AGAIN_CHARS: Final = 60
"""Characters of a task's goal, where it was shown before."""
_EXPLANATION_CHARS: Final = 1000
_RESULT_CHARS: Final = 200
"""Characters of a sibling's result: it is context, and the details have all of it."""
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_THEN: Final["Mapping[OnTimeout, str]"] = {
    "stay_paused": "the task waits",
    "continue": "the task goes on without it",
    "cancel": "the task is canceled",
}
_GRAVE: Final = frozenset({"high", "critical", "unknown"})


def describe(request: "HitlResponse", *, again: bool = False, now: datetime | None = None) -> list[str]:
    """A request as lines of safe text: nothing that would run is cut, nothing can move the cursor.

    ``again``: another request of its task was shown before, so that of the goal only the beginning is.
    ``now`` None: the time of this machine.
    """
    return [line.text for line in page(request, again=again, now=now)]


def page(request: "HitlResponse", *, again: bool = False, now: datetime | None = None) -> list[Line]:
    """As :func:`describe`, with the style of each line.

    It never fails: a request that cannot be drawn is shown as it came.
    """
    try:
        return [*_head(request, again, now or datetime.now(UTC)), *_calls(request.tool_calls)]
    except Exception:  # noqa: BLE001 - a fault of the drawing hides no request
        return as_it_came(request)


def details(request: "HitlResponse", calls: "Iterable[RequestedCallView]") -> list[Line]:
    """All that is known of some calls of a request, as JSON: whole arguments, digests, hashes and rules."""
    try:
        about = request.model_dump(mode="json", exclude={"tool_calls"})
        value = {**about, "tool_calls": [call.model_dump(mode="json") for call in calls]}
        return block(as_json(value, indent=2))
    except Exception:  # noqa: BLE001 - as above
        return as_it_came(request)


def as_it_came(request: "HitlResponse") -> list[Line]:
    """A request as plain JSON in ASCII, for when nothing better can be made of it."""
    try:
        data: Any = request.model_dump(mode="json", warnings=False)
        text = json.dumps(data, indent=2, default=ascii)
    except Exception:  # noqa: BLE001 - then as Python has it
        text = ascii(request)
    return [
        Line("── A request that could not be drawn: this is all of it, as it came", "alarm"),
        *(bar(line) for line in text.replace("\x7f", "\\u007f").split("\n")),
    ]


def short(call: "RequestedCallView") -> str:
    """A call on one line, for lists: what, where, on what, and how much of it changes."""
    what = _named(call.tool, call.computer)
    first = next((text_of(call.args[name]) for name in ("path", "command") if name in call.args), "")
    lines = (call.observed.diff or "").split("\n")[2:]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    # Of a diff that was cut, the lines that are left are counted.
    size = f" ({'at least ' if call.truncated else ''}+{added} -{removed})" if added or removed else ""
    return f"{what}{': ' if first else ''}{one_line(first, limit=100)}{size}"


def time_left(until: datetime, now: datetime) -> str:
    """How long there is until a time: ``59 min``; ``no time`` when it is over."""
    seconds = int((until - now).total_seconds())
    if seconds <= 0:
        return "no time"
    for unit, size, least in (("d", 86_400, 2 * 86_400), ("h", 3600, 2 * 3600), ("min", 60, 60)):
        if seconds >= least:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _head(request: "HitlResponse", again: bool, now: datetime) -> Iterator[Line]:
    title = "A person has to look" if request.reason == "outcome_unknown" else "A person has to decide"
    style: Style = "alarm" if request.risk in _GRAVE else "title"
    yield Line(f"── {title} ─ risk: {request.risk.value} ─ task {one_line(request.task_id)}", style)
    goal = one_line(request.goal, limit=_GOAL_AGAIN_CHARS if again else _GOAL_CHARS)
    roles = f" ({', '.join(map(one_line, request.requester_roles))})" if request.requester_roles else ""
    where = f" at computer {one_line(request.asked_at)} in the game" if request.asked_at else ""
    yield Line(f"  asked by {one_line(request.requester)}{roles}{where}: {goal}", prose=True)
    if request.explanation:
        said = one_line(request.explanation, limit=_EXPLANATION_CHARS)
        # A sentence that is not named there is the orchestrator's own word, and says so itself.
        by_model = "explanation" in request.informational
        yield Line(f"  {'written by the model: ' if by_model else ''}{said}", prose=True)
    if request.expires_at is not None:
        left = time_left(request.expires_at, now)
        when = "has expired" if left == "no time" else f"expires in {left}"
        yield Line(f"  {when}; then {_THEN[request.on_timeout]}")
    yield from _team(request, now)
    if request.redacted:
        yield Line("  secrets stand here as [redacted …]: what runs has them", "warning")
    if request.context:
        yield Line("  also in this step, not asked about:")
        for sibling in request.context:
            yield from _sibling(sibling)


def holder_of(request: "HitlResponse", now: datetime) -> str:
    """The person whose claim of a request holds by ``now``; empty: nobody's does."""
    team = request.team
    return team.claimed_by if team and team.claimed_until and now < team.claimed_until else ""


def told_team(request: "HitlResponse", now: datetime) -> str:
    """How far a request of several people is, and who looks at it, on one line; empty: nothing is to be told."""
    team = request.team
    if team is None:
        return ""
    told = [f"approved {team.progress}"] if team.progress else []
    if team.claimed_until and (holder := holder_of(request, now)):
        told.append(f"{holder} looks at it ({time_left(team.claimed_until, now)} left)")
    told += [f"escalated to {team.waits_for}"] if team.escalated_to else []
    return one_line("; ".join(told))


def _team(request: "HitlResponse", now: datetime) -> Iterator[Line]:
    """The people of a request: who approved it, who looks at it, and what they say."""
    if told := told_team(request, now):
        yield Line(f"  {told}", "warning", prose=True)
    if request.team is None:
        return
    if request.team.escalate_at is not None:
        yield Line(f"  it goes to other people in {time_left(request.team.escalate_at, now)}")
    for comment in request.team.comments:
        yield from field(f"{comment.by} says", comment.text, prose=True)


def _sibling(sibling: "SiblingView") -> Iterator[Line]:
    call = f"{_named(sibling.tool, sibling.computer)} {one_line(as_json(sibling.args), limit=_RESULT_CHARS)}"
    gave = "" if sibling.result is None else f": {one_line(sibling.result, limit=_RESULT_CHARS)}"
    for text in (call, f"  {sibling.state.value}{gave}"):
        yield Line(BAR + text, prose=True)


def _calls(calls: "tuple[RequestedCallView, ...]") -> Iterator[Line]:
    for number, call in enumerate(calls, start=1):
        yield from _call(call, f"[{number}/{len(calls)}] " if len(calls) > 1 else "")


def _call(call: "RequestedCallView", number: str) -> Iterator[Line]:
    yield Line(f"  {number}{_named(call.tool, call.computer)}", "call")
    yield from _arguments(call)
    observed = call.observed
    if observed.program is not None:
        yield Line(f"  program: {one_line(observed.program, limit=WHOLE)}")
    if observed.source is not None:
        yield from block(observed.source)
    for path, state in observed.state.items():
        kind = "directory " if path in observed.directories else ""
        found = state[:HASH_CHARS] if _HASH.fullmatch(state) else one_line(state, limit=WHOLE)
        yield Line(f"  found: {one_line(path, limit=WHOLE) or '/'} {kind}{found}")
    if observed.diff:
        yield from diff_lines(observed.diff)
    if observed.note:
        yield from field("note", observed.note, prose=True)
    if call.original_args is not None:
        who = one_line(call.edited_by or "a person")
        yield Line(f"  edited by {who}; these are the changes of the model's call:")
        yield from changes(call.original_args, call.args)
    yield from _verdict(call)


def _arguments(call: "RequestedCallView") -> Iterator[Line]:
    """All arguments, those of the tool first and in its order; what the diff shows only there."""
    from orchestrator.core.policy.tool_args import ALL_TOOL_ARGS

    model = ALL_TOOL_ARGS.get(call.tool)
    declared = [name for name in model.model_fields if name in call.args] if model else []
    for name in dict.fromkeys((*declared, *call.args)):
        if name in _IN_THE_DIFF and call.observed.diff:
            continue
        yield from field(name if name in declared else f"argument {name}", text_of(call.args[name]))


def _verdict(call: "RequestedCallView") -> Iterator[Line]:
    verdict = call.evaluation
    rules = one_line(", ".join(verdict.matched_rules), limit=WHOLE) or "none"
    yield Line(f"  rule: {rules} ({one_line(verdict.reason, limit=WHOLE)})", prose=True)
    if call.truncated:
        yield Line(f"  risk: {verdict.risk.value}", "alarm" if verdict.risk in _GRAVE else "")
        yield Line("  CUT: not all of this call is shown, so it cannot be approved yet", "alarm")
        return
    digest = f", digest {one_line(call.action_digest[:HASH_CHARS])}"
    yield Line(f"  risk: {verdict.risk.value}{digest}", "alarm" if verdict.risk in _GRAVE else "")


def _named(tool: str, computer: str | None) -> str:
    where = f"on computer {one_line(computer)}" if computer else "on this host"
    return f"{one_line(tool)} {where}"
