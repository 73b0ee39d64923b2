"""The bench still runs against the orchestrator as it is: every figure and ratio comes, whatever it is.

Each time one figure with its bar and its table, in depth all of them.
"""

import asyncio
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import HANG_S

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


def bench(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the bench at its smallest; what it found wanting is no failure here."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "bench.command", "--tiny", *arguments],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def lines_of(name: str, directory: Path) -> list[dict[str, Any]]:
    """The lines of one bench."""
    code, output, complaints = bench("--json", "--only", name, "--dir", str(directory))
    assert complaints == ""
    told = json.loads(output)
    lines: list[dict[str, Any]] = told["lines"]
    assert code == (1 if any(line["holds"] is False for line in lines) else 0)
    assert told["machine"]["python"]
    assert all(line["value"] > 0 for line in lines if line["bench"] != "memory")
    assert list(directory.iterdir()) == []
    return lines


def has_peers() -> bool:
    """Whether somebody installed the other frameworks."""
    return (SCRIPTS.parent / ".venv.peers" / "ready").exists()


@pytest.mark.deep
def test_calls_yield_a_ratio_for_each_number_of_clients(tmp_path: Path) -> None:
    """Both raw servers stand beside ours."""
    lines = lines_of("calls", tmp_path)
    assert [line["what"] for line in lines if line["judged"] == "ratio"] == ["a call, 1 client", "a call, 3 clients"]
    assert all(line["ratio"] > 0 for line in lines)
    assert {line["what_beside"] for line in lines} == {"websockets.serve", "the same, four frames"}


@pytest.mark.deep
def test_a_call_to_another_node_is_held_against_one_to_this(tmp_path: Path) -> None:
    """Over a real bus, to two computers, of which one is judged."""
    line, stub = lines_of("routed", tmp_path)
    assert (line["judged"], line["bar"], stub["judged"]) == ("ratio", 3.0, "nothing")
    assert line["ratio"] > 0
    assert stub["ratio"] > 0


@pytest.mark.deep
def test_memory_is_told_for_each_computer(tmp_path: Path) -> None:
    """One line, held against its bar; of twenty computers the figure itself means nothing."""
    (line,) = lines_of("memory", tmp_path)
    assert line["judged"] == "value"
    assert isinstance(line["holds"], bool)
    assert isinstance(line["beside"], float)


@pytest.mark.deep
def test_steps_yield_both_bars_and_the_peers_that_are_there(tmp_path: Path) -> None:
    """Each length against the floor, the longest against the shortest, and whoever is installed."""
    lines = lines_of("steps", tmp_path)
    assert [line["what"] for line in lines if line["holds"] is not None] == [
        "a step of 4",
        "a step of 8",
        "a step of 8",
    ]
    assert any("pydantic-ai" in line["what"] for line in lines)
    assert any("LangGraph" in line["what"] for line in lines) == has_peers()


@pytest.mark.deep
def test_appends_yield_a_ratio_for_one_task_and_for_many(tmp_path: Path) -> None:
    """Appends a second against bare sqlite3, held against a least."""
    judged = [line for line in lines_of("appends", tmp_path) if line["at_least"]]
    assert [line["what"] for line in judged] == ["appends, 1 task", "appends, 100 tasks"]
    assert all(line["holds"] == (line["ratio"] >= line["bar"]) for line in judged)


@pytest.mark.deep
def test_the_audit_is_told_in_milliseconds(tmp_path: Path) -> None:
    """Each figure with how many tasks there are, and none of them held against a bar."""
    lines = lines_of("audit", tmp_path)
    assert len(lines) == 9
    assert {(line["unit"], line["judged"]) for line in lines} == {("ms", "nothing")}


@pytest.mark.deep
async def test_appends_on_postgresql_are_held_against_bare_asyncpg(tmp_path: Path, postgres_url: str) -> None:
    """The same figures, with the database that is named on both sides."""
    arguments = ("--json", "--store", postgres_url, "--dir", str(tmp_path))
    _, output, complaints = await asyncio.to_thread(bench, *arguments)
    assert complaints == ""
    lines = json.loads(output)["lines"]
    assert any(line["bench"] == "whole" and line["bar"] == 5.0 for line in lines)
    judged = [line for line in lines if line["at_least"]]
    assert [line["what"] for line in judged] == ["appends on PostgreSQL, 1 task", "appends on PostgreSQL, 100 tasks"]
    assert all(line["holds"] == (line["ratio"] >= line["bar"]) for line in judged)


@pytest.mark.deep
def test_the_table_says_which_bars_hold(tmp_path: Path) -> None:
    """People get the machine, a line for each figure with its bar, and the count at the end."""
    _, output, _ = bench("--only", "appends", "--dir", str(tmp_path))
    assert "processors" in output.splitlines()[0]
    assert ">= 0.5 times" in output
    assert "of 2 bars do not hold" in output


@pytest.mark.deep
def test_a_whole_step_is_held_against_its_bar_and_watchers_against_one(tmp_path: Path) -> None:
    """Each length, the longest by the shortest, many watchers by one, and the peers that are installed."""
    lines = lines_of("whole", tmp_path)
    assert {line["what"] for line in lines if line["what_beside"] == "ours"} == {
        "a step of 4, pydantic-ai's loop",
        *(("a step of 4, LangGraph, SQLite saver", "a step of 4, OpenAI Agents SDK") * has_peers()),
    }
    judged = [line for line in lines if line["holds"] is not None]
    assert [(line["what"], line["judged"], line["bar"]) for line in judged] == [
        ("a step of 2", "value", 4.0),
        ("a step of 4", "value", 4.0),
        ("a step of 4", "ratio", 1.2),
        ("a step, 3 watchers", "ratio", 1.3),
    ]


@pytest.mark.deep
def test_a_profile_names_functions_of_the_server_and_draws_them(tmp_path: Path) -> None:
    """A system that lets nobody trace a process says so, with the remedy."""
    graph = tmp_path / "flame.svg"
    code, output, complaints = bench("--profile", str(graph))
    if code == 2:
        assert "ptrace_scope" in complaints
        return
    assert "active samples" in output
    assert "orchestrator/" in output
    assert graph.read_text("utf-8").startswith("<svg")


@pytest.mark.deep
def test_a_run_is_compared_with_an_earlier_one_and_drawn(tmp_path: Path) -> None:
    """A judged line that got worse is an error; a line of one run only is named; the page asks no network."""
    _, output, _ = bench("--json", "--only", "appends")
    told = json.loads(output)
    first, second, *rest = (line for line in told["lines"] if line["judged"] == "ratio")
    assert rest == []
    first["ratio"] *= 1000
    second["what"] = "gone"
    earlier, page = tmp_path / "earlier.json", tmp_path / "page.html"
    earlier.write_text(json.dumps(told), "utf-8")
    code, output, _ = bench("--only", "appends", "--against", str(earlier), "--report", str(page))
    assert code == 1
    assert "Worse by more than 25%: appends: appends, 1 task beside the same by hand" in output
    assert "1 judged lines got worse" in output
    assert "Not in this run: appends: gone" in output
    assert "Not in the earlier run: appends: appends, 100 tasks" in output
    html = page.read_text("utf-8")
    assert html.count("<svg") == len(told["lines"])
    assert "not in the earlier run" in html
    assert "//" not in html


def test_peers_that_cannot_be_installed_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bench says it and measures the rest; nothing half installed is taken for a peer."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    peers = import_module("bench.peers")
    (tmp_path / "file").touch()
    monkeypatch.setattr(peers, "PLACE", tmp_path / "file" / "venv")
    assert "file" in peers.install()
    assert peers.python() is None


def test_the_peers_are_given_the_same_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call with its arguments as OpenAI's API has it, which reads what it says; the last reply has none."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    client, peers = import_module("bench.whole_client"), import_module("bench.peers")
    reply = client.completed(client.wants(3, peers.FILE_LINES), 7)["choices"][0]
    ((called,),) = (reply["message"]["tool_calls"],)
    args = json.loads(called["function"]["arguments"])
    assert (called["id"], called["function"]["name"], reply["finish_reason"]) == ("call_7", "cc_read", "tool_calls")
    assert [line.partition("|")[0] for line in peers.cc_read(**args).split("\n")] == [str(n) for n in range(4, 14)]
    last = client.completed(client.FINAL, 8)["choices"][0]
    assert (last["finish_reason"], last["message"].get("tool_calls")) == ("stop", None)


@pytest.mark.parametrize("content", ["{}", "[]", "no JSON"])
def test_a_file_that_is_no_earlier_run_is_refused(tmp_path: Path, content: str) -> None:
    """Before anything is measured, with what to type."""
    (tmp_path / "odd.json").write_text(content, "utf-8")
    code, _, complaints = bench("--against", str(tmp_path / "odd.json"))
    assert code == 2
    assert "scripts/bench --json" in complaints


def test_a_directory_that_is_not_there_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    """A run takes minutes."""
    code, _, complaints = bench("--report", str(tmp_path / "no" / "page.html"))
    assert code == 2
    assert "Make it first" in complaints


def test_an_unknown_bench_is_a_usage_error() -> None:
    """The names are told."""
    code, _, complaints = bench("--only", "weather")
    assert code == 2
    assert "memory" in complaints


def simulated(*arguments: str) -> str:
    """What the simulation of cells prints."""
    command = [sys.executable, "-P", "-m", "bench.cells", *arguments]
    env = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=HANG_S, check=True).stdout


def test_the_simulation_of_cells_gives_the_same_table_for_the_same_seed(tmp_path: Path) -> None:
    """With the costs that a report of the bench has; another seed gives another table."""
    line = {"bench": "whole", "what": "a step of 20", "value": 6.0, "beside": 0.4}
    (tmp_path / "report.json").write_text(json.dumps({"lines": [line]}))
    small = ("--cells", "3", "--computers", "900", "--from", str(tmp_path / "report.json"))
    table = simulated(*small)
    assert "welcome_s=0.003, step_s=0.006, commit_s=0.0002" in table
    assert simulated(*small) == table
    assert simulated(*small, "--seed", "2") != table


def test_the_simulation_of_cells_keeps_its_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each computer is welcome once, never more in a second than are admitted, and nobody before the cell is back."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    cells = import_module("bench.cells")
    costs = cells.Costs(admitted_s=50, welcome_s=0.01)
    for back_s, found_s in ((0, 0), (30, 0), (20, 40)):
        seen = cells.reconnecting(600, costs, 7, back_s=back_s, found_s=found_s)
        assert len(seen.connected) == sum(seen.admitted.values()) == 600
        assert max(seen.admitted.values()) <= 50 + 1
        assert seen.connected[0] >= max(back_s, found_s)
        # The line is served without a gap: admission alone says how long it takes.
        assert seen.connected[-1] <= max(back_s, found_s) + 600 / 50 + 2 * cells.LAST_DELAY_S
        assert bool(seen.at_router) == (back_s > 0)
    quick, slow = (cells.stepping(200, cells.Costs(commit_s=one), 7) for one in (0.002, 0.2))
    assert quick[0] > slow[0] > 0
    # Each of the four commits waits for one group that is under way, at most.
    assert quick[1] < 4 * 0.2 <= slow[1] <= 4 * 0.4 + 1
