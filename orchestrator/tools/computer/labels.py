"""``cc_label``: the label of the computer, read or set; the client tells a new one before its answer."""

from orchestrator.core.errors import ToolFailed
from orchestrator.core.task.facts import Observed
from orchestrator.core.wire.wire import from_wire
from orchestrator.tools.computer.commands import ask
from orchestrator.tools.deps import CCAgentDeps

_STUB = "[stub: the computer has no label]"


async def cc_label(deps: CCAgentDeps, *, label: str = "") -> str:
    """Read the label, or set it where ``label`` is not empty. Raises ToolFailed for one that the game would change."""
    if not (label.isascii() and label.isprintable()):
        raise ToolFailed("A label has printable ASCII characters only.", remedy="Choose another label.")
    if deps.mode == "stub":
        return _STUB
    result = await ask(deps, "label", {"name": label} if label else {}, "the label")
    before = _shown(result.data.get("before"))
    return f"The label was {before} and is {_shown(label)} now." if label else f"The label is {before}."


async def observe_label(deps: CCAgentDeps, *, label: str = "") -> Observed:
    """The label of now, and the one that it becomes."""
    now = await cc_label(deps)
    becomes = f" It becomes {_shown(label)}; rules by label then look at both." if label else ""
    return Observed(state={}, note=f"{now}{becomes}")


def _shown(label: object) -> str:
    return repr(from_wire(label)) if isinstance(label, str) else "none"
