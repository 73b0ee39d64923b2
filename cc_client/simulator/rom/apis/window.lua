--- A rectangle of a terminal with a memory of its own.
-- @module window

local window = {}

--- Overwrites part of a line.
local function overlay(line, x, text)
  local first, last = math.max(1, x), math.min(#line, x + #text - 1)
  if last < first then
    return line
  end
  return line:sub(1, first - 1) .. text:sub(first - x + 1, last - x + 1) .. line:sub(last + 1)
end

local function blank_line(self)
  local width = self.width
  return {
    (" "):rep(width),
    colors.toBlit(self.front):rep(width),
    colors.toBlit(self.back):rep(width),
  }
end

local function draw_line(self, row)
  if self.visible and self.lines[row] then
    self.parent.setCursorPos(self.left, self.top + row - 1)
    self.parent.blit(table.unpack(self.lines[row]))
  end
end

--- The cursor of the parent stands where that of the window does.
local function place_cursor(self)
  if self.visible then
    self.parent.setCursorPos(self.left + self.x - 1, self.top + self.y - 1)
    self.parent.setCursorBlink(self.blink)
  end
end

local function redraw_line(self, row)
  draw_line(self, row)
  place_cursor(self)
end

local function put(self, text, front, back)
  local line = self.lines[self.y]
  if line then
    line[1] = overlay(line[1], self.x, text)
    line[2] = overlay(line[2], self.x, front)
    line[3] = overlay(line[3], self.x, back)
    redraw_line(self, self.y)
  end
  self.x = self.x + #text
end

local function drawing(self, view)
  function view.write(value)
    local text = tostring(value)
    put(self, text, colors.toBlit(self.front):rep(#text), colors.toBlit(self.back):rep(#text))
  end
  function view.blit(text, front, back)
    put(self, text, front, back)
  end
  function view.clear()
    for row = 1, self.height do
      self.lines[row] = blank_line(self)
    end
    view.redraw()
  end
  function view.clearLine()
    if self.lines[self.y] then
      self.lines[self.y] = blank_line(self)
      redraw_line(self, self.y)
    end
  end
  function view.scroll(rows)
    local lines = {}
    for row = 1, self.height do
      lines[row] = self.lines[row + rows] or blank_line(self)
    end
    self.lines = lines
    view.redraw()
  end
  function view.redraw()
    for colour, light in pairs(self.visible and self.palette or {}) do
      self.parent.setPaletteColour(colour, table.unpack(light))
    end
    for row = 1, self.height do
      draw_line(self, row)
    end
    place_cursor(self)
  end
end

local function placing(self, view)
  function view.getCursorPos()
    return self.x, self.y
  end
  function view.setCursorPos(x, y)
    self.x, self.y = math.floor(x), math.floor(y)
    place_cursor(self)
  end
  function view.getCursorBlink()
    return self.blink
  end
  function view.setCursorBlink(blink)
    self.blink = blink == true
    place_cursor(self)
  end
  function view.getSize()
    return self.width, self.height
  end
  function view.getPosition()
    return self.left, self.top
  end
  function view.setVisible(visible)
    local shown = visible and not self.visible
    self.visible = visible
    if shown then
      view.redraw()
    end
  end
  function view.isVisible()
    return self.visible
  end
  function view.getLine(row)
    return table.unpack(self.lines[row])
  end
  function view.restoreCursor()
    place_cursor(self)
  end
  function view.reposition(left, top, width, height, parent)
    local before = self.lines
    self.left, self.top, self.width = left, top, width or self.width
    self.height, self.parent, self.lines = height or self.height, parent or self.parent, {}
    for row = 1, self.height do
      local line = blank_line(self)
      for index, text in ipairs(before[row] or {}) do
        line[index] = overlay(line[index], 1, text)
      end
      self.lines[row] = line
    end
    view.redraw()
  end
end

local function colouring(self, view)
  function view.getTextColour()
    return self.front
  end
  function view.setTextColour(colour)
    self.front = colour
  end
  function view.getBackgroundColour()
    return self.back
  end
  function view.setBackgroundColour(colour)
    self.back = colour
  end
  function view.isColour()
    return self.parent.isColour()
  end
  function view.getPaletteColour(colour)
    return table.unpack(self.palette[colour])
  end
  function view.setPaletteColour(colour, red, green, blue)
    self.palette[colour] = green and { red, green, blue } or { colors.unpackRGB(red) }
    if self.visible then
      self.parent.setPaletteColour(colour, table.unpack(self.palette[colour]))
    end
  end
  view.getTextColor, view.setTextColor = view.getTextColour, view.setTextColour
  view.getBackgroundColor, view.setBackgroundColor = view.getBackgroundColour, view.setBackgroundColour
  view.isColor, view.getPaletteColor = view.isColour, view.getPaletteColour
  view.setPaletteColor = view.setPaletteColour
end

--- A window at (left, top) of a parent terminal; visible unless told otherwise.
function window.create(parent, left, top, width, height, visible)
  local self = { parent = parent, left = left, top = top, width = width, height = height, lines = {} }
  self.visible = visible ~= false
  self.x, self.y, self.blink = 1, 1, false
  self.front, self.back = colors.white, colors.black
  self.palette = {}
  for index = 0, 15 do
    self.palette[2 ^ index] = { parent.getPaletteColour(2 ^ index) }
  end
  local view = {}
  drawing(self, view)
  placing(self, view)
  colouring(self, view)
  view.clear()
  return view
end

return window
