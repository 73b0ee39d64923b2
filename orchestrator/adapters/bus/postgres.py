"""The bus of several nodes that share a PostgreSQL: LISTEN and NOTIFY, and three tables of the moment beside them."""

from collections.abc import Mapping
from typing import Any, Final

from orchestrator.adapters.bus.postgres_network import PostgresNetwork
from orchestrator.adapters.bus.remote import RemoteBus
from orchestrator.core.errors import InvalidRequest, RequestLost
from orchestrator.core.ports.bus import Answer

MAX_BODY_BYTES: Final = 64 << 20
"""Of a request or an answer: more would be a transfer, and it would go through the database's memory whole."""
_AS_LONG_AS_IT_TAKES_S: Final = 86_400.0
"""What was begun for another node is finished, whoever still waits for it."""


class PostgresBus(RemoteBus):
    """A node on the bus of one database and schema, not open yet.

    ``url``: ``postgresql://…``; ``?search_path=NAME`` in it names the schema, which tells installations in one
    database apart. It takes two connections, and a third once something large is sent.
    """

    def __init__(self, url: str, *, node: str) -> None:
        super().__init__(node=node)
        self._network = PostgresNetwork(
            url, node=self.id, hears=self._hear_wanted, serves=self._serve, served=self._served_subjects.keys
        )

    async def open(self) -> None:
        """Connect. Raises BusAway and InvalidRequest, with what to do about it."""
        await self._network.open()

    async def close(self) -> None:
        """Send what was published, and let go."""
        await self._network.close(self._local.close)

    @property
    def connected(self) -> bool:
        """Whether there is a connection that answered lately."""
        return self._network.connected

    async def flush(self) -> None:
        """What was said before is on its way to every node. Raises RequestLost where that cannot be known."""
        await self._network.flush()

    def _tell(self, subject: str, data: bytes) -> None:
        self._network.tell(subject, data)

    async def _ask(self, subject: str, payload: Mapping[str, Any], body: bytes, within_s: float) -> Answer:
        if len(body) > MAX_BODY_BYTES:
            raise InvalidRequest(
                f"The bus carries {MAX_BODY_BYTES >> 20} MiB with a request; these are {len(body) >> 20} MiB.",
                remedy="Send it in parts.",
            )
        return await self._network.ask(subject, payload, body, within_s)

    def _listen(self, subject: str) -> None:
        """All nodes hear all hints."""

    def _unlisten(self, subject: str) -> None:
        """All nodes hear all hints."""

    def _offer(self, subject: str) -> None:
        self._network.declare()

    def _withdraw(self, subject: str) -> None:
        self._network.declare()

    def _hear_wanted(self, subject: str, data: bytes) -> None:
        if self._heard_subjects[subject]:
            self._hear(subject, data)

    async def _serve(self, subject: str, payload: Mapping[str, Any], body: bytes) -> Answer:
        answer = await self._local.request(subject, payload, body, within_s=_AS_LONG_AS_IT_TAKES_S)
        if len(answer.body) > MAX_BODY_BYTES:
            raise RequestLost(f"The answer of {subject} is too large for the bus: {len(answer.body)} bytes.")
        return answer
