"""What others made: the lock fits the project on every system, and a release is the same bytes wherever it is made.

The scripts are asked as modules; a release is made for real, of clones of this checkout.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata, util
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.waiting import HANG_S

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"


def script(name: str) -> Any:
    """A module of scripts/, which is no package; those that it imports stand beside it."""
    if str(SCRIPTS) not in sys.path:
        sys.path.append(str(SCRIPTS))
    if name not in sys.modules:
        spec = util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


lock: Any = script("lock")
EVERYWHERE = [(system, python) for system in lock.SYSTEMS for python in lock.PYTHONS]

# -- the lock ------------------------------------------------------------------------------


def test_the_lock_fits_the_project() -> None:
    """As the check says, which asks no index."""
    assert lock.problems(lock.pins(), lock.asked()) == []


def test_it_is_written_as_it_is_read() -> None:
    """So that a new one differs in what changed and in nothing else."""
    assert lock.written(lock.pins()) == (SCRIPTS / "requirements.txt").read_text("utf-8")


def test_the_image_installs_parts_that_are_locked() -> None:
    """And has no step that the check of the image does not run."""
    check = script("container/check")
    text = (SCRIPTS / "container" / "Containerfile").read_text("utf-8")
    (parts,) = re.findall(r"bootstrap\.py ((?:[a-z]+ )+)>", text)
    assert set(parts.split()) <= set(lock.asked())
    known = {"FROM", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "CMD"}
    assert {word for word, _ in check.steps(text)} <= known


def test_it_names_no_index() -> None:
    """Packages come from whichever index the machine is set to, and are held against their hashes there."""
    for name in ("requirements.txt", "stylua/package-lock.json", "stylua/package.json"):
        text = (SCRIPTS / name).read_text("utf-8")
        assert "://" not in text, name
        assert "--index" not in text, name


def without_bound(one: Requirement) -> Requirement:
    """The same, and every later version too."""
    return Requirement(f"{one.name}{','.join(str(s) for s in one.specifier if not s.operator.startswith('<'))}")


def named(pins: list[Any], name: str) -> Any:
    """The entry of a package."""
    return next(one for one in pins if one.name == name)


WRONG: dict[str, tuple[Callable[[list[Any], dict[str, list[Requirement]]], Any], str]] = {
    "a package that nobody locked": (
        lambda pins, asked: asked["run"].append(Requirement("left-pad<2")),
        "run asks for left-pad, which is not locked",
    ),
    "a version that is locked no more": (
        lambda pins, asked: asked["run"].append(Requirement("starlette>=99,<100")),
        "run asks for starlette<100,>=99, but",
    ),
    "a package without an upper bound": (
        lambda pins, asked: asked.update(dev=[without_bound(one) for one in asked["dev"]]),
        "dev asks for ruff without an upper bound",
    ),
    "a package that nobody asks for": (
        lambda pins, asked: asked.update(simulator=[], dev=[one for one in asked["dev"] if one.name != "lupa"]),
        "nothing asks for lupa",
    ),
    "another part that needs it": (
        lambda pins, asked: asked["tui"].append(Requirement("lupa<3")),
        "lupa is locked for dev simulator, but needed for dev simulator tui",
    ),
    "no hash": (lambda pins, asked: pins.append(replace(pins.pop(0), hashes=())), "has no hash"),
    "a licence that nobody looked at": (
        lambda pins, asked: pins.append(replace(pins.pop(0), license="BUSL-1.1")),
        "is BUSL-1.1; HANDED_ON",
    ),
    "no licence": (lambda pins, asked: pins.append(replace(pins.pop(0), license="")), "is not known; HANDED_ON"),
    "a licence that is for tests only": (
        lambda pins, asked: pins.append(replace(named(pins, "anyio"), license="LGPL-3.0-only")),
        "the licence of anyio",
    ),
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_is_said(wrong: str) -> None:
    """Each with its sentence."""
    pins, asked = lock.pins(), lock.asked()
    do, sentence = WRONG[wrong]
    do(pins, asked)
    found = lock.problems(pins, asked)
    assert any(sentence in one for one in found), found


def test_the_check_says_what_to_do(tmp_path: Path) -> None:
    """In a copy whose project asks for more than is locked."""
    for one in ("lock.py", "bootstrap.py", "requirements.txt"):
        (tmp_path / "scripts").mkdir(exist_ok=True)
        (tmp_path / "scripts" / one).write_bytes((SCRIPTS / one).read_bytes())
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    (tmp_path / "pyproject.toml").write_text(text.replace('"anyio>=4.6,<5"', '"anyio>=4.6,<4.7"'), "utf-8")
    command = [sys.executable, str(tmp_path / "scripts" / "lock.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 1
    assert "run asks for anyio<4.7,>=4.6, but" in done.stderr
    assert "run python scripts/lock.py" in done.stderr


@pytest.mark.thinned(4)
@pytest.mark.parametrize(("system", "python"), EVERYWHERE, ids=lambda one: one if isinstance(one, str) else one[0])
def test_each_system_gets_all_that_its_packages_ask_for(system: tuple[str, str, str], python: str) -> None:
    """What the installed packages say they need, is locked there, in a version that they take, for the same parts."""
    here = {one.name: one for one in lock.pins() if one.applies(system, python)}
    for part, asked in lock.asked().items():
        todo, seen = list(asked), set()
        while todo:
            one = todo.pop()
            name = canonicalize_name(one.name)
            if (name, frozenset(one.extras)) in seen or not holds(one, system, python):
                continue
            seen.add((name, frozenset(one.extras)))
            assert name in here, f"{part} needs {one}"
            assert one.specifier.contains(here[name].version, prereleases=True), f"{part} needs {one}"
            assert part in here[name].parts, f"{part} needs {one}"
            todo += needs(here[name], one.extras, system, python)


def needs(pin: Any, extras: set[str], system: tuple[str, str, str], python: str) -> list[Requirement]:
    """What a package asks for there; nothing is known of one that is not installed here in the same version."""
    found = next((one for one in metadata.distributions(name=pin.name) if one.version == pin.version), None)
    told = [Requirement(one) for one in (found.requires if found is not None else None) or ()]
    return [one for one in told if any(holds(one, system, python, extra) for extra in ("", *extras))]


def holds(one: Requirement, system: tuple[str, str, str], python: str, extra: str = "") -> bool:
    """Whether a requirement counts there."""
    names = dict(zip(("sys_platform", "platform_system", "os_name"), system, strict=True))
    versions = {"python_version": python, "python_full_version": f"{python}.0", "extra": extra}
    return one.marker is None or one.marker.evaluate({**names, **versions})


def test_a_licence_is_the_one_that_the_package_says() -> None:
    """Of all that are installed here in the locked version."""
    looked = 0
    for pin in lock.pins():
        for one in metadata.distributions(name=pin.name):
            if one.version == pin.version:
                looked += 1
                assert lock.license_of(one) == pin.license, pin.name
    assert looked > 50


def test_what_the_scripts_fetch_besides_has_a_hash() -> None:
    """What npm fetches, and the source of llama-server; the page that names them has their versions."""
    tools, engine = script("tools"), script("engine")
    told = {row[0]: row[1] for row in tools.FETCHED}
    packages = json.loads((SCRIPTS / "stylua" / "package-lock.json").read_text("utf-8"))["packages"]
    for place, one in packages.items():
        assert not place or one["integrity"].startswith("sha512-"), place
    assert told["stylua"] == packages["node_modules/@johnnymorganz/stylua-bin"]["version"]
    assert told["llama.cpp"] == f"in {engine.PACKAGE} {engine.VERSION}"
    assert len(engine.SHA256) == 64
    assert {one.split("==")[0] for one in script("bootstrap").locked(["engine"])} == {"cmake", "ninja"}


# -- a release -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of this checkout's HEAD."""
    return release(tmp_path_factory.mktemp("release") / "one", "022", {})


def release(where: Path, umask: str, environment: dict[str, str]) -> Path:
    """Clone this checkout, and make a release in the clone."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(where)], check=True, timeout=HANG_S)
    command = ["sh", "-c", f'umask {umask}; exec "$@"', "sh", sys.executable, "scripts/release.py", "--out", "made"]
    subprocess.run(
        command, cwd=where, check=True, timeout=HANG_S, env={**os.environ, **environment}, stdout=subprocess.DEVNULL
    )
    return where / "made"


@pytest.mark.deep
def test_two_releases_of_a_commit_are_the_same_bytes(released: Path, tmp_path: Path) -> None:
    """Of another place, with other rights, in another time zone and language, with files of other times beside."""
    other = release(tmp_path / "an other place", "077", {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "7"})
    assert {one.name for one in released.iterdir()} == {one.name for one in other.iterdir()}
    for one in released.iterdir():
        assert one.read_bytes() == (other / one.name).read_bytes(), one.name


def test_no_time_of_the_build_is_in_it(released: Path) -> None:
    """Each file of the wheel, and the bill, has the time of the commit."""
    told = subprocess.run(
        ["git", "show", "-s", "--format=%ct", "HEAD"], cwd=ROOT, capture_output=True, check=True, timeout=HANG_S
    )
    when = datetime.fromtimestamp(int(told.stdout), UTC)
    (wheel,) = released.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        times = {one.date_time for one in packed.infolist()}
        names = set(packed.namelist())
    assert times == {(when.year, when.month, when.day, when.hour, when.minute, when.second // 2 * 2)}
    assert {"orchestrator/core/policy/load.py", "orchestrator/web/console/vendor/preact/LICENSE"} <= names
    assert datetime.fromisoformat(bill(released)["metadata"]["timestamp"]) == when


def test_the_sums_are_those_of_the_files(released: Path) -> None:
    """And of all of them."""
    lines = (line.split("  ") for line in (released / "SHA256SUMS").read_text().splitlines())
    assert {name: code for code, name in lines} == {
        one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in released.iterdir() if one.name != "SHA256SUMS"
    }


def bill(released: Path) -> Any:
    """The bill of materials."""
    (path,) = released.glob("*.cdx.json")
    return json.loads(path.read_text("utf-8"))


def test_the_bill_of_materials_is_one(released: Path) -> None:
    """By the schema of CycloneDX, and by those that it stands on."""
    schemas = files("cyclonedx.schema") / "_res"

    def schema(name: str) -> Any:
        return json.loads((schemas / f"{name}.SNAPSHOT.schema.json").read_text("utf-8"))

    place = "http://cyclonedx.org/schema/{}.SNAPSHOT.schema.json"  # where the schema looks for the others
    registry = jsonschema_rs.Registry([(place.format(one), schema(one)) for one in ("spdx", "jsf-0.82")])
    validator = jsonschema_rs.Draft7Validator(schema("bom-1.6"), registry=registry, validate_formats=True)
    assert [one.message for one in validator.iter_errors(bill(released))] == []
    assert not validator.is_valid({**bill(released), "components": [{"name": "without a type"}]})


def test_the_bill_names_every_package(released: Path) -> None:
    """With version, licence and hashes: all of the lock, the libraries of the page, and what the tests fetch."""
    named = {(one["purl"].partition("?")[0]): one for one in bill(released)["components"]}
    for pin in lock.pins():
        one = named[f"pkg:pypi/{pin.name}@{pin.version}"]
        (licence,) = one["licenses"]
        assert pin.license in (licence.get("expression"), licence.get("license", {}).get("id"))
        assert {code["content"] for code in one["hashes"]} == set(pin.hashes)
        assert (one["scope"] == "required") == ("run" in pin.parts)
        assert (one["scope"] == "excluded") == (not pin.is_run)
    assert {"pkg:npm/preact@11.2.0", "pkg:npm/htm@3.1.1", "pkg:npm/%40johnnymorganz/stylua-bin@2.5.2"} <= set(named)
    assert all(one["hashes"] and one["licenses"] for one in named.values())
    (wheel,) = released.glob("*.whl")
    ours = bill(released)["metadata"]["component"]
    assert ours["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]


def test_the_requirements_of_a_release_are_those_of_the_program(released: Path) -> None:
    """And no tool of the tests."""
    (path,) = released.glob("*.requirements.txt")
    listed = lock.pins(path.read_text("utf-8"))
    assert listed == [one for one in lock.pins() if "run" in one.parts]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    direct = {canonicalize_name(Requirement(one).name) for one in project["dependencies"]}
    assert direct <= {one.name for one in listed}
