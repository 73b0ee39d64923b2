"""What the figures were taken on."""

import os
import platform
import sqlite3
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from bench import peers

PACKAGES: Final = (
    "cc-orchestrator",
    "pydantic",
    "starlette",
    "uvicorn",
    "uvloop",
    "websockets",
    "pydantic-ai-slim",
)


def machine(directory: Path) -> dict[str, str | int]:
    """Processors, system, versions, and the file system that the databases are on."""
    found: dict[str, str | int] = {
        "cpus": os.cpu_count() or 1,
        "cpu": _first("/proc/cpuinfo", "model name"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "file_system": _file_system(directory),
    }
    return {**found, **{name: _version(name) for name in PACKAGES}, **peers.versions()}


def sentence(found: Mapping[str, str | int]) -> str:
    """The same for people."""
    named = ("python", "sqlite", *PACKAGES, *peers.PACKAGES)
    versions = ", ".join(f"{name} {found[name]}" for name in named if found.get(name))
    where = f"{found['system']}, files on {found['file_system']}"
    return f"{found['cpus']} processors ({found['cpu']}), {where}\n{versions}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _first(path: str, key: str) -> str:
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), platform.machine())


def _file_system(directory: Path) -> str:
    """The type of the mount with the longest path above ``directory``; empty where the system does not tell."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
    except OSError:
        return "an unknown file system"
    above = [(mount[1], mount[2]) for mount in mounts if directory.resolve().is_relative_to(mount[1])]
    return max(above, key=lambda one: len(one[0]), default=("", "an unknown file system"))[1]
