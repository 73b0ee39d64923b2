"""The commands that start something: ``serve`` and ``demo``."""

import asyncio
import gc
import inspect
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin

import typer
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import program
from orchestrator.runtime.settings import DEMO_CHANGE, DEMO_SAYS, Settings, load_settings
from orchestrator.terminal.cli.common import AsJson, DataDir, Url, client_of, print_json

# -- The commands that start something: ``serve`` and ``demo`` ---------------------------

logger = logging.getLogger(__name__)


def serve(**flags: Any) -> None:
    """Start the orchestrator.

    It prints `listening on URL` when it is ready. Each option is also a variable, such as
    CC_ORCHESTRATOR_PORT, and a key of cc-orchestrator.toml in the data directory.
    """
    # What is imported and made until it listens stays: the collector would only look through it again and again.
    gc.disable()
    from orchestrator.app.first_start import first_words
    from orchestrator.app.orchestrator import Orchestrator
    from orchestrator.app.serving import serve as serve_until_stopped
    from orchestrator.runtime.logs import set_up
    from orchestrator.terminal.model_choice import choose, remember

    again = flags.pop("choose_model")
    named = load_settings(flags, os.environ)
    set_up(named.log_level, named.log_format)
    chosen, answer, warning = choose(named, os.environ, again=again)

    def ready(url: str, orchestrator: Orchestrator) -> None:
        if answer is not None:
            remember(chosen.data_dir, answer)
        if warning:
            logger.warning("%s", warning)
        banner = [DEMO_SAYS, *(f"  {line}" for line in DEMO_CHANGE)] if chosen.only_demo else []
        first = first_words(chosen, url) if orchestrator.admin_token is not None else []
        for line in [*first, *([_no_computer()] if orchestrator.no_computer_yet else ()), *banner]:
            # Where each line of the log is an object, these are some, too.
            if chosen.log_format == "json":
                logger.info("%s", line)
            else:
                typer.echo(line, err=True)
        # What is there now stays: to look through it again holds up every computer for some 40 ms each time.
        gc.collect()
        gc.freeze()
        gc.enable()
        typer.echo(f"listening on {url}")
        sys.stdout.flush()

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve_until_stopped(chosen, ready=ready))


def _no_computer() -> str:
    name = program()
    return f"No computer has connected yet: `{name} simulate` makes some without the game, `{name} pair` connects one."


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the server up afterwards.")] = False,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Keep store, token, logs and disk here. Default: they are removed.")
    ] = None,
    model: Annotated[
        str, typer.Option(help="The model to play it with, such as ollama:qwen2.5-coder.")
    ] = "scripted:hello",
    ollama_url: Annotated[str, typer.Option(help="Where Ollama listens. Default: as `serve --ollama-url`.")] = "",
) -> None:
    """Play the main job on a simulated computer.

    It starts a server and a computer, submits a task, and asks you to approve what it does.
    """
    from orchestrator.terminal.console import Console
    from orchestrator.terminal.demo import run_demo

    code = run_demo(directory=directory, keep=keep, model=model, ollama_url=ollama_url, console=Console.of_terminal())
    raise typer.Exit(code)


_UNITS: Final = {"s": "seconds", "h": "hours", "tokens": "tokens", "days": "days", "bytes": "bytes"}


def _flag(name: str, field: FieldInfo) -> inspect.Parameter:
    """A setting as a flag: what it means, and its default, as the settings themselves say it."""
    wanted = [one for one in get_args(field.annotation) if one is not type(None)]
    plain = wanted[0] if type(None) in get_args(field.annotation) else field.annotation
    if get_origin(field.annotation) is dict:
        plain = str
    unit = field.json_schema_extra.get("unit") if isinstance(field.json_schema_extra, dict) else None
    counted = f" In {_UNITS[str(unit)]}." if unit else ""
    default = (
        f" Default {field.default}." if field.default not in ("", None, False, {}) and not field.is_required() else ""
    )
    if name == "data_dir":
        default = " Default ~/.local/share/cc-orchestrator."
    option = typer.Option(
        f"--{name.replace('_', '-')}", help=f"{field.description}{counted}{default}", show_default=False
    )
    annotation = Annotated[plain | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


# Each setting is a flag, so that none is forgotten; all users of a machine see flags, so a secret is none.
_FLAGS: Final = [
    _flag(name, field) for name, field in Settings.model_fields.items() if field.annotation is not SecretStr
]
_FLAGS.append(
    inspect.Parameter(
        "choose_model",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[
            bool, typer.Option("--choose-model", help="Ask which model to use, and remember the answer.")
        ],
    )
)
serve.__signature__ = inspect.Signature(_FLAGS)  # type: ignore[attr-defined]
serve.__annotations__ = {flag.name: flag.annotation for flag in _FLAGS}


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The factory of uvloop where it exists: 10 to 57 % less work for each call; None: what asyncio itself has."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


# -- The command ``doctor``: looks at everything that has to be right, and says how to fix what is not

_MARKS: Final = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


def doctor(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Find what is wrong with the set-up, and how to fix it.

    It looks at the data directory, the store, the policy, the prompt, the port, the address that the game reaches, the
    model, and at who was turned away. It changes nothing, works without a server too, and ends with 1 if something
    failed.
    """
    from orchestrator.terminal.doctor import examine

    found = examine(url, data_dir, os.environ)
    if as_json:
        print_json([one.as_json() for one in found])
    else:
        for one in found:
            typer.echo(f"{_MARKS[one.state]}  {one.check:14}  {one_line(one.sentence, limit=600)}")
            for line in one.remedy:
                typer.echo(f"{'':22}{one_line(line, limit=600)}")
    sys.stdout.flush()
    if any(one.state == "fail" for one in found):
        raise typer.Exit(1)


# -- The command that opens the terminal UI ----------------------------------------------


def tui(url: Url = None, data_dir: DataDir = None) -> None:
    """Do everything on one screen in the terminal.

    Tasks, approvals, questions, computers: by keyboard alone; ? shows the keys. It needs the extra
    `tui`. On a pipe use `review` and `tasks watch`.
    """
    if not all(one.isatty() for one in (sys.stdin, sys.stdout, sys.stderr)):
        raise InvalidRequest("There is no terminal to draw on.", remedy="Use `review` and `tasks watch` on a pipe.")
    try:
        import textual  # noqa: F401 - only whether it is there
    except ImportError:
        raise InvalidRequest(
            "The terminal UI needs textual, which is not installed.",
            remedy="Install it: pip install 'cc-orchestrator[tui]'. `cc-orchestrator review` works without it.",
        ) from None
    from orchestrator.terminal.tui import run_tui

    with client_of(url, data_dir) as client:
        # A wrong address or token is a sentence here, not on a screen that looks for the server for ever.
        client.request("GET", "/v1/tasks", limit=1)
        code = run_tui(client)
    if code:
        raise typer.Exit(code)
