"""Models behind the port ``ChatModel``: scripted, Ollama's, or anything that pydantic-ai can drive."""

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from orchestrator.adapters.models.options import OllamaOptions, ServerOptions
from orchestrator.adapters.models.pool import Pool
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import one_line

if TYPE_CHECKING:
    from orchestrator.core.ports import ChatModel

__all__ = ["Connecting", "OllamaOptions", "Pool", "ServerOptions", "as_chat_model"]


@runtime_checkable
class Connecting(Protocol):
    """A model with connections of its own, which a server keeps between the requests of its tasks."""

    def keep(self) -> None:
        """Keep connections between requests from now on, until :meth:`close`."""

    async def close(self) -> None:
        """Close the connections that are kept."""


def as_chat_model(
    model: Any, options: OllamaOptions | None = None, pool: Pool | None = None, served: ServerOptions | None = None
) -> "ChatModel":
    """A ChatModel as it is, a pydantic-ai Model wrapped, a name opened.

    Names: ``scripted:NAME`` for a shipped script, ``ollama:MODEL`` for a model of an Ollama server (asked
    with ``options``; None: the defaults, at OLLAMA_HOST), ``openai-chat:MODEL`` for a model of a server that
    speaks OpenAI's API (asked with ``served``; None: the defaults, at OPENAI_BASE_URL; without an address it
    is OpenAI itself, through pydantic-ai), anything else for pydantic-ai. What a name needs is imported only
    then. ``pool`` shares the servers of ``options`` between the models of one process; None: this model has
    them for itself. Raises InvalidRequest when it is none of these.
    """
    if isinstance(model, str):
        return _by_name(model, options, pool, served)
    if hasattr(model, "reply"):
        from orchestrator.adapters.models.truncation import as_it_is

        return as_it_is(model)
    from orchestrator.adapters.models.pydantic_ai import wrapped_model

    return wrapped_model(model)


def _by_name(name: str, options: OllamaOptions | None, pool: Pool | None, served: ServerOptions | None) -> "ChatModel":
    kind, _, rest = name.partition(":")
    if kind == "scripted":
        from orchestrator.adapters.models.scripted import SCRIPTS, ScriptedModel

        if rest not in SCRIPTS:
            known = ", ".join(f"scripted:{one}" for one in sorted(SCRIPTS))
            raise InvalidRequest(f"There is no script '{one_line(rest)}'.", remedy=f"There are {known}.")
        return ScriptedModel(SCRIPTS[rest], name=name)
    if kind == "ollama":
        if not rest.strip():
            raise InvalidRequest("The name after ollama: is missing.", remedy="For example ollama:llama3.2.")
        from orchestrator.adapters.models.ollama import OllamaModel

        return OllamaModel(rest, options, pool)
    if kind == "openai-chat":
        served = served or ServerOptions()
        if served.is_own:
            return _of_server(rest, served)
    from orchestrator.adapters.models.pydantic_ai import named_model

    return named_model(name)


def _of_server(name: str, served: ServerOptions) -> "ChatModel":
    if not name.strip():
        raise InvalidRequest(
            "The name after openai-chat: is missing.",
            remedy="`cc-orchestrator models list` shows those that there are.",
        )
    from orchestrator.adapters.models.openai import ServedModel

    return ServedModel(name, served)
