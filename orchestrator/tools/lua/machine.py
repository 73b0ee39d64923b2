"""The parser's machine: a list of things still to do instead of recursion.

Lua allows 200 nested levels and each is several calls deep in a recursive parser, more than Python's own limit bears
when the caller stands deep already. So each rule of the grammar is a method that reads what it can, writes down what
is to be done afterwards, and returns: :meth:`Machine.run` takes the last thing written down. Only such methods, never
the rules they call, may start another rule directly.
"""

from collections.abc import Callable
from typing import Any, Final

from orchestrator.tools.lua.lexer import BAD, EOF, NAME, STRING, Dialect, Refused, Tokens
from orchestrator.tools.lua.scopes import Chain, How, Scopes

MAX_LEVELS: Final = 200
_COMPARISONS: Final = frozenset({"==", "~="})
_OPERATORS: Final = frozenset({"+", "-", "*", "/", "%", "^", "..", "#", "<", ">", "<=", ">="})
_CALLABLE: Final = frozenset({NAME, STRING, ")", "]", "}"})
"""The name for the part that a following ``(`` calls."""
_CHOOSERS: Final = frozenset({"and", "or", "not"})


class Machine:
    """Tokens, the place among them, and what is still to do."""

    def __init__(self, tokens: Tokens, dialect: Dialect) -> None:
        self.tokens = tokens
        self.kinds = tokens.kinds
        self.dialect = dialect
        self.scopes = Scopes(dialect)
        self.index = 0
        self.kind = tokens.kinds[0]
        self.level = 0
        self.todo: list[tuple[Callable[[Any], None], Any]] = []
        self.uses: list[Chain] = []
        """Every chain that is rooted in a global, or in a local that stands for one."""
        self.chain: Chain | None = None
        """The chain just read, of which it is not known yet what is done with it."""
        self.last_read: Chain | None = None
        self.closed: list[tuple[int, int]] = []
        """The tokens that opened and closed each block."""

    def run(self) -> None:
        """Do all that is written down."""
        todo = self.todo
        while todo:
            step, data = todo.pop()
            step(data)

    def advance(self) -> None:
        self.index += 1
        self.kind = self.kinds[self.index]

    def expect(self, kind: str) -> None:
        """Go past a token that has to stand here."""
        if self.kind != kind:
            raise self.expected(f"'{kind}'")
        self.advance()

    def expect_name(self) -> str:
        if self.kind != NAME:
            raise self.expected("<name>")
        name = self.tokens.texts[self.index]
        self.advance()
        return name

    def expect_closing(self, kind: str, opening: int) -> None:
        """Go past the token that closes what the token at ``opening`` opened."""
        if self.kind != kind:
            line = self.tokens.line(opening)
            same = line == self.tokens.line(self.index)
            opener = self.tokens.texts[opening]
            raise self.expected(f"'{kind}'", "" if same else f" (to close '{opener}' at line {line})")
        if kind == "end":
            self.closed.append((opening, self.index))
        self.advance()

    def expected(self, what: str, closing: str = "") -> Refused:
        return self.refused(f"{what} expected{closing}")

    def refused(self, message: str) -> Refused:
        """The complaint about the present token; for a bad token, the complaint of the token itself."""
        if self.kind == BAD:
            return Refused(self.tokens.complaint)
        return Refused(message)

    def deeper(self) -> None:
        self.level += 1
        self.check_level(self.level)

    def check_level(self, level: int) -> None:
        if level > MAX_LEVELS:
            raise Refused(f"chunk has too many syntax levels ({MAX_LEVELS} is the limit)", near=False)

    def settle(self, chain: Chain, how: How | None = None) -> None:
        """Note what is done with the chain just read; by default it is read, or tested for being there."""
        self.chain = None
        chain.end = self.index
        self.last_read = chain
        chain.how = how or ("test" if self._is_tested(chain) else "read")
        chain.guarded = self.scopes.function.guarded
        self.uses.append(chain)

    def _is_tested(self, chain: Chain) -> bool:
        """Whether a value is only asked for: it may well be nil."""
        kinds = self.kinds
        first, last = chain.start - 1, self.index
        while first > 0 and kinds[first] == "(" and kinds[last] == ")" and kinds[first - 1] not in _CALLABLE:
            first, last = first - 1, last + 1
        before, after = kinds[first] if first >= 0 else EOF, kinds[last]
        if after in _COMPARISONS:
            return kinds[last + 1] == "nil"
        if before in _COMPARISONS:
            return kinds[first - 1] == "nil"
        if before in _OPERATORS or after in _OPERATORS:
            return False
        if before in _CHOOSERS or after in _CHOOSERS or after == "then":
            return True
        if before in ("while", "until"):
            return after == "do" or before == "until"
        asked = before == "(" and self.tokens.texts[first - 1] in ("type", "assert")
        return asked and after in (")", ",")
