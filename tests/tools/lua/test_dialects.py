"""Each version of CC: Tweaked compiles its own Lua, with its own limits."""

from collections.abc import Callable

import pytest

from orchestrator.tools.lua import check_lua
from orchestrator.tools.lua.lexer import NEWEST, dialect_of
from tests.tools.lua.cobalt import CASES, VERSIONS

IDS = ["0.5.7", "0.7.0", "0.7.1", "0.7.3", "0.8.0", "0.9.8"]


@pytest.mark.parametrize("at", range(len(VERSIONS)), ids=IDS)
def test_what_the_real_compilers_accept(at: int) -> None:
    wrong = [
        text
        for signs, texts in CASES.items()
        for text in texts
        if (check_lua(text, version=VERSIONS[at]) is None) != (signs[at] == "+")
    ]
    assert not wrong


def test_the_table_tells_the_versions_apart() -> None:
    assert len(CASES) >= 6


def test_an_unknown_version_is_the_newest() -> None:
    assert dialect_of(None) == dialect_of((1, 200)) == NEWEST


def test_a_hexadecimal_number_had_any_length_before_1_114() -> None:
    assert check_lua("x = 0x" + "f" * 31, version=(1, 113, 1)) is None
    assert check_lua("x = 0x" + "0" * 9 + "f" * 30) is None
    assert check_lua("x = 0x" + "f" * 31)


def test_1_107_reads_no_hexadecimal_fraction() -> None:
    assert check_lua("x = 0x1p4", version=(1, 107, 0))
    assert check_lua("x = 0xffffffffffffffffff", version=(1, 107, 0)) is None
    assert check_lua("x = 1f", version=(1, 107, 0))


def message(source: str) -> str:
    finding = check_lua(source)
    assert finding
    return finding.message


def locals_(count: int, prefix: str = "a") -> str:
    return " ".join(f"local {prefix}{at}" for at in range(count))


def captured(count: int, more: str = "") -> str:
    names = " + ".join(f"a{at}" for at in range(count))
    return f"{locals_(count)} function f() return {more}{names} end"


def arguments(count: int) -> str:
    return ", ".join(["1"] * count)


def nested_functions(depth: int) -> str:
    return "x = " + "function() return " * depth + "1" + " end" * depth


LIMITS: list[tuple[Callable[[int], str], tuple[int, ...]]] = [
    # how to make a text of some size, and the largest that each version accepts
    (lambda n: "x = " + "(" * n + "1" + ")" * n, (198, 198, 198, 198, 198, 198)),
    (lambda n: "x = " + "{" * n + "}" * n, (199, 199, 199, 199, 199, 199)),
    (lambda n: "x = " + "not " * n + "1", (198, 198, 198, 198, 198, 198)),
    (lambda n: "x = " + "a .. " * n + "a", (198, 198, 198, 198, 198, 198)),
    (lambda n: "do " * n + "end " * n, (199, 199, 199, 199, 200, 200)),
    (nested_functions, (99, 99, 99, 99, 99, 99)),
    (locals_, (200, 200, 200, 200, 200, 200)),
    (lambda n: f"{locals_(150)} function f() {locals_(n, 'b')} end", (200, 200, 200, 200, 50, 50)),
    (captured, (60, 61, 61, 61, 61, 61)),
    (lambda n: captured(n, "g + "), (60, 61, 61, 61, 60, 60)),
    (lambda n: f"f({arguments(n)})", (248, 248, 248, 248, 248, 248)),
    (lambda n: f"f:m({arguments(n)})", (247, 247, 247, 247, 247, 247)),
    (lambda n: f"return {arguments(n)}", (249, 249, 249, 249, 249, 249)),
    (lambda n: f"f(g({arguments(n)}))", (247, 247, 247, 247, 247, 247)),
]


@pytest.mark.parametrize("at", range(len(VERSIONS)), ids=IDS)
@pytest.mark.parametrize("limit", range(len(LIMITS)))
def test_limits_are_the_compilers(limit: int, at: int) -> None:
    make, largest = LIMITS[limit]
    assert check_lua(make(largest[at]), version=VERSIONS[at]) is None
    found = check_lua(make(largest[at] + 1), version=VERSIONS[at])
    assert found
    assert "than" in found.message or "too" in found.message


def test_a_break_that_begins_a_branch_takes_no_level() -> None:
    def nested(depth: int) -> str:
        return "while 1 do if x then break " + "do " * depth + "end " * depth + "end end"

    assert check_lua(nested(198)) is None
    assert check_lua(nested(199))


def test_labels_in_a_row_are_nested_statements() -> None:
    assert check_lua(" ".join(f"::a{at}::" for at in range(200))) is None
    assert check_lua(" ".join(f"::a{at}::" for at in range(201)))


def test_a_goto_finds_its_label_further_out() -> None:
    assert check_lua("local x goto a ::a:: f(x)") is None
    assert check_lua("::a:: local x do local y do goto a end end") is None
    assert check_lua("do do goto a end goto b end ::b:: ::a::") is None
    assert message("do do goto a end goto b end ::b::") == "no visible label 'a' for goto"
    assert message("do goto a end local x do goto a end ::a:: f()").endswith("of local 'x'")


def test_a_long_list_is_no_limit() -> None:
    assert check_lua("x = {" + arguments(5000) + "}") is None
    assert check_lua("x = " + "-a * " * 5000 + "a") is None
