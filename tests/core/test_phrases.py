"""Phrases of orders and questions that people use, and those close to them that order nothing."""

import json
from typing import Final

import pytest

from orchestrator.core.evidence.questions import asks_only
from orchestrator.core.evidence.wanted import Wanted, wanted
from orchestrator.core.evidence.words import Deed, order
from tests import TESTS

_GOLDEN: Final = TESTS / "golden" / "phrases.jsonl"
_DEEDS: Final = {
    "make": {Deed.MAKE},
    "change": {Deed.CHANGE, Deed.FIX, Deed.MAKE, Deed.ENSURE},
    "fix": {Deed.FIX, Deed.CHANGE, Deed.ENSURE, Deed.MAKE},
    "delete": {Deed.DELETE},
    "move": {Deed.DELETE, Deed.MOVE, Deed.MAKE},
    "copy": {Deed.COPY, Deed.MAKE},
}


def _golden() -> list[dict[str, str]]:
    rows = map(json.loads, _GOLDEN.read_text(encoding="utf-8").splitlines()) if _GOLDEN.exists() else ()
    return [row for row in rows if row["form"] in ("order", "asks")]


def _hears(row: dict[str, str]) -> bool:
    if row["form"] == "asks":
        return asks_only(row["text"])
    asked = wanted(row["text"])
    match row["deed"]:
        case "run":
            return asked.runs
        case "keep":
            return bool(asked.kept) or asked.keeps_all
        case deed:
            return bool({one.deed for one in asked.targets} & _DEEDS[deed]) and not asks_only(row["text"])


@pytest.mark.parametrize("deed", sorted({row["deed"] for row in _golden()}))
def test_a_phrase_is_heard(deed: str) -> None:
    assert [row["text"] for row in _golden() if row["deed"] == deed and not _hears(row)] == []


def _required(asked: Wanted) -> set[str]:
    """The files that a task wants changed or run."""
    return {name for one in asked.targets for name in one.names} | {one.name for one in asked.programs}


@pytest.mark.parametrize(
    "prompt",
    [
        # A condition, a reason, what somebody says.
        "If a.lua must be deleted, tell me first.",
        "Let me know if a.lua should be renamed.",
        "Was the bug caused by renaming a.lua to b.lua?",
        "Why was b.lua broken by changing a.lua?",
        "My friend said that a.lua should be deleted. Is he right?",
        "Tell me whether a.lua can go.",
        "Sag mir, ob a.lua weg kann.",
        # A question.
        "Can a.lua be deleted?",
        "Should a.lua be moved to old/a.lua?",
        "Soll a.lua gelöscht werden?",
        "Muss a.lua geändert werden, damit b.lua läuft?",
        "Est-ce que a.lua peut être supprimé ?",
        "Explain what happens when I run mv a.lua b.lua.",
        "lua a.lua prints nothing, why?",
        # Something about the file.
        "Give me an explanation of a.lua.",
        "What I need is an idea how a.lua works.",
        "Can I have a look at a.lua?",
        "Ich hätte gern eine Erklärung zu a.lua.",
        "The program rm a.lua crashes",
        "a.lua should print 42.",
        # Another time, another one who does it.
        "Let a.lua run when the door opens.",
        "Lass a.lua laufen, wenn die Tür aufgeht.",
        "Give a.lua a try if you want.",
        "a.lua should be run by startup.lua.",
        "a.lua soll bei jedem Start gelöscht werden.",
        "llama a a.lua desde startup.lua",
        "dale a b.lua un nombre mejor",
        # Nothing to do.
        "a.lua muss nicht geändert werden.",
        "No changes to a.lua are needed.",
        "Ich will nicht, dass du a.lua änderst.",
        "Je ne veux pas que tu effaces a.lua.",
        "No quiero que borres a.lua.",
        "I don't want you to change a.lua.",
        "Don't set up a.lua again.",
        "Don't fix it by changing a.lua.",
        "Wir wollen a.lua nach b.lua sehen.",
        "Archive it by zipping a.lua.",
        "Das geht, indem du a.lua nach b.lua siehst.",
        "Il plante en lisant a.lua.",
        "a.lua must be green.",
    ],
)
def test_what_only_looks_like_an_order_requires_nothing(prompt: str) -> None:
    assert "a.lua" not in _required(wanted(prompt))
    assert "b.lua" not in _required(wanted(prompt))


@pytest.mark.parametrize(
    ("prompt", "kept"),
    [
        ("Do not rm a.lua. Fix b.lua.", ("a.lua",)),
        ("Don't throw away a.lua. Fix b.lua.", ("a.lua",)),
        ("Do not edit, move or delete a.lua, but fix b.lua.", ("a.lua",)),
        ("There's no reason to keep a.lua; please delete the file.", ()),
        ("There is nothing in a.lua that is off limits, fix it.", ()),
        ("No changes to a.lua except in line 3, please.", ()),
        ("Fix a.lua, but do not rewrite it completely.", ()),
        ("a.lua muss nicht geändert werden.", ()),
        ("Before anything else, copy a.lua to b.lua.", ()),
    ],
)
def test_what_has_to_stay_as_it_is(prompt: str, kept: tuple[str, ...]) -> None:
    assert wanted(prompt).kept == kept


@pytest.mark.parametrize("prompt", ["Put a.lua into startup.lua so it runs.", "nimm a.lua in startup.lua auf"])
def test_what_goes_into_another_file_is_not_moved(prompt: str) -> None:
    assert all(one.deed is not Deed.DELETE for one in wanted(prompt).targets)


@pytest.mark.parametrize("prompt", ["Write a startup.lua that will let a.lua run.", "Make startup.lua fire up a.lua."])
def test_what_a_program_runs_is_no_order_to_run_it(prompt: str) -> None:
    assert not wanted(prompt).runs


@pytest.mark.parametrize("word", ["delte", "cahnge", "löshcen", "corirge", "ejectua", "renmae"])
def test_a_slip_of_the_finger_is_heard(word: str) -> None:
    assert order(word) is not None


@pytest.mark.parametrize("word", ["crate", "form", "state", "scheiben", "whole", "urn"])
def test_a_word_of_its_own_is_no_slip(word: str) -> None:
    assert order(word) is None


@pytest.mark.parametrize(
    "prompt",
    [
        "Kannst du das in a.lua bitte reparieren?",
        "a.lua geht nicht. Kannst du das bitte reparieren?",
        "Comment lines 3 to 5 in a.lua.",
        "Comment every function in a.lua.",
        "Would you mind renaming a.lua to b.lua?",
        "Kannst du a.lua löschen?",
    ],
)
def test_a_polite_order_is_no_question(prompt: str) -> None:
    assert not asks_only(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "Would a.lua still work if b.lua is deleted?",
        "Kann man a.lua löschen?",
        "¿Se puede borrar a.lua?",
        "Peut-on supprimer a.lua ?",
        "Do you mind if I delete a.lua?",
        "Would it be possible to run a.lua twice without harm?",
    ],
)
def test_a_question_whether_something_may_be_done_is_no_order(prompt: str) -> None:
    assert asks_only(prompt)


@pytest.mark.parametrize("prompt", ["CREAT\u0130ON of a.lua.", "Creat\u0131on of a.lua.", "Copia de a.lua."])
def test_a_noun_orders_with_any_letters_that_its_pattern_reads(prompt: str) -> None:
    assert [one.names for one in wanted(prompt).targets] == [("a.lua",)]
