"""Several nodes on one store: what they share, and what only one of them does.

The nodes are whole orchestrators of this process, each with a data directory and endpoints of its own, on one store in
memory and one bus.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from orchestrator.adapters.bus.local import LocalBus
from orchestrator.adapters.store import objects, open_store
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.app.first_start import started
from orchestrator.computers.nodes import new_node_id
from orchestrator.core.errors import Conflict, PolicyUnusable, StoreAway, ToolFailed
from orchestrator.core.policy import default_policy
from orchestrator.core.policy.load import DEFAULT_POLICY_TOML
from orchestrator.core.ports import SYSTEM_STREAM, ChatModel, Identity, Store
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import SYSTEM, AgentTaskItem, Draft
from orchestrator.core.task.rehearsal import Rehearsal, copy_name
from orchestrator.core.task.system_facts import PolicyLoaded
from orchestrator.core.task.task import AgentTask
from orchestrator.core.undo.plan import Listing
from orchestrator.core.wire.wire import ComputerId, sha256_hex
from orchestrator.engine.tasks import TaskService
from orchestrator.engine.tasks.stored import SingletonJobs
from orchestrator.history.audit import Checkpoints, verify_store
from orchestrator.history.checkpoints import CheckpointKeeper
from orchestrator.history.policy_store import PolicyKeeper
from orchestrator.history.rehearsal.copy import CannotRehearse
from orchestrator.runtime.clock import SystemClock
from orchestrator.runtime.policy_file import load_file
from orchestrator.runtime.settings import Settings
from orchestrator.tools.workspace import MARKER, STAGING, DirectoryWorkspace, RefusedWorkspace, workspace_of
from tests.engine.test_actor import Anyone
from tests.harness.endpoints import Writing
from tests.harness.support import Disk
from tests.harness.whole_server import Server, connected, running
from tests.servers import PostgresServer
from tests.waiting import HANG_S

STRICTER = 'schema_version = 1\n[[rules]]\nid = "no-writes"\neffect = "deny"\ntools = ["cc_write"]\n'
OTHER = DEFAULT_POLICY_TOML + "\n# of another node\n"
ELSEWHERE = 'custom = ["installed-elsewhere"]\n' + DEFAULT_POLICY_TOML


class Shared(InMemoryPersistenceManager):
    """A store that several orchestrators have open; it ends with the test."""

    shared = True

    async def close(self) -> None:
        """Others have it open still."""


class Nodes:
    """Nodes on one store, begun one by one."""

    def __init__(self, tmp_path: Path, stack: AsyncExitStack, url: str = "") -> None:
        self.store: Store = open_store(url, clock=SystemClock()) if url else Shared()
        """As the test looks at it."""
        self.bus = LocalBus()
        self._url = url
        self._tmp_path, self._stack = tmp_path, stack
        self._admin = ""

    def home(self, name: str) -> Path:
        """A node's data directory."""
        return self._tmp_path / name

    async def node(self, name: str, policy: str = "", **settings: Any) -> Server:
        """One more node; ``policy``: what its file says."""
        self.home(name).mkdir()
        self.write(name, policy or DEFAULT_POLICY_TOML)
        server = await self._stack.enter_async_context(self.opened(name, self._admin, **settings))
        self._admin = server.admin
        return server

    def opened(self, name: str, admin: str, **settings: Any) -> AbstractAsyncContextManager[Server]:
        """A node that is about to start, on what is in its directory."""
        parts: dict[str, Any] = {"wrap_bus": lambda _: self.bus}
        if self._url:
            settings["store"] = self._url
        else:
            parts["wrap_store"] = lambda _: self.store
        return running(self.home(name), model=Writing(), parts=parts, admin=admin, **settings)

    def write(self, name: str, policy: str) -> None:
        """Change a node's policy file."""
        (self.home(name) / "policy.toml").write_text(policy)

    async def loaded(self) -> list[PolicyLoaded]:
        """Every policy that came into force, as the audit has it."""
        items = await self.store.read(TaskId(SYSTEM_STREAM))
        return [item.fact for item in items if isinstance(item.fact, PolicyLoaded)]

    async def faults(self, name: str) -> list[str]:
        """What `audit verify` finds with the checkpoint of a node's directory."""
        return [one.detail for one in (await verify_store(self.store, Checkpoints(self.home(name)))).faults]


@pytest.fixture(params=[pytest.param("memory", marks=pytest.mark.deep), "postgresql"])
async def nodes(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer
) -> AsyncIterator[Nodes]:
    """No node yet, on an empty store."""
    name = await postgres_server.new_database() if request.param == "postgresql" else ""
    async with AsyncExitStack() as stack:
        nodes = Nodes(tmp_path, stack, postgres_server.url(name) if name else "")
        stack.push_async_callback(nodes.store.close)
        yield nodes
    if name:
        await postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def policy_of(server: Server) -> dict[str, Any]:
    """What a node says of the policy in force."""
    shown: dict[str, Any] = (await server.ask("GET", "/v1/policy")).json()
    return shown


async def look(*servers: Server) -> None:
    """Let nodes look at their files and at the store now, which they do each second."""
    for server in servers:
        await server.orchestrator.endpoints.policy.look()


# -- the policy --------------------------------------------------------------------------


async def test_a_node_with_another_policy_takes_the_stores_and_says_so(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    """The first node's file is in force, not the second's, whose log, endpoint and doctor say what to do."""
    first = await nodes.node("a")
    second = await nodes.node("b", policy=STRICTER)
    here, there = await policy_of(first), await policy_of(second)
    assert (here["policy_version"], here["alert"]) == (there["policy_version"], "")
    assert here["source"] == there["source"] == str(nodes.home("a") / "policy.toml")
    assert f"policy apply {nodes.home('b') / 'policy.toml'}" in there["alert"]
    assert there["alert"] in caplog.text
    assert there["alert"] in (await second.ask("GET", "/v1/doctor")).json()["alerts"]
    assert (await first.ask("GET", "/v1/doctor")).json()["alerts"] == []
    assert [one.source for one in await nodes.loaded()] == [here["source"]]


async def test_a_file_that_changes_is_in_force_on_all_nodes(nodes: Nodes) -> None:
    """A change of one node's file reaches the others; the same file everywhere is one policy, loaded once."""
    first, second = await nodes.node("a"), await nodes.node("b")
    before = (await policy_of(first))["policy_version"]
    nodes.write("b", STRICTER)
    assert (await second.ask("POST", "/v1/policy/reload", {})).json()["alert"] == ""
    await look(first)
    shown = await policy_of(first)
    assert shown["policy_version"] == (await policy_of(second))["policy_version"] != before
    assert "holds another policy" in shown["alert"]
    nodes.write("a", STRICTER)
    await look(first, second)
    assert [(await policy_of(one))["alert"] for one in (first, second)] == ["", ""]
    assert [one.previous for one in await nodes.loaded()] == ["", before]


async def test_a_node_hears_of_another_policy_without_looking(nodes: Nodes) -> None:
    """The hint on the bus is enough: a node has the new policy soon after another took it."""
    first, second = await nodes.node("a"), await nodes.node("b")
    version = (await second.ask("POST", "/v1/policy", {"policy": STRICTER})).json()["policy_version"]
    async with asyncio.timeout(HANG_S):
        while (await policy_of(first))["policy_version"] != version:
            # Each answer gives the node's own look a turn.
            continue


@pytest.mark.parametrize(
    "how",
    [
        "UPDATE policies SET sha256 = $1, version = version + 1",
        "UPDATE policies SET sha256 = $1",
        "UPDATE policies SET version = version + 1, source = left($1, 5)",
        "DELETE FROM policies WHERE sha256 <> $1",
    ],
)
async def test_a_policy_that_no_item_names_comes_into_force_nowhere(
    tmp_path: Path, postgres_url: str, how: str
) -> None:
    """A row alone is not believed: neither by nodes at work nor by one that starts; all say so, and verify does."""
    async with AsyncExitStack() as stack:
        nodes = Nodes(tmp_path, stack, postgres_url)
        stack.push_async_callback(nodes.store.close)
        first, second = await nodes.node("a"), await nodes.node("b")
        before = (await policy_of(first))["policy_version"]
        blob = await nodes.store.put_blob(b"schema_version = 1\nunknown_tool = 'allow'\n")
        database = await asyncpg.connect(postgres_url)
        try:
            await database.execute(how, blob.sha256)
        finally:
            await database.close()
        await look(first, second)
        third = await nodes.node("c")
        for one in (first, second, third):
            shown = await policy_of(one)
            assert shown["policy_version"] == before
            assert "is not believed" in shown["alert"]
        assert any("policy" in one for one in await nodes.faults("a"))
        version = (await second.ask("POST", "/v1/policy", {"policy": STRICTER})).json()["policy_version"]
        await look(first, third)
        assert [(await policy_of(one))["policy_version"] for one in (first, second, third)] == [version] * 3
        alerts = [(await policy_of(one))["alert"] for one in (first, second, third)]
        assert not any("believed" in one for one in alerts)
        assert await nodes.faults("a") == []


async def test_what_waits_is_judged_again_once(nodes: Nodes) -> None:
    """P15 on several nodes: a request that the new policy denies is superseded once, and the judging is kept."""
    first, second = await nodes.node("a"), await nodes.node("b")
    second.orchestrator.workers.may_act = lambda: False
    async with connected(first, "3", Disk()):
        task_id = await first.submit()
        request = await first.paused(task_id)
        assert (await second.ask("POST", "/v1/policy", {"policy": STRICTER})).status_code == 200
        await asyncio.gather(look(first, second), look(second, first))
        refused = await first.ask("POST", f"/v1/approve/{request['request_id']}", {})
        assert refused.status_code == 409
        await first.until(task_id, "task_ended")
    kinds = [item.fact.kind for item in await nodes.store.read(TaskId(task_id))]
    assert kinds.count("request_ended") == 1
    row = await nodes.store.policy_in_force()
    assert row is not None
    assert (row.version, row.judged) == (2, 2)
    for name in ("a", "b"):
        assert await nodes.faults(name) == []
    checked = (await second.ask("GET", "/v1/audit/check")).json()
    assert checked["findings"] == []


async def test_a_node_that_died_while_it_judged_is_replaced(nodes: Nodes) -> None:
    """Whose duty the judging is, does it alone; where that node never ends it, the next one that looks does."""
    first = await nodes.node("a")
    assert await nodes.store.take_duty("policy.judging", "gone", 300)
    content = STRICTER.encode()
    note = first.orchestrator.service.draft(
        PolicyLoaded(source="x", policy_version="v", sha256=sha256_hex(content)), SYSTEM
    )
    await nodes.store.set_policy(1, content, note=note)
    await look(first)
    row = await nodes.store.policy_in_force()
    assert row is not None
    assert (row.version, row.judged) == (2, 1)
    # Its duty is over.
    assert await nodes.store.take_duty("policy.judging", "gone", 0)
    async with asyncio.timeout(HANG_S):
        # The node looks by itself too. While that look judges, this one does not.
        while row.judged < row.version:
            await look(first)
            row = await nodes.store.policy_in_force()
            assert row is not None
    assert row.version == 2


async def test_of_two_files_that_change_at_once_one_wins(nodes: Nodes) -> None:
    """The other node says that its file is not what is in force, and no decision is made by two policies for long."""
    first, second = await nodes.node("a"), await nodes.node("b")
    nodes.write("a", STRICTER)
    nodes.write("b", OTHER)
    await asyncio.gather(
        first.ask("POST", "/v1/policy/reload", {}), second.ask("POST", "/v1/policy/reload", {}), return_exceptions=False
    )
    await look(first, second)
    shown = [await policy_of(one) for one in (first, second)]
    assert shown[0]["policy_version"] == shown[1]["policy_version"]
    assert sorted(bool(one["alert"]) for one in shown) == [False, True]


async def test_apply_checks_as_a_start_does(nodes: Nodes) -> None:
    """What cannot be loaded is refused and changes nothing; only an admin applies; two at once: one is told to look."""
    first, second = await nodes.node("a"), await nodes.node("b")
    before = await policy_of(first)
    for broken in ("rules = 3", 'custom = ["not-installed"]\nrules = []\n'):
        answer = await second.ask("POST", "/v1/policy", {"policy": broken})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "policy_invalid")
    reviewer = await first.person("rita", "reviewer")
    assert (await first.ask("POST", "/v1/policy", {"policy": STRICTER}, token=reviewer)).status_code == 403
    assert await policy_of(first) == before
    keepers = [one.orchestrator.endpoints.policy for one in (first, second)]
    done = await asyncio.gather(
        *(keeper.apply(text, SYSTEM) for keeper, text in zip(keepers, (STRICTER, OTHER), strict=True)),
        return_exceptions=True,
    )
    assert [type(one) for one in done if one is not None] == [Conflict]


async def test_a_node_alone_keeps_what_was_applied_in_its_file(tmp_path: Path) -> None:
    """Where the file is the policy, applying one writes it for the next start; a broken one is not written."""
    async with running(tmp_path, store="") as server:
        assert (await server.ask("POST", "/v1/policy", {"policy": "rules = 3"})).status_code == 422
        assert (tmp_path / "policy.toml").read_text() == DEFAULT_POLICY_TOML
        answer = (await server.ask("POST", "/v1/policy", {"policy": STRICTER})).json()
        assert answer["alert"] == ""
    assert (tmp_path / "policy.toml").read_text() == STRICTER
    async with running(tmp_path, store="") as server:
        assert (await policy_of(server))["policy_version"] == answer["policy_version"]


async def test_a_node_that_cannot_load_the_policy_acts_for_nothing(nodes: Nodes) -> None:
    """It fails closed: no decision, no lease, 503 at /healthz, and all of that with the reason; until it can."""
    first = await nodes.node("a")
    async with connected(first, "3", Disk()) as token:
        request = await first.paused(await first.submit())
        content = ELSEWHERE.encode()
        fact = PolicyLoaded(source="of another node", policy_version="v", sha256=sha256_hex(content))
        await nodes.store.set_policy(1, content, note=first.orchestrator.service.draft(fact, SYSTEM))
        await look(first)
        health = await first.http.get("/healthz")
        assert (health.status_code, health.json()["error"]["code"]) == (503, "policy_unusable")
        said = health.json()["error"]["message"]
        assert "installed-elsewhere" in said
        for action in ("approve", "reject"):
            answer = await first.ask("POST", f"/v1/{action}/{request['request_id']}", {})
            assert (answer.status_code, answer.json()["error"]["message"]) == (503, said)
        assert not first.orchestrator.workers.may_act()
        with pytest.raises(PolicyUnusable):
            first.orchestrator.endpoints.policy.usable()
        assert said in (await first.ask("GET", "/v1/doctor")).json()["alerts"][0]
        shown = await policy_of(first)
        assert said in shown["alert"]
        assert shown["policy"]["custom"] == ["installed-elsewhere"]
        # A second node that starts now is no better, and starts all the same: it may be mended there.
        second = await nodes.node("b")
        assert (await second.http.get("/healthz")).status_code == 503
        # A task can be stopped anywhere.
        await second.computer("4")
        waiting = await second.submit(computers=("4",), on_reject="cancel")
        assert (await second.ask("POST", f"/v1/tasks/{waiting}/cancel", {})).status_code == 200
        assert (await second.ask("POST", "/v1/policy", {"policy": OTHER})).status_code == 200
        await look(first)
        assert [(await one.http.get("/healthz")).status_code for one in (first, second)] == [200, 200]
        assert first.orchestrator.workers.may_act()
        assert (await first.ask("POST", f"/v1/approve/{request['request_id']}", {})).status_code == 202
        assert token


async def test_a_node_without_a_file_takes_the_stores(nodes: Nodes) -> None:
    """A file that is taken away proposes nothing, and one that comes back with the same policy neither."""
    first, second = await nodes.node("a"), await nodes.node("b", policy=STRICTER)
    (nodes.home("b") / "policy.toml").unlink()
    await look(second)
    assert (await policy_of(second))["alert"] == ""
    assert (await policy_of(second))["policy_version"] == (await policy_of(first))["policy_version"]
    nodes.write("b", DEFAULT_POLICY_TOML)
    await look(second)
    assert (await policy_of(second))["alert"] == ""
    assert len(await nodes.loaded()) == 1


# -- what is there once ------------------------------------------------------------------


async def test_nodes_that_start_at_once_make_one_admin_and_one_policy(nodes: Nodes) -> None:
    """Of three first starts on an empty store one makes the admin's token and puts its policy into force."""
    async with AsyncExitStack() as stack:
        homes = [nodes.home(name) for name in "abc"]
        opened = [nodes.opened(name, "none") for name in "abc"]
        servers = await asyncio.gather(*(stack.enter_async_context(one) for one in opened))
        made = [one.orchestrator.admin_token for one in servers if one.orchestrator.admin_token]
        assert len(made) == 1
        assert sum((home / "admin.token").exists() for home in homes) == 1
        assert [row.name for row in await nodes.store.list_tokens()] == ["admin"]
        assert len(await nodes.loaded()) == 1
        answers = [await one.ask("GET", "/v1/tokens", token=made[0]) for one in servers]
        assert [answer.status_code for answer in answers] == [200, 200, 200]
    stopped = [item.fact for item in await nodes.store.read(TaskId(SYSTEM_STREAM)) if item.fact.kind == "node_stopped"]
    assert len({one.node for one in stopped}) == 3
    for name in "abc":
        assert await nodes.faults(name) == []


async def test_a_code_is_used_once_and_a_name_is_given_once(nodes: Nodes) -> None:
    """One code at two nodes at once pairs one computer; two codes for two computers of one id give two names."""
    both = await nodes.node("a"), await nodes.node("b")

    async def code() -> str:
        return str((await both[0].ask("POST", "/v1/pairings", {})).json()["code"])

    async def pair(server: Server, typed: str) -> dict[str, Any]:
        return dict((await server.http.post("/v1/pair", json={"code": typed, "computer_id": 7})).json())

    same = await code()
    answers = await asyncio.gather(*(pair(server, same) for server in both))
    assert sorted("error" in one for one in answers) == [False, True]
    codes = [await code(), await code()]
    answers = await asyncio.gather(*(pair(server, one) for server, one in zip(both, codes, strict=True)))
    assert {one["computer"] for one in answers} == {"7-2", "7-3"}


async def test_one_node_makes_the_checkpoints(nodes: Nodes) -> None:
    """The others sign nothing as long as it lives, and `audit verify` is content in every data directory."""
    first, second = await nodes.node("a"), await nodes.node("b")
    keepers = [
        CheckpointKeeper(server.orchestrator.service, Checkpoints(nodes.home(name)))
        for server, name in ((first, "a"), (second, "b"))
    ]
    for _ in range(2):
        for keeper in keepers:
            await keeper.make()
    assert [(nodes.home(name) / "audit.checkpoint").exists() for name in "ab"] == [True, False]
    assert [await nodes.faults(name) for name in "ab"] == [[], []]
    await keepers[0].stopped()
    await keepers[1].make()
    assert (nodes.home("b") / "audit.checkpoint").exists()
    assert [await nodes.faults(name) for name in "ab"] == [[], []]
    # Each directory still notices when its own is taken away.
    (nodes.home("b") / "audit.checkpoint").unlink()
    assert await nodes.faults("a") == []
    (said,) = await nodes.faults("b")
    assert "is gone" in said


async def test_one_node_prunes(nodes: Nodes) -> None:
    """The singleton job to prune by the settings is one node's."""
    first, second = await nodes.node("a", retain_days=1), await nodes.node("b", retain_days=1)
    await first.orchestrator.endpoints.pruner.by_settings()
    assert not await second.orchestrator.service.duties.take("pruning", 1)
    assert await first.orchestrator.service.duties.take("pruning", 1)


# -- rehearsals --------------------------------------------------------------------------


async def test_a_rehearsal_is_seen_through_by_one_node(nodes: Nodes) -> None:
    """As long as another node has the job nobody here begins it. When that node is gone, one node does it."""
    first, second = await nodes.node("a"), await nodes.node("b")
    second.orchestrator.workers.may_act = lambda: False
    base = await nodes.store.put_blob(Listing({}).lines)
    task = await first.orchestrator.service.submit(
        "try it",
        user=Identity(kind="person", name="admin", roles=("submitter",)),
        computers=(copy_name(ComputerId("3"), "0a1b2c3d"),),
        model="scripted:hello",
        rehearses=Rehearsal(computer=ComputerId("3"), base=base.sha256, family="computer", capacity=1_000_000),
    )
    duty = f"rehearsal.{task.task_id}"
    assert await nodes.store.take_duty(duty, "gone", 3600)
    for server in (first, second):
        await server.orchestrator.rehearsals.open(f"{server.url.replace('http', 'ws')}/computer")
        await asyncio.gather(*server.orchestrator.rehearsals.going_on())
    assert not (nodes.home("a") / "rehearsals").exists()
    await nodes.store.leave_duty(duty, "gone")
    await first.orchestrator.rehearsals.take_up()
    await first.until(task.task_id, "tool_started")
    await second.orchestrator.rehearsals.take_up()
    await asyncio.gather(*second.orchestrator.rehearsals.going_on())
    await asyncio.gather(*first.orchestrator.rehearsals.going_on())
    kinds = [item.fact.kind for item in await nodes.store.read(task.task_id)]
    assert kinds.count("rehearsal_ended") == 1
    assert not (nodes.home("b") / "rehearsals").exists()
    assert await nodes.store.take_duty(duty, "next", 1)


async def test_a_rehearsal_that_another_node_sees_through_takes_no_place_here(tmp_path: Path) -> None:
    """Also not while it is asked whose it is, which takes long where the store does."""

    class Slow(Shared):
        def __init__(self) -> None:
            super().__init__(clock=SystemClock())
            self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

        async def take_duty(self, name: str, holder: str, for_s: float) -> bool:
            if name.startswith("rehearsal."):
                self.asked.set()
                await self.may_answer.wait()
                return False
            return await super().take_duty(name, holder, for_s)

    store = Slow()
    async with (
        running(tmp_path, model=Writing(), parts={"wrap_store": lambda _: store}, rehearsals=1) as server,
        connected(server, "3", Disk()),
    ):
        rehearsals = server.orchestrator.rehearsals
        await rehearsals.open(f"{server.url.replace('http', 'ws')}/computer")
        rehearsals.begin(TaskId("t-of-another"), asks=True)
        await store.asked.wait()
        # It has its place, and gets as far as a disk that cannot list all that is on it.
        with pytest.raises(CannotRehearse, match="could not be copied"):
            await AsyncExitStack().enter_async_context(rehearsals.copied(ComputerId("3"), ("submitter",)))
        store.may_answer.set()
        await asyncio.gather(*rehearsals.going_on())


async def test_a_task_goes_to_the_node_that_has_its_computer(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever node it was submitted to: no call of it has to go over the bus."""
    monkeypatch.setattr(objects, "FAR_S", HANG_S)
    taken: list[str] = []

    def noted(name: str, model_for: Callable[[AgentTask], ChatModel], task: AgentTask) -> ChatModel:
        taken.append(name)
        return model_for(task)

    servers = {name: await nodes.node(name) for name in "abc"}
    for name, server in servers.items():
        workers = server.orchestrator.workers
        workers.model_for = partial(noted, name, workers.model_for)
    async with connected(servers["b"], "3", Disk()):
        for server in (*servers.values(), *servers.values()):
            task_id = await server.submit()
            await server.until(task_id, "review_requested")
    assert taken == ["b"] * 6


# -- the workspace -----------------------------------------------------------------------


async def test_local_tools_need_one_workspace(nodes: Nodes, tmp_path: Path) -> None:
    """A node whose workspace is not the others' refuses every use of it, with the remedy; one that shares it works."""
    first = await nodes.node("a", workspace=tmp_path / "common")
    second = await nodes.node("b", workspace=tmp_path / "other")
    third = await nodes.node("c", workspace=tmp_path / "common")
    spaces = [one.orchestrator.endpoints.undoing.world.workspace for one in (first, second, third)]
    assert [type(one) for one in spaces] == [DirectoryWorkspace, RefusedWorkspace, DirectoryWorkspace]
    refused = spaces[1]
    assert isinstance(refused, RefusedWorkspace)
    assert refused.root == (tmp_path / "other").resolve()
    uses = (
        lambda: refused.read_bytes("x"),
        lambda: refused.inside("x"),
        lambda: refused.missing_above("x"),
        lambda: refused.stage("run", b"x"),
        lambda: refused.commit("run", "x"),
        lambda: refused.remove("run", "x"),
        lambda: refused.discard("run"),
    )
    for use in uses:
        with pytest.raises(ToolFailed, match=r"other nodes.*--workspace"):
            use()
    assert "--workspace" in (await second.ask("GET", "/v1/doctor")).json()["alerts"][0]
    # What one stages another finds, and takes away.
    assert isinstance(spaces[0], DirectoryWorkspace)
    assert isinstance(spaces[2], DirectoryWorkspace)
    spaces[0].stage("run-1", b"new")
    assert spaces[2].discard("run-1")
    assert not spaces[0].discard("run-1")


async def test_settings_that_nodes_have_to_share_are_compared(nodes: Nodes) -> None:
    """Each node and its doctor say who has what; what is each node's own is nobody's business."""
    first = await nodes.node("a", node="alpha")
    second = await nodes.node("b", node="beta", approvers="not_requester", retain_days=7, workers=1)
    told = (
        "approvers differs between nodes: not_requester at beta; requester at alpha.",
        "retain_days differs between nodes: 0 at alpha; 7 at beta.",
    )
    for server in (first, second):
        alerts = (await server.ask("GET", "/v1/nodes")).json()["alerts"]
        assert len(alerts) == len(told)
        for alert, sentence in zip(alerts, told, strict=True):
            assert alert.startswith(sentence)
            assert alert in (await server.ask("GET", "/v1/doctor")).json()["alerts"]


async def test_a_workspace_alone_has_no_marker(tmp_path: Path) -> None:
    """On a store of its own a node's workspace is as it was; a marker is made once, also by two at once."""
    alone = InMemoryPersistenceManager()
    await workspace_of(alone, tmp_path / "alone")
    assert list((tmp_path / "alone").iterdir()) == []
    shared = Shared()
    found = await asyncio.gather(*(workspace_of(shared, tmp_path / "common") for _ in range(4)))
    assert {type(one) for one in found} == {DirectoryWorkspace}
    assert [one.name for one in (tmp_path / "common" / STAGING).iterdir()] == [MARKER]
    assert isinstance(await workspace_of(shared, tmp_path / "other"), RefusedWorkspace)
    (tmp_path / "file" / STAGING).parent.mkdir()
    (tmp_path / "file" / STAGING).write_text("in the way")
    with pytest.raises(ToolFailed, match="cannot be marked"):
        await workspace_of(shared, tmp_path / "file")


# -- what the audit says of a node --------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://bob:s3cret@db.example/cc", "postgresql://bob:***@db.example/cc"),
        ("postgresql://bob:s3cr/e@t@db.example/cc", "postgresql://bob:***@db.example/cc"),
        ("postgresql://db.example/cc?user=bob&password=s3cret", "postgresql://db.example/cc?user=bob&password=***"),
        ("postgresql://db.example/cc", "postgresql://db.example/cc"),
    ],
)
def test_the_start_of_a_node_names_it_and_no_password(tmp_path: Path, url: str, shown: str) -> None:
    """What differs from the defaults is recorded for ever, so the password of a store's URL is not in it."""
    fact = started(Settings(data_dir=tmp_path, store=url), default_policy(), "alpha-1")
    assert (fact.node, fact.settings) == ("alpha-1", {"store": shown})
    assert len({new_node_id("alpha") for _ in range(10)}) == 10


async def test_a_refused_file_is_recorded_although_the_store_was_away(tmp_path: Path) -> None:
    """The look that met the store away is made again, and the refusal is in the audit then."""

    class Leaving(InMemoryPersistenceManager):
        away = 0

        async def record(self, drafts: Sequence[Draft], *, stream: str = SYSTEM_STREAM) -> list[AgentTaskItem]:
            if self.away:
                self.away -= 1
                raise StoreAway("The database restarts.")
            return await super().record(drafts, stream=stream)

    store, file = Leaving(clock=SystemClock()), tmp_path / "policy.toml"
    file.write_text(DEFAULT_POLICY_TOML, "utf-8")
    service = TaskService(store=store, bus=LocalBus(), clock=SystemClock(), authorizer=Anyone())
    keeper = PolicyKeeper(service, file, load_file(file), Checkpoints(tmp_path))
    await keeper.begin()
    file.write_text("rules = 3\n", "utf-8")
    store.away = 1
    with pytest.raises(StoreAway):
        await keeper.look()
    await keeper.look()
    await keeper.look()
    recorded = [item.fact.kind for item in await store.read(TaskId(SYSTEM_STREAM))]
    assert recorded == ["policy_loaded", "policy_refused"]
    assert keeper.alert


async def test_what_was_done_under_a_duty_stays_done_although_it_cannot_be_given_back() -> None:
    """A name was given, a token made: whoever asked for it is not told that it failed."""

    class Leaving(Shared):
        async def leave_duty(self, name: str, holder: str) -> None:
            raise StoreAway("The database restarts.")

    store = Leaving(clock=SystemClock())
    async with SingletonJobs(store, "alpha").held("naming", 0.05):
        assert not await SingletonJobs(store, "beta").take("naming", 1)
    async with SingletonJobs(store, "beta").held("naming", 1):
        pass
