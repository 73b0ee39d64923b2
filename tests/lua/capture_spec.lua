local Capture = require("capture")
local computer = require("computer")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local function captured(body)
  computer.new()
  dofile("cc_client/simulator/rom/apis/text.lua")
  local capture = Capture.new()
  local previous = term.redirect(capture.terminal)
  body()
  term.redirect(previous)
  return capture:text()
end

describe("capture", function()
  it("makes lines of print and write", function()
    expect(captured(function()
      print("one", 2)
      write("a")
      print()
      print()
      write("end")
    end)).to_be("one\t2\na\n\nend")
  end)

  it("takes a row that is drawn again for one line, as read draws it for each key", function()
    local text = captured(function()
      term.write("Name? ")
      local typed = ""
      for char in ("Eve X"):gmatch(".") do
        term.setCursorPos(7, 1)
        term.write((" "):rep(#typed))
        typed = typed .. char
        term.setCursorPos(7, 1)
        term.write(typed)
      end
      print()
      term.write("10%")
      term.setCursorPos(1, 2)
      term.write("10%")
      term.setCursorPos(1, 2)
      term.write("20%")
    end)
    expect(text).to_be("Name? Eve X\n10%\n20%")
  end)

  it("goes on after the last row", function()
    local text = captured(function()
      for line = 1, 200 do
        print(line)
      end
    end)
    local lines = {}
    for line = 1, 200 do
      lines[line] = line .. "\n"
    end
    expect(text).to_be(table.concat(lines))
  end)

  it("keeps columns apart and takes anything for text", function()
    expect(captured(function()
      term.setCursorPos(5, 1)
      term.write(12)
      term.setCursorPos(1, 1)
      term.blit("xy", "00", "ff")
    end)).to_be("    12\nxy")
  end)

  it("keeps head and tail, and counts and marks what was cut", function()
    local text, cut = captured(function()
      for _ = 1, 1000 do
        term.write(("x"):rep(99))
        term.setCursorPos(1, 2)
        term.scroll(1)
      end
    end)
    expect(cut > 0).to_be(true)
    expect(#text <= 33000).to_be(true)
    expect(text).to_contain("[... " .. cut .. " bytes left out ...]")
    expect(#text:gsub("\n%[%.%.%. %d+ bytes left out %.%.%.%]\n", "") + cut >= 99000).to_be(true)
  end)

  it("bounds what one wild call can add", function()
    local text = captured(function()
      term.scroll(1e9)
      term.setCursorPos(1e9, 1)
      term.write("x")
    end)
    expect(#text < 1000).to_be(true)
  end)

  --- The rows of the screen after a program has drawn, without the blank ones at the end.
  local function drawn(body)
    computer.new()
    local capture = Capture.new()
    local previous = term.redirect(capture.terminal)
    body()
    term.redirect(previous)
    local screen = capture:screen()
    while #screen.rows > 0 and not screen.rows[#screen.rows][1]:find("[^ ]") do
      screen.rows[#screen.rows] = nil
    end
    for index, row in ipairs(screen.rows) do
      expect({ #row[1], #row[2], #row[3] }).to_be({ 200, 200, 200 })
      screen.rows[index] = row[1]:gsub("%s+$", "")
    end
    return screen
  end

  it("shows what stands on the screen, later writing over earlier", function()
    local screen = drawn(function()
      term.setCursorPos(3, 2)
      term.write("abcdef")
      term.setCursorPos(5, 2)
      term.write("XY")
      term.setCursorPos(-1, 1)
      term.write("cut here")
      term.setCursorPos(199, 3)
      term.write("end of the row")
      term.setCursorPos(-300, 4)
      term.write(("-"):rep(301) .. ("+"):rep(300))
    end)
    expect(screen.rows[1]).to_be("t here")
    expect(screen.rows[2]).to_be("  abXYef")
    expect(screen.rows[3]).to_be((" "):rep(198) .. "en")
    expect(screen.rows[4]).to_be(("+"):rep(200))
  end)

  it("scrolls both ways, and clears", function()
    local function rows(count)
      return drawn(function()
        for y = 1, 50 do
          term.setCursorPos(1, y)
          term.write("row " .. y)
          term.write(("."):rep(3))
        end
        for _ = 1, math.abs(count) do
          term.scroll(count > 0 and 1 or -1)
        end
      end).rows
    end
    expect(rows(1)[1]).to_be("row 2...")
    expect(#rows(1)).to_be(49)
    expect(rows(60)).to_be({})
    expect(rows(-2)[3]).to_be("row 1...")
    expect(#rows(-2)).to_be(50)
    expect(drawn(function()
      term.write("gone")
      term.clear()
      term.setCursorPos(1, 2)
      term.write("gone")
      term.clearLine()
    end).rows).to_be({})
  end)

  it("keeps colours, of several the highest, and refuses what is none", function()
    computer.new()
    local capture = Capture.new()
    local terminal = capture.terminal
    terminal.setTextColor(16384)
    terminal.setBackgroundColor(3)
    expect(terminal.getBackgroundColour()).to_be(2)
    for _ = 1, 40 do
      terminal.setCursorPos(1, 1)
      terminal.write("ab")
    end
    terminal.blit("cd", "0F", "e1")
    local row = capture:screen().rows[1]
    expect(row[1]:sub(1, 5) .. row[2]:sub(1, 5) .. row[3]:sub(1, 5)).to_be("abcd " .. "ee0f0" .. "11e1f")
    expect((pcall(terminal.blit, "ab", "0", "ff"))).to_be(false)
    for _, wrong in ipairs({ 0, -1, 65536, 0 / 0 }) do
      expect((pcall(terminal.setTextColour, wrong))).to_be(false)
    end
  end)

  it("takes no wild place of the cursor for one on the screen", function()
    local screen = drawn(function()
      for _, wild in ipairs({ 0 / 0, 1 / 0, -1 / 0, 1e300 }) do
        term.setCursorPos(wild, wild)
        term.write("x")
        term.scroll(wild)
      end
    end)
    expect(screen.x == math.floor(screen.x) and math.abs(screen.x) <= 400).to_be(true)
    expect(screen.y >= 1 and screen.y <= 50).to_be(true)
  end)

  it("tells what is new once, its last bytes when it is much", function()
    computer.new()
    local capture = Capture.new()
    expect(capture:has_fresh()).to_be(false)
    capture.terminal.write("first")
    expect({ capture:take_fresh() }).to_be({ 0, "first" })
    expect(capture:has_fresh()).to_be(false)
    for _ = 1, 3000 do
      capture.terminal.write("0123456789")
    end
    local offset, text = capture:take_fresh()
    expect(offset).to_be(5 + 30000 - 4096)
    expect(#text).to_be(4096)
    expect(text:sub(-11)).to_be("90123456789")
  end)
end)
