"""The registry of tools: names bound to functions, observers and recovery; a literal, no decorators."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.core.policy import BUILT_IN_CATALOG, Governance, Recovery, ToolSpec
from orchestrator.core.policy.tool_args import ALL_TOOL_ARGS
from orchestrator.core.task.facts import Observed
from orchestrator.core.wire.wire import RunId
from orchestrator.tools import local
from orchestrator.tools.computer import changes, discovery, listings, observation, programs
from orchestrator.tools.deps import CCAgentDeps

# -- The tools that speak to people ------------------------------------------------------
#
# In a running task the actor turns them into items of the journal; called by hand they only say what would
# happen.


async def send_status(deps: CCAgentDeps, *, message: str) -> str:
    """Tell the user how it goes."""
    del deps, message
    return "Status sent."


async def ask_user(deps: CCAgentDeps, *, question: str, options: Sequence[str] = ()) -> str:
    """Ask the user; in stub mode nobody answers."""
    del deps, options
    return f"Nobody is here to answer: {question}"


# -- The registry of tools: names bound to functions, observers and recovery; a literal, no decorators


@dataclass(frozen=True)
class Tool:
    """One tool: a plain async function ``(deps, **args) -> str`` and what the server must know of it."""

    name: str
    function: Callable[..., Awaitable[str]]
    observe: Callable[..., Awaitable[Observed]] | None = None
    """Looks at what a call would touch, for the reviewer; None: it touches nothing."""
    prepare: Callable[..., Awaitable[None]] | None = None
    """Puts on this host's disk what must be there before the bracket opens; None: nothing."""
    settle: Callable[[CCAgentDeps, RunId], Awaitable[bool]] | None = None
    """Whether a started run on this host was *not* done, for good; None: the computer knows."""
    left: Callable[..., Awaitable[dict[str, str]]] | None = None
    """The files that a finished run on this host left, as ``CCAgentDeps.after`` has them; None: the computer knows."""

    async def __call__(self, deps: CCAgentDeps, **args: Any) -> str:
        """Call the function with checked arguments. Raises ReplyRefused, ToolFailed."""
        checked = ALL_TOOL_ARGS[self.name].model_validate(args).model_dump(exclude={"computer"})
        return await self.function(deps, **checked)

    @property
    def spec(self) -> ToolSpec:
        """Its record."""
        return BUILT_IN_CATALOG[self.name]

    @property
    def recovery(self) -> Recovery:
        """What an unheard outcome means."""
        return self.spec.recovery

    @property
    def governance(self) -> Governance:
        """What the catalog says of it."""
        return self.spec.governance

    @property
    def plugin(self) -> str:
        """``cc``, ``local`` or ``people``."""
        return self.spec.plugin

    @property
    def tool_id(self) -> str:
        """``{plugin}-{function}``."""
        return self.spec.tool_id


TOOL_REGISTRY: Final[dict[str, Tool]] = {
    tool.name: tool
    for tool in (
        Tool("send_status", send_status),
        Tool("ask_user", ask_user),
        Tool("cc_read", listings.cc_read),
        Tool("cc_list", listings.cc_list),
        Tool("cc_find", listings.cc_find),
        Tool("cc_info", discovery.cc_info),
        Tool("cc_docs", discovery.cc_docs),
        Tool("cc_screen", discovery.cc_screen),
        Tool("cc_peripheral_call", discovery.cc_peripheral_call, observe=discovery.observe_peripheral_call),
        Tool("cc_label", discovery.cc_label, observe=discovery.observe_label),
        Tool("cc_write", changes.cc_write, observe=observation.observe_write),
        Tool("cc_edit", changes.cc_edit, observe=observation.observe_edit),
        Tool("cc_move", changes.cc_move, observe=observation.observe_move),
        Tool("cc_mkdir", changes.cc_mkdir, observe=observation.observe_mkdir),
        Tool("cc_delete", changes.cc_delete, observe=observation.observe_delete),
        Tool("cc_restore", changes.cc_restore, observe=changes.observe_restore),
        Tool("cc_run_program", programs.cc_run_program, observe=programs.observe_run),
        Tool("cc_shell", programs.cc_shell, observe=programs.observe_shell),
        Tool("cc_stop", programs.cc_stop, observe=programs.observe_stop),
        Tool("local_read", local.local_read),
        Tool(
            "local_write",
            local.local_write,
            observe=local.observe_write,
            prepare=local.prepare_write,
            settle=local.settle,
            left=local.left_by_write,
        ),
        Tool(
            "local_patch",
            local.local_patch,
            observe=local.observe_patch,
            prepare=local.prepare_patch,
            settle=local.settle,
            left=local.left_by_patch,
        ),
        Tool(
            "local_restore",
            local.local_restore,
            observe=local.observe_restore,
            prepare=local.prepare_restore,
            settle=local.settle,
            left=local.left_by_restore,
        ),
    )
}
