"""A node of several, for the bench of routed calls: a whole server with a bus, beside a store that only it has.

No call here asks a store, so a SQLite one does: the nodes are made to agree on one installation, and each is served
as `serve` would serve it, without what that refuses.
"""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from bench.call_server import PATH, TASK, WAIT_S, Ours, median_of
from bench.measure import raise_file_limit
from bench.worker import answer_all, options, own_directory, run
from orchestrator.adapters.bus.installation import AGREED
from orchestrator.app.orchestrator import Orchestrator, open_orchestrator
from orchestrator.app.serving import listen, server_of
from orchestrator.core.wire.wire import ComputerId, RunId
from orchestrator.runtime.settings import Settings

INSTALLATION: Final = "i-bench"


class OurNode(Ours):
    """One node; ``bus``: the URL of the bus that it is on."""

    def __init__(self, directory: Path, bus: str) -> None:
        super().__init__(directory)
        self._bus = bus

    async def start(self) -> int:
        """Serve; the port."""
        settings = Settings(data_dir=self._directory, port=0, bus=self._bus)
        async with open_orchestrator(Settings(data_dir=self._directory)) as before:
            await before.store.agree(AGREED, INSTALLATION)
        up: asyncio.Future[tuple[int, Orchestrator]] = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(self._serve(settings, up))
        await asyncio.wait((self._serving, up), return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            await self._serving
        port, self._orchestrator = up.result()
        return port

    async def _serve(self, settings: Settings, up: "asyncio.Future[tuple[int, Orchestrator]]") -> None:
        with closing(listen(settings)) as listener:
            async with open_orchestrator(settings) as orchestrator:
                up.set_result((listener.getsockname()[1], orchestrator))
                await server_of(orchestrator).serve(sockets=[listener])

    async def call(self, client: int) -> object:
        """One call as a task makes it, wherever the computer is, from request to acknowledgement."""
        fleet, computer, number = self._orchestrator.node.fleet, ComputerId(self._names[client]), next(self._numbers)
        run_id = RunId(f"c{number:016x}.1")
        result = await fleet.call(
            computer, run_id=run_id, task_id=TASK, number=number, method="fs_read", params={"path": PATH}, wait_s=WAIT_S
        )
        fleet.acknowledge(computer, run_id, number)
        return result

    async def meet(self, names: list[str]) -> None:
        """Wait until computers, here or elsewhere, are known to be there."""
        self._names = names
        fleet = self._orchestrator.node.fleet
        async with asyncio.timeout(WAIT_S):
            while not all((info := fleet.info(ComputerId(one))) and info.online for one in names):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.05)


async def main() -> None:
    """Serve, and do as the pipe says."""
    raise_file_limit()
    told = options()
    node = OurNode(own_directory(told), told["bus"])
    port = await node.start()

    async def handle(request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "port":
                return {"port": port}
            case "tokens":
                return {"tokens": await node.tokens(request["count"])}
            case "meet":
                await node.meet(request["names"])
                return {}
            case _:
                return {"wall": await median_of(node.call, request["client"], request["each"])}

    try:
        await answer_all(handle)
    finally:
        await node.stop()


if __name__ == "__main__":
    run(main)
