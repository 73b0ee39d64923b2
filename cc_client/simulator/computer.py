"""The simulated computer: boot after boot, and what the world does to it meanwhile."""

import asyncio
from dataclasses import dataclass, field

from cc_client.simulator.boot import Boot, Power
from cc_client.simulator.case import Case
from cc_client.simulator.saying import log


@dataclass
class Computer:
    """A computer that is on, off, or in a chunk that is not loaded.

    Args:
        case: Its parts.
        stays: Whether it waits to be switched on again when it is off; otherwise ``run`` ends then.
    """

    case: Case
    stays: bool = False
    boot: Boot | None = None
    state: str = "on"
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _turned: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced, when the state has changed."""

    async def run(self) -> Power:
        """Boot, and boot again for as long as the computer or the world asks for it; answers why it is off."""
        while True:
            self.boot = Boot(self.case)
            self._turn("on")
            ended = await self.boot.run()
            self.boot = None
            if ended == "reboot":
                log(f"computer {self.case.identity.computer_id} reboots")
                continue
            if not self.stays:
                return ended
            self._wanted.clear()
            self._turn("unloaded" if ended == "unloaded" else "off")
            await self._wanted.wait()

    async def unload(self) -> None:
        """The chunk goes: sockets die, Lua's state is lost. Raises ValueError when it is not on."""
        await self._stop("unloaded")

    async def load(self) -> None:
        """The chunk is back, and the computer boots. Raises ValueError when it was not unloaded."""
        await self._start("unloaded")

    async def turn_on(self) -> None:
        """A player switches it on. Raises ValueError when it is not off."""
        await self._start("off")

    async def turn_off(self) -> None:
        """A player switches it off. Raises ValueError when it is not on."""
        await self._stop("shutdown")

    async def reboot(self) -> None:
        """A player holds Ctrl-R. Raises ValueError when it is not on."""
        await self._stop("reboot")

    def terminate(self) -> None:
        """A player holds Ctrl-T. Raises ValueError when it is not on."""
        self._running().queue_event(b"terminate")

    def cut(self) -> None:
        """The network breaks: every socket is lost. Raises ValueError when it is not on."""
        sockets = self._running().sockets
        if sockets is not None:
            sockets.cut()

    def _running(self) -> Boot:
        if self.boot is None:
            raise ValueError(f"the computer is {self.state}")
        return self.boot

    async def _stop(self, power: Power) -> None:
        turned = self._turned
        self._running().stop(power)
        await turned.wait()

    async def _start(self, state: str) -> None:
        if self.state != state:
            raise ValueError(f"the computer is {self.state}")
        turned = self._turned
        self._wanted.set()
        await turned.wait()

    def _turn(self, state: str) -> None:
        self.state = state
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()
