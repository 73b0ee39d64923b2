--- Tabs: each program in a coroutine and a window of its own; the one in front gets keyboard and mouse.

-- A program may change what all share.
local pack, unpack, remove, max = table.pack, table.unpack, table.remove, math.max
local status, resume_thread = coroutine.status, coroutine.resume

local parent = term.current()
local WIDTH, HEIGHT = parent.getSize()

local multishell = {}
local tabs, front, running = {}, nil, nil

--- Events that only the tab in front sees.
local TO_FRONT = {}
for name in
  ("char key key_up paste terminate file_transfer mouse_click mouse_drag mouse_scroll mouse_up"):gmatch("%S+")
do
  TO_FRONT[name] = true
end

local function resume(tab, ...)
  local name = (...)
  if tab.filter ~= nil and tab.filter ~= name and name ~= "terminate" then
    return
  end
  local before = running
  running = tab
  term.redirect(tab.terminal)
  local ok, value = resume_thread(tab.co, ...)
  tab.terminal = term.current()
  if ok then
    tab.filter = value
  else
    printError(value)
  end
  running = before
end

local function draw_bar()
  if #tabs < 2 then
    return
  end
  local x, y = parent.getCursorPos()
  local blink = parent.getCursorBlink()
  parent.setCursorPos(1, 1)
  parent.clearLine()
  for _, tab in ipairs(tabs) do
    parent.write(" " .. tab.title .. " ")
  end
  parent.setCursorPos(x, y)
  parent.setCursorBlink(blink)
end

local function focus(tab)
  if front ~= tab then
    if front then
      front.window.setVisible(false)
    end
    front = tab
    if tab then
      tab.seen = true
      tab.window.setVisible(true)
    end
  end
end

--- With two tabs the first row is theirs. Where one tab moves, all are told, as in the game.
local function resize(is_asked)
  local top = #tabs > 1 and 2 or 1
  for _, tab in ipairs(tabs) do
    local _, y = tab.window.getPosition()
    if y ~= top then
      is_asked = true
    end
  end
  for _, tab in ipairs(is_asked and { unpack(tabs) } or {}) do
    tab.window.reposition(1, top, WIDTH, HEIGHT - top + 1)
    resume(tab, "term_resize")
  end
  draw_bar()
end

local function launch(env, path, ...)
  local arguments = pack(...)
  local tab = { title = (fs.getName(path):gsub("%.lua$", "")) }
  local top = #tabs > 0 and 2 or 1
  tab.window = window.create(parent, 1, top, WIDTH, HEIGHT - top + 1, false)
  tab.terminal = {}
  for name in pairs(term.native()) do
    tab.terminal[name] = tab.window[name]
  end
  tab.co = coroutine.create(function()
    os.run(env, path, unpack(arguments, 1, arguments.n))
    if not tab.seen then
      term.setCursorBlink(false)
      print("Press any key to continue")
      os.pullEvent("char")
    end
  end)
  tabs[#tabs + 1] = tab
  if not front then
    focus(tab)
  end
  resume(tab)
  return tab
end

local function number_of(wanted)
  for number, tab in ipairs(tabs) do
    if tab == wanted then
      return number
    end
  end
end

local function drop_dead()
  for number = #tabs, 1, -1 do
    local tab = tabs[number]
    if status(tab.co) == "dead" then
      remove(tabs, number)
      if front == tab then
        focus(tabs[max(1, number - 1)])
      end
    end
  end
end

function multishell.getFocus()
  return number_of(front)
end
function multishell.setFocus(number)
  if tabs[number] then
    focus(tabs[number])
    draw_bar()
    return true
  end
  return false
end
function multishell.getCurrent()
  return number_of(running)
end
function multishell.getCount()
  return #tabs
end
function multishell.getTitle(number)
  return tabs[number] and tabs[number].title
end
function multishell.setTitle(number, title)
  if tabs[number] then
    tabs[number].title = title
    draw_bar()
  end
end
function multishell.launch(env, path, ...)
  local before = term.current()
  env.multishell = multishell
  local tab = launch(env, path, ...)
  term.redirect(before)
  return number_of(tab)
end

parent.clear()
launch({ multishell = multishell }, "rom/programs/shell.lua")
drop_dead()
while #tabs > 0 do
  resize()
  if front then
    front.window.restoreCursor()
  end
  local event = pack(os.pullEventRaw())
  if event[1] == "term_resize" then
    resize(true)
  else
    local targets = TO_FRONT[event[1]] and { front } or { unpack(tabs) }
    for _, tab in ipairs(targets) do
      if status(tab.co) ~= "dead" then
        resume(tab, unpack(event, 1, event.n))
      end
    end
  end
  drop_dead()
end
term.redirect(parent)
