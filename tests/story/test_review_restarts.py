"""`review` at a terminal while its server is killed and started again: nobody decides twice, or in vain."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.core.task import facts
from tests.harness.commands import Terminal, on_a_terminal
from tests.harness.processes import Kill
from tests.story.harness import Server, check_laws, ended, facts_of, final, tool, tools

PROMPT = "[h]elp > "
AWAY = "The server went away. Trying again for 90 s; Ctrl-C leaves."
BACK = "The connection is back; these requests wait now."
AGAIN = "Your last decision is sent again, since nobody heard its result; it counts once."
WRITE = tool("local_write", path="note.txt", content="a note\n")
ASK = tool("ask_user", question="Left or right?")


@contextmanager
def reviewing(server: Server, home: Path, *options: str) -> Iterator[Terminal]:
    """`review` on a terminal of its own."""
    where = ("--url", server.url, "--data-dir", str(server.home))
    with on_a_terminal(home, "review", *options, *where) as terminal:
        yield terminal


async def beside(story: Callable[[], None]) -> None:
    """What happens at a terminal, while this loop keeps the connections of the test."""
    await asyncio.to_thread(story)


async def waiting(server: Server, *script: object, kind: str = "review_requested") -> str:
    """A new task that waits for a person."""
    api = server.api()
    task_id = await api.submit(*script)  # type: ignore[arg-type]
    await api.first(task_id, kind)
    return task_id


async def test_what_waits_is_shown_again_after_a_restart(fresh_server: Server, tmp_path: Path) -> None:
    """Killed while a prompt stands open, twice: it says so, shows the request anew, and the decision then counts."""
    server = fresh_server
    server.start()
    task_id = await waiting(server, WRITE, final())

    def story() -> None:
        with reviewing(server, tmp_path) as terminal:
            for _ in range(2):
                terminal.expect("  │ +a note")
                terminal.expect(PROMPT)
                server.kill()
                terminal.expect(AWAY)
                server.start()
                terminal.expect(BACK)
            terminal.expect("  │ +a note")
            terminal.expect(PROMPT)
            terminal.type("a\n")
            terminal.expect(f"Carried out: approved by you; task {task_id} is Running.")
            terminal.interrupt()
            assert terminal.end() == 0, terminal.text
            assert (terminal.text.count(AWAY), AGAIN in terminal.text) == (2, False)

    await beside(story)
    items = await server.api().journal(task_id)
    check_laws(items)
    assert ended(items).status == "Completed"


async def test_who_is_away_can_be_left_and_is_not_looked_for_for_ever(fresh_server: Server, tmp_path: Path) -> None:
    """Ctrl-C ends it cleanly while the server is looked for; without one it ends with a sentence, and 3."""
    server = fresh_server
    server.start()
    await waiting(server, WRITE, final())

    def left() -> None:
        with reviewing(server, tmp_path) as terminal, reviewing(server, tmp_path, "--reconnect", "1") as impatient:
            for one in (terminal, impatient):
                one.expect(PROMPT)
            assert server.process is not None
            server.process.stop()
            terminal.expect(AWAY)
            terminal.interrupt()
            assert terminal.end() == 130
            assert "You left: nothing more was decided; 1 still waits." in terminal.text
            impatient.expect("Trying again for 1 s")
            assert impatient.end() == 3
            assert "No orchestrator answers at" in impatient.text
            assert "Traceback" not in terminal.text + impatient.text
            assert "is not known" not in terminal.text + impatient.text, "nothing was on its way"

    await beside(left)


async def test_a_server_that_was_never_there_is_not_waited_for(fresh_server: Server, tmp_path: Path) -> None:
    """It may be the wrong address."""
    server = fresh_server
    server.start()
    server.kill()

    def story() -> None:
        with reviewing(server, tmp_path) as terminal:
            assert terminal.end() == 3
            assert "went away" not in terminal.text

    await beside(story)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("side", ["before", "after"])
async def test_a_decision_on_its_way_when_the_server_died_counts_once(
    fresh_server: Server, tmp_path: Path, side: str
) -> None:
    """Whether or not it was written down by then: it is sent again, and the person hears what is so."""
    server, armed = fresh_server, tmp_path / "armed"
    server.start(Kill(1, side, armed=armed))
    task_id = await waiting(server, WRITE, final())

    def story() -> None:
        with reviewing(server, tmp_path) as terminal:
            terminal.expect(PROMPT)
            armed.touch()
            terminal.type("a\n")
            terminal.expect(AWAY)
            server.start()
            terminal.expect(BACK)
            terminal.expect(AGAIN)
            terminal.expect(f"Carried out: approved by you; task {task_id} is ")
            terminal.interrupt()
            assert terminal.end() == 0, terminal.text
            assert terminal.text.count("A person has to decide") == 1

    await beside(story)
    items = await server.api().journal(task_id)
    check_laws(items)
    assert len(facts_of(items, facts.DecisionRecorded)) == 1
    assert ended(items).status == "Completed"


@pytest.mark.thinned(2)
@pytest.mark.parametrize("side", ["before", "after"])
async def test_half_of_a_request_decided_when_the_server_died_leaves_the_other_half(
    fresh_server: Server, tmp_path: Path, side: str
) -> None:
    """What is left of it is asked for, and only that."""
    server, armed = fresh_server, tmp_path / "armed"
    server.start(Kill(1, side, armed=armed))
    task_id = await waiting(server, tools(WRITE, tool("local_write", path="b.txt", content="b\n")), final())

    def story() -> None:
        with reviewing(server, tmp_path) as terminal:
            terminal.expect("[1-2] one")
            terminal.type("1\n")
            terminal.expect("Call 1: ")
            armed.touch()
            terminal.type("a\n")
            terminal.expect(AWAY)
            server.start()
            terminal.expect("Carried out: approved by you")
            terminal.expect("  │ +b")
            terminal.expect("Decide: ")
            terminal.type("a\n")
            terminal.expect("Carried out: approved by you")
            terminal.interrupt()
            assert terminal.end() == 0, terminal.text

    await beside(story)
    items = await server.api().journal(task_id)
    check_laws(items)
    assert [len(one.decisions) for one in facts_of(items, facts.DecisionRecorded)] == [1, 1]
    assert ended(items).status == "Completed"


async def test_who_leaves_before_a_decision_was_heard_of_is_told_so(fresh_server: Server, tmp_path: Path) -> None:
    """It may have been taken: nothing else is claimed."""
    server, armed = fresh_server, tmp_path / "armed"
    server.start(Kill(1, "after", armed=armed))
    await waiting(server, WRITE, final())

    def story() -> None:
        with reviewing(server, tmp_path) as terminal:
            terminal.expect(PROMPT)
            armed.touch()
            terminal.type("a\n")
            terminal.expect(AWAY)
            terminal.interrupt()
            terminal.end()
            assert "It is not known whether your last decision was taken" in terminal.text

    await beside(story)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("side", "said"),
    [("before", "Carried out: answered by you"), ("after", "The question needs no answer any more: yours was taken")],
)
async def test_an_answer_on_its_way_when_the_server_died_counts_once(
    fresh_server: Server, tmp_path: Path, side: str, said: str
) -> None:
    """Where the question is still open it is sent again; where not, an answer was taken."""
    server, armed = fresh_server, tmp_path / "armed"
    server.start(Kill(1, side, armed=armed))
    task_id = await waiting(server, ASK, final(), kind="question_asked")

    def story() -> None:
        with reviewing(server, tmp_path) as terminal:
            terminal.expect("Your answer (empty: leave it): ")
            armed.touch()
            terminal.type("left\n")
            terminal.expect(AWAY)
            server.start()
            terminal.expect(BACK)
            terminal.expect(said)
            terminal.interrupt()
            assert terminal.end() == 0, terminal.text
            assert terminal.text.count("Left or right?") == 1

    await beside(story)
    items = await server.api().journal(task_id)
    assert [one.answer for one in facts_of(items, facts.QuestionAnswered)] == ["left"]
