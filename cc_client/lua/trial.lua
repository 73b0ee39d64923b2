--- Runs a client that is on trial, and ends it when it is not taken in by its server though that is there.
--
-- The pointer tells: boot.lua counted this start as a try, update.lua counts it off when the client dials
-- and on again when a server answers. So a start that stays counted never dialled, or was not welcome where
-- it arrived. Looks are counted, not time: while the game is paused only the clock goes on.
-- @module trial

local slots = require("slots")

local trial = {}

local LOOK_EVERY_S = 5
--- So many looks in a row find a client that has failed: a minute.
local MAX_LOOKS = 12
local FAILED = "The new client ran for 60 s without a welcome from its server, so it was ended."

--- How many looks in a row have now found the start counted; nil: there is nothing to watch any more.
local function look(pointer, looks)
  local now = slots.read()
  if not now or now.slot ~= pointer.slot or now.state ~= "trial" then
    return nil
  end
  looks = now.tries >= pointer.tries and looks + 1 or 0
  if looks >= MAX_LOOKS and not slots.text(slots.other(pointer.slot)) then
    return nil
  end
  return looks
end

local function wait_for_look(watch)
  watch.timer = os.startTimer(LOOK_EVERY_S)
  watch.due_ms = os.epoch("utc") + LOOK_EVERY_S * 1000
end

--- Whether it is time to look. Timer events may be dropped like any other, so any event will do.
local function is_due(watch, event)
  return event[1] == "timer" and event[2] == watch.timer or os.epoch("utc") >= watch.due_ms
end

--- Calls `body`, and returns what it returns; or true, "failed" and a sentence when it was ended.
-- @tparam table pointer as it was written when this start was counted
function trial.run(pointer, body)
  local co, terminal = coroutine.create(body), term.current()
  local watch = { looks = 0 }
  wait_for_look(watch)
  local results = table.pack(coroutine.resume(co))
  while coroutine.status(co) ~= "dead" do
    local event, filter = table.pack(os.pullEventRaw()), results[2]
    if not filter or event[1] == filter or event[1] == "terminate" then
      results = table.pack(coroutine.resume(co, table.unpack(event, 1, event.n)))
    end
    if watch.looks and coroutine.status(co) ~= "dead" and is_due(watch, event) then
      watch.looks = look(pointer, watch.looks)
      wait_for_look(watch)
    end
    if watch.looks == MAX_LOOKS then
      term.redirect(terminal)
      return true, "failed", FAILED
    end
  end
  return table.unpack(results, 2, results.n)
end

return trial
