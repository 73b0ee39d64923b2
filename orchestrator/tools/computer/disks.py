"""The other disks of a computer: what a listing of all that is on it leaves out without a word."""

from typing import Final

from orchestrator.core.errors import ComputerFailed, ToolFailed
from orchestrator.core.undo.listings import Listed
from orchestrator.core.undo.touches import escaped
from orchestrator.tools.computer.commands import READ_WAIT_S, channel_of, sentence
from orchestrator.tools.computer.listings import names_in
from orchestrator.tools.deps import CCAgentDeps

_GAME: Final = "rom"
"""The game's own files, on every computer the same."""


async def other_disks(deps: CCAgentDeps, listed: Listed) -> dict[str, str]:
    """What is in the root and in no listing since it is another disk, each with a sentence. Raises ToolFailed."""
    channel = channel_of(deps)
    if channel is None:
        return {}
    try:
        root = await channel.call("fs_list", {"path": ""}, None, READ_WAIT_S)
    except ComputerFailed as error:
        raise ToolFailed(sentence(error, "/")) from error
    found: dict[str, str] = {}
    for wire in names_in(root.body, "/"):
        name = escaped(wire)
        if name in listed.listing.states or name in listed.skipped or name == _GAME:
            continue
        try:
            shown = await channel.call("fs_stat", {"path": wire}, None, READ_WAIT_S)
        except ComputerFailed as error:
            if error.reason != "too_large":
                continue  # The client's own files, or it is gone by now.
            found[name] = "It is another disk."
        else:
            if shown.data.get("mount"):
                found[name] = "It is another disk."
    return found
