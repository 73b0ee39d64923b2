"""The hub's side of watched screens and keys, with a computer spoken by hand that says whatever it likes."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from orchestrator.computers.hub import CannotType, Gone, Hidden, Seen, Sight, TooManyWatch, Typed, Watcher
from orchestrator.computers.hub import mirror as hub_mirror
from orchestrator.computers.hub.view import MAX_BROKEN
from orchestrator.core.errors import ComputerAway
from orchestrator.core.ports import CallResult
from orchestrator.core.wire import wire
from orchestrator.core.wire.picture import Row, row_bytes
from orchestrator.core.wire.screen_messages import of_text
from tests.harness.hub_server import FARM, RUN, HubServer, hub_server
from tests.harness.support import StubClient, dialed
from tests.waiting import HANG_S, within

CAN = ("mirror", "keys")


@pytest.fixture
async def server() -> AsyncIterator[HubServer]:
    async with hub_server() as opened:
        yield opened


def row(text: str, width: int = 5) -> Row:
    """A row in white on black."""
    return Row(text.encode("latin-1").ljust(width), "0" * width, "f" * width)


async def show(client: StubClient, watch: int, n: int, rows: dict[int, str], **more: Any) -> None:
    """Send a picture of a screen of 5 by 2."""
    body = b"".join(row_bytes(number, row(text)) for number, text in rows.items())
    values = {"whole": n == 1, "width": 5, "height": 2, "x": 1, "y": 1, "blink": False, **more}
    described = wire.whole(body) if body else None
    await client.send(wire.Picture(journal_seq=2, watch=watch, n=n, body=described, **values), body)


async def sees(watcher: Watcher) -> tuple[dict[int, str], bool]:
    """The rows that a watcher is told next, and whether they are all."""
    sight = await within(watcher.next(HANG_S))
    assert isinstance(sight, Seen), sight
    rows = {number: one.text.decode().rstrip() for number, one in enumerate(sight.shown.rows, 1) if one is not None}
    return {number: rows[number] for number in (rows if sight.rows is None else sight.rows)}, sight.rows is None


async def watched(client: StubClient) -> wire.Watch:
    """The watch that the computer hears of next."""
    message, _ = await client.hear("watch")
    assert isinstance(message, wire.Watch)
    return message


async def test_all_who_look_share_a_watch_that_ends_with_the_last(server: HubServer) -> None:
    """One begins it, the second gets what is known, each is told once, and however slow only what stands there now."""
    async with server.computer(capabilities=CAN) as client:
        with server.hub.mirror.watching(FARM) as first:
            watch = await watched(client)
            assert (watch.of, watch.lease_s, watch.heard) == (None, hub_mirror.LEASE_S, 0)
            await show(client, watch.watch, 1, {1: "one"})
            await show(client, watch.watch, 2, {2: "two"})
            assert await sees(first) == ({1: "one", 2: "two"}, True)
            with server.hub.mirror.watching(FARM) as second:
                assert await sees(second) == ({1: "one", 2: "two"}, True)
                await show(client, watch.watch, 3, {1: "new"})
                assert await sees(first) == ({1: "new"}, False)
                for n in range(4, 40):
                    await show(client, watch.watch, n, {2: f"{n}"})
                while (told := await sees(first)) != ({2: "39"}, False):
                    assert not told[1]
                # The slow one is told what stands there now, not what stood there.
                assert await sees(second) == ({1: "new", 2: "39"}, False)
                await show(client, watch.watch, 40, {}, x=3)
                assert await sees(first) == ({}, False)
        ended = await watched(client)
        assert (ended.watch, ended.lease_s) == (watch.watch, 0)


async def test_a_watch_is_renewed_with_what_was_heard(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """While somebody looks; a computer that sends nothing is said to be quiet, and seen when it does."""
    monkeypatch.setattr(hub_mirror, "RENEW_S", 0.05)
    async with server.computer(capabilities=CAN) as client:
        with server.hub.mirror.watching(FARM, "left") as watcher:
            watch = await watched(client)
            assert watch.of == "left"
            again = await watched(client)
            assert again.model_copy(update={"heard": 0}) == watch.model_copy(update={"heard": 0})
            quiet = await within(watcher.next(HANG_S))
            assert isinstance(quiet, Hidden)
            assert "sends no picture" in quiet.message
            await show(client, watch.watch, 1, {1: "a", 2: "b"})
            assert await sees(watcher) == ({1: "a", 2: "b"}, True)
            while (await watched(client)).heard != 1:
                pass


async def test_a_gap_begins_anew(server: HubServer) -> None:
    """A picture that is missing, or a part without its whole, costs a new watch; late frames of the old are nothing."""
    async with server.computer(capabilities=CAN) as client:
        with server.hub.mirror.watching(FARM) as watcher:
            old = await watched(client)
            await show(client, old.watch, 1, {1: "a", 2: "b"})
            await show(client, old.watch, 3, {1: "c"})
            new = await watched(client)
            assert new.watch != old.watch
            await show(client, old.watch, 4, {1: "late"})
            await show(client, new.watch, 1, {1: "d", 2: "e"})
            while (told := await sees(watcher)) != ({1: "d", 2: "e"}, True):
                assert told == ({1: "a", 2: "b"}, True)
            # The computer may begin anew by itself, such as when the lease was over.
            await show(client, new.watch, 1, {1: "f", 2: "g"})
            assert await sees(watcher) == ({1: "f", 2: "g"}, True)
            await show(client, new.watch, 2, {1: "h"}, width=4)
            newer = await watched(client)
            assert newer.watch > new.watch


async def test_who_goes_is_away_and_comes_back_whole(server: HubServer) -> None:
    """The watch begins again by itself; an older client that comes back cannot be watched."""
    with server.hub.mirror.watching(FARM) as watcher:
        assert await within(watcher.next(HANG_S)) == Gone()
        for text in ("one", "two"):
            async with server.computer(capabilities=CAN) as client:
                watch = await watched(client)
                await show(client, watch.watch, 1, {1: text, 2: ""})
                assert await sees(watcher) == ({1: text, 2: ""}, True)
            assert await within(watcher.next(HANG_S)) == Gone()
        async with server.computer():
            old = await within(watcher.next(HANG_S))
            assert isinstance(old, Hidden)
            assert "too old" in old.message
            assert await server.hub.mirror.screens(FARM) == ()
            with pytest.raises(CannotType, match="too old"):
                await server.hub.mirror.type(FARM, of_text("x"))


async def test_what_cannot_be_seen_is_said(server: HubServer) -> None:
    """With the computer's sentence as text, once; a picture makes it seen again."""
    async with server.computer(capabilities=CAN) as client:
        with server.hub.mirror.watching(FARM) as watcher:
            watch = await watched(client)
            for _ in range(2):
                await client.send(wire.Unseen(journal_seq=2, watch=watch.watch, message="no \x1b[31mwindow"))
            assert await within(watcher.next(HANG_S)) == Hidden("no \\u{1b}[31mwindow")
            await client.send(wire.Unseen(journal_seq=2, watch=watch.watch + 7, message="other"))
            await show(client, watch.watch, 1, {1: "a", 2: "b"})
            assert await sees(watcher) == ({1: "a", 2: "b"}, True)


@pytest.mark.parametrize("body", [b"\x03\x00\x01\x05\x0f", b"\x01\x00\x01\x04\x0f", b"\x01\xff", b"\x00\x00\x00"])
async def test_a_computer_that_lies_is_not_believed(server: HubServer, body: bytes) -> None:
    """Rows that fit no screen are refused a few times, then nothing more of it is taken; the connection stays."""
    async with server.computer(capabilities=CAN) as client:
        with server.hub.mirror.watching(FARM) as watcher:
            for _ in range(MAX_BROKEN):
                watch = await watched(client)
                values: dict[str, Any] = {"whole": True, "width": 5, "height": 2, "x": 1, "y": 1, "blink": False}
                picture = wire.Picture(journal_seq=2, watch=watch.watch, n=1, body=wire.whole(body), **values)
                await client.send(picture, body)
            hidden = await within(watcher.next(HANG_S))
            assert isinstance(hidden, Hidden)
            assert "cannot be read" in hidden.message
            await show(client, watch.watch, 1, {1: "a", 2: "b"})
        assert server.online()


async def test_what_nobody_asked_for_is_dropped(server: HubServer) -> None:
    """Pictures without a watch, answers without a question, before and after: nothing comes of them."""
    async with server.computer(capabilities=CAN) as client:
        await show(client, 1, 1, {1: "a", 2: "b"})
        await client.send(wire.Screens(journal_seq=2, look=1, body=wire.whole(b"[]")), b"[]")
        await client.send(wire.Keyed(journal_seq=2, keys=1, ok=True))
        await client.send(wire.Unseen(journal_seq=2, watch=1, message="x"))
        look = asyncio.create_task(server.hub.mirror.screens(FARM))
        asked, _ = await client.hear("look")
        await client.send(wire.Screens(journal_seq=2, look=asked.look, body=wire.whole(b"[]")), b"[]")
        assert await look == ()


async def test_a_flood_is_cut_and_the_rest_goes_on(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames beyond the budget are dropped, which shows as a gap; the link serves calls meanwhile."""
    monkeypatch.setattr(hub_mirror, "BURST_BYTES", 1000.0)
    monkeypatch.setattr(hub_mirror, "RATE_BYTES", 100_000.0)
    async with server.computer(capabilities=CAN) as client:
        with server.hub.mirror.watching(FARM) as watcher:
            watch = await watched(client)
            rows = {1: "a", 2: "b"}
            for n in range(1, 400):
                await show(client, watch.watch, n, rows, whole=n == 1)
            again = await watched(client)
            assert again.watch > watch.watch
            call = server.calling()
            while (await client.hear())[0].type != "call":
                pass
            await client.result(RUN, CallResult(body=b"x"))
            assert (await call).body == b"x"
            assert await sees(watcher) == ({1: "a", 2: "b"}, True)
            assert server.online()


async def test_a_flood_of_excuses_is_cut_too(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be seen is said within the same budget."""
    monkeypatch.setattr(hub_mirror, "RATE_BYTES", 0.001)
    monkeypatch.setattr(hub_mirror, "BURST_BYTES", 1000.0)
    async with server.computer(capabilities=CAN) as client:
        with server.hub.mirror.watching(FARM) as watcher:
            watch = await watched(client)
            for number in range(9):
                await client.send(wire.Unseen(journal_seq=2, watch=watch.watch, message=f"excuse {number}"))
            await client.send(wire.Pong(journal_seq=2, n=1))
            told = await within(watcher.next(HANG_S))
            while told != Hidden("excuse 2"):
                told = await within(watcher.next(HANG_S))


async def test_nobody_is_told_more_often_than_people_see(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast a computer sends: what is told then is what stands there by then."""
    monkeypatch.setattr("orchestrator.computers.hub.view.APART_S", 0.2)
    loop = asyncio.get_running_loop()
    async with server.computer(capabilities=CAN) as client:
        with server.hub.mirror.watching(FARM) as watcher:
            watch = await watched(client)
            began, told, n = loop.time(), list[Sight](), 0
            while loop.time() - began < 1.0:
                n += 1
                await show(client, watch.watch, n, {1: f"{n}", 2: "b"})
                sight = await watcher.next(0.01)
                told += [] if sight is None else [sight]
            assert len(told) <= (loop.time() - began) / 0.2 + 1
            last = told[-1]
            while not (isinstance(last, Seen) and last.shown.rows[0] == row(f"{n}")):
                newer = await within(watcher.next(HANG_S))
                assert newer is not None
                last = newer


async def test_a_watcher_is_told_nothing_more_when_the_hub_closes() -> None:
    """Those who look, and those who come later."""
    async with hub_server() as server, server.computer(capabilities=CAN) as client:
        with server.hub.mirror.watching(FARM) as watcher:
            await watched(client)
            waiting = asyncio.create_task(watcher.next(HANG_S))
            await asyncio.sleep(0)
            await server.hub.close()
            assert await within(waiting) is None
            assert watcher.is_over
        with server.hub.mirror.watching(FARM) as late:
            assert late.is_over


async def test_so_many_look_and_no_more(server: HubServer) -> None:
    """Screens of a computer, and watchers of it, are bounded; who leaves makes room."""
    mirror = server.hub.mirror
    many = [mirror.watching(FARM, f"m{number}") for number in range(hub_mirror.MAX_VIEWS)]
    for one in many:
        one.__enter__()
    with pytest.raises(TooManyWatch), mirror.watching(FARM, "one more"):
        pass
    more = [mirror.watching(FARM, "m0") for _ in range(hub_mirror.MAX_WATCHERS - hub_mirror.MAX_VIEWS)]
    for one in more:
        one.__enter__()
    with pytest.raises(TooManyWatch), mirror.watching(FARM, "m0"):
        pass
    for one in (*many[1:], *more):
        one.__exit__(None, None, None)
    with mirror.watching(FARM, "one more"):
        pass


# -- screens and keys --------------------------------------------------------------------


async def test_screens_are_listed_as_the_computer_says(server: HubServer) -> None:
    """What cannot be read, and what does not come, is a sentence; who is away has none."""
    with pytest.raises(ComputerAway):
        await server.hub.mirror.screens(FARM)
    async with server.computer(capabilities=CAN) as client:
        for body in (b'[{"width":51,"height":19},{"of":"left","width":7,"height":5}]', b'[{"width":"x"}]'):
            look = asyncio.create_task(server.hub.mirror.screens(FARM))
            asked, _ = await client.hear("look")
            await client.send(wire.Screens(journal_seq=2, look=asked.look, body=wire.whole(body)), body)
            if b"51" in body:
                assert [(one.of, one.width, one.height) for one in await look] == [(None, 51, 19), ("left", 7, 5)]
            else:
                with pytest.raises(ComputerAway, match="cannot be read"):
                    await look
        look = asyncio.create_task(server.hub.mirror.screens(FARM))
        await client.hear("look")
    with pytest.raises(ComputerAway, match="went away"):
        await look


async def test_all_who_ask_for_the_screens_at_once_ask_once(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who hangs up takes the answer from nobody; one that never comes is asked for anew."""
    monkeypatch.setattr(hub_mirror, "ANSWER_WITHIN_S", 0.2)
    mirror = server.hub.mirror
    async with server.computer(capabilities=CAN) as client:
        looks = [asyncio.create_task(mirror.screens(FARM)) for _ in range(50)]
        asked, _ = await client.hear("look")
        looks.pop(0).cancel()
        await client.send(wire.Screens(journal_seq=2, look=asked.look, body=wire.whole(b"[]")), b"[]")
        assert await asyncio.gather(*looks) == [()] * 49
        for _ in range(2):
            with pytest.raises(ComputerAway, match="did not answer"):
                await mirror.screens(FARM)
            later, _ = await client.hear("look")
            assert later.look > asked.look
            asked = later


async def test_keys_are_sent_once_and_say_what_became_of_them(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typed, refused with the computer's sentence, or nobody knows: the connection dropped, or nothing came."""
    mirror = server.hub.mirror
    with pytest.raises(ComputerAway):
        await mirror.type(FARM, of_text("x"))
    async with server.computer(capabilities=CAN) as client:
        for answer, expected in (
            ({"ok": True}, Typed(delivered=True)),
            ({"ok": False, "code": "other_tab", "message": "Another tab."}, Typed(False, "Another tab.")),
            ({"ok": False, "code": "unknown", "message": "Busy."}, Typed(None, "Busy.")),
            ({"ok": False}, Typed(False, "Nothing was typed.")),
        ):
            typing = asyncio.create_task(mirror.type(FARM, of_text("gr\u00fcn\n")))
            message, body = await client.hear("keys")
            assert json.loads(body) == [{"paste": "gr\u00fcn"}, {"key": "enter"}]
            assert body.isascii()
            await client.send(wire.Keyed(journal_seq=2, keys=message.keys, **answer))
            assert await typing == expected
        monkeypatch.setattr(hub_mirror, "ANSWER_WITHIN_S", 0.05)
        assert (await mirror.type(FARM, of_text("x"))).delivered is None
        await client.hear("keys")
        monkeypatch.setattr(hub_mirror, "ANSWER_WITHIN_S", HANG_S)
        typing = asyncio.create_task(mirror.type(FARM, of_text("x")))
        await client.hear("keys")
    assert await typing == Typed(None, "The connection was lost: whether it was typed is not known.")
    async with dialed(server.url) as again:
        await again.greet(capabilities=CAN)
        with mirror.watching(FARM):
            # Nothing of it is sent again: the watch is the first that comes.
            await watched(again)
