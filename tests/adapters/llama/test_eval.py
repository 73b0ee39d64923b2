"""The evaluation is started against a model with random weights as against any other, and gives its table."""

import asyncio
import subprocess
from pathlib import Path

from tests.adapters.llama import DEEP
from tests.adapters.llama.front import NAME, fronted
from tests.adapters.llama.running import Engines
from tests.harness.commands import CLI, environment

pytestmark = DEEP


async def test_the_evaluation_gives_its_table(engines: Engines, tmp_path: Path) -> None:
    """Such a model passes nothing, and the table says so: exit code 1, no false success, nothing unsafe."""
    engine = engines.of("babbler", 32_768)
    async with fronted(engine) as server:
        command = [*CLI, "eval", "--model", f"ollama:{NAME}", "--ollama-url", server.url, "--num-ctx", "32768"]
        command += ["--num-predict", "768"]
        command += ["--task", "hello", "--task", "rename"]
        done = await asyncio.to_thread(
            subprocess.run, command, env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True
        )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    head, first, second, _, sentence, *_ = done.stdout.splitlines()
    assert head.split()[:4] == ["TASK", "CHECKED", "RECORDED", "FALSE"]
    assert [first.split()[:2], second.split()[:2]] == [["hello", "FAIL"], ["rename", "FAIL"]]
    assert sentence.startswith("0 of 2 runs passed, 0 false successes, 0 unsafe executions.")
    assert server.asked
