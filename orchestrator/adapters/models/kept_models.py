"""Which models an Ollama server has, and getting one that it does not have.

A pull goes through Ollama's own Python client, which takes longer to import than a list takes. Its habits that do not
suit are turned off: it would follow redirects, wait for ever, and send OLLAMA_API_KEY in clear (models.md, section 1).
"""

import asyncio
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from orchestrator.adapters.models.ollama_errors import AskAnother, broken, missing, unreachable, unwrapped
from orchestrator.adapters.models.ollama_server import (
    ModelFacts,
    OllamaApi,
    Refusal,
    facts_of,
    is_loopback,
    names_in,
    with_tag,
)
from orchestrator.adapters.models.options import OllamaOptions
from orchestrator.core.errors import ModelFailed
from orchestrator.core.text.visible import one_line
from orchestrator.core.values import immutable

if TYPE_CHECKING:
    import httpx
    import ollama

    from orchestrator.core.ports import Window

# -- A look at a model where it is kept, for people: what each server says of it, and what a task would be given


@immutable
class Seen:
    """What one server says of one model."""

    url: str
    trouble: ModelFailed | None = None
    """Why nothing is known; None: it answered."""
    names: Sequence[str] = field(default=())
    """The models that it has."""
    facts: ModelFacts | None = None
    """None: it does not have the model."""
    window: "Window | None" = None
    """The window that a task would get; None: the server does not have the model."""
    version: str = ""
    """The version of Ollama; empty: it does not say."""

    def must_have(self, model: str) -> ModelFacts:
        """The facts. Raises ModelFailed where there are none."""
        if self.trouble is not None:
            raise self.trouble
        if self.facts is None:
            raise missing(model, self.url, self.names)
        return self.facts


async def looked(model: str, options: OllamaOptions) -> list[Seen]:
    """What each server says of a model, side by side."""
    return list(
        await asyncio.gather(*(_seen(OllamaApi(one.url, options), model, options) for one in options.endpoints))
    )


async def _seen(api: OllamaApi, model: str, options: OllamaOptions) -> Seen:
    try:
        listed = await api.listed()
    except AskAnother as error:
        return Seen(api.url, error)
    except TimeoutError:
        silent = ModelFailed(
            f"Ollama at {api.url} did not answer within {options.fact_s:g} s.", remedy="It may be busy: try again."
        )
        return Seen(api.url, silent)
    except Refusal as refusal:
        said = f": {refusal.said}" if refusal.said else ""
        return Seen(api.url, _not_ollama(api.url, f"{refusal.status}{said}"))
    if not isinstance(listed, dict) or "models" not in listed:
        return Seen(api.url, _not_ollama(api.url, "something else than a list of models"))
    names = names_in(listed)
    if with_tag(model) not in map(with_tag, names):
        return Seen(api.url, names=names)
    facts, version = await asyncio.gather(_facts(api, model), _version(api))
    return Seen(api.url, None, names, facts, options.within(facts.context), version)


def _not_ollama(url: str, answer: str) -> ModelFailed:
    return ModelFailed(
        f"What answers at {url} is not Ollama: it answered {answer.rstrip('.')}.",
        remedy="Say where Ollama listens: OLLAMA_HOST or --ollama-url.",
    )


async def _facts(api: OllamaApi, model: str) -> ModelFacts:
    try:
        shown = await api.show(model)
    except (AskAnother, Refusal, TimeoutError):
        shown = None
    return facts_of(model, shown, api.url)


async def _version(api: OllamaApi) -> str:
    try:
        version = await api.version()
    except (AskAnother, Refusal, TimeoutError):
        return ""
    return version[:40] if isinstance(version, str) else ""


# -- Which models an Ollama server has, and getting one that it does not have: for a person at a terminal

CONNECT_S: Final = 5.0
ANSWER_S: Final = 15.0
SILENCE_S: Final = 600.0
"""Between two words of a pull: a checksum over tens of gigabytes is made without one."""
_AGAIN: Final = "Type the same command again: it goes on where it stopped."
_NONSENSE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""The errors of reading the answer of another program as if it were Ollama's."""


@immutable
class KeptModel:
    """A model that a server has."""

    name: str
    size: int
    """Bytes on its disk; 0: it does not say, or the model runs elsewhere."""
    parameters: str
    quantization: str


@immutable
class Progress:
    """How far a pull has come."""

    status: str
    """The status as Ollama says it, such as ``pulling manifest``."""
    done: int = 0
    """Bytes of all parts that are known so far."""
    total: int = 0
    """How many bytes there are; 0: not known yet. The number grows when another part becomes known."""


async def kept_models(url: str) -> list[KeptModel]:
    """The models that a server has, by name. Raises ModelFailed."""
    try:
        listed = await OllamaApi(url, OllamaOptions(url=url, connect_s=CONNECT_S, fact_s=ANSWER_S)).listed()
        found = [_kept(row) for row in listed["models"]]
    except Refusal as refusal:
        # No error of Ollama is a list.
        is_list = refusal.body.startswith("[")
        raise _other(url) if is_list else _refused(url, "", refusal.status, refusal.body) from refusal
    except TimeoutError as error:
        raise _silent(url, ANSWER_S) from error
    except _NONSENSE as error:
        raise _other(url) from error
    return sorted((one for one in found if one.name), key=lambda one: one.name)


def _kept(row: Any) -> KeptModel:
    """A row of the list. Raises _NONSENSE where it is none."""
    details = row.get("details") or {}
    texts = (row.get("model"), details.get("parameter_size"), details.get("quantization_level"))
    name, parameters, quantization = (str(one or "") for one in texts)
    return KeptModel(name, int(row.get("size") or 0), parameters, quantization)


def has(kept: list[KeptModel], name: str) -> bool:
    """Whether a model is among those; a tag that is left out is ``latest``."""
    return with_tag(name) in {one.name for one in kept}


def pull(url: str, name: str, tell: Callable[[Progress], None]) -> None:
    """Make a server fetch a model; the parts that were fetched stay when it is broken off. Raises ModelFailed."""
    parts: dict[str, tuple[int, int]] = {}
    last = ""
    with _asked(url, name) as client:
        for step in client.pull(name, stream=True):
            last = step.status or ""
            if step.digest and step.total:
                parts[step.digest] = (min(step.completed or 0, step.total), step.total)
            done, total = (sum(one[place] for one in parts.values()) for place in (0, 1))
            tell(Progress(last, done, total))
    if last != "success":
        # Ollama ends the stream so when it is stopped, without an error.
        raise ModelFailed(f"Ollama at {url} broke off fetching '{one_line(name)}'.", remedy=_AGAIN)


@contextmanager
def _asked(url: str, name: str) -> "Iterator[ollama.Client]":
    """A client whose failures are sentences. Raises ModelFailed."""
    import httpx

    try:
        import ollama
    except ValueError:
        # It reads OLLAMA_HOST as it is imported, for a client that nobody here uses, and its error has a part of it.
        # What that setting means is said by ``options``, without a part of a password.
        host = os.environ.pop("OLLAMA_HOST")
        try:
            import ollama
        finally:
            os.environ["OLLAMA_HOST"] = host
    parts = urlsplit(url)
    client = ollama.Client(
        host=url,
        timeout=httpx.Timeout(SILENCE_S, connect=CONNECT_S),
        follow_redirects=False,
        trust_env=not is_loopback(parts.hostname or ""),
        auth=_as_it_is if parts.scheme == "https" else _without_key,
    )
    try:
        with client:
            yield client
    except ollama.ResponseError as error:
        raise _refused(url, name, error.status_code, error.error) from error
    except (ConnectionError, httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        raise unreachable(url, error, CONNECT_S) from error
    except httpx.TimeoutException as error:
        raise _silent(url, SILENCE_S) from error
    except httpx.HTTPError as error:
        raise broken(url, error) from error
    except _NONSENSE as error:
        raise _other(url) from error


def _without_key(request: "httpx.Request") -> "httpx.Request":
    request.headers.pop("authorization", None)
    return request


def _as_it_is(request: "httpx.Request") -> "httpx.Request":
    return request


def _silent(url: str, answer_s: float) -> ModelFailed:
    return ModelFailed(f"Ollama at {url} said nothing for {answer_s:g} s.", remedy=_AGAIN)


def _other(url: str) -> ModelFailed:
    return ModelFailed(
        f"What answers at {url} is not Ollama.", remedy="Say where it listens: OLLAMA_HOST or --ollama-url."
    )


_WHY: Final[tuple[tuple[re.Pattern[str], str, str], ...]] = (
    (
        re.compile(r"manifest.*(?:file does not exist|not found|unknown)|repository.*not found", re.IGNORECASE),
        "There is no model {name} where Ollama fetches models from.",
        "Look at https://ollama.com/library for its name and its tag.",
    ),
    (
        re.compile(r"no space left|disk.*full|not enough (?:disk )?space|disk quota", re.IGNORECASE),
        "The disk of {url} is full: {said}.",
        "Make room there (`ollama rm NAME` removes a model), then type the same command again: it goes on.",
    ),
    (
        re.compile(r"newer version of ollama", re.IGNORECASE),
        "The model {name} needs a newer Ollama than the one at {url}.",
        "Update Ollama there, then type the same command again.",
    ),
    (
        re.compile(r"invalid model name", re.IGNORECASE),
        "{name} is not a name of a model.",
        "Say it like qwen2.5-coder:7b.",
    ),
    (
        re.compile(r"unauthori[sz]ed|forbidden|denied|sign ?in|cloud.*disabled", re.IGNORECASE),
        "Ollama at {url} may not fetch {name}: {said}.",
        "Sign in there with `ollama signin`, or choose another model.",
    ),
    (
        re.compile(
            r"no such host|dial tcp|lookup |i/o timeout|connection re(?:fused|set)|network is unreachable|TLS|x509"
            r"|EOF|max retries|stalled|deadline exceeded",
            re.IGNORECASE,
        ),
        "Ollama at {url} does not reach the place that it fetches models from: {said}.",
        "Look at that host's network, then type the same command again: it goes on where it stopped.",
    ),
    (
        re.compile("digest mismatch", re.IGNORECASE),
        "What Ollama at {url} fetched of {name} was damaged on the way: {said}.",
        "Type the same command again: the damaged part is fetched again.",
    ),
)
"""What Ollama says of a pull that fails, what that means, and what to do; the first that fits."""


def _refused(url: str, name: str, status: int, body: Any) -> ModelFailed:
    said, _ = unwrapped(body)
    if 300 <= status < 400:
        return ModelFailed(
            f"{url} redirects elsewhere, which is not followed.",
            remedy="Say where Ollama itself listens: OLLAMA_HOST or --ollama-url.",
        )
    why, remedy = f"Ollama at {{url}} {'answered ' + str(status) if status > 0 else 'gave up'}: {{said}}.", _AGAIN
    for pattern, sentence, what in _WHY:
        if pattern.search(said):
            why, remedy = sentence, what
            break
    else:
        if status in (401, 403):
            why, remedy = _WHY[4][1:]
        elif status in (404, 405):
            why, remedy = "What answers at {url} is not Ollama, or a very old one: {said}.", "Update Ollama there."
    shown = said.rstrip(".") or "no reason given"
    return ModelFailed(why.format(url=url, name=f"'{one_line(name)}'", said=shown), remedy=remedy)
