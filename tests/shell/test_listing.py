"""All that is on a computer, in one listing, and its bytes in the store: with the commands that there are."""

from collections.abc import Mapping
from typing import Any

import pytest

from orchestrator.core.errors import ComputerFailed, ToolFailed
from orchestrator.core.restoring.listings import Listed
from orchestrator.core.restoring.touches import DIRECTORY
from orchestrator.core.wire import sha256_hex
from orchestrator.ports import CallResult
from orchestrator.store.memory import InMemoryPersistenceManager
from orchestrator.tools.computer.listing import keep_tree, list_tree
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.tools.stub import StubComputer

FILES = {"a.lua": "return 1\n", "lib/b.lua": "return 2\n", "lib/deep/c": "", "twice": "return 1\n"}
STATES = {
    "a.lua": sha256_hex(b"return 1\n"),
    "lib": DIRECTORY,
    "lib/b.lua": sha256_hex(b"return 2\n"),
    "lib/deep": DIRECTORY,
    "lib/deep/c": sha256_hex(b""),
    "twice": sha256_hex(b"return 1\n"),
}


class Narrow:
    """A computer whose looks reach only so many entries, as a real one's do, and that changes while it is read."""

    def __init__(self, most: int, changes: Mapping[str, list[str]] | None = None) -> None:
        self.files = dict(FILES)
        self.most = most
        self.changes = dict(changes or {})
        self.read: list[str] = []
        self._computer = StubComputer(self.files)

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        path = params["path"]
        if method == "fs_stat" and len([one for one in self.files if one.startswith(path)]) > self.most:
            raise ComputerFailed("too_large", "There is too much.")
        if method == "fs_read":
            self.read.append(path)
            if self.changes.get(path):
                self.files[path] = self.changes[path].pop(0)
        return await self._computer.call(method, params, body, wait_s)


def _deps(computer: Narrow, store: InMemoryPersistenceManager) -> CCAgentDeps:
    async def keep(content: bytes) -> None:
        await store.put_blob(content)

    return CCAgentDeps(ws_client=computer, keep=keep)


@pytest.fixture
def store() -> InMemoryPersistenceManager:
    return InMemoryPersistenceManager()


@pytest.mark.parametrize("most", [99, 2])
async def test_a_listing_is_the_same_in_one_look_and_in_many(store: InMemoryPersistenceManager, most: int) -> None:
    listed = await list_tree(_deps(Narrow(most), store))
    assert (listed.listing.states, listed.skipped) == (STATES, {})
    below = await list_tree(_deps(Narrow(most), store), "lib")
    assert set(below.listing.states) == {"lib", "lib/b.lua", "lib/deep", "lib/deep/c"}


async def test_a_file_that_is_too_large_is_skipped_and_said(store: InMemoryPersistenceManager) -> None:
    listed = await list_tree(_deps(Narrow(0), store))
    assert set(listed.listing.states) == {"lib", "lib/deep"}
    assert "larger than" in listed.skipped["a.lua"]
    assert not listed.tells_of("a.lua")
    assert not listed.tells_of("disk/a.lua")
    assert listed.tells_of("lib/new")


async def test_only_what_is_not_kept_already_is_read(store: InMemoryPersistenceManager) -> None:
    computer = Narrow(99)
    deps = _deps(computer, store)
    first = await keep_tree(deps, await list_tree(deps), store.blob_sizes)
    assert first.listed.listing.states == STATES
    assert (first.bytes, first.new_bytes) == (27, 18)
    assert sorted(computer.read) in (["a.lua", "lib/b.lua", "lib/deep/c"], ["lib/b.lua", "lib/deep/c", "twice"])
    computer.files["a.lua"] = "return 3\n"
    computer.read.clear()
    second = await keep_tree(deps, await list_tree(deps), store.blob_sizes)
    assert (second.bytes, second.new_bytes, computer.read) == (27, 9, ["a.lua"])


async def test_a_file_that_changes_meanwhile_is_listed_as_it_was_read(store: InMemoryPersistenceManager) -> None:
    computer = Narrow(99, {"a.lua": ["return 9\n"], "twice": ["1", "2", "3", "4"]})
    deps = _deps(computer, store)
    kept = await keep_tree(deps, await list_tree(deps), store.blob_sizes)
    sha256 = sha256_hex(b"return 9\n")
    assert kept.listed.listing.states["a.lua"] == sha256
    assert await store.get_blob(sha256) == b"return 9\n"
    assert "twice" not in kept.listed.listing.states
    assert "changes while" in kept.listed.skipped["twice"]


async def test_a_file_that_went_away_meanwhile_is_in_no_listing(store: InMemoryPersistenceManager) -> None:
    computer = Narrow(99)
    deps = _deps(computer, store)
    listed = await list_tree(deps)
    del computer.files["a.lua"]
    kept = await keep_tree(deps, listed, store.blob_sizes)
    assert "a.lua" not in kept.listed.listing.states
    assert kept.listed.skipped == {}


async def test_what_cannot_be_looked_at_is_an_error_that_says_so(store: InMemoryPersistenceManager) -> None:
    with pytest.raises(ToolFailed, match="no computer"):
        await list_tree(CCAgentDeps())
    nothing = await list_tree(_deps(Narrow(99), store), "nothing")
    assert nothing == Listed(nothing.listing)
