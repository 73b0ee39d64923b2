--- Peripherals: at the six sides, and through a wired modem on its network.
-- @module peripheral

local kernel = ...
local host, expect = kernel.host, kernel.expect

local peripheral = {}
local SIDES = redstone.getSides()
--- From here on a peripheral may be of several types.
local MANY_TYPES = host.at_least(1, 99)

local function includes(list, wanted)
  for _, each in ipairs(list or {}) do
    if each == wanted then
      return true
    end
  end
  return false
end

--- A method of what is at a side; a slow one waits for the next tick, as `task_complete` tells.
local function call_side(side, method, ...)
  local results = table.pack(host.peripheral_call(side, method, ...))
  if results[1] == nil then
    local task = results[2]
    repeat
      results = table.pack(os.pullEvent("task_complete"))
    until results[2] == task
    results = table.pack(table.unpack(results, 3, results.n))
  end
  if not results[1] then
    error(results[2], 3)
  end
  return table.unpack(results, 2, results.n)
end

local function hubs()
  local found = {}
  for _, side in ipairs(SIDES) do
    if includes(host.peripheral_types(side), "peripheral_hub") then
      found[#found + 1] = side
    end
  end
  return found
end

--- The hub through which a name is reached, or nil.
local function hub_of(name)
  for _, side in ipairs(hubs()) do
    if call_side(side, "isPresentRemote", name) then
      return side
    end
  end
end

local function types_of(name)
  local types = host.peripheral_types(name)
  if types then
    return types
  end
  local hub = hub_of(name)
  return hub and { call_side(hub, "getTypeRemote", name) } or nil
end

function peripheral.getNames()
  local names = {}
  for _, side in ipairs(SIDES) do
    local types = host.peripheral_types(side)
    if types then
      names[#names + 1] = side
      if includes(types, "peripheral_hub") then
        for _, name in ipairs(call_side(side, "getNamesRemote")) do
          names[#names + 1] = name
        end
      end
    end
  end
  return names
end

function peripheral.isPresent(name)
  expect(1, name, "string")
  return types_of(name) ~= nil
end

--- The metatable of a wrapped peripheral.
local function about(wrapped)
  local meta = getmetatable(wrapped)
  if not meta or meta.__name ~= "peripheral" then
    error("bad argument #1 (table is not a peripheral)", 3)
  end
  return meta
end

function peripheral.getType(name)
  expect(1, name, "string", "table")
  local types = type(name) == "table" and about(name).types or types_of(name)
  if types and not MANY_TYPES then
    return types[1]
  end
  return table.unpack(types or {})
end

if MANY_TYPES then
  function peripheral.hasType(name, wanted)
    expect(1, name, "string", "table")
    expect(2, wanted, "string")
    local types = type(name) == "table" and about(name).types or types_of(name)
    if types then
      return includes(types, wanted)
    end
    return nil
  end
end

function peripheral.getMethods(name)
  expect(1, name, "string")
  local methods = host.peripheral_methods(name)
  if methods then
    return methods
  end
  local hub = hub_of(name)
  return hub and call_side(hub, "getMethodsRemote", name) or nil
end

function peripheral.getName(wrapped)
  expect(1, wrapped, "table")
  return about(wrapped).name
end

function peripheral.call(name, method, ...)
  expect(1, name, "string")
  expect(2, method, "string")
  if host.peripheral_types(name) then
    return call_side(name, method, ...)
  end
  local hub = hub_of(name)
  if hub then
    return call_side(hub, "callRemote", name, method, ...)
  end
end

function peripheral.wrap(name)
  expect(1, name, "string")
  local methods = peripheral.getMethods(name)
  if not methods then
    return nil
  end
  local types = types_of(name)
  local wrapped = setmetatable({}, { __name = "peripheral", name = name, type = types[1], types = types })
  for _, method in ipairs(methods) do
    wrapped[method] = function(...)
      return peripheral.call(name, method, ...)
    end
  end
  return wrapped
end

function peripheral.find(wanted, filter)
  expect(1, wanted, "string")
  expect(2, filter, "function", "nil")
  local found = {}
  for _, name in ipairs(peripheral.getNames()) do
    if includes(types_of(name), wanted) then
      local wrapped = peripheral.wrap(name)
      if not filter or filter(name, wrapped) then
        found[#found + 1] = wrapped
      end
    end
  end
  return table.unpack(found)
end

return peripheral
