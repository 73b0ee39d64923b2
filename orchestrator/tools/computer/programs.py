"""The ``cc_*`` tools that run a program: exactly the bytes that were shown, and their output."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from orchestrator.core.errors import ComputerFailed, ToolFailed
from orchestrator.core.model_view.rows import rest_of
from orchestrator.core.policy.command_line import split_words
from orchestrator.core.task.facts import Observed, ProgramEnd, Ran
from orchestrator.core.text.paths import canonical_path
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.tools.computer.commands import READ_WAIT_S, ask, channel_of, name_of, sentence
from orchestrator.tools.computer.discovery import TAB_ENDS, entries_of, tab_program
from orchestrator.tools.deps import (
    ABSENT,
    CCAgentDeps,
    NoProgram,
    ProgramFailed,
    call_cc_command,
    capped,
    decode_text,
    shown_name,
    wire_word,
)

# -- Stopping a program that runs in a tab of its own, which ``bg`` or ``fg`` opened -----

_TAB: Final = re.compile("tab-[0-9]{1,9}")


async def cc_stop(deps: CCAgentDeps, *, tab: str) -> str:
    """Stop the program of a tab, and say how it ended. Raises ToolFailed where no program runs there."""
    if deps.mode == "stub":
        return f"{tab}: [stub: nothing runs in tabs]"
    # Only tabs: any other name is the run of a call.
    is_tab = _TAB.fullmatch(tab) is not None
    data = (await ask(deps, "terminate", {"run": tab}, tab)).data if is_tab else {"state": "not_running"}
    if data.get("state") == "not_running":
        raise ToolFailed(f"No program runs in {tab}.", remedy="cc_info lists the tabs.")
    if data.get("state") == "stopping":
        return f"{tab} was told to stop and has not ended yet. cc_info tells when it has."
    said = f" {shown_name(str(data['message']))}" if data.get("message") else ""
    return f"{tab} {TAB_ENDS.get(str(data.get('ended')), 'ended')}.{said}"


async def observe_stop(deps: CCAgentDeps, *, tab: str) -> Observed:
    """The program in the tab now, for the reviewer. Raises ToolFailed where none runs."""
    if deps.mode == "stub":
        return Observed(state={}, note="Stub mode: nothing runs in tabs.")
    result = await ask(deps, "info", {}, "the computer", wait_s=READ_WAIT_S)
    try:
        found = next((one for one in entries_of(result.body) if one.get("tab") == tab and "ended" not in one), None)
    except (ValueError, TypeError) as error:
        raise ToolFailed("The computer's facts about its tabs cannot be read.") from error
    if found is None:
        raise ToolFailed(f"No program runs in {tab}.", remedy="cc_info lists the tabs.")
    return Observed(state={}, note=f"In {tab} runs: {tab_program(found)}, for {found.get('seconds', 0)} s now.")


# -- The ``cc_*`` tools that run a program: the very bytes that were shown, and what they printed

MAX_SHOWN_BYTES: Final = 64 * 1024
"""A longer program nobody reads at a prompt; its hash binds it all the same."""
RUN_TIMEOUT_S: Final = 60
"""How long a program may run: long enough for a turtle's errand, short enough to wait for."""
_PAUSE_S: Final = 10.0
"""The difference of real time to time of the game that is worth a word."""
_ANSWER_GRACE_S: Final = 30.0
"""Lag and the client's three tries to terminate, on top of the program's own time."""
READS_LINE: Final = "read()"
"""The events that a program waits for when it reads a line from the keyboard."""
_WAITING: Final[Mapping[str, str]] = {
    READS_LINE: "It waits for more typed input: add a line to input.",
    **dict.fromkeys(("key", "char", "key_up"), "It waits for a key: give it as input."),
    "": "It waits for any event, such as a key or a message.",
    "busy()": "It was busy and waited for nothing: the game ends what is busy for 7 s. Call sleep(0) in its loops.",
    **dict.fromkeys(("timer", "alarm"), "It sleeps ({})."),
    **dict.fromkeys(("task_complete", "turtle_response"), "It waits for the game to answer ({})."),
}
"""What is said of the first event of ``waits_for``, ``{}`` its name; the others are events of the program."""


async def cc_run_program(
    deps: CCAgentDeps,
    *,
    path: str,
    args: Sequence[str] = (),
    input: str = "",
    observe_s: int | None = None,
    timeout_s: int | None = None,
) -> str:
    """Run a program on the computer, the very bytes that were expected, and see its output.

    ``observe_s``: it is stopped after so many seconds of the game, and has ended well; None: it is not. ``timeout_s``:
    it is stopped at this limit, in seconds of the game; None: the limit of ``deps``.

    ``input`` is what the program is typed, as at a keyboard; empty: nothing. Enter is pressed after each line. After
    a last line without a line end it is pressed only where the program reads a line (``read``), so a program that
    waits for one key or character gets no Enter that it did not ask for. A line end at the end presses it always, and
    never twice. An empty line is Enter alone.
    """
    if deps.mode == "stub":
        deps.ran = await _ran_by_stub(deps, name_of(path))
        return f"Program {path} executed successfully.\nOutput:\n[stub: the program was not run]"
    program, sha256 = await _program(deps, "/" + name_of(path), path)
    params = {"path": program, "if_hash": sha256, **_times(deps, observe_s, timeout_s)}
    return await _run(deps, "run_program", params, list(args), input, f"Program {path}")


async def cc_shell(
    deps: CCAgentDeps, *, command: str, input: str = "", observe_s: int | None = None, timeout_s: int | None = None
) -> str:
    """Run one command line of the computer's shell and see its output; times as of ``cc_run_program``."""
    if deps.mode == "stub":
        deps.ran = await _ran_by_stub(deps, split_command(command)[0])
        return f"Command {command} executed successfully.\nOutput:\n[stub: the command was not run]"
    words = split_command(command)
    program, sha256 = await _program(deps, words[0], words[0])
    params = {"path": program, "if_hash": sha256, **_times(deps, observe_s, timeout_s)}
    return await _run(deps, "shell", params, words, input, f"Command {command}")


async def observe_run(
    deps: CCAgentDeps,
    *,
    path: str,
    args: Sequence[str] = (),
    input: str = "",
    observe_s: int | None = None,
    timeout_s: int | None = None,
) -> Observed:
    """The program as the computer resolves it, and the hash of its bytes."""
    del args, observe_s, timeout_s
    typed(input)
    return await _observe_program(deps, "/" + name_of(path))


async def observe_shell(
    deps: CCAgentDeps, *, command: str, input: str = "", observe_s: int | None = None, timeout_s: int | None = None
) -> Observed:
    """The program that the first word resolves to, and the hash of its bytes."""
    del observe_s, timeout_s
    typed(input)
    return await _observe_program(deps, split_command(command)[0])


def split_command(command: str) -> list[str]:
    """The words of a command line as the CC shell splits them: on blanks, and ``"`` groups.

    Raises ToolFailed for an empty line.
    """
    words = split_words(command)
    if not words:
        raise ToolFailed("The command is empty.")
    return words


def typed(text: str) -> bytes:
    """The text typed to a program, as bytes of the game. Raises ToolFailed for a text that cannot be typed there."""
    text = text.replace("\r\n", "\n")
    odd = next((char for char in text if char not in "\n\t\b" and not _is_typed(char)), None)
    if odd is not None:
        raise ToolFailed(
            f"The character {odd!r} of the input cannot be typed on a computer in the game.",
            remedy="Use letters, digits, signs and line ends.",
        )
    return text.encode("latin-1")


def _is_typed(char: str) -> bool:
    return " " <= char <= "~" or "\xa0" <= char <= "\xff"


_ENDS: Final[Mapping[str, ProgramEnd]] = {
    "returned": "finished",
    "error": "error",
    "program_error": "error",
    "observed": "observed",
    "timed_out": "timed_out",
    "terminated": "stopped",
    "abandoned": "abandoned",
}
"""The words of a client, in ``ended`` of a result and as a code, and what they are called in a record."""


def ran_of(bound: Mapping[str, Any], told: Mapping[str, Any], code: str = "returned") -> Ran | None:
    """The program that ran, from what its computer told; None: it never began.

    Facts that the computer does not tell are as they were bound: ``bound`` has ``path`` and ``if_hash``, ``code`` is
    the code of the result, or ``returned``.
    """
    ended = _ENDS.get(str(told.get("ended", code)))
    if ended is None:
        return None
    path, sha256 = told.get("path", bound["path"]), told.get("sha256", bound["if_hash"])
    seconds, waits_for = _whole(told.get("ran_ms")) / 1000, str(told.get("waits_for", ""))
    tabs = tuple(shown_name(str(told.get("tabs") or "")).split())
    return Ran(path=str(path), sha256=str(sha256), ended=ended, seconds=seconds, waits_for=waits_for, tabs=tabs)


# -- inside ------------------------------------------------------------------------------


def _whole(value: object) -> int:
    """A number that a client gave; 0 where it gave none."""
    return max(0, value) if isinstance(value, int) else 0


async def _ran_by_stub(deps: CCAgentDeps, name: str) -> Ran:
    """The program that stub mode says it ran: a file of the dictionary where there is one of this name."""
    path = canonical_path(name)
    spellings = [path] if path.endswith(".lua") else [path, f"{path}.lua"]
    for one in spellings:
        stat = (await ask(deps, "fs_stat", {"path": one}, name)).data
        if stat["kind"] == "file":
            return Ran(path=one, sha256=str(stat["sha256"]), ended="finished")
    return Ran(path=path, sha256=ABSENT, ended="finished")


def _times(deps: CCAgentDeps, observe_s: int | None, timeout_s: int | None) -> dict[str, int]:
    """The limits of a run as the wire has them: whole seconds, at least one; a watched program may run for so long."""
    limit = timeout_s or (RUN_TIMEOUT_S if deps.timeout_s is None else max(1, int(deps.timeout_s)))
    if observe_s is None:
        return {"timeout_s": limit}
    return {"timeout_s": max(limit, observe_s), "observe_s": observe_s}


async def _observe_program(deps: CCAgentDeps, name: str) -> Observed:
    if deps.mode == "stub":
        return Observed(state={name: ABSENT}, program=name, note="Stub mode: nothing is run.")
    try:
        stat = (await call_cc_command(channel_of(deps), "fs_stat", {"command": name})).data
    except ComputerFailed as error:
        if error.reason != "not_found":
            raise ToolFailed(sentence(error, name)) from error
        stat = {}
    if stat.get("kind") != "file":
        return Observed(
            state={canonical_path(name): ABSENT}, note=f"The computer finds no program {name} now.{_no_tabs(name)}"
        )
    program = str(stat["path"])
    note = f"Only the {stat.get('size', 0)} bytes of {program} are bound; what it loads by require or dofile is not."
    sha256, source = str(stat["sha256"]), None
    if program.startswith("rom/"):
        note += " It is part of the game."
    elif int(stat.get("size", 0)) > MAX_SHOWN_BYTES:
        note += f" It has more than {MAX_SHOWN_BYTES} bytes and is not shown."
    else:
        found = await ask(deps, "fs_read", {"path": program}, name)
        # The file that is shown is the one that is bound, also where it was changed since the look before.
        sha256, source = sha256_hex(found.body), decode_text(found.body)
    return Observed(state={program: sha256}, program=program, source=source, note=note)


async def _run(
    deps: CCAgentDeps, method: str, params: Mapping[str, Any], words: list[str], text: str, what: str
) -> str:
    body = json.dumps([wire_word(word) for word in words]).encode()
    if text:
        body += (keys := typed(text))
        params = {**params, "input_size": len(keys)}
    try:
        result = await call_cc_command(channel_of(deps), method, params, body, params["timeout_s"] + _ANSWER_GRACE_S)
    except ComputerFailed as error:
        if error.reason == "stale":
            raise
        ran = ran_of(params, error.data, error.reason)
        if ran is not None and ran.ended == "timed_out":
            deps.ran = ran
            return f"{what} {_over(params)}{_hint(error, text)}\nOutput:\n{_printed(error.body)}{_notes(error.data)}"
        shown = f"\nOutput:\n{_printed(error.body)}" if error.body else ""
        shown += _notes(error.data)
        told = f"{what} failed ({error.reason}): {error.message}{_hint(error, text)}{shown}"
        raise ToolFailed(told) if ran is None else ProgramFailed(told, ran) from error
    deps.ran = ran_of(params, result.data)
    is_watched = deps.ran is not None and deps.ran.ended == "observed"
    how = f"ran {params['observe_s']} s without an error, then stopped." if is_watched else "executed successfully."
    waits_for = result.data.get("waits_for")
    if is_watched and waits_for is not None:
        how += f" {waiting(str(waits_for), text)}"
    left = result.data.get("input_left") or 0
    unread = f"\n[{left} bytes of the input were not read]" if left else ""
    return f"{what} {how}\nOutput:\n{_printed(result.body)}{unread}{_notes(result.data)}"


def _over(params: Mapping[str, Any]) -> str:
    """The words about a program that reached its limit, and the limit to ask for the next time."""
    return (
        f"ran for its limit of {params['timeout_s']} s without an error, then stopped. An endless program needs less: "
        "give observe_s, such as observe_s=10. One that needs more time: give timeout_s."
    )


def _printed(output: bytes) -> str:
    return capped(decode_text(output), rest_of("cc_run_program"))


def _notes(data: Mapping[str, Any]) -> str:
    """What the computer says beside the output, a line each."""
    cut = data.get("cut") or 0
    notes = [f"\n[{cut} bytes of output were left out on the computer]"] if cut else []
    if data.get("ignored"):
        notes.append("\n[It ignored terminate, as Ctrl-T sends it, and was cut off: it does not run any more]")
    if opened := str(data.get("tabs") or ""):
        names = shown_name(opened).replace(" ", ", ")
        notes.append(f"\n[Runs on in the background: {names}. cc_info lists it, cc_screen shows it, cc_stop stops it]")
    real_s, game_s = _whole(data.get("real_ms")) / 1000, _whole(data.get("ran_ms")) / 1000
    if real_s - game_s > _PAUSE_S:
        notes.append(f"\n[The game was paused or slow: {game_s:.0f} s in the game took {real_s:.0f} s]")
    return "".join(notes)


def _hint(error: ComputerFailed, text: str) -> str:
    """The event that a stopped program waits for, and how it can get that."""
    if error.reason not in ("timed_out", "abandoned"):
        return ""
    left = error.data.get("input_left") or 0
    unread = f" {left} bytes of the input were not read." if left else ""
    waits_for = error.data.get("waits_for")
    if waits_for is not None:
        return f" {waiting(str(waits_for), text)}{unread}"
    if left:
        return unread
    more = "more to be typed, add that to input" if text else "something to be typed, give that as input"
    return f" If it waits for {more}."


def waiting(waits_for: str, text: str = "") -> str:
    """One sentence about what a program waited for when it was stopped.

    Args:
        waits_for: As its computer told it: names of events with ``, `` between; empty: any event.
        text: What it was typed.
    """
    first, *others = waits_for.split(", ")
    sentence = _WAITING.get(first, "It waits for the event {}.").replace("{}", first)
    if first == READS_LINE and not text:
        sentence = "It waits for a line to be typed: give that as input."
    elif first in ("key", "") and text and not text.endswith("\n"):
        sentence += " The last Enter was not pressed: a line end at the end of input presses it."
    if others:
        sentence += f" It also waits for {', '.join(others)}."
    return sentence


async def _program(deps: CCAgentDeps, command: str, shown: str) -> tuple[str, str]:
    if deps.expected is not None:
        program, sha256 = next(iter(deps.expected.items()), ("", ABSENT))
    else:
        observed = await _observe_program(deps, command)
        program, sha256 = next(iter(observed.state.items()))
    if sha256 == ABSENT:
        remedy = _no_tabs(shown).strip() or "Write it first, or list the directory."
        raise NoProgram(f"The computer finds no program {shown}.", remedy=remedy)
    return program, sha256


def _no_tabs(name: str) -> str:
    """What to know of a program that opens tabs, where a computer does not have it."""
    if name not in ("bg", "fg"):
        return ""
    return f" {name} exists only on advanced computers. Use observe_s to watch an endless program instead."
