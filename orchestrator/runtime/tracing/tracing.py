"""Following the journal as it is written, and handing finished spans to OpenTelemetry."""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.runtime.tracing.spans import Span, Story

logger = logging.getLogger(__name__)

_FOLLOWED: Final = 10_000
"""Tasks of which is remembered what is open; the others are read again."""
_AHEAD: Final = 10_000
"""Items that wait to be followed; more are left out, which costs spans and holds nobody up."""

Read = Callable[[TaskId], Awaitable[list[AgentTaskItem]]]


class Exporter(Protocol):
    """Where finished spans go."""

    def emit(self, span: Span) -> None:
        """Take one; never waits and never raises."""

    async def close(self) -> None:
        """Send what is left, within some seconds."""


def wanted(environ: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's own variables ask for spans."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    endpoint = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    return exporter != "none" and bool(exporter or endpoint)


def open_tracing(environ: Mapping[str, str], read: Read) -> "Tracing | None":
    """Spans as the environment asks for them; None where it does not, or where the extra is not installed."""
    if not wanted(environ):
        return None
    try:
        from orchestrator.runtime.tracing.otel import exporter_of
    except ModuleNotFoundError as error:
        logger.warning(
            "The variables of OpenTelemetry are set, and there are no spans: %s. "
            'Install them with `pip install "cc-orchestrator[otel]"`, or set OTEL_SDK_DISABLED=true.',
            error,
        )
        return None
    exporter = exporter_of(environ)
    return None if exporter is None else Tracing(read, exporter)


class Tracing:
    """Makes spans of the items that this node appends."""

    def __init__(self, read: Read, exporter: Exporter) -> None:
        self._read = read
        self._exporter = exporter
        self._stories: OrderedDict[TaskId, tuple[Story, int]] = OrderedDict()
        """Of each task the story, and the version up to which it was told."""
        self._waiting: asyncio.Queue[Sequence[AgentTaskItem]] = asyncio.Queue(_AHEAD)

    def observe(self, items: Sequence[AgentTaskItem]) -> None:
        """Take items that were just appended; they are looked at later, so that nobody waits for it."""
        with contextlib.suppress(asyncio.QueueFull):
            self._waiting.put_nowait(items)

    async def keep(self) -> None:
        """Follow until canceled."""
        while True:
            await self._follow(await self._waiting.get())

    async def close(self) -> None:
        """Follow what is left, and let it be sent."""
        while not self._waiting.empty():
            await self._follow(self._waiting.get_nowait())
        await self._exporter.close()

    async def _follow(self, items: Sequence[AgentTaskItem]) -> None:
        first = items[0]
        try:
            story, version = self._stories.pop(first.task_id, (Story(first.task_id), 0))
            if version != first.version - 1:
                # Others wrote meanwhile, or this process is young. What ended before was told by whoever ended it.
                story = Story(first.task_id)
                for earlier in await self._read(first.task_id):
                    if earlier.version < first.version:
                        list(story.take(earlier))
            for item in items:
                for span in story.take(item):
                    self._exporter.emit(span)
        except Exception:
            # Whatever it is: tasks go on, and so do the spans of the next.
            logger.exception("the spans of task %s are not told", first.task_id, extra={"task_id": first.task_id})
            return
        if not story.over:
            self._stories[first.task_id] = (story, items[-1].version)
            if len(self._stories) > _FOLLOWED:
                self._stories.popitem(last=False)
