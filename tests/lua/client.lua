--- The client of a spec: journal, loop, calls and one session on a computer in memory.
-- @module client

local Calls = require("calls")
local json = require("json")
local Journal = require("journal")
local Loop = require("loop")
local Session = require("session")
local sha256 = require("sha256")
local Swap = require("swap")

local client = {}
client.__index = client

local boots = 0

--- Boots on a computer as main.lua does: decides what was open, then cleans. Nil without a journal.
function client.boot(machine)
  boots = boots + 1
  local journal = Journal.open("boot" .. boots)
  local ok, why = journal:begin(Swap.decide_all(journal.state.calls))
  if not ok then
    return nil, why
  end
  if journal.found then
    Swap.clean(journal.state.calls)
  end
  Swap.keep_spare()
  local self = { machine = machine, journal = journal, logged = {}, sent = {} }
  self.log = function(text)
    self.logged[#self.logged + 1] = text
  end
  self.loop = Loop.new(self.log)
  self.calls = Calls.new(journal, self.loop, self.log)
  return setmetatable(self, client)
end

--- Opens a session; what the client sends is decoded into `sent`.
function client:connect()
  self.sent = {}
  local link = {
    send = function(bytes)
      local line, body = bytes:match("^([^\n]*)\n(.*)$")
      local header = assert(json.decode(line))
      header.bytes = header.body and body or nil
      self.sent[#self.sent + 1] = header
    end,
    close = function()
      self.closed = true
    end,
  }
  local facts = { id = 7, host = "h", family = "computer", boot = "b", client = "0", capabilities = {} }
  self.session = Session.new(link, facts, self.calls, self.journal, self.log)
  self.session:hello()
  return self
end

--- Hands the session a message of the server.
function client:receive(header, body)
  if body then
    header.body = { offset = 0, total = #body, sha256 = sha256.hex(body) }
  end
  self.session:receive(json.encode(header) .. "\n" .. (body or ""), true)
end

--- Connects and is welcomed.
function client:welcome(number)
  self:connect()
  self:receive({ type = "welcome", number = number, computer = "alpha", silence_s = 45 })
  return self
end

--- Sends a call without running what it queued.
function client:send_call(id, number, method, params, body)
  local header =
    { type = "call", call_id = id, task = "t", number = number, method = method, params = params }
  self:receive(header, body)
end

--- The frames of a call whose body comes in parts, as a server sends them.
function client.parts(id, number, method, params, body)
  local hash, frames = sha256.hex(body), {}
  for offset = 0, #body - 1, 49152 do
    local header = { type = "chunk", call_id = id }
    if offset == 0 then
      header = { type = "call", call_id = id, task = "t", number = number, method = method, params = params }
    end
    header.body = { offset = offset, total = #body, sha256 = hash }
    frames[#frames + 1] = json.encode(header) .. "\n" .. body:sub(offset + 1, offset + 49152)
  end
  return frames
end

--- Hands the session raw frames.
function client:receive_all(frames)
  for _, bytes in ipairs(frames) do
    self.session:receive(bytes, true)
  end
end

--- Acknowledges what comes in parts until all of a result is here; its header, with the whole as `bytes`.
function client:whole_result(id)
  local whole, parts, size, index = nil, {}, 0, 1
  while index <= #self.sent do
    local one = self.sent[index]
    if one.call_id == id and (one.type == "result" or one.type == "chunk") then
      whole, parts[#parts + 1] = whole or one, one.bytes
      assert(one.body.offset == size, "a part does not follow")
      size = size + #one.bytes
      self:receive({ type = "chunk_ack", call_id = id, offset = size })
    end
    index = index + 1
  end
  assert(whole and size == whole.body.total, "not all parts came")
  whole.bytes = table.concat(parts)
  return whole
end

--- How many messages of a type were sent.
function client:count(kind)
  local count = 0
  for _, message in ipairs(self.sent) do
    count = count + (message.type == kind and 1 or 0)
  end
  return count
end

--- Hands queued events to the jobs until nothing is queued.
function client:settle_down()
  local events = self.machine.events
  while #events > 0 do
    self.loop:event(table.remove(events, 1))
  end
end

--- Sends a call, lets it run, and returns the last message that is about it.
function client:call(id, number, method, params, body)
  self:send_call(id, number, method, params, body)
  self:settle_down()
  return self:last(id)
end

--- The last message about a call, or nil.
function client:last(id)
  for index = #self.sent, 1, -1 do
    if self.sent[index].call_id == id then
      return self.sent[index]
    end
  end
end

--- The last message of a type, or nil.
function client:last_of(kind)
  for index = #self.sent, 1, -1 do
    if self.sent[index].type == kind then
      return self.sent[index]
    end
  end
end

--- Asks what became of one call; its entry in `settled`.
function client:ask(id, number)
  self:receive({ type = "settle", number = number, call_ids = json.array({ id }) })
  return json.decode(self:last_of("settled").bytes)[1]
end

return client
