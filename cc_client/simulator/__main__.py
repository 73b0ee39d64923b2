"""Run one simulated computer until it is shut down: ``python -m cc_client.simulator``."""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from cc_client.simulator.case import Case, Faults, Identity
from cc_client.simulator.computer import Computer
from cc_client.simulator.confinement import confine
from cc_client.simulator.control import Control
from cc_client.simulator.disk import Disk
from cc_client.simulator.hardware import Hardware
from cc_client.simulator.install import install, start_with_the_computer
from cc_client.simulator.machine import ROM
from cc_client.simulator.options import parse
from cc_client.simulator.rules import Rules
from cc_client.simulator.saying import log
from cc_client.simulator.screen import Say, Screen
from cc_client.simulator.watchdog import OFF_CODE, Watchdog
from cc_client.simulator.wire import Wire
from cc_client.simulator.world.reading import NoWorld, read_world
from cc_client.simulator.world.world import World

LOG_BYTES: Final = 1_000_000_000
"""What a confined computer may say into a file, at least."""


async def run(arguments: argparse.Namespace, start: str | None, world: World) -> int:
    """Run the computer until it shuts down, or SIGTERM or SIGINT ends it, or who controls it goes away.

    Returns the exit code.
    """
    case = _case(arguments, start, world)
    computer, loop = Computer(case, stays=arguments.control), asyncio.get_running_loop()
    work: list[asyncio.Future[Any]] = []
    if arguments.control:
        work.append(asyncio.ensure_future(Control(computer, _say).run()))
    elif arguments.until_eof:
        work.append(asyncio.ensure_future(_eof(case.watchdog.end_soon)))
    # Last, as a program may be busy from the first moment on.
    on = asyncio.ensure_future(computer.run())
    work.append(on)

    def end() -> None:
        case.watchdog.end_soon()
        # The loop may be over already.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(on.cancel)

    # First of all threads, as each has the signals of the one that starts it; the tasks start theirs later.
    _at_signals(end)
    case.watchdog.start()
    done, running = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    for task in done:
        if not task.cancelled():
            task.result()
    return OFF_CODE if on in done and not on.cancelled() and on.result() == "broken" else 0


def _at_signals(end: Callable[[], None]) -> None:
    """Call ``end`` at SIGTERM and SIGINT, from a thread: Lua may hold up the one that handles signals."""
    numbers = {signal.SIGTERM, signal.SIGINT}
    if not hasattr(signal, "pthread_sigmask"):
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def wait() -> None:
        while True:
            signal.sigwait(numbers)
            end()

    threading.Thread(target=wait, daemon=True).start()


async def _eof(at_end: Callable[[], None]) -> None:
    """Wait until standard input ends, whatever comes there; ``at_end`` is called at once, in another thread."""
    over, loop = asyncio.Event(), asyncio.get_running_loop()

    def read() -> None:
        while os.read(0, 4096):
            pass
        at_end()
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(over.set)

    # A daemon: nobody waits for it where the computer ends first.
    threading.Thread(target=read, daemon=True).start()
    await over.wait()


def _case(arguments: argparse.Namespace, start: str | None, world: World) -> Case:
    faults = Faults(arguments.die_at_change, arguments.die_after_frame)
    rules = Rules(
        arguments.http == "on",
        arguments.websockets == "on",
        arguments.http_rule == "deny-private",
        arguments.only,
    )
    case = Case(
        identity=Identity(arguments.id, None if arguments.label is None else os.fsencode(arguments.label)),
        disk=Disk(arguments.disk.absolute(), ROM, arguments.capacity, faults.before_change, mounts=world.mounts),
        hardware=Hardware(arguments.family, arguments.cc_version, start, rules, arguments.memory),
        watchdog=Watchdog(arguments.id),
        faults=faults,
        screen=_screen(arguments.screen, log if arguments.bare else None),
        wire=Wire(arguments.latency / 1000, arguments.jitter / 1000),
        world=world,
    )
    for line in arguments.typed:
        case.keyboard.type_line(line)
    return case


def _screen(where: str | None, keep: Say | None) -> Screen:
    if where == "-":
        return Screen(_say, keep)
    return Screen(None, keep, None if where is None else Path(where).absolute())


def _first_line() -> str:
    """The first line of standard input, and nothing of what follows it."""
    line = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode()


def _say(line: str) -> None:
    sys.stdout.write(line.encode("ascii", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 after a clean end, 1 when the disk or the world cannot be used, 3 when a program broke it."""
    arguments = parse(argv)
    try:
        world = read_world(arguments.world, arguments.peripherals, turtle="turtle" in arguments.family)
    except NoWorld as error:
        sys.stderr.write(f"{error}\n")
        return 1
    try:
        if arguments.bare:
            arguments.disk.mkdir(parents=True, exist_ok=True)
            start = None
        else:
            token = _first_line() if arguments.token == "-" else arguments.token
            start = install(arguments.disk.absolute(), arguments.url, token)
            if arguments.shell and start_with_the_computer(arguments.disk.absolute()):
                start = None
    except OSError as error:
        sys.stderr.write(f"Cannot use {arguments.disk} as a disk: {error}.\n")
        return 1
    if arguments.confined:
        confine(arguments.capacity + LOG_BYTES, (arguments.disk, *world.mounts().values()))
    return asyncio.run(run(arguments, start, world))


if __name__ == "__main__":
    sys.exit(main())
