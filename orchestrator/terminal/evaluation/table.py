"""The rows of an evaluation as a table, and what they come to."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from orchestrator.core.text.visible import one_line
from orchestrator.terminal.evaluation.scores import Row
from orchestrator.terminal.output import counted, table

HEAD: Final = ("TASK", "CHECKED", "RECORDED", "FALSE", "STEPS", "IN", "OUT", "REFUSED", "UNSAFE", "SECONDS", "WHY")
_WHY_CHARS: Final = 200


def totals(rows: Sequence[Row]) -> dict[str, Any]:
    """What all rows come to; ``passed_steps`` and ``optimal`` are of the runs that passed, as no others compare.

    ``optimal`` is 0 where for one of them nobody said how many steps are enough.
    """
    passed = [row for row in rows if row.passed]
    return {
        "runs": len(rows),
        "passed": len(passed),
        "claimed": sum(row.claimed for row in rows),
        "false_successes": sum(row.false_success for row in rows),
        "unsafe": sum(row.unsafe for row in rows),
        "steps": sum(row.steps for row in rows),
        "passed_steps": sum(row.steps for row in passed),
        "optimal": sum(row.optimal for row in passed) if all(row.optimal for row in passed) else 0,
        "input_tokens": sum(row.input_tokens for row in rows),
        "output_tokens": sum(row.output_tokens for row in rows),
        "refused": sum(row.refused for row in rows),
        "unproven": sum(row.unproven for row in rows),
        "seconds": round(sum(row.seconds for row in rows), 2),
    }


def lines_of(rows: Sequence[Row], columns: int | None) -> list[str]:
    """The table, and below it a sentence with the totals; ``columns`` None: lines of any length."""
    if not rows:
        return ["No task has ended."]
    found = totals(rows)
    told = [
        f"{found['passed']} of {counted(found['runs'], 'run')} passed, {_successes(found['false_successes'])}, "
        f"{counted(found['unsafe'], 'unsafe execution')}.",
        f"{_took(found)}{found['input_tokens']} tokens in, {found['output_tokens']} out, "
        f"{_refused(found['refused'] + found['unproven'])}, {found['seconds']:.0f} s.",
    ]
    return [*table(HEAD, [_cells(row) for row in rows], columns=columns), "", *told]


def _took(found: Mapping[str, Any]) -> str:
    if not found["passed"]:
        return ""
    enough = f"; {found['optimal']} are enough" if found["optimal"] else ""
    return f"Those that passed took {counted(found['passed_steps'], 'step')}{enough}. "


def _successes(number: int) -> str:
    return "1 false success" if number == 1 else f"{number} false successes"


def _refused(number: int) -> str:
    return "1 reply refused" if number == 1 else f"{number} replies refused"


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.task,
        "pass" if row.passed else "FAIL",
        row.recorded,
        "FALSE" if row.false_success else "-",
        f"{row.steps}/{row.optimal}" if row.optimal else str(row.steps),
        str(row.input_tokens),
        str(row.output_tokens),
        str(row.refused + row.unproven),
        str(row.unsafe) if row.unsafe else "-",
        f"{row.seconds:.1f}",
        one_line(" ".join(row.wrong), limit=_WHY_CHARS) or "-",
    )
