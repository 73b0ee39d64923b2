"""Rows of the journal, read without trust: the bytes that were sealed and no others, and what items name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.audit.chain import Named, blobs_named, files_listed, read_written
from orchestrator.core.task import facts
from orchestrator.core.task.facts import BlobRef
from orchestrator.core.task.items import AgentTaskItem, decode_item, encode_item
from orchestrator.core.task.system_facts import PolicyLoaded
from orchestrator.core.wire.wire import sha256_hex
from tests.core.golden_items import GOLDEN
from tests.core.journal import Journal, call
from tests.core.test_audit import stream

ITEM = encode_item(stream("t1", facts.CancelRequested(reason="enough"))[0])


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_an_item_of_any_release_is_as_it_was_sealed(path: Path) -> None:
    """Also where its kind got fields since."""
    written = read_written(path.read_bytes())
    assert (written.item is not None, written.sound, written.canonical) == (True, True, True)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data + b" ",
        lambda data: b"\n" + data,
        lambda data: data.replace(b'"at":', b'"at": '),
        lambda data: data.replace(b'"fact":{', b'"fact":{"reason":"other",'),
        lambda data: data.replace(b'"actor"', b'"fact":{"kind":"node_stopped"},"actor"'),
        lambda data: data.replace(b"enough", b"en\\u006fugh"),
        lambda data: json.dumps(dict(reversed(json.loads(data).items())), separators=(",", ":")).encode(),
        lambda data: json.dumps(json.loads(data), sort_keys=True, separators=(",", ":")).encode(),
    ],
)
def test_other_bytes_that_read_alike_are_not_those_that_were_sealed(change: Callable[[bytes], bytes]) -> None:
    """Blanks, a key that stands twice, an escape beyond need, another order."""
    changed = change(ITEM)
    assert changed != ITEM
    written = read_written(changed)
    assert (written.item, written.sound, written.canonical) == (decode_item(ITEM), True, False)


def test_an_edit_is_not_sound_and_what_is_no_item_says_why() -> None:
    """The content against its hash; text, and a record of a newer version."""
    edited = read_written(ITEM.replace(b"enough", b"too much"))
    assert (edited.sound, edited.canonical) == (False, True)
    assert read_written(b"x").item is None
    assert "cannot be read" in read_written(b"x").why
    assert "schema 2" in read_written(ITEM.replace(b'"schema":1', b'"schema":2')).why


def test_a_number_that_no_reader_should_meet_is_no_item() -> None:
    """Python reads no number of five thousand digits, whatever another reader does."""
    huge = ITEM.replace(b'"version":1', b'"version":' + b"1" * 5_000)
    written = read_written(huge)
    assert (written.item, bool(written.why)) == (None, True)


# -- what is named -----------------------------------------------------------------------


def named(item: AgentTaskItem, journal: Journal | None = None) -> list[Named]:
    """What an item names, the task being as a journal has it."""
    return list(blobs_named(None if journal is None else journal.task, item))


def test_a_reply_and_a_policy_name_their_bytes() -> None:
    """The reply with its size; other items name nothing."""
    replied = facts.ModelReplied(raw=BlobRef(sha256="a" * 64, size=7), done_reason="stop")
    loaded = PolicyLoaded(source="policy.toml", policy_version="v1", sha256="b" * 64)
    one, two, three = stream("t1", replied, loaded, facts.CancelRequested())
    assert named(one) == [Named("a" * 64, 7, "the model's reply")]
    assert named(two) == [Named("b" * 64, None, "the policy")]
    assert named(three) == []


@pytest.mark.parametrize(
    ("tool", "args", "wanted"),
    [
        ("cc_delete", {"path": "farm"}, ["farm", "lib"]),
        ("cc_run_program", {"path": "farm"}, []),
        ("cc_read", {"path": "farm"}, []),
        ("no_such_tool", {}, []),
    ],
)
def test_a_start_names_the_old_bytes_of_what_it_changes(tool: str, args: dict[str, Any], wanted: list[str]) -> None:
    """Of a change by state, what was there; of what runs or only looks, nothing."""
    journal = Journal()
    journal.proposed([call("c1", tool, **args)], "allow")
    before = {"farm": "a" * 64, "new": "absent", "lib": "b" * 64}
    started = journal_item(before, directories=("lib",))
    found = named(started, journal)
    assert [one.what.split()[0] for one in found] == wanted
    assert [one.is_directory for one in found] == [False, True][: len(wanted)]
    assert named(started) == []


def test_what_was_watched_around_a_program_is_named() -> None:
    """Before it with the files' bytes, but for those that are said to be missing; after it only the lines."""
    watched = facts.Watched(globs=("**",), listing="a" * 64, gaps="b" * 64)
    run = {"call_id": "c1", "run_id": "c1.1"}
    ended = {**run, "watched": watched, "text": ""}
    one, two, three, four = stream(
        "t1",
        facts.ToolStarted.model_validate({**run, "action_digest": "d", "watched": watched}),
        facts.ToolFinished.model_validate({**ended, "ok": True}),
        facts.ToolSettled.model_validate({**ended, "state": "unknown"}),
        facts.ToolFinished.model_validate({**run, "ok": True, "text": "", "watched": facts.Watched(why="It is gone.")}),
    )
    assert [(named.sha256[0], named.is_directory, named.but[:1]) for named in blobs_named(None, one)] == [
        ("b", False, ""),
        ("a", True, "b"),
    ]
    for after in (two, three):
        assert [(named.sha256[0], named.is_directory) for named in blobs_named(None, after)] == [
            ("b", False),
            ("a", False),
        ]
    assert named(four) == []


def journal_item(before: dict[str, str], **more: object) -> AgentTaskItem:
    """A call's start, as a store gives it."""
    fields = {"call_id": "c1", "run_id": "c1.1", "action_digest": "d", "before": before, **more}
    (item,) = stream("t1", facts.ToolStarted.model_validate(fields))
    return decode_item(encode_item(item))


def test_the_files_of_a_directory_are_read_from_its_lines() -> None:
    """Directories and anything odd are left out."""
    one, two = sha256_hex(b"x"), sha256_hex(b"y")
    manifest = b"sub\0directory\0-\nsub/y\0file\0%s\nx\0file\0%s\n\nodd\n" % (two.encode(), one.encode())
    assert files_listed(manifest) == sorted([one, two])
    assert files_listed(b"\xff\0file\0\xff\n") == ["\ufffd"]
