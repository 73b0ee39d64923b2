"""What a task that did not end well had changed by then, and how it is put back: as lines for a terminal."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import program

if TYPE_CHECKING:
    from orchestrator.client import Client

_NAMED: Final = 5
"""Changed places that are named."""
_BEGINS_S: Final = 2.0
"""An undo that the policy wants begins within a moment of the end, unless a computer has to come back first."""
_LOOK_S: Final = 0.1
_ALL_THE_SAME: Final = " --on-conflict restore"
"""Without it an undo keeps what somebody changed since, and that of which nobody knows whether the task did."""
_TOLD_CHARS: Final = 600
"""The longest sentence of the server that is shown on one line."""


def left_behind(
    client: "Client",
    task_id: str,
    where: str = "",
    *,
    succeeded: bool = False,
    pause: Callable[[float], object] = time.sleep,
) -> list[str]:
    """Lines about a task that is over; empty: it changed nothing, or the server cannot say.

    ``where``: the options by which another command reaches the same server. ``succeeded``: nothing of it is amiss.
    """
    try:
        told = client.request("GET", f"/v1/tasks/{task_id}/changes")
        changed, open_ = told["changes"], told.get("not_heard", [])
        offer = _offer(client, task_id, pause) if changed or open_ else {}
    except OrchestratorError:
        return []
    unknown = _unseen(told)
    if not changed and not open_:
        return unknown
    if not changed:
        at = f" on {one_line(open_[0]['computer'])}" if open_[0]["computer"] else ""
        return [
            f"It is not known yet what its {open_[0]['tool']}{at} changed.",
            f"  {how(offer, task_id, where)}",
            *unknown,
        ]
    named = [one_line(one["place"]) for one in changed[:_NAMED]]
    more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
    had = "It changed" if succeeded else "It had changed"
    return [f"{had} {', '.join(named)}{more}.", f"  {how(offer, task_id, where)}", *unknown]


def _unseen(told: Mapping[str, Any]) -> list[str]:
    """The words about the first such programs."""
    lines = []
    for one in told["unseen"][:_NAMED]:
        at = f" on {one_line(one['computer'])}" if one["computer"] else ""
        why = one_line(one["what"], limit=_TOLD_CHARS)
        lines.append(f"No undo puts back what its {one['tool']}{at} in step {one['step']} changed: {why}")
    return lines


def how(offer: Mapping[str, Any], task_id: str, where: str = "") -> str:
    """How the changes of a task are put back, by what the server says of them in the task."""
    name, outcome = program(), offer.get("outcome")
    undo = f"{name} undo {task_id}"
    if outcome:
        return _by_now(outcome, undo, where)
    if offer.get("tasks"):
        # Nobody knows the result of a task that was pruned.
        return f"task {one_line(offer['tasks'][-1])} was begun to put it back"
    if offer.get("automatic"):
        return f"it is put back, as the policy says; by which task:  {name} tasks show {task_id}{where}"
    changes, unknown = offer.get("changes", 0), offer.get("unknown", 0)
    if not unknown:
        return f"put it back:  {undo}{where}"
    if unknown >= changes:
        return f"put it back, though nobody knows whether it changed that:  {undo}{_ALL_THE_SAME}{where}"
    kept = f"{unknown} of which nobody knows whether it changed them (--choose PLACE=restore puts one back too)"
    return f"put it back, but for {kept}:  {undo}{where}"


def _by_now(outcome: Mapping[str, Any], undo: str, where: str) -> str:
    """How far the task is that puts changes back, and what is left to do; ``undo``: the command that does it again."""
    told = one_line(outcome["told"], limit=_TOLD_CHARS)
    done = outcome["status"] == "Completed"
    if outcome["open"]:
        return f"{told}:  {program()} tasks watch {outcome['task_id']}{where}"
    if outcome["undone_by"]:
        return f"{told}; put it back again:  {undo}{where}"
    if done and not outcome["whole"]:
        return f"{told}; the rest:  {undo}{where}"
    if outcome["kept"]:
        return f"{told}; what it kept too:  {undo}{_ALL_THE_SAME}{where}"
    return told if done else f"{told}; try again:  {undo}{where}"


def _offer(client: "Client", task_id: str, pause: Callable[[float], object]) -> dict[str, Any]:
    """What the server says of the undo; one that begins by itself is waited for, for a moment."""
    looks = round(_BEGINS_S / _LOOK_S)
    while True:
        offer: dict[str, Any] = client.request("GET", f"/v1/tasks/{task_id}").get("undo") or {}
        looks -= 1
        if offer.get("tasks") or not offer.get("automatic") or looks <= 0:
            return offer
        pause(_LOOK_S)
