"""The doors that tell and take back what a task changed."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.paths import canonical_path
from orchestrator.core.restoring.planning import Entry
from orchestrator.core.restoring.touches import Changes, Place, Touch, Untold, shown
from orchestrator.core.restoring.wanted import Restoration
from orchestrator.undoing import Preview, Undoing
from orchestrator.web.base import Room
from orchestrator.web.forms import UndoBody, short_form
from orchestrator.web.reading import read_body, task_id_of


class UndoDoors(Room):
    """``/v1/tasks/{id}/changes`` and ``/undo``."""

    undoing: Undoing

    async def changes(self, request: Request) -> Response:
        """``GET /v1/tasks/{id}/changes``."""
        await self.who(request, agents=True)
        task_id = task_id_of(request)
        changed = await self.undoing.changes(task_id)
        form = {"task_id": task_id, "changes": _changes(changed), "cannot_be_undone": _limits(changed.untold)}
        return JSONResponse(form)

    async def undo(self, request: Request) -> Response:
        """``POST /v1/tasks/{id}/undo``."""
        identity = await self.who(request)
        body = await read_body(request, UndoBody)
        wanted = _wanted(task_id_of(request), body)
        if body.dry_run:
            return JSONResponse(preview_form(wanted.task_id, await self.undoing.preview(wanted, identity)))
        return JSONResponse(short_form(await self.undoing.submit(wanted, identity)), status_code=201)


def _wanted(task_id: str, body: UndoBody) -> Restoration:
    """Raises UnsafePath for a path that leaves the computer, InvalidRequest for one that is no text."""
    if any("\ud800" <= character <= "\udfff" for path in (*body.paths, *body.choices) for character in path):
        raise InvalidRequest("A path has half of a character, a lone surrogate.", remedy="Send the character.")
    return Restoration(
        task_id=task_id,
        step=body.step,
        paths=tuple(canonical_path(path) for path in body.paths),
        on_conflict=body.on_conflict,
        choices=body.choices,
    )


def preview_form(task_id: str, preview: Preview) -> dict[str, object]:
    """A preview as JSON."""
    places = [_place(one) for one in preview.entries]
    return {"task_id": task_id, "places": places, "cannot_be_undone": _limits(preview.untold)}


def _changes(changed: Changes) -> list[dict[str, object]]:
    """Each place once, with what was there first and what is there last; what came back to what it was is left out."""
    first: dict[Place, Touch] = {}
    last: dict[Place, Touch] = {}
    for touch in changed.touches:
        first.setdefault(touch.place, touch)
        last[touch.place] = touch
    return [
        {**_named(place), "step": last[place].step, "before": first[place].before, "after": last[place].after}
        for place in first
        if first[place].before != last[place].after
    ]


def _limits(untold: Sequence[Untold]) -> list[dict[str, object]]:
    return [{"step": one.step, "tool": one.tool, "computer": one.computer, "what": one.what} for one in untold]


def _named(place: Place) -> dict[str, object]:
    return {"place": str(place), "computer": place.computer, "path": shown(place.path)}


def _place(entry: Entry) -> dict[str, object]:
    return {
        **_named(entry.place),
        "verdict": entry.verdict,
        "why": entry.why,
        "step": entry.goal.step,
        "target": entry.goal.target,
        "found": None if entry.found is None else entry.found.state,
    }
