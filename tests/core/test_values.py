"""``immutable`` makes what a frozen dataclass is: each check is made of both."""

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import Any

import pytest

from orchestrator.core.values import changed, immutable


@immutable
class Made:
    """Each kind of a field."""

    name: str
    count: int = 0
    marks: dict[str, int] = field(default_factory=dict)
    aside: Any = field(default=None, compare=False, repr=False)


@immutable
class Longer(Made):
    """With one more."""

    last: tuple[str, ...] = ()


@immutable
class Empty:
    """Without fields."""


@immutable
class Other:
    """The same, but another class."""


@dataclass(frozen=True)
class Frozen:
    """What ``dataclasses`` makes of :class:`Made`."""

    name: str
    count: int = 0
    marks: dict[str, int] = field(default_factory=dict)
    aside: Any = field(default=None, compare=False, repr=False)


BOTH = pytest.mark.parametrize("kind", [Made, Frozen])


@BOTH
def test_it_is_made_by_place_or_name_and_else_of_defaults(kind: Any) -> None:
    one, other = kind("a"), kind("a", 2, marks={"b": 1}, aside=3)
    assert asdict(one) == {"name": "a", "count": 0, "marks": {}, "aside": None}
    assert asdict(other) == {"name": "a", "count": 2, "marks": {"b": 1}, "aside": 3}
    assert one.marks is not kind("a").marks
    lacks = rf"{kind.__name__}.__init__\(\) missing 1 required positional argument: 'name'"
    with pytest.raises(TypeError, match=lacks):
        kind()
    with pytest.raises(TypeError, match="unexpected keyword argument 'more'"):
        kind("a", more=1)


@BOTH
def test_nobody_changes_it(kind: Any) -> None:
    one = kind("a")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'count'"):
        one.count = 1
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'count'"):
        del one.count
    assert replace(one, count=1) == changed(one, count=1) == kind("a", 1)
    assert one == copy.copy(one) == pickle.loads(pickle.dumps(one)) == kind("a")


@BOTH
def test_it_is_compared_and_shown_by_its_fields(kind: Any) -> None:
    assert kind("a", aside=1) == kind("a", aside=2) != kind("a", 1)
    assert kind("a") != ("a", 0, {}, None)
    assert repr(kind("a", aside=1)) == f"{kind.__name__}(name='a', count=0, marks={{}})"
    assert hash(kind("a", marks=(), aside=[])) == hash(kind("a", marks=()))
    with pytest.raises(TypeError, match="unhashable"):
        hash(kind("a"))
    match kind("a", 1):
        case Made(name, count) | Frozen(name, count):
            assert (name, count) == ("a", 1)
    assert kind.__init__.__annotations__["count"] is int


def test_a_class_with_more_fields_is_another_one() -> None:
    longer = Longer("a", last=("b",))
    assert [one.name for one in fields(longer)] == ["name", "count", "marks", "aside", "last"]
    assert longer != Longer("a") != Made("a")
    assert repr(longer) == "Longer(name='a', count=0, marks={}, last=('b',))"


def test_it_may_look_at_what_it_was_made_of() -> None:
    @immutable
    class Doubled:
        count: int

        def __post_init__(self) -> None:
            object.__setattr__(self, "count", 2 * self.count)

    assert Doubled(2).count == 4


def test_one_without_fields_equals_its_like_alone() -> None:
    other: Any = Other()
    assert Empty() == Empty() != other
    assert len({Empty(), Empty(), other}) == 2
    assert repr(Empty()) == "Empty()"
