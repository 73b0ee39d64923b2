"""What a model is told instead of secrets, and what its words mean then: nothing is lost, and little is masked."""

import json
import re
from typing import Any

import pytest

from orchestrator.core.errors import ReplyRefused
from orchestrator.core.model_view.masks import TOLD, Mask, asks_to_see, has_marker, seen_by
from orchestrator.core.task.facts import BlobRef
from orchestrator.core.task.task import StepCall, Turn
from tests import ROOT
from tests.contract.secret_files import FILE, KINDS, SECRETS
from tests.core.test_redact import DAMAGED

MARKER = re.compile(r"\[redacted [0-9a-f]{8}\]")
RAW = BlobRef(sha256="a" * 64, size=1)


def turn(text: str, *, asked: str = "cc_read a.txt", tool: str = "cc_read", **more: Any) -> Turn:
    return Turn(raw=RAW, calls=(StepCall(tool=tool, text=text, asked=asked, came=text[:20]),), **more)


def told(text: str, *, mask: Mask | None = None, asked: str = "cc_read a.txt", reply: str = "{}") -> str:
    """A result as the model is told it."""
    return (mask or Mask("t1")).turn(turn(text, asked=asked), reply)[0].calls[0].text


def numbered(text: str) -> str:
    return "\n".join(f"{number}| {line}" for number, line in enumerate(text.split("\n"), 1))


@pytest.mark.parametrize("shape", [str, numbered])
@pytest.mark.parametrize("kind", KINDS)
def test_secrets_of_a_kind_are_masked_and_come_back(kind: str, shape: Any) -> None:
    """Line by line: what the model copies is the file again, byte for byte."""
    mask, text = Mask("t1"), shape(KINDS[kind])
    shown = told(text, mask=mask)
    assert [one for one in SECRETS[kind] if one in shown] == []
    assert shown.count("\n") == text.count("\n")
    assert mask.restored(shown) == text
    lines = zip(shown.split("\n"), text.split("\n"), strict=True)
    assert all(mask.restored(masked) == line for masked, line in lines), "a patch of one line has that line"


@pytest.mark.parametrize(
    "text",
    [
        "local id = '123e4567-e89b-12d3-a456-426614174000'",
        "local hash = '" + "3f" * 32 + "'",
        "commit " + "9c" * 20,
        "sha256 = \"" + "0a" * 32 + "\"",
        "goto(-1234567, 64, 98765432.5)",
        "local seed = 8412938471928374",
        "for key, value in pairs(tokens) do print(key, value) end",
        "local token = lexer:next_token()",
        "local password = read('*')",
        "if token == nil then return end",
        "minecraft:diamond_pickaxe{Damage:0}",
        "https://example.com/a/b?c=d&e=f#g",
        "The token goes to the lexer, and the key opens the door.",
        "local FLAGS = { key = keys.enter, pass = 2 }",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtQ7p2b bob@farm",
        "2026-11-25T19:51:37.123456Z 192.168.178.20 [INFO] took 1234567890 ns",
    ],
)  # fmt: skip
def test_ordinary_text_is_not_masked(text: str) -> None:
    """Hashes, UUIDs, numbers, places, code about tokens, public keys."""
    assert told(text) == text
    assert told(numbered(text)) == numbered(text)


@pytest.mark.deep
def test_the_lua_of_the_repository_is_hardly_masked() -> None:
    """Only the made-up tokens of its own tests, each a true hit. Packed bytes look made up, so they do not count."""
    masked, lines = [], 0
    for path in sorted([*(ROOT / "cc_client").rglob("*.lua"), *(ROOT / "tests" / "lua").glob("*.lua")]):
        text = path.read_text("latin-1")
        mask = Mask("t1")
        shown = told(text, mask=mask)
        assert mask.restored(shown) == text
        pairs = zip(shown.split("\n"), text.split("\n"), strict=True)
        masked += [old for new, old in pairs if new != old and old.isprintable()]
        lines += text.count("\n")
    assert lines > 15_000
    assert len(masked) <= 7, masked
    assert [line for line in masked if not re.search("token|Bearer|hmac", line)] == []


# -- keys --------------------------------------------------------------------------------

PEM = KINDS["pem"].strip().split("\n")


def test_a_part_of_a_key_is_known_by_either_end() -> None:
    """From the beginning to where the result was cut, or from where it began to the end."""
    for part in (PEM[:3], PEM[2:], ["local a = 1", *PEM[1:], "return a"]):
        shown = told(numbered("\n".join(part)))
        assert [one for one in SECRETS["pem"] if one in shown] == []


def test_lines_of_a_key_without_an_end_are_known_by_a_whole_one() -> None:
    """One whole line of mixed letters makes its neighbours lines of a key, too."""
    assert MARKER.sub("X", told(f"{PEM[1]}\nAb3d\n")) == "X\nX\n"
    assert not MARKER.search(told("\n".join(["a" * 64] * 4)))
    assert not MARKER.search(told("\n".join(["abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"] * 4)))


def test_after_the_head_of_a_key_ordinary_text_stays() -> None:
    """Its own headers are passed over; a line that cannot be of a key ends it."""
    rest = "local x = 1 -- it was cut\nreturn\n"
    shown = told(f"{PEM[0]}\nProc-Type: 4,ENCRYPTED\n\n{PEM[1]}\n{rest}")
    assert PEM[1] not in shown
    assert shown.startswith(f"{PEM[0]}\n")
    assert shown.endswith(f"\n{rest}")


def test_a_key_on_one_line_and_one_of_putty_are_masked() -> None:
    """With line ends as a string has them; between ``Private-Lines`` and ``Private-MAC``."""
    line = "\\n".join(PEM)
    assert told(f'key = "{line}"\nreturn\n').endswith('"\nreturn\n')
    assert PEM[1] not in told(f'key = "{line}"\nreturn\n')
    putty = f"Private-Lines: 1\n{PEM[1]}\nPrivate-MAC: 01\n"
    assert MARKER.sub("X", told(putty)) == "Private-Lines: 1\nX\nPrivate-MAC: 01\n"


@pytest.mark.parametrize("kind", ["PUBLIC KEY", "RSA PUBLIC KEY", "CERTIFICATE", "PGP PUBLIC KEY BLOCK"])
@pytest.mark.parametrize("width", [64, 76])
@pytest.mark.parametrize("part", [slice(None), slice(1, None), slice(0, -1)])
def test_what_is_public_stays(kind: str, width: int, part: slice) -> None:
    """Its letters look like those of a key; its head or its foot says what it is."""
    line = (PEM[1] * 2)[:width]
    text = "\n".join([f"-----BEGIN {kind}-----", *[line] * 4, f"-----END {kind}-----"][part])
    assert told(text) == text
    behind = f"-----BEGIN {kind}-----\n{line}\n-----END {kind}-----\n" + "\n".join(PEM)
    assert PEM[1] not in told(behind).split(f"END {kind}-----")[1]


# -- .env --------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["cc_read .env", "cc_read app/prod.env lines 1-9", "cc_shell type .env.local"])
def test_values_of_an_env_file_are_masked_but_for_plain_ones(asked: str) -> None:
    """Whatever they are called; words, numbers, hosts and paths stay."""
    text = "export A_B=q8w7e6r5t4\nPORT=8080\nMODE=production\nHOST=db.example.com:5432\nLOGS=/var/log\nX='a-b_9!'\n"
    text += "FOO_ID=q8w7e6r5t4q8w7e6r5t\n"
    shown = told(text, asked=asked)
    assert MARKER.sub("X", shown) == text.replace("q8w7e6r5t4q8w7e6r5t", "X").replace("q8w7e6r5t4", "X").replace(
        "a-b_9!", "X"
    )
    assert told(text) == text


# -- once found --------------------------------------------------------------------------


def test_a_secret_that_was_found_once_is_known_wherever_it_stands() -> None:
    """Later, without its name; a short word only where it was found."""
    mask = Mask("t1")
    shown = told("password = 'hunter2-Xy'\ndb_password = 'farm'\n", mask=mask)
    first, second = MARKER.findall(shown)
    assert told("I am hunter2-Xy of the farm", mask=mask) == f"I am {first} of the farm"
    assert (mask.restored(first), mask.restored(second)) == ("hunter2-Xy", "farm")


def test_a_piece_of_a_known_secret_at_a_cut_is_left_out() -> None:
    """Of either end, however much of it is there; other words at a cut stay."""
    mask = Mask("t1")
    secret = "hunter2-XyZ9876543210"
    told(f"password = '{secret}'", mask=mask)
    gap = "[… 9 characters left out, 1-9 of this line …]"
    cut = f"it is x={secret[:12]}… and {secret[:9]}{gap}{secret[-10:]} ordinary… …ordinary"
    shown = told(cut, mask=mask)
    assert shown == f"it is x=… and {gap} ordinary… …ordinary"


def test_what_the_model_named_by_its_marker_is_masked_in_what_comes_of_it() -> None:
    """However short: the result, the row of the step, and a refusal repeat the words of the call."""
    mask = Mask("t1")
    (marker,) = MARKER.findall(told("password = 'farm'", mask=mask))
    step = Turn(
        raw=RAW,
        calls=(StepCall("cc_run_program", "Hello farm", asked="cc_run_program p farm", changed=(("farm", "made"),)),),
        refused="farm is wrong",
        warning="farm again",
    )
    shown, reply = mask.turn(step, f'{{"args": ["{marker}"]}}')
    assert reply == f'{{"args": ["{marker}"]}}'
    (call,) = shown.calls
    assert (call.text, call.asked, call.changed) == (
        f"Hello {marker}", f"cc_run_program p {marker}", ((marker, "made"),)
    )  # fmt: skip
    assert (shown.refused, shown.warning) == (f"{marker} is wrong", f"{marker} again")


def test_the_models_own_words_are_masked_and_stay_an_object() -> None:
    """A secret that it wrote itself; what is no object is read as text."""
    mask = Mask("t1")
    reply = json.dumps({"tool_call": {"tool": "cc_write", "args": {"content": FILE}}})
    _, said = mask.turn(turn("Wrote it"), reply)
    content = json.loads(said)["tool_call"]["args"]["content"]
    assert "hunter2-Xy" not in said
    assert mask.restored(content) == FILE
    assert MARKER.search(mask.turn(turn(""), "password = 'hunter2-Xy'")[1])


def test_each_line_of_a_secret_has_a_mark_and_blank_ones_none() -> None:
    """So that an edit of one line has that line."""
    mask = Mask("t1")
    text = "secret = [[first one\n\n  second one]]\n"
    shown = told(text, mask=mask)
    assert MARKER.sub("X", shown) == "secret = [[X\n\n  X]]\n"
    assert mask.restored(shown) == text


# -- markers -----------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["[redacted 00000000]", "[redacted 0000", *DAMAGED])
def test_a_marker_that_means_nothing_is_refused_and_never_learned(wrong: str) -> None:
    """Also when the model has said it before, and when it was told so; where all is told, it stays."""
    mask = Mask("t1")
    with pytest.raises(ReplyRefused, match="mark"):
        mask.restored({"content": ["x", wrong]})
    mask.turn(turn("", refused=f"{wrong} is no mark"), json.dumps({"content": wrong}))
    with pytest.raises(ReplyRefused, match="mark"):
        mask.restored({"content": wrong})
    assert has_marker({"content": wrong})
    assert mask.restored({"content": [wrong, 1, None]}, strict=False) == {"content": [wrong, 1, None]}


def test_what_looks_like_a_marker_in_the_world_is_text() -> None:
    """It means itself, and a damaged one stays."""
    mask = Mask("t1")
    text = "shown as [redacted 1a2b3c4d] or [redacted]"
    assert told(text, mask=mask) == text
    assert mask.restored(text) == text
    # A marker of a secret that a program printed is no text of its own.
    (marker,) = MARKER.findall(told("password = 'farm'", mask=mask))
    told(f"it is {marker}", mask=mask)
    assert mask.restored(marker) == "farm"


def test_a_damaged_marker_of_the_world_allows_no_other() -> None:
    """A file that has ``[REDACTED]`` is written with it, and nothing else passes for that."""
    mask = Mask("t1")
    told("shown as [REDACTED]", mask=mask)
    mask.goal("Write (redacted …) there", "")
    assert mask.restored("[REDACTED] (redacted …)") == "[REDACTED] (redacted …)"
    with pytest.raises(ReplyRefused, match="damaged"):
        mask.restored("[REDACTED 1A2B3C4D]")


def test_a_marker_of_an_earlier_task_is_refused() -> None:
    """What an earlier task was told, or a person copied from there, is no text of the world."""
    mask = Mask("t2")
    old = "[redacted bb142e7d]"
    assert mask.goal(f"Use {old}", f'\n- "find it" ended done: "it is {old} [REDACTED]"').count(old) == 2
    for wrong in (old, "[REDACTED]"):
        with pytest.raises(ReplyRefused, match="mark"):
            mask.restored(wrong)
    # Where a file has it, it is text.
    told(f"shown as {old}", mask=mask)
    assert mask.restored(old) == old


def test_another_task_has_other_markers() -> None:
    """A hosted model learns nothing from two of them."""
    assert told("password = 'farm'") != told("password = 'farm'", mask=Mask("t2"))


def test_whether_something_has_a_marker() -> None:
    """At any depth, also a damaged one."""
    assert has_marker({"a": ["[redacted 1a2b3c4d]"]})
    assert has_marker({"[redacted": 1})
    assert not has_marker({"a": ["redacted", 1, None]})


# -- what a person lets it see -----------------------------------------------------------


def test_a_secret_that_a_person_let_it_see_stands_in_what_it_is_told() -> None:
    """That one, and no other."""
    text = "password = 'hunter2-Xy'\nother_password = 'farm'\n"
    first, second = MARKER.findall(told(text))
    shown = told(text, mask=Mask("t1", frozenset({first})))
    assert shown == f"password = 'hunter2-Xy'\nother_password = '{second}'\n"


FINAL = json.dumps({"kind": "final", "explanation": "", "success": True, "message": "May the model see it?"})


def asks(question: str, tool: str = "ask_user") -> str:
    args = {"question": question} if tool == "ask_user" else {"message": question}
    return json.dumps({"kind": "tool", "explanation": "x", "tool_call": {"tool": tool, "args": args}})


@pytest.mark.parametrize(
    ("reply", "answer", "seen"),
    [
        (asks("May the model see [redacted 1a2b3c4d]?"), "yes", True),
        (asks("May the model see [redacted 1a2b3c4d]?"), " Yes. ", True),
        (asks("May the model see [redacted 1a2b3c4d]?"), "no", False),
        (asks("May the model see [redacted 1a2b3c4d]?"), "yes, but not now", False),
        (asks("May the model see [redacted 1a2b3c4d] and the farm?"), "yes", False),
        (asks("Shall I go on?"), "yes", False),
        (asks("May the model see [redacted 1a2b3c4d]?", "send_status"), "yes", False),
        (FINAL, "yes", False),
        ("May the model see [redacted 1a2b3c4d]?", "yes", False),
    ],
)  # fmt: skip
def test_only_a_yes_to_the_very_question_lets_it_see(reply: str, answer: str, seen: bool) -> None:
    """What a person read is what they allowed."""
    assert list(seen_by(turn(answer, tool="ask_user"), reply)) == (["[redacted 1a2b3c4d]"] if seen else [])


def test_a_person_is_asked_with_the_line_that_has_the_secret() -> None:
    """People see other markers than the model; a marker that was not shown stays as the model wrote it."""
    mask = Mask("t1")
    shown, _ = mask.turn(turn("a = 1\npassword = 'hunter2-Xy'"), "")
    (marker,) = MARKER.findall(shown.calls[0].text)
    question = mask.in_words(f"May the model see {marker}?")
    assert question.startswith("May the model see the secret in this line? password = 'hunter2-Xy'\n(from ")
    assert asks_to_see(question)
    for other in ("May the model see [redacted 1a2b3c4d]?", "Shall I go on?"):
        assert mask.in_words(other) == other
    assert not asks_to_see("Shall I go on?")


def test_the_example_of_the_words_for_the_model_is_the_question_that_is_read() -> None:
    """So that a model that does as it is told is understood."""
    question = TOLD["ask"].rpartition(": ")[2]
    assert list(seen_by(turn("yes", tool="ask_user"), asks(question))) == ["[redacted 1a2b3c4d]"]
    assert TOLD["allow"] == ""
