"""Labels that a program sets while its computer is connected: rules by label hold for each of them."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.task import facts
from tests.story.harness import Api, Computer, Server, check_laws, computer, ended, facts_of, final, tool

POLICY = """schema_version = 1
[requests]
max_rejections = 0
[[rules]]
id = "all"
effect = "allow"
tools = ["*"]
[[rules]]
id = "reactor"
effect = "deny"
tools = ["cc_write"]
labels = ["reactor*"]
"""
SETS = b"os.setComputerLabel('reactor 8') os.setComputerLabel('farm')\n"
WRITE = tool("cc_write", path="late.txt", content="x")


@pytest.fixture
def guarded(fresh_server: Server) -> Server:
    """A server whose policy denies by label, started."""
    fresh_server.home.mkdir(parents=True)
    (fresh_server.home / "policy.toml").write_text(POLICY, "utf-8")
    fresh_server.start()
    return fresh_server


async def shown(api: Api, name: str) -> dict[str, Any]:
    found: dict[str, Any] = await api.ok("GET", f"/v1/computers/{name}")
    return found


async def labels(api: Api, name: str) -> tuple[str, list[str]]:
    found = await shown(api, name)
    return found["label"], found["former_labels"]


async def writes(api: Api, one: Computer, *before: Any) -> str:
    """Play a task that writes last; the reason for which it was denied, or nothing."""
    task_id = await api.submit(*before, WRITE, final(), computers=(one.name,))
    items = await api.journal(task_id)
    check_laws(items)
    assert ended(items)

    verdict = facts_of(items, facts.CallsProposed)[-1].evaluations[-1]
    return verdict.reason if verdict.effect == "deny" else ""


async def test_a_label_that_a_program_sets_and_takes_back_denies_the_next_call(guarded: Server, tmp_path: Path) -> None:
    """It counts at once, over a kill of the server, and until an admin confirms the label of now."""
    api = guarded.api()
    async with computer(guarded, tmp_path) as one:
        one.write("r.lua", SETS)
        one.boot("--label=farm")
        assert await writes(api, one, tool("cc_info")) == ""
        (one.disk / "late.txt").unlink()
        why = await writes(api, one, tool("cc_run_program", path="r.lua"))
        assert "reactor" in why, await labels(api, one.name)
        assert one.read("late.txt") is None
        assert await labels(api, one.name) == ("farm", ["reactor 8"])
        guarded.kill()
        guarded.start()
        api = guarded.api()
        assert "reactor" in await writes(api, one, tool("cc_info"))
        assert await labels(api, one.name) == ("farm", ["reactor 8"])

        path = f"/v1/computers/{one.name}/confirm-label"
        bob = await guarded.person("bob", "submitter", "reviewer")
        await bob.refused(403, "POST", path, {"label": "farm"})
        await api.refused(409, "POST", path, {"label": "reactor 8"})
        assert await labels(api, one.name) == ("farm", ["reactor 8"])
        done = {"computer": one.name, "label": "farm", "confirmed": True}
        assert await api.ok("POST", path, {"label": "farm"}) == done
        assert await api.ok("POST", path, {"label": "farm"}) == {**done, "confirmed": False}
        assert await labels(api, one.name) == ("farm", [])
        assert await writes(api, one) == ""
        assert one.read("late.txt") == b"x"
        told = [item["fact"] for item in (await api.ok("GET", "/v1/audit", system=1))["items"]]
        # Which label the first one names depends on how fast the second came.
        labelled = [fact["by"] for fact in told if fact["kind"] == "computer_labelled"]
        assert labelled == ["", "admin"]
        assert (await api.ok("GET", "/v1/audit/verify"))["faults"] == []
