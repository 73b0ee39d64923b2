"""Which models are found where nobody names one, and which of them is suggested."""

import time
from dataclasses import replace
from typing import get_args

import pytest
from pydantic_ai.models import KnownModelName

from orchestrator.adapters.models.found import LOOK_S, PROVIDERS, FoundModel, fits, look_for_models, suggested
from tests.harness.ollama_server import Wire, ollama, says

GB = 10**9
NOWHERE = "http://127.0.0.1:9"


def kept(name: str, size: float = 0, *, hosted: bool = False) -> FoundModel:
    """A model of Ollama here."""
    return FoundModel(f"ollama:{name}", "Ollama", size=int(size * GB), hosted=hosted, here=not hosted)


async def silent(wire: Wire) -> None:
    """A server that takes a request and says nothing."""
    await wire.left.wait()


async def test_who_says_nothing_does_not_hold_up_the_start() -> None:
    """Half a second for all of them together; what stands there and is no model server is left out."""
    async with ollama(says("{}")) as dumb, ollama(says("{}"), models=["a:1b"]) as good, ollama(says("{}")) as odd:
        dumb.hidden = {"/api/tags": silent, "/v1/models": silent}
        odd.listed = ["a page"]
        began = time.monotonic()
        found = await look_for_models(f"{dumb.url},{good.url},{odd.url},{NOWHERE}", dumb.url, {})
        assert time.monotonic() - began < 3 * LOOK_S
    assert [one.name for one in found.models] == ["ollama:a:1b"]
    assert found.empty == []
    assert {one.partition(" at ")[0] for one in found.silent} == {"Ollama"}


@pytest.mark.parametrize(
    ("models", "memory", "name"),
    [
        ([kept("llama3:8b", 5), kept("qwen2.5-coder:7b", 5)], 8, "ollama:qwen2.5-coder:7b"),
        ([kept("qwen2.5-coder:32b", 20), kept("qwen2.5-coder:7b", 5)], 8, "ollama:qwen2.5-coder:7b"),
        ([kept("qwen2.5-coder:32b", 20), kept("qwen2.5-coder:7b", 5)], 32, "ollama:qwen2.5-coder:32b"),
        ([kept("qwen2.5-coder:0.5b", 0.4), kept("llama3:8b", 5)], 8, "ollama:llama3:8b"),
        ([kept("a:70b", 40), kept("b:30b", 20)], 8, "ollama:b:30b"),
        ([kept("qwen3-coder:480b-cloud", hosted=True)], 8, None),
    ],
    ids=["a coder", "what fits", "the larger", "not the smallest", "the least that is too large", "never a hosted one"],
)
def test_the_suggestion(models: list[FoundModel], memory: int, name: str | None) -> None:
    """First what fits the memory, then what writes programs."""
    best = suggested(models, memory * GB)
    assert (best.name if best else None) == name


def test_what_is_not_sure_is_not_suggested() -> None:
    """A program that does not say what it is, and one that would get a key that was meant for another."""
    server = FoundModel("openai-chat:qwen2.5-coder", "a model server", url="http://127.0.0.1:8080/v1")
    assert suggested([server], None) == server
    assert suggested([replace(server, known=False)], None) is None
    assert suggested([replace(server, takes_key=True)], None) is None


def test_nobody_knows_what_fits_elsewhere() -> None:
    """Another machine's memory, or a size that is not said."""
    assert fits(FoundModel("ollama:a", "there", size=GB), GB) is None
    assert fits(kept("a"), GB) is None
    assert fits(kept("a", 1), None) is None


def test_each_provider_has_the_model_that_is_named() -> None:
    """As the library for hosted models lists them."""
    known = get_args(KnownModelName.__value__)
    assert [name for _, _, name in PROVIDERS if name not in known] == []
