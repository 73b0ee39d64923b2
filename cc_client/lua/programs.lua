--- Runs a program in its own coroutine under a capturing terminal, and says how it ended.
--
-- The bytes that were hashed are the bytes that run: they are never read a second time. The program
-- gets what the shell would give it (`shell`, `arg`, `require`). When its time is over it is sent
-- `terminate`, three times, and then left for good: a coroutine that is never resumed is dead.
-- @module programs

local Capture = require("capture")
local Guard = require("guard")
local paths = require("paths")

local programs = {}

local TERMINATE_TRIES = 3
--- Between two tries: time for a program to clean up.
local TERMINATE_EVERY_MS = 500
--- What a program may be busy with after `terminate`.
local GRACE_MS = 500
local MAX_TRACEBACK_BYTES = 8192

--- A program must not see what the player types, or dies of the player's Ctrl-T.
local PRIVATE = {
  char = true,
  key = true,
  key_up = true,
  paste = true,
  terminate = true,
  mouse_click = true,
  mouse_up = true,
  mouse_drag = true,
  mouse_scroll = true,
}

-- Environment -------------------------------------------------------------------------------------

--- The shell as the program sees it: it cannot end the client's own.
local function program_shell(path)
  if not shell then
    return nil
  end
  local own = {
    exit = function() end,
    getRunningProgram = function()
      return path
    end,
  }
  return setmetatable(own, { __index = shell })
end

local function environment(path, arguments)
  local arg = { [0] = path, table.unpack(arguments) }
  local env = setmetatable(
    { arg = arg, shell = program_shell(path), multishell = multishell },
    { __index = _G }
  )
  -- cc.require exists since 1.90; inside the one-file bundle `require` itself is the bundle's own.
  local loader = loadfile("/rom/modules/main/cc/require.lua", nil, _G)
  local made, make = pcall(loader or error)
  if made and type(make) == "table" and make.make then
    env.require, env.package = make.make(env, paths.parent(path))
  end
  return env
end

-- One run -----------------------------------------------------------------------------------------

--- Resumes the program with an event, its terminal in place; false when it is over.
local function resume(run, ...)
  local previous = term.redirect(run.terminal)
  local results = table.pack(run.guard:resume(run.co, GRACE_MS, ...))
  -- The program may have redirected itself.
  run.terminal = term.current()
  term.redirect(previous)
  if coroutine.status(run.co) == "dead" then
    run.results = results
    return false
  end
  run.filter = results[2]
  return true
end

local function wants(run, name)
  return not PRIVATE[name] and (run.filter == nil or run.filter == name)
end

--- Feeds events until the program is over or its time is.
local function feed(run, next_event, ...)
  local going = resume(run, ...)
  while going do
    local event = next_event()
    if os.epoch("utc") >= run.deadline_ms then
      return
    elseif event and wants(run, event[1]) then
      going = resume(run, table.unpack(event, 1, event.n))
    end
  end
end

--- Sends `terminate` and goes on feeding events for a while; true when that ended the program.
local function terminate(run, next_event)
  local going = resume(run, "terminate")
  local until_ms = os.epoch("utc") + TERMINATE_EVERY_MS
  os.startTimer(TERMINATE_EVERY_MS / 1000)
  while going and os.epoch("utc") < until_ms do
    local event = next_event()
    if event and wants(run, event[1]) then
      going = resume(run, table.unpack(event, 1, event.n))
    end
  end
  return not going
end

--- The traceback without our own frames at its foot.
local function trim_traceback(text)
  local own = text:find("\n%s+%[C%]: in function '[^']*xpcall'%s*$")
  return text:sub(1, own and own - 1 or #text):sub(1, MAX_TRACEBACK_BYTES)
end

--- How a program that is over has ended.
local function ending(run)
  local alive, ok, value = table.unpack(run.results, 1, 3)
  if not alive then
    ok, value = false, ok
  end
  if run.guard.tripped == "deadline" then
    return "timed_out", trim_traceback(tostring(value))
  elseif ok then
    return "returned", ""
  end
  return "error", trim_traceback(tostring(value))
end

local function finish(run, next_event)
  if run.results then
    return ending(run)
  end
  for _ = 1, TERMINATE_TRIES do
    if terminate(run, next_event) then
      local _, where = ending(run)
      return "timed_out", where
    end
  end
  return "abandoned", ""
end

--- One sentence about an ending; nil when there is nothing to say.
local function sentence(ended, traceback, timeout_s)
  if ended == "error" then
    return traceback:match("^[^\n]*")
  elseif ended == "timed_out" then
    return "The program did not end within " .. timeout_s .. " s."
  elseif ended == "abandoned" then
    return "The program did not end within " .. timeout_s .. " s, ignored terminate and was left."
  end
end

--- Runs a program to its end.
-- @tparam table program `{path, bytes, arguments, timeout_s}`
-- @tparam function next_event waits for an event and returns it packed, or nil for a mere wake-up
-- @treturn table `{ended, output, cut, traceback, message}`; the message is the first line of what
-- went wrong
function programs.run(program, next_event)
  local capture = Capture.new()
  local deadline_ms = os.epoch("utc") + program.timeout_s * 1000
  local main, why =
    load(program.bytes, "@/" .. program.path, "t", environment(program.path, program.arguments))
  if not main then
    return { ended = "error", output = "", cut = 0, traceback = why, message = why }
  end
  local run = { deadline_ms = deadline_ms, guard = Guard.new(deadline_ms), terminal = capture.terminal }
  -- No Lua function of ours around it: the hook that stops a busy program would stop it too.
  run.co = run.guard.create(xpcall)
  os.startTimer(program.timeout_s)
  feed(run, next_event, main, debug.traceback, table.unpack(program.arguments))
  local ended, traceback = finish(run, next_event)
  local output, cut = capture:text()
  local message = sentence(ended, traceback, program.timeout_s)
  return { ended = ended, output = output, cut = cut, traceback = traceback, message = message }
end

return programs
