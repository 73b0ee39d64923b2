"""Changes of files as a reviewer sees them: all text whole, and in one line what is binary."""

import random
from pathlib import Path

import pytest

from orchestrator.core.task.facts import Observed
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.tools.deps import CCAgentDeps, Change, change_of
from orchestrator.tools.registry import TOOL_REGISTRY
from orchestrator.tools.workspace import DirectoryWorkspace
from tests.harness.support import Channel, Disk
from tests.tools.test_file_tools import Farm

BIG, SMALL = random.Random(7).randbytes(300_000), b"\xff\0\1\2\3\4\5\6\7\x0e\x0f\x10"
TEXT = b"one\ntwo\n"
HIDDEN = b"\0" * 20 + b"os.run({}, 'rom/programs/shell.lua') --\xff\n"
"""Lua with more bytes that nobody can read than most binary files have."""


def told(kind: str, data: bytes) -> str:
    """A file in one line."""
    return f"{kind}, {len(data):,} bytes, sha256 {sha256_hex(data)}"


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (BIG, SMALL, Change(None, f"{told('binary', BIG)} -> {told('binary', SMALL)}")),
        (None, BIG, Change(None, f"absent -> {told('binary', BIG)}")),
        (BIG, None, Change(None, f"{told('binary', BIG)} -> absent")),
        (
            BIG,
            TEXT,
            Change(
                "--- a/f\n+++ b/f\n@@ -0,0 +1,2 @@\n+one\n+two\n",
                f"{told('binary', BIG)} -> {told('text', TEXT)}",
            ),
        ),
        (
            TEXT,
            BIG,
            Change(
                "--- a/f\n+++ b/f\n@@ -1,2 +0,0 @@\n-one\n-two\n",
                f"{told('text', TEXT)} -> {told('binary', BIG)}",
            ),
        ),
        (TEXT, b"one\n", Change("--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n one\n-two\n", "")),
        (None, TEXT, Change("--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+one\n+two\n", "")),
        (TEXT, None, Change("--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n", "")),
        (b"gr\xfcn\n", b"gr\xe4n\n", Change("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-gr\xfcn\n+gr\xe4n\n", "")),
    ],
)
def test_of_a_change_all_text_is_shown_and_what_is_binary_told(
    before: bytes | None, after: bytes | None, change: Change
) -> None:
    """A text that takes the place of something binary is shown whole, and so is one that goes."""
    assert change_of("f", before, after) == change


def test_what_somebody_typed_is_shown_whatever_it_is() -> None:
    """It came as text: then it can be read as well."""
    typed = "\0" * 50 + "\xff"
    change = change_of("f", BIG, typed.encode(), typed=typed)
    assert typed in str(change.diff)
    assert change.binary == f"{told('binary', BIG)} -> {told('binary', typed.encode())}"


@pytest.mark.parametrize("path", ["data.bin", "farm.lua"])
async def test_a_program_is_shown_in_whatever_file_it_comes_back(path: str) -> None:
    """A NUL, or twenty, hides no Lua from who has to approve it."""

    async def fetch(sha256: str) -> bytes:
        assert sha256 == sha256_hex(HIDDEN)
        return HIDDEN

    deps = CCAgentDeps(ws_client=Channel(Disk({path: TEXT})), computer="3", fetch=fetch)
    seen = await observed("cc_restore", deps, path=path, to=sha256_hex(HIDDEN), found=sha256_hex(TEXT))
    assert "os.run({}, 'rom/programs/shell.lua')" in str(seen.diff)
    assert "binary" not in seen.note


async def test_every_tool_that_changes_a_file_tells_what_is_binary_in_one_line(tmp_path: Path) -> None:
    """On a computer and in the workspace: nothing of the old bytes stands in what is shown and kept."""
    found = {"path": "big.bin", "found": sha256_hex(BIG)}

    async def fetch(sha256: str) -> bytes:
        return {sha256_hex(one): one for one in (SMALL, TEXT)}[sha256]

    deps = CCAgentDeps(ws_client=Channel(Disk({"big.bin": BIG})), computer="3", fetch=fetch)
    put_back = await observed("cc_restore", deps, **found, to=sha256_hex(SMALL))
    assert put_back.diff is None
    assert put_back.note == f"{told('binary', BIG)} -> {told('binary', SMALL)}."
    gone = await observed("cc_restore", deps, **found, to="absent")
    assert (gone.diff, gone.note) == (None, f"{told('binary', BIG)} -> absent.")
    written = await observed("cc_write", deps, path="big.bin", content="one\ntwo\n")
    assert written.diff == "--- a/big.bin\n+++ b/big.bin\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    assert written.note.startswith(f"{told('binary', BIG)} -> {told('text', TEXT)}.")
    old = BIG[:6].decode("latin-1")
    edited = await observed("cc_edit", deps, path="big.bin", old=old, new="new")
    assert edited.diff is None
    assert edited.note == f"{told('binary', BIG)} -> {told('binary', b'new' + BIG[6:])}."
    (tmp_path / "big.bin").write_bytes(BIG)
    (tmp_path / "nul.txt").write_bytes(b"\x7f" * 50)
    here = CCAgentDeps(workspace=DirectoryWorkspace(tmp_path), fetch=fetch)
    put_back = await observed("local_restore", here, **found, to=sha256_hex(SMALL))
    assert (put_back.diff, put_back.note) == (None, f"{told('binary', BIG)} -> {told('binary', SMALL)}")
    written = await observed("local_write", here, path="nul.txt", content="one\ntwo\n")
    assert written.note == f"{told('binary', bytes([127]) * 50)} -> {told('text', TEXT)}"
    assert "\x7f" not in str(written.diff)


async def observed(tool: str, deps: CCAgentDeps, **args: str) -> Observed:
    """What a reviewer is shown."""
    observe = TOOL_REGISTRY[tool].observe
    assert observe is not None
    return await observe(deps, **args)


async def test_where_a_binary_file_and_a_directory_change_places_its_hash_is_told() -> None:
    """Both ways about: no file comes or goes unnamed."""

    async def fetch(sha256: str) -> bytes:
        return {sha256_hex(BIG): BIG}[sha256]

    deps = CCAgentDeps(ws_client=Channel(Disk({"big.bin": BIG})), computer="3", fetch=fetch)
    gone = await observed("cc_restore", deps, path="big.bin", found=sha256_hex(BIG), to="directory", replaces="file")
    assert (gone.diff, gone.note) == (None, f"{told('binary', BIG)} -> absent. A directory takes its place.")
    farm = CCAgentDeps(ws_client=Farm({"big.bin/a.txt": "one\n"}), computer="3", fetch=fetch)
    (found,) = (await observed("cc_delete", farm, path="big.bin")).state.values()
    comes = await observed("cc_restore", farm, path="big.bin", found=found, to=sha256_hex(BIG), replaces="directory")
    assert comes.diff is None
    assert comes.note.startswith(f"It goes, and this takes its place: {told('binary', BIG)}. A dir")
