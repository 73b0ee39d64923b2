--- A computer in memory for the specs: a disk under the mod's rules, a clock that the spec moves.
--
-- `computer.die_at(n)` lets the power go right before the nth change of the disk: from there on
-- nothing changes any more, whatever the client tries. A new boot then finds what was left.
-- @module computer

local computer = {}

local MIN_ENTRY_BYTES = 500

local function clean(path)
  local parts = {}
  for part in path:gmatch("[^/]+") do
    parts[#parts + 1] = part
  end
  return table.concat(parts, "/")
end

local function parent(path)
  return path:match("^(.*)/[^/]*$") or ""
end

-- The disk ----------------------------------------------------------------------------------------
-- `nodes` maps a path to its bytes, or to true for a directory.

local Disk = {}
Disk.__index = Disk

local function change(self)
  self.changes = self.changes + 1
  if self.die_at and self.changes >= self.die_at then
    self.dead = true
  end
  if self.dead then
    error("the power is gone", 0)
  end
end

function Disk:used()
  local used = 0
  for path, node in pairs(self.nodes) do
    if path ~= "" then
      used = used + math.max(MIN_ENTRY_BYTES, node == true and 0 or #node)
    end
  end
  return used
end

local function need_room(self, path, bytes)
  if self:used() + bytes > self.capacity then
    error("/" .. path .. ": Out of space", 0)
  end
end

local function make_dir(self, path)
  if self.nodes[path] == true then
    return
  elseif self.nodes[path] then
    error("/" .. path .. ": File exists", 0)
  end
  make_dir(self, parent(path))
  need_room(self, path, MIN_ENTRY_BYTES)
  change(self)
  self.nodes[path] = true
end

local function below(path)
  return function(other)
    return other == path or other:sub(1, #path + 1) == path .. "/"
  end
end

local function delete(self, path)
  local matches, gone = below(path), {}
  for other in pairs(self.nodes) do
    gone[#gone + 1] = matches(other) and other or nil
  end
  if #gone > 0 then
    change(self)
  end
  for _, other in ipairs(gone) do
    self.nodes[other] = nil
  end
end

local function drive(path)
  return path:match("^disk%d*") or path:match("^rom") or "hdd"
end

--- Moves on one disk in one step, to another disk by copying each entry and then deleting.
local function move(self, from, to)
  if self.nodes[to] then
    error("/" .. to .. ": File exists", 0)
  elseif not self.nodes[from] then
    error("/" .. from .. ": No such file", 0)
  end
  make_dir(self, parent(to))
  local matches, paths = below(from), {}
  for path in pairs(self.nodes) do
    paths[#paths + 1] = matches(path) and path or nil
  end
  table.sort(paths)
  local in_one = drive(from) == drive(to)
  if in_one then
    change(self)
  end
  for _, path in ipairs(paths) do
    if not in_one then
      change(self)
    end
    self.nodes[to .. path:sub(#from + 1)] = self.nodes[path]
    self.nodes[path] = not in_one and self.nodes[path] or nil
  end
  if not in_one then
    delete(self, from)
  end
end

local function list(self, path)
  if self.nodes[path] ~= true then
    error("/" .. path .. ": Not a directory", 0)
  end
  local names = {}
  for other in pairs(self.nodes) do
    if other ~= "" and parent(other) == path then
      names[#names + 1] = other:match("[^/]+$")
    end
  end
  table.sort(names)
  return names
end

local function open(self, path, mode)
  if mode:find("r") then
    local bytes = self.nodes[path]
    if type(bytes) ~= "string" then
      return nil, "/" .. path .. ": No such file"
    end
    return {
      readAll = function()
        return bytes
      end,
      close = function() end,
    }
  end
  make_dir(self, parent(path))
  if self.nodes[path] == nil then
    need_room(self, path, MIN_ENTRY_BYTES)
  end
  change(self)
  self.nodes[path] = ""
  return {
    write = function(bytes)
      need_room(self, path, math.max(0, #bytes - MIN_ENTRY_BYTES))
      change(self)
      self.nodes[path] = self.nodes[path] .. bytes
    end,
    close = function() end,
  }
end

local function make_fs(disk)
  local fs = {}
  local function on_path(name, body)
    fs[name] = function(path, ...)
      return body(disk, clean(path), ...)
    end
  end
  on_path("exists", function(self, path)
    return self.nodes[path] ~= nil
  end)
  on_path("isDir", function(self, path)
    return self.nodes[path] == true
  end)
  on_path("isReadOnly", function(_, path)
    return path:sub(1, 3) == "rom"
  end)
  on_path("getSize", function(self, path)
    return type(self.nodes[path]) == "string" and #self.nodes[path] or 0
  end)
  on_path("getDrive", function(_, path)
    return drive(path)
  end)
  on_path("getCapacity", function(self)
    return self.capacity
  end)
  on_path("getFreeSpace", function(self)
    return math.max(0, self.capacity - self:used())
  end)
  on_path("makeDir", make_dir)
  on_path("delete", delete)
  on_path("list", list)
  on_path("open", open)
  function fs.move(from, to)
    return move(disk, clean(from), clean(to))
  end
  function fs.copy(from, to)
    disk.nodes[clean(to)] = disk.nodes[clean(from)]
  end
  function fs.combine(_, path)
    return clean(path)
  end
  return fs
end

-- The rest ----------------------------------------------------------------------------------------

--- The host of the terminal: an advanced computer's screen that nobody looks at.
local SCREEN = {
  log = function() end,
  show = function() end,
  screen_size = function()
    return 51, 19
  end,
  is_colour = function()
    return true
  end,
  start_program = function() end,
}

local function make_os(self)
  local timers = 0
  os.getComputerID = function()
    return 7
  end
  os.getComputerLabel = function() end
  os.epoch = function()
    -- Every look costs time, so that a busy program comes to its end without real seconds.
    self.now_ms = self.now_ms + self.look_ms
    return self.now_ms
  end
  os.startTimer = function(seconds)
    timers = timers + 1
    self.timers[timers] = seconds
    return timers
  end
  os.queueEvent = function(...)
    self.events[#self.events + 1] = table.pack(...)
  end
  os.pullEventRaw = coroutine.yield
  os.pullEvent = function(filter)
    local event = table.pack(coroutine.yield(filter))
    if event[1] == "terminate" then
      error("Terminated", 0)
    end
    return table.unpack(event, 1, event.n)
  end
  os.clock = function()
    return (self.now_ms - self.paused_ms) / 1000
  end
  os.day = function()
    return 12
  end
  os.time = function()
    return 12.508
  end
end

--- A new computer, in the globals of ComputerCraft.
-- @tparam ?table options `{capacity, look_ms}`
function computer.new(options)
  options = options or {}
  local self = { events = {}, timers = {}, now_ms = 1000000, paused_ms = 0, look_ms = options.look_ms or 1 }
  self.disk = setmetatable({ nodes = { [""] = true }, changes = 0 }, Disk)
  self.disk.capacity = options.capacity or 1000000
  fs = make_fs(self.disk)
  make_os(self)
  _HOST = "ComputerCraft 1.116.1 (specs)"
  if package.loaded.guard then
    -- Another computer handles no event of the one before.
    package.loaded.guard.begin_turn(nil)
  end
  loadfile = loadfile or function() end
  colors = dofile("cc_client/simulator/rom/apis/colors.lua")
  term = loadfile("cc_client/simulator/rom/apis/term.lua")(SCREEN)
  if package.loaded.shared then
    package.loaded.shared.learn()
  end
  --- The power goes right before the nth change from now.
  function self.die_at(count)
    self.disk.changes, self.disk.die_at = 0, count
  end
  --- The power is back.
  function self.revive()
    self.disk.dead, self.disk.die_at = nil, nil
  end
  return self
end

--- Puts devices beside the computer: name to `{types, methods}`; returns them.
function computer.peripherals(devices)
  peripheral = {
    getNames = function()
      local names = {}
      for name in pairs(devices) do
        names[#names + 1] = name
      end
      table.sort(names)
      return names
    end,
    getType = function(name)
      if devices[name] then
        return table.unpack(devices[name].types)
      end
    end,
    getMethods = function(name)
      local methods = devices[name] and {}
      for method in pairs(methods and devices[name].methods or {}) do
        methods[#methods + 1] = method
      end
      return methods
    end,
    call = function(name, method, ...)
      if not devices[name] then
        error("No peripheral attached", 2)
      end
      return devices[name].methods[method](...)
    end,
    wrap = function(name)
      local wrapped = {}
      for method in pairs(devices[name].methods) do
        wrapped[method] = function(...)
          return peripheral.call(name, method, ...)
        end
      end
      return wrapped
    end,
  }
  return devices
end

--- A monitor, which nobody can read; `log` is all that was written.
function computer.monitor(width, height)
  local self = { types = { "monitor" }, log = "" }
  local x, y, scale = 1, 1, 1
  self.methods = {
    getSize = function()
      return math.floor(width / scale), math.floor(height / scale)
    end,
    setTextScale = function(to)
      scale = to
    end,
    getCursorPos = function()
      return x, y
    end,
    setCursorPos = function(to_x, to_y)
      x, y = to_x, to_y
    end,
    write = function(text)
      self.log, x = self.log .. text, x + #text
    end,
    blit = function(text)
      self.log, x = self.log .. text, x + #text
    end,
  }
  local nothing = { "scroll", "clear", "clearLine", "setCursorBlink", "setTextColour", "setTextColor" }
  for _, name in ipairs(nothing) do
    self.methods[name] = function() end
  end
  for _, name in ipairs({ "setBackgroundColour", "setBackgroundColor", "getCursorBlink", "isColour" }) do
    self.methods[name] = function() end
  end
  return self
end

return computer
