"""The settings of a node: their fields, and their sources.

All settings.

Each field says what it means, and its unit where it has one; docs/settings.md is drawn from them.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from orchestrator.core.errors import InvalidRequest, said_of
from orchestrator.core.text.visible import one_line
from orchestrator.core.wire.cells import is_name
from orchestrator.runtime.program import ENV_PREFIX, default_data_dir

# -- What settings there are -------------------------------------------------------------

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})

DEMO_MODEL: Final = "scripted:hello"
"""A script that ships with the program: it writes and runs a hello world, whatever the task is."""
DEMO_SAYS: Final = (
    "No model is chosen: a script answers, which writes a hello world program whatever the task is. To change that:"
)
DEMO_CHANGE: Final = ("ollama pull qwen2.5-coder:7b", "cc-orchestrator serve --choose-model")
"""The commands that lead to a model, in their order."""

_ADDRESS: Final = re.compile(r"https?://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")

_ISSUER: Final = re.compile(
    r"(?:https://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])|http://(?:localhost|127\.0\.0\.1|\[::1\]))"
    r"(?::[0-9]{1,5})?(?:/[\w./~%-]*)?",
    re.ASCII,
)
_OLLAMA: Final = re.compile(r"(?:https?://)?[\w.:%\[\]-]+(?:/[\w./%~-]*)?(?:#[1-9][0-9]?)?", re.ASCII)
"""As OLLAMA_HOST may be written, the scheme and the port may be left out, and perhaps a limit of its own."""
_DURATION: Final = re.compile("[0-9]{1,6}[smh]")
_APPROVERS: Final = re.compile("requester|not_requester|role:(?:submitter|reviewer|admin)")


def _setting(default: Any, meaning: str, unit: str = "", **bounds: Any) -> Any:
    """A field with its meaning and its unit; ``...`` as default: it has none."""
    extra = {"unit": unit} if unit else None
    return Field(default, description=meaning, json_schema_extra=extra, **bounds)  # type: ignore[arg-type]


def is_address(text: str) -> bool:
    """Whether this is http or https, a host and perhaps a port."""
    return _ADDRESS.fullmatch(text) is not None


class Settings(BaseModel):
    """The settings of ``serve``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path = _setting(..., "Holds the store, the policy, the workspace and the admin's token.")
    host: str = _setting("127.0.0.1", "The address to listen on; only loopback without `insecure_bind`.")
    port: int = _setting(8765, "The port to listen on; 0: any free port.", ge=0, le=65535)
    public_url: str = _setting(
        "",
        "Where the computers in the game, and browsers elsewhere, reach this server, such as "
        "`http://192.168.1.5:8765`; empty: the address that it listens on.",
    )
    cell: str = _setting(
        "",
        "The name of the cell of which this server is a node, such as `east`; tokens of computers name it. Empty: "
        "there is one cell.",
    )
    router: str = _setting(
        "",
        "Where the router of all cells is, such as `https://cc.example.org`: computers that are paired here dial it. "
        "Empty: they dial this server.",
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
        "", "The name of this node among several, for people; empty: the name of its host.", max_length=64
    )
    workspace: Path | None = _setting(
        None,
        "The directory that `local_*` may work in; where several nodes share a store, all must share this directory. "
        "Not set: `workspace` in the data directory.",
    )
    policy: Path | None = _setting(None, "The policy file; not set: `policy.toml` in the data directory.")
    approvers: str = _setting(
        "requester",
        "The people who decide: `requester` (reviewers and admins their own, and those of submitters and programs), "
        "`not_requester` or `role:NAME`.",
    )
    oidc_issuer: str = _setting(
        "",
        "The OpenID provider at which people may sign in, as it names itself, such as `https://login.example.org`; "
        "empty: only tokens sign in.",
    )
    oidc_client_id: str = _setting("", "The name under which the provider knows this server.")
    oidc_client_secret: SecretStr = _setting(
        SecretStr(""),
        "The secret that the provider gave this server; empty: it is registered as a public client. No flag: other "
        "users of a machine see flags.",
    )
    oidc_name_claim: str = _setting("preferred_username", "The claim of an `id_token` that has the person's name here.")
    oidc_roles_claim: str = _setting(
        "groups", "The claim that `oidc_roles` and `oidc_groups` look at; `realm_access.roles` is a claim in a claim."
    )
    oidc_roles: dict[str, tuple[str, ...]] = _setting(
        {},
        "The roles here of a value of that claim: `teachers=reviewer+submitter, staff=admin`, in the file also a "
        "table. Who has none of them does not come in.",
    )
    oidc_groups: dict[str, tuple[str, ...]] = _setting(
        {}, "The groups here of a value of that claim, in the same form; the provider decides who is in these groups."
    )
    oidc_session_h: float = _setting(
        12.0, "How long a sign-in with the provider lasts at most.", "h", gt=0, le=2160, allow_inf_nan=False
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
        "When this node stops and others are there: how long its endpoints go on answering after `/healthz` says "
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
    model: str = _setting(
        DEMO_MODEL,
        "The model of tasks that name none; not set: the one that was chosen, else a script.",
    )
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
        "Ollama: the window, prompt and reply together; another value loads the model again. A server at `model_url` "
        "is taken to have at most so many, where this is set.",
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
        "Where the heads of all journals go with each checkpoint, out of reach of an intruder here: `syslog:` (this "
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

    @field_validator("oidc_issuer")
    @classmethod
    def _a_provider(cls, value: str) -> str:
        if value and not _ISSUER.fullmatch(value):
            raise ValueError("it must be https://, a host and perhaps a path; http:// only for this very machine")
        return value

    @field_validator("oidc_roles", "oidc_groups", mode="before")
    @classmethod
    def _one_table(cls, value: Any) -> Any:
        """The text of the flag and the variable, and single names of the file, as the table that they are."""
        if isinstance(value, str):
            pairs = [one.rpartition("=") for one in value.split(",") if one.strip()]
            if not all(key.strip() and listed.strip() for key, _, listed in pairs):
                raise ValueError("it must be such as teachers=reviewer+submitter, staff=admin")
            return {key.strip(): tuple(one.strip() for one in listed.split("+")) for key, _, listed in pairs}
        if isinstance(value, dict):
            return {key: (one,) if isinstance(one, str) else one for key, one in value.items()}
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

    @field_validator("cell")
    @classmethod
    def _a_cell(cls, value: str) -> str:
        if value and not is_name(value):
            raise ValueError("it must be up to 32 small letters, digits and hyphens, such as east")
        return value

    @field_validator("public_url", "router")
    @classmethod
    def _an_address(cls, value: str) -> str:
        value = value.rstrip("/")
        if value and not is_address(value):
            raise ValueError("it must be http:// or https://, a host and perhaps a port, with no path")
        return value

    @property
    def only_demo(self) -> bool:
        """Whether the demo's script does the tasks because nobody chose a model."""
        return self.model == DEMO_MODEL and "model" not in self.model_fields_set

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


# -- Where settings come from: flags, then ``CC_ORCHESTRATOR_<NAME>``, then ``cc-orchestrator.toml``, then the
# default

CONFIG_NAME: Final = "cc-orchestrator.toml"

_OF_CLIENTS: Final = ("url", "token", "engine")
"""Variables that the other commands and ``scripts/engine.py`` read, and `serve` does not."""


def load_settings(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """The settings; a flag that is None was not given. Raises InvalidRequest naming what does not fit, and where.

    Each source has to fit for itself: a wrong value is refused also where another source has a better one,
    or it would bite on the day that the other one is taken away.
    """
    for unknown in unknown_variables(environ):
        raise unknown
    from_flags = {name: value for name, value in flags.items() if value is not None}
    from_env = {name: text for name in Settings.model_fields if (text := environ.get(_variable(name)))}
    data_dir = Path(from_flags.get("data_dir") or from_env.get("data_dir") or default_data_dir(environ))
    path = data_dir / CONFIG_NAME
    from_file, text = _config(path)
    _fitting({**from_file, "data_dir": data_dir}, lambda name: f"{name} in {_line(text, name, ' of ')}{path}")
    _fitting({"data_dir": data_dir, **from_env}, _variable)
    _fitting({"data_dir": data_dir, **from_flags}, lambda name: f"--{name.replace('_', '-')}")
    return Settings.model_validate({**from_file, **from_env, **from_flags, "data_dir": data_dir})


def unknown_variables(environ: Mapping[str, str]) -> list[InvalidRequest]:
    """A warning for each variable that begins as ours do and is not one of them."""
    known = [name.upper() for name in (*Settings.model_fields, *_OF_CLIENTS)]
    ours = [name for name in sorted(environ) if environ[name] and name.upper().startswith(ENV_PREFIX)]
    return [
        InvalidRequest(
            f"The variable {one_line(name)} is set, and there is no such setting.",
            remedy=f"{_meant(name[len(ENV_PREFIX) :].upper(), known, ENV_PREFIX)}"
            "Take it away, or see docs/settings.md for those that there are.",
        )
        for name in ours
        if name.removeprefix(ENV_PREFIX) not in known
    ]


def _fitting(values: Mapping[str, Any], where: Callable[[str], str]) -> None:
    """Raises InvalidRequest unless the values of one source fit; ``where`` says how a setting is called there."""
    try:
        Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0])
        what = said_of(first, "" if first["type"] == "value_error" else name)
        raise InvalidRequest(f"The setting {name} does not fit: {what}.", remedy=f"Change {where(name)}.") from None


def _variable(name: str) -> str:
    return ENV_PREFIX + name.upper()


def _meant(name: str, known: Iterable[str], before: str = "") -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean {before}{near[0]}? " if near else ""


def _config(path: Path) -> tuple[dict[str, Any], str]:
    """What the file says, and its text.

    Raises InvalidRequest for a broken file, and for a name in it that is not a setting.
    """
    try:
        # With the mark at its beginning that some editors of Windows write.
        text = path.read_text("utf-8-sig")
        found = tomllib.loads(text)
    except FileNotFoundError:
        return {}, ""
    except NotADirectoryError:
        raise InvalidRequest(
            f"{path.parent} is not a directory.", remedy=f"Choose one with --data-dir or {_variable('data_dir')}."
        ) from None
    except OSError as error:
        raise InvalidRequest(
            f"{path} cannot be read: {error.strerror or error}.",
            remedy="Let this user read it, or choose another directory with --data-dir.",
        ) from None
    except ValueError as error:
        raise InvalidRequest(f"{path} cannot be read: {error}.", remedy="Fix it or take it away.") from None
    for name, value in found.items():
        _must_be_a_setting(name, value, _line(text, name), path)
    return found, text


def _must_be_a_setting(name: str, value: Any, line: str, path: Path) -> None:
    where = f" in {line}" if line else ""
    known = set(Settings.model_fields) - {"data_dir"}
    shown = one_line(name)
    if name == "data_dir":
        raise InvalidRequest(
            f"{path} names a data_dir{where}, and it is found there.",
            remedy=f"Take the line out; use --data-dir or {_variable('data_dir')}.",
        )
    if name in known:
        return
    if isinstance(value, dict):
        raise InvalidRequest(
            f"{path} has the table [{shown}]{where}, and settings are not in a table.",
            remedy=f"Take the line [{shown}] out, so that each setting is alone, such as `port = 8765`.",
        )
    raise InvalidRequest(
        f"{path} has the key '{shown}'{where}, and there is no such setting.",
        remedy=f"{_meant(name, known)}docs/settings.md lists them.",
    )


def _line(text: str, name: str, after: str = "") -> str:
    """Where a key or a table begins in a file, such as ``line 3``, and ``after``; empty when that cannot be told."""
    key = rf"""["']?{re.escape(name)}["']?"""
    found = re.search(rf"^[ \t]*(?:\[\[?[ \t]*{key}|{key}[ \t]*[=.])", text, re.MULTILINE)
    return f"line {text.count(chr(10), 0, found.start()) + 1}{after}" if found else ""
