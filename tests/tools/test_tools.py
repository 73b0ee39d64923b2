"""Every tool by hand: in stub mode, over a channel, and in a real workspace."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.core.errors import (
    CallLost,
    CallVoid,
    ComputerAway,
    ComputerFailed,
    OrchestratorError,
    ToolFailed,
    UnsafePath,
)
from orchestrator.core.ports import CallResult
from orchestrator.core.task.facts import Ran
from orchestrator.core.wire.wire import MAX_WHOLE_BYTES, RunId, sha256_hex
from orchestrator.tools import local
from orchestrator.tools.computer import observation, programs
from orchestrator.tools.computer.programs import split_command
from orchestrator.tools.deps import MAX_RESULT_CHARS, CCAgentDeps, ProgramFailed, call_cc_command, capped
from orchestrator.tools.registry import TOOL_REGISTRY
from orchestrator.tools.workspace import STAGING, DirectoryWorkspace
from tests.harness.support import ABSENT, Channel, Disk

LATIN_1 = "print('grün')\n".encode("latin-1")


@pytest.fixture
def stub() -> CCAgentDeps:
    return CCAgentDeps(mode="stub")


@pytest.fixture
def channel() -> Channel:
    return Channel(Disk({"a.lua": b"old\n"}))


@pytest.fixture
def live(channel: Channel) -> CCAgentDeps:
    return CCAgentDeps(mode="live", ws_client=channel, computer="3")


@pytest.fixture
def workspace(tmp_path: Path) -> DirectoryWorkspace:
    return DirectoryWorkspace(tmp_path / "work")


@pytest.fixture
def here(workspace: DirectoryWorkspace) -> CCAgentDeps:
    return CCAgentDeps(mode="stub", workspace=workspace)


async def use(name: str, deps: CCAgentDeps, **args: Any) -> str:
    return await TOOL_REGISTRY[name](deps, **args)


# -- the registry ------------------------------------------------------------------------


async def test_wrong_arguments_never_reach_the_function(stub: CCAgentDeps) -> None:
    """A tool called with an unknown, missing or ill-typed argument refuses before anything happens."""
    for args in ({"path": "a", "content": "x", "mode": "w"}, {"path": "a"}, {"path": 1, "content": "x"}):
        with pytest.raises(ValidationError):
            await use("cc_write", stub, **args)
    assert stub.file_cache == {}


# -- stub mode ---------------------------------------------------------------------------


async def test_a_stub_read_invents_a_file_and_keeps_it(stub: CCAgentDeps) -> None:
    """Reading an unknown file in stub mode gives `-- Stub content for {path}`, numbered as any, and caches it."""
    assert await use("cc_read", stub, path="/farm.lua") == "1| -- Stub content for /farm.lua"
    assert stub.file_cache == {"farm.lua": "-- Stub content for /farm.lua\n"}
    assert await use("cc_read", stub, path="farm.lua") == "1| -- Stub content for /farm.lua"


async def test_a_stub_write_says_how_many_bytes_and_is_read_back(stub: CCAgentDeps) -> None:
    """A stub write counts the bytes of UTF-8, and a read by any spelling of the path gives it back."""
    assert await use("cc_write", stub, path="/d/../a.lua", content="-- ü\n") == (
        "Wrote 6 bytes to /d/../a.lua (which the computer calls a.lua)"
    )
    assert await use("cc_read", stub, path="a.lua") == "1| -- ü"


async def test_a_stub_list_shows_what_was_written(stub: CCAgentDeps) -> None:
    """The stub's listing is of the cache, each name once, and says when there is nothing."""
    assert await use("cc_list", stub, path="/") == "(empty)"
    for path in ("b.lua", "lib/x.lua", "lib/y.lua"):
        await use("cc_write", stub, path=path, content="")
    assert await use("cc_list", stub, path="/") == "b.lua  0\nlib/"
    assert await use("cc_list", stub, path="lib") == "x.lua  0\ny.lua  0"


async def test_a_stub_delete_takes_it_away_once(stub: CCAgentDeps) -> None:
    """A stub delete removes the file; of what is not there it says so."""
    await use("cc_write", stub, path="a", content="x")
    assert await use("cc_delete", stub, path="/a") == "Deleted /a"
    with pytest.raises(ToolFailed, match=r"^There is no /a on the computer\.$"):
        await use("cc_delete", stub, path="/a")


async def test_a_stub_run_never_claims_output_of_its_own(stub: CCAgentDeps) -> None:
    """Running in stub mode has the seeds' words and says that nothing was run."""
    assert await use("cc_run_program", stub, path="a.lua", args=["1"]) == (
        "Program a.lua executed successfully.\nOutput:\n[stub: the program was not run]"
    )
    assert await use("cc_shell", stub, command="ls /") == (
        "Command ls / executed successfully.\nOutput:\n[stub: the command was not run]"
    )


async def test_tools_that_speak_to_people_by_hand(stub: CCAgentDeps) -> None:
    """Called by hand, status and question only say what would happen."""
    assert await use("send_status", stub, message="hi") == "Status sent."
    assert await use("ask_user", stub, question="why?") == "Nobody is here to answer: why?"


async def test_stub_observers_show_the_diff_and_the_hash(stub: CCAgentDeps) -> None:
    """What a reviewer is shown in stub mode is made from the cache, as live from the computer."""
    new = await observation.observe_write(stub, path="a", content="x\n")
    assert (new.state, new.diff) == ({"a": ABSENT}, "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n")
    stub.file_cache["a"] = "x\n"
    assert (await observation.observe_write(stub, path="a", content="x\n")).state == {"a": sha256_hex(b"x\n")}
    assert (await observation.observe_delete(stub, path="/a")).state == {"a": sha256_hex(b"x\n")}
    assert (await observation.observe_delete(stub, path="b")).state == {"b": ABSENT}
    run = await programs.observe_run(stub, path="a")
    assert (run.state, run.program, run.note) == ({"/a": ABSENT}, "/a", "Stub mode: nothing is run.")


# -- live: reading -----------------------------------------------------------------------


async def test_a_read_sends_one_frame_with_the_canonical_path(live: CCAgentDeps, channel: Channel) -> None:
    """A live read is one `fs_read` of the canonical path and gives the text."""
    assert await use("cc_read", live, path="/x/../a.lua") == "1| old"
    assert [(frame.method, frame.params, frame.body) for frame in channel.frames] == [
        ("fs_read", {"path": "a.lua"}, None)
    ]


async def test_text_travels_in_params_as_the_bytes_of_its_utf_8(live: CCAgentDeps, channel: Channel) -> None:
    """A name outside ASCII is sent as a byte string, each byte of its UTF-8 one character."""
    channel.disk.files["gr\u00c3\u00bcn"] = b"x\n"
    assert await use("cc_read", live, path="grün") == "1| x"
    assert channel.frames[0].params == {"path": "gr\u00c3\u00bcn"}


@pytest.mark.parametrize(
    ("data", "text"),
    [("grün\n".encode(), "1| grün"), (LATIN_1, "1| print('grün')"), (b"x\xff\x00\n" + b"x" * 40 + b"\n", None)],
)
async def test_bytes_become_text_as_utf_8_or_else_latin_1(
    live: CCAgentDeps, channel: Channel, data: bytes, text: str | None
) -> None:
    """What is valid UTF-8 is read so, anything else as latin-1, so that no read ever fails on bytes."""
    channel.disk.files["f"] = data
    assert await use("cc_read", live, path="f") == (text or f"1| xÿ\x00\n2| {'x' * 40}")


async def test_a_listing_reads_well(live: CCAgentDeps, channel: Channel) -> None:
    """A listing is one name a line, directories with a slash, files with their size, names as UTF-8."""
    entries = [{"name": "rom", "dir": True, "size": 0}, {"name": "gr\u00c3\u00bcn", "dir": False, "size": 7}]
    channel.answers["fs_list"] = CallResult({"count": 2}, json.dumps(entries).encode())
    assert await use("cc_list", live, path="/") == "rom/\ngrün  7"
    channel.answers["fs_list"] = CallResult({"count": 0}, b"[]")
    assert await use("cc_list", live, path="/") == "(empty)"


@pytest.mark.parametrize("body", [b"{", b"[1]", b'[{"name": "a"}]', b'[{"name": 3, "dir": false, "size": 1}]', b"7"])
async def test_a_listing_that_is_none_is_an_error_of_the_tool(live: CCAgentDeps, channel: Channel, body: bytes) -> None:
    """A computer that answers nonsense gets the model a sentence, never a traceback."""
    channel.answers["fs_list"] = CallResult({"count": 1}, body)
    with pytest.raises(ToolFailed, match="cannot be read"):
        await use("cc_list", live, path="/")


async def test_long_output_is_capped_with_the_cut_visible(live: CCAgentDeps, channel: Channel) -> None:
    """The model sees head and tail of what is too long, and how much is missing between (E8)."""
    channel.disk.files["big"] = b"h" * 10_000 + b"t" * 10_000 + b"\n"
    text = await use("cc_read", live, path="big")
    assert text.startswith("1| hhh")
    assert text.endswith("ttt")
    assert "h[… 8141 characters left out, 7907-16047 of this line; cc_find with contains shows the part around" in text
    assert len(text) < MAX_RESULT_CHARS


def test_what_fits_is_not_capped() -> None:
    """Up to the cap nothing is cut; one character more is."""
    assert capped("x" * MAX_RESULT_CHARS) == "x" * MAX_RESULT_CHARS
    assert re.search(r"x\[… \d+ characters left out, \d+-\d+ of this line …\]x", capped("x" * (MAX_RESULT_CHARS + 1)))
    rows = capped("row\n" * MAX_RESULT_CHARS)
    assert re.search(r"row\n\[lines \d+-\d+ left out\]\nrow\n", rows)
    assert len(rows) < MAX_RESULT_CHARS + 100


SENTENCES: Mapping[str, tuple[dict[str, Any], str]] = {
    "not_found": ({}, "There is no /a on the computer."),
    "is_directory": ({}, "/a is a directory."),
    "not_a_directory": ({}, "/a is a file, not a directory."),
    "not_a_directory ": ({"file": "gr\u00c3\u00bcn"}, "grün is a file, not a directory."),
    "read_only": ({}, "/a is read-only."),
    "access_denied": ({}, "The computer does not give access to /a."),
    "too_large": ({}, f"/a is larger than the {MAX_WHOLE_BYTES} bytes that can be sent at once."),
    "no_space_for_safe_write": (
        {"missing": 17},
        "The computer's disk has no room to change /a safely: 17 bytes are missing. Nothing was changed.",
    ),
    "no_space_for_safe_write  ": (
        {"missing": 17, "mount": "disk2"},
        "The disk disk2 has no room to change /a safely: 17 bytes are missing. Nothing was changed.",
    ),
    "no_space_for_safe_write ": (
        {"missing": 17, "biggest": "9000 logs/gr\u00c3\u00bcn day.txt\n12 b"},
        "The computer's disk has no room to change /a safely: 17 bytes are missing. Nothing was changed. The biggest "
        "files there: logs/grün day.txt (9000 bytes), b (12 bytes). Delete or shorten what is not needed.",
    ),
    "unreachable": (
        {"name": "gr\u00c3\u00bcn?"},
        "In /a is a name that the game cannot reach: grün?. What it is of cannot be kept, so /a stays as it is. "
        "A person with access to the files of the world can rename it there.",
    ),
    "bad_path": ({"becomes": "b"}, "ComputerCraft would silently change the name /a to 'b'. Choose another name."),
    "internal": ({}, "The client on the computer met a defect: It broke."),
    "not_done": ({}, "/a was not changed: the computer restarted before."),
    "bad_params": (
        {},
        "The client on this computer does not take this command so: It broke. Its user can update it.",
    ),
    "of_a_later_version": ({}, "It broke. (of_a_later_version)"),
    "exists": ({}, "Something is in the new place already. Choose another name, or move it away first."),
    "no_match": ({}, "The text to replace is not in /a. Read the file again and copy it exactly."),
    "several_matches": (
        {"count": 3},
        "The text to replace occurs 3 times in /a. Give more of the lines around it.",
    ),
    "not_running": ({}, "There is nothing to see of /a: It broke."),
    "unknown_method": ({}, "The client on this computer is too old for this command. Its user can update it."),
}


@pytest.mark.parametrize(("code", "case"), SENTENCES.items())
@pytest.mark.parametrize(("tool", "method"), [("cc_read", "fs_read"), ("cc_list", "fs_list"), ("cc_write", "fs_write")])
async def test_every_code_of_the_client_is_a_sentence(
    live: CCAgentDeps, channel: Channel, tool: str, method: str, code: str, case: tuple[dict[str, Any], str]
) -> None:
    """Each error code of docs/protocol.md becomes one sentence for the model that names the path as it asked."""
    data, sentence = case
    channel.answers[method] = ComputerFailed(code.strip(), "It broke.", data)
    args = {"content": "x"} if tool == "cc_write" else {}
    with pytest.raises(ToolFailed) as failed:
        await use(tool, live, path="/a", **args)
    assert str(failed.value) == sentence


@pytest.mark.parametrize(
    "error", [ComputerAway("away"), CallVoid("busy", "busy"), CallLost("lost"), ComputerFailed("stale", "changed")]
)
@pytest.mark.parametrize("tool", ["cc_write", "cc_delete", "cc_run_program"])
async def test_what_the_actor_has_to_know_is_not_turned_into_text(
    live: CCAgentDeps, channel: Channel, tool: str, error: OrchestratorError
) -> None:
    """Away, void, lost and stale pass through a tool as they are: they are not answers of the computer."""
    method = {"cc_write": "fs_write", "cc_delete": "fs_delete", "cc_run_program": "run_program"}[tool]
    channel.answers[method] = error
    live.expected = {"a.lua": "0" * 64}
    live.encoding = "utf-8"
    args = {"content": "x"} if tool == "cc_write" else {}
    with pytest.raises(type(error)) as raised:
        await use(tool, live, path="a.lua", **args)
    assert raised.value is error


# -- live: changing ----------------------------------------------------------------------


async def test_a_write_looks_then_carries_the_hash(live: CCAgentDeps, channel: Channel) -> None:
    """Called by hand a write reads first and sends what it found as `if_hash`."""
    assert await use("cc_write", live, path="/a.lua", content="print('new')\n") == "Wrote 13 bytes to /a.lua"
    assert [frame.method for frame in channel.frames] == ["fs_read", "fs_write"]
    assert channel.frames[1].params == {"path": "a.lua", "if_hash": sha256_hex(b"old\n")}
    assert channel.frames[1].body == b"print('new')\n"
    assert channel.disk.files == {"a.lua": b"print('new')\n"}


async def test_a_write_in_a_bracket_is_exactly_one_frame(live: CCAgentDeps, channel: Channel) -> None:
    """With what was seen given, a write sends one frame with that hash and does not look again."""
    live.expected, live.encoding = {"a.lua": sha256_hex(b"seen")}, "utf-8"
    with pytest.raises(ComputerFailed) as failed:
        await use("cc_write", live, path="a.lua", content="return 1")
    assert failed.value.reason == "stale"
    assert [frame.method for frame in channel.frames] == ["fs_write"]
    assert channel.disk.files == {"a.lua": b"old\n"}


async def test_a_write_of_an_unseen_path_is_refused(live: CCAgentDeps, channel: Channel) -> None:
    """In a bracket that saw another path nothing is sent."""
    live.expected, live.encoding = {"b.lua": ABSENT}, "utf-8"
    with pytest.raises(ToolFailed, match=r"Nothing is known of a\.lua"):
        await use("cc_write", live, path="a.lua", content="return 1")
    assert channel.frames == []


async def test_a_write_keeps_the_encoding_that_the_file_has(live: CCAgentDeps, channel: Channel) -> None:
    """A latin-1 file stays latin-1; one that is UTF-8, or new, is written as UTF-8."""
    channel.disk.files["l.lua"] = LATIN_1
    assert await use("cc_write", live, path="l.lua", content="-- é\n") == "Wrote 5 bytes to l.lua"
    assert channel.disk.files["l.lua"] == b"-- \xe9\n"
    await use("cc_write", live, path="new.lua", content="-- é\n")
    assert channel.disk.files["new.lua"] == b"-- \xc3\xa9\n"
    channel.disk.files["l.lua"] = LATIN_1
    await use("cc_write", live, path="l.lua", content="-- 日本\n")
    assert channel.disk.files["l.lua"] == "-- 日本\n".encode()


async def test_too_much_to_send_is_refused_before_anything_is_sent(live: CCAgentDeps, channel: Channel) -> None:
    """A write over the limit of a whole body sends nothing and says what to do."""
    with pytest.raises(ToolFailed, match=r"2097152 are the most that can be sent\. Split it"):
        await use("cc_write", live, path="a.lua", content="-" * (MAX_WHOLE_BYTES + 1))
    assert channel.frames == []
    written = await use("cc_write", live, path="a.lua", content="-" * MAX_WHOLE_BYTES)
    assert written == "Wrote 2097152 bytes to a.lua"


async def test_a_delete_takes_only_what_it_saw(live: CCAgentDeps, channel: Channel) -> None:
    """A delete carries the hash of what was there; of nothing it says so and sends no delete."""
    assert await use("cc_delete", live, path="/a.lua") == "Deleted /a.lua"
    assert channel.frames[-1].params == {"path": "a.lua", "if_hash": sha256_hex(b"old\n")}
    with pytest.raises(ToolFailed, match=r"^There is no /a\.lua on the computer\.$"):
        await use("cc_delete", live, path="/a.lua")
    assert channel.frames[-1].method == "fs_stat"


async def test_observing_a_write_shows_what_would_change(live: CCAgentDeps, channel: Channel) -> None:
    """The reviewer gets the hash of what is there, the exact diff, and how the file is encoded."""
    changed = await observation.observe_write(live, path="/a.lua", content="print('new')\n")
    assert changed.state == {"a.lua": sha256_hex(b"old\n")}
    assert changed.diff == "--- a/a.lua\n+++ b/a.lua\n@@ -1 +1 @@\n-old\n+print('new')\n"
    fresh = await observation.observe_write(live, path="b.lua", content="return 1\n")
    assert (fresh.state, fresh.note) == ({"b.lua": ABSENT}, "A new file.")
    channel.disk.files.update({"l.lua": LATIN_1, "same.lua": b"return 1\n"})
    kept = await observation.observe_write(live, path="l.lua", content="print('grau')\n")
    assert (kept.encoding, kept.note) == ("latin-1", "The file is latin-1; it is written as latin-1.")
    lost = await observation.observe_write(live, path="l.lua", content="-- 日本\n")
    assert (lost.encoding, lost.note) == ("utf-8", "The file is latin-1; it is written as utf-8.")
    same = await observation.observe_write(live, path="same.lua", content="return 1\n")
    assert (same.diff, same.note) == ("", "The file has this very text already.")
    assert "-print('grün')" in (kept.diff or "")
    assert {frame.method for frame in channel.frames} == {"fs_read"}


@pytest.mark.parametrize(
    ("data", "note"),
    [
        ({"kind": "file", "size": 7, "sha256": "a" * 64}, "A file of 7 bytes."),
        ({"kind": "directory", "sha256": "b" * 64}, "A directory with one entry in it:\nworld.dat"),
    ],
)
async def test_observing_a_delete_says_what_would_go(
    live: CCAgentDeps, channel: Channel, data: dict[str, Any], note: str
) -> None:
    """The reviewer of a delete sees what it is: a file's size, a directory's entries."""
    channel.answers["fs_stat"] = CallResult(data, b"world.dat\0file\0" + b"c" * 64 + b"\n")
    seen = await observation.observe_delete(live, path="/d")
    assert (seen.note, seen.state) == (note, {"d": data["sha256"]})
    channel.answers["fs_stat"] = CallResult({"kind": "absent"})
    with pytest.raises(ToolFailed, match="There is no /d on the computer"):
        await observation.observe_delete(live, path="/d")


# -- live: running -----------------------------------------------------------------------


async def test_a_run_binds_the_resolved_program(live: CCAgentDeps, channel: Channel) -> None:
    """The reviewer sees the program as the computer resolves it, its text and hash, and what is not bound."""
    seen = await programs.observe_run(live, path="a")
    assert (seen.program, seen.state) == ("a.lua", {"a.lua": sha256_hex(b"old\n")})
    assert seen.note == "Only the 4 bytes of a.lua are bound; what it loads by require or dofile is not."
    assert channel.frames[0].params == {"command": "/a"}
    assert seen.source == "old\n"
    by_word = await programs.observe_shell(live, command="a now")
    assert (by_word.program, channel.frames[2].params) == ("a.lua", {"command": "a"})


async def test_what_is_shown_of_a_program_is_what_is_bound(live: CCAgentDeps, channel: Channel) -> None:
    """Changed between the look and the read, the text that is shown has the hash; a long one is only bound."""
    channel.answers["fs_read"] = CallResult({"size": 4}, b"new\n")
    seen = await programs.observe_run(live, path="a")
    assert (seen.source, seen.state) == ("new\n", {"a.lua": sha256_hex(b"new\n")})
    del channel.answers["fs_read"]
    channel.disk.files["a.lua"] = b"-" * 70_000
    seen = await programs.observe_run(live, path="a")
    assert seen.source is None
    assert "has more than 65536 bytes and is not shown" in seen.note


async def test_a_program_that_is_not_there_is_told(live: CCAgentDeps, channel: Channel) -> None:
    """Of a program that the computer does not find nothing is run, and the sentence says what to do."""
    seen = await programs.observe_run(live, path="none")
    assert (seen.program, seen.state) == (None, {"none": ABSENT})
    with pytest.raises(ToolFailed, match=r"finds no program none\. Write it first"):
        await use("cc_run_program", live, path="none")
    assert {frame.method for frame in channel.frames} == {"fs_stat"}


async def test_a_run_sends_arguments_as_byte_strings(live: CCAgentDeps, channel: Channel) -> None:
    """A run is one frame with the program's hash, its time, and the words in the body."""
    live.expected = {"a.lua": sha256_hex(b"old\n")}
    text = await use("cc_run_program", live, path="/a", args=["grün", 'x "y"'])
    assert text == "Program /a executed successfully.\nOutput:\nHello, world!\n"
    (run,) = channel.frames
    assert (run.method, run.params) == (
        "run_program",
        {"path": "a.lua", "if_hash": sha256_hex(b"old\n"), "timeout_s": 60},
    )
    assert json.loads(run.body or b"") == ["gr\u00c3\u00bcn", 'x "y"']


async def test_a_shell_line_sends_its_words(live: CCAgentDeps, channel: Channel) -> None:
    """A shell line is split as the CC shell splits it; the first word is the program as typed."""
    assert await use("cc_shell", live, command='a "two words" 3') == (
        'Command a "two words" 3 executed successfully.\nOutput:\nHello, world!\n'
    )
    assert json.loads(channel.frames[-1].body or b"") == ["a", "two words", "3"]
    assert channel.frames[-1].params["path"] == "a.lua"


async def test_a_run_records_the_program_as_the_computer_tells_it(live: CCAgentDeps, channel: Channel) -> None:
    """Path, bytes, end and game time are the computer's words; what it does not say is what was bound."""
    live.expected = {"a.lua": "b" * 64}
    told = {"ended": "returned", "path": "b.lua", "sha256": "c" * 64, "ran_ms": 2050}
    channel.answers["run_program"] = CallResult(told)
    await use("cc_run_program", live, path="a.lua")
    assert live.ran == Ran(path="b.lua", sha256="c" * 64, ended="finished", seconds=2.05)
    channel.answers["shell"] = CallResult({"ended": "returned"})
    await use("cc_shell", live, command="a")
    assert live.ran == Ran(path="a.lua", sha256="b" * 64, ended="finished")


@pytest.mark.parametrize(
    ("code", "data", "ended"),
    [
        ("program_error", {"ended": "error"}, "error"),
        ("program_error", {}, "error"),
        ("terminated", {"ended": "terminated"}, "stopped"),
        ("abandoned", {"ended": "abandoned"}, "abandoned"),
        ("bad_params", {}, None),
        ("read_only", {}, None),
    ],
)
async def test_a_run_that_failed_records_how(
    live: CCAgentDeps, channel: Channel, code: str, data: dict[str, Any], ended: str | None
) -> None:
    """The error carries the program that ran; a program that never began is none."""
    channel.answers["run_program"] = ComputerFailed(code, "no", data)
    with pytest.raises(ToolFailed) as failed:
        await use("cc_run_program", live, path="a")
    ran = failed.value.ran if isinstance(failed.value, ProgramFailed) else None
    assert (ran and ran.ended) == ended
    assert live.ran is None


@pytest.mark.parametrize(
    ("tool", "args", "path"),
    [
        ("cc_run_program", {"path": "/a.lua"}, "a.lua"),
        ("cc_shell", {"command": "a 1 2"}, "a.lua"),
        ("cc_shell", {"command": "list"}, "list"),
    ],
)
async def test_stub_mode_records_a_run_that_finished(
    stub: CCAgentDeps, tool: str, args: dict[str, Any], path: str
) -> None:
    """The bytes are those of the dictionary; what is not in it is absent."""
    stub.file_cache["a.lua"] = "print(1)"
    await use(tool, stub, **args)
    sha256 = sha256_hex(b"print(1)") if path == "a.lua" else ABSENT
    assert stub.ran == Ran(path=path, sha256=sha256, ended="finished")


async def test_a_run_that_is_watched_ended_well(live: CCAgentDeps, channel: Channel) -> None:
    """The time for which it is watched is sent beside its limit, and the model hears that it was stopped by us."""
    told = {"ended": "observed", "ran_ms": 10_000, "real_ms": 10_100}
    channel.answers["run_program"] = channel.answers["shell"] = CallResult(told, b"tick\n")
    text = await use("cc_run_program", live, path="a", observe_s=10)
    assert text == "Program a ran 10 s without an error, then stopped.\nOutput:\ntick\n"
    assert live.ran is not None
    assert (live.ran.ended, live.ran.seconds) == ("observed", 10.0)
    text = await use("cc_shell", live, command="a", observe_s=90)
    assert text == "Command a ran 90 s without an error, then stopped.\nOutput:\ntick\n"
    sent = [
        (frame.params["timeout_s"], frame.params["observe_s"])
        for frame in channel.frames
        if "observe_s" in frame.params
    ]
    assert sent == [(60, 10), (90, 90)]


async def test_a_run_that_reached_its_limit_without_an_error_ended_well(live: CCAgentDeps, channel: Channel) -> None:
    """It is no failure, and the model hears how to ask for less time, and for more."""
    channel.answers["run_program"] = ComputerFailed("timed_out", "no", {"ended": "timed_out"}, b"tick\n")
    text = await use("cc_run_program", live, path="a", timeout_s=5)
    assert text.startswith("Program a ran for its limit of 5 s without an error, then stopped.")
    assert "observe_s=10" in text
    assert "give timeout_s" in text
    assert text.endswith("Output:\ntick\n")
    assert live.ran is not None
    assert live.ran.ended == "timed_out"


async def test_a_game_that_was_paused_is_told(live: CCAgentDeps, channel: Channel) -> None:
    """Where real time went on and the game did not, the result says so."""
    channel.answers["run_program"] = CallResult({"ended": "returned", "ran_ms": 1000, "real_ms": 76_000}, b"hi")
    text = await use("cc_run_program", live, path="a")
    assert text.endswith("hi\n[The game was paused or slow: 1 s in the game took 76 s]")


@pytest.mark.parametrize("code", ["program_error", "terminated", "abandoned"])
async def test_a_run_that_failed_tells_how_and_what_it_printed(live: CCAgentDeps, channel: Channel, code: str) -> None:
    """However a program ended badly, the model hears how, and gets the output that there was."""
    channel.answers["run_program"] = ComputerFailed(code, "boom:1: bad", {"ended": code}, b"before\nboom:1: bad")
    with pytest.raises(ToolFailed) as failed:
        await use("cc_run_program", live, path="a")
    asks = " If it waits for something to be typed, give that as input." if code == "abandoned" else ""
    assert str(failed.value) == f"Program a failed ({code}): boom:1: bad{asks}\nOutput:\nbefore\nboom:1: bad"


@pytest.mark.parametrize(
    ("waits_for", "typed", "hint"),
    [
        ("read()", "", "It waits for a line to be typed: give that as input."),
        ("read()", "y", "It waits for more typed input: add a line to input."),
        ("read(), timer", "y", "It waits for more typed input: add a line to input. It also waits for timer."),
        ("key", "", "It waits for a key: give it as input."),
        ("char", "y", "It waits for a key: give it as input."),
        (
            "key",
            "y",
            "It waits for a key: give it as input."
            " The last Enter was not pressed: a line end at the end of input presses it.",
        ),
        ("key", "y\n", "It waits for a key: give it as input."),
        ("", "y\n", "It waits for any event, such as a key or a message."),
        ("rednet_message", "", "It waits for the event rednet_message."),
        ("timer", "", "It sleeps (timer)."),
        (
            "busy()",
            "",
            "It was busy and waited for nothing: the game ends what is busy for 7 s. Call sleep(0) in its loops.",
        ),
        ("turtle_response", "", "It waits for the game to answer (turtle_response)."),
    ],
)
async def test_what_a_stopped_program_waits_for_is_told(
    live: CCAgentDeps, channel: Channel, waits_for: str, typed: str, hint: str
) -> None:
    """The event that it pulled last says what to try next."""
    data = {"ended": "timed_out", "waits_for": waits_for, "input_left": 2 if typed else 0}
    channel.answers["run_program"] = ComputerFailed("timed_out", "It did not end.", data, b"")
    told = await use("cc_run_program", live, path="a", input=typed)
    unread = " 2 bytes of the input were not read." if typed else ""
    assert live.ran is not None
    assert live.ran.waits_for == waits_for
    assert told.endswith(f"give timeout_s. {hint}{unread}\nOutput:\n")


async def test_output_that_the_computer_cut_is_said_to_be(live: CCAgentDeps, channel: Channel) -> None:
    """What the client left out of an output is named."""
    channel.answers["run_program"] = CallResult({"ended": "returned", "output": 2, "cut": 99}, b"hi")
    text = await use("cc_run_program", live, path="a")
    assert text.endswith("Output:\nhi\n[99 bytes of output were left out on the computer]")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ls", ["ls"]),
        ("  ls   -l  ", ["ls", "-l"]),
        ('say "two words" x', ["say", "two words", "x"]),
        ('say ""', ["say", ""]),
        ('say "open end', ["say", "open end"]),
        ('a"b"c', ["a", "b", "c"]),
        ("a\tb", ["a", "b"]),
        ("say 'x y'", ["say", "'x", "y'"]),
    ],
)
def test_a_command_line_splits_as_the_shell_of_the_game_does(command: str, words: list[str]) -> None:
    """Blanks part words, double quotes group them, nothing else means anything (`shell.run`, tokenise)."""
    assert split_command(command) == words


@pytest.mark.parametrize("command", ["", "   ", "\t"])
async def test_an_empty_command_is_refused(live: CCAgentDeps, channel: Channel, command: str) -> None:
    """A command line without a word is refused with a sentence and sends nothing."""
    with pytest.raises(ToolFailed, match=r"^The command is empty\.$"):
        await use("cc_shell", live, command=command)
    assert channel.frames == []


async def test_without_a_channel_a_command_says_what_to_do() -> None:
    """`call_cc_command` without a channel is a ToolFailed with a remedy."""
    with pytest.raises(ToolFailed, match=r"There is no computer to send this to\. Use mode='stub', or connect one\."):
        await call_cc_command(None, "fs_list", {"path": ""})


# -- the workspace -----------------------------------------------------------------------


async def test_local_files_are_read_and_written_whole(here: CCAgentDeps, workspace: DirectoryWorkspace) -> None:
    """`local_write` writes UTF-8 and counts its bytes, `local_read` gives it back; nothing is left staged."""
    assert await use("local_write", here, path="n/plan.txt", content="grün\n") == "Wrote 6 bytes to n/plan.txt"
    assert (workspace.root / "n" / "plan.txt").read_bytes() == "grün\n".encode()
    assert await use("local_read", here, path="n/plan.txt") == "grün\n"
    assert list((workspace.root / STAGING).iterdir()) == []


async def test_local_read_says_what_is_not_there_or_no_text(here: CCAgentDeps, workspace: DirectoryWorkspace) -> None:
    """A missing file, and one that is not UTF-8, are sentences."""
    with pytest.raises(ToolFailed, match=r"^There is no a\.txt in the workspace\.$"):
        await use("local_read", here, path="a.txt")
    (workspace.root / "b.bin").write_bytes(b"\xff\xfe")
    with pytest.raises(ToolFailed, match=r"^b\.bin is not UTF-8 text\.$"):
        await use("local_read", here, path="b.bin")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "out/x"])
@pytest.mark.parametrize(("tool", "args"), [("local_read", {}), ("local_write", {"content": "x"})])
async def test_no_path_leads_out_of_the_workspace(
    here: CCAgentDeps, workspace: DirectoryWorkspace, tmp_path: Path, tool: str, args: dict[str, str], path: str
) -> None:
    """`..`, absolute paths and links are refused for reading and for writing."""
    (tmp_path / "x").write_text("outside")
    (workspace.root / "out").symlink_to(tmp_path)
    with pytest.raises(UnsafePath):
        await use(tool, here, path=path, **args)
    assert (tmp_path / "x").read_text() == "outside"


PATCH = "--- a/p.txt\n+++ b/p.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"


async def test_local_patch_applies_exactly(here: CCAgentDeps, workspace: DirectoryWorkspace) -> None:
    """A patch that fits changes exactly its lines, and a new file may be made by one from /dev/null."""
    (workspace.root / "p.txt").write_bytes(b"one\ntwo\nthree\nlast")
    assert await use("local_patch", here, path="p.txt", patch=PATCH) == "Patched p.txt"
    assert (workspace.root / "p.txt").read_bytes() == b"one\nzwei\nthree\nlast"
    fresh = "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+hi\n"
    assert await use("local_patch", here, path="new.txt", patch=fresh) == "Patched new.txt"
    assert (workspace.root / "new.txt").read_bytes() == b"hi\n"


@pytest.mark.parametrize(
    ("content", "patch", "why"),
    [
        ("one\nTWO\nthree\n", PATCH, r"line 2"),
        ("one\ntwo\nthree\n", "no patch at all", r"patch"),
        ("one\ntwo\nthree\n", "", r"patch"),
        (None, PATCH, r"."),
    ],
)
async def test_local_patch_says_why_not_and_changes_nothing(
    here: CCAgentDeps, workspace: DirectoryWorkspace, content: str | None, patch: str, why: str
) -> None:
    """A patch that does not fit to the letter changes nothing and says where."""
    if content is not None:
        (workspace.root / "p.txt").write_text(content)
    with pytest.raises(ToolFailed, match=why):
        await use("local_patch", here, path="p.txt", patch=patch)
    assert workspace.read_bytes("p.txt") == (None if content is None else content.encode())


async def test_local_patch_never_deletes(here: CCAgentDeps, workspace: DirectoryWorkspace) -> None:
    """A patch that amounts to a deletion is refused: by hand, when shown, and when staged."""
    (workspace.root / "p.txt").write_text("one\n")
    gone = "--- a/p.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"
    here.run_id = RunId("c1.1")
    for attempt in (local.observe_patch, local.prepare_patch):
        with pytest.raises(ToolFailed, match=r"would delete p\.txt"):
            await attempt(here, path="p.txt", patch=gone)
    here.run_id = None
    with pytest.raises(ToolFailed, match=r"would delete p\.txt"):
        await use("local_patch", here, path="p.txt", patch=gone)
    assert (workspace.root / "p.txt").read_text() == "one\n"


async def test_a_local_change_is_shown_before_it_is_made(here: CCAgentDeps, workspace: DirectoryWorkspace) -> None:
    """The reviewer of a write or a patch sees the same hash and diff, and nothing is touched yet."""
    (workspace.root / "p.txt").write_text("one\ntwo\nthree\n")
    patched = await local.observe_patch(here, path="p.txt", patch=PATCH)
    written = await local.observe_write(here, path="p.txt", content="one\nzwei\nthree\n")
    assert patched == written
    assert patched.state == {"p.txt": sha256_hex(b"one\ntwo\nthree\n")}
    assert "-two\n+zwei\n" in (patched.diff or "")
    assert (workspace.root / "p.txt").read_text() == "one\ntwo\nthree\n"


async def prepared(here: CCAgentDeps, workspace: DirectoryWorkspace, tool: str) -> None:
    """A change of p.txt from ``old`` to ``new``, staged as the actor stages it."""
    (workspace.root / "p.txt").write_text("old\n")
    args = {"content": "new\n"} if tool == "local_write" else {"patch": "@@ -1 +1 @@\n-old\n+new\n"}
    here.run_id, here.expected = RunId("c1.1"), {"p.txt": sha256_hex(b"old\n")}
    prepare = TOOL_REGISTRY[tool].prepare
    assert prepare is not None
    await prepare(here, path="p.txt", **args)
    assert (workspace.root / STAGING / "c1.1").read_text() == "new\n"


@pytest.mark.parametrize("tool", ["local_write", "local_patch"])
async def test_stopped_before_the_commit_it_was_not_done(
    here: CCAgentDeps, workspace: DirectoryWorkspace, tool: str
) -> None:
    """Staged and then killed: settling says not done, the staged file is gone, and the run can never happen."""
    await prepared(here, workspace, tool)
    settle = TOOL_REGISTRY[tool].settle
    assert settle is not None
    assert await settle(here, RunId("c1.1")) is True
    assert list((workspace.root / STAGING).iterdir()) == []
    args = {"content": "new\n"} if tool == "local_write" else {"patch": "@@ -1 +1 @@\n-old\n+new\n"}
    with pytest.raises(ToolFailed, match="Nothing is ready"):
        await use(tool, here, path="p.txt", **args)
    assert (workspace.root / "p.txt").read_text() == "old\n"


@pytest.mark.parametrize("tool", ["local_write", "local_patch"])
async def test_stopped_after_the_commit_it_was_done(
    here: CCAgentDeps, workspace: DirectoryWorkspace, tool: str
) -> None:
    """Committed and then killed: settling says done."""
    await prepared(here, workspace, tool)
    args = {"content": "new\n"} if tool == "local_write" else {"patch": "@@ -1 +1 @@\n-old\n+new\n"}
    await use(tool, here, path="p.txt", **args)
    settle = TOOL_REGISTRY[tool].settle
    assert settle is not None
    assert await settle(here, RunId("c1.1")) is False
    assert (workspace.root / "p.txt").read_text() == "new\n"


@pytest.mark.parametrize("tool", ["local_write", "local_patch"])
async def test_a_file_that_changed_since_it_was_shown_is_kept(
    here: CCAgentDeps, workspace: DirectoryWorkspace, tool: str
) -> None:
    """A local change of a file that is no longer the one shown is stale, and nothing stays staged."""
    await prepared(here, workspace, tool)
    (workspace.root / "p.txt").write_text("somebody's\n")
    args = {"content": "new\n"} if tool == "local_write" else {"patch": "@@ -1 +1 @@\n-old\n+new\n"}
    with pytest.raises(ComputerFailed) as failed:
        await use(tool, here, path="p.txt", **args)
    assert (failed.value.reason, failed.value.data) == ("stale", {"actual": sha256_hex(b"somebody's\n")})
    assert (workspace.root / "p.txt").read_text() == "somebody's\n"
    assert list((workspace.root / STAGING).iterdir()) == []
