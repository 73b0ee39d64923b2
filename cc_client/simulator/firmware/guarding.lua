--- The mod's watchdog: 7 s without a yield is one error; 1.5 s more and the computer is off and stays off.
-- @module guarding

local kernel = ...
local host = kernel.host

local WATCHDOG_S, GRACE_S = 7, 1.5
local stock_create, set_hook = coroutine.create, debug.sethook
local resumed_at, warned = host.now(), false

local function watchdog()
  local busy_s = host.now() - resumed_at
  if busy_s > WATCHDOG_S + GRACE_S then
    host.abort("too long without yielding")
  elseif busy_s > WATCHDOG_S and not warned then
    warned = true
    error("Too long without yielding", 2)
  end
end

--- The computer is about to be resumed.
function kernel.rearm()
  resumed_at, warned = host.now(), false
end

function coroutine.create(body)
  local co = stock_create(body)
  set_hook(co, watchdog, "", 1000000)
  return co
end

function coroutine.wrap(body)
  local co = coroutine.create(body)
  return function(...)
    local results = table.pack(coroutine.resume(co, ...))
    if not results[1] then
      error(results[2], 0)
    end
    return table.unpack(results, 2, results.n)
  end
end
