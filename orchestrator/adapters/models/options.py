"""How Ollama and other model servers are asked: where they listen, and the options that go with every request."""

import os
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.model_view.prompt import Window
from orchestrator.core.text.visible import one_line
from orchestrator.core.values import immutable

DEFAULT_PORT: Final = 11434
DEFAULT_URL: Final = f"http://127.0.0.1:{DEFAULT_PORT}"
DEFAULT_CTX: Final = 8192
MAX_CONCURRENCY: Final = 64
_PORTS: Final = {"http": 80, "https": 443}
_PLACE: Final = re.compile(r"[\w.:%\[\]-]*(/[\w./%~-]*)?", re.ASCII)
"""Host, port and path: nothing that a URL would read as a user, a query or a fragment."""
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to listen on, and where they are reached."""
_WHAT: Final = "Look at --ollama-url and OLLAMA_HOST; either is an address such as http://127.0.0.1:11434."
_SERVED: Final = (
    "Look at --model-url and OPENAI_BASE_URL; either is an address such as http://127.0.0.1:1234/v1. "
    "A key goes into OPENAI_API_KEY."
)


def ollama_url(host: str | None) -> str:
    """The address that a value of OLLAMA_HOST means, by Ollama's own rules; None or empty: the default.

    Without a scheme it is http at port 11434, with one the scheme's own port; an address to listen on
    (``0.0.0.0``) is reached at loopback. Raises InvalidRequest when it is not an address.
    """
    text = (host or "").strip().strip("\"'")
    parts = _parts(text, "an Ollama server", _WHAT)
    port = parts.port or (_PORTS[parts.scheme] if "://" in text else DEFAULT_PORT)
    return f"{parts.scheme}://{_host(parts) or '127.0.0.1'}:{port}{parts.path.rstrip('/')}"


def _parts(text: str, kind: str, remedy: str) -> SplitResult:
    """The parts of an address, which is http where it names no scheme. Raises InvalidRequest."""
    scheme, found, rest = text.partition("://")
    scheme, rest = (scheme.lower(), rest) if found else ("http", text)
    why = ""
    if scheme in _PORTS and _PLACE.fullmatch(rest):
        try:
            parts = urlsplit(f"{scheme}://{rest}")
            # Read here, since it raises where it is not a number.
            _ = parts.port
        except ValueError:
            # The error has a part of the address, which may be of a password.
            why = ": its host or its port is none"
        else:
            return parts
    raise InvalidRequest(f"{_without_key(text)} is not an address of {kind}{why}.", remedy=remedy)


def _host(parts: SplitResult) -> str:
    name = _ANYWHERE.get(parts.hostname or "", parts.hostname or "")
    return f"[{name}]" if ":" in name else name


def _without_key(text: str) -> str:
    """A text that is not an address, as an error shows it: a key may be before an ``@`` or behind a ``?``."""
    shown = re.sub(r"^(\w+://)?.*@.*|(?<=\?).+", r"\1…", text, flags=re.DOTALL)
    return f"'{one_line(shown)}'"


@immutable
class Endpoint:
    """One Ollama server, and how many requests it is given at once."""

    url: str
    limit: int = 1


def endpoints_of(text: str | None, limit: int = 1) -> tuple[Endpoint, ...]:
    """The servers that a setting names: addresses with commas between, each perhaps with ``#N``, its own limit.

    ``limit`` is that of the others. None or empty: the default address. Raises InvalidRequest when one of
    them is not an address, is named twice, or its limit is not between 1 and 64.
    """
    if "@" in (text or ""):
        # Before it is parted: a comma may be of a password, whose beginning would look like an address.
        raise InvalidRequest(f"{_without_key(str(text))} is not an address of an Ollama server.", remedy=_WHAT)
    found = [_endpoint(one.strip(), limit) for one in (text or "").split(",") if one.strip()]
    found = found or [Endpoint(ollama_url(None), limit)]
    for place, one in enumerate(found):
        if one.url in {other.url for other in found[:place]}:
            raise InvalidRequest(f"{one.url} is named twice.", remedy="Name it once; URL#2 gives it two requests.")
    return tuple(found)


def _endpoint(text: str, limit: int) -> Endpoint:
    url, own, number = text.strip("\"'").partition("#")
    if own:
        if not number.strip().isdecimal() or not 1 <= int(number) <= MAX_CONCURRENCY:
            raise InvalidRequest(
                f"{_without_key(text)} gives no number of requests from 1 to {MAX_CONCURRENCY}.",
                remedy="Say it like http://127.0.0.1:11434#2.",
            )
        limit = int(number)
    return Endpoint(ollama_url(url), limit)


@immutable
class OllamaOptions:
    """What goes with every request; the same each time, since another num_ctx makes Ollama load the model again.

    Raises InvalidRequest when the numbers cannot be meant.
    """

    url: str = field(default_factory=lambda: os.environ.get("OLLAMA_HOST", ""))
    """Where Ollama listens, several with commas between (``endpoints_of``); else what OLLAMA_HOST says."""
    concurrency: int = 1
    """Requests that a server is given at once where its address does not say: OLLAMA_NUM_PARALLEL is 1 by default."""
    num_ctx: int = 8192
    """Tokens of the window: prompt and reply together. Ollama's own default may be 4096, and is never said."""
    num_predict: int = 2048
    """Tokens of a reply at most: room for a file of some 150 lines, a quarter of the window."""
    temperature: float = 0.2
    """Low: a reply is a decision in a fixed form; not 0, where small models repeat themselves."""
    seed: int = 0
    keep_alive: str = "10m"
    """How long the model stays loaded after a request: longer than a person takes to approve a call."""
    think: Literal["auto", "off"] = "auto"
    """Whether a model that can think does. ``auto``: as it likes, since with thinking forbidden several of
    them slip out of the schema (models.md, section 1); a model that cannot think is always told not to."""
    connect_s: float = 5.0
    fact_s: float = 5.0
    """Seconds for a short answer about a model; a server that loads one may take longer, and is asked again later."""
    first_token_s: float = 300.0
    """Seconds until the first line of an answer: the model may have to be loaded, and the prompt read, before it."""
    silence_s: float = 60.0
    """Between two lines after that: a token takes seconds at most, even without a graphics card."""
    whole_s: float = 1800.0
    """A whole reply: num_predict tokens at a little more than one a second."""
    api_key: str = field(default_factory=lambda: os.environ.get("OLLAMA_API_KEY", ""), repr=False)
    """For ollama.com, whose models run elsewhere; sent over https only. What OLLAMA_API_KEY says."""

    def __post_init__(self) -> None:
        # Said again in full, so that it means the same wherever it is read.
        object.__setattr__(self, "url", ",".join(_said(one, self.concurrency) for one in self.endpoints))
        if not 0 < self.num_predict < self.num_ctx:
            raise InvalidRequest(
                f"num_predict is {self.num_predict} and num_ctx {self.num_ctx}: a reply has to fit the window.",
                remedy="Give num_ctx room for the prompt and num_predict tokens.",
            )
        if not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise InvalidRequest(
                f"An Ollama server cannot be given {self.concurrency} requests at once.",
                remedy=f"Say a number from 1 to {MAX_CONCURRENCY}.",
            )
        if min(self.connect_s, self.fact_s, self.first_token_s, self.silence_s, self.whole_s) <= 0:
            raise InvalidRequest("A time limit of the model is not above zero.", remedy="Give seconds.")

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The servers, in the order in which they were named. Raises InvalidRequest."""
        return endpoints_of(self.url, self.concurrency)

    def within(self, longest: int | None) -> Window:
        """The window of a model that has at most ``longest`` tokens of context (None: nobody knows)."""
        if longest is None or longest >= self.num_ctx:
            return Window(self.num_ctx, self.num_predict)
        # A reply keeps its share of a window that is smaller than asked.
        return Window(longest, max(1, min(self.num_predict, longest // 4)), is_models_most=True)

    def as_sent(self, window: Window, max_output_tokens: int | None) -> Mapping[str, int | float]:
        """The ``options`` of a request whose reply may have ``max_output_tokens`` (None: the window's num_predict)."""
        bound = window.num_predict if max_output_tokens is None else min(window.num_predict, max_output_tokens)
        return {
            "num_ctx": window.num_ctx,
            "num_predict": max(1, bound),
            "temperature": self.temperature,
            "seed": self.seed,
        }


@immutable
class ServerOptions:
    """How a server is asked that speaks OpenAI's API: LM Studio, llama-server, vLLM, llamafile and others.

    Raises InvalidRequest when the address or the numbers cannot be meant.
    """

    url: str = field(default_factory=lambda: os.environ.get("OPENAI_BASE_URL", ""))
    """Where it listens, with the path of the API; else what OPENAI_BASE_URL says; empty: nowhere."""
    num_ctx: int | None = None
    """Tokens of the window, prompt and reply together; None: as many as the server says, else 8192."""
    num_predict: int = 2048
    temperature: float = 0.2
    seed: int = 0
    think: Literal["auto", "off"] = "auto"
    connect_s: float = 5.0
    fact_s: float = 5.0
    first_token_s: float = 300.0
    silence_s: float = 60.0
    whole_s: float = 1800.0
    """This and the times above as for Ollama."""
    api_key: str = field(default_factory=lambda: os.environ.get("OPENAI_API_KEY", ""), repr=False)
    """What OPENAI_API_KEY says; sent over https, and to this host."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", server_url(self.url))
        if not 0 < self.num_predict < (self.num_ctx or DEFAULT_CTX):
            raise InvalidRequest(
                f"num_predict is {self.num_predict} and num_ctx {self.num_ctx or DEFAULT_CTX}: a reply has to fit the "
                "window.",
                remedy="Give num_ctx room for the prompt and num_predict tokens.",
            )

    @property
    def is_own(self) -> bool:
        """Whether it is a server of one's own, or of anybody but OpenAI, whose models pydantic-ai asks."""
        host = urlsplit(self.url).hostname or ""
        return bool(host) and host != "openai.com" and not host.endswith(".openai.com")

    def within(self, longest: int | None) -> Window:
        """The window where the server has ``longest`` tokens (None: it does not say)."""
        known = [one for one in (self.num_ctx, longest) if one is not None]
        num_ctx = min(known, default=DEFAULT_CTX)
        return Window(num_ctx, max(1, min(self.num_predict, num_ctx // 4)), is_models_most=num_ctx == longest)


def server_url(text: str) -> str:
    """The address of a server that speaks OpenAI's API, its path filled in; empty stays so. Raises InvalidRequest."""
    text = text.strip().strip("\"'")
    if not text:
        return ""
    parts = _parts(text, "a model server", _SERVED)
    if not parts.hostname:
        raise InvalidRequest(f"{_without_key(text)} is not an address of a model server.", remedy=_SERVED)
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{_host(parts)}{port}{path or '/v1'}"


def _said(endpoint: Endpoint, limit: int) -> str:
    return endpoint.url if endpoint.limit == limit else f"{endpoint.url}#{endpoint.limit}"
