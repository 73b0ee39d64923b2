"""Why there is no connection to a NATS server, in words for people, and never with a secret."""

import ssl
from typing import Final

from orchestrator.adapters.bus.nats_url import NatsServer
from orchestrator.core.errors import BusAway, OrchestratorError

CONNECT_S: Final = 3.0
"""What a server has to connect, and to answer what opens the connection."""

_START: Final = (
    "Start it, or correct the URL of the bus (--bus): tls:// or nats://, user and password or token, host and port."
)
_FIRST: Final = "Where it has handshake_first, write ?tlsfirst=true at the end of the URL."
_LET_IN: Final = (
    "Check what the URL of the bus (--bus) says of who comes: user and password, a token, creds=FILE, nkey=FILE or, "
    "where the server knows its users by their certificates, tlscert=FILE; a JWT may also have run out."
)


class Failed(Exception):
    """The connection does not come about; it says why."""


class Refused(Failed):
    """The server said so itself."""


def away(server: NatsServer, why: Exception, *, heard: bool) -> BusAway:
    """The sentence for a server to which there is no connection; ``heard``: whether it has said anything."""
    name = f"The NATS server {server.shown}"
    said = without_secrets(server, str(why))
    start = _START if heard or not server.tls else f"{_START} {_FIRST}"
    match why:
        case OrchestratorError():
            return BusAway(why.message, remedy=why.remedy)
        case ssl.SSLCertVerificationError():
            return BusAway(
                f"{name} shows a certificate that is not to be trusted: {why.verify_message}.",
                remedy="Name its authority by ?tlsca=FILE in the URL of the bus (--bus), write the host as its "
                "certificate has it, or mend the certificate.",
            )
        case ssl.SSLError() if "CERTIFICATE_REQUIRED" in said.upper().replace(" ", "_"):
            return BusAway(
                f"{name} wants to see a certificate of this node.",
                remedy="Add ?tlscert=FILE&tlskey=FILE to the URL of the bus (--bus): one of an authority that the "
                "server trusts.",
            )
        case ssl.SSLError():
            return BusAway(
                f"{name} and this node could not agree on TLS ({(why.reason or 'no reason given').lower()}).",
                remedy="See the server's log. Where it refuses this node's certificate, name another by tlscert=FILE "
                "and tlskey=FILE; where it speaks no TLS, write nats://; only where it has handshake_first, write "
                "tlsfirst=true.",
            )
        case Refused():
            return BusAway(f"{name} does not let this node in: {said}.", remedy=_LET_IN)
        case TimeoutError() if not why.args:
            return BusAway(f"{name} did not answer within {CONNECT_S:g} s.", remedy=start)
        case Failed():
            return BusAway(f"{name} {said}.", remedy=start)
        case _:
            return BusAway(f"{name} could not be reached: {said}.", remedy=_START)


def without_secrets(server: NatsServer, said: str) -> str:
    """What was said, without what opens the server."""
    said = said.strip("'. ") or "no reason given"
    for secret in (server.password, server.token, server.user):
        said = said.replace(secret, "…") if secret else said
    return said[:200]
