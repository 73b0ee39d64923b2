"""What was verified, kept beside the store, so that a verification can go on from there.

Theory. A stream with the head and the row of its last verification says the same about all tables as then, unless
somebody edited its items behind its head. So the file keeps for each stream its end, a digest over its row, and its
statements about the tables. A person who can write the store must not be able to forge this: the file is beside the
checkpoint and signed with its key. It has clean streams of tasks only. The stream ``system``, on which most tables
rest, is read again each time.

The lines are sorted by stream, as the store answers its rows. So the file is read and written beside them, and never
held whole.
"""

import hashlib
import heapq
import hmac
import json
import os
import secrets
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from typing import IO, Any, Final, NamedTuple, get_args

from pydantic import AwareDatetime, Field

from orchestrator.core.approval.grants import Grant
from orchestrator.core.audit.chain import Anchor
from orchestrator.core.audit.computers import Work
from orchestrator.core.ports import KeptRow
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.system_facts import SystemFact
from orchestrator.core.values import Value, to_us
from orchestrator.history.audit.checkpoint import Checkpoints, replace_file
from orchestrator.history.audit.heads_tree import AuditBroken

NOTE_NAME: Final = "audit.verified"
_SCHEMA: Final = 2
_SIGNS: Final = b"cc-orchestrator verified\n"
"""The text before the signed content, so that nothing else that the key signed can replace it."""
_SIGNATURE: Final = 65
"""The bytes of the last line."""
_ABOUT: Final = 1000
"""More bytes than the line before it has."""
_PIECE: Final = 1 << 20
_AGAIN_AT_LEAST: Final = 20
_AGAIN_ONE_OF: Final = 50
"""One of so many streams that did not change is read again each time, beginning with those not read for longest.

After as many verifications all were read.
"""
_OUTSIDE: Final = frozenset(get_args(SystemFact))
_REMEDY: Final = "It was left out, and everything was read again; the next verification makes a new one."


def row_digest(row: KeptRow) -> str:
    """A digest that tells whether a task's row is still the one that was compared with its items."""
    return hashlib.sha256(repr(tuple(row.values())).encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(eq=False, repr=False)
class Says:
    """What the items of one task say of the tables."""

    items: int = 0
    requests: list[str] = field(default_factory=list)
    grants: list[Grant] = field(default_factory=list)
    uses: Counter[str] = field(default_factory=Counter)
    highest: dict[str, int] = field(default_factory=dict)
    """Computer to the highest number that a call was started with."""
    newest: int = 0
    work: Work | None = None
    whole: bool = True
    """Whether the line says nothing else."""

    def take(self, item: AgentTaskItem) -> None:
        """The next item."""
        self.items += 1
        self.newest = max(self.newest, to_us(item.at))
        match item.fact:
            case facts.ReviewRequested() as fact:
                self.requests.append(fact.request_id)
            case facts.DecisionRecorded() as fact:
                self.grants += fact.grants
            case facts.ToolStarted() as fact:
                if fact.grant_id is not None:
                    self.uses[fact.grant_id] += 1
                if fact.computer is not None:
                    self.highest[fact.computer] = max(fact.number, self.highest.get(fact.computer, 0))
            case other:
                self.whole = self.whole and type(other) not in _OUTSIDE

    def encoded(self) -> bytes:
        """The text as it is kept."""
        work = self.work
        value: dict[str, Any] = {
            "i": self.items,
            "r": self.requests,
            "g": [one.model_dump(mode="json") for one in self.grants],
            "u": self.uses,
            "h": self.highest,
            "n": self.newest,
            "w": None if work is None else [work.version, sorted(work.open), sorted(work.computers), work.rests],
        }
        return json.dumps({name: one for name, one in value.items() if one}, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, data: bytes) -> "Says":
        """What was kept."""
        value = json.loads(data)
        work = value.get("w")
        return cls(
            items=value.get("i", 0),
            requests=value.get("r", []),
            grants=[Grant.model_validate_json(json.dumps(one)) for one in value.get("g", ())],
            uses=Counter(value.get("u", {})),
            highest=value.get("h", {}),
            newest=value.get("n", 0),
            work=None if work is None else Work(work[0], frozenset(work[1]), frozenset(work[2]), work[3]),
        )


class Line(NamedTuple):
    """One stream as it was verified last."""

    head: Anchor
    row: str
    run: int
    """The number of the verification that read it."""
    says: bytes


class Verified:
    """What was verified, as one goes through it by the names of streams. Close it."""

    def __init__(self, file: IO[bytes], at: datetime, run: int, again: frozenset[str]) -> None:
        self.at = at
        self.run = run
        """The verification that wrote it."""
        self.again = again
        """The streams whose turn it is to be read again."""
        self._lines = _lines(file)
        self._file = file
        self._next: tuple[str, Line] | None = None

    def up_to(self, last: str) -> dict[str, Line]:
        """The lines that did not come yet of the streams up to this name."""
        found: dict[str, Line] = {}
        while (one := self._next or self._after()) is not None and one[0] <= last:
            found[one[0]] = one[1]
            self._next = None
        return found

    def rest(self) -> Iterator[tuple[str, Line]]:
        """All that did not come yet."""
        while (one := self._next or self._after()) is not None:
            self._next = None
            yield one

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _after(self) -> tuple[str, Line] | None:
        self._next = next(self._lines, None)
        return self._next


class NewNote:
    """A note that is being written. Close it: what was not kept then is forgotten."""

    def __init__(self, note: "VerifiedNote") -> None:
        self._note = note
        # Without a name: of two that are written at once, each has its own, and none is left behind by a crash.
        self._file = tempfile.TemporaryFile(dir=note.path.parent)  # noqa: SIM115 - closed by ``close``

    def add(self, lines: Iterable[tuple[str, Line]]) -> None:
        """Streams, by their names, which are greater than all before."""
        self._file.writelines(_encoded(name, line) for name, line in lines)

    def keep(self, at: datetime, run: int) -> None:
        """Put it in place of the last one."""
        self._file.write(json.dumps({"schema": _SCHEMA, "at": at.isoformat(), "run": run}).encode() + b"\n")
        self._file.seek(0)
        self._note.put(iter(lambda: self._file.read(_PIECE), b""))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class VerifiedNote:
    """The file: lines, what is to be known of them all, and the signature. Blocks on the disk: call it in a thread."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self.path = checkpoints.path.with_name(NOTE_NAME)

    def read(self) -> Verified | None:
        """What it says; None: there is none. Raises AuditBroken for one that nobody signed here."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AuditBroken(f"{self.path} cannot be read: {error.strerror}.", remedy=_REMEDY) from None
        try:
            return self._believed(file)
        except BaseException:
            file.close()
            raise

    def write(self) -> NewNote | None:
        """Begin a new one; None: nothing can be signed or written here."""
        try:
            return NewNote(self) if self._checkpoints.key_path.exists() else None
        except OSError:
            return None

    def put(self, pieces: Iterable[bytes]) -> None:
        """Sign these bytes and put them in place of the last ones. Raises AuditBroken where that cannot be done."""
        signing = self._signing()

        def signed() -> Iterator[bytes]:
            for piece in pieces:
                signing.update(piece)
                yield piece
            yield signing.hexdigest().encode() + b"\n"

        try:
            replace_file(self.path, signed())
        except OSError as error:
            raise AuditBroken(f"{self.path} cannot be written: {error.strerror}.", remedy=_REMEDY) from None

    def _believed(self, file: IO[bytes]) -> Verified | None:
        """The file, once all of it is known to be signed. Raises AuditBroken."""
        left, lines, signing = file.seek(0, os.SEEK_END) - _SIGNATURE, 0, self._signing()
        about = b""
        file.seek(0)
        while left > 0:
            piece = file.read(min(_PIECE, left))
            signing.update(piece)
            left, lines, about = left - len(piece), lines + piece.count(b"\n"), (about + piece)[-_ABOUT:]
        if not hmac.compare_digest(file.read().strip(), signing.hexdigest().encode()):
            raise AuditBroken(f"{self.path} does not carry the signature of the checkpoint's key.", remedy=_REMEDY)
        told = json.loads(about.splitlines()[-1])
        if told["schema"] != _SCHEMA:
            file.close()
            return None
        file.seek(0)
        draw = secrets.SystemRandom()
        runs = ((line.run, draw.random(), name) for name, line in _lines(file))
        again = heapq.nsmallest(max(_AGAIN_AT_LEAST, lines // _AGAIN_ONE_OF), runs)
        file.seek(0)
        return Verified(file, datetime.fromisoformat(told["at"]), told["run"], frozenset(name for *_, name in again))

    def _signing(self) -> hmac.HMAC:
        return hmac.new(self._checkpoints.key(), _SIGNS, hashlib.sha256)


@dataclass(eq=False, repr=False)
class Renewal:
    """The earlier note and the new one, some streams at a time, by name. Blocks on the disk: call it in a thread."""

    earlier: Verified | None = None
    new: NewNote | None = None
    """None: nothing can be signed or written, so the next verification reads everything again."""
    _part: dict[str, Line] = field(default_factory=dict)

    @property
    def run(self) -> int:
        """The number of this verification."""
        return 1 if self.earlier is None else self.earlier.run + 1

    def up_to(self, last: str) -> dict[str, Line]:
        """The earlier lines of the next streams, up to this name."""
        self._part = {} if self.earlier is None else self.earlier.up_to(last)
        return self._part

    def add(self, lines: Mapping[str, Line]) -> None:
        """The new lines of these streams."""
        self._part = {}
        if self.new is not None:
            try:
                self.new.add(sorted(lines.items()))
            except OSError:
                self.new.close()
                self.new = None

    def end(self, now: datetime, *, whole: bool) -> None:
        """Keep the new note; not ``whole``: with the earlier lines of all that was not read. Raises AuditBroken."""
        at = now if whole or self.earlier is None else self.earlier.at
        if not whole:
            self.add(self._part)
        if self.earlier is not None:
            if not whole and self.new is not None:
                self.new.add(self.earlier.rest())
            # Where a file that is open cannot be replaced.
            self.earlier.close()
        if self.new is not None:
            self.new.keep(at, self.run)

    def close(self) -> None:
        """Let go of both files."""
        for one in (self.earlier, self.new):
            if one is not None:
                one.close()


POSITION_NAME: Final = "audit.position"
BACKGROUND_NAME: Final = "audit.background"
_SIGNS_POSITION: Final = b"cc-orchestrator position\n"


class Position(Value):
    """How far a store was verified: where a verification goes on that costs what changed.

    ``audit verify --since-last`` and the verification in the background have one each: the first one stays where
    something was found, and the other goes on and keeps what it found.
    """

    at: AwareDatetime
    """When the last one began."""
    first: str = ""
    """The name from which on the next tasks are read in turn; empty: all were."""
    system: Anchor | None = None
    """The head of the system stream that was verified last; None: none was."""
    checkpoints: dict[str, str] = Field(default_factory=dict)
    """As ``Books.checkpoints`` has them up to there."""


class PositionFile:
    """The position, signed as the note is. Blocks on the disk: call it in a thread."""

    def __init__(self, checkpoints: Checkpoints, name: str = POSITION_NAME) -> None:
        self._checkpoints = checkpoints
        self.path = checkpoints.path.with_name(name)

    def read(self) -> Position | None:
        """What it says; None: there is none. Raises AuditBroken for one that nobody signed here."""
        try:
            line, _, signature = self.path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AuditBroken(f"{self.path} cannot be read: {error.strerror}.", remedy=_REMEDY) from None
        if not hmac.compare_digest(signature.strip(), self._signature(line)):
            raise AuditBroken(f"{self.path} does not carry the signature of the checkpoint's key.", remedy=_REMEDY)
        return Position.model_validate_json(line)

    def write(self, position: Position) -> None:
        """Put it in place of the last one, if anything can be signed and written."""
        line = position.model_dump_json().encode()
        if self._checkpoints.key_path.exists():
            with suppress(AuditBroken, OSError):
                replace_file(self.path, [line, b"\n", self._signature(line), b"\n"])

    def _signature(self, line: bytes) -> bytes:
        signed = _SIGNS_POSITION + self.path.name.encode() + b"\n" + line
        return hmac.new(self._checkpoints.key(), signed, hashlib.sha256).hexdigest().encode()


def may_be_noted(stream: str) -> bool:
    """Whether a name fits on a line."""
    return stream.isprintable() and "\t" not in stream


def _encoded(name: str, line: Line) -> bytes:
    version, digest = line.head
    parts = (name.encode(), b"%d" % version, digest.encode(), line.row.encode(), b"%d" % line.run, line.says)
    return b"\t".join(parts) + b"\n"


def _lines(file: IO[bytes]) -> Iterator[tuple[str, Line]]:
    """The streams, one a line; what is to be known of them all comes behind them."""
    for data in takewhile(lambda one: b"\t" in one, file):
        name, version, digest, row, run, says = data.rstrip(b"\n").split(b"\t", 5)
        yield name.decode(), Line((int(version), digest.decode()), row.decode(), int(run), says)
