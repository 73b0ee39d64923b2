--- The simulated computer's firmware: makes the globals of ComputerCraft from the host's functions.
--
-- Written from the documented behaviour of CC: Tweaked, not from its text. The host (Python) passes
-- one table of functions; each answers `true, ...` or `false, sentence`. The parts of the firmware
-- run one after the other, each with the table `kernel`. The chunk returns the function that resumes
-- the computer with an event.
-- @module start

local host = ...

--- What the parts share; nothing of it is reached by programs.
local kernel = { host = host, date = os.date }

--- The metatable of what only the host can make, such as the answer to a request.
kernel.object = {}

-- What the game does not have.
for name in ("io package require dofile loadfile collectgarbage python os module"):gmatch("%a+") do
  _G[name] = nil
end

--- A function of the host as a function of the computer: failures become errors of its caller.
function kernel.native(name)
  local call = host[name]
  return function(...)
    local results = table.pack(call(...))
    if not results[1] then
      error(results[2], 2)
    end
    return table.unpack(results, 2, results.n)
  end
end

--- Refuses an argument of another type, in the name of the caller's caller.
function kernel.expect(index, value, wanted, other)
  if type(value) ~= wanted and type(value) ~= other then
    local sentence = "bad argument #%d (%s expected, got %s)"
    error(sentence:format(index, wanted, value == nil and "no value" or type(value)), 3)
  end
end

for _, part in ipairs({ "guarding", "system", "files", "web", "sockets", "loading", "power" }) do
  assert(load(host.firmware(part), "=" .. part, "t"))(kernel)
end
return kernel.resume
