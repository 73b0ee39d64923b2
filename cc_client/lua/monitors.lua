--- Monitors cannot be read, so what a program draws on one is drawn a second time, here.
--
-- A program reaches a monitor by `peripheral.call`, also through what `peripheral.wrap` made and
-- through `term.redirect`. Shown is what programs that were run from here drew, and of the others
-- what they draw while somebody watches.
-- @module monitors

local Capture = require("capture")
local disk = require("disk")

local monitors = {}

--- What changes the picture, in both spellings, and the cursor.
local DRAWS = {}
for name in ("write blit clear clearLine scroll setCursorPos setCursorBlink"):gmatch("%a+") do
  DRAWS[name] = true
end
for name in ("TextColour BackgroundColour PaletteColour"):gmatch("%a+") do
  DRAWS["set" .. name], DRAWS["set" .. name:gsub("Colour", "Color")] = true, true
end
monitors.DRAWS = DRAWS

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

--- The colours of a monitor as it shows them now.
local function take_palette(capture, name, native)
  for index = 0, 15 do
    local ok, red, green, blue = disk.try(native, name, "getPaletteColour", 2 ^ index)
    if not ok or type(blue) ~= "number" then
      return
    end
    capture.terminal.setPaletteColour(2 ^ index, red, green, blue)
  end
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
  take_palette(capture, name, native)
  local known, is_colour = disk.try(native, name, "isColour")
  if known and is_colour == false then
    capture.terminal.isColour = function()
      return false
    end
  end
  keep(name, capture)
  return capture
end

--- What a program has as `peripheral.call`; `seen` is told each monitor that it draws on.
function monitors.call(seen, native)
  return function(name, method, ...)
    if DRAWS[method] and type(name) == "string" then
      local other = kept[name]
      if seen[name] == nil or seen[name] and other and other ~= seen[name] then
        -- It is new here, or has another size since it was last drawn on.
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

-- Watching ----------------------------------------------------------------------------------------

--- The monitors on which any program has drawn since somebody watches, and whether anybody does.
local watched, is_watched = {}, false
--- What programs have as `peripheral.call` meanwhile, and what is behind it.
local spy, behind

--- What `peripheral.call` is without the one who looks on: what a program draws is to be drawn once.
function monitors.behind(call)
  return call == spy and behind or call
end

--- Lets ours stand before the function; where somebody has put their own over it meanwhile, it stands there already.
local function put_spy()
  local native = _G.peripheral.call
  local looking = monitors.call(watched, native)
  behind = native
  spy = function(...)
    return (is_watched and looking or native)(...)
  end
  _G.peripheral.call = spy
end

--- Begins to see what any program draws, or looks away.
function monitors.watch(is_on)
  if is_on == is_watched or not _G.peripheral then
    return
  end
  is_watched = is_on
  if is_on and not spy then
    put_spy()
  elseif not is_on then
    for name in pairs(watched) do
      watched[name] = nil
    end
    if _G.peripheral.call == spy then
      _G.peripheral.call, spy = behind, nil
    end
  end
end

--- Does something that may not wait; nil where it would have to.
local function at_once(body, ...)
  local co = coroutine.create(body)
  local results = table.pack(coroutine.resume(co, ...))
  if results[1] and coroutine.status(co) == "dead" then
    return table.unpack(results, 2, results.n)
  end
end

--- The names of all monitors, sorted.
function monitors.names()
  local found = at_once(function()
    local list = {}
    for _, name in ipairs(peripheral.getNames()) do
      list[#list + 1] = is_monitor(name) and name or nil
    end
    table.sort(list)
    return list
  end)
  return found or {}
end

--- Columns and rows of a monitor; nil: there is none of this name.
function monitors.size(name)
  return at_once(function()
    if is_monitor(name) then
      return monitors.behind(_G.peripheral.call)(name, "getSize")
    end
  end)
end

--- What a watched monitor shows, as `screen.read` says it; nil and the reason where there is none.
function monitors.look(name)
  local width, height = monitors.size(name)
  if type(width) ~= "number" or type(height) ~= "number" then
    -- What stands there later is another one, or empty.
    kept[name], watched[name] = nil, nil
    return nil, "There is no monitor " .. name .. " at the computer now."
  end
  local capture = kept[name]
  if not capture or capture.width ~= width or capture.height ~= height then
    capture = at_once(drawing, name, monitors.behind(_G.peripheral.call)) or Capture.new(width, height)
    keep(name, capture)
  end
  local seen = capture:screen()
  seen.terminal = capture.terminal
  return seen
end

--- What a monitor shows, as `Capture:screen` says it; nil: no program that was run from here drew on it.
function monitors.screen(name)
  return kept[name] and kept[name]:screen()
end

--- What a capture shows as text, without the blanks at the end of rows and the blank rows at the end.
function monitors.text(capture)
  local lines = {}
  for y, row in ipairs(capture:screen().rows) do
    lines[y] = row[1]:gsub(" +$", "")
  end
  local text = table.concat(lines, "\n"):gsub("\n+$", "")
  return #text > MAX_SHOWN_BYTES and text:sub(1, MAX_SHOWN_BYTES) .. "\n[... cut]" or text
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
    parts[index] = "\n[on the monitor " .. list[index] .. ":]\n" .. monitors.text(seen[list[index]])
  end
  return table.concat(list, " "):sub(1, 200), table.concat(parts)
end

return monitors
