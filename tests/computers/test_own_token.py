"""What a computer says, without its token: parts of output, results, failures, and what is too long for the loop."""

import pytest

from orchestrator.computers.hub.session import Secrecy
from orchestrator.core.errors import ComputerFailed
from orchestrator.core.ports import CallResult
from orchestrator.core.ports.computers import OWN_TOKEN
from orchestrator.core.values import sha256_hex

TOKEN = "ccc_x0wyhSGuFe7tDxWXn3OrOHQv5JmQZ2aBk9LpE4rT8uY"
BARE = TOKEN.removeprefix("ccc_").encode()


def test_a_token_that_is_split_over_parts_of_the_output_is_starred_in_each() -> None:
    """The parts keep their lengths, and all else in them."""
    secrecy = Secrecy(TOKEN)
    assert secrecy.part(b"it is " + BARE[:20]) == b"it is " + b"*" * 20
    assert secrecy.part(BARE[20:23]) == b"***"
    assert secrecy.part(BARE[23:] + b" done \xff") == b"*" * 20 + b" done \xff"


async def test_what_a_program_printed_is_starred_and_a_file_keeps_its_bytes() -> None:
    """With the file go the pieces, for whoever makes a text of it; what has none is not even copied."""
    secrecy = Secrecy(TOKEN)
    printed = await secrecy.of_result(CallResult({"ended": "returned"}, b"x " + BARE))
    assert printed.body == b"x " + b"*" * 43
    read = await secrecy.of_result(CallResult({"size": 9}, BARE))
    assert (read.body, read.data[OWN_TOKEN]) == (BARE, [BARE.decode()])
    listed = await secrecy.of_result(CallResult({"path": BARE.decode()}, b""))
    assert listed.data[OWN_TOKEN] == [BARE.decode()]
    for plain in (CallResult({"ended": "returned"}, b"x"), CallResult({"size": 1}, b"x")):
        assert await secrecy.of_result(plain) is plain


async def test_a_file_that_is_read_again_is_looked_through_where_it_can_have_the_token() -> None:
    """Only the very bytes in which nothing was found are not looked through once more."""
    secrecy, clean, leaking = Secrecy(TOKEN), b"x " * 40, b"x " * 40 + BARE
    for body, pieces in ((clean, None), (clean, None), (leaking, [BARE.decode()]), (leaking, [BARE.decode()])):
        read = await secrecy.of_result(CallResult({"size": 1}, body, sha256_hex(body)))
        assert (read.body, read.data.get(OWN_TOKEN)) == (body, pieces)


async def test_a_computer_does_not_say_what_its_token_is() -> None:
    """What it calls so is taken for nothing."""
    said = await Secrecy(TOKEN).of_result(CallResult({OWN_TOKEN: ["local function"]}, b"local function"))
    assert said.data[OWN_TOKEN] == []


async def test_a_failure_is_told_without_it() -> None:
    """Its sentence, and what came with it."""
    secrecy = Secrecy(TOKEN)
    failed = ComputerFailed("program_error", f"p:1: {BARE.decode()}", {"ended": "error"}, b"out " + BARE)
    clean = await secrecy.of_failure(failed)
    assert (clean.reason, clean.message, clean.body) == ("program_error", f"p:1: {'*' * 43}", b"out " + b"*" * 43)
    plain = ComputerFailed("not_found", "There is no such file.")
    assert await secrecy.of_failure(plain) is plain


def test_labels_and_typed_lines_are_starred() -> None:
    """Any program sets a label, also to a piece of the token."""
    secrecy = Secrecy(TOKEN)
    assert secrecy.of_label(None) is None
    assert secrecy.of_label("farm " + BARE[8:30].decode()) == "farm " + "*" * 22
    assert secrecy.of_typed(b"do " + BARE[::-1]) == b"do " + b"*" * 43


@pytest.mark.parametrize("size", [10, 200_000])
async def test_a_long_body_is_looked_through_beside_the_loop(size: int) -> None:
    """With the same outcome."""
    read = await Secrecy(TOKEN).of_result(CallResult({}, b"x " * size + BARE))
    assert read.data[OWN_TOKEN] == [BARE.decode()]
