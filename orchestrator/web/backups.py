"""The endpoints to backups of computers."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.core.errors import InvalidRequest, NotFound
from orchestrator.core.ports import BackupRow
from orchestrator.core.undo.messages import wanted_paths
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.tasks import person
from orchestrator.history.backups import Backups
from orchestrator.history.retention import Pruner, Rule
from orchestrator.web.answers.backups import BackupBody, PruneBody, RestoreBody
from orchestrator.web.auth import must_have
from orchestrator.web.base import Room
from orchestrator.web.bodies import EmptyBody, read_body, short_form, task_id_of
from orchestrator.web.tasks import preview_form

# -- The endpoint to what is being read from computers ---------------------------------------


class TransferEndpoints(Room):
    """``/v1/transfers``."""

    transfers: Callable[[], Awaitable[list[dict[str, Any]]]]
    """Those of all nodes, the oldest first."""

    async def list_transfers(self, request: Request) -> Response:
        """``GET /v1/transfers``."""
        await self.who(request, agents=True)
        return JSONResponse({"transfers": await self.transfers()})


# -- The endpoints that keep tasks and let them go -------------------------------------------


class RetentionEndpoints(Room):
    """``/v1/prune``, ``/v1/tasks/{id}/pin`` and ``/unpin``."""

    pruner: Pruner

    async def prune(self, request: Request) -> Response:
        """``POST /v1/prune``."""
        identity = await self.who(request)
        must_have(identity, "admin")
        body = await read_body(request, PruneBody)
        rule = Rule(body.older_than_days, body.down_to_bytes) or self.pruner.rule
        done = await self.pruner.prune(rule, person(identity), dry_run=body.dry_run)
        tasks = [{"task_id": one.task_id, "why": one.why, "updated_at": one.at.isoformat()} for one in done.tasks]
        sizes = {"blobs": done.blobs, "bytes": done.bytes, "left": done.left}
        return JSONResponse({"dry_run": body.dry_run, "tasks": tasks, **sizes})

    async def pin(self, request: Request) -> Response:
        """``POST /v1/tasks/{id}/pin``."""
        return await self._pinned(request, pinned=True)

    async def unpin(self, request: Request) -> Response:
        """``POST /v1/tasks/{id}/unpin``."""
        return await self._pinned(request, pinned=False)

    async def _pinned(self, request: Request, *, pinned: bool) -> Response:
        identity = await self.who(request)
        await read_body(request, EmptyBody)
        task = await self.service.pin(task_id_of(request), identity, pinned=pinned)
        return JSONResponse({**short_form(task), "pinned": task.pinned})


# -- The endpoints to backups of computers ---------------------------------------------------


class BackupEndpoints(Room):
    """``/v1/backups``, ``/v1/computers/{name}/backups`` and ``/restore``."""

    backups: Backups

    async def make_backup(self, request: Request) -> Response:
        """``POST /v1/computers/{name}/backups``."""
        identity = await self.who(request, agents=True)
        must_have(identity, "submitter")
        computer = await self._computer(request)
        body = await read_body(request, BackupBody)
        if not body.note.isprintable():
            raise InvalidRequest("A note is one line of text.", remedy="Leave out line ends and control characters.")
        return JSONResponse(_form(await self.backups.make(computer, identity, body.note)), status_code=201)

    async def all_backups(self, request: Request) -> Response:
        """``GET /v1/backups``."""
        await self.who(request, agents=True)
        rows = await self.service.store.list_backups()
        return JSONResponse({"backups": [_form(row) for row in rows]})

    async def computer_backups(self, request: Request) -> Response:
        """``GET /v1/computers/{name}/backups``; also of one whose token was revoked."""
        await self.who(request, agents=True)
        name = ComputerId(request.path_params["name"])
        rows = await self.service.store.list_backups(name)
        if not rows:
            await self._computer(request)
        return JSONResponse({"backups": [_form(row) for row in rows]})

    async def show_backup(self, request: Request) -> Response:
        """``GET /v1/computers/{name}/backups/{backup_id}``."""
        await self.who(request, agents=True)
        row = await self._backup(request)
        paths = [{"path": one.path, "state": one.state, "size": one.size} for one in await self.backups.files(row)]
        return JSONResponse({**_form(row), "paths": paths})

    async def remove_backup(self, request: Request) -> Response:
        """``DELETE /v1/computers/{name}/backups/{backup_id}``."""
        identity = await self.who(request)
        row = await self._backup(request)
        removed = await self.backups.remove(row, identity)
        return JSONResponse({"backup_id": row.fact.backup_id, "removed": removed})

    async def restore(self, request: Request) -> Response:
        """``POST /v1/computers/{name}/restore``."""
        identity = await self.who(request, agents=True)
        must_have(identity, "submitter")
        computer = await self._computer(request)
        body = await read_body(request, RestoreBody)
        if any("\ud800" <= character <= "\udfff" for path in body.paths for character in path):
            raise InvalidRequest("A path has half of a character, a lone surrogate.", remedy="Send the character.")
        row = await self.backups.find(computer, body.backup)
        paths = wanted_paths(body.paths)
        wanted = self.backups.wanted(row, paths, exact=body.exact)
        of = {
            "backup_id": row.fact.backup_id,
            "computer": computer,
            "online": self.backups.undoing.world.online(computer),
        }
        if body.dry_run:
            preview = await self.backups.preview(wanted, identity)
            came_since = await self.backups.came_since(wanted)
            places = preview_form("", preview)["places"]
            return JSONResponse({**of, "exact": body.exact, "came_since": came_since, "places": places})
        task = await self.backups.restore(row, wanted, identity)
        return JSONResponse({**short_form(task), **of}, status_code=201)

    async def _computer(self, request: Request) -> ComputerId:
        name = request.path_params["name"]
        if name not in await self.computer_names():
            raise NotFound(
                f"There is no computer {name[:64]!r}.",
                remedy="`cc-orchestrator computers` lists them, `cc-orchestrator pair` connects one.",
            )
        return ComputerId(name)

    async def _backup(self, request: Request) -> BackupRow:
        return await self.backups.find(ComputerId(request.path_params["name"]), request.path_params["backup_id"])


def _form(row: BackupRow) -> dict[str, Any]:
    told = row.fact.model_dump(mode="json", exclude={"kind", "skipped"})
    skipped = [{"path": path, "why": why} for path, why in row.fact.skipped.items()]
    return {**told, "at": row.at.isoformat(), "by": row.by, "skipped": skipped}
