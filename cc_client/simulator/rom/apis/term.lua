--- The terminal: what comes on the native one goes line by line to the simulator's log.
-- @module term

local log = ...

local WIDTH, HEIGHT = 51, 19

local function make_native()
  local native = {}
  local x, y, front, back, blink = 1, 1, colors.white, colors.black, false
  --- What stands in each row, and what of it the log has.
  local rows, logged = {}, {}

  --- The cursor leaves a row: what is new there is logged. A row that was the one below has only moved.
  local function flush()
    local text = (rows[y] or ""):gsub("%s+$", "")
    if text ~= logged[y] and text ~= "" and text ~= logged[y + 1] then
      log(text)
    end
    logged[y] = text
  end

  function native.write(value)
    value = tostring(value)
    local row = rows[y] or ""
    row = row .. (" "):rep(x - 1 - #row)
    rows[y] = row:sub(1, x - 1) .. value .. row:sub(x + #value)
    x = x + #value
  end
  function native.blit(value)
    native.write(value)
  end
  function native.setCursorPos(new_x, new_y)
    if math.floor(new_y) ~= y then
      flush()
    end
    x, y = math.floor(new_x), math.floor(new_y)
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
    blink = value
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
    return true
  end
  function native.getPaletteColour()
    return 0, 0, 0
  end
  function native.setPaletteColour() end
  function native.scroll(count)
    flush()
    for row = 1, HEIGHT do
      rows[row], logged[row] = rows[row + count], logged[row + count]
    end
  end
  function native.clear()
    flush()
    rows, logged = {}, {}
  end
  function native.clearLine()
    rows[y] = nil
  end
  return native
end

--- Each name with `Colour` also as `Color`.
local function both_spellings(terminal)
  local twins = {}
  for name, fn in pairs(terminal) do
    twins[name:gsub("Colour", "Color")] = fn
  end
  for name, fn in pairs(twins) do
    terminal[name] = fn
  end
  return terminal
end

local native = both_spellings(make_native())
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

return term
