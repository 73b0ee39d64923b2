"""Which model `serve` uses where nobody names one: the remembered one, else one that is there, after a question.

Without a terminal nothing is asked, and no hosted model is ever chosen.
"""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from orchestrator.client import Client, ServerRefused, ServerUnreachable
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.settings import DEMO_MODEL, Settings

if TYPE_CHECKING:
    from orchestrator.adapters.models.found import Found, FoundModel

logger = logging.getLogger(__name__)

FILE: Final = "model.json"
"""In the data directory: the answer to the question, without any secret."""
SUGGESTED_PULL: Final = "qwen2.5-coder:7b"
_MOST_ROWS: Final = 30
_SET_IN: Final = 6
"""Columns before the name of a model; a row that is too long goes on below it."""


@dataclass(frozen=True)
class Choice:
    """A model for tasks that name none."""

    model: str
    model_url: str = ""
    """Where it is asked; empty: where the settings say."""
    at: str = ""
    """Where the settings said when it was chosen; empty: nowhere, such as for a provider's own address.

    The text of tasks goes there, so a yes for one address is none for another.
    """

    def over(self, settings: Settings) -> Settings:
        """The settings with this model. The demo's script is the default, so it does not count as set."""
        if self.model == DEMO_MODEL:
            return settings
        where = {"model_url": self.model_url} if self.model_url else {}
        return settings.model_copy(update={"model": self.model, **where})


def remembered(data_dir: Path) -> Choice | None:
    """The choice of an earlier start; None: there is none, or it cannot be read, which the log says."""
    from orchestrator.adapters.models.options import DEFAULT_URL

    path = data_dir / FILE
    try:
        told = json.loads(path.read_text("utf-8"))
        model, where = str(told["model"]), str(told["model_url"])
        # Earlier versions did not note the address: only Ollama's own on this machine is taken without a question.
        return Choice(model, where, str(told.get("at", DEFAULT_URL if model.startswith("ollama:") else "")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        logger.warning("%s cannot be read, so it counts for nothing; `serve --choose-model` writes it anew", path)
        return None


def remember(data_dir: Path, choice: Choice) -> None:
    """Keep a choice for the next starts; where that is impossible, the log says so."""
    path = data_dir / FILE
    new = path.with_suffix(".new")
    try:
        new.write_text(json.dumps(vars(choice), indent=1) + "\n", "utf-8")
        new.replace(path)
    except OSError as error:
        logger.warning("the choice of a model cannot be kept in %s: %s", path, error.strerror or error)


def choose(settings: Settings, environ: Mapping[str, str], *, again: bool) -> tuple[Settings, Choice | None, str]:
    """The settings with the model of this start; a choice to remember, None: nothing new; a warning, empty: none.

    The last two are for the moment when the server is up: a start that fails says only why. ``again``: ask, whatever
    is remembered. Raises InvalidRequest where that is impossible.
    """
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    if again:
        _must_be_possible(settings, asks)
    elif "model" in settings.model_fields_set:
        return settings, None, ""
    elif (kept := remembered(settings.data_dir)) is not None:
        if (now := _address(kept, settings, environ)) == kept.at:
            logger.info("the model is %s, as %s remembers", one_line(kept.model), settings.data_dir / FILE)
            return kept.over(settings), None, ""
        logger.warning(
            "%s was chosen at %s, and the settings say %s now: that choice does not count there",
            *map(one_line, (kept.model, kept.at or "its provider", now or "no address")),
        )
    found = _looked(settings, environ)
    for url in found.empty:
        typer.echo(f"Ollama runs at {url} and has no model. To get one: ollama pull {SUGGESTED_PULL}", err=True)
    for sentence in found.silent:
        typer.echo(f"cc-orchestrator: {one_line(sentence, limit=600)}", err=True)
    if not asks:
        taken, warning = _unattended(found)
        return taken.over(settings), None, warning
    if not found.models and not again:
        return settings, None, ""
    choice = _asked(found)
    choice = replace(choice, at=_address(choice, settings, environ))
    logger.info(
        "the model is %s from now on; `cc-orchestrator serve --choose-model` asks again", one_line(choice.model)
    )
    return choice.over(settings), choice, ""


def _address(choice: Choice, settings: Settings, environ: Mapping[str, str]) -> str:
    """Where the settings have a choice asked; empty: they do not say. Raises InvalidRequest."""
    # `run` asks this module for the banner alone, and starts in half the time without the models.
    from orchestrator.adapters.models.options import endpoints_of, server_url

    if choice.model.startswith("ollama:"):
        return ",".join(one.url for one in endpoints_of(settings.ollama_url or environ.get("OLLAMA_HOST")))
    if choice.model.startswith("openai-chat:") and not choice.model_url:
        return server_url(settings.model_url or environ.get("OPENAI_BASE_URL", ""))
    return ""


def _must_be_possible(settings: Settings, asks: bool) -> None:
    if "model" in settings.model_fields_set:
        raise InvalidRequest(
            f"--choose-model asks for a model, and {one_line(settings.model)} is set already.",
            remedy="Leave out --model, CC_ORCHESTRATOR_MODEL and the line `model` of cc-orchestrator.toml.",
        )
    if not asks:
        raise InvalidRequest(
            "--choose-model asks a question, and there is no terminal.",
            remedy="Name the model instead: --model ollama:qwen2.5-coder:7b.",
        )


def _looked(settings: Settings, environ: Mapping[str, str]) -> "Found":
    import asyncio

    from orchestrator.adapters.models.found import look_for_models

    ollama = settings.ollama_url or environ.get("OLLAMA_HOST", "")
    served = settings.model_url or environ.get("OPENAI_BASE_URL", "")
    return asyncio.run(look_for_models(ollama, served, environ))


# -- Without a terminal ------------------------------------------------------------------


def _unattended(found: "Found") -> tuple[Choice, str]:
    """A model that may be taken without a question: it is known to write programs, and nothing leaves for it.

    With it the warning that there is none; empty: there is one.
    """
    from orchestrator.adapters.models.found import fits, memory_here, suggested

    safe = [
        one
        for one in found.models
        # A key of OpenAI would go to the other server with each request, so that takes a person's word.
        if not one.hosted and one.known and not one.takes_key
    ]
    memory = memory_here() if safe else None
    good = [one for one in safe if one.is_coder and fits(one, memory) is not False]
    taken = suggested(good, memory) or (safe[0] if len(safe) == 1 and safe[0].url else None)
    if taken is None:
        seen = ", ".join(one.name for one in found.models[:10])
        why = f"none of these is taken without a question: {seen}" if seen else "none was found"
        return Choice(DEMO_MODEL), f"no model is named, and {why}; name one with `cc-orchestrator serve --model NAME`"
    why = "it is known to write programs" if taken.is_coder else "it is the only one there"
    logger.info("the model is %s (%s): nobody named one, and %s", taken.name, taken.where, why)
    return Choice(taken.name, taken.url), ""


# -- The question ------------------------------------------------------------------------


def _asked(found: "Found") -> Choice:
    """The answer of the person at the terminal."""
    from orchestrator.adapters.models.found import memory_here, suggested
    from orchestrator.terminal.output import Screen

    memory = memory_here()
    best = suggested(found.models, memory)
    rows = sorted(found.models, key=lambda one: (one is not best, one.hosted))[:_MOST_ROWS]
    screen = Screen.of(sys.stderr)
    for line in _question(rows, best, memory):
        screen.say(line, _SET_IN)
    if (more := len(found.models) - len(rows)) > 0:
        screen.say(f"      and {more} more: name one with `cc-orchestrator serve --model NAME`", _SET_IN)
    while True:
        typer.echo(f"Number [{1 if best else 0}]: ", nl=False, err=True)
        typed = sys.stdin.readline()
        if not typed:
            # The terminal was closed.
            raise KeyboardInterrupt
        number = typed.strip() or ("1" if best else "0")
        if number == "0":
            return Choice(DEMO_MODEL)
        if number.isdecimal() and 1 <= int(number) <= len(rows):
            one = rows[int(number) - 1]
            if not (one.hosted or one.takes_key) or _sure(one):
                return Choice(one.name, one.url)
            continue
        typer.echo(f"Type a number from 0 to {len(rows)}.", err=True)


def _question(rows: "Sequence[FoundModel]", best: "FoundModel | None", memory: int | None) -> list[str]:
    from orchestrator.terminal.output import sized

    lines = ["Which model is to do the tasks that name none?"]
    name = max((len(one.name) for one in rows), default=0)
    for number, one in enumerate(rows, 1):
        notes = [f"{sized(one.size)}" if one.size else "", _memory_note(one, memory), one.where]
        notes += ["hosted: it costs money" if one.hosted else "", "suggested" if one is best else ""]
        lines.append(f"  {number:2}  {one.name:{name}}  {', '.join(filter(None, notes))}")
    return [*lines, f"  {0:2}  {'none':{name or 4}}  a script that only writes hello world"]


def _memory_note(one: "FoundModel", memory: int | None) -> str:
    from orchestrator.adapters.models.found import fits
    from orchestrator.terminal.output import sized

    if fits(one, memory) is not False or memory is None:
        return "fits the memory" if fits(one, memory) else ""
    return f"too large for {sized(memory)} of free memory"


def _sure(one: "FoundModel") -> bool:
    from orchestrator.terminal.output import Screen

    said = f"{one.name} is hosted: it costs money, and what tasks read on your computers goes to its provider."
    if not one.hosted:
        said = f"OPENAI_API_KEY is set: the key goes to {one.where} with each request."
    Screen.of(sys.stderr).say(said)
    typer.echo("Use it? [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def banner_of(client: Client) -> list[str]:
    """What a person is told of the model of tasks that name none; empty: nothing, or the server does not say."""
    try:
        told = client.request("GET", "/v1/models")
    except (ServerRefused, ServerUnreachable):
        return []
    return [told["banner"], *(f"  {line}" for line in told["change"])] if told["banner"] else []
