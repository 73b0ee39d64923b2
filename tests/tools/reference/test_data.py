"""The data files: their form, and that what they say of each other and of Lua holds."""

import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal, get_args

import pytest
from lupa.lua52 import LuaRuntime
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from orchestrator.core.wire.messages import Hello
from orchestrator.tools.reference.entries import DATA, FAMILIES, NEWEST, Entry, Module, modules
from orchestrator.tools.reference.index import ABSENT

Sentences = Annotated[str, StringConstraints(pattern=r"^\S[^\n]*[.!?)]$", max_length=300)]
"""One to three short sentences."""
Number = Annotated[str, StringConstraints(pattern=r"^1\.\d{1,3}\.\d{1,2}$")]
Family = Literal["computer", "advanced", "turtle", "pocket", "command"]
Words = Annotated[str, StringConstraints(pattern=r"^\S+( \S+)*$")]
EntryKind = Literal[
    "function", "method", "event", "value", "constants", "setting", "program", "guide", "absent"
]  # fmt: skip
ModuleKind = Literal[
    "global", "env", "require", "handle", "peripheral", "event", "setting", "program", "guide", "absent"
]  # fmt: skip


class Placed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: Annotated[str, StringConstraints(pattern=r"^\S[^\n]*$", max_length=60)]
    text: Sentences
    since: Number | None = None
    until: Number | None = None
    families: Annotated[list[Family], Field(min_length=1, max_length=4)] | None = None
    advanced: Literal[True] | None = None
    words: Words | None = None


class RawEntry(Placed):
    kind: EntryKind
    signature: Annotated[str, Field(min_length=1, max_length=500)]
    returns: Annotated[str, Field(min_length=1)] | None = None
    aliases: Annotated[list[str], Field(min_length=1)] | None = None
    example: Annotated[list[str], Field(min_length=1, max_length=7)] | None = None
    see: Annotated[list[str], Field(min_length=1)] | None = None


class RawModule(Placed):
    kind: ModuleKind
    prefix: str
    alias: str | None = None
    open: Literal[True] | None = None
    weight: Annotated[float, Field(gt=0, lt=1)] | None = None
    entries: Annotated[list[RawEntry], Field(min_length=1)]


class File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    source: Annotated[str, Field(min_length=50)]
    modules: Annotated[list[RawModule], Field(min_length=1)]


FILES = sorted(DATA.glob("*.json"))
ALL: list[tuple[Module, Entry]] = [(module, entry) for module in modules() for entry in module.entries]
REAL = [(module, entry) for module, entry in ALL if module.kind != ABSENT]
LUA_KINDS = ("function", "method", "value", "constants")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.stem))
def test_a_file_has_the_form_that_the_code_reads(path: Path) -> None:
    file = File.model_validate_json(path.read_bytes())
    assert "CC: Tweaked" in file.source


def test_the_families_are_those_of_a_hello() -> None:
    assert get_args(Hello.model_fields["family"].annotation) == FAMILIES == get_args(Family)


def test_no_name_stands_twice() -> None:
    names = Counter((entry.kind, name) for _, entry in REAL for name in (entry.name, *entry.others))
    assert [name for name, count in names.items() if count > 1] == []


def test_the_names_begin_with_their_modules() -> None:
    strangers = [
        entry.name for module, entry in REAL if entry.kind in LUA_KINDS and not entry.name.startswith(module.prefix)
    ]
    assert strangers == []


def test_the_signature_begins_with_the_name() -> None:
    wrong = [
        entry.name
        for _, entry in REAL
        if entry.kind != "guide" and not entry.signature.lstrip('"').startswith(entry.name)
    ]
    assert wrong == []


def test_every_reference_leads_to_an_entry() -> None:
    known = {name for _, entry in REAL for name in (entry.name, *entry.others)} | {module.name for module in modules()}
    lost = [(entry.name, see) for _, entry in ALL for see in entry.see if see not in known]
    assert lost == []


def test_what_does_not_exist_is_in_no_list_of_what_does() -> None:
    real = {name for _, entry in REAL if entry.kind in LUA_KINDS for name in (entry.name, *entry.others)}
    absent = [name for module, entry in ALL if module.kind == ABSENT for name in (entry.name, *entry.others)]
    assert real.intersection(absent) == set()
    assert [name for name, count in Counter(absent).items() if count > 1] == []


def test_versions_are_ones_that_the_data_knows() -> None:
    for _, entry in ALL:
        for version in (entry.place.since, entry.place.until):
            assert version is None or (1, 80, 0) <= version <= NEWEST, entry.name


@pytest.mark.parametrize("entry", [entry for _, entry in ALL if entry.example], ids=lambda entry: str(entry.name))
def test_an_example_is_lua(entry: Entry) -> None:
    LuaRuntime().compile("\n".join(entry.example))


def test_an_example_is_narrow_enough_for_a_computer() -> None:
    wide = [(entry.name, line) for _, entry in ALL for line in entry.example if len(line) > 90]
    assert wide == []


def test_arguments_are_written_as_name_and_type() -> None:
    form = re.compile(r"^(\.\.\.|\w+\??)(: ?\.?[\w#\"|\[\].?]+)?$")
    wrong = []
    for _, entry in REAL:
        inside = re.match(r"^[\w.:]+\((.*)\)$", entry.signature) if entry.kind in ("function", "method") else None
        for argument in inside[1].split(", ") if inside and inside[1] else ():
            if not form.match(argument):
                wrong.append((entry.name, argument))
    assert wrong == []


@pytest.mark.parametrize(
    ("module", "least"),
    [
        ("turtle", 45), ("fs", 18), ("term", 18), ("os", 19), ("string", 17), ("table", 11), ("math", 29), ("http", 7),
        ("rednet", 9), ("peripheral", 9), ("redstone", 11), ("textutils", 14), ("shell", 20), ("inventory", 6),
        ("event", 33), ("setting", 16), ("program", 50), ("guide", 35),
    ],
)  # fmt: skip
def test_the_great_modules_are_whole(module: str, least: int) -> None:
    assert sum(own.name == module for own, _ in ALL) >= least
