--- Closes Lua's ways out, before anything else of the computer runs: what programs reach from then on is tables,
-- texts, numbers and functions that lead to nothing of the host.
--
-- Answers the host's functions as functions of Lua: theirs are objects of Python, which no program may hold.
-- @module sealing
-- luacheck: globals _G

local raw = ...

local error, pcall, select, type = error, pcall, select, type
local pack, unpack, find, gsub = table.pack, table.unpack, string.find, string.gsub
local stock_load, stock_info, stock_debug = load, debug.getinfo, debug
--- Of the library of the system, the one function that the computer has too.
local date = os.date

-- What C keeps of its libraries, also where programs have no name for it.
local registry = debug.getregistry()
for _, name in ipairs({ "_LOADED", "_PRELOAD", "_CLIBS" }) do
  local kept = registry[name]
  if type(kept) == "table" then
    setmetatable(kept, nil)
    for key in pairs(kept) do
      kept[key] = nil
    end
  end
  registry[name] = nil
end
registry._IO_input, registry._IO_output = nil, nil

local KEPT = "_G _VERSION assert bit32 coroutine error getmetatable ipairs load math next pairs pcall rawequal rawget "
  .. "rawlen rawset select setmetatable string table tonumber tostring type xpcall"
for name in pairs(_G) do
  if not find(" " .. KEPT .. " ", " " .. name .. " ", 1, true) then
    _G[name] = nil
  end
end

--- Only text: nothing checks the code of a binary chunk.
function _G.load(chunk, name, mode, ...)
  if mode ~= nil and type(mode) ~= "string" then
    error("bad argument #3 to 'load' (string expected, got " .. type(mode) .. ")", 2)
  end
  mode = (mode == nil or find(mode, "t", 1, true)) and "t" or ""
  if select("#", ...) == 0 then
    return stock_load(chunk, name, mode)
  end
  return stock_load(chunk, name, mode, (...))
end

_G.string.dump = function()
  error("Unable to dump given function", 2)
end

--- What is known of a function or a level, but not the function itself.
local function getinfo(...)
  local thread = type((...)) == "thread" and (...) or nil
  local what, options = select(thread and 2 or 1, ...)
  options = options == nil and "nSltu" or options
  -- A `>` among them would make C take for a function what is none.
  if type(options) ~= "string" or find(options, "[^nSltufL]") then
    error("bad argument #2 to 'getinfo' (invalid option)", 2)
  elseif type(what) ~= "number" and type(what) ~= "function" then
    error("bad argument #1 to 'getinfo' (number expected, got " .. type(what) .. ")", 2)
  end
  options = gsub(options, "f", "")
  local found
  if thread then
    found = stock_info(thread, what, options)
  else
    -- One level more: this function stands above its caller.
    found = stock_info(type(what) == "number" and what + 1 or what, options)
  end
  return found
end

_G.debug = {
  traceback = stock_debug.traceback,
  getinfo = getinfo,
  -- With these the client stops a program that never yields; they reach no value of another function.
  sethook = stock_debug.sethook,
  gethook = stock_debug.gethook,
}

--- What the host gets in place of a table, a function or a coroutine. It would keep a pointer to the coroutine that
-- handed it over, also when that is long gone.
local opaque = raw.opaque
raw.opaque = nil
local PLAIN = { ["nil"] = true, boolean = true, number = true, string = true }

local function plain(...)
  local values = pack(...)
  for index = 1, values.n do
    if not PLAIN[type(values[index])] then
      values[index] = opaque
    end
  end
  return unpack(values, 1, values.n)
end

local host = {}
for name, call in pairs(raw) do
  host[name] = function(...)
    -- An exception would be an object of Python. None comes so far but where the call itself fails.
    local results = pack(pcall(call, plain(...)))
    if not results[1] then
      error(type(results[2]) == "string" and results[2] or "the host failed", 2)
    elseif not results[2] then
      error(results[3], 2)
    end
    return unpack(results, 3, results.n)
  end
end
return host, date
