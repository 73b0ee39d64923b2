"""A transaction script: a generator without I/O of its own.

It yields a statement with its parameters, is sent the rows, and returns the answer or raises the refusal. Its caller
opens the transaction before and commits after.
"""

from collections.abc import Generator
from typing import Any, Final, TypeVar

from pydantic_core import PydanticSerializationError

from orchestrator.core.errors import StoreDamaged

T = TypeVar("T")
Statement = tuple[str, tuple[str | int | bytes | list[str | int] | None, ...]]
Rows = list[tuple[Any, ...]]
Script = Generator[Statement, Rows, T]


def text(value: object) -> str:
    """The text of a column. Raises TypeError: somebody put another kind of value there."""
    if not isinstance(value, str):
        raise TypeError(type(value).__name__)
    return value


def whole(value: object) -> int:
    """The whole number of a column. Raises TypeError: somebody put another kind of value there."""
    if not isinstance(value, int):
        raise TypeError(type(value).__name__)
    return value


_OF_A_VALUE: Final = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)
_OF_AN_ARGUMENT: Final = (UnicodeEncodeError, PydanticSerializationError)


def of_a_row(error: Exception) -> Exception:
    """A script's failure on a value that was read, as an error that teaches; any other error as it is.

    A script works on rows and on arguments that were checked before it: such an error means that a row holds a value
    that we do not write. Only what cannot be encoded is an argument's fault. The cause stays with it for the log.
    """
    if not isinstance(error, _OF_A_VALUE) or isinstance(error, _OF_AN_ARGUMENT):
        return error
    damaged = StoreDamaged(
        f"A row of the store holds a value that this program does not write ({type(error).__name__}).",
        remedy="Run `cc-orchestrator audit verify --data-dir DIR`: it names the table, the row and the column.",
    )
    damaged.__cause__ = error
    return damaged
