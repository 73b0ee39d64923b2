"""The numbers that the docs promise are those of the code: whoever changes one changes the other."""

from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.computers.hub import admission, mirror
from orchestrator.runtime import logs
from orchestrator.terminal import meter as metering
from orchestrator.web import browsers, connections, events, oidc, peers, people, provider, reviewer, sockets, watch

DOCS = Path(__file__).parent.parent / "docs"
PROMISED = [
    ("protocol.md", "It ends with the token that it was given for, at `DELETE /v1/session`, 30 days after its last use",
     browsers.UNUSED, timedelta(days=30)),
    ("protocol.md", "(written down once an hour) and 90 days after it began", browsers.LONGEST, timedelta(days=90)),
    ("protocol.md", "A person has at most 20; the oldest makes room.", browsers.MOST, 20),
    ("protocol.md", "Ten wrong tokens within a minute from one address are answered with 429.",
     (peers.WRONG_TRIES, peers.WRONG_WITHIN_S), (10, 60)),
    ("protocol.md", "(`__Host-cc_oidc` by https; `HttpOnly`, `SameSite=Lax`, ten minutes)", oidc.ATTEMPT_LIFE,
     timedelta(minutes=10)),
    ("protocol.md", "RS256 or ES256, for this client, by this issuer, with this nonce, and within 30 s of the clock",
     (provider.ALGORITHMS, provider.SKEW_S), (("RS256", "ES256"), 30)),
    ("protocol.md", "ten unknown codes within a minute from one computer, or 100 from one address, a further",
     (peers.WRONG_TRIES, people.MOST_OF_ADDRESS), (10, 100)),
    ("protocol.md", "and each code from there waits 0.25 s", people.SLOW_S, 0.25),
    ("protocol.md", "one code is looked at 30 times a minute at most", people.MOST_OF_CODE, 30),
    ("protocol.md", "its body with all around it 4194304 bytes and 120 s",
     (connections.MAX_BODY_BYTES, connections.BODY_S), (4_194_304, 120)),
    ("protocol.md", "The head of a request has at most 65536 bytes (431 `head_too_large`) and 20 s",
     (connections.MAX_HEAD_BYTES, connections.HEAD_S), (65_536, 20)),
    ("protocol.md", "a head has 5 s and a body 10 s, and a body that comes in more than 4,000 pieces",
     (connections.UNKNOWN_HEAD_S, connections.UNKNOWN_BODY_S, connections.UNKNOWN_PIECES), (5, 10, 4_000)),
    ("protocol.md", "is not read (400); later it has 20,000", connections.MAX_PIECES, 20_000),
    ("protocol.md", "may do so 64 times in a row; then it gets 429 `too_many_at_once`", connections.MAX_PIPELINED, 64),
    ("protocol.md", "A connection has 500 requests a second, and 1000 at once after a pause",
     (connections.RATE, connections.BURST), (500, 1000)),
    ("protocol.md", "has 128 connections that sent no request for a second, and 512 that sent one without a token;",
     (peers.EACH, peers.SILENT_S, peers.EACH * peers.ACTIVE), (128, 1, 512)),
    ("protocol.md", "while the tokens of 256 others from the same address are still looked at",
     peers.EACH * peers.ACTIVE // 2, 256),
    ("protocol.md", "one token has 1024.", peers.OF_TOKEN, 1024),
    ("protocol.md", "A node accepts 250 computers each second, and 250 at once after a pause.",
     (admission.PER_S, admission.AT_ONCE), (250, 250)),
    ("protocol.md", "whole seconds, 60 at most, for each computer another time", admission.LONGEST_S, 60),
    ("operations.md", "A node accepts 250 of them each second", admission.PER_S, 250),
    ("protocol.md", "One token has 256 streams and sockets", sockets.MOST_OPEN, 256),
    ("operations.md", "to 65,536 at most. A quarter of it, 512 at most, is kept",
     (peers.MOST_FILES, peers.RESERVE), (65_536, 512)),
    ("protocol.md", "There are at most five a second for one task or computer", watch.APART_S, 1 / 5),
    ("protocol.md", "A comment comes every 15 s when nothing else does.", events.KEEP_ALIVE_S, 15),
    ("protocol.md", "of tasks' events, several are told together, at most 1 s later.",
     (events.apart_s(10), events.apart_s(11) > 0, events.apart_s(1000)), (0, True, 1.0)),
    ("protocol.md", "once 262144 bytes wait for them", reviewer.MOST_BEHIND, 262_144),
    ("protocol.md", "A reader for whom more than 1000 things wait is hung up on.", watch.MOST_WAITING, 1000),
    ("protocol.md", "(the server says 20), and each `watch` with the same number renews it (each 5 s)",
     (mirror.LEASE_S, mirror.RENEW_S), (20, 5)),
    ("protocol.md", "A computer has at most 8.", mirror.MAX_VIEWS, 8),
    ("watching.md", "A message has at most 20,000 characters.", logs.MAX_CHARS, 20_000),
    ("watching.md", "On a pipe a line comes on standard error every five seconds at most", metering.APART_S, 5),
]  # fmt: skip


@pytest.mark.parametrize(("page", "sentence", "number", "promised"), PROMISED, ids=[one[1] for one in PROMISED])
def test_a_number_of_the_docs_is_that_of_the_code(page: str, sentence: str, number: object, promised: object) -> None:
    assert sentence in " ".join((DOCS / page).read_text("utf-8").split())
    assert number == promised
