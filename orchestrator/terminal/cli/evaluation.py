"""The command that measures a model: ``eval``."""

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from orchestrator.core.errors import InvalidRequest, ModelFailed, OrchestratorError
from orchestrator.runtime.program import left_in_order
from orchestrator.terminal.cli.common import AsJson, print_json, warn_of_variables
from orchestrator.terminal.cli.simulate import need_simulator

if TYPE_CHECKING:
    from orchestrator.terminal.evaluation import EvalTask, Evaluation, Result, Row


_MODEL_WAIT_S = 20
"""A model server that starts again is waited for; one that is not there is told soon."""


def evaluate(  # noqa: PLR0913, PLR0917 - one parameter for each flag
    model: Annotated[str, typer.Option(help="The model, such as ollama:qwen2.5-coder.")] = "",
    task: Annotated[
        list[str] | None, typer.Option("--task", help="Only this task; may be repeated. Default: all.")
    ] = None,
    tasks: Annotated[
        Path | None,
        typer.Option("--tasks", metavar="FILE|DIR", help="Your own tasks in TOML (docs/eval.md), in place of the set."),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option("--compare", metavar="A B", help="Two models, or files of --save: side by side, with a plot."),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, max=100, help="How often the whole set is played.")] = 1,
    reviewer: Annotated[
        Literal["auto", "none"],
        typer.Option(help="auto: each request is approved. none: it waits for you at another terminal."),
    ] = "auto",
    max_wall: Annotated[float, typer.Option(min=1, help="Seconds for one task at most, waiting included.")] = 900.0,
    ollama_url: Annotated[str, typer.Option(help="Where Ollama listens. Default: as `serve --ollama-url`.")] = "",
    model_url: Annotated[str, typer.Option(help="Where another model server listens, as `serve --model-url`.")] = "",
    num_ctx: Annotated[int | None, typer.Option(min=1024, help="The window, in tokens.")] = None,
    num_predict: Annotated[int | None, typer.Option(min=64, help="A reply at most, in tokens.")] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Keep store, logs and disks here. Default: they are removed.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the result to this file, for --compare.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Where --compare draws its plot. Default: comparison.html, or a new name.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Only print the tasks.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a model on tasks with simulated computers.

    It starts a server of its own with the shipped policy. Success is checked on the files, the programs and the
    journal, and not taken from the model. Ctrl-C ends it with what there is.
    """
    from orchestrator.terminal import evaluation as playing

    chosen = playing.tasks_named(task or [], playing.TASKS if tasks is None else playing.tasks_in(tasks))
    if listing:
        _list(chosen, as_json=as_json)
        return
    _must_fit(model, compare, save, plot)
    given = {
        "model-wait-s": _MODEL_WAIT_S,
        "ollama-url": ollama_url,
        "model-url": model_url,
        "num-ctx": num_ctx or "",
        "num-predict": num_predict or "",
    }
    evaluation = playing.Evaluation(
        model=model,
        tasks=chosen,
        repeat=repeat,
        reviewer=reviewer,
        options={name: str(value) for name, value in given.items() if value},
        directory=directory,
        most_s=max_wall,
        say=_say,
    )
    if compare is not None:
        _compare(compare, evaluation, plot, as_json=as_json)
        return
    _begin(evaluation)
    result, stopped = _played(evaluation)
    if save is not None:
        _write(save, _json(result))
    _tell(result, as_json=as_json)
    if isinstance(stopped, OrchestratorError):
        raise stopped
    raise typer.Exit(130 if stopped is not None else int(not all(row.passed for row in result.rows)))


evaluate.__name__ = "eval"


def _must_fit(model: str, compare: tuple[str, str] | None, save: Path | None, plot: Path | None) -> None:
    """Whether these options can be given together. Raises InvalidRequest."""
    if compare is None and not model.strip():
        raise InvalidRequest("No model is named.", remedy="Name one: cc-orchestrator eval --model ollama:qwen2.5-coder")
    if compare is not None and (model or save):
        flag = "--model" if model else "--save"
        raise InvalidRequest(f"--compare does not go with {flag}.", remedy=f"Leave out {flag}.")
    if compare is None and plot is not None:
        raise InvalidRequest("--plot draws what --compare compares.", remedy="Add --compare A B, or leave out --plot.")
    for path in (save, plot):
        if path is not None and not path.absolute().parent.is_dir():
            raise InvalidRequest(f"There is no directory {path.parent}.", remedy=f"Make it first: mkdir {path.parent}")


def _begin(evaluation: "Evaluation") -> None:
    """The checks before anything is played. Raises InvalidRequest."""
    need_simulator()
    _fresh(evaluation.directory)
    warn_of_variables()
    if evaluation.reviewer == "auto":
        _say("Nobody reviews: whatever asks is approved, on simulated computers only.")


def _played(evaluation: "Evaluation") -> "tuple[Result, KeyboardInterrupt | OrchestratorError | None]":
    """The runs that there are, told as they come, and what ended them early; None: nothing did.

    Raises OrchestratorError when there is no run at all, ModelFailed when the model could not be asked even once.
    """
    from orchestrator.terminal.evaluation import Result

    rows: list[Row] = []
    stopped: KeyboardInterrupt | OrchestratorError | None = None
    try:
        with left_in_order(), closing(evaluation.rows()) as playing:
            for row in playing:
                if row.recorded == "model_failed" and not row.steps and not rows:
                    raise ModelFailed(f"The model could not be asked even once, so nothing is measured: {row.message}")
                rows.append(row)
                _say(f"    {_said(row)}")
    except KeyboardInterrupt as left:
        count = len(evaluation.tasks) * evaluation.repeat
        _say(f"\nYou left after {len(rows)} of {count}; this is what there is.")
        stopped = left
    except OrchestratorError as error:
        if not rows:
            raise
        stopped = error
    return Result(evaluation.model, tuple(rows)), stopped


def _tell(result: "Result", *, as_json: bool) -> None:
    from orchestrator.terminal.evaluation import lines_of, spread_lines
    from orchestrator.terminal.output import Screen

    if as_json:
        print_json(result.told())
    else:
        columns = Screen.of().columns
        lines, spread = lines_of(result.rows, columns), spread_lines(result.rows, columns)
        _print([*lines, "", *spread] if spread else lines)
    sys.stdout.flush()


# -- two side by side --------------------------------------------------------------------


def _compare(names: tuple[str, str], evaluation: "Evaluation", plot: Path | None, *, as_json: bool) -> None:
    """Play the files that are not there yet and tell both; when it is ended early, tell what there is."""
    # A file that cannot be read is told before a model is played for an hour.
    found = [_kept(name) for name in names]
    if None in found:
        _begin(evaluation)
    both, stopped = _both(names, found, evaluation)
    if all(one.rows for one in both) and len(both) == len(names):
        _side_by_side(both[0], both[1], names, plot, as_json=as_json)
    else:
        _tell(both[0], as_json=as_json)
    if isinstance(stopped, OrchestratorError):
        raise stopped
    raise typer.Exit(130 if stopped is not None else 0)


def _both(
    names: Sequence[str], found: "Sequence[Result | None]", evaluation: "Evaluation"
) -> "tuple[list[Result], KeyboardInterrupt | OrchestratorError | None]":
    """The results, those of models played now; fewer where it was ended early, and by what."""
    both: list[Result] = []
    for letter, name, kept in zip("AB", names, found, strict=True):
        if kept is not None:
            both.append(kept)
            continue
        where = evaluation.directory
        _say(f"{letter}: {name}")
        try:
            played, stopped = _played(
                replace(evaluation, model=name, directory=None if where is None else where / letter)
            )
        except OrchestratorError as error:
            if not both:
                raise
            return both, error
        both.append(played)
        if where is not None:
            _write(where / f"{letter}.json", _json(played))
        if stopped is not None:
            return both, stopped
    return both, None


def _side_by_side(first: "Result", second: "Result", names: Sequence[str], plot: Path | None, *, as_json: bool) -> None:
    from orchestrator.terminal.evaluation import compared, page
    from orchestrator.terminal.output import Screen

    shown = [first, second]
    if first.model == second.model:
        # Two files of one model: their names tell which is which.
        shown = [replace(one, model=f"{one.model} ({name})") for one, name in zip(shown, names, strict=True)]
    lines = compared(shown[0], shown[1], None if as_json else Screen.of().columns)
    target = plot or _new(Path("comparison.html"))
    _write(target, page(shown[0], shown[1]))
    if as_json:
        print_json({"a": first.told(), "b": second.told(), "plot": str(target)})
    else:
        _print([*lines, f"The plot is in {target}."])
    sys.stdout.flush()


def _kept(name: str) -> "Result | None":
    """The result in a file; None: it is the name of a model. Raises InvalidRequest."""
    from orchestrator.terminal.evaluation import read_result

    path = Path(name)
    return read_result(path) if path.suffix == ".json" or path.is_file() else None


def _new(path: Path) -> Path:
    """The path, with a number where a file is there already."""
    number = 2
    found = path
    while found.exists():
        found = path.with_stem(f"{path.stem}-{number}")
        number += 1
    return found


# -- what is written and printed ---------------------------------------------------------


def _json(result: "Result") -> str:
    import json

    return json.dumps(result.told(), indent=2, ensure_ascii=False) + "\n"


def _write(path: Path, text: str) -> None:
    """Raises InvalidRequest."""
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise InvalidRequest(
            f"{path} cannot be written: {error.strerror or error}.", remedy="Choose another file."
        ) from None


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        typer.echo(line)


def _list(chosen: "tuple[EvalTask, ...]", *, as_json: bool) -> None:
    from orchestrator.terminal.output import Screen, table

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
    from orchestrator.core.text.visible import one_line

    how = "passed" if row.passed else "FAILED"
    why = f": {one_line(' '.join(row.wrong), limit=300)}" if row.wrong else ""
    return f"{how} in {row.steps} steps and {row.seconds:.1f} s{why}"


def _say(text: str) -> None:
    typer.echo(text, err=True)
