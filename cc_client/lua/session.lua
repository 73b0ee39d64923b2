--- One connection to the orchestrator: hello, welcome, then messages until it ends.
--
-- A session is used once; after its end main.lua makes a new one. Nothing that the server sends may
-- raise into the loop: what is wrong is answered with `error`, and the connection goes on, up to a
-- number of broken frames.
-- @module session

local desk = require("desk")
local frame = require("frame")
local json = require("json")
local labels = require("labels")
local mirror = require("mirror")
local sha256 = require("sha256")
local status = require("status")
local transfers = require("transfers")
local typing = require("typing")
local update = require("update")
local whereabouts = require("whereabouts")

local Session = {}
Session.__index = Session

Session.PROTOCOL = 1
local MAX_BROKEN = 16
--- Ours, before any program can put another in its place.
local clock = os.clock
--- Until `welcome` names another: two lost pings and some lag.
local SILENCE_S = 100

--- @tparam table link `{send(bytes), close()}` of the socket; send may raise
--- @tparam table computer facts for hello: `host family boot client capabilities id`
--- @tparam Calls calls
--- @tparam Journal journal
--- @tparam function log
function Session.new(link, computer, calls, journal, log)
  local self = { link = link, computer = computer, calls = calls, journal = journal, log = log }
  self.broken, self.silence_s, self.heard_ms = 0, SILENCE_S, os.epoch("utc")
  self.welcomed, self.over, self.refused = false, false, false
  -- The number of the label that was told last; nil: the server hears of no labels, as older ones.
  self.told_label = nil
  -- The place of the cell that welcomed this computer; nil: it named none.
  self.cell = nil
  self.incoming = transfers.incoming()
  self.outgoing = transfers.outgoing(function(...)
    self:send_frame(...)
  end)
  return setmetatable(self, Session)
end

-- Sending -----------------------------------------------------------------------------------------

--- Sends one frame; when the socket is gone, the session is over.
-- @tparam ?table described `{offset, total, sha256}` of the body, when there are bytes of one
-- @treturn ?number the bytes of the frame; nil: it was not sent
function Session:send_frame(header, bytes, described)
  if self.over then
    return
  end
  if header.type ~= "hello" and header.type ~= "error" then
    if header.type ~= "label" then
      self:tell_labels()
    end
    header.journal_seq = self.journal.state.seq
  end
  local message, what = frame.encode(header, bytes, described)
  if not message then
    -- A path or sentence of escaped bytes was too long for the header: the outcome goes without.
    header.data, header.message = header.data and {}, frame.short(what)
    message = frame.encode(header, bytes, described)
  end
  local ok, why = pcall(self.link.send, message)
  if not ok then
    return self:finish("cannot send: " .. tostring(why))
  end
  return #message
end

--- Tells the labels that this session has not told: before any answer, as the next call is judged with them.
function Session:tell_labels()
  while self.told_label and not self.over do
    local entry = labels.after(self.told_label)
    if not entry then
      return
    end
    self.told_label = entry.n
    self:send_frame({ type = "label", n = entry.n, label = entry.label })
  end
end

--- Sends a message, one with a large body in parts and when its turn comes.
function Session:send(header, body, body_sha256)
  if self.over then
    return
  elseif body and #body > frame.MAX_BODY_BYTES then
    self.outgoing:add(header, body, body_sha256)
  else
    self:send_frame(header, body, body and { offset = 0, total = #body, sha256 = body_sha256 })
  end
end

--- Tells the server that it broke the protocol.
function Session:complain(code, message, call_id)
  self:send({ type = "error", code = code, message = frame.short(message), call_id = call_id })
end

--- Introduces this computer with what its journal holds.
function Session:hello()
  local state, ids = self.journal.state, json.array({})
  for id in pairs(state.calls) do
    ids[#ids + 1] = id
  end
  table.sort(ids)
  local computer = self.computer
  self:send({
    type = "hello",
    protocol = Session.PROTOCOL,
    computer_id = computer.id,
    label = labels.now(),
    host = computer.host,
    family = computer.family,
    boot = computer.boot,
    client = computer.client,
    capabilities = json.array(computer.capabilities),
    highest = state.highest,
    journal_seq = state.seq,
    found_seq = state.found_seq,
    calls = ids,
  })
end

--- Ends the session; what was not started in it never runs.
function Session:finish(why)
  if self.over then
    return
  end
  self.over, self.ended = true, why
  status.set("connected_ms", nil)
  self.outgoing:close()
  self.calls:session_ended()
  desk.disconnected(self)
  mirror.disconnected(self)
  typing.disconnected(self)
  pcall(self.link.close)
end

-- Receiving ---------------------------------------------------------------------------------------

--- Raises the fence durably; true, or the session hears why not.
local function raise_fence(self, number, forget_found)
  local ok, why = self.journal:commit(function(state)
    state.fence = math.max(state.fence, number)
    state.highest = math.max(state.highest, number)
    if forget_found then
      state.found_seq = nil
    end
  end)
  if not ok then
    self:complain("journal_failed", why)
  end
  return ok
end

local function broken(self, code, what, call_id)
  self.broken = self.broken + 1
  self:complain(code, what, call_id)
  if self.broken > MAX_BROKEN then
    self:finish("too many broken frames")
  end
end

local HANDLERS = {}

function HANDLERS.welcome(self, message)
  if self.welcomed then
    return self:complain("out_of_order", "This session was welcomed already.")
  elseif not raise_fence(self, message.number, true) then
    return self:finish("the journal cannot be written")
  end
  self.welcomed = true
  self.silence_s = math.max(1, message.silence_s or SILENCE_S)
  self.told_label = message.labels and 0 or nil
  self.cell = message.cell
  self.calls.session = self
  self.log("welcome as " .. message.computer)
  status.set("computer", message.computer)
  status.set("connected_ms", os.epoch("utc"))
  update.welcomed(message.client)
  desk.connected(self)
end

function HANDLERS.refused(self, message)
  self.refused = message
  self:finish("the orchestrator refused this computer")
end

--- A frame of a body in parts has come; also when nobody wants it any more.
local function acknowledge_part(self, message, body)
  local offset = message.body.offset + #body
  self:send({ type = "chunk_ack", call_id = message.call_id, offset = offset })
end

function HANDLERS.call(self, message, body)
  if not message.body or message.body.total == #body then
    return self.calls:take(message, body)
  end
  acknowledge_part(self, message, body)
  if self.calls:knows(message.call_id) then
    self.calls:take(message, body)
  elseif not self.incoming:begin(message, body) then
    self.calls:refuse(message, "busy", "Too many calls are half here already.")
  end
end

function HANDLERS.chunk(self, message, body)
  acknowledge_part(self, message, body)
  local call, whole = self.incoming:go_on(message, body)
  if call then
    self.calls:take(call, whole)
  elseif whole then
    broken(self, "bad_frame", whole, message.call_id)
  end
end

function HANDLERS.chunk_ack(self, message)
  self.outgoing:acknowledged(message.call_id, message.offset)
end

--- Answers a settle as soon as the results in parts that it speaks of have gone out.
-- @tparam table queued ids whose results stand in the queue already
local function answer_settle(self, message, queued)
  local waits = false
  for _, id in ipairs(message.call_ids) do
    if not queued[id] and self.calls:has_large_result(id) then
      queued[id], waits = true, true
      if not self.outgoing:has(id) then
        self.calls:send_result(id)
      end
    end
  end
  if waits then
    return self.outgoing:after(function()
      answer_settle(self, message, queued)
    end)
  end
  local body = json.encode(json.array(self.calls:settle(message.call_ids)))
  self:send({ type = "settled", number = message.number }, body, sha256.hex(body))
end

function HANDLERS.settle(self, message)
  if not raise_fence(self, message.number, false) then
    return
  end
  for _, id in ipairs(message.call_ids) do
    self.incoming:drop(id)
    self.calls:doom(id)
  end
  answer_settle(self, message, {})
end

function HANDLERS.result_ack(self, message)
  local ok, why = self.calls:acknowledge(message.call_id, message.number)
  if not ok then
    self:complain("not_forgotten", why, message.call_id)
  end
end

function HANDLERS.label_kept(_, message)
  labels.kept(message.n)
end

function HANDLERS.told(self, message, body)
  desk.told(message, body, self.log)
end

function HANDLERS.watch(self, message)
  mirror.watch(self, message)
end

function HANDLERS.look(self, message)
  mirror.look(self, message)
end

function HANDLERS.keys(self, message, body)
  typing.type(self, message, body)
end

--- A second client on this computer has the journal: only that one lives, and two would look like a copy.
function HANDLERS.ping(self, message)
  if self.journal:has_stopped() then
    return self:finish("another client works on this computer")
  end
  -- Of a game that is paused the clock stands still.
  local clock_ms = message.clock and math.floor(clock() * 1000 + 0.5) or nil
  local told = message.where and whereabouts.told() or {}
  told.type, told.n, told.clock_ms = "pong", message.n, clock_ms
  self:send(told)
end

--- An error is only logged: answering it could go on for ever.
function HANDLERS.error(self, message)
  self.log("the orchestrator says " .. frame.short(message.code .. ": " .. message.message))
  if message.call_id then
    self.outgoing:drop(message.call_id)
  else
    desk.complained(message)
  end
end

--- What may come before welcome.
local EARLY = { welcome = true, refused = true, ping = true, error = true }

--- Handles one message of the socket.
function Session:receive(bytes, is_binary)
  if self.over then
    return
  end
  self.heard_ms = os.epoch("utc")
  if #bytes > frame.MAX_FRAME_BYTES then
    self:complain("too_large", "The frame has " .. #bytes .. " bytes, over " .. frame.MAX_FRAME_BYTES .. ".")
    return self:finish("a frame was too large")
  elseif is_binary == false then
    return broken(self, "bad_frame", "A frame must be binary.")
  end
  local header, body, call_id = frame.decode(bytes)
  if not header then
    return broken(self, "bad_frame", body, call_id)
  elseif not self.welcomed and not EARLY[header.type] then
    return broken(self, "not_welcomed", "A " .. header.type .. " came before welcome.", header.call_id)
  end
  local ok, why = pcall(HANDLERS[header.type], self, header, body)
  if not ok then
    self.log("internal error: " .. tostring(why))
    self:complain("internal", tostring(why), header.call_id)
  end
end

--- Called each 5 s or more often: a server that is silent, or takes no parts, for too long is gone.
function Session:tick()
  if os.epoch("utc") - self.heard_ms > self.silence_s * 1000 then
    self:finish("heard nothing for " .. self.silence_s .. " s")
  elseif self.outgoing:is_stuck(self.silence_s * 1000) then
    self:finish("no part was acknowledged for " .. self.silence_s .. " s")
  end
end

return Session
