"""Web push: a message to a browser, also while its page is closed (RFC 8030, 8188, 8291 and 8292).

Theory. The push service of the browser's maker carries the message and cannot read it: it is encrypted with keys that
only the browser has. The service takes it with a signature by the key that the browser subscribed for (VAPID). That key
is derived from the secret of the installation, so that all nodes have the same one and none of them keeps it.
``cryptography`` has all primitives. Libraries for the rest also send, without the checks of addresses that are made
here (see ``messengers``). This module is imported when it is used: the extra ``notify`` brings ``cryptography``.
"""

import base64
import json
import os
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from orchestrator.core.ports import Message

MOST_TEXT: Final = 400
"""Characters of a notification, which shows a few lines. The whole is then far below the 4096 bytes of RFC 8291."""
KEEP_S: Final = 86_400
"""How long the push service keeps a message for a browser that is not connected."""
SIGNED_FOR_S: Final = 43_200
"""How long a signature counts; RFC 8292 allows 24 h, and clocks differ."""
_RECORD: Final = 4096
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the group of P-256."""


@dataclass(frozen=True)
class Subscription:
    """Where a browser gets its messages, and the keys with which they are encrypted for it."""

    endpoint: str
    key: ec.EllipticCurvePublicKey
    """``p256dh``"""
    auth: bytes


def subscription(endpoint: str, keys: str) -> Subscription:
    """The subscription with these keys, as ``P256DH.AUTH``. Raises ValueError."""
    p256dh, _, auth = keys.partition(".")
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _bytes(p256dh))
    if len(_bytes(auth)) != 16:
        raise ValueError("auth has 16 bytes")
    return Subscription(endpoint, key, _bytes(auth))


def signing_key(secret: str) -> ec.EllipticCurvePrivateKey:
    """The VAPID key of the installation with this secret."""
    drawn = int.from_bytes(_derived(48, b"", b"web push", secret.encode()))
    return ec.derive_private_key(drawn % (_ORDER - 1) + 1, ec.SECP256R1())


def public_key(key: ec.EllipticCurvePrivateKey) -> str:
    """The part of a VAPID key with which browsers subscribe."""
    return _text(_point(key.public_key()))


def request_of(
    to: Subscription, message: Message, key: ec.EllipticCurvePrivateKey, *, contact: str, at: datetime
) -> tuple[dict[str, str], bytes]:
    """The headers and the body of the request that sends a message; ``contact``: the ``sub`` of RFC 8292."""
    parts = urlsplit(to.endpoint)
    claims = {
        "aud": f"{parts.scheme}://{parts.netloc}",
        "exp": round(at.timestamp()) + SIGNED_FOR_S,
        "sub": contact,
    }
    headers = {
        "Authorization": f"vapid t={_signed(claims, key)}, k={public_key(key)}",
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "TTL": str(KEEP_S),
        # A phone that sleeps is woken: somebody waits.
        "Urgency": "high",
        # Of a message that came twice, the service keeps one.
        "Topic": message.message_id[-32:],
    }
    own = ec.generate_private_key(ec.SECP256R1())
    return headers, encrypted(shown(message), to, own, salt=os.urandom(16))


def shown(message: Message) -> bytes:
    """What the service worker of the page gets, as JSON: an id, a text, and a place on the page."""
    events = json.loads(message.body)["events"]
    text, route = message.text, "/"
    if len(events) == 1:
        (event,) = events
        text = "\n".join(filter(None, (event["text"], event.get("details"))))
        route = event["link"].partition("#")[2]
    text = text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"
    return json.dumps({"id": message.message_id, "text": text, "route": route}, ensure_ascii=False).encode()


def encrypted(plain: bytes, to: Subscription, own: ec.EllipticCurvePrivateKey, *, salt: bytes) -> bytes:
    """A message as RFC 8291 encrypts it; ``own`` and ``salt`` are new for each one."""
    theirs, ours = _point(to.key), _point(own.public_key())
    shared = own.exchange(ec.ECDH(), to.key)
    secret = _derived(32, to.auth, b"WebPush: info\0" + theirs + ours, shared)
    key = _derived(16, salt, b"Content-Encoding: aes128gcm\0", secret)
    nonce = _derived(12, salt, b"Content-Encoding: nonce\0", secret)
    header = salt + _RECORD.to_bytes(4) + bytes((len(ours),)) + ours
    # 2 ends the last record.
    return header + AESGCM(key).encrypt(nonce, plain + b"\x02", None)


def _signed(claims: dict[str, Any], key: ec.EllipticCurvePrivateKey) -> str:
    """A JWT by ES256."""
    told = ".".join(_text(json.dumps(one).encode()) for one in ({"typ": "JWT", "alg": "ES256"}, claims))
    numbers = decode_dss_signature(key.sign(told.encode(), ec.ECDSA(SHA256())))
    return f"{told}.{_text(b''.join(one.to_bytes(32) for one in numbers))}"


def _derived(length: int, salt: bytes, info: bytes, secret: bytes) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(secret)


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
