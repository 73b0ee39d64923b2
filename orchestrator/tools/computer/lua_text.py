"""Lua that is about to be written: it has to parse, and names that the computer does not have are told.

Under a grammar an unescaped quote in a reply gives no broken JSON but a program that is cut at that quote
(models.md, section 0): so a program of the model's that does not parse never comes before a person. What a person
makes of it by editing is theirs: the fault is shown beside the request and the result, and nothing is refused.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Final, TypeVar

from orchestrator.core.errors import ToolFailed
from orchestrator.core.model_view.cuts import counts_up, is_numbered
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.tools.lua import check_lua, unknown_names
from orchestrator.tools.reference import names_for, version_of

_MAX_FLAGS: Final = 3
_STARTUP: Final = re.compile(r"(?:disk[0-9]*/)?startup(?:/[^/.]+)?")
"""What the game runs at boot whatever its suffix: the startup file, and each file in the directory of that name."""
_NUMBERS: Final = (
    "Each line begins with its number, as cc_read shows it. If the numbers do not belong in the file, write it without."
)
_AT_ONCE: Final = 20_000
"""Characters that are looked through on the event loop: ten milliseconds at the worst."""

_T = TypeVar("_T")


def is_lua(name: str) -> bool:
    """Whether a file is a program by its canonical name: ``.lua``, or what is run at boot without it."""
    folded = name.casefold()
    return folded.endswith(".lua") or _STARTUP.fullmatch(folded) is not None


async def must_parse(deps: CCAgentDeps, name: str, after: str, *, before: str | None = None) -> None:
    """Raises ToolFailed with line and message where a program does not parse.

    ``before`` is what an edit starts from (None: the whole text is new): one that did not parse may be fixed
    step by step.
    """
    if deps.by_person or not is_lua(name):
        return
    version = version_of(deps.host)
    finding = await _away(after, lambda: check_lua(after, version=version, name=name))
    if finding is None:
        return
    if before is not None and await _away(before, lambda: check_lua(before, version=version)) is not None:
        return
    if is_numbered(after):
        raise ToolFailed(
            "Each line begins with a line number as cc_read shows it, such as '1| '. These are not part of a program.",
            remedy="Nothing was written. Send it without the numbers.",
        )
    raise ToolFailed(f"This is no Lua that runs: {finding.sentence}", remedy="Nothing was written. Send it fixed.")


async def doubts(deps: CCAgentDeps, name: str, after: str) -> str:
    """What is likely wrong with a program that is written all the same; empty: nothing is seen."""
    if not is_lua(name):
        return _NUMBERS if counts_up(after) else ""
    version = version_of(deps.host)
    finding = await _away(after, lambda: check_lua(after, version=version, name=name))
    if finding is not None:
        return f"It does not parse yet: {finding.sentence}"
    names = names_for(version, deps.family or None)
    flags = await _away(after, lambda: unknown_names(after, names, version=version))
    shown = " ".join(flag.sentence for flag in flags[:_MAX_FLAGS])
    return f"{shown} And {len(flags) - _MAX_FLAGS} more names." if len(flags) > _MAX_FLAGS else shown


async def _away(text: str, look: Callable[[], _T]) -> _T:
    """What a look at a text says; a long one is looked through away from the event loop."""
    return look() if len(text) < _AT_ONCE else await asyncio.to_thread(look)
