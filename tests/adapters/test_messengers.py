"""Where webhooks of people may go: which addresses are public, and that the one that was looked at is the one used."""

import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters import messengers
from orchestrator.adapters.messengers import Messengers, is_public
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.ports import Message
from tests.certificates import Authority
from tests.harness.receiver import receiving
from tests.servers import free_port

AT = datetime(2030, 1, 1, tzinfo=UTC)
MESSAGE = Message("msg_1", "text", b"{}")
KEY = Messengers().new_key()


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822", "::ffff:8.8.8.8"])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
        ),
        *("255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1", "fec0::1", "ff02::1", "2001:db8::1"),
        *(
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::a00:1",
            "2002:7f00:1::",
            "2001:0:7f00:1::1",
        ),
    ],
)
def test_an_address_of_this_host_or_its_networks_is_not(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///etc/passwd", "file: is not a webhook. Everybody may use https: URLs"),
        ("mailtos://u:p@m.example.org", "only admins may use other services"),
        ("http://::1/", "An IPv6 address is written in brackets: http://[::1]/…"),
        ("https://fe80::1", "An IPv6 address is written in brackets: https://[fe80::1]/…"),
        ("https://h.example.org:99999/", "Its host or port cannot be read."),
    ],
)
async def test_an_address_that_is_refused_is_told_what_to_use(url: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await Messengers().check(url, trusted=False)
    assert words in refused.value.message


@pytest.mark.parametrize("private", [True, False])
async def test_why_nobody_answers_is_said_in_words(private: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is not there, and an address at which nothing listens."""
    monkeypatch.setattr(messengers, "is_public", lambda _: True)
    port = free_port()
    for address, why in {
        "nowhere.invalid": "The name nowhere.invalid was not found.",
        f"localhost:{port}": f"Nobody listens at localhost:{port}.",
    }.items():
        assert await Messengers().send(f"http://{address}/x", KEY, MESSAGE, at=AT, private=private) == why


async def test_a_name_that_leads_inside_is_not_asked() -> None:
    async with receiving() as receiver:
        url = f"http://localhost:{receiver.port}/x"
        why = await Messengers().send(url, KEY, MESSAGE, at=AT, private=False)
        assert "localhost leads to an address that is not public" in why
        assert receiver.most_at_once == 0
        assert await Messengers().send(url, KEY, MESSAGE, at=AT, private=True) == ""


async def test_the_address_that_was_looked_at_gets_the_message_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection goes to the address, and certificate and ``Host`` are those of the name."""
    authority = Authority(tmp_path)
    trusting = ssl.create_default_context(cafile=str(authority.file))
    monkeypatch.setattr(messengers, "_tls", lambda: trusting)
    monkeypatch.setattr(messengers, "is_public", lambda address: address == "127.0.0.1")
    async with receiving(tls=authority.vouch("hooks.test")) as receiver:
        looked: list[str] = []
        real = socket.getaddrinfo

        def look_up(host: Any, *args: Any, **named: Any) -> Any:
            looked.append(host if isinstance(host, str) else host.decode())
            return real("127.0.0.1" if looked[-1].endswith(".test") else host, *args, **named)

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        url = f"https://hooks.test:{receiver.port}/x"
        assert await Messengers().send(url, KEY, MESSAGE, at=AT, private=False) == ""
        (taken,) = receiver.taken
        assert (looked.count("hooks.test"), taken.headers["host"]) == (1, f"hooks.test:{receiver.port}")
        assert taken.is_signed(KEY)
        other = f"https://other.test:{receiver.port}/x"
        assert "other.test cannot be reached: its certificate" in await Messengers().send(
            other, KEY, MESSAGE, at=AT, private=False
        )


async def test_a_receiver_is_left_when_its_time_is_over_and_its_answer_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messengers, "SEND_S", 0.2)
    async with receiving(lambda _: "") as receiver:
        why = await Messengers().send(receiver.url, KEY, MESSAGE, at=AT, private=True)
        assert why == "127.0.0.1 did not answer within 0 s."
    async with receiving(lambda _: "200 OK\r\nContent-Length: 10000000000") as receiver:
        assert await Messengers().send(receiver.url, KEY, MESSAGE, at=AT, private=True) == ""
