"""The heads of streams as they leave the host: lines that any collector keeps, and that a verification reads again.

Theory. Whoever can write the store and the checkpoint beside it puts both back together, and nothing here knows better.
Lines that went to another machine do. Each has the heads that changed since the line before; what a syslog server puts
before them is passed over. All that they ever said has to hold still, so that a store that was put back and grew again
is found by its older lines.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import AwareDatetime, ConfigDict, Field, ValidationError

from orchestrator.core.audit.chain import Anchor
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.task.items import canonical_json
from orchestrator.core.values import Value

MARK: Final = "cc-orchestrator-heads "
"""Before the JSON of each line."""
_A_LINE: Final = 8
"""Streams of one line: about a kilobyte, which every syslog takes whole."""

Noted = Mapping[str, Mapping[int, str]]
"""Of each stream the versions whose hash left the host."""


class HeadsLine(Value):
    """One line."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    schema_version: Literal[1] = Field(default=1, alias="schema")
    at: AwareDatetime
    key: str = ""
    """Which checkpoint key the node has, as a fingerprint: it tells nodes and installations apart."""
    all: str = ""
    """The digest over the heads of all streams at that moment, as ``audit verify`` prints it.

    Empty: they were not all looked at, only what changed.
    """
    streams: dict[str, tuple[int, str]]


def lines_of(news: Mapping[str, Anchor], digest: str, at: datetime, key: str) -> list[str]:
    """The lines of what changed; ``digest``: over all that there are, empty: nobody looked."""
    names = sorted(news)
    parts = [names[start : start + _A_LINE] for start in range(0, len(names), _A_LINE)]
    lines = (HeadsLine(at=at, key=key, all=digest, streams={name: news[name] for name in part}) for part in parts)
    return [MARK + canonical_json(one.model_dump(mode="json", by_alias=True)).decode("ascii") for one in lines]


def read_heads(path: Path) -> dict[str, dict[int, str]]:
    """What a file of such lines says, whatever else stands in it. Raises InvalidRequest."""
    try:
        text = path.read_text("utf-8", "replace")
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}.", remedy="Name a file of heads.") from None
    found: dict[str, dict[int, str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        _, mark, told = line.partition(MARK)
        if not mark:
            continue
        try:
            streams = HeadsLine.model_validate_json(told).streams
        except ValidationError:
            raise InvalidRequest(
                f"Line {number} of {path} is cut or was edited: it is no line of heads.",
                remedy="Take a whole copy from where the heads were sent, or take that line out.",
            ) from None
        for stream, (version, digest) in streams.items():
            # Two lines that differ are told both: at most one of them holds.
            known = found.setdefault(stream, {})
            known[version] = digest if known.get(version, digest) == digest else "two lines differ"
    if not found:
        raise InvalidRequest(f"No line of {path} has heads.", remedy=f"Each begins with {MARK.strip()!r}.")
    return found
