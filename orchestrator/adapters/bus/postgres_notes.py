"""A letter of the PostgreSQL bus with its address, as a few notifications.

A notification carries less than 8000 bytes. All of it is ASCII, so that its length does not depend on the database's
encoding. Of two that are the same in one transaction PostgreSQL sends one: letters have tags, notifications numbers,
parts the number of their letter. The notifications of one transaction come one after the other.
"""

from base64 import b64decode, b64encode
from typing import Final, Literal, NamedTuple, get_args

LONGEST: Final = 7999
"""Bytes that a notification carries at most."""
SAID_BYTES: Final = 64 * 1024
"""A longer letter goes through a table, where the other node fetches it: two statements more, and the bytes on disk."""
_PART_HEAD: Final = 24
"""Characters that say which part of which letter it is, at most."""

NoteKind = Literal["hint", "request", "letter"]
_KINDS: Final = frozenset(get_args(NoteKind))


class Note(NamedTuple):
    """A letter on its way."""

    kind: NoteKind
    to: str
    """The subject of a notification or a request, the node of a letter."""
    tag: str
    """The node that sent the notification."""
    letter: bytes


def said(note: Note, number: int) -> list[str]:
    """The notifications of a note; none: it is too large. ``number``: no other letter of the transaction has it."""
    head = f"{note.kind} {note.to} {note.tag} "
    room = LONGEST - len(head) - _PART_HEAD
    if len(note.letter) > SAID_BYTES or room <= 0:
        return []
    text = b64encode(note.letter).decode()
    if len(text) < LONGEST - len(head):
        return [f"{head}={text}"]
    parts = [text[at : at + room] for at in range(0, len(text), room)]
    return [f"{head}.{at}.{len(parts)}.{number}.{part}" for at, part in enumerate(parts)]


def spilled(note: Note, key: str) -> str:
    """The notification of a note whose letter lies in the database."""
    return f"{note.kind} {note.to} {note.tag} @{key}"


class Hearing:
    """Reads notes as they come one after the other, and joins the parts of letters.

    ``node``: the one that hears; its own notifications come back to it, and are passed over.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self._parts: list[str] = []
        self._of: tuple[str, ...] = ()
        """The letter whose parts these are: its kind, address, tag, count of parts, number."""

    def heard(self, text: str) -> tuple[Note, str] | None:
        """The note, and the key of its letter where that lies in the database; None: more comes, or it is an own one.

        Raises ValueError for another text.
        """
        kind, to, tag, rest = text.split(" ")
        if kind == "hint" and tag == self._node:
            return None
        if kind not in _KINDS or rest[:1] not in ("=", "@", "."):
            raise ValueError("This is not a note of the bus.")
        if rest[0] == ".":
            joined = self._joined((kind, to, tag), rest)
            if joined is None:
                return None
            rest = joined
        letter, key = (b64decode(rest[1:]), "") if rest[0] == "=" else (b"", rest[1:])
        return Note(kind, to, tag, letter), key  # type: ignore[arg-type] # it is one of them

    def _joined(self, head: tuple[str, str, str], rest: str) -> str | None:
        """All of a letter of which this is the last part; None: it is not, or one is missing."""
        _, at, count, number, part = rest.split(".")
        if at == "0":
            self._of, self._parts = (*head, count, number), []
        if self._of != (*head, count, number) or int(at) != len(self._parts):
            return None
        self._parts.append(part)
        return f"={''.join(self._parts)}" if len(self._parts) == int(count) else None
