"""A meter: a bar that is taken back on a terminal, lines now and then on a pipe, and a pace that is no guess."""

import io

import pytest

from orchestrator.terminal.meter import Meter, Pace, bar
from orchestrator.terminal.output import Screen


class Clock:
    """Seconds, as a test lets them pass."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def meter(*, moves: bool, apart_s: float = 5.0) -> tuple[Meter, io.StringIO, list[str], Clock]:
    """A meter, what it draws, what it says, and its clock."""
    out, said, clock = io.StringIO(), list[str](), Clock()
    screen = Screen(out, grows=moves, moves=moves)
    return Meter("farm", screen, said.append, apart_s=apart_s, clock=clock), out, said, clock


def test_a_bar_shows_amount_pace_and_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a second the pace is told, and how long the rest takes at it; at the end the line is taken back."""
    monkeypatch.setenv("COLUMNS", "200")
    one, out, said, clock = meter(moves=True)
    one.waiting("looking at what is there")
    one.tell(0, 100, "0 of 100 files", 0)
    clock.now = 2.0
    one.tell(50, 100, "50 of 100 files", 10_000)
    clock.now = 4.0
    one.tell(100, 100, "100 of 100 files", 20_000)
    one.close()
    assert said == []
    drawn = out.getvalue().split("\r\x1b[K")[1:]
    assert drawn == [
        "farm  looking at what is there  0:00",
        f"farm  {bar(0)}   0%  0 of 100 files",
        f"farm  {bar(0.5)}  50%  50 of 100 files  5.0 kB/s  0:02 left",
        f"farm  {bar(1)} 100%  100 of 100 files  5.0 kB/s",
        "",
    ]


def test_on_a_pipe_lines_come_seldom_and_never_for_what_is_quick() -> None:
    """Whatever is over within some seconds says nothing; then a line for a tenth, and not more than one at a time."""
    one, out, said, clock = meter(moves=False)
    for second in range(25):
        clock.now = float(second)
        one.tell(second * 4, 100, f"{second * 4} of 100", second * 1000)
    one.close()
    assert out.getvalue() == ""
    assert [line.split(",")[0] for line in said] == ["farm: 20 %", "farm: 40 %", "farm: 60 %", "farm: 80 %"]


def test_a_pace_follows_what_gets_slow() -> None:
    """What was fast long ago counts no more; one moment, or standing still, is no pace."""
    pace = Pace()
    assert pace.a_second() is None
    pace.told(1000, 0.0)
    assert pace.a_second() is None
    for second in range(1, 11):
        pace.told(1000 + 100 * second, float(second))
    assert pace.a_second() == pytest.approx(100)
    for second in range(11, 40):
        pace.told(2000 + second, float(second))
    assert pace.a_second() == pytest.approx(1)
    for second in range(40, 60):
        pace.told(2039, float(second))
    assert pace.a_second() is None


@pytest.mark.parametrize(("share", "filled"), [(-1.0, 0), (0.0, 0), (0.5, 12), (1.0, 24), (2.0, 24)])
def test_a_bar_is_never_fuller_than_full(share: float, filled: int) -> None:
    """What a server says is anybody's number."""
    assert bar(share) == f"[{'#' * filled}{'-' * (24 - filled)}]"
