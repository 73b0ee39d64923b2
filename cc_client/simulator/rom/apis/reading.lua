--- The global `read`: a line from the keyboard.
-- @module reading

local function draw(self)
  local width = term.getSize()
  local scroll = math.max(0, self.cursor + self.left - width)
  local text = self.mask and self.mask:rep(#self.line) or self.line
  text = text:sub(scroll + 1, scroll + width - self.left + 1)
  term.setCursorPos(self.left, self.top)
  term.write(text .. (" "):rep(width - self.left + 1 - #text))
  term.setCursorPos(self.left + self.cursor - scroll, self.top)
end

local function insert(self, text)
  self.line = self.line:sub(1, self.cursor) .. text .. self.line:sub(self.cursor + 1)
  self.cursor = self.cursor + #text
end

local function recall(self, step)
  local history = self.history or {}
  local index = math.min(#history + 1, math.max(1, (self.index or #history + 1) + step))
  self.index, self.line = index, history[index] or ""
  self.cursor = #self.line
end

local EDITS = {
  [keys.backspace] = function(self)
    if self.cursor > 0 then
      self.line = self.line:sub(1, self.cursor - 1) .. self.line:sub(self.cursor + 1)
      self.cursor = self.cursor - 1
    end
  end,
  [keys.delete] = function(self)
    self.line = self.line:sub(1, self.cursor) .. self.line:sub(self.cursor + 2)
  end,
  [keys.left] = function(self)
    self.cursor = math.max(0, self.cursor - 1)
  end,
  [keys.right] = function(self)
    self.cursor = math.min(#self.line, self.cursor + 1)
  end,
  [keys.home] = function(self)
    self.cursor = 0
  end,
  [keys["end"]] = function(self)
    self.cursor = #self.line
  end,
  [keys.up] = function(self)
    recall(self, -1)
  end,
  [keys.down] = function(self)
    recall(self, 1)
  end,
  [keys.tab] = function(self)
    local found = self.complete and self.complete(self.line)
    if found and found[1] and self.cursor == #self.line then
      insert(self, found[1])
    end
  end,
}

--- Reads a line; the cursor blinks while it waits.
-- @tparam[opt] string mask shown in place of each character
-- @tparam[opt] table history the lines that the up key brings back
-- @tparam[opt] function complete the endings of what is typed
-- @tparam[opt] string default what stands there at first
function read(mask, history, complete, default)
  local self =
    { line = default or "", mask = mask and mask:sub(1, 1), history = history, complete = complete }
  self.cursor = #self.line
  self.left, self.top = term.getCursorPos()
  term.setCursorBlink(true)
  draw(self)
  while true do
    local event, value = os.pullEvent()
    if event == "char" or event == "paste" then
      insert(self, value)
    elseif event == "key" and (value == keys.enter or value == keys.numPadEnter) then
      break
    elseif event == "key" and EDITS[value] then
      EDITS[value](self)
    end
    draw(self)
  end
  self.cursor = #self.line
  draw(self)
  term.setCursorBlink(false)
  print()
  return self.line
end
