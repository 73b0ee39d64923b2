--- A screen of rows with keys below them, for `cc review`: on the computer itself, or on a monitor that is touched.
--
-- Nothing is decided by a key that was pressed before its row was drawn: those are dropped.
-- @module panel

local palette = require("palette")

local panel = {}

local COLOURS =
  { added = "lime", removed = "red", hunk = "cyan", title = "yellow", alarm = "red", keys = "lightBlue" }
--- An own event: what stands before it in the queue was pressed before it.
local DRAWN = "cc_orchestrator_drawn"
--- Events that a computer keeps; what comes then is dropped, and so may be ours.
local MOST_EVENTS = 256
--- The server hands out no pages for less.
local LEAST_COLUMNS, LEAST_ROWS = 20, 8
--- As much as is typed at once: escaped it fits a message.
local MOST_TYPED = 400
--- What is raised by Ctrl-T.
panel.LEFT = {}

--- Where rows go, and the name of the monitor; nil: it is the computer's own screen.
local screen, monitor, width, height
--- Row = what is touched there: `{first, last, key}` each.
local touched = {}
--- The light of each colour as it was before: red, green and blue.
local lights

--- Columns and rows as they are now: a tab that opens takes a row, and a monitor grows.
function panel.size()
  width, height = screen.getSize()
  if not width then
    error({ says = "The monitor " .. monitor .. " is gone. `cc review` shows what still waits." }, 0)
  end
  return width, height
end

--- Whether the rows that stand there were made for another size.
local function has_changed()
  local columns, rows = screen.getSize()
  return columns ~= width or rows ~= height
end

--- Begins on the computer's own screen, or on the monitor of a name.
-- @treturn boolean true; or nil and why not
function panel.open(name)
  screen, monitor = term.current(), name
  if name then
    if not peripheral or peripheral.getType(name) ~= "monitor" then
      return nil, "There is no monitor " .. name .. " at this computer."
    end
    screen = peripheral.wrap(name)
    screen.setTextScale(1)
    panel.size()
    if width < 39 or height < 13 then
      screen.setTextScale(0.5)
    end
  end
  panel.size()
  if width < LEAST_COLUMNS or height < LEAST_ROWS then
    local sentence = "The screen has %d x %d letters; %d x %d are needed."
    return nil, sentence:format(width, height, LEAST_COLUMNS, LEAST_ROWS)
  end
  lights = {}
  for index = 0, 15 do
    lights[index] = { screen.getPaletteColour(2 ^ index) }
  end
  return true
end

--- Leaves an empty screen behind, with its colours as they were.
function panel.close()
  if screen then
    for index, light in pairs(lights) do
      screen.setPaletteColour(2 ^ index, table.unpack(light))
    end
    screen.setCursorBlink(false)
    screen.clear()
    screen.setCursorPos(1, 1)
  end
end

local function put(row, text, kind)
  local colour = screen.isColour() and COLOURS[kind]
  if colour then
    screen.setTextColour(colors[colour])
  end
  screen.setCursorPos(1, row)
  screen.write((text .. (" "):rep(width)):sub(1, width))
  if colour then
    screen.setTextColour(colors.white)
  end
end

--- A sentence of ours in rows, broken at blanks.
function panel.wrapped(text)
  local rows = { "" }
  for word in text:gmatch("%S+") do
    local longer = rows[#rows] == "" and word or rows[#rows] .. " " .. word
    if #longer > width then
      rows[#rows + 1] = word
    else
      rows[#rows] = longer
    end
  end
  return rows
end

--- Sets the colours as the game begins with them: a program may have made some of them one.
local function set_colours()
  for index = 0, 15 do
    screen.setPaletteColour(2 ^ index, palette.light(index))
  end
  screen.setBackgroundColour(colors.black)
  screen.setTextColour(colors.white)
end

--- Shows a title, rows `{is, text}` and nothing else, on a screen of the size that `panel.size` told last.
function panel.show(title, rows)
  touched = {}
  set_colours()
  screen.setCursorBlink(false)
  screen.clear()
  put(1, title, "title")
  for index, row in ipairs(rows) do
    put(index + 1, row.text, row.is)
    touched[index + 1] = row.key and { { 1, width, row.key } } or nil
  end
end

--- The labels of buttons: where there is no room the words go, those that a player guesses first.
local function labels_of(buttons)
  local labels, size = {}, -1
  for index, button in ipairs(buttons) do
    labels[index], size = button[2], size + #button[2] + 1
  end
  for turn = 1, 3 do
    for index, button in ipairs(buttons) do
      if size > width and button.goes == turn then
        labels[index], size = button[2]:sub(1, 3), size - #button[2] + 3
      end
    end
  end
  return labels
end

--- Buttons side by side, each `{key, label}`; `goes`: when its word does, the last with 3.
local function put_buttons(row, buttons)
  local labels, x = labels_of(buttons), 1
  touched[row] = {}
  for index, button in ipairs(buttons) do
    table.insert(touched[row], { x, x + #labels[index] - 1, button[1] })
    x = x + #labels[index] + 1
  end
  put(row, table.concat(labels, " "), "keys")
end

local function at(x, y)
  for _, area in ipairs(touched[y] or {}) do
    if x >= area[1] and x <= area[2] then
      return area[3]
    end
  end
end

--- The next event that means something: a character, a pasted text, a named key, what was touched, or `resize`.
local function next_event()
  while true do
    if has_changed() then
      -- The event of it may be among those that were dropped.
      return "resize", "resize"
    end
    local name, first, second, third = os.pullEventRaw()
    if name == "terminate" then
      error(panel.LEFT, 0)
    elseif name == "char" or name == "paste" then
      return name, first
    elseif name == "key" then
      local key = keys.getName(first)
      return name, key == "numPadEnter" and "enter" or key
    elseif name == "term_resize" and not monitor or name == "monitor_resize" and first == monitor then
      return "resize", "resize"
    elseif name == "monitor_touch" and first == monitor or name == "mouse_click" and not monitor then
      return "touch", at(second, third)
    end
  end
end

--- Drops what was pressed before now.
local function forget_keys()
  local mark, seen = tostring(math.random(1000000)) .. os.clock(), 0
  repeat
    if seen % MOST_EVENTS == 0 then
      -- Once more where the queue was full: all that was in it is gone by then.
      os.queueEvent(DRAWN, mark)
    end
    seen = seen + 1
    local name, what = os.pullEventRaw()
    if name == "terminate" then
      error(panel.LEFT, 0)
    end
  until name == DRAWN and what == mark
end

--- What the keys without a character stand for.
local STANDS_FOR = { right = "n", pageDown = "n", enter = "n", left = "b", pageUp = "b" }

--- Shows buttons below the rows and waits for one of them, or for the key of a row; `resize`: it has to be shown anew.
-- @tparam table others further keys, as `{q = true}`
function panel.choose(buttons, others)
  put_buttons(height, buttons)
  local known = {}
  for _, button in ipairs(buttons) do
    known[button[1]] = true
  end
  forget_keys()
  while true do
    local name, what = next_event()
    local key = name == "key" and STANDS_FOR[what] or name ~= "key" and what
    key = key and key:lower()
    if key and (known[key] or others and others[key] or name == "resize") then
      return key
    end
  end
end

--- Asks whether it is meant: a key of its own says so.
function panel.is_sure(question)
  put(height - 1, question, "alarm")
  return panel.choose({ { "y", "[Y]es" }, { "x", "[X] no" } }) == "y"
end

local function put_typed(typed, is_secret)
  local seen = is_secret and ("*"):rep(#typed) or typed
  local room = width - 3
  put(height - 1, "> " .. seen:sub(-room))
  screen.setCursorPos(math.min(#seen, room) + 3, height - 1)
  screen.setCursorBlink(true)
end

--- What a touch in a line of digits stands for.
local DIGITS = {}
for digit in ("1234567890"):gmatch(".") do
  DIGITS[#DIGITS + 1] = { digit, digit }
end

local function put_question(question, is_secret)
  local rows = panel.wrapped(question)
  for index, text in ipairs(rows) do
    put(height - 2 - #rows + index - 1, text, "title")
  end
  put(height - 2, "")
  if is_secret and monitor then
    put_buttons(height - 2, DIGITS)
  end
  put_buttons(height, { { "enter", "[Enter] sends" }, { "tab", "[Tab] back" } })
end

--- Asks for a line; nil: the player goes back. A secret is shown as stars and, on a monitor, touched as digits.
function panel.line(question, is_secret)
  local typed = ""
  put_question(question, is_secret)
  forget_keys()
  while true do
    put_typed(typed, is_secret)
    local name, what = next_event()
    if what == "enter" or what == "tab" then
      screen.setCursorBlink(false)
      return what == "enter" and typed or nil
    elseif name == "key" and what == "backspace" then
      typed = typed:sub(1, -2)
    elseif name == "resize" then
      panel.size()
      panel.show("", {})
      put_question(question, is_secret)
    elseif name ~= "key" and what then
      typed = (typed .. what):sub(1, MOST_TYPED)
    end
  end
end

return panel
