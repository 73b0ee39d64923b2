"""The log: each line is one line, says what it is about, and holds no secret, whatever others write into it."""

import asyncio
import io
import json
import logging
import re
import socket
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orchestrator.app import observability as journal_log
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, QuestionId
from orchestrator.core.text.redact import redact_text
from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import RunId
from orchestrator.runtime import logs
from orchestrator.runtime.logs import LINES, MAX_CHARS, about, set_up
from tests.core.journal import REQUEST, Journal, decision, person
from tests.core.journal import call as call_of
from tests.harness.commands import serving
from tests.harness.support import Disk, Listening, dialed, final, says
from tests.harness.support import call as calls
from tests.harness.whole_server import Server, connected, running
from tests.waiting import HANG_S, within

logger = logging.getLogger("orchestrator.of_a_test")
HOSTILE = "farm\n2026-01-01 00:00:00,000 INFO all is well\x1b[2J\u202e\r\x00"

OF_BYTES = "farm \x9b2J \x85 INFO all is well"
"""What a computer can say: any byte above the blank, so also the escapes and line ends of Latin-1."""


class Hearing(logging.Handler):
    """Tells when a record with this word was made."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self.heard = asyncio.Event()
        self._word = word

    def emit(self, record: logging.LogRecord) -> None:
        """Look at it."""
        if self._word in record.getMessage():
            self.heard.set()


@contextmanager
def logged(form: Any, level: str = "info") -> Iterator[io.StringIO]:
    """What is logged meanwhile, as `serve` sets it up; afterwards all is as it was."""
    root, uvicorn = logging.getLogger(), logging.getLogger("uvicorn")
    handlers, levels = list(root.handlers), (root.level, uvicorn.level)
    root.handlers.clear()
    out = io.StringIO()
    try:
        set_up(level, form, out)
        yield out
    finally:
        logging.captureWarnings(capture=False)
        root.handlers[:] = handlers
        root.setLevel(levels[0])
        uvicorn.setLevel(levels[1])


def objects(out: io.StringIO) -> list[dict[str, Any]]:
    """Each line as its object."""
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_says_what_it_is_about() -> None:
    """Fields come from around a record and from the record itself; what is said nearer counts, and it ends."""
    with logged("json") as out:
        with about(task_id="t-1", computer="3"):
            with about(call_id="c-1", computer=None):
                logger.info("inside")
            logger.info("of another", extra={"computer": "4"})
        logger.info("outside")
    told = [{key: one[key] for key in one if key not in ("at", "logger")} for one in objects(out)]
    assert told == [
        {"level": "info", "message": "inside", "task_id": "t-1", "call_id": "c-1", "computer": "3"},
        {"level": "info", "message": "of another", "task_id": "t-1", "computer": "4"},
        {"level": "info", "message": "outside"},
    ]
    at = datetime.fromisoformat(objects(out)[0]["at"])
    assert re.fullmatch(r"[\d-]{10}T[\d:]{8}\.\d{3}\+00:00", objects(out)[0]["at"])
    assert abs((datetime.now(UTC) - at).total_seconds()) < HANG_S
    with logged("text") as out, about(task_id="t-1", computer="3"):
        logger.info("inside")
    line = r"[\d-]{10} [\d:]{8},\d{3} INFO inside \[task_id=t-1 computer=3\]\n"
    assert re.fullmatch(line, out.getvalue())


async def test_tasks_beside_one_another_are_not_mixed_up() -> None:
    """Two that work at once each log their own ids."""
    both = asyncio.Barrier(2)

    async def work(name: str) -> None:
        with about(task_id=name):
            await both.wait()
            logger.info("%s", name)

    with logged("json") as out:
        await asyncio.gather(work("t-1"), work("t-2"))
    assert {one["message"]: one["task_id"] for one in objects(out)} == {"t-1": "t-1", "t-2": "t-2"}


@pytest.mark.parametrize("form", ["text", "json"])
def test_nobody_can_forge_a_line(form: str) -> None:
    """Line ends, escapes and bidi marks in a message, an id or a traceback stay in their line, as escapes."""
    with logged(form) as out, about(computer=HOSTILE):
        logger.warning("the label is %s", HOSTILE)
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            logger.exception("a defect")
    text = out.getvalue()
    assert not set("\x1b\u202e\r\x00") & set(text)
    lines = text.splitlines()
    assert not [line for line in lines if line.startswith("2026-01-01")]
    if form == "json":
        assert [set(one) for one in objects(out)][1] == {"at", "level", "logger", "message", "computer", "error"}
        assert len(lines) == 2
    else:
        # Of a traceback every line is set in; no record is.
        assert [line for line in lines if not line.startswith("    ")][1:] == [lines[1]]


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_taken_out(form: str) -> None:
    """A token in a message or a traceback is a marker in the log."""
    secret = "ghp_" + "a1B2" * 9
    with logged(form) as out:
        logger.warning("it says %s", secret)
        try:
            raise ValueError(f"password={secret}")
        except ValueError:
            logger.exception("a defect")
    assert secret not in out.getvalue()
    assert out.getvalue().count("[redacted ") >= 2


def test_the_same_line_again_is_the_same_line() -> None:
    """A secret stays out of it however often it is logged, and each line has its own time."""
    secret = "ghp_" + "a1B2" * 9
    with logged("text") as out:
        for at in (0.0, 0.25, 61.5, 61.75):
            record = logging.makeLogRecord({"msg": f"it says {secret}", "levelname": "INFO", "levelno": logging.INFO})
            record.created, record.msecs = at, at % 1 * 1000
            logging.getLogger().handle(record)
    lines = out.getvalue().splitlines()
    assert secret not in out.getvalue()
    assert len({line[len("1970-01-01 00:00:00,000") :] for line in lines}) == 1
    times = [datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f") for line in lines]  # noqa: DTZ007 - it is local
    assert [(one - times[0]).total_seconds() for one in times] == [0.0, 0.25, 61.5, 61.75]


def test_what_is_clean_of_one_task_is_clean_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task logs the same lines: they are searched once. What is secret by its name is hidden with any id."""
    searched: list[str] = []

    def search(text: str, *, salt: str) -> str:
        searched.append(text)
        return redact_text(text, salt=salt)

    monkeypatch.setattr(logs, "redact_text", search)
    monkeypatch.setattr(logs, "_CLEAN", set())
    ids = ["t-0123456789ab", "t-abcdefabcdef", "t-012345678901"]
    with logged("text") as out:
        for one in ids:
            logger.info("task %s came in: of ann, session s%s", one, one[1:])
        assert len(searched) == 1
        for one in ids:
            logger.info("password=%s", one)
    assert [one in line for one, line in zip(ids, out.getvalue().splitlines(), strict=False)] == [True] * 3
    assert out.getvalue().count("[redacted ") == 3


def test_a_warning_of_python_is_a_record_too() -> None:
    """Whatever library warns: its words are of the log, and no line beside it."""
    with logged("json") as out, warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("this will go away", DeprecationWarning, stacklevel=1)
    (one,) = objects(out)
    assert (one["level"], one["logger"]) == ("warning", "py.warnings")
    assert "DeprecationWarning: this will go away" in one["message"]


def test_a_huge_message_is_cut_and_that_is_said() -> None:
    """One record cannot fill the disk."""
    with logged("json") as out:
        logger.warning("%s", "x " * MAX_CHARS)
    (one,) = objects(out)
    assert len(one["message"]) < MAX_CHARS + 100
    assert one["message"].endswith("characters more]")


def test_what_is_logged_is_counted_and_the_level_holds() -> None:
    """Lines below the level are neither written nor counted."""
    before = dict(LINES)
    with logged("text", level="warning") as out:
        logger.info("quiet")
        logger.error("loud")
    assert len(out.getvalue().splitlines()) == 1
    assert LINES["error"] == before.get("error", 0) + 1
    assert LINES["info"] == before.get("info", 0)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server whose model reads a file."""
    model = Listening(says(calls("cc_read", path="a.lua")), final("read"))
    async with running(tmp_path, model=model) as server:
        yield server


async def test_what_happens_to_a_task_and_a_computer_carries_their_ids(server: Server) -> None:
    """A task whose call loses its computer, a computer that comes, complains and goes: each line has the fields."""
    with logged("json") as out:
        logging.getLogger().addHandler(hearing := Hearing("waits"))
        token = await server.computer("3")
        async with dialed(server.url, token) as client:
            await client.greet(host=f"ComputerCraft 1.113.1 {OF_BYTES}")
            await client.send(wire.Complaint(journal_seq=2, code="odd", message=OF_BYTES))
            task_id = await server.submit()
            sent, _ = await client.hear("call")
        await within(hearing.heard.wait())
        async with connected(server, "3", Disk({"a.lua": b"old\n"}), token):
            await server.until(task_id, "task_ended")
    told = objects(out)
    (waits,) = [one for one in told if "waits" in one["message"]]
    assert (waits["task_id"], waits["computer"]) == (task_id, "3")
    assert sent.call_id.startswith(waits["call_id"])
    about_it = [one for one in told if one["message"].startswith("computer 3 ")]
    assert len(about_it) >= 4
    assert {one["computer"] for one in about_it} == {"3"}
    assert any(("complains" in one["message"] and "\\n" in one["message"]) or "?" in one["message"] for one in about_it)


async def test_what_becomes_of_a_task_is_in_the_log(server: Server) -> None:
    """From its coming in to its end, with the call's id and its computer, and nothing of what is in it."""
    with logged("json", "debug") as out:
        token = await server.computer("3")
        async with connected(server, "3", Disk({"a.lua": b"CONTENT\n"}), token):
            task_id = await server.submit()
            await server.until(task_id, "task_ended")
    told = [one for one in objects(out) if one["logger"] == "orchestrator.app.observability"]
    assert {one["task_id"] for one in told} == {task_id}
    assert "CONTENT" not in json.dumps(told)
    said = [one["message"].removeprefix(f"task {task_id} ") for one in told if one["level"] == "info"]
    assert said[0].startswith("came in: of ")
    assert "begins cc_read" in said
    assert "ended cc_read: ok" in said
    assert said[-1].startswith("ended: Completed (")
    (begins,) = [one for one in told if "begins cc_read" in one["message"]]
    (ended,) = [one for one in told if "ended cc_read" in one["message"]]
    assert begins["call_id"] == ended["call_id"]
    assert begins["computer"] == ended["computer"] == "3"
    assert {one["level"] for one in told if "asks its model" in one["message"]} == {"debug"}


def test_each_thing_that_happens_to_a_task_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a call that nobody remembers, which another node proposed; what is in them is in no line."""
    monkeypatch.setattr(journal_log, "_REMEMBERED", 1)
    story = Journal()
    story.submitted()
    story.proposed([call_of("c0", content="SECRET"), call_of("c1", path="SECRET")], "ask", "ask", explanation="SECRET")
    begun = len(story.items)
    happened: dict[str, facts.Fact] = {
        "refuses a reply: unreadable": facts.ReplyRefused(reason="SECRET"),
        "ended a call: failed (stale)": facts.ToolFinished(
            call_id=CallId("c0"), run_id=RunId("c0.1"), ok=False, code="stale", text="SECRET"
        ),
        "settled cc_write: unknown": facts.ToolSettled(
            call_id=CallId("c1"), run_id=RunId("c1.1"), state="unknown", reason="SECRET"
        ),
        "has a decision of ada on request q1: approve": facts.DecisionRecorded(
            request_id=REQUEST, decisions=(decision("c1", reason="SECRET"),)
        ),
        "needs no decision on request q1: expired": facts.RequestEnded(
            request_id=REQUEST, end="expired", call_ids=(), reason="SECRET"
        ),
        "waits for an answer: question q-1": facts.QuestionAsked(
            question_id=QuestionId("q-1"), call_id=CallId("c1"), question="SECRET"
        ),
        "has an answer to question q-1": facts.QuestionAnswered(question_id=QuestionId("q-1"), answer="SECRET"),
        "is to stop, says ada": facts.CancelRequested(reason="SECRET"),
        "is at its limit: max_steps": facts.LimitReached(limit="max_steps", detail="SECRET"),
        "ended: Failed (max_steps)": facts.TaskEnded(status="Failed", status_reason="max_steps", message="SECRET"),
    }
    untold = facts.StatusSent(call_id=CallId("c1"), message="SECRET")
    with logged("json") as out:
        log = journal_log.JournalLog()
        log.observe(story.items[:begun])
        log.observe(
            [
                story.items[0].model_copy(update={"fact": one, "actor": person("ada")})
                for one in (*happened.values(), untold)
            ]
        )
    came, *told = objects(out)
    assert (came["task_id"], came["computer"]) == (story.items[0].task_id, "3")
    assert [one["message"] for one in told] == [f"task {came['task_id']} {said}" for said in happened]
    assert "SECRET" not in out.getvalue()


def test_serve_writes_an_object_on_each_line_and_uvicorn_too(tmp_path: Path) -> None:
    """With `--log-format json` all of standard error is objects: first words, records, and uvicorn's complaint."""
    with serving(tmp_path, tmp_path / "data", "--log-format", "json") as served:
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", int(served.port)), timeout=HANG_S) as other:
                other.sendall(b"NO HTTP\r\n\r\n")
                assert other.recv(100)
        served.process.terminate()
        assert served.process.wait(30) == 0
        told = [json.loads(line) for line in (tmp_path / "serve.log").read_text("utf-8").splitlines()]
    assert all({"at", "level", "logger", "message"} <= set(one) for one in told)
    # Once a minute: whoever reaches the port could else fill the disk.
    assert [one["level"] for one in told if one["logger"].startswith("uvicorn")] == ["warning"]
    assert any("admin.token" in one["message"] for one in told)
