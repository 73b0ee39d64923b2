"""Which names of a text do not exist on its computer; a false alarm is worse than a miss."""

import pytest

from orchestrator.tools.lua import Names, unknown_names
from orchestrator.tools.lua.names import MAX_FLAGS, distance, nearest
from tests import ROOT

PLAIN = (
    "assert dofile error getfenv getmetatable ipairs load loadfile loadstring pairs pcall print rawlen rawset require "
    "select setfenv xpcall"
)
KNOWN = Names(
    {
        **dict.fromkeys([*PLAIN.split(), *["setmetatable", "sleep", "tostring", "type"]]),
        "turtle": {"dig": None, "forward": None, "back": None},
        "os": {"pullEvent": None, "time": None, "loadAPI": None},
        "term": {"write": None, "setCursorPos": None, "clear": None},
        "http": None,
        "window": {"clear": None},
        "deep": {"inner": {"leaf": None}},
    },
    {
        "pocket": "only pocket computers have it",
        "turtle.digs": "only some turtles have it",
        "os.about": "it came with CC: Tweaked 1.200",
    },
)


def flags(source: str, known: Names = KNOWN) -> list[str]:
    return [flag.sentence for flag in unknown_names(source, known)]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("\n\nturtle.digg()", "line 3: turtle.digg does not exist (did you mean turtle.dig?)."),
        ("turtle:digg()", "line 1: turtle.digg does not exist (did you mean turtle.dig?)."),
        ("turtle['digg']()", "line 1: turtle.digg does not exist (did you mean turtle.dig?)."),
        ("local f = turtle.digg", "line 1: turtle.digg does not exist (did you mean turtle.dig?)."),
        ("local t = turtle\nt.digg()", "line 2: turtle.digg does not exist (did you mean turtle.dig?)."),
        ("turtle.dgi()", "line 1: turtle.dgi does not exist (did you mean turtle.dig?)."),
        ("os.pullevent()", "line 1: os.pullevent does not exist (did you mean os.pullEvent?)."),
        ("os.pullEvents()", "line 1: os.pullEvents does not exist (did you mean os.pullEvent?)."),
        ("Os.time()", "line 1: Os does not exist (did you mean os?)."),
        ("deep.inner.laef()", "line 1: deep.inner.laef does not exist (did you mean deep.inner.leaf?)."),
        ("term.print('x')", "line 1: term.print does not exist (did you mean print?)."),
        ("setCursorPos(1, 1)", "line 1: setCursorPos does not exist (did you mean term.setCursorPos?)."),
        ("banana()", "line 1: banana does not exist."),
        ("clear()", "line 1: clear does not exist."),
        ("print(banana)", "line 1: banana does not exist."),
        ("banana.x = 1", "line 1: banana does not exist."),
        ("function banana.x() end", "line 1: banana does not exist."),
        ("pocket.equipBack()", "line 1: pocket does not exist (only pocket computers have it)."),
        ("os.about()", "line 1: os.about does not exist (it came with CC: Tweaked 1.200)."),
        ("x = null", "line 1: null does not exist (Lua's word is nil)."),
        ("console.log(1)", "line 1: console does not exist (use print)."),
        ("for i in range(3) do end", "line 1: range does not exist (write for i = 1, 10 do)."),
        (
            "local function f() g() end\nlocal function g() end",
            "line 1: g does not exist (the local of this name on line 2 is not visible here).",
        ),
        ("_G.turtle.digg()", "line 1: turtle.digg does not exist (did you mean turtle.dig?)."),
        ("if x == turtle.digg then end x = 1", "line 1: turtle.digg does not exist (did you mean turtle.dig?)."),
        ("if banana.ripe then end", "line 1: banana does not exist."),
        ("a" * 99 + "()", "line 1: " + "a" * 60 + "… does not exist."),
        ("pcall(function() turtle.digg() end)", "line 1: turtle.digg does not exist (did you mean turtle.dig?)."),
        ("pcall(function() end) banana()", "line 1: banana does not exist."),
        ("pcall(banana)", "line 1: banana does not exist."),
        ("function load() end load() banana()", "line 1: banana does not exist."),
        ("f(" + "x", ""),
    ],
)
def test_what_does_not_exist_is_flagged(source: str, sentence: str) -> None:
    assert flags(source) == ([sentence] if sentence else [])


@pytest.mark.parametrize(
    "source",
    [
        # it exists, or it is not known what exists
        "turtle.dig()",
        "http.anything.at.all()",
        "deep.inner.leaf.anything()",
        "print(_G, _ENV, _G.print)",
        "local t = require('t') t.anything()",
        "local p = pcall(require, 'p')",
        "local t = turtle.dig().anything",
        "('x'):anything()",
        # the file makes it
        "banana = 1 banana()",
        "banana() banana = 1",
        "function banana() end banana()",
        "function turtle.digg() end turtle.digg()",
        "turtle.digg = print turtle.digg.x()",
        "_G.banana = 1 banana()",
        "_G['banana'] = 1 banana()",
        "local g = _G g.banana = 1 banana()",
        "turtle = {} turtle.digg()",
        "local turtle = {} turtle.digg()",
        "local function f(turtle) turtle.digg() end",
        # another program may have made it
        "_G.banana() banana.peel()",
        "local banana = _G.banana",
        "local g = _G g.banana()",
        # the file asks for it first
        "if banana then banana() end",
        "if not banana then error('no') end banana.peel()",
        "local x = banana or print",
        "local x = banana and banana.peel",
        "if type(banana) == 'function' then banana() end",
        "assert(banana, 'no') banana()",
        "if turtle.digg then turtle.digg() end",
        "local t = turtle if t.digg then t.digg() end",
        "local ok = pcall(function() return banana.peel() end)",
        "pcall(function() turtle.digs() end)",
        "local ok = xpcall(function() local function f() pocket.x() end f() end, print)",
        # what the file loads may make it
        "load('x')() banana()",
        "loadstring('x')() banana()",
        "pcall(dofile, 'x') banana()",
        "loadfile('x')() turtle.digg()",
        "os.loadAPI('x') x.y()",
        "require('x') banana()",
        "setfenv(1, {}) banana()",
        "getfenv().banana = 1 banana()",
        "_G[print] = 1 banana()",
        "setmetatable(_G, {}) banana()",
        "rawset(_G, 'banana', 1) banana()",
        "setmetatable(_ENV, {}) banana()",
        "local _ENV = {} banana()",
        "function f(_ENV) banana() end",
        "_ENV = {} banana()",
        "_G = {} _G.banana()",
        "local t = turtle t = {} t.digg()",
    ],
)
def test_what_may_exist_is_not(source: str) -> None:
    assert flags(source) == []


def test_each_name_is_told_once() -> None:
    assert [str(flag) for flag in unknown_names("banana() banana()", KNOWN)] == ["line 1: banana does not exist."]
    assert [flag.line for flag in unknown_names("\nbanana()\nbanana()\napple()", KNOWN)] == [2, 4]


def test_not_more_than_a_window_bears() -> None:
    assert len(flags(" ".join(f"f{at}()" for at in range(99)))) == MAX_FLAGS


def test_a_text_that_is_not_lua_has_no_flags() -> None:
    assert flags("banana() x = = 1") == []


def test_our_own_client_is_written_with_names_that_exist() -> None:
    lua = "_VERSION math string table coroutine tonumber unpack next rawget rawequal xpcall bit32 loadstring loadfile"
    cc = "fs term os http peripheral shell settings colors keys parallel textutils window vector rs redstone turtle"
    more = "read write printError multishell pocket commands package arg _HOST gps rednet disk paintutils help"
    known = Names({**KNOWN.globals, **dict.fromkeys([*lua.split(), *cc.split(), *more.split()])})
    seen = {
        path.name: found
        for path in sorted((ROOT / "cc_client" / "lua").glob("*.lua"))
        if (found := flags(path.read_text("utf-8"), known))
    }
    assert seen == {}


@pytest.mark.parametrize(
    ("one", "other", "errors"),
    [
        ("", "", 0),
        ("dig", "dig", 0),
        ("digg", "dig", 1),
        ("dgi", "dig", 1),
        ("dog", "dig", 1),
        ("", "dig", 3),
        ("abcd", "badc", 2),
    ],
)
def test_typing_errors_are_counted(one: str, other: str, errors: int) -> None:
    assert distance(one, other) == distance(other, one) == errors


def test_the_nearest_word() -> None:
    assert nearest("PRINT", ["print", "PRINTS"]) == "print"
    assert nearest("ab", ["cd", "abcd"]) is None
    assert nearest("forwrad", ["forward", "forwards"]) == "forward"
    assert nearest("dig", ["dig"]) is None
    assert nearest("forxxxard", ["forward"]) is None
