"""Ollama behind the port: one request, one reply, streamed, from whichever server has room.

A request differs from the one before only in its messages and the bound of the reply: another num_ctx would make Ollama
load the model again. A server's facts about a model (``/api/show``) are asked before the first request, and again after
an error. If the model is not there, another server is asked. A window longer than the model's own is not asked for.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from pydantic_core import to_json

from orchestrator.adapters.models.ollama_errors import (
    AskAnother,
    Broken,
    Silent,
    is_missing,
    missing,
    none_answers,
    refused,
)
from orchestrator.adapters.models.ollama_server import (
    Client,
    ModelFacts,
    OllamaApi,
    Refusal,
    counts_all,
    facts_of,
    is_of_cloud,
    loaded_context,
)
from orchestrator.adapters.models.options import OllamaOptions
from orchestrator.adapters.models.plain_http import Answer
from orchestrator.adapters.models.pool import Pool
from orchestrator.adapters.models.truncation import Counts
from orchestrator.core.errors import ModelFailed
from orchestrator.core.ports import ChatMessage, ModelReply, Window
from orchestrator.core.reply.response import MAX_REPLY_CHARS
from orchestrator.core.reply.schema import built_in_schema
from orchestrator.core.task.facts import Usage
from orchestrator.core.text.visible import one_line

logger = logging.getLogger(__name__)

_MAX_COUNT: Final = 2**31
_AGAIN_S: Final = 30.0
"""How long a server is not asked again about a model that it lacks or may not use, where another one can serve it,
and one that told nothing about it, perhaps since it was loading another."""
_LOADED_NS: Final = 500_000_000
"""A load_duration from here on means that the model was loaded for this request, perhaps with another window."""
_LAST_TOKENS: Final = 8
"""So many tokens may seem to be over the window without being so: the last token is counted and not kept."""

_ENDINGS: Final = {"": "stop", "stop": "stop", "length": "length"}
"""Ollama's done_reason, which old versions leave out, and ours; any other (``load``, ``unload``) ends no reply."""


_CLOUD = "https://ollama.com"
"""Where the models of the cloud run, whichever server they are asked of."""


@dataclass
class _Known:
    """The known facts of the model at one server."""

    api: OllamaApi
    facts: ModelFacts | None = None
    """None: it has to be asked."""
    unsure_until: float = 0.0
    """A time of the loop's clock; above 0 the server told nothing, and is asked again then."""
    barred: AskAnother | None = None
    """Why this server cannot serve this model, though it is well; None: it can, as far as is known."""
    barred_until: float = 0.0
    """A time of the loop's clock; until then the server is taken for unusable, where there is another one."""
    counts_all: bool | None = None
    loaded: int | None = None
    """The window with which it is loaded, once that was looked at; None: it is to be looked at."""
    can_say_think: bool = True
    """Whether the server takes ``think``; some versions refuse even ``false`` for some models."""
    counts: Counts = field(default_factory=Counts)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True)
class _Wanted:
    """One request for a reply."""

    messages: Sequence[ChatMessage]
    on_text: Callable[[str], None] | None
    max_output_tokens: int | None
    affinity: str
    one_computer: bool
    told: list[str] = field(default_factory=list)
    """The text so far; once there is some, no other server is asked."""

    def tell(self, part: str) -> None:
        """One more part of the text has come."""
        if part:
            self.told.append(part)
            if self.on_text is not None:
                self.on_text(part)


class OllamaModel:
    """A model of one or several Ollama servers, such as ``llama3.2:3b``.

    ``pool``: where models share their servers; None: this one has them for itself.
    """

    def __init__(self, model: str, options: OllamaOptions | None = None, pool: Pool | None = None) -> None:
        self.name = f"ollama:{model}"
        self._model = model
        self._options = options or OllamaOptions()
        self._pool = pool or Pool(self._options.endpoints)
        self._known = {url: _Known(OllamaApi(url, self._options)) for url in self._pool.urls}
        self._noted: set[str] = set()

    def keep(self) -> None:
        """Keep connections between requests from now on, until :meth:`close`."""
        for known in self._known.values():
            known.api.keep()

    async def close(self) -> None:
        """Close the connections that are kept."""
        for known in self._known.values():
            await known.api.close()

    @property
    def servers(self) -> Sequence[str]:
        """Where it is asked: of a model that Ollama only passes on to its makers, there too."""
        known = [one.facts for one in self._known.values() if one.facts is not None]
        is_passed_on = is_of_cloud(self._model) or any(facts.cloud for facts in known)
        return (*self._pool.urls, _CLOUD) if is_passed_on else self._pool.urls

    async def window(self) -> Window:
        """The window of a reply: num_ctx, or the model's own context where that is shorter. Raises ModelFailed.

        Where servers differ, the shortest window, so that a view fits each of them.
        """
        awake = [url for url in self._pool.urls if not self._pool.rests_s(url)] or self._pool.urls
        usable, failures = await self._usable(awake)
        if not usable:
            raise self._none(failures)
        return min((self._window(self._known[url]) for url in usable), key=lambda one: one.num_ctx)

    async def answers(self) -> bool:
        """Whether one of the servers answers by now; no reply is asked for."""
        answering = await asyncio.gather(*(one.api.answers() for one in self._known.values()))
        return any(answering)

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
        """The model's reply without what it thought; canceling closes the connection. Raises ModelFailed.

        A server that fails before any text has come is left for another one that has the model.
        """
        wanted = _Wanted(tuple(messages), on_text, max_output_tokens, affinity, one_computer)
        left, failures = list(self._pool.urls), list[ModelFailed]()
        while left:
            # A server that failed a moment ago is not even asked for facts while there are others.
            awake = [url for url in left if not self._pool.rests_s(url)] or left
            usable, failed = await self._usable(awake)
            failures += failed
            left = [url for url in left if url in usable or url not in awake]
            if not usable:
                continue
            async with self._pool.place(left, user=user, affinity=affinity) as url:
                # One that was left out may have rested by now, and is looked at first.
                why = None if url in usable else await self._unusable(url)
                if why is not None:
                    failures.append(why)
                    left.remove(url)
                    continue
                try:
                    reply = await self._from(self._known[url], wanted)
                except AskAnother as error:
                    if isinstance(error, Silent) and not await self._known[url].api.answers():
                        # It is not about this request: the server says nothing at all.
                        error.server = url
                    self._failed(url, error)
                    if wanted.told:
                        raise
                    failures.append(error)
                    left.remove(url)
                except ModelFailed:
                    self._known[url].facts = None
                    raise
                else:
                    self._pool.well(url)
                    return reply
        raise self._none(failures)

    # -- facts ---------------------------------------------------------------------------

    async def _usable(self, urls: Sequence[str]) -> tuple[list[str], list[ModelFailed]]:
        """The servers that have the model or may have it, and why the others cannot be used."""
        if all(self._is_known(self._known[url]) for url in urls):
            return list(urls), []
        found = await asyncio.gather(*(self._unusable(url) for url in urls))
        usable = [url for url, why in zip(urls, found, strict=True) if why is None]
        return usable, [why for why in found if why is not None]

    def _is_known(self, known: _Known) -> bool:
        """Whether the facts of the model at a server need no look."""
        return known.facts is not None and not 0 < known.unsure_until <= asyncio.get_running_loop().time()

    async def _unusable(self, url: str) -> ModelFailed | None:
        """The reason why a server cannot be used; None: it can, or nobody knows."""
        known, loop = self._known[url], asyncio.get_running_loop()
        async with known.asking:
            if self._is_known(known):
                return None
            if known.barred is not None and known.barred_until > loop.time():
                return known.barred
            known.unsure_until = 0.0
            try:
                known.facts = facts_of(self._model, await known.api.show(self._model), url)
                known.counts_all = counts_all(await self._version(known))
            except (TimeoutError, Broken):
                # Without facts it is asked as it was always.
                known.facts, known.unsure_until = facts_of(self._model, None, url), loop.time() + _AGAIN_S
                return None
            except Refusal as refusal:
                if not is_missing(refusal.status, refusal.said):
                    known.facts = facts_of(self._model, None, url)
                    return None
                error: AskAnother = missing(self._model, url, await known.api.names())
            except AskAnother as failure:
                error = failure
            else:
                self._note(url, known.facts)
                return self._cannot(known.facts)
            self._failed(url, error)
            return error

    async def _version(self, known: _Known) -> Any:
        try:
            return await known.api.version()
        except (Refusal, AskAnother, TimeoutError):
            return None

    def _cannot(self, facts: ModelFacts) -> ModelFailed | None:
        if facts.completes:
            return None
        return ModelFailed(
            f"The model '{one_line(self._model)}' writes no text: Ollama says that it is for "
            f"{one_line(', '.join(sorted(facts.capabilities)))}.",
            remedy="Choose one that completes text: `cc-orchestrator models list`.",
            lasting=True,
        )

    def _note(self, url: str, facts: ModelFacts) -> None:
        """Say once what a person would not expect."""
        window, options = self._options.within(facts.context), self._options
        if window.num_ctx < options.num_ctx:
            self._say(
                f"The model {self.name} at {url} has a context of {window.num_ctx} tokens: num_ctx is {window.num_ctx} "
                f"instead of {options.num_ctx}, and num_predict {window.num_predict}."
            )
        if facts.cloud:
            self._say(
                f"The model {self.name} runs in Ollama's cloud: what it is sent leaves this network, "
                "and nothing there holds its replies to their form."
            )

    def _say(self, sentence: str) -> None:
        if sentence not in self._noted:
            self._noted.add(sentence)
            logger.warning("%s", sentence)

    def _window(self, known: _Known) -> Window:
        return self._options.within(known.facts.context if known.facts is not None else None)

    def _failed(self, url: str, error: AskAnother) -> None:
        """What one failure of a server means for the next requests."""
        known = self._known[url]
        known.facts, known.loaded = None, None
        if error.lasting:
            # It is about this model: the server is well.
            known.barred, known.barred_until = error, asyncio.get_running_loop().time() + _AGAIN_S
        else:
            self._pool.rest(url)

    def _none(self, failures: Sequence[ModelFailed]) -> ModelFailed:
        """The error when no server can be used; the next request asks all of them again."""
        for known in self._known.values():
            known.barred = None
        return none_answers(failures)

    # -- one reply -----------------------------------------------------------------------

    async def _from(self, known: _Known, wanted: _Wanted) -> ModelReply:
        """The reply of one server. Raises ModelFailed, of it AskAnother where another one may do better."""
        whole_s = self._options.whole_s
        try:
            async with asyncio.timeout(whole_s), known.api.connected() as client:
                return await self._asked(known, client, self._request(known, wanted), wanted)
        except TimeoutError as error:
            raise ModelFailed(
                f"The model {self.name} had not finished after {whole_s:g} s.",
                remedy="Take a smaller model, or a smaller num_predict.",
            ) from error

    def _request(self, known: _Known, wanted: _Wanted) -> dict[str, Any]:
        thinks = known.facts is not None and known.facts.thinks and self._options.think == "auto"
        return {
            "model": self._model,
            "messages": wanted.messages,
            "stream": True,
            "format": _schema(one_computer=wanted.one_computer),
            "options": self._options.as_sent(self._window(known), wanted.max_output_tokens),
            "keep_alive": self._options.keep_alive,
            # Else the oldest messages, the task first, would be dropped without a word.
            "truncate": False,
            "shift": False,
            **({"think": False} if known.can_say_think and not thinks else {}),
        }

    async def _asked(self, known: _Known, client: Client, request: dict[str, Any], wanted: _Wanted) -> ModelReply:
        try:
            async with aclosing(await known.api.chat(client, request)) as response:
                return await self._read(known, response, wanted)
        except Refusal as refusal:
            if "think" in request and "does not support thinking" in refusal.said:
                known.can_say_think = False
            else:
                there = await known.api.names() if is_missing(refusal.status, refusal.said) else ()
                raise self._refused(known, refusal.status, refusal.body, there) from None
        return await self._asked(known, client, {key: request[key] for key in request if key != "think"}, wanted)

    async def _read(self, known: _Known, response: Answer, wanted: _Wanted) -> ModelReply:
        size, heard = 0, False
        async with aclosing(known.api.lines(response)) as lines:
            async for together in lines:
                for line in together:
                    chunk, part = known.api.read(line)
                    if "error" in chunk:
                        raise self._refused(known, 200, chunk)
                    if not heard and not chunk.get("done"):
                        heard = True
                        # While it speaks to us, Ollama cannot have loaded the model again for somebody else.
                        await self._look(known)
                    wanted.tell(part)
                    size += len(part)
                    if chunk.get("done") is True:
                        await known.api.to_end(response, lines)
                        return self._ended(known, chunk, wanted)
                    if size > MAX_REPLY_CHARS:
                        return ModelReply("".join(wanted.told), "length")
        # Ollama ends a stream of ever the same chunk so, without an error and without its last line.
        return ModelReply("".join(wanted.told), "aborted")

    def _ended(self, known: _Known, last: dict[str, Any], wanted: _Wanted) -> ModelReply:
        reason = str(last.get("done_reason") or "")
        ending = _ENDINGS.get(reason, "aborted")
        if ending == "aborted" and not wanted.told:
            raise AskAnother(
                f"Ollama at {known.api.url} gave no reply and ended with '{one_line(reason, limit=40)}': "
                "it only loaded or unloaded the model.",
                remedy="Try again; somebody may have stopped the model there.",
            )
        usage = Usage(input_tokens=_count(last.get("prompt_eval_count")), output_tokens=_count(last.get("eval_count")))
        self._must_be_whole(known, usage, wanted)
        took = last.get("load_duration")
        if isinstance(took, int) and took >= _LOADED_NS:
            known.loaded = None
        return ModelReply("".join(wanted.told), ending, usage)

    def _refused(self, known: _Known, status: int, body: Any, there: Sequence[str] = ()) -> ModelFailed:
        return refused(status, body, model=self._model, url=known.api.url, there=there)

    # -- what was cut without a word -----------------------------------------------------

    async def _look(self, known: _Known) -> None:
        """Look once, while the model speaks, with which window it was loaded. Raises ModelFailed for a smaller one."""
        if known.loaded is not None:
            return
        wanted = self._window(known).num_ctx
        try:
            loaded = loaded_context(self._model, await known.api.running())
        except (Refusal, AskAnother, TimeoutError):
            loaded = None
        if loaded is not None and loaded < wanted:
            raise ModelFailed(
                f"Ollama at {known.api.url} has loaded {self.name} with a window of {loaded} tokens, not the {wanted} "
                "that were asked for; the beginning of a conversation would be lost there, so the reply is not used.",
                remedy=f"Set num_ctx to {loaded} (--num-ctx {loaded}), or let Ollama load more.",
                lasting=True,
            )
        # 0: it does not say, and is not asked before the model is loaded again.
        known.loaded = loaded or 0

    def _must_be_whole(self, known: _Known, usage: Usage, wanted: _Wanted) -> None:
        """Raises ModelFailed where the counts show that the server has cut what it was sent, or its window."""
        url, read, said = known.api.url, usage.input_tokens, usage.output_tokens
        cloud = known.facts is not None and known.facts.cloud
        if known.loaded and not cloud and read + said > known.loaded + _LAST_TOKENS:
            raise ModelFailed(
                f"Ollama at {url} went on past its window: {read} tokens read and {said} written do not fit into "
                f"{known.loaded}, so it dropped the middle of the conversation, and the reply is not used.",
                remedy="Update Ollama to 0.30 or newer, or set a smaller num_predict.",
                lasting=True,
            )
        sent = known.counts.cut(wanted.messages, read, counts_all=known.counts_all, affinity=wanted.affinity)
        if sent is not None:
            raise ModelFailed(
                f"Ollama at {url} read {read} tokens of the at least {sent} that it was sent: it cut the conversation "
                "without a word, so the reply is not used.",
                remedy="Set num_ctx to what `ollama ps` shows there as CONTEXT, or update Ollama to 0.30 or newer.",
                lasting=True,
            )


@cache
def _schema(*, one_computer: bool) -> bytes:
    """The schema of a reply as JSON, which takes longer to write than the rest of a request."""
    return to_json(built_in_schema(one_computer=one_computer))


def _count(value: Any) -> int:
    """A count as it came; left out or nonsense: 0, which means that nobody said."""
    return value if isinstance(value, int) and 0 < value < _MAX_COUNT else 0
