"""What the model finds out before it writes: facts, screens, peripherals, and programs that ask; over the real hub."""

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from orchestrator.core.errors import ToolFailed
from orchestrator.core.ports import CallResult
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.testing.stub_programs import StubPeripheral
from orchestrator.tools.deps import MAX_RESULT_CHARS, CCAgentDeps
from tests.harness.hub_server import HubServer, ToolClient, hub_server, observed, use
from tests.harness.support import Channel

QUIZ = b"print(read())\nprint(read())\n"


class Chest:
    """A chest with a little in it."""

    def __init__(self) -> None:
        self.pushed: list[tuple[Any, ...]] = []

    def contents(self) -> dict[str, Any]:
        return {"1": {"name": "minecraft:coal", "count": 3}, "9": {"name": "gr\u00c3\u00bcn", "count": 1}}

    def push(self, *args: Any) -> int:
        self.pushed.append(args)
        return 3

    def detail(self, slot: int) -> None:
        if slot > 27:
            raise ValueError("Slot out of range")

    @property
    def peripheral(self) -> StubPeripheral:
        methods: dict[str, Callable[..., Any]] = {
            "list": self.contents,
            "pushItems": self.push,
            "getItemDetail": self.detail,
            "size": lambda: (27, 0.5),
        }
        return StubPeripheral(("minecraft:chest", "inventory"), methods)


@pytest.fixture
async def server() -> AsyncIterator[HubServer]:
    async with hub_server() as opened:
        yield opened


@asynccontextmanager
async def computer(server: HubServer, **more: Any) -> AsyncIterator[tuple[CCAgentDeps, ToolClient]]:
    """A stub that is welcome, as tools reach it."""
    values: dict[str, Any] = {"files": {"quiz.lua": QUIZ}, "computer_id": 7, "label": "grün", **more}
    async with server.stub(**values):
        client = ToolClient(server)
        yield CCAgentDeps(mode="live", ws_client=client, computer="7"), client


# -- cc_info -----------------------------------------------------------------------------


async def test_info_reads_well(server: HubServer) -> None:
    """What it is, its disk, the world and its neighbours, a line each; names as the player wrote them."""
    chest = Chest()
    async with computer(server, peripherals={"left": chest.peripheral, "right": chest.peripheral}) as (deps, client):
        first, disk, world, *rest = (await use("cc_info", deps)).splitlines()
    assert first == "Computer 7 'grün', computer, stub"
    assert disk.startswith("Disk: ")
    assert disk.endswith(" of 1000000 bytes free.")
    assert world.startswith("World: day 1, 00:00. Up for ")
    assert rest == [
        "Peripherals:",
        "- left, right: minecraft:chest, inventory",
        "  methods: getItemDetail, list, pushItems, size",
    ]
    assert client.methods == ["info"]


async def test_info_of_a_turtle_tells_its_fuel_and_slots() -> None:
    """Slots, fuel and redstone come in one body with the peripherals, each entry by its own keys."""
    entries = [
        {"name": "top", "types": []},
        {"side": "back", "input": 15, "output": 0},
        {"slot": 1, "item": "minecraft:coal", "count": 64},
        {"slot": 16, "item": "minecraft:stick", "count": 2},
    ]
    data = {"free": -1, "capacity": -1, "uptime_s": 5, "day": 3, "time": 750, "fuel": 80, "fuel_limit": 20000}
    deps = answering("info", {**data, "selected": 2, "id": 8, "family": "turtle"}, entries)
    assert (await use("cc_info", deps)).splitlines() == [
        "Computer 8, turtle",
        "Disk: unlimited of unlimited bytes free.",
        "World: day 3, 12:30. Up for 5 s.",
        "Fuel: 80 of 20000. Selected slot: 2.",
        "Slots: 1: 64 minecraft:coal; 16: 2 minecraft:stick. The other 14 are empty.",
        "Redstone: back in 15, out 0.",
        "Peripherals:",
        "- top: unknown",
    ]


async def test_info_is_as_much_as_the_computer_says() -> None:
    """It names no neighbours and not what it is; nothing is made up."""
    data = {"free": 10, "capacity": 20, "uptime_s": 5, "day": 3, "time": 0, "fuel": -1}
    deps = answering("info", data, [])
    assert (await use("cc_info", deps)).splitlines() == [
        "Computer",
        "Disk: 10 of 20 bytes free.",
        "World: day 3, 00:00. Up for 5 s.",
        "Fuel: unlimited.",
        "Slots: all empty.",
        "Peripherals: none.",
    ]


async def test_info_is_capped() -> None:
    """A network of hundreds of kinds does not eat the model's window."""
    entries = [{"name": f"thing_{number}", "types": [f"kind_{number}"], "methods": ["x" * 50]} for number in range(900)]
    text = await use("cc_info", answering("info", FACTS, entries))
    assert re.search(r"\n\[lines \d+-\d+ left out\]\n", text)
    assert len(text) < MAX_RESULT_CHARS + 100


# -- cc_screen ---------------------------------------------------------------------------


async def test_a_screen_reads_well() -> None:
    """Its size and cursor, its rows, and where it is not white on black; the game's own signs are dots."""
    rows = [
        {"text": "Hi \x03\xfc  ", "fg": "0001000", "bg": "fffffff"},
        {"text": "       ", "fg": "0000000", "bg": "ffeefff"},
    ]
    deps = answering("screen", {"width": 7, "height": 3, "x": 2, "y": 1, "blink": True}, rows)
    assert (await use("cc_screen", deps)).splitlines() == [
        "The computer's own screen: 7 columns, 3 rows, cursor at column 2, row 1.",
        "Hi .ü",
        "",
        "[colours, where it is not white on black:]",
        "row 1, columns 4-4: orange on black",
        "row 2, columns 3-4: white on red",
    ]


async def test_a_screen_with_many_colours_names_some() -> None:
    """A picture is told by its first stretches, and by how many more there are."""
    rows = [{"text": "x" * 100, "fg": "1e" * 50, "bg": "f" * 100}]
    text = await use("cc_screen", answering("screen", {"width": 100, "height": 1, "x": 1, "y": 1}, rows))
    assert text.endswith("\n... and 60 more")


async def test_screens_of_a_program_and_of_a_monitor(server: HubServer) -> None:
    """What the last program showed, and what was drawn on a monitor; what cannot be seen is a sentence."""
    sign = StubPeripheral(("monitor",), screen=("WELCOME", "home"))
    async with computer(server, peripherals={"monitor_0": sign, "left": Chest().peripheral}) as (deps, _):
        assert (await use("cc_screen", deps)).endswith("\n(empty)")
        with pytest.raises(ToolFailed, match="nothing to see of the last program's screen"):
            await use("cc_screen", deps, of="program")
        await use("cc_run_program", deps, path="quiz.lua", input="a\nb\n")
        assert (await use("cc_screen", deps, of="program")).splitlines()[1:] == ["a", "b"]
        monitor = await use("cc_screen", deps, of="monitor_0")
        assert monitor.splitlines() == [
            "The monitor monitor_0: 7 columns, 2 rows, cursor at column 1, row 3.",
            "WELCOME",
            "home",
        ]
        with pytest.raises(ToolFailed, match="of the monitor left: A monitor cannot be read, and no program"):
            await use("cc_screen", deps, of="left")


# -- cc_peripheral_call ------------------------------------------------------------------


async def test_a_peripheral_is_called_and_what_it_returns_is_told(server: HubServer) -> None:
    """One value a line as JSON, byte strings as text; arguments arrive as they were given."""
    chest = Chest()
    async with computer(server, peripherals={"left": chest.peripheral}) as (deps, client):
        assert await use("cc_peripheral_call", deps, name="left", method="list") == (
            'left.list returned:\n{"1": {"name": "minecraft:coal", "count": 3}, "9": {"name": "grün", "count": 1}}'
        )
        assert await use("cc_peripheral_call", deps, name="left", method="size") == "left.size returned:\n27\n0.5"
        args = ["grün", 1, None, 0.5, {"full": True}]
        assert (await use("cc_peripheral_call", deps, name="left", method="pushItems", args=args)).endswith("\n3")
        nothing = await use("cc_peripheral_call", deps, name="left", method="getItemDetail", args=[1])
        assert nothing == "left.getItemDetail returned nothing."
        assert set(client.methods) == {"peripheral_call"}
    assert chest.pushed == [("gr\u00c3\u00bcn", 1, None, 0.5, {"full": True})]


@pytest.mark.parametrize(
    ("name", "method", "sentence"),
    [
        ("top", "list", "There is no peripheral top.list at the computer. cc_info lists them."),
        ("left", "burn", "The peripheral has no method left.burn. cc_info lists them."),
        ("left", "getItemDetail", "left.getItemDetail failed: Slot out of range"),
    ],
)
async def test_a_call_that_fails_says_why(server: HubServer, name: str, method: str, sentence: str) -> None:
    """What is not there and what the peripheral threw are sentences for the model."""
    async with computer(server, peripherals={"left": Chest().peripheral}) as (deps, _):
        with pytest.raises(ToolFailed) as failed:
            await use("cc_peripheral_call", deps, name=name, method=method, args=[99])
    assert str(failed.value) == sentence


async def test_a_reviewer_sees_what_the_peripheral_is(server: HubServer) -> None:
    """Before anybody is asked: its types; what cannot work is told to the model instead, with what there is."""
    async with computer(server, peripherals={"left": Chest().peripheral}) as (deps, _):
        seen = await observed("cc_peripheral_call", deps, name="left", method="pushItems", args=["right", 1])
        assert (seen.state, seen.program) == ({}, None)
        assert seen.note.startswith("left is: minecraft:chest, inventory.")
        with pytest.raises(ToolFailed, match=r"There is no peripheral top at the computer\. There are: left\."):
            await observed("cc_peripheral_call", deps, name="top", method="list")
        with pytest.raises(ToolFailed, match=r"left has no method burn\. Its methods: getItemDetail, list, pushItems"):
            await observed("cc_peripheral_call", deps, name="left", method="burn")
    async with computer(server) as (deps, _):
        with pytest.raises(ToolFailed, match="There are none"):
            await observed("cc_peripheral_call", deps, name="left", method="list")


async def test_long_lists_of_names_are_cut() -> None:
    """A refusal names at most forty."""
    entries = [{"name": f"chest_{number:03}", "types": [], "methods": []} for number in range(99)]
    with pytest.raises(ToolFailed, match="chest_039 and 59 more"):
        await observed("cc_peripheral_call", answering("info", FACTS, entries), name="left", method="list")


async def test_in_stub_mode_nothing_is_called() -> None:
    """The dictionary that plays a computer has no peripherals, and a screen with nothing on it."""
    deps = CCAgentDeps(mode="stub")
    assert "[stub: the peripheral was not called]" in await use(
        "cc_peripheral_call", deps, name="left", method="list", args=[1]
    )
    assert (await observed("cc_peripheral_call", deps, name="left", method="list")).note.startswith("Stub mode")
    assert (await use("cc_info", deps)).endswith("Peripherals: none.")
    assert (await use("cc_screen", deps)).endswith("(empty)")
    with pytest.raises(ToolFailed, match="nothing to see"):
        await use("cc_screen", deps, of="program")


@pytest.mark.parametrize("body", [b"{", b"7", b'{"a": 1}', b"[1]", b'[{"name": 3}]', b'[{"name": "x"}]'])
@pytest.mark.parametrize("tool", ["cc_info", "cc_peripheral_call"])
async def test_facts_that_cannot_be_read_are_an_error_of_the_tool(tool: str, body: bytes) -> None:
    """A computer that answers nonsense gets the model a sentence, never a traceback."""
    deps = answering("info", FACTS, body)
    asked = use(tool, deps) if tool == "cc_info" else observed(tool, deps, name="x", method="list")
    with pytest.raises(ToolFailed, match=r"cannot be read|has no method"):
        await asked


@pytest.mark.parametrize("body", [b"{", b"7", b"[1]", b'[{"text": 1, "fg": "", "bg": ""}]', b'[{"text": "x"}]'])
async def test_a_screen_that_cannot_be_read_is_an_error_of_the_tool(body: bytes) -> None:
    with pytest.raises(ToolFailed, match="cannot be read"):
        await use("cc_screen", answering("screen", {}, body))


async def test_what_a_peripheral_returned_and_cannot_be_read_is_an_error_of_the_tool() -> None:
    with pytest.raises(ToolFailed, match="cannot be read"):
        await use("cc_peripheral_call", answering("peripheral_call", {}, b"{"), name="left", method="list")


# -- programs that ask -------------------------------------------------------------------


async def test_a_program_is_typed_its_input(server: HubServer) -> None:
    """Each line is an answer, and what nobody read is said; without input nothing of it goes out."""
    async with computer(server, files={"quiz.lua": QUIZ, "nap.lua": b"sleep(9)\n"}) as (deps, client):
        told = await use("cc_run_program", deps, path="quiz.lua", input="yes\nno\nmore")
        assert told == (
            "Program quiz.lua executed successfully.\nOutput:\nyes\nno\n\n[4 bytes of the input were not read]"
        )
        assert await use("cc_shell", deps, command="quiz", input="1\r\n2\r\n") == (
            "Command quiz executed successfully.\nOutput:\n1\n2\n"
        )
        deps.timeout_s = 1
        told = await use("cc_run_program", deps, path="quiz.lua", input="yes\n")
        assert "It waits for more typed input: add a line to input." in told
        told = await use("cc_run_program", deps, path="quiz.lua")
        assert "It waits for a line to be typed: give that as input." in told
        told = await use("cc_run_program", deps, path="nap.lua", input="not")
        assert "It sleeps (timer). 3 bytes of the input were not read." in told
        assert await use("cc_run_program", deps, path="quiz.lua", input="yes\nnot") == (
            "Program quiz.lua executed successfully.\nOutput:\nyes\nnot\n"
        )
        assert client.methods.count("run_program") == 5


async def test_input_travels_behind_the_words() -> None:
    """Its bytes are those of the game's keyboard, one for a character, and the header says how many."""
    channel = Channel()
    channel.disk.files["a"] = b"x"
    deps = CCAgentDeps(mode="live", ws_client=channel, computer="3", expected={"a": sha256_hex(b"x")})
    await use("cc_run_program", deps, path="a", args=["ü"], input="grün\n")
    (run,) = channel.frames
    assert run.params["input_size"] == 5
    assert run.body == json.dumps(["\u00c3\u00bc"]).encode() + b"gr\xfcn\n"


@pytest.mark.parametrize(
    ("tool", "args"), [("cc_run_program", {"path": "quiz.lua"}), ("cc_shell", {"command": "quiz"})]
)
async def test_what_no_keyboard_of_the_game_has_is_refused_before_anybody_is_asked(
    server: HubServer, tool: str, args: dict[str, Any]
) -> None:
    async with computer(server) as (deps, client):
        for text in ("5 €", "a\x1b[0m", "\x00", "\x7f"):
            with pytest.raises(ToolFailed, match="cannot be typed"):
                await observed(tool, deps, **args, input=text)
        assert client.methods == []
        assert (await observed(tool, deps, **args, input="ok\n")).program == "quiz.lua"


# -- a computer that answers ---------------------------------------------------------------

FACTS = {"free": 1, "capacity": 2, "uptime_s": 3, "day": 4, "time": 5}


def answering(method: str, data: Mapping[str, Any], body: Any) -> CCAgentDeps:
    """A computer that answers one method so."""
    channel = Channel()
    channel.answers[method] = CallResult(dict(data), body if isinstance(body, bytes) else json.dumps(body).encode())
    return CCAgentDeps(mode="live", ws_client=channel, computer="3")
