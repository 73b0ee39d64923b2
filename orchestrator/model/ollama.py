"""Ollama behind the port, over its own ``/api/chat``: one request, one reply, streamed.

Its OpenAI-compatible door ignores num_ctx and keep_alive, and its Python client can neither forbid
truncation nor tell a stream that ended early from one that was finished (models.md, section 1); so
the few lines of the protocol are spoken here. What is sent never varies but for the messages and
the bound of the reply: another num_ctx would make Ollama load the model anew.
"""

import asyncio
import ipaddress
import json
import re
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import httpx2

from orchestrator.core.errors import ModelFailed
from orchestrator.core.facts import Usage
from orchestrator.core.response import MAX_REPLY_CHARS
from orchestrator.core.schema import reply_schema
from orchestrator.core.visible import one_line
from orchestrator.model.ollama_errors import refused, unwrapped
from orchestrator.model.options import OllamaOptions
from orchestrator.ports import ChatMessage, ModelReply

_MAX_LINE_BYTES: Final = 4_000_000
"""A whole unstreamed reply in one line, every character of it escaped."""
_MAX_ERROR_BYTES: Final = 65_536
_MAX_COUNT: Final = 2**31
_SHOWN_CHARS: Final = 80
_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody. Loading the certificates of the world takes 34 ms a request, and loopback needs none."""
_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")

_ENDINGS: Final = {"": "stop", "stop": "stop", "length": "length"}
"""Ollama's done_reason, which old versions leave out, and ours; any other (``load``, ``unload``) ends no reply."""


class OllamaModel:
    """A model of an Ollama server, such as ``llama3.2:3b``."""

    def __init__(self, model: str, options: OllamaOptions | None = None) -> None:
        self.name = f"ollama:{model}"
        self._model = model
        self._options = options or OllamaOptions()
        self._format = reply_schema()
        self._can_say_think = True
        """Whether the server takes ``think``; some versions refuse even ``false`` for some models."""

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
    ) -> ModelReply:
        """The model's reply without what it thought; canceling closes the connection. Raises ModelFailed."""
        options, url = self._options, self._options.url
        try:
            async with asyncio.timeout(options.whole_s), self._client() as client:
                return await self._asked(client, self._request(messages, max_output_tokens), on_text)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise ModelFailed(
                f"Ollama is not running at {url}.",
                remedy="Start it with `ollama serve`, or say where it listens: OLLAMA_HOST or --ollama-url.",
            ) from error
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
            raise ModelFailed(
                f"The connection to Ollama at {url} broke: {one_line(str(error)) or type(error).__name__}.",
                remedy="Look at Ollama's log: it may have stopped.",
            ) from error
        except TimeoutError as error:
            raise ModelFailed(
                f"The model {self.name} had not finished after {options.whole_s:g} s.",
                remedy="Take a smaller model, or a smaller num_predict.",
            ) from error

    def _request(self, messages: Sequence[ChatMessage], max_output_tokens: int | None) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": [{"role": one.role, "content": one.content} for one in messages],
            "stream": True,
            "format": self._format,
            "options": self._options.as_sent(max_output_tokens),
            "keep_alive": self._options.keep_alive,
            # Else the oldest messages, the task first, would be dropped without a word.
            "truncate": False,
            "shift": False,
            **({"think": False} if self._can_say_think else {}),
        }

    def _client(self) -> httpx2.AsyncClient:
        options = self._options
        url = httpx2.URL(options.url)
        loopback = _is_loopback(url.host)
        headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        if options.api_key and url.scheme == "https":
            headers["Authorization"] = f"Bearer {options.api_key}"
        return httpx2.AsyncClient(
            base_url=url,
            headers=headers,
            # The waits for an answer are bounded below, differently before and after its first line.
            timeout=httpx2.Timeout(None, connect=options.connect_s),
            # A proxy of the environment knows nothing of this host's own addresses.
            trust_env=not loopback,
            verify=_NO_TLS if loopback and url.scheme == "http" else True,
            follow_redirects=False,
        )

    async def _asked(
        self, client: httpx2.AsyncClient, request: dict[str, Any], on_text: Callable[[str], None] | None
    ) -> ModelReply:
        response = await self._sent(client, request)
        try:
            if response.status_code == 200:
                return await self._read(response, on_text)
            body = await self._error(response)
        finally:
            await response.aclose()
        if "think" in request and "does not support thinking" in unwrapped(body)[0]:
            self._can_say_think = False
            return await self._asked(client, {key: request[key] for key in request if key != "think"}, on_text)
        raise await self._refusal(client, response, body)

    async def _sent(self, client: httpx2.AsyncClient, request: Mapping[str, Any]) -> httpx2.Response:
        # Written by hand: half of a surrogate pair in a message is an escape here, and an exception in httpx2.
        content = json.dumps(request).encode()
        try:
            async with asyncio.timeout(self._options.first_token_s):
                return await client.send(client.build_request("POST", "/api/chat", content=content), stream=True)
        except TimeoutError:
            raise self._silent(self._options.first_token_s) from None

    async def _read(self, response: httpx2.Response, on_text: Callable[[str], None] | None) -> ModelReply:
        parts: list[str] = []
        size = 0
        async with aclosing(self._lines(response)) as lines:
            async for line in lines:
                chunk = self._chunk(line)
                part = self._content(chunk, line)
                if part:
                    parts.append(part)
                    size += len(part)
                    if on_text is not None:
                        on_text(part)
                if chunk.get("done") is True:
                    ending = _ENDINGS.get(str(chunk.get("done_reason") or ""), "aborted")
                    return ModelReply("".join(parts), ending, _usage(chunk))
                if size > MAX_REPLY_CHARS:
                    return ModelReply("".join(parts), "length")
        # Ollama ends a stream of ever the same chunk so, without an error and without its last line.
        return ModelReply("".join(parts), "aborted")

    async def _lines(self, response: httpx2.Response) -> AsyncGenerator[bytes]:
        """The lines of the answer that are not blank, each within its time; what broke off is left out."""
        loop = asyncio.get_running_loop()
        pending: list[bytes] = []
        size = 0
        limit = self._options.first_token_s
        deadline = loop.time() + limit
        async with aclosing(response.aiter_raw()) as arriving:
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        data = await anext(arriving, b"")
                except TimeoutError:
                    raise self._silent(limit) from None
                *whole, rest = data.split(b"\n")
                for piece in whole:
                    line = b"".join((*pending, piece)).strip()
                    pending, size = [], 0
                    if line:
                        yield line
                        limit = self._options.silence_s
                        deadline = loop.time() + limit
                pending.append(rest)
                size += len(rest)
                if not data:
                    break
                if size > _MAX_LINE_BYTES:
                    raise self._nonsense(pending[0])
        line = b"".join(pending)
        if _loaded(line) is not None:
            yield line

    def _chunk(self, line: bytes) -> dict[str, Any]:
        chunk = _loaded(line)
        if chunk is None:
            raise self._nonsense(line)
        if "error" in chunk:
            raise refused(200, chunk, model=self._model, url=self._options.url)
        return chunk

    def _content(self, chunk: Mapping[str, Any], line: bytes) -> str:
        message = chunk.get("message") or {}
        content = (message.get("content") or "") if isinstance(message, dict) else None
        # Half of a surrogate pair could not be kept as it came, and a file must not be written otherwise.
        if not isinstance(content, str) or _HALF_PAIR.search(content):
            raise self._nonsense(line)
        return content

    async def _error(self, response: httpx2.Response) -> str:
        body = b""
        try:
            async with asyncio.timeout(self._options.silence_s), aclosing(response.aiter_raw()) as arriving:
                async for data in arriving:
                    body += data
                    if len(body) > _MAX_ERROR_BYTES:
                        break
        except TimeoutError:
            pass
        return body[:_MAX_ERROR_BYTES].decode("utf-8", "replace")

    async def _refusal(self, client: httpx2.AsyncClient, response: httpx2.Response, body: str) -> ModelFailed:
        url, status = self._options.url, response.status_code
        if 300 <= status < 400:
            target = one_line(response.headers.get("location", "nowhere"))
            return ModelFailed(
                f"{url} redirects to {target}, which is not followed.",
                remedy="Say where Ollama itself listens: OLLAMA_HOST or --ollama-url.",
            )
        there = await _models(client, self._options.connect_s) if status == 404 else []
        return refused(status, body, model=self._model, url=url, there=there)

    def _silent(self, limit: float) -> ModelFailed:
        return ModelFailed(
            f"Ollama at {self._options.url} said nothing for {limit:g} s.",
            remedy="The model may be too large for this host: look at `ollama ps`, or take a smaller one.",
        )

    def _nonsense(self, line: bytes) -> ModelFailed:
        shown = one_line(line[: 4 * _SHOWN_CHARS].decode("utf-8", "replace"), limit=_SHOWN_CHARS)
        return ModelFailed(
            f"{self._options.url} answered with something that Ollama does not say: {shown}",
            remedy="A proxy or another program may stand at this address: look at OLLAMA_HOST or --ollama-url.",
        )


def _loaded(line: bytes) -> dict[str, Any] | None:
    try:
        chunk = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return chunk if isinstance(chunk, dict) else None


async def _models(client: httpx2.AsyncClient, limit_s: float) -> list[str]:
    """The names of the models that are there; empty when that cannot be told."""
    try:
        listed = (await client.get("/api/tags", timeout=limit_s)).json()["models"]
        return sorted(one_line(str(one["name"])) for one in listed[:20])
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return []


def _usage(chunk: Mapping[str, Any]) -> Usage:
    return Usage(input_tokens=_count(chunk.get("prompt_eval_count")), output_tokens=_count(chunk.get("eval_count")))


def _count(value: Any) -> int:
    """A count as it came; left out or nonsense: 0, which means that nobody said."""
    return value if isinstance(value, int) and 0 < value < _MAX_COUNT else 0


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
