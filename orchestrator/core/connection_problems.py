"""Why a computer cannot connect, each with the exact lines that fix it: one table for every place that says so.

The client has the same table in Lua (cc_client/lua/why.lua), because it has to speak where nothing
can be reached; ``tests/golden/why.json`` holds both to the same words. The lines are short, since
a turtle's screen has 39 columns and 13 rows.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from orchestrator.core.errors import InvalidRequest

_USUAL_PORT: Final = 8765
PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
FILE: Final = "computercraft-server.toml"
PLACE: Final = "<world>/serverconfig/computercraft-server.toml"
_FOLDER: Final = "the folder serverconfig of the world"
_SET: Final = f"Set in {FILE}, which is in {_FOLDER} (new versions: config):"
_RULE: Final = f'Put into {FILE} ({_FOLDER}, or config), before the rule for "$private":'
_RESTART: Final = "Then restart the Minecraft server."
_PLAIN: Final = (
    "cc-orchestrator serve --host 0.0.0.0 --insecure-bind --port {plain} --public-url http://ADDRESS:{plain}"
)
_PLACE: Final = re.compile(r"\{(host|port|plain|server|said)\}")


@dataclass(frozen=True)
class Trouble:
    """One reason, as it is told: ``{host}``, ``{port}``, ``{server}`` and ``{said}`` are filled in.

    ``{plain}`` is the port for http without TLS: that of the address, or the usual one where it is of https.
    """

    sentence: str
    remedy: tuple[str, ...]
    seen: str
    """Where and how it shows, for the page; empty: the sentence says it."""
    after: bool = False
    """Whether the remedy of the server, where it sent one, is before these lines."""


TROUBLES: Final[Mapping[str, Trouble]] = {
    "http_off": Trouble(
        "HTTP is turned off on the Minecraft server.",
        (_SET, "[http]", "enabled = true", _RESTART),
        "`wget` says that it requires the http API, or in some versions there is no `wget` at all (`No such program`). "
        "Nothing reaches the orchestrator.",
    ),
    "websockets_off": Trouble(
        "WebSockets are turned off on the Minecraft server.",
        (_SET, "[http]", "websocket_enabled = true", _RESTART),
        "`wget` works; the mod says `Websocket connections are disabled`.",
    ),
    "not_permitted": Trouble(
        "The Minecraft server does not permit computers to reach {host}.",
        (_RULE, "[[http.rules]]", 'host = "{host}"', "port = {port}", 'action = "allow"', _RESTART),
        "The mod says `Domain not permitted`, as it does of every private address until a rule allows it; "
        "nothing reaches the orchestrator.",
    ),
    "unknown_host": Trouble(
        "The Minecraft server knows no host {host}.",
        (
            "Give the orchestrator an address that it knows, such as its IP, on a network that you trust:",
            _PLAIN,
            "Then type a new line of `cc-orchestrator pair`.",
        ),
        "The mod says `Unknown host`; nothing reaches the orchestrator.",
    ),
    "no_answer": Trouble(
        "Nothing answers at {host}, port {port}.",
        (
            "Start it there, for a network that you trust:",
            "cc-orchestrator serve --host 0.0.0.0 --insecure-bind --port {port} --public-url {server}",
            "Let port {port} through its firewall.",
        ),
        "`wget` says `Failed.`, the mod `Could not connect`: a wrong address or port, a firewall, or nothing runs "
        "there. It is the Minecraft server that dials, not the player's own machine.",
    ),
    "no_answer_tls": Trouble(
        "Nothing answers at {host}, port {port}.",
        (
            "Start the proxy there that has the certificate, and behind it:",
            "cc-orchestrator serve --public-url {server}",
            "Let port {port} through its firewall.",
        ),
        "The same for an https address: the orchestrator itself speaks plain HTTP, so a proxy stands in front of it.",
    ),
    "no_answer_here": Trouble(
        "Nothing answers at port {port} of the machine on which the Minecraft server runs.",
        (
            "Start it there:",
            "cc-orchestrator serve --port {port}",
            "If it runs on another machine, `cc-orchestrator doctor` there says what to do.",
        ),
        "The same for a loopback address, such as 127.0.0.1.",
    ),
    "timed_out": Trouble(
        "{host}, port {port}, did not answer in time.",
        (
            "Let port {port} through the firewall of {host}.",
            "If the address is wrong, type a new line of `cc-orchestrator pair`.",
        ),
        "The mod says `Timed out`: most often a firewall that drops.",
    ),
    "tls": Trouble(
        "The Minecraft server does not trust the certificate of {host}.",
        (
            "Give it one that Java trusts, or use http on a network that you trust:",
            _PLAIN,
            "Then type a new line of `cc-orchestrator pair`.",
        ),
        "`wget` says `Failed.`, the mod `Could not create a secure connection`: only Java's own trust store counts, "
        "so a certificate made by oneself is refused.",
    ),
    "code_used": Trouble(
        "This pairing code was used already.",
        ("Make a new one with `cc-orchestrator pair` and type its line here.",),
        "The installer says it.",
    ),
    "code_expired": Trouble(
        "This pairing code is older than 15 minutes.",
        ("Make a new one with `cc-orchestrator pair` and type its line here.",),
        "The installer says it.",
    ),
    "code_unknown": Trouble(
        "This pairing code is not known here.",
        ("Make a new one with `cc-orchestrator pair` and type its line here.",),
        "The installer says it.",
    ),
    "protocol_too_old": Trouble(
        "{said}",
        ("wget run {server}/install",),
        "`cc status` says it.",
        after=True,
    ),
    "protocol_too_new": Trouble(
        "{said}",
        ("Or get its older client:", "wget run {server}/install"),
        "`cc status` says it.",
        after=True,
    ),
    "mod_too_old": Trouble("{said}", (), "`cc status` says it.", after=True),
    "frozen": Trouble("{said}", (), "`cc status` says it, and `cc-orchestrator computers`.", after=True),
    "token_refused": Trouble(
        "The orchestrator at {host} does not know this computer: its token was revoked, or is another server's.",
        ("Pair it again: type a new line of `cc-orchestrator pair`.",),
        "The mod says that the handshake was answered with 401.",
    ),
    "not_ours": Trouble(
        "What answers at {host}, port {port}, is not cc-orchestrator.",
        ("If the address is wrong, type a new line of `cc-orchestrator pair`.",),
        "Another program has the port, or a proxy answers with a page of its own.",
    ),
    "busy": Trouble(
        "The orchestrator at {host} lets other computers in first.",
        ("It is dialled again by itself.",),
        "The mod says that the handshake was answered with 503 and after how many seconds to come again. So many "
        "computers dial at once, such as after a restart, that they come in one after the other.",
    ),
    "stopping": Trouble(
        "The orchestrator at {host} stops or starts just now.",
        ("It is dialled again by itself.",),
        "The mod says that the handshake was answered with 503. If it stays so, nothing runs behind the proxy.",
    ),
    "no_upgrade": Trouble(
        "{host}, port {port}, takes no WebSocket ({said}).",
        ("Let the proxy in between pass WebSockets on.",),
        "HTTP works and the WebSocket is refused: a proxy stands in between.",
    ),
    "bad_address": Trouble(
        "{server} is no address ({said}).",
        ("Type the line exactly as `cc-orchestrator pair` prints it.",),
        "The mod says `URL malformed`, or `Must specify http or https`.",
    ),
    "too_many": Trouble(
        "This computer has too many connections open.",
        ("End the programs that have them, or restart it: hold Ctrl-R.",),
        "The mod says `Too many websockets already open`.",
    ),
    "ended": Trouble(
        "The connection ended: {said}.",
        ("It is dialled again by itself.",),
        "",
    ),
    "unknown": Trouble(
        "The connection failed: {said}.",
        ("`cc-orchestrator doctor`, on the orchestrator's machine, says what it sees.",),
        "",
    ),
}
"""Every reason by its code; the client tells them all, doctor and the page those that it can know."""


@dataclass(frozen=True)
class Told:
    """A reason with everything filled in."""

    code: str
    sentence: str
    remedy: tuple[str, ...]


def told(code: str, url: str = "", *, said: str = "", remedy: str = "") -> Told:
    """A reason in words; ``url`` is the server's, ``said`` and ``remedy`` what it, or the mod, said."""
    parts = urlsplit(url)
    if code == "no_answer" and parts.scheme in ("https", "wss"):
        code = "no_answer_tls"
    trouble = TROUBLES[code]
    words = {
        "host": parts.hostname or "",
        "port": str(port_of(url)),
        "plain": str(_USUAL_PORT if parts.scheme in ("https", "wss") else port_of(url)),
        "server": f"{parts.scheme.replace('ws', 'http')}://{parts.netloc.rpartition('@')[2]}",
        "said": said,
    }

    def fill(text: str) -> str:
        return _PLACE.sub(lambda found: words[found[1]], text)

    first = (remedy,) if trouble.after and remedy else ()
    return Told(code, fill(trouble.sentence), (*first, *map(fill, trouble.remedy)))


def plain_http(url: str) -> str:
    """What to know of an address before a computer is installed from it, as one sentence; empty: nothing."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "ws") or is_loopback(parts.hostname or ""):
        return ""
    return (
        "This address is plain http: anybody between the Minecraft server and this one can read the computer's "
        "token and change what is installed, so use it only on a network that you trust, have the installer checked "
        "with `cc-orchestrator pair --pin`, or put TLS before the server and name it with `--public-url https://…`."
    )


def port_of(url: str) -> int:
    """The port of a URL. Raises InvalidRequest when it is not a port."""
    parts = urlsplit(url)
    try:
        return parts.port or PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise InvalidRequest(f"The port of {url!r} cannot be read: {error}.") from None


def is_private(host: str) -> bool:
    """Whether the mod's own rules forbid an address (``$private``), as far as a name tells.

    A name without a dot, or one of a home network, is taken for private: a rule too many does no harm.
    """
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host or host.rpartition(".")[2] in ("local", "lan", "home", "internal", "localhost")


def is_loopback(host: str) -> bool:
    """Whether an address is reached from its own machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
