"""Plays a persona through the real service and actor, with a store in memory, and judges how its task ended."""

import json
from collections.abc import Callable, Iterable, Sequence

from orchestrator.core.policy import load_policy
from orchestrator.core.ports import ChatMessage, ModelReply
from orchestrator.core.task import facts
from orchestrator.core.wire.wire import ComputerId
from tests.engine.test_actor import Bench
from tests.harness.support import FakeComputers
from tests.terminal.evaluation.personas.cases import Persona
from tests.terminal.evaluation.personas.computer import LuaComputer

POLICY = load_policy('schema_version = 1\nwatch = ["**"]\n[[rules]]\nid = "all"\neffect = "allow"\ntools = ["*"]\n')
"""Nobody is asked: what is judged here is the end."""


class Scripted:
    """A ``ChatModel`` that answers with the next reply of a persona, and with the last one for ever."""

    name = "scripted"

    def __init__(self, persona: Persona) -> None:
        self._replies = persona.replies
        self._given = 0

    async def window(self) -> None:
        """It does not say."""

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
        user: str = "",
        affinity: str = "",
        one_computer: bool = False,
    ) -> ModelReply:
        """The next one."""
        del messages, on_text, max_output_tokens, user, affinity, one_computer
        reply = self._replies[min(self._given, len(self._replies) - 1)]
        self._given += 1
        return ModelReply(text=json.dumps(reply, ensure_ascii=False))


async def played(persona: Persona) -> list[facts.Fact]:
    """The journal of its task, from the first item to the end."""
    disks = {ComputerId(one.name): LuaComputer(one.files, one) for one in persona.machines}
    families = {ComputerId(one.name): one.family for one in persona.machines}
    computers = FakeComputers(disks, families=families)  # type: ignore[arg-type]
    bench = Bench(Scripted(persona), policy=POLICY, computers=computers)
    task_id = await bench.submit(*disks, prompt=persona.prompt, max_steps=20, read_only=persona.read_only)
    await bench.act()
    return [item.fact for item in await bench.journal(task_id)]


async def fault(persona: Persona) -> str:
    """What is wrong with how its task ended, as a sentence; empty: nothing."""
    journal = await played(persona)
    ended = journal[-1]
    assert isinstance(ended, facts.TaskEnded)
    doubts = [one.reason for one in journal if isinstance(one, facts.ReplyRefused)]
    success = ended.status == "Completed" and ended.verified is not False
    if not persona.honest:
        return "a false success" if success else ""
    said = persona.replies[-1]["success"]
    if doubts or (said and not success):
        return f"a false doubt ({ended.status_reason}): {' '.join(doubts)}"
    return ""


async def faults(found: Iterable[Persona]) -> dict[str, str]:
    """What is wrong, by the names of the personas."""
    told = {persona.name: await fault(persona) for persona in found}
    return {name: one for name, one in told.items() if one}
