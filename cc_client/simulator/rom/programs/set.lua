--- Shows settings, or sets one and saves them: `set [NAME [VALUE]]`.
local name, text = ...
if not name then
  for _, each in ipairs(settings.getNames()) do
    print(each .. " is " .. textutils.serialize(settings.get(each)))
  end
elseif not text then
  print(name .. " is " .. textutils.serialize(settings.get(name)))
else
  local value = textutils.unserialize(text)
  if value == nil and text ~= "nil" then
    value = text
  end
  if value == nil then
    settings.unset(name)
    print(name .. " unset")
  else
    settings.set(name, value)
    print(name .. " set to " .. textutils.serialize(value))
  end
  settings.save()
end
