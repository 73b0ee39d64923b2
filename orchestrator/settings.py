"""Settings: flags, then ``CC_ORCHESTRATOR_<NAME>``, then ``cc-orchestrator.toml``, then the default."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.core.errors import InvalidRequest

ENV_PREFIX: Final = "CC_ORCHESTRATOR_"
CONFIG_NAME: Final = "cc-orchestrator.toml"
DEFAULT_URL: Final = "http://127.0.0.1:8765"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class Settings(BaseModel):
    """What ``serve`` needs to know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path
    """Holds the store, the policy, the workspace and the admin's token."""
    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)
    """0: any free port."""
    store: str = ""
    """A store URL; empty: SQLite in the data directory."""
    bus: str = "local:"
    model: str = "scripted:hello"
    """The model of tasks that name none."""
    policy: Path | None = None
    """The policy file; None: ``policy.toml`` in the data directory."""
    workers: int = Field(default=4, ge=1, le=256)
    """Tasks that are acted for at once."""
    approvers: str = "requester"
    """Who decides: requester, not_requester, or ``role:NAME``."""
    insecure_bind: bool = False
    """Bind to an address other than loopback without TLS in front."""

    @property
    def store_url(self) -> str:
        """The store's URL."""
        return self.store or f"sqlite:///{self.data_dir / 'orchestrator.db'}"

    @property
    def policy_path(self) -> Path:
        """The policy file."""
        return self.policy or self.data_dir / "policy.toml"

    @property
    def workspace(self) -> Path:
        """The directory that ``local_*`` may work in."""
        return self.data_dir / "workspace"

    @property
    def token_path(self) -> Path:
        """The client's copy of the admin's token."""
        return self.data_dir / "admin.token"


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """Where things are kept when nobody says: ``~/.local/share/cc-orchestrator`` or what XDG_DATA_HOME says."""
    base = environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "cc-orchestrator"


def load_settings(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """The settings; a flag that is None was not given. Raises InvalidRequest naming what does not fit."""
    names = set(Settings.model_fields)
    chosen = {name: value for name, value in flags.items() if value is not None}
    from_env = {name: environ[ENV_PREFIX + name.upper()] for name in names if environ.get(ENV_PREFIX + name.upper())}
    data_dir = Path(chosen.get("data_dir") or from_env.get("data_dir") or default_data_dir(environ))
    try:
        return Settings.model_validate({**_config(data_dir / CONFIG_NAME), **from_env, **chosen, "data_dir": data_dir})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(
            f"The setting {name} does not fit: {first['msg']}.",
            remedy=f"Look at --{name.replace('_', '-')}, {ENV_PREFIX}{name.upper()} and {data_dir / CONFIG_NAME}.",
        ) from None


def _config(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{path} cannot be read: {error}.", remedy="Mend it or take it away.") from None
