--- The globals `os` and `_HOST`, and what the game keeps of Lua 5.1.
-- @module system

local kernel = ...
local host, expect = kernel.host, kernel.expect

unpack = table.unpack
_HOST = host.version()
_CC_DEFAULT_SETTINGS = ""

--- A value as an event carries it: tables are copied, functions and threads are lost.
local function carried(value, seen)
  if type(value) == "function" or type(value) == "thread" then
    return nil
  elseif type(value) ~= "table" or getmetatable(value) == kernel.object then
    return value
  elseif seen[value] then
    return seen[value]
  end
  local copy = {}
  seen[value] = copy
  for key, item in pairs(value) do
    local kept = carried(key, seen)
    if kept ~= nil then
      copy[kept] = carried(item, seen)
    end
  end
  return copy
end

--- The events with tables that wait, by number: the host has only the number.
local held, last = {}, 0

function kernel.release(number)
  local event = held[number]
  if event then
    held[number] = nil
    return table.unpack(event, 1, event.n)
  end
end

os = {
  clock = host.clock,
  queueEvent = function(name, ...)
    expect(1, name, "string")
    local values, has_table = table.pack(...), false
    for index = 1, values.n do
      values[index] = carried(values[index], {})
      has_table = has_table or type(values[index]) == "table"
    end
    if not has_table then
      host.queue_event(name, table.unpack(values, 1, values.n))
      return
    end
    last = last + 1
    if host.queue_event("\0held", last) then
      held[last] = table.pack(name, table.unpack(values, 1, values.n))
    end
  end,
  startTimer = function(seconds)
    expect(1, seconds, "number")
    return host.start_timer(seconds)
  end,
  cancelTimer = function(id)
    expect(1, id, "number")
    host.cancel_timer(id)
  end,
  getComputerID = host.computer_id,
  computerID = host.computer_id,
  setComputerLabel = function(label)
    expect(1, label, "string", "nil")
    host.set_label(label)
  end,
  date = kernel.date,
}

function os.getComputerLabel()
  local label = host.get_label()
  -- No value at all, not nil, when there is none.
  if label == nil then
    return
  end
  return label
end
os.computerLabel = os.getComputerLabel

function os.version()
  return "CraftOS 1.9"
end

function os.epoch()
  return host.epoch_ms()
end

function os.day()
  return math.floor(host.epoch_ms() / 86400000)
end

function os.time(when)
  if type(when) == "table" then
    return 0
  end
  return host.epoch_ms() / 3600000 % 24
end

function os.pullEventRaw(filter)
  return coroutine.yield(filter)
end

function os.pullEvent(filter)
  local event = table.pack(coroutine.yield(filter))
  if event[1] == "terminate" then
    error("Terminated", 0)
  end
  return table.unpack(event, 1, event.n)
end

local function power(how)
  return function()
    host.power(how)
    while true do
      coroutine.yield()
    end
  end
end
os.shutdown, os.reboot = power("shutdown"), power("reboot")

function os.sleep(seconds)
  local timer = os.startTimer(seconds or 0)
  repeat
    local _, id = os.pullEvent("timer")
  until id == timer
end
sleep = os.sleep
