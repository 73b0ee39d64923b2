--- Runs a program in its own coroutine under a capturing terminal, and says how it ended.
--
-- The bytes that were hashed are the bytes that run: they are never read a second time. The program
-- gets what the shell would give it (`shell`, `arg`, `require`). When its time is over, or somebody
-- asks for its end, it is sent `terminate`, three times, and then left for good: a coroutine that is
-- never resumed is dead.
-- @module programs

local Capture = require("capture")
local Guard = require("guard")
local input = require("input")
local labels = require("labels")
local monitors = require("monitors")
local ours = require("ours")
local paths = require("paths")
local screen = require("screen")
local shared = require("shared")
local tabs = require("tabs")

local programs = {}

local create, remove = coroutine.create, table.remove
local get_metatable = debug and debug.getmetatable or getmetatable

local TERMINATE_TRIES = 3
--- Between two tries, in time of the game: a program can clean up, and all tries take 0.8 s.
local TERMINATE_EVERY_S = 0.25
--- Half a tick: the game counts in ticks, and sums of them are not exact.
local HALF_TICK_S = 0.025
--- As many events as wait in the game.
local MAX_TYPED = 256
--- What a program may be busy with at its deadline.
local GRACE_MS = 250
--- Between two looks at what a running program wrote.
local OUTPUT_EVERY_MS = 500
local MAX_TRACEBACK_BYTES = 8192
--- What the traceback of an error without a message begins with.
local NO_MESSAGE = "stack traceback:"

--- The runs that are not over, by call id.
local running = {}
--- The capture of the program that was begun last.
local latest

--- Our own event: the next turn has begun.
local REST = "cc_orchestrator_rest"
--- A program must not see what the player types, or die of the player's Ctrl-T; nor may it type for the player.
local PRIVATE = {
  [REST] = true,
  char = true,
  key = true,
  key_up = true,
  paste = true,
  terminate = true,
  -- The shell of the player would take what it brings for files.
  file_transfer = true,
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
  local own = {}
  for name, fn in pairs(shell) do
    own[name] = fn
  end
  own.exit = function() end
  own.getRunningProgram = function()
    return path
  end
  return own
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

--- The title of the client's tab, which the shell changes when a program runs another by it; nil: no tabs.
local title

local function keep_title()
  if multishell and not title then
    local ok, now = pcall(multishell.getTitle, multishell.getCurrent())
    title = ok and now or nil
  end
end

local function put_title_back()
  if multishell and title then
    pcall(multishell.setTitle, multishell.getCurrent(), title)
  end
end

--- The time by the clock of the guard, which the program cannot change.
local function now_ms(run)
  return run.guard.epoch("utc")
end

--- Seconds of the game until the present time of a run is over. A game that is paused, or that lags, counts
-- no ticks: then nothing is over, however long it takes.
local function left_s(run)
  return run.until_s - run.clock()
end

local function has_time(run)
  return left_s(run) > HALF_TICK_S
end

--- Waits for the next turn of the computer where the present one has taken long: the game ends what is busy
-- for too long with one event, and that may be another program. What comes meanwhile is kept for the program.
local function rest(run)
  while Guard.is_late() do
    os.queueEvent(REST)
    local event
    repeat
      event = run.next_event()
      run.kept[#run.kept + 1] = event
    until not event or event[1] == REST
  end
end

--- Keeps what a program puts into the queue as if it were typed: in the queue the tab in front would get it, which
-- is the player's. An event of ours takes its place there.
local function keeper(run)
  return function(event, queue)
    if not PRIVATE[event[1]] then
      return false
    elseif #run.typed < MAX_TYPED then
      event.is_typed, run.typed[#run.typed + 1] = true, event
      queue(REST)
    end
    return true
  end
end

--- The next event, first of those that came while it rested.
local function next_event(run)
  local event = remove(run.kept, 1) or run.next_event()
  if event and event[1] == REST and run.typed[1] then
    return remove(run.typed, 1)
  end
  return event
end

--- Puts the program's terminal in place, and returns the one before. To redirect reads the methods of a terminal,
-- and where those of the program's own come from a metatable, that is its own turn.
local function redirect(run)
  local own = run.capture.terminal
  if get_metatable(run.terminal) == nil then
    return term.redirect(run.terminal)
  end
  local previous = term.redirect(own)
  run.guard:resume(run.view, run.guard:watch(create(term.redirect)), GRACE_MS, run.terminal)
  return previous
end

--- Resumes the program with an event, its terminal in place; false when it is over.
local function resume(run, ...)
  rest(run)
  -- The guard counts real time, which a busy program uses up while the game may stand still.
  run.guard.deadline_ms = now_ms(run) + math.max(0, left_s(run)) * 1000
  local previous = redirect(run)
  local results = table.pack(run.guard:resume(run.view, run.co, GRACE_MS, ...))
  -- The program may have redirected itself.
  run.terminal = term.current()
  term.redirect(previous)
  programs.begin_tabs(run)
  if coroutine.status(run.co) == "dead" then
    run.results = results
    return false
  end
  run.filter = results[2]
  return true
end

--- A timer of ours, which the program does not see.
local function start_timer(run, seconds)
  local timer = os.startTimer(seconds)
  run.timers[timer] = true
  return timer
end

local function wants(run, event)
  local name = event[1]
  if event.is_typed then
    return run.filter == nil or run.filter == name or name == "terminate"
  end
  local is_ours = PRIVATE[name] or name == "timer" and run.timers[event[2]]
  return not is_ours and (run.filter == nil or run.filter == name)
end

--- Tells what the program wrote since the last time; when it is too early, a timer will come back.
local function stream(run)
  local now = now_ms(run)
  if not run.capture:has_fresh() then
    return
  elseif now >= run.output_at_ms then
    run.output_at_ms, run.output_timed = now + OUTPUT_EVERY_MS, false
    run.output(run.capture:take_fresh())
  elseif not run.output_timed then
    run.output_timed = true
    start_timer(run, (run.output_at_ms - now) / 1000)
  end
end

local function is_over(run)
  return run.stopping or not has_time(run)
end

--- Whether the program reads a line: the game's `read` waits for any event, and lets the cursor blink.
local function is_reading(run)
  if run.filter ~= nil then
    return false
  end
  local blinks = run.capture.blink
  for _, capture in pairs(run.monitors) do
    blinks = blinks or capture and capture.blink
  end
  blinks = blinks or run.behind.capture and run.behind.capture.blink
  return blinks
end

--- What the program waits for, as `result.waits_for` says it.
local function waits_for(run)
  return input.wanted(run.guard:waits_for(run.filter), is_reading(run))
end

--- Types to the program for as long as it is ready for keys; false when it is over.
local function type_in(run)
  while run.input and not is_over(run) do
    local event = input.next(run.input, run.filter, is_reading(run))
    if not event then
      break
    elseif not resume(run, table.unpack(event)) then
      return false
    end
  end
  return true
end

--- Waits on where a timer of ours came a tick too early: the clock counts whole ticks only.
local function wait_on(run, event, until_s)
  local missing_s = until_s - run.clock()
  local is_ours = event and event[1] == "timer" and run.timers[event[2]]
  if is_ours and missing_s > HALF_TICK_S and missing_s < 4 * HALF_TICK_S then
    start_timer(run, missing_s)
  end
end

--- Feeds events until the program is over or its time is.
local function feed(run, ...)
  local going = resume(run, ...)
  while going and type_in(run) do
    stream(run)
    local event = next_event(run)
    wait_on(run, event, run.until_s)
    if is_over(run) then
      return
    elseif event and wants(run, event) then
      going = resume(run, table.unpack(event, 1, event.n))
    end
  end
end

--- Sends `terminate` and goes on feeding events for a while; true when that ended the program.
local function terminate(run)
  local going = resume(run, "terminate")
  local until_s = math.min(run.clock() + TERMINATE_EVERY_S, run.until_s)
  start_timer(run, TERMINATE_EVERY_S)
  while going and until_s - run.clock() > HALF_TICK_S do
    local event = next_event(run)
    wait_on(run, event, until_s)
    if event and wants(run, event) then
      going = resume(run, table.unpack(event, 1, event.n))
    end
  end
  return not going
end

--- The traceback without our own frames at its foot.
local function trim_traceback(run, text)
  text = run.guard:clean(text)
  local own = text:find("\n%s+%[C%]: in function '[^']*xpcall'%s*$")
  return text:sub(1, own and own - 1 or #text):sub(1, MAX_TRACEBACK_BYTES)
end

--- The traceback of a program that we stopped: nothing, where it says only that we did.
local function after_stop(traceback)
  local first = traceback:match("^[^\n]*")
  local is_ours = first:find("Terminated$") or first:find(Guard.TOO_LONG, 1, true)
  return is_ours and "" or traceback
end

--- How a program that is over has ended.
local function ending(run)
  local alive, ok, value = table.unpack(run.results, 1, 3)
  if not alive then
    ok, value = false, ok
  end
  local tripped = run.guard.tripped
  if ok and not tripped then
    return "returned", ""
  elseif ok then
    -- It went on without a coroutine of its own that the guard had stopped.
    value = run.guard.message
  end
  -- The value may have a `__tostring` of the program's.
  local traceback = trim_traceback(run, run.guard:text(run.view, value, GRACE_MS))
  if tripped == "deadline" then
    run.waits_for = run.waits_for or input.BUSY
    return run.in_time, after_stop(traceback)
  end
  return "error", traceback
end

--- What the screen shows, where the program drew on it; nil: it only wrote lines.
local function drawn(run)
  return run.capture.is_drawn and monitors.text(run.capture) or nil
end

local function finish(run)
  if run.results then
    return ending(run)
  end
  local how = run.stopping and "terminated" or run.in_time
  run.waits_for, run.drawn = waits_for(run), drawn(run)
  -- Busy or not, it has this long for all tries together.
  run.until_s = run.clock() + TERMINATE_TRIES * TERMINATE_EVERY_S
  for _ = 1, TERMINATE_TRIES do
    if terminate(run) then
      local _, traceback = ending(run)
      return how, run.stopping and traceback or after_stop(traceback)
    end
  end
  -- It is never resumed again, so what was only watched is as good as stopped.
  run.ignored = true
  return run.stopping and "abandoned" or how, ""
end

--- One sentence about an ending; nil when there is nothing to say.
local function sentence(run, ended, traceback)
  if ended == "returned" then
    return nil
  elseif ended == "error" then
    local first = traceback:match("^[^\n]*")
    return first ~= "" and first ~= NO_MESSAGE and first
      or "The program ended with an error without a message."
  end
  local what = run.stopping and "The program was told to end"
    or ended == "observed" and "The program ran " .. run.limit_s .. " s without an error and was stopped"
    or "The program did not end within " .. run.limit_s .. " s"
  return what .. (run.ignored and ", ignored terminate and was left." or ".")
end

--- Lets a call be found by its id for as long as `body` works on it; returns what it returns.
function programs.announced(id, body)
  running[id] = {}
  local ok, result = pcall(body)
  running[id] = nil
  if not ok then
    error(result, 0)
  end
  return result
end

--- What the program has in place of what all share; its changes come to it.
local function view(run)
  local own = run.guard:own()
  local function add(owner, name, value)
    own[#own + 1] = owner and owner[name] and { owner, name, value } or nil
  end
  for _, entry in ipairs(ours.own(keeper(run))) do
    add(table.unpack(entry))
  end
  add(_G.os, "setComputerLabel", labels.set)
  add(multishell, "launch", tabs.launcher(run.launched))
  add(_G.term, "native", screen.native_for(run.behind))
  local devices = _G.peripheral
  add(devices, "call", devices and monitors.call(run.monitors, monitors.behind(devices.call)))
  return shared.view(own)
end

--- Sets what a run may take: the shorter of its limit and the time for which it is watched.
local function set_limits(run, program)
  local observe_s = program.observe_s
  local is_watched = observe_s and observe_s <= program.timeout_s
  run.limit_s = is_watched and observe_s or program.timeout_s
  -- How it ends when that is over and nothing went wrong.
  run.in_time = is_watched and "observed" or "timed_out"
  -- The clock of today: a program may change that of tomorrow.
  run.clock = os.clock
  run.began_s = run.clock()
  run.until_s = run.began_s + run.limit_s
end

--- How long it ran until it ended or was told to: in time of the game, and by the clock of the world outside,
-- which goes on while it is paused.
local function set_times(run, result)
  result.ran_ms = math.max(0, math.floor((run.clock() - run.began_s) * 1000 + 0.5))
  result.real_ms = math.max(0, math.floor(now_ms(run) - run.began_ms))
end

--- Runs a program to its end.
-- @tparam table program `{path, bytes, arguments, timeout_s, observe_s?, input?, id?, output?}`; after `observe_s`
-- it is stopped and has ended well, both in seconds of the game; `input` is what it is typed, `id` was
-- announced, `output(offset, text)` is told at most each 0.5 s what the program wrote, and `spawn(body)` begins a
-- job of the client for each tab that the program opens
-- @tparam function wait waits for an event and returns it packed, or nil for a mere wake-up
-- @treturn table `{ended, ignored, ran_ms, real_ms, drawn, output, cut, traceback, message, values, input_left,
-- waits_for, monitors, monitor_text, tabs}`; `ignored`: it ignored `terminate` and was left; `ran_ms` is time of
-- the game and `real_ms` time outside, `drawn` what the screen showed before it was stopped, the message is the
-- first line of what went wrong, the values are what it returned,
-- packed, `waits_for` are the events that it waited for when it was stopped (`read()`: a line that is typed,
-- `busy()`: for nothing; empty: any event), and `tabs` are the names of the tabs that it opened
function programs.run(program, wait)
  local run = program.id and running[program.id] or {}
  if run.stopping then
    return { ended = "terminated", output = "", cut = 0, traceback = "", message = "It was not begun." }
  end
  local env = program.env or environment(program.path, program.arguments)
  local main, why = load(program.bytes, "@/" .. program.path, "t", env)
  if not main then
    return { ended = "error", output = "", cut = 0, traceback = why, message = why }
  end
  set_limits(run, program)
  run.guard, run.capture, run.timers = Guard.new(0), Capture.new(), {}
  run.began_ms = now_ms(run)
  run.monitors, run.input, run.launched = {}, program.input and input.queue(program.input), {}
  run.spawn, run.next_event, run.tabs, run.kept = program.spawn, wait, {}, {}
  run.typed = {}
  if program.tab then
    program.tab.capture = run.capture
  else
    latest = run.capture
  end
  run.terminal, run.output, run.output_at_ms = run.capture.terminal, program.output or function() end, 0
  run.behind = {}
  run.view = view(run)
  -- No Lua function of ours around it: the hook that stops a busy program would stop it too.
  run.co = run.guard.create(xpcall)
  if run.limit_s < math.huge then
    start_timer(run, run.limit_s)
  end
  keep_title()
  feed(run, main, debug.traceback, table.unpack(program.arguments, 1, program.arguments.n))
  local result = { input_left = run.input and input.left(run.input) }
  set_times(run, result)
  rest(run)
  result.ended, result.traceback = finish(run)
  put_title_back()
  result.waits_for = run.waits_for
  result.output, result.cut = run.capture:text()
  result.message = sentence(run, result.ended, result.traceback)
  result.ignored = run.ignored
  result.drawn, result.tabs = run.drawn, table.concat(run.tabs, " ")
  result.monitors, result.monitor_text = monitors.told(run.monitors)
  if run.behind.is_drawn then
    screen.repaint()
    result.native_text = monitors.text(run.behind.capture)
  end
  if result.ended == "returned" then
    result.values = table.pack(table.unpack(run.results, 3, run.results.n))
  end
  return result
end

--- Runs the program of a tab to its end, which may be never.
-- @tparam table tab as `tabs` has it
-- @tparam table parent the run that opened it
local function run_tab(tab, parent)
  local ok, result = pcall(programs.announced, tab.name, function()
    local program, why = tabs.program(tab)
    if not program then
      return { ended = "error", message = why }
    end
    program.tab, program.spawn = tab, parent.spawn
    return programs.run(program, parent.next_event)
  end)
  if not ok then
    return tabs.over(tab, "error", tostring(result))
  end
  tabs.over(tab, result.ended, result.message)
end

--- Begins what a program has just put into tabs of its own.
function programs.begin_tabs(run)
  for index, tab in ipairs(run.launched) do
    run.launched[index], run.tabs[#run.tabs + 1] = nil, tab.name
    if run.spawn then
      run.spawn(run_tab, tab, run)
    else
      tabs.over(tab, "error", "It cannot run in the background from here.")
    end
  end
end

--- Tells a running program to end, at the next event. False: no such program runs.
function programs.stop(id)
  local run = running[id]
  if run then
    run.stopping = true
  end
  return run ~= nil
end

--- What the program that was begun last shows, or showed at its end; nil: there was none.
function programs.latest()
  return latest and latest:screen()
end

--- What the screen of a running program shows, as `Capture:screen` says it; nil: no such program runs.
function programs.screen(id)
  local run = running[id]
  return run and run.capture and run.capture:screen()
end

--- What a tab shows, or showed at the end of its program; nil and a sentence: there is nothing to see.
function programs.tab_screen(name)
  local tab = tabs.find(name)
  if tab and tab.capture then
    return tab.capture:screen()
  end
  return nil, tab and tab.message or "No program runs in a tab of this name; cc_info lists them."
end

for _, fn in ipairs({ programs.run, Capture.new, monitors.call, screen.native_for, tabs.launcher }) do
  Guard.owns(fn)
end

return programs
