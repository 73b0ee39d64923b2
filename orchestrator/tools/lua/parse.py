"""Reading a Lua text once: tokens, uses, and the first error.

A parser of our own, as luaparser and tree-sitter's grammar take what Cobalt refuses: ``//``, ``&``, ``<const>``, a goto
without its label, ``break`` outside of a loop, too many local variables. Neither gives the compiler's words for an
error, and luaparser takes many times as long.
"""

from orchestrator.tools.lua.advice import advice_for
from orchestrator.tools.lua.lexer import Dialect, Finding, Refused, Tokens, dialect_of, lex
from orchestrator.tools.lua.statements import Parser

# -- Reading a Lua text once: tokens, uses, and the first error --------------------------


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


# -- Is this text Lua that the computer will compile? ------------------------------------


def check_lua(source: str | bytes, *, version: tuple[int, ...] | None = None, name: str = "file.lua") -> Finding | None:
    """The first syntax error of a Lua text; None: it compiles.

    ``version`` is that of CC: Tweaked, such as ``(1, 108, 4)``, and decides the dialect (``lexer.Dialect``); None: the
    newest. ``name`` is at the head of the sentence. Never raises; the work is linear in the text.
    """
    return check_dialect(source, dialect_of(version), name)


def check_dialect(source: str | bytes, dialect: Dialect, name: str = "file.lua") -> Finding | None:
    """As :func:`check_lua`, in a dialect given as a value."""
    tokens, parser, refused = parse(source, dialect)
    if refused is None:
        return None
    at = refused.at or 0
    near = f" near {tokens.near(at)}" if refused.near else ""
    advice = advice_for(tokens, refused, dialect, parser.closed)
    return Finding(tokens.line(at), tokens.column(at), f"{refused.message}{near}", advice, name)
