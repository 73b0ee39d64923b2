"""The console reviewer: shows exactly what would run, and takes a decision at a prompt."""

import json
import os
import re
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.client import Client
from orchestrator.core import review
from orchestrator.core.approval import CallDecision, HitlResponse, RequestedCallView, ResumeRequest
from orchestrator.core.facts import RequestId
from orchestrator.core.response import TOOL_ARGS
from orchestrator.core.visible import one_line, visible

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

_VERBS = {
    "approve": ("a", "approve"),
    "reject": ("r", "reject"),
    "check": ("c", "check again"),
    "mark_done": ("d", "mark done"),
    "mark_failed": ("f", "mark failed"),
    "retry": ("t", "retry"),
}
_WHOLE = 10_000
"""Longer than any path: what a decision is about is never cut."""
_IN_THE_DIFF = frozenset({"content", "old", "new"})
"""Arguments that the diff shows, where there is one."""
_GOAL_CHARS = 500
_GOAL_AGAIN_CHARS = 60
"""Of a task's goal, where it was shown before."""
_JSON_ESCAPE = re.compile(r"\\(?:u00([01][0-9a-f])|(.))")
_JSON_LETTERS = {"b": "8", "f": "c", "r": "d"}
"""Escapes of JSON that have a letter of their own, and their code; a line break and a tab are \\n and \\t here too."""
_AT_ONCE = partial(print, flush=True)
_LOOK_S = 0.25
"""How soon a prompt notices that it is no longer needed."""
_RED, _GREEN, _BOLD, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[0m"


class InputEnded(KeyboardInterrupt):
    """The end of the input (Ctrl-D): leaves as Ctrl-C does."""


class Overtaken(Exception):
    """What was being asked no longer needs an answer."""


@dataclass
class Console:
    """Where a person reads and types. ``ask`` None: nobody is there."""

    say: Callable[[str], None] = _AT_ONCE
    """At once, also into a pipe: whoever reads there waits for it."""
    ask: Callable[[str], str] | None = None
    color: bool = False
    told: set[str] = field(default_factory=set)
    """The tasks whose goal was shown."""

    @classmethod
    def of_terminal(cls) -> "Console":
        """The terminal this program runs in; without one there is nobody to ask."""
        interactive = sys.stdin.isatty() and sys.stdout.isatty()
        color = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        return cls(ask=_typed if interactive else None, color=color)

    def show(self, request: HitlResponse) -> None:
        """The whole request, every call in full; the goal of its task only the first time."""
        lines = describe(request, again=request.task_id in self.told)
        self.told.add(request.task_id)
        for line in lines:
            self.say(self._colored(line) if self.color else line)

    def decide(self, request: HitlResponse) -> ResumeRequest | None:
        """The person's decision, bound to what was shown; None: they leave it open."""
        if self.ask is None:
            return None
        keys = {_VERBS[action][0]: action for action in request.allowed_decisions}
        choices = ", ".join(f"[{_VERBS[action][0]}] {_VERBS[action][1]}" for action in request.allowed_decisions)
        while True:
            answer = self.ask(f"{choices}, [l] leave it: ").strip().lower()
            action = keys.get(answer) or (answer if answer in request.allowed_decisions else None)
            if answer in ("l", "leave"):
                return None
            if action is None:
                self.say(f"Type one of {', '.join((*keys, 'l'))}; nothing was decided.")
                continue
            reason = self.ask("Reason (may be empty): ").strip() if action == "reject" else ""
            return decision(request, action, reason)

    def _colored(self, line: str) -> str:
        if line.startswith("  │ +"):
            return f"{_GREEN}{line}{_PLAIN}"
        if line.startswith("  │ -"):
            return f"{_RED}{line}{_PLAIN}"
        return f"{_BOLD}{line}{_PLAIN}" if line.startswith("──") else line


def read_line(say: Callable[[], object], overtaken: Callable[[], bool] = lambda: False) -> str:
    """The line that is typed once ``say`` has shown the prompt. Raises Overtaken once ``overtaken()``, InputEnded.

    What was typed before is thrown away: nobody decides about what they have not seen. It never waits inside
    of a read, so that Ctrl-C ends the program although a thread of it asks.
    """
    _forget_typed()
    say()
    while not _readable():
        if overtaken() or not threading.main_thread().is_alive():
            raise Overtaken
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        raise InputEnded
    return line


def _readable() -> bool:
    try:
        return bool(select.select([sys.stdin], [], [], _LOOK_S)[0])
    except (OSError, ValueError):
        # Windows selects sockets only: there a prompt waits until something is typed.
        return True


def _forget_typed() -> None:
    with suppress(ImportError, OSError, ValueError):
        import termios

        with suppress(termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _typed(prompt: str) -> str:
    """What the person types. Raises InputEnded at Ctrl-D."""

    def show() -> None:
        sys.stdout.write(prompt)
        sys.stdout.flush()

    return read_line(show)


def decision(request: HitlResponse, action: Any, reason: str = "") -> ResumeRequest:
    """One action for every call of a request, each bound to the digest that was shown."""
    return ResumeRequest(
        decisions=tuple(
            CallDecision(call_id=call.call_id, action=action, reason=reason, expected_digest=call.action_digest)
            for call in request.tool_calls
        )
    )


def describe(request: HitlResponse, *, again: bool = False) -> list[str]:
    """A request as lines of safe text: nothing that would run is cut, nothing can move the cursor.

    ``again``: another request of its task was shown before, so that of the goal only the beginning is.
    """
    goal = one_line(request.goal, limit=_GOAL_AGAIN_CHARS if again else _GOAL_CHARS)
    title = "A person has to look" if request.reason == "outcome_unknown" else "A person has to decide"
    lines = [
        f"── {title} ─ risk: {request.risk.value} ─ task {one_line(request.task_id)}",
        f"  asked by {one_line(request.requester)}: {goal}",
    ]
    if request.explanation:
        lines.append(f"  the model says: {one_line(request.explanation, limit=1000)}")
    for call in request.tool_calls:
        lines.extend(_call(call))
    return lines


def _call(call: RequestedCallView) -> list[str]:
    where = f" on computer {one_line(call.computer)}" if call.computer else " on this host"
    lines = [f"  {one_line(call.tool)}{where}"]
    model = TOOL_ARGS.get(call.tool)
    declared = [name for name in model.model_fields if name in call.args] if model else []
    for name in dict.fromkeys((*declared, *call.args)):
        value = call.args[name]
        if name in _IN_THE_DIFF and call.observed.diff:
            continue
        lines.extend(_field(name, value if isinstance(value, str) else _as_json(value)))
    if call.observed.program is not None:
        lines.append(f"  program: {one_line(call.observed.program, limit=_WHOLE)}")
    if call.observed.source is not None:
        lines.extend(f"  │ {line}" for line in visible(call.observed.source).splitlines())
    for path, state in call.observed.state.items():
        kind = "directory " if path in call.observed.directories else ""
        lines.append(f"  found: {one_line(path, limit=_WHOLE) or '/'} {kind}{state}")
    if call.observed.diff:
        lines.extend(f"  │ {line}" for line in visible(call.observed.diff).splitlines())
    if call.observed.note:
        lines.extend(_field("note", call.observed.note))
    rules = ", ".join(call.evaluation.matched_rules) or "none"
    lines.append(f"  rule: {one_line(rules)} ({one_line(call.evaluation.reason)}) digest {call.action_digest[:16]}")
    return lines


def _as_json(value: Any) -> str:
    """A value as JSON, its control characters in the one form in which all are shown."""

    def shown(found: re.Match[str]) -> str:
        code = found[1] or _JSON_LETTERS.get(found[2])
        return found[0] if code is None else f"\\u{{{int(code, 16):x}}}"

    return _JSON_ESCAPE.sub(shown, json.dumps(value, ensure_ascii=False))


def _field(name: str, text: str) -> list[str]:
    shown = visible(text).splitlines() or [""]
    if len(shown) == 1:
        return [f"  {one_line(name)}: {shown[0]}"]
    return [f"  {one_line(name)}:", *(f"  │ {line}" for line in shown)]


@dataclass
class ReviewLoop:
    """Follows the reviewers' socket and decides one request after the other at the console."""

    client: Client
    console: Console
    waiting: dict[RequestId, HitlResponse] = field(default_factory=dict)
    questions: dict[str, review.OpenQuestion] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)

    @property
    def undecided(self) -> int:
        """How many requests and questions were open when the server last told, those that were left included."""
        return len(self._open)

    async def run(self, *, until_empty: bool = False) -> None:
        """Review until the server hangs up; ``until_empty``: until nothing waits any more."""
        import anyio

        async with self.client.reviewer() as socket:
            async for frame in socket:
                self._take(review.decode_to_reviewer(str(frame)))
                while self.waiting or self.questions:
                    sent = await anyio.to_thread.run_sync(self._next, abandon_on_cancel=True)
                    if sent is not None:
                        await socket.send(sent)
                        await self._hear_answer(socket)
                if until_empty and not self.waiting and not self.questions:
                    return

    async def _hear_answer(self, socket: "ClientConnection") -> None:
        """Take what comes up to the answer to what was just sent: a person always hears what became of it."""
        while True:
            message = review.decode_to_reviewer(str(await socket.recv()))
            self._take(message)
            if isinstance(message, review.Done | review.Failed):
                return

    def _take(self, message: Any) -> None:
        match message:
            case review.Snapshot():
                self.waiting = {one.request_id: one for one in message.requests}
                self.questions = {one.question_id: one for one in message.questions}
                self._open = {*self.waiting, *self.questions}
                if not self.waiting and not self.questions:
                    self.console.say("Nothing waits for you. New requests appear here; Ctrl-C leaves.")
            case review.RequestOpened():
                self.waiting[message.request.request_id] = message.request
                self._open.add(message.request.request_id)
            case review.RequestClosed():
                self._open.discard(message.request_id)
                if self.waiting.pop(message.request_id, None) is not None:
                    self.console.say(f"A request was closed: {one_line(message.how)}.")
            case review.QuestionOpened():
                self.questions[message.question.question_id] = message.question
                self._open.add(message.question.question_id)
            case review.QuestionClosed():
                self._open.discard(message.question_id)
                self.questions.pop(message.question_id, None)
            case review.Done():
                self._open.discard(message.ref)
                self.console.say(f"Carried out: task {message.task_id} is {message.status}.")
            case review.Failed():
                self.console.say(f"Not carried out: {visible(message.message)} {visible(message.remedy)}".rstrip())

    def _next(self) -> str | None:
        """Ask the person about the oldest thing that waits; the frame to send, or None to leave it."""
        if self.questions:
            return self._answer(next(iter(self.questions.values())))
        request = next(iter(self.waiting.values()))
        self.console.show(request)
        resume = self.console.decide(request)
        self.waiting.pop(request.request_id, None)
        if resume is None:
            return None
        message = review.DecideRequest(ref=request.request_id, request_id=request.request_id, resume=resume)
        return message.model_dump_json()

    def _answer(self, question: review.OpenQuestion) -> str | None:
        self.questions.pop(question.question_id, None)
        self.console.say(f"── A question ─ task {one_line(question.task_id)}")
        for line in _field("the model asks", question.question):
            self.console.say(line)
        if self.console.ask is None:
            return None
        answer = self.console.ask("Your answer (empty: leave it): ").strip()
        if not answer:
            return None
        message = review.AnswerQuestion(
            ref=question.question_id, task_id=question.task_id, question_id=question.question_id, answer=answer
        )
        return message.model_dump_json()
