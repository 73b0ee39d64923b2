"""Spans: a task's trace fits together whoever wrote which item, and says ids and counts, never what was in it."""

import asyncio
import hashlib
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from socket import socket
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.runtime.otel import OtelExporter
from orchestrator.runtime.tracing import APPROVAL_WAIT, MODEL_CALL, Span, Story, Tracing, trace_id_of, wanted
from tests import ROOT
from tests.core.journal import Journal, decision
from tests.core.journal import call as call_of
from tests.harness.support import Disk, Listening, call, final, says
from tests.harness.whole_server import Server, connected, running
from tests.waiting import HANG_S, within

ASK = says(call("ask_user", question="which colour?"), explanation="EXPLAINED")
WRITE = says(call("cc_write", path="SECRET.lua", content="print('CONTENT')\n"), explanation="EXPLAINED")
VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
NOTHING_OF_IT = ("EXPLAINED", "CONTENT", "SECRET", "fix my farm", "which colour", "green", "MESSAGE")


class Told:
    """Spans in memory, through the SDK's own exporter."""

    def __init__(self) -> None:
        self.memory = InMemorySpanExporter()
        self.exporter = OtelExporter(SimpleSpanProcessor(self.memory), self.memory)

    def spans(self) -> tuple[ReadableSpan, ...]:
        """All that ended, oldest first."""
        return self.memory.get_finished_spans()

    def by_name(self, name: str) -> list[ReadableSpan]:
        """Those of a name."""
        return [one for one in self.spans() if one.name == name]


@asynccontextmanager
async def traced(directory: Path, told: Told, *script: Any) -> AsyncIterator[Server]:
    """A server whose spans are told."""
    async with running(directory, model=Listening(*script), store=f"sqlite:///{directory}/o.db") as server:
        service = server.orchestrator.service
        tracing = Tracing(service.store.read, told.exporter)
        before = service._observer
        assert before is not None

        def observe(items: Sequence[AgentTaskItem]) -> None:
            before(items)
            tracing.observe(items)

        service._observer = observe
        keeping = asyncio.create_task(tracing.keep())
        yield server
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        while not tracing._waiting.empty():
            await tracing._follow(tracing._waiting.get_nowait())


async def answered(server: Server, task_id: str) -> None:
    """Answer the open question."""
    task = await server.until(task_id, "question_asked")
    body = {"question_id": task["question"]["question_id"], "answer": "green"}
    assert (await server.ask("POST", f"/v1/tasks/{task_id}/answer", body)).status_code < 300


def parent_of(span: ReadableSpan, told: Told) -> str:
    """The name of the span's parent; empty: it has none."""
    if span.parent is None:
        return ""
    (parent,) = [one for one in told.spans() if one.context.span_id == span.parent.span_id]
    assert parent.start_time is not None
    assert span.start_time is not None
    assert parent.start_time <= span.start_time
    return parent.name


async def test_a_task_is_a_trace_also_across_a_restart(tmp_path: Path) -> None:
    """What is asked and done is a child of its step, and steps are of the task, with a restart in the middle."""
    told = Told()
    async with traced(tmp_path, told, ASK, WRITE) as server:
        token = await server.computer("3")
        async with connected(server, "3", Disk({"SECRET.lua": b"old\n"}), token):
            task_id = await server.submit()
            await answered(server, task_id)
            await server.paused(task_id)
    assert not told.by_name("task")
    disk = Disk({"SECRET.lua": b"old\n"})
    async with traced(tmp_path, told, final("MESSAGE")) as server, connected(server, "3", disk, token):
        request = (await server.ask("GET", f"/v1/tasks/{task_id}")).json()["request"]
        await server.ask("POST", request["approval_url"])
        await server.until(task_id, "task_ended")
    spans = told.spans()
    assert {one.context.trace_id for one in spans} == {trace_id_of(task_id)}
    assert len({one.context.span_id for one in spans}) == len(spans)
    parents = {(one.name, parent_of(one, told)) for one in spans}
    assert parents == {
        ("task", ""),
        ("step", "task"),
        ("model call", "step"),
        ("tool call", "step"),
        ("approval wait", "step"),
        ("answer wait", "step"),
    }
    assert [len(told.by_name(name)) for name in ("task", "step", "model call", "tool call")] == [1, 3, 3, 1]
    (tool,), (wait,) = told.by_name("tool call"), told.by_name("approval wait")
    assert tool.attributes is not None
    assert wait.attributes is not None
    assert {key: tool.attributes[key] for key in ("cc.task_id", "cc.tool", "cc.computer", "cc.outcome")} == {
        "cc.task_id": task_id,
        "cc.tool": "cc_write",
        "cc.computer": "3",
        "cc.outcome": "ok",
    }
    assert (wait.attributes["cc.request_id"], wait.attributes["cc.outcome"]) == (request["request_id"], "approve")
    assert {one.kind for one in told.by_name("model call")} == {SpanKind.CLIENT}
    said = " ".join(one.to_json() for one in spans)
    assert not [word for word in NOTHING_OF_IT if word in said]


async def test_spans_have_the_times_of_the_journal(tmp_path: Path) -> None:
    """A span begins and ends when its items say, to the microsecond."""
    told = Told()
    async with traced(tmp_path, told, final("done")) as server:
        task_id = await server.submit(computers=[])
        await server.until(task_id, "task_ended")
        items = await server.orchestrator.store.read(TaskId(task_id))
    (root,) = told.by_name("task")
    assert root.start_time == round(items[0].at.timestamp() * 1_000_000_000)
    assert root.end_time == round(items[-1].at.timestamp() * 1_000_000_000)


async def test_what_failed_is_an_error(tmp_path: Path) -> None:
    """A task that failed has an error as its status, and a model that brought nothing too."""
    told = Told()
    async with traced(tmp_path, told, final("no", success=False)) as server:
        task_id = await server.submit(computers=[])
        await server.until(task_id, "task_ended")
    assert [(one.name, one.status.status_code) for one in told.spans()] == [
        ("model call", StatusCode.UNSET),
        ("step", StatusCode.UNSET),
        ("task", StatusCode.ERROR),
    ]


async def test_a_canceled_task_leaves_no_wait_open(tmp_path: Path) -> None:
    """A request that nobody decided ends with its task."""
    told = Told()
    async with traced(tmp_path, told, WRITE) as server, connected(server, "3", Disk({"SECRET.lua": b"old\n"})):
        task_id = await server.submit()
        await server.paused(task_id)
        await server.ask("POST", f"/v1/tasks/{task_id}/cancel")
        await server.until(task_id, "task_ended")
    assert [one.name for one in told.spans()] == ["model call", "approval wait", "step", "task"]


# -- the fold ----------------------------------------------------------------------------


def told_by(story: Journal) -> list[Span]:
    """The spans of a story."""
    fold = Story("t-1")
    return [span for item in story.items for span in fold.take(item)]


def test_a_request_is_waited_for_until_its_last_call_is_decided() -> None:
    """Two calls, decided one after the other: one wait, from the request to the second decision."""
    story = Journal()
    story.proposed([call_of("c1", "cc_write", path="a"), call_of("c2", "cc_write", path="b")], "ask", "ask")
    story.reviewed("c1", "c2")
    story.decided(decision("c1"))
    assert not [one for one in told_by(story) if one.name == APPROVAL_WAIT]
    story.decided(decision("c2", "reject"))
    (wait,) = [one for one in told_by(story) if one.name == APPROVAL_WAIT]
    assert wait.attributes["cc.outcome"] == "approve,reject"
    assert wait.ended == story.items[-1].at


def test_an_attempt_that_brought_nothing_is_a_failed_call_of_the_same_step() -> None:
    """The model is asked twice in one step: two calls with ids of their own, the first a failure."""
    story = Journal()
    story.submitted()
    story.asked()
    story.asked(attempt=2)
    story.replied()
    first, second = told_by(story)
    assert (first.failed, second.failed) == (True, False)
    assert first.span_id != second.span_id
    assert first.parent_id == second.parent_id


def a_story_of_all() -> Journal:
    """A question and its answer, a request and its decision, and a call; each reply cost tokens."""
    story = Journal()
    story.proposed([call_of("c1", "ask_user", computer=None, question="?")], "allow")
    story.question("c1")
    story.answered()
    story.proposed([call_of("c2", "cc_write", path="a")], "ask")
    story.reviewed("c2")
    story.decided(decision("c2"))
    story.started("c2")
    story.finished("c2")
    story.ended("Completed", "final")
    used = {"usage": facts.Usage(input_tokens=100, output_tokens=7)}
    for at, one in enumerate(story.items):
        if isinstance(one.fact, facts.ModelReplied):
            story.items[at] = one.model_copy(update={"fact": one.fact.model_copy(update=used)})
    return story


def test_each_span_says_what_the_docs_list() -> None:
    """No attribute more and none less, and each its own."""
    page = (ROOT / "docs" / "watching.md").read_text("utf-8")
    rows = re.findall(r"^\| `([a-z ]+)` \| (?:`\w+` )?\| [^|]* … [^|]*\| ?(.*)\|$", page, re.MULTILINE)
    listed = {name: {"cc.task_id", *re.findall(r"`([\w.]+)`", told)} for name, told in rows}
    told = {span.name: span for span in told_by(a_story_of_all())}
    for name in listed.keys() - {"task"}:
        listed[name].add("cc.step")
    assert {name: set(span.attributes) for name, span in told.items()} == listed
    wanted: dict[str, dict[str, object]] = {
        "task": {"cc.session_id": "s1", "cc.computers": "3", "cc.status": "Completed", "cc.status_reason": "final"},
        "step": {"cc.step": 2},
        "model call": {"cc.model": "scripted", "cc.attempt": 1, "gen_ai.usage.input_tokens": 100},
        "tool call": {"cc.call_id": "c2", "cc.tool": "cc_write", "cc.computer": "3", "cc.outcome": "ok", "cc.step": 2},
        "approval wait": {"cc.reason": "approval", "cc.calls": 1, "cc.outcome": "approve"},
        "answer wait": {"cc.call_id": "c1", "cc.outcome": "answered", "cc.step": 1},
    }
    assert {name: {key: told[name].attributes[key] for key in one} for name, one in wanted.items()} == wanted
    assert told["model call"].attributes["gen_ai.usage.output_tokens"] == 7


def test_a_line_of_the_log_leads_to_its_trace() -> None:
    """By the sum that the docs name."""
    assert trace_id_of("t-1") == int(hashlib.sha256(b"t-1").hexdigest()[:32], 16)


class Kept(list[Span]):
    """An exporter that keeps what it is handed."""

    def emit(self, span: Span) -> None:
        """Keep it."""
        self.append(span)

    async def close(self) -> None:
        """Nothing is left."""


async def test_what_waits_when_the_node_stops_is_told_all_the_same() -> None:
    """Items that nobody had looked at yet become spans before the exporter is closed."""
    story = Journal()
    story.submitted()
    story.asked()
    story.replied()
    kept = Kept()

    async def read(task_id: TaskId) -> list[AgentTaskItem]:
        """Nobody has to."""
        raise AssertionError(task_id)

    tracing = Tracing(read, kept)
    tracing.observe(story.items)
    assert not kept
    await tracing.close()
    assert [one.name for one in kept] == [MODEL_CALL]


# -- configured --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "asks"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, False),
    ],
)
def test_only_the_variables_of_opentelemetry_ask_for_spans(environ: dict[str, str], *, asks: bool) -> None:
    """An endpoint or an exporter does, unless it is switched off."""
    assert wanted(environ) is asks


def test_nothing_is_imported_that_nobody_asked_for() -> None:
    """The whole server without the variables loads nothing of OpenTelemetry."""
    look = "import sys, orchestrator.app; sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    subprocess.run([sys.executable, "-c", look], check=True, timeout=HANG_S)


def test_what_the_environment_says_of_the_resource_and_the_sampling_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name for the service, and that nothing is sampled: then the children are not, either."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "farm")
    told, spans = Told(), told_by(a_story_of_all())
    for one in spans:
        told.exporter.emit(one)
    assert {one.resource.attributes["service.name"] for one in told.spans()} == {"farm"}
    assert len(told.spans()) == len(spans)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    told = Told()
    for one in spans:
        told.exporter.emit(one)
    assert told.spans() == ()


@pytest.mark.deep
def test_spans_are_printed_where_that_is_asked_for() -> None:
    """With `console` they are JSON on the output."""
    prints = """
import asyncio
from tests.runtime.test_tracing import a_story_of_all, told_by
from orchestrator.runtime.otel import exporter_of
exporter = exporter_of({"OTEL_TRACES_EXPORTER": "console"})
for span in told_by(a_story_of_all()):
    exporter.emit(span)
asyncio.run(exporter.close())
"""
    done = subprocess.run([sys.executable, "-c", prints], check=True, capture_output=True, text=True, timeout=HANG_S)
    assert '"name": "approval wait"' in done.stdout


@pytest.fixture
def collector() -> Iterator[socket]:
    """Where a collector is to listen."""
    listener = socket()
    with closing(listener):
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener


async def test_a_collector_gets_the_spans(tmp_path: Path, collector: socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an endpoint in the environment a task's spans arrive there by OTLP over HTTP, at the latest at the end."""
    requests: list[ExportTraceServiceRequest] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert head.startswith("post /v1/traces ")
        size = int(head.partition("content-length: ")[2].split("\r\n")[0])
        requests.append(ExportTraceServiceRequest.FromString(await reader.readexactly(size)))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.getsockname()[1]}")
    stub = await asyncio.start_server(take, sock=collector)
    async with stub, running(tmp_path, model=Listening(final("done"))) as server:
        task_id = await server.submit(computers=[])
        await within(server.until(task_id, "task_ended"))
    resources = [one for request in requests for one in request.resource_spans]
    named = {
        one.value.string_value for each in resources for one in each.resource.attributes if one.key == "service.name"
    }
    assert named == {"cc-orchestrator"}
    spans = [one for each in resources for scope in each.scope_spans for one in scope.spans]
    assert {one.name for one in spans} == {"task", "step", "model call"}
    assert {int.from_bytes(one.trace_id, "big") for one in spans} == {trace_id_of(task_id)}


async def test_a_collector_that_is_not_there_holds_nobody_up(
    tmp_path: Path, collector: socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks go on and the node stops within seconds when nobody takes the spans."""
    port = collector.getsockname()[1]
    collector.close()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    async with asyncio.timeout(HANG_S):
        async with running(tmp_path, model=Listening(final("done"))) as server:
            task_id = await server.submit(computers=[])
            await server.until(task_id, "task_ended")
