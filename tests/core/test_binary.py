"""What is told in one line instead of shown: never what could run, never what people can read."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.text.binary import in_one_line, is_binary
from orchestrator.core.text.redact import redact
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.tools.lua.parse import check_lua

NOISE = random.Random(7).randbytes(300_000)
DENSE = b"\x01\x02\x03\x04" * 50
"""No text by any count."""


@pytest.mark.parametrize(
    "data",
    [
        NOISE,
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + DENSE,
        "a UTF-16 text".encode("utf-16"),
        b"\xff" + DENSE,
        b"x = 1\n" + DENSE + b"\xff",
        b"#" + DENSE + b"\n\xff",
        b"[==[" + DENSE,
        b"x = '" + DENSE + b"\n\xff'",
        b'x = "' + DENSE,
        b"--[[" + DENSE + b"]=]",
        b"print()\n\x7f" + DENSE,
    ],
    ids=lambda data: repr(data[:12]),
)
def test_what_nobody_can_read_and_nothing_can_run_is_binary(data: bytes) -> None:
    assert is_binary("data/big.bin", data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"print('hi')\n",
        "gr\xfcn, \xdf und \x83\x8e\x95".encode("latin-1"),
        bytes(range(0x80, 0x100)),
        "中文\n".encode(),
        b"a letter with one stray\0 byte and a bell\x07, and then some more words" * 3,
        b"gr\xfcn, with one stray\0 byte and no program at all: gr\xfcn",
        b"\tcolumns\r\n\x0c\x0b",
    ],
)
def test_text_is_text_in_whatever_encoding(data: bytes) -> None:
    assert not is_binary("notes.txt", data)


@pytest.mark.parametrize(
    "path",
    [
        "farm.lua", "lib/deep/farm.LUA", ".lua", "startup", "startup.lua", "Startup/10_farm", "disk2/startup",
        "disk/startup/a/b.dat", "startup_own.lua", "startup_own2", ".settings",
    ],
)  # fmt: skip
def test_a_program_by_its_name_is_shown_whatever_is_in_it(path: str) -> None:
    assert not is_binary(path, NOISE)


@pytest.mark.parametrize("path", ["farm.lua.bak", "lua", "restartup", "farm.luac", "settings", "a\nb.lua/c"])
def test_a_name_that_only_looks_like_one_makes_no_program(path: str) -> None:
    assert is_binary(path, NOISE)


@pytest.mark.parametrize(
    "program",
    [
        b"-- " + DENSE + b"\nshell.run('rm *')\n",
        b"--[[" + DENSE + NOISE.replace(b"]", b"") + b"]]shell.run('rm *')\n",
        b"local x = [==[" + DENSE + b"]=]\xff]==] shell.run('rm *')\n",
        b"local x = '" + DENSE.replace(b"\n", b"") + b"\xff' shell.run('rm *')\n",
        b'local x = "' + DENSE + b'\xff\\"\\\r\n\\\n\xff" shell.run("rm *")\n',
        b"shell" + b"\0" * 500 + b".run" + DENSE + b"('rm *')",
        b"#" + DENSE + b"\xff\nshell.run('rm *')\n",
        b"#" + DENSE,
        b"a = 'x\\z" + DENSE + b"\n\xff'",
        b"\x1bLua" + DENSE + b"\xff",
        b"#!/bin/sh\n# " + DENSE + b"\xff\nrm *\n",
    ],
    ids=lambda program: repr(program[:12]),
)
def test_no_bytes_hide_a_program(program: bytes) -> None:
    """Under any name, since a program can be run under any: bytes in texts, in comments and between the words."""
    assert not is_binary("data/big.bin", program)


PIECES = st.sampled_from(
    [
        b"x", b" = ", b"1", b"print", b"(", b")", b"'", b'"', b"\\", b"\\z", b"\\\n", b"\n", b"\r", b"--", b"[[", b"]]",
        b"[=[", b"]=]", b"[", b"]", b"=", b"#", b"\0", b"\x01\x02\x03", b"\x1b", b"\x7f", b"\xff", b"\xe9\xbb", b" ",
        b"-", b"goto", b"::a::", b";", b"..", b"{", b"}", b"return ", b"local ", b"'a'", b'"b"', b"x=1\n", b"f()",
        b"--[[c]]",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=14).map(b"".join), st.sampled_from([None, (1, 95, 0), (1, 109, 0)]))
def test_nothing_that_the_game_compiles_is_binary(source: bytes, version: tuple[int, ...] | None) -> None:
    """However little of it is text: held against the compiler's own reading."""
    if check_lua(source, version=version) is None:
        assert not is_binary("a.bin", source)


@given(st.binary(max_size=40))
def test_a_comment_or_a_text_around_any_bytes_is_a_program(data: bytes) -> None:
    inside = data.replace(b"]", b"")
    for source in (b"--[[" + DENSE + inside + b"]]f()", b"x=[==[" + DENSE + inside + b"]==]"):
        assert not is_binary("a.bin", source)


def test_a_file_in_one_line_has_its_whole_hash() -> None:
    told = in_one_line("big.bin", NOISE)
    assert told == f"binary, 300,000 bytes, sha256 {sha256_hex(NOISE)}"
    assert redact(told, salt="s") == told, "a hash is no secret"
    assert in_one_line("a.txt", b"hi!") == f"text, 3 bytes, sha256 {sha256_hex(b'hi!')}"
    assert in_one_line("a.txt", None) == "absent"
