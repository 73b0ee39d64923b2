"""The registry of tools: names bound to functions, observers and recovery; a literal, no decorators."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from orchestrator.core.policy import BUILT_IN_CATALOG, Governance, Recovery, ToolSpec
from orchestrator.core.reply.tool_args import ALL_TOOL_ARGS
from orchestrator.core.task.facts import Observed
from orchestrator.core.wire.wire import RunId
from orchestrator.tools import computer, local
from orchestrator.tools.deps import CCAgentDeps

# -- The tools that speak to people ------------------------------------------------------
#
# In a running task the actor turns them into items of the journal; called by hand they only say what would
# happen.


async def send_status(deps: CCAgentDeps, *, message: str) -> str:
    """Tell the user how it goes."""
    del deps, message
    return "Status sent."


async def ask_user(deps: CCAgentDeps, *, question: str) -> str:
    """Ask the user; in stub mode nobody answers."""
    del deps
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
    """What a run on this host that was done left behind, as ``CCAgentDeps.after`` has it; None: the computer knows."""

    async def __call__(self, deps: CCAgentDeps, **args: Any) -> str:
        """Call the function with checked arguments. Raises ReplyRefused, ToolFailed."""
        checked = self.args_model.model_validate(args).model_dump(exclude={"computer"})
        return await self.function(deps, **checked)

    @property
    def spec(self) -> ToolSpec:
        """The tool as the gate knows it."""
        return BUILT_IN_CATALOG[self.name]

    @property
    def args_model(self) -> type[BaseModel]:
        """The model of its arguments."""
        return ALL_TOOL_ARGS[self.name]

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
    "send_status": Tool("send_status", send_status),
    "ask_user": Tool("ask_user", ask_user),
    "cc_read": Tool("cc_read", computer.cc_read),
    "cc_list": Tool("cc_list", computer.cc_list),
    "cc_find": Tool("cc_find", computer.cc_find),
    "cc_info": Tool("cc_info", computer.cc_info),
    "cc_docs": Tool("cc_docs", computer.cc_docs),
    "cc_screen": Tool("cc_screen", computer.cc_screen),
    "cc_peripheral_call": Tool(
        "cc_peripheral_call", computer.cc_peripheral_call, observe=computer.observe_peripheral_call
    ),
    "cc_write": Tool("cc_write", computer.cc_write, observe=computer.observe_write),
    "cc_edit": Tool("cc_edit", computer.cc_edit, observe=computer.observe_edit),
    "cc_move": Tool("cc_move", computer.cc_move, observe=computer.observe_move),
    "cc_mkdir": Tool("cc_mkdir", computer.cc_mkdir, observe=computer.observe_mkdir),
    "cc_delete": Tool("cc_delete", computer.cc_delete, observe=computer.observe_delete),
    "cc_restore": Tool("cc_restore", computer.cc_restore, observe=computer.observe_restore),
    "cc_run_program": Tool("cc_run_program", computer.cc_run_program, observe=computer.observe_run),
    "cc_shell": Tool("cc_shell", computer.cc_shell, observe=computer.observe_shell),
    "cc_stop": Tool("cc_stop", computer.cc_stop, observe=computer.observe_stop),
    "local_read": Tool("local_read", local.local_read),
    "local_write": Tool(
        "local_write",
        local.local_write,
        observe=local.observe_write,
        prepare=local.prepare_write,
        settle=local.settle,
        left=local.left_by_write,
    ),
    "local_patch": Tool(
        "local_patch",
        local.local_patch,
        observe=local.observe_patch,
        prepare=local.prepare_patch,
        settle=local.settle,
        left=local.left_by_patch,
    ),
    "local_restore": Tool(
        "local_restore",
        local.local_restore,
        observe=local.observe_restore,
        prepare=local.prepare_restore,
        settle=local.settle,
        left=local.left_by_restore,
    ),
}
