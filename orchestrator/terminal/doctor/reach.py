"""Whether computers in the game can reach the server: its address, its certificate, and what came from them."""

import ipaddress
import socket
import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from orchestrator.core.connection_problems import TROUBLES, is_loopback, is_private, plain_http, port_of, told
from orchestrator.runtime.settings import LOOPBACK
from orchestrator.terminal.doctor.local import Finding, Patient, State, troubled

ANY: Final = frozenset({"0.0.0.0", "::"})
ASK_S: Final = 2.0
LATELY: Final = timedelta(hours=1)
_ELSEWHERE: Final = "cc-orchestrator serve --host 0.0.0.0 --insecure-bind --public-url http://{address}:{port}"


def is_ours(url: str, verify: ssl.SSLContext | bool = True) -> bool:
    """Whether an orchestrator answers at a URL. Raises httpx2.HTTPError, httpx2.InvalidURL.

    ``verify``: whose certificates are trusted; True: only those of the world, as Minecraft's Java does.
    """
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
    """Who can reach the address that the server listens on."""
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
    """What the server says is wrong with itself, such as a policy that it cannot load."""
    return [Finding("node", "fail", one) for one in (patient.seen or {}).get("alerts", ())]


# -- what came ---------------------------------------------------------------------------


def arrivals(patient: Patient) -> Finding:
    """Whether anything came from the game since the server started; if not, what keeps it away."""
    seen = patient.seen
    if seen is None:
        return Finding("game", "ok", "What comes from the game is seen only while the server runs.")
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
    """What to do where `wget` in the game cannot even reach the server, by what it says there."""
    host = urlsplit(url).hostname or ""
    lines: list[str] = []
    if is_private(host):
        lines += ["If the computer says `Domain not permitted`:", *told("not_permitted", url).remedy]
    lines += ["If `wget` is no program there, or says that it requires the http API:", *told("http_off", url).remedy]
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
    """Who was turned away within the last hour, each reason once."""
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
    """The computers that have a token: who is frozen, away, or runs an older client."""
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
        newer = "A client from 0.4.0 on updates itself when it is idle; else type there:"
        line = f"wget run {patient.address}/install"
        plain = [warning] if (warning := plain_http(patient.address)) else []
        told = (newer, line, *plain)
        found.append(Finding("computers", "warn", f"Another client than {current} runs on {names}.", told))
    online = sum(one["state"] == "online" for one in rows)
    return found or [Finding("computers", "ok", f"All {online} are online, with client {current}.")]


def _lately(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    since = datetime.now(UTC) - LATELY
    return [one for one in rows if datetime.fromisoformat(one["at"]) >= since]
