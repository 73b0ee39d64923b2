"""What one look came to, and what all of them know."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from orchestrator.core.connection_problems import Told
from orchestrator.core.errors import OrchestratorError
from orchestrator.runtime.settings import Settings

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    check: str
    """What was looked at, in a word or two."""
    state: State
    sentence: str
    remedy: tuple[str, ...] = ()
    """Lines that mend it, or that say what else could be had."""

    def as_json(self) -> dict[str, Any]:
        """The same as plain JSON."""
        return asdict(self)


def failed(check: str, error: OrchestratorError, state: State = "fail") -> Finding:
    """An error of ours as a finding."""
    return Finding(check, state, error.message, (error.remedy,) if error.remedy else ())


def troubled(check: str, trouble: Told, state: State = "fail") -> Finding:
    """A reason of the common table as a finding."""
    return Finding(check, state, trouble.sentence, trouble.remedy)


@dataclass(frozen=True)
class Patient:
    """What is known before anything is looked at closely."""

    url: str
    """Where the server should answer."""
    settings: Settings
    """Those of a server that would be started now; what was said to the running one is in ``seen``."""
    data_dir: Path
    answers: bool = False
    """Whether an orchestrator answers at the URL."""
    seen: Mapping[str, Any] | None = None
    """What the running server told of itself, GET /v1/doctor; None: it does not run, or did not tell."""

    @property
    def shown(self) -> str:
        """The URL without a password that may stand in it."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"

    def running(self, name: str) -> Any:
        """What the running server was started with; else the setting."""
        return self.seen[name] if self.seen is not None else getattr(self.settings, name)

    @property
    def address(self) -> str:
        """The server's address as `pair` tells it to a computer."""
        return str(self.running("public_url")) or self.shown
