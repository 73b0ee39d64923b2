"""The endpoints to backups of computers."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from orchestrator.core.audit.chain import SYSTEM_STREAM
from orchestrator.core.audit.wanted import Wanted
from orchestrator.core.errors import Forbidden, InvalidDecision, InvalidRequest
from orchestrator.core.ports import BackupRow, Identity
from orchestrator.core.task.facts import RequestId, TaskId, TaskSubmitted
from orchestrator.core.task.items import AgentTaskItem, decode_item
from orchestrator.core.text.redact import redact
from orchestrator.core.undo.messages import wanted_paths
from orchestrator.core.undo.telling import told_places
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.tasks import person
from orchestrator.history.audit import (
    Place,
    Reach,
    VerifyJob,
    as_written,
    check_store,
    names_of,
    newest_of,
    page_of,
    stories_of,
)
from orchestrator.history.audit.background import Background, BackgroundState
from orchestrator.history.backups import Backups
from orchestrator.history.retention import Pruner, Rule
from orchestrator.runtime.logs import SALT
from orchestrator.web.answers.history import (
    AuditItems,
    AuditStories,
    BackupAnswer,
    BackupBody,
    BackupGone,
    BackupList,
    BackupLong,
    BackupPath,
    BackupSkipped,
    Findings,
    Pinned,
    PruneBody,
    PrunedTaskAnswer,
    PruneOutcome,
    RestoreBody,
    RestorePreview,
    RestoreSubmitted,
    TransferList,
    Verifying,
)
from orchestrator.web.base import Room, as_json, no_computer
from orchestrator.web.bodies import EmptyBody, read_body, read_moment, read_number, task_id_of
from orchestrator.web.errors import redacted

# -- The endpoint to what is being read from computers ---------------------------------------


class TransferEndpoints(Room):
    """``/v1/transfers``."""

    transfers: Callable[[], Awaitable[list[dict[str, Any]]]]
    """Those of all nodes, the oldest first."""

    async def list_transfers(self, request: Request) -> TransferList:
        """``GET /v1/transfers``."""
        identity = await self.who(request, agents=True)
        rows = await self.transfers()
        return TransferList.read([one for one in rows if self.authorizer.reaches(identity, one["computer"])])


# -- The endpoints that keep tasks and let them go -------------------------------------------


class RetentionEndpoints(Room):
    """``/v1/prune``, ``/v1/tasks/{id}/pin`` and ``/unpin``."""

    pruner: Pruner

    async def prune(self, request: Request) -> PruneOutcome:
        """``POST /v1/prune``."""
        identity = await self.who(request)
        self.authorizer.must(identity, "everything")
        body = await read_body(request, PruneBody)
        rule = Rule(body.older_than_days, body.down_to_bytes) or self.pruner.rule
        done = await self.pruner.prune(rule, person(identity), dry_run=body.dry_run)
        tasks = [PrunedTaskAnswer.made_from(one, updated_at=one.at) for one in done.tasks]
        return PruneOutcome.made_from(done, dry_run=body.dry_run, tasks=tasks)

    async def pin(self, request: Request) -> Pinned:
        """``POST /v1/tasks/{id}/pin``."""
        return await self._pinned(request, pinned=True)

    async def unpin(self, request: Request) -> Pinned:
        """``POST /v1/tasks/{id}/unpin``."""
        return await self._pinned(request, pinned=False)

    async def _pinned(self, request: Request, *, pinned: bool) -> Pinned:
        identity = await self.who(request)
        await read_body(request, EmptyBody)
        task = await self.service.pin(task_id_of(request), identity, pinned=pinned)
        return Pinned.made_from(task)


# -- The endpoints to backups of computers ---------------------------------------------------


_Backup = TypeVar("_Backup", bound=BackupAnswer)


class BackupEndpoints(Room):
    """``/v1/backups``, ``/v1/computers/{name}/backups`` and ``/restore``."""

    backups: Backups

    async def make_backup(self, request: Request) -> BackupAnswer:
        """``POST /v1/computers/{name}/backups``."""
        identity = await self.who(request, agents=True)
        self.authorizer.must(identity, "submit")
        computer = await self._computer(request)
        body = await read_body(request, BackupBody)
        if not body.note.isprintable():
            raise InvalidRequest("A note is one line of text.", remedy="Leave out line ends and control characters.")
        return _answer(await self.backups.make(computer, identity, body.note), BackupAnswer)

    async def all_backups(self, request: Request) -> BackupList:
        """``GET /v1/backups``."""
        identity = await self.who(request, agents=True)
        found = await self.service.store.list_backups()
        rows = [row for row in found if self.authorizer.reaches(identity, row.fact.computer)]
        return BackupList(backups=[_answer(row, BackupAnswer) for row in rows])

    async def computer_backups(self, request: Request) -> BackupList:
        """``GET /v1/computers/{name}/backups``; also of one whose token was revoked."""
        await self.who(request, agents=True)
        name = ComputerId(request.path_params["name"])
        rows = await self.service.store.list_backups(name)
        if not rows:
            await self._computer(request)
        return BackupList(backups=[_answer(row, BackupAnswer) for row in rows])

    async def show_backup(self, request: Request) -> BackupLong:
        """``GET /v1/computers/{name}/backups/{backup_id}``."""
        await self.who(request, agents=True)
        row = await self._backup(request)
        paths = [BackupPath.made_from(one) for one in await self.backups.files(row)]
        return _answer(row, BackupLong, paths=paths)

    async def remove_backup(self, request: Request) -> BackupGone:
        """``DELETE /v1/computers/{name}/backups/{backup_id}``."""
        identity = await self.who(request)
        row = await self._backup(request)
        removed = await self.backups.remove(row, identity)
        return BackupGone(backup_id=row.fact.backup_id, removed=removed)

    async def restore(self, request: Request) -> Response:
        """``POST /v1/computers/{name}/restore``."""
        identity = await self.who(request, agents=True)
        self.authorizer.must(identity, "submit")
        computer = await self._computer(request)
        body = await read_body(request, RestoreBody)
        if any("\ud800" <= character <= "\udfff" for path in body.paths for character in path):
            raise InvalidRequest("A path has half of a character, a lone surrogate.", remedy="Send the character.")
        row = await self.backups.find(computer, body.backup)
        paths = wanted_paths(body.paths)
        wanted = self.backups.wanted(row, paths, exact=body.exact)
        online = await self.backups.undoing.world.reaches(computer)
        if body.dry_run:
            places = list(told_places((await self.backups.preview(wanted, identity)).entries))
            came_since = await self.backups.came_since(wanted)
            told = RestorePreview.made_from(
                row.fact, online=online, exact=body.exact, came_since=came_since, places=places
            )
            return as_json(told, 200)
        task = await self.backups.restore(row, wanted, identity)
        submitted = RestoreSubmitted.made_from(row.fact, online=online, task_id=task.task_id, status=task.status)
        return as_json(submitted, 201)

    async def _computer(self, request: Request) -> ComputerId:
        name = request.path_params["name"]
        if not await self.has_computer(name):
            raise no_computer(name)
        return ComputerId(name)

    async def _backup(self, request: Request) -> BackupRow:
        return await self.backups.find(ComputerId(request.path_params["name"]), request.path_params["backup_id"])


def _answer(row: BackupRow, of: type[_Backup], **others: Any) -> _Backup:
    skipped = [BackupSkipped(path=path, why=why) for path, why in row.fact.skipped.items()]
    return of.made_from(row.fact, at=row.at, by=row.by, skipped=skipped, **others)


# -- The endpoints to the audit: what happened, whether it is as it was written, and whether it was in order
#
# Reviewers and admins read all of it; the submitter of a task reads the part about that task. All that is given out is
# without secrets; the whole goes only to admins who ask for it (promise A8).

_SHA256: Final = re.compile("[0-9a-fA-F]{64}")
_CURSOR: Final = re.compile("([0-9]{1,12}):(.{1,200})")


class AuditEndpoints(Room):
    """``/v1/audit``."""

    background: Background
    verifying: VerifyJob

    async def audit(self, request: Request) -> AuditItems | AuditStories:
        """``GET /v1/audit?task=&system=&request=&by=&kind=&since=&sha256=&after=&limit=&order=&whole=``."""
        identity = await self.who(request)
        whole = _is_on(request, "whole")
        if whole:
            self.authorizer.must(identity, "everything")
        reach = await self._reach(request, identity)
        wanted, after, limit = _wanted(request), _cursor(request), int(read_number(request, "limit", 200, 1, 1000))
        if sha256 := request.query_params.get("sha256", ""):
            stories = await stories_of(self.service.store, await self._streams(reach), sha256=_digest(sha256))
            answer = AuditStories(stories=stories, redacted=not whole)
            return answer if whole else await redacted(answer)
        read = newest_of if request.query_params.get("order") == "newest" else page_of
        page = await read(self.service.store, reach, wanted, after, limit)
        items = await asyncio.to_thread(lambda: [_as_told(item, whole=whole) for item in page.items])
        place = None if page.next is None else f"{page.next.version}:{page.next.stream}"
        # An item is told as it was written, and that is not to be filled up with fields that came later.
        return AuditItems.model_construct(items=items, next=place, redacted=not whole)

    async def audit_verify(self, request: Request) -> Response:
        """``GET /v1/audit/verify?wait_s=&full=``: streams against chains and the last checkpoint, and the tables.

        One goes on at a time, for all who ask, and ends once nobody does.
        """
        self._must_read_all(await self.who(request))
        wait_s = read_number(request, "wait_s", -1.0, 0.0, 60.0)
        full = _is_on(request, "full") if request.query_params.get("full") else None
        found = await self.verifying.ask(None if wait_s < 0 else wait_s, _gone(request), full=full)
        if found is None:
            return as_json(Verifying(done=self.verifying.done, of=self.verifying.of), 202)
        return as_json(found, 200)

    async def audit_verify_cancel(self, request: Request) -> Verifying:
        """``DELETE /v1/audit/verify``: end the present one, for all who ask."""
        self._must_read_all(await self.who(request))
        done, of = self.verifying.done, self.verifying.of
        if not self.verifying.cancel():
            raise InvalidDecision("No verification goes on here.", remedy="`cc-orchestrator audit verify` begins one.")
        return Verifying(done=done, of=of)

    async def audit_background(self, request: Request) -> BackgroundState:
        """``GET /v1/audit/background``: how far it is, and what it found."""
        self._must_read_all(await self.who(request))
        return await self.background.told()

    async def audit_background_look(self, request: Request) -> BackgroundState:
        """``POST /v1/audit/background``: look now."""
        self._must_read_all(await self.who(request))
        await read_body(request, EmptyBody)
        return await self.background.wanted()

    async def audit_background_cancel(self, request: Request) -> BackgroundState:
        """``DELETE /v1/audit/background``: end the present look."""
        self._must_read_all(await self.who(request))
        return await self.background.unwanted()

    async def audit_check(self, request: Request) -> Findings:
        """``GET /v1/audit/check?task=``: calls that ran and were not allowed, calls that were allowed and never ran."""
        identity = await self.who(request)
        findings = await check_store(self.service.store, await self._streams(await self._reach(request, identity)))
        return Findings(findings=findings)

    async def _reach(self, request: Request, identity: Identity) -> Reach:
        """The part that is asked about and that this person may read. Raises NotFound, Forbidden."""
        if _is_on(request, "system"):
            self._must_read_all(identity)
            return Reach(SYSTEM_STREAM)
        stream = await self._asked_about(request)
        if stream == SYSTEM_STREAM:
            self._must_read_all(identity)
        elif stream is not None and not self.authorizer.sees_user(identity, await self._requester(stream) or ""):
            raise await self.service.no_task(TaskId(stream))
        if stream is not None:
            return Reach(stream)
        users = self.authorizer.visible_users(identity)
        reads_all = users is None and "audit" in self.authorizer.holder(identity).rights
        return Reach(users=None if reads_all else users or frozenset({identity.name}))

    def _must_read_all(self, identity: Identity) -> None:
        """Raises Forbidden unless somebody may read what belongs to no task, and so tells of everybody."""
        self.authorizer.must(identity, "audit")
        if self.authorizer.visible_users(identity) is not None:
            raise Forbidden(
                f"{identity.name} sees only their own groups, and this tells of everybody.",
                remedy="An admin may read it.",
            )

    async def _streams(self, reach: Reach) -> list[str]:
        return [name async for name in names_of(self.service.store, reach)]

    async def _asked_about(self, request: Request) -> str | None:
        """The one task that is named, or whose request is; None: no single one. Raises NotFound.

        Nothing is folded for it: of a journal that was tampered with the audit has to be read too.
        """
        if task_id := request.query_params.get("task"):
            if not await self.service.store.kept_items(task_id, 0, 1):
                raise await self.service.no_task(TaskId(task_id))
            return task_id
        if request_id := request.query_params.get("request"):
            with contextlib.suppress(InvalidDecision, InvalidRequest):
                return (await self.service.for_request(RequestId(request_id))).task_id
        return None

    async def _requester(self, stream: str) -> str | None:
        """The requester of a stream's task, by its first item."""
        first = decode_item((await self.service.store.kept_items(stream, 0, 1))[0].data).fact
        return first.user_id if isinstance(first, TaskSubmitted) else None


async def _gone(request: Request) -> None:
    """Until the asker has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _as_told(item: AgentTaskItem, *, whole: bool) -> dict[str, Any]:
    """An item as it was written, or without its secrets and with whether there were any: its hash is over them."""
    value = as_written(item)
    if whole:
        return value
    shown = redact(value["fact"], salt=SALT)
    return {**value, "fact": shown, "redacted": shown != value["fact"]}


def _wanted(request: Request) -> Wanted:
    query = request.query_params
    since = query.get("since")
    return Wanted(
        request_id=query.get("request", ""),
        by=query.get("by", ""),
        kind=query.get("kind", ""),
        since=None if not since else read_moment(since),
    )


def _digest(text: str) -> str:
    if not _SHA256.fullmatch(text):
        raise InvalidRequest("sha256 has 64 hexadecimal digits.", remedy="`sha256sum FILE` prints it.")
    return text.lower()


def _cursor(request: Request) -> Place | None:
    text = request.query_params.get("after", "")
    found = _CURSOR.fullmatch(text)
    if text and found is None:
        raise InvalidRequest("after is not a value that this endpoint gave.", remedy="Send the last answer's next.")
    return None if found is None else Place(found[2], int(found[1]))


def _is_on(request: Request, name: str) -> bool:
    return request.query_params.get(name, "") in ("1", "true")
