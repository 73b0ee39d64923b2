"""Models that somebody else wrote for an earlier form of the port: what they cannot take is not handed to them."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from orchestrator.core.ports import ChatMessage, ChatModel, ModelReply, Window

_LATER: Final = ("user", "affinity", "one_computer")
"""What ``reply`` has been given since version 0.5.0; the last one since 0.7.0."""


def as_it_is(model: Any) -> ChatModel:
    """The model itself where it has the whole port, else one that asks it for what it has."""
    taken = _taken(model.reply)
    if hasattr(model, "window") and taken == frozenset(_LATER):
        whole: ChatModel = model
        return whole
    return _Earlier(model, taken)


def _taken(reply: Callable[..., Any]) -> frozenset[str]:
    """Which of the later keywords it takes; all, where that cannot be told."""
    try:
        parameters = inspect.signature(reply).parameters
    except (TypeError, ValueError):
        return frozenset(_LATER)
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return frozenset(_LATER)
    return frozenset(name for name in _LATER if name in parameters)


class _Earlier:
    def __init__(self, model: Any, taken: frozenset[str]) -> None:
        self._model = model
        self._taken = taken

    @property
    def name(self) -> str:
        return str(self._model.name)

    @property
    def servers(self) -> Sequence[str] | None:
        servers: Sequence[str] | None = getattr(self._model, "servers", None)
        return servers

    async def window(self) -> Window | None:
        window: Window | None = await self._model.window() if hasattr(self._model, "window") else None
        return window

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
        later = {"user": user, "affinity": affinity, "one_computer": one_computer}
        kept = {name: later[name] for name in self._taken}
        reply: ModelReply = await self._model.reply(
            messages, on_text=on_text, max_output_tokens=max_output_tokens, **kept
        )
        return reply
