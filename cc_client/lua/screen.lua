--- The computer's own terminal, made readable: a window lies over all of it, and windows can be read.
--
-- boot.lua tells in the one global that it makes which window the player sees; without it one is laid.
-- A program can draw past all windows, on `term.native()`. That is drawn a second time here, as nothing can
-- read it, and what the player had on the screen is painted again after the program.
-- @module screen

local Capture = require("capture")
local monitors = require("monitors")

local screen = {}

local parent, view
--- What boot.lua told of the window; nil: it laid none.
local shared
local CANNOT = "This computer's screen cannot be read."
local AFTER_RESTART = "This computer's screen can be read once it has been restarted."
--- Why it cannot be read.
local why = CANNOT

--- Whether the client has a tab of its own, which is not what the player sees.
local function is_in_own_tab()
  local ok, count = pcall(function()
    return multishell.getCount()
  end)
  return ok and count > 1
end

--- Finds or lays the window; what is written there can be read. Does nothing where there are no windows.
function screen.open()
  shared, why = _G.cc_orchestrator, CANNOT
  if shared then
    view, parent = shared.screen, shared.parent
    return
  elseif is_in_own_tab() then
    -- A client that was started in the middle: only boot.lua can lay one over the player's tab, when it starts.
    why = AFTER_RESTART
    return
  elseif not window or not window.create then
    return
  end
  parent = term.current()
  local width, height = parent.getSize()
  view = window.create(parent, 1, 1, width, height, true)
  term.redirect(view)
end

--- The terminal may have another size now.
function screen.resize()
  if view and parent and view.reposition then
    local width, height = parent.getSize()
    local old_width, old_height = view.getSize()
    if width ~= old_width or height ~= old_height then
      view.reposition(1, 1, width, height)
    end
  end
end

--- Takes the window away.
function screen.close()
  if view and not _G.cc_orchestrator and term.current() == view then
    term.redirect(parent)
  end
  view = nil
end

-- Behind the windows ------------------------------------------------------------------------------

--- What changes no picture by itself: a program that only puts it back as it was has drawn nothing.
local MOVES = {}
for name in ("setCursorPos setTextColour setTextColor setBackgroundColour setBackgroundColor"):gmatch("%a+") do
  MOVES[name] = true
end

--- The second drawing of a terminal: as large, and in the colours and at the place where it draws now.
local function second(terminal)
  local capture = Capture.new(terminal.getSize())
  for _, state in ipairs({ "CursorPos", "TextColour", "BackgroundColour" }) do
    pcall(function()
      capture.terminal["set" .. state](terminal["get" .. state]())
    end)
  end
  return capture
end

--- What a program has as `term.native`; nil: this computer has none.
-- @tparam table seen gets `capture`, the second drawing, and `is_drawn` when the program has drawn there
function screen.native_for(seen)
  local native = _G.term.native
  if type(native) ~= "function" then
    return nil
  end
  local terminal, proxy = native(), {}
  for name, fn in pairs(terminal) do
    proxy[name] = fn
    if monitors.DRAWS[name] then
      proxy[name] = function(...)
        seen.capture = seen.capture or second(terminal)
        seen.is_drawn = seen.is_drawn or not MOVES[name]
        pcall(seen.capture.terminal[name], ...)
        return fn(...)
      end
    end
  end
  return function()
    return proxy
  end
end

--- Paints again what the player had on the screen. The tabs of the game do that by themselves when they are told
-- that the screen may have another size; without tabs there is only the window over the terminal.
function screen.repaint()
  if multishell then
    os.queueEvent("term_resize")
  elseif view then
    view.redraw()
  end
end

--- What it shows: `{width, height, x, y, blink, rows, terminal}`; nil and the reason where it cannot be read.
function screen.read()
  if shared and not _G.cc_orchestrator then
    -- The player has left the shell over which it lay.
    shared, view, why = nil, nil, AFTER_RESTART
  end
  if not view or not view.getLine then
    return nil, why
  end
  -- The event that says so may have been dropped.
  screen.resize()
  local width, height = view.getSize()
  local x, y = view.getCursorPos()
  local rows = {}
  for row = 1, height do
    rows[row] = { view.getLine(row) }
  end
  local shown = { width = width, height = height, x = x, y = y, rows = rows, terminal = view }
  shown.blink = view.getCursorBlink()
  return shown
end

--- Whether what a player types now goes to what is shown: among tabs, ours lies over the first.
function screen.is_in_front()
  local ok, count, front = pcall(function()
    return multishell.getCount(), multishell.getFocus()
  end)
  return not ok or count < 2 or front == 1
end

return screen
