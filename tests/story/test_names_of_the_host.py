"""Names that were put on a disk from the host and that the game cannot reach: all else goes on, and they are told."""

import asyncio
from pathlib import Path

import pytest

from orchestrator.core.task import facts
from tests.harness.commands import cli
from tests.story.harness import Computer, Server, check_laws, computer, facts_of, final, play, tool, tree
from tests.story.test_backups import back_up, booted
from tests.story.test_rehearsal import rehearsed
from tests.story.test_watched import undone

FILES = {"ab": b"the real one\n", "gone/a": b"a\0\xff", "gone/b/c": b"c", "work.lua": b'fs.delete("gone")\n'}
ODD = {"a:b": b"another\n", "what?.txt": b"w", " trail ": b"t", "line\nend": b"l", "kept/c|d": b"k"}
SHOWN = [" trail ", "a:b", "kept/c|d", "line?end", "link", "what?.txt"]
CANNOT = "The game cannot reach this name."


def odd(pc: Computer) -> dict[str, bytes | None]:
    """A computer with such names, and a link that leads nowhere."""
    for path, content in {**FILES, **ODD}.items():
        pc.write(path, content)
    (pc.disk / "link").symlink_to("nowhere")
    return tree(pc.disk)


@pytest.mark.deep
async def test_they_are_left_out_and_said_while_all_else_is_seen_kept_and_put_back(
    server: Server, tmp_path: Path
) -> None:
    api = server.api()
    async with computer(server, tmp_path) as pc:
        before = odd(pc)
        await booted(api, pc)
        made = await back_up(api, pc.name)
        assert made["skipped"] == [{"path": path, "why": CANNOT} for path in SHOWN]
        assert made["files"] == len(FILES)
        where = ["--url", server.url, "--data-dir", str(server.home)]
        told = await asyncio.to_thread(cli, tmp_path, "backups", "show", made["backup_id"], *where)
        assert f"left out  a:b  ({CANNOT})" in told.stdout

        _, shown = await rehearsed(api, pc, tool("cc_run_program", path="work.lua"), final())
        assert shown["left_out"] == dict.fromkeys(SHOWN, CANNOT)
        assert {one["path"] for one in shown["changes"]} == {"gone", "gone/a", "gone/b", "gone/b/c"}
        await play(api, shown["applied_by"], _reject)
        assert tree(pc.disk) == before

        script = [
            tool("cc_list", path="/"),
            tool("cc_find", pattern="*b*"),
            tool("cc_delete", path="kept"),
            tool("cc_run_program", path="work.lua"),
            final(),
        ]
        task_id = await api.submit(*script, computers=(pc.name,))
        items = await play(api, task_id)
        check_laws(items)
        listed, found, *_, ran = facts_of(items, facts.ToolFinished)
        assert "\nab  13\n" in listed.text
        names = " trail , a:b, line?end, link, what?.txt"
        assert listed.text.endswith(f"(and 5 names that the game cannot reach: {names})")
        assert found.text.startswith("[1 match]\nab  13\n(and 6 names that")
        assert "In kept is a name that the game cannot reach: c|d." in str(items)
        assert "these files changed: gone/a (gone), gone/b/c (gone). What it did to" in ran.text
        assert ran.text.endswith(f"link and 1 more is not known: {CANNOT}")
        assert tree(pc.disk) == {path: data for path, data in before.items() if not path.startswith("gone")}
        await undone(api, task_id)
        assert tree(pc.disk) == before


async def _reject(request: object) -> str:
    del request
    return "reject"
