"""The command line of computers: which are frozen and why, and letting one come back."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.core.wire import wire
from tests.harness.commands import Served, refused, serving
from tests.harness.support import dialed, hello


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, tmp_path / "data") as served:
        yield served


def test_a_frozen_computer_is_listed_shown_and_released(served: Served) -> None:
    """The list says which are frozen and what to do, `show` has both sides, `release` lets it come back once."""
    token = served.cli("token", "computer", "shed").stdout.strip()
    asyncio.run(_two(served.url, token, served.cli("token", "computer", "shed").stdout.strip()))
    listed = served.cli("computers")
    assert "shed      frozen" in listed.stdout
    assert "its token came from a computer with another id" in listed.stderr
    assert "cc-orchestrator computers release shed" in listed.stderr
    told = served.cli("computers", "show", "shed").stdout
    assert "state     frozen" in told
    assert "known     id 3 'farm' from 127.0.0.1, boot boot-1" in told
    assert "who comes id 9 'farm' from 127.0.0.1, boot boot-9" in told
    assert "compared  " in told
    whole = json.loads(served.cli("computers", "show", "shed", "--json").stdout)
    assert whole["frozen"]["reason"] == "other_computer"
    released = served.cli("computers", "release", "shed")
    assert (released.returncode, "'shed' is released" in released.stderr) == (0, True)
    assert "'shed' was not frozen" in served.cli("computers", "release", "shed").stderr
    assert json.loads(served.cli("computers", "release", "shed", "--json").stdout)["released"] is False
    assert "released and not back yet" in served.cli("computers", "show", "shed").stdout
    refused(served.cli("computers", "show", "nobody"), "There is no computer 'nobody'", code=4)


def test_the_label_of_now_is_confirmed(served: Served) -> None:
    """`show` lists the former labels, and `confirm-label` says what it changed."""
    token = served.cli("token", "computer", "shed").stdout.strip()
    asyncio.run(_renamed(served.url, token))
    assert "had       'farm'" in served.cli("computers", "show", "shed").stdout
    confirmed = served.cli("computers", "confirm-label", "shed")
    assert confirmed.returncode == 0
    assert "Computer 'shed' has the label 'reactor'; its former labels count no more." in confirmed.stderr
    assert "had " not in served.cli("computers", "show", "shed").stdout
    again = served.cli("computers", "confirm-label", "shed", "--json")
    assert json.loads(again.stdout) == {"computer": "shed", "label": "reactor", "confirmed": False}
    refused(served.cli("computers", "confirm-label", "nobody"), "There is no computer 'nobody'", code=4)


async def _renamed(url: str, token: str) -> None:
    async with dialed(url, token) as client:
        await client.greet()
        await client.send(wire.Label(journal_seq=0, n=1, label="reactor"))
        await client.hear("label_kept")


async def _two(url: str, token: str, another: str) -> None:
    async with dialed(url, token) as client:
        await client.greet()
    async with dialed(url, another) as client:
        await client.send(hello(computer_id=9, boot="boot-9"))
        message, _ = await client.hear("refused")
        assert isinstance(message, wire.Refused)
        await client.closed()
