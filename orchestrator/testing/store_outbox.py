"""The contracts of the outbox and of secrets: S99 to S102, what people are told, in the transaction of its item."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from orchestrator.core.errors import Conflict, InvalidRequest
from orchestrator.core.ports import SYSTEM_STREAM, NoticeRow, Store
from orchestrator.core.task.facts import TaskEnded, TaskId
from orchestrator.core.task.items import Draft
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import ComputerFrozen, DirectoryChanged, NotifyValue
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.testing.drafts import COMPUTER, Author, ManualClock, append, refused

T1 = TaskId("t1")
ADDRESS = "https://hooks.example.org/9f31ab02"
RULE = NotifyValue(
    person="ann", kinds=("failed",), target=sha256_hex(ADDRESS.encode()), shown="https://hooks.example.org/…"
)


def rule(author: Author, value: NotifyValue | None = RULE) -> Draft:
    """The rule of a person is as ``value`` from now on; None: it is gone."""
    return author.draft(DirectoryChanged(about="notify", name="ann/phone", value=value))


async def ruled(store: Store, clock: ManualClock) -> Author:
    """There is a rule, so that notices are written."""
    author = Author(clock)
    await store.set_entry(rule(author), expected=0, secret=ADDRESS)
    return author


async def s99_an_item_and_its_notice_are_one(store: Store, clock: ManualClock) -> None:
    """Each item that people are told of has a row, due at once, written with it or not at all; others have none.

    Without a rule none has one.
    """
    author = Author(clock)
    await store.create(TaskId("before"), [author.submitted(), *author.proposed(), author.review("r0")])
    assert await store.list_notices() == []
    await store.set_entry(rule(author), expected=0, secret=ADDRESS)
    await store.create(T1, [author.submitted(), *author.proposed()])
    assert await store.list_notices() == []
    late = author.review("r1")
    await refused(Conflict, store.append(T1, 9, [late], status=TaskStatus.PAUSED))
    assert await store.due_notices() == []
    version = len(await store.read(T1))
    (item,) = await append(store, T1, version, late)
    await append(store, T1, version, late)
    wanted = NoticeRow(T1, item.version, "waits_for_you", item.at, due=clock.now())
    assert await store.due_notices() == [wanted]
    clock.advance(1)
    await append(store, T1, item.version, author.draft(TaskEnded(status="Failed", status_reason="limit")))
    clock.advance(1)
    assert await store.freeze_computer(author.draft(ComputerFrozen(computer=COMPUTER, reason="journal_lost")))
    assert not await store.freeze_computer(author.draft(ComputerFrozen(computer=COMPUTER, reason="journal_lost")))
    found = [(row.stream, row.kind) for row in await store.due_notices()]
    assert found == [(T1, "waits_for_you"), (T1, "failed"), (SYSTEM_STREAM, "frozen")]
    assert await store.due_notices(1) == [wanted]
    assert await store.list_notices(2) == (await store.due_notices())[:0:-1]


async def s100_a_notice_is_replaced_as_it_was_read(store: Store, clock: ManualClock) -> None:
    """Of those who replace the same row at once, one does; a row that moved on is left alone."""
    author = await ruled(store, clock)
    await store.create(T1, [author.submitted(), *author.proposed(), author.review("r1")])
    (new,) = await store.due_notices()
    later = clock.now() + timedelta(minutes=1)
    rules = [replace(new, rule=one, state="waiting", due=later, batch="night") for one in ("/all", "ann/phone")]
    done = await asyncio.gather(*(store.replace_notices([new], rules) for _ in range(6)))
    assert sorted(done) == [False] * 5 + [True]
    assert await store.due_notices() == []
    clock.advance(60)
    assert await store.due_notices() == rules
    begun = [replace(one, attempts=1) for one in rules]
    assert sum(await asyncio.gather(*(store.replace_notices(rules, begun) for _ in range(6)))) == 1
    assert not await store.replace_notices([rules[0], begun[1]], [])
    assert await store.due_notices() == begun
    sent = replace(begun[0], state="sent", due=None)
    dead = replace(begun[1], state="dead", due=None, why="nobody took it")
    assert await store.replace_notices(begun, [sent, dead])
    assert sorted(await store.list_notices(), key=lambda row: row.rule) == [sent, dead]
    assert {row["notice"] for row in await store.kept_rows("outbox")} == {sent.notice, dead.notice}


async def s101_notices_are_forgotten(store: Store, clock: ManualClock) -> None:
    """What was sent goes after its time, what is dead after another, and what waits never."""
    author = await ruled(store, clock)
    drafts = [author.review(f"r{number}") for number in range(3)]
    await store.create(T1, [author.submitted(), *author.proposed(), *drafts])
    rows = await store.due_notices()
    ends = [replace(row, rule="/all", due=None) for row in rows]
    after = [replace(ends[0], state="sent"), replace(ends[1], state="dead"), rows[2]]
    assert await store.replace_notices(rows, after)
    now, soon = clock.now(), clock.now() + timedelta(seconds=1)
    assert await store.forget_notices(sent=now, dead=now) == 0
    assert await store.forget_notices(sent=soon, dead=now) == 1
    assert await store.forget_notices(sent=soon, dead=soon) == 1
    assert await store.list_notices() == [rows[2]]


async def s102_a_secret_lives_as_long_as_its_rule(store: Store, clock: ManualClock) -> None:
    """The address of a rule is kept with it under the hash that its item names, and forgotten with it."""
    author = Author(clock)
    await refused(InvalidRequest, store.set_entry(rule(author), expected=0))
    await refused(InvalidRequest, store.set_entry(rule(author), expected=0, secret="another"))
    await refused(Conflict, store.set_entry(rule(author), expected=7, secret=ADDRESS))
    assert await store.secret_of(RULE.target) is None
    number = await store.set_entry(rule(author), expected=0, secret=ADDRESS)
    assert await store.secret_of(RULE.target) == ADDRESS
    assert [row.fact.value for row in await store.directory()] == [RULE]
    await refused(InvalidRequest, store.set_entry(rule(author, None), expected=number, secret=ADDRESS))
    await store.set_entry(rule(author, None), expected=number)
    assert await store.secret_of(RULE.target) is None
    assert list(await store.kept_rows("secrets")) == []
