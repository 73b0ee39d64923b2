"""The pages say what the code does: every message, method, code and endpoint of docs/protocol.md, and no other."""

import re
import runpy
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from orchestrator.client import HINTS
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.task.facts import TaskFact
from orchestrator.core.wire import review, wire
from orchestrator.core.wire.link import MAX_COMPLAINTS
from orchestrator.terminal.cli.commands import COMMANDS
from orchestrator.web.app import Endpoints
from orchestrator.web.events import HINTS as TOLD_HINTS

ROOT = Path(__file__).resolve().parent.parent
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text("utf-8")
SECURITY = (ROOT / "SECURITY.md").read_text("utf-8")
WATCHING = (ROOT / "docs" / "watching.md").read_text("utf-8")
PROMISED = (ROOT / "docs" / "promises.md").read_text("utf-8")
UNKNOWN = "X9"
"""The code of no promise; apart, so that this file does not cite it."""
PROMISES = runpy.run_path(str(ROOT / "scripts" / "promises.py"))
SITE = runpy.run_path(str(ROOT / "scripts" / "docs_site.py"))


def section(title: str) -> str:
    """The text of docs/protocol.md under a heading."""
    return under(title, PROTOCOL)


def under(title: str, page: str) -> str:
    """The text of a page under a heading, up to the next heading."""
    _, found, rest = page.partition(f"{title}\n")
    assert found, f"there is no {title!r}"
    return re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> dict[str, str]:
    """Each name of the first cell (in backticks) to the second cell, for every table row."""
    found = re.findall(r"^\| (`[a-z_`, ]+`) \| ([^|]*)\|", text, flags=re.MULTILINE)
    return {name: second for first, second in found for name in re.findall(r"[a-z_]+", first)}


def names(cell: str) -> set[str]:
    """The field names in a cell: each first word in backticks, and the further ones beside it."""
    ticked = re.sub(r"\([^)]*\)", "", cell)
    spans = re.findall(r"`([^`]*)`", ticked)
    return {word for span in spans for word in re.findall(r"[a-z_]+\b", span)}


def models(union: Any) -> dict[str, type[BaseModel]]:
    """The models of a message union by their type."""
    members = get_args(get_args(union)[0])
    return {one.model_fields["type"].default: one for one in members}


@pytest.mark.parametrize(
    ("title", "union"),
    [("### 1.3 Messages of the computer", wire.FromComputer), ("### 1.4 Messages of the server", wire.ToComputer)],
)
def test_every_message_of_the_computer_channel_is_told_with_its_fields(title: str, union: Any) -> None:
    """The two tables have exactly the messages of `wire`, and name every field of each."""
    told, known = rows(section(title)), models(union)
    assert set(told) == set(known)
    for kind, model in known.items():
        owed = set(model.model_fields) - {"type", "journal_seq"}
        assert owed <= names(told[kind]), f"{kind}: {owed - names(told[kind])}"


def test_every_method_is_told() -> None:
    """The table of methods has exactly the first ones, and those that the records of tools name."""
    later = {method for spec in BUILT_IN_CATALOG.values() for method in spec.methods}
    assert set(rows(section("### 1.6 Methods"))) == wire.FIRST_METHODS | later


def test_every_message_of_the_reviewer_channel_is_told() -> None:
    """Section 2 has exactly the messages of `review`, both ways."""
    told = section("## 2. The reviewer channel: `/reviewer`")
    known = {**models(review.ToReviewer), **models(review.FromReviewer)}
    assert set(rows(told)) == set(known)


def test_the_limits_are_the_ones_of_the_code() -> None:
    """Version, subprotocols and limits stand in the page as they are in the code."""
    for wanted in (
        f"Protocol version **{wire.PROTOCOL_VERSION}**",
        wire.COMPUTER_SUBPROTOCOL,
        review.REVIEWER_SUBPROTOCOL,
        f"`{review.REVIEWER_SUBPROTOCOL_1_1}`",
        f"header line of at most {wire.MAX_HEADER_BYTES} bytes",
        f"a body of at most {wire.MAX_BODY_BYTES} bytes",
        f"over {wire.MAX_FRAME_BYTES} bytes, or more than {MAX_COMPLAINTS} broken frames",
        f"every {wire.PING_EVERY_S:.0f} s",
        f"for {wire.SILENCE_S:.0f} s",
        f"With {wire.MAX_OPEN_CALLS} open calls or {wire.MAX_UNACKNOWLEDGED} outcomes",
    ):
        assert wanted in " ".join(PROTOCOL.split()), wanted


def test_every_line_for_scripts_is_told() -> None:
    """The page has exactly the kinds of items, each with all its fields, and the kinds of hints that are passed on."""
    told = {name: set(re.findall("`([a-z_]+)`", cell)) for name, cell in rows(under("### Items", WATCHING)).items()}
    known = {one.model_fields["kind"].default: set(one.model_fields) - {"kind"} for one in get_args(TaskFact)}
    assert told == known
    hints = rows(under("### Notifications", WATCHING))
    assert set(hints) == HINTS == TOLD_HINTS


def test_every_endpoint_is_told_and_every_told_endpoint_is_there() -> None:
    """Section 3 names each REST endpoint with its method, and no endpoint that is not there."""
    told = {
        (method, re.sub(r"\{[a-z_]+\}", "{}", path.split("?")[0]))
        for method, path in re.findall(r"`(GET|POST|DELETE) (/[^ `]*)", section("## 3. REST"))
    }
    endpoints: Any = Endpoints.__new__(Endpoints)
    there = {
        (method, re.sub(r"\{[a-z_:]+\}", "{}", route.path))
        for route in endpoints._routes()
        for method in getattr(route, "methods", None) or ()
        if method != "HEAD" and route.path != "/computer"
    }
    assert told == there


def test_each_threat_has_a_guard_and_a_test_that_is_there() -> None:
    """Every row of the table in SECURITY.md, and each test by the name of its function."""
    rows = re.findall(r"^\| (.+) \| (.+) \| (.+) \|$", under("## The threats", SECURITY), flags=re.MULTILINE)[2:]
    assert len(rows) > 30
    for threat, guard, tests in rows:
        named = re.findall(r"`(tests/[a-z0-9_/]+\.py)::(test_\w+)`", tests)
        assert guard.strip(), threat
        assert named, threat
        assert ", ".join(f"`{file}::{test}`" for file, test in named) == tests, threat
        for file, test in named:
            assert (ROOT / file).is_file(), f"{threat} {file}"
            text = (ROOT / file).read_text("utf-8")
            assert re.search(rf"^(?:async )?def {test}\(", text, re.MULTILINE), f"{threat} {file}::{test}"


def test_links_between_the_pages_lead_somewhere() -> None:
    """Every relative link of README and docs names a file that is there."""
    dead = [
        f"{page.name}: {target}"
        for page in [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
        for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", page.read_text("utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not dead


def test_the_readme_is_short_and_its_pictures_are_small() -> None:
    """What a person reads first, and loads over a slow line."""
    lines = (ROOT / "README.md").read_text("utf-8").split("\n")
    assert len(lines) <= 121
    assert max(map(len, lines)) <= 145
    sizes = {one.name: one.stat().st_size for one in (ROOT / "docs" / "img").iterdir()}
    assert {name for name, size in sizes.items() if size > (1_000_000 if name.endswith(".svg") else 300_000)} == set()


def test_each_command_is_in_the_page_of_commands() -> None:
    """By its name at the beginning of a cell; the README names no command that is not there."""
    page = (ROOT / "docs" / "commands.md").read_text("utf-8")
    told = {
        name for cell in re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE) for name in re.findall(r"`([a-z]+)", cell)
    }
    assert told == set(COMMANDS)
    first = re.findall(r"\bcc-orchestrator ([a-z]+)", (ROOT / "README.md").read_text("utf-8"))
    assert set(first) <= told


def test_the_site_has_every_page_and_its_links_are_set_for_it() -> None:
    """Pages of the top directory do not meet those of docs/, and code stays as it is."""
    assert sorted(SITE["_listed"]()) == sorted(SITE["sources"]())
    files: set[str] = set()
    text = (
        "[a](../SECURITY.md#b) `[c](../SECURITY.md)` [d](openapi.json) [e](https://f/g.md)\n```\n[h](../README.md)\n```"
    )
    assert SITE["rewritten"]("docs/x.md", text, files) == (
        "[a](project/security.md#b) `[c](../SECURITY.md)` [d](openapi.json) [e](https://f/g.md)\n```\n[h](../README.md)\n```"
    )
    assert files == {"docs/openapi.json"}


def test_a_link_of_the_site_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    """To a page, to a heading, to a picture, and what another host would serve."""
    (tmp_path / "b.html").write_text('<h2 id="there">T</h2>')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">1</a><a href="https://elsewhere/">2</a><a href="c.html">3</a>'
        '<a href="b.html#gone">4</a>'
        '<img src="d.png"><script src="https://elsewhere/e.js"></script>'
    )
    assert list(SITE["broken"](tmp_path)) == [
        "a.html loads https://elsewhere/e.js from another host",
        "a.html: c.html leads to no file",
        "a.html: b.html#gone leads to no heading",
        "a.html: d.png leads to no file",
    ]


def test_each_file_and_function_that_the_tour_names_is_there() -> None:
    """The stops of docs/tour.md, and every path in it and in CONTRIBUTING.md."""
    pages = [(ROOT / name).read_text("utf-8") for name in ("docs/tour.md", "CONTRIBUTING.md")]
    found = re.compile(r"`((?:orchestrator|cc_client|tests|scripts)/[\w./]+)`")
    named = {path for page in pages for path in found.findall(page)}
    assert sorted(path for path in named if not (ROOT / path).exists()) == []
    stops = re.findall(r"^\| \d+ \| `([\w./]+)`, `([\w.]+)`", pages[0], flags=re.MULTILINE)
    texts = [(path, name, (ROOT / path).read_text("utf-8")) for path, name in stops]
    assert len(stops) >= 11
    assert [
        (path, name)
        for path, name, text in texts
        if not all(re.search(rf"\b(?:class|def) {part}\b", text) for part in name.split("."))
    ] == []


def test_each_module_that_a_docstring_names_is_there() -> None:
    """References of the form ``:mod:`` by the whole name, and the lists of modules in the docstrings of packages."""
    missing: list[str] = []
    for path in sorted((ROOT / "orchestrator").rglob("*.py")):
        text = path.read_text("utf-8")
        for name in re.findall(r":mod:`~?([\w.]+)`", text):
            place = ROOT / name.replace(".", "/")
            if not (name.startswith("orchestrator.") and (place.is_dir() or place.with_suffix(".py").is_file())):
                missing.append(f"{path.relative_to(ROOT)}: {name}")
        listed = (
            re.findall(r"^    (\w+) {2,}\w", text.split('"""')[1], re.MULTILINE) if path.name == "__init__.py" else []
        )
        missing += [
            f"{path.relative_to(ROOT)}: {name}" for name in listed if not path.with_name(f"{name}.py").is_file()
        ]
    assert missing == []


def test_each_promise_has_its_tests_and_each_cited_code_is_a_promise() -> None:
    """docs/promises.md as `scripts/docs.py` writes it."""
    every = PROMISES["citations"]()
    assert PROMISES["faults"](PROMISED, every) == []
    assert PROMISES["drawn"](PROMISED, every) == PROMISED


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("tests/test_a.py", "def test_d3_it(): ...", None),
        ("tests/test_a.py", "async def test_D3_b1_it(): ...", "tests/test_a.py cites B1"),
        ("tests/test_a.py", 'def test_it():\n    "D3: it."', None),
        ("tests/test_a.py", 'def test_d3_it():\n    "It (X9)."', "tests/test_a.py cites X9"),
        ("tests/test_a.py", "# -- X9 ---\ndef test_d3_it(): ...", "tests/test_a.py cites X9"),
        ("tests/test_a.py", 'def helper():\n    "It (D3)."', "no test proves promise D3"),
        ("tests/helper.py", "def test_d3_it(): ...", "no test proves promise D3"),
        ("orchestrator/a.py", "# promise D3", "no test proves promise D3"),
        ("orchestrator/a.py", f"# promises D3, {UNKNOWN}", f"orchestrator/a.py cites {UNKNOWN}"),
    ],
)
def test_a_promise_without_a_test_and_an_unknown_code_are_found(file: str, text: str, fault: str | None) -> None:
    """Of a page with the promise D3 alone; what only mentions a promise proves nothing."""
    faults = PROMISES["faults"]("- **D3** It holds.\n", list(PROMISES["cited"](file, text)))
    assert any(fault in one for one in faults) if fault else not faults
