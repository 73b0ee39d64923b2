"""Spans for OpenTelemetry: each task as a trace, made from the items of its journal.

Theory. A task is a log, and so is its trace: each span begins and ends with an item. Its ids are made from those of
the task and of what it is about, so that the spans of one task fit together whichever process wrote which item, on
whichever day, and a restart in the middle of an approval loses no parent. Nothing is asked of the actor, and without
configuration nothing of OpenTelemetry is imported.
"""

from orchestrator.runtime.tracing.spans import Tracing, open_tracing, wanted

__all__ = ["Tracing", "open_tracing", "wanted"]
