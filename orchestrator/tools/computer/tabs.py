"""Stopping a program that runs in a tab of its own, which ``bg`` or ``fg`` opened."""

import re
from typing import Final

from orchestrator.core.errors import ToolFailed
from orchestrator.core.task.facts import Observed
from orchestrator.tools.computer.commands import READ_WAIT_S, ask
from orchestrator.tools.computer.discovery import TAB_ENDS, entries_of, tab_program
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.tools.text import shown_name

_TAB: Final = re.compile("tab-[0-9]{1,9}")


async def cc_stop(deps: CCAgentDeps, *, tab: str) -> str:
    """Stop the program of a tab, and say how it ended. Raises ToolFailed where no program runs there."""
    if deps.mode == "stub":
        return f"{tab}: [stub: nothing runs in tabs]"
    # Only tabs: any other name is the run of a call.
    is_tab = _TAB.fullmatch(tab) is not None
    data = (await ask(deps, "terminate", {"run": tab}, tab)).data if is_tab else {"state": "not_running"}
    if data.get("state") == "not_running":
        raise ToolFailed(f"No program runs in {tab}.", remedy="cc_info lists the tabs.")
    if data.get("state") == "stopping":
        return f"{tab} was told to stop and has not ended yet. cc_info tells when it has."
    said = f" {shown_name(str(data['message']))}" if data.get("message") else ""
    return f"{tab} {TAB_ENDS.get(str(data.get('ended')), 'ended')}.{said}"


async def observe_stop(deps: CCAgentDeps, *, tab: str) -> Observed:
    """What runs in the tab now, for the reviewer. Raises ToolFailed where nothing does."""
    if deps.mode == "stub":
        return Observed(state={}, note="Stub mode: nothing runs in tabs.")
    result = await ask(deps, "info", {}, "the computer", wait_s=READ_WAIT_S)
    try:
        found = next((one for one in entries_of(result.body) if one.get("tab") == tab and "ended" not in one), None)
    except (ValueError, TypeError) as error:
        raise ToolFailed("What the computer says of its tabs cannot be read.") from error
    if found is None:
        raise ToolFailed(f"No program runs in {tab}.", remedy="cc_info lists the tabs.")
    return Observed(state={}, note=f"In {tab} runs: {tab_program(found)}, for {found.get('seconds', 0)} s now.")
