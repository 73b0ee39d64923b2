"""One connection of one computer: the order of messages, complaints and their limit, and the timers."""

from typing import Any

import pytest

from orchestrator.core import link as events
from orchestrator.core import wire
from orchestrator.core.errors import FrameRefused
from orchestrator.core.link import LINK_TABLE, MAX_COMPLAINTS, ComputerLink, LinkState
from orchestrator.core.wire import RunId

HELLO = wire.Hello(
    protocol=1,
    computer_id=3,
    host="ComputerCraft 1.113.1",
    family="computer",
    boot="b1",
    client="0.1.0",
    highest=12,
    journal_seq=40,
)
BODY = b'[{"call_id":"c.1","state":"void"}]'
FRAMES: dict[str, bytes] = {
    "hello": wire.encode(HELLO),
    "ack": wire.encode(wire.Ack(journal_seq=41, call_id="c.1")),
    "result": wire.encode(wire.Result(journal_seq=42, call_id="c.1", ok=True, body=wire.whole(b"abc")), b"abc"),
    "call_refused": wire.encode(wire.CallRefused(journal_seq=43, call_id="c.1", code="busy", message="caf\xc3\xa9")),
    "settled": wire.encode(wire.Settled(journal_seq=44, number=9, body=wire.whole(BODY)), BODY),
    "pong": wire.encode(wire.Pong(journal_seq=45, n=1)),
    "error": wire.encode(wire.Complaint(code="bad_frame", message="caf\xc3\xa9", call_id="c.1")),
}
GARBAGE = b"garbage"


def link_in(state: LinkState, now: float = 0.0) -> ComputerLink:
    """A link that got so far; nothing is outgoing."""
    link = ComputerLink(now)
    if state in (LinkState.JUDGING, LinkState.READY):
        link.receive(FRAMES["hello"], now)
    if state is LinkState.READY:
        link.welcome(number=13, computer="reactor")
    if state is LinkState.CLOSED:
        link.close()
    link.outgoing()
    assert link.state is state
    return link


def sent(link: ComputerLink) -> list[Any]:
    """What the link wants to write, decoded."""
    return [wire.decode_any(frame)[0] for frame in link.outgoing()]


# -- order --------------------------------------------------------------------------------

MAY_COME = {
    LinkState.GREETING: {"hello": LinkState.JUDGING, "error": LinkState.GREETING},
    LinkState.JUDGING: {"error": LinkState.JUDGING},
    LinkState.READY: dict.fromkeys(["ack", "result", "call_refused", "settled", "pong", "error"], LinkState.READY),
}


@pytest.mark.parametrize("state", [LinkState.GREETING, LinkState.JUDGING, LinkState.READY])
@pytest.mark.parametrize("kind", FRAMES)
def test_every_message_in_every_state(state: LinkState, kind: str) -> None:
    """What may come is taken without an answer; anything else is answered with an error and the link lives."""
    link = link_in(state)
    got = link.receive(FRAMES[kind], 1.0)
    target = MAY_COME[state].get(kind)
    assert LINK_TABLE[state].get(kind) is target
    if target is None:
        (complaint,) = sent(link)
        assert (got, link.state, complaint.code) == ([], state, "out_of_order")
        assert complaint.message == f"A {kind} cannot come while the link is {state.value}."
    else:
        assert (link.state, sent(link)) == (target, [])


def test_a_hello_is_told() -> None:
    """The hello comes out whole, is kept, and its journal_seq is the first that was heard."""
    link = ComputerLink(0.0)
    assert link.receive(FRAMES["hello"], 0.0) == [events.Greeted(HELLO)]
    assert (link.hello, link.journal_seq) == (HELLO, 40)


def test_what_each_message_means() -> None:
    """Taken, finished with its body, declined, settled, complained; a pong means only that it lives."""
    link = link_in(LinkState.READY)
    run_id = RunId("c.1")
    result = wire.Result(journal_seq=42, call_id="c.1", ok=True, body=wire.whole(b"abc"))
    meaning: dict[str, list[Any]] = {
        "ack": [events.Taken(run_id)],
        "result": [events.Finished(run_id, result, b"abc")],
        "call_refused": [events.Declined(run_id, "busy", "caf\xe9")],
        "settled": [events.SettledAll(9, (wire.SettledCall(call_id="c.1", state="void"),))],
        "pong": [],
        "error": [events.Complained("bad_frame", "caf\xe9", run_id)],
    }
    for kind, expected in meaning.items():
        assert link.receive(FRAMES[kind], 1.0) == expected
    bare = wire.encode(wire.Complaint(code="c", message="m"))
    assert link.receive(bare, 1.0) == [events.Complained("c", "m", None)]


def test_the_highest_journal_seq_is_kept() -> None:
    """It only rises, whatever comes, and messages without one leave it."""
    link = link_in(LinkState.READY)
    for kind, seq in (("result", 42), ("ack", 42), ("error", 42), ("pong", 45)):
        link.receive(FRAMES[kind], 1.0)
        assert link.journal_seq == seq


def test_a_settled_body_that_cannot_be_read_is_complained_about() -> None:
    """The header was right and the body is not: an error, and nothing is settled."""
    link = link_in(LinkState.READY)
    broken = wire.encode(wire.Settled(journal_seq=44, number=9, body=wire.whole(b"[5]")), b"[5]")
    assert link.receive(broken, 1.0) == []
    assert [one.code for one in sent(link)] == ["bad_frame"]


# -- what is sent -------------------------------------------------------------------------


def test_what_the_orchestrator_says() -> None:
    """Welcome, calls with and without a body, settle and acknowledgements go out once, in order."""
    link = link_in(LinkState.JUDGING)
    link.welcome(number=13, computer="r\xe9actor")
    link.call(run_id=RunId("c.1"), task_id="t1", number=14, method="fs_write", params={"path": "a"}, body=b"abc")
    link.call(run_id=RunId("c.2"), task_id="t1", number=15, method="fs_list", params={"path": ""})
    link.call(run_id=RunId("c.3"), task_id="t1", number=16, method="fs_write", params={}, body=b"")
    link.settle(number=17, run_ids=[RunId("c.1"), RunId("c.2")])
    link.acknowledge(run_id=RunId("c.1"), number=18)
    frames = link.outgoing()
    assert link.outgoing() == []
    messages = [wire.decode_any(frame) for frame in frames]
    assert messages[0][0] == wire.Welcome(number=13, computer="r\xc3\xa9actor")
    assert messages[1] == (
        wire.Call(
            call_id="c.1", task="t1", number=14, method="fs_write", params={"path": "a"}, body=wire.whole(b"abc")
        ),
        b"abc",
    )
    assert (messages[2][0].body, messages[2][1]) == (None, b"")
    assert messages[3][0].body == wire.whole(b"")
    assert messages[4][0] == wire.Settle(number=17, call_ids=("c.1", "c.2"))
    assert messages[5][0] == wire.ResultAck(call_id="c.1", number=18)


def test_E4_a_call_that_does_not_fit_is_not_queued() -> None:
    """Too large a header or body raises before anything is written."""
    link = link_in(LinkState.READY)
    call: dict[str, Any] = {"run_id": RunId("c.1"), "task_id": "t", "number": 1, "method": "fs_write"}
    with pytest.raises(FrameRefused, match="header"):
        link.call(**call, params={"path": "x" * 5000})
    with pytest.raises(FrameRefused, match="body"):
        link.call(**call, params={}, body=b"x" * (wire.MAX_BODY_BYTES + 1))
    assert link.outgoing() == []


def test_a_refusal_closes_the_link_after_its_frame() -> None:
    """The computer hears why and what to do, shortened to what a header holds; then nothing counts any more."""
    link = link_in(LinkState.JUDGING)
    link.refuse(code="too_old", message="é" * 400, remedy="update")
    (frame,) = sent(link)
    assert (frame.code, len(frame.message), frame.remedy) == ("too_old", 512, "update")
    assert link.state is LinkState.CLOSED


def test_a_closed_link_is_closed_for_good() -> None:
    """It takes nothing, ticks nothing, wants no timer, and no late welcome opens it again."""
    link = link_in(LinkState.CLOSED)
    for frame in FRAMES.values():
        assert link.receive(frame, 1.0) == []
    assert link.receive(GARBAGE, 1.0) == []
    link.welcome(number=1, computer="reactor")
    assert (link.tick(1000.0), link.next_timer(), link.state) == ([], None, LinkState.CLOSED)
    assert link.outgoing() == []


# -- complaints ---------------------------------------------------------------------------


@pytest.mark.parametrize("state", [LinkState.GREETING, LinkState.JUDGING, LinkState.READY])
def test_broken_frames_are_answered_up_to_a_limit(state: LinkState) -> None:
    """Garbage, text and messages out of order count together; one over the limit ends the link with the reason."""
    link = link_in(state)
    broken: list[bytes | str] = [GARBAGE, "text", FRAMES["hello"] if state is not LinkState.GREETING else FRAMES["ack"]]
    for number in range(MAX_COMPLAINTS):
        assert link.receive(broken[number % 3], 1.0) == []
        (complaint,) = sent(link)
        assert complaint.code == ["bad_frame", "bad_frame", "out_of_order"][number % 3]
        assert link.state is state
    (ended,) = link.receive(GARBAGE, 1.0)
    assert isinstance(ended, events.Ended)
    assert ended.reason.startswith("Too many broken frames; the last: The frame has no header line")
    assert link.state is LinkState.CLOSED
    assert len(sent(link)) == 1


def test_a_frame_over_the_limit_ends_the_link() -> None:
    """The first one: nobody sends 52 kB by accident, and the next might be larger."""
    link = link_in(LinkState.READY)
    (ended,) = link.receive(b"x" * (wire.MAX_FRAME_BYTES + 1), 1.0)
    assert isinstance(ended, events.Ended)
    assert [one.code for one in sent(link)] == ["frame_too_large"]
    assert link.state is LinkState.CLOSED
    fits = link_in(LinkState.READY)
    assert fits.receive(b"x" * wire.MAX_FRAME_BYTES, 1.0) == []
    assert [one.code for one in sent(fits)] == ["bad_frame"]


def test_text_is_told_to_be_binary() -> None:
    """A text frame, even with a good header, is answered with what to do."""
    link = link_in(LinkState.READY)
    assert link.receive(FRAMES["pong"].decode(), 1.0) == []
    (complaint,) = sent(link)
    assert complaint.message == "The frame is text. Send binary frames."


def test_a_long_complaint_fits_its_header() -> None:
    """What the reader says of a hostile frame is cut so that the answer can always be sent."""
    link = link_in(LinkState.READY)
    link.receive(b'{"type":"pong","journal_seq":1,"n":1,"%s":1}\n' % (b"\\u00ff" * 600), 1.0)
    (complaint,) = sent(link)
    assert len(complaint.message) <= 512


# -- timers -------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [LinkState.GREETING, LinkState.JUDGING])
def test_a_stranger_has_fifteen_seconds_to_be_welcomed(state: LinkState) -> None:
    """Counted from the opening, whatever comes in between; on the second the link ends."""
    link = link_in(state, 100.0)
    assert link.next_timer() == 115.0
    link.receive(FRAMES["error"], 110.0)
    assert link.next_timer() == 115.0
    assert link.tick(114.9) == []
    missing = "hello" if state is LinkState.GREETING else "welcome"
    assert link.tick(115.0) == [events.Ended(f"No {missing} within 15 s.")]
    assert link.state is LinkState.CLOSED
    assert link.outgoing() == []


def test_a_ping_every_twenty_seconds() -> None:
    """Numbered from 1, not before its time, and again after the next twenty."""
    link = link_in(LinkState.READY, 100.0)
    assert link.next_timer() == 120.0
    assert link.tick(119.9) == []
    assert sent(link) == []
    assert link.tick(120.0) == []
    assert sent(link) == [wire.Ping(n=1)]
    assert link.tick(120.0) == []
    assert sent(link) == []
    link.receive(FRAMES["pong"], 121.0)
    assert link.next_timer() == 140.0
    assert link.tick(140.0) == []
    assert sent(link) == [wire.Ping(n=2)]


def test_a_silent_computer_is_gone_after_forty_five_seconds() -> None:
    """Counted from the last frame; pings of ours do not count as life, a broken frame does."""
    link = link_in(LinkState.READY, 100.0)
    link.receive(GARBAGE, 110.0)
    for now in (120.0, 140.0):
        assert link.tick(now) == []
    assert link.next_timer() == 155.0
    assert link.tick(154.9) == []
    assert link.tick(155.0) == [events.Ended("The computer said nothing for 45 s.")]
    assert link.next_timer() is None


def test_a_computer_that_answers_stays() -> None:
    """With a pong for each ping the link lives on."""
    link = link_in(LinkState.READY)
    for number in range(1, 20):
        now = number * wire.PING_EVERY_S
        assert link.tick(now) == []
        assert sent(link) == [wire.Ping(n=number)]
        assert link.receive(wire.encode(wire.Pong(journal_seq=1, n=number)), now + 1) == []
    assert link.state is LinkState.READY
