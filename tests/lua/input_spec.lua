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

--- What `read` of the game does with what it is typed; the cursor blinks meanwhile.
local READ = [[
  local function read(is_dark)
    local line = ''
    term.setCursorBlink(not is_dark)
    while true do
      local name, value = os.pullEvent()
      if name == 'char' then line = line .. value
      elseif name == 'key' and value == 257 then break
      elseif name == 'key' and value == 259 then line = line:sub(1, -2) end
    end
    term.setCursorBlink(false)
    return line
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

  it("has Enter pressed after its last line, once", function()
    for typed, lines in pairs({
      ["y"] = "y|",
      ["y\n"] = "y|",
      ["a\nb"] = "a|b|",
      ["a\nb\n"] = "a|b|",
      ["a\n\nb"] = "a||b|",
      ["\n"] = "|",
      ["\n\n"] = "||",
      ["no\b\b"] = "|",
      ["a\t"] = "a|",
    }) do
      local source = READ .. "while true do term.write(read() .. '|') end"
      local result = run(source, typed)
      expect(result.output).to_be(lines)
      expect(result.input_left).to_be(0)
      expect(result.waits_for).to_be("read()")
    end
  end)

  it("has no Enter pressed after its last line where no line is read", function()
    local show =
      " while true do local e = table.pack(os.pullEvent()) term.write(e[1] .. ' ' .. e[2] .. '|') end"
    -- A menu of single keys, and one after which a line is asked for.
    expect(run(show, "2").output).to_be("key 50|char 2|key_up 50|")
    local result
    for _, first in ipairs({ "char", "key" }) do
      result = run(READ .. "os.pullEvent('" .. first .. "') return read()", "y")
      expect(result.ended).to_be("timed_out")
      expect(result.waits_for).to_be("read()")
    end
    -- It reads keys by itself, and says so by a line end.
    result = run(READ .. "print(read(true)) os.pullEvent('key')", "y")
    expect(result.ended).to_be("timed_out")
    expect(result.waits_for).to_be("")
    expect(run(READ .. "print(read(true))", "y\n").output).to_be("y\n")
    local keys_only = "repeat local _, key = os.pullEvent('key') term.write(key .. ' ') until key == 257"
    expect(run(keys_only, "ab\n").output).to_be("65 66 257 ")
    expect(run(keys_only, "ab").waits_for).to_be("key")
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

describe("what a program waits for", function()
  --- What is said of a program that is stopped; `events` come meanwhile.
  local function waits_for(source, events)
    local result = run(READ .. source, nil, events)
    expect(result.ended).to_be("timed_out")
    return result.waits_for
  end

  it("is the event that it pulled last", function()
    expect(waits_for("os.pullEvent('key')")).to_be("key")
    expect(waits_for("os.pullEvent('rednet_message')")).to_be("rednet_message")
    expect(waits_for("coroutine.yield('timer')")).to_be("timer")
    expect(waits_for("os.pullEvent()")).to_be("")
    expect(waits_for("os.pullEventRaw()")).to_be("")
    expect(waits_for("read()")).to_be("read()")
    expect(waits_for("pcall(read)")).to_be("read()")
    expect(waits_for("term.setCursorBlink(true) os.pullEvent('mouse_click')")).to_be("mouse_click")
  end)

  it("is told of each branch of parallel, what a person can give first", function()
    parallel = dofile("cc_client/simulator/rom/apis/parallel.lua")
    local branches = {
      key = "function() os.pullEvent('key') end",
      timer = "function() while true do os.pullEvent('timer') end end",
      any = "function() while true do os.pullEvent() end end",
      message = "function() os.pullEvent('rednet_message') end",
      brief = "function() end",
    }
    local function of(...)
      local list = {}
      for index, name in ipairs({ ... }) do
        list[index] = branches[name] or name
      end
      return "parallel.waitForAll(" .. table.concat(list, ", ") .. ")"
    end
    local two = { { "timer", 77, n = 2 }, { "other", n = 1 } }
    expect(waits_for(of("timer", "read"), two)).to_be("read(), timer")
    expect(waits_for(of("timer", "key"))).to_be("key, timer")
    expect(waits_for(of("brief", "message"))).to_be("rednet_message")
    expect(waits_for(of("timer", "any"), { { "other", n = 1 } })).to_be("")
    local inner = "function() " .. of("key", "message") .. " end"
    expect(waits_for(of("timer", inner), two)).to_be("key, rednet_message, timer")
    -- What has waited before its branch ended is forgotten.
    expect(waits_for(of("message", "key"), { { "rednet_message", n = 1 } })).to_be("key")
    parallel = nil
  end)

  it("is not what a coroutine that makes values gives out", function()
    local source = "local make = coroutine.wrap(function() while true do coroutine.yield('word') end end) "
      .. "make() make() %s"
    expect(waits_for(source:format("os.pullEvent('key')"))).to_be("key")
    expect(waits_for(source:format("os.pullEvent()"))).to_be("")
    expect(waits_for(source:format("read()"))).to_be("read()")
  end)

  it("is short and plain, whatever the program waits for", function()
    expect(waits_for("os.pullEvent(('x'):rep(1000))")).to_be(("x"):rep(40))
    expect(waits_for("os.pullEvent('a\\n, b')")).to_be("a???b")
  end)

  it("is told of what was stopped, and of nothing else", function()
    expect(run("return 1").waits_for).to_be(nil)
    expect(run("error('x')").waits_for).to_be(nil)
    local ignoring = run("while true do pcall(os.pullEvent, 'key') end")
    expect(ignoring.ignored).to_be(true)
    expect(run("while true do end").waits_for).to_be("busy()")
    expect(ignoring.waits_for).to_be("key")
  end)
end)
