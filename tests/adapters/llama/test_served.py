"""A real engine asked by OpenAI's API: it holds to the schema, tells its window, and says what does not fit."""

from typing import Any

import pytest

from orchestrator.adapters.models import ServerOptions
from orchestrator.adapters.models.openai import ServedModel
from orchestrator.core.errors import ModelFailed
from orchestrator.core.model_view.prompt import Window
from orchestrator.core.ports import ChatMessage
from orchestrator.core.reply.response import read_reply
from tests.adapters.llama import DEEP
from tests.adapters.llama.running import Engine, Engines

pytestmark = DEEP

VIEW = [ChatMessage("system", "Answer with one JSON object."), ChatMessage("user", "Do it.")]
REPLIES = 20


def model(engine: Engine, **options: Any) -> ServedModel:
    return ServedModel("any", ServerOptions(url=engine.url, temperature=1.0, **options))


async def test_replies_are_held_to_the_schema(engines: Engines) -> None:
    """Whatever a model says that says anything: what is whole can be read, and what was cut is said to be."""
    engine, whole = engines.of("babbler", 8192), 0
    for seed in range(REPLIES):
        asking = model(engine, seed=seed, num_predict=4000)
        assert await asking.window() == Window(8192, 2048)
        reply = await asking.reply(VIEW, one_computer=seed % 2 == 0)
        assert 0 < reply.usage.output_tokens <= 2048
        if reply.done_reason == "stop":
            read_reply(reply.text, finish_reason=reply.done_reason, unknown_tools="keep")
            whole += 1
        else:
            assert (reply.done_reason, reply.usage.output_tokens) == ("length", 2048)
    assert whole


async def test_limits_are_kept_and_what_does_not_fit_is_said(engines: Engines) -> None:
    """The bound of one reply, and the engine's own error as a sentence; a shorter prompt is answered right after."""
    asking = model(engines.of("babbler", 1024))
    short = await asking.reply(VIEW, max_output_tokens=5)
    assert (short.done_reason, short.usage.output_tokens) == ("length", 5)
    with pytest.raises(ModelFailed, match="does not fit the window") as told:
        await asking.reply([*VIEW[:1], ChatMessage("user", "words and words " * 400)])
    assert told.value.lasting
    assert (await asking.reply(VIEW, max_output_tokens=5)).done_reason == "length"
