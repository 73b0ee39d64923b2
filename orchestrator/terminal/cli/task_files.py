"""Task files: what ``run --file`` reads, a task with its options and its checks, as TOML or JSON."""

import json
import tomllib
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.model_view.messages import plain
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.cli.common import seconds

_MAX_BYTES: Final = 1_000_000
"""A prompt has at most a tenth of it."""


class TaskFile(BaseModel):
    """The keys of a task file: the options of ``run`` by their names, and ``prompt`` and ``checks``."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    prompt: str = ""
    """Empty: the command line says it."""
    computer: list[str] = Field(default_factory=list)
    """The names of its computers; a single one may stand without brackets."""
    checks: list[str] = Field(default_factory=list)
    session: str = ""
    model: str = ""
    max_steps: int | None = Field(default=None, ge=1, le=1000)
    max_wall: str | None = None
    """As ``--max-wall``; a number is seconds."""
    max_tokens: int | None = Field(default=None, ge=0, le=100_000_000)
    priority: int = Field(default=0, ge=-100, le=100)
    read_only: bool = False
    wait_for_model: bool = False
    rehearse: bool = False
    on_reject: Literal["cancel", "continue"] | None = None

    @field_validator("computer", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("max_wall", mode="before")
    @classmethod
    def _number_is_seconds(cls, value: object) -> object:
        return str(value) if type(value) is int else value

    @property
    def max_wall_s(self) -> float | None:
        """Its working time in seconds; None: it does not say. Raises InvalidRequest."""
        return None if self.max_wall is None else seconds(self.max_wall)


def read_task_file(path: Path) -> TaskFile:
    """The task in a file: JSON where its name ends in ``.json``, else TOML.

    Raises InvalidRequest naming the file and what is wrong in it.
    """
    shown = one_line(str(path))
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidRequest(
            f"The task file {shown} cannot be read: {error.strerror or error}.", remedy="Name a file that you can read."
        ) from None
    if len(data) > _MAX_BYTES:
        raise InvalidRequest(f"The task file {shown} has more than {_MAX_BYTES} bytes.", remedy="Write a shorter one.")
    kind = "JSON" if path.suffix.lower() == ".json" else "TOML"
    try:
        content: Any = json.loads(data) if kind == "JSON" else tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else one_line(str(error))
        raise InvalidRequest(f"The task file {shown} is not {kind}: {why}.", remedy="Fix the file.") from None
    try:
        return TaskFile.model_validate(content)
    except ValidationError as error:
        raise InvalidRequest(
            f"The task file {shown} does not fit: {one_line(plain(error, 'the file'))}.",
            remedy=f"Its keys are: {', '.join(TaskFile.model_fields)}.",
        ) from None
