"""The client's journal as its slots on disk say, read without any of the client's own code."""

import re
from dataclasses import dataclass, field

_ENTRY = re.compile(r"^call (\S+) (\w+) (\S+)$", re.MULTILINE)
_FENCE = re.compile(r"^fence (\d+)$", re.MULTILINE)
_SEQ = re.compile(r"^seq (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Slot:
    """What one slot holds."""

    seq: int = 0
    fence: int = 0
    entries: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Run id to state and detail."""

    @property
    def open_runs(self) -> dict[str, int]:
        """Run id to number of the calls that were started and have no outcome."""
        return {run: int(detail) for run, (state, detail) in self.entries.items() if state == "open"}


def read_slot(data: bytes | None) -> Slot:
    """A slot's bytes; an empty slot where they are torn or missing."""
    text = (data or b"").decode("latin-1")
    fence, seq = _FENCE.search(text), _SEQ.search(text)
    if len(text) != 8192 or fence is None or seq is None:
        return Slot()
    entries = {run: (state, detail) for run, state, detail in _ENTRY.findall(text)}
    return Slot(int(seq[1]), int(fence[1]), entries)
