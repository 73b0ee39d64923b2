"""One model server with OpenAI's API over HTTP: its models, and a reply event by event.

The SDK of OpenAI costs 35 ms of a processor for each request of a long conversation, asks again by itself after
errors that stay, and answers with the names of its own classes (models.md, section 7). So the few lines of the
protocol that all these servers share are spoken here.
"""

import asyncio
import difflib
import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Final

import httpx2

from orchestrator.adapters.models.ollama_errors import AWAY, AskAnother, Kind, broken, unwrapped
from orchestrator.adapters.models.ollama_server import OllamaApi, Refusal
from orchestrator.adapters.models.options import ServerOptions
from orchestrator.adapters.models.plain_http import Answer
from orchestrator.core.errors import ModelFailed
from orchestrator.core.text.visible import one_line
from orchestrator.core.values import immutable

# -- What a model server that speaks OpenAI's API says instead of a reply, as sentences that say what to do

_LONG: Final = re.compile(
    r"exceed_context_size|context_length_exceeded|available context size|maximum context length|context window"
    r"|context (?:length|overflow)|greater than the context|n_ctx|prompt is too long",
    re.IGNORECASE,
)
_FORM: Final = re.compile(r"response_format|json_schema|json_object|schema|grammar|structured|guided", re.IGNORECASE)
_NO_MODEL: Final = re.compile(
    r"model.*(?:not (?:found|exist|loaded)|does not exist|unknown)|no such model", re.IGNORECASE
)
_OPTIONAL: Final = ("stream_options", "chat_template_kwargs", "seed", "temperature")
"""Settings of a request without which it means nearly the same."""
_NO_PATH: Final = re.compile(r"unexpected endpoint", re.IGNORECASE)
"""LM Studio says so with the status 200."""
_LATER: Final = AWAY | {408, 429}
_SHOWN_NAMES: Final = 10


def is_too_long(body: Any) -> bool:
    """Whether an answer says that the conversation does not fit the window."""
    said, details = unwrapped(body)
    return bool(_LONG.search(said) or _LONG.search(str(details.get("type"))) or _LONG.search(str(details.get("code"))))


def may_be_the_form(status: int, body: Any) -> bool:
    """Whether a request was perhaps refused for the form of a reply that it asks for."""
    said = unwrapped(body)[0]
    if is_too_long(body) or _NO_MODEL.search(said):
        return False
    return status in (400, 422, 501) or (status >= 500 and status not in AWAY and bool(_FORM.search(said)))


def surplus(status: int, body: Any, request: Mapping[str, Any]) -> str | None:
    """The setting of a request that a server refuses by its name, and that may be left out; None: there is none."""
    said = unwrapped(body)[0] if status in (400, 422) else ""
    return next((one for one in _OPTIONAL if one in request and re.search(rf"\b{one}\b", said)), None)


def refused(status: int, body: Any, *, model: str, url: str, there: Sequence[str] = ()) -> ModelFailed:
    """Why a request was answered with ``status``, or with an error in the middle of a reply (200).

    ``there``: the models that the server has, where that is known.
    """
    said = unwrapped(body)[0].rstrip(".") or "no reason given"
    if is_too_long(body):
        return ModelFailed(
            f"The conversation does not fit the window of the model server at {url}: {said}.",
            remedy="Load the model with a longer window there, or set --num-ctx to the window that it has.",
            lasting=True,
        )
    if status in (401, 403):
        return no_key(url)
    if status == 404 or _NO_PATH.search(said) or (status in (400, 422) and _NO_MODEL.search(said)):
        return _missing(model, url, there, said)
    if status in _LATER:
        return ModelFailed(
            f"The model server at {url} cannot answer now ({status}): {said}.",
            remedy="Wait until it has loaded its model or has less to do.",
            server=url,
        )
    if 400 <= status < 500:
        return ModelFailed(
            f"The model server at {url} does not take the request ({status}): {said}.",
            remedy="Update it, and look at --model-url and the settings of the model.",
            lasting=True,
        )
    where = "in the middle of a reply" if status == 200 else f"with the status {status}"
    return ModelFailed(
        f"The model server at {url} gave up {where}: {said}.",
        remedy="Look at its log, then try again; if it goes on, take a smaller model or a shorter window.",
    )


def no_key(url: str) -> ModelFailed:
    """The server wants a key, or another one."""
    return ModelFailed(
        f"The model server at {url} wants a key that it knows.",
        remedy="Set OPENAI_API_KEY where the orchestrator is started, and start it again; the key is sent over "
        "https:// and to this machine only.",
        lasting=True,
    )


def _missing(model: str, url: str, there: Sequence[str], said: str) -> ModelFailed:
    if not _NO_MODEL.search(said) and (not there or model in there):
        return ModelFailed(
            f"What answers at {url} does not speak OpenAI's API: {said}.",
            remedy="Say the whole address in --model-url, mostly with /v1 at its end, such as http://127.0.0.1:1234/v1.",
            lasting=True,
        )
    near = difflib.get_close_matches(model, there, n=3, cutoff=0.5) or sorted(there)[:_SHOWN_NAMES]
    known = f" Models there: {one_line(', '.join(near), limit=300)}." if near else ""
    return ModelFailed(
        f"The model server at {url} has no model '{one_line(model)}'.",
        remedy=f"Say one that it has: --model openai-chat:NAME.{known}",
        lasting=True,
    )


# -- One model server that speaks OpenAI's API, over HTTP: what it says of its models, and a reply event by event

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


@immutable
class ServerFacts:
    """What a server says of itself and of a model, as far as it is understood."""

    program: str = ""
    """``llama-server``, ``LM Studio``, ``vLLM`` or ``Ollama``; empty: it does not say."""
    context: int | None = None
    """Tokens of the window with which the model is loaded; None: not said."""
    names: tuple[str, ...] = ()
    """The names of the models that it has; empty: not said."""

    @property
    def counts_all(self) -> bool | None:
        """Whether it counts the whole prompt, what is in its cache too; None: nobody can tell."""
        return True if self.program in ("llama-server", "LM Studio", "vLLM") else None


class ModelServer(OllamaApi):
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
        """The known facts of a model.

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

    async def events(self, response: Answer) -> AsyncGenerator[tuple[dict[str, Any], bool]]:
        """The events of an answer, and whether it has said that it ends with them; an event that broke off is left out.

        A server that does not stream answers with one object, which is told as the only event. Raises AskAnother
        where there is no event at all.
        """
        odd, came = b"", False
        async with aclosing(self.lines(response)) as arriving:
            whole = bytearray()
            async for together in arriving:
                for line in together:
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
