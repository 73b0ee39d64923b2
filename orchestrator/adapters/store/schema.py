"""The tables of the SQL stores, and the way there from the tables of version 0.6.0.

The text is read by both dialects: SQLite takes any type name, and BYTEA leaves bytes as they
are. Times are microseconds since 1970 in UTC; computers and roles are JSON arrays.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import Final

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.values import immutable

SCHEMA_KEY: Final = "cc-orchestrator schema"
"""The row of ``meta`` whose value is the schema of the tables."""

READ_META: Final = "SELECT value FROM meta WHERE name = ?"
SET_META: Final = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"

_FIRST: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE items (
        task_id TEXT NOT NULL,
        version BIGINT NOT NULL,
        item_id TEXT NOT NULL,
        data TEXT NOT NULL,
        PRIMARY KEY (task_id, version),
        UNIQUE (task_id, item_id)
    )""",
    """CREATE TABLE tasks (
        task_id TEXT PRIMARY KEY,
        status TEXT NOT NULL,
        version BIGINT NOT NULL,
        head_hash TEXT NOT NULL,
        user_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        prompt TEXT NOT NULL,
        computers TEXT NOT NULL,
        priority BIGINT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        due BIGINT,
        holder TEXT,
        token BIGINT NOT NULL DEFAULT 0,
        lease_until BIGINT NOT NULL DEFAULT 0,
        lease_for BIGINT NOT NULL DEFAULT 0,
        waiting_for TEXT,
        woken SMALLINT NOT NULL DEFAULT 0
    , pinned SMALLINT NOT NULL DEFAULT 0)""",
    "CREATE INDEX tasks_newest ON tasks (created_at, task_id)",
    "CREATE INDEX tasks_by_status ON tasks (status, created_at, task_id)",
    # In the order in which lease() wants them, so that a long queue is not sorted for each lease.
    "CREATE INDEX tasks_due ON tasks (priority DESC, due, task_id) WHERE due IS NOT NULL",
    "CREATE INDEX tasks_held ON tasks (task_id) WHERE holder IS NOT NULL",
    "CREATE INDEX tasks_waiting ON tasks (waiting_for, task_id) WHERE waiting_for IS NOT NULL",
    "CREATE TABLE requests (request_id TEXT PRIMARY KEY, task_id TEXT NOT NULL)",
    # The facts that were heard from a computer and its last boot, so that a disk put back or a copy is noticed.
    "CREATE TABLE computers (computer TEXT PRIMARY KEY, number BIGINT NOT NULL, task TEXT, "
    "heard BIGINT NOT NULL DEFAULT 0, doubtful_below BIGINT NOT NULL DEFAULT 0, known TEXT, "
    "token TEXT NOT NULL DEFAULT '', frozen TEXT, frozen_at BIGINT, released SMALLINT NOT NULL DEFAULT 0)",
    "CREATE INDEX computers_claimed ON computers (task, computer) WHERE task IS NOT NULL",
    "CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, content BYTEA NOT NULL)",
    """CREATE TABLE tokens (
        token_hash TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        roles TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        revoked SMALLINT NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX tasks_by_session ON tasks (session_id, created_at, task_id)",
    # Streams that are not tasks; their items are in ``items``, with the stream's name for a task's id.
    "CREATE TABLE streams (stream TEXT PRIMARY KEY, version BIGINT NOT NULL, head_hash TEXT NOT NULL)",
    """CREATE TABLE grants (
        grant_id TEXT PRIMARY KEY,
        task_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        data TEXT NOT NULL,
        expires_at BIGINT,
        max_uses BIGINT,
        uses BIGINT NOT NULL DEFAULT 0,
        revoked SMALLINT NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX grants_by_session ON grants (session_id)",
    # What is to be known of blobs without reading them. Of one without a row nothing is known: it stays.
    """CREATE TABLE blob_marks (
        sha256 TEXT PRIMARY KEY,
        size BIGINT NOT NULL,
        lists SMALLINT NOT NULL,
        touched BIGINT NOT NULL
    )""",
    "CREATE TABLE pruned (task_id TEXT PRIMARY KEY, pruned_at BIGINT NOT NULL)",
    """CREATE TABLE backups (
        backup_id TEXT PRIMARY KEY,
        computer TEXT NOT NULL,
        made_at BIGINT NOT NULL,
        made_by TEXT NOT NULL,
        data TEXT NOT NULL
    )""",
    "CREATE INDEX backups_of ON backups (computer, made_at)",
    # Browsers that are signed in; a browser that signs out, or was away for too long, has no row.
    """CREATE TABLE sign_ins (
        session_hash TEXT PRIMARY KEY,
        token_hash TEXT NOT NULL,
        name TEXT NOT NULL,
        begun_at BIGINT NOT NULL,
        used_at BIGINT NOT NULL
    )""",
    # Data that the nodes of one store have in common. There is one row of policies: earlier ones are in the system
    # stream.
    """CREATE TABLE policies (
        name TEXT PRIMARY KEY,
        version BIGINT NOT NULL,
        sha256 TEXT NOT NULL,
        source TEXT NOT NULL,
        loaded_at BIGINT NOT NULL,
        loaded_by TEXT NOT NULL,
        judged BIGINT NOT NULL
    )""",
    "CREATE TABLE duties (name TEXT PRIMARY KEY, holder TEXT NOT NULL, until BIGINT NOT NULL)",
    "CREATE TABLE agreed (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
)

_CHANGED: Final = (
    # What changed last: checkpoints and the newest pages of the audit read from its end, and not all tasks.
    "CREATE INDEX tasks_changed ON tasks (updated_at, task_id, created_at)",
    # The tasks of the people whom somebody may see.
    "CREATE INDEX tasks_by_user ON tasks (user_id, created_at, task_id)",
    "CREATE INDEX tasks_by_user_and_status ON tasks (user_id, status, created_at, task_id)",
    "CREATE INDEX tasks_changed_by_user ON tasks (user_id, updated_at, task_id, created_at)",
    "CREATE INDEX tasks_named_by_user ON tasks (user_id, task_id)",
    # The tasks that keep others: each pruning looks whether one of them refers to what goes.
    "CREATE INDEX tasks_pinned ON tasks (task_id) WHERE pinned = 1",
    # A person's waiting tasks in the order in which they are leased, and from person to person.
    "CREATE INDEX tasks_turns ON tasks (user_id, priority DESC, due, task_id) WHERE due IS NOT NULL",
    # Whose turn it is: when the last turn of each user started, and when it ended, in turns and not in time.
    "CREATE TABLE turns (user_id TEXT PRIMARY KEY, started BIGINT NOT NULL, ends BIGINT NOT NULL)",
    "CREATE INDEX turns_started ON turns (started)",
    # Groups, owners and freezes: ``number`` is the version of the item of the system stream that set the entry.
    "CREATE TABLE directory (entry TEXT PRIMARY KEY, number BIGINT NOT NULL, data TEXT NOT NULL)",
    # The addresses of notification rules, each under the sha256 that the rule's item has of it.
    "CREATE TABLE secrets (sha256 TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # What people are still to be told, or were told lately: a row for each item, then one for each rule that wants it.
    """CREATE TABLE outbox (
        notice TEXT PRIMARY KEY,
        stream TEXT NOT NULL,
        version BIGINT NOT NULL,
        kind TEXT NOT NULL,
        rule TEXT NOT NULL,
        state TEXT NOT NULL,
        made_at BIGINT NOT NULL,
        due BIGINT,
        attempts BIGINT NOT NULL,
        batch TEXT NOT NULL,
        why TEXT NOT NULL
    )""",
    "CREATE INDEX outbox_due ON outbox (due, notice) WHERE due IS NOT NULL",
    # The node that welcomed each computer last, and what that node says of it. Nodes look here for each other's.
    """CREATE TABLE seats (
        computer TEXT PRIMARY KEY,
        node TEXT NOT NULL,
        number BIGINT NOT NULL,
        said TEXT NOT NULL,
        left_at BIGINT
    )""",
    "CREATE INDEX seats_at ON seats (node, computer) WHERE left_at IS NULL",
)

MIGRATIONS: Final[Mapping[int, Sequence[str]]] = {7: _FIRST, 8: _CHANGED}
"""The step to each schema, run in order and never changed once released; new steps go at the end.

The first one makes the tables of version 0.6.0. Lower numbers were the schemas of older versions.
"""
SCHEMA: Final = max(MIGRATIONS)
"""The schema of this version."""
OLDEST: Final = min(MIGRATIONS)
"""The oldest schema from which a store is brought forward."""

NEEDS_KEY: Final = "cc-orchestrator needs"
"""The row of ``meta`` whose value is the lowest schema that a program must know to work on the tables."""

WORKS_FROM: Final[Mapping[int, int]] = {8: 7}
"""The lowest schema that a program has to know, for a version whose step only adds what an older one may leave alone.

While nodes are brought up to date one by one, the older ones go on with a store that a newer one
has already brought forward. A step is fit for that when a program that knows nothing of it writes
nothing wrong: a new table of its own, an index, a column with a default that nobody else relies on.
A version that is not named here needs a program that knows it.
"""


def statements(schema: int) -> Iterator[str]:
    """All statements that make the tables of a schema, in order."""
    return (statement for number, step in MIGRATIONS.items() if number <= schema for statement in step)


def needed(schema: int) -> int:
    """The lowest schema that a program must know to work on tables of this one."""
    return max(WORKS_FROM.get(number, number) for number in MIGRATIONS if number <= schema)


# -- What a store's tables are made of, told by the migrations themselves, and what of them moves to another store
#
# A table or a column that a migration adds is known here without another word; only whether a new table moves
# with the store has to be said, once, in ``TRAVELS`` or ``STAYS``.

TRAVELS: Final = (
    *("streams", "tasks", "items", "requests", "computers", "blobs", "blob_marks", "pruned", "backups"),
    *("grants", "tokens", "sign_ins", "policies", "agreed", "directory", "turns", "secrets", "outbox"),
)
"""The tables that move with a store, in the order in which a dump has them."""
STAYS: Final = ("meta", "duties", "seats")
"""The tables that do not: they are of one place, and of nodes that work there."""
LEFT_BEHIND: Final[Mapping[str, Mapping[str, str]]] = {
    "tasks": {
        "due": "CASE WHEN holder IS NULL THEN due ELSE COALESCE(due, updated_at) END",
        "holder": "NULL",
        "lease_until": "0",
        "lease_for": "0",
        "waiting_for": "CASE WHEN holder IS NULL THEN waiting_for END",
        "woken": "0",
    }
}
"""Columns of a lease and what moves in their place: nobody holds a task there, and one that was held is due at once."""
STAYING_ROWS: Final[Mapping[str, str]] = {"agreed": "name = 'installation'"}
"""Rows that do not move, of tables that do: a copy is another installation, which shares a bus with nobody here."""


@immutable
class Column:
    """One column of a table."""

    name: str
    kind: str
    """``TEXT``, ``BIGINT``, ``SMALLINT`` or ``BYTEA``."""
    nullable: bool


@immutable
class Table:
    """One table as the migrations up to some schema leave it."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """The columns of its primary key, in their order."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns' names, in their order."""
        return tuple(column.name for column in self.columns)

    @property
    def has_bytes(self) -> bool:
        """Whether a row may be large."""
        return any(column.kind == "BYTEA" for column in self.columns)


@cache
def tables_of(schema: int) -> Mapping[str, Table]:
    """All tables of a store with this schema."""
    with closing(sqlite3.connect(":memory:")) as made:
        for statement in statements(schema):
            made.execute(statement)
        names = [name for (name,) in made.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {name: _table(made, name) for name in names}


def travelling(schema: int) -> list[Table]:
    """The tables that move with a store of this schema, in their order."""
    known = tables_of(schema)
    return [known[name] for name in TRAVELS if name in known]


def _table(made: sqlite3.Connection, name: str) -> Table:
    rows = made.execute(f"PRAGMA table_info({name})").fetchall()
    columns = tuple(
        Column(column, kind, nullable=not (not_null or place)) for _, column, kind, not_null, _, place in rows
    )
    key = tuple(column for place, column in sorted((row[5], row[1]) for row in rows if row[5]))
    return Table(name, columns, key)


def of_old_version(what: str, schema: int) -> InvalidRequest:
    """The refusal of a store, or of its dump, that a version before 0.6 wrote."""
    return InvalidRequest(
        f"{what} has schema {schema}, of a version before 0.6; this version reads schema {OLDEST} and later ones.",
        remedy="Upgrade it with version 0.6 of cc-orchestrator first: start that version on the store, "
        "or import the dump there and export it again.",
    )
