"""The whole server as a process, with a model and a store of the test, and a simulated computer as one.

For a test that kills or stops a server, or has several of them. Both are forked from one process that has imported
everything once (``forkserver``), because a sweep starts hundreds: 20 ms each instead of 600. They are real processes
all the same: own pid, own sockets, own files, and SIGKILL is SIGKILL. What a person sees who starts ``serve`` needs
`tests.harness.commands`.
"""

import asyncio
import json
import logging
import multiprocessing
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from orchestrator.adapters.models.scripted import Reply, ScriptedModel
from orchestrator.core.errors import Conflict
from orchestrator.core.ports import ChatMessage, ChatModel, ModelReply, Store
from orchestrator.core.task.items import Draft
from tests import forked
from tests.servers import free_port
from tests.waiting import HANG_S

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "tests.harness.processes",
        "orchestrator.app.serving",
        "cc_client.simulator.__main__",
        "tests.story.frozen",
        "anyio._backends._asyncio",
        "uvicorn.lifespan.off",
        "tests.story.settled",
    ]
)
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")

JOURNAL = ("create", "append")
"""What makes items."""
ALL_WRITES = (*JOURNAL, "allot_number", "park", "wake", "wake_waiting", "claim")
"""Everything a task's life writes, but for leases, which every idle worker asks for."""


@dataclass(frozen=True)
class Kill:
    """Where a server kills itself: ``side`` of the ``at``-th of these operations of its store, from 1."""

    at: int
    side: str
    """``before`` (nothing was written) or ``after`` (it is durable, and nobody was told)."""
    operations: Sequence[str] = JOURNAL
    armed: Path | None = None
    """They are counted from when this file is there; None: from the start."""


def _only_notes(args: Sequence[Any]) -> bool:
    """Whether an append only says that somebody was told or looked: it comes whenever it comes, and is no boundary."""
    drafts = args[2] if len(args) > 2 and isinstance(args[2], Sequence) else ()
    return bool(drafts) and all(isinstance(one, Draft) and one.fact.kind == "review_noted" for one in drafts)


class DyingStore:
    """A store that kills its process at one of its operations."""

    def __init__(self, store: Store, kill: Kill) -> None:
        self._store = store
        self._kill = kill
        self._seen = 0

    def __getattr__(self, name: str) -> Any:
        operation: Callable[..., Awaitable[Any]] = getattr(self._store, name)
        return self._counted(operation) if name in self._kill.operations else operation

    def _counted(self, operation: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*args: Any, **named: Any) -> Any:
            if _only_notes(args) or not (self._kill.armed is None or self._kill.armed.exists()):
                return await operation(*args, **named)
            self._seen += 1
            here = self._seen == self._kill.at
            if here and self._kill.side == "before":
                _die()
            try:
                answer = await operation(*args, **named)
            except Conflict:
                # Somebody else was first, and it is tried anew: that one counts.
                self._seen -= 1
                raise
            if here:
                _die()
            return answer

        return counted


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class PromptedModel:
    """Plays the script that stands in the prompt of the task, so that one server plays every story."""

    name = "prompted"

    async def window(self) -> None:
        """It does not say."""

    async def reply(self, messages: Sequence[ChatMessage], **options: Any) -> ModelReply:
        """The next reply of the task's script; one with ``until`` is told, and whole once that file is there."""
        # What was before in its session may stand around it.
        goal = messages[1].content
        script, _ = json.JSONDecoder().raw_decode(goal[goal.index("[") :])
        place = sum(message.role == "assistant" for message in messages)
        said = script[place] if place < len(script) else None
        until = said.pop("until", None) if isinstance(said, dict) else None
        # The first of two parts is told with the second.
        part_chars = len(json.dumps(said)) - 1 if until else None
        reply = await ScriptedModel(script, part_chars=part_chars).reply(messages, **options)
        while until is not None and not os.path.exists(until):  # noqa: ASYNC110, ASYNC240, PTH110 - another process makes it
            await asyncio.sleep(0.02)
        return reply


def prompt(*script: Reply) -> str:
    """The prompt of a task that plays a script."""
    return json.dumps(script)


def unwrapped(store: Store) -> Store:
    """The store as it is."""
    return store


def _serve(home: Path, options: Mapping[str, Any], parts: Mapping[str, Any], told: Connection) -> None:
    from orchestrator.app.orchestrator import Orchestrator
    from orchestrator.app.serving import serve
    from orchestrator.runtime.settings import Settings

    log_to(home / "server.log")

    def ready(url: str, orchestrator: Orchestrator) -> None:
        del orchestrator
        told.send(url)
        told.close()

    asyncio.run(serve(Settings(data_dir=home, **options), ready=ready, **parts))


def _compute(log: Path, options: Sequence[str]) -> None:
    from cc_client.simulator.__main__ import main

    log_to(log)
    main(options)


def log_to(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(name)s: %(message)s", force=True)


class Process:
    """One process, ended with SIGKILL by its pid when the story ends."""

    def __init__(self, target: Callable[..., None], *args: Any) -> None:
        self._process: ForkServerProcess = CONTEXT.Process(target=target, args=args, daemon=True)
        self._process.start()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.is_alive()

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self._count()
        self._process.kill()
        self._process.join(HANG_S)

    def join(self) -> None:
        """Returns when it is gone, which it does by itself."""
        self._process.join(HANG_S)
        assert not self.alive

    @contextmanager
    def still(self) -> Iterator[None]:
        """It stands still meanwhile: it closes nothing and answers nothing."""
        pid = self._process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def stop(self) -> int | None:
        """SIGTERM; the exit code."""
        self._count()
        self._process.terminate()
        self._process.join(HANG_S)
        return self._process.exitcode

    def _count(self) -> None:
        """Count its CPU time for the record: nobody but the fork server can wait for it."""
        with suppress(OSError):
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
            forked.count((int(fields[11]) + int(fields[12])) * _TICK_S)

    async def gone(self) -> int | None:
        """The exit code, when the process has ended by itself."""
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        # No thread waits for it: a few hundred of them would wait for one another.
        loop.add_reader(self._process.sentinel, ended.set)
        try:
            async with asyncio.timeout(HANG_S):
                await ended.wait()
        finally:
            loop.remove_reader(self._process.sentinel)
        return self._process.exitcode


def start_server(
    home: Path,
    port: int = 0,
    *,
    wrap_store: Callable[[Store], Store] = unwrapped,
    model: ChatModel | None = None,
    **options: Any,
) -> tuple[Process, str]:
    """A server on ``port`` (0: one that stays free while it is down) and its URL; what it says is in ``server.log``.

    ``wrap_store`` and ``model`` go to its process as copies; None: a `PromptedModel`. ``options``: its settings.
    """
    hear, tell = CONTEXT.Pipe(duplex=False)
    home.mkdir(parents=True, exist_ok=True)
    parts = {"wrap_store": wrap_store, "model": model or PromptedModel()}
    process = Process(_serve, home, {**options, "port": port or free_port()}, parts, tell)
    tell.close()
    try:
        assert hear.poll(HANG_S), "the server did not start in time"
        return process, str(hear.recv())
    except EOFError:
        raise AssertionError(f"the server ended before it was ready:\n{tail(home / 'server.log')}") from None
    finally:
        hear.close()


def start_computer(disk: Path, url: str, token: str, *options: str) -> Process:
    """A simulated computer on a disk."""
    disk.mkdir(parents=True, exist_ok=True)
    arguments = [f"--url={url}", f"--token={token}", f"--disk={disk}", *options]
    return Process(_compute, disk.with_suffix(".log"), arguments)


def tail(log: Path, lines: int = 40) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-lines:]) if log.exists() else "(no log)"
