"""cc-orchestrator: lets a language model work on ComputerCraft computers, with a person in charge.

The names below are imported when they are first used, so that ``import orchestrator`` costs
nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.adapters.models.scripted import ScriptedModel
    from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
    from orchestrator.app.library import execute_task_with_agent
    from orchestrator.core.approval.approval import CallDecision, HitlResponse, ResumeRequest
    from orchestrator.core.errors import HitlInterventionRequired, ReplyRefused
    from orchestrator.core.policy import (
        FunctionCall,
        Policy,
        PolicyDecision,
        PolicyRule,
        ToolCatalog,
        check_for_intervention,
        evaluate,
        load_policy,
    )
    from orchestrator.core.ports import RequestAuthorizer, TaskPersistenceManager
    from orchestrator.core.reply.response import AgentResponse, FinalResult, RequestedTool, ToolRequest, read_reply
    from orchestrator.core.task.items import AgentTaskItem
    from orchestrator.core.task.states import TaskStatus
    from orchestrator.core.task.task import AgentTask
    from orchestrator.engine.workers import process_task
    from orchestrator.terminal.interactive import run_task_interactive
    from orchestrator.tools.deps import CCAgentDeps, call_cc_command
    from orchestrator.tools.registry import TOOL_REGISTRY, Tool

_ROOMS = {
    "core.approval.approval": ("CallDecision", "HitlResponse", "ResumeRequest"),
    "core.errors": ("HitlInterventionRequired", "ReplyRefused"),
    "core.task.items": ("AgentTaskItem",),
    "core.policy": (
        "FunctionCall",
        "Policy",
        "PolicyDecision",
        "PolicyRule",
        "ToolCatalog",
        "check_for_intervention",
        "evaluate",
        "load_policy",
    ),
    "core.reply.response": ("AgentResponse", "FinalResult", "RequestedTool", "ToolRequest", "read_reply"),
    "core.task.task": ("AgentTask",),
    "core.task.states": ("TaskStatus",),
    "terminal.interactive": ("run_task_interactive",),
    "adapters.models.scripted": ("ScriptedModel",),
    "core.ports": ("RequestAuthorizer", "TaskPersistenceManager"),
    "app.library": ("execute_task_with_agent",),
    "engine.workers": ("process_task",),
    "adapters.store.sqlite": ("InMemoryPersistenceManager",),
    "tools.deps": ("CCAgentDeps", "call_cc_command"),
    "tools.registry": ("TOOL_REGISTRY", "Tool"),
}
_HOMES = {name: f"orchestrator.{room}" for room, names in _ROOMS.items() for name in names}

__all__ = [
    "TOOL_REGISTRY",
    "AgentResponse",
    "AgentTask",
    "AgentTaskItem",
    "CCAgentDeps",
    "CallDecision",
    "FinalResult",
    "FunctionCall",
    "HitlInterventionRequired",
    "HitlResponse",
    "InMemoryPersistenceManager",
    "Policy",
    "PolicyDecision",
    "PolicyRule",
    "ReplyRefused",
    "RequestAuthorizer",
    "RequestedTool",
    "ResumeRequest",
    "ScriptedModel",
    "TaskPersistenceManager",
    "TaskStatus",
    "Tool",
    "ToolCatalog",
    "ToolRequest",
    "call_cc_command",
    "check_for_intervention",
    "evaluate",
    "execute_task_with_agent",
    "load_policy",
    "process_task",
    "read_reply",
    "run_task_interactive",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'orchestrator' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
