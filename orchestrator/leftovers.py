"""What a task that did not end well had changed by then, and how it is put back: as lines for a terminal."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from orchestrator.client import Client
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.visible import one_line
from orchestrator.program import program

_NAMED: Final = 5
"""Changed places that are named."""
_BEGINS_S: Final = 2.0
"""An undo that the policy wants begins within a moment of the end, unless a computer has to come back first."""
_LOOK_S: Final = 0.1


def left_behind(
    client: Client, task_id: str, where: str = "", *, pause: Callable[[float], object] = time.sleep
) -> list[str]:
    """Lines about a task that is over; empty: it changed nothing, or nobody can say.

    ``where``: the options by which another command reaches the same server.
    """
    try:
        told = client.request("GET", f"/v1/tasks/{task_id}/changes")
        changed, open_ = told["changes"], told.get("not_heard", [])
        offer = _offer(client, task_id, pause) if changed or open_ else {}
    except OrchestratorError:
        return []
    if not changed and not open_:
        return []
    if not changed:
        at = f" on {one_line(open_[0]['computer'])}" if open_[0]["computer"] else ""
        return [f"Nobody has heard yet what its {open_[0]['tool']}{at} changed.", f"  {how(offer, task_id, where)}"]
    named = [one_line(one["place"]) for one in changed[:_NAMED]]
    more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
    return [f"It had changed {', '.join(named)}{more}.", f"  {how(offer, task_id, where)}"]


def how(offer: Mapping[str, Any], task_id: str, where: str = "") -> str:
    """How the changes of a task are put back, by what the server says of them in the task."""
    name = program()
    if offer.get("tasks"):
        return f"task {one_line(offer['tasks'][-1])} puts it back:  {name} tasks watch {offer['tasks'][-1]}{where}"
    if offer.get("automatic"):
        return f"it is put back, as the policy says; by which task:  {name} tasks show {task_id}{where}"
    return f"put it back:  {name} undo {task_id}{where}"


def _offer(client: Client, task_id: str, pause: Callable[[float], object]) -> dict[str, Any]:
    """What the server says of the undo; one that begins by itself is waited for, for a moment."""
    looks = round(_BEGINS_S / _LOOK_S)
    while True:
        # An older server says nothing of it.
        offer: dict[str, Any] = client.request("GET", f"/v1/tasks/{task_id}").get("undo") or {}
        looks -= 1
        if offer.get("tasks") or not offer.get("automatic") or looks <= 0:
            return offer
        pause(_LOOK_S)
