"""A worker of the append bench on PostgreSQL: the port's ``append``, and a floor of bare ``asyncpg``.

``ours``
    As in ``append_worker``: each task appends one item after the other and waits for each.
``by_hand``
    The same items made by hand, the same number of them in each transaction as the store's group
    commit lets the tasks have: one insert of all rows and one update of all heads, by arrays, on
    one connection. There is no check of a version or a lease and nothing to answer.
``rows``
    The same transactions, of bytes that are there already: what the server and its driver ask for.
"""

import gc
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import asyncpg

from bench.append_worker import assert_alike, made_by_hand, through_port
from bench.measure import Spent
from bench.worker import answer_all, options, run
from orchestrator.core.task.items import GENESIS_HASH

_ADD: Final = "INSERT INTO bare.items SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[])"
_SET: Final = """UPDATE bare.tasks AS old SET version = news.version, head = news.head
    FROM unnest($1::text[], $2::bigint[], $3::text[]) AS news (task, version, head) WHERE old.task = news.task"""
_TABLES: Final = (
    "CREATE SCHEMA IF NOT EXISTS bare",
    "CREATE TABLE IF NOT EXISTS bare.items (task TEXT, version BIGINT, data TEXT, PRIMARY KEY (task, version))",
    "CREATE TABLE IF NOT EXISTS bare.tasks (task TEXT PRIMARY KEY, version BIGINT, head TEXT)",
)


async def bare(url: str, tasks: int, each: int, *, sealing: bool) -> dict[str, float]:
    """Microseconds of a row and its head's update through ``asyncpg`` alone; ``sealing``: items are made each time."""
    connection = await asyncpg.connect(url)
    for statement in _TABLES:
        await connection.execute(statement)
    names = [f"b-{secrets.token_hex(6)}" for _ in range(tasks)]
    await connection.executemany("INSERT INTO bare.tasks VALUES ($1, 0, $2)", [(one, GENESIS_HASH) for one in names])
    heads = dict.fromkeys(names, GENESIS_HASH)
    made = [made_by_hand(task, 1, GENESIS_HASH) for task in names]
    gc.collect()
    with Spent() as spent:
        for version in range(1, each + 1):
            await connection.execute("BEGIN")
            if sealing:
                made = [made_by_hand(task, version, heads[task]) for task in names]
                heads = {task: digest for task, (_, digest) in zip(names, made, strict=True)}
            versions = [version] * tasks
            await connection.execute(_ADD, names, versions, [data for data, _ in made])
            await connection.execute(_SET, names, versions, [digest for _, digest in made])
            await connection.execute("COMMIT")
    await connection.close()
    return spent.per(tasks * each)


async def main() -> None:
    """Measure as the pipe says."""
    told = options()
    url = told["url"]
    measures: dict[str, Callable[[int, int], Awaitable[dict[str, float]]]] = {
        "ours": partial(through_port, url),
        "by_hand": partial(bare, url, sealing=True),
        "rows": partial(bare, url, sealing=False),
    }
    measure = measures[told["kind"]]
    assert_alike()

    async def handle(request: dict[str, Any]) -> dict[str, Any]:
        return dict(await measure(request["tasks"], request["each"]))

    await answer_all(handle)


if __name__ == "__main__":
    run(main)
