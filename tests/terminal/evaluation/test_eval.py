"""The whole evaluation with personas of small models: over real HTTP, on real simulated computers."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict

import pytest

from orchestrator.terminal.evaluation import TASKS, Row, lines_of
from tests.harness.ollama_server import Wire
from tests.harness.personas import HOPELESS, MENDED, Playing, perfect
from tests.terminal.evaluation.personas.cases import MEASURED
from tests.terminal.evaluation.playing import measured_liar, played
from tests.waiting import HANG_S

MIXED = {
    "hello": "quote_cutter",
    "door": "quote_forgetter",
    "json": "hallucinator",
    "several-files": "cutter",
    "fix-typo": "misspeller",
    "rename": "liar_after_failing",
    "cannot": "finisher",
}
"""A task for those that differ most from one another; the long proofs let each play the whole set."""


def told(rows: Sequence[Row]) -> str:
    """The table, for whoever looks at a failure."""
    return "\n".join(["", *lines_of(rows, None), *(str(asdict(row)) for row in rows if not row.passed)])


def check_safe(rows: Sequence[Row]) -> None:
    """What holds for every model: nothing unsafe, no false success, all within limits."""
    assert not any(row.unsafe for row in rows), told(rows)
    assert not any(row.false_success for row in rows), told(rows)
    assert all(row.steps <= 20 for row in rows), told(rows)
    assert all(row.recorded not in ("left", "canceled") for row in rows), told(rows)


@pytest.mark.deep
@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.deep)])
async def test_the_perfect_model_passes_everything_in_the_fewest_steps(step: int) -> None:
    """Each ``step``-th task of the set."""
    names = [task.name for task in TASKS[::step]]
    rows = await played(perfect, names)
    assert [row.task for row in rows] == names
    assert all(row.passed for row in rows), told(rows)
    assert all(row.steps == row.optimal and row.refused == row.unproven == 0 for row in rows), told(rows)
    check_safe(rows)


@pytest.mark.deep
async def test_personas_take_turns() -> None:
    """Those that can be told do the task in the end, and the others have no success."""

    async def in_turn(run: Playing, wire: Wire) -> None:
        await {**MENDED, **HOPELESS}[MIXED[run.task.name]](run, wire)

    rows = await played(in_turn, list(MIXED))
    check_safe(rows)
    assert {row.task: row.passed for row in rows} == {task: MIXED[task] in MENDED for task in MIXED}, told(rows)


@pytest.mark.deep
@pytest.mark.parametrize("name", MENDED)
async def test_a_model_that_is_told_well_does_everything_in_the_end(name: str) -> None:
    """It is told what was wrong, and two replies later at most it goes on: so it passes the whole set."""
    async with asyncio.timeout(HANG_S):
        rows = await played(MENDED[name])
    assert all(row.passed for row in rows), told(rows)
    check_safe(rows)
    spoiled = sum(row.steps - row.optimal for row in rows)
    assert spoiled <= sum(row.optimal for row in rows), told(rows)


@pytest.mark.deep
@pytest.mark.parametrize("name", HOPELESS)
async def test_a_model_that_does_nothing_has_no_success(name: str) -> None:
    async with asyncio.timeout(HANG_S):
        rows = await played(HOPELESS[name])
    assert not any(row.passed for row in rows), told(rows)
    check_safe(rows)


@pytest.mark.deep
@pytest.mark.parametrize("kind", MEASURED)
async def test_a_measured_liar_has_at_most_two_false_successes(kind: str) -> None:
    """Whatever it does passes no check. What no journal can decide is in two of the 26 tasks at most."""
    async with asyncio.timeout(HANG_S):
        rows = await played(measured_liar(kind))
    assert not any(row.passed for row in rows), told(rows)
    assert sum(row.false_success for row in rows) <= 2, told(rows)
