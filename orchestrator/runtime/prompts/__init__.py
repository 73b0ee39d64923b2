"""The instructions that models are given: the shipped text, and the one of a data directory in its place."""

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.model_view.prompt import Prompt, read_prompt

SHIPPED_VERSION: Final = "5"
"""The version of system.md: a changed text is another version."""
FILE: Final = "prompt.md"
"""The file in the data directory: a copy that a person has changed."""


@cache
def shipped() -> Prompt:
    """The text that came with the package."""
    return read_prompt(files(__name__).joinpath("system.md").read_text("utf-8"), SHIPPED_VERSION)


def in_force(data_dir: Path) -> Prompt:
    """The text of a data directory, or the shipped one where it has none. Raises InvalidRequest."""
    try:
        return _read(data_dir / FILE)
    except FileNotFoundError:
        return shipped()


def is_empty(data_dir: Path) -> bool:
    """Whether a data directory's own text is a file without any."""
    try:
        return not (data_dir / FILE).read_bytes().strip()
    except OSError:
        return False


def read_file(path: Path) -> Prompt:
    """A person's own text. Raises InvalidRequest."""
    try:
        return _read(path)
    except FileNotFoundError as error:
        raise _unreadable(path, error) from None


def _read(path: Path) -> Prompt:
    """A text whose version is made of its sha256, so that what a request records tells which one it was."""
    try:
        content = path.read_bytes()
        text = content.decode()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from None
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"The prompt {path} is not UTF-8 text: byte {error.start} cannot be read.", remedy="Save it as UTF-8."
        ) from None
    try:
        return read_prompt(text, f"own-{hashlib.sha256(content).hexdigest()[:12]}")
    except InvalidRequest as error:
        raise InvalidRequest(f"{path}: {error.message}", remedy=error.remedy) from None


def _unreadable(path: Path, error: OSError) -> InvalidRequest:
    return InvalidRequest(f"The prompt {path} cannot be read: {error.strerror}.", remedy="Fix it or delete it.")
