"""A long task in a small window: never over the budget, always with the task, and the same from any node."""

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pytest

from orchestrator.core.errors import WindowTooSmall
from orchestrator.core.model_view.cuts import numbered
from orchestrator.core.model_view.prompt import Count, Plan, Window, estimate, masked
from orchestrator.core.model_view.rows import rest_of, rest_of_file
from orchestrator.core.model_view.view import Detail, View, told_refused, told_reply, told_results, told_rows, view
from orchestrator.core.task import facts
from orchestrator.core.task.facts import BlobRef, Usage
from orchestrator.core.task.fold import fold
from orchestrator.core.task.task import StepCall, Turn
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.runtime.prompts import shipped
from tests.core.journal import Journal, call, verdict

SMALL = Window(8192, 2048)
PROMPT = "Why does the quarry crash? Mend quarry.lua and run it."


class Story(Journal):
    """A task whose replies are kept, and counted by a server whose tokens are ``chars_a_token`` characters each."""

    def __init__(self, *, prompt: str = PROMPT, chars_a_token: float = 0.0) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.chars_a_token = chars_a_token
        self.submitted(prompt=prompt, max_steps=0)
        self.grown = View(self.task, window=SMALL, prompt=shipped())

    def refuse(self, reply: str) -> None:
        """A reply that could not be used."""
        sha = sha256_hex(reply.encode())
        self.texts[sha] = reply
        self.asked()
        self.add(facts.ModelReplied(raw=BlobRef(sha256=sha, size=len(reply)), done_reason="length", usage=Usage()))
        self.add(facts.ReplyRefused(reason="Your reply was cut off."))

    def step(self, number: int, tool: str, text: str, *, ok: bool = True, digest: str = "", **args: Any) -> None:
        """One call and its result."""
        self.grown.extend(self.task, self.texts)
        sent = sum(len(content) for _, content in self.grown.messages)
        reply = json.dumps({"kind": "tool", "explanation": "why", "tool_call": {"tool": tool, "args": args}})
        sha = sha256_hex(reply.encode())
        self.texts[sha] = reply
        self.asked()
        tokens = int(sent / self.chars_a_token) if self.chars_a_token else 0
        self.add(
            facts.ModelReplied(
                raw=BlobRef(sha256=sha, size=len(reply)), done_reason="stop", usage=Usage(input_tokens=tokens)
            )
        )
        made = call(f"c{number}", tool, **args)
        if digest:
            made = made.model_copy(update={"call_digest": digest})
        self.add(facts.CallsProposed(explanation="", calls=(made,), evaluations=(verdict("allow"),)))
        self.started(f"c{number}")
        self.finished(f"c{number}", ok=ok, text=text)


def lua(lines: int, seed: int = 0) -> str:
    """A program with words, numbers and signs."""
    chance = random.Random(seed)
    return "".join(
        f"local value_{n} = turtle.getItemCount({chance.randrange(16)}) + {chance.randrange(99999)}\n"
        for n in range(lines)
    )


def long_story(steps: int, **options: Any) -> Story:
    """Reads, writes of whole programs, runs and failures."""
    told = Story(**options)
    for number in range(steps):
        match number % 4:
            case 0:
                told.step(number, "cc_read", lua(90, number), path=f"f{number}.lua")
            case 1:
                told.step(number, "cc_write", f"Wrote 9 bytes to f{number}", path=f"f{number}", content=lua(60, number))
            case 2:
                told.step(number, "cc_run_program", "1234567890 " * 300, path=f"f{number}")
            case _:
                told.step(
                    number, "cc_run_program", f"f{number}.lua:3: attempt to index nil", ok=False, path=f"g{number}"
                )
    return told


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "chars_a_token", [3.0, *(pytest.param(chars, marks=pytest.mark.deep) for chars in (0.0, 2.2, 4.5))]
)
def test_sixty_steps_never_exceed_the_budget_and_always_show_the_task(chars_a_token: float) -> None:
    """Each request fits, has the task in its second message, and mostly only adds to the one before."""
    told = long_story(60, chars_a_token=chars_a_token)
    grown = View(fold(told.items[:1]), window=SMALL, prompt=shipped())
    before: list[Any] = []
    extended = 0
    for count in range(len(told.task.turns) + 1):
        version = _version_after(told, count)
        at = fold([one for one in told.items if one.version <= version])
        grown.extend(at, told.texts)
        assert grown.tokens <= SMALL.budget
        if chars_a_token:
            assert sum(len(content) for _, content in grown.messages) / chars_a_token <= SMALL.budget
        assert grown.messages[0][0] == "system"
        assert grown.messages[1][1].startswith(PROMPT)
        extended += grown.messages[: len(before)] == before
        before = list(grown.messages)
    assert extended >= 30
    assert grown.digest == view(told.task, told.texts, window=SMALL, prompt=shipped()).digest


def _version_after(told: Story, turns: int) -> int:
    ends = [one.version for one in told.items if one.fact.kind == "tool_finished"]
    return ends[turns - 1] if turns else 1


def test_what_the_server_counted_is_exact_and_only_the_rest_is_estimated() -> None:
    """Where it counts more than was estimated, estimates are scaled up; where it counts less, they are not."""
    count = Count().heard(100, 0)
    assert count == Count()
    count = count.heard(1000, 1500)
    assert (count.of(1000), count.of(1100), count.factor) == (1500, 1650, 1.5)
    count = count.heard(2000, 500)
    assert (count.of(2000), count.of(2100), count.afresh().of(100)) == (500, 650, 150)
    assert Count().heard(10, 1000).factor == 2.0


def test_an_estimate_errs_on_the_side_of_too_many() -> None:
    """Words of six letters, digits and signs by themselves, wide characters twice."""
    assert estimate("") == 8
    assert estimate("for i=1,10 do print(i) end") == 8 + 13
    assert estimate("1234567890" * 10) == 8 + 100
    assert estimate("12 345 x 7") == 8 + 9
    assert estimate("\N{SNOWMAN}" * 10) == 8 + 20
    assert estimate("a line\n        indented") == 8 + 5


def test_pieces_are_counted_as_they_would_be_found_one_by_one() -> None:
    """A word is cut after six letters, and a run of blanks after eight, wherever they stand."""
    piece = re.compile(r"[A-Za-z]{1,6}|[0-9]| (?=[0-9])|\n[ \t]*|[^\sA-Za-z0-9]|[ \t]{8}")
    signs, parts = (
        "aZ7 \n\t!\r\x1c\u2192\u3000\xa0\xe9\u0663\U0001f600\ud800",
        ["quarry", "programs", " " * 8, " " * 9, "\n  "],
    )
    drawn = random.Random(7)
    for _ in range(3000):
        text = "".join(drawn.choice([*signs, *parts]) for _ in range(drawn.randint(0, 12)))
        wide = sum(not char.isascii() for char in text)
        assert estimate(text) == 8 + len(piece.findall(text)) + wide, repr(text)


def turn(*results: tuple[str, str], **rest: Any) -> Turn:
    """A finished step; each result is that of a call without arguments."""
    calls = tuple(
        StepCall(tool=tool, text=text, asked=tool, came=f"what {tool} came to", rest=rest_of(tool))
        for tool, text in results
    )
    return Turn(raw=BlobRef(sha256="1" * 64, size=2), calls=calls, **rest)


def test_a_long_result_keeps_its_head_and_its_tail() -> None:
    """The gap names its lines, all stays between the marks of data, and several results share the room."""
    long = "\n".join(f"row {number} of many" for number in range(1, 201))
    told = told_results(turn(("cc_list", long)), "maple", chars=900)
    assert told.startswith("TOOL_RESULT: row 1 of many\nrow 2 of many\n")
    assert "\n[lines 33-186 left out; list a directory in it, or use cc_find]\nrow 187 of many\n" in told
    assert told.endswith("row 200 of many\n[end of data maple]")
    both = told_results(turn(("cc_screen", long), ("cc_list", "short")), "maple", chars=1200)
    assert "[2 cc_list] short\n" in both
    assert 500 < len(both) < 900
    assert told_results(turn(("cc_list", long)), "maple") == f"TOOL_RESULT: {long}\n[end of data maple]"


def test_in_brief_a_step_has_its_first_line_and_no_long_string() -> None:
    """What was written is in the file; a reply that is no JSON keeps its beginning; a long result what it came to."""
    reply = json.dumps(
        {"kind": "tool", "tool_calls": [{"tool": "cc_write", "args": {"path": "a", "content": "x" * 5000}}]}
    )
    assert told_reply(reply, Detail.WHOLE) == reply
    brief = told_reply(reply, Detail.BRIEF)
    assert "[5000 characters are left out]" in brief
    assert '"path": "a"' in brief
    assert told_reply("short", Detail.BRIEF) == "short"
    assert told_reply("no JSON " * 100, Detail.BRIEF).endswith("[600 more characters are left out]")
    one = turn(("cc_read", "first\nsecond\nthird"))
    assert told_results(one, "maple", Detail.BRIEF) == (
        "TOOL_RESULT: what cc_read came to [the 18 characters that were shown then are left out]\n[end of data maple]"
    )
    assert told_results(turn(("cc_mkdir", "Made it.\n")), "maple", Detail.BRIEF) == (
        "TOOL_RESULT: Made it.\n[end of data maple]"
    )
    assert told_rows(one) == ["- cc_read → what cc_read came to"]
    assert told_rows(turn(refused="No JSON.")) == ["- a reply was refused: No JSON."]


# -- what the engine reads again -----------------------------------------------------------


def small_steps(steps: int) -> Story:
    """Looks, edits and runs with a few lines each."""
    told = Story()
    for number in range(steps):
        match number % 4:
            case 0:
                told.step(number, "cc_list", "a.lua  12\nb.lua  40\nlib/", path="/")
            case 1:
                told.step(number, "cc_read", file_of(8, number), path=f"f{number}.lua")
            case 2:
                told.step(
                    number, "cc_edit", f"Edited f{number}.lua: 9 bytes became 9", path="f", old="a = 1", new="a = 2"
                )
            case _:
                told.step(number, "cc_run_program", f"{RAN}ok {number}", path=f"f{number}.lua")
    return told


def large_steps(steps: int) -> Story:
    """Whole files are read, changed and run, and mended after a crash."""
    told = Story()
    for number in range(steps):
        path = f"f{number - number % 4}.lua"
        match number % 4:
            case 0:
                told.step(number, "cc_read", file_of(90, number), path=path)
            case 1:
                told.step(number, "cc_edit", f"Edited {path}: 9 bytes became 9", path=path, old="a = 1", new="a = 2")
            case 2:
                told.step(number, "cc_run_program", RAN + "row 1 of 20 done\n" * 20, path=path)
            case _:
                told.step(
                    number, "cc_run_program", f"Program {path} failed (error): {path}:3: bad", ok=False, path=path
                )
    return told


RAN = "Program f.lua executed successfully.\nOutput:\n"


def file_of(lines: int, seed: int) -> str:
    """A file as ``cc_read`` tells it."""
    return numbered(lua(lines, seed).split("\n")[:-1], 1, 12_000, rest_of_file("f.lua", paged=False))


def read_again(told: Story, window: Window) -> float:
    """The share of all that is sent that an engine with a cache of the last prompt has to read, by counting."""
    grown, before, whole, read = View(fold(told.items[:1]), window=window, prompt=shipped()), list[str](), 0, 0
    for count in range(len(told.task.turns) + 1):
        grown.extend(fold(told.items[: _version_after(told, count)]), told.texts)
        now = [f"<{role}>{content}" for role, content in grown.messages]
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
        kept = sum(estimate(message) for message, _ in same)
        size = sum(map(estimate, now))
        whole, read, before = whole + size, read + size - kept, now
    return read / whole


@pytest.mark.thinned(2)
@pytest.mark.uncounted
@pytest.mark.parametrize(
    ("made", "steps", "window", "most"),
    [
        (small_steps, 32, SMALL, 0.07),
        (large_steps, 62, SMALL, 0.22),
        pytest.param(large_steps, 62, Window(16_384, 4096), 0.12, marks=pytest.mark.deep),
        pytest.param(large_steps, 62, Window(32_768, 4096), 0.055, marks=pytest.mark.deep),
    ],
)
def test_what_was_sent_is_read_again_only_where_steps_are_folded(
    made: Callable[[int], Story], steps: int, window: Window, most: float
) -> None:
    """What is added counts too: of small steps it is all. The list of changes costs nothing between foldings."""
    assert 0.02 < read_again(made(steps), window) <= most


@pytest.mark.uncounted
def test_the_list_of_changes_stands_where_steps_are_folded_and_stays_until_the_next_fold() -> None:
    """Before the first fold there is none; it says up to which step it goes, and any node makes the same."""
    told, window = large_steps(30), Window(16_384, 4096)
    grown = View(fold(told.items[:1]), window=window, prompt=shipped())
    seen, before = [""], list[Any]()
    for count in range(31):
        at = fold(told.items[: _version_after(told, count)])
        grown.extend(at, told.texts)
        pins = [content for _, content in grown.messages if "What was changed and run so far" in content]
        assert len(pins) <= 1
        pin = "".join(pins)
        if grown.messages[: len(before)] == before:
            assert pin == seen[-1]
        else:
            assert f"Changed in steps 1 to {count}:\n- farm: edited in step " in pin
            assert pin.endswith(f"[end of data {at.tag}]")
            assert any(pin == content for _, content in grown.messages[-9:])
            assert view(at, told.texts, window=window, prompt=shipped()).messages == grown.messages
            seen.append(pin)
        before = list(grown.messages)
    assert 2 <= len(seen) == len(set(seen)) <= 6


def test_a_refusal_is_told_by_what_it_was() -> None:
    assert told_results(turn(refused="No JSON."), "maple") == "Your reply could not be used. No JSON."
    assert told_results(turn(refused="Nothing was done.", unproven=True), "maple") == "Nothing was done."


@pytest.mark.uncounted
@pytest.mark.parametrize("reply", ["-" * 9000, "[" * 100_000, "1234 " * 20_000, "\N{SNOWMAN}" * 9000])
@pytest.mark.parametrize("window", [SMALL, Window(4096, 1024), None])
def test_a_refused_reply_of_any_length_leaves_the_task_its_window(reply: str, window: Window | None) -> None:
    """Its head and its tail are told; what was sent before stays while there is room, and any node makes the same."""
    told = Story()
    told.step(0, "cc_read", "short", path="a")
    grown = view(told.task, told.texts, window=window, prompt=shipped())
    for number in (1, 2):
        before = list(grown.messages)
        told.refuse(f"{{BEGIN {number} {reply} END {number}")
        grown.extend(told.task, told.texts)
        if reply.isascii() and window != Window(4096, 1024):
            assert grown.messages[: len(before)] == before
        said = grown.messages[-2][1]
        assert said.startswith(f"{{BEGIN {number} ")
        assert said.endswith(f" END {number}")
        assert "characters are left out]" in said
        assert len(said) < 1600
    if window is not None:
        assert grown.tokens <= window.budget
    assert grown.digest == view(told.task, told.texts, window=window, prompt=shipped()).digest


def test_a_refused_reply_has_as_many_characters_as_there_is_room() -> None:
    """A short one is told as it came; an older one in brief."""
    assert told_refused("No JSON.", Detail.WHOLE) == told_refused("No JSON.", Detail.BRIEF) == "No JSON."
    assert told_refused("a" * 1500, Detail.WHOLE) == "a" * 1500
    assert told_refused("a" * 1200 + "b" * 400, Detail.WHOLE) == (
        "a" * 1000 + "\n[100 characters are left out]\n" + "a" * 100 + "b" * 400
    )
    assert told_refused("a" * 600, Detail.WHOLE, 10) == "a" * 200 + "\n[300 characters are left out]\n" + "a" * 100
    assert told_refused("a" * 600, Detail.BRIEF) == "a" * 133 + "\n[401 characters are left out]\n" + "a" * 66


def test_a_repeated_call_is_told_once_with_a_nudge() -> None:
    """With a window the earlier ones are taken out at the third time; without one they stay, with the nudge."""
    told = Story()
    for number in range(4):
        told.step(number, "cc_list", "a.lua", digest="same", path="/")
    whole = view(told.task, told.texts, prompt=shipped()).messages
    assert [role for role, _ in whole].count("assistant") == 4
    assert "this very call 4 times" in whole[-1][1]
    short = view(told.task, told.texts, window=SMALL, prompt=shipped()).messages
    assert [role for role, _ in short].count("assistant") == 1
    assert short[-1] == whole[-1]


def test_a_window_that_cannot_hold_the_task_is_said() -> None:
    """With the numbers, and what to do."""
    told = Journal()
    told.submitted(prompt="mend it " * 4000)
    with pytest.raises(
        WindowTooSmall, match=r"need about \d+ tokens, and the model's window has room for 5734"
    ) as small:
        View(told.task, window=SMALL, prompt=shipped())
    assert small.value.remedy == "Raise num_ctx, or shorten the task."


def test_a_model_that_has_too_little_for_the_task_is_said() -> None:
    """No num_ctx helps there."""
    told = Journal()
    told.submitted(prompt="mend it " * 4000)
    with pytest.raises(WindowTooSmall) as small:
        View(told.task, window=Window(2048, 512, is_models_most=True), prompt=shipped())
    assert small.value.remedy == (
        "This model has only 2048 tokens, whatever num_ctx is: take another model, or shorten the task."
    )


def test_results_shrink_before_the_window_is_given_up() -> None:
    """A task that nearly fills the window still shows the end of the last result."""
    told = Story(prompt="mend it " * 2080)
    for number in range(3):
        told.step(number, "cc_read", "x " * 2000 + "THE END", path=f"{number}")
    messages = view(told.task, told.texts, window=SMALL, prompt=shipped()).messages
    assert "THE END" in messages[-1][1]
    assert len(messages[-1][1]) < SMALL.result_chars / 2


@pytest.mark.uncounted
def test_many_rows_are_counted_and_the_last_are_shown() -> None:
    told = Story()
    for number in range(80):
        told.step(number, "cc_read", f"line {number}\n" + "word " * 600, path=f"{number}")
    goal = view(told.task, told.texts, window=SMALL, prompt=shipped()).messages[1][1]
    assert " earlier results are left out\n- cc_read " in goal
    assert re.search(r"\n- cc_read \d+ → line \d+\n", goal)
    assert goal.endswith("[end of data maple]")
    assert goal.count("\n- cc_read") <= 40


def grown_by(turns: Sequence[Turn], *, at: View, texts: Mapping[str, str]) -> str:
    """What is said after the task's text when these are the turns of the task."""
    task = replace(Story().task, turns=tuple(turns))
    at.extend(task, texts)
    return at.messages[1][1]


def long_turns(count: int) -> list[Turn]:
    """Steps that fill the window; each changes a file of its own, and each seventh is a run."""
    done = turn(("cc_read", "line\n" + "word " * 300), digests=("read",))
    return [
        replace(done, calls=(replace(done.calls[0], changed=((f"f{number}", "edited"),), runs=number % 7 == 0),))
        for number in range(count)
    ]


@pytest.mark.uncounted
def test_in_a_full_window_a_step_of_a_long_task_costs_the_same_as_one_of_a_short_task() -> None:
    """Counted in calls of Python, of twenty steps from the 100th and from the 900th on."""
    turns, at, seen, now = long_turns(920), Story().grown, Counter[int](), 0

    def count(_: object, event: str, __: object) -> None:
        seen[now // 20] += event == "call"

    task = Story().task
    for now in range(920):
        one_more = replace(task, turns=tuple(turns[: now + 1]))
        sys.setprofile(count)
        at.extend(one_more, {"1" * 64: "{}"})
        sys.setprofile(None)
    assert at.messages[1][1].count("\n- cc_read") == 40
    early, late = seen[100 // 20], seen[900 // 20]
    assert late < 1.1 * early, (early, late)


def test_a_row_of_a_repeated_call_goes_when_it_is_told_again() -> None:
    """Of the rows that were sent already, too."""
    turns, at, texts = long_turns(15), Story().grown, {"1" * 64: "{}"}
    looked = turn(("cc_list", "a"), digests=("list",))
    before = [looked, *turns, looked, *turns]
    assert grown_by(before, at=at, texts=texts).count("\n- cc_list") == 2
    assert grown_by([*before, replace(looked, repeats=3)], at=at, texts=texts).count("\n- cc_list") == 0


def test_the_rows_have_a_secret_once_a_person_lets_the_model_see_it() -> None:
    """In the list of changes too, and both were sent with a marker before."""
    value, fill = "password = 'hunter2-Xy'", [turn(("cc_list", "word " * 300))] * 36
    told = turn(("cc_read", value))
    told = replace(told, calls=(replace(told.calls[0], came=value, changed=((value, "edited"),)),))
    at = View(Story().task, window=SMALL, prompt=shipped(), secrets="ask")
    sent = grown_by([told, *fill], at=at, texts={"1" * 64: "{}"})
    (marker,) = set(re.findall(r"→ .*(\[redacted [0-9a-f]{8}\])", sent))
    asked = {"tool": "ask_user", "args": {"question": f"May the model see {marker}?"}}
    texts = {"1" * 64: "{}", "2" * 64: json.dumps({"kind": "tool", "explanation": "x", "tool_call": asked})}
    yes = replace(turn(("ask_user", "yes")), raw=BlobRef(sha256="2" * 64, size=2))
    after = [told, *fill, yes, *fill[:10]]
    assert f"\n- cc_read → {value}" in grown_by(after, at=at, texts=texts)
    assert any(f"\n- {value}: edited" in one for _, one in at.messages)


def test_plans_only_ever_lose_detail() -> None:
    """Whatever the sizes are, and the last that fits is taken where none reaches the aim."""
    chance = random.Random(7)
    for _ in range(300):
        before = Plan(rows=chance.randrange(5), brief=5 + chance.randrange(5))
        turns = 10 + chance.randrange(10)
        sizes = [chance.randrange(9000) for _ in range(40)]
        found = masked(before, turns, SMALL, lambda plan: sizes[hash(plan) % 40])  # noqa: B023 - called at once
        if found is not None:
            assert found.rows >= before.rows
            assert found.brief >= before.brief
            assert found.rows <= found.brief < turns
            assert sizes[hash(found) % 40] <= SMALL.budget
    assert masked(Plan(), 3, SMALL, lambda plan: SMALL.budget + 1) is None
    assert masked(Plan(), 3, SMALL, lambda plan: SMALL.budget) is not None


def test_a_view_knows_which_window_it_was_made_for() -> None:
    told = long_story(3)
    grown = view(told.task, told.texts, window=SMALL, prompt=shipped())
    assert grown.leads_to(told.task, window=SMALL, prompt=shipped())
    assert not grown.leads_to(told.task, prompt=shipped())
    assert not grown.leads_to(told.task, window=Window(4096, 512), prompt=shipped())
