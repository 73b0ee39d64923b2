"""What a model server that speaks OpenAI's API says instead of a reply, as sentences that say what to do."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from orchestrator.adapters.models.ollama_errors import AWAY, unwrapped
from orchestrator.core.errors import ModelFailed
from orchestrator.core.text.visible import one_line

_LONG: Final = re.compile(
    r"exceed_context_size|context_length_exceeded|available context size|maximum context length|context window"
    r"|context (?:length|overflow)|greater than the context|n_ctx|prompt is too long",
    re.IGNORECASE,
)
_FORM: Final = re.compile(r"response_format|json_schema|json_object|schema|grammar|structured|guided", re.IGNORECASE)
_NO_MODEL: Final = re.compile(
    r"model.*(?:not (?:found|exist|loaded)|does not exist|unknown)|no such model", re.IGNORECASE
)
_OPTIONAL: Final = ("stream_options", "chat_template_kwargs", "seed", "temperature")
"""Settings of a request without which it means nearly the same."""
_NO_PATH: Final = re.compile(r"unexpected endpoint", re.IGNORECASE)
"""LM Studio says so with the status 200."""
_LATER: Final = AWAY | {408, 429}
_SHOWN_NAMES: Final = 10


def is_too_long(body: Any) -> bool:
    """Whether an answer says that the conversation does not fit the window."""
    said, details = unwrapped(body)
    return bool(_LONG.search(said) or _LONG.search(str(details.get("type"))) or _LONG.search(str(details.get("code"))))


def may_be_the_form(status: int, body: Any) -> bool:
    """Whether a request was perhaps refused for the form of a reply that it asks for."""
    said = unwrapped(body)[0]
    if is_too_long(body) or _NO_MODEL.search(said):
        return False
    return status in (400, 422, 501) or (status >= 500 and status not in AWAY and bool(_FORM.search(said)))


def surplus(status: int, body: Any, request: Mapping[str, Any]) -> str | None:
    """The setting of a request that a server refuses by its name, and that may be left out; None: there is none."""
    said = unwrapped(body)[0] if status in (400, 422) else ""
    return next((one for one in _OPTIONAL if one in request and re.search(rf"\b{one}\b", said)), None)


def refused(status: int, body: Any, *, model: str, url: str, there: Sequence[str] = ()) -> ModelFailed:
    """Why a request was answered with ``status``, or with an error in the middle of a reply (200).

    ``there``: the models that the server has, where that is known.
    """
    said = unwrapped(body)[0].rstrip(".") or "no reason given"
    if is_too_long(body):
        return ModelFailed(
            f"The conversation does not fit the window of the model server at {url}: {said}.",
            remedy="Load the model with a longer window there, or set --num-ctx to the window that it has.",
            lasting=True,
        )
    if status in (401, 403):
        return no_key(url)
    if status == 404 or _NO_PATH.search(said) or (status in (400, 422) and _NO_MODEL.search(said)):
        return _missing(model, url, there, said)
    if status in _LATER:
        return ModelFailed(
            f"The model server at {url} cannot answer now ({status}): {said}.",
            remedy="Wait until it has loaded its model or has less to do.",
            server=url,
        )
    if 400 <= status < 500:
        return ModelFailed(
            f"The model server at {url} does not take the request ({status}): {said}.",
            remedy="Update it, and look at --model-url and the settings of the model.",
            lasting=True,
        )
    where = "in the middle of a reply" if status == 200 else f"with the status {status}"
    return ModelFailed(
        f"The model server at {url} gave up {where}: {said}.",
        remedy="Look at its log, then try again; if it goes on, take a smaller model or a shorter window.",
    )


def no_key(url: str) -> ModelFailed:
    """The server wants a key, or another one."""
    return ModelFailed(
        f"The model server at {url} wants a key that it knows.",
        remedy="Set OPENAI_API_KEY where the orchestrator is started, and start it again; the key is sent over "
        "https:// and to this machine only.",
        lasting=True,
    )


def _missing(model: str, url: str, there: Sequence[str], said: str) -> ModelFailed:
    if not _NO_MODEL.search(said) and (not there or model in there):
        return ModelFailed(
            f"What answers at {url} does not speak OpenAI's API: {said}.",
            remedy="Say the whole address in --model-url, mostly with /v1 at its end, such as http://127.0.0.1:1234/v1.",
            lasting=True,
        )
    near = difflib.get_close_matches(model, there, n=3, cutoff=0.5) or sorted(there)[:_SHOWN_NAMES]
    known = f" Models there: {one_line(', '.join(near), limit=300)}." if near else ""
    return ModelFailed(
        f"The model server at {url} has no model '{one_line(model)}'.",
        remedy=f"Say one that it has: --model openai-chat:NAME.{known}",
        lasting=True,
    )
