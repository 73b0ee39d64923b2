"""Sealed items: the chain shows every change, what is stored comes back, and golden files are for ever."""

import hashlib
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from orchestrator.core.approval.workflow import Step, Workflow
from orchestrator.core.errors import InvalidRequest, NewerSchema
from orchestrator.core.policy.approvals import When
from orchestrator.core.policy.document import Quotas
from orchestrator.core.policy.verdicts import Expiry, PolicyContext, RequestRules
from orchestrator.core.task import facts
from orchestrator.core.task.facts import BlobRef, TaskId, Usage
from orchestrator.core.task.items import (
    GENESIS_HASH,
    SCHEMA_VERSION,
    AgentTaskItem,
    Draft,
    ItemId,
    canonical_json,
    decode_item,
    encode_item,
    hash_holds,
    item_hash,
    seal,
    seal_encoded,
    sealed_hashes,
    verify_chain,
)
from orchestrator.core.undo.messages import UndoRequest
from orchestrator.core.values import Value
from orchestrator.core.wire.wire import RunId
from orchestrator.testing.drafts import Author, ManualClock
from tests.core.golden_items import EXAMPLES, GOLDEN, GROWN, KINDS
from tests.core.journal import NOW, TASK, Journal, call, person

FILES = sorted(GOLDEN.glob("*.json"))


def journal() -> Journal:
    """A short history with a number and a person in it."""
    story = Journal()
    story.proposed([call("c1", path="farm", content="x")], "ask")
    story.reviewed("c1")
    return story


# -- golden files -------------------------------------------------------------------------


def test_every_kind_of_fact_has_a_golden_file() -> None:
    """A new kind is not done before `python -m tests.core.golden_items` has written its file; no released one goes."""
    kinds = {model.model_fields["kind"].default for model in KINDS}
    assert {path.stem for path in FILES} == kinds | {f"{fact.kind}.{number}" for number, _, fact in GROWN}
    assert {fact.kind for _, fact in EXAMPLES} == kinds
    assert len(kinds) == len(EXAMPLES) == 49


def test_every_field_of_a_fact_stands_in_a_golden_file() -> None:
    """A field that was added to a kind is not done before a file with it, other than its default, was written."""
    shown: dict[type[Any], set[str]] = {kind: set() for kind in KINDS}
    for fact in [*(fact for _, fact in EXAMPLES), *(fact for _, _, fact in GROWN)]:
        fields = type(fact).model_fields.items()
        shown[type(fact)] |= {
            name
            for name, one in fields
            if one.is_required() or getattr(fact, name) != one.get_default(call_default_factory=True)
        }
    missing = {kind: set(kind.model_fields) - {"kind"} - shown[kind] for kind in KINDS}
    assert not {kind.__name__: names for kind, names in missing.items() if names}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_item_decodes_and_its_hash_holds(path: Path) -> None:
    """An item that was written once is read for ever, and its hash holds although its kind got fields since."""
    written = json.loads(path.read_bytes())
    item = decode_item(path.read_bytes())
    assert item.fact.kind == path.stem.split(".")[0]
    assert hash_holds(item)
    assert item.hash == written["hash"]
    again = json.loads(encode_item(item))
    assert holds(again["fact"], written["fact"])
    assert {**again, "fact": None} == {**written, "fact": None}


def holds(now: Any, written: Any) -> bool:
    """Whether all that was written is still there: values got fields since, at any depth, and lost none."""
    match now, written:
        case dict(), dict():
            return all(name in now and holds(now[name], value) for name, value in written.items())
        case list(), list():
            return len(now) == len(written) and all(map(holds, now, written))
        case _:
            return bool(now == written)


def test_golden_items_hold_the_facts_that_were_written() -> None:
    """What decodes equals the values in the code, field by field, texts outside ASCII included."""
    named = [*((fact.kind, actor, fact) for actor, fact in EXAMPLES), *((f"{f.kind}.{n}", a, f) for n, a, f in GROWN)]
    for name, actor, fact in named:
        item = decode_item((GOLDEN / f"{name}.json").read_bytes())
        assert (item.actor, item.fact) == (actor, fact)


# -- sealing ------------------------------------------------------------------------------


def test_a_sealed_item_carries_its_draft_and_its_place() -> None:
    """Id, time, cause and fact of the draft; task, version and previous hash of the place; the first follows zeros."""
    story = journal()
    first, second = story.items[:2]
    assert (first.version, first.prev_hash, first.task_id) == (1, GENESIS_HASH, TASK)
    assert (second.version, second.prev_hash, second.at) == (2, first.hash, NOW + timedelta(seconds=2))
    assert (second.item_id, second.schema_version) == ("i2", SCHEMA_VERSION)
    assert verify_chain(story.items) is None
    assert verify_chain([]) is None


def test_a_number_goes_into_the_start_that_it_was_allotted_for() -> None:
    """The store's number is part of the sealed fact and of its hash."""
    fact = facts.ToolStarted(call_id=facts.CallId("c1"), run_id=RunId("c1.1"), action_digest="d")
    draft = Draft(item_id=ItemId("i1"), at=NOW, actor=person("alice"), fact=fact)
    plain = seal(draft, task_id=TASK, version=1, prev_hash=GENESIS_HASH)
    numbered = seal(draft, task_id=TASK, version=1, prev_hash=GENESIS_HASH, number=12)
    assert (plain.fact, numbered.fact) == (fact, fact.model_copy(update={"number": 12}))
    assert plain.hash != numbered.hash == item_hash(numbered)
    assert decode_item(encode_item(numbered)) == numbered


ROLES = {
    "task_submitted": "user",
    "model_replied": "assistant",
    "calls_proposed": "assistant",
    "status_sent": "assistant",
    "question_asked": "assistant",
    "decision_recorded": "user",
    "question_answered": "user",
    "cancel_requested": "user",
    "tool_finished": "tool",
    "tool_settled": "tool",
}


@pytest.mark.parametrize(("actor", "fact"), EXAMPLES, ids=lambda value: getattr(value, "kind", ""))
def test_every_kind_seals_round_trips_and_has_its_role(actor: Any, fact: Any) -> None:
    """Stored and read again an item is itself; its role says who speaks."""
    draft = Draft(item_id=ItemId("i1"), at=NOW, actor=actor, fact=fact)
    item = seal(draft, task_id=TASK, version=1, prev_hash=GENESIS_HASH)
    assert decode_item(encode_item(item)) == item
    assert decode_item(encode_item(item).decode()) == item
    assert item.role == ROLES.get(fact.kind, "system")


def test_the_shipped_drafts_make_a_chain() -> None:
    """What `testing.drafts` writes for everybody's tests seals to a chain that holds."""
    author = Author(ManualClock())
    drafts = [author.submitted(), *author.proposed(), author.review("q"), author.ended()]
    items: list[AgentTaskItem] = []
    for version, draft in enumerate(drafts, start=1):
        items.append(seal(draft, task_id=TASK, version=version, prev_hash=items[-1].hash if items else GENESIS_HASH))
    assert verify_chain(items) is None


def test_a_time_keeps_its_offset() -> None:
    """A time of another zone is stored as it is, and its hash still holds after reading."""
    at = datetime(2030, 1, 1, 12, 30, 1, 5, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    draft = Draft(item_id=ItemId("i1"), at=at, actor=person("alice"), fact=facts.CancelRequested())
    item = decode_item(encode_item(seal(draft, task_id=TASK, version=1, prev_hash=GENESIS_HASH)))
    assert (item.at, item_hash(item)) == (at, item.hash)


def test_a_time_without_a_zone_is_refused() -> None:
    """Nobody could say later when it was."""
    naive = datetime(2030, 1, 1, 12, 30)  # noqa: DTZ001 - that is the point
    draft = Draft(item_id=ItemId("i1"), at=naive, actor=person("alice"), fact=facts.CancelRequested())
    with pytest.raises(InvalidRequest, match="time zone"):
        seal(draft, task_id=TASK, version=1, prev_hash=GENESIS_HASH)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), JSON, max_size=4))
def test_any_json_in_a_fact_survives_the_journal(details: dict[str, Any]) -> None:
    """Whatever a model puts into its details is read back as it was, and the hash holds."""
    fact = facts.TaskEnded(status="Completed", status_reason="final", details=details)
    draft = Draft(item_id=ItemId("i1"), at=NOW, actor=person("alice"), fact=fact)
    item = seal(draft, task_id=TASK, version=1, prev_hash=GENESIS_HASH)
    again = decode_item(encode_item(item))
    assert again.fact == fact
    assert item_hash(again) == item.hash


def test_text_that_could_not_be_read_back_is_not_sealed() -> None:
    """Half of a surrogate pair would make the journal unreadable for ever, so it is refused; a whole pair is fine."""
    for text in ("\ud800", "a\udfffb"):
        draft = Draft(item_id=ItemId("i1"), at=NOW, actor=person("a"), fact=facts.CancelRequested(reason=text))
        with pytest.raises(InvalidRequest, match="surrogate"):
            seal(draft, task_id=TASK, version=1, prev_hash=GENESIS_HASH)
    draft = Draft(item_id=ItemId("i1"), at=NOW, actor=person("a"), fact=facts.CancelRequested(reason="\U0001f33e"))
    item = seal(draft, task_id=TASK, version=1, prev_hash=GENESIS_HASH)
    assert decode_item(encode_item(item)) == item


# -- the chain ----------------------------------------------------------------------------

CHANGES: dict[str, Any] = {
    "item_id": ItemId("other"),
    "task_id": TaskId("t2"),
    "version": 9,
    "at": NOW + timedelta(days=1),
    "actor": person("mallory"),
    "role": "tool",
    "schema_version": 0,
    "prev_hash": "1" * 64,
    "hash": "1" * 64,
    "fact": facts.ModelReplied(raw=BlobRef(sha256="9" * 64, size=1), done_reason="stop"),
}


@pytest.mark.parametrize("name", AgentTaskItem.model_fields)
@pytest.mark.parametrize("index", [0, 2, 4])
def test_A3_an_edit_of_any_field_is_found(name: str, index: int) -> None:
    """Changing any field of any item breaks the chain at exactly that item."""
    items = journal().items
    assert verify_chain(items) is None
    items[index] = items[index].model_copy(update={name: CHANGES[name]})
    assert verify_chain(items) == index + 1


def test_A3_an_edit_with_a_new_hash_is_found_at_the_next_item() -> None:
    """Whoever edits an item and hashes it anew breaks the link to the one after it."""
    items = journal().items
    edited = items[1].model_copy(update={"actor": person("mallory")})
    items[1] = edited.model_copy(update={"hash": item_hash(edited)})
    assert verify_chain(items) == 3


def test_A3_deletion_reordering_and_insertion_are_found() -> None:
    """An item that is missing, in another place or there twice breaks the chain where it happened."""
    items = journal().items
    assert verify_chain(items[1:]) == 1
    assert verify_chain([*items[:2], *items[3:]]) == 3
    assert verify_chain([items[0], items[2], items[1], *items[3:]]) == 2
    assert verify_chain([*items[:2], items[1], *items[2:]]) == 3


def test_A2_the_hash_is_over_the_previous_one_and_everything_else() -> None:
    """The formula, written out: anybody can check the journal without this code."""
    item = journal().items[1]
    stored = json.loads(encode_item(item))
    content = {key: value for key, value in stored.items() if key not in ("hash", "prev_hash")}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert item.hash == hashlib.sha256((item.prev_hash + text).encode()).hexdigest()


def test_canonical_json_has_one_form() -> None:
    """Sorted keys at every depth, no blanks, ASCII only: equal values have equal bytes."""
    assert canonical_json({"b": {"d": 1, "c": "é"}, "a": [1, None, True]}) == (
        b'{"a":[1,null,true],"b":{"c":"\\u00e9","d":1}}'
    )


# -- what cannot be read ------------------------------------------------------------------


def altered(**changes: Any) -> bytes:
    """A stored item with other content."""
    return canonical_json({**json.loads(encode_item(journal().items[0])), **changes})


@pytest.mark.parametrize("data", [altered(schema=2), altered(schema=2, colour="red"), altered(schema=9, fact={})])
def test_S13_an_item_of_a_newer_version_is_refused_as_such(data: bytes) -> None:
    """A newer schema is named, with the remedy, even where its fields look like ours."""
    with pytest.raises(NewerSchema, match="reads up to 1") as refused:
        decode_item(data)
    assert "newer version" in refused.value.remedy


def resealed(**changes: Any) -> bytes:
    """A stored item with other content, and the hash of that: as a version that knows more would have sealed it."""
    value = {**json.loads(encode_item(journal().items[0])), **changes}
    content = {name: one for name, one in value.items() if name not in ("hash", "prev_hash")}
    value["hash"] = hashlib.sha256(value["prev_hash"].encode() + canonical_json(content)).hexdigest()
    return canonical_json(value)


@pytest.mark.parametrize(
    "data",
    [
        resealed(fact={"kind": "dream"}),
        resealed(colour="red"),
        resealed(fact={"kind": "cancel_requested", "reason": "", "colour": "red"}),
        resealed(role="boss"),
    ],
)
def test_what_is_whole_and_says_what_nobody_here_knows_is_a_newer_version_s(data: bytes) -> None:
    """A new kind, field or word is told from damage by its hash, and who can read it is named."""
    with pytest.raises(NewerSchema, match="was written by a newer version") as refused:
        decode_item(data)
    assert "cc-orchestrator nodes" in refused.value.remedy
    value = json.loads(data)
    assert sealed_hashes(data) == (value["hash"], value["prev_hash"])


class _Grown(facts.LimitReached):
    """A fact as a newer version may have it."""

    colour: str = Field(default="", exclude_if=lambda value: not value)


def test_a_new_field_that_is_not_used_is_not_written() -> None:
    """So that the version before reads the item as its own, hash and all; where it is used it is a newer one's."""
    author = Author(ManualClock())
    for colour in ("", "red"):
        draft = author.note()._replace(fact=_Grown(limit="model_failed", colour=colour))
        data = seal_encoded(draft, task_id=TASK, version=1, prev_hash=GENESIS_HASH)[1]
        if colour:
            with pytest.raises(NewerSchema):
                decode_item(data)
        else:
            assert hash_holds(decode_item(data))


def test_a_record_that_is_not_as_it_was_sealed_has_no_hashes() -> None:
    """So that nothing is taken for a newer version's that was damaged."""
    assert sealed_hashes(altered(colour="red")) is None
    assert sealed_hashes(b"[]") is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"5",
        b"{}",
        altered(schema="x"),
        altered(colour="red"),
        altered(fact={"kind": "dream"}),
        altered(fact={"kind": "cancel_requested", "colour": "red"}),
        altered(at="2030-01-01T00:00:00"),
        altered(version="one"),
        altered(role="boss"),
    ],
)
def test_what_is_no_item_is_refused(data: bytes) -> None:
    """Bytes that are no item, and items with fields nobody knows, are refused with the reason."""
    with pytest.raises(InvalidRequest, match="cannot be read") as refused:
        decode_item(data)
    assert not isinstance(refused.value, NewerSchema)


def test_items_and_facts_are_frozen() -> None:
    """Nothing that was recorded can be changed in place."""
    item = journal().items[0]
    for target, name in ((item, "version"), (item.fact, "kind"), (item.actor, "id")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(target, name, "x")


@pytest.mark.parametrize(("_", "fact"), EXAMPLES)
def test_sealing_writes_what_encoding_writes(_: object, fact: facts.Fact) -> None:
    """The bytes that come with the seal are those of the item: one dump serves both, in every time zone."""
    for at in (NOW, NOW.replace(microsecond=0), NOW.astimezone(timezone(timedelta(hours=2)))):
        draft = Draft(item_id=ItemId("i1"), at=at, actor=person("alice"), fact=fact)
        item, data = seal_encoded(draft, task_id=TASK, version=3, prev_hash=GENESIS_HASH)
        assert data == encode_item(item)
        assert encode_item(decode_item(data)) == data
        assert hash_holds(decode_item(data))
        assert item.hash == item_hash(item)


@pytest.mark.parametrize(
    "model", [Expiry, PolicyContext, Quotas, RequestRules, Step, UndoRequest, Usage, When, Workflow]
)
def test_a_value_of_defaults_is_the_one_that_its_model_makes(model: type[Value]) -> None:
    """Its model checks nothing in it, so both ways to it must not differ."""
    assert model.of_defaults() == model()
    assert model.of_defaults().model_dump_json() == model().model_dump_json()
