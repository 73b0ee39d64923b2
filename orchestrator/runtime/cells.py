"""The file that lists the cells, ``cells.toml``: for the router, and for moves between cells."""

import logging
import os
import time
import tomllib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from orchestrator.core.errors import InvalidRequest, NotFound
from orchestrator.core.values import immutable
from orchestrator.core.wire.cells import channel, is_name
from orchestrator.core.wire.wire import Cell
from orchestrator.runtime.settings import is_address

logger = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 1.0
_KEYS: Final = frozenset({"url", "store"})
_EXAMPLE: Final = 'Write it such as: default = "east", then [cells.east] with url = "https://east.example.org".'


@immutable
class CellRow:
    """One cell, as the file has it."""

    name: str
    url: str
    """Where its nodes answer, such as ``https://east.cc.example.org``."""
    store: str = field(default="", repr=False)
    """The URL of its store, for moves; empty: the file does not say."""

    @property
    def place(self) -> Cell:
        """As computers are told of it."""
        return Cell(name=self.name, url=channel(self.url))


@immutable
class Cells:
    """All cells."""

    rows: Mapping[str, CellRow]
    default: str
    """The cell of tokens that name none."""

    def of(self, name: str) -> CellRow | None:
        """The cell of a name, the default for an empty one; None: there is none."""
        return self.rows.get(name or self.default)

    def must(self, name: str) -> CellRow:
        """The same. Raises NotFound."""
        found = self.of(name)
        if found is None:
            raise NotFound(f"There is no cell {name!r}.", remedy=f"The file has {', '.join(sorted(self.rows))}.")
        return found


def load_cells(path: Path) -> Cells:
    """What the file says. Raises InvalidRequest."""
    try:
        found = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror or error}.", remedy=_EXAMPLE) from None
    except ValueError as error:
        raise InvalidRequest(f"{path} cannot be read: {error}.", remedy=_EXAMPLE) from None
    tables = found.pop("cells", None)
    default = found.pop("default", "")
    if not isinstance(tables, dict) or not tables or found:
        raise InvalidRequest(f"{path} has to hold `default` and tables [cells.NAME], nothing else.", remedy=_EXAMPLE)
    rows = {name: _row(path, name, table) for name, table in tables.items()}
    if default not in rows:
        raise InvalidRequest(f"{path} has to name one of its cells as `default`.", remedy=_EXAMPLE)
    return Cells(rows, default)


def _row(path: Path, name: str, table: Any) -> CellRow:
    fits = isinstance(table, dict) and table.keys() <= _KEYS and all(isinstance(one, str) for one in table.values())
    url = str(table.get("url", "")).rstrip("/") if fits else ""
    if not is_name(name) or not is_address(url):
        raise InvalidRequest(
            f"The cell {name[:64]!r} of {path} does not fit.",
            remedy=f"A name has up to 32 small letters, digits and hyphens. {_EXAMPLE}",
        )
    return CellRow(name, url, str(table.get("store", "")))


class CellsFile:
    """The file as it is now: a changed one counts within a second, and a broken one leaves the last that was whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen, self._looked = _stamp(path), time.monotonic()
        self._cells = load_cells(path)

    def now(self) -> Cells:
        """The cells."""
        if time.monotonic() - self._looked >= _LOOK_EVERY_S:
            self._looked, stamp = time.monotonic(), _stamp(self._path)
            if stamp != self._seen:
                self._seen = stamp
                try:
                    self._cells = load_cells(self._path)
                except InvalidRequest as error:
                    logger.warning("the cells stay as they were: %s %s", error.message, error.remedy)
                else:
                    logger.info("%s lists %s", self._path, ", ".join(sorted(self._cells.rows)))
        return self._cells


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116 - one call, each second
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
