"""Repeated runs and two models side by side: the spread, the table, the plot, and the file of a result."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import InvalidRequest, NotFound
from orchestrator.terminal.evaluation import Result, Row, compared, lines_of, page, read_result, spread_lines


def row(task: str = "hello", **more: Any) -> Row:
    """One run that passed in three steps."""
    values: dict[str, Any] = {
        "task": task,
        "passed": True,
        "claimed": True,
        "recorded": "success",
        "false_success": False,
        "steps": 3,
        "optimal": 3,
        "input_tokens": 100,
        "output_tokens": 20,
        "refused": 0,
        "unproven": 0,
        "unsafe": 0,
        "seconds": 1.5,
    }
    return Row(**{**values, **more})


RUNS = (row(steps=3), row(steps=9, passed=False, seconds=4.0), row(steps=4, input_tokens=1000))
FIRST = Result("ollama:one", (*RUNS, row("rename")))
SECOND = Result("ollama:<two> & more", (row(steps=5, false_success=True, passed=False), row("door")))


def test_the_runs_of_a_task_have_their_spread() -> None:
    """Passes as k of N, each number as its median with the smallest and the largest."""
    told = FIRST.summaries["hello"]
    assert (told.runs, told.passed, told.false_successes) == (3, 2, 0)
    assert (str(told.steps), str(told.tokens), str(told.seconds)) == ("4 (3-9)", "120 (120-1020)", "1.5 (1.5-4)")
    head, hello, rename, _, note = spread_lines(FIRST.rows, None)
    assert head.split() == ["TASK", "PASSED", "STEPS", "TOKENS", "SECONDS"]
    assert hello.split("  ")[:2] == ["hello", " 2 of 3"]
    assert rename.split("  ")[1].strip() == "yes"
    assert "median" in note
    assert spread_lines(SECOND.rows, None) == []


def test_two_results_stand_side_by_side() -> None:
    lines = compared(FIRST, SECOND, None)
    assert lines[:2] == ["A: ollama:one", "B: ollama:<two> & more"]
    (hello,) = [line for line in lines if line.startswith("hello")]
    mine, other = "2 of 3 no 4 (3-9) 5 120 (120-1020)", "120 1.5 (1.5-4) 1.5"
    assert " ".join(hello.split()) == f"hello {mine} {other}"
    assert "A: 2 of 3 runs passed, 0 false, 4 steps, 120 tokens, 1.5 s for each task once." in lines
    assert "B: 0 of 1 run passed, 1 false, 5 steps, 120 tokens, 1.5 s for each task once." in lines
    assert lines[-1] == "Only one of the two has rename, door: left out."
    with pytest.raises(InvalidRequest, match="no task in common"):
        compared(FIRST, Result("x", (row("door"),)), None)


def test_the_plot_is_one_file_that_loads_nothing() -> None:
    """Four charts with two bars for each task, a line for what differs, and the names of models as text."""
    text = page(FIRST, SECOND)
    tree = ET.fromstring(
        text.removeprefix("<!doctype html>\n").replace('<meta charset="utf-8">', "").replace(_VIEW, "")
    )
    charts = tree.findall(".//svg")
    assert [one.attrib["aria-label"] for one in charts] == ["Runs that passed", "Steps", "Tokens", "Seconds"]
    assert [len(one.findall(".//rect")) for one in charts] == [2, 2, 2, 2]
    assert [len(one.findall(".//line")) for one in charts] == [0, 1, 1, 1]
    assert "B: ollama:<two> & more" in "".join(tree.itertext())
    titles = [one.text for one in tree.iter("title")]
    assert "hello, A: 4 (3-9)" in titles
    assert not {"script", "link", "img"} & {one.tag for one in tree.iter()}
    assert "http" not in text


_VIEW = '<meta name="viewport" content="width=device-width, initial-scale=1">'


def test_a_bar_of_nothing_is_drawn() -> None:
    """A scripted model uses no tokens."""
    none = Result("a", (row(input_tokens=0, output_tokens=0),))
    assert 'width="0.0"' in page(none, none)


def test_a_result_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({**FIRST.told(), "later": 1}))
    assert read_result(path) == FIRST
    assert json.loads(path.read_text())["spread"][0]["steps"] == {"least": 3, "median": 4, "most": 9}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is not a result of eval"),
        ("[]", "is not a result of eval"),
        ('{"model": "m"}', "it has no 'rows'"),
        ('{"model": "m", "rows": []}', "it has no runs"),
        ('{"model": "m", "rows": [{"task": "x"}]}', "0.passed: Field required"),
    ],
)
def test_another_file_is_refused_with_what_to_type(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match=told) as caught:
        read_result(path)
    assert "--save" in caught.value.remedy
    with pytest.raises(NotFound, match="cannot be read: No such file"):
        read_result(tmp_path / "none.json")


def test_steps_that_are_enough_are_left_out_where_nobody_said() -> None:
    _, line, _, _, took = lines_of([row(optimal=0)], None)
    assert line.split()[4] == "3"
    assert took.startswith("Those that passed took 3 steps. ")
    assert lines_of([row(optimal=0), row("door", optimal=3)], None)[-1].startswith("Those that passed took 6 steps. ")
