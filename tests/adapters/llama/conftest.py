"""The engines, started once for all tests here."""

from collections.abc import Iterator

import pytest

from tests.adapters.llama.running import Engine, Engines
from tests.adapters.llama.running import engines as opened


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """All of them; each starts when it is first asked for."""
    with opened(tmp_path_factory.mktemp("models")) as found:
        yield found


@pytest.fixture
def babbler(engines: Engines) -> Engine:
    """A model that says whatever the grammar lets it say, in a window of Ollama's usual size."""
    return engines.of("babbler", 8192)
