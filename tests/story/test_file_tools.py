"""The file tools on a computer: the same calls say and leave the same there and on the dictionary of stub mode."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.wire.wire import MAX_BODY_BYTES, sha256_hex
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.tools.registry import TOOL_REGISTRY
from tests.story.harness import Computer, Server, check_laws, computer, ended, facts_of, final, play, tool
from tests.thinning import thinned

FILES = {
    "farm.lua": b"local x = 1\nprint(x)\nprint(x)\n",
    "lib/a.lua": b"return 1\n",
    "lib/sub/b.txt": "grün 日本\n".encode(),
    "lib/empty": b"",
    "latin.txt": b"gr\xfcn\nold\n",
    "crlf.txt": b"a\r\nb\r\n",
}
LONG = "".join(f"line {number} of a file that fits no single frame\n" for number in range(1, 1701))
Step = tuple[str, dict[str, Any]]

STORIES: dict[str, list[Step]] = {
    "looking": [
        ("cc_read", {"path": "/farm.lua", "start_line": 2, "max_lines": 1}),
        ("cc_read", {"path": "farm.lua", "start_line": 9}),
        ("cc_list", {"path": "lib"}),
        ("cc_find", {"pattern": "lib/**"}),
        ("cc_find", {"pattern": "**/*.txt", "contains": "日本"}),
        ("cc_find", {"pattern": "*.lua", "contains": "print(x)"}),
        ("cc_find", {"pattern": "l?b/*"}),
        ("cc_find", {"pattern": "nothing/**"}),
    ],
    "editing": [
        ("cc_edit", {"path": "/farm.lua", "old": "local x = 1", "new": "local x = '日本'"}),
        ("cc_edit", {"path": "farm.lua", "old": "local x = ", "new": "local x = = "}),
        ("cc_edit", {"path": "farm.lua", "old": "print(x)", "new": "y"}),
        ("cc_edit", {"path": "farm.lua", "old": "print( x)", "new": "y"}),
        ("cc_edit", {"path": "latin.txt", "old": "ü", "new": "ö\né"}),
        ("cc_edit", {"path": "latin.txt", "old": "old", "new": "日"}),
        ("cc_edit", {"path": "crlf.txt", "old": "a\nb", "new": "c"}),
        ("cc_edit", {"path": "crlf.txt", "old": "a\r\nb", "new": "c"}),
        ("cc_edit", {"path": "none.txt", "old": "a", "new": "b"}),
        ("cc_read", {"path": "latin.txt"}),
    ],
    "moving": [
        ("cc_mkdir", {"path": "/new/er"}),
        ("cc_mkdir", {"path": "new"}),
        ("cc_move", {"path": "farm.lua", "to": "new/farm.lua"}),
        ("cc_move", {"path": "lib", "to": "new/er"}),
        ("cc_move", {"path": "lib", "to": "lib/sub/lib"}),
        ("cc_move", {"path": "lib", "to": "old"}),
        ("cc_move", {"path": "none", "to": "some"}),
        ("cc_find", {"pattern": "[no]*/**"}),
        ("cc_find", {"pattern": "old/**"}),
        ("cc_delete", {"path": "new"}),
        ("cc_list", {"path": "old/sub"}),
    ],
    "more than one frame": [
        ("cc_write", {"path": "long.txt", "content": LONG}),
        ("cc_read", {"path": "long.txt", "start_line": 1600, "max_lines": 3}),
        ("cc_edit", {"path": "long.txt", "old": "line 1500 of", "new": "LINE 1500 OF"}),
        ("cc_find", {"pattern": "long.txt", "contains": "LINE"}),
        ("cc_move", {"path": "long.txt", "to": "longer.txt"}),
        ("cc_delete", {"path": "longer.txt"}),
    ],
}


@dataclass
class Told:
    """What a run of a story came to, call by call."""

    texts: list[str] = field(default_factory=list)
    before: list[dict[str, str]] = field(default_factory=list)
    after: list[dict[str, str]] = field(default_factory=list)


async def in_stub_mode(steps: list[Step], files: dict[str, str]) -> Told:
    """Each call shown and then made, on a dictionary."""
    told = Told()
    for name, args in steps:
        chosen = TOOL_REGISTRY[name]
        deps = CCAgentDeps(mode="stub", file_cache=files)
        try:
            if chosen.observe is not None:
                observed = await chosen.observe(deps, **args)
                deps.expected, deps.encoding = observed.state, observed.encoding
            told.texts.append(await chosen(deps, **args))
        except OrchestratorError as error:
            told.texts.append(str(error))
            continue
        told.before.append(dict(deps.expected or {}))
        told.after.append(deps.after)
    return told


def on_a_computer(items: list[AgentTaskItem]) -> Told:
    """The same of a task's journal."""
    told, started = Told(), {one.run_id: one for one in facts_of(items, facts.ToolStarted)}
    for item in items:
        match item.fact:
            case facts.RequestEnded(end="superseded", reason=reason):
                told.texts.append(reason)
            case facts.ToolFinished() as finished:
                told.texts.append(finished.text)
                if finished.ok:
                    told.before.append(started[finished.run_id].before)
                    told.after.append(finished.after)
            case _:
                pass
    return told


def on_disk(pc: Computer) -> dict[str, bytes]:
    """The files of a computer, but for what the game and the client have there."""
    files = {path.relative_to(pc.disk).as_posix(): path for path in pc.disk.rglob("*") if path.is_file()}
    ours = {name: path for name, path in files.items() if not name.startswith((".cc-", "startup", "rom/"))}
    return {name: path.read_bytes() for name, path in ours.items()}


def kept(server: Server) -> dict[str, bytes]:
    """What the server's store keeps by hash."""
    with closing(sqlite3.connect(f"file:{server.home}/orchestrator.db?mode=ro", uri=True)) as database:
        return dict(database.execute("SELECT sha256, content FROM blobs").fetchall())


def to_keep(items: list[AgentTaskItem], blobs: dict[str, bytes]) -> set[str]:
    """The hashes that an undo of the task needs: of what was changed, and of all that was in a directory."""
    wanted: set[str] = set()
    for started in facts_of(items, facts.ToolStarted):
        wanted |= set(started.before.values()) - {"absent"}
        for name in started.directories:
            lines = blobs[started.before[name]].decode("latin-1").splitlines()
            wanted |= {line.split("\0")[2] for line in lines} - {"-"}
    return wanted


@pytest.mark.thinned(2)
@pytest.mark.parametrize("story", thinned(STORIES, 2))
async def test_a_computer_and_a_dictionary_do_the_same(server: Server, tmp_path: Path, story: str) -> None:
    """Call by call the same words and the same hashes; at the end the same files; every old byte in the store."""
    steps = STORIES[story]
    texts = {path: data.decode("utf-8", "surrogateescape") for path, data in FILES.items()}
    async with computer(server, tmp_path) as pc:
        for path, data in FILES.items():
            pc.write(path, data)
        pc.boot()
        api = server.api()
        script = [tool(name, **args) for name, args in steps]
        items = await play(api, await api.submit(*script, final(), computers=(pc.name,)))
        check_laws(items)
        assert ended(items).status_reason in ("final", "unverified")
        live, stub = on_a_computer(items), await in_stub_mode(steps, texts)
        assert live.texts == stub.texts
        assert (live.before, live.after) == (stub.before, stub.after)
        assert on_disk(pc) == {
            path: text.encode("utf-8", "surrogateescape") for path, text in texts.items() if not path.endswith("/")
        }
    blobs = kept(server)
    assert {sha256: sha256_hex(blobs[sha256]) for sha256 in to_keep(items, blobs)} == {
        sha256: sha256 for sha256 in to_keep(items, blobs)
    }
    assert story == "looking" or to_keep(items, blobs)
    assert story != "more than one frame" or max(map(len, blobs.values())) > MAX_BODY_BYTES
