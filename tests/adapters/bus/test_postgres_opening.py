"""A PostgreSQL bus that cannot be opened says why and what to do, and never shows the password."""

import asyncio
import subprocess
import sys

import pytest

from orchestrator.adapters.bus import open_bus
from orchestrator.core.errors import BusAway, InvalidRequest, OrchestratorError
from orchestrator.testing.drafts import refused
from tests.servers import PASSWORD, PostgresServer


async def test_no_server() -> None:
    away = await _refused("postgresql://me:secret@127.0.0.1:1/there")
    assert "127.0.0.1:1/there cannot be reached (connection refused)" in away.message


async def test_a_name_that_is_none() -> None:
    away = await _refused("postgresql://me:secret@nowhere.invalid/there")
    assert "nowhere.invalid/there cannot be reached (the name of the host is not known)" in away.message


async def test_a_wrong_password(postgres_server: PostgresServer) -> None:
    away = await _refused(postgres_server.tcp_url(password="secret"), InvalidRequest)
    assert "does not let this user in" in away.message


async def test_no_such_database(postgres_server: PostgresServer) -> None:
    away = await _refused(postgres_server.tcp_url("nowhere"), InvalidRequest)
    assert "There is no such database: " in away.message
    assert "/nowhere" in away.message


async def test_no_such_schema(postgres_server: PostgresServer) -> None:
    away = await _refused(f"{postgres_server.url()}&search_path=nowhere", InvalidRequest)
    assert "No schema of the search path exists" in away.message


async def test_no_right_to_make_tables(postgres_server: PostgresServer) -> None:
    """Who may not make the tables may use those that somebody else made for them."""
    name = await postgres_server.new_database()
    await postgres_server.execute(f"CREATE ROLE guest_{name} LOGIN PASSWORD 'secret'")
    url = postgres_server.tcp_url(name).replace(f"postgres:{PASSWORD}", f"guest_{name}:secret")
    away = await _refused(url, InvalidRequest)
    assert "may not do this" in away.message
    owner = open_bus(postgres_server.url(name))
    await owner.open()
    await postgres_server.execute(f"GRANT ALL ON bus_members, bus_offers, bus_letters TO guest_{name}", database=name)
    guest = open_bus(url)
    await guest.open()
    assert guest.connected
    await guest.close()
    await owner.close()


@pytest.mark.parametrize("url", ["postgresql://me:secret@host:port/there", "postgresql://me:secret@[::1/there"])
async def test_a_url_that_cannot_be_read(url: str) -> None:
    unreadable = await refused(InvalidRequest, open_bus(url).open())
    _keeps_the_secret(unreadable)


async def test_many_open_at_once(postgres_url: str) -> None:
    """Each makes the tables if they are missing, and none is in another's way."""
    buses = [open_bus(postgres_url, node=f"node-{number}") for number in range(12)]
    await asyncio.gather(*(bus.open() for bus in buses))
    assert all(bus.connected for bus in buses)
    await asyncio.gather(*(bus.close() for bus in buses))
    assert not any(bus.connected for bus in buses)


def test_without_the_package() -> None:
    """Who has not installed asyncpg is told how; the other buses do not need it."""
    program = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "from orchestrator.adapters.bus import open_bus\n"
        "from orchestrator.core.errors import InvalidRequest\n"
        "open_bus('local:')\n"
        "try:\n    open_bus('postgresql://me:secret@there/db')\n"
        "except InvalidRequest as missing:\n    print(missing.message, missing.remedy)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "asyncpg" in done.stdout
    assert "pip install 'cc-orchestrator[postgresql]'" in done.stdout


async def _refused(url: str, kind: type[OrchestratorError] = BusAway) -> OrchestratorError:
    away = await refused(kind, open_bus(url).open())
    _keeps_the_secret(away)
    return away


def _keeps_the_secret(error: OrchestratorError) -> None:
    assert error.remedy
    assert "secret" not in f"{error.message} {error.remedy} {error.__cause__}"
    assert error.__suppress_context__
