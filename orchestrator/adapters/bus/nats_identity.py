"""Who a node is to a NATS server, and how it knows the server: NKeys, credentials files, certificates.

The files are read at each connection, so that what was renewed there holds from the next one on.
"""

import base64
import binascii
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from orchestrator.adapters.bus.nats_url import NatsFiles
from orchestrator.core.errors import InvalidRequest

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
    """What the server is told of the user, who signs the server's ``nonce``. Raises InvalidRequest."""
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
            # Without a word for the key, whoever started the node would be asked for it at the terminal.
            made.load_cert_chain(files.tlscert, files.tlskey or None, password="")
        except (OSError, ValueError) as why:
            said = _why(why, "they are no certificate and its own key, in the form PEM and without a password")
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
        raise _useless(option, file, "the seed in it is none of a user, which is 58 letters and begins with SU")
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
    """What the system says of a file; what OpenSSL says is nothing that a person can use."""
    is_plain = isinstance(why, OSError) and not isinstance(why, ssl.SSLError) and why.strerror
    return str(why.strerror) if is_plain else otherwise  # type: ignore[attr-defined]


def _useless(option: str, file: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"The file that {option} names in the URL of the NATS bus cannot be used: {why}.",
        remedy=f"Look at {file}, and whether the user of this process may read it; or correct {option} in --bus.",
    )
