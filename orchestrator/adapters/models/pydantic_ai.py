"""Any pydantic-ai model behind the port: one request, text back, no native tools.

The import of pydantic-ai costs about a second, so nothing imports this module before a model
is named. The schema of a reply is not sent along: with a choice at its root, bounds and optional
keys it is refused by providers that take only their own dialect of schemas, and these models follow
the words of the prompt. Temperature and the like stay the provider's: some models refuse to be told.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from pydantic_ai import direct, exceptions
from pydantic_ai.exceptions import AgentRunError, FallbackExceptionGroup, ModelHTTPError, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    UserPromptPart,
)
from pydantic_ai.models import Model, infer_model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from orchestrator.adapters.models.ollama_errors import AWAY, unwrapped
from orchestrator.core.errors import InvalidRequest, ModelFailed
from orchestrator.core.ports import ChatMessage, ModelReply, Window
from orchestrator.core.task.facts import Usage
from orchestrator.core.text.visible import one_line

WHOLE_S: Final = 900.0
"""A whole reply: hosted models answer within minutes, and their clients wait ten of them between two parts."""
_SHOWN_CHARS: Final = 300
_DONE: Final = {"length": "length", "error": "aborted", "content_filter": "aborted"}
_INSTALL: Final = re.compile(r"""pip install ["']?(pydantic-ai-slim\[[a-z0-9,-]+\])""")
_KEY: Final = re.compile(r"\b[A-Z][A-Z0-9_]*(?:KEY|TOKEN)\b")
_REMEDIES: Final = {
    401: "Look at the provider's API key.",
    403: "Look at the provider's API key and what it may use.",
    404: "Look at the model's name.",
    429: "Wait, or look at the provider's limits.",
}
_LASTING: Final = frozenset({400, 401, 402, 403, 404, 405, 413, 422})
"""Errors that the same request gets every time."""
_UNREACHED: Final = (
    ConnectionError,
    *(kind for name in ("ModelConnectionError", "ModelUnavailableError") if (kind := getattr(exceptions, name, None))),
)
"""No word of the provider about the request; the last two are of later versions of the library."""
_OTHERWISE: Final = "Look at the network and at the provider's state, then try again."
_NAMES: Final = (
    "Say ollama:MODEL for a model of Ollama, scripted:hello for the demo's script, or PROVIDER:MODEL "
    "as pydantic-ai names it, such as anthropic:claude-sonnet-4-5."
)


def named_model(name: str) -> "PydanticAIModel":
    """The model of a name such as ``openai-chat:gpt-5``. Raises InvalidRequest when it cannot be made."""
    try:
        return PydanticAIModel(infer_model(name))
    except ImportError as error:
        raise _not_installed(name, error) from error
    except (UserError, ValueError) as error:
        key = _KEY.search(str(error))
        raise InvalidRequest(
            f"The model '{one_line(name)}' cannot be used: {_why(error)}.",
            remedy=f"Set {key.group()} where the server is started." if key else _NAMES,
        ) from error


def _why(error: BaseException) -> str:
    """What an error of the library says, on one line and without its full stop."""
    return one_line(str(error), limit=_SHOWN_CHARS).rstrip(".") or type(error).__name__


def _not_installed(name: str, error: ImportError) -> InvalidRequest:
    extra = _INSTALL.search(str(error))
    if extra is None:
        return InvalidRequest(
            f"The model '{one_line(name)}' cannot be used: {_why(error)}.",
            remedy="Install the package that it names where the server is started, and start again.",
        )
    own = " For a server of your own, say where it listens: --model-url." if name.startswith("openai-chat:") else ""
    return InvalidRequest(
        f"The model '{one_line(name)}' cannot be used: the package of its provider is not installed.",
        remedy=f'Run `pip install "{extra.group(1)}"` and start again.{own}',
    )


def _servers(model: Model) -> Sequence[str] | None:
    if isinstance(model, WrapperModel):
        return _servers(model.wrapped)
    if isinstance(model, FunctionModel | TestModel):
        return ()
    if isinstance(model, FallbackModel):
        found = [_servers(one) for one in model.models]
        return None if None in found else [url for one in found for url in one or ()]
    url = getattr(model, "base_url", None)
    return (url,) if isinstance(url, str) and url else None


def wrapped_model(model: Any) -> "PydanticAIModel":
    """A pydantic-ai Model behind the port. Raises InvalidRequest for another object."""
    if not isinstance(model, Model):
        raise InvalidRequest(
            f"A {type(model).__name__} is not a model.", remedy="Give a name, a ChatModel or a pydantic-ai Model."
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

    @property
    def servers(self) -> Sequence[str] | None:
        """Where it is asked; nowhere: it is made of code of this process. None: that is not known."""
        return _servers(self._model)

    @property
    def _server(self) -> str:
        """The server where the model is asked, for people."""
        return one_line(str(getattr(self._model, "base_url", None) or f"the provider of {self.name}"))

    async def window(self) -> Window | None:
        """None: a provider does not say."""
        return None

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
        user: str = "",
        affinity: str = "",
        one_computer: bool = False,
    ) -> ModelReply:
        """The model's reply as text, without what it thought. Raises ModelFailed."""
        del user, affinity, one_computer
        view = [_message(one) for one in messages]
        settings = None if max_output_tokens is None else ModelSettings(max_tokens=max_output_tokens)
        limit = asyncio.timeout(WHOLE_S)
        try:
            async with limit:
                if on_text is not None and _can_stream(self._model):
                    return await self._streamed(view, settings, on_text)
                reply = _reply(await direct.model_request(self._model, view, model_settings=settings))
        except ModelHTTPError as error:
            said = unwrapped(error.body or str(error))[0].rstrip(".")
            raise ModelFailed(
                f"The model {self.name} could not be asked: its provider answered {error.status_code}: {said}.",
                remedy=_REMEDIES.get(error.status_code, _OTHERWISE),
                lasting=error.status_code in _LASTING,
                server=self._server if error.status_code in AWAY else "",
            ) from error
        except (AgentRunError, FallbackExceptionGroup, UserError, OSError) as error:
            why = f"it had not finished after {WHOLE_S:g} s" if limit.expired() else _why(error)
            slow = "Timeout" in type(error).__name__ and getattr(error, "phase", "") != "connect"
            away = isinstance(error, _UNREACHED) and not slow and not limit.expired()
            raise ModelFailed(
                f"The model {self.name} could not be asked: {why}.",
                remedy=_OTHERWISE,
                server=self._server if away else "",
            ) from error
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply

    async def _streamed(
        self, view: list[ModelMessage], settings: ModelSettings | None, on_text: Callable[[str], None]
    ) -> ModelReply:
        async with direct.model_request_stream(self._model, view, model_settings=settings) as stream:
            async for event in stream:
                match event:
                    case (
                        PartStartEvent(part=TextPart(content=part))
                        | PartDeltaEvent(delta=TextPartDelta(content_delta=part))
                    ) if part:
                        on_text(part)
        return _reply(stream.get())


def _can_stream(model: Model) -> bool:
    while isinstance(model, WrapperModel):
        model = model.wrapped
    if isinstance(model, FunctionModel):
        return model.stream_function is not None
    return type(model).request_stream is not Model.request_stream


def _reply(response: ModelResponse) -> ModelReply:
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
