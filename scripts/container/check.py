"""Checks ``Containerfile`` without podman or docker, as root: ``python3 scripts/container/check.py``.

Its steps are run one by one in directories that debootstrap fills with Debian 12 and Python 3.11, which stand in for
the image that it names. Then its command is started as a container would: process 1 of a namespace of its own, without
a network but loopback, as the user that the file names, without any capability, on a root that cannot be written; only
the volume can be. It has to answer on the one port, to keep its files in the volume, and to end after SIGTERM.
"""

import argparse
import ctypes
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent
PACKAGES: Final = "python3,python3-venv,ca-certificates"
BUNDLE: Final = Path("/etc/ssl/certs/ca-certificates.crt")
HANDED_ON: Final = re.compile(r"^(PIP_.*|.*_CERT|SSL_CERT_FILE|SSL_CERT_DIR|https?_proxy|HTTPS?_PROXY)$")
"""Of this environment, for the steps that ask a package index."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WITHIN_S: Final = 60.0
STOP_WITHIN_S: Final = 45.0
"""What docs/install.md tells people to give it."""
LISTENS: Final = "0A"
_IFF_UP: Final = 1
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914


@dataclass
class Image:
    """A stage: where its files are, and what the file says of its start."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    user: int = 0
    volume: str = ""
    port: int = 0
    command: list[str] = field(default_factory=list)


# -- the steps -----------------------------------------------------------------------------


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Each instruction and the rest of its line."""
    for line in text.split("\n"):
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word, rest.strip()


def built(base: Path, work: Path) -> Image:
    """Run the steps; the last stage."""
    stages: dict[str, Image] = {}
    image = Image(work)
    for word, rest in steps((HERE / "Containerfile").read_text("utf-8")):
        print(f"{word} {rest}", flush=True)
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "last"
            image = stages[name] = Image(work / name)
            subprocess.run(["cp", "--archive", str(base), str(image.root)], check=True)
        else:
            _step(word, rest, image, stages)
    return image


def _step(word: str, rest: str, image: Image, stages: dict[str, Image]) -> None:
    match word:
        case "COPY":
            _copy(shlex.split(rest), image, stages)
        case "RUN":
            told = {key: value for key, value in os.environ.items() if HANDED_ON.match(key)}
            told |= {"PATH": PATH, "HOME": "/root", **image.environment}
            subprocess.run(["chroot", str(image.root), "/bin/sh", "-c", rest], check=True, env=told)
        case "ENV":
            image.environment |= dict(one.split("=", 1) for one in shlex.split(rest))
        case "USER":
            image.user = int(rest)
        case "VOLUME":
            image.volume = rest
        case "EXPOSE":
            image.port = int(rest)
        case "STOPSIGNAL":
            assert rest == "SIGTERM", rest
        case "CMD":
            image.command = json.loads(rest)
        case _:
            raise SystemExit(f"cc-orchestrator: this check does not know {word}; teach it, or do without")


def _copy(words: list[str], image: Image, stages: dict[str, Image]) -> None:
    source = ROOT
    if words[0].startswith("--from="):
        source = stages[words.pop(0).removeprefix("--from=")].root
    *names, target = words
    to = image.root / target.lstrip("/")
    for name in names:
        one = source / name.lstrip("/")
        if one.is_dir():
            shutil.copytree(one, to, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            to.mkdir(parents=True, exist_ok=True)
            shutil.copy(one, to)


def based(where: Path) -> None:
    """What the file builds on, as far as Debian's own packages can stand in for it."""
    if shutil.which("debootstrap") is None:
        sys.exit("cc-orchestrator: debootstrap fills a directory with Debian and is not on PATH; install its package")
    subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(where)], check=True)


@contextmanager
def reachable(root: Path) -> Iterator[None]:
    """The names and certificates of this machine's network, for the steps alone."""
    ours = {root / "etc/resolv.conf": Path("/etc/resolv.conf"), root / str(BUNDLE).lstrip("/"): BUNDLE}
    for there, here in ours.items():
        if here.exists():
            there.unlink(missing_ok=True)
            shutil.copy(here, there)
    yield


# -- the start, inside of namespaces of its own ----------------------------------------------


def held(image: Image, volume: Path) -> int:
    """The exit code of this process: whether each start was as it should be."""
    try:
        _apart()
        inside(image, volume)
    except BaseException:  # noqa: BLE001 - nothing may leave this child, which shares its parent's clean-up
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
    return 0


def inside(image: Image, volume: Path) -> None:
    """Start it three times on one volume; each has to answer and to end. Runs in namespaces of its own."""
    _loopback_up()
    inner = image.root / image.volume.lstrip("/")
    _run("mount", "--bind", str(image.root), str(image.root))
    _run("mount", "--bind", str(volume), str(inner))
    _run("mount", "-o", "remount,bind,ro", str(image.root))
    _run("mount", "-t", "tmpfs", "tmpfs", str(image.root / "tmp"))
    first = played(image, image.command, image.port)
    assert "admin.token was written" in first or "token was written" in first, first
    token = inner / "admin.token"
    assert (token.stat().st_uid, token.stat().st_mode & 0o777) == (image.user, 0o600), token.stat()
    told = token.read_bytes()
    second = played(image, image.command, image.port)
    assert "token was written" not in second, second
    # As a host with a panel starts it: another port, which is the only one, and its address for the game.
    panel = [*image.command, "--port", "25600", "--public-url", "http://203.0.113.7:25600"]
    played(image, panel, 25600)
    assert token.read_bytes() == told
    print(f"the volume has {', '.join(sorted(one.name for one in inner.iterdir()))}")


def played(image: Image, command: Sequence[str], port: int) -> str:
    """One start: it answers, listens at one port, has no rights, takes a command, and ends; what it wrote."""
    limits = ["--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
    person = [f"--reuid={image.user}", f"--regid={image.user}", *limits]
    enter = ["chroot", str(image.root), "setpriv", *person]
    told = {"PATH": PATH, **image.environment}
    with tempfile.TemporaryFile("w+") as log:
        started = ["unshare", "--pid", "--fork", "--kill-child", *enter, *command]
        process = subprocess.Popen(started, env=told, stdout=log, stderr=subprocess.STDOUT)
        try:
            health = _answered(process, port)
            assert health == 200, health
            (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("ascii").split()
            status = Path(f"/proc/{child}/status").read_text("ascii")
            assert re.search(rf"^Uid:\s+{image.user}\s+{image.user}\s", status, re.MULTILINE), status
            assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE), status
            assert re.search(r"^NSpid:\s+\d+.*\s1$", status, re.MULTILINE), "it is not process 1"
            assert _ports() == {port}, _ports()
            asked = [*enter, "cc-orchestrator", "computers", "--json", "--url", f"http://127.0.0.1:{port}"]
            done = subprocess.run(asked, env=told, capture_output=True, text=True, check=True)
            assert json.loads(done.stdout) == [], done.stdout
            began = time.monotonic()
            os.kill(int(child), signal.SIGTERM)
            code = process.wait(STOP_WITHIN_S)
            print(
                f"port {port}: answered, and ended with code {code} in {time.monotonic() - began:.1f} s after SIGTERM"
            )
            assert code == 0, code
        finally:
            process.kill()
            process.wait()
            log.seek(0)
            text = log.read()
            if sys.exc_info()[0] is not None:
                print(text)
        return text


def _answered(process: "subprocess.Popen[bytes]", port: int) -> int:
    until = time.monotonic() + WITHIN_S
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        try:
            with opener.open(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
                return int(answer.status)
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.2)


def _ports() -> set[int]:
    """The ports at which anybody listens in this network."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().split("\n")[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == LISTENS}


def _loopback_up() -> None:
    with socket.socket() as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, asked))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _apart() -> None:
    """Leave the mounts, the network and the names of this machine."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, new_network, new_ipc, new_names = 0x20000, 0x40000000, 0x08000000, 0x04000000
    if libc.unshare(new_mounts | new_network | new_ipc | new_names):
        raise OSError(ctypes.get_errno(), "unshare")
    _run("mount", "--make-rprivate", "/")


def main() -> int:
    """Build it and start it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, help="a directory that debootstrap filled before, in place of a new one")
    known = parser.parse_args()
    if sys.platform != "linux" or os.geteuid() != 0:
        sys.exit("cc-orchestrator: this check makes namespaces of Linux; run it as root, on a machine to try things on")
    with tempfile.TemporaryDirectory(prefix="cc-orchestrator-image-") as directory:
        work = Path(directory)
        base = known.base or work / "base"
        if known.base is None:
            based(base)
        with reachable(base):
            image = built(base, work)
        volume = work / "volume"
        shutil.copytree(image.root / image.volume.lstrip("/"), volume)
        os.chown(volume, image.user, image.user)
        volume.chmod(0o700)
        # In a child: what it mounts goes with it, before the directory is removed.
        if (child := os.fork()) == 0:
            os._exit(held(image, volume))
        _, status = os.waitpid(child, 0)
    print("The steps ran and the start held." if status == 0 else "It does not hold: see above.")
    return 0 if status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
