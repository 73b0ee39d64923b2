"""What settings there are.

Each field says what it means, and its unit where it has one; docs/settings.md is drawn from them.
"""

import re
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

DEFAULT_URL: Final = "http://127.0.0.1:8765"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})

_ADDRESS: Final = re.compile(r"https?://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")

_OLLAMA: Final = re.compile(r"(?:https?://)?[\w.:%\[\]-]+(?:/[\w./%~-]*)?(?:#[1-9][0-9]?)?", re.ASCII)
"""As OLLAMA_HOST may be written, the scheme and the port may be left out, and perhaps a limit of its own."""
_DURATION: Final = re.compile("[0-9]{1,6}[smh]")
_APPROVERS: Final = re.compile("requester|not_requester|role:(?:submitter|reviewer|admin)")


def _setting(default: Any, meaning: str, unit: str = "", **bounds: Any) -> Any:
    """A field with its meaning and its unit; ``...`` as default: it has none."""
    extra = {"unit": unit} if unit else None
    return Field(default, description=meaning, json_schema_extra=extra, **bounds)  # type: ignore[arg-type]


class Settings(BaseModel):
    """What ``serve`` needs to know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path = _setting(..., "Holds the store, the policy, the workspace and the admin's token.")
    host: str = _setting("127.0.0.1", "The address to listen on; only loopback without `insecure_bind`.")
    port: int = _setting(8765, "The port to listen on; 0: any free port.", ge=0, le=65535)
    public_url: str = _setting(
        "",
        "Where the computers in the game, and browsers elsewhere, reach this server, such as "
        "`http://192.168.1.5:8765`; empty: the address that it listens on.",
    )
    proxies: str = _setting(
        "",
        "The addresses or networks of proxies in front of this server, with commas between, such as `127.0.0.1, ::1`: "
        "their `X-Forwarded-For` and `X-Forwarded-Proto` are believed. Empty: nobody's.",
    )
    insecure_bind: bool = _setting(False, "Listen on an address other than loopback without TLS in front.")
    store: str = _setting(
        "",
        "A store URL: `sqlite:///FILE`, for several nodes `postgresql://HOST/NAME`; empty: SQLite in the data "
        "directory.",
    )
    bus: str = _setting(
        "local:",
        "How several nodes reach one another: `nats://HOST` or `postgresql://HOST/NAME`; `local:`: there is one.",
    )
    node: str = _setting(
        "", "What this node is called among several, for people; empty: the name of its host.", max_length=64
    )
    workspace: Path | None = _setting(
        None,
        "The directory that `local_*` may work in; where several nodes share a store, all must share this directory. "
        "Not set: `workspace` in the data directory.",
    )
    policy: Path | None = _setting(None, "The policy file; not set: `policy.toml` in the data directory.")
    approvers: str = _setting(
        "requester",
        "Who decides: `requester` (reviewers and admins their own, and those of submitters and programs), "
        "`not_requester` or `role:NAME`.",
    )
    remote_keys: Literal["owner", "off"] = _setting(
        "owner",
        "Who may type at a computer from outside: `owner` (who paired it, and admins) or `off` (nobody). As if "
        "they sat there: no policy is asked; each time is in the audit.",
    )
    rehearsals: int = _setting(2, "Rehearsals at once, each with a process for its copy; 0: none.", ge=0, le=32)
    workers: int = _setting(4, "Tasks that are acted for at once.", ge=1, le=256)
    lease_s: float = _setting(
        30.0,
        "How long a node that says nothing any more keeps its tasks; another goes on within half as much again. The "
        "same on all nodes.",
        "s",
        ge=1,
        le=3600,
        allow_inf_nan=False,
    )
    drain_s: float = _setting(
        20.0,
        "When this node stops and others are there: how long a model's reply, or a call on a computer, is waited for "
        "before its task is handed over; 0: not at all. Alone, calls get 2 s at most, and replies nothing.",
        "s",
        ge=0,
        le=3600,
        allow_inf_nan=False,
    )
    grace_s: float = _setting(
        10.0,
        "When this node stops and others are there: how long its doors go on answering after `/healthz` says "
        "503, at least, so that a load balancer that looks every few seconds has found out. Its tasks are handed over "
        "meanwhile.",
        "s",
        ge=0,
        le=3600,
        allow_inf_nan=False,
    )
    max_steps: int = _setting(20, "Replies of the model at most, for tasks that name none.", ge=1, le=1000)
    max_wall_s: float = _setting(
        0.0,
        "Time from its first step on, for tasks that name none; waiting for computers counts, for people or a model "
        "server that is away not; 0: no limit.",
        "s",
        ge=0,
        le=604_800,
        allow_inf_nan=False,
    )
    max_tokens: int = _setting(
        0,
        "What a model reads and writes at most, for tasks that name none; a request that would pass it is not sent; 0: "
        "no limit.",
        "tokens",
        ge=0,
        le=100_000_000,
    )
    model_wait_s: float = _setting(
        120.0,
        "How long a task waits for a model server that cannot be reached before it fails; `run --wait-for-model` waits "
        "without an end; 0: no wait, three attempts.",
        "s",
        ge=0,
        le=604_800,
        allow_inf_nan=False,
    )
    run_timeout_s: int = _setting(
        60,
        "How long a program may run on a computer, in time of the game, where neither the call nor the policy says; a "
        "game that is paused uses none of it.",
        "s",
        ge=1,
        le=86_400,
    )
    model: str = _setting("scripted:hello", "The model of tasks that name none.")
    model_url: str = _setting(
        "",
        "Where a server listens that speaks OpenAI's API (LM Studio, llama-server, vLLM, llamafile), such as "
        "`http://127.0.0.1:1234/v1`: its models are `openai-chat:NAME`; empty: as OPENAI_BASE_URL says.",
    )
    ollama_url: str = _setting(
        "",
        "Where Ollama listens, such as `http://127.0.0.1:11434`; several with commas between (in the file also "
        "a list), `URL#2` for one that is given two requests at once; empty: as OLLAMA_HOST says, or port 11434 here.",
    )
    ollama_concurrency: int = _setting(
        1,
        "Ollama: requests that a server is given at once, where its address does not say; "
        "as OLLAMA_NUM_PARALLEL says there, and 1 where it says nothing.",
        ge=1,
        le=64,
    )
    num_ctx: int = _setting(
        8192,
        "Ollama: the window, prompt and reply together; another value loads the model anew. A server at `model_url` is "
        "taken to have at most so many, where this is set.",
        "tokens",
        ge=1024,
    )
    num_predict: int = _setting(
        2048, "Ollama, and a server at `model_url`: a reply at most; less than `num_ctx`.", "tokens", ge=64
    )
    temperature: float = _setting(
        0.2,
        "Ollama, and a server at `model_url`: how freely the model chooses its words.",
        ge=0,
        le=2,
        allow_inf_nan=False,
    )
    seed: int = _setting(
        0,
        "Ollama, and a server at `model_url`: the same seed and the same messages give the same reply.",
        ge=0,
        le=2**31 - 1,
    )
    keep_alive: str = _setting("10m", "Ollama: how long an idle model stays loaded, such as `90s`, `10m` or `2h`.")
    think: Literal["auto", "off"] = _setting(
        "auto",
        "Ollama: whether a model that can think does: `auto` (as it likes) or `off` (quicker; some then answer in "
        "no form).",
    )
    retain_days: int = _setting(
        0,
        "Ended tasks to which nothing happened for so long are removed, unless they are pinned; 0: kept for ever.",
        "days",
        ge=0,
        le=36_500,
    )
    retain_bytes: int = _setting(
        0,
        "The oldest ended tasks are removed until all that is kept, backups too, has at most so many; 0: no limit.",
        "bytes",
        ge=0,
        le=2**60,
    )
    heads_to: str = _setting(
        "",
        "Where the heads of all journals go with each checkpoint, out of reach of who breaks in here: `syslog:` (this "
        "host's), `syslog://HOST:PORT`, `https://HOST/PATH` (signed) or a whole path on another mount; several with "
        "commas between. `audit verify --heads FILE` compares with them.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = _setting("info", "What the log tells, at least.")
    log_format: Literal["text", "json"] = _setting(
        "text", "How the log tells it: `text` (for people) or `json` (an object on each line)."
    )

    @field_validator("approvers")
    @classmethod
    def _known_approvers(cls, value: str) -> str:
        if not _APPROVERS.fullmatch(value):
            raise ValueError("it must be requester, not_requester, role:submitter, role:reviewer or role:admin")
        return value

    @field_validator("proxies")
    @classmethod
    def _networks(cls, value: str) -> str:
        for one in filter(None, (part.strip() for part in value.split(","))):
            try:
                ip_network(one)
            except ValueError:
                raise ValueError("it must be addresses or networks such as 10.0.0.0/8, with commas") from None
        return value

    @field_validator("ollama_url", "proxies", mode="before")
    @classmethod
    def _one_text(cls, value: Any) -> Any:
        """A list of the file, as the flag and the variable say it."""
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return ", ".join(value)
        return value

    @field_validator("ollama_url")
    @classmethod
    def _an_ollama(cls, value: str) -> str:
        if value and not all(_OLLAMA.fullmatch(one.strip()) for one in value.split(",")):
            raise ValueError("it must be an address such as http://127.0.0.1:11434, or several with commas between")
        return value

    @field_validator("model_url")
    @classmethod
    def _a_model_server(cls, value: str) -> str:
        if value and not _OLLAMA.fullmatch(value.rstrip("/")):
            raise ValueError("it must be an address such as http://127.0.0.1:1234/v1")
        return value

    @field_validator("keep_alive")
    @classmethod
    def _a_duration(cls, value: str) -> str:
        if not _DURATION.fullmatch(value):
            raise ValueError("it must be a number and s, m or h, such as 10m")
        return value

    @field_validator("public_url")
    @classmethod
    def _an_address(cls, value: str) -> str:
        value = value.rstrip("/")
        if value and not _ADDRESS.fullmatch(value):
            raise ValueError("it must be http:// or https://, a host and perhaps a port, with no path")
        return value

    @property
    def store_url(self) -> str:
        """The store's URL."""
        return self.store or f"sqlite:///{self.data_dir / 'orchestrator.db'}"

    @property
    def policy_path(self) -> Path:
        """The policy file."""
        return self.policy or self.data_dir / "policy.toml"

    @property
    def workspace_path(self) -> Path:
        """The directory that ``local_*`` may work in."""
        return self.workspace or self.data_dir / "workspace"

    @property
    def embedded(self) -> bool:
        """Whether the store is this process's own."""
        return self.store_url.startswith(("sqlite:", "memory:"))

    @property
    def rehearsals_path(self) -> Path:
        """Where the copies of rehearsals are."""
        return self.data_dir / "rehearsals"

    @property
    def token_path(self) -> Path:
        """The client's copy of the admin's token."""
        return self.data_dir / "admin.token"
