--- A wide terminal that nobody sees: what a program writes becomes lines of text.
--
-- `print` wraps at the terminal's width, so it is wide. Moving to another row is a line break in the
-- text, moving right on a row is blanks. The text is capped: its head and its tail are kept, and how
-- many bytes were left out between them is counted and said.
-- @module capture

local Capture = {}
Capture.__index = Capture

local WIDTH, HEIGHT = 200, 50
--- With traceback and marker well under the 48 KiB of a body.
local HEAD_BYTES, TAIL_BYTES = 16384, 16384

-- Text --------------------------------------------------------------------------------------------

--- Adds to the head until it is full, then to a tail that is trimmed when it has doubled.
local function add(self, text)
  local room = HEAD_BYTES - self.head_bytes
  if room > 0 then
    self.head[#self.head + 1] = text:sub(1, room)
    self.head_bytes = self.head_bytes + math.min(room, #text)
    text = text:sub(room + 1)
  end
  if text ~= "" then
    self.tail[#self.tail + 1] = text
    self.tail_bytes = self.tail_bytes + #text
    if self.tail_bytes > 2 * TAIL_BYTES or #self.tail > 4096 then
      self:trim()
    end
  end
end

--- Keeps the last bytes of the tail and counts the others as cut.
function Capture:trim()
  local tail = table.concat(self.tail)
  local excess = math.max(0, #tail - TAIL_BYTES)
  tail = tail:sub(excess + 1)
  self.cut = self.cut + excess
  self.tail, self.tail_bytes = { tail }, #tail
end

--- Brings the text to the cursor's row and column before something is written there.
local function catch_up(self)
  if self.y ~= self.row then
    add(self, ("\n"):rep(math.max(1, self.y - self.row)))
    self.row, self.column = self.y, 1
  elseif self.x < self.column then
    add(self, "\n")
    self.column = 1
  end
  if self.x > self.column then
    add(self, (" "):rep(math.min(self.x - self.column, WIDTH)))
  end
end

local function put(self, text)
  if text == "" then
    return
  end
  catch_up(self)
  add(self, text)
  self.x = self.x + #text
  self.column = self.x
end

--- The text so far and the number of bytes cut out of it; the cut is marked in the text.
function Capture:text()
  if self.y > self.row then
    add(self, ("\n"):rep(self.y - self.row))
    self.row, self.column = self.y, 1
  end
  self:trim()
  local marker = self.cut > 0 and "\n[... " .. self.cut .. " bytes left out ...]\n" or ""
  return table.concat(self.head) .. marker .. self.tail[1], self.cut
end

-- Terminal ----------------------------------------------------------------------------------------

local function cursor_functions(self, terminal)
  function terminal.getCursorPos()
    return self.x, self.y
  end
  function terminal.setCursorPos(x, y)
    self.x, self.y = math.floor(x), math.max(1, math.min(HEIGHT, math.floor(y)))
  end
  function terminal.scroll(rows)
    -- The rows move up under the cursor, so the text's row does too. The bound keeps a wild
    -- number from becoming as many line breaks.
    self.row = self.row - math.max(-HEIGHT, math.min(HEIGHT, math.floor(rows)))
  end
  function terminal.getSize()
    return WIDTH, HEIGHT
  end
  function terminal.getCursorBlink()
    return self.blink
  end
  function terminal.setCursorBlink(blink)
    self.blink = blink == true
  end
end

local function writing_functions(self, terminal)
  function terminal.write(text)
    put(self, tostring(text))
  end
  function terminal.blit(text)
    put(self, tostring(text))
  end
  function terminal.clear() end
  function terminal.clearLine() end
end

local function colour_functions(self, terminal)
  local function both_spellings(name, fn)
    terminal[name] = fn
    terminal[name:gsub("Colour", "Color")] = fn
  end
  for _, which in ipairs({ "TextColour", "BackgroundColour" }) do
    both_spellings("get" .. which, function()
      return self[which]
    end)
    both_spellings("set" .. which, function(colour)
      self[which] = colour
    end)
  end
  both_spellings("isColour", function()
    return true
  end)
  both_spellings("getPaletteColour", function()
    return 0, 0, 0
  end)
  both_spellings("setPaletteColour", function() end)
end

--- A new capture; `capture.terminal` is what `term.redirect` takes.
function Capture.new()
  local self = setmetatable({ head = {}, head_bytes = 0, tail = {}, tail_bytes = 0, cut = 0 }, Capture)
  self.x, self.y, self.row, self.column, self.blink = 1, 1, 1, 1, false
  -- White on black, as numbers: the colours API may be changed by a program.
  self.TextColour, self.BackgroundColour = 1, 32768
  self.terminal = {}
  cursor_functions(self, self.terminal)
  writing_functions(self, self.terminal)
  colour_functions(self, self.terminal)
  return self
end

return Capture
