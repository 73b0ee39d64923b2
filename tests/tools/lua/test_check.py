"""What a syntax error is told as: the place, Lua's words, and what to write instead."""

import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tools.lua import Finding, Names, check_lua, globals_of, unknown_names
from orchestrator.tools.lua.lexer import MAX_SENTENCE
from tests.tools.lua.corpus import programs

OLD = (1, 108, 4)


def found(source: str | bytes, version: tuple[int, ...] | None = None) -> Finding:
    finding = check_lua(source, version=version)
    assert finding, source
    return finding


def test_lua_is_fine() -> None:
    assert check_lua("local x = 1\nprint(x)\n") is None
    assert check_lua("") is None
    assert check_lua(b"print('\xff\x00')") is None


def test_a_missing_end_names_what_it_would_close() -> None:
    finding = found("local x = 1\n\nfunction f()\n  x = 2\n")
    assert (finding.line, finding.message) == (5, "'end' expected (to close 'function' at line 3) near <eof>")
    assert finding.sentence.startswith("file.lua:5: 'end' expected (to close 'function' at line 3) near <eof>. Each ")


def test_the_name_heads_the_sentence() -> None:
    finding = check_lua("x = = 1", name="startup.lua")
    assert str(finding) == "startup.lua:1: unexpected symbol near '='."


def test_a_sentence_is_short() -> None:
    finding = check_lua("x = = 1", name="n" * 500)
    assert finding
    assert len(finding.sentence) == MAX_SENTENCE


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ("x = = 1", 1, 5),
        ("\n\n  x = = 1", 3, 7),
        ("\r\n\r\nx = = 1", 3, 5),
        ("\r\rx = = 1", 3, 5),
        ("--[[\n\n]] x = = 1", 3, 8),
        ("x = [[\n\n]] = 1", 3, 4),
        ("#!/bin/lua\nx = = 1", 2, 5),
        ("x = 'a\\\nb' = 1", 2, 4),
        ("x = 'ä' = 1", 1, 9),
    ],
)
def test_places(source: str, line: int, column: int) -> None:
    finding = found(source)
    assert (finding.line, finding.column) == (line, column)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 3..2", "malformed number near '3..2'"),
        ("x = 'abc", "unfinished string near ''abc'"),
        ("x = [==[ abc", "unfinished long string (']==]' is missing) near '[==['"),
        ("--[[ abc", "unfinished long comment (']]' is missing) near '--[['"),
        ("--[[ [[ ]] ]]", "nesting of [[...]] is deprecated near '--[['"),
        ("x = [=a", "invalid long string delimiter near '[='"),
        ("x = '\\300'", "escape sequence too large (a byte is at most 255) near ''\\300'"),
        ("x = '\\x4g'", "hexadecimal digit expected (\\x takes two) near ''\\x4g'"),
        ("x = '\\u1'", "malformed \\u escape (write \\u{ and hexadecimal digits and }) near ''\\u1'"),
        ("x = '\\u{110000}'", "UTF-8 value too large near ''\\u{110000}'"),
        ("goto x", "no visible label 'x' for goto"),
        ("::x:: ::x::", "label 'x' already defined on line 1"),
        ("goto x; local a; ::x:: f()", "goto 'x' jumps into the scope of local 'a'"),
        ("break", "'break' stands outside of a loop"),
        ("function f() return ... end", "cannot use '...' outside a vararg function near '...'"),
        ("x:y = 1", "function arguments expected near '='"),
        ("for x.y in z do end", "'=' or 'in' expected near '.'"),
        ("function f(1) end", "<name> or '...' expected near '1'"),
        ("x = '" + "a" * 99, "unfinished string near ''" + "a" * 39 + "…'"),
        ("x = {\n\n1 2}", "'}' expected (to close '{' at line 1) near '2'"),
        ("x = (1 2)", "')' expected near '2'"),
        ("x = " + "(" * 300, "chunk has too many syntax levels (200 is the limit)"),
    ],
)
def test_messages(source: str, message: str) -> None:
    assert found(source).message == message


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("if a != b then end", "write ~="),
        ("if a !== b then end", "write ~="),
        ("if a <> b then end", "write ~="),
        ("if !a then end", "write not"),
        ("if a === b then end", "write =="),
        ("if a && b then end", "write and"),
        ("if a || b then end", "write or"),
        ("if a = b then end", "compares with =="),
        ("x += 1", "write x = x + 1."),
        ("local x -= y", "write x = x - y."),
        ("t.count *= 2", "write t.count = t.count * 2."),
        ("s ..= 'x'", "write s = s .. 'x'."),
        ("x += f(1) +", "write x = x + f."),
        ("i++", "write i = i + 1"),
        ("x = y++", "write y = y + 1"),
        ("t[i].n += 1", "write x = x + 1"),
        ("t[i] += 1", "write t[i] = t[i] + 1"),
        ("if a &lt; b then end", "the sign < itself"),
        ("t.1 = 2", "t[1]"),
        ("print 'a' .. b", "in parentheses"),
        ("function f\n  g()\nend", "Parameters stand in parentheses"),
        ("if x then f() endif", "every block with end"),
        ("t.continue f()", "assigns (x = value) or calls"),
        ("i--\nf()", "write i = i - 1"),
        ("for i = 1, 3 do\n  if x then continue end\nend", "::continue::"),
        ("for i = 1, 3 do\n  goto continue\nend", "::continue:: as the last statement"),
        ("if a then\n  f()\nelse if b then\n  g()\nend\n", "'else if' on line 3"),
        ("if a then f() elif b then g() end", "elseif"),
        ("// hello", "begin with --"),
        ("x = 1 // hello", "math.floor"),
        ("x = 1 /* hello */", "--[["),
        ("# hello\n# world", "begin with --"),
        ("x = a & b", "bit32.band"),
        ("x = a | b", "bit32.bor"),
        ("x = ~a", "bit32.bxor"),
        ("x = a << 1", "bit32.lshift"),
        ("x = a >> 1", "bit32.rshift"),
        ("x = a ? b : c", "condition and a or b"),
        ("x = `hello`", "no backquotes"),
        ("print(\\'a\\')", "real line ends"),
        ('print("a', "cut at a double quote"),
        ("print(", "cut at a double quote"),
        ("local x = require(", "cut at a double quote"),
        ("print('a\n')", "ends on its line"),
        ("print('it's')", "ended at its own quote"),
        ('print("say "hi" to")', "ended at its own quote"),
        ("def f(x):\n    return x\n", "function name("),
        ("if x:\n    f()\n", "without a colon"),
        ("if x == 1:\n    f()\nelse:\n    g()\n", "without a colon"),
        ("while True:\n    f()\n", "without a colon"),
        ("for i in range(10):\n    f(i)\n", "without a colon"),
        ("import math", "require('name')"),
        ("var x = 1", "local name"),
        ("let x = 1", "local name"),
        ("const f = 1", "local name"),
        ("int x = 1", "local name"),
        ("class A", "no classes"),
        ("switch x", "elseif"),
        ("if x then pass end", "needs no pass"),
        ("local f = (x) => x", "function(x)"),
        ("function f() {\n}", "no braces"),
        ("if (x) {\n  f()\n}\n", "no braces"),
        ("while (x) {\n  y = 1\n}\n", "no braces"),
        ("for (int i = 0; i < 3; i++) {", "for i = 1, 10 do"),
        ("for i = 1 to 10 do end", "for i = 1, 10 do"),
        ("for i in 1..10 do end", "for i = 1, 10 do"),
        ("```lua\nprint(1)\n```\n", "Markdown fence"),
        ("print(1)\n```\n", "Markdown fence"),
        ("print(“hello”)", "plain quotes"),
        ("é = 1", "only stands inside of strings"),
        ("t = {'a': 1}", "no colons"),
        ("t = {a: 1}", "no colons"),
        ("t = [1, 2]", "no colons, no brackets"),
        ("t = {a = 1 b = 2}", "A comma or a }"),
        ("f(a b)", "A comma or a )"),
        ("function f(x: number) end", "no types"),
        ("local x: number = 1", "no types"),
        ("local x <const> = 1", "no <const>"),
        ("local end = 1", "choose another name"),
        ("t.end = 1", "write ['end']"),
        ("x == 1", "= assigns"),
        ("x y", "assigns (x = value) or calls"),
        ("if x f() end", "if condition then"),
        ("while x f() end", "while condition do"),
        ("return 1\nf()", "do return end"),
        ("end", "one end too many"),
        ("break", "leaves while"),
        (
            "function f()\n  if x then\n    g()\nend\n\nfunction h()\n  g()\nend\n",
            "'if' on line 2 has no end: that on line 4",
        ),
        (
            "function f()\n  if x then\n    g()\n  end\n  end\n  g()\nend\n",
            "end on line 5 does not belong to 'function'",
        ),
    ],
)
def test_mistakes_from_elsewhere_are_told_as_what_lua_wants(source: str, advice: str) -> None:
    finding = found(source)
    assert advice in finding.advice
    assert finding.sentence.endswith(finding.advice)


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("for i = 1, 3 do\n  if x then continue end\nend", "if … then … end"),
        ("goto x", "older than 1.109"),
        ("x = 1;;", "older than 1.109"),
        ("f()\n(g)()", "on the line of the function's name"),
        ("while x do break f() end", "do break end"),
    ],
)
def test_older_computers_are_told_of_their_lua(source: str, advice: str) -> None:
    assert advice in found(source, OLD).advice


@given(st.text())
def test_any_text_has_an_answer(text: str) -> None:
    answers(text)


@given(st.binary())
def test_any_bytes_have_an_answer(raw: bytes) -> None:
    answers(raw)


@given(
    st.lists(
        st.sampled_from(
            [
                *"abx01.:;,=~<>+-*/%^#(){}[]'\"\\\n\r\0 \ud800é",
                *["end", "if", "then", "do", "for", "function", "local", "return", "goto"],
            ]
        )
    )
)
def test_any_pieces_have_an_answer(pieces: list[str]) -> None:
    answers("".join(f"{piece} " if piece.isalpha() else piece for piece in pieces))


def answers(source: str | bytes) -> None:
    for version in (None, OLD, (1, 95)):
        finding = check_lua(source, version=version)
        globals_of(source, version=version)
        flags = unknown_names(source, Names({"os": {"time": None}}), version=version)
        assert finding is None or not flags
        if finding:
            assert finding.line >= 1
            assert finding.column >= 1
            assert len(finding.sentence) <= MAX_SENTENCE
            assert finding.sentence.isprintable()


def test_nesting_needs_no_stack() -> None:
    limit = sys.getrecursionlimit()
    deep = [
        "(" * 9999,
        "x = " + "{" * 9999,
        "x = " + "not " * 9999,
        "do " * 9999,
        "f(" * 9999,
        "a[" * 9999,
        "x = function() " * 9999,
    ]
    try:
        sys.setrecursionlimit(len_of_stack() + 60)
        findings = [check_lua(text, version=version) for text in deep for version in (None, OLD)]
    finally:
        sys.setrecursionlimit(limit)
    assert all(finding and "too many syntax levels" in finding.message for finding in findings)


def len_of_stack() -> int:
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


MADE: dict[str, Callable[[int], str]] = {
    "code": lambda n: "local function f(a, b)\n  if a == b then return t.x[a](b, 1, 'x') .. 'y' end\nend\n" * (n // 75),
    "parentheses": lambda n: "x = (1)\n" * (n // 8),
    "brackets": lambda n: "[" * n,
    "quotes": lambda n: "'" * n,
    "escapes": lambda n: "x = '" + "\\n" * (n // 2),
    "zaps": lambda n: "x = '" + "\\z\n" * (n // 3),
    "zapped lines": lambda n: "x = '\\z" + "\n" * n,
    "comments": lambda n: "--[==[\n" * (n // 7),
    "line comments": lambda n: "--\n" * (n // 3),
    "blanks": lambda n: " " * n,
    "lines": lambda n: "\n" * n + "x = = 1",
    "digits": lambda n: "x = " + "1" * n + "x",
    "hexadecimal": lambda n: "x = 0x" + "0" * n + "." + "0" * n + "g",
    "dots": lambda n: "x = " + "." * n,
    "fields": lambda n: "x = a" + ".b" * (n // 2),
    "list": lambda n: "x = {" + "1," * (n // 2) + "}",
    "gotos": lambda n: "do " + "goto a " * (n // 7) + "end ::a::",
    "labels": lambda n: " ".join(f"::a{at}::" for at in range(n // 10)),
    "waiting gotos": lambda n: "do " * 150 + " ".join(f"goto a{at}" for at in range(n // 12)) + " end" * 150,
    "names": lambda n: " ".join(f"f{at}()" for at in range(n // 8)),
    "aliases": lambda n: "do local a = b.c " * 150 + "a.d() " * (n // 6) + "end " * 150,
    "indented ends": lambda n: "if x then\n" * 150 + " end\n" * 150 + "do\n end\n" * (n // 9) + "if",
    "ends on one line": lambda n: "if x then end " * (n // 14) + "if",
    "open string": lambda n: "x = 'a" + "b" * n,
    "long line": lambda n: "x = 1 " * (n // 6) + "x += 1",
    "long names": lambda n: "a" * n + "()",
    "else ifs": lambda n: "if a then else if b then end end " * (n // 33) + "if",
}


@pytest.mark.thinned(4)
@pytest.mark.parametrize("what", MADE)
def test_the_work_is_linear(what: str) -> None:
    """Ten times the text may take ten times as long; forty is far from the hundred that a square would be."""
    make = MADE[what]
    make(100)
    small, large = best_of(make(6_000)), best_of(make(60_000))
    assert large < 40 * max(small, 0.002)


def best_of(text: str) -> float:
    def once() -> float:
        begin = time.process_time()
        check_lua(text)
        unknown_names(text, Names({"print": None, "os": {"time": None}}))
        return time.process_time() - begin

    return min(once() for _ in range(2))


def test_400_kilobytes_are_read_quickly() -> None:
    bodies = "\n".join(f"do local function part()\n{program}\nend end" for program in programs())
    text = f"{bodies}\n" * 2
    assert len(text) > 400_000
    begin = time.process_time()
    assert check_lua(text) is None
    assert time.process_time() - begin < 2
