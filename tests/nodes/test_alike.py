"""Nodes that are not set alike are told so, by name, where people look."""

import logging
from contextlib import AsyncExitStack

import pytest

from orchestrator.bus import LocalBus
from orchestrator.nodes import Presence
from orchestrator.nodes.alike import FACT, Alike
from tests.nodes.several import until


async def test_what_differs_is_told_with_who_has_it(caplog: pytest.LogCaptureFixture) -> None:
    """In a list, and in the log once one comes; of an older version, which says nothing, nothing is said."""
    caplog.set_level(logging.WARNING)
    bus, nodes = LocalBus(), {}
    async with AsyncExitStack() as stack:
        for name, approvers in (("a", "requester"), ("b", "requester"), ("c", "not_requester\n"), ("old", "")):
            presence = Presence(bus, f"{name}-1", name=name)
            nodes[name] = presence, Alike(presence)
            if approvers:
                nodes[name][1].say({"approvers": approvers, "lease_s": "30"})
        here, alike = nodes["a"]
        for name in ("a", "b", "old"):
            nodes[name][0].open()
            stack.push_async_callback(nodes[name][0].close)
        await until(lambda: len(here.table.beats()) == 2)
        assert (alike.alerts(), caplog.text) == ([], "")
        third = nodes["c"][0]
        third.open()
        stack.push_async_callback(third.close)
        await until(alike.alerts)
        (alert,) = alike.alerts()
        assert "approvers: requester at a, b; not_requester\\n at c." in alert
        assert "requester at a; not_requester\\n at c." in caplog.text
        third.facts[FACT] = "of a newer version"
        third.say()
        await until(lambda: not alike.alerts())
