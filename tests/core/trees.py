"""A disk in memory on which a task works, with the items that a store would have of it."""

from hashlib import sha256
from typing import Any

from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.undo.plan import Found, Op
from orchestrator.core.undo.touches import ABSENT, DIRECTORY, Changes, Place, changes, trees_of
from orchestrator.core.wire.wire import ComputerId, RunId
from tests.core.journal import Journal, call

COMPUTER = ComputerId("3")
EMPTY = sha256(b"").hexdigest()


def digest(data: bytes) -> str:
    """The state of a file."""
    return sha256(data).hexdigest()


class Disk:
    """Files and directories by path, and what the calls of one task did to them."""

    def __init__(self, tree: dict[str, bytes | None] | None = None) -> None:
        self.tree: dict[str, bytes | None] = dict(tree or {})
        """None: a directory."""
        self.blobs: dict[str, bytes] = {}
        self.journal = Journal()
        self._calls = 0

    # -- what is there ---------------------------------------------------------------------

    def state(self, path: str) -> str:
        """As a place has it."""
        if path not in self.tree:
            return ABSENT
        data = self.tree[path]
        return DIRECTORY if data is None else digest(data)

    def below(self, path: str) -> list[str]:
        """The paths of all that is in a directory, below it."""
        return sorted(one.removeprefix(f"{path}/") for one in self.tree if one.startswith(f"{path}/"))

    def found(self, place: Place) -> Found:
        """What a restoration finds there."""
        state = self.state(place.path)
        if state != DIRECTORY:
            above = (one for one in self.parents(place.path) if self.tree.get(one) is not None)
            return Found(state, size=len(self.tree.get(place.path) or b""), under=next(above, ""))
        return Found(state, tuple(self.below(place.path)), tree=self._keep(place.path))

    def parents(self, path: str) -> list[str]:
        """The directories above a path, the highest first."""
        parts = path.split("/")[:-1]
        return ["/".join(parts[: count + 1]) for count in range(len(parts))]

    def can_hold(self, path: str) -> bool:
        """Whether something can be put there: nothing above it is a file."""
        return all(self.tree.get(one, b"") is None or one not in self.tree for one in self.parents(path))

    # -- what a task does ------------------------------------------------------------------

    def write(self, path: str, data: bytes) -> None:
        """A call that writes a file whole; it makes the directories above."""
        made, before = self._made(path), self.state(path)
        self._keep(path)
        self._put(path, data)
        self._called("cc_write", {path: before}, {path: digest(data)}, made=made, path=path)

    def mkdir(self, path: str) -> None:
        """A call that makes a directory where nothing is."""
        made = self._made(path)
        self._put(path, None)
        self._called("cc_mkdir", {path: ABSENT}, {path: EMPTY}, made=made, path=path)

    def delete(self, path: str) -> None:
        """A call that deletes a file, or a directory with all that is in it."""
        before, directories = self._keep(path), self._is_tree(path)
        self._take(path)
        self._called("cc_delete", {path: before}, {path: ABSENT}, directories=directories, path=path)

    def move(self, path: str, to: str) -> None:
        """A call that moves a file or a directory to where nothing is."""
        made, before, directories = self._made(to), self._keep(path), self._is_tree(path)
        for name, data in self._take(path).items():
            self._put(f"{to}{name}", data)
        left = {path: ABSENT, to: before}
        self._called("cc_move", {path: before, to: ABSENT}, left, made=made, directories=directories, path=path, to=to)

    def fail(self, path: str) -> None:
        """A call that fails and changes nothing."""
        self._called("cc_write", {path: self.state(path)}, None, path=path)

    def _called(
        self,
        tool: str,
        before: dict[str, str],
        after: dict[str, str] | None,
        *,
        made: tuple[str, ...] = (),
        directories: tuple[str, ...] = (),
        **args: Any,
    ) -> None:
        self._calls += 1
        name = f"c{self._calls}"
        run = RunId(f"{name}.1")
        self.journal.proposed([call(name, tool, **args)], "allow")
        started = facts.ToolStarted(
            call_id=CallId(name),
            run_id=run,
            computer=COMPUTER,
            number=self._calls,
            action_digest="",
            before=before,
            directories=directories,
            made=made,
        )
        ended = facts.ToolFinished(call_id=CallId(name), run_id=run, ok=after is not None, text="", after=after or {})
        self.journal.add(started, ended)

    # -- what a person, or a restoration, does -----------------------------------------------

    def do(self, op: Op) -> None:
        """A call of a restoration; it refuses what the tool would refuse."""
        path = op.place.path
        there = self.found(op.place)
        assert op.found == there.sha256
        assert self.can_hold(path), path
        if op.to == ABSENT:
            assert path in self.tree
            self._take(path)
            return
        kind = {ABSENT: "", DIRECTORY: "directory"}.get(there.state, "file")
        becomes = "directory" if op.to == DIRECTORY else "file"
        assert op.replaces == (kind if kind != becomes else ""), f"{path} is a {kind}"
        assert becomes == "file" or kind != "directory"
        self._take(path)
        self._put(path, None if op.to == DIRECTORY else self.blobs[op.to])

    def by_hand(self, path: str, data: bytes | None) -> None:
        """Somebody writes a file, or removes what is there (None)."""
        if data is None:
            self._take(path)
        else:
            self._put(path, data)

    # -- inside ------------------------------------------------------------------------------

    def changed(self, items: list[AgentTaskItem] | None = None) -> Changes:
        """What the items say."""
        items = self.journal.items if items is None else items
        return changes(items, {tree: self.blobs[tree] for tree in trees_of(items)})

    def _made(self, path: str) -> tuple[str, ...]:
        return tuple(one for one in self.parents(path) if one not in self.tree)

    def _put(self, path: str, data: bytes | None) -> None:
        for one in self.parents(path):
            self.tree.setdefault(one, None)
        self.tree[path] = data

    def _take(self, path: str) -> dict[str, bytes | None]:
        names = [one for one in self.tree if one == path or one.startswith(f"{path}/")]
        return {one[len(path) :]: self.tree.pop(one) for one in names}

    def _is_tree(self, path: str) -> tuple[str, ...]:
        return (path,) if self.state(path) == DIRECTORY else ()

    def _keep(self, path: str) -> str:
        """The bytes of a place into the store; its hash, of a directory over its lines."""
        if self.state(path) == ABSENT:
            return ABSENT
        for one, data in self.tree.items():
            if data is not None and (one == path or one.startswith(f"{path}/")):
                self.blobs[digest(data)] = data
        data = self.tree[path]
        if data is not None:
            return digest(data)
        lines = "".join(self._line(path, below) for below in self.below(path)).encode("utf-8", "surrogateescape")
        self.blobs[digest(lines)] = lines
        return digest(lines)

    def _line(self, path: str, below: str) -> str:
        data = self.tree[f"{path}/{below}"]
        return f"{below}\0{'directory' if data is None else 'file'}\0{'-' if data is None else digest(data)}\n"
