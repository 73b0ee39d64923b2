"""A finished call as one line, and the list of changes and runs: the rest of a folded step.

Theory. A model that no longer sees a step still has to know what it asked for and what came of it, or it asks again.
So the line keeps the tool and its arguments, and of the result what its kind needs: how many lines were read, how many
were added, how a program ended. All of it is made from the journal alone, so that every node tells the same.
"""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, Final

from orchestrator.core.model_view.cuts import Rest, lines_in
from orchestrator.core.policy import BUILT_IN_CATALOG, RUNNERS
from orchestrator.core.task.facts import Ran
from orchestrator.core.task.states import CallState
from orchestrator.core.task.task import CallRecord, StepCall, Turn

_ASKED_CHARS: Final = 100
_CAME_CHARS: Final = 120
_WORD_CHARS: Final = 60
_MOST_CHANGED: Final = 20
_MOST_RUNS: Final = 5
_COMPARED_LINES: Final = 200
"""More lines of an edit are not compared one by one: it would take too long."""
_ABSENT: Final = "absent"
_PLAIN: Final = re.compile(r"[\w./+-]+")
_FAILED: Final = re.compile(r"^(?:Program|Command) .*? failed \(\w+\): (.*)", re.MULTILINE)


def rest_of(tool: str) -> Rest:
    """How to ask for what a cut leaves out of a result of this tool; ``cc_read`` has :func:`rest_of_file`."""
    spec = BUILT_IN_CATALOG.get(tool)
    return Rest(spec.rest if spec is not None else "")


def rest_of_file(path: str, *, paged: bool) -> Rest:
    """The same of a file that is read; ``paged``: from a line on that was asked for."""
    return Rest(f"cc_read path={_word(path)}", numbered=True, paged=paged)


def step_call(record: CallRecord, *, several: bool = False) -> StepCall:
    """A call that is over as the model is told of it; ``several``: the task has more than one computer."""
    tool, args, text = record.call.tool, record.call.args, record.result or ""
    on = f" on {record.call.computer}" if several and record.call.computer is not None else ""
    is_read = tool == "cc_read" and isinstance(args.get("path"), str)
    return StepCall(
        tool=tool,
        text=text,
        asked=f"{_clipped(_asked(tool, args), _ASKED_CHARS)}{on}",
        came=_clipped(_came(record, text), _CAME_CHARS),
        rest=rest_of_file(args["path"], paged=args.get("start_line") is not None) if is_read else rest_of(tool),
        changed=tuple((f"{path}{on}", deed) for path, deed in _changed(record)),
        runs=tool in RUNNERS and _ran(record),
    )


def row(call: StepCall) -> str:
    """A finished call in one line."""
    return f"{call.asked} → {call.came}" if call.came else call.asked


class Pins:
    """The paths that steps changed, each with the last change, and the programs that ran since the last one."""

    def __init__(self) -> None:
        self.steps = 0
        """How many were added."""
        self._changed: dict[str, str] = {}
        self._runs: deque[str] = deque(maxlen=_MOST_RUNS)
        self._last = 0
        """The number of the last step that changed something; 0: none has."""

    def add(self, turn: Turn) -> None:
        """Add the next step."""
        self.steps += 1
        for call in turn.calls:
            for path, deed in call.changed:
                self._changed.pop(path, None)
                self._changed[path] = f"{deed} in step {self.steps}"
            if call.runs:
                self._runs.append(f"- step {self.steps}: {row(call)}")
            elif call.changed:
                self._runs.clear()
                self._last = self.steps

    def lines(self) -> list[str]:
        """The last changes and runs, with their titles; empty: there were none."""
        lines = list[str]()
        if self._changed:
            more = max(0, len(self._changed) - _MOST_CHANGED)
            last = [*islice(reversed(self._changed.items()), _MOST_CHANGED)]
            lines.append(f"Changed in steps 1 to {self.steps}:")
            lines += [f"- {more} more paths, earlier"] if more else []
            lines += [f"- {_clipped(path, _WORD_CHARS)}: {deed}" for path, deed in reversed(last)]
        if self._runs:
            lines += [f"Run since the change in step {self._last}:" if self._last else "Run:", *self._runs]
        elif self._last:
            lines.append(f"Nothing was run since the change in step {self._last}.")
        return lines


# -- inside ------------------------------------------------------------------------------


def _asked(tool: str, args: Mapping[str, Any]) -> str:
    """The tool with its arguments as a person would say them; long ones shortened, contents left out."""
    if tool == "cc_read":
        return " ".join(filter(None, (tool, _word(args.get("path")), _lines(args))))
    if tool == "cc_move":
        return f"{tool} {_word(args.get('path'))} to {_word(args.get('to'))}"
    if tool in RUNNERS:
        words = [args.get("command")] if tool == "cc_shell" else [args.get("path"), *(args.get("args") or ())]
        typed = [f"input={_word(args['input'])}"] if args.get("input") else []
        return " ".join([tool, *(_clipped(str(word), _WORD_CHARS) for word in words), *typed])
    if tool in BUILT_IN_CATALOG and BUILT_IN_CATALOG[tool].text_args:
        return f"{tool} {_word(args.get('path'))}"
    named = [_word(value) if name == "path" else f"{name}={_word(value)}" for name, value in args.items()]
    return " ".join([tool, *named])


def _lines(args: Mapping[str, Any]) -> str:
    """Which lines of a file were asked for; empty: all."""
    start, most = args.get("start_line"), args.get("max_lines")
    if most is not None:
        return f"lines {start or 1}-{(start or 1) + most - 1}"
    return f"from line {start}" if start is not None else ""


def _came(record: CallRecord, text: str) -> str:
    """The result of a call."""
    tool, args = record.call.tool, record.call.args
    if tool in RUNNERS and _ran(record):
        return _ended(record.ran, text, ok=bool(record.ok))
    if record.state is not CallState.EXECUTED:
        return f"failed: {_first_line(text)}" if record.state is CallState.FAILED else _first_line(text)
    match tool:
        case "cc_read":
            read = lines_in(text)
            came = _first_line(text) if read is None else _counted(read[0], "line")
            if read is not None and read[1] < read[0]:
                came += f", {read[1]} of them shown"
        case "cc_list":
            came = _counted(len(text.split("\n")), "entry", "entries")
        case "cc_write" | "local_write":
            lines = _counted(_line_count(str(args.get("content", ""))), "line")
            came = f"new, {lines}" if _is_new(record) else lines
        case "cc_edit":
            came = _edited(str(args.get("old", "")), str(args.get("new", "")))
        case "local_patch":
            came = _patched(str(args.get("patch", "")))
        case _:
            came = (BUILT_IN_CATALOG[tool].done if tool in BUILT_IN_CATALOG else "") or _first_line(text)
    return came


def _ended(ran: Ran | None, text: str, *, ok: bool) -> str:
    """How a program ended, and the first line of what it wrote."""
    failed = _FAILED.search(text)
    why = f": {failed[1]}" if failed is not None else ""
    end = ran.ended if ran is not None else "finished" if ok else "error"
    if end == "error":
        return f"ended with an error{why or f': {_first_line(text)}'}"
    told = f"{ran.seconds:g} s" if ran is not None and ran.seconds else "a while"
    said = {
        "finished": "ended" if ok else f"failed{why}",
        "observed": f"ran {told} without an error, then stopped",
        "timed_out": f"ran to its limit of {told} without an error, then stopped",
        "stopped": "was stopped",
        "abandoned": "did not stop when it was told to",
    }[end]
    output = text.partition("\nOutput:\n")[2].strip().split("\n")
    if not output[0]:
        return said
    more = f" and {len(output) - 1} more lines" if len(output) > 1 else ""
    return f"{said}, output: {_clipped(output[0], _WORD_CHARS)}{more}"


def _ran(record: CallRecord) -> bool:
    """Whether the program of a call did run, as far as its computer told it."""
    return (
        record.ran is not None
        or record.state is CallState.EXECUTED
        or (record.state is CallState.FAILED and _FAILED.search(record.result or "") is not None)
    )


def _changed(record: CallRecord) -> Iterator[tuple[str, str]]:
    """The paths that a call changed, each with what was done to it."""
    tool, spec = record.call.tool, BUILT_IN_CATALOG.get(record.call.tool)
    if tool in RUNNERS:
        yield from ((path, "changed by a program") for path in record.changed)
    elif record.state is CallState.EXECUTED and spec is not None and spec.changes_files:
        deed = "made" if _is_new(record) and tool in ("cc_write", "local_write") else spec.deed
        yield from ((path, deed) for path in record.before or ())


def _is_new(record: CallRecord) -> bool:
    return _ABSENT in (record.before or {}).values()


def _edited(old: str, new: str) -> str:
    """How many lines an edit adds and takes."""
    before, after = old.split("\n"), new.split("\n")
    if len(before) + len(after) > _COMPARED_LINES:
        return f"+{len(after)} -{len(before)}"
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    same = sum(block.size for block in blocks)
    return f"+{len(after) - same} -{len(before) - same}"


def _patched(patch: str) -> str:
    lines = patch.split("\n")
    added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
    taken = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
    return f"+{added} -{taken}"


def _line_count(content: str) -> int:
    return content.count("\n") + (content != "" and not content.endswith("\n"))


def _counted(number: int, one: str, many: str = "") -> str:
    return f"1 {one}" if number == 1 else f"{number} {many or f'{one}s'}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _word(value: object) -> str:
    """A value on one line, in quotes where it is more than a word."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    clipped = _clipped(text, _WORD_CHARS)
    return clipped if not isinstance(value, str) or _PLAIN.fullmatch(clipped) else json.dumps(clipped)


def _clipped(text: str, most: int) -> str:
    """Text on one line, with its head where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
