"""What holds for every test: no model outside this machine is asked, and chance is the same each time."""

import sys

import pytest
from hypothesis import HealthCheck, settings

from tests.thinning import thin

# A check that fails today has to fail tomorrow too, on each machine. The long proofs draw new examples, and more.
# Nothing is measured by the clock: a slow machine is no fault of an example.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", UNTIMED, derandomize=True, max_examples=15)
settings.register_profile("deep", UNTIMED, derandomize=False, max_examples=200)
settings.load_profile("repeatable")

# Before any test imports the shipped suite, so that its assertions speak as those of a test do.
pytest_plugins = ["tests.servers"]

pytest.register_assert_rewrite(
    "orchestrator.testing.bus_hints",
    "orchestrator.testing.bus_outages",
    "orchestrator.testing.bus_requests",
    "orchestrator.testing.drafts",
    "orchestrator.testing.store_records",
    "orchestrator.testing.store_journal",
    "orchestrator.testing.store_kept",
    "orchestrator.testing.store_outbox",
    "orchestrator.testing.store_queue",
    "orchestrator.testing.store_records",
    "orchestrator.testing.store_reopening",
    "orchestrator.testing.store_system",
)


def _refuse_model_requests() -> None:
    # Importing pydantic-ai here would cost every run of a single test 1.4 s; a module that
    # nobody has loaded asks nobody.
    models = sys.modules.get("pydantic_ai.models")
    if models is not None:
        vars(models)["ALLOW_MODEL_REQUESTS"] = False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before pytest leaves out the deep ones."""
    thin(items)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish() -> None:
    """After the test modules were imported, and pydantic-ai with them."""
    _refuse_model_requests()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """Before each test: the one before may have loaded it in a function."""
    _refuse_model_requests()


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.deep)], ids=["", "timed"])
def timed(request: pytest.FixtureRequest) -> bool:
    """Whether the test asserts how long something took: only the long proofs do, which need an idle machine."""
    return bool(request.param)
