--- The globals that write text: `write`, `print`, `printError`.
-- @module text

local function new_line()
  local _, height = term.getSize()
  local _, y = term.getCursorPos()
  if y < height then
    term.setCursorPos(1, y + 1)
  else
    term.setCursorPos(1, height)
    term.scroll(1)
  end
end

--- Writes a piece without blanks in it, on the next line if it does not fit, in parts if it never does.
local function write_word(word)
  local width = term.getSize()
  local x = term.getCursorPos()
  local lines = 0
  if x > 1 and x + #word - 1 > width then
    new_line()
    lines = 1
  end
  while #word > width do
    term.write(word:sub(1, width))
    word = word:sub(width + 1)
    new_line()
    lines = lines + 1
  end
  term.write(word)
  return lines
end

--- Writes a text, wrapped at the terminal's width; returns the number of line breaks.
function write(value)
  local text, lines, position = tostring(value), 0, 1
  while position <= #text do
    local piece = text:match("^\n", position) or text:match("^[ \t]+", position)
    if piece == "\n" then
      new_line()
      lines = lines + 1
    elseif piece then
      term.write(piece)
    else
      piece = text:match("^[^ \t\n]+", position)
      lines = lines + write_word(piece)
    end
    position = position + #piece
  end
  return lines
end

--- Writes the arguments, a tab's worth apart, and a line break.
function print(...)
  local parts = table.pack(...)
  for index = 1, parts.n do
    parts[index] = tostring(parts[index])
  end
  return write(table.concat(parts, "\t", 1, parts.n) .. "\n")
end

--- Prints in red.
function printError(...)
  local before = term.getTextColour()
  term.setTextColour(colors.red)
  print(...)
  term.setTextColour(before)
end
