"""Finding, editing, moving, making: what each tool sends, tells and leaves, and what is kept for an undo."""

import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.core.errors import ComputerFailed, ToolFailed
from orchestrator.core.ports import CallResult
from orchestrator.core.undo.plan import MAX_TREE_FILES
from orchestrator.core.wire.wire import MAX_WHOLE_BYTES, sha256_hex
from orchestrator.tools.computer import observation, programs
from orchestrator.tools.computer.edit import edited
from orchestrator.tools.deps import ABSENT, MAX_RESULT_CHARS, CCAgentDeps
from orchestrator.tools.registry import TOOL_REGISTRY
from orchestrator.tools.stub import StubComputer
from tests.harness.support import Frame

EMPTY = sha256_hex(b"")


@dataclass
class Farm:
    """A computer that is a dictionary of bytes, on which something may happen after any command."""

    files: dict[str, str] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    meanwhile: deque[Callable[[], Any]] = field(default_factory=deque)
    answers: dict[str, CallResult] = field(default_factory=dict)

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        self.frames.append(Frame(method, params, body))
        self.waits.append(wait_s)
        result = self.answers.get(method) or await StubComputer(self.files).call(method, params, body)
        if self.meanwhile:
            self.meanwhile.popleft()()
        return result

    def put(self, path: str, data: bytes) -> None:
        self.files[path] = data.decode("utf-8", "surrogateescape")

    def data(self, path: str) -> bytes:
        return self.files[path].encode("utf-8", "surrogateescape")

    @property
    def sent(self) -> list[str]:
        return [frame.method for frame in self.frames]


@pytest.fixture
def farm() -> Farm:
    return Farm({"farm.lua": "one\ntwo\nthree\n"})


@pytest.fixture
def kept() -> dict[str, bytes]:
    return {}


@pytest.fixture
def deps(farm: Farm, kept: dict[str, bytes]) -> CCAgentDeps:
    """A live computer; what is kept comes into ``kept`` by its hash."""

    async def keep(data: bytes) -> None:
        kept[sha256_hex(data)] = data

    return CCAgentDeps(mode="live", ws_client=farm, computer="3", keep=keep)


async def use(name: str, deps: CCAgentDeps, **args: Any) -> str:
    return await TOOL_REGISTRY[name](deps, **args)


async def refusal(name: str, deps: CCAgentDeps, **args: Any) -> str:
    """The sentence with which a tool's observer refuses."""
    observe = TOOL_REGISTRY[name].observe
    assert observe is not None
    with pytest.raises(ToolFailed) as failed:
        await observe(deps, **args)
    return str(failed.value)


# -- reading some lines ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({}, "1| one\n2| two\n3| three"),
        ({"start_line": 2}, "[lines 2-3 of 3]\n2| two\n3| three"),
        ({"max_lines": 2}, "[lines 1-2 of 3]\n1| one\n2| two"),
        ({"start_line": 2, "max_lines": 1}, "[lines 2-2 of 3]\n2| two"),
        ({"start_line": 3, "max_lines": 99}, "[lines 3-3 of 3]\n3| three"),
    ],
)
async def test_a_range_says_which_lines_of_how_many(deps: CCAgentDeps, args: dict[str, int], text: str) -> None:
    """Each line has its number; some lines come under a header that says how many there are."""
    assert await use("cc_read", deps, path="farm.lua", **args) == text


async def test_a_range_outside_of_the_file_says_how_long_it_is(deps: CCAgentDeps, farm: Farm) -> None:
    """Lines past the end are a sentence, an empty file says that it is one, and zero is no line."""
    with pytest.raises(ToolFailed, match=r"^farm\.lua has only 3 lines\. Give a lower start_line\.$"):
        await use("cc_read", deps, path="farm.lua", start_line=4)
    farm.put("empty", b"")
    for args in ({}, {"start_line": 1}, {"start_line": 5}, {"max_lines": 1}):
        assert await use("cc_read", deps, path="empty", **args) == "[the file is empty]"
    for wrong in ({"start_line": 0}, {"max_lines": 0}, {"max_lines": -1}):
        with pytest.raises(ValidationError):
            await use("cc_read", deps, path="farm.lua", **wrong)


async def test_what_is_cut_is_named_by_its_lines_and_can_be_asked_for(deps: CCAgentDeps, farm: Farm) -> None:
    """The cut of a long file names the lines that it hides, and reading these gives exactly them."""
    lines = [f"line {number:05}\n" for number in range(1, 2001)]
    farm.put("big", "".join(lines).encode())
    text = await use("cc_read", deps, path="big")
    assert "\n506| line 00506\n[lines 507-1765 left out; cc_read path=big start_line=507]\n1766| line 01766\n" in text
    assert text.startswith("1| line 00001\n")
    assert text.endswith("\n2000| line 02000")
    assert len(text) < MAX_RESULT_CHARS + 100
    part = await use("cc_read", deps, path="big", start_line=507, max_lines=600)
    told = "".join(f"{number}| {line}" for number, line in enumerate(lines[506:1106], 507))
    assert part == f"[lines 507-1106 of 2000]\n{told}".removesuffix("\n")


async def test_who_reads_on_gets_page_by_page(deps: CCAgentDeps, farm: Farm) -> None:
    """From a line on, the lines follow each other up to the cap, and the mark at the end names the next page."""
    lines = [f"line {number:05}" for number in range(1, 2001)]
    farm.put("big", "\n".join(lines).encode())
    start, pages, seen = 1, 0, list[str]()
    while start:
        page = await use("cc_read", deps, path="/big", start_line=start)
        header, *rows = page.split("\n")
        assert header.startswith(f"[lines {start}-2000 of 2000; the last line has no line end")
        found = re.fullmatch(r"\[lines (\d+)-2000 left out; cc_read path=/big start_line=\1\]", rows[-1])
        start = int(found[1]) if found is not None else 0
        seen += rows[:-1] if found is not None else rows
        pages += 1
    assert seen == [f"{number}| {line}" for number, line in enumerate(lines, 1)]
    assert pages == 3


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\r\nb\r\n", "[each line ends with \\r\\n]\n1| a\n2| b"),
        (b"a\r\nb", "[each line ends with \\r\\n; the last line has no line end]\n1| a\n2| b"),
        (b"a\r\nb\nc\n", "[lines that end with \\r\\n show the \\r]\n1| a\r\n2| b\n3| c"),
        (b"a\n\n", "1| a\n2|"),
        (b"a", "[the last line has no line end]\n1| a"),
        (b"\x1f\x8b\x08\x00\x01\x02", "[not text: 6 bytes, the first are 1f 8b 08 00 01 02]"),
        (b"12| a\n", "1| 12| a"),
        ("a\x0bb\u2028c\n".encode(), "1| a\x0bb\u2028c"),
    ],
)
async def test_what_the_numbered_lines_do_not_show_is_said(
    deps: CCAgentDeps, farm: Farm, data: bytes, text: str
) -> None:
    """Line ends that an edit has to have exactly, and files that are no text; only a line feed ends a line."""
    farm.put("f", data)
    assert await use("cc_read", deps, path="f") == text


async def test_a_part_says_of_the_last_line_only_where_it_shows_it(deps: CCAgentDeps, farm: Farm) -> None:
    farm.put("f", b"a\nb\nc")
    assert await use("cc_read", deps, path="f", max_lines=2) == "[lines 1-2 of 3]\n1| a\n2| b"
    assert await use("cc_read", deps, path="f", start_line=3) == "[lines 3-3 of 3; the last line has no line end]\n3| c"


# -- numbers that were copied ------------------------------------------------------------

NUMBERED: Mapping[str, dict[str, str]] = {
    "old": {"old": "2| two\n3| three", "new": "2"},
    "old, one line": {"old": "2| two", "new": "2"},
    "old, with a blank line": {"old": "2| two\n\n3|\n", "new": "2"},
    "new": {"old": "two", "new": "2| TWO"},
    "new, several": {"old": "two\nthree", "new": "2| TWO\n3| THREE\n"},
}


@pytest.mark.parametrize("args", NUMBERED.values(), ids=NUMBERED)
async def test_an_edit_with_copied_numbers_is_refused(deps: CCAgentDeps, args: dict[str, str]) -> None:
    """They are named, nothing is stripped."""
    which = "old" if "|" in args["old"] else "new"
    assert await refusal("cc_edit", deps, path="farm.lua", **args) == (
        f"Each line of {which} begins with a line number as cc_read shows it, such as '2| '. "
        "These numbers are not in farm.lua. Send old and new without them."
    )


async def test_numbers_that_are_in_the_file_are_text_as_any(deps: CCAgentDeps, farm: Farm) -> None:
    """Also a new text that only looks like it, and an old one of which only some lines do."""
    farm.put("list.txt", b"1| one\n2| two\n")
    for old, new in (("2| two", "2| three"), ("1| one\n", "")):
        await use("cc_edit", deps, path="list.txt", old=old, new=new)
    assert farm.data("list.txt") == b"2| three\n"
    await use("cc_edit", deps, path="list.txt", old="three", new="7| four")
    assert farm.data("list.txt") == b"2| 7| four\n"
    assert "is not in farm.lua" in await refusal("cc_edit", deps, path="farm.lua", old="2| two\nthree", new="")


async def test_a_program_with_copied_numbers_is_not_written(deps: CCAgentDeps, farm: Farm) -> None:
    """It cannot run; any other file may have them, with the doubt told."""
    content = "1| print('a')\n2| print('b')\n"
    assert await refusal("cc_write", deps, path="a.lua", content=content) == (
        "Each line begins with a line number as cc_read shows it, such as '1| '. These are not part of a program. "
        "Nothing was written. Send it without the numbers."
    )
    told = await use("cc_write", deps, path="notes.txt", content=content)
    assert "Each line begins with its number, as cc_read shows it. If the numbers do not belong" in told
    assert farm.data("notes.txt") == content.encode()
    assert "its number" not in await use("cc_write", deps, path="notes.txt", content="1| one\n3| three\n")


# -- finding -----------------------------------------------------------------------------


async def test_finding_by_name(deps: CCAgentDeps, farm: Farm) -> None:
    """A glob from the root, however it is written; files with their size, directories with a slash, the game's last."""
    farm.files |= {"lib/a.lua": "x", "lib/notes.txt": "", "rom/programs/ls.lua": "ls", "z.lua": "zz"}
    for pattern in ("**/*.lua", "/**/*.lua", "\\**\\*.lua"):
        assert await use("cc_find", deps, pattern=pattern) == (
            "[4 matches]\nfarm.lua  14\nlib/a.lua  1\nz.lua  2\nrom/programs/ls.lua  2"
        )
    assert farm.frames[0].params == {"path": "", "pattern": "**/*.lua", "max": 1000}
    assert await use("cc_find", deps, pattern="lib") == "[1 match]\nlib/"
    assert await use("cc_find", deps, pattern="nothing") == "[0 matches]"
    assert (await use("cc_find", deps)).startswith("[8 matches]\nfarm.lua  14\nlib/\n")


async def test_finding_by_text(deps: CCAgentDeps, farm: Farm) -> None:
    """With a text, the files that have it, each with the numbers and the words of its lines."""
    farm.files |= {"lib/a.lua": "-- grün\nprint('grün')\n", "lib/b.lua": "two\n"}
    assert await use("cc_find", deps, contains="grün") == ("[1 match]\nlib/a.lua  24\n  1: -- grün\n  2: print('grün')")
    assert farm.frames[0].params["contains"] == "gr\u00c3\u00bcn"
    assert await use("cc_find", deps, pattern="*", contains="two") == "[1 match]\nfarm.lua  14\n  2: two"
    assert await use("cc_find", deps, pattern="*.txt", contains="two") == "[0 matches]"
    assert await use("cc_find", deps, contains="one\ntwo") == "[1 match]\nfarm.lua  14\n  1: one"


async def test_a_line_that_was_cut_through_a_letter_is_still_text(deps: CCAgentDeps, farm: Farm) -> None:
    """What the computer cut out of a long line is read as UTF-8 but for the halves at its ends."""
    cut = "日本語".encode()[1:-1].decode("latin-1")
    entries = [{"path": "f", "dir": False, "size": 9, "lines": [{"line": 1, "text": cut}]}]
    farm.answers["fs_find"] = CallResult({"count": 1, "cut": False}, json.dumps(entries).encode())
    assert await use("cc_find", deps, contains="本") == "[1 match]\nf  9\n  1: 本"
    entries[0]["lines"] = [{"line": 1, "text": "\xff\xfe\xfd\xfc\xfb\r"}]
    farm.answers["fs_find"] = CallResult({"count": 1, "cut": False}, json.dumps(entries).encode())
    assert await use("cc_find", deps, contains="x") == "[1 match]\nf  9\n  1: ÿþýüû"


async def test_a_part_of_a_long_line_has_no_piece_of_a_word(deps: CCAgentDeps, farm: Farm) -> None:
    """Where the computer cut it, so that no piece of a secret is told; what is wanted stays whole."""
    line = f"{'x' * 90};{'y' * 70};a=1;here;{'b = 2; ' * 15}{'z' * 90}"
    part = line[line.index("here") - 80 :][:200]
    entries = [{"path": "f", "dir": False, "size": 9, "lines": [{"line": 1, "text": part}]}]
    farm.answers["fs_find"] = CallResult({"count": 1, "cut": False}, json.dumps(entries).encode())
    told = await use("cc_find", deps, contains="here")
    assert told == f"[1 match]\nf  9\n  1: {'y' * 70};a=1;here;{'b = 2; ' * 15}".rstrip()


async def test_too_many_matches_say_how_many_are_shown(deps: CCAgentDeps, farm: Farm) -> None:
    """What the model is told is capped at whole entries, and the first line says so."""
    farm.files |= {f"{number:04}-{'x' * 50}.lua": "" for number in range(1200)}
    text = await use("cc_find", deps)
    assert text.startswith("[1201 matches, 190 of them shown: give a narrower pattern to see the others]\n0000-")
    assert len(text.splitlines()) == 191
    assert len(text) < MAX_RESULT_CHARS + 100


@pytest.mark.parametrize(
    "body", [b"{", b"[1]", b'[{"path": "a", "dir": false}]', b'[{"path": "a", "dir": false, "size": 1, "lines": [7]}]']
)
async def test_matches_that_are_none_are_an_error_of_the_tool(deps: CCAgentDeps, farm: Farm, body: bytes) -> None:
    """A computer that answers nonsense gets the model a sentence."""
    farm.answers["fs_find"] = CallResult({"count": 1, "cut": False}, body)
    with pytest.raises(ToolFailed, match="cannot be read"):
        await use("cc_find", deps)


@pytest.mark.parametrize("args", [{"pattern": "x" * 501}, {"contains": "ü" * 251}])
async def test_a_search_that_fits_no_header_is_refused(deps: CCAgentDeps, farm: Farm, args: dict[str, str]) -> None:
    """Pattern and text have at most 500 bytes each; nothing is sent otherwise."""
    with pytest.raises(ToolFailed, match="more than 500 bytes"):
        await use("cc_find", deps, **args)
    assert farm.sent == []


# -- editing -----------------------------------------------------------------------------


async def test_an_edit_is_sent_as_it_was_shown(deps: CCAgentDeps, farm: Farm, kept: dict[str, bytes]) -> None:
    """The reviewer sees the diff; the command carries the hash, the old bytes and the new ones, and no more."""
    before = farm.data("farm.lua")
    seen = await observation.observe_edit(deps, path="/farm.lua", old="two", new="zwei")
    assert seen.state == {"farm.lua": sha256_hex(before)}
    assert seen.diff == "--- a/farm.lua\n+++ b/farm.lua\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"
    assert kept == {sha256_hex(before): before}
    deps.expected, deps.encoding = seen.state, seen.encoding
    assert await use("cc_edit", deps, path="/farm.lua", old="two", new="zwei") == "Edited /farm.lua: 3 bytes became 4"
    assert farm.sent == ["fs_read", "fs_edit"]
    assert farm.frames[1].params == {"path": "farm.lua", "if_hash": sha256_hex(before), "old_size": 3}
    assert farm.frames[1].body == b"twozwei"
    assert farm.files["farm.lua"] == "one\nzwei\nthree\n"
    assert deps.after == {"farm.lua": sha256_hex(b"one\nzwei\nthree\n")}


async def test_an_edit_by_hand_looks_first(deps: CCAgentDeps, farm: Farm) -> None:
    """Called by hand an edit reads, compares and changes; a file that is not there is a sentence."""
    said, doubt = (await use("cc_edit", deps, path="farm.lua", old="\ntwo", new="")).split("\n")
    assert said == "Edited farm.lua: 4 bytes became 0"
    assert doubt.startswith("It does not parse yet: farm.lua:")
    assert farm.files["farm.lua"] == "one\nthree\n"
    with pytest.raises(ToolFailed, match=r"There is no new\.lua on the computer\. Use cc_write"):
        await use("cc_edit", deps, path="new.lua", old="a", new="b")


async def test_an_edit_of_a_file_that_changed_is_stale(deps: CCAgentDeps, farm: Farm) -> None:
    """What is no longer the file that was shown is not edited, even where the text is still there."""
    deps.expected, deps.encoding = {"farm.lua": sha256_hex(b"seen: two")}, "utf-8"
    with pytest.raises(ComputerFailed) as failed:
        await use("cc_edit", deps, path="farm.lua", old="two", new="zwei")
    assert failed.value.reason == "stale"
    assert (farm.files["farm.lua"], deps.after) == ("one\ntwo\nthree\n", {})


@pytest.mark.parametrize(
    ("data", "old", "new", "words"),
    [
        (b"a\nb\n", "c", "d", "The text to replace is not in f. Read the file again and copy the text exactly"),
        (
            b"local x = 1\n  print(x)\n",
            "  print( x )",
            "",
            "The closest line is 2: 'print(x)'. Read the file again",
        ),
        (b"a\nb\na\n", "a", "c", "occurs 2 times in f, at lines 1, 3. Give more of the lines around"),
        (b"x\n" * 9, "x", "y", "occurs 9 times in f, at lines 1, 2, 3, 4, 5 and more."),
        (b"aaa", "aa", "b", "occurs 2 times in f, at line 1."),
        (b"a", "", "b", "The text to replace is empty. Name the text"),
        (b"a", "a", "a", "The old and the new text are the same."),
        (b"a\r\nb\r\n", "a\nb", "c", r"The lines of f end with \r\n. Write \r\n for each line end"),
        (b"a\r\nb\r\n", "b", "b\nc", r"The lines of f end with \r\n."),
        (b"\xe4\n", "\xe4", "日", "f is encoded as latin-1, which lacks some of these characters."),
        (b"a \n", "a\n", "b\n", "The text to replace is not in f. The closest line is 1: 'a'."),
    ],
)
def test_an_edit_that_does_not_fit_says_what_to_do(data: bytes, old: str, new: str, words: str) -> None:
    """None, several, the wrong line ends, the wrong letters: each refusal tells the model its next step."""
    with pytest.raises(ToolFailed) as failed:
        edited(data, old, new, "f")
    assert words in str(failed.value)


@pytest.mark.parametrize(
    ("data", "old", "new", "after", "encoding"),
    [
        (b"a\r\nb\r\n", "a\r\n", "c\r\n", b"c\r\nb\r\n", "utf-8"),
        (b"a\r\nb\n", "b\n", "c\n", b"a\r\nc\n", "utf-8"),
        (b"a\r\nb\r\n", "b", "c", b"a\r\nc\r\n", "utf-8"),
        (b"\xe4\xff", "\xe4", "\xfc", b"\xfc\xff", "latin-1"),
        ("grün 日".encode(), "ü", "日", "gr日n 日".encode(), "utf-8"),
        (b"a", "a", "", b"", "utf-8"),
    ],
)
def test_an_edit_is_exact_on_bytes(data: bytes, old: str, new: str, after: bytes, encoding: str) -> None:
    """Nothing but the one place changes: line ends and encoding stay what they are."""
    assert edited(data, old, new, "f") == (after, encoding)


# -- moving and making -------------------------------------------------------------------


async def test_a_move_is_bound_to_both_ends(deps: CCAgentDeps, farm: Farm, kept: dict[str, bytes]) -> None:
    """What is moved, how large it is, that its place is free and on which disk; then one command with both hashes."""
    data = farm.data("farm.lua")
    seen = await observation.observe_move(deps, path="/farm.lua", to="disk2/old/farm.lua")
    state = {"farm.lua": sha256_hex(data), "disk2/old/farm.lua": ABSENT}
    assert (seen.state, seen.directories) == (state, ())
    assert seen.note == (
        "A file of 14 bytes.\nNothing is at disk2/old/farm.lua.\n"
        "It goes from the computer's own disk to the disk in /disk2."
    )
    assert kept == {sha256_hex(data): data}
    farm.frames.clear()
    deps.expected = seen.state
    assert await use("cc_move", deps, path="/farm.lua", to="disk2/old/farm.lua") == (
        "Moved /farm.lua to disk2/old/farm.lua"
    )
    (frame,) = farm.frames
    assert (frame.method, frame.params) == (
        "fs_move",
        {"path": "farm.lua", "if_hash": sha256_hex(data), "to": "disk2/old/farm.lua", "if_to": ABSENT},
    )
    assert farm.files == {"disk2/old/farm.lua": data.decode()}
    assert deps.after == {"farm.lua": ABSENT, "disk2/old/farm.lua": sha256_hex(data)}


async def test_a_directory_moves_with_all_that_is_in_it(deps: CCAgentDeps, farm: Farm, kept: dict[str, bytes]) -> None:
    """A directory is shown by its entries, named as one, and kept whole: the lines of its hash and every file."""
    farm.files |= {"lib/a": "A", "lib/sub/b": "BB", "lib/c/": ""}
    seen = await observation.observe_move(deps, path="lib", to="old")
    manifest = b"a\0file\0%s\nc\0directory\0-\nsub\0directory\0-\nsub/b\0file\0%s\n" % (
        sha256_hex(b"A").encode(),
        sha256_hex(b"BB").encode(),
    )
    assert seen.state == {"lib": sha256_hex(manifest), "old": ABSENT}
    assert seen.directories == ("lib",)
    assert seen.note == ("A directory with 4 entries of 3 bytes in it:\na\nc/\nsub/\nsub/b\nNothing is at old.")
    assert kept == {sha256_hex(one): one for one in (manifest, b"A", b"BB")}
    assert await use("cc_move", deps, path="lib", to="old") == "Moved lib to old"
    assert sorted(farm.files) == ["farm.lua", "old/a", "old/c/", "old/sub/b"]
    assert deps.after["old"] == sha256_hex(manifest)


@pytest.mark.parametrize(
    ("path", "to", "words"),
    [
        ("none", "x", "There is no none on the computer."),
        ("farm.lua", "/./farm.lua", "farm.lua and /./farm.lua are the same place."),
        ("lib", "lib/sub/x", "lib/sub/x is inside of lib, which cannot be moved into itself."),
        ("lib", "LIB/x", "LIB/x is inside of lib, which cannot be moved into itself."),
        ("farm.lua", "lib", "lib is a directory already. Name the whole new path, such as lib/farm.lua."),
        ("lib", "farm.lua", "There is a file farm.lua already. Choose another name"),
        ("/", "x", "The root directory itself cannot be changed."),
        ("farm.lua", "/.", "The root directory itself cannot be changed."),
    ],
)
async def test_a_move_that_cannot_be_is_told_before_anybody_is_asked(
    deps: CCAgentDeps, farm: Farm, path: str, to: str, words: str
) -> None:
    """Nothing there, a place that is taken, a move into itself: the model hears it at once."""
    farm.files["lib/a"] = "A"
    assert words in await refusal("cc_move", deps, path=path, to=to)


async def test_a_directory_is_made_where_nothing_is(deps: CCAgentDeps, farm: Farm) -> None:
    """Shown as new, made by one command, its hash that of nothing in it; what is there already is a sentence."""
    seen = await observation.observe_mkdir(deps, path="/lib")
    assert (seen.state, seen.note, seen.directories) == ({"lib": ABSENT}, "A new directory.", ())
    deps.expected = seen.state
    farm.frames.clear()
    assert await use("cc_mkdir", deps, path="/lib/") == "Made the directory /lib/"
    assert [(frame.method, frame.params) for frame in farm.frames] == [("fs_mkdir", {"path": "lib", "if_hash": ABSENT})]
    assert deps.after == {"lib": EMPTY}
    assert await refusal("cc_mkdir", deps, path="lib") == "lib is a directory already."
    assert await refusal("cc_mkdir", deps, path="farm.lua") == "farm.lua is a file already."
    assert await refusal("cc_mkdir", deps, path="/") == (
        "The root directory itself cannot be changed. Name something in it."
    )


@pytest.mark.parametrize(
    ("tool", "args"), [("cc_delete", {}), ("cc_move", {"to": "x"}), ("cc_mkdir", {}), ("cc_move", {"to": "y"})]
)
async def test_what_is_read_only_is_told_before_anybody_is_asked(
    deps: CCAgentDeps, farm: Farm, tool: str, args: dict[str, str]
) -> None:
    """A place that cannot be written costs no person's time."""
    kind = "absent" if tool == "cc_mkdir" else "file"
    data = {"kind": kind, "size": 14, "sha256": sha256_hex(farm.data("farm.lua")), "read_only": True}
    original = StubComputer(farm.files)

    async def call(
        method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        if method == "fs_stat" and params["path"] == "farm.lua":
            return CallResult(data)
        return await original.call(method, params, body, wait_s)

    farm.call = call  # type: ignore[method-assign]
    assert await refusal(tool, deps, path="farm.lua", **args) == "farm.lua is read-only."


async def test_a_directory_is_no_file_and_may_be_empty(deps: CCAgentDeps, farm: Farm, kept: dict[str, bytes]) -> None:
    """A directory is not written or edited; an empty one is shown and kept as what it is."""
    farm.files["lib/"] = ""
    assert await refusal("cc_write", deps, path="lib", content="x") == "lib is a directory."
    assert await refusal("cc_edit", deps, path="lib", old="x", new="y") == "lib is a directory."
    seen = await observation.observe_delete(deps, path="lib")
    assert (seen.note, seen.state, seen.directories) == ("An empty directory.", {"lib": EMPTY}, ("lib",))
    assert kept == {EMPTY: b""}


async def test_a_program_that_cannot_be_looked_at(deps: CCAgentDeps, farm: Farm) -> None:
    """One that the computer does not find is shown as absent; any other error is a sentence."""
    errors = {"not_found": ComputerFailed("not_found", "no"), "denied": ComputerFailed("access_denied", "no")}

    async def call(
        method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        raise errors[params["command"]]

    farm.call = call  # type: ignore[method-assign]
    seen = await programs.observe_shell(deps, command="not_found now")
    assert (seen.state, seen.program) == ({"not_found": ABSENT}, None)
    assert await refusal("cc_shell", deps, command="denied") == "The computer does not give access to denied."


async def test_a_result_names_the_path_that_the_computer_made_of_it(deps: CCAgentDeps, farm: Farm) -> None:
    """Where a path is spelled in another way than the game does, the model hears what it is called there."""
    calls = "(which the computer calls ab)"
    assert await use("cc_write", deps, path="x/../ab", content="x") == f"Wrote 1 bytes to x/../ab {calls}"
    assert await use("cc_move", deps, path="/ab/", to=".\\cd") == "Moved /ab/ to .\\cd (which the computer calls cd)"
    assert await use("cc_delete", deps, path="cd") == "Deleted cd"
    assert sorted(farm.files) == ["farm.lua"]


ODD_NAMES = {
    "a*b": "ab",
    "c|d": "cd",
    " cd ": "cd",
    "x/a:b/c": "x/ab/c",
    'say "hi".lua': "say hi.lua",
    "a/.../b": "a/b",
}


@pytest.mark.parametrize(("name", "becomes"), ODD_NAMES.items())
@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("cc_read", {"path": ...}),
        ("cc_list", {"path": ...}),
        ("cc_write", {"path": ..., "content": "x"}),
        ("cc_edit", {"path": ..., "old": "one", "new": "two"}),
        ("cc_delete", {"path": ...}),
        ("cc_mkdir", {"path": ...}),
        ("cc_move", {"path": ..., "to": "z"}),
        ("cc_move", {"path": "farm.lua", "to": ...}),
        ("cc_run_program", {"path": ...}),
    ],
)
async def test_a_name_that_the_game_would_change_is_refused(
    deps: CCAgentDeps, farm: Farm, tool: str, args: dict[str, Any], name: str, becomes: str
) -> None:
    """No tool touches another file than the one that was named: the model hears what the name would become."""
    farm.put(becomes, b"one")
    before = dict(farm.files)
    given = {key: name if value is ... else value for key, value in args.items()}
    with pytest.raises(ToolFailed) as failed:
        await use(tool, deps, **given)
    assert f"would silently change the name {name!r} to {becomes!r}." in str(failed.value)
    if (observe := TOOL_REGISTRY[tool].observe) is not None:
        with pytest.raises(ToolFailed, match="would silently change"):
            await observe(deps, **given)
    assert farm.files == before
    assert farm.sent == []


@pytest.mark.parametrize("name", ["...", "?", "a/../:"])
async def test_a_path_of_which_no_name_is_left_is_refused(deps: CCAgentDeps, farm: Farm, name: str) -> None:
    """It is not said to be the root, which nobody meant."""
    with pytest.raises(ToolFailed) as failed:
        await use("cc_write", deps, path=name, content="x")
    assert f"ComputerCraft would leave no name of {name!r}." in str(failed.value)
    assert "''" not in str(failed.value)
    assert farm.sent == []


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"gr\xfcn\n", "n\n", "\u00e4\n", b"gr\xfc\xe4\n"),
        ("grün\n".encode(), "n\n", "ä\n", "grüä\n".encode()),
        (b"a\0b\xff", "b", "c", b"a\0c\xff"),
        (b"one\r\ntwo\r\n", "two", "2", b"one\r\n2\r\n"),
        (b"one\r\ntwo", "one\r\n", "1\r\n", b"1\r\ntwo"),
    ],
)
async def test_an_edit_keeps_every_byte_beside_it(
    deps: CCAgentDeps, farm: Farm, before: bytes, old: str, new: str, after: bytes
) -> None:
    """Latin-1 stays latin-1, NUL and CRLF stay where they are."""
    farm.put("f", before)
    await use("cc_edit", deps, path="f", old=old, new=new)
    assert farm.data("f") == after


async def test_a_write_keeps_the_encoding_of_the_file(deps: CCAgentDeps, farm: Farm) -> None:
    """A latin-1 file is written as latin-1 where the text fits, else as UTF-8; line ends stay as they were given."""
    farm.put("f", b"gr\xfcn")
    await use("cc_write", deps, path="f", content="blä\0\r\n")
    assert farm.data("f") == b"bl\xe4\0\r\n"
    await use("cc_write", deps, path="f", content="5 €")
    assert farm.data("f") == "5 €".encode()


# -- what is kept for an undo ------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("cc_write", {"content": "print(2)"}),
        ("cc_edit", {"old": "two", "new": "zwei"}),
        ("cc_move", {"to": "x"}),
        ("cc_delete", {}),
    ],
)
async def test_the_old_bytes_are_kept_under_the_hash_that_is_shown(
    deps: CCAgentDeps, farm: Farm, kept: dict[str, bytes], tool: str, args: dict[str, str]
) -> None:
    """Whatever changes a file, its bytes are kept, by the very hash of `state`, before anybody is asked."""
    before = farm.data("farm.lua")
    observe = TOOL_REGISTRY[tool].observe
    assert observe is not None
    seen = await observe(deps, path="farm.lua", **args)
    assert kept[seen.state["farm.lua"]] == before
    assert farm.data("farm.lua") == before


async def test_a_file_that_changes_while_it_is_looked_at_is_looked_at_again(
    deps: CCAgentDeps, farm: Farm, kept: dict[str, bytes]
) -> None:
    """What is kept has the hash that is shown, although somebody wrote between the stat and the read."""
    farm.meanwhile.append(lambda: farm.put("farm.lua", b"other"))
    seen = await observation.observe_delete(deps, path="farm.lua")
    assert seen.state == {"farm.lua": sha256_hex(b"other")}
    assert kept == {sha256_hex(b"other"): b"other"}
    assert farm.sent == ["fs_stat", "fs_read"] * 2


async def test_a_directory_that_changes_while_it_is_looked_at_is_looked_at_again(
    deps: CCAgentDeps, farm: Farm, kept: dict[str, bytes]
) -> None:
    """A file that goes or changes in the middle of it is noticed, and the whole is looked at anew."""
    farm.files |= {"lib/a": "A", "lib/b": "B"}
    farm.meanwhile.extend((lambda: farm.files.pop("lib/a"), lambda: farm.put("lib/b", b"BB")))
    seen = await observation.observe_delete(deps, path="lib")
    assert seen.note == "A directory with one entry of 2 bytes in it:\nb"
    assert {sha256_hex(b"BB"), seen.state["lib"]} <= set(kept)


async def test_what_never_stands_still_is_refused(deps: CCAgentDeps, farm: Farm) -> None:
    """After three looks nothing is asked of anybody."""
    numbers = iter(range(99))
    farm.meanwhile.extend([lambda: farm.put("farm.lua", b"%d" % next(numbers))] * 99)
    assert "farm.lua changes while it is looked at." in await refusal("cc_delete", deps, path="farm.lua")
    assert farm.sent == ["fs_stat", "fs_read"] * 3


async def test_a_directory_too_large_to_keep_is_refused(deps: CCAgentDeps, farm: Farm) -> None:
    """More bytes, or more files, than are kept for an undo: do it in smaller parts."""
    farm.files |= {"lib/a": "a" * MAX_WHOLE_BYTES, "lib/b": "b"}
    assert await refusal("cc_delete", deps, path="lib") == (
        "lib is too large to keep for undo: it has more than the 2097152 bytes that are kept for an undo. "
        "Do it in smaller parts."
    )
    farm.files |= {f"many/{number}": str(number) for number in range(MAX_TREE_FILES + 1)}
    assert "it has 501 different files" in await refusal("cc_move", deps, path="many", to="x")


async def test_by_hand_nothing_is_kept_and_nothing_is_too_large(deps: CCAgentDeps, farm: Farm) -> None:
    """Without somebody who keeps, a stat is enough."""
    farm.files |= {"lib/a": "a" * MAX_WHOLE_BYTES, "lib/b": "b"}
    deps.keep = None
    assert await use("cc_delete", deps, path="lib") == "Deleted lib"
    assert farm.sent == ["fs_stat", "fs_delete"]
    assert deps.after == {"lib": ABSENT}


async def test_a_name_that_is_no_utf_8_is_kept_too(deps: CCAgentDeps, farm: Farm, kept: dict[str, bytes]) -> None:
    """The files of a directory are read by the bytes of their names, whatever these are."""
    farm.put(b"lib/gr\xfcn".decode("utf-8", "surrogateescape"), b"G")
    farm.files["lib/日"] = "N"
    seen = await observation.observe_delete(deps, path="lib")
    assert {sha256_hex(b"G"), sha256_hex(b"N")} < set(kept)
    assert seen.note.endswith("grün\n日") or seen.note.endswith("日\ngrün")


@pytest.mark.parametrize(
    ("body", "words"),
    [(b"", "changes while it is looked at"), (b"a\0file\n", "cannot be read")],
)
async def test_a_directory_that_cannot_be_told_is_refused(
    deps: CCAgentDeps, farm: Farm, body: bytes, words: str
) -> None:
    """Of a broken client that names no entries, or nonsense: nothing is deleted that could not be put back."""
    farm.answers["fs_stat"] = CallResult({"kind": "directory", "sha256": "a" * 64}, body)
    assert words in await refusal("cc_delete", deps, path="lib")


async def test_an_error_while_keeping_is_a_sentence(deps: CCAgentDeps, farm: Farm) -> None:
    """A file that the computer does not give is told as every other error."""
    farm.files["lib/a"] = "A"

    async def call(
        method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        if method == "fs_read":
            raise ComputerFailed("access_denied", "no")
        return await StubComputer(farm.files).call(method, params, body, wait_s)

    farm.call = call  # type: ignore[method-assign]
    assert await refusal("cc_delete", deps, path="lib") == "The computer does not give access to lib."


async def test_a_large_body_is_waited_for_longer(deps: CCAgentDeps, farm: Farm) -> None:
    """The wait grows with what travels: reads may bring 2 MiB, a small write is over in a minute."""
    await use("cc_write", deps, path="small", content="x")
    await use("cc_write", deps, path="large", content="x" * 1_000_000)
    waits = dict(zip(farm.sent, farm.waits, strict=True))
    small = farm.waits[farm.sent.index("fs_write")]
    assert waits["fs_read"] == 60 + MAX_WHOLE_BYTES / 20_000
    assert (round(small), waits["fs_write"]) == (60, 110)


async def test_a_program_gets_the_time_that_is_left(deps: CCAgentDeps, farm: Farm) -> None:
    """The limit of a run is that of the dependencies where they name one, in whole seconds, at least one."""
    for given, sent in ((None, 60), (12.9, 12), (0.2, 1)):
        deps.timeout_s, deps.expected = given, {"a.lua": "0" * 64}
        farm.answers["run_program"] = CallResult({"ended": "returned", "output": 0, "cut": 0})
        await use("cc_run_program", deps, path="a.lua")
        assert farm.frames[-1].params["timeout_s"] == sent
        assert farm.waits[-1] == sent + 30


async def test_a_half_failed_change_is_not_turned_into_text(deps: CCAgentDeps, farm: Farm) -> None:
    """`outcome_unknown` passes through a tool as it is: it is no failure that the model is told of."""
    deps.expected, deps.encoding = {"farm.lua": "0" * 64, "x": ABSENT}, "utf-8"
    broken = ComputerFailed("outcome_unknown", "half way")

    async def call(
        method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        raise broken

    farm.call = call  # type: ignore[method-assign]
    for tool, args in {
        "cc_write": {"content": "x"},
        "cc_edit": {"old": "a", "new": "b"},
        "cc_move": {"to": "x"},
        "cc_delete": {},
    }.items():
        with pytest.raises(ComputerFailed) as raised:
            await use(tool, deps, path="farm.lua", **args)
        assert raised.value is broken
    assert deps.after == {}


# -- stub mode ---------------------------------------------------------------------------


async def test_stub_mode_has_every_tool() -> None:
    """A dictionary is a computer: written, found, edited, moved, listed and deleted as on a real one."""
    deps = CCAgentDeps(mode="stub")
    assert await use("cc_mkdir", deps, path="lib") == "Made the directory lib"
    assert await use("cc_list", deps, path="/") == "lib/"
    assert await use("cc_write", deps, path="lib/a.lua", content="print('ü')\n") == "Wrote 12 bytes to lib/a.lua"
    assert await use("cc_find", deps, pattern="**/*.lua", contains="ü") == "[1 match]\nlib/a.lua  12\n  1: print('ü')"
    assert await use("cc_edit", deps, path="lib/a.lua", old="ü", new="o") == "Edited lib/a.lua: 2 bytes became 1"
    assert await use("cc_move", deps, path="lib", to="old") == "Moved lib to old"
    assert deps.file_cache == {"old/": "", "old/a.lua": "print('o')\n"}
    assert await use("cc_read", deps, path="old/a.lua", max_lines=1) == "[lines 1-1 of 1]\n1| print('o')"
    assert await use("cc_delete", deps, path="old") == "Deleted old"
    assert await use("cc_list", deps, path="/") == "(empty)"


@pytest.mark.parametrize(
    ("method", "params", "body", "code"),
    [
        ("fs_read", {"path": "none"}, None, "not_found"),
        ("fs_read", {"path": "d"}, None, "is_directory"),
        ("fs_list", {"path": "none"}, None, "not_found"),
        ("fs_list", {"path": "f"}, None, "not_a_directory"),
        ("fs_write", {"path": "f", "if_hash": ABSENT}, b"x", "stale"),
        ("fs_write", {"path": "d", "if_hash": sha256_hex(b"x\0file\0%s\n" % EMPTY.encode())}, b"", "is_directory"),
        ("fs_edit", {"path": "f", "if_hash": sha256_hex(b"aa"), "old_size": 1}, b"ab", "several_matches"),
        ("fs_edit", {"path": "f", "if_hash": sha256_hex(b"aa"), "old_size": 1}, b"xb", "no_match"),
        ("fs_edit", {"path": "none", "if_hash": ABSENT, "old_size": 1}, b"xb", "not_found"),
        ("fs_delete", {"path": "none", "if_hash": ABSENT}, None, "not_found"),
        ("fs_move", {"path": "none", "if_hash": ABSENT, "to": "x", "if_to": ABSENT}, None, "not_found"),
        ("fs_move", {"path": "f", "if_hash": sha256_hex(b"aa"), "to": "d", "if_to": ABSENT}, None, "exists"),
        ("fs_mkdir", {"path": "d", "if_hash": ABSENT}, None, "exists"),
        ("run_program", {"path": "f"}, b"[]", "unknown_method"),
    ],
)
async def test_the_stub_computer_refuses_as_a_computer_does(
    method: str, params: dict[str, Any], body: bytes | None, code: str
) -> None:
    """Each error of docs/protocol.md that a dictionary can have."""
    files = {"f": "aa", "d/x": ""}
    with pytest.raises(ComputerFailed) as failed:
        await StubComputer(files).call(method, params, body)
    assert failed.value.reason == code
    assert files == {"f": "aa", "d/x": ""}


async def test_the_stub_computer_cuts_what_it_finds() -> None:
    """At most `max` entries and five lines of each, with the number of all."""
    files = {"a": "x\n" * 9, "b": "x"}
    found = await StubComputer(files).call("fs_find", {"path": "", "pattern": "**", "contains": "x", "max": 1})
    assert found.data == {"count": 2, "cut": True}
    (entry,) = json.loads(found.body)
    assert [line["line"] for line in entry["lines"]] == [1, 2, 3, 4, 5]


async def test_a_file_that_would_be_deleted_is_shown_line_by_line(
    deps: CCAgentDeps, farm: Farm, kept: dict[str, bytes]
) -> None:
    """Each line as removed, by the bytes that are kept; what is binary is said to be."""
    farm.files["song.dfpwm"] = "é\x00\x01\x02"
    farm.files["two.lua"] = "print(1)\nprint(2)\n"
    seen = await observation.observe_delete(deps, path="two.lua")
    assert (seen.diff or "").endswith("@@ -1,2 +0,0 @@\n-print(1)\n-print(2)\n")
    binary = await observation.observe_delete(deps, path="song.dfpwm")
    assert (binary.diff, "binary" in binary.note.casefold()) == (None, True)
    assert set(kept.values()) == {b"print(1)\nprint(2)\n", "é\x00\x01\x02".encode()}
    assert farm.sent == ["fs_stat", "fs_read"] * 2
