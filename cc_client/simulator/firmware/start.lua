--- The simulated computer's firmware: makes the globals of ComputerCraft from the host's functions, when Lua is
-- sealed.
--
-- Written from the documented behaviour of CC: Tweaked, not from its text. The host (Python) passes
-- one table of functions; each answers `true, ...` or `false, sentence`. The parts of the firmware
-- run one after the other, each with the table `kernel`. The chunk returns the function that resumes
-- the computer with an event.
-- @module start

local host, date = ...

local error, type, pack, unpack = error, type, table.pack, table.unpack
local format = string.format

--- What the parts share; nothing of it is reached by programs.
local kernel = { host = host, date = date }

--- The metatable of what only the host can make, such as the answer to a request.
kernel.object = {}

--- A function of the host as a function of the computer: failures become errors of its caller.
function kernel.native(name)
  local call = host[name]
  return function(...)
    local results = pack(call(...))
    if not results[1] then
      error(results[2], 2)
    end
    return unpack(results, 2, results.n)
  end
end

--- What the firmware and the ROM see as globals: the game's, but for the parts of Lua that they need
-- themselves, of which they have their own, as a program may change those that all share.
kernel.globals = setmetatable({}, { __index = _G, __newindex = _G })

for _, name in ipairs({ "table", "string", "math", "bit32" }) do
  local own = {}
  for key, value in pairs(_G[name]) do
    own[key] = value
  end
  rawset(kernel.globals, name, own)
end
local KEPT = "assert error getmetatable ipairs load next pairs pcall rawequal rawget rawlen rawset select "
  .. "setmetatable tonumber tostring type"
for name in KEPT:gmatch("%a+") do
  rawset(kernel.globals, name, _G[name])
end

--- Refuses an argument of another type, in the name of the caller's caller.
function kernel.expect(index, value, wanted, other)
  if type(value) ~= wanted and type(value) ~= other then
    local sentence = "bad argument #%d (%s expected, got %s)"
    error(format(sentence, index, wanted, value == nil and "no value" or type(value)), 3)
  end
end

for _, part in ipairs({ "guarding", "system", "files", "web", "sockets", "loading", "power" }) do
  assert(load(host.firmware(part), "=" .. part, "t", kernel.globals))(kernel)
end
return kernel.resume
