--- The simulated computer's firmware: makes the globals of ComputerCraft from the host's functions.
--
-- Written from the documented behaviour of CC: Tweaked, not from its text. The host (Python) passes
-- one table of functions; each answers `true, ...` or `false, sentence`. The chunk returns the
-- function that resumes the computer with an event.
-- @module bios

local host = ...

local stock_date, stock_create = os.date, coroutine.create
local set_hook = debug.sethook

-- What the game does not have.
for name in ("io package require dofile loadfile collectgarbage python os module"):gmatch("%a+") do
  _G[name] = nil
end

--- A function of the host as a function of the computer: failures become errors of its caller.
local function native(name)
  local call = host[name]
  return function(...)
    local results = table.pack(call(...))
    if not results[1] then
      error(results[2], 2)
    end
    return table.unpack(results, 2, results.n)
  end
end

local function expect(index, value, wanted, other)
  if type(value) ~= wanted and type(value) ~= other then
    local sentence = "bad argument #%d (%s expected, got %s)"
    error(sentence:format(index, wanted, value == nil and "no value" or type(value)), 3)
  end
end

-- The watchdog ------------------------------------------------------------------------------------
-- 7 s without a yield is one error; 1.5 s more and the computer is off and stays off.

local WATCHDOG_S, GRACE_S = 7, 1.5
local resumed_at, warned = host.now(), false

local function watchdog()
  local busy_s = host.now() - resumed_at
  if busy_s > WATCHDOG_S + GRACE_S then
    host.abort("too long without yielding")
  elseif busy_s > WATCHDOG_S and not warned then
    warned = true
    error("Too long without yielding", 2)
  end
end

function coroutine.create(body)
  local co = stock_create(body)
  set_hook(co, watchdog, "", 1000000)
  return co
end

function coroutine.wrap(body)
  local co = coroutine.create(body)
  return function(...)
    local results = table.pack(coroutine.resume(co, ...))
    if not results[1] then
      error(results[2], 0)
    end
    return table.unpack(results, 2, results.n)
  end
end

-- Globals of 5.1 that the game keeps.
unpack = table.unpack
_HOST = host.version()
_CC_DEFAULT_SETTINGS = ""

-- os ----------------------------------------------------------------------------------------------

os = {
  clock = host.clock,
  queueEvent = function(name, ...)
    expect(1, name, "string")
    host.queue_event(name, ...)
  end,
  startTimer = function(seconds)
    expect(1, seconds, "number")
    return host.start_timer(seconds)
  end,
  cancelTimer = function(id)
    expect(1, id, "number")
    host.cancel_timer(id)
  end,
  getComputerID = host.computer_id,
  computerID = host.computer_id,
  setComputerLabel = host.set_label,
  date = stock_date,
}

function os.getComputerLabel()
  local label = host.get_label()
  -- No value at all, not nil, when there is none.
  if label == nil then
    return
  end
  return label
end
os.computerLabel = os.getComputerLabel

function os.version()
  return "CraftOS 1.9"
end

function os.epoch()
  return host.epoch_ms()
end

function os.day()
  return math.floor(host.epoch_ms() / 86400000)
end

function os.time(when)
  if type(when) == "table" then
    return 0
  end
  return host.epoch_ms() / 3600000 % 24
end

function os.pullEventRaw(filter)
  return coroutine.yield(filter)
end

function os.pullEvent(filter)
  local event = table.pack(coroutine.yield(filter))
  if event[1] == "terminate" then
    error("Terminated", 0)
  end
  return table.unpack(event, 1, event.n)
end

local function power(how)
  return function()
    host.power(how)
    while true do
      coroutine.yield()
    end
  end
end
os.shutdown, os.reboot = power("shutdown"), power("reboot")

function os.sleep(seconds)
  local timer = os.startTimer(seconds or 0)
  repeat
    local _, id = os.pullEvent("timer")
  until id == timer
end
sleep = os.sleep

-- fs ----------------------------------------------------------------------------------------------

fs = {}

local function path_function(name)
  local call = native("fs_" .. name)
  return function(path, ...)
    expect(1, path, "string")
    return call(path, ...)
  end
end

for _, name in ipairs({ "exists", "isDir", "isReadOnly", "makeDir", "delete", "getSize", "getDrive" }) do
  fs[name] = path_function(name)
end
for _, name in ipairs({ "move", "copy", "getFreeSpace", "getCapacity", "isDriveRoot", "getName", "getDir" }) do
  fs[name] = path_function(name)
end

--- The host answers lists as one text, entries ended by NUL.
local function list_of(name)
  local call = path_function(name)
  return function(path)
    local ok, text = pcall(call, path)
    if not ok then
      error(text, 2)
    end
    local list = {}
    for entry in text:gmatch("[^%z]+") do
      list[#list + 1] = entry
    end
    return list
  end
end
fs.list, fs.find = list_of("list"), list_of("find")

local clean = native("fs_combine")

function fs.combine(first, ...)
  expect(1, first, "string")
  local path = first
  for index, part in ipairs({ ... }) do
    expect(index + 1, part, "string")
    path = path .. "/" .. part
  end
  return clean(path)
end

local attributes = path_function("attributes")
function fs.attributes(path)
  local size, is_directory, is_read_only, created, modified = attributes(path)
  return {
    size = size,
    isDir = is_directory,
    isReadOnly = is_read_only,
    created = created,
    modified = modified,
    modification = modified,
  }
end

local function read_functions(handle, id)
  local read, read_all = native("file_read"), native("file_read_all")
  local read_line = native("file_read_line")
  function handle.read(count)
    local bytes = read(id, count or 1)
    if bytes and not count and handle.binary then
      return bytes:byte()
    end
    return bytes
  end
  function handle.readAll()
    return read_all(id)
  end
  function handle.readLine(with_end)
    return read_line(id, with_end == true)
  end
end

local function write_functions(handle, id)
  local write, flush = native("file_write"), native("file_flush")
  function handle.write(value)
    if type(value) == "number" and handle.binary then
      value = string.char(value)
    end
    return write(id, tostring(value))
  end
  function handle.writeLine(value)
    return write(id, tostring(value) .. "\n")
  end
  function handle.flush()
    return flush(id)
  end
end

local function make_handle(id, mode)
  local handle = {}
  if mode:find("r") or mode:find("+", 1, true) then
    read_functions(handle, id)
  end
  if not mode:find("r") or mode:find("+", 1, true) then
    write_functions(handle, id)
  end
  local seek, close = native("file_seek"), native("file_close")
  function handle.seek(whence, offset)
    return seek(id, whence or "cur", offset or 0)
  end
  function handle.close()
    return close(id)
  end
  return setmetatable(handle, { __index = { binary = mode:find("b") ~= nil } })
end

function fs.open(path, mode)
  expect(1, path, "string")
  expect(2, mode, "string")
  if not mode:find("^[rwa]%+?b?$") then
    error("Unsupported mode", 2)
  end
  local ok, id = host.fs_open(path, mode)
  if not ok then
    return nil, id
  end
  return make_handle(id, mode)
end

-- http --------------------------------------------------------------------------------------------

local function make_socket(id, url)
  local socket = {}
  local send, close = native("socket_send"), native("socket_close")
  function socket.send(message, binary)
    send(id, tostring(message), binary == true)
  end
  function socket.close()
    close(id)
  end
  function socket.receive(timeout)
    local timer = timeout and os.startTimer(timeout)
    while true do
      local name, first, message, binary = os.pullEvent()
      if name == "websocket_message" and first == url then
        return message, binary
      elseif name == "websocket_closed" and first == url or name == "timer" and first == timer then
        return nil
      end
    end
  end
  return socket
end

http = {}

function http.checkURL(url)
  expect(1, url, "string")
  return true
end

function http.websocketAsync(url, headers)
  local options = type(url) == "table" and url or { url = url, headers = headers }
  expect(1, options.url, "string")
  local names = {}
  for name, value in pairs(options.headers or {}) do
    names[#names + 1] = name .. "\0" .. value
  end
  return host.socket_open(options.url, table.concat(names, "\0"), options.timeout or 30)
end

function http.websocket(url, headers)
  local ok, why = http.websocketAsync(url, headers)
  while ok do
    local name, first, value = os.pullEvent()
    if name == "websocket_success" and first == url then
      return value
    elseif name == "websocket_failure" and first == url then
      return false, value
    end
  end
  return false, why
end

-- Loading -----------------------------------------------------------------------------------------

function loadstring(text, name)
  return load(text, name)
end

function loadfile(path, mode, env)
  if type(mode) == "table" and env == nil then
    mode, env = nil, mode
  end
  local handle, why = fs.open(path, "rb")
  if not handle then
    return nil, why
  end
  local text = handle.readAll()
  handle.close()
  return load(text, "@/" .. fs.combine("", path), mode or "bt", env or _G)
end

function dofile(path)
  local chunk, why = loadfile(path, nil, _G)
  if not chunk then
    error(why, 2)
  end
  return chunk()
end

local function run_chunk(env, path, ...)
  local chunk, why = loadfile(path, nil, setmetatable(env, { __index = _G }))
  if not chunk then
    return false, why
  end
  return pcall(chunk, ...)
end

function os.run(env, path, ...)
  local ok, why = run_chunk(env, path, ...)
  if not ok and why ~= nil and why ~= "" then
    printError(why)
  end
  return ok
end

--- Modules of the ROM that are globals in the game.
local function api(name, ...)
  return assert(loadfile("rom/apis/" .. name .. ".lua"))(...)
end

colors = api("colors")
colours = setmetatable({ grey = colors.gray, lightGrey = colors.lightGray }, { __index = colors })
term = api("term", host.log)
dofile("rom/apis/text.lua")
parallel = api("parallel")
window = api("window")
textutils = api("textutils")
peripheral = api("peripheral")
settings = api("settings")
redstone = api("redstone")
rs = redstone
keys = {}

-- Running -----------------------------------------------------------------------------------------

local function start()
  local shell = api("shell")
  local ok, why = shell.start("/.cc-orchestrator/client.lua")
  if not ok then
    host.log("the client ended: " .. tostring(why))
  end
  host.power("shutdown")
end

local main = coroutine.create(start)
local filter

--- An event as Lua has it: the host names sockets by number.
local function arrive(name, url, value, ...)
  if name == "websocket_success" then
    return name, url, make_socket(value, url)
  elseif name == "websocket_closed" then
    return name, url, ...
  end
  return name, url, value, ...
end

--- Resumes the computer; false and a reason when it cannot go on.
return function(...)
  local name = (...)
  if filter ~= nil and name ~= filter and name ~= "terminate" then
    return true
  end
  resumed_at, warned = host.now(), false
  local ok, value = coroutine.resume(main, arrive(...))
  if not ok then
    return false, tostring(value)
  end
  filter = value
  return coroutine.status(main) ~= "dead", "the firmware ended"
end
