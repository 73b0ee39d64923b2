--- Prints what may be longer than the screen, and waits for a key before unread lines leave it.
--
-- Only for a text that is there as a whole: while it waits nothing else of the caller goes on.
-- @module pager

local pager = {}

local PROMPT = "-- more: Enter, q leaves"
--- What ends the text early.
local LEFT = {}

--- The next key that means something here; q and Ctrl-T raise LEFT. Letters are taken as characters, or
--- they would stand in the shell afterwards.
local function wait_for_key()
  while true do
    local name, what = os.pullEventRaw()
    if name == "terminate" or name == "char" and what:lower() == "q" then
      error(LEFT, 0)
    elseif name == "char" or name == "key" and what == keys.enter then
      return
    end
  end
end

--- On the empty last row.
local function ask_for_more(screen)
  local width = screen.getSize()
  local column, row = screen.getCursorPos()
  screen.setCursorPos(1, row)
  screen.write(PROMPT:sub(1, width - 1))
  local ok, why = pcall(wait_for_key)
  screen.clearLine()
  screen.setCursorPos(column, row)
  if not ok then
    error(why, 0)
  end
end

--- A screen that waits whenever a row of the text would be pushed out unread.
local function paged(screen)
  local view = setmetatable({}, { __index = screen })
  local _, first_row = screen.getCursorPos()
  local left = first_row - 1
  function view.scroll(rows)
    screen.scroll(rows)
    left = left - rows
    if left <= 0 then
      ask_for_more(screen)
      local _, height = screen.getSize()
      left = height - 1
    end
  end
  return view
end

--- Runs what prints, on a screen that waits.
-- @treturn boolean whether it was printed to its end; an error of `body` is raised
function pager.run(body)
  local screen = term.current()
  term.redirect(paged(screen))
  local ok, why = pcall(body)
  term.redirect(screen)
  if not ok and why ~= LEFT then
    error(why, 0)
  end
  return ok
end

return pager
