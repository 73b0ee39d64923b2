"""The audit at its endpoints and on the command line: who may read what, page by page, and without secrets."""

import asyncio
import json
import stat
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from starlette.routing import Route

from orchestrator.adapters.bus import open_bus
from orchestrator.core.audit.chain import heads_digest
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import Store, TokenRow
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import Draft, decode_item, hash_holds
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.engine.tasks import TaskService
from orchestrator.history.audit import Checkpoints, make_checkpoint, verify_job
from orchestrator.history.audit.background import Background
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import Author
from orchestrator.web.auth import TokenAuthorizer, token_hash
from orchestrator.web.backups import AuditEndpoints
from orchestrator.web.base import answering
from orchestrator.web.errors import explained
from tests.core.audited import BYTES, CONTENT, Trail, made
from tests.core.journal import NOW, REQUEST
from tests.harness.commands import cli
from tests.harness.hub_server import serving
from tests.harness.support import Listening, call, final, says
from tests.harness.whole_server import running
from tests.history.test_audit import opened, tamper, two_tasks
from tests.servers import NO_TLS
from tests.waiting import HANG_S, within

PEOPLE = {"ada": ("admin",), "rita": ("reviewer",), "alice": ("submitter",), "bob": ("submitter",)}
SECRET = "password = hunter2hunter2"
C1 = made("c1")
SECRETIVE = made("c2", path="vault", content=SECRET)


class Endpoints(AuditEndpoints):
    """The endpoints of the audit and nothing else."""

    def __init__(self, store: Store, directory: Path) -> None:
        authorizer = TokenAuthorizer(store)
        clock = ManualClock()
        self.service = TaskService(store=store, bus=open_bus("local:"), clock=clock, authorizer=authorizer)
        self.authorizer = authorizer
        self.users = {}
        self.verifying = verify_job(store, Checkpoints(directory))
        self.background = Background(self.service, Checkpoints(directory))

    def routes(self) -> list[Route]:
        """Where they are."""
        return [
            Route("/v1/audit", answering(self.audit, 200, self.within_reach), methods=["GET"]),
            Route("/v1/audit/verify", self.audit_verify, methods=["GET"]),
            Route("/v1/audit/verify", answering(self.audit_verify_cancel, 200, self.within_reach), methods=["DELETE"]),
            *(
                Route("/v1/audit/background", answering(handler, 200, self.within_reach), methods=[method])
                for method, handler in (
                    ("GET", self.audit_background),
                    ("POST", self.audit_background_look),
                    ("DELETE", self.audit_background_cancel),
                )
            ),
            Route("/v1/audit/check", answering(self.audit_check, 200, self.within_reach), methods=["GET"]),
        ]


class AuditServer:
    """A server with the endpoints of the audit alone, and a client of it."""

    def __init__(self, url: str, http: httpx2.AsyncClient, store: Store, home: Path) -> None:
        self.url = url
        self.http = http
        self.store = store
        self.home = home

    async def get(self, path: str, who: str = "ada", /, **query: Any) -> httpx2.Response:
        """One look."""
        headers = {"Authorization": f"Bearer cct_{who}"}
        return await self.http.get(f"/v1/audit{path}", params=query, headers=headers)

    async def items(self, who: str = "ada", /, **query: Any) -> list[tuple[str, int]]:
        """Which items a look shows."""
        answer = await self.get("", who, **query)
        assert answer.status_code == 200, answer.text
        return [(one["task_id"], one["version"]) for one in answer.json()["items"]]

    async def cli(self, *arguments: str, by: str = "ada") -> "subprocess.CompletedProcess[str]":
        """A command to this server."""
        token = {"CC_ORCHESTRATOR_TOKEN": f"cct_{by}", "CC_ORCHESTRATOR_URL": self.url}
        return await asyncio.to_thread(cli, self.home, "audit", *arguments, **token)


def drafts_of(trail: Trail) -> list[Draft]:
    """The history as a store takes it."""
    return [Draft(item_id=one.item_id, at=one.at, actor=one.actor, fact=one.fact) for one in trail.items]


async def fill(store: Store) -> None:
    """A task of alice that is in order, and one of bob in which a program decided and nothing was found secret."""
    done = Trail(C1).requested(C1).approved(C1).started(C1).finished(C1, after={"farm": BYTES}).ended()
    await store.create(TaskId("t1"), drafts_of(done))
    odd = Trail(SECRETIVE, user="bob").started(SECRETIVE).finished(SECRETIVE)
    await store.create(TaskId("t2"), drafts_of(odd))
    await let_in(store)


async def fill_in_order(store: Store) -> None:
    """Two tasks that a store may really have."""
    await two_tasks(store)
    await let_in(store)


async def let_in(store: Store) -> None:
    """The people."""
    for name, roles in PEOPLE.items():
        await store.add_token(TokenRow(token_hash(f"cct_{name}"), "person", name, roles, NOW))


@asynccontextmanager
async def audit_server(
    home: Path, fill: Callable[[Store], Awaitable[None]] = fill, wrap: Callable[[Store], Store] = lambda store: store
) -> AsyncIterator[AuditServer]:
    """Two tasks and four people, on a free port."""
    async with opened(home) as store:
        await fill(store)
        routes = Endpoints(wrap(store), home).routes()
        async with serving(*routes, exception_handlers={OrchestratorError: explained}) as port:
            url = f"http://127.0.0.1:{port}"
            async with httpx2.AsyncClient(base_url=url, timeout=HANG_S, trust_env=False, verify=NO_TLS) as http:
                yield AuditServer(url, http, store, home)


T1 = [("t1", version) for version in range(1, 8)]
T2 = [("t2", version) for version in range(1, 5)]


# -- who may read what -------------------------------------------------------------------


async def test_a_submitter_reads_their_own_tasks_and_a_reviewer_all(tmp_path: Path) -> None:
    """By the identity of the token, whatever the query says."""
    async with audit_server(tmp_path) as endpoints:
        assert await endpoints.items("ada") == await endpoints.items("rita") == [*T1, *T2]
        assert await endpoints.items("alice") == T1
        assert await endpoints.items("bob") == T2
        assert await endpoints.items("alice", task="t1") == T1
        assert (await endpoints.get("", "alice", task="t2")).status_code == 404
        assert (await endpoints.get("/check", "alice", task="t2")).status_code == 404
        assert (await endpoints.get("", "alice", sha256=BYTES, task="t2")).status_code == 404
        assert (await endpoints.get("", "nobody")).status_code == 401


async def test_a_request_is_read_by_whose_task_it_is_of(tmp_path: Path) -> None:
    """Of a history that could never be, too: nothing of it is shown to others, and a reviewer finds it."""
    async with audit_server(tmp_path) as endpoints:
        author = Author(ManualClock())
        await endpoints.store.create(TaskId("t3"), [author.submitted(), *author.proposed(), author.review("q3")])
        assert (await endpoints.get("", "bob", request="q3")).status_code == 404
        assert await endpoints.items("alice", request="q3") == [("t3", 4), ("t3", 5)]
        assert await endpoints.items("bob", request=REQUEST) == []
        assert await endpoints.items("rita", request=REQUEST) == [("t1", version) for version in range(2, 7)]


async def test_only_reviewers_verify_and_only_admins_read_secrets(tmp_path: Path) -> None:
    """And what belongs to no task is for reviewers."""
    async with audit_server(tmp_path) as endpoints:
        for path, query, lowest in (
            ("/verify", {}, "rita"),
            ("", {"system": "1"}, "rita"),
            ("", {"whole": "1"}, "ada"),
        ):
            for name in PEOPLE:
                may = list(PEOPLE).index(name) <= list(PEOPLE).index(lowest)
                assert (await endpoints.get(path, name, **query)).status_code == (200 if may else 403), (path, name)


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"task": "t9"}, 404),
        ({"request": "q9"}, 404),
        ({"since": "yesterday"}, 422),
        ({"sha256": "abc"}, 422),
        ({"after": "t1"}, 422),
        ({"limit": "0"}, 422),
        ({"limit": "1001"}, 422),
    ],
)
async def test_what_cannot_be_asked_is_said(tmp_path: Path, query: dict[str, str], status: int) -> None:
    """Nothing is guessed: an unknown task, a time that is none, a digest that is none."""
    async with audit_server(tmp_path) as endpoints:
        answer = await endpoints.get("", **query)
        assert answer.status_code == status
        assert answer.json()["error"]["remedy"]


# -- what is read ------------------------------------------------------------------------


async def test_the_audit_pages(tmp_path: Path) -> None:
    """Each page goes on where the last one ended, over the streams."""
    async with audit_server(tmp_path) as endpoints:
        seen: list[tuple[str, int]] = []
        after: dict[str, str] = {}
        while True:
            page = (await endpoints.get("", limit=3, **after)).json()
            assert len(page["items"]) <= 3
            seen += [(one["task_id"], one["version"]) for one in page["items"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert seen == [*T1, *T2]


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"kind": "tool_started"}, [("t1", 5), ("t2", 3)]),
        ({"by": "bob"}, [("t1", 4)]),
        ({"request": REQUEST}, [("t1", version) for version in range(2, 7)]),
        ({"since": "2030-01-01T00:00:06Z"}, [("t1", 6), ("t1", 7)]),
        ({"since": "2030-01-01T02:00:06+02:00"}, [("t1", 6), ("t1", 7)]),
        ({"since": "2030-01-01 00:00:06"}, [("t1", 6), ("t1", 7)]),
        ({"since": "2031-01-01"}, []),
    ],
)
async def test_the_audit_is_searched(tmp_path: Path, query: dict[str, str], expected: list[tuple[str, int]]) -> None:
    """By kind, by who did it, by request and by time."""
    async with audit_server(tmp_path) as endpoints:
        assert await endpoints.items(**query) == expected


async def test_a5_who_approved_these_bytes_is_one_question(tmp_path: Path) -> None:
    """The endpoint answers with the stories of the calls that have to do with them."""
    async with audit_server(tmp_path) as endpoints:
        (story,) = (await endpoints.get("", sha256=BYTES)).json()["stories"]
        assert (story["stream"], story["approvals"][0]["by"]["id"], story["runs"][0]["outcome"]) == (
            "t1",
            "bob",
            "done",
        )
        assert (await endpoints.get("", "bob", sha256=BYTES)).json()["stories"] == []


async def test_a8_what_is_given_out_has_no_secrets_and_says_so(tmp_path: Path) -> None:
    """Items keep the call as it runs; the whole goes to an admin who asks, and its hashes hold."""
    async with audit_server(tmp_path) as endpoints:
        shown = await endpoints.get("", task="t2")
        assert "hunter2" not in shown.text
        assert shown.json()["redacted"] is True
        assert [one["redacted"] for one in shown.json()["items"]] == [False, True, False, False]
        secret = facts.TaskSubmitted.model_validate(shown.json()["items"][0]["fact"])
        assert secret.user_id == "bob"
        whole = await endpoints.get("", task="t2", whole="1")
        assert SECRET in whole.json()["items"][1]["fact"]["calls"][0]["args"]["content"]
        assert whole.json()["redacted"] is False
        assert all(hash_holds(decode_item(json.dumps(one))) for one in whole.json()["items"])
        story = await endpoints.get("", sha256=SECRETIVE_BYTES)
        assert "hunter2" not in story.text
        assert story.json()["stories"][0]["call_id"] == "c2"
        assert "hunter2" in (await endpoints.get("", sha256=SECRETIVE_BYTES, whole="1")).text


SECRETIVE_BYTES = sha256_hex(SECRET.encode())


async def test_a6_the_check_is_an_endpoint(tmp_path: Path) -> None:
    """Of one task, or of all that one may read."""
    async with audit_server(tmp_path) as endpoints:
        found = (await endpoints.get("/check")).json()["findings"]
        assert [(one["stream"], one["level"], one["what"]) for one in found] == [
            ("t2", "violation", "executed_unapproved")
        ]
        assert (await endpoints.get("/check", "alice")).json()["findings"] == []
        assert (await endpoints.get("/check", task="t1")).json()["findings"] == []


async def test_a3_the_verification_is_an_endpoint(tmp_path: Path) -> None:
    """With the digest over all heads, and with the checkpoint of the data directory."""
    async with audit_server(tmp_path, fill_in_order) as endpoints:
        await make_checkpoint(endpoints.store, Checkpoints(tmp_path), NOW)
        found = (await endpoints.get("/verify")).json()
        heads = {head.stream: (head.version, head.hash) for head in await endpoints.store.heads()}
        assert found == {
            "streams": 2,
            "items": 10,
            "heads_sha256": heads_digest(heads),
            "checkpoint_at": "2030-01-01T00:00:00Z",
            "full": True,
            "rows": True,
            "read": 2,
            "noted": 0,
            "noted_at": None,
            "faults": [],
        }
        tamper(tmp_path, "DELETE FROM items WHERE task_id = 't2' AND version = 2")
        (fault,) = (await endpoints.get("/verify")).json()["faults"]
        assert (fault["stream"], fault["version"], fault["what"]) == ("t2", 2, "missing")


# -- the command line --------------------------------------------------------------------


async def test_audit_show_prints_lines_in_the_order_of_time(tmp_path: Path) -> None:
    """Of two tasks mixed; JSON where it is asked for; a sentence where there is nothing."""
    async with audit_server(tmp_path) as endpoints:
        shown = (await endpoints.cli("show")).stdout.splitlines()
        assert [line.split()[2] for line in shown[:4]] == ["t1#1", "t2#1", "t1#2", "t2#2"]
        assert len(shown) == 11
        assert "hunter2" not in "".join(shown)
        assert (await endpoints.cli("show", "t1", "--kind", "tool_started")).stdout.count("\n") == 1
        assert (await endpoints.cli("show", "--by", "bob")).stdout.split()[2] == "t1#4"
        assert (await endpoints.cli("show", "--request", REQUEST)).stdout.count("\n") == 5
        plain = await endpoints.cli("show", "t1", "--since", "2030-01-01T00:00:07Z", "--json")
        assert [one["fact"]["kind"] for one in json.loads(plain.stdout)] == ["task_ended"]
        nothing = await endpoints.cli("show", "--system")
        assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "There is nothing.\n")
        refused = await endpoints.cli("show", "t2", by="alice")
        assert (refused.returncode, refused.stdout) == (4, "")


async def test_a5_audit_show_answers_for_a_file(tmp_path: Path) -> None:
    """The bytes never leave the machine: their hash is asked about."""
    (tmp_path / "farm.lua").write_bytes(CONTENT.encode())
    async with audit_server(tmp_path) as endpoints:
        shown = (await endpoints.cli("show", "--file", "farm.lua")).stdout
        assert "approve by person bob" in shown
        assert shown == (await endpoints.cli("show", "--sha256", BYTES)).stdout
        (story,) = json.loads((await endpoints.cli("show", "--sha256", BYTES, "--json")).stdout)
        assert story["call_id"] == "c1"
        (tmp_path / "farm.lua").write_bytes(b"other")
        other = await endpoints.cli("show", "--file", "farm.lua")
        assert (other.returncode, other.stdout) == (0, "")
        assert "No call has to do with the bytes" in other.stderr
        gone = await endpoints.cli("show", "--file", "nowhere.lua")
        assert (gone.returncode, "nowhere.lua cannot be read" in gone.stderr) == (4, True)


async def test_a6_audit_check_exits_with_1_at_a_violation(tmp_path: Path) -> None:
    """And says that all is well where it is."""
    async with audit_server(tmp_path) as endpoints:
        bad = await endpoints.cli("check")
        assert bad.returncode == 1
        assert bad.stdout.startswith(
            "violation  t2#3  executed_unapproved: Call c2 was done, and nothing had allowed it."
        )
        good = await endpoints.cli("check", "t1")
        assert (good.returncode, good.stdout) == (0, "Everything is in order.\n")
        assert json.loads((await endpoints.cli("check", "t1", "--json")).stdout) == []


async def test_a8_an_export_says_in_its_first_line_what_was_taken_out(tmp_path: Path) -> None:
    """The whole is for admins, into a file of their own; its items can be verified again."""
    async with audit_server(tmp_path) as endpoints:
        head, *items = map(json.loads, (await endpoints.cli("export", by="rita")).stdout.splitlines())
        assert (head["redacted"], len(items)) == (True, 11)
        assert "Secrets were taken out" in head["note"]
        refused = await endpoints.cli("export", "--whole", by="rita")
        assert (refused.returncode, "hunter2" in refused.stdout) == (3, False)
        whole = await endpoints.cli("export", "t2", "--whole", "--out", "audit.jsonl")
        assert (whole.returncode, whole.stdout, whole.stderr) == (0, "", "4 items were written to audit.jsonl.\n")
        head, *items = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
        assert (head["redacted"], head["task"], len(items)) == (False, "t2", 4)
        assert all(hash_holds(decode_item(json.dumps(one))) for one in items)
        assert stat.S_IMODE((tmp_path / "audit.jsonl").stat().st_mode) == 0o600
        again = await endpoints.cli("export", "--out", "audit.jsonl")
        assert (again.returncode, "cannot be written: File exists" in again.stderr) == (2, True)


async def test_a3_audit_verify_asks_the_server_that_holds_the_store(tmp_path: Path) -> None:
    """It prints the digest over all heads, and compares it with one that was kept elsewhere."""
    async with audit_server(tmp_path, fill_in_order) as endpoints:
        first = await endpoints.cli("verify")
        assert first.returncode == 0
        *words, last = first.stdout.splitlines()
        assert words == [
            "10 items in 2 streams were compared with their chains, and there is no checkpoint.",
            "Nothing was changed.",
        ]
        digest = last.removeprefix("heads sha256 ")
        assert (await endpoints.cli("verify", "--expect", digest.upper())).returncode == 0
        other = await endpoints.cli("verify", "--expect", "0" * 64)
        assert (other.returncode, "The heads are not those of 000" in other.stdout) == (1, True)
        as_json = json.loads((await endpoints.cli("verify", "--json")).stdout)
        assert (as_json["heads_sha256"], as_json["expected"]) == (digest, None)
        assert (await endpoints.cli("verify", by="alice")).returncode == 3


def offline(home: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A command where no server is."""
    return cli(home, "audit", "verify", "--data-dir", str(home), *arguments, **environment)


def test_a3_audit_verify_needs_no_server(tmp_path: Path) -> None:
    """It reads the data directory's own store, with its checkpoint; each fault is a sentence, and the exit code 1."""

    async def prepare() -> None:
        async with opened(tmp_path) as store:
            await fill_in_order(store)
            await make_checkpoint(store, Checkpoints(tmp_path), NOW)

    asyncio.run(prepare())
    good = offline(tmp_path)
    assert (good.returncode, good.stderr) == (0, "")
    assert "and with the checkpoint of 2030-01-01T00:00:00Z." in good.stdout
    tamper(tmp_path, "UPDATE items SET data = replace(data, 'farm', 'barn') WHERE task_id = 't1' AND version = 5")
    tamper(tmp_path, *(f"DELETE FROM {table} WHERE task_id = 't2'" for table in ("items", "tasks", "requests")))
    # The directory that is named is meant, whatever server the environment speaks of.
    bad = offline(tmp_path, CC_ORCHESTRATOR_URL="http://127.0.0.1:9")
    assert bad.returncode == 1
    assert bad.stdout.splitlines()[:2] == [
        "gone: The whole of t2 is gone; the checkpoint has 5 versions of it. It was deleted, or the store was restored "
        "from an older backup.",
        "edited: Version 5 of t1: its content is not what was sealed.",
    ]
    assert "2 things are not as written." in bad.stdout


def test_audit_verify_asks_a_server_where_there_is_no_store(tmp_path: Path) -> None:
    """An empty directory has nothing to verify; without a token there is nobody to ask either."""
    done = offline(tmp_path)
    assert (done.returncode, "No orchestrator answers" in done.stderr) == (3, True)


async def test_audit_verify_asks_the_server_where_the_store_is_held(tmp_path: Path) -> None:
    """The lock says that somebody has it: the server is asked, and nothing is read behind the holder's back."""
    async with opened(tmp_path):
        # Nobody listens there, whatever else runs on this machine.
        nowhere = {"CC_ORCHESTRATOR_TOKEN": "x", "CC_ORCHESTRATOR_URL": "http://127.0.0.1:1"}
        held = await asyncio.to_thread(cli, tmp_path, "audit", "verify", "--data-dir", str(tmp_path), **nowhere)
    assert held.returncode == 3
    assert "No orchestrator answers" in held.stderr


# -- the whole server --------------------------------------------------------------------


async def test_a5_a6_the_server_itself_leaves_an_audit_that_is_in_order(tmp_path: Path) -> None:
    """An approval, and an edit of what was shown: each run has the digest that was allowed."""
    first, second = (call("local_write", path="plan.txt", content=text) for text in ("new\n", "newer\n"))
    async with running(tmp_path / "data", model=Listening(says(first), says(second), final()), store="") as server:
        task_id = await server.submit(())
        request_id = (await server.paused(task_id))["request_id"]
        answer = await server.ask("POST", f"/v1/approve/{request_id}?wait_s=20", {})
        pending = answer.json()
        call_id = pending["tool_calls"][0]["call_id"]
        edit = {"call_id": call_id, "action": "edit", "args": {"path": "plan.txt", "content": CONTENT}}
        done = await server.ask("POST", f"/v1/resume/{pending['request_id']}?wait_s=20", {"decisions": [edit]})
        assert done.json()["success"] is True
        found = (await server.ask("GET", "/v1/audit/check")).json()["findings"]
        assert [(one["level"], one["what"]) for one in found] == [("notice", "self_approved")] * 2
        assert (await server.ask("GET", "/v1/audit/verify")).json()["faults"] == []
        (story,) = (await server.ask("GET", f"/v1/audit?sha256={BYTES}")).json()["stories"]
        assert [one["role"] for one in story["matches"]] == ["written", "left"]
        assert (story["call_id"], story["approvals"][0]["how"], story["runs"][0]["outcome"]) == (
            call_id,
            "edit",
            "done",
        )
        system = (await server.ask("GET", "/v1/audit?system=1")).json()["items"]
        assert {"node_started", "token_issued"} <= {one["fact"]["kind"] for one in system}
    left = await asyncio.to_thread(offline, tmp_path / "data")
    assert (left.returncode, left.stderr) == (0, "")
    assert "and with the checkpoint of" in left.stdout


class _Held:
    """A store of which a verification reads one thing only when it may."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reached, self.go_on, self.canceled, self.times = asyncio.Event(), asyncio.Event(), asyncio.Event(), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def kept_blobs(self, after: str | None = None, limit: int = 64) -> Any:
        self.times += after is None
        self.reached.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.canceled.set()
            raise
        return await self._store.kept_blobs(after, limit)


@asynccontextmanager
async def held(home: Path) -> AsyncIterator[tuple[AuditServer, _Held]]:
    """A server whose verification waits."""
    found: list[_Held] = []

    def holding(store: Store) -> Store:
        found.append(_Held(store))
        return cast("Store", found[0])

    async with audit_server(home, fill_in_order, holding) as endpoints:
        yield endpoints, found[0]


async def test_a_verification_is_one_for_all_and_says_how_far_it_is(tmp_path: Path) -> None:
    """A long one is no silence: it says how far it is, a second asker hears of the same, and all get what it found."""
    async with held(tmp_path) as (endpoints, store):
        answer = await endpoints.get("/verify", wait_s=0)
        assert (answer.status_code, set(answer.json())) == (202, {"done", "of"})
        await within(store.reached.wait())
        assert (await endpoints.get("/verify", wait_s=0)).json()["of"] >= 2
        whole = asyncio.create_task(endpoints.cli("verify"))
        store.go_on.set()
        assert (await endpoints.get("/verify")).json()["faults"] == []
        done = await whole
        assert (done.returncode, "No orchestrator" in done.stderr) == (0, False)


async def test_a_verification_ends_when_its_asker_hangs_up(tmp_path: Path) -> None:
    """Nobody would hear what it finds. The next who asks begins anew."""
    async with held(tmp_path) as (endpoints, store):
        asking = asyncio.create_task(endpoints.get("/verify"))
        await within(store.reached.wait())
        asking.cancel()
        await within(store.canceled.wait())
        store.go_on.set()
        assert (await endpoints.get("/verify")).json()["faults"] == []
        assert store.times == 2


async def test_a_verification_is_canceled_for_all_who_wait(tmp_path: Path) -> None:
    """The command says how far it was; whoever waited hears how to go on."""
    async with held(tmp_path) as (endpoints, store):
        assert "No verification goes on here" in (await endpoints.cli("verify", "--cancel")).stderr
        waiting = asyncio.create_task(endpoints.get("/verify"))
        await within(store.reached.wait())
        done = await endpoints.cli("verify", "--cancel")
        assert (done.returncode, done.stdout) == (0, "Canceled after 2 of 2 streams.\n")
        answer = await waiting
        assert (answer.status_code, "`audit verify` goes on" in answer.json()["error"]["remedy"]) == (409, True)


async def test_the_command_shows_what_the_background_found(tmp_path: Path) -> None:
    """It exits with 1 where something was changed, and says what a look does not read."""
    async with audit_server(tmp_path, fill_in_order) as endpoints:
        assert "No node has looked yet: one begins within minutes." in (await endpoints.cli("background")).stdout
        assert "No look goes on here" in (await endpoints.cli("background", "--cancel")).stderr
        tamper(tmp_path, "UPDATE tasks SET user_id = 'mallory' WHERE task_id = 't2'")
        asked = await endpoints.cli("background", "--now")
        assert (asked.returncode, asked.stdout) == (0, "No node has looked yet: one begins at once.\n")
        async with asyncio.timeout(HANG_S):
            while not (await endpoints.get("/background")).json()["looked_at"]:
                pass
        done = await endpoints.cli("background")
        assert done.returncode == 1
        assert "row: " in done.stdout
        assert "The last look read 2 of 2 tasks." in done.stdout
        assert "`audit verify --full` does" in done.stdout
        refused = await endpoints.get("/background", "alice")
        assert refused.status_code == 403


async def test_who_wants_all_read_has_a_verification_begin_again(tmp_path: Path) -> None:
    """One that goes on from the last is left for it, and whoever asked for that hears of the full one."""
    async with held(tmp_path) as (endpoints, store):
        await make_checkpoint(endpoints.store, Checkpoints(tmp_path), NOW)
        waiting = asyncio.create_task(endpoints.get("/verify", full=1))
        await within(store.reached.wait())
        less = await endpoints.get("/verify", full=0, wait_s=0)
        assert (less.status_code, store.times) == (202, 1)
        store.go_on.set()
        assert (await waiting).json()["full"] is True
        onward = (await endpoints.get("/verify", full=0)).json()
        assert (onward["full"], onward["read"] + onward["noted"], store.times) == (False, 2, 1)


async def test_the_command_says_what_it_did_not_read(tmp_path: Path) -> None:
    """A verification that goes on from the last promises less, and names the command that promises all."""
    async with audit_server(tmp_path, fill_in_order) as endpoints:
        await make_checkpoint(endpoints.store, Checkpoints(tmp_path), NOW)
        done = await endpoints.cli("verify", "--since-last")
        assert done.returncode == 0
        assert "is found by `audit verify --full`" in done.stdout, "there was nothing to go on from"
        done = await endpoints.cli("verify", "--since-last")
        assert (done.returncode, "heads sha256" in done.stdout) == (0, False)
        assert "nor the rows of other tables: `audit verify` compares all rows" in done.stdout
        done = await endpoints.cli("verify", "--since-last", "--expect", "0" * 64)
        assert "--since-last does not read all" in done.stderr
        assert "--full" not in (await endpoints.cli("verify", "--full")).stdout
