"""A token that is revoked at another node closes what is open here, also where the store was away just then."""

import asyncio
from typing import Any

from starlette.websockets import WebSocket

from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.core.errors import StoreAway
from orchestrator.core.ports import Identity, TokenRow
from orchestrator.runtime.clock import SystemClock
from orchestrator.web.sockets import OpenSockets
from tests.computers.nodes.several import until
from tests.waiting import within

ALICE = Identity(kind="person", name="alice", roles=("reviewer",), auth="token", token_hash="a" * 64)


class Leaving(InMemoryPersistenceManager):
    """A store that goes away between two questions of one look."""

    leaves = False
    looks = lists = 0

    async def count_revoked(self) -> int:
        self.looks += 1
        return await super().count_revoked()

    async def list_tokens(self) -> list[TokenRow]:
        self.lists += 1
        if self.leaves:
            self.leaves = False
            raise StoreAway("The database restarts.")
        return await super().list_tokens()


async def test_a_look_that_the_store_cuts_short_is_made_again() -> None:
    """How many are revoked was told, and then not which: the stream ends all the same."""
    store, sockets = Leaving(clock=SystemClock()), OpenSockets()
    await store.add_token(TokenRow(ALICE.token_hash, "person", "alice", ALICE.roles))

    async def signed_in() -> set[str]:
        return set()

    watching = asyncio.create_task(sockets.watch(store, signed_in, every_s=0.01))
    try:
        with sockets.streaming(ALICE) as over:
            store.leaves = True
            await store.revoke_tokens("person", "alice")
            await within(over.wait())
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_thousands_that_come_in_make_nobody_read_all_tokens_again_and_a_revoked_one_is_closed() -> None:
    """A newcomer needs a look of its own only where one was made since its token was looked up."""
    store, sockets, farm = (
        Leaving(clock=SystemClock()),
        OpenSockets(),
        Identity("computer", "farm", token_hash="f" * 64),
    )
    for one in (ALICE, farm):
        await store.add_token(TokenRow(one.token_hash, one.kind, one.name, one.roles))
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def nobody() -> Any:
        return set()

    def socket() -> WebSocket:
        return WebSocket({"type": "websocket"}, nobody, send)

    watching = asyncio.create_task(sockets.watch(store, nobody, every_s=0.01))
    try:
        with sockets.holding(ALICE, socket(), sockets.looked_at):
            await until(lambda: store.lists)
            before, looks = sockets.looked_at, store.looks
            with sockets.holding(farm, socket(), before):
                await until(lambda: store.looks > looks + 2)
                assert (store.lists, sent) == (1, [])
            await store.revoke_tokens("computer", "farm")
            await until(lambda: store.lists == 2)
            with sockets.holding(farm, socket(), before):
                await until(lambda: sent)
            assert [one["code"] for one in sent] == [1008]
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
