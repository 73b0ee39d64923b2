--- The command computer: every command is logged and none is known to this world.
-- @module commands

local kernel = ...
local commands = { async = {} }

local function check(line)
  if type(line) ~= "string" then
    error("bad argument #1 (string expected, got " .. type(line) .. ")", 3)
  end
  kernel.host.log("command: " .. line)
end

function commands.exec(line)
  check(line)
  sleep(0.05)
  return false, { "Unknown or incomplete command, see below for error" }, 0
end

local last = 0
function commands.execAsync(line)
  check(line)
  last = last + 1
  os.queueEvent("task_complete", -last, true, false, {}, 0)
  return -last
end

function commands.list()
  return {}
end

function commands.getBlockPosition()
  return 0, 64, 0
end

function commands.getBlockInfo()
  return { name = "minecraft:air", state = {}, tags = {} }
end

return commands
