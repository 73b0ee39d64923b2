"""`class` on the command line: a class from a file, made once however often it is said, and its end."""

import csv
import io
import json
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.terminal.cli.classes import with_part
from tests.harness.commands import Served, cli, refused, serving

CLASS = """
group = "class-7b"
teachers = ["tom"]
students = ["ann", "bob"]
computers = "each"
shared = ["lab"]
hints = true

[limits]
tasks = 20
running = 1

[[rules]]
id = "class-7b-no-shell"
effect = "deny"
tools = ["cc_shell"]
args = [{ pointer = "/command", regex = "wget.*" }]
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server, and a class file beside it."""
    (tmp_path / "class.toml").write_text(CLASS, "utf-8")
    with serving(tmp_path, tmp_path / "data") as served:
        yield served


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def policy_of(server: Served) -> dict[str, Any]:
    """The rules of the class in the active policy, by their ids, and what it says of its group."""
    shown = json.loads(server.cli("policy", "show", "--json").stdout)["policy"]
    rules = {one["id"]: one for one in shown["rules"] if one["id"].startswith("class-7b")}
    return {"rules": rules, "quota": shown["quotas"]["groups"].get("class-7b")}


def test_a_class_begins_once_and_is_told_so(served: Served) -> None:
    """The first time everybody gets a token and a line; the second time nobody a token, and the same class is there."""
    file = str(served.home / "class.toml")
    first = served.cli("class", "start", file)
    assert first.returncode == 0, first.stderr
    rows = rows_of(first.stdout)
    assert [(one["name"], one["role"], one["computer"]) for one in rows] == [
        ("tom", "teacher", ""),
        ("ann", "student", "ann"),
        ("bob", "student", "bob"),
        ("", "shared", "lab"),
    ]
    assert all(one["token"].startswith("ccp_") for one in rows[:3])
    assert all("wget run" in one["line"] for one in rows[1:])
    assert "The policy has the part of class class-7b now." in first.stderr
    in_force = policy_of(served)
    assert in_force["rules"]["class-7b-hints"]["effect"] == "hint"
    assert in_force["rules"]["class-7b-no-shell"]["groups"] == ["class-7b"]
    assert (in_force["quota"]["tasks"], in_force["quota"]["running"]) == (20, 1)
    tutor = {"CC_ORCHESTRATOR_TOKEN": rows[0]["token"], "CC_ORCHESTRATOR_URL": served.url}
    assert cli(served.home, "freeze", "ann", **tutor).returncode == 0
    assert cli(served.home, "unfreeze", "ann", **tutor).returncode == 0
    student = {"CC_ORCHESTRATOR_TOKEN": rows[1]["token"], "CC_ORCHESTRATOR_URL": served.url}
    refused(cli(served.home, "freeze", "bob", **student), "ann may not do this.", code=3)
    refused(cli(served.home, "class", "start", file, **student), "This takes the role admin.", code=3)

    kept = served.home / "tokens.csv"
    again = served.cli("class", "start", file, "--tokens", str(kept))
    assert (again.returncode, again.stdout) == (0, "")
    assert "policy" not in again.stderr
    assert "is new" not in again.stderr
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [one["token"] for one in rows_of(kept.read_text("utf-8"))] == [""] * 4
    assert policy_of(served) == in_force
    refused(served.cli("class", "start", file, "--tokens", str(kept)), "is there already.")


def test_a_class_ends_and_begins_again(served: Served) -> None:
    """Its part of the policy goes, its people are frozen; the next start takes the freeze away."""
    file, before = str(served.home / "class.toml"), policy_of(served)
    rows = rows_of(served.cli("class", "start", file).stdout)
    stopped = served.cli("class", "stop", "class-7b")
    assert "3 people of class-7b are frozen" in stopped.stderr
    assert policy_of(served) == before
    assert "The class is over." in served.cli("freeze").stdout
    served.cli("freeze", "ann", "--reason", "We talk.")
    told = served.cli("unfreeze", "ann").stderr
    assert told == "ann is not frozen any more.\nA freeze of group class-7b by admin still holds.\n"
    ann = {"CC_ORCHESTRATOR_TOKEN": rows[1]["token"], "CC_ORCHESTRATOR_URL": served.url}
    shown = cli(served.home, "whoami", **ann).stdout
    assert "a teacher, a reviewer or an admin decides what they ask." in shown
    assert "frozen: by admin, with group class-7b since 20" in shown
    assert shown.endswith(": The class is over.\n")
    assert "The class is over. Until they" in cli(served.home, "run", "x", **ann).stderr
    started = served.cli("class", "start", file)
    assert "The group class-7b is not frozen any more." in started.stderr
    assert served.cli("freeze").stderr == "Nobody is frozen.\n"
    assert "The tokens of ann are revoked." in served.cli("class", "stop", "class-7b", "--revoke").stderr
    held = json.loads(served.cli("people", "list", "--json").stdout)
    assert {one["name"] for one in held if not one["revoked"]} == {"admin", "tom"}
    for words in (("delete", "class-7c"), ("remove", "class-7c", "ann")):
        refused(served.cli("groups", *words), "There is no group 'class-7c'.", code=4)
    refused(served.cli("class", "stop", "class-7c"), "There is no group class-7c.", code=4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("group =", "cannot be read as TOML"),
        (CLASS.replace("hints", "hint"), "hint is not known."),
        (CLASS.replace("tasks", "task"), "limits.task is not known."),
        (CLASS.replace('students = ["ann", "bob"]', "students = []"), "names no group or no students."),
        (CLASS.replace('"each"', '"some"'), 'computers is neither "each" nor "none".'),
        (CLASS.replace('["lab"]', '"lab"'), "shared is a list."),
        ('limits = 5\ngroup = "x"\n', "limits is not known."),
        # The file of the class is named, not the server's policy.
        (CLASS.replace('"deny"', '"denny"'), "class.toml: rule 1 (class-7b-no-shell): effect must be"),
        (CLASS.replace("tasks = 20", "tasks = 1.5"), "class.toml: quotas.groups.class-7b.tasks must be a whole number"),
        (CLASS.replace('"deny"', "2026-01-01"), "class.toml: a limit or a rule has an odd value."),
        (CLASS.partition("[[rules]]")[0].replace("[limits]", 'rules = ["x"]\n[limits]'), "has an odd value."),
    ],
)
def test_a_file_that_is_wrong_is_refused_before_anything_is_made(tmp_path: Path, text: str, words: str) -> None:
    """With what is wrong in it; it needs no server."""
    file = tmp_path / "class.toml"
    file.write_text(text, "utf-8")
    refused(cli(tmp_path, "class", "start", str(file)), words)


def test_the_part_of_a_class_is_replaced_and_taken_out() -> None:
    """The rest of the policy stays as it was, with its comments, and the part of another class as well."""
    policy = "# mine\nmode = 'normal'\n"
    one = with_part(policy, "a", "x = 1")
    both = with_part(one, "b", "y = 1")
    assert with_part(both, "a", "x = 1") != one
    changed = with_part(both, "a", "x = 2")
    assert "x = 1" not in changed
    assert with_part(with_part(changed, "b", ""), "a", "") == policy
    assert with_part(policy, "a", "") == policy


def test_a_class_is_exported_into_a_new_file(served: Served) -> None:
    """And never over one that is there; a group that is not there is told."""
    served.cli("class", "start", str(served.home / "class.toml"))
    out = served.home / "class.zip"
    done = served.cli("class", "export", "class-7b", "--out", str(out))
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(out) as archive:
        assert "class-7b/ann.html" in archive.namelist()
    refused(served.cli("class", "export", "class-7b", "--out", str(out)), "is there already.")
    refused(served.cli("class", "export", "none", "--out", str(out) + "2"), "There is no group 'none'.", code=4)


def test_what_cannot_be_done_whole_is_not_begun(served: Served) -> None:
    """A file for the tokens that cannot be written, and a teacher who may not change the policy."""
    file = str(served.home / "class.toml")
    nowhere = served.cli("class", "start", file, "--tokens", str(served.home / "nowhere" / "tokens.csv"))
    refused(nowhere, "cannot be written: No such file or directory", code=2)
    assert "class-7b" not in served.cli("groups").stdout
    tokens = served.home / "tokens.csv"
    assert served.cli("class", "start", file, "--tokens", str(tokens)).returncode == 0
    rows = rows_of(tokens.read_text("utf-8"))
    assert all(one["token"] for one in rows if one["name"])
    tutor = {"CC_ORCHESTRATOR_TOKEN": rows[0]["token"], "CC_ORCHESTRATOR_URL": served.url}
    for words in (("stop", "class-7b"), ("start", file)):
        refused(cli(served.home, "class", *words, **tutor), "This takes the role admin.", code=3)
    assert "class-7b" not in served.cli("freeze").stdout
