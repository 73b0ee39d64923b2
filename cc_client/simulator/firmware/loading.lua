--- What loads and runs programs, and the modules of the ROM that are globals in the game.
-- @module loading

local kernel = ...
local host = kernel.host

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
  path = fs.combine("", path)
  local default = string.find(path, "^rom/") and kernel.globals or _G
  return load(text, "@/" .. path, mode or "bt", env or default)
end

function dofile(path)
  local chunk, why = loadfile(path)
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

--- Makes the globals that a file sets the fields of one global, named like the file.
function os.loadAPI(path)
  local name, env = string.gsub(fs.getName(path), "%.lua$", ""), {}
  local ok, why = run_chunk(env, path)
  if not ok then
    printError(why)
    return false
  end
  _G[name] = setmetatable(env, nil)
  return true
end

function os.unloadAPI(name)
  if type(_G[name]) == "table" then
    _G[name] = nil
  end
end

--- Runs a file of the ROM that makes a global.
local function api(name, ...)
  return assert(loadfile("rom/apis/" .. name .. ".lua"))(...)
end
kernel.api = api

colors = api("colors")
colours = { grey = colors.gray, lightGrey = colors.lightGray }
for name, value in pairs(colors) do
  if name ~= "gray" and name ~= "lightGray" then
    colours[name] = value
  end
end
keys = api("keys")
term, kernel.show_screen = api("term", host)
api("text")
api("reading")
_G.io, _G.vector, _G.bit = api("io"), api("vector"), api("bit")
parallel = api("parallel")
window = api("window")
textutils = api("textutils", kernel)
settings = api("settings")
redstone = api("redstone", kernel)
rs = redstone
peripheral = api("peripheral", kernel)
disk = api("disk")
gps = api("gps", kernel)
if host.is_family("turtle") then
  turtle = api("turtle", kernel)
elseif host.is_family("pocket") then
  pocket = api("pocket")
elseif host.is_family("command") then
  commands = api("commands", kernel)
end
