"""The models that are there when nobody names one: Ollama's, those of other servers here, and providers with a key.

Nothing is sent but the question for the list of models, and no key goes along with it.
"""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from orchestrator.adapters.models.ollama_errors import AskAnother
from orchestrator.adapters.models.ollama_server import OllamaApi, Refusal, is_loopback
from orchestrator.adapters.models.openai_server import ModelServer
from orchestrator.adapters.models.options import OllamaOptions, ServerOptions, endpoints_of
from orchestrator.core.connection_problems import is_private
from orchestrator.core.errors import ModelFailed

CONNECT_S: Final = 0.5
"""How long a connection may take: where nobody listens it is refused at once."""
LOOK_S: Final = 2.0
"""How long all of them have together to say what they have."""
LOCAL_SERVERS: Final = (("LM Studio", 1234), ("llama-server", 8080), ("vLLM", 8000))
"""Programs that speak OpenAI's API, and where each listens unless it is told otherwise."""
_MOST_MODELS: Final = 200
_NAME: Final = re.compile(r"[\w.:/@+~-]{1,200}")
"""Such a name can be typed behind ``--model``; another one is left out."""


@dataclass(frozen=True)
class FoundModel:
    """A model that is there."""

    name: str
    """The name as ``--model`` takes it."""
    where: str
    """The program that has it, and its address; of a provider, the variable that has its key."""
    size: int = 0
    """Bytes; 0: nobody says."""
    url: str = ""
    """The ``model_url`` that goes with the name; empty: none."""
    hosted: bool = False
    """Whether it runs elsewhere: it costs money, and the text of tasks goes there."""
    here: bool = False
    """Whether it needs the memory of this machine."""
    known: bool = True
    """Whether its server says which program it is."""
    takes_key: bool = False
    """Whether the key of OpenAI would go there with each request, though nobody named this address."""

    @property
    def rank(self) -> int:
        """How well its family writes programs; the lower, the better."""
        return next((place for place, one in enumerate(_CODERS) if one.search(self.name)), len(_CODERS))

    @property
    def is_coder(self) -> bool:
        """Whether its family is known to write programs, and it is not one of the smallest."""
        return self.rank < len(_CODERS) and not 0 < self.size < _SMALL_BYTES


_CODERS: Final = tuple(
    re.compile(one, re.IGNORECASE)
    for one in ("qwen3(?:[.]\\d)?-coder", "qwen2[.]5-coder", "devstral|codestral", "deepseek-coder-v2", "gpt-oss")
)
_SMALL_BYTES: Final = 1_500_000_000
"""Smaller models mostly do not keep to the form of a reply for a whole task."""
_NO_TEXT: Final = re.compile(r"embed|(?:^|[:/-])bge-|minilm|rerank|whisper", re.IGNORECASE)
_CLOUD: Final = re.compile(r"[:-]cloud$")


@dataclass(frozen=True)
class Found:
    """All that is there."""

    models: Sequence[FoundModel] = ()
    empty: Sequence[str] = ()
    """Addresses where Ollama runs and has no model."""
    silent: Sequence[str] = ()
    """Sentences about addresses that somebody named, or that took too long, and that did not tell their models."""


# -- Looking ----------------------------------------------------------------------------


async def look_for_models(ollama: str, served: str, environ: Mapping[str, str]) -> Found:
    """What is there now, after :data:`LOOK_S` at the latest.

    ``ollama``, ``served``: the addresses that the settings name; empty: where these programs listen on this machine.
    """
    places = (
        [(served, "a model server")]
        if served
        else [(f"http://127.0.0.1:{port}/v1", name) for name, port in LOCAL_SERVERS]
    )
    kept = (_in_time(_of_ollama(one.url), f"Ollama at {one.url}", bool(ollama)) for one in endpoints_of(ollama))
    others = (_in_time(_of_server(url, trusted=bool(served)), f"{name} at {url}", bool(served)) for url, name in places)
    seen = await asyncio.gather(*kept, *others)
    models = [model for found in seen for model in found.models]
    empty, silent = [[one for found in seen for one in getattr(found, of)] for of in ("empty", "silent")]
    # With an address of its own, that name means the server there.
    elsewhere = [one for one in hosted_models(environ) if not (served and one.name.startswith("openai-chat:"))]
    return Found([*models, *elsewhere], empty, silent)


async def _in_time(looking: Any, what: str, named: bool) -> Found:
    """What one of them says; that it says nothing is told where somebody named it, or where it is only slow."""
    try:
        async with asyncio.timeout(LOOK_S):
            found: Found = await looking
            return found
    except TimeoutError:
        return Found(silent=(f"{what} did not tell its models within {LOOK_S:g} s.",))
    except (AskAnother, ModelFailed, Refusal, OSError, TypeError, ValueError):
        return Found(silent=(f"{what} does not answer, or is something else.",) if named else ())


async def _of_ollama(url: str) -> Found:
    api = OllamaApi(url, OllamaOptions(url=url, connect_s=CONNECT_S, fact_s=LOOK_S))
    listed = await api.listed()
    rows = listed.get("models") if isinstance(listed, dict) else None
    if not isinstance(rows, list):
        raise TypeError
    here = is_loopback(urlsplit(url).hostname or "")
    models = [one for row in rows[:_MOST_MODELS] if (one := _kept(row, url, here)) is not None]
    return Found(models, () if models else (url,))


def _kept(row: Any, url: str, here: bool) -> FoundModel | None:
    """A row of Ollama's list; None: it writes no text, or cannot be named."""
    name = row.get("name") if isinstance(row, dict) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name) or _NO_TEXT.search(name):
        return None
    can = row.get("capabilities")
    if isinstance(can, list) and can and "completion" not in can:
        return None
    size = row.get("size")
    cloud = bool(row.get("remote_host") or row.get("remote_model") or _CLOUD.search(name))
    return FoundModel(
        f"ollama:{name}",
        f"Ollama's cloud, by {url}" if cloud else f"Ollama at {url}",
        size=size if isinstance(size, int) and size > 0 and not cloud else 0,
        hosted=cloud or _is_far(url),
        here=here and not cloud,
    )


def _is_far(url: str) -> bool:
    """Whether an address is neither on this machine nor in its private network."""
    host = urlsplit(url).hostname or ""
    return not (is_loopback(host) or is_private(host))


async def _of_server(url: str, *, trusted: bool) -> Found:
    # The key is for the server that somebody named, not for whatever listens at a port.
    key = os.environ.get("OPENAI_API_KEY", "")
    options = ServerOptions(url=url, connect_s=CONNECT_S, fact_s=LOOK_S, api_key=key if trusted else "")
    server = ModelServer(url, options)
    facts = await server.facts("")
    if facts.program == "Ollama":
        return Found()
    known = bool(facts.program) or trusted
    where = f"{facts.program or 'a model server'} at {url}{'' if known else ', which does not say what it is'}"
    names = [one for one in facts.names[:_MOST_MODELS] if _NAME.fullmatch(one) and not _NO_TEXT.search(one)]
    return Found(
        [
            FoundModel(
                f"openai-chat:{one}",
                where,
                url=url,
                hosted=_is_far(url),
                known=known,
                takes_key=bool(key) and not trusted,
            )
            for one in names
        ]
    )


# -- Providers ---------------------------------------------------------------------------

PROVIDERS: Final = (
    ("ANTHROPIC_API_KEY", "anthropic", "anthropic:claude-sonnet-5-5"),
    ("OPENAI_API_KEY", "openai", "openai-chat:gpt-5.6-terra"),
    ("GOOGLE_API_KEY", "google.genai", "google:gemini-3.8-flash"),
    ("MISTRAL_API_KEY", "mistralai", "mistral:codestral-latest"),
)
"""The variable with the key of a provider, the package that it needs, and a model of it."""


def hosted_models(environ: Mapping[str, str]) -> list[FoundModel]:
    """A model of each provider whose key is set and whose package is installed."""
    return [
        FoundModel(name, variable, hosted=True)
        for variable, package, name in PROVIDERS
        if environ.get(variable) and _is_installed("pydantic_ai") and _is_installed(package)
    ]


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


# -- Which one is suggested ----------------------------------------------------------------

_SHARE: Final = 1.2
"""A model takes more memory than its file has: the window is there, too."""


def fits(model: FoundModel, memory: int | None) -> bool | None:
    """Whether it fits the memory of this machine; None: that cannot be known."""
    if not model.here or not model.size or memory is None:
        return None
    return model.size * _SHARE <= memory


def suggested(models: Sequence[FoundModel], memory: int | None) -> FoundModel | None:
    """The best one in this network: first what fits, then coders, Ollama, the larger; None: there is none.

    A server that does not say what it is, and one that the key of OpenAI would go to, are not suggested.
    """

    def worth(one: FoundModel) -> tuple[bool, bool, bool, int, int]:
        large = fits(one, memory) is False
        family = one.rank if one.is_coder else len(_CODERS)
        return (large, not one.is_coder, bool(one.url), family, one.size if large else -one.size)

    return min((one for one in models if not (one.hosted or one.takes_key) and one.known), key=worth, default=None)


def memory_here() -> int | None:
    """Bytes that a model may use: free memory, or the memory of the largest graphics card; None: unknown."""
    known = [one for one in (_free_memory(), *_of_cards()) if one]
    return max(known, default=None)


def _free_memory() -> int | None:
    try:
        told = Path("/proc/meminfo").read_text("ascii")
        return next(int(line.split()[1]) * 1024 for line in told.splitlines() if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        # Half of it: nobody says here what other programs use.
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return None


def _of_cards() -> list[int]:
    cards: list[int] = []
    for path in Path("/sys/class/drm").glob("card*/device/mem_info_vram_total"):
        try:
            cards.append(int(path.read_text("ascii")))
        except (OSError, ValueError):
            continue
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return cards
    asks = [tool, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(asks, capture_output=True, text=True, timeout=2, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return cards
    return cards + [int(line) * 1024 * 1024 for line in told.splitlines() if line.strip().isdecimal()]
