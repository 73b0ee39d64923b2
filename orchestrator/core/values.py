"""The base of every recorded value, and the names and digests that items and both sides of the wire share."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NewType, Self, TypeVar

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


def changed(record: _Record, **changes: Any) -> _Record:
    """A frozen dataclass with other values in some fields; ``dataclasses.replace`` takes fifteen times as long."""
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
