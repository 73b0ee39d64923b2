"""A task's items as lines for a computer's screen: short, without secrets, in the game's own letters.

Theory. A computer's screen has 51 columns and 19 rows and shows latin-1. So a line says what happened in
a few words; the whole is in the journal, where the console and the command line show it. Each line
has a kind, by which the computer gives it a colour: ``say tool out wait ask note good bad``, and
``doing`` for the one below all others that is gone when the next comes.
"""

import asyncio
import contextlib
import json
import logging
import math
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.core.evidence.report import UNVERIFIED, report, says_the_model
from orchestrator.core.ports import ComputerLine
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.task import AgentTask
from orchestrator.core.task.transcript import Transcript, cannot_be_known
from orchestrator.core.text.redact import redact
from orchestrator.core.text.visible import one_line, visible
from orchestrator.core.undo.wanted import planned
from orchestrator.engine.tasks import TaskService, patiently

# -- A task's items as lines for a computer's screen: short, without secrets, in the game's own letters

_SALT: Final = secrets.token_hex(16)
"""The marker of a secret stays the same as long as this process lives; nobody can test a guess with it."""
_AT_ONCE: Final = 20_000
"""Characters that are looked through for secrets on the event loop: a few milliseconds at the worst."""
_MAX_CHARS: Final = 300
"""Characters of one line: a third of the screen."""
_QUESTION_CHARS: Final = 1000
"""A question is read before it is answered; this much of it fills the screen."""
QUESTIONS_CHARS: Final = 7000
"""Characters of the questions of a list: at six bytes each, the most in JSON, they and the rest fit one frame."""
_CHOICE: Final = "choice"
"""A line that becomes a part of the question before it."""
_HEAD_ROWS, _TAIL_ROWS = 4, 2
_ARG_CHARS: Final = 48
"""Characters of one argument: longer ones are told by their length."""
_KINDS: Final = {
    "ANSWER": "note",
    "DECISION": "note",
    "UNDO": "note",
    "STATUS": "say",
    "LIMIT": "bad",
    "REFUSED": "bad",
}
"""The marks of the log whose lines are shown as something other than what came back (``out``) or waits (``wait``)."""


@dataclass(frozen=True)
class Line:
    """One line, wrapped by the computer."""

    kind: str
    text: str

    def form(self) -> dict[str, str]:
        """The form as it travels."""
        return {"is": self.kind, "text": self.text}


@dataclass
class Narrator:
    """Tells the items of one task, from its first on."""

    waits_for: str
    """The people who decide its requests, in words such as ``alice`` or ``somebody with the role reviewer``."""
    where: str = ", outside the game"
    """Where they do, as the end of a sentence."""
    doing: str = ""
    """The present work; empty: none, or it waits for a person."""
    _log: Transcript = field(default_factory=partial(Transcript, names_computers=False))
    _tools: dict[CallId, str] = field(default_factory=dict)
    _steps: int = 0
    _max_steps: int = 0
    _planned_for: str = ""
    """For whom the orchestrator itself proposes the calls; empty: a model does."""

    async def lines(self, item: AgentTaskItem) -> list[Line]:
        """The lines that one item adds; most add none."""
        told = self._told(item)
        self._note_doing(item)
        texts = await _without_secrets([text for _, text in told])
        return _joined(Line(kind, _shortened(kind, text)) for (kind, _), text in zip(told, texts, strict=True))

    def _told(self, item: AgentTaskItem) -> list[tuple[str, str]]:
        fact = item.fact
        # A limit is told with the end that it means: a screen of the game is small.
        log = [] if isinstance(fact, facts.LimitReached) else self._log.lines(item)
        match fact:
            case facts.TaskSubmitted():
                self._max_steps = fact.max_steps
                self._planned_for = fact.user_id if fact.restores is not None else ""
                return [("note", f"{fact.user_id}: {fact.prompt}")]
            case facts.ModelReplied():
                self._steps += 1
                return []
            case facts.CallsProposed():
                return self._proposed(fact)
            case facts.ReviewRequested():
                return [("wait", self._waits(fact))]
            case facts.QuestionAsked():
                return [("ask", fact.question), *((_CHOICE, one) for one in _choices(fact.options))]
            case facts.ReplyRefused(because="unproven"):
                # The reason is written for the model.
                return [("note", "It says that it is done, and is asked to show it.")]
            case facts.TaskEnded():
                return _ended(fact)
            case _:
                return [_marked(line) for line in log]

    def _proposed(self, fact: facts.CallsProposed) -> list[tuple[str, str]]:
        told = [("say", fact.explanation)] if fact.explanation else []
        if self._planned_for:
            told = [("note", planned(fact.explanation, self._planned_for))]
        for call, verdict in zip(fact.calls, fact.evaluations, strict=True):
            self._tools[call.call_id] = call.tool
            # A text or question of it has a line of its own.
            told += [("tool", _called(call))] if call.plugin_name != "people" else []
            if verdict.effect == "deny":
                told.append(("bad", f"Denied by policy: {verdict.reason}"))
        return told

    def _waits(self, fact: facts.ReviewRequested) -> str:
        names = ", ".join(self._tools.get(one.call_id, one.call_id) for one in fact.calls)
        if cannot_be_known(fact):
            return (
                f"It cannot be known what became of {names}: {self.waits_for} looks, and marks or retries it outside."
            )
        if fact.reason == "outcome_unknown":
            return f"Nobody knows what became of {names}: {self.waits_for} has to look, outside the game."
        return f"{names} waits for approval by {self.waits_for} (risk: {fact.risk.value}){self.where}."

    def _note_doing(self, item: AgentTaskItem) -> None:
        match item.fact:
            case facts.ModelAsked():
                self.doing = f"the model thinks (step {self._steps + 1} of {self._max_steps})"
            case facts.ModelAwaited():
                self.doing = "waiting for the model server"
            case facts.ToolStarted():
                self.doing = f"running {self._tools.get(item.fact.call_id, 'a call')}"
            case facts.TaskSubmitted():
                self.doing = "waiting for its turn"
            case facts.ReviewRequested() | facts.QuestionAsked() | facts.TaskEnded():
                self.doing = ""
            case facts.DecisionRecorded() | facts.QuestionAnswered() | facts.ModelReplied():
                self.doing = "going on"
            case facts.CancelRequested():
                self.doing = "stopping"
            case facts.WorkFailed():
                self.doing = "trying again"
            case facts.WorkFrozen():
                self.doing = f"frozen by {item.fact.by}"


async def row(
    values: dict[str, str], *, question: str = "", options: Sequence[str] = (), question_chars: int
) -> dict[str, str]:
    """One task of a list: its texts on one line each, without secrets; ``question`` empty: it asks nothing.

    The choices stand below the question, also for a client that does not know them; ``options`` says how many.
    """
    shown = await _without_secrets([*values.values(), question, *options])
    form = {name: in_game(one_line(text, limit=120)) for name, text in zip(values, shown, strict=False)}
    if not question:
        return form
    numbered = [f"{number}. {_choice(_safe(one))}" for number, one in enumerate(shown[len(values) + 1 :], 1)]
    room = question_chars - sum(len(one) + 1 for one in numbered)
    form["question"] = in_game("\n".join([_cut(_safe(shown[len(values)]), room), *numbered]))
    return {**form, "options": str(len(options))} if options else form


class Several(InvalidRequest):
    """More than one task may be meant: the player picks one by its number. ``tasks`` are in that order."""

    def __init__(self, what: str, verb: str, tasks: Sequence[tuple[TaskId, str]]) -> None:
        shown = [(task_id, one_line(_clean(about[:_LOOKED_AT]))[:_ABOUT]) for task_id, about in tasks]
        rows = [f"{number}. {task_id} {about}" for number, (task_id, about) in enumerate(shown, 1)]
        text = " TEXT" if verb == "answer" else ""
        how = f"cc {verb} 2{text} picks the second; its name does, too."
        super().__init__("\n".join([f"More than one task {what}:", *rows]), remedy=f"\n{how}")
        self.tasks = [task_id for task_id, _ in tasks]


_LOOKED_AT: Final = 2_000
"""Characters of a prompt that are searched for secrets: more than are shown, so that no secret is cut in two."""
_ABOUT: Final = 22
"""Characters of the prompt of each of ten tasks that a refusal lists: with them it fits its frame."""


async def note(text: str) -> Line:
    """A line that is not an item's, without secrets."""
    (shown,) = await _without_secrets([text])
    return Line("note", _shortened("note", shown))


def as_body(value: Any) -> bytes:
    r"""JSON in ASCII in which ``\u00XX`` is one byte of the game's charset."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def in_game(text: str) -> str:
    """The text in the letters that the game has: print's own signs by what is typed for them, others as ``?``."""
    return text.translate(_TYPED).encode("latin-1", "replace").decode("latin-1")


_TYPED: Final = str.maketrans(
    {
        "\N{HORIZONTAL ELLIPSIS}": "...",
        "\N{EN DASH}": "-",
        "\N{EM DASH}": "-",
        "\N{MINUS SIGN}": "-",
        "\N{LEFT SINGLE QUOTATION MARK}": "'",
        "\N{RIGHT SINGLE QUOTATION MARK}": "'",
        "\N{LEFT DOUBLE QUOTATION MARK}": '"',
        "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
        "\N{DOUBLE LOW-9 QUOTATION MARK}": '"',
        "\N{BULLET}": "*",
        "\N{RIGHTWARDS ARROW}": "->",
        "\N{NO-BREAK SPACE}": " ",
    }
)
"""Signs that models like to write and the game's charset lacks."""


def _choices(options: Sequence[str]) -> list[str]:
    """The lines below a question."""
    how = ["Type its number: cc answer 1. Or use your own words."] if options else []
    return [*(f"{number}. {_choice(one)}" for number, one in enumerate(options, 1)), *how]


def _choice(option: str) -> str:
    """A choice; the reason in its place where the game has none of its letters: its number still picks it."""
    shown = in_game(option)
    is_lost = shown.count("?") > option.count("?") and not any(map(str.isalnum, shown))
    return "(letters that this screen cannot show)" if is_lost else option


def _joined(lines: Iterable[Line]) -> list[Line]:
    """The lines, with each choice below its question in one text."""
    joined = list[Line]()
    for one in lines:
        if one.kind == _CHOICE:
            joined[-1] = Line("ask", f"{joined[-1].text}\n{one.text}")
        else:
            joined.append(one)
    return joined


def _marked(line: str) -> tuple[str, str]:
    """A line of the log without its mark, and its kind."""
    mark, _, text = line.removeprefix("[").partition("] ")
    return _KINDS.get(mark, "wait" if mark in ("REVIEW", "SETTLED", "WAITING") else "out"), text


def _called(call: facts.ToolCall) -> str:
    """A call in a few words: its tool, what is short of its arguments, and how long the others are."""
    parts = []
    for name, value in sorted(call.args.items(), key=lambda one: (one[0] not in ("path", "command"), one[0])):
        text = value if isinstance(value, str) else json.dumps(value)
        short = len(text) <= _ARG_CHARS
        shown = text if short else f"{len(text)} characters"
        parts.append(shown if short and name in ("path", "command") else f"{name}: {shown}")
    return " ".join((call.tool, ", ".join(parts)))


def _ended(fact: facts.TaskEnded) -> list[tuple[str, str]]:
    said = fact.message or fact.explanation or fact.status_reason
    lines = report(fact)
    shown = [("note", line) for line in ("What the journal shows:", *lines) if lines]
    if fact.verified is False:
        return [*shown, ("bad", f"{UNVERIFIED}{said}")]
    done = fact.status == "Completed"
    says = ". The model says" if says_the_model(fact) else ""
    return [*shown, ("good" if done else "bad", f"{'Done' if done else fact.status}{says}: {said}")]


async def _without_secrets(texts: Sequence[str]) -> list[str]:
    """The texts without their secrets; a long one is looked through away from the event loop."""
    if sum(map(len, texts)) < _AT_ONCE:
        return [_clean(text) for text in texts]
    return await asyncio.to_thread(lambda: [_clean(text) for text in texts])


def _clean(text: str) -> str:
    return str(redact(text, salt=_SALT))


def _safe(text: str) -> str:
    return visible(text).replace("\t", " ").strip()


def _cut(text: str, chars: int, more: str = "") -> str:
    end = f" ...{more}"
    return text if len(text) <= chars else text[: chars - len(end)] + end


def _shortened(kind: str, text: str) -> str:
    """Safe to show: of a question its beginning, of other texts also the end of what has many rows."""
    if kind == "ask":
        return in_game(_cut(_safe(text), _QUESTION_CHARS, " (`cc tasks` shows all of it)"))
    rows = _safe(text).split("\n")
    if len(rows) > _HEAD_ROWS + _TAIL_ROWS + 1:
        left_out = f"... {len(rows) - _HEAD_ROWS - _TAIL_ROWS} rows ..."
        rows = [*rows[:_HEAD_ROWS], left_out, *rows[-_TAIL_ROWS:]]
    return in_game(_cut("\n".join(rows), _MAX_CHARS))


# -- What computers are told without being asked: which questions wait there, as they open and close
#
# One loop for all computers: changes within a second go together, and only tasks that changed are looked at. A waiting
# task is looked at again from time to time, so that a player who lost access hears it.

logger = logging.getLogger(__name__)

EVERY_S: Final = 1.0
"""Between two looks at what changed."""
AGAIN_S: Final = 5.0
"""After so long it is looked whether what was told to wait still does, and for whom."""

Rows = list[dict[str, str]]


class News:
    """Tells each open line its questions. ``rows`` raises OrchestratorError where nobody may be told any more."""

    def __init__(
        self,
        service: TaskService,
        *,
        rows: Callable[[ComputerLine], Awaitable[Rows]],
        asks: Callable[[AgentTask], bool],
        tell: Callable[[ComputerLine, Rows], None],
        tell_wrong: Callable[[ComputerLine, OrchestratorError], None],
    ) -> None:
        self._service = service
        self._rows, self._asks, self._tell, self._tell_wrong = rows, asks, tell, tell_wrong
        self._told: dict[ComputerLine, Rows] = {}
        self._due: set[ComputerLine] = set()
        self._changed: set[TaskId] = set()
        self._woken = asyncio.Event()
        self._ends: list[Callable[[], object]] = []

    def opened(self, line: ComputerLine) -> None:
        """Tell this computer from now on."""
        if not self._ends:
            self._ends = [
                self._service.bus.subscribe("tasks", self._hear),
                asyncio.ensure_future(self._work()).cancel,
            ]
        self._told[line] = []
        self._due.add(line)
        self._woken.set()

    def closed(self, line: ComputerLine) -> None:
        """The computer is gone."""
        self._told.pop(line, None)
        self._due.discard(line)

    def close(self) -> None:
        """Tell nobody any more."""
        for end in self._ends:
            end()
        self._ends = []

    def _hear(self, payload: Mapping[str, Any]) -> None:
        if self._told:
            self._changed.add(TaskId(payload["task_id"]))
            self._woken.set()

    async def _work(self) -> None:
        while True:
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_S):
                        await self._woken.wait()
                await self._look(again=not self._woken.is_set())
            except Exception:
                logger.exception("the in-game commands cannot tell what is new")
            await asyncio.sleep(EVERY_S)

    async def _look(self, *, again: bool) -> None:
        self._woken.clear()
        changed, self._changed = self._changed, set()
        due, self._due = self._due, set()
        if again:
            due |= {line for line, told in self._told.items() if told}
        for task_id in changed:
            task = await patiently(partial(self._service.if_known, task_id), for_s=math.inf)
            due |= {line for line, told in self._told.items() if task is not None and self._concerns(task, line, told)}
        for line in due:
            await self._news(line)

    def _concerns(self, task: AgentTask, line: ComputerLine, told: Rows) -> bool:
        known = any(row["task"] == task.task_id for row in told)
        return line.computer in task.computers and (known or self._asks(task))

    async def _news(self, line: ComputerLine) -> None:
        try:
            rows = await self._rows(line)
        except OrchestratorError as error:
            if self._told.get(line):
                self._told[line] = []
                self._tell_wrong(line, error)
            return
        if line in self._told and rows != self._told[line]:
            self._told[line] = rows
            self._tell(line, rows)
