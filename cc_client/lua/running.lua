--- Methods about programs: run_program, shell, terminate, screen.
-- @module running

local answers = require("answers")
local failure = require("failure")
local files = require("files")
local monitors = require("monitors")
local params = require("params")
local programs = require("programs")
local screen = require("screen")
local sha256 = require("sha256")
local tabs = require("tabs")

local running = {}

local CODES = {
  observed = "observed",
  error = "program_error",
  timed_out = "timed_out",
  terminated = "terminated",
  abandoned = "abandoned",
}

--- How long the answer to `terminate` waits for the end of a tab's program.
local STOP_WITHIN_MS = 3000

--- The body without what is typed to the program, which stands at its end, and that.
local function take_input(given, body, has_body)
  local size = given.input_size
  if not size then
    return body, nil
  elseif not has_body or size > #body then
    params.bad("The body must end with the input, of which there are input_size bytes.")
  end
  return body:sub(1, -size - 1), body:sub(-size)
end

--- What is said of a program that drew past all windows.
local function behind(result)
  if not result.native_text then
    return ""
  end
  return "\n[on the player's screen, by term.native(); that was painted again afterwards:]\n"
    .. result.native_text
end

local function run(given, arguments, typed, job)
  answers.need(given.path, "file")
  local bytes = answers.read(given.path)
  local hash = sha256.hex(bytes, job.pause)
  if hash ~= given.if_hash then
    answers.stale(hash)
  end
  local program = { path = given.path, bytes = bytes, arguments = arguments }
  program.timeout_s, program.observe_s = given.timeout_s, given.observe_s
  program.id, program.output, program.input = job.call_id, job.output, typed
  program.spawn = job.spawn
  local result = programs.run(program, job.next_event)
  local data = { ended = result.ended, path = given.path, sha256 = hash }
  data.ran_ms, data.real_ms = result.ran_ms, result.real_ms
  data.output, data.cut, data.input_left = #result.output, result.cut, result.input_left
  data.waits_for = result.waits_for
  data.tabs = result.tabs ~= "" and result.tabs or nil
  data.monitors = result.monitors ~= "" and result.monitors or nil
  local drawn = result.drawn and "\n[on the screen when it was stopped:]\n" .. result.drawn or ""
  data.drawn = drawn ~= "" and #drawn or nil
  data.native, data.ignored = result.native_text and true, result.ignored
  local ok = result.ended == "returned" or result.ended == "observed"
  local body = result.output .. result.traceback .. drawn .. (result.monitor_text or "") .. behind(result)
  return { ok = ok, code = CODES[result.ended], message = result.message, data = data, body = body }
end

--- From its start on a call can be told to end, also while its program is still being hashed.
local function to_run(job, act)
  return answers.after_start(function()
    return programs.announced(job.call_id, act)
  end)
end

local function check_run(given)
  params.check(given, { "path", "if_hash", "timeout_s", "observe_s?", "input_size?" })
  if given.if_hash == files.ABSENT then
    params.bad("A program that is absent cannot run.")
  end
end

function running.run_program(given, body, has_body, job)
  check_run(given)
  local words, typed = take_input(given, body, has_body)
  local arguments = params.words(words, has_body)
  return to_run(job, function()
    return run(given, arguments, typed, job)
  end)
end

function running.shell(given, body, has_body, job)
  check_run(given)
  local words, typed = take_input(given, body, has_body)
  local list = params.words(words, has_body)
  if #list == 0 then
    params.bad("The body must name a program first.")
  end
  return to_run(job, function()
    local path = answers.program(list[1])
    if path ~= given.path then
      local actual = files.snapshot(path, job.pause).hash
      failure.raise("stale", "The word means another program now.", { actual = actual, path = path })
    end
    return run(given, { table.unpack(list, 2) }, typed, job)
  end)
end

function running.terminate(given, body, has_body, job)
  params.check(given, { "run" })
  params.no_body(body, has_body)
  return answers.after_start(function()
    local found = programs.stop(given.run)
    job.wake()
    local tab = tabs.find(given.run)
    local until_ms = os.epoch("utc") + STOP_WITHIN_MS
    while tab and not tab.ended and os.epoch("utc") < until_ms do
      job.next_event()
    end
    local state = found and (tab and tab.ended and "stopped" or "stopping") or "not_running"
    return answers.done({ state = state, ended = tab and tab.ended, message = tab and tab.message })
  end)
end

--- The rows down to the last one that shows something.
local function shown(rows)
  for index = #rows, 1, -1 do
    if rows[index][1]:find("[^ ]") or rows[index][3]:find("[^f]") then
      return index
    end
  end
  return 0
end

--- What is asked for, or the sentence why it cannot be seen.
local function look(given)
  if given.run then
    return programs.screen(given.run), "This program does not run here."
  elseif given.of == "program" then
    return programs.latest(), "No program was run from here since the computer started."
  elseif given.of and given.of:find("^tab%-%d+$") then
    return programs.tab_screen(given.of)
  elseif given.of then
    return monitors.screen(given.of),
      "A monitor cannot be read, and no program that was run from here has drawn on this one."
  end
  return screen.read()
end

function running.screen(given, body, has_body, job)
  params.check(given, { "run?", "of?" })
  params.no_body(body, has_body)
  return answers.after_start(function()
    local seen, why = look(given)
    if not seen then
      failure.raise("not_running", why)
    end
    local rows = seen.rows
    local list = answers.list(shown(rows), function(index)
      return { text = rows[index][1], fg = rows[index][2], bg = rows[index][3] }
    end, job.pause)
    local data = { width = seen.width, height = seen.height, x = seen.x, y = seen.y, blink = seen.blink }
    return answers.done(data, list)
  end)
end

return running
