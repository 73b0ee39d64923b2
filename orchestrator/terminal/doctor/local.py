"""Checks of the doctor on this machine without a server: Python, disk, store, policy, prompt, port."""

import asyncio
import errno
import os
import shutil
import socket
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Literal

from orchestrator.adapters.models.kept_models import Seen, looked
from orchestrator.adapters.models.ollama_errors import missing
from orchestrator.adapters.models.ollama_server import Refusal
from orchestrator.adapters.models.openai_server import NO_MODELS, ModelServer, refused
from orchestrator.adapters.models.options import DEFAULT_CTX, OllamaOptions, ServerOptions
from orchestrator.adapters.store.file_lock import FileLock
from orchestrator.adapters.store.schema import NEEDS_KEY, OLDEST, READ_META, SCHEMA, SCHEMA_KEY, of_old_version
from orchestrator.core.connection_problems import Told
from orchestrator.core.errors import ModelFailed, OrchestratorError, StoreBusy
from orchestrator.core.values import immutable
from orchestrator.runtime import prompts
from orchestrator.runtime.policy_file import load_file
from orchestrator.runtime.settings import Settings

# -- What one look came to, and what all of them know ------------------------------------

State = Literal["ok", "warn", "fail"]


@immutable
class Finding:
    """One thing that was looked at."""

    check: str
    """What was looked at, in a word or two."""
    state: State
    sentence: str
    remedy: tuple[str, ...] = ()
    """Lines that fix it, or that say what else could be had."""

    def as_json(self) -> dict[str, Any]:
        """The same as plain JSON."""
        return asdict(self)


def failed(check: str, error: OrchestratorError, state: State = "fail") -> Finding:
    """An error of ours as a finding."""
    return Finding(check, state, error.message, (error.remedy,) if error.remedy else ())


def troubled(check: str, trouble: Told, state: State = "fail") -> Finding:
    """A reason of the common table as a finding."""
    return Finding(check, state, trouble.sentence, trouble.remedy)


@immutable
class Patient:
    """The facts that are known before anything is looked at closely."""

    url: str
    """Where the server should answer."""
    settings: Settings
    """The settings of a server that would be started now; those of the running one are in ``seen``."""
    data_dir: Path
    answers: bool = False
    """Whether an orchestrator answers at the URL."""
    seen: Mapping[str, Any] | None = None
    """What the running server told of itself, GET /v1/doctor; None: it does not run, or did not tell."""

    @property
    def shown(self) -> str:
        """The URL without a password that may be in it."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"

    def running(self, name: str) -> Any:
        """The setting of the running server; else of the settings here."""
        return self.seen[name] if self.seen is not None else getattr(self.settings, name)

    @property
    def address(self) -> str:
        """The server's address as `pair` tells it to a computer."""
        return str(self.running("public_url")) or self.shown


# -- What can be seen on this machine without a server: Python, the disk, the store, the policy, the prompt, the
# port

OLDEST_PYTHON: Final = (3, 11)
LITTLE_BYTES: Final = 1_000_000_000
"""Below this free space a warning; a year of daily tasks takes about as much."""
TOO_LITTLE_BYTES: Final = 50_000_000
_SQLITE: Final = "sqlite:///"


def python(patient: Patient) -> Finding:
    """The interpreter that runs this."""
    del patient
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        return Finding("python", "fail", f"Python {version} is too old.", ("Install Python 3.11 or newer.",))
    return Finding("python", "ok", f"Python {version}.")


def data_dir(patient: Patient) -> Finding:
    """Where the store, the policy and the token are."""
    place = patient.data_dir
    other = ("Choose another with --data-dir or CC_ORCHESTRATOR_DATA_DIR, or let this user write there.",)
    if not place.exists():
        above = next(one for one in (*place.absolute().parents,) if one.exists())
        if not os.access(above, os.W_OK):
            return Finding("data directory", "fail", f"{place} does not exist and cannot be made.", other)
        return Finding("data directory", "ok", f"{place} does not exist yet; the first `serve` makes it.")
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return Finding("data directory", "fail", f"{place} is not a directory that this user can write to.", other)
    free = shutil.disk_usage(place).free
    sentence = f"{place} can be written; {free // 1_000_000} MB are free there."
    if free < LITTLE_BYTES:
        state: State = "fail" if free < TOO_LITTLE_BYTES else "warn"
        return Finding("data directory", state, sentence, ("Make room on that disk.",))
    return Finding("data directory", "ok", sentence)


def store(patient: Patient) -> Finding:
    """The journal: whether it can be opened, and the process that has it."""
    url = patient.settings.store_url
    if not url.startswith(_SQLITE):
        kept = "in memory only: it ends with the server" if url == "memory:" else "elsewhere; it was not opened"
        return Finding("store", "ok", f"The store is {kept}.")
    path = Path(url.removeprefix(_SQLITE))
    if not path.exists():
        return Finding("store", "ok", f"{path} does not exist yet; the first `serve` makes it.")
    try:
        lock = FileLock(path.resolve())
    except StoreBusy as busy:
        if patient.answers:
            return Finding("store", "ok", busy.message)
        remedy = f"If that process should not run, stop it; else name its address: --url, now {patient.shown}."
        return Finding("store", "warn", f"{busy.message} No orchestrator answers.", (remedy,))
    except OSError as error:
        return Finding("store", "fail", f"{path} cannot be locked: {error.strerror}.", ("Let this user write there.",))
    try:
        return _schema(path)
    finally:
        lock.release()


def _schema(path: Path) -> Finding:
    try:
        # Read only: looking must change nothing, and bring no old store up to date.
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=1)) as connection:
            row, least = (connection.execute(READ_META, (key,)).fetchone() for key in (SCHEMA_KEY, NEEDS_KEY))
    except sqlite3.Error as error:
        remedy = "Put a backup of it back, or move it away to begin again."
        return Finding("store", "fail", f"{path} cannot be read: {error}.", (remedy,))
    known, found = SCHEMA, int(row[0]) if row else 0
    if found > known and (least is None or int(least[0]) > known):
        sentence = f"{path} was written by a newer cc-orchestrator (schema {found}, this one knows {known})."
        return Finding("store", "fail", sentence, ("Update cc-orchestrator.",))
    if found < OLDEST:
        return failed("store", of_old_version(str(path), found))
    later = "; `serve` brings it up to date" if found < known else ""
    return Finding("store", "ok", f"{path} can be opened, schema {found}{later}.")


def policy(patient: Patient) -> Finding:
    """The policy's file."""
    path = patient.settings.policy_path
    if not path.exists() and patient.settings.policy is None:
        return Finding("policy", "ok", f"{path} does not exist yet; the first `serve` writes the shipped one.")
    try:
        found = load_file(path).policy
    except OrchestratorError as error:
        return failed("policy", error)
    return Finding("policy", "ok", f"{path} can be loaded: {len(found.rules)} rules.")


def prompt(patient: Patient) -> Finding:
    """The text for models."""
    path = patient.settings.data_dir / prompts.FILE
    try:
        found = prompts.in_force(patient.settings.data_dir)
    except OrchestratorError as error:
        return failed("prompt", error)
    if found == prompts.shipped():
        return Finding("prompt", "ok", f"{path} does not exist; models are told the shipped text.")
    return Finding("prompt", "ok", f"{path} can be used: version {found.version}.")


def port(patient: Patient) -> Finding:
    """The port to listen on: free, ours, or somebody else's."""
    host, number = str(patient.running("host")), int(patient.running("port"))
    if patient.seen is not None:
        return Finding("port", "ok", f"The server listens on {host}, port {number}.")
    if number == 0:
        return Finding("port", "ok", "Any free port is taken.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                remedy = "Choose an address of this machine with --host, and a port above 1023 with --port."
                return Finding("port", "fail", f"{host}, port {number}, cannot be used: {error.strerror}.", (remedy,))
            if patient.answers:
                return Finding("port", "ok", f"An orchestrator listens on port {number}.")
            free = ("Stop it, or choose another port:", f"cc-orchestrator serve --port {number + 1}")
            return Finding("port", "fail", f"Port {number} of {host} is taken by another program.", free)
    return Finding("port", "ok", f"Port {number} of {host} is free.")


# -- Whether the model of a task that names none can answer, at each of the servers that it may be asked at

ASK_S: Final = 1.4
"""Each of the two questions in turn, within the time of one look."""
_OLLAMA: Final = "ollama:"
_SERVED: Final = "openai-chat:"


def model(patient: Patient) -> Finding | Sequence[Finding]:
    """The default model: Ollama's are asked about, at each server; others are only named."""
    name = str(patient.running("model"))
    where = str(patient.running("model_url")) or os.environ.get("OPENAI_BASE_URL", "")
    if name.startswith(_SERVED) and where:
        return _served(name.removeprefix(_SERVED), where, int(patient.running("num_ctx")))
    if not name.startswith(_OLLAMA):
        what = (
            "replays a script and thinks nothing"
            if name.startswith("scripted:")
            else "is not Ollama's; it was not asked"
        )
        remedy = ("For a model on this machine: cc-orchestrator serve --model ollama:NAME",)
        return Finding("model", "ok", f"The model {name} {what}.", remedy if name.startswith("scripted:") else ())
    wanted, num_ctx = name.removeprefix(_OLLAMA), int(patient.running("num_ctx"))
    where = str(patient.running("ollama_url")) or os.environ.get("OLLAMA_HOST", "")
    options = OllamaOptions(url=where, num_ctx=num_ctx, num_predict=1, connect_s=ASK_S, fact_s=ASK_S)
    return [_finding(wanted, num_ctx, one) for one in asyncio.run(looked(wanted, options))]


def _served(wanted: str, where: str, num_ctx: int) -> Finding:
    """A model of a server that speaks OpenAI's API."""
    own = None if num_ctx == DEFAULT_CTX else num_ctx
    options = ServerOptions(url=where, num_ctx=own, num_predict=1, connect_s=ASK_S, fact_s=ASK_S)
    server = ModelServer(options.url, options)
    try:
        facts = asyncio.run(server.facts(wanted))
    except Refusal as refusal:
        error = refused(refusal.status, refusal.body, model=wanted, url=server.url)
        return Finding("model", "fail", error.message, (error.remedy,))
    except ModelFailed as error:
        return Finding("model", "fail", f"No model server answers at {server.url}.", (error.message, error.remedy))
    except TimeoutError:
        remedy = ("It may be busy: try again.",)
        return Finding("model", "fail", f"The model server at {server.url} did not answer within {ASK_S:g} s.", remedy)
    if facts.program == "Ollama":
        remedy = (f"cc-orchestrator serve --model ollama:{wanted} --ollama-url {server.root}",)
        return Finding("model", "warn", f"What answers at {server.url} is Ollama, which cuts here silently.", remedy)
    program = f"{facts.program} at {server.url}" if facts.program else f"The model server at {server.url}"
    if not facts.names:
        return Finding("model", "warn", f"{program} names no models.", (NO_MODELS,))
    if wanted not in facts.names:
        # Some of them take any name, or load a model when it is asked for.
        known = f"Models there: {', '.join(facts.names[:10])}."
        return Finding("model", "warn", f"{program} names no model {wanted}.", (known,))
    window = options.within(facts.context).num_ctx
    if facts.context is None and own is None:
        remedy = ("Set --num-ctx to the value that it was started with.",)
        return Finding("model", "warn", f"{program} has {wanted}, and does not say how long its window is.", remedy)
    return Finding("model", "ok", f"{program} has {wanted}; the window is {window} tokens.")


def _finding(wanted: str, num_ctx: int, seen: Seen) -> Finding:
    url, trouble, facts = seen.url, seen.trouble, seen.facts
    if trouble is not None:
        return Finding("model", "fail", f"Ollama does not answer at {url}.", (trouble.message, trouble.remedy))
    if facts is None or seen.window is None:
        known = f"Models there: {', '.join(sorted(seen.names)[:10])}." if seen.names else "There are no models yet."
        remedies = (missing(wanted, url).remedy, f"ollama pull {wanted}", known)
        return Finding("model", "fail", f"Ollama at {url} has no model {wanted}.", remedies)
    if not facts.completes:
        remedy = ("Choose one that completes text: cc-orchestrator models list",)
        return Finding("model", "fail", f"{wanted} at {url} writes no text.", remedy)
    notes = []
    if facts.cloud:
        notes.append("It runs in Ollama's cloud: all requests leave this network, and no form holds its replies.")
    if seen.window.num_ctx < num_ctx:
        length = seen.window.num_ctx
        sentence = f"{wanted} at {url} has a window of {length} tokens, and num_ctx is {num_ctx}."
        return Finding("model", "warn", sentence, (f"cc-orchestrator serve --num-ctx {length}", *notes))
    longest = f" The model was made for {facts.context}." if facts.context else ""
    sentence = f"Ollama at {url} has {wanted}; the window is {num_ctx} tokens.{longest}"
    return Finding("model", "warn" if facts.cloud else "ok", sentence, tuple(notes))
