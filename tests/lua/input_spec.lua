-- luacheck: globals keys
local computer = require("computer")
local programs = require("programs")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

--- Runs a program that is typed to; `events` come beside, then only wake-ups.
local function run(source, typed, events)
  local machine = computer.new({ look_ms = 1 })
  dofile("cc_client/simulator/rom/apis/text.lua")
  events = events or {}
  return programs.run({ path = "p", bytes = source, arguments = {}, timeout_s = 5, input = typed }, function()
    machine.now_ms = machine.now_ms + 100
    return table.remove(events, 1)
  end)
end

--- What `read` of the game does with what it is typed.
local READ = [[
  local function read()
    local line = ''
    while true do
      local name, value = os.pullEvent()
      if name == 'char' then line = line .. value
      elseif name == 'key' and value == 257 then return line
      elseif name == 'key' and value == 259 then line = line:sub(1, -2) end
    end
  end
]]

describe("input", function()
  it("is what read gets, line by line", function()
    local result = run(READ .. "print(read()) print(read())", "yes!\nbut\b no\n")
    expect(result.ended).to_be("returned")
    expect(result.output).to_be("yes!\nbu no\n")
    expect(result.input_left).to_be(0)
  end)

  it("comes as keys do", function()
    local source = "for _ = 1, 6 do local e = table.pack(os.pullEvent()) print(table.unpack(e, 1, e.n)) end"
    expect(run(source, "a\n").output).to_be(
      "key\t65\tfalse\nchar\ta\nkey_up\t65\nkey\t257\tfalse\nkey_up\t257\n"
    )
    expect(run("print(os.pullEvent('char'))", "?").output).to_be("char\t?\n")
    expect(run("print(os.pullEvent('char'))", "\233").output).to_be("char\t\233\n")
  end)

  it("has the numbers that this version gives to keys", function()
    local source = "local _, key = os.pullEvent('key') print(key)"
    keys = { enter = 28, a = 30, zero = 11, semiColon = 39, comma = "changed" }
    for typed, number in pairs({ ["\n"] = "28", a = "30", A = "30", ["0"] = "11", [";"] = "39", [","] = "44" }) do
      expect(run(source, typed).output).to_be(number .. "\n")
    end
    keys = nil
    expect(run(source, "\n").output).to_be("257\n")
  end)

  it("waits while the program waits for something else", function()
    local source = READ .. "print(os.pullEvent('timer')) print(read())"
    local events = { { "timer", 77, n = 2 } }
    expect(run(source, "later\n", events).output).to_be("timer\t77\nlater\n")
    local result = run(source, "later\n")
    expect(result.ended).to_be("timed_out")
    expect(result.input_left).to_be(6)
  end)

  it("tells what nobody read", function()
    local result = run(READ .. "read()", "one\ntwo")
    expect(result.ended).to_be("returned")
    expect(result.input_left).to_be(3)
    expect(run("return 1", nil).input_left).to_be(nil)
  end)

  it("stops with the program's time, however fast it is read", function()
    local busy =
      "while true do local at = os.epoch() + 300 while os.epoch() < at do end os.pullEvent('char') end"
    local result = run(busy, ("x"):rep(1024))
    expect(result.ended).to_be("timed_out")
    expect(result.input_left > 0).to_be(true)
  end)
end)
