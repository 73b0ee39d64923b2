"""One Ollama server over HTTP: its lists and facts, and ``/api/chat`` line by line.

Its OpenAI-compatible endpoint ignores num_ctx and keep_alive, and its Python client can neither forbid
truncation nor tell a stream that ended early from one that was finished (models.md, section 1); so
the few lines of the protocol are spoken here.
"""

import asyncio
import ipaddress
import json
import re
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, ClassVar, Final, Protocol
from urllib.request import getproxies

import httpx2
from pydantic_core import to_json

from orchestrator.adapters.models.ollama_errors import AWAY, OLLAMA, AskAnother, Silent, broken, unreachable, unwrapped
from orchestrator.adapters.models.plain_http import Answer, PlainAnswer, PlainHttp
from orchestrator.core.text.visible import one_line
from orchestrator.core.values import immutable

# -- What a server tells of a model before it is asked for a reply -----------------------

_CLOUD: Final = re.compile(r"[-:]cloud$")
_VERSION: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})")
_COUNTS_ALL: Final = (0, 30)
"""From this version on prompt_eval_count is the whole prompt; before, only what was not in the cache (models.md, 5)."""
_MAX_CONTEXT: Final = 2**31


def is_of_cloud(model: str) -> bool:
    """Whether a model is one of Ollama's cloud, by its name."""
    return _CLOUD.search(model) is not None


@immutable
class ModelFacts:
    """What ``/api/show`` says, as far as it is understood."""

    context: int | None = None
    """The longest window that the model was made for, in tokens; None: not said."""
    capabilities: frozenset[str] = frozenset()
    """Such as ``completion`` and ``thinking``; empty: an old server does not say."""
    remote_host: str = ""
    cloud: bool = False
    """It runs in Ollama's cloud, where nothing holds a reply to its schema."""
    family: str = ""
    size: str = ""
    """The size of its parameters, such as ``7.6B``."""
    quantization: str = ""

    @property
    def thinks(self) -> bool:
        """Whether the model can think before it speaks."""
        return "thinking" in self.capabilities

    @property
    def completes(self) -> bool:
        """Whether it writes text at all, as far as is known."""
        return not self.capabilities or "completion" in self.capabilities


def facts_of(model: str, shown: Any, url: str = "") -> ModelFacts:
    """The facts in an answer of ``/api/show``.

    A fact that is missing or makes no sense stays at the value for unknown.
    """
    shown = shown if isinstance(shown, dict) else {}
    named, details = _table(shown.get("capabilities")), _mapping(shown.get("details"))
    remote = _text(shown.get("remote_host"))
    return ModelFacts(
        context=context_of(_mapping(shown.get("model_info"))),
        capabilities=frozenset(one for one in named if isinstance(one, str)),
        remote_host=remote,
        cloud=bool(remote or is_of_cloud(model) or re.match(r"https://(?:www\.)?ollama\.com\b", url)),
        family=_text(details.get("family")),
        size=_text(details.get("parameter_size")),
        quantization=_text(details.get("quantization_level")),
    )


def context_of(info: Mapping[str, Any]) -> int | None:
    """The context length in a ``model_info``: that of its own architecture, else the only one there is."""
    architecture = info.get("general.architecture")
    own = info.get(f"{architecture}.context_length")
    found = [own] if own is not None else [value for key, value in info.items() if key.endswith(".context_length")]
    lengths = [one for one in found if isinstance(one, int) and not isinstance(one, bool) and 0 < one < _MAX_CONTEXT]
    # Where there are several (a projector has its own) the smallest is safe.
    return min(lengths, default=None)


def counts_all(version: Any) -> bool | None:
    """Whether a server of this version counts the whole prompt; None: nobody can tell."""
    found = _VERSION.match(version) if isinstance(version, str) else None
    if found is None or found.groups() == ("0", "0"):
        # A build of somebody's own calls itself 0.0.0.
        return None
    return (int(found[1]), int(found[2])) >= _COUNTS_ALL


def loaded_context(model: str, running: Any) -> int | None:
    """The window with which ``/api/ps`` says that a model is loaded; None: it does not say."""
    for row in _rows(running):
        length = row.get("context_length")
        if same_model(model, row) and isinstance(length, int) and 0 < length < _MAX_CONTEXT:
            return length
    return None


def names_in(listed: Any) -> list[str]:
    """The names of the models in ``/api/tags``; empty where it makes no sense."""
    return [name for row in _rows(listed) if (name := _text(row.get("name") or row.get("model")))]


def same_model(model: str, row: Mapping[str, Any]) -> bool:
    """Whether a row of a list is of this model; a tag that is left out is ``latest``."""
    return with_tag(model) in (with_tag(_text(row.get("name"))), with_tag(_text(row.get("model"))))


def with_tag(name: str) -> str:
    """A model's name with its tag, as the lists show it."""
    return name if not name or ":" in name.rpartition("/")[2] else f"{name}:latest"


def _rows(answer: Any) -> Iterator[dict[str, Any]]:
    rows = _table(answer.get("models")) if isinstance(answer, dict) else []
    return (row for row in rows if isinstance(row, dict))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _table(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# -- One Ollama server over HTTP: its lists and facts, and ``/api/chat`` line by line

_MAX_LINE_BYTES: Final = 4_000_000
"""A whole unstreamed reply in one line, every character of it escaped."""
_MAX_ERROR_BYTES: Final = 65_536
_MAX_ANSWER_BYTES: Final = 16_000_000
"""``/api/show`` of a model with a large vocabulary comes with licenses and templates."""
_ALIVE_S: Final = 2.0
"""Seconds that a sign of life may take: a worker waits for it."""
_QUIET: Final = 2.0
"""After a long look in vain nobody looks for so many times as long as it took."""
_LONG: Final = 0.25
"""A look is long from this share of its time on: a refusal comes at once, and costs little."""
_SHOWN_CHARS: Final = 80
_END_S: Final = 0.5
"""Seconds in which an answer ends after its last line: it comes in the same packet, mostly."""
_KEPT_S: Final = 30.0
"""Seconds that an idle connection is kept: tools of a step take less, and most servers wait longer."""
_MOST_KEPT: Final = 20
"""Idle connections to one server."""
_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")


class Refusal(Exception):
    """An answer that is not a success."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}")
        self.status = status
        self.body = body
        self.said = unwrapped(body)[0]


class Limits(Protocol):
    """How long a server is waited for, in seconds, and the key that it is sent."""

    @property
    def api_key(self) -> str: ...
    @property
    def connect_s(self) -> float: ...
    @property
    def fact_s(self) -> float: ...
    @property
    def first_token_s(self) -> float: ...
    @property
    def silence_s(self) -> float: ...


Client = httpx2.AsyncClient | PlainHttp


class OllamaApi:
    """The way to one server."""

    kind: ClassVar = OLLAMA
    asks_at: ClassVar = "/api/chat"

    def __init__(self, url: str, options: Limits) -> None:
        self.url = url
        self._options = options
        self._keeps = False
        self._kept: Client | None = None
        """The client whose connections are kept between requests; None: each request has a client of its own."""
        self._looking = False
        """Whether somebody looks now whether it answers."""
        self._quiet_until = 0.0
        """A time of the loop's clock; until then nobody looks."""

    def client(self) -> Client:
        """A client for requests to this server alone."""
        options, url = self._options, httpx2.URL(self.url)
        loopback = is_loopback(url.host)
        headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        if options.api_key and self._may_be_sent(url, loopback=loopback):
            headers["Authorization"] = f"Bearer {options.api_key}"
        # A proxy of the environment knows nothing of this host's own addresses.
        if url.scheme == "http" and (loopback or not getproxies()):
            return PlainHttp(url, headers, connect_s=options.connect_s, kept_s=_KEPT_S, most=_MOST_KEPT)
        return httpx2.AsyncClient(
            base_url=url,
            headers=headers,
            # The waits for an answer are bounded below, differently before and after its first line.
            timeout=httpx2.Timeout(None, connect=options.connect_s),
            trust_env=not loopback,
            follow_redirects=False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=_MOST_KEPT, keepalive_expiry=_KEPT_S),
        )

    def keep(self) -> None:
        """Keep connections between requests from now on, until :meth:`close`."""
        self._keeps = True

    async def close(self) -> None:
        """Close the connections that are kept."""
        self._keeps, kept, self._kept = False, self._kept, None
        if kept is not None:
            await kept.aclose()

    def _may_be_sent(self, url: httpx2.URL, *, loopback: bool) -> bool:
        """Whether the key may go to this server."""
        del loopback
        return url.scheme == "https"

    # -- facts ---------------------------------------------------------------------------

    async def show(self, model: str) -> Any:
        """What ``/api/show`` says of a model. Raises Refusal, AskAnother, TimeoutError."""
        return await self._fact("POST", "/api/show", {"model": model})

    async def running(self) -> Any:
        """What ``/api/ps`` says. Raises Refusal, AskAnother, TimeoutError."""
        return await self._fact("GET", "/api/ps")

    async def version(self) -> Any:
        """The version that it says, whatever that is. Raises Refusal, AskAnother, TimeoutError."""
        answer = await self._fact("GET", "/api/version")
        return answer.get("version") if isinstance(answer, dict) else None

    async def listed(self) -> Any:
        """What ``/api/tags`` says. Raises Refusal, AskAnother, TimeoutError."""
        return await self._fact("GET", "/api/tags")

    async def names(self) -> list[str]:
        """The names of its models; empty when that cannot be told."""
        try:
            return names_in(await self.listed())
        except (Refusal, AskAnother, TimeoutError):
            return []

    async def _fact(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """A short answer as JSON, whole within ``fact_s``; None: it is not JSON."""
        content = None if body is None else json.dumps(body).encode()
        async with asyncio.timeout(self._options.fact_s), self.connected() as client:
            response = await self._sent(client, method, path, content)
            found = bytearray()
            try:
                await _read(response, found, _MAX_ANSWER_BYTES)
            finally:
                await response.aclose()
        if response.status_code != 200:
            raise Refusal(response.status_code, found[:_MAX_ERROR_BYTES].decode("utf-8", "replace"))
        try:
            return json.loads(found)
        except (ValueError, RecursionError):
            return None

    # -- replies -------------------------------------------------------------------------

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        """The client that is kept, or one for this request; its failures are sentences. Raises AskAnother."""
        try:
            if not self._keeps:
                async with self.client() as client:
                    yield client
                return
            if self._kept is None:
                self._kept = self.client()
            yield self._kept
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            raise unreachable(self.url, error, self._options.connect_s, self.kind) from error
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
            raise broken(self.url, error, self.kind) from error

    async def chat(self, client: Client, request: Mapping[str, Any]) -> Answer:
        """The answer to a request for a reply, its lines unread; ``messages`` of it are ChatMessages, bytes are JSON.

        The caller closes it. Raises Refusal, AskAnother.
        """
        messages = b",".join([one.as_json for one in request["messages"]])
        made = b"".join([b'"%s":%s,' % (key.encode(), one) for key, one in request.items() if isinstance(one, bytes)])
        rest = to_json({key: one for key, one in request.items() if key != "messages" and not isinstance(one, bytes)})
        content = b'{"messages":[%s],%s%s' % (messages, made, rest[1:])
        try:
            async with asyncio.timeout(self._options.first_token_s):
                response = await self._sent(client, "POST", self.asks_at, content)
        except TimeoutError:
            raise self._silent(self._options.first_token_s) from None
        if response.status_code == 200:
            return response
        async with aclosing(response):
            if 300 <= response.status_code < 400:
                raise self._elsewhere(response)
            raise Refusal(response.status_code, await self._error(response))

    async def _sent(self, client: Client, method: str, path: str, content: bytes | None) -> Answer:
        """The head of the answer; sent again where a kept connection was closed by the server meanwhile."""
        if isinstance(client, PlainHttp):
            return await client.request(method, path, content)
        connected: list[str] = []

        async def note(event: str, _: Mapping[str, Any]) -> None:
            if event.startswith("connection.connect"):
                connected.append(event)

        while True:
            request = client.build_request(method, path, content=content, extensions={"trace": note})
            try:
                return await client.send(request, stream=True)
            except (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError):
                if connected or client is not self._kept:
                    raise

    def read(self, line: bytes) -> tuple[dict[str, Any], str]:
        """What a line of an answer says, and the text in it. Raises AskAnother."""
        chunk = _loaded(line)
        if chunk is None:
            raise self._nonsense(line)
        message = chunk.get("message")
        content = message.get("content") if type(message) is dict else None
        # As it mostly is; anything else is looked at closely.
        return chunk, content if type(content) is str and content.isascii() else self._content(chunk, line)

    async def to_end(self, response: Answer, lines: AsyncGenerator[list[bytes]]) -> None:
        """Read what follows the last line of a reply, so that the connection can be used again.

        What follows is nothing but the end of the answer. A server that sends more, or does not end, is left.
        """
        if isinstance(response, PlainAnswer) and response.is_whole:
            return
        with suppress(TimeoutError, AskAnother, httpx2.HTTPError):
            async with asyncio.timeout(_END_S):
                await anext(lines, None)

    async def lines(self, response: Answer) -> AsyncGenerator[list[bytes]]:
        """The lines of an answer, those together that came together, each within its time.

        A line that broke off is left out. Raises AskAnother.
        """
        loop = asyncio.get_running_loop()
        pending: list[bytes] = []
        size = 0
        limit = self._options.first_token_s
        deadline = loop.time() + limit
        async with aclosing(response.aiter_raw()) as arriving:
            while True:
                try:
                    if isinstance(response, PlainAnswer):
                        data = await response.read(deadline)
                    else:
                        async with asyncio.timeout_at(deadline):
                            data = await anext(arriving, b"")
                except TimeoutError:
                    raise self._silent(limit) from None
                first, *more = data.split(b"\n")
                if more:
                    pieces = [b"".join((*pending, first)), *more]
                    first, pending, size = pieces.pop(), [], 0
                    if whole := [line for piece in pieces if (line := piece.strip())]:
                        yield whole
                        limit = self._options.silence_s
                        deadline = loop.time() + limit
                pending.append(first)
                size += len(first)
                if not data:
                    break
                if size > _MAX_LINE_BYTES:
                    raise self._nonsense(pending[0])
        line = b"".join(pending)
        if self._is_whole(line):
            yield [line]

    def _is_whole(self, line: bytes) -> bool:
        """Whether the last line of an answer, which no line break ends, is one."""
        return _loaded(line) is not None

    def _content(self, chunk: Mapping[str, Any], line: bytes) -> str:
        if "error" in chunk:
            return ""
        message = chunk.get("message") or {}
        content = (message.get("content") or "") if isinstance(message, dict) else None
        # Half of a surrogate pair could not be kept as it came, and a file must not be written otherwise.
        if not isinstance(content, str) or _HALF_PAIR.search(content):
            raise self._nonsense(line)
        return content

    async def _error(self, response: Answer) -> str:
        body = bytearray()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.silence_s):
                await _read(response, body, _MAX_ERROR_BYTES)
        return body[:_MAX_ERROR_BYTES].decode("utf-8", "replace")

    def _elsewhere(self, response: Answer) -> AskAnother:
        target = one_line(response.headers.get("location", "nowhere"))
        return AskAnother(
            f"{self.url} redirects to {target}, which is not followed.",
            remedy=f"Say where {self.kind.name} itself listens: {self.kind.settings}.",
        )

    async def answers(self) -> bool:
        """Whether anything but a proxy without a server behind it answers here by now.

        Where many tasks wait for a server, one looks at a time. After a long look in vain nobody looks for twice as
        long: a host that swallows all requests must not hold up the workers of other tasks.
        """
        loop = asyncio.get_running_loop()
        if self._looking or loop.time() < self._quiet_until:
            return False
        self._looking, began = True, loop.time()
        try:
            alive = await self._alive()
        finally:
            self._looking = False
        took = loop.time() - began
        if not alive and took > _LONG * _ALIVE_S:
            self._quiet_until = loop.time() + _QUIET * took
        return alive

    async def _alive(self) -> bool:
        try:
            async with asyncio.timeout(_ALIVE_S):
                await self._sign_of_life()
        except Refusal as refusal:
            return refusal.status not in AWAY
        except (AskAnother, TimeoutError):
            return False
        return True

    async def _sign_of_life(self) -> object:
        return await self.version()

    def _silent(self, limit: float) -> Silent:
        return Silent(f"{self.kind.first} at {self.url} said nothing for {limit:g} s.", remedy=self.kind.slow)

    def _nonsense(self, line: bytes) -> AskAnother:
        shown = one_line(line[: 4 * _SHOWN_CHARS].decode("utf-8", "replace"), limit=_SHOWN_CHARS)
        return AskAnother(
            f"{self.url} answered with something that {self.kind.name} does not say: {shown}",
            remedy=f"A proxy or another program may be at this address: look at {self.kind.settings}.",
        )


def is_loopback(host: str) -> bool:
    """Whether a host is this one."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _read(response: Answer, body: bytearray, limit: int) -> None:
    """Read the body of an answer, of one that is longer only its beginning."""
    async with aclosing(response.aiter_raw()) as arriving:
        async for data in arriving:
            body += data
            if len(body) > limit:
                break


_DECODE: Final = json.JSONDecoder().raw_decode


def _loaded(line: bytes) -> dict[str, Any] | None:
    try:
        # A model sends a line for each token, and ``json.loads`` takes longer to guess at the encoding.
        text = line.removeprefix(BOM_UTF8).strip().decode("utf-8", "surrogatepass")
        chunk, end = _DECODE(text)
    except (ValueError, RecursionError):
        return None
    return chunk if isinstance(chunk, dict) and end == len(text) else None
