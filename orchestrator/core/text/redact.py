"""Secrets taken out of what people are shown, and put back into what they send.

Theory. Views, notices and exports of the audit pass through :func:`redact`; items, digests and the
call that runs keep every byte (promises V4, A8). Each secret becomes a marker, ``[redacted 1a2b3c4d]``,
which is the same for the same secret and salt, so that a reviewer sees what equals what, and
:func:`restore` finds the secret of each marker in an edited view. A text is searched until nothing
more is found; a marker that stands is one sign to the search, so a second redaction changes nothing.

The salt keeps short secrets from being guessed from their marker: give a new secret one to each process
or request, never a constant.

It finds secrets by shape (``secret_shapes``) and by name (``secret_names``). It does not find a secret that has
neither, one that is spread over several strings or encoded, and one that a program computes. Text that could be code
stays visible.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from pydantic import JsonValue

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.secret_names import Span, named_secrets
from orchestrator.core.text.secret_shapes import is_pairing_code, shaped_secrets
from orchestrator.core.text.secret_words import (
    changes_case,
    is_key_name,
    is_passed,
    is_plain,
    is_secret_name,
    looks_random,
    may_have,
)

# -- Secrets taken out of what people are shown, and put back into what they send --------

MARKER: Final = re.compile(r"\[redacted [0-9a-f]{8}\]")
_HIDDEN: Final = "[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*+"
"""What nobody sees: letters of no width, which a copy may have."""
_REDACTED: Final = rf"{_HIDDEN}".join("redacted")
_BROKEN: Final = re.compile(
    rf"""\[\s{{0,9}}{_HIDDEN}{_REDACTED}(?:(?![\w])|_?[0-9a-f]{{3}})[^\[\]\n]{{0,20}}\]?
      | (?<!\w){_REDACTED}[\s:_-]{{0,9}}(?:
        [0-9a-f]{{8}}(?![0-9a-z]) | (?:[0-9a-f]{{2,8}})?\s?(?:…|\.\.\.)\s?[\])])[\])}}>]?""",
    re.X | re.I,
)
"""What was a marker: in other letters, without its brackets or its number, or with something inside."""
_ROUNDS: Final = 3
"""Rounds of a search, after which whole lines are hidden: text that needs more is made to cost time."""
_STAND_INS: Final = range(0x20000, 0x110000)
"""One that is not in the text stands for each marker while it is searched: a rare letter, so that what is
called or given a value behind a marker still looks so."""

_MOST_KEPT: Final = 4_000
"""Characters of a text whose search is kept: of all of them about two million."""

_COMMON_CHARS: Final = 40
"""Characters of a key that may be one of many answers."""

PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{0,19}|[0-9a-f]*|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.+Z-]{0,25}")
"""Words, digests and times, which is most of what is searched: no shape is so short, and nothing in them is a name."""


def damaged_in(text: str) -> set[str]:
    """The first text that looks like a marker and is not one."""
    if text.isascii() and not may_have(text, ("redacted",)):
        return set()
    return {match.group() for match in _BROKEN.finditer(MARKER.sub("\0", text))}


def redact(value: JsonValue, *, salt: str) -> JsonValue:
    """The value with every secret in it as a marker, at every depth, in keys too; all else is as it was."""
    return Redactor(salt).value(value)


def redact_text(text: str, *, salt: str) -> str:
    """The text with every secret in it as a marker."""
    return Redactor(salt).text(text)


def restore(edited: JsonValue, original: JsonValue, *, salt: str) -> JsonValue:
    """An edited view with the secrets of ``original`` back in place of their markers.

    ``salt`` is the one that the view was made with. Raises InvalidRequest for a marker that is of no
    secret of the original, that was damaged, or that could mean two things.
    """
    known = Redactor(salt)
    known.value(original)
    allowed = {one for text in texts_of(original) for one in damaged_in(text)}

    def put_back(text: str) -> str:
        if damaged := damaged_in(text) - allowed:
            raise InvalidRequest(
                f"What begins with {min(damaged)[:20]!r} was a marker of a secret and is damaged.",
                remedy="Leave each marker as it was shown, or write a new secret in its place.",
            )
        return MARKER.sub(lambda match: known.secret(match.group()), text)

    return _mapped(edited, put_back)


class Redactor:
    """Redacts with one salt, and remembers what each marker stands for."""

    def __init__(self, salt: str) -> None:
        self._salt = _bytes(salt)
        self.meant: dict[str, set[str]] = {}

    def secret(self, marker: str) -> str:
        """The secret of a marker. Raises InvalidRequest unless the marker has exactly one."""
        meant = self.meant.get(marker, set())
        if len(meant) != 1:
            what = "could mean two things" if meant else "is of no secret of this request"
            raise InvalidRequest(
                f"The marker {marker} {what}.",
                remedy="Load the request again and edit what it shows then, or write the secret itself.",
            )
        return next(iter(meant))

    def value(self, value: JsonValue, *, secret: bool = False) -> JsonValue:
        """Redacted; ``secret``: all texts in it are secret by the name that it has."""
        if isinstance(value, str):
            return self.whole(value) if secret else self.text(value)
        if isinstance(value, list):
            return [self.value(item, secret=secret or _is_flagged(value, index)) for index, item in enumerate(value)]
        if isinstance(value, dict):
            return self._object(value, secret)
        return value

    def text(self, text: str) -> str:
        """The text redacted by its own content."""
        if PLAIN.fullmatch(text):
            return text
        stand_in = _stand_in(text)
        hidden = MARKER.findall(text)
        shown = MARKER.sub(stand_in, text)
        # Taking out one secret can free the edge of the next. It ends: each round leaves less to find.
        rounds = 0
        while spans := _merged(shown, stand_in):
            rounds += 1
            spans = _hull(shown, spans) if rounds > _ROUNDS else spans
            shown, hidden = _taken_out(shown, stand_in, hidden, spans)
        return self._with_markers(shown, stand_in, hidden)

    def _object(self, value: dict[str, JsonValue], secret: bool) -> JsonValue:
        of_pair = any(isinstance(name := value.get(field), str) and is_secret_name(name) for field in ("name", "key"))
        shown: dict[str, JsonValue] = {}
        for key, item in value.items():
            code = key == "code" and isinstance(item, str) and is_pairing_code(item)
            common = len(key) <= _COMMON_CHARS and _is_common(key)
            named = secret or code or (of_pair and key == "value") or (not common and is_secret_name(key))
            name = key if common else self.text(key)
            while name in shown:
                name += "*"
            shown[name] = self.value(item, secret=named)
        return shown

    def whole(self, text: str) -> str:
        """The marker of a text that is secret as a whole; an empty one and a marker stay."""
        if not text or MARKER.fullmatch(text):
            return self.literal(text)
        marker = f"[redacted {hmac.new(self._salt, _bytes(text), hashlib.sha256).hexdigest()[:8]}]"
        self.meant.setdefault(marker, set()).add(text)
        return marker

    def literal(self, text: str) -> str:
        """A marker that stood in the text already means itself."""
        self.meant.setdefault(text, set()).add(text)
        return text

    def _with_markers(self, shown: str, stand_in: str, hidden: list[str]) -> str:
        markers = [self.whole(secret) for secret in hidden]
        first, *rest = shown.split(stand_in)
        return first + "".join(marker + piece for marker, piece in zip(markers, rest, strict=True))


@lru_cache(maxsize=1024)
def _is_common(key: str) -> bool:
    """Whether a key stays as it is and names no secret; kept, since most answers have the same keys."""
    return PLAIN.fullmatch(key) is not None and not is_secret_name(key)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _stand_in(text: str) -> str:
    """A sign that is not in the text: there are more of them than a text has room for."""
    used = set() if text.isascii() else set(text)
    return next(chr(code) for code in _STAND_INS if chr(code) not in used)


def _merged(text: str, stand_in: str) -> list[Span]:
    """Where the secrets stand, from left to right, those that overlap as one; a stand-in alone does not count."""
    spans = _searched(text) if len(text) <= _MOST_KEPT else _searched.__wrapped__(text)
    return [(start, end) for start, end in spans if text[start:end] != stand_in]


@lru_cache(maxsize=512)
def _searched(text: str) -> list[Span]:
    """Where the secrets of a text stand; kept, since a text of a call is in several items, a request and a view."""
    return apart([*named_secrets(text), *shaped_secrets(text)])


def apart(spans: list[Span]) -> list[Span]:
    """Spans from left to right, those that overlap as one."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _hull(text: str, spans: list[Span]) -> list[Span]:
    """All lines from the first secret to the last, as one."""
    end = text.find("\n", spans[-1][1])
    return [(text.rfind("\n", 0, spans[0][0]) + 1, end if end >= 0 else len(text))]


def _taken_out(text: str, stand_in: str, hidden: list[str], spans: list[Span]) -> tuple[str, list[str]]:
    """The text with a stand-in for each span, and what all its stand-ins hide now, in their order."""
    left, pieces, now, position = iter(hidden), [], [], 0
    for start, end in spans:
        before = text[position:start]
        now += [next(left) for _ in range(before.count(stand_in))]
        first, *rest = text[start:end].split(stand_in)
        now.append(first + "".join(next(left) + piece for piece in rest))
        pieces += [before, stand_in]
        position = end
    return "".join((*pieces, text[position:])), [*now, *left]


def _is_flagged(items: list[JsonValue], index: int) -> bool:
    """Whether the item before is a flag or a setting whose value is secret: ``--password``, ``door.password``."""
    before = items[index - 1] if index else None
    return isinstance(before, str) and (before.startswith("-") or "." in before) and is_secret_name(before)


def texts_of(value: JsonValue) -> Iterator[str]:
    """Every text in a value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts_of(item)


def _mapped(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    """The value with every text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {change(key): _mapped(item, change) for key, item in value.items()}
    return value


# -- Secrets that look like ones without being sure: hosted models are kept from them, and people see them
#
# Views for people show them, because program text that somebody hides looks like a key, too. For a model a wrong
# guess costs little: the marker of the text becomes the text again where the model uses it.

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
_MIXED: Final = re.compile(r"(?=.*\+)[A-Za-z0-9+/]{40,}={0,2}|[A-Za-z0-9/]{40}")
"""A possible key of AWS, whose longest piece without signs may be short."""
_SEGMENT: Final = re.compile(r"[^/]+")
_FOLDER: Final = re.compile(r"[a-z_-]*")
_SPEAKS_OF_SECRETS: Final = re.compile(
    r"pass|pwd|psk|secret|tokens?\b|credential|keys?\b|bearer|authorization|cookie|kennwort|contrase|_pat\b|zugang",
    re.I,
)
_SECRET_STEMS: Final = (
    "pass", "pwd", "psk", "secret", "token", "credential", "key", "bearer", "authorization", "cookie", "kennwort",
    "contrase", "_pat", "zugang",
)  # fmt: skip
"""The beginnings of these."""
_LONGEST_WORD: Final = 20
"""Small letters of the longest word that people write in one piece."""
_BEFORE_AT: Final = re.compile(
    r"""(?P<scheme>(?<![a-z+])[a-z][a-z+]{1,19}__)?(?<![^\s:/"'`<>()\[\]{}_])
        (?P<secret>[^\s:/@"'`<>()\[\]{}]{8,200})@(?=[\w.-])(?!v?[0-9]+(?:\.[0-9]+){0,2}(?![\w.]))""",
    re.X,
)
"""The text before the host of an address, not before a version (``proc-macro2@1.0.9``). In the name of a file ``__``
stands for ``://``."""
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
_NAMES: Final = re.compile(
    r"(?:[a-z_]+\.)*(?-i:[A-Z]+(?:[_-][A-Z]+)+[0-9]{0,2})|(?:(?:ctrl|control|shift|alt|cmd|meta|super|win)[+-])+\w{1,9}",
    re.I,
)
"""Names of constants and of keys that are pressed: ``AF_INET6``, ``ctrl+shift+f5``."""
_CAMEL: Final = re.compile(r"[a-z]{2,}(?:[A-Z][a-z]{2,}|[0-9]{1,2}(?![0-9]))+")
"""A name of a program whose pieces are words, ``sizeEndCentDir64``; a generator writes one in thousands."""
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
        if any(is_generated(core) and not _CAMEL.fullmatch(core) for core in _CORE.findall(token)) or (
            _MIXED.fullmatch(token) and is_generated(token.replace("/", "")) and has_odd_piece(token)
        ):
            odd = [one for one in _SEGMENT.finditer(found["token"]) if not _FOLDER.fullmatch(one.group())]
            yield start + odd[0].start(), start + odd[-1].end()


def beside_names(text: str) -> Iterator[Span]:
    """Where made-up words are behind the name of a secret, on its line and on the next; and before ``@``."""
    for found in _BEFORE_AT.finditer(text) if "@" in text else ():
        if found["scheme"] or looks_random(found["secret"]) or has_odd_piece(found["secret"]):
            yield found.span("secret")
    if not may_have(text, _SECRET_STEMS) or not _SPEAKS_OF_SECRETS.search(text):
        return
    public = [part.span() for part in _PUBLIC_PART.finditer(text)]
    for start, end in (*_right_behind_names(text), *_on_lines_of_names(text)):
        if not any(begin < end and start < over for begin, over in public):
            yield start, end


def _right_behind_names(text: str) -> Iterator[Span]:
    """Values that are neither a word nor a name of a program, right behind the name of a secret."""
    position = 0
    while found := _AFTER_NAME.search(text, position):
        value, name, between = found["secret"], found["name"], found["between"]
        position = found.start("secret")
        is_loose = between.isspace()
        is_named = is_secret_name(name) or (is_key_name(name) and not is_loose)
        if between and is_named and _may_be_value(value) and not (is_loose and is_passed(name, value)):
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
    if _HEX.fullmatch(word) or _NAMES.fullmatch(word):
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
