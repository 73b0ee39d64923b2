"""Rehearsal: a task that works on a copy of a computer's files, and what of it is then asked for as a whole.

Theory. The copy is a computer of its own, with a name that no other can have and that ends with its task. A call names
the copy, so nothing that the task does can reach the real computer. The policy judges as if it were the real one: calls
that it denies there it denies here. Where it asks about a change, nobody is asked now: the change is made in the copy.
Later one restoration (:mod:`~orchestrator.core.undo`), which puts the real computer into the state of the copy, asks
for all changes at once. The policy asks as always for calls outside of the copy.
"""

from typing import Final

from pydantic import Field

from orchestrator.core.policy import BUILT_IN_CATALOG, Effect, PolicyContext, PolicyDecision
from orchestrator.core.policy.verdicts import digest_of
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.values import ComputerId, Value, is_empty

RULE: Final = "rehearsal"
"""Stands among the matched rules of a verdict that a rehearsal changed."""
NOTICE: Final = (
    "- This is a rehearsal on a copy of the computer's files: what you change there is shown to a person as a whole "
    "when you are done. Nothing stands beside the copy: no peripherals, no redstone, no rednet, no HTTP, no items."
)
"""The note for the model of a rehearsal."""
_MARK: Final = "~"
"""A text in the name of each copy, and in no name that an endpoint takes."""
_HERE: Final = "It is only changed in the copy."
_WHOLE: Final = "All rehearsed changes are asked for as a whole."


class Rehearsal(Value):
    """What a task rehearses, as it was when its computer was copied."""

    computer: ComputerId
    """The real one."""
    base: str
    """The sha256 of the lines of the listing that was copied."""
    family: str
    """The family of the real computer; the policy judges by it and by the four fields below."""
    label: str | None = None
    former_labels: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    computer_id: int = 0
    host: str = ""
    """The game and its version, as the computer names them."""
    capacity: int = 0
    """The capacity of the copy, in bytes."""
    left_out: dict[str, str] = Field(default_factory=dict)
    """What is not in the copy, each with why as a sentence; the first of them, where they are many."""

    @property
    def context(self) -> PolicyContext:
        """The policy's facts of the copy: those of the real computer."""
        return PolicyContext(
            computer=self.computer, family=self.family, label=self.label, former_labels=self.former_labels
        )


def copy_name(computer: ComputerId, word: str) -> ComputerId:
    """The name of a copy; ``word``: random, so that it is the only one."""
    return ComputerId(f"{computer}{_MARK}{word}")


def is_copy(name: str) -> bool:
    """Whether a name is that of a copy."""
    return _MARK in name


def original_of(name: ComputerId) -> ComputerId:
    """The real computer of which a name is that of a copy; any other name itself."""
    return ComputerId(name.partition(_MARK)[0])


def lenient(verdict: PolicyDecision, tool: str, computer: ComputerId | None) -> PolicyDecision:
    """A verdict of a rehearsal: a change of the copy needs no question; all else is judged as always."""
    spec = BUILT_IN_CATALOG.get(tool)
    of_copy = computer is not None and is_copy(computer)
    if verdict.effect is not Effect.ASK or not of_copy or spec is None or not spec.governance.mutates:
        return verdict
    return _changed(verdict, Effect.ALLOW, f"{verdict.reason} {_HERE}")


def strict(verdict: PolicyDecision, restores: Restoration | None) -> PolicyDecision:
    """A verdict of a restoration: rehearsed changes are always asked for, so one request has them all."""
    if restores is None or not restores.applies or verdict.effect is not Effect.ALLOW:
        return verdict
    return _changed(verdict, Effect.ASK, f"{verdict.reason} {_WHOLE}")


def _changed(verdict: PolicyDecision, effect: Effect, reason: str) -> PolicyDecision:
    names = (*verdict.matched_rules, RULE)
    digest = digest_of([verdict.rules_digest, RULE])
    changes = {"effect": effect, "reason": reason.strip(), "matched_rules": names, "rules_digest": digest}
    return verdict.model_copy(update=changes)
