--- The method info: what this computer says of itself and of what stands beside it.
-- @module about

local answers = require("answers")
local disk = require("disk")
local json = require("json")
local params = require("params")

local about = {}

--- A number as the protocol has it; -1 for what has no limit.
local function limit(value)
  return type(value) == "number" and value < 1e13 and math.floor(value) or -1
end

local function capacity()
  local _, bytes = disk.try(fs.getCapacity, "")
  return limit(bytes)
end

--- `{name, types}` of everything attached, sorted by name.
local function peripherals()
  local list = {}
  local ok, names = disk.try(peripheral and peripheral.getNames or error)
  for index, name in ipairs(ok and names or {}) do
    local types = { disk.try(peripheral.getType, name) }
    -- Since 1.99 one of them may have several types.
    list[index] = { name = name, types = json.array(types[1] and { table.unpack(types, 2) } or {}) }
  end
  table.sort(list, function(left, right)
    return left.name < right.name
  end)
  return list
end

local function facts()
  local data = { free = limit(disk.free_bytes("")), capacity = capacity() }
  data.uptime_s = math.floor(os.clock())
  data.day, data.time = math.floor(os.day()), math.floor(os.time() * 60)
  if turtle then
    data.fuel = limit(turtle.getFuelLevel())
  end
  -- In parentheses: it returns no value at all for a computer without a label.
  local label = (os.getComputerLabel())
  data.label = label and label:sub(1, 64)
  return data
end

function about.info(given, body, has_body, job)
  params.check(given, {})
  params.no_body(body, has_body)
  return answers.after_start(function()
    local list = peripherals()
    return answers.done(facts(), (answers.list(#list, function(index)
      return list[index]
    end, job.pause)))
  end)
end

return about
