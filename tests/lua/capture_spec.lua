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
end)
