"""The copy of a rehearsal on this host: its disk, its process, and who comes in in its name."""

import os
from pathlib import Path

import pytest

from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.core.errors import InvalidRequest, Unauthenticated
from orchestrator.core.ports import TokenRow
from orchestrator.core.task.rehearsal import Rehearsal, copy_name
from orchestrator.core.undo.plan import Listing
from orchestrator.core.wire.wire import ComputerId, sha256_hex
from orchestrator.history.rehearsal import copy as process
from orchestrator.history.rehearsal.copy import (
    MAX_BYTES,
    MAX_FILES,
    OWN,
    RehearsalFailed,
    read_disk,
    remove,
    write_disk,
)
from orchestrator.runtime.program import bare_environment
from orchestrator.web.auth import TokenAuthorizer, check_name, token_hash

ONE, TWO = b"one\n", b"two"
FILES = {"a.lua": ONE, "lib/deep/b.txt": TWO, "lib/gr\udcfcn": ONE}
LISTING = Listing(
    {"lib": "directory", "lib/deep": "directory", "empty": "directory"}
    | {path: sha256_hex(content) for path, content in FILES.items()}
)
CONTENTS = {sha256_hex(content): content for content in FILES.values()}


def test_a_disk_is_what_its_listing_says(tmp_path: Path) -> None:
    """Names that are no UTF-8 among it; what the client keeps there is no part of it."""
    write_disk(tmp_path / "disk", LISTING, CONTENTS)
    (tmp_path / "disk" / OWN).mkdir()
    (tmp_path / "disk" / OWN / "journal").write_bytes(b"mine")
    listing, new = read_disk(tmp_path / "disk", known={sha256_hex(ONE)})
    assert listing.lines == LISTING.lines
    assert new == {sha256_hex(TWO): TWO}
    assert (tmp_path / "disk").stat().st_mode & 0o77 == 0


@pytest.mark.parametrize(
    "path",
    [
        "../out",
        "a/../../out",
        "/etc/out",
        "a//b",
        "a/./b",
        "",
        ".",
        "a\\..\\out",
        "nul\0",
        f"{OWN}/connection",
        "d/" * 101 + "d",
    ],
)
def test_no_path_of_a_computer_leaves_the_disk(tmp_path: Path, path: str) -> None:
    """What a computer says of itself is anybody's word."""
    with pytest.raises(RehearsalFailed, match="not a path that can be copied"):
        write_disk(tmp_path / "disk", Listing({path: sha256_hex(ONE)}), CONTENTS)
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == []


def test_a_listing_that_no_disk_can_have_is_refused(tmp_path: Path) -> None:
    both = Listing({"a": sha256_hex(ONE), "a/b": sha256_hex(ONE)})
    with pytest.raises(RehearsalFailed, match="cannot be written"):
        write_disk(tmp_path / "disk", both, CONTENTS)


def test_a_disk_is_compared_with_what_was_to_be_on_it(tmp_path: Path) -> None:
    """As where the host takes two names for one."""
    wrong = {sha256_hex(content): b"another" for content in FILES.values()}
    with pytest.raises(RehearsalFailed, match="cannot keep"):
        write_disk(tmp_path / "disk", LISTING, wrong)


def test_what_no_computer_leaves_is_not_followed(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "secret").write_text("of this host")
    (disk / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(RehearsalFailed):
        read_disk(disk, known=())
    (disk / "link").unlink()
    (disk / "dir").symlink_to(tmp_path)
    with pytest.raises(RehearsalFailed):
        read_disk(disk, known=())


def test_directories_may_be_nested_as_deep_as_a_program_likes(tmp_path: Path) -> None:
    """Deeper than Python calls: that fails in a sentence, and leaves nothing behind."""
    place = disk = tmp_path / "disk"
    disk.mkdir()
    for _ in range(1100):
        place /= "d"
        place.mkdir()
    with pytest.raises(RehearsalFailed, match="more in the copy"):
        read_disk(disk, known=())
    remove(disk)
    assert not disk.exists()


def test_more_than_a_rehearsal_may_leave_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(RehearsalFailed, match="more in the copy"):
        read_disk(tmp_path, known=())


def test_directories_count_as_files_do(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 1):
        (tmp_path / f"d{number}").mkdir()
    with pytest.raises(RehearsalFailed, match="more in the copy"):
        read_disk(tmp_path, known=())
    (tmp_path / "d0").rmdir()
    assert len(read_disk(tmp_path, known=())[0].states) == MAX_FILES


@pytest.mark.parametrize(
    ("host", "version"),
    [
        ("ComputerCraft 1.100.8 (Minecraft 1.18.2)", "1.100.8"),
        ("ComputerCraft 1.95 (Minecraft 1.16.5)", "1.95.0"),
        ("ComputerCraft 1.80 (Minecraft 1.12.2)", "1.95.0"),
        ("ComputerCraft 9.9.9", "1.116.1"),
        ("CraftOS-PC", "1.116.1"),
    ],
)
def test_the_version_that_a_copy_plays(host: str, version: str) -> None:
    assert process.simulated_version(host) == version


def test_the_copy_sees_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC_ORCHESTRATOR_TOKEN", "secret")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), "here")))
    monkeypatch.chdir(tmp_path)
    given = bare_environment()
    assert "secret" not in given.values()
    assert given["PYTHONPATH"].split(os.pathsep)[1:] == [str(tmp_path), str(tmp_path / "here")]


def test_the_copy_is_bound_in_what_it_reaches(tmp_path: Path) -> None:
    """Its token stands where no list of processes shows it, and its endpoint is the only one."""
    rehearsal = Rehearsal(computer=ComputerId("farm"), base="8" * 64, family="turtle", label="-x", capacity=9)
    command = process.command(process.Home(tmp_path), rehearsal, "ws://127.0.0.1:1/computer")
    assert {"--token=-", "--http-rule=orchestrator", "--until-eof", "--capacity=9", "--label=-x"} <= set(command)


async def test_an_old_process_of_the_copy_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LOCK_WITHIN_S", 0.1)
    home = process.Home(tmp_path)
    held = await home.lock()
    with pytest.raises(RehearsalFailed, match="in use"):
        await home.lock()
    os.close(held)
    os.close(await home.lock())


def test_a_rehearsal_needs_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "find_spec", lambda name: None)
    with pytest.raises(InvalidRequest, match="simulator"):
        process.must_be_installed()


async def test_nobody_has_the_name_of_a_copy() -> None:
    """No endpoint gives it, and none accepts a row that somebody wrote into the store."""
    name = copy_name(ComputerId("farm"), "0a1b2c3d")
    with pytest.raises(InvalidRequest):
        check_name(name)
    store = InMemoryPersistenceManager()
    await store.add_token(TokenRow(token_hash=token_hash("ccc_forged"), kind="computer", name=name))
    with pytest.raises(Unauthenticated):
        await TokenAuthorizer(store).authenticate("Bearer ccc_forged")
