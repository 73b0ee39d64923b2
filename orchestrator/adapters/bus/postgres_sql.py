"""The tables of the PostgreSQL bus and its statements: who is there, who serves what, and what is too large to say.

All of it is of the moment: the tables are UNLOGGED, a server that crashed empties them, and every node says anew who it
is when it connects again. Whoever is in the same schema of the same database is on the same bus.
"""

from typing import Any, Final

from asyncpg import Connection

BEAT_S: Final = 1.0
"""A node says this often that it lives, and that it still works on what it was asked."""
SILENT_S: Final = 5.0
"""Who said nothing for so long does not count as living: a busy machine misses a beat or two."""
_FORGOTTEN_S: Final = 60
"""Who said nothing for so long is taken off the list, and its connections ended: a process that was stopped keeps the
server from letting go of old notifications."""
_SPILLED_S: Final = 120
"""What nobody fetched within this time is taken away: by then no request is waited for."""

_TABLES: Final = """
CREATE UNLOGGED TABLE IF NOT EXISTS bus_nodes (
    node text PRIMARY KEY,
    name text NOT NULL,
    pid integer NOT NULL,
    began timestamptz,
    heard timestamptz NOT NULL
);
CREATE UNLOGGED TABLE IF NOT EXISTS bus_served (
    subject text NOT NULL,
    node text NOT NULL REFERENCES bus_nodes ON DELETE CASCADE,
    PRIMARY KEY (subject, node)
);
CREATE INDEX IF NOT EXISTS bus_served_node ON bus_served (node);
CREATE UNLOGGED TABLE IF NOT EXISTS bus_parts (
    message text NOT NULL,
    part integer NOT NULL,
    bytes bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (message, part)
);
ALTER TABLE bus_parts ALTER bytes SET STORAGE EXTERNAL;
"""
_LOCK: Final = 7_103_561_224
"""The advisory lock of who makes the tables, or sweeps: ``IF NOT EXISTS`` alone fails when two do so at once."""

ENTER: Final = """
INSERT INTO bus_nodes (node, name, pid, began, heard)
SELECT $1, $2, pg_backend_pid(),
    (SELECT backend_start FROM pg_stat_get_activity(pg_backend_pid())), clock_timestamp()
ON CONFLICT (node) DO UPDATE SET pid = excluded.pid, began = excluded.began, heard = excluded.heard
"""
LEAVE: Final = "DELETE FROM bus_nodes WHERE node = $1"
BEAT: Final = """
UPDATE bus_nodes SET heard = clock_timestamp() WHERE node = $1
RETURNING extract(epoch FROM clock_timestamp())::float8
"""
DECLARE: Final = """
WITH ended AS (DELETE FROM bus_served WHERE node = $1 AND NOT subject = ANY ($2::text[]))
INSERT INTO bus_served (node, subject) SELECT $1, s FROM unnest($2::text[]) AS s ON CONFLICT DO NOTHING
"""
SEND: Final = f"""
WITH m AS MATERIALIZED (
    SELECT u.*, CASE WHEN u.subject IS NOT NULL THEN (
        SELECT s.node FROM bus_served s JOIN bus_nodes b USING (node)
        WHERE s.subject = u.subject AND b.heard > clock_timestamp() - interval '{SILENT_S} s'
            AND EXISTS (SELECT FROM pg_stat_get_activity(b.pid))
        ORDER BY random() LIMIT 1
    ) END AS node
    FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS u (channel, subject, payload, nr)
)
SELECT node, CASE
    WHEN channel IS NOT NULL THEN pg_notify(channel, payload)
    WHEN node IS NOT NULL THEN pg_notify($1 || node, payload)
END FROM m ORDER BY nr
"""
"""Sends what has a channel, and what has a subject to one who serves it and lives (and is connected); says to whom."""

SPILL: Final = "INSERT INTO bus_parts (message, part, bytes) VALUES ($1, $2, $3)"
READ: Final = "SELECT bytes FROM bus_parts WHERE message = $1 AND part = $2"
TAKE: Final = "DELETE FROM bus_parts WHERE message = $1 AND part = $2 RETURNING bytes"
DROP: Final = "DELETE FROM bus_parts WHERE message = $1"

SWEEP_PARTS: Final = f"DELETE FROM bus_parts WHERE at < clock_timestamp() - interval '{_SPILLED_S} s'"
SWEEP_NODES: Final = f"""
WITH gone AS (
    DELETE FROM bus_nodes WHERE heard < clock_timestamp() - interval '{_FORGOTTEN_S} s' RETURNING pid, began
)
SELECT pg_terminate_backend(a.pid) FROM gone
JOIN pg_stat_activity a ON a.pid = gone.pid AND a.backend_start = gone.began
"""


async def make_tables(connection: "Connection[Any]") -> str:
    """Make the tables where they are missing; answers the word that tells this schema's channels from others'.

    Raises asyncpg.InvalidSchemaNameError where no schema of the search path exists.
    """
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        # Asked first: CREATE … IF NOT EXISTS wants the right to create also where there is nothing to do.
        # In the first schema of the search path: another installation's may lie further down.
        if await connection.fetchval("SELECT to_regclass(quote_ident(current_schema()) || '.bus_parts') IS NULL"):
            await connection.execute(_TABLES)
        space = await connection.fetchval("SELECT relnamespace::bigint FROM pg_class WHERE oid = 'bus_parts'::regclass")
    return f"cc_bus_{space}"


async def sweep(connection: "Connection[Any]") -> None:
    """Take away what nobody fetched and who is gone for long, where no other node is at it."""
    async with connection.transaction():
        if await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _LOCK):
            await connection.execute(SWEEP_PARTS)
            await connection.execute(SWEEP_NODES)
