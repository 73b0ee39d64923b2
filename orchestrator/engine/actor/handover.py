"""A node is about to stop: its actors hand their tasks over.

Theory. First it begins: whoever acts comes to the next boundary between two effects, gives the lease back with the
task due at once, and another node, or the next start of this one, goes on within milliseconds. Who waits for a long
effect has time until it is let go: then the effect is canceled and the lease given back with its bracket open, which
the next holder settles. Nothing that has not begun by then begins.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator


class Leaving:
    """How far the leaving of one node is."""

    def __init__(self) -> None:
        self._begun = asyncio.Event()
        self.cuts_models = False
        """Whether nobody waits for a model's reply any more: the next actor asks again, and only tokens are lost."""
        self._over = False
        self._at_cut: list[Callable[[], object]] = []
        self._at_end: list[Callable[[], object]] = []

    @property
    def begun(self) -> bool:
        """Whether tasks are to be handed over."""
        return self._begun.is_set()

    @property
    def over(self) -> bool:
        """Whether what has not been handed over by itself is let go."""
        return self._over

    def begin(self, *, cut_models: bool) -> None:
        """Have the tasks handed over; ``cut_models``: without waiting for replies of models."""
        self._begun.set()
        if cut_models and not self.cuts_models:
            self.cuts_models = True
            _call(self._at_cut)

    def end(self) -> None:
        """Let go of what is still at work."""
        self.begin(cut_models=False)
        if not self._over:
            self._over = True
            _call(self._at_end)

    async def pause(self, seconds: float) -> None:
        """Sleep, but not into the leaving."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._begun.wait()

    def cutting(self, stop: Callable[[], object]) -> contextlib.AbstractContextManager[None]:
        """Call ``stop`` when models are cut, if that is while this is open."""
        return _listed(self._at_cut, stop)

    def letting_go(self, stop: Callable[[], object]) -> contextlib.AbstractContextManager[None]:
        """Call ``stop`` when what is at work is let go, if that is while this is open."""
        return _listed(self._at_end, stop)


@contextlib.contextmanager
def _listed(stops: list[Callable[[], object]], stop: Callable[[], object]) -> Iterator[None]:
    stops.append(stop)
    try:
        yield
    finally:
        stops.remove(stop)


def _call(stops: list[Callable[[], object]]) -> None:
    for stop in tuple(stops):
        stop()
