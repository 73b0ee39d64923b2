"""The NATS server of a run."""

from collections.abc import Iterator

import pytest

from tests.nats_servers import NatsServer


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    """One for all tests that leave it alone."""
    with NatsServer() as server:
        yield server
