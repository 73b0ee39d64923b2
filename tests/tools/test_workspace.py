"""The workspace on a real disk: what it keeps, and what does not get out of it."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.core.errors import ToolFailed, UnsafePath
from orchestrator.core.ports import Workspace
from orchestrator.tools.workspace import STAGING, DirectoryWorkspace

SECRET = b"outside"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the workspace, with a file that nobody may reach."""
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "secret.txt").write_bytes(SECRET)
    return directory


@pytest.fixture
def workspace(tmp_path: Path) -> DirectoryWorkspace:
    return DirectoryWorkspace(tmp_path / "work" / "space", max_bytes=1000)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def write(workspace: DirectoryWorkspace, path: str, data: bytes) -> None:
    workspace.stage("run-1", data)
    try:
        workspace.commit("run-1", path)
    finally:
        workspace.discard("run-1")


# -- what it keeps ------------------------------------------------------------------------


def test_it_is_the_port(workspace: DirectoryWorkspace) -> None:
    port: Workspace = workspace
    assert port.root.is_dir()
    port.stage("run-1", b"x")
    port.commit("run-1", "a/./b//c.txt")
    assert (port.root / "a" / "b" / "c.txt").read_bytes() == port.read_bytes("a/b/c.txt") == b"x"


def test_bytes_come_back_as_they_went(workspace: DirectoryWorkspace) -> None:
    content = bytes(range(256)) + b"\r\n\xff"
    assert workspace.read_bytes("notes/plan.txt") is None
    write(workspace, "notes/plan.txt", content)
    assert workspace.read_bytes("notes/plan.txt") == content
    assert (workspace.root / "notes" / "plan.txt").read_bytes() == content
    assert names(workspace.root / STAGING) == []


def test_a_file_keeps_its_mode_and_a_reader_its_old_bytes(workspace: DirectoryWorkspace) -> None:
    write(workspace, "run.sh", b"one")
    (workspace.root / "run.sh").chmod(0o751)
    with (workspace.root / "run.sh").open("rb") as reader:
        write(workspace, "run.sh", b"two")
        assert reader.read() == b"one"
    assert stat.S_IMODE((workspace.root / "run.sh").stat().st_mode) == 0o751


def test_too_much_is_refused_and_nothing_is_touched(workspace: DirectoryWorkspace) -> None:
    write(workspace, "f", b"x" * 1000)
    with pytest.raises(ToolFailed, match="1001 bytes are too many for a file; 1000"):
        write(workspace, "f", b"x" * 1001)
    assert workspace.read_bytes("f") == b"x" * 1000
    (workspace.root / "big").write_bytes(b"x" * 1001)
    with pytest.raises(ToolFailed, match="more than 1000 bytes"):
        workspace.read_bytes("big")
    assert names(workspace.root / STAGING) == []


def test_what_is_no_file_is_refused(workspace: DirectoryWorkspace) -> None:
    (workspace.root / "d").mkdir()
    os.mkfifo(workspace.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(workspace.root)  # the path of a socket may have some 100 characters
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
    for name, what in {"d": "a directory", "pipe": "not a file", "socket": "not a file"}.items():
        with pytest.raises(ToolFailed, match=f"{name} is {what}"):
            workspace.read_bytes(name)
        with pytest.raises(ToolFailed, match=f"{name} is {what}"):
            write(workspace, name, b"")
    write(workspace, "f", b"")
    with pytest.raises(ToolFailed, match="f/g: Not a directory"):
        workspace.read_bytes("f/g")
    with pytest.raises(ToolFailed, match="File name too long"):
        workspace.read_bytes("x" * 300)
    assert names(workspace.root / STAGING) == []


def test_a_device_is_refused(workspace: DirectoryWorkspace) -> None:
    try:
        os.mknod(workspace.root / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")
    with pytest.raises(ToolFailed, match="not a file"):
        workspace.read_bytes("zero")


def test_a_workspace_that_is_gone_is_a_sentence(workspace: DirectoryWorkspace) -> None:
    workspace.root.rmdir()
    with pytest.raises(ToolFailed, match="cannot be opened"):
        workspace.read_bytes("f")
    with pytest.raises(ToolFailed, match="cannot be opened"):
        workspace.stage("run-1", b"")


# -- a write in two steps -----------------------------------------------------------------


def test_what_is_discarded_was_not_done_and_never_will_be(workspace: DirectoryWorkspace) -> None:
    workspace.stage("run-1", b"new")
    assert workspace.read_bytes("f") is None
    assert workspace.discard("run-1")
    assert not workspace.discard("run-1")
    with pytest.raises(ToolFailed, match="Nothing is ready"):
        workspace.commit("run-1", "f")
    assert workspace.read_bytes("f") is None


def test_what_is_committed_cannot_be_discarded(workspace: DirectoryWorkspace) -> None:
    workspace.stage("run-1", b"old")
    workspace.stage("run-1", b"new")
    workspace.commit("run-1", "a/f")
    assert not workspace.discard("run-1")
    assert workspace.read_bytes("a/f") == b"new"


def test_a_commit_that_is_refused_leaves_what_is_staged(workspace: DirectoryWorkspace) -> None:
    (workspace.root / "d").mkdir()
    workspace.stage("run-1", b"new")
    with pytest.raises(ToolFailed, match="d is a directory"):
        workspace.commit("run-1", "d")
    assert names(workspace.root / STAGING) == ["run-1"]


@pytest.mark.parametrize("name", ["", "..", "../f", "a/b", ".hidden", "x\0", "x" * 200])
def test_the_name_of_a_run_is_no_way_out(workspace: DirectoryWorkspace, name: str) -> None:
    with pytest.raises(UnsafePath):
        workspace.stage(name, b"")
    with pytest.raises(UnsafePath):
        workspace.commit(name, "f")
    with pytest.raises(UnsafePath):
        workspace.discard(name)


# -- what does not get out ----------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "../outside/secret.txt",
        "a/../../outside/secret.txt",
        "a/../b",
        "/etc/passwd",
        "//etc/passwd",
        "\\\\host\\share",
        "..\\outside\\secret.txt",
        "C:\\Windows\\win.ini",
        "c:secret.txt",
        "a\0b",
        "a\nb",
        "a/",
        "a/.",
        "x" * 1001,
        "\ud800",
        f"{STAGING}/run-1",
        f"./{STAGING.upper()}/run-1",
    ],
)
def test_no_spelling_leads_out(workspace: DirectoryWorkspace, outside: Path, path: str) -> None:
    with pytest.raises(UnsafePath) as refused:
        workspace.read_bytes(path)
    assert refused.value.remedy
    with pytest.raises(UnsafePath):
        write(workspace, path, b"in")
    assert (outside / "secret.txt").read_bytes() == SECRET


@pytest.mark.parametrize(
    ("link", "to", "path"),
    [
        ("f", "outside/secret.txt", "f"),
        ("d", "outside", "d/secret.txt"),
        ("d", "outside", "d/new.txt"),
        ("dangling", "outside/new.txt", "dangling"),
        ("nowhere", "missing", "nowhere/new.txt"),
        ("loop", "work/space/loop", "loop"),
        ("inside", "work/space", "inside/f"),
        (STAGING, "outside", "f"),
    ],
)
def test_no_link_is_followed(workspace: DirectoryWorkspace, outside: Path, link: str, to: str, path: str) -> None:
    (workspace.root / link).symlink_to(outside.parent / to)
    with pytest.raises(UnsafePath, match="symbolic link"):
        write(workspace, path, b"in")
    if link != STAGING:
        with pytest.raises(UnsafePath, match="symbolic link"):
            workspace.read_bytes(path)
    assert names(outside) == ["secret.txt"]
    assert (outside / "secret.txt").read_bytes() == SECRET


def test_a_link_put_there_after_staging_is_not_followed(workspace: DirectoryWorkspace, outside: Path) -> None:
    workspace.stage("run-1", b"in")
    (workspace.root / "d").symlink_to(outside)
    with pytest.raises(UnsafePath, match="symbolic link"):
        workspace.commit("run-1", "d/f")
    assert names(outside) == ["secret.txt"]
    assert workspace.discard("run-1")


RACES = 20_000
"""A walk that checks and then opens loses some of so many."""
SWAPPER = """
import itertools, os, sys
os.chdir(sys.argv[1])
print("swapping", flush=True)
for number in itertools.count():
    for thing in ("real", "link"):
        try:
            os.rename(thing, "d")
            os.rename("d", thing)
        except OSError:  # a write has just made the directory
            os.rename("d", f"made-{number}-{thing}")
"""


def test_a_link_that_comes_and_goes_is_never_followed(workspace: DirectoryWorkspace, outside: Path) -> None:
    """A process swaps a directory for a link to the outside, over and over, while we read and write."""
    (workspace.root / "real").mkdir()
    (workspace.root / "real" / "secret.txt").write_bytes(b"inside")
    (workspace.root / "link").symlink_to(outside)
    read: set[bytes | None] = set()
    links = 0
    with subprocess.Popen([sys.executable, "-c", SWAPPER, workspace.root], stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        for number in range(RACES):
            try:
                read.add(workspace.read_bytes("d/secret.txt"))
                if number % 100 == 0:
                    write(workspace, "d/new.txt", b"in")
            except UnsafePath:
                links += 1
            except ToolFailed:
                pass
        swapper.kill()
    assert links
    assert read == {None, b"inside"}
    assert names(outside) == ["secret.txt"]


# -- directories ----------------------------------------------------------------------------


def test_which_directories_a_write_would_make(workspace: DirectoryWorkspace) -> None:
    assert workspace.missing_above("a.txt") == ()
    assert workspace.missing_above("a/b/c.txt") == ("a", "a/b")
    write(workspace, "a/x.txt", b"x")
    assert workspace.missing_above("./a//b/c.txt") == ("a/b",)
    with pytest.raises(ToolFailed, match="Not a directory"):
        workspace.missing_above("a/x.txt/b")
    with pytest.raises(UnsafePath):
        workspace.missing_above("../b/c.txt")


def test_what_is_inside_of_a_directory(workspace: DirectoryWorkspace, outside: Path) -> None:
    write(workspace, "a/b/c.txt", b"x")
    write(workspace, "a/d", b"x")
    (workspace.root / "a" / "link").symlink_to(outside)
    assert workspace.inside("a") == ("b", "b/c.txt", "d", "link")
    assert workspace.inside("a/d") is None
    assert workspace.inside("nothing") is None
    with pytest.raises(UnsafePath, match="symbolic link"):
        workspace.inside("a/link")


def test_too_much_inside_of_a_directory_is_refused(
    workspace: DirectoryWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.tools.workspace.MAX_ENTRIES", 3)
    for name in ("a/b/c", "a/d"):
        write(workspace, name, b"x")
    assert workspace.inside("a") == ("b", "b/c", "d")
    write(workspace, "a/e", b"x")
    with pytest.raises(ToolFailed, match="more than 3 entries"):
        workspace.inside("a")


def test_a_directory_takes_a_place_where_nothing_is(workspace: DirectoryWorkspace) -> None:
    workspace.stage("run-1", None)
    workspace.commit("run-1", "a/new")
    assert workspace.inside("a/new") == ()
    assert workspace.discard("run-1") is False
    write(workspace, "a/file", b"x")
    workspace.stage("run-1", None)
    with pytest.raises(ToolFailed, match="a/file is a file"):
        workspace.commit("run-1", "a/file")
    assert workspace.discard("run-1") is True
    assert names(workspace.root / STAGING) == []


def test_only_an_empty_directory_is_removed(workspace: DirectoryWorkspace) -> None:
    write(workspace, "a/b/c.txt", b"x")
    workspace.stage("run-1", b"")
    with pytest.raises(ToolFailed, match="a/b is not empty"):
        workspace.remove("run-1", "a/b")
    workspace.remove("run-1", "a/b/c.txt")
    workspace.stage("run-1", b"")
    workspace.remove("run-1", "a/b")
    assert names(workspace.root / "a") == []
    assert names(workspace.root / STAGING) == []


def test_a_removed_directory_that_somebody_filled_stays(workspace: DirectoryWorkspace) -> None:
    """After a crash in the middle of a removal nothing of anybody's is taken away."""
    (workspace.root / STAGING).mkdir(exist_ok=True)
    for name, filled in (("run-1", False), ("run-2", True)):
        workspace.stage(name, b"")
        gone = workspace.root / STAGING / f"{name}.directory.absent"
        gone.mkdir()
        if filled:
            (gone / "mine").write_bytes(b"x")
        assert workspace.discard(name) is False
    assert names(workspace.root / STAGING) == ["run-2.kept"]
