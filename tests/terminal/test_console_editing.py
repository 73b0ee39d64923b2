"""Editing a call in a real editor: what it gets, what comes back, and what is left of it on the disk."""

import json
import sys
from pathlib import Path

import pytest

from orchestrator.core.approval.approval import CallDecision, HitlResponse
from orchestrator.core.task.facts import Observed
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.terminal.review.edit import EditorFailed, edited_text, editor_command, parsed
from tests.harness.asked import console, request, shown
from tests.harness.commands import on_a_terminal, paused, talking

MOVE = shown("cc_move", {"path": "a", "to": "b"}, Observed(state={}))


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that is $EDITOR; it begins by noting the file, its name and its mode."""
    script = tmp_path / "my editor"
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"'{script}' --wait")
    return script


def does(script: Path, *lines: str) -> None:
    """Make the editor do this to the file, $2."""
    here = script.parent
    note = f'cp "$2" "{here}/seen"; echo "$2" >> "{here}/names"; stat -c %a "$2" > "{here}/mode"'
    script.write_text("\n".join(("#!/bin/sh", note, *lines, "")))
    script.chmod(0o700)


def edit(one: HitlResponse, *typed: str) -> tuple[CallDecision | None, list[str]]:
    """What was decided with [e] and these answers, and what was said."""
    here, said, _ = console("e", *typed)
    resume = here.decide(one)
    return (resume.decisions[0] if resume is not None and resume.decisions else None), said


def test_the_long_text_is_edited_by_itself(editor: Path) -> None:
    """The content alone is in the file, under the ending of its path; the decision carries all arguments."""
    does(editor, 'printf "new\\nand newer\\n" > "$2"')
    one, said = edit(request(), "n", "y")
    assert one is not None
    assert (one.action, one.args, one.expected_digest) == (
        "edit",
        {"path": "/farm.lua", "content": "new\nand newer\n"},
        sha256_hex(b"c1"),
    )
    assert (editor.parent / "seen").read_text() == "new\n"
    assert (editor.parent / "names").read_text().strip().endswith("/edit.lua")
    assert "  │ +and newer" in said


def test_the_reason_of_an_edit_is_sent_with_it(editor: Path) -> None:
    """Behind the yes; another answer with words is none."""
    does(editor, 'echo newer > "$2"')
    one, _ = edit(request(), "n", "e why", "y the path was wrong")
    assert one is not None
    assert (one.action, one.reason) == ("edit", "the path was wrong")


def test_the_file_is_private_and_gone_afterwards(editor: Path) -> None:
    """Only this user can read it, and neither it nor its directory stays."""
    does(editor, f'stat -c %a "$(dirname "$2")" > "{editor.parent}/directory"', 'echo x > "$2"')
    edit(request(), "n", "y")
    assert (editor.parent / "mode").read_text().strip() == "600"
    assert (editor.parent / "directory").read_text().strip() == "700"
    name = Path((editor.parent / "names").read_text().strip())
    assert not name.exists()
    assert not name.parent.exists()


def test_the_other_arguments_are_edited_if_asked_for(editor: Path) -> None:
    """As JSON, in a second step; the text of the first stays."""
    does(editor, 'case "$2" in *.json) echo \'{"path": "b.lua"}\' > "$2";; *) echo text > "$2";; esac')
    one, said = edit(request(), "y", "y")
    assert one is not None
    assert one.args == {"path": "b.lua", "content": "text\n"}
    assert "  │ -/farm.lua" in said
    assert json.loads((editor.parent / "seen").read_text()) == {"path": "/farm.lua"}


def test_other_tools_are_edited_as_json(editor: Path) -> None:
    """All arguments at once where none of them is a long text."""
    does(editor, 'sed -i s/b/c/ "$2"')
    one, _ = edit(request(MOVE), "y")
    assert one is not None
    assert one.args == {"path": "a", "to": "c"}


def test_what_is_unchanged_decides_nothing(editor: Path) -> None:
    """An editor that only looked leaves the request as it is."""
    does(editor)
    one, said = edit(request(), "n", "l")
    assert one is None
    assert said == ["Unchanged: nothing was decided."]


def test_no_drops_what_was_written(editor: Path) -> None:
    """After the diff [n] sends nothing, and the next edit begins with the model's text again."""
    does(editor, 'echo more >> "$2"')
    one, _ = edit(request(), "n", "n", "e", "n", "n", "l")
    assert one is None
    assert (editor.parent / "seen").read_text() == "new\n"


def test_edit_again_goes_on_with_what_was_written(editor: Path) -> None:
    """[e] after the diff opens the file as it was left."""
    does(editor, 'echo more >> "$2"')
    one, _ = edit(request(), "n", "e", "n", "y")
    assert one is not None
    assert one.args is not None
    assert one.args["content"] == "new\nmore\nmore\n"


def test_what_was_sent_and_not_taken_is_there_for_the_next_try(editor: Path) -> None:
    """After a refusal by the server the next edit begins with the text that was refused."""
    does(editor, 'echo more >> "$2"')
    here, _, _ = console("e", "n", "y", "e", "n", "y")
    assert here.decide(request()) is not None
    again = here.decide(request())
    assert again is not None
    assert again.decisions is not None
    assert again.decisions[0].args == {"path": "/farm.lua", "content": "new\nmore\nmore\n"}


def test_what_no_editor_shows_is_an_escape_in_json_and_announced_in_a_text(editor: Path) -> None:
    """In JSON hidden characters are escapes and mean the same; of a text the person is told that it has some (V2)."""
    does(editor, 'sed -i s/b/c/ "$2"')
    one, _ = edit(request(shown("cc_move", {"path": "gr\u00fcn", "to": "b\u202e"}, Observed(state={}))), "y")
    assert one is not None
    assert one.args == {"path": "gr\u00fcn", "to": "c\u202e"}
    assert json.loads((editor.parent / "seen").read_text()) == {"path": "gr\u00fcn", "to": "b\u202e"}
    assert '"gr\u00fcn"' in (editor.parent / "seen").read_text()
    assert "b\\u202e" in (editor.parent / "seen").read_text()
    _, said = edit(request(shown("cc_shell", {"command": "a\u202eb"}, Observed(state={}))), "y")
    assert said[0] == "It has characters that an editor may not show; the page has them as escapes."


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("{", "That is not JSON: Expecting property name enclosed in double quotes at line 2, column 1."),
        ("[1]", "That is JSON, but no object with the arguments by their names."),
        ('{"a": 1, "a": 2}', "'a' is there twice."),
        ('{"a": NaN}', "NaN is not a JSON value."),
    ],
)
def test_what_is_no_json_says_where_and_can_be_mended_or_dropped(editor: Path, written: str, why: str) -> None:
    """The file opens again with what was written; dropping it decides nothing."""
    does(editor, f"echo '{written}' > \"$2\"")
    one, said = edit(request(MOVE), "y", "n", "l")
    assert one is None
    assert said == [why, why, "The arguments stay as they were.", "Unchanged: nothing was decided."]
    assert (editor.parent / "seen").read_text() == f"{written}\n"


def test_a_deep_nest_is_no_crash() -> None:
    """JSON that nests without end is refused with a sentence."""
    with pytest.raises(EditorFailed):
        parsed("[" * 100_000)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["exit 3"], "ended with code 3"),
        (['rm "$2"'], "The file is gone"),
        (['printf "\\377" > "$2"'], "The file is not UTF-8 at byte 0"),
    ],
)
def test_an_editor_that_fails_changes_nothing(editor: Path, lines: list[str], why: str) -> None:
    """What went wrong is a sentence, and nothing is decided."""
    does(editor, *lines)
    one, said = edit(request(), "n", "l")
    assert one is None
    assert why in said[0]
    assert said[-1] == "Unchanged: nothing was decided."


def test_an_editor_that_is_not_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the editor, and what to set."""
    monkeypatch.setenv("VISUAL", "no-such-editor-anywhere")
    with pytest.raises(EditorFailed, match=r"'no-such-editor-anywhere' cannot be started: .* Set EDITOR to another"):
        edited_text("x")


@pytest.mark.parametrize("text", ["no line end", "", "one\n", "one\n\n", "a\r\nb\r\n", "\x1b[31m\u202e", "gr\u00fcn"])
def test_a_text_comes_back_byte_by_byte(editor: Path, text: str) -> None:
    """Line ends and odd characters survive an editor that saves what it opened, with or without a last line end."""
    does(editor)
    assert edited_text(text) == text
    if text and not text.endswith("\n"):
        does(editor, 'echo >> "$2"')
        assert edited_text(text) == text


@pytest.mark.parametrize(
    ("environ", "windows", "command"),
    [
        ({"VISUAL": "code --wait", "EDITOR": "vi"}, False, ["code", "--wait"]),
        ({"VISUAL": " ", "EDITOR": "'my editor' -n"}, False, ["my editor", "-n"]),
        ({}, False, ["vi"]),
        ({}, True, ["notepad"]),
        ({"EDITOR": r"C:\bin\edit.exe"}, True, [r"C:\bin\edit.exe"]),
    ],
)
def test_which_editor(environ: dict[str, str], windows: bool, command: list[str]) -> None:
    """VISUAL before EDITOR, split as a shell does; else what every system has."""
    assert editor_command(environ, windows=windows) == command


def test_quotes_that_do_not_match_are_a_sentence() -> None:
    """A setting that no shell could read names itself."""
    with pytest.raises(EditorFailed, match=r"EDITOR is .* quotes do not match"):
        editor_command({"EDITOR": "'vi"}, windows=False)


@pytest.mark.deep
def test_an_editor_has_the_terminal_to_itself(tmp_path: Path) -> None:
    """It is in the foreground, stops for nothing, and Ctrl-C in it does not end the review."""
    script = tmp_path / "editor.py"
    script.write_text(
        "import os, signal, sys, termios\n"
        "termios.tcsetattr(0, termios.TCSANOW, termios.tcgetattr(0))\n"
        # Blocked, it is kept for sigwait; while input() sets out to read, it would wait for the next key.
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\n"
        "print('foreground', os.tcgetpgrp(0) == os.getpgrp(), flush=True)\n"
        "signal.sigwait({signal.SIGINT})\n"
        "print('interrupted', flush=True)\n"
        "open(sys.argv[1], 'a').write('edited\\n')\n"
    )
    with talking(tmp_path, tmp_path / "data") as server:
        task_id = paused(server)
        command = f"{sys.executable} {script}"
        python = (
            "import fcntl, sys, termios\n"
            "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
            f"sys.argv = ['cc-orchestrator', 'review', *{server.where!r}]\n"
            "from orchestrator.terminal.cli import main\n"
            "main()\n"
        )
        with on_a_terminal(tmp_path, python=python, EDITOR=command, VISUAL="") as terminal:
            terminal.expect("[h]elp > ")
            terminal.type("e\n")
            terminal.expect("foreground True")
            terminal.type("\x03")
            terminal.expect("interrupted")
            terminal.expect("too? [y/N] ")
            terminal.type("n\n")
            terminal.expect("  │ +edited")
            terminal.expect("[n]o, drop it > ")
            terminal.type("y\n")
            terminal.expect("Carried out: edited and approved by you")
            terminal.interrupt()
            assert terminal.end() == 0, terminal.text
        assert server.cli("tasks", "watch", task_id).returncode == 0
    assert (tmp_path / "data" / "workspace" / "plan.txt").read_text() == "new\nedited\n"
