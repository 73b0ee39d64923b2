"""The audit over a store: every stream verified, every task checked, and the checkpoint outside of it."""

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
from orchestrator.history.audit.heads import MARK, TRUSTED_NAME, HeadsLine, Noted, TrustedStream, lines_of, read_heads
from orchestrator.history.audit.heads_tree import AuditBroken
from orchestrator.history.audit.pages import Place, Reach, names_of, newest_of, page_of
from orchestrator.history.audit.stream import Records, Told, as_written, check_store, stories_of, streams_of
from orchestrator.history.audit.verification import Verification, goes_on, verify_store
from orchestrator.history.audit.verify_job import VerifyJob, verify_job

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
