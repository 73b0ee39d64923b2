"""The whole server in the loop of the test, with a real socket: for all that people, models and computers do with it.

`running` is the server alone. `Installation` is a data directory with stub computers around it, for a test that opens
the server again or needs the journal, the clock or the policy at hand. Only the ports are fakes, and what a process
does at its start and at a signal needs `tests.harness.commands`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from orchestrator.app import orchestrator as app_orchestrator
from orchestrator.app.serving import listen, server_of
from orchestrator.core.ports import ChatModel, Store
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.wire.review import REVIEWER_SUBPROTOCOL
from orchestrator.core.wire.wire import Family
from orchestrator.runtime.settings import Settings
from orchestrator.testing import ManualClock
from orchestrator.testing.stub_computer import StubComputer
from orchestrator.testing.stub_programs import Program
from tests.harness.support import Disk, dialed
from tests.servers import NO_TLS, free_port
from tests.waiting import HANG_S, within

FILES: Mapping[str, bytes] = {"a.lua": b"old\n", "b.lua": b"old b\n", "hello.lua": b"print('hello')\n"}
"""What is on the computer when it is first connected."""


# -- a reviewer on the socket --------------------------------------------------------------


@dataclass
class Reviewer:
    """One reviewer's connection; every frame that it hears has the next number."""

    socket: ClientConnection
    seq: int = 0

    async def hear(self, *kinds: str) -> dict[str, Any]:
        """The next frame, which has to be of one of these kinds; any when none is named."""
        message = await within(self.hear_whenever())
        assert not kinds or message["type"] in kinds, message
        return message

    async def hear_whenever(self) -> dict[str, Any]:
        """The next frame, however long that takes."""
        frame = await self.socket.recv()
        assert isinstance(frame, str)
        message: dict[str, Any] = json.loads(frame)
        self.seq += 1
        assert message["seq"] == self.seq
        return message

    async def either(self, first: str, second: str) -> dict[str, dict[str, Any]]:
        """The next two frames, which have to be these two, in either order."""
        found = {frame["type"]: frame for frame in [await self.hear(first, second) for _ in range(2)]}
        assert set(found) == {first, second}
        return found

    async def say(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def send_decision(self, request: Mapping[str, Any], ref: str = "r-1", **resume: Any) -> None:
        """Decide, and hear nothing yet; without a word of how: approve."""
        body = resume or {"action": "approve"}
        await self.say(type="decide", ref=ref, request_id=request["request_id"], resume=body)

    async def decide(self, request_id: str, *, ref: str = "r", **resume: Any) -> dict[str, Any]:
        """Decide and hear what came of it: ``done`` or ``failed``; other frames on the way are passed over."""
        await self.say(type="decide", ref=ref, request_id=request_id, resume=resume)
        while True:
            frame = await self.hear()
            if frame["type"] in ("done", "failed"):
                return frame


@asynccontextmanager
async def reviewing(url: str, token: str, speaks: str = REVIEWER_SUBPROTOCOL) -> AsyncIterator[Reviewer]:
    """A reviewer on the socket, before the snapshot."""
    socket = await connect(
        f"{url.replace('http', 'ws', 1)}/reviewer",
        additional_headers={"Authorization": f"Bearer {token}"},
        subprotocols=[Subprotocol(speaks)],
        compression=None,
        proxy=None,
    )
    async with socket:
        assert socket.subprotocol == speaks
        yield Reviewer(socket)


# -- the server ------------------------------------------------------------------------


@dataclass
class Server:
    """A running orchestrator and its endpoints."""

    url: str
    orchestrator: app_orchestrator.Orchestrator
    http: httpx2.AsyncClient
    """Without a token."""
    admin: str

    async def ask(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str
    ) -> httpx2.Response:
        """One request; ``token`` None: the admin's."""
        sent = {"Authorization": f"Bearer {self.admin if token is None else token}", **headers}
        return await self.http.request(method, path, json=body, headers=sent)

    async def person(self, name: str, *roles: str) -> str:
        """A new person's token."""
        return await self._token({"kind": "person", "name": name, "roles": list(roles or ("submitter",))})

    async def computer(self, name: str) -> str:
        """A new computer's token."""
        return await self._token({"kind": "computer", "name": name})

    async def _token(self, body: dict[str, Any]) -> str:
        answer = await self.ask("POST", "/v1/tokens", body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    async def submit(self, computers: Sequence[str] = ("3",), token: str | None = None, **more: Any) -> str:
        """A new task's id."""
        body = {"prompt": "fix my farm", "computers": list(computers), **more}
        answer = await self.ask("POST", "/v1/tasks", body, token=token)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["task_id"])

    async def until(self, task_id: str, *kinds: str) -> dict[str, Any]:
        """The task as it stands once it has an item of one of these kinds; read from its events."""
        headers = {"Authorization": f"Bearer {self.admin}"}
        async with asyncio.timeout(HANG_S):
            async with self.http.stream("GET", f"/v1/tasks/{task_id}/events", headers=headers) as events:
                async for line in events.aiter_lines():
                    if line.startswith("event: ") and line.removeprefix("event: ") in kinds:
                        break
        task: dict[str, Any] = (await self.ask("GET", f"/v1/tasks/{task_id}")).json()
        return task

    def reviewing(
        self, token: str | None = None, *, speaks: str = REVIEWER_SUBPROTOCOL
    ) -> AbstractAsyncContextManager[Reviewer]:
        """A reviewer on the socket, before the snapshot; ``token`` None: the admin's."""
        return reviewing(self.url, self.admin if token is None else token, speaks)

    async def paused(self, task_id: str) -> dict[str, Any]:
        """The open request of a task that is about to pause."""
        request: dict[str, Any] = (await self.until(task_id, "review_requested"))["request"]
        return request


@asynccontextmanager
async def running(
    directory: Path,
    *,
    model: ChatModel | None = None,
    parts: Mapping[str, Any] | None = None,
    admin: str = "",
    most: int = 1024,
    **settings: Any,
) -> AsyncIterator[Server]:
    """An orchestrator that listens on a free port, or the one among the settings, in this very loop.

    ``parts``: what else `open_orchestrator` is given; ``admin``: the admin's token, where it has no file;
    ``most``: connections at once.
    """
    chosen = Settings(data_dir=directory, **{"port": 0, "store": "memory:", **settings})
    listener = listen(chosen)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with closing(listener):
        async with (
            app_orchestrator.open_orchestrator(chosen, model=model, **(parts or {})) as orchestrator,
            _listening(orchestrator, listener, most),
            httpx2.AsyncClient(base_url=url, trust_env=False, timeout=HANG_S, verify=NO_TLS) as http,
        ):
            admin = admin or chosen.token_path.read_text("utf-8").strip()
            yield Server(url, orchestrator, http, admin)


@asynccontextmanager
async def _listening(
    orchestrator: app_orchestrator.Orchestrator, listener: socket, most: int = 1024
) -> AsyncIterator[None]:
    server = server_of(orchestrator, most)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        await orchestrator.hub.close()
        server.stop()
        await serving


@asynccontextmanager
async def connected(server: Server, name: str, disk: Disk, token: str | None = None) -> AsyncIterator[str]:
    """A computer that is connected and answers from a disk; its token."""
    token = token or await server.computer(name)
    async with dialed(server.url, token) as client:
        await client.greet()
        serving = asyncio.create_task(client.serve(disk))
        yield token
        await client.socket.close()
        await serving


# -- an installation that is opened again ------------------------------------------------


@dataclass
class Opened(Server):
    """A running orchestrator, and what a test does with it."""

    installation: "Installation"

    @property
    def stub(self) -> StubComputer:
        """Computer 3."""
        return self.installation.stubs["3"]

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
        """The task whole, as its endpoint gives it."""
        answer = await self.ask("GET", f"/v1/tasks/{task_id}")
        assert answer.status_code == 200, answer.text
        whole: dict[str, Any] = answer.json()
        return whole

    async def ended(self, task_id: str) -> dict[str, Any]:
        """The task once it is over."""
        return await self.until(task_id, "task_ended")

    async def request(self, task_id: str, *, after: int = 0) -> dict[str, Any]:
        """The open request that the task raised past a version, as its endpoint gives it."""
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
        """Write the policy's file and have it looked at; what the endpoint answers."""
        self.installation.policy_path.write_text(text, "utf-8")
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

    # -- time and place ------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Move the clock, and have the workers look at it."""
        assert self.installation.clock is not None, "open the installation with clock=ManualClock()"
        self.installation.clock.advance(seconds)
        self.orchestrator.service.bus.publish("tasks.due", {})

    async def connect(self, name: str, **more: Any) -> StubComputer:
        """Connect another computer; ``more``: as for StubComputer."""
        return await self.installation.connect(self, name, **more)


@dataclass
class Installation:
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
        parts = {"clock": self.clock, "wrap_store": wrap_store}
        kept = {"port": self._port, "store": self.store, **settings}
        async with running(self.directory, model=model, parts=parts, **kept) as server:
            opened = Opened(server.url, server.orchestrator, server.http, server.admin, self)
            try:
                for name in self.stubs if computer else ():
                    await self.dial(name)
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
        await self.dial(name)
        return self.stubs[name]

    async def hang_up(self, name: str = "3") -> None:
        """End a computer's connection; what it was doing goes on no further."""
        dialing = self._dialing.pop(name, None)
        if dialing is not None:
            dialing.cancel()
            await asyncio.gather(dialing, return_exceptions=True)

    async def dial(self, name: str = "3") -> None:
        """Connect a computer again that was hung up."""
        stub = self.stubs[name]
        self._dialing[name] = asyncio.create_task(stub.run())
        await within(stub.welcomed.wait())
