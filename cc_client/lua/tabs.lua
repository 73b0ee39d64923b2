--- Programs that a program starts in tabs of their own: `bg`, `fg`, `shell.openTab`, `multishell.launch`.
--
-- The game's own tabs would be out of sight and out of reach. So while a program runs, `multishell.launch` is
-- ours: what it is to start runs in the background of the client, without an end of its time, where its screen
-- can be read and it can be stopped. Such a tab has a name, and is none of the tabs of the player.
-- @module tabs

local disk = require("disk")
local shared = require("shared")

local tabs = {}

--- What a program is told as the number of a tab: none of the game's, so that what it does with it does nothing.
local FIRST_NUMBER = 1000
local SHELL = "rom/programs/shell.lua"
local MAX_RUNNING, MAX_ENDED = 16, 8

--- All that run, and the last that ended, the oldest first: `{name, number, title, began_s, capture?}`, and of
-- those that ended `{ended, over_s, message?}`.
local list = {}
local last = 0

-- Keeping -----------------------------------------------------------------------------------------

local function count_running()
  local count = 0
  for _, tab in ipairs(list) do
    count = count + (tab.ended and 0 or 1)
  end
  return count
end

--- Forgets the oldest of those that ended, where there are too many.
local function forget()
  local surplus, kept = #list - count_running() - MAX_ENDED, {}
  for _, tab in ipairs(list) do
    if tab.ended and surplus > 0 then
      surplus = surplus - 1
    else
      kept[#kept + 1] = tab
    end
  end
  list = kept
end

local function add(env, path, arguments)
  if count_running() >= MAX_RUNNING then
    error(MAX_RUNNING .. " programs run in the background already", 3)
  end
  last = last + 1
  local tab =
    { name = "tab-" .. last, number = FIRST_NUMBER + last, env = env, path = path, arguments = arguments }
  local words = { path == SHELL and arguments[1] or path, table.unpack(arguments, path == SHELL and 2 or 1) }
  for index, word in ipairs(words) do
    words[index] = tostring(word)
  end
  tab.word, tab.title, tab.began_s = words[1], string.sub(table.concat(words, " "), 1, 100), os.clock()
  list[#list + 1] = tab
  return tab
end

--- What a program has as `multishell.launch`: it adds to a list of tabs that are to begin.
function tabs.launcher(launched)
  return function(env, path, ...)
    if type(env) ~= "table" or type(path) ~= "string" then
      error("bad argument (a table and a path expected)", 2)
    end
    local tab = add(env, path, table.pack(...))
    launched[#launched + 1] = tab
    return tab.number
  end
end

-- Running -----------------------------------------------------------------------------------------

--- The program of a tab as `programs.run` takes it; nil and a sentence: there is none.
function tabs.program(tab)
  local path, arguments, env = tab.path, tab.arguments, tab.env
  if path == SHELL and arguments[1] then
    -- Not by a shell in between, which would keep how it ended for itself.
    path = shell and shell.resolveProgram(tab.word)
    arguments, env = table.pack(table.unpack(arguments, 2, arguments.n)), nil
    if not path then
      return nil, "There is no program " .. tab.word .. "."
    end
  end
  path = fs.combine("", path)
  local bytes, why = disk.read(path)
  if not bytes then
    return nil, why
  end
  -- What all share must not get a metatable.
  env = env and not shared.has(env) and setmetatable(env, { __index = _G }) or nil
  return { id = tab.name, path = path, bytes = bytes, arguments = arguments, env = env, timeout_s = math.huge }
end

--- Notes how the program of a tab ended.
function tabs.over(tab, ended, message)
  tab.ended, tab.message, tab.over_s = ended, message, os.clock()
  forget()
end

-- Asking ------------------------------------------------------------------------------------------

--- Whether any program runs in the background.
function tabs.any()
  return count_running() > 0
end

--- The tab of a name; nil: there is none, or it was forgotten.
function tabs.find(name)
  for _, tab in ipairs(list) do
    if tab.name == name then
      return tab
    end
  end
end

--- An entry of `info` for each.
function tabs.told()
  local told = {}
  for index, tab in ipairs(list) do
    local seconds = math.floor((tab.over_s or os.clock()) - tab.began_s)
    told[index] = { tab = tab.name, program = tab.title, seconds = math.max(0, seconds), ended = tab.ended }
    told[index].message = tab.message and tab.message:sub(1, 200)
  end
  return told
end

return tabs
