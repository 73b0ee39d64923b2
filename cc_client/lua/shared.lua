--- What all programs of the computer share, and what one program has put in its place.
--
-- The tables of the game are shared: `_G`, `fs`, `string`, the tables in them and their metatables. What a program
-- puts there the client would call in its own turn, with the computer's token in reach. So each run has a view: its
-- changes are in place in its own turns only, and are put back after each of them. Followed are the functions and
-- tables that were there when the client began, and the names of the game that were missing then. What a program adds
-- besides stays for other programs: the client does not look there (see `kept`).
-- @module shared

local shared = {}

local View = {}
View.__index = View

--- A table of the game has less; one that has more is somebody's data.
local MAX_TABLES, MAX_ENTRIES = 300, 400
--- What some computers do not have as a global, and what boot.lua makes.
local OPTIONAL = "cc_orchestrator commands config debug getfenv http multishell peripheral pocket redstone setfenv "
  .. "settings shell textutils turtle unpack window"
--- In a view: the program has removed what was there.
local NONE = {}

-- Looked up once: each turn of a program calls them for each entry, twice.
local next, rawequal, rawget, rawset = next, rawequal, rawget, rawset
local get_meta = debug and debug.getmetatable or getmetatable
local set_meta = debug and debug.setmetatable

--- The followed entries: a name in a table each, and its value for all but the program whose turn it is.
local owners, names, values, count
--- The number of each entry, by its table and name.
local places
--- What has a metatable, or may get one, and that; the first are one value of each kind that shares one.
local holders, metas, holder_count
--- The metatables in which nothing may be added either.
local whole

-- Following ---------------------------------------------------------------------------------------

local function follow(owner, name)
  local numbers = places[owner]
  if not numbers then
    numbers = {}
    places[owner] = numbers
  end
  if not numbers[name] then
    count = count + 1
    owners[count], names[count], numbers[name] = owner, name, count
  end
  return numbers[name]
end

local function hold(value)
  holder_count = holder_count + 1
  holders[holder_count] = value
end

local function is_small(owner)
  local size = 0
  for _ in next, owner do
    size = size + 1
  end
  return size <= MAX_ENTRIES
end

--- Follows what is in a table, and adds the tables in it to those that wait.
local function follow_all(owner, is_meta, add)
  places[owner] = places[owner] or {}
  for name, value in next, owner do
    local is_table = type(value) == "table"
    if is_meta or type(name) == "string" and (is_table or type(value) == "function") then
      follow(owner, name)
    end
    if is_table then
      add(value)
    end
  end
end

--- Follows what is shared now.
function shared.learn()
  owners, names, values, places, count = {}, {}, {}, {}, 0
  holders, metas, holder_count, whole = {}, {}, 0, {}
  local waiting, seen = {}, {}
  local function add(value)
    if type(value) == "table" and not seen[value] and #waiting < MAX_TABLES then
      seen[value] = true
      waiting[#waiting + 1] = value
    end
  end
  -- Of stock Lua; it leads to the client's own modules.
  seen[package or waiting] = true
  if set_meta then
    for _, kind in ipairs({ "", 0, true, print, (coroutine.create(print)) }) do
      hold(kind)
    end
    hold(nil)
  end
  whole[1] = get_meta("")
  for _, root in ipairs({ _G, shell or _G, multishell or _G, whole[1] }) do
    add(root)
  end
  local at = 1
  while waiting[at] do
    local owner = waiting[at]
    local meta = get_meta(owner)
    if owner == _G or is_small(owner) then
      hold(owner)
      follow_all(owner, owner == whole[1] or seen[owner] == "meta", add)
    end
    if type(meta) == "table" and not seen[meta] and #waiting < MAX_TABLES and is_small(meta) then
      add(meta)
      whole[#whole + 1], seen[meta] = meta, "meta"
    end
    at = at + 1
  end
  for name in string.gmatch(OPTIONAL, "[%w_]+") do
    follow(_G, name)
  end
end

--- Whether a table is one of those that are shared.
function shared.has(owner)
  return places[owner] ~= nil
end

--- The functions that are shared, one after the other.
function shared.functions()
  local at = 0
  return function()
    while at < count do
      at = at + 1
      local value = rawget(owners[at], names[at])
      if type(value) == "function" then
        return value
      end
    end
  end
end

-- Views -------------------------------------------------------------------------------------------

--- A view of one run, in which some entries have values of its own.
-- @tparam table own a list of `{owner, name, value}`
function shared.view(own)
  local self = setmetatable({ changed = {}, metas = {}, added = {} }, View)
  for _, entry in ipairs(own) do
    self.changed[follow(entry[1], entry[2])] = entry[3]
  end
  return self
end

local function set_metatable(value, meta)
  if set_meta then
    set_meta(value, meta)
  elseif type(value) == "table" then
    pcall(setmetatable, value, meta)
  end
end

local function stored(value)
  if value == nil then
    return NONE
  end
  return value
end

local function put(number, value)
  if rawequal(value, NONE) then
    value = nil
  end
  rawset(owners[number], names[number], value)
end

--- Puts the program's changes in place, right before its turn. `leave` notes them anew.
function View:enter()
  local all, owned, called = values, owners, names
  for number = 1, count do
    all[number] = rawget(owned[number], called[number])
  end
  for number = 1, holder_count do
    metas[number] = get_meta(holders[number])
  end
  for _, entry in ipairs(self.added) do
    rawset(entry[1], entry[2], entry[3])
  end
  for number, value in next, self.changed do
    put(number, value)
    self.changed[number] = nil
  end
  for number, meta in next, self.metas do
    set_metatable(holders[number], not rawequal(meta, NONE) and meta or nil)
    self.metas[number] = nil
  end
end

--- Keeps metatables that the program has set, and puts back what was there. None of this may ask a metatable.
local function leave_metas(self)
  for number = 1, holder_count do
    local now, before = get_meta(holders[number]), metas[number]
    if not rawequal(now, before) then
      self.metas[number] = stored(now)
      set_metatable(holders[number], before)
    end
  end
end

--- Keeps what the program has added to metatables, and takes it out.
local function leave_added(self)
  self.added = next(self.added) and {} or self.added
  for _, meta in ipairs(whole) do
    for name, value in next, meta do
      if not places[meta][name] then
        self.added[#self.added + 1] = { meta, name, value }
      end
    end
  end
  for _, entry in ipairs(self.added) do
    rawset(entry[1], entry[2], nil)
  end
end

--- Keeps the program's changes for its next turn, right after this one, and puts back what was there.
function View:leave()
  local changed, all, owned, called = self.changed, values, owners, names
  leave_metas(self)
  for number = 1, count do
    local now, before = rawget(owned[number], called[number]), all[number]
    if not rawequal(now, before) then
      changed[number] = stored(now)
      rawset(owned[number], called[number], before)
    end
  end
  leave_added(self)
end

shared.learn()

return shared
