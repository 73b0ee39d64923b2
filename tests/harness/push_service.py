"""A browser's push subscription, and what its push service does: check the signature, decrypt for the browser.

It is written after RFC 8291 and RFC 8292, and shares no code with the sender. The service listens as a ``Receiver``.
"""

import base64
import json
import os
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt
from joserfc.jwk import ECKey

from tests.harness.receiver import Receiver, Taken

MOST_BYTES = 4096


def text(data: bytes) -> str:
    """Base64url, as browsers and JWTs have it."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def data_of(said: str) -> bytes:
    """The bytes of it."""
    return base64.urlsafe_b64decode(said + "==")


def point_of(key: ec.EllipticCurvePublicKey) -> bytes:
    """A public key as the RFCs write it."""
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


@dataclass(frozen=True)
class Subscriber:
    """A browser: its two secrets."""

    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    auth: bytes = field(default_factory=lambda: os.urandom(16))

    @property
    def keys(self) -> dict[str, str]:
        """What the browser gives away, as ``PushSubscription.toJSON`` has it."""
        return {"p256dh": text(point_of(self.key.public_key())), "auth": text(self.auth)}

    def address(self, endpoint: str) -> str:
        """The address for a rule."""
        return f"webpush:{endpoint}#{self.keys['p256dh']}.{self.keys['auth']}"

    def opened(self, taken: Taken) -> dict[str, Any]:
        """The message of a request, decrypted."""
        body = taken.body
        assert taken.headers["content-encoding"] == "aes128gcm"
        assert len(body) <= MOST_BYTES
        salt, size, sender = body[:16], int.from_bytes(body[16:20]), body[21 : 21 + body[20]]
        assert len(body) - 21 - len(sender) <= size
        point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        info = b"WebPush: info\x00" + point_of(self.key.public_key()) + sender
        secret = HKDF(SHA256(), 32, self.auth, info).derive(self.key.exchange(ec.ECDH(), point))
        drawn = HKDF.extract(SHA256(), salt, secret)
        key = HKDFExpand(SHA256(), 16, b"Content-Encoding: aes128gcm\x00").derive(drawn)
        nonce = HKDFExpand(SHA256(), 12, b"Content-Encoding: nonce\x00").derive(drawn)
        plain = AESGCM(key).decrypt(nonce, body[21 + len(sender) :], None)
        message, ends, padding = plain.rpartition(b"\x02")
        assert (ends, padding.strip(b"\x00")) == (b"\x02", b"")
        told: dict[str, Any] = json.loads(message)
        return told


def claims_of(taken: Taken, push_key: str, receiver: Receiver) -> dict[str, Any]:
    """The claims of a request, once its signature is by the key that browsers subscribed for."""
    scheme, _, said = taken.headers["authorization"].partition(" ")
    parts = dict(one.strip().split("=", 1) for one in said.split(","))
    assert (scheme, parts["k"]) == ("vapid", push_key)
    point = data_of(push_key)
    key = ECKey.import_key({"kty": "EC", "crv": "P-256", "x": text(point[1:33]), "y": text(point[33:])})
    claims = jwt.decode(parts["t"], key, algorithms=["ES256"]).claims
    assert claims["aud"] == f"http://127.0.0.1:{receiver.port}"
    return dict(claims)
