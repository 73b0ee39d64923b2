"""A token that is revoked at another node closes what is open here, also where the store was away just then."""

import asyncio

from orchestrator.adapters.store import InMemoryPersistenceManager
from orchestrator.core.errors import StoreAway
from orchestrator.core.ports import Identity, TokenRow
from orchestrator.runtime.clock import SystemClock
from orchestrator.web.sockets import OpenSockets
from tests.waiting import within

ALICE = Identity(kind="person", name="alice", roles=("reviewer",), auth="token", token_hash="a" * 64)


class Leaving(InMemoryPersistenceManager):
    """A store that goes away between two questions of one look."""

    leaves = False

    async def list_tokens(self) -> list[TokenRow]:
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
