"""A whole orchestrator on loopback with a computer on a real WebSocket, and short words for what a test does with it.

Only the ports are ours: the model plays a script, the clock stands still where a test says so.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from orchestrator.app import orchestrator as app_orchestrator
from orchestrator.app.serving import listen
from orchestrator.core.ports import ChatMessage, ChatModel, ModelReply, Store
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.wire.wire import REVIEWER_SUBPROTOCOL, Family
from orchestrator.runtime.settings import Settings
from orchestrator.testing import ManualClock
from orchestrator.testing.stub_computer import StubComputer
from orchestrator.testing.stub_programs import Program
from tests.harness.support import Server, _listening, call, final, says
from tests.servers import NO_TLS, free_port
from tests.waiting import HANG_S, within

__all__ = [
    "EVERYTHING",
    "HANG_S",
    "WRITE",
    "House",
    "Opened",
    "Playing",
    "Reviewer",
    "call",
    "final",
    "policy",
    "rule",
    "says",
]

Reply = dict[str, Any] | str | Exception
WRITE = call("cc_write", path="a.lua", content="print('new')\n")
FILES: Mapping[str, bytes] = {"a.lua": b"old\n", "b.lua": b"old b\n", "hello.lua": b"print('hello')\n"}
"""What is on the computer when it is first connected."""


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


# -- a reviewer on the socket --------------------------------------------------------------


@dataclass
class Reviewer:
    """One reviewer's connection; every frame that it hears has the next number."""

    socket: ClientConnection
    seq: int = 0

    async def hear(self, *kinds: str) -> dict[str, Any]:
        """The next frame, which has to be of one of these kinds; any when none is named."""
        frame = await within(self.socket.recv())
        message: dict[str, Any] = json.loads(frame)
        self.seq += 1
        assert message["seq"] == self.seq
        assert not kinds or message["type"] in kinds, message
        return message

    async def say(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def decide(self, request_id: str, *, ref: str = "r", **resume: Any) -> dict[str, Any]:
        """Decide and hear what came of it: ``done`` or ``failed``; other frames on the way are passed over."""
        await self.say(type="decide", ref=ref, request_id=request_id, resume=resume)
        while True:
            frame = await self.hear()
            if frame["type"] in ("done", "failed"):
                return frame


def reviewing(url: str, token: str) -> connect:
    """A connection to the reviewers' door."""
    return connect(
        f"{url.replace('http', 'ws', 1)}/reviewer",
        additional_headers={"Authorization": f"Bearer {token}"},
        subprotocols=[Subprotocol(REVIEWER_SUBPROTOCOL)],
        compression=None,
        proxy=None,
    )


# -- the house ---------------------------------------------------------------------------


@dataclass
class Opened(Server):
    """A running orchestrator, and what a test does with it."""

    house: "House"

    @property
    def stub(self) -> StubComputer:
        """Computer 3."""
        return self.house.stubs["3"]

    @property
    def store(self) -> Store:
        return self.orchestrator.store

    # -- what happened -------------------------------------------------------------------

    async def items(self, task_id: str, *kinds: str) -> list[AgentTaskItem]:
        """The task's journal, or its items of some kinds."""
        found = await self.store.read(task_id)  # type: ignore[arg-type]
        return [one for one in found if not kinds or one.fact.kind in kinds]

    async def facts(self, task_id: str, *kinds: str) -> list[Any]:
        """What the task's items say, or those of some kinds; whoever asks knows what they hold."""
        return [one.fact for one in await self.items(task_id, *kinds)]

    async def system_items(self, *kinds: str) -> list[AgentTaskItem]:
        """The node's own stream."""
        return await self.items("system", *kinds)

    async def item(
        self, task_id: str, kind: str, *, after: int = 0, where: Callable[[Any], bool] = lambda _: True
    ) -> dict[str, Any]:
        """The first item of a kind past a version, as it comes: read from the task's events. ``where``: of its fact."""
        headers = {"Authorization": f"Bearer {self.admin}"}
        async with (
            asyncio.timeout(HANG_S),
            self.http.stream("GET", f"/v1/tasks/{task_id}/events?hints=0&after={after}", headers=headers) as events,
        ):
            async for line in events.aiter_lines():
                if line.startswith("data: "):
                    told: dict[str, Any] = json.loads(line.removeprefix("data: "))
                    if told.get("fact", {}).get("kind") == kind and where(told["fact"]):
                        return told
        raise AssertionError(f"the task ended without {kind} after version {after}")

    async def task(self, task_id: str) -> dict[str, Any]:
        """The task whole, as its door gives it."""
        answer = await self.ask("GET", f"/v1/tasks/{task_id}")
        assert answer.status_code == 200, answer.text
        whole: dict[str, Any] = answer.json()
        return whole

    async def ended(self, task_id: str) -> dict[str, Any]:
        """The task once it is over."""
        return await self.until(task_id, "task_ended")

    async def request(self, task_id: str, *, after: int = 0) -> dict[str, Any]:
        """The open request that the task raised past a version, as its door gives it."""
        raised = await self.item(task_id, "review_requested", after=after)
        answer = await self.ask("GET", f"/v1/requests/{raised['fact']['request_id']}")
        assert answer.status_code == 200, answer.text
        whole: dict[str, Any] = answer.json()
        return whole

    async def version_of(self, request: Mapping[str, Any]) -> int:
        """Of the item that raised a request."""
        raised = await self.items(request["task_id"], "review_requested")
        return next(one.version for one in raised if one.fact.request_id == request["request_id"])  # type: ignore[union-attr]

    async def version(self, task_id: str) -> int:
        """Of the task's last item."""
        return int((await self.task(task_id))["version"])

    # -- what people do ------------------------------------------------------------------

    async def asked(self, **more: Any) -> tuple[str, dict[str, Any]]:
        """A new task, and the request that it raised."""
        task_id = await self.submit(**more)
        return task_id, await self.request(task_id)

    async def decide(
        self,
        request: Mapping[str, Any] | str,
        action: str | None = None,
        *,
        token: str | None = None,
        wait_s: float = 0,
        headers: Mapping[str, str] | None = None,
        **resume: Any,
    ) -> httpx2.Response:
        """``POST /v1/resume``; ``token`` None: the admin's."""
        request_id = request if isinstance(request, str) else request["request_id"]
        body = {"action": action, **resume} if action is not None else resume
        path = f"/v1/resume/{request_id}" + (f"?wait_s={wait_s}" if wait_s else "")
        return await self.ask("POST", path, body, token=token, **(headers or {}))

    async def agent(self, name: str = "robot", *roles: str, **more: str) -> str:
        """A new agent's token."""
        return await self._token({"kind": "agent", "name": name, "roles": list(roles or ("submitter",)), **more})

    async def change_policy(self, text: str) -> dict[str, Any]:
        """Write the policy's file and have it looked at; what the door answers."""
        self.house.policy_path.write_text(text, "utf-8")
        answer = await self.ask("POST", "/v1/policy/reload", {})
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    async def dry_run(self, tool: str, args: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """What the policy would say of a call."""
        answer = await self.ask("POST", "/v1/policy/dry-run", {"tool": tool, "args": dict(args or {}), **more})
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    @asynccontextmanager
    async def reviewing(self, token: str | None = None) -> AsyncIterator[Reviewer]:
        """A reviewer on the socket, before the snapshot."""
        async with reviewing(self.url, self.admin if token is None else token) as socket:
            yield Reviewer(socket)

    # -- time and place ------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Move the clock, and have the workers look at it."""
        assert self.house.clock is not None, "open the house with clock=ManualClock()"
        self.house.clock.advance(seconds)
        self.orchestrator.service.bus.publish("tasks.due", {})

    async def connect(self, name: str, **more: Any) -> StubComputer:
        """Connect another computer; ``more``: as for StubComputer."""
        return await self.house.connect(self, name, **more)


@dataclass
class House:
    """A data directory and the computers around it: opened, closed and opened again.

    ``store``: empty for SQLite in the directory. The port stays the same, so the computers find it again.
    """

    directory: Path
    store: str = ""
    clock: ManualClock | None = None
    stubs: dict[str, StubComputer] = field(default_factory=dict)
    _dialing: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)
    _port: int = field(default_factory=free_port)

    @property
    def policy_path(self) -> Path:
        return self.directory / "policy.toml"

    @asynccontextmanager
    async def open(
        self,
        model: ChatModel | None = None,
        *,
        policy: str | None = None,
        clock: ManualClock | None = None,
        wrap_store: Callable[[Store], Store] = lambda store: store,
        files: Mapping[str, bytes] = FILES,
        programs: Mapping[str, Program] | None = None,
        family: Family = "advanced",
        label: str | None = "farm",
        computer: bool = True,
        **settings: Any,
    ) -> AsyncIterator[Opened]:
        """The whole orchestrator; ``policy`` None: what the directory has, or the shipped one.

        Computer 3 with these files is connected, unless ``computer`` is False; opened again, it is what it was.
        """
        self.clock = clock or self.clock
        self.directory.mkdir(exist_ok=True)
        if policy is not None:
            self.policy_path.write_text(policy, "utf-8")
        chosen = Settings(data_dir=self.directory, port=self._port, store=self.store, **settings)
        listener = listen(chosen)
        host, self._port = listener.getsockname()[:2]
        url = f"http://{host}:{self._port}"
        with closing(listener):
            async with (
                app_orchestrator.open_orchestrator(
                    chosen, clock=self.clock, wrap_store=wrap_store, model=model
                ) as orchestrator,
                _listening(orchestrator, listener),
                httpx2.AsyncClient(base_url=url, trust_env=False, timeout=HANG_S, verify=NO_TLS) as http,
            ):
                admin = chosen.token_path.read_text("utf-8").strip()
                opened = Opened(url, orchestrator, http, admin, self)
                try:
                    for name in self.stubs if computer else ():
                        await self._dial(name)
                    if computer and "3" not in self.stubs:
                        await self.connect(
                            opened, "3", files=files, programs=programs, family=family, label=label, computer_id=3
                        )
                    yield opened
                finally:
                    for name in tuple(self._dialing):
                        await self.hang_up(name)

    async def connect(self, opened: Opened, name: str, **more: Any) -> StubComputer:
        """A new computer, connected; one of the same name is replaced."""
        await self.hang_up(name)
        token = await opened.computer(name)
        self.stubs[name] = StubComputer(opened.url, token, **{"computer_id": len(self.stubs) + 1, **more})
        await self._dial(name)
        return self.stubs[name]

    async def hang_up(self, name: str = "3") -> None:
        """End a computer's connection; what it was doing goes on no further."""
        dialing = self._dialing.pop(name, None)
        if dialing is not None:
            dialing.cancel()
            await asyncio.gather(dialing, return_exceptions=True)

    async def dial(self, name: str = "3") -> None:
        """Connect a computer again that was hung up."""
        await self._dial(name)

    async def _dial(self, name: str) -> None:
        stub = self.stubs[name]
        self._dialing[name] = asyncio.create_task(stub.run())
        await within(stub.welcomed.wait())
