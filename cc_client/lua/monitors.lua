--- Monitors cannot be read, so what a program draws on one is drawn a second time, here.
--
-- A program reaches a monitor by `peripheral.call`, also through what `peripheral.wrap` made and
-- through `term.redirect`. Shown is what programs that were run from here drew: what others draw is not.
-- @module monitors

local Capture = require("capture")
local disk = require("disk")

local monitors = {}

--- What changes the picture, in both spellings, and the cursor.
local DRAWS = {}
for name in ("write blit clear clearLine scroll setCursorPos setCursorBlink"):gmatch("%a+") do
  DRAWS[name] = true
end
for name in ("TextColour TextColor BackgroundColour BackgroundColor"):gmatch("%a+") do
  DRAWS["set" .. name] = true
end

local MAX_KEPT = 8
--- What the outcome of a program says of each monitor, and of how many.
local MAX_SHOWN_BYTES, MAX_SHOWN = 2048, 4

--- The drawings by the names of their monitors, and these names, the newest last.
local kept, names = {}, {}

local function keep(name, capture)
  for index, other in ipairs(names) do
    if other == name then
      table.remove(names, index)
      break
    end
  end
  names[#names + 1], kept[name] = name, capture
  if #names > MAX_KEPT then
    kept[table.remove(names, 1)] = nil
  end
end

local function is_monitor(name)
  local types = { disk.try(peripheral.getType, name) }
  for index = 2, #types do
    if types[index] == "monitor" then
      return true
    end
  end
  return false
end

--- The drawing of a monitor as large as it is now; false: it is none.
local function drawing(name, native)
  local ok, width, height = disk.try(native, name, "getSize")
  if not ok or type(width) ~= "number" or type(height) ~= "number" or not is_monitor(name) then
    return false
  end
  local capture = kept[name]
  if not capture or capture.width ~= width or capture.height ~= height then
    capture = Capture.new(width, height)
  end
  -- Where the cursor is now, and in which colours: others may have drawn since.
  for _, state in ipairs({ "CursorPos", "TextColour", "BackgroundColour" }) do
    local got, first, second = disk.try(native, name, "get" .. state)
    if got and first then
      pcall(capture.terminal["set" .. state], first, second)
    end
  end
  keep(name, capture)
  return capture
end

--- What a program has as `peripheral.call`; `seen` is told each monitor that it draws on.
function monitors.call(seen, native)
  return function(name, method, ...)
    if DRAWS[method] and type(name) == "string" then
      if seen[name] == nil then
        seen[name] = drawing(name, native)
      end
      if seen[name] then
        pcall(seen[name].terminal[method], ...)
      end
    elseif method == "setTextScale" then
      seen[name] = nil
    end
    return native(name, method, ...)
  end
end

--- What a monitor shows, as `Capture:screen` says it; nil: no program that was run from here drew on it.
function monitors.screen(name)
  return kept[name] and kept[name]:screen()
end

--- The monitors that a program drew on, and what they show now as text.
-- @return their names in one text, and the text; both empty when there are none
function monitors.told(seen)
  local list, parts = {}, {}
  for name, capture in pairs(seen) do
    list[#list + 1] = capture and name or nil
  end
  table.sort(list)
  for index = 1, math.min(#list, MAX_SHOWN) do
    local lines = {}
    for y, row in ipairs(seen[list[index]]:screen().rows) do
      lines[y] = row[1]:gsub(" +$", "")
    end
    local text = table.concat(lines, "\n"):gsub("\n+$", "")
    if #text > MAX_SHOWN_BYTES then
      text = text:sub(1, MAX_SHOWN_BYTES) .. "\n[... cut]"
    end
    parts[index] = "\n[on the monitor " .. list[index] .. ":]\n" .. text
  end
  return table.concat(list, " "):sub(1, 200), table.concat(parts)
end

return monitors
