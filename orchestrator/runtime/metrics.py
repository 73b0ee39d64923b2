"""Figures for Prometheus: counters folded from the items that this node appends, gauges read at each scrape.

Counting what this node does, and telling it in Prometheus' text format.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest

from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem

# -- The list of all figures: what Prometheus is told, under which names and labels ------
#
# Names, labels and what they mean are for ever, as dashboards and alarms are made of them; new ones may come. A
# label's values are a closed list of the code or what an operator writes into the policy, never the id of a task,
# a computer's name or anybody's text: how many series there are does not grow with use.
#
# Of several nodes each tells its own counters, and their sum is the total. A gauge that is read from the store is the
# same at each node, so its text says so.

PREFIX: Final = "cc_orchestrator_"
_CALL_BUCKETS_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""Bounds of the buckets, from one tick of the game to the longest run that is usual."""
_PEOPLE_BUCKETS_S: Final = (1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400)
_MODEL_BUCKETS_S: Final = (0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
_LAG_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
"""Bounds of the buckets: from usual times to those that a person at a console feels."""


@dataclass(frozen=True)
class Figure:
    """One figure that is told. A counter's name ends with ``_total`` when it is told."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


FIGURES: Final = (
    Figure("computers_online", "gauge", "Computers that are connected to this node now."),
    Figure("computers_known", "gauge", "Computers that have a token, of all nodes."),
    Figure(
        "tasks",
        "gauge",
        "Tasks of all nodes that have not ended, by status; Queued ones wait for a worker.",
        ("status",),
    ),
    Figure(
        "queue_age_seconds",
        "gauge",
        "Seconds that the task longest due has waited for a worker of any node; 0: none waits.",
    ),
    Figure("requests_open", "gauge", "Requests that wait for a person's decision, of all nodes."),
    Figure("oldest_request_seconds", "gauge", "Seconds that the oldest of them has waited; 0: none waits."),
    Figure("questions_open", "gauge", "Questions of models that wait for a person's answer, of all nodes."),
    Figure("items_appended", "counter", "Items that this node appended to journals, by kind.", ("kind",)),
    Figure("tasks_ended", "counter", "Tasks whose end this node recorded, by status.", ("status",)),
    Figure("verdicts", "counter", "The policy's first verdicts on calls, by tool and effect.", ("tool", "effect")),
    Figure("requests_raised", "counter", "Requests that were put to people, by reason.", ("reason",)),
    Figure("requests_ended", "counter", "Requests that ended without a decision: expired, stale and so on.", ("end",)),
    Figure("decisions", "counter", "Decisions of people on single calls, by action.", ("action",)),
    Figure(
        "judged_calls",
        "counter",
        "The same by tool and by each rule that asked for a person; approvals of all are the approval rate.",
        ("tool", "rule", "action"),
    ),
    Figure("decision_seconds", "histogram", "Seconds from a request to its decision.", buckets=_PEOPLE_BUCKETS_S),
    Figure("calls", "counter", "Calls of tools that ended, by tool and outcome.", ("tool", "outcome")),
    Figure("call_seconds", "histogram", "Seconds from a call's start to its outcome.", buckets=_CALL_BUCKETS_S),
    Figure("model_replies", "counter", "Replies of the model, by how they ended.", ("done_reason",)),
    Figure("model_tokens", "counter", "Tokens, as the model's server counted them: in or out.", ("direction",)),
    Figure("model_seconds", "histogram", "Seconds from a request to the model's reply.", buckets=_MODEL_BUCKETS_S),
    Figure("wire_bytes", "counter", "Bytes of frames from computers (in) and to them (out).", ("direction",)),
    Figure("wire_frames", "counter", "Frames from computers (in) and to them (out).", ("direction",)),
    Figure(
        "store_errors",
        "counter",
        "Operations of the store that failed, by code; conflicts and lost leases are answers, and not among them.",
        ("code",),
    ),
    Figure("log_lines", "counter", "Lines of the log, by level.", ("level",)),
    Figure(
        "loop_lag_seconds",
        "histogram",
        "Seconds that the event loop came late to a timer: all work of this process waits so much longer.",
        buckets=_LAG_BUCKETS_S,
    ),
)
"""All of them; docs/metrics.md is drawn from this."""


# -- How late the event loop is ----------------------------------------------------------

EVERY_S: Final = 1.0
"""Between two looks: often enough to see what holds the loop up, and no work."""


async def watch_lag(observe: Callable[[float], None]) -> None:
    """Tell, until canceled, by how many seconds each timer came late."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + EVERY_S
        await asyncio.sleep(EVERY_S)
        observe(max(0.0, loop.time() - due))


# -- Counting what this node does, and telling it in Prometheus' text format -------------

_Value = TypeVar("_Value")

_REMEMBERED: Final = 10_000
"""Calls and requests that were begun and have not ended; the oldest make room."""


@dataclass(frozen=True)
class Snapshot:
    """What is so at this moment, as the store and the hub say."""

    computers_online: int
    computers_known: int
    tasks: Mapping[str, int]
    """Tasks that have not ended, by status."""
    requests_open: int
    oldest_request_s: float = 0.0
    """How long the oldest of them has waited; 0: none waits."""
    questions_open: int = 0
    queue_age_s: float = 0.0
    """How long the task longest due has waited for a worker; 0: none waits."""
    wire_bytes: Mapping[str, int] = field(default_factory=dict)
    """Bytes since this node started, ``in`` and ``out``."""
    wire_frames: Mapping[str, int] = field(default_factory=dict)
    store_errors: Mapping[str, int] = field(default_factory=dict)
    """Errors of the store since this node started, by code."""
    log_lines: Mapping[str, int] = field(default_factory=dict)
    """Lines of the log since this node started, by level."""


class _Call(NamedTuple):
    tool: str
    rules: tuple[str, ...] = ()
    """The rules by which it was judged."""
    started: datetime | None = None


class _Listed(CollectorRegistry):
    """Another registry without the ``_created`` that the library puts beside each figure: they are not listed."""

    def __init__(self, of: CollectorRegistry) -> None:
        super().__init__()
        self._of = of

    def collect(self) -> Iterator[Metric]:
        """Its figures."""
        for one in self._of.collect():
            one.samples = [sample for sample in one.samples if not sample.name.endswith("_created")]
            yield one


class Metrics:
    """The figures of one node, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._calls: OrderedDict[str, _Call] = OrderedDict()
        self._asked: OrderedDict[str, datetime] = OrderedDict()
        self._raised: OrderedDict[str, datetime] = OrderedDict()
        self._elsewhere: dict[tuple[str, str], int] = {}
        """The values of figures that are counted elsewhere, by figure and label."""
        self._added: dict[tuple[str, ...], int] = {}
        """What is to be added to counters, each by its name and the values of its labels."""
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        for one in FIGURES:
            name, of = PREFIX + one.name, self._registry
            match one.kind:
                case "counter":
                    self._counters[one.name] = Counter(name, one.meaning, one.labels, registry=of)
                case "gauge":
                    self._gauges[one.name] = Gauge(name, one.meaning, one.labels, registry=of)
                case "histogram":
                    self._histograms[one.name] = Histogram(name, one.meaning, registry=of, buckets=one.buckets)

    def observe(self, items: Sequence[AgentTaskItem]) -> None:
        """Count items that were just appended."""
        for item in items:
            self._add("items_appended", item.fact.kind)
            self._count(item)

    def render(self, now: Snapshot) -> bytes:
        """All figures in Prometheus' text format."""
        self._gauges["computers_online"].set(now.computers_online)
        self._gauges["computers_known"].set(now.computers_known)
        self._gauges["requests_open"].set(now.requests_open)
        self._gauges["oldest_request_seconds"].set(now.oldest_request_s)
        self._gauges["questions_open"].set(now.questions_open)
        self._gauges["queue_age_seconds"].set(now.queue_age_s)
        for (name, *labels), count in self._added.items():
            self._counters[name].labels(*labels).inc(count)
        self._added.clear()
        for status, count in now.tasks.items():
            self._gauges["tasks"].labels(status).set(count)
        for name, counts in (
            ("wire_bytes", now.wire_bytes),
            ("wire_frames", now.wire_frames),
            ("store_errors", now.store_errors),
            ("log_lines", now.log_lines),
        ):
            self._raise(name, counts)
        return generate_latest(_Listed(self._registry))

    def lagged(self, seconds: float) -> None:
        """Count by how much a timer of the event loop came late."""
        self._histograms["loop_lag_seconds"].observe(seconds)

    def _raise(self, name: str, counts: Mapping[str, int]) -> None:
        """Raise a counter of one label to what was counted elsewhere."""
        for label, count in counts.items():
            told = self._elsewhere.get((name, label), 0)
            self._counters[name].labels(label).inc(count - told)
            self._elsewhere[name, label] = count

    def _add(self, name: str, *labels: str, by: int = 1) -> None:
        """Add to a counter at the next look at it: here a step costs less than with each child of the library."""
        key = (name, *labels)
        self._added[key] = self._added.get(key, 0) + by

    def _count(self, item: AgentTaskItem) -> None:
        match item.fact:
            case facts.CallsProposed(calls=calls, evaluations=verdicts):
                for call, verdict in zip(calls, verdicts, strict=True):
                    # A tool that does not exist has any name that a model makes up: they all count as one.
                    tool = call.tool if call.tool in BUILT_IN_CATALOG else "unknown"
                    _remember(self._calls, call.call_id, _Call(tool, verdict.matched_rules))
                    self._add("verdicts", tool, verdict.effect.value)
            case facts.ToolStarted(call_id=call_id):
                _remember(self._calls, call_id, self._known(call_id)._replace(started=item.at))
            case facts.ToolFinished(call_id=call_id, ok=ok):
                self._call_ended(call_id, "ok" if ok else "failed", item.at)
            case facts.ToolSettled(call_id=call_id, state=state, ok=ok):
                finished = "ok" if ok else "failed"
                self._call_ended(call_id, finished if state == "finished" else state, item.at)
            case facts.ModelAsked():
                _remember(self._asked, item.task_id, item.at)
            case facts.ModelReplied(done_reason=done_reason, usage=usage):
                self._replied(item, done_reason, usage)
            case facts.ReviewRequested(request_id=request_id, reason=reason):
                _remember(self._raised, request_id, item.at)
                self._add("requests_raised", reason)
            case facts.RequestEnded(end=end):
                self._add("requests_ended", end)
            case facts.DecisionRecorded():
                self._decided(item.fact, item.at)
            case facts.TaskEnded(status=status):
                self._add("tasks_ended", status)

    def _known(self, call_id: str) -> _Call:
        return self._calls.get(call_id, _Call("unknown"))

    def _decided(self, fact: facts.DecisionRecorded, at: datetime) -> None:
        for decision in fact.decisions:
            self._add("decisions", decision.action)
            call = self._known(decision.call_id)
            for rule in call.rules or ("none",):
                self._add("judged_calls", call.tool, rule, decision.action)
        raised = self._raised.get(fact.request_id)
        if raised is not None:
            self._histograms["decision_seconds"].observe(max(0.0, (at - raised).total_seconds()))

    def _call_ended(self, call_id: str, outcome: str, at: datetime) -> None:
        # Kept when it has ended: a call that turned out void may run again under the same call id.
        call = self._known(call_id)
        self._add("calls", call.tool, outcome)
        if call.started is not None:
            self._histograms["call_seconds"].observe(max(0.0, (at - call.started).total_seconds()))
            self._calls[call_id] = call._replace(started=None)

    def _replied(self, item: AgentTaskItem, done_reason: str, usage: facts.Usage) -> None:
        known = done_reason if done_reason in ("stop", "length", "aborted") else "other"
        self._add("model_replies", known)
        self._add("model_tokens", "in", by=usage.input_tokens)
        self._add("model_tokens", "out", by=usage.output_tokens)
        asked = self._asked.pop(item.task_id, None)
        if asked is not None:
            self._histograms["model_seconds"].observe(max(0.0, (item.at - asked).total_seconds()))


def _remember(known: OrderedDict[str, _Value], key: str, value: _Value) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > _REMEMBERED:
        known.popitem(last=False)
