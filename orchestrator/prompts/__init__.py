"""The instructions that models are given: the shipped text, and the one of a data directory in its place."""

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.prompt import Prompt, read_prompt

SHIPPED_VERSION: Final = "5"
"""Of system.md: a changed text is another version."""
FILE: Final = "prompt.md"
"""In the data directory: a copy that a person has changed."""


@cache
def shipped() -> Prompt:
    """The text that came with the package."""
    return read_prompt(files(__name__).joinpath("system.md").read_text("utf-8"), SHIPPED_VERSION)


def in_force(data_dir: Path) -> Prompt:
    """The text of a data directory, or the shipped one where it has none. Raises InvalidRequest when it cannot be used.

    Its version is made of its sha256, so that what a request records tells which text it was.
    """
    path = data_dir / FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return shipped()
    except OSError as error:
        raise InvalidRequest(
            f"The prompt {path} cannot be read: {error.strerror}.", remedy="Mend it or delete it."
        ) from None
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"The prompt {path} is no UTF-8 text: byte {error.start} is none.", remedy="Save it as UTF-8."
        ) from None
    return read_prompt(text, f"own-{hashlib.sha256(content).hexdigest()[:12]}")
