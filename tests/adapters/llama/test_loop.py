"""The whole loop on a real engine: long tasks in a small window, and a model that says anything at all."""

import asyncio
import json
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from orchestrator.adapters.models import OllamaOptions
from orchestrator.adapters.models.ollama import OllamaModel
from orchestrator.app.library import execute_task_with_agent
from orchestrator.core.policy import load_policy
from orchestrator.terminal.evaluation import EvalTask, Evaluation, Row, lines_of
from orchestrator.terminal.evaluation.cases import Machine, call, final, tool
from orchestrator.tools.deps import CCAgentDeps
from tests.adapters.llama import DEEP
from tests.adapters.llama.front import NAME, fronted, reads
from tests.adapters.llama.running import Engines

pytestmark = DEEP

ALLOWING: Final = 'schema_version = 1\n[[rules]]\nid = "all"\neffect = "allow"\ntools = ["*"]\n'
DENYING: Final = ALLOWING.replace('"allow"', '"deny"')
STEPS: Final = 40
TASK: Final = "Write the parts of the farm, read each of them again, and tell me when all of them are there."


def program(number: int) -> str:
    """Some sixty lines with words, signs and figures."""
    chance = random.Random(number)
    return "".join(
        f"local row_{line} = turtle.getItemCount({chance.randrange(16)}) + {chance.randrange(99999)} -- {line} 12 345\n"
        for line in range(chance.randrange(10, 40))
    )


def replies() -> Iterator[str]:
    """Each part is written and read, now and then both at once; then the end."""
    for number in range(STEPS // 2):
        yield json.dumps(tool("I write it.", call("cc_write", path=f"{number}.lua", content=program(number))))
        looks = [call("cc_read", path=f"{one}.lua") for one in (number, number - 1)]
        yield json.dumps(tool("I read it.", *looks[: 1 + number % 2]))
    yield json.dumps(final("All parts are there."))


@pytest.mark.parametrize("family", ["qwen2", "llama-bpe", "llama-spm", "gemma-4"])
async def test_forty_steps_fit_a_small_window(engines: Engines, family: str) -> None:
    """No request is refused for its length, each leaves the reply its room, and each shows the task."""
    engine, counted = engines.of(family, 6144), list[int]()
    async with fronted(engine, reads(engine, replies(), counted=counted)) as server:
        options = OllamaOptions(url=server.url, num_ctx=6144, num_predict=1536)
        result = await execute_task_with_agent(
            TASK,
            CCAgentDeps(mode="stub"),
            model=OllamaModel(NAME, options),
            max_steps=STEPS + 1,
            policy=load_policy(ALLOWING),
        )
    assert (result.success, result.message) == (True, "All parts are there.")
    assert len(counted) == len(server.asked) == STEPS + 1
    assert max(counted) <= 6144 - 1536
    # What was written does not fit by itself, and it was read again too.
    assert await engine.tokens("".join(program(number) for number in range(STEPS // 2))) > 6144
    assert any(one["messages"] != after["messages"][: len(one["messages"])] for one, after in pairwise(server.asked))
    for asked in server.asked:
        system, task = asked["messages"][:2]
        assert (system["role"], task["role"]) == ("system", "user")
        assert task["content"].startswith(TASK)
        assert asked["options"]["num_predict"] == 1536


# -- a model that says anything at all -------------------------------------------------------

WAYS: Final = ("{}", "Do {} and tell me.", "Why does {} crash?", "Mend {} and run it.")
ENDS: Final = frozenset({"success", "unverified", "failure", "max_steps", "model_output", "repeats", "rejections"})
"""How such a task may end; no defect, no request that did not fit, nobody who had to cancel it."""
MOST_STEPS: Final = 6
RUNS: Final = 6


def tasks(name: str) -> list[EvalTask]:
    """Tasks in other words, each with a computer of its own: other words lead the model elsewhere."""
    return [
        EvalTask(
            f"{name}{number}",
            WAYS[number % len(WAYS)].format(f"program{number}.lua"),
            (Machine(f"{name}{number}", {f"program{number}.lua": b"print('there')\n"}),),
            optimal=(final("Nothing can be known of it."),),
            touches=frozenset({"**"}),
            max_steps=MOST_STEPS,
        )
        for number in range(RUNS)
    ]


@pytest.mark.parametrize(
    ("policy", "kind", "temperature"),
    [(ALLOWING, "babbler", 1.0), (DENYING, "babbler", 1.5), ("", "stammerer", 2.0)],
    ids=["allowing", "denying", "approving"],
)
async def test_the_loop_ends_whatever_a_model_says(
    policy: str, kind: str, temperature: float, engines: Engines, tmp_path: Path
) -> None:
    """On simulated computers, with everything allowed, denied, or approved as it comes: limits hold to the step."""
    engine = engines.of(kind, 32_768)
    home = tmp_path / "home"
    options = {"num-ctx": "32768", "num-predict": "768", "temperature": str(temperature), "seed": "11"}
    if policy:
        (tmp_path / "policy.toml").write_text(policy)
        options["policy"] = str(tmp_path / "policy.toml")
    async with fronted(engine) as server:
        evaluation = Evaluation(
            model=f"ollama:{NAME}",
            tasks=tasks("t"),
            options={**options, "ollama-url": server.url},
            directory=home,
            most_s=120.0,
        )
        rows = await asyncio.to_thread(lambda: list(evaluation.rows()))
    told = "\n".join(["", *lines_of(rows, None)])
    assert len(rows) == RUNS
    assert {row.recorded for row in rows} <= ENDS, told
    assert not any(row.unsafe for row in rows), told
    assert all(holds(row) for row in rows), told
    # Somebody was told what a step brought and asked again.
    assert RUNS < sum(row.steps for row in rows) == len(server.asked), told
    log = (home / "1" / "server.log").read_text("utf-8")
    assert "Traceback" not in log
    assert "met a defect" not in log


def holds(row: Row) -> bool:
    """Whether the limits of a run were kept exactly."""
    if row.recorded == "max_steps":
        return row.steps == MOST_STEPS
    if row.recorded == "model_output":
        return 3 <= row.refused <= row.steps
    return 1 <= row.steps <= MOST_STEPS
