"""The common parts of commands: options, the client, JSON, and complaints."""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from orchestrator.core.errors import InvalidRequest, NotFound, OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import DEFAULT_URL, ENV_PREFIX

if TYPE_CHECKING:
    from orchestrator.client import Client
    from orchestrator.runtime.settings import Settings

Url = Annotated[str | None, typer.Option("--url", help=f"The server. Default: {ENV_PREFIX}URL, or {DEFAULT_URL}.")]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help=f"Default: {ENV_PREFIX}DATA_DIR, or ~/.local/share/cc-orchestrator."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Detach = Annotated[bool, typer.Option("--detach", help="Submit it and print its id; do not follow it.")]
Reconnect = Annotated[
    float, typer.Option("--reconnect", min=0, help="Seconds to look for a server that went away, such as to restart.")
]
RECONNECT_S = 90.0

_OWN = frozenset(f"{ENV_PREFIX}{name}" for name in ("URL", "TOKEN", "DATA_DIR"))
"""The variables that commands read."""
MAX_SPAN_S = 604_800
"""A week: what the server takes as a limit of time."""
_SPAN = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")


@contextmanager
def client_of(url: str | None, data_dir: Path | None) -> Iterator["Client"]:
    """The client of a command."""
    from orchestrator.client import Client

    warn_of_variables()
    client = Client.of_environment(url=url, data_dir=data_dir)
    try:
        yield client
    finally:
        client.close()


def settings_of(**given: Any) -> "Settings":
    """The settings of a command that needs them, with what was given to it. Raises InvalidRequest."""
    from orchestrator.runtime.settings import load_settings

    return load_settings(given, os.environ)


def is_alone(context: typer.Context) -> bool:
    """Whether a group was called without one of its commands.

    Raises InvalidRequest for an option between the group and its command: the command would not know of it.
    """
    command = context.invoked_subcommand
    if command is None:
        return True
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source is not None and source.name == "COMMANDLINE":
            typed, flag = f"{context.command_path} {command}", max(option.opts, key=len)
            raise InvalidRequest(
                f"{flag} stands before {command}, where it does nothing.",
                remedy=f"Put what belongs to {command} behind it: {typed} {flag} …",
            )
    return False


def warn_of_variables() -> None:
    """Say which variables look like ours and mean nothing; they do a client no harm."""
    if any(name.upper().startswith(ENV_PREFIX) and name not in _OWN for name in os.environ):
        # The names of all settings take the models of the settings, which a command needs for nothing else.
        from orchestrator.runtime.settings import unknown_variables

        for unknown in unknown_variables(os.environ):
            complain(unknown)


def as_segment(value: str | None) -> str | None:
    """The typed name as one part of a path.

    Raises NotFound for one with a slash and for a step of a path: clients and servers read these as other addresses.
    """
    if value is not None and _is_path(value):
        raise NotFound(f"Nothing here is called {quoted(value)}.", remedy="Names have letters, digits, - _ and .")
    return None if value is None else quote(value, safe="")


def _is_path(value: str) -> bool:
    return "/" in value or value in {"", ".", ".."}


def id_of(what: str, lists: str) -> Callable[[str | None], str | None]:
    """As :func:`as_segment`, for the id of a task or of another thing that the command ``lists`` lists.

    What it returns raises NotFound for a text that no id can be.
    """

    def read(value: str | None) -> str | None:
        if value is not None and _is_path(value):
            raise NotFound(f"There is no {what} {quoted(value)}.", remedy=f"`cc-orchestrator {lists}` lists them.")
        return as_segment(value)

    return read


as_task = id_of("task", "tasks")


TaskId = Annotated[str, typer.Argument(metavar="TASK", help="The task's id, as `tasks` lists it.", callback=as_task)]


def must_be_there(file: Path, what: str = "") -> None:
    """Raises NotFound for a file that was named and is not there; ``what``: its kind, before its name."""
    if not file.exists():
        name = f"{what} {quoted(str(file))}".strip()
        raise NotFound(f"{name} cannot be read: No such file or directory.", remedy="Name a file that is there.")


def print_json(value: Any) -> None:
    """One JSON document, in ASCII: nothing in it can move a cursor."""
    typer.echo(json.dumps(value))


def complain(error: OrchestratorError) -> None:
    """The error as one line on standard error; it may quote what others wrote."""
    typer.echo(f"cc-orchestrator: {one_line(str(error), limit=2000)}", err=True)


def quoted(text: str) -> str:
    """A typed text, as a sentence quotes it: on one line, and safe to look at."""
    return f"'{one_line(text)}'"


def moment(text: str | None) -> str:
    """A time of the server as a clock on the wall here shows it, to the minute; empty where there is none."""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M") if text else ""


def seconds(text: str, *, endless: bool = False) -> float:
    """A span such as ``90``, ``90s``, ``10m`` or ``1h30m`` in seconds, a week at most. Raises InvalidRequest.

    ``endless``: whether 0 may be said, and means no limit.
    """
    found = _SPAN.fullmatch(text.strip().lower())
    if found is None or not text.strip():
        raise InvalidRequest(f"{quoted(text)} is not a span of time.", remedy="Say it like 90, 10m or 1h30m.")
    hours, minutes, rest = found.groups()
    span = int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(rest or 0)
    if span > MAX_SPAN_S:
        most = f"Say at most {MAX_SPAN_S} seconds, which is 168h{', or 0 for no limit' if endless else ''}."
        raise InvalidRequest(f"{quoted(text)} is longer than a week.", remedy=most)
    if not span and not endless:
        raise InvalidRequest(f"{quoted(text)} is no time at all.", remedy="Say it like 90, 10m or 1h30m.")
    return span
