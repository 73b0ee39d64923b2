--- What the client tells the player's `cc`, on the screen: in colour where there is colour.
--
-- A kind says what a text is: `task` (the id of the task that is followed), `lines` (several, each
-- `KIND:TEXT`, with the byte 30 between), `doing` (stands below all others until the next comes), and
-- of a line `say tool out wait ask note good bad`; nil: plain. The game breaks lines at blanks.
-- @module shown

local shown = {}

local COLOURS = {
  tool = "cyan",
  out = "lightGray",
  wait = "yellow",
  ask = "yellow",
  note = "lightBlue",
  good = "lime",
  bad = "red",
  doing = "gray",
}
--- What a screen without colours shows in front.
local MARKS = { tool = "> ", wait = "* ", ask = "? ", bad = "! " }
local AFTER = { ask = "It waits, for days too: q, then cc answer TEXT" }

--- The task that is followed; whether a line stands that will be taken away.
local task, has_doing

local function in_colour(kind, body)
  local colour = term.isColour() and COLOURS[kind]
  if not colour then
    return body()
  end
  local before = term.getTextColour()
  -- `colours` has no `gray`.
  term.setTextColour(colors[colour])
  body()
  term.setTextColour(before)
end

local function clear_doing()
  if has_doing then
    local _, row = term.getCursorPos()
    term.setCursorPos(1, row)
    term.clearLine()
    has_doing = false
  end
end

local function one(kind, text)
  clear_doing()
  in_colour(kind, function()
    if kind == "doing" then
      local width = term.getSize()
      write((text .. " ..."):sub(1, width - 1))
      has_doing = true
    else
      print((term.isColour() and "" or MARKS[kind] or "") .. text)
    end
  end)
  if AFTER[kind] and task then
    one("note", AFTER[kind])
  end
end

--- Shows a text of a kind.
function shown.tell(text, kind)
  if kind == "task" then
    task = text
    one("note", ("Task %s: q leaves, and it goes on."):format(text))
  elseif kind == "lines" then
    for line in (text .. "\30"):gmatch("([^\30]*)\30") do
      local is, rest = line:match("^(%l+):(.*)$")
      one(is, rest or line)
    end
  else
    one(kind, text)
  end
end

--- The player leaves, or it is over.
function shown.finish(has_left)
  clear_doing()
  if has_left and task then
    print(("The task goes on. `cc watch %s` shows it again."):format(task))
  end
  task = nil
end

return shown
