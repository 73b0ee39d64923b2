"""The cell in a token: found without a look-up, and never a part of the secret."""

import pytest

from orchestrator.core.audit.check import check, standing_of
from orchestrator.core.audit.computers import ComputerBook
from orchestrator.core.audit.retention import PruneBook
from orchestrator.core.audit.rights import RightsBook
from orchestrator.core.audit.shared import Since
from orchestrator.core.audit.tables import GrantBook
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.system_facts import ComputerFrozen, ComputersArrived, ComputerWelcomed, GrantId
from orchestrator.core.text.redact import redact_text
from orchestrator.core.wire.cells import channel, is_name, named, route_of
from orchestrator.core.wire.identity import frozen_remedy, frozen_sentence
from orchestrator.core.wire.own_token import Watched
from orchestrator.core.wire.wire import ComputerId
from tests.core.test_audit_rights import PRUNED, SAM, issued, item, submitted
from tests.core.test_audit_shared import SIDE, WELCOME, computer_row

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


# -- a computer that moved, in the audits of both cells ------------------------------------

ARRIVED = ComputersArrived(
    cell="east", bundle="d" * 64, computers=(ComputerId("3"), ComputerId("4")), tasks={"t0": 1}, welcomed=(WELCOME,)
)
FROZEN = ComputerFrozen(computer=ComputerId("3"), reason="moved", cell="west", url="wss://west/computer")


def since() -> Since:
    book = Since()
    book.take(item(ARRIVED))
    return book


def test_a_computer_that_moved_says_where_it_is() -> None:
    assert frozen_sentence(FROZEN) == "Computer 3 is frozen: it is in another cell now, west. Nothing is sent to it."
    assert "finds that cell by itself" in frozen_remedy(FROZEN)


def test_a_computer_that_arrived_is_the_one_that_it_was_there() -> None:
    """Also where it had left from here: the arrival ends the freeze."""
    book = ComputerBook()
    for fact in (FROZEN, ARRIVED):
        book.take(item(fact))
    row = computer_row()
    assert list(book.faults({"3": row}, {"3": row}, since())) == []
    other = computer_row(known=SIDE.model_copy(update={"boot": "b-2"}).model_dump_json())
    (fault,) = book.faults({"3": other}, {"3": other}, since())
    assert "somebody else" in fault.detail
    assert isinstance(ARRIVED.welcomed[0], ComputerWelcomed)


def test_a_task_that_came_back_does_not_count_as_pruned() -> None:
    book = PruneBook()
    book.take(item(PRUNED))
    assert len(list(book.faults({}, {}, {"t0"}))) == 2
    book.take(item(ARRIVED))
    assert list(book.faults({}, {}, {"t0"})) == []


def test_a_grant_of_a_task_that_stayed_is_not_missed() -> None:
    given = ARRIVED.model_copy(update={"grants": (GrantId("g-1"),)})
    book = GrantBook()
    book.used["g-1"] += 1
    assert len(list(book.faults({}, {}))) == 1
    book.take(item(given))
    assert list(book.faults({}, {})) == []
    assert standing_of([item(given)]).pruned == {"g-1"}


def test_the_rights_to_items_of_another_cell_are_that_cells() -> None:
    """Sam has no role here. What sam did there is not held against sam; the next item is."""
    book = RightsBook()
    for one in (issued("reviewer"), item(ARRIVED)):
        book.take(one)

    def found(of: AgentTaskItem) -> list[str]:
        return [one.what for one in check([of], rights=book)]

    assert found(item(submitted(), SAM, stream="t0")) == []
    assert found(item(submitted(), SAM, stream="t1")) == ["without_right"]
