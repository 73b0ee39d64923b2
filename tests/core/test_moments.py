"""Times as rows have them."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.moments import from_us, to_us


@given(st.integers(-(10**12), 10**16).map(lambda us: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)))
def test_a_moment_comes_back_to_the_microsecond(moment: datetime) -> None:
    assert from_us(to_us(moment)) == moment


def test_any_time_zone_is_the_same_moment() -> None:
    moment = datetime(1970, 1, 1, 2, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    assert to_us(moment) == 5
