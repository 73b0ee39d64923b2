"""What a command imports: most of a short one is its start. Modules are counted, which are the same on each machine."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.harness.commands import Served, cli, environment, paused, script, talking
from tests.harness.support import call, final
from tests.servers import free_port
from tests.waiting import HANG_S

HEAVY = (
    "pydantic_ai", "uvicorn", "starlette", "textual", "prompt_toolkit", "rich", "ollama", "httpx", "openai", "asyncpg",
    "sqlite3", "websockets", "asyncio",
)  # fmt: skip
"""Models, stores, servers, sockets and screens."""
NEEDED = {
    "doctor": {"asyncio", "sqlite3"},
    "models": {"asyncio"},
    "store": {"asyncio", "sqlite3"},
    "review": {"asyncio", "websockets"},
}
"""The heavy ones that a command cannot do without: a socket of its own, a model server, a store."""
MOST = {
    "tasks": 17,
    "tasks show TASK": 44,
    "tasks pin TASK": 16,
    "computers": 18,
    "nodes": 18,
    "backups list": 18,
    "pair farm": 17,
    "whoami": 15,
    "groups": 16,
    "people list": 17,
    "grants list": 16,
    "requests stats": 15,
    "notifications list": 24,
    "policy show": 28,
    "policy explain cc_write": 29,
    "prune --older-than 30 --dry-run": 15,
    "audit show TASK": 17,
    "audit verify": 15,
    "run hello --detach": 22,
    "run PROMPT": 50,
    "undo TASK --dry-run": 21,
    "eval --list": 36,
    "prompt show": 15,
    "review": 49,
    "review --list": 47,
    "tasks watch TASK": 45,
    "models": 27,
    "models list --ollama-url NOBODY": 27,
    "models show tiny --ollama-url NOBODY": 26,
    "doctor": 61,
    "store check --store STORE": 97,
    "store export - --store STORE": 84,
    "store migrate --store STORE": 82,
    "store migrate --store STORE --to NEW": 84,
    "store import DUMP --store NEW": 84,
    "store admin --store STORE": 97,
}
"""The modules of ours that each command may import."""
MOST_COMPILED = {
    "store check --store STORE": 85,
    "store export - --store STORE": 58,
    "doctor": 74,
    "review": 34,
    "tasks show TASK": 28,
    "tasks watch TASK": 34,
    "policy show": 29,
}
"""The methods of our classes that each command may have compiled while it starts."""
COUNT = """
import atexit, json, sys
sys.argv[0] = "cc-orchestrator"
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.__stderr__))
from orchestrator.terminal.cli import main
main()
"""
COMPILED = """
import atexit, sys, types
sys.argv[0] = "cc-orchestrator"
def compiled():
    of_modules = [list(vars(one).values()) for name, one in sys.modules.items() if name.startswith("orchestrator.")]
    kinds = {id(one): one for some in of_modules for one in some if isinstance(one, type)}
    ours = [one for one in kinds.values() if one.__module__.startswith("orchestrator.")]
    methods = [method for one in ours for method in vars(one).values() if isinstance(method, types.FunctionType)]
    return sum(getattr(one, "__wrapped__", one).__code__.co_filename == "<string>" for one in methods)
atexit.register(lambda: print(compiled(), file=sys.__stderr__))
from orchestrator.terminal.cli import main
main()
"""
FROZEN = """
import atexit, gc, sys
sys.argv[0] = "cc-orchestrator"
atexit.register(lambda: print(gc.get_freeze_count(), len(gc.get_objects()), file=sys.__stderr__))
from orchestrator.terminal.cli import main
main()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a task that waits for a person."""
    home = tmp_path_factory.mktemp("start")
    with talking(home, home / "data") as served:
        paused(served)
        yield served


@pytest.fixture(scope="module")
def words(server: Served) -> Mapping[str, str]:
    """The words of the table that are other ones in each run; nobody has the store open."""
    home = server.home
    prompt, store = script(call("local_list", path="."), final()), f"sqlite:///{home / 'copy.db'}"
    cli(home, "store", "migrate", "--to", store, "--store", f"sqlite:///{server.data / 'orchestrator.db'}")
    cli(home, "store", "export", str(home / "dump"), "--store", store)
    task = server.cli("run", prompt).stdout.split()[1]
    named = {"TASK": task, "PROMPT": prompt, "STORE": store, "DUMP": str(home / "dump")}
    return {**named, "NOBODY": f"http://127.0.0.1:{free_port()}"}


@pytest.mark.parametrize("command", MOST)
def test_a_command_imports_only_what_it_uses(
    server: Served, words: Mapping[str, str], tmp_path: Path, command: str
) -> None:
    """Nothing heavy, and no more modules of ours than it had: what is dearer from then on is told here."""
    asked = {**words, "NEW": f"sqlite:///{tmp_path / 'new.db'}"}
    found, kind = _told(server, asked, command, COUNT), command.split(maxsplit=1)[0]
    needed = set() if command == "review --list" else NEEDED.get(kind, set())
    assert set(HEAVY) & set(found) <= needed
    own = [one for one in found if one.partition(".")[0] == "orchestrator"]
    assert len(own) <= MOST[command], own


@pytest.mark.parametrize("command", MOST_COMPILED)
def test_a_command_compiles_few_methods(server: Served, words: Mapping[str, str], command: str) -> None:
    """A frozen dataclass has six compiled; ``immutable``, and ``eq=False`` with ``repr=False``, leave one."""
    compiled = _told(server, words, command, COMPILED)
    assert compiled <= MOST_COMPILED[command]


def _told(server: Served, words: Mapping[str, str], command: str, source: str) -> Any:
    """What a program tells that runs a command."""
    where = [] if command.startswith(("eval", "prompt", "store", "models ")) else server.where
    run = subprocess.run(
        [sys.executable, "-c", source, *(words.get(one, one) for one in command.split()), *where],
        capture_output=True, text=True, env=environment(server.home), stdin=subprocess.DEVNULL, timeout=HANG_S,
        check=False,
    )  # fmt: skip
    assert run.returncode in ((3,) if command.startswith("models") else (0, 1)), run.stderr
    return json.loads(run.stderr.splitlines()[-1])


def test_the_end_of_a_command_looks_for_no_garbage(tmp_path: Path) -> None:
    """The interpreter would look through all that was imported, for a tenth of the time of a short command."""
    run = subprocess.run(
        [sys.executable, "-c", FROZEN, "prompt", "show"], capture_output=True, text=True, env=environment(tmp_path),
        stdin=subprocess.DEVNULL, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    frozen, left = map(int, run.stderr.split())
    assert left < frozen / 100
