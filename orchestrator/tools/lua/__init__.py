"""Lua as ComputerCraft compiles it: is a text Lua, which names does it use, and do they exist.

Pure: no clock, no disk, no network. ``lexer.Dialect`` says which Lua each version of CC: Tweaked has, and the source
of that.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from orchestrator.tools.lua.lexer import Finding as Finding
    from orchestrator.tools.lua.names import Fields as Fields
    from orchestrator.tools.lua.names import Flag as Flag
    from orchestrator.tools.lua.names import Known as Known
    from orchestrator.tools.lua.names import Names as Names
    from orchestrator.tools.lua.names import Use as Use
    from orchestrator.tools.lua.names import globals_of as globals_of
    from orchestrator.tools.lua.names import unknown_names as unknown_names
    from orchestrator.tools.lua.parse import check_lua as check_lua

_HOMES: Final = {
    "check_lua": "parse",
    "Finding": "lexer",
    "Fields": "names",
    "Flag": "names",
    "Known": "names",
    "Names": "names",
    "unknown_names": "names",
    "Use": "names",
    "globals_of": "names",
}

__all__ = ["Fields", "Finding", "Flag", "Known", "Names", "Use", "check_lua", "globals_of", "unknown_names"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
