"""A computer's screen watched from outside, and typed at: the real server, the real client, the public endpoints."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from cc_client.simulator.install import install
from orchestrator.core.task import facts
from orchestrator.core.wire.picture import DEFAULT_PALETTE
from tests.harness.simulating import Player, playing
from tests.story.harness import Api, Server, facts_of, final, play, tool
from tests.story.proxy import Frame, LineCut, Proxy, proxy
from tests.story.watching import looking
from tests.waiting import HANG_S

STARTUP = 'shell.run("/.cc-orchestrator/boot.lua --startup /startup.lua")\n'
PAINT = """\
term.setBackgroundColour(32768) term.clear()
for i = 0, 15 do
  term.setCursorPos(1, i + 1)
  term.setTextColour(2 ^ i)
  term.setBackgroundColour(2 ^ (15 - i))
  term.write(("row %d \\3\\149\\233"):format(i))
end
term.setPaletteColour(2, 1, 0, 0.5)
term.setTextColour(1) term.setBackgroundColour(32768)
term.setCursorPos(1, 17)
print("painted")
"""
SCROLL = """\
local n = 0
while true do
  for _ = 1, 40 do
    n = n + 1
    term.setTextColour(2 ^ (n % 15)) term.setBackgroundColour(2 ^ ((n * 7) % 15))
    print(("line %d "):format(n) .. ("%x"):format(n * 2654435761 % 4294967296):rep(5))
  end
  sleep(0)
end
"""
ASKS = """\
term.clear() term.setCursorPos(1, 1)
write("name? ")
local name = read()
print("hello <" .. name .. ">")
local file = fs.open("/names", fs.exists("/names") and "a" or "w")
file.write(name .. ";") file.close()
"""


class Counted:
    """The frames of the line that are about screens."""

    def __init__(self) -> None:
        self.up: list[tuple[float, Frame]] = []
        self.down: list[Frame] = []
        self._changed = asyncio.Event()

    async def note(self, frame: Frame) -> None:
        """A frame is passed on."""
        if frame.message.type in ("picture", "unseen"):
            self.up.append((time.monotonic(), frame))
        elif frame.message.type in ("watch", "look", "keys"):
            self.down.append(frame)
        self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds of the frames."""
        async with asyncio.timeout(HANG_S):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


@contextlib.asynccontextmanager
async def computer(
    tmp: Path, server: Server, api: Api, *options: str, line: Proxy | None = None, **files: str
) -> AsyncIterator[tuple[str, Player]]:
    """A computer with these programs that is paired by whoever has ``api``, and on; its name."""
    name = server.new_name()
    token = (await api.ok("POST", "/v1/tokens", {"kind": "computer", "name": name}))["token"]
    disk = tmp / name
    disk.mkdir()
    install(disk, line.url if line else f"ws{server.url.removeprefix('http')}/computer", token)
    (disk / "startup.lua").write_text(STARTUP, "utf-8")
    for program, source in files.items():
        (disk / f"{program}.lua").write_text(source, "utf-8")
    async with playing(disk, *(options or ("--family=advanced",))) as player:
        await online(api, name)
        yield name, player


async def online(api: Api, name: str) -> None:
    """Wait until a computer is connected."""
    async with asyncio.timeout(HANG_S):
        while (await api.ok("GET", f"/v1/computers/{name}"))["state"] != "online":
            pass


@pytest.mark.thinned(3)
@pytest.mark.parametrize("family", ["advanced", "computer", "pocket"])
async def test_what_a_program_draws_in_16_colours_is_seen_by_two(tmp_path: Path, server: Server, family: str) -> None:
    """Characters, colours, palette and cursor; the second who looks gets the same, and costs the computer nothing."""
    api = server.api()
    counted = Counted()
    async with proxy(server.port) as line:
        line.after = counted.note
        async with computer(tmp_path, server, api, f"--family={family}", line=line, paint=PAINT) as (name, player):
            assert not counted.down
            async with looking(api, name) as first:
                await first.until(lambda one: bool(one.rows))
                assert first.events[0] == "whole"
                await player.do("type paint")
                await first.until("painted")
                for index in range(16):
                    row = first.find(f"row {index} ")
                    width = len(f"row {index} ") + 3
                    assert "".join(row["text"][:width]) == f"row {index} \u2665\u258c\u00e9"
                    assert row["fg"][:width] == f"{index:x}" * width
                    assert row["bg"][:width] == f"{15 - index:x}" * width
                await first.until(lambda one: one.palette[1] in ("#ff0080", "#808080"))
                grey = family != "advanced"
                assert first.palette[1] == ("#808080" if grey else "#ff0080")
                assert (tuple(first.palette[2:]) == DEFAULT_PALETTE[2:]) is not grey
                asked = len(counted.down)
                async with looking(api, name) as second:
                    await second.until("painted")
                    assert second.events == ["whole"]
                    assert (second.rows, second.palette) == (first.rows, first.palette)
                    assert {frame.message.watch for frame in counted.down[asked:]} <= {counted.down[0].message.watch}
                    await player.do("key z")
                    await asyncio.gather(first.until("> z"), second.until("> z"))
            await counted.until(lambda: counted.down[-1].message.lease_s == 0)


BEHIND = """
local native = term.native()
native.clear() native.setCursorPos(3, 8) native.write("VANDAL") native.setPaletteColour(1, 1, 0, 0)
term.redirect(native) term.setCursorBlink(false)
os.pullEvent("go")
print("again")
"""


@pytest.mark.deep
@pytest.mark.parametrize("family", ["advanced", "computer"])
async def test_what_a_program_drew_behind_the_windows_is_painted_over(
    tmp_path: Path, server: Server, family: str
) -> None:
    """Tabs, prompt and cursor of the player are as before, and the result says what was drawn there."""
    api = server.api()
    async with computer(tmp_path, server, api, f"--family={family}", behind=BEHIND) as (name, player):
        await player.see(">")
        before = await player.do("screen")
        task = await api.submit(tool("cc_run_program", path="behind.lua"), final(), computers=(name,))
        played = asyncio.create_task(play(api, task))
        await player.see("VANDAL")
        await player.do("event go")
        (ended,) = facts_of(await played, facts.ToolFinished)
        assert "[on the player's screen, by term.native(); that was painted again afterwards:]\n" in ended.text
        assert "  VANDALagain" in ended.text
        async with asyncio.timeout(HANG_S):
            while await player.do("screen") != before:
                pass
        await player.do("type nothing")
        await player.see("No such program")


async def test_a_line_that_drops_shows_as_away_and_then_as_the_whole(tmp_path: Path, server: Server) -> None:
    """What was drawn meanwhile is in the whole picture that comes by itself."""
    api = server.api()
    held = asyncio.Event()

    async def hold(frame: Frame) -> None:
        if frame.message.type == "hello":
            await held.wait()

    async with (
        proxy(server.port) as line,
        computer(tmp_path, server, api, line=line, paint=PAINT) as (name, player),
        looking(api, name) as onlooker,
    ):
        await onlooker.until(">")
        line.before = hold
        line.cut()
        await onlooker.until(lambda one: one.trouble == "away")
        await player.do("type paint")
        await player.see("painted")
        held.set()
        await onlooker.until("painted")
        assert onlooker.events[-1] == "whole"
        assert not onlooker.is_over


@pytest.mark.deep
async def test_a_server_that_restarts_begins_anew(tmp_path: Path, fresh_server: Server) -> None:
    """The stream ends with the old server; the new one shows the whole; a stop in order ends it as well."""
    server = fresh_server
    server.start()
    async with computer(tmp_path, server, server.api(), paint=PAINT) as (name, player):
        async with looking(server.api(), name) as before:
            await before.until(">")
            server.kill()
            await before.until(lambda one: one.is_over)
        await server.close()
        server.start()
        api = server.api()
        async with looking(api, name) as after:
            await player.do("type paint")
            await after.until("painted")
            assert after.events[0] in ("away", "whole")
            assert server.process is not None
            server.process.stop()
            await after.until(lambda one: one.is_over)


@pytest.mark.deep
async def test_a_program_that_scrolls_wildly_stays_within_4_kb_a_second(tmp_path: Path, server: Server) -> None:
    """Two screens are watched, all rows change with every look; when nobody looks any more, nothing at all is sent."""
    api = server.api()
    counted = Counted()
    async with proxy(server.port) as line:
        line.after = counted.note
        options = ("--family=advanced", "--peripheral=left=monitor")
        async with computer(tmp_path, server, api, *options, line=line, scroll=SCROLL) as (name, player):
            await player.do("type scroll")
            await player.see("line")
            assert counted.up == []
            async with looking(api, name) as onlooker, looking(api, name, "left") as monitor:
                await monitor.until(lambda one: bool(one.rows))
                await onlooker.until(lambda one: len(one.events) > 14)
                began, ended = counted.up[0][0], counted.up[-1][0]
                total = sum(frame.size for _, frame in counted.up)
            await counted.until(lambda: [one.message.lease_s for one in counted.down[-2:]] == [0, 0])
            # What was on its way by then has come before the answer to this.
            assert len((await api.ok("GET", f"/v1/computers/{name}/screens"))["screens"]) == 2
            sent = len(counted.up)
            seen = int((await player.see("line")).split("line ")[1].split()[0])
            async with asyncio.timeout(HANG_S):
                while int((await player.see("line")).split("line ")[1].split()[0]) < seen + 400:
                    pass
            assert len(counted.up) == sent
    # Two seconds more: a busy machine may hold frames back.
    assert 0 < total <= 4000 * (ended - began + 2)


MONITOR = """\
local left = peripheral.wrap("left")
left.setTextScale(1) left.clear() left.setCursorPos(2, 3) left.setTextColour(16) left.write("drawn \\1")
term.redirect(left) print() print("redirected") term.redirect(term.native())
left.setPaletteColour(16, 0x123456)
if ... then left.setTextScale(0.5) left.setCursorPos(1, 1) left.write("small") end
"""


@pytest.mark.deep
async def test_a_monitor_shows_what_programs_draw_while_it_is_watched(tmp_path: Path, server: Server) -> None:
    """Also what the player's own program draws; another scale is another size; one that goes and comes back says so."""
    api = server.api()
    options = ("--family=advanced", "--peripheral=left=monitor")
    async with computer(tmp_path, server, api, *options, draw=MONITOR) as (name, player):
        screens = (await api.ok("GET", f"/v1/computers/{name}/screens"))["screens"]
        assert screens[0] == {"of": "terminal", "width": 51, "height": 18}
        assert screens[1:] == [{"of": "left", "width": 18, "height": 12}]
        async with looking(api, name, "left") as onlooker:
            await onlooker.until(lambda one: bool(one.rows))
            assert onlooker.text.strip() == ""
            await player.do("type draw")
            await onlooker.until("redirected")
            row = onlooker.find("drawn")
            assert ("".join(row["text"]).rstrip(), row["fg"][1:8]) == (" drawn \u263a", "4444444")
            await onlooker.until(lambda one: one.palette[4] == "#123456")
            await player.do("type draw small")
            await onlooker.until(lambda one: one.width == 36 and "small" in one.text)
            await player.do("detach left")
            await onlooker.until(lambda one: "There is no monitor left" in one.trouble)
            await player.do("attach left=monitor")
            await onlooker.until(lambda one: one.width == 18 and not one.trouble)
            assert onlooker.text.strip() == ""
        async with looking(api, name, "right") as nothing:
            await nothing.until(lambda one: "There is no monitor right" in one.trouble)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("family", ["advanced", "computer"])
async def test_what_is_typed_reaches_a_program_once_and_stands_in_the_audit(
    tmp_path: Path, server: Server, family: str
) -> None:
    """Text, keys and Ctrl-T, by who paired the computer and by an admin; refused to others, written down for good."""
    admin = server.api()
    owner = await server.person(f"olga-{family}", "submitter", "admin")
    other = await server.person(f"otto-{family}", "submitter", "reviewer")
    async with (
        computer(tmp_path, server, owner, f"--family={family}", asks=ASKS) as (name, player),
        looking(other, name) as onlooker,
    ):
        keys = f"/v1/computers/{name}/keys"
        await onlooker.until(">")
        assert await owner.ok("POST", keys, {"text": "asks\n"}) == {"delivered": True, "message": ""}
        await onlooker.until("name?")
        typed = [{"text": "gr\u00fcn"}, {"keys": ["x", "backspace", "home", "J", "end"]}, {"text": "!"}]
        for body in typed:
            assert (await owner.ok("POST", keys, body))["delivered"] is True
        assert (await admin.ok("POST", keys, {"keys": ["enter"]}))["delivered"] is True
        await onlooker.until("hello <Jgr\u00fcn!>")
        assert (tmp_path / name / "names").read_bytes() == "Jgr\u00fcn!;".encode("latin-1")
        assert "may not type" in (await other.refused(403, "POST", keys, {"text": "x"}))["message"]
        assert "no key" in (await owner.refused(422, "POST", keys, {"text": "\u4e2d"}))["message"]
        await owner.ok("POST", keys, {"text": "asks\n"})
        await onlooker.until("name?")
        await admin.ok("POST", keys, {"keys": ["terminate"]})
        await onlooker.until("Terminated")
        facts = [one["fact"] for one in (await admin.ok("GET", "/v1/audit", system=1, kind="keys_sent"))["items"]]
        mine = [fact for fact in facts if fact["computer"] == name]
        sent = [({"text": fact["text"]} if fact["text"] else {"keys": fact["keys"]}) for fact in mine]
        expected = [{"text": "asks\n"}, *typed, {"keys": ["enter"]}, {"text": "asks\n"}, {"keys": ["terminate"]}]
        assert sent == expected
        await player.do("off")
        await onlooker.until(lambda one: one.trouble == "away")
        assert "is away" in (await owner.refused(409, "POST", keys, {"text": "x"}))["message"]
        facts = (await admin.ok("GET", "/v1/audit", system=1, kind="keys_sent"))["items"]
        assert len([one for one in facts if one["fact"]["computer"] == name]) == len(expected)


@pytest.mark.deep
@pytest.mark.thinned(2)
@pytest.mark.parametrize("where", ["lost", "delivered"])
async def test_keys_whose_line_drops_are_never_typed_twice(tmp_path: Path, server: Server, where: str) -> None:
    """Before the computer has them, or before its answer is here: nobody knows is the answer, and it is no lie."""
    api = server.api()
    async with proxy(server.port) as line, computer(tmp_path, server, api, line=line, asks=ASKS) as (name, player):
        path = f"/v1/computers/{name}/keys"
        await player.do("type asks")
        await player.see("name?")

        async def drop(frame: Frame) -> None:
            if frame.message.type == ("keys" if where == "lost" else "keyed"):
                line.before = line.after
                raise LineCut

        line.before = drop
        answer = await api.ok("POST", path, {"text": "once"})
        assert answer["delivered"] is None
        assert "not known" in answer["message"]
        await online(api, name)
        async with looking(api, name) as onlooker:
            await onlooker.until("name?")
            # After all that could still come of it on the new line.
            assert (await api.ok("POST", path, {"keys": ["enter"]}))["delivered"] is True
            await onlooker.until("hello <" if where == "lost" else "hello <once>")
    assert (tmp_path / name / "names").read_bytes() == (b";" if where == "lost" else b"once;")
