"""Any pydantic-ai model behind the port: one request, text back, no native tools.

The import of pydantic-ai costs about a second, so nothing imports this module before a model
is named.
"""

from collections.abc import Sequence
from typing import Any

from pydantic_ai import direct
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart
from pydantic_ai.models import Model, infer_model

from orchestrator.core.errors import InvalidRequest, ModelFailed
from orchestrator.core.facts import Usage
from orchestrator.ports import ChatMessage, ModelReply

_DONE = {"length": "length", "error": "aborted", "content_filter": "aborted"}


def named_model(name: str) -> "PydanticAIModel":
    """The model of a name such as ``openai-chat:gpt-5``. Raises InvalidRequest when it cannot be made."""
    try:
        return PydanticAIModel(infer_model(name))
    except (UserError, ValueError, ImportError) as error:
        raise InvalidRequest(f"The model {name!r} cannot be used: {error}") from error


def wrapped_model(model: Any) -> "PydanticAIModel":
    """A pydantic-ai Model behind the port. Raises InvalidRequest when it is none."""
    if not isinstance(model, Model):
        raise InvalidRequest(
            f"A {type(model).__name__} is no model.", remedy="Give a name, a ChatModel or a pydantic-ai Model."
        )
    return PydanticAIModel(model)


class PydanticAIModel:
    """A pydantic-ai model, FunctionModel and TestModel included."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """The model's own name."""
        return self._model.model_name

    async def reply(self, messages: Sequence[ChatMessage]) -> ModelReply:
        """The model's reply as text. Raises ModelFailed."""
        try:
            response = await direct.model_request(self._model, [_message(one) for one in messages])
        except (AgentRunError, OSError) as error:
            raise ModelFailed(f"The model {self.name} could not be asked: {error}") from error
        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        usage = Usage(input_tokens=response.usage.input_tokens, output_tokens=response.usage.output_tokens)
        return ModelReply(text=text, done_reason=_DONE.get(_finish(response), "stop"), usage=usage)


def _finish(response: ModelResponse) -> str:
    reason: Any = response.finish_reason
    return str(reason or "stop")


def _message(message: ChatMessage) -> ModelMessage:
    match message.role:
        case "system":
            return ModelRequest(parts=[SystemPromptPart(content=message.content)])
        case "user":
            return ModelRequest(parts=[UserPromptPart(content=message.content)])
        case "assistant":
            return ModelResponse(parts=[TextPart(content=message.content)])
