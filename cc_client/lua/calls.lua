--- The life of a call: prepared, started, acted, recorded, answered, acknowledged.
--
-- What makes "once" true stands here: the fence, the count of open calls and the record `started`
-- are one function, and no result leaves before its outcome is in the journal.
-- @module calls

local failure = require("failure")
local frame = require("frame")
local Journal = require("journal")
local Loop = require("loop")
local methods = require("methods")
local sha256 = require("sha256")
local Swap = require("swap")

local Calls = {}
Calls.__index = Calls

local MAX_OPEN = 8
local MAX_KEPT = 64
--- Calls that are being prepared: nothing bounds them on disk, so this does.
local MAX_PENDING = 16
local RETRY_JOURNAL_S = 2

--- @tparam Journal journal
--- @tparam Loop loop
--- @tparam function log
function Calls.new(journal, loop, log)
  local self = { journal = journal, loop = loop, log = log, pending = {}, pending_count = 0, retained = {} }
  return setmetatable(self, Calls)
end

-- Answers -----------------------------------------------------------------------------------------

local function answer(self, header, body, body_sha256)
  if self.session then
    self.session:send(header, body, body_sha256)
  end
end

--- Says that a call never ran and never will.
function Calls:refuse(call, code, message)
  answer(self, { type = "call_refused", call_id = call.call_id, code = code, message = message })
end

--- Tells what a running program wrote, if somebody listens.
local function send_output(self, id, offset, text)
  if self.session then
    local described = { offset = offset, total = offset + #text, sha256 = sha256.hex(text) }
    self.session:send_frame({ type = "output", call_id = id }, text, described)
  end
end

--- Whether an outcome is still in memory whose body is over one frame.
function Calls:has_large_result(id)
  local kept, entry = self.retained[id], self.journal.state.calls[id]
  local is_over = entry and (entry.state == "ok" or entry.state == "failed")
  return is_over and kept and kept.body and #kept.body > frame.MAX_BODY_BYTES or false
end

--- Sends what is retained of an outcome, or what the journal still knows of it.
function Calls:send_result(id)
  local kept = self.retained[id]
  if not kept then
    local entry = self.journal.state.calls[id]
    local ok = entry.state == "ok"
    kept = { header = { ok = ok, code = entry.code, data = {} } }
  end
  local header = { type = "result", call_id = id }
  for key, value in pairs(kept.header) do
    header[key] = value
  end
  answer(self, header, kept.body, kept.body_sha256)
end

-- Starting ----------------------------------------------------------------------------------------

--- The one place where a call becomes started, or never will: fence, busy and the record.
-- @return true; or false, the code and the sentence of `call_refused`
local function start(self, call)
  local code, message
  local ok, why = self.journal:commit(function(state)
    local open, kept = Journal.count(state)
    if call.doomed or call.number < state.fence then
      code, message = "below_fence", "The fence is above this call's number."
    elseif open >= MAX_OPEN or kept >= MAX_KEPT then
      code, message = "busy", open .. " calls are open and " .. kept .. " outcomes are not acknowledged."
    end
    if code then
      return false
    end
    state.calls[call.call_id] = { state = "open", number = call.number }
    state.highest = math.max(state.highest, call.number)
  end)
  if ok then
    return true
  end
  return false, code or "journal_failed", message or why
end

--- What a method prepared; a failure becomes an act that answers with it.
local function prepare(call)
  local method = methods[call.method]
  local ok, plan = pcall(function()
    if not method then
      failure.raise("unknown_method", "This client does not have this method.")
    end
    return method(call.params, call.body, call.has_body, call)
  end)
  if ok then
    return plan
  end
  return {
    act = function()
      error(plan, 0)
    end,
  }
end

local function outcome_of(plan)
  local ok, outcome = pcall(plan.act)
  if ok then
    return outcome
  end
  local why = failure.of(outcome)
  return { ok = false, code = why.code, message = why.message, data = why.data or {} }
end

-- Recording ---------------------------------------------------------------------------------------

local function entry_of(outcome)
  if outcome.unknown then
    return { state = "unknown" }
  elseif outcome.ok then
    return { state = "ok", hash = outcome.hash, code = outcome.code }
  end
  return { state = "failed", code = outcome.code }
end

--- Writes the outcome, for as long as it takes: nothing may be said before. False: we must stop.
local function record(self, call, outcome)
  while true do
    local ok, message = self.journal:commit(function(state)
      state.calls[call.call_id] = entry_of(outcome)
    end)
    if ok or self.journal.stopped then
      return ok
    end
    self.log(message)
    Loop.sleep(RETRY_JOURNAL_S)
  end
end

local function retain(self, call, outcome)
  local header = { ok = outcome.ok, code = outcome.code, data = outcome.data }
  header.message = outcome.message and frame.short(outcome.message)
  local hash = outcome.body and (outcome.body_sha256 or sha256.hex(outcome.body, Loop.pause))
  self.retained[call.call_id] = { header = header, body = outcome.body, body_sha256 = hash }
end

local function forget_pending(self, call)
  self.pending[call.call_id] = nil
  self.pending_count = self.pending_count - 1
end

--- The whole life of one call, in a job.
local function perform(self, call)
  local body_sha256 = sha256.hex(call.body, Loop.pause)
  if call.has_body and body_sha256 ~= call.body_sha256 then
    forget_pending(self, call)
    local sentence = "The body does not have the sha256 that the header names."
    return self.session and self.session:complain("bad_frame", sentence, call.call_id)
  end
  local plan = prepare(call)
  -- What is not needed any more should not stay for as long as a program runs.
  call.body = nil
  local started, code, message = start(self, call)
  forget_pending(self, call)
  if not started then
    if plan.swap then
      plan.swap:remove()
    end
    return self:refuse(call, code, message)
  end
  answer(self, { type = "ack", call_id = call.call_id })
  local outcome = outcome_of(plan)
  retain(self, call, outcome)
  if not record(self, call, outcome) then
    return
  end
  if plan.swap and not outcome.unknown then
    plan.swap:remove()
  end
  self:send_result(call.call_id)
end

-- What the session asks ---------------------------------------------------------------------------

--- A call that is in the journal already is never run again.
local function answer_again(self, call, entry)
  if entry.state == "open" then
    answer(self, { type = "ack", call_id = call.call_id })
  elseif entry.state == "ok" or entry.state == "failed" then
    self:send_result(call.call_id)
  else
    self.session:complain("already_" .. entry.state, "This call was begun before a reboot.", call.call_id)
  end
end

--- Whether a call is in the journal or being prepared.
function Calls:knows(id)
  return self.journal.state.calls[id] ~= nil or self.pending[id] ~= nil
end

--- Takes a call of the present session.
function Calls:take(header, body)
  local entry = self.journal.state.calls[header.call_id]
  if entry then
    return answer_again(self, header, entry)
  elseif self.pending[header.call_id] then
    return
  elseif self.pending_count >= MAX_PENDING then
    return self:refuse(header, "busy", MAX_PENDING .. " calls are being prepared.")
  end
  local call = {
    call_id = header.call_id,
    number = header.number,
    method = header.method,
    params = header.params or {},
    body = body,
    has_body = header.body ~= nil,
    body_sha256 = header.body and header.body.sha256,
    pause = Loop.pause,
    next_event = Loop.next_event,
    spawn = function(...)
      self.loop:spawn(...)
    end,
    wake = function()
      self.loop:wake()
    end,
    output = function(offset, text)
      send_output(self, header.call_id, offset, text)
    end,
  }
  self.pending[call.call_id] = call
  self.pending_count = self.pending_count + 1
  self.loop:spawn(perform, self, call)
end

--- A call that was not started when its session ended never runs.
function Calls:session_ended()
  self.session = nil
  for _, call in pairs(self.pending) do
    call.doomed = true
  end
end

--- A call that was settled before it started never runs.
function Calls:doom(id)
  if self.pending[id] then
    self.pending[id].doomed = true
  end
end

local function settled_entry(self, id)
  local entry = self.journal.state.calls[id]
  if not entry then
    -- Doomed, or below the fence by now: it never ran and never will.
    return { call_id = id, state = "void" }
  elseif entry.state == "open" then
    return { call_id = id, state = "running" }
  elseif entry.state == "interrupted" or entry.state == "unknown" then
    return { call_id = id, state = entry.state }
  end
  if self.retained[id] and not self:has_large_result(id) then
    self:send_result(id)
  end
  local ok = entry.state == "ok"
  return { call_id = id, state = "finished", ok = ok, code = entry.code, sha256 = entry.hash }
end

--- What became of each id, for the body of `settled`; results still in memory are sent first, but
-- for those in parts, which the session has sent.
function Calls:settle(ids)
  local list = {}
  for index, id in ipairs(ids) do
    list[index] = settled_entry(self, id)
  end
  return list
end

--- Forgets an outcome that is durable at the server. Nil and a sentence when it must be kept.
function Calls:acknowledge(id, number)
  local entry = self.journal.state.calls[id]
  if entry and entry.state == "open" then
    return nil, "This call is still running."
  elseif not entry and number <= self.journal.state.highest then
    return true
  end
  local ok, message = self.journal:commit(function(state)
    state.calls[id] = nil
    state.highest = math.max(state.highest, number)
  end)
  if not ok then
    return nil, message
  end
  self.retained[id] = nil
  local swap = entry and Swap.find(id)
  if swap and entry.state == "unknown" then
    swap:keep()
  elseif swap then
    swap:remove()
  end
  return true
end

return Calls
