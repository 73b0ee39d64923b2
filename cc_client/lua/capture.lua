--- A wide terminal that nobody sees: what a program writes becomes lines of text, and a screen.
--
-- `print` wraps at the terminal's width, so it is wide. Moving to another row is a line break in the
-- text, moving right on a row is blanks, and a row that is drawn again with more at its end is just that
-- more. The text is capped: its head and its tail are kept, and how many bytes were left out between
-- them is counted and said. The last bytes are kept a second time for the followers of the program
-- while it runs.
-- @module capture

local palette = require("palette")

-- Not as methods of texts: a program that draws may have changed those.
local find, format, gsub, lower, rep, sub =
  string.find, string.format, string.gsub, string.lower, string.rep, string.sub

local Capture = {}
Capture.__index = Capture

--- Of a program's terminal.
local WIDTH, HEIGHT = 200, 50
--- With traceback and marker well under the 48 KiB of a body.
local HEAD_BYTES, TAIL_BYTES = 16384, 16384
--- What one look at a running program tells at most.
local FRESH_BYTES = 4096
--- Texts noted over a row before they are put in.
local MAX_OVER = 32

-- Text --------------------------------------------------------------------------------------------

--- The last `limit` bytes of a list of texts as a list of one, and how many were left out.
local function last_bytes(list, limit)
  local text = table.concat(list)
  local excess = math.max(0, #text - limit)
  return { sub(text, excess + 1) }, excess
end

--- Keeps text for `take_fresh`, a list that is trimmed when it has doubled.
local function add_fresh(self, text)
  self.fresh[#self.fresh + 1] = text
  self.fresh_bytes = self.fresh_bytes + #text
  if self.fresh_bytes > 2 * FRESH_BYTES or #self.fresh > 1024 then
    self.fresh = last_bytes(self.fresh, FRESH_BYTES)
    self.fresh_bytes = #self.fresh[1]
  end
end

--- Adds to the head until it is full, then to a tail that is trimmed when it has doubled.
local function add(self, text)
  self.total = self.total + #text
  add_fresh(self, text)
  local room = HEAD_BYTES - self.head_bytes
  if room > 0 then
    self.head[#self.head + 1] = sub(text, 1, room)
    self.head_bytes = self.head_bytes + math.min(room, #text)
    text = sub(text, room + 1)
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
  local tail, excess = last_bytes(self.tail, TAIL_BYTES)
  self.tail, self.tail_bytes, self.cut = tail, #tail[1], self.cut + excess
end

--- Brings the text to the cursor's row and column before something is written there.
local function catch_up(self)
  if self.y ~= self.row then
    add(self, rep("\n", math.max(1, self.y - self.row)))
    self.row, self.column, self.line = self.y, 1, ""
  elseif self.x < self.column then
    add(self, "\n")
    self.column, self.line = 1, ""
  end
  if self.x > self.column then
    local blanks = rep(" ", math.min(self.x - self.column, self.width))
    add(self, blanks)
    self.line = self.line .. blanks
  end
end

--- What is new of a text that is written over the end of its row: `read` draws its whole line again for each
-- key, blanks first. Nil: it is another text, which gets a line of its own.
local function added(self, text)
  if self.y ~= self.row or self.x < 1 or self.x >= self.column or self.column > #self.line + 1 then
    return nil
  end
  local old = sub(self.line, self.x)
  if not find(text, "[^ ]") or sub(old, 1, #text) == text then
    return ""
  elseif sub(text, 1, #old) == old then
    return sub(text, #old + 1)
  end
end

--- Adds a text where the cursor is; blanks up to the right edge only clear the row.
local function log(self, text)
  if self.x + #text > self.width then
    text = gsub(text, " +$", "")
  end
  local new = added(self, text)
  if not new then
    new = text
    if text ~= "" then
      catch_up(self)
    end
  end
  add(self, new)
  if new ~= "" then
    self.column = self.x + #text
    -- A row that is longer than the screen is no line that somebody types.
    self.line = #self.line <= self.width and self.line .. new or ""
  end
end

--- The text so far and the number of bytes cut out of it; the cut is marked in the text.
function Capture:text()
  if self.y > self.row then
    add(self, rep("\n", self.y - self.row))
    self.row, self.column, self.line = self.y, 1, ""
  end
  self:trim()
  local marker = self.cut > 0 and "\n[... " .. self.cut .. " bytes left out ...]\n" or ""
  return table.concat(self.head) .. marker .. self.tail[1], self.cut
end

--- Whether something was written since `take_fresh`.
function Capture:has_fresh()
  return self.fresh_bytes > 0
end

--- What was written since the last time, at most its last 4096 bytes, and the offset where it begins.
function Capture:take_fresh()
  local text = last_bytes(self.fresh, FRESH_BYTES)[1]
  self.fresh, self.fresh_bytes = {}, 0
  return self.total - #text, text
end

-- Screen ------------------------------------------------------------------------------------------
-- A row is `{text, fg, bg, over}`; `over` lists what was written over it since, `{x, text, fg, bg}`, and
-- is put in only when somebody looks or it grows long: most rows scroll away unseen. Rows without `over`
-- are never changed, so blank ones are shared. Row y is `rows[top + y]`: scrolling moves `top`.

--- The digit that `blit` takes for a colour.
local DIGIT = {}
for index = 0, 15 do
  DIGIT[2 ^ index] = format("%x", index)
end

local function blank_row(self)
  local fg, bg = DIGIT[self.TextColour], DIGIT[self.BackgroundColour]
  if self.blank_key ~= fg .. bg then
    self.blank_key = fg .. bg
    self.blank = { rep(" ", self.width), rep(fg, self.width), rep(bg, self.width) }
  end
  return self.blank
end

--- A row with what was written over it put in.
local function flat(self, row)
  for _, one in ipairs(row.over or {}) do
    local x, text = one[1], one[2]
    local first, last = math.max(1, x), math.min(self.width, x + #text - 1)
    if last >= first then
      local drawn = {}
      for index = 1, 3 do
        local over = one[index + 1]
        over = #over == #text and over or rep(over, #text)
        over = sub(over, first - x + 1, last - x + 1)
        drawn[index] = sub(row[index], 1, first - 1) .. over .. sub(row[index], last + 1)
      end
      row = drawn
    end
  end
  return { row[1], row[2], row[3] }
end

--- Notes a text over the row of the cursor; a colour may be one digit for all of it.
local function draw(self, text, fg, bg)
  local row = self.rows[self.top + self.y]
  if not row.over or #row.over >= MAX_OVER then
    row = flat(self, row)
    row.over = {}
    self.rows[self.top + self.y] = row
  end
  if #text > self.width then
    text = sub(text, 1, self.x < 1 and 1 - self.x + self.width or self.width)
    fg, bg = sub(fg, 1, #text), sub(bg, 1, #text)
  end
  row.over[#row.over + 1] = { self.x, text, fg, bg }
end

local function scroll(self, count)
  local rows = {}
  if count == 1 then
    rows, self.top = self.rows, self.top + 1
    rows[self.top] = nil
    rows[self.top + self.height] = blank_row(self)
    return
  end
  for y = 1, self.height do
    rows[y] = y + count >= 1 and self.rows[self.top + y + count] or blank_row(self)
  end
  self.rows, self.top = rows, 0
end

--- What the screen shows: `{width, height, x, y, blink, rows}`; rows as `blit` takes them.
function Capture:screen()
  local rows = {}
  for y = 1, self.height do
    rows[y] = flat(self, self.rows[self.top + y])
  end
  local x = math.max(-self.width, math.min(2 * self.width, self.x))
  return { width = self.width, height = self.height, x = x, y = self.y, blink = self.blink, rows = rows }
end

-- Terminal ----------------------------------------------------------------------------------------

local function put(self, text, fg, bg)
  if text == "" then
    return
  end
  log(self, text)
  draw(self, text, fg, bg)
  self.x = self.x + #text
end

--- A whole number that counting with it does not carry away.
local function whole(number)
  number = math.floor(number)
  return number ~= number and 1 or math.max(-1e6, math.min(1e6, number))
end

local function cursor_functions(self, terminal)
  function terminal.getCursorPos()
    return self.x, self.y
  end
  function terminal.setCursorPos(x, y)
    local row = math.max(1, math.min(self.height, whole(y)))
    -- Who goes up again draws a picture; who writes lines only goes down.
    self.is_drawn = self.is_drawn or row < self.y
    self.x, self.y = whole(x), row
  end
  function terminal.scroll(rows)
    -- The rows move up under the cursor, so the text's row does too. The bound keeps a wild
    -- number from becoming as many line breaks.
    rows = math.max(-self.height, math.min(self.height, whole(rows)))
    self.row = self.row - rows
    scroll(self, rows)
  end
  function terminal.getSize()
    return self.width, self.height
  end
  function terminal.getCursorBlink()
    return self.blink
  end
  function terminal.setCursorBlink(blink)
    self.blink = blink == true
  end
end

--- A text of any value; `__tostring` of a table may answer anything.
local function plain(value)
  local text = tostring(value)
  return type(text) == "string" and text or ""
end

local function writing_functions(self, terminal)
  function terminal.write(text)
    text = plain(text)
    put(self, text, DIGIT[self.TextColour], DIGIT[self.BackgroundColour])
  end
  function terminal.blit(text, fg, bg)
    text, fg, bg = plain(text), lower(plain(fg)), lower(plain(bg))
    if #fg ~= #text or #bg ~= #text then
      error("Arguments must be the same length", 2)
    end
    put(self, text, (gsub(fg, "[^%x]", "0")), (gsub(bg, "[^%x]", "f")))
  end
  function terminal.clear()
    for y = 1, self.height do
      self.rows[self.top + y] = blank_row(self)
    end
  end
  function terminal.clearLine()
    self.rows[self.top + self.y] = blank_row(self)
  end
end

local function colour_functions(self, terminal)
  local function both_spellings(name, fn)
    terminal[name] = fn
    terminal[gsub(name, "Colour", "Color")] = fn
  end
  for _, which in ipairs({ "TextColour", "BackgroundColour" }) do
    both_spellings("get" .. which, function()
      return self[which]
    end)
    both_spellings("set" .. which, function(colour)
      if not (colour >= 1 and colour < 65536) then
        error("Colour out of range", 2)
      end
      -- Of several colours at once the game takes the highest.
      self[which] = 2 ^ math.floor(math.log(colour, 2) + 1e-9)
    end)
  end
  both_spellings("isColour", function()
    return true
  end)
  both_spellings("getPaletteColour", function(colour)
    return table.unpack(self.palette[DIGIT[colour] or "0"])
  end)
  both_spellings("setPaletteColour", function(colour, red, green, blue)
    if not green then
      -- All in one number.
      red, green, blue = math.floor(red / 65536) / 255, math.floor(red / 256) % 256 / 255, red % 256 / 255
    end
    if DIGIT[colour] then
      self.palette[DIGIT[colour]] = { red, green, blue }
    end
  end)
end

local function first_palette()
  local lights = {}
  for index = 0, 15 do
    lights[DIGIT[2 ^ index]] = { palette.light(index) }
  end
  return lights
end

--- A new capture, of the size of a program's terminal where none is given; `capture.terminal` is what
-- `term.redirect` takes.
function Capture.new(width, height)
  local self = setmetatable({ head = {}, head_bytes = 0, tail = {}, tail_bytes = 0, cut = 0 }, Capture)
  self.width, self.height = width or WIDTH, height or HEIGHT
  self.total, self.fresh, self.fresh_bytes = 0, {}, 0
  self.is_drawn = false
  self.x, self.y, self.row, self.column, self.blink, self.line = 1, 1, 1, 1, false, ""
  -- White on black, as numbers: the colours API may be changed by a program.
  self.TextColour, self.BackgroundColour = 1, 32768
  self.rows, self.top, self.terminal, self.palette = {}, 0, {}, first_palette()
  cursor_functions(self, self.terminal)
  writing_functions(self, self.terminal)
  colour_functions(self, self.terminal)
  self.terminal.clear()
  return self
end

return Capture
