"""Ollama in front of a real engine: what it makes of a request, and how it tells what the engine answered.

Only what concerns a reply is done as Ollama does it (models.md, section 1): the template, the schema that goes on
unchanged, the bounds, the counts, the errors in its own words with the engine's inside.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.adapters.llama.models import LONGEST
from tests.adapters.llama.running import Engine
from tests.harness.ollama_server import FACTS, OllamaServer, Persona, Wire, ollama, refuses

NAME: Final = "random:tiny"
_ENDINGS: Final = {"eos": "stop", "word": "stop", "limit": "length"}
Message = Mapping[str, str]


@asynccontextmanager
async def fronted(engine: Engine, persona: Persona | None = None) -> AsyncIterator[OllamaServer]:
    """A server that has the one model of this engine, loaded with its window; ``persona`` None: it hands on all."""
    async with ollama(persona or hands_on(engine), models=[NAME]) as server:
        server.facts = {**FACTS, "model_info": {"general.architecture": "llama", "llama.context_length": LONGEST}}
        server.running = {"models": [{"name": NAME, "model": NAME, "context_length": engine.context}]}
        yield server


def hands_on(engine: Engine, *, cuts: bool = False, forgets_shift: bool = False) -> Persona:
    """Asks the engine what it is asked.

    ``cuts``: it does not know ``truncate`` and leaves out the oldest messages until the rest fits, as Ollama does when
    nobody says otherwise. ``forgets_shift``: it does not know ``shift`` either; else the engine has to be as was asked.
    """

    async def persona(wire: Wire) -> None:
        options = wire.asked["options"]
        assert options["num_ctx"] == engine.context, "Ollama would load the model anew"
        assert forgets_shift or wire.asked["shift"] is False
        messages = wire.asked["messages"]
        if cuts:
            messages = await _cut(engine, messages)
        body = {
            "prompt": await engine.prompt(messages),
            "json_schema": wire.asked["format"],
            "n_predict": options["num_predict"],
            "temperature": options["temperature"],
            "seed": options["seed"],
            "top_k": 40,
            "top_p": 0.9,
            "min_p": 0.0,
            "cache_prompt": True,
            "stream": True,
        }
        await _relayed(engine, wire, body)

    return persona


def reads(engine: Engine, replies: Iterator[str], *, cuts: bool = False, counted: list[int] | None = None) -> Persona:
    """The engine reads what it is sent and counts it, or refuses it; what is replied was written before.

    ``counted``: gets the tokens of each prompt that was read.
    """

    async def persona(wire: Wire) -> None:
        assert wire.asked["options"]["num_ctx"] == engine.context
        messages = await _cut(engine, wire.asked["messages"]) if cuts else wire.asked["messages"]
        response = await engine.asked("/completion", prompt=await engine.prompt(messages), n_predict=1)
        if response.is_error:
            await refuses(response.status_code, {"error": response.text})(wire)
            return
        read, text = response.json()["tokens_evaluated"], next(replies)
        if counted is not None:
            counted.append(read)
        await wire.head()
        written, room = await engine.tokens(text), engine.context - read
        await wire.text(text if written <= room else text[:room])
        ending = "stop" if written <= room else "length"
        await wire.done(ending, prompt_eval_count=read, eval_count=min(written, room))

    return persona


async def _relayed(engine: Engine, wire: Wire, body: Mapping[str, Any]) -> None:
    async with engine.client() as client, client.stream("POST", "/completion", json=body) as response:
        if response.is_error:
            # The engine's own error, as a string in Ollama's.
            await refuses(response.status_code, {"error": (await response.aread()).decode()})(wire)
            return
        await wire.head()
        async for line in response.aiter_lines():
            kind, _, data = line.partition(": ")
            if kind not in ("data", "error"):
                continue
            chunk = json.loads(data)
            if "error" in chunk or kind == "error":
                await wire.line({"error": data})
                return await wire.end()
            if chunk["content"]:
                await wire.line({"message": {"role": "assistant", "content": chunk["content"]}, "done": False})
            if chunk["stop"]:
                counts = {"prompt_eval_count": chunk["tokens_evaluated"], "eval_count": chunk["tokens_predicted"]}
                return await wire.done(_ENDINGS[chunk["stop_type"]], **counts)
    # The engine has gone: no last line.
    await wire.end()
    return None


async def _cut(engine: Engine, messages: Sequence[Message]) -> list[Message]:
    """What Ollama leaves of messages: those of the system, and of the others the last that fit."""
    for first in range(len(messages)):
        kept = [one for place, one in enumerate(messages) if place >= first or one["role"] == "system"]
        if await engine.length(kept) < engine.context:
            return kept
    return list(messages[-1:])
