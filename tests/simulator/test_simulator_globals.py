"""The parts of Lua and of the game's older APIs that programs still use on a simulated computer."""

from pathlib import Path

from tests.harness.simulating import playing, printed


async def test_files_are_read_and_written_as_lua_does_it(tmp_path: Path) -> None:
    source = """
    local file = io.open("f", "w")
    print(io.type(file), file:write("one\\n", 2, "\\nthree") == file, file:close(), io.type(file), io.type({}))
    for line in io.lines("f") do print(line) end
    local again = io.open("f")
    print(again:read("*l", "*n", "a"))
    print(again:read(), again:seek("set", 1), again:read(2), again:read("L") == "\\n", again:close())
    print(pcall(again.read, again))
    print(io.open("none"))
    print(pcall(io.lines, "none"))
    local more = io.open("f", "ab") more:write("!") more:close()
    io.input("f") print(io.read("a")) io.input():close()
    """
    said = await printed(tmp_path, source)
    assert said[:6] == ["file true true closed file nil", "one", "2", "three", "one 2 three", "nil 1 ne true true"]
    assert said[6].endswith("attempt to use a closed file")
    assert said[7] == "nil /none: No such file"
    assert said[8].endswith("/none: No such file")
    assert said[9:] == ["one", "2", "three!"]


async def test_the_standard_files_are_the_screen_and_the_keyboard(tmp_path: Path) -> None:
    (tmp_path / "p.lua").write_text('io.write("name? ") local name = io.read() io.stdout:write("hi ", name, "\\n")')
    async with playing(tmp_path, "--type=p", "--type=you") as player:
        assert "name? you\nhi you" in await player.see("hi you")


async def test_vectors_are_added_turned_and_measured(tmp_path: Path) -> None:
    source = """
    local a, b = vector.new(1, 2, 3), vector.new(4, 5, 6)
    print(a + b, b - a, a * 2, 2 * a, b / 2, -a, a == vector.new(1, 2, 3), a == b)
    print(a:dot(b), a:cross(b), vector.new(3, 4, 0):length(), vector.new(0, 5, 0):normalize())
    print(vector.new(1.4, 1.5, -1.5):round(), vector.new(1.4, 2.6, 0):round(0.5), vector.new())
    """
    assert await printed(tmp_path, source) == [
        "5,7,9 3,3,3 2,4,6 2,4,6 2,2.5,3 -1,-2,-3 true false",
        "32 -3,6,-3 5 0,1,0",
        "1,2,-1 1.5,2.5,0 0,0,0",
    ]


async def test_bits_have_their_old_names(tmp_path: Path) -> None:
    source = """
    print(bit.band(6, 3), bit.bor(6, 3), bit.bxor(6, 3), bit.bnot(0), bit.blshift(1, 4))
    print(bit.brshift(0x80000000, 31), bit.blogic_rshift(0x80000000, 31))
    """
    assert await printed(tmp_path, source) == ["2 7 5 4294967295 16", "4294967295 1"]


async def test_an_api_is_loaded_from_a_file_and_goes_again(tmp_path: Path) -> None:
    (tmp_path / "farm.lua").write_text("local hidden = 3 function count() return hidden end _private = print")
    (tmp_path / "bad").write_text("error('no')")
    source = """
    print(os.loadAPI("farm.lua"), farm.count(), count, farm.print) os.unloadAPI("farm") print(farm)
    term.redirect(term.native()) print(os.loadAPI("bad"), bad, os.loadAPI("none"))
    """
    assert await printed(tmp_path, source) == ["true 3 nil nil", "nil", "false nil false"]
