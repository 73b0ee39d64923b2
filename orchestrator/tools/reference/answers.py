"""Answers of the reference, cut to fit a small window."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from orchestrator.tools.reference.entries import FAMILIES, Entry, Module, Version, modules, version_of
from orchestrator.tools.reference.index import ABSENT, ENOUGH, MOST_QUERY, Hit, Index, index, plain
from orchestrator.tools.reference.words import SILENT

# -- How the reference says things: an entry in full, in a line, a module's list ---------

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


# -- Answers of the reference, cut to what a small window bears --------------------------

LIMIT_CHARS: Final = 1800
"""Some 500 tokens: an answer must not push the task out of an 8k window."""
IN_ONE_LINE: Final = 3
"""Entries that follow the best one with a line each."""
NAMES_ONLY: Final = 6
_CLOSE: Final = 0.35
"""The share of the best score that an entry needs to be worth a line."""
_FROM_SECOND: Final = 2.0
"""A best one that was called by name scores out of all measure: then twice the second's counts instead."""
_SAID: Final = 60
"""Characters of a question that an answer repeats."""
_ONE_NAME: Final = re.compile(r"(([A-Za-z_]\w*(?:\.\w+)*)[.:]\w+)\s*(?:\(.{0,80}\))?$")
_WORD: Final = re.compile(r"[\w.]+")
_ASKS_FOR_ALL: Final = frozenset(
    (
        *("all", "api", "are", "available", "command", "commands", "does", "every", "field", "fields", "for"),
        *("function", "functions", "has", "have", "in", "is", "library", "list", "method", "methods", "module"),
        *("of", "on", "peripheral", "show", "the", "there", "what", "which"),
    )
)
_GROUPS: Final = {"event": "event", "setting": "setting", "program": "program", "guide": "guide"} | {
    "events": "event",
    "settings": "setting",
    "programs": "program",
    "guides": "guide",
}
_MOST_LISTED: Final = 8
"""Words of a question that may ask for a list."""


def cc_docs_text(query: str, *, host: str | None = None, family: str | None = None) -> str:
    """What the tool ``cc_docs`` answers for a computer with this host text and family; None: for none in particular.

    At most 1800 characters. Never raises: a question that nothing fits is answered with what is near.
    """
    return search_docs(query, version=version_of(host), family=family if family in FAMILIES else None)


def search_docs(
    query: str, *, version: Version | None = None, family: str | None = None, limit_chars: int = LIMIT_CHARS
) -> str:
    """The best entry in full, a few more in one line each, then names; for a module's name all that it has.

    ``version`` and ``family``: an entry that such a computer lacks says so; None: not known. At most ``limit_chars``
    characters.
    """
    found, computer = index(), Computer(version, family)
    query = query[:MOST_QUERY]
    listed = _listed(query, found)
    if isinstance(listed, Module):
        events = [entry.name for entry in found.entries if entry.kind == "event" and entry.name == listed.name]
        return cut(module_list(listed, computer, events, limit_chars), limit_chars)
    if listed is not None:
        return cut(_group_list(listed, found, limit_chars), limit_chars)
    hits = found.find(query, version, family)
    fits = [hit for hit in hits if hit.share >= ENOUGH]
    text = _answer(query, found, fits, computer, limit_chars) if fits else _nothing(query, found, hits)
    return cut(text, limit_chars)


def _listed(query: str, found: Index) -> Module | str | None:
    """The module that a question names and nothing else, or the kind of a group; None: it asks for something."""
    words = [word.strip(".").lower() for word in _WORD.findall(query)[: _MOST_LISTED + 1]]
    if not words or len(words) > _MOST_LISTED:
        return None
    telling = [word for word in words if word not in _ASKS_FOR_ALL and word not in SILENT] or words[:1]
    if len(telling) > 1:
        return None
    if telling[0] == "settings" and len(words) == 1:
        return found.modules["settings"]
    return _GROUPS.get(telling[0]) or found.modules.get(telling[0])


def _group_list(kind: str, found: Index, limit: int) -> str:
    names = [entry.name for entry in found.entries if entry.kind == kind]
    head = f"All {kind}s; ask for one by its name."
    return f"{head}\n{fitting(names, limit - len(head) - 1)}"


def _answer(query: str, found: Index, hits: list[Hit], computer: Computer, limit: int) -> str:
    best, *rest = hits
    meant = _meant(best.entry, found)
    parts = _not_there(best.entry, query, found)
    if meant.kind != ABSENT:
        parts.append(in_full(meant, computer))
    left = limit - sum(len(part) + 1 for part in parts)
    least = _CLOSE * min(best.score, _FROM_SECOND * rest[0].score) if rest else 0.0
    near = [hit.entry for hit in rest if hit.score >= least and hit.entry.kind != ABSENT and hit.entry is not meant]
    lines: list[str] = []
    for entry in near[:IN_ONE_LINE]:
        line = "- " + in_a_line(entry, computer)
        if len(line) + len("Also:\n") + 1 > left:
            break
        left -= len(line) + 1
        lines.append(line)
    if lines:
        parts.append("\n".join(["Also:", *lines]))
        left -= len("Also:\n")
    names = fitting([entry.name for entry in near[len(lines) :][:NAMES_ONLY]], left - len("More: ") - 1)
    if names:
        parts.append("More: " + names)
    return "\n".join(parts)


def _meant(entry: Entry, found: Index) -> Entry:
    """The entry to use instead of one that does not exist; any other entry itself."""
    if entry.kind == ABSENT and entry.see:
        return found.entries[found.by_name[plain(entry.see[0])][0]]
    return entry


def _not_there(entry: Entry, query: str, found: Index) -> list[str]:
    """The first sentence when a name was asked for that does not exist."""
    if entry.kind == ABSENT:
        names = (entry.name, *entry.others)
        name = max((name for name in names if name.lower() in query.lower()), key=len, default=entry.name)
        return [f"There is no {name} in ComputerCraft. {entry.text}"]
    unknown = _unknown(query, found)
    return [f"The reference has no {unknown[0]}. The nearest is:"] if unknown else []


def _unknown(query: str, found: Index) -> tuple[str, Module] | None:
    """The one name that a question consists of, when its module is known and it is not; None: otherwise."""
    match = _ONE_NAME.match(query.strip())
    if match is None or plain(match[1]) in found.by_name:
        return None
    module = found.modules.get(match[2].lower())
    return (match[1], module) if module else None


def _nothing(query: str, found: Index, hits: list[Hit]) -> str:
    """The answer when nothing fits: the nearest names, and where to look."""
    unknown = _unknown(query, found)
    said = unknown[0] if unknown else repr(cut(" ".join(query.split()), _SAID))
    lines = [f"Nothing in the reference fits {said}. Ask with a function's name or two or three plain words."]
    names = list(dict.fromkeys([*found.near(query), *(hit.entry.name for hit in hits[:4])]))
    if names:
        lines.append("Nearest: " + fitting(names, 200))
    if unknown:
        lines.append(f"{unknown[1].name} has: {fitting([entry.name for entry in unknown[1].entries], 800)}")
    tables = [module.name for module in modules() if module.kind in ("global", "env")]
    others = [module.name for module in modules() if module.kind in ("peripheral", "require")]
    lines.append("Modules: " + ", ".join(tables))
    lines.append("Peripherals and require: " + ", ".join(others))
    lines.append("Lists: events, all settings, programs, guides.")
    return "\n".join(lines)
