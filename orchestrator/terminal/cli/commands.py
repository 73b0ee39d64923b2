"""All commands together, and how they end."""

import contextlib
import errno
import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, cast

import typer
from typer.core import TyperGroup

from orchestrator.core.errors import InvalidRequest, OrchestratorError, said_of
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import default_data_dir
from orchestrator.runtime.program import version as program_version
from orchestrator.terminal.cli.common import AsJson, DataDir, Url, complain, is_alone, must_be_there, print_json, quoted

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

    if file is not None:
        must_be_there(file)
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

_Usage: Final = cast("type[Exception]", typer.BadParameter.__bases__[0])
"""What the command line's library raises where it cannot read the input; it has no public name there."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The errors of a disk on which nothing more can be written."""


class Commands(TyperGroup):
    """The commands; a fault in one ends in a sentence and an exit code.

    A command's module is imported when it is called: to start is most of what a short command costs.
    """

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; None: there is none."""
        return _loaded(cmd_name) if cmd_name in COMMANDS else None

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.help) for name, row in COMMANDS.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called. Raises UsageError with the nearest names for one that is not there."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = get_close_matches(args[0], COMMANDS, n=2)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"There is no command {quoted(args[0])}.{meant}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and hand on what a broken pipe or Ctrl-C means."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except _Usage as error:
            _in_our_words(error)
            raise
        except OrchestratorError as error:
            complain(error)
            raise typer.Exit(_code_of(error)) from None
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


def _code_of(error: OrchestratorError) -> int:
    """The exit code of an error: 4 for what is not there, 3 for a server that refuses or is away, else 2.

    What the server cannot read is what was typed. An answer without a reason is of another server.
    """
    status = getattr(error, "status", 0) if getattr(error, "reason", "") else 0
    if error.code == "not_found" or status == 404 or "missing" in error.details:
        return 4
    return 3 if error.code in ("server_refused", "server_unreachable", "forbidden") and status != 422 else 2


def _complain_of_output(error: OSError) -> None:
    """Say in a sentence that something cannot be written, such as when a disk is full. Raises other errors."""
    if error.errno not in _FULL:
        raise error
    # The rest of the buffer would cause one more complaint at the end.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    complain(InvalidRequest(f"It cannot be written: {error.strerror}.", remedy="Make room, or write it elsewhere."))


def _in_our_words(error: Any) -> None:
    """Put what the command line's library says of a value into the words of the settings, and say what to type."""
    if type(error).__name__ == "MissingParameter" and not error.message:
        error.message = getattr(error.param, "help", None) or ""
    elif error.message.startswith("Got unexpected extra argument"):
        error.message += ". Put a text of several words in quotes."
    elif error.message.startswith("No such command") and "Did you mean" not in error.message:
        group = error.ctx.command
        alone = f" `{error.ctx.command_path}` alone lists them." if group.invoke_without_command else ""
        error.message += f"{alone} The commands there are {', '.join(group.commands)}."
    why: Any = error.__cause__
    # By its name: its class would bring pydantic with it.
    if type(why).__name__ == "ValidationError":
        first = why.errors(include_url=False)[0]
        # A choice names the value itself.
        where = "" if first["type"] == "value_error" else f"'{one_line(str(first['input']))}'"
        error.message = f"{said_of(first, where)}."


class _ReaderGone(BaseException):
    """Passes by the handlers of the command line's library, which take a broken pipe for a failure."""


class Row(NamedTuple):
    """A command of the table."""

    module: str
    """Of ``orchestrator.terminal.cli``; it is imported when the command is called."""
    attribute: str
    """The function of a command, or the ``typer.Typer`` of a group."""
    help: str
    """The first line of its help, so that the list of commands imports none of them."""
    example: str = ""


COMMANDS: Final[Mapping[str, Row]] = {
    "serve": Row("server", "serve", "Start the orchestrator.", "serve --model ollama:qwen2.5-coder"),
    "demo": Row("server", "demo", "Play the main job on a simulated computer."),
    "run": Row(
        "run", "run", "Submit a task and follow it; Ctrl-C leaves it running.",
        'run "fix my farm program" --computer 3 --max-wall 10m',
    ),
    "review": Row("requests", "review", "Decide what waits for a person, here in the terminal."),
    "tui": Row("server", "tui", "Do everything on one screen in the terminal."),
    "answer": Row("tasks", "answer", "Answer a task's question.", 'answer t-… "the left chest"'),
    "cancel": Row("tasks", "cancel", "Stop a task."),
    "stop": Row("tasks", "stop", "Stop a task, or with --all everything at once.", "stop --all --reason dinner"),
    "undo": Row("backups", "undo", "Put back what a task changed.", "undo t-… --dry-run"),
    "backup": Row(
        "backups", "backup", "Keep all that is on a computer now.", 'backup farm --note "before the harvest"'
    ),
    "restore": Row(
        "backups", "restore", "Put files back as a backup has them.", "restore farm --path lib --dry-run"
    ),
    "prune": Row("audit", "prune", "Remove ended tasks, the oldest first.", "prune --older-than 30 --dry-run"),
    "rehearsal": Row("tasks", "rehearsal", "Show what a rehearsal changed in its copy.", "rehearsal t-… --apply"),
    "screen": Row("computers", "screen", "Show what is on a computer's screen.", "screen farm --follow"),
    "type": Row("computers", "type_keys", "Type at a computer, as if one sat there.", 'type farm "ls" --enter'),
    "pair": Row("people", "pair", "Connect a computer of the game.", "pair farm"),
    "nodes": Row("computers", "nodes", "List the servers that work together.", "nodes --json"),
    "doctor": Row("server", "doctor", "Find what is wrong with the set-up, and how to fix it."),
    "simulate": Row(
        "simulate", "simulate", "Connect simulated computers to the running server.",
        "simulate --count 3 --family advanced --family turtle",
    ),
    "eval": Row(
        "evaluation", "evaluate", "Measure a model on tasks with simulated computers.",
        "eval --model ollama:qwen2.5-coder --task hello",
    ),
    "tasks": Row("tasks", "tasks_app", "List tasks, or look at one."),
    "computers": Row("computers", "computers_app", "List the computers, look at one, or release one."),
    "backups": Row("backups", "backups_app", "Backups of computers: list them, look at one, remove one."),
    "models": Row("models", "models_app", "List Ollama's models, look at one, or get one."),
    "requests": Row("requests", "requests_app", "Requests: claim, comment, escalate, extend, withdraw, renew, stats."),
    "grants": Row("requests", "grants_app", "Grants: list them, revoke one."),
    "policy": Row("policy", "policy_app", "The policy: check a file, ask what it says of a call."),
    "prompt": Row("commands", "prompt_app", "The text for models before each task: read it, check another."),
    "people": Row("people", "people_app", "People, and agents: list them, add one, revoke one."),
    "groups": Row("groups", "groups_app", "Groups of people and computers: list, fill, remove them."),
    "pin": Row("pin", "pin_app", "The PIN by which you review in the game: set it, remove it."),
    "freeze": Row(
        "groups", "freeze", "Freeze a person, a group or everybody; without a name, list the freezes.",
        'freeze --group class-7b --reason "we talk now"',
    ),
    "unfreeze": Row(
        "groups", "unfreeze", "End a freeze: the tasks go on where they were.", "unfreeze --group class-7b"
    ),
    "class": Row("classes", "class_app", "A class: begin it from a file, end it, export what it did."),
    "notifications": Row(
        "notifications", "notifications_app", "Messages elsewhere: what became of them, and the rules that send them."
    ),
    "whoami": Row("groups", "whoami", "Show who you are here, what you may do, and whether you are frozen or away."),
    "token": Row("people", "token_app", "Tokens, for computers that are not paired and for scripts."),
    "audit": Row("audit", "audit_app", "What happened: show it, verify it, check it, export it."),
    "route": Row("cells", "route", "Send computers to their cells.", "route --cells cells.toml --port 8700"),
    "cells": Row("cells", "cells_app", "List the cells, and move a computer from one to another."),
    "store": Row("store", "store_app", "Look at a store, and move it to another place or engine."),
}  # fmt: skip


def _loaded(name: str) -> Any:
    """The command or the group of a name, with its module."""
    row = COMMANDS[name]
    found = getattr(import_module(f"orchestrator.terminal.cli.{row.module}"), row.attribute)
    one = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        one.add_typer(found, name=name)
    else:
        one.command(name, epilog=f"Example: cc-orchestrator {row.example}" if row.example else None)(found)
    # With a callback it is a group, however many commands it has.
    one.callback()(lambda: None)
    return typer.main.get_group(one).commands[name]


app = typer.Typer(
    cls=Commands,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    # Boxes break words and commands where a terminal is narrow; plain help breaks lines at blanks.
    rich_markup_mode=None,
    epilog="Exit codes: 0 success, 1 failed, canceled or unverified, 2 usage, 3 server unreachable or refusing, "
    "4 no such task, computer or other thing, 130 left by Ctrl-C.",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"cc-orchestrator {program_version() or 'from a checkout'}")
        raise typer.Exit


@app.callback()
def overview(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Lets a language model work on ComputerCraft computers, with a person in charge.

    Without a command: what there is now, and the next step.
    """
    del version
    if is_alone(context):
        from orchestrator.terminal.cli.overview import show

        show(url, data_dir)


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
