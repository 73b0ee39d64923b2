"""One connection of one computer: the order of messages, complaints and their limit, and the timers."""

from typing import Any

import pytest

from orchestrator.core.errors import FrameRefused
from orchestrator.core.wire import link_events as events
from orchestrator.core.wire import wire
from orchestrator.core.wire.link import LINK_TABLE, MAX_COMPLAINTS, MAX_UNTAKEN, ComputerLink, LinkState
from orchestrator.core.wire.link_events import MAX_PARTIAL, Outbox
from orchestrator.core.wire.wire import RunId

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
BIG = b"x" * wire.MAX_BODY_BYTES + b"tail"
TAIL = wire.whole(BIG).model_copy(update={"offset": wire.MAX_BODY_BYTES})
DESK = wire.Desk(journal_seq=44, desk="d1", verb="ask", body=wire.whole(b"fix it"))
PICTURE = wire.Picture(
    journal_seq=44, watch=7, n=2, whole=False, width=51, height=19, x=1, y=1, blink=True, palette=None
)
UNSEEN = wire.Unseen(journal_seq=44, watch=7, message="There is no window.")
SCREENS = wire.Screens(journal_seq=44, look=8, body=wire.whole(b"[]"))
KEYED = wire.Keyed(journal_seq=44, keys=9, ok=True)
PRINTED = wire.whole(b"ho").model_copy(update={"offset": 5, "total": 7})
FRAMES: dict[str, bytes] = {
    "hello": wire.encode(HELLO),
    "ack": wire.encode(wire.Ack(journal_seq=41, call_id="c.1")),
    "result": wire.encode(wire.Result(journal_seq=42, call_id="c.1", ok=True, body=wire.whole(b"abc")), b"abc"),
    "call_refused": wire.encode(wire.CallRefused(journal_seq=43, call_id="c.1", code="busy", message="caf\xc3\xa9")),
    "settled": wire.encode(wire.Settled(journal_seq=44, number=9, body=wire.whole(BODY)), BODY),
    "chunk": wire.encode(wire.Chunk(journal_seq=44, call_id="c.9", body=TAIL), b"tail"),
    "chunk_ack": wire.encode(wire.ChunkAck(journal_seq=44, call_id="c.9", offset=wire.MAX_BODY_BYTES)),
    "output": wire.encode(wire.Output(journal_seq=44, call_id="c.1", body=PRINTED), b"ho"),
    "desk": wire.encode(DESK, b"fix it"),
    "picture": wire.encode(PICTURE),
    "unseen": wire.encode(UNSEEN),
    "screens": wire.encode(SCREENS, b"[]"),
    "keyed": wire.encode(KEYED),
    "label": wire.encode(wire.Label(journal_seq=42, n=3, label="reactor")),
    "pong": wire.encode(wire.Pong(journal_seq=45, n=1)),
    "error": wire.encode(wire.Complaint(code="bad_frame", message="caf\xc3\xa9", call_id="c.1")),
}
GARBAGE = b"garbage"


def link_in(state: LinkState, now: float = 0.0, *capabilities: str) -> ComputerLink:
    """A link that got so far; nothing is outgoing."""
    link = ComputerLink(now)
    if state in (LinkState.JUDGING, LinkState.READY):
        link.receive(wire.encode(HELLO.model_copy(update={"capabilities": capabilities})), now)
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
    LinkState.READY: dict.fromkeys(
        [
            *("ack", "result", "call_refused", "settled", "chunk", "chunk_ack", "output", "desk"),
            *("picture", "unseen", "screens", "keyed", "label", "pong", "error"),
        ],
        LinkState.READY,
    ),
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
        answers = ["chunk_ack"] if kind == "chunk" else []
        assert (link.state, [one.type for one in sent(link)]) == (target, answers)


def test_a_hello_is_told() -> None:
    """The hello comes out whole and is kept; its journal_seq does not count before the welcome."""
    link = ComputerLink(0.0)
    assert link.receive(FRAMES["hello"], 0.0) == [events.Greeted(HELLO)]
    assert (link.hello, link.journal_seq) == (HELLO, 0)


def test_what_each_message_means() -> None:
    """Finished with its body, declined, settled, complained; an ack and a pong mean only that it lives."""
    link = link_in(LinkState.READY)
    run_id = RunId("c.1")
    result = wire.Result(journal_seq=42, call_id="c.1", ok=True, body=wire.whole(b"abc"))
    meaning: dict[str, list[Any]] = {
        "ack": [],
        "result": [events.Finished(run_id, result, b"abc")],
        "call_refused": [events.Declined(run_id, "busy", "caf\xe9")],
        "settled": [events.SettledAll(9, (wire.SettledCall(call_id="c.1", state="void"),))],
        "chunk": [],
        "chunk_ack": [],
        "output": [events.Output(run_id, 5, b"ho")],
        "desk": [events.DeskAsked(DESK, b"fix it")],
        "picture": [events.Mirrored(PICTURE, b"")],
        "unseen": [events.Mirrored(UNSEEN, b"")],
        "screens": [events.Mirrored(SCREENS, b"[]")],
        "keyed": [events.Mirrored(KEYED, b"")],
        "label": [events.Labelled(3, "reactor")],
        "pong": [],
        "error": [events.Complained("bad_frame", "caf\xe9", run_id)],
    }
    for kind, expected in meaning.items():
        assert link.receive(FRAMES[kind], 1.0) == expected
    bare = wire.encode(wire.Complaint(code="c", message="m"))
    assert link.receive(bare, 1.0) == [events.Complained("c", "m", None)]


def test_a_broken_body_is_a_broken_frame_in_every_state() -> None:
    """Before the order is looked at; only a result that could have come is lost by it."""
    broken = wire.encode(wire.Result(journal_seq=42, call_id="c.1", ok=True, body=wire.whole(b"abd")), b"abc")
    link = link_in(LinkState.GREETING)
    assert link.receive(broken, 1.0) == []
    assert [(one.code, one.call_id) for one in sent(link)] == [("bad_frame", None)]
    assert link.journal_seq == 0


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


@pytest.mark.parametrize("state", list(LinkState))
def test_only_who_is_welcome_is_told_something(state: LinkState) -> None:
    """An answer to a player goes out with its body; to a computer that is not welcome, or gone, nothing does."""
    link = link_in(state)
    told = wire.Told(desk="d1", ok=True, done=True, body=wire.whole(b"[]"))
    link.tell(told, b"[]")
    frames = [wire.decode_any(frame) for frame in link.outgoing()]
    assert frames == ([(told, b"[]")] if state is LinkState.READY else [])


def test_E4_a_call_that_does_not_fit_is_not_queued() -> None:
    """Too large a header or body raises before anything is written."""
    link = link_in(LinkState.READY)
    call: dict[str, Any] = {"run_id": RunId("c.1"), "task_id": "t", "number": 1, "method": "fs_write"}
    with pytest.raises(FrameRefused, match="header"):
        link.call(**call, params={"path": "x" * 5000})
    with pytest.raises(FrameRefused, match="takes 49152 at most") as caught:
        link.call(**call, params={}, body=b"x" * (wire.MAX_BODY_BYTES + 1))
    assert "Install the client on it again" in caught.value.remedy
    with pytest.raises(FrameRefused, match="takes 49152 at most"):
        ComputerLink(0.0).call(**call, params={}, body=BIG)
    new = link_in(LinkState.READY, 0.0, "chunks")
    with pytest.raises(FrameRefused, match="over 2097152"):
        new.call(**call, params={}, body=b"x" * (wire.MAX_WHOLE_BYTES + 1))
    with pytest.raises(FrameRefused, match="header"):
        new.call(**call, params={"path": "x" * 5000}, body=BIG)
    assert (link.outgoing(), new.outgoing()) == ([], [])


@pytest.mark.parametrize(
    ("method", "params", "capability"),
    [
        ("peripheral_call", {"name": "left", "method": "list", "timeout_s": 30}, "peripheral_call"),
        ("run_program", {"path": "a", "if_hash": "a" * 64, "timeout_s": 9, "input_size": 1}, wire.INPUT),
        ("run_program", {"path": "a", "if_hash": "a" * 64, "timeout_s": 9, "observe_s": 1}, wire.OBSERVE),
        ("screen", {"of": "program"}, wire.SCREEN_OF),
    ],
)
def test_what_an_older_client_does_not_have_is_not_sent_to_it(
    method: str, params: dict[str, Any], capability: str
) -> None:
    """Nothing goes out, and the sentence says to update the client; to one that names the capability it goes."""
    call: dict[str, Any] = {"run_id": RunId("r"), "task_id": "t", "number": 1, "method": method, "params": params}
    for old in (link_in(LinkState.READY, 0.0, "chunks"), ComputerLink(0.0)):
        with pytest.raises(FrameRefused, match="too old for this: it was not sent") as caught:
            old.call(**call)
        assert "install it again" in caught.value.remedy
        assert old.outgoing() == []
    new = link_in(LinkState.READY, 0.0, capability)
    new.call(**call, body=b"[]y")
    assert len(new.outgoing()) == 1


def test_a_refusal_closes_the_link_after_its_frame() -> None:
    """The computer hears why and what to do, shortened to what a header holds; then nothing counts any more."""
    link = link_in(LinkState.JUDGING)
    link.refuse(code="too_old", message="é" * 400, remedy="update")
    (frame,) = sent(link)
    assert (frame.code, len(frame.message), frame.remedy) == ("too_old", 512, "update")
    assert link.state is LinkState.CLOSED


def test_a_client_is_offered_only_to_a_computer_that_replaces_its_own() -> None:
    """An older client refuses a welcome that names one, so it hears of none."""
    offer = wire.Client(version="0.4.0", size=9, sha256="a" * 64)
    for capabilities, told in (((wire.UPDATE,), offer), (("chunks",), None)):
        link = link_in(LinkState.JUDGING, 0.0, *capabilities)
        link.welcome(number=13, computer="reactor", client=offer)
        (welcome,) = sent(link)
        assert welcome.client == told


def test_labels_are_wanted_only_of_a_computer_that_tells_them() -> None:
    """An older client refuses a welcome that says so; who is not welcome yet is told nothing of labels."""
    for capabilities, wanted in (((wire.LABELS,), True), (("chunks",), None)):
        link = link_in(LinkState.JUDGING, 0.0, *capabilities)
        link.keep_labels(1)
        link.welcome(number=13, computer="reactor")
        link.keep_labels(2)
        welcome, kept = sent(link)
        assert (welcome.labels, kept) == (wanted, wire.LabelKept(n=2))


def test_only_a_computer_that_dials_cells_is_told_of_one() -> None:
    """An older client refuses a message that names one, in a welcome and where it is served elsewhere."""
    place = wire.Cell(name="west", url="wss://west.example.org/computer")
    for capabilities, told in (((wire.CELLS,), place), ((), None)):
        link = ComputerLink(0.0)
        link.receive(wire.encode(HELLO.model_copy(update={"capabilities": capabilities})), 0.0)
        link.welcome(number=13, computer="reactor", cell=place)
        assert sent(link)[0].cell == told
        link.refuse(code="moved", message="m", remedy="r", cell=place)
        assert sent(link)[0].cell == told
    early = ComputerLink(0.0)
    early.refuse(code="moved", message="m", remedy="r", cell=place)
    assert sent(early)[0].cell is None


def test_a_closed_link_is_closed_for_good() -> None:
    """It takes nothing, ticks nothing, wants no timer, and no late welcome opens it again."""
    link = link_in(LinkState.CLOSED)
    for frame in FRAMES.values():
        assert link.receive(frame, 1.0) == []
    assert link.receive(GARBAGE, 1.0) == []
    link.welcome(number=1, computer="reactor")
    assert (link.tick(1000.0), link.next_timer(), link.state) == ([], None, LinkState.CLOSED)
    assert link.outgoing() == []


# -- bodies in parts ----------------------------------------------------------------------


def calling(link: ComputerLink, run_id: str, body: bytes) -> bool:
    """Queue a call with a body."""
    return link.call(run_id=RunId(run_id), task_id="t", number=9, method="fs_write", params={"path": "a"}, body=body)


def took(link: ComputerLink, run_id: str, offset: int = 0) -> list[Any]:
    """The computer acknowledges a frame."""
    return link.receive(wire.encode(wire.ChunkAck(journal_seq=41, call_id=run_id, offset=offset)), 1.0)


def answer_in_parts(run_id: str, body: bytes, **changes: Any) -> list[bytes]:
    """The frames of a result with a body in parts."""
    described = wire.whole(body).model_copy(update=changes)
    size = wire.MAX_BODY_BYTES
    result = wire.Result(journal_seq=42, call_id=run_id, ok=True, data={"size": len(body)}, body=described)
    frames = [wire.encode(result, body[:size])]
    for offset in range(size, len(body), size):
        chunk = wire.Chunk(journal_seq=42, call_id=run_id, body=described.model_copy(update={"offset": offset}))
        frames.append(wire.encode(chunk, body[offset : offset + size]))
    return frames


def test_a_large_call_goes_in_parts_under_the_window() -> None:
    """Its message with the first part, then chunks in order; eight unacknowledged at most; the rest follows acks."""
    link = link_in(LinkState.READY, 0.0, "chunks")
    body = bytes(range(256)) * (wire.MAX_BODY_BYTES // 256) * 10 + b"tail"
    assert calling(link, "c.1", body)
    frames = link.outgoing()
    assert len(frames) == wire.WINDOW_FRAMES
    assert not link.has_outgoing()
    assert link.handed() == []
    for _ in range(3):
        assert took(link, "c.1") == [events.Moved()]
        assert link.has_outgoing()
        frames += link.outgoing()
    assert link.handed() == [RunId("c.1")]
    assert link.handed() == []
    messages = [wire.decode_any(frame) for frame in frames]
    assert [one.type for one, _ in messages] == ["call"] + ["chunk"] * 10
    assert b"".join(part for _, part in messages) == body
    assert [one.body.offset for one, _ in messages] == [wire.MAX_BODY_BYTES * number for number in range(11)]
    assert {one.body.sha256 for one, _ in messages} == {wire.sha256_hex(body)}
    assert {one.journal_seq for one, _ in messages[1:]} == {None}


def test_bodies_go_one_after_the_other_and_small_messages_overtake() -> None:
    """A second large call waits for the first; a settle or a small call does not."""
    link = link_in(LinkState.READY, 0.0, "chunks")
    calling(link, "c.1", BIG)
    calling(link, "c.2", BIG)
    first = link.next_frame()
    assert not calling(link, "c.3", b"small")
    link.settle(number=17, run_ids=[RunId("c.8")])
    assert link.has_outgoing()
    order = [wire.decode_any(frame)[0] for frame in [first or b"", *link.outgoing()]]
    named = [(one.type, getattr(one, "call_id", "")) for one in order]
    assert named == [
        ("call", "c.1"), ("call", "c.3"), ("settle", ""), ("chunk", "c.1"), ("call", "c.2"), ("chunk", "c.2"),
    ]  # fmt: skip
    assert link.handed() == [RunId("c.1"), RunId("c.2")]


def test_an_acknowledgement_frees_one_frame_of_its_call_and_a_stray_one_nothing() -> None:
    """Whatever a computer acknowledges, no more than the window is ever under way."""
    link = link_in(LinkState.READY, 0.0, "chunks")
    assert took(link, "c.1") == []
    calling(link, "c.1", b"x" * wire.MAX_BODY_BYTES * 9)
    assert len(link.outgoing()) == 8
    assert took(link, "c.2", 10**6) == []
    assert link.outgoing() == []
    took(link, "c.1", 10**6)
    assert len(link.outgoing()) == 1
    for _ in range(8):
        assert took(link, "c.1")
    assert took(link, "c.1") == []


@pytest.mark.parametrize("how", ["drop", "settle", "complaint", "refusal", "result"])
def test_of_a_call_that_is_over_no_more_is_sent_and_the_window_stays_right(how: str) -> None:
    """Frames under way stay counted until they are acknowledged; the next call uses what is free."""
    link = link_in(LinkState.READY, 0.0, "chunks")
    calling(link, "c.1", b"x" * wire.MAX_BODY_BYTES * 20)
    assert len(link.outgoing()) == 8
    calling(link, "c.2", b"y" * wire.MAX_BODY_BYTES * 20)
    if how == "drop":
        link.drop(RunId("c.1"))
    elif how == "settle":
        link.settle(number=9, run_ids=[RunId("c.1")])
        assert [one.type for one in sent(link)] == ["settle"]
    else:
        link.receive(FRAMES[{"complaint": "error", "refusal": "call_refused", "result": "result"}[how]], 1.0)
    assert link.outgoing() == []
    took(link, "c.1")
    (only,) = sent(link)
    assert (only.type, only.call_id) == ("call", "c.2")
    for _ in range(7):
        took(link, "c.1")
    assert [(one.type, one.call_id) for one in sent(link)] == [("chunk", "c.2")] * 7
    assert link.handed() == []


def test_an_outbox_has_a_body_until_its_last_frame_is_acknowledged() -> None:
    """Queued, under way, and gone."""
    box, run_id = Outbox(), RunId("c.1")
    result = wire.Result(journal_seq=7, call_id=run_id, ok=True, body=wire.whole(BIG))
    box.add(result, BIG)
    assert box.has(run_id)
    frames = [box.next_frame(), box.next_frame()]
    assert box.next_frame() is None
    assert [wire.decode(frame or b"")[0].journal_seq for frame in frames] == [7, 7]
    assert box.has(run_id)
    box.acknowledged(run_id)
    box.acknowledged(run_id)
    assert not box.has(run_id)


def test_a_closed_link_sends_no_more_parts() -> None:
    """What is half sent when a connection ends was never started."""
    link = link_in(LinkState.READY, 0.0, "chunks")
    calling(link, "c.1", BIG)
    link.close()
    assert not link.has_outgoing()
    assert link.outgoing() == []


def test_a_large_result_is_put_together() -> None:
    """Each part is acknowledged with the bytes that are there; with the last one the call is finished."""
    link = link_in(LinkState.READY)
    body = b"a" * wire.MAX_BODY_BYTES + b"b" * wire.MAX_BODY_BYTES + b"c"
    first, second, last = answer_in_parts("c.1", body)
    assert link.receive(first, 1.0) == [events.Coming(RunId("c.1"))]
    assert sent(link) == [wire.ChunkAck(call_id="c.1", offset=49152)]
    assert link.receive(second, 1.0) == [events.Coming(RunId("c.1"))]
    assert link.receiving(RunId("c.1"))
    assert not link.receiving(RunId("c.2"))
    (finished,) = link.receive(last, 1.0)
    assert isinstance(finished, events.Finished)
    assert (finished.run_id, finished.result.data, finished.body) == (RunId("c.1"), {"size": len(body)}, body)
    assert [one.offset for one in sent(link)] == [98304, len(body)]
    assert link.receive(last, 1.0) == []
    assert [one.type for one in sent(link)] == ["chunk_ack"]


def test_a_result_that_is_said_again_begins_again() -> None:
    """A settle may ask for a result that was half sent; whole and small, it ends what was half here."""
    link = link_in(LinkState.READY)
    first, last = answer_in_parts("c.1", BIG)
    link.receive(first, 1.0)
    link.receive(first, 1.0)
    (finished,) = link.receive(last, 1.0)
    assert isinstance(finished, events.Finished)
    assert finished.body == BIG
    link.receive(first, 1.0)
    assert isinstance(link.receive(FRAMES["result"], 1.0)[0], events.Finished)
    assert link.receive(last, 1.0) == []


def lost(link: ComputerLink, frame: bytes) -> None:
    """The frame loses the outcome of c.1: its window moves, the complaint names it."""
    (event,) = link.receive(frame, 1.0)
    assert isinstance(event, events.Lost)
    assert event.run_id == "c.1"
    *_, complaint = sent(link)
    assert (complaint.type, complaint.code, complaint.call_id) == ("error", "bad_frame", "c.1")
    assert complaint.message in event.reason


def test_a_result_with_a_gap_or_an_overlap_is_lost() -> None:
    """What is left of it belongs to nothing then: acknowledged, and no further complaint."""
    for broken in ("gap", "overlap", "other"):
        link = link_in(LinkState.READY)
        frames = answer_in_parts("c.1", b"x" * wire.MAX_BODY_BYTES * 4)
        other = answer_in_parts("c.1", b"y" * wire.MAX_BODY_BYTES * 4)
        link.receive(frames[0], 1.0)
        link.receive(frames[1], 1.0)
        lost(link, {"gap": frames[3], "overlap": frames[1], "other": other[2]}[broken])
        assert link.receive(frames[2], 1.0) == []
        assert [one.type for one in sent(link)] == ["chunk_ack"]


def test_a_result_whose_sha256_is_wrong_is_lost() -> None:
    """In parts or in one frame: the complaint names the call, and its wait can end."""
    link = link_in(LinkState.READY)
    first, last = answer_in_parts("c.1", BIG, sha256="0" * 64)
    assert link.receive(first, 1.0) == [events.Coming(RunId("c.1"))]
    lost(link, last)
    whole = wire.Result(journal_seq=42, call_id="c.1", ok=True, body=wire.whole(b"abd"))
    lost(link, wire.encode(whole, b"abc"))
    lost(link, wire.encode(wire.Result(journal_seq=42, call_id="c.1", ok=True), b"abc"))


def test_a_part_that_is_not_full_loses_its_result() -> None:
    """The rule that each part but the last is full is the sender's to keep; its window moves all the same."""
    link = link_in(LinkState.READY)
    result = wire.Result(journal_seq=42, call_id="c.1", ok=True, body=wire.whole(BIG))
    (event,) = link.receive(wire.encode(result, b"short"), 1.0)
    assert isinstance(event, events.Lost)
    assert [one.type for one in sent(link)] == ["chunk_ack", "error"]
    link.receive(answer_in_parts("c.1", BIG)[0], 1.0)
    lost(link, wire.encode(wire.Chunk(journal_seq=42, call_id="c.1", body=TAIL), b"ta"))


def test_broken_output_is_complained_about_and_loses_nothing() -> None:
    """A hint is only a hint: the complaint names the call, and its wait goes on."""
    link = link_in(LinkState.READY)
    assert link.receive(wire.encode(wire.Output(journal_seq=44, call_id="c.1", body=PRINTED), b"no"), 1.0) == []
    (complaint,) = sent(link)
    assert (complaint.code, complaint.call_id) == ("bad_frame", "c.1")


def test_at_most_eight_results_are_half_here() -> None:
    """A ninth is lost and can be asked for again; the eight go on."""
    link = link_in(LinkState.READY)
    for number in range(2, MAX_PARTIAL + 2):
        assert link.receive(answer_in_parts(f"c.{number}", BIG)[0], 1.0) == [events.Coming(RunId(f"c.{number}"))]
    lost(link, answer_in_parts("c.1", BIG)[0])
    assert isinstance(link.receive(answer_in_parts("c.2", BIG)[1], 1.0)[0], events.Finished)


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


def test_a_ping_every_45_seconds() -> None:
    """Numbered from 1, not before its time, and again after the next 45."""
    link = link_in(LinkState.READY, 100.0)
    assert link.next_timer() == 145.0
    assert link.tick(144.9) == []
    assert sent(link) == []
    assert link.tick(145.0) == []
    assert sent(link) == [wire.Ping(n=1)]
    assert link.tick(145.0) == []
    assert sent(link) == []
    link.receive(FRAMES["pong"], 146.0)
    assert link.next_timer() == 190.0
    assert link.tick(190.0) == []
    assert sent(link) == [wire.Ping(n=2)]


def test_while_a_program_runs_the_time_of_the_game_is_asked_for() -> None:
    """Every five seconds, of a computer that can tell it; its answer is told, also of the one that shows life."""
    link = ComputerLink(100.0)
    link.receive(wire.encode(HELLO.model_copy(update={"capabilities": (wire.CLOCK,)})), 100.0)
    link.welcome(number=7, computer="farm")
    link.outgoing()
    link.hurry(on=True)
    assert link.next_timer() == 105.0
    assert link.tick(105.0) == []
    assert sent(link) == [wire.Ping(n=1, clock=True)]
    pong = wire.Pong(journal_seq=46, n=1, clock_ms=2050)
    assert link.receive(wire.encode(pong), 105.0) == [events.Ticked(2050)]
    link.probe(106.0)
    pong = wire.Pong(journal_seq=46, n=2, clock_ms=3050)
    assert link.receive(wire.encode(pong), 106.0) == [events.Alive(), events.Ticked(3050)]
    link.hurry(on=False)
    assert link.next_timer() == 151.0


def test_a_computer_that_tells_where_it_stands_is_asked_with_each_ping() -> None:
    """Fuel and place are told, of either one alone too; a pong with neither says nothing."""
    link = link_in(LinkState.READY, 100.0, wire.WHERE)
    link.tick(145.0)
    assert sent(link) == [wire.Ping(n=1, where=True)]
    pong = wire.Pong(journal_seq=46, n=1, fuel=-1, fuel_limit=20_000)
    assert link.receive(wire.encode(pong), 146.0) == [events.Stands(-1, 20_000, None, 0)]
    pong = wire.Pong(journal_seq=46, n=1, at=(-12, 64, 3), at_age_s=90)
    assert link.receive(wire.encode(pong), 146.0) == [events.Stands(None, None, (-12, 64, 3), 90)]
    assert link.receive(FRAMES["pong"], 146.0) == []


def test_a_silent_computer_is_gone_after_two_pings() -> None:
    """Counted from the last frame; pings of ours do not count as life, a broken frame does."""
    link = link_in(LinkState.READY, 100.0)
    link.receive(GARBAGE, 110.0)
    for now in (145.0, 190.0):
        assert link.tick(now) == []
    assert link.next_timer() == 210.0
    assert link.tick(209.9) == []
    assert link.tick(210.0) == [events.Ended("The computer said nothing for 100 s.")]
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


def test_a_computer_that_takes_no_answers_is_given_up() -> None:
    """What waits to be written has an end: a flood of what has to be answered does not fill the memory."""
    link = link_in(LinkState.READY)
    last = wire.whole(b"x" * (wire.MAX_BODY_BYTES + 1)).model_copy(update={"offset": wire.MAX_BODY_BYTES})
    part = wire.encode(wire.Chunk(journal_seq=42, call_id="c.1", body=last), b"x")
    for _ in range(MAX_UNTAKEN + 1):
        assert link.receive(part, 1.0) == []
    assert link.receive(part, 1.0) == [events.Ended("The computer does not take its answers.")]
    assert link.state is LinkState.CLOSED
    assert len(link.outgoing()) == MAX_UNTAKEN + 1


def test_frames_are_handed_out_until_they_are_enough() -> None:
    """Small ones all at once, and of a body in parts no more than the size asks for."""
    link = link_in(LinkState.READY)
    link.hello = HELLO.model_copy(update={"capabilities": (wire.CHUNKS,)})
    assert link.next_frames(1000) == []
    assert link.call(
        run_id=RunId("c.1"), task_id="t", number=9, method="fs_write", params={}, body=b"x" * wire.MAX_BODY_BYTES * 3
    )
    for number in (1, 2, 3):
        link.acknowledge(run_id=RunId("c.2"), number=number)
    small, large = link.next_frames(10), link.next_frames(wire.MAX_BODY_BYTES + 10_000)
    assert [wire.decode_any(frame)[0].type for frame in small] == ["result_ack"] * 3
    assert [wire.decode_any(frame)[0].type for frame in large] == ["call", "chunk"]
    assert [wire.decode_any(frame)[0].type for frame in link.next_frames(10**6)] == ["chunk"]
    assert link.next_frames(10**6) == []


def test_a_probe_is_answered_by_its_own_pong_alone() -> None:
    """`Alive` is told for the answer to the last probe; another pong, or another frame, is no sign."""
    link = link_in(LinkState.READY)
    assert link.receive(FRAMES["pong"], 0.5) == []
    link.probe(1.0)
    (ping,) = sent(link)
    assert link.receive(wire.encode(wire.Pong(journal_seq=46, n=ping.n + 1)), 1.0) == []
    assert link.receive(FRAMES["ack"], 1.0) == []
    assert link.receive(wire.encode(wire.Pong(journal_seq=46, n=ping.n)), 1.0) == [events.Alive()]
    assert link.next_timer() == 1.0 + wire.PING_EVERY_S


@pytest.mark.parametrize("state", [LinkState.GREETING, LinkState.JUDGING, LinkState.CLOSED])
def test_only_who_is_welcome_is_probed(state: LinkState) -> None:
    """Before the welcome, and after the end, there is nobody to ask."""
    link = link_in(state)
    link.probe(1.0)
    assert sent(link) == []


def test_a_welcome_computer_can_be_turned_away() -> None:
    """What it hears is why; then the link is over."""
    link = link_in(LinkState.READY)
    link.refuse(code="frozen", message="Two live.", remedy="Decide.")
    (refused,) = sent(link)
    assert (refused.code, link.state) == ("frozen", LinkState.CLOSED)


def test_an_idle_computer_costs_one_frame_in_45_seconds_at_most_in_each_direction() -> None:
    """An hour: each side hears the other often enough to know that it lives, and no oftener than the budget."""
    link, now, down, up = link_in(LinkState.READY), 0.0, list[float](), list[float]()
    while now < 3600.0:
        timer = link.next_timer()
        assert timer is not None
        now = timer
        assert link.tick(now) == []
        for ping in sent(link):
            assert ping.type == "ping"
            down.append(now)
            up.append(now + 0.05)
            assert link.receive(wire.encode(wire.Pong(journal_seq=46, n=ping.n)), now + 0.05) == []
    for times in (down, up):
        assert len(times) <= 3600 / 45
        gaps = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
        assert round(min(gaps), 6) >= 45.0
        assert max(gaps) < wire.SILENCE_S / 2
