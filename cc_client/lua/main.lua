--- The client: reads its settings, repairs what the last power cut left, then loops for ever.
--
-- There is one event loop, on `os.pullEventRaw`. boot.lua runs it, in a tab of its own or beside the
-- player's shell, where it keeps quiet; what it returns tells boot.lua what comes next.
-- @module main

local Calls = require("calls")
local command = require("command")
local desk = require("desk")
local diagnosis = require("why")
local family = require("family")
local Guard = require("guard")
local Journal = require("journal")
local labels = require("labels")
local Link = require("link")
local Loop = require("loop")
local methods = require("methods")
local mirror = require("mirror")
local nonce = require("nonce")
local Route = require("route")
local screen = require("screen")
local status = require("status")
local Swap = require("swap")
local tabs = require("tabs")
local typing = require("typing")
local update = require("update")

local main = {}

main.VERSION = "0.6.0"
local OLDEST = { 1, 95 }
--- The first version that sends the header with the name of the protocol.
local SUBPROTOCOL_SINCE = { 1, 97 }

-- Facts about this computer -----------------------------------------------------------------------

local function at_least(host, version)
  local major, minor = host:match("ComputerCraft (%d+)%.(%d+)")
  major, minor = tonumber(major), tonumber(minor)
  return not major or major > version[1] or major == version[1] and minor >= version[2]
end

local function capabilities()
  local list = {
    "cells",
    "chunks",
    "clock",
    "desk",
    "input",
    "keys",
    "labels",
    "mirror",
    "observe",
    "review",
    "screen_of",
    "tabs",
    "undo",
    "update",
    "where",
  }
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
  labels.begin()
  return {
    id = os.getComputerID(),
    host = host:sub(1, 128),
    family = family(),
    boot = nonce.name(),
    client = main.VERSION,
    capabilities = capabilities(),
  }
end

-- Starting ----------------------------------------------------------------------------------------

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
  Swap.keep_spare()
  return journal
end

--- The first thing that keeps the client from working here, or its parts.
local function prepare(host, log)
  local version = tostring(_HOST)
  if not at_least(version, OLDEST) then
    return nil, "cc-orchestrator needs CC: Tweaked 1.95 or newer; this is " .. version .. "."
  end
  if not http or not http.websocketAsync then
    return nil, diagnosis.text(diagnosis.here())
  end
  local route, why = Route.read()
  if not route then
    return nil, why
  end
  status.set("server", route.home)
  local computer = describe(version)
  local journal
  journal, why = open_journal(computer.boot)
  if not journal then
    return nil, why
  end
  local loop = Loop.new(log)
  update.start(loop, host.slot, route.home, route.update_key, computer.boot)
  local parts = { computer = computer, calls = Calls.new(journal, loop, log), journal = journal, log = log }
  parts.subprotocol = at_least(version, SUBPROTOCOL_SINCE) and "cc-orchestrator.v1" or nil
  return { loop = loop, link = Link.new(route, parts), journal = journal, calls = parts.calls }
end

-- Looping -----------------------------------------------------------------------------------------

--- Seconds until the next tick: one where something is under way.
local function wait_s(client)
  local is_busy = client.loop:is_busy() or desk.is_busy() or mirror.is_busy() or typing.is_busy()
  return is_busy and 1 or math.min(Loop.IDLE_S, client.link:wait_s())
end

local function start_timer(clock, seconds)
  clock.due_ms = os.epoch("utc") + seconds * 1000
  clock.timer = os.startTimer(seconds)
end

local function tick(clock, client)
  client.link:tick()
  client.loop:tick()
  desk.tick()
  mirror.tick()
  typing.tick()
  start_timer(clock, wait_s(client))
end

--- What an event began wants its tick sooner than an idle client.
local function hurry(clock, client)
  local seconds = wait_s(client)
  if os.epoch("utc") + seconds * 1000 < clock.due_ms then
    start_timer(clock, seconds)
  end
end

--- Whether it is time for a tick. Timer events may be dropped like any other, so any event will do.
local function is_due(clock, event)
  return event[1] == "timer" and event[2] == clock.timer or os.epoch("utc") >= clock.due_ms
end

local function handle(client, event)
  if event[1] == "term_resize" then
    screen.resize()
  end
  mirror.event(event)
  typing.event(event)
  if not command.event(event) and not client.link:event(event) then
    client.loop:event(event)
  end
end

--- Why the client ends now, as boot.lua wants to hear it, and a sentence; nil: it goes on.
local function ending(client)
  if client.journal.stopped then
    return "stopped", "Another client works on this computer; this one has stopped."
  elseif command.has_to_stop then
    return "stopped", "The client was stopped."
  end
  local is_idle = client.calls.pending_count == 0
    and next(client.journal.state.calls) == nil
    and not tabs.any()
  if update.ready == "now" or update.ready and is_idle then
    return "restart"
  end
end

local function serve(client)
  local clock = {}
  tick(clock, client)
  local what, why = ending(client)
  while not what do
    local event = table.pack(os.pullEventRaw())
    Guard.begin_turn(os.epoch("utc"))
    handle(client, event)
    client.link:tell_labels()
    if is_due(clock, event) then
      tick(clock, client)
    else
      hurry(clock, client)
    end
    what, why = ending(client)
  end
  client.link:close()
  desk.close()
  return what, why
end

local function run_client(host)
  local function log(text)
    if status.note(text) and not host.quiet then
      print(text)
    end
  end
  status.set("version", main.VERSION)
  if host.failure then
    status.note("The client had failed: " .. host.failure)
  end
  local client, why = prepare(host, log)
  if not client then
    return "failed", why
  end
  return serve(client)
end

--- Runs the client until it has to end, and returns what boot.lua wants to know.
-- @tparam ?string mode "--boot" from boot.lua; else the client runs once and says why it ended
-- @tparam ?table host `{slot, quiet, failure?}` with "--boot"; gets `is_told`: whether somebody told it to end
function main.run(mode, host)
  host = mode == "--boot" and host or {}
  screen.open()
  local what, why = run_client(host)
  host.is_told = command.has_to_stop
  screen.close()
  if mode ~= "--boot" and why then
    printError(why)
  end
  return what, why
end

return main
