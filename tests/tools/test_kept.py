"""What a change leaves for an undo: the old bytes in the store before the bracket, both hashes in the journal."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import ComputerFailed, NotFound
from orchestrator.core.policy import Policy, default_policy, load_policy
from orchestrator.core.ports import CallResult
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.tools.stub import StubComputer
from orchestrator.tools.workspace import DirectoryWorkspace
from tests.engine.test_actor import FARM, Bench
from tests.harness.support import ABSENT, Disk, FakeComputers, Listening, call, final, says

EMPTY = sha256_hex(b"")
CHANGES = ("cc_write", "cc_edit", "cc_move", "cc_mkdir", "cc_delete", "local_write", "local_patch")
ALLOWED = load_policy(
    f"""
schema_version = 1
[[rules]]
id = "all"
effect = "allow"
tools = {list(CHANGES)}
"""
)


@dataclass
class Folders(Disk):
    """A computer with directories: every command on files that docs/protocol.md has."""

    texts: dict[str, str] = field(default_factory=dict)

    def perform(self, method: str, params: Mapping[str, Any], body: bytes | None) -> CallResult:
        return StubComputer(self.texts).perform(method, params, body)


def bench(reply: dict[str, Any], policy: Policy, workspace: DirectoryWorkspace | None = None) -> Bench:
    farm = Folders(texts={"a.lua": "print('old')\n", "lib/x": "X", "lib/sub/y": "Y", "b\udcff": "\udce4\n"})
    return Bench(Listening(says(reply), final()), policy, FakeComputers({FARM: farm}), workspace)


LIB = b"sub\0directory\0-\nsub/y\0file\0%s\nx\0file\0%s\n" % (sha256_hex(b"Y").encode(), sha256_hex(b"X").encode())
PROGRAM = b"print('old')\n"
OLD, NEW = sha256_hex(PROGRAM), sha256_hex(b"print('new')\n")


@pytest.mark.parametrize("policy", [default_policy(), ALLOWED], ids=["asked", "allowed"])
@pytest.mark.parametrize(
    ("reply", "before", "after", "kept"),
    [
        (call("cc_write", path="a.lua", content="print('new')\n"), {"a.lua": OLD}, {"a.lua": NEW}, [PROGRAM]),
        (call("cc_write", path="b.lua", content="print('new')\n"), {"b.lua": ABSENT}, {"b.lua": NEW}, []),
        (call("cc_edit", path="/a.lua", old="old", new="new"), {"a.lua": OLD}, {"a.lua": NEW}, [PROGRAM]),
        (
            call("cc_move", path="a.lua", to="c.lua"),
            {"a.lua": OLD, "c.lua": ABSENT},
            {"a.lua": ABSENT, "c.lua": OLD},
            [PROGRAM],
        ),
        (call("cc_mkdir", path="new"), {"new": ABSENT}, {"new": EMPTY}, []),
        (call("cc_delete", path="a.lua"), {"a.lua": OLD}, {"a.lua": ABSENT}, [PROGRAM]),
        (call("cc_delete", path="lib"), {"lib": sha256_hex(LIB)}, {"lib": ABSENT}, [LIB, b"X", b"Y"]),
        (
            call("cc_move", path="lib", to="old"),
            {"lib": sha256_hex(LIB), "old": ABSENT},
            {"lib": ABSENT, "old": sha256_hex(LIB)},
            [LIB, b"X", b"Y"],
        ),
    ],
)
async def test_a_change_on_a_computer_can_be_taken_back(
    policy: Policy, reply: dict[str, Any], before: dict[str, str], after: dict[str, str], kept: list[bytes]
) -> None:
    """Asked or allowed: when the bracket opens, the bytes that it changes are durable by the hashes that it names."""
    node = bench(reply, policy)
    durable: list[bytes] = []

    async def look() -> None:
        durable.extend([await node.store.get_blob(sha256_hex(one)) for one in kept])

    node.store.before["tool_started"] = look
    task_id = await node.submit()
    task = await node.act()
    if policy is not ALLOWED:
        await node.decide(task)
        await node.act()
    (started,) = await node.happened(task_id, "tool_started")
    (finished,) = await node.happened(task_id, "tool_finished")
    assert started.before == before
    assert started.directories == (("lib",) if LIB in kept else ())
    assert (finished.ok, finished.after) == (True, after)
    assert durable == kept
    assert {sha256_hex(one) for one in kept} >= set(before.values()) - {ABSENT}


@pytest.mark.parametrize(
    "reply",
    [
        call("local_write", path="p.txt", content="print('new')\n"),
        call("local_patch", path="p.txt", patch="@@ -1 +1 @@\n-print('old')\n+print('new')\n"),
    ],
)
async def test_a_change_of_the_workspace_can_be_taken_back(tmp_path: Path, reply: dict[str, Any]) -> None:
    """So for files on this host."""
    workspace = DirectoryWorkspace(tmp_path)
    (workspace.root / "p.txt").write_bytes(PROGRAM)
    node = bench(reply, ALLOWED, workspace)
    durable: list[bytes] = []

    async def look() -> None:
        durable.append(await node.store.get_blob(OLD))

    node.store.before["tool_started"] = look
    task_id = await node.submit()
    await node.act()
    (started,) = await node.happened(task_id, "tool_started")
    (finished,) = await node.happened(task_id, "tool_finished")
    assert (started.before, finished.after, durable) == ({"p.txt": OLD}, {"p.txt": NEW}, [PROGRAM])
    assert (workspace.root / "p.txt").read_text() == "print('new')\n"


async def test_what_is_only_looked_at_is_not_kept() -> None:
    """Reading, finding and running put nothing into the store but the model's replies."""
    node = bench(call("cc_find", contains="old"), default_policy())
    task_id = await node.submit()
    await node.act()
    (finished,) = await node.happened(task_id, "tool_finished")
    assert (finished.text, finished.after) == ("[1 match]\na.lua  13\n  1: print('old')", {})
    with pytest.raises(NotFound):
        await node.store.get_blob(OLD)


async def test_a_change_that_failed_half_way_is_unknown_and_not_failed() -> None:
    """A change that could not be taken back pauses the task for a person; the model is not told that it failed."""
    node = bench(call("cc_write", path="a.lua", content="print('new')\n"), ALLOWED)
    task_id = await node.submit()
    node.computers.faults["fs_write"] = deque([ComputerFailed("outcome_unknown", "half way")])
    task = await node.act()
    assert (task.status_reason, task.request and task.request.reason) == ("outcome_unknown", "outcome_unknown")
    assert await node.happened(task_id, "tool_finished") == []
    (settled,) = await node.happened(task_id, "tool_settled")
    assert (settled.state, settled.reason) == ("unknown", "half way")


async def test_a_change_that_failed_leaves_nothing_to_take_back() -> None:
    """A run that the computer refused names no hash that it would have left."""
    node = bench(call("cc_delete", path="a.lua"), ALLOWED)
    task_id = await node.submit()
    node.computers.faults["fs_delete"] = deque([ComputerFailed("read_only", "no")])
    await node.act()
    (finished,) = await node.happened(task_id, "tool_finished")
    assert (finished.ok, finished.text, finished.after) == (False, "a.lua is read-only.", {})
