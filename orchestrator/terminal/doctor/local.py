"""What can be seen on this machine without a server: Python, the disk, the store, the policy, the prompt, the port."""

import errno
import os
import shutil
import socket
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

from orchestrator.adapters.store.file_lock import FileLock
from orchestrator.adapters.store.schema import MIGRATIONS, NEEDS_KEY, READ_META, SCHEMA_KEY
from orchestrator.core.errors import OrchestratorError, StoreBusy
from orchestrator.runtime import prompts
from orchestrator.runtime.policy_file import load_file
from orchestrator.terminal.doctor.findings import Finding, Patient, State, failed

OLDEST_PYTHON: Final = (3, 11)
LITTLE_BYTES: Final = 1_000_000_000
"""Below this free space a warning; a year of daily tasks takes about as much."""
TOO_LITTLE_BYTES: Final = 50_000_000
_SQLITE: Final = "sqlite:///"


def python(patient: Patient) -> Finding:
    """The interpreter that runs this."""
    del patient
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        return Finding("python", "fail", f"Python {version} is too old.", ("Install Python 3.11 or newer.",))
    return Finding("python", "ok", f"Python {version}.")


def data_dir(patient: Patient) -> Finding:
    """Where the store, the policy and the token are."""
    place = patient.data_dir
    other = ("Choose another with --data-dir or CC_ORCHESTRATOR_DATA_DIR, or let this user write there.",)
    if not place.exists():
        above = next(one for one in (*place.absolute().parents,) if one.exists())
        if not os.access(above, os.W_OK):
            return Finding("data directory", "fail", f"{place} does not exist and cannot be made.", other)
        return Finding("data directory", "ok", f"{place} does not exist yet; the first `serve` makes it.")
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return Finding("data directory", "fail", f"{place} is no directory that this user can write to.", other)
    free = shutil.disk_usage(place).free
    sentence = f"{place} can be written; {free // 1_000_000} MB are free there."
    if free < LITTLE_BYTES:
        state: State = "fail" if free < TOO_LITTLE_BYTES else "warn"
        return Finding("data directory", state, sentence, ("Make room on that disk.",))
    return Finding("data directory", "ok", sentence)


def store(patient: Patient) -> Finding:
    """The journal: whether it can be opened, and who has it."""
    url = patient.settings.store_url
    if not url.startswith(_SQLITE):
        kept = "in memory only: it ends with the server" if url == "memory:" else "elsewhere; it was not opened"
        return Finding("store", "ok", f"The store is {kept}.")
    path = Path(url.removeprefix(_SQLITE))
    if not path.exists():
        return Finding("store", "ok", f"{path} does not exist yet; the first `serve` makes it.")
    try:
        lock = FileLock(path.resolve())
    except StoreBusy as busy:
        if patient.answers:
            return Finding("store", "ok", busy.message)
        remedy = f"If that process should not run, stop it; else name its address: --url, now {patient.shown}."
        return Finding("store", "warn", f"{busy.message} No orchestrator answers.", (remedy,))
    except OSError as error:
        return Finding("store", "fail", f"{path} cannot be locked: {error.strerror}.", ("Let this user write there.",))
    try:
        return _schema(path)
    finally:
        lock.release()


def _schema(path: Path) -> Finding:
    try:
        # Read only: looking must change nothing, and bring no old store up to date.
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=1)) as connection:
            row, least = (connection.execute(READ_META, (key,)).fetchone() for key in (SCHEMA_KEY, NEEDS_KEY))
    except sqlite3.Error as error:
        remedy = "Put a backup of it back, or move it away to begin anew."
        return Finding("store", "fail", f"{path} cannot be read: {error}.", (remedy,))
    known, found = len(MIGRATIONS), int(row[0]) if row else 0
    if found > known and (least is None or int(least[0]) > known):
        sentence = f"{path} was written by a newer cc-orchestrator (schema {found}, this one knows {known})."
        return Finding("store", "fail", sentence, ("Update cc-orchestrator.",))
    later = "; `serve` brings it up to date" if found < known else ""
    return Finding("store", "ok", f"{path} can be opened, schema {found}{later}.")


def policy(patient: Patient) -> Finding:
    """The policy's file."""
    path = patient.settings.policy_path
    if not path.exists() and patient.settings.policy is None:
        return Finding("policy", "ok", f"{path} does not exist yet; the first `serve` writes the shipped one.")
    try:
        found = load_file(path).policy
    except OrchestratorError as error:
        return failed("policy", error)
    return Finding("policy", "ok", f"{path} can be loaded: {len(found.rules)} rules.")


def prompt(patient: Patient) -> Finding:
    """What models are told."""
    path = patient.settings.data_dir / prompts.FILE
    try:
        found = prompts.in_force(patient.settings.data_dir)
    except OrchestratorError as error:
        return failed("prompt", error)
    if found == prompts.shipped():
        return Finding("prompt", "ok", f"{path} does not exist; models are told the shipped text.")
    return Finding("prompt", "ok", f"{path} can be used: version {found.version}.")


def port(patient: Patient) -> Finding:
    """The port to listen on: free, ours, or somebody else's."""
    host, number = str(patient.running("host")), int(patient.running("port"))
    if patient.seen is not None:
        return Finding("port", "ok", f"The server listens on {host}, port {number}.")
    if number == 0:
        return Finding("port", "ok", "Any free port is taken.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                remedy = "Choose an address of this machine with --host, and a port above 1023 with --port."
                return Finding("port", "fail", f"{host}, port {number}, cannot be used: {error.strerror}.", (remedy,))
            if patient.answers:
                return Finding("port", "ok", f"An orchestrator listens on port {number}.")
            free = ("Stop it, or choose another port:", f"cc-orchestrator serve --port {number + 1}")
            return Finding("port", "fail", f"Port {number} of {host} is taken by another program.", free)
    return Finding("port", "ok", f"Port {number} of {host} is free.")
