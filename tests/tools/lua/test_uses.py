"""Which global names a text uses, and how."""

import pytest

from orchestrator.tools.lua import Use, globals_of


def uses(source: str) -> list[tuple[str, str]]:
    return [(use.name, use.how) for use in globals_of(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("print(x)", [("print", "call"), ("x", "read")]),
        ("turtle.dig()", [("turtle.dig", "call")]),
        ("turtle:dig()", [("turtle.dig", "method")]),
        ("turtle['dig']()", [("turtle.dig", "call")]),
        ("turtle[k]()", [("turtle", "index"), ("k", "read")]),
        ("turtle['d\\x69g']()", [("turtle", "index")]),
        ("x = 1", [("x", "assign")]),
        ("x.y.z = 1", [("x.y.z", "assign")]),
        ("x, y = y, x", [("x", "assign"), ("y", "assign"), ("y", "read"), ("x", "read")]),
        ("function f() end", [("f", "assign")]),
        ("function a.b:c() return self end", [("a.b.c", "assign")]),
        ("peripheral.wrap('left').f.g()", [("peripheral.wrap", "call")]),
        ("print'x'.y = 1", [("print", "call")]),
        ("f{a = b}", [("f", "call"), ("b", "read")]),
        ("return #t", [("t", "read")]),
    ],
)
def test_uses_of_globals(source: str, expected: list[tuple[str, str]]) -> None:
    assert uses(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "local x = 1 x()",
        "local function f() f() end",
        "local t = {} function t.f() end t.f()",
        "for i = 1, 2 do i() end",
        "for k, v in 1 do k(v) end",
        "local function f(a, ...) a(...) end",
        "local t = {} function t:f() self.x() end",
        "local x repeat local y = 1 until y",
        "local x; local function f() return function() return x end end",
        "goto a ::a::",
    ],
)
def test_locals_are_no_globals(source: str) -> None:
    assert uses(source) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("do local x = 1 end x()", [("x", "call")]),
        ("local x = x.y", [("x.y", "read")]),
        ("repeat local y = 1 until y y()", [("y", "call")]),
        ("for i = i, 2 do end", [("i", "read")]),
        ("local function f(a) end a()", [("a", "call")]),
        ("if 1 then local a else a() end", [("a", "call")]),
    ],
)
def test_scopes_end(source: str, expected: list[tuple[str, str]]) -> None:
    assert uses(source) == expected


@pytest.mark.parametrize(
    ("source", "last"),
    [
        ("local t = turtle t.dig()", "turtle.dig"),
        ("local t = _G.turtle t.dig()", "turtle.dig"),
        ("local g = _G g.turtle.dig()", "turtle.dig"),
        ("local d = turtle.dig d()", "turtle.dig"),
        ("local a, b = term, turtle b.dig()", "turtle.dig"),
        ("local t = turtle local u = t u.dig()", "turtle.dig"),
        ("local t = turtle function f() t.dig() end", "turtle.dig"),
        ("_ENV.turtle.dig()", "turtle.dig"),
        ("_G._G['turtle'].dig()", "turtle.dig"),
    ],
)
def test_a_local_stands_for_what_it_was_made_from(source: str, last: str) -> None:
    assert uses(source)[-1] in ((last, "call"), (last, "assign"))


@pytest.mark.parametrize(
    "source",
    [
        "local t = turtle t = nil t.dig()",
        "local t = turtle function f() t = nil end t.dig()",
        "local t = (turtle) t.dig()",
        "local t = turtle or nil t.dig()",
        "local t = not turtle t.dig()",
        "local t = turtle() t.dig()",
        "local t = f(turtle) t.dig()",
        "local t = {turtle} t.dig()",
        "local t, u = 1, turtle t.dig()",
        "local t = turtle local function t() end t.dig()",
    ],
)
def test_but_not_for_more(source: str) -> None:
    assert "turtle.dig" not in [use.name for use in globals_of(source)]


@pytest.mark.parametrize(
    "source",
    [
        "if x then end",
        "if not x then end",
        "while x do end",
        "repeat until x",
        "if x and y() then end",
        "local a = x or 1",
        "local a = 1 and x",
        "if x == nil then end",
        "if nil ~= x then end",
        "if type(x) == 'table' then end",
        "assert(x, 'no x')",
        "if 1 then elseif x then end",
        "if not(x) then end",
        "if ((x)) then end",
        "while (x) do end",
        "local x = x",
        "local a, x = 1, x",
    ],
)
def test_asking_whether_a_name_is_there(source: str) -> None:
    assert ("x", "test") in uses(source)


@pytest.mark.parametrize(
    "source",
    [
        "if 1 == x then end",
        "f(x)",
        "if f(x) then end",
        "if (f)(x) then end",
        "if x == 1 then end",
        "if x < 1 then end",
        "print(x)",
        "return x",
        "local a = x",
        "f(x + 1)",
        "for i in x do end",
        "x()",
    ],
)
def test_using_it_is_not_asking(source: str) -> None:
    assert ("x", "test") not in uses(source)


def test_aliases_of_aliases_are_followed_for_some_steps() -> None:
    def chained(steps: int) -> str:
        return "local a0 = turtle " + " ".join(f"local a{at + 1} = a{at}" for at in range(steps)) + f" a{steps}.dig()"

    assert uses(chained(6))[-1] == ("turtle.dig", "call")
    assert ("turtle.dig", "call") not in uses(chained(60))


def test_lines() -> None:
    found = globals_of("\n\nprint(\n  turtle\n    .dig())\n")
    assert found == [Use(("print",), 3, "call"), Use(("turtle", "dig"), 4, "call")]


def test_what_pcall_guards() -> None:
    found = globals_of("f() pcall(function() g() return function() h() end end) i()")
    assert [use.name for use in found if use.guarded] == ["g", "h"]


def test_what_is_written_as_a_field_of_the_environment() -> None:
    found = globals_of("f() _G.g() _ENV.h.i() local e = _G e.j() _G()")
    assert [(use.name, use.of_environment) for use in found] == [
        *(("f", False), ("g", True), ("h.i", True)),
        *(("_G", False), ("j", True), ("_G", False)),
    ]


def test_a_broken_text_has_the_uses_before_the_error() -> None:
    assert uses("print(1) x = = y") == [("print", "call"), ("x", "assign")]


def test_the_old_lua_is_read_too() -> None:
    assert [use.name for use in globals_of("goto = 1 print(goto)", version=(1, 95))] == ["goto", "print", "goto"]
