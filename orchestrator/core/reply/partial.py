"""What can be shown of a reply that is still coming: its explanation and its message, nothing else.

Theory. The text is taken in as it comes and looked at once. Before the reply's object everything is
passed over, prose and ``<think>`` blocks alike. Inside it, brackets are counted outside of strings, so
that only strings directly below the object are told; an escape is held back until it is whole. The
scanner is no reader: it takes what is not JSON for what it looks most like, and nothing that it
tells is ever run.
"""

import re
from typing import Final, Literal, cast

Shown = Literal["explanation", "message"]

_SHOWN: Final = frozenset({"explanation", "message"})
_KEY_CHARS: Final = 16
"""Of a key this much is kept: enough to know the two from every other."""

_START: Final = re.compile(r"\{|<think>")
_TAIL: Final = len("</think>") - 1
"""So much of what was passed over may be the beginning of a mark."""
_MARK: Final = re.compile(r'["{}\[\],]')
_PLAIN: Final = re.compile(r'[^"\\]+')
_LOW: Final = "[dD][c-fC-F][0-9a-fA-F]{2}"
_HIGH: Final = "[dD][89abAB][0-9a-fA-F]{2}"
_ESCAPE: Final = re.compile(rf"\\u({_HIGH})\\u({_LOW})|\\u([0-9a-fA-F]{{4}})|\\(.)", re.DOTALL)
_UNFINISHED: Final = re.compile(
    rf"\\(?:u(?:[0-9a-fA-F]{{0,3}}|{_HIGH}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?)?)?"
)
"""An escape that the next part may go on with; a high surrogate waits for its other half."""
_CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class PartialReply:
    """The scanner of one reply. Time is linear in the text, memory is a few characters."""

    def __init__(self) -> None:
        self._held = ""
        self._place: Literal["before", "thought", "object", "string", "after"] = "before"
        self._depth = 0
        self._key: str | None = None
        """The key at the top whose value is due; None: a key is."""
        self._reads_key = False
        self._told = False
        self._parts: list[tuple[Shown, list[str]]] = []

    def feed(self, text: str) -> list[tuple[Shown, str]]:
        """What the next part of the reply adds to either string, decoded and in order.

        Never raises; half of a surrogate pair is told as U+FFFD.
        """
        self._parts = []
        text, self._held = self._held + text, ""
        at = 0
        while at < len(text) and self._place != "after":
            if self._place == "object":
                at = self._structure(text, at)
            elif self._place == "string":
                at = self._string(text, at)
            else:
                at = self._pass_over(text, at)
        return [(key, "".join(parts)) for key, parts in self._parts]

    def _pass_over(self, text: str, at: int) -> int:
        if self._place == "thought":
            end = text.find("</think>", at)
            if end >= 0:
                self._place = "before"
                return end + len("</think>")
        else:
            found = _START.search(text, at)
            if found is not None:
                self._place, self._depth = ("object", 1) if found.group() == "{" else ("thought", 0)
                self._key = None
                return found.end()
        self._held = text[max(at, len(text) - _TAIL) :]
        return len(text)

    def _structure(self, text: str, at: int) -> int:
        found = _MARK.search(text, at)
        if found is None:
            return len(text)
        mark = found.group()
        if mark == '"':
            self._place = "string"
            self._reads_key = self._depth == 1 and self._key is None
            if self._reads_key:
                self._key = ""
        elif mark == ",":
            self._key = None if self._depth == 1 else self._key
        else:
            self._depth += 1 if mark in "{[" else -1
            if self._depth == 0:
                self._place = "after" if self._told else "before"
        return found.end()

    def _string(self, text: str, at: int) -> int:
        plain = _PLAIN.match(text, at)
        if plain is not None:
            self._take(plain.group())
            return plain.end()
        if text[at] == '"':
            self._place = "object"
            return at + 1
        if _UNFINISHED.fullmatch(text, at):
            self._held = text[at:]
            return len(text)
        escape = cast("re.Match[str]", _ESCAPE.match(text, at))
        self._take(_decoded(escape))
        return escape.end()

    def _take(self, piece: str) -> None:
        if self._reads_key:
            self._key = ((self._key or "") + piece)[:_KEY_CHARS]
        elif self._depth == 1 and self._key in _SHOWN:
            self._tell(cast("Shown", self._key), _SURROGATE.sub("\ufffd", piece))

    def _tell(self, key: Shown, piece: str) -> None:
        self._told = True
        if not self._parts or self._parts[-1][0] != key:
            self._parts.append((key, []))
        self._parts[-1][1].append(piece)


def _decoded(escape: re.Match[str]) -> str:
    high, low, unit, other = escape.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00))
    return chr(int(unit, 16)) if unit else _CONTROLS.get(other, other)
