"""Paths as ComputerCraft cleans them (its FileSystem.sanitizePath). Paths are bytes."""

import re
from typing import Final

MAX_PART_BYTES: Final = 255
_DROPPED: Final = re.compile(rb'[\x00-\x1f"*:<>?|]')
_DROPPED_BUT_WILDCARDS: Final = re.compile(rb'[\x00-\x1f":<>|]')


def sanitize(path: bytes, *, wildcards: bool = False) -> bytes:
    """What the mod makes of a path; a leading ``..`` stays and is refused by whoever uses it.

    Args:
        path: As a program wrote it.
        wildcards: Keep ``*`` and ``?``, as combine and find do.
    """
    dropped = _DROPPED_BUT_WILDCARDS if wildcards else _DROPPED
    parts: list[bytes] = []
    for raw in dropped.sub(b"", path.replace(b"\\", b"/")).split(b"/"):
        part = raw.strip()
        if part in {b"", b"."} or (len(part) >= 3 and not part.strip(b".")):
            continue
        if part == b".." and parts and parts[-1] != b"..":
            parts.pop()
        elif len(part) >= MAX_PART_BYTES:
            parts.append(part[:MAX_PART_BYTES].strip())
        else:
            parts.append(part)
    return b"/".join(parts)


def parent(path: bytes) -> bytes:
    """The directory of a clean path; that of the root is ``..``, as in the mod."""
    if not path:
        return b".."
    return path.rpartition(b"/")[0]


def name(path: bytes) -> bytes:
    """The last part of a clean path; that of the root is ``root``, as in the mod."""
    return path.rpartition(b"/")[2] if path else b"root"
