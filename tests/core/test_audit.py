"""The chain: whatever is done to a stored journal shows, and what is honest shows nothing (promises A2, A3)."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.audit.chain import (
    SYSTEM_STREAM,
    Anchor,
    Fault,
    StreamCheck,
    beside,
    gone,
    heads_digest,
    verify_onward,
    verify_stream,
)
from orchestrator.core.task import facts, system_facts
from orchestrator.core.task.facts import Fact, TaskId
from orchestrator.core.task.items import (
    GENESIS_HASH,
    SYSTEM,
    AgentTaskItem,
    Draft,
    ItemId,
    decode_item,
    encode_item,
    item_hash,
    seal,
)
from tests.core.journal import NOW, Journal, call

Tampering = Callable[[list[bytes]], list[bytes]]


def story() -> Journal:
    """A task in which a person approved a write, which ran."""
    journal = Journal()
    journal.proposed([call("c1", path="farm", content="x")], "ask")
    journal.reviewed("c1")
    journal.decided(facts.Decision(call_id=facts.CallId("c1"), action="approve", action_digest="action-c1"))
    journal.started("c1")
    journal.finished("c1")
    return journal


STORED = [encode_item(item) for item in story().items]
HEAD: Anchor = (len(STORED), story().items[-1].hash)


def stream(name: str, *news: Fact) -> list[AgentTaskItem]:
    """The facts as the chained items of a stream."""
    items: list[AgentTaskItem] = []
    for version, fact in enumerate(news, start=1):
        draft = Draft(item_id=ItemId(f"{name}-{version}"), at=NOW, actor=SYSTEM, fact=fact)
        prev = items[-1].hash if items else GENESIS_HASH
        items.append(seal(draft, task_id=TaskId(name), version=version, prev_hash=prev))
    return items


def read(stored: list[bytes]) -> list[AgentTaskItem]:
    """The stored bytes as the store reads them."""
    return [decode_item(data) for data in stored]


def changed(data: bytes, change: Callable[[dict[str, Any]], object], *, rehash: bool = False) -> bytes:
    """The stored bytes after somebody edited them, with a new hash if they know how."""
    value = json.loads(data)
    change(value)
    edited = json.dumps(value).encode()
    if not rehash:
        return edited
    value["hash"] = item_hash(decode_item(edited))
    return json.dumps(value).encode()


def rewritten(stored: list[bytes], change: Callable[[dict[str, Any]], object]) -> list[bytes]:
    """Everything sealed anew after an edit of the first: what somebody does who knows the whole format."""
    before, written = GENESIS_HASH, []
    for index, data in enumerate(stored):
        value = json.loads(data)
        if index == 0:
            change(value)
        value["prev_hash"] = before
        value["hash"] = before = item_hash(decode_item(json.dumps(value)))
        written.append(json.dumps(value).encode())
    return written


def another_prompt(value: dict[str, Any]) -> None:
    """An edit of the task itself."""
    value["fact"]["prompt"] = "delete my farm"


def whats(faults: list[Fault]) -> list[tuple[int, str]]:
    """Where and what."""
    return [(fault.version, fault.what) for fault in faults]


def test_an_honest_stream_has_no_fault() -> None:
    """As it was written, against its head and against a checkpoint of any age, and a stream without items too."""
    for version, item in enumerate(read(STORED), start=1):
        assert verify_stream(read(STORED), anchor=(version, item.hash), head=HEAD) == []
    assert verify_stream([]) == []
    assert verify_stream([], stream="t1", anchor=(0, GENESIS_HASH), head=(0, GENESIS_HASH)) == []


def test_the_system_stream_is_verified_as_a_tasks_is() -> None:
    """What belongs to no task is chained under the name of its stream."""
    loaded = system_facts.PolicyLoaded(source="policy.toml", policy_version="v1", sha256="a" * 64)
    items = stream(SYSTEM_STREAM, loaded, system_facts.NodeStopped())
    assert verify_stream(items, stream=SYSTEM_STREAM) == []
    forged = [items[0].model_copy(update={"fact": loaded.model_copy(update={"source": "mine.toml"})}), items[1]]
    assert whats(verify_stream(forged, stream=SYSTEM_STREAM)) == [(1, "edited")]


@pytest.mark.parametrize("index", range(len(STORED)))
@pytest.mark.parametrize(
    "change",
    [
        lambda value: value["actor"].update(id="mallory"),
        lambda value: value.update(at="2029-01-01T00:00:00Z"),
        lambda value: value.update(role="tool" if value["role"] != "tool" else "user"),
        lambda value: value.update(item_id="other"),
        lambda value: value.update(hash="0" * 64),
    ],
)
def test_a3_an_edit_of_any_item_shows(index: int, change: Callable[[dict[str, Any]], object]) -> None:
    """Who, when, as what, under which id, and the hash itself."""
    stored = [changed(data, change) if at == index else data for at, data in enumerate(STORED)]
    assert (index + 1, "edited") in whats(verify_stream(read(stored)))


def test_a3_an_edit_with_a_new_hash_breaks_the_chain_after_it() -> None:
    """Whoever can hash has changed what the next item follows from."""
    stored = [changed(STORED[0], another_prompt, rehash=True), *STORED[1:]]
    faults = verify_stream(read(stored))
    assert whats(faults) == [(2, "unchained")]
    assert faults[0].detail == (
        "Version 2 of t1: it does not follow from version 1: one of the two was put in its place."
    )


def test_a3_a_chain_that_was_written_anew_shows_against_what_was_noted_elsewhere() -> None:
    """Alone it is a chain like any other; the head of the row, a checkpoint and the digest of all heads differ."""
    stored = rewritten(STORED, another_prompt)
    items = read(stored)
    assert verify_stream(items) == []
    assert whats(verify_stream(items, head=HEAD)) == [(HEAD[0], "rewritten")]
    anchor = (3, read(STORED)[2].hash)
    assert whats(verify_stream(items, anchor=anchor)) == [(3, "rewritten")]
    assert heads_digest({"t1": (HEAD[0], items[-1].hash)}) != heads_digest({"t1": HEAD})


def test_a3_another_beginning_shows() -> None:
    """An item in first place that was sealed after something else."""
    value = json.loads(STORED[0])
    value["prev_hash"] = "1" * 64
    value["hash"] = item_hash(decode_item(json.dumps(value)))
    faults = verify_stream(read([json.dumps(value).encode()]))
    assert whats(faults) == [(1, "unchained")]
    assert "it is not the beginning" in faults[0].detail


@pytest.mark.parametrize("index", range(len(STORED) - 1))
def test_a3_a_deletion_in_the_middle_shows(index: int) -> None:
    """One that is gone leaves a gap; closing the gap by new versions breaks hashes."""
    stored = [data for at, data in enumerate(STORED) if at != index]
    assert whats(verify_stream(read(stored))) == [(index + 1, "missing")]
    renumbered = [
        changed(data, lambda value, version=version: value.update(version=version))  # type: ignore[misc]
        for version, data in enumerate(stored, start=1)
    ]
    assert {"edited"} == {fault.what for fault in verify_stream(read(renumbered))}


def test_a3_several_that_are_gone_are_one_fault() -> None:
    """The sentence names the whole gap."""
    faults = verify_stream(read([*STORED[:1], *STORED[4:]]))
    assert [fault.detail for fault in faults] == ["Version 2 of t1: it and all up to version 4 were taken out."]


def test_a3_a_new_order_shows() -> None:
    """Two items that changed places."""
    stored = [*STORED[:2], STORED[3], STORED[2], *STORED[4:]]
    assert whats(verify_stream(read(stored))) == [(3, "reordered")]


def test_a3_a_duplicate_shows() -> None:
    """The same item twice, and an item under a second version."""
    assert (3, "duplicate") in whats(verify_stream(read([*STORED[:3], STORED[2], *STORED[3:]])))
    again = changed(STORED[2], lambda value: value.update(version=len(STORED) + 1), rehash=True)
    assert (len(STORED) + 1, "duplicate") in whats(verify_stream(read([*STORED, again])))


def test_an_item_that_cannot_be_read_is_told_and_the_others_are_verified() -> None:
    """Wherever it stands: nothing is held against the hash that nobody knows."""
    items = read(STORED)
    for lost in range(len(items)):
        check = StreamCheck("t1", (lost + 1, items[lost].hash))
        for index, item in enumerate(items):
            if index == lost:
                check.skip(item.version, "no item.")
            else:
                check.take(item, sound=True)
        (fault,) = check.end(HEAD)
        assert fault.detail == f"Version {lost + 1} of t1: it cannot be read: no item."


@pytest.mark.parametrize("order", [(1, 4, 2, 3, 5), (2, 1, 3, 4, 5), (4, 5, 2, 3, 1), (5, 4, 3, 2, 1), (1, 5, 3, 4, 2)])
def test_a3_a_chain_in_any_order_is_joined(order: tuple[int, ...]) -> None:
    """What comes late fills its gap; what is not what was there shows as well."""
    items = {item.version: item for item in read(STORED)[:5]}
    faults = verify_stream([items[version] for version in order], stream="t1")
    assert {fault.what for fault in faults} == {"reordered"}
    value = changed(STORED[2], lambda value: value["actor"].update(id="mallory"), rehash=True)
    items[3] = decode_item(value)
    faults = verify_stream([items[version] for version in order], stream="t1")
    assert {(4, "unchained")} <= set(whats(faults))
    assert {fault.what for fault in faults} == {"reordered", "unchained"}


def test_a3_another_beginning_that_comes_late_shows() -> None:
    """As it does where it comes first."""
    value = json.loads(STORED[0])
    value["prev_hash"] = "1" * 64
    value["hash"] = item_hash(decode_item(json.dumps(value)))
    first = decode_item(json.dumps(value))
    second = read(STORED)[1].model_copy(update={"prev_hash": first.hash})
    second = second.model_copy(update={"hash": item_hash(second)})
    assert (1, "unchained") in whats(verify_stream([second, first]))


def test_a3_items_of_another_stream_show() -> None:
    """A stream under another task's name, and one item of another task in between."""
    assert {"foreign"} == {fault.what for fault in verify_stream(read(STORED), stream="t2")}
    stranger = stream("t2", facts.CancelRequested())[0]
    items = read(STORED)
    faults = verify_stream([*items[:2], stranger, *items[2:]])
    assert [fault.detail for fault in faults] == ["Version 1 of t1: an item of t2."]


@pytest.mark.parametrize("kept", range(len(STORED)))
def test_a3_a_cut_tail_shows_against_the_head_and_against_a_checkpoint(kept: int) -> None:
    """What is left is a chain; only what was noted elsewhere knows that there was more."""
    items = read(STORED[:kept])
    assert verify_stream(items, stream="t1") == []
    assert whats(verify_stream(items, stream="t1", head=HEAD)) == [(kept + 1, "cut")]
    (fault,) = verify_stream(items, stream="t1", anchor=HEAD)
    assert (fault.version, fault.what) == (kept + 1, "cut")
    assert "restored from an older backup" in fault.detail


def test_a3_a_row_that_knows_less_than_the_items_shows() -> None:
    """Somebody put the row back, or items in behind it."""
    assert whats(verify_stream(read(STORED), head=(4, read(STORED)[3].hash))) == [(5, "unnoted")]


def test_a3_an_anchor_on_an_item_that_is_gone_is_told_by_the_gap() -> None:
    """What is missing is said once."""
    items = read([*STORED[:2], *STORED[3:]])
    assert whats(verify_stream(items, anchor=(3, read(STORED)[2].hash))) == [(3, "missing")]


@given(st.data())
def test_a3_no_tampering_with_bytes_goes_unnoticed(data: st.DataObject) -> None:
    """Any mixture of deletions, swaps and copies of whole items differs from the journal or shows."""
    picked = data.draw(st.lists(st.integers(0, len(STORED) - 1), max_size=len(STORED) + 2))
    items = read([STORED[index] for index in picked])
    honest = picked == list(range(len(STORED)))
    assert bool(verify_stream(items, stream="t1", head=HEAD)) != honest


# -- what was noted ----------------------------------------------------------------------


def test_what_follows_an_anchor_is_verified_from_there() -> None:
    """A checkpoint costs only what is new: the anchor's item, and what was chained to it since."""
    items = read(STORED)
    assert verify_onward(items[2:], (3, items[2].hash))
    assert verify_onward(items[-1:], HEAD)
    assert not verify_onward([], HEAD)
    assert not verify_onward(items[2:], (3, "0" * 64))
    assert not verify_onward(items[2:], (2, items[2].hash))
    assert not verify_onward([items[2], *items[4:]], (3, items[2].hash))
    edited = items[3].model_copy(update={"role": "tool"})
    assert not verify_onward([items[2], edited, *items[4:]], (3, items[2].hash))
    foreign = items[3].model_copy(update={"prev_hash": "0" * 64})
    assert not verify_onward([items[2], foreign], (3, items[2].hash))


def test_the_digest_of_the_heads_is_the_same_in_any_order_and_tells_every_difference() -> None:
    """A stream more, a version more, another hash: another digest."""
    heads = {"t1": (3, "a" * 64), "system": (1, "b" * 64)}
    digest = heads_digest(heads)
    assert digest == heads_digest(dict(reversed(heads.items())))
    others = [{}, {"t1": heads["t1"]}, {**heads, "t1": (4, "a" * 64)}, {**heads, "t1": (3, "c" * 64)}]
    assert len({digest, *map(heads_digest, others)}) == 5


def test_what_concerns_a_whole_stream_is_a_sentence() -> None:
    """A stream that is gone, and what stands beside the items."""
    assert gone("t1", (7, "a" * 64)).detail.startswith("The whole of t1 is gone; the checkpoint has 7 versions of it.")
    said = beside("t1", "row", "The row is another.")
    assert (said.stream, said.version, said.what, said.detail) == ("t1", 0, "row", "The row is another.")


def test_an_item_of_a_newer_version_is_told_as_one_and_keeps_its_place() -> None:
    """The chain goes on over it; what does not follow from it is still found."""
    for follows in (True, False):
        check = StreamCheck("t1")
        items = read(STORED)
        check.take(items[0], sound=True)
        check.pass_by(2, items[1].hash, items[1].prev_hash if follows else "f" * 64)
        for item in items[2:]:
            check.take(item, sound=True)
        faults = check.end(HEAD)
        assert whats(faults) == [(2, "newer"), *([] if follows else [(2, "unchained")])]
        assert "newer version" in faults[0].detail


def test_what_left_the_host_has_to_hold() -> None:
    """Each hash that was sent away: of an item that was replaced, and of one that is gone."""
    items = story().items

    def found(away: dict[int, str]) -> list[str]:
        check = StreamCheck("t1", None, away)
        for item in items:
            check.take(item, sound=True)
        return [one.what for one in check.end(None)]

    sent = {item.version: item.hash for item in items}
    assert found(sent) == found({}) == []
    assert found({**sent, 2: "0" * 64}) == ["rewritten"]
    assert found({**sent, len(items) + 1: "0" * 64}) == ["cut"]
