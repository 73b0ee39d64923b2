"""A change of the workspace while somebody saves the very file, with and without a kill: nobody's bytes are lost."""

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from orchestrator.core.errors import ComputerFailed, ToolFailed
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.tools import workspace_changes as renaming
from orchestrator.tools.workspace import STAGING, DirectoryWorkspace
from tests.thinning import thinned

RUN = "c1.1"
OLD, NEW, MINE = b"old\n", b"new\n", b"mine\n"
WATCHED = frozenset({"open", "os.rename", "os.remove", "os.rmdir", "os.listdir", "ctypes.call_function"})
"""What a change does, as the interpreter tells it before it does it."""
DONE, STALE = 0, 3

Change = Callable[[DirectoryWorkspace], None]


def replace(space: DirectoryWorkspace) -> None:
    space.stage(RUN, NEW)
    space.commit(RUN, "a.txt", sha256_hex(OLD))


def make(space: DirectoryWorkspace) -> None:
    space.stage(RUN, NEW)
    space.commit(RUN, "a.txt", "absent")


def remove(space: DirectoryWorkspace) -> None:
    space.stage(RUN, b"")
    space.remove(RUN, "a.txt", sha256_hex(OLD))


CHANGES = {"replace": (replace, OLD, NEW), "make": (make, None, NEW), "remove": (remove, OLD, None)}


def save(file: Path) -> None:
    """As an editor does that writes a new file and renames it."""
    beside = file.with_name("beside")
    beside.write_bytes(MINE)
    beside.rename(file)


def write(file: Path) -> None:
    """As an editor does that writes into the file, or makes it."""
    file.write_bytes(MINE)


def die(file: Path) -> None:
    del file
    os.kill(os.getpid(), signal.SIGKILL)


def played(root: Path, change: Change, *moments: tuple[int, Callable[[Path], None]]) -> int | None:
    """Make a change in a process of its own in which these happen, each before one of its calls.

    The answer is the exit code, negative when it was killed; None: not all of them happened.
    """
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return None if code >= 100 else code
    code, left = 1, dict(moments)
    try:
        space, calls, busy = DirectoryWorkspace(root), count(), False

        def hear(event: str, _: object) -> None:
            nonlocal busy
            if event in WATCHED and not busy and (happens := left.pop(next(calls), None)) is not None:
                busy = True
                happens(root / "a.txt")
                busy = False

        sys.addaudithook(hear)
        try:
            change(space)
            list(root.iterdir())  # a last moment, when all is done
            code = DONE
        except (ComputerFailed, ToolFailed):
            code = STALE
    finally:
        os._exit(code if not left else 100)


def fresh(tmp_path: Path, before: bytes | None) -> Path:
    root = tmp_path / "space"
    for name in (STAGING, "."):
        directory = root / name
        directory.mkdir(parents=True, exist_ok=True)
        for file in [one for one in directory.iterdir() if one.is_file()]:
            file.unlink()
    if before is not None:
        (root / "a.txt").write_bytes(before)
    return root


def there(root: Path) -> bytes | None:
    return (root / "a.txt").read_bytes() if (root / "a.txt").exists() else None


def staged(root: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in (root / STAGING).iterdir()}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("kind", CHANGES)
def test_killed_at_any_moment_it_was_done_or_it_was_not(tmp_path: Path, kind: str) -> None:
    """What the settler says is what is there, and nothing stays behind."""
    change, before, after = CHANGES[kind]
    said = set()
    for moment in count():
        root = fresh(tmp_path, before)
        if played(root, change, (moment, die)) is None:
            break
        undone = DirectoryWorkspace(root).discard(RUN)
        now = there(root)
        # Killed before anything was staged, or after all was done, nothing is there to be taken away.
        assert now == before if undone else now in (before, after)
        assert staged(root) == {}
        said.add((undone, now))
    assert said >= {(True, before), (False, after)}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("somebody", [save, write])
@pytest.mark.parametrize("kind", thinned(CHANGES, 2))
def test_what_somebody_saves_at_any_moment_is_there_in_the_end(
    tmp_path: Path, kind: str, somebody: Callable[[Path], None]
) -> None:
    change, before, _ = CHANGES[kind]
    codes = set()
    for moment in count():
        root = fresh(tmp_path, before)
        code = played(root, change, (moment, somebody))
        if code is None:
            break
        assert code in (DONE, STALE)
        assert (there(root), staged(root)) == (MINE, {})
        codes.add(code)
    assert STALE in codes


@pytest.mark.deep
@pytest.mark.thinned(2)
@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("kind", thinned(CHANGES, 2))
def test_what_somebody_saves_is_kept_also_when_a_kill_comes_on_top(tmp_path: Path, kind: str, step: int) -> None:
    """It is in its place, or beside the staged files under a name that tells whose run it was.

    Killed right after it is saved, and at each sixteenth moment from there on; in depth at each.
    """
    change, before, _ = CHANGES[kind]
    for first in count():
        for second in count(first + 1, step):
            root = fresh(tmp_path, before)
            if played(root, change, (first, save), (second, die)) is None:
                break
            DirectoryWorkspace(root).discard(RUN)
            kept = staged(root)
            assert MINE in (there(root), kept.get(f"{RUN}.kept")), (first, second)
            assert set(kept) <= {f"{RUN}.kept"}
        if second == first + 1:
            break


@pytest.mark.thinned(3)
@pytest.mark.parametrize("kind", CHANGES)
def test_where_the_system_has_no_such_renames_it_is_compared_first(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renaming, "_renameat2", lambda: None)
    change, before, after = CHANGES[kind]
    root = fresh(tmp_path, before)
    space = DirectoryWorkspace(root)
    change(space)
    assert (there(root), staged(root)) == (after, {})
    write(root / "a.txt")
    with pytest.raises(ComputerFailed, match="is not what it was"):
        change(space)
    assert (there(root), staged(root)) == (MINE, {})


@pytest.mark.deep
def test_a_removed_directory_that_somebody_filled_goes_back(tmp_path: Path) -> None:
    def fill(file: Path) -> None:
        directory = file.with_name("d")
        if directory.exists():
            (directory / "mine").write_bytes(MINE)

    def take(space: DirectoryWorkspace) -> None:
        space.stage(RUN, b"")
        space.remove(RUN, "d", "directory")

    codes = set()
    for moment in count():
        root = tmp_path / str(moment)
        (root / "d").mkdir(parents=True)
        code = played(root, take, (moment, fill))
        if code is None:
            break
        codes.add(code)
        assert (root / "d" / "mine").exists() == (code == STALE)
        assert DirectoryWorkspace(root).discard(RUN) == (code == STALE)
        assert staged(root) == {}
    assert codes == {DONE, STALE}
