--- The two places of the client on the disk, and the pointer that says which of them runs.
--
-- A new client is written to the place that does not run, and the pointer then names it as on
-- trial. It is good from its first welcome on; what ends before that is taken back, and its sha256
-- is remembered as bad. The pointer is replaced by way of a whole file beside it, so one of the two
-- can be read whenever the power goes.
-- @module slots

local disk = require("disk")

local slots = {}

local POINTER = disk.OWN .. "/slot"
local HEAD, TAIL = "cc-orchestrator slot 1\n", "end\n"
--- What the bundle begins and ends with: a text without them is torn.
local BEGINS, ENDS = "-- The cc-orchestrator client", 'return require("main").run(...)\n'
--- Versions that did not run here; older ones are forgotten.
local MAX_BAD = 8

function slots.path(slot)
  return disk.OWN .. "/client." .. slot .. ".lua"
end

function slots.other(slot)
  return slot == "a" and "b" or "a"
end

--- Whether a text is all of a client.
function slots.is_whole(text)
  local framed = text and text:sub(1, #BEGINS) == BEGINS and text:sub(-#ENDS) == ENDS
  return framed and load(text, "=client", "t", {}) ~= nil
end

--- The client in a slot, or nil when there is none or it is torn.
function slots.text(slot)
  local text = disk.read(slots.path(slot))
  return slots.is_whole(text) and text or nil
end

local function parse(text)
  if not text or text:sub(1, #HEAD) ~= HEAD or text:sub(-#TAIL) ~= TAIL then
    return nil
  end
  local slot, state, tries, hash = text:match("\nrun ([ab]) (%a+) (%d+) ([%x-]+)\n")
  local pointer = { slot = slot, state = state, tries = tonumber(tries), hash = hash, bad = {} }
  for bad in text:gmatch("\nbad (%x+)") do
    pointer.bad[#pointer.bad + 1] = bad
  end
  return slot and pointer
end

--- `{slot, state = "good" | "trial", tries, hash, bad = {sha256}}`, or nil when there is none.
function slots.read()
  return parse(disk.read(POINTER)) or parse(disk.read(POINTER .. ".new"))
end

--- Writes the pointer. True, or nil and a sentence.
function slots.write(pointer)
  local lines = { ("run %s %s %d %s\n"):format(pointer.slot, pointer.state, pointer.tries, pointer.hash) }
  for index = math.max(1, #pointer.bad - MAX_BAD + 1), #pointer.bad do
    lines[#lines + 1] = "bad " .. pointer.bad[index] .. "\n"
  end
  return disk.replace(POINTER, HEAD .. table.concat(lines) .. TAIL)
end

--- Whether a version did not run here.
function slots.is_bad(pointer, hash)
  for _, bad in ipairs(pointer.bad) do
    if bad == hash then
      return true
    end
  end
  return false
end

--- The pointer to a slot with a new client in it, which is on trial if there is one to go back to.
function slots.flipped(pointer, slot, hash)
  local state = slots.text(slots.other(slot)) and "trial" or "good"
  local new = { slot = slot, state = state, tries = 0, hash = hash, bad = {} }
  for _, bad in ipairs(pointer and pointer.bad or {}) do
    new.bad[#new.bad + 1] = bad ~= hash and bad or nil
  end
  return new
end

return slots
