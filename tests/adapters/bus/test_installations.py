"""Nodes of two stores on one bus hear nothing of each other but that they are there."""

import pytest

from orchestrator.adapters.bus import InstallationBus, LocalBus, installation_of
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.core.errors import NobodyServes
from orchestrator.core.ports import Answer
from orchestrator.runtime.clock import SystemClock


async def test_what_one_store_s_nodes_say_is_nothing_to_those_of_another() -> None:
    """Hints and requests reach the nodes of the same store only; each side is told who else is there."""
    line = LocalBus()
    ours, theirs = InMemoryPersistenceManager(clock=SystemClock()), InMemoryPersistenceManager(clock=SystemClock())
    alpha = InstallationBus(line, await installation_of(ours), node="alpha")
    await alpha.open()
    beta = InstallationBus(line, await installation_of(ours), node="beta")
    await beta.open()
    other = InstallationBus(line, await installation_of(theirs), node="other")
    await other.open()
    heard: list[str] = []

    async def serve(payload: object, body: bytes) -> Answer:
        return Answer({}, body)

    beta.subscribe("nodes.beat", lambda payload: heard.append(payload["node"]))
    beta.serve("node.beta", serve)
    other.publish("nodes.beat", {"node": "other"})
    alpha.publish("nodes.beat", {"node": "alpha"})
    assert heard == ["alpha"]
    assert (await alpha.request("node.beta", {}, b"x", within_s=5)).body == b"x"
    with pytest.raises(NobodyServes):
        await other.request("node.beta", {}, within_s=5)
    assert (alpha.list_others(), beta.list_others()) == (["other"], ["other"])
    assert other.list_others() == ["alpha", "beta"]
