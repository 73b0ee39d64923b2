--- Dials the orchestrator, for ever: one socket at a time, each with a session of its own.
--
-- Events of a socket carry only its URL, so each connection has a nonce in the URL's query; events
-- of another URL are somebody else's. Only `websocketAsync` is used: the blocking functions throw
-- away every other event of the computer.
-- @module link

local nonce = require("nonce")
local Session = require("session")
local status = require("status")
local update = require("update")
local why = require("why")

local Link = {}
Link.__index = Link

local FIRST_DELAY_S, LAST_DELAY_S = 1, 12
--- The mod gives up a handshake after 30 s; its event may have been dropped, so we wait no longer.
local DIAL_WITHIN_S = 35

--- @tparam Route route where to dial, and with which token
--- @tparam table parts `{computer, calls, journal, log, subprotocol}`
function Link.new(route, parts)
  local self = { route = route, parts = parts, log = parts.log, failures = 0, dialled = {} }
  self.dial_at_ms = os.epoch("utc")
  return setmetatable(self, Link)
end

--- Full jitter: computers that lost one server do not come back in one moment.
local function later(self, delay_s)
  self.url, self.handle, self.session = nil, nil, nil
  self.dial_at_ms = os.epoch("utc") + delay_s * 1000
end

--- Says a reason, once for as long as it is the same one.
local function tell(self, fault)
  status.set("fault", fault.sentence)
  status.set("fault_code", fault.code)
  status.set("remedy", #fault.remedy > 0 and table.concat(fault.remedy, "\n") or nil)
  local text = why.text(fault)
  if text ~= self.told then
    self.told = text
    self.log(text)
  end
end

--- Reasons that a person has to take away first: dialling sooner is no use.
local LASTING = { token_refused = true, websockets_off = true, not_permitted = true }

--- Reasons that lie with a client that cannot find its way: somebody answered, or the address is none.
local ASTRAY = { not_ours = true, bad_address = true }

--- @tparam ?number again_s seconds that the server told; of many computers each is told its own
local function after_failure(self, fault, again_s)
  tell(self, fault)
  if again_s then
    return later(self, math.max(0, again_s - 1 + 2 * nonce.fraction()))
  end
  self.route:missed(fault.code == "token_refused")
  if ASTRAY[fault.code] then
    update.opened()
  end
  local ceiling = math.min(LAST_DELAY_S, FIRST_DELAY_S * 2 ^ self.failures)
  self.failures = math.min(self.failures + 1, 10)
  later(self, LASTING[fault.code] and LAST_DELAY_S or ceiling * nonce.fraction())
end

local function dial(self)
  local address, token = self.route:now()
  local separator = address:find("?", 1, true) and "&" or "?"
  local url = address .. separator .. "n=" .. nonce.name()
  self.address, self.dialled[address] = address, true
  local headers = { Authorization = "Bearer " .. token }
  headers["Sec-WebSocket-Protocol"] = self.parts.subprotocol
  self.url, self.dial_at_ms = url, nil
  self.give_up_ms = os.epoch("utc") + DIAL_WITHIN_S * 1000
  update.dialled()
  local called, ok, said = pcall(http.websocketAsync, url, headers)
  if not called or ok == false then
    after_failure(self, why.failed(address, called and said or ok))
  end
end

local function opened(self, handle)
  self.handle = handle
  update.opened()
  local socket = {
    send = function(bytes)
      handle.send(bytes, true)
    end,
    close = handle.close,
  }
  local parts = self.parts
  self.session = Session.new(socket, parts.computer, parts.calls, parts.journal, self.log)
  self.session:hello()
end

--- After a session has ended: when to dial again.
local function after_session(self)
  local session, url = self.session, self.address
  if session.refused then
    local cell, follows, what, remedy = session.refused.cell
    if cell then
      follows, what, remedy = self.route:follow(cell)
    end
    if follows then
      return later(self, 0)
    end
    self.route:missed()
    tell(
      self,
      why.refused(url, what and { code = "moved", message = what, remedy = remedy } or session.refused)
    )
    return later(self, LAST_DELAY_S)
  elseif session.welcomed then
    self.failures, self.told = 0, nil
  end
  after_failure(self, why.told("ended", url, session.ended))
end

--- Whether an address is one that this link dialled, with another nonce.
local function is_ours(self, url)
  local address = type(url) == "string" and url:match("^(.*)[?&]n=%x+$")
  return address and self.dialled[address]
end

--- Handles an event; true when it was one of our socket.
function Link:event(event)
  local name, url = event[1], event[2]
  if self.url == nil or url ~= self.url then
    -- A socket that was given up opened after all: it must not stay.
    if name == "websocket_success" and is_ours(self, url) then
      pcall(event[3].close)
    end
    return false
  elseif name == "websocket_success" and not self.session then
    opened(self, event[3])
  elseif name == "websocket_failure" then
    after_failure(self, why.failed(self.address, event[3]), why.again_s(event[3]))
  elseif name == "websocket_message" and self.session then
    local was_welcome = self.session.welcomed
    self.session:receive(event[3], event[4])
    if self.session.welcomed and not was_welcome then
      self.route:arrived(self.address, self.session.cell)
    end
  elseif name == "websocket_closed" and self.session then
    local reason = event[3] and event[3] ~= "" and " (" .. event[3] .. ")" or ""
    self.session:finish("closed by the other side" .. reason)
  else
    return false
  end
  if self.session and self.session.over then
    after_session(self)
  end
  return true
end

--- Tells a new label of this computer: what the last event did may have set one.
function Link:tell_labels()
  if self.session then
    self.session:tell_labels()
  end
end

--- Called about once a second, each 5 s where nothing is under way.
function Link:tick()
  local now = os.epoch("utc")
  if self.session then
    self.session:tick()
    if self.session.over then
      after_session(self)
    end
  elseif self.dial_at_ms then
    if now >= self.dial_at_ms then
      dial(self)
    end
  elseif now > self.give_up_ms then
    after_failure(self, why.failed(self.address, "Timed out"))
  end
end

--- Ends the connection for good.
function Link:close()
  if self.session then
    self.session:finish("this client has stopped")
  end
end

--- Seconds until something has to be done here; with a session, only its silence is looked at.
function Link:wait_s()
  if self.session then
    return math.huge
  end
  local left_s = self.dial_at_ms and (self.dial_at_ms - os.epoch("utc")) / 1000 or 1
  return math.max(0, math.min(1, left_s))
end

return Link
