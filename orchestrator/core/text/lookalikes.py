# ruff: noqa: RUF001 - letters that look like others are its subject
"""Names that people take for one another: by what letters look like, not by what they are.

A decision and the audit name people. So a new name may not look like one that is there, such as ``r1ta``, ``RITA`` or
the same word in Cyrillic letters beside ``rita``. Letters of two scripts in one name are refused.
"""

import unicodedata
from collections.abc import Iterable
from typing import Final

_FAR: Final = frozenset({"ARABIC", "DEVANAGARI", "GEORGIAN", "HANGUL", "HEBREW", "THAI"})
"""Scripts whose letters are not taken for those of others."""
_JAPANESE: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA"})
"""Scripts that are written together."""
_NEAR: Final = frozenset({"LATIN", "CYRILLIC", "GREEK"})
_LATIN: Final = {"æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "þ": "p", "ı": "i", "ħ": "h", "ŧ": "t"}
"""Latin letters that are not an ASCII letter with a mark; others, such as those of phonetics, are refused."""
_LOOKS_LIKE: Final = str.maketrans(
    dict(
        zip(
            "аеорсхуіѕјһԁԛԝкмтвнгпьӏѵзАВЕЗІЈКМНОРСТУХЅԚԜӀЬ"
            + "αβγεζηικμνορτυχωΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"
            + "ҽօϳჿოყ"
            + "וןا"
            + "ーニエカロトハタヘりチ"
            + "015|_.",
            "aeopcxyisjhdqwkmtbhrnblv3ABE3IJKMHOPCTYXSQWlb"
            + "abyezniKmvoptuxwABEZHIKMNOPTYX"
            + "eojooy"
            + "lll"
            + "一二工力口卜八夕へリ千"
            + "olsl--",
            strict=True,
        )
    )
    | _LATIN
)

_TAKEN_FOR_OTHERS: Final = "The name {!r} has letters that can be taken for others."
_NUMBER_WORDS: Final = frozenset("一二三四五六七八九十百千万")
"""Chinese characters that are numbers, and parts of names."""


def skeleton(name: str) -> str:
    """What a name looks like: names with the same skeleton are taken for one another."""
    plain = unicodedata.normalize("NFKD", name)
    letters = "".join(char for char in plain if not unicodedata.combining(char))
    folded = letters.translate(_LOOKS_LIKE).casefold().translate(_LOOKS_LIKE)
    return folded.replace("rn", "m").replace("vv", "w").replace("i", "l").strip("-")


_RESERVED: Final = frozenset(
    skeleton(word)
    for word in (
        *("system", "orchestrator", "model", "policy"),
        *("reviewer", "requester", "not_requester"),
    )
)
"""Identities of the program itself and words of its settings, as they look."""


def why_not(name: str, present: Iterable[str]) -> str:
    """Why a new name may not are beside those that are there, as a sentence; empty: it may.

    A name that is there already may be given again: it is one more token of the same holder.
    """
    names = set(present)
    if name in names:
        return ""
    odd = _odd_letters(name)
    if odd:
        return odd
    looks = skeleton(name)
    if not looks or looks in _RESERVED:
        return f"The name {name!r} is not free: messages and the audit use such a word for the program itself."
    twin = min((one for one in names if skeleton(one) == looks), default=None)
    if twin is not None:
        return f"The name {name!r} looks like {twin!r}, which is there already."
    return _TAKEN_FOR_OTHERS.format(name) if unicodedata.normalize("NFKC", name) != name else ""


def why_not_beside(name: str, others: Iterable[str], kind: str) -> str:
    """Why a name may not be given beside those of another kind, such as ``program``; empty: it may."""
    looks = skeleton(name)
    twin = min((one for one in others if skeleton(one) == looks), default=None)
    return "" if twin is None else f"The name {name!r} is taken: it looks like {twin!r}, the name of a {kind}."


def _odd_letters(name: str) -> str:
    # A vowel sign of Devanagari or Thai is not a letter by itself, and its script is that of the letters beside it.
    letters = [char for char in unicodedata.normalize("NFKC", name) if char.isalpha() or is_mark(char)]
    if any(char.isnumeric() and not char.isascii() and char not in _NUMBER_WORDS for char in name):
        return f"The name {name!r} has digits that can be taken for letters or for other digits."
    scripts = {unicodedata.name(char, "?").split(" ")[0].split("-")[0] for char in letters}
    if len(scripts) > 1 and not scripts <= _JAPANESE:
        return f"The name {name!r} mixes letters of two scripts: {' and '.join(sorted(scripts)).lower()}."
    if not scripts <= _NEAR | _FAR | _JAPANESE or (scripts == {"LATIN"} and not all(map(_is_usual, letters))):
        return _TAKEN_FOR_OTHERS.format(name)
    return ""


def is_mark(char: str) -> bool:
    """Whether a character is a vowel sign or another sign that a script needs, such as Devanagari or Thai.

    Accents that are combined with any letter, and signs that nobody sees, do not count.
    """
    return unicodedata.category(char) in ("Mn", "Mc") and unicodedata.name(char).split(" ")[0] in _FAR


def _is_usual(letter: str) -> bool:
    return unicodedata.normalize("NFKD", letter)[0].isascii() or letter.lower() in _LATIN
