"""Detects that a server cut the prompt without an error (models.md, sections 1 and 5).

``truncate: false`` makes Ollama refuse what does not fit; an old server or one that only looks like
Ollama may not know it, drops the oldest messages (the task goes first) and answers. Only its counts tell.

The rule, in what is certain only:
- A message has at least as many tokens as words between blanks, since no common tokenizer joins two such words;
  the text between blanks may be one token, as `don't` and `<|im_start|>` are. So the words of a view
  are a lower bound of its tokens; and where a view begins with an earlier one, which was counted,
  that count and the words of what has come since are a better one. The bound is carried on: a count that
  does not grow is noticed within a few turns.
- A count more than a tenth below the bound is an alarm. The tenth is for templates, which may leave
  out of an earlier message what they put into the last one.
- A count is believed only of a server that counts the whole prompt: Ollama since 0.30. Before, a prompt
  that was in the cache was left out, wholly or in part, and nothing can be distinguished. A server that says
  no version is believed once two requests in a row were counted whole, though their beginnings must have
  been in its cache. Without a count there is no alarm.
- Who cuts keeps the system's messages and the last one. A count below their words (or below what the
  smallest window leaves, where they are longer than that) is a number out of the air, and no alarm.
"""

import inspect
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.core.ports import ChatMessage, ChatModel, ModelReply, Window

# -- Models that somebody else wrote for an earlier form of the port: what they cannot take is not handed to them

_LATER: Final = ("user", "affinity", "one_computer")
"""The later keywords of ``reply``: since version 0.5.0, and the last one since 0.7.0."""


def as_it_is(model: Any) -> ChatModel:
    """The model itself where it has the whole port, else a model that uses the part that it has."""
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


# -- Noticing that a server has cut what it was sent, without a word (models.md, sections 1 and 5)

SLACK: Final = 0.9
_WORD: Final = re.compile(r"[A-Za-z]\S*+")
"""A text between blanks, from its first letter on; without a letter it is none: tokenizers treat all other signs
differently."""
_BLANKS: Final = bytes(32 if chr(code).isspace() else code for code in range(256))
_SIGNS: Final = bytes(code for code in range(128) if not chr(code).isalpha() and not chr(code).isspace())
_REMEMBERED: Final = 256
"""Conversations; a forgotten one begins with its words again."""
_CALIBRATED: Final = 2
_LEAST_LEFT: Final = 512
"""Tokens that are left of a conversation after it was cut, in a window of 1024: half of it is kept free."""
_PER_MESSAGE: Final = 16
"""Tokens that a template puts around a message at most."""


@dataclass(frozen=True)
class _Counted:
    """The view of a conversation's last request, and what it must have had in tokens at least."""

    seen: tuple[int, ...]
    """A hash of each of its messages."""
    least: int
    whole: int
    """Requests in a row whose count cannot have left the cache out."""
    words: Mapping[int, int]
    """The words of each message, by its hash: where older steps lost detail, most messages are as before."""


class Counts:
    """What the replies of one model at one server tell of the lengths of its prompts."""

    def __init__(self) -> None:
        self._counted: OrderedDict[str | tuple[int, ...], _Counted] = OrderedDict()

    def cut(
        self, messages: Sequence[ChatMessage], count: int, *, counts_all: bool | None, affinity: str = ""
    ) -> int | None:
        """The tokens that were certainly sent, where the server's ``count`` shows that it read fewer; else None.

        ``count``: tokens of the prompt as the reply says, 0: it does not. ``counts_all``: whether the server
        counts what is in its cache too; None: nobody knows. ``affinity`` names the conversation.
        """
        if count <= 0 or counts_all is False:
            return None
        seen = tuple([hash((one.role, one.content)) for one in messages])
        key = affinity or seen[:2]
        before = self._counted.get(key)
        old = before.words if before is not None else {}
        told = {one: old[one] if one in old else _words(said.content) for one, said in zip(seen, messages, strict=True)}
        if before is not None and seen[: len(before.seen)] != before.seen:
            before = None
        known = len(before.seen) if before is not None else 0
        since = messages[known:]
        least = (before.least if before is not None else 0) + sum([told[name] for name in seen[known:]])
        whole = before.whole if before is not None else 0
        believed = counts_all or whole >= _CALIBRATED
        if count < SLACK * least:
            self._counted.pop(key, None)
            kept = words([one for one in messages[:-1] if one.role == "system"]) + words(messages[-1:])
            return least if believed and count >= min(kept, _LEAST_LEFT) else None
        if before is not None and count > most(since):
            whole += 1
        self._counted[key] = _Counted(seen, max(least, count), whole, told)
        self._counted.move_to_end(key)
        if len(self._counted) > _REMEMBERED:
            self._counted.popitem(last=False)
        return None


def words(messages: Sequence[ChatMessage]) -> int:
    """The fewest tokens that messages can have."""
    return sum(_words(one.content) for one in messages)


def _words(text: str) -> int:
    # With letters and blanks alone it is what is between blanks, which is found in a fifth of the time.
    return len(text.encode().translate(_BLANKS, _SIGNS).split() if text.isascii() else _WORD.findall(text))


def most(messages: Sequence[ChatMessage]) -> int:
    """The most tokens that messages can have: every byte its own, and the template around each."""
    return sum(len(one.content.encode("utf-8", "replace")) + _PER_MESSAGE for one in messages)
