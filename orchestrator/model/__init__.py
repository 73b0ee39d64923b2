"""Models behind the port ``ChatModel``: scripted, or anything that pydantic-ai can drive."""

from typing import Any

from orchestrator.core.errors import InvalidRequest
from orchestrator.model.scripted import SCRIPTS, ScriptedModel
from orchestrator.ports import ChatModel

__all__ = ["ScriptedModel", "as_chat_model"]


def as_chat_model(model: Any) -> ChatModel:
    """A ChatModel as it is, a pydantic-ai Model wrapped, a name opened.

    Names: ``scripted:NAME`` for a shipped script, anything else for pydantic-ai (imported only then).
    Raises InvalidRequest when it is none of these.
    """
    if isinstance(model, str):
        return _by_name(model)
    if hasattr(model, "reply"):
        chat: ChatModel = model
        return chat
    from orchestrator.model.pydantic_ai import wrapped_model

    return wrapped_model(model)


def _by_name(name: str) -> ChatModel:
    kind, _, script = name.partition(":")
    if kind == "scripted":
        if script not in SCRIPTS:
            raise InvalidRequest(f"There is no script {script!r}.", remedy=f"Scripts: {', '.join(sorted(SCRIPTS))}.")
        return ScriptedModel(SCRIPTS[script], name=name)
    from orchestrator.model.pydantic_ai import named_model

    return named_model(name)
