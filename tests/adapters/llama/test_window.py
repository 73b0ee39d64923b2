"""The window of a real engine: what does not fit is said, and what somebody leaves out is noticed."""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import pytest

from orchestrator.adapters.models import OllamaOptions
from orchestrator.adapters.models.ollama import OllamaModel
from orchestrator.core.errors import ModelFailed, ReplyRefused
from orchestrator.core.ports import ChatMessage, ModelReply
from orchestrator.core.reply.response import read_reply
from tests.adapters.llama import DEEP
from tests.adapters.llama.front import NAME, fronted, hands_on, reads
from tests.adapters.llama.running import Engine, Engines
from tests.harness.ollama_server import OllamaServer

pytestmark = DEEP

FINAL = '{"kind": "final", "explanation": "", "success": true, "message": "Done."}'
SENTENCE = "The quarry stops at the third layer, since the turtle has no fuel left and waits for coal. "


def model(server: OllamaServer, engine: Engine, **options: Any) -> OllamaModel:
    """The model in the engine's whole window."""
    chosen = {"num_predict": 256, "temperature": 1.0, **options}
    return OllamaModel(NAME, OllamaOptions(url=server.url, num_ctx=engine.context, **chosen))


def view(*said: str) -> list[ChatMessage]:
    """Rules, and what was said in turn."""
    roles = ("user", "assistant")
    return [
        ChatMessage("system", "Answer with one JSON object."),
        *(ChatMessage(roles[place % 2], text) for place, text in enumerate(said)),  # type: ignore[arg-type]
    ]


def wire(messages: Sequence[ChatMessage]) -> list[dict[str, str]]:
    """Messages as they are sent."""
    return [{"role": one.role, "content": one.content} for one in messages]


@pytest.mark.parametrize("shifts", [False, True], ids=["as asked", "an engine that shifts"])
async def test_a_prompt_that_is_too_long_is_an_error_with_both_lengths(engines: Engines, shifts: bool) -> None:
    """The engine's own error, nested in Ollama's, told as a sentence; a shorter prompt is answered right after."""
    engine = engines.of("babbler", 1024, shifts=shifts)
    long = view(SENTENCE * 20)
    length = await engine.length(wire(long))
    assert length > engine.context
    async with fronted(engine) as server:
        asking = model(server, engine)
        with pytest.raises(ModelFailed) as told:
            await asking.reply(long)
        assert told.value.lasting
        assert told.value.message == (
            f"The conversation does not fit the model's window: it has {length} tokens, the window has 1024."
        )
        assert told.value.remedy == "Raise num_ctx, or split the task into smaller ones."
        assert (await asking.reply(view("Well?"))).text


async def test_a_reply_ends_with_its_window(engines: Engines) -> None:
    """With ``shift: false`` the window bounds a reply, whatever num_predict says, and the end is said as a cut."""
    engine = engines.of("babbler", 1024)
    replies = await _near_the_end(engine)
    cut = [one for one in replies if one.done_reason == "length"]
    assert cut
    for one in cut:
        total = one.usage.input_tokens + one.usage.output_tokens
        assert engine.context - 2 <= total <= engine.context
        with pytest.raises(ReplyRefused, match="cut off at the length limit"):
            read_reply(one.text, finish_reason=one.done_reason)
    assert all(one.usage.input_tokens + one.usage.output_tokens <= engine.context for one in replies)


async def _near_the_end(engine: Engine) -> list[ModelReply]:
    """Replies for which the window has little room left."""
    async with fronted(engine) as server:
        return [await model(server, engine, num_predict=900, seed=seed).reply(view(SENTENCE * 9)) for seed in range(12)]


async def test_an_engine_that_goes_on_past_its_window_is_noticed(engines: Engines) -> None:
    """A server that does not know ``shift`` forgets the middle of the conversation: such a reply is not used."""
    engine = engines.of("babbler", 1024, shifts=True)
    told = []
    async with fronted(engine, hands_on(engine, forgets_shift=True)) as server:
        for seed in range(12):
            asking = model(server, engine, num_predict=900, seed=seed)
            try:
                reply = await asking.reply(view(SENTENCE * 9))
            except ModelFailed as error:
                told.append(error.message)
            else:
                assert reply.usage.input_tokens + reply.usage.output_tokens <= engine.context + 8
    assert told
    assert all("went on past its window" in one for one in told)


@pytest.mark.parametrize(
    ("kind", "sentences", "most"),
    [("qwen2", 3, 5), ("qwen2", 12, 2), ("llama-spm", 3, 5), ("llama-spm", 12, 2), ("babbler", 3, 5)],
)
async def test_a_conversation_that_is_cut_in_silence_is_noticed(
    engines: Engines, kind: str, sentences: int, most: int
) -> None:
    """A server that does not know ``truncate`` leaves out the task first: within ``most`` such replies the counts tell.

    Of what has come since, only its words are certain; so it takes a few turns where little comes with each.
    """
    engine = engines.of(kind, 1024)
    said, fitted = ["The task."], 0
    counted: list[int] = []
    async with fronted(engine, reads(engine, repeat(FINAL), cuts=True, counted=counted)) as server:
        asking = model(server, engine)

        async def talk() -> None:
            nonlocal fitted
            for turn in range(40):
                fitted += await engine.length(wire(view(*said))) < engine.context
                await asking.reply(view(*said), affinity="t")
                said.extend([FINAL, f"{turn}. {SENTENCE * sentences}"])

        with pytest.raises(ModelFailed, match="it cut the conversation without a word, so the reply is not used"):
            await talk()
    assert fitted > 1
    assert 1 <= len(counted) - fitted <= most, counted


async def test_a_conversation_that_fits_is_never_taken_for_cut(engines: Engines) -> None:
    """The same up to the last turn that fits, with every kind of tokenizer."""
    for kind in ("babbler", "qwen2", "llama-spm"):
        engine = engines.of(kind, 1024)
        said = ["The task."]
        async with fronted(engine, reads(engine, repeat(FINAL))) as server:
            asking = model(server, engine)
            while await engine.length(wire(view(*said))) < engine.context:
                assert (await asking.reply(view(*said), affinity="t")).done_reason == "stop"
                said += [FINAL, SENTENCE * 3]
        assert len(said) > 5
