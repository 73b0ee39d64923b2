"""Every check of the project; ``scripts/test.py`` starts this inside ``.venv``.

The short checks run beside the tests. One line for each check, with its time, and its output only where it
fails. A check whose tool is not here and cannot be installed is named and skipped, and fails with ``--require-all``.
The output ends with a line that counts the checks, and where tests failed with their list.
"""

import argparse
import compileall
import json
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import tools
from engine import NOT_HERE

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.parallel.load import usable_cores  # noqa: E402 - needs the line above

CLOSING = re.compile(r"^(?:=+ )?((?:\d+ \w+(?:, )?)+ in \d+\.\d+s(?: \(.*\))?)(?: =+)?$", re.MULTILINE)
"""pytest's last line, with its frame or (``-q``) without."""
END_S = 20
"""How long a command may take to end its children after Ctrl-C, before it is killed."""


@dataclass(frozen=True)
class Options:
    """What the command line asked for."""

    require_all: bool
    deep: bool
    record: bool
    workers: int
    """How many cores the tests keep busy."""
    pytest: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """How a check ended; ``note`` goes on its line, ``output`` below it when the check failed."""

    status: Literal["ok", "failed", "skipped"]
    note: str = ""
    output: str = ""
    code: int = 0
    """The exit code of its command."""
    red: dict[str, str] = field(default_factory=dict)
    """Of the tests: those that failed, each with its reason in one line."""


Check = Callable[[Options], Outcome]


def main(arguments: Sequence[str]) -> int:
    """Run all checks; 0 only when none failed (and, with ``--require-all``, none was skipped)."""
    options = parse(arguments)
    # A shell's background job has Ctrl-C switched off, and so would have the commands that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    outcomes: dict[str, Outcome] = {}
    for name, check in BEFORE.items():
        _tell(outcomes, *_timed(name, check, options))
    with ThreadPoolExecutor(min(options.workers, BESIDE)) as pool, ended_early(pool):
        asked = [pool.submit(_timed, name, check, options) for name, check in SIDE_BY_SIDE.items()]
        for one in as_completed(asked):
            _tell(outcomes, *one.result())
    _tell(outcomes, *_timed("branches of core", core_coverage, options))
    count = {status: sum(one.status == status for one in outcomes.values()) for status in ("ok", "failed", "skipped")}
    print(f"\n===== pytest: {outcomes['pytest'].note or 'did not run to its end'} =====")
    summary = f"checks: {count['ok']} ok, {count['failed']} failed, {count['skipped']} skipped"
    required = " (--require-all: a skipped check is a failed one)" if options.require_all and count["skipped"] else ""
    print(f"{summary} in {time.monotonic() - began:.0f} s{required}", flush=True)
    _tell_red(outcomes["pytest"].red)
    return 1 if count["failed"] or required else 0


def parse(arguments: Sequence[str]) -> Options:
    """The options; what follows ``--`` is pytest's."""
    cut = list(arguments).index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(
        prog="scripts/test.py", description="Every check of the project.", epilog="What follows -- goes to pytest."
    )
    parser.add_argument("--require-all", action="store_true", help="fail when something had to be skipped")
    parser.add_argument("--deep", action="store_true", help="run the long proofs too")
    parser.add_argument("--record", action="store_true", help="record the seconds that each test file needs")
    parser.add_argument(
        "-j", type=_number, default=usable_cores(), metavar="N", help="keep N cores busy; %(default)s here"
    )
    known = parser.parse_args(arguments[:cut])
    return Options(known.require_all, known.deep, known.record, known.j, tuple(arguments[cut + 1 :]))


def _number(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number from 1 on, not {text!r}")
    return int(text)


def _timed(name: str, check: Check, options: Options) -> tuple[str, Outcome, float]:
    started = time.monotonic()
    return name, check(options), time.monotonic() - started


def _tell(outcomes: dict[str, Outcome], name: str, outcome: Outcome, seconds: float) -> None:
    outcomes[name] = outcome
    print(f"{name:<26} {outcome.status:<8}{seconds:6.1f} s  {outcome.note}".rstrip(), flush=True)
    if outcome.status == "failed" and outcome.output:
        print(outcome.output.rstrip(), flush=True)


def _tell_red(red: dict[str, str]) -> None:
    """Each test that failed, why, and the command that runs it alone."""
    if not red:
        return
    python = Path(sys.executable)
    command = python.relative_to(ROOT) if python.is_relative_to(ROOT) else python
    print(f"\n===== {len(red)} red =====")
    for nodeid, why in red.items():
        print(f"{nodeid}\n    {why}\n    {command} -m pytest {shlex.quote(nodeid)}", flush=True)


# -- the checks ---------------------------------------------------------------------------


def ruff_check(options: Options) -> Outcome:
    """Lint."""
    return judged([sys.executable, "-m", "ruff", "check", "--quiet", "."])


def ruff_format(options: Options) -> Outcome:
    """Whether every Python file is laid out as the formatter would."""
    return judged([sys.executable, "-m", "ruff", "format", "--check", "."])


def mypy(options: Options) -> Outcome:
    """Types."""
    return judged([sys.executable, "-m", "mypy"])


def lock(options: Options) -> Outcome:
    """Whether the locked packages are those that the project asks for."""
    return judged([sys.executable, "scripts/lock.py", "--check"])


def luacheck(options: Options) -> Outcome:
    """Lint of the Lua client and its specs."""
    return with_tool(tools.luacheck(), ["--codes", "--no-color", *lua_files()])


def stylua(options: Options) -> Outcome:
    """Layout of the Lua client and its specs."""
    return with_tool(tools.stylua(), ["--check", *lua_files()])


def stock_lua(options: Options) -> Outcome:
    """Whether there is a Lua 5.2 that no Python surrounds, for the specs of the client."""
    return there(tools.lua())


def bundle(options: Options) -> Outcome:
    """Whether the client's single file is what its modules say."""
    return judged([sys.executable, "scripts/bundle_client.py", "--check"])


def browser(options: Options) -> Outcome:
    """Whether there is a browser for the tests of the page, which are skipped where there is none."""
    return there(tools.chromium())


def pooler(options: Options) -> Outcome:
    """Whether there is a pgbouncer for the tests of a pooler, which are skipped where there is none."""
    return there(tools.pgbouncer())


def docs(options: Options) -> Outcome:
    """Whether the tables in the docs are those of the code."""
    return judged([sys.executable, "scripts/docs.py", "--check"])


def site(options: Options) -> Outcome:
    """Whether the site of the docs can be built, and every link in it leads somewhere."""
    return judged([sys.executable, "scripts/docs_site.py"])


def plain_words(options: Options) -> Outcome:
    """Whether docs have short sentences, and docs and code the words of the glossary."""
    return judged([sys.executable, "scripts/plain_words.py"])


def engine(options: Options) -> Outcome:
    """The engine that the deep tests run, built before they begin: pytest would take the time for theirs."""
    script = [sys.executable, "scripts/engine.py"]
    if not options.deep:
        return Outcome("ok", note="not asked: only --deep runs it")
    if judged([*script, "--check"]).status == "ok":
        return Outcome("ok")
    print("is being built …", end=" ", flush=True)
    outcome = judged(script)
    if outcome.code == NOT_HERE:
        return Outcome("skipped", note=outcome.output.strip().splitlines()[-1].removeprefix("cc-orchestrator: "))
    return outcome


def pytest(options: Options) -> Outcome:
    """All tests, Lua specs included; those of the core count its branches."""
    # Hundreds of tests start processes. Where the environment forbids Python to keep what it compiles, each of these
    # would compile all of it anew, which is half of its start.
    for room in ("orchestrator", "cc_client", "tests"):
        compileall.compile_dir(ROOT / room, quiet=2, workers=0)
    with tempfile.TemporaryDirectory() as directory:
        red = Path(directory) / "red.json"
        command = [sys.executable, "-m", "pytest", "--color=no", "-q", "-p", "tests.parallel.plugin", f"--red={red}"]
        command += [f"--workers={options.workers}", *(["--no-skips"] if options.require_all else [])]
        command += ["--hypothesis-profile=deep"] if options.deep else ["-m", "not deep"]
        command += ["--record"] if options.record else []
        command += options.pytest or ["--branches"]
        outcome = judged(command, told=True)
        told = json.loads(red.read_text(encoding="utf-8")) if red.exists() else {}
    closing = CLOSING.findall(outcome.output)
    return replace(outcome, note=closing[-1] if closing else outcome.note, red=told)


def core_coverage(options: Options) -> Outcome:
    """Whether the tests went through every branch of the core."""
    if options.pytest:
        return Outcome("ok", note="not asked: only some of the tests ran")
    return judged([sys.executable, "-m", "coverage", "report"])


BEFORE: dict[str, Check] = {
    "Lua 5.2": stock_lua,
    "browser": browser,
    "pooler": pooler,
    "engine": engine,
}
"""What the tests need."""
SIDE_BY_SIDE: dict[str, Check] = {
    "ruff check": ruff_check,
    "ruff format": ruff_format,
    "client bundle": bundle,
    "lock": lock,
    "tables in docs": docs,
    "site of docs": site,
    "plain words": plain_words,
    "luacheck": luacheck,
    "mypy --strict": mypy,
    "pytest": pytest,
    "stylua": stylua,
}
BESIDE = 2
"""The tests, and beside them one other check at a time: the tests are collected by one process."""


# -- hands --------------------------------------------------------------------------------

_PROCESSES: set["subprocess.Popen[str]"] = set()


@contextmanager
def ended_early(pool: ThreadPoolExecutor) -> Iterator[None]:
    """Where the block is left early, by Ctrl-C for one, no command of it goes on and none begins."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(_PROCESSES):
            _end(process)
        raise


def judged(command: Sequence[str], *, told: bool = False) -> Outcome:
    """Run a command in the checkout: its exit code is the verdict.

    ``told``: what it says on standard error is shown as it comes, and not kept.
    """
    pipe = subprocess.PIPE
    errors = None if told else subprocess.STDOUT
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=pipe, stderr=errors, text=True, errors="replace"
    )
    _PROCESSES.add(process)
    try:
        output, _ = process.communicate()
    except BaseException:
        _end(process)
        raise
    finally:
        _PROCESSES.discard(process)
    if process.returncode:
        return Outcome("failed", note=f"exit code {process.returncode}", output=output, code=process.returncode)
    return Outcome("ok", output=output)


def _end(process: "subprocess.Popen[str]") -> None:
    """Interrupt a command, so that it ends its children; kill it where it does not."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def there(tool: Path | tools.Missing) -> Outcome:
    """Whether a tool that only tests use is here."""
    return Outcome("skipped", note=tool.why) if isinstance(tool, tools.Missing) else Outcome("ok")


def with_tool(tool: Path | tools.Missing, arguments: Sequence[str]) -> Outcome:
    """Run a tool that is not Python's, or say why it is not here."""
    if isinstance(tool, tools.Missing):
        return Outcome("skipped", note=tool.why)
    return judged([str(tool), *arguments])


def lua_files() -> list[str]:
    """The Lua that people write: not the bundles, which are made from it."""
    every = (path for room in ("cc_client", "tests") for path in sorted((ROOT / room).rglob("*.lua")))
    return [str(path.relative_to(ROOT)) for path in every if path.parent != ROOT / "cc_client"]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("\ninterrupted")
