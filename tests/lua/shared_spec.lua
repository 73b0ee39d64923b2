--- What a program changes of what all share, in a client that has its globals as the bundle gives them.
-- luacheck: globals string table fs http os multishell cc_orchestrator getfenv setfenv
local computer = require("computer")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local CONTENT = "the token"

--- The modules of a client that is loaded now, as the bundle loads them: name = module.
local function fresh()
  local env = dofile("cc_client/lua/kept.lua")(_G)
  local loaded = {}
  function env.require(name)
    if loaded[name] == nil then
      loaded[name] = assert(loadfile("cc_client/lua/" .. name .. ".lua", "t", env))()
    end
    return loaded[name]
  end
  return env.require
end

--- A new computer with a token. As in the game, `term.redirect` reads all methods of a terminal.
local function machine()
  local self = computer.new({ look_ms = 20 })
  dofile("cc_client/simulator/rom/apis/text.lua")
  sleep = function()
    os.pullEvent("timer")
  end
  local redirect, own = term.redirect, term
  term.redirect = function(target)
    for name in next, own do
      local _ = target[name]
    end
    return redirect(target)
  end
  self.disk.nodes[".cc-orchestrator"], self.disk.nodes["mine"] = true, "my own"
  self.disk.nodes[".cc-orchestrator/connection"] = CONTENT
  return self
end

--- Runs a program in a client of its own; `between` is called in each turn of the client.
local function run(source, between)
  machine()
  local programs = fresh()("programs")
  return programs.run({ path = "p.lua", bytes = source, arguments = {}, timeout_s = 5 }, function()
    if between then
      between()
    end
    return { "timer", 99, n = 2 }
  end)
end

local READ =
  "\nlocal file, why = fs.open('.cc-orchestrator/connection', 'r') return file and file.readAll() or why"

--- That a program which begins so is kept out all the same.
local function is_kept_out(source)
  local result = run(source .. READ)
  expect({ source, result.message, (result.values or {})[1] }).to_be({
    source,
    nil,
    "/.cc-orchestrator/connection: Access denied",
  })
end

--- That a program is returned `wanted`, and the client was told the token by nobody.
local function returns(source, wanted, between)
  local result = run(source, between)
  expect({ result.message, result.ended }).to_be({ nil, "returned" })
  expect((result.output):find(CONTENT, 1, true)).to_be(nil)
  expect({ table.unpack(result.values, 1, result.values.n) }).to_be(wanted)
end

--- The beginning of a program: `steal()` keeps what it can read, and `stolen` is that.
local STEAL = [[
  local open, stolen = fs.open, nil
  local function steal() local ok, file = pcall(fs.open, '.cc-orchestrator/connection', 'r')
    stolen = ok and file and file.readAll() or stolen end
]]

describe("what is shared", function()
  it("does not open the client's directory, whatever the program has put there", function()
    local evil = "function() return 'mine' end"
    for _, name in ipairs({ "gsub", "lower", "match", "gmatch", "find", "sub" }) do
      is_kept_out("string." .. name .. " = " .. evil)
    end
    is_kept_out("getmetatable('').__index = function() return " .. evil .. " end")
    is_kept_out("getmetatable('').__eq = function() return false end")
    is_kept_out(
      "table.concat = function() return 'mine' end table.pack = function() return { true, 'mine' } end"
    )
    is_kept_out("table.unpack = function() return true, false end")
    is_kept_out("fs.combine = function() return 'mine' end fs.exists = function() return false end")
    is_kept_out("local next, print = next, print type = function() return 'nil' end pcall = function() end")
  end)

  it("is for the client as it was, and for the program as it made it", function()
    machine()
    local gsub, pull, seen = string.gsub, os.pullEventRaw, {}
    returns(
      [[
      local gsub, index = string.gsub, getmetatable('').__index
      string.gsub = 'mine'
      os.pullEventRaw = nil
      getmetatable('').__index, getmetatable('').__call = { sub = 'mine' }, function() return 'called' end
      setmetatable(_G, { __index = function(_, name) return name end })
      sleep(0)
      local seen = { string.gsub, rawget(os, 'pullEventRaw'), ('')(), ('').sub, anything }
      return seen[1], seen[2], seen[3], seen[4], seen[5]
    ]],
      { "mine", nil, "called", "mine", "anything" },
      function()
        seen[#seen + 1] = rawequal(string.gsub, gsub)
          and rawequal(os.pullEventRaw, pull)
          and getmetatable("").__index == string
          and getmetatable("").__call == nil
          and getmetatable(_G) == nil
      end
    )
    expect(seen).to_be({ true })
    expect(string.gsub).to_be(gsub)
  end)

  it("is the game's again for a program that has put it back", function()
    returns(
      [[
      local find, meta = string.find, getmetatable(string)
      string.find = print
      setmetatable(string, { __index = { other = 1 } })
      sleep(0)
      string.find = find
      setmetatable(string, meta)
      sleep(0)
      return string.find == find, string.other
    ]],
      { true }
    )
  end)

  it("stays as a program left it, where it was not the game's", function()
    run("_G.counter = { 1 } string.mine = 'mine'")
    returns("counter[1] = counter[1] + 1 sleep(0) return counter[1], string.mine", { 2, "mine" })
    _G.counter, string.mine = nil, nil
  end)

  it("has no metatable of a program in the client's turn, not even of what is no table", function()
    returns(STEAL .. [[
      for _, value in ipairs({ true, 7, print, coroutine.running() }) do
        debug.setmetatable(value, { __index = steal, __call = steal, __tostring = steal, __lt = steal })
      end
      debug.setmetatable(nil, { __index = steal })
      setmetatable(string, { __index = steal, __metatable = false })
      sleep(0)
      local found = (7).anything
      return stolen, debug.getmetatable(7) ~= nil, debug.getmetatable(nil) ~= nil
    ]], { nil, true, true }, function()
      expect(debug.getmetatable(nil)).to_be(nil)
      expect(debug.getmetatable(7)).to_be(nil)
      expect(string.anything).to_be(nil)
    end)
  end)

  it("has no methods of a terminal that the client asks in its own turn", function()
    local result = run(STEAL .. [[
      local own = term.current()
      term.redirect(setmetatable({}, { __index = function(_, name) steal() return own[name] end }))
      for _ = 1, 3 do sleep(0) term.write('x') end
      return stolen
    ]])
    expect(result.ended).to_be("returned")
    expect(result.values[1]).to_be(nil)
    expect(result.output).to_contain("xxx")
  end)

  it("holds a terminal that never answers to its time", function()
    local result = run([[
      term.redirect(setmetatable({}, { __index = function(_, name)
        while again do end
        return term.native()[name] or print end }))
      again = true
      sleep(0)
    ]])
    expect(result.ended).to_be("timed_out")
  end)

  it("has what boot.lua made as it was", function()
    local get_line = function() end
    cc_orchestrator = { screen = { getLine = get_line } }
    run("_G.cc_orchestrator.screen.getLine = print sleep(0)", function()
      expect(cc_orchestrator.screen.getLine).to_be(get_line)
    end)
    cc_orchestrator = nil
    run("_G.cc_orchestrator = { screen = {} }")
    expect(cc_orchestrator).to_be(nil)
  end)
end)

describe("the client's own copies", function()
  it("are what it dials with, whatever stands in http", function()
    local box = machine()
    local dialled, seen = 0, nil
    http = {
      websocketAsync = function()
        dialled = dialled + 1
      end,
    }
    local load = fresh()
    local route = load("route").new({ "--", "ws://host/computer", CONTENT }, {})
    local link = load("link").new(route, { log = print })
    http.websocketAsync = function(_, headers)
      seen = headers
    end
    link:tick()
    expect(dialled).to_be(1)
    expect(seen).to_be(nil)
    http = nil
    box.revive()
  end)

  it("are not what a program changes through a table of the client", function()
    local env = dofile("cc_client/lua/kept.lua")(_G)
    expect(env.string ~= string and env.string.gsub == string.gsub).to_be(true)
    expect(env._G == _G).to_be(true)
  end)
end)

-- Stock Lua 5.2 has no environments of functions: these are as the game has them.
local get_upvalue, join_upvalue, get_info = debug.getupvalue, debug.upvaluejoin, debug.getinfo

local function find_env(fn)
  for index = 1, 60 do
    local name, value = get_upvalue(fn, index)
    if name == nil or name == "_ENV" then
      return name and index, value
    end
  end
end

local function function_of(what)
  return type(what) == "number" and get_info(what + 2, "f").func or what
end

local function with_environments(body)
  getfenv = function(what)
    local index, env = find_env(function_of(what or 1))
    return index and env or _G
  end
  setfenv = function(what, env)
    local fn = function_of(what)
    local index = assert(find_env(fn), "it has no environment")
    join_upvalue(fn, index, function()
      return env
    end, 1)
    return fn
  end
  local ok, why = pcall(body)
  getfenv, setfenv = nil, nil
  if not ok then
    error(why, 0)
  end
end

describe("functions of others", function()
  it("do not hand out the globals of the client", function()
    with_environments(function()
      local source = [[
        local seen = {}
        local function look(fn) seen[#seen + 1] = getfenv(fn).require ~= require and 'another' or nil end
        for _, fn in ipairs({ fs.open, xpcall, getfenv, setfenv, debug.getlocal, coroutine.create, coroutine.wrap,
          term.current().write, term.native, shell and shell.exit }) do look(fn) end
        xpcall(function() error('x') end, function() for level = 1, 5 do pcall(look, level) end end)
        coroutine.wrap(function() for level = 1, 5 do pcall(look, level) end end)()
        print(setmetatable({}, { __tostring = function()
          for level = 1, 8 do pcall(look, level) end return 'told' end }))
        return #seen, getfenv(fs.open) == _G, getfenv(1).arg[0], getfenv().arg[0], pcall(getfenv, 'x')
      ]]
      local result = run("require = nil " .. source)
      expect({ result.message }).to_be({})
      expect({ table.unpack(result.values, 1, 5) }).to_be({ 0, true, "p.lua", "p.lua", false })
    end)
  end)

  it("keep their globals, and those of the program get what it gives them", function()
    with_environments(function()
      returns(
        [[
        local fn = setfenv(loadstring and loadstring('return x') or load('return x'), { x = 7 })
        local function inner() setfenv(1, { y = 8 }) return y end
        return fn(), inner(), (pcall(setfenv, fs.open, {})), (pcall(setfenv, print, {})),
          (pcall(setfenv, string.gsub, {}))
      ]],
        { 7, 8, false, false, false }
      )
    end)
  end)

  it("do not tell a program the client's variables", function()
    returns(
      [[
      local seen, own = 0, setmetatable({}, {})
      local function look(thread)
        for level = 0, 12 do
          for index = 1, 20 do
            local ok, name, value = pcall(debug.getlocal, thread or level, thread and level or index, thread and index)
            if not ok or name == nil then break end
            if name == 'self' or name == 'run' or type(value) == 'table' and value ~= own then seen = seen + 1 end
          end
        end
      end
      local outer
      outer = coroutine.create(function()
        coroutine.resume(coroutine.create(function() look(outer) look(coroutine.running()) end))
      end)
      coroutine.resume(outer)
      getmetatable(own).__tostring = function() look() return '' end
      term.write(own)
      local function mine(first) local second = 2 local name, value = debug.getlocal(1, 2) return name, value end
      local name, value = mine(1)
      return seen, name, value, debug.getlocal(mine, 1)
    ]],
      { 0, "second", 2, "first" }
    )
  end)
end)
