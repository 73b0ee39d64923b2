"""How the reference says things: an entry in full, in a line, a module's list."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from orchestrator.tools.reference.entries import Entry, Module, Version

LINE: Final = 150
"""Characters of an entry's one line."""
CUT: Final = "…"


class Computer(NamedTuple):
    """For whom an answer is."""

    version: Version | None
    """None: not known."""
    family: str | None
    """One of entries.FAMILIES. None: not known."""


def in_full(entry: Entry, computer: Computer) -> str:
    """All that is known of an entry."""
    lines = [head_of(entry)]
    if missing := entry.place.missing(*computer):
        lines.append(f"NOT on this computer: {missing}.")
    elif told := entry.place.told(*computer):
        lines.append(told[0].upper() + told[1:] + ".")
    lines.append(entry.text)
    if entry.others and entry.kind != "constants":
        lines.append("Also called " + ", ".join(entry.others) + ".")
    if entry.example:
        lines += ["Example:", *("  " + line for line in entry.example)]
    if entry.see:
        lines.append("See also: " + ", ".join(entry.see))
    return "\n".join(lines)


def head_of(entry: Entry) -> str:
    """An entry's first line: how it is written; of an event also how it is caught."""
    match entry.kind:
        case "event":
            values = [value.partition(":")[0] for value in entry.signature.split(", ")[1:]]
            caught = ", ".join(["event", *values]).replace("...", "value")
            return f'event {entry.signature}\n  local {caught} = os.pullEvent("{entry.name}")'
        case "guide":
            return f"Guide: {entry.name}"
        case "setting":
            return f"setting {entry.signature} ({entry.returns})"
        case "program":
            return f"program: {entry.signature}"
        case "value":
            return f"{entry.signature}: {entry.returns}"
        case _:
            return f"{entry.signature} -> {entry.returns}" if entry.returns else entry.signature


def in_a_line(entry: Entry, computer: Computer) -> str:
    """An entry's signature and first sentence."""
    head = entry.signature if entry.kind in ("function", "method", "value") else f"{entry.kind} {entry.signature}"
    note = " [not on this computer]" if entry.place.missing(*computer) else ""
    return cut(f"{cut(head, LINE * 2 // 3)}: {_first_sentence(entry.text)}", LINE - len(note)) + note


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?]) (?=[A-Z])", text, maxsplit=1)[0]


def module_list(module: Module, computer: Computer, events: Sequence[str], limit: int) -> str:
    """A module and its entries, one line each; as much of each as ``limit`` characters bear.

    ``events``: names of events that are called like the module.
    """
    around = module.place.missing(*computer)
    lines = [_module_head(module)]
    if around:
        lines.append(f"NOT on this computer: {around}.")
    lines += [f'There is also an event "{name}": ask for "{name} event".' for name in events]
    room = limit - sum(len(line) + 1 for line in lines)
    notes = [_note(entry, computer, around) for entry in module.entries]
    for rows in (
        [head_of(entry) + note for entry, note in zip(module.entries, notes, strict=True)],
        [entry.signature + note for entry, note in zip(module.entries, notes, strict=True)],
    ):
        if sum(len(row) + 1 for row in rows) <= room:
            return "\n".join([*lines, *rows])
    return "\n".join([*lines, fitting([entry.name for entry in module.entries], room)])


def _note(entry: Entry, computer: Computer, around: str) -> str:
    missing = entry.place.missing(*computer)
    return f" [NOT here: {missing.partition(';')[0]}]" if missing and missing != around else ""


def _module_head(module: Module) -> str:
    match module.kind:
        case "require":
            return f'{module.name}: local m = require("{module.name}"). {module.text}'
        case "peripheral":
            return f'{module.name} (peripheral): local p = peripheral.find("{module.name}"). {module.text}'
        case _:
            return f"{module.name}: {module.text}"


def fitting(names: Sequence[str], room: int) -> str:
    """As many names as fit in so many characters, with a mark when some do not."""
    kept: list[str] = []
    for name in names:
        room -= len(name) + 2
        if room < len(CUT):
            return ", ".join([*kept, CUT]) if kept else ""
        kept.append(name)
    return ", ".join(kept)


def cut(text: str, limit: int) -> str:
    """A text of at most ``limit`` characters."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + CUT[: max(limit, 0)]
