"""The ``cc_*`` tools that describe a computer: its facts, its neighbors, its screens."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from orchestrator.core.errors import ToolFailed
from orchestrator.core.task.facts import Observed
from orchestrator.core.wire.wire import from_wire
from orchestrator.tools.computer.commands import READ_WAIT_S, ask
from orchestrator.tools.deps import CCAgentDeps, capped, shown_name, wire_word
from orchestrator.tools.reference import cc_docs_text

# -- ``cc_label``: the label of the computer, read or set; the client tells a new one before its answer

_STUB = "[stub: the computer has no label]"


async def cc_label(deps: CCAgentDeps, *, label: str = "") -> str:
    """Read the label, or set it where ``label`` is not empty."""
    if deps.mode == "stub":
        return _STUB
    result = await ask(deps, "label", {"name": label} if label else {}, "the label")
    before = _shown(result.data.get("before"))
    return f"The label was {before} and is {_shown(label)} now." if label else f"The label is {before}."


async def observe_label(deps: CCAgentDeps, *, label: str = "") -> Observed:
    """The label of now, and the one that it becomes."""
    now = await cc_label(deps)
    becomes = f" It becomes {_shown(label)}; rules by label then look at both." if label else ""
    return Observed(state={}, note=f"{now}{becomes}")


def _shown(label: object) -> str:
    return repr(from_wire(label)) if isinstance(label, str) else "none"


# -- The ``cc_*`` tools that tell what a computer is and shows: its facts, its neighbours, its screens

_SLOTS: Final = 16
_COLOURS: Final = (
    *("white", "orange", "magenta", "lightBlue", "yellow", "lime", "pink", "gray"),
    *("lightGray", "cyan", "purple", "blue", "brown", "green", "red", "black"),
)
_PLAIN: Final = ("0", "f")
"""White on black, as ``blit`` writes colours: nobody has to be told that."""
_MAX_RUNS: Final = 40
"""Stretches in other colours that are told of one screen."""
Entry = Mapping[str, Any]
TAB_ENDS: Final[Mapping[str, str]] = {
    "returned": "ended",
    "error": "ended with an error",
    "terminated": "was stopped",
    "abandoned": "ignored that it was told to stop, and was left",
}
"""How the program of a tab ended, by the word of the computer."""


async def cc_info(deps: CCAgentDeps) -> str:
    """The facts of the computer: itself, its files and its peripherals."""
    result = await ask(deps, "info", {}, "the computer", wait_s=READ_WAIT_S)
    try:
        entries = entries_of(result.body)
        lines = [*_facts(result.data), *_slots(result.data, entries), *_redstone(entries), *_neighbours(entries)]
        lines += _tabs(entries)
    except (ValueError, TypeError, KeyError) as error:
        raise ToolFailed("The computer's facts about itself cannot be read.") from error
    return capped("\n".join(lines))


async def cc_docs(deps: CCAgentDeps, *, query: str) -> str:
    """The names that the computer's Lua has for a name or a purpose, from the reference; the computer is not asked."""
    return cc_docs_text(query, host=deps.host or None, family=deps.family or None)


async def cc_screen(deps: CCAgentDeps, *, of: str = "") -> str:
    """What a screen shows, row by row, and where it is not white on black."""
    other = f"the screen of {of}" if of.startswith("tab-") else f"the monitor {of}"
    what = {"": "the computer's own screen", "program": "the last program's screen"}.get(of, other)
    result = await ask(deps, "screen", {"of": of} if of else {}, what, wait_s=READ_WAIT_S)
    data = result.data
    try:
        rows = [(_drawn(row["text"]), str(row["fg"]), str(row["bg"])) for row in json.loads(result.body or b"[]")]
    except (ValueError, TypeError, KeyError) as error:
        raise ToolFailed("The screen that the computer sent cannot be read.") from error
    where = f"cursor at column {data.get('x')}, row {data.get('y')}"
    head = f"{what[0].upper()}{what[1:]}: {data.get('width')} columns, {data.get('height')} rows, {where}."
    text = [row.rstrip() for row, _, _ in rows] or ["(empty)"]
    return capped("\n".join([head, *text, *_coloured(rows)]))


def entries_of(body: bytes) -> list[Entry]:
    """The list that ``info`` answers. Raises ValueError, TypeError for anything else."""
    entries = json.loads(body or b"[]")
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise TypeError("entries")
    if not all(isinstance(one.get(key, ""), str) for one in entries for key in ("name", "item", "side")):
        raise TypeError("names")
    return entries


def neighbours_of(entries: list[Entry]) -> list[Entry]:
    """The peripherals among the entries."""
    return [one for one in entries if "name" in one]


def tab_program(entry: Entry) -> str:
    """What was started in a tab, with its arguments."""
    return shown_name(str(entry.get("program", "")))


# -- the computer ------------------------------------------------------------------------


def _facts(data: Entry) -> Iterator[str]:
    label = f" {shown_name(str(data['label']))!r}" if "label" in data else ""
    kind = f", {data['family']}" if "family" in data else ""
    host = f", {shown_name(str(data['host']))}" if "host" in data else ""
    yield f"Computer {data.get('id', '')}".rstrip() + f"{label}{kind}{host}"
    time = int(data["time"])
    yield f"Disk: {_amount(data['free'])} of {_amount(data['capacity'])} bytes free."
    yield f"World: day {data['day']}, {time // 60:02}:{time % 60:02}. Up for {data['uptime_s']} s."


def _slots(data: Entry, entries: list[Entry]) -> Iterator[str]:
    if "fuel" not in data:
        return
    limit = f" of {_amount(data['fuel_limit'])}" if "fuel_limit" in data else ""
    selected = f" Selected slot: {data['selected']}." if "selected" in data else ""
    yield f"Fuel: {_amount(data['fuel'])}{limit}.{selected}"
    full = [one for one in entries if "slot" in one]
    listed = "; ".join(f"{one['slot']}: {one['count']} {shown_name(one['item'])}" for one in full)
    yield f"Slots: {listed or 'all empty'}." + (f" The other {_SLOTS - len(full)} are empty." if full else "")


def _redstone(entries: list[Entry]) -> Iterator[str]:
    sides = [one for one in entries if "side" in one]
    if sides:
        yield "Redstone: " + "; ".join(f"{one['side']} in {one['input']}, out {one['output']}" for one in sides) + "."


def _neighbours(entries: list[Entry]) -> Iterator[str]:
    """Each peripheral; those that are alike stand together, since a network may have dozens of one kind."""
    found = neighbours_of(entries)
    yield "Peripherals:" if found else "Peripherals: none."
    alike = sorted(found, key=_kind)
    for (types, methods), group in groupby(alike, key=_kind):
        names = ", ".join(shown_name(one["name"]) for one in group)
        yield f"- {names}: {', '.join(map(shown_name, types)) or 'unknown'}"
        if methods:
            yield f"  methods: {', '.join(map(shown_name, methods))}"


def _tabs(entries: list[Entry]) -> Iterator[str]:
    """A line for each program in a tab, for ``cc_info``; nothing where there is none."""
    found = [one for one in entries if "tab" in one]
    if found:
        yield "Programs in tabs (cc_screen of='tab-1' shows one, cc_stop stops it):"
    for one in found:
        said = f": {shown_name(str(one['message']))}" if one.get("message") else ""
        how = f"runs for {one.get('seconds', 0)} s"
        if "ended" in one:
            how = f"{TAB_ENDS.get(str(one['ended']), 'ended')} after {one.get('seconds', 0)} s{said}"
        yield f"- {shown_name(str(one['tab']))}: {tab_program(one)}, {how}"


def _kind(one: Entry) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(map(str, one["types"])), tuple(map(str, one.get("methods", ())))


def _amount(number: int) -> str:
    return "unlimited" if number < 0 else str(number)


# -- screens -----------------------------------------------------------------------------


def _drawn(text: str) -> str:
    """A row as text: the signs that only the game's font has are dots."""
    return "".join(char if char.isprintable() else "." for char in text)


def _coloured(rows: list[tuple[str, str, str]]) -> list[str]:
    """Where the screen is not white on black, a line each; blanks only by what is behind them."""
    runs = list(_runs(rows))
    if not runs:
        return []
    more = [f"... and {len(runs) - _MAX_RUNS} more"] if len(runs) > _MAX_RUNS else []
    return ["[colours, where it is not white on black:]", *runs[:_MAX_RUNS], *more]


def _runs(rows: list[tuple[str, str, str]]) -> Iterator[str]:
    for number, (text, fg, bg) in enumerate(rows, 1):
        cells = [(_PLAIN[0] if char == " " else front, back) for char, front, back in zip(text, fg, bg, strict=False)]
        column = 1
        for (front, back), group in groupby(cells):
            width = len(list(group))
            if (front, back) != _PLAIN:
                names = f"{_colour(front)} on {_colour(back)}"
                yield f"row {number}, columns {column}-{column + width - 1}: {names}"
            column += width


def _colour(digit: str) -> str:
    return _COLOURS[int(digit, 16)] if digit in "0123456789abcdef" else "?"


# -- The tool that calls a method of a peripheral, and what a reviewer is shown before

CALL_TIMEOUT_S: Final = 30
"""A call takes a tick of the world; on a server that lags, or for a device that works, a while."""
_ANSWER_GRACE_S: Final = 30.0
_MAX_NAMED: Final = 40
"""Names that a refusal lists."""


async def cc_peripheral_call(deps: CCAgentDeps, *, name: str, method: str, args: Sequence[Any] = ()) -> str:
    """Call one method of a peripheral and see what it returns."""
    if deps.mode == "stub":
        return f"{name}.{method} returned nothing.\n[stub: the peripheral was not called]"
    params = {"name": name, "method": method, "timeout_s": CALL_TIMEOUT_S}
    body = json.dumps([_to_wire(value) for value in args]).encode()
    result = await ask(
        deps, "peripheral_call", params, f"{name}.{method}", body, wait_s=CALL_TIMEOUT_S + _ANSWER_GRACE_S
    )
    try:
        values = json.loads(result.body or b"[]")
    except ValueError as error:
        raise ToolFailed("What the peripheral returned cannot be read.") from error
    if not values:
        return f"{name}.{method} returned nothing."
    shown = [json.dumps(_from_wire(value), ensure_ascii=False) for value in values]
    return capped(f"{name}.{method} returned:\n" + "\n".join(shown))


async def observe_peripheral_call(deps: CCAgentDeps, *, name: str, method: str, args: Sequence[Any] = ()) -> Observed:
    """What the peripheral is. Raises ToolFailed unless it is there and has the method."""
    del args
    if deps.mode == "stub":
        return Observed(state={}, note="Stub mode: nothing is called.")
    result = await ask(deps, "info", {}, "the computer", wait_s=READ_WAIT_S)
    try:
        found = {shown_name(one["name"]): one for one in neighbours_of(entries_of(result.body))}
    except (ValueError, TypeError, KeyError) as error:
        raise ToolFailed("The computer's facts about its peripherals cannot be read.") from error
    one = found.get(name)
    if one is None:
        others = f" There are: {_listed(found)}." if found else " There are none."
        raise ToolFailed(f"There is no peripheral {name} at the computer.{others}")
    methods = [shown_name(str(each)) for each in one.get("methods", ())]
    if method not in methods:
        raise ToolFailed(f"{name} has no method {method}. Its methods: {_listed(methods)}.")
    types = ", ".join(shown_name(str(each)) for each in one["types"]) or "of an unknown type"
    return Observed(state={}, note=f"{name} is: {types}. A player at the computer may put another one there.")


def _listed(names: Any) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _MAX_NAMED} more" if len(listed) > _MAX_NAMED else ""
    return (", ".join(listed[:_MAX_NAMED]) or "none") + more


def _to_wire(value: Any) -> Any:
    if isinstance(value, str):
        return wire_word(value)
    if isinstance(value, Mapping):
        return {wire_word(key): _to_wire(inner) for key, inner in value.items()}
    return value


def _from_wire(value: Any) -> Any:
    if isinstance(value, str):
        return shown_name(value)
    if isinstance(value, list):
        return [_from_wire(inner) for inner in value]
    if isinstance(value, dict):
        return {shown_name(key): _from_wire(inner) for key, inner in value.items()}
    return value
