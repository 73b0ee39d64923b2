"""The examination: the server is asked first, then everything is looked at side by side, each for three seconds."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from orchestrator.client import Client, ServerRefused, trusted
from orchestrator.core.connection_problems import port_of, told
from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.runtime.settings import (
    CONFIG_NAME,
    DEFAULT_URL,
    ENV_PREFIX,
    Settings,
    default_data_dir,
    load_settings,
)
from orchestrator.terminal.doctor import local as here
from orchestrator.terminal.doctor import local as models
from orchestrator.terminal.doctor import reach
from orchestrator.terminal.doctor.local import Finding, Patient, failed, troubled

WITHIN_S: Final = 3.0
"""What one look may take; who hangs longer is reported so."""

Check = Callable[[Patient], Finding | Sequence[Finding]]
CHECKS: Final[Mapping[str, Check]] = {
    "python": here.python,
    "data directory": here.data_dir,
    "store": here.store,
    "policy": here.policy,
    "prompt": here.prompt,
    "port": here.port,
    "node": reach.alerts,
    "address": reach.bind,
    "public url": reach.public_url,
    "game": reach.arrivals,
    "installer": reach.installers,
    "refused": reach.refused,
    "computers": reach.computers,
    "model": models.model,
}


def examine(url: str | None, data_dir: Path | None, environ: Mapping[str, str]) -> list[Finding]:
    """Everything that was found, in the order in which it is best read. Changes nothing, and shows no secret."""
    settings, found = _settings(data_dir, environ)
    place = url or environ.get(f"{ENV_PREFIX}URL") or DEFAULT_URL
    patient = Patient(url=place.rstrip("/"), settings=settings, data_dir=settings.data_dir)
    patient, server = _server(patient)
    patient, token = _token(patient)
    looked = _side_by_side({name: partial(check, patient) for name, check in CHECKS.items()})
    local = [one for name in ("data directory", "store", "policy", "prompt", "port") for one in looked.pop(name)]
    first = looked.pop("python")
    return [*first, found, *local, server, *token, *(one for some in looked.values() for one in some)]


def _settings(data_dir: Path | None, environ: Mapping[str, str]) -> tuple[Settings, Finding]:
    """The settings of a server that would be started now; those that cannot be read are left out."""
    try:
        settings = load_settings({"data_dir": data_dir}, environ)
    except OrchestratorError as error:
        place = data_dir or Path(environ.get(f"{ENV_PREFIX}DATA_DIR") or default_data_dir(environ))
        return Settings(data_dir=place), failed("settings", error)
    path = settings.data_dir / CONFIG_NAME
    return settings, Finding(
        "settings", "ok", f"{path} can be read." if path.exists() else "There is no settings file."
    )


def _server(patient: Patient) -> tuple[Patient, Finding]:
    """Whether an orchestrator answers."""

    def ask() -> Finding:
        try:
            if reach.is_ours(patient.url, trusted()):
                return Finding("server", "ok", f"An orchestrator answers at {patient.shown}.")
            return troubled("server", told("not_ours", patient.url))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            code = reach.why_not(patient.url, error)
            if code == "tls":
                return _not_trusted(patient)
            if code.startswith("no_answer"):
                start = f"cc-orchestrator serve --port {port_of(patient.url)}"
                return Finding("server", "fail", f"No orchestrator answers at {patient.shown}.", ("Start it:", start))
            return troubled("server", told(code, patient.url))
        except InvalidRequest as error:
            return failed("server", error)

    (finding,) = _side_by_side({"server": ask})["server"]
    return replace(patient, answers=finding.state == "ok"), finding


def _not_trusted(patient: Patient) -> Finding:
    """Commands trust whom this machine trusts; what the game trusts is the look at the public URL."""
    sentence = f"This machine does not trust the certificate of {urlsplit(patient.shown).hostname}."
    own = "If it is of your own authority, name that: export SSL_CERT_FILE=/path/to/ca.pem"
    return Finding("server", "fail", sentence, (own,))


def _token(patient: Patient) -> tuple[Patient, list[Finding]]:
    """Whether the token is good, what it may, and with it what the server saw."""
    seen: dict[str, Any] = {}

    def ask() -> list[Finding]:
        try:
            client = Client.of_environment(url=patient.url, data_dir=patient.data_dir)
        except InvalidRequest as error:
            return [failed("token", error, "fail" if patient.answers else "warn")]
        if not patient.answers:
            return [Finding("token", "ok", "There is a token; whether it is good only a running server says.")]
        try:
            seen.update(client.request("GET", "/v1/doctor"))
        except ServerRefused as error:
            return [_refused_token(error)]
        finally:
            client.close()
        return [Finding("token", "ok", "The token is an admin's."), _version(seen)]

    found = _side_by_side({"token": ask})["token"]
    return (replace(patient, seen=seen) if seen else patient), found


def _refused_token(error: ServerRefused) -> Finding:
    if error.status == 403:
        sentence = "The token is good, and no admin's: what the server saw is not shown."
        return Finding("token", "warn", sentence, ("Look with an admin's token.",))
    if error.status == 404:
        remedy = "Stop it and start this version: cc-orchestrator serve"
        return Finding("version", "warn", "The server is older than this program, and cannot be asked more.", (remedy,))
    return failed("token", error)


def _version(seen: Mapping[str, Any]) -> Finding:
    """Whether the running server is the one that is installed."""
    here_sha = sha256(files("cc_client").joinpath("client.lua").read_bytes()).hexdigest()
    try:
        installed = metadata.version("cc-orchestrator")
    except metadata.PackageNotFoundError:
        installed = ""
    named = seen["version"] or "a checkout"
    if seen["version"] != installed or seen["client_sha256"] != here_sha:
        sentence = (
            f"The server runs {named} with client {seen['client_version']}, and another version is installed here."
        )
        return Finding("version", "warn", sentence, ("Restart it: stop it, then cc-orchestrator serve",))
    return Finding(
        "version", "ok", f"The server runs this version ({named}), and hands out client {seen['client_version']}."
    )


def _side_by_side(checks: Mapping[str, Callable[[], Finding | Sequence[Finding]]]) -> dict[str, list[Finding]]:
    """What each comes to; who takes too long, or meets a defect, is a finding too."""
    found: dict[str, list[Finding]] = {}

    def look(name: str, check: Callable[[], Finding | Sequence[Finding]]) -> None:
        try:
            result = check()
        except OrchestratorError as error:
            result = failed(name, error)
        except Exception as error:  # noqa: BLE001 - a defect in one look must not hide the others
            result = Finding(name, "fail", f"This could not be looked at: {type(error).__name__}: {error}.")
        found[name] = [result] if isinstance(result, Finding) else list(result)

    # Daemons: a look that hangs must not keep the program from ending.
    threads = [threading.Thread(target=look, args=one, daemon=True) for one in checks.items()]
    for thread in threads:
        thread.start()
    until = time.monotonic() + WITHIN_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = f"It took longer than {WITHIN_S:g} s."
    remedy = ("Try again; a disk or a network may hang.",)
    # An empty list is an answer: there was nothing to look at.
    return {name: found.get(name, [Finding(name, "warn", late, remedy)]) for name in checks}
