"""The composition root: from settings to a running orchestrator."""

from orchestrator.app.first_start import ADMIN, first_words, one_more_admin
from orchestrator.app.orchestrator import Orchestrator, open_orchestrator
from orchestrator.app.serving import serve

__all__ = ["ADMIN", "Orchestrator", "first_words", "one_more_admin", "open_orchestrator", "serve"]
