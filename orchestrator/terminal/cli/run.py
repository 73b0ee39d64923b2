"""The command that begins a task, and follows it."""

import json
import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from orchestrator.core.errors import InvalidRequest, plain
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import reaching
from orchestrator.terminal.cli.backups import watched
from orchestrator.terminal.cli.common import (
    RECONNECT_S,
    DataDir,
    Detach,
    Reconnect,
    Url,
    client_of,
    must_be_there,
    print_json,
    seconds,
    warn_of_variables,
)
from orchestrator.terminal.cli.follow import follow

# -- Task files: a task with its options and checks, as TOML or JSON ---------------------

_MAX_BYTES: Final = 1_000_000
_MAX_PROMPT_CHARS: Final = 100_000
"""The server's own bound; its refusal names fields of a request, which nobody typed."""


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
    """The limit as of ``--max-wall``; a number is seconds."""
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
        return None if self.max_wall is None else seconds(self.max_wall, endless=True)


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


if TYPE_CHECKING:
    from orchestrator.client import Client


def run(  # noqa: PLR0913, PLR0917 - one parameter for each flag
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="PROMPT", help="What to do; `-` reads it from standard input. None, on a terminal: a prompt."
        ),
    ] = None,
    computer: Annotated[
        list[str] | None, typer.Option("--computer", help="A computer to work on; may be repeated.")
    ] = None,
    session: Annotated[str, typer.Option(help="Continue this session: the task knows its earlier results.")] = "",
    model: Annotated[str | None, typer.Option(help="Such as ollama:qwen2.5-coder. Default: the server's.")] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, max=1000, help="Replies of the model at most.")] = None,
    max_wall: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Working time at most, such as 90 (seconds), 10m or 1h30m; a week at most, 0: no limit.",
        ),
    ] = "",
    max_tokens: Annotated[
        int | None, typer.Option(min=0, max=100_000_000, help="Tokens in and out at most; 0: no limit.")
    ] = None,
    priority: Annotated[int, typer.Option(min=-100, max=100, help="Among waiting tasks, the higher goes first.")] = 0,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="It may only look: whatever changes something is denied.")
    ] = False,
    wait_for_model: Annotated[
        bool,
        typer.Option(
            "--wait-for-model", help="Wait without an end for a model server that cannot be reached, not 2 minutes."
        ),
    ] = False,
    rehearse: Annotated[
        bool,
        typer.Option(
            "--rehearse", help="Work on a copy of the computer's files, show what changed, and ask once for all of it."
        ),
    ] = False,
    on_reject: Annotated[
        Literal["cancel", "continue"] | None,
        typer.Option(help="The effect of a rejection on the task. Default: as the policy says, else cancel."),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHECK",
            help="What has to hold at the end, such as 'runs farm.lua' (docs/checks.md); may be repeated.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="A task with its options and checks, as TOML or JSON; options typed here go first, checks add up.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each item and notification as one line of JSON.")
    ] = False,
    detach: Detach = False,
    reconnect: Reconnect = RECONNECT_S,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Submit a task and follow it; Ctrl-C leaves it running."""
    if file is not None:
        must_be_there(file, "The task file")
    said = TaskFile() if file is None else read_task_file(file)
    if model is not None and not model.strip():
        raise InvalidRequest(
            "--model names no model.",
            remedy="Name one that `cc-orchestrator models list` shows, or leave --model out: the server has its own.",
        )
    if prompt is None and file is None:
        flags = {"--on-reject continue": on_reject, "--rehearse": rehearse, "--wait-for-model": wait_for_model}
        _must_name_one(next((flag for flag, given in {**flags, "--check '…'": check}.items() if given), ""))
        raise typer.Exit(_interactive(url, data_dir, computer or [], model or "", session, read_only))
    wanted = sys.stdin.read() if prompt == "-" else said.prompt if prompt is None else prompt
    if not wanted.strip():
        instead = "" if file is None else ', or add prompt = "…" to the file'
        raise InvalidRequest("The task is empty.", remedy=f'Say what to do: cc-orchestrator run "…"{instead}')
    if len(wanted) > _MAX_PROMPT_CHARS:
        raise InvalidRequest(
            f"The task has {len(wanted):,} characters; at most {_MAX_PROMPT_CHARS:,} are taken.",
            remedy="Say it shorter: put a long text into a file on the computer, and name that file in the task.",
        )
    rehearse = rehearse or said.rehearse
    body: dict[str, Any] = {
        "prompt": wanted,
        "computers": computer or said.computer,
        "model": model or said.model,
        "session_id": session or said.session,
        "priority": priority or said.priority,
        "max_steps": said.max_steps if max_steps is None else max_steps,
        "max_wall_s": seconds(max_wall, endless=True) if max_wall else said.max_wall_s,
        "max_tokens": said.max_tokens if max_tokens is None else max_tokens,
        "read_only": read_only or said.read_only or None,
        "wait_for_model": wait_for_model or said.wait_for_model or None,
        "rehearse": rehearse or None,
        "on_reject": on_reject or said.on_reject,
        "checks": [*said.checks, *(check or ())] or None,
    }
    from orchestrator.terminal.model_choice import banner_of

    with client_of(url, data_dir) as client:
        for line in () if body["model"] else banner_of(client):
            typer.echo(one_line(line, limit=600), err=True)
        task = _submitted(client, body, as_json=as_json, detach=detach, patience_s=reconnect)
        if detach:
            print_json(task) if as_json else typer.echo(f"task {task['task_id']}")
            return
        follow(client, task["task_id"], as_json, reconnect, reaching(url, data_dir), rehearses=rehearse)


def _must_name_one(flag: str) -> None:
    """Raises InvalidRequest for a flag that is for one task where none is named; empty: there is none."""
    if flag:
        remedy = f'Say it: cc-orchestrator run "…" {flag}'
        raise InvalidRequest(f"{flag.split(maxsplit=1)[0]} is for one task, and none is named.", remedy=remedy)


def _submitted(client: "Client", body: dict[str, Any], *, as_json: bool, detach: bool, patience_s: float) -> Any:
    """Begin the task; what takes long, such as a copy for a rehearsal, is shown meanwhile."""
    session = body["session_id"]
    if session and client.is_new(session):
        typer.echo(f"session {one_line(session)} is new: nothing earlier is told to the model", err=True)
    if not detach:
        # Imported before the task begins: a text of the model that comes now is a notification, and is told to nobody
        # twice.
        import orchestrator.terminal.follow  # noqa: F401
    said = {name: value for name, value in body.items() if value is not None}
    of = (*body["computers"], "")[0]
    with watched(client, "rehearsal", of, as_json=as_json) if body["rehearse"] else nullcontext():
        return client.submit(said, patience_s=patience_s)


def _interactive(
    url: str | None, data_dir: Path | None, computers: list[str], model: str, session: str, read_only: bool
) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidRequest(
            "There is no prompt, and no terminal to ask for one.",
            remedy='Say it: cc-orchestrator run "…", or pipe it to `run -`.',
        )
    from orchestrator.terminal.interactive import run_task_interactive

    warn_of_variables()
    return run_task_interactive(
        url=url, data_dir=data_dir, computers=computers, model=model, session_id=session, read_only=read_only
    )
