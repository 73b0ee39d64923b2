"""The checks of the house, one after the other; ``scripts/test.py`` starts this inside ``.venv``.

One line per check, with its time; output only of what fails. A check whose tool is not here
and cannot be installed is named and skipped, and fails with ``--require-all``. pytest's
closing line and a line that counts the checks end the output.
"""

import argparse
import compileall
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import tools
from engine import NOT_HERE

ROOT = Path(__file__).resolve().parent.parent
CHECK_LIMIT_S = 35 * 60
"""More than the 30 minutes that pytest allows itself, so that pytest says what hangs."""
DEEP_LIMIT_S = 12 * 60 * 60
CLOSING = re.compile(r"^(?:=+ )?((?:\d+ \w+(?:, )?)+ in \d+\.\d+s(?: \(.*\))?)(?: =+)?$", re.MULTILINE)
"""pytest's last line, with its frame or (``-q``) without."""


@dataclass(frozen=True)
class Run:
    """A run of pytest of its own; of its paths those that are there."""

    paths: tuple[str, ...]
    marks: str = ""
    """Which of the tests there, as ``-m`` has it; empty: all."""
    counted: bool = False
    """It counts the branches of the core, which makes it take three times as long."""


APART = (
    Run(("tests/core",), "not uncounted", counted=True),
    Run(("tests/core",), "uncounted"),
    Run(("tests/explorer", "tests/lua")),
    Run(("tests/bus", "tests/nodes", "tests/store")),
    Run(("tests/story",)),
    Run(
        (
            "tests/story/test_computer_kills.py",
            "tests/story/test_undo_faults.py",
            "tests/story/test_rehearsal.py",
            "tests/story/test_installing.py",
            "tests/story/test_install_faults.py",
        )
    ),
    Run(("tests/shell",)),
    Run(("tests/commands",)),
    Run(("tests/browser",)),
)
"""These stand beside one run of all the other tests: most of them wait for a process, a socket or the disk."""


@dataclass(frozen=True)
class Options:
    """What the command line asked for."""

    require_all: bool
    deep: bool
    pytest: tuple[str, ...]

    @property
    def limit_s(self) -> float:
        """How long one check may take."""
        return DEEP_LIMIT_S if self.deep else CHECK_LIMIT_S


@dataclass(frozen=True)
class Outcome:
    """How a check ended; ``note`` goes on its line, ``output`` below it when the check failed."""

    status: Literal["ok", "failed", "skipped"]
    note: str = ""
    output: str = ""
    code: int = 0
    """The exit code of its command."""


def main(arguments: Sequence[str]) -> int:
    """Run all checks; 0 only when none failed (and, with ``--require-all``, none was skipped)."""
    options = parse(arguments)
    # A shell's background job has Ctrl-C switched off, and so would have the commands that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    outcomes: list[Outcome] = []
    for name, check in CHECKS.items():
        print(f"{name:<26}", end=" ", flush=True)
        started = time.monotonic()
        outcome = check(options)
        outcomes.append(outcome)
        print(f"{outcome.status:<8}{time.monotonic() - started:6.1f} s  {outcome.note}".rstrip(), flush=True)
        if outcome.status == "failed" and outcome.output:
            print(outcome.output.rstrip(), flush=True)
    count = {status: sum(one.status == status for one in outcomes) for status in ("ok", "failed", "skipped")}
    closing = next((one.note for name, one in zip(CHECKS, outcomes, strict=True) if name == "pytest"), "")
    print(f"\n===== pytest: {closing or 'did not run to its end'} =====")
    summary = f"checks: {count['ok']} ok, {count['failed']} failed, {count['skipped']} skipped"
    required = " (--require-all: a skipped check is a failed one)" if options.require_all and count["skipped"] else ""
    print(f"{summary} in {time.monotonic() - began:.0f} s{required}", flush=True)
    return 1 if count["failed"] or required else 0


def parse(arguments: Sequence[str]) -> Options:
    """The options; what follows ``--`` is pytest's."""
    cut = list(arguments).index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(
        prog="scripts/test.py", description="Every check of the house.", epilog="What follows -- goes to pytest."
    )
    parser.add_argument("--require-all", action="store_true", help="fail when something had to be skipped")
    parser.add_argument("--deep", action="store_true", help="run the long proofs too")
    known = parser.parse_args(arguments[:cut])
    return Options(require_all=known.require_all, deep=known.deep, pytest=tuple(arguments[cut + 1 :]))


# -- the checks ---------------------------------------------------------------------------


def ruff_check(options: Options) -> Outcome:
    """Lint."""
    return judged([sys.executable, "-m", "ruff", "check", "--quiet", "."], options)


def ruff_format(options: Options) -> Outcome:
    """Whether every Python file is laid out as the formatter would."""
    return judged([sys.executable, "-m", "ruff", "format", "--check", "."], options)


def mypy(options: Options) -> Outcome:
    """Types."""
    return judged([sys.executable, "-m", "mypy"], options)


def luacheck(options: Options) -> Outcome:
    """Lint of the Lua client and its specs."""
    return with_tool(tools.luacheck(), ["--codes", "--no-color", *lua_files()], options)


def stylua(options: Options) -> Outcome:
    """Layout of the Lua client and its specs."""
    return with_tool(tools.stylua(), ["--check", *lua_files()], options)


def bundle(options: Options) -> Outcome:
    """Whether the client's single file is what its modules say."""
    return judged([sys.executable, "scripts/bundle_client.py", "--check"], options)


def browser(options: Options) -> Outcome:
    """Whether there is a browser for the tests of the page, which are skipped where there is none."""
    found = tools.chromium()
    return Outcome("skipped", note=found.why) if isinstance(found, tools.Missing) else Outcome("ok")


def docs(options: Options) -> Outcome:
    """Whether the tables in the docs are those of the code."""
    return judged([sys.executable, "scripts/docs.py", "--check"], options)


def engine(options: Options) -> Outcome:
    """The engine that the deep tests run, built before they begin: pytest would take the time for theirs."""
    script = [sys.executable, "scripts/engine.py"]
    if not options.deep:
        return Outcome("ok", note="not asked: only --deep runs it")
    if judged([*script, "--check"], options).status == "ok":
        return Outcome("ok")
    print("is being built …", end=" ", flush=True)
    outcome = judged(script, options)
    if outcome.code == NOT_HERE:
        return Outcome("skipped", note=outcome.output.strip().splitlines()[-1].removeprefix("cc-orchestrator: "))
    return outcome


def pytest(options: Options) -> Outcome:
    """All tests, Lua specs included, in a few runs side by side; one of them counts the branches of the core."""
    anew = ("-o", f"session_timeout={DEEP_LIMIT_S}", "--hypothesis-profile=drawn_anew") if options.deep else ()
    run = ["-m", "pytest", "--color=no", *anew]
    counting = ["-m", "coverage", "run"]
    if options.pytest:
        return _closed(judged([sys.executable, *counting, *run, *_marked(options), *options.pytest], options))
    commands = [
        [
            sys.executable,
            *(counting if one.counted else []),
            *run,
            *_marked(options, one.marks),
            *(path for path in one.paths if (ROOT / path).exists()),
            *_others(one),
        ]
        for one in (*APART, Run(("tests",)))
    ]
    # Hundreds of tests start processes. Where the environment forbids Python to keep what it compiles, each of these
    # would compile all of it anew, which is half of its start.
    for room in ("orchestrator", "tests"):
        compileall.compile_dir(ROOT / room, quiet=2, workers=0)
    with ThreadPoolExecutor(len(commands)) as pool:
        return _together([_closed(one) for one in pool.map(lambda command: judged(command, options), commands)])


def _others(run: Run) -> list[str]:
    """The options that leave out what lies below a run's paths and has a run of its own."""
    return [
        f"--ignore={path}"
        for one in APART
        for path in one.paths
        if any(path.startswith(f"{own}/") for own in run.paths)
    ]


def _marked(options: Options, marks: str = "") -> list[str]:
    """The option that chooses tests by their marks; the long proofs are left out unless they are asked for."""
    wanted = [one for one in (marks, "" if options.deep else "not deep") if one]
    return ["-m", " and ".join(wanted)] if wanted else []


def _closed(outcome: Outcome) -> Outcome:
    """The outcome of a run of pytest with pytest's own closing line as its note."""
    closing = CLOSING.findall(outcome.output)
    return replace(outcome, note=closing[-1]) if closing else outcome


def _together(runs: Sequence[Outcome]) -> Outcome:
    """Several runs of pytest as one: the counts of all, the time of the longest, and what each said."""
    failed = any(one.status == "failed" for one in runs)
    status: Literal["ok", "failed"] = "failed" if failed else "ok"
    output = "\n".join(one.output for one in runs)
    if not all(CLOSING.fullmatch(one.note) for one in runs):
        return Outcome(status, note="; ".join(one.note for one in runs), output=output)
    counts: Counter[str] = Counter()
    for one in runs:
        for number, word in re.findall(r"(\d+) ([a-z]+)", one.note.partition(" in ")[0]):
            counts[word] += int(number)
    seconds = max(float(one.note.partition(" in ")[2].partition("s")[0]) for one in runs)
    told = ", ".join(f"{number} {word}" for word, number in counts.items())
    return Outcome(status, note=f"{told} in {seconds:.2f}s", output=output)


def core_coverage(options: Options) -> Outcome:
    """Whether the tests went through every branch of the core."""
    if options.pytest:
        return Outcome("ok", note="not asked: only some of the tests ran")
    return judged([sys.executable, "-m", "coverage", "report"], options)


CHECKS: dict[str, Callable[[Options], Outcome]] = {
    "ruff check": ruff_check,
    "ruff format": ruff_format,
    "mypy --strict": mypy,
    "luacheck": luacheck,
    "stylua": stylua,
    "client bundle": bundle,
    "tables in docs": docs,
    "engine": engine,
    "browser": browser,
    "pytest": pytest,
    "branches of core": core_coverage,
}


# -- hands --------------------------------------------------------------------------------


def judged(command: Sequence[str], options: Options) -> Outcome:
    """Run a command in the checkout: its exit code is the verdict."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=options.limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else ""
        return Outcome("failed", note=f"took more than {options.limit_s:.0f} s", output=said)
    if done.returncode:
        return Outcome("failed", note=f"exit code {done.returncode}", output=done.stdout, code=done.returncode)
    return Outcome("ok", output=done.stdout)


def with_tool(tool: Path | tools.Missing, arguments: Sequence[str], options: Options) -> Outcome:
    """Run a tool that is not Python's, or say why it is not here."""
    if isinstance(tool, tools.Missing):
        return Outcome("skipped", note=tool.why)
    return judged([str(tool), *arguments], options)


def lua_files() -> list[str]:
    """The Lua that people write: not the bundles, which are made from it."""
    every = (path for room in ("cc_client", "tests") for path in sorted((ROOT / room).rglob("*.lua")))
    return [str(path.relative_to(ROOT)) for path in every if path.parent != ROOT / "cc_client"]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("\ninterrupted")
