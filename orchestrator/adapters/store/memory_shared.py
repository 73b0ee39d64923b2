"""What several nodes have in common, in memory: there such nodes are the parts of one process."""

from dataclasses import replace

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store.entry import seconds_to_us
from orchestrator.adapters.store.memory_sign_ins import MemorySignIns
from orchestrator.core.ports import SYSTEM_STREAM, PolicyRow
from orchestrator.core.ports.shared import MOST_DUTY_S
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, Draft


class MemoryShared(MemorySignIns):
    """The port's ``Common`` over the dictionaries."""

    shared = False

    async def policy_in_force(self) -> PolicyRow | None:
        await self._turn()
        return self._policy

    async def policy_item(self) -> AgentTaskItem | None:
        await self._turn()
        system = self._streams.get(TaskId(SYSTEM_STREAM))
        items = [] if system is None else system.read()
        return next((one for one in reversed(items) if one.fact.kind == "policy_loaded"), None)

    async def set_policy(self, expected_version: int, content: bytes, *, note: Draft) -> PolicyRow:
        now = await self._turn()
        fact = sealing.loading(note, content)
        before = self._policy
        present, judged = (0, 0) if before is None else (before.version, before.judged)
        if present != expected_version:
            raise sealing.another_policy(present, expected_version)
        self._record(self._noted(sealing.in_force(note, present + 1), now))
        self._keep_blob(content, now)
        self._policy = PolicyRow(present + 1, fact.sha256, fact.source, note.at, note.actor.id, judged)
        return self._policy

    async def judged_policy(self, version: int) -> None:
        await self._turn()
        if self._policy is not None:
            self._policy = replace(self._policy, judged=max(self._policy.judged, version))

    async def take_duty(self, name: str, holder: str, for_s: float) -> bool:
        now = await self._turn()
        present, until = self._duties.get(name, (holder, 0))
        if present != holder and now < until <= now + seconds_to_us(MOST_DUTY_S):
            return False
        self._duties[name] = (holder, now + seconds_to_us(for_s))
        return True

    async def leave_duty(self, name: str, holder: str) -> None:
        await self._turn()
        if self._duties.get(name, ("", 0))[0] == holder:
            del self._duties[name]

    async def agree(self, name: str, value: str) -> str:
        now = await self._turn()
        if name not in self._agreed:
            self._record(self._noted(sealing.agreeing(name, value, now), now))
        return self._agreed.setdefault(name, value)
