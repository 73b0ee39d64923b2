--- A computer in memory that runs the whole client, one event at a time, and tells what it changed.
--
-- The disk and the clock are those of tests/lua/computer.lua, so the power can go before every change.
-- What differs between two processes (addresses, the clock of the host) is replaced, so that a seed
-- replays exactly. `tell` holds functions of the explorer; none of them raises, nor looks into Lua:
-- lupa mixes up the stacks when a coroutine is running.
-- luacheck: std lua52+cc_makes, globals tostring math
-- @module machine

local machine = {}

local NAMES, ROOT = ...
local chunks = {}
for _, name in ipairs(NAMES) do
  chunks[name] = assert(loadfile(ROOT .. "/cc_client/lua/" .. name .. ".lua"))
end
local new_computer = assert(loadfile(ROOT .. "/tests/lua/computer.lua"))().new
local stock_tostring = tostring

-- What must not differ ----------------------------------------------------------------------------

local function make_deterministic(id)
  local ticks = 0
  tostring = function(value)
    return type(value) == "table" and "table" or stock_tostring(value)
  end
  math.random = function()
    ticks = ticks + 1
    return ticks
  end
  os.clock = math.random
  os.getComputerID = function()
    return id
  end
end

--- A table that `pairs` walks in the order in which its keys came: jobs are keyed by their addresses.
local function ordered()
  local keys, values = {}, {}
  local meta = { __index = values }
  function meta.__newindex(_, key, value)
    if values[key] == nil then
      keys[#keys + 1] = key
    elseif value == nil then
      for index, other in ipairs(keys) do
        if other == key then
          table.remove(keys, index)
          break
        end
      end
    end
    values[key] = value
  end
  function meta.__pairs()
    local index, walked = 0, { table.unpack(keys) }
    return function()
      index = index + 1
      return walked[index], values[walked[index]]
    end
  end
  return setmetatable({}, meta)
end

-- The disk, watched -------------------------------------------------------------------------------

local function append(disk, tell, path, bytes)
  disk.changes = disk.changes + 1
  disk.dead = disk.dead or disk.die_at ~= nil and disk.changes >= disk.die_at
  if disk.dead then
    error("the power is gone", 0)
  end
  disk.nodes[path] = (disk.nodes[path] or "") .. bytes
  tell.appended(path, bytes)
end

local function watch(self, tell)
  local open, move = fs.open, fs.move
  function fs.move(from, to)
    move(from, to)
    local data = self.disk.nodes[to]
    tell.moved(from, to, type(data) == "string" and data or "")
  end
  function fs.open(path, mode)
    if mode == "a" then
      return {
        write = function(bytes)
          append(self.disk, tell, path, bytes)
        end,
        close = function() end,
      }
    end
    local handle, why = open(path, mode)
    if handle and mode == "wb" then
      local write = handle.write
      handle.write = function(bytes)
        write(bytes)
        tell.wrote(path, bytes)
      end
    end
    return handle, why
  end
end

-- The computer ------------------------------------------------------------------------------------

local function make_http(self, tell)
  http = {
    websocketAsync = function(url)
      if not self.disk.dead then
        tell.dialed(url)
      end
      return true
    end,
  }
end

local function make_shell()
  shell = {
    setDir = function() end,
    resolveProgram = function(word)
      local path = word:gsub("^/+", "")
      for _, name in ipairs({ path, path .. ".lua" }) do
        if fs.exists(name) and not fs.isDir(name) then
          return name
        end
      end
    end,
  }
end

--- A new computer, switched off.
function machine.new(id, tell)
  local self = new_computer()
  self.tell = tell
  make_deterministic(id)
  watch(self, tell)
  make_http(self, tell)
  make_shell()
  print = function() end
  printError = function(text)
    self.said = text
  end
  return self
end

local function resume(self, ...)
  local ok, why = coroutine.resume(self.client, ...)
  if not ok then
    self.said = stock_tostring(why)
  end
  self.stopped = coroutine.status(self.client) == "dead"
end

--- Switches it on: the client of a new boot runs until it waits for its first event.
function machine.boot(self)
  for name, chunk in pairs(chunks) do
    package.loaded[name], package.preload[name] = nil, chunk
  end
  for index = #self.events, 1, -1 do
    self.events[index] = nil
  end
  local Loop = require("loop")
  local new_loop = Loop.new
  Loop.new = function(...)
    local loop = new_loop(...)
    loop.jobs = ordered()
    return loop
  end
  self.said = nil
  self.client = coroutine.create(require("main").run)
  resume(self)
end

--- Hands the client the event that waits longest.
function machine.step(self)
  resume(self, table.unpack(table.remove(self.events, 1)))
end

--- Queues an event.
function machine.push(self, ...)
  self.events[#self.events + 1] = { ... }
end

--- Queues that a socket has opened.
function machine.open(self, url)
  local handle = {
    send = function(bytes)
      if self.disk.dead or not self.tell.sent(url, bytes) then
        error("attempt to use a closed file", 0)
      end
    end,
    close = function()
      if not self.disk.dead then
        self.tell.closed(url)
      end
    end,
  }
  machine.push(self, "websocket_success", url, handle)
end

return machine
