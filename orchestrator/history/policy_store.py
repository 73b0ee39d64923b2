"""The active policy on this node: the store's, which the node's file proposes and the store decides.

Theory. The store keeps one policy and its version. A node that activates another one says which version it comes after,
so that of two at once one wins. A changed policy is loaded beside the active one and takes its place in one assignment,
so that an evaluation sees one or the other (promise P14). A file that cannot be loaded changes nothing but the alert.

A node alone on its store: its file is the policy, at the start and whenever it changes. Several nodes on one store:
the first puts its file's policy there; one that starts with another takes the store's and says so; a file that
changes while its node runs is put into force for all. Every node takes what is in force within a second or two, by a
notification on the bus, else by looking at the store. One that cannot load it acts for nothing until it can. Before
a policy of the store counts, its item is proven from what the node knew of the system stream (``audit.trusted_head``).

A new policy judges again all requests that wait for a person (promise P15), once for all nodes. The node with this
singleton job does it and records that in the store. If the node is killed meanwhile, another one does it after the
lease.
"""

import asyncio
import contextlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

from orchestrator.core.errors import (
    Conflict,
    InvalidRequest,
    OrchestratorError,
    PolicyInvalid,
    PolicyUnusable,
    Unreadable,
)
from orchestrator.core.policy import CustomPolicy, Policy, default_policy, parse_policy
from orchestrator.core.policy.load import DEFAULT_POLICY_TOML
from orchestrator.core.ports import PolicyRow
from orchestrator.core.task.items import SYSTEM, Actor, AgentTaskItem
from orchestrator.core.task.system_facts import PolicyLoaded, PolicyRefused
from orchestrator.engine.tasks import TaskService
from orchestrator.history.audit import Checkpoints, TrustedStream
from orchestrator.runtime.policy_file import LoadedPolicy, load_content, load_file, read_file, stamp_of

logger = logging.getLogger(__name__)

_LOOKS: Final = 3
"""Looks at a row and its item, until both are of one moment."""
LOOK_S: Final = 1.0
"""How soon a changed file, or another policy of the store, is noticed; a look is one stat and one row."""
SUBJECT: Final = "policy"
"""The subject on the bus: another policy is active."""
JUDGING: Final = "policy.judging"
"""The singleton job that judges waiting requests again."""
JUDGING_S: Final = 300.0
"""Longer than it takes for more tasks than anybody looks at."""
SHIPPED: Final = "the shipped policy"


class PolicyKeeper:
    """The active policy on this node; ``file`` None: there is none, and the store's is taken."""

    def __init__(self, service: TaskService, path: Path, file: LoadedPolicy | None, checkpoints: Checkpoints) -> None:
        self.service = service
        self.path = path
        self.unusable: PolicyUnusable | None = None
        """Why this node acts for nothing: it cannot load the active policy."""
        self._store = service.store
        self._trusted = TrustedStream(service.store, checkpoints)
        self._file = file
        self._refused = ""
        """Why the file as it is now could not be loaded; empty: it could."""
        self._seen = stamp_of(path)
        self._in_force = file or LoadedPolicy(SHIPPED, DEFAULT_POLICY_TOML.encode(), default_policy())
        self._row: PolicyRow | None = None
        """The active policy by the system stream, with the version of the table's row."""
        self._looked_at: PolicyRow | None = None
        """The table's row as it was compared with the system stream last."""
        self._forged = ""
        """Why the table's row is not believed; empty: it says what its item says."""
        self._noted = False
        """Whether the system stream says that too."""
        self._changing = asyncio.Lock()

    # -- what is in force ----------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The active policy, for showing; also where this node cannot use it, as far as it can be read."""
        return self._in_force.policy

    @property
    def custom(self) -> tuple[CustomPolicy, ...]:
        """The plugins that it names."""
        return self._in_force.custom

    @property
    def text(self) -> str:
        """The active policy as its file says it, with its comments."""
        return self._in_force.content.decode("utf-8", "replace")

    @property
    def source(self) -> str:
        """The file or address where the policy came from."""
        return self._in_force.source

    def usable(self) -> Policy:
        """The active policy, to judge by. Raises PolicyUnusable."""
        if self.unusable is not None:
            raise self.unusable
        return self._in_force.policy

    @property
    def alert(self) -> str:
        """Why this node's file is not what is in force, or why nothing is judged here; empty: all is well."""
        if self.unusable is not None:
            return str(self.unusable)
        if self._forged:
            return self._forged
        if self._refused:
            return f"{self._refused} The active policy stays active."
        if self._file is None or self._row is None or self._file.sha256 == self._row.sha256:
            return ""
        return (
            f"{self.path} holds another policy than the active one of all nodes, which came from {self._row.source} "
            f"(put there by {self._row.by}). `cc-orchestrator policy apply {self.path}` puts the file's into force; to "
            "keep the other, take the file away or write the same into it."
        )

    # -- the life of the node ------------------------------------------------------------

    async def begin(self) -> None:
        """Put the file's policy into force, or take the one that several nodes have."""
        async with self._changing:
            row = await self._said()
            if not self._store.shared:
                # The file is the policy, whatever the table says.
                await self._set(self._in_force, self._looked_at, SYSTEM, previous="")
                return
            while row is None:
                try:
                    await self._set(self._in_force, self._looked_at, SYSTEM, previous="")
                except Conflict:
                    row = await self._said()
                else:
                    return
            await self._take(row)
            if self.alert:
                logger.warning("%s", self.alert)

    async def watch(self) -> None:
        """Look at the file and at the store until canceled."""
        heard, said = asyncio.Event(), ""
        end = self.service.bus.subscribe(SUBJECT, lambda _: heard.set())
        try:
            while True:
                try:
                    async with asyncio.timeout(LOOK_S):
                        await heard.wait()
                except TimeoutError:
                    pass
                heard.clear()
                try:
                    await self.look()
                    said = ""
                except OrchestratorError as error:
                    if str(error) != said:
                        logger.error("the policy is looked at again soon: %s", error)  # noqa: TRY400 - it explains itself
                    said = str(error)
                except Exception:
                    logger.exception("a look at the policy met a defect")
        finally:
            end()

    async def look(self) -> None:
        """Take what changed: in the file, then in the store."""
        stamp = stamp_of(self.path)
        if stamp != self._seen:
            # A file that was taken away proposes nothing, where others may say what is in force.
            if stamp is None and self._store.shared:
                self._seen, self._file, self._refused = stamp, None, ""
            else:
                await self.reload()
                self._seen = stamp
        if self._store.shared:
            async with self._changing:
                await self._follow()
        await self.judge()

    async def reload(self) -> str:
        """Load the file again if its bytes changed; the answer is the alert, empty when all is well."""
        async with self._changing:
            try:
                data = read_file(self.path)
                if self._file is not None and data == self._file.content and not self._refused:
                    return self.alert
                loaded = await asyncio.to_thread(load_content, data, str(self.path))
            except PolicyInvalid as error:
                if self._refused != str(error):
                    # First: where the store is away it is refused once more at the next look, and recorded then.
                    await self.service.record(PolicyRefused(source=str(self.path), reason=str(error)))
                    self._refused = str(error)
                    logger.error("the policy stays as it was: %s", error)  # noqa: TRY400 - it explains itself
                return self.alert
            try:
                await self._propose(loaded, SYSTEM)
            except Conflict:
                # Where two changed at once, the other was first.
                await self._follow()
            self._file, self._refused = loaded, ""
        await self.judge()
        return self.alert

    async def apply(self, text: str, by: Actor) -> None:
        """Put a policy into force on all nodes. Raises PolicyInvalid, Conflict, InvalidRequest (no file to keep it)."""
        content = text.encode()
        async with self._changing:
            if self._store.shared:
                source = f"policy apply by {by.id}"
                await self._propose(await asyncio.to_thread(load_content, content, source), by)
            else:
                loaded = await asyncio.to_thread(load_content, content, str(self.path))
                await asyncio.to_thread(_write, self.path, content)
                self._file, self._refused = loaded, ""
                await self._propose(loaded, by)
        await self.judge()

    async def judge(self) -> None:
        """Judge waiting requests again, unless that was done under the active policy or another node does it now."""
        row = self._row
        if self.unusable is not None or row is None or row.judged >= row.version:
            return
        if not await self.service.duties.take(JUDGING, JUDGING_S):
            return
        try:
            present = await self._store.policy_in_force()
            # Where a newer one is in force, the next look takes it and comes here again.
            if present is not None and present.judged < row.version == present.version:
                await self.service.rejudge()
                await self._store.judged_policy(row.version)
                if self._row is not None and self._row.version == row.version:
                    self._row = replace(self._row, judged=row.version)
        finally:
            await self.service.duties.leave(JUDGING)

    # ------------------------------------------------------------------------------------

    async def _propose(self, loaded: LoadedPolicy, by: Actor) -> None:
        """Put another policy into force after the one that this node knows. Raises Conflict."""
        if self._row is None or self._forged or loaded.sha256 != self._row.sha256:
            await self._set(loaded, self._looked_at, by, previous=self.policy.version)
            self.service.bus.publish(SUBJECT, {"policy_version": loaded.policy.version})

    async def _set(self, loaded: LoadedPolicy, after: PolicyRow | None, by: Actor, *, previous: str) -> None:
        fact = PolicyLoaded(
            source=loaded.source,
            policy_version=loaded.policy.version,
            sha256=loaded.sha256,
            previous=previous,
            roles={name: tuple(one.may) for name, one in loaded.policy.roles.items()},
            limits=dict(loaded.policy.role_limits),
            self_approval=loaded.policy.self_approval,
        )
        note = self.service.draft(fact, by)
        self._row = await self._store.set_policy(after.version if after else 0, loaded.content, note=note)
        self._looked_at, self._forged = self._row, ""
        self._in_force, self.unusable = loaded, None
        if previous:
            logger.info("policy %s is in force, after %s", loaded.policy.version, previous)
        if self._store.shared:
            # An item that cannot be read back now is proven from an older one later.
            with contextlib.suppress(OrchestratorError):
                item = await self._proven()
                if item is not None and _row_of(item, self._row) == self._row:
                    await self._trusted.keep(item)

    async def _follow(self) -> None:
        """Take what the store has in force; again and again where that cannot be loaded."""
        row = await self._said()
        if row is None:
            return
        known = self._row
        if self.unusable is not None or known is None or (row.version, row.sha256) != (known.version, known.sha256):
            await self._take(row)
        self._row = row

    async def _said(self) -> PolicyRow | None:
        """The active policy by the system stream; the table's row says the same, or is not believed.

        A person who can write one row of a database puts no policy into force with it: that takes an item, which is
        chained to the items that this node trusts, and names its author. A row is compared with its item once.
        Raises Unreadable at a start that nothing proves.
        """
        for _ in range(_LOOKS):
            row = await self._store.policy_in_force()
            if self._row is not None and row is not None and _alike(row, self._looked_at):
                return replace(self._row, judged=row.judged)
            try:
                item = await self._proven()
            except Unreadable as error:
                return await self._refused_by(row, error)
            said = _row_of(item, row)
            if item is None or said is None or (row is not None and _alike(row, said)):
                break
        if item is None or said is None:
            return None if row is None else await self._refused_by(row, _table(row, "no item says so"))
        if row is not None and _alike(row, said):
            self._looked_at, self._forged = row, ""
        else:
            why = _table(row, f"its item says {said.sha256[:12]} from {said.source}")
            newer = self._store.shared and row is not None and row.version < said.version
            if newer and not await self._trusted.knows(item):
                return await self._refused_by(row, why)
            await self._disbelieve(row, why.message)
        if self._store.shared:
            await self._trusted.keep(item)
        return said

    async def _proven(self) -> AgentTaskItem | None:
        """The newest ``policy_loaded``; a node alone takes its file's policy, whatever the items say."""
        item = await self._store.policy_item()
        if self._store.shared:
            await self._trusted.prove(item)
        return item

    async def _refused_by(self, row: PolicyRow | None, why: Unreadable) -> PolicyRow | None:
        """Keep what is in force, if anything is yet. Raises Unreadable."""
        if self._row is None and self._store.shared:
            raise why
        await self._disbelieve(row, why.message)
        return self._row

    async def _disbelieve(self, row: PolicyRow | None, why: str) -> None:
        """Keep what is in force, and say why; recorded once for each row that somebody put there."""
        forged = (
            f"{why} It is not believed: somebody changed the database. `cc-orchestrator audit verify` says what else."
        )
        if forged != self._forged:
            self._forged, self._noted = forged, False
            logger.error("%s", forged)
        if not self._noted:
            # Where the stream is broken too, the alert stands, and each look tries to record it.
            source = "the table of policies" if row is None else row.source
            await self.service.record(PolicyRefused(source=source, reason=forged))
            self._noted = True
        self._looked_at = row

    async def _take(self, row: PolicyRow) -> None:
        """Make the store's policy this node's, or act for nothing."""
        content = await self._store.get_blob(row.sha256)
        try:
            loaded = await asyncio.to_thread(load_content, content, row.source)
        except PolicyInvalid as error:
            self._row = row
            self._in_force = _shown(content, row.source) or self._in_force
            if self.unusable is None or error.message not in self.unusable.message:
                self.unusable = _unusable(row, error)
                logger.error("%s", self.unusable)  # noqa: TRY400 - it explains itself
            return
        self._row, self._in_force, self.unusable = row, loaded, None
        logger.info("policy %s is in force, from %s", loaded.policy.version, row.source)


def _alike(row: PolicyRow, other: PolicyRow | None) -> bool:
    """Whether two rows put the same into force, at whatever time, whatever was judged by it."""
    return other is not None and replace(row, judged=0, loaded_at=other.loaded_at) == replace(other, judged=0)


def _table(row: PolicyRow | None, why: str) -> Unreadable:
    """The refusal of a row that differs from its item."""
    table = "no policy" if row is None else f"{row.sha256[:12]} from {row.source}"
    return Unreadable(
        f"The table of policies has {table} in force, and {why}.",
        remedy="Somebody changed the database: `cc-orchestrator audit verify` says what else. Put it right, or restore "
        "it, and start again.",
    )


def _row_of(item: AgentTaskItem | None, row: PolicyRow | None) -> PolicyRow | None:
    """The table's row as the item has it that put the policy into force; None: no item did."""
    if item is None or not isinstance(item.fact, PolicyLoaded):
        return None
    fact, version = item.fact, 0 if row is None else row.version
    # An item of version 0.6 does not say which row it made.
    number = fact.number or version
    judged = 0 if row is None else min(row.judged, number)
    return PolicyRow(number, fact.sha256, fact.source, item.at, item.actor.id, judged)


def _shown(content: bytes, source: str) -> LoadedPolicy | None:
    """A policy that cannot be used here, as far as it can be read; None: it cannot."""
    try:
        return LoadedPolicy(source, content, parse_policy(content.decode("utf-8", "replace"), source=source))
    except PolicyInvalid:
        return None


def _unusable(row: PolicyRow, why: PolicyInvalid) -> PolicyUnusable:
    return PolicyUnusable(
        f"This node cannot load the active policy, so it acts for no task and takes no decision: {why.message}",
        remedy="Use another node in the meantime. Install here what it needs, or activate another policy: "
        "`cc-orchestrator policy apply FILE`.",
    )


def _write(path: Path, content: bytes) -> None:
    """Make a file these bytes, in one step. Raises InvalidRequest."""
    try:
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise InvalidRequest(
            f"{path} cannot be written: {error.strerror or error}. Nothing was changed.",
            remedy="Let the server's user write it, or write it yourself: it is looked at each second.",
        ) from None


def first_file(path: Path, *, shared: bool) -> LoadedPolicy | None:
    """What a node starts with; None: there is no file, and other nodes say what is in force. Raises PolicyInvalid."""
    return None if shared and not path.exists() else load_file(path)
