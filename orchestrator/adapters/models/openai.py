"""A model of a server that speaks OpenAI's API, behind the port: one request, one reply, held to its form.

Such servers take different forms, so a reply is asked for by its JSON schema, else as any JSON object, else in words
alone. A setting that the server refuses by its name is left out. The form that a server takes is remembered with the
model until a request fails, so it costs a try only then.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.adapters.models.ollama_errors import Silent
from orchestrator.adapters.models.ollama_server import Client, Refusal
from orchestrator.adapters.models.openai_server import ModelServer, ServerFacts, may_be_the_form, refused, surplus
from orchestrator.adapters.models.options import ServerOptions
from orchestrator.adapters.models.truncation import Counts
from orchestrator.core.errors import ModelFailed
from orchestrator.core.ports import ChatMessage, ModelReply, Window
from orchestrator.core.reply.response import MAX_REPLY_CHARS
from orchestrator.core.reply.schema import built_in_schema
from orchestrator.core.task.facts import Usage

logger = logging.getLogger(__name__)

_FORMS: Final = ("json_schema", "json_object", "")
"""How the form of a reply is asked for, the strictest first; empty: in words alone."""
_ENDINGS: Final = {"stop": "stop", "eos": "stop", "length": "length", "tool_calls": "stop"}
_LAST_TOKENS: Final = 8
"""So many tokens may seem to be over the window without being so: the last token is counted and not kept."""
_MAX_COUNT: Final = 2**31
_FRESH_S: Final = 10.0
"""Seconds for which the window of a server is believed: a person may load the model with another one at any time."""


@dataclass
class _Reply:
    """A reply as it comes."""

    on_text: Callable[[str], None] | None
    text: list[str] = field(default_factory=list)
    size: int = 0
    reason: str = ""
    over: bool = False
    usage: Usage = field(default_factory=Usage)

    def take(self, event: dict[str, Any], *, over: bool) -> None:
        """One more event."""
        self.over = self.over or over
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        said = choice.get("delta") or choice.get("message") or {}
        part = said.get("content") if isinstance(said, dict) else None
        if isinstance(part, str) and part:
            self.text.append(part)
            self.size += len(part)
            if self.on_text is not None:
                self.on_text(part)
        self.reason = str(choice.get("finish_reason") or "") or self.reason
        used = event.get("usage")
        if isinstance(used, dict):
            self.usage = Usage(
                input_tokens=_count(used.get("prompt_tokens")), output_tokens=_count(used.get("completion_tokens"))
            )

    def ended(self) -> ModelReply:
        """The reply; one without an end was broken off."""
        ending = _ENDINGS.get(self.reason, "aborted") if self.reason else "stop" if self.over else "aborted"
        return ModelReply("".join(self.text), ending, self.usage)


class ServedModel:
    """A model of one server, such as ``qwen2.5-coder-7b-instruct`` of an LM Studio."""

    def __init__(self, model: str, options: ServerOptions) -> None:
        self.name = f"openai-chat:{model}"
        self._model = model
        self._options = options
        self._server = ModelServer(options.url, options)
        self._facts: ServerFacts | None = None
        """None: it has to be asked."""
        self._fresh_until = 0.0
        """A time of the loop's clock."""
        self._form = 0
        """The place of the form that the server takes, as far as is known."""
        self._surplus: set[str] = set()
        """Settings that the server refuses by their names, as far as is known."""
        self._counts = Counts()
        self._barred: ModelFailed | None = None
        """Why the window was not told, where that stays so: the reply that is asked for next fails with it."""
        self._asking = asyncio.Lock()
        self._noted: set[str] = set()

    def keep(self) -> None:
        """Keep connections between requests from now on, until :meth:`close`."""
        self._server.keep()

    async def close(self) -> None:
        """Close the connections that are kept."""
        await self._server.close()

    @property
    def servers(self) -> Sequence[str]:
        """The servers where the model is asked."""
        return (self._server.url,)

    async def window(self) -> Window:
        """The window: num_ctx, or that of the server where it says so and it is shorter. Raises ModelFailed."""
        self._barred = None
        try:
            return self._window(await self._known(again=asyncio.get_running_loop().time() >= self._fresh_until))
        except ModelFailed as error:
            self._barred = error if error.lasting else None
            raise

    async def answers(self) -> bool:
        """Whether the server answers by now; no reply is asked for."""
        return await self._server.answers()

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
        """The model's reply without what it thought; canceling closes the connection. Raises ModelFailed."""
        del user
        barred, self._barred = self._barred, None
        if barred is not None:
            # A key that was refused is not sent again for the same answer.
            raise barred
        facts = await self._known()
        whole_s = self._options.whole_s
        request = self._request(messages, self._window(facts), max_output_tokens)
        try:
            async with asyncio.timeout(whole_s), self._server.connected() as client:
                reply = await self._in_a_form(client, request, on_text, facts, one_computer=one_computer)
        except TimeoutError as error:
            raise ModelFailed(
                f"The model {self.name} had not finished after {whole_s:g} s.",
                remedy="Take a smaller model, or a smaller num_predict.",
            ) from error
        except Silent as error:
            self._facts = None
            if not await self._server.answers():
                error.server = self._server.url
            raise
        except ModelFailed:
            self._facts = None
            raise
        self._must_be_whole(facts, messages, reply.usage, affinity)
        return reply

    # -- facts ---------------------------------------------------------------------------

    async def _known(self, *, again: bool = False) -> ServerFacts:
        """What the server says of itself; ``again``: it is asked even where that is known."""
        async with self._asking:
            known = self._facts
            if known is not None and not again:
                return known
            try:
                facts = await self._server.facts(self._model)
            except Refusal as refusal:
                raise self._refused(refusal.status, refusal.body) from None
            except TimeoutError:
                # It is busy, and taken for what it was, or for one that does not say.
                return known or ServerFacts()
            self._fresh_until = asyncio.get_running_loop().time() + _FRESH_S
            if facts != known:
                self._note(facts)
                # It may be another program, or another version: the strictest form is tried again.
                self._form = 0
                self._surplus.clear()
            self._facts = facts
            return facts

    def _note(self, facts: ServerFacts) -> None:
        """Say once what a person would not expect."""
        url, window = self._options.url, self._window(facts)
        if facts.program == "Ollama":
            self._say(
                f"What answers at {url} is Ollama, which cuts conversations here without a word: "
                f"say --model ollama:{self._model} --ollama-url {self._server.root} instead."
            )
        elif facts.context is None and self._options.num_ctx is None:
            self._say(
                f"The model server at {url} does not say how long its window is: it is taken for "
                f"{window.num_ctx} tokens. Set --num-ctx to the value that it was started with."
            )
        elif self._options.num_ctx is not None and window.num_ctx < self._options.num_ctx:
            self._say(
                f"The model server at {url} has a window of {window.num_ctx} tokens: num_ctx is {window.num_ctx} "
                f"instead of {self._options.num_ctx}, and num_predict {window.num_predict}."
            )

    def _say(self, sentence: str) -> None:
        if sentence not in self._noted:
            self._noted.add(sentence)
            logger.warning("%s", sentence)

    def _window(self, facts: ServerFacts) -> Window:
        return self._options.within(facts.context)

    # -- one reply -----------------------------------------------------------------------

    def _request(self, messages: Sequence[ChatMessage], window: Window, most: int | None) -> dict[str, Any]:
        options = self._options
        bound = window.num_predict if most is None else min(window.num_predict, most)
        thinks = {} if options.think == "auto" else {"chat_template_kwargs": {"enable_thinking": False}}
        return {
            "model": self._model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": max(1, bound),
            "temperature": options.temperature,
            "seed": options.seed,
            **thinks,
        }

    async def _in_a_form(
        self,
        client: Client,
        request: dict[str, Any],
        on_text: Callable[[str], None] | None,
        facts: ServerFacts,
        *,
        one_computer: bool,
    ) -> ModelReply:
        """The reply in the strictest form that the server takes, which is remembered."""
        first: ModelFailed | None = None
        for place in range(self._form, len(_FORMS)):
            try:
                reply = await self._taken(
                    client, {**request, **_form(_FORMS[place], one_computer=one_computer)}, on_text
                )
            except Refusal as refusal:
                error = self._refused(refusal.status, refusal.body, facts.names)
                first = first or error
                if not may_be_the_form(refusal.status, refusal.body):
                    raise error from None
            else:
                if place != self._form:
                    how = f"takes {_FORMS[place]}" if _FORMS[place] else "takes words alone"
                    self._say(f"The model server at {self._options.url} holds replies to no schema: it {how}.")
                self._form = place
                return reply
        assert first is not None, "there is always a form that was not tried"
        raise first

    async def _taken(
        self, client: Client, request: dict[str, Any], on_text: Callable[[str], None] | None
    ) -> ModelReply:
        """The reply to a request without the settings that the server refuses, which are remembered."""
        while True:
            sent = {name: value for name, value in request.items() if name not in self._surplus}
            try:
                return await self._asked(client, sent, on_text)
            except Refusal as refusal:
                name = surplus(refusal.status, refusal.body, sent)
                if name is None:
                    raise
                self._surplus.add(name)

    async def _asked(
        self, client: Client, request: dict[str, Any], on_text: Callable[[str], None] | None
    ) -> ModelReply:
        reply = _Reply(on_text)
        response = await self._server.chat(client, request)
        async with aclosing(response), aclosing(self._server.events(response)) as events:
            async for event, over in events:
                if event.get("error"):
                    if not reply.size:
                        raise Refusal(_status(event), json.dumps(event))
                    raise self._refused(200, event)
                reply.take(event, over=over)
                if reply.size > MAX_REPLY_CHARS:
                    return ModelReply("".join(reply.text), "length")
        return reply.ended()

    def _refused(self, status: int, body: Any, there: Sequence[str] = ()) -> ModelFailed:
        return refused(status, body, model=self._model, url=self._options.url, there=there)

    # -- what was cut without a word -----------------------------------------------------

    def _must_be_whole(self, facts: ServerFacts, messages: Sequence[ChatMessage], usage: Usage, affinity: str) -> None:
        """Raises ModelFailed where the counts show that the server has cut what it was sent, or its window."""
        url, read, said = self._options.url, usage.input_tokens, usage.output_tokens
        if facts.context is not None and read + said > facts.context + _LAST_TOKENS:
            raise ModelFailed(
                f"The model server at {url} went on past its window: {read} tokens read and {said} written do not fit "
                f"into {facts.context}, so it dropped a part of the conversation, and the reply is not used.",
                remedy="Start it without context shift, or set a smaller num_predict.",
                lasting=True,
            )
        sent = self._counts.cut(messages, read, counts_all=facts.counts_all, affinity=affinity)
        if sent is not None:
            raise ModelFailed(
                f"The model server at {url} read {read} tokens of the at least {sent} that it was sent: it cut the "
                "conversation without a word, so the reply is not used.",
                remedy="Set --num-ctx to the window with which the model is loaded there, or load it with a longer "
                "one.",
                lasting=True,
            )


def _form(kind: str, *, one_computer: bool) -> dict[str, Any]:
    match kind:
        case "json_schema":
            schema = {"name": "reply", "strict": True, "schema": built_in_schema(one_computer=one_computer)}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
    return {}


def _status(event: dict[str, Any]) -> int:
    """The status that an error in a stream has, 200: it says none."""
    error = event["error"]
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 200


def _count(value: Any) -> int:
    """A count as it came; left out or nonsense: 0, which means that nobody said."""
    return value if isinstance(value, int) and 0 < value < _MAX_COUNT else 0
