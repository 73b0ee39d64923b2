"""Thousands of computers that dial at once: so many come in each second, and each of the others is told when to."""

import asyncio
import json
from collections import Counter
from heapq import heappop, heappush
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from orchestrator.computers.hub.admission import AT_ONCE, LONGEST_S, PER_S, Admission
from orchestrator.testing.stub_computer import StubComputer
from tests.harness.support import dialed, stubs_connected
from tests.harness.whole_server import running


def test_five_thousand_that_do_as_they_are_told_come_in_evenly_within_half_a_minute() -> None:
    """Hardly one of them is told twice, and in no second more come in than the rate and what was saved up."""
    admission, came, told = Admission(), Counter[int](), 0
    dials = [(100.0, number) for number in range(5000)]
    while dials:
        now, number = heappop(dials)
        wait_s = admission.wait_s(now)
        if wait_s:
            told += 1
            heappush(dials, (now + wait_s - 1 + 2 * (number * 7919 % 5000) / 5000, number))
        else:
            admission.came(now)
            came[int(now) - 100] += 1
    assert came.total() == 5000
    assert max(came) < 30
    assert max(came.values()) <= AT_ONCE + PER_S + 1
    assert told < 5500


def test_only_those_who_come_in_take_room_and_nobody_is_told_more_than_a_minute() -> None:
    """A flood of dials whose tokens are not good, or that come again at once, keeps out nobody who is waited for."""
    admission = Admission()
    assert not any(admission.wait_s(5.0) for _ in range(10 * AT_ONCE))
    for _ in range(AT_ONCE + 1):
        admission.came(5.0)
    waits = [admission.wait_s(5.0) for _ in range(100 * PER_S)]
    assert waits == sorted(waits[: 50 * PER_S]) + waits[50 * PER_S :]
    assert (waits[0], max(waits)) == (1, LONGEST_S)
    assert min(waits[-PER_S:]) < LONGEST_S, "they are spread"
    assert admission.wait_s(6.1) == 0


def test_those_who_come_from_a_crowded_address_are_told_times_one_after_the_other() -> None:
    """Also before the first of them came in; whoever comes from elsewhere is let in."""
    admission = Admission()
    waits = [admission.wait_s(5.0, crowded=True) for _ in range(2 * PER_S)]
    assert (waits[0], waits[-1]) == (1, 3)
    assert waits == sorted(waits)
    assert admission.wait_s(5.0) == 0


async def test_a_computer_for_which_there_is_no_room_is_told_when_to_dial_again_and_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Before its token is looked at, in a header and in the first line, which is all that the mod tells a program."""
    async with running(tmp_path) as server:
        token, admission = await server.computer("3"), server.orchestrator.hub.admission
        for _ in range(AT_ONCE + 2 * PER_S):
            admission.came(asyncio.get_running_loop().time())
        with pytest.raises(InvalidStatus) as refused:
            async with dialed(server.url, "nobody's"):
                pass
        response = refused.value.response
        after_s = response.headers["Retry-After"]
        assert (response.status_code, after_s in ("1", "2", "3")) == (503, True)
        assert response.reason_phrase == f"Many computers come at once, retry after {after_s} s"
        assert json.loads(response.body or b"")["error"]["code"] == "too_many_at_once"
        refusals = (await server.ask("GET", "/v1/doctor")).json()["refused"]
        assert refusals == []
        async with stubs_connected(StubComputer(server.url, token)):
            assert (await server.ask("GET", "/v1/computers/3")).json()["online"]
    assert "more than 250 computers a second come" in caplog.text
