"""What a NATS server says, however it is cut, and whatever else comes instead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.adapters.bus.nats_protocol import Event, Info, Message, NotNats, Parser, Trouble, publish, subscribe

STREAM = (
    b'INFO {"version":"2.12.0"}\r\n+OK\r\nPING\r\nMSG a.b 1 5\r\nx\r\ny\n\r\nMSG a 2 in.1 0\r\n\r\n'
    b"HMSG in.1 3 16 16\r\nNATS/1.0 503\r\n\r\n\r\nHMSG c 3 b 12 15\r\nNATS/1.0\r\n\r\nabc\r\nPONG\r\n-ERR 'No Way'\r\n"
)
EVENTS: list[Event] = [
    Info({"version": "2.12.0"}),
    "+OK",
    "PING",
    Message("a.b", "", b"x\r\ny\n"),
    Message("a", "in.1", b""),
    Message("in.1", "", b"", b"NATS/1.0 503\r\n\r\n"),
    Message("c", "b", b"abc", b"NATS/1.0\r\n\r\n"),
    "PONG",
    Trouble("No Way"),
]
ALONE = [b"MSG a.b 1 5\r\nx\r\ny\n\r\n", b"MSG a 2 in.1 0\r\n\r\n", b"MSG a 2 in.1 3\r\nabc\r\n"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_a_stream_means_the_same_however_it_is_cut(cuts: list[int]) -> None:
    parser, at, events = Parser(), 0, list[Event]()
    for cut in (*sorted(cuts), len(STREAM)):
        events += parser.receive(STREAM[at:cut])
        at = cut
    assert events == EVENTS


PIECES = st.sampled_from(
    [b"MSG", b"HMSG", b"a.b", b"1", b"in.1", b"0", b"3", b"03", b"-2", b" ", b"\r\n", b"\t", b"xyz", b""]
)


@given(st.lists(PIECES, max_size=14).map(b"".join) | st.sampled_from(ALONE))
def test_a_message_that_comes_alone_is_what_it_is_among_others(data: bytes) -> None:
    alone = Parser().alone(data)
    if alone is not None:
        parser = Parser()
        assert list(parser.receive(data)) == [alone]
        assert list(parser.receive(b"PING\r\n")) == ["PING"]


@pytest.mark.parametrize("data", ALONE)
def test_a_message_that_comes_alone_is_seen(data: bytes) -> None:
    parser = Parser()
    assert parser.alone(data) is not None
    assert parser.alone(data + b"P") is None
    list(parser.receive(b"PI"))
    assert parser.alone(data) is None


@given(st.lists(st.binary() | st.sampled_from([b"MSG ", b"HMSG a 1 ", b"INFO {", b"\r\n", b"9", b" ", STREAM])))
def test_whatever_comes_is_read_or_refused(pieces: list[bytes]) -> None:
    parser = Parser()
    try:
        for piece in pieces:
            list(parser.receive(piece))
    except NotNats:
        pass


@pytest.mark.parametrize(
    "line",
    [
        b"HTTP/1.1 400 Bad Request",
        b"",
        b"MSG a 1",
        b"MSG a 1 -5",
        b"MSG a 1 999999999999",
        b"HMSG a 1 9 5",
        b"INFO []",
        b"INFO {",
        b"MSG a 1 1\r\nxyz",
    ],
)
def test_what_no_server_says_is_refused(line: bytes) -> None:
    with pytest.raises(NotNats):
        list(Parser().receive(line + b"\r\n"))


def test_what_a_server_is_told() -> None:
    assert publish("a", "in.1", b"xy") == b"PUB a in.1 2\r\nxy\r\n"
    assert subscribe("a", "one", 7) == b"SUB a one 7\r\n"
