"""The architecture: who may import whom, as a table, checked on every import wherever it stands.

A room is a package directly below ``orchestrator``, or the whole of ``cc_client``. A new module belongs to the room
of its package. A new room needs the removal of another.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

ROOMS: dict[str, frozenset[str]] = {
    "core": frozenset(),
    "runtime": frozenset({"core"}),
    "tools": frozenset({"core"}),
    "adapters": frozenset({"core", "runtime"}),
    "computers": frozenset({"core", "runtime"}),
    "engine": frozenset({"core", "runtime", "tools"}),
    "history": frozenset({"core", "runtime", "tools", "engine", "adapters"}),
    "web": frozenset({"core", "runtime", "computers", "engine", "history"}),
    "client": frozenset({"core", "runtime"}),
    "testing": frozenset({"core"}),
    "app": frozenset({"core", "runtime", "tools", "adapters", "computers", "engine", "history", "web", "testing"}),
    "terminal": frozenset({"core", "runtime", "client", "adapters"}),
    # the two commands of the package itself
    "__main__": frozenset({"terminal"}),
    "test_server": frozenset({"core", "runtime", "adapters", "client", "web", "app", "testing"}),
    # the other side of the wire
    "cc_client": frozenset(),
}
"""Each room and the rooms that it may import; itself it always may."""
MOST_ROOMS = 12
MOST_ARROWS = 45
"""Pairs of a room and another that it imports, without the two commands."""

INSIDE_FUNCTIONS: dict[tuple[str, str], frozenset[str]] = {
    ("terminal", "serve"): frozenset({"app"}),
    ("terminal", "cells_move"): frozenset({"history"}),
    ("terminal", "route"): frozenset({"app"}),
    ("terminal", "store_admin"): frozenset({"app"}),
    ("terminal", "offline_verify"): frozenset({"history"}),
    ("terminal", "verify_against"): frozenset({"history"}),
    ("terminal", "store_check"): frozenset({"history"}),
    ("terminal", "store_export"): frozenset({"history"}),
    ("terminal", "store_import"): frozenset({"history"}),
    ("terminal", "store_migrate"): frozenset({"history"}),
    ("terminal", "_shown"): frozenset({"history"}),
}
"""What only one function of a room may import besides."""

PURE_MODULES = frozenset({
    "base64", "bisect", "collections", "contextlib", "copy", "dataclasses", "datetime", "decimal", "difflib", "enum",
    "fnmatch", "fractions", "functools", "graphlib", "hashlib", "heapq", "hmac", "importlib", "ipaddress", "itertools",
    "json", "logging", "math",
    "operator", "re", "string", "struct", "textwrap", "tomllib", "types", "typing", "unicodedata", "uuid", "zlib",
})  # fmt: skip
"""The modules of the standard library in which there is no clock, no dice, no disk and no network.

``datetime``, ``uuid`` and ``logging`` are here for their values (``check_for_intervention`` has to
log); what reads the clock or the dice in them is refused by name below. ``importlib`` is here for the names
that a package imports when they are used.
"""
PURE_PACKAGES = frozenset({"pydantic", "pydantic_core"})
IMPURE_CALLS = frozenset({"now", "utcnow", "today", "uuid1", "uuid4", "getnode", "open", "FileHandler", "basicConfig"})

OTHERS_LIBRARIES: dict[str, frozenset[str]] = {
    "runtime": PURE_PACKAGES | {"anyio", "asyncpg", "opentelemetry", "prometheus_client"},
    "client": PURE_PACKAGES | {"anyio", "httpx2", "websockets"},
}
"""Rooms whose packages from outside are counted; the others are free."""


@dataclass(frozen=True)
class Import:
    """One name that a module imports, and where."""

    importer: str
    target: str
    line: int
    function: str | None
    """The outermost function around it; None: it runs with the module."""
    for_types: bool = False
    """Whether it stands under ``if TYPE_CHECKING``: the table is the same, only it costs nothing."""

    def __str__(self) -> str:
        inside = f" (inside {self.function})" if self.function else ""
        return f"{self.importer}:{self.line}{inside} imports {self.target}"


def modules() -> dict[str, Path]:
    """Every module of both packages by its dotted name."""
    paths = (path for package in ("orchestrator", "cc_client") for path in sorted((ROOT / package).rglob("*.py")))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def room_of(module: str) -> str:
    """The room that a module of ours stands in; ``orchestrator`` itself is the room ``""``."""
    top, _, rest = module.partition(".")
    return top if top == "cc_client" else rest.partition(".")[0]


def is_ours(module: str) -> bool:
    """Whether a name is of one of the two packages."""
    return module.partition(".")[0] in ("orchestrator", "cc_client")


def imports_of(module: str, source: str, known: frozenset[str]) -> Iterator[Import]:
    """Every import of a module, in functions and under TYPE_CHECKING too."""

    def visit(node: ast.AST, function: str | None, for_types: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.Import(names=names):
                    for name in names:
                        yield Import(module, name.name, child.lineno, function, for_types)
                case ast.ImportFrom(level=level) if level:
                    yield Import(module, "." * level, child.lineno, function, for_types)
                case ast.ImportFrom(module=str(base), names=names):
                    for name in names:
                        deeper = f"{base}.{name.name}"
                        yield Import(module, deeper if deeper in known else base, child.lineno, function, for_types)
                case ast.FunctionDef(name=inner) | ast.AsyncFunctionDef(name=inner):
                    yield from visit(child, function or inner, for_types)
                case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                    yield from visit(child, function, True)
                case _:
                    yield from visit(child, function, for_types)

    yield from visit(ast.parse(source), None, False)


MODULES = modules()
IMPORTS = [
    one for name, path in MODULES.items() for one in imports_of(name, path.read_text("utf-8"), frozenset(MODULES))
]


def complaint(one: Import) -> str | None:
    """Why an import is against the table; None: it is not."""
    room = room_of(one.importer)
    if one.target.startswith("."):
        return "imports are absolute"
    if not is_ours(one.target):
        return foreign_complaint(one)
    if one.importer == "orchestrator":
        return None if one.function or one.for_types else "orchestrator/__init__.py re-exports lazily (PEP 562)"
    target = room_of(one.target)
    allowed = ROOMS[room] | INSIDE_FUNCTIONS.get((room, one.function or ""), frozenset())
    if target == room or target in allowed:
        return None
    return f"{room} may import {', '.join(sorted(allowed)) or 'nothing of ours'}"


def foreign_complaint(one: Import) -> str | None:
    """Why a module may not import something from outside; None: it may."""
    room, package = room_of(one.importer), one.target.partition(".")[0]
    if room == "core":
        # The port of the workspace names paths; it opens none.
        is_port = one.importer.startswith("orchestrator.core.ports") and package == "pathlib"
        fine = package in PURE_MODULES | PURE_PACKAGES or one.target == "urllib.parse" or is_port
        return None if fine else "the core is pure: time, ids and randomness arrive as arguments"
    counted = OTHERS_LIBRARIES.get(room)
    if counted is None or package in counted or package in sys.stdlib_module_names:
        return None
    return f"{room} may import the standard library and {', '.join(sorted(counted))}"


def test_every_module_has_a_room() -> None:
    homeless = sorted(name for name in MODULES if name != "orchestrator" and room_of(name) not in ROOMS)
    assert not homeless, f"{homeless} stand in no room: give the room its line in ROOMS of tests/test_layers.py first."


def test_imports_go_down() -> None:
    known = [one for one in IMPORTS if one.importer == "orchestrator" or room_of(one.importer) in ROOMS]
    broken = [f"{one}: {why}" for one in known if (why := complaint(one))]
    assert not broken, "Imports against the table:\n" + "\n".join(broken)


def test_modules_import_each_other_in_no_circle() -> None:
    graph: dict[str, set[str]] = {name: set() for name in MODULES}
    for one in IMPORTS:
        if one.function is None and one.target in MODULES and one.target != one.importer:
            graph[one.importer].add(one.target)
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as circle:
        pytest.fail("These import each other: " + " <- ".join(circle.args[1]))


def test_rooms_lie_in_layers() -> None:
    graph = {room: set(allowed) for room, allowed in ROOMS.items()}
    assert "core" in tuple(TopologicalSorter(graph).static_order())


def test_few_rooms_know_each_other() -> None:
    arrows = {(room_of(one.importer), room_of(one.target)) for one in IMPORTS if is_ours(one.target)}
    rooms = set(ROOMS) - {"__main__", "test_server", "cc_client"}
    between = {(one, other) for one, other in arrows if one != other and {one, other} <= rooms}
    assert len(rooms) == MOST_ROOMS
    assert len(between) <= MOST_ARROWS, sorted(between)


def test_the_core_reads_no_clock_and_throws_no_dice() -> None:
    seen = []
    for name, path in MODULES.items():
        if room_of(name) != "core" or not name.startswith("orchestrator."):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in IMPURE_CALLS:
                    seen.append(f"{name}:{node.lineno} calls {called}")
    assert not seen, f"{seen}: the core is pure; let the value arrive as an argument."


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("orchestrator.core.x", "import time"),
        ("orchestrator.core.x", "def f():\n    import random"),
        ("orchestrator.core.x", "from pathlib import Path"),
        ("orchestrator.core.x", "from orchestrator import runtime"),
        ("orchestrator.core.x", "if TYPE_CHECKING:\n    from orchestrator.adapters.store import sqlite"),
        ("orchestrator.tools.x", "from orchestrator.computers.hub import Hub"),
        ("orchestrator.web.app", "from orchestrator.app.library import execute_task_with_agent"),
        ("orchestrator.engine.tasks", "from orchestrator.computers.hub import Hub"),
        ("orchestrator.engine.x", "from orchestrator.adapters.store import open_store"),
        ("orchestrator.app", "import cc_client.simulator"),
        ("orchestrator.app", "from orchestrator.terminal.cli import main"),
        ("cc_client.simulator", "from orchestrator.core.wire import wire"),
        ("orchestrator.terminal.cli", "def review():\n    from orchestrator.app import run"),
        ("orchestrator.terminal.cli", "from orchestrator.app import run"),
        ("orchestrator.client", "import typer"),
        ("orchestrator.core.x", "from . import items"),
        ("orchestrator", "from orchestrator.core.errors import NotFound"),
    ],
)
def test_an_import_against_the_table_is_found(importer: str, source: str) -> None:
    known = frozenset(MODULES)
    assert [one for one in imports_of(importer, source, known) if complaint(one)]


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("orchestrator.terminal.cli", "def serve():\n    from orchestrator.app import run"),
        ("orchestrator.terminal.cli", "def serve():\n    def inner():\n        from orchestrator.app import run"),
        ("orchestrator.core.x", "import pydantic, json\nfrom collections.abc import Mapping"),
        ("orchestrator", "def __getattr__(name):\n    from orchestrator.core.errors import NotFound"),
        ("orchestrator", "if TYPE_CHECKING:\n    from orchestrator.core.errors import NotFound as NotFound"),
    ],
)
def test_other_imports_are_allowed(importer: str, source: str) -> None:
    assert not [one for one in imports_of(importer, source, frozenset(MODULES)) if complaint(one)]
