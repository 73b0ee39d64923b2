--- The first half of the mod's watchdog: 7 s without a yield is one error. The host has the second, which
-- turns the computer off 1.5 s later.
-- @module guarding

local kernel = ...
local host = kernel.host

local WATCHDOG_S = 7
local stock_create, resume, set_hook = coroutine.create, coroutine.resume, debug.sethook
local resumed_at, warned = host.now(), false

local function watchdog()
  if not warned and host.now() - resumed_at > WATCHDOG_S then
    warned = true
    error("Too long without yielding", 2)
  end
end

--- The computer is about to be resumed.
function kernel.rearm()
  resumed_at, warned = host.now(), false
end

local function create(body)
  local co = stock_create(body)
  set_hook(co, watchdog, "", 1000000)
  return co
end

coroutine.create = create

function coroutine.wrap(body)
  local co = create(body)
  return function(...)
    local results = table.pack(resume(co, ...))
    if not results[1] then
      error(results[2], 0)
    end
    return table.unpack(results, 2, results.n)
  end
end
