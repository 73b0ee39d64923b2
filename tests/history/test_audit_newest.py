"""The audit as a page shows it, the newest first, and what the list of computers says of one that is away."""

from datetime import datetime
from pathlib import Path
from typing import Any

from tests.harness.support import dialed
from tests.harness.whole_server import Server, running
from tests.waiting import within


async def pages(server: Server, query: str = "", limit: int = 3, token: str | None = None) -> list[dict[str, Any]]:
    """All items, read page by page."""
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        path = f"/v1/audit?order=newest&limit={limit}{query}{after and f'&after={after}'}"
        answer = (await server.ask("GET", path, token=token)).json()
        found += answer["items"]
        if answer["next"] is None:
            return found
        assert len(answer["items"]) == limit
        after = answer["next"]


def place(item: dict[str, Any]) -> tuple[datetime, str, int]:
    """Where an item stands among those of all streams."""
    return datetime.fromisoformat(item["at"]), item["task_id"], item["version"]


async def test_the_newest_of_all_streams_come_first_page_by_page(tmp_path: Path) -> None:
    """Nothing is left out or told twice, whatever the pages; filters and what one may read hold as ever."""
    async with running(tmp_path) as server:
        otto = await server.person("otto", "submitter")
        await server.computer("3")
        mine = await server.submit(token=otto)
        others = [await server.submit() for _ in range(3)]
        for task in others:
            assert (await server.ask("POST", f"/v1/tasks/{task}/cancel", {})).status_code == 200
        every = (await server.ask("GET", "/v1/audit?limit=1000")).json()["items"]
        for limit in (1, 3, 1000):
            found = await pages(server, limit=limit)
            assert found == sorted(found, key=place, reverse=True)
            newer = [one for one in found if one not in every]
            assert sorted(map(place, found)) == sorted(map(place, [*every, *newer]))
        submitted = await pages(server, "&kind=task_submitted", 2)
        assert [one["task_id"] for one in submitted] == [*reversed(others), mine]
        assert {one["task_id"] for one in await pages(server, token=otto)} == {mine}
        gone = await server.ask("GET", f"/v1/audit?order=newest&after=999:{mine}")
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "not_found")


async def test_a_computer_tells_who_paired_it_and_when_it_was_there_last(tmp_path: Path) -> None:
    """Also after the server was started anew, which has not seen it yet."""
    async with running(tmp_path, store="") as server:
        token = await server.computer("farm")
        (never,) = (await server.ask("GET", "/v1/computers")).json()["computers"]
        assert (never["state"], never["owner"], never["seen_at"]) == ("away", "admin", None)
        async with dialed(server.url, token) as client:
            await client.greet()
            here = (await server.ask("GET", "/v1/computers/farm")).json()
            assert (here["state"], here["seen_at"], here["client"]) == ("online", None, "0.1.0")
        await within(_away(server))
        left = (await server.ask("GET", "/v1/computers/farm")).json()
        assert datetime.fromisoformat(left["seen_at"]) >= datetime.fromisoformat(left["last"]["at"])
    async with running(tmp_path, store="") as server:
        (after,) = (await server.ask("GET", "/v1/computers")).json()["computers"]
        assert after["seen_at"] == left["seen_at"]


async def _away(server: Server) -> None:
    while (await server.ask("GET", "/v1/computers/farm")).json()["online"]:
        pass
