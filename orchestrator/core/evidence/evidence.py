"""The record of what the finished calls of a task show: net changes, runs, looks and failures. A part of the fold.

Theory. Three things are kept, and each is a fact of the journal.

- A **change** is a path of a computer with its state before the task and now. The same bytes as before are not a
  change.
- A **run** is the last run of a program: the bytes that ran, how it ended, its output. A later change makes it stale.
- A **look** is anything else that succeeded. A **gap** is a look that failed, until contents that are seen after it
  close it; a file that the task names has to be seen itself.

``failure`` is the last change or run that failed, until another one succeeds.
"""

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final, NamedTuple, Protocol

from orchestrator.core.task.facts import Observed, Ran
from orchestrator.core.task.rounds import Call
from orchestrator.core.values import immutable

ABSENT: Final = "absent"
DIRECTORY: Final = "directory"
UNKNOWN: Final = "?"
"""The state of a path that something changed, where nobody knows to what."""
TEXT_CHARS: Final = 20_000
"""Characters of a program's output that are kept for the claims about it, head and tail."""
CUT: Final = re.compile(r"left out|\[\.\.\.|omitted")
"""Words that tell that a text is shown in part."""
_ENDINGS: Final = frozenset({"lua", "txt", "json", "cfg", "conf", "ini", "md", "csv", "log", "dat", "data", "bak"})
_WELL: Final = frozenset({"finished", "observed", "timed_out"})


class Spot(NamedTuple):
    """A path of a computer; computer ``""``: the workspace on the host."""

    computer: str
    path: str


@immutable
class Change:
    """All changes of a task to one path, together."""

    before: str
    """The sha256 of a file, ``absent``, the hash of a directory, or ``?``; as the one below."""
    now: str
    at: int
    """The number of the call that changed it last."""
    plus: int | None = 0
    """Lines that its calls wrote; None: not known. Of a new file these less ``minus`` are its lines."""
    minus: int | None = 0
    text: str | None = None
    """The text that its calls wrote into it, head first; None: something else changed it too, so nobody knows."""
    only_comments: bool = False
    """Whether all that was changed in a program was comments and blank space."""

    @property
    def is_net(self) -> bool:
        """Whether the path is other than before the task, as far as that is known."""
        return self.before != self.now or self.now == UNKNOWN

    @property
    def is_there(self) -> bool:
        """Whether there is something now."""
        return self.now != ABSENT


@immutable
class Run:
    """The last run of one program."""

    ran: Ran
    at: int
    """The number of the call that ran it."""
    text: str = ""
    """The text that the model was told of it, output included."""
    about: frozenset[str] = frozenset()
    """Names, without ending, of what it loads or was given, as far as that was seen."""
    given: frozenset[str] = frozenset()
    """The arguments and the lines of input that its runs got."""
    told: str = ""
    """The texts that the model was told of all its runs, this one included."""
    times: int = 1

    @property
    def went_well(self) -> bool:
        """Whether it ended without an error, or was watched without one."""
        return self.ran.ended in _WELL

    @property
    def failed(self) -> bool:
        """Whether it ended with an error, or could not be stopped. One that a person stopped did neither."""
        return self.ran.ended in ("error", "abandoned")


@immutable
class Evidence:
    """What the finished steps of a task show."""

    calls: int = 0
    """Calls that changed or ran something, so far: the numbers of changes and runs."""
    changes: Mapping[Spot, Change] = field(default_factory=dict)
    runs: Mapping[Spot, Run] = field(default_factory=dict)
    effect: bool = False
    """A change or a run succeeded, and none failed after it."""
    sight: bool = False
    """Something was looked at, or the user was asked."""
    seen: frozenset[Spot] = frozenset()
    """Files whose contents were seen."""
    found: str = ""
    """What searches found."""
    failure: str = ""
    """The last change or run that failed, while nothing made up for it; empty: there is none."""
    gap: str = ""
    """The last look that failed, while nothing made up for it; empty: there is none."""
    unseen: tuple[str, ...] = ()
    """The paths that could not be read, and were neither read nor changed since."""
    unwritten: frozenset[Spot] = frozenset()
    """Files whose last write or edit did not happen."""
    denied: bool = False
    """The policy denied a change or a run, and none succeeded after it."""
    shown: str = ""
    """What the looks showed."""
    loads: Mapping[Spot, frozenset[str]] = field(default_factory=dict)
    """The names of the files that texts load, for texts that were seen or written."""
    tabs: Mapping[Spot, str] = field(default_factory=dict)
    """The tabs of computers in which something may still run, each with the path of the program that started it."""

    @property
    def net(self) -> dict[Spot, Change]:
        """The changes that are left."""
        return {spot: one for spot, one in self.changes.items() if one.is_net}

    @property
    def written(self) -> list[str | None]:
        """The text that was written into each file that is there; None: not known."""
        return [one.text for one in self.changes.values() if one.is_there and one.now != DIRECTORY]

    @property
    def texts(self) -> str | None:
        """All text that was shown, written, given and printed; None: a part of it is not known."""
        runs = self.runs.values()
        parts = [self.shown, *(run.told for run in runs), *(one for one in self.written if one is not None)]
        if None in self.written or any(len(part) >= TEXT_CHARS or CUT.search(part) for part in parts):
            return None
        paths = [spot.path for spot in (*self.changes, *self.runs, *self.seen)]
        return "\n".join([*parts, *paths, *(one for run in runs for one in run.given)])

    @property
    def programs(self) -> dict[Spot, Change]:
        """The programs among them that are there: Lua files, and what was run."""
        return {
            spot: one
            for spot, one in self.net.items()
            if one.is_there and one.now != DIRECTORY and (spot.path.endswith(".lua") or spot in self.runs)
        }


NOTHING: Final = Evidence()
"""The evidence of a task without a finished step."""


class Over(Call, Protocol):
    """A call that is over, with what the finding needs too."""

    @property
    def observed(self) -> Observed | None:
        """The observed target, as a person was shown it; None: nobody was asked."""

    @property
    def lines(self) -> tuple[int, int] | None:
        """Lines that it added and removed; None: not known."""

    @property
    def only_comments(self) -> bool:
        """Whether it changed only comments and blank space of a program."""

    @property
    def ran(self) -> Ran | None:
        """The program that it ran; None: none, or not known."""

    @property
    def note(self) -> str:
        """Why its outcome was unknown; empty: it was not."""


def stem(path: str) -> str:
    """The name of a program as others call it: without directories and ending, also of ``lib.shapes``."""
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    whole, dot, ending = name.rpartition(".")
    return ending if dot and ending not in _ENDINGS else whole or name
