"""The base of every recorded value, and the names and digests that items and both sides of the wire share."""

import hashlib
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final, NewType, Self, TypeVar, dataclass_transform

from pydantic import BaseModel, ConfigDict

# -- What every recorded value is built on -----------------------------------------------


class Value(BaseModel):
    """A frozen value that knows every field it has."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @classmethod
    def of_defaults(cls) -> Self:
        """The value in which each field has its default, such as for a constant of a module.

        Nothing in it has to be checked, so no import pays for the building of the model's checks.
        """
        return cls.model_construct()


ComputerId = NewType("ComputerId", str)
RunId = NewType("RunId", str)


def sha256_hex(data: bytes) -> str:
    """The sha256 of ``data`` in lowercase hex, as both sides write it."""
    return hashlib.sha256(data).hexdigest()


def is_none(value: object) -> bool:
    """Whether a field has nothing to say: with ``exclude_if``, such a field is not written."""
    return value is None


def is_false(value: object) -> bool:
    """As :func:`is_none`, for a field that is true or false."""
    return value is False


def is_empty(value: object) -> bool:
    """As :func:`is_none`, for a field whose default is an empty text, tuple or dictionary."""
    return not value


def is_zero(value: object) -> bool:
    """As :func:`is_none`, for a number."""
    return value == 0


_Record = TypeVar("_Record")
_Class = TypeVar("_Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def immutable(made: _Class) -> _Class:
    """Make a frozen dataclass of a class, in a third of the time: of its methods only ``__init__`` is compiled.

    ``dataclasses`` compiles six methods for each class. That was a sixth of what a command may take that reads a store,
    for it imports a hundred of them. Here each field is an argument.
    """
    known = fields(dataclass(init=False, repr=False, eq=False)(made))
    # The class comes first, so that there is something to compare where there are no fields.
    compared = attrgetter("__class__", *(one.name for one in known if one.compare))

    def __repr__(self: Any) -> str:
        shown = (f"{one.name}={getattr(self, one.name)!r}" for one in known if one.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __eq__(self: Any, other: object) -> Any:
        return compared(self) == compared(other) if type(other) is type(self) else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(compared(self))

    for method in (_init_of(made), __repr__, __eq__, __hash__, _set, _delete):
        setattr(made, method.__name__, method)
    return made


def _init_of(made: Any) -> Callable[..., None]:
    """The ``__init__`` of an immutable class, as ``dataclasses`` writes it for a frozen one."""
    seen: dict[str, Any] = {"_give": object.__setattr__}
    takes, gives = ["self"], []
    for one in fields(made):
        default, value = f"_{one.name}_", one.name
        if one.default_factory is not MISSING:
            seen[default], value = one.default_factory, f"{default}() if {one.name} is {default} else {one.name}"
        elif one.default is not MISSING:
            seen[default] = one.default
        takes.append(f"{one.name}={default}" if default in seen else one.name)
        gives.append(f"_give(self, {one.name!r}, {value})")
    if hasattr(made, "__post_init__"):
        gives.append("self.__post_init__()")
    exec(f"def __init__({', '.join(takes)}): {'; '.join(gives) or 'pass'}", seen)
    init: Callable[..., None] = seen["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    init.__annotations__ = {one.name: one.type for one in fields(made)}
    return init


def _set(self: object, name: str, value: object) -> None:
    del self, value
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: object, name: str) -> None:
    del self
    raise FrozenInstanceError(f"cannot delete field {name!r}")


_set.__name__, _delete.__name__ = "__setattr__", "__delattr__"


def changed(record: _Record, **changes: Any) -> _Record:
    """A record with other values in some fields; ``dataclasses.replace`` takes fifteen times as long."""
    new = object.__new__(type(record))
    # A frozen record lets nobody assign its dictionary either; filling the new one's by ``update`` takes twice as long.
    object.__setattr__(new, "__dict__", record.__dict__ | changes)
    return new


# -- Times as rows have them: microseconds since 1970 in UTC -----------------------------

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def to_us(moment: datetime) -> int:
    """A moment in any time zone."""
    return (moment - _EPOCH) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    """The moment, aware, in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


FAR_S: Final = 2.0
"""Seconds of error after which a clock should be set: a clock that follows the network's time is off by far less."""


def told_apart(whose: str, by_s: float) -> str:
    """A sentence that a clock is so many seconds ahead of the store's; empty: it is near enough."""
    if abs(by_s) < FAR_S:
        return ""
    where = "ahead of" if by_s > 0 else "behind"
    return f"The clock of {whose} is {abs(by_s):.0f} s {where} the store's, by which all nodes go: set it."
