--- Settings that live as long as the boot.
-- @module settings

local settings, values, defaults = {}, {}, {}

function settings.define(name, options)
  defaults[name] = options and options.default
end

function settings.get(name, default)
  if values[name] ~= nil then
    return values[name]
  elseif default ~= nil then
    return default
  end
  return defaults[name]
end

function settings.set(name, value)
  values[name] = value
end

function settings.unset(name)
  values[name] = nil
end

function settings.getNames()
  local names = {}
  for name in pairs(values) do
    names[#names + 1] = name
  end
  table.sort(names)
  return names
end

function settings.save()
  return true
end

function settings.load()
  return true
end

return settings
