"""Spans for OpenTelemetry: each task as a trace, made from the items of its journal.

Theory. A task is a log, and so is its trace: each span begins and ends with an item. Its ids are made from those of
the task and of what it is about, so that the spans of one task fit together whichever process wrote which item, on
whichever day, and a restart in the middle of an approval loses no parent. Nothing is asked of the actor, and without
configuration nothing of OpenTelemetry is imported.

The spans of one task: a fold over its items, which says no more than ids, names of the catalog and counts.
"""

import asyncio
import contextlib
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem

# -- The spans of one task: a fold over its items, which says no more than ids, names of the catalog and counts

Value = str | int | bool

TASK: Final = "task"
STEP: Final = "step"
MODEL_CALL: Final = "model call"
TOOL_CALL: Final = "tool call"
APPROVAL_WAIT: Final = "approval wait"
ANSWER_WAIT: Final = "answer wait"
ABANDONED: Final = "abandoned"
"""The outcome of what the task no longer waited for."""
_FAILURES: Final = frozenset({"failed", "interrupted", "unknown", ABANDONED})


@dataclass(frozen=True)
class Span:
    """Something that began and is over."""

    name: str
    trace_id: int
    span_id: int
    parent_id: int
    """0: it is the root of its trace."""
    began: datetime
    ended: datetime
    attributes: Mapping[str, Value]
    failed: bool = False


def trace_id_of(task_id: str) -> int:
    """The trace of a task: the first 16 bytes of the sha256 of its id."""
    return int.from_bytes(hashlib.sha256(task_id.encode()).digest()[:16], "big")


def _span_id(task_id: str, name: str, key: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{task_id}/{name}/{key}".encode()).digest()[:8], "big")


@dataclass(frozen=True)
class _Open:
    """Something that has begun."""

    name: str
    key: str
    """Which of its name it is, within the task."""
    parent_id: int
    began: datetime
    attributes: Mapping[str, Value]


@dataclass
class _Request:
    """The questions to people, and their answers so far."""

    left: set[str]
    """The calls that wait."""
    said: set[str] = field(default_factory=set)


@dataclass
class Story:
    """The open spans of a task.

    It is told its items one after the other, and answers with the spans that each item ends.
    """

    task_id: str
    _open: dict[tuple[str, str], _Open] = field(default_factory=dict)
    _requests: dict[str, _Request] = field(default_factory=dict)
    _tools: dict[str, str] = field(default_factory=dict)
    """The tools of the calls of the present step."""
    _root: int = 0
    _step: _Open | None = None
    _steps: int = 0
    _model: str = ""
    _ended: bool = False

    @property
    def over(self) -> bool:
        """Whether no span can come any more."""
        return self._ended and not self._open

    def take(self, item: AgentTaskItem) -> Iterator[Span]:
        """The spans that this item ends."""
        match item.fact:
            case facts.TaskSubmitted():
                self._begin_task(item, item.fact)
            case facts.ModelAsked():
                yield from self._asked(item, item.fact)
            case facts.ModelReplied():
                used = item.fact.usage
                yield from self._end(
                    MODEL_CALL,
                    "",
                    item.at,
                    {"gen_ai.usage.input_tokens": used.input_tokens, "gen_ai.usage.output_tokens": used.output_tokens},
                )
            case facts.ModelAwaited():
                yield from self._end(MODEL_CALL, "", item.at, {"outcome": ABANDONED})
            case facts.CallsProposed():
                self._in_step(item)
                self._tools = {call.call_id: call.tool for call in item.fact.calls}
            case facts.TaskEnded():
                yield from self._end_task(item, item.fact)
            case facts.ToolStarted() | facts.ToolFinished() | facts.ToolSettled():
                yield from self._of_call(item, item.fact)
            case _:
                yield from self._of_people(item)

    def _of_call(
        self, item: AgentTaskItem, fact: facts.ToolStarted | facts.ToolFinished | facts.ToolSettled
    ) -> Iterator[Span]:
        match fact:
            case facts.ToolStarted():
                tool = self._tools.get(fact.call_id, "")
                about = {
                    "call_id": fact.call_id,
                    "run_id": fact.run_id,
                    # A tool that does not exist has any name that a model makes up.
                    "tool": tool if tool in BUILT_IN_CATALOG else "unknown",
                    "computer": fact.computer or "",
                }
                self._begin(TOOL_CALL, fact.run_id, item, about)
            case facts.ToolFinished():
                yield from self._end(TOOL_CALL, fact.run_id, item.at, {"outcome": "ok" if fact.ok else "failed"})
            case facts.ToolSettled():
                state = fact.state if fact.state != "finished" else "ok" if fact.ok else "failed"
                yield from self._end(TOOL_CALL, fact.run_id, item.at, {"outcome": state})

    def _of_people(self, item: AgentTaskItem) -> Iterator[Span]:
        match item.fact:
            case facts.ReviewRequested(request_id=request_id, calls=calls, reason=reason):
                self._requests[request_id] = _Request({one.call_id for one in calls})
                about = {"request_id": request_id, "reason": reason, "calls": len(calls)}
                self._begin(APPROVAL_WAIT, request_id, item, about)
            case facts.DecisionRecorded(request_id=request_id, decisions=decisions):
                said: dict[str, str] = {one.call_id: one.action for one in decisions}
                yield from self._said(request_id, said, item.at)
            case facts.RequestEnded(request_id=request_id, call_ids=call_ids, end=end):
                yield from self._said(request_id or "", dict.fromkeys(call_ids, end), item.at)
            case facts.QuestionAsked(question_id=question_id, call_id=call_id):
                self._begin(ANSWER_WAIT, question_id, item, {"question_id": question_id, "call_id": call_id})
            case facts.QuestionAnswered(question_id=question_id):
                yield from self._end(ANSWER_WAIT, question_id, item.at, {"outcome": "answered"})

    def _said(self, request_id: str, said: Mapping[str, str], at: datetime) -> Iterator[Span]:
        """The outcome of calls of a request, which is over with the last of them."""
        request = self._requests.get(request_id)
        if request is not None:
            request.left -= set(said)
            request.said |= set(said.values())
            if not request.left:
                yield from self._end_request(request_id, at)

    def _end_request(self, request_id: str, at: datetime) -> Iterator[Span]:
        request = self._requests.pop(request_id)
        yield from self._end(APPROVAL_WAIT, request_id, at, {"outcome": ",".join(sorted(request.said)) or ABANDONED})

    # -- the task and its steps ----------------------------------------------------------

    def _begin_task(self, item: AgentTaskItem, fact: facts.TaskSubmitted) -> None:
        self._root = _span_id(self.task_id, TASK, "")
        self._model = fact.model
        about = {"session_id": fact.session_id, "computers": ",".join(fact.computers)}
        self._open[TASK, ""] = _Open(TASK, "", 0, item.at, self._ids(about))

    def _end_task(self, item: AgentTaskItem, fact: facts.TaskEnded) -> Iterator[Span]:
        self._ended = True
        yield from self._end_step(item.at)
        said = {"status": fact.status, "status_reason": fact.status_reason}
        yield from self._end(TASK, "", item.at, said, failed=fact.status == "Failed")

    def _asked(self, item: AgentTaskItem, fact: facts.ModelAsked) -> Iterator[Span]:
        if fact.attempt == 1:
            yield from self._end_step(item.at)
        # An attempt that brought nothing ends with the next.
        yield from self._end(MODEL_CALL, "", item.at, {"outcome": ABANDONED})
        self._in_step(item)
        self._begin(MODEL_CALL, "", item, {"model": self._model, "attempt": fact.attempt}, key=str(item.version))

    def _in_step(self, item: AgentTaskItem) -> None:
        """Begin a step unless one is open; a restoration's begins with its calls."""
        if self._step is None:
            self._steps += 1
            self._step = _Open(STEP, str(self._steps), self._root, item.at, self._ids({"step": self._steps}))
            self._open[STEP, ""] = self._step

    def _end_step(self, at: datetime) -> Iterator[Span]:
        """End the step, and what in it waits for nothing any more; a call may still be settled."""
        for request_id in list(self._requests):
            yield from self._end_request(request_id, at)
        for name, slot in [key for key in self._open if key[0] in (MODEL_CALL, ANSWER_WAIT)]:
            yield from self._end(name, slot, at, {"outcome": ABANDONED})
        yield from self._end(STEP, "", at, {})
        self._step = None

    # -- spans ---------------------------------------------------------------------------

    def _ids(self, about: Mapping[str, Value]) -> dict[str, Value]:
        told = {name: value for name, value in about.items() if value != ""}
        return {f"cc.{name}": value for name, value in {"task_id": self.task_id, **told}.items()}

    def _begin(self, name: str, slot: str, item: AgentTaskItem, about: Mapping[str, Value], *, key: str = "") -> None:
        """Open something in a slot of its name; ``key``: which it is, where others take the same slot."""
        parent = _span_id(self.task_id, STEP, self._step.key) if self._step is not None else self._root
        attributes = self._ids({"step": self._steps, **about})
        self._open[name, slot] = _Open(name, key or slot, parent, item.at, attributes)

    def _end(
        self, name: str, slot: str, at: datetime, said: Mapping[str, Value], *, failed: bool = False
    ) -> Iterator[Span]:
        begun = self._open.pop((name, slot), None)
        if begun is None:
            return
        told = {one if "." in one else f"cc.{one}": value for one, value in said.items()}
        yield Span(
            name=name,
            trace_id=trace_id_of(self.task_id),
            span_id=_span_id(self.task_id, name, begun.key),
            parent_id=begun.parent_id,
            began=begun.began,
            ended=max(begun.began, at),
            attributes={**begun.attributes, **told},
            failed=failed or said.get("outcome") in _FAILURES,
        )


# -- Following the journal as it is written, and handing finished spans to OpenTelemetry

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
        from orchestrator.runtime.otel import exporter_of
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
        """For each task the story, and the version up to which it was told."""
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
                # Others wrote meanwhile, or this process is young. The node that ended a span has told it.
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
