"""What a transaction script is: a generator that does no I/O itself.

It yields a statement with its parameters, is sent the rows, and returns the answer or raises the
refusal. Whoever drives it opens the transaction before and commits after.
"""

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Statement = tuple[str, tuple[str | int | bytes | list[str | int] | None, ...]]
Rows = list[tuple[Any, ...]]
Script = Generator[Statement, Rows, T]
