"""OpenTelemetry's side: the one module that imports it, and only where it is configured."""

import asyncio
import logging
import threading
from collections.abc import Mapping
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace import set_span_in_context as within

from orchestrator.runtime.tracing import MODEL_CALL, Span

logger = logging.getLogger(__name__)

SERVICE: Final = "cc-orchestrator"
"""The name of the service, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES says another."""
_CLOSES_WITHIN_S: Final = 3.0
"""Seconds that a collector gets at the end to take the last spans."""
_NS: Final = 1_000_000_000


def exporter_of(environ: Mapping[str, str]) -> "OtelExporter | None":
    """The exporter that the variables name; None, said in the log, for one that is not here."""
    name = environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() or "otlp"
    protocol = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if name not in ("otlp", "console") or (name == "otlp" and protocol not in (None, "", "http/protobuf")):
        logger.warning(
            "There are no spans: OTEL_TRACES_EXPORTER=%s with the protocol %s is not known here. "
            "Take otlp with http/protobuf, or console.",
            name,
            protocol,
        )
        return None
    exporter: SpanExporter = OTLPSpanExporter() if name == "otlp" else ConsoleSpanExporter()
    return OtelExporter(BatchSpanProcessor(exporter), exporter)


class _Ids(IdGenerator):
    """Gives out the ids that the next span is to have."""

    trace_id = 0
    span_id = 0

    def generate_trace_id(self) -> int:
        """The id as it was set."""
        return self.trace_id

    def generate_span_id(self) -> int:
        """As it was set."""
        return self.span_id


class OtelExporter:
    """Hands spans to a processor of OpenTelemetry's SDK, which sends them from a thread of its own."""

    def __init__(self, processor: SpanProcessor, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._ids = _Ids()
        # A name of the resource from the environment counts more than ours.
        resource = Resource({SERVICE_NAME: SERVICE}).merge(_of_environment())
        self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer(SERVICE)

    def emit(self, span: Span) -> None:
        """Hand over one span, with its own ids and times."""
        self._ids.trace_id, self._ids.span_id = span.trace_id, span.span_id
        begun = self._tracer.start_span(
            span.name,
            context=within(NonRecordingSpan(self._parent(span)), Context()) if span.parent_id else Context(),
            kind=SpanKind.CLIENT if span.name == MODEL_CALL else SpanKind.INTERNAL,
            attributes=dict(span.attributes),
            start_time=round(span.began.timestamp() * _NS),
        )
        if span.failed:
            begun.set_status(Status(StatusCode.ERROR))
        begun.end(end_time=round(span.ended.timestamp() * _NS))

    async def close(self) -> None:
        """Send what is left; a collector that does not take it is left alone after some seconds."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, _CLOSES_WITHIN_S)
        if closing.is_alive():
            # It waits to try again: that wait ends now.
            self._exporter.shutdown()

    def _parent(self, span: Span) -> SpanContext:
        # The root is told last, so whether the trace is sampled is found by its id, as for the root itself.
        decision = self._provider.sampler.should_sample(None, span.trace_id, span.name).decision
        flags = TraceFlags(TraceFlags.SAMPLED if decision is Decision.RECORD_AND_SAMPLE else TraceFlags.DEFAULT)
        return SpanContext(span.trace_id, span.parent_id, is_remote=True, trace_flags=flags)


def _of_environment() -> Resource:
    """The SDK's resource; its own name for a service without one counts for nothing."""
    found = Resource.create()
    named = str(found.attributes.get(SERVICE_NAME, ""))
    left = {key: value for key, value in found.attributes.items() if key != SERVICE_NAME or not _unknown(named)}
    return Resource(left)


def _unknown(name: str) -> bool:
    return name.startswith("unknown_service")
