"""Which places of a computer a policy has watched while a program runs there."""

import re
from collections.abc import Iterable
from typing import Final

from orchestrator.core.text.paths import path_matches

_ELSEWHERE: Final = re.compile(r"(?:rom|disk[0-9]*|\.cc-orchestrator)")
"""What is at the top of a computer and not its own: the game's files, disks in drives, the client's own."""
_WILD: Final = re.compile(r"[*?]")


def is_never_watched(glob: str) -> bool:
    """Whether a glob names what is not a computer's own, by its first name."""
    return _ELSEWHERE.fullmatch(glob.lstrip("/").partition("/")[0]) is not None


def is_watched(globs: Iterable[str], path: str) -> bool:
    """Whether a canonical path is in one of the places."""
    return any(path_matches(glob, path, ignore_case=False) for glob in globs)


def watched_roots(globs: Iterable[str]) -> tuple[str, ...]:
    """The fewest and smallest directories, or files, in which all that the globs can match is."""
    found: list[str] = []
    for root in sorted({_root(glob) for glob in globs}):
        if not any(not one or f"{root}/".startswith(f"{one}/") for one in found):
            found.append(root)
    return tuple(found)


def _root(glob: str) -> str:
    parts = glob.strip("/").split("/")
    wild = next((at for at, part in enumerate(parts) if _WILD.search(part)), len(parts))
    return "/".join(parts[:wild])
