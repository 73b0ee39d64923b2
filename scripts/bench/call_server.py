"""The servers of the call and memory benches: ours as ``serve`` builds it, and ``websockets.serve``.

A call of ours is ``Hub.call`` and, when it is answered, ``Hub.acknowledge``: the session, the
link with its messages, uvicorn with the direct way for frames, the socket; four frames. Not in it:
the journal, which is the step bench's. A call of the raw server is a future in a dictionary and two frames.
"""

import asyncio
import gc
import itertools
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, Final

from websockets.asyncio.server import serve as raw_serve
from websockets.exceptions import ConnectionClosed

from bench.measure import Spent, raise_file_limit
from bench.worker import answer_all, options, run
from orchestrator.app.orchestrator import Orchestrator
from orchestrator.app.serving import serve
from orchestrator.core.wire.wire import ComputerId, RunId
from orchestrator.runtime.clock import SystemClock
from orchestrator.runtime.settings import Settings
from orchestrator.web.auth import issue_token

PATH: Final = "programs/farm/harvest.lua"
TASK: Final = "t-0123456789ab"
WAIT_S: Final = 30.0

Call = Callable[[int], Awaitable[object]]


class Ours:
    """The whole orchestrator in its own process, without tasks; ``settings`` are those of ``serve``."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self._directory = directory
        self._settings = Settings(data_dir=directory, port=0, **settings)
        self._names: list[str] = []
        self._numbers = itertools.count(1_000_000)

    async def start(self) -> int:
        """Serve; the port."""
        up: asyncio.Future[tuple[str, Orchestrator]] = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(
            serve(self._settings, ready=lambda url, orchestrator: up.set_result((url, orchestrator)))
        )
        await asyncio.wait((self._serving, up), return_when=asyncio.FIRST_COMPLETED)
        url, self._orchestrator = up.result()
        return int(url.rpartition(":")[2])

    async def tokens(self, count: int) -> list[str]:
        """Tokens of so many new computers, straight from the store."""
        names = [f"c{len(self._names) + number}" for number in range(count)]
        self._names += names
        store, now = self._orchestrator.store, SystemClock().now()
        return list(
            await asyncio.gather(*(issue_token(store, kind="computer", name=one, roles=(), at=now) for one in names))
        )

    async def call(self, client: int) -> object:
        """One call to a computer, from frame to acknowledgement."""
        hub, computer, number = self._orchestrator.hub, ComputerId(self._names[client]), next(self._numbers)
        run_id = RunId(f"c{number:016x}.1")
        result = await hub.call(
            computer, run_id=run_id, task_id=TASK, number=number, method="fs_read", params={"path": PATH}, wait_s=WAIT_S
        )
        hub.acknowledge(computer, run_id, number)
        return result

    async def stop(self) -> None:
        """Stop as a signal would."""
        self._serving.cancel()
        with suppress(asyncio.CancelledError):
            await self._serving


class Raw:
    """``websockets.serve`` with JSON and a dictionary of futures; compression and pings off, as in ours.

    ``acknowledging``: each call is acknowledged by the client before its result, and each result by us.
    """

    def __init__(self, *, acknowledging: bool) -> None:
        self._acknowledging = acknowledging
        self._sockets: list[Any] = []
        self._waits: dict[int, asyncio.Future[Any]] = {}
        self._ids = itertools.count(1_000_000)

    async def start(self) -> int:
        """Serve; the port."""
        self._server = await raw_serve(self._connection, "127.0.0.1", 0, compression=None, ping_interval=None)
        port: int = next(iter(self._server.sockets)).getsockname()[1]
        return port

    async def _connection(self, socket: Any) -> None:
        self._sockets.append(socket)
        with suppress(ConnectionClosed):
            async for message in socket:
                told = json.loads(message)
                wait = self._waits.pop(told["id"], None) if told["ok"] else None
                if wait is not None:
                    wait.set_result(told)

    async def tokens(self, count: int) -> list[str]:
        """Anything: nobody is asked who they are."""
        return [f"client-{number}" for number in range(count)]

    async def call(self, client: int) -> object:
        """One request and its answer, in a message of about the same size."""
        number = next(self._ids)
        wait = self._waits[number] = asyncio.get_running_loop().create_future()
        params = {"path": PATH}
        message = {"id": number, "call_id": f"c{number:016x}.1", "task": TASK, "method": "fs_read", "params": params}
        await self._sockets[client].send(json.dumps(message))
        result = await wait
        if self._acknowledging:
            await self._sockets[client].send(json.dumps({"forget": message["call_id"], "number": number}))
        return result

    async def stop(self) -> None:
        """Close everything."""
        self._server.close()
        await self._server.wait_closed()


async def calls(call: Call, clients: int, each: int) -> dict[str, float]:
    """Calls with one in flight for each client; microseconds for each call."""

    async def one(client: int) -> None:
        for _ in range(each):
            await call(client)

    gc.collect()
    with Spent() as spent:
        await asyncio.gather(*(one(client) for client in range(clients)))
    return spent.per(clients * each)


async def median_of(call: Call, client: int, each: int) -> float:
    """Calls to one client, one after the other; the median of their wall times, in microseconds."""
    took = []
    gc.collect()
    for _ in range(each):
        with Spent() as spent:
            await call(client)
        took.append(spent.wall_s)
    return median(took) * 1e6


def own_memory_kb() -> float:
    """The memory that only this process has, in kilobytes; where the system does not tell, the most it ever had."""
    gc.collect()
    with suppress(OSError):
        rollup = Path("/proc/self/smaps_rollup").read_text("ascii")
        return float(sum(int(kb) for kb in re.findall(r"^Private_(?:Clean|Dirty): +(\d+) kB", rollup, re.MULTILINE)))
    import resource

    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


async def main() -> None:
    """Serve, and do as the pipe says."""
    raise_file_limit()
    told = options()
    server: Ours | Raw
    match told["kind"]:
        case "ours":
            server = Ours(Path(told["directory"]))
        case kind:
            server = Raw(acknowledging=kind == "raw with four frames")
    port = await server.start()

    async def handle(request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "port":
                return {"port": port}
            case "tokens":
                return {"tokens": await server.tokens(request["count"])}
            case "calls":
                return dict(await calls(server.call, request["clients"], request["each"]))
            case _:
                return {"kb": own_memory_kb()}

    try:
        await answer_all(handle)
    finally:
        await server.stop()


if __name__ == "__main__":
    run(main)
