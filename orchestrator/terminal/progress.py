"""A task on the screen as it happens: its transcript, and before each line the notifications about it.

Nothing is shown twice. An explanation that grew on the screen is finished by its item, and the
output of a program that grew there is left out of the call's result, both only where the item says
the very same; where it does not (a notification was lost, or the model began again), the item's line is
shown whole. Where text cannot grow (a pipe), explanations come with their items, and output in
whole lines.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TextIO

from orchestrator.client import Hint
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.transcript import Transcript
from orchestrator.core.text.visible import block, one_line
from orchestrator.terminal.meter import bar
from orchestrator.terminal.output import Screen, counted, elapsed

_OUTPUT = "\nOutput:\n"
"""Between what became of a run and what it printed, in the text of its result."""
_OF_CALLS = ("[TOOL]", "[TOOL_RESULT]")
"""The lines with arguments, files and output: these stay as they are, and all others are prose."""
_SET_IN = 4
"""Columns before what goes on below its line, as ``block`` sets it in: so text of others forges no line of ours."""
_MANY = 5
"""Calls of one step that are counted on the status line: a model makes four at most."""
_TAIL = 60
"""Characters of a growing answer that the status shows."""


class View(Protocol):
    """Where a followed task is shown."""

    def item(self, item: AgentTaskItem) -> None:
        """Show what is certain."""

    def hint(self, hint: Hint) -> None:
        """Show what is seen of it before."""

    def note(self, text: str) -> None:
        """Say something of our own."""

    def tick(self) -> None:
        """Nothing came for a moment: keep the clock running."""


@dataclass(eq=False, repr=False)
class JsonLines:
    """Each item as one line of JSON, as the events' endpoint gives it, notifications as ``{"hint": …}``; notes beside.

    The lines are ASCII: nothing in them can move a cursor.
    """

    out: TextIO
    beside: Callable[[str], None]

    def item(self, item: AgentTaskItem) -> None:
        self._write(json.dumps(item.model_dump(mode="json", by_alias=True)))

    def hint(self, hint: Hint) -> None:
        self._write(json.dumps({"hint": hint.kind, **hint.data}))

    def note(self, text: str) -> None:
        self.beside(text)

    def tick(self) -> None:
        pass

    def _write(self, line: str) -> None:
        self.out.write(line + "\n")
        self.out.flush()


@dataclass(eq=False, repr=False)
class _Shown:
    """The output of one call as far as it was shown."""

    text: str = ""
    offset: int = -1
    """Where the last part begins."""
    next_offset: int = 0
    """Where the next part begins, when no part was missed and every byte was text."""
    whole: bool = True
    """No part of it was missed so far."""
    fresh: bool = True
    """Whether the next part begins a line."""
    unfinished: str = ""
    """The line that is not whole yet, where text cannot grow."""


@dataclass(eq=False, repr=False)
class Progress:
    """Shows one task on a screen."""

    screen: Screen
    now: Callable[[], datetime]
    """The time at the server: the time that a task takes is counted from its items' times, also of one that runs."""
    _transcript: Transcript = field(default_factory=Transcript)
    _step: int = 0
    """Replies so far."""
    _asked: int = 0
    """The step that is shown: the one whose reply was asked for last."""
    _max_steps: int = 0
    _restores: bool = False
    """Whether it puts something back: no model answers, so there are no steps to count."""
    _tokens: int = 0
    _calls: int = 0
    """Calls of the present step."""
    _done: int = 0
    """The requests that are through."""
    _doing: str = "waiting for its turn"
    _answer: str = ""
    """The end of the answer that is being written."""
    _began: datetime | None = None
    _latest: datetime | None = None
    """The time of the item that came last: a clock that is behind it makes a task no younger."""
    _announced: int = 0
    """The last step whose heading was shown before its item."""
    _explained: str = ""
    """The explanation of the present step, as far as it was shown."""
    _early: int = 0
    """A step whose first notifications came before the items of the step before, so that all are left out."""
    _outputs: dict[str, _Shown] = field(default_factory=dict)
    _printing: str | None = None
    """The call whose output stands last on the screen."""
    _tools: dict[str, str] = field(default_factory=dict)
    _ended: bool = False

    # -- items ---------------------------------------------------------------------------

    def item(self, item: AgentTaskItem) -> None:
        """Show the lines that an item adds, without what was shown of them."""
        lines = self._transcript.lines(item)
        self._note_state(item)
        match item.fact:
            case facts.ModelReplied() if self._announced == self._step:
                lines = []
            case facts.CallsProposed() | facts.TaskEnded() if item.fact.explanation:
                lines = self._finish_explanation(item.fact.explanation, lines)
            case facts.ToolFinished() | facts.ToolSettled():
                lines = [self._without_output(item.fact.call_id, item.fact.text, line) for line in lines]
            case facts.ModelAsked() if self._announced != self._step + 1 or item.fact.attempt > 1:
                # Else its first notifications came before it, and are on the screen.
                self._explained = ""
        for line in lines:
            if line.startswith(_OF_CALLS):
                self.screen.line(block(line))
            else:
                self.screen.say(block(line), _SET_IN)
            self._printing = None
        if isinstance(item.fact, facts.TaskEnded) and item.fact.verified is False and self.screen.grows:
            # The line before is for programs, too, and stays as it is.
            self.screen.say("Unverified: the journal does not support it. Look before you trust it.")
        self.tick()

    def _finish_explanation(self, explanation: str, lines: list[str]) -> list[str]:
        shown, self._explained = self._explained, ""
        if not shown:
            return lines
        if not explanation.startswith(shown):
            if explanation.strip() != shown.strip():
                self.screen.part(" …")
                return lines
            shown = explanation
        self.screen.part(block(explanation[len(shown) :]))
        self.screen.end_part()
        return lines[1:]

    def _without_output(self, call_id: str, text: str, line: str) -> str:
        shown = self._outputs.pop(call_id, None)
        if shown is None:
            return line
        said, marker, output = text.partition(_OUTPUT)
        rest = _missing(shown, output) if marker else None
        if rest:
            self._heading(call_id, shown)
            self._print(shown, rest)
        if shown.unfinished:
            self._print(shown, "\n")
        self.screen.end_part()
        return line if rest is None else line.replace(text, f"{said} Its output is above.")

    def _note_state(self, item: AgentTaskItem) -> None:
        self._latest = item.at
        match item.fact:
            case facts.TaskSubmitted():
                self._max_steps, self._restores = item.fact.max_steps, item.fact.restores is not None
                self._began = item.at
            case facts.ModelAsked() | facts.ModelAwaited() | facts.ModelReplied():
                self._note_model(item.fact)
            case facts.CallsProposed():
                self._tools.update((call.call_id, _named(call)) for call in item.fact.calls)
                self._calls, self._done = len(item.fact.calls), 0
                self._doing = "checking what it wants to do"
            case facts.ReviewRequested():
                unknown = item.fact.reason == "outcome_unknown"
                self._doing = "outcome unknown: a person has to look" if unknown else "waiting for approval"
            case facts.QuestionAsked():
                self._doing = "waiting for an answer"
            case facts.ToolStarted():
                self._doing = f"running {self._tools.get(item.fact.call_id, 'a call')}"
            case facts.ToolFinished() | facts.ToolSettled():
                self._doing = "going on"
                self._done += isinstance(item.fact, facts.ToolFinished) or item.fact.state == "finished"
            case facts.DecisionRecorded() | facts.QuestionAnswered():
                self._doing = "going on"
            case facts.CancelRequested() | facts.WorkFrozen():
                self._doing = "stopping" if item.fact.kind == "cancel_requested" else "frozen"
            case facts.WorkFailed():
                self._doing = f"trying again, {item.fact.count} of {item.fact.most}"
            case facts.TaskEnded():
                self._ended = True

    def _note_model(self, fact: facts.ModelAsked | facts.ModelAwaited | facts.ModelReplied) -> None:
        self._answer = ""
        match fact:
            case facts.ModelAsked():
                self._doing, self._asked = "the model thinks", self._step + 1
            case facts.ModelAwaited():
                self._doing = f"waiting for the model server at {one_line(fact.server)}"
            case facts.ModelReplied():
                self._step += 1
                self._tokens += fact.usage.input_tokens + fact.usage.output_tokens
                self._doing = "looking at its reply"

    # -- notifications ---------------------------------------------------------------------------

    def hint(self, hint: Hint) -> None:
        """Show what a notification adds, where a screen shows what is not certain yet."""
        text, step = str(hint.data.get("text", "")), hint.data.get("step")
        if isinstance(step, int) and step > self._step + 1:
            self._early = step
        present = step == self._step + 1 and step != self._early
        match hint.kind:
            case "explanation" if present and self.screen.grows:
                self._explain(text)
            case "message" if present:
                self._doing, self._answer = "answering", (self._answer + text)[-_TAIL:]
            case "model_text":
                self._doing = "the model writes"
            case "output":
                self._output(str(hint.data.get("call_id", "")), hint.data.get("offset"), hint.data.get("size"), text)
        self.tick()

    def _explain(self, text: str) -> None:
        step = self._step + 1
        if self._announced < step:
            self._announced, self._explained = step, ""
            self.screen.line(f"[STEP {step}]")
        if not self._explained:
            self.screen.end_part()
            self.screen.part("[EXPLANATION] ")
        self._explained += text
        self._doing = "the model explains"
        self.screen.part(block(text))

    def _output(self, call_id: str, offset: Any, size: Any, text: str) -> None:
        shown = self._outputs.setdefault(call_id, _Shown())
        if size == 0 and text:
            # Said of the program, not written by it.
            self._heading(call_id, shown)
            self._print(shown, text if shown.fresh else f"\n{text}")
            return
        if not isinstance(offset, int) or not text or offset <= shown.offset:
            return
        self._heading(call_id, shown)
        missed = offset - shown.next_offset
        shown.whole = shown.whole and missed == 0
        shown.text += text
        # The text has its secrets taken out; the amount of output that it stands for is said beside it.
        length = size if isinstance(size, int) else len(text.encode("utf-8", "surrogatepass"))
        shown.offset, shown.next_offset = offset, offset + length
        self._print(shown, f"[… {counted(missed, 'byte')} not shown …]\n{text}" if missed > 0 else text)

    def _heading(self, call_id: str, shown: _Shown) -> None:
        """Say whose output comes now, where something else stands last on the screen."""
        if self._printing != call_id:
            self.screen.line(f"[OUTPUT] {one_line(self._tools.get(call_id, call_id))}")
            self._printing, shown.fresh = call_id, True

    def _print(self, shown: _Shown, text: str) -> None:
        if self.screen.grows:
            indented = ("    " if shown.fresh else "") + block(text)
            shown.fresh = text.endswith("\n")
            self.screen.part(indented.removesuffix("    ") if shown.fresh else indented)
            return
        *whole, shown.unfinished = (shown.unfinished + text).split("\n")
        for line in whole:
            self.screen.line(f"    {block(line)}")

    # -- our own words -------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Say something that is not of the task's log."""
        self.screen.say(text)
        self._printing = None

    def tick(self) -> None:
        """Draw the status again."""
        self.screen.status("" if self._ended else self.status())

    def status(self) -> str:
        """Phase, step, tokens and time, and the end of what is being answered."""
        seconds = 0.0
        if self._began and self._latest:
            seconds = (max(self.now(), self._latest) - self._began).total_seconds()
        tokens = f", {counted(self._tokens, 'token')}" if self._tokens else ""
        step = f"step {self._asked} of {self._max_steps}" if self._asked else "not begun"
        counts = "" if self._restores else f"{step}{tokens}, "
        answer = f" …{one_line(self._answer)}" if self._answer else ""
        # A restoration has a call for each file: how many are through is what there is to wait for.
        many = f"  {bar(self._done / self._calls)} {self._done} of {self._calls}" if self._calls >= _MANY else ""
        return f"{self._doing} ({counts}{elapsed(seconds)}){many}{answer}"


def _missing(shown: _Shown, output: str) -> str | None:
    """The part of a result's output that was not shown yet; None: the text that was shown is not its beginning."""
    if not shown.whole or not shown.text.strip():
        return None
    if output.startswith(shown.text):
        return output[len(shown.text) :].rstrip("\n")
    return "" if output.rstrip() == shown.text.rstrip() else None


def _named(call: facts.ToolCall) -> str:
    where = f" on {one_line(call.computer)}" if call.computer else ""
    return f"{one_line(call.tool)}{where}"
