"""Certificates and NATS users for tests: an authority of their own, and what it and an operator vouch for."""

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

OPERATOR: Final = 14 << 3
ACCOUNT: Final = 0
USER: Final = 20 << 3
_SEED: Final = 18 << 3
_NO_LIMIT: Final = {"subs": -1, "data": -1, "payload": -1}


class Authority:
    """Vouches for names and numbers; its certificate and theirs are files in a directory."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        made = _begun(self._name, self._name, self._key.public_key()).add_extension(constraints, critical=True)
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def vouch(self, *hosts: str) -> tuple[Path, Path]:
        """A certificate and its key, for whoever is called so, as a server or a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([_general(host) for host in hosts])
        made = _begun(_named(hosts[0]), self._name, key.public_key()).add_extension(names, critical=False)
        certificate, private = (self._directory / f"{hosts[0]}.{what}" for what in ("pem", "key"))
        certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, private


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    begun = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    begun = begun.serial_number(x509.random_serial_number())
    return begun.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))


@dataclass(frozen=True)
class NKey:
    """A key of NATS, of a kind."""

    kind: int
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    @property
    def public(self) -> str:
        """As others know it."""
        return _base32(bytes([self.kind]) + self.key.public_key().public_bytes_raw())

    @property
    def seed(self) -> str:
        """As its owner keeps it."""
        return _base32(bytes([_SEED | self.kind >> 5, (self.kind & 31) << 3]) + self.key.private_bytes_raw())

    def vouch(self, subject: "NKey", kind: str, says: Mapping[str, Any] = {}, *, until: int = 0) -> str:
        """A JWT of what ``subject`` may do; it runs out at ``until`` where that is not 0."""
        claims = {"jti": "x", "iat": 1_700_000_000, "iss": self.public, "sub": subject.public, "name": kind}
        claims |= {"nats": {"type": kind, "version": 2, **says}, **({"exp": until} if until else {})}
        words = [_base64(json.dumps(each).encode()) for each in ({"typ": "JWT", "alg": "ed25519-nkey"}, claims)]
        return ".".join([*words, _base64(self.key.sign(".".join(words).encode()))])


class Operator:
    """Whoever runs NATS servers with decentralised users, and one account there."""

    def __init__(self) -> None:
        self._key, self._account = NKey(OPERATOR), NKey(ACCOUNT)
        limits = {"imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1, **_NO_LIMIT}
        account = self._key.vouch(self._account, "account", {"limits": limits})
        self.rules = (
            f"operator: {self._key.vouch(self._key, 'operator')}\nresolver: MEMORY\n"
            f"resolver_preload: {{ {self._account.public}: {account} }}\n"
        )
        """What the configuration of a server has."""

    def user(self, file: Path, *, until: int = 0) -> Path:
        """A new user's credentials, in a file as ``nsc`` writes it."""
        user = NKey(USER)
        jwt = self._account.vouch(user, "user", _NO_LIMIT, until=until)
        parts = (("NATS USER JWT", jwt, ""), ("USER NKEY SEED", user.seed, "*** IMPORTANT ***\nSecret.\n\n"))
        file.write_text("".join(_part(*part) for part in parts))
        return file


def _part(name: str, content: str, before: str) -> str:
    return f"{before}-----BEGIN {name}-----\n{content}\n------END {name}------\n\n"


def _base32(data: bytes) -> str:
    return base64.b32encode(data + binascii.crc_hqx(data, 0).to_bytes(2, "little")).decode().rstrip("=")


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def rules(lines: Iterable[str], file: Path) -> Path:
    """A configuration of a server, in a file."""
    file.write_text("\n".join([*lines, ""]))
    return file
