--- The journal: fence, highest number, open calls and outcomes not yet acknowledged.
--
-- Two slots of 8 KiB, written in turn, each with a sequence and a checksum; the newest valid slot
-- counts, so a torn write costs nothing but itself. The space is taken once, at install. Before
-- each write both slots are looked at again: if another client (a foreign boot nonce) has written,
-- this one stops, because two clients would each run what the other does not know of.
-- @module journal

local disk = require("disk")

local Journal = {}
Journal.__index = Journal

local SLOT_BYTES = 8192
local SLOTS = { "a", "b" }

-- Checksum ----------------------------------------------------------------------------------------

local CRC = {}
for byte = 0, 255 do
  local value = byte
  for _ = 1, 8 do
    local low = value % 2
    value = bit32.rshift(value, 1)
    value = low == 1 and bit32.bxor(value, 0xEDB88320) or value
  end
  CRC[byte] = value
end

--- CRC-32 (IEEE 802.3) as eight hex digits.
local function crc32(text)
  local value = 0xFFFFFFFF
  for index = 1, #text do
    local slot = bit32.band(bit32.bxor(value, text:byte(index)), 0xFF)
    value = bit32.bxor(bit32.rshift(value, 8), CRC[slot])
  end
  return ("%08x"):format(bit32.bnot(value))
end

-- Text of a slot ----------------------------------------------------------------------------------
-- A line for each fact. An entry is `call ID STATE DETAIL`: `open NUMBER`, `ok HASH|=CODE|-`,
-- `failed CODE`, `interrupted -` or `unknown -`. 72 entries of the longest kind fit.

local STATES = { open = true, ok = true, failed = true, interrupted = true, unknown = true }

local function entry_line(id, entry)
  local code = entry.code and (entry.state == "ok" and "=" .. entry.code or entry.code)
  local detail = entry.number and ("%.0f"):format(entry.number) or entry.hash or code or "-"
  return ("call %s %s %s"):format(id, entry.state, detail)
end

local function write_state(state)
  local lines = { "seq " .. ("%.0f"):format(state.seq), "boot " .. state.boot }
  lines[#lines + 1] = "fence " .. ("%.0f"):format(state.fence)
  lines[#lines + 1] = "highest " .. ("%.0f"):format(state.highest)
  if state.found_seq then
    lines[#lines + 1] = "found " .. ("%.0f"):format(state.found_seq)
  end
  local ids = {}
  for id in pairs(state.calls) do
    ids[#ids + 1] = id
  end
  table.sort(ids)
  for _, id in ipairs(ids) do
    lines[#lines + 1] = entry_line(id, state.calls[id])
  end
  return table.concat(lines, "\n") .. "\n"
end

local function read_entry(line)
  local id, state, detail = line:match("^call (%S+) (%a+) (%S+)$")
  if not STATES[state] then
    return nil
  end
  local entry = { state = state }
  if state == "open" then
    entry.number = tonumber(detail)
  elseif state == "ok" then
    entry.code = detail:match("^=(.*)$")
    entry.hash = not entry.code and detail ~= "-" and detail or nil
  elseif state == "failed" then
    entry.code = detail
  end
  return id, entry
end

local function read_state(payload)
  local state = { calls = {} }
  for line in payload:gmatch("[^\n]+") do
    local word, rest = line:match("^(%a+) (.*)$")
    if word == "call" then
      local id, entry = read_entry(line)
      if not id then
        return nil
      end
      state.calls[id] = entry
    elseif word == "boot" then
      state.boot = rest
    elseif word then
      state[word == "found" and "found_seq" or word] = tonumber(rest)
    end
  end
  return state.seq and state.boot and state.fence and state.highest and state
end

--- The 8192 bytes of a slot, or nil when the state is too big for it.
local function write_slot(state)
  local payload = write_state(state)
  local text = ("cc-orchestrator journal 1 %s %d\n%s"):format(crc32(payload), #payload, payload)
  if #text >= SLOT_BYTES then
    return nil
  end
  return text .. (" "):rep(SLOT_BYTES - #text - 1) .. "\n"
end

--- The state that the bytes of a slot hold, or nil when they are torn or no slot at all.
local function read_slot(bytes)
  local sum, length, start = bytes:match("^cc%-orchestrator journal 1 (%x+) (%d+)\n()")
  if not sum or #bytes ~= SLOT_BYTES then
    return nil
  end
  local payload = bytes:sub(start, start + tonumber(length) - 1)
  if #payload ~= tonumber(length) or crc32(payload) ~= sum then
    return nil
  end
  return read_state(payload)
end

-- The object --------------------------------------------------------------------------------------

local function slot_path(slot)
  return disk.OWN .. "/journal." .. slot
end

local function fresh(boot)
  return { seq = 0, boot = boot, fence = 0, highest = 0, found_seq = 0, calls = {} }
end

local function copy(state)
  local twin = { calls = {} }
  for key, value in pairs(state) do
    if key ~= "calls" then
      twin[key] = value
    end
  end
  for id, entry in pairs(state.calls) do
    twin.calls[id] = entry
  end
  return twin
end

--- Reads both slots. The newest valid one counts; where there is none, a new journal begins.
-- @tparam string boot nonce of this boot
-- @return the journal; `journal.found` says whether an old one was there
function Journal.open(boot)
  local self = setmetatable({ boot = boot, known = {}, newest = "b", found = false }, Journal)
  local best
  for _, slot in ipairs(SLOTS) do
    self.known[slot] = disk.read(slot_path(slot)) or false
    local state = self.known[slot] and read_slot(self.known[slot])
    if state and (not best or state.seq > best.seq) then
      best, self.newest, self.found = state, slot, true
    end
  end
  self.state = best or fresh(boot)
  return self
end

--- Whether somebody else has written a slot since we last looked.
function Journal:is_foreign()
  for _, slot in ipairs(SLOTS) do
    local bytes = disk.read(slot_path(slot)) or false
    local state = bytes and bytes ~= self.known[slot] and read_slot(bytes)
    if state and state.boot ~= self.boot then
      return true
    end
  end
  return false
end

--- Whether somebody else has the journal: then this one is stopped for good.
function Journal:has_stopped()
  self.stopped = self.stopped or self:is_foreign()
  return self.stopped
end

--- Changes the state durably, or not at all.
-- @tparam function change gets a copy of the state to change; answering false means: write nothing
-- @return true; or nil and a sentence when nothing was written or the journal has stopped
function Journal:commit(change)
  if self:has_stopped() then
    return nil, "Another client works on this computer; this one has stopped."
  end
  local state = copy(self.state)
  state.seq, state.boot = state.seq + 1, self.boot
  if change(state) == false then
    return nil, "nothing to write"
  end
  local bytes = write_slot(state)
  if not bytes then
    return nil, "The journal is full."
  end
  local slot = self.newest == "a" and "b" or "a"
  local written, message = disk.write(slot_path(slot), bytes)
  self.known[slot] = disk.read(slot_path(slot)) or false
  if not written or self.known[slot] ~= bytes then
    return nil, "The journal cannot be written: " .. tostring(message)
  end
  self.newest, self.state = slot, state
  return true
end

--- The first write of a boot: calls left open become `interrupted` or what `decisions` says.
-- Takes the space of both slots when this is the first boot of all.
function Journal:begin(decisions)
  local both = self.known.a and self.known.b
  for _ = 1, both and 1 or 2 do
    local seq = self.state.seq
    local ok, message = self:commit(function(state)
      state.found_seq = math.min(state.found_seq or seq, seq)
      for id, entry in pairs(state.calls) do
        if entry.state == "open" then
          state.calls[id] = decisions[id] or { state = "interrupted" }
        end
      end
    end)
    if not ok then
      return nil, message
    end
  end
  return true
end

--- How many calls are open, and how many ids wait for their `result_ack`.
function Journal.count(state)
  local open, kept = 0, 0
  for _, entry in pairs(state.calls) do
    if entry.state == "open" then
      open = open + 1
    else
      kept = kept + 1
    end
  end
  return open, kept
end

return Journal
