"""What kind of computer is simulated, in which world of rules."""

from dataclasses import dataclass, field
from typing import Final

from cc_client.simulator.rules import Rules

SIZES: Final = {
    "computer": (51, 19),
    "advanced": (51, 19),
    "command": (51, 19),
    "turtle": (39, 13),
    "advanced-turtle": (39, 13),
    "pocket": (26, 20),
    "advanced-pocket": (26, 20),
}
"""The families, and columns and rows of their screens."""
COLOURLESS: Final = frozenset({"computer", "turtle", "pocket"})
NEWEST: Final = (1, 116, 1)
SUBPROTOCOL_SINCE: Final = (1, 97)
"""The first version that sends the name of a protocol."""
BYTES_SINCE: Final = (1, 109)
"""The first version in which texts are bytes; before it they are latin-1 here and UTF-8 on the wire."""


@dataclass(frozen=True)
class Hardware:
    """What does not change from boot to boot.

    Attributes:
        family: One of ``SIZES``.
        version: The version of the mod that is played.
        start: The program that runs in place of the shell; None: the computer boots as in the game.
        rules: What the Minecraft server permits of the network.
        memory_bytes: What Lua may take; None: no limit.
    """

    family: str = "advanced"
    version: tuple[int, int, int] = NEWEST
    start: str | None = None
    rules: Rules = field(default_factory=Rules)
    memory_bytes: int | None = None

    @property
    def is_colour(self) -> bool:
        """Whether the screen has colours, and thus tabs."""
        return self.family not in COLOURLESS

    def is_a(self, kind: str) -> bool:
        """Whether it is a ``turtle``, a ``pocket`` or a ``command`` computer."""
        return self.family in {kind, f"advanced-{kind}"}

    def at_least(self, *version: int) -> bool:
        """Whether the played version is this one or newer."""
        return self.version >= version

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the screen."""
        return SIZES[self.family]

    @property
    def dotted(self) -> str:
        """The version as the mod writes it."""
        return ".".join(map(str, self.version))

    @property
    def host_line(self) -> str:
        """What ``_HOST`` says."""
        return f"ComputerCraft {self.dotted} (CC-Simulator)"

    @property
    def user_agent(self) -> str:
        """What the computer calls itself to servers."""
        return f"computercraft/{self.dotted}"


def read_version(text: str) -> tuple[int, int, int]:
    """The version in a text such as ``1.95`` or ``1.100.6``. Raises ValueError."""
    parts = [int(part) for part in text.split(".")]
    if not 2 <= len(parts) <= 3:
        raise ValueError(f"{text!r} is no version of CC: Tweaked; say it like 1.95 or 1.116.1")
    version = (parts[0], parts[1], parts[2] if len(parts) == 3 else 0)
    if version < (1, 95, 0) or version > NEWEST:
        raise ValueError(f"{text} is not simulated; versions from 1.95 to 1.116.1 are")
    return version


def to_text(data: bytes) -> str:
    """What an old version makes of bytes that go out as text."""
    return data.decode("latin-1")


def from_text(text: str) -> bytes:
    """What an old version makes of text that comes in."""
    return text.encode("latin-1", "replace")
