"""Every error of PostgreSQL, of asyncpg and of the system below is a sentence of ours with the next step."""

import asyncio
import inspect
import io
import logging
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from orchestrator.adapters.bus import open_bus
from orchestrator.adapters.bus.postgres_session import away
from orchestrator.adapters.store import postgres_links
from orchestrator.adapters.store.postgres import PostgresPersistenceManager
from orchestrator.adapters.store.postgres_dialect import explained, not_connected
from orchestrator.core.errors import BusAway, InvalidRequest, OrchestratorError, StoreAway, StoreBusy
from orchestrator.history.store_move.inspection import check_store_at
from orchestrator.runtime.postgresql import sessions
from orchestrator.runtime.postgresql.problems import trouble
from orchestrator.testing.drafts import refused
from tests.bouncers import PROGRAM, PgBouncer
from tests.runtime.test_logs import logged
from tests.servers import PostgresServer, free_port
from tests.waiting import HANG_S, within

INTERNAL = re.compile(r"asyncpg|Traceback|Errno|Connect call|[a-z]Error\b|Exception|secret|None")
"""No person is shown any of this."""
LETTERS = {name for name, value in vars(asyncpg.exceptions).items() if inspect.isclass(value)}


def is_plain(error: OrchestratorError) -> None:
    """Sentences with a next step, in which nothing is of a program's inside."""
    assert error.message.endswith(".")
    assert error.remedy.endswith(".")
    assert not INTERNAL.search(str(error)), str(error)
    assert not LETTERS & set(re.findall(r"\w+", str(error)))
    assert error.__suppress_context__


async def told(url: str, part: str) -> OrchestratorError:
    """What somebody hears whose store, bus or command cannot have the database of ``url``."""
    opening: dict[str, Callable[[], Awaitable[object]]] = {
        "store": PostgresPersistenceManager(url, patience_s=0.1).open,
        "bus": open_bus(url).open,
        "command": lambda: check_store_at(url),
    }
    refusal = await refused(OrchestratorError, within(opening[part]()))
    is_plain(refusal)
    assert part == "command" or isinstance(refusal, InvalidRequest | (BusAway if part == "bus" else StoreAway))
    return refusal


PARTS = pytest.mark.parametrize("part", ["store", "bus", "command"])


@PARTS
async def test_nobody_listens(part: str) -> None:
    refusal = await told(f"postgresql://me:secret@localhost:{free_port()}/there", part)
    assert "/there cannot be reached (connection refused)" in refusal.message
    assert "host and port in the URL" in refusal.remedy


@PARTS
async def test_no_such_host(part: str) -> None:
    refusal = await told("postgresql://me:secret@nowhere.invalid/there", part)
    assert "the name of the host is not known" in refusal.message


@PARTS
async def test_no_such_socket(part: str, tmp_path: Path) -> None:
    refusal = await told(f"postgresql://me:secret@/there?host={tmp_path}", part)
    assert "no server has a socket there" in refusal.message


@PARTS
async def test_a_wrong_password(part: str, postgres_server: PostgresServer) -> None:
    refusal = await told(postgres_server.tcp_url(password="secret"), part)
    assert 'does not let this user in (password authentication failed for user "postgres")' in refusal.message
    assert "user and password" in refusal.remedy


@PARTS
async def test_no_such_database(part: str, postgres_server: PostgresServer) -> None:
    refusal = await told(postgres_server.tcp_url("nowhere"), part)
    assert refusal.message == f"There is no such database: 127.0.0.1:{postgres_server.port}/nowhere."
    assert "createdb" in refusal.remedy


@PARTS
async def test_tls_is_refused(part: str, postgres_server: PostgresServer) -> None:
    refusal = await told(f"{postgres_server.tcp_url()}?sslmode=require", part)
    assert "does not speak TLS with this node" in refusal.message
    assert "sslmode" in refusal.remedy


@PARTS
async def test_a_certificate_that_is_not_there(part: str, postgres_server: PostgresServer) -> None:
    refusal = await told(f"{postgres_server.tcp_url()}?sslmode=verify-full&sslrootcert=/no/secret.pem", part)
    assert "The file of sslrootcert in the URL of --" in refusal.message
    other = await told(f"{postgres_server.tcp_url()}?sslmode=sometimes", part)
    assert "says of TLS cannot be used" in other.message


@PARTS
@pytest.mark.parametrize("url", ["postgresql://me:secret@host:port/there", "postgresql://me:sec/secret@host/there"])
async def test_a_url_that_cannot_be_read(part: str, url: str) -> None:
    refusal = await told(url, part)
    assert "URL of --" in refusal.message
    assert "%XX" in refusal.remedy


@PARTS
async def test_no_more_connections(part: str, postgres_server: PostgresServer) -> None:
    name = postgres_server.new_name()
    await postgres_server.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret' CONNECTION LIMIT 0")
    refusal = await told(f"postgresql://{name}:secret@127.0.0.1:{postgres_server.port}/postgres", part)
    assert "takes no more connections (too many connections for role" in refusal.message
    assert "max_connections" in refusal.remedy
    await postgres_server.execute(f"DROP ROLE {name}")


@PARTS
async def test_a_server_that_says_nothing(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "CONNECT_S", 0.2)
    monkeypatch.setattr(postgres_links, "_CONNECT_S", 0.2)
    monkeypatch.setattr("orchestrator.adapters.bus.postgres_session.ANSWERS_WITHIN_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        refusal = await told(f"postgresql://me:secret@127.0.0.1:{mute.getsockname()[1]}/there", part)
    assert "cannot be reached (no answer in time)" in refusal.message


async def test_a_replica_that_takes_no_writes(postgres_server: PostgresServer, postgres_url: str) -> None:
    """Of a standby the store and the bus say the same."""
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    await postgres_server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    for part in ("store", "bus"):
        refusal = await told(postgres_url, part)
        assert "takes no writes now (cannot execute" in refusal.message
        assert "standby" in refusal.remedy


async def test_what_a_pooler_refuses(postgres_server: PostgresServer) -> None:
    """It says everything by one code; each has its own next step."""
    if PROGRAM is None:
        pytest.skip("pgbouncer is not here; scripts/test.py installs it")
    with PgBouncer(postgres_server, "session", settings="max_db_connections = 0") as pooler:
        assert "no such database" in (await told(pooler.url("nowhere"), "store")).message
        assert "does not let this user in" in (await told(pooler.url("postgres", user="ghost"), "bus")).message
        option = await told(pooler.url("postgres", options="&work_mem=4MB"), "store")
        assert "refuses an option of the URL (unsupported startup parameter: work_mem)" in option.message
        assert "ALTER ROLE" in option.remedy
    with PgBouncer(postgres_server, "session", settings="max_client_conn = 1") as pooler:
        held = await asyncpg.connect(pooler.url("postgres"), timeout=HANG_S)
        full = await told(pooler.url("postgres"), "bus")
        assert "takes no more connections" in full.message
        assert "max_client_conn" in full.remedy
        held.terminate()


async def test_a_statement_that_takes_too_long(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(postgres_links.READING, "statement_timeout", "50")
    links = postgres_links.Links(postgres_url, postgres_links.READING, most=1)
    with pytest.raises(asyncpg.QueryCanceledError) as canceled:
        async with links.one() as connection:
            await connection.execute("SELECT pg_sleep(60)")
    busy = explained(canceled.value, links.place)
    assert isinstance(busy, StoreBusy)
    assert "did not end a statement in time (canceling statement due to statement timeout)" in busy.message
    await links.close()


ERRORS = sorted(
    (value for value in vars(asyncpg).values() if inspect.isclass(value) and issubclass(value, Exception)),
    key=lambda kind: kind.__name__,
)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("kind", ERRORS)
def test_each_error_of_asyncpg_has_a_sentence(kind: type[Exception]) -> None:
    """Whatever it is, and whether or not it says something."""
    if issubclass(kind, Warning) or not issubclass(kind, asyncpg.PostgresError | asyncpg.InterfaceError):
        return
    for error in (kind("asyncpg says secret"), kind("")):
        for tell in (explained, not_connected):
            said = tell(error, "db/cc")
            assert isinstance(said, OrchestratorError)
            assert "db/cc" in str(said) or "URL" in str(said)
            assert not INTERNAL.search(str(said)), str(said)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 111] secret"), "connection refused"),
        (ConnectionResetError("secret"), "the connection was lost"),
        (
            asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
            "connection was lost",
        ),
        (
            asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation: query_wait_timeout"),
            "(query_wait_timeout)",
        ),
        (asyncpg.InterfaceError("cannot perform operation: connection is closed"), "the connection was lost"),
        (EOFError(), "the connection was lost"),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol secret"), "the connection was lost"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] secret"), "does not speak TLS"),
    ],
)
def test_a_lost_connection_has_a_sentence(error: Exception, words: str) -> None:
    said = not_connected(error, "db/cc")
    assert isinstance(said, OrchestratorError)
    assert words in said.message
    assert not INTERNAL.search(str(said)), str(said)


def test_an_error_of_somebody_else_is_none_of_ours() -> None:
    assert trouble(KeyError("a"), "db/cc", "--store") is None
    assert explained(kept := RuntimeError("a"), "db/cc") is kept
    assert isinstance(away("postgresql://me:secret@db/cc", KeyError("a")), BusAway)


async def test_a_bus_that_loses_its_server_says_so_in_plain_words(caplog: pytest.LogCaptureFixture) -> None:
    """The log says what happened and, once each, why it does not connect."""
    with PostgresServer() as server:
        bus = open_bus(server.url())
        await bus.open()
        await asyncio.to_thread(server.stop)
        async with asyncio.timeout(HANG_S):
            while "has no connection" not in caplog.text:  # noqa: ASYNC110 - as below
                await asyncio.sleep(0.02)
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(HANG_S):
            while not bus.connected:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.02)
        await bus.close()
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "the bus lost its database and connects again: PostgreSQL at a local socket/" in lines[0]
    assert len(lines) == len(set(lines))
    for line in lines:
        assert not INTERNAL.search(line), line


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_outage_has_no_traceback_in_the_log(form: str) -> None:
    """The sentence of a server that is away says everything; a defect keeps its traceback."""
    log = logging.getLogger("orchestrator.of_a_test")
    with logged(form) as out:
        _fail(log, explained(asyncpg.InterfaceError("connection is closed"), "db/cc"))
        _fail(log, KeyError("a figure"))
    outage, defect = _halves(out)
    assert "PostgreSQL at db/cc cannot be reached (the connection was lost)" in outage
    assert not INTERNAL.search(outage)
    assert "Traceback" in defect


def _fail(log: logging.Logger, error: Exception) -> None:
    try:
        raise error
    except Exception:
        log.exception("somebody failed")


def _halves(out: io.StringIO) -> tuple[str, str]:
    text = out.getvalue()
    cut = text.rindex("somebody failed")
    return text[:cut], text[cut:]


async def test_a_store_by_its_url(postgres_url: str) -> None:
    """A search path with several schemas is a list, as libpq has it."""
    connection = await sessions.connect(f"{postgres_url}&search_path=a%2Cpublic", {})
    assert await connection.fetchval("SELECT current_setting('search_path')") == "a,public"
    await connection.close()
