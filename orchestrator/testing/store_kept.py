"""The contracts of exact content: S59 to S62 and S106, pages of items, rows and blobs for an audit."""

import hashlib
import json

from orchestrator.core.ports import SYSTEM_STREAM, KeptTable, Store, TokenRow
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, decode_item, encode_item
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import NodeStopped, TokenIssued
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.testing.drafts import COMPUTER, REPLY, Author, ManualClock, append

T1 = TaskId("t1")


async def s59_kept_items(store: Store, clock: ManualClock) -> None:
    """Items come as the bytes that were sealed, with their rows' columns, page by page; of nothing, none."""
    author = Author(clock)
    items: list[AgentTaskItem] = await store.create(T1, [author.submitted(), author.note("one"), author.note("two")])
    (noted,) = await store.record([author.draft(NodeStopped())])
    first = await store.kept_items(T1, limit=2)
    assert [(one.version, one.item_id, one.data) for one in first] == [
        (item.version, item.item_id, encode_item(item)) for item in items[:2]
    ]
    (last,) = await store.kept_items(T1, 2, limit=2)
    assert decode_item(last.data) == items[2]
    (only,) = await store.kept_items(SYSTEM_STREAM)
    assert only.data == encode_item(noted)
    assert await store.kept_items(T1, 3) == []
    assert await store.kept_items("t9") == []


async def s106_kept_journals(store: Store, clock: ManualClock) -> None:
    """The rows of several tasks come with their first items, as each of both comes alone; without unknown names."""
    author = Author(clock)
    names = ("t1", "t2", "t3")
    for count, name in enumerate(names, start=1):
        await store.create(TaskId(name), [author.submitted(), *(author.note() for _ in range(count))])
    await store.record([author.draft(NodeStopped())])
    found = await store.kept_journals(["t3", "nobody", "t1", SYSTEM_STREAM], 3)
    assert [one.row for one in found] == [await store.kept_task(name) for name in ("t1", "t3")]
    assert [one.items for one in found] == [await store.kept_items(name, limit=3) for name in ("t1", "t3")]
    assert [len(one.items) for one in found] == [2, 3]
    many = await store.kept_journals([*names, *(f"nobody {number}" for number in range(1200))])
    assert [one.row["task_id"] for one in many] == list(names)
    assert await store.kept_journals([]) == []


async def s60_kept_rows(store: Store, clock: ManualClock) -> None:
    """The rows of a table come by their keys, page by page, with the columns that are for ever."""
    author = Author(clock)
    for name in ("t2", "Z", "t10"):
        await store.create(TaskId(name), [author.submitted()])
    await store.create(T1, [author.submitted(), *author.proposed(), author.review("r1")])
    grant = author.grant("g1", lasts_s=60, max_uses=2)
    await append(store, T1, 5, author.decided(grant))
    await store.append(T1, 6, [author.started(grant_id="g1")], status=TaskStatus.RUNNING, number_for=COMPUTER)
    await store.add_token(TokenRow("h1", "person", "alice", ("admin",), created_at=clock.now()))
    keys: dict[KeptTable, list[str]] = {
        "tasks": ["Z", "t1", "t10", "t2"],
        "items": ["Z", "t1", "t10", "t2"],
        "grants": ["g1"],
        "tokens": ["h1"],
        "computers": [COMPUTER],
        "requests": ["r1"],
    }
    for table, wanted in keys.items():
        listed = await store.kept_rows(table)
        assert [next(iter(row.values())) for row in listed] == wanted
        assert await store.kept_rows(table, limit=1) == listed[:1]
        assert await store.kept_rows(table, wanted[0]) == listed[1:]
    assert (await store.kept_rows("items"))[1] == {"task_id": "t1", "items": 7, "last": 7}
    rows = {table: (await store.kept_rows(table))[0] for table in keys}
    (head,) = [one for one in await store.heads() if one.stream == T1]
    task = await store.kept_task(T1)
    assert task is not None
    at = round(clock.now().timestamp() * 1_000_000)
    assert task == {
        **{"task_id": T1, "status": "Running", "version": 7, "head_hash": head.hash, "user_id": "alice"},
        **{"session_id": "s1", "prompt": "fix my farm", "computers": json.dumps([COMPUTER]), "priority": 0},
        **{"created_at": at, "updated_at": at, "pinned": 0},
        **{"due": at, "holder": None, "lease_until": 0, "lease_for": 0, "waiting_for": None},
    }
    assert await store.kept_task("t9") is None
    assert rows["grants"] == {
        **{"grant_id": "g1", "task_id": "t1", "session_id": "s1", "user_id": "alice"},
        **{"data": grant.model_dump_json(), "expires_at": at + 60_000_000, "max_uses": 2, "uses": 1, "revoked": 0},
    }
    assert rows["tokens"] == {
        **{"token_hash": "h1", "kind": "person", "name": "alice", "roles": '["admin"]', "created_at": at, "revoked": 0}
    }
    assert rows["computers"] == {
        **{"computer": COMPUTER, "number": 1, "task": None, "heard": 0, "doubtful_below": 0, "known": None},
        **{"token": "", "frozen": None, "frozen_at": None, "released": 0},
    }
    assert rows["requests"] == {"request_id": "r1", "task_id": T1}
    assert rows["items"] == {"task_id": "Z", "items": 1, "last": 1}


async def s61_kept_blobs(store: Store, clock: ManualClock) -> None:
    """Blobs come by name, each hashed again, page by page; sizes and requests are looked up by name."""
    author = Author(clock)
    names = sorted([(await store.put_blob(one)).sha256 for one in (REPLY, b"", b"caf\xc3\xa9")])
    blobs = await store.kept_blobs()
    assert [(one.name, one.sha256) for one in blobs] == [(name, name) for name in names]
    assert await store.kept_blobs(limit=2) == blobs[:2]
    assert await store.kept_blobs(names[1]) == blobs[2:]
    assert await store.blob_sizes([*names, "none"]) == {one.name: one.size for one in blobs}
    assert (await store.blob_sizes([sha256_hex(b"caf\xc3\xa9")])).popitem()[1] == 5
    assert await store.blob_sizes([]) == {}
    assert (await store.strange(), await store.odd()) == ([], [])
    await store.create(T1, [author.submitted(), author.review("r1")])
    many = [f"r{number}" for number in range(1_200)]
    assert await store.raised_by(many) == {"r1": T1}


async def s62_a_token_is_tied_to_its_item(store: Store, clock: ManualClock) -> None:
    """The note of a new token gets a fingerprint of the hash that is kept, so that an exchanged hash shows."""
    author = Author(clock)
    note = author.draft(TokenIssued(holder_kind="person", name="alice", roles=("admin",)))
    await store.add_token(TokenRow("h1", "person", "alice", ("admin",)), note=note)
    (item,) = await store.read(TaskId(SYSTEM_STREAM))
    fingerprint = hashlib.sha256(b"h1").hexdigest()
    assert item.fact == TokenIssued(holder_kind="person", name="alice", roles=("admin",), fingerprint=fingerprint)
