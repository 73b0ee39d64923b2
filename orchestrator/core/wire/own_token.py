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
import struct
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Final

from orchestrator.core.wire.cells import NAME

Span = tuple[int, int]

_BLOCK: Final = 4
"""Characters that are looked up at once, at every fourth place: each piece of eight has such a block in it."""
_LEAST_PIECE: Final = 8
"""Characters of a piece that is found."""
_TAIL: Final = 400
"""Characters of the last text that the next one may go on from."""
_NO_PART: Final = re.compile(r"[^0-9A-Za-z]+")
_OTHER: Final = bytes(byte for byte in range(256) if not chr(byte).isascii() or not chr(byte).isalnum())
_LOWER: Final = bytes(range(256)).lower()
_PART: Final = re.compile(r"[0-9A-Za-z]")
_SIGN: Final = re.compile(rb"[-_]")
"""The characters of a token beside letters and digits."""
_PREFIX: Final = re.compile(rf"cc[a-z]_(?:{NAME}\.)?")
"""The beginning of a token of any holder, with its cell: not a secret."""
_NUMBER: Final = re.compile(r"^[ \t]*[0-9]{1,9}\|", re.M)
"""The text before each line of a file that is shown."""
_HEX: Final = re.compile(rb"[0-9a-f]+|(?:0?x[0-9a-f]{0,2})+")
_LOW: Final = "abcdefghijklmnopqrstuvwxyz"
_ROT13: Final = str.maketrans(_LOW + _LOW.upper(), _LOW[13:] + _LOW[:13] + _LOW[13:].upper() + _LOW[:13].upper())
_ROWS: Final = 50
"""Rows of the last texts below which a column may go on: those of a screen."""
_WIDTH: Final = 256
"""Columns of a screen at most."""
_SQUARE: Final = 4_096
"""Rows that are made as long as the longest at one time: a megabyte."""
_FEW: Final = 32
"""Blocks that are looked up one by one: making the set of all blocks of the forms takes longer."""
_KEPT: Final = 128
"""Computers for which the forms are kept, 200 kB each: for another one they are made again."""
_LEAST: Final = 16
"""Characters of a token that can be told from ordinary text."""


class Sight:
    """Finds pieces of some forms in texts."""

    def __init__(self, forms: Iterable[str]) -> None:
        every = tuple(dict.fromkeys(_ascii(form).lower() for form in forms))
        self._bare = b"\n".join(dict.fromkeys(_bare(form) for form in every))
        """The forms, letters and digits alone, a line each."""
        self._signed = b"\n".join(form for form in every if _SIGN.search(form))
        """The forms as they are written, for the pieces with a ``-`` or ``_`` in them."""

    @cached_property
    def _blocks(self) -> frozenset[int]:
        """Each block of the forms, as a number."""
        rows = (self._bare[skipped:] for skipped in range(_BLOCK))
        return frozenset(block for row in rows for block in _in_blocks(row))

    @cached_property
    def _signs(self) -> tuple[bytes, ...]:
        """Each block of the signed forms that begins or ends with its sign."""
        signed = self._signed
        starts = [at for sign in _SIGN.finditer(signed) for at in (sign.start() - _BLOCK + 1, sign.start())]
        blocks = dict.fromkeys(signed[max(0, at) : at + _BLOCK] for at in starts)
        return tuple(block for block in blocks if len(block) == _BLOCK and b"\n" not in block)

    def spans(self, text: str) -> list[Span]:
        """Where pieces stand, from left to right, each from its first letter to its last."""
        plain = _ascii(text)
        joined = _bare(plain)
        met = self._met(joined)
        found = list(self._found(joined, met)) if met else []
        has_sign = self._signed and (b"-" in plain or b"_" in plain)
        written = list(self._written(plain.lower())) if has_sign else []
        if not found:
            return _merged(written) if written else []
        places = [match.start() for match in _PART.finditer(text)]
        return _merged([*written, *((places[start], places[end - 1] + 1) for start, end in _merged(found))])

    def down(self, text: str) -> list[int]:
        """The places of pieces that are written down the columns of a text, a character in each row."""
        if text.count("\n") < _LEAST_PIECE - 1:
            return []
        rows = text.split("\n")
        width = max(map(len, rows))
        if width > _WIDTH:
            rows, width = [row[:_WIDTH] for row in rows], _WIDTH
        parts = [_columns(rows[at : at + _SQUARE], width) for at in range(0, len(rows), _SQUARE)]
        letters = [b"".join(column) for column in zip(*parts, strict=True)]
        joined = b"".join([one for one in letters if len(one) >= _LEAST_PIECE])
        met = self._met(joined)
        found = _merged(list(self._found(joined, met))) if met else []
        if not found:
            return []
        columns: dict[int, list[int]] = {}
        start = 0
        for row in text.split("\n"):
            for match in _PART.finditer(row, 0, _WIDTH):
                columns.setdefault(match.start(), []).append(start + match.start())
            start += len(row) + 1
        places = [place for _, column in sorted(columns.items()) if len(column) >= _LEAST_PIECE for place in column]
        return [place for first, end in found for place in places[first:end]]

    def _written(self, text: bytes) -> Iterator[Span]:
        """Pieces as they are written, whose signs are some of their eight characters."""
        # A piece has the three characters before its sign or the three after it.
        for block in self._signs:
            for at in _places(block, text):
                for form, place in _where(block, self._signed):
                    start, end = _grown(text, at, form, place)
                    if end - start >= _LEAST_PIECE:
                        yield start, end

    def _found(self, joined: bytes, met: Iterable[bytes]) -> Iterator[Span]:
        """Pieces by their letters and digits, around the blocks that were met."""
        for block in met:
            forms = list(_where(block, self._bare))
            for at in _places(block, joined):
                for form, place in forms if at % _BLOCK == 0 else ():
                    start, end = _grown(joined, at, form, place)
                    if end - start >= _LEAST_PIECE and end - start >= _least(joined[start:end]):
                        yield start, end

    def _met(self, joined: bytes) -> list[bytes]:
        """The blocks at fourth places that are blocks of a form as well."""
        blocks = _in_blocks(joined)
        if len(blocks) <= _FEW:
            every = [joined[at : at + _BLOCK] for at in range(0, len(blocks) * _BLOCK, _BLOCK)]
            return [block for block in dict.fromkeys(every) if block in self._bare]
        return [struct.pack("I", block) for block in self._blocks.intersection(blocks)]


def _in_blocks(text: bytes) -> memoryview:
    """The blocks at fourth places, each as a number."""
    return memoryview(text[: len(text) // _BLOCK * _BLOCK]).cast("I")


def _places(block: bytes, text: bytes) -> Iterator[int]:
    """Where a block stands, everywhere."""
    at = text.find(block)
    while at >= 0:
        yield at
        at = text.find(block, at + 1)


def _ascii(text: str) -> bytes:
    """A text with one byte for each of its characters."""
    return text.encode("ascii", "replace")


def _bare(text: bytes) -> bytes:
    """Letters and digits alone, in lower case."""
    return text.translate(_LOWER, _OTHER)


def _columns(rows: list[str], width: int) -> list[bytes]:
    """The letters and digits of each column."""
    # With all rows of one length, one after the other, a column is each ``width``-th character.
    square = _ascii(f"%-{width}s" * len(rows) % (*rows,))
    return [square[place::width].translate(_LOWER, _OTHER) for place in range(width)]


def _where(block: bytes, forms: bytes) -> Iterator[tuple[bytes, int]]:
    """Each form that has the block, with its place there; ``forms``: a line each."""
    for at in _places(block, forms):
        start, end = forms.rfind(b"\n", 0, at) + 1, forms.find(b"\n", at)
        yield forms[start : end if end >= 0 else None], at - start


def _grown(joined: bytes, at: int, form: bytes, place: int) -> Span:
    """The whole piece of a form of which a block was met."""
    start, end = at, at + _BLOCK
    while start and place and joined[start - 1] == form[place - 1]:
        start, place = start - 1, place - 1
    place += end - start
    while end < len(joined) and place < len(form) and joined[end] == form[place]:
        end, place = end + 1, place + 1
    return start, end


def _least(piece: bytes) -> int:
    """A piece of so many characters is not there by chance; hashes and tables of numbers have shorter ones too."""
    if piece.isdigit():
        return 18
    return 14 if _HEX.fullmatch(piece) else _LEAST_PIECE


@lru_cache(maxsize=_KEPT)
def _sight_of(token: str) -> Sight | None:
    """What finds a token; None: it is too short to be told from ordinary text."""
    return Sight(forms_of(token)) if len(token) >= _LEAST else None


class Watched:
    """What one computer says, text after text, without its token; remembers the end of the last text."""

    __slots__ = ("_rows", "_tail", "_token")

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
        found = [bare if len(bare := _NO_PART.sub("", piece)) >= _LEAST_PIECE else piece for piece in spans]
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
            self._rows = "\n".join(row[-_TAIL:] for row in (before + text).rsplit("\n", _ROWS)[-_ROWS:])
        places = sight.down(before + text)
        if not places:
            return text
        letters = list(text)
        for place in places:
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
