"""Parts of the contract's tests: a model that plays a script, policies, a computer spoken by hand, and digests."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from orchestrator.core.ports import ChatMessage, ModelReply, Store
from orchestrator.core.wire import wire
from orchestrator.testing.stub_computer import StubComputer
from tests.harness.support import StubClient, call, dialed, final
from tests.harness.whole_server import Opened
from tests.waiting import within

Reply = dict[str, Any] | str | Exception
WRITE = call("cc_write", path="a.lua", content="print('new')\n")


# -- the model ---------------------------------------------------------------------------


class Playing:
    """A ``ChatModel`` that answers with the reply whose place is the number of replies so far.

    So it goes on where the journal does after a restart. ``for_prompt``: other scripts for tasks with these
    prompts. A script that has run out ends the task well, and says so again when that is doubted. ``asked``: the
    messages of every request.
    """

    name = "playing"

    def __init__(self, *script: Reply, for_prompt: Mapping[str, Sequence[Reply]] | None = None) -> None:
        self.script: Sequence[Reply] = script
        self.for_prompt = dict(for_prompt or {})
        self.asked: list[list[ChatMessage]] = []

    async def window(self) -> None:
        """It does not say."""

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
        user: str = "",
        affinity: str = "",
        one_computer: bool = False,
    ) -> ModelReply:
        del on_text, max_output_tokens
        self.asked.append(list(messages))
        script = self.for_prompt.get(messages[1].content, self.script)
        place = sum(message.role == "assistant" for message in messages)
        answer = script[place] if place < len(script) else final()
        if isinstance(answer, Exception):
            raise answer
        return ModelReply(text=answer if isinstance(answer, str) else json.dumps(answer))

    @property
    def told(self) -> str:
        """What the model was last told of a step: the last message to it that is no doubt of its success."""
        return next(one.content for one in reversed(self.asked[-1]) if _tells_of_a_step(one))

    @property
    def heard(self) -> str:
        """Everything that it was sent with the last request."""
        return "\n".join(message.content for message in self.asked[-1])


def _tells_of_a_step(message: ChatMessage) -> bool:
    return message.role == "user" and not message.content.startswith("You say success")


# -- policies ----------------------------------------------------------------------------


def rule(name: str, effect: str, tools: Sequence[str] = ("*",), **predicates: Any) -> dict[str, Any]:
    """One rule of a policy."""
    return {"id": name, "effect": effect, "tools": list(tools), **predicates}


LOOKING = rule(
    "looking", "allow", ["cc_read", "cc_list", "cc_find", "local_read", "send_status", "ask_user"], reason="It looks."
)
CHANGING = rule("changing", "ask", ["cc_write", "cc_edit", "cc_move", "cc_mkdir", "cc_delete"], reason="It changes.")
RUNNING = rule("running", "ask", ["cc_run_program", "cc_shell"], reason="It runs.")
EVERYTHING = (LOOKING, CHANGING, RUNNING)
"""Reads are allowed, changes and runs ask: the usual rules of a test."""


def policy(
    *rules: dict[str, Any],
    requests: Mapping[str, Any] | None = None,
    examples: Sequence[Mapping[str, Any]] = (),
    **top: Any,
) -> str:
    """The text of a policy; without rules: EVERYTHING."""
    lines = [f"{name} = {_toml(value)}" for name, value in {"schema_version": 1, **top}.items()]
    if requests:
        lines += ["[requests]", *(f"{name} = {_toml(value)}" for name, value in requests.items())]
    for one in rules or EVERYTHING:
        lines += ["[[rules]]", *(f"{name} = {_toml(value)}" for name, value in one.items())]
    for example in examples:
        lines += ["[[examples]]", *(f"{name} = {_toml(value)}" for name, value in example.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    return json.dumps(value)


# -- computers and digests ---------------------------------------------------------------

LOOKS = ("fs_read", "fs_list", "fs_stat", "fs_find", "info", "screen")
"""The methods that change nothing."""


def sha256(data: bytes | str) -> str:
    """As hexadecimal digits."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def digest_of(content: Mapping[str, Any]) -> str:
    """sha256 of canonical JSON, computed here and not by the product."""
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True))


def calls_of(stub: StubComputer) -> list[wire.Call]:
    """The calls that a stub is sent from now on, as they come."""
    heard: list[wire.Call] = []
    take = stub.start

    def start(call: wire.Call, body: bytes | None) -> None:
        heard.append(call)
        take(call, body)

    vars(stub)["start"] = start
    return heard


def changes_in(calls: list[wire.Call]) -> list[str]:
    """The methods of those that change something or run a program, in order."""
    return [one.method for one in calls if one.method not in LOOKS]


class ByHand:
    """Computer 3, spoken by the test frame by frame. ``seen``: every message of the orchestrator, pings left out."""

    def __init__(self, client: StubClient) -> None:
        self.client = client
        self.seen: list[Any] = []

    async def hear(self) -> tuple[Any, bytes]:
        """The next message that is no ping."""
        while True:
            message, body = await self.client.hear()
            if message.type == "ping":
                await self.client.send(wire.Pong(journal_seq=2, n=message.n))
                continue
            self.seen.append(message)
            return message, body

    async def call(self, *methods: str, files: Mapping[str, bytes] | None = None) -> wire.Call:
        """The next call of one of these methods, acknowledged; looks before it are answered from ``files``."""
        while True:
            message, _ = await self.hear()
            if isinstance(message, wire.Call):
                await self.client.send(wire.Ack(journal_seq=2, call_id=message.call_id))
                if message.method in methods:
                    return message
                await self._look(message, files or {})

    async def settle(self) -> wire.Settle:
        """The next question what became of calls; nothing but acknowledgements may come before it."""
        while True:
            message, _ = await self.hear()
            if isinstance(message, wire.Settle):
                return message
            assert isinstance(message, wire.ResultAck), message

    async def ok(self, call: wire.Call, data: Mapping[str, Any] | None = None, output: bytes = b"") -> None:
        """Say that a call succeeded."""
        body = wire.whole(output) if output else None
        done = wire.Result(journal_seq=3, call_id=call.call_id, ok=True, data=dict(data or {}), body=body)
        await self.client.send(done, output)

    async def failed(self, call: wire.Call, code: str) -> None:
        """Say that a call failed."""
        await self.client.send(wire.Result(journal_seq=3, call_id=call.call_id, ok=False, code=code, message="No."))

    async def _look(self, call: wire.Call, files: Mapping[str, bytes]) -> None:
        path = str(call.params.get("path", call.params.get("command", ""))).lstrip("/")
        data = files.get(path)
        if call.method == "fs_read" and data is not None:
            await self.ok(call, {"size": len(data), "sha256": sha256(data)}, data)
        elif call.method == "fs_stat" and data is not None:
            about = {"kind": "file", "path": path, "size": len(data), "sha256": sha256(data), "read_only": False}
            await self.ok(call, about)
        elif call.method == "fs_stat":
            await self.ok(call, {"kind": "absent", "path": path, "sha256": "absent", "read_only": False})
        else:
            await self.failed(call, "not_found")


@asynccontextmanager
async def by_hand(server: Opened, token: str, **hello: Any) -> AsyncIterator[ByHand]:
    """Computer 3 by hand, connected and welcome; ``hello``: what it says otherwise."""
    async with dialed(server.url, token) as client:
        await client.greet(**hello)
        yield ByHand(client)


class Gated:
    """A store whose appends of some kinds of facts wait for the test. ``reached[kind]`` is set when one waits.

    ``parked`` is set when a task was put to sleep.
    """

    def __init__(self, store: Store, *kinds: str) -> None:
        self._store = store
        self.reached = {kind: asyncio.Event() for kind in kinds}
        self.go = {kind: asyncio.Event() for kind in kinds}
        self.parked = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def park(self, *args: Any, **more: Any) -> bool:
        """As the store has it."""
        woke = await self._store.park(*args, **more)
        self.parked.set()
        return woke

    async def append(self, task_id: Any, version: int, drafts: Any, **more: Any) -> Any:
        """As the store has it, once the test lets it."""
        for draft in drafts:
            kind = draft.fact.kind
            if kind in self.go:
                self.reached[kind].set()
                await within(self.go[kind].wait())
        return await self._store.append(task_id, version, drafts, **more)
