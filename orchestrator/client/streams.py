"""A stream of events, read as it comes: items, hints, and whether the connection stands."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from orchestrator.core.task.items import AgentTaskItem

HINTS: Final = frozenset({"explanation", "message", "model_text", "output"})
"""The events of a task's stream that are no items of the journal."""
COMMENT: Final = ":"
"""The kind of a stream's comments, which only say that it stands."""


@dataclass(frozen=True)
class Hint:
    """What is seen of a step before its items are there; it may be lost, and decides nothing."""

    kind: str
    """``explanation``, ``message``, ``model_text`` or ``output``."""
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Lost:
    """The connection ended before the task did; it is being opened again."""


@dataclass(frozen=True)
class Back:
    """The connection stands again; nothing was missed but hints."""


Event: TypeAlias = "AgentTaskItem | Hint | Lost | Back"


class ServerSent:
    """The events of a stream, taken out of its bytes as they come.

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
    """A hint, or None for what is an item: items know what they are, whatever the event is called."""
    if kind not in HINTS:
        return None
    try:
        value = json.loads(data)
    except ValueError:
        value = {}
    return Hint(kind, value if isinstance(value, dict) else {})
