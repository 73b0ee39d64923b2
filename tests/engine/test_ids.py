"""The ids that a node gives are its own, also in a process that was forked."""

import os

from orchestrator.engine.tasks.stored import _AT_ONCE, new_call_id, new_item_id


def test_no_two_ids_are_the_same() -> None:
    """Of many more than are drawn at once; they have the lengths that the journal and the wire take."""
    items, calls = ([one() for _ in range(3 * _AT_ONCE)] for one in (new_item_id, new_call_id))
    assert len({*items, *calls}) == 6 * _AT_ONCE
    assert {len(one) for one in items} == {24}
    assert {len(one) for one in calls} == {17}


def test_a_process_and_its_child_give_different_ids() -> None:
    """What the parent drew for later is not the child's."""
    new_item_id()
    receives, sends = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(sends, new_item_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(receives, 100).decode() != new_item_id()
    os.close(receives)
    os.close(sends)
