"""The command line as people start it: real processes, their words and their exit codes."""

import json
import resource
import signal
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx2
import pytest
import typer.main

from orchestrator.adapters.store.file_lock import FileLock
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.runtime.program import program
from orchestrator.runtime.settings import Settings
from orchestrator.terminal.cli import commands
from tests import forked
from tests.harness.commands import (
    SCRIPTED,
    Served,
    cli,
    environment,
    on_a_terminal,
    paused,
    refused,
    script,
    serving,
    talking,
    until,
)
from tests.harness.support import call, final, says
from tests.thinning import thinned
from tests.waiting import HANG_S

PROGRAM = b"print('Hello, world!')\n"
PROMPT = "[h]elp > "
HOSTILE = "\x1b[2Jgood\u202egnp\x9b\u2028next\x85last"
"""Clears the screen, turns the direction, and breaks the line in ways that only some programs see."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests that only talk to it."""
    home = tmp_path_factory.mktemp("home")
    with serving(home, home / "data") as served:
        yield served


# -- usage -------------------------------------------------------------------------------


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("",), 'Say what to do: cc-orchestrator run "…"'),
        ((" \n",), 'Say what to do: cc-orchestrator run "…"'),
        (("-",), 'Say what to do: cc-orchestrator run "…"'),
        (("x", "--max-steps", "0"), "--max-steps"),
        (("x", "--max-steps", "1001"), "--max-steps"),
        (("x", "--priority", "500"), "--priority"),
        (("x", "--priority", "-101"), "--priority"),
        (("x", "--max-tokens", "-1"), "--max-tokens"),
        (("x", "--max-tokens", "many"), "--max-tokens': 'many' must be a whole number."),
        (("x", "--max-wall", "604801"), "'604801' is longer than a week. Say at most 604800 seconds"),
        (("x", "--max-wall", "169h"), "'169h' is longer than a week."),
        (("x", "--max-wall", "\x1b[2J"), "'\\u{1b}[2J' is not a span of time."),
    ],
)
def test_what_cannot_be_asked_for_is_never_sent(tmp_path: Path, arguments: Sequence[str], words: str) -> None:
    """An empty task and a limit out of its bounds are usage (2), also where no server could be asked."""
    nowhere = {"CC_ORCHESTRATOR_TOKEN": "x", "CC_ORCHESTRATOR_URL": "http://127.0.0.1:1"}
    assert cli(tmp_path, "run", "x", "--max-steps", "1000", "--priority", "-100", **nowhere).returncode == 3
    done = cli(tmp_path, "run", *arguments, **nowhere)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (("--port", "abc"), "'--port': 'abc' must be a whole number."),
        (("--temperature", "warm"), "'--temperature': 'warm' must be a number."),
        (("--log-level", "loud"), "'--log-level': 'loud' is not one of 'debug', 'info', 'warning', 'error'."),
    ],
)
def test_a_value_that_is_of_another_kind_is_said_in_our_words(
    tmp_path: Path, option: Sequence[str], sentence: str
) -> None:
    """What cannot be read as a number or a choice is usage (2), in the words of the settings."""
    done = cli(tmp_path, "serve", *option)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Input should" not in done.stderr
    assert "Value error" not in done.stderr


def test_a_variable_that_only_looks_like_ours_is_named(tmp_path: Path) -> None:
    """`serve` does not start with a variable that means nothing; a client says so and goes on."""
    wrong = {"CC_ORCHESTRATOR_PROT": "1", "CC_ORCHESTRATOR_TOKEN": "x", "CC_ORCHESTRATOR_URL": "http://127.0.0.1:1"}
    said = "cc-orchestrator: The variable CC_ORCHESTRATOR_PROT is set, and there is no such setting. Did you mean "
    done = cli(tmp_path, "serve", "--port", "0", **wrong)
    assert (done.returncode, done.stderr.startswith(f"{said}CC_ORCHESTRATOR_PORT?"), done.stdout) == (2, True, "")
    client = cli(tmp_path, "tasks", **wrong)
    assert (client.returncode, client.stderr.startswith(said)) == (3, True)
    assert "No orchestrator answers at http://127.0.0.1:1" in client.stderr


GROUPS = (
    ("tasks", "show", "t-x"), ("computers", "show", "farm"), ("models", "list"), ("requests", "renew", "r"),
    ("grants", "list"), ("policy", "show"), ("prompt", "show"), ("people", "list"), ("token", "revoke", "x"),
    ("audit", "check"),
)  # fmt: skip


@pytest.mark.parametrize("group", thinned(GROUPS, 3), ids=" ".join)
def test_an_option_before_a_command_of_a_group_is_refused(tmp_path: Path, group: Sequence[str]) -> None:
    """The command would not know of it: of a server that was named there, or of JSON."""
    name, *rest = group
    for option in (["--json"], ["--url", "http://127.0.0.1:1"], ["--data-dir", str(tmp_path)]):
        done = cli(tmp_path, name, *option, *rest)
        assert (done.returncode, done.stdout) == (2, "")
        assert option[0] in done.stderr


def test_an_option_before_a_command_is_told_where_it_belongs(tmp_path: Path) -> None:
    done = cli(tmp_path, "models", "--ollama-url", "http://127.0.0.1:1", "pull", "tiny", "-y")
    refused(done, "--ollama-url stands before pull", "cc-orchestrator models pull --ollama-url …")
    done = cli(tmp_path, "tasks", "--limit", "3", "watch", "t-x")
    refused(done, "--limit stands before watch, where it does nothing.")


# -- help and starting -------------------------------------------------------------------


COMMANDS = (
    "serve", "demo", "run", "tasks", "computers", "people", "review", "tui", "answer", "pair", "stop", "cancel",
    "token", "audit", "requests", "grants", "policy", "simulate", "doctor", "models", "prompt", "screen", "type",
    "store",
)  # fmt: skip
BELOW = (
    ("tasks", "watch"), ("token", "revoke"), ("people", "add"), ("requests", "extend"), ("grants", "list"),
    ("policy", "check"), ("policy", "explain"), ("models", "pull"), ("store", "migrate"),
)  # fmt: skip
HEAVY = (
    "pydantic_ai", "uvicorn", "starlette", "websockets", "httpx2", "sqlite3", "prompt_toolkit", "ollama", "textual",
    "orchestrator.app", "orchestrator.core.text.redact", "orchestrator.client",
)  # fmt: skip


ALL_HELP = """
import contextlib, io, json, sys
from orchestrator.terminal.cli import main
every, heavy = json.loads(sys.argv[1])
told = []
for arguments in every:
    sys.argv[1:], said, code = arguments, io.StringIO(), None
    with contextlib.redirect_stdout(said):
        try:
            main()
        except SystemExit as end:
            code = end.code
    told.append({"said": said.getvalue(), "code": code, "heavy": [one for one in heavy if one in sys.modules]})
print(json.dumps(told))
"""
"""Each help in one process, and which of the heavy modules are imported after it."""


def _telling_which(modules: Sequence[str], home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A command to its end; the last line on standard error is which of the modules it has imported."""
    code = (
        "import sys\nfrom orchestrator.terminal.cli import main\n"
        "try:\n    main()\n"
        f"finally:\n    print([n for n in {modules!r} if n in sys.modules], file=sys.stderr)"
    )
    return _python(code, home, *arguments)


def _python(code: str, home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


def test_help_is_quick_and_loads_neither_models_nor_server(tmp_path: Path) -> None:
    """`--help` of the program and its commands imports no server, socket, model or store, and costs little."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = _telling_which(HEAVY, tmp_path, "--help")
    # Of the processor's time, since others may use it too; half a second is what it takes.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 2.0
    assert (done.returncode, done.stderr.strip()) == (0, "[]")
    assert [command for command in COMMANDS if f" {command} " not in done.stdout] == []
    every = [["--help"], *([*one.split(), "--help"] for one in (*COMMANDS, *map(" ".join, BELOW)))]
    all_of_them = _python(ALL_HELP, tmp_path, json.dumps([every, HEAVY]))
    assert (all_of_them.returncode, all_of_them.stderr) == (0, "")
    told = json.loads(all_of_them.stdout.splitlines()[-1])
    assert [one for one in told if one["code"] != 0 or one["heavy"]] == []
    assert all("Usage: " in one["said"] and "[[" not in one["said"] for one in told)
    cut = [line for one in told for line in one["said"].splitlines()[1:] if line.endswith("...")]
    assert cut == [], "a summary is cut"


def test_a_command_of_one_call_imports_no_items_and_no_socket(tmp_path: Path) -> None:
    """A list is one call over REST: the items' models and the reviewers' socket would double what its start takes."""
    heavy = tuple(name for name in HEAVY if name not in {"httpx2", "orchestrator.client"})
    (tmp_path / "admin.token").write_text("a-token")
    where = ("--url", "http://127.0.0.1:1", "--data-dir", str(tmp_path))
    done = _telling_which((*heavy, "orchestrator.core.task.facts", "orchestrator.client"), tmp_path, "tasks", *where)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (3, "['orchestrator.client']")


def test_help_on_a_narrow_terminal_breaks_no_word(tmp_path: Path) -> None:
    """At 60 columns no word of the help is cut, and no box stands around what is meant to be copied."""
    for command in ("run", "serve", "pair"):
        shown = cli(tmp_path, command, "--help", COLUMNS="60").stdout
        assert max(len(line) for line in shown.splitlines()) <= 60
        assert not {"│", "╭"} & set(shown)
        assert "…" not in shown
        assert "127.0.0.1:8765" in shown or command == "serve"


def test_every_setting_is_a_flag_with_its_meaning(tmp_path: Path) -> None:
    """`serve --help` has a flag for each setting but a secret, and says of it what the settings say."""
    shown = cli(tmp_path, "serve", "--help").stdout
    words = " ".join(shown.replace("│", " ").split())
    for name, setting in Settings.model_fields.items():
        if name == "oidc_client_secret":
            assert name.replace("_", "-") not in words
            continue
        assert f"--{name.replace('_', '-')} " in words
        assert str(setting.description).split(";")[0].rstrip(".") in words
    assert "0: no limit. In seconds." in words


def test_no_command_shows_what_there_is_and_the_next_step(tmp_path: Path) -> None:
    """Without a server it says how to start one; with one, what waits, and what to type next."""
    bare = cli(tmp_path, CC_ORCHESTRATOR_URL="http://127.0.0.1:1")
    assert (bare.returncode, bare.stdout) == (3, "")
    assert "Start one with `cc-orchestrator serve`" in bare.stderr
    with talking(tmp_path, tmp_path / "data") as server:
        bare = server.cli()
        assert bare.returncode == 0, bare.stderr
        assert "computers  0 of 0 online\nwaiting    0 to approve, 0 to answer\n" in bare.stdout
        assert " pair" in bare.stdout.partition("Next: ")[2].partition("\n")[0]
        assert server.cli("token", "computer", "farm").returncode == 0
        assert " doctor" in server.cli().stdout.partition("Next: ")[2].partition("\n")[0], "it is away"
        follower = server.start("run", script(says(call("ask_user", question="Which chest?")), final()))
        until(follower, "[QUESTION]")
        follower.kill()
        follower.communicate()
        asked = server.cli().stdout
        assert "waiting    0 to approve, 1 to answer\n" in asked
        assert " review" in asked.partition("Next: ")[2].partition("\n")[0]
        paused(server)
        assert "waiting    1 to approve, 1 to answer\n" in server.cli().stdout


def test_what_is_not_known_is_usage_and_the_nearest_is_named(tmp_path: Path) -> None:
    """An unknown command or option is exit code 2; what one may have meant is named."""
    for arguments in (("explode",), ("tasks", "--nope"), ("tasks", "explode"), ("run", "x", "--max-steps", "many")):
        assert cli(tmp_path, *arguments).returncode == 2
    assert "There is no command 'taks'. Did you mean tasks?" in cli(tmp_path, "taks").stderr
    before = cli(tmp_path, "--url", "http://127.0.0.1:1", "tasks")
    assert "Put what belongs to tasks behind it: cc-orchestrator tasks --url …" in before.stderr
    assert "Possible options: --computer" in cli(tmp_path, "run", "x", "--compter", "3").stderr


def test_the_habits_of_other_programs(tmp_path: Path) -> None:
    """`--version`, `-h` and the completion of the shell."""
    assert cli(tmp_path, "--version").stdout.startswith("cc-orchestrator ")
    for arguments in ((), ("tasks",), ("tasks", "watch")):
        assert cli(tmp_path, *arguments, "-h").stdout == cli(tmp_path, *arguments, "--help").stdout
    script = cli(tmp_path, "--show-completion", "bash")
    assert "_CC_ORCHESTRATOR_COMPLETE" in script.stdout, script.stderr


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    """The list imports no command, so its lines stand in a table."""
    group: Any = typer.main.get_command(commands.app)
    said = {name: group.get_command(None, name).get_short_help_str(200) for name in commands.COMMANDS}
    assert said == {name: row.help for name, row in commands.COMMANDS.items()}


def test_serve_says_where_and_leaves_its_token(served: Served) -> None:
    """`serve` prints `listening on URL` when it is ready, and its admin's token is in a file of mode 0600."""
    assert served.url.startswith("http://127.0.0.1:")
    token = served.data / "admin.token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert served.data.stat().st_mode & 0o777 == 0o700
    log = (served.home / "serve.log").read_text()
    assert token.read_text().strip() not in log
    for wanted in (
        str(token),
        f"export CC_ORCHESTRATOR_URL={served.url}",
        "cc-orchestrator pair",
        "cc-orchestrator run",
    ):
        assert wanted in log
    assert (served.data / "policy.toml").read_text().startswith("# What the model may do.")


def test_a_signal_stops_it_cleanly_and_it_starts_again(tmp_path: Path) -> None:
    """SIGTERM and SIGINT end `serve` with exit code 0; the store is free and the token still good."""
    tokens: list[str] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with serving(tmp_path, tmp_path / "data") as server:
            tokens.append((tmp_path / "data" / "admin.token").read_text())
            server.process.send_signal(number)
            assert server.process.wait(HANG_S) == 0
        assert "Traceback" not in (tmp_path / "serve.log").read_text()
    assert tokens[0] == tokens[1]


# -- what refuses to start -----------------------------------------------------------------


def test_a_server_that_no_computer_ever_reached_names_the_next_step(tmp_path: Path) -> None:
    """At each start, until one has connected."""
    data, log, said = (
        tmp_path / "data",
        tmp_path / "serve.log",
        f"No computer has connected yet: `{program()} simulate`",
    )
    with serving(tmp_path, data):
        assert log.read_text().count(said) == 1
    with serving(tmp_path, data) as server:
        assert log.read_text().count(said) == 2
        simulated = server.start("simulate", "--count", "1", "--dir", str(tmp_path / "disks"))
        until(simulated, "sim-1")
        simulated.send_signal(signal.SIGINT)
        simulated.communicate(timeout=HANG_S)
    with serving(tmp_path, data):
        assert log.read_text().count(said) == 2


def test_a_second_server_on_one_store_names_the_first(served: Served) -> None:
    """A second `serve` on one data directory is refused with the pid of the first, which goes on."""
    done = cli(served.home, "serve", *SCRIPTED, "--port", "0", "--data-dir", str(served.data))
    refused(done, f"is open in process {served.process.pid}.")
    assert served.cli("tasks").returncode == 0


def test_a_port_that_is_taken_is_a_sentence(tmp_path: Path) -> None:
    """A port in use is named with what to do, and nothing is left running."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = cli(tmp_path, "serve", *SCRIPTED, "--port", port, "--data-dir", str(tmp_path / "d"))
        unnamed = cli(tmp_path, "serve", "--port", port, "--data-dir", str(tmp_path / "d"), OLLAMA_HOST="127.0.0.1:1")
    refused(done, f"Port {port} of 127.0.0.1 cannot be used: Address already in use.", "--port")
    assert unnamed.stderr.endswith(done.stderr)
    assert "no model is named" not in unnamed.stderr, "that is of a server which runs"


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--port", "99999"), ("port must be at most 65535", "--port")),
        (("--port", "0", "--host", "0.0.0.0"), ("0.0.0.0 is not loopback", "tokens would travel in clear", "TLS")),
        (("--port", "0", "--store", "mysql://u:secret@h/x"), ("No store can be opened", "sqlite:///")),
    ],
)
def test_a_setting_that_cannot_be_is_a_sentence(tmp_path: Path, options: Sequence[str], words: Sequence[str]) -> None:
    """A bad port, a bind without TLS and an unknown store are refused in one sentence, exit code 2."""
    done = cli(tmp_path, "serve", *SCRIPTED, "--data-dir", str(tmp_path / "d"), *options)
    refused(done, *words)
    assert "secret" not in done.stderr


def test_a_broken_policy_names_file_rule_and_reason(tmp_path: Path) -> None:
    """A policy that cannot be used refuses the start and names the file, the rule and why."""
    policy = tmp_path / "mine.toml"
    policy.write_text('schema_version = 1\n[[rules]]\nid = "mine"\neffect = "maybe"\ntools = ["*"]\n')
    done = cli(tmp_path, "serve", *SCRIPTED, "--port", "0", "--data-dir", str(tmp_path / "d"), "--policy", str(policy))
    refused(done, str(policy), "rule 1 (mine)", "effect", "'allow', 'ask', 'hint' or 'deny'")


def test_a_used_directory_without_its_policy_does_not_start(tmp_path: Path) -> None:
    """Where a store is but no policy any more, nothing starts: the shipped one is not put in its place."""
    with serving(tmp_path, tmp_path / "data") as server:
        server.process.terminate()
        assert server.process.wait(HANG_S) == 0
    (tmp_path / "data" / "policy.toml").unlink()
    done = cli(tmp_path, "serve", *SCRIPTED, "--port", "0", "--data-dir", str(tmp_path / "data"))
    refused(done, str(tmp_path / "data" / "policy.toml"), "cannot be read")
    assert not (tmp_path / "data" / "policy.toml").exists()


# -- clients -----------------------------------------------------------------------------


def test_without_a_token_a_client_says_where_one_is_looked_for(served: Served, tmp_path: Path) -> None:
    """No token is usage (2): the variable, the file and what to do are named, also when the file is no text."""
    where = ("tasks", "--url", served.url, "--data-dir", str(tmp_path))
    refused(cli(tmp_path, *where), "CC_ORCHESTRATOR_TOKEN", str(tmp_path / "admin.token"), "cc-orchestrator serve")
    (tmp_path / "admin.token").write_bytes(b"\xff\xfe")
    refused(cli(tmp_path, *where), str(tmp_path / "admin.token"))


def test_a_missing_server_is_told_before_a_missing_token(tmp_path: Path) -> None:
    """A token is of no use without a server: the first thing to do is said first."""
    done = cli(tmp_path, "tasks", "--url", "http://127.0.0.1:1", "--data-dir", str(tmp_path))
    refused(done, "No orchestrator answers at http://127.0.0.1:1", "cc-orchestrator serve", code=3)
    assert "token" not in done.stderr


def test_where_nothing_listens_a_client_says_so(tmp_path: Path) -> None:
    """A server that is not there is exit code 3, with its address and what to start."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    done = cli(tmp_path, "review", CC_ORCHESTRATOR_TOKEN="x", CC_ORCHESTRATOR_URL=url)
    refused(done, f"No orchestrator answers at {url}", "cc-orchestrator serve", code=3)


def _http(line: str, body: bytes = b"", *headers: str) -> bytes:
    """One answer."""
    return "\r\n".join((f"HTTP/1.1 {line}", *headers, f"Content-Length: {len(body)}", "", "")).encode() + body


@contextmanager
def saying(answer: bytes) -> Iterator[str]:
    """The URL of something that answers every connection like this, and closes it."""

    class Says(socketserver.StreamRequestHandler):
        timeout = HANG_S

        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Says) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(HANG_S)


@pytest.mark.thinned(5)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (_http("502 Bad Gateway", b"<html>Bad Gateway</html>"), "answered 502: nothing answered behind it"),
        (_http("503 Service Unavailable", b""), "answered 503: nothing answered behind it"),
        (_http("200 OK", b"<html>hello</html>"), "answered 200 without JSON"),
        (_http("200 OK", b"[" * 100_000), "answered 200 without JSON"),
        (_http("200 OK", b"[]"), "answered 200 with JSON that is not an object"),
        (_http("500 Oh", b"null"), "answered 500 with JSON that is not an object"),
        (_http("200 OK", b'{"status": "ok"}'), "answer lacks 'tasks'"),
        (_http("200 OK", b'{"tasks": [{"task_id": "t-1"}]}'), "answer lacks 'status'"),
        (_http("403 Forbidden", b"{}"), "answered 403 and does not say why"),
        (_http("302 Found", b"", "Location: /login"), "answered 302, which leads elsewhere"),
        (_http("200 OK", b"abcd", "Content-Encoding: gzip"), "No orchestrator answers at"),
        (_http("200 OK", b'{"tasks": []}')[:-4], "it ended the connection"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it ended the connection"),
        (b"", "it ended the connection"),
    ],
)
def test_what_is_no_orchestrator_is_told_as_a_sentence(tmp_path: Path, answer: bytes, words: str) -> None:
    """A proxy's page, another program, an answer that ends in the middle: exit code 3, and no trace."""
    with saying(answer) as url:
        refused(cli(tmp_path, "tasks", CC_ORCHESTRATOR_TOKEN="x", CC_ORCHESTRATOR_URL=url), words, code=3)


def test_a_channel_that_does_not_open_is_told_as_a_sentence(tmp_path: Path) -> None:
    """Something that answers the handshake with a page is no orchestrator either."""
    with saying(_http("200 OK", b"{}")) as url:
        done = cli(tmp_path, "review", CC_ORCHESTRATOR_TOKEN="x", CC_ORCHESTRATOR_URL=url)
        refused(done, "answered 200 and opened no channel. Is it cc-orchestrator?", code=3)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("arguments", [("run", "caf\udce9"), ("cancel", "\udce9"), ("tasks", "--status", "\udce9")])
def test_what_is_no_text_is_told_as_a_sentence(served: Served, arguments: tuple[str, ...]) -> None:
    """Bytes of another encoding, as an old terminal sends them, are no text: nothing is sent."""
    refused(served.cli(*arguments), "The typed or piped input is not text in UTF-8.")


def test_a_server_that_refuses_is_told_in_its_words(served: Served) -> None:
    """A wrong token, an unknown model and an unknown task are the server's own sentences, exit code 3."""
    wrong = cli(served.home, "tasks", CC_ORCHESTRATOR_TOKEN="nonsense", CC_ORCHESTRATOR_URL=served.url)
    refused(wrong, "This token is not known or was revoked.", code=3)
    refused(served.cli("run", "x", "--model", "scripted:nothing"), "There is no script 'nothing'", "hello", code=4)
    refused(served.cli("cancel", "t-none"), "There is no task 't-none'", code=4)


def test_tasks_and_computers_are_listed(served: Served) -> None:
    """A task that fails ends `run` with 1 and is listed; a computer's token is printed once, and revoked."""
    ran = served.cli("run", "nothing to work on", "--max-steps", "1")
    assert ran.returncode == 1
    assert ran.stdout.startswith("task t-")
    assert "[REFUSED] The model was told: This task has no computer" in ran.stdout
    assert ran.stdout.rstrip().endswith("[FINAL] Success=False, Message=The limit of 1 step was reached.")
    listed = json.loads(served.cli("tasks", "--json").stdout)
    assert listed[0]["prompt"] == "nothing to work on"
    assert listed[0]["status"] == "Failed"
    assert served.cli("token", "computer", "farm").stdout.startswith("ccc_")
    assert "farm      away" in served.cli("computers").stdout
    for name in ("sim-10", "sim-2"):
        served.cli("token", "computer", name)
    names = [one["computer"] for one in json.loads(served.cli("computers", "--json").stdout)]
    assert names == ["farm", "sim-2", "sim-10"], "as people count"
    for name in names:
        assert served.cli("token", "revoke", "computer", name).stdout == "revoked 1\n"


def test_a_task_is_shown_and_listed(served: Served) -> None:
    """`tasks` is a table or JSON; `tasks show` has details, the log and the end; an unknown task is a sentence."""
    task_id = served.cli("run", "first\nsecond", "--max-steps", "1", "--detach").stdout.split()[1]
    assert served.cli("tasks", "watch", task_id).returncode == 1
    head, first, *_ = served.cli("tasks", "--limit", "1").stdout.splitlines()
    assert head.split() == ["TASK", "STATUS", "REASON", "COMPUTERS", "AGE", "PROMPT"]
    assert first.startswith(f"{task_id}  Failed")
    assert first.endswith("first\\nsecond")
    assert len(json.loads(served.cli("tasks", "--json", "--limit", "1").stdout)) == 1
    shown = served.cli("tasks", "show", task_id).stdout
    for wanted in (f"task      {task_id}", "status    Failed (", "computers none", "[STEP 1]", "[FINAL] Success=False"):
        assert wanted in shown
    assert json.loads(served.cli("tasks", "show", task_id, "--json").stdout)["task_id"] == task_id
    for command in (("tasks", "show"), ("tasks", "watch"), ("cancel",), ("stop",)):
        refused(served.cli(*command, "t-none"), "There is no task 't-none'", code=4)
    refused(served.cli("tasks", "--status", "Nonsense"), "There is no status 'Nonsense'", "Completed")
    refused(served.cli("run"), "There is no prompt", "run -", code=2)
    refused(served.cli("run", "x", "--max-wall", "soon"), "'soon' is not a span of time", "10m", code=2)
    nothing = (
        f"nothing now: its question was answered already, or it has ended. See `cc-orchestrator tasks show {task_id}`"
    )
    refused(served.cli("answer", task_id, "left"), nothing, code=2)
    refused(served.cli("stop"), "Say what to stop", "--all", code=2)
    elsewhere = cli(served.home, "tasks", "--url", "nonsense", "--data-dir", str(served.data))
    refused(elsewhere, "'nonsense' is not an address of a server", "http://127.0.0.1:8765", code=2)


def test_what_others_wrote_is_cleaned(served: Served) -> None:
    """A prompt that would move the cursor is shown as escapes everywhere; as JSON it comes back whole, in ASCII."""
    ran = served.cli("run", "-", "--max-steps", "1", "--json", typed=HOSTILE)
    items = [json.loads(line) for line in ran.stdout.splitlines()]
    assert items[0]["fact"]["prompt"] == HOSTILE
    task_id = items[0]["task_id"]
    for command in (("tasks",), ("tasks", "show", task_id), ("tasks", "--json"), ("tasks", "watch", task_id, "--json")):
        text = served.cli(*command).stdout
        assert "good" in text
        assert not [char for char in text if char in HOSTILE and not (char.isascii() and char.isprintable())]
    refused(served.cli("cancel", "t-\x1b[2J"), "There is no task 't-\\x1b[2J'", code=4)


def test_a_followed_task_as_json_lines(served: Served) -> None:
    """`run --json` is one line for each item, in order, and nothing else; the exit code is the task's."""
    ran = served.cli("run", "nothing to work on", "--max-steps", "1", "--json")
    assert ran.returncode == 1
    items = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [one["version"] for one in items] == list(range(1, len(items) + 1))
    assert [items[0]["fact"]["kind"], items[-1]["fact"]["kind"]] == ["task_submitted", "task_ended"]
    detached = json.loads(served.cli("run", "x", "--detach", "--wait-for-model", "--json").stdout)
    assert set(detached) == {"task_id", "status"}
    assert json.loads(served.cli("tasks", "show", detached["task_id"], "--json").stdout)["wait_for_model"] is True


def test_a_session_that_is_new_is_said_to_be(served: Served) -> None:
    """The first task of a named session knows nothing earlier, and `run` says so beside its output; later no more."""
    start = ("run", "x", "--max-steps", "1", "--session", "castle", "--detach")
    said = "session castle is new: nothing earlier is told to the model\n"
    first, second = served.cli(*start), served.cli(*start)
    assert (first.stderr, second.stderr) == (said, "")
    assert first.stdout.startswith("task t-")
    assert "is new" not in served.cli("run", "x", "--max-steps", "1", "--detach").stderr


@pytest.mark.deep
def test_people_are_added_listed_and_revoked(served: Served) -> None:
    """`people add` prints a token that works, once; `list` names roles, never tokens; `revoke` ends it."""
    token = served.cli("people", "add", "bob", "--role", "reviewer").stdout.strip()
    assert cli(served.home, "tasks", CC_ORCHESTRATOR_TOKEN=token, CC_ORCHESTRATOR_URL=served.url).returncode == 0
    listed = served.cli("people", "list").stdout
    (line,) = [one.split() for one in listed.splitlines() if " bob " in one]
    assert (line[:3], "good" in line) == (["person", "bob", "reviewer"], True)
    assert token not in listed
    assert served.cli("people", "revoke", "bob").stdout == "revoked 1\n"
    refused(served.cli("people", "revoke", "bob"), "There is no token of person 'bob'", code=4)
    assert {one["name"]: one["revoked"] for one in json.loads(served.cli("people", "list", "--json").stdout)}["bob"]
    denied = cli(served.home, "tasks", CC_ORCHESTRATOR_TOKEN=token, CC_ORCHESTRATOR_URL=served.url)
    refused(denied, "not known or was revoked", code=3)


def test_a_line_over_plain_http_says_so(tmp_path: Path) -> None:
    """On standard error, in one sentence, with and without `--pin`; nobody listens where the address says."""
    with serving(tmp_path, tmp_path / "data", "--public-url", "http://192.168.0.12:8765") as served:
        for options in ((), ("--pin",)):
            told = served.cli("pair", "--no-wait", *options)
            said = [line for line in told.stderr.splitlines() if "plain http" in line]
            assert len(said) == 1
            assert "cc-orchestrator pair --pin" in said[0]
            assert "plain http" not in told.stdout


def test_pair_prints_one_line_and_waits_for_the_computer(served: Served) -> None:
    """`pair` prints on stdout just the line to type; with --wait it ends when that computer has connected."""
    made = served.cli("pair", "quarry", "--json")
    assert set(json.loads(made.stdout)) >= {"code", "expires_at", "computer", "line", "url"}
    plain = served.cli("pair", "quarry", "--no-wait")
    assert "plain http" not in plain.stderr, "the server is on this machine"
    pinned = served.cli("pair", "quarry", "--pin", "--no-wait")
    (typed,) = pinned.stdout.splitlines()
    assert len(typed) <= 512
    digest = sha256_hex(httpx2.get(f"{served.url}/install", trust_env=False).content)
    assert digest in typed
    assert "Type `lua` on the computer, and at its prompt this" in pinned.stderr
    assert digest in pinned.stderr
    waiting = served.start("pair", "barn", "--wait")
    line = until(waiting, "wget run ")
    assert line.splitlines() == [line.strip()]
    token = served.cli("token", "computer", "barn").stdout.strip()
    url = f"ws{served.url.removeprefix('http')}/computer"
    disk = served.home / "barn"
    disk.mkdir()
    command = [sys.executable, "-m", "cc_client.simulator", "--url", url, "--token", token, "--disk", str(disk)]
    computer = forked.start(
        [*command, "--id", "7"], environment(served.home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _, errors = waiting.communicate(timeout=HANG_S)
    finally:
        computer.kill()
        computer.wait()
    assert waiting.returncode == 0, errors
    assert "Connected: computer barn." in errors


@pytest.mark.deep
def test_pair_says_what_becomes_of_the_computer_that_has_the_name(served: Served) -> None:
    """A name that is taken is said to be before the line is printed, with what happens to its present holder."""
    assert "Computer mill" not in served.cli("pair", "mill", "--no-wait").stderr
    token = served.cli("token", "computer", "mill").stdout.strip()
    away = served.cli("pair", "mill", "--no-wait")
    assert "Computer mill is known already. The computer on which the line is typed takes that name; " in away.stderr
    assert len(away.stdout.splitlines()) == 1
    url = f"ws{served.url.removeprefix('http')}/computer"
    with simulated(served, url, token) as told:
        assert told.readline().startswith("computer ")
        taken = served.cli("pair", "mill", "--json")
    assert "Computer mill is connected now. The computer on which the line is typed takes that name; " in taken.stderr
    assert "the present one is disconnected and needs a new line of its own." in taken.stderr
    assert json.loads(taken.stdout)["computer"] == "mill"


def test_ctrl_c_leaves_the_shell_a_line_of_its_own(served: Served) -> None:
    """On a terminal, which shows ^C, the line is ended; the exit code is 130."""
    with on_a_terminal(served.home, "pair", "--wait", *served.where) as terminal:
        terminal.expect("the line stays good.\r\n")
        terminal.interrupt()
        assert terminal.end() == 130, terminal.text
    assert terminal.text.endswith("good.\n\n")


@contextmanager
def simulated(served: Served, url: str, token: str) -> Iterator[IO[str]]:
    """A simulated computer that runs, and what it says."""
    disk = served.home / "disk"
    disk.mkdir()
    command = [sys.executable, "-m", "cc_client.simulator", "--url", url, "--token", token, "--disk", str(disk)]
    process = forked.start(
        [*command, "--id", "8"],
        environment(served.home),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_review_without_a_terminal_decides_nothing(tmp_path: Path) -> None:
    """Without a terminal `review` shows what waits, says that nothing was decided, and ends with 1; else with 0."""
    with talking(tmp_path, tmp_path / "data") as server:
        nothing = server.cli("review")
        assert (nothing.returncode, "Nothing waits for you." in nothing.stdout) == (0, True)
        task_id = paused(server)
        done = server.cli("review")
        assert done.returncode == 1
        assert "local_write on this host" in done.stdout
        assert "There is no terminal: nothing was decided, 1 still waits." in done.stderr
        assert json.loads(server.cli("tasks", "show", task_id, "--json").stdout)["status"] == "Paused"


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("typed", "code"), [("\x04", 1), ("", 130)])
def test_leaving_a_review_says_what_still_waits(tmp_path: Path, typed: str, code: int) -> None:
    """Ctrl-D (1) and Ctrl-C (130) at the prompt decide nothing, and say how much still waits."""
    with talking(tmp_path, tmp_path / "data") as server:
        task_id = paused(server)
        with on_a_terminal(tmp_path, "review", *server.where) as terminal:
            terminal.expect(PROMPT)
            if typed:
                terminal.type(typed)
            else:
                terminal.interrupt()
            assert terminal.end() == code, terminal.text
        assert "You left: nothing more was decided; 1 still waits." in terminal.text
        assert json.loads(server.cli("tasks", "show", task_id, "--json").stdout)["status"] == "Paused"


def test_stop_ends_one_task_or_all(tmp_path: Path) -> None:
    """`stop TASK` is `cancel`, `stop --all` ends what runs and names it; the reason is kept with the task."""
    with talking(tmp_path, tmp_path / "data") as server:
        first, second, third = (paused(server) for _ in range(3))
        assert server.cli("stop", first).stdout == f"task {first} is Canceled\n"
        stopped = server.cli("stop", "--all", "--reason", "dinner").stdout.splitlines()
        assert sorted(stopped) == sorted([f"stopped {second}", f"stopped {third}"])
        assert "dinner" in server.cli("tasks", "show", third).stdout
        assert "Nothing was running." in server.cli("stop", "--all").stderr


# -- the demo ----------------------------------------------------------------------------


def test_the_demo_with_a_person_at_the_terminal(tmp_path: Path) -> None:
    """A person types `a` twice: the diff is shown first, then the very bytes are on the disk, and exit is 0."""
    directory = tmp_path / "kept"
    with on_a_terminal(tmp_path, "demo", "--dir", str(directory)) as terminal:
        for typed in ("what\n", "a\n", "a\n"):
            terminal.expect(PROMPT)
            terminal.type(typed)
        code, text = terminal.end(), terminal.text
    assert code == 0, text
    assert "Traceback" not in text
    order = [
        "[STEP 1]",
        "[EXPLANATION] I write the program first.",
        "[TOOL] cc_write({",
        "cc_write on computer 0",
        "  │ +print('Hello, world!')",
        "Type one of a, e, r, p, g, d, x, n, h; nothing was decided.",
        "[TOOL_RESULT] Wrote 23 bytes to hello.lua",
        "[STEP 2]",
        "[TOOL] cc_run_program({'path': 'hello.lua'})",
        f"found: hello.lua {sha256_hex(PROGRAM)[:12]}",
        "[TOOL_RESULT] Program hello.lua executed successfully.\n    Output:\n    Hello, world!",
        "[FINAL] Success=True, Message=",
        "Next, each in a terminal of its own:",
        " serve --model ollama:qwen2.5-coder ",
    ]
    places = [text.find(one) for one in order]
    assert -1 not in places, [one for one, place in zip(order, places, strict=True) if place < 0]
    assert places == sorted(places)
    assert (directory / "computers" / "0" / "hello.lua").read_bytes() == PROGRAM
    assert {"orchestrator.db", "admin.token", "policy.toml"} <= {path.name for path in directory.iterdir()}


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("typed", "code"), [("r\n", 1), *(pytest.param(typed, 130, marks=pytest.mark.deep) for typed in ("\x04", ""))]
)
def test_the_demo_rejected_or_left(tmp_path: Path, typed: str, code: int) -> None:
    """Rejecting ends with 1, Ctrl-D and Ctrl-C leave with 130: nothing is written, and the store is let go."""
    directory = tmp_path / "kept"
    with on_a_terminal(tmp_path, "demo", "--dir", str(directory)) as terminal:
        terminal.expect(PROMPT)
        if typed:
            terminal.type(typed)
        else:
            terminal.interrupt()
        if code == 1:
            terminal.expect("Reason (may be empty): ")
            terminal.type("no\n")
            terminal.expect("(Enter: c) > ")
            terminal.type("s\n")
        assert terminal.end() == code, terminal.text
    assert "Traceback" not in terminal.text
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


@pytest.mark.deep
def test_the_demo_tells_its_server_which_ollama_is_named(tmp_path: Path) -> None:
    """`demo --ollama-url` reaches its server: an address that is none is refused."""
    directory = tmp_path / "kept"
    done = cli(tmp_path, "demo", "--model", "ollama:x", "--ollama-url", "a b", "--dir", str(directory))
    assert done.returncode == 2
    assert "The setting ollama_url does not fit" in done.stderr
    assert f"Look at {directory / 'server.log'}." in done.stderr


@pytest.mark.deep
def test_the_demo_names_an_ollama_that_does_not_answer(tmp_path: Path) -> None:
    """The one that `--ollama-url` says."""
    nobody = ("--ollama-url", "http://127.0.0.1:1", "--dir", str(tmp_path / "kept"))
    ended = cli(tmp_path, "demo", "--model", "ollama:x", *nobody, CC_ORCHESTRATOR_MODEL_WAIT_S="0")
    assert ended.returncode == 1
    assert "Ollama is not running at http://127.0.0.1:1." in ended.stdout


def test_the_demo_in_a_directory_that_is_none_is_a_sentence(tmp_path: Path) -> None:
    """`demo --dir` of a file is refused with what to do."""
    (tmp_path / "file").write_text("x")
    refused(cli(tmp_path, "demo", "--dir", str(tmp_path / "file")), "cannot be made", "--dir")


@pytest.mark.deep
def test_the_demo_that_fails_is_not_a_success(tmp_path: Path) -> None:
    """A demo with a model that cannot be used says so and does not exit with 0."""
    done = cli(tmp_path, "demo", "--model", "scripted:nothing")
    assert done.returncode == 2
    assert "There is no script 'nothing'. There are scripted:hello" in done.stderr
    assert "With --dir its whole log is kept." in done.stderr
    assert "/server.log" not in done.stderr, "it is gone with its directory"
    assert "Success=True" not in done.stdout
