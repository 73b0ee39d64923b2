"""The console at a terminal, and requests that are decided by name: over real servers and pseudo terminals."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from orchestrator.client import Client
from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.text.visible import visible
from orchestrator.terminal.cli.review import decide_named
from tests.harness.asked import console
from tests.harness.commands import Served, on_a_terminal, script, talking, until
from tests.harness.support import WRITE, Disk, Listening, call, final, says
from tests.harness.whole_server import connected, running

PROMPT = "[h]elp > "


# -- at a terminal -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for these."""
    home = tmp_path_factory.mktemp("home")
    with talking(home, home / "data") as served:
        yield served


def asks(server: Served, path: str) -> HitlResponse:
    """The request of a new task that wants to write this file, which is not there yet."""
    write = call("local_write", path=path, content="new\n")
    follower = server.start("run", script(says(write), final()))
    task_id = until(follower, "[REVIEW]").split()[1]
    follower.kill()
    follower.communicate()
    return next(one for one in waiting(server) if one.task_id == task_id)


def waiting(server: Served) -> list[HitlResponse]:
    """What waits, as the client gets it."""
    client = Client(server.url, (server.data / "admin.token").read_text().strip())
    try:
        return [HitlResponse.model_validate(one) for one in client.request("GET", "/v1/requests")["requests"]]
    finally:
        client.close()


def test_a_prompt_ends_when_somebody_else_decides(talker: Served) -> None:
    """Decided elsewhere while the prompt stands open: it says by whom, and waits for the next without a key (R7)."""
    one = asks(talker, "elsewhere.txt")
    with on_a_terminal(talker.home, "review", *talker.where) as terminal:
        terminal.expect(PROMPT)
        assert talker.cli("review", "--reject", one.request_id, "--yes").returncode == 0
        terminal.expect("Decided elsewhere: rejected by admin.")
        terminal.interrupt()
        assert terminal.end() == 0, terminal.text


def test_what_was_left_is_shown_again(talker: Served) -> None:
    """[n] leaves it for now; when nothing else waits, Enter shows it once more."""
    asks(talker, "left.txt")
    with on_a_terminal(talker.home, "review", *talker.where) as terminal:
        terminal.expect("  │ +new")
        terminal.expect(PROMPT)
        terminal.type("n\n")
        terminal.expect("1 is left open: ")
        terminal.type("\n")
        terminal.expect("  │ +new")
        terminal.expect(PROMPT)
        terminal.type("r\n")
        terminal.expect("Reason (may be empty): ")
        terminal.type("enough\n")
        terminal.expect("(Enter: c) > ")
        terminal.type("s\n")
        terminal.expect("Carried out: rejected by you")
        terminal.interrupt()
        assert terminal.end() == 0, terminal.text


def test_the_page_on_eighty_columns(talker: Served) -> None:
    """No line of ours is longer than the terminal, and no escape is on it without color."""
    asks(talker, "page.txt")
    with on_a_terminal(talker.home, "review", *talker.where, COLUMNS="80") as terminal:
        terminal.expect(PROMPT)
        terminal.type("h\n")
        terminal.expect("Ctrl-C leaves")
        terminal.expect(PROMPT)
        terminal.type("r\n")
        terminal.expect(": ")
        terminal.type("\n")
        terminal.expect(" > ")
        terminal.type("s\n")
        terminal.expect("Carried out:")
    assert visible(terminal.text) == terminal.text
    assert [line for line in terminal.text.splitlines() if len(line.rstrip()) > 80 and "  │" not in line] == []


# -- by name -----------------------------------------------------------------------------


def test_several_are_printed_and_decided_at_once(talker: Served) -> None:
    """Each is printed in full, each has its result, and one that is not there makes it end with 1 (D4)."""
    ids = [asks(talker, path).request_id for path in ("one.txt", "two.txt")]
    listed = talker.cli("review", "--list").stdout
    assert [line.partition(" ")[0] for line in listed.splitlines() if " ─ risk: " in line] == ids
    assert "  local_write on this host: two.txt (+1 -0)\n" in listed
    assert talker.cli("review", "--list", "--json").stdout.startswith('[{"task_id": ')
    done = talker.cli("review", "--approve", ids[0], "no-such-request", ids[1], "--yes")
    assert done.returncode == 1
    assert done.stdout.count("  │ +new\n") == 2
    results = [line for line in done.stdout.splitlines() if line.startswith((*ids, "no-such"))]
    assert [line.partition(": ")[2].partition(";")[0].partition(":")[0] for line in results] == [
        "Carried out",
        "Not carried out",
        "Carried out",
    ]
    again = talker.cli("review", "--approve", ids[0], "--yes", "--json")
    assert (again.returncode, again.stdout.count('"carried_out": false')) == (1, 1)


def test_named_requests_are_asked_about_once(talker: Served) -> None:
    """At a terminal it asks before it decides; no is nothing decided, yes is all of them."""
    one = asks(talker, "named.txt")
    for typed, code, says_so in (("\n", 1, "Nothing was decided."), ("y\n", 0, "Carried out: rejected by you")):
        with on_a_terminal(
            talker.home, "review", "--reject", one.request_id, "--reason", "no", *talker.where
        ) as terminal:
            terminal.expect("  │ +new")
            terminal.expect("Reject this request? [y/N] ")
            terminal.type(typed)
            terminal.expect(says_so)
            assert terminal.end() == code, terminal.text


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    "options",
    [
        ["--approve"],
        ["--reject"],
        ["r-1"],
        ["--list", "r-1"],
        ["--approve", "--reject", "r-1"],
        ["--list", "--approve", "r-1"],
        ["--json"],
        ["--approve", "r-1"],
        ["--approve", "r-1", "--json"],
    ],
)
def test_what_makes_no_sense_is_usage(talker: Served, options: Sequence[str]) -> None:
    """Options that contradict each other, and a decision nobody could be asked about, end with 2 and a sentence."""
    done = talker.cli("review", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("cc-orchestrator: ")


async def test_a_name_that_somebody_else_decides_meanwhile_is_too_late(tmp_path: Path) -> None:
    """Between the page and the yes it was rejected: the result says by whom, and nothing runs (D4, D8)."""
    disk = Disk({"a.lua": b"old\n"})
    async with running(tmp_path, model=Listening(says(WRITE), final())) as server, connected(server, "3", disk):
        pending = await server.paused(await server.submit())
        client = Client(server.url, server.admin)
        here, said, _ = console()
        asked: list[str] = []

        def rejected_meanwhile(prompt: str) -> str:
            asked.append(prompt)
            client.request("POST", pending["rejection_url"], {})
            return "y"

        here.ask = rejected_meanwhile
        ids = [pending["request_id"]] * 2
        outcomes = await asyncio.to_thread(decide_named, client, here, ids, "approve")
        client.close()
    assert asked == ["Approve this request? [y/N] "]
    assert "  │ +print('new')" in said
    assert outcomes is not None
    assert [(one.carried_out, one.said.partition(" it")[0]) for one in outcomes] == [
        (False, "Too late: admin rejected")
    ]
    assert disk.done == []
