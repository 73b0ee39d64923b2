"""The contracts of what several nodes have in common: S85 to S89."""

import asyncio

from orchestrator.core.errors import Conflict, InvalidRequest, OrchestratorError
from orchestrator.core.ports import SYSTEM_STREAM, PolicyRow, Store
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import Draft, verify_chain
from orchestrator.core.task.system_facts import NodeStopped, PolicyLoaded
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.testing.drafts import Author, ManualClock, refused

SYSTEM = TaskId(SYSTEM_STREAM)


def loading(author: Author, content: bytes, source: str = "policy.toml") -> Draft:
    """The note of a policy of these bytes."""
    return author.draft(PolicyLoaded(source=source, policy_version="v1", sha256=sha256_hex(content)))


async def s85_a_policy_comes_into_force_after_the_one_before(store: Store, clock: ManualClock) -> None:
    """A policy is set at the version that is in force, with its bytes and its note, or nothing is written at all."""
    author = Author(clock)
    assert await store.policy_in_force() is None
    await store.judged_policy(7)
    assert await store.policy_in_force() is None
    await refused(Conflict, store.set_policy(1, b"one", note=loading(author, b"one")))
    note = loading(author, b"one", "a.toml")
    first = await store.set_policy(0, b"one", note=note)
    assert first == PolicyRow(1, sha256_hex(b"one"), "a.toml", clock.now(), note.actor.id, first.judged)
    assert await store.policy_in_force() == first
    for expected in (0, 2):
        await refused(Conflict, store.set_policy(expected, b"two", note=loading(author, b"two")))
    for wrong in (author.draft(NodeStopped()), loading(author, b"three")):
        await refused(InvalidRequest, store.set_policy(1, b"two", note=wrong))
    assert await store.policy_in_force() == first
    assert sha256_hex(b"two") not in await store.blob_sizes([sha256_hex(b"two")])
    clock.advance(5)
    second = await store.set_policy(1, b"two", note=loading(author, b"two", "b.toml"))
    assert (second.version, second.source, second.loaded_at) == (2, "b.toml", clock.now())
    assert await store.get_blob(first.sha256) == b"one"
    assert await store.get_blob(second.sha256) == b"two"
    items = await store.read(SYSTEM)
    assert verify_chain(items) is None
    assert [item.fact.source for item in items if isinstance(item.fact, PolicyLoaded)] == ["a.toml", "b.toml"]
    (kept,) = await store.kept_rows("policies")
    assert (kept["version"], kept["sha256"], kept["source"]) == (2, second.sha256, "b.toml")


async def s86_of_several_policies_at_once_one_wins(store: Store, clock: ManualClock) -> None:
    """Of several who set a policy at one version exactly one succeeds, and only its note is written."""
    author = Author(clock)
    contents = [f"policy {number}".encode() for number in range(8)]
    for version in range(2):
        notes = [loading(author, content) for content in contents]
        tried = (store.set_policy(version, one, note=note) for one, note in zip(contents, notes, strict=True))
        done = await asyncio.gather(*tried, return_exceptions=True)
        won = [one for one in done if isinstance(one, PolicyRow)]
        lost = [one for one in done if isinstance(one, OrchestratorError)]
        assert (len(won), len(lost)) == (1, 7)
        assert all(isinstance(one, Conflict) for one in lost)
        assert await store.policy_in_force() == won[0]
    assert len(await store.read(SYSTEM)) == 2


async def s87_what_was_judged_is_kept(store: Store, clock: ManualClock) -> None:
    """The version that everything was judged by only rises, and outlives the policy after it."""
    author = Author(clock)
    row = await store.set_policy(0, b"one", note=loading(author, b"one"))
    assert row.judged == 0
    await store.judged_policy(1)
    row = await store.set_policy(1, b"two", note=loading(author, b"two"))
    assert row.judged == 1
    for version, judged in ((2, 2), (1, 2)):
        await store.judged_policy(version)
        present = await store.policy_in_force()
        assert present is not None
        assert (present.version, present.judged) == (2, judged)


async def s88_a_duty_has_one_holder(store: Store, clock: ManualClock) -> None:
    """A duty is taken by one, renewed by that one alone, and free again when its time is over or it was given back."""
    assert await store.take_duty("d", "a", 10)
    assert not await store.take_duty("d", "b", 10)
    assert await store.take_duty("e", "b", 10)
    clock.advance(9)
    assert await store.take_duty("d", "a", 10)
    clock.advance(9.5)
    assert not await store.take_duty("d", "b", 10)
    clock.advance(0.5)
    assert await store.take_duty("d", "b", 10)
    assert not await store.take_duty("d", "a", 10)
    await store.leave_duty("d", "a")
    assert not await store.take_duty("d", "a", 10)
    await store.leave_duty("d", "b")
    await store.leave_duty("d", "b")
    assert await store.take_duty("d", "a", 10)
    await store.leave_duty("f", "a")
    names = [f"n{number}" for number in range(8)]
    assert sum(await asyncio.gather(*(store.take_duty("g", one, 10) for one in names))) == 1


async def s89_what_was_said_first_stands(store: Store, clock: ManualClock) -> None:
    """Of what is said under a name the first stands for all, however many say something at once."""
    del clock
    said = await asyncio.gather(*(store.agree("a", f"v{number}") for number in range(8)))
    assert len(set(said)) == 1
    assert await store.agree("b", "x") == "x"
    assert await store.agree("a", "later") == said[0]
    assert await store.kept_rows("agreed") == [{"name": "a", "value": said[0]}, {"name": "b", "value": "x"}]
