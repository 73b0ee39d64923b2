"""What the command line says to wrong input: each answer tells what to type next, and what is not there is code 4.

The commands are those of the command line itself, so a new one that names a thing is in here by itself.
"""

import shlex
import subprocess
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from orchestrator.terminal.cli.commands import COMMANDS, _loaded
from tests.harness.commands import CLI, SCRIPTED, Served, cli, environment, script, talking
from tests.harness.support import final
from tests.waiting import HANG_S

USAGE, SERVER, MISSING = 2, 3, 4
HELP: Final = "Try 'cc-orchestrator"
"""How the usage ends that stands above a fault of the command line itself."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all of these; nothing of them reaches a model."""
    home = tmp_path_factory.mktemp("home")
    (home / "odd.toml").write_text("promt = 'x'\n", "utf-8")
    (home / "broken.toml").write_text("= =\n", "utf-8")
    (home / "binary").write_bytes(b"\x7fELF\xd0")
    (home / "directory").mkdir()
    (home / "directory" / "a.lua").write_text("", "utf-8")
    with talking(home, home / "data") as opened:
        yield opened


# -- what is not there -------------------------------------------------------------------

NOT_THERE: Final = {
    "TASK": "t-000000000000",
    "REQUEST": "r-none",
    "GRANT": "g-none",
    "COMPUTER": "nobody",
    "BACKUP": "b-000000000000",
    "NAME": "nobody",
    "PERSON": "nobody",
    "PERSON…": "nobody",
    "GROUP": "nowhere",
    "FILE": "none.toml",
    "KIND": "person",
    "RULE": "nobody",
    "TEXT": "x",
}
"""By what an argument is called: the name of something that is not there."""
NEEDS: Final = {
    ("requests", "extend"): ("--for", "10m"),
    ("people", "away"): ("--to", "admin", "--for", "1h"),
    ("review",): ("--approve", "--yes"),
    ("class", "export"): ("--out", "class.zip"),
}
"""Options without which a command does not look."""
MAKES: Final = {
    *[("run",), ("pair",), ("people", "add"), ("token", "computer"), ("token", "person"), ("store", "export")],
    # A person that is not there is named, not the group, which is made.
    ("groups", "add"),
    ("notifications", "add"),
    # Ollama is asked, which is not here.
    *[("models", "show"), ("models", "pull")],
    # The stores of the cells are asked, and there are none.
    ("cells", "move"),
    # A dry run: that there is no such tool is its answer.
    ("policy", "explain"),
}
"""Commands whose argument is no thing that has to be there."""


def with_arguments() -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Each command that takes arguments, and what these are called."""

    def walk(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], list[str]]]:
        for name, one in getattr(command, "commands", {}).items():
            yield from walk((*path, name), one)
        named = [str(one.metavar) for one in command.params if one.param_type_name == "argument"]
        if named:
            yield path, named

    for name in COMMANDS:
        yield from walk((name,), _loaded(name))


NAMING: Final = [(path, named) for path, named in with_arguments() if path not in MAKES]
OTHERS: Final = [
    ("run", "x", "--computer", "nobody"),
    ("run", "x", "--rehearse", "--computer", "nobody"),
    ("run", "--file", "none.toml"),
    ("policy", "explain", "cc_read", "path=a", "--policy", "none.toml"),
    ("audit", "show", "--file", "none.toml"),
    ("audit", "verify", "--heads", "none.heads"),
    ("simulate", "--world", "none.json"),
    ("eval", "--task", "none"),
    ("eval", "--tasks", "none.toml"),
    ("undo", "t-000000000000", "--dry-run"),
    ("rehearsal", "t-000000000000", "--apply"),
    ("restore", "nobody", "--dry-run"),
    ("screen", "nobody", "--follow"),
]
"""Things that an option names, and the other ways of a command."""


def test_the_list_is_of_this_command_line() -> None:
    """A command with an argument that nobody has placed fails here."""
    assert {path for path, _ in with_arguments()} >= MAKES
    assert len(NAMING) >= 28
    assert {name for _, named in NAMING for name in named} <= NOT_THERE.keys()


@pytest.mark.parametrize(("path", "named"), NAMING, ids=[" ".join(path) for path, _ in NAMING])
def test_what_is_not_there_is_code_4_in_every_command(served: Served, path: tuple[str, ...], named: list[str]) -> None:
    """It is named, and so is the command that lists what there is."""
    told = one_sentence(typed(served, *path, *[NOT_THERE[name] for name in named], *NEEDS.get(path, ())), MISSING)
    assert "`cc-orchestrator " in told or "Name a" in told, told
    if set(named) & {"REQUEST", "GRANT"}:
        assert NOT_THERE[named[0]] in told


@pytest.mark.parametrize("arguments", OTHERS, ids=" ".join)
def test_what_an_option_names_and_is_not_there_is_code_4(served: Served, arguments: tuple[str, ...]) -> None:
    one_sentence(typed(served, *arguments), MISSING)


# -- other wrong input -------------------------------------------------------------------

WRONG: Final[list[tuple[tuple[str, ...], int, str, str]]] = [
    # commands and options that there are not
    (("explode",), USAGE, "There is no command 'explode'", HELP),
    (("taks",), USAGE, "There is no command 'taks'", "Did you mean tasks?"),
    (("tasks", "shwo", "t-1"), USAGE, "No such command 'shwo'", "Did you mean 'show'?"),
    (("token", "robot", "x"), USAGE, "No such command 'robot'", "The commands there are computer, person, revoke."),
    (("tasks", "list"), USAGE, "No such command 'list'", "`cc-orchestrator tasks` alone lists them."),
    (("computers", "list"), USAGE, "No such command 'list'", "`cc-orchestrator computers` alone lists them."),
    (("tasks", "--nope"), USAGE, "No such option: --nope", HELP),
    (("run", "x", "--compter", "3"), USAGE, "No such option: --compter", "Possible options: --computer"),
    (("undo", "t-1", "--dryrun"), USAGE, "No such option: --dryrun", "Possible options: --dry-run"),
    (("--url", "http://127.0.0.1:1", "tasks"), USAGE, "--url stands before tasks", "cc-orchestrator tasks --url …"),
    # arguments that are missing, or too many
    (("tasks", "show"), USAGE, "Missing argument 'TASK'", "as `tasks` lists it"),
    (("answer",), USAGE, "Missing argument 'TASK'", "as `tasks` lists it"),
    (("answer", "t-1"), USAGE, "Missing argument 'TEXT'", "or the number of a choice"),
    (("screen",), USAGE, "Missing argument 'COMPUTER'", "As `computers` lists it"),
    (("grants", "revoke"), USAGE, "Missing argument 'GRANT'", "as `grants list` shows it"),
    (("requests", "extend", "r-1"), USAGE, "Missing option '--for'", "such as 90 (seconds), 30m or 1h"),
    (("policy", "apply"), USAGE, "Missing argument 'FILE'", "`policy check FILE`"),
    (("run", "fix", "my", "farm"), USAGE, "unexpected extra argument(s) (my farm)", "in quotes"),
    (("run",), USAGE, "There is no prompt", 'cc-orchestrator run "…"'),
    (("run", ""), USAGE, "The task is empty", 'cc-orchestrator run "…"'),
    (("run", "--rehearse"), USAGE, "none is named", 'cc-orchestrator run "…" --rehearse'),
    (("stop",), USAGE, "Say what to stop", "--all"),
    (("stop", "t-1", "--all"), USAGE, "Say what to stop", "--all"),
    (("review", "r-1"), USAGE, "It is not said which requests", "review --approve REQUEST"),
    (("review", "--approve", "r-1"), USAGE, "This needs a yes", "--yes"),
    (("review", "--approve", "a", "--reject", "b"), USAGE, "are three commands", "Say one of them"),
    (("type", "farm"), USAGE, "There is nothing to type", "--enter"),
    # values that do not fit
    (("tasks", "--limit", "many"), USAGE, "'many' must be a whole number", HELP),
    (("tasks", "--limit", "0"), USAGE, "'0' must be at least 1", HELP),
    (("tasks", "--status", "Nonsense"), USAGE, "There is no status 'Nonsense'", "One of Queued"),
    (("run", "x", "--max-wall", "soon"), USAGE, "'soon' is not a span of time", "10m"),
    (("run", "x", "--max-steps", "0"), USAGE, "'0' must be at least 1", HELP),
    (("run", "x", "--on-reject", "maybe"), USAGE, "'maybe' is not one of", "'continue'"),
    (("run", "x", "--model", " "), USAGE, "--model names no model", "`cc-orchestrator models list`"),
    (("run", "x" * 100_001), USAGE, "The task has 100,001 characters", "put a long text into a file"),
    (("run", "x", "--check", "dances farm.lua"), USAGE, "'dances' is not a kind of check", "runs PROGRAM"),
    (("run", "x", "--rehearse"), USAGE, "a copy of one computer", "--computer NAME"),
    (("run", "--file", "odd.toml"), USAGE, "promt is not known", "Its keys are: prompt"),
    (("run", "--file", "broken.toml"), USAGE, "broken.toml is not TOML", "Fix the file"),
    (("undo", "t-1", "--on-conflict", "maybe"), USAGE, "'maybe' is not one of", "'restore'"),
    (("people", "add", "ann", "--role", "king"), USAGE, "The roles do not fit", "submitter, reviewer, admin"),
    (("people", "add", "a b"), USAGE, "The name 'a b' does not fit", "letters, digits"),
    (("people", "add", ""), USAGE, "The name '' does not fit", "letters, digits"),
    (("pair", "a/b"), USAGE, "The name 'a/b' does not fit", "letters, digits"),
    (("token", "revoke", "robot", "x"), MISSING, "no token of robot 'x'", "person, computer and agent"),
    (("audit", "show", "--since", "yesterday"), USAGE, "not 'yesterday'", "2026-11-20"),
    (("audit", "export", "--out", "no/such/dir"), USAGE, "cannot be written", "Name a new file"),
    (("policy", "explain", "cc_read", "path"), USAGE, "'path' is not a KEY=VALUE", "path=startup.lua"),
    (("policy", "explain", "cc_read", "--args", "{"), USAGE, "--args is not JSON", "Say it like"),
    (("policy", "apply", "broken.toml"), USAGE, "'broken.toml' is not TOML", "Fix it"),
    (("policy", "check", "broken.toml"), 1, "broken.toml is not TOML", "Fix the file"),
    (("policy", "check", "directory"), 1, "directory cannot be read: Is a directory", "It must be a file in TOML"),
    (("policy", "check", "binary"), 1, "its byte 4 is not text in UTF-8", "It must be a file in TOML"),
    (("requests", "comment", "r-1", " "), USAGE, "A comment needs at least one character", "Say it like"),
    *[
        (("requests", verb, odd, *more), MISSING, f"There is no request '{odd}'", "`cc-orchestrator review --list`")
        for odd in ("../x", "..", "")
        for verb, *more in (("release",), ("claim",), ("comment", "x"), ("escalate",), ("extend", "--for", "9"))
    ],
    (("review", "--approve", "--yes", "../x"), MISSING, "There is no request '../x'", "review --list"),
    (("grants", "revoke", "../x"), MISSING, "There is no grant '../x'", "`cc-orchestrator grants list`"),
    *[
        ((*command, odd), MISSING, f"Nothing here is called '{odd}'", "Names have letters")
        for command in (("computers", "show"), ("groups", "delete"), ("notifications", "remove"), ("people", "revoke"))
        for odd in ("../x", "..")
    ],
    (("people", "away", "admin", "--to", "x", "--for", "5000h"), USAGE, "longer than a week", "604800 seconds, which"),
    (("people", "away", "admin", "--to", "x", "--for", "0"), USAGE, "'0' is no time at all", "10m or 1h30m"),
    (("requests", "extend", "r-1", "--for", "0s"), USAGE, "'0s' is no time at all", "10m or 1h30m"),
    (("prune", "--older-than", "soon"), USAGE, "'soon' must be a number", HELP),
    (("store", "check", "--store", "odd://x"), USAGE, "scheme 'odd'", "sqlite:///"),
    (("store", "import", "odd.toml"), USAGE, "is not a dump of a store", "store export"),
    (("simulate", "--name", "a b"), USAGE, "The name 'a b-1' does not fit", "letters, digits"),
    (("simulate", "--family", "dragon"), USAGE, "There is no family 'dragon'", "turtle"),
    (("simulate", "--name", "new", "--dir", "/proc/x"), USAGE, "cannot be used: No such file or directory", "--dir"),
    (("simulate", "--files", "directory", "--dir", "d" * 300), USAGE, "File name too long", "--files and --dir"),
    (("serve", "--data-dir", "/proc/x"), USAGE, "cannot be used: No such file or directory", "--data-dir"),
    (("serve", "--port", "99999"), USAGE, "port must be at most 65535", "--port"),
    # the server
    (("tasks", "--url", "nonsense"), USAGE, "is not an address of a server", "http://127.0.0.1:8765"),
    (("tasks", "--url", "http://127.0.0.1:99999"), USAGE, "there is no port 99999", "http://127.0.0.1:8765"),
    (("tasks", "--url", "http://127.0.0.1:1"), SERVER, ":1: Connection refused.", "cc-orchestrator serve"),
    (("tasks", "--data-dir", "nowhere"), USAGE, "There is no token", "--data-dir"),
    (("tui",), USAGE, "There is no terminal", "`tasks watch`"),
]
"""The typed words, the exit code, what is said to be wrong, and what to type next."""


@pytest.mark.parametrize(("arguments", "code", "wrong", "then"), WRONG, ids=[" ".join(one[0]) for one in WRONG])
def test_wrong_input_is_told_what_to_type_next(
    served: Served, arguments: tuple[str, ...], code: int, wrong: str, then: str
) -> None:
    done = typed(served, *arguments)
    assert done.returncode == code, done.stderr
    assert wrong in done.stderr
    assert then in done.stderr


@pytest.mark.parametrize(
    ("token", "wrong", "then"),
    [
        ("nonsense", "not known or was revoked", "Ask an admin for a new one"),
        (" \n", "There is no token", "--data-dir"),
    ],
)
def test_a_token_that_is_none_is_told_what_to_do(served: Served, token: str, wrong: str, then: str) -> None:
    done = cli(served.home, "tasks", CC_ORCHESTRATOR_URL=served.url, CC_ORCHESTRATOR_TOKEN=token)
    assert done.returncode == (SERVER if token.strip() else USAGE)
    assert (wrong in done.stderr, then in done.stderr) == (True, True), done.stderr


def test_a_server_that_is_another_program_is_code_3(served: Served, tmp_path: Path) -> None:
    """It answers 404 to everything, which says nothing of a task."""
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        told = one_sentence(typed(served, "tasks", "--url", f"http://127.0.0.1:{other.server_port}"), SERVER)
        other.shutdown()
    assert f"The server at http://127.0.0.1:{other.server_port} answered 404" in told
    assert "Is it cc-orchestrator? Name its address with --url or CC_ORCHESTRATOR_URL" in told


@pytest.mark.parametrize(
    ("typed", "code", "words"),
    [
        ("run - <&-", USAGE, "The task is empty"),
        ("run <&-", USAGE, "There is no prompt"),
        ("review <&-", 0, "Nothing waits"),
        ("tui <&-", USAGE, "There is no terminal"),
        ("tasks >&-", 0, ""),
    ],
)
def test_a_stream_that_the_shell_closed_is_as_an_empty_one(served: Served, typed: str, code: int, words: str) -> None:
    """No socket and no file of the command gets its number."""
    command = ["sh", "-c", f"exec {shlex.join(CLI)} {typed}"]
    where = {
        "CC_ORCHESTRATOR_URL": served.url,
        "CC_ORCHESTRATOR_DATA_DIR": str(served.data),
        "OLLAMA_HOST": "127.0.0.1:1",
    }
    done = subprocess.run(
        command,
        check=False,
        env=environment(served.home, **where),
        cwd=served.home,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert "Traceback" not in done.stderr
    assert (done.returncode, words in done.stderr + done.stdout) == (code, True), done.stderr


def test_a_server_without_an_input_starts(tmp_path: Path) -> None:
    serve = shlex.join([*CLI, "serve", *SCRIPTED, "--port", "0", "--data-dir", "d"])
    command = ["sh", "-c", f"exec {serve} <&- 2>serve.log"]
    with subprocess.Popen(
        command, env=environment(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.terminate()
        assert (process.wait(HANG_S), said.startswith("listening on")) == (0, True), (
            tmp_path / "serve.log"
        ).read_text()


def test_a_refusal_names_the_task_that_is_meant(served: Served) -> None:
    """What is over cannot be stopped, put back or applied; each answer has the command for this very task."""
    done = typed(served, "run", script(final()))
    task_id = done.stdout.split()[1]
    for command in ("cancel", "undo", "rehearsal"):
        refused = typed(served, command, task_id)
        assert refused.returncode != 0
        assert f"`cc-orchestrator tasks show {task_id}` shows" in refused.stderr
    assert f"`cc-orchestrator tasks show {task_id}` shows" in typed(served, "undo", task_id, "--dry-run").stdout


def test_without_a_terminal_review_says_only_that_nothing_waits(served: Served) -> None:
    done = typed(served, "review")
    assert (done.returncode, done.stdout + done.stderr) == (0, "Nothing waits for you.\n")


# -- how they are typed ------------------------------------------------------------------


def typed(served: Served, *arguments: str) -> Any:
    """One command that reaches the server by its variables: not every command has the options for it."""
    where = {"CC_ORCHESTRATOR_URL": served.url, "CC_ORCHESTRATOR_DATA_DIR": str(served.data)}
    return cli(served.home, *arguments, **where)


def one_sentence(done: Any, code: int) -> str:
    """The one sentence of a refusal."""
    assert done.returncode == code, (done.returncode, done.stderr)
    (line,) = [one for one in done.stderr.splitlines() if one.startswith("cc-orchestrator: ")]
    return str(line)
