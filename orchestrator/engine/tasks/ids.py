"""The ids that this node gives: random, or made of what somebody asks for twice."""

import secrets

from orchestrator.core.ports import Identity
from orchestrator.core.task.facts import CallId, RequestId, TaskId
from orchestrator.core.task.items import ItemId
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.wire.wire import sha256_hex


def new_task_id() -> TaskId:
    """A short id that no two tasks share."""
    return TaskId("t-" + secrets.token_hex(6))


def new_call_id() -> CallId:
    """An id that leaves room for the number of the run in the 24 characters of the wire."""
    return CallId("c" + secrets.token_hex(8))


def new_request_id() -> RequestId:
    """An unguessable id of 144 bits (hitl.md S6); it begins with a letter, or a command takes it for an option."""
    return RequestId("r-" + secrets.token_urlsafe(18))


def new_grant_id() -> GrantId:
    """An unguessable id: whoever knows it can be asked what it allows."""
    return GrantId("g-" + secrets.token_hex(8))


def new_item_id() -> ItemId:
    """An id by which a repeated append is recognised."""
    return ItemId(secrets.token_hex(12))


def keyed_ids(user: Identity, key: str) -> tuple[TaskId, ItemId]:
    """The ids of the task, and of its first item, that somebody submits with a key."""
    digest = sha256_hex("\n".join((user.auth, user.name, key)).encode())
    return TaskId(f"t-{digest[:12]}"), ItemId(digest[12:36])
