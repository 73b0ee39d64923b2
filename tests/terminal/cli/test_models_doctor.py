"""`doctor` on the models of several Ollama servers: each is looked at, its window and the cloud are told."""

import asyncio
from pathlib import Path

import pytest

from orchestrator.terminal.doctor import Finding, examine
from tests.harness.ollama_server import FACTS, Persona, falls_silent, garbles, ollama, refuses, says

NOBODY = "http://127.0.0.1:9"


async def looked(home: Path, url: str, model: str = "ollama:tiny:1b") -> list[Finding]:
    """What was found of the model."""
    environ = {"CC_ORCHESTRATOR_MODEL": model, "CC_ORCHESTRATOR_OLLAMA_URL": url}
    found = await asyncio.to_thread(examine, NOBODY, home, environ)
    return [one for one in found if one.check == "model"]


async def test_each_server_is_looked_at(tmp_path: Path) -> None:
    """One has the model, one does not, one is down, one has a smaller one of that name; each says what mends it."""
    async with (
        ollama(says("{}"), models=("tiny:1b",)) as having,
        ollama(says("{}"), models=("mistral",)) as lacking,
        ollama(says("{}"), models=("tiny:1b",)) as smaller,
    ):
        smaller.facts = {**FACTS, "model_info": {"llama.context_length": 4096}}
        found = await looked(tmp_path, ",".join((having.url, lacking.url, NOBODY, smaller.url)))
    assert [(one.state, one.sentence) for one in found] == [
        ("ok", f"Ollama at {having.url} has tiny:1b; the window is 8192 tokens. The model was made for 32768."),
        ("fail", f"Ollama at {lacking.url} has no model tiny:1b."),
        ("fail", f"Ollama does not answer at {NOBODY}."),
        ("warn", f"tiny:1b at {smaller.url} has a window of 4096 tokens, and num_ctx is 8192."),
    ]
    assert f"Run `cc-orchestrator models pull tiny:1b --ollama-url {lacking.url}`." in found[1].remedy
    assert "Models there: mistral." in found[1].remedy
    assert f"Ollama is not running at {NOBODY}." in found[2].remedy
    assert found[3].remedy == ("cc-orchestrator serve --num-ctx 4096",)


async def test_the_cloud_and_what_writes_no_text(tmp_path: Path) -> None:
    """Neither is what a newcomer expects."""
    async with ollama(says("{}"), models=("tiny:1b",)) as server:
        server.facts = {**FACTS, "remote_host": "https://ollama.com:443"}
        (cloud,) = await looked(tmp_path, server.url)
        server.facts = {**FACTS, "capabilities": ["embedding"]}
        (mute,) = await looked(tmp_path, server.url)
    assert (cloud.state, "leave this network" in cloud.remedy[0]) == ("warn", True)
    assert (mute.state, mute.sentence) == ("fail", f"tiny:1b at {server.url} writes no text.")


@pytest.mark.parametrize(
    ("persona", "why"),
    [
        (refuses(404, b"nothing here", "text/plain"), "is not Ollama: it answered 404: nothing here."),
        (refuses(200, b"<html></html>", "text/html"), "is not Ollama: it answered something else than a list"),
        (garbles(), "is not Ollama: it answered something else than a list"),
        (falls_silent(), "did not answer within 1.4 s."),
    ],
    ids=["not found", "a page", "nothing", "silence"],
)
async def test_what_is_not_ollama_is_told_from_what_is_down(tmp_path: Path, persona: Persona, why: str) -> None:
    """The reason stands below."""
    async with ollama(says("{}")) as server:
        server.hidden = {"/api/tags": persona}
        (found,) = await looked(tmp_path, server.url)
    assert (found.state, found.sentence) == ("fail", f"Ollama does not answer at {server.url}.")
    assert why in found.remedy[0]


async def test_facts_that_are_not_told_are_none(tmp_path: Path) -> None:
    """A server that lists its models and tells no more is well."""
    async with ollama(says("{}"), models=("tiny:1b",)) as server:
        server.hidden = dict.fromkeys(("/api/show", "/api/version"), refuses(500, {"error": "odd"}))
        (found,) = await looked(tmp_path, server.url)
    assert (found.state, found.sentence) == ("ok", f"Ollama at {server.url} has tiny:1b; the window is 8192 tokens.")
