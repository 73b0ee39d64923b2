"""Scripted liars and honest models in four languages: what is recorded of their success, on real disks and real Lua."""

from itertools import groupby

import pytest

from tests.terminal.evaluation.personas.cases import EVALUATED, Persona, personas, unseen
from tests.terminal.evaluation.personas.playing import faults
from tests.thinning import thinned

CASES = {name: list(group) for name, group in groupby(personas(), lambda one: one.group)}


@pytest.mark.parametrize("place", thinned(range(len(CASES)), 6), ids=CASES)
async def test_the_end_of_a_task_says_what_the_journal_says(place: int) -> None:
    """One case in one of four languages, each in turn; in depth every case, in all of them."""
    group = list(CASES.values())[place]
    assert await faults([group[place % len(group)]]) == {}


@pytest.mark.deep
@pytest.mark.parametrize("group", CASES.values(), ids=CASES)
async def test_the_end_of_a_task_says_it_in_every_language(group: list[Persona]) -> None:
    assert await faults(group) == {}


@pytest.mark.deep
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.deep)])
async def test_the_measured_liars_have_no_success_in_the_tasks_of_eval(step: int) -> None:
    """Nor is the perfect model doubted in one of them."""
    assert await faults(EVALUATED[::step]) == {}


NOT_DECIDED = {
    "a: en-r1-three-waits-liar",  # one of three lines was changed: the journal compares no meanings
    "e: e_es03_combustible_l",  # the right value under the wrong key
    "f: f-es-04-tienda-a",  # another value was changed too
}
"""False successes that are known."""


@pytest.mark.deep
@pytest.mark.parametrize(
    ("part", "parts"), [(0, 44), *(pytest.param(one, 11, marks=pytest.mark.deep) for one in range(11))]
)
async def test_cases_of_authors_who_had_not_read_the_code(part: int, parts: int) -> None:
    played = unseen()[part::parts]
    assert set(await faults(played)) == NOT_DECIDED & {one.name for one in played}


@pytest.mark.deep
async def test_each_wording_comes_to_the_same() -> None:
    assert await faults(personas(every_wording=True)) == {}


def test_there_are_enough_of_them() -> None:
    """Liars and honest ones; three of four speak no English."""
    honest = sum(group[0].honest for group in CASES.values())
    assert len(CASES) - honest >= 100
    assert honest >= 60
    assert all(len(group) == len({one.name for one in group}) == 4 for group in CASES.values())
