"""Secrets that look like ones without being sure: hosted models are kept from them, and people see them.

Views for people show them, because program text that somebody hides looks like a key, too. For a model a wrong guess
costs little: the marker of the text becomes the text again where the model uses it.
"""

import re
from collections.abc import Iterator
from typing import Final

from orchestrator.core.text.redact import MARKER
from orchestrator.core.text.secret_names import (
    Span,
    changes_case,
    is_key_name,
    is_plain,
    is_secret_name,
    looks_random,
)

_PUBLIC_PART: Final = re.compile(
    r"""-----BEGIN[ ](?P<kind>(?:[A-Z0-9]{1,20}[ ]){0,4}(?:PUBLIC[ ]KEY(?:[ ]BLOCK)?|CERTIFICATE))-----
        [^-]*+(?:-(?!----)[^-]*+)*
      | \A[^-]*+(?:-(?!----)[^-]*+)*(?=-----END[ ](?:[A-Z0-9]{1,20}[ ]){0,4}(?:PUBLIC[ ]KEY|CERTIFICATE))
      | \b(?:ssh-|ecdsa-|sk-ssh-|sk-ecdsa-)[\w@.-]{1,60}[ ]AAAA[\w+/=]*+
      | sha[0-9]{1,3}-[\w+/=]*+
      | data:[\w/+.-]{1,60};base64,[\w+/=]*+""",
    re.X,
)
_TOKEN: Final = re.compile(r"(?:(?<=\\)[abfnrtvz])?(?P<token>[\w+/-]{16,}+={0,2})", re.A)
"""Letters that keys are written in, as many as may be one."""
_CORE: Final = re.compile(r"[A-Za-z0-9]{16,}+")
_MIXED: Final = re.compile(r"(?=.*\+)[A-Za-z0-9+/]{40,}={0,2}")
"""What a key of AWS may be, whose longest piece without signs may be short."""
_SEGMENT: Final = re.compile(r"[^/]+")
_FOLDER: Final = re.compile(r"[a-z_-]*")
_SPEAKS_OF_SECRETS: Final = re.compile(
    r"pass|pwd|psk|secret|tokens?\b|credential|keys?\b|bearer|authorization|cookie|kennwort|contrase|_pat\b|zugang",
    re.I,
)
_LONGEST_WORD: Final = 20
"""Small letters of the longest word that people write in one piece."""
_BEFORE_AT: Final = re.compile(
    r"""(?P<scheme>(?<![a-z+])[a-z][a-z+]{1,19}__)?(?<![^\s:/"'`<>()\[\]{}_])(?P<secret>[^\s:/@"'`<>()\[\]{}]{8,200})@(?=[\w.-])"""
)
"""What stands before the host of an address. In the name of a file ``__`` stands for ``://``."""
_AFTER_NAME: Final = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{1,80})(?P<between>[\\"'`>\]]{0,4}[ \t]{0,9}(?:=>|:=|[:=])?[ \t]{0,9}[\\"'`(\[{]{0,4})
        (?<![\w.-])(?P<secret>[^\s"'`<>()\[\]{},;|\\]{8,200}+)(?![(\[])""",
    re.X,
)
_QUOTED: Final = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{1,80})\\{0,7}["']?\]?[ \t]{0,9}(?:[=~]=|=>|:=|[:=])[ \t]{0,9}(?:
        (?P<quote>\\{0,7}["'])(?P<secret>(?:(?!(?<!\\)(?P=quote))\S){4,200})(?P=quote)
        |\[\[(?P<long>[^\s\]]{4,200})\]\])""",
    re.X,
)
_CODE_SIGNS: Final = re.compile(r"""[(\[{"'`=]""")
_PASSPHRASE: Final = re.compile(r"[a-z]+(?:-[a-z]+){2,}")
_WELL_FORMED: Final = re.compile(r"[A-Z]?[a-z]+(?:[A-Z][a-z]+)*[0-9]{0,2}|[A-Z]+[0-9]{0,2}|[0-9]{1,3}|")
"""Words, names of programs and small numbers: pieces of text that nobody made up for a lock."""
_PIECES: Final = re.compile(r"[A-Za-z0-9]+")
_JOINED: Final = re.compile(r"[+&]|%[0-9A-F]{2}")
_GOES_ON: Final = re.compile(r"\s*[-*|+]|[^A-Za-z0-9]*$")
"""A line of a list or a table, or of signs alone: it is about the subject of the line above."""
_CHAIN: Final = re.compile(r"[A-Za-z_]\w*[a-z_](?:[.:][A-Za-z_]\w*)+")
_HEX: Final = re.compile(r"0x[0-9A-Fa-f]+")
_MADE_UP_WORD: Final = re.compile(r"(?<!\[redacted )[!#$%&*+.?@^\w~-]{8,100}+(?!\()", re.A)
_SHORTEST: Final = 8
"""Characters of a value that may be made up."""


def made_up_pieces(text: str) -> Iterator[Span]:
    """Where pieces stand that only a generator of keys writes: small letters, large ones and digits in no order."""
    public = [part.span() for part in _PUBLIC_PART.finditer(text)]
    for found in _TOKEN.finditer(text):
        start, end = found.span("token")
        if any(begin < end and start < over for begin, over in public):
            continue
        token = found["token"]
        if any(is_generated(core) for core in _CORE.findall(token)) or (
            _MIXED.fullmatch(token) and is_generated(token)
        ):
            odd = [one for one in _SEGMENT.finditer(found["token"]) if not _FOLDER.fullmatch(one.group())]
            yield start + odd[0].start(), start + odd[-1].end()


def beside_names(text: str) -> Iterator[Span]:
    """Where made-up words stand behind the name of a secret, on its line and on the next; and before ``@``."""
    for found in _BEFORE_AT.finditer(text):
        if found["scheme"] or looks_random(found["secret"]) or has_odd_piece(found["secret"]):
            yield found.span("secret")
    if not _SPEAKS_OF_SECRETS.search(text):
        return
    public = [part.span() for part in _PUBLIC_PART.finditer(text)]
    for start, end in (*_right_behind_names(text), *_on_lines_of_names(text)):
        if not any(begin < end and start < over for begin, over in public):
            yield start, end


def _right_behind_names(text: str) -> Iterator[Span]:
    """Values that are no word and no name of a program, right behind the name of a secret."""
    position = 0
    while found := _AFTER_NAME.search(text, position):
        value, name, between = found["secret"], found["name"], found["between"]
        position = found.start("secret")
        is_named = is_secret_name(name) or (is_key_name(name) and not between.isspace())
        if between and is_named and _may_be_value(value):
            position = found.end("secret")
            yield found.span("secret")


def quoted_values(text: str) -> Iterator[Span]:
    """Values in quotes behind the name of a secret that could be code, which people are therefore shown."""
    for found in _QUOTED.finditer(text):
        start, end = found.span("secret" if found["quote"] else "long")
        may_be_code = _CODE_SIGNS.search(text, start, end) and not MARKER.search(text, start, end)
        if may_be_code and is_secret_name(found["name"]) and not is_plain(text[start:end]):
            yield start, end


def _may_be_value(value: str) -> bool:
    if MARKER.search(value) or _HEX.fullmatch(value) or _SPEAKS_OF_SECRETS.search(value) or ".." in value:
        return False
    if _PASSPHRASE.fullmatch(value):
        return True
    return has_odd_piece(value) or (looks_random(value) and not _CHAIN.fullmatch(value))


def _on_lines_of_names(text: str) -> Iterator[Span]:
    speaks = False
    for line in re.finditer(r"[^\n]+", text):
        content = line.group()
        spoke, speaks = speaks, _SPEAKS_OF_SECRETS.search(content) is not None
        for word in _MADE_UP_WORD.finditer(text, *line.span()) if speaks or spoke else ():
            quoted = text[word.start() - 1 : word.start()] in ("'", '"')
            if _is_made_up_word(word.group(), quoted=quoted):
                yield word.span()
        speaks = speaks or (spoke and _GOES_ON.match(content) is not None)


def _is_made_up_word(word: str, *, quoted: bool) -> bool:
    if _HEX.fullmatch(word):
        return False
    is_long = any(one.isalpha() and one.islower() and len(one) > _LONGEST_WORD for one in _JOINED.split(word))
    return is_long or (looks_random(word) and (changes_case(word) or (quoted and has_odd_piece(word))))


def has_odd_piece(value: str) -> bool:
    """Whether a value has letters in an order of cases that no word and no name of a program has."""
    return any(_is_odd(piece) for piece in _PIECES.findall(value) if len(piece) > 1)


def _is_odd(piece: str) -> bool:
    large = sum(map(str.isupper, piece))
    has_short_words = not piece.isupper() and len(piece) >= _SHORTEST and large * 3 >= len(piece)
    return has_short_words or not _WELL_FORMED.fullmatch(piece)


def is_generated(text: str) -> bool:
    """Whether a text has letters of each kind and digits, in no order; the alphabet of base64 has an order."""
    return changes_case(text) and all(re.search(letters, text) for letters in ("[a-z]", "[A-Z]", "[0-9]"))
