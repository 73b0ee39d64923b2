"""A computer's own token in its messages, in every form that a program can easily give it.

Theory. Programs that an agent starts share the computer with the token, so whatever a computer says is searched for it.
Letters and digits alone are compared, whatever their case: then spaces, hyphens, line ends and escapes between them
hide nothing. A text is read down its columns as well, as a screen shows it. The forms are the token, reversed, rotated
(ROT13), as hexadecimal and decimal bytes and as Base64 at each of its three alignments, and the reverse of each. A
piece of eight characters is found as well, so that a token in pieces is found in each of them; pieces that are shorter
are put together over several texts by :class:`Watched`.

What is not found: what a program encrypts, compresses, counts out or writes at a slant, and pieces of less than eight
characters in texts of which others are between.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import zip_longest
from typing import Final

Span = tuple[int, int]

_WINDOW: Final = 7
"""Characters that are looked up at once: with every second place of a text all pieces of eight are met."""
_TAIL: Final = 400
"""Characters of the last text that the next one may go on from."""
_NO_PART: Final = re.compile(r"[^0-9A-Za-z]+")
_PART: Final = re.compile(r"[0-9A-Za-z]")
_SIGN: Final = re.compile(r"[-_]")
"""The characters of a token beside letters and digits."""
_PREFIX: Final = re.compile(r"cc[a-z]_")
"""The beginning of a token of any holder: not a secret."""
_NUMBER: Final = re.compile(r"^[ \t]*[0-9]{1,9}\|", re.M)
"""The text before each line of a file that is shown."""
_HEX: Final = re.compile(r"[0-9a-f]+|(?:0?x[0-9a-f]{0,2})+")
_LOW: Final = "abcdefghijklmnopqrstuvwxyz"
_ROT13: Final = str.maketrans(_LOW + _LOW.upper(), _LOW[13:] + _LOW[:13] + _LOW[13:].upper() + _LOW[:13].upper())
_ROWS: Final = 50
"""Rows of the last texts below which a column may go on: those of a screen."""
_WIDTH: Final = 256
"""Columns of a screen at most."""
_SLOTS: Final = 1 << 16
"""Slots for the windows of all forms, some thousands: a window of another text meets a taken one now and then."""
_WORTH: Final = 2_000
"""Windows that are looked up one by one before the slots are made, which takes as long."""
_KEPT: Final = 128
"""Computers for which the forms are kept: for another one they are made again, in a third of a millisecond."""
_LEAST: Final = 16
"""Characters of a token that can be told from ordinary text."""


class Sight:
    """Finds pieces of some forms in texts."""

    def __init__(self, forms: Iterable[str]) -> None:
        every = tuple(dict.fromkeys(form.lower() for form in forms))
        self._bare = "\n".join(dict.fromkeys(_NO_PART.sub("", form) for form in every))
        """The forms, letters and digits alone, a line each."""
        self._signed = "\n".join(form for form in every if _SIGN.search(form))
        """The forms as they are written, for the windows with a ``-`` or ``_`` in them."""
        self._taken = bytearray()
        """A slot for each window of the forms; empty until so many were looked up that making it is worth it."""
        self._asked = 0

    def spans(self, text: str) -> list[Span]:
        """Where pieces stand, from left to right, each from its first letter to its last."""
        joined = _NO_PART.sub("", text).lower()
        found = list(self._found(joined))
        written = list(self._written(text.lower())) if self._signed else []
        if not found:
            return _merged(written)
        places = [match.start() for match in _PART.finditer(text)]
        return _merged([*written, *((places[start], places[end - 1] + 1) for start, end in _merged(found))])

    def down(self, text: str) -> list[int]:
        """The places of pieces that are written down the columns of a text, a character in each row."""
        if text.count("\n") < _WINDOW:
            return []
        rows = [row[:_WIDTH] for row in text.split("\n")]
        letters = [_NO_PART.sub("", "".join(column)) for column in zip_longest(*rows, fillvalue="")]
        joined = "".join([one for one in letters if len(one) > _WINDOW]).lower()
        if not any(joined[at : at + _WINDOW] in self._bare for at in self._met(joined)):
            return []
        columns: dict[int, list[int]] = {}
        start = 0
        for row in text.split("\n"):
            for match in _PART.finditer(row, 0, _WIDTH):
                columns.setdefault(match.start(), []).append(start + match.start())
            start += len(row) + 1
        places = [place for _, column in sorted(columns.items()) if len(column) > _WINDOW for place in column]
        return [place for first, end in _merged(list(self._found(joined))) for place in places[first:end]]

    def _written(self, text: str) -> Iterator[Span]:
        """Pieces as they are written, whose signs are some of their eight characters."""
        for sign in _SIGN.finditer(text):
            for at in range(max(0, sign.start() - _WINDOW + 1), sign.end()):
                for form, place in _where(text[at : at + _WINDOW], self._signed):
                    start, end = _grown(text, at, form, place)
                    if end - start > _WINDOW:
                        yield start, end

    def _found(self, joined: str) -> Iterator[Span]:
        for at in self._met(joined):
            for form, place in _where(joined[at : at + _WINDOW], self._bare):
                start, end = _grown(joined, at, form, place)
                if end - start >= _least(joined[start:end]):
                    yield start, end

    def _met(self, joined: str) -> list[int]:
        """Where a window of a form stands, or seems to."""
        places, bare = range(0, len(joined) - _WINDOW + 1, 2), self._bare
        self._asked += len(places)
        if not self._taken and self._asked > _WORTH:
            # Not a dictionary of all windows: that takes 1.5 MB, and each computer has its own.
            taken = bytearray(_SLOTS)
            for at in range(len(bare) - _WINDOW + 1):
                taken[hash(bare[at : at + _WINDOW]) % _SLOTS] = 1
            # Only once it is whole: a large body is searched in a thread beside.
            self._taken = taken
        if taken := self._taken:
            return [at for at in places if taken[hash(joined[at : at + _WINDOW]) % _SLOTS]]
        return [at for at in places if joined[at : at + _WINDOW] in bare]


def _where(window: str, forms: str) -> Iterator[tuple[str, int]]:
    """Each form that has the window, with its place there; ``forms``: a line each."""
    at = forms.find(window) if len(window) == _WINDOW and "\n" not in window else -1
    while at >= 0:
        start, end = forms.rfind("\n", 0, at) + 1, forms.find("\n", at)
        yield forms[start : end if end >= 0 else None], at - start
        at = forms.find(window, at + 1)


def _grown(joined: str, at: int, form: str, place: int) -> Span:
    """The whole piece of a form of which a window was met."""
    start, end = at, at + _WINDOW
    while start and place and joined[start - 1] == form[place - 1]:
        start, place = start - 1, place - 1
    place += end - start
    while end < len(joined) and place < len(form) and joined[end] == form[place]:
        end, place = end + 1, place + 1
    return start, end


def _least(piece: str) -> int:
    """A piece of so many characters is not there by chance; hashes and tables of numbers have shorter ones too."""
    if piece.isdecimal():
        return 18
    return 14 if _HEX.fullmatch(piece) else _WINDOW + 1


@lru_cache(maxsize=_KEPT)
def _sight_of(token: str) -> Sight | None:
    """What finds a token; None: it is too short to be told from ordinary text."""
    return Sight(forms_of(token)) if len(token) >= _LEAST else None


class Watched:
    """What one computer says, text after text, without its token; remembers the end of the last text."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._tail = ""
        self._rows = ""

    def pieces(self, text: str) -> tuple[str, ...]:
        """The pieces that are in a text: those that :func:`hidden` takes out.

        The pieces as letters and digits alone; those that have too few of them, as they are written.
        """
        sight = _sight_of(self._token)
        if sight is None:
            return ()
        spans = [text[start:end] for start, end in sight.spans(text)]
        found = [bare if len(bare := _NO_PART.sub("", piece)) > _WINDOW else piece for piece in spans]
        down = "".join([text[place] for place in sight.down(text)])
        return tuple(dict.fromkeys([*found, *([down] if down else [])]))

    def starred(self, text: str, *, follows: bool = False) -> str:
        """The text with a star for each character of the token, so that all other places stay.

        ``follows``: the text goes on where the last one ended, so that a piece may have begun there.
        """
        sight = _sight_of(self._token)
        if sight is None:
            return text
        before = self._tail if follows else ""
        if follows:
            self._tail = (before + text)[-_TAIL:]
        for start, end in sight.spans(before + text):
            first, last = max(0, start - len(before)), end - len(before)
            if last > 0:
                text = text[:first] + "*" * (last - first) + text[last:]
        return self._starred_down(text, sight, follows=follows)

    def _starred_down(self, text: str, sight: Sight, *, follows: bool) -> str:
        before = self._rows if follows else ""
        if follows:
            self._rows = "\n".join(row[-_TAIL:] for row in (before + text).split("\n")[-_ROWS:])
        letters = list(text)
        for place in sight.down(before + text):
            if place >= len(before):
                letters[place - len(before)] = "*"
        return "".join(letters)


SHOWN: Final = "[the computer's own token is not shown]"


def hidden(text: str, pieces: Iterable[str]) -> str:
    """A text without these pieces, each said to be left out; one that has them letter by letter is left out whole."""
    sight = Sight(pieces)
    for start, end in reversed(sight.spans(text)):
        text = f"{text[:start]}{SHOWN}{text[end:]}"
    # Line numbers are between the letters of one that was written down the page.
    bare = _NUMBER.sub("", text)
    return SHOWN if sight.spans(bare) or sight.down(bare) else text


def forms_of(token: str) -> tuple[str, ...]:
    """The forms of a token in which it is looked for, without the part that is the same for all."""
    secret = _PREFIX.sub("", token, count=1)
    both = (secret, secret[::-1])
    forms = [form for one in both for form in (one, one.translate(_ROT13))]
    for one in both:
        data = one.encode()
        forms += [data.hex(), "".join(f"x{byte:02x}" for byte in data), "".join(f"0x{byte:02x}" for byte in data)]
        forms += ["".join(str(byte) for byte in data), "".join(f"{byte:03d}" for byte in data)]
        for skipped in range(3):
            coded = base64.b64encode(b"\0" * skipped + data).decode()
            # The characters at both ends hold bits of the text beside the token.
            forms.append(coded[0 if not skipped else skipped + 1 : len(data) * 4 // 3])
    return tuple({*forms, *(form[::-1] for form in forms)})


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
