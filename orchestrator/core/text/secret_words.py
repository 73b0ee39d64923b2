"""Words by which a name is that of a secret, and words and signs by which a value is or is not a secret."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Final

_SECRET_WORDS: Final = frozenset({
    "password", "passwords", "passwd", "passphrase", "passcode", "pass", "pwd", "pw", "secret", "secrets",
    "token", "authorization", "credential", "credentials", "privkey", "psk", "passwort", "kennwort", "contrasena",
})  # fmt: skip
_SECRET_ENDS: Final = (
    "password",
    "passwd",
    "passphrase",
    "authtoken",
    "accesstoken",
    "apitoken",
    "bottoken",
    "motdepasse",
    "clientkeydata",
    "secretkeybase",
)
_KEYS: Final = (
    "api",
    "private",
    "secret",
    "access",
    "signing",
    "encryption",
    "auth",
    "shared",
    "account",
    "master",
    "ssh",
)
_SECRET_KEYS: Final = tuple(f"{kind}key" for kind in _KEYS)
_PERHAPS_KEYS: Final = tuple(
    f"{kind}key"
    for kind in ("rednet", "modem", "network", "cipher", "crypt", "crypto", "hmac", "aes", "license", "licence",
                 "session", "deploy", "wallet", "webhook")
)  # fmt: skip
_PERHAPS: Final = frozenset({"cookie", "auth", "sid", "sessionid", "pepper", "totpseed", "otpseed"})
"""What is a secret where it looks made up; ``auth = "basic"`` and ``cookie = "chocolate"`` are not secrets."""
_PIN_CODES: Final = frozenset(
    f"{what}code"
    for what in ("pin", "door", "lock", "safe", "vault", "unlock", "security", "entry", "access", "keypad", "secret")
)
_NO_SECRET_TOKENS: Final = frozenset({
    "next", "current", "cur", "last", "prev", "previous", "peek", "start", "end", "eof", "page", "expected",
    "lookahead", "lexer", "parser",
})  # fmt: skip
"""``next_token`` is a word of a parser or a page of a listing."""
WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_WITHOUT_TILDE: Final = str.maketrans("ñÑ", "nN")
NAME_CHARS: Final = 80
"""Characters of a longer name that are looked at, from its end: the word that tells is there."""
_LONG: Final = 16
"""Characters of a word that is made up even where it has letters alone."""
_PLAIN: Final = re.compile(
    r"""\W* | [<{].* | \$(?-i:[A-Z0-9_]+|[a-z0-9_]+|[{(].*) | %(?!2[0-9A-F]|3D)(?-i:(?!.*[0-9])|(?!.*[A-Z])).*
      | (?:change|replace)[_ -]?(?:me|it|this)\W* | placeholder | \w+_here
      | x{3,} | \.{3} | your[ _-].* | (?:enter|type|please|wrong|invalid|incorrect)\b.* | (?:\D*|.*\s.*)[:?]\s*
      | (?-i:[a-z_]{2,}:[a-z_/]+) | nil | null | none | true | false | undefined | token\W*
      | (?:bearer|basic|token|digest)\ ?
      | \S+(?:[ ]\S+){5,} | (?-i:[A-Z])[a-z']*(?:[ ][\w',-]+){2,}[.!?]+""",
    re.X | re.I | re.S,
)
"""Values that are not secrets: signs alone, placeholders, prompts, sentences, names of items (``minecraft:cookie``)."""
_WORDS: Final = re.compile(r"[a-z]+(?:_[a-z]+)+[0-9]{0,2}")
_RUNS: Final = re.compile(r"""(?<!\w)\w++\s*+(?:[({\["'`]|=(?!=*$))""")
"""A name with a call, an index or an assignment behind it."""


_ODD_LETTERS: Final = re.compile("[\u0130\u0131\u017f\u212a]")
"""Letters that a search without case takes for ``i``, ``s`` and ``k``, though they are no case of these."""


def may_have(text: str, stems: tuple[str, ...]) -> bool:
    """Whether a search without case for one of these stems, in small letters, may find something in a text.

    It takes a tenth of the time of such a search, and most texts have none of the stems.
    """
    return has_one(text.lower(), stems) or has_odd_letters(text)


def has_one(text: str, pieces: Iterable[str]) -> bool:
    """Whether one of some pieces is in a text. Not ``any``, which takes twice as long for so little."""
    for piece in pieces:  # noqa: SIM110 - see above
        if piece in text:
            return True
    return False


def has_odd_letters(text: str) -> bool:
    """Whether a text has letters that a search without case finds and its small letters do not show."""
    return not text.isascii() and _ODD_LETTERS.search(text) is not None


def is_secret_name(name: str) -> bool:
    """Whether what has this name is a secret: its last word says so, in any spelling."""
    words = words_of(name)
    if not words or name == "PWD":
        return False
    last, both = words[-1], "".join(words[-2:])
    if last == "token" and len(words) > 1 and words[-2] in _NO_SECRET_TOKENS:
        return False
    return last in _SECRET_WORDS or "".join(words[-3:]).endswith(_SECRET_ENDS) or both.endswith(_SECRET_KEYS)


def is_key_name(name: str) -> bool:
    """Whether a name ends in the word ``key``, which may be of a lock, a table or a keyboard."""
    return words_of(name)[-1:] == ("key",)


def is_perhaps_secret(name: str) -> bool:
    """Whether what has this name is a secret where it looks made up."""
    words = words_of(name)
    both = "".join(words[-2:])
    return words != () and (words[-1] in _PERHAPS or both in _PERHAPS or both.endswith(_PERHAPS_KEYS))


def is_pin(name: str) -> bool:
    """Whether what has this name is a secret where it is a number of at least four digits."""
    words = words_of(name)
    return words[-1:] == ("pin",) or "".join(words[-2:]) in _PIN_CODES


def words_of(name: str) -> tuple[str, ...]:
    """The words at the end of a name, in small letters: ``apiKey`` and ``api_key`` are two."""
    return _words(name[-NAME_CHARS:])


@lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    """The same; a text has few names, and each many times."""
    return tuple(word.lower() for word in WORD.findall(name.translate(_WITHOUT_TILDE)))


def looks_random(value: str) -> bool:
    """Whether a bare word looks made up for a lock: letters with digits, or signs that no program has there."""
    mixed = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    return (mixed and len(value) >= 6) or any(char in "@!$" for char in value)


def is_made_up(value: str) -> bool:
    """Whether a value is surely no word: one piece, of letters with digits, or of letters in no order of cases."""
    if len(value) < 8 or any(char.isspace() for char in value):
        return False
    return looks_random(value) or (len(value) >= _LONG and changes_case(value))


def changes_case(value: str) -> bool:
    """Whether small letters, large ones and others follow each other as in no word: each third sign is another kind."""
    kinds = [(char.isupper(), char.islower()) for char in value]
    return sum(one != other for one, other in pairwise(kinds)) * 3 >= len(value)


def is_passed(name: str, value: str) -> bool:
    """Whether a value is a name of a program, and the word before it a verb: ``pass force_zip64``."""
    return name.lower() == "pass" and _WORDS.fullmatch(value) is not None


def is_number(value: str) -> bool:
    """Whether a value is a number of at least four digits."""
    return len(value) >= 4 and value.isdecimal()


def may_hide(value: str) -> bool:
    """Whether a value in a text may be hidden: it is not plain and cannot be code."""
    return not is_plain(value) and not _RUNS.search(value)


def is_plain(value: str) -> bool:
    """Whether a value is surely no secret: signs alone, a placeholder, a prompt, a sentence, the name of an item."""
    return _PLAIN.fullmatch(value) is not None
