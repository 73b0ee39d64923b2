--- The client: reads its settings, mends what the last power cut left, then loops for ever.
--
-- There is one event loop, on `os.pullEventRaw`. With `--beside-shell`, as a startup file passes it,
-- the player's shell runs beside it; the client then keeps quiet on the screen.
-- @module main

local Calls = require("calls")
local disk = require("disk")
local Guard = require("guard")
local Journal = require("journal")
local Link = require("link")
local Loop = require("loop")
local methods = require("methods")
local nonce = require("nonce")
local screen = require("screen")
local Swap = require("swap")

local main = {}

main.VERSION = "0.2.0"
local OLDEST = { 1, 95 }
--- The first version that sends the header with the name of the protocol.
local SUBPROTOCOL_SINCE = { 1, 97 }
local CONNECTION = disk.OWN .. "/connection"

-- Facts about this computer -----------------------------------------------------------------------

local function at_least(host, version)
  local major, minor = host:match("ComputerCraft (%d+)%.(%d+)")
  major, minor = tonumber(major), tonumber(minor)
  return not major or major > version[1] or major == version[1] and minor >= version[2]
end

local function family()
  if turtle then
    return "turtle"
  elseif pocket then
    return "pocket"
  elseif commands then
    return "command"
  end
  return term.isColour() and "advanced" or "computer"
end

local function capabilities()
  local list = { "chunks" }
  for name in pairs(methods) do
    list[#list + 1] = name
  end
  if Guard.works() then
    list[#list + 1] = "guard"
  end
  table.sort(list)
  return list
end

local function describe(host)
  -- In parentheses: it returns no value at all for a computer without a label.
  local label = (os.getComputerLabel())
  return {
    id = os.getComputerID(),
    -- Cut so that hello fits a header also with every byte escaped and 72 ids.
    label = label and label:sub(1, 64),
    host = host:sub(1, 128),
    family = family(),
    boot = nonce.name(),
    client = main.VERSION,
    capabilities = capabilities(),
  }
end

-- Starting ----------------------------------------------------------------------------------------

--- `{url, token}` from the settings file: a comment, the URL, the token, each on a line.
local function read_settings()
  local text, why = disk.read(CONNECTION)
  if not text then
    return nil, "Cannot read /" .. CONNECTION .. ": " .. why
  end
  local lines = {}
  for line in text:gmatch("[^\r\n]+") do
    lines[#lines + 1] = line
  end
  if not lines[2] or not lines[3] or not lines[2]:find("^wss?://") then
    return nil, "/" .. CONNECTION .. " must hold a comment, the URL and the token, each on a line."
  end
  return { url = lines[2], token = lines[3] }
end

--- Opens the journal and decides the calls that were open when the power went.
local function open_journal(boot)
  local journal = Journal.open(boot)
  local ok, why = journal:begin(Swap.decide_all(journal.state.calls))
  if not ok then
    return nil, why
  end
  -- Without an old journal nobody knows what swap files are for: they are left for a person.
  if journal.found then
    Swap.clean(journal.state.calls)
  end
  return journal
end

--- The first thing that keeps the client from working here, or its parts.
local function prepare(log)
  local host = tostring(_HOST)
  if not at_least(host, OLDEST) then
    return nil, "cc-orchestrator needs CC: Tweaked 1.95 or newer; this is " .. host .. "."
  elseif not http or not http.websocketAsync then
    return nil, "cc-orchestrator needs the http API with WebSockets; the server has it turned off."
  end
  local settings, why = read_settings()
  if not settings then
    return nil, why
  end
  local computer = describe(host)
  local journal
  journal, why = open_journal(computer.boot)
  if not journal then
    return nil, why
  end
  local loop = Loop.new(log)
  local parts = { computer = computer, calls = Calls.new(journal, loop, log), journal = journal, log = log }
  parts.subprotocol = at_least(host, SUBPROTOCOL_SINCE) and "cc-orchestrator.v1" or nil
  return loop, Link.new(settings, parts), journal
end

-- Looping -----------------------------------------------------------------------------------------

local function tick(clock, link, loop)
  link:tick()
  loop:tick()
  local wait_s = link:wait_s()
  clock.due_ms = os.epoch("utc") + wait_s * 1000
  clock.timer = os.startTimer(wait_s)
end

--- Whether it is time for a tick. Timer events may be dropped like any other, so any event will do.
local function is_due(clock, event)
  return event[1] == "timer" and event[2] == clock.timer or os.epoch("utc") >= clock.due_ms
end

local function serve(loop, link, journal)
  local clock = {}
  tick(clock, link, loop)
  while not journal.stopped do
    local event = table.pack(os.pullEventRaw())
    if event[1] == "term_resize" then
      screen.resize()
    end
    if not link:event(event) then
      loop:event(event)
    end
    if is_due(clock, event) then
      tick(clock, link, loop)
    end
  end
  link:close()
  return "Another client works on this computer; this one has stopped."
end

local function run_client(log)
  local loop, link, journal = prepare(log)
  if not loop then
    return link
  end
  return serve(loop, link, journal)
end

--- Runs the client and, beside it, the player's shell, which goes on without the client.
local function run_beside_shell(log)
  parallel.waitForAny(function()
    printError(run_client(log))
    while true do
      os.pullEventRaw()
    end
  end, function()
    shell.run("shell")
  end)
end

--- Runs the client; returns only when it cannot go on, after saying why in one sentence.
function main.run(...)
  local beside_shell = (...) == "--beside-shell"
  local log = function(text)
    if not beside_shell then
      print(text)
    end
  end
  screen.open()
  if beside_shell then
    run_beside_shell(log)
  else
    printError(run_client(log))
  end
  screen.close()
end

return main
