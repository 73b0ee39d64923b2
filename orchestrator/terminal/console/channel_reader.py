"""What the reviewers' channel tells, also where the server is of another version than this program.

Theory. What a newer server says more is left out, but not of a request: one that cannot be read to its last field is
handed on as it came, so that a person sees that it waits and all of it, and nothing can be decided about it by a
program that does not know what that means (hitl.md V3, V5).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.errors import FrameRefused
from orchestrator.core.text.visible import one_line
from orchestrator.core.wire import review
from orchestrator.terminal.console.lines import Line, as_json, block

_ELSEWHERE: Final = "Decide it on the server's page, or with a cc-orchestrator of the server's version."
UNREADABLE: Final = "A request came in a form that this program does not know, so nothing is decided about it here."
_KINDS: Final[Mapping[str, type[BaseModel]]] = {
    str(model.model_fields["type"].default): model
    for model in (
        *(review.Snapshot, review.RequestOpened, review.RequestClosed, review.RequestReminded),
        *(review.QuestionOpened, review.QuestionClosed, review.TaskOver, review.Done, review.Failed),
    )
}
"""What a reviewer acts on, by its type."""


@dataclass(frozen=True)
class OddRequest:
    """A request in a form that this program does not know."""

    request_id: str
    raw: Any
    """As it came."""


@dataclass(frozen=True)
class OddRequests:
    """Requests that cannot be read; it comes before every snapshot, and in place of such a request."""

    requests: tuple[OddRequest, ...]
    anew: bool
    """Whether these are all there are."""


def messages_of(frame: str) -> list[Any]:
    """What a frame tells: messages of the channel, and its requests that cannot be read.

    What this program has no use for, such as a kind of message that is newer than it, is none. Raises FrameRefused for
    what is no message at all.
    """
    try:
        message = review.decode_to_reviewer(frame)
    except FrameRefused:
        return _as_far_as_known(_object(frame))
    return [OddRequests((), anew=True), message] if isinstance(message, review.Snapshot) else [message]


def parted(values: Iterable[Any]) -> tuple[list[HitlResponse], tuple[OddRequest, ...]]:
    """The requests that can be read, and the others."""
    good, odd = list[HitlResponse](), list[OddRequest]()
    for one in values:
        try:
            good.append(HitlResponse.model_validate(one))
        except ValidationError:
            named = one.get("request_id") if isinstance(one, dict) else None
            odd.append(OddRequest(str(named or "without an id"), one))
    return good, tuple(odd)


def request_of(value: Any) -> HitlResponse:
    """A request as a door answered it. Raises FrameRefused where it cannot be read."""
    try:
        return HitlResponse.model_validate(value)
    except ValidationError:
        raise FrameRefused(UNREADABLE, remedy=_ELSEWHERE) from None


def odd_lines(odd: OddRequest) -> list[Line]:
    """All of a request that cannot be read, as it came."""
    return [
        Line(f"── A request that this program cannot read ─ {one_line(odd.request_id)}", "alarm"),
        Line("  The server is of another version. This is all of it, as it came.", prose=True),
        Line(f"  Nothing is decided about it here. {_ELSEWHERE}", prose=True),
        *block(as_json(odd.raw, indent=2)),
    ]


def _object(frame: str) -> Mapping[str, Any]:
    try:
        value = json.loads(frame)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise FrameRefused("The server sent what is no message.", remedy="Look whether that is an orchestrator.")
    return value


def _as_far_as_known(value: Mapping[str, Any]) -> list[Any]:
    kind = _KINDS.get(str(value.get("type")))
    if kind is None:
        return []
    known = {name: value[name] for name in kind.model_fields if name in value}
    if kind is review.RequestOpened:
        good, odd = parted([known.get("request")])
        return [_validated(kind, known)] if good else [OddRequests(odd, anew=False)]
    if kind is review.Snapshot:
        known["requests"], odd = parted(known.get("requests") or ())
        return [OddRequests(odd, anew=True), _validated(kind, known)]
    return [_validated(kind, known)]


def _validated(kind: type[BaseModel], known: Mapping[str, Any]) -> BaseModel:
    try:
        return kind.model_validate(known)
    except ValidationError:
        raise FrameRefused(
            f"The server sent a {one_line(str(known['type']))} that this program cannot read.",
            remedy="Use a cc-orchestrator of the server's version.",
        ) from None
