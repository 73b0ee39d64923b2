"""What was probably meant by a path that names nothing."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from orchestrator.core.text.paths import unspelled
from orchestrator.core.undo.touches import as_argument

_SHOWN: Final = 3
_COMPARED: Final = 2000
"""Each takes some microseconds."""


def near(wanted: str, there: Sequence[str]) -> str:
    """The names of what is there that are nearest to a name that is not, as a sentence; empty: nothing is there.

    What only looks the same; else what has the same name elsewhere, then what is written almost so; else any.
    """
    alike = [one for one in there if _looks(one) == _looks(wanted)]
    same = [one for one in there if _name(one) == _name(wanted)]
    close = get_close_matches(wanted, there[:_COMPARED], n=_SHOWN, cutoff=0.6)
    found = (alike or list(dict.fromkeys([*same, *close])))[:_SHOWN]
    if found:
        return f"Near it: {', '.join(found)}."
    more = f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
    return f"There is: {', '.join(there[:_SHOWN])}{more}." if there else ""


def _looks(text: str) -> str:
    """A name as it looks where nobody tells bytes from letters, upper from lower case, or slashes at its ends."""
    return as_argument(unspelled(text)).strip("/").casefold()


def _name(text: str) -> str:
    return text.rpartition("/")[2].rpartition(":")[2].casefold()
