"""One boot of Lua: the firmware on a fresh state, resumed with one event at a time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from lupa.lua52 import LuaRuntime

from cc_client.simulator.host import Answer, said

FIRMWARE: Final = Path(__file__).with_name("firmware")
ROM: Final = Path(__file__).with_name("rom")
_EXACT: Final = 2**53


class LuaMachine:
    """A Lua state with the globals of ComputerCraft; no program in it holds an object of Python or a library of C.

    Args:
        functions: What Lua may ask of the host, by name.
        world: The same, of what is around the computer.
        memory_bytes: What the state may take; None: no limit.
    """

    def __init__(
        self, functions: Mapping[str, Answer], world: Mapping[str, Answer], memory_bytes: int | None = None
    ) -> None:
        lua = self._lua = LuaRuntime(
            encoding=None,
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=True,
            attribute_filter=_no_attribute,
            max_memory=memory_bytes,
        )
        table = lua.table()
        for name, function in {**functions, **world, "firmware": _firmware}.items():
            table[name.encode()] = self._gate(function)
        table[b"opaque"] = _OPAQUE
        boot = lua.eval(
            b"function(sealing, start, raw) local first, second = "
            b"assert(load(sealing, '=sealing', 't')), assert(load(start, '=start', 't')) return second(first(raw)) end"
        )
        self._resume: Any = boot(_firmware(b"sealing"), _firmware(b"start"), table)

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

    def _gate(self, function: Answer) -> Answer:
        """The function for Lua: ``True`` and what it answers, or ``False`` and a text. No object of Python goes in."""

        def answer(*arguments: Any) -> tuple[Any, ...]:
            try:
                result = function(*arguments)
                results = result if isinstance(result, tuple) else (result,)
                return (True, *map(self._as_lua, results))
            except Exception as error:  # noqa: BLE001 (the exception itself would be an object that leads to the host)
                return (False, said(error))

        return answer

    def _as_lua(self, value: Any) -> Any:
        """A value as Lua has it: dicts and lists become tables, texts bytes. Raises TypeError for other objects."""
        if value is None or isinstance(value, bool | float | bytes):
            return value
        if isinstance(value, int):
            # What is larger is no whole number of Lua's.
            return value if abs(value) < _EXACT else float(value)
        if isinstance(value, str):
            return value.encode("utf-8", "replace")
        if isinstance(value, dict):
            pairs = value.items()
        elif isinstance(value, list | tuple):
            pairs = dict(enumerate(value, 1)).items()
        else:
            raise TypeError("a value that Lua has not")
        table = self._lua.table()
        for key, item in pairs:
            table[self._as_lua(key)] = self._as_lua(item)
        return table


class _Opaque:
    """In place of a table, function or coroutine that Lua handed over: the host holds none of Lua's."""


_OPAQUE: Final = _Opaque()


def _no_attribute(*_: object) -> NoReturn:
    raise AttributeError("objects of the host have no fields for Lua")


def _firmware(part: bytes) -> bytes:
    """A part of the firmware by name. Raises ValueError for a name that is a path."""
    if not part.isalpha():
        raise ValueError("no part of the firmware")
    return (FIRMWARE / f"{part.decode()}.lua").read_bytes()
