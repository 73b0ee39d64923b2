--- Bodies over one frame: half received, or on their way out, on one connection.
--
-- They go out one after the other. A frame of them is an event in the queue of its receiver,
-- and the computer drops events silently, so at most 8 wait for their `chunk_ack` in each direction.
-- Everything here ends with the connection.
-- @module transfers

local frame = require("frame")

local transfers = {}

local MAX_UNACKNOWLEDGED = 8
--- Half received bodies: a body that the server has given up stays until its call is settled.
local MAX_PARTIAL = 8

-- Received ----------------------------------------------------------------------------------------

local Incoming = {}
Incoming.__index = Incoming

function transfers.incoming()
  return setmetatable({ partial = {}, count = 0 }, Incoming)
end

--- The first part of a body. False: too many are half here.
function Incoming:begin(header, bytes)
  self:drop(header.call_id)
  if self.count >= MAX_PARTIAL then
    return false
  end
  self.count = self.count + 1
  self.partial[header.call_id] = { header = header, parts = { bytes }, size = #bytes }
  return true
end

--- The next part of a body.
-- @return the header of the call and its whole body; nil when more has to come, or when the part
-- belongs to nothing; nil and a sentence for a part that does not follow, which drops the others
function Incoming:go_on(header, bytes)
  local partial, described = self.partial[header.call_id], header.body
  if not partial then
    return nil
  end
  local whole = partial.header.body
  if described.offset ~= partial.size then
    self:drop(header.call_id)
    return nil, "A part begins at " .. described.offset .. "; " .. partial.size .. " bytes are here."
  elseif described.total ~= whole.total or described.sha256 ~= whole.sha256 then
    self:drop(header.call_id)
    return nil, "A part is of another body than the first part."
  end
  partial.parts[#partial.parts + 1] = bytes
  partial.size = partial.size + #bytes
  if partial.size < whole.total then
    return nil
  end
  self:drop(header.call_id)
  return partial.header, table.concat(partial.parts)
end

--- Forgets what is here of a call.
function Incoming:drop(id)
  if self.partial[id] then
    self.partial[id] = nil
    self.count = self.count - 1
  end
end

-- Sent --------------------------------------------------------------------------------------------

local Outgoing = {}
Outgoing.__index = Outgoing

--- @tparam function send sends one frame: header, bytes, `{offset, total, sha256}`
function transfers.outgoing(send)
  return setmetatable({ send = send, queue = {}, unacknowledged = {}, moved_ms = 0 }, Outgoing)
end

local function send_next(self, item)
  local bytes = item.body:sub(item.offset + 1, item.offset + frame.MAX_BODY_BYTES)
  local header = item.offset == 0 and item.header or { type = "chunk", call_id = item.id }
  local described = { offset = item.offset, total = #item.body, sha256 = item.sha256 }
  item.offset = item.offset + #bytes
  if #self.unacknowledged == 0 then
    self.moved_ms = os.epoch("utc")
  end
  self.unacknowledged[#self.unacknowledged + 1] = { id = item.id, ending = item.offset }
  self.send(header, bytes, described)
end

--- Sends what the window lets through.
local function pump(self)
  if self.pumping then
    return
  end
  self.pumping = true
  while self.queue[1] do
    local item = self.queue[1]
    if item.turn then
      table.remove(self.queue, 1)
      item.turn()
    elseif item.offset == #item.body then
      table.remove(self.queue, 1)
    elseif #self.unacknowledged < MAX_UNACKNOWLEDGED then
      send_next(self, item)
    else
      break
    end
  end
  self.pumping = false
end

--- Queues a message whose body is over one frame.
function Outgoing:add(header, body, sha256)
  local item = { header = header, id = header.call_id, body = body, sha256 = sha256, offset = 0 }
  self.queue[#self.queue + 1] = item
  pump(self)
end

--- Calls `turn` when everything queued before it was sent.
function Outgoing:after(turn)
  self.queue[#self.queue + 1] = { turn = turn }
  pump(self)
end

--- Whether something of this call has still to go.
function Outgoing:has(id)
  for _, item in ipairs(self.queue) do
    if item.id == id then
      return true
    end
  end
  return false
end

--- The first frame of a call that waits, and the last one that an acknowledgement at `offset` means:
-- one that was lost on the way is made good by the next.
local function acknowledged_range(self, id, offset)
  local first, last, before
  for index, one in ipairs(self.unacknowledged) do
    if one.id == id then
      if not first then
        first, last = index, index
      elseif one.ending > before and one.ending <= offset then
        last = index
      else
        break
      end
      before = one.ending
    end
  end
  return first, last
end

--- A frame of a call, and so each one of it before, has arrived.
function Outgoing:acknowledged(id, offset)
  local first, last = acknowledged_range(self, id, offset)
  if not first then
    return
  end
  for index = last, first, -1 do
    if self.unacknowledged[index].id == id then
      table.remove(self.unacknowledged, index)
    end
  end
  self.moved_ms = os.epoch("utc")
  pump(self)
end

--- Sends no more of a call; the frames that went still count until they are acknowledged.
function Outgoing:drop(id)
  for index = #self.queue, 1, -1 do
    if self.queue[index].id == id then
      table.remove(self.queue, index)
    end
  end
  pump(self)
end

--- Whether nothing was acknowledged for so long that an acknowledgement must be lost.
function Outgoing:is_stuck(limit_ms)
  return #self.unacknowledged > 0 and os.epoch("utc") - self.moved_ms > limit_ms
end

--- The connection has ended.
function Outgoing:close()
  self.queue, self.unacknowledged = {}, {}
end

return transfers
