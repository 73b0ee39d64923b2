"""The start of a server: files that it finds or makes in the data directory, models by name, and its first words."""

import asyncio
import logging
import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from orchestrator.adapters.models import Connecting, OllamaOptions, Pool, ServerOptions, as_chat_model
from orchestrator.adapters.models.kept_models import kept_models
from orchestrator.adapters.models.ollama_server import OllamaApi, names_in, with_tag
from orchestrator.adapters.models.options import endpoints_of
from orchestrator.core.errors import InvalidRequest, ModelFailed, NotFound
from orchestrator.core.model_view.prompt import Prompt
from orchestrator.core.policy import Policy
from orchestrator.core.policy.load import DEFAULT_POLICY_TOML
from orchestrator.core.ports import ChatMessage, ChatModel, ModelReply, Workspace, is_local
from orchestrator.core.task.system_facts import RECORDS, NodeStarted
from orchestrator.core.task.task import AgentTask
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import DEFAULT_URL, ENV_PREFIX, program, version
from orchestrator.runtime.prompts import FILE, SHIPPED_VERSION
from orchestrator.runtime.settings import Settings
from orchestrator.tools.workspace import RefusedWorkspace
from orchestrator.web.answers.base import ModelRow, ModelServerRow
from orchestrator.web.doctor import About

# -- The models of the tasks, as the settings name them ----------------------------------

logger = logging.getLogger(__name__)
_CHECK_S: Final = 1.5
"""How long Ollama may take to say what it has before a task is taken all the same."""
_SHOWN_MODELS: Final = 10


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
        self._looking = asyncio.Lock()
        self._noted: set[str] = set()
        """The hosted models that were said to be so."""

    def open(self, name: str) -> ChatModel:
        """The model of a name. Raises InvalidRequest when it cannot be used."""
        if self._only is not None:
            return self._only
        if name not in self._opened:
            self._opened[name] = model = self._opened_now(name)
            if isinstance(model, Connecting):
                model.keep()
        return self._opened[name]

    async def aclose(self) -> None:
        """Close the connections to the servers of the models."""
        for model in self._opened.values():
            if isinstance(model, Connecting):
                await model.close()

    def _opened_now(self, name: str) -> ChatModel:
        if not name.startswith("ollama:"):
            return as_chat_model(name, served=self._served() if name.startswith("openai-chat:") else None)
        options = self._ollama()
        if self._pool is None:
            self._pool = Pool(options.endpoints)
        return as_chat_model(name, options, self._pool)

    @property
    def by_name(self) -> bool:
        """Whether a task's model is the one that is named, not one for all."""
        return self._only is None

    async def check(self, name: str) -> None:
        """Raises NotFound for a model that is not there, and InvalidRequest as :meth:`open`.

        A server that does not answer may have it: the task waits for that one.
        """
        try:
            await asyncio.to_thread(self.open, name)
        except InvalidRequest as error:
            if ":" in name and not name.startswith("scripted:") and with_tag(name) not in await self._ollamas():
                raise
            raise NotFound(error.message, remedy=await self._known(name, error.remedy)) from error
        if self._only is not None or not name.startswith("ollama:"):
            return
        there = await self._ollamas(sure=True)
        if there and with_tag(name.removeprefix("ollama:").strip()) not in there:
            remedy = await self._known(name, f"Get it: ollama pull {one_line(name.removeprefix('ollama:'))}.")
            raise NotFound(f"There is no model {one_line(name)}.", remedy=remedy)

    async def _known(self, name: str, remedy: str) -> str:
        """What to do, with the models that there are."""
        there = sorted(await self._ollamas())
        if with_tag(name) in there:
            return f"Say ollama:{one_line(name)}."
        known = ", ".join(f"ollama:{one}" for one in there[:_SHOWN_MODELS])
        return f"{remedy} Models there: {known}." if known else remedy

    async def _ollamas(self, *, sure: bool = False) -> set[str]:
        """The models of all Ollama servers, as far as they answer soon; ``sure``: none where one does not answer."""
        try:
            options = self._ollama()
        except InvalidRequest:
            return set()
        quick = replace(options, connect_s=_CHECK_S, fact_s=_CHECK_S)
        told = await asyncio.gather(
            *(OllamaApi(one.url, quick).listed() for one in quick.endpoints), return_exceptions=True
        )
        if sure and not all(isinstance(one, dict) for one in told):
            return set()
        return {with_tag(name) for one in told for name in names_in(one)}

    async def servers(self) -> Sequence[ModelServerRow]:
        """The models of each model server that is asked, looked up one at a time for all who want to know."""
        async with self._looking:
            addresses = [one.url for one in self._ollama().endpoints]
            served = self._served()
            found = await asyncio.gather(*map(_kept_at, addresses))
            return [*found, *([await _served_at(served)] if served.is_own else [])]

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
            "the model %s is not local%s: passwords, keys and tokens in its requests are masked, unless "
            'the policy says secrets_to_model = "allow" (docs/policy.md)',
            model.name,
            f" ({where})" if where else "",
        )


async def _kept_at(url: str) -> ModelServerRow:
    try:
        kept = await kept_models(url)
    except ModelFailed as error:
        return ModelServerRow(url=url, trouble=str(error), models=[])
    rows = [
        ModelRow(name=f"ollama:{one.name}", size=one.size, parameters=one.parameters, quantization=one.quantization)
        for one in kept
    ]
    return ModelServerRow(url=url, trouble="", models=rows)


async def _served_at(options: ServerOptions) -> ModelServerRow:
    from orchestrator.adapters.models.openai_server import listed

    try:
        names = (await listed(options)).names
    except ModelFailed as error:
        return ModelServerRow(url=options.url, trouble=str(error), models=[])
    rows = [ModelRow(name=f"openai-chat:{name}", size=0, parameters="", quantization="") for name in names]
    return ModelServerRow(url=options.url, trouble="", models=rows)


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


# -- What this node says of itself: its version, and what it was started with ------------

_WHO: Final = re.compile(r"(://[^:/@\s]*:)\S*@")
"""The password of a URL such as a store's; it may hold a sign that does not belong there, so up to the last ``@``."""
_WHO_ON_BUS: Final = re.compile(r"((?:nats|tls)://|,)[^/,]*@")
"""The user part of each server in the URL of a NATS bus.

Without a password it is a token, which alone opens the bus.
"""
_PASSWORD: Final = re.compile(r"((?:password|passfile|token)=)[^&\s]*")


def about(settings: Settings, workspace: Workspace | None = None, *, only_demo: bool = False) -> About:
    """What the doctor is told of this node."""
    return About(
        version=version(),
        data_dir=str(settings.data_dir.absolute()),
        host=settings.host,
        public_url=settings.public_url,
        cell=settings.cell,
        router=settings.router,
        model=settings.model,
        only_demo=only_demo,
        ollama_url=",".join(one.url for one in endpoints_of(ollama_url(settings), settings.ollama_concurrency)),
        # Without a password or a key that is in it.
        model_url=re.sub(r"(?<=//)[^/]*@|\?.*", "", settings.model_url or os.environ.get("OPENAI_BASE_URL", "")),
        num_ctx=settings.num_ctx,
        alerts=(str(workspace.why),) if settings.workspace and isinstance(workspace, RefusedWorkspace) else (),
    )


def to_be_shared(settings: Settings, prompt: Prompt) -> dict[str, str]:
    """Settings of each node that must be the same on all nodes of one store, as people read them."""
    return {
        "approvers": settings.approvers,
        "remote_keys": settings.remote_keys,
        "cell": settings.cell or "none",
        "oidc_issuer": settings.oidc_issuer or "none",
        "oidc_roles": "; ".join(f"{value}={'+'.join(roles)}" for value, roles in settings.oidc_roles.items()) or "none",
        "oidc_session_h": f"{settings.oidc_session_h:g}",
        "lease_s": f"{settings.lease_s:g}",
        # The node that holds this singleton job prunes the store for all.
        "retain_days": str(settings.retain_days),
        "retain_bytes": str(settings.retain_bytes),
        # The shipped text is another with each version, and that is not a setting.
        FILE: "the shipped text" if prompt.version == SHIPPED_VERSION else prompt.version,
    }


def started(settings: Settings, policy: Policy, node: str) -> NodeStarted:
    """The start of this node as it is recorded: what differs from the defaults."""
    differs = {
        name: _without_password(str(value))
        for name, field in Settings.model_fields.items()
        if (value := getattr(settings, name)) != field.default and name != "data_dir"
    }
    return NodeStarted(version=version(), policy_version=policy.version, settings=differs, node=node, records=RECORDS)


def _without_password(value: str) -> str:
    if value.startswith(("nats://", "tls://")):
        return _WHO_ON_BUS.sub(r"\1***@", value)
    return _PASSWORD.sub(r"\1***", _WHO.sub(r"\1***@", value))


# -- What a start finds in the data directory or makes there, and what the first one says


def first_words(settings: Settings, url: str) -> list[str]:
    """What the first start says to its user: where the token is, and what to type next."""
    here = "" if url == DEFAULT_URL else f"{ENV_PREFIX}URL={url} "
    name = program()
    words = [
        f"The admin's token was written to {settings.token_path}. In another terminal:",
        f'  export {here}{ENV_PREFIX}TOKEN="$(cat {shlex.quote(str(settings.token_path))})"',
        f"  {name} pair      # prints the line to type on a computer in the game",
        f'  {name} run "Write a hello world program and run it" --computer NAME',
        f"  {name} review    # shows what waits for you, and asks",
        f"All of that is on the page {url}/ too, which takes that token, and in a terminal in `{name} tui`.",
    ]
    if settings.host in ("0.0.0.0", "::") and not settings.public_url:
        words.append(
            "Say --public-url http://ADDRESS:PORT too, so that pairing names an address that the game reaches."
        )
    return words


def prepare(settings: Settings) -> bool:
    """Make the data directory at the first start, with the shipped policy in it; whether this was the first."""
    try:
        first = not settings.data_dir.exists() or not any(settings.data_dir.iterdir())
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        settings.workspace_path.mkdir(parents=True, exist_ok=True)
        database = settings.data_dir / "orchestrator.db"
        shipped = settings.embedded and settings.policy is None and not database.exists()
        if shipped and not settings.policy_path.exists():
            settings.policy_path.write_text(DEFAULT_POLICY_TOML, "utf-8")
    except OSError as error:
        raise InvalidRequest(
            f"The data directory {settings.data_dir} cannot be used: {error.strerror or error}.",
            remedy="Choose another with --data-dir.",
        ) from None
    return first
