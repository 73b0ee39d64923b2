"""The model server of the whole step, and the person who submits its tasks.

It speaks Ollama's API over HTTP, keeps connections, and streams each reply in parts. Each reply asks for one read that
the policy allows, until the task has its reads; then it ends the task. The peers get the same replies by OpenAI's API,
each in one piece, which costs them less than parts would.
"""

import asyncio
import json
import re
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from typing import Any, Final

import httpx2

from bench import peers
from bench.call_server import PATH, WAIT_S
from bench.worker import answer_all, options, run

PARTS: Final = 8
"""Lines of a streamed reply with text in them."""
LINES: Final = 10
"""What one read asks for, of a file that has more."""
FACTS: Final[dict[str, Any]] = {
    "/api/tags": {"models": [{"name": "tiny", "model": "tiny"}]},
    "/api/ps": {"models": [{"name": "tiny", "context_length": 131_072}]},
    "/api/version": {"version": "0.33.0"},
    "/api/show": {
        "capabilities": ["completion", "tools"],
        "details": {"family": "llama"},
        "model_info": {"general.architecture": "llama", "llama.context_length": 32_768},
    },
}
HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
COMPLETIONS: Final = "/v1/chat/completions"
FINAL: Final = json.dumps(
    {"kind": "final", "explanation": "All was read.", "success": True, "message": "Read it all.", "details": {}}
)


def wants(number: int, lines: int) -> str:
    """A reply that asks for a read; no two of a task ask for the same, which would end it."""
    args = {"path": PATH, "start_line": number % (lines - LINES) + 1, "max_lines": LINES + number // (lines - LINES)}
    call = {"tool": "cc_read", "args": args}
    return json.dumps({"kind": "tool", "explanation": f"I look at part {number} next.", "tool_call": call})


def streamed(text: str, prompt_bytes: int) -> list[bytes]:
    """The answer of ``/api/chat`` as it is sent: head, lines with parts of the text, the line that ends it."""
    size = -(-len(text) // PARTS)
    said = [{"content": text[at : at + size]} for at in range(0, len(text), size)]
    told: list[dict[str, Any]] = [{"message": {"role": "assistant", **one}, "done": False} for one in said]
    counts = {"prompt_eval_count": prompt_bytes // 3, "eval_count": 40}
    told.append({"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop", **counts})
    lines = [json.dumps({"model": "tiny", **one}).encode() + b"\n" for one in told]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    *parts, last = [b"%x\r\n%b\r\n" % (len(line), line) for line in lines]
    return [head, *parts, last + b"0\r\n\r\n"]


def completed(text: str, number: int) -> dict[str, Any]:
    """The same reply as OpenAI's API has it; ``number`` is no other reply's."""
    told = json.loads(text)
    message = {"role": "assistant", "content": told["explanation"]}
    if call := told.get("tool_call"):
        function = {"name": call["tool"], "arguments": json.dumps(call["args"])}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 40, "total_tokens": 140}
    named = {"id": f"r{number}", "object": "chat.completion", "created": 0, "model": "tiny"}
    return {**named, "choices": [choice], "usage": usage}


class ModelServer:
    """Answers as the tasks need it; each is known by the name in its prompt."""

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._left: Counter[bytes] = Counter()
        """Reads that are still to be asked for."""
        self._open: set[bytes] = set()
        self._asked = asyncio.Event()
        self._numbers = count()
        self.connections = 0

    async def start(self) -> str:
        """Listen; the URL."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def expect(self, name: str, reads: int) -> None:
        """A task comes that shall make so many reads."""
        self._left[name.encode()] = reads
        self._open.add(name.encode())

    async def all_told(self) -> None:
        """Return when each task that was expected was told its end. Raises TimeoutError when nobody asks any more."""
        while self._open:
            self._asked.clear()
            async with asyncio.timeout(WAIT_S):
                await self._asked.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: *(\d+)", head.lower())
                body = await reader.readexactly(int(length[1])) if length else b""
                for part in self._answer(head.split(b" ", 2)[1].decode(), body):
                    writer.write(part)
                    # The next turn of the loop, so that each part is sent by itself, as a model's are.
                    await asyncio.sleep(0)
        writer.close()

    def _answer(self, path: str, body: bytes) -> list[bytes]:
        if path == "/api/chat":
            return streamed(self._reply(body), len(body))
        fact = completed(self._reply(body), next(self._numbers)) if path == COMPLETIONS else FACTS[path]
        content = json.dumps(fact).encode()
        return [HEAD % len(content) + content]

    def _reply(self, body: bytes) -> str:
        name = re.search(rb"farm-\d+", body)
        assert name
        self._asked.set()
        left = self._left[name[0]]
        if left == 0:
            self._open.discard(name[0])
            return FINAL
        self._left[name[0]] = left - 1
        return wants(left, self._lines)


async def submitted(http: httpx2.AsyncClient, name: str, computer: str, reads: int) -> str:
    """The id of a task that shall make so many reads."""
    told = {"prompt": peers.prompt(name), "computers": [computer], "max_steps": reads + 1}
    answer = await http.post("/v1/tasks", json=told)
    if answer.status_code != 201:
        raise RuntimeError(f"The server did not take a task: {answer.text}")
    return str(answer.json()["task_id"])


async def main() -> None:
    """Answer as a model, and submit tasks as the pipe says."""
    model = ModelServer(options()["lines"])
    url = await model.start()
    numbers = iter(range(1_000_000))

    async def handle(request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "url":
            return {"url": url}
        began, connected = time.perf_counter(), model.connections
        names = [f"farm-{next(numbers)}" for _ in range(request["tasks"])]
        for name in names:
            model.expect(name, request["reads"])
        if request["do"] == "expect":
            return {"names": names}
        headers = {"Authorization": f"Bearer {request['token']}"}
        async with httpx2.AsyncClient(base_url=request["server"], headers=headers, trust_env=False) as http:
            asks = (submitted(http, name, f"c{at}", request["reads"]) for at, name in enumerate(names))
            task_ids = await asyncio.gather(*asks)
        await model.all_told()
        wall_s, connections = time.perf_counter() - began, model.connections - connected
        return {"task_ids": task_ids, "wall_s": wall_s, "connections": connections}

    await answer_all(handle)


if __name__ == "__main__":
    run(main)
