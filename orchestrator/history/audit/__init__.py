"""The audit over a store: every stream verified, every task checked, and the checkpoint outside of it.

A name is imported with its part when it is first used: a command that verifies turns no pages and keeps no job.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.history.audit.bulk import processes_here
    from orchestrator.history.audit.checkpoint import (
        Checkpoint,
        Checkpoints,
        Journals,
        News,
        heads_of,
        make_checkpoint,
        news_of,
    )
    from orchestrator.history.audit.heads import (
        MARK,
        TRUSTED_NAME,
        HeadsLine,
        Noted,
        TrustedStream,
        lines_of,
        read_heads,
    )
    from orchestrator.history.audit.heads_tree import AuditBroken
    from orchestrator.history.audit.job import VerifyJob, verify_job
    from orchestrator.history.audit.pages import Place, Reach, names_of, newest_of, page_of
    from orchestrator.history.audit.stream import Records, Told, as_written, check_store, stories_of, streams_of
    from orchestrator.history.audit.verification import Verification, goes_on, verify_store

_PARTS = {
    "bulk": ("processes_here",),
    "checkpoint": (
        "Checkpoint",
        "Checkpoints",
        "Journals",
        "News",
        "heads_of",
        "make_checkpoint",
        "news_of",
    ),
    "heads": (
        "MARK",
        "TRUSTED_NAME",
        "HeadsLine",
        "Noted",
        "TrustedStream",
        "lines_of",
        "read_heads",
    ),
    "heads_tree": ("AuditBroken",),
    "job": (
        "VerifyJob",
        "verify_job",
    ),
    "pages": (
        "Place",
        "Reach",
        "names_of",
        "newest_of",
        "page_of",
    ),
    "stream": (
        "Records",
        "Told",
        "as_written",
        "check_store",
        "stories_of",
        "streams_of",
    ),
    "verification": (
        "Verification",
        "goes_on",
        "verify_store",
    ),
}
_HOMES = {name: f"orchestrator.history.audit.{part}" for part, names in _PARTS.items() for name in names}

__all__ = [
    "MARK",
    "TRUSTED_NAME",
    "AuditBroken",
    "Checkpoint",
    "Checkpoints",
    "HeadsLine",
    "Journals",
    "News",
    "Noted",
    "Place",
    "Reach",
    "Records",
    "Told",
    "TrustedStream",
    "Verification",
    "VerifyJob",
    "as_written",
    "check_store",
    "goes_on",
    "heads_of",
    "lines_of",
    "make_checkpoint",
    "names_of",
    "newest_of",
    "news_of",
    "page_of",
    "processes_here",
    "read_heads",
    "stories_of",
    "streams_of",
    "verify_job",
    "verify_store",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'orchestrator.history.audit' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value
