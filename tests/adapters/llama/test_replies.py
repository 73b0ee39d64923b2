"""What a model says under the grammar can be read, whatever it says; what was cut is refused."""

import json
import math
from collections import Counter
from typing import Any, Final

import pytest

from orchestrator.adapters.models import OllamaOptions
from orchestrator.adapters.models.ollama import OllamaModel
from orchestrator.core.errors import ReplyRefused
from orchestrator.core.ports import ChatMessage, ModelReply
from orchestrator.core.reply.response import TOOL_ARGS, FinalResult, ToolRequest, read_reply
from orchestrator.core.reply.schema import reply_schema
from tests.adapters.llama import DEEP
from tests.adapters.llama.front import NAME, fronted
from tests.adapters.llama.running import Engine
from tests.harness.ollama_server import OllamaServer

pytestmark = DEEP

WANTED: Final = 100
MOST: Final = 200
"""Replies that are asked for until so many have ended by themselves."""
TEMPERATURES: Final = (1.0, 1.5, 2.0)
VIEW: Final = [ChatMessage("system", "Answer with one JSON object."), ChatMessage("user", "Do anything at all.")]
CUT: Final = "Your reply was cut off at the length limit."


async def babble(server: OllamaServer, seed: int, **options: Any) -> ModelReply:
    """One reply; another seed, another reply."""
    chosen = {"num_ctx": 8192, "num_predict": 4096, "temperature": TEMPERATURES[seed % len(TEMPERATURES)], **options}
    return await OllamaModel(NAME, OllamaOptions(url=server.url, seed=seed, **chosen)).reply(VIEW)


def form_of(text: str) -> str:
    """Reads a reply that has ended: it has to be one of the three forms, with tools that exist and their arguments."""
    read, said = read_reply(text), json.loads(text)
    if isinstance(read, FinalResult):
        assert (read.success, read.message, read.details) == (said["success"], said["message"], said.get("details", {}))
        return "final"
    assert isinstance(read, ToolRequest)
    wanted = said.get("tool_calls") or [said["tool_call"]]
    assert [call.tool for call in read.calls] == [one["tool"] for one in wanted]
    for call, one in zip(read.calls, wanted, strict=True):
        # Nothing is lost and nothing altered: the arguments as they were written, defaults left out.
        TOOL_ARGS[call.tool].model_validate(call.args)
        assert call.args.items() <= one["args"].items()
    return "batch" if read.tool_calls else "call"


def beyond_schemas(text: str) -> str:
    """Words of the refusal that a whole reply deserves for what no schema forbids; empty: there is nothing of it."""
    twice, endless = [], []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        twice.extend([key for key, count in Counter(key for key, _ in found).items() if count > 1])
        return dict(found)

    def number(digits: str) -> float:
        endless.extend([digits] if math.isinf(float(digits)) else [])
        return float(digits)

    value = json.loads(text, object_pairs_hook=pairs, parse_float=number)
    if twice or endless:
        return "twice" if twice else "too large"
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "half of a surrogate pair"
    return ""


async def test_100_of_100_random_replies_can_be_read(babbler: Engine) -> None:
    """Each names tools that exist, with arguments that they take; each that the limit cut is refused.

    Not counted among them, and refused too: what no schema keeps a model from, such as half a character as an escape.
    """
    forms: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    async with fronted(babbler) as server:
        for seed in range(MOST):
            reply = await babble(server, seed)
            if reply.done_reason == "length":
                with pytest.raises(ReplyRefused, match="cut off at the length limit"):
                    read_reply(reply.text, finish_reason=reply.done_reason)
                continue
            assert reply.done_reason == "stop"
            if why := beyond_schemas(reply.text):
                with pytest.raises(ReplyRefused, match=why):
                    read_reply(reply.text)
                refused[why] += 1
                continue
            forms[form_of(reply.text)] += 1
            if forms.total() == WANTED:
                break
    assert forms.total() == WANTED
    assert set(forms) == {"call", "batch", "final"}
    assert refused.total() <= WANTED / 5, refused


async def test_random_batches_can_be_read(babbler: Engine) -> None:
    """The form with several calls by itself: two to four of them, as many as the schema lets."""
    _, batch, _ = reply_schema()["anyOf"]
    sizes: Counter[int] = Counter()
    for seed in range(MOST):
        answer = await babbler.asked(
            "/completion", prompt="x", json_schema=batch, n_predict=6000, temperature=1.5, seed=seed
        )
        said = answer.raise_for_status().json()
        if said["stop_type"] == "eos" and not beyond_schemas(said["content"]):
            assert form_of(said["content"]) == "batch"
            sizes[len(json.loads(said["content"])["tool_calls"])] += 1
        if sizes.total() == 20:
            break
    assert sizes.total() == 20
    assert set(sizes) <= {2, 3, 4}
    assert len(sizes) > 1


async def test_a_reply_that_the_limit_cut_is_refused(babbler: Engine) -> None:
    """The end is said as what it is, and the sentence for the model says what to do."""
    async with fronted(babbler) as server:
        reply = await babble(server, 7, num_predict=64)
        assert (reply.done_reason, reply.usage.output_tokens) == ("length", 64)
        assert server.asked[0]["options"]["num_predict"] == 64
    with pytest.raises(ReplyRefused) as told:
        read_reply(reply.text, finish_reason=reply.done_reason)
    assert str(told.value).startswith(f"{CUT} Only {len(reply.text.strip())} characters of it are an answer: ")
