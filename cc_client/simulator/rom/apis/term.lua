--- The terminal: the native one writes finished lines to the simulator's log.
-- @module term

local log = ...

local WIDTH, HEIGHT = 51, 19

local function make_native()
  local native = {}
  local x, y, text, front, back, blink = 1, 1, "", colors.white, colors.black, false

  local function flush()
    if text ~= "" then
      log(text)
    end
    text = ""
  end

  function native.write(value)
    value = tostring(value)
    text = text .. value
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
  native.scroll, native.clear, native.clearLine = flush, flush, flush
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
