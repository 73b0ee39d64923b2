local computer = require("computer")
local programs = require("programs")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

--- Runs a program; `events` are what it is given, then only wake-ups that let time pass.
local function run(source, options)
  options = options or {}
  -- Every look at the clock costs 20 ms, so 4 s without a yield are 200 looks.
  local machine = computer.new({ look_ms = 20 })
  dofile("cc_client/simulator/rom/apis/text.lua")
  sleep = function()
    os.pullEvent("timer")
  end
  local events = options.events or {}
  local result = programs.run({
    path = "dir/p.lua",
    bytes = source,
    arguments = options.arguments or {},
    timeout_s = options.timeout_s or 60,
  }, function()
    machine.now_ms = machine.now_ms + 100
    return table.remove(events, 1)
  end)
  return result
end

local function never_yields(source)
  local created = coroutine.create
  local result = run(source)
  expect(result.ended).to_be("error")
  expect(result.message).to_contain("Too long without yielding")
  expect(coroutine.create).to_be(created)
  return result
end

describe("programs", function()
  it("return, with arguments and output", function()
    local result = run("print(arg[0], arg[1], ...)", { arguments = { "a", "\255" } })
    expect(result.ended).to_be("returned")
    expect(result.output).to_be("dir/p.lua\ta\ta\t\255\n")
    expect(result.traceback).to_be("")
    expect(result.message).to_be(nil)
  end)

  it("end with an error and where it was", function()
    local result = run("local function inner()\n  error('boo')\nend\nprint('before')\ninner()")
    expect(result.ended).to_be("error")
    expect(result.message).to_be("/dir/p.lua:2: boo")
    expect(result.traceback).to_contain("/dir/p.lua:2: in function 'inner'")
    expect(result.traceback:find("xpcall", 1, true)).to_be(nil)
    expect(result.output).to_be("before\n")
  end)

  it("may throw anything", function()
    expect(run("error()").ended).to_be("error")
    expect(run("error({})").ended).to_be("error")
    expect(run("this is no Lua").message).to_contain("/dir/p.lua:1:")
  end)

  it("get the events that they wait for, but not the player's keys", function()
    local result = run("print(os.pullEvent('x')) print(os.pullEventRaw())", {
      events = {
        { "y", n = 1 },
        { "x", 1, n = 2 },
        { "char", "s", n = 2 },
        { "terminate", n = 1 },
        { "z", n = 1 },
      },
    })
    expect(result.output).to_be("x\t1\nz\n")
  end)

  it("are terminated when their time is over", function()
    local result = run("print('on') while true do os.pullEvent() end", { timeout_s = 2 })
    expect(result.ended).to_be("timed_out")
    expect(result.message).to_contain("2 s")
    expect(result.output).to_be("on\n")
  end)

  it("are left when they ignore terminate three times", function()
    local result = run(
      "while true do local event = os.pullEventRaw() if event == 'terminate' then print(event) end end",
      { timeout_s = 2 }
    )
    expect(result.ended).to_be("abandoned")
    expect(result.output).to_be("terminate\nterminate\nterminate\n")
  end)

  it("may clean up when terminated", function()
    local result = run("pcall(os.pullEvent) print('bye')", { timeout_s = 2 })
    expect(result.ended).to_be("timed_out")
    expect(result.output).to_be("bye\n")
  end)

  it("that never yield are stopped, and it is said where", function()
    expect(never_yields("while true do end").traceback).to_contain("/dir/p.lua:1: in main chunk")
  end)

  it("that never yield are stopped in a pcall loop", function()
    never_yields("while true do pcall(function() while true do end end) end")
    never_yields("while true do pcall(error) end")
  end)

  it("that never yield are stopped in child coroutines", function()
    never_yields(
      "local co = coroutine.create(function() while true do end end) coroutine.resume(co) while true do end"
    )
    never_yields("while true do pcall(coroutine.wrap(function() while true do pcall(error) end end)) end")
  end)

  it("that never yield are timed out when their time is over first", function()
    local result = run("while true do end", { timeout_s = 2 })
    expect(result.ended).to_be("timed_out")
  end)

  it("that do not yield after terminate are left as well", function()
    local result = run("pcall(os.pullEvent) while true do pcall(error) end", { timeout_s = 2 })
    expect(result.ended).to_be("timed_out")
  end)

  it("draw where they like without touching the client's terminal", function()
    local before
    local result =
      run("term.redirect(term.current()) term.setCursorPos(1, 3) term.write('x') os.pullEvent()", {
        events = { { "x", n = 1 } },
      })
    before = term.current()
    expect(before).to_be(term.native())
    expect(result.output).to_be("\n\nx")
  end)

  it("have their output capped, the cut counted", function()
    local result = run("for line = 1, 2000 do write(('x'):rep(90)) print('line ' .. line) end")
    expect(result.ended).to_be("returned")
    expect(result.cut > 100000).to_be(true)
    expect(result.output).to_contain("line 1\n")
    expect(result.output).to_contain("line 2000\n")
    expect(#result.output < 34000).to_be(true)
  end)
end)
