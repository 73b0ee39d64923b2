"""Task files: what `run --file` reads, and what it says of a file that does not fit."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import InvalidRequest
from orchestrator.terminal.cli.run import TaskFile, read_task_file

TASK: dict[str, Any] = {
    "prompt": "fix farm.lua",
    "computer": ["farm", "store"],
    "checks": ["@farm runs farm.lua", "prints wheat"],
    "max_steps": 30,
    "read_only": False,
    "on_reject": "continue",
}


def test_a_task_file_is_toml_or_json(tmp_path: Path) -> None:
    """The same keys in both; a single computer and a number of seconds need no more signs."""
    (tmp_path / "a.json").write_text(json.dumps({**TASK, "max_wall": "10m"}), "utf-8")
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in TASK.items())
    (tmp_path / "a.toml").write_text(f"{lines}\nmax_wall = 600\n", "utf-8")
    of_json, of_toml = read_task_file(tmp_path / "a.json"), read_task_file(tmp_path / "a.toml")
    assert of_json.model_copy(update={"max_wall": "600"}) == of_toml
    assert (of_json.max_wall_s, of_toml.max_wall_s, TaskFile().max_wall_s) == (600, 600, None)
    assert of_json.checks == TASK["checks"]
    (tmp_path / "one").write_text('computer = "farm"', "utf-8")
    assert read_task_file(tmp_path / "one").computer == ["farm"]
    for name, text in (("bom.toml", 'prompt = "x"'), ("bom.json", '{"prompt": "x"}')):
        # Some editors of Windows write a mark at the beginning.
        (tmp_path / name).write_text(text, "utf-8-sig")
        assert read_task_file(tmp_path / name).prompt == "x"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("gone.toml", None, "cannot be read: No such file"),
        ("a.toml", b"prompt = fix", "is not TOML: "),
        ("a.toml", b"\xff", "is not TOML: "),
        ("a.json", b"{", "is not JSON: "),
        ("a.json", b"[" * 100_000, "is not JSON: it is nested too deeply"),
        ("a.json", b"[]", "the file must be an object"),
        ("a.toml", b"check = 'runs a'", "check is not known"),
        ("a.toml", b"checks = 'runs a'", "checks must be a list"),
        ("a.toml", b"computer = [3]", "computer.0 must be text"),
        ("a.toml", b"max_steps = 0", "max_steps must be at least 1"),
        ("a.toml", b"#" * 1_000_001, "has more than 1000000 bytes"),
    ],
)
def test_a_file_that_does_not_fit_says_where(tmp_path: Path, name: str, content: bytes | None, why: str) -> None:
    """The file, the key and what it must be."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidRequest) as refused:
        read_task_file(tmp_path / name)
    assert name in refused.value.message
    assert why in refused.value.message
    assert refused.value.remedy
