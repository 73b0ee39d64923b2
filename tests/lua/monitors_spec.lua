local computer = require("computer")
local monitors = require("monitors")
local programs = require("programs")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local devices

--- Runs a program beside a computer with some monitors and a chest.
local function run(source, timeout_s)
  local machine = computer.new({ look_ms = 1 })
  dofile("cc_client/simulator/rom/apis/text.lua")
  devices = computer.peripherals({
    top = computer.monitor(20, 5),
    left = computer.monitor(10, 3),
    chest = {
      types = { "inventory" },
      methods = {
        clear = function()
          return "swept"
        end,
      },
    },
  })
  local native = peripheral.call
  local result = programs.run(
    { path = "p", bytes = source, arguments = {}, timeout_s = timeout_s or 5 },
    function()
      machine.now_ms = machine.now_ms + 100
    end
  )
  expect(peripheral.call).to_be(native)
  return result
end

local function row(name, y)
  local one = monitors.screen(name).rows[y]
  return (one[1]:gsub(" +$", "")), one[2], one[3]
end

describe("monitors", function()
  it("show what was drawn on them by wrapped methods, colours and all", function()
    local result = run([[
      local top = peripheral.wrap("top")
      top.clear() top.setCursorPos(3, 2) top.setTextColour(2) top.write("hello")
      top.setCursorPos(1, 4) top.blit("ab", "0e", "1f")
      print("done")
    ]])
    expect(result.output).to_be("done\n")
    expect(result.monitors).to_be("top")
    expect(result.monitor_text).to_be("\n[on the monitor top:]\n\n  hello\n\nab")
    local text, fg = row("top", 2)
    expect(text).to_be("  hello")
    expect(fg:sub(1, 8)).to_be("00111110")
    expect(monitors.screen("top").width).to_be(20)
    expect(devices.top.log).to_be("hello" .. "ab")
  end)

  it("show what a program prints that sends its terminal there", function()
    local result = run("term.redirect(peripheral.wrap('left')) print('long text here') error('oops')")
    expect(result.ended).to_be("error")
    expect(result.output).to_be("")
    expect(result.monitor_text).to_contain("[on the monitor left:]\nlong text\nhere")
    expect(row("left", 1)).to_be("long text")
  end)

  it("keep what is on them from one program to the next, until they have another size", function()
    run("peripheral.call('top', 'clear') peripheral.call('top', 'write', 'one')")
    run("local t = peripheral.wrap('top') t.setCursorPos(1, 2) t.write('two')")
    expect(row("top", 1)).to_be("one")
    expect(row("top", 2)).to_be("two")
    run("local t = peripheral.wrap('top') t.setTextScale(2) t.setCursorPos(1, 1) t.write('large')")
    expect(monitors.screen("top").width).to_be(10)
    expect(row("top", 1)).to_be("large")
  end)

  it("are not what only has a method of such a name", function()
    local result =
      run("print(peripheral.call('chest', 'clear')) pcall(peripheral.call, 'none', 'write', 'x')")
    expect(result.output).to_be("swept\n")
    expect(result.monitors).to_be("")
    expect(result.monitor_text).to_be("")
    expect(monitors.screen("chest")).to_be(nil)
  end)

  it("that are full say where they were cut, and only some are told", function()
    local many = {}
    for index = 1, 12 do
      many["m" .. index] = computer.monitor(100, 40)
    end
    local machine = computer.new({ look_ms = 1 })
    computer.peripherals(many)
    local result = programs.run({
      path = "p",
      arguments = {},
      timeout_s = 5,
      bytes = [[for _, name in ipairs(peripheral.getNames()) do
        for y = 1, 40 do
          peripheral.call(name, "setCursorPos", 1, y) peripheral.call(name, "write", ("x"):rep(100))
        end
      end]],
    }, function()
      machine.now_ms = machine.now_ms + 100
    end)
    expect(#result.monitor_text < 9000).to_be(true)
    expect(result.monitor_text).to_contain("[... cut]")
    expect(result.monitors).to_contain("m1 m10 m11 m12 m2")
    local kept = 0
    for name in pairs(many) do
      kept = kept + (monitors.screen(name) and 1 or 0)
    end
    expect(kept).to_be(8)
  end)
end)
