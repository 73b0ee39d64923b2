"""What moves with a store is told in one place, and nothing is forgotten there."""

from orchestrator.adapters.store.schema import LEFT_BEHIND, MIGRATIONS, STAYS, TRAVELS, tables_of, travelling


def test_every_table_moves_or_stays() -> None:
    assert sorted((*TRAVELS, *STAYS)) == sorted(tables_of(len(MIGRATIONS)))


def test_every_table_has_a_key_by_which_its_rows_are_sorted() -> None:
    assert all(table.key for table in tables_of(len(MIGRATIONS)).values())


def test_every_column_has_a_kind_that_both_engines_know() -> None:
    kinds = {column.kind for table in travelling(len(MIGRATIONS)) for column in table.columns}
    assert kinds == {"TEXT", "BIGINT", "SMALLINT", "BYTEA"}


def test_what_is_left_behind_is_there() -> None:
    for name, left in LEFT_BEHIND.items():
        assert left.keys() <= set(tables_of(len(MIGRATIONS))[name].names)


def test_older_schemas_have_fewer_tables() -> None:
    counts = [len(travelling(schema)) for schema in range(1, len(MIGRATIONS) + 1)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] == len(TRAVELS)
