--- The computer's settings, kept in `/.settings` when they are saved.
-- @module settings

local settings, values, details = {}, {}, {}

local function check_name(name)
  if type(name) ~= "string" then
    error("bad argument #1 (string expected, got " .. type(name) .. ")", 3)
  end
end

local function put(name, value)
  local before = values[name]
  if before ~= value then
    values[name] = value
    os.queueEvent("setting_changed", name, value, before)
  end
end

function settings.define(name, options)
  check_name(name)
  options = options or {}
  details[name] = { default = options.default, description = options.description, type = options.type }
end

function settings.undefine(name)
  check_name(name)
  details[name] = nil
end

function settings.get(name, default)
  check_name(name)
  if values[name] ~= nil then
    return values[name]
  elseif default ~= nil then
    return default
  end
  return details[name] and details[name].default
end

function settings.getDetails(name)
  check_name(name)
  local copy = { value = values[name] }
  for key, value in pairs(details[name] or {}) do
    copy[key] = value
  end
  if copy.value == nil then
    copy.value = copy.default
  end
  return copy
end

function settings.set(name, value)
  check_name(name)
  local wanted = details[name] and details[name].type
  if value == nil then
    error("bad argument #2 (value expected, got nil)", 2)
  elseif wanted and type(value) ~= wanted then
    error("bad argument #2 (" .. wanted .. " expected, got " .. type(value) .. ")", 2)
  end
  put(name, value)
end

function settings.unset(name)
  check_name(name)
  put(name, nil)
end

function settings.clear()
  for _, name in ipairs(settings.getNames()) do
    put(name, nil)
  end
end

function settings.getNames()
  local names, seen = {}, {}
  for _, known in ipairs({ values, details }) do
    for name in pairs(known) do
      if not seen[name] then
        seen[name] = true
        names[#names + 1] = name
      end
    end
  end
  table.sort(names)
  return names
end

--- Adds what a file holds; false when there is none that can be read.
function settings.load(path)
  local file = fs.open(path or ".settings", "r")
  if not file then
    return false
  end
  local found = textutils.unserialize(file.readAll() or "")
  file.close()
  if type(found) ~= "table" then
    return false
  end
  for name, value in pairs(found) do
    local wanted = details[name] and details[name].type
    if type(name) == "string" and (not wanted or type(value) == wanted) then
      put(name, value)
    end
  end
  return true
end

--- Writes what was set into a file; false when it cannot be written.
function settings.save(path)
  local file = fs.open(path or ".settings", "w")
  if not file then
    return false
  end
  file.write(textutils.serialize(values))
  file.close()
  return true
end

return settings
