"""All commands together, and how they end."""

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic import ValidationError
from typer.core import TyperGroup

from orchestrator.core.errors import InvalidRequest, OrchestratorError, said_of
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.settings import default_data_dir
from orchestrator.terminal.cli.audit import audit_app, prune
from orchestrator.terminal.cli.backups import backup, backups_app, restore, undo
from orchestrator.terminal.cli.common import AsJson, DataDir, complain, print_json
from orchestrator.terminal.cli.computers import computers_app, nodes, screen, type_keys
from orchestrator.terminal.cli.evaluation import evaluate
from orchestrator.terminal.cli.models import models_app
from orchestrator.terminal.cli.people import pair, people_app, token_app
from orchestrator.terminal.cli.policy import policy_app
from orchestrator.terminal.cli.requests import grants_app, requests_app, review
from orchestrator.terminal.cli.run import run
from orchestrator.terminal.cli.server import demo, doctor, serve, tui
from orchestrator.terminal.cli.simulate import simulate
from orchestrator.terminal.cli.store import store_app
from orchestrator.terminal.cli.tasks import answer, cancel, rehearsal, stop, tasks_app

# -- The prompt on the command line: read it, and check one before `serve` does ----------

prompt_app = typer.Typer(no_args_is_help=True, help="The text for models before each task: read it, check another.")


@prompt_app.command("show", epilog="Example: cc-orchestrator prompt show > my-prompt.md")
def show(
    shipped: Annotated[bool, typer.Option("--shipped", help="The text that came with the program.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Print the text that `serve` gives models.

    Change a copy of it, look it over with `prompt check`, and move it to DATA_DIR/prompt.md. Places such as $tools are
    filled in for each task. A change holds from the next start of `serve` on. Let no shell write to
    DATA_DIR/prompt.md itself: it empties the file before it is read here.
    """
    from orchestrator.runtime import prompts

    place = data_dir or default_data_dir(os.environ)
    # The shell has emptied it, where the output goes there: the text to begin with is then the one that was asked for.
    if not shipped and prompts.is_empty(place):
        shipped = True
        typer.echo(
            f"cc-orchestrator: {one_line(str(place / prompts.FILE), limit=1000)} is empty, so this is the shipped "
            "text. `serve` refuses an empty one: delete it, or put a text there.",
            err=True,
        )
    with _complaining():
        prompt = prompts.shipped() if shipped else prompts.in_force(place)
    if as_json:
        print_json({"version": prompt.version, "text": prompt.text})
    else:
        typer.echo(prompt.text, nl=False)


@prompt_app.command("check", epilog="Example: cc-orchestrator prompt check prompt.md")
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Default: the one that `serve` would load.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Check a text before it is used; it needs no server.

    Exits with 1 where `serve` would refuse it, and says why.
    """
    from orchestrator.core.model_view.prompt import estimate
    from orchestrator.runtime import prompts

    with _complaining():
        prompt = prompts.read_file(file) if file else prompts.in_force(data_dir or default_data_dir(os.environ))
    tokens = estimate(prompt.text)
    if as_json:
        print_json({"version": prompt.version, "characters": len(prompt.text), "tokens": tokens})
    else:
        typer.echo(f"It is in order: version {prompt.version}, about {tokens} tokens without the tools.")


class _complaining:
    """Ends the command with 1 and the sentence of what is wrong."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        if isinstance(error, OrchestratorError):
            complain(error)
            raise typer.Exit(1) from None


# -- All commands together, and how they end ---------------------------------------------

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The errors of a disk on which nothing more can be written."""


class Commands(TyperGroup):
    """The commands; a fault in one ends in a sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and hand on what a broken pipe or Ctrl-C means."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except typer.BadParameter as error:
            _in_our_words(error)
            raise
        except OrchestratorError as error:
            complain(error)
            raise typer.Exit(3 if error.code in ("server_refused", "server_unreachable") else 2) from None
        except UnicodeError:
            # Bytes that are not text come as halves of surrogates, which nothing takes; our own output takes all.
            complain(InvalidRequest("The typed or piped input is not text in UTF-8.", remedy="Write it in UTF-8."))
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            if sys.stderr.isatty():
                # The terminal shows ^C, and the shell's prompt would be behind it.
                typer.echo(err=True)
            raise
        except BrokenPipeError:
            raise _ReaderGone from None
        except OSError as error:
            _complain_of_output(error)
            raise typer.Exit(1) from None
        return result


def _complain_of_output(error: OSError) -> None:
    """Say in a sentence that something cannot be written, such as when a disk is full. Raises other errors."""
    if error.errno not in _FULL:
        raise error
    # The rest of the buffer would cause one more complaint at the end.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    complain(InvalidRequest(f"It cannot be written: {error.strerror}.", remedy="Make room, or write it elsewhere."))


def _in_our_words(error: typer.BadParameter) -> None:
    """Put what the command line's library says of a value into the words of the settings."""
    why = error.__cause__
    if isinstance(why, ValidationError):
        first = why.errors(include_url=False)[0]
        # A choice names the value itself.
        where = "" if first["type"] == "value_error" else f"'{one_line(str(first['input']))}'"
        error.message = f"{said_of(first, where)}."


class _ReaderGone(BaseException):
    """Passes by the handlers of the command line's library, which take a broken pipe for a failure."""


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Boxes break words and commands where a terminal is narrow; plain help breaks lines at blanks.
    rich_markup_mode=None,
    help="Lets a language model work on ComputerCraft computers, with a person in charge.",
    epilog="Exit codes: 0 success, 1 failed, canceled or unverified, 2 usage, 3 server unreachable or refusing, "
    "130 left by Ctrl-C.",
)
_COMMANDS: tuple[Callable[..., None], ...] = (
    serve,
    demo,
    run,
    review,
    tui,
    answer,
    cancel,
    stop,
    undo,
    backup,
    restore,
    prune,
    rehearsal,
    screen,
    type_keys,
    pair,
    nodes,
    doctor,
    simulate,
    evaluate,
)
_EXAMPLES: Mapping[str, str] = {
    "serve": "serve --model ollama:qwen2.5-coder",
    "run": 'run "fix my farm program" --computer 3 --max-wall 10m',
    "answer": 'answer t-… "the left chest"',
    "stop": "stop --all --reason dinner",
    "undo": "undo t-… --dry-run",
    "backup": 'backup farm --note "before the harvest"',
    "restore": "restore farm --path lib --dry-run",
    "prune": "prune --older-than 30 --dry-run",
    "rehearsal": "rehearsal t-… --apply",
    "screen": "screen farm --follow",
    "type": 'type farm "ls" --enter',
    "pair": "pair farm",
    "nodes": "nodes --json",
    "eval": "eval --model ollama:qwen2.5-coder --task hello",
    "simulate": "simulate --count 3 --family advanced --family turtle",
}
for command in _COMMANDS:
    example = _EXAMPLES.get(command.__name__)
    app.command(epilog=f"Example: cc-orchestrator {example}" if example else None)(command)
_GROUPS: Mapping[str, typer.Typer] = {
    "tasks": tasks_app,
    "computers": computers_app,
    "backups": backups_app,
    "models": models_app,
    "requests": requests_app,
    "grants": grants_app,
    "policy": policy_app,
    "prompt": prompt_app,
    "people": people_app,
    "token": token_app,
    "audit": audit_app,
    "store": store_app,
}
for name, group in _GROUPS.items():
    app.add_typer(group, name=name)


def run_command_line() -> None:
    """Run what was typed. Raises SystemExit, or BrokenPipeError when the reader of the output went away."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            # A terminal without Unicode shows escapes instead of failing.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app(prog_name="cc-orchestrator")
    except _ReaderGone:
        raise BrokenPipeError from None
