"""How Ollama is asked: where it listens, and the options that go with every request."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.visible import one_line

DEFAULT_PORT: Final = 11434
_PORTS: Final = {"http": 80, "https": 443}
_PLACE: Final = re.compile(r"[\w.:%\[\]-]*(/[\w./%~-]*)?", re.ASCII)
"""Host, port and path: nothing that a URL would read as a user, a query or a fragment."""
_WHAT: Final = "Look at --ollama-url and OLLAMA_HOST; either is an address such as http://127.0.0.1:11434."


def ollama_url(host: str | None) -> str:
    """The address that a value of OLLAMA_HOST means, by Ollama's own rules; None or empty: the default.

    Without a scheme it is http at port 11434, with one the scheme's own port; an address to listen on
    (``0.0.0.0``) is reached at loopback. Raises InvalidRequest when it is no address.
    """
    text = (host or "").strip().strip("\"'")
    shown = f"'{one_line(text)}'"
    scheme, found, rest = text.partition("://")
    scheme, rest = (scheme.lower(), rest) if found else ("http", text)
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        name, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError as error:
        raise InvalidRequest(f"{shown} is no address of an Ollama server: {error}.", remedy=_WHAT) from None
    if scheme not in _PORTS or not _PLACE.fullmatch(rest):
        raise InvalidRequest(f"{shown} is no address of an Ollama server.", remedy=_WHAT)
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)
    port = port or (_PORTS[scheme] if found else DEFAULT_PORT)
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}{parts.path.rstrip('/')}"


@dataclass(frozen=True)
class OllamaOptions:
    """What goes with every request; the same each time, since another num_ctx makes Ollama load the model anew.

    Raises InvalidRequest when the numbers cannot be meant.
    """

    url: str = field(default_factory=lambda: os.environ.get("OLLAMA_HOST", ""))
    """Where Ollama listens; what OLLAMA_HOST says when nobody else does."""
    num_ctx: int = 8192
    """Tokens of the window: prompt and reply together. Ollama's own default may be 4096, and is never said."""
    num_predict: int = 2048
    """Tokens of a reply at most: room for a file of some 150 lines, a quarter of the window."""
    temperature: float = 0.2
    """Low: a reply is a decision in a fixed form; not 0, where small models repeat themselves."""
    seed: int = 0
    keep_alive: str = "10m"
    """How long the model stays loaded after a request: longer than a person takes to approve a call."""
    connect_s: float = 5.0
    first_token_s: float = 300.0
    """Until the first line of an answer: the model may have to be loaded, and the prompt read, before it."""
    silence_s: float = 60.0
    """Between two lines after that: a token takes seconds at most, even without a graphics card."""
    whole_s: float = 1800.0
    """A whole reply: num_predict tokens at a little more than one a second."""
    api_key: str = field(default_factory=lambda: os.environ.get("OLLAMA_API_KEY", ""), repr=False)
    """For ollama.com, whose models run elsewhere; sent over https only. What OLLAMA_API_KEY says."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", ollama_url(self.url))
        if not 0 < self.num_predict < self.num_ctx:
            raise InvalidRequest(
                f"num_predict is {self.num_predict} and num_ctx {self.num_ctx}: a reply has to fit the window.",
                remedy="Give num_ctx room for the prompt and num_predict tokens.",
            )
        if min(self.connect_s, self.first_token_s, self.silence_s, self.whole_s) <= 0:
            raise InvalidRequest("A time limit of the model is not above zero.", remedy="Give seconds.")

    def as_sent(self, max_output_tokens: int | None) -> Mapping[str, int | float]:
        """The ``options`` of a request whose reply may have ``max_output_tokens`` (None: num_predict)."""
        bound = self.num_predict if max_output_tokens is None else max(1, min(self.num_predict, max_output_tokens))
        return {
            "num_ctx": self.num_ctx,
            "num_predict": bound,
            "temperature": self.temperature,
            "seed": self.seed,
        }
