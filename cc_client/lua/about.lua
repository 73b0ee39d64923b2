--- The methods info and label: what this computer says of itself and of what stands beside it.
-- @module about

local answers = require("answers")
local disk = require("disk")
local family = require("family")
local json = require("json")
local labels = require("labels")
local params = require("params")
local tabs = require("tabs")

local about = {}

local SLOTS = 16

--- A number as the protocol has it; -1 for what has no limit.
local function limit(value)
  return type(value) == "number" and value < 1e13 and math.floor(value) or -1
end

local function capacity()
  local _, bytes = disk.try(fs.getCapacity, "")
  return limit(bytes)
end

--- `{name, types, methods}` of everything attached, sorted by name.
local function peripherals()
  local list = {}
  local ok, names = disk.try(peripheral and peripheral.getNames or error)
  for index, name in ipairs(ok and names or {}) do
    local types = { disk.try(peripheral.getType, name) }
    local known, methods = disk.try(peripheral.getMethods, name)
    methods = known and methods or {}
    table.sort(methods)
    -- Since 1.99 one of them may have several types.
    types = types[1] and { table.unpack(types, 2) } or {}
    list[index] = { name = name, types = json.array(types), methods = json.array(methods) }
  end
  table.sort(list, function(left, right)
    return left.name < right.name
  end)
  return list
end

--- Adds each side with a signal, as `{side, input, output}`.
local function add_redstone(list)
  for _, side in ipairs(redstone and redstone.getSides() or {}) do
    local _, coming = disk.try(redstone.getAnalogInput, side)
    local _, going = disk.try(redstone.getAnalogOutput, side)
    local entry = { side = side, input = tonumber(coming) or 0, output = tonumber(going) or 0 }
    if entry.input ~= 0 or entry.output ~= 0 then
      list[#list + 1] = entry
    end
  end
end

--- Adds each slot of a turtle that is not empty, as `{slot, item, count}`.
local function add_slots(list)
  for slot = 1, turtle and turtle.getItemDetail and SLOTS or 0 do
    local _, item = disk.try(turtle.getItemDetail, slot)
    if type(item) == "table" then
      list[#list + 1] = { slot = slot, item = tostring(item.name), count = limit(item.count) }
    end
  end
end

local function facts()
  local data = { free = limit(disk.free_bytes("")), capacity = capacity() }
  data.uptime_s = math.floor(os.clock())
  data.day, data.time = math.floor(os.day()), math.floor(os.time() * 60)
  data.id, data.family, data.host = os.getComputerID(), family(), tostring(_HOST):sub(1, 128)
  if turtle then
    data.fuel = limit(turtle.getFuelLevel())
    data.fuel_limit = turtle.getFuelLimit and limit(turtle.getFuelLimit())
    data.selected = turtle.getSelectedSlot and turtle.getSelectedSlot()
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
    add_redstone(list)
    add_slots(list)
    for _, entry in ipairs(tabs.told()) do
      list[#list + 1] = entry
    end
    return answers.done(facts(), (answers.list(#list, function(index)
      return list[index]
    end, job.pause)))
  end)
end

--- The most that the game keeps of a label.
local MAX_LABEL_BYTES = 32

--- Reads the label, or sets it to `name`; the session tells a new one before the answer.
function about.label(given, body, has_body)
  params.check(given, { "name?" })
  params.no_body(body, has_body)
  if given.name and (#given.name > MAX_LABEL_BYTES or given.name:find("[^ -~]")) then
    params.bad("A label has at most " .. MAX_LABEL_BYTES .. " printable ASCII characters.")
  end
  return answers.after_start(function()
    local before = labels.now()
    if given.name then
      labels.set(given.name)
    end
    return answers.done({ before = before })
  end)
end

return about
