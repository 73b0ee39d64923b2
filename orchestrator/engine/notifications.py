"""The notifier: the rows of the outbox, one delivery for each rule that wants them, sent until they are taken or dead.

Theory. A row of the outbox was written with its item, so that no crash loses it. One node at a time turns it into
deliveries (a singleton job). Before each attempt it writes down that the attempt begins and by when it has ended. The
write succeeds only for the row as it was read: no delivery has two attempts at once, also where two nodes believe that
they have the job. A node that dies in an attempt leaves a row that is due again: each message is sent at least once.
Rights are looked at when a message is made, not when its item came.
"""

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from orchestrator.core.approval.notices import (
    Told,
    grouped,
    message_id,
    next_attempt,
    notable,
    quiet_until,
    told_of_computer,
    told_of_task,
)
from orchestrator.core.errors import JournalBroken, NewerSchema, NotFound, OrchestratorError
from orchestrator.core.ports import Identity, Message, Messenger, NoticeRow
from orchestrator.core.task.facts import Fact, TaskId
from orchestrator.core.task.items import SYSTEM
from orchestrator.core.task.system_facts import ComputerFrozen, DirectoryChanged, Notable, NoticeState, NotifyValue
from orchestrator.core.task.task import AgentTask
from orchestrator.engine.directory import DirectoryKeeper
from orchestrator.engine.tasks import TaskService

logger = logging.getLogger(__name__)

DUTY: Final = "notifications"
DUTY_S: Final = 30.0
LOOK_S: Final = 5.0
"""A look that nothing asked for: a retry is due, quiet hours end, or a notification of the bus was lost."""
APART_S: Final = 0.2
"""The least time between two looks: every item of every task asks for one."""
ATTEMPT_S: Final = 20.0
"""After so long an attempt has ended or its node has: the messenger gives up earlier."""
FORGET_S: Final = 3600.0
SENT_FOR: Final = timedelta(days=1)
"""How long it is shown that a message was sent."""
DEAD_FOR: Final = timedelta(days=30)
_MOST: Final = 1000


@dataclass(frozen=True)
class _About:
    """What a row is about."""

    kind: Notable
    fact: Fact
    task: AgentTask | None
    """As it is now; None: a computer."""

    def told(self, *, details: bool) -> Told:
        if self.task is not None:
            return told_of_task(self.task, self.fact, self.kind, details=details)
        assert isinstance(self.fact, ComputerFrozen), "nothing else without a task is notable"
        return told_of_computer(self.fact)


def _zone(name: str) -> tzinfo:
    """A time zone; one that another node of the store knew and this one does not is UTC."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


class Notifier:
    """Sends the notifications of an installation."""

    def __init__(self, service: TaskService, directory: DirectoryKeeper, messenger: Messenger, page: str) -> None:
        """``page``: the address of the page, to which links lead."""
        self._service = service
        self._store = service.store
        self._directory = directory
        self.messenger = messenger
        self._page = page.rstrip("/")
        self._woken = asyncio.Event()
        self._sending: dict[str, asyncio.Task[None]] = {}
        """One for each rule: a receiver that is slow holds up nobody else."""
        self._forget_at: datetime | None = None
        self._mine = False
        self._ask_at = 0.0

    # -- the job ---------------------------------------------------------------------------

    async def keep(self) -> None:
        """Look and send, until canceled."""
        bus = self._service.bus
        ends = [bus.subscribe(subject, lambda _: self._woken.set()) for subject in ("tasks", "computers")]
        try:
            while True:
                self._woken.clear()
                try:
                    if await self._has_duty():
                        await self.look()
                except OrchestratorError as error:
                    logger.debug("the outbox is looked at again soon: %s", error)
                await asyncio.sleep(APART_S)
                try:
                    async with asyncio.timeout(LOOK_S):
                        await self._woken.wait()
                except TimeoutError:
                    pass
        finally:
            for end in ends:
                end()
            for one in self._sending.values():
                one.cancel()
            await asyncio.gather(*self._sending.values(), return_exceptions=True)
            await self._service.duties.leave(DUTY)

    async def _has_duty(self) -> bool:
        """Whether this node has the job; the store is asked now and then, and not at each look."""
        now = asyncio.get_running_loop().time()
        if now >= self._ask_at:
            self._mine = await self._service.duties.take(DUTY, DUTY_S)
            self._ask_at = now + DUTY_S / 3
        return self._mine

    async def look(self) -> None:
        """Turn what is new into deliveries, and begin to send what is due."""
        rows = await self._store.due_notices(_MOST)
        if new := [row for row in rows if row.state == "new"]:
            await self._spread(new)
            rows = await self._store.due_notices(_MOST)
        batches: dict[tuple[str, str], list[NoticeRow]] = {}
        for row in rows:
            if row.state == "waiting":
                batches.setdefault((row.rule, row.batch or row.notice), []).append(row)
        for (rule, _), batch in batches.items():
            if rule not in self._sending:
                self._sending[rule] = asyncio.create_task(self._send(rule, batch))
                self._sending[rule].add_done_callback(partial(self._sent, rule))
        await self._forget()

    async def idle(self) -> None:
        """Wait until nothing is being sent."""
        while self._sending:
            await asyncio.wait(self._sending.values())

    def _sent(self, rule: str, done: "asyncio.Task[None]") -> None:
        del self._sending[rule]
        self._woken.set()
        if not done.cancelled() and (error := done.exception()) is not None:
            # What an attempt begins and does not end is due again by itself. Another error's text may have the address.
            why = error if isinstance(error, OrchestratorError) else type(error).__name__
            logger.warning("a notification is tried again: %s", why)

    async def _forget(self) -> None:
        now = self._service.clock.now()
        if self._forget_at is None or now >= self._forget_at:
            self._forget_at = now + timedelta(seconds=FORGET_S)
            await self._store.forget_notices(sent=now - SENT_FOR, dead=now - DEAD_FOR)

    # -- from an item to deliveries ----------------------------------------------------------

    async def _spread(self, rows: Sequence[NoticeRow]) -> None:
        await self._directory.load()
        rules, people = self._directory.rules, await self._people()
        wanted: list[NoticeRow] = []
        for row in rows:
            about = await self._about(row)
            wanted += [
                self._delivery(row, about.kind, name, rule)
                for name, rule in sorted(rules.items())
                if about is not None and about.kind in rule.kinds and self._concerns(rule, about, people)
            ]
        await self._store.replace_notices(rows, wanted)

    def _delivery(self, row: NoticeRow, kind: Notable, name: str, rule: NotifyValue) -> NoticeRow:
        now = self._service.clock.now()
        local = now.astimezone(_zone(rule.zone)) if rule.quiet_from else now
        until = quiet_until(local, rule.quiet_from, rule.quiet_to)
        due = now if until is None else until.astimezone(UTC)
        batch = "" if until is None else due.isoformat()
        return replace(row, kind=kind, rule=name, state="waiting", due=due, batch=batch)

    async def _about(self, row: NoticeRow) -> _About | None:
        """None: it was pruned, is not as it was written, or is nothing that people are told of."""
        try:
            items = await self._store.read(TaskId(row.stream), row.version - 1)
            fact = items[0].fact if items else None
            kind = None if fact is None else notable(fact)
            if fact is None or kind is None or isinstance(fact, ComputerFrozen):
                return None if fact is None or kind is None else _About(kind, fact, None)
            task = await self._store.load(TaskId(row.stream))
        except (JournalBroken, NewerSchema):
            return None
        return None if task is None else _About(kind, fact, task)

    async def _people(self) -> Mapping[str, Identity]:
        """Everybody who has a token that counts, with all their roles."""
        roles: dict[str, set[str]] = {}
        for row in await self._store.list_tokens():
            if row.kind == "person" and not row.revoked:
                roles.setdefault(row.name, set()).update(row.rights)
        return {name: Identity(kind="person", name=name, roles=tuple(sorted(has))) for name, has in roles.items()}

    def _concerns(self, rule: NotifyValue, about: _About, people: Mapping[str, Identity]) -> bool:
        """Whether a rule's person may decide, answer or see it; the installation's rules have everything."""
        if not rule.person:
            return True
        who, authorizer = people.get(rule.person), self._service.authorizer
        if who is None:
            return False
        if about.task is None:
            return isinstance(about.fact, ComputerFrozen) and authorizer.reaches(who, about.fact.computer)
        if about.kind in ("waits_for_you", "question"):
            return authorizer.may_decide(who, about.task, "answer" if about.kind == "question" else "approve")
        return authorizer.sees_user(who, about.task.user_id)

    # -- from deliveries to messages -----------------------------------------------------------

    async def _send(self, name: str, rows: Sequence[NoticeRow]) -> None:
        """One attempt, written down before it begins and after it ended."""
        now = self._service.clock.now()
        if next_attempt(max(row.attempts for row in rows), now) is None:
            await self._end(rows, "The server stopped in the last attempt.")
            return
        due = now + timedelta(seconds=ATTEMPT_S)
        begun = [replace(row, attempts=row.attempts + 1, due=due) for row in rows]
        if not await self._store.replace_notices(rows, begun):
            return
        rule = self._directory.rules.get(name)
        told = [] if rule is None else await self._told(rule, begun)
        if rule is None or not told:
            # The rule is gone, or its person may not see it any more.
            await self._store.replace_notices(begun, [])
            return
        why = await self._try(name, rule, self._message(name, told))
        if why and name not in self._directory.rules:
            await self._store.replace_notices(begun, [])
            return
        await self._end(begun, why)

    async def _end(self, rows: Sequence[NoticeRow], why: str) -> None:
        """Write down what came of an attempt: ``why`` it failed; empty: it was taken."""
        now = self._service.clock.now()
        again = next_attempt(max(row.attempts for row in rows), now) if why else None
        state: NoticeState = "sent" if not why else "dead" if again is None else "waiting"
        await self._store.replace_notices(rows, [replace(row, state=state, due=again, why=why) for row in rows])
        if state == "dead":
            logger.warning("the rule %s got no message in %d attempts: %s", rows[0].rule, rows[0].attempts, why)

    async def _told(self, rule: NotifyValue, rows: Iterable[NoticeRow]) -> list[tuple[NoticeRow, _About, Told]]:
        people = await self._people()
        found = [(row, await self._about(row)) for row in rows]
        return [
            (row, about, about.told(details=rule.details))
            for row, about in found
            if about is not None and self._concerns(rule, about, people)
        ]

    def _message(self, name: str, told: Sequence[tuple[NoticeRow, _About, Told]]) -> Message:
        events = [self._event(*one) for one in told]
        ident = message_id([row.notice for row, _, _ in told])
        return self._made(ident, name, grouped([one for _, _, one in told], self._page), events)

    def _event(self, row: NoticeRow, about: _About, told: Told) -> dict[str, Any]:
        which = {"computer": about.fact.computer} if isinstance(about.fact, ComputerFrozen) else {"task_id": row.stream}
        said = {"text": told.text, "link": f"{self._page}/{told.route}"}
        more = {"details": told.details} if told.details else {}
        return {"id": row.event, "kind": about.kind, "at": row.made_at.isoformat(), **which, **said, **more}

    @staticmethod
    def _made(ident: str, name: str, text: str, events: Sequence[Mapping[str, Any]]) -> Message:
        body = {"id": ident, "rule": name.partition("/")[2], "text": text, "events": events}
        return Message(ident, text, json.dumps(body, ensure_ascii=False).encode())

    async def _try(self, name: str, rule: NotifyValue, message: Message) -> str:
        secret = await self._store.secret_of(rule.target)
        if secret is None:
            return f"The address of the rule {name.partition('/')[2]} is not in the store."
        kept = json.loads(secret)
        try:
            return await self.messenger.send(
                kept["url"], kept["key"], message, at=self._service.clock.now(), private=rule.private
            )
        except NotFound as gone:
            await self._remove(name, rule)
            return gone.message

    async def _remove(self, name: str, rule: NotifyValue) -> None:
        """Remove a rule whose address is gone, unless it is another one by now."""
        await self._directory.load()
        if self._directory.rules.get(name) == rule:
            note = self._service.draft(DirectoryChanged(about="notify", name=name), SYSTEM)
            expected = self._directory.number_of(f"notify {name}")
            await self._directory.set(note, self._service.bus, expected=expected)

    async def test(self, name: str, rule: NotifyValue) -> str:
        """Send a message that says it is a test, once; why it failed, as a sentence; empty: it was taken."""
        ident = message_id([name, self._service.clock.now().isoformat()])
        text = f"This is a test of the notification rule {name.partition('/')[2]}. {self._page}/"
        return await self._try(name, rule, self._made(ident, name, text, []))
