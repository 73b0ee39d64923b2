"""Follows one task from a terminal: shows it as it happens, and takes the decisions and answers it waits for.

One thread reads the events and opens the connection again when it drops. The caller's thread shows and asks, so that
Ctrl-C is heard at once. An open request is looked up when nothing newer has come, so that a replayed log asks for
nothing that was decided long ago. A prompt ends by itself when somebody else decides first.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from orchestrator.client import PATIENCE_S, Back, Client, Event, Hint, Lost, ServerRefused, ServerUnreachable
from orchestrator.core.errors import FrameRefused, OrchestratorError
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.text.visible import one_line, visible
from orchestrator.terminal.output import Screen
from orchestrator.terminal.progress import View

if TYPE_CHECKING:
    # The parts that ask a person are imported when one is asked: most tasks are only watched.
    from orchestrator.terminal.review.edit import Drafts

_TICK_S: Final = 0.25
"""How often the clock on the screen moves, and how soon a prompt notices that it is no longer needed."""
_QUIET_S: Final = 0.05
"""Seconds without anything newer, after which the waiting request is asked for."""
_SENTENCE_CHARS: Final = 600
"""The longest sentence of the server that is shown on one line."""
_AWAY_AFTER_S: Final = 3.0
"""A call that takes longer may be waiting for its computer."""
_MAX_AHEAD: Final = 1000
"""Events read ahead of the screen."""


@dataclass(eq=False, repr=False)
class Follower:
    """Follows tasks of one server, one after another."""

    client: Client
    view: View
    screen: Screen | None = None
    """Where a person is asked; None: nobody is there."""
    patience_s: float = PATIENCE_S
    version: int = 0
    """The last item that was shown."""
    _events: "queue.Queue[Event | BaseException]" = field(default_factory=lambda: queue.Queue(_MAX_AHEAD))
    _held: "deque[Event | BaseException]" = field(default_factory=deque)
    """The events that came while a prompt was open."""
    _look: bool = False
    """Whether something may wait for a person."""
    _left: set[str] = field(default_factory=set)
    """The requests that were asked or told once, and are not asked again."""
    _told: set[str] = field(default_factory=set)
    """The tasks whose goal was shown."""
    _kept: "Drafts | None" = None
    """The edits that were not taken yet; None: nobody was asked."""
    _mine: frozenset[str] = frozenset()
    """Whether this person is known to decide for the task."""
    _lost: bool = False
    _working: bool = False
    _restores: bool = False
    """Whether the task puts something back: no model answers between its calls."""
    _heard_at: float = 0.0
    _told_away: bool = False

    def follow(self, task_id: str) -> facts.TaskEnded:
        """Show the task after ``version`` until it has ended; the fact that ended it.

        Raises KeyboardInterrupt when the person leaves, ServerUnreachable, ServerRefused.
        """
        with self._reading(task_id):
            while True:
                event = self._next(_QUIET_S if self._look else _TICK_S)
                if event is None:
                    self._idle(task_id)
                    continue
                ended = self._take(event)
                if ended is not None:
                    return ended

    # -- events --------------------------------------------------------------------------

    @contextmanager
    def _reading(self, task_id: str) -> Iterator[None]:
        """The task's events in the queue, as long as the block lasts."""
        events: queue.Queue[Event | BaseException] = queue.Queue(_MAX_AHEAD)
        self._events, over = events, threading.Event()
        self._held.clear()

        def put(event: "Event | BaseException") -> None:
            while not over.is_set():
                with suppress(queue.Full):
                    return events.put(event, timeout=_TICK_S)

        def read() -> None:
            try:
                for event in self.client.follow(
                    task_id, self.version, patience_s=self.patience_s, pause=over.wait, leaving=over.is_set
                ):
                    put(event)
            except Exception as error:  # noqa: BLE001 - raised again where it is heard
                put(error)

        # A daemon: it may be waiting for a server that says nothing, and nobody waits for it.
        threading.Thread(target=read, name=f"events of {task_id}", daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def _next(self, wait_s: float) -> "Event | None":
        """The next event; None when none came in time. Raises what ended the reading."""
        if self._held:
            event = self._held.popleft()
        else:
            try:
                event = self._events.get(timeout=wait_s)
            except queue.Empty:
                return None
        if isinstance(event, BaseException):
            raise event
        return event

    def _take(self, event: Event) -> facts.TaskEnded | None:
        self._heard_at = time.monotonic()
        match event:
            case Hint():
                self.view.hint(event)
            case Lost():
                self._lost = True
                again = f" Trying again for {self.patience_s:.0f} s." if self.patience_s else ""
                self.view.note(f"The server went away.{again}")
            case Back():
                self._lost = False
                self.view.note("The connection is back.")
            case AgentTaskItem():
                self.version = event.version
                self.view.item(event)
                self._note(event)
                if isinstance(event.fact, facts.TaskEnded):
                    return event.fact
        return None

    def _note(self, item: AgentTaskItem) -> None:
        match item.fact:
            case facts.ReviewRequested() | facts.QuestionAsked():
                self._look, self._working = True, False
            case facts.DecisionRecorded() | facts.RequestEnded() | facts.QuestionAnswered():
                self._look = True
            case facts.TaskSubmitted():
                # A restoration looks at its computers before it proposes anything.
                self._restores = self._working = item.fact.restores is not None
            case facts.CallsProposed() | facts.ToolStarted():
                self._working, self._told_away = True, False
            case facts.ToolFinished() | facts.ModelAsked():
                self._working, self._told_away = self._restores, False

    # -- while nothing comes -------------------------------------------------------------

    def _idle(self, task_id: str) -> None:
        self.view.tick()
        if self._lost:
            return
        # The reader says when the server is away, and until when it is looked for.
        with suppress(ServerUnreachable):
            if self._look:
                self._look = self._attend(task_id)
            elif self._working and not self._told_away and time.monotonic() - self._heard_at > _AWAY_AFTER_S:
                self._tell_who_is_away(task_id)

    def _tell_who_is_away(self, task_id: str) -> None:
        self._heard_at = time.monotonic()
        mine = set(self.client.request("GET", f"/v1/tasks/{task_id}")["computers"])
        found = self.client.request("GET", "/v1/computers")["computers"]
        away = sorted((one for one in found if one["computer"] in mine and not one["online"]), key=_name_of)
        self._told_away = bool(away)
        for one in (one for one in away if one["frozen"]):
            frozen = one["frozen"]
            self.view.note(f"[WAITING] {one_line(frozen['message'], limit=_SENTENCE_CHARS)}")
            self.view.note(one_line(frozen["remedy"], limit=_SENTENCE_CHARS))
        names = [one_line(_name_of(one)) for one in away if not one["frozen"]]
        if names:
            who = f"computer {names[0]}" if len(names) == 1 else f"computers {', '.join(names)}"
            self.view.note(f"[WAITING] Away: {who}. The task goes on when it is back.")

    def _attend(self, task_id: str) -> bool:
        """Ask for what waits, or say who can; whether to look again."""
        task = self.client.request("GET", f"/v1/tasks/{task_id}")
        if task["version"] > self.version:
            # It is asked for once its lines are on the screen.
            return True
        request, question = task["request"], task["question"]
        if question is not None and question["question_id"] not in self._left:
            return self._asked(task_id, "question", question["question_id"], lambda: self._answer(task_id, question))
        if request is None or self._key(request) in self._left:
            return False
        return self._asked(task_id, "request", self._key(request), lambda: self._decide(request))

    def _key(self, request: dict[str, Any]) -> str:
        """A request as it was shown: with other calls it is asked for again."""
        return f"{request['request_id']} {request['action_digest']}"

    def _asked(self, task_id: str, what: str, key: str, ask: Callable[[], bool]) -> bool:
        if self.screen is None:
            self._left.add(key)
            self.view.note("It waits for a person: `cc-orchestrator review` decides and answers.")
            return False
        from orchestrator.core.approval.approval import WHO_DECIDES
        from orchestrator.terminal.console import InputEnded, Overtaken

        if not self._may_decide(task_id, what):
            if not self._still(task_id, key):
                return True
            self._left.add(key)
            self.view.note(f"It waits for a person, and you may not decide. {WHO_DECIDES}")
            return False
        try:
            if not ask():
                self._left.add(key)
                self.view.note("Left open: nothing was decided. `cc-orchestrator review` decides it.")
                return False
        except Overtaken:
            self.screen.end_part()
            answered = any(isinstance(one, AgentTaskItem) and _answers(one.fact, key) for one in self._held)
            self.view.note(f"That was {'answered' if answered else 'decided'} elsewhere.")
        except InputEnded:
            self.screen.end_part()
            self._left.add(key)
            self.view.note("The input ended: nothing was decided. `cc-orchestrator review` decides it.")
            return False
        except FrameRefused as error:
            self._left.add(key)
            self.view.note(visible(str(error)))
            return False
        except ServerRefused as error:
            self.view.note(f"Not carried out: {visible(str(error))}")
        except ServerUnreachable as error:
            self.view.note(f"Perhaps not carried out; it is asked again if not: {visible(str(error))}")
        return True

    def _may_decide(self, task_id: str, what: str) -> bool:
        """Whether the server lets this person decide or answer: it tells reviewers only what is theirs."""
        if what not in self._mine:
            waiting = self.client.waiting()
            questions, requests = ([one.task_id for one in some] for some in (waiting.questions, waiting.requests))
            if task_id in (questions if what == "question" else requests):
                self._mine |= {what}
        return what in self._mine

    def _still(self, task_id: str, key: str) -> bool:
        """Whether what was found to wait still does."""
        task = self.client.request("GET", f"/v1/tasks/{task_id}")
        request, question = task["request"], task["question"]
        return key in (self._key(request) if request else None, question["question_id"] if question else None)

    # -- asking --------------------------------------------------------------------------

    def _decide(self, told: dict[str, Any]) -> bool:
        """Show a request and carry out what the person says; False: they left it open."""
        from orchestrator.terminal.console import ClientDesk, Console
        from orchestrator.terminal.review.channel import body_of, request_of
        from orchestrator.terminal.review.edit import Drafts

        request, screen = request_of(told), self._asking()
        self._kept = self._kept or Drafts()

        def ask(prompt: str) -> str:
            return self._typed(prompt, lambda fact: _closes(fact, request.request_id))

        console = Console(
            say=screen.line,
            ask=ask,
            color=screen.color,
            told=self._told,
            columns=screen.columns,
            desk=ClientDesk(self.client),
            kept=self._kept,
        )
        console.show(request)
        resume = console.decide(request)
        if resume is None:
            return False
        self.client.request("POST", f"/v1/resume/{request.request_id}", body_of(resume))
        return True

    def _answer(self, task_id: str, question: dict[str, Any]) -> bool:
        from orchestrator.terminal.review.channel import answer_prompt

        question_id = question["question_id"]
        prompt = answer_prompt(question.get("options", ()))
        answer = self._typed(prompt, lambda fact: _answers(fact, question_id)).strip()
        if not answer:
            return False
        self.client.request("POST", f"/v1/tasks/{task_id}/answer", {"question_id": question_id, "answer": answer})
        return True

    def _asking(self) -> Screen:
        assert self.screen is not None
        return self.screen

    def _typed(self, prompt: str, closes: Callable[[facts.Fact], bool]) -> str:
        """What the person types. Raises Overtaken when an item closes what is asked, InputEnded."""
        screen = self._asking()
        screen.status("")
        return typed(prompt, screen, lambda: self._overtaken(closes))

    def _overtaken(self, closes: Callable[[facts.Fact], bool]) -> bool:
        """Take what came meanwhile; whether it makes the prompt needless."""
        while True:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                return any(_makes_needless(one, closes) for one in self._held)
            self._held.append(event)


def _name_of(row: dict[str, Any]) -> str:
    return str(row["computer"])


def _makes_needless(event: "Event | BaseException", closes: Callable[[facts.Fact], bool]) -> bool:
    if not isinstance(event, AgentTaskItem):
        return isinstance(event, OrchestratorError)
    return isinstance(event.fact, facts.TaskEnded) or closes(event.fact)


def _closes(fact: facts.Fact, request_id: str) -> bool:
    """Whether a request is decided, or ended without it."""
    return isinstance(fact, facts.DecisionRecorded | facts.RequestEnded) and fact.request_id in (request_id, None)


def _answers(fact: facts.Fact, question_id: str) -> bool:
    """Whether a question is answered."""
    return isinstance(fact, facts.QuestionAnswered) and fact.question_id == question_id


def typed(prompt: str, screen: Screen, overtaken: Callable[[], bool] = lambda: False) -> str:
    """One line from the terminal, as ``read_line``."""
    from orchestrator.terminal.console import read_line

    line = read_line(lambda: screen.part(prompt), overtaken)
    # The terminal has shown the line break already.
    screen.at_start()
    return line
