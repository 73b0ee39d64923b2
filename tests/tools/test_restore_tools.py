"""The tools that put an earlier state back: bound to what the plan found, one change each, to the byte."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import NotFound, ToolFailed
from orchestrator.core.wire.wire import RunId, sha256_hex
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.tools.registry import TOOL_REGISTRY
from orchestrator.tools.workspace import STAGING, DirectoryWorkspace
from tests.harness.support import Channel, Disk

OLD, NEW, MINE = b"gr\xfcn\r\n", b"new\n", b"mine\n"
RUN = RunId("c1.1")


async def fetch(sha256: str) -> bytes:
    """The store, which has the old bytes and no others."""
    if sha256 != sha256_hex(OLD):
        raise NotFound("There is no such blob.")
    return OLD


async def restored(tool: str, deps: CCAgentDeps, **args: Any) -> str:
    """A call as the actor makes it: looked at, prepared, done."""
    one = TOOL_REGISTRY[tool]
    assert one.observe is not None
    deps.expected = (await one.observe(deps, **args)).state
    if one.prepare is not None:
        await one.prepare(deps, **args)
    return await one.function(deps, **args)


def back(data: bytes, to: bytes | None = OLD) -> dict[str, str]:
    """Arguments of a call that was planned when these bytes were there."""
    return {"path": "a.txt", "to": "absent" if to is None else sha256_hex(to), "found": sha256_hex(data)}


async def test_a_file_of_a_computer_gets_its_bytes_back_or_goes() -> None:
    disk = Disk({"a.txt": NEW})
    deps = CCAgentDeps(ws_client=Channel(disk), computer="3", fetch=fetch)
    assert await restored("cc_restore", deps, **back(NEW)) == "Put a.txt back"
    assert disk.files == {"a.txt": OLD}
    assert await restored("cc_restore", deps, **back(OLD, None)) == "Removed a.txt"
    assert (disk.files, deps.after) == ({}, {"a.txt": "absent"})


async def test_what_is_no_longer_what_the_plan_found_is_not_touched() -> None:
    disk = Disk({"a.txt": MINE})
    deps = CCAgentDeps(ws_client=Channel(disk), computer="3", fetch=fetch)
    observe = TOOL_REGISTRY["cc_restore"].observe
    assert observe is not None
    with pytest.raises(ToolFailed, match=r"a\.txt is not what it was when this was planned"):
        await observe(deps, **back(NEW))
    deps.expected = {"a.txt": sha256_hex(MINE)}
    with pytest.raises(ToolFailed, match="is not what it was when this was planned"):
        await TOOL_REGISTRY["cc_restore"].function(deps, **back(NEW))
    assert (disk.files, disk.done) == ({"a.txt": MINE}, [])


async def test_bytes_that_the_store_does_not_have_are_a_sentence() -> None:
    deps = CCAgentDeps(ws_client=Channel(Disk({"a.txt": NEW})), computer="3", fetch=fetch)
    with pytest.raises(ToolFailed, match=r"The earlier bytes of a\.txt are not in the store"):
        await restored("cc_restore", deps, **back(NEW, b"others"))


async def test_a_file_of_the_workspace_gets_its_bytes_back_or_goes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(NEW)
    deps = CCAgentDeps(workspace=DirectoryWorkspace(tmp_path), run_id=RUN, fetch=fetch)
    with pytest.raises(ToolFailed, match="is not what it was when this was planned"):
        await restored("local_restore", deps, **back(MINE))
    await restored("local_restore", deps, **back(NEW))
    assert (tmp_path / "a.txt").read_bytes() == OLD
    await restored("local_restore", deps, **back(OLD, None))
    assert not (tmp_path / "a.txt").exists()
    assert list((tmp_path / STAGING).iterdir()) == []


async def test_directories_of_the_workspace_are_made_and_removed_as_a_plan_found_them(tmp_path: Path) -> None:
    deps = CCAgentDeps(workspace=DirectoryWorkspace(tmp_path), run_id=RUN, fetch=fetch)
    await restored("local_restore", deps, path="a/b", to="directory", found="absent")
    assert (tmp_path / "a" / "b").is_dir()
    observe = TOOL_REGISTRY["local_restore"].observe
    assert observe is not None
    made = await observe(deps, path="c/d/e.txt", to=sha256_hex(OLD), found="absent")
    assert made.made == ("c", "c/d")
    with pytest.raises(ToolFailed, match="a/b is a directory"):
        await observe(deps, path="a/b", to=sha256_hex(OLD), found="directory")
    with pytest.raises(ToolFailed, match="is not what it was when this was planned"):
        await observe(deps, path="a/b", to="absent", found="absent")
    (tmp_path / "f.txt").write_bytes(OLD)
    with pytest.raises(ToolFailed, match=r"f\.txt is a file"):
        await observe(deps, path="f.txt", to="directory", found=sha256_hex(OLD))
    (tmp_path / "a" / "b" / "mine").write_bytes(MINE)
    with pytest.raises(ToolFailed, match="a/b is not empty"):
        await restored("local_restore", deps, path="a/b", to="absent", found="directory")
    (tmp_path / "a" / "b" / "mine").unlink()
    await restored("local_restore", deps, path="a/b", to="absent", found="directory")
    assert not (tmp_path / "a" / "b").exists()


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("local_write", {"path": "a.txt", "content": "text\n"}),
        ("local_patch", {"path": "a.txt", "patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-new\n+newer\n"}),
        ("local_restore", back(NEW)),
        ("local_restore", back(NEW, None)),
    ],
)
async def test_what_a_change_on_this_host_left_is_told_without_having_heard_of_it(
    tmp_path: Path, tool: str, args: dict[str, str]
) -> None:
    """As the change itself tells it: an undo has to know it when the server stopped in between."""
    kept = {sha256_hex(data): data for data in (OLD, NEW)}

    async def keep(sha256: str) -> bytes:
        return kept[sha256]

    (tmp_path / "a.txt").write_bytes(NEW)
    deps = CCAgentDeps(workspace=DirectoryWorkspace(tmp_path), run_id=RUN, fetch=keep)
    await restored(tool, deps, **args)
    left = TOOL_REGISTRY[tool].left
    assert left is not None
    assert await left(deps, **args) == deps.after


def test_a_removal_that_was_cut_short_is_known_to_be_done_or_not(tmp_path: Path) -> None:
    """Before the file went the mark is taken away: it never will; after it, it was done, and nothing stays behind."""
    workspace = DirectoryWorkspace(tmp_path)
    (tmp_path / "a.txt").write_bytes(NEW)
    workspace.stage(RUN, b"")
    assert workspace.discard(RUN) is True
    workspace.stage(RUN, b"")
    # As after a crash in the middle of the removal.
    (tmp_path / "a.txt").rename(tmp_path / STAGING / f"{RUN}.{sha256_hex(NEW)}.absent")
    assert workspace.discard(RUN) is False
    assert list((tmp_path / STAGING).iterdir()) == []
    with pytest.raises(ToolFailed, match="Nothing is ready"):
        workspace.remove(RUN, "b.txt")
