"""Times as rows have them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.values import from_us, to_us, told_apart


@given(st.integers(-(10**12), 10**16).map(lambda us: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)))
def test_a_moment_comes_back_to_the_microsecond(moment: datetime) -> None:
    assert from_us(to_us(moment)) == moment


def test_a_moment_is_a_number_of_microseconds() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert to_us(moment) == 1_767_323_045_000_006
    assert from_us(1_767_323_045_000_006) == moment


def test_any_time_zone_is_the_same_moment() -> None:
    moment = datetime(1970, 1, 1, 2, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    assert to_us(moment) == 5


@pytest.mark.parametrize(
    ("by_s", "where"), [(1.9, ""), (-1.9, ""), (2.0, "2 s ahead of"), (-75.4, "75 s behind"), (600.0, "600 s ahead of")]
)
def test_a_clock_that_is_off_is_told(by_s: float, where: str) -> None:
    """Which way, and by how much; of one that is near enough nothing is said."""
    said = told_apart("alpha", by_s)
    assert said == (f"The clock of alpha is {where} the store's, by which all nodes go: set it." if where else "")
