"""The command that measures a model: ``eval``."""

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from orchestrator.cli.common import AsJson, print_json, warn_of_variables
from orchestrator.cli.simulating import need_simulator
from orchestrator.core.errors import InvalidRequest, ModelFailed, OrchestratorError
from orchestrator.program import left_in_order

if TYPE_CHECKING:
    from orchestrator.evaluation import EvalTask, Evaluation, Row


def evaluate(  # noqa: PLR0913, PLR0917 - one parameter for each flag
    model: Annotated[str, typer.Option(help="The model, such as ollama:qwen2.5-coder.")] = "",
    task: Annotated[
        list[str] | None, typer.Option("--task", help="Only this task; may be repeated. Default: all.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, max=100, help="How often the whole set is played.")] = 1,
    reviewer: Annotated[
        Literal["auto", "none"],
        typer.Option(help="auto: what asks is approved. none: it waits for you at another terminal."),
    ] = "auto",
    max_wall: Annotated[float, typer.Option(min=1, help="Seconds for one task at most, waiting included.")] = 900.0,
    ollama_url: Annotated[str, typer.Option(help="Where Ollama listens. Default: as `serve --ollama-url`.")] = "",
    model_url: Annotated[
        str, typer.Option(help="Where a server speaks OpenAI's API. Default: as `serve --model-url`.")
    ] = "",
    num_ctx: Annotated[int | None, typer.Option(min=1024, help="Ollama: the window, in tokens.")] = None,
    num_predict: Annotated[int | None, typer.Option(min=64, help="Ollama: a reply at most, in tokens.")] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Keep store, logs and disks here. Default: they are removed.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Only print the tasks.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a model on tasks with simulated computers.

    It starts a server of its own with the shipped policy. Success is checked on the files, the programs and the
    journal, and not taken from the model. Ctrl-C ends it with what there is.
    """
    from orchestrator.evaluation import Evaluation, lines_of, tasks_named, totals
    from orchestrator.rendering import Screen

    chosen = tasks_named(task or [])
    if listing:
        _list(chosen, as_json=as_json)
        return
    if not model.strip():
        raise InvalidRequest("No model is named.", remedy="Name one: cc-orchestrator eval --model ollama:qwen2.5-coder")
    need_simulator()
    _fresh(directory)
    warn_of_variables()
    given = {
        "ollama-url": ollama_url,
        "model-url": model_url,
        "num-ctx": num_ctx or "",
        "num-predict": num_predict or "",
    }
    evaluation = Evaluation(
        model=model,
        tasks=chosen,
        repeat=repeat,
        reviewer=reviewer,
        options={name: str(value) for name, value in given.items() if value},
        directory=directory,
        most_s=max_wall,
        say=_say,
    )
    if reviewer == "auto":
        _say("Nobody reviews: whatever asks is approved, on simulated computers only.")
    rows, stopped = _played(evaluation, len(chosen) * repeat)
    if as_json:
        print_json({"model": model, "rows": [row.told() for row in rows], "totals": totals(rows)})
    else:
        for line in lines_of(rows, Screen.of().columns):
            typer.echo(line)
    sys.stdout.flush()
    if isinstance(stopped, OrchestratorError):
        raise stopped
    raise typer.Exit(130 if stopped is not None else int(not all(row.passed for row in rows)))


evaluate.__name__ = "eval"


def _played(evaluation: "Evaluation", count: int) -> "tuple[list[Row], KeyboardInterrupt | OrchestratorError | None]":
    """The rows that there are, told as they come, and what ended them early; None: nothing did.

    Raises OrchestratorError when there is no row at all, ModelFailed when the model could not be asked even once.
    """
    rows: list[Row] = []
    try:
        with left_in_order(), closing(evaluation.rows()) as playing:
            for row in playing:
                if row.recorded == "model_failed" and not row.steps and not rows:
                    raise ModelFailed(f"The model could not be asked even once, so nothing is measured: {row.message}")
                rows.append(row)
                _say(f"    {_said(row)}")
    except KeyboardInterrupt as left:
        _say(f"\nYou left after {len(rows)} of {count}; this is what there is.")
        return rows, left
    except OrchestratorError as error:
        if not rows:
            raise
        return rows, error
    return rows, None


def _list(chosen: "tuple[EvalTask, ...]", *, as_json: bool) -> None:
    from orchestrator.rendering import Screen, table

    if as_json:
        print_json([{"task": one.name, "steps": one.steps, "prompt": one.prompt} for one in chosen])
        return
    rows = [(one.name, str(one.steps), one.prompt) for one in chosen]
    for line in table(("TASK", "STEPS", "PROMPT"), rows, columns=Screen.of().columns):
        typer.echo(line)


def _fresh(directory: Path | None) -> None:
    """An earlier evaluation's store would have the same computers, with other disks. Raises InvalidRequest."""
    if directory is None:
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        full = any(directory.iterdir())
    except OSError as error:
        raise InvalidRequest(
            f"The directory {directory} cannot be used: {error.strerror or error}.", remedy="Choose another with --dir."
        ) from None
    if full:
        raise InvalidRequest(f"The directory {directory} is not empty.", remedy="Name a new one with --dir.")


def _said(row: "Row") -> str:
    from orchestrator.core.visible import one_line

    how = "passed" if row.passed else "FAILED"
    why = f": {one_line(' '.join(row.wrong), limit=300)}" if row.wrong else ""
    return f"{how} in {row.steps} steps and {row.seconds:.1f} s{why}"


def _say(text: str) -> None:
    typer.echo(text, err=True)
