"""The console's own modules and styles read as the rest of the code: lines that fit, and what each is, first."""

import re
from pathlib import Path

import pytest

from orchestrator.web import install

CONSOLE = Path(install.__file__).parent / "console"
OWN = sorted(
    path for end in ("js", "css") for path in CONSOLE.rglob(f"*.{end}") if CONSOLE / "vendor" not in path.parents
)
LINE_CHARS = 120


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.relative_to(CONSOLE).as_posix())
def test_a_module_says_what_it_is_in_lines_that_fit(path: Path) -> None:
    """At most 120 characters, no tab, nothing behind a line, and a sentence first."""
    lines = path.read_text("utf-8").splitlines()
    assert lines[0].startswith(("// ", "/* "))
    wrong = [at for at, line in enumerate(lines, 1) if len(line) > LINE_CHARS or "\t" in line or line != line.rstrip()]
    assert wrong == []


_IMPORT = re.compile(r'^import \{([^}]*)\} from "(\.[^"]+)";', re.M)
_EXPORT = re.compile(r"^export (?:async )?(?:const|let|function\*?|class) (\w+)(?:[^=\n;]*?= \w+, (\w+) =)?", re.M)
_LISTED = re.compile(r"^export (?:\{([^}]*)\}|const \{([^}]*)\})", re.M)


def exported(text: str) -> set[str]:
    """The names that a module exports."""
    names = {one for match in _EXPORT.finditer(text) for one in match.groups() if one}
    for match in _LISTED.finditer(text):
        names |= {one.split(" as ")[-1].split(":")[-1].strip() for one in (match[1] or match[2]).split(",")}
    return names


@pytest.mark.parametrize("path", [one for one in OWN if one.suffix == ".js"], ids=lambda path: path.name)
def test_a_module_imports_what_is_there(path: Path) -> None:
    """A browser runs nothing of a page in which one name is missing."""
    for names, where in _IMPORT.findall(path.read_text("utf-8")):
        source = (path.parent / where).resolve()
        if CONSOLE / "vendor" in source.parents:
            continue
        there = exported(source.read_text("utf-8"))
        wanted = {one.split(" as ")[0].strip() for one in names.split(",") if one.strip()}
        assert wanted <= there, f"{where} has no {wanted - there}"
