"""The prompt on the command line: read it, and check one before `serve` does."""

import os
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.settings import default_data_dir
from orchestrator.terminal.cli.common import AsJson, DataDir, complain, print_json

prompt_app = typer.Typer(no_args_is_help=True, help="What models are told before each task: read it, check another.")


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
    # The shell has emptied it, where the output goes there: what was asked for is then the text to begin with.
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
