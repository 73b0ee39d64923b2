-- luacheck: globals multishell
local computer = require("computer")
local Guard = require("guard")
local programs = require("programs")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

--- Runs a program; `events` are what it is given, then only wake-ups that let time pass.
local function run(source, options)
  options = options or {}
  -- Every look at the clock costs so much: time passes without real seconds.
  local machine = computer.new({ look_ms = options.look_ms or 20 })
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
    observe_s = options.observe_s,
    output = options.output,
  }, function()
    machine.now_ms = machine.now_ms + 100
    local event = table.remove(events, 1)
    if event and event.paused_ms then
      -- The game stands still, and only a message of the server comes.
      machine.now_ms, machine.paused_ms =
        machine.now_ms + event.paused_ms, machine.paused_ms + event.paused_ms
      return { "websocket_message", n = 1 }
    end
    return event
  end)
  return result, machine
end

local function never_yields(source)
  local created = coroutine.create
  -- 6.5 s are 160 looks.
  local result = run(source, { look_ms = 40 })
  expect(result.ended).to_be("error")
  expect(result.message).to_contain("was busy for too long without a pause")
  expect(result.message:find("Too long without yielding", 1, true)).to_be(nil)
  for _, file in ipairs({ "guard", "capture", "programs", "monitors" }) do
    expect(result.traceback:find(file .. ".lua", 1, true)).to_be(nil)
  end
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
    for _, source in ipairs({ "error()", "error(nil)", "error('', 0)" }) do
      local result = run(source)
      expect(result.ended).to_be("error")
      expect(result.message).to_be("The program ended with an error without a message.")
      expect(result.traceback).to_contain("stack traceback:")
    end
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

  it("are watched for as long as was asked, and have ended well", function()
    local endless = "print('on') while true do os.pullEvent() end"
    local result = run(endless, { observe_s = 2 })
    expect(result.ended).to_be("observed")
    expect(result.message).to_be("The program ran 2 s without an error and was stopped.")
    expect(result.traceback).to_be("")
    expect(result.ran_ms >= 2000 and result.ran_ms < 3000).to_be(true)
    expect(run("error('boo')", { observe_s = 2 }).ended).to_be("error")
    expect(run("print('done')", { observe_s = 2 }).ended).to_be("returned")
    expect(run(endless, { observe_s = 5, timeout_s = 2 }).ended).to_be("timed_out")
    expect(run(endless, { observe_s = 2, timeout_s = 2 }).ended).to_be("observed")
  end)

  it("tell an error of their clean-up also when they were only watched", function()
    local result = run("pcall(os.pullEvent) error('cannot save')", { observe_s = 2 })
    expect(result.ended).to_be("observed")
    expect(result.traceback).to_contain("cannot save")
  end)

  it("that ignore terminate are left, which ends them as well", function()
    local result = run("while true do os.pullEventRaw() end", { observe_s = 2 })
    expect(result.ended).to_be("observed")
    expect(result.ignored).to_be(true)
    -- What it took to stop it is no time that it was watched.
    expect(result.ran_ms < 2200).to_be(true)
    expect(result.message).to_be(
      "The program ran 2 s without an error and was stopped, ignored terminate and was left."
    )
    expect(run("os.pullEvent('never')", { observe_s = 2 }).ignored).to_be(nil)
  end)

  it("show what was on the screen before they were stopped, if they drew on it", function()
    local source = [[
      term.clear() term.setCursorPos(1, 3) term.write("score 1") term.setCursorPos(1, 1) term.write("GAME")
      pcall(os.pullEvent) term.clear()
    ]]
    expect(run(source, { observe_s = 2 }).drawn).to_be("GAME\n\nscore 1")
    expect(run("print('a') os.pullEvent()", { observe_s = 2 }).drawn).to_be(nil)
  end)

  it("do not end in a game that is paused, and say how long that was", function()
    local events = { { paused_ms = 75000 }, { paused_ms = 75000 }, { "x", n = 1 } }
    local result = run("os.pullEvent('x') print('on')", { events = events, timeout_s = 2 })
    expect(result.ended).to_be("returned")
    expect(result.output).to_be("on\n")
    expect(result.ran_ms < 2000).to_be(true)
    expect(result.real_ms >= 150000).to_be(true)
  end)

  it("can be as busy as ever after a pause", function()
    local source = "os.pullEvent('x') while true do pcall(error) end"
    local result = run(source, { events = { { paused_ms = 75000 }, { "x", n = 1 } } })
    expect(result.ended).to_be("error")
    expect(result.message).to_contain("was busy for too long without a pause")
  end)

  it("open tabs that run on, are listed, seen and stopped", function()
    local tabs = require("tabs")
    local launched = 0
    local native = function()
      launched = launched + 1
      return 2
    end
    local function nothing() end
    multishell = { launch = native, getCurrent = nothing, getTitle = nothing, setTitle = nothing }
    local jobs = {}
    local function spawn(body, ...)
      local co = coroutine.create(body)
      jobs[#jobs + 1] = co
      assert(coroutine.resume(co, ...))
    end
    local machine = computer.new()
    fs.makeDir("dir")
    local file = fs.open("dir/w.lua", "wb")
    file.write("print('in', ...) os.pullEvent('never')")
    file.close()
    local result = programs.run({
      path = "p",
      bytes = "return multishell.launch({}, 'dir/w.lua', 7), pcall(multishell.launch, 7)",
      arguments = {},
      timeout_s = 5,
      spawn = spawn,
    }, coroutine.yield)
    expect(result.ended).to_be("returned")
    expect(result.values[1] > 1000 and not result.values[2]).to_be(true)
    expect(multishell.launch).to_be(native)
    expect(launched).to_be(0)
    local name = result.tabs
    expect(tabs.any()).to_be(true)
    expect(programs.tab_screen(name).rows[1][1]).to_contain("in\t7")
    local told = tabs.told()
    expect({ told[#told].program, told[#told].ended }).to_be({ "dir/w.lua 7" })
    machine.now_ms = machine.now_ms + 1e9
    coroutine.resume(jobs[1])
    expect(tabs.find(name).ended).to_be(nil)
    expect(programs.stop(name)).to_be(true)
    coroutine.resume(jobs[1])
    expect(tabs.find(name).ended).to_be("terminated")
    expect(tabs.any()).to_be(false)
    expect(programs.tab_screen(name).rows[1][1]).to_contain("in\t7")
    expect({ programs.tab_screen("tab-999") }).to_be({
      nil,
      "No program runs in a tab of this name; cc_info lists them.",
    })
    -- An environment that cannot be the tab's leaves none behind that seems to run.
    local sealed = programs.run({
      path = "p",
      bytes = "multishell.launch(setmetatable({}, { __metatable = 1 }), 'dir/w.lua')",
      arguments = {},
      timeout_s = 5,
      spawn = spawn,
    }, coroutine.yield)
    expect(tabs.find(sealed.tabs).ended).to_be("error")
    expect(tabs.find(sealed.tabs).message).to_contain("protected metatable")
    multishell = nil
  end)

  it("are left when they ignore terminate three times", function()
    local result = run(
      "while true do local event = os.pullEventRaw() if event == 'terminate' then print(event) end end",
      { timeout_s = 2 }
    )
    expect(result.ended).to_be("timed_out")
    expect(result.ignored).to_be(true)
    expect(result.output).to_be("terminate\nterminate\nterminate\n")
  end)

  it("may clean up when terminated", function()
    local result = run("pcall(os.pullEvent) print('bye')", { timeout_s = 2 })
    expect(result.ended).to_be("timed_out")
    expect(result.output).to_be("bye\n")
  end)

  it("that never yield are stopped, and it is said where", function()
    local result = never_yields("\nwhile true do end")
    expect(result.message).to_be(
      "/dir/p.lua:2: The program was busy for too long without a pause: it was stopped after 6.5 s, as the game "
        .. "allows 7.0 s. Call sleep(0) in its long loops."
    )
    expect(result.traceback).to_contain("\nstack traceback:\n\t/dir/p.lua:2: in main chunk")
    -- Also where it is our terminal that is at work.
    expect(never_yields("while true do term.write(('x'):rep(99)) end").message).to_contain("/dir/p.lua:1: ")
    expect(never_yields("while true do print('x') end").message).to_contain("/dir/p.lua:1: ")
  end)

  it("may be busy for as long as the game allows, and begin anew after each yield", function()
    local busy = "local function busy(ms) local at = os.epoch() + ms while os.epoch() < at do end end "
    local result = run(busy .. "busy(5000) os.pullEvent('x') busy(6300) return 'done'", {
      events = { { "x", n = 1 } },
    })
    expect(result.values).to_be({ "done", n = 1 })
  end)

  it("wait for the next event where others have used up much of this one", function()
    local machine = computer.new({ look_ms = 1 })
    local waits = 0
    local program = { path = "p", bytes = "return os.epoch()", arguments = {}, timeout_s = 60 }
    local function wait()
      waits = waits + 1
      Guard.begin_turn(machine.now_ms)
      return { "cc_orchestrator_rest", n = 1 }
    end
    local function begun(used_ms)
      Guard.begin_turn(machine.now_ms)
      machine.now_ms, waits = machine.now_ms + used_ms, 0
      expect(programs.run(program, wait).ended).to_be("returned")
      return waits
    end
    expect(begun(0)).to_be(0)
    expect(begun(5000)).to_be(1)
    -- What is left of a turn counts, and after it the client itself waits for the next one.
    program.bytes = "local at = os.epoch() + 6000 while os.epoch() < at do end"
    expect(begun(400)).to_be(1)
    program.bytes = "while true do end"
    Guard.begin_turn(machine.now_ms)
    local at = machine.now_ms
    machine.now_ms = at + 450
    expect(programs.run(program, wait).ended).to_be("error")
    -- 6.5 s of the turn, what others have used of it included.
    expect(machine.now_ms - at < 6800).to_be(true)
    Guard.begin_turn(nil)
  end)

  it("lose no event that comes while they wait for the next turn, also where that is used up, too", function()
    local machine = computer.new({ look_ms = 1 })
    local source =
      "local list = {} for i = 1, 4 do list[i] = os.pullEvent() end return table.concat(list, ' ')"
    local program = { path = "p", bytes = source, arguments = {}, timeout_s = 60 }
    -- How much of its turn others have used before each event, and a mere wake-up that begins none.
    local events = {
      { "a", 600 },
      { "b", 0 },
      { "c", 700 },
      { "cc_orchestrator_rest", 700 },
      {},
      { "d", 0 },
      { "cc_orchestrator_rest", 0 },
    }
    local result = programs.run(program, function()
      local event = table.remove(events, 1)
      if not event[1] then
        return nil
      end
      Guard.begin_turn(machine.now_ms)
      machine.now_ms = machine.now_ms + event[2]
      return { event[1], n = 1 }
    end)
    Guard.begin_turn(nil)
    expect(result.values).to_be({ "a b c d", n = 1 })
    expect(#events).to_be(0)
  end)

  it("are allowed what an emulator says that it allows", function()
    for told, seconds in pairs({ [17000] = 17, [100] = 1, [1e9] = 60, ["no"] = 7 }) do
      _G.config = {
        get = function(name)
          return name == "abortTimeout" and told
        end,
      }
      local machine = computer.new({ look_ms = 30 })
      _HOST = "ComputerCraft 1.116.1 (CraftOS-PC 2.8.4)"
      local began = machine.now_ms
      local program = { path = "p", bytes = "while true do end", arguments = {}, timeout_s = 100 }
      expect(programs.run(program, function() end).message).to_contain(("allows %.1f s"):format(seconds))
      expect(math.abs(machine.now_ms - began - seconds * 1000 + 500) < 500).to_be(true)
    end
    _G.config = nil
  end)

  it("are told in our words where the game was faster", function()
    local words = "Too long without yielding"
    local busy = "local at = os.epoch() + 6600 while os.epoch() < at do end "
    local result = run("debug = nil " .. busy .. "error('" .. words .. "')", { look_ms = 1 })
    expect(result.message:find(words, 1, true)).to_be(nil)
    -- What a program says by itself stays as it is.
    expect(run("error('" .. words .. "')").message).to_be("/dir/p.lua:1: " .. words)
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

  it("load what the ROM shares in the registry, and get no further there", function()
    local machine = computer.new()
    local own = debug.getregistry()
    own.cc_try_barrier = "the barrier"
    local result = programs.run({
      path = "p",
      bytes = [[
        local found, count = debug.getregistry(), 0
        for _ in pairs(found) do count = count + 1 end
        return found.cc_try_barrier, count, found == debug.getregistry()
      ]],
      arguments = {},
      timeout_s = 5,
    }, function()
      machine.now_ms = machine.now_ms + 100
    end)
    own.cc_try_barrier = nil
    expect(result.values).to_be({ "the barrier", 1, true, n = 3 })
  end)

  it("leave the title of the client's tab as it was", function()
    local machine = computer.new()
    local title = "orchestrator"
    multishell = {
      getCurrent = function()
        return 2
      end,
      getTitle = function()
        return title
      end,
      setTitle = function(tab, text)
        title = tab == 2 and text or title
      end,
    }
    local source = "multishell.setTitle(2, 'dance')"
    programs.run({ path = "p", bytes = source, arguments = {}, timeout_s = 5 }, function()
      machine.now_ms = machine.now_ms + 100
    end)
    multishell = nil
    expect(title).to_be("orchestrator")
  end)

  -- What once switched the guard off, or might have. Each would run for ever.
  local NEVER_YIELD = {
    ["a loop around coroutine.wrap"] = [[
      while true do
        coroutine.wrap(function() while true do pcall(error) end end)()
      end
    ]],
    ["a coroutine in a coroutine"] = [[
      local function deep(level)
        return coroutine.wrap(function()
          while level > 20 do pcall(error) end
          while true do pcall(deep(level + 1)) end
        end)
      end
      deep(1)()
    ]],
    ["a handler of xpcall that loops"] = [[
      xpcall(function() while true do end end, function() while true do end end)
    ]],
    ["xpcall in a loop, with a handler that errs"] = [[
      while true do xpcall(error, function() error("again") end) end
    ]],
    ["a handler that loops, of an error of its own"] = [[
      while true do xpcall(error, function() while true do end end) end
    ]],
    ["debug.sethook"] = [[
      debug.sethook()
      debug.sethook(function() end, "", 1)
      debug.sethook(coroutine.running(), nil)
      while true do pcall(error) end
    ]],
    ["another coroutine.create"] = [[
      local create, wrap = coroutine.create, coroutine.wrap
      coroutine.create = function(body) return create(body) end
      coroutine.wrap = function(body) return wrap(body) end
      coroutine.resume(coroutine.create(function() while true do pcall(error) end end))
      while true do pcall(error) end
    ]],
    ["upvalues of the guard"] = [[
      local get = debug.getupvalue or function() end
      for index = 1, 10 do
        local _, value = get(coroutine.create, index)
        if type(value) == "table" then value.stop_at_ms = math.huge end
      end
      while true do pcall(error) end
    ]],
    ["another clock"] = [[
      os.epoch = function() return 0 end
      while true do pcall(error) end
    ]],
    ["__index that calls itself"] = [[
      local t = setmetatable({}, {})
      getmetatable(t).__index = function(_, key) return t[key + 1] end
      while true do pcall(function() return t[1] end) end
    ]],
    ["__index in a circle"] = [[
      local a, b = {}, {}
      setmetatable(a, { __index = b })
      setmetatable(b, { __index = a })
      while true do pcall(function() return a.x end) end
    ]],
    ["__tostring, __concat and __eq that loop"] = [[
      local function loop() while true do end end
      local mt = { __tostring = loop, __concat = loop, __eq = loop }
      local a, b = setmetatable({}, mt), setmetatable({}, mt)
      while true do
        pcall(tostring, a)
        pcall(function() return a .. b end)
        pcall(function() return a == b end)
      end
    ]],
    ["sort with a comparison that loops"] = [[
      while true do
        pcall(table.sort, { 3, 2, 1 }, function() while true do end end)
      end
    ]],
    ["gsub with a function that loops"] = [[
      while true do pcall(string.gsub, "abc", ".", function() while true do end end) end
    ]],
    ["load with a reader that loops"] = [[
      while true do pcall(load, function() return " " end) end
    ]],
    ["recursion"] = [[
      local function again() return 1 + again() end
      while true do pcall(again) end
    ]],
    ["writing on the screen"] = "while true do pcall(term.write, 'x') pcall(term.scroll, 1) end",
    ["parallel"] = [[
      parallel.waitForAll(function() while true do pcall(error) end end, function() while true do end end)
    ]],
  }

  for name, source in pairs(NEVER_YIELD) do
    it("that never yield are stopped: " .. name, function()
      computer.new()
      parallel = dofile("cc_client/simulator/rom/apis/parallel.lua")
      local before = { coroutine.create, coroutine.wrap, xpcall, debug, debug.sethook }
      never_yields(source)
      parallel = nil
      expect({ coroutine.create, coroutine.wrap, xpcall, debug, debug.sethook }).to_be(before)
    end)
  end

  it("that throw something whose text never ends are stopped", function()
    local result = run("error(setmetatable({}, { __tostring = function() while true do end end }))")
    expect(result.ended).to_be("error")
    expect(result.message).to_be("a table")
    result = run("error(setmetatable({}, { __tostring = function() return 'so it is' end }))")
    expect(result.message).to_be("so it is")
  end)

  it("are guarded again after they yielded, whatever they did before", function()
    local result = run(
      [[
        local create = coroutine.create
        debug.sethook()
        coroutine.create = function(body) print("mine") return create(body) end
        os.pullEvent("x")
        coroutine.resume(coroutine.create(function() while true do pcall(error) end end))
      ]],
      { events = { { "x", n = 1 } } }
    )
    expect(result.message).to_contain("was busy for too long without a pause")
    expect(result.output).to_be("mine\n")
  end)

  it("may yield across xpcall, and have their handlers called", function()
    local result = run(
      [[
        print(xpcall(function(...) return os.pullEvent("x"), ... end, print, 1, 2))
        print(xpcall(error, function(why) return "handled " .. why end, "it"))
        print(select("#", coroutine.wrap(function() return nil, nil end)()))
      ]],
      { events = { { "x", n = 1 } } }
    )
    expect(result.output).to_be("true\tx\t1\t2\nfalse\thandled it\n2\n")
    expect(result.ended).to_be("returned")
  end)

  it("may leave coroutines to others, which the guard then leaves alone", function()
    local result = run("left = coroutine.create(function() for _ = 1, 1e6 do end return 'well' end)")
    expect(result.ended).to_be("returned")
    local left = _G.left
    _G.left = nil
    expect(left).to_be(nil)
    result = run("_G.left = coroutine.create(function() for _ = 1, 1e6 do end return 'well' end)")
    expect(result.ended).to_be("returned")
    left, _G.left = _G.left, nil
    expect({ coroutine.resume(left) }).to_be({ true, "well" })
  end)

  it("do not see the timers that watch over them", function()
    local source = "local _, id = os.pullEvent('timer') print(id)"
    local result = run(source, { events = { { "timer", 1, n = 2 }, { "timer", 99, n = 2 } } })
    expect(result.output).to_be("99\n")
  end)

  it("have what they write told while they run, at most every 0.5 s, gaps showing", function()
    local told, times = {}, {}
    local machine
    local events = {}
    for index = 1, 30 do
      events[index] = { "x", n = 1 }
    end
    local source = "for round = 1, 30 do write(('y'):rep(199 * round)) print() os.pullEvent('x') end"
    local result
    result, machine = run(source, {
      events = events,
      output = function(offset, text)
        told[#told + 1] = { offset = offset, text = text }
        times[#times + 1] = os.epoch("utc")
      end,
    })
    expect(result.ended).to_be("returned")
    expect(machine ~= nil and #told > 3).to_be(true)
    expect(told[1].offset).to_be(0)
    expect(told[1].text).to_be(("y"):rep(199))
    for index = 2, #told do
      expect(times[index] - times[index - 1] >= 500).to_be(true)
      expect(#told[index].text <= 4096).to_be(true)
      expect(told[index].offset >= told[index - 1].offset + #told[index - 1].text).to_be(true)
    end
    -- Late rounds write more than one message tells.
    local last, before = told[#told], told[#told - 1]
    expect(last.offset > before.offset + #before.text).to_be(true)
  end)

  it("that write nothing new are not told of", function()
    local told = 0
    local events = {}
    for index = 1, 20 do
      events[index] = { "x", n = 1 }
    end
    run("print('once') for _ = 1, 20 do os.pullEvent('x') end", {
      events = events,
      output = function()
        told = told + 1
      end,
    })
    expect(told).to_be(1)
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

  it("draw behind the windows only by what can be seen there", function()
    local moves = "local t = term.native() t.setCursorPos(1, 1) t.setTextColour(t.getTextColour()) "
    expect(run(moves).native_text).to_be(nil)
    expect(run(moves .. "t.write('x')").native_text).to_contain("x")
  end)

  it("have their output capped, the cut counted", function()
    local result = run("for line = 1, 1500 do write(('x'):rep(90)) print('line ' .. line) end")
    expect(result.ended).to_be("returned")
    expect(result.cut > 100000).to_be(true)
    expect(result.output).to_contain("line 1\n")
    expect(result.output).to_contain("line 1500\n")
    expect(#result.output < 34000).to_be(true)
  end)

  -- The client's own directory ----------------------------------------------------------------------

  --- What a program says of a file with the token in it, which the disk has as well.
  local function tries(source)
    local machine = computer.new({ look_ms = 20 })
    dofile("cc_client/simulator/rom/apis/text.lua")
    machine.disk.nodes[".cc-orchestrator/connection"] = "the token"
    machine.disk.nodes[".cc-orchestrator"], machine.disk.nodes["mine"] = true, "my own"
    local native = fs.open
    local result = programs.run(
      { path = "p.lua", bytes = source, arguments = {}, timeout_s = 60 },
      function() end
    )
    expect(fs.open).to_be(native)
    expect(machine.disk.nodes[".cc-orchestrator/connection"]).to_be("the token")
    return result
  end

  local function is_kept_out(source)
    local result = tries(source)
    expect((result.output .. result.traceback):find("the token", 1, true)).to_be(nil)
    expect(result.output .. result.traceback).to_contain("Access denied")
  end

  it("cannot read the token, however its path is written", function()
    local read = "local file, why = fs.open(%q, 'r') print(file and file.readAll() or why)"
    for _, path in ipairs({
      ".cc-orchestrator/connection",
      "/.cc-orchestrator/connection",
      "a/../.CC-Orchestrator/connection",
      "./.cc-orch?estrator\\connection",
      ".cc-orchestrator./connection",
    }) do
      is_kept_out(read:format(path))
    end
    expect(tries("print(fs.open('mine', 'r').readAll())").output).to_contain("my own")
  end)

  it("cannot take the token to another place", function()
    is_kept_out("fs.copy('.cc-orchestrator/connection', 'x') print(fs.open('x', 'r').readAll())")
    is_kept_out("fs.move('.cc-orchestrator', 'x') print(fs.open('x/connection', 'r').readAll())")
    is_kept_out("fs.copy('.', 'disk/x') print(fs.open('disk/x/.cc-orchestrator/connection', 'r').readAll())")
    is_kept_out("fs.copy('mine', '.cc-orchestrator/connection')")
    is_kept_out("fs.delete('.cc-orchestrator')")
  end)

  it("cannot read the token while its error is told", function()
    is_kept_out([[
      local told = function() local file, why = fs.open('.cc-orchestrator/connection', 'r')
        return file and file.readAll() or why end
      error(setmetatable({}, { __tostring = told }))
    ]])
  end)

  it("cannot take a function of the game from where it failed", function()
    local result = tries([[
      local own, seen, taken = debug.getinfo(1, 'S').source, 0, 0
      local function look(info)
        seen = seen + (info and 1 or 0)
        local fn = info and info.func
        taken = taken + (fn and debug.getinfo(fn, 'S').source ~= own and 1 or 0)
      end
      -- In each of them a function of the game fails, in whose place the program has another.
      for _, fn in ipairs({ coroutine.resume, coroutine.create, debug.getlocal, string.rep }) do
        xpcall(fn, function() for level = 0, 6 do look(debug.getinfo(level, 'Sf')) look(debug.getinfo(level)) end end)
        local co = coroutine.create(function() local value = fn() return value end)
        coroutine.resume(co)
        for level = 0, 3 do look(debug.getinfo(co, level, 'f')) end
      end
      print(seen > 40, taken)
    ]])
    expect(result.output).to_contain("true\t0")
    local told = "local function f() return debug.getinfo(1), debug.getinfo(coroutine.running(), 1, 'f') end "
      .. "local first, second = f() print(first.func == f, second.func == f, first.currentline, "
      .. "debug.getinfo(f, 'f').func == f, debug.getinfo(print, 'f').func == print, debug.getinfo(99))"
    expect(tries(told).output).to_contain("true\ttrue\t1\ttrue\ttrue\tnil")
  end)

  it("cannot type `cc` as a player does", function()
    local sends = "local ok, why = pcall(%s) print(ok, why)"
    for _, way in ipairs({
      "os.queueEvent, 'cc_orchestrator_ask', 'n1', 'ask', 'dig'",
      "function() return os['queue' .. 'Event']('cc_orchestrator_' .. 'left', 'n1') end",
      "coroutine.wrap(function() string.sub = function() return '' end os.queueEvent('cc_orchestrator_ask') end)",
    }) do
      expect(tries(sends:format(way)).output).to_contain("only a player can")
    end
    local own = "os.queueEvent('mine', 7) print(os.pullEvent('mine'))"
    expect(run(own, { events = { { "mine", 7, n = 2 } } }).output).to_contain("7")
  end)

  it("type for themselves alone", function()
    local machine, seen = computer.new({ look_ms = 20 }), {}
    local source = [[
      os.queueEvent("char", "c") os.queueEvent("key", 65, false) os.queueEvent("mine", 7)
      print(os.pullEvent()) print(os.pullEvent("key")) print(os.pullEvent("mine"))
      for count = 1, 1000 do os.queueEvent("paste", count) end
      for count = 1, 256 do local _, number = os.pullEvent() if number ~= count then print("wrong", count) end end
      os.queueEvent("file_transfer", {}) print(os.pullEvent("file_transfer") == "file_transfer")
      os.queueEvent("terminate") print(pcall(os.pullEvent, "never"))
    ]]
    local result = programs.run({ path = "p.lua", bytes = source, arguments = {}, timeout_s = 60 }, function()
      machine.now_ms = machine.now_ms + 50
      local event = table.remove(machine.events, 1)
      seen[event and event[1] or ""] = true
      return event
    end)
    expect(result.output).to_contain("char\tc\nkey\t65\tfalse\nmine\t7\ntrue\nfalse\tTerminated\n")
    for _, name in ipairs({ "char", "key", "paste", "file_transfer", "terminate" }) do
      expect(seen[name]).to_be(nil)
    end
  end)

  it("keep what they put into fs to themselves", function()
    local result = tries("fs.open = function() return nil, 'mine' end print(select(2, fs.open('x')))")
    expect(result.output).to_contain("mine")
  end)
end)
