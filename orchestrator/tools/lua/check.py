"""Is this text Lua that the computer will compile?"""

from orchestrator.tools.lua.advice import advice_for
from orchestrator.tools.lua.dialect import Dialect, dialect_of
from orchestrator.tools.lua.fault import Finding
from orchestrator.tools.lua.parse import parse


def check_lua(source: str | bytes, *, version: tuple[int, ...] | None = None, name: str = "file.lua") -> Finding | None:
    """The first syntax error of a Lua text; None: it compiles.

    ``version`` is that of CC: Tweaked, such as ``(1, 108, 4)``, and decides the dialect (:mod:`dialect`); None: the
    newest. ``name`` stands at the head of the sentence. Never raises; the work is linear in the text.
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
