"""Writes under each promise of docs/promises.md the tests that prove it, and finds unproven and unknown codes."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
CODE: Final = r"[A-Z]\d{1,2}"
CODES: Final = rf"{CODE}(?:, {CODE})*\b"
PROMISE: Final = re.compile(rf"^- \*\*({CODE})\*\* ")
IN_NAME: Final = re.compile(r"test_((?:[a-z]\d{1,2}_)+)", re.IGNORECASE)
IN_DOCSTRING: Final = re.compile(rf"(?:^|\()({CODES})")
IN_WORDS: Final = re.compile(rf"\bpromises? ({CODES})|^# -- ({CODES})", re.MULTILINE)
WHOLE_SERVER: Final = "tests/contract/"
"""The tests below it are named in the page; of other files it has the number of tests."""


class Citation(NamedTuple):
    """A code that a file cites; ``test`` is empty where the file only speaks of the promise."""

    code: str
    file: str
    test: str = ""


@cache
def citations() -> tuple[Citation, ...]:
    """All citations in the code and the tests, in the order of the files."""
    files = sorted(file for room in ("orchestrator", "cc_client", "tests") for file in (ROOT / room).rglob("*.py"))
    return tuple(one for file in files for one in cited(file.relative_to(ROOT).as_posix(), file.read_text("utf-8")))


def cited(file: str, text: str) -> Iterator[Citation]:
    """The citations of one file."""
    for found in IN_WORDS.finditer(text):
        yield from (Citation(code, file) for code in re.findall(CODE, found[0]))
    if not Path(file).name.startswith("test_"):
        return
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield from (Citation(code, file, node.name) for code in proven(node))


def proven(test: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The codes in the name and the docstring of a test, each once."""
    name = IN_NAME.match(test.name)
    in_name = name[1].upper().split("_")[:-1] if name else []
    in_docstring = [re.findall(CODE, codes) for codes in IN_DOCSTRING.findall(ast.get_docstring(test) or "")]
    return list(dict.fromkeys((*in_name, *chain(*in_docstring))))


def faults(page: str, every: Sequence[Citation]) -> list[str]:
    """A sentence for each promise that no test proves, and for each cited code that is not in the page."""
    known = [found[1] for line in page.splitlines() if (found := PROMISE.match(line))]
    tested = {one.code for one in every if one.test}
    twice = [code for code, count in Counter(known).items() if count > 1]
    unknown = dict.fromkeys((one.file, one.code) for one in every if one.code not in known)
    return [
        *(f"docs/promises.md has {code} more than once" for code in twice),
        *(f"no test proves promise {code} of docs/promises.md" for code in known if code not in tested),
        *(f"{file} cites {code}, which docs/promises.md does not have" for file, code in unknown),
    ]


def drawn(page: str, every: Sequence[Citation]) -> str:
    """The page with the tests under each promise."""
    lines = []
    for line in page.splitlines():
        if not line.startswith("  - "):
            lines.append(line)
        if found := PROMISE.match(line):
            lines += proofs([one for one in every if one.test and one.code == found[1]])
    return "\n".join(lines) + "\n"


def proofs(tests: list[Citation]) -> Iterator[str]:
    """The lines under a promise: one for each file of tests of a whole server, one for all other files."""
    for file in dict.fromkeys(one.file for one in tests if one.file.startswith(WHOLE_SERVER)):
        yield f"  - `{file}`: {', '.join(f'`{one.test}`' for one in tests if one.file == file)}"
    others = Counter(one.file for one in tests if not one.file.startswith(WHOLE_SERVER))
    if others:
        yield f"  - {', '.join(f'{count} in `{file}`' for file, count in others.items())}"
