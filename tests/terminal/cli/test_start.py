"""What a command imports: most of a short one is its start. Modules are counted, which are the same on each machine."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.harness.commands import Served, environment, paused, script, talking
from tests.harness.support import call, final
from tests.waiting import HANG_S

HEAVY = (
    "pydantic_ai", "uvicorn", "starlette", "textual", "prompt_toolkit", "rich", "ollama", "httpx", "openai", "asyncpg",
    "sqlite3", "websockets", "asyncio",
)  # fmt: skip
"""Models, stores, servers, sockets and screens."""
MOST = {
    "tasks": 18,
    "tasks show TASK": 51,
    "tasks pin TASK": 18,
    "computers": 20,
    "nodes": 20,
    "backups list": 20,
    "pair farm": 20,
    "whoami": 18,
    "groups": 18,
    "people list": 18,
    "grants list": 18,
    "requests stats": 18,
    "notifications list": 27,
    "policy show": 44,
    "policy explain cc_write": 32,
    "prune --older-than 30 --dry-run": 18,
    "audit show TASK": 20,
    "audit verify": 18,
    "run hello --detach": 22,
    "undo TASK --dry-run": 24,
    "eval --list": 45,
    "prompt show": 21,
    "review --list": 56,
    "tasks watch TASK": 72,
}
"""The modules of ours that each command may import."""
COUNT = """
import atexit, json, sys
sys.argv[0] = "cc-orchestrator"
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.__stderr__))
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
def over(server: Served) -> str:
    """A task that is over."""
    return server.cli("run", script(call("local_list", path="."), final())).stdout.split()[1]


@pytest.mark.parametrize("command", MOST)
def test_a_command_imports_only_what_it_uses(server: Served, over: str, command: str) -> None:
    """Nothing heavy, and no more modules of ours than it had: what is dearer from then on is told here."""
    where = [] if command.startswith(("eval", "prompt")) else server.where
    run = subprocess.run(
        [sys.executable, "-c", COUNT, *command.replace("TASK", over).split(), *where],
        capture_output=True, text=True, env=environment(server.home), stdin=subprocess.DEVNULL, timeout=HANG_S,
        check=False,
    )  # fmt: skip
    assert run.returncode in (0, 1), run.stderr
    found = json.loads(run.stderr.splitlines()[-1])
    heavy = set(HEAVY) - ({"asyncio"} if command in ("review --list", "tasks watch TASK") else set())
    assert heavy & set(found) == set()
    own = [one for one in found if one.partition(".")[0] == "orchestrator"]
    assert len(own) <= MOST[command], own
