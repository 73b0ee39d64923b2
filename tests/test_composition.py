"""Composition is by constructors: no module assigns an attribute of an object of another module.

A module may change its own records: an attribute that a class of the same module has. An object of another module
gets what it needs in its constructor, as a callback where two need each other, and changes by its own methods.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "orchestrator"

ROOMS = ("app", "computers", "engine", "web")
"""The rooms that put parts together, and what they put together."""
ALLOWED = {
    # Starlette takes these two only so.
    "app.router.redirect_slashes", "app.router.default",
    # Starlette's own place for what a request carries along.
    "connection.state.identity", "request.state.identity",
    # What uvicorn itself sets when a client is gone.
    "cycle.disconnected",
}  # fmt: skip


def own_attributes(tree: ast.Module) -> set[str]:
    """The attributes of the classes of a module."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = (one.target for made in classes for one in made.body if isinstance(one, ast.AnnAssign))
    set_by_self = {node.attr for made in classes for node in stored(made) if is_self(node)}
    return {one.id for one in fields if isinstance(one, ast.Name)} | set_by_self


def stored(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Each attribute that is assigned or deleted in a tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node


def is_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def assigned_elsewhere(source: str) -> Iterator[str]:
    """Each assignment of a module to an attribute that is of no class of its own."""
    tree = ast.parse(source)
    own = own_attributes(tree)
    for node in stored(tree):
        if not is_self(node) and node.attr not in own:
            yield f"{node.lineno}: {ast.unparse(node)}"


def test_no_attribute_of_another_object_is_assigned_after_construction() -> None:
    paths = (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    found = [(path.relative_to(ROOT), one) for path in paths for one in assigned_elsewhere(path.read_text("utf-8"))]
    wrong = [f"{path}:{one}" for path, one in found if one.split(": ")[1] not in ALLOWED]
    assert not wrong, "Pass these in the constructor, or let the object change itself by a method:\n" + "\n".join(wrong)
    assert {one.split(": ")[1] for _, one in found} == ALLOWED, "An exception that nothing needs"


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("hub.desk = desk", True),
        ("hub.mirror.timer += 1", True),
        ("def begin(a, b):\n    a.one, b.two = b, a", True),
        ("for hub.now in hubs: pass", True),
        ("del hub.desk", True),
        ("class A:\n    def __init__(self):\n        self.one = 1", False),
        ("class A:\n    one: int\n\ndef f(known):\n    known.one = 2", False),
        ("one = hub.desk", False),
    ],
)
def test_an_assignment_is_found(source: str, is_found: bool) -> None:
    assert bool(list(assigned_elsewhere(source))) is is_found
