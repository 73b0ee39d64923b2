"""The text that stands before every task: what it must have, what is refused, and what is filled in."""

import pytest

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.model_view.prompt import MAX_CHARS, PLACES, Prompt, read_prompt

LEAST = "Tools: $tools\nComputers: $computers\nData ends with $tag.\n"
GIVEN = {"tools": "cc_read", "computers": "farm", "tag": "9f31ab02", "policy": "Reads run at once."}


def refusal(text: str) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        read_prompt(text, "1")
    assert len(str(refused.value)) <= 300
    return refused.value


def test_every_place_is_filled_in() -> None:
    """The text keeps its order, the version is kept beside it, and blank ends are dropped."""
    prompt = read_prompt("$policy\n$tools|$computers|$tag\n\n", "own-1")
    assert prompt == Prompt("$policy\n$tools|$computers|$tag\n\n", "own-1")
    assert prompt.filled(**GIVEN) == "Reads run at once.\ncc_read|farm|9f31ab02"


def test_braces_are_a_place_too() -> None:
    """``${tag}s``: where a letter follows."""
    prompt = read_prompt("${tools} ${computers} ${tag}s ${policy}.", "1")
    assert prompt.filled(**GIVEN) == "cc_read farm 9f31ab02s Reads run at once.."


def test_a_doubled_dollar_sign_is_one() -> None:
    assert read_prompt(f"It costs $$5.\n{LEAST}", "1").filled(**GIVEN).startswith("It costs $5.\n")


def test_what_is_filled_in_is_not_looked_through_again() -> None:
    """A tool's words may have a dollar sign: they are text and no place."""
    filled = read_prompt(LEAST, "1").filled(**{**GIVEN, "tools": "$tag ${policy} $"})
    assert filled.startswith("Tools: $tag ${policy} $\n")


@pytest.mark.parametrize("end", ["", "\n", "\n\n  \n"])
def test_the_policy_comes_last_unless_the_text_says_where(end: str) -> None:
    """On a line of its own, however the text ends."""
    filled = read_prompt(LEAST.rstrip() + end, "1").filled(**GIVEN)
    assert filled == "Tools: cc_read\nComputers: farm\nData ends with 9f31ab02.\nReads run at once."


@pytest.mark.parametrize("place", ["$policy", "${policy}"])
def test_a_policy_that_has_its_place_is_told_once(place: str) -> None:
    filled = read_prompt(f"Policy: {place}\n{LEAST}", "1").filled(**GIVEN)
    assert filled.count("Reads run at once.") == 1
    assert filled.startswith("Policy: Reads run at once.\n")


def test_without_a_policy_nothing_is_left_behind() -> None:
    """No empty line, and no place that was not filled in."""
    assert read_prompt(LEAST, "1").filled(**{**GIVEN, "policy": ""}).endswith("9f31ab02.")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (LEAST.replace("$tools", ""), "The prompt has no place for $tools."),
        (LEAST.replace("$computers", "").replace("$tag", ""), "The prompt has no place for $computers and $tag."),
        ("", "The prompt has no place for $tools and $computers and $tag."),
        (f"{LEAST}$user", "Line 4 of the prompt has the unknown place $user."),
        (f"{LEAST}\n${{user}}", "Line 5 of the prompt has the unknown place $user."),
        (LEAST.replace("$tools", "$Tools"), "Line 1 of the prompt has the unknown place $Tools."),
        (LEAST.replace("$tag", "$tags"), "Line 3 of the prompt has the unknown place $tags."),
        (f"{LEAST}It costs $5.", "Line 4 of the prompt has a single $."),
        (f"{LEAST}It costs 5 $\n", "Line 4 of the prompt has a single $."),
        (f"{LEAST}${{tools", "Line 4 of the prompt has a single $."),
    ],
)
def test_a_text_that_could_not_work_is_refused(text: str, sentence: str) -> None:
    """With the line where there is one, and with what to do."""
    refused = refusal(text)
    assert refused.message == sentence
    assert refused.remedy
    if "Line" in sentence:
        assert all(f"${one}" in refused.remedy for one in PLACES)
        assert "$$" in refused.remedy


def test_the_first_line_that_is_wrong_is_told() -> None:
    assert refusal(f"$a\n{LEAST}$b").message == "Line 1 of the prompt has the unknown place $a."


def test_a_text_without_end_is_refused() -> None:
    """To the character, and before anything else about it is."""
    longest = LEAST + "x" * (MAX_CHARS - len(LEAST))
    assert read_prompt(longest, "1").text.startswith(longest)
    refused = refusal(f"{longest}$")
    assert refused.message == f"The prompt has {MAX_CHARS + 1} characters; {MAX_CHARS} are the most."
    assert "Shorten it" in (refused.remedy or "")


def test_a_dollar_sign_before_a_place_makes_it_no_place() -> None:
    """``$$tools`` is told as ``$tools``; the policy is told at the end where its place is written so."""
    with pytest.raises(InvalidRequest, match=r"has no place for \$tools\."):
        read_prompt("$$tools $computers $tag", "1")
    told = read_prompt("$tools $computers $tag $$policy", "1").filled(tools="t", computers="c", tag="g", policy="p")
    assert told == "t c g $policy\np"
