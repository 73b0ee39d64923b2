"""A tool outside the catalog that a model asked for: it is denied, and its name is the model's to choose."""

from typing import Final

from orchestrator.core.text.redact import redact_text
from orchestrator.core.text.visible import one_line

VERSION: Final = 0
"""The version of a tool that does not exist, for the digest of its calls; those of the catalog begin at 1."""
_NAME_CHARS: Final = 60
"""Of a made-up name this much is recorded and said; the reply is kept whole."""


def stranger_name(tool: str, *, salt: str) -> str:
    """The name as it is recorded and said: on one line, capped, without secrets, with nothing hidden in it.

    It is never that of another tool: what is changed in it leaves a sign that no tool has in its name.
    """
    return one_line(redact_text(tool, salt=salt), limit=_NAME_CHARS)
