"""The tool that calls a method of a peripheral, and what a reviewer is shown before."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from orchestrator.core.errors import ToolFailed
from orchestrator.core.task.facts import Observed
from orchestrator.tools.computer.commands import READ_WAIT_S, ask
from orchestrator.tools.computer.discovery import entries_of, neighbours_of
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.tools.text import capped, shown_name, wire_word

CALL_TIMEOUT_S: Final = 30
"""A call takes a tick of the world; on a server that lags, or for a device that works, a while."""
_ANSWER_GRACE_S: Final = 30.0
_MAX_NAMED: Final = 40
"""Names that a refusal lists."""


async def cc_peripheral_call(deps: CCAgentDeps, *, name: str, method: str, args: Sequence[Any] = ()) -> str:
    """Call one method of a peripheral and see what it returns."""
    if deps.mode == "stub":
        return f"{name}.{method} returned nothing.\n[stub: the peripheral was not called]"
    params = {"name": name, "method": method, "timeout_s": CALL_TIMEOUT_S}
    body = json.dumps([_to_wire(value) for value in args]).encode()
    result = await ask(
        deps, "peripheral_call", params, f"{name}.{method}", body, wait_s=CALL_TIMEOUT_S + _ANSWER_GRACE_S
    )
    try:
        values = json.loads(result.body or b"[]")
    except ValueError as error:
        raise ToolFailed("What the peripheral returned cannot be read.") from error
    if not values:
        return f"{name}.{method} returned nothing."
    shown = [json.dumps(_from_wire(value), ensure_ascii=False) for value in values]
    return capped(f"{name}.{method} returned:\n" + "\n".join(shown))


async def observe_peripheral_call(deps: CCAgentDeps, *, name: str, method: str, args: Sequence[Any] = ()) -> Observed:
    """What the peripheral is. Raises ToolFailed unless it is there and has the method."""
    del args
    if deps.mode == "stub":
        return Observed(state={}, note="Stub mode: nothing is called.")
    result = await ask(deps, "info", {}, "the computer", wait_s=READ_WAIT_S)
    try:
        found = {shown_name(one["name"]): one for one in neighbours_of(entries_of(result.body))}
    except (ValueError, TypeError, KeyError) as error:
        raise ToolFailed("What the computer says of its peripherals cannot be read.") from error
    one = found.get(name)
    if one is None:
        others = f" There are: {_listed(found)}." if found else " There are none."
        raise ToolFailed(f"There is no peripheral {name} at the computer.{others}")
    if "methods" not in one:
        raise ToolFailed(
            "The client on this computer is too old to call peripherals.",
            remedy="Its user can update it: install it again from this orchestrator.",
        )
    methods = [shown_name(str(each)) for each in one["methods"]]
    if method not in methods:
        raise ToolFailed(f"{name} has no method {method}. Its methods: {_listed(methods)}.")
    types = ", ".join(shown_name(str(each)) for each in one["types"]) or "of an unknown type"
    return Observed(state={}, note=f"{name} is: {types}. Whoever stands at the computer may put another one there.")


def _listed(names: Any) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _MAX_NAMED} more" if len(listed) > _MAX_NAMED else ""
    return (", ".join(listed[:_MAX_NAMED]) or "none") + more


def _to_wire(value: Any) -> Any:
    if isinstance(value, str):
        return wire_word(value)
    if isinstance(value, Mapping):
        return {wire_word(key): _to_wire(inner) for key, inner in value.items()}
    return value


def _from_wire(value: Any) -> Any:
    if isinstance(value, str):
        return shown_name(value)
    if isinstance(value, list):
        return [_from_wire(inner) for inner in value]
    if isinstance(value, dict):
        return {shown_name(key): _from_wire(inner) for key, inner in value.items()}
    return value
