--- What somebody types from outside: queued as the events that the game makes of a keyboard, once or not at all.
--
-- An event of ours goes after them: when it comes back, the computer has taken all that were before it. What
-- cannot be seen from outside cannot be typed at. docs/protocol.md section 1.8 is the specification.
-- @module typing

local desk = require("desk")
local input = require("input")
local json = require("json")
local screen = require("screen")
local sha256 = require("sha256")

local typing = {}

--- Our own event.
local TYPED = "cc_orchestrator_typed"
--- With three events each they take less than half of the computer's queue of 256.
local MAX_STROKES = 40
--- As much as the game pastes at once.
local MAX_PASTE_BYTES = 512
local TAKEN_WITHIN_MS = 3000

--- The session that asked last, and the highest number of what it had typed.
local session, highest
--- What is on its way through the queue: number = until when it is waited for.
local waiting = {}

local function answer(number, code, message)
  waiting[number] = nil
  session:send_frame({ type = "keyed", keys = number, ok = code == nil, code = code, message = message })
end

-- Strokes -----------------------------------------------------------------------------------------

--- Whether a keyboard of the game makes these bytes.
local function is_typed(text)
  return type(text) == "string" and text ~= "" and not text:find("[^\32-\126\160-\255]")
end

local STROKES = {}

function STROKES.key(name)
  local key = type(keys) == "table" and type(name) == "string" and keys[name]
  return type(key) == "number" and { { "key", key, false }, { "key_up", key } }
end

function STROKES.char(char)
  if not is_typed(char) or #char > 1 then
    return nil
  end
  local key = input.key_of(char)
  if not key then
    return { { "char", char } }
  end
  return { { "key", key, false }, { "char", char }, { "key_up", key } }
end

function STROKES.paste(text)
  return is_typed(text) and #text <= MAX_PASTE_BYTES and { { "paste", text } }
end

function STROKES.terminate(value)
  return value == true and { { "terminate" } }
end

--- The events of all strokes; nil where one is none.
local function events_of(list)
  local events = {}
  if type(list) ~= "table" or #list == 0 or #list > MAX_STROKES then
    return nil
  end
  for _, stroke in ipairs(list) do
    local kind, value = next(type(stroke) == "table" and stroke or {})
    local made = STROKES[kind] and STROKES[kind](value)
    if not made or next(stroke, kind) ~= nil then
      return nil
    end
    for _, event in ipairs(made) do
      events[#events + 1] = event
    end
  end
  return events
end

-- Messages ----------------------------------------------------------------------------------------

--- Why nothing can be typed now: a code and a sentence; nil: it can.
local function obstacle()
  local seen, why = screen.read()
  if not seen then
    return "unseen", why
  elseif not screen.is_in_front() then
    return "other_tab", "Another tab is in front at this computer: what is typed would go there."
  elseif desk.is_reviewed() then
    return "reviewed", "Somebody reviews at this computer: nobody types there from outside meanwhile."
  end
end

--- A message `keys`.
function typing.type(welcomed, message, body)
  if session ~= welcomed then
    session, highest, waiting = welcomed, 0, {}
  end
  local number = message.keys
  if number <= highest then
    -- Keys that are sent again must not be typed again.
    return
  end
  highest = number
  local code, why = obstacle()
  if code then
    return answer(number, code, why)
  end
  local events = sha256.hex(body) == message.body.sha256 and events_of(json.decode(body))
  if not events then
    return answer(number, "bad_keys", "This client does not know all of these keys: nothing was typed.")
  end
  for _, event in ipairs(events) do
    os.queueEvent(table.unpack(event))
  end
  waiting[number] = os.epoch("utc") + TAKEN_WITHIN_MS
  os.queueEvent(TYPED, number)
end

--- Handles an event of the computer.
function typing.event(event)
  if event[1] == TYPED and waiting[event[2]] and session then
    answer(event[2])
  end
end

--- A session has ended: nobody waits for an answer any more.
function typing.disconnected(ended)
  if session == ended then
    session, waiting = nil, {}
  end
end

--- Whether something that was typed is on its way.
function typing.is_busy()
  return next(waiting) ~= nil
end

--- Called about once a second while it is busy: a computer that is too busy drops events, and nobody knows which.
function typing.tick()
  local now = os.epoch("utc")
  for number, until_ms in pairs(waiting) do
    if now >= until_ms then
      answer(number, "unknown", "The computer is too busy: whether it was typed is not known.")
    end
  end
end

return typing
