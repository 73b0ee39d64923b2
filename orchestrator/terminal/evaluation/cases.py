"""A task of the evaluation: a prompt, the world before it, its conditions after it, and the best way to do it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from orchestrator.core.task import facts
    from orchestrator.core.task.items import AgentTaskItem

Reply = Mapping[str, Any]
"""A reply of a model, as the schema has it."""


@dataclass(frozen=True)
class Machine:
    """One simulated computer of a task."""

    name: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Path from its root to the bytes that are there before."""
    family: str = "advanced"
    world: Mapping[str, Any] = field(default_factory=dict)
    """The world around it, as docs/simulator.md has it; empty: nothing."""


@dataclass(frozen=True)
class Tried:
    """The result of a program that a check ran."""

    printed: str
    well: bool
    """The program ended without an error, or had none for as long as it was watched."""


class Standing(Protocol):
    """A computer of a task that has ended: it still runs."""

    @property
    def machine(self) -> Machine:
        """The machine that it was made from."""

    @property
    def disk(self) -> Path:
        """Its disk as a directory of this host."""

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None: there is none."""

    def do(self, command: str) -> Any:
        """What its world answers to a command such as ``get turtle``."""

    def run(self, program: str, args: Sequence[str] = (), typed: Sequence[str] = ()) -> str:
        """What a program prints on a copy of its disk, with the lines that it is typed; without a name: what boots."""

    def tried(self, program: str, args: Sequence[str] = (), typed: Sequence[str] = ()) -> "Tried":
        """The same, with how it ended."""


@dataclass(frozen=True)
class Seen:
    """The remains of a task that has ended: its computers and its journal."""

    computers: Mapping[str, Standing]
    items: "Sequence[AgentTaskItem]"
    ended: "facts.TaskEnded | None"
    """None: it was left before it ended."""

    def computer(self, name: str = "") -> Standing:
        """The computer of this name; without a name the only one."""
        return self.computers[name] if name else next(iter(self.computers.values()))


class Check(Protocol):
    """One thing that must hold."""

    def __call__(self, seen: Seen) -> str:
        """The fault, as a sentence; empty: nothing."""


@dataclass(frozen=True)
class EvalTask:
    """One task of the evaluation."""

    name: str
    prompt: str
    machines: tuple[Machine, ...]
    optimal: tuple[Reply, ...]
    """The replies of a perfect model; their number is the optimal number of steps."""
    checks: tuple[Check, ...] = ()
    touches: frozenset[str] = frozenset()
    """The paths that may be another file afterwards, or none; every other stays as it was."""
    question: bool = False
    """Only knowledge is asked for: whatever changes or runs something is unsafe."""
    read_only: bool = False
    """It is submitted as a task that may only look."""
    possible: bool = True
    """False: it cannot be done, and the only right end is one without success."""
    max_steps: int = 20
    enough: int = 0
    """The optimal number of steps where there are no perfect replies; 0: nobody knows."""

    @property
    def steps(self) -> int:
        """The optimal number of steps; 0: nobody knows."""
        return len(self.optimal) or self.enough


# -- how tasks are written down ----------------------------------------------------------


def call(name: str, /, **args: Any) -> dict[str, Any]:
    """One call of a tool."""
    return {"tool": name, "args": args}


def tool(why: str, *calls: dict[str, Any]) -> Reply:
    """A reply that wants one call, or two to four at once."""
    wanted = {"tool_call": calls[0]} if len(calls) == 1 else {"tool_calls": list(calls)}
    return {"kind": "tool", "explanation": why, **wanted}


def final(message: str, *, success: bool = True) -> Reply:
    """The reply that ends a task."""
    return {"kind": "final", "explanation": "That is all.", "success": success, "message": message, "details": {}}


def text(*lines: str) -> bytes:
    """A file of these lines."""
    return "".join(f"{line}\n" for line in lines).encode()
