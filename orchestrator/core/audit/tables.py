"""The tables beside the journal, compared with the items: tasks, grants, tokens.

Theory. A row is written in the transaction of its item, so it follows from the items, and a change of a row alone is
found. While a node works, rows change during the read. So a table is read twice, before its items and after them: an
item says each value that a row had before, and a row has afterwards each value that an item says. At rest both reads
are the same, and no question is left open.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import ValidationError

from orchestrator.core.approval.grants import Grant
from orchestrator.core.audit.chain import SYSTEM_STREAM, Fault, beside, fault_of
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.system_facts import (
    OWNER,
    ComputersArrived,
    GrantRevoked,
    TaskPruned,
    TokenIssued,
    TokenRevoked,
)
from orchestrator.core.task.task import AgentTask
from orchestrator.core.values import to_us

PROMPT_HEAD_CHARS: Final = 200
"""What the row of a task, and so a list, shows of a prompt: a line or two, however long the prompt is."""

PAIRING: Final = "pairing"
"""The kind of a code by which a computer joins, and how a computer proved itself that used one."""
CODE_LIFE: Final = timedelta(minutes=15)
"""How long a code can be used."""
MADE_US: Final = 60_000_000
"""Between the note of a token and the transaction that keeps it."""

Row = Mapping[str, Any]
"""A row by its columns, of whatever type somebody put there."""
Rows = Mapping[str, Row]
"""The rows of a table by their keys."""


def token_fingerprint(token_hash: str) -> str:
    """What ties the item of a token to its row, without saying the hash that the row has."""
    return hashlib.sha256(token_hash.encode()).hexdigest()


def task_row_faults(row: Row, task: AgentTask) -> list[Fault]:
    """The columns of a task's row that its items do not confirm; the chain checks its version and head."""
    expected = {
        "status": task.status.value,
        "user_id": task.user_id,
        "session_id": task.session_id,
        "prompt": task.prompt[:PROMPT_HEAD_CHARS],
        "computers": list(task.computers),
        "priority": task.priority,
        "created_at": _us(task.created_at),
        "updated_at": _us(task.updated_at),
        "pinned": int(task.pinned),
    }
    found = {**row, "computers": _listed(row["computers"])}
    return [
        beside(
            task.task_id, "row", f"The row of {task.task_id} has {name} {found[name]!r}, and its items say {said!r}."
        )
        for name, said in expected.items()
        if found[name] != said
    ]


# -- grants ------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class GrantBook:
    """The grants as the items tell them."""

    given: dict[str, Grant] = field(default_factory=dict)
    used: Counter[str] = field(default_factory=Counter)
    revoked: set[str] = field(default_factory=set)
    pruned: set[str] = field(default_factory=set)
    """The grants that went with the task that gave them."""

    def take(self, item: AgentTaskItem) -> None:
        """The next item of any stream."""
        match item.fact:
            case facts.DecisionRecorded() as fact:
                self.given.update({grant.grant_id: grant for grant in fact.grants})
            case facts.ToolStarted(grant_id=str(grant_id)):
                self.used[grant_id] += 1
            case GrantRevoked() as fact:
                self.revoked.add(fact.grant_id)
            case TaskPruned() as fact:
                self.pruned.update(fact.grants)
                self.used.update(fact.uses)
            case ComputersArrived() as fact:
                self.pruned.update(fact.grants)

    def faults(self, before: Rows, after: Rows) -> Iterator[Fault]:
        """Where the rows, as they were before and after the items were read, are not what the items say."""
        for grant_id in before.keys() - self.given.keys():
            yield _grant(grant_id, "is in the table, and no decision gave it")
        # One that was given after its task was read has a row by now.
        for grant_id in self.used.keys() - self.given.keys() - after.keys() - self.pruned:
            yield _grant(grant_id, "was used, and no decision gave it")
        for grant_id, grant in self.given.items():
            row = after.get(grant_id)
            if row is None:
                yield _grant(grant_id, "was given, and is not in the table")
                continue
            yield from self._differences(grant, before.get(grant_id), row)

    def _differences(self, grant: Grant, before: Row | None, row: Row) -> Iterator[Fault]:
        grant_id, used = grant.grant_id, self.used[grant.grant_id]
        if _decoded(row["data"]) != grant:
            yield _grant(grant_id, "covers something else than the decision that gave it says")
        columns = {
            "task_id": grant.task_id,
            "session_id": grant.session_id,
            "user_id": grant.user_id,
            "expires_at": _us(grant.expires_at),
            "max_uses": grant.max_uses,
        }
        for name, said in columns.items():
            if row[name] != said:
                yield _grant(grant_id, f"has {name} {row[name]!r}, and the decision that gave it says {said!r}")
        if _number(row["uses"]) < used or (before is not None and _number(before["uses"]) > used):
            yield _grant(grant_id, f"counts {row['uses']!r} uses, and the items have {used}")
        if grant_id in self.revoked and not row["revoked"]:
            yield _grant(grant_id, "stands, and an item says that it was taken back")
        if before is not None and before["revoked"] and grant_id not in self.revoked:
            yield _grant(grant_id, "counts as taken back, and no item says by whom")


def _grant(grant_id: str, what: str) -> Fault:
    return beside("", "grant", f"The grant {grant_id} {what}.")


def _decoded(data: object) -> Grant | None:
    try:
        return Grant.model_validate_json(str(data))
    except ValidationError:
        return None


# -- tokens ------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class _Issued:
    """A token as the item that issued it has it."""

    holder: tuple[str, str]
    roles: tuple[str, ...]
    at: int
    """When, in microseconds."""
    revoked: bool = False


@dataclass(eq=False, repr=False)
class TokenBook:
    """The tokens as the system stream tells them."""

    named: dict[str, _Issued] = field(default_factory=dict)
    """The tokens whose item has their fingerprint."""
    begun: bool = False
    """Whether the system stream has an item."""
    impossible: list[Fault] = field(default_factory=list)
    """Items that the store writes for nobody."""
    _standing: defaultdict[tuple[str, str], list[_Issued]] = field(default_factory=lambda: defaultdict(list))

    def take(self, item: AgentTaskItem) -> None:
        """The next item of any stream, each in its order."""
        self.begun = self.begun or item.task_id == SYSTEM_STREAM
        match item.fact:
            case TokenIssued() as fact:
                owned = (OWNER + fact.owner,) if fact.owner else ()
                # Each place of a pairing has a meaning.
                roles = fact.roles if fact.holder_kind == PAIRING else tuple(sorted((*fact.roles, *owned)))
                issued = _Issued((fact.holder_kind, fact.name), roles, to_us(item.at))
                self._standing[issued.holder].append(issued)
                self.named[fact.fingerprint] = issued
            case TokenRevoked() as fact:
                ended = self._standing.pop((fact.holder_kind, fact.name), ())
                for issued in ended:
                    issued.revoked = True
                if fact.holder_kind == item.actor.auth == PAIRING:
                    self._used(item, fact.name, ended)

    def _used(self, item: AgentTaskItem, name: str, ended: Sequence[_Issued]) -> None:
        """A computer used a code, which can be done once, and for so long. One that version 0.6 made has no item."""
        made = [one.at for one in ended]
        why = ""
        if made and to_us(item.at) > max(made) + CODE_LIFE / timedelta(microseconds=1) + MADE_US:
            why = f"the code {name} was used after it had expired"
        elif not made and any(one.holder == (PAIRING, name) for one in self.named.values()):
            why = f"the code {name} was used after it had been used or revoked"
        if why:
            self.impossible.append(fault_of(item.task_id, item.version, "impossible", why))

    def faults(
        self, before: Rows, after: Rows, *, may_lack: Callable[[object], bool] = lambda _: True
    ) -> Iterator[Fault]:
        """As :meth:`GrantBook.faults`; where no node ever started, tokens say nothing.

        ``may_lack``: whether a pairing code that was made at a time may have no item, as those of version 0.6.
        """
        yield from self.impossible
        rows = {token_fingerprint(str(key)): key for key in after}
        for fingerprint, issued in self.named.items():
            if fingerprint not in rows:
                yield _token(*issued.holder, "was issued, and is not in the table")
            else:
                yield from _differences(issued, before.get(rows[fingerprint]), after[rows[fingerprint]])
        for fingerprint, key in rows.items():
            row = after[key]
            if fingerprint in self.named:
                continue
            if row["kind"] == PAIRING:
                if key in before and not may_lack(row["created_at"]):
                    yield _token(PAIRING, row["name"], "is in the table, and nobody made that code")
            elif key in before and self.begun:
                yield _token(
                    row["kind"], row["name"], f"with roles {row['roles']} is in the table, and nobody issued it"
                )


def _differences(issued: _Issued, before: Row | None, row: Row) -> Iterator[Fault]:
    kind, name = issued.holder
    if (row["kind"], row["name"]) != issued.holder:
        yield _token(kind, name, f"is one for {row['kind']} {row['name']} in the table")
    if _roles(row, kind) != list(issued.roles):
        said = ", ".join(issued.roles) or "none"
        yield _token(kind, name, f"has the roles {row['roles']} in the table, and was issued with {said}")
    if issued.revoked and not row["revoked"]:
        yield _token(kind, name, "was revoked, and the table lets it in again")
    if before is not None and before["revoked"] and not issued.revoked:
        yield _token(kind, name, "counts as revoked, and no item says by whom")

    made = _number(row["created_at"])
    if abs(made - issued.at) > (0 if kind == PAIRING else MADE_US):
        yield _token(kind, name, f"was made at {row['created_at']!r} in the table, and issued at {issued.at}")


def _token(kind: object, name: object, what: str) -> Fault:
    return beside("", "token", f"A token for {kind} {name} {what}.")


def _roles(row: Row, kind: object = "") -> list[str]:
    found = list(map(str, _listed(row["roles"]) or ()))
    return found if kind == PAIRING else sorted(found)


# ----------------------------------------------------------------------------------------


def request_faults(told: Sequence[str], of_task: str, raised_by: Mapping[str, str]) -> list[Fault]:
    """Requests that a stream's items raised and that the table does not have, or has for another task."""
    return [
        beside(of_task, "request", f"Request {one} was raised by {of_task}, and the table has {found or 'nothing'}.")
        for one in told
        if (found := raised_by.get(one)) != of_task
    ]


def _us(moment: datetime | None) -> int | None:
    """Microseconds since 1970 in UTC."""
    return None if moment is None else to_us(moment)


def _number(value: object) -> int:
    """A column that should be a number; -1: it is not a number."""
    return value if isinstance(value, int) else -1


def _listed(value: object) -> list[Any] | None:
    """A column that should be a JSON array; None: it is not an array."""
    try:
        found = json.loads(str(value))
    except ValueError:
        return None
    return found if isinstance(found, list) else None
