"""The doors that tell and take back what a task changed."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.core.undo.messages import UndoRequest, told_changes, told_limits, told_places
from orchestrator.engine.undo import Preview, Undoing
from orchestrator.web.base import Room
from orchestrator.web.bodies import short_form
from orchestrator.web.requests import key_of, read_body, task_id_of


class UndoDoors(Room):
    """``/v1/tasks/{id}/changes`` and ``/undo``."""

    undoing: Undoing

    async def changes(self, request: Request) -> Response:
        """``GET /v1/tasks/{id}/changes``."""
        await self.who(request, agents=True)
        task_id = task_id_of(request)
        changed = await self.undoing.changes(task_id)
        places, limits = _plain(told_changes(changed)), _plain(told_limits(changed.untold))
        form = {"task_id": task_id, "changes": places, "cannot_be_undone": limits}
        more = {"not_heard": changed.open, "unseen": changed.unseen}
        return JSONResponse({**form, **{name: _plain(told_limits(one)) for name, one in more.items()}})

    async def undo(self, request: Request) -> Response:
        """``POST /v1/tasks/{id}/undo``."""
        identity = await self.who(request)
        body = await read_body(request, UndoRequest)
        wanted = body.of_task(task_id_of(request))
        key = key_of(request, body.idempotency_key)
        if body.dry_run:
            return JSONResponse(preview_form(wanted.task_id, await self.undoing.preview(wanted, identity)))
        return JSONResponse(short_form(await self.undoing.submit(wanted, identity, key=key)), status_code=201)


def preview_form(task_id: str, preview: Preview) -> dict[str, object]:
    """A preview as JSON."""
    places, limits = _plain(told_places(preview.entries)), _plain(told_limits(preview.untold))
    form = {"task_id": task_id, "places": places, "cannot_be_undone": limits}
    return {**form, "not_heard": _plain(told_limits(preview.open))}


def _plain(told: Sequence[BaseModel]) -> list[dict[str, Any]]:
    return [one.model_dump(mode="json") for one in told]
