"""What a screen shows, put together from frames that may say anything."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.errors import FrameRefused
from orchestrator.core.task.limits import Budget
from orchestrator.core.wire import wire
from orchestrator.core.wire.picture import (
    DEFAULT_PALETTE,
    Row,
    Shown,
    bodies_of,
    drawn,
    palette_digits,
    read_palette,
    read_rows,
    row_bytes,
)
from tests import ROOT

WHOLE = wire.Picture(journal_seq=1, watch=1, n=1, whole=True, width=3, height=2, x=1, y=2, blink=True)
PART = WHOLE.model_copy(update={"n": 2, "whole": False, "x": 0, "y": 3, "blink": False})
RED = Row(b"ab ", "ee0", "fff")
BLUE = Row(b"\xff\x00z", "bbb", "012")


def rows_of(width: int) -> st.SearchStrategy[Row]:
    """Any row of a screen so wide."""
    digits = st.text("0123456789abcdef", min_size=width, max_size=width)
    return st.builds(Row, st.binary(min_size=width, max_size=width), digits, digits)


@given(st.data(), st.integers(1, wire.MAX_COLUMNS), st.integers(1, wire.MAX_ROWS))
def test_rows_come_back_as_they_were(data: st.DataObject, width: int, number: int) -> None:
    """Every byte, and a colour for each cell."""
    row = data.draw(rows_of(width))
    assert read_rows(row_bytes(number, row), width, number) == {number: row}


@given(st.binary(max_size=300), st.integers(1, wire.MAX_COLUMNS), st.integers(1, wire.MAX_ROWS))
def test_any_bytes_are_rows_that_fit_or_are_refused(body: bytes, width: int, height: int) -> None:
    """Whatever a computer sends as rows."""
    try:
        rows = read_rows(body, width, height)
    except FrameRefused:
        return
    for number, row in rows.items():
        assert 1 <= number <= height
        assert len(row.text) == len(row.fg) == len(row.bg) == width


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"\x01", "end too early"),
        (b"\x01\x05abc", "end too early"),
        (b"\x01\x00\x01\x03", "end too early"),
        (b"\x00\x00\x01\x03\x0f", "no row 0"),
        (b"\x03\x00\x01\x03\x0f", "no row 3"),
        (b"\x01\x04abcd\x01\x03\x0f", "not as wide"),
        (b"\x01\x00\x01\x02\x0f", "not as wide"),
        (b"\x01\x00\x02\x03\x0f\x01\x0f", "not as wide"),
        (b"\x01\x00\x00", "not as wide"),
    ],
)
def test_rows_that_do_not_fit_are_refused(body: bytes, words: str) -> None:
    with pytest.raises(FrameRefused, match=words):
        read_rows(body, 3, 2)


def test_a_picture_is_put_together_from_its_frames() -> None:
    """A whole one begins with the game's colours and without rows; parts change what they name."""
    first, rows = drawn(None, WHOLE, row_bytes(2, RED))
    assert first == Shown(3, 2, 1, 2, blink=True, palette=DEFAULT_PALETTE, rows=(None, RED))
    assert (set(rows), first.is_complete) == ({2}, False)
    second, rows = drawn(first, PART, row_bytes(1, BLUE))
    assert second == replace(first, x=0, y=3, blink=False, rows=(BLUE, RED))
    assert (set(rows), second.is_complete) == ({1}, True)
    third, rows = drawn(second, PART.model_copy(update={"palette": "ab" * 48}), b"")
    assert third == replace(second, palette=("#ababab",) * 16)
    assert rows == frozenset()
    again, _ = drawn(third, WHOLE, row_bytes(1, RED))
    assert (again.palette, again.rows) == (DEFAULT_PALETTE, (RED, None))


def test_a_part_without_its_whole_is_refused() -> None:
    whole, _ = drawn(None, WHOLE, row_bytes(1, RED))
    for before, message in ((None, PART), (whole, PART.model_copy(update={"width": 4}))):
        with pytest.raises(FrameRefused, match="without the whole"):
            drawn(before, message, b"")


def test_the_first_palette_is_the_games() -> None:
    """What a client does not send, because the game begins with it, is what is shown here."""
    client = (ROOT / "cc_client" / "lua" / "palette.lua").read_text("ascii")
    said = re.search(r"palette\.GAME = ((?:\"[0-9a-f]+\"[\s.]*)+)", client)
    assert said is not None
    game = read_palette("".join(re.findall("[0-9a-f]+", said[1])))
    assert game == DEFAULT_PALETTE
    assert (game[0], game[1], game[14], game[15]) == ("#f0f0f0", "#f2b233", "#cc4c4c", "#111111")


def test_a_palette_is_sixteen_colours() -> None:
    assert read_palette("".join(one[1:] for one in DEFAULT_PALETTE)) == DEFAULT_PALETTE


def test_a_budget_fills_with_time_and_not_above_its_most() -> None:
    """What does not fit is not counted."""
    budget = Budget(10.0, 100.0, 5.0)
    assert budget.takes(100, 5.0)
    assert not budget.takes(11, 6.0)
    assert budget.takes(10, 6.0)
    assert not budget.takes(101, 1000.0)
    assert budget.takes(100, 1000.0)


def test_rows_go_in_as_many_bodies_as_they_take_and_a_palette_as_digits() -> None:
    """No body is longer than a frame may be, and together they are the rows; without rows there is one, empty."""
    rows = {number: Row(b"x" * 100, "0" * 100, "f" * 100) for number in range(1, 82)}
    bodies = bodies_of(rows)
    assert len(bodies) > 1
    assert all(0 < len(body) <= wire.MAX_PICTURE_BYTES for body in bodies)
    assert {number: row for body in bodies for number, row in read_rows(body, 100, 81).items()} == rows
    assert bodies_of({}) == [b""]
    assert read_palette(palette_digits(DEFAULT_PALETTE)) == DEFAULT_PALETTE
