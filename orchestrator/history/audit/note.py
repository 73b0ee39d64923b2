"""What was verified, kept beside the store, so that a verification can go on from there.

Theory. A stream whose head and whose row are those that were verified last says the same of all tables as then, unless
somebody edited its items behind its head. So of each there is kept where it ended, a digest over its row, and what it
says of the tables. Whoever can write the store must not be able to say that something was verified: the file lies with
the checkpoint and is signed with its key. Only clean streams of tasks stand in it; the stream ``system``, on which
most of the tables rest, is read anew each time.
"""

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple, get_args

from orchestrator.core.approval.grants import Grant
from orchestrator.core.audit.chain import Anchor
from orchestrator.core.audit.computers import Work
from orchestrator.core.ports import KeptRow
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.system_facts import SystemFact
from orchestrator.core.values import to_us
from orchestrator.history.audit.checkpoint import AuditBroken, Checkpoints, replace_file

NOTE_NAME: Final = "audit.verified"
_SIGNS: Final = b"cc-orchestrator verified\n"
"""Before what is signed, so that nothing else that the key signed can stand for it."""
_OUTSIDE: Final = frozenset(get_args(SystemFact))
_REMEDY: Final = "It was left out, and everything was read anew; the next verification makes a new one."


def row_digest(row: KeptRow) -> str:
    """What tells whether a task's row is still the one that was held against its items."""
    return hashlib.sha256(repr(tuple(row.values())).encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass
class Says:
    """What the items of one task say of the tables."""

    items: int = 0
    requests: list[str] = field(default_factory=list)
    grants: list[Grant] = field(default_factory=list)
    uses: Counter[str] = field(default_factory=Counter)
    highest: dict[str, int] = field(default_factory=dict)
    """Computer to the highest number that a call was started with."""
    came: int | None = None
    """When it came in, in microseconds."""
    newest: int = 0
    work: Work | None = None
    whole: bool = True
    """Whether it says nothing else."""

    def take(self, item: AgentTaskItem) -> None:
        """The next item."""
        self.items += 1
        self.newest = max(self.newest, to_us(item.at))
        match item.fact:
            case facts.TaskSubmitted():
                self.came = to_us(item.at)
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
        """As it is kept."""
        work = self.work
        value: dict[str, Any] = {
            "i": self.items,
            "r": self.requests,
            "g": [one.model_dump(mode="json") for one in self.grants],
            "u": self.uses,
            "h": self.highest,
            "c": self.came,
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
            came=value.get("c"),
            newest=value.get("n", 0),
            work=None if work is None else Work(work[0], frozenset(work[1]), frozenset(work[2]), work[3]),
        )


class Line(NamedTuple):
    """One stream as it was verified last."""

    head: Anchor
    row: str
    run: int
    """In which verification it was read."""
    says: bytes


class Verified(NamedTuple):
    """What was verified."""

    at: datetime
    run: int
    """The verification that wrote it."""
    lines: Mapping[str, Line]


class VerifiedNote:
    """The file. Blocks on the disk: call it in a thread."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self.path = checkpoints.path.with_name(NOTE_NAME)

    def read(self) -> Verified | None:
        """What it says; None: there is none. Raises AuditBroken for one that nobody signed here."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AuditBroken(f"{self.path} cannot be read: {error.strerror}.", remedy=_REMEDY) from None
        signed, _, signature = data.rstrip(b"\n").rpartition(b"\n")
        signed += b"\n"
        if not hmac.compare_digest(signature, self._signature(signed)):
            raise AuditBroken(f"{self.path} does not carry the signature of the checkpoint's key.", remedy=_REMEDY)
        head, *lines = signed.splitlines()
        told = json.loads(head)
        return Verified(datetime.fromisoformat(told["at"]), told["run"], dict(map(_line, lines)))

    def write(self, verified: Verified) -> None:
        """Put it in place of the last one. Raises AuditBroken where it cannot be signed or written."""
        told = {"schema": 1, "at": verified.at.isoformat(), "run": verified.run}
        lines = [json.dumps(told).encode(), *(_encoded(name, line) for name, line in verified.lines.items())]
        signed = b"".join(line + b"\n" for line in lines)
        try:
            replace_file(self.path, signed + self._signature(signed) + b"\n")
        except OSError as error:
            raise AuditBroken(f"{self.path} cannot be written: {error.strerror}.", remedy=_REMEDY) from None

    def _signature(self, signed: bytes) -> bytes:
        return hmac.new(self._checkpoints.key(), _SIGNS + signed, hashlib.sha256).hexdigest().encode()


def may_be_noted(stream: str) -> bool:
    """Whether a name fits on a line."""
    return stream.isprintable() and "\t" not in stream


def _encoded(name: str, line: Line) -> bytes:
    version, digest = line.head
    return b"\t".join((name.encode(), b"%d" % version, digest.encode(), line.row.encode(), b"%d" % line.run, line.says))


def _line(data: bytes) -> tuple[str, Line]:
    name, version, digest, row, run, says = data.split(b"\t", 5)
    return name.decode(), Line((int(version), digest.decode()), row.decode(), int(run), says)
