"""A computer's screen watched from outside, and typed at: real server, real client in the simulator, real browser's door."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cc_client.simulator.install import install
from orchestrator.core.picture import DEFAULT_PALETTE
from tests.shell.simulating import Player, playing
from tests.story.harness import Api, Server
from tests.story.proxy import Frame, Proxy, proxy
from tests.story.watching import looking

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
term.setCursorPos(1, 18)
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
        self.all_up = 0

    async def note(self, frame: Frame) -> None:
        """A frame is passed on."""
        if frame.direction == "up":
            self.all_up += 1
            if frame.message.type in ("picture", "unseen"):
                self.up.append((time.monotonic(), frame))
        elif frame.message.type in ("watch", "look", "keys"):
            self.down.append(frame)

    def most_in_a_second(self) -> int:
        """Bytes of pictures in the worst second."""
        return max(
            sum(frame.size for at, frame in self.up if first <= at < first + 1.0) for first, _ in self.up
        )


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
    async with asyncio.timeout(30):
        while (await api.ok("GET", f"/v1/computers/{name}"))["state"] != "online":
            await asyncio.sleep(0.05)


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
                    await player.do("type paint")
                    await first.until(lambda one: len(one.events) > 3)
            assert counted.down[-1].message.lease_s == 0
