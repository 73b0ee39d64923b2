"""Rehearsals: tasks that work on a copy of a computer's files, in a simulated computer of this host.

:mod:`~orchestrator.core.rehearsing` has the theory. Here are the copy's disk, its process, and the part that
sees each rehearsal from its beginning to the task that asks for all of it.
"""

from orchestrator.rehearsing.copying import CannotRehearse, Copying
from orchestrator.rehearsing.rehearsals import WORK_S, Rehearsals
from orchestrator.rehearsing.showing import Shown, ShownChange

__all__ = ["WORK_S", "CannotRehearse", "Copying", "Rehearsals", "Shown", "ShownChange"]
