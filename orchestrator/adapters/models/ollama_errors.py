"""Errors of Ollama as sentences: the reason that it did not answer, and the next step."""

import difflib
import json
import re
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

from orchestrator.adapters.models.options import DEFAULT_URL
from orchestrator.core.errors import ModelFailed
from orchestrator.core.text.visible import one_line
from orchestrator.core.values import immutable


@immutable
class Kind:
    """A kind of server in the words of the sentences about one."""

    name: str
    start: str
    """How one is started, as a command to a person."""
    settings: str
    """Where its address is set."""
    tls: str
    """What to know of https."""
    log: str
    """Whose log says more."""
    slow: str
    """The remedy where the error says nothing."""

    @property
    def first(self) -> str:
        """The name as the first words of a sentence."""
        return self.name[0].upper() + self.name[1:]

    @property
    def where(self) -> str:
        """The end of a sentence on its address."""
        return f"say where it listens: {self.settings}."


OLLAMA: Final = Kind(
    name="Ollama",
    start="Start it with `ollama serve`",
    settings="OLLAMA_HOST or --ollama-url",
    tls="Ollama itself speaks http://; where a proxy adds https://, this host must trust its certificate.",
    log="Ollama's log",
    slow="The model may be too large for this host: look at `ollama ps`, or take a smaller one.",
)
_SHOWN_CHARS: Final = 300
_SHOWN_NAMES: Final = 10
AWAY: Final = frozenset({502, 503, 504})
"""The answers of a proxy or a server that cannot serve now, whatever is asked of it."""
_MAX_WRAPS: Final = 8
"""Ollama puts the engine's JSON error as a string into its own; twice has been seen."""
_SAID: Final = ("error", "message", "detail", "errors", "msg")
"""Where an error has its sentence: servers differ."""
_MARKUP: Final = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*(?:>|$)", re.DOTALL | re.IGNORECASE)
_LONGEST_PAGE: Final = 4000
_LONG: Final = ("exceeds the available context size", "input length exceeds the context length")
"""The words of llama-server, and of Ollama's own runner."""
_MEMORY: Final = ("requires more system memory", "out of memory", "unable to allocate", "cudamalloc failed")


class AskAnother(ModelFailed):
    """This server cannot answer; another one that has the model may.

    ``lasting``: that is because of the model, which is not there or does not fit; else of the server itself.
    """


class Missing(AskAnother):
    """This server does not have the model."""


class Silent(AskAnother):
    """The server took the request and said nothing in time: because of the request, or it hangs."""


class Broken(AskAnother):
    """A connection that was there broke before the answer was whole."""


def unwrapped(body: Any) -> tuple[str, dict[str, Any]]:
    """The innermost sentence of an error, on one line, and the fields that are beside it."""
    said, details = body, dict[str, Any]()
    for _ in range(_MAX_WRAPS):
        inner = _decoded(said) if isinstance(said, str) else said
        if isinstance(inner, list):
            # One for each field of the request that is wrong.
            inner = inner[0] if inner else ""
        if not isinstance(inner, dict):
            said = said if inner is None else inner
            break
        said, details = next((inner[key] for key in _SAID if inner.get(key)), ""), inner
    text = str(said)[:_LONGEST_PAGE]
    # A proxy answers with a page.
    text = _MARKUP.sub(" ", text) if text.lstrip().startswith("<") else text
    field = ".".join(map(str, details["loc"])) if isinstance(details.get("loc"), list) else ""
    return one_line(" ".join(f"{field} {text}".split()), limit=_SHOWN_CHARS), details


def _decoded(text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


# -- answers -------------------------------------------------------------------------------


@immutable
class _Answer:
    """An answer that is not a reply."""

    status: int
    """200: an error line in the middle of a reply."""
    said: str
    model: str
    """Quoted, and safe to be shown."""
    url: str

    @property
    def reason(self) -> str:
        """What it said, as the end of a sentence."""
        return self.said.rstrip(".") or "no reason given"

    def has(self, *words: str) -> bool:
        """Whether all of these words are in what it said, in any case."""
        said = self.said.lower()
        return all(word in said for word in words)


def is_missing(status: int, said: str) -> bool:
    """Whether an answer says that the server does not have the model; else a 404 is another program's."""
    return status == 404 and "not found" in said and "model" in said


def refused(status: int, body: Any, *, model: str, url: str, there: Sequence[str] = ()) -> ModelFailed:
    """Why a request was answered with ``status``, or with an error line in a stream (200).

    ``there``: the models that the server has, where that is known.
    """
    said, details = unwrapped(body)
    if details.get("type") == "exceed_context_size_error" or any(words in said.lower() for words in _LONG):
        return _too_long(details)
    if is_missing(status, said):
        return missing(model, url, there)
    answer = _Answer(status, said, f"'{one_line(model)}'", url)
    told = next((tell(answer) for holds, tell in _BY_WORDS if holds(answer)), None)
    return told or _by_status(answer)


def missing(model: str, url: str, there: Sequence[str] = ()) -> Missing:
    """A server does not have a model; those that it has and that sound alike come along."""
    near = difflib.get_close_matches(model, there, n=3, cutoff=0.5)
    names = [one_line(one) for one in near or sorted(there)[:_SHOWN_NAMES]]
    known = f" {'Near that' if near else 'Models'} there: {', '.join(names)}." if names else ""
    elsewhere = "" if url == DEFAULT_URL else f" --ollama-url {url}"
    return Missing(
        f"Ollama at {url} has no model '{one_line(model)}'.",
        remedy=f"Run `cc-orchestrator models pull {one_line(model)}{elsewhere}`.{known}",
        lasting=True,
    )


def _stopped(answer: _Answer) -> ModelFailed:
    return AskAnother(
        f"The model {answer.model} stopped inside Ollama: {answer.reason}.",
        remedy="Most often memory ran out: take a smaller model or a smaller num_ctx.",
    )


def _no_memory(answer: _Answer) -> ModelFailed:
    return AskAnother(
        f"The model {answer.model} does not fit the memory of {answer.url}: {answer.reason}.",
        remedy="Take a smaller model or a smaller num_ctx, or end what else uses the memory: look at `ollama ps`.",
        lasting=True,
    )


def _no_schema(answer: _Answer) -> ModelFailed:
    return AskAnother(
        f"Ollama at {answer.url} cannot hold the model to the form of a reply: {answer.reason}.",
        remedy="Update Ollama to 0.30 or newer: `ollama --version` says which it is.",
        lasting=True,
    )


def _no_chat(answer: _Answer) -> ModelFailed:
    return ModelFailed(
        f"The model {answer.model} cannot hold a conversation: {answer.reason}.",
        remedy="Choose one that completes text: `cc-orchestrator models list`.",
        lasting=True,
    )


def _no_name(answer: _Answer) -> ModelFailed:
    return ModelFailed(
        f"{answer.model} is not a name of a model: {answer.reason}.",
        remedy="Say it like qwen2.5-coder:7b; `cc-orchestrator models list` shows those that are there.",
        lasting=True,
    )


_BY_WORDS: Final[tuple[tuple[Callable[[_Answer], bool], Callable[[_Answer], ModelFailed]], ...]] = (
    (lambda one: any(one.has(words) for words in _MEMORY), _no_memory),
    (lambda one: one.has("runner") and (one.has("stopped") or one.has("terminated")), _stopped),
    (
        lambda one: one.status in (400, 500) and (one.has("schema") or one.has("grammar") or one.has("invalid format")),
        _no_schema,
    ),
    (lambda one: one.status == 400 and (one.has("does not support chat") or one.has("embedding model")), _no_chat),
    (lambda one: one.status == 400 and one.has("invalid model name"), _no_name),
)
"""The error for each text of Ollama, the first that matches; Ollama has used several statuses for one text."""


def _by_status(answer: _Answer) -> ModelFailed:
    match answer.status:
        case 401:
            return AskAnother(
                f"Ollama may not use {answer.model}: nobody is signed in.",
                remedy="Run `ollama signin` there, or set OLLAMA_API_KEY for ollama.com.",
                lasting=True,
            )
        case 403:
            return AskAnother(
                f"Ollama may not use {answer.model}: {answer.said.rstrip('.') or 'forbidden'}.",
                remedy="Choose a model of this host: `cc-orchestrator models list`.",
                lasting=True,
            )
        case 429 | 503:
            return AskAnother(
                f"Ollama at {answer.url} is busy: {answer.reason}.",
                remedy="Try again when it has less to do.",
                server=answer.url,
            )
        case 499:
            return AskAnother(
                f"Ollama at {answer.url} gave the request up, as if nobody waited for it: {answer.reason}.",
                remedy="Try again; a proxy in front may wait for a shorter time than the model needs.",
            )
        case 502 | 504:
            return AskAnother(
                f"What stands in front of Ollama at {answer.url} answered {answer.status}: {answer.reason}.",
                remedy="Look whether Ollama runs behind that proxy, and how long the proxy waits for an answer.",
                server=answer.url,
            )
        case 200:
            return AskAnother(
                f"Ollama at {answer.url} gave up in the middle of a reply: {answer.reason}.",
                remedy="Look at Ollama's log, then try again; "
                "if it goes on, take a smaller model or a smaller num_ctx.",
            )
        case 400:
            return ModelFailed(
                f"Ollama at {answer.url} does not take the request: {answer.reason}.",
                remedy="Update Ollama (`ollama --version`), and look at the settings of the model.",
                lasting=True,
            )
    return AskAnother(
        f"Ollama at {answer.url} answered {answer.status}: {answer.reason}.",
        remedy="Look at Ollama's log; a proxy or another program may be at this address.",
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


# -- connections ---------------------------------------------------------------------------


def unreachable(url: str, error: BaseException, connect_s: float, kind: Kind = OLLAMA) -> AskAnother:
    """Why no connection was made, from the cause of the error."""
    cause = _cause(error)
    if isinstance(cause, socket.gaierror):
        return AskAnother(
            f"The name in {url} leads to no host: {cause.strerror or cause}.",
            remedy=f"Look for a slip in it, and {kind.where}",
            server=url,
        )
    if isinstance(cause, ssl.SSLError):
        return AskAnother(
            f"There is no safe connection to {url}: {_tls(cause)}.",
            remedy=kind.tls,
        )
    if isinstance(cause, TimeoutError):
        return AskAnother(
            f"Nothing answered at {url} within {connect_s:g} s.",
            remedy=f"The host may be off or a firewall between; else {kind.where}",
            server=url,
        )
    if isinstance(cause, ConnectionRefusedError) or not isinstance(cause, OSError):
        return AskAnother(f"{kind.first} is not running at {url}.", remedy=f"{kind.start}, or {kind.where}", server=url)
    return AskAnother(
        f"{url} cannot be reached: {one_line(cause.strerror or str(cause))}.",
        remedy=f"Look at the network, and {kind.where}",
        server=url,
    )


def _cause(error: BaseException) -> BaseException:
    """What an HTTP library's error says at its root, of the kinds that say something."""
    found, seen = error, 0
    while (inner := found.__cause__ or found.__context__) is not None and seen < _MAX_WRAPS:
        found, seen = inner, seen + 1
        if isinstance(found, (socket.gaierror, ssl.SSLError, TimeoutError, ConnectionRefusedError)):
            return found
    if "timeout" in type(error).__name__.lower():
        return TimeoutError()
    return found


def _tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = getattr(error, "verify_message", "") or "it was not told why"
        return one_line(f"its certificate does not hold ({why})")
    reason = getattr(error, "reason", "") or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return "it does not speak TLS"
    return one_line(reason.replace("_", " ").lower())


def broken(url: str, error: BaseException, kind: Kind = OLLAMA) -> Broken:
    """A connection that was there broke before the answer was whole."""
    return Broken(
        f"The connection to {kind.name} at {url} broke: {one_line(str(error)).rstrip('.') or 'it was closed'}.",
        remedy=f"Look at {kind.log}: it may have stopped.",
        server=url,
    )


def none_answers(failures: Sequence[ModelFailed]) -> ModelFailed:
    """All servers that could be asked have failed; with one, its own failure.

    The remedy is the first one of the failure that most of them have: one server that is well again is enough.
    """
    if len(failures) == 1:
        return failures[0]
    told = " ".join(dict.fromkeys(one.message for one in failures))
    # For a missing model each server names itself.
    kinds = ["missing" if isinstance(one, Missing) else one.remedy for one in failures]
    most = max(kinds, key=kinds.count)
    return ModelFailed(
        one_line(f"None of {len(failures)} Ollama servers gave a reply: {told}", limit=3 * _SHOWN_CHARS),
        remedy=failures[kinds.index(most)].remedy,
        lasting=all(one.lasting for one in failures),
        # One that is back may serve, whatever keeps the others from it.
        server=", ".join(one.server for one in failures if one.server),
    )
