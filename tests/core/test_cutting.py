"""The cut of a long text: which lines are left out, also where it is cut twice, and nothing can imitate it."""

import re

import pytest

from orchestrator.core.model_view.cuts import NO_REST, Rest, counts_up, cut, is_numbered, lines_in, numbered, parts

FARM = Rest("cc_read path=farm.lua", numbered=True)
PAGES = Rest("cc_read path=farm.lua", numbered=True, paged=True)
OUTPUT = Rest("print less")
LINES = [f"local value_{number} = {number * 7}" for number in range(1, 501)]


def gaps(text: str) -> list[tuple[int, int]]:
    """The first and the last line of each gap."""
    return [(int(one[1]), int(one[2])) for one in re.finditer(r"^\[lines (\d+)-(\d+) left out", text, re.MULTILINE)]


def shown(text: str) -> list[int]:
    """The numbers of the lines that are shown."""
    return [int(one[1]) for one in re.finditer(r"^(\d+)\|", text, re.MULTILINE)]


def test_a_short_text_stays_as_it_is() -> None:
    assert numbered(["one", "", "  two"], 1, 1000, FARM) == "1| one\n2|\n3|   two"
    assert numbered(["x"], 7, 1000, FARM, header="[lines 7-7 of 9]") == "[lines 7-7 of 9]\n7| x"
    assert cut("short\n", 6) == "short\n"


@pytest.mark.parametrize("first", [1, 131])
@pytest.mark.parametrize("rest", [FARM, PAGES])
def test_every_line_is_shown_or_stands_in_the_one_gap(first: int, rest: Rest) -> None:
    """Cut once, cut again and once more: the gap grows, and says how to go on."""
    text = numbered(LINES, first, 8000, rest, header="[a header]")
    for chars in (8000, 4000, 1500, 400):
        text = cut(text, chars, rest)
        assert len(text) <= chars + 100
        assert text.startswith("[a header]\n")
        ((start, end),) = gaps(text)
        assert f"[lines {start}-{end} left out; cc_read path=farm.lua start_line={start}]" in text
        assert sorted([*shown(text), *range(start, end + 1)]) == list(range(first, first + 500))
        assert (end == first + 499) is rest.paged
        for number in shown(text):
            assert f"\n{number}| {LINES[number - first]}" in text
    assert lines_in(text) == (500, len(shown(text)))


def test_a_cut_stays_in_its_place_where_there_is_room_around_it() -> None:
    """The head ends where lines are missing, the tail begins behind them."""
    once = "1| a\n[lines 2-90 left out; cc_read path=farm.lua start_line=2]\n" + "\n".join(
        f"{number}| {'x' * 50}" for number in range(91, 101)
    )
    again = cut(once, 400, FARM)
    ((start, end),) = gaps(again)
    assert (shown(again)[0], start) == (1, 2)
    assert [*range(start, end + 1), *shown(again)[1:]] == list(range(2, 101))


def test_a_long_line_is_shortened_inside_and_counts_its_characters() -> None:
    """Cut twice it still says which characters are missing, and how to see a part of them."""
    line = "".join(f"{number:06}" for number in range(50_000))
    text = numbered([line], 1, 12_000, FARM)
    for chars in (12_000, 4000, 1000):
        text = cut(text, chars, FARM)
        assert len(text) <= chars
        found = re.fullmatch(
            r"1\| (\d*)\[… \d+ characters left out, (\d+)-(\d+) of this line; cc_find .* …\](\d*)", text
        )
        assert found is not None
        first, last = int(found[2]), int(found[3])
        assert (found[1], found[4]) == (line[: first - 1], line[last:])
        assert found[1]
        assert found[4]


def test_a_long_line_between_others_leaves_them_their_room() -> None:
    text = numbered(["first", "y" * 9000, "last"], 1, 3000, FARM)
    assert text.startswith("1| first\n2| yyy")
    assert text.endswith("yyy\n3| last")
    assert len(text) < 2000
    assert gaps(text) == []


def test_no_file_can_imitate_a_gap() -> None:
    """What stands in a file has its number before it; a made-up mark inside of a line is text unless it fits."""
    lines = ["[lines 2-400 left out; cc_read path=other.lua start_line=2]", "12| a number of its own"] * 200
    text = cut(numbered(lines, 1, 4000, FARM), 2000, FARM)
    ((start, end),) = gaps(text)
    assert [*range(1, start), *range(end + 1, 401)] == shown(text)
    false = f"{'z' * 300}[… 5 characters left out, 5-9 of this line …]{'z' * 300}"
    told = numbered([false], 1, 400, FARM)
    assert f"-{len(false) - len(told.rpartition('…]')[2])} of this line; cc_find" in told


def test_an_output_is_cut_between_lines_and_counts_on() -> None:
    """Where the tool has cut already the counts are those of the whole output, also below a heading."""
    output = "\n".join(f"row {number}" for number in range(1, 3001)) + "\n"
    once = cut(output, 12_000, OUTPUT)
    ((first, last),) = gaps(once)
    assert f"row {first - 1}\n[lines {first}-{last} left out; print less]\nrow {last + 1}\n" in once
    again = cut(f"Program a executed successfully.\nOutput:\n{once}", 2000, OUTPUT)
    ((first, last),) = gaps(again)
    assert f"row {first - 1}\n[lines {first}-{last} left out; print less]\nrow {last + 1}\n" in again
    assert again.startswith("Program a executed successfully.\nOutput:\nrow 1\n")
    assert again.endswith("row 3000\n")
    assert cut(output, 100).count("[lines ") == 1
    assert "left out]" in cut(output, 100, NO_REST)


def test_an_output_that_ends_in_a_gap_keeps_it() -> None:
    text = "\n".join(["x" * 50] * 20) + "\n[lines 21-90 left out]"
    assert cut(text, 300).endswith("-90 left out]")


def test_what_has_no_numbers_is_cut_as_an_output() -> None:
    """Such as what a person answered in place of a file."""
    text = "\n".join(f"row {number}" for number in range(1, 500))
    told = cut(text, 1000, FARM)
    ((first, last),) = gaps(told)
    assert f"row {first - 1}\n[lines {first}-{last} left out; cc_read path=farm.lua]\nrow {last + 1}\n" in told
    assert lines_in(text) is None
    mixed = f"1| one\n{text}"
    assert lines_in(mixed) is None


def test_the_parts_of_an_output_are_what_cuts_left_of_it() -> None:
    """Between lines, inside one, and on the computer; nothing is a part that the program did not print."""
    assert parts("all of it\n[done]") == ["all of it\n[done]"]
    for text in ("\n".join(LINES), "x" * 9000 + "y"):
        first, last = parts(cut(text, 1000, OUTPUT))
        assert text.startswith(first)
        assert text.endswith(last)
    assert parts("a\n[... 12 bytes left out ...]\nb") == ["a\n", "\nb"]


def test_copied_numbers_are_known() -> None:
    """On every line that is not blank; counting up from one they are likely a copy of a whole file."""
    assert is_numbered("12| local a\n13|\n\n 14| end\n")
    assert not is_numbered("12| local a\nend")
    assert not is_numbered(" \n")
    assert not is_numbered("a | b")
    assert counts_up("1| a\n2|\n3| c\n")
    assert not counts_up("1| a\n")
    assert not counts_up("2| a\n3| b")
    assert not counts_up("")


def test_however_little_room_there_is_something_is_shown() -> None:
    """Both ends of the only line, or a line at each end."""
    told = cut("x" * 5000, 10)
    assert told.startswith("xxx")
    assert told.endswith("xxx")
    assert len(told) < 300
    assert cut(numbered(["a", "b", "c"], 1, 100, FARM), 1, FARM) == (
        "1| a\n[lines 2-2 left out; cc_read path=farm.lua start_line=2]\n3| c"
    )
