"""Checks of the doctor on the way from the game to the server: address, certificate, and news from computers."""

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from orchestrator.client import Client, ServerRefused, trusted
from orchestrator.core.connection_problems import TROUBLES, is_loopback, is_private, plain_http, port_of, told
from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.runtime.program import DEFAULT_URL, ENV_PREFIX, default_data_dir
from orchestrator.runtime.settings import CONFIG_NAME, LOOPBACK, Settings, load_settings
from orchestrator.terminal.doctor import local
from orchestrator.terminal.doctor.local import Finding, Patient, State, failed, troubled

# -- Whether computers in the game can reach the server: its address, its certificate, and what came from them

ANY: Final = frozenset({"0.0.0.0", "::"})
ASK_S: Final = 2.0
LATELY: Final = timedelta(hours=1)
_ELSEWHERE: Final = "cc-orchestrator serve --host 0.0.0.0 --insecure-bind --public-url http://{address}:{port}"


def is_ours(url: str, *, as_commands: bool = False) -> bool:
    """Whether an orchestrator answers at a URL. Raises httpx2.HTTPError, httpx2.InvalidURL.

    ``as_commands``: whether it trusts the authorities that commands trust; else those of the world, as Java does.
    """
    # To read the authorities takes as long as all other looks together, and plain HTTP needs none.
    verify = httpx2.URL(url).scheme == "https" and (not as_commands or trusted())
    answer = httpx2.get(f"{url.rstrip('/')}/healthz", timeout=ASK_S, trust_env=False, verify=verify)
    try:
        body = answer.json()
    except ValueError:
        return False
    # A store that is busy answers with an error in our form.
    return isinstance(body, dict) and (body.get("status") == "ok" or set(body) == {"error"})


def why_not(url: str, error: Exception) -> str:
    """The reason of the common table for which a URL could not be asked."""
    if isinstance(error, httpx2.TimeoutException):
        return "timed_out"
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return "bad_address"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return "no_answer" if cause.reason == "WRONG_VERSION_NUMBER" else "tls"
        if isinstance(cause, socket.gaierror):
            return "unknown_host"
        cause = cause.__cause__ or cause.__context__
    return "no_answer_here" if is_loopback(urlsplit(url).hostname or "") else "no_answer"


def addresses() -> list[str]:
    """The addresses of this machine in its networks, as far as it knows them; no packet is sent for it."""
    found: dict[str, None] = {}
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((far, 9))
                found[probe.getsockname()[0]] = None
            except OSError:
                continue
    return [one for one in found if not ipaddress.ip_address(one).is_loopback]


def bind(patient: Patient) -> Finding:
    """The hosts that can reach the address that the server listens on."""
    host, port = str(patient.running("host")), int(patient.running("port"))
    near = addresses()
    elsewhere = _ELSEWHERE.format(address=near[0] if near else "ADDRESS", port=port)
    if host in LOOPBACK and not patient.running("public_url"):
        sentence = f"It listens on {host}: only computers of a Minecraft server on this machine reach it."
        return Finding("address", "ok", sentence, ("For one elsewhere, on a network that you trust:", elsewhere))
    if host in LOOPBACK:
        return Finding("address", "ok", f"It listens on {host}, behind {patient.running('public_url')}.")
    shown = ", ".join(near) or "no address that could be found"
    if host in ANY and not patient.running("public_url"):
        sentence = f"It listens on every address of this machine ({shown}), and the line of `pair` names none of them."
        return Finding("address", "warn", sentence, ("Say which one the game reaches:", elsewhere))
    return Finding("address", "ok", f"It listens on {host}; this machine is {shown}.")


def public_url(patient: Patient) -> Finding:
    """The address that computers are told."""
    url = str(patient.running("public_url"))
    if not url:
        return Finding("public url", "ok", "None is set: computers are told the address that the server listens on.")
    parts = urlsplit(url)
    try:
        if is_ours(url):
            return Finding("public url", "ok", f"{url} is this orchestrator, seen from this machine.")
        trouble = told("not_ours", url)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        trouble = told(why_not(url, error), url)
    state: State = "fail" if patient.answers else "warn"
    port = int(patient.running("port"))
    if parts.scheme == "http" and port not in (0, port_of(url)) and patient.running("host") not in LOOPBACK:
        extra = f"It names port {port_of(url)}, and the server listens on {port}."
        return Finding("public url", state, f"{trouble.sentence} {extra}", trouble.remedy)
    return troubled("public url", trouble, state)


def alerts(patient: Patient) -> list[Finding]:
    """The server's own alerts, such as a policy that it cannot load."""
    return [Finding("node", "fail", one) for one in (patient.seen or {}).get("alerts", ())]


# -- what came ---------------------------------------------------------------------------


def arrivals(patient: Patient) -> Finding:
    """Whether anything came from the game since the server started; if not, what keeps it away."""
    seen = patient.seen
    if seen is None:
        return Finding("game", "ok", "Connections from the game are seen only while the server runs.")
    waiting = _untouched(seen)
    if waiting:
        name = f" for {waiting['computer']}" if waiting["computer"] else ""
        sentence = f"A line of `pair`{name} was made within the last hour, and nothing has fetched the installer since."
        return Finding("game", "warn", f"{sentence} If it was typed:", keeping_away(patient.address))
    online = [one["computer"] for one in seen["computers"] if one["client"]]
    if online or seen["installers"] or any(one["path"] == "/computer" for one in seen["refused"]):
        return Finding("game", "ok", "Computers of the game reach this server.")
    return Finding(
        "game", "warn", "Nothing has come from the game since the server started.", keeping_away(patient.address)
    )


def _untouched(seen: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The newest line of `pair` that was not used and after which no installer was fetched."""
    since = max((one["at"] for one in seen["installers"]), default="")
    return next((one for one in _lately(seen.get("lines", ())) if one["at"] > since), None)


def keeping_away(url: str) -> tuple[str, ...]:
    """The remedy where `wget` in the game cannot even reach the server, by its words there."""
    host = urlsplit(url).hostname or ""
    lines: list[str] = []
    if is_private(host):
        lines += ["If the computer says `Domain not permitted`:", *told("not_permitted", url).remedy]
    lines += [
        "If there is no program `wget` there, or it says that it requires the http API:",
        *told("http_off", url).remedy,
    ]
    if not _is_address(host):
        lines += ["If it says `Unknown host`, or another sentence with this name:", *told("unknown_host", url).remedy]
    nothing = "no_answer_here" if is_loopback(host) else "no_answer"
    lines += [f"If it says `Failed.`: {told(nothing, url).sentence}", *told(nothing, url).remedy]
    if urlsplit(url).scheme == "https":
        lines += [f"Or: {told('tls', url).sentence}", *told("tls", url).remedy]
    return tuple(lines)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return is_loopback(host)
    return True


def installers(patient: Patient) -> Finding:
    """Computers that fetched the installer and never paired."""
    rows = _lately(patient.seen["installers"]) if patient.seen is not None else []
    left = [one for one in rows if not one["paired"]]
    if not left:
        return Finding("installer", "ok", "Nobody began to install lately and stopped half-way.")
    peers = ", ".join(sorted({one["peer"] or "an unknown address" for one in left}))
    sentence = f"The installer was fetched from {peers} within the last hour, and no computer was paired from there."
    off = told("websockets_off", patient.address)
    remedy = ("The screen of that computer says why, unless it only updated itself.", f"If it says: {off.sentence}")
    return Finding("installer", "warn", sentence, (*remedy, *off.remedy))


def refused(patient: Patient) -> list[Finding]:
    """The computers that were turned away within the last hour, each reason once."""
    if patient.seen is None:
        return []
    online = {one["computer"] for one in patient.seen["computers"] if one["state"] == "online"}
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for one in _lately(patient.seen["refused"]):
        groups.setdefault((one["code"], one["computer"] or "", one["peer"], one["path"]), []).append(one)
    found = []
    for (code, computer, peer, path), rows in groups.items():
        times = f", {len(rows)} times" if len(rows) > 1 else ""
        who = f"Computer {computer}" if computer else "Somebody"
        what = f"was turned away at {path} from {peer or 'an unknown address'}"
        if code == "journal_failed":
            what = "came and can write nothing down"
        sentence = f"{who} {what}{times}: {rows[0]['message']}"
        remedy = tuple(line for line in (rows[0]["remedy"],) if line)
        if code in TROUBLES and TROUBLES[code].after:
            remedy = told(code, patient.address, said=rows[0]["message"], remedy=rows[0]["remedy"]).remedy
        waits = computer and computer not in online
        found.append(Finding("refused", "fail" if waits else "warn", sentence, remedy))
    return found or [Finding("refused", "ok", "This server turned nobody away within the last hour.")]


def computers(patient: Patient) -> list[Finding]:
    """The computers that have a token: those that are frozen, away, or run an older client."""
    if patient.seen is None:
        return []
    rows = patient.seen["computers"]
    if not rows:
        return [Finding("computers", "warn", "No computer is paired yet.", ("cc-orchestrator pair",))]
    found = [Finding("computers", "fail", one["message"], (one["remedy"],)) for one in rows if one["state"] == "frozen"]
    away = [one["computer"] for one in rows if one["state"] == "away"]
    if away:
        remedy = "Its chunk may be unloaded or it may be off; `cc status` on it says why it cannot connect."
        found.append(Finding("computers", "warn", f"Away: {', '.join(away)}.", (remedy,)))
    current = patient.seen["client_version"]
    old = [one for one in rows if one["client"] and one["client"] != current]
    if old:
        names = ", ".join(f"{one['computer']} ({one['client']})" for one in old)
        newer = "It updates itself when it is idle; to do it at once, type there:"
        line = f"wget run {patient.address}/install"
        plain = [warning] if (warning := plain_http(patient.address)) else []
        told = (newer, line, *plain)
        found.append(Finding("computers", "warn", f"Another client than {current} runs on {names}.", told))
    online = sum(one["state"] == "online" for one in rows)
    return found or [Finding("computers", "ok", f"All {online} are online, with client {current}.")]


def _lately(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    since = datetime.now(UTC) - LATELY
    return [one for one in rows if datetime.fromisoformat(one["at"]) >= since]


# -- The examination: the server is asked first, then everything is looked at side by side, each for three seconds

WITHIN_S: Final = 3.0
"""Seconds that one look may take; a host that hangs longer is reported so."""

Check = Callable[[Patient], Finding | Sequence[Finding]]
CHECKS: Final[Mapping[str, Check]] = {
    "python": local.python,
    "data directory": local.data_dir,
    "store": local.store,
    "policy": local.policy,
    "prompt": local.prompt,
    "port": local.port,
    "node": alerts,
    "address": bind,
    "public url": public_url,
    "game": arrivals,
    "installer": installers,
    "refused": refused,
    "computers": computers,
    "model": local.model,
}


def examine(url: str | None, data_dir: Path | None, environ: Mapping[str, str]) -> list[Finding]:
    """All findings, in the order in which they are best read. Changes nothing, and shows no secret."""
    settings, found = _settings(data_dir, environ)
    place = url or environ.get(f"{ENV_PREFIX}URL") or DEFAULT_URL
    patient = Patient(url=place.rstrip("/"), settings=settings, data_dir=settings.data_dir)
    patient, server = _server(patient)
    patient, token = _token(patient)
    looked = _side_by_side({name: partial(check, patient) for name, check in CHECKS.items()})
    own = [one for name in ("data directory", "store", "policy", "prompt", "port") for one in looked.pop(name)]
    first = looked.pop("python")
    return [*first, found, *own, server, *token, *(one for some in looked.values() for one in some)]


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
            if is_ours(patient.url, as_commands=True):
                return Finding("server", "ok", f"An orchestrator answers at {patient.shown}.")
            return troubled("server", told("not_ours", patient.url))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            code = why_not(patient.url, error)
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
    """Commands trust the authorities that this machine trusts.

    The look at the public URL shows those that the game trusts.
    """
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
        sentence = "The token is good, but not an admin's: the server's observations are not shown."
        return Finding("token", "warn", sentence, ("Look with an admin's token.",))
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
    """The findings of each look; a look that takes too long, or meets a defect, is a finding too."""
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
