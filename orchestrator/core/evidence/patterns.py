"""The name of a file as a pattern, and tables of patterns.

Of a table only those are tried on a text whose words it has: most match in few texts, and a word is found many times
faster than a pattern.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar

FILE: Final = (
    r"(?<![\w/.:-])/?(?:[\w-]+/)*(?:[\w-]+\.){1,3}"
    r"(?:lua|txt|json|cfg|conf|ini|md|csv|tsv|log|dat|data|xml|ya?ml|toml|nfp|nft|bak|old|lst|db|te?mp|sav|nbs"
    r"|dfpwm|html|css|js|py|sh|rtf|backup|orig|pem|cache)(?!\w)"
)
POINT: Final = re.compile(r"\.\w")
"""What each name of a file has. A text without it gets none by plainer words."""
_Row = TypeVar("_Row")


def with_file(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """The matches of a pattern that has a file in it."""
    return pattern.finditer(text) if POINT.search(text) else iter(())


class Worded:
    """A long pattern, which is tried on a text only where the text has one of its words."""

    def __init__(self, pattern: str, flags: re.RegexFlag) -> None:
        self._pattern = re.compile(pattern, flags)
        self._words = needed(pattern) or ("",)

    def search(self, text: str) -> re.Match[str] | None:
        """The first match."""
        return self._pattern.search(text) if self._may_match(text) else None

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """All matches."""
        return self._pattern.finditer(text) if self._may_match(text) else iter(())

    def _may_match(self, text: str) -> bool:
        return any(map(folded(text).__contains__, self._words))


class Rows(Generic[_Row]):
    """Patterns in their order, each with what belongs to it."""

    def __init__(self, rows: Iterable[tuple[re.Pattern[str], _Row]]) -> None:
        self._rows = tuple(rows)
        self._by_word: dict[str, list[int]] = {}
        """The rows that need a word, or another one instead."""
        for at, (pattern, _) in enumerate(self._rows):
            for word in needed(pattern.pattern) or ("",):
                self._by_word.setdefault(word, []).append(at)

    def of(self, text: str) -> Iterator[tuple[re.Pattern[str], _Row]]:
        """The rows that may match in a text."""
        return (self._rows[at] for at in sorted(self._open(text)))

    def put(self, text: str, form: Callable[[re.Pattern[str], _Row, str], str]) -> str:
        """The text after each row, one after the other, was put into its form."""
        may = self._open(text)
        for at, row in enumerate(self._rows):
            if at in may and (changed := form(*row, text)) != text:
                text, may = changed, self._open(changed)
        return text

    def _open(self, text: str) -> set[int]:
        text = folded(text)
        return {at for word, rows in self._by_word.items() if word in text for at in rows}


def folded(text: str) -> str:
    """The text with all letters small, as far as a pattern that ignores case takes them for the same."""
    return text.lower() if text.isascii() else text.translate(_ALSO).lower()


_ALSO: Final = {0x130: "i", 0x131: "i", 0x17F: "s"}
"""Letters that such a pattern takes for others, and whose small letters are not these."""
_PIECE: Final = re.compile(
    r"(?P<letters>[^\W\d_]+(?![*?{]))|(?:\[\^?(?:\\.|[^\]\\])+\]|\\(?:u[\da-f]{4}|.)|\(\?p=\w+\)|[^\w()|\\\[])+"
    r"|(?P<open>\((?:\?(?:p<\w+>|[\w-]*:|<?[=!]))?)|(?P<bar>\|)|(?P<close>\)(?P<optional>[*?]|\{0?,|\{0\})?)|.",
    re.DOTALL,
)
"""A piece of a folded pattern: letters that each match has, what makes a group, or something else."""
_NONE: Final = frozenset[str]()


def needed(pattern: str) -> frozenset[str]:
    """Texts of which each match of a pattern has one, folded; empty: none is known."""
    return _needed(_PIECE.finditer(folded(pattern.replace(FILE, "."))))


def _needed(pieces: Iterator[re.Match[str]]) -> frozenset[str]:
    """The same of the group that these pieces begin with: of each of its ways, the texts that are longest."""
    ways = [_NONE]
    for piece in pieces:
        match piece.lastgroup:
            case None:
                continue
            case "letters":
                found = frozenset({piece[0]})
            case "open":
                inside = _needed(pieces)
                found = _NONE if piece[0].endswith("!") else inside
            case "bar":
                ways.append(_NONE)
                continue
            case _:
                ways += [_NONE] if piece["optional"] else []
                break
        ways[-1] = max(ways[-1], found, key=_shortest)
    return _NONE.union(*ways) if all(ways) else _NONE


def _shortest(words: frozenset[str]) -> int:
    return min(map(len, words), default=0)
