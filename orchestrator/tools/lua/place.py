"""The place of a syntax error, as the rules of advice look at it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.tools.lua.dialect import Dialect
from orchestrator.tools.lua.lexer import EOF, Tokens

SHOWN: Final = 40
"""Characters of the code that a sentence repeats."""
_INDENTATION: Final = re.compile(r"[ \t]{0,200}")
_TARGET: Final = re.compile(r"(?<![A-Za-z0-9_.\]])[A-Za-z_][A-Za-z0-9_.]*(?:\[[^\[\]]*\])?$")


@dataclass(frozen=True)
class Place:
    """Where the error stands."""

    tokens: Tokens
    at: int
    message: str
    dialect: Dialect
    closed: Sequence[tuple[int, int]]
    """The tokens that opened and closed each block, as far as they are read."""

    def indentation(self, index: int) -> int:
        """How far the line of a token is indented, in characters, at most 200."""
        begin = self.tokens.line_start(index)
        blank = _INDENTATION.match(self.tokens.text, begin)
        return blank.end() - begin if blank else 0

    def kind(self, offset: int = 0) -> str:
        index = self.at + offset
        return self.tokens.kinds[index] if 0 <= index < len(self.tokens.kinds) else EOF

    def text(self, offset: int = 0) -> str:
        index = self.at + offset
        return self.tokens.texts[index] if 0 <= index < len(self.tokens.texts) else ""

    def joined(self, offset: int) -> bool:
        """Whether no space stands between the token at the offset and the next."""
        index = self.at + offset
        starts = self.tokens.starts
        return 0 <= index < len(starts) - 1 and starts[index] + len(self.tokens.texts[index]) == starts[index + 1]

    def starts_line(self, offset: int = 0) -> bool:
        """Whether the token at the offset is the first of its line."""
        index = self.at + offset
        return index <= 0 or self.tokens.line(index) != self.tokens.line(index - 1)

    def is_colon(self, index: int) -> bool:
        """Whether a token is a colon that is the error, or that ends its line."""
        if self.tokens.kinds[index] != ":":
            return False
        return index == self.at or self.tokens.newline_before(index + 1)

    def left_of(self, offset: int) -> str:
        """The name that ends before the token at the offset, with its fields, if it is short; else ``x``."""
        end = self.tokens.starts[self.at + offset]
        begin = max(self.tokens.line_start(self.at + offset), end - SHOWN)
        named = _TARGET.search(self.tokens.text[begin:end].rstrip())
        return named[0] if named else "x"
