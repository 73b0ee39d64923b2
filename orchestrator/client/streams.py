"""A stream of events, read as it comes: items, notifications, and whether the connection stands."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from orchestrator.core.errors import OrchestratorError
from orchestrator.runtime.program import ENV_PREFIX

if TYPE_CHECKING:
    from websockets.exceptions import InvalidStatus

    from orchestrator.core.task.items import AgentTaskItem

# -- What the server answers: an object, or an error told as a sentence ------------------

_NOBODY_BEHIND: Final = (502, 503, 504)
"""The statuses with which a proxy answers when no server behind it can be reached."""


class ServerRefused(OrchestratorError):
    """The server answered with an error; ``status`` is its HTTP status."""

    code = "server_refused"

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        message, details = str(error.get("message", "The server refused.")), error.get("details")
        told = details if isinstance(details, Mapping) else None
        super().__init__(message, remedy=str(error.get("remedy", "")), details=told)
        self.status = status
        self.reason = str(error.get("code", ""))


class ServerUnreachable(OrchestratorError):
    """Nothing answers at the server's address."""

    code = "server_unreachable"
    may_have_arrived = False
    """Whether the server may have got what was sent, and only its answer is lost."""


@contextmanager
def unless_it_closed() -> Iterator[None]:
    """A request may be settled otherwise before somebody decides, such as by a file that changed."""
    try:
        yield
    except ServerRefused as error:
        if error.status not in (404, 409):
            raise


def refusal_of(refused: "InvalidStatus", at: str) -> ServerRefused:
    """Why a handshake was refused by the server at an address."""
    status = refused.response.status_code
    try:
        checked(status, bytes(refused.response.body or b""), at)
    except ServerRefused as error:
        return error
    return _not_ours(f"The server at {at} answered {status} and opened no channel.", status)


class _Answer(dict[str, Any]):
    """An object of the server's answer: a key that is missing is the server's fault, and is told as a sentence."""

    def __missing__(self, key: str) -> Any:
        raise _not_ours(f"The server's answer lacks {key!r}.")


def checked(status: int, content: bytes, at: str) -> Any:
    """The object of an answer of the server ``at`` an address.

    Raises ServerRefused for an error, and for an answer that is not this server's.
    """
    try:
        value = json.loads(content or b"{}", object_hook=_Answer)
    except (ValueError, RecursionError):
        if status in _NOBODY_BEHIND:
            raise _nobody_behind(status, at) from None
        raise _not_ours(f"The server at {at} answered {status} without JSON.", status) from None
    if not isinstance(value, dict):
        raise _not_ours(f"The server at {at} answered {status} with JSON that is not an object.", status)
    if status >= 400 or set(value) == {"error"}:
        error = value.get("error")
        if not isinstance(error, dict):
            if status in _NOBODY_BEHIND:
                raise _nobody_behind(status, at)
            raise _not_ours(f"The server at {at} answered {status} and does not say why.", status)
        raise ServerRefused(status, error)
    if status >= 300:
        raise _not_ours(f"The server at {at} answered {status}, which leads elsewhere.", status)
    return value


def _nobody_behind(status: int, at: str) -> ServerRefused:
    """A proxy answers in its own words, most often because nothing behind it did."""
    message = f"A proxy in front of the server at {at} answered {status}: nothing answered behind it."
    remedy = "See that a node runs, and that the proxy reaches it: /healthz of a node that can act answers 200."
    return ServerRefused(status, {"message": message, "remedy": remedy})


def _not_ours(message: str, status: int = 200) -> ServerRefused:
    """Something else may listen there, or be in between."""
    remedy = (
        f"Is it cc-orchestrator? Name its address with --url or {ENV_PREFIX}URL, or start one: `cc-orchestrator serve`."
    )
    return ServerRefused(status, {"message": message, "remedy": remedy})


# -- A stream of events, read as it comes: items, notifications, and whether the connection stands

HINTS: Final = frozenset({"explanation", "message", "model_text", "output"})
"""The events of a task's stream that are not items of the journal."""
COMMENT: Final = ":"
"""The kind of a stream's comments, which only say that the stream is open."""


@dataclass(frozen=True)
class Hint:
    """The parts of a step that are seen before its items are there; they may be lost, and decide nothing."""

    kind: str
    """``explanation``, ``message``, ``model_text`` or ``output``."""
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Lost:
    """The connection ended before the task did; it is being opened again."""


@dataclass(frozen=True)
class Back:
    """The connection stands again; nothing was missed but notifications."""


Event: TypeAlias = "AgentTaskItem | Hint | Lost | Back"


class ServerSent:
    """The events of a stream, taken out of its bytes as they come.

    Not httpx-sse: it skips comments, which show that a silent stream still stands, and it needs httpx, not httpx2.
    Only LF and CR LF end a line: text may have other line breaks in it.
    """

    def __init__(self) -> None:
        self._rest, self._kind, self._data = b"", "message", list[str]()

    def feed(self, chunk: bytes) -> Iterator[tuple[str, str]]:
        """The events that are whole now: kind and data. A comment, which keeps the connection alive, is one too."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.removesuffix(b"\r").decode("utf-8", "replace").partition(":")
            if name == "event":
                self._kind = value.removeprefix(" ")
            elif name == "data":
                self._data.append(value.removeprefix(" "))
            elif value and not name:
                yield COMMENT, ""
            elif not name:
                kind, data = self._kind, self._data
                self._kind, self._data = "message", []
                if data:
                    yield kind, "\n".join(data)


def sent_in(chunks: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """The events in these bytes, each as soon as it is whole."""
    sent = ServerSent()
    return (one for chunk in chunks for one in sent.feed(chunk))


def hint_of(kind: str, data: str) -> Hint | None:
    """A notification, or None for what is an item: items know what they are, whatever the event is called."""
    if kind not in HINTS:
        return None
    try:
        value = json.loads(data)
    except ValueError:
        value = {}
    return Hint(kind, value if isinstance(value, dict) else {})
