"""What every recorded value is built on."""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen value that knows every field it has."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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
