"""A replica of PostgreSQL takes over: the nodes find it by a URL with two hosts, and nothing acknowledged is lost."""

import asyncio
from pathlib import Path

import httpx2

from orchestrator.adapters.store import open_store
from orchestrator.history.audit import verify_store
from orchestrator.runtime.clock import SystemClock
from tests.harness.processes import prompt, start_computer, start_server
from tests.servers import PASSWORD, PostgresServer
from tests.story.harness import Api, check_laws, final, tool

BEFORE, AFTER = 4, 3


async def submitted(api: Api, key: str) -> str:
    """A task's id once it is acknowledged; the same key gives the same task, however often it is sent."""
    body = {"prompt": prompt(tool("cc_list", path=""), final()), "computers": ["farm"], "idempotency_key": key}
    while True:
        try:
            answer = await api.call("POST", "/v1/tasks", body)
        except httpx2.HTTPError:
            await asyncio.sleep(0.1)
            continue
        if answer.is_success:
            return str(answer.json()["task_id"])
        assert answer.status_code == 503, answer.text
        await asyncio.sleep(0.1)


async def test_tasks_go_on_at_the_promoted_replica(tmp_path: Path) -> None:
    """With ``synchronous_standby_names`` a commit is acknowledged once the replica has it: so each task is there."""
    with PostgresServer() as primary, PostgresServer(of=primary) as replica:
        await primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{replica.port}"
        url = f"postgresql://postgres:{PASSWORD}@{hosts}/postgres?target_session_attrs=read-write"
        process, place = start_server(tmp_path / "node", store=url, lease_s=2.0)
        api = Api(place, (tmp_path / "node" / "admin.token").read_text().strip())
        token = (await api.ok("POST", "/v1/tokens", {"kind": "computer", "name": "farm"}))["token"]
        computer = start_computer(tmp_path / "disk", f"ws{place.removeprefix('http')}/computer", token)
        try:
            tasks = [await submitted(api, f"before-{number}") for number in range(BEFORE)]
            # In the middle of whatever they do: one is sent while the primary dies.
            sent = asyncio.create_task(submitted(api, "between"))
            primary.kill()
            await replica.execute("SELECT pg_promote()")
            tasks.append(await sent)
            tasks += [await submitted(api, f"after-{number}") for number in range(AFTER)]
            for task in tasks:
                assert (await api.first(task, "task_ended")).status == "Completed"
                check_laws(await api.journal(task))
            assert (await api.task(await submitted(api, "before-0")))["task_id"] == tasks[0]
        finally:
            computer.kill()
            process.kill()
            await api.http.aclose()
        store = open_store(url, clock=SystemClock())
        try:
            assert [fault.detail for fault in (await verify_store(store)).faults] == []
        finally:
            await store.close()
