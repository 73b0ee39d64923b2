--- The terminal: the computer's own screen, whose rows the host can see and whose lines it logs.
-- @module term

local host = ...

local WIDTH, HEIGHT = host.screen_size()
local IS_COLOUR = host.is_colour()
--- Where a program runs in place of the shell nobody looks at the screen, and its lines are logged.
local LOGS = host.start_program() ~= nil

--- The rows of the screen as text, and what of each the log has.
local rows, logged = {}, {}
local x, y, blink, changed = 1, 1, false, true
local front, back = colors.white, colors.black

--- The cursor leaves a row: what is new there is logged. A row that was the one below has only moved.
local function flush()
  if not LOGS then
    return
  end
  local text = (rows[y] or ""):gsub("%s+$", "")
  if text ~= logged[y] and text ~= "" and text ~= logged[y + 1] then
    host.log(text)
  end
  logged[y] = text
end

local function put(text)
  local first = math.max(1, x)
  local seen = text:sub(first - x + 1, math.max(0, WIDTH - x + 1))
  if rows[y] or (y >= 1 and y <= HEIGHT) then
    local row = rows[y] or ""
    row = row .. (" "):rep(first - 1 - #row)
    rows[y] = row:sub(1, first - 1) .. seen .. row:sub(first + #seen)
  end
  x = x + #text
  changed = true
end

--- The light of each colour as the game begins, white first, and as it is now.
local LIGHTS = {
  { 0xF0F0F0, 0xF2B233, 0xE57FD8, 0x99B2F2, 0xDEDE6C, 0x7FCC19, 0xF2B2CC, 0x4C4C4C },
  { 0x999999, 0x4C99B2, 0xB266E5, 0x3366CC, 0x7F664C, 0x57A64E, 0xCC4C4C, 0x111111 },
}
local palette = {}
for half, lights in ipairs(LIGHTS) do
  for index, light in ipairs(lights) do
    palette[2 ^ (8 * half + index - 9)] = { colors.unpackRGB(light) }
  end
end

local native = {}

function native.write(value)
  put(tostring(value))
end
function native.blit(text, fronts, backs)
  if type(text) ~= "string" or type(fronts) ~= "string" or type(backs) ~= "string" then
    error("bad argument #1 (string expected, got " .. type(text) .. ")", 2)
  elseif #fronts ~= #text or #backs ~= #text then
    error("Arguments must be the same length", 2)
  end
  put(text)
end
function native.setCursorPos(new_x, new_y)
  if math.floor(new_y) ~= y then
    flush()
  end
  x, y, changed = math.floor(new_x), math.floor(new_y), true
end
function native.getCursorPos()
  return x, y
end
function native.getSize()
  return WIDTH, HEIGHT
end
function native.getCursorBlink()
  return blink
end
function native.setCursorBlink(value)
  blink, changed = value == true, true
end
function native.getTextColour()
  return front
end
function native.setTextColour(colour)
  front = colour
end
function native.getBackgroundColour()
  return back
end
function native.setBackgroundColour(colour)
  back = colour
end
function native.isColour()
  return IS_COLOUR
end
function native.getPaletteColour(colour)
  return table.unpack(palette[colour])
end
function native.setPaletteColour(colour, red, green, blue)
  palette[colour] = green and { red, green, blue } or { colors.unpackRGB(red) }
end
function native.scroll(count)
  flush()
  local old_rows, old_logged = rows, logged
  rows, logged, changed = {}, {}, true
  for row = 1, HEIGHT do
    rows[row], logged[row] = old_rows[row + count], old_logged[row + count]
  end
end
function native.clear()
  flush()
  rows, logged, changed = {}, {}, true
end
function native.clearLine()
  rows[y], changed = nil, true
end

--- Each name with `Colour` also as `Color`.
local twins = {}
for name, fn in pairs(native) do
  twins[name:gsub("Colour", "Color")] = fn
end
for name, fn in pairs(twins) do
  native[name] = fn
end

local current = native
local term = {}

for name in pairs(native) do
  term[name] = function(...)
    local fn = current[name]
    if not fn then
      error("Redirect object is missing method " .. name, 2)
    end
    return fn(...)
  end
end

--- The terminal of the computer itself.
function term.native()
  return native
end

--- Where `term` writes now.
function term.current()
  return current
end

--- Makes `term` write elsewhere; returns where it wrote before.
function term.redirect(target)
  if type(target) ~= "table" or target == term then
    error("bad argument #1 (a terminal expected)", 2)
  end
  local previous = current
  current = target
  return previous
end

--- Shows the host what is on the screen, if that has changed.
local function show()
  if changed then
    local list = {}
    for row = 1, HEIGHT do
      list[row] = rows[row] or ""
    end
    host.show(table.concat(list, "\n"), x, y, blink)
    changed = false
  end
end

return term, show
