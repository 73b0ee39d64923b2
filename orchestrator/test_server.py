"""The whole application in one process on stubs, for local runs: ``python -m orchestrator.test_server``.

Everything is real but the outside: the store is in memory, the computers are stubs that keep their
files in memory and run no Lua, and the model plays a script. Nothing is left behind.
"""

import argparse
import asyncio
import contextlib
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from orchestrator.app.admin import ADMIN
from orchestrator.app.orchestrator import Orchestrator
from orchestrator.app.serving import serve
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.wire.wire import Family
from orchestrator.runtime.program import program
from orchestrator.runtime.settings import Settings
from orchestrator.testing.stub_computer import StubComputer
from orchestrator.web.auth import issue_token

_FARM: Final = b"""\
local crops = { "wheat", "beets" }
for slot = 1, 3 do
  print("planting " .. crops[slot])
end
"""
_KINDS: Final[tuple[tuple[Family, str], ...]] = (
    ("advanced", "farm"),
    ("turtle", "miner"),
    ("pocket", "phone"),
    ("computer", "door"),
)
"""Family and label of the computers, over and over."""
_MAX_COMPUTERS: Final = 1000
_WELCOME_WITHIN_S: Final = 30.0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line. Exits with 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m orchestrator.test_server",
        description="Run the whole orchestrator with stub computers and a scripted model, in memory.",
    )
    parser.add_argument("--port", type=int, default=0, help="0, the default: any free port")
    parser.add_argument("--computers", type=int, default=3, help="how many stub computers (default 3)")
    parser.add_argument("--model", default="scripted:hello", help="the model of tasks that name none")
    arguments = parser.parse_args(argv)
    if not 0 <= arguments.computers <= _MAX_COMPUTERS:
        parser.error(f"--computers is a number from 0 to {_MAX_COMPUTERS}")
    return arguments


async def serve_with_stubs(settings: Settings, computers: int) -> None:
    """Serve with that many stub computers until SIGINT or SIGTERM."""
    started: asyncio.Future[tuple[str, Orchestrator]] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(settings, ready=lambda *told: started.set_result(told)))
    await asyncio.wait((started, serving), return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        return await serving
    url, orchestrator = started.result()
    stubs = [await _stub(url, orchestrator, number) for number in range(computers)]
    runs = [asyncio.create_task(stub.run()) for stub in stubs]
    try:
        await _all_welcome(stubs)
        print("\n".join(_words(url, orchestrator, computers)), flush=True)
        await serving
    finally:
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)


async def _stub(url: str, orchestrator: Orchestrator, number: int) -> StubComputer:
    at = orchestrator.service.clock.now()
    token = await issue_token(orchestrator.store, kind="computer", name=str(number), roles=(), at=at, owner=ADMIN)
    family, label = _KINDS[number % len(_KINDS)]
    socket = "ws" + url.removeprefix("http") + "/computer"
    return StubComputer(
        socket, token, files={"startup.lua": _FARM}, computer_id=number, label=f"{label}-{number}", family=family
    )


async def _all_welcome(stubs: Sequence[StubComputer]) -> None:
    """Wait until every stub is connected. Raises OrchestratorError."""
    try:
        async with asyncio.timeout(_WELCOME_WITHIN_S):
            await asyncio.gather(*(stub.welcomed.wait() for stub in stubs))
    except TimeoutError:
        raise OrchestratorError(
            f"Not all stub computers were connected within {_WELCOME_WITHIN_S:.0f} s.", remedy="Take fewer of them."
        ) from None


def _words(url: str, orchestrator: Orchestrator, computers: int) -> list[str]:
    """Words about what to do with it."""
    name = program()
    return [
        f"listening on {url}",
        f"{computers} stub computers, named by their number, from 0 on",
        f"The model of tasks that name none is {orchestrator.settings.model}. In another terminal:",
        f"  export CC_ORCHESTRATOR_URL={url} CC_ORCHESTRATOR_TOKEN={orchestrator.admin_token}",
        f"  {name} computers",
        f'  {name} run "Write a hello world program and run it" --computer 0',
        f"  {name} review",
        '  curl -H "Authorization: Bearer $CC_ORCHESTRATOR_TOKEN" $CC_ORCHESTRATOR_URL/v1/tasks',
        "Ctrl-C ends it; nothing is kept.",
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 after a clean end, 2 when it cannot start."""
    arguments = parse(argv)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s", stream=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="cc-orchestrator-") as home:
        try:
            settings = Settings(data_dir=Path(home), port=arguments.port, store="memory:", model=arguments.model)
            with contextlib.suppress(KeyboardInterrupt):
                asyncio.run(serve_with_stubs(settings, arguments.computers))
        except OrchestratorError as error:
            sys.stderr.write(f"{error}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
