"""Whether a file is shown as text or told in one line: by its bytes and its name, and nothing else.

Theory. A person decides on text that they read, so a file that could run is text and is shown, whatever bytes somebody
put into it. That is a file that is a program by its name, and any file whose bytes could be Lua, since `dofile` and a
shell take every name. Of the rest, ComputerCraft's text is often latin-1, and some of its signs are control characters:
a few bytes that no other text has do not make a file binary. All other files are binary: mostly unreadable, and not
programs.
"""

import re
from typing import Final

from orchestrator.core.values import sha256_hex

_TEXT: Final = bytes([*range(0x09, 0x0E), *range(0x20, 0x7F), *range(0x80, 0x100)])
"""The bytes of text: from 0x80 on all, in latin-1 or UTF-8; tabs, and the ends of lines and pages."""
_ONE_IN: Final = 32
"""One in so many of a text's bytes may be another; of random bytes, and of what is compressed, one in nine is."""
_PROGRAM: Final = re.compile(r"(?:.*/)?(?:startup[^/]*(?:/.*)?|\.settings|[^/]*\.lua)", re.DOTALL)
"""Names of what runs at a boot of a computer, or says what does; and of Lua."""
_OTHER_PROGRAMS: Final = (b"\x1b", b"#!")
"""How compiled Lua begins, which old versions of the game load, and a script of this host."""
_FIRST_LINE: Final = re.compile(rb"#[^\r\n]*")
"""What the game passes over at the start of a program."""
_LUA: Final = re.compile(
    rb"""
      (?:(?!--|\[=*\[)[\x00-!#-&(-~])+                         # words, numbers, signs; all up to the blank is one
    | "[^"\\\r\n]*(?:\\(?!z)(?:\r\n?|\n\r?|.)[^"\\\r\n]*)*"   # a text on one line
    | '[^'\\\r\n]*(?:\\(?!z)(?:\r\n?|\n\r?|.)[^'\\\r\n]*)*'
    | --(?!\[=*\[)[^\r\n]*                                     # a comment on one line
    """,
    re.X | re.DOTALL,
)
"""One piece. No group is possessive: the first versions of Python 3.11 read such a group wrongly."""
_LONG: Final = re.compile(rb"(?:--)?\[(=*)\[")
"""Begins a text or a comment over many lines."""
_SKIPPING: Final = re.compile(
    rb"""
      "[^"\\\r\n]*(?:\\(?!z)(?:\r\n?|\n\r?|.)[^"\\\r\n]*)*\\z
    | '[^'\\\r\n]*(?:\\(?!z)(?:\r\n?|\n\r?|.)[^'\\\r\n]*)*\\z
    """,
    re.X | re.DOTALL,
)
"""A text up to an escape that passes over line ends, and in some versions over the sign after them as well."""


def is_binary(path: str, data: bytes) -> bool:
    """Whether a file is not text and cannot run; ``path`` as a computer or this host spells it."""
    if len(data.translate(None, delete=_TEXT)) * _ONE_IN <= len(data):
        return False
    return _PROGRAM.fullmatch(path.casefold()) is None and not _may_run(data)


def in_one_line(path: str, data: bytes | None) -> str:
    """What a file is, with the hash that a decision about it is bound to; None: there is none."""
    if data is None:
        return "absent"
    kind = "binary" if is_binary(path, data) else "text"
    return f"{kind}, {len(data):,} bytes, sha256 {sha256_hex(data)}"


def _may_run(data: bytes) -> bool:
    """Whether the bytes could be a program: of Lua, all that would pass for words, signs, texts and comments.

    Outside of texts and comments no version of the game takes a byte above ``~``; a byte below the blank is one there.
    """
    if data.startswith(_OTHER_PROGRAMS):
        return True
    first = _FIRST_LINE.match(data)
    at = first.end() if first is not None else 0
    while at < len(data):
        found = _LUA.match(data, at)
        if found is not None:
            at = found.end()
            continue
        opened = _LONG.match(data, at)
        if opened is None:
            return _SKIPPING.match(data, at) is not None
        closed = data.find(b"]" + opened[1] + b"]", opened.end())
        if closed < 0:
            return False
        at = closed + len(opened[1]) + 2
    return True
