--- Frames of the computer channel: one header line of ASCII JSON, a newline, the body.
--
-- docs/protocol.md sections 1.2 to 1.4 are the specification. What the server may send stands in
-- one table below; whatever is not in it is refused here, so the session sees only sound messages.
-- The sha256 of a body is not checked here but by its user, in slices. A body over one frame
-- comes in parts; transfers.lua puts them together.
-- @module frame

local json = require("json")

local frame = {}

frame.MAX_HEADER_BYTES = 4096
frame.MAX_BODY_BYTES = 49152
--- What all frames of one body carry together.
frame.MAX_WHOLE_BYTES = 2097152
frame.MAX_FRAME_BYTES = frame.MAX_HEADER_BYTES + 1 + frame.MAX_BODY_BYTES

-- The checks of a field --------------------------------------------------------------------------

local CHECKS = {}

function CHECKS.counter(value)
  return type(value) == "number" and value >= 0
end

function CHECKS.text(value)
  return type(value) == "string"
end

function CHECKS.flag(value)
  return type(value) == "boolean"
end

function CHECKS.call_id(value)
  return type(value) == "string" and #value <= 24 and value:find("^[%w_.-]+$") ~= nil
end

function CHECKS.object(value)
  return type(value) == "table" and not json.is_array(value)
end

function CHECKS.call_ids(value)
  if not json.is_array(value) then
    return false
  end
  for _, id in ipairs(value) do
    if not CHECKS.call_id(id) then
      return false
    end
  end
  return true
end

local function describes_body(value)
  return CHECKS.object(value)
    and CHECKS.counter(value.offset)
    and CHECKS.counter(value.total)
    and value.total <= frame.MAX_WHOLE_BYTES
    and type(value.sha256) == "string"
    and value.sha256:find("^" .. ("[0-9a-f]"):rep(64) .. "$") ~= nil
end

--- The whole body, or its first part.
function CHECKS.body(value)
  return describes_body(value) and value.offset == 0
end

--- A later part of a body.
function CHECKS.part(value)
  return describes_body(value) and value.offset > 0 and value.offset < value.total
end

--- The client that the server hands out.
function CHECKS.client(value)
  return CHECKS.object(value)
    and CHECKS.text(value.version)
    and CHECKS.counter(value.size)
    and CHECKS.text(value.sha256)
    and (value.mac == nil or CHECKS.text(value.mac))
end

--- The place of a cell.
function CHECKS.cell(value)
  return CHECKS.object(value) and CHECKS.text(value.name) and CHECKS.text(value.url)
end

--- What the server may send: field = check, with a trailing `?` where it may be left out.
local FROM_SERVER = {
  welcome = {
    number = "counter",
    computer = "text",
    silence_s = "counter?",
    client = "client?",
    labels = "flag?",
    cell = "cell?",
  },
  refused = { code = "text", message = "text", remedy = "text?", cell = "cell?" },
  call = {
    call_id = "call_id",
    task = "text",
    number = "counter",
    method = "text",
    params = "object?",
    body = "body?",
  },
  settle = { number = "counter", call_ids = "call_ids" },
  result_ack = { call_id = "call_id", number = "counter" },
  label_kept = { n = "counter" },
  chunk = { call_id = "call_id", body = "part" },
  chunk_ack = { call_id = "call_id", offset = "counter" },
  told = {
    desk = "call_id",
    ok = "flag",
    done = "flag",
    code = "text?",
    message = "text?",
    task = "text?",
    version = "counter?",
    body = "body?",
  },
  watch = { watch = "counter", of = "text?", lease_s = "counter", heard = "counter?" },
  look = { look = "counter" },
  keys = { keys = "counter", body = "body" },
  ping = { n = "counter", clock = "flag?", where = "flag?" },
  error = { code = "text", message = "text", call_id = "call_id?", journal_seq = "counter?" },
}

--- The first thing wrong with a header, or nil.
local function fault(header)
  if not CHECKS.object(header) or type(header.type) ~= "string" then
    return "The header is not an object with a type."
  end
  local fields = FROM_SERVER[header.type]
  if not fields then
    return "A server does not send this type of message."
  end
  for name, check in pairs(fields) do
    local optional = check:sub(-1) == "?"
    local value = header[name]
    if value == nil and not optional or value ~= nil and not CHECKS[check:gsub("%?", "")](value) then
      return "The field " .. name .. " of " .. header.type .. " is missing or wrong."
    end
  end
  for name in pairs(header) do
    if name ~= "type" and not fields[name] then
      return "A " .. header.type .. " has a field that it should not have."
    end
  end
end

--- The longest text that a header carries as `message`.
local MAX_MESSAGE_BYTES = 160

--- Cuts a sentence so that it fits a header even if each byte must be escaped.
function frame.short(message)
  message = tostring(message)
  return #message <= MAX_MESSAGE_BYTES and message or message:sub(1, MAX_MESSAGE_BYTES - 3) .. "..."
end

--- One frame as bytes.
-- @tparam table header the message; its `body` is filled in here
-- @tparam ?string bytes of the body that this frame carries
-- @tparam ?table described `{offset, total, sha256}`
-- @return the bytes, or nil and a sentence when a limit is passed
function frame.encode(header, bytes, described)
  if bytes and #bytes > frame.MAX_BODY_BYTES then
    return nil, "The body has " .. #bytes .. " bytes, over " .. frame.MAX_BODY_BYTES .. "."
  end
  header.body = described
  local line = json.encode(header)
  if #line > frame.MAX_HEADER_BYTES then
    return nil, "The header has " .. #line .. " bytes, over " .. frame.MAX_HEADER_BYTES .. "."
  end
  return line .. "\n" .. (bytes or "")
end

--- The bytes of a body that its frame carries: every frame but the last is full.
local function part_bytes(described)
  return described and math.min(described.total - described.offset, frame.MAX_BODY_BYTES) or 0
end

--- A message of the server as header and body; or nil, a sentence and a call id if one is known.
function frame.decode(message)
  local newline = message:sub(1, frame.MAX_HEADER_BYTES + 1):find("\n", 1, true)
  if not newline then
    return nil, "The frame has no header line within " .. frame.MAX_HEADER_BYTES .. " bytes."
  end
  local header, what = json.decode(message:sub(1, newline - 1))
  if header == nil then
    return nil, "The header is not JSON of this protocol: " .. what .. "."
  end
  what = fault(header)
  local call_id = type(header) == "table" and CHECKS.call_id(header.call_id) and header.call_id or nil
  if what then
    return nil, what, call_id
  end
  local body = message:sub(newline + 1)
  if #body ~= part_bytes(header.body) then
    return nil, "The body has not the length that the header names.", call_id
  end
  return header, body
end

return frame
