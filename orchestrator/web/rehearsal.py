"""The door that tells what a rehearsal came to."""

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.history.rehearsal import Rehearsals, Shown, ShownChange
from orchestrator.web.base import Room
from orchestrator.web.bodies import EmptyBody, short_form
from orchestrator.web.redaction import without_secrets
from orchestrator.web.requests import read_body, task_id_of


class RehearsalDoors(Room):
    """``/v1/tasks/{id}/rehearsal``."""

    rehearsals: Rehearsals

    async def rehearsal(self, request: Request) -> Response:
        """``GET /v1/tasks/{id}/rehearsal``."""
        await self.who(request, agents=True)
        task = await self.service.load(task_id_of(request))
        shown = await self.rehearsals.shown(task)
        diffs = await without_secrets([one.diff for one in shown.changes])
        changes = tuple(replace(one, diff=diff) for one, diff in zip(shown.changes, diffs, strict=True))
        return JSONResponse(_form(task.task_id, replace(shown, changes=changes)))

    async def apply_rehearsal(self, request: Request) -> Response:
        """``POST /v1/tasks/{id}/rehearsal``: ask for what it changed, also where it failed or was canceled."""
        identity = await self.who(request)
        task_id = task_id_of(request)
        await read_body(request, EmptyBody)
        applied_by = await self.rehearsals.ends.apply(task_id, identity)
        return JSONResponse(short_form(await self.service.load(applied_by)), status_code=201)


def _form(task_id: str, shown: Shown) -> dict[str, object]:
    """What a rehearsal came to, as JSON."""
    return {
        "task_id": task_id,
        "computer": shown.rehearsal.computer,
        "state": shown.state,
        "message": shown.message,
        "applied_by": shown.applied_by,
        "outcome": shown.outcome.model_dump(mode="json") if shown.outcome is not None else None,
        "left_out": dict(shown.rehearsal.left_out),
        "changed": shown.changed,
        "changes": [_change(shown, one) for one in shown.changes],
    }


def _change(shown: Shown, one: ShownChange) -> dict[str, object]:
    return {
        "place": f"{shown.rehearsal.computer}:{one.path}",
        "path": one.path,
        "before": one.before,
        "after": one.after,
        "diff": one.diff,
        "cut": one.cut,
        "binary": one.binary,
    }
