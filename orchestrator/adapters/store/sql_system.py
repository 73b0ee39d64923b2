"""What belongs to no task, in SQL (see ``sql``): other streams, the heads of all, tokens and revocations.

A stream's row is locked last, after the rows of whatever is noted in it.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, get_args

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import grant_rules as granting
from orchestrator.adapters.store import sql, sql_grants
from orchestrator.adapters.store.script import Script, text
from orchestrator.core.ports import SYSTEM_STREAM, StreamHead, TokenKind, TokenRow
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import GENESIS_HASH, AgentTaskItem, Draft
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.timestamps import from_us, to_us

_STREAM: Final = "SELECT version, head_hash FROM streams WHERE stream = ? /* FOR UPDATE */"
_KNOW_STREAM: Final = "INSERT INTO streams (stream, version, head_hash) VALUES (?, 0, ?) ON CONFLICT DO NOTHING"
_SET_STREAM: Final = "UPDATE streams SET version = ?, head_hash = ? WHERE stream = ?"
_HEADS: Final = """SELECT task_id, version, head_hash FROM tasks
    UNION ALL SELECT stream, version, head_hash FROM streams"""
_HEADS_SINCE: Final = """SELECT task_id, version, head_hash FROM tasks WHERE updated_at >= ?
    UNION ALL SELECT stream, version, head_hash FROM streams"""
_HEADS_FROM: Final = """SELECT task_id, version, head_hash FROM tasks WHERE task_id >= ?
    UNION ALL SELECT stream, version, head_hash FROM streams WHERE stream >= ? ORDER BY 1 LIMIT ?"""
_THEIR_HEADS_FROM: Final = """SELECT task_id, version, head_hash FROM tasks WHERE task_id >= ? AND user_id = ?
    ORDER BY task_id LIMIT ?"""
_TOKEN_KINDS: Final[Mapping[str, TokenKind]] = {kind: kind for kind in get_args(TokenKind)}
_TOKEN_COLUMNS: Final = "token_hash, kind, name, roles, created_at, revoked"
_ADD_TOKEN: Final = f"INSERT INTO tokens ({_TOKEN_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
_FIND_TOKEN: Final = f"SELECT {_TOKEN_COLUMNS} FROM tokens WHERE token_hash = ?"
_LIST_TOKENS: Final = f"SELECT {_TOKEN_COLUMNS} FROM tokens ORDER BY created_at, token_hash"
# Locked, so that of two who use up one code at once the second finds nothing left.
_STANDING_TOKENS: Final = "SELECT token_hash FROM tokens WHERE kind = ? AND name = ? AND revoked = 0 /* FOR UPDATE */"
_COUNT_REVOKED: Final = "SELECT COUNT(*) FROM tokens WHERE revoked = 1"
_REVOKE_TOKENS: Final = "UPDATE tokens SET revoked = 1 WHERE kind = ? AND name = ?"


def record(drafts: Sequence[Draft], stream: str, *, now: int) -> Script[list[AgentTaskItem]]:
    """The port's ``record``."""
    sealing.check_drafts(drafts)
    name = TaskId(stream)
    if (yield from sql.head_of(name)) is not None:
        raise sealing.a_task(stream)
    rows = yield _STREAM, (stream,)
    if not rows:
        yield _KNOW_STREAM, (stream, GENESIS_HASH)
        rows = yield _STREAM, (stream,)
    stored = yield from sql.already_there(name, drafts)
    if stored is not None:
        return stored
    version, head_hash = rows[0]
    sealed = sealing.seal_drafts(drafts, task_id=name, version=version, head_hash=head_hash)
    yield from sql.add(name, sealed, drafts, now=now)
    last, _ = sealed[-1]
    yield _SET_STREAM, (last.version, last.hash, stream)
    return [item for item, _ in sealed]


def heads() -> Script[list[StreamHead]]:
    """The port's ``heads``."""
    rows = yield _HEADS, ()
    return sealing.by_stream(_head(*row) for row in rows)


def heads_since(at: datetime) -> Script[list[StreamHead]]:
    """The port's ``heads_since``."""
    rows = yield _HEADS_SINCE, (to_us(at),)
    return sealing.by_stream(_head(*row) for row in rows)


def heads_from(name: str, limit: int, user_id: str | None) -> Script[list[StreamHead]]:
    """The port's ``heads_from``."""
    if user_id is None:
        rows = yield _HEADS_FROM, (name, name, limit)
    else:
        rows = yield _THEIR_HEADS_FROM, (name, user_id, limit)
    # SQLite sorts bytes behind each text: without a name to go on from, they would be on each page for ever.
    return [_head(*row) for row in rows if isinstance(row[0], str)]


def _head(stream: object, version: object, digest: object) -> StreamHead:
    """A head, also where somebody put something else than text and a number into its row: no item has such a one."""
    return StreamHead(TaskId(str(stream)), version if isinstance(version, int) else -1, str(digest))


def add_token(token: TokenRow, note: Draft | None, *, now: int) -> Script[None]:
    """The port's ``add_token``; a token without a time of creation was created now."""
    if (yield _FIND_TOKEN, (token.token_hash,)):
        raise sealing.token_exists()
    created_at = now if token.created_at is None else to_us(token.created_at)
    roles = json.dumps(token.roles)
    yield _ADD_TOKEN, (token.token_hash, token.kind, token.name, roles, created_at, int(token.revoked))
    yield from noted(sealing.fingerprinted(note, token.token_hash), now)


def find_token(token_hash: str) -> Script[TokenRow | None]:
    """The port's ``find_token``."""
    rows = yield _FIND_TOKEN, (token_hash,)
    return _token_row(*rows[0]) if rows else None


def revoke_tokens(kind: str, name: str, note: Draft | None, *, now: int) -> Script[int]:
    """The port's ``revoke_tokens``; those revoked before are not counted."""
    count = len((yield _STANDING_TOKENS, (kind, name)))
    if count:
        yield _REVOKE_TOKENS, (kind, name)
        yield from noted(sealing.counted(note, count), now)
    return count


def list_tokens() -> Script[list[TokenRow]]:
    """The port's ``list_tokens``."""
    rows = yield _LIST_TOKENS, ()
    return [_token_row(*row) for row in rows]


def count_revoked() -> Script[int]:
    """The port's ``count_revoked``."""
    rows = yield _COUNT_REVOKED, ()
    return int(rows[0][0])


def revoke_grant(grant_id: GrantId, note: Draft | None, *, now: int) -> Script[bool]:
    """The port's ``revoke_grant``."""
    revoked = yield from sql_grants.revoke(grant_id)
    if revoked:
        yield from noted(note, now)
    return revoked


def noted(note: Draft | None, now: int) -> Script[None]:
    """Write a note into the system stream; None: there is nothing to write."""
    if note is not None:
        yield from record([note], SYSTEM_STREAM, now=now)


def _token_row(token_hash: str, kind: str, name: str, roles: str, created_at: int, revoked: int) -> TokenRow:
    return TokenRow(
        token_hash=token_hash,
        kind=_TOKEN_KINDS[kind],
        name=text(name),
        roles=tuple(map(text, json.loads(roles))),
        created_at=from_us(created_at),
        revoked=granting.is_revoked(revoked),
    )
