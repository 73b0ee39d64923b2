"""What is wrong with a Lua text, and the exception that carries it out of the parser."""

from dataclasses import dataclass
from typing import Final

MAX_SENTENCE: Final = 300
"""Characters; a model reads the sentence in a small window."""


@dataclass(frozen=True)
class Finding:
    """A syntax error: the place, what the compiler would say, and what to write instead."""

    line: int
    """Counted from 1."""
    column: int
    """In characters, counted from 1."""
    message: str
    """In the words of Lua's compilers: ``'end' expected (to close 'if' at line 3) near <eof>``."""
    advice: str = ""
    """What Lua wants here; empty: the message says all that is known."""
    name: str = "file.lua"

    @property
    def sentence(self) -> str:
        """One text for a model or a person, at most 300 characters: ``file.lua:3: … . …``."""
        head = f"{self.name}:{self.line}: {self.message}."
        whole = f"{head} {self.advice}" if self.advice else head
        return whole if len(whole) <= MAX_SENTENCE else f"{whole[: MAX_SENTENCE - 1]}…"

    def __str__(self) -> str:
        return self.sentence


class Refused(Exception):
    """The text is not Lua; ``at`` is the index of a token, None: the present one."""

    def __init__(self, message: str, at: int | None = None, *, near: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.near = near
