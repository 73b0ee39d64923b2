"""The items of a task: sealed facts, chained by hash.

A *draft* says what happened; the store *seals* it into an item inside the transaction that
appends it, because version, previous hash and the computer's number are known only there.
"""

import hashlib
import json
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, NewType

from pydantic import AwareDatetime, ConfigDict, Field, TypeAdapter, ValidationError

from orchestrator.core.errors import InvalidRequest, NewerSchema
from orchestrator.core.task.facts import Fact, TaskId
from orchestrator.core.values import Value

SCHEMA_VERSION: Final = 1
GENESIS_HASH: Final = "0" * 64
"""The previous hash of a task's first item."""

ItemId = NewType("ItemId", str)


AT_COMPUTER: Final = "computer:"
"""The text before the name of a computer in ``Actor.auth``: a person who types there counts as its owner."""
_REVIEWS: Final = ("pin@", "paired@")


class Actor(Value):
    """Who caused an item: a person, the model, a computer, or the system itself."""

    kind: Literal["person", "agent", "computer", "system"]
    id: str
    auth: str = ""
    """How the identity was proved: ``token``, ``session`` (a browser's), ``library``, ``computer:NAME`` of the person
    for whom somebody typed at that computer in the game, ``pin@NAME`` and ``paired@NAME`` of one who reviews there and
    typed their PIN or owns it, or empty for the system."""
    """How the identity was proved: ``token``, ``session`` (a browser's), ``oidc`` (a browser's, by
    a provider), ``library``, ``computer:NAME`` of the person
    for whom somebody typed at that computer in the game, or empty for the system."""

    @property
    def at_computer(self) -> str:
        """The computer in the game at which it was said; empty: elsewhere."""
        return self.auth.removeprefix(AT_COMPUTER) if self.auth.startswith(AT_COMPUTER) else ""

    @property
    def reviews_at(self) -> str:
        """The computer in the game at which a person proved who they are, and decides; empty: elsewhere."""
        return self.auth.partition("@")[2] if self.auth.startswith(_REVIEWS) else ""


SYSTEM: Final = Actor(kind="system", id="orchestrator")


class Draft(NamedTuple):
    """A fact before it is sealed: who, when and what, with an id so that a retry is recognised.

    It is made here and never read from anywhere, so there is nothing to validate but ``at``, which
    sealing does.
    """

    item_id: ItemId
    at: datetime
    """Aware, in any time zone."""
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

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)


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

_ALL_FIELDS: Final = set(AgentTaskItem.model_fields)
_ITEM: TypeAdapter[AgentTaskItem] = TypeAdapter(AgentTaskItem)


def seal(draft: Draft, *, task_id: TaskId, version: int, prev_hash: str, number: int | None = None) -> AgentTaskItem:
    """The draft as the item of ``version``; ``number`` goes into a ``tool_started``.

    Raises InvalidRequest for what no decoder would take back: the journal must stay readable.
    """
    return seal_encoded(draft, task_id=task_id, version=version, prev_hash=prev_hash, number=number)[0]


def seal_encoded(
    draft: Draft, *, task_id: TaskId, version: int, prev_hash: str, number: int | None = None
) -> tuple[AgentTaskItem, bytes]:
    """The sealed item and its bytes as the store keeps them, as :func:`seal` and :func:`encode_item` have them.

    One text serves hash and bytes, and is put together from its parts: sealing is the most frequent
    thing that the server does. The parts are in the order of their names, as in canonical JSON.
    """
    item_id, at, actor, fact = draft
    if number is not None:
        fact = fact.model_copy(update={"number": number})
    role = _ROLES.get(fact.kind, "system")
    told = canonical_text(fact.__pydantic_serializer__.to_python(fact, mode="json"))
    text = (
        f'"actor":{_actor_text(actor.kind, actor.id, actor.auth)},"at":"{_in_json(at)}","fact":{told},'
        f'"item_id":{_quoted(item_id)},"role":"{role}","schema":{SCHEMA_VERSION},"task_id":{_quoted(task_id)},'
        f'"version":{version}}}'
    )
    if "\\ud" in text:
        _refuse_half_surrogates(f"{{{text}")
    digest = hashlib.sha256(f"{prev_hash}{{{text}".encode()).hexdigest()
    item = _item(
        item_id=item_id,
        task_id=task_id,
        version=version,
        at=at,
        actor=actor,
        role=role,
        schema_version=SCHEMA_VERSION,
        prev_hash=prev_hash,
        hash=digest,
        fact=fact,
    )
    return item, f'{{"hash":"{digest}","prev_hash":"{prev_hash}",{text}'.encode()


def _item(**values: Any) -> AgentTaskItem:
    """The item of values that are right already; ``model_construct`` takes four times as long to find that out."""
    item = object.__new__(AgentTaskItem)
    set_attribute = object.__setattr__
    set_attribute(item, "__dict__", values)
    set_attribute(item, "__pydantic_fields_set__", _ALL_FIELDS)
    set_attribute(item, "__pydantic_extra__", None)
    set_attribute(item, "__pydantic_private__", None)
    return item


@lru_cache(maxsize=1024)
def _actor_text(kind: str, name: str, auth: str) -> str:
    return canonical_text({"kind": kind, "id": name, "auth": auth})


def _in_json(at: datetime) -> str:
    """A moment as pydantic writes it: RFC 3339, UTC as Z. Raises InvalidRequest for one without a time zone."""
    text = at.isoformat()
    if text.endswith("+00:00"):
        return f"{text[:-6]}Z"
    if at.tzinfo is None:
        raise InvalidRequest("An item needs a time with a time zone.", remedy="Take the time from the clock.")
    return text


def item_hash(item: AgentTaskItem) -> str:
    """sha256 over the previous hash and the canonical JSON of everything else in the item."""
    return _hash(item.prev_hash, _content(item, written_only=False))


def hash_holds(item: AgentTaskItem) -> bool:
    """Whether an item is as it was sealed.

    An item of an earlier version lacks the fields that were added since (each has a default), so
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


_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, check_circular=False)
_C_ENCODER: Final[Any] = getattr(json.encoder, "c_make_encoder", None)
_ENCODED: Final = _C_ENCODER and _C_ENCODER(
    None, _CANONICAL.default, json.encoder.encode_basestring_ascii, None, ":", ",", True, False, True
)
"""The same, made once: ``_CANONICAL`` makes one for each value."""
_quoted: Final = json.encoder.encode_basestring_ascii
"""A text as JSON, as ``_CANONICAL`` writes it."""


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys, no blanks and no escapes beyond need: digests are taken over it."""
    return canonical_text(value).encode()


def canonical_text(value: Any) -> str:
    """:func:`canonical_json` as text, all of it ASCII."""
    return "".join(_ENCODED(value, 0)) if _ENCODED is not None else _CANONICAL.encode(value)


def _refuse_half_surrogates(text: str) -> None:
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            "A text has half of a surrogate pair, which is not a character.", remedy="Send the character itself."
        ) from None


def encode_item(item: AgentTaskItem) -> bytes:
    """The item as the store keeps it."""
    text = canonical_json(_content(item, written_only=False))
    return b'{"hash":"%b","prev_hash":"%b",%b' % (item.hash.encode(), item.prev_hash.encode(), text[1:])


def decode_item(data: bytes | str) -> AgentTaskItem:
    """An item as the store kept it.

    Raises NewerSchema for a record of a newer version: it says so itself, or it is whole and says what nobody here
    knows. Raises InvalidRequest for one that is not an item.
    """
    try:
        item = _ITEM.validate_json(data)
    except ValidationError as error:
        value = _object(data)
        schema = value.get("schema")
        _refuse_newer(schema if isinstance(schema, int) else SCHEMA_VERSION)
        if _hashes(value) is not None:
            raise NewerSchema(
                f"Item {value.get('version')} of {value.get('task_id')} was written by a newer version of "
                "cc-orchestrator, which goes on with it.",
                remedy="Ask a node of that version, or update this one: `cc-orchestrator nodes` distinguishes them.",
            ) from None
        raise InvalidRequest(f"An item of the journal cannot be read: {error.errors()[0]['msg']}.") from None
    _refuse_newer(item.schema_version)
    return item


def _object(data: bytes | str) -> dict[str, Any]:
    """What a record says, whether or not it is an item; nothing: it is not a JSON object."""
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def sealed_hashes(data: bytes | str) -> tuple[str, str] | None:
    """The hash and the previous hash of a record that is whole, whatever it says; None: it is not as it was sealed."""
    return _hashes(_object(data))


def _hashes(value: dict[str, Any]) -> tuple[str, str] | None:
    content = {name: one for name, one in value.items() if name not in ("hash", "prev_hash")}
    digest, prev_hash = value.get("hash"), str(value.get("prev_hash"))
    return (str(digest), prev_hash) if digest == _hash(prev_hash, content) else None


def _refuse_newer(schema: int) -> None:
    if schema > SCHEMA_VERSION:
        raise NewerSchema(
            f"An item has schema {schema}; this version reads up to {SCHEMA_VERSION}.",
            remedy="Start a newer version of cc-orchestrator on this store.",
        )
