"""One boot of Lua: the firmware on a fresh state, resumed with one event at a time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lupa.lua52 import LuaRuntime

from cc_client.simulator.host import Answer

BIOS: Final = Path(__file__).with_name("bios.lua")
ROM: Final = Path(__file__).with_name("rom")


class LuaMachine:
    """A Lua state with the globals of ComputerCraft.

    Args:
        functions: What Lua may ask of the host, by name.
    """

    def __init__(self, functions: Mapping[str, Answer]) -> None:
        lua = LuaRuntime(encoding=None, register_eval=False, unpack_returned_tuples=True)
        table = lua.table()
        for name, function in functions.items():
            table[name.encode()] = function
        load = lua.eval(b"function(text, host) return assert(load(text, '=bios', 't'))(host) end")
        self._resume: Any = load(BIOS.read_bytes(), table)

    def resume(self, *event: Any) -> str | None:
        """Hand over an event (none at boot). The reason when the computer cannot go on."""
        answer = self._resume(*event)
        alive, reason = answer if isinstance(answer, tuple) else (answer, None)
        if alive:
            return None
        return reason.decode(errors="replace") if isinstance(reason, bytes) else "the firmware ended"
