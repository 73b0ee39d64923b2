"""A name with the fields behind it, as the parser sees it: ``peripheral.wrap``, ``_G.turtle``, ``t.dig``."""

from typing import Literal

How = Literal["read", "test", "index", "call", "method", "assign"]
"""``index``: by a key that is not constant, so that what follows is not known."""


class Local:
    """A local variable."""

    __slots__ = ("alias", "function", "kept", "name", "since")

    def __init__(self, name: str, function: object) -> None:
        self.name = name
        self.function = function
        """The function that declares it."""
        self.alias: Chain | None = None
        """The names that it was made from: ``turtle`` after ``local t = turtle``."""
        self.since = 0
        """The token at which its scope begins."""
        self.kept = True
        """It is never assigned again."""


class Chain:
    """A name and constant fields."""

    __slots__ = ("end", "fields", "guarded", "how", "name", "root", "start")

    def __init__(self, name: str, root: Local | None, start: int) -> None:
        self.name = name
        self.root = root
        """The local that the name means; None: it is a global."""
        self.start = start
        """Index of its first token."""
        self.end = start + 1
        """Index of the token after it."""
        self.fields: list[str] = []
        self.how: How = "read"
        self.guarded = False
        """It stands in a function that is given to ``pcall``: it may be there only to see whether it works."""
