"""PUC Lua 5.1 and 5.2, which say what they accept, and their dialects."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from lupa.lua51 import LuaRuntime as Lua51
from lupa.lua52 import LuaRuntime as Lua52

from orchestrator.tools.lua.lexer import NEWEST, Dialect
from orchestrator.tools.lua.parse import check_dialect

PUC_52: Final = replace(
    NEWEST,
    goto_is_reserved=True,
    unique_labels=False,
    spaces=r"\t-\r ",
    max_hex_digits=None,
    escapes="xz",
    strict_escapes=True,
    zap_swallows=False,
    nested_brackets=True,
    shared_locals=False,
    max_upvalues=255,
)
PUC_51: Final = replace(
    PUC_52,
    lua52=False,
    goto_is_reserved=False,
    numeral=r"\.?[0-9][0-9.]*(?:[eE][+-]?)?[A-Za-z0-9_]*",
    escapes="",
    strict_escapes=False,
    nested_brackets=False,
    env_is_upvalue=False,
    max_upvalues=60,
)

Engine = Callable[[bytes], str]
"""Answers what it complains about; empty: it accepts the text."""

_FIRST_LINE: Final = re.compile(rb"\A#[^\n]*")
"""What Lua skips where it loads a file (``luaL_loadfile``), and not where it loads a string, as here."""

_LOAD: Final = "function(s) local f, why = {load}(s, '=f') return not f and why or '' end"


def _engine(runtime: type, load: str) -> Engine:
    answer = runtime(encoding="latin-1").eval(_LOAD.format(load=load))

    def complain(text: bytes) -> str:
        return str(answer(_FIRST_LINE.sub(b"", text)))

    return complain


LUA_52: Final = _engine(Lua52, "load")
LUA_51: Final = _engine(Lua51, "loadstring")


def disagreement(text: str, engine: Engine, dialect: Dialect) -> str | None:
    """What an engine and our parser say, where one accepts the text and the other does not."""
    raw = text.encode("latin-1", "replace")
    theirs, ours = engine(raw), check_dialect(raw, dialect)
    return None if bool(theirs) == bool(ours) else f"{text!r}\n  engine: {theirs or 'fine'}\n  ours: {ours or 'fine'}"
