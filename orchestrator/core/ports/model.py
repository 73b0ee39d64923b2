"""The port of the models; ``Window`` is the core's."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from ipaddress import ip_address
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

from orchestrator.core.model_view.prompt import Window
from orchestrator.core.task.facts import Usage

__all__ = ["ChatMessage", "ChatModel", "ModelReply", "Window", "is_local", "server_answers"]


@dataclass(frozen=True)
class ChatMessage:
    """One message of the view that a model is sent."""

    role: Literal["system", "user", "assistant"]
    content: str

    @cached_property
    def as_json(self) -> bytes:
        """The message as a JSON object, made once: a view keeps its messages from request to request.

        Half of a surrogate pair is an escape in it.
        """
        return f'{{"role": "{self.role}", "content": {json.encoder.encode_basestring_ascii(self.content)}}}'.encode()


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

    async def window(self) -> Window | None:
        """The window that the next reply will have; None: the model does not say.

        It may be asked before every reply: the answer is remembered. Raises ModelFailed, as ``reply`` does.
        """

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
        """The next reply to these messages, whole; canceling the wait stops the generation.

        ``on_text`` is told the text as it comes, in parts that add up to the reply's (None: nobody
        looks; a model that cannot stream says all at once). ``max_output_tokens`` bounds the reply;
        None: the model's own bound. ``user`` is for whom it is asked: those who wait for one model are
        served in turn. ``affinity`` names the conversation, such as the task's id: who has read its
        beginning already answers sooner; a conversation that grows is sent the same beginning each time.
        Both may be empty. ``one_computer``: the task has one computer or none, so a model that is bound to a
        schema needs no argument that names one. Raises ModelFailed, with ``server`` where its server cannot be
        reached now.
        """


async def server_answers(model: ChatModel) -> bool:
    """Whether the server of a model gives a sign of life, within a few seconds and without a request for a reply.

    A model tells by a method ``answers``. One that has none is taken to answer: only a request for a reply can tell.
    """
    answers = getattr(model, "answers", None)
    return True if answers is None else bool(await answers())


_HERE: Final = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
"""Ends of names that no public server has."""


def is_local(model: ChatModel) -> bool:
    """Whether all that a model is sent stays on this machine or in its network, by the addresses of its servers.

    A model tells them by an attribute ``servers``, which is empty where it asks nobody. A model without it counts as
    hosted: nobody knows where its texts go.
    """
    servers: Sequence[str] | None = getattr(model, "servers", None)
    return servers is not None and all(_is_near(address) for address in servers)


@lru_cache(maxsize=256)
def _is_near(address: str) -> bool:
    """Whether an address is of this machine or of a private network; a name without a dot is of its network."""
    try:
        host = (urlsplit(address if "://" in address else f"//{address}").hostname or "").rstrip(".").lower()
    except ValueError:
        return False
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return bool(host) and ("." not in host or host.endswith(_HERE))
    return found.is_loopback or found.is_private or found.is_link_local
