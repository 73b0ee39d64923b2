"""Lua that is about to be written: it parses, or nobody is asked; names that the computer does not have are told."""

from typing import Any

import pytest

from orchestrator.core.errors import ToolFailed
from orchestrator.core.ports import CallResult
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.tools.computer.commands import first_fault
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.tools.registry import TOOL_REGISTRY
from tests.engine.test_actor import FARM, Bench, gave_up, rules
from tests.harness.support import Channel, Disk, Listening, call, final, says

BROKEN, WHOLE = "print('a'\n", "print('a')\n"
CUT = "print("
"""What a grammar makes of an unescaped quote in a reply."""
BEFORE_GOTO, NEW = "ComputerCraft 1.95.0 (Minecraft 1.16.5)", "ComputerCraft 1.116.1 (Minecraft 1.21.1)"


def on(host: str = "", family: str = "", **files: str) -> CCAgentDeps:
    """A computer that is a dictionary; ``a_lua`` is its file a.lua."""
    cache = {name.replace("_", "."): text for name, text in files.items()}
    return CCAgentDeps(mode="stub", host=host, family=family, file_cache=cache)


async def shown(tool: str, deps: CCAgentDeps, **args: Any) -> str:
    """What a reviewer reads beside the diff."""
    observe = TOOL_REGISTRY[tool].observe
    assert observe is not None
    return (await observe(deps, **args)).note


async def refused(tool: str, deps: CCAgentDeps, **args: Any) -> str:
    """The sentence with which both the look before the proposal and the tool itself say no."""
    before = dict(deps.file_cache)
    with pytest.raises(ToolFailed) as proposed:
        await shown(tool, deps, **args)
    with pytest.raises(ToolFailed) as done:
        await TOOL_REGISTRY[tool](deps, **args)
    assert str(done.value) == str(proposed.value)
    assert (done.value.remedy, deps.file_cache) == ("Nothing was written. Send it fixed.", before)
    assert len(str(done.value)) <= 400
    return str(done.value)


# -- a write -----------------------------------------------------------------------------


AT_BOOT = ["startup", "/startup", "STARTUP", "startup/farm.lua", "startup/10-farm", "disk/startup", "disk2/startup/a"]


@pytest.mark.parametrize("path", ["a.lua", "/lib/a.lua", "A.LUA", *AT_BOOT])
async def test_a_program_that_does_not_parse_is_not_written(path: str) -> None:
    """A name with .lua is one, in letters of either case, and so is what is run at boot without it."""
    said = await refused("cc_write", on(), path=path, content=BROKEN)
    assert said.startswith(f"This is not Lua that runs: {path.strip('/')}:2: ')' expected (to close '(' at line 1)")


@pytest.mark.parametrize("path", ["a.txt", "a.lua.bak", "lua", "lib/startup", "startup/read.me", "a.luac"])
async def test_what_is_no_program_is_written_as_it_is(path: str) -> None:
    """Only what is run at boot is a program without .lua."""
    deps = on()
    assert await TOOL_REGISTRY["cc_write"](deps, path=path, content=BROKEN) == f"Wrote {len(BROKEN)} bytes to {path}"
    assert deps.file_cache == {path: BROKEN}


async def test_a_program_that_was_cut_at_a_quote_is_told_what_to_do() -> None:
    assert "single quotes or [[ ]]" in await refused("cc_write", on(), path="a.lua", content=CUT)


@pytest.mark.parametrize("content", ["", "-- nothing yet\n", "#!lua\nprint(1)\n", "return { 1, 2 }"])
async def test_an_empty_program_and_a_table_are_programs(content: str) -> None:
    deps = on()
    assert await shown("cc_write", deps, path="a.lua", content=content) == "A new file."
    await TOOL_REGISTRY["cc_write"](deps, path="a.lua", content=content)
    assert deps.file_cache == {"a.lua": content}


async def test_a_long_program_is_looked_through_to_its_end() -> None:
    """Away from the event loop, and with the same words."""
    lines = "print('a line of a long program')\n" * 2000
    said = await refused("cc_write", on(), path="a.lua", content=lines + BROKEN)
    assert said.startswith("This is not Lua that runs: a.lua:2002: ")
    assert await shown("cc_write", on(), path="a.lua", content=f"{lines}prnt()\n") == (
        "A new file. line 2001: prnt does not exist (did you mean print?)."
    )


async def test_the_lua_is_that_of_the_computer() -> None:
    """``goto`` came with 1.109; a computer that does not say is not refused what some have."""
    program = {"path": "a.lua", "content": "goto out\n::out::\n"}
    assert "is older than 1.109 and has no goto" in await refused("cc_write", on(BEFORE_GOTO), **program)
    for host in (NEW, ""):
        assert await shown("cc_write", on(host), **program) == "A new file."


# -- an edit -----------------------------------------------------------------------------


async def test_an_edit_that_breaks_a_program_is_not_made() -> None:
    said = await refused("cc_edit", on(a_lua=WHOLE), path="a.lua", old="')", new="'")
    assert said.startswith("This is not Lua that runs: a.lua:2: ")


async def test_an_edit_of_the_startup_file_without_a_suffix_must_parse_too() -> None:
    said = await refused("cc_edit", on(startup=WHOLE), path="startup", old="')", new="'")
    assert said.startswith("This is not Lua that runs: startup:2: ")


async def test_an_edit_of_another_file_is_made() -> None:
    deps = on(a_txt=WHOLE)
    await TOOL_REGISTRY["cc_edit"](deps, path="a.txt", old="')", new="'")
    assert deps.file_cache == {"a.txt": BROKEN}


async def test_a_program_that_was_broken_before_may_be_mended_step_by_step() -> None:
    """What is still wrong with it is told to the reviewer, as long as there is something."""
    deps = on(a_lua="print('a'\nif x then\n")
    first, second = {"old": "'a'", "new": "'a')"}, {"old": "x then\n", "new": "x then end\n"}
    note = await shown("cc_edit", deps, path="a.lua", **first)
    assert note.startswith("It does not parse yet: a.lua:3: 'end' expected (to close 'if' at line 2)")
    await TOOL_REGISTRY["cc_edit"](deps, path="a.lua", **first)
    assert deps.file_cache == {"a.lua": "print('a')\nif x then\n"}
    assert await shown("cc_edit", deps, path="a.lua", **second) == ""
    await TOOL_REGISTRY["cc_edit"](deps, path="a.lua", **second)
    assert deps.file_cache == {"a.lua": "print('a')\nif x then end\n"}


async def test_a_program_that_is_whole_again_may_not_be_broken_again() -> None:
    deps = on(a_lua=BROKEN)
    await TOOL_REGISTRY["cc_edit"](deps, path="a.lua", old="'a'", new="'a')")
    await refused("cc_edit", deps, path="a.lua", old="'a')", new="'a'")


async def test_a_program_in_latin_1_is_read_as_it_is() -> None:
    """Its bytes are no UTF-8, and its Lua is whole all the same."""
    disk = Disk({"a.lua": "print('gr\xfcn')\n".encode("latin-1")})
    deps = CCAgentDeps(ws_client=Channel(disk), computer="3")
    assert await shown("cc_edit", deps, path="a.lua", old="print", new="prnt") == (
        "line 1: prnt does not exist (did you mean print?)."
    )
    with pytest.raises(ToolFailed, match=r"This is not Lua that runs: a\.lua:2: "):
        await shown("cc_edit", deps, path="a.lua", old="')", new="'")


# -- names that the computer does not have -----------------------------------------------


@pytest.mark.parametrize(
    ("host", "family", "content", "flag"),
    [
        (NEW, "advanced", "turtle.dig()", "turtle does not exist (only on turtles; this is an advanced computer)."),
        (NEW, "turtle", "turtle.dig()", ""),
        (NEW, "", "turtle.dig()", ""),
        (NEW, "turtle", "pocket.equipBack()", "pocket does not exist (only on pocket computers; this is a turtle)."),
        (NEW, "computer", "turtle.digg()", "turtle does not exist (only on turtles; this is a basic computer)."),
        (NEW, "turtle", "turtle.digg()", "turtle.digg does not exist (did you mean turtle.dig?)."),
        (
            BEFORE_GOTO,
            "computer",
            "print(peripheral.hasType('left', 'chest'))",
            "peripheral.hasType does not exist (only from version 1.99.0 on; this computer has 1.95.0).",
        ),
        (NEW, "computer", "print(peripheral.hasType('left', 'chest'))", ""),
        ("", "computer", "print(peripheral.hasType('left', 'chest'))", ""),
    ],
)
async def test_an_unknown_name_is_told_in_the_result_and_to_the_reviewer(
    host: str, family: str, content: str, flag: str
) -> None:
    """By version and family of the computer; what it does not say about itself is no reason for a flag."""
    deps = on(host, family)
    told = f" line 1: {flag}" if flag else ""
    assert await shown("cc_write", deps, path="a.lua", content=content) == f"A new file.{told}"
    result = await TOOL_REGISTRY["cc_write"](deps, path="a.lua", content=content)
    assert result == f"Wrote {len(content)} bytes to a.lua" + (f"\nline 1: {flag}" if flag else "")
    assert deps.file_cache == {"a.lua": content}, "a flag is a word beside it and no refusal"


async def test_three_names_are_told_and_the_rest_is_counted() -> None:
    """In the order of the lines."""
    three = "banana()\ncherry()\npapaya()\n"
    said = "line 1: banana does not exist. line 2: cherry does not exist. line 3: papaya does not exist."
    assert await shown("cc_write", on(), path="a.lua", content=three) == f"A new file. {said}"
    assert await shown("cc_write", on(), path="a.lua", content=f"{three}mango()\nwalnut()\n") == (
        f"A new file. {said} And 2 more names."
    )


async def test_an_edit_tells_the_names_of_the_whole_file() -> None:
    """Beside its result, as a write does."""
    deps = on(a_lua="banana()\nprint(1)\n")
    said = await TOOL_REGISTRY["cc_edit"](deps, path="a.lua", old="print", new="prnt")
    flags = "line 1: banana does not exist. line 2: prnt does not exist (did you mean print?)."
    assert said == f"Edited a.lua: 5 bytes became 4\n{flags}"


async def test_a_text_that_is_no_program_has_no_unknown_names() -> None:
    assert await shown("cc_write", on(), path="a.txt", content="banana()") == "A new file."


async def test_a_file_that_has_this_very_text_is_flagged_all_the_same() -> None:
    said = await shown("cc_write", on(a_lua="banana()\n"), path="a.lua", content="banana()\n")
    assert said == "The file has this very text already. line 1: banana does not exist."


async def test_a_program_is_read_once_for_its_request_and_its_write() -> None:
    """The second look at the same text costs no second parse; another computer's Lua is another question."""
    text = "print('read once')\nbanana()\n"
    before = first_fault.cache_info().misses
    await shown("cc_write", on(NEW), path="a.lua", content=text)
    await TOOL_REGISTRY["cc_write"](on(NEW), path="a.lua", content=text)
    assert first_fault.cache_info().misses == before + 1
    await shown("cc_write", on(BEFORE_GOTO), path="a.lua", content=text)
    assert first_fault.cache_info().misses == before + 2


# -- in a task ---------------------------------------------------------------------------


async def played(bench: Bench) -> AgentTask:
    await bench.submit()
    return await bench.act()


async def test_a_program_that_does_not_parse_never_comes_before_a_person() -> None:
    """It is superseded, the model is told the line, nothing was sent, and what it sends then is asked."""
    mended = call("cc_write", path="a.lua", content=WHOLE)
    model = Listening(says(call("cc_write", path="a.lua", content=BROKEN)), says(mended), final())
    bench = Bench(model)
    task = await played(bench)
    assert task.request is not None
    (ended,) = await bench.happened(task.task_id, "request_ended")
    assert (ended.request_id, ended.end) == (None, "superseded")
    assert "This is not Lua that runs: a.lua:2: ')' expected" in ended.reason
    assert "This is not Lua that runs: a.lua:2: ')' expected" in model.told
    assert bench.disk.done == []
    (requested,) = await bench.happened(task.task_id, "review_requested")
    assert WHOLE.strip() in requested.calls[0].observed.diff


async def test_a_policy_that_allows_everything_allows_no_broken_program() -> None:
    """No rule is asked about what can be no program."""
    script = [says(call("cc_write", path="a.lua", content=BROKEN)), final("cannot", success=False)]
    bench = Bench(Listening(*script), policy=rules())
    assert gave_up(await played(bench))
    assert bench.disk.files == {"a.lua": b"old\n"}
    assert not bench.computers.sent("fs_write")


@pytest.mark.parametrize(
    "change",
    [
        call("cc_write", path="a.lua", content="turtle.dig()\n"),
        call("cc_edit", path="a.lua", old="old", new="turtle.dig()"),
    ],
)
async def test_reviewer_and_model_read_of_a_name_that_this_family_does_not_have(change: dict[str, Any]) -> None:
    model = Listening(says(change), final())
    bench = Bench(model)
    bench.computers.families[FARM] = "computer"
    flag = "line 1: turtle does not exist (only on turtles; this is a basic computer)."
    task = await played(bench)
    (requested,) = await bench.happened(task.task_id, "review_requested")
    assert flag in requested.calls[0].observed.note
    await bench.decide(task)
    await bench.act()
    assert flag in model.told
    assert bench.disk.files == {"a.lua": b"turtle.dig()\n"}


async def test_what_reached_the_disk_is_what_was_looked_through() -> None:
    """To the byte: no line end was added, and none was changed."""
    channel = Channel(Disk({}), {"fs_stat": CallResult({"kind": "absent", "path": "a.lua", "sha256": "absent"})})
    deps = CCAgentDeps(ws_client=channel, computer="3", expected={"a.lua": "absent"})
    content = "print(1)\r\nprint('gr\xfcn')"
    await TOOL_REGISTRY["cc_write"](deps, path="a.lua", content=content)
    assert channel.disk.hash("a.lua") == sha256_hex(content.encode())
