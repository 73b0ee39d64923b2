"""What this node says of itself: its version, and what it was started with."""

import os
import re
from importlib import metadata
from typing import Final

from orchestrator.adapters.models.options import endpoints_of
from orchestrator.app.models import ollama_url
from orchestrator.core.model_view.prompt import Prompt
from orchestrator.core.policy import Policy
from orchestrator.core.ports import Workspace
from orchestrator.core.task.system_facts import RECORDS, NodeStarted
from orchestrator.runtime.prompts import FILE, SHIPPED_VERSION
from orchestrator.runtime.settings import Settings
from orchestrator.tools.shared_workspace import RefusedWorkspace
from orchestrator.web.doctor import About

_WHO: Final = re.compile(r"(://[^:/@\s]*:)\S*@")
"""The password of a URL such as a store's; it may hold a sign that does not belong there, so up to the last ``@``."""
_WHO_ON_BUS: Final = re.compile(r"((?:nats|tls)://|,)[^/,]*@")
"""Who comes to each server of a NATS bus: one without a password has a token, and that alone opens the bus."""
_PASSWORD: Final = re.compile(r"((?:password|passfile|token)=)[^&\s]*")


def version() -> str:
    """The version that is installed; empty: it runs from a checkout that nobody installed."""
    try:
        return metadata.version("cc-orchestrator")
    except metadata.PackageNotFoundError:
        return ""


def about(settings: Settings, workspace: Workspace | None = None) -> About:
    """What the doctor is told of this node."""
    return About(
        version=version(),
        data_dir=str(settings.data_dir.absolute()),
        host=settings.host,
        public_url=settings.public_url,
        model=settings.model,
        ollama_url=",".join(one.url for one in endpoints_of(ollama_url(settings), settings.ollama_concurrency)),
        model_url=settings.model_url or os.environ.get("OPENAI_BASE_URL", ""),
        num_ctx=settings.num_ctx,
        alerts=(str(workspace.why),) if settings.workspace and isinstance(workspace, RefusedWorkspace) else (),
    )


def to_be_shared(settings: Settings, prompt: Prompt) -> dict[str, str]:
    """What has to be the same on all nodes of one store and is each node's own to set, as people read it."""
    return {
        "approvers": settings.approvers,
        "remote_keys": settings.remote_keys,
        "lease_s": f"{settings.lease_s:g}",
        # Whichever node has the duty prunes the store of all.
        "retain_days": str(settings.retain_days),
        "retain_bytes": str(settings.retain_bytes),
        # The shipped text is another with each version, and that is no setting.
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
