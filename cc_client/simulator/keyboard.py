"""The player's hands: what is typed reaches the computer key by key, and lines only when it asks for one."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

KEYS: Final = {
    **{"enter": 257, "tab": 258, "backspace": 259, "insert": 260, "delete": 261, "right": 262, "left": 263},
    **{"down": 264, "up": 265, "pageUp": 266, "pageDown": 267, "home": 268, "end": 269, "leftCtrl": 341},
}
"""The keys that have a name and no character."""
_WITH_KEY: Final = frozenset(b" ',-./;=[\\]`0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""Characters whose key has the character's own number."""


@dataclass
class Keyboard:
    """Keys that were pressed and lines that are to be typed."""

    _wake: Callable[[], None] = lambda: None
    _events: deque[tuple[Any, ...]] = field(default_factory=deque)
    _lines: deque[str] = field(default_factory=deque)

    def begin(self, wake: Callable[[], None]) -> None:
        """A boot begins: keys of the one before are lost, lines are not; ``wake`` is called when there is more."""
        self._events.clear()
        self._wake = wake

    def type_line(self, text: str) -> None:
        """Type a line, and enter, as soon as the cursor blinks."""
        self._lines.append(text)
        self._wake()

    def press(self, name: str) -> None:
        """Press a key now, by its name or its character. Raises ValueError for one that is not known."""
        if name in KEYS:
            self._events += [(b"key", KEYS[name], False), (b"key_up", KEYS[name])]
        elif len(name) == 1:
            self._strike(name)
        else:
            raise ValueError(f"there is no key {name}; say a character or one of {', '.join(KEYS)}")
        self._wake()

    def next_event(self, *, asked: bool) -> tuple[Any, ...] | None:
        """The next event of the keyboard; a new line begins only where the computer asks for one."""
        if not self._events and asked and self._lines:
            for char in self._lines.popleft():
                self._strike(char)
            self._events += [(b"key", KEYS["enter"], False), (b"key_up", KEYS["enter"])]
        return self._events.popleft() if self._events else None

    def _strike(self, char: str) -> None:
        byte = char.encode("latin-1", "replace")
        code = byte.upper()[0]
        if code in _WITH_KEY:
            self._events.append((b"key", code, False))
        self._events.append((b"char", byte))
        if code in _WITH_KEY:
            self._events.append((b"key_up", code))
