"""The items of a task: sealed facts, chained by hash.

A *draft* says what happened; the store *seals* it into an item inside the transaction that
appends it, because version, previous hash and the computer's number are known only there.
"""

import hashlib
import json
from typing import Any, Final, Literal, NewType

from pydantic import AwareDatetime, ConfigDict, Field, TypeAdapter, ValidationError

from orchestrator.core.errors import InvalidRequest, NewerSchema
from orchestrator.core.facts import Fact, TaskId, Value

SCHEMA_VERSION: Final = 1
GENESIS_HASH: Final = "0" * 64
"""The previous hash of a task's first item."""

ItemId = NewType("ItemId", str)


class Actor(Value):
    """Who caused an item: a person, the model, a computer, or the system itself."""

    kind: Literal["person", "agent", "computer", "system"]
    id: str
    auth: str = ""
    """How the identity was proved: ``token``, ``library``, or empty for the system."""


SYSTEM: Final = Actor(kind="system", id="orchestrator")


class Draft(Value):
    """A fact before it is sealed: who, when and what, with an id so that a retry is recognised."""

    item_id: ItemId
    at: AwareDatetime
    actor: Actor
    fact: Fact


class AgentTaskItem(Value):
    """A sealed fact: one row of the journal."""

    item_id: ItemId
    task_id: TaskId
    version: int
    """1 for the first item of a task, then one more each."""
    at: AwareDatetime
    actor: Actor
    role: Literal["user", "assistant", "tool", "system"]
    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    prev_hash: str
    hash: str
    fact: Fact

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


_ROLES: Final[dict[str, Literal["user", "assistant", "tool", "system"]]] = {
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

_ITEM: TypeAdapter[AgentTaskItem] = TypeAdapter(AgentTaskItem)


def seal(draft: Draft, *, task_id: TaskId, version: int, prev_hash: str, number: int | None = None) -> AgentTaskItem:
    """The draft as the item of ``version``; ``number`` goes into a ``tool_started``.

    Raises InvalidRequest for text that no decoder would take back: the journal must stay readable.
    """
    fact = draft.fact
    if number is not None:
        fact = fact.model_copy(update={"number": number})
    item = AgentTaskItem(
        item_id=draft.item_id,
        task_id=task_id,
        version=version,
        at=draft.at,
        actor=draft.actor,
        role=_ROLES.get(fact.kind, "system"),
        prev_hash=prev_hash,
        hash="",
        fact=fact,
    )
    content = _content(item, written_only=False)
    _refuse_half_surrogates(content)
    return item.model_copy(update={"hash": _hash(prev_hash, content)})


def item_hash(item: AgentTaskItem) -> str:
    """sha256 over the previous hash and the canonical JSON of everything else in the item."""
    return _hash(item.prev_hash, _content(item, written_only=False))


def hash_holds(item: AgentTaskItem) -> bool:
    """Whether an item is as it was sealed.

    An item of an earlier release lacks the fields that were added since (each has a default), so
    its hash is over the fields that it was written with.
    """
    written = _hash(item.prev_hash, _content(item, written_only=True))
    return item.hash in (written, item_hash(item))


def _content(item: AgentTaskItem, *, written_only: bool) -> dict[str, Any]:
    return item.model_dump(mode="json", by_alias=True, exclude={"hash", "prev_hash"}, exclude_unset=written_only)


def _hash(prev_hash: str, content: dict[str, Any]) -> str:
    return hashlib.sha256(prev_hash.encode() + canonical_json(content)).hexdigest()


def verify_chain(items: list[AgentTaskItem]) -> int | None:
    """The version of the first item that does not follow from the one before; None: all do."""
    prev_hash = GENESIS_HASH
    for expected, item in enumerate(items, start=1):
        if item.version != expected or item.prev_hash != prev_hash or not hash_holds(item):
            return expected
        prev_hash = item.hash
    return None


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys, no blanks and no escapes beyond need: what digests are taken over."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _refuse_half_surrogates(content: dict[str, Any]) -> None:
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            "A text has half of a surrogate pair, which is no character.", remedy="Send the character itself."
        ) from None


def encode_item(item: AgentTaskItem) -> bytes:
    """The item as the store keeps it."""
    return canonical_json(item.model_dump(mode="json", by_alias=True))


def decode_item(data: bytes | str) -> AgentTaskItem:
    """An item as the store kept it.

    Raises NewerSchema for a record of a newer version, InvalidRequest for one that is no item.
    """
    try:
        item = _ITEM.validate_json(data)
    except ValidationError as error:
        _refuse_newer(_schema_of(data))
        raise InvalidRequest(f"An item of the journal cannot be read: {error.errors()[0]['msg']}.") from None
    _refuse_newer(item.schema_version)
    return item


def _schema_of(data: bytes | str) -> int:
    try:
        schema = json.loads(data).get("schema")
    except (ValueError, AttributeError):
        return SCHEMA_VERSION
    return schema if isinstance(schema, int) else SCHEMA_VERSION


def _refuse_newer(schema: int) -> None:
    if schema > SCHEMA_VERSION:
        raise NewerSchema(
            f"An item has schema {schema}; this version reads up to {SCHEMA_VERSION}.",
            remedy="Start a newer version of cc-orchestrator on this store.",
        )
