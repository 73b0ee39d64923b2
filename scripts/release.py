"""Make what a release hands on, in ``dist/``: ``.venv/bin/python scripts/release.py [--out DIR]``.

The wheel, the hashed requirements that it runs with, a bill of materials (CycloneDX 1.6) and the sums of all three.
Each is made of what HEAD has and of its date alone, by the locked builder: the same commit gives the same bytes,
wherever, whenever and by whomever it is built. So anybody can hold a release against its source.
"""

import argparse
import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import bootstrap
import engine
import lock
import tools
import vendor
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.utils import canonicalize_name

ROOT: Final = bootstrap.ROOT


def main(arguments: Sequence[str]) -> int:
    """Build everything and print the sums."""
    parser = argparse.ArgumentParser(prog="scripts/release.py", description="Makes the files of a release, of HEAD.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", metavar="DIR", help="where to, %(default)s")
    out = parser.parse_args(arguments).out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    epoch = int(git("show", "--no-patch", "--format=%ct", "HEAD"))
    if git("status", "--porcelain", "--untracked-files=no"):
        print("cc-orchestrator: what is not committed is not in it", file=sys.stderr)
    wheel = built(out, epoch)
    base = wheel.name.split("-py3-")[0]
    needed = out / f"{base}.requirements.txt"
    needed.write_text(lock.HEAD + "".join(f"{one}\n" for one in bootstrap.locked(["run"])), "utf-8", newline="\n")
    bill = out / f"{base}.cdx.json"
    bill.write_text(bill_of(wheel, datetime.fromtimestamp(epoch, UTC)), "utf-8", newline="\n")
    sums = "".join(f"{sha256(one)}  {one.name}\n" for one in sorted((wheel, needed, bill)))
    (out / "SHA256SUMS").write_text(sums, "utf-8", newline="\n")
    print(sums, end="")
    return 0


def git(*arguments: str) -> str:
    """What git says of this checkout."""
    return _git(*arguments).decode().strip()


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"cc-orchestrator: a release is made of a commit: {done.stderr.decode().strip()}")
    return done.stdout


def built(out: Path, epoch: int) -> Path:
    """The wheel, built of a copy of HEAD in which nothing else lies."""
    with tempfile.TemporaryDirectory() as where:
        source, made = Path(where) / "source", Path(where) / "made"
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", "HEAD"))) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            archive.extractall(source)
        build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(made)]
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("HATCH", "PYTHON"))}
        environment = {**kept, "SOURCE_DATE_EPOCH": str(epoch)}
        done = subprocess.run(build, cwd=source, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"cc-orchestrator: the wheel could not be built:\n{done.stdout}{done.stderr}")
        (wheel,) = made.iterdir()
        target = out / wheel.name
        target.write_bytes(wheel.read_bytes())
        return target


def sha256(path: Path) -> str:
    """Of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


# -- the bill of materials -----------------------------------------------------------------


def bill_of(wheel: Path, when: datetime) -> str:
    """The bill of materials, as JSON: every package of the lock, the libraries of the page, and the fetched tools."""
    version = wheel.name.split("-")[1]
    ours = component("pypi", lock.OURS, version, "MIT", {("SHA-256", sha256(wheel))}, kind=ComponentType.APPLICATION)
    bill = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{ours.purl}#{sha256(wheel)}"))
    bill.metadata = BomMetaData(component=ours, timestamp=when)
    packages = [(pin, of_pin(pin)) for pin in lock.pins()]
    libraries, tested = list(of_the_page()), list(of_the_tests())
    bill.components.update([one for _, one in packages], libraries, tested)
    parts = [listed for part, listed in lock.asked().items() if part not in lock.TOOLS_ONLY]
    asked = {canonicalize_name(one.name) for listed in parts for one in listed}
    bill.register_dependency(ours, [*(one for pin, one in packages if pin.name in asked), *libraries])
    for pin, one in packages:
        bill.register_dependency(one, [other for child, other in packages if pin.name in child.via])
    return str(JsonV1Dot6(bill).output_as_string(indent=1)) + "\n"


def of_pin(pin: lock.Pin) -> Component:
    """A locked package; its hashes are those of all files of the release, of which each system installs another."""
    scope = ComponentScope.REQUIRED if "run" in pin.parts else ComponentScope.OPTIONAL
    scope = scope if pin.is_run else ComponentScope.EXCLUDED
    parts = [Property(name="cc-orchestrator:for", value=" ".join(pin.parts))]
    parts += [Property(name="cc-orchestrator:marker", value=pin.marker)] if pin.marker else []
    hashes = {("SHA-256", one) for one in pin.hashes}
    return component("pypi", pin.name, pin.version, pin.license, hashes, scope, properties=parts)


def of_the_page() -> Iterator[Component]:
    """The libraries that stand in the wheel, with the hashes of their files."""
    for one in json.loads(vendor.PINS.read_text("utf-8"))["libraries"]:
        hashes = {("SHA-256", file["sha256"]) for file in one["files"]}
        yield component("npm", one["name"], one["version"], one["license"], hashes, ComponentScope.REQUIRED)


def of_the_tests() -> Iterator[Component]:
    """What the scripts fetch besides, of which the versions are fixed."""
    told: dict[str, Any] = json.loads((tools.STYLUA / "package-lock.json").read_text("utf-8"))["packages"]
    for place, one in told.items():
        if place:
            kind, _, code = one["integrity"].partition("-")
            hashes = {(kind.upper().replace("SHA", "SHA-"), base64.b64decode(code).hex())}
            name = place.removeprefix("node_modules/")
            yield component("npm", name, one["version"], one["license"], hashes, ComponentScope.EXCLUDED)
    yield component(
        "pypi", engine.PACKAGE, engine.VERSION, "MIT", {("SHA-256", engine.SHA256)}, ComponentScope.EXCLUDED
    )


def component(
    registry: str,
    name: str,
    version: str,
    licence: str,
    hashes: set[tuple[str, str]],
    scope: ComponentScope | None = None,
    *,
    kind: ComponentType = ComponentType.LIBRARY,
    properties: Sequence[Property] = (),
) -> Component:
    """A component, named by where it is from."""
    group, _, last = name.rpartition("/")
    purl = PackageURL(registry, group or None, last, version)
    return Component(
        type=kind,
        name=last,
        group=group or None,
        version=version,
        purl=purl,
        bom_ref=str(purl),
        scope=scope,
        licenses=[LicenseExpression(licence) if " " in licence else DisjunctiveLicense(id=licence)],
        hashes=[HashType(alg=HashAlgorithm(alg), content=code) for alg, code in sorted(hashes)],
        properties=properties,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
