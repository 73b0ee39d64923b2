"""All that is on a computer, in one listing, and its bytes in the store: with the commands that there are."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.core.errors import ComputerFailed, FrameRefused, ToolFailed
from orchestrator.core.ports import CallResult
from orchestrator.core.undo.plan import Listed, Listing
from orchestrator.core.undo.touches import DIRECTORY
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.tools.computer.commands import unreachable_in
from orchestrator.tools.computer.listings import MAX_DEPTH, MAX_ENTRIES, keep_tree, list_tree, other_disks
from orchestrator.tools.computer.observation import look, look_and_keep
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


class Mute:
    """A computer that answers each look with the same."""

    def __init__(self, body: bytes = b"", **data: Any) -> None:
        self.body, self.data = body, data

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        del method, params, body, wait_s
        return CallResult(self.data, self.body)


async def test_a_computer_that_does_not_tell_what_is_on_it_is_no_empty_one() -> None:
    """All that is on it would look new the next time."""
    with pytest.raises(ToolFailed, match="cannot be read"):
        await list_tree(CCAgentDeps(ws_client=Mute(kind="directory", sha256="0" * 64)))
    with pytest.raises(ToolFailed, match="does not tell"):
        await list_tree(CCAgentDeps(ws_client=Mute(kind="absent", sha256="absent")))


async def test_no_more_new_bytes_are_kept_than_are_wanted(store: InMemoryPersistenceManager) -> None:
    """What is kept already counts for nothing; what is not reached says why."""
    computer = Narrow(99)
    deps = _deps(computer, store)
    await store.put_blob(b"return 2\n")
    kept = await keep_tree(deps, await list_tree(deps), store.blob_sizes, most=0)
    assert computer.read == []
    assert set(kept.listed.listing.files) == {"lib/b.lua"}
    assert kept.listed.skipped["a.lua"] == "More than 0 bytes there were not kept yet."


class Lying:
    """A computer that says the same of every place: that it is too large for one look, and what is in it."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.asked = 0

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        del params, body, wait_s
        self.asked += 1
        if method == "fs_stat":
            raise ComputerFailed("too_large", "There is too much.")
        return CallResult({}, self.body)


@pytest.mark.parametrize(
    "body",
    [
        b"nonsense",
        b"\xff\xfe\xfd",
        b"[" * 100_000,
        b'{"name": "a"}',
        b'["a"]',
        b"[{}]",
        b'[{"name": 1}]',
        *(json.dumps([{"name": name}]).encode() for name in ("", ".", "..", "a/b", "a\0", "a\nb", "\u1234")),
    ],
)
async def test_names_that_no_computer_has_are_refused_with_a_sentence(body: bytes) -> None:
    with pytest.raises(ToolFailed, match="What the computer says of / cannot be read"):
        await list_tree(CCAgentDeps(ws_client=Lying(body)))
    with pytest.raises(ToolFailed, match="What the computer says of / cannot be read"):
        await other_disks(CCAgentDeps(ws_client=Lying(body)), Listed(Listing({})))


@pytest.mark.parametrize("names", [["a"], [f"n{number}" for number in range(30_000)], ["a", "b"]])
async def test_what_never_ends_is_not_looked_at_for_ever(names: list[str]) -> None:
    lying = Lying(json.dumps([{"name": name} for name in names]).encode())
    with pytest.raises(ToolFailed, match=r"too deep|more on the computer"):
        await list_tree(CCAgentDeps(ws_client=lying))
    assert lying.asked <= 2 * MAX_DEPTH + 3


def _lines(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("latin-1")


GOOD = "0" * 64


@pytest.mark.parametrize(
    "manifest",
    [
        _lines(f"a\0file\0{GOOD}")[:-1],
        _lines("a"),
        _lines("a\0file\0"),
        _lines("a\0file\0absent"),
        _lines(f"a\0file\0{GOOD.replace('0', 'A')}"),
        *(_lines(f"{path}\0file\0{GOOD}") for path in ("", "..", "a/../b", "/a", "a/", "a//b", "a\0b", "a\nb")),
    ],
)
async def test_lines_that_no_computer_has_are_refused_with_a_sentence(manifest: bytes) -> None:
    said = {"kind": "directory", "sha256": sha256_hex(manifest)}
    with pytest.raises(ToolFailed, match="What the computer says of / cannot be read"):
        await list_tree(CCAgentDeps(ws_client=Mute(manifest, **said)))


@pytest.mark.parametrize("sha256", [None, 7, "", "absent", "directory", "f" * 63])
async def test_a_file_has_a_hash(sha256: object) -> None:
    deps = CCAgentDeps(ws_client=Mute(kind="file", sha256=sha256))
    with pytest.raises(ToolFailed, match=r"What the computer says of a\.lua cannot be read"):
        await list_tree(deps, "a.lua")
    with pytest.raises(ToolFailed, match=r"What the computer says of a\.lua cannot be read"):
        await look(deps, "a.lua", "a.lua")


async def test_more_entries_than_are_listed_are_refused() -> None:
    manifest = _lines(*(f"n{number}\0file\0{GOOD}" for number in range(MAX_ENTRIES + 1)))
    with pytest.raises(ToolFailed, match="more on the computer"):
        await list_tree(CCAgentDeps(ws_client=Mute(manifest, kind="directory", sha256=sha256_hex(manifest))))


class Refusing(Narrow):
    """A computer with a path that is too long for a command."""

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        if len(params["path"]) > 1000:
            raise FrameRefused("The frame is too long.")
        return await super().call(method, params, body, wait_s)


async def test_a_path_that_no_command_can_have_stops_no_listing_without_a_word(
    store: InMemoryPersistenceManager,
) -> None:
    name = "n" * 2000
    computer = Refusing(99)
    computer.files[name] = "x"
    deps = _deps(computer, store)
    kept = await keep_tree(deps, await list_tree(deps), store.blob_sizes)
    assert kept.listed.skipped[name] == f"What the computer says of {name[:80]}… cannot be read."
    computer.most = 2
    with pytest.raises(ToolFailed, match="… cannot be read"):
        await list_tree(deps)


class Odd(Narrow):
    """A computer on which the game cannot reach some names."""

    def __init__(self, most: int, told: Mapping[str, Any]) -> None:
        super().__init__(most)
        self.told = told

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        answer = await super().call(method, params, body, wait_s)
        odd = method in ("fs_stat", "fs_list") and params["path"] == "lib"
        return CallResult({**answer.data, **self.told}, answer.body) if odd else answer


@pytest.mark.parametrize("most", [99, 0])
async def test_what_the_game_cannot_reach_is_skipped_and_said(store: InMemoryPersistenceManager, most: int) -> None:
    """In one look and in many; of those that are not named it is said how many they are."""
    computer = Odd(most, {"unreachable": 4, "unreachable_names": "a:b\ndeep/gr\u00c3\u00bcn?"})
    listed = await list_tree(_deps(computer, store), "lib")
    why = "The game cannot reach this name, nor 2 more there."
    assert {path: one for path, one in listed.skipped.items() if "reach" in one} == {
        "lib/a:b": why,
        "lib/deep/grün?": why,
    }
    assert listed.tells_of("lib/new")
    with pytest.raises(ToolFailed, match="In lib is a name that the game cannot reach: a:b"):
        await look_and_keep(_deps(Odd(99, computer.told), store), "lib", "lib")


@pytest.mark.parametrize(
    ("told", "count", "names"),
    [
        ({}, 0, ()),
        ({"unreachable": "2"}, 0, ()),
        ({"unreachable": -1, "unreachable_names": "a:b"}, 0, ()),
        ({"unreachable": 2, "unreachable_names": 5}, 0, ()),
        ({"unreachable": 1, "unreachable_names": "a:b\nc:d"}, 1, ("a:b",)),
        ({"unreachable": 3, "unreachable_names": "../x\n\na//b\na\0b\n\u0101"}, 3, ("?",)),
    ],
)
def test_what_a_computer_says_of_such_names_is_anybodys_word(
    told: Mapping[str, Any], count: int, names: tuple[str, ...]
) -> None:
    heard = unreachable_in(told)
    assert (heard.count, heard.names) == (count, names)


def test_such_names_are_told_by_the_first_of_them() -> None:
    assert unreachable_in({"unreachable": 7, "unreachable_names": "a:\nb:\nc:\nd:\ne:\nf:"}).told == (
        "(and 7 names that the game cannot reach: a:, b:, c:, d:, e: and 2 more)"
    )
