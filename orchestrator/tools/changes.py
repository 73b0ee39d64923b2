"""How a change of a file is shown: as a diff where it is text, and in one line what is binary."""

from typing import NamedTuple

from orchestrator.core.text.binary import in_one_line, is_binary
from orchestrator.core.text.patch import unified_diff
from orchestrator.tools.text import decode_text


class Change(NamedTuple):
    """What becomes of the bytes of a file."""

    diff: str | None
    """All text of it, what a binary file is left out; None: there is none."""
    binary: str
    """What was and what will be, with the whole hashes, where one of them is binary; empty: neither is."""


def change_of(path: str, before: bytes | None, after: bytes | None, *, typed: str | None = None) -> Change:
    """What a change of a file is to a person; None: there is no file.

    ``typed``: ``after`` as text, where it is known how to read it: then it is shown, whatever it is.
    """
    if before is None and after is None:
        return Change(None, "")
    hides_old = before is not None and is_binary(path, before)
    hides_new = typed is None and after is not None and is_binary(path, after)
    binary = f"{in_one_line(path, before)} -> {in_one_line(path, after)}" if hides_old or hides_new else ""
    if binary and (before is None or hides_old) and (after is None or hides_new):
        return Change(None, binary)
    # What is binary is left out as if it were empty, so that all text that there is can be read.
    old = None if before is None else "" if hides_old else decode_text(before)
    new = typed if typed is not None or after is None else "" if hides_new else decode_text(after)
    return Change(unified_diff(old, new, path), binary)
