"""What ``import orchestrator`` offers, and what it costs."""

import importlib
import json
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import orchestrator
from tests.waiting import HANG_S

SEEDS = {
    "TOOL_REGISTRY": "orchestrator.tools.registry",
    "AgentResponse": "orchestrator.core.reply.response",
    "AgentTask": "orchestrator.core.task.task",
    "AgentTaskItem": "orchestrator.core.task.items",
    "CCAgentDeps": "orchestrator.tools.deps",
    "CallDecision": "orchestrator.core.approval.approval",
    "FinalResult": "orchestrator.core.reply.response",
    "HitlInterventionRequired": "orchestrator.core.errors",
    "HitlResponse": "orchestrator.core.approval.approval",
    "InMemoryPersistenceManager": "orchestrator.adapters.store.sqlite",
    "RequestAuthorizer": "orchestrator.core.ports",
    "TaskPersistenceManager": "orchestrator.core.ports",
    "Tool": "orchestrator.tools.registry",
    "ToolRequest": "orchestrator.core.reply.response",
    "call_cc_command": "orchestrator.tools.deps",
    "check_for_intervention": "orchestrator.core.policy",
    "execute_task_with_agent": "orchestrator.app.library",
    "process_task": "orchestrator.engine.workers",
    "read_reply": "orchestrator.core.reply.response",
}
"""The names of DESIGN section 4 that exist in this slice, and where each lives."""
LATER = ("orchestrator.core.policy", "orchestrator.core.ports", "orchestrator.history.audit")
"""The packages that import a name with its module when it is used."""
HEAVY = ("pydantic_ai", "pydantic", "uvicorn", "starlette", "websockets", "httpx2", "typer", "sqlite3")


def in_a_fresh_python(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_importing_it_imports_nothing_heavy() -> None:
    """`import orchestrator` loads neither models nor a server, nor anything else that costs a start."""
    code = f"import sys, json, orchestrator; print(json.dumps([n for n in {HEAVY!r} if n in sys.modules]))"
    assert json.loads(in_a_fresh_python(code)) == []


def test_the_library_form_loads_no_server_and_no_models_of_others() -> None:
    """Using `execute_task_with_agent` imports no server and no pydantic-ai until a model of theirs is named."""
    heavy = ("pydantic_ai", "uvicorn", "starlette", "websockets", "typer")
    code = (
        "import sys, json; from orchestrator import execute_task_with_agent, CCAgentDeps, ScriptedModel, TOOL_REGISTRY;"
        f"print(json.dumps([n for n in {heavy!r} if n in sys.modules]))"
    )
    assert json.loads(in_a_fresh_python(code)) == []


@pytest.mark.parametrize("package", LATER)
def test_a_name_that_is_imported_when_it_is_used_is_no_module(package: str) -> None:
    """Python gives a package each of its modules as an attribute, and nothing would import the name then."""
    whole = importlib.import_module(package)
    assert not {module.name for module in pkgutil.iter_modules(whole.__path__)} & set(whole.__all__)
    assert not [name for name in whole.__all__ if isinstance(getattr(whole, name), ModuleType)]
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'nothing'"):
        _ = whole.nothing


@pytest.mark.parametrize(("imported", "heavy"), [
    ("orchestrator.core.audit.presentation", ("orchestrator.core.task.facts", "pydantic")),
    ("orchestrator.core.task.facts", ("orchestrator.core.policy.document", "orchestrator.core.wire")),
    ("orchestrator.terminal.console", ("orchestrator.core.model_view.masks", "orchestrator.core.undo.plan")),
    ("orchestrator.terminal.model_choice", ("orchestrator.adapters", "orchestrator.core.ports")),
    ("orchestrator.adapters.store.sqlite", ("orchestrator.core.ports.model", "orchestrator.core.ports.computers")),
    ("orchestrator.history.audit.verification", ("orchestrator.history.audit.pages", "orchestrator.history.audit.job")),
    ("orchestrator.core.policy.gaps", ("orchestrator.core.policy.match", "orchestrator.core.policy.judgement")),
    ("orchestrator.app.serving", ("orchestrator.core.evidence.idioms", "orchestrator.core.evidence.quotations")),
])  # fmt: skip
def test_a_start_does_not_wait_for_what_comes_later(imported: str, heavy: tuple[str, ...]) -> None:
    """Lines of the audit need no model of a fact, an item no policy file, a reviewer no model's view of a task.

    A store needs no model and no computer, a verification no page, and the gaps of a policy no gate.
    A server listens before it reads the patterns of the verdicts.
    """
    code = f"import json, sys, {imported}; print(json.dumps([n for n in {heavy!r} if n in sys.modules]))"
    assert json.loads(in_a_fresh_python(code)) == []


@pytest.mark.parametrize(("name", "home"), SEEDS.items())
def test_a_seed_name_is_the_one_of_its_room(name: str, home: str) -> None:
    """Every name of DESIGN section 4 is importable from `orchestrator` and is the very object of its room."""
    assert getattr(orchestrator, name) is getattr(importlib.import_module(home), name)
    assert name in orchestrator.__all__
    assert name in dir(orchestrator)


@pytest.mark.parametrize("name", orchestrator.__all__)
def test_every_public_name_resolves(name: str) -> None:
    """No name of `__all__` is a promise that breaks when it is used."""
    assert getattr(orchestrator, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name that is not public is refused as Python refuses it, naming it."""
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        _ = orchestrator.Nonsense
    with pytest.raises(ImportError):
        exec("from orchestrator import Nonsense")


def test_a_star_import_gives_exactly_the_public_names() -> None:
    """`from orchestrator import *` gives `__all__`, whole."""
    found: dict[str, object] = {}
    exec("from orchestrator import *", found)
    found.pop("__builtins__")
    assert sorted(found) == sorted(orchestrator.__all__)
