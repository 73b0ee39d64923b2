"""What stands around a simulated computer: inventories, monitors, a network, redstone, and a turtle's blocks."""

import json
from pathlib import Path
from typing import Any

import pytest

from cc_client.simulator.world.reading import NoWorld, read_world
from tests.harness.simulating import playing, printed

CHESTS = (
    "--peripheral=left=minecraft:chest,size=3,1=minecraft:coal*60,2=minecraft:stone",
    "--peripheral=top=minecraft:barrel,1=minecraft:coal*10",
)
NETWORK = (
    "--peripheral=minecraft:barrel_0=minecraft:barrel,2=minecraft:stick",
    "--peripheral=monitor_1=monitor,width=10,height=4",
)


async def test_inventories_list_and_move_what_they_hold(tmp_path: Path) -> None:
    source = """
    local chest = peripheral.wrap("left")
    print(chest.size(), chest.list()[1].name, chest.list()[1].count, chest.list()[3])
    print(chest.getItemDetail(2).displayName, chest.getItemDetail(3), pcall(chest.getItemDetail, 4))
    print(chest.pushItems("top", 1, 20), chest.pullItems("top", 1, 5, 3), chest.list()[3].count)
    print(pcall(chest.pushItems, "bottom", 1))
    print(pcall(chest.pushItems, "top", 9))
    print(pcall(peripheral.call, "left", "eat"))
    """
    said = await printed(tmp_path, source, *CHESTS)
    assert said[0] == "3 minecraft:coal 60 nil"
    assert said[1].startswith("Stone nil false")
    assert said[1].endswith("Slot out of range (expected 4 to be within 1 and 3)")
    assert said[2] == "20 5 5"
    assert said[3].endswith("Target 'bottom' does not exist")
    assert said[4].endswith("From slot out of range (expected 9 to be within 1 and 3)")
    assert said[5].endswith("No such method eat")


async def test_peripherals_have_names_types_and_methods(tmp_path: Path) -> None:
    source = """
    print(table.concat(peripheral.getNames(), " "))
    print(peripheral.getType("left"), peripheral.hasType("left", "inventory"), peripheral.hasType("none", "x"))
    print(peripheral.getType("minecraft:barrel_0"), peripheral.isPresent("minecraft:barrel_0"))
    print(table.concat(peripheral.getMethods("left"), " "), peripheral.getMethods("none"))
    print(peripheral.call("minecraft:barrel_0", "getItemDetail", 2).name, peripheral.call("none", "x"))
    local a, b = peripheral.find("inventory") print(peripheral.getName(a), peripheral.getName(b))
    local barrel = peripheral.wrap("minecraft:barrel_0") print(barrel.size(), pcall(barrel.pushItems, "left", 2))
    print(peripheral.find("speaker").playNote("harp"), peripheral.find("modem").isWireless())
    """
    speaker = "--peripheral=right=speaker"
    said = await printed(tmp_path, source, CHESTS[0], *NETWORK, speaker)
    assert said[:6] == [
        "back minecraft:barrel_0 monitor_1 right left",
        "minecraft:chest true nil",
        "minecraft:barrel true",
        "getItemDetail getItemLimit list pullItems pushItems size nil",
        "minecraft:stick",
        "minecraft:barrel_0 left",
    ]
    # What is on the network sees only the network.
    assert said[6].endswith("Target 'left' does not exist")
    assert said[7] == "true false"


async def test_a_peripheral_comes_and_goes_and_a_slow_call_takes_a_tick(tmp_path: Path) -> None:
    source = """
    term.write("READY ")
    print(os.pullEvent("peripheral"))
    local before = os.clock()
    print(peripheral.call("left", "size"), os.clock() > before)
    term.write("AGAIN ")
    print(os.pullEvent("peripheral_detach"))
    print(peripheral.isPresent("left"))
    """
    (tmp_path / "p.lua").write_text(source)
    async with playing(tmp_path, "--type=p") as player:
        await player.see("READY")
        await player.do("attach left=minecraft:chest,size=54")
        await player.see("AGAIN")
        await player.do("detach left")
        screen = await player.see("false")
    assert "peripheral?left" in screen
    assert "54?true" in screen
    assert "peripheral_detach?left" in screen


async def test_a_program_runs_on_a_monitor_that_is_touched(tmp_path: Path) -> None:
    source = "print('page one') term.native().write('READY') print(select(2, os.pullEvent('monitor_touch')))"
    (tmp_path / "p.lua").write_text(source)
    async with playing(tmp_path, "--type=monitor monitor_1 p", "--family=computer", *NETWORK) as player:
        await player.see("READY")
        assert await player.do("monitor monitor_1") == ["page one", "", "", ""]
        await player.do("touch monitor_1 3 2")
        await player.do("type id")
        await player.see("This is computer #0")
        assert (await player.do("monitor monitor_1"))[1].startswith("monitor_1")
        assert await player.ask("touch left 1 1") == "error: left is no monitor"


async def test_redstone_goes_in_and_out(tmp_path: Path) -> None:
    source = """
    print(redstone.getInput("front"), redstone.getAnalogInput("front"), rs.getOutput("back"))
    redstone.setOutput("back", true)
    redstone.setAnalogOutput("left", 4)
    term.write("READY ")
    os.pullEvent("redstone")
    print(redstone.getAnalogInput("top"), redstone.getOutput("back"), redstone.getAnalogOutput("left"))
    print((pcall(redstone.getInput, "inside")))
    """
    (tmp_path / "world.json").write_text(json.dumps({"redstone": {"front": 7}}))
    (tmp_path / "p.lua").write_text(source)
    async with playing(tmp_path, "--type=p", f"--world={tmp_path / 'world.json'}") as player:
        await player.see("READY")
        assert [await player.do(f"get redstone {side}") for side in ("back", "left", "top")] == [15, 4, 0]
        await player.do("set redstone top 9")
        screen = await player.see("9?true?4")
        assert "true?7?false" in screen
        assert (await player.ask("set redstone top 16")).startswith("error: say a side")


WORLD: dict[str, Any] = {
    "blocks": {
        "0,64,-2": "minecraft:stone",
        "0,65,-1": "minecraft:bedrock",
        "0,63,-1": {"name": "minecraft:chest", "items": {"1": "minecraft:coal*3"}},
    },
    "turtle": {"fuel": 2, "items": {"1": "minecraft:dirt*2"}},
}


async def turtle(tmp_path: Path, source: str, **changes: Any) -> list[str]:
    """What a program prints on a turtle."""
    (tmp_path / "world.json").write_text(json.dumps(WORLD | changes))
    return await printed(tmp_path, source, "--family=advanced-turtle", f"--world={tmp_path / 'world.json'}")


async def test_a_turtle_moves_digs_and_places(tmp_path: Path) -> None:
    source = """
    print(turtle.forward(), turtle.getFuelLevel())
    print(turtle.forward())
    print(turtle.detect(), select(2, turtle.inspect()).name, select(2, turtle.inspectUp()).name)
    print(turtle.dig(), turtle.dig())
    print(turtle.digUp())
    print(turtle.getItemDetail(2).name, turtle.getItemCount(1), turtle.getItemSpace(1))
    print(turtle.place(), turtle.compare(), turtle.place())
    print(turtle.turnLeft(), turtle.forward(), turtle.getFuelLevel())
    print(turtle.forward())
    """
    assert await turtle(tmp_path, source) == [
        "true 1",
        "false Movement obstructed",
        "true minecraft:stone minecraft:bedrock",
        "true false Nothing to dig here",
        "false Cannot break unbreakable block",
        "minecraft:stone 2 62",
        "true true false Cannot place block here",
        "true true 0",
        "false Out of fuel",
    ]


async def test_a_turtle_takes_gives_and_burns(tmp_path: Path) -> None:
    source = """
    turtle.forward()
    print(turtle.select(3), turtle.suckDown(2), turtle.getItemCount(), turtle.suck())
    print(turtle.refuel(1), turtle.getFuelLevel(), turtle.getSelectedSlot(), turtle.getFuelLimit())
    print(turtle.dropDown(), turtle.getItemCount(3), turtle.dropDown())
    turtle.select(1) print(turtle.refuel())
    print(turtle.transferTo(4, 1), turtle.compareTo(4), turtle.getItemCount(4))
    print(peripheral.getType("bottom"), peripheral.call("bottom", "list")[1].count, peripheral.isPresent("front"))
    print(turtle.drop(1), turtle.suck(), turtle.attack())
    print(pcall(turtle.select, 17))
    print(pcall(turtle.drop, 65))
    print((pcall(turtle.suck, "x")))
    """
    said = await turtle(tmp_path, source, blocks={"0,63,-1": WORLD["blocks"]["0,63,-1"]})
    assert said[:7] == [
        "true true 2 false No items to take",
        "true 81 3 20000",
        "true 0 false No items to drop",
        "false Items not combustible",
        "true true 1",
        "minecraft:chest 2 false",
        "true true false Nothing to attack here",
    ]
    assert said[7].endswith("Slot number 17 out of range")
    assert said[8].endswith("Item count 65 out of range")
    assert said[9] == "false"


async def test_commands_of_a_turtle_take_ticks_and_lose_no_other_events(tmp_path: Path) -> None:
    source = """
    local began, seen = os.clock(), 0
    parallel.waitForAny(function() turtle.turnLeft() turtle.turnRight() end, function()
      while true do os.pullEvent("timer") seen = seen + 1 os.startTimer(0.05) end
    end, function() os.startTimer(0.05) while true do os.pullEvent("never") end end)
    print(os.clock() - began >= 0.75, seen > 3)
    """
    assert await turtle(tmp_path, source) == ["true true"]


async def test_the_world_changes_around_a_turtle(tmp_path: Path) -> None:
    (tmp_path / "p.lua").write_text("repeat until turtle.detect() print('A WALL') turtle.turnRight() print('TURNED')")
    async with playing(tmp_path, "--type=p", "--family=turtle") as player:
        await player.do("set block 0,64,-1 minecraft:stone")
        await player.see("TURNED")
        assert await player.do("get turtle") == {"position": [0, 64, 0], "facing": "east", "fuel": 1000, "items": {}}
        assert await player.do("get block 0,64,-1") == "minecraft:stone"
        await player.do("set block 0,64,-1 air")
        assert await player.do("get block 0,64,-1") == "air"


async def test_other_families_have_their_apis(tmp_path: Path) -> None:
    probe = "print(turtle ~= nil, pocket ~= nil, commands ~= nil)"
    assert await printed(tmp_path, probe, "--family=advanced") == ["false false false"]
    assert await printed(tmp_path, probe, "--family=pocket") == ["false true false"]
    assert await printed(tmp_path, probe + " print((commands.exec('say hi')))", "--family=command") == [
        "false false true",
        "false",
    ]


def test_a_world_with_a_slip_is_refused(tmp_path: Path) -> None:
    """A part that nobody knows would be missing without a word."""
    path = tmp_path / "world.json"
    path.write_text('{"turtel": {"fuel": 4}}')
    told = r"'turtel' is no part of a world; its parts are blocks, turtle, peripherals, redstone\."
    with pytest.raises(NoWorld, match=told):
        read_world(path, [], turtle=True)
