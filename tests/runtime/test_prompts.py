"""The prompt that is in force: the shipped text, or that of a data directory, and under which version."""

import hashlib
from importlib.resources import files
from pathlib import Path

import pytest

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.model_view.prompt import MAX_CHARS, PLACES, estimate
from orchestrator.core.reply.response import TOOL_ARGS
from orchestrator.runtime import prompts
from tests.harness.commands import cli

OWN = "Mine.\n$tools\n$computers\n$tag\n"
PINNED = {"5": "6a308d8968560bcb47502766ac5715ad1d4488795ca62034cd24a3e309969e3b"}
"""Version to the sha256 of system.md: a text that was changed is a new version, with a line of its own here."""


def put(directory: Path, content: bytes) -> Path:
    path = directory / prompts.FILE
    path.write_bytes(content)
    return path


def refusal(directory: Path) -> str:
    with pytest.raises(InvalidRequest) as refused:
        prompts.in_force(directory)
    assert refused.value.remedy
    return refused.value.message


def test_a_changed_text_has_a_new_version() -> None:
    """What a request records tells which text the model was given."""
    content = files(prompts).joinpath("system.md").read_bytes()
    assert hashlib.sha256(content).hexdigest() == PINNED[prompts.SHIPPED_VERSION]


def test_the_shipped_text_tells_what_a_reply_is_and_where_data_ends() -> None:
    """It names only tools that there are, has each place once, and leaves a small window its room."""
    text = prompts.shipped().text
    assert [text.count(f"${one}") for one in PLACES] == [1] * len(PLACES)
    assert {one for one in ("cc_list", "cc_read", "cc_write") if f'"{one}"' in text} <= set(TOOL_ARGS)
    filled = prompts.shipped().filled(tools="TOOLS", computers="COMPUTERS", tag="9f31ab02", policy="POLICY")
    assert "[end of data 9f31ab02]" in filled
    assert all(one in filled for one in ("TOOLS", "COMPUTERS", '"kind": "tool"', '"kind": "final"', '"success"'))
    assert filled.endswith("POLICY")
    assert "$" not in filled
    assert estimate(text) < 600


def test_without_a_text_of_its_own_a_data_directory_has_the_shipped_one(tmp_path: Path) -> None:
    """Also before there is a directory."""
    assert prompts.in_force(tmp_path) == prompts.shipped()
    assert prompts.in_force(tmp_path / "none") == prompts.shipped()
    assert prompts.shipped().version == prompts.SHIPPED_VERSION


def test_a_text_of_its_own_takes_its_place(tmp_path: Path) -> None:
    """Its version is that of its bytes, so the same text has the same version anywhere."""
    put(tmp_path, OWN.encode())
    prompt = prompts.in_force(tmp_path)
    assert prompt.text == f"{OWN}$policy"
    assert prompt.version == f"own-{hashlib.sha256(OWN.encode()).hexdigest()[:12]}"
    assert prompt == prompts.in_force(tmp_path)


def test_a_text_that_was_changed_is_another_version(tmp_path: Path) -> None:
    """A line end is a change; it is read anew each time."""
    put(tmp_path, OWN.encode())
    before = prompts.in_force(tmp_path).version
    put(tmp_path, OWN.encode() + b"\n")
    assert prompts.in_force(tmp_path).version != before


def test_the_shipped_text_put_there_by_hand_is_one_of_its_own(tmp_path: Path) -> None:
    """Its version says where it came from; its words are the same."""
    put(tmp_path, prompts.shipped().text.encode())
    prompt = prompts.in_force(tmp_path)
    assert prompt.text == prompts.shipped().text
    assert prompt.version.startswith("own-")


def test_one_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """A directory in its place, for one: nobody is given another text than the one that was meant."""
    path = tmp_path / prompts.FILE
    path.mkdir()
    assert refusal(tmp_path) == f"The prompt {path} cannot be read: Is a directory."


def test_one_that_was_named_and_is_not_there_is_refused(tmp_path: Path) -> None:
    """Named by hand it has to be there."""
    path = tmp_path / "none.md"
    with pytest.raises(InvalidRequest, match="cannot be read: No such file or directory"):
        prompts.read_file(path)


def test_one_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    """With the place of the byte that is none."""
    path = put(tmp_path, b"gr\xfcn " + OWN.encode())
    assert refusal(tmp_path) == f"The prompt {path} is not UTF-8 text: byte 2 cannot be read."


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"{OWN}$user", "Line 5 of the prompt has the unknown place $user."),
        ("$tools $computers", "The prompt has no place for $tag."),
        (OWN + "x" * MAX_CHARS, f"The prompt has {MAX_CHARS + len(OWN)} characters; {MAX_CHARS} are the most."),
    ],
)
def test_one_that_could_not_work_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    """With the name of the file; and the shipped one does not take its place in silence."""
    path = put(tmp_path, text.encode())
    assert refusal(tmp_path) == f"{path}: {sentence}"


@pytest.mark.parametrize("content", [b"", b" \n"])
def test_an_empty_one_is_shown_as_the_shipped_text_and_used_by_nobody(tmp_path: Path, content: bytes) -> None:
    """A shell empties the file to which the output goes before there is any: what it writes there is of use."""
    path = put(tmp_path, content)
    shown = cli(tmp_path, "prompt", "show", "--data-dir", str(tmp_path))
    assert (shown.returncode, shown.stdout) == (0, prompts.shipped().text)
    assert f"{path} is empty, so this is the shipped text." in shown.stderr
    checked = cli(tmp_path, "prompt", "check", "--data-dir", str(tmp_path))
    assert (checked.returncode, checked.stdout) == (1, "")
    assert str(path) in checked.stderr
    quiet = cli(tmp_path, "prompt", "show", "--shipped", "--data-dir", str(tmp_path))
    assert (quiet.stdout, quiet.stderr) == (prompts.shipped().text, "")
