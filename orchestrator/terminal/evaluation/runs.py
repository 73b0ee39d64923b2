"""Plays the tasks one after the other: submits each, decides what asks, and looks at what is left."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from orchestrator.client import Client, unless_it_closed
from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.terminal.console import decision
from orchestrator.terminal.evaluation.cases import EvalTask, Seen
from orchestrator.terminal.evaluation.processes import Computer, House, house
from orchestrator.terminal.evaluation.scores import Row, scored

Reviewer = Literal["auto", "none"]
MOST_S: Final = 900.0
"""For one task, waiting for people included: forty minutes for a broken file is what nobody waits for again."""
_END_WITHIN_S: Final = 30.0
_NOBODY: Final = "Nobody is here to answer. Do what is simplest."


@dataclass(frozen=True)
class Evaluation:
    """What is played, with what, and how."""

    model: str
    tasks: Sequence[EvalTask]
    repeat: int = 1
    reviewer: Reviewer = "auto"
    """``auto``: whatever asks is approved; ``none``: it waits for a person at another terminal."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Flags of ``serve``, such as ``ollama-url``."""
    directory: Path | None = None
    """Where store, logs and disks are kept; None: they are removed."""
    most_s: float = MOST_S
    say: Callable[[str], None] = lambda _: None
    """Told what is happening, a line at a time."""

    def rows(self) -> Generator[Row, None, None]:
        """The rows, each as its task has ended. Raises PartFailed, ServerRefused, ServerUnreachable."""
        for turn in range(1, self.repeat + 1):
            # A server of its own for each turn: the same computers come anew, with new disks.
            where = None if self.directory is None else self.directory / str(turn)
            with house(where, {"model": self.model, **self.options}) as home:
                if self.reviewer == "none":
                    self.say(f"Decide what asks: cc-orchestrator review --url {home.client.url} --data-dir {home.home}")
                count = f" of turn {turn}" if self.repeat > 1 else ""
                yield from self._turn(home, count)

    def _turn(self, home: House, count: str) -> Generator[Row, None, None]:
        """The whole set once; the computers of the next task boot while this one is played."""
        left = deque(self.tasks)
        with contextlib.ExitStack() as stack:
            following = stack.enter_context(home.computers(left[0].machines)) if left else None
            for number, task in enumerate(self.tasks, 1):
                left.popleft()
                with contextlib.ExitStack() as mine:
                    computers = following
                    mine.push(stack.pop_all())
                    following = stack.enter_context(home.computers(left[0].machines)) if left else None
                    assert computers is not None
                    self.say(f"[{number}/{len(self.tasks)}{count}] {task.name}: {task.prompt}")
                    computers.wait()
                    row = self._row(home.client, task, computers.named)
                yield row

    def _row(self, client: Client, task: EvalTask, computers: Mapping[str, Computer]) -> Row:
        began = time.monotonic()
        body = {
            "prompt": task.prompt,
            "computers": [machine.name for machine in task.machines],
            "max_steps": task.max_steps,
            **({"read_only": True} if task.read_only else {}),
        }
        task_id = str(client.submit(body)["task_id"])
        items = self._played(client, task_id)
        seconds = time.monotonic() - began
        ended = next((item.fact for item in items if isinstance(item.fact, facts.TaskEnded)), None)
        return scored(task, Seen(computers, items, ended), task_id=task_id, seconds=seconds)

    def _played(self, client: Client, task_id: str) -> list[AgentTaskItem]:
        """All items of a task, which is canceled when its time is over."""
        items: list[AgentTaskItem] = []
        until = time.monotonic() + self.most_s + _END_WITHIN_S
        over = threading.Timer(self.most_s, self._cancel, (client, task_id))
        over.daemon = True
        over.start()
        try:
            for event in client.follow(task_id, patience_s=_END_WITHIN_S, leaving=lambda: time.monotonic() > until):
                if isinstance(event, AgentTaskItem):
                    items.append(event)
                    with unless_it_closed():
                        self._answer(client, task_id, event.fact)
        finally:
            over.cancel()
        return items

    def _cancel(self, client: Client, task_id: str) -> None:
        # Who follows the task meets whatever keeps this from happening.
        with contextlib.suppress(OrchestratorError):
            client.request("POST", f"/v1/tasks/{task_id}/cancel", {"reason": f"It took more than {self.most_s:g} s."})

    def _answer(self, client: Client, task_id: str, fact: facts.Fact) -> None:
        if self.reviewer == "none":
            return
        if isinstance(fact, facts.ReviewRequested):
            request = HitlResponse.model_validate(client.request("GET", f"/v1/requests/{fact.request_id}"))
            wanted = "mark_failed" if fact.reason == "outcome_unknown" else "approve"
            chosen = next((one for one in request.allowed_decisions if one == wanted), request.allowed_decisions[0])
            body = decision(request, chosen).model_dump(mode="json", exclude_none=True, exclude_defaults=True)
            client.request("POST", f"/v1/resume/{fact.request_id}", body)
        elif isinstance(fact, facts.QuestionAsked):
            body = {"question_id": fact.question_id, "answer": _NOBODY}
            client.request("POST", f"/v1/tasks/{task_id}/answer", body)
