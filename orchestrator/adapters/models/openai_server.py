"""One model server that speaks OpenAI's API, over HTTP: what it says of its models, and a reply event by event.

The SDK of OpenAI costs 35 ms of a processor for each request of a long conversation, asks again by itself after
errors that stay, and answers with the names of its own classes (models.md, section 7). So the few lines of the
protocol that all these servers share are spoken here.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import httpx2

from orchestrator.adapters.models.ollama_errors import AWAY, AskAnother, Kind, broken
from orchestrator.adapters.models.ollama_server import Door, Refusal
from orchestrator.adapters.models.openai_errors import refused
from orchestrator.adapters.models.options import ServerOptions
from orchestrator.core.errors import ModelFailed

SERVER: Final = Kind(
    name="the model server",
    start="Start it there",
    settings="--model-url or OPENAI_BASE_URL",
    tls="Most model servers speak http://; where a proxy adds https://, this host must trust its certificate.",
    log="the log of the model server",
    slow="The model may be too large for that host: take a smaller one.",
)
NO_MODELS: Final = "Load one there, or say another address in --model-url; most end with /v1."
_MAX_TOKENS: Final = 2**31
_CONTEXTS: Final = ("max_model_len", "context_length", "context_window")
"""Where a list of models has the window: vLLM, and what other servers call it."""
_NOTHING: Final[dict[str, Any]] = {}


@dataclass(frozen=True)
class ServerFacts:
    """What a server says of itself and of a model, as far as it is understood."""

    program: str = ""
    """``llama-server``, ``LM Studio``, ``vLLM`` or ``Ollama``; empty: it does not say."""
    context: int | None = None
    """Tokens of the window with which the model is loaded; None: not said."""
    names: tuple[str, ...] = ()
    """Of the models that it has; empty: not said."""

    @property
    def counts_all(self) -> bool | None:
        """Whether it counts the whole prompt, what is in its cache too; None: nobody can tell."""
        return True if self.program in ("llama-server", "LM Studio", "vLLM") else None


class ModelServer(Door):
    """The way to one server."""

    kind: ClassVar = SERVER
    asks_at: ClassVar = "/chat/completions"

    @property
    def root(self) -> str:
        """The address without the path of the API."""
        return self.url.removesuffix("/v1")

    def _may_be_sent(self, url: httpx2.URL, *, loopback: bool) -> bool:
        return url.scheme == "https" or loopback

    async def _sign_of_life(self) -> object:
        # llama-server answers 503 here while it loads its model, vLLM as well; others know no such path.
        return await self._fact("GET", f"{self.root}/health")

    def _is_whole(self, line: bytes) -> bool:
        name, _, data = line.partition(b":")
        return name != b"data" or data.strip() == b"[DONE]" or _decoded(data) is not None

    async def facts(self, model: str) -> ServerFacts:
        """What is known of a model.

        Raises AskAnother and TimeoutError where the server does not answer, Refusal where it wants a key or loads.
        """
        listed = await self._told("/models", must=True)
        if isinstance(listed, Mapping) and _owner(listed) == "library":
            return ServerFacts("Ollama", names=_names(listed))
        studio, props = await asyncio.gather(self._told(f"{self.root}/api/v0/models"), self._told(f"{self.root}/props"))
        return facts_of(model, listed, studio, props)

    async def _told(self, path: str, *, must: bool = False) -> Any:
        """A short answer; None: it has none."""
        try:
            return await self._fact("GET", path)
        except Refusal as refusal:
            # One that loads its model says so at every path, and knows of no window yet.
            if must and refusal.status in {401, 403, *AWAY}:
                raise
            return None
        except (AskAnother, TimeoutError):
            if must:
                raise
            return None

    async def events(self, response: httpx2.Response) -> AsyncGenerator[tuple[dict[str, Any], bool]]:
        """The events of an answer, and whether it has said that it ends with them; what broke off is left out.

        A server that does not stream answers with one object, which is told as the only event. Raises AskAnother
        where there is no event at all.
        """
        odd, came = b"", False
        async with aclosing(self._raw_lines(response)) as arriving:
            whole = bytearray()
            async for line in arriving:
                name, _, data = line.partition(b":")
                if name not in (b"data", b"error"):
                    if not whole and line[:1] != b"{":
                        # A comment, the name of an event, or a line of a page.
                        odd = odd if name in (b"", b"event", b"id", b"retry") else odd or line
                        continue
                    whole += line
                elif data.strip() == b"[DONE]":
                    yield {}, True
                    return
                else:
                    event = _decoded(data)
                    if event is None:
                        raise self._nonsense(line)
                    came = True
                    yield ({"error": event} if name == b"error" and "error" not in event else event), False
            if whole:
                event = _decoded(bytes(whole))
                if event is None:
                    raise self._nonsense(bytes(whole))
                yield event, True
            elif not came:
                raise (
                    self._nonsense(odd) if odd else broken(self.url, EOFError("it ended before a reply began"), SERVER)
                )


async def listed(options: ServerOptions) -> ServerFacts:
    """What a server says of its models, for people. Raises ModelFailed, also where it names none."""
    server = ModelServer(options.url, options)
    try:
        facts = await server.facts("")
    except Refusal as refusal:
        raise refused(refusal.status, refusal.body, model="", url=server.url) from None
    except TimeoutError:
        raise ModelFailed(
            f"The model server at {server.url} did not answer within {options.fact_s:g} s.",
            remedy="It may be busy: try again.",
        ) from None
    if not facts.names:
        raise ModelFailed(f"What answers at {server.url} names no models.", remedy=NO_MODELS)
    return facts


def facts_of(model: str, listed: Any, studio: Any = None, props: Any = None) -> ServerFacts:
    """The facts in what a server answers at its lists of models and at ``/props``; None: no such list."""
    names = _names(listed)
    row = next((one for one in _rows(listed) if one.get("id") == model), next(_rows(listed), _NOTHING))
    settings = props.get("default_generation_settings") if isinstance(props, dict) else None
    meta = row.get("meta")
    if isinstance(settings, dict) or row.get("owned_by") == "llamacpp":
        # The window of one slot; n_ctx_train of the list is what the model was made for.
        told = (one.get("n_ctx") for one in (settings, meta) if isinstance(one, dict))
        return ServerFacts("llama-server", next(filter(None, map(_tokens, told)), None), names)
    loaded = [one for one in _rows(studio) if one.get("id") == model or one.get("state") == "loaded"]
    if any("loaded_context_length" in one or "max_context_length" in one for one in _rows(studio)):
        mine = [one for one in loaded if one.get("id") == model] or loaded
        return ServerFacts("LM Studio", _tokens(mine[0].get("loaded_context_length")) if mine else None, names)
    context = next(filter(None, (_tokens(row.get(key)) for key in _CONTEXTS)), None)
    return ServerFacts("vLLM" if _tokens(row.get("max_model_len")) else "", context, names)


def _owner(listed: Mapping[str, Any]) -> str:
    return str(next(_rows(listed), _NOTHING).get("owned_by") or "")


def _names(listed: Any) -> tuple[str, ...]:
    return tuple(name for one in _rows(listed) if isinstance(name := one.get("id"), str))


def _rows(listed: Any) -> Iterator[dict[str, Any]]:
    rows = listed.get("data") if isinstance(listed, dict) else None
    return (one for one in (rows if isinstance(rows, list) else []) if isinstance(one, dict))


def _tokens(value: Any) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_TOKENS
    return value if known else None


def _decoded(data: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
