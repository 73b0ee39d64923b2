"""What must be true of undos once all is over: each was begun once, and what nobody else touched is as it was."""

from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.task import AgentTask
from orchestrator.core.undo.messages import TaskChange
from orchestrator.core.undo.telling import told_changes
from orchestrator.core.undo.touches import ABSENT, DIRECTORY, Changes, changes, trees_of
from orchestrator.core.wire.wire import sha256_hex
from tests.explorer.setting import Setting


class UndoJudge:
    """Looks at the undos of each task."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._ledger = setting.ledger

    def judge(self, task: AgentTask) -> int:
        """Look at one task; how many of its places are proven to be as they were before it."""
        changed = self._changes(task.task_id)
        self._begun(task, changed=bool(changed.touches))
        if not any(self._whole(TaskId(one)) for one in task.undone_by):
            return 0
        known = [one for one in told_changes(changed) if one.computer is not None and self._alone(task, changed, one)]
        for one in known:
            now = self._now(one)
            if now != one.before:
                self._ledger.wrong(f"{one.place} is {now} and not {one.before}, though {task.undone_by} took it back")
        return len(known)

    def _begun(self, task: AgentTask, *, changed: bool) -> None:
        """What failed or was canceled is taken back once by the policy, and else once for each who asked."""
        ledger = self._ledger
        undos = [one.task_id for one in ledger.tasks.values() if one.undoes == task.task_id]
        if sorted(undos) != sorted(task.undone_by):
            ledger.wrong(f"{task.task_id} is undone by {undos}, and its journal says by {task.undone_by}")
        by_policy = [one for one in undos if self._setting.items(one)[0].actor.kind == "system"]
        if len(by_policy) != (changed and task.undoes_itself):
            ledger.wrong(f"{task.task_id} changed something: {changed}; the policy undoes it by {by_policy}")
        asked = len(self._setting.undos.get(task.task_id, ()))
        if len(undos) - len(by_policy) > asked:
            ledger.wrong(f"{task.task_id} is undone by {undos}, and people asked {asked} times")

    def _whole(self, task_id: TaskId) -> bool:
        """Whether an undo did all that it was to do, and nobody took it back."""
        undo = self._ledger.tasks[task_id]
        done = undo.ended is not None and undo.ended.status == "Completed"
        return done and not undo.rejections and not undo.undone_by

    def _alone(self, task: AgentTask, changed: Changes, one: TaskChange) -> bool:
        """Whether it is known what the task did there, and nobody but its undos did anything there."""
        if one.computer in self._ledger.rolled:
            return False
        here = [touch for touch in changed.touches if str(touch.place) == one.place]
        mine = {task.task_id, *task.undone_by}
        others = [
            who - mine
            for (computer, path), who in self._ledger.changed_by.items()
            if computer == one.computer and _related(path, one.path)
        ]
        return all(touch.after is not None for touch in here) and not any(others)

    def _now(self, one: TaskChange) -> str:
        """What is in a place: the sha256 of a file, ``directory`` or ``absent``."""
        contents = self._setting.computer(one.computer or "").contents()
        if one.path not in contents:
            return ABSENT
        data = contents[one.path]
        return DIRECTORY if data is None else sha256_hex(data)

    def _changes(self, task_id: TaskId) -> Changes:
        items = self._setting.items(task_id)
        return changes(items, {tree: self._ledger.kept[tree] for tree in trees_of(items)})


def _related(one: str, other: str) -> bool:
    """Whether one path is the other, or is below it."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
