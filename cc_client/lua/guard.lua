--- Keeps a program that never yields from taking the computer down.
--
-- After 7 s without a yield the mod throws one error; if that is caught in a loop, it switches the
-- computer off and it stays off. So each coroutine of a program gets a count hook that throws first,
-- and goes on throwing at every instruction, which ends loops around `pcall` too. A hook does not
-- reach child coroutines, so while the program runs `coroutine.create` and `coroutine.wrap` are ours;
-- `parallel` and programs loaded by it find them there.
-- @module guard

local Guard = {}
Guard.__index = Guard

--- Well under the 7 s of the mod, so that a slow tick does not let it win.
local MAX_BUSY_MS = 4000
--- Instructions between two looks at the clock.
local HOOK_EVERY = 10000

local native_create, native_wrap = coroutine.create, coroutine.wrap
local set_hook = debug and debug.sethook

local function now_ms()
  return os.epoch("utc")
end

--- A guard for one program.
-- @tparam number deadline_ms when the program's whole time is over, on `os.epoch("utc")`
function Guard.new(deadline_ms)
  local self = setmetatable({ deadline_ms = deadline_ms, stop_at_ms = 0 }, Guard)
  self.create = function(body)
    return self:watch(native_create(body))
  end
  self.wrap = function(body)
    local co = self.create(body)
    return function(...)
      local results = table.pack(coroutine.resume(co, ...))
      if not results[1] then
        error(results[2], 0)
      end
      return table.unpack(results, 2, results.n)
    end
  end
  return self
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
  local function hook()
    if not self.tripped then
      local now = now_ms()
      if now < self.stop_at_ms then
        return
      end
      self.tripped = now >= self.deadline_ms and "deadline" or "busy"
    end
    set_hook(co, hook, "", 1)
    error("Too long without yielding", 2)
  end
  set_hook(co, hook, "", HOOK_EVERY)
  return co
end

--- Resumes the program for at most as long as it may be busy; returns what `coroutine.resume` does.
-- @tparam thread co the program's coroutine
-- @tparam number grace_ms what it gets at least, even after its deadline
function Guard:resume(co, grace_ms, ...)
  local now = now_ms()
  self.stop_at_ms = math.max(now + grace_ms, math.min(now + MAX_BUSY_MS, self.deadline_ms))
  coroutine.create, coroutine.wrap = self.create, self.wrap
  local results = table.pack(coroutine.resume(co, ...))
  coroutine.create, coroutine.wrap = native_create, native_wrap
  return table.unpack(results, 1, results.n)
end

return Guard
