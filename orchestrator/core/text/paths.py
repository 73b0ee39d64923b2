"""The canonical ComputerCraft path, and globs on it.

Ten spellings of ``/startup.lua`` reach one file in the game; rules and claims see only the
canonical one. The steps and their order are those of CC: Tweaked's ``FileSystem.sanitizePath``
(FileSystem.java, 1.113.1), except for names too long for the game, which are refused, not cut.
"""

import re
from functools import lru_cache
from typing import Final

from orchestrator.core.errors import UnsafePath

MAX_PATH_BYTES: Final = 500
"""Bytes of a path, so that it fits the header of a frame six times over (each byte may be ``\\u00XX``)."""
MAX_PART_BYTES: Final = 255
"""The game cuts a longer name, which can leave another path (even ``..``) than the one that was judged."""
_DROPPED: Final = re.compile('[\\x00-\\x1f"*:<>?|]')
_SPELLED: Final = re.compile(r"\\x([89a-fA-F][0-9a-fA-F])")
_ESCAPED: Final = 0xDC00
"""What ``surrogateescape`` adds to a byte that is not UTF-8."""
_DOTS: Final = re.compile(r"^\.{3,}$")


def canonical_path(path: str) -> str:
    """``path`` as the computer's file system will read it; the root is ``""``.

    Raises UnsafePath when it climbs above the root, or is longer than 500 bytes, a name in it than 255.
    """
    cleaned = _DROPPED.sub("", path.replace("\\", "/"))
    parts: list[str] = []
    for raw in cleaned.split("/"):
        part = raw.strip(" \t")
        if part in ("", ".") or _DOTS.match(part):
            continue
        if part == "..":
            if not parts:
                raise UnsafePath(f"The path {path!r} climbs above the root.", remedy="Leave out the leading '..'.")
            parts.pop()
            continue
        _check_length(part)
        parts.append(part)
    canonical = "/".join(parts)
    if len(canonical.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        raise UnsafePath(f"The path has more than {MAX_PATH_BYTES} bytes.", remedy="Use a shorter path.")
    return canonical


def spelled(path: str) -> str:
    r"""A path as people read and write it, so that no two are spelled alike.

    Names on a computer are bytes. One that is not UTF-8 has surrogates in ``path`` (``surrogateescape``); each such
    byte is spelled ``\xfc``. No path on a computer has a backslash: the game takes it for a slash.
    """
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def unspelled(text: str) -> str:
    """The path that is spelled so."""
    path = _SPELLED.sub(lambda found: chr(_ESCAPED + int(found[1], 16)), text)
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _check_length(part: str) -> None:
    data = part.encode("utf-8", "surrogatepass")
    if len(data) > MAX_PART_BYTES:
        becomes = data[:MAX_PART_BYTES].decode("utf-8", "ignore").strip(" \t")
        raise UnsafePath(
            f"A name in the path has more than {MAX_PART_BYTES} bytes. ComputerCraft would silently cut it to "
            f"{becomes!r}.",
            remedy="Use shorter names.",
        )


def path_matches(pattern: str, canonical: str, *, ignore_case: bool) -> bool:
    """Whether a canonical path matches a glob: ``*`` within a part, ``**`` across parts, ``?`` one character.

    A leading ``/`` in the pattern means nothing: every path is counted from the root.
    """
    return _compiled(pattern, ignore_case).fullmatch(canonical) is not None


def can_match(pattern: str) -> bool:
    r"""Whether any canonical path can match a glob: ``rom/``, ``./rom`` or ``a\b`` would silently match nothing."""
    plain = pattern.lstrip("/").replace("*", "x").replace("?", "x")
    try:
        return canonical_path(plain) == plain
    except UnsafePath:
        return False


@lru_cache(maxsize=1024)
def _compiled(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    out: list[str] = []
    rest = pattern.lstrip("/")
    while rest:
        if rest == "/**":
            out.append("(?:/.*)?")
            rest = ""
        elif rest.startswith("**/"):
            out.append("(?:.*/)?")
            rest = rest[3:]
        elif rest.startswith("**"):
            out.append(".*")
            rest = rest[2:]
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(rest[0], re.escape(rest[0])))
            rest = rest[1:]
    return re.compile("".join(out), re.DOTALL | (re.IGNORECASE if ignore_case else 0))
