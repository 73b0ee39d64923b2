"""One computer of the game with the real client on it, and the connections that it dials."""

import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from lupa.lua52 import LuaRuntime

from orchestrator.core.wire.wire import sha256_hex
from tests import ROOT

OWN = ".cc-orchestrator"
CHANGING = (b'"fs_write"', b'"fs_delete"', b'"run_program"', b'"shell"')
SETTINGS = b"-- written by the explorer\nws://explorer/computer\ntoken\n"


@dataclass
class Wire:
    """One connection: the frames under way in both directions; None in them is the end."""

    computer: "Computer"
    url: bytes
    boot: int
    to_client: deque[bytes | None] = field(default_factory=deque)
    to_server: deque[bytes | None] = field(default_factory=deque)
    client_open: bool = True
    server_open: bool = True
    broken: bool = False
    """The cable is cut: what either end sends is lost, until it hears the end."""
    receive: Callable[[bytes | None], None] | None = None
    """What the server's end does with a frame."""

    def send_to_server(self, frame: bytes) -> bool:
        """Whether the client's end still takes frames; whether they arrive is another question."""
        if self.client_open and self.server_open and not self.broken:
            self.to_server.append(frame)
        return self.client_open

    def send_to_client(self, frame: bytes) -> bool:
        """Whether the server's end still takes frames."""
        if self.server_open and self.client_open and not self.broken:
            self.to_client.append(frame)
        else:
            self.computer.lose(frame)
        return self.server_open

    def client_closes(self) -> None:
        """The client hangs up, or its power went; some day the server hears of it."""
        if self.client_open:
            self.client_open = False
            self.to_server.append(None)

    def server_closes(self) -> None:
        """The server hangs up, or its process died and its host says so."""
        if self.server_open:
            self.server_open = False
            self.to_client.append(None)

    def cut(self) -> None:
        """What is under way is lost; both ends hear of it when they hear of it."""
        self.broken = True
        self.lose_to_client()
        self.to_server.clear()
        self.to_client.append(None)
        self.to_server.append(None)

    def drop(self) -> None:
        """The client loses the connection; what it said is still under way, and the server hears of the end later."""
        self.lose_to_client()
        self.to_client.append(None)
        self.to_server.append(None)
        self.broken = True

    def lose_to_client(self) -> None:
        """What is under way to the client does not come on this wire."""
        for frame in self.to_client:
            self.computer.lose(frame)
        self.to_client.clear()


class Watcher(Protocol):
    """What is told of every change that a client makes on its disk."""

    def wrote(self, computer: "Computer", path: str, data: bytes) -> None:
        """Bytes were written to an opened file."""

    def appended(self, computer: "Computer", path: str, data: bytes) -> None:
        """A program appended a line."""

    def moved(self, computer: "Computer", source: str, to: str, data: bytes) -> None:
        """A file or directory was moved; ``data`` is the file's (a directory's is empty)."""

    def wrong(self, sentence: str) -> None:
        """Something happened that may never happen."""


@cache
def _machine(place: int) -> Any:
    """The Lua side of the ``place``th computer: one interpreter each for the whole run."""
    lua = LuaRuntime(encoding=None, register_eval=False, unpack_returned_tuples=True)
    names = sorted(path.stem for path in (ROOT / "cc_client" / "lua").glob("*.lua"))
    load = lua.eval(b"function(path, ...) return assert(loadfile(path))(...) end")
    path = str(ROOT / "tests" / "explorer" / "machine.lua").encode()
    module = load(path, lua.table(*(name.encode() for name in names)), str(ROOT).encode())
    return lua, module


class Computer:
    """A computer that the explorer switches on and off, and whose events it hands out."""

    def __init__(self, name: str, place: int, watcher: Watcher, files: Mapping[str, bytes]) -> None:
        self.name = name
        self.on = False
        self.boots = 0
        self.tense = False
        """Whether a call that changes something waits to be handled."""
        self.dials: list[bytes] = []
        """Addresses dialed and not answered yet."""
        self.wires: list[Wire] = []
        self.late: list[bytes] = []
        """Frames of calls that were written and came nowhere. A way round, such as from node to node, may
        yet bring each of them, once and on any session: only its number says that it is too late."""
        lua, self._module = _machine(place)
        tell = lua.table_from(
            {
                b"wrote": lambda path, data: self._tell(watcher.wrote, path.decode(), data),
                b"appended": lambda path, data: self._tell(watcher.appended, path.decode(), data),
                b"moved": lambda source, to, data: self._tell(watcher.moved, source.decode(), to.decode(), data),
                b"dialed": self.dials.append,
                b"sent": self._sent,
                b"closed": self._closed,
            }
        )
        self._watcher = watcher
        with contextlib.chdir(ROOT):
            self._lua: Any = self._module[b"new"](place + 3, tell)
        self._nodes: Any = self._lua[b"disk"][b"nodes"]
        self.put(f"{OWN}/connection", SETTINGS)
        for path, data in files.items():
            self.put(path, data)

    # -- power ---------------------------------------------------------------------------

    def boot(self, die_at: int = 0) -> None:
        """Switch on; ``die_at``: the power goes before that change of the disk (0: it does not)."""
        self.on = True
        self.boots += 1
        self._lua[b"revive"]()
        self._with_power(lambda: self._module[b"boot"](self._lua), die_at)

    def power_off(self) -> None:
        """The power goes now."""
        self.on = False
        self.dials.clear()
        for wire in self.wires:
            if wire.boot == self.boots:
                wire.lose_to_client()
                wire.client_closes()

    def step(self, die_at: int = 0) -> None:
        """Let the client handle one event."""
        self.tense = self.tense and self.waiting > 1
        self._with_power(lambda: self._module[b"step"](self._lua), die_at)

    def _with_power(self, act: Callable[[], Any], die_at: int) -> None:
        if die_at:
            self._lua[b"die_at"](die_at)
        act()
        if die_at:
            self.power_off()

    @property
    def stopped(self) -> str | None:
        """What the client said as it stopped for good; None: it works."""
        if not self.on or not self._lua[b"stopped"]:
            return None
        return (self._lua[b"said"] or b"it said nothing").decode(errors="replace")

    # -- events --------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Events that wait."""
        return len(self._lua[b"events"]) if self.on else 0

    def push(self, *event: Any) -> None:
        """Queue an event."""
        self._module[b"push"](self._lua, *event)

    def pass_time(self, seconds: float) -> None:
        """Its clock goes on whether it is on or off; when it is on, a timer tells."""
        self._lua[b"now_ms"] += round(seconds * 1000)
        if self.on:
            self.push(b"timer", 0)

    # -- connections ---------------------------------------------------------------------

    def connected(self, url: bytes) -> Wire:
        """The server took a connection."""
        self.dials.remove(url)
        wire = Wire(self, url, self.boots)
        self.wires.append(wire)
        self._module[b"open"](self._lua, url)
        return wire

    def refused(self, url: bytes) -> None:
        """Nobody listens."""
        self.dials.remove(url)
        self.push(b"websocket_failure", url, b"Connection refused")

    def deliver(self, wire: Wire) -> None:
        """The next frame, or the end, reaches the computer; without power it reaches nobody."""
        frame = wire.to_client.popleft()
        if not self.on or wire.boot != self.boots:
            return
        if frame is not None:
            self.push(b"websocket_message", wire.url, frame, True)
            self.tense = self.tense or any(method in frame[:400] for method in CHANGING)
        else:
            wire.client_open = False
            self.push(b"websocket_closed", wire.url)

    def _tell(self, watch: Callable[..., None], *what: Any) -> None:
        try:
            watch(self, *what)
        except Exception as error:  # noqa: BLE001 - the client would swallow it as an error of its disk
            self._watcher.wrong(f"the explorer cannot follow {what[0]}: {error!r}")

    def _wire(self, url: bytes) -> Wire | None:
        return next((wire for wire in self.wires if wire.url == url and wire.boot == self.boots), None)

    def lose(self, frame: bytes | None) -> None:
        """A frame did not come on its own wire."""
        if frame is not None and b'"type":"call"' in frame[:400]:
            self.late.append(frame)

    def bring_late(self, wire: Wire) -> None:
        """The oldest lost call comes after all, on a wire of today."""
        wire.to_client.append(self.late.pop(0))

    def _sent(self, url: bytes, frame: bytes) -> bool:
        wire = self._wire(url)
        return wire is not None and wire.send_to_server(frame)

    def _closed(self, url: bytes) -> None:
        wire = self._wire(url)
        if wire is not None:
            wire.client_closes()

    # -- the disk ------------------------------------------------------------------------

    def put(self, path: str, data: bytes) -> None:
        """What a person does, or who set the computer up: a file with these bytes."""
        parts = path.split("/")
        for depth in range(1, len(parts)):
            self._nodes["/".join(parts[:depth]).encode()] = True
        self._nodes[path.encode()] = data

    def remove(self, path: str) -> None:
        """A person deletes a file or directory."""
        for name in self.names():
            if name == path or name.startswith(path + "/"):
                self._nodes[name.encode()] = None

    def contents(self) -> dict[str, bytes | None]:
        """The whole disk; None: a directory."""
        return {name: None if (node := self._nodes[name.encode()]) is True else bytes(node) for name in self.names()}

    def put_back(self, contents: Mapping[str, bytes | None]) -> None:
        """The whole disk as it was once, for a computer that is off."""
        for name in self.names():
            self._nodes[name.encode()] = None
        for name, data in contents.items():
            self._nodes[name.encode()] = True if data is None else data

    def names(self) -> list[str]:
        """Every path there is."""
        return sorted(name.decode() for name in self._nodes)

    def get(self, path: str) -> bytes | None:
        """What is at a path: its bytes, a directory as the lines that docs/protocol.md hashes, or None."""
        node = self._nodes[path.encode()]
        if node is not True:
            return bytes(node) if node is not None else None
        below = [name for name in self.names() if name.startswith(path + "/")]
        return b"".join(self._line(name, name[len(path) + 1 :]) for name in below)

    def _line(self, name: str, relative: str) -> bytes:
        data = self._nodes[name.encode()]
        kind, sha256 = ("directory", "-") if data is True else ("file", sha256_hex(bytes(data)))
        return f"{relative}\0{kind}\0{sha256}\n".encode()
