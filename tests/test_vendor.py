"""What is vendored for the console's page is what ``vendor.json`` pins, with its licence, and nothing besides."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.web import install

CONSOLE = Path(install.__file__).parent / "console"
VENDOR = CONSOLE / "vendor"
IMPORT = re.compile(r"""(?:\bfrom\s*|\bimport\s*\(?\s*)["']([^"'\s]+)["']""")


def libraries() -> list[dict[str, Any]]:
    """The pins."""
    pinned: list[dict[str, Any]] = json.loads((VENDOR / "vendor.json").read_text("utf-8"))["libraries"]
    return pinned


def test_every_file_has_the_hash_that_is_pinned() -> None:
    """No file is another, is missing, or came without being pinned."""
    pinned = {one["file"]: one["sha256"] for library in libraries() for one in library["files"]}
    there = {
        path.relative_to(VENDOR).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.is_file() and path.name != "vendor.json"
    }
    assert there == pinned


def test_every_library_says_what_it_is() -> None:
    """An exact version, why it is here, and its licence beside it, which allows to hand it on."""
    for library in libraries():
        assert re.fullmatch(r"\d+\.\d+\.\d+", library["version"])
        assert library["why"]
        assert library["license"] in {"MIT", "Apache-2.0", "BSD-3-Clause"}
        (licence,) = [one["file"] for one in library["files"] if one["file"].endswith("LICENSE")]
        assert (VENDOR / licence).stat().st_size > 500


def test_the_page_imports_only_its_own_files() -> None:
    """By an address that leads to a file: a browser finds nothing by a name, and nothing is built."""
    for path in _modules():
        for address in IMPORT.findall(path.read_text("utf-8")):
            assert address.startswith(("./", "../")), f"{path.name} imports {address}"
            assert (path.parent / address).is_file(), f"{path.name} imports {address}"


def test_no_text_becomes_markup_or_code() -> None:
    """The page's own files never say what the policy of the page would forbid anyway."""
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|\bstyle="
    )
    for path in _modules():
        if VENDOR not in path.parents:
            assert not forbidden.search(path.read_text("utf-8")), path.name


def _modules() -> Iterator[Path]:
    yield from (path for path in CONSOLE.rglob("*") if path.suffix in (".js", ".mjs"))
