"""A prompt in the terminal: each line is a task of one session, followed and decided where it was typed."""

import asyncio
import os
import secrets
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from orchestrator.client import Client
from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import program, reaching
from orchestrator.terminal.changes_left import left_behind
from orchestrator.terminal.follow import Follower, typed
from orchestrator.terminal.model_choice import banner_of
from orchestrator.terminal.output import Screen, age, fitted, table
from orchestrator.terminal.progress import Progress

_HELP: Final = """\
Type what to do, in a line of its own; Esc, then Enter makes a new line in it. Each is a task of this
session, and knows how the earlier ones ended. Ctrl-C while one runs: leave it running, or cancel it.
  /computers      list the computers
  /use NAME …     work on these from now on; without a name: on none
  /tasks          list the newest tasks
  /help           this
  /quit           leave, as Ctrl-D does; tasks that run go on"""

_NO_COMPUTERS: Final = "There are no computers yet: connect one with `cc-orchestrator pair`."


def run_task_interactive(
    *,
    url: str | None = None,
    token: str | None = None,
    data_dir: Path | str | None = None,
    computers: Sequence[str] = (),
    model: str = "",
    session_id: str = "",
    read_only: bool = False,
) -> int:
    """Ask for tasks in this terminal until the person leaves; the exit code: 0.

    None and empty values: what the environment says (``CC_ORCHESTRATOR_URL``, ``…_TOKEN``), the only
    computer that is online, the server's model, a new session. ``read_only``: its tasks may only look, and
    whatever changes something is denied. Raises InvalidRequest without a
    terminal or a token, ServerUnreachable and ServerRefused when the server cannot be used at all.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidRequest("There is no terminal to ask in.", remedy='Use `cc-orchestrator run "…"` in scripts.')
    directory = Path(data_dir) if data_dir is not None else None
    client = Client.of_environment(url=url, token=token, data_dir=directory)
    try:
        session_id, resumed = session_id or f"s-{secrets.token_hex(6)}", bool(session_id)
        where = reaching(url, directory)
        session = _Session(client, Screen.of(), list(computers), model, session_id, where, read_only=read_only)
        session.resumed = resumed
        session.begin()
        _Prompt(_history(directory)).each(session.take, lambda: session.marker)
        session.end()
    finally:
        client.close()
    return 0


@dataclass
class _Session:
    """The typed text, carried out."""

    client: Client
    screen: Screen
    computers: list[str]
    model: str
    session_id: str
    where: str = ""
    """The options by which another command reaches the same server."""
    commands: dict[str, Callable[[list[str]], None]] = field(init=False)
    submitted: int = 0
    resumed: bool = False
    """Whether the person named the session."""
    read_only: bool = False

    def __post_init__(self) -> None:
        self.commands = {
            "/computers": lambda _: self._list_computers(),
            "/use": self._use,
            "/tasks": lambda _: self._list_tasks(),
            "/help": lambda _: self.screen.line(_HELP),
        }

    @property
    def marker(self) -> str:
        """The text before the cursor."""
        return f"[{one_line(', '.join(self.computers)) or 'no computer'}] > "

    def begin(self) -> None:
        """Say where we are; take the computer that is online, if there is just one."""
        found = self.client.request("GET", "/v1/computers")["computers"]
        online = [one["computer"] for one in found if one["online"]]
        if not self.computers and len(online) == 1:
            self.computers = online
        for line in () if self.model else banner_of(self.client):
            self.screen.line(one_line(line, limit=600))
        self.screen.line(f"cc-orchestrator at {self.client.shown}. /help says what can be typed; Ctrl-D leaves.")
        if self.read_only:
            self.screen.say("Tasks may only look here: whatever changes something is denied.")
        if self.resumed and self.client.is_new(self.session_id):
            self.screen.say(f"session {one_line(self.session_id)} is new: nothing earlier is told to the model")
        if not found:
            self.screen.say(_NO_COMPUTERS)
        elif not self.computers:
            self.screen.say("No computer is chosen: /computers lists them, /use NAME chooses.")

    def end(self) -> None:
        """Say how to come back."""
        if self.submitted:
            more = f"{self.where} --read-only" if self.read_only else self.where
            words = f"{program()} run --session {shlex.quote(one_line(self.session_id))}{more}"
            self.screen.line(f"To go on with this session: {words}")

    def take(self, text: str) -> bool:
        """Carry out one line; False: the person leaves."""
        words = text.split()
        if not words:
            return True
        if words[0] == "/quit":
            return False
        try:
            if words[0].startswith("/"):
                self._command(words)
            else:
                self._task(text)
        except OrchestratorError as error:
            self.screen.close()
            self.screen.say(f"That did not work: {one_line(str(error), limit=2000)}")
        return True

    def _command(self, words: list[str]) -> None:
        command = self.commands.get(words[0])
        if command is None:
            self.screen.line(f"There is no command {one_line(words[0])}; /help lists them.")
        else:
            command(words[1:])

    # -- tasks ---------------------------------------------------------------------------

    def _task(self, prompt: str) -> None:
        body: dict[str, Any] = {"prompt": prompt, "computers": self.computers, "session_id": self.session_id}
        if self.model:
            body["model"] = self.model
        if self.read_only:
            body["read_only"] = True
        task_id = self.client.submit(body)["task_id"]
        self.submitted += 1
        self.screen.line(f"task {task_id}")
        follower = Follower(self.client, Progress(self.screen, self.client.clock.now), screen=self.screen)
        while True:
            try:
                ended = follower.follow(task_id)
            except KeyboardInterrupt:
                if self._interrupted(task_id):
                    return
            else:
                self.screen.close()
                succeeded = ended.status == "Completed" and ended.verified is not False
                self._tell(left_behind(self.client, task_id, self.where, succeeded=succeeded))
                return

    def _interrupted(self, task_id: str) -> bool:
        """Ask what Ctrl-C meant; whether the task is no longer followed."""
        self.screen.close()
        try:
            answer = typed("\n[l] leave it running, [c] cancel it, [g] go on watching: ", self.screen)
        except KeyboardInterrupt:
            answer = "l"
            self.screen.end_part()
        choice = answer.strip().lower()[:1]
        if choice == "g":
            return False
        if choice == "c":
            status = self.client.request("POST", f"/v1/tasks/{task_id}/cancel", {"reason": "canceled at the prompt"})
            self.screen.line(f"task {task_id} is {status['status']}")
            self._tell(left_behind(self.client, task_id, self.where))
        else:
            self.screen.line(f"task {task_id} goes on: {program()} tasks watch {task_id}{self.where}")
        return True

    def _tell(self, lines: list[str]) -> None:
        for line in lines:
            self.screen.line(line)

    # -- commands ------------------------------------------------------------------------

    def _list_computers(self) -> None:
        found = self.client.request("GET", "/v1/computers")["computers"]
        if not found:
            self.screen.say(_NO_COMPUTERS)
            return
        rows = [(one_line(one["computer"]), one["state"], one_line(one.get("label") or "-")) for one in found]
        self._table(("COMPUTER", "STATE", "LABEL"), rows)

    def _list_tasks(self) -> None:
        found = self.client.request("GET", "/v1/tasks", limit=10)["tasks"]
        if not found:
            self.screen.line("There are no tasks.")
            return
        rows = [
            (one["task_id"], one["status"], age(one["created_at"]), fitted(one_line(one["prompt"], limit=1000), 60))
            for one in found
        ]
        self._table(("TASK", "STATUS", "AGE", "PROMPT"), rows)

    def _table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        for line in table(head, rows, columns=self.screen.columns):
            self.screen.line(line)

    def _use(self, names: list[str]) -> None:
        known = {one["computer"] for one in self.client.request("GET", "/v1/computers")["computers"]}
        unknown = [name for name in names if name not in known]
        if unknown:
            self.screen.line(f"There is no computer {one_line(unknown[0])}; /computers lists them.")
        else:
            self.computers = list(dict.fromkeys(names))


class _Prompt:
    """Lines from the terminal, with what was typed before."""

    def __init__(self, history: Path | None) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

        keys = KeyBindings()

        @keys.add("escape", "enter")
        def _new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        remembered = FileHistory(str(history)) if history is not None else InMemoryHistory()
        self._session: PromptSession[str] = PromptSession(history=remembered, key_bindings=keys)

    def each(self, take: Callable[[str], bool], marker: Callable[[], str]) -> None:
        """Give each line to ``take`` until it says False, or the input ends."""
        while True:
            try:
                text = self._session.prompt(marker(), in_thread=_in_a_loop())
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if not take(text):
                return


def _in_a_loop() -> bool:
    """Whether the caller runs an event loop, so that the prompt needs a thread for its own."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    return False


def _history(data_dir: Path | None) -> Path | None:
    """Where prompts are kept, readable by their writer only: the data directory or XDG's state; None: nowhere."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    path = (data_dir or Path(base) / "cc-orchestrator") / "history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        return None
    return path
