"""The keys by which a computer knows that a client comes from the server that it was paired with.

Theory. Each store has one secret, which never leaves it. A computer's key is derived from that and from the hash of its
token, so that every node can tell it and none has to keep it. It goes over the wire once, with the token, and never
again; the token does with each connection, and so is no key. What is signed names the boot that is welcomed: an
offer that was overheard is worth nothing to the next one.
"""

import hashlib
import hmac

from orchestrator.core.wire.messages import Client


def key_of(secret: str, token_hash: str) -> str:
    """The key of the computer with this token, as text of 64 characters."""
    return _hmac(secret, f"computer {token_hash}")


def signed(client: Client, key: str, boot: str) -> Client:
    """The client as it is offered to a computer that said hello with this boot."""
    said = f"cc-orchestrator client\n{client.version}\n{client.size}\n{client.sha256}\n{boot}"
    return client.model_copy(update={"mac": _hmac(key, said)})


def _hmac(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
