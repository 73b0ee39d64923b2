"""The command line as people start it: real processes, their words and their exit codes."""

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.core.wire import sha256_hex
from orchestrator.store.file_lock import FileLock

ROOT = Path(__file__).resolve().parent.parent.parent
CLI = [sys.executable, "-m", "orchestrator.cli"]
WITHIN_S = 30.0
PROGRAM = b"print('Hello, world!')\n"


def environment(home: Path, **more: str) -> dict[str, str]:
    """A newcomer's environment: a fresh home, and nothing of ours set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CC_ORCHESTRATOR_", "XDG_"))}
    return {**kept, "HOME": str(home), "PYTHONPATH": str(ROOT), "TERM": "dumb", "COLUMNS": "200", **more}


def cli(home: Path, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """One command to its end, without a terminal; a traceback is never an answer."""
    done = subprocess.run(
        [*CLI, *arguments],
        env=environment(home, **more),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    return done


@dataclass
class Served:
    """A `serve` that listens."""

    process: "subprocess.Popen[str]"
    url: str
    data: Path
    home: Path

    def cli(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A client's command to this server."""
        return cli(self.home, *arguments, "--url", self.url, "--data-dir", str(self.data))


@contextmanager
def serving(home: Path, data: Path, *options: str) -> Iterator[Served]:
    """A server in a process of its own; killed when the block ends and it still runs."""
    command = [*CLI, "serve", "--port", "0", "--data-dir", str(data), *options]
    log = (home / "serve.log").open("w")
    process = subprocess.Popen(command, env=environment(home), cwd=home, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), (home / "serve.log").read_text()
        yield Served(process, line.removeprefix("listening on ").strip(), data, home)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        log.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests that only talk to it."""
    home = tmp_path_factory.mktemp("home")
    with serving(home, home / "data") as served:
        yield served


# -- help and starting -------------------------------------------------------------------


def test_help_is_quick_and_loads_neither_models_nor_server(tmp_path: Path) -> None:
    """`--help` names the commands and imports no server, no socket, no models and no store."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "orchestrator.cli", "--help"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0
    for command in ("serve", "demo", "run", "review", "tasks", "cancel", "answer", "computers", "token"):
        assert command in done.stdout
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "orchestrator.cli" in imported or "typer" in imported
    for heavy in ("pydantic_ai", "uvicorn", "starlette", "websockets", "httpx2", "sqlite3", "orchestrator.app"):
        assert heavy not in imported


def test_no_command_is_the_help_and_an_unknown_one_is_usage(tmp_path: Path) -> None:
    """Without a command the help is shown; an unknown command or option is exit code 2."""
    bare = cli(tmp_path)
    assert "Usage" in bare.stdout + bare.stderr
    for arguments in (("explode",), ("tasks", "--nope")):
        assert cli(tmp_path, *arguments).returncode == 2


def test_serve_says_where_and_leaves_its_token(served: Served) -> None:
    """`serve` prints `listening on URL` when it is ready, and its admin's token is in a file of mode 0600."""
    assert served.url.startswith("http://127.0.0.1:")
    token = served.data / "admin.token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert served.data.stat().st_mode & 0o777 == 0o700
    assert token.read_text().strip() not in (served.home / "serve.log").read_text()
    assert (served.data / "policy.toml").read_text().startswith("# What the model may do.")


def test_a_signal_stops_it_cleanly_and_it_starts_again(tmp_path: Path) -> None:
    """SIGTERM and SIGINT end `serve` with exit code 0 within seconds; the store is free and the token still good."""
    tokens: list[str] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with serving(tmp_path, tmp_path / "data") as server:
            tokens.append((tmp_path / "data" / "admin.token").read_text())
            began = time.monotonic()
            server.process.send_signal(number)
            assert server.process.wait(WITHIN_S) == 0
            assert time.monotonic() - began < 8
        assert "Traceback" not in (tmp_path / "serve.log").read_text()
    assert tokens[0] == tokens[1]


def test_it_stops_while_somebody_follows(tmp_path: Path) -> None:
    """SIGTERM ends `serve` within seconds though a client still follows a task; the client says so, exit code 3."""
    with serving(tmp_path, tmp_path / "data") as server:
        server.cli("token", "computer", "3")
        command = [*CLI, "run", "fix it", "--computer", "3", "--url", server.url, "--data-dir", str(server.data)]
        follower = subprocess.Popen(
            command, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert follower.stdout is not None
        while not follower.stdout.readline().startswith("[TOOL] cc_write("):
            assert follower.poll() is None
        server.process.terminate()
        assert server.process.wait(WITHIN_S) == 0
        _, errors = follower.communicate(timeout=WITHIN_S)
    assert follower.returncode == 3, errors
    assert "No orchestrator answers at" in errors
    assert "Traceback" not in errors


# -- what refuses to start -----------------------------------------------------------------


def refused(done: "subprocess.CompletedProcess[str]", *words: str, code: int = 2) -> None:
    """One sentence on stderr with these words, an exit code, and no `listening`."""
    assert done.returncode == code, done.stderr
    (line,) = [one for one in done.stderr.splitlines() if one.startswith("cc-orchestrator: ")]
    for word in words:
        assert word in line
    assert "listening" not in done.stdout


def test_a_second_server_on_one_store_names_the_first(served: Served) -> None:
    """A second `serve` on one data directory is refused with the pid of the first, which goes on."""
    done = cli(served.home, "serve", "--port", "0", "--data-dir", str(served.data))
    refused(done, f"is open in process {served.process.pid}.")
    assert served.cli("tasks").returncode == 0


def test_a_port_that_is_taken_is_a_sentence(tmp_path: Path) -> None:
    """A port in use is named with what to do, and nothing is left running."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = cli(tmp_path, "serve", "--port", port, "--data-dir", str(tmp_path / "d"))
    refused(done, f"Port {port} of 127.0.0.1 cannot be used: Address already in use.", "--port")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--port", "99999"), ("The setting port does not fit", "--port")),
        (("--port", "0", "--host", "0.0.0.0"), ("0.0.0.0 is not loopback", "tokens would travel in clear", "TLS")),
        (("--port", "0", "--store", "postgresql://u:secret@h/x"), ("No store can be opened", "sqlite:///")),
    ],
)
def test_a_setting_that_cannot_be_is_a_sentence(tmp_path: Path, options: Sequence[str], words: Sequence[str]) -> None:
    """A bad port, a bind without TLS and an unknown store are refused in one sentence, exit code 2."""
    done = cli(tmp_path, "serve", "--data-dir", str(tmp_path / "d"), *options)
    refused(done, *words)
    assert "secret" not in done.stderr


def test_a_broken_policy_names_file_rule_and_reason(tmp_path: Path) -> None:
    """A policy that cannot be used refuses the start and names the file, the rule and why."""
    policy = tmp_path / "mine.toml"
    policy.write_text('schema_version = 1\n[[rules]]\nid = "mine"\neffect = "maybe"\ntools = ["*"]\n')
    done = cli(tmp_path, "serve", "--port", "0", "--data-dir", str(tmp_path / "d"), "--policy", str(policy))
    refused(done, str(policy), "rule 1 (mine)", "effect", "'allow', 'ask' or 'deny'")


def test_a_used_directory_without_its_policy_does_not_start(tmp_path: Path) -> None:
    """Where a store is but no policy any more, nothing starts: the shipped one is not put in its place."""
    with serving(tmp_path, tmp_path / "data") as server:
        server.process.terminate()
        assert server.process.wait(WITHIN_S) == 0
    (tmp_path / "data" / "policy.toml").unlink()
    done = cli(tmp_path, "serve", "--port", "0", "--data-dir", str(tmp_path / "data"))
    refused(done, str(tmp_path / "data" / "policy.toml"), "cannot be read")
    assert not (tmp_path / "data" / "policy.toml").exists()


# -- clients -----------------------------------------------------------------------------


def test_without_a_token_a_client_says_where_one_is_looked_for(tmp_path: Path) -> None:
    """No token is usage (2): the variable, the file and what to do are named, also when the file is no text."""
    done = cli(tmp_path, "tasks", "--data-dir", str(tmp_path))
    refused(done, "CC_ORCHESTRATOR_TOKEN", str(tmp_path / "admin.token"), "cc-orchestrator serve")
    (tmp_path / "admin.token").write_bytes(b"\xff\xfe")
    refused(cli(tmp_path, "tasks", "--data-dir", str(tmp_path)), str(tmp_path / "admin.token"))


def test_where_nothing_listens_a_client_says_so(tmp_path: Path) -> None:
    """A server that is not there is exit code 3, with its address and what to start."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    done = cli(tmp_path, "review", CC_ORCHESTRATOR_TOKEN="x", CC_ORCHESTRATOR_URL=url)
    refused(done, f"No orchestrator answers at {url}", "cc-orchestrator serve", code=3)


def test_a_server_that_refuses_is_told_in_its_words(served: Served) -> None:
    """A wrong token, an unknown model and an unknown task are the server's own sentences, exit code 3."""
    wrong = cli(served.home, "tasks", CC_ORCHESTRATOR_TOKEN="nonsense", CC_ORCHESTRATOR_URL=served.url)
    refused(wrong, "This token is not known or was revoked.", code=3)
    refused(served.cli("run", "x", "--model", "scripted:nothing"), "There is no script 'nothing'", "hello", code=3)
    refused(served.cli("cancel", "t-none"), "There is no task 't-none'", code=3)


def test_tasks_and_computers_are_listed(served: Served) -> None:
    """A task that fails ends `run` with 1 and is listed; a computer's token is printed once, and revoked."""
    ran = served.cli("run", "nothing to work on", "--max-steps", "1")
    assert ran.returncode == 1
    assert ran.stdout.startswith("task t-")
    assert "[REFUSED] This task has no computer" in ran.stdout
    assert ran.stdout.rstrip().endswith("[FINAL] Success=False, Message=The limit of 1 steps was reached.")
    listed = json.loads(served.cli("tasks", "--json").stdout)
    assert listed[0]["prompt"] == "nothing to work on"
    assert listed[0]["status"] == "Failed"
    assert served.cli("token", "computer", "farm").stdout.startswith("ccc_")
    assert "farm  away" in served.cli("computers").stdout
    assert served.cli("token", "revoke", "computer", "farm").stdout == "revoked 1\n"


def test_review_without_a_terminal_shows_and_decides_nothing(served: Served) -> None:
    """Without a terminal `review` shows what waits and ends; silence never approves."""
    done = served.cli("review")
    assert done.returncode == 0
    assert "Nothing waits for you." in done.stdout


# -- the demo ----------------------------------------------------------------------------


def follow(master: int, typed: Sequence[tuple[str, str]], process: "subprocess.Popen[bytes]") -> str:
    """Read a terminal to its end and type each answer when its prompt stands at the end of what was read."""
    seen, at, waiting = "", 0, list(typed)
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if select.select([master], [], [], 1.0)[0]:
            try:
                data = os.read(master, 65536)
            except OSError:
                data = b""
            if not data:
                break
            seen += data.decode("utf-8", "replace")
        if waiting and seen[at:].rstrip().endswith(waiting[0][0]):
            at = len(seen)
            answer = waiting.pop(0)[1]
            if answer == INTERRUPT:
                process.send_signal(signal.SIGINT)
            else:
                os.write(master, answer.encode())
    assert process.wait(WITHIN_S) is not None
    return seen.replace("\r\n", "\n")


@contextmanager
def on_a_terminal(home: Path, *arguments: str) -> "Iterator[tuple[int, subprocess.Popen[bytes]]]":
    """A command on a pseudo terminal of its own."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*CLI, *arguments],
        env=environment(home, NO_COLOR="1"),
        cwd=home,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield master, process
    finally:
        process.kill()
        process.wait()
        os.close(master)


PROMPT = "[l] leave it:"


def test_the_demo_with_a_person_at_the_terminal(tmp_path: Path) -> None:
    """A person types `a` twice: the diff is shown first, then the very bytes are on the disk, and exit is 0."""
    directory = tmp_path / "kept"
    with on_a_terminal(tmp_path, "demo", "--dir", str(directory)) as (master, process):
        text = follow(master, [(PROMPT, "what\n"), (PROMPT, "a\n"), (PROMPT, "a\n")], process)
    assert process.returncode == 0, text
    assert "Traceback" not in text
    order = [
        "[STEP 1]",
        "[EXPLANATION] I write the program first.",
        "[TOOL] cc_write({",
        "cc_write on computer 0",
        "  │ +print('Hello, world!')",
        "Type one of a, r, l; nothing was decided.",
        "[TOOL_RESULT] Wrote 23 bytes to hello.lua",
        "[STEP 2]",
        "[TOOL] cc_run_program({'path': 'hello.lua'})",
        f"found: hello.lua {sha256_hex(PROGRAM)}",
        "[TOOL_RESULT] Program hello.lua executed successfully.\n    Output:\n    Hello, world!",
        "[FINAL] Success=True, Message=",
    ]
    places = [text.find(one) for one in order]
    assert -1 not in places, [one for one, place in zip(order, places, strict=True) if place < 0]
    assert places == sorted(places)
    assert (directory / "computers" / "0" / "hello.lua").read_bytes() == PROGRAM
    assert {"orchestrator.db", "admin.token", "policy.toml"} <= {path.name for path in directory.iterdir()}


INTERRUPT = "^C"


@pytest.mark.parametrize(("typed", "code"), [("r\n", 1), ("\x04", 130), (INTERRUPT, 130)])
def test_the_demo_rejected_or_left(tmp_path: Path, typed: str, code: int) -> None:
    """Rejecting ends with 1, Ctrl-D and Ctrl-C leave with 130: nothing is written, and the store is let go."""
    directory = tmp_path / "kept"
    answers = [(PROMPT, typed), ("Reason (may be empty):", "no\n")]
    with on_a_terminal(tmp_path, "demo", "--dir", str(directory)) as (master, process):
        text = follow(master, answers, process)
    assert process.returncode == code, text
    assert "Traceback" not in text
    assert not (directory / "computers" / "0" / "hello.lua").exists()
    FileLock(directory / "orchestrator.db").release()


def test_the_demo_without_a_terminal_and_again_on_the_same_directory(tmp_path: Path) -> None:
    """Without a terminal the demo says that it plays the reviewer; a second run on the same directory works too."""
    directory = str(tmp_path / "kept")
    for turn in (1, 2):
        done = cli(tmp_path, "demo", "--dir", directory)
        assert done.returncode == 0, done.stderr + done.stdout
        assert "There is no terminal, so the demo plays the reviewer itself" in done.stdout
        assert "[FINAL] Success=True" in done.stdout
        assert ("found: hello.lua absent" in done.stdout) is (turn == 1)
    assert (tmp_path / "kept" / "computers" / "0" / "hello.lua").read_bytes() == PROGRAM
    with serving(tmp_path, tmp_path / "kept") as server:
        listed = json.loads(server.cli("tasks", "--json").stdout)
    assert [one["status"] for one in listed] == ["Completed", "Completed"]


def test_the_demo_that_fails_is_not_a_success(tmp_path: Path) -> None:
    """A demo with a model that cannot be used says so and does not exit with 0."""
    done = cli(tmp_path, "demo", "--model", "scripted:nothing")
    assert done.returncode == 2
    assert "There is no script 'nothing'. Scripts: hello." in done.stderr
    assert "Success=True" not in done.stdout
