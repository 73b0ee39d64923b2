"""Pushes to browsers: encrypted as RFC 8291 says, below the size that every push service takes."""

import json
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from orchestrator.adapters.messengers import Messengers
from orchestrator.adapters.web_push import encrypted, request_of, signing_key, subscription
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.ports import Message
from tests.harness.push_service import Subscriber, data_of, text
from tests.harness.receiver import Taken

ENDPOINT = "https://push.example.org/secret"
AT = datetime(2030, 1, 1, tzinfo=UTC)


def test_the_example_of_the_rfc_is_encrypted_as_there() -> None:
    """RFC 8291, appendix A."""
    p256dh = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
    to = subscription(ENDPOINT, f"{p256dh}.BTBZMqHH6r4Tts7J_aSIgg")
    own = int.from_bytes(data_of("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
    body = encrypted(
        b"When I grow up, I want to be a watermelon",
        to,
        ec.derive_private_key(own, ec.SECP256R1()),
        salt=data_of("DGv6ra1nlYgDCS1FRnbzlw"),
    )
    assert text(body) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3"
        "jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


@pytest.mark.parametrize("letter", ["x", '"', "\x01", "\u00e9", "\U0001f422"])
def test_a_long_message_is_shortened_to_what_every_service_takes(letter: str) -> None:
    """Whatever its letters are in JSON, and with the longest place on the page."""
    link = f"https://farm.example.org/#/computers/{'%f0%9f%90%a2' * 64}"
    event = {"text": letter * 2000, "details": letter * 3000, "link": link}
    message = Message("msg_" + "0" * 32, "", json.dumps({"events": [event]}).encode())
    browser = Subscriber()
    to = subscription(ENDPOINT, browser.address("").partition("#")[2])
    headers, body = request_of(to, message, signing_key("secret"), contact="mailto:a@example.org", at=AT)
    told = browser.opened(Taken("/", {one.lower(): value for one, value in headers.items()}, body))
    assert told["text"] == letter * 399 + "…"
    assert told["route"] == link.partition("#")[2]


def test_the_key_of_an_installation_is_that_of_all_its_nodes() -> None:
    """And of no other installation; without a secret there is none."""
    first, second, other = Messengers("a" * 64), Messengers("a" * 64), Messengers("b" * 64)
    assert first.push_key() == second.push_key() != other.push_key()
    assert Messengers().push_key() is None


@pytest.mark.parametrize(
    "address",
    [
        Subscriber().address("http://push.example.org/x"),
        Subscriber().address("https://127.0.0.1/x"),
        Subscriber().address("discord://a/b"),
        Subscriber().address("https:///x"),
        f"webpush:{ENDPOINT}",
        f"webpush:{ENDPOINT}#AAAA.{Subscriber().keys['auth']}",
        f"webpush:{ENDPOINT}#{Subscriber().keys['p256dh']}.AAAA",
        f"webpush:{ENDPOINT}#{Subscriber().keys['p256dh']}.!!!!",
    ],
)
async def test_what_is_no_subscription_at_a_public_https_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await Messengers("secret").check(address, trusted=False)
    assert "cannot go to this address" in refused.value.message
