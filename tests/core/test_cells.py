"""The cell in a token: found without a look-up, and never a part of the secret."""

import pytest

from orchestrator.core.text.redact import redact_text
from orchestrator.core.wire.cells import channel, is_name, named, route_of
from orchestrator.core.wire.own_token import Watched

SECRET = "x0wyhSGuFe7tDxWXn3OrOHQv5JmQZ2aBk9LpE4rT8uY"


@pytest.mark.parametrize(
    ("token", "cell", "bare"),
    [
        ("ccc_S", "", "ccc_S"),
        ("ccc_east.S", "east", "ccc_S"),
        ("ccp_east-2.S.x", "east-2", "ccp_S.x"),
        ("ccc_East.S", "", "ccc_East.S"),
        ("ccc_.S", "", "ccc_.S"),
        ("ccc_-a.S", "", "ccc_-a.S"),
        ("xyz_east.S", "", "xyz_east.S"),
        ("", "", ""),
    ],
)
def test_a_token_names_its_cell(token: str, cell: str, bare: str) -> None:
    assert route_of(token) == (cell, bare)
    if bare != token:
        assert named(bare, cell) == token


def test_a_moved_computer_names_its_new_cell() -> None:
    """In place of the one that it had; a text that is no token of ours stays as it is."""
    assert named("ccc_east.S", "west") == "ccc_west.S"
    assert named("ccc_S", "west") == "ccc_west.S"
    assert named("ccc_east.S", "") == "ccc_S"
    assert named("other", "west") == "other"


def test_a_name_and_an_address_of_a_cell() -> None:
    assert [is_name(one) for one in ("east", "e" * 32, "e" * 33, "", "East", "-e", "a.b")] == [True, True, *[False] * 5]
    assert channel("https://east.example.org") == "wss://east.example.org/computer"


def test_the_name_is_no_secret_and_the_rest_is() -> None:
    """A log keeps no token that names a cell, and what a computer says may name the cell."""
    token = f"ccc_production.{SECRET}"
    assert SECRET not in redact_text(f"it is {token} here", salt="s")
    assert Watched(token).starred(f"the production farm, {SECRET}") == f"the production farm, {'*' * 43}"
