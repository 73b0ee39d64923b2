"""The computer channel's frames: each comes back as it was, golden ones decode for ever, garbage is refused."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from orchestrator.core.errors import FrameRefused
from orchestrator.core.wire import review, wire
from tests import TESTS

GOLDEN = TESTS / "golden" / "computer"
FRAMES = sorted(GOLDEN.glob("*.frame"))
EVERY_BYTE = bytes(range(256))
BODY = wire.whole(b"abc")
BIG_BYTES = b"x" * wire.MAX_BODY_BYTES + b"y" * 8
BIG = wire.whole(BIG_BYTES)
OUTPUT = BODY.model_copy(update={"offset": 7, "total": 10})

EXAMPLES: list[tuple[Any, bytes]] = [
    (
        wire.Hello(
            protocol=1,
            computer_id=3,
            label="farm \xff",
            host="ComputerCraft 1.113.1 (Minecraft 1.20.1)",
            family="turtle",
            boot="a1",
            client="0.1.0",
            capabilities=("fs_read", "guard"),
            highest=12,
            journal_seq=40,
            found_seq=38,
            calls=("run-1", "run-2"),
        ),
        b"",
    ),
    (wire.Ack(journal_seq=1, call_id="c.1"), b""),
    (
        wire.Result(journal_seq=2, call_id="c.1", ok=True, data={"n": 1, "s": "\x00", "b": True, "z": None}, body=BODY),
        b"abc",
    ),
    (wire.Result(journal_seq=2, call_id="c.1", ok=False, code="stale", message="it changed"), b""),
    (wire.CallRefused(journal_seq=3, call_id="c.1", code="busy"), b""),
    (wire.Settled(journal_seq=4, number=9, body=BODY), b"abc"),
    (wire.Chunk(journal_seq=4, call_id="c.1", body=BIG.model_copy(update={"offset": wire.MAX_BODY_BYTES})), b"y" * 8),
    (wire.ChunkAck(journal_seq=4, call_id="c.1", offset=wire.MAX_BODY_BYTES), b""),
    (wire.Output(journal_seq=4, call_id="c.1", body=OUTPUT), b"abc"),
    (wire.Desk(journal_seq=5, desk="59078cc7e7080f8b", verb="ask", body=BODY), b"abc"),
    (wire.Desk(journal_seq=5, desk="59078cc7e7080f8c", verb="watch", task="t-0a1b", after=7), b""),
    (
        wire.Picture(
            journal_seq=5,
            watch=7,
            n=1,
            whole=True,
            width=51,
            height=19,
            x=0,
            y=20,
            blink=True,
            palette="0" * 96,
            body=BODY,
        ),
        b"abc",
    ),
    (wire.Picture(journal_seq=5, watch=7, n=2, whole=False, width=162, height=81, x=1, y=1, blink=False), b""),
    (wire.Unseen(journal_seq=5, watch=7, message="There is no window."), b""),
    (wire.Screens(journal_seq=5, look=8, body=BODY), b"abc"),
    (wire.Keyed(journal_seq=5, keys=9, ok=False, code="unseen", message="no"), b""),
    (wire.Label(journal_seq=5, n=3, label="reactor 1"), b""),
    (wire.Pong(journal_seq=5, n=7), b""),
    (wire.Complaint(code="bad_frame", message="no", journal_seq=6, call_id="c.1"), b""),
    (wire.Welcome(number=12, computer="reactor"), b""),
    (wire.Welcome(number=12, computer="reactor", client=wire.Client(version="0.4.0", size=9, sha256="a" * 64)), b""),
    (wire.Refused(code="too_old", message="no", remedy="update"), b""),
    (wire.Call(call_id="c.1", task="t1", number=9, method="fs_write", params={"path": "a"}, body=BODY), b"abc"),
    (wire.Call(call_id="c.1", task="t1", number=9, method="fs_list", params={"path": "", "x": None}), b""),
    (
        wire.Call(call_id="c.1", task="t1", number=9, method="fs_write", params={"path": "a"}, body=BIG),
        BIG_BYTES[: wire.MAX_BODY_BYTES],
    ),
    (wire.Chunk(call_id="c.1", body=BIG.model_copy(update={"offset": wire.MAX_BODY_BYTES})), b"y" * 8),
    (wire.ChunkAck(call_id="c.1", offset=wire.MAX_BODY_BYTES), b""),
    (wire.Settle(number=9, call_ids=("c.1", "c.2")), b""),
    (wire.ResultAck(call_id="c.1", number=9), b""),
    (wire.LabelKept(n=3), b""),
    (wire.Told(desk="59078cc7e7080f8b", ok=True, done=False, task="t-0a1b", version=4, body=BODY), b"abc"),
    (wire.Told(desk="59078cc7e7080f8b", ok=False, done=True, code="busy", message="later"), b""),
    (wire.Watch(watch=7, of="monitor_0", lease_s=20, heard=2), b""),
    (wire.Look(look=8), b""),
    (wire.Keys(keys=9, body=BODY), b"abc"),
    (wire.Ping(n=1), b""),
]
FROM_COMPUTER = {
    *("hello", "ack", "result", "call_refused", "settled", "chunk", "chunk_ack", "output", "desk"),
    *("picture", "unseen", "screens", "keyed", "label", "pong", "error"),
}


PICTURE = {
    **{"type": "picture", "journal_seq": 1, "watch": 1, "n": 1, "whole": True, "width": 3, "height": 1},
    **{"x": 1, "y": 1, "blink": False},
}


def types_of(union: Any) -> set[str]:
    """The message types of a union."""
    return {model.model_fields["type"].default for model in get_args(get_args(union)[0])}


def header(frame: bytes) -> dict[str, Any]:
    """A frame's header as any JSON reader sees it."""
    found: dict[str, Any] = json.loads(frame.partition(b"\n")[0])
    return found


def frame(raw: bytes = b"", /, **fields: Any) -> bytes:
    """A frame with any header."""
    return json.dumps(fields).encode() + b"\n" + raw


def refused(data: bytes, words: str) -> FrameRefused:
    """The refusal of a frame, by both readers."""
    with pytest.raises(FrameRefused, match=words):
        wire.decode_any(data)
    with pytest.raises(FrameRefused, match=words) as caught:
        wire.decode(data)
    return caught.value


# -- every message ------------------------------------------------------------------------


@pytest.mark.parametrize(("message", "body"), EXAMPLES, ids=lambda value: getattr(value, "type", ""))
def test_every_message_comes_back_as_it_was(message: Any, body: bytes) -> None:
    """One line of ASCII JSON, a newline and the raw body, within the limits, decode to the same value."""
    data = wire.encode(message, body)
    line, newline, rest = data.partition(b"\n")
    assert (newline, rest) == (b"\n", body)
    assert line.isascii()
    assert wire.decode_any(data) == (message, body)
    if message.type in FROM_COMPUTER:
        assert wire.decode(data) == (message, body)
    else:
        with pytest.raises(FrameRefused, match="does not match any of the expected tags"):
            wire.decode(data)


def test_the_examples_and_the_golden_files_leave_no_message_out() -> None:
    """Each type of both directions is tried above and has a golden file that Python and Lua both read."""
    every = types_of(wire.Message)
    assert types_of(wire.FromComputer) | types_of(wire.ToComputer) == every
    assert types_of(wire.FromComputer) == FROM_COMPUTER
    assert {message.type for message, _ in EXAMPLES} == every
    assert {header(path.read_bytes())["type"] for path in FRAMES} == every


@pytest.mark.parametrize("path", FRAMES, ids=lambda path: path.stem)
def test_a_golden_frame_is_read_for_ever(path: Path) -> None:
    """It decodes whole: every field of its header and every byte of its body are in the value."""
    data = path.read_bytes()
    message, body = wire.decode_any(data)
    assert body == data.partition(b"\n")[2]
    sent = header(data)
    assert message.model_dump(mode="json", exclude_unset=True) == sent
    assert header(wire.encode(message, body)) | sent == header(wire.encode(message, body))
    if message.type in FROM_COMPUTER:
        assert wire.decode(data) == (message, body)


def test_a_golden_name_has_every_byte() -> None:
    """The golden hello carries a label with all bytes from 0 to 255, and they all arrive."""
    message, _ = wire.decode((GOLDEN / "hello.frame").read_bytes())
    assert set(EVERY_BYTE) <= set(message.label.encode("latin-1"))


def test_the_golden_settled_calls() -> None:
    """Each state that a settled call can have is in the golden body."""
    _, body = wire.decode((GOLDEN / "settled.frame").read_bytes())
    calls = wire.decode_settled(body)
    assert {one.state for one in calls} == {"finished", "running", "interrupted", "unknown", "void"}
    assert (calls[0].ok, calls[0].code, calls[1].ok, calls[1].code) == (True, None, False, "stale")


# -- strings and bodies -------------------------------------------------------------------


def test_every_byte_survives_a_header_string() -> None:
    """Bytes 0 to 255 in a label go as ASCII and come back one by one."""
    label = EVERY_BYTE.decode("latin-1")
    hello = EXAMPLES[0][0].model_copy(update={"label": label})
    data = wire.encode(hello)
    assert data.isascii()
    assert data.count(b"\n") == 1
    assert wire.decode(data)[0].label == label


@given(st.binary(max_size=300))
def test_every_body_survives(body: bytes) -> None:
    """A body is raw bytes: newlines, zeros and anything else."""
    message = wire.Result(journal_seq=1, call_id="c", ok=True, body=wire.whole(body))
    assert wire.decode(wire.encode(message, body)) == (message, body)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_survives_as_a_byte_string(text: str) -> None:
    """Text goes as the bytes of its UTF-8, one character each, and comes back."""
    sent = wire.to_wire(text)
    assert all(char <= "\xff" for char in sent)
    assert wire.from_wire(sent) == text


def test_bytes_that_are_no_utf8_are_read_as_latin1() -> None:
    """A name of the game that is no UTF-8 keeps its bytes; half a surrogate is sent, not refused."""
    assert wire.from_wire("caf\xe9") == "caf\xe9"
    assert wire.from_wire("caf\xc3\xa9") == "caf\xe9"
    assert wire.to_wire("\ud800") == "\xed\xa0\x80"


def test_a_body_is_described_whole() -> None:
    """Offset, length and sha256 of the bytes, as both sides write them."""
    assert wire.whole(b"abc") == wire.Body(
        offset=0, total=3, sha256="ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
    assert wire.sha256_hex(b"abc") == BODY.sha256


def test_the_byte_127_is_escaped() -> None:
    """A header has no byte but the printable ones: JSON itself would let this one through."""
    data = wire.encode(wire.Complaint(code="c", message="a\x7fb"))
    assert b"a\\u007fb" in data
    assert wire.decode(data)[0].message == "a\x7fb"


def test_what_is_none_is_not_sent() -> None:
    """Optional fields that say nothing are left out of the header: the client's reader is small."""
    assert header(wire.encode(wire.Complaint(code="c", message="m"))) == {"type": "error", "code": "c", "message": "m"}


# -- limits -------------------------------------------------------------------------------


def test_the_header_has_a_limit_both_ways() -> None:
    """4096 bytes of header pass; one more is refused when it is written and when it is read."""
    empty = len(wire.encode(wire.Call(call_id="c", task="t", number=1, method="m", params={"p": ""}))) - 1
    fits = wire.Call(call_id="c", task="t", number=1, method="m", params={"p": "x" * (wire.MAX_HEADER_BYTES - empty)})
    data = wire.encode(fits)
    assert data.index(b"\n") == wire.MAX_HEADER_BYTES
    assert wire.decode_any(data)[0] == fits
    longer = fits.model_copy(update={"params": {"p": "x" * (wire.MAX_HEADER_BYTES - empty + 1)}})
    with pytest.raises(FrameRefused, match="header has 4097 bytes, over 4096") as caught:
        wire.encode(longer)
    assert caught.value.remedy
    refused(data.replace(b'"p":"', b'"p":"x'), "no header line within 4096 bytes")


def test_the_body_has_a_limit_both_ways() -> None:
    """48 KiB of body pass; one more byte is refused when it is written and when it is read."""
    for size, fits in ((wire.MAX_BODY_BYTES, True), (wire.MAX_BODY_BYTES + 1, False)):
        body = b"x" * size
        message = wire.Result(journal_seq=1, call_id="c", ok=True, body=wire.whole(body))
        if fits:
            assert wire.decode(wire.encode(message, body))[1] == body
        else:
            with pytest.raises(FrameRefused, match=f"body has {size} bytes") as caught:
                wire.encode(message, body)
            assert caught.value.remedy
    refused(b"x" * (wire.MAX_FRAME_BYTES + 1), f"over {wire.MAX_FRAME_BYTES}")


def test_the_limits_are_those_of_the_protocol() -> None:
    """Numbers that the Lua client has too: changing one is changing the protocol."""
    assert (wire.PROTOCOL_VERSION, wire.MAX_HEADER_BYTES, wire.MAX_BODY_BYTES) == (1, 4096, 49152)
    assert (wire.MAX_WHOLE_BYTES, wire.WINDOW_FRAMES, wire.MAX_OUTPUT_BYTES) == (2097152, 8, 4096)
    assert (wire.MAX_OPEN_CALLS, wire.MAX_UNACKNOWLEDGED, wire.MAX_CALL_ID_CHARS) == (8, 64, 24)
    assert wire.COMPUTER_SUBPROTOCOL == "cc-orchestrator.v1"
    assert review.REVIEWER_SUBPROTOCOL == "cc-orchestrator.review.v1"
    assert review.REVIEWER_SUBPROTOCOL_1_1 == "cc-orchestrator.review.v1.1"
    assert wire.PING_EVERY_S * 2 < wire.SILENCE_S


# -- garbage ------------------------------------------------------------------------------

PONG: dict[str, Any] = {"type": "pong", "journal_seq": 1, "n": 1}
HELLO = EXAMPLES[0][0].model_dump(mode="json")
CHUNK: dict[str, Any] = {"type": "chunk", "call_id": "c"}
RESULT: dict[str, Any] = {"type": "result", "journal_seq": 1, "call_id": "c", "ok": True}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no header line"),
        (b"\n", "cannot be read"),
        (b"{}", "no header line"),
        (b"{}\n", "type"),
        (b"[]\n", "cannot be read"),
        (b"\xff\xfe\n", "outside ASCII"),
        ('{"type":"pong","journal_seq":1,"n":1,"x":"é"}\n'.encode(), "outside ASCII"),
        (b"x" * 5000 + b"\n", "no header line"),
        (b'{"type":"pong"\n"journal_seq":1,"n":1}', "cannot be read"),
        (b'{"type":"pong","journal_seq":1,"n":1} {}\n', "cannot be read"),
        (b"[" * 4000 + b"\n", "cannot be read"),
        (b'{"type":' * 500 + b"\n", "cannot be read"),
        (b'{"type":"pong","journal_seq":NaN,"n":1}\n', "cannot be read"),
        (frame(type="dream"), "cannot be read"),
        (frame(**{**PONG, "colour": "red"}), "colour"),
        (frame(**{**PONG, "n": "1"}), "n: "),
        (frame(**{**PONG, "n": 1.0}), "n: "),
        (frame(**{**PONG, "n": True}), "n: "),
        (frame(**{**PONG, "n": -1}), "n: "),
        (frame(**{**PONG, "n": 10**13 + 1}), "n: "),
        (frame(**{**PONG, "n": 10**400}), "cannot be read"),
        (frame(type="pong", n=1), "journal_seq: Field required"),
        (frame(**{**HELLO, "family": "cow"}), "family"),
        (frame(**{**HELLO, "label": "x" * 257}), "label"),
        (frame(**{**HELLO, "label": "\u0100"}), "label"),
        (frame(**{**HELLO, "calls": ["a b"]}), "calls"),
        (frame(**{**HELLO, "calls": ["x" * 25]}), "calls"),
        (frame(**{**HELLO, "calls": ["a\n"]}), "calls"),
        (frame(**{**HELLO, "calls": ["c"] * 73}), "calls"),
        (frame(**{**RESULT, "call_id": ""}), "call_id"),
        (frame(**{**RESULT, "ok": 1}), "ok"),
        (frame(**{**RESULT, "data": {"a": [1]}}), "data.a"),
        (frame(**{**RESULT, "data": {"a": 0.5}}), "data.a"),
        (frame(**{**RESULT, "data": {"a": "\u0100"}}), "data.a"),
        (frame(**{**RESULT, "message": "x" * 513}), "message"),
        (b'{"type":"result","journal_seq":1,"call_id":"c","ok":true,"message":"\\ud800"}\n', "cannot be read"),
        (frame(b"x", **PONG), "carries 1 bytes that its header does not name"),
        (frame(b"x", **RESULT), "carries 1 bytes"),
        (frame(b"abd", **RESULT, body=BODY.model_dump()), "sha256"),
        (frame(b"ab", **RESULT, body=BODY.model_dump()), "does not fit the place"),
        (frame(b"abcd", **RESULT, body=BODY.model_dump()), "does not fit the place"),
        (frame(b"abc", **RESULT, body={**BODY.model_dump(), "offset": 1}), "does not fit the place"),
        (frame(b"abc", **RESULT, body={**BODY.model_dump(), "sha256": "A" * 64}), "body.sha256"),
        (frame(b"abc", **RESULT, body=3), "body"),
        (frame(type="settled", journal_seq=1, number=1), "body: Field required"),
        (frame(**CHUNK), "body: Field required"),
        (frame(b"x" * 8, **CHUNK, body={**BIG.model_dump(), "offset": 8}), "does not fit the place"),
        (frame(b"x" * 9, **CHUNK, body={**BIG.model_dump(), "offset": 49152}), "does not fit the place"),
        (frame(b"", **CHUNK, body={**BIG.model_dump(), "offset": 10**6}), "does not fit the place"),
        (frame(b"abc", **CHUNK, body=BODY.model_dump()), "does not fit the place"),
        (frame(b"x", **CHUNK, body={**BIG.model_dump(), "total": 2**21 + 1}), "2097153 bytes, over 2097152"),
        (frame(b"x", **RESULT, body=BIG.model_dump()), "does not fit the place"),
        (frame(BIG_BYTES[:49152], **{**RESULT, "body": {**BIG.model_dump(), "offset": 49152}}), "does not fit"),
        (frame(b"x" * 49152, type="settled", journal_seq=1, number=1, body=BIG.model_dump()), "does not fit the place"),
        (frame(b"abc", type="output", journal_seq=1, call_id="c", body={**OUTPUT.model_dump(), "offset": 6}), "fit"),
        (frame(b"abd", type="output", journal_seq=1, call_id="c", body=OUTPUT.model_dump()), "sha256"),
        (
            frame(b"x" * 4097, type="output", journal_seq=1, call_id="c", body=wire.whole(b"x" * 4097).model_dump()),
            "fit",
        ),
        (frame(b"x" * 4097, **PICTURE, body=wire.whole(b"x" * 4097).model_dump()), "does not fit the place"),
        (frame(b"abc", **PICTURE, body={**BODY.model_dump(), "offset": 1}), "does not fit the place"),
        (frame(**{**PICTURE, "width": 163}), "less than or equal to 162"),
        (frame(**{**PICTURE, "height": 82}), "less than or equal to 81"),
        (frame(**{**PICTURE, "width": 0}), "greater than or equal to 1"),
        (frame(**PICTURE, palette="f" * 95), "palette"),
    ],
)
def test_garbage_is_refused_with_a_sentence(data: bytes, words: str) -> None:
    """No frame that breaks the protocol comes through, and none raises anything but FrameRefused."""
    assert len(refused(data, words).message) < 5000


@given(st.binary(max_size=200) | st.builds(lambda head, body: head + b"\n" + body, st.binary(), st.binary()))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    """Whatever arrives: a message or FrameRefused, nothing else."""
    try:
        message: object = wire.decode_any(data)[0]
    except FrameRefused as refusal:
        message = refusal
    assert isinstance(message, BaseModel) or str(message)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[5]",
        b"\xff",
        b'[{"call_id":"c","state":"dreaming"}]',
        b'[{"call_id":"c d","state":"void"}]',
        b'[{"call_id":"c","state":"void","x":1}]',
        b'[{"call_id":"c","state":"finished","ok":1}]',
        b'[{"call_id":"c"}]',
    ],
)
def test_settled_calls_that_cannot_be_read_are_refused(body: bytes) -> None:
    """The body of a settled message is as strict as a header."""
    with pytest.raises(FrameRefused, match="settled calls cannot be read"):
        wire.decode_settled(body)


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'[{"width":1}]', b'[{"width":1,"height":-1}]', b'[{"width":1,"height":1,"x":1}]', b"[" + b"[]," * 65],
)
def test_screens_that_cannot_be_read_are_refused(body: bytes) -> None:
    """The body of a screens message is as strict as a header, and no longer than it may be."""
    with pytest.raises(FrameRefused, match="screens cannot be read"):
        wire.decode_screens(body)


def test_screens_are_read() -> None:
    """The golden ones: the terminal has no name; there are at most 64."""
    _, body = wire.decode((GOLDEN / "screens.frame").read_bytes())
    assert [(one.of, one.width, one.height) for one in wire.decode_screens(body)] == [(None, 51, 19), ("left", 18, 12)]
    many = b"[" + b",".join([b'{"width":1,"height":1}'] * 65) + b"]"
    with pytest.raises(FrameRefused, match="screens cannot be read"):
        wire.decode_screens(many)


def test_messages_are_frozen() -> None:
    """What was received cannot be changed on its way."""
    with pytest.raises(ValidationError, match="frozen"):
        EXAMPLES[1][0].call_id = "other"


@given(
    call_id=st.from_regex(r"[A-Za-z0-9_.-]{1,24}", fullmatch=True),
    task=st.text(st.characters(max_codepoint=255), max_size=40),
    number=st.integers(0, 10**13),
    method=st.sampled_from(["fs_read", "shell", "\x7f", '"']),
    params=st.dictionaries(
        st.text(st.characters(max_codepoint=300), max_size=8),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8")),
        max_size=3,
    ),
)
def test_the_short_way_to_a_call_writes_the_same_frame(
    call_id: str, task: str, number: int, method: str, params: dict[str, Any]
) -> None:
    """`call` and `result_ack` make byte for byte the frames of `encode`."""
    message = wire.Call(call_id=call_id, task=task, number=number, method=method, params=params)
    assert wire.call(call_id, task, number, method, params) == wire.encode(message)
    assert wire.result_ack(call_id, number) == wire.encode(wire.ResultAck(call_id=call_id, number=number))


def test_the_short_way_refuses_what_the_models_refuse() -> None:
    """Ids with other characters, numbers out of range, arguments over a header: the same errors."""
    for call_id, number in (("a b", 1), ("", 1), ("x" * 25, 1), ('"', 1), ("c.1", -1), ("c.1", 10**13 + 1)):
        with pytest.raises(ValidationError):
            wire.call(call_id, "t", number, "shell", {})
        with pytest.raises(ValidationError):
            wire.result_ack(call_id, number)
    for task, method in (("x" * 257, "shell"), ("t", "x" * 33), ("\u0100", "shell")):
        with pytest.raises(ValidationError):
            wire.call("c.1", task, 1, method, {})
    with pytest.raises(FrameRefused):
        wire.call("c.1", "t", 1, "shell", {"command": "x" * 5000})
    message = wire.Call(call_id="c.1", task="t", number=1, method="shell", params={"command": "x" * 3000})
    assert wire.call("c.1", "t", 1, "shell", message.params) == wire.encode(message)
