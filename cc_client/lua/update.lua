--- Brings the client up to the one that its server hands out, while it works.
--
-- `welcome` says which client that is, signed with the key that came with the token. Another one than ours
-- is downloaded to the slot that does not run, checked, and named by the pointer; when nothing is open the
-- client ends with "restart", and boot.lua runs the new one. Whatever fails before that leaves what runs as it is.
-- @module update

local disk = require("disk")
local Loop = require("loop")
local nonce = require("nonce")
local sha256 = require("sha256")
local slots = require("slots")
local status = require("status")

local update = {
  --- Whether another client waits for this one to end.
  ready = false,
}

local FETCH_WITHIN_MS = 60000
--- What a client may have at most: no server of ours hands out more.
local MAX_BYTES = 200000
--- After a failure: next try, doubling up to an hour.
local FIRST_RETRY_S, LAST_RETRY_S = 30, 3600

--- How often a job that waits for its next try looks whether it is wanted sooner.
local LOOK_EVERY_S = 5

--- What is said of a client that is not from the server with which this computer was paired.
local FORGED = "Client %s is not signed with the key of this computer and is not used: somebody may stand between it"
  .. " and the server. If the server was set up anew, pair this computer again."

--- `hurry`: somebody asked, or the server is back, since the last try. `counts`: this start still counts
-- as a try of a client on trial.
local loop, slot, server, offer, working, hurry, counts
--- By which offers of our server are known, and what they are made for.
local key, boot

--- @tparam Loop run_in
--- @tparam ?string running the slot that this client was started from; nil: it never updates
--- @tparam string url of the server's socket
-- @tparam ?string update_key that came with the token; nil: an early installer got none, and any offer counts
-- @tparam ?string this_boot as hello says it
function update.start(run_in, running, url, update_key, this_boot)
  key, boot = update_key, this_boot
  loop, slot, offer, working, update.ready = run_in, running, nil, false, false
  counts = true
  server = url:gsub("^ws", "http"):gsub("/computer$", "")
end

-- Fetching ----------------------------------------------------------------------------------------

local function body_of(response)
  local ok, body = pcall(response.readAll)
  pcall(response.close)
  return ok and body or ""
end

--- The text at a URL, or nil and why not; inside a job.
local function fetch(url)
  local called, ok, why = pcall(http.request, url, nil, nil, true)
  if not called or ok == false then
    return nil, tostring(called and why or ok)
  end
  local until_ms = os.epoch("utc") + FETCH_WITHIN_MS
  while os.epoch("utc") < until_ms do
    local event = Loop.next_event()
    if event and event[2] == url and event[1] == "http_success" then
      return body_of(event[3])
    elseif event and event[2] == url and event[1] == "http_failure" then
      return nil, tostring(event[3])
    end
  end
  return nil, "no answer"
end

--- The offered client's text, or nil and why not.
local function download(wanted)
  local text, why = fetch(server .. "/client.lua?n=" .. nonce.name())
  if not text then
    return nil, why
  elseif #text ~= wanted.size or sha256.hex(text, Loop.pause) ~= wanted.sha256 then
    return nil, "it did not arrive whole"
  elseif not slots.is_whole(text) then
    return nil, "it is no client that can run here"
  end
  return text
end

-- Replacing ---------------------------------------------------------------------------------------

--- Writes the other slot and lets the pointer name it. True, or nil and why not.
local function put(wanted, text)
  local other = slots.other(slot)
  local old = disk.read(slots.path(other))
  local missing = #text - #(old or "") - disk.free_bytes(disk.OWN)
  if missing > 0 then
    return nil, ("the disk is full: delete files of %d bytes"):format(missing)
  end
  local ok, why = disk.write(slots.path(other), text)
  if not ok or disk.read(slots.path(other)) ~= text then
    return nil, why or "the disk does not keep it"
  end
  return slots.write(slots.flipped(slots.read(), other, wanted.sha256))
end

--- What is to be done about an offer: "same", "bad", "unconfirmed", or "get".
local function judge(wanted)
  local own, pointer = disk.read(slots.path(slot)) or "", slots.read()
  if #own == wanted.size and sha256.hex(own, Loop.pause) == wanted.sha256 then
    return "same"
  elseif pointer and slots.is_bad(pointer, wanted.sha256) then
    return "bad"
  end
  return pointer and pointer.state == "trial" and "unconfirmed" or "get"
end

--- Whether an offer comes from the server that gave this computer its key, and is meant for this boot.
local function is_genuine(wanted)
  if not key then
    return true
  end
  local said =
    { "cc-orchestrator client", wanted.version, ("%d"):format(wanted.size), wanted.sha256, tostring(boot) }
  return wanted.mac == sha256.hmac(key, table.concat(said, "\n"))
end

local function say(sentence, ...)
  sentence = sentence and sentence:format(...)
  status.set("update", sentence)
  if sentence then
    status.note(sentence)
  end
end

--- Waits for the next try, or until it is wanted sooner; inside a job.
local function pause(wanted, delay_s)
  local until_ms = os.epoch("utc") + delay_s * 1000
  while offer == wanted and not hurry and os.epoch("utc") < until_ms do
    Loop.sleep(math.min(LOOK_EVERY_S, delay_s))
  end
end

--- Tries until it is done or another offer counts; inside a job.
local function bring(wanted)
  local delay_s = FIRST_RETRY_S
  while offer == wanted do
    hurry = false
    local text, why = download(wanted)
    local ok = text ~= nil
    if ok then
      ok, why = put(wanted, text)
    end
    if ok then
      update.ready = true
      return say("Client %s is here; it starts when nothing is being done.", wanted.version)
    end
    say("Client %s could not be fetched: %s. Next try in %d s.", wanted.version, why, delay_s)
    pause(wanted, delay_s)
    delay_s = math.min(LAST_RETRY_S, 2 * delay_s)
  end
end

local function work(by_hand)
  local wanted
  repeat
    wanted = offer
    local found = judge(wanted)
    if found == "same" then
      say(nil)
    elseif wanted.is_forged then
      say(FORGED, wanted.version)
    elseif found == "bad" and not by_hand then
      say("Client %s did not run here and is not used; `cc update` tries it again.", wanted.version)
    elseif found ~= "unconfirmed" then
      bring(wanted)
    end
  until offer == wanted
  working = false
end

local function begin(by_hand)
  hurry = true
  if not working and not update.ready then
    working = true
    loop:spawn(work, by_hand)
  end
end

-- What others call --------------------------------------------------------------------------------

--- The pointer, if this client is on trial; else nil.
local function own_trial()
  local pointer = slots.read()
  return pointer and pointer.slot == slot and pointer.state == "trial" and pointer or nil
end

--- The server has taken this computer in: this client is good.
local function confirm()
  local pointer = own_trial()
  if pointer then
    pointer.state, pointer.tries = "good", 0
    slots.write(pointer)
  end
end

--- Lets this start count as a try of this client, if it is on trial, or not.
local function count(is_try)
  local pointer = counts ~= is_try and own_trial()
  counts = is_try
  if pointer then
    pointer.tries = math.max(0, pointer.tries + (is_try and 1 or -1))
    slots.write(pointer)
  end
end

--- The client dials: as long as no server is reached, that tells nothing about this client.
function update.dialled()
  count(false)
end

--- A server is reached: a client that is not welcome there now has failed.
function update.opened()
  count(true)
end

--- Called at each welcome.
-- @tparam ?table offered `{version, size, sha256, mac}` of the server's client
function update.welcomed(offered)
  if not slot then
    return
  end
  confirm()
  if offered and offered.size <= MAX_BYTES then
    offered.is_forged = not is_genuine(offered)
    local is_known = offer and offer.sha256 == offered.sha256 and not offer.is_forged
    offer = is_known and offer or offered
    begin(false)
  end
end

--- A person asks for it: what did not run here is tried again. A sentence.
function update.by_hand()
  if not slot then
    return "This client was not started by boot.lua, so it cannot replace itself: type `cc start`."
  elseif not offer then
    return "The server has not said which client it hands out."
  end
  begin(true)
  if offer.is_forged then
    return FORGED:format(offer.version)
  end
  local present = "The server hands out client " .. offer.version .. "."
  return present
    .. (update.ready and " It starts when nothing is being done." or " If this is another, it comes.")
end

return update
