"""The port of the models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from orchestrator.core.facts import Usage


@dataclass(frozen=True)
class ChatMessage:
    """One message of the view that a model is sent."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class ModelReply:
    """One whole reply."""

    text: str
    done_reason: str = "stop"
    """``stop``, ``length`` (cut at the limit) or ``aborted`` (the stream ended without its last line)."""
    usage: Usage = field(default_factory=Usage)


class ChatModel(Protocol):
    """One request, one structured reply; no native tool calls."""

    @property
    def name(self) -> str:
        """The name tasks and logs show."""

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
    ) -> ModelReply:
        """The next reply to these messages, whole; canceling the wait stops the generation.

        ``on_text`` is told the text as it comes, in parts that add up to the reply's (None: nobody
        looks; a model that cannot stream says all at once). ``max_output_tokens`` bounds the reply;
        None: the model's own bound. Raises ModelFailed.
        """
