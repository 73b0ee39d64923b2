"""Tasks that nobody thought of: trees, calls of every kind, and what a person does to them meanwhile."""

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cc_client.simulator.disk import MIN_ENTRY_BYTES
from orchestrator.core.undo.wanted import OnConflict
from tests.story.harness import Computer, final, tool, tools, tree
from tests.story.undo_oracle import Asked, Tree

NAMES: Final = ("a", "b", "c.lua", "d", "my file", "[x]", ".hidden", "e.f.g", "gr\u00fcn")
FOREIGN: Final = os.fsdecode(b"gr\xfc\xdf")
"""As a computer whose keyboard has umlauts names a file: its bytes are no UTF-8. No call can name it."""
TEXTS: Final = ("", "return 1\n", "-- gr\xfcn\n", "x = 2\r\n", "print('a')\n" * 700)
BYTES: Final = (*(text.encode("latin-1") for text in TEXTS), b"\0\xff\n\r", bytes(range(256)))
BIG: Final = b"more than a frame has, again and again\n" * 8_000
LARGE: Final = "-- more than one frame has\n" * 2_000
BALLAST: Final = "ballast.bin"
"""Fills a disk, and is no part of any story."""


@dataclass
class Home:
    """A computer and a directory of the workspace: what a drawn task works on."""

    pc: Computer
    root: Path
    """Of the workspace."""

    def tree(self) -> Tree:
        """All that is there, place by place."""
        here = tree(self.pc.disk)
        here.pop(BALLAST, None)
        there = {f"{self.pc.name}/{path}": data for path, data in tree(self.root / self.pc.name).items()}
        there[self.pc.name] = None
        return {f"{self.pc.name}:{path}": data for path, data in here.items()} | {
            f"workspace:{path}": data for path, data in there.items()
        }

    def fill(self, left: int) -> None:
        """Take the room on the computer's disk, but for so many bytes."""
        ballast = self.pc.disk / BALLAST
        ballast.unlink(missing_ok=True)
        ballast.write_bytes(b"-" * max(MIN_ENTRY_BYTES, CAPACITY - used(self.pc.disk) - left))

    def make_room(self) -> None:
        """Take the filling away."""
        (self.pc.disk / BALLAST).unlink(missing_ok=True)


CAPACITY: Final = 2_000_000


def as_shown(place: str) -> str:
    """A place as the endpoints write it: names on a computer are bytes, and what is no UTF-8 is an escape."""
    where, _, path = place.partition(":")
    return f"{where}:{os.fsencode(path).decode('utf-8', 'backslashreplace')}"


def used(disk: Path) -> int:
    """What the files of a computer take, as the game counts."""
    sizes = (0 if path.is_dir() else path.stat().st_size for path in disk.rglob("*"))
    return sum(max(MIN_ENTRY_BYTES, size) for size in sizes)


@dataclass
class Drawn:
    """One story, drawn from its number."""

    number: int
    dice: random.Random = field(init=False)
    asked: Asked = field(init=False)
    full: str = field(init=False)
    """``task``, ``undo`` or empty: when the disk has no room."""

    def __post_init__(self) -> None:
        self.dice = random.Random(f"undo {self.number}")
        self.full = self.dice.choices(("", "task", "undo"), (8, 1, 1))[0]
        choices: tuple[OnConflict, ...] = ("keep", "keep", "restore", "beside")
        on_conflict = self.dice.choice(choices)
        self.asked = Asked(on_conflict=on_conflict)
        match self.dice.random():
            case x if x < 0.12:
                self.asked = Asked(step=self.dice.randint(1, 5), on_conflict=on_conflict)
            case x if x < 0.24:
                self.asked = Asked(path=self._path(), on_conflict=on_conflict)

    # -- what there is -------------------------------------------------------------------

    def place_files(self, home: Home) -> None:
        """Files and directories from before the task."""
        for _ in range(self.dice.randint(0, 10)):
            path = self._path()
            if self.dice.random() < 0.1:
                path = f"{path}/{FOREIGN}"
            if self.dice.random() < 0.15:
                _make_directory(home.pc.disk, path)
            else:
                _write(home.pc.disk, path, self.dice.choice(BYTES))
        if self.dice.random() < 0.1:
            _write(home.pc.disk, self._path(), BIG)
        (home.root / home.pc.name).mkdir(parents=True, exist_ok=True)
        for _ in range(self.dice.randint(0, 3)):
            _write(home.root / home.pc.name, self._path(), self.dice.choice(TEXTS).encode())

    # -- what the task does --------------------------------------------------------------

    def script(self, home: Home) -> list[dict[str, Any]]:
        """The replies of the task's model."""
        calls = list(self._calls(home))
        replies: list[dict[str, Any]] = []
        while calls:
            size = min(len(calls), self.dice.choice((1, 1, 1, 2, 3)))
            replies.append(tools(*calls[:size]) if size > 1 else calls[0])
            calls = calls[size:]
        return [*replies, final(success=self.dice.random() < 0.7)]

    def _calls(self, home: Home) -> Iterator[dict[str, Any]]:
        """Some of them fail, since nothing asks whether they can be done."""
        if self.dice.random() < 0.1:
            yield tool("cc_write", path=self._path(), content=LARGE)
        for _ in range(self.dice.randint(2, 9)):
            does = self.dice.choice(("write", "write", "edit", "mkdir", "delete", "delete", "move", "move", "host"))
            yield self._on_host(home.pc.name) if does == "host" else self._on_computer(does)

    def _on_computer(self, does: str) -> dict[str, Any]:
        path = self._spelled(self._path())
        match does:
            case "write":
                return tool("cc_write", path=path, content=self.dice.choice(TEXTS))
            case "edit":
                old, new = self.dice.choice((("return 1", "return 9"), ("x", "y"), ("-- gr", "")))
                return tool("cc_edit", path=path, old=old, new=new)
            case "mkdir":
                return tool("cc_mkdir", path=path)
            case "delete":
                return tool("cc_delete", path=path)
            case _:
                return tool("cc_move", path=path, to=self.dice.choice((self._path(), "directory", "absent")))

    def _on_host(self, name: str) -> dict[str, Any]:
        path = f"{name}/{self._path()}"
        if self.dice.random() < 0.6:
            return tool("local_write", path=path, content=self.dice.choice(TEXTS))
        patch = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-return 1\n+return 9\n"
        return tool("local_patch", path=path, patch=patch)

    def _path(self) -> str:
        return "/".join(self.dice.choices(NAMES, k=self.dice.choice((1, 1, 2, 3))))

    def _spelled(self, path: str) -> str:
        return f"/./{path.replace('/', '//')}" if self.dice.random() < 0.1 else path

    # -- what a person does --------------------------------------------------------------

    def word(self) -> str:
        """What a person says to a request."""
        return self.dice.choices(("approve", "reject", "cancel"), (30, 2, 1))[0]

    def meddle(self, home: Home, at_most: int) -> None:
        """A person changes files behind the server's back."""
        for number in range(self.dice.randint(0, at_most)):
            root = home.pc.disk if self.dice.random() < 0.75 else home.root / home.pc.name
            self._meddle(root, f"mine {self.number} {number}\n".encode())

    def _meddle(self, root: Path, mine: bytes) -> None:
        there = [path for path in sorted(root.rglob("*")) if not _own(path.relative_to(root))]
        path = self._path()
        if there and self.dice.random() < 0.7:
            path = self.dice.choice(there).relative_to(root).as_posix()
        target = root / path
        match self.dice.choice(("write", "write", "remove", "other kind", "into")):
            case "remove":
                _take(target)
            case "other kind" if target.is_dir():
                _take(target)
                _write(root, path, mine)
            case "other kind" if target.is_file():
                _take(target)
                _write(root, f"{path}/mine", mine)
            case "into" if target.is_dir():
                _write(root, f"{path}/mine too", mine)
            case _:
                _write(root, path, mine)


def _own(path: Path) -> bool:
    return path.parts[0] in (".cc-orchestrator", BALLAST)


def _fits(root: Path, path: str) -> bool:
    target = root / path
    return not any(one.is_file() for one in target.parents if one != root and root in one.parents)


def _write(root: Path, path: str, data: bytes) -> None:
    """Where it can be: not into a file, and not in the place of a directory."""
    if _fits(root, path) and not (root / path).is_dir():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)


def _make_directory(root: Path, path: str) -> None:
    if _fits(root, path) and not (root / path).exists():
        (root / path).mkdir(parents=True)


def _take(target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    elif target.exists():
        target.unlink()
