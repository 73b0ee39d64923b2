"""A task's items as lines for a computer's screen: short, without secrets, in the game's own letters.

Theory. A computer's screen has 51 columns and 19 rows and shows latin-1. So a line says what happened in
a few words; the whole is in the journal, where the console and the command line show it. Each line
has a kind, by which the computer gives it a colour: ``say tool out wait ask note good bad``, and
``doing`` for the one below all others that is gone when the next comes.
"""

import asyncio
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.core.evidence.report import UNVERIFIED, report, says_the_model
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.transcript import Transcript, cannot_be_known
from orchestrator.core.text.redact import redact
from orchestrator.core.text.visible import one_line, visible
from orchestrator.core.undo.wanted import planned

_SALT: Final = secrets.token_hex(16)
"""Nobody can try guesses on a secret's mark, which is the same as long as this process lives."""
_AT_ONCE: Final = 20_000
"""Characters that are looked through for secrets on the event loop: a few milliseconds at the worst."""
_MAX_CHARS: Final = 300
"""Of one line: a third of the screen."""
_QUESTION_CHARS: Final = 1000
"""A question is read before it is answered; this much of it fills the screen."""
QUESTIONS_CHARS: Final = 7000
"""Of the questions of a list: at six bytes a character, the most in JSON, they and the rest fit one frame."""
_HEAD_ROWS, _TAIL_ROWS = 4, 2
_ARG_CHARS: Final = 48
"""Of one argument: longer ones are told by their length."""
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
        """As it travels."""
        return {"is": self.kind, "text": self.text}


@dataclass
class Narrator:
    """Tells the items of one task, from its first on."""

    waits_for: str
    """Who decides its requests, in words such as ``alice`` or ``somebody with the role reviewer``."""
    doing: str = ""
    """What goes on now; empty: nothing, or it waits for a person."""
    _log: Transcript = field(default_factory=Transcript)
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
        return [Line(kind, _shortened(kind, text)) for (kind, _), text in zip(told, texts, strict=True)]

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
                return [("ask", fact.question)]
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
            # What it says or asks has a line of its own.
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
        return f"{names} waits for approval by {self.waits_for} (risk: {fact.risk.value}), outside the game."

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


async def row(values: dict[str, str], *, question: str = "", question_chars: int) -> dict[str, str]:
    """One task of a list: its texts on one line each, without secrets; ``question`` empty: it asks nothing."""
    shown = await _without_secrets([*values.values(), question])
    form = {name: in_game(one_line(text, limit=120)) for name, text in zip(values, shown, strict=False)}
    return {**form, "question": in_game(_cut(_safe(shown[-1]), question_chars))} if question else form


async def note(text: str) -> Line:
    """A line that is no item's, without secrets."""
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
    """The texts without their secrets; what is long is looked through away from the event loop."""
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
