"""What a simulated computer keeps from boot to boot."""

import os
import signal
from dataclasses import dataclass, field

from cc_client.simulator.clock import Clock
from cc_client.simulator.disk import Disk
from cc_client.simulator.hardware import Hardware
from cc_client.simulator.keyboard import Keyboard
from cc_client.simulator.screen import Screen
from cc_client.simulator.watchdog import Watchdog
from cc_client.simulator.wire import Wire
from cc_client.simulator.world.world import World


@dataclass
class Faults:
    """Where the process ends itself, as if the power went.

    Attributes:
        die_at_change: Right before this change of the file system, counted from 1 over all boots.
        die_after_frame: Right after this message was sent, counted from 1 over all boots.
    """

    die_at_change: int | None = None
    die_after_frame: int | None = None
    changes: int = 0
    frames: int = 0

    def before_change(self) -> None:
        """Counts a change that is about to happen."""
        self.changes += 1
        if self.changes == self.die_at_change:
            os.kill(os.getpid(), signal.SIGKILL)

    def after_frame(self) -> None:
        """Counts a frame that was sent."""
        self.frames += 1
        if self.frames == self.die_after_frame:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Identity:
    """Who the computer is; the label may be changed by a program."""

    computer_id: int
    label: bytes | None = None

    def set_label(self, label: bytes | None = None) -> None:
        """Give the computer a label, or take it away."""
        self.label = label


@dataclass
class Case:
    """The parts of one computer."""

    identity: Identity
    disk: Disk
    hardware: Hardware
    watchdog: Watchdog
    faults: Faults = field(default_factory=Faults)
    clock: Clock = field(default_factory=Clock)
    screen: Screen = field(default_factory=Screen)
    keyboard: Keyboard = field(default_factory=Keyboard)
    wire: Wire = field(default_factory=Wire)
    world: World = field(default_factory=World)
