"""Retention: what goes by age and size, what never goes, and that no blob goes that somebody counts on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters.bus import open_bus
from orchestrator.adapters.store import open_store
from orchestrator.adapters.store.sqlite import SqlitePersistenceManager
from orchestrator.core.errors import Conflict, NotFound, OrchestratorError
from orchestrator.core.ports import SYSTEM_STREAM, Identity, KeptItem, Store
from orchestrator.core.task import facts
from orchestrator.core.task.facts import BlobRef, CallId, TaskId
from orchestrator.core.task.items import SYSTEM, Actor, decode_item, encode_item
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import BackupRemoved, ComputerBackedUp, NodeStopped, TaskPruned
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import ComputerId, RunId, sha256_hex
from orchestrator.engine.tasks import TaskService
from orchestrator.history.audit import AuditBroken, Checkpoints, check_store, make_checkpoint, verify_store
from orchestrator.history.retention import EVERY_S, GRACE, Outcome, Pruner, Rule
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import COMPUTER, REPLY, Author
from orchestrator.web.auth import TokenAuthorizer
from tests.contract.parts import Playing
from tests.harness.whole_server import Installation
from tests.waiting import HANG_S

OLD, MINE, OURS, FILE = b"the old bytes", b"what one task wrote", b"what two tasks wrote", b"in a directory"
LINES = b"f\0file\0%b\n" % sha256_hex(FILE).encode()
ALICE = Actor(kind="person", id="alice", auth="token")
MONTH = Rule(days=30)


class Retention:
    """A store with a service and a pruner, and tasks that were over long ago."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.author = Author(clock)
        authorizer = TokenAuthorizer(store, approvers="requester")
        self.service = TaskService(store=store, bus=open_bus("local:"), clock=clock, authorizer=authorizer)
        self.pruner = Pruner(self.service)

    async def task(self, name: str, *before: bytes, days: float = 40, over: bool = True, **told: Any) -> TaskId:
        """A task some days ago that changed files whose old bytes are kept."""
        task_id, author = TaskId(name), self.author
        now = self.clock.now()
        self.clock.advance(-days * 86_400)
        first = author.submitted()
        first = first._replace(fact=first.fact.model_copy(update=told))
        started = facts.ToolStarted(
            call_id=CallId("c1"),
            run_id=RunId("c1.1"),
            computer=COMPUTER,
            action_digest="e" * 64,
            before={f"f{at}": sha256_hex(one) for at, one in enumerate(before)},
            directories=tuple(f"f{at}" for at, one in enumerate(before) if one == LINES),
        )
        finished = facts.ToolFinished(call_id=CallId("c1"), run_id=RunId("c1.1"), ok=True, text="done")
        for content in (REPLY, *before, *((FILE,) if LINES in before else ())):
            await self.store.put_blob(content)
        decided = author.decided(request_id=f"r-{name}")._replace(actor=ALICE)
        await self.store.create(task_id, [first, *author.proposed(), author.review(f"r-{name}"), decided])
        await self.store.append(task_id, 6, [author.draft(started)], status=TaskStatus.RUNNING, number_for=COMPUTER)
        await self.store.append(task_id, 7, [author.draft(finished)], status=TaskStatus.RUNNING)
        if over:
            await self.store.append(task_id, 8, [author.ended()], status=TaskStatus.CANCELED, schedule="sleep")
        self.clock.advance((now - self.clock.now()).total_seconds())
        return task_id

    async def said(self, task_id: str, fact: facts.Fact) -> None:
        """One more item of a task that is over."""
        task = await self.service.load(TaskId(task_id))
        await self.store.append(TaskId(task_id), task.version, [self.author.draft(fact)], status=task.status)

    async def prune(self, rule: Rule = MONTH, **more: Any) -> Outcome:
        return await self.pruner.prune(rule, ALICE, **more)

    async def checkpoint(self, checkpoints: Checkpoints) -> None:
        """Sign the heads, and record that."""
        fact = await make_checkpoint(self.store, checkpoints, self.clock.now())
        await self.store.record([self.author.draft(fact)])

    async def kept(self) -> set[str]:
        """The names of the blobs that are there."""
        return {one.sha256 for one in await self.store.list_blobs()}

    async def tasks(self) -> set[str]:
        return {row.task_id for row in await self.store.list_tasks()}


@pytest.fixture(params=["memory:", "sqlite"])
async def retention(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Retention]:
    clock = ManualClock()
    url = f"sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else request.param
    store = open_store(url, clock=clock)
    yield Retention(store, clock)
    await store.close()


def names(*contents: bytes) -> set[str]:
    """As blobs are named."""
    return {sha256_hex(one) for one in contents}


# -- what goes ---------------------------------------------------------------------------


async def test_old_tasks_go_with_what_only_they_need(retention: Retention) -> None:
    """By age, with a note of who wanted it; what another task needs stays, and so do the younger ones."""
    await retention.task("old", MINE, OURS)
    await retention.task("young", OURS, days=20)
    await retention.store.put_blob(b"nobody's, and new")
    seen = await retention.prune(dry_run=True)
    assert await retention.tasks() == {"old", "young"}
    assert (await retention.prune()) == seen
    assert [(one.task_id, one.why) for one in seen.tasks] == [("old", "older than 30 days")]
    assert seen.blobs == 1
    assert seen.bytes > len(MINE)
    assert await retention.tasks() == {"young"}
    assert await retention.kept() == names(REPLY, OURS, b"nobody's, and new")
    (note,) = [one for one in await retention.store.read(TaskId(SYSTEM_STREAM)) if isinstance(one.fact, TaskPruned)]
    assert isinstance(note.fact, TaskPruned)
    assert (note.actor, note.fact.task_id, note.fact.why) == (ALICE, "old", "older than 30 days")
    assert (note.fact.requests, note.fact.version) == (1, 9)
    left = (await retention.prune()).left
    assert left == seen.left + len((await retention.store.kept_items(SYSTEM_STREAM))[0].data)


async def test_what_nobody_needs_goes_after_a_while(retention: Retention) -> None:
    """A blob that was just put may be about to be named."""
    await retention.store.put_blob(OLD)
    assert (await retention.prune(Rule())).blobs == 0
    retention.clock.advance(GRACE.total_seconds() + 1)
    assert (await retention.prune(Rule())).blobs == 1
    assert await retention.kept() == set()


async def test_the_lines_of_a_directory_keep_its_files(retention: Retention) -> None:
    """Of a task and of a backup; with the last of them they go."""
    await retention.task("t1", LINES)
    fact = ComputerBackedUp(backup_id="b1", computer=COMPUTER, listing=sha256_hex(LINES), files=1, bytes=1, new_bytes=1)
    await retention.store.add_backup(retention.author.draft(fact))
    retention.clock.advance(7200)
    assert (await retention.prune(Rule())).blobs == 0
    assert len((await retention.prune()).tasks) == 1
    assert await retention.kept() == names(LINES, FILE)
    await retention.store.remove_backup(retention.author.draft(BackupRemoved(backup_id="b1", computer=COMPUTER)))
    assert (await retention.prune()).blobs == 2
    assert await retention.kept() == set()


async def test_size_takes_the_oldest_until_the_rest_fits(retention: Retention) -> None:
    """And no more than that."""
    for days in (10, 30, 20):
        await retention.task(f"d{days}", bytes([days]) * 10_000, days=days)
    retention.clock.advance(7200)
    whole = (await retention.prune(Rule(), dry_run=True)).left
    done = await retention.prune(Rule(bytes=whole - 18_000))
    assert [one.task_id for one in done.tasks] == ["d30", "d20"]
    assert done.tasks[0].why == f"down to {whole - 18_000} bytes"
    assert done.left <= whole - 18_000
    assert await retention.tasks() == {"d10"}


async def test_where_one_has_to_stay_the_next_goes(retention: Retention) -> None:
    """The oldest waits for a computer that is away, of which a weighing knows nothing."""
    for days in (10, 30, 20):
        await retention.task(f"d{days}", bytes([days]) * 10_000, days=days)
    await retention.store.wake(TaskId("d30"))
    retention.clock.advance(7200)
    whole = (await retention.prune(Rule(), dry_run=True)).left
    assert [one.task_id for one in (await retention.prune(Rule(bytes=whole - 8_000))).tasks] == ["d20"]
    assert await retention.tasks() == {"d10", "d30"}


# -- what stays --------------------------------------------------------------------------


async def test_what_is_not_over_or_pinned_or_needed_by_those_stays(retention: Retention) -> None:
    """Tasks, and what they refer to; once that ends, all of it goes."""
    await retention.task("paused", over=False)
    await retention.task("undone", MINE)
    await retention.task("pinned")
    await retention.said("pinned", facts.TaskPinned())
    await retention.task("before")
    earlier = facts.EarlierTask(task_id=TaskId("before"), prompt="", status="Canceled", message="")
    await retention.task("told", earlier=(earlier,))
    await retention.said("told", facts.TaskPinned())
    await retention.task("undo", over=False, restores=Restoration(task_id="undone"))
    await retention.task("free")
    assert [one.task_id for one in (await retention.prune(dry_run=True)).tasks] == ["free"]
    assert [one.task_id for one in (await retention.prune(Rule(0, 0))).tasks] == ["free"]
    everything = {"paused", "undone", "pinned", "before", "told", "undo"}
    assert await retention.tasks() == everything
    assert names(MINE) < await retention.kept()
    task = await retention.service.load(TaskId("undo"))
    retention.clock.advance(-50 * 86_400)
    await retention.store.append(
        task.task_id, task.version, [retention.author.ended()], status=TaskStatus.CANCELED, schedule="sleep"
    )
    retention.clock.advance(50 * 86_400)
    assert {one.task_id for one in (await retention.prune()).tasks} == {"undo", "undone"}


async def test_a_pruned_task_says_so(retention: Retention) -> None:
    """Whoever asks for it hears when it went, and no other takes its name."""
    await retention.task("old")
    await retention.prune()
    with pytest.raises(NotFound, match="was pruned on 2030"):
        await retention.service.load(TaskId("old"))
    with pytest.raises(NotFound, match="There is no task"):
        await retention.service.load(TaskId("never"))
    with pytest.raises(Conflict, match="was pruned"):
        await retention.store.create(TaskId("old"), [retention.author.submitted()])


async def test_the_settings_prune_by_themselves(retention: Retention) -> None:
    """With a limit; without one nothing is looked at."""
    await retention.task("old")
    await retention.pruner.by_settings()
    assert await retention.tasks() == {"old"}
    retention.pruner.rule = MONTH
    await retention.pruner.by_settings()
    assert await retention.tasks() == set()
    (note,) = await retention.store.read(TaskId(SYSTEM_STREAM))
    assert note.actor == SYSTEM
    assert GRACE.total_seconds() <= EVERY_S, "what was too young at one run is old enough at the next"


async def test_a_limit_of_bytes_costs_what_changed_until_there_may_be_too_much(retention: Retention) -> None:
    """All is weighed at first, once a day, and when what changed may be too much; then it has a while."""
    for number in range(4):
        await retention.task(f"t{number}", b"%d" % number * 3000, days=40 - number)
    size = (await retention.prune(Rule(), dry_run=True)).left
    weighed: list[str] = []
    real = retention.store.kept_items

    async def kept_items(stream: str, after_version: int = 0, limit: int = 500) -> list[KeptItem]:
        weighed.append(stream)
        return await real(stream, after_version, limit)

    retention.store.kept_items = kept_items  # type: ignore[method-assign]

    async def read() -> set[str]:
        weighed.clear()
        await retention.pruner.by_settings()
        return set(weighed)

    retention.pruner.rule = Rule(bytes=size + 20_000)
    every = {"t0", "t1", "t2", "t3"}
    assert await read() == every
    assert await read() == set()
    retention.clock.advance(3600)
    await retention.task("new", LINES, days=0)
    assert await read() == {"new"}
    await retention.store.record([retention.author.draft(NodeStopped())])
    assert await read() == {"new", SYSTEM_STREAM}
    assert await retention.tasks() == {*every, "new"}
    retention.clock.advance(3600)
    await retention.task("large", b"x" * 30_000, days=0)
    total = (await retention.prune(Rule(), dry_run=True)).left
    retention.pruner.rule = Rule(bytes=(await retention.prune(Rule(bytes=total - 1), dry_run=True)).left)
    assert await read() >= {*every, "new", "large", SYSTEM_STREAM}
    assert await retention.tasks() == {"t2", "t3", "new", "large"}, "without t0 it has as many bytes as it may have"
    retention.clock.advance(86_400)
    assert "large" in await read(), "the blobs that nobody needs are swept once a day"


async def test_it_goes_on_by_itself_also_after_a_store_that_failed(retention: Retention) -> None:
    await retention.task("old")

    async def fails() -> None:
        raise OrchestratorError("The disk is full.")

    between(retention, "list_blobs", fails)
    keeping = asyncio.create_task(Pruner(retention.service, MONTH, first_s=0, every_s=0).keep())
    async with asyncio.timeout(HANG_S):
        while await retention.tasks():  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_an_undo_of_what_was_pruned_meanwhile_ends_with_a_sentence(tmp_path: Path) -> None:
    """Between the look at a task and the undo of it, it may go: nobody waits for that for ever."""
    async with Installation(tmp_path / "data").open(Playing(), retain_days=3, retain_bytes=5000) as server:
        assert server.orchestrator.endpoints.pruner.rule == Rule(3, 5000)
        admin = Identity(kind="person", name="admin", roles=("admin",))
        gone = Restoration(task_id="t-gone")
        task = await server.orchestrator.service.submit("Undo it", user=admin, model="undo", max_steps=0, restores=gone)
        shown = await server.ended(task.task_id)
        assert (shown["status"], shown["result"]["message"]) == ("Failed", "There is no task 't-gone'.")


# -- at once -----------------------------------------------------------------------------


class Meanwhile:
    """A store in which something happens just before an operation, once."""

    def __init__(self, store: Store, operation: str, happens: Callable[[], Awaitable[Any]]) -> None:
        self._store = store
        self._operation = operation
        self._happens: Callable[[], Awaitable[Any]] | None = happens

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._store, name)
        if name != self._operation:
            return operation

        async def after(*args: Any, **named: Any) -> Any:
            happens, self._happens = self._happens, None
            if happens is not None:
                await happens()
            return await operation(*args, **named)

        return after


def between(retention: Retention, operation: str, happens: Callable[[], Awaitable[Any]]) -> None:
    """The next run meets this just before that operation of its store."""
    retention.service.store = Meanwhile(retention.store, operation, happens)


STEPS = ("heads", "kept_items", "kept_rows", "list_blobs", "prune_task", "sweep_blobs")
"""All that a run asks of its store."""


@pytest.mark.thinned(4)
@pytest.mark.parametrize("step", STEPS)
async def test_a_blob_that_somebody_counts_on_meanwhile_stays(retention: Retention, step: str) -> None:
    """Put or touched at any moment of a run, and named only when that is over."""
    await retention.task("old")
    for content in (OLD, MINE):
        await retention.store.put_blob(content)
    retention.clock.advance(7200)

    async def counted_on() -> None:
        await retention.store.put_blob(OLD)
        assert await retention.store.touch_blobs([sha256_hex(MINE)])

    between(retention, step, counted_on)
    await retention.prune()
    assert names(OLD, MINE) <= await retention.kept()


@pytest.mark.thinned(4)
@pytest.mark.parametrize("step", STEPS)
async def test_a_blob_that_is_named_meanwhile_stays(retention: Retention, step: str) -> None:
    """It was touched almost an hour ago, by somebody slow."""
    await retention.task("old")
    await retention.store.put_blob(OLD)
    retention.clock.advance(GRACE.total_seconds() - 60)

    async def named() -> None:
        reply = facts.ModelReplied(raw=BlobRef(sha256=sha256_hex(OLD), size=len(OLD)), done_reason="stop")
        asked = retention.author.proposed()[0]
        await retention.store.create(
            TaskId("new"), [retention.author.submitted(), asked, retention.author.draft(reply)]
        )

    between(retention, step, named)
    await retention.prune()
    retention.service.store = retention.store
    retention.clock.advance(7200)
    await retention.prune()
    assert names(OLD) <= await retention.kept()


@pytest.mark.thinned(4)
@pytest.mark.parametrize("step", STEPS[:-1])
async def test_a_task_that_is_pinned_or_undone_meanwhile_stays(retention: Retention, step: str) -> None:
    """The store looks once more in the transaction that would remove it."""
    await retention.task("old", MINE)
    await retention.task("undone", OURS)
    # So that each step has something to do.
    await retention.task("older", b"x", days=50)

    async def wanted() -> None:
        await retention.said("old", facts.TaskPinned())
        await retention.task("undo", days=0, over=False, restores=Restoration(task_id="undone"))

    between(retention, step, wanted)
    await retention.prune()
    assert {"old", "undone", "undo"} <= await retention.tasks()
    assert names(MINE, OURS) <= await retention.kept()


async def test_a_backup_that_took_too_long_is_refused_and_no_half_of_one(retention: Retention) -> None:
    """Whoever was faster: it is whole, or there is none."""
    fact = ComputerBackedUp(
        backup_id="b1", computer=ComputerId("3"), listing=sha256_hex(LINES), files=1, bytes=1, new_bytes=1
    )
    for waits_s, kept in ((GRACE.total_seconds() - 1, True), (GRACE.total_seconds() + 1, False)):
        await retention.store.put_blob(FILE)
        retention.clock.advance(waits_s)
        await retention.prune(Rule())
        await retention.store.put_blob(LINES)
        draft = retention.author.draft(fact.model_copy(update={"backup_id": f"b{kept}"}))
        if kept:
            await retention.store.add_backup(draft)
            await retention.store.remove_backup(
                retention.author.draft(BackupRemoved(backup_id="bTrue", computer=COMPUTER))
            )
            retention.clock.advance(7200)
            await retention.prune(Rule())
        else:
            with pytest.raises(Conflict, match="swept"):
                await retention.store.add_backup(draft)
    assert await retention.store.list_backups() == []


async def test_two_runs_at_once_prune_each_task_once(retention: Retention) -> None:
    for number in range(5):
        await retention.task(f"t{number}")
    one, two = await asyncio.gather(retention.prune(), retention.prune())
    assert sorted((len(one.tasks), len(two.tasks))) == [0, 5]
    assert len(await retention.store.read(TaskId(SYSTEM_STREAM))) == 5


# -- the audit ---------------------------------------------------------------------------


async def test_pruning_does_not_look_like_tampering(retention: Retention, tmp_path: Path) -> None:
    """Verified, checked and signed before, between and after; a note that is younger than the checkpoint is enough."""
    checkpoints = Checkpoints(tmp_path)
    await retention.task("old", MINE, LINES)
    await retention.task("young", OURS, days=3)
    await retention.checkpoint(checkpoints)
    await retention.prune()
    assert (await verify_store(retention.store, checkpoints)).faults == ()
    await retention.checkpoint(checkpoints)
    assert (await verify_store(retention.store, checkpoints)).faults == ()
    assert [one for one in await check_store(retention.store) if one.level == "violation"] == []
    await retention.prune(Rule(days=0))
    assert await retention.tasks() == set()
    assert (await verify_store(retention.store, checkpoints)).faults == ()


@pytest.mark.thinned(4)
@pytest.mark.parametrize("step", ["kept_items", "kept_task", "kept_rows", "kept_blobs", "blob_sizes"])
async def test_a_verification_during_which_something_is_pruned_finds_nothing(
    retention: Retention, tmp_path: Path, step: str
) -> None:
    checkpoints = Checkpoints(tmp_path)
    for number in range(3):
        await retention.task(f"t{number}", b"%d" % number, LINES)
    await retention.checkpoint(checkpoints)
    store: Any = Meanwhile(retention.store, step, retention.prune)
    assert (await verify_store(store, checkpoints)).faults == ()
    assert await retention.tasks() == set()


async def test_tampering_does_not_look_like_pruning(retention: Retention, tmp_path: Path) -> None:
    """A note of another head, or of fewer items, explains nothing; nothing is signed away either."""
    checkpoints = Checkpoints(tmp_path)
    await retention.task("old")
    await retention.checkpoint(checkpoints)
    (head,) = [one for one in await retention.store.heads() if one.stream == "old"]
    await retention.prune()
    for wrong in ({"version": head.version - 1}, {"head_hash": "0" * 64}, {"task_id": "other"}):
        store: Any = Forged(retention.store, wrong)
        whats = [one.what for one in (await verify_store(store, checkpoints)).faults]
        assert "gone" in whats
        with pytest.raises(AuditBroken, match="old no longer holds"):
            await make_checkpoint(store, checkpoints, retention.clock.now() + timedelta(seconds=1))


class Forged:
    """A store whose note of a pruned task says something else, sealed as if it had."""

    def __init__(self, store: Store, changes: dict[str, Any]) -> None:
        self._store = store
        self._changes = changes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, task_id: TaskId, after_version: int = 0) -> list[Any]:
        items = await self._store.read(task_id, after_version)
        return [self._forged(item) for item in items]

    async def kept_items(self, stream: str, after_version: int = 0, limit: int = 500) -> list[Any]:
        kept = await self._store.kept_items(stream, after_version, limit)
        return [one._replace(data=encode_item(self._forged(decode_item(one.data)))) for one in kept]

    def _forged(self, item: Any) -> Any:
        if not isinstance(item.fact, TaskPruned):
            return item
        return item.model_copy(update={"fact": item.fact.model_copy(update=self._changes)})


async def test_by_age_alone_only_what_is_old_is_looked_at(tmp_path: Path) -> None:
    """What is younger is read once a day, to sweep blobs, or after the first tasks went."""
    statements: list[str] = []
    clock = ManualClock()
    store = SqlitePersistenceManager(tmp_path / "orchestrator.db", clock=clock, trace=statements.append)

    async def read() -> set[str]:
        statements.clear()
        await old.pruner.by_settings()
        return {f"t{number}" for number in range(9) if any(f"'t{number}'" in one for one in statements)}

    try:
        old = Retention(store, clock)
        old.pruner.rule = MONTH
        for number in range(9):
            await old.task(f"t{number}", days=20 - number / 2)
        assert await read() == set()
        clock.advance(timedelta(days=11).total_seconds())
        assert await read() == {f"t{number}" for number in range(9)}, "a day went by: all is weighed"
        clock.advance(timedelta(hours=20).total_seconds())
        assert await read() == {"t3"}
        assert await old.tasks() == {f"t{number}" for number in range(4, 9)}
    finally:
        await store.close()
