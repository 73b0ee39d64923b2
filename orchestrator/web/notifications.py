"""The endpoints to notification rules, and to what became of messages."""

import json
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from starlette.requests import Request

from orchestrator.core.approval.notices import time_of
from orchestrator.core.errors import Conflict, InvalidRequest, NotFound
from orchestrator.core.ports import SYSTEM_STREAM, Identity, NoticeRow
from orchestrator.core.task.system_facts import DirectoryChanged, NotifyValue
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.engine.directory import DirectoryKeeper
from orchestrator.engine.notifications import Notifier
from orchestrator.engine.tasks import person
from orchestrator.web.answers.base import (
    MessageTried,
    NoticeAnswer,
    NoticeList,
    QuietAnswer,
    RuleAnswer,
    RuleGone,
    RuleList,
    RuleMade,
)
from orchestrator.web.auth import check_name
from orchestrator.web.base import Room
from orchestrator.web.bodies import QuietBody, RuleBody, RuleNamedBody, read_body

MOST_RULES = 20
"""The rules of one person."""


class NotificationEndpoints(Room):
    """``/v1/notifications`` and what is below it."""

    directory: DirectoryKeeper
    notifier: Notifier

    async def notifications(self, request: Request) -> NoticeList:
        """``GET /v1/notifications``: the messages of one's own rules; of all rules for an admin."""
        identity = await self.who(request)
        rows = [row for row in await self.service.store.list_notices() if row.rule and self._reads(identity, row.rule)]
        return NoticeList(notifications=[_notice(row) for row in rows if await self._sees_subject(identity, row)])

    async def notification_rules(self, request: Request) -> RuleList:
        """``GET /v1/notifications/rules``: one's own rules; all of them for an admin."""
        identity = await self.who(request)
        rules = sorted(self.directory.rules.items())
        seen = [_rule(name, one) for name, one in rules if self._reads(identity, name)]
        return RuleList(rules=seen, push_key=self.notifier.messenger.push_key())

    async def add_notification_rule(self, request: Request) -> RuleMade:
        """``POST /v1/notifications/rules``: a new rule; the key of its webhooks is told once."""
        identity = await self.who(request)
        body = await read_body(request, RuleBody)
        whose = self._whose(identity, body.person, installation=body.installation)
        check_name(body.name)
        trusted = "everything" in self.authorizer.holder(identity).rights
        shown = await self.notifier.messenger.check(body.url, trusted=trusted)
        if (quiet := body.quiet) is not None:
            _check_quiet(quiet)
        await self.directory.load()
        await self._check_new_rule(whose, body.name)
        key = self.notifier.messenger.new_key()
        secret = json.dumps({"url": body.url, "key": key})
        rule = NotifyValue(
            person=whose,
            kinds=tuple(sorted(set(body.kinds))),
            target=sha256_hex(secret.encode()),
            shown=shown,
            private=trusted,
            quiet_from="" if quiet is None else quiet.begin,
            quiet_to="" if quiet is None else quiet.end,
            zone="" if quiet is None else quiet.zone,
            details=body.details,
        )
        fact = DirectoryChanged(about="notify", name=f"{whose}/{body.name}", value=rule)
        note = self.service.draft(fact, person(identity))
        await self.directory.set(note, self.service.bus, expected=0, secret=secret)
        signs = shown.startswith(("http:", "https:"))
        return RuleMade.made_from(_rule(fact.name, rule), signing_key=key if signs else None)

    async def remove_notification_rule(self, request: Request) -> RuleGone:
        """``DELETE /v1/notifications/rules/{rule}``: its address is forgotten, and what waits for it does not go."""
        identity = await self.who(request)
        said = request.query_params
        installation = said.get("installation") == "true"
        whose = self._whose(identity, said.get("person"), installation=installation)
        await self.directory.load()
        name = request.path_params["rule"]
        entry = self._known_rule(whose, name)
        note = self.service.draft(DirectoryChanged(about="notify", name=entry), person(identity))
        await self.directory.set(note, self.service.bus, expected=self.directory.number_of(f"notify {entry}"))
        return RuleGone(name=name)

    async def test_notification_rule(self, request: Request) -> MessageTried:
        """``POST /v1/notifications/test``: send a test by a rule, now and once."""
        identity = await self.who(request)
        body = await read_body(request, RuleNamedBody)
        whose = self._whose(identity, body.person, installation=body.installation)
        await self.directory.load()
        entry = self._known_rule(whose, body.name)
        why = await self.notifier.test(entry, self.directory.rules[entry])
        return MessageTried(delivered=not why, message=why)

    def _whose(self, identity: Identity, named: str | None, *, installation: bool) -> str:
        """The person of a rule; empty: the installation. Raises Forbidden, InvalidRequest."""
        if installation and named:
            raise InvalidRequest("A rule is of a person or of the installation.", remedy="Name one of the two.")
        whose = "" if installation else named or identity.name
        if whose != identity.name:
            self.authorizer.must(identity, "everything")
        return whose

    def _known_rule(self, whose: str, name: str) -> str:
        """The entry of a rule. Raises NotFound."""
        if f"{whose}/{name}" not in self.directory.rules:
            raise NotFound(
                f"There is no notification rule {name[:64]!r}.",
                remedy="`cc-orchestrator notifications list` lists them.",
            )
        return f"{whose}/{name}"

    async def _check_new_rule(self, whose: str, name: str) -> None:
        theirs = [one for one in self.directory.rules if one.partition("/")[0] == whose]
        if f"{whose}/{name}" in theirs:
            raise Conflict(
                f"There is a notification rule {name!r}.",
                remedy=f"Choose another name, or remove that one first: `cc-orchestrator notifications remove {name}`.",
            )
        if len(theirs) >= MOST_RULES:
            raise InvalidRequest(f"There are {MOST_RULES} notification rules.", remedy="Remove one of them first.")
        rows = await self.service.store.list_tokens() if whose else []
        if whose and ("person", whose) not in {(row.kind, row.name) for row in rows if not row.revoked}:
            raise NotFound(
                f"There is no person {whose[:64]!r}.", remedy="`cc-orchestrator people list` shows who there is."
            )

    def _reads(self, identity: Identity, entry: str) -> bool:
        """Whether somebody may see a rule: their own, all for admins."""
        return entry.partition("/")[0] == identity.name or "everything" in self.authorizer.holder(identity).rights

    async def _sees_subject(self, identity: Identity, row: NoticeRow) -> bool:
        """Whether somebody may see the task of a message now."""
        if row.stream == SYSTEM_STREAM:
            return True
        user = await self.user_of(row.stream)
        return user is not None and self.authorizer.sees_user(identity, user)


def _check_quiet(quiet: QuietBody) -> None:
    """Raises InvalidRequest for hours or a time zone that there are not."""
    if time_of(quiet.begin) == time_of(quiet.end):
        raise InvalidRequest(
            f"Quiet hours from {quiet.begin} to {quiet.end} have no length.",
            remedy="End them at another time; without quiet hours messages always come.",
        )
    try:
        ZoneInfo(quiet.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(
            f"The server knows no time zone {quiet.zone[:40]!r}.", remedy="Name one such as Europe/Berlin, or UTC."
        ) from None


def _rule(entry: str, rule: NotifyValue) -> RuleAnswer:
    quiet = QuietAnswer(begin=rule.quiet_from, end=rule.quiet_to, zone=rule.zone) if rule.quiet_from else None
    return RuleAnswer(
        name=entry.partition("/")[2],
        person=rule.person or None,
        kinds=list(rule.kinds),
        to=rule.shown,
        quiet=quiet,
        details=rule.details,
    )


def _notice(row: NoticeRow) -> NoticeAnswer:
    person_, _, name = row.rule.partition("/")
    return NoticeAnswer(
        event=row.event,
        kind=row.kind,
        rule=name,
        person=person_ or None,
        task_id=None if row.stream == SYSTEM_STREAM else row.stream,
        at=row.made_at,
        state=row.state,
        attempts=row.attempts,
        next_at=row.due,
        why=row.why,
    )
