"""The console reviewer of one terminal: shows a request, and takes a decision at a prompt."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.client import Client
from orchestrator.core.approval.approval import HitlResponse, ResumeRequest
from orchestrator.core.task.facts import RequestId
from orchestrator.terminal.console.channel import request_of
from orchestrator.terminal.console.decision import Deciding
from orchestrator.terminal.console.person import Person
from orchestrator.terminal.console.request_view import page
from orchestrator.terminal.console.terminal import prompted


@dataclass
class Console(Person):
    """Where a person decides."""

    overtaken: Callable[[], bool] = lambda: False
    """Whether what is being asked needs no answer any more; a terminal's prompt then ends."""

    @classmethod
    def of_terminal(cls) -> "Console":
        """The terminal this program runs in; without one there is nobody to ask."""
        interactive = sys.stdin.isatty() and sys.stdout.isatty()
        color = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        console = cls(color=color, columns=columns)
        if interactive:
            console.ask = lambda prompt: prompted(prompt, console.overtaken)
        return console

    def show(self, request: HitlResponse) -> None:
        """The whole request, every call in full; the goal of its task only the first time."""
        lines = page(request, again=request.task_id in self.told, now=self.now())
        self.told.add(request.task_id)
        self.write(lines)

    def decide(self, request: HitlResponse) -> ResumeRequest | None:
        """The person's decision, bound to what was shown; None: they leave it open. Raises Overtaken, InputEnded."""
        return None if self.ask is None else Deciding(self, request).run()


@dataclass
class ClientDesk:
    """What a prompt asks the server for, over the client."""

    client: Client

    def whole(self, request_id: RequestId) -> HitlResponse:
        """See Desk."""
        return request_of(self.client.request("GET", f"/v1/requests/{request_id}"))

    def extend(self, request_id: RequestId, seconds: float) -> None:
        """See Desk."""
        self.client.request("POST", f"/v1/requests/{request_id}/extend", {"seconds": seconds})
