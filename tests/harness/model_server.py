"""A server that speaks OpenAI's API over real HTTP on loopback, as LM Studio, llama-server and vLLM do, and misbehaves.

Each request for a reply is answered by the next persona of the server's list, the last one for ever.
"""

import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.harness.ollama_server import OllamaServer, Persona, Wire, listening, refuses

MODEL = "tiny-1b"
LLAMA: Mapping[str, Any] = {
    "/v1/models": {"data": [{"id": MODEL, "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}]},
    "/props": {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1},
}
LLAMA_LIST: Mapping[str, Any] = {
    "/v1/models": {"data": [{"id": MODEL, "owned_by": "llamacpp", "meta": {"n_ctx": 2048, "n_ctx_train": 131072}}]}
}
STUDIO: Mapping[str, Any] = {
    "/v1/models": {"data": [{"id": MODEL, "owned_by": "organization_owner"}, {"id": "other"}]},
    "/api/v0/models": {
        "data": [
            {"id": "other", "state": "not-loaded", "max_context_length": 32768},
            {"id": MODEL, "state": "loaded", "max_context_length": 131072, "loaded_context_length": 6144},
        ]
    },
}
VLLM: Mapping[str, Any] = {"/v1/models": {"data": [{"id": MODEL, "owned_by": "vllm", "max_model_len": 16384}]}}
PLAIN: Mapping[str, Any] = {"/v1/models": {"data": [{"id": MODEL}]}}
OLLAMA: Mapping[str, Any] = {"/v1/models": {"data": [{"id": MODEL, "owned_by": "library"}]}}


@dataclass
class ModelServer(OllamaServer):
    """The server as a test sees it; ``told``: what it answers at a path, at all others 404."""

    asks_at: str = "/v1/chat/completions"
    told: dict[str, Any] = field(default_factory=dict)

    def _fact(self, path: str, asked: Mapping[str, Any]) -> tuple[int, Any]:
        del asked
        return (200, self.told[path]) if path in self.told else (404, {"error": {"message": "Not Found"}})

    @property
    def forms(self) -> list[str]:
        """What form of a reply each request asked for."""
        return [one.get("response_format", {}).get("type", "") for one in self.asked]


@asynccontextmanager
async def model_server(
    *personas: Persona, told: Mapping[str, Any] = PLAIN, port: int = 0
) -> AsyncIterator[ModelServer]:
    """A server on a port, 0: a free one; ``told``: which program it is."""
    server = ModelServer(personas=deque(personas), told=dict(told))
    async with listening(server, port):
        yield server


# -- personas ------------------------------------------------------------------------------


async def event(wire: Wire, value: Any) -> None:
    """One event of a stream."""
    await wire.raw(b"data: " + json.dumps(value).encode() + b"\n\n")


async def parts(wire: Wire, text: str) -> None:
    """The beginning of a stream, with this text."""
    await wire.head(kind="text/event-stream")
    await wire.raw(b": OK\n\n")
    await event(wire, {"choices": [{"delta": {"role": "assistant", "content": None}}]})
    for start in range(0, len(text), 40):
        await event(wire, {"choices": [{"index": 0, "delta": {"content": text[start : start + 40]}}]})


def streams(text: str, reason: str | None = "stop", *, read: int | None = 11, wrote: int = 7) -> Persona:
    """A whole reply; ``read``: the tokens of the prompt that it says it had, None: nothing of tokens."""

    async def persona(wire: Wire) -> None:
        await parts(wire, text)
        await event(wire, {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        if read is not None:
            await event(wire, {"choices": [], "usage": {"prompt_tokens": read, "completion_tokens": wrote}})
        await wire.raw(b"data: [DONE]\n\n")
        await wire.end()

    return persona


def at_once(text: str) -> Persona:
    """A reply that is not streamed, over several lines, as some proxies make it."""

    async def persona(wire: Wire) -> None:
        body = {
            "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7},
        }
        await wire.head(kind="application/json")
        await wire.raw(json.dumps(body, indent=1).encode())
        await wire.end()

    return persona


def plays(*replies: Mapping[str, Any]) -> Persona:
    """The reply whose place is the number of replies in the view."""

    async def persona(wire: Wire) -> None:
        place = sum(message["role"] == "assistant" for message in wire.asked["messages"])
        await streams(json.dumps(replies[place]))(wire)

    return persona


def takes(
    *forms: str, then: Persona, status: int = 400, said: str = "response_format.type is not supported"
) -> Persona:
    """Answers only requests for one of these forms of a reply; empty: for none."""

    async def persona(wire: Wire) -> None:
        form = wire.asked.get("response_format", {}).get("type", "")
        await (then if form in forms else refuses(status, {"error": {"message": said}}))(wire)

    return persona


def gives_up(text: str, error: Any) -> Persona:
    """An error in the middle of a stream, after this text."""

    async def persona(wire: Wire) -> None:
        await parts(wire, text)
        await event(wire, {"error": error})
        await wire.end()

    return persona


def breaks_off(text: str) -> Persona:
    """A stream that ends in good form, without its last events."""

    async def persona(wire: Wire) -> None:
        await parts(wire, text)
        await wire.raw(b'data: {"choices": [{"de')
        await wire.end()

    return persona
