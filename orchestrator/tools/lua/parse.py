"""Reading a Lua text once: tokens, uses, and the first error."""

from orchestrator.tools.lua.dialect import Dialect
from orchestrator.tools.lua.fault import Refused
from orchestrator.tools.lua.lexer import Tokens, lex
from orchestrator.tools.lua.statements import Parser


def text_of(source: str | bytes) -> str:
    """A Lua text as characters; bytes are taken one by one, as Lua does."""
    return source if isinstance(source, str) else source.decode("latin-1")


def parse(source: str | bytes, dialect: Dialect) -> tuple[Tokens, Parser, Refused | None]:
    """Read a text as far as it is Lua; ``Refused.at`` is then the index of a token."""
    tokens = lex(text_of(source), dialect)
    parser = Parser(tokens, dialect)
    try:
        parser.parse()
    except Refused as refused:
        parser.todo.clear()
        if refused.at is None:
            refused.at = parser.index
        return tokens, parser, refused
    return tokens, parser, None
