"""The keys of updates: another for each token, and a signature for each boot."""

import hashlib
import hmac

from orchestrator.core.audit.shared import UPDATES, told_of
from orchestrator.core.wire.identity import key_of, signed
from orchestrator.core.wire.messages import Client

CLIENT = Client(version="1.2.3", size=7, sha256="ab" * 32)


def test_a_key_is_of_one_store_and_one_token() -> None:
    keys = {key_of(secret, token) for secret in ("s1", "s2") for token in ("t1", "t2")}
    assert len(keys) == 4
    assert {len(one) for one in keys} == {64}
    assert key_of("s1", "t1") == hmac.new(b"s1", b"computer t1", "sha256").hexdigest()


def test_a_signature_is_of_the_client_and_of_one_boot() -> None:
    said = f"cc-orchestrator client\n1.2.3\n7\n{'ab' * 32}\nb1"
    one = signed(CLIENT, "key", "b1")
    assert one.mac == hmac.new(b"key", said.encode(), "sha256").hexdigest()
    others = [signed(CLIENT, "key", "b2"), signed(CLIENT, "other", "b1")]
    others += [signed(CLIENT.model_copy(update=change), "key", "b1") for change in ({"version": "2"}, {"size": 8})]
    assert len({one.mac, *(other.mac for other in others)}) == 5


def test_an_item_has_the_hash_of_a_secret_and_the_text_of_anything_else() -> None:
    assert told_of("installation", "i-1") == "i-1"
    assert told_of(UPDATES, "secret") == hashlib.sha256(b"secret").hexdigest()
