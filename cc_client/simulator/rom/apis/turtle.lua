--- The turtle: each command takes ticks, and the event `turtle_response` ends it.
-- @module turtle

local kernel = ...
local host, fact = kernel.host, kernel.native("turtle_fact")

local turtle = { native = {} }

local COMMANDS =
  "forward back up down turnLeft turnRight select transferTo compareTo refuel equipLeft equipRight"
local AROUND = "dig place detect inspect compare drop suck attack"
local FACTS = "getItemCount getItemSpace getItemDetail getSelectedSlot getFuelLevel getFuelLimit"

local function command(name)
  return function(...)
    local ok, id = host.turtle_command(name, ...)
    if not ok then
      error(id, 2)
    end
    local event
    repeat
      event = table.pack(os.pullEvent("turtle_response"))
    until event[2] == id
    return table.unpack(event, 3, event.n)
  end
end

for name in COMMANDS:gmatch("%a+") do
  turtle[name] = command(name)
end
for verb in AROUND:gmatch("%a+") do
  for _, suffix in ipairs({ "", "Up", "Down" }) do
    turtle[verb .. suffix] = command(verb .. suffix)
  end
end
for name in FACTS:gmatch("%a+") do
  turtle[name] = function(...)
    return fact(name, ...)
  end
end
for name, fn in pairs(turtle) do
  turtle.native[name] = name ~= "native" and fn or nil
end

return turtle
