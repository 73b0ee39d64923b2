"""Approve and remember: how far a grant reaches is said before it is given (promises G1, G2)."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from orchestrator.core.approval.approval import HitlResponse, RequestedCallView
from orchestrator.core.approval.grants import MAX_SESSION_S, SESSION_S, GrantScope, GrantSpec, fixed_args
from orchestrator.core.policy import BUILT_IN_CATALOG, RUNNERS, RiskLevel
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.console.lines import Line, as_json, field
from orchestrator.terminal.console.person import Person
from orchestrator.terminal.console.request_view import HASH_CHARS

Number = TypeVar("Number", int, float)
_SCOPES: Final[dict[str, GrantScope]] = {"1": "call", "2": "task", "3": "session"}
_HOUR_S: Final = 3600


def ask_grant(person: Person, request: HitlResponse, call: RequestedCallView) -> GrantSpec | None:
    """The grant that the person wants, shown and agreed to; None: none."""
    if call.evaluation.risk is RiskLevel.CRITICAL or call.tool not in BUILT_IN_CATALOG:
        person.tell("What is critical is decided each time: approve it this once.")
        return None
    pattern = "these paths" if call.grant_paths else "calls like it"
    person.tell("Approve it, and from now on without asking:")
    person.tell("  1  this very call, again in this task")
    person.tell(f"  2  {pattern}, in this task")
    person.tell(f"  3  {pattern}, in this session for some hours")
    scope = _SCOPES.get(person.typed("Which (empty: none)? "))
    if scope is None:
        person.tell("Nothing was decided.")
        return None
    try:
        spec = spec_of(scope, **_reach(person, call, scope))
    except ValueError as error:
        person.tell(f"That cannot be granted: {error}. Nothing was decided.")
        return None
    person.write(pattern_lines(request, call, spec))
    if person.agrees("Approve this call and grant that?"):
        return spec
    person.tell("Nothing was decided.")
    return None


def spec_of(
    scope: GrantScope, *, globs: str = "", any_content: bool = False, hours: str = "", uses: str = ""
) -> GrantSpec:
    """A grant as it was typed; what is empty is not widened. Raises ValueError with what is wrong."""
    reach: dict[str, Any] = {"any_content": any_content}
    if globs.strip():
        reach["paths"] = tuple(globs.replace(",", " ").split())
    if hours.strip():
        reach["expires_s"] = _number(float, hours, "hours") * _HOUR_S
    if uses.strip():
        reach["max_uses"] = _number(int, uses, "times")
    try:
        return GrantSpec(scope=scope, **reach)
    except ValidationError as error:
        raise ValueError(error.errors(include_url=False)[0]["msg"]) from None


def pattern_lines(request: HitlResponse, call: RequestedCallView, spec: GrantSpec) -> list[Line]:
    """Exactly what a grant would cover."""
    where = f"on computer {one_line(call.computer)}" if call.computer else "on this host"
    lines = [
        Line("  This will run from now on without asking:", "warning"),
        Line(f"  {one_line(call.tool)} {where}", "call"),
        *(_pattern(call, spec) if spec.scope != "call" else [_same_call(call)]),
    ]
    if call.tool in RUNNERS:
        lines.append(Line("  only as long as the program's file stays the same"))
    if spec.max_uses is not None:
        lines.append(Line(f"  at most {'once' if spec.max_uses == 1 else f'{spec.max_uses} times'}"))
    hours = (spec.expires_s or SESSION_S) / _HOUR_S
    requester = one_line(request.requester)
    session = f"every task of {requester} in session {one_line(request.session_id)}, for {hours:g} h"
    ends = "until it ends" if spec.expires_s is None else f"for {hours:g} h, unless it ends before"
    return [
        *lines,
        Line(f"  in: {session if spec.scope == 'session' else f'task {one_line(request.task_id)}, {ends}'}"),
        Line("  never what the policy denies, and nothing at critical risk", prose=True),
    ]


def _reach(person: Person, call: RequestedCallView, scope: GrantScope) -> dict[str, Any]:
    """What the person widens; nothing by itself."""
    reach: dict[str, Any] = {}
    if scope == "call":
        return reach
    if call.grant_paths and (globs := person.typed("Other paths, as globs (empty: exactly those of this call): ")):
        reach["globs"] = globs
    if texts := texts_of(call):
        reach["any_content"] = person.agrees(f"With any text ({', '.join(texts)}), not only this one?")
    if scope == "session":
        most = MAX_SESSION_S // _HOUR_S
        reach["hours"] = person.typed(f"For how many hours (empty: {SESSION_S // _HOUR_S}, at most {most}): ")
    return reach


def _number(kind: Callable[[str], Number], text: str, of: str) -> Number:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{text[:20]!r} is no number of {of}") from None


def _pattern(call: RequestedCallView, spec: GrantSpec) -> list[Line]:
    paths = spec.paths or call.grant_paths
    lines = [line for path in paths for line in field("path" if spec.paths is None else "paths like", path)]
    texts = texts_of(call)
    if texts:
        lines.append(Line(f"  {' and '.join(texts)}: {'any text' if spec.any_content else 'exactly as above'}"))
    for name, value in fixed_args(call.tool, call.args, any_content=True).items():
        lines.extend(field(name, value if isinstance(value, str) else as_json(value)))
    return lines


def _same_call(call: RequestedCallView) -> Line:
    return Line(f"  exactly this call, with digest {one_line(call.action_digest[:HASH_CHARS])}")


def texts_of(call: RequestedCallView) -> list[str]:
    """The arguments whose text a pattern may leave open."""
    tight, loose = (fixed_args(call.tool, call.args, any_content=left_open) for left_open in (False, True))
    return [name for name in tight if name not in loose]
