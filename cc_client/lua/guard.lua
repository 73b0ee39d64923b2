--- Keeps a program that never yields from taking the computer down.
--
-- After 7 s without a yield the mod throws one error; if that is caught in a loop, it switches the
-- computer off and it stays off. So each coroutine of a program gets a count hook that throws first,
-- and goes on throwing at every instruction, which ends loops around `pcall` too. The 7 s begin with the
-- event that the computer handles, which all of its programs share: `Guard.begin_turn` is told when the
-- client got it. While the program runs, some globals are ours (`Guard:own`), and whatever it loads finds them there:
--
-- * `coroutine.create`, `wrap` and `resume`, because a hook does not reach child coroutines, and a new
--   one has time until its first hook: once the guard has struck, no other coroutine runs;
-- * `xpcall`, because a message handler that is called from a hook runs without hooks: once the guard
--   has struck, the program's handlers are passed over;
-- * `debug`, `getfenv` and `setfenv`, without what sets hooks or reaches into functions that are not the program's.
--
-- What it cannot stop: one long call of a function in C (`string.rep`, `string.find` with a bad
-- pattern, `table.sort` of a huge list between two comparisons), because hooks run between
-- instructions of Lua; thousands of `pcall` inside each other, each of which has to be left; and a
-- program that means harm, as all share one computer.
-- @module guard

local shared = require("shared")

local Guard = {}
Guard.__index = Guard

--- What the mod allows. It is a constant there, and Lua cannot ask for it.
local GAME_ALLOWS_MS = 7000
--- How long before that we stop a program. The mod turns the computer off 1.5 s after its own limit.
local MARGIN_MS = 500
--- A longer time may come from an emulator; nobody wants to wait longer for a computer that does not answer.
local MIN_ALLOWED_MS, MAX_ALLOWED_MS = 1000, 60000
--- Instructions between two looks at the clock, and where they took longer than `SLOW_MS`.
local HOOK_EVERY, HOOK_SLOW, SLOW_MS = 10000, 100, 25
--- What a busy turn leaves too little time for.
local TURN_MS = 500
--- What the error of a busy program says, whatever stands before and behind it.
local TOO_LONG = "was busy for too long without a pause"
Guard.TOO_LONG = TOO_LONG
--- The words of the mod.
local MOD_TOO_LONG = "Too long without yielding"

local native_create, native_resume = coroutine.create, coroutine.resume
local native_status, native_running = coroutine.status, coroutine.running
local native_xpcall, native_debug = xpcall, debug
local native_getfenv, native_setfenv = _G.getfenv, _G.setfenv
local set_hook = debug and debug.sethook

-- What a program learns of functions ---------------------------------------------------------------

--- The files of the client, as tracebacks call them: a program must not be told of lines that are not its own.
local own_files = {}
--- The files of the game.
local game_files = {}

--- Tells the guard a function of a file that may stand in the stack of a program.
function Guard.owns(fn)
  local info = native_debug and native_debug.getinfo and native_debug.getinfo(fn, "S")
  if info then
    own_files[info.short_src] = true
  end
end

--- What is known of a function: `S` of `debug.getinfo`; as of one in C, where nothing is.
local function source_of(fn)
  local get = native_debug and native_debug.getinfo
  return fn and get and get(fn, "S") or { what = "C", short_src = "", source = "" }
end

for fn in shared.functions() do
  game_files[source_of(fn).source] = true
end

--- Whether a function is one of the client.
local function is_client(fn)
  return own_files[source_of(fn).short_src] or _ENV ~= _G and native_getfenv and native_getfenv(fn) == _ENV
end

--- Whether a program may not see into a function: it is one of the client, of the game, or in C.
local function is_foreign(fn)
  local info = source_of(fn)
  return info.what == "C" or game_files[info.source] or string.find(info.source, "^@/?rom/") or is_client(fn)
end

--- The function at a level of a thread, or of the caller's caller; nil: there is none.
local function at_level(thread, level)
  local info
  if thread then
    info = native_debug.getinfo(thread, level, "f")
  else
    -- Above it are this function, the one that a program called, and what it calls itself.
    info = native_debug.getinfo(level + 2, "f")
  end
  return info and info.func
end

--- `getlocal` or `setlocal` for functions that are not the client's.
local function reaching_locals(native)
  return function(...)
    local thread = type((...)) == "thread" and (...) or nil
    local what, index, value = select(thread and 2 or 1, ...)
    if thread == native_running() then
      thread = nil
    end
    if type(what) ~= "number" then
      return native(...)
    elseif is_client(at_level(thread, what)) then
      return nil
    elseif thread then
      return native(...)
    end
    -- This function stands above its caller; what it returns is no tail call, so it still does.
    local name, found = native(what + 1, index, value)
    return name, found
  end
end

--- `getinfo` without the functions of others: where one of the game fails, a level is the function in whose place
-- the program has ours.
local function telling_info(native)
  return function(...)
    local thread = type((...)) == "thread" and (...) or nil
    local what, options = select(thread and 2 or 1, ...)
    if type(what) == "function" then
      return native(...)
    elseif thread == native_running() then
      thread = nil
    end
    local info
    if thread then
      info = native(thread, what, options)
    else
      -- One level more, for this function.
      info = native(type(what) == "number" and what + 1 or what, options)
    end
    if info and info.func and is_foreign(info.func) then
      info.func = nil
    end
    return info
  end
end

--- `getfenv` and `setfenv` for functions of programs; others are as those in C, whose globals are those of all.
local function program_environments()
  local function function_of(what, name)
    local fn = what
    if type(what) == "number" then
      -- One level more, for this function.
      fn = what > 0 and native_debug and at_level(nil, what + 1) or nil
    end
    if type(fn) ~= "function" and what ~= 0 then
      error("bad argument #1 to '" .. name .. "' (function or level expected)", 3)
    end
    return fn
  end
  local function get(what)
    local fn = function_of(what == nil and 1 or what, "getfenv")
    return (is_foreign(fn) and _G or native_getfenv(fn))
  end
  local function set(what, env)
    local fn = function_of(what, "setfenv")
    if is_foreign(fn) then
      error("'setfenv' cannot change environment of given object", 2)
    end
    return (native_setfenv(fn, env))
  end
  return native_getfenv and get, native_setfenv and set
end

--- What a program gets as `debug`: hooks are the guard's, and nothing leads into its functions.
local function program_debug(getfenv, setfenv)
  if not native_debug then
    return nil
  end
  local own = {}
  for name, value in pairs(native_debug) do
    own[name] = value
  end
  own.getupvalue, own.setupvalue, own.upvalueid, own.upvaluejoin = nil, nil, nil, nil
  own.getinfo = own.getinfo and telling_info(own.getinfo)
  own.getlocal = own.getlocal and reaching_locals(own.getlocal)
  own.setlocal = own.setlocal and reaching_locals(own.setlocal)
  own.getfenv, own.setfenv = own.getfenv and getfenv, own.setfenv and setfenv
  if native_debug.getregistry then
    -- All that the ROM keeps there, without which its module cc.internal.exception does not load.
    local registry = { cc_try_barrier = native_debug.getregistry().cc_try_barrier }
    own.getregistry = function()
      return registry
    end
  end
  own.sethook = function() end
  own.gethook = function() end
  return own
end

local function check(self)
  if self.tripped then
    error(self.message, 0)
  end
end

--- Notes what a coroutine inside of the program waits for, and returns what its resume returned. One that
-- is not handed the events of the computer makes values, and waits for nothing.
local function note(self, co, is_handed, ok, filter, ...)
  local is_waiting = ok and is_handed and (filter == nil or type(filter) == "string")
  self.waits[co] = is_waiting and native_status(co) == "suspended" and (filter or "") or nil
  return ok, filter, ...
end

local function resume_noted(self, co, ...)
  check(self)
  if type(co) ~= "thread" then
    return native_resume(co, ...)
  end
  local is_handed = self.is_new[co] or (...) ~= nil and (...) == self.event
  self.is_new[co], self.parent[co] = nil, native_running()
  return note(self, co, is_handed, native_resume(co, ...))
end

local function guarded_wrap(self)
  return function(body)
    local co = self.create(body)
    return function(...)
      local results = table.pack(resume_noted(self, co, ...))
      if not results[1] then
        error(results[2], 0)
      end
      return table.unpack(results, 2, results.n)
    end
  end
end

local function guarded_resume(self)
  return function(...)
    return resume_noted(self, ...)
  end
end

local function guarded_xpcall(self)
  return function(body, handler, ...)
    return native_xpcall(body, function(...)
      if self.tripped then
        return (...)
      end
      return handler(...)
    end, ...)
  end
end

--- How long a program may be busy here. Of all that play the mod only the emulator CraftOS-PC tells its limit.
local function allowed_ms()
  local ok, told = pcall(function()
    return tostring(_HOST):find("CraftOS%-PC") and config.get("abortTimeout")
  end)
  told = ok and type(told) == "number" and told or GAME_ALLOWS_MS
  return math.max(MIN_ALLOWED_MS, math.min(MAX_ALLOWED_MS, told))
end

-- Whose lines an error names ----------------------------------------------------------------------

--- Where the program is now, as `/farm.lua:3: `; else in a file of the game; empty: not known.
local function position()
  local get, other = native_debug.getinfo, ""
  for level = 0, 200 do
    local info = get and get(level, "Sl")
    if not info then
      break
    elseif info.currentline > 0 and not own_files[info.short_src] then
      local place = info.short_src .. ":" .. info.currentline .. ": "
      if string.find(info.source, "^@/") and not string.find(info.source, "^@/rom/") then
        return place
      end
      other = other == "" and place or other
    end
  end
  return other
end

--- The text of an error without lines of the client, and in our words where the mod was faster than we.
function Guard:clean(text)
  local lines = {}
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do
    local file = line:match("^%s+(.-):%d+: in ")
    if not own_files[file or ""] then
      lines[#lines + 1] = line
    elseif lines[1] and lines[#lines]:find("^%s+%[C%]: in ") then
      -- What our line had called.
      lines[#lines] = nil
    end
  end
  local was_long = self.was_busy_ms >= self.allowed_ms - MARGIN_MS
  local before = was_long and lines[1]:match("^(.*)" .. MOD_TOO_LONG .. "$")
  if before then
    lines[1] = before .. self:sentence()
  end
  return table.concat(lines, "\n")
end

-- The guard ---------------------------------------------------------------------------------------

--- When the computer began to handle the present event; nil: not known.
local turn_at_ms

--- Tells when the computer began to handle the present event, on `os.epoch("utc")`; nil: nobody knows.
function Guard.begin_turn(now_ms)
  turn_at_ms = now_ms
end

--- Whether so much of the present turn is used that a program should wait for the next one.
function Guard.is_late()
  return turn_at_ms ~= nil and math.abs(os.epoch("utc") - turn_at_ms) > TURN_MS
end

--- What a program is told that was busy for too long, or when its time was over.
function Guard:sentence()
  if self.tripped == "deadline" then
    return "The program " .. TOO_LONG .. " when its time was over."
  end
  local ours_s, game_s = (self.allowed_ms - MARGIN_MS) / 1000, self.allowed_ms / 1000
  local why =
    "The program %s: it was stopped after %.1f s, as the game allows %.1f s. Call sleep(0) in its long loops."
  return string.format(why, TOO_LONG, ours_s, game_s)
end

--- A guard for one program.
-- @tparam number deadline_ms when the program's whole time is over, on `os.epoch("utc")`
function Guard.new(deadline_ms)
  local self = setmetatable({ deadline_ms = deadline_ms, stop_at_ms = 0, was_busy_ms = 0 }, Guard)
  self.allowed_ms = allowed_ms()
  -- The clock of today: a program may change that of tomorrow.
  self.epoch = os.epoch
  -- Of the coroutines inside of the program: what each waits for, whether it has not run yet, who resumed it.
  for _, name in ipairs({ "waits", "is_new", "parent" }) do
    self[name] = setmetatable({}, { __mode = "k" })
  end
  self.create = function(body)
    check(self)
    local co = self:watch(native_create(body))
    self.is_new[co] = true
    return co
  end
  return self
end

--- What the program has in place of the game's, as `shared.view` takes it.
function Guard:own()
  local library, getfenv, setfenv = _G.coroutine, program_environments()
  return {
    { library, "create", self.create },
    { library, "wrap", guarded_wrap(self) },
    { library, "resume", guarded_resume(self) },
    { _G, "xpcall", guarded_xpcall(self) },
    { _G, "debug", program_debug(getfenv, setfenv) },
    { _G, "getfenv", getfenv },
    { _G, "setfenv", setfenv },
  }
end

--- Whether this computer can be guarded at all.
function Guard.works()
  return set_hook ~= nil
end

--- Sets the hook on a coroutine of the program and returns it.
function Guard:watch(co)
  if not set_hook then
    return co
  end
  local every = HOOK_EVERY
  local function hook()
    if not self.running then
      -- Somebody else's turn: the program left this coroutine in another tab.
      return
    elseif not self.tripped then
      local now = self.epoch("utc")
      if now < self.stop_at_ms then
        -- Where each instruction takes long, such as a search in a long text, there must be more looks.
        local wanted = now - self.looked_at_ms > SLOW_MS and HOOK_SLOW or HOOK_EVERY
        self.looked_at_ms = now
        if wanted ~= every then
          every = wanted
          set_hook(co, hook, "", every)
        end
        return
      end
      self.tripped = now >= self.deadline_ms and "deadline" or "busy"
      self.message = position() .. self:sentence()
    end
    set_hook(co, hook, "", 1)
    error(self.message, 0)
  end
  set_hook(co, hook, "", every)
  return co
end

--- Resumes the program for at most as long as it may be busy; returns what `coroutine.resume` does.
-- @tparam table view what it has changed of what is shared, see `shared`
-- @tparam thread co the program's coroutine
-- @tparam number grace_ms what it gets at least, even after its deadline
function Guard:resume(view, co, grace_ms, ...)
  local now = self.epoch("utc")
  local began = turn_at_ms and turn_at_ms <= now and turn_at_ms or now
  local busy_until = began + self.allowed_ms - MARGIN_MS
  self.stop_at_ms = math.max(now + grace_ms, math.min(busy_until, self.deadline_ms))
  self.looked_at_ms = now
  self.running, self.event = true, (...)
  view:enter()
  local results = table.pack(native_resume(co, ...))
  view:leave()
  self.running, self.was_busy_ms = false, self.epoch("utc") - began
  return table.unpack(results, 1, results.n)
end

--- The events that the program waits for; `""` stands for any event.
-- @param filter what its own coroutine yielded last
-- @treturn table a set: name = true
function Guard:waits_for(filter)
  local names, schedulers = {}, {}
  if type(filter) == "string" then
    return { [filter] = true }
  end
  for co in pairs(self.waits) do
    local parent = self.parent[co]
    if parent and native_status(co) == "suspended" then
      schedulers[parent] = true
    end
  end
  for co, name in pairs(self.waits) do
    if native_status(co) == "suspended" and (name ~= "" or not schedulers[co]) then
      names[name] = true
    end
  end
  return next(names) and names or { [""] = true }
end

--- The text of any value, made inside the guard: `__tostring` is the program's.
function Guard:text(view, value, grace_ms)
  if type(value) == "string" then
    return value
  end
  self.tripped, self.message = nil, nil
  local ok, text = self:resume(view, self.create(tostring), grace_ms, value)
  return ok and type(text) == "string" and text or "a " .. type(value)
end

Guard.owns(Guard.new)

return Guard
