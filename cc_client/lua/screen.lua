--- The computer's own terminal, made readable: a window lies over all of it, and windows can be read.
-- @module screen

local screen = {}

local parent, view

--- Lays the window; what is written from now on can be read. Does nothing where there are no windows.
function screen.open()
  if not window or not window.create then
    return
  end
  parent = term.current()
  local width, height = parent.getSize()
  view = window.create(parent, 1, 1, width, height, true)
  term.redirect(view)
end

--- The terminal has another size now.
function screen.resize()
  if view and view.reposition then
    view.reposition(1, 1, parent.getSize())
  end
end

--- Takes the window away.
function screen.close()
  if view and term.current() == view then
    term.redirect(parent)
  end
  view = nil
end

--- What it shows: `{width, height, x, y, blink, rows}`; nil where it cannot be read.
function screen.read()
  if not view or not view.getLine then
    return nil
  end
  local width, height = view.getSize()
  local x, y = view.getCursorPos()
  local rows = {}
  for row = 1, height do
    rows[row] = { view.getLine(row) }
  end
  return { width = width, height = height, x = x, y = y, blink = view.getCursorBlink(), rows = rows }
end

return screen
