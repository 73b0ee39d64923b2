"""The verification that a node makes for all who ask: one at a time, with progress, and no longer than they ask."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.core.errors import NotPending
from orchestrator.history.audit.bulk import processes_here
from orchestrator.history.audit.checkpoint import Checkpoints
from orchestrator.history.audit.onward import Lookable
from orchestrator.history.audit.verification import Told, Verification, verify_store

LEFT_S: Final = 10.0
"""How soon who was told of the progress has to ask again."""


@dataclass
class VerifyJob:
    """The one verification of a node; askers while it goes on hear of the same one."""

    verify: Callable[[Told, bool | None], Coroutine[Any, Any, Verification]]
    """With whom to tell, and whether all is to be read (see ``verify_store``)."""
    left_s: float = LEFT_S
    done: int = 0
    of: int = 0
    """Streams; 0: it has just begun."""
    _job: "asyncio.Task[Verification] | None" = None
    _full: bool | None = None
    _asking: int = 0
    _leaving: asyncio.TimerHandle | None = field(default=None, repr=False)

    async def ask(
        self, wait_s: float | None, gone: Awaitable[object], *, full: bool | None = None
    ) -> Verification | None:
        """What it found; None: it goes on, and the caller has to ask again soon, or is ``gone``.

        ``wait_s`` None: until it is found. ``full``: as of ``verify_store``. If an asker wants more than the present
        one reads, it begins again, and all askers hear of that.
        """
        if self._leaving is not None:
            self._leaving.cancel()
        leaving = asyncio.ensure_future(gone)
        self._asking += 1
        job = self._begun(full)
        try:
            while True:
                await asyncio.wait((job, leaving), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                if not job.done():
                    return None
                if self._job in {None, job}:
                    self._over(job)
                    if job.cancelled():
                        raise NotPending(
                            f"The verification was canceled after {self.done} of {self.of} streams.",
                            remedy="What it had read is noted: in a large store `audit verify` goes on from there.",
                        )
                    return await job
                job = self._begun(full)
        finally:
            self._asking -= 1
            if not self._asking and not job.done():
                self._leaving = asyncio.get_running_loop().call_later(
                    0 if leaving.done() else self.left_s, self._left, job
                )
            leaving.cancel()

    def _begun(self, full: bool | None) -> "asyncio.Task[Verification]":
        """The one that goes on, if it reads enough; else a new one in its place."""
        if self._job is not None and _amount(self._full) < _amount(full):
            self._job.cancel()
            self._job = None
        if self._job is None:
            self.done = self.of = 0
            self._full = full
            self._job = asyncio.create_task(self.verify(self._told, full))
        return self._job

    def cancel(self) -> bool:
        """End the present one, for all who ask. False: there is none."""
        job, self._job = self._job, None
        return job is not None and job.cancel()

    async def close(self) -> None:
        """Let go of it."""
        if self._job is not None:
            self._job.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._job

    def _told(self, done: int, of: int) -> None:
        self.done, self.of = done, of

    def _left(self, job: "asyncio.Task[Verification]") -> None:
        if not self._asking:
            job.cancel()
            self._over(job)

    def _over(self, job: "asyncio.Task[Verification]") -> None:
        if self._job is job:
            self._job = None


def verify_job(store: Lookable, checkpoints: Checkpoints) -> VerifyJob:
    """The verifications of one store."""
    processes = processes_here()
    return VerifyJob(lambda told, full: verify_store(store, checkpoints, told=told, full=full, processes=processes))


def _amount(full: bool | None) -> int:
    """How much is read, to compare."""
    return {False: 0, None: 1, True: 2}[full]
