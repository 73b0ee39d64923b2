"""Run one simulated computer until it is shut down: ``python -m cc_client.simulator``."""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cc_client.simulator.clock import Clock
from cc_client.simulator.computer import Faults, Identity, run_computer
from cc_client.simulator.disk import Disk
from cc_client.simulator.install import install
from cc_client.simulator.machine import ROM

DEFAULT_CAPACITY_BYTES: Final = 1_000_000
"""What a computer has in the mod's own settings."""


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line. Exits with 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m cc_client.simulator",
        description="A simulated ComputerCraft computer that runs the real Lua client.",
    )
    parser.add_argument("--url", required=True, help="the orchestrator, such as ws://127.0.0.1:8765/computer")
    parser.add_argument("--token", required=True, help="the computer's token")
    parser.add_argument("--disk", required=True, type=Path, help="host directory that is the computer's /")
    parser.add_argument("--id", type=int, default=0, help="os.getComputerID() (default 0)")
    parser.add_argument("--label", help="os.getComputerLabel() (default none)")
    parser.add_argument("--capacity", type=int, default=DEFAULT_CAPACITY_BYTES, help="bytes that fit on the disk")
    faults = parser.add_argument_group("fault injection", "The process kills itself, as if the power went.")
    faults.add_argument("--die-at-change", type=int, metavar="N", help="before the Nth change of a file")
    faults.add_argument("--die-after-frame", type=int, metavar="N", help="after the Nth message was sent")
    return parser.parse_args(argv)


async def run(arguments: argparse.Namespace) -> None:
    """Run the computer until it shuts down, or SIGTERM or SIGINT ends it."""
    faults = Faults(arguments.die_at_change, arguments.die_after_frame)
    identity = Identity(arguments.id, None if arguments.label is None else os.fsencode(arguments.label))
    disk = Disk(arguments.disk, ROM, arguments.capacity, faults.before_change)
    task = asyncio.ensure_future(run_computer(identity, disk, Clock(), faults))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 after a clean end, 1 when the disk cannot be used."""
    arguments = parse(argv)
    try:
        install(arguments.disk.absolute(), arguments.url, arguments.token)
    except OSError as error:
        sys.stderr.write(f"Cannot use {arguments.disk} as a disk: {error}.\n")
        return 1
    asyncio.run(run(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
