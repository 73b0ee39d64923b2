"""Command lines: which programs a line would run, and what rules on programs make of that."""

import pytest

from orchestrator.core.policy import Effect, FunctionCall
from orchestrator.core.policy.command_line import is_allowed, is_hit, read_line, runs_of, split_words
from tests.core.policies import effect_of, hits, rule, run, shell

DELETE = rule("deny", programs=("rom/programs/delete.lua",), tools=("cc_shell", "cc_run_program"))
RUNS = ("cc_shell", "cc_run_program")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("  \t ", []),
        ("rm x", ["rm", "x"]),
        ("\trm\t x  y ", ["rm", "x", "y"]),
        ('edit "my file" b', ["edit", "my file", "b"]),
        ('a"b c"d', ["a", "b c", "d"]),
        ('"a b', ["a b"]),
        ('say ""', ["say", ""]),
        ('say "', ["say", ""]),
        ("a\nb c", ["a\nb", "c"]),
        ("rm\u00a0x", ["rm\u00a0x"]),
        ("it's 'a b'", ["it's", "'a", "b'"]),
    ],
)
def test_a_line_is_split_as_the_computer_splits_it(line: str, words: list[str]) -> None:
    """Blanks and tabs part words, double quotes hold them together, and an open one ends with the line."""
    assert split_words(line) == words


@pytest.mark.parametrize(
    ("line", "wrapped", "plain"),
    [
        ("rm x", (), True),
        ("wget https://a.example/x x", (), True),
        ("pastebin get abc x", (), True),
        ("shell", (), False),
        ("shell rm x", ("rm",), False),
        ("sh rm x", ("rm",), False),
        ('shell "rm x"', ("rm",), False),
        ("/rom/programs/shell.lua rm x", ("rm",), False),
        ("bg", (), False),
        ("background rm", ("rm",), False),
        ('fg "monitor left rm"', ("monitor", "rm"), False),
        ("foreground shell bg rm", ("bg", "rm", "shell"), False),
        ("monitor left rm x", ("rm",), False),
        ('monitor left "my prog" x', ("my", "my prog"), False),
        ("monitor left", (), False),
        ("lua", (), False),
        ("exec say hi", (), False),
        ("import", (), False),
        ("multishell", (), False),
        ("wget run https://a.example/x", (), False),
        ("wget RUN https://a.example/x", (), False),
        ("pastebin run abc", (), False),
    ],
)
def test_what_a_line_runs_inside(line: str, wrapped: tuple[str, ...], plain: bool) -> None:
    """Wrappers are seen through, one in another too, and no line with one is a plain program."""
    found = read_line(line)
    assert (found.wrapped, found.plain, found.unclear) == (wrapped, plain, False)


def test_an_alias_that_somebody_made_is_seen_through_once_it_is_resolved() -> None:
    """The computer says that ``x`` is the shell, so what follows is a line."""
    assert read_line("x rm y").wrapped == ()
    assert read_line("x rm y", "rom/programs/shell.lua").wrapped == ("rm",)


@pytest.mark.parametrize("line", ["", '""', "/../x", "a" * 600, "shell " * 100 + "rm", "bg " + "a" * 600 + " x"])
def test_a_line_that_cannot_be_read_is_no_plain_program_to_anybody(line: str) -> None:
    """It matches whatever a rule denies, and nothing that a rule allows."""
    asked = rule("deny", programs=("some/other",), tools=RUNS)
    allowed = rule("allow", programs=("**",), tools=("cc_shell",))
    assert effect_of(shell(line), rule("allow", "all", tools=("*",)), asked) is not Effect.ALLOW
    assert effect_of(shell(line), allowed) is not Effect.ALLOW


@pytest.mark.parametrize("args", [{}, {"command": 5}, {"command": None}, {"command": ["rm"]}])
def test_a_command_that_is_no_text_is_unclear(args: dict[str, object]) -> None:
    """Arguments of another type fail closed."""
    call = FunctionCall(tool="cc_shell", args=args)
    assert hits(DELETE, call)
    assert not hits(rule("allow", programs=("**",), tools=RUNS), call, program="rom/programs/list.lua")


def test_a_call_that_runs_nothing_is_no_program() -> None:
    """Of no program, whatever its arguments say: no glob means it, not even one that means all."""
    for tool in ("cc_write", "cc_read"):
        runs = runs_of(tool, {"path": "rm", "command": "rm"}, None)
        assert is_hit(runs, ("**", "rm")) is False
        assert not is_allowed(runs, ("**",))


@pytest.mark.parametrize("args", ["rm", [5], {"a": "b"}])
def test_arguments_of_a_program_that_are_no_texts_are_unclear(args: object) -> None:
    """As above, for the arguments of ``cc_run_program``."""
    assert hits(DELETE, FunctionCall(tool="cc_run_program", args={"path": "farm", "args": args}))


# -- promise P7: a rule that denies ---------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "rm x",
        "RM x",
        "delete x",
        "delete.lua x",
        "DELETE x",
        '"delete" x',
        '"rm" x',
        "del\x01ete x",
        "dele*te x",
        "delete? x",
        "/rom/programs/delete x",
        "\\rom\\programs\\delete x",
        "//rom/./programs//delete.lua x",
        "/ROM/Programs/Delete x",
        "/x/../rom/programs/delete x",
        "rom/programs/delete x",
        "../rom/programs/delete x",
        "programs/delete x",
        "./delete x",
        ".../delete x",
        "delete/ x",
        "shell rm x",
        "shell shell rm x",
        'shell "rm x"',
        'sh "" rm x',
        "bg rm x",
        "fg delete x",
        "background shell rm x",
        "monitor left rm x",
        "monitor scale rm 1",
        'monitor left "delete" x',
        "/rom/programs/advanced/bg rm x",
        "SHELL rm x",
        "rm\nx",
        "rm\u00a0x",
        "shell\nrm x",
        "bg rm\x0bx",
    ],
)
def test_p7_a_deny_rule_matches_every_spelling_of_the_program(line: str) -> None:
    """Aliases, quotes, letter case, paths, wrappers and odd blanks: what would run is what counts."""
    assert hits(DELETE, shell(line))


@pytest.mark.parametrize(
    "line",
    ["list", "undelete x", "deleted", "list rm", 'list "rm x"', "edit delete.lua", "bg list rm", "monitor rm list"],
)
def test_p7_a_deny_rule_leaves_other_programs_alone(line: str) -> None:
    """An argument of a program is no program."""
    assert not hits(DELETE, shell(line))


def test_p7_the_resolved_path_counts_where_it_is_known() -> None:
    """An alias of the user's own is caught once the computer has told, and a file that shadows is another program."""
    assert not hits(DELETE, shell("x y"))
    assert hits(DELETE, shell("x y"), program="rom/programs/delete.lua")
    assert hits(DELETE, shell("x y"), program="/ROM/programs/../programs/Delete.lua")
    assert not hits(DELETE, shell("rm y"), program="delete.lua")
    assert hits(DELETE, shell("x"), program="../out")


def test_p7_what_is_wrapped_is_judged_by_its_name_for_ever() -> None:
    """Nobody resolves the inner word, so a rule on a directory takes it for one of its programs."""
    secret = rule("deny", programs=("secret/**",), tools=RUNS)
    assert hits(secret, shell("bg anything"), program="rom/programs/advanced/bg.lua")
    assert hits(secret, shell("bg .."), program="rom/programs/advanced/bg.lua")
    assert not hits(secret, shell("bg /other/thing"), program="rom/programs/advanced/bg.lua")
    assert hits(secret, shell("bg /secret/thing"), program="rom/programs/advanced/bg.lua")
    assert not hits(
        rule("deny", programs=("a/*.txt",), tools=RUNS), shell("bg x"), program="rom/programs/advanced/bg.lua"
    )


@pytest.mark.parametrize(
    ("glob", "line", "found"),
    [
        ("rom/programs/turtle/*", "programs/turtle/dance", True),
        ("rom/programs/turtle/*", "programs/fun/dance", False),
        ("rom/**", "programs/fun/dance", True),
        ("rom**delete.lua", "x/delete", True),
        ("a/delete.lua", "x/y/a/delete", False),
        ("**/y/delete.lua", "x/y/delete", True),
        ("x/y/delete.lua", "y/delete", True),
    ],
)
def test_p7_a_relative_path_may_be_in_any_directory(glob: str, line: str, found: bool) -> None:
    """What stands in the word has to fit the end of the glob; what comes before it nobody knows."""
    assert hits(rule("deny", programs=(glob,), tools=RUNS), shell(f"shell {line}")) is found


def test_p7_before_a_word_is_resolved_a_rule_on_a_directory_asks() -> None:
    """It may be one of them: a person is asked, and the gate judges again when the computer has told."""
    everything = rule("allow", "all", tools=("*",))
    turtles = rule("deny", programs=("rom/programs/turtle/*",), tools=RUNS)
    known = {"computer": "3", "family": "turtle"}
    assert effect_of(shell("dance"), everything, turtles, **known) is Effect.ASK
    assert effect_of(shell(".."), everything, turtles, **known) is Effect.ASK
    assert effect_of(shell("/rom/programs/turtle/dance"), everything, turtles, **known) is Effect.DENY
    assert (
        effect_of(shell("dance"), everything, turtles, program="rom/programs/turtle/dance.lua", **known) is Effect.DENY
    )
    assert effect_of(shell("dance"), everything, turtles, program="dance.lua", **known) is Effect.ALLOW
    anything = rule("deny", programs=("**",), tools=RUNS)
    assert effect_of(shell("dance"), everything, anything, **known) is Effect.DENY


def test_p7_a_program_that_is_run_by_its_path_is_a_program() -> None:
    """``cc_run_program`` names it with and without ``.lua``; its arguments are no line, unless it is a wrapper."""
    assert hits(DELETE, run("rom/programs/delete", "x"))
    assert hits(DELETE, run("/ROM//programs/delete.lua"))
    assert not hits(DELETE, run("rom/programs/list.lua", "rm", "x"))
    assert not hits(DELETE, run("delete"))
    assert hits(DELETE, run("rom/programs/shell", "rm", "x"))
    assert hits(DELETE, run("rom/programs/shell.lua", "rm x"))
    assert hits(DELETE, run("rom/programs/advanced/bg.lua", '"rm x"'))
    assert hits(DELETE, run("farm", "rm"), program="rom/programs/shell.lua")


# -- promises P7, P8: a rule that allows ----------------------------------------------------------

LIST = rule("allow", programs=("rom/programs/list.lua",), tools=RUNS)


def test_p7_an_allow_rule_needs_the_resolved_path_of_the_whole_line() -> None:
    """The name is not enough: a file may shadow it, and nobody has looked yet."""
    assert hits(LIST, shell("ls"), program="rom/programs/list.lua")
    assert hits(LIST, shell("list -x rm"), program="/rom/programs/list.lua")
    assert hits(LIST, run("rom/programs/list"), program="rom/programs/list.lua")
    assert not hits(LIST, shell("ls"))
    assert not hits(LIST, shell("ls"), program="ls.lua")
    assert not hits(LIST, shell("ls"), program="rom/programs/List.lua")
    assert not hits(LIST, shell("ls"), program="../rom/programs/list.lua")
    assert not hits(LIST, shell("ls\nrm x"), program="rom/programs/list.lua")


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("shell ls", "rom/programs/shell.lua"),
        ("sh ls", "rom/programs/shell.lua"),
        ("bg ls", "rom/programs/advanced/bg.lua"),
        ("fg ls", "rom/programs/advanced/fg.lua"),
        ("monitor left ls", "rom/programs/monitor.lua"),
        ("lua", "rom/programs/lua.lua"),
        ("wget run https://a.example/list.lua", "rom/programs/http/wget.lua"),
        ("pastebin run list", "rom/programs/http/pastebin.lua"),
        ("exec ls", "rom/programs/command/exec.lua"),
        ("import ls", "rom/programs/import.lua"),
        ("multishell", "rom/programs/advanced/multishell.lua"),
    ],
)
def test_p8_a_wrapper_is_never_allowed_for_a_name(line: str, program: str) -> None:
    """Neither for the wrapped program's name, nor for its own, nor by a glob on everything."""
    for globs in (("rom/programs/list.lua",), (program,), ("**",)):
        one = rule("allow", programs=globs, tools=RUNS)
        assert not hits(one, shell(line), program=program)
        assert not hits(one, shell(line), program="rom/programs/list.lua")
    assert hits(rule("allow", programs=("**",), tools=RUNS), shell("ls"), program="rom/programs/list.lua")


def test_p8_a_wrapper_by_an_alias_or_a_path_is_one_too() -> None:
    """What the computer resolved tells, whatever the word is; and so it does for ``cc_run_program``."""
    anything = rule("allow", programs=("**",), tools=RUNS)
    assert not hits(anything, shell("x ls"), program="rom/programs/shell.lua")
    assert not hits(anything, run("rom/programs/shell.lua", "ls"), program="rom/programs/shell.lua")
    assert not hits(anything, run("my/shell.lua"), program="my/shell.lua")
    assert hits(anything, shell("wget https://a.example/x x"), program="rom/programs/http/wget.lua")
