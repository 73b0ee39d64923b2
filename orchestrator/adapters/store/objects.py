"""Whether the tables, indexes, triggers and views of a store are those of its schema.

Theory. A trigger or a view changes what a row says at the moment at which somebody reads it, so rows that an audit
found right mean nothing beside one. Only what the migrations made may touch our tables. An index more, or one less,
changes no answer: it is told and does not stop a start.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from typing import Final, NamedTuple, assert_never

from orchestrator.adapters.store.schema import READ_META, SCHEMA, SCHEMA_KEY, Table, statements, tables_of
from orchestrator.adapters.store.script import Script
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import Schedule
from orchestrator.core.ports.store import FAR_S, OVERTAKEN_S
from orchestrator.core.task.facts import TaskId
from orchestrator.core.values import ComputerId

# -- The queue entry and the lease of one task: a value, and the few ways it may change
#
# Every adapter keeps an `Entry` beside the task's version and changes it by these functions only, inside the
# transaction that also checks the version. An entry is
#
# - asleep: it has no holder, and is due never or later. Only a wake or the clock makes it due.
# - due: it has no holder, and is due now or since some time. The next ``lease`` may take it.
# - held: it has a holder, and the lease ends later. Nobody else may take it. Its due time stays in the past, so that
#   it is due at once if its holder dies.
# - expired: it has a holder, and the lease is over. The next ``lease`` may take it. Until then the holder may go on,
#   and that renews the lease.
#
# No wake-up is lost. An append moves the version, so a holder that would sleep on an older version is refused
# with Conflict; a bare wake of a held task moves nothing, so it leaves ``woken``, and a woken task falls due as
# its holder lets go.


class Entry(NamedTuple):
    """Queue entry and lease; times in microseconds since 1970 in UTC."""

    due: int | None
    """None: only a wake makes it due."""
    holder: str | None = None
    """The actor that leases it; None: nobody, and no token is valid."""
    token: int = 0
    """The token of the newest lease there was; it only rises."""
    lease_until: int = 0
    lease_for: int = 0
    """How long the lease was asked for: what an append renews it by."""
    waiting_for: ComputerId | None = None
    """The computer it parked for, or, while it is held, the one that blocked its claim."""
    woken: int = 0
    """1: somebody woke it while it was held."""


def holds(entry: Entry, token: int) -> bool:
    """Whether this token is the lease's: given back by nobody, taken over by nobody."""
    return entry.holder is not None and entry.token == token


def leased(entry: Entry, holder: str, now: int, lease_for: int) -> Entry:
    """The task held by ``holder`` with a new token; the fold that follows sees the item that woke it."""
    return Entry(due=entry.due, holder=holder, token=entry.token + 1, lease_until=now + lease_for, lease_for=lease_for)


def renewed(entry: Entry, now: int) -> Entry:
    """The lease from now on for as long as it was asked for."""
    return entry._replace(lease_until=renewed_until(entry, now))


def renewed_until(entry: Entry, now: int) -> int:
    """How long the lease holds when it is renewed now."""
    return now + entry.lease_for


def given_back(entry: Entry, now: int, due: int | None = None, waiting_for: ComputerId | None = None) -> Entry:
    """Held by nobody and asleep until ``due``, or due at once if it was woken meanwhile."""
    if entry.woken:
        due, waiting_for = now, None
    return Entry(due=due, token=entry.token, waiting_for=waiting_for)


def made_due(entry: Entry, now: int) -> Entry:
    """Due at once, the lease untouched; one that was due longer keeps its place."""
    due = now if entry.due is None else min(entry.due, now)
    return entry._replace(due=due, waiting_for=entry.waiting_for if entry.holder is not None else None)


def awakened(entry: Entry, now: int) -> Entry:
    """Due at once; a held entry stays held and remembers the wake."""
    return made_due(entry, now)._replace(woken=0 if entry.holder is None else 1)


def scheduled(entry: Entry, schedule: Schedule, token: int | None, now: int) -> Entry:
    """The entry after an append of this schedule by the holder of ``token``, or by an outsider (None)."""
    match schedule:
        case "keep":
            return entry
        case "wake":
            return made_due(entry, now)
        case "sleep" if token is not None:
            return given_back(entry, now)
        case "sleep":
            # An outsider puts an idle task to sleep, but takes the lease from nobody.
            return entry if entry.holder is not None else given_back(entry, now)
    assert_never(schedule)


def seconds_to_us(seconds: float) -> int:
    """A duration in microseconds."""
    return round(seconds * 1_000_000)


Due = tuple[str, int, int, str]
"""A task that is due and may be held: its id, its priority, since when, and its computers as JSON."""


def near_first(due: Sequence[Due], here: Callable[[ComputerId], bool], now: int) -> list[TaskId]:
    """The tasks of a user that a node is to take, in this order, among the first of those that are due.

    A step on a computer of another node costs both of them two messages. ``due``: by priority, then by time.
    """
    near: list[TaskId] = []
    far: list[TaskId] = []
    long_ago = now - seconds_to_us(FAR_S)
    # Else a node with nothing to do would keep a task waiting for those of a higher priority that it leaves to others.
    if any(priority != due[0][1] and since <= long_ago for _, priority, since, _ in due):
        long_ago = now
    for task_id, priority, since, computers in due:
        if priority != due[0][1] or since > due[0][2] + seconds_to_us(OVERTAKEN_S):
            break
        names = _names(computers)
        if not names or any(map(here, names)):
            near.append(TaskId(task_id))
        elif since <= long_ago:
            far.append(TaskId(task_id))
    return near + far


def _names(computers: str) -> list[ComputerId]:
    """The computers of a row; none where it was damaged: the task that is read then is refused, and no other waits."""
    with suppress(ValueError, RecursionError):
        names = json.loads(computers)
        return [ComputerId(str(name)) for name in names] if isinstance(names, list) else []
    return []


# -- Whether the tables, indexes, triggers and views of a store are those of its schema

_OBJECTS: Final = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_OURS: Final = ", ".join(f"'{name}'" for name in tables_of(SCHEMA))
_AMONG: Final = f"c.relname IN ({_OURS}) AND pg_table_is_visible(c.oid)"
_ON_SERVER: Final = f"""
    SELECT 'trigger', t.tgname::text, c.relname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE NOT t.tgisinternal AND {_AMONG}
    UNION ALL SELECT 'rule', r.rulename::text, c.relname::text FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
        WHERE c.relkind <> 'v' AND {_AMONG}
    UNION ALL SELECT 'row policy', p.polname::text, c.relname::text FROM pg_policy p
        JOIN pg_class c ON c.oid = p.polrelid WHERE {_AMONG}
    UNION ALL SELECT 'view', c.relname::text, c.relname::text FROM pg_class c
        WHERE c.relkind NOT IN ('r', 'i') AND {_AMONG}
    UNION ALL SELECT 'child table', i.inhrelid::regclass::text, c.relname::text FROM pg_inherits i
        JOIN pg_class c ON c.oid = i.inhparent WHERE {_AMONG}
    UNION ALL SELECT 'column', a.attname || CASE WHEN a.attgenerated = '' THEN '' ELSE ' (generated)' END,
        c.relname::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND {_AMONG}
    UNION ALL SELECT 'index', x.relname::text, c.relname::text FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
        JOIN pg_class c ON c.oid = i.indrelid WHERE NOT i.indisprimary AND {_AMONG}"""
_ACTS: Final = frozenset({"trigger", "view", "rule", "row policy", "child table"})
"""Kinds that no schema of ours has."""


class Strange(NamedTuple):
    """One object that is not of the schema."""

    sentence: str
    stops: bool
    """Whether a start is refused."""


class _Object(NamedTuple):
    kind: str
    name: str
    table: str
    sql: str = ""


_ODD: Final[Mapping[str, str]] = {
    "TEXT": "COALESCE(typeof({0}) <> 'text' AND {0} IS NOT NULL, 0)",
    "BYTEA": "COALESCE(typeof({0}) <> 'blob' AND {0} IS NOT NULL, 0)",
    "BIGINT": "COALESCE({0} IS NOT NULL AND (typeof({0}) <> 'integer' OR {0} < 0), 0)",
    "SIGNED": "COALESCE({0} IS NOT NULL AND typeof({0}) <> 'integer', 0)",
    "SMALLINT": "COALESCE({0} IS NOT NULL AND (typeof({0}) <> 'integer' OR {0} NOT IN (0, 1)), 0)",
}
"""A SQL condition for each kind of column: whether a value is not one of ours."""
_SIGNED: Final = frozenset({"priority"})
"""Numbers that may be below 0."""
_UNIQUE: Final = _Object("index", "items_task_id_item_id_key", "items")
"""What PostgreSQL makes of the one UNIQUE of a table."""


def strange_in_file() -> Script[list[Strange]]:
    """The parts of a SQLite file that are not of its schema."""
    rows = yield _OBJECTS, ()
    schema = yield from _schema()
    found = [_Object(kind, str(name), str(table), _plain(sql)) for kind, name, table, sql in rows]
    return _compared(found, [one for one in _of_schema() if one.kind != "column"], schema)


def strange_on_server() -> Script[list[Strange]]:
    """The parts of a PostgreSQL database that touch our tables and are not of their schema."""
    rows = yield _ON_SERVER, ()
    schema = yield from _schema()
    ours = [one._replace(sql="") for one in _of_schema() if one.kind in ("column", "index") and one.sql != _AUTOMATIC]
    ours.append(_UNIQUE)
    return _compared([_Object(*row) for row in rows], ours, schema)


def odd_values(table: Table) -> Script[list[str]]:
    """Which columns of a table in a SQLite file hold a value of another type, or below 0."""
    kinds = ["SIGNED" if column.name in _SIGNED else column.kind for column in table.columns]
    terms = [f"SUM({_ODD[kind].format(column.name)})" for kind, column in zip(kinds, table.columns, strict=True)]
    nulls = [f"SUM({column.name} IS NULL)" for column in table.columns]
    ((*counts,),) = yield f"SELECT {', '.join([*terms, *nulls])} FROM {table.name}", ()
    many = len(table.columns)
    wrong = zip(table.columns, counts[:many], counts[many:], strict=True)
    return [
        f"The column {column.name} of {table.name} holds what was never written there, in {rows} rows."
        for column, odd, empty in wrong
        if (rows := (odd or 0) + (0 if column.nullable else empty or 0))
    ]


def check_objects(strange: Iterable[Strange], where: str) -> list[str]:
    """Warnings for a store that is started. Raises OrchestratorError where something stops the start."""
    told = []
    for one in strange:
        if one.stops:
            raise OrchestratorError(
                f"The store {where} was changed from outside: {one.sentence}",
                remedy="Find out who did that. Take it away, or put a backup in place; "
                "`cc-orchestrator audit verify` names all that was changed.",
            )
        told.append(one.sentence)
    return told


def _compared(found: list[_Object], ours: list[_Object], schema: int) -> list[Strange]:
    kept = [one for one in found if not one.name.startswith("sqlite_stat")]
    # Triggers and the like come first: for them a start is refused.
    found = sorted(kept, key=lambda one: (one.kind not in _ACTS, one))
    expected = {(one.kind, one.name, one.table): one.sql for one in ours}
    there = {(one.kind, one.name, one.table) for one in found}
    strange = []
    for one in found:
        key = (one.kind, one.name, one.table)
        # A newer schema may have more; only what no schema may have is known.
        if one.kind not in _ACTS and (expected.get(key) == one.sql or schema > SCHEMA):
            continue
        of = "" if one.name == one.table else f" of {one.table}"
        why = "is not defined as this version made it" if key in expected else "is not one of this store"
        stops = key in expected or one.kind != "index"
        strange.append(Strange(f"The {one.kind} {one.name}{of} {why}.", stops))
    if schema == SCHEMA:
        strange += [
            Strange(f"The {kind} {name} of {table} is not there.", stops=kind != "index")
            for kind, name, table in sorted(expected.keys() - there)
        ]
    return strange


def _schema() -> Script[int]:
    rows = yield READ_META, (SCHEMA_KEY,)
    return int(rows[0][0]) if rows and str(rows[0][0]).isdecimal() else 0


_AUTOMATIC: Final = "automatic"
"""Objects without a definition: the index of a primary key has none."""


@cache
def _of_schema() -> tuple[_Object, ...]:
    with closing(sqlite3.connect(":memory:")) as made:
        for statement in statements(SCHEMA):
            made.execute(statement)
        objects = [_Object(kind, name, table, _plain(sql)) for kind, name, table, sql in made.execute(_OBJECTS)]
    columns = [_Object("column", name, table.name) for table in tables_of(SCHEMA).values() for name in table.names]
    return (*objects, *columns)


def _plain(sql: object) -> str:
    return _AUTOMATIC if sql is None else re.sub(r"\s+", " ", str(sql)).strip()
