"""What the two tasks of a schedule want, and what their computers hold before."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

COMPUTERS = ("3", "4")
PROGRAM = """\
local log = fs.open("{path}.log", "a")
log.write("ran\\n")
log.close()
for _ = 1, {yields} do
  os.queueEvent("tick")
  os.pullEvent("tick")
end
print("done")
"""
BIG_SHARE = 0.1
"""Of the writes: over 8 KiB, so that the client pauses while it hashes them before ``started``."""


@dataclass
class Plan:
    """One schedule's tasks and files."""

    scripts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Task (as its model is named) to the replies of its model."""
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Computer to path to bytes."""
    programs: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """(computer, path) to the text of a program that says when it ran."""
    watched: list[tuple[str, str]] = field(default_factory=list)
    """(computer, path) of all that calls may change: what people change too."""


def make_plan(rng: random.Random) -> Plan:
    """A plan of two tasks with one to three steps of one to three calls each."""
    plan = Plan(files={computer: {"shared.lua": b"-- shared\n"} for computer in COMPUTERS})
    plan.watched.extend((computer, "shared.lua") for computer in COMPUTERS)
    for task in ("one", "two"):
        home = rng.choice(COMPUTERS)
        replies = []
        for step in range(rng.choice((1, 1, 2, 3))):
            calls = [
                _call(rng, plan, f"{task}{step}{index}", rng.choice((home, home, *COMPUTERS)))
                for index in range(rng.choice((1, 1, 2, 3)))
            ]
            replies.append(_reply(calls))
        replies.append({"kind": "final", "explanation": "done", "success": True, "message": "done", "details": {}})
        plan.scripts[task] = replies
    return plan


def _reply(calls: list[dict[str, Any]]) -> dict[str, Any]:
    if len(calls) == 1:
        return {"kind": "tool", "explanation": "why not", "tool_call": calls[0]}
    return {"kind": "tool", "explanation": "why not", "tool_calls": calls}


def _call(rng: random.Random, plan: Plan, name: str, computer: str) -> dict[str, Any]:
    make = rng.choices(list(_KINDS), weights=list(_KINDS.values()))[0]
    tool, args = make(rng, plan, name, computer)
    return {"tool": tool, "args": {**args, "computer": computer}}


_Made = tuple[str, dict[str, Any]]


def _content(rng: random.Random, name: str) -> str:
    padding = "-" * 8300 if rng.random() < BIG_SHARE else ""
    return f"-- {name} says {rng.randrange(1000)}\n{padding}"


def _write_over(rng: random.Random, plan: Plan, name: str, computer: str) -> _Made:
    path = f"{name}.lua"
    plan.files[computer][path] = _content(rng, f"old {name}").encode()
    plan.watched.append((computer, path))
    return "cc_write", {"path": path, "content": _content(rng, name)}


def _write_shared(rng: random.Random, plan: Plan, name: str, computer: str) -> _Made:
    del plan, computer
    return "cc_write", {"path": "shared.lua", "content": _content(rng, name)}


def _write_new(rng: random.Random, plan: Plan, name: str, computer: str) -> _Made:
    path = rng.choice((f"{name}.new", f"new/{name}"))
    plan.watched.append((computer, path))
    return "cc_write", {"path": path, "content": _content(rng, name)}


def _delete(rng: random.Random, plan: Plan, name: str, computer: str) -> _Made:
    del rng
    plan.files[computer][f"{name}.bak"] = b"backup\n"
    plan.watched.append((computer, f"{name}.bak"))
    return "cc_delete", {"path": f"{name}.bak"}


def _delete_directory(rng: random.Random, plan: Plan, name: str, computer: str) -> _Made:
    """Its hash is taken in slices, one for each entry: time passes between look and ``started``."""
    del rng
    plan.files[computer] |= {f"{name}/a": b"a\n", f"{name}/b": b"b\n"}
    plan.watched.append((computer, name))
    return "cc_delete", {"path": name}


def _program(rng: random.Random, plan: Plan, name: str, computer: str) -> str:
    path = f"{name}.lua"
    text = PROGRAM.format(path=path, yields=rng.randrange(3)).encode()
    plan.files[computer][path] = plan.programs[computer, path] = text
    plan.watched.append((computer, path))
    return path


def _run(rng: random.Random, plan: Plan, name: str, computer: str) -> _Made:
    return "cc_run_program", {"path": _program(rng, plan, name, computer)}


def _shell(rng: random.Random, plan: Plan, name: str, computer: str) -> _Made:
    return "cc_shell", {"command": _program(rng, plan, name, computer).removesuffix(".lua") + " x"}


def _read(rng: random.Random, plan: Plan, name: str, computer: str) -> _Made:
    del rng
    plan.files[computer][f"{name}.txt"] = b"text\n"
    return "cc_read", {"path": f"{name}.txt"}


_KINDS: dict[Callable[[random.Random, Plan, str, str], _Made], int] = {
    _write_over: 5,
    _write_shared: 2,
    _write_new: 2,
    _delete: 2,
    _delete_directory: 2,
    _run: 5,
    _shell: 2,
    _read: 2,
}
