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
    is_made_up,
    is_plain,
    is_secret_name,
    looks_random,
)

_BEGIN: Final = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----|-----BEGIN OpenVPN|^Private-Lines: \d+"
)
_END: Final = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----|-----END OpenVPN|^Private-MAC:")
_PUBLIC: Final = re.compile(
    r"-----(?P<end>BEGIN|END) (?:[A-Z0-9]{1,20} ){0,4}(?:PUBLIC KEY(?: BLOCK)?|CERTIFICATE)-----"
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
_HEADER: Final = re.compile(r"[-+ \t]{0,40}[A-Z][\w-]{1,30}: ")
"""What stands between the beginning of a key and its letters: ``Proc-Type: 4,ENCRYPTED``."""
_OF_KEY: Final = re.compile(
    r"""[-+ \t]{0,40}["']?(?P<secret>[A-Za-z0-9+/]{1,100}={0,2})["']?\s*(?:\\|,|\.\.|(?:--|\#)[^\n]*)?"""
)
_PIECE_OF_KEY: Final = re.compile(r"[A-Za-z0-9+/]{4,}={0,2}")
"""A key whose lines were joined by blanks has such pieces between its beginning and its end."""
_FULL_LINES: Final = (64, 70, 76)
"""Characters of a whole line of a key, by the programs that write keys."""
_WHOLE_LINE: Final = re.compile(
    rf"(?<![\w+/=-])(?:{'|'.join(f'[A-Za-z0-9+/]{{{chars}}}' for chars in _FULL_LINES)})(?![\w+/=-])"
)

_ENV_LINE: Final = re.compile(
    r"""^[ \t]*(?:\#[ ]?)?(?:(?:export|set|setx|declare)[ ]+(?:-x[ ]+)?)?[A-Za-z_][\w.-]*[ ]?(?:\+?=|:[ ])[ ]?
        (?P<quote>["']?)(?P<secret>[^\n"']+)(?P=quote)""",
    re.M | re.X,
)
_ENV_PLAIN: Final = re.compile(
    r"""[A-Za-z]{1,12} | [0-9]{1,9} | [0-9]+[.,:][0-9.,:]{1,12} | [A-Za-z](?:(?![A-Za-z]{16})[\w ])*[A-Za-z]
      | (?:[a-z]+://)?(?:[A-Za-z0-9-]+\.)*(?:(?![A-Za-z]{16})[A-Za-z-])+(?::\d+)?(?:/[A-Za-z_./-]*)?
      | [~.]?/[\w./-]*""",
    re.X,
)
"""Words, numbers, hosts and paths: what a ``.env`` has beside its secrets."""
_TOKEN: Final = re.compile(r"(?:(?<=\\)[abfnrtvz])?(?P<token>[\w+/-]{16,}+={0,2})", re.A)
"""Letters that keys are written in, as many as may be one."""
_CORE: Final = re.compile(r"[A-Za-z0-9]{16,}+")
_SEGMENT: Final = re.compile(r"[^/]+")
_FOLDER: Final = re.compile(r"[a-z_-]*")
_SPEAKS_OF_SECRETS: Final = re.compile(
    r"pass|pwd|psk|secret|tokens?\b|credential|keys?\b|bearer|authorization|cookie",
    re.I,
)
_LONGEST_WORD: Final = 20
"""Small letters of the longest word that people write in one piece."""
_ONE_WORD: Final = re.compile(r"[\w-]+")
_ENV_REST: Final = re.compile(r"^[ \t]*(?P<secret>[^\s#\"'=:][^\s\"'=:]*)[ \t\r]*$", re.M)
"""A line of a ``.env`` without a name: a value of several lines goes on."""
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
_SHORTEST_SETTING: Final = 3


def _is_secret_setting(value: str) -> bool:
    """Whether a value of a ``.env`` may be secret: it is no word, number, host or path, and no marker."""
    value = value.strip()
    made_up = (
        _ONE_WORD.fullmatch(value)
        and len(value) >= _SHORTEST
        and (_has_odd_piece(value) or ("-" not in value and is_made_up(value)))
    )
    plain = _ENV_PLAIN.fullmatch(value) and not made_up
    return len(value) >= _SHORTEST_SETTING and not plain and not MARKER.fullmatch(value)


def env_values(text: str) -> Iterator[Span]:
    """Where values of a ``.env`` stand that may be secret, whatever their names are."""
    for one in (*_ENV_LINE.finditer(text), *_ENV_REST.finditer(text)):
        if _is_secret_setting(one["secret"]):
            yield one.span("secret")


def made_up_pieces(text: str) -> Iterator[Span]:
    """Where pieces stand that only a generator of keys writes: small letters, large ones and digits in no order."""
    public = [part.span() for part in _PUBLIC_PART.finditer(text)]
    for found in _TOKEN.finditer(text):
        start, end = found.span("token")
        if any(begin < end and start < over for begin, over in public):
            continue
        if any(_is_generated(core) for core in _CORE.findall(found["token"])):
            odd = [one for one in _SEGMENT.finditer(found["token"]) if not _FOLDER.fullmatch(one.group())]
            yield start + odd[0].start(), start + odd[-1].end()


def beside_names(text: str) -> Iterator[Span]:
    """Where made-up words stand behind the name of a secret, on its line and on the next; and before ``@``."""
    for found in _BEFORE_AT.finditer(text):
        if found["scheme"] or looks_random(found["secret"]) or _has_odd_piece(found["secret"]):
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
    return _has_odd_piece(value) or (looks_random(value) and not _CHAIN.fullmatch(value))


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
    return is_long or (looks_random(word) and (changes_case(word) or (quoted and _has_odd_piece(word))))


def _has_odd_piece(value: str) -> bool:
    """Whether a value has letters in an order of cases that no word and no name of a program has."""
    return any(_is_odd(piece) for piece in _PIECES.findall(value) if len(piece) > 1)


def _is_odd(piece: str) -> bool:
    large = sum(map(str.isupper, piece))
    has_short_words = not piece.isupper() and len(piece) >= _SHORTEST and large * _SHORTEST_SETTING >= len(piece)
    return has_short_words or not _WELL_FORMED.fullmatch(piece)


def key_lines(text: str) -> Iterator[Span]:
    """Where the lines of private keys stand, also of keys of which only a part is there."""
    if not re.search(r"PRIVATE KEY|OpenVPN|Private-|[A-Za-z0-9+/]{64}", text):
        return
    inside = public = False
    run: list[Span] = []
    """Lines that may be of a key whose beginning was not seen."""
    for line in re.finditer(r"[^\n]*", text):
        content = line.group()
        found = _OF_KEY.fullmatch(content)
        if known := _PUBLIC.search(content):
            # What stands before an end whose beginning was not seen is public, too.
            inside, public, run = False, known["end"] == "BEGIN", []
        elif public and (found or _WHOLE_LINE.search(content)):
            continue
        elif begun := _BEGIN.search(content):
            ends = _END.search(content, begun.end())
            inside, run = not ends, []
            if ends:
                joined = _PIECE_OF_KEY.finditer(content, begun.end(), ends.start())
                yield from ((line.start() + one.start(), line.start() + one.end()) for one in joined)
        elif _END.search(content):
            yield from run
            inside, run = False, []
        elif inside and (found or not content.strip() or _HEADER.match(content)):
            if found:
                yield line.start() + found.start("secret"), line.start() + found.end("secret")
        elif found and _may_be_of_key(found["secret"]):
            run.append((line.start() + found.start("secret"), line.start() + found.end("secret")))
        elif content:
            yield from run if _has_key(text, run) else ()
            yield from (one.span() for one in _WHOLE_LINE.finditer(text, *line.span()) if _is_generated(one.group()))
            inside, run = False, []
    yield from run if _has_key(text, run) else ()


def _may_be_of_key(line: str) -> bool:
    return len(line) in _FULL_LINES or line.endswith("=") or any(char.isdigit() for char in line)


def _has_key(text: str, run: list[Span]) -> bool:
    """Whether lines without a beginning and an end are of a key: one is whole, and of mixed letters."""
    return any(end - start in _FULL_LINES and _is_generated(text[start:end]) for start, end in run)


def _is_generated(text: str) -> bool:
    """Whether a text has letters of each kind and digits, in no order; the alphabet of base64 has an order."""
    return changes_case(text) and all(re.search(letters, text) for letters in ("[a-z]", "[A-Z]", "[0-9]"))
