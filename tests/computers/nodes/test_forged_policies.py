"""A policy that somebody wrote into the database of several nodes, with items that fit their own hashes."""

import contextlib
import hashlib
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from orchestrator.core.errors import OrchestratorError, Unreadable
from orchestrator.core.task.items import GENESIS_HASH, canonical_json
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.history.audit import AuditBroken
from orchestrator.history.audit.checkpoint import CHECKPOINT_NAME
from orchestrator.history.audit.heads import TRUSTED_NAME
from tests.computers.nodes.test_several_nodes import STRICTER, Nodes, look, policy_of
from tests.harness.whole_server import Server

LOOSE = b"schema_version = 1\nrules = []\n"
SHA256 = sha256_hex(LOOSE)
Item = dict[str, Any]


class Forger:
    """Somebody who can write the database and compute hashes."""

    def __init__(self, database: asyncpg.Connection) -> None:
        self.database = database

    async def items(self) -> list[Item]:
        """The system stream."""
        rows = await self.database.fetch("SELECT data FROM items WHERE task_id = 'system' ORDER BY version")
        return [json.loads(row["data"]) for row in rows]

    async def put(self, item: Item, prev_hash: str) -> str:
        """Write an item that follows a hash; its own hash."""
        content = {name: value for name, value in item.items() if name not in ("hash", "prev_hash")}
        text = canonical_json(content).decode()
        digest = hashlib.sha256((prev_hash + text).encode()).hexdigest()
        data = f'{{"hash":"{digest}","prev_hash":"{prev_hash}",{text[1:]}'
        await self.database.execute(
            "INSERT INTO items VALUES ('system', $1, $2, $3)", item["version"], item["item_id"], data
        )
        return digest

    async def write_anew(self, items: list[Item]) -> None:
        """Replace the system stream, with every hash and the head right."""
        await self.database.execute("DELETE FROM items WHERE task_id = 'system'")
        last = GENESIS_HASH
        for version, item in enumerate(items, 1):
            last = await self.put({**item, "version": version}, last)
        head = "UPDATE streams SET version = $1, head_hash = $2 WHERE stream = 'system'"
        await self.database.execute(head, len(items), last)

    async def row(self, sha256: str, version: int) -> None:
        """Have the table name another policy."""
        await self.database.execute("UPDATE policies SET sha256 = $1, version = $2", sha256, version)


def loads(item: Item) -> bool:
    """Whether an item puts a policy into force."""
    return bool(item["fact"]["kind"] == "policy_loaded")


def newest(items: list[Item]) -> Item:
    """The item of the policy in force."""
    return [item for item in items if loads(item)][-1]


def forged(item: Item, number: int) -> Item:
    """An item of the loose policy."""
    fact = {**item["fact"], "sha256": SHA256, "number": number}
    return {**item, "fact": fact, "item_id": f"forged {number}"}


async def middle(forger: Forger) -> None:
    """An item far after the end, which follows an older one."""
    item = newest(await forger.items())
    await forger.put({**forged(item, 99), "version": 5000}, item["prev_hash"])
    await forger.row(SHA256, 99)


async def edited(forger: Forger) -> None:
    """The item of the policy in force names another, and every hash is right."""
    items = await forger.items()
    old = newest(items)
    await forger.write_anew([forged(one, old["fact"]["number"]) if one is old else one for one in items])
    await forger.row(SHA256, old["fact"]["number"])


async def dropped(forger: Forger) -> None:
    """The policy before is in force again: the item of the last is taken out, and every hash is right."""
    items = await forger.items()
    old = newest(items)
    rest = [one for one in items if one is not old]
    await forger.write_anew(rest)
    await forger.row(newest(rest)["fact"]["sha256"], newest(rest)["fact"]["number"])


async def items_gone(forger: Forger) -> None:
    """No item says what is in force."""
    await forger.database.execute("DELETE FROM items WHERE task_id = 'system' AND data LIKE '%policy_loaded%'")
    await forger.row(SHA256, 9)


async def items_gone_and_hashed(forger: Forger) -> None:
    """No item says what is in force, and every hash is right."""
    await forger.write_anew([one for one in await forger.items() if not loads(one)])
    await forger.row(SHA256, 9)


async def stream_gone(forger: Forger) -> None:
    """There is no system stream, and no row of a policy."""
    await forger.database.execute("DELETE FROM items WHERE task_id = 'system'")
    await forger.database.execute("DELETE FROM streams")
    await forger.database.execute("DELETE FROM policies")


async def appended(forger: Forger) -> None:
    """A right item after the last one, and the row of before."""
    items = await forger.items()
    old = newest(items)
    await forger.write_anew([*items, forged(old, old["fact"]["number"] + 1)])


async def misplaced(forger: Forger) -> None:
    """An item where the next one goes: until somebody takes it out, nothing can be recorded."""
    item = newest(await forger.items())
    await forger.put({**forged(item, 99), "version": len(await forger.items()) + 1}, SHA256)
    await forger.row(SHA256, 99)


ATTACKS = [misplaced, middle, edited, dropped, items_gone, items_gone_and_hashed, stream_gone, appended]
Attack = Callable[[Forger], Awaitable[None]]


@pytest.fixture
async def two(tmp_path: Path, postgres_url: str) -> Any:
    """Nodes on an empty database."""
    async with AsyncExitStack() as stack:
        nodes = Nodes(tmp_path, stack, postgres_url)
        stack.push_async_callback(nodes.store.close)
        yield nodes


async def attacked(url: str, attack: Attack) -> None:
    """The database after an attack on its policy."""
    database = await asyncpg.connect(url)
    try:
        await database.execute("INSERT INTO blobs VALUES ($1, $2)", SHA256, LOOSE)
        async with database.transaction():
            await attack(Forger(database))
    finally:
        await database.close()


@pytest.mark.thinned(4)
@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_node_at_work_keeps_the_policy_that_it_had(two: Nodes, postgres_url: str, attack: Attack) -> None:
    """Neither the node that put the policy into force nor another takes what does not follow from what it saw."""
    servers = [await two.node("a"), await two.node("b")]
    version = (await servers[0].ask("POST", "/v1/policy", {"policy": STRICTER})).json()["policy_version"]
    await look(*servers)
    await attacked(postgres_url, attack)
    for server in servers:
        # Where nothing can be recorded, the watch logs that and looks again.
        with contextlib.suppress(OrchestratorError):
            await look(server)
        shown = await policy_of(server)
        assert shown["policy_version"] == version
        # Where the row is as it was, nobody looks for its item.
        assert "is not believed" in shown["alert"] or attack is appended


@pytest.mark.thinned(4)
@pytest.mark.parametrize("evidence", [TRUSTED_NAME, CHECKPOINT_NAME])
@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_node_does_not_start_with_a_forged_policy(
    two: Nodes, postgres_url: str, attack: Attack, evidence: str
) -> None:
    """A node knows by its checkpoint, or by its note of the last policy, what the stream has to hold."""
    two.home("a").mkdir()
    two.write("a", STRICTER)
    async with two.opened("a", "") as server:
        version = (await server.ask("POST", "/v1/policy", {"policy": STRICTER + "# newer\n"})).json()["policy_version"]
    both = {TRUSTED_NAME, CHECKPOINT_NAME}
    for name in both - {evidence}:
        (two.home("a") / name).unlink()
    async with two.opened("a", "") as server:
        assert (await policy_of(server))["policy_version"] == version
    for name in both - {evidence}:
        (two.home("a") / name).unlink(missing_ok=True)
    await attacked(postgres_url, attack)
    with pytest.raises(Unreadable) as refused:
        await _start(two)
    assert "audit verify" in refused.value.remedy


async def test_a_note_that_cannot_be_read_is_not_ignored(two: Nodes) -> None:
    """The start says which file it is and what to do."""
    two.home("a").mkdir()
    async with two.opened("a", ""):
        pass
    (two.home("a") / TRUSTED_NAME).write_text("nothing")
    with pytest.raises(AuditBroken, match=TRUSTED_NAME):
        await _start(two)


async def _start(nodes: Nodes) -> Server:
    async with nodes.opened("a", "") as server:
        return server
