"""How fast a large store moves, and that it needs no memory for all of it."""

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.adapters.store.schema import SCHEMA, tables_of
from orchestrator.history.store_move.sides import filling
from tests.adapters.store.moving import rows_of

TASKS, ITEMS = 20_000, 50
_REST = ("s", "fix my farm", '["3"]', 0, 1, 2, None, None, 1, 0, 0, None, 0, 0)
"""Of a task's row, from its session on."""
TODAY = SCHEMA
LEAST_ROWS_S = 2_000
"""Far below what was seen: a machine that does other things besides must not fail this."""
MOST_KB = 200_000
"""A process that has imported all it needs takes half of it; the store has more than 300 MB."""


async def _large(url: str) -> None:
    tables = tables_of(TODAY)
    async with filling(url, TODAY) as side:
        for start in range(0, TASKS, 500):
            names = [f"t-{number:012x}" for number in range(start, start + 500)]
            tasks = [(name, "Completed", ITEMS, "f" * 64, "alice", *_REST) for name in names]
            await side.insert(tables["tasks"], tasks)
            items = [(name, at, f"{name}-{at}", "x" * 300) for name in names for at in range(1, ITEMS + 1)]
            await side.insert(tables["items"], items)


def _rows(dump: str) -> bytes:
    """A dump without its header."""
    return Path(dump).read_bytes().partition(b"\n")[2]


@pytest.mark.deep
@pytest.mark.timeout(900)
async def test_a_large_store_moves_in_little_memory(tmp_path: Path, postgres_url: str) -> None:
    source = f"sqlite:///{tmp_path / 'large.db'}"
    await _large(source)
    dump, back = str(tmp_path / "large.dump"), f"sqlite:///{tmp_path / 'back.db'}"
    for words in (
        ("export", dump, "--store", source),
        ("import", dump, "--store", back),
        ("migrate", "--store", source, "--to", postgres_url),
        ("export", f"{dump}2", "--store", postgres_url),
    ):
        began = time.monotonic()
        done = subprocess.run([sys.executable, "-m", "orchestrator", "store", *words], check=False)  # noqa: ASYNC221 - nothing else is to run
        took = time.monotonic() - began
        assert done.returncode == 0
        rows = TASKS * (ITEMS + 1)
        print(f"{words[0]}: {rows / took:.0f} rows/s, {took:.1f} s")  # noqa: T201
        assert rows / took > LEAST_ROWS_S
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < MOST_KB
    assert _rows(dump) == _rows(f"{dump}2")
    assert len((await rows_of(back))["tasks"]) == TASKS
