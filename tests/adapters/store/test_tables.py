"""What moves with a store is told in one place, and nothing is forgotten there."""

import pytest

from orchestrator.adapters.store import schema
from orchestrator.adapters.store.schema import LEFT_BEHIND, OLDEST, SCHEMA, STAYS, TRAVELS, tables_of, travelling


def test_every_table_moves_or_stays() -> None:
    assert sorted((*TRAVELS, *STAYS)) == sorted(tables_of(SCHEMA))


def test_every_table_has_a_key_by_which_its_rows_are_sorted() -> None:
    assert all(table.key for table in tables_of(SCHEMA).values())


def test_every_column_has_a_kind_that_both_engines_know() -> None:
    kinds = {column.kind for table in travelling(SCHEMA) for column in table.columns}
    assert kinds == {"TEXT", "BIGINT", "SMALLINT", "BYTEA"}


def test_what_is_left_behind_is_there() -> None:
    for name, left in LEFT_BEHIND.items():
        assert left.keys() <= set(tables_of(SCHEMA)[name].names)


def test_a_table_is_known_from_the_schema_on_that_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = "CREATE TABLE dreams (name TEXT PRIMARY KEY)"
    monkeypatch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, SCHEMA + 1: (made,)})
    of_steps = tables_of.__wrapped__
    assert of_steps(SCHEMA + 1).keys() - of_steps(SCHEMA).keys() == {"dreams"}
    assert [one.name for one in travelling(SCHEMA)] == list(TRAVELS)
    newer = ("directory", "turns", "secrets", "outbox")
    assert [one.name for one in travelling(OLDEST)] == [one for one in TRAVELS if one not in newer]
