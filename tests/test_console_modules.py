"""The console's own modules and styles read as the rest of the code: lines that fit, and what each is, first."""

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
