"""Whole tasks with a model of an Ollama server that misbehaves: each goes on, or ends with a sentence."""

import json
from typing import Any

import pytest

from orchestrator.app.library import execute_task_with_agent
from orchestrator.core.reply.response import MAX_REPLY_CHARS
from orchestrator.tools.deps import CCAgentDeps
from tests.harness.ollama_server import (
    FACTS,
    OllamaServer,
    Persona,
    breaks,
    floods,
    ollama,
    plays,
    refuses,
    says,
    stops,
)
from tests.harness.support import call, final
from tests.harness.support import says as wants

LOOK = wants(call("cc_read", path="hello.lua"))


async def run(server: OllamaServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A task of the library form with the model `ollama:tiny:1b` of a server, found by OLLAMA_HOST."""
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    return await execute_task_with_agent("look", CCAgentDeps(mode="stub"), model="ollama:tiny:1b", max_steps=8)


async def test_a_task_is_played_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read and a final over real HTTP: the second request carries the first reply and its result."""
    async with ollama(plays(LOOK, final("It is a stub.", success=False))) as server:
        result = await run(server, monkeypatch)
    assert result.message == "It is a stub."
    assert [one["role"] for one in server.asked[1]["messages"]] == ["system", "user", "assistant", "user"]
    assert "Stub content for hello.lua" in server.asked[1]["messages"][3]["content"]


@pytest.mark.parametrize(
    ("persona", "told"),
    [
        (stops(json.dumps(LOOK)), "Your reply broke off before its end."),
        (says(json.dumps(LOOK), "length"), "Your reply was cut off at the length limit."),
        (floods, "Your reply broke off before its end."),
        (says(""), "Your reply was empty."),
    ],
    ids=["no last line", "cut at the limit", "blanks for ever", "nothing said"],
)
async def test_a_reply_that_is_not_whole_is_refused_and_the_task_goes_on(
    persona: Persona, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it runs, the model is told why, and its next reply ends the task."""
    async with ollama(persona, says(json.dumps(final("Then not.", success=False)))) as server:
        result = await run(server, monkeypatch)
    assert result.message == "Then not."
    assert told in server.asked[1]["messages"][-1]["content"]
    assert len(server.asked) == 2


@pytest.mark.parametrize("reply", ["-" * 9000, "[" * 100_000], ids=["dashes", "brackets"])
async def test_a_reply_without_end_does_not_fill_the_window(reply: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was refused is told in part, so the task goes on."""
    async with ollama(says(reply, "length"), says(json.dumps(final("Then not.", success=False)))) as server:
        result = await run(server, monkeypatch)
    assert result.message == "Then not."
    assert len(server.asked[1]["messages"][-2]["content"]) < 1600


async def test_a_model_that_only_ever_breaks_off_ends_the_task_honestly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three in a row are enough: the task fails and says so."""
    async with ollama(stops("{")) as server:
        result = await run(server, monkeypatch)
    assert not result.success
    assert "3 replies in a row could not be read." in result.message
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("personas", "why"),
    [
        (
            [says("{" * 50, "length")],
            [
                "They were cut off at num_predict 2048. Raise num_predict, and num_ctx",
                f"The last one was `{'{' * 50}`.",
            ],
        ),
        (
            [says("", "length")],
            ["They were empty, and cut off at num_predict 2048. The model used up all of it", 'Set think = "off"'],
        ),
        (
            [says("{", "length"), says("no JSON")],
            [
                "The last one was `no JSON`. It was refused with: Your reply has no JSON",
                "Try another model, a larger num_",
            ],
        ),
        (
            [says("-" * (MAX_REPLY_CHARS + 1))],
            [f"`{'-' * 200}` (and 399801 characters more). It was", "more than 400000 characters", "Try another model"],
        ),
    ],
    ids=["cut", "thoughts", "not only cut", "without end"],
)
async def test_replies_that_were_only_too_long_end_the_task_with_the_remedy(
    personas: list[Persona], why: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each of the three was cut at the limit, the limit has to be raised; else the reply is shown."""
    async with ollama(*personas) as server:
        result = await run(server, monkeypatch)
    assert result.message.startswith("3 replies in a row could not be read. ")
    for part in why:
        assert part in result.message
    assert ("Raise num_predict" in result.message) == (why[0].startswith("They were cut"))


async def test_a_reply_that_a_broken_connection_ate_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is not blamed: the second request is the first one, and the task goes on."""
    async with ollama(breaks("{"), says(json.dumps(final("Here again.", success=False)))) as server:
        result = await run(server, monkeypatch)
    assert result.message == "Here again."
    assert server.asked[0] == server.asked[1]


async def test_a_model_with_too_little_context_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not asked, and nobody is told to raise a num_ctx that is larger already."""
    async with ollama(says("{}")) as server:
        server.facts = {**FACTS, "model_info": {"llama.context_length": 1024}}
        result = await run(server, monkeypatch)
    assert "This model has only 1024 tokens, whatever num_ctx is: take another model" in result.message
    assert "Raise num_ctx" not in result.message
    assert not server.asked


async def test_a_model_that_is_not_there_ends_the_task_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its attempts the task fails, and its message is the command that helps."""
    async with ollama(refuses(404, {"error": "model 'tiny:1b' not found"})) as server:
        result = await run(server, monkeypatch)
    assert not result.success
    assert f"Run `cc-orchestrator models pull tiny:1b --ollama-url {server.url}`." in result.message
