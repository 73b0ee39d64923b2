--- Answers what a player types after `cc`.
--
-- The program `cc` runs beside the client and talks with it by events: it queues
-- `cc_orchestrator_ask, NONCE, VERB, WORDS...`; the client answers with one or more
-- `cc_orchestrator_told, NONCE, TEXT, IS_LAST, KIND`; `cc_orchestrator_left, NONCE` says that nobody
-- waits any more. A verb is a function of a request: `{nonce, words, tell(text, is_last, kind), left?}`;
-- one that answers later sets `left`, which is called when the player has gone. The kinds are those of
-- shown.lua.
-- @module command

local desk = require("desk")
local status = require("status")
local update = require("update")

local command = {}

local ASK, TOLD, LEFT = "cc_orchestrator_ask", "cc_orchestrator_told", "cc_orchestrator_left"
local LOG_LINES = 15
--- Requests that may wait for more answers at once.
local MAX_OPEN = 8

--- Nonce = the requests that are not answered to the end.
local open, open_count = {}, 0

local function span(ms)
  local minutes = math.floor(ms / 60000)
  if minutes < 1 then
    return "less than a minute"
  elseif minutes < 120 then
    return minutes .. " min"
  end
  return math.floor(minutes / 60) .. " h"
end

local function tell_status(request)
  local lines =
    { "Client " .. tostring(status.get("version")) .. ", server " .. tostring(status.get("server")) }
  local since = status.get("connected_ms")
  if since then
    lines[2] = ("Connected as %s for %s."):format(status.get("computer"), span(os.epoch("utc") - since))
  else
    lines[2] = "Not connected: " .. tostring(status.get("fault") or "no answer yet")
    lines[3] = status.get("remedy")
  end
  lines[#lines + 1] = status.get("watched")
  lines[#lines + 1] = status.get("update")
  lines[#lines + 1] = status.get("asks")
  request.tell(table.concat(lines, "\n"), true)
end

local function tell_log(request)
  local lines = status.lines(tonumber(request.words[1]) or LOG_LINES)
  request.tell(#lines > 0 and table.concat(lines, "\n") or "Nothing has happened yet.", true)
end

local function tell_update(request)
  request.tell(update.by_hand(), true)
end

--- The installer has written another client: it runs as soon as nothing is being done, or with "now" at once.
local function restart(request)
  update.ready = request.words[1] or true
  request.tell("The client starts anew.", true)
end

local function quit(request)
  command.has_to_stop = true
  request.tell("The client has stopped.", true)
end

--- Verb = what answers it. Those with a dash are for programs.
command.VERBS = {
  status = tell_status,
  log = tell_log,
  update = tell_update,
  ["-restart"] = restart,
  ["-quit"] = quit,
}

--- Verb, and what it does, as `cc help` shows them.
command.HELP = {
  { "status", "version, server, and whether it is connected" },
  { "log", "the last lines of what happened" },
  { "update", "gets the client that the server hands out" },
  { "start", "starts the client if it does not run" },
  { "uninstall", "takes the client away, all of it" },
}

for verb, answer in pairs(desk.VERBS) do
  command.VERBS[verb] = answer
end
for place, entry in ipairs(desk.HELP) do
  table.insert(command.HELP, place, entry)
end

function command.VERBS.help(request)
  local lines = {}
  for _, entry in ipairs(command.HELP) do
    lines[#lines + 1] = "cc " .. entry[1] .. ": " .. entry[2]
  end
  request.tell(table.concat(lines, "\n"), true)
end

local function close(nonce)
  if open[nonce] then
    open[nonce], open_count = nil, open_count - 1
  end
end

local function take(nonce, verb, words)
  local request = { nonce = nonce, words = words }
  function request.tell(text, is_last, kind)
    os.queueEvent(TOLD, nonce, tostring(text), is_last == true, kind)
    if is_last then
      close(nonce)
    end
  end
  if open_count >= MAX_OPEN then
    return request.tell("Too many commands wait for their answers: end one with Ctrl-T.", true)
  end
  open[nonce], open_count = request, open_count + 1
  local answer = command.VERBS[verb]
  if not answer then
    return request.tell(("There is no `cc %s`. Type `cc help`."):format(tostring(verb)), true)
  end
  local ok, why = pcall(answer, request)
  if not ok then
    request.tell("This went wrong: " .. tostring(why), true)
  end
end

--- Handles an event; true when it was a command.
function command.event(event)
  if event[1] == ASK then
    take(event[2], event[3], { table.unpack(event, 4, event.n) })
  elseif event[1] == LEFT and open[event[2]] then
    local request = open[event[2]]
    close(event[2])
    if request.left then
      pcall(request.left)
    end
  else
    return event[1] == TOLD or event[1] == LEFT
  end
  return true
end

return command
