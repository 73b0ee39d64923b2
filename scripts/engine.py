"""Builds ``llama-server``, the engine that the deep tests run, once for a machine: ``python3 scripts/engine.py``.

Theory of operation. Ollama runs ``llama-server`` and hands it the JSON schema of a reply unchanged; its
source comes with the sdist of llama-cpp-python, which is on PyPI, and with it the vocabularies of common
models. Everything is made in a directory beside the place where it belongs and moved there, whole, as the
last step: what stands in its place is ready, and what was interrupted is cleared away and made anew. The
name of the place says of what source and with which options it was built. Whoever builds holds the lock;
whoever finds everything ready takes none. The path of the program is printed; all else is said on stderr.
"""

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import bootstrap

PACKAGE: Final = "llama-cpp-python"
VERSION: Final = "0.3.36"
"""One version for everybody: what the tests claim of the engine was seen in this one."""
SHA256: Final = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
OPTIONS: Final = (
    "CMAKE_BUILD_TYPE=Release",
    "CMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG",  # most of it is read once, at the start of a server
    "BUILD_SHARED_LIBS=OFF",  # one file, which can be moved
    "LLAMA_BUILD_TESTS=OFF",
    "LLAMA_BUILD_EXAMPLES=OFF",
    "LLAMA_BUILD_APP=OFF",
    "LLAMA_BUILD_UI=OFF",
    "LLAMA_USE_PREBUILT_UI=OFF",  # it would be downloaded
    "LLAMA_OPENSSL=OFF",
    "LLAMA_ALL_WARNINGS=OFF",
    "GGML_NATIVE=OFF",  # a home directory may be seen from several machines
    "GGML_OPENMP=OFF",
    "GGML_LLAMAFILE=OFF",
    "GGML_CPU_REPACK=OFF",
    "GGML_CCACHE=OFF",
    "GGML_ACCELERATE=OFF",
    "GGML_BLAS=OFF",
    "GGML_METAL=OFF",
)
"""Nothing that these tests do not need: about ten minutes on two cores."""
OLDEST_CMAKE: Final = (3, 18)
VOCABULARIES: Final = ("qwen2", "llama-bpe", "llama-spm", "deepseek-coder", "starcoder", "gemma-4")
"""Of the models in the sdist, which have no weights: those whose kinds of tokenizers small models have."""
NOT_HERE: Final = 3
"""The exit code when this machine lacks something that a person has to install."""


class Lacking(bootstrap.Refused):
    """Something is not here and cannot be fetched; the message says what to do."""


def main(arguments: Sequence[str]) -> int:
    """Have the engine and print the path of its program; 3 when this machine cannot build it."""
    parser = argparse.ArgumentParser(prog="scripts/engine.py", description="Builds llama-server for the deep tests.")
    parser.add_argument("--check", action="store_true", help="build nothing: say by the exit code whether it is there")
    place = home() / name()
    if parser.parse_args(arguments).check:
        return 0 if place.is_dir() else 1
    try:
        bootstrap.refuse_old_python()
        have_engine(place)
    except Lacking as lacking:
        print(f"cc-orchestrator: {lacking}", file=sys.stderr)
        return NOT_HERE
    except bootstrap.Refused as refusal:
        sys.exit(f"cc-orchestrator: {refusal}")
    except OSError as error:
        sys.exit(f"cc-orchestrator: {error}; CC_ORCHESTRATOR_ENGINE names another place for the engine.")
    print(place / "llama-server")
    return 0


def home() -> Path:
    """Where engines are kept: $CC_ORCHESTRATOR_ENGINE, else in the caches of this user."""
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("CC_ORCHESTRATOR_ENGINE") or Path(caches) / "cc-orchestrator" / "engine").resolve()


def name() -> str:
    """What is built, in a word: other options or another kind of machine make another one."""
    made_of = [SHA256, sys.platform, platform.machine(), *OPTIONS, *VOCABULARIES]
    return f"{VERSION}-{hashlib.sha256(repr(made_of).encode()).hexdigest()[:8]}"


def have_engine(place: Path) -> None:
    """Return when the engine stands in its place. Raises Refused."""
    if place.is_dir():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("a") as lock:
        bootstrap.hold(lock, "another process builds the engine; waiting for it")
        if place.is_dir():
            return
        work = place.parent / "building"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        _build(work, place)
        shutil.rmtree(work, ignore_errors=True)
        bootstrap.say("the engine is ready")


def _build(work: Path, place: Path) -> None:
    log = place.parent / "build.log"
    log.write_text("", encoding="utf-8")
    compilers = _compilers()
    source = _source(work, log)
    cmake, ninja = _tool(work, log, "cmake"), _tool(work, log, "ninja")
    out = work / "out"
    options = [f"-D{one}" for one in (*OPTIONS, *compilers, f"CMAKE_MAKE_PROGRAM={ninja}")]
    jobs = str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    configure = [cmake, "-S", str(source), "-B", str(out), "-G", "Ninja", *options]
    compile_it = [cmake, "--build", str(out), "--target", "llama-server", "--parallel", jobs]
    for doing, command in (
        ("configuring llama-server", configure),
        ("building llama-server (about ten minutes on two cores)", compile_it),
        ("starting llama-server", [str(out / "bin" / "llama-server"), "--version"]),
    ):
        if not bootstrap.do(doing, command, log):
            raise bootstrap.Refused(f"that failed; {log} has all that was said.")
    ready = work / "ready"
    ready.mkdir()
    shutil.copy2(out / "bin" / "llama-server", ready)
    for one in VOCABULARIES:
        shutil.copy2(source / "models" / f"ggml-vocab-{one}.gguf", ready / f"{one}.gguf")
    ready.rename(place)


def _compilers() -> list[str]:
    """The compilers for CMake. Raises Lacking."""
    found = []
    for variable, option, names in (("CC", "C", ("cc", "gcc", "clang")), ("CXX", "CXX", ("c++", "g++", "clang++"))):
        chosen = os.environ.get(variable)
        path = next((which for one in ((chosen,) if chosen else names) if (which := shutil.which(one))), None)
        if path is None:
            raise Lacking(
                "building llama-server takes a C++ compiler, and none is on PATH; install one "
                "(Debian and Ubuntu: apt install g++), then run the same command again."
            )
        found.append(f"CMAKE_{option}_COMPILER={path}")
    return found


def _source(work: Path, log: Path) -> Path:
    """The source of llama.cpp out of the sdist, unpacked. Raises Refused."""
    fetch = [*_pip(work, log), "download", "--no-deps", "--no-binary", PACKAGE, "--dest", str(work)]
    if not bootstrap.do("downloading llama.cpp (77 MB)", [*fetch, f"{PACKAGE}=={VERSION}"], log):
        raise Lacking(f"the source of llama-server could not be downloaded; is the network there? {log} says why.")
    sdist = next(work.glob("*.tar.gz"))
    if hashlib.sha256(sdist.read_bytes()).hexdigest() != SHA256:
        raise bootstrap.Refused(f"{PACKAGE} {VERSION} is not the file that it was; look at where pip found it: {log}")
    inside = f"{sdist.name.removesuffix('.tar.gz')}/vendor/llama.cpp"
    with tarfile.open(sdist) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(work, [one for one in archive if one.name.startswith(f"{inside}/")])
    return work / inside


def _tool(work: Path, log: Path, tool: str) -> str:
    """CMake or Ninja: the one on PATH, else PyPI's. Raises Lacking."""
    found = shutil.which(tool)
    if found and (tool != "cmake" or _version(found) >= OLDEST_CMAKE):
        return found
    # Beside the build and not installed anywhere: some Pythons belong to the system.
    target, needed = work / tool, work / "requirements.txt"
    (entry,) = (one for one in bootstrap.locked(["engine"]) if one.startswith(f"{tool}=="))
    needed.write_text(entry, "utf-8")
    install = [*_pip(work, log), "install", *bootstrap.AS_LOCKED, "--target", str(target), "--requirement", str(needed)]
    if not bootstrap.do(f"downloading {tool}", install, log):
        raise Lacking(f"{tool} is not on PATH and could not be downloaded; install it with your system's packages.")
    # The program itself: what stands in bin is a script for an environment.
    found_there = (path for path in target.rglob(tool) if path.is_file() and path.parent != target / "bin")
    programs = [path for path in found_there if os.access(path, os.X_OK)]
    return str(next(iter(programs), target / "bin" / tool))


def _version(cmake: str) -> tuple[int, ...]:
    told = subprocess.run([cmake, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)\.(\d+)", told)
    return tuple(map(int, found.groups())) if found else (0, 0)


def _pip(work: Path, log: Path) -> list[str]:
    """This Python's pip, else that of an environment made for it. Raises Lacking."""
    if not subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        return [sys.executable, "-m", "pip"]
    python = work / "venv" / "bin" / "python"
    uv = shutil.which("uv")
    make = [uv, "venv", "--seed", "--quiet"] if uv else [sys.executable, "-m", "venv"]
    if not python.exists() and not bootstrap.do("making an environment with pip", [*make, str(work / "venv")], log):
        raise Lacking(
            "this Python has neither pip nor venv; install them (on Debian and Ubuntu: apt install python3-venv)."
        )
    return [str(python), "-m", "pip"]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; the same command starts over")
