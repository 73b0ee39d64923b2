"""Draws docs/openapi.json, the tables of the pages in docs/ and the page's list of tools from the code.

``--check`` fails when they differ.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import lock
import promises
import tools
import vendor
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from orchestrator.adapters.store.column_rules import DECIDES, GONE, ROW
from orchestrator.computers.hub import CannotType, TooManyWatch
from orchestrator.core import errors
from orchestrator.core.approval.approval import CALL_TABLE
from orchestrator.core.connection_problems import TROUBLES
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.task.facts import TaskFact
from orchestrator.core.task.states import PHASE_TABLE
from orchestrator.core.wire.link import LINK_TABLE
from orchestrator.history.audit import AuditBroken
from orchestrator.history.rehearsal import CannotRehearse
from orchestrator.runtime.metrics import FIGURES, PREFIX
from orchestrator.runtime.program import ENV_PREFIX
from orchestrator.runtime.settings import Settings
from orchestrator.web.computers import NotASocket, TooManyKeys, WrongSubprotocol
from orchestrator.web.endpoint_table import ENDPOINTS, Answer, Endpoint
from orchestrator.web.oidc import ProviderAway, SignInRefused
from orchestrator.web.openapi import document, refusals_of
from orchestrator.web.peers import TooManyTries
from orchestrator.web.people import CodeExpired, CodeUnknown, CodeUsed
from orchestrator.web.sockets import TooManyStreams

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = ROOT / "docs"


def machine(states: Mapping[Any, Mapping[Any, Any]]) -> str:
    """A machine as a table: a row for each state, what may happen in it, and where that leads."""
    lines = ["| state | what may happen, and the state after it |", "| --- | --- |"]
    for state, events in states.items():
        targets = dict.fromkeys(events.values())
        moves = "; ".join(f"{', '.join(one for one in events if events[one] == to)} → {to}" for to in targets)
        lines.append(f"| {state} | {moves or 'nothing: it is final'} |")
    return "\n".join(lines)


def settings() -> str:
    """A row for each setting: how it is said in each place, its unit, its default and its meaning."""
    head = ("flag", "variable", "key in the file", "default", "unit", "meaning")
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for name, field in Settings.model_fields.items():
        flag, variable = f"`--{name.replace('_', '-')}`", ENV_PREFIX + name.upper()
        if field.annotation is SecretStr:
            flag = ""
        key = "" if name == "data_dir" else f"`{name}`"
        unit = field.json_schema_extra.get("unit", "") if isinstance(field.json_schema_extra, dict) else ""
        lines.append(f"| {flag} | `{variable}` | {key} | {default(name, field)} | {unit} | {field.description} |")
    return "\n".join(lines)


def default(name: str, field: FieldInfo) -> str:
    """A default as one would write it."""
    if name == "data_dir":
        return "`~/.local/share/cc-orchestrator`"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return f"`{field.default}`" if field.default not in (None, "", {}, SecretStr("")) else ""


def metrics() -> str:
    """A row for each figure of /metrics."""
    lines = ["| name | kind | labels | meaning |", "| --- | --- | --- | --- |"]
    for one in FIGURES:
        name = PREFIX + one.name + ("_total" if one.kind == "counter" else "")
        labels = ", ".join(f"`{label}`" for label in one.labels)
        lines.append(f"| `{name}` | {one.kind} | {labels} | {one.meaning} |")
    return "\n".join(lines)


def lines() -> str:
    """A row for each kind of item: its fields besides ``kind``, and what it says."""
    rows = ["| `fact.kind` | fields of `fact` | what happened |", "| --- | --- | --- |"]
    for one in get_args(TaskFact):
        fields = ", ".join(f"`{name}`" for name in one.model_fields if name != "kind")
        kind = one.model_fields["kind"].default
        rows.append(f"| `{kind}` | {fields} | {str(one.__doc__).splitlines()[0].replace('``', '`')} |")
    return "\n".join(rows)


# -- the endpoints -----------------------------------------------------------------------

EVERYWHERE: Final = frozenset({401, 405, 503})
"""The refusals that the text tells once for all endpoints."""
TOLD_FIELDS: Final = 8
"""An answer with more fields than this is named instead."""


def rest() -> str:
    """A row for each endpoint: what it is for and takes, whom it is open to, and what it answers."""
    lines = ["| call | what for | takes | who | answers |", "| --- | --- | --- | --- | --- |"]
    for one in ENDPOINTS:
        if one.tag != "sockets":
            cells = (f"`{one.method} {one.path}`", one.says, taken(one), one.who, answered(one))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def taken(endpoint: Endpoint) -> str:
    """The fields of the body and the parameters, those that may be left out with a question mark."""
    fields = endpoint.body.model_fields.items() if endpoint.body is not None else ()
    body = [f"`{name}`" if field.is_required() else f"`{name}`?" for name, field in fields]
    query = [f"`?{one.name}=`" for one in endpoint.takes if one.where == "query"]
    headers = [f"header `{one.name}`" for one in endpoint.takes if one.where == "header"]
    return ", ".join((*body, *query, *headers))


def answered(endpoint: Endpoint) -> str:
    """Each status and what comes with it, then the refusals."""
    good = [f"{status} {content(one)}".rstrip() for status, one in endpoint.answers.items()]
    bad = [str(status) for status in refusals_of(endpoint) if status not in EVERYWHERE]
    return "; ".join((*good, *((" ".join(bad),) if bad else ())))


def content(answer: Answer) -> str:
    """The fields of what is answered, or its name where they are many."""
    if not answer.models or answer.media == "text/event-stream":
        return f"`{answer.media}`" if answer.media else ""
    return " or ".join(fields_of(model) for model in answer.models)


def fields_of(model: type[BaseModel]) -> str:
    """The fields of a model, or its name among the schemas of the document."""
    names = list(model.model_fields)
    return f"`{{{', '.join(names)}}}`" if len(names) <= TOLD_FIELDS else f"`{model.__name__}`"


ANSWERED: Final = (
    errors.Unauthenticated, errors.Forbidden, errors.NotFound, errors.Unreadable, errors.InvalidRequest,
    errors.PolicyInvalid, errors.UnsafePath, errors.FrameRefused, errors.NotPending, errors.RequestExpired,
    errors.InvalidDecision, errors.TaskEnded, errors.BeingUndone, errors.Conflict,
    CodeUnknown, CodeUsed, CodeExpired, SignInRefused, TooManyTries, errors.JournalBroken, AuditBroken,
    errors.StoreDamaged, ProviderAway,
    errors.StoreBusy, errors.StoreAway, errors.NewerSchema, NotASocket, WrongSubprotocol, CannotRehearse,
    errors.ComputerAway, CannotType, TooManyKeys, TooManyWatch, TooManyStreams,
)  # fmt: skip
"""The errors that people are answered with; the others of the tree stay inside the server."""


def refusals() -> str:
    """A row for each code that an endpoint or the reviewers' socket answers with."""
    rows = [(one.code, one.http_status, str(one.__doc__).splitlines()[0]) for one in ANSWERED]
    rows += [
        ("method_not_allowed", 405, "The path is right, the method is not; `Allow` lists those that are."),
        ("internal", 500, "The orchestrator met a defect, or its disk did; the log says which."),
    ]
    lines = ["| code | status | what it means |", "| --- | --- | --- |"]
    return "\n".join(
        [*lines, *(f"| `{code}` | {status} | {means} |" for code, status, means in sorted(rows, key=by_status))]
    )


def by_status(row: tuple[str, int, str]) -> int:
    """What the codes are sorted by."""
    return row[1]


def troubles() -> str:
    """A section for each reason why a computer cannot connect: what it says, how it shows, and what mends it."""
    names = {"{host}": "HOST", "{port}": "PORT", "{server}": "SERVER", "{said}": "…"}
    parts = []
    for code, one in TROUBLES.items():
        lines = ["…, as the orchestrator says"] if one.after else []
        text = "\n".join((one.sentence, *lines, *one.remedy))
        for place, name in names.items():
            text = text.replace(place, name)
        parts.append("\n\n".join(part for part in (f"### `{code}`", one.seen, f"```text\n{text}\n```") if part))
    return "\n" + "\n\n".join(parts) + "\n"


def store() -> str:
    """A row for each column of the store: what it decides, what covers it, and what becomes of an edit."""
    lines = ["| table | column | what it decides | what covers it | a change is |", "| --- | --- | --- | --- | --- |"]
    for table, columns in DECIDES.items():
        for column, one in columns.items():
            name = column if column in (ROW, GONE) else f"`{column}`"
            fate = "worth nothing" if one.fate == "nothing" else one.fate
            lines.append(f"| `{table}` | {name} | {one.decides} | {one.by} | {fate} |")
    return "\n".join(lines)


# -- what others made ---------------------------------------------------------------------


def packages() -> str:
    """A row for each locked package; those that only make and test the program come last."""
    every = sorted(lock.pins(), key=lambda one: (not one.is_run, one.name))
    lines = ["| package | version | licence | for |", "| --- | --- | --- | --- |"]
    for one in every:
        only = f" ({one.marker})" if one.marker else ""
        lines.append(f"| {one.name} | {one.version}{only} | {one.license} | {', '.join(one.parts)} |")
    return "\n".join(lines)


def page_libraries() -> str:
    """A row for each library of the page."""
    lines = ["| library | version | licence | what it does here |", "| --- | --- | --- | --- |"]
    for one in json.loads(vendor.PINS.read_text("utf-8"))["libraries"]:
        lines.append(f"| {one['name']} | {one['version']} | {one['license']} | {one['why']} |")
    return "\n".join(lines)


def fetched() -> str:
    """A row for each tool that is not Python's."""
    lines = ["| tool | version | licence | from | what for |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {' | '.join(one)} |" for one in tools.FETCHED)])


def openapi() -> str:
    """The OpenAPI document, as it is kept beside the pages."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def page_tools() -> str:
    """What the page knows of each tool that a model calls, as its module."""
    lines = [
        "// What the page knows of each tool, drawn from the records by scripts/docs.py.",
        "export const TOOLS = {",
    ]
    for spec in BUILT_IN_CATALOG.values():
        if not spec.planned:
            known = {"example": dict(spec.example), "texts": spec.text_args, "edits": spec.edits, "runs": spec.runs}
            rows = [f"    {key}: {json.dumps(value)}," for key, value in known.items() if value or key == "example"]
            lines += [f"  {spec.name}: {{", *rows, "  },"]
    return "\n".join([*lines, "};"]) + "\n"


PAGES: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "audit.md": {"store": store},
    "design.md": {
        "phases": lambda: machine(PHASE_TABLE),
        "calls": lambda: machine(CALL_TABLE),
        "link": lambda: machine(LINK_TABLE),
    },
    "licences.md": {"packages": packages, "page": page_libraries, "tools": fetched},
    "protocol.md": {"rest": rest, "errors": refusals},
    "settings.md": {"settings": settings},
    "troubleshooting.md": {"troubles": troubles},
    "watching.md": {"lines": lines, "metrics": metrics},
}
"""Each page and the tables in it."""


def drawn(page: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """The page with every table drawn anew."""
    for name, table in tables.items():
        pattern = re.compile(rf"(<!-- table:{name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = table()
        page = pattern.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)  # type: ignore[misc]
    return page


def main() -> int:
    """Write the pages, or with ``--check`` say whether they are as they would be written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when a page is out of date")
    arguments = parser.parse_args()
    stale = 0
    for fault in promises.faults((DOCS / "promises.md").read_text("utf-8"), promises.citations()):
        stale += 1
        sys.stderr.write(f"{fault}\n")
    for name, new in written().items():
        path = ROOT / name
        if not arguments.check:
            path.write_text(new, "utf-8")
        elif not path.exists() or path.read_text("utf-8") != new:
            stale += 1
            sys.stderr.write(f"{name} is out of date: run python scripts/docs.py\n")
    return 1 if stale else 0


def written() -> dict[str, str]:
    """Each file as it would be written, by its path."""
    pages = {f"docs/{name}": drawn((DOCS / name).read_text("utf-8"), tables) for name, tables in PAGES.items()}
    cited = promises.drawn((DOCS / "promises.md").read_text("utf-8"), promises.citations())
    made = {"docs/promises.md": cited, "docs/openapi.json": openapi()}
    return {**pages, **made, "orchestrator/web/console/lib/tools.js": page_tools()}


if __name__ == "__main__":
    sys.exit(main())
