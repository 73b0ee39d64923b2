--- Switches on: settings, then the shell with the player's startup files, or the program it is told to run.
-- @module power

local kernel = ...
local host = kernel.host
local create, resume, status = coroutine.create, coroutine.resume, coroutine.status

local DEFAULTS = {
  { "shell.allow_startup", true, "Run startup files when the computer turns on." },
  { "shell.autocomplete", true, "Complete programs and arguments in the shell." },
  { "list.show_hidden", false, "Show files whose names begin with a dot." },
  { "motd.enable", false, "Show a message when the computer turns on." },
  { "bios.use_multishell", true, "Allow several programs in tabs." },
}

local function define_settings()
  for _, each in ipairs(DEFAULTS) do
    settings.define(each[1], { default = each[2], description = each[3], type = type(each[2]) })
  end
  settings.define("shell.allow_disk_startup", { default = commands == nil, type = "boolean" })
  if fs.exists(".settings") then
    settings.load(".settings")
  end
end

--- Runs one program in place of the shell, which nobody sees.
local function run_directly(path)
  local shell = kernel.api("shell").make()
  local ok, why = shell.start(path)
  if not ok then
    host.log("the client ended: " .. tostring(why))
  end
  host.power("shutdown")
end

--- The shell and, when that ends, the end.
local function run_shell()
  local program = "rom/programs/shell.lua"
  if term.isColour() and settings.get("bios.use_multishell") then
    program = "rom/programs/advanced/multishell.lua"
  end
  os.run({}, program)
  os.run({}, "rom/programs/shutdown.lua")
end

local function main()
  define_settings()
  local path = host.start_program()
  if path then
    return run_directly(path)
  end
  local ok, why = pcall(run_shell)
  term.redirect(term.native())
  if not ok then
    printError(why)
    term.setCursorBlink(false)
    print("Press any key to continue")
    os.pullEventRaw("key")
  end
  os.shutdown()
end

local body = create(main)
local filter

--- An event as Lua has it: what the host names by number becomes a handle.
local function arrive(name, ...)
  if name == "\0held" then
    return kernel.release(...)
  end
  local make = kernel.arrivals[name]
  if make then
    return make(...)
  end
  return name, ...
end

--- Resumes the computer; false and a reason when it cannot go on.
function kernel.resume(...)
  local event = table.pack(arrive(...))
  if filter ~= nil and event[1] ~= filter and event[1] ~= "terminate" then
    return true
  end
  kernel.rearm()
  local ok, value = resume(body, table.unpack(event, 1, event.n))
  kernel.show_screen()
  if not ok then
    return false, tostring(value)
  end
  filter = value
  return status(body) ~= "dead", "the firmware ended"
end
