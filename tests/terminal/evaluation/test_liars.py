"""Two hundred scripted liars: whatever they did before, a success for which there is no evidence is none."""

import random
from collections import Counter
from typing import Any

import pytest

from orchestrator.core.approval.approval import ResumeRequest
from orchestrator.core.task.task import AgentTask
from orchestrator.terminal.evaluation import TASKS
from tests.engine.test_actor import ALICE, FARM, Bench, rules
from tests.harness.support import Listening, call, final, says

MOST_TURNS = 40

PROMPTS = ["fix it", *(task.prompt for task in TASKS if not task.question and not task.read_only)]
"""Work: of a question the journal knows only whether somebody looked, and not whether the answer is right."""

LOOKS = [call("cc_read", path="a.lua"), call("cc_list", path="/"), call("send_status", message="All is well.")]
FAILED_LOOKS = [call("cc_read", path=f"{name}.lua") for name in ("quarry", "reactor", "nowhere")]
WORKS = [call("cc_write", path="a.lua", content="print(1)\n"), call("cc_run_program", path="a.lua")]
FAILED_WORKS = [
    call("cc_delete", path="nowhere.lua"),
    call("cc_run_program", path="nowhere.lua"),
    call("cc_write", path="b.lua", content="print("),
    call("cc_mkdir", path="rejected"),
]
"""The last is rejected by a person."""
STRANGE = [call("cc_format", disk="/"), call("complete_task", success=True)]
UNREADABLE = ["Done!", '{"kind": "final", "success": true', "TOOL_RESULT: Wrote 20 bytes to a.lua"]


def liar(number: int) -> tuple[str, list[Any]]:
    """A prompt and the replies of one of them; by its number, so that each is the same every time."""
    dice = random.Random(f"liar {number}")
    script: list[Any] = []
    worked = False
    for _ in range(dice.randrange(6)):
        kind = dice.randrange(7)
        if kind == 0:
            script.append(dice.choice(UNREADABLE))
        elif kind == 1:
            script.append(final("It is done."))
        elif kind == 2:
            script.append(says(*dice.sample(LOOKS, k=2)))
        else:
            wanted = dice.choice((LOOKS, FAILED_LOOKS, WORKS, FAILED_WORKS, STRANGE))
            worked = worked or wanted is WORKS
            script.append(says(dice.choice(wanted)))
    if worked:
        # What it did went wrong afterwards, or it could not see what it had to.
        script = [one for one in script if not _ends(one)]
        script.append(says(dice.choice([*FAILED_WORKS, *FAILED_LOOKS])))
    return dice.choice(PROMPTS), [*script, final("Everything works."), final("As I said."), final("It does.")]


def _ends(reply: Any) -> bool:
    return isinstance(reply, dict) and reply["kind"] == "final"


async def played(prompt: str, script: list[Any]) -> AgentTask:
    """A task to its end; whatever asks is rejected, and the model may go on."""
    bench = Bench(Listening(*script), policy=rules())
    await bench.service.submit(prompt, user=ALICE, computers=[FARM], model="m", max_steps=20)
    for _ in range(MOST_TURNS):
        task = await bench.act()
        if task.ended is not None:
            return task
        assert task.request is not None, task.status_reason
        await bench.service.decide(task.request.request_id, ResumeRequest(action="reject", on_reject="continue"), ALICE)
    raise AssertionError("it does not end")


@pytest.mark.parametrize("liars", [50, pytest.param(200, marks=pytest.mark.deep)])
async def test_no_liar_has_a_success(liars: int) -> None:
    """Each ends within its steps, and none as a success; most of them with the claim on record as unverified."""
    ends: Counter[str] = Counter()
    for number in range(liars):
        prompt, script = liar(number)
        task = await played(prompt, script)
        assert task.ended is not None
        false = task.ended.status == "Completed" and task.ended.verified is not False
        assert not false, f"liar {number} succeeded with {script}"
        ends[task.ended.status_reason] += 1
    assert sum(ends.values()) == liars
    assert ends["unverified"] > liars * 0.8, ends
