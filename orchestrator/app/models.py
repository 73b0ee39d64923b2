"""The models of the tasks, as the settings name them."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from orchestrator.adapters.models import OllamaOptions, Pool, ServerOptions, as_chat_model
from orchestrator.core.errors import InvalidRequest, ModelFailed
from orchestrator.core.ports import ChatMessage, ChatModel, ModelReply, is_local
from orchestrator.core.task.task import AgentTask
from orchestrator.runtime.settings import Settings

logger = logging.getLogger(__name__)


class Models:
    """The models of the tasks, opened once each; ``only``: one model for all, whatever they name.

    Those of Ollama share its servers, each of which takes so many requests at once and no more.
    """

    def __init__(
        self, only: ChatModel | None, ollama: Callable[[], OllamaOptions], served: Callable[[], ServerOptions]
    ) -> None:
        self._only = only
        self._ollama = ollama
        self._served = served
        self._pool: Pool | None = None
        self._opened: dict[str, ChatModel] = {}
        self._noted: set[str] = set()
        """The hosted models that were said to be so."""

    def open(self, name: str) -> ChatModel:
        """The model of a name. Raises InvalidRequest when it cannot be used."""
        if self._only is not None:
            return self._only
        if name not in self._opened:
            self._opened[name] = self._opened_now(name)
        return self._opened[name]

    def _opened_now(self, name: str) -> ChatModel:
        if not name.startswith("ollama:"):
            return as_chat_model(name, served=self._served() if name.startswith("openai-chat:") else None)
        options = self._ollama()
        if self._pool is None:
            self._pool = Pool(options.endpoints)
        return as_chat_model(name, options, self._pool)

    async def begin(self, name: str) -> list[asyncio.Task[None]]:
        """Open the model of most tasks, and look at it in the background. Raises InvalidRequest as :meth:`open`."""
        if self._only is not None:
            return []
        await asyncio.to_thread(self.open, name)
        return [asyncio.create_task(self._look(name))]

    async def _look(self, name: str) -> None:
        """Say at once in the log what would keep a model from answering, such as that it is not there."""
        try:
            await self.open(name).window()
        except ModelFailed as error:
            logger.warning("%s", error)

    def of_task(self, task: AgentTask) -> ChatModel:
        """The task's model, or one that says why it cannot be used, so that the task ends honestly."""
        try:
            model = self.open(task.model)
        except InvalidRequest as error:
            return _Unusable(task.model, error)
        self._note(model)
        return model

    def _note(self, model: ChatModel) -> None:
        """Say once of each hosted model what it is not told."""
        if model.name in self._noted or is_local(model):
            return
        self._noted.add(model.name)
        where = ", ".join(urlsplit(one).hostname or one for one in getattr(model, "servers", None) or ())
        logger.warning(
            "the model %s is not local%s: passwords, keys and tokens in what it is sent are masked, unless "
            'the policy says secrets_to_model = "allow" (docs/policy.md)',
            model.name,
            f" ({where})" if where else "",
        )


def ollama_url(settings: Settings) -> str:
    return settings.ollama_url or os.environ.get("OLLAMA_HOST", "")


def server_options(settings: Settings) -> ServerOptions:
    """How a server is asked that speaks OpenAI's API. Raises InvalidRequest."""
    return ServerOptions(
        url=settings.model_url or os.environ.get("OPENAI_BASE_URL", ""),
        # Its default is for Ollama, which is told; such a server says how long its window is.
        num_ctx=settings.num_ctx if "num_ctx" in settings.model_fields_set else None,
        num_predict=settings.num_predict,
        temperature=settings.temperature,
        seed=settings.seed,
        think=settings.think,
    )


def ollama_options(settings: Settings) -> OllamaOptions:
    """How Ollama is asked. Raises InvalidRequest."""
    return OllamaOptions(
        url=ollama_url(settings),
        num_ctx=settings.num_ctx,
        num_predict=settings.num_predict,
        temperature=settings.temperature,
        seed=settings.seed,
        keep_alive=settings.keep_alive,
        concurrency=settings.ollama_concurrency,
        think=settings.think,
    )


@dataclass
class _Unusable:
    """Stands for a model that was there when the task was submitted and is no longer."""

    name: str
    why: InvalidRequest

    async def window(self) -> None:
        """None: it has none."""

    async def reply(self, messages: Sequence[ChatMessage], **_: object) -> ModelReply:
        """Raises ModelFailed."""
        raise ModelFailed(self.why.message, remedy=self.why.remedy, lasting=True)
