"""A look at a model where it is kept, for people: what each server says of it, and what a task would be given."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.adapters.models.ollama_errors import AskAnother, missing
from orchestrator.adapters.models.ollama_facts import ModelFacts, facts_of, names_in, with_tag
from orchestrator.adapters.models.ollama_server import Door, Refusal
from orchestrator.adapters.models.options import OllamaOptions
from orchestrator.core.errors import ModelFailed
from orchestrator.core.ports import Window


@dataclass(frozen=True)
class Seen:
    """What one server says of one model."""

    url: str
    trouble: ModelFailed | None = None
    """Why nothing is known; None: it answered."""
    names: Sequence[str] = field(default=())
    """The models that it has."""
    facts: ModelFacts | None = None
    """None: it does not have the model."""
    window: Window | None = None
    """What a task would be given; None: it does not have the model."""
    version: str = ""
    """Of Ollama; empty: it does not say."""

    def must_have(self, model: str) -> ModelFacts:
        """The facts. Raises ModelFailed where there are none."""
        if self.trouble is not None:
            raise self.trouble
        if self.facts is None:
            raise missing(model, self.url, self.names)
        return self.facts


async def looked(model: str, options: OllamaOptions) -> list[Seen]:
    """What each server says of a model, side by side."""
    return list(await asyncio.gather(*(_seen(Door(one.url, options), model, options) for one in options.endpoints)))


async def _seen(door: Door, model: str, options: OllamaOptions) -> Seen:
    try:
        listed = await door.listed()
    except AskAnother as error:
        return Seen(door.url, error)
    except TimeoutError:
        silent = ModelFailed(
            f"Ollama at {door.url} did not answer within {options.fact_s:g} s.", remedy="It may be busy: try again."
        )
        return Seen(door.url, silent)
    except Refusal as refusal:
        said = f": {refusal.said}" if refusal.said else ""
        return Seen(door.url, _not_ollama(door.url, f"{refusal.status}{said}"))
    if not isinstance(listed, dict) or "models" not in listed:
        return Seen(door.url, _not_ollama(door.url, "something else than a list of models"))
    names = names_in(listed)
    if with_tag(model) not in map(with_tag, names):
        return Seen(door.url, names=names)
    facts, version = await asyncio.gather(_facts(door, model), _version(door))
    return Seen(door.url, None, names, facts, options.within(facts.context), version)


def _not_ollama(url: str, answer: str) -> ModelFailed:
    return ModelFailed(
        f"What answers at {url} is not Ollama: it answered {answer.rstrip('.')}.",
        remedy="Say where Ollama listens: OLLAMA_HOST or --ollama-url.",
    )


async def _facts(door: Door, model: str) -> ModelFacts:
    try:
        shown = await door.show(model)
    except (AskAnother, Refusal, TimeoutError):
        shown = None
    return facts_of(model, shown, door.url)


async def _version(door: Door) -> str:
    try:
        version = await door.version()
    except (AskAnother, Refusal, TimeoutError):
        return ""
    return version[:40] if isinstance(version, str) else ""
