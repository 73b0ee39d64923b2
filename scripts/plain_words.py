"""Finds hard words and long sentences; ``scripts/checks.py`` starts this as the check "plain words".

In the docs code, link targets and generated tables are not prose and are left out. In ``orchestrator/`` comments and
strings with a space are prose, except where they list words that players use (`VOCABULARY`). In ``tests/`` and
``scripts/`` one word is looked for (`IN_TESTS`), in names too.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
MOST_WORDS: Final = 35
EVERYWHERE: Final = {
    r"mend(?:s|ed|ing)?": "fix",
    r"house": "server or fixture",
    r"manners": "compatibility",
    r"borne out": "confirmed",
    r"(?:told|tells?|telling) (?:\w+ )?apart": "distinguish",
    r"stands? in the (?:file|page|answer|journal|text|table|policy)": "is in",
    r"for all that": "nevertheless",
    r"whoever|whereupon|whereof|wherein|thereof|therein|that which": "the noun",
}
"""Each hard word of docs and code, and what to say instead; docs/glossary.md has the terms."""
IN_DOCS: Final = EVERYWHERE | {
    r"doors?": "endpoint or route",
    r"laws?": "active policy",
    r"hints?": "notification",
    r"strangers?": "unknown field or unknown person",
    r"standing approvals?|allowances?": "grant",
    r"dut(?:y|ies)": "singleton job",
    r"troubles": "connection problems",
    r"leftovers?": "changes left behind",
    r"strokes?": "key event",
    r"desks?": "in-game commands",
    r"of whom": "the noun",
    r"lets? in": "accept",
    r"anew": "again",
    r"what becomes? of|what became of": "the outcome, or what happens to",
    r"(?<!there )(?:is|are|was|were) no (?!longer\b|more\b|less\b|fewer\b|such\b)\w+": "is not a",
}
"""Hard words that only the docs are free of."""
IN_TESTS: Final = {r"\w*house\w*": "server or fixture"}
VOCABULARY: Final = ("orchestrator/core/evidence/", "orchestrator/terminal/evaluation/")

FENCE: Final = re.compile(r"^\s*```")
ITEM: Final = re.compile(r"^\s*(?:[-*]|\d+\.|#+|>)\s+")
CELL: Final = re.compile(r"(?<!\\)\|")
LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
CODE: Final = re.compile(r"``[^`]*``|`[^`]*`")
TAG: Final = re.compile(r"<[a-z/!][^>]*>")
ENDS: Final = re.compile(r"""(?<=[.!?])["”)*]*\s+(?=["“(*\[]*[A-Z0-9`])|\s·\s""")
"""Between two sentences, or two entries of a line of links."""


def main() -> int:
    """Print each fault with its file and line; 1 if there is one."""
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    pages += sorted((ROOT / "docs").glob("*.md"))
    found = 0
    for page in pages:
        name = page.relative_to(ROOT).as_posix()
        text = page.read_text("utf-8")
        for line, fault in faults(unreleased(text) if name == "CHANGELOG.md" else text):
            found += 1
            print(f"{name}:{line}: {fault}")
    for module in sorted((ROOT / "orchestrator").rglob("*.py")):
        name = module.relative_to(ROOT).as_posix()
        for line, fault in () if name.startswith(VOCABULARY) else code_faults(module.read_text("utf-8")):
            found += 1
            print(f"{name}:{line}: {fault}")
    for module in sorted((*(ROOT / "tests").rglob("*.py"), *(ROOT / "scripts").rglob("*.py"))):
        text = module.read_text("utf-8")
        # Few files have the word, and only these are worth their time.
        for line, fault in code_faults(text, IN_TESTS, names=True) if any(hard(text, IN_TESTS)) else ():
            found += 1
            print(f"{module.relative_to(ROOT).as_posix()}:{line}: {fault}")
    return 1 if found else 0


def unreleased(changelog: str) -> str:
    """The changelog up to its first release with a number."""
    return re.split(r"^## \[\d", changelog, maxsplit=1, flags=re.MULTILINE)[0]


def faults(text: str) -> Iterator[tuple[int, str]]:
    """Each hard word and each long sentence of a page, with the line on which its paragraph begins."""
    for line, sentence in sentences(text):
        count = sum(any(map(str.isalnum, word)) for word in sentence.split())
        if count > MOST_WORDS:
            yield line, f"{count} words in one sentence, at most {MOST_WORDS}: {sentence[:60]}…"
        yield from ((line, fault) for fault in hard(sentence, IN_DOCS))


def code_faults(text: str, words: dict[str, str] = EVERYWHERE, *, names: bool = False) -> Iterator[tuple[int, str]]:
    """Each hard word in the comments, docstrings and messages of a Python module, and in its names, with its line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        prose = kind == "COMMENT" or (kind in {"STRING", "FSTRING_MIDDLE"} and " " in token.string)
        if prose or (names and kind == "NAME"):
            yield from ((token.start[0], fault) for fault in hard(CODE.sub(" ", token.string), words))


def hard(prose: str, words: dict[str, str]) -> Iterator[str]:
    """Each hard word of a text, with what to say instead."""
    plain = " ".join(prose.split())
    for word, say in words.items():
        yield from (f"{hit[0]!r}: say {say}" for hit in re.finditer(rf"\b(?:{word})\b", plain, re.IGNORECASE))


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences of a page; a list item, a heading and a table cell each have sentences of their own."""
    for line, block in blocks(text):
        prose = TAG.sub(" ", CODE.sub("`code`", LINK.sub(r"\1", block)))
        yield from ((line, one) for one in ENDS.split(prose))


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Each paragraph, list item, heading and table cell that is neither code nor generated, with its first line."""
    begun, lines, fenced, drawn = 0, list[str](), False, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = bool(FENCE.match(line))
        fenced ^= fence
        drawn = (drawn or line.startswith("<!-- table:")) and not line.startswith("<!-- end")
        silent = fence or fenced or drawn or line.startswith("<!--") or not line.strip()
        row = line.startswith("|")
        if lines and (silent or row or ITEM.match(line)):
            yield begun, " ".join(lines)
            lines = []
        if silent:
            continue
        if row:
            yield from ((number, cell.strip()) for cell in CELL.split(line)[1:-1])
            continue
        begun = begun if lines else number
        lines.append(ITEM.sub("", line).strip())
        if line.startswith("#"):
            yield begun, lines.pop()


if __name__ == "__main__":
    sys.exit(main())
