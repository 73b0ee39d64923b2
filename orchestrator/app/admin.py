"""The token of the admin: made at the first start, and once more where the last one is lost."""

import logging
import os
import secrets
from datetime import datetime
from typing import TYPE_CHECKING

from orchestrator.adapters.store import open_store
from orchestrator.core.ports import Store
from orchestrator.core.task.items import SYSTEM, Draft, ItemId
from orchestrator.core.task.system_facts import TokenIssued
from orchestrator.runtime.clock import SystemClock
from orchestrator.runtime.settings import Settings
from orchestrator.web.auth import issue_token, token_hash

if TYPE_CHECKING:
    from orchestrator.engine.tasks import TaskService

logger = logging.getLogger(__name__)
ADMIN = "admin"
_MAKING_S = 30.0
"""Longer than it takes to make a token."""


async def admin_token(service: "TaskService", settings: Settings) -> str | None:
    """Make the admin's token unless its file still fits the store; None: it does.

    Where several nodes share the store, the first makes it; the others make no second one, and say where it is.
    """
    async with service.duties.held("admin.token", _MAKING_S):
        return await _admin_token(service, settings)


async def _admin_token(service: "TaskService", settings: Settings) -> str | None:
    path = settings.token_path
    row = None
    if path.exists():
        row = await service.store.find_token(token_hash(path.read_text("utf-8", "replace").strip()))
    others = await _has_admin(service)
    # A person who was revoked on purpose stays revoked, as long as somebody else can make tokens.
    if row is not None and (not row.revoked or others):
        return None
    if service.store.shared and others:
        logger.info(
            "%s holds no token of this store, which has an admin: copy admin.token from the node that started first, "
            "let an admin give you a token of your own with `cc-orchestrator people add NAME --role admin`, or, where "
            "nobody has one any more, run `cc-orchestrator store admin`.",
            path,
        )
        return None
    token = await _new_admin(service.store, service.clock.now())
    if path.exists():
        # It may be the only copy of another installation's.
        path.replace(path.with_name(f"{path.name}.old"))
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(token + "\n")
    temporary.replace(path)
    return token


async def _new_admin(store: Store, at: datetime) -> str:
    roles = ("submitter", "reviewer", "admin")
    fact = TokenIssued(holder_kind="person", name=ADMIN, roles=roles)
    note = Draft(item_id=ItemId(secrets.token_hex(12)), at=at, actor=SYSTEM, fact=fact)
    return await issue_token(store, kind="person", name=ADMIN, roles=roles, at=at, note=note)


async def one_more_admin(settings: Settings) -> str:
    """A new token of the admin in the store of the settings, for a person who can open that store.

    Raises StoreBusy where a server has the store for itself, and the errors of opening a store.
    """
    store = open_store(settings.store_url, clock=SystemClock())
    try:
        return await _new_admin(store, store.clock.now())
    finally:
        await store.close()


async def _has_admin(service: "TaskService") -> bool:
    """Whether somebody can let people in."""
    return any("admin" in one.roles and not one.revoked for one in await service.store.list_tokens())
