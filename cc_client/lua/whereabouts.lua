--- What the server is told with a pong that asks for it: the fuel of a turtle, and the place that was known last.
--
-- Nobody is asked for the place: `gps.locate` would take time and a modem's channel. A command computer knows its own
-- for nothing; elsewhere it is noted when a program of a task has located itself. A turtle may have gone on since, so
-- the age is told too.
-- @module whereabouts

local disk = require("disk")

local whereabouts = {}

-- A program may put its own into these tables.
local floor, kind = math.floor, type
local MOST = 1e9

local known, known_ms

local function is_coordinate(value)
  return kind(value) == "number" and value >= -MOST and value <= MOST
end

--- Notes what was located, and hands it on.
local function note(epoch, x, y, z, ...)
  if is_coordinate(x) and is_coordinate(y) and is_coordinate(z) then
    known, known_ms = { floor(x), floor(y), floor(z) }, epoch("utc")
  end
  return x, y, z, ...
end

--- `gps.locate` for a program, which learns nothing else by it.
function whereabouts.locate(native)
  local epoch = os.epoch
  return function(...)
    return note(epoch, native(...))
  end
end

local function amount(value)
  return kind(value) == "number" and value >= 0 and value < 1e12 and floor(value) or -1
end

--- `{fuel, fuel_limit, at, at_age_s}`, each nil where it is not known.
function whereabouts.told()
  local told = {}
  if turtle then
    told.fuel = amount(turtle.getFuelLevel())
    told.fuel_limit = turtle.getFuelLimit and amount(turtle.getFuelLimit())
  end
  if commands and commands.getBlockPosition then
    local ok, x, y, z = disk.try(commands.getBlockPosition)
    if ok then
      note(os.epoch, x, y, z)
    end
  end
  if known then
    told.at, told.at_age_s = known, math.max(0, floor((os.epoch("utc") - known_ms) / 1000))
  end
  return told
end

return whereabouts
