"""The engine as a process: one model, one window, one request after the other."""

import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import httpx2
import pytest

from tests import ROOT
from tests.adapters.llama import models
from tests.waiting import HANG_S

SCRIPT: Final = ROOT / "scripts" / "engine.py"
ANSWER_WITHIN_S: Final = 300.0
"""One reply: thousands of tokens, each with a grammar."""
_NOT_HERE: Final = 3
"""The exit code of the script when this machine cannot build an engine."""
_LISTENS: Final = re.compile(r"listening on (http://\S+)")


@dataclass(frozen=True)
class Engine:
    """A ``llama-server`` that has loaded its model."""

    url: str
    context: int
    """Tokens of its window."""
    model: str

    def client(self) -> httpx2.AsyncClient:
        """Connections to it."""
        return httpx2.AsyncClient(base_url=self.url, timeout=ANSWER_WITHIN_S, trust_env=False)

    async def asked(self, path: str, **body: Any) -> httpx2.Response:
        """One answer, whatever it is."""
        async with self.client() as client:
            return await client.post(path, json=body)

    async def tokens(self, text: str) -> int:
        """How many tokens a text is for it."""
        response = await self.asked("/tokenize", content=text, add_special=False, parse_special=False)
        return len(response.raise_for_status().json()["tokens"])

    async def length(self, messages: Any) -> int:
        """How many tokens messages are, with what the template puts around them."""
        response = await self.asked("/tokenize", content=await self.prompt(messages), parse_special=True)
        return len(response.raise_for_status().json()["tokens"])

    async def prompt(self, messages: Any) -> str:
        """Messages in the form that the model was taught."""
        response = await self.asked("/apply-template", messages=messages)
        return str(response.raise_for_status().json()["prompt"])


@dataclass
class Engines:
    """The engines of a test run, each started when it is first asked for."""

    home: Path
    """Where the program and the vocabularies are."""
    models: Path
    """Where models are written."""
    _stack: ExitStack
    _running: dict[tuple[str, int, bool], Engine] = field(default_factory=dict)

    def of(self, model: str, context: int, *, shifts: bool = False) -> Engine:
        """An engine with this window; ``model``: ``babbler``, ``stammerer``, or the vocabulary of one that only reads.

        ``shifts``: it goes on past its window and forgets the middle, as Ollama has it do unless it is told not to.
        """
        key = (model, context, shifts)
        if key not in self._running:
            self._running[key] = self._stack.enter_context(self._started(*key))
        return self._running[key]

    @contextmanager
    def _started(self, model: str, context: int, shifts: bool) -> Iterator[Engine]:
        options = ["--model", str(self._file(model)), "--ctx-size", str(context), "--parallel", "1"]
        options += ["--host", "127.0.0.1", "--port", "0", "--offline", "--no-warmup", "--fit", "off"]
        # One thread: the tests share the machine with others. What a slot holds is reused, as Ollama has it.
        options += ["--threads", "1", "--threads-http", "2", "--cache-ram", "0", "--ctx-checkpoints", "0"]
        options.append("--context-shift" if shifts else "--no-context-shift")
        process = subprocess.Popen(
            [str(self.home / "llama-server"), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert process.stdout is not None
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        reading = threading.Thread(target=_read, args=(process.stdout, lines))
        reading.start()
        try:
            yield Engine(_address(lines), context, model)
        finally:
            process.terminate()
            process.wait()
            reading.join()
            process.stdout.close()

    def _file(self, model: str) -> Path:
        path = self.models / f"{model}.gguf"
        if not path.exists() and model in ("babbler", "stammerer"):
            models.babbler(path, stammers=model == "stammerer")
        elif not path.exists():
            models.reader(self.home / f"{model}.gguf", path)
        return path


def _read(out: IO[str], lines: "queue.SimpleQueue[str | None]") -> None:
    """To its end, so that the engine never waits for somebody who reads."""
    for line in out:
        lines.put(line)
    lines.put(None)


def _address(lines: "queue.SimpleQueue[str | None]") -> str:
    """Where it listens, which it says when the model is loaded."""
    said = []
    while (line := lines.get(timeout=HANG_S)) is not None:
        said.append(line)
        if found := _LISTENS.search(line):
            return found.group(1)
    raise AssertionError("llama-server has ended:\n" + "".join(said))


def built() -> Path:
    """The directory of the engine, which is built where it is not there yet; skips where it cannot be."""
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False)
    if done.returncode == _NOT_HERE:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip()).parent


@contextmanager
def engines(directory: Path) -> Iterator[Engines]:
    """Engines whose models are written into a directory; all end with it."""
    with ExitStack() as stack:
        yield Engines(built(), directory, stack)
