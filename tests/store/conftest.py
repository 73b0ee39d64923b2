"""Assertions of the shipped suite are to speak as those of a test do."""

import pytest

pytest.register_assert_rewrite(
    "orchestrator.testing.checks",
    "orchestrator.testing.store_journal",
    "orchestrator.testing.store_queue",
    "orchestrator.testing.store_records",
    "orchestrator.testing.store_reopening",
)
