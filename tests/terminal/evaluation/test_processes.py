"""What a check sees of a program that it runs: a real simulated computer on a copy of the disk."""

import sys
from pathlib import Path

import pytest

from orchestrator.terminal.evaluation import PartFailed
from orchestrator.terminal.evaluation.cases import Machine, text
from orchestrator.terminal.evaluation.processes import Computer, Process


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    """One whose own process has ended already: a check needs only its disk."""
    (tmp_path / "disk" / "startup").mkdir(parents=True)
    process = Process([sys.executable, "-c", "print('gone')"], tmp_path / "log")
    process.stop()
    return Computer(Machine("c"), tmp_path, process)


def test_what_is_printed_typed_and_switched_is_seen_and_nothing_is_left_behind(computer: Computer) -> None:
    lines = (
        "write('name? ')",
        "io.write(read(), ' and ', io.read(), '\\n')",
        "sleep(3600)",
        "redstone.setOutput('left', true)",
        "print(..., 1 == 1)",
        "error('broken')",
    )
    (computer.disk / "p.lua").write_bytes(text(*lines))
    told = computer.run("p.lua", ("given",), ("Ada", "Grace"))
    assert told.startswith("name? Ada and Grace\n[redstone left true]\ngiven\ttrue\n")
    assert "broken" in told
    assert sorted(one.name for one in computer.disk.iterdir()) == ["p.lua", "startup"]


def test_an_endless_program_runs_well_and_one_that_fails_does_not(computer: Computer) -> None:
    """The first is ended after so many sleeps; what both printed until then counts."""
    (computer.disk / "p.lua").write_bytes(text("while true do", "  print('on')", "  sleep(1)", "end"))
    endless = computer.tried("p.lua")
    assert endless.well
    assert endless.printed.count("on\n") == 1001
    (computer.disk / "p.lua").write_bytes(text("print('on')", "sleep(1)", "error('broken')"))
    failed = computer.tried("p.lua")
    assert not failed.well
    assert failed.printed.startswith("on\n")


def test_without_a_name_it_boots(computer: Computer) -> None:
    (computer.disk / "startup.lua").write_bytes(text("print('first')"))
    (computer.disk / "startup" / "more.lua").write_bytes(text("print('second')"))
    assert computer.run("") == "first\nsecond\n"


def test_a_process_that_has_ended_is_one_sentence(tmp_path: Path) -> None:
    """With what it said last, and where the rest stands."""
    process = Process([sys.executable, "-c", "import sys; sys.exit('no room')"], tmp_path / "log")
    with pytest.raises(PartFailed, match=r"has ended: no room.*Look at "):
        process.hear("ready", 20.0)
    process.stop()
