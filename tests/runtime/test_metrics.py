"""The figures of /metrics: what a real task leaves in them, and what they remember."""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.app.observability import counted
from orchestrator.core.errors import NotFound
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, Fact, TaskId
from orchestrator.core.task.items import Actor, AgentTaskItem, ItemId
from orchestrator.core.wire.wire import RunId
from orchestrator.runtime import metrics as counting
from orchestrator.runtime.clock import SystemClock
from orchestrator.runtime.metrics import EVERY_S, FIGURES, PREFIX, Metrics, Snapshot, watch_lag
from tests import TESTS
from tests.core.journal import Journal
from tests.core.journal import call as proposal
from tests.harness.support import Disk, Listening, call, final, says
from tests.harness.whole_server import Server, connected, running
from tests.waiting import within

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EMPTY = Snapshot(computers_online=0, computers_known=0, tasks={}, requests_open=0)


def figures(text: str) -> dict[str, float]:
    """Each sample as ``name{tool,outcome}`` without the prefix, read by Prometheus' own parser."""
    told = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(sample.labels[key] for key in sorted(sample.labels, reverse=True))
            told[f"{sample.name.removeprefix(PREFIX)}{{{labels}}}"] = sample.value
    return told


async def scraped(server: Server) -> dict[str, float]:
    """The figures as they stand."""
    answer = await server.ask("GET", "/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return figures(answer.text)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server whose model writes and deletes one file."""
    model = Listening(says(call("cc_write", path="a.lua", content="print('new')\n")), "nonsense", final("written"))
    async with running(tmp_path, model=model) as server:
        yield server


async def test_figures_tell_what_happened(server: Server) -> None:
    """A task with one write, one reply that could not be read and one approval is counted as exactly that."""
    async with connected(server, "3", Disk({"a.lua": b"old\n"})):
        await server.computer("4")
        task_id = await server.submit()
        request = await server.paused(task_id)
        before = await scraped(server)
        assert (before["tasks{Paused}"], before["requests_open{}"]) == (1, 1)
        assert (before["computers_online{}"], before["computers_known{}"]) == (1, 2)
        await server.ask("POST", request["approval_url"])
        await server.until(task_id, "task_ended")
        after = await scraped(server)
    wanted = {
        "tasks{Paused}": 0,
        "tasks{Running}": 0,
        "tasks{Queued}": 0,
        "requests_open{}": 0,
        "tasks_ended_total{Completed}": 1,
        "verdicts_total{cc_write,ask}": 1,
        "requests_raised_total{approval}": 1,
        "decisions_total{approve}": 1,
        "judged_calls_total{cc_write,changing,approve}": 1,
        "decision_seconds_count{}": 1,
        "calls_total{cc_write,ok}": 1,
        "call_seconds_count{}": 1,
        "model_replies_total{stop}": 3,
        "model_seconds_count{}": 3,
        "items_appended_total{task_submitted}": 1,
        "items_appended_total{reply_refused}": 1,
        "items_appended_total{task_ended}": 1,
    }
    assert {name: after.get(name) for name in wanted} == wanted


async def test_figures_are_for_people(server: Server) -> None:
    """Any person's token opens /metrics; none, or a computer's, does not."""
    assert (await server.http.get("/metrics")).status_code == 401
    assert (await server.ask("GET", "/metrics", token=await server.computer("3"))).status_code == 401
    assert (await server.ask("GET", "/metrics", token=await server.person("rita", "reviewer"))).status_code == 200


def test_every_figure_is_listed_and_none_is_global() -> None:
    """FIGURES has exactly what is told, and the registry that all libraries share has nothing of ours."""
    counted = Metrics()
    counted.lagged(0.1)
    text = counted.render(replace(EMPTY, log_lines={"info": 1})).decode()
    told = set(re.findall(rf"^# TYPE {PREFIX}(\w+) ", text, flags=re.MULTILINE))
    owed = {one.name + ("_total" if one.kind == "counter" else "") for one in FIGURES}
    assert told == owed
    assert "_created" not in text
    assert not [family.name for family in REGISTRY.collect() if family.name.startswith(PREFIX)]


def test_names_labels_and_buckets_are_for_ever() -> None:
    """Dashboards are made of them: a figure that once was stays as it was, and a new one is written down, too."""
    golden = json.loads((TESTS / "golden" / "metrics.json").read_text("utf-8"))
    now = [
        {"name": PREFIX + one.name, "kind": one.kind, "labels": list(one.labels), "buckets": list(one.buckets)}
        for one in FIGURES
    ]
    assert now == golden


async def test_a_task_adds_no_series_of_its_own(server: Server) -> None:
    """A second task like the first raises figures and makes no new one: no label has an id, a name or a text."""
    async with connected(server, "3", Disk({"a.lua": b"old\n"})):
        series = []
        for _ in range(2):
            task_id = await server.submit()
            request = await server.paused(task_id)
            await server.ask("POST", request["rejection_url"])
            await server.until(task_id, "task_ended")
            series.append(await scraped(server))
            model = server.orchestrator.workers.model_for(await server.orchestrator.service.load(TaskId(task_id)))
            assert isinstance(model, Listening)
            model.script.clear()
            model.script.append(says(call("cc_write", path="b.lua", content="print('new')\n")))
    assert set(series[0]) == set(series[1])
    assert series[1]["tasks_ended_total{Canceled}"] == 2


async def test_what_waits_and_what_goes_over_the_wire_is_told(server: Server) -> None:
    """The age of the queue and of requests, questions, and the bytes of frames are read where they are."""
    async with connected(server, "3", Disk({"a.lua": b"old\n"})):
        task_id = await server.submit()
        await server.paused(task_id)
        told = await scraped(server)
    assert told["wire_bytes_total{in}"] > told["wire_frames_total{in}"] > 0
    assert told["wire_bytes_total{out}"] > told["wire_frames_total{out}"] > 0
    assert told["oldest_request_seconds{}"] > 0
    assert (told["queue_age_seconds{}"], told["questions_open{}"]) == (0, 0)
    held = server.orchestrator.hub.traffic
    assert told["wire_bytes_total{out}"] <= held.bytes_out


class _Broken(InMemoryPersistenceManager):
    """A store whose disk is gone."""

    async def get_blob(self, sha256: str) -> bytes:
        """Raises what a database raises, or what was not kept."""
        if sha256 == "gone":
            raise NotFound("There is no such blob.")
        raise OSError("the disk is gone")


async def test_failures_of_the_store_are_counted_and_its_answers_are_not() -> None:
    """What the disk raises counts as a defect; that something is not there is an answer."""
    failures: Counter[str] = Counter()
    store = counted(_Broken(clock=SystemClock()), failures)
    with pytest.raises(OSError, match="the disk is gone"):
        await store.get_blob("any")
    with pytest.raises(NotFound):
        await store.get_blob("gone")
    assert failures == {"defect": 1}
    node = Metrics()
    for _ in range(2):
        told = figures(node.render(replace(EMPTY, store_errors=failures, log_lines={"info": 2})).decode())
        assert (told["store_errors_total{defect}"], told["log_lines_total{info}"]) == (1, 2)


async def test_a_held_up_loop_shows() -> None:
    """What keeps the loop from its timers is told by as much as it was late."""
    late: list[float] = []
    came = asyncio.Event()

    def observe(seconds: float) -> None:
        late.append(seconds)
        came.set()

    watching = asyncio.create_task(watch_lag(observe))
    await asyncio.sleep(0)
    time.sleep(EVERY_S + 0.3)  # noqa: ASYNC251 - that is what is to be seen
    await within(came.wait())
    watching.cancel()
    assert late[0] >= 0.29


def item(fact: Fact, at_s: float = 0.0) -> AgentTaskItem:
    """An item with this fact."""
    return AgentTaskItem(
        item_id=ItemId("i"),
        task_id=TaskId("t-1"),
        version=1,
        at=NOW + timedelta(seconds=at_s),
        actor=Actor(kind="system", id="x"),
        role="system",
        fact=fact,
        prev_hash="0" * 64,
        hash="0" * 64,
    )


STARTED = facts.ToolStarted(call_id=CallId("c1"), run_id=RunId("c1.1"), action_digest="d")


def settled(state: str, *, ok: bool | None = None) -> facts.ToolSettled:
    """What a settle says of the call."""
    values = {"call_id": "c1", "run_id": "c1.1", "state": state, "ok": ok}
    return facts.ToolSettled.model_validate(values)


def test_what_is_read_at_a_scrape_is_told_as_it_is() -> None:
    """Each gauge and each count of others under its own name."""
    now = Snapshot(
        computers_online=1,
        computers_known=2,
        tasks={"Queued": 3},
        requests_open=4,
        oldest_request_s=5.5,
        questions_open=6,
        queue_age_s=7.5,
        wire_bytes={"in": 8, "out": 9},
        wire_frames={"in": 10, "out": 11},
    )
    node = Metrics()
    node.lagged(0.3)
    told = figures(node.render(now).decode())
    wanted = {
        "loop_lag_seconds_sum{}": 0.3,
        "computers_online{}": 1,
        "computers_known{}": 2,
        "tasks{Queued}": 3,
        "requests_open{}": 4,
        "oldest_request_seconds{}": 5.5,
        "questions_open{}": 6,
        "queue_age_seconds{}": 7.5,
        "wire_bytes_total{in}": 8,
        "wire_bytes_total{out}": 9,
        "wire_frames_total{in}": 10,
        "wire_frames_total{out}": 11,
    }
    assert {name: told[name] for name in wanted} == wanted


def test_what_a_model_makes_up_is_no_label() -> None:
    """Tools that do not exist count as one; a request that nobody decided is told by its end."""
    story, node = Journal(), Metrics()
    story.proposed([proposal("c1", "made_up_1"), proposal("c2", "made_up_2")], "deny", "deny")
    node.observe(story.items)
    node.observe([item(facts.RequestEnded(request_id=None, end="expired", call_ids=(CallId("c1"),)))])
    told = figures(node.render(EMPTY).decode())
    assert told["verdicts_total{unknown,deny}"] == 2
    assert not [name for name in told if "made_up" in name]
    assert told["requests_ended_total{expired}"] == 1


def test_a_call_whose_proposal_nobody_saw_counts_as_unknown() -> None:
    """After a restart the tool of an open call is not known here; its outcome is counted all the same."""
    node = Metrics()
    node.observe([item(settled("interrupted"), 1.0)])
    node.observe([item(STARTED, 2.0), item(settled("finished", ok=False), 5.5)])
    told = figures(node.render(EMPTY).decode())
    assert told["calls_total{unknown,interrupted}"] == 1
    assert told["calls_total{unknown,failed}"] == 1
    assert (told["call_seconds_count{}"], told["call_seconds_sum{}"]) == (1, 3.5)


def test_tokens_are_added_up_by_direction() -> None:
    """What the model's server counted is summed, and an ending that is none of ours is told as other."""
    node = Metrics()
    blob = facts.BlobRef(sha256="0" * 64, size=1)
    usage = facts.Usage(input_tokens=100, output_tokens=7)
    for reason in ("stop", "load"):
        node.observe([item(facts.ModelReplied(raw=blob, done_reason=reason, usage=usage))])
    told = figures(node.render(EMPTY).decode())
    assert (told["model_tokens_total{in}"], told["model_tokens_total{out}"]) == (200, 14)
    assert (told["model_replies_total{stop}"], told["model_replies_total{other}"]) == (1, 1)
    assert told["model_seconds_count{}"] == 0


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of calls that never end only the newest are remembered."""
    monkeypatch.setattr(counting, "_REMEMBERED", 3)
    node = Metrics()
    for number in range(10):
        started = STARTED.model_copy(update={"call_id": CallId(f"c{number}")})
        node.observe([item(started)])
    assert list(node._calls) == ["c7", "c8", "c9"]
