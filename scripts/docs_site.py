"""Builds the site of the docs in ``build/site`` and checks every link in it; ``scripts/checks.py`` starts this.

The pages are README.md, those of docs/, and four of the top directory. They are copied to ``build/site-pages`` with
their links set for the site, and zensical makes HTML of them. Nothing in the site comes from another host, so it can
be put on any web server, or be read from a directory.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Final
from urllib.parse import unquote, urlsplit

ROOT: Final = Path(__file__).resolve().parent.parent
BUILD: Final = ROOT / "build"
PAGES: Final = BUILD / "site-pages"
SITE: Final = BUILD / "site"
NAVIGATION: Final[Mapping[str, tuple[str, ...]]] = {
    "Start": ("README.md", "docs/install.md", "docs/quickstart.md", "docs/game.md", "docs/glossary.md"),
    "Use": (
        "docs/commands.md", "docs/reviewing.md", "docs/people.md", "docs/class.md", "docs/notifications.md",
        "docs/console.md", "docs/tui.md", "docs/models.md", "docs/checks.md", "docs/rehearsal.md", "docs/undo.md",
        "docs/backups.md", "docs/simulator.md", "docs/python.md",
    ),
    "Run": (
        "docs/settings.md", "docs/policy.md", "docs/operations.md", "docs/scaling.md", "docs/security.md",
        "docs/watching.md", "docs/audit.md", "docs/troubleshooting.md",
    ),
    "Inside": (
        "docs/design.md", "docs/promises.md", "docs/protocol.md", "docs/tour.md", "docs/eval.md", "docs/licences.md",
        "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md",
    ),
}  # fmt: skip
"""Each tab of the site and its pages."""
FENCE: Final = re.compile(r"^\s*(```|~~~)")
LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(?=[)#])")
COLOR: Final = re.compile(r"\x1b\[[0-9;]*m")
CODE: Final = re.compile(r"(``.*?``|`[^`]*`)")


def placed(source: str) -> str:
    """Where a file of the project is in the site; pages of the top directory must not meet those of docs/."""
    if source == "README.md":
        return "index.md"
    return source.removeprefix("docs/") if source.startswith("docs/") else f"project/{source.lower()}"


def sources() -> list[str]:
    """Each page, by its path in the project."""
    top = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
    return [*top, *(f"docs/{one.name}" for one in sorted((ROOT / "docs").glob("*.md")))]


def rewritten(source: str, text: str, files: set[str]) -> str:
    """The text of a page with its links to files set for the site; each file but pages is noted in ``files``."""
    here = PurePosixPath(source).parent

    def target(link: re.Match[str]) -> str:
        named = normpath(str(here / link[0]))
        if not named.endswith(".md"):
            files.add(named)
        return relpath(placed(named), PurePosixPath(placed(source)).parent)

    lines, fenced = [], False
    for line in text.split("\n"):
        if FENCE.match(line):
            fenced = not fenced
        parts = [line] if fenced else CODE.split(line)
        lines.append("".join(part if fenced or part.startswith("`") else LINK.sub(target, part) for part in parts))
    return "\n".join(lines)


def title(source: str) -> str:
    """The first heading of a page; the README is the front page."""
    if source == "README.md":
        return "Home"
    return next(line for line in (ROOT / source).read_text("utf-8").split("\n") if line.startswith("# "))[2:].strip()


def config() -> str:
    """What zensical is told; a list or a table of JSON is one of TOML, but for the signs between keys and values."""
    tabs = ", ".join(
        f"{{{json.dumps(tab)} = [{', '.join(_entry(one) for one in pages)}]}}" for tab, pages in NAVIGATION.items()
    )
    return f"""\
[project]
site_name = "cc-orchestrator"
site_description = "Lets a language model work on ComputerCraft computers, with a person in charge."
copyright = "MIT license"
docs_dir = {json.dumps(PAGES.name)}
site_dir = {json.dumps(SITE.name)}
use_directory_urls = false
nav = [{tabs}]

[project.theme]
language = "en"
font = false
features = ["navigation.tabs", "navigation.top", "content.code.copy", "toc.follow", "search.highlight"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle = {{icon = "lucide/sun", name = "Dark colors"}}

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle = {{icon = "lucide/moon", name = "Light colors"}}

[project.markdown_extensions.toc]
permalink = true
slugify = {{object = "pymdownx.slugs.slugify", kwds = {{case = "lower"}}}}

[project.markdown_extensions.admonition]
[project.markdown_extensions.attr_list]
[project.markdown_extensions.tables]
[project.markdown_extensions.sane_lists]
[project.markdown_extensions."pymdownx.superfences"]
[project.markdown_extensions."pymdownx.highlight"]
"""


def _entry(source: str) -> str:
    return f"{{{json.dumps(title(source))} = {json.dumps(placed(source))}}}"


def laid_out() -> list[str]:
    """Write the pages and what they show into ``build/site-pages``; what does not fit."""
    shutil.rmtree(PAGES, ignore_errors=True)
    files: set[str] = set()
    faults = [f"{one} is in no tab: name it in NAVIGATION" for one in sources() if one not in _listed()]
    faults += [f"{one} is in a tab, but there is no such page" for one in _listed() if one not in sources()]
    for source in sources():
        page = PAGES / placed(source)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(rewritten(source, (ROOT / source).read_text("utf-8"), files), "utf-8")
    for file in sorted(files):
        if not (ROOT / file).is_file():
            faults.append(f"a page links to {file}, which is not a file")
            continue
        copy = PAGES / placed(file)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, copy)
    if not faults:
        (BUILD / "zensical.toml").write_text(config(), "utf-8")
    return faults


def _listed() -> list[str]:
    return [one for pages in NAVIGATION.values() for one in pages]


# -- the check of what was built -----------------------------------------------------------


class Reader(HTMLParser):
    """Notes the names that links may lead to, the links, and what a browser loads."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Each element, once."""
        has = dict(attrs)
        self.names |= {value for key in ("id", "name") if (value := has.get(key))}
        if tag == "a" and (to := has.get("href")):
            self.links.append(to)
        loads = has.get("src") or (has.get("href") if tag == "link" else None)
        if loads and has.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(loads)


def broken(site: Path) -> Iterator[str]:
    """A sentence for each link of the site that leads nowhere, and for each thing that another host would serve."""
    read: dict[Path, Reader] = {}
    for page in sorted(site.rglob("*.html")):
        read[page] = Reader()
        read[page].feed(page.read_text("utf-8"))
    for page, reader in read.items():
        # The page for what is not found names places by their whole path, as it is shown anywhere.
        if page.name == "404.html":
            continue
        name = page.relative_to(site)
        yield from (f"{name} loads {one} from another host" for one in reader.loaded if urlsplit(one).netloc)
        for link in (*reader.links, *reader.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = page if not parts.path else Path(normpath(page.parent / unquote(parts.path)))
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{name}: {link} leads to no file"
            elif parts.fragment and target in read and unquote(parts.fragment) not in read[target].names:
                yield f"{name}: {link} leads to no heading"


def main() -> int:
    """Build it; 1 where a page or a link is wrong."""
    if find_spec("zensical") is None:
        sys.exit("cc-orchestrator: zensical builds the site; pip install '.[docs]', then run this again")
    faults = laid_out()
    if not faults:
        shutil.rmtree(SITE, ignore_errors=True)
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
        done = subprocess.run(command, cwd=BUILD, check=False, capture_output=True, text=True, timeout=300)
        if done.returncode:
            told = COLOR.sub("", done.stdout + done.stderr).partition("Traceback (most recent")[0].rstrip()
            faults.append(f"zensical ended with code {done.returncode}:\n{told}")
        faults += broken(SITE)
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{SITE.relative_to(ROOT)}: {'with faults' if faults else 'built, every link leads somewhere'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
