"""The doors that keep tasks and let them go."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.engine.tasks import person
from orchestrator.history.retention import Pruner, Rule
from orchestrator.web.answers.backups import PruneBody
from orchestrator.web.auth import must_have
from orchestrator.web.base import Room
from orchestrator.web.bodies import EmptyBody, short_form
from orchestrator.web.requests import read_body, task_id_of


class RetentionDoors(Room):
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
