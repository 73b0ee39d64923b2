"""The bus of several nodes that share a PostgreSQL: LISTEN and NOTIFY, and three tables of the moment beside them."""

from collections.abc import Mapping
from typing import Any

from orchestrator.bus.local import LocalBus
from orchestrator.bus.postgres_network import PostgresNetwork
from orchestrator.ports.bus import Answer, End, Serve


class PostgresBus(LocalBus):
    """provisional"""

    def __init__(self, url: str, *, node: str) -> None:
        super().__init__()
        self._network = PostgresNetwork(
            url, node=node, hears=super().publish, serves=self._serve_other, served=lambda: self._servers.keys()
        )

    async def _serve_other(self, subject: str, payload: Mapping[str, Any], body: bytes) -> Answer:
        return await LocalBus.request(self, subject, payload, body, within_s=1e6)

    async def open(self) -> None:
        await self._network.open()

    async def close(self) -> None:
        await self._network.close()
        await super().close()

    @property
    def connected(self) -> bool:
        return self._network.connected

    async def flush(self) -> None:
        await self._network.flush()

    def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        super().publish(subject, payload)
        self._network.publish(subject, payload)

    async def request(self, subject: str, payload: Mapping[str, Any], body: bytes = b"", *, within_s: float) -> Answer:
        if subject in self._servers:
            return await super().request(subject, payload, body, within_s=within_s)
        return await self._network.ask(subject, payload, body, within_s)

    def serve(self, subject: str, handler: Serve) -> End:
        ended = super().serve(subject, handler)
        self._network.declare()

        def end() -> None:
            ended()
            self._network.declare()

        return end
