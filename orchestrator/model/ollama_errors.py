"""What Ollama says instead of a reply, as sentences that say what to do."""

import json
from collections.abc import Sequence
from typing import Any, Final

from orchestrator.core.errors import ModelFailed
from orchestrator.core.visible import one_line

_SHOWN_CHARS: Final = 300
_MAX_WRAPS: Final = 8
"""Ollama puts the engine's JSON error as a string into its own; twice has been seen."""


def unwrapped(body: Any) -> tuple[str, dict[str, Any]]:
    """The innermost sentence of an error, on one line, and the fields that stand beside it."""
    said, details = body, dict[str, Any]()
    for _ in range(_MAX_WRAPS):
        inner = _decoded(said) if isinstance(said, str) else said
        if not isinstance(inner, dict):
            break
        said, details = inner.get("error") or inner.get("message") or "", inner
    return one_line(" ".join(str(said).split()), limit=_SHOWN_CHARS), details


def _decoded(text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def refused(status: int, body: Any, *, model: str, url: str, there: Sequence[str] = ()) -> ModelFailed:
    """Why a request was answered with ``status``, or with an error line in a stream (200).

    ``there``: the models that the server has, where that is known.
    """
    said, details = unwrapped(body)
    named = f"'{one_line(model)}'"
    if details.get("type") == "exceed_context_size_error" or "exceeds the available context size" in said:
        return _too_long(details)
    if status == 404 and "not found" in said and "model" in said:
        known = f" Models there: {', '.join(there)}." if there else ""
        return ModelFailed(
            f"Ollama at {url} has no model {named}.",
            remedy=f"Run `ollama pull {one_line(model)}`.{known}",
            lasting=True,
        )
    if status == 401:
        return ModelFailed(
            f"Ollama may not use {named}: nobody is signed in.", remedy="Run `ollama signin`.", lasting=True
        )
    if status == 403:
        return ModelFailed(
            f"Ollama may not use {named}: {said or 'forbidden'}.",
            remedy="Choose a model of this host: `ollama list`.",
            lasting=True,
        )
    if status == 503:
        return ModelFailed(
            f"Ollama at {url} is busy: {said or 'no reason given'}.", remedy="Try again when it has less to do."
        )
    if "runner" in said and ("stopped" in said or "terminated" in said):
        return ModelFailed(
            f"The model {named} stopped inside Ollama: {said}.",
            remedy="Most often memory ran out: take a smaller model or a smaller num_ctx.",
        )
    if status == 200:
        return ModelFailed(
            f"Ollama at {url} gave up in the middle of a reply: {said or 'no reason given'}.",
            remedy="Look at Ollama's log, then try again; if it goes on, take a smaller model or a smaller num_ctx.",
        )
    return ModelFailed(
        f"Ollama at {url} answered {status}: {said or 'no reason given'}.",
        remedy="Look at Ollama's log; a proxy or another program may stand at this address.",
    )


def _too_long(details: dict[str, Any]) -> ModelFailed:
    sizes = (details.get("n_prompt_tokens"), details.get("n_ctx"))
    known = all(isinstance(size, int) for size in sizes)
    numbers = f": it has {sizes[0]} tokens, the window has {sizes[1]}" if known else ""
    return ModelFailed(
        f"The conversation does not fit the model's window{numbers}.",
        remedy="Raise num_ctx, or split the task into smaller ones.",
        lasting=True,
    )
