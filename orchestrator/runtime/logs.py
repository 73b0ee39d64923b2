"""The log: one line for each record, which says which task, call and computer it is of.

Code that works for a task, a call or a computer says so once, with :func:`about`; every record made meanwhile,
by whatever module, carries the ids as fields. A line is one line whatever is in it: labels, paths and words of
others cannot end it, move a cursor or look like another line, and secrets are taken out.
"""

import json
import logging
import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

from orchestrator.core.errors import BusAway, StoreAway, StoreBusy
from orchestrator.core.text.redact import redact_text
from orchestrator.core.text.visible import one_line, visible

FIELDS: Final = ("task_id", "call_id", "computer")
"""The fields that a record may have."""
SALT: Final = secrets.token_hex(16)
"""The same secret has the same marker as long as this process lives, and nobody can test a guess with it."""
MAX_CHARS: Final = 20_000
"""Characters of one message, and of one traceback; the log says that the rest is left out."""
_MAX_ID_CHARS: Final = 128
_LIBRARIES: Final = ("uvicorn", "httpx", "httpx2", "httpcore", "httpcore2", "openai", "anthropic", "websockets")
"""Each of their requests would be a line, with its headers at ``debug``: only their warnings are logged."""
_OUTAGES: Final = (StoreAway, StoreBusy, BusAway)

_CLEAN: Final[set[str]] = set()
"""Messages without a secret: each task logs the same ones, and a search costs more than all else."""
_ID: Final = re.compile(r"(?<![\w-])([ts]-)[0-9a-f]{12}(?![\w-])")
"""The id of a task or a session: what is clean beside one is clean beside each."""
_ANY_ID: Final = r"\g<1>0a1b2c3d4e5f"
_MOST_CLEAN: Final = 1_000
_CLEAN_CHARS: Final = 200

LINES: Final[Counter[str]] = Counter()
"""Lines that this process wrote, by level."""

_NOTHING: Final[Mapping[str, str]] = {}
_ABOUT: ContextVar[Mapping[str, str]] = ContextVar("about", default=_NOTHING)


class about:
    """Every record within is about these too; empty or None: as it is around."""

    def __init__(self, *, task_id: str = "", call_id: str = "", computer: str | None = "") -> None:
        named = {"task_id": task_id, "call_id": call_id, "computer": computer}
        self._named = {field: value for field, value in named.items() if value}

    def __enter__(self) -> None:
        self._token = _ABOUT.set({**_ABOUT.get(), **self._named})

    def __exit__(self, *_: object) -> None:
        _ABOUT.reset(self._token)


def fields_of(record: logging.LogRecord) -> dict[str, str]:
    """The fields of a record: from its own ``extra``, else from the block in which it was made."""
    around = _ABOUT.get()
    found = {field: getattr(record, field, None) or around.get(field) for field in FIELDS}
    return {field: one_line(str(value), limit=_MAX_ID_CHARS) for field, value in found.items() if value}


class TextForm(logging.Formatter):
    """A line for people: time, level, message, and what it is about; a traceback below it, set in."""

    _second: tuple[int, str] = (-1, "")
    """The second of the last line, and its text."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as its line."""
        ids = " ".join(f"{field}={value}" for field, value in fields_of(record).items())
        line = f"{self._time(record)} {record.levelname} {one_line(_said(record), limit=MAX_CHARS)}"
        trace = self._traceback(record)
        return f"{line} [{ids}]{trace}" if ids else f"{line}{trace}"

    def _time(self, record: logging.LogRecord) -> str:
        """As ``formatTime`` has it; the text up to the second is made once for all lines of that second."""
        second = int(record.created)
        if second != self._second[0]:
            self._second = second, time.strftime(self.default_time_format, time.localtime(second))
        return f"{self._second[1]},{int(record.msecs):03d}"

    def _traceback(self, record: logging.LogRecord) -> str:
        trace = _traced(self, record)
        return "\n    " + visible(trace, limit=MAX_CHARS).replace("\n", "\n    ") if trace else ""


class JsonForm(logging.Formatter):
    """One JSON object for programs, in ASCII; ``error`` is the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as its line."""
        trace = _traced(self, record)
        told = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": visible(_said(record), limit=MAX_CHARS),
            **fields_of(record),
            **({"error": visible(trace, limit=MAX_CHARS)} if trace else {}),
        }
        return json.dumps(told)


def _said(record: logging.LogRecord) -> str:
    said = record.getMessage()[: 2 * MAX_CHARS]
    return said if len(said) <= _CLEAN_CHARS and _is_clean(said) else redact_text(said, salt=SALT)


def _is_clean(said: str) -> bool:
    """Whether a message has no secret, whichever tasks it is of."""
    said = _ID.sub(_ANY_ID, said)
    if said in _CLEAN:
        return True
    if redact_text(said, salt=SALT) != said:
        return False
    if len(_CLEAN) >= _MOST_CLEAN:
        _CLEAN.clear()
    _CLEAN.add(said)
    return True


def _traced(form: logging.Formatter, record: logging.LogRecord) -> str:
    """The record's traceback and stack, without secrets; empty: it has none."""
    parts: list[str] = []
    if record.exc_info and record.exc_info[0]:
        error = record.exc_info[1]
        # For a server that is away the sentence says everything, and a traceback adds nothing.
        parts.append(str(error) if isinstance(error, _OUTAGES) else form.formatException(record.exc_info))
    if record.stack_info:
        parts.append(form.formatStack(record.stack_info))
    return redact_text("\n".join(parts)[-2 * MAX_CHARS :], salt=SALT) if parts else ""


class _Counting(logging.StreamHandler[TextIO]):
    def emit(self, record: logging.LogRecord) -> None:
        """Write and count it."""
        LINES[record.levelname.lower()] += 1
        super().emit(record)


def set_up(level: str, form: Literal["text", "json"], stream: TextIO | None = None) -> None:
    """Log what is at least of this level, warnings of libraries too, to ``stream`` (None: standard error)."""
    handler = _Counting(stream or sys.stderr)
    handler.setFormatter(JsonForm() if form == "json" else TextForm())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    # No line names the place in the program, the thread or the process: looking for them costs half of a record.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
