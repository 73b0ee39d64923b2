"""Monitors: a screen that a program writes on by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from cc_client.simulator.world.items import WorldError
from cc_client.simulator.world.peripherals import Finder, Peripheral, number

COLOURS = frozenset(1 << shift for shift in range(16))
_LIGHTS = (
    *(0xF0F0F0, 0xF2B233, 0xE57FD8, 0x99B2F2, 0xDEDE6C, 0x7FCC19, 0xF2B2CC, 0x4C4C4C),
    *(0x999999, 0x4C99B2, 0xB266E5, 0x3366CC, 0x7F664C, 0x57A64E, 0xCC4C4C, 0x111111),
)
_NAMED = (
    *("write", "blit", "clear", "clearLine", "scroll", "getSize", "getCursorPos", "setCursorPos"),
    *("getCursorBlink", "setCursorBlink", "getTextScale", "setTextScale"),
)


def _light(packed: int) -> tuple[float, float, float]:
    return (packed >> 16 & 255) / 255, (packed >> 8 & 255) / 255, (packed & 255) / 255


@dataclass
class Monitor(Peripheral):
    """A monitor of so many columns and rows at scale 1."""

    width: int = 18
    height: int = 12
    colour: bool = True
    rows: dict[int, str] = field(default_factory=dict)
    cursor: tuple[int, int] = (1, 1)
    blink: bool = False
    scale: float = 1.0
    colours: dict[str, int] = field(default_factory=lambda: {"Text": 1, "Background": 32768})
    lights: dict[int, tuple[float, float, float]] = field(
        default_factory=lambda: {1 << place: _light(packed) for place, packed in enumerate(_LIGHTS)}
    )
    """Of each colour red, green and blue."""
    METHODS: ClassVar[Mapping[str, str]] = {
        **{name: "do_" + name for name in _NAMED},
        **{f"getText{word}": "text_colour" for word in ("Color", "Colour")},
        **{f"setText{word}": "set_text_colour" for word in ("Color", "Colour")},
        **{f"getBackground{word}": "background_colour" for word in ("Color", "Colour")},
        **{f"setBackground{word}": "set_background_colour" for word in ("Color", "Colour")},
        **{f"getPalette{word}": "palette" for word in ("Color", "Colour")},
        **{f"setPalette{word}": "set_palette" for word in ("Color", "Colour")},
        **{f"is{word}": "is_colour" for word in ("Color", "Colour")},
    }

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows at the present scale."""
        return int(self.width / self.scale), int(self.height / self.scale)

    def lines(self) -> list[str]:
        """What stands on it, row by row."""
        return [self.rows.get(row, "").rstrip() for row in range(1, self.size[1] + 1)]

    def do_write(self, _: Finder, value: object) -> None:
        """Write at the cursor; what does not fit is lost."""
        text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
        (x, y), (width, _height) = self.cursor, self.size
        row = self.rows.get(y, "").ljust(width)
        first = max(1, x)
        seen = text[first - x : max(0, width - x + 1)]
        self.rows[y] = row[: first - 1] + seen + row[first - 1 + len(seen) :]
        self.cursor = (x + len(text), y)

    def do_blit(self, finder: Finder, value: object, front: object, back: object) -> None:
        """Write, with a colour for each character."""
        if not isinstance(value, bytes) or not isinstance(front, bytes) or not isinstance(back, bytes):
            raise WorldError("bad argument #1 (string expected)")
        if not len(value) == len(front) == len(back):
            raise WorldError("Arguments must be the same length")
        self.do_write(finder, value)

    def do_clear(self, _: Finder) -> None:
        """Empty it."""
        self.rows.clear()

    def do_clearLine(self, _: Finder) -> None:
        """Empty the row of the cursor."""
        self.rows.pop(self.cursor[1], None)

    def do_scroll(self, _: Finder, count: object) -> None:
        """Move everything up."""
        self.rows = {row - number(count): text for row, text in self.rows.items() if row - number(count) >= 1}

    def do_getSize(self, _: Finder) -> tuple[int, int]:
        """Columns and rows."""
        return self.size

    def do_getCursorPos(self, _: Finder) -> tuple[int, int]:
        """Where the next text goes."""
        return self.cursor

    def do_setCursorPos(self, _: Finder, x: object, y: object) -> None:
        """Go to a place."""
        self.cursor = (number(x), number(y))

    def do_getCursorBlink(self, _: Finder) -> bool:
        """Whether the cursor blinks."""
        return self.blink

    def do_setCursorBlink(self, _: Finder, blink: object) -> None:
        """Let the cursor blink or not."""
        self.blink = bool(blink)

    def do_getTextScale(self, _: Finder) -> float:
        """How large the characters are."""
        return self.scale

    def do_setTextScale(self, _: Finder, scale: object) -> None:
        """Make the characters larger or smaller, in halves from 0.5 to 5."""
        if not isinstance(scale, int | float) or not 0.5 <= scale <= 5:
            raise WorldError("Expected number in range 0.5-5")
        self.scale = float(scale)

    def text_colour(self, _: Finder) -> int:
        """The colour of what is written."""
        return self.colours["Text"]

    def set_text_colour(self, _: Finder, colour: object) -> None:
        """Choose the colour of what is written."""
        self._set_colour("Text", colour)

    def background_colour(self, _: Finder) -> int:
        """The colour behind what is written."""
        return self.colours["Background"]

    def set_background_colour(self, _: Finder, colour: object) -> None:
        """Choose the colour behind what is written."""
        self._set_colour("Background", colour)

    def is_colour(self, _: Finder) -> bool:
        """Whether it has colours."""
        return self.colour

    def palette(self, _: Finder, colour: object) -> tuple[float, float, float]:
        """The light of a colour: red, green and blue from 0 to 1."""
        return self.lights[_colour(colour)]

    def set_palette(self, _: Finder, colour: object, red: object, green: object = None, blue: object = None) -> None:
        """Change the light of a colour: three numbers from 0 to 1, or all in one."""
        if green is None:
            self.lights[_colour(colour)] = _light(number(red))
        elif isinstance(red, int | float) and isinstance(green, int | float) and isinstance(blue, int | float):
            self.lights[_colour(colour)] = (float(red), float(green), float(blue))
        else:
            raise WorldError("bad argument #2 (number expected)")

    def _set_colour(self, which: str, colour: object) -> None:
        self.colours[which] = _colour(colour)


def _colour(value: object) -> int:
    if number(value) not in COLOURS:
        raise WorldError("Colour out of range")
    return number(value)
