"""Who is signed in, in memory."""

from dataclasses import replace
from datetime import datetime

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store.memory_retention import MemoryRetention
from orchestrator.core.ports import SignInRow
from orchestrator.core.task.items import Draft


class MemorySignIns(MemoryRetention):
    """The port's ``SignIns`` over the dictionaries."""

    async def add_sign_in(self, row: SignInRow, *, most: int, note: Draft) -> list[SignInRow]:
        now = await self._turn()
        sealing.check_sign_in(note)
        if row.session_hash in self._sign_ins:
            raise sealing.sign_in_exists()
        theirs = [one for one in self._signed_in() if one.name == row.name]
        gone = theirs[: max(0, len(theirs) - most + 1)]
        self._record(self._noted(sealing.signed_in(note, row, gone), now))
        for one in gone:
            del self._sign_ins[one.session_hash]
        self._sign_ins[row.session_hash] = row
        return gone

    async def find_sign_in(self, session_hash: str) -> SignInRow | None:
        await self._turn()
        return self._sign_ins.get(session_hash)

    async def use_sign_in(self, session_hash: str, at: datetime) -> None:
        await self._turn()
        row = self._sign_ins.get(session_hash)
        if row is not None:
            self._sign_ins[session_hash] = replace(row, used_at=max(row.used_at, at))

    async def end_sign_in(self, session_hash: str, *, note: Draft | None = None) -> bool:
        now = await self._turn()
        if session_hash not in self._sign_ins:
            return False
        self._record(self._noted(sealing.signed_out(note, session_hash), now))
        del self._sign_ins[session_hash]
        return True

    async def forget_sign_ins(self, *, begun: datetime, used: datetime) -> int:
        await self._turn()
        over = [name for name, row in self._sign_ins.items() if row.begun_at <= begun or row.used_at <= used]
        for name in over:
            del self._sign_ins[name]
        return len(over)

    async def list_sign_ins(self) -> list[SignInRow]:
        await self._turn()
        return self._signed_in()

    def _signed_in(self) -> list[SignInRow]:
        return sorted(self._sign_ins.values(), key=lambda row: (row.begun_at, row.session_hash))
