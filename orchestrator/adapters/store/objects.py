"""Whether the tables, indexes, triggers and views of a store are those of its schema.

Theory. A trigger or a view changes what a row says at the moment at which somebody reads it, so rows that an audit
found right mean nothing beside one. Only what the migrations made may touch our tables. An index more, or one less,
changes no answer: it is told and does not stop a start.
"""

import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import cache
from typing import Final, NamedTuple

from orchestrator.adapters.store.schema import MIGRATIONS, READ_META, SCHEMA_KEY
from orchestrator.adapters.store.script import Script
from orchestrator.adapters.store.tables import Table, tables_of
from orchestrator.core.errors import OrchestratorError

_OBJECTS: Final = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_OURS: Final = ", ".join(f"'{name}'" for name in tables_of(len(MIGRATIONS)))
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
"""Of each kind of column, when a value is not one of ours."""
_SIGNED: Final = frozenset({"priority"})
"""Numbers that may be below 0."""
_UNIQUE: Final = _Object("index", "items_task_id_item_id_key", "items")
"""What PostgreSQL makes of the one UNIQUE of a table."""


def strange_in_file() -> Script[list[Strange]]:
    """What of a SQLite file is not of its schema."""
    rows = yield _OBJECTS, ()
    schema = yield from _schema()
    found = [_Object(kind, str(name), str(table), _plain(sql)) for kind, name, table, sql in rows]
    return _compared(found, [one for one in _of_schema() if one.kind != "column"], schema)


def strange_on_server() -> Script[list[Strange]]:
    """What of a PostgreSQL database touches our tables and is not of its schema."""
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
    """What is to be told of a store that is started. Raises OrchestratorError where something stops that."""
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
    # What acts comes first: it is what a start is refused for.
    found = sorted(kept, key=lambda one: (one.kind not in _ACTS, one))
    expected = {(one.kind, one.name, one.table): one.sql for one in ours}
    there = {(one.kind, one.name, one.table) for one in found}
    strange = []
    for one in found:
        key = (one.kind, one.name, one.table)
        # Of a newer schema only that is known which none may have.
        if one.kind not in _ACTS and (expected.get(key) == one.sql or schema > len(MIGRATIONS)):
            continue
        of = "" if one.name == one.table else f" of {one.table}"
        why = "is not defined as this version made it" if key in expected else "is not one of this store"
        stops = key in expected or one.kind != "index"
        strange.append(Strange(f"The {one.kind} {one.name}{of} {why}.", stops))
    if schema == len(MIGRATIONS):
        strange += [
            Strange(f"The {kind} {name} of {table} is not there.", stops=kind != "index")
            for kind, name, table in sorted(expected.keys() - there)
        ]
    return strange


def _schema() -> Script[int]:
    rows = yield READ_META, (SCHEMA_KEY,)
    return int(rows[0][0]) if rows and str(rows[0][0]).isdecimal() else 0


_AUTOMATIC: Final = "automatic"
"""In place of a definition: the index of a primary key has none."""


@cache
def _of_schema() -> tuple[_Object, ...]:
    with closing(sqlite3.connect(":memory:")) as made:
        for step in MIGRATIONS:
            for statement in step:
                made.execute(statement)
        objects = [_Object(kind, name, table, _plain(sql)) for kind, name, table, sql in made.execute(_OBJECTS)]
    columns = [
        _Object("column", name, table.name) for table in tables_of(len(MIGRATIONS)).values() for name in table.names
    ]
    return (*objects, *columns)


def _plain(sql: object) -> str:
    return _AUTOMATIC if sql is None else re.sub(r"\s+", " ", str(sql)).strip()
