"""The conversation of each task with its model, kept from one actor of a node to the next.

A task that waits for a person has another actor afterwards. Without what the one before had made, each of its steps
would read all replies and fit the window again, turn by turn.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from orchestrator.core.model_view.view import Message, View
from orchestrator.core.ports import ChatMessage
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.task import AgentTask

KEPT: Final = 32
"""Conversations of tasks that have no actor at the moment; the oldest make room."""


@dataclass
class Talk:
    """What one task's model was told, as far as this node knows it; it grows with the task."""

    texts: dict[str, str] = field(default_factory=dict)
    """Replies by sha256, for the view."""
    view: View | None = None
    _sent: list[ChatMessage] = field(default_factory=list)
    _sent_of: list[Message] = field(default_factory=list)
    """The list of the view that they were taken from."""

    def extend(self, view: View, task: AgentTask) -> None:
        """Go on with ``view``, up to the task's last step. Raises as ``View.extend``, and has no view then."""
        self.view = None
        view.extend(task, self.texts)
        self.view = view

    def messages(self) -> tuple[ChatMessage, ...]:
        """The view's messages as the port takes them; none: there is no view."""
        told = self.view.messages if self.view is not None else []
        if self._sent_of is not told:
            self._sent_of, self._sent = told, []
        self._sent.extend(ChatMessage(*message) for message in told[len(self._sent) :])
        return tuple(self._sent)


class Talks:
    """The conversations of a node. An actor that takes one has it alone."""

    def __init__(self) -> None:
        self._kept: OrderedDict[TaskId, Talk] = OrderedDict()

    @property
    def kept(self) -> list[TaskId]:
        """The tasks whose conversations are here, the one used last at the end."""
        return list(self._kept)

    def take(self, task_id: TaskId) -> Talk:
        """The conversation of a task, or a new one that knows nothing."""
        return self._kept.pop(task_id, None) or Talk()

    def keep(self, task_id: TaskId, talk: Talk) -> None:
        """Keep it for the next actor."""
        self._kept[task_id] = talk
        self._kept.move_to_end(task_id)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
