"""The client side of the NATS protocol without a connection, and the URL of a NATS bus.

A line ends with CRLF; a message has its lengths on its line, and its bytes after it. What the bus does not use, such as
sending headers, is not here.
"""

import base64
import binascii
import json
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from orchestrator.core.errors import InvalidRequest

# -- The NATS protocol of clients, without a connection: what a server says as events, and what it is told as
# bytes

LINE_BYTES: Final = 1024 * 1024
"""The longest line of a server: its INFO lists all servers of a cluster."""
MOST_BYTES: Final = 128 * 1024 * 1024
"""The longest message: a server can be told to take 64 MiB, and headers are counted with it."""

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"

_END: Final = b"\r\n"


class NotNats(ValueError):
    """The message is not one of a NATS server."""


class Message(NamedTuple):
    """A message of a subscription."""

    subject: str
    reply: str
    """Where its answer goes; empty: nowhere."""
    data: bytes
    headers: bytes = b""


class Info(NamedTuple):
    """What the server says of itself."""

    says: Mapping[str, Any]


class Trouble(NamedTuple):
    """What the server complains of."""

    why: str


Event = Message | Info | Trouble | Literal["PING", "PONG", "+OK"]


class Parser:
    """Makes events of bytes, however they are cut."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._needed = 0
        """The bytes that must be there before it is worth looking."""

    def alone(self, data: bytes) -> Message | None:
        """The message, where ``data`` is one, whole, and nothing else; None: :meth:`receive` has to look at it.

        Such frames come while little is going on, and a node that asked another one waits for them.
        """
        if self._kept or not data.startswith(b"MSG ") or not data.endswith(_END):
            return None
        end = data.find(_END)
        words, size = data[:end].split(), len(data) - end - 4
        if size < 0 or len(words) not in (4, 5) or words[-1] != b"%d" % size:
            return None
        reply = words[3].decode("utf-8", "replace") if len(words) == 5 else ""
        return Message(words[1].decode("utf-8", "replace"), reply, data[end + 2 : -2])

    def receive(self, data: bytes) -> Iterator[Event]:
        """The messages that have come whole by now. Raises NotNats, and is of no use after that."""
        if self._kept:
            self._kept += data
            if len(self._kept) < self._needed:
                return
            data = bytes(self._kept)
            self._kept.clear()
        at = 0
        while (end := data.find(_END, at)) >= 0:
            words = data[at:end].split()
            op = words[0].upper() if words else b""
            if op not in (b"MSG", b"HMSG"):
                yield _event(op, data[at:end].strip()[len(op) :].strip())
                at = end + 2
                continue
            subject, reply, headers, size = _lengths(op, words)
            body = end + 2
            after = body + size
            if len(data) < after + 2:
                self._needed = after + 2 - at
                break
            if data[after : after + 2] != _END:
                raise NotNats("A message is longer than it says.")
            at = after + 2
            yield Message(subject, reply, data[body + headers : after], data[body : body + headers])
        else:
            self._needed = 0
            if len(data) - at > LINE_BYTES:
                raise NotNats("A line has no end.")
        self._kept += data[at:]


def _lengths(op: bytes, words: Sequence[bytes]) -> tuple[str, str, int, int]:
    """Subject, where the answer goes, and the bytes of headers, and of all."""
    numbers = 1 if op == b"MSG" else 2
    answered = len(words) == 4 + numbers
    if not (answered or len(words) == 3 + numbers) or not b"".join(words[-numbers:]).isdigit():
        raise NotNats("The line of a message cannot be read.")
    reply = words[3].decode("utf-8", "replace") if answered else ""
    headers, size = int(words[-2][:20]) if numbers == 2 else 0, int(words[-1][:20])
    if not headers <= size <= MOST_BYTES:
        raise NotNats(f"A message of {size} bytes cannot have {headers} bytes of headers.")
    return words[1].decode("utf-8", "replace"), reply, headers, size


def _event(op: bytes, said: bytes) -> Event:
    match op:
        case b"PING":
            return "PING"
        case b"PONG":
            return "PONG"
        case b"+OK":
            return "+OK"
        case b"-ERR":
            return Trouble(said.decode("utf-8", "replace").strip(" '"))
        case b"INFO":
            try:
                says = json.loads(said)
            except (ValueError, RecursionError):
                says = None
            if not isinstance(says, dict):
                raise NotNats("The server's facts about itself cannot be read.")
            return Info(says)
        case _:
            raise NotNats(f"{op[:20]!r} is not a message of a server.")


def connect(says: Mapping[str, Any]) -> bytes:
    """Names the client, and says what it understands."""
    understands = {"verbose": False, "pedantic": False, "lang": "python", "protocol": 1}
    # Without headers the server could not say that nobody is there to answer.
    understands |= {"headers": True, "no_responders": True}
    return b"CONNECT %b\r\n" % json.dumps({**understands, **says}).encode()


def publish(subject: str, reply: str, data: bytes) -> bytes:
    """A message; an empty ``reply``: nobody waits for an answer."""
    return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(data), data)


def subscribe(subject: str, queue: str, number: int) -> bytes:
    """Messages of a subject are wanted; of a ``queue`` only one member gets each."""
    return b"SUB %b %b %d\r\n" % (subject.encode(), queue.encode(), number)


def unsubscribe(number: int) -> bytes:
    """The subscriptions are no longer wanted."""
    return b"UNSUB %d\r\n" % number


# -- The URL of a NATS bus: its servers, what opens them, and the name under which an installation goes there

PORT: Final = 4222
REMEDY: Final = (
    "Write nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT][,HOST[:PORT]…][/NAME][?creds=FILE|nkey=FILE], or tls://… alike, "
    "there also with tlsca=FILE, tlscert=FILE&tlskey=FILE and tlsfirst=true."
)
NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")


class NatsServer(NamedTuple):
    """One server, and the credentials for it; never shown, except for ``shown``."""

    host: str
    port: int
    tls: bool
    user: str | None = None
    password: str | None = None
    token: str | None = None
    certified: str = ""
    """The name that its certificate has to bear; empty: its host."""

    @property
    def shown(self) -> str:
        """The server without any secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The server's URL without any secret."""
        return f"{'tls' if self.tls else 'nats'}://{self.shown}"


class NatsFiles(NamedTuple):
    """The files by which a node shows who it is and sees who the server is; named as the command ``nats`` names them.

    An empty name: there is none.
    """

    creds: str = ""
    """A user's JWT and the seed of its NKey."""
    nkey: str = ""
    """The seed of an NKey alone."""
    tlsca: str = ""
    """The authorities that may vouch for a server; empty: those that the machine trusts."""
    tlscert: str = ""
    tlskey: str = ""
    """The certificate of this node and its key; without ``tlskey`` both are in the one file."""


class NatsAddress(NamedTuple):
    """The address of a bus: where it is, the beginning of its subjects, and its credentials."""

    servers: tuple[NatsServer, ...]
    prefix: str
    files: NatsFiles = NatsFiles()
    tls_first: bool = False
    """TLS begins before the server has said a word."""


def nats_address(url: str) -> NatsAddress:
    """The address that the URL means; raises InvalidRequest, which shows nothing of it."""
    scheme, _, rest = url.partition("://")
    rest, asked, options = rest.partition("?")
    whole, _, name = rest.replace(f",{scheme}://", ",").partition("/")
    if name and not NAME.fullmatch(name):
        raise _refused("its name after the slash has other characters than letters, digits, _ and -")
    first: SplitResult | None = None
    servers = []
    for one in whole.split(","):
        try:
            parts = urlsplit(f"{scheme}://{one}")
            port = parts.port or PORT
        except ValueError:
            raise _refused("a port or an address in it cannot be read") from None
        if not parts.hostname or parts.query or parts.fragment:
            raise _refused("a server in it has no host")
        first = first or parts
        servers.append(_server(parts, port, first))
    files, tls_first = _options(options, tls=scheme == "tls") if asked else (NatsFiles(), False)
    if (files.creds or files.nkey) and any(server.user or server.token for server in servers):
        raise _refused("it has a password or a token beside creds or nkey; only one of them may name the client")
    return NatsAddress(tuple(servers), f"cco.{name}" if name else "cco", files, tls_first)


def _options(text: str, *, tls: bool) -> tuple[NatsFiles, bool]:
    """The text after the question mark: files, and whether TLS comes first."""
    pairs = [part.partition("=") for part in text.split("&")]
    given = {name: unquote(value) for name, _, value in pairs}
    known = {*NatsFiles._fields, "tlsfirst"}
    if len(given) < len(pairs) or not given.keys() <= known or not all(given.values()):
        raise _refused(
            f"after its ? are allowed, once each and with a value, {', '.join(sorted(known))}, and nothing else"
        )
    first = given.pop("tlsfirst", "false")
    if first not in {"true", "false"}:
        raise _refused("tlsfirst is true or false")
    files = NatsFiles(**given)
    if files.creds and files.nkey:
        raise _refused("it has creds and nkey; only one of them may name the client")
    if files.tlskey and not files.tlscert:
        raise _refused("it has tlskey without tlscert")
    if not tls and (first == "true" or files.tlsca or files.tlscert):
        raise _refused("it begins with nats://, and its options for certificates and TLS need tls://")
    return files, first == "true"


def discovered(places: Iterable[str], by: NatsServer, *, tls: bool) -> Iterator[NatsServer]:
    """The other servers of a cluster, as one of them names them; all of them know the same users.

    Where they are numbers and the one that named them has a name, their certificates have to bear that name.
    """
    for place in places:
        try:
            parts = urlsplit(f"nats://{place}")
            host, port = parts.hostname, parts.port or PORT
        except ValueError:
            continue
        if host:
            certified = (by.certified or by.host) if _is_number(host) and not _is_number(by.host) else ""
            yield by._replace(host=host, port=port, tls=tls, certified=certified)


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _server(parts: SplitResult, port: int, first: SplitResult) -> NatsServer:
    """A server; one without credentials of its own gets those of the first."""
    who = parts if parts.username is not None else first
    host, tls = parts.hostname or "", parts.scheme == "tls"
    if who.username is None:
        return NatsServer(host, port, tls)
    if who.password is None:
        return NatsServer(host, port, tls, token=unquote(who.username))
    return NatsServer(host, port, tls, user=unquote(who.username), password=unquote(who.password))


def _refused(why: str) -> InvalidRequest:
    return InvalidRequest(f"The NATS bus cannot be opened by this URL: {why}.", remedy=REMEDY)


# -- Who a node is to a NATS server, and how it knows the server: NKeys, credentials files, certificates
#
# The files are read at each connection, so that what was renewed there holds from the next one on.

_MOST_BYTES: Final = 1024 * 1024
_SEED: Final = 18 << 3
_USER: Final = 20 << 3
"""The first bits of a seed, and of a user's key; base32 makes S and U of them."""
_IN_CREDS: Final = re.compile(r"-{3,}BEGIN ([A-Z ]+)-{3,}\s+([\w.=-]+)\s+-{3,}END")
_JWT_NAME: Final = "NATS USER JWT"
_SEED_NAME: Final = "USER NKEY SEED"


def check(files: NatsFiles, *, tls: bool) -> None:
    """Raises InvalidRequest where one of the files is of no use, or what reads it is not installed."""
    if files.creds or files.nkey:
        signed(files, "")
    if tls:
        context(files)


def signed(files: NatsFiles, nonce: str) -> Mapping[str, Any]:
    """The credentials of the user, who signs the server's ``nonce``. Raises InvalidRequest."""
    jwt, seed = "", _read("nkey", files.nkey).strip() if files.nkey else ""
    if files.creds:
        found = dict(_IN_CREDS.findall(_read("creds", files.creds)))
        jwt, seed = found.get(_JWT_NAME, ""), found.get(_SEED_NAME, "")
        if not (jwt and seed):
            raise _useless("creds", files.creds, "it has not both a user's JWT and the seed of a key")
    public, signature = _sign(seed, nonce.encode(), *(("creds", files.creds) if files.creds else ("nkey", files.nkey)))
    return {"sig": signature, **({"jwt": jwt} if jwt else {"nkey": public})}


def context(files: NatsFiles) -> ssl.SSLContext:
    """How TLS is spoken. Raises InvalidRequest."""
    try:
        made = ssl.create_default_context(cafile=files.tlsca or None)
    except (OSError, ValueError) as why:
        raise _useless("tlsca", files.tlsca, _why(why, "it holds no certificate in the form PEM")) from None
    if files.tlscert:
        try:
            # Without a password for the key, OpenSSL would ask for it at the terminal of the node.
            made.load_cert_chain(files.tlscert, files.tlskey or None, password="")
        except (OSError, ValueError) as why:
            said = _why(why, "they are not a certificate and its own key, in the form PEM and without a password")
            raise _useless("tlscert and tlskey", files.tlskey or files.tlscert, said) from None
    return made


def _sign(seed: str, nonce: bytes, option: str, file: str) -> tuple[str, str]:
    """The public key of a user's seed, and its signature."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ModuleNotFoundError:
        raise InvalidRequest(
            f"{option} in the URL of the NATS bus needs the package cryptography.",
            remedy="pip install 'cc-orchestrator[nats]'",
        ) from None
    try:
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except ValueError:
        raw = b""
    # Two bytes say what it is, 32 are the seed, two are the check of these.
    kind = (raw[0] & 0xF8, (raw[0] & 7) << 5 | raw[1] >> 3) if len(raw) == 36 else (0, 0)
    if kind != (_SEED, _USER) or _checked(raw[:-2]) != raw:
        raise _useless(option, file, "the seed in it is not that of a user, which has 58 letters and begins with SU")
    key = Ed25519PrivateKey.from_private_bytes(raw[2:34])
    public = base64.b32encode(_checked(bytes([_USER]) + key.public_key().public_bytes_raw())).decode()
    return public, base64.urlsafe_b64encode(key.sign(nonce)).decode().rstrip("=")


def _checked(data: bytes) -> bytes:
    return data + binascii.crc_hqx(data, 0).to_bytes(2, "little")


def _read(option: str, file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(_MOST_BYTES).decode("ascii", "replace")
    except (OSError, ValueError) as why:
        raise _useless(option, file, _why(why, "it cannot be read")) from None


def _why(why: Exception, otherwise: str) -> str:
    """What the system says of a file; a person cannot use the words of OpenSSL."""
    is_plain = isinstance(why, OSError) and not isinstance(why, ssl.SSLError) and why.strerror
    return str(why.strerror) if is_plain else otherwise  # type: ignore[attr-defined]


def _useless(option: str, file: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"The file that {option} names in the URL of the NATS bus cannot be used: {why}.",
        remedy=f"Look at {file}, and whether the user of this process may read it; or correct {option} in --bus.",
    )
