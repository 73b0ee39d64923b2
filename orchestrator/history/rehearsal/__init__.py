"""Rehearsals: tasks that work on a copy of a computer's files, in a simulated computer of this host.

:mod:`~orchestrator.core.task.rehearsal` has the theory. Here are the copy's disk, its process, and the part that
sees each rehearsal from its beginning to the task that asks for all of it.
"""

from orchestrator.history.rehearsal.conclusion import Shown, ShownChange
from orchestrator.history.rehearsal.copy import CannotRehearse, Copying
from orchestrator.history.rehearsal.rehearsals import WORK_S, Rehearsals

__all__ = ["WORK_S", "CannotRehearse", "Copying", "Rehearsals", "Shown", "ShownChange"]
