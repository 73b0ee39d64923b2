"""One boot of Lua: the firmware on a fresh state, resumed with one event at a time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lupa.lua52 import LuaRuntime

from cc_client.simulator.host import Answer

FIRMWARE: Final = Path(__file__).with_name("firmware")
ROM: Final = Path(__file__).with_name("rom")


class LuaMachine:
    """A Lua state with the globals of ComputerCraft.

    Args:
        functions: What Lua may ask of the host, by name.
        world: The same, for functions that answer with tables.
        memory_bytes: What the state may take; None: no limit.
    """

    def __init__(
        self, functions: Mapping[str, Answer], world: Mapping[str, Answer], memory_bytes: int | None = None
    ) -> None:
        lua = self._lua = LuaRuntime(
            encoding=None, register_eval=False, unpack_returned_tuples=True, max_memory=memory_bytes
        )
        table = lua.table()
        for name, function in functions.items():
            table[name.encode()] = function
        for name, function in world.items():
            table[name.encode()] = self._with_tables(function)
        table[b"firmware"] = lambda part: (FIRMWARE / f"{part.decode()}.lua").read_bytes()
        load = lua.eval(b"function(text, host) return assert(load(text, '=start', 't'))(host) end")
        self._resume: Any = load((FIRMWARE / "start.lua").read_bytes(), table)

    def resume(self, *event: Any) -> str | None:
        """Hand over an event (none at boot). The reason when the computer cannot go on."""
        try:
            answer = self._resume(*map(self._as_lua, event))
        except Exception as error:  # noqa: BLE001 (whatever broke the firmware, it costs this boot and no more)
            # A traceback of Lua may follow the sentence.
            return str(error).partition("\n")[0]
        alive, reason = answer if isinstance(answer, tuple) else (answer, None)
        if alive:
            return None
        return reason.decode(errors="replace") if isinstance(reason, bytes) else "the firmware ended"

    def _with_tables(self, function: Answer) -> Answer:
        def answer(*arguments: Any) -> Any:
            result = function(*arguments)
            return tuple(map(self._as_lua, result)) if isinstance(result, tuple) else self._as_lua(result)

        return answer

    def _as_lua(self, value: Any) -> Any:
        """A value as Lua has it: dicts and lists become tables, texts bytes."""
        if isinstance(value, str):
            return value.encode("utf-8")
        if isinstance(value, dict):
            pairs = value.items()
        elif isinstance(value, list):
            pairs = dict(enumerate(value, 1)).items()
        else:
            return value
        table = self._lua.table()
        for key, item in pairs:
            table[self._as_lua(key)] = self._as_lua(item)
        return table
