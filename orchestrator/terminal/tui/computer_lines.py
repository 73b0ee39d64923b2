"""One computer as lines for a person: who it is, and both sides of what froze it."""

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.core.text.visible import one_line
from orchestrator.terminal.console.lines import Line
from orchestrator.terminal.output import age
from orchestrator.terminal.tui.formats import moment, name_of


def computer_lines(found: Mapping[str, Any], client: str = "", task: Mapping[str, Any] | None = None) -> Iterator[Line]:
    """A computer as its door tells it; ``client``: the version of its client, ``task``: what is under way there."""
    yield Line(f"── Computer {one_line(found['computer'])}", "title")
    if found["frozen"]:
        yield from _frozen_lines(found["frozen"])
    released = ", released and not back yet: whoever dials next is it" if found["released"] else ""
    yield Line(f"  state    {found['state']}{released}", prose=True)
    named = (("kind", found.get("family")), ("label", found.get("label")), ("runs", found.get("host")))
    for name, value in (*named, ("client", client), ("paired", found.get("owner") and f"by {found['owner']}")):
        if value:
            yield Line(f"  {name:8} {one_line(value)}")
    if found["last"]:
        came = found["last"]
        peer = f" from {one_line(came['peer'])}" if came["peer"] else ""
        yield Line(f"  came     {age(came['at'])} ago{peer}, as id {came['computer_id']}")
    if task is not None:
        yield Line(f"  task     {task['task_id']} {task['status']}: {one_line(task['prompt'])}", prose=True)


def _frozen_lines(frozen: Mapping[str, Any]) -> Iterator[Line]:
    """Why it is frozen, what to do, and who came."""
    since = f" since {moment(frozen['since'])}" if frozen["since"] else ""
    yield Line(f"  FROZEN{since}: {one_line(frozen['message'], limit=1000)}", "alarm", prose=True)
    yield Line(f"  to do    {one_line(frozen['remedy'], limit=1000)}", prose=True)
    sides = frozen["sides"]
    for at, side in enumerate(sides):
        yield Line("  who was welcome last" if at < len(sides) - 1 else "  who came then", "call")
        yield from side_lines(side)


def side_lines(side: Mapping[str, Any]) -> Iterator[Line]:
    """One of those that came under a name."""
    label = f", label {name_of(side['label'])}" if side["label"] else ""
    peer = f", from {one_line(side['peer'])}" if side["peer"] else ""
    yield Line(
        f"    id {side['computer_id']}{label}{peer}, {age(side['at'])} ago, boot {one_line(side['boot'])}", prose=True
    )
    if side["host"]:
        yield Line(f"    {one_line(side['host'])}")
